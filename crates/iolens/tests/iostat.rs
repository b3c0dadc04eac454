//! `iolens iostat` against transcripts of the reference on recorded samples (`fixtures/iostat`), and against the reference
//! itself on this machine.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/iostat")
}

/// Unpacks a packed tree (its form is described in `fixtures/iostat/trees.py`).
fn unpack(tree: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixtures().join(format!("{tree}.tree"))).unwrap();
    let place = |path: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    let mut file: Option<(PathBuf, String)> = None;
    let finish = |file: Option<(PathBuf, String)>| {
        if let Some((path, text)) = file {
            std::fs::write(path, text).unwrap();
        }
    };
    for line in text.split_inclusive('\n') {
        if let Some(path) = line.strip_prefix("=== ") {
            finish(file.replace((place(path.trim_end()), String::new())));
        } else if let Some(link) = line.strip_prefix("--> ") {
            finish(file.take());
            let (path, target) = link.trim_end().rsplit_once(' ').unwrap();
            symlink(target, place(path)).unwrap();
        } else {
            file.as_mut().unwrap().1.push_str(line);
        }
    }
    finish(file);
    dir
}

/// A case of a transcript.
struct Case {
    title: String,
    env: Vec<(String, String)>,
    args: Vec<String>,
    stdout: Vec<u8>,
    code: i32,
}

fn cases(tree: &str) -> Vec<Case> {
    let text = std::fs::read(fixtures().join(format!("{tree}.expected"))).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.split_inclusive(|b| *b == b'\n') {
        if let Some(title) = line.strip_prefix(b"$ ") {
            let title = String::from_utf8(title.to_vec())
                .unwrap()
                .trim_end()
                .to_owned();
            let command = title.strip_prefix("(12.8) ").unwrap_or(&title);
            let (env, args) = command.split_once("iostat").unwrap();
            let env = env
                .split_whitespace()
                .map(|w| w.split_once('=').unwrap())
                .map(|(k, v)| (k.into(), v.into()))
                .collect();
            let args = args.split_whitespace().map(String::from).collect();
            cases.push(Case {
                env,
                args,
                title,
                stdout: Vec::new(),
                code: -1,
            });
        } else if let Some(code) = line.strip_prefix(b"# exit ") {
            cases.last_mut().unwrap().code =
                std::str::from_utf8(code).unwrap().trim().parse().unwrap();
        } else {
            cases.last_mut().unwrap().stdout.extend_from_slice(line);
        }
    }
    cases
}

/// `iolens iostat` with a fixed environment.
fn iolens(env: &[(String, String)], args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolens"))
        .arg("iostat")
        .args(args)
        .env_clear()
        .envs([("LC_ALL", "C"), ("TZ", "GMT")])
        .envs(env.iter().map(|(k, v)| (k, v)))
        .output()
        .unwrap()
}

fn replay(dir: &Path, args: &[&str]) -> Output {
    let dir = dir.to_str().unwrap();
    iolens(&[], &[&["--replay", dir], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Replays every case of a tree and shows the first difference of each that fails.
fn check(tree: &str, at_least: usize) {
    let dir = unpack(tree);
    let cases = cases(tree);
    assert!(cases.len() >= at_least, "{tree}: {} cases", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        let args: Vec<&str> = ["--replay", dir.path().to_str().unwrap()]
            .into_iter()
            .chain(case.args.iter().map(String::as_str))
            .collect();
        let got = iolens(&case.env, &args);
        if got.stdout != case.stdout || got.status.code() != Some(case.code) {
            let want = text(&case.stdout);
            let have = text(&got.stdout);
            let differs = want.lines().zip(have.lines()).find(|(w, h)| w != h);
            let differs = differs.map_or("one is longer".to_owned(), |(w, h)| {
                format!("want {w:?}\n     have {h:?}")
            });
            failed.push(format!(
                "{}\n     exit {:?}, want {}\n     {differs}",
                case.title,
                got.status.code(),
                case.code
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{tree}: {} of {} differ:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

#[test]
fn disks_of_all_kinds() {
    check("mixed", 200);
}

#[test]
fn devices_that_come_and_go() {
    check("hotplug", 18);
}

#[test]
fn counters_that_wrap_and_fall() {
    check("wraps", 11);
}

#[test]
fn kernels_of_several_ages() {
    check("old", 12);
}

#[test]
fn a_hundred_disks() {
    check("many", 8);
}

#[test]
fn usage_goes_to_standard_error() {
    let out = iolens(&[], &["-q"]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
    let message = text(&out.stderr);
    assert!(
        message.starts_with("Usage: ")
            && message.contains(" iostat [ options ] [ <interval> [ <count> ] ]\nOptions are:\n")
    );
    let out = iolens(&[], &["-j", "nosuchkind"]);
    assert_eq!(
        (out.status.code(), text(&out.stderr).as_str()),
        (Some(1), "Invalid type of persistent device name\n")
    );
}

#[test]
fn help_names_what_the_reference_does_not_have() {
    let help = iolens(&[], &["-x", "--help"]);
    let usage = iolens(&[], &["-q"]);
    assert_eq!(
        (help.status.code(), help.stdout.len()),
        (Some(1), 0),
        "as the reference answers it"
    );
    let more = text(&help.stderr)
        .strip_prefix(&text(&usage.stderr))
        .unwrap()
        .to_owned();
    assert!(
        ["--true", "--hist", "NDJSON", "--replay"]
            .iter()
            .all(|w| more.contains(w)),
        "{more}"
    );
}

#[test]
fn without_the_names_of_device_mapper_the_first_table_breaks_off() {
    let dir = unpack("mixed");
    std::fs::remove_dir_all(dir.path().join("1/dev/mapper")).unwrap();
    // What 12.6.1 prints on these samples before it exits.
    let pretty = "\n     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n    \
                  0.00      0.11     0.00   1.10    0.90    40.00 cciss/c0d0\n";
    let short = "\nDevice             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util\ncciss/c0d0        \
                 0.00      0.12     0.00    0.90    40.00    0.00   0.00\n";
    for (args, after_the_banner) in [
        (&["-dxN", "--pretty", "1", "2"][..], pretty),
        (&["-dxNs", "1", "2"], short),
        (&["-dyN", "1", "2"], ""),
    ] {
        let out = replay(dir.path(), args);
        assert_eq!(out.status.code(), Some(4), "{args:?}");
        let (_, rest) = text(&out.stdout)
            .split_once('\n')
            .map(|(b, r)| (b.to_owned(), r.to_owned()))
            .unwrap();
        assert_eq!(rest, after_the_banner, "{args:?}");
    }
}

/// Runs `iostat` by a shell that does `before` first, reads a little of what it prints, and closes the pipe.
fn into_a_closed_pipe(before: &str) -> std::process::ExitStatus {
    use std::io::Read as _;
    let script = format!("{before} exec \"$0\" iostat -c 0.05 8");
    let mut child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_iolens")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut [0; 50])
        .unwrap();
    child.wait().unwrap()
}

#[test]
fn a_closed_pipe_ends_the_run_unless_its_signal_was_ignored_from_the_start() {
    assert_eq!(into_a_closed_pipe("").signal(), Some(13));
    assert_eq!(
        into_a_closed_pipe("trap '' PIPE;").code(),
        Some(0),
        "as the reference goes on"
    );
}

#[test]
fn a_link_named_iostat_is_enough() {
    let dir = unpack("mixed");
    let link = dir.path().join("iostat");
    symlink(env!("CARGO_BIN_EXE_iolens"), &link).unwrap();
    let run = |args: &[&str]| {
        Command::new(&link)
            .args(args)
            .env("LC_ALL", "C")
            .env("TZ", "GMT")
            .output()
            .unwrap()
    };
    let samples = dir.path().join("samples");
    std::fs::create_dir(&samples).unwrap();
    std::fs::rename(dir.path().join("1"), samples.join("1")).unwrap();
    let expected = iolens(&[], &["--replay", samples.to_str().unwrap(), "-x"]);
    assert_eq!(
        run(&["--replay", samples.to_str().unwrap(), "-x"]).stdout,
        expected.stdout
    );
    assert!(
        text(&run(&["-q"]).stderr).starts_with(&format!("Usage: {} [ options ]", link.display()))
    );
}

#[test]
fn samples_that_cannot_be_read_end_the_run_in_one_line() {
    let dir = unpack("mixed");
    let check = |args: &[&str], code: i32, message: &str, stdout: &str| {
        let out = replay(dir.path(), args);
        assert_eq!(out.status.code(), Some(code), "{args:?}");
        let stderr = text(&out.stderr);
        assert!(
            stderr.contains(message) && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );
        assert!(
            text(&out.stdout).ends_with(stdout),
            "{args:?}: {}",
            text(&out.stdout)
        );
    };
    std::fs::remove_file(dir.path().join("3/proc/uptime")).unwrap();
    check(&["1"], 2, "Cannot read ", "\n\n");
    check(
        &["-o", "JSON", "1"],
        2,
        "Cannot read ",
        "\t\t\t\t}\n\t\t\t]\n\t\t}\n\t]\n}}\n",
    );
    std::fs::remove_file(dir.path().join("2/proc/stat")).unwrap();
    check(&["1"], 2, "/proc/stat: No such file or directory", "\n\n");
    std::fs::remove_dir_all(dir.path().join("1/dev/mapper")).unwrap();
    check(
        &["-dN"],
        4,
        "Cannot open /dev/mapper: No such file or directory",
        "0.01         0.00      36000       4000          0\n",
    );
    check(
        &["-dN", "-o", "JSON"],
        4,
        "Cannot open /dev/mapper",
        "\t\t\t\"statistics\": [\n\n\t\t\t]\n\t\t}\n\t]\n}}\n",
    );
    for own in [
        &["--replay", "/nonexistent"][..],
        &["--replay"],
        &["0.0001"],
    ] {
        let out = iolens(&[], own);
        assert_eq!(
            (out.status.code(), text(&out.stderr).lines().count()),
            (Some(2), 1),
            "{own:?}"
        );
    }
}

#[test]
fn raw_counters_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw");
    let record = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iolens"));
        command
            .args(["record", "--counters-raw"])
            .arg(&raw)
            .args(words)
            .output()
            .unwrap()
    };
    let out = record(&["--for", "1s", "--raw-step", "20ms"]);
    let said = text(&out.stdout);
    assert!(
        out.status.success() && said.contains(" samples in "),
        "{said}{}",
        text(&out.stderr)
    );
    assert!(
        raw.join("3").is_dir(),
        "one at once, one after the step, one at the end"
    );
    let replayed = iolens(
        &[],
        &["--replay", raw.to_str().unwrap(), "-o", "NDJSON", "-c", "1"],
    );
    assert_eq!(
        text(&replayed.stdout).lines().count(),
        std::fs::read_dir(&raw).unwrap().count()
    );
    let again = record(&["--for", "1ms"]);
    assert_eq!(
        (again.status.code(), text(&again.stderr).lines().count()),
        (Some(2), 1)
    );
}

#[test]
fn json_is_json_whatever_the_names() {
    let dir = unpack("mixed");
    for args in [
        &["-o", "JSON", "-g", "a\"b\\c\n\u{1}", "sda", "1", "9"][..],
        &["-xo", "JSON"],
        &["-x", "-g", "none", "-o", "JSON", "sda"],
    ] {
        let out = replay(dir.path(), args);
        if out.status.code() == Some(0) {
            serde_json::from_slice::<serde_json::Value>(&out.stdout)
                .unwrap_or_else(|e| panic!("{args:?}: {e}"));
        } else {
            assert_eq!(args, ["-xo", "JSON"], "a cluster cannot hold -o");
        }
    }
}

#[test]
fn records_say_when_and_over_what() {
    let dir = unpack("hotplug");
    let out = replay(dir.path(), &["-d", "-o", "NDJSON", "1", "9"]);
    let rows: Vec<serde_json::Value> = text(&out.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let of = |device: &str| {
        rows.iter()
            .filter(|r| r["device"] == device)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("sda").len(), 5);
    assert!(
        rows.iter()
            .all(|r| r["source"] == "counters"
                && r["time"].as_str().is_some_and(|t| t.ends_with('Z')))
    );
    assert_eq!(of("sda")[0]["interval_s"], 5000.0);
    assert_eq!(of("sda")[1]["interval_s"], 1.01);
    assert_eq!(of("sda")[1]["read_ios"], 10.0);
    let states = |device| {
        of(device)
            .iter()
            .map(|r| r["state"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(states("sdb"), ["appeared", "known", "known", "known"]);
    assert_eq!(
        states("sdc"),
        ["known", "known", "appeared", "known"],
        "what it missed is not made up"
    );
    assert_eq!(states("sdd"), ["known", "known", "restarted", "known"]);
    assert!(of("sdb")[0]["reads_per_s"].is_null() && of("sdd")[2]["util_percent"].is_null());

    let csv = text(&replay(dir.path(), &["-o", "CSV", "1", "2"]).stdout);
    let mut lines = csv.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("time,device,state,reads_per_s,")
    );
    assert!(lines.all(|l| l.starts_with("2023-") && l.contains(",sd")));
}

#[test]
fn columns_of_single_ios_are_empty_and_never_in_the_way() {
    let dir = unpack("mixed");
    for args in [
        &["-d"][..],
        &["-dx"],
        &["-dxs"],
        &["-ds", "1", "3"],
        &["-dx", "-g", "g", "sda"],
    ] {
        let plain = text(&replay(dir.path(), args).stdout);
        let out = replay(dir.path(), &[args, &["--true", "--hist"]].concat());
        assert_eq!(
            (out.status.code(), text(&out.stderr).lines().count()),
            (Some(0), 1),
            "{args:?}"
        );
        assert!(
            text(&out.stderr).contains("recorded counters hold no single I/Os"),
            "{args:?}"
        );
        let wide = text(&out.stdout);
        assert_eq!(plain.lines().count(), wide.lines().count(), "{args:?}");
        for (narrow, wide) in plain.lines().zip(wide.lines()) {
            let more = wide
                .strip_prefix(narrow)
                .unwrap_or_else(|| panic!("{args:?}: {narrow:?} {wide:?}"));
            assert!(
                more.is_empty() || more.split_whitespace().count() == 9,
                "{args:?}: {wide:?}"
            );
        }
    }
    let out = replay(dir.path(), &["-xh", "--true", "sda"]);
    assert_eq!(
        text(&out.stdout).matches(" Device\n").count(),
        5,
        "a table of their own where there are several"
    );
    let out = replay(
        dir.path(),
        &["-o", "JSON", "--hist", "-g", "g", "sda", "1", "2"],
    );
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(json["sysstat"]["hosts"][0]["statistics"][1]["disk"][0]["r_p99_us"].is_null());
    let csv = text(&replay(dir.path(), &["-o", "CSV", "--hist", "sda"]).stdout);
    let fields: Vec<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert!(fields.len() == 2 && fields[0] == fields[1], "{csv}");
}

#[test]
fn patterns_of_devices() {
    let dir = unpack("mixed");
    let names = |args: &[&str]| {
        let out = text(&replay(dir.path(), &[&["-d"], args].concat()).stdout);
        let rows = out
            .lines()
            .skip_while(|l| !l.starts_with("Device"))
            .skip(1)
            .filter(|l| !l.is_empty());
        rows.map(|l| l.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&["nvme*"]), ["nvme0n1", "nvme0n1p1"]);
    assert_eq!(
        names(&["sda[0-9]*", "md?"]),
        ["md0", "sda1", "sda10", "sda2"]
    );
    assert_eq!(names(&["-p", "nv*1"]), ["nvme0n1", "nvme0n1p1"]);
    assert!(names(&["xyz*"]).is_empty());
}

#[test]
fn a_sample_of_this_machine_replays() {
    use iolens_observe::counters::{Root, snapshot};
    if !Path::new("/proc/diskstats").exists() {
        eprintln!("SKIP: no /proc/diskstats here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for index in 1..=2 {
        snapshot::write(&Root::live(), dir.path(), index).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let out = replay(dir.path(), &["-x", "ALL", "1", "2"]);
    assert_eq!(
        (out.status.code(), text(&out.stderr).as_str()),
        (Some(0), "")
    );
    let live = iolens(&[], &["-x", "ALL"]);
    let devices = |t: &[u8]| {
        let t = text(t);
        let after = t.lines().skip_while(|l| !l.starts_with("Device")).skip(1);
        after
            .take_while(|l| !l.is_empty())
            .map(|l| l.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(devices(&out.stdout), devices(&live.stdout));
    assert_eq!(
        text(&out.stdout).lines().next(),
        text(&live.stdout).lines().next(),
        "the same banner"
    );
    assert_eq!(text(&out.stdout).matches("avg-cpu").count(), 2);
}

#[test]
fn a_signal_closes_the_document() {
    if !Path::new("/proc/diskstats").exists() {
        eprintln!("SKIP: no /proc/diskstats here");
        return;
    }
    // Those that the reference ends its document for end the program with 0, of the others it dies when that is done.
    let of_ours = [("-INT", None), ("-TERM", None)];
    let deaths = [
        ("-HUP", 1),
        ("-QUIT", 3),
        ("-PIPE", 13),
        ("-USR1", 10),
        ("-USR2", 12),
        ("-XCPU", 24),
    ];
    for (signal, death) in of_ours
        .into_iter()
        .chain(deaths.map(|(name, n)| (name, Some(n))))
    {
        // The tests themselves may run under nohup.
        let child = Command::new("env")
            .args([
                "--default-signal",
                env!("CARGO_BIN_EXE_iolens"),
                "iostat",
                "-o",
                "JSON",
                "-y",
                "60",
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The handlers are set before it sleeps for the first time.
        wait_until_asleep(child.id());
        assert!(
            Command::new("kill")
                .args([signal, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let out = child.wait_with_output().unwrap();
        let code = death.is_none().then_some(0);
        assert_eq!(
            (out.status.code(), out.status.signal()),
            (code, death),
            "{signal}"
        );
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap();
    }
}

#[test]
fn ignored_signals_stay_ignored_and_sigalrm_reports() {
    if !Path::new("/proc/diskstats").exists() {
        eprintln!("SKIP: no /proc/diskstats here");
        return;
    }
    let line = format!(
        "trap '' HUP; exec {} iostat -o JSON -y 60",
        env!("CARGO_BIN_EXE_iolens")
    );
    let child = Command::new("sh")
        .args(["-c", &line])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let kill = |signal: &str| {
        wait_until_asleep(child.id());
        assert!(
            Command::new("kill")
                .args([signal, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    kill("-HUP");
    let before = switches(child.id());
    kill("-ALRM");
    while switches(child.id()) == before {
        std::thread::yield_now();
    }
    kill("-INT");
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        document["sysstat"]["hosts"][0]["statistics"]
            .as_array()
            .map(Vec::len),
        Some(1),
        "{document}"
    );
}

/// How often a process has gone to sleep.
fn switches(pid: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find(|l| l.starts_with("voluntary_ctxt_switches"))
        .map(str::to_owned)
}

#[test]
fn a_closed_reader_ends_the_program_silently() {
    let line = format!("{} iostat -c 1ms | head -c 1", env!("CARGO_BIN_EXE_iolens"));
    let out = Command::new("bash")
        .args(["-c", &format!("{line}; echo ${{PIPESTATUS[0]}} >&2")])
        .output()
        .unwrap();
    assert_eq!(
        (text(&out.stdout).as_str(), text(&out.stderr).as_str()),
        ("L", "141\n")
    );
}

/// Until a process sleeps in `clock_nanosleep`.
fn wait_until_asleep(pid: u32) {
    loop {
        let where_it_waits =
            std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        if where_it_waits.contains("nanosleep")
            || syscall.starts_with("230 ")
            || syscall.starts_with("115 ")
        {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn standard_output_that_is_gone() {
    let out = Command::new("sh")
        .args([
            "-c",
            &format!("{} iostat 1 2 >&-", env!("CARGO_BIN_EXE_iolens")),
        ])
        .output()
        .unwrap();
    assert_eq!(
        (out.status.code(), text(&out.stderr).as_str()),
        (Some(6), "stdout: Bad file descriptor\n")
    );
    if Path::new("/dev/full").exists() {
        let out = Command::new("sh")
            .args([
                "-c",
                &format!("{} iostat 1 2 >/dev/full", env!("CARGO_BIN_EXE_iolens")),
            ])
            .output()
            .unwrap();
        assert_eq!(
            (out.status.code(), text(&out.stderr).as_str()),
            (Some(6), "stdout: No space left on device\n")
        );
    }
}

/// The reference itself, on this machine's own counters: the report since boot, taken between two of ours that agree.
#[test]
fn the_reference_gives_equal_output() {
    let version = Command::new("iostat")
        .arg("-V")
        .output()
        .map(|o| text(&o.stdout))
        .unwrap_or_default();
    if !version.contains("sysstat version 12.6.1") {
        eprintln!("SKIP: no iostat of sysstat 12.6.1 here to compare with");
        return;
    }
    let reference = |args: &[&str]| {
        Command::new("iostat")
            .args(args)
            .env("LC_ALL", "C")
            .env("TZ", "GMT")
            .output()
            .unwrap()
            .stdout
    };
    let mut compared = 0;
    for args in [
        &["-d"][..],
        &["-dx"],
        &["-dxs"],
        &["-dh"],
        &["-dxh"],
        &["-d", "-p", "ALL"],
        &["-d", "-o", "JSON"],
        &["-dxm", "ALL"],
    ] {
        // Counters move, and since-boot rates with the uptime: only a quiet moment can be compared. Even in one a rate may go up
        // by an I/O and back with the uptime, but not five times.
        let mut differences = 0;
        for _ in 0..200 {
            let before = iolens(&[], args).stdout;
            let theirs = reference(args);
            if before != iolens(&[], args).stdout {
                continue;
            }
            differences += u32::from(before != theirs);
            if before == theirs || differences == 5 {
                assert_eq!(text(&before), text(&theirs), "{args:?}");
                compared += 1;
                break;
            }
        }
    }
    eprintln!("{compared} of 8 kinds of report compared in a quiet moment");
}

/// Numbers from a seed, the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

#[test]
fn garbled_samples_never_panic() {
    let dir = unpack("hotplug");
    let read = |p: &str| std::fs::read(dir.path().join(p)).unwrap();
    let files = [
        "proc/diskstats",
        "proc/stat",
        "proc/uptime",
        "proc/devices",
        "sys/block/sda/stat",
        "sys/class/block/sda/dev",
        "dev/sda",
        "timestamp",
    ];
    let originals: Vec<(String, Vec<u8>)> = (1..=3)
        .flat_map(|k| files.map(|f| format!("{k}/{f}")))
        .map(|p| (p.clone(), read(&p)))
        .collect();
    let kinds: [&[&str]; 6] = [
        &["-x", "1", "9"],
        &["-p", "ALL", "-N", "1", "9"],
        &["-dt", "-g", "g", "sda", "1", "9"],
        &["-o", "JSON", "-x", "1", "9"],
        &["-o", "NDJSON", "1", "9"],
        &["-h", "-p", "sda", "1", "9"],
    ];
    for seed in 0..40 {
        let mut dice = Dice(seed);
        for (path, bytes) in &originals {
            let mut bytes = bytes.clone();
            match dice.roll(4) {
                0 => bytes.truncate(dice.roll(bytes.len() + 1)),
                1 => (0..=dice.roll(8)).for_each(|_| {
                    let at = dice.roll(bytes.len());
                    if let Some(b) = bytes.get_mut(at) {
                        *b = dice.roll(256) as u8;
                    }
                }),
                2 => bytes.extend(b"99999999999999999999999 -1 -1 ".repeat(dice.roll(300))),
                _ => {}
            }
            std::fs::write(dir.path().join(path), bytes).unwrap();
        }
        for kind in kinds {
            let out = replay(dir.path(), kind);
            let code = out.status.code();
            assert!(
                matches!(code, Some(0 | 2)),
                "seed {seed}, {kind:?}: {code:?}\n{}",
                text(&out.stderr)
            );
            assert!(
                text(&out.stderr).lines().count() <= 1,
                "seed {seed}, {kind:?}: {}",
                text(&out.stderr)
            );
            if kind.contains(&"JSON") {
                serde_json::from_slice::<serde_json::Value>(&out.stdout)
                    .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text(&out.stdout)));
            }
        }
    }
}

#[test]
fn live_replays_the_same_samples() {
    let dir = unpack("mixed");
    let live = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iolens"));
        command
            .args(["live", "--plain", "--replay"])
            .arg(dir.path())
            .args(words)
            .output()
            .unwrap()
    };
    let out = live(&["--by", "device", "-d", "sda", "--format", "csv"]);
    assert!(
        out.status.success() && text(&out.stderr).contains("source: counters"),
        "{}",
        text(&out.stderr)
    );
    let rates: Vec<f64> = text(&out.stdout)
        .lines()
        .skip(1)
        .map(|l| l.split(',').nth(2).unwrap().parse().unwrap())
        .collect();
    let same = replay(dir.path(), &["-o", "NDJSON", "-d", "sda", "1"]);
    let expected: Vec<f64> = text(&same.stdout)
        .lines()
        .skip(1)
        .map(|l| {
            serde_json::from_str::<serde_json::Value>(l).unwrap()["reads_per_s"]
                .as_f64()
                .unwrap()
        })
        .collect();
    assert_eq!(rates.len(), expected.len());
    assert!(
        rates
            .iter()
            .zip(&expected)
            .all(|(a, b)| (a - b).abs() < 1e-3),
        "{rates:?} {expected:?}"
    );
    for wrong in [
        &["-d", "nosuch"][..],
        &["--by", "process"],
        &["--source", "ebpf"],
    ] {
        let out = live(wrong);
        assert_eq!(
            (
                out.status.code(),
                out.stdout.len(),
                text(&out.stderr).lines().count()
            ),
            (Some(2), 0, 1),
            "{wrong:?}"
        );
    }
}
