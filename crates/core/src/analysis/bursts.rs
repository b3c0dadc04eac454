//! A13: bursts, and what coarser sampling makes of them.

use serde::Serialize;

use super::cells::Series;
use super::envelope::{max_sliding, running_sums, token_bucket_depth};
use super::stats::{mad, median, nearest_rank};

/// Against what a rate is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limit {
    /// In bytes per second.
    pub bytes_per_s: f64,
    /// Where it comes from.
    pub source: LimitSource,
}

/// Where a limit comes from, the most trustworthy first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitSource {
    /// The user said so.
    User,
    /// Width and speed of the link.
    Link,
    /// The highest rate that this recording sustained for ten slots, or the 99.9th percentile of slots if higher.
    Learned,
}

/// The limit that the recording itself shows; `None` without I/O.
pub fn learned_limit(series: &Series) -> Option<Limit> {
    let (most, _) = max_sliding(&series.bytes, 10);
    let sustained = most as f64 / 10.0;
    let busy: Vec<f64> = series.bytes.iter().map(|b| *b as f64).collect();
    let p999 = nearest_rank(&mut busy.clone(), 0.999).unwrap_or(0.0);
    let per_slot = sustained.max(p999);
    (per_slot > 0.0).then(|| Limit { bytes_per_s: per_slot * 1e9 / series.dt_ns as f64, source: LimitSource::Learned })
}

/// When a burst begins, ends, and has its core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstRule {
    /// A burst reaches this share of the limit.
    pub on: f64,
    /// It lasts as long as this share is reached.
    pub off: f64,
    /// It ends after so many slots below.
    pub gap_slots: usize,
    /// Its core are the slots with at least this share of its own peak.
    pub core: f64,
}

impl Default for BurstRule {
    /// Half of the limit, a tenth, one slot, half of the peak.
    fn default() -> BurstRule {
        BurstRule { on: 0.5, off: 0.1, gap_slots: 1, core: 0.5 }
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
    /// Slots of at least half of its peak, added up, in nanoseconds.
    pub core_ns: i64,
    /// Bytes in them.
    pub core_bytes: u64,
    /// Beginning of its highest slot.
    pub peak_at_ns: i64,
    /// Highest rate of a slot.
    pub peak_bytes_per_s: f64,
    /// Highest rate of I/Os of a slot.
    pub peak_iops: f64,
    /// Highest rate in percent of the limit.
    pub percent_of_limit: f64,
    /// Reaches 95 % of the limit.
    pub exceeds_limit: bool,
    /// Also a burst against the recording's own baseline: 6 robust standard deviations above the median of log rates.
    pub above_baseline: bool,
    /// Mean request size.
    pub mean_bytes: f64,
    /// Depth of the token bucket that would absorb it at its own mean rate over one second.
    pub bucket_bytes: f64,
    /// It touches the edge of the recording: it may have been longer.
    pub censored: bool,
}

/// Finds bursts of `series` relative to `limit`: maximal stretches of slots at or above `off` (joined over gaps shorter
/// than `gap_slots`) that somewhere reach `on`.
pub fn find(series: &Series, limit: &Limit, rule: &BurstRule) -> Vec<Burst> {
    let off = rule.off * limit.bytes_per_s;
    let on = rule.on * limit.bytes_per_s;
    let baseline = Baseline::of(&series.bytes);
    let mut bursts = Vec::new();
    let mut i = 0;
    while i < series.bytes.len() {
        if series.bytes[i] == 0 || series.rate(i) < off {
            i += 1;
            continue;
        }
        let mut end = i + 1;
        let mut below = 0;
        let mut reached = series.rate(i) >= on;
        for j in i + 1..series.bytes.len() {
            if series.bytes[j] > 0 && series.rate(j) >= off {
                (end, below) = (j + 1, 0);
                reached |= series.rate(j) >= on;
            } else {
                below += 1;
                if below >= rule.gap_slots.max(1) {
                    break;
                }
            }
        }
        if reached {
            bursts.push(describe(series, limit, rule, &baseline, i, end));
        }
        i = end;
    }
    bursts
}

fn describe(series: &Series, limit: &Limit, rule: &BurstRule, baseline: &Baseline, first: usize, end: usize) -> Burst {
    let slots = &series.bytes[first..end];
    let dt_s = series.dt_ns as f64 / 1e9;
    let peak = slots.iter().copied().max().unwrap_or(0);
    let peak_at = first + slots.iter().position(|b| *b == peak).unwrap_or(0);
    let core = slots.iter().filter(|b| **b as f64 >= rule.core * peak as f64);
    let bytes: u64 = slots.iter().sum();
    let ios: u64 = series.ios[first..end].iter().sum();
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
        peak_bytes_per_s: peak as f64 / dt_s,
        peak_iops: series.ios[first..end].iter().copied().max().unwrap_or(0) as f64 / dt_s,
        percent_of_limit: 100.0 * peak as f64 / dt_s / limit.bytes_per_s,
        exceeds_limit: peak as f64 / dt_s >= 0.95 * limit.bytes_per_s,
        above_baseline: baseline.is_above(peak),
        mean_bytes: bytes as f64 / ios.max(1) as f64,
        bucket_bytes: token_bucket_depth(slots, dt_s, second),
        censored: first == 0 || end == series.bytes.len(),
    }
}

/// What is usual in this series: robust location and scale of log rates.
struct Baseline {
    median: f64,
    mad: f64,
    p95_nonzero: f64,
}

impl Baseline {
    fn of(bytes: &[u64]) -> Baseline {
        let mut logs: Vec<f64> = bytes.iter().map(|b| (*b as f64).ln_1p()).collect();
        let middle = median(&mut logs).unwrap_or(0.0);
        let mut nonzero: Vec<f64> = bytes.iter().filter(|b| **b > 0).map(|b| *b as f64).collect();
        Baseline {
            median: middle,
            mad: mad(&logs, middle),
            p95_nonzero: nearest_rank(&mut nonzero, 0.95).unwrap_or(0.0),
        }
    }

    /// `z = (ln(1+x) - median) / (1.4826 MAD) >= 6`; without spread, at least the 95th percentile of nonzero slots.
    fn is_above(&self, bytes: u64) -> bool {
        if self.mad > 0.0 {
            ((bytes as f64).ln_1p() - self.median) / (1.4826 * self.mad) >= 6.0
        } else {
            bytes as f64 >= self.p95_nonzero
        }
    }
}

/// What sampling at `period_ns` would have shown of a burst: the highest rate of any aligned period that overlaps it,
/// over 100 phases of the sampler (as many as slots allow), in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampledView {
    /// The sampler's period.
    pub period_ns: i64,
    /// With the luckiest phase for hiding.
    pub min_bytes_per_s: f64,
    /// With the usual phase.
    pub median_bytes_per_s: f64,
    /// With the luckiest phase for seeing.
    pub max_bytes_per_s: f64,
    /// Peak over the usual view: how much is hidden.
    pub hidden_factor: f64,
}

/// [`SampledView`] of `burst`. `sums` are the [`running_sums`] of the series' bytes, for many bursts of one series.
pub fn sampled_view(series: &Series, sums: &[u64], burst: &Burst, period_ns: i64) -> SampledView {
    let per_period = (period_ns / series.dt_ns).max(1) as usize;
    let phases = per_period.min(100);
    let mut views: Vec<f64> = (0..phases)
        .map(|p| {
            let phase = p * per_period / phases;
            let sum = |a: i64, b: i64| {
                let clip = |x: i64| x.clamp(0, series.bytes.len() as i64) as usize;
                sums[clip(b)] - sums[clip(a)]
            };
            let k = per_period as i64;
            let mut from = (burst.first as i64 - phase as i64).div_euclid(k) * k + phase as i64;
            let mut most = 0;
            while from < burst.end as i64 {
                most = most.max(sum(from, from + k));
                from += k;
            }
            most as f64 * 1e9 / (per_period as f64 * series.dt_ns as f64)
        })
        .collect();
    views.sort_by(f64::total_cmp);
    let usual = nearest_rank(&mut views, 0.5).unwrap_or(0.0);
    SampledView {
        period_ns,
        min_bytes_per_s: views.first().copied().unwrap_or(0.0),
        median_bytes_per_s: usual,
        max_bytes_per_s: views.last().copied().unwrap_or(0.0),
        hidden_factor: if usual > 0.0 { burst.peak_bytes_per_s / usual } else { f64::NAN },
    }
}

/// [`sampled_view`] of one burst alone.
pub fn sampled_view_of(series: &Series, burst: &Burst, period_ns: i64) -> SampledView {
    sampled_view(series, &running_sums(&series.bytes), burst, period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(bytes: &[u64]) -> Series {
        Series { from_ns: 0, dt_ns: 10_000_000, ios: bytes.to_vec(), bytes: bytes.to_vec() }
    }

    fn limit(per_slot: f64) -> Limit {
        Limit { bytes_per_s: per_slot * 100.0, source: LimitSource::User }
    }

    #[test]
    fn extent_is_hysteresis_and_gaps_join() {
        let s = series(&[0, 1, 3, 9, 10, 2, 0, 6, 0, 0, 4, 0]);
        let found = find(&s, &limit(10.0), &BurstRule::default());
        assert_eq!(found.iter().map(|b| (b.first, b.end)).collect::<Vec<_>>(), [(1, 6), (7, 8)]);
        assert_eq!((found[0].bytes, found[0].core_bytes, found[0].core_ns), (25, 19, 20_000_000));
        let joined = find(&s, &limit(10.0), &BurstRule { gap_slots: 2, ..BurstRule::default() });
        assert_eq!(joined.iter().map(|b| (b.first, b.end)).collect::<Vec<_>>(), [(1, 8)]);
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
            let view = sampled_view_of(&s, &found[0], 1_000_000_000);
            let (rate, d) = (100_000.0, slots as f64 / 100.0);
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
