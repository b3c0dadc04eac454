//! `throttle` end to end: exit codes, signals, messages, and that no process is left stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{
    LoopDevice, Mounted, assert_refused, ebpf, iolens, read_in_sequence, run, scene, wait_until,
};

/// This crate's folder, if it is on a disk that can be measured.
pub fn home() -> Option<&'static str> {
    let here = env!("CARGO_MANIFEST_DIR");
    let signal = iolens_control::Utilisation::of_path(here).unwrap();
    match signal.no_disk() {
        Some(why) => {
            eprintln!("SKIP: {here}: {why}");
            None
        }
        None => Some(here),
    }
}

#[test]
fn the_commands_exit_code_is_passed_through() {
    let Some(home) = home() else { return };
    let code = |command: &[&str]| {
        let all: Vec<&str> = [
            "throttle", "-q", "--source", "counters", "--path", home, "--",
        ]
        .iter()
        .chain(command)
        .copied()
        .collect();
        let out = run(&all);
        (out.status.code(), scene(&out))
    };
    for (command, expected) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 37"], 37),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["/nonexistent/command"], 127),
        (&["/proc/self/status"], 126),
    ] {
        let (got, scene) = code(command);
        assert_eq!(got, Some(expected), "{command:?}: {scene}");
    }
    // A command that never ran has no summary; a command that itself exits with such a code has one.
    for (command, expected, lines) in [
        (&["/nonexistent/command"][..], 127, 1),
        (&["/tmp"], 126, 1),
        (&["sh", "-c", "exit 127"], 127, 2),
    ] {
        let out = iolens(&["throttle", "--source", "counters", "--path", home, "--"])
            .args(command)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        // On a busy machine the command lasts for an interval or more, and there is something to say of them.
        let extra = |l: &&str| l.contains("counters only") || l.starts_with("while ");
        let said: Vec<&str> = said.lines().filter(|l| !extra(l)).collect();
        assert_eq!(
            (out.status.code(), said.len()),
            (Some(expected), lines),
            "{command:?}: {}",
            scene(&out)
        );
        assert_eq!(
            said[0].starts_with("throttled "),
            lines == 2,
            "{}",
            scene(&out)
        );
    }
}

#[test]
fn arguments_and_streams_pass_through_unchanged() {
    let Some(home) = home() else { return };
    let out = run(&[
        "throttle", "-q", "--source", "counters", "--path", home, "--", "printf", "%s|", "-a",
        "--path", "x y", "",
    ]);
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "-a|--path|x y||",
        "{}",
        scene(&out)
    );
}

#[test]
fn bad_limits_and_paths_without_a_disk_are_distinguished() {
    let Some(home) = home() else { return };
    let with = |arguments: &[&str]| {
        let all: Vec<&str> = ["throttle", "--path", home]
            .iter()
            .chain(arguments)
            .chain(&["--", "true"])
            .copied()
            .collect();
        run(&all)
    };
    assert_refused(&with(&["--low", "90"]), &["in order"]);
    assert_refused(&with(&["--low", "78"]), &["10 apart"]);
    assert_refused(&with(&["--floor", "0"]), &["floor"]);
    assert_refused(
        &run(&["throttle", "--path", "/nonexistent", "--", "true"]),
        &["/nonexistent"],
    );
    assert_refused(&run(&["throttle", "--path", home]), &["CMD"]);
    let none = run(&["throttle", "--path", "/proc", "--", "true"]);
    assert_eq!(none.status.code(), Some(1), "{}", scene(&none));
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("/proc: proc has no block device"),
        "{}",
        scene(&none)
    );
}

#[test]
fn signals_are_passed_on() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let script = format!(
        "trap 'exit 5' TERM; : > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let mut child = iolens(&[
        "throttle", "-q", "--source", "counters", "--path", home, "--", "sh", "-c", &script,
    ])
    .spawn()
    .unwrap();
    wait_until("the command runs", || ready.exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn each_decision_is_a_line_of_the_log_and_the_summary_says_what_was_done() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("throttle.ndjson");
    let out = run(&[
        "throttle",
        "--source",
        "counters",
        "--path",
        home,
        "--interval",
        "50ms",
        "--log",
        log.to_str().unwrap(),
        "--",
        "sleep",
        "0.5",
    ]);
    assert!(out.status.success(), "{}", scene(&out));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.lines().count() >= 2, "{text}");
    for line in text.lines() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            json["duty_percent"].as_f64().unwrap() > 0.0 && json["mode"].is_string(),
            "{line}"
        );
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        said.contains("source counters") && said.contains("CMD read"),
        "{said}"
    );
}

/// Reads `disk` repeatedly under a throttle, and checks whether that was ever held.
fn assert_not_held(disk: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("throttle.ndjson");
    let disk = disk.to_str().unwrap();
    // Long enough for several decisions, the first ones among them.
    let work = "for i in 1 2 3 4 5 6 7 8 9 10; do dd if=$0 of=/dev/null bs=64k iflag=direct; done";
    let out = run(&[
        "throttle",
        "--source",
        "ebpf",
        "--path",
        disk,
        "--interval",
        "100ms",
        "--log",
        log.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        work,
        disk,
    ]);
    assert!(out.status.success(), "{}", scene(&out));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("throttled 0.0 s of "), "{said}");
    assert!(!said.contains("could not separate"), "{said}");
    for line in fs::read_to_string(&log).unwrap().lines() {
        let step: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(step["held_s"].as_f64(), Some(0.0), "{line}");
        assert_eq!(step["duty_percent"].as_f64(), Some(100.0), "{line}");
    }
}

#[test]
fn a_command_that_has_the_disk_to_itself_is_not_held() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(64)) else {
        return;
    };
    assert_not_held(&device.path);
}

#[test]
fn a_command_above_a_layer_whose_workers_do_its_io_is_not_held_for_them() {
    let (Some(()), Some(disk)) = (ebpf(), LoopDevice::new(96)) else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&disk) else {
        return;
    };
    let file = mounted.path().join("disk.img");
    fs::write(&file, vec![1; 48 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let Some(layer) = LoopDevice::over(file, &["--direct-io=on"]) else {
        return;
    };
    assert_not_held(&layer.path);
}

/// Writes two hundred lines, a few milliseconds apart, and a last one.
const WORK: &str = r#"i=0; while [ $i -lt 200 ]; do echo "line $i"; i=$((i+1)); sleep 0.002; done > "$0"; echo done > "$0.done""#;

fn expected() -> String {
    (0..200).map(|i| format!("line {i}\n")).collect()
}

/// Whether any control group of this process id is left.
pub fn left_over(pid: u32) -> Option<PathBuf> {
    let name = format!("iolens-throttle-{pid}");
    [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/freezer",
        "/sys/fs/cgroup/blkio",
    ]
    .iter()
    .map(|base| Path::new(base).join(&name))
    .find(|p| p.exists())
}

/// Starts the work under a throttle that holds it almost all the time, kills iolens while it does, and checks the
/// remaining state.
fn kill_and_look(device: &LoopDevice, dir: &Path, i: u64, actuator: &str) {
    let out = dir.join(format!("{actuator}-{i}"));
    let log = dir.join(format!("{actuator}-{i}.log"));
    let arguments = [
        "throttle",
        "-q",
        "--source",
        "counters",
        "--path",
        device.path.to_str().unwrap(),
        "--low",
        "0",
        "--high",
        "10",
        "--max",
        "12",
        "--interval",
        "100ms",
        "--actuator",
        actuator,
        "--log",
        log.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        WORK,
        out.to_str().unwrap(),
    ];
    let mut child = iolens(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let holding =
        || fs::read_to_string(&log).is_ok_and(|t| t.lines().any(|l| l.contains("\"emergency\"")));
    wait_until("it holds", || {
        holding() || child.try_wait().unwrap().is_some()
    });
    assert!(
        child.try_wait().unwrap().is_none(),
        "{}",
        scene(&child.wait_with_output().unwrap())
    );
    // At any point of the duty cycle.
    std::thread::sleep(Duration::from_micros(i * 7919 % 20 * 12_000));
    child.kill().unwrap();
    child.wait().unwrap();
    let done = dir.join(format!("{actuator}-{i}.done"));
    wait_until("the work goes on to its end", || done.exists());
    assert_eq!(
        fs::read_to_string(&out).unwrap(),
        expected(),
        "{actuator}, kill {i}"
    );
    wait_until("its control groups are removed", || {
        left_over(child.id()).is_none()
    });
}

#[test]
fn the_command_survives_kill_9_of_iolens() {
    let Some(device) = LoopDevice::new(16) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        let kills: Vec<_> = (0..4)
            .map(|t| {
                let device = &device;
                let dir = dir.path();
                s.spawn(move || {
                    for i in 0..5 {
                        let freezer = iolens_control::Actuator::freezer().is_ok();
                        if !freezer {
                            eprintln!("SKIP: no freezer here: signals only");
                        }
                        let actuator = if freezer && i % 2 == 0 {
                            "freezer"
                        } else {
                            "signals"
                        };
                        kill_and_look(device, dir, t * 5 + i, actuator);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = kills.into_iter().map(|k| k.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

#[test]
fn one_killed_before_the_command_has_entered_its_group_does_not_keep_it_from_running() {
    let out = run(&[
        "enter",
        "--group",
        "/sys/fs/cgroup/iolens-throttle-0/gone",
        "--",
        "sh",
        "-c",
        "exit 5",
    ]);
    assert_eq!(out.status.code(), Some(5), "{}", scene(&out));
}

/// The limits of the group of iolens `pid`, in the format of the hierarchy version with the controller; `None`: no
/// group.
fn rate_limit(pid: u32) -> Option<String> {
    let name = format!("iolens-throttle-{pid}");
    let bases = [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/blkio",
    ]
    .map(Path::new);
    let files = bases.iter().flat_map(|b| {
        ["io.max", "blkio.throttle.read_bps_device"].map(|file| b.join(&name).join(file))
    });
    files.filter_map(|f| fs::read_to_string(f).ok()).next()
}

#[test]
fn a_rate_is_limited_while_the_disk_is_busy_and_lifted_after_kill_9() {
    let Some(device) = LoopDevice::new(16) else {
        return;
    };
    let disk = device.path.to_str().unwrap();
    let why = match iolens_control::Rates::new(&[]) {
        Ok(_) => None,
        Err(why) => Some(why.join("; ")),
    };
    if let Some(why) = why {
        eprintln!("SKIP: no rate can be limited here: {why}");
        return;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        let marks = [
            "--low",
            "0",
            "--high",
            "10",
            "--max",
            "11",
            "--interval",
            "100ms",
        ];
        let fixed = [
            "throttle",
            "-q",
            "--source",
            "counters",
            "--path",
            disk,
            "--actuator",
            "io-max",
        ];
        let command = ["--", "sleep", "5"];
        let all: Vec<&str> = fixed
            .iter()
            .chain(&marks)
            .chain(&command)
            .copied()
            .collect();
        let mut child = iolens(&all).spawn().unwrap();
        let pid = child.id();
        // 2 % of the minimum rate of a command: 20 kB/s.
        let limited =
            || rate_limit(pid).is_some_and(|l| l.contains(" 20000") || l.contains("=20000"));
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until("it is limited", limited)
        }));
        child.kill().unwrap();
        child.wait().unwrap();
        stop.store(true, Ordering::Relaxed);
        looked.unwrap();
        wait_until("the limit is lifted", || {
            rate_limit(pid).is_none_or(|l| l.trim().is_empty())
        });
        wait_until("its control groups are removed", || {
            left_over(pid).is_none()
        });
    });
}
