//! Finds the busiest time range of a recording (A12).

use serde::Serialize;

/// The range of a given number of consecutive slots with the largest sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// Its first slot.
    pub first: usize,
    /// Its number of slots.
    pub slots: usize,
    /// Sum over its slots.
    pub sum: f64,
    /// Its rate divided by the rate of the whole series.
    pub ratio: f64,
}

/// The range of `slots` consecutive values with the largest sum; the earliest of equals. `None` in `values` marks a
/// slot that was not observed; ranges with less than 95 % observed slots are skipped. Returns `None` if no range
/// qualifies.
pub fn peak(values: &[Option<f64>], slots: usize) -> Option<Peak> {
    if slots == 0 || slots > values.len() {
        return None;
    }
    let observed = values.iter().flatten();
    let mean = observed.clone().sum::<f64>() / observed.count().max(1) as f64;
    let mut best: Option<Peak> = None;
    let mut sum = 0.0;
    let mut seen = 0usize;
    for i in 0..values.len() {
        if let Some(v) = values[i] {
            sum += v;
            seen += 1;
        }
        if i >= slots
            && let Some(v) = values[i - slots]
        {
            sum -= v;
            seen -= 1;
        }
        let first = (i + 1).checked_sub(slots);
        let covered = seen as f64 >= 0.95 * slots as f64;
        if let Some(first) =
            first.filter(|_| covered && best.is_none_or(|b| sum > b.sum * (1.0 + 1e-12)))
        {
            let ratio = if mean > 0.0 {
                sum / seen as f64 / mean
            } else {
                1.0
            };
            best = Some(Peak {
                first,
                slots,
                sum,
                ratio,
            });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daily_wave_has_its_peak_at_its_crest() {
        // A day in groups of 20 minutes, crest at 15:00; the peak hour begins at 14:20 or 14:40.
        let values: Vec<Option<f64>> = (0..72)
            .map(|g| {
                Some(
                    1000.0
                        + 500.0
                            * (((f64::from(g) + 0.5) / 3.0 - 15.0) / 24.0 * std::f64::consts::TAU)
                                .cos(),
                )
            })
            .collect();
        let p = peak(&values, 3).expect("covered");
        assert!((43..=44).contains(&p.first), "{p:?}");
        assert!((p.ratio - 1.5).abs() < 0.01);
    }

    #[test]
    fn equals_go_to_the_earliest_and_gaps_do_not_count() {
        assert_eq!(peak(&[Some(1.0); 10], 3).map(|p| p.first), Some(0));
        let gap = [Some(1.0), Some(9.0), None, Some(9.0), Some(2.0), Some(2.0)];
        assert_eq!(peak(&gap, 2).map(|p| p.first), Some(3));
        assert_eq!((peak(&[None; 4], 2), peak(&[Some(1.0)], 2)), (None, None));
    }
}
