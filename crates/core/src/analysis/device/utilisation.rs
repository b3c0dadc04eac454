//! Utilisation of the disks under a path (A2, A4): of each disk, the mean, the busiest, and the set as a whole.
//!
//! From counters it is the kernel's `io_ticks`, corrected for the known bias of the kernel version where possible.
//! From events it is the length of the union of all I/Os, which is exact.

use std::collections::VecDeque;

use serde::Serialize;

use crate::analysis::counters::io_ticks::{Regime, sigma_pp};
use crate::analysis::counters::rates::{Delta, State};

/// How a utilisation was measured. Every output names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The union of all I/Os, exact.
    Events,
    /// The kernel's `io_ticks`, right on average on this kernel.
    IoTicks,
    /// `io_ticks` minus the excess that short I/Os add on this kernel (touched-jiffy law).
    IoTicksCorrected,
    /// `io_ticks` of a kernel that misses long I/Os, raised to the utilisation that the time in flight implies.
    IoTicksRaised,
    /// Share of samples of the in-flight gauge that were not zero: right on average on every kernel.
    InFlight,
    /// `io_ticks` of a kernel whose bias is unknown or cannot be removed.
    IoTicksBiased,
}

impl Method {
    /// Name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::Events => "events",
            Method::IoTicks => "io-ticks",
            Method::IoTicksCorrected => "io-ticks-corrected",
            Method::IoTicksRaised => "io-ticks-raised",
            Method::InFlight => "in-flight",
            Method::IoTicksBiased => "io-ticks-biased",
        }
    }
}

/// Fewer samples of the in-flight gauge than this are less accurate than a biased counter.
const MIN_LOOKS: u32 = 50;

/// Samples of the number in flight, for kernels whose `io_ticks` cannot be trusted. The share of busy samples is
/// unbiased unless sampling is synchronised with the load; its standard deviation is `sqrt(U(1-U)/n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// Number of samples.
    pub n: u32,
    /// Samples with at least one I/O in flight.
    pub busy: u32,
}

impl Looks {
    /// Adds one sample of the in-flight gauge. Kernels have printed wrapped negative values; they count as not busy.
    pub fn look(&mut self, in_flight: u64) {
        self.n += 1;
        self.busy += u32::from(in_flight > 0 && in_flight < 1 << 31);
    }
}

/// Estimates busy time from the counters of the running kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimator {
    /// How the kernel counts `io_ticks`; `None` if its release could not be read.
    pub regime: Option<Regime>,
    /// Jiffies per second (`CONFIG_HZ`); `None` if not known.
    pub hz: Option<u32>,
}

/// Busy time of one disk over one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Busy {
    /// Best estimate of the share of time with at least one I/O in flight, in percent, 0 to 100. `None`: not known.
    pub busy_percent: Option<f64>,
    /// Busy time counted by the kernel, in percent; may exceed 100.
    pub io_ticks_percent: Option<f64>,
    /// Standard deviation of `busy_percent` from sampling, in percentage points, where it is known.
    pub sigma_pp: Option<f64>,
    /// Where `busy_percent` comes from.
    pub method: Method,
    /// I/Os that completed.
    pub ios: Option<u64>,
}

impl Estimator {
    /// Whether this kernel's `io_ticks` can be wrong by more than its resolution, so that [`Looks`] are worth their cost.
    pub fn wants_looks(&self) -> bool {
        !matches!(self.regime, Some(Regime::Sampled | Regime::RoundStats))
    }

    /// As [`Estimator::busy`], but from `looks` if the counter cannot be trusted and there are enough samples.
    pub fn busy_with_looks(&self, delta: &Delta, looks: Looks) -> Busy {
        let busy = self.busy(delta);
        if !self.wants_looks() || looks.n < MIN_LOOKS || busy.busy_percent.is_none() {
            return busy;
        }
        let share = f64::from(looks.busy) / f64::from(looks.n);
        let sigma_pp = Some(100.0 * (share * (1.0 - share) / f64::from(looks.n)).sqrt());
        Busy {
            busy_percent: Some(100.0 * share),
            sigma_pp,
            method: Method::InFlight,
            ..busy
        }
    }

    /// Busy time from a counter difference.
    ///
    /// It is unknown if the device was replugged or is not accounted, or if the interval is shorter than a jiffy.
    pub fn busy(&self, delta: &Delta) -> Busy {
        let jiffy_s = 1.0 / f64::from(self.hz.unwrap_or(100).max(1));
        let span_s = delta.span_ns as f64 / 1e9;
        let ios = [delta.read.ios, delta.write.ios, delta.discard.ios]
            .into_iter()
            .flatten()
            .reduce(|a, b| a.saturating_add(b));
        let known = delta.state == State::Known && span_s >= jiffy_s;
        // Equal to `delta.rates().util_percent`, but without the thirty other rates: this runs at every refresh.
        let Some(ticks) = delta
            .io_ticks_ms
            .filter(|_| known)
            .map(|ms| ms as f64 / span_s / 10.0)
        else {
            return Busy {
                busy_percent: None,
                io_ticks_percent: None,
                sigma_pp: None,
                method: Method::IoTicks,
                ios,
            };
        };
        let load = CounterLoad::of(delta, ios, span_s);
        let (percent, method) = match (self.regime, load) {
            (Some(Regime::Sampled | Regime::RoundStats), _) => (ticks, Method::IoTicks),
            (Some(Regime::TouchedJiffy | Regime::StartTouches), Some(load))
                if self.hz.is_some() =>
            {
                load.correct(ticks, jiffy_s)
            }
            _ => (ticks, Method::IoTicksBiased),
        };
        let sigma = match (self.regime, load, self.hz) {
            (Some(Regime::Sampled), Some(l), Some(_)) => Some(sigma_pp(
                ios.unwrap_or(0),
                l.mean_s() * 1e9,
                jiffy_s * 1e9,
                delta.span_ns as f64,
            )),
            _ => None,
        };
        let busy_percent = Some(percent.clamp(0.0, 100.0));
        Busy {
            busy_percent,
            io_ticks_percent: Some(ticks),
            sigma_pp: sigma,
            method,
            ios,
        }
    }
}

/// Load of an interval from the other counters, which the kernel keeps in nanoseconds and without bias.
#[derive(Debug, Clone, Copy)]
struct CounterLoad {
    /// I/Os completed per second.
    per_s: f64,
    /// Mean number in flight: time in flight of what completed, per second.
    in_flight: f64,
}

impl CounterLoad {
    fn of(delta: &Delta, ios: Option<u64>, span_s: f64) -> Option<CounterLoad> {
        let in_flight = delta.time_in_queue_ms? as f64 / 1e3 / span_s;
        Some(CounterLoad {
            per_s: ios? as f64 / span_s,
            in_flight,
        })
    }

    fn mean_s(&self) -> f64 {
        if self.per_s > 0.0 {
            self.in_flight / self.per_s
        } else {
            0.0
        }
    }

    /// Removes the touched-jiffy bias: solves `U' = 1 - (1-U) exp(-rate J)` for `U`, within the bounds set by the
    /// time in flight. These kernels undercount I/Os longer than a jiffy instead; the M/M/1 relation `U = L/(1+L)` is
    /// then a better lower bound than the counter.
    fn correct(&self, ticks_percent: f64, jiffy_s: f64) -> (f64, Method) {
        let most = 100.0 * self.in_flight.min(1.0);
        if self.mean_s() > jiffy_s {
            let implied = 100.0 * self.in_flight / (1.0 + self.in_flight);
            return (ticks_percent.min(100.0).max(implied), Method::IoTicksRaised);
        }
        let touched = (ticks_percent / 100.0).min(1.0);
        let solved = 100.0 * (1.0 - (1.0 - touched) * (self.per_s * jiffy_s).exp());
        // If nearly every jiffy is touched the solution is meaningless, and the time in flight gives the lower bound.
        let least = 100.0 * self.in_flight / (1.0 + self.in_flight);
        (solved.max(least).min(most), Method::IoTicksCorrected)
    }
}

/// Several disks together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Combined {
    /// Mean over the disks, in percent; it hides one hot disk among many.
    pub mean_percent: f64,
    /// The busiest disk. Percent.
    pub max_percent: f64,
    /// Share of time with an I/O on any of them, in percent: exact from events or for one disk, otherwise the value
    /// for independent disks.
    pub any_percent: f64,
    /// Bounds of `any_percent`, in percent: full overlap, no overlap.
    pub any_range_percent: (f64, f64),
}

/// Combines the disks of a set; `None` unless all of them are known (A4: `U_any >= max >= mean`).
///
/// `exact_any` is the measured share of time with any of them busy, where events gave it.
pub fn combine(busy_percent: &[Option<f64>], exact_any: Option<f64>) -> Option<Combined> {
    let all: Vec<f64> = busy_percent.iter().copied().collect::<Option<_>>()?;
    if all.is_empty() {
        return None;
    }
    let sum: f64 = all.iter().sum();
    let max_percent = all.iter().copied().fold(0.0, f64::max);
    let idle: f64 = all.iter().map(|u| 1.0 - u / 100.0).product();
    let independent = (100.0 * (1.0 - idle)).max(max_percent);
    let any = if all.len() == 1 {
        max_percent
    } else {
        exact_any.unwrap_or(independent)
    };
    let range = if exact_any.is_some() || all.len() == 1 {
        (any, any)
    } else {
        (max_percent, sum.min(100.0))
    };
    Some(Combined {
        mean_percent: sum / all.len() as f64,
        max_percent,
        any_percent: any,
        any_range_percent: range,
    })
}

/// Maximum number of busy intervals kept; beyond that the oldest is added to a sum.
const OPEN_INTERVALS: usize = 4096;

/// The union of all `[start, done)`, fed in order of completion and read window by window (A2, exact).
///
/// Memory is bounded: the part of an I/O that lies before the last 4096 disjoint busy intervals is not counted.
#[derive(Debug, Clone)]
pub struct BusyUnion {
    from_ns: i64,
    settled_ns: i64,
    settled_to_ns: i64,
    open: VecDeque<(i64, i64)>,
}

impl BusyUnion {
    /// The first window begins at `from_ns`.
    pub fn new(from_ns: i64) -> BusyUnion {
        BusyUnion {
            from_ns,
            settled_ns: 0,
            settled_to_ns: from_ns,
            open: VecDeque::new(),
        }
    }

    /// Adds an I/O; `done_ns` must not decrease from call to call.
    pub fn push(&mut self, start_ns: i64, done_ns: i64) {
        let mut start = start_ns.max(self.settled_to_ns);
        if done_ns <= start {
            return;
        }
        while let Some(&(from, to)) = self.open.back() {
            if to < start {
                break;
            }
            start = start.min(from);
            self.open.pop_back();
        }
        self.open.push_back((start, done_ns));
        if self.open.len() > OPEN_INTERVALS {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some((from, to)) = self.open.pop_front() {
            self.settled_ns += to - from;
            self.settled_to_ns = to;
        }
    }

    /// Nanoseconds busy since the end of the last window, which stays open.
    pub fn so_far_ns(&self) -> i64 {
        let open: i64 = self.open.iter().map(|(from, to)| to - from).sum();
        self.settled_ns + open
    }

    /// Nanoseconds busy from the last window's end to `to_ns`, where the next window begins.
    pub fn take(&mut self, to_ns: i64) -> i64 {
        while self.open.front().is_some_and(|(_, to)| *to <= to_ns) {
            self.settle();
        }
        let mut busy = std::mem::take(&mut self.settled_ns);
        if let Some((from, _)) = self.open.front_mut()
            && *from < to_ns
        {
            busy += to_ns - *from;
            *from = to_ns;
        }
        self.from_ns = to_ns;
        self.settled_to_ns = self.settled_to_ns.max(to_ns);
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::counters::io_ticks::IoTicks;
    use crate::model::{CounterSample, DevId, DiskCounters};
    use proptest::prelude::*;

    /// Poisson arrivals to one server of fixed service time: (exact busy, what the kernel counts, I/Os, time in flight).
    fn single_server(per_s: f64, service_ms: f64, regime: Regime, hz: u32) -> (f64, Delta) {
        let mut seed = 88_172_645_463_325_252u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        let seconds = 100.0;
        let service = (service_ms * 1e6) as i64;
        let mut edges = Vec::new();
        let mut t = 0.0;
        let mut free = 0i64;
        let mut busy = 0i64;
        let mut queue = 0i64;
        while t < seconds {
            t += -(1.0 - random()).ln() / per_s;
            let start = (t * 1e9) as i64;
            free = free.max(start) + service;
            busy += service;
            queue += free - start;
            edges.extend([(start, 0u8), (free, 1)]);
        }
        edges.sort_unstable();
        let mut ticks = IoTicks::new(regime, hz);
        edges.iter().for_each(|(at, end)| {
            if *end == 1 {
                ticks.done(*at)
            } else {
                ticks.start(*at)
            }
        });
        let mut after = DiskCounters {
            io_ticks_ms: ticks.busy_ns() as u64 / 1_000_000,
            ..DiskCounters::default()
        };
        after.read.ios = edges.len() as u64 / 2;
        after.time_in_queue_ms = queue as u64 / 1_000_000;
        let at = |at_ns, counters| CounterSample {
            at_ns,
            dev: DevId::new(8, 0),
            counters,
        };
        let delta = Delta::between(
            &at(0, DiskCounters::default()),
            &at((seconds * 1e9) as i64, after),
            None,
        );
        (busy as f64 / 1e9 / seconds * 100.0, delta)
    }

    #[test]
    fn the_bias_of_each_kernel_is_taken_out_for_short_ios() {
        for (per_s, service_ms, hz) in [
            (230.0, 0.215, 250),
            (100.0, 0.1, 1000),
            (1000.0, 0.1, 250),
            (90.0, 3.0, 250),
            (50.0, 1.5, 100),
        ] {
            for regime in [
                Regime::RoundStats,
                Regime::TouchedJiffy,
                Regime::StartTouches,
                Regime::Sampled,
            ] {
                let (exact, delta) = single_server(per_s, service_ms, regime, hz);
                let got = Estimator {
                    regime: Some(regime),
                    hz: Some(hz),
                }
                .busy(&delta);
                let u = got.busy_percent.expect("known");
                let raw = got.io_ticks_percent.expect("known");
                assert!(
                    (u - exact).abs() < 2.5,
                    "{per_s}/s {service_ms} ms HZ {hz} {regime:?}: exact {exact:.2}, got {u:.2} from {raw:.2}"
                );
            }
        }
        let (exact, delta) = single_server(230.0, 0.215, Regime::TouchedJiffy, 250);
        let raw = Estimator {
            regime: None,
            hz: None,
        }
        .busy(&delta);
        assert_eq!(raw.method, Method::IoTicksBiased);
        assert!(
            raw.busy_percent.expect("known") > exact + 50.0,
            "uncorrected it is far off: that is the point"
        );
    }

    #[test]
    fn long_ios_that_hide_from_old_kernels_are_found_in_the_time_in_flight() {
        let (exact, delta) = single_server(90.0, 10.0, Regime::TouchedJiffy, 1000);
        let got = Estimator {
            regime: Some(Regime::TouchedJiffy),
            hz: Some(1000),
        }
        .busy(&delta);
        assert_eq!(got.method, Method::IoTicksRaised);
        assert!(got.io_ticks_percent.expect("known") < 30.0);
        assert!(
            (got.busy_percent.expect("known") - exact).abs() < 15.0,
            "{got:?} {exact}"
        );
    }

    #[test]
    fn nothing_is_known_of_a_blink_or_of_an_unaccounted_device() {
        let e = Estimator {
            regime: Some(Regime::Sampled),
            hz: Some(250),
        };
        let (_, mut delta) = single_server(100.0, 1.0, Regime::Sampled, 250);
        delta.span_ns = 3_999_999;
        assert_eq!(e.busy(&delta).busy_percent, None);
        assert_eq!(
            e.busy(&Delta::unknown(State::NotAccounted, 1_000_000_000))
                .busy_percent,
            None
        );
        assert_eq!(
            e.busy(&Delta::unknown(State::Restarted, 1_000_000_000))
                .busy_percent,
            None
        );
    }

    #[test]
    fn looks_decide_only_where_the_counter_is_wrong_and_there_are_enough() {
        let (_, delta) = single_server(230.0, 0.215, Regime::TouchedJiffy, 250);
        let mut looks = Looks::default();
        (0..200).for_each(|i| looks.look(if i % 20 == 0 { 1 } else { 0 }));
        looks.look(u64::MAX);
        let old = Estimator {
            regime: Some(Regime::TouchedJiffy),
            hz: Some(250),
        };
        let b = old.busy_with_looks(&delta, looks);
        assert_eq!(b.method, Method::InFlight);
        assert!(
            b.busy_percent
                .is_some_and(|p| (p - 1000.0 / 201.0).abs() < 1e-9),
            "{b:?}"
        );
        assert_eq!(
            old.busy_with_looks(&delta, Looks { n: 49, busy: 1 }).method,
            Method::IoTicksCorrected
        );
        let new = Estimator {
            regime: Some(Regime::Sampled),
            hz: Some(250),
        };
        assert_eq!(new.busy_with_looks(&delta, looks).method, Method::IoTicks);
    }

    #[test]
    fn a_set_is_known_only_if_all_of_it_is() {
        assert_eq!(combine(&[], None), None);
        assert_eq!(combine(&[Some(10.0), None], None), None);
        let one = combine(&[Some(40.0)], None).expect("known");
        assert_eq!(
            (one.any_percent, one.any_range_percent),
            (40.0, (40.0, 40.0))
        );
        let two = combine(&[Some(50.0), Some(20.0)], None).expect("known");
        assert_eq!(
            (two.mean_percent, two.max_percent, two.any_percent),
            (35.0, 50.0, 60.0)
        );
        assert_eq!(two.any_range_percent, (50.0, 70.0));
        assert_eq!(
            combine(&[Some(50.0), Some(20.0)], Some(55.0))
                .expect("known")
                .any_percent,
            55.0
        );
    }

    proptest! {
        #[test]
        fn any_is_between_the_busiest_and_the_sum(us in prop::collection::vec(0.0f64..=100.0, 1..12)) {
            let all: Vec<_> = us.iter().copied().map(Some).collect();
            let c = combine(&all, None).expect("known");
            let eps = 1e-9;
            prop_assert!(c.mean_percent <= c.max_percent + eps);
            prop_assert!(c.any_range_percent.0 <= c.any_percent + eps && c.any_percent <= c.any_range_percent.1 + eps);
        }

        #[test]
        fn the_union_counts_each_instant_once(mut ios in prop::collection::vec((0i64..200, 1i64..60), 0..40), cuts in prop::collection::vec(1i64..60, 1..6)) {
            ios.iter_mut().for_each(|io| io.1 += io.0);
            ios.sort_by_key(|io| io.1);
            let mut union = BusyUnion::new(0);
            let mut next = ios.iter().peekable();
            let mut from = 0;
            for cut in cuts {
                // A window is read when everything that completes inside it, and a little more, has been seen.
                let to = from + cut;
                while let Some((start, done)) = next.next_if(|io| io.1 <= to + 70) {
                    union.push(*start, *done);
                }
                let each = (from..to).filter(|t| ios.iter().any(|(a, b)| a <= t && t < b)).count() as i64;
                prop_assert_eq!(union.take(to), each);
                prop_assert_eq!(union.from_ns, to);
                from = to;
            }
        }

        #[test]
        fn no_counters_make_a_figure_outside_its_range(ticks in 0u64..5_000_000, ios in 0u64..1_000_000, queue in 0u64..10_000_000, span in 1i64..10_000_000_000) {
            for regime in [None, Some(Regime::TouchedJiffy), Some(Regime::StartTouches), Some(Regime::Sampled), Some(Regime::AllocatedToo)] {
                let mut delta = Delta::unknown(State::Known, span);
                delta.io_ticks_ms = Some(ticks);
                delta.time_in_queue_ms = Some(queue);
                delta.read.ios = Some(ios);
                if let Some(u) = (Estimator { regime, hz: Some(250) }).busy(&delta).busy_percent {
                    prop_assert!((0.0..=100.0).contains(&u), "{u}");
                }
            }
        }
    }
}
