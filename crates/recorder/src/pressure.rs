//! Samples the host's pressure while I/O is recorded, and the lateness of the recorder's own timer.
//!
//! A stall of 20 ms is the device's only if a CPU was available. The kernel's totals are therefore read ten times a
//! second, and immediately after a timer that was late. Similar intervals are joined to up to a second. Time without
//! I/O is one interval, which is stored when I/O resumes, so that an idle machine's disk is not woken for it.

use iolens_core::model::PressureSample;
use iolens_observe::counters::{HostCounters, HostFiles, Root};

/// Interval at which the totals are read while there is I/O.
const LOOK_NS: i64 = 100_000_000;

/// A sample costs at most this fraction of the time, because reading `/proc/stat` takes long on machines with many
/// CPUs.
const COST_DIVISOR: i64 = 500;

/// Maximum pause after a sample: one that had to wait for a CPU took long without being expensive.
const MAX_PAUSE_NS: i64 = 5_000_000_000;

/// Maximum length of joined intervals.
const MAX_JOINED_NS: i64 = 1_000_000_000;

/// Time after an I/O that still counts as time with I/O, because others that do not complete may be in flight.
const IO_LASTS_NS: i64 = 2_000_000_000;

/// A timer later than this had to wait for a CPU; its interval is not joined with others.
const LATE_NS: i64 = 5_000_000;

/// Intervals are similar if their shares of pressure and of steal differ by less than this.
const ALIKE_SHARE: f64 = 0.2;

/// The end of a wait for a timer, in nanoseconds since the recording's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerWake {
    /// The timer's deadline.
    pub due_ns: i64,
    /// Time at which the thread ran.
    pub woke_ns: i64,
}

impl TimerWake {
    fn late_ns(&self) -> i64 {
        (self.woke_ns - self.due_ns).max(0)
    }
}

/// The counters of one sample and its time.
#[derive(Debug, Clone, Copy)]
struct Look {
    at_ns: i64,
    counters: HostCounters,
}

/// Computes [`PressureSample`]s from readings of the host's counters.
#[derive(Debug)]
pub struct PressureWatch {
    files: HostFiles,
    intervals: Intervals,
    next_look_ns: i64,
}

impl PressureWatch {
    /// Takes the first sample, at `now_ns` since the recording's start.
    pub fn start(now_ns: i64) -> PressureWatch {
        let mut files = HostFiles::new(&Root::live());
        let counters = files.read();
        let first = Look {
            at_ns: now_ns,
            counters,
        };
        PressureWatch {
            files,
            intervals: Intervals::starting_at(first),
            next_look_ns: now_ns + LOOK_NS,
        }
    }

    /// Notes the end of a wait for a timer.
    pub fn woke(&mut self, wake: TimerWake) {
        self.intervals.woke(wake);
        if wake.late_ns() >= LATE_NS {
            self.next_look_ns = wake.woke_ns;
        }
    }

    /// Whether [`PressureWatch::look`] is due.
    pub fn is_due(&self, now_ns: i64) -> bool {
        now_ns >= self.next_look_ns
    }

    /// Reads the counters at `now_ns`; `clock` returns the time after reading. `had_io`: whether there was I/O since
    /// the last call.
    pub fn look(
        &mut self,
        now_ns: i64,
        had_io: bool,
        clock: impl Fn() -> i64,
    ) -> Option<PressureSample> {
        let counters = self.files.read();
        let cost_ns = clock() - now_ns;
        let pause_ns = cost_ns.saturating_mul(COST_DIVISOR);
        self.next_look_ns = now_ns + pause_ns.clamp(LOOK_NS, MAX_PAUSE_NS);
        let look = Look {
            at_ns: now_ns,
            counters,
        };
        self.intervals.add(look, had_io)
    }

    /// The interval that is still open, at the end of the recording.
    pub fn finish(&mut self) -> Option<PressureSample> {
        self.intervals.finish()
    }
}

/// Joins the intervals between samples.
#[derive(Debug)]
struct Intervals {
    last: Look,
    /// Time at which I/O was last seen.
    io_seen_ns: Option<i64>,
    /// The most overdue timer of the current interval.
    latest: Option<TimerWake>,
    open: Option<PressureInterval>,
}

/// An interval that may still grow.
#[derive(Debug, Clone, Copy)]
struct PressureInterval {
    sample: PressureSample,
    had_io: bool,
}

impl Intervals {
    fn starting_at(first: Look) -> Intervals {
        Intervals {
            last: first,
            io_seen_ns: None,
            latest: None,
            open: None,
        }
    }

    fn woke(&mut self, wake: TimerWake) {
        if self.latest.is_none_or(|w| wake.late_ns() > w.late_ns()) {
            self.latest = Some(wake);
        }
    }

    /// Ends an interval. Returns the previous one if it is complete, because the new one cannot be joined with it.
    fn add(&mut self, look: Look, had_io: bool) -> Option<PressureSample> {
        let sample = between(&self.last, &look, self.latest.take());
        self.last = look;
        if had_io {
            self.io_seen_ns = Some(look.at_ns);
        }
        let io_seen = self.io_seen_ns;
        let interval = PressureInterval {
            sample,
            had_io: io_seen.is_some_and(|at_ns| look.at_ns - at_ns <= IO_LASTS_NS),
        };
        match &mut self.open {
            Some(open) if may_join(open, &interval) => {
                open.sample = open.sample.joined(&sample);
                None
            }
            open => open.replace(interval).map(|i| i.sample),
        }
    }

    fn finish(&mut self) -> Option<PressureSample> {
        self.open.take().map(|i| i.sample)
    }
}

fn may_join(open: &PressureInterval, next: &PressureInterval) -> bool {
    if !open.had_io && !next.had_io {
        return true;
    }
    let is_short = next.sample.to_ns - open.sample.from_ns <= MAX_JOINED_NS;
    is_short
        && open.had_io == next.had_io
        && !is_late(&open.sample)
        && !is_late(&next.sample)
        && are_alike(&open.sample, &next.sample, |s| s.cpu_some_ns)
        && are_alike(&open.sample, &next.sample, |s| s.steal_ns)
}

fn is_late(sample: &PressureSample) -> bool {
    sample
        .timer_late_ns
        .is_some_and(|late_ns| late_ns >= LATE_NS)
}

/// Whether `of` has a similar share in both intervals, or is known in neither.
fn are_alike(
    a: &PressureSample,
    b: &PressureSample,
    of: fn(&PressureSample) -> Option<i64>,
) -> bool {
    match (share(a, of), share(b, of)) {
        (Some(a), Some(b)) => (a - b).abs() < ALIKE_SHARE,
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn share(sample: &PressureSample, of: fn(&PressureSample) -> Option<i64>) -> Option<f64> {
    Some(of(sample)? as f64 / sample.len_ns().max(1) as f64)
}

fn between(from: &Look, to: &Look, latest: Option<TimerWake>) -> PressureSample {
    let before = &from.counters;
    let after = &to.counters;
    PressureSample {
        from_ns: from.at_ns,
        to_ns: to.at_ns,
        cpus: after.cpus,
        cpu_some_ns: difference(before.cpu_some_ns, after.cpu_some_ns),
        io_some_ns: difference(before.io_some_ns, after.io_some_ns),
        io_full_ns: difference(before.io_full_ns, after.io_full_ns),
        steal_ns: difference(before.steal_ns, after.steal_ns),
        // Without the recorder, which runs during the reading.
        runnable: after.runnable.map(|n| (n - 1).max(0)),
        timer_due_ns: latest.map(|w| w.due_ns),
        timer_late_ns: latest.map(|w| w.late_ns()),
    }
}

/// The increase; `None` if the value fell. Some kernels decrease steal time, for instance after a live migration.
fn difference(before: Option<i64>, after: Option<i64>) -> Option<i64> {
    Some(after? - before?).filter(|ns| *ns >= 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: i64 = 1_000_000;

    /// Looks every 100 ms, each with what was added to the time of CPU pressure, in milliseconds.
    fn samples(pressure_ms: &[i64], had_io: bool) -> Vec<PressureSample> {
        let mut total_ns = 0;
        let mut look = |at_ns: i64, added_ms: i64| {
            total_ns += added_ms * MS;
            Look {
                at_ns,
                counters: HostCounters {
                    cpu_some_ns: Some(total_ns),
                    ..HostCounters::default()
                },
            }
        };
        let mut intervals = Intervals::starting_at(look(0, 0));
        let mut out = Vec::new();
        for (i, ms) in pressure_ms.iter().enumerate() {
            let at_ns = (i as i64 + 1) * 100 * MS;
            out.extend(intervals.add(look(at_ns, *ms), had_io));
        }
        out.extend(intervals.finish());
        out
    }

    #[test]
    fn alike_intervals_are_joined_up_to_a_second() {
        let calm = samples(&[1; 25], true);
        let lengths: Vec<i64> = calm.iter().map(|s| s.len_ns() / MS).collect();
        assert_eq!(lengths, [1000, 1000, 500]);
        assert_eq!(calm[0].cpu_some_ns, Some(10 * MS));
    }

    #[test]
    fn a_moment_of_pressure_keeps_its_own_interval() {
        let one = samples(&[1, 1, 80, 1, 1], true);
        let lengths: Vec<i64> = one.iter().map(|s| s.len_ns() / MS).collect();
        assert_eq!(lengths, [200, 100, 200]);
        assert_eq!(one[1].cpu_some_ns, Some(80 * MS));
    }

    #[test]
    fn time_without_io_is_one_interval() {
        let idle = samples(&[1, 90, 1, 90], false);
        assert_eq!(idle.len(), 1);
        assert_eq!(idle[0].len_ns(), 400 * MS);
        assert_eq!(idle[0].cpu_some_ns, Some(182 * MS));
    }

    #[test]
    fn a_late_timer_keeps_its_own_interval_with_when_it_was_due() {
        let counters = HostCounters::default();
        let look = |at_ns| Look { at_ns, counters };
        let mut intervals = Intervals::starting_at(look(0));
        let wake = |due_ns, woke_ns| TimerWake { due_ns, woke_ns };
        intervals.woke(wake(10 * MS, 10 * MS + 60_000));
        assert_eq!(intervals.add(look(100 * MS), true), None);
        intervals.woke(wake(110 * MS, 141 * MS));
        intervals.woke(wake(142 * MS, 143 * MS));
        let calm = intervals.add(look(150 * MS), true).unwrap();
        assert_eq!((calm.from_ns, calm.to_ns), (0, 100 * MS));
        assert_eq!(calm.timer_late_ns, Some(60_000));
        let late = intervals.add(look(250 * MS), true).unwrap();
        assert_eq!((late.from_ns, late.to_ns), (100 * MS, 150 * MS));
        assert_eq!(late.timer_due_ns, Some(110 * MS));
        assert_eq!(late.timer_late_ns, Some(31 * MS));
    }

    #[test]
    fn a_slow_look_delays_the_next_one_for_some_seconds_at_most() {
        let costs_and_pauses_ms = [(0, 100), (1, 500), (4, 2000), (1000, 5000)];
        for (cost_ms, pause_ms) in costs_and_pauses_ms {
            let mut watch = PressureWatch::start(0);
            watch.look(500 * MS, true, || (500 + cost_ms) * MS);
            let due_ns = (500 + pause_ms) * MS;
            assert!(!watch.is_due(due_ns - 1), "{cost_ms} ms");
            assert!(watch.is_due(due_ns), "{cost_ms} ms");
        }
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut watch = PressureWatch::start(0);
        assert!(!watch.is_due(0));
        watch.woke(TimerWake {
            due_ns: 0,
            woke_ns: LATE_NS,
        });
        assert!(watch.is_due(LATE_NS), "a late timer asks for a look");
        assert_eq!(watch.look(LATE_NS, true, || LATE_NS), None);
        let sample = watch.finish().unwrap();
        assert_eq!(sample.timer_late_ns, Some(LATE_NS));
        assert!(sample.cpus.is_some_and(|n| n > 0));
    }
}
