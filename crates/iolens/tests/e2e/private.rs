//! Only the owner can read written data, and it is written to the requested place, no matter which user owns the
//! directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::import::imported;
use super::machine::{assert_refused, file_with, iolens, run, scene};

const LOG: &[u8] =
    b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.000 app 7 vda R 8 4096 0.50\n1.000 app 7 vda W 8 4096 0.50\n";

/// Runs the program with this umask.
fn with_umask(dir: &Path, umask: &str, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_iolens");
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, program])
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The modes of a directory and its content: (directories, files).
fn modes(dir: &Path) -> (Vec<u32>, Vec<u32>) {
    let mut dirs = vec![mode(dir)];
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (d, f) = modes(&path);
            dirs.extend(d);
            files.extend(f);
        } else {
            files.push(mode(&path));
        }
    }
    dirs.sort_unstable();
    dirs.dedup();
    files.sort_unstable();
    files.dedup();
    (dirs, files)
}

fn assert_modes(dir: &Path, directory: u32, file: u32) {
    assert_eq!(
        modes(dir),
        (vec![directory], vec![file]),
        "{}",
        dir.display()
    );
}

#[test]
fn recordings_and_reports_are_private_whatever_the_umask_unless_shared() {
    let tmp = tempfile::tempdir().unwrap();
    file_with(tmp.path(), "log", LOG);
    for umask in ["0", "022", "077"] {
        let rec = format!("rec{umask}");
        let raw = format!("raw{umask}");
        let out = with_umask(tmp.path(), umask, &["import", "log", "-o", &rec]);
        assert!(out.status.success(), "{}", scene(&out));
        assert_modes(&tmp.path().join(&rec), 0o700, 0o600);
        let out = with_umask(
            tmp.path(),
            umask,
            &["record", "-q", "--counters-raw", &raw, "--for", "1ms"],
        );
        assert!(out.status.success(), "{}", scene(&out));
        assert_eq!(
            mode(&tmp.path().join(&raw)),
            0o700,
            "what is below cannot be reached"
        );
    }
    let out = with_umask(
        tmp.path(),
        "077",
        &["import", "log", "-o", "shared", "--mode", "0644"],
    );
    assert!(out.status.success(), "{}", scene(&out));
    assert_modes(&tmp.path().join("shared"), 0o755, 0o644);
    let group = rustix::process::getegid().as_raw().to_string();
    let out = with_umask(
        tmp.path(),
        "077",
        &["import", "log", "-o", "grouped", "--group", &group],
    );
    assert!(out.status.success(), "{}", scene(&out));
    assert_modes(&tmp.path().join("grouped"), 0o750, 0o640);
    let out = with_umask(
        tmp.path(),
        "0",
        &["import", "log", "-o", "wide", "--mode", "0666"],
    );
    assert_refused(&out, &["--mode", "0644"]);
}

#[test]
fn a_live_recording_is_private() {
    let tmp = tempfile::tempdir().unwrap();
    let words = [
        "record", "-q", "--source", "counters", "-o", "rec", "--for", "50ms",
    ];
    let out = with_umask(tmp.path(), "0", &words);
    assert!(out.status.success(), "{}", scene(&out));
    assert_modes(&tmp.path().join("rec"), 0o700, 0o600);
}

/// A recording, and whether a page can be made here.
fn recording(tmp: &Path) -> Option<PathBuf> {
    let rec = imported(tmp, "rec", &[file_with(tmp, "log", LOG)], &[]);
    let out = run(&[
        "report",
        rec.to_str().unwrap(),
        "-o",
        tmp.join("try.html").to_str().unwrap(),
    ]);
    if String::from_utf8_lossy(&out.stderr).contains("without the HTML page") {
        eprintln!("SKIP: built without the HTML page");
        return None;
    }
    assert!(out.status.success(), "{}", scene(&out));
    assert_eq!(mode(&tmp.join("try.html")), 0o600);
    Some(rec)
}

#[test]
fn a_report_follows_no_planted_link() {
    let tmp = tempfile::tempdir().unwrap();
    let Some(rec) = recording(tmp.path()) else {
        return;
    };
    let victim = file_with(tmp.path(), "victim", b"precious");
    for planted in ["r.html.part", "r.html.tmp", "r.part", "r.html"] {
        symlink(&victim, tmp.path().join(planted)).unwrap();
    }
    let out = iolens(&["report", rec.to_str().unwrap(), "-o", "r.html"])
        .current_dir(tmp.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(
        fs::symlink_metadata(tmp.path().join("r.html"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn invalid_targets_are_refused_by_name() {
    let tmp = tempfile::tempdir().unwrap();
    let Some(rec) = recording(tmp.path()) else {
        return;
    };
    let report = |to: &str| {
        iolens(&["report", rec.to_str().unwrap(), "-o", to])
            .current_dir(tmp.path())
            .output()
            .unwrap()
    };
    assert_refused(&report("."), &[". cannot be written", "directory"]);
    assert_refused(&report("rec"), &["rec cannot be written", "directory"]);
    assert_refused(&report("/dev/null"), &["/dev/null"]);
    let open = tmp.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(
        &report("open/r.html"),
        &["other users may write", "open", "0777"],
    );
    let log = tmp.path().join("log");
    let out = run(&[
        "import",
        log.to_str().unwrap(),
        "-o",
        open.join("rec").to_str().unwrap(),
    ]);
    assert_refused(&out, &["other users may write", "0777"]);
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
}

#[test]
fn lab_clean_ignores_lists_of_other_users() {
    let tmp = tempfile::tempdir().unwrap();
    let victim = tmp.path().join("victim");
    let experiment = tmp.path().join("experiment");
    fs::create_dir(&victim).unwrap();
    fs::create_dir(&experiment).unwrap();
    file_with(&victim, "precious", b"");
    let clean = || {
        let out = iolens(&["lab", "clean", "experiment"])
            .env("XDG_STATE_HOME", tmp.path().join("state"))
            .current_dir(tmp.path())
            .output()
            .unwrap();
        assert!(victim.join("precious").exists(), "{}", scene(&out));
        out
    };
    for planted in [
        format!("tree\t{}\n", victim.display()),
        "0123456789abcdef".repeat(2),
    ] {
        file_with(&experiment, "scratch.list", planted.as_bytes());
        assert_refused(
            &clean(),
            &["experiment/scratch.list", "not of this user's iolens"],
        );
    }
    fs::remove_file(experiment.join("scratch.list")).unwrap();
    assert!(clean().status.success());
}
