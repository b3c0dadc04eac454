//! Handles signals between reports: a run is ended only after its document is complete.

use iolens_observe::counters::process;
use signal_hook::consts::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// End the run with exit code 0, as in the reference.
const ASKED: [i32; 2] = [SIGINT, SIGTERM];
/// Signals that end the program after its document is complete. Not handled if they were ignored from the start
/// (`nohup`).
const FATAL: [i32; 9] = [
    SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF,
];

/// The signals caught.
#[derive(Debug, Default)]
pub struct ReportSignals {
    end: Arc<AtomicUsize>,
    alarm: Arc<AtomicBool>,
}

impl ReportSignals {
    /// Catches all signals that would end the program.
    pub fn catch() -> ReportSignals {
        let signals = ReportSignals::default();
        let fatal = FATAL.into_iter().filter(|s| !process::is_ignored(*s));
        for signal in ASKED.into_iter().chain(fatal) {
            // Without a handler, the signal ends the program immediately; nothing else depends on it.
            let _ = signal_hook::flag::register_usize(
                signal,
                Arc::clone(&signals.end),
                signal as usize,
            );
        }
        let _ = signal_hook::flag::register(SIGALRM, Arc::clone(&signals.alarm));
        signals
    }

    /// Whether the run is to end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed) != 0
    }

    /// Whether an alarm has arrived since the last call. The reference counts its intervals by alarms, so one from
    /// outside triggers the next report immediately.
    pub fn take_alarm(&self) -> bool {
        self.alarm.load(Ordering::Relaxed) && self.alarm.swap(false, Ordering::Relaxed)
    }

    /// Ends the program by the signal that ended the run, if its default action is to do so. Call this after
    /// everything is written.
    pub fn die_if_meant(&self) {
        let signal = self.end.load(Ordering::Relaxed) as i32;
        if FATAL.contains(&signal) {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}
