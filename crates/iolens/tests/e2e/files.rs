//! File-level requests from recording to table.

use super::machine::{assert_refused, ebpf, run, scene};

#[test]
fn a_commands_files_are_recorded_and_told() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let rec = tmp.path().join("r.iolens");
    let rec = rec.to_str().unwrap();
    let data = tmp.path().join("data file");
    let script = "dd if=/dev/zero of=\"$1\" bs=8192 count=5 conv=fsync; cat \"$1\" > /dev/null; cat \"$1\" > /dev/null";
    let out = run(&["record", "--files", "-o", rec, "--", "sh", "-c", script, "sh", data.to_str().unwrap()]);
    assert!(out.status.success(), "{}", scene(&out));
    assert!(String::from_utf8_lossy(&out.stdout).contains("file-level requests, 0 lost"), "{}", scene(&out));

    let out = run(&["files", rec, "--json", "--by", "path"]);
    assert!(out.status.success(), "{}", scene(&out));
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let groups = v["files"]["groups"].as_array().unwrap();
    let ours = groups.iter().find(|g| g["key"].as_str().unwrap().ends_with("/data file")).expect("the file");
    // One that wrote, two that read, and the fsync.
    assert_eq!((&ours["requests"], &ours["syncs"]), (&4.into(), &1.into()), "{ours:#}");
    assert_eq!((&ours["bytes_in"], &ours["bytes_out"]), (&81_920.into(), &40_960.into()), "{ours:#}");

    let out = run(&["files", rec]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("Requests \"in\"") && text.contains("Syncs, microseconds"), "{}", scene(&out));
}

#[test]
fn a_recording_without_requests_and_a_wrong_cgroup_are_told_in_one_line() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir().unwrap();
    let rec = tmp.path().join("r.iolens");
    let rec = rec.to_str().unwrap();
    let out = run(&["record", "-q", "-o", rec, "--", "true"]);
    assert!(out.status.success(), "{}", scene(&out));
    assert_refused(&run(&["files", rec]), &["no file-level requests", "record --files"]);
    let other = tmp.path().join("other.iolens");
    let other = other.to_str().unwrap();
    assert_refused(&run(&["record", "-o", other, "--cgroup", "/etc", "--", "true"]), &["/etc", "no control group"]);
    assert!(!std::path::Path::new(other).exists());
}
