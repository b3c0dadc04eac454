//! Holding a command for a share of the time: the duty cycle, and what it is done with.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::cgroup::{Group, Hierarchy};

/// Length of a duty cycle.
const CYCLE: Duration = Duration::from_millis(100);

/// The command runs at least this long at a time; a smaller share makes the cycle longer instead.
const LEAST_RUN: Duration = Duration::from_millis(5);

/// From this share on the command is not held at all.
const FREE: f64 = 0.995;

/// With what a command is held.
#[derive(Debug)]
pub enum Actuator {
    /// The freezer of a control group: all descendants, at once, unseen by them.
    Freezer(Group),
    /// SIGSTOP and SIGCONT to its process group: descendants in groups of their own escape. It runs in a session of its
    /// own, without a controlling terminal.
    Signals,
}

impl Actuator {
    /// The best one that this machine allows: freezer of version 2, of version 1, signals. The second value says, for
    /// each better one that was not to be had, why not.
    pub fn best() -> (Actuator, Vec<String>) {
        match Actuator::freezer() {
            Ok(a) => (a, Vec::new()),
            Err(why) => (Actuator::Signals, why),
        }
    }

    /// A freezer, of version 2 if possible.
    ///
    /// # Errors
    /// For each version, why not.
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

    /// For people.
    pub fn name(&self) -> &'static str {
        match self {
            Actuator::Freezer(group) => group.hierarchy().name(),
            Actuator::Signals => "SIGSTOP and SIGCONT",
        }
    }

    /// Whether the command needs a session of its own. When iolens dies, its process group would become an orphan, and
    /// the kernel sends SIGHUP to orphans that are stopped (`kill_orphaned_pgrp`), before any guardian can resume them.
    /// A group that was alone in its session from the start is spared that. The price: no controlling terminal.
    pub fn needs_session(&self) -> bool {
        matches!(self, Actuator::Signals)
    }

    /// The control group, if it is one.
    pub fn group(&self) -> Option<&Group> {
        match self {
            Actuator::Freezer(group) => Some(group),
            Actuator::Signals => None,
        }
    }

    fn set(&self, leader: Pid, held: bool) -> io::Result<()> {
        match self {
            Actuator::Freezer(group) => group.freeze(held),
            Actuator::Signals => match kill_process_group(leader, if held { Signal::STOP } else { Signal::CONT }) {
                // It has ended, or has not made its group yet: whoever waits for it will see.
                Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                Err(e) => Err(e.into()),
            },
        }
    }
}

#[derive(Debug)]
struct State {
    share: f64,
    ended: bool,
    held: Duration,
    failed: Option<String>,
}

/// A thread that holds and releases a command. When it ends, or is dropped, the command runs.
#[derive(Debug)]
pub struct DutyCycle {
    shared: Arc<(Mutex<State>, Condvar)>,
    actuator: Arc<Actuator>,
    leader: Pid,
    thread: Option<JoinHandle<()>>,
}

impl DutyCycle {
    /// Begins with the command running freely. `leader` leads its process group.
    pub fn start(actuator: Actuator, leader: Pid) -> DutyCycle {
        let state = State { share: 1.0, ended: false, held: Duration::ZERO, failed: None };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let actuator = Arc::new(actuator);
        let (of_thread, acts) = (Arc::clone(&shared), Arc::clone(&actuator));
        let thread = std::thread::spawn(move || cycle(&of_thread, &acts, leader));
        DutyCycle { shared, actuator, leader, thread: Some(thread) }
    }

    /// From now on the command may run this share of the time.
    pub fn set(&self, share: f64) {
        let mut state = locked(&self.shared.0);
        if state.share != share {
            state.share = share;
            drop(state);
            self.shared.1.notify_all();
        }
    }

    /// Time held so far.
    pub fn held(&self) -> Duration {
        locked(&self.shared.0).held
    }

    /// Why the command can no longer be held, if so.
    pub fn failed(&self) -> Option<String> {
        locked(&self.shared.0).failed.clone()
    }

    /// With what it is held.
    pub fn actuator(&self) -> &Actuator {
        &self.actuator
    }

    /// Lets the command run for good.
    pub fn end(&mut self) {
        locked(&self.shared.0).ended = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the release below is what counts.
            drop(thread.join());
        }
        // It may have ended: then there is nobody to release.
        drop(self.actuator.set(self.leader, false));
    }
}

impl Drop for DutyCycle {
    fn drop(&mut self) {
        self.end();
    }
}

fn cycle(shared: &(Mutex<State>, Condvar), actuator: &Actuator, leader: Pid) {
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
        let length = CYCLE.max(LEAST_RUN.div_f64(share.max(1e-4)));
        let run = length.mul_f64(share);
        if let Err(e) = actuator.set(leader, true) {
            return fail(shared, &format!("it cannot be held: {e}"));
        }
        let since = Instant::now();
        sleep(shared, since + (length - run));
        let released = actuator.set(leader, false);
        locked(&shared.0).held += since.elapsed();
        if let Err(e) = released {
            return fail(shared, &format!("it cannot be released: {e}"));
        }
        sleep(shared, Instant::now() + run);
    }
}

/// Sleeps until `deadline`, or less if the command is to run freely from now on.
fn sleep(shared: &(Mutex<State>, Condvar), deadline: Instant) {
    let mut state = locked(&shared.0);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || state.ended || state.share >= FREE {
            return;
        }
        state = wait(shared, state, left);
    }
}

fn wait<'a>(
    shared: &'a (Mutex<State>, Condvar),
    state: MutexGuard<'a, State>,
    most: Duration,
) -> MutexGuard<'a, State> {
    shared.1.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
}

fn fail(shared: &(Mutex<State>, Condvar), why: &str) {
    locked(&shared.0).failed = Some(why.to_owned());
}

fn locked(m: &Mutex<State>) -> MutexGuard<'_, State> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
