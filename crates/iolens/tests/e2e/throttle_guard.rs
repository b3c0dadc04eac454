//! The command and its cgroups after `throttle`, its guardians or both are killed.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::machine::{LoopDevice, iolens, read_in_sequence, wait_until};
use super::throttle::{home, left_over};

fn start(home: &str, more: &[&str], script: &str) -> Child {
    let fixed = ["throttle", "-q", "--source", "counters", "--path", home];
    let all: Vec<&str> = fixed
        .iter()
        .chain(more)
        .chain(&["--", "sh", "-c", script])
        .copied()
        .collect();
    iolens(&all).spawn().unwrap()
}

fn children(pid: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace()
        .map(|p| p.parse().unwrap())
        .collect()
}

/// The guardian that is a child of iolens.
fn guardian_of(iolens: &Child) -> Option<i32> {
    let is_one = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains("\0guard\0"))
    };
    children(iolens.id()).into_iter().find(is_one)
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Writes its process id to `file` and then a line to it every 50 ms.
fn ticking(file: &Path) -> String {
    format!(
        "echo $$ > {0}; while :; do echo tick >> {0}; sleep 0.05; done",
        file.display()
    )
}

fn ticker(file: &Path) -> Option<i32> {
    fs::read_to_string(file).ok()?.lines().next()?.parse().ok()
}

/// Waits until the command has run on for a while.
fn goes_on(file: &Path) {
    let before = fs::metadata(file).unwrap().len();
    wait_until("the command goes on", || {
        fs::metadata(file).unwrap().len() > before + 50
    });
}

fn actuators() -> Vec<&'static str> {
    let freezer = iolens_control::Actuator::freezer().is_ok();
    if !freezer {
        eprintln!("SKIP: no freezer here: signals only");
    }
    ["signals", "freezer"]
        .into_iter()
        .take(1 + usize::from(freezer))
        .collect()
}

#[test]
fn a_killed_guardian_is_replaced_and_signals_are_forwarded() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    for actuator in actuators() {
        let file = dir.path().join(actuator);
        let mut child = start(
            home,
            &["--actuator", actuator, "--interval", "100ms"],
            &ticking(&file),
        );
        wait_until("the command runs", || ticker(&file).is_some());
        let first = guardian_of(&child).unwrap();
        kill(first, Signal::KILL);
        wait_until("there is another", || {
            guardian_of(&child).is_some_and(|g| g != first)
        });
        goes_on(&file);
        kill(child.id().cast_signed(), Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(143), "{actuator}");
    }
}

/// Whether the command is held now.
fn is_held(actuator: &str, iolens: u32, command: i32) -> bool {
    if actuator == "signals" {
        return fs::read_to_string(format!("/proc/{command}/stat"))
            .is_ok_and(|s| s.contains(") T "));
    }
    let group = left_over(iolens).unwrap();
    let says = |file: &str, word: &str| {
        fs::read_to_string(group.join(file)).is_ok_and(|t| t.trim() == word)
    };
    says("cgroup.freeze", "1") || says("freezer.state", "FROZEN")
}

#[test]
fn killing_iolens_and_one_guardian_leaves_nothing_stopped() {
    let Some(device) = LoopDevice::new(16) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        let looked = std::panic::catch_unwind(|| {
            for actuator in actuators() {
                // Held almost always: the watermarks are below the disk's load from the reader.
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
                let more = [&["--actuator", actuator][..], &marks].concat();
                let file = dir.path().join(actuator);
                let mut child = start(device.path.to_str().unwrap(), &more, &ticking(&file));
                wait_until("the command runs", || ticker(&file).is_some());
                let pid = child.id();
                let command = ticker(&file).unwrap();
                wait_until("iolens is stopped while it holds the command", || {
                    kill(pid.cast_signed(), Signal::STOP);
                    let held = is_held(actuator, pid, command);
                    if !held {
                        kill(pid.cast_signed(), Signal::CONT);
                    }
                    held
                });
                kill(guardian_of(&child).unwrap(), Signal::KILL);
                child.kill().unwrap();
                child.wait().unwrap();
                goes_on(&file);
                kill(command, Signal::KILL);
                wait_until("its control groups are removed", || {
                    left_over(pid).is_none()
                });
            }
        });
        stop.store(true, Ordering::Relaxed);
        looked.unwrap();
    });
}

#[test]
fn on_request_the_command_ends_with_an_iolens_that_is_killed() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    for actuator in actuators() {
        let file = dir.path().join(actuator);
        let mut child = start(
            home,
            &["--actuator", actuator, "--kill-with"],
            &ticking(&file),
        );
        wait_until("the command runs", || ticker(&file).is_some());
        let command = ticker(&file).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the command ends", || !lives(command));
        wait_until("its control groups are removed", || {
            left_over(child.id()).is_none()
        });
    }
}

#[test]
fn a_group_is_removed_even_if_a_child_outlives_the_command() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    for actuator in actuators() {
        let file = dir.path().join(actuator);
        let script = format!(
            "setsid sleep 600 > /dev/null 2>&1 < /dev/null & echo $! > {}",
            file.display()
        );
        let mut child = start(home, &["--actuator", actuator], &script);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{actuator}");
        let survivor = ticker(&file).unwrap();
        let left = left_over(child.id());
        let alive = test_kill_process(Pid::from_raw(survivor).unwrap()).is_ok();
        kill(survivor, Signal::KILL);
        assert!(left.is_none() && alive, "{actuator}: {left:?}");
    }
}
