//! Counts terminating signals, so that the program finishes its current work first.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use iolens_observe::counters::process;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

/// Signals that request termination and would end the process immediately; a recording is completed first. Signals that
/// report a fault of the program are not included. A signal that was ignored from the start (`nohup`) stays ignored.
const ASKING: [i32; 10] = [
    SIGHUP,
    SIGQUIT,
    SIGALRM,
    SIGUSR1,
    SIGUSR2,
    SIGIO,
    SIGPROF,
    SIGVTALRM,
    SIGXCPU,
    Signal::POWER.as_raw(),
];
/// Real-time signals, except those that C libraries use themselves.
const REAL_TIME: std::ops::RangeInclusive<i32> = 35..=64;

/// SIGINT and all signals of `ASKING`, which are counted instead of ending the process.
#[derive(Debug)]
pub struct Signals {
    interrupted: Arc<AtomicUsize>,
    terminated: Arc<AtomicUsize>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The handlers could not be installed.
    pub fn catch() -> Result<Signals> {
        let signals = Signals {
            interrupted: Arc::default(),
            terminated: Arc::default(),
        };
        let mut incoming = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .context("signal handlers could not be installed")?;
        for signal in ASKING
            .into_iter()
            .chain(REAL_TIME)
            .filter(|s| !process::is_ignored(*s))
        {
            // If its handler cannot be installed, this signal ends the program as before.
            drop(incoming.add_signal(signal));
        }
        let interrupted = Arc::clone(&signals.interrupted);
        let terminated = Arc::clone(&signals.terminated);
        // A separate thread counts them (a second Ctrl-C means more than the first): no code runs in the handler.
        std::thread::Builder::new()
            .name("iolens-signals".to_owned())
            .spawn(move || {
                give_up_privileges();
                for signal in incoming.forever() {
                    let count = if signal == SIGINT {
                        &interrupted
                    } else {
                        &terminated
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
            .context("the signal thread could not be started")?;
        Ok(signals)
    }

    /// Number of both.
    pub fn caught(&self) -> usize {
        self.interrupted.load(Ordering::Relaxed) + self.terminated()
    }

    /// Number of signals other than SIGINT.
    pub fn terminated(&self) -> usize {
        self.terminated.load(Ordering::Relaxed)
    }
}

/// Drops all capabilities of the counting thread. It needs none; otherwise it would keep those that the other threads
/// of a service drop.
fn give_up_privileges() {
    let none = CapabilitySet::empty();
    let _ = set_no_new_privs(true);
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    );
}

/// The exit code for `status`: 128 + the signal's number if a signal ended it, as in shells.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|s| 128 + s))
        .unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}
