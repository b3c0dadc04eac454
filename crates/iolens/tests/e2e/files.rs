//! File-level requests from recording to table.

use super::machine::{Ended, assert_refused, ebpf, run, scene};

#[test]
fn files_of_a_command_are_recorded_and_reported() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let rec = tmp.path().join("r.iolens");
    let rec = rec.to_str().unwrap();
    let data = tmp.path().join("data file");
    let script = "dd if=/dev/zero of=\"$1\" bs=8192 count=5 conv=fsync; cat \"$1\" > /dev/null; cat \"$1\" > /dev/null";
    let out = run(&[
        "record",
        "--files",
        "-o",
        rec,
        "--",
        "sh",
        "-c",
        script,
        "sh",
        data.to_str().unwrap(),
    ]);
    assert!(out.status.success(), "{}", scene(&out));
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("file-level requests, 0 lost"),
        "{}",
        scene(&out)
    );

    let out = run(&["files", rec, "--json", "--by", "path"]);
    assert!(out.status.success(), "{}", scene(&out));
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let groups = v["files"]["groups"].as_array().unwrap();
    let ours = groups
        .iter()
        .find(|g| g["name"].as_str().unwrap().ends_with("/data file"))
        .expect("the file");
    // One that wrote, two that read, and the fsync.
    assert_eq!(
        (&ours["requests"], &ours["syncs"]),
        (&4.into(), &1.into()),
        "{ours:#}"
    );
    assert_eq!(
        (&ours["bytes_in"], &ours["bytes_out"]),
        (&81_920.into(), &40_960.into()),
        "{ours:#}"
    );

    let json = |args: &[&str]| {
        let out = run(args);
        assert!(out.status.success(), "{}", scene(&out));
        serde_json::from_slice::<serde_json::Value>(&out.stdout).expect("JSON")
    };
    let report = json(&["report", rec, "--json"]);
    let files = json(&["files", rec, "--json"]);
    assert_eq!(report["files"], files["files"], "one and the same analysis");
    assert!(files["files"]["requests"].as_u64() >= Some(3), "{files:#}");

    let out = run(&["files", rec]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        text.contains("Requests \"in\"") && text.contains("\nSyncs\n"),
        "{}",
        scene(&out)
    );
}

#[test]
fn a_recording_without_requests_and_a_wrong_cgroup_are_reported_in_one_line() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir().unwrap();
    let rec = tmp.path().join("r.iolens");
    let rec = rec.to_str().unwrap();
    let out = run(&["record", "-q", "-o", rec, "--", "true"]);
    assert!(out.status.success(), "{}", scene(&out));
    assert_refused(
        &run(&["files", rec]),
        &["no file-level requests", "record --files"],
    );
    let report: serde_json::Value =
        serde_json::from_slice(&run(&["report", rec, "--json"]).stdout).expect("JSON");
    assert!(report["files"].is_null(), "{report:#}");
    let other = tmp.path().join("other.iolens");
    let other = other.to_str().unwrap();
    assert_refused(
        &run(&["record", "-o", other, "--cgroup", "/etc", "--", "true"]),
        &["/etc", "no control group"],
    );
    assert!(!std::path::Path::new(other).exists());
}

#[test]
fn open_requests_survive_a_kill_of_the_recorder() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let rec = tmp.path().join("r.iolens");
    let rec = rec.to_str().unwrap();
    // One file is kept open and used, another is opened for each use; the program outlives its recorder, but not its
    // directory.
    let data = tmp.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let script = "exec 3>\"$1/kept\"; while sleep 0.05 && [ -d \"$1\" ]; do echo x >&3; echo y > \"$1/brief\"; done";
    let recorder = std::process::Command::new(env!("CARGO_BIN_EXE_iolens"))
        .args([
            "record", "-q", "--files", "-o", rec, "--", "sh", "-c", script, "sh",
        ])
        .arg(&data)
        .spawn();
    let mut recorder = Ended(recorder.unwrap());
    // Requests, known losses, and bytes written to the kept file, as far as they are known.
    let reported = || {
        let out = run(&["files", rec, "--json", "--by", "path"]);
        let v: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
        let groups = v["files"]["groups"].as_array()?;
        let kept = groups
            .iter()
            .find(|g| g["name"].as_str().is_some_and(|k| k.ends_with("/kept")));
        let bytes = kept.map_or(0, |g| g["bytes_out"].as_u64().unwrap());
        Some((
            v["files"]["requests"].as_u64()?,
            v["files"]["lost_requests"].as_u64()?,
            bytes,
        ))
    };
    let wait_for = |what: &dyn Fn((u64, u64, u64)) -> bool| {
        let started = std::time::Instant::now();
        while !reported().is_some_and(what) {
            assert!(
                started.elapsed().as_secs() < 60,
                "{}",
                scene(&run(&["files", rec]))
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    // At first it is only known that a file is open, later also what was done with it by the time of the last look.
    wait_for(&|(requests, lost, bytes)| requests > 0 && (lost > 0 || bytes > 0));
    wait_for(&|(_, _, bytes)| bytes > 0);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let (requests, lost, bytes) = reported().expect("after the crash as before");
    let written = std::fs::metadata(data.join("kept")).unwrap().len();
    assert!((2..=written).contains(&bytes), "{bytes} of {written} bytes");
    // Files that the shell and its `sleep` happened to have open.
    assert!(
        requests >= 2 && lost <= 4,
        "{requests} requests, {lost} lost"
    );
}

/// The value of rank `ceil(n q)`, in microseconds.
fn quantile_us(sorted_ns: &[i64], q: f64) -> f64 {
    sorted_ns[((q * sorted_ns.len() as f64).ceil() as usize).clamp(1, sorted_ns.len()) - 1] as f64
        / 1e3
}

#[test]
fn quantiles_of_a_thousand_calls_match_the_programs_own() {
    let Some(()) = ebpf() else { return };
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = tmp.path().join("timed_calls");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/timed_calls.c");
    let cc = std::process::Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    if !cc.is_ok_and(|status| status.success()) {
        return eprintln!("SKIP: no C compiler");
    }
    let rec = tmp.path().join("r.iolens");
    let data = tmp.path().join("data");
    let [rec, data, program] = [&rec, &data, &program].map(|p| p.to_str().unwrap());
    let log = tmp.path().join("log");
    let out = run(&[
        "record",
        "-q",
        "--files",
        "-o",
        rec,
        "--",
        "sh",
        "-c",
        "\"$0\" \"$1\" > \"$2\"",
        program,
        data,
    ]
    .into_iter()
    .chain(log.to_str())
    .collect::<Vec<_>>());
    assert!(out.status.success(), "{}", scene(&out));
    let own = std::fs::read_to_string(&log).unwrap();
    let v: serde_json::Value =
        serde_json::from_slice(&run(&["files", rec, "--json"]).stdout).expect("JSON");
    let calls = v["files"]["calls"].as_array().unwrap();
    let ours = calls
        .iter()
        .find(|c| c["name"].as_str().unwrap().ends_with("/data"))
        .expect("the file");
    let own_times = |kind: &str| {
        let lines = own
            .lines()
            .filter_map(|line| line.strip_prefix(kind)?.trim().parse().ok());
        let mut times_ns: Vec<i64> = lines.collect();
        times_ns.sort_unstable();
        times_ns
    };
    // The overhead of the program's clock around a call: entering and leaving it, which costs more if others trace as
    // well.
    let around_us = quantile_us(&own_times("empty"), 0.9) + 10.0;
    // Of the file there are a read, a write and a sync more, each by a descriptor of its own: outliers, one rank.
    for (kind, error) in [("read", 3.2), ("write", 3.2), ("sync", 0.0)] {
        let own = own_times(kind);
        let c = &ours[kind];
        assert_eq!(
            (own.len(), &c["n"], &c["quantile_error_percent"]),
            (1000, &1001.into(), &error.into()),
            "{c:#}"
        );
        for (key, q) in [("p50_us", 0.5), ("p99_us", 0.99)] {
            // The program reads its clock around the call, so by it each call took at least as long. Delays of a busy
            // machine between the two affect only a few calls.
            let low = quantile_us(&own, q - 0.02);
            let high = quantile_us(&own, q + 0.002);
            let got = c[key].as_f64().expect(key);
            let off = 1.0 + error / 100.0;
            eprintln!(
                "{kind} {key}: {got:.1}, by the program's clock {:.1}",
                quantile_us(&own, q)
            );
            assert!(got <= high * off + 0.1, "{kind} {key} {got} above {high}");
            assert!(
                got >= low / off - around_us,
                "{kind} {key} {got} below {low}"
            );
        }
    }
}
