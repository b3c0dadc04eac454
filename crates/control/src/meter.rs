//! Utilisation of several paths at once: exact from events where available, else estimated from the kernel's counters.

use std::path::PathBuf;

use iolens_core::analysis::device::utilisation::{Busy, Method, combine};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::MountPath;

use super::{EventWindow, Events, Reading, SignalError, Utilisation};

/// An I/O in flight that outlasts the window is not in the events yet. Where the counter has seen this much more than
/// they show (percentage points), and more than chance explains, it is nearer the truth.
const UNFINISHED_PP: f64 = 5.0;
/// Standard deviations of a sampled estimate within which chance explains a difference.
const CHANCE_SIGMAS: f64 = 4.0;

/// Utilisation of several paths, interval by interval.
pub struct Meter {
    signals: Vec<Utilisation>,
    events: Option<Events>,
    needed: Needed,
    without_events: Option<String>,
}

/// What the events are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needed {
    Nothing,
    BusyTime,
    Attribution,
}

impl Meter {
    /// Opens the signals of `paths` on this machine, from counters.
    ///
    /// # Errors
    /// A path does not exist or may not be looked at.
    pub fn open(paths: &[PathBuf]) -> Result<Meter, SignalError> {
        let signals = paths
            .iter()
            .map(Utilisation::of_path)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Meter {
            signals,
            events: None,
            needed: Needed::Nothing,
            without_events: None,
        })
    }

    /// Adds events; with `attribution` they include the process of each I/O. Where this is not possible the meter
    /// continues with counters, and [`Meter::without_events`] gives the reason.
    pub fn add_events(&mut self, attribution: bool) {
        self.needed = if attribution {
            Needed::Attribution
        } else {
            Needed::BusyTime
        };
        self.restart_events();
    }

    fn restart_events(&mut self) {
        if self.needed == Needed::Nothing {
            return;
        }
        let stacks: Vec<&MountPath> = self.signals.iter().map(Utilisation::stack).collect();
        if stacks.iter().all(|s| s.disks.is_empty()) {
            return;
        }
        // The old tracer goes first: two would cost twice.
        self.events = None;
        match Events::start(&stacks, self.needed == Needed::Attribution) {
            Ok(events) => self.events = Some(events),
            Err(e) => self.without_events = Some(e.to_string()),
        }
        // Loading took a while: both sources begin now.
        for signal in &mut self.signals {
            signal.sample();
        }
        if let Some(events) = &self.events {
            events.begin(monotonic_ns());
        }
    }

    /// The signals, in the order of the paths.
    pub fn signals(&self) -> &[Utilisation] {
        &self.signals
    }

    /// The events, if there are any.
    pub fn events(&self) -> Option<&Events> {
        self.events.as_ref()
    }

    /// Why there are no events although they were requested.
    pub fn without_events(&self) -> Option<&str> {
        self.without_events.as_deref()
    }

    /// Whether this kernel's counters need [`Meter::look`].
    pub fn wants_looks(&self) -> bool {
        self.events.is_none() && self.signals.iter().any(|s| s.estimator().wants_looks())
    }

    /// Looks whether anything is in flight, see [`Utilisation::look`].
    pub fn look(&mut self) {
        self.signals.iter_mut().for_each(Utilisation::look);
    }

    /// Readings since the last call (or since the start), one for each path, and the window of events, if there is one.
    pub fn measure(&mut self) -> (Vec<Reading>, Option<EventWindow>) {
        let to_ns = monotonic_ns();
        let mut readings = Vec::with_capacity(self.signals.len());
        let mut moved = false;
        for signal in &mut self.signals {
            let before = signal.stack().disks.clone();
            readings.push(signal.sample());
            moved |= signal.stack().disks != before;
        }
        if moved {
            self.restart_events();
            return (readings, None);
        }
        let window = self.events.as_ref().and_then(|e| e.window(to_ns));
        if self.events.is_some() && window.is_none() {
            self.events = None;
            self.without_events = Some("the tracer failed while it ran".to_owned());
        }
        if let Some(window) = window.as_ref().filter(|w| !w.lossy) {
            for (i, reading) in readings.iter_mut().enumerate() {
                replace(reading, window, window.any_ns.get(i).copied());
            }
        }
        (readings, window)
    }
}

/// Whether the counter has seen no more than the events show.
fn agrees(counted: &Busy, exact_percent: f64) -> bool {
    let noise_pp = counted
        .sigma_pp
        .map_or(0.0, |sigma| CHANCE_SIGMAS * sigma)
        .max(UNFINISHED_PP);
    counted
        .io_ticks_percent
        .is_none_or(|ticks| ticks <= exact_percent + noise_pp)
}

/// Puts the exact figures in the place of the estimates.
fn replace(reading: &mut Reading, window: &EventWindow, any_ns: Option<i64>) {
    let mut all_exact = true;
    for disk in &mut reading.disks {
        let exact = window
            .disks
            .get(&disk.id)
            .and_then(|d| window.percent(d.busy_ns));
        match exact {
            Some(percent)
                if disk
                    .in_flight
                    .is_some_and(|n| n == 0 || agrees(&disk.busy, percent)) =>
            {
                disk.busy.busy_percent = Some(percent);
                disk.busy.method = Method::Events;
                disk.busy.sigma_pp = None;
            }
            _ => all_exact = false,
        }
    }
    let busy: Vec<Option<f64>> = reading.disks.iter().map(|d| d.busy.busy_percent).collect();
    reading.combined = combine(
        &busy,
        any_ns
            .filter(|_| all_exact)
            .and_then(|ns| window.percent(ns)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_chance_is_an_unfinished_io() {
        let counted = |ticks, sigma_pp| Busy {
            busy_percent: Some(ticks),
            io_ticks_percent: Some(ticks),
            sigma_pp,
            method: Method::IoTicks,
            ios: Some(1000),
        };
        assert!(
            agrees(&counted(77.0, Some(7.5)), 60.0),
            "a sampled estimate, 2.3 standard deviations off"
        );
        assert!(!agrees(&counted(100.0, Some(7.5)), 60.0));
        assert!(
            !agrees(&counted(100.0, None), 94.0),
            "an I/O that hung for the last 6 % of the window"
        );
        assert!(agrees(&counted(96.0, None), 94.0));
        assert!(
            agrees(&counted(3.0, None), 94.0),
            "less is the estimator's business"
        );
    }
}
