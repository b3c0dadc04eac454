//! Evidence of one load that slows another.

use serde::Serialize;

use super::Cause;
use crate::analysis::math::lead_lag::Direction;
use crate::analysis::starvation::{Starvation, Verdict};
use crate::model::Class;

/// Latency of the victim's I/Os submitted during the aggressor's bursts against that of their neighbours outside (A14).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contrast {
    /// Whose latency rises.
    pub victim: Class,
    /// What may be said.
    pub verdict: Verdict,
    /// 99th percentile of reads during bursts; `null` of other victims, and of fewer than 100 I/Os.
    pub read_p99_during_us: Option<f64>,
    /// 99th percentile of reads outside bursts.
    pub read_p99_outside_us: Option<f64>,
    /// 99th percentile of writes during bursts; `null` of other victims, and of fewer than 100 I/Os.
    pub write_p99_during_us: Option<f64>,
    /// 99th percentile of writes outside bursts.
    pub write_p99_outside_us: Option<f64>,
    /// Median during bursts.
    pub p50_during_us: Option<f64>,
    /// Median outside bursts.
    pub p50_outside_us: Option<f64>,
    /// Longest during bursts.
    pub max_during_us: Option<f64>,
    /// Ratio of 99th percentiles, during over outside; of medians where there are too few I/Os for those.
    pub ratio: Option<f64>,
    /// Ratio of medians.
    pub ratio_p50: Option<f64>,
    /// Ratio of geometric means, each burst against its neighbourhood.
    pub ratio_typical: Option<f64>,
    /// Its 95 % interval, over bursts; `null` of fewer than three.
    pub ratio_typical_ci: Option<(f64, f64)>,
    /// Additional latency of an I/O during bursts, each burst against its neighbourhood.
    pub excess_us: Option<f64>,
    /// Its 95 % interval, over bursts.
    pub excess_us_ci: Option<(f64, f64)>,
    /// The victim's rate of submission during bursts over that in calm time.
    pub own_load_ratio: Option<f64>,
    /// Hodges-Lehmann shift: the median of all differences between one I/O during and one outside.
    pub shift_us: Option<f64>,
    /// Cliff's delta: how often one during is slower than one outside, less how often it is faster.
    pub cliffs_delta: Option<f64>,
    /// Waiting beyond the median outside, summed over the I/Os during bursts, in request-milliseconds.
    pub excess_request_ms: Option<f64>,
    /// Share of random shifts of the bursts in time that show as much.
    pub p_value: Option<f64>,
    /// One-sided, by Student's t over bursts.
    pub p_value_episodes: Option<f64>,
    /// Bursts of the aggressor.
    pub bursts: usize,
    /// I/Os submitted during bursts.
    pub ios_during: usize,
    /// I/Os near the bursts and outside: what to compare with.
    pub ios_outside: usize,
    /// By how much a burst is prolonged: the median time that the device takes to drain one.
    pub lag_s: f64,
    /// What the lag of highest correlation says of cause and effect.
    pub direction: Direction,
    /// By how much latency follows the aggressor's submissions, where the two correlate most.
    pub follows_s: Option<f64>,
}

impl Contrast {
    /// What `s` found of `victim`.
    pub(in crate::analysis) fn of(victim: Class, s: &Starvation) -> Contrast {
        let p99s = |class: Class| {
            if victim == class {
                (s.p99_during_us, s.p99_outside_us)
            } else {
                (None, None)
            }
        };
        let (
            (read_p99_during_us, read_p99_outside_us),
            (write_p99_during_us, write_p99_outside_us),
        ) = (p99s(Class::Read), p99s(Class::Write));
        Contrast {
            victim,
            verdict: s.verdict,
            read_p99_during_us,
            read_p99_outside_us,
            write_p99_during_us,
            write_p99_outside_us,
            p50_during_us: s.p50_during_us,
            p50_outside_us: s.p50_outside_us,
            max_during_us: s.max_during_us,
            ratio: s.ratio_p99.or(s.ratio_p50),
            ratio_p50: s.ratio_p50,
            ratio_typical: s.ratio,
            ratio_typical_ci: s.ratio_ci,
            excess_us: s.excess_us,
            excess_us_ci: s.excess_us_ci,
            own_load_ratio: s.own_load_ratio,
            shift_us: s.shift_us,
            cliffs_delta: s.cliffs_delta,
            excess_request_ms: s.excess_request_ms,
            p_value: s.p_value,
            p_value_episodes: s.p_episodes,
            bursts: s.bursts,
            ios_during: s.treated,
            ios_outside: s.control,
            lag_s: s.lag_ns as f64 / 1e9,
            direction: s.direction,
            follows_s: s.follows_ns.map(|ns| ns as f64 / 1e9),
        }
    }
}

/// One class of I/Os waits while another bursts (A14).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StarvationEvidence {
    /// Latency during bursts against latency outside.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// Whose bursts.
    pub aggressor: Class,
    /// Who submitted most of them.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
}

/// One class of I/Os is slower in intervals in which the other asks for much, by means of intervals alone (A14).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StarvationOfMeansEvidence {
    /// Whose latency rises.
    pub victim: Class,
    /// Whose bursts.
    pub aggressor: Class,
    /// Means hide who came first: `suggestive`.
    pub verdict: Verdict,
    /// Where the means come from.
    pub source: MeansSource,
    /// Ratio of geometric means, each burst against its neighbourhood.
    pub ratio_typical: f64,
    /// Its 95 % interval, over bursts.
    pub ratio_typical_ci: (f64, f64),
    /// Additional mean latency during bursts, each burst against its neighbourhood.
    pub excess_us: Option<f64>,
    /// Its 95 % interval, over bursts.
    pub excess_us_ci: Option<(f64, f64)>,
    /// The victim's rate of submission during bursts over that in calm time.
    pub own_load_ratio: Option<f64>,
    /// Share of random shifts of the bursts in time that show as much.
    pub p_value: Option<f64>,
    /// One-sided, by Student's t over bursts.
    pub p_value_episodes: Option<f64>,
    /// Bursts of the aggressor.
    pub bursts: usize,
}

/// Where means of intervals come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MeansSource {
    /// The kernel's counters, sampled.
    Counters,
    /// Rows of another tool's table.
    Table,
}

/// One process's I/Os wait while another process's burst (A14).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterferenceEvidence {
    /// Latency during bursts against latency outside.
    #[serde(flatten)]
    pub contrast: Contrast,
    /// Whose bursts: always `process`.
    pub aggressor: &'static str,
    /// The aggressor.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cause: Option<Cause>,
    /// The victim.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub victim_process: Option<Cause>,
    /// Its process id.
    pub victim_pid: Option<i32>,
    /// The aggressor.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub aggressor_process: Option<Cause>,
    /// Its process id.
    pub aggressor_pid: Option<i32>,
}
