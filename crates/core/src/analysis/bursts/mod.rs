//! Bursts, and how much of them coarser sampling hides (A13).

pub mod cells;
pub mod detail;
pub mod envelope;
pub mod links;
pub mod reported;
pub mod scan;
pub(in crate::analysis) mod stream_scan;

use serde::Serialize;

use crate::analysis::bursts::cells::Series;
use crate::analysis::bursts::envelope::token_bucket_depth;
use crate::analysis::math::stats::nearest_rank;

/// The rate that bursts are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limit {
    /// In bytes per second.
    pub bytes_per_s: f64,
    /// Where it comes from.
    pub source: LimitSource,
}

/// Source of a limit, most trustworthy first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitSource {
    /// Given by the user.
    User,
    /// Width and speed of the link.
    Link,
    /// The highest throughput observed in this recording.
    Learned,
}

/// The highest throughput that the recording itself proves; `None` without I/O.
pub fn learned_limit(series: &Series) -> Option<Limit> {
    let highest = series.highest(0, series.slots())?.peak_bytes_per_s;
    (highest > 0.0).then_some(Limit {
        bytes_per_s: highest,
        source: LimitSource::Learned,
    })
}

/// Thresholds for the start, end and core of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstRule {
    /// A burst must reach this share of the limit.
    pub on: f64,
    /// Share of the limit below which a burst ends.
    pub off: f64,
    /// Number of consecutive slots below `off` that end a burst.
    pub gap_slots: usize,
    /// The core of a burst consists of the slots with at least this share of its own peak.
    pub core: f64,
}

impl Default for BurstRule {
    fn default() -> BurstRule {
        BurstRule {
            on: 0.5,
            off: 0.1,
            gap_slots: 1,
            core: 0.5,
        }
    }
}

/// One burst.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Burst {
    /// First slot.
    pub first: usize,
    /// Slot after the last.
    pub end: usize,
    /// Beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// Bytes completed in it.
    pub bytes: u64,
    /// I/Os completed in it.
    pub ios: u64,
    /// Total length of the slots with at least half of its peak, in nanoseconds.
    pub core_ns: i64,
    /// Bytes in those slots.
    pub core_bytes: u64,
    /// Start of its highest slot.
    pub peak_at_ns: i64,
    /// Lower bound of its highest throughput: bytes of I/Os that lie entirely inside a window, divided by its length.
    pub peak_bytes_per_s: f64,
    /// Highest rate of I/Os in a slot.
    pub peak_iops: f64,
    /// `peak_bytes_per_s` in percent of the limit.
    pub percent_of_limit: f64,
    /// Whether the peak reaches 95 % of the limit.
    pub exceeds_limit: bool,
    /// Mean request size.
    pub mean_bytes: f64,
    /// Token bucket depth that would absorb the burst at the stream's own mean rate over one second.
    pub bucket_bytes: f64,
    /// It touches the edge of the recording, so it may have been longer.
    pub censored: bool,
}

/// Finds bursts of `series` relative to `limit`: maximal runs of slots at or above `off`, joined over gaps shorter
/// than `gap_slots`, whose peak reaches `on`.
pub fn find(series: &Series, limit: &Limit, rule: &BurstRule) -> Vec<Burst> {
    let off = rule.off * limit.bytes_per_s;
    let on = rule.on * limit.bytes_per_s;
    // First slot and end of each run. A gap that is too short to end a burst is part of its run.
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for slot in series.filled() {
        if slot.bytes == 0 || series.rate(slot.bytes) < off {
            continue;
        }
        match stretches.last_mut() {
            Some((_, end)) if slot.at - *end < rule.gap_slots.max(1) => *end = slot.at + 1,
            _ => stretches.push((slot.at, slot.at + 1)),
        }
    }
    let mut bursts = Vec::new();
    for (first, end) in stretches {
        let burst = describe(series, limit, rule, first, end);
        if burst.peak_bytes_per_s >= on {
            bursts.push(burst);
        }
    }
    bursts
}

/// The burst in the slots `first..end`.
pub(in crate::analysis) fn describe(
    series: &Series,
    limit: &Limit,
    rule: &BurstRule,
    first: usize,
    end: usize,
) -> Burst {
    let slots = series.bytes_of(first, end);
    let dt_s = series.dt_ns as f64 / 1e9;
    let peak = slots.iter().copied().max().unwrap_or(0);
    let peak_at = first + slots.iter().position(|b| *b == peak).unwrap_or(0);
    let core = slots
        .iter()
        .filter(|b| **b as f64 >= rule.core * peak as f64);
    let bytes: u64 = slots.iter().sum();
    // The window of the peak ends with a completion, which may be the first one of the next slot.
    let peak_bytes_per_s = series
        .highest(first, end + 1)
        .map_or(0.0, |s| s.peak_bytes_per_s);
    let filled = series.range(first, end);
    let ios: u64 = filled.iter().map(|s| s.ios).sum();
    let most_ios = filled.iter().map(|s| s.ios).max().unwrap_or(0);
    let second = bytes as f64 / (slots.len() as f64 * dt_s).max(1.0);
    Burst {
        first,
        end,
        from_ns: series.at_ns(first),
        to_ns: series.at_ns(end),
        bytes,
        ios,
        core_ns: core.clone().count() as i64 * series.dt_ns,
        core_bytes: core.sum(),
        peak_at_ns: series.at_ns(peak_at),
        peak_bytes_per_s,
        peak_iops: most_ios as f64 / dt_s,
        percent_of_limit: 100.0 * peak_bytes_per_s / limit.bytes_per_s,
        exceeds_limit: peak_bytes_per_s >= 0.95 * limit.bytes_per_s,
        mean_bytes: bytes as f64 / ios.max(1) as f64,
        bucket_bytes: token_bucket_depth(&slots, dt_s, second),
        censored: first == 0 || end == series.slots(),
    }
}

/// A burst as seen by samples of `period_ns`: the highest rate of any aligned period that overlaps it, in bytes per
/// second. It depends on the phase of the sampler, of which 100 are tried (fewer if a period has fewer slots).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampledView {
    /// The sampler's period.
    pub period_ns: i64,
    /// Lowest over the phases.
    pub min_bytes_per_s: f64,
    /// Median over the phases.
    pub median_bytes_per_s: f64,
    /// Highest over the phases.
    pub max_bytes_per_s: f64,
    /// Peak of the burst divided by the median: how much the samples hide.
    pub hidden_factor: f64,
}

impl SampledView {
    /// For the slots `first..end` of width `dt_ns`. `sum` returns the bytes in a range of slots. The hidden factor is left NaN.
    pub(in crate::analysis) fn of(
        (first, end): (i64, i64),
        period_ns: i64,
        dt_ns: i64,
        sum: impl Fn(i64, i64) -> u64,
    ) -> SampledView {
        let k = (period_ns / dt_ns).max(1);
        let phases = k.min(100);
        // The highest sample that overlaps the slots, for each phase of the sampler.
        let mut views = Vec::new();
        for p in 0..phases {
            let phase = p * k / phases;
            let mut from = (first - phase).div_euclid(k) * k + phase;
            let mut most = 0;
            while from < end {
                most = most.max(sum(from, from + k));
                from += k;
            }
            views.push(most as f64 * 1e9 / (k * dt_ns) as f64);
        }
        views.sort_by(f64::total_cmp);
        SampledView {
            period_ns,
            min_bytes_per_s: views.first().copied().unwrap_or(0.0),
            median_bytes_per_s: nearest_rank(&mut views, 0.5).unwrap_or(0.0),
            max_bytes_per_s: views.last().copied().unwrap_or(0.0),
            hidden_factor: f64::NAN,
        }
    }

    /// This view with the hidden factor relative to a peak.
    pub(in crate::analysis) fn hiding(self, peak_bytes_per_s: f64) -> SampledView {
        let usual = self.median_bytes_per_s;
        SampledView {
            hidden_factor: if usual > 0.0 {
                peak_bytes_per_s / usual
            } else {
                f64::NAN
            },
            ..self
        }
    }
}

/// `burst` as seen by samples of `period_ns`.
pub fn sampled_view(series: &Series, burst: &Burst, period_ns: i64) -> SampledView {
    let slots = series.slots() as i64;
    let range = (burst.first as i64, burst.end as i64);
    SampledView::of(range, period_ns, series.dt_ns, |from, to| {
        series.sum(from.clamp(0, slots) as usize, to.clamp(0, slots) as usize)
    })
    .hiding(burst.peak_bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(bytes: &[u64]) -> Series {
        Series::dense(0, 10_000_000, bytes, bytes)
    }

    fn limit(per_slot: f64) -> Limit {
        Limit {
            bytes_per_s: per_slot * 100.0,
            source: LimitSource::User,
        }
    }

    #[test]
    fn extent_is_hysteresis_and_gaps_join() {
        let s = series(&[0, 1, 3, 9, 10, 2, 0, 6, 0, 0, 4, 0]);
        let found = find(&s, &limit(10.0), &BurstRule::default());
        assert_eq!(
            found.iter().map(|b| (b.first, b.end)).collect::<Vec<_>>(),
            [(1, 6), (7, 8)]
        );
        assert_eq!(
            (found[0].bytes, found[0].core_bytes, found[0].core_ns),
            (25, 19, 20_000_000)
        );
        let joined = find(
            &s,
            &limit(10.0),
            &BurstRule {
                gap_slots: 2,
                ..BurstRule::default()
            },
        );
        assert_eq!(
            joined.iter().map(|b| (b.first, b.end)).collect::<Vec<_>>(),
            [(1, 8)]
        );
    }

    proptest! {
        #[test]
        fn one_burst_hides_between_one_and_two_times_its_shortness(slots in 1usize..100, at in 100usize..300) {
            // A burst of d = slots * 10 ms in silence: the aligned 1 s rate lies in [R d / 2, R d].
            let mut bytes = vec![0u64; 500];
            bytes[at..at + slots].fill(1000);
            let s = series(&bytes);
            let found = find(&s, &limit(1000.0), &BurstRule::default());
            prop_assert_eq!(found.len(), 1);
            let view = sampled_view(&s, &found[0], 1_000_000_000);
            let rate = 100_000.0;
            let d = slots as f64 / 100.0;
            for shown in [view.min_bytes_per_s, view.median_bytes_per_s, view.max_bytes_per_s] {
                prop_assert!(shown >= rate * d / 2.0 - 1e-6 && shown <= rate * d + 1e-6);
            }
            prop_assert!(view.hidden_factor >= 1.0 / d - 1e-9 && view.hidden_factor <= 2.0 / d + 1e-9);
        }

        #[test]
        fn bursts_are_disjoint_and_reach_the_threshold(bytes in prop::collection::vec(0u64..100, 1..100), gap in 1usize..5) {
            let rule = BurstRule { gap_slots: gap, ..BurstRule::default() };
            let s = series(&bytes);
            let found = find(&s, &limit(100.0), &rule);
            prop_assert!(found.windows(2).all(|w| w[0].end + gap <= w[1].first));
            for b in &found {
                prop_assert!(bytes[b.first..b.end].iter().any(|x| *x >= 50));
                prop_assert!(bytes[b.first] >= 10 && bytes[b.end - 1] >= 10);
            }
            let covered = |i: usize| found.iter().any(|b| b.first <= i && i < b.end);
            prop_assert!(bytes.iter().enumerate().all(|(i, x)| *x < 50 || covered(i)));
        }
    }
}
