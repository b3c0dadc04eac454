//! Recording real I/O: counts against the kernel's, exit codes, the fallback.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolens_core::model::{Class, LossReason, Lost, Source};
use iolens_core::store::{IoColumns, Recording};
use rustix::process::{Pid, Signal, kill_process};

use super::machine::{
    LoopDevice, Recorder, StopOnDrop, ebpf, hidden, iolens, read_in_sequence, run, scene,
    wait_until,
};

#[test]
fn every_read_is_in_the_recording_and_in_its_report() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let before = device.stat();
    let stop = AtomicBool::new(false);
    let reads = std::thread::scope(|s| {
        let reader = s.spawn(|| read_in_sequence(&device, 1024, &stop));
        // How long the load lasts: for several rows of `zoom`.
        std::thread::sleep(Duration::from_millis(800));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap()
    });
    let after = device.stat();
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    assert_eq!(
        after[0] - before[0],
        reads,
        "the kernel counted what was read"
    );

    let recording = Recording::open(&path).unwrap();
    let ios: Vec<_> = recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|b| b.unwrap())
        .collect();
    // Some kernels hide completions from BPF while certain kernel processes are current; these are counted.
    let hidden = hidden(&recording.lost(i64::MIN..i64::MAX));
    assert_eq!(ios.len() as i64 + hidden, reads as i64);
    assert!(
        ios.iter()
            .all(|io| io.class() == Class::Read && io.bytes == 4096)
    );
    assert!(
        ios.iter()
            .all(|io| io.tgid == i32::try_from(std::process::id()).ok()),
        "submitter"
    );

    let report = run(&["report", path.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(json["recording"]["ios"], ios.len());
    assert!(
        json["recording"]["lost_ios"].as_i64().unwrap() <= hidden,
        "{}",
        json["recording"]
    );
    let d = json["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["name"] == device.name())
        .unwrap();
    assert_eq!(d["read"]["bytes"], ios.len() * 4096);

    let zoom = run(&[
        "zoom",
        path.to_str().unwrap(),
        "--step",
        "100ms",
        "--format",
        "csv",
    ]);
    let text = String::from_utf8(zoom.stdout).unwrap();
    assert!(
        text.starts_with(
            "time,time_unix_s,time_s,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,lossy\n"
        ),
        "{text}"
    );
    let mut before = 0.0;
    let mut sum = 0.0;
    for line in text.lines().skip(1) {
        let numbers: Vec<f64> = line
            .split(',')
            .skip(2)
            .take(2)
            .map(|n| n.parse().unwrap())
            .collect();
        sum += numbers[1] * (numbers[0] - before);
        before = numbers[0];
    }
    // Times and rates are printed rounded.
    let recorded = ios.len() as f64;
    assert!(
        (sum - recorded).abs() <= 1.0 + recorded * 1e-5,
        "{sum} {recorded}"
    );
}

#[test]
fn what_the_host_is_short_of_is_recorded_beside_the_ios() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 1024, &stop));
        // How long the load lasts: less than the interval in which equal samples are joined.
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let samples: Vec<_> = recording
        .pressure(i64::MIN..i64::MAX)
        .flat_map(|b| b.unwrap())
        .collect();
    assert!(!samples.is_empty());
    assert!(samples.windows(2).all(|w| w[0].to_ns == w[1].from_ns));
    let has_pressure = std::fs::read("/proc/pressure/cpu").is_ok();
    for s in &samples {
        assert!(s.from_ns < s.to_ns && s.cpus > Some(0), "{s:?}");
        assert_eq!(s.cpu_some_ns.is_some(), has_pressure, "{s:?}");
        // The kernel rounds to microseconds.
        assert!(s.cpu_some_ns <= Some(s.len_ns() + 1_000_000), "{s:?}");
    }
    assert!(
        samples.iter().any(|s| s.timer_late_ns.is_some()),
        "{samples:?}"
    );
}

/// I/Os whose completion was found missing at the recording's end; the load continues after it, or ends before.
fn unseen_with(device: &LoopDevice, load_outlasts_it: bool) -> Vec<Lost> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let before = device.stat()[0];
    let stop = AtomicBool::new(false);
    let out = std::thread::scope(|s| {
        let stop_on_drop = StopOnDrop(&stop);
        let readers: Vec<_> = (0..8)
            .map(|_| s.spawn(|| read_in_sequence(device, 1024, &stop)))
            .collect();
        wait_until("all read", || device.stat()[0] >= before + 5000);
        if !load_outlasts_it {
            drop(stop_on_drop);
            for reader in readers {
                reader.join().unwrap();
            }
        }
        recorder.interrupt()
    });
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let mut lost = recording.lost(i64::MIN..i64::MAX);
    // A hypervisor may hide a completion at any time: that is known while the recording goes on.
    let ending_ns = recording.end_ns() - 50_000_000;
    lost.retain(|l| l.reason == LossReason::Unseen && l.to_ns > ending_ns);
    lost
}

#[test]
fn ios_that_are_in_flight_when_a_recording_is_stopped_are_not_lost() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    if !unseen_with(&device, false).is_empty() {
        eprintln!("SKIP: this kernel hides completions from BPF");
        return;
    }
    for _ in 0..3 {
        assert_eq!(unseen_with(&device, true), []);
    }
}

#[test]
fn the_recorded_commands_exit_code_is_passed_through() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let out = run(&[
        "record",
        "-q",
        "-o",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "sleep 0.1; exit 42",
    ]);
    assert_eq!(out.status.code(), Some(42), "{}", scene(&out));
    Recording::open(&path).unwrap();
}

/// A command that SIGTERM does not end. It ends by itself after a minute, should a test fail before it is killed.
const STUBBORN: [&str; 4] = [
    "--",
    "sh",
    "-c",
    "trap '' TERM; exec sleep 60 >/dev/null 2>&1",
];

/// The recording ended and reported that its command continues, which is killed here.
fn assert_left_running(out: &Output) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{}", scene(out));
    assert!(said.contains("still runs"), "{}", scene(out));
    assert_eq!(said.lines().count(), 1, "{}", scene(out));
    let after = said.split("(process ").nth(1).unwrap();
    let number = after.split(')').next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_command_that_ignores_the_end_does_not_hold_up_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let record = [
        "record",
        "-q",
        "--source",
        "counters",
        "--for",
        "1s",
        "-o",
        path.to_str().unwrap(),
    ];
    assert_left_running(&run(&[&record[..], &STUBBORN].concat()));
    assert!(Recording::open(&path).unwrap().warnings().is_empty());
}

#[test]
fn a_second_interrupt_ends_the_recording_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let record = [
        "record",
        "-q",
        "--source",
        "counters",
        "-o",
        path.to_str().unwrap(),
    ];
    let mut recorder = iolens(&[&record[..], &STUBBORN].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it records", || path.join("meta.json").exists());
    wait_until("it has ended", || {
        // Two of them may become one while the first is pending.
        kill_process(Pid::from_child(&recorder), Signal::INT).unwrap();
        recorder.try_wait().unwrap().is_some()
    });
    assert_left_running(&recorder.wait_with_output().unwrap());
    assert!(Recording::open(&path).unwrap().warnings().is_empty());
}

#[test]
fn a_recorded_command_starts_after_the_probes_are_attached() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let before = device.stat();
    let input = format!("if=/dev/{}", device.name());
    let dd = [
        "dd",
        &input,
        "of=/dev/null",
        "bs=4096",
        "count=8",
        "iflag=direct",
        "status=none",
    ];
    let out = run(&[
        &[
            "record",
            "-q",
            "-d",
            device.name(),
            "-o",
            path.to_str().unwrap(),
            "--",
        ][..],
        &dd,
    ]
    .concat());
    assert!(out.status.success(), "{}", scene(&out));
    let reads = device.stat()[0] - before[0];
    let recording = Recording::open(&path).unwrap();
    let ios: Vec<_> = recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|b| b.unwrap())
        .collect();
    let lost = recording.lost(i64::MIN..i64::MAX);
    assert_eq!(ios.len() as i64 + hidden(&lost), reads as i64, "{lost:?}");
    assert!(
        reads >= 8
            && ios
                .iter()
                .all(|io| io.queue_ns.is_some() && io.start_ns() > 0),
        "each start was seen"
    );
}

#[test]
fn without_ebpf_counters_are_recorded_and_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let out = run(&[
        "record",
        "-o",
        path.to_str().unwrap(),
        "--source",
        "counters",
        "--for",
        "300ms",
    ]);
    assert!(out.status.success(), "{}", scene(&out));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("counters"),
        "{}",
        scene(&out)
    );
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.meta().source, Source::Counters);
    assert!(!recording.meta().limits.is_empty());
    assert_eq!(recording.ios(i64::MIN..i64::MAX, IoColumns::ALL).count(), 0);
    // Such a disk does not count as idle.
    let out = run(&["info", path.to_str().unwrap(), "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(info["recordings"][0]["ios"].is_null(), "{info:#}");
    let part = dir.path().join("part");
    let out = run(&[
        "cut",
        path.to_str().unwrap(),
        "--to",
        "0.1",
        "-o",
        part.to_str().unwrap(),
    ]);
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("no single I/Os"),
        "{}",
        scene(&out)
    );
}

#[test]
fn a_long_step_of_counters_does_not_outlast_the_end_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let until_end = ["--source", "counters", "--for", "300ms"];
    let record = [
        "record",
        "-q",
        "-o",
        path.to_str().unwrap(),
        "--counters-step",
        "1h",
    ];
    let out = run(&[&record[..], &until_end].concat());
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let samples: Vec<_> = recording
        .counters(i64::MIN..i64::MAX)
        .flat_map(|b| b.unwrap())
        .collect();
    if let [first, .., last] = &samples[..] {
        // A machine without disks has no counters.
        assert!(first.at_ns < last.at_ns, "one at the start: {first:?}");
        assert!(last.at_ns >= 300_000_000, "one at the end: {last:?}");
        assert!(last.at_ns <= recording.end_ns());
    }
    let live = ["live", "--json", "--step", "1h"];
    let out = run(&[&live[..], &until_end].concat());
    assert!(out.status.success(), "{}", scene(&out));
    let rows = String::from_utf8_lossy(&out.stdout);
    assert_eq!(rows.lines().count(), 1, "what was left: {}", scene(&out));
}

#[test]
fn an_unprivileged_user_gets_counters_and_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    // Like /tmp: without the sticky bit it would be refused.
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o1777),
    )
    .unwrap();
    let path = dir.path().join("r.iolens");
    let program = env!("CARGO_BIN_EXE_iolens");
    let out = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            program,
        ])
        .args(["record", "-o", path.to_str().unwrap(), "--for", "200ms"])
        .output();
    let Ok(out) = out else {
        return eprintln!("SKIP: setpriv is missing");
    };
    let stderr = String::from_utf8_lossy(&out.stderr);
    if stderr.contains("setpriv:") {
        return eprintln!("SKIP: cannot drop privileges or reach the program: {stderr}");
    }
    assert!(out.status.success(), "{}", scene(&out));
    assert!(
        stderr.contains("CAP_BPF") || stderr.contains("privilege"),
        "{}",
        scene(&out)
    );
    assert_eq!(
        Recording::open(&path).unwrap().meta().source,
        Source::Counters
    );
}

#[test]
fn data_goes_to_stdout_and_a_closed_pipe_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    assert!(
        run(&[
            "record",
            "-q",
            "-o",
            path.to_str().unwrap(),
            "--source",
            "counters",
            "--for",
            "500ms"
        ])
        .status
        .success()
    );
    let mut child = iolens(&["zoom", path.to_str().unwrap(), "--step", "1ms"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}", scene(&out));
    assert!(
        stderr.contains("source: counters"),
        "every screen says its source: {}",
        scene(&out)
    );
    assert!(
        !stderr.to_lowercase().contains("pipe") && !stderr.contains("panic"),
        "{}",
        scene(&out)
    );
}
