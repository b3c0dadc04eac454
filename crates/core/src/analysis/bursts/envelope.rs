//! How unevenly a stream moves bytes (A13): token bucket depth, dispersion of counts, most bytes in any interval of a
//! given length. Pure functions on series of slots.

use serde::Serialize;

use crate::analysis::bursts::cells::Series;

/// Depth of the token bucket that lets the series pass at `rate` bytes per second without delay:
/// `σ(ρ) = max over s < t of A(s, t] - ρ (t - s)`, in bytes.
pub fn token_bucket_depth(bytes: &[u64], dt_s: f64, rate: f64) -> f64 {
    let mut depth = 0.0f64;
    let mut worst = 0.0f64;
    for b in bytes {
        depth = (depth + *b as f64 - rate * dt_s).max(0.0);
        worst = worst.max(depth);
    }
    worst
}

/// How unevenly a stream's I/Os arrive at one resolution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Unevenness {
    /// Resolution in nanoseconds.
    pub dt_ns: i64,
    /// Number of slots: n of everything here.
    pub slots: u64,
    /// Index of dispersion of counts, `Var N / E N`: 1 for a Poisson stream.
    pub idc: f64,
    /// Largest count divided by the mean count.
    pub peak_to_mean: f64,
    /// Percent of slots with any I/O.
    pub duty_percent: f64,
}

/// The micro-bursting formula of a large cloud's volume metrics: `bytes` divided by the active seconds in a period,
/// `period_s - idle_s` rounded up.
pub fn active_second_rate(bytes: f64, period_s: f64, idle_s: f64) -> f64 {
    bytes / (period_s - idle_s).ceil().max(1.0)
}

/// Most bytes in any `slots` consecutive slots of `series`.
pub fn most_bytes(series: &Series, slots: usize) -> u64 {
    let filled = series.filled();
    let mut sum = 0;
    let mut first = 0;
    let mut most = 0;
    for slot in filled {
        sum += slot.bytes;
        while filled[first].at + slots <= slot.at {
            sum -= filled[first].bytes;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// [`Unevenness`] of the I/Os in slots `times` as wide as those of `series`; `None` with fewer than two slots or without I/O.
pub fn unevenness_of(series: &Series, times: usize) -> Option<Unevenness> {
    let times = times.max(1);
    let all = series.slots().div_ceil(times);
    let own = series
        .filled()
        .chunk_by(|a, b| a.at / times == b.at / times);
    let counts: Vec<u64> = own
        .map(|c| c.iter().map(|s| s.ios).sum())
        .filter(|ios| *ios > 0)
        .collect();
    let mean = counts.iter().sum::<u64>() as f64 / all as f64;
    if all < 2 || counts.is_empty() {
        return None;
    }
    let squares: f64 = counts.iter().map(|c| (*c as f64 - mean).powi(2)).sum();
    let of_empty = (all - counts.len()) as f64 * mean.powi(2);
    let variance = (squares + of_empty) / (all - 1) as f64;
    Some(Unevenness {
        dt_ns: series.dt_ns * times as i64,
        slots: all as u64,
        idc: variance / mean,
        peak_to_mean: counts.iter().copied().max().unwrap_or(0) as f64 / mean,
        duty_percent: 100.0 * counts.len() as f64 / all as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sliding_and_bucket_equal_brute_force(values in prop::collection::vec(0u64..1000, 1..60), slots in 1usize..70, rate in 0.0f64..2000.0) {
            prop_assert_eq!(most_bytes(&Series::dense(0, 10, &values, &values), slots), max_sliding(&values, slots));
            let mut depth = 0.0f64;
            for s in 0..values.len() {
                let mut sum = 0.0;
                for v in &values[s..] {
                    sum += *v as f64 - rate;
                    depth = depth.max(sum);
                }
            }
            prop_assert!((token_bucket_depth(&values, 1.0, rate) - depth).abs() < 1e-6);
        }

        #[test]
        fn slots_left_out_change_nothing(values in prop::collection::vec(prop_oneof![3 => 0u64..1, 1 => 0u64..1000], 1..80), slots in 1usize..90) {
            let series = Series::dense(0, 10, &values, &values);
            prop_assert_eq!(most_bytes(&series, slots), max_sliding(&values, slots));
            let from = slots / 3;
            let to = (slots / 2 + 9).min(values.len());
            prop_assert_eq!(series.sum(from, to), values.get(from..to).map_or(0, |v| v.iter().sum()));
            prop_assert_eq!(series.bytes_of(0, values.len()), values.clone());
            let coarse: Vec<u64> = values.chunks(slots).map(|c| c.iter().sum()).collect();
            match (unevenness_of(&series, slots), unevenness(&coarse, 10 * slots as i64)) {
                (Some(a), Some(b)) => {
                    prop_assert_eq!((a.dt_ns, a.slots, a.peak_to_mean, a.duty_percent), (b.dt_ns, b.slots, b.peak_to_mean, b.duty_percent));
                    prop_assert!((a.idc - b.idc).abs() <= 1e-9 * b.idc.max(1.0));
                }
                (a, b) => prop_assert_eq!(a, b),
            }
        }

        #[test]
        fn aligned_windows_never_show_more_than_sliding_ones(values in prop::collection::vec(0u64..1000, 1..60), slots in 1usize..20, phase in 0usize..20) {
            let aligned = max_aligned(&values, slots, phase % slots);
            let most = most_bytes(&Series::dense(0, 10, &values, &values), slots);
            prop_assert!(aligned <= most);
            prop_assert!(2 * aligned >= most, "a window overlaps two aligned ones");
        }
    }

    /// The most that any window of `slots` slots holds, each summed anew; a shorter series counts as a whole.
    fn max_sliding(values: &[u64], slots: usize) -> u64 {
        values
            .windows(slots.min(values.len()))
            .map(|w| w.iter().sum())
            .max()
            .expect("not empty")
    }

    /// Slot by slot, each counted.
    fn unevenness(counts: &[u64], dt_ns: i64) -> Option<Unevenness> {
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / n;
        if counts.len() < 2 || mean == 0.0 {
            return None;
        }
        let variance = counts
            .iter()
            .map(|c| (*c as f64 - mean).powi(2))
            .sum::<f64>()
            / (n - 1.0);
        Some(Unevenness {
            dt_ns,
            slots: counts.len() as u64,
            idc: variance / mean,
            peak_to_mean: counts.iter().copied().max().expect("not empty") as f64 / mean,
            duty_percent: 100.0 * counts.iter().filter(|c| **c > 0).count() as f64 / n,
        })
    }

    /// The most that any of the windows of `slots` slots aligned at `phase` holds: what a sampler with that period sees.
    fn max_aligned(values: &[u64], slots: usize, phase: usize) -> u64 {
        let slots = slots.max(1);
        let phase = phase.min(values.len());
        let head = values[..phase].iter().sum();
        values[phase..]
            .chunks(slots)
            .map(|c| c.iter().sum())
            .max()
            .unwrap_or(0)
            .max(head)
    }

    /// Every stretch of every length, by its definition: `max over s < t of A(s, t]` for each length `t - s`, in O(n²).
    fn envelope_by_brute_force(values: &[u64]) -> Vec<u64> {
        let mut most = vec![0u64; values.len() + 1];
        for s in 0..values.len() {
            let mut sum = 0;
            for (len, v) in values[s..].iter().enumerate() {
                sum += v;
                most[len + 1] = most[len + 1].max(sum);
            }
        }
        most
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn ten_thousand_cells_equal_brute_force(
            bursts in prop::collection::vec((0usize..10_000, 1usize..400, 0u64..2_000_000), 1..40),
            background in 0u64..2000,
            lengths in prop::collection::vec(1usize..10_000, 20),
            share in 0.0f64..1.0,
        ) {
            // ON/OFF: bursts of a rate over a background of its own rhythm.
            let mut values: Vec<u64> = (0..10_000u64).map(|i| (i * 2_654_435_761) % (background + 1)).collect();
            for (at, len, rate) in bursts {
                values.iter_mut().skip(at).take(len).for_each(|v| *v += rate);
            }
            let most = envelope_by_brute_force(&values);
            let series = Series::dense(0, 10, &values, &values);
            for slots in lengths.into_iter().chain([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000]) {
                prop_assert_eq!(most_bytes(&series, slots), most[slots], "{} slots", slots);
            }
            // σ(ρ) is the envelope's distance from a line: max over Δ of A*(Δ) - ρ Δ.
            let rate = share * most[1] as f64;
            let depth = most.iter().enumerate().map(|(len, sum)| *sum as f64 - rate * len as f64).fold(0.0, f64::max);
            let got = token_bucket_depth(&values, 1.0, rate);
            prop_assert!((got - depth).abs() <= 1e-9 * depth.max(1e6), "{} for {}", got, depth);
        }
    }

    #[test]
    fn an_even_stream_has_no_dispersion() {
        let of = |ios: &[u64]| unevenness_of(&Series::dense(0, 1_000_000, ios, ios), 1);
        let u = of(&[5; 100]).expect("I/O");
        assert_eq!((u.idc, u.peak_to_mean, u.duty_percent), (0.0, 1.0, 100.0));
        assert_eq!(of(&[0; 100]), None);
    }

    #[test]
    fn idle_seconds_do_not_count() {
        assert_eq!(active_second_rate(1000.0, 60.0, 57.5), 1000.0 / 3.0);
        assert_eq!(active_second_rate(1000.0, 60.0, 60.0), 1000.0);
    }
}
