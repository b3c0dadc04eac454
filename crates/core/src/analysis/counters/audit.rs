//! Finds imported tables whose coarse intervals are averages of averages (A25), by comparison with a finer table of
//! the same time.
//!
//! The mean latency of an interval is the sum of its I/Os' latencies over their number. Tools that average the means of
//! shorter intervals instead (empty ones counting as 0) understate it: the busy interval, where waiting happens, weighs
//! no more than an idle one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::findings::evidence::{AveragedAveragesEvidence, Evidence};
use crate::analysis::findings::{Finding, Severity};
use crate::model::{Class, DevId, Device, IntervalRates, RateRows};

/// How a coarse row's mean latency was computed from the finer rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "AveragingRule")
)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Every I/O has the same weight, which is correct.
    WeightedByIos,
    /// Every finer interval has the same weight, empty ones as 0: an average of averages.
    MeanOfMeans,
    /// Every finer interval with I/Os has the same weight: an average of averages, too.
    MeanOfNonEmptyMeans,
    /// None of these.
    Other,
}

impl Rule {
    /// Whether it is an average of averages.
    pub fn is_wrong(self) -> bool {
        matches!(self, Rule::MeanOfMeans | Rule::MeanOfNonEmptyMeans)
    }
}

/// The test of one class of one coarse row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRow {
    /// Start of the coarse interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The class.
    pub class: Class,
    /// Number of finer rows that cover the interval.
    pub finer_rows: usize,
    /// I/Os in these rows.
    pub ios: u64,
    /// Mean latency that the coarse row states, in microseconds.
    pub stated_us: f64,
    /// Mean of the finer rows weighted by their I/Os (Σ n·v / Σ n): the true mean as far as they show it, in microseconds.
    pub weighted_us: Option<f64>,
    /// Mean of the means of the finer rows, with rows without I/O as 0, in microseconds.
    pub mean_of_means_us: f64,
    /// Mean of the means of the finer rows with I/Os, in microseconds.
    pub mean_of_non_empty_us: Option<f64>,
    /// Averaging rule that reproduces the stated value.
    pub rule: Rule,
    /// How far the stated value is below the true mean, in percent of the true mean.
    pub understated_percent: Option<f64>,
    /// Whether I/Os and bytes per second of the coarse row agree with those of the finer rows within rounding.
    pub counts_agree: bool,
}

/// Tests every row of `coarse` that rows of `fine` cover without a gap.
///
/// Printed tables round or truncate to whole microseconds, so a rule matches within one.
pub fn audit(coarse: &[IntervalRates], fine: &[IntervalRates]) -> Vec<AuditRow> {
    let mut fine: Vec<&IntervalRates> = fine.iter().collect();
    fine.sort_by_key(|r| r.from_ns);
    let mut out = Vec::new();
    for c in coarse {
        let covering = covering(c, &fine);
        if covering.len() < 2 {
            continue;
        }
        out.extend(
            [Class::Read, Class::Write]
                .into_iter()
                .filter_map(|class| test(c, covering, class)),
        );
    }
    out
}

/// Maximum number of interval lengths of a device. More of them are rows without a regular interval, not tables of
/// several resolutions.
const MAX_RESOLUTIONS: usize = 8;

/// The audit of every device with rows of at least two resolutions. Sums over all devices, which importers name by
/// their resolution, count as a single device here.
pub fn audit_tables(rates: &RateRows, devices: &[Device]) -> Vec<AuditRow> {
    let sums: Vec<DevId> = devices
        .iter()
        .filter(|d| is_sum_of_all(d))
        .map(|d| d.id)
        .collect();
    let mut lengths: BTreeMap<DevId, BTreeSet<i64>> = BTreeMap::new();
    for r in rates.iter().filter(counts_ios) {
        let of = lengths.entry(audited_as(&r, &sums)).or_default();
        if of.len() <= MAX_RESOLUTIONS {
            of.insert(r.interval_ns());
        }
    }
    // Most logs have one resolution, and possibly millions of rows, which are not unpacked.
    lengths.retain(|_, of| (2..=MAX_RESOLUTIONS).contains(&of.len()));
    let mut tables: BTreeMap<DevId, BTreeMap<i64, Vec<IntervalRates>>> = BTreeMap::new();
    for r in rates.iter().filter(counts_ios) {
        let dev = audited_as(&r, &sums);
        if lengths.contains_key(&dev) {
            let by_interval = tables.entry(dev).or_default();
            by_interval.entry(r.interval_ns()).or_default().push(r);
        }
    }
    tables
        .into_values()
        .flat_map(|t| audit_resolutions(&t))
        .collect()
}

/// Whether a row has the number of I/Os of any class.
fn counts_ios(r: &IntervalRates) -> bool {
    r.classes.iter().any(|c| c.ios_per_s.is_some())
}

/// The device of a row; a single one for all of `sums`.
fn audited_as(r: &IntervalRates, sums: &[DevId]) -> DevId {
    if sums.contains(&r.dev) {
        DevId(i32::MIN)
    } else {
        r.dev
    }
}

/// Whether `d` is a sum over all devices. Sums of different resolutions describe the same I/Os.
pub fn is_sum_of_all(d: &Device) -> bool {
    d.stable_id
        .as_deref()
        .is_some_and(|s| s.starts_with("aggregate:all"))
}

/// Tests each row against the coarsest of the finer tables that covers it: a still finer one would test the same row again.
fn audit_resolutions(by_interval: &BTreeMap<i64, Vec<IntervalRates>>) -> Vec<AuditRow> {
    let mut out = Vec::new();
    for (interval_ns, coarse) in by_interval {
        let mut left = coarse.clone();
        for (_, fine) in by_interval.range(..interval_ns).rev() {
            let audited = audit(&left, fine);
            left.retain(|r| !audited.iter().any(|a| a.to_ns == r.to_ns));
            out.extend(audited);
        }
    }
    out
}

/// The finding; `None` if there was nothing to test.
pub fn finding(rows: &[AuditRow]) -> Option<Finding> {
    let averages_of_averages = rows.iter().filter(|r| r.rule.is_wrong()).count();
    Some(Finding {
        dev: None,
        from_ns: rows.iter().map(|r| r.from_ns).min()?,
        to_ns: rows.iter().map(|r| r.to_ns).max()?,
        severity: if averages_of_averages > 0 {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::AveragedAverages(AveragedAveragesEvidence {
            checked: rows.len(),
            averages_of_averages,
            rows: rows.to_vec(),
        }),
    })
}

/// The finer rows inside `c`, if they cover it from end to end and are all shorter.
fn covering<'a, 'b>(c: &IntervalRates, fine: &'b [&'a IntervalRates]) -> &'b [&'a IntervalRates] {
    let from = fine.partition_point(|r| r.from_ns < c.from_ns);
    let to = from + fine[from..].partition_point(|r| r.to_ns <= c.to_ns);
    let inside = &fine[from..to];
    let whole = inside.first().is_some_and(|r| r.from_ns == c.from_ns)
        && inside.last().is_some_and(|r| r.to_ns == c.to_ns)
        && inside.windows(2).all(|w| w[0].to_ns == w[1].from_ns);
    if whole { inside } else { &[] }
}

fn test(coarse: &IntervalRates, fine: &[&IntervalRates], class: Class) -> Option<AuditRow> {
    let i = class as usize;
    let own = &coarse.classes[i];
    let stated_us = own
        .mean_us
        .or_else(|| (own.ios_per_s == Some(0.0)).then_some(0.0))?;
    // One pass over the finer rows collects the inputs of all rules. Without I/O counts none of them can be tested.
    let mut ios = 0u64;
    let mut sum_us = 0.0;
    let mut sum_of_means = 0.0;
    let mut non_empty = 0u32;
    let mut bytes = 0u64;
    for f in fine {
        let n = f.classes[i].ios(f.interval_ns())?;
        bytes += f.classes[i].bytes(f.interval_ns()).unwrap_or(0);
        if let (Some(mean), true) = (f.classes[i].mean_us, n > 0) {
            ios += n;
            sum_us += n as f64 * mean;
            sum_of_means += mean;
            non_empty += 1;
        }
    }
    if ios == 0 {
        return None;
    }
    let weighted_us = Some(sum_us / ios as f64);
    let mean_of_means_us = sum_of_means / fine.len() as f64;
    let mean_of_non_empty_us = Some(sum_of_means / f64::from(non_empty));
    // The correct rule comes first: if intervals are equally busy, the wrong ones give the same value.
    let rule = if is_stated(stated_us, weighted_us) {
        Rule::WeightedByIos
    } else if is_stated(stated_us, Some(mean_of_means_us)) {
        Rule::MeanOfMeans
    } else if is_stated(stated_us, mean_of_non_empty_us) {
        Rule::MeanOfNonEmptyMeans
    } else {
        Rule::Other
    };
    // If counts disagree, the two tables do not describe the same I/Os.
    let seconds = coarse.interval_ns() as f64 / 1e9;
    let ios_agree = is_near(own.ios_per_s, ios as f64 / seconds, 1.0);
    let bytes_agree = is_near(own.bytes_per_s, bytes as f64 / seconds, 1024.0);
    Some(AuditRow {
        from_ns: coarse.from_ns,
        to_ns: coarse.to_ns,
        class,
        finer_rows: fine.len(),
        ios,
        stated_us,
        weighted_us,
        mean_of_means_us,
        mean_of_non_empty_us,
        rule,
        understated_percent: weighted_us.map(|w| 100.0 * (1.0 - stated_us / w)),
        counts_agree: ios_agree && bytes_agree,
    })
}

/// Whether a rule's value is the stated one, up to the rounding of printed tables.
fn is_stated(stated_us: f64, us: Option<f64>) -> bool {
    us.is_some_and(|us| (us - stated_us).abs() <= 1.0)
}

/// Whether a printed rate, if there is one, equals `expected` within `unit`.
fn is_near(rate: Option<f64>, expected: f64, unit: f64) -> bool {
    rate.is_none_or(|r| (r - expected).abs() <= unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClassRates;

    fn table(csv: &str, step_s: f64) -> Vec<IntervalRates> {
        let rows = csv.lines().skip(1).map(|l| {
            l.split(',')
                .map(|c| c.parse::<f64>().expect("number"))
                .collect::<Vec<_>>()
        });
        rows.map(|c| {
            let to_ns = (c[0] * 1e9).round() as i64;
            let mut r = IntervalRates::new(to_ns - (step_s * 1e9) as i64, to_ns, DevId(1));
            for (class, v) in c[1..].chunks(3).enumerate() {
                let mean_us = (v[0] > 0.0).then_some(v[2]);
                let ios_per_s = Some(v[0]);
                let bytes_per_s = Some(v[1] * 1024.0);
                r.classes[class] = ClassRates {
                    ios_per_s,
                    bytes_per_s,
                    mean_us,
                    merges_per_s: None,
                };
            }
            r
        })
        .collect()
    }

    fn published(name: &str) -> Vec<IntervalRates> {
        match name {
            "10hz" => table(
                include_str!("../../../../../fixtures/golden/seed3_agg_10hz.csv"),
                0.1,
            ),
            "1s" => table(
                include_str!("../../../../../fixtures/golden/seed3_agg_1s.csv"),
                1.0,
            ),
            _ => table(
                include_str!("../../../../../fixtures/golden/seed3_agg_15s.csv"),
                15.0,
            ),
        }
    }

    /// row of the coarse table, finer table's name, then stated, mean of means and weighted mean of reads and of writes.
    fn golden() -> Vec<(i64, [f64; 6])> {
        let csv =
            include_str!("../../../../../fixtures/golden/seed3_derived_latency_aggregation.csv");
        csv.lines()
            .skip(1)
            .map(|l| {
                let cells: Vec<&str> = l.split(',').collect();
                let n = |i: usize| cells[i].parse::<f64>().expect("number");
                (n(0) as i64, [n(2), n(3), n(4), n(5), n(6), n(7)])
            })
            .collect()
    }

    #[test]
    fn the_published_tables_average_averages() {
        let mut rows = audit(&published("1s"), &published("10hz"));
        rows.extend(audit(&published("15s"), &published("1s")));
        assert_eq!(rows.len(), 6, "two classes of rows 154, 155 and 160");
        for (second, want) in golden() {
            for (class, want) in [Class::Read, Class::Write].into_iter().zip(want.chunks(3)) {
                let r = rows
                    .iter()
                    .find(|r| r.to_ns == second * 1_000_000_000 && r.class == class)
                    .expect("audited");
                let shown = |v: f64| (v * 10.0).round() / 10.0;
                assert_eq!(r.stated_us, want[0], "{second} {class:?}");
                assert_eq!(shown(r.mean_of_means_us), want[1], "{second} {class:?}");
                assert_eq!(
                    r.weighted_us.map(shown),
                    Some(want[2]),
                    "{second} {class:?}"
                );
                assert_eq!(r.rule, Rule::MeanOfMeans, "{second} {class:?}");
                assert!(r.counts_agree, "counts and bytes aggregate exactly");
            }
        }
        let percent = |second: i64, class| {
            let r = rows
                .iter()
                .find(|r| r.to_ns == second * 1_000_000_000 && r.class == class);
            r.and_then(|r| r.understated_percent)
                .expect("known")
                .round()
        };
        assert_eq!(
            (percent(154, Class::Read), percent(155, Class::Read)),
            (4.0, 32.0)
        );
        assert_eq!(
            (percent(154, Class::Write), percent(155, Class::Write)),
            (8.0, 80.0)
        );
        assert_eq!(
            (percent(160, Class::Read), percent(160, Class::Write)),
            (26.0, 69.0)
        );
        let mut all = RateRows::default();
        let mut devices = Vec::new();
        for (i, name) in ["10hz", "1s", "15s"].into_iter().enumerate() {
            let dev = DevId(i as i32);
            published(name)
                .iter()
                .for_each(|r| all.push(&IntervalRates { dev, ..*r }));
            devices.push(Device {
                stable_id: Some(format!("aggregate:all {name}")),
                ..Device::named(name, dev)
            });
        }
        let together = audit_tables(&all, &devices);
        assert!(
            audit_tables(&all, &[]).is_empty(),
            "three disks say nothing of each other"
        );
        assert_eq!(together, rows, "tables find each other");
        let found = finding(&rows).expect("a finding");
        assert_eq!(
            (found.severity, found.from_ns, found.to_ns),
            (Severity::Warning, 145_000_000_000, 160_000_000_000)
        );
        let Evidence::AveragedAverages(e) = &found.evidence else {
            panic!("{found:?}")
        };
        assert_eq!((e.checked, e.averages_of_averages, &e.rows), (6, 6, &rows));
    }

    #[test]
    fn rightly_merged_rows_pass_and_uncovered_ones_are_not_judged() {
        let fine = published("10hz");
        let mut coarse = IntervalRates::new(153_000_000_000, 154_000_000_000, DevId(1));
        coarse.classes[0] = ClassRates {
            ios_per_s: Some(23.0),
            mean_us: Some(18506.3),
            ..ClassRates::default()
        };
        let rows = audit(&[coarse], &fine);
        assert_eq!((rows.len(), rows[0].rule), (1, Rule::WeightedByIos));
        assert_eq!(finding(&rows).map(|f| f.severity), Some(Severity::Info));
        coarse.from_ns -= 1_000_000_000;
        assert!(
            audit(&[coarse], &fine).is_empty(),
            "the finer rows begin later"
        );
    }
}
