//! Holds a command for a share of the time: the duty cycle and its mechanisms.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use iolens_core::model::DevId;

use super::cgroup::{Group, Hierarchy};
use super::lock::{locked, wait};
use super::rates::Rates;

/// Length of a duty cycle.
const CYCLE: Duration = Duration::from_millis(100);

/// The command runs at least this long at a time; a smaller share makes the cycle longer instead.
const MIN_RUN: Duration = Duration::from_millis(5);

/// From this share on the command is not held at all.
const FREE: f64 = 0.995;

/// The mechanism that throttles a command.
#[derive(Debug)]
pub enum Actuator {
    /// The freezer of a control group: stops all descendants at once, without a signal.
    Freezer(Group),
    /// The rate of its I/O is limited; it is never stopped.
    Rates(Rates),
    /// SIGSTOP and SIGCONT to its process group: descendants in groups of their own escape. It runs in a session of its
    /// own, without a controlling terminal.
    Signals,
}

impl Actuator {
    /// Selects the best mechanism that this machine allows for a command on these disks: the freezer of cgroup v2, of
    /// v1, a rate limit, signals. Also returns why each better one is not available.
    ///
    /// A freezer is preferred because a share of the time has the same meaning for every command. A rate limit
    /// depends on how fast the command would be without it, and that of v1 does not include the kernel's write-back.
    pub fn best(disks: &[DevId]) -> (Actuator, Vec<String>) {
        let mut why = match Actuator::freezer() {
            Ok(a) => return (a, Vec::new()),
            Err(why) => why,
        };
        match Rates::new(disks) {
            Ok(rates) => (Actuator::Rates(rates), why),
            Err(more) => {
                why.extend(more);
                (Actuator::Signals, why)
            }
        }
    }

    /// Selects a freezer, of cgroup v2 if possible.
    ///
    /// # Errors
    /// Why it is not available, for each version.
    pub fn freezer() -> Result<Actuator, Vec<String>> {
        let mut why = Vec::new();
        for hierarchy in [Hierarchy::V2, Hierarchy::V1Freezer] {
            match Group::new(hierarchy) {
                Ok(group) => return Ok(Actuator::Freezer(group)),
                Err(e) => why.push(format!(
                    "{}: {e} (needs to be mounted, and root or a group that was delegated to this user)",
                    hierarchy.name()
                )),
            }
        }
        Err(why)
    }

    /// Name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Actuator::Freezer(group) => group.hierarchy().name(),
            Actuator::Rates(rates) => rates.name(),
            Actuator::Signals => "SIGSTOP and SIGCONT",
        }
    }

    /// Whether the command needs a session of its own. When iolens dies, its process group would become an orphan, and
    /// the kernel sends SIGHUP to orphans that are stopped (`kill_orphaned_pgrp`), before any guardian can resume them.
    /// A group that was alone in its session from the start is spared that. The price: no controlling terminal.
    pub fn needs_session(&self) -> bool {
        matches!(self, Actuator::Signals)
    }

    /// The control group, if the mechanism uses one.
    pub fn group(&self) -> Option<&Group> {
        match self {
            Actuator::Freezer(group) => Some(group),
            Actuator::Rates(rates) => Some(rates.group()),
            Actuator::Signals => None,
        }
    }

    /// Whether it also throttles write-back that the kernel does for the command. Only `io.max` of cgroup v2 does.
    pub fn holds_writeback(&self) -> bool {
        matches!(self, Actuator::Rates(rates) if rates.group().hierarchy() == Hierarchy::V2)
    }

    fn set(&self, leader: Pid, held: bool) -> io::Result<()> {
        match self {
            Actuator::Freezer(group) => group.freeze(held),
            Actuator::Rates(rates) => rates.set(None),
            Actuator::Signals => {
                match kill_process_group(leader, if held { Signal::STOP } else { Signal::CONT }) {
                    // The process has ended, or has not created its group yet; the waiting thread will notice.
                    Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                    Err(e) => Err(e.into()),
                }
            }
        }
    }
}

#[derive(Debug)]
struct ActuatorState {
    share: f64,
    ended: bool,
    /// Whether the command is held at this moment.
    holding: bool,
    /// Whether it must wait for its own write-back, independent of its share.
    waits: bool,
    held: Duration,
    failed: Option<String>,
}

/// A thread that alternately holds and releases a command. When it ends, or is dropped, the command runs freely.
#[derive(Debug)]
pub struct DutyCycle {
    shared: Arc<(Mutex<ActuatorState>, Condvar)>,
    actuator: Arc<Actuator>,
    leader: Pid,
    thread: Option<JoinHandle<()>>,
}

impl DutyCycle {
    /// Starts with the command running freely. `leader` is the leader of its process group.
    pub fn start(actuator: Actuator, leader: Pid) -> DutyCycle {
        let state = ActuatorState {
            share: 1.0,
            ended: false,
            holding: false,
            waits: false,
            held: Duration::ZERO,
            failed: None,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let actuator = Arc::new(actuator);
        let of_thread = Arc::clone(&shared);
        let acts = Arc::clone(&actuator);
        let thread = std::thread::spawn(move || cycle(&of_thread, &acts, leader));
        DutyCycle {
            shared,
            actuator,
            leader,
            thread: Some(thread),
        }
    }

    /// Sets the share of the time in which the command may run.
    pub fn set(&self, share: f64) {
        let mut state = locked(&self.shared.0);
        if state.share != share {
            state.share = share;
            drop(state);
            self.shared.1.notify_all();
        }
    }

    /// Sets whether the command must wait for its write-back. No effect while it runs freely.
    pub fn set_waits(&self, waits: bool) {
        locked(&self.shared.0).waits = waits;
    }

    /// Lets the command run freely. Returns when it does, or when it cannot be released.
    pub fn release(&self) {
        self.set(1.0);
        let mut state = locked(&self.shared.0);
        while state.holding && state.failed.is_none() && !state.ended {
            state = wait(&self.shared, state, Duration::from_millis(50));
        }
    }

    /// Total time that the command was stopped so far; for a rate limit, the time lost to the limit.
    pub fn held(&self) -> Duration {
        locked(&self.shared.0).held
    }

    /// Why the command can no longer be held, if that is the case.
    pub fn failed(&self) -> Option<String> {
        locked(&self.shared.0).failed.clone()
    }

    /// The mechanism in use.
    pub fn actuator(&self) -> &Actuator {
        &self.actuator
    }

    /// Lets the command run freely until it ends.
    pub fn end(&mut self) {
        locked(&self.shared.0).ended = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the release below is what counts.
            drop(thread.join());
        }
        // If the process has ended, there is nothing to release.
        drop(self.actuator.set(self.leader, false));
    }
}

impl Drop for DutyCycle {
    fn drop(&mut self) {
        self.end();
    }
}

fn cycle(shared: &(Mutex<ActuatorState>, Condvar), actuator: &Actuator, leader: Pid) {
    loop {
        let share = {
            let state = locked(&shared.0);
            if state.ended || state.failed.is_some() {
                return;
            }
            if state.share >= FREE {
                drop(wait(shared, state, Duration::from_secs(3600)));
                continue;
            }
            state.share
        };
        let length = CYCLE.max(MIN_RUN.div_f64(share.max(1e-4)));
        let run = length.mul_f64(share);
        let done = match actuator {
            Actuator::Rates(rates) => limit(shared, rates, share),
            _ => hold(shared, actuator, leader, length - run)
                .map(|()| sleep(shared, Instant::now() + run)),
        };
        if let Err(e) = done {
            let needs = if e.kind() == io::ErrorKind::PermissionDenied {
                NEEDS
            } else {
                ""
            };
            let why = format!(
                "the command cannot be held by {}: {e}{needs}",
                actuator.name()
            );
            let mut state = locked(&shared.0);
            state.holding = false;
            state.failed = Some(why);
            return;
        }
    }
}

/// The requirements of each mechanism, for the error if none is available.
const NEEDS: &str = "; a freezer or io.max needs root or a delegated control group, signals need root or a command that \
                     runs as the same user";

/// Holds the command for this time, and longer while it waits for its write-back.
fn hold(
    shared: &(Mutex<ActuatorState>, Condvar),
    actuator: &Actuator,
    leader: Pid,
    time: Duration,
) -> io::Result<()> {
    locked(&shared.0).holding = true;
    actuator.set(leader, true)?;
    let since = Instant::now();
    sleep(shared, since + time);
    while {
        let state = locked(&shared.0);
        state.waits && !state.ended && state.share < FREE
    } {
        sleep(shared, Instant::now() + MIN_RUN);
    }
    let released = actuator.set(leader, false);
    let mut state = locked(&shared.0);
    state.held += since.elapsed();
    state.holding = false;
    drop(state);
    shared.1.notify_all();
    released
}

/// Limits the command's rate until its share changes.
fn limit(shared: &(Mutex<ActuatorState>, Condvar), rates: &Rates, share: f64) -> io::Result<()> {
    locked(&shared.0).holding = true;
    rates.set(Some(share))?;
    let since = Instant::now();
    let mut state = locked(&shared.0);
    while state.share == share && !state.ended {
        state = wait(shared, state, Duration::from_secs(1));
    }
    let free = state.share >= FREE || state.ended;
    drop(state);
    let lifted = if free { rates.set(None) } else { Ok(()) };
    let mut state = locked(&shared.0);
    state.held += since.elapsed().mul_f64(1.0 - share);
    state.holding = !free;
    drop(state);
    shared.1.notify_all();
    lifted
}

/// Sleeps until `deadline`, or until the command is to run freely.
fn sleep(shared: &(Mutex<ActuatorState>, Condvar), deadline: Instant) {
    let mut state = locked(&shared.0);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || state.ended || state.share >= FREE {
            return;
        }
        state = wait(shared, state, left);
    }
}
