//! The kernel's estimate of busy time (`io_ticks`, the source of `%util`) and its error on this kernel (A2).
//!
//! The estimator changed three times. Its versions are ported here, so that the I/Os of a recording give both the value
//! that its kernel counted for them and the exact busy time:
//!
//! - up to 4.16, `part_round_stats`: at each start and end, the time since the last one if anything was in flight;
//! - 5.0 to 5.6 (5b18b5a73760): one jiffy for each jiffy in which anything starts or ends;
//! - 5.7 to 6.9: at an end the jiffies since the last start or end, at a start one jiffy;
//! - from 6.10 on (99dc422335d8): the jiffies since the last start or end, if this is an end or anything is in flight.
//!
//! Versions 4.17 to 4.19 also count requests that are only allocated, which events do not show: no expectation there.

use serde::Serialize;

use crate::analysis::stream::last_slot::LastSlot;

/// The estimator of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// Up to 4.16: exact to a jiffy.
    RoundStats,
    /// 4.17 to 4.19: too high, because requests that wait for a tag count.
    AllocatedToo,
    /// 5.0 to 5.6: counts jiffies in which a request starts or ends.
    TouchedJiffy,
    /// 5.7 to 6.9: counts jiffies with a start and, at an end, the time since the last start or end.
    StartTouches,
    /// 6.10 and later: correct on average, noisy for short I/O.
    Sampled,
}

impl Regime {
    /// The estimator of kernel `release` (as `uname -r` prints it); `None` if no version can be read from it.
    pub fn of_release(release: &str) -> Option<Regime> {
        let mut numbers = release
            .split(|c: char| !c.is_ascii_digit())
            .map(|n| n.parse::<u32>().ok());
        let version = (numbers.next()??, numbers.next()??);
        Some(match version {
            (..=3, _) | (4, ..=16) => Regime::RoundStats,
            (4, _) => Regime::AllocatedToo,
            (5, ..=6) => Regime::TouchedJiffy,
            (5, _) | (6, ..=9) => Regime::StartTouches,
            _ => Regime::Sampled,
        })
    }
}

/// A port of the kernel's estimator, fed with starts and ends in the order of time.
#[derive(Debug, Clone)]
pub struct IoTicks {
    regime: Regime,
    jiffy_ns: i64,
    stamp: i64,
    in_flight: i64,
    jiffies: i64,
    last: LastSlot,
}

impl IoTicks {
    /// For a kernel with `hz` jiffies per second. Jiffies are assumed to start at multiples of their length since the
    /// recording's start: their true phase is not known and does not matter on average.
    pub fn new(regime: Regime, hz: u32) -> IoTicks {
        let jiffy_ns = 1_000_000_000 / i64::from(hz.max(1));
        IoTicks {
            regime,
            jiffy_ns,
            stamp: 0,
            in_flight: 0,
            jiffies: 0,
            last: LastSlot::new(),
        }
    }

    /// An I/O starts.
    pub fn start(&mut self, at_ns: i64) {
        self.update(at_ns, false);
        self.in_flight += 1;
    }

    /// An I/O ends.
    pub fn done(&mut self, at_ns: i64) {
        self.update(at_ns, true);
        self.in_flight -= 1;
    }

    fn update(&mut self, at_ns: i64, end: bool) {
        let now = self.last.index(at_ns, 0, self.jiffy_ns);
        let since = now - self.stamp;
        if since <= 0 {
            return;
        }
        self.stamp = now;
        self.jiffies += match self.regime {
            Regime::RoundStats | Regime::AllocatedToo if self.in_flight > 0 => since,
            Regime::RoundStats | Regime::AllocatedToo => 0,
            Regime::TouchedJiffy => 1,
            Regime::StartTouches if end => since,
            Regime::StartTouches => 1,
            Regime::Sampled if end || self.in_flight > 0 => since,
            Regime::Sampled => 0,
        };
    }

    /// Busy time that the kernel would have counted so far, in nanoseconds.
    pub fn busy_ns(&self) -> i64 {
        self.jiffies * self.jiffy_ns
    }
}

/// Verdict on the kernel's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "UtilVerdict")
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As accurate as its resolution allows.
    Ok,
    /// Too high.
    BiasedHigh,
    /// Too low.
    BiasedLow,
    /// Above 100 %.
    Impossible,
}

/// The kernel's busy time of one device compared with the exact one (A2).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UtilCheck {
    /// Exact busy time from events: length of the union of all `[start, done)`, in percent.
    pub busy_percent: f64,
    /// Busy time counted by the kernel, in percent.
    pub util_io_ticks_percent: f64,
    /// Busy time that this kernel's estimator counts for these I/Os, in percent; `None` if the kernel or its HZ is not known.
    pub expected_percent: Option<f64>,
    /// Standard deviation of the kernel's figure for I/Os shorter than a jiffy, in percentage points.
    pub sigma_pp: Option<f64>,
    /// The estimator.
    pub regime: Option<Regime>,
    /// Whether the kernel counted what its estimator should; `null` if that is not known. If `false`, the estimator does not
    /// explain the difference: I/Os are lost, or the samples cover another time.
    pub estimator_agrees: Option<bool>,
    /// The verdict: a difference beyond three sigma and one percentage point is a bias.
    pub verdict: Verdict,
}

/// Standard deviation of the sampling estimator in percentage points: `J sqrt(n p (1-p)) / T` with `p = S/J`, for `n`
/// I/Os of mean length `mean_ns` in `window_ns`. Zero for I/Os longer than a jiffy.
pub fn sigma_pp(n: u64, mean_ns: f64, jiffy_ns: f64, window_ns: f64) -> f64 {
    let p = (mean_ns / jiffy_ns).min(1.0);
    100.0 * jiffy_ns * (n as f64 * p * (1.0 - p)).sqrt() / window_ns
}

impl UtilCheck {
    /// Compares `util_io_ticks_percent` with `busy_percent`.
    pub fn new(
        busy_percent: f64,
        util_io_ticks_percent: f64,
        expected_percent: Option<f64>,
        sigma_pp: Option<f64>,
        regime: Option<Regime>,
    ) -> UtilCheck {
        let difference = util_io_ticks_percent - busy_percent;
        let tolerance = 1.0 + 3.0 * sigma_pp.unwrap_or(0.0);
        let estimator_agrees =
            expected_percent.map(|e| (util_io_ticks_percent - e).abs() <= tolerance);
        let verdict = if util_io_ticks_percent > 100.5 {
            Verdict::Impossible
        } else if difference > tolerance {
            Verdict::BiasedHigh
        } else if difference < -tolerance {
            Verdict::BiasedLow
        } else {
            Verdict::Ok
        };
        UtilCheck {
            busy_percent,
            util_io_ticks_percent,
            expected_percent,
            sigma_pp,
            regime,
            estimator_agrees,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn an_estimator_agrees_within_the_tolerance_of_the_verdict() {
        let agrees = |expected| {
            let check = UtilCheck::new(4.57, 4.0, expected, Some(0.7), Some(Regime::Sampled));
            check.estimator_agrees
        };
        assert_eq!(agrees(Some(7.6)), Some(false));
        assert_eq!(agrees(Some(4.9)), Some(true));
        assert_eq!(agrees(None), None);
    }

    #[test]
    fn releases_are_distinguished() {
        let of = |r| Regime::of_release(r);
        assert_eq!(of("6.18.44-cloud-amd64"), Some(Regime::Sampled));
        assert_eq!(of("6.10.0-rc1"), Some(Regime::Sampled));
        assert_eq!(of("6.9.12"), Some(Regime::StartTouches));
        assert_eq!(of("5.6.19"), Some(Regime::TouchedJiffy));
        assert_eq!(of("4.18.0-553.el8"), Some(Regime::AllocatedToo));
        assert_eq!(of("3.10.0"), Some(Regime::RoundStats));
        assert_eq!((of("mainline"), of("")), (None, None));
    }

    fn ticks(regime: Regime, spans: &[(i64, i64)]) -> i64 {
        let mut t = IoTicks::new(regime, 250);
        for (s, d) in spans {
            t.start(*s);
            t.done(*d);
        }
        t.busy_ns() / MS
    }

    #[test]
    fn one_short_io_inside_a_jiffy() {
        let spans = [(41 * MS, 42 * MS)];
        assert_eq!(
            ticks(Regime::TouchedJiffy, &spans),
            4,
            "a whole jiffy for one millisecond"
        );
        assert_eq!(ticks(Regime::StartTouches, &spans), 4);
        assert_eq!(
            ticks(Regime::Sampled, &spans),
            0,
            "nothing was in flight when the jiffy turned"
        );
        assert_eq!(ticks(Regime::RoundStats, &spans), 0);
    }

    #[test]
    fn one_io_over_five_jiffies() {
        let spans = [(41 * MS, 61 * MS)];
        assert_eq!(ticks(Regime::TouchedJiffy, &spans), 8, "its two ends");
        assert_eq!(ticks(Regime::StartTouches, &spans), 24);
        assert_eq!(ticks(Regime::Sampled, &spans), 20);
        assert_eq!(ticks(Regime::RoundStats, &spans), 20);
    }

    #[test]
    fn verdicts() {
        let verdict =
            |exact, ticks, sigma| UtilCheck::new(exact, ticks, None, Some(sigma), None).verdict;
        assert_eq!(verdict(4.9, 61.9, 0.5), Verdict::BiasedHigh);
        assert_eq!(verdict(90.0, 16.8, 0.0), Verdict::BiasedLow);
        assert_eq!(verdict(4.95, 5.66, 0.6), Verdict::Ok);
        assert_eq!(verdict(99.0, 146.5, 0.0), Verdict::Impossible);
    }
}
