//! Joins neighbouring rows of an imported table, for charts of logs with more rows than a page can hold.

use crate::analysis::math::stats::weighted_mean;
use crate::model::{ClassRates, CpuShares, IntervalRates};

/// Consecutive rows of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowGroup {
    /// Rates are means over time. Latencies are weighted by I/Os if their number is known, otherwise by time.
    pub mean: IntervalRates,
    /// The highest value of each quantity.
    pub max: IntervalRates,
}

/// Groups of at most `size` rows of one device, which must be in order. A gap between two rows ends a group.
pub fn row_groups(rows: &[IntervalRates], size: usize) -> Vec<RowGroup> {
    let mut out = Vec::with_capacity(rows.len() / size.max(1) + 1);
    for stretch in rows.chunk_by(|a, b| b.from_ns <= a.to_ns) {
        out.extend(stretch.chunks(size.max(1)).filter_map(group));
    }
    out
}

fn group(rows: &[IntervalRates]) -> Option<RowGroup> {
    let first = rows.first()?;
    let last = rows.last()?;
    if rows.len() == 1 {
        return Some(RowGroup {
            mean: *first,
            max: *first,
        });
    }
    let max = rows[1..]
        .iter()
        .fold(*first, |max, row| max.zipped(row, highest));
    let mut mean = IntervalRates::new(first.from_ns, last.to_ns, first.dev);
    for class in 0..mean.classes.len() {
        mean.classes[class] = mean_rates(rows, |r| &r.classes[class]);
    }
    mean.all = mean_rates(rows, |r| &r.all);
    mean.in_flight = over_time(rows, |r| r.in_flight);
    mean.util_percent = over_time(rows, |r| r.util_percent);
    mean.service_us = over_time(rows, |r| r.service_us);
    Some(RowGroup {
        mean,
        max: IntervalRates {
            to_ns: last.to_ns,
            ..max
        },
    })
}

/// The higher of two values, of which either may be unknown.
fn highest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a.max(b)).or(a).or(b)
}

fn mean_rates(rows: &[IntervalRates], of: impl Fn(&IntervalRates) -> &ClassRates) -> ClassRates {
    // A mean of no I/O is unknown and has no weight. Without counts each row is weighted by its length.
    let counted = rows.iter().all(|r| of(r).ios_per_s.is_some());
    let mut means: Vec<(f64, f64)> = Vec::new();
    for r in rows {
        if let Some(mean_us) = of(r).mean_us {
            let ios_per_s = of(r).ios_per_s.filter(|_| counted);
            means.push((mean_us, ios_per_s.unwrap_or(1.0) * seconds(r)));
        }
    }
    ClassRates {
        ios_per_s: over_time(rows, |r| of(r).ios_per_s),
        bytes_per_s: over_time(rows, |r| of(r).bytes_per_s),
        merges_per_s: over_time(rows, |r| of(r).merges_per_s),
        mean_us: weighted_mean(means.into_iter()),
    }
}

fn seconds(r: &IntervalRates) -> f64 {
    r.interval_ns() as f64 / 1e9
}

fn over_time(rows: &[IntervalRates], of: impl Fn(&IntervalRates) -> Option<f64>) -> Option<f64> {
    weighted_mean(rows.iter().filter_map(|r| Some((of(r)?, seconds(r)))))
}

/// Joins neighbouring rows of processor shares by means over time.
pub fn cpu_groups(rows: &[CpuShares], size: usize) -> Vec<CpuShares> {
    let mut out = Vec::with_capacity(rows.len() / size.max(1) + 1);
    for stretch in rows.chunk_by(|a, b| b.from_ns <= a.to_ns) {
        out.extend(stretch.chunks(size.max(1)).filter_map(cpu_group));
    }
    out
}

fn cpu_group(rows: &[CpuShares]) -> Option<CpuShares> {
    let first = rows.first()?;
    let last = rows.last()?;
    Some(CpuShares {
        from_ns: first.from_ns,
        to_ns: last.to_ns,
        user: cpu_mean(rows, |c| c.user),
        nice: cpu_mean(rows, |c| c.nice),
        system: cpu_mean(rows, |c| c.system),
        iowait: cpu_mean(rows, |c| c.iowait),
        steal: cpu_mean(rows, |c| c.steal),
        idle: cpu_mean(rows, |c| c.idle),
    })
}

/// The mean of one share over the rows that have it, weighted by their lengths.
fn cpu_mean(rows: &[CpuShares], of: fn(&CpuShares) -> Option<f64>) -> Option<f64> {
    weighted_mean(
        rows.iter()
            .filter_map(|r| Some((of(r)?, (r.to_ns - r.from_ns) as f64))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DevId;

    const S: i64 = 1_000_000_000;

    fn row(from_s: i64, to_s: i64, ios_per_s: f64, mean_us: Option<f64>) -> IntervalRates {
        let mut r = IntervalRates::new(from_s * S, to_s * S, DevId(1));
        r.classes[0].ios_per_s = Some(ios_per_s);
        r.classes[0].mean_us = mean_us;
        r.util_percent = Some(ios_per_s / 10.0);
        r
    }

    #[test]
    fn a_group_has_the_means_and_the_highest_values_of_its_rows() {
        let rows = [
            row(0, 1, 100.0, Some(1000.0)),
            row(1, 4, 900.0, Some(200.0)),
            row(4, 5, 0.0, None),
        ];
        let [one] = row_groups(&rows, 10)[..] else {
            panic!("one group")
        };
        assert_eq!((one.mean.from_ns, one.mean.to_ns), (0, 5 * S));
        let read = one.mean.classes[0];
        assert_eq!(read.ios_per_s, Some((100.0 + 3.0 * 900.0) / 5.0));
        assert_eq!(
            read.mean_us,
            Some((100.0 * 1000.0 + 2700.0 * 200.0) / 2800.0)
        );
        assert_eq!(one.mean.util_percent, Some((10.0 + 3.0 * 90.0) / 5.0));
        assert_eq!(one.max.classes[0].ios_per_s, Some(900.0));
        assert_eq!(one.max.classes[0].mean_us, Some(1000.0));
        assert_eq!(one.max.util_percent, Some(90.0));
        assert_eq!((one.max.from_ns, one.max.to_ns), (0, 5 * S));
        assert_eq!(one.mean.classes[1], ClassRates::default());
    }

    #[test]
    fn gaps_and_the_size_end_groups_and_single_rows_stay_as_they_are() {
        let rows: Vec<IntervalRates> = (0..7)
            .map(|i| row(i + 100 * (i / 4), i + 1 + 100 * (i / 4), 1.0, None))
            .collect();
        let spans = |size| -> Vec<(i64, i64)> {
            let groups = row_groups(&rows, size);
            let span = |g: &RowGroup| (g.mean.from_ns / S, g.mean.to_ns / S);
            groups.iter().map(span).collect()
        };
        assert_eq!(spans(3), [(0, 3), (3, 4), (104, 107)]);
        let alone: Vec<IntervalRates> = row_groups(&rows, 1).iter().map(|g| g.mean).collect();
        assert_eq!(alone, rows);
    }

    #[test]
    fn shares_of_processors_are_means_over_time() {
        let share = |from_s: i64, to_s: i64, user| CpuShares {
            from_ns: from_s * S,
            to_ns: to_s * S,
            user: Some(user),
            ..CpuShares::default()
        };
        let [one] = cpu_groups(&[share(0, 1, 10.0), share(1, 4, 50.0)], 5)[..] else {
            panic!("one group")
        };
        assert_eq!((one.from_ns, one.to_ns), (0, 4 * S));
        assert_eq!((one.user, one.idle), (Some(40.0), None));
    }
}
