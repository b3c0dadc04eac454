//! `throttle` is stopped itself: Ctrl-Z stops the command too, SIGSTOP must not.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{iolens, wait_until};
use super::throttle::home;

/// The letter of `/proc/PID/stat` (proc_pid_stat(5)); `None`: it has ended.
fn state(pid: u32) -> Option<char> {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()?
        .rsplit_once(") ")?
        .1
        .chars()
        .next()
}

/// The command's process: the child of iolens that is not the guardian.
fn command_of(iolens: &Child) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", iolens.id())).ok()?;
    let is_it = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim() == "sleep")
    };
    children
        .split_whitespace()
        .filter_map(|p| p.parse().ok())
        .find(is_it)
}

/// Each way of holding a command that this machine has.
fn actuators() -> Vec<&'static str> {
    let mut all = vec!["signals"];
    if iolens_control::Actuator::freezer().is_ok() {
        all.push("freezer");
    } else {
        eprintln!("SKIP: no freezer here: signals only");
    }
    all
}

fn start(home: &str, more: &[&str], command: &[&str]) -> Child {
    let fixed = ["throttle", "-q", "--source", "counters", "--path", home];
    let all: Vec<&str> = fixed
        .iter()
        .chain(more)
        .chain(&["--"])
        .chain(command)
        .copied()
        .collect();
    // A group of its own, as a shell would give it: the test's own must not be stopped.
    iolens(&all).process_group(0).spawn().unwrap()
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn sigtstp_stops_command_and_iolens_and_sigcont_resumes_both() {
    let Some(home) = home() else { return };
    for actuator in actuators() {
        let mut child = start(home, &["--actuator", actuator], &["sleep", "3"]);
        wait_until("the command runs", || command_of(&child).is_some());
        let command = command_of(&child).unwrap();
        send(child.id(), Signal::TSTP);
        wait_until("both are stopped", || {
            state(command) == Some('T') && state(child.id()) == Some('T')
        });
        // Longer than the guardian waits for a process that is stopped without notice.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(7) {
            assert_eq!(state(command), Some('T'), "{actuator}: it stays stopped");
            std::thread::sleep(Duration::from_millis(200));
        }
        send(child.id(), Signal::CONT);
        wait_until("both go on", || {
            state(command) != Some('T') && state(child.id()) != Some('T')
        });
        assert_eq!(child.wait().unwrap().code(), Some(0), "{actuator}");
    }
}

#[test]
fn killed_while_it_is_stopped_it_leaves_the_command_running() {
    let Some(home) = home() else { return };
    for actuator in actuators() {
        let mut child = start(home, &["--actuator", actuator], &["sleep", "2"]);
        wait_until("the command runs", || command_of(&child).is_some());
        let command = command_of(&child).unwrap();
        send(child.id(), Signal::TSTP);
        wait_until("both are stopped", || {
            state(command) == Some('T') && state(child.id()) == Some('T')
        });
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the command goes on and ends", || {
            !matches!(state(command), Some('T' | 'S' | 'R' | 'D'))
        });
    }
}

#[test]
fn a_stopped_iolens_leaves_nothing_held() {
    let Some(home) = home() else { return };
    let dir = tempfile::tempdir().unwrap();
    for actuator in actuators() {
        let log = dir.path().join(actuator);
        // Held almost always: the watermarks are below any activity of a disk, and without a reading it is also
        // held.
        let marks = [
            "--low",
            "0",
            "--high",
            "10",
            "--max",
            "11",
            "--interval",
            "100ms",
            "--floor",
            "0.5",
        ];
        let more = ["--actuator", actuator, "--log", log.to_str().unwrap()];
        let script = "i=0; while [ $i -lt 40 ]; do head -c 4M /dev/urandom > \"$0\"; sync \"$0\"; i=$((i+1)); done";
        let file = tempfile::NamedTempFile::new_in(home).unwrap();
        let all: Vec<&str> = marks.iter().chain(&more).copied().collect();
        let mut child = start(
            home,
            &all,
            &["sh", "-c", script, file.path().to_str().unwrap()],
        );
        let held = || {
            fs::read_to_string(&log)
                .is_ok_and(|t| t.lines().any(|l| !l.contains("\"held_s\":0.0,")))
        };
        wait_until("it holds", || held() || child.try_wait().unwrap().is_some());
        if child.try_wait().unwrap().is_some() {
            eprintln!("SKIP: {actuator}: this disk was never busy enough to throttle the command");
            continue;
        }
        send(child.id(), Signal::STOP);
        let of_command = || {
            let pids = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()))
                .unwrap_or_default();
            let pids: Vec<u32> = pids
                .split_whitespace()
                .filter_map(|p| p.parse().ok())
                .collect();
            pids.into_iter().find(|p| {
                fs::read_to_string(format!("/proc/{p}/comm")).is_ok_and(|c| c.trim() == "sh")
            })
        };
        // Without being held it completes, although iolens is stopped and cannot wait for it.
        wait_until("the command comes to its end", || {
            of_command().is_none_or(|p| state(p) == Some('Z'))
        });
        send(child.id(), Signal::CONT);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{actuator}");
    }
}
