//! Converts imported rates to counter differences for time lines, and sums them by device.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::bursts::cells::{CLASSES, Series, other};
use crate::analysis::bursts::detail::bursts_of;
use crate::analysis::bursts::reported::conclude_table;
use crate::analysis::bursts::{Limit, learned_limit};
use crate::analysis::counters::audit::is_sum_of_all;
use crate::analysis::counters::summary::{self, Counted};
use crate::analysis::device::summary::{ClassSummary, DeviceSummary};
use crate::analysis::findings::Finding;
use crate::analysis::math::stats::weighted_mean;
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::{CounterRates, Flow};
use crate::model::{Class, ClassRates, DevId, Device, IntervalRates, Lost, layers_above};

/// The counter difference that `r` must have come from: counts are whole numbers again, sums of latencies are mean times count.
pub fn counter_rates(r: &IntervalRates) -> CounterRates {
    let interval = r.interval_ns();
    let flows = r.classes.map(|c| {
        let ios = c.ios(interval)?;
        let total_ns = c.mean_us.map_or(0.0, |us| us * 1e3 * ios as f64);
        Some(Flow {
            ios,
            bytes: c.bytes(interval).unwrap_or(0),
            total_ns: total_ns as i64,
        })
    });
    CounterRates {
        dev: r.dev,
        from_ns: r.from_ns,
        to_ns: r.to_ns,
        flows,
        busy_ns: r
            .util_percent
            .map(|percent| (percent / 100.0 * interval as f64) as i64),
        area_ns: r.in_flight.map(|n| (n * interval as f64) as i64),
    }
}

/// The row divided at multiples of `step_ns` after `from_ns`, its values spread evenly over its interval.
pub fn pieces(r: &IntervalRates, from_ns: i64, step_ns: i64) -> Vec<CounterRates> {
    let whole = counter_rates(r);
    let length = r.interval_ns();
    if length <= step_ns || step_ns <= 0 {
        return vec![whole];
    }
    let mut out = Vec::new();
    let mut at = r.from_ns;
    while at < r.to_ns {
        let next = from_ns
            .saturating_add(((at - from_ns).div_euclid(step_ns) + 1).saturating_mul(step_ns));
        let to = next.min(r.to_ns);
        out.push(CounterRates {
            dev: r.dev,
            from_ns: at,
            to_ns: to,
            flows: whole.flows.map(|f| f.map(|f| flow_within(f, r, at, to))),
            busy_ns: whole.busy_ns.map(|n| part_within(n, r, at, to)),
            area_ns: whole.area_ns.map(|n| part_within(n, r, at, to)),
        });
        at = to;
    }
    out
}

/// The part between `from_ns` and `to_ns` of `n`, which is spread evenly over `r`. Cumulative sums are rounded, not
/// parts, so that the parts add up to the whole.
fn part_within(n: i64, r: &IntervalRates, from_ns: i64, to_ns: i64) -> i64 {
    let length = i128::from(r.interval_ns());
    let before = i128::from(n) * i128::from(from_ns - r.from_ns) / length;
    let after = i128::from(n) * i128::from(to_ns - r.from_ns) / length;
    (after - before) as i64
}

/// As [`part_within`], for each sum of a flow.
fn flow_within(f: Flow, r: &IntervalRates, from_ns: i64, to_ns: i64) -> Flow {
    Flow {
        ios: part_within(f.ios as i64, r, from_ns, to_ns) as u64,
        bytes: part_within(f.bytes as i64, r, from_ns, to_ns) as u64,
        total_ns: part_within(f.total_ns, r, from_ns, to_ns),
    }
}

/// The rows that can be added up so that each I/O counts once, on the lowest layer. Left out are partitions and
/// devices stacked on others, sums over devices if the devices have rows themselves, and of several tables of the
/// same sum the coarser one where the finer one covers it.
pub fn without_doubles(rates: &[IntervalRates], devices: &[Device]) -> Vec<IntervalRates> {
    // Three kinds of devices repeat the I/Os of others: those stacked on others, sums, and among these the sums over
    // all devices.
    let with_rows: BTreeSet<DevId> = rates.iter().map(|r| r.dev).collect();
    let layers = layers_above(devices, |dev| with_rows.contains(&dev));
    let layers: BTreeSet<DevId> = layers.into_iter().map(|(d, _)| d.id).collect();
    let sums: BTreeSet<DevId> = devices
        .iter()
        .filter(|d| d.is_sum())
        .map(|d| d.id)
        .collect();
    let of_all: BTreeSet<DevId> = devices
        .iter()
        .filter(|d| is_sum_of_all(d))
        .map(|d| d.id)
        .collect();
    // A row is a duplicate only if others cover its time, so that is looked up in each table that it may repeat.
    let tables: Vec<(DevId, ImportedTable)> = of_all
        .iter()
        .map(|dev| {
            (
                *dev,
                ImportedTable::of(rates.iter().filter(|r| r.dev == *dev)),
            )
        })
        .collect();
    let apart = ImportedTable::of(rates.iter().filter(|r| !sums.contains(&r.dev)));
    let mut kept = Vec::new();
    for r in rates {
        let is_sum = sums.contains(&r.dev);
        if layers.contains(&r.dev) || (is_sum && apart.meets(r)) {
            continue;
        }
        let has_finer = is_sum
            && of_all.contains(&r.dev)
            && tables
                .iter()
                .any(|(dev, t)| *dev != r.dev && t.interval_ns < r.interval_ns() && t.meets(r));
        if !has_finer {
            kept.push(*r);
        }
    }
    kept
}

/// The times of a table's rows, for fast lookup: a log may have millions of them.
struct ImportedTable {
    /// Length of its longest row, in nanoseconds.
    interval_ns: i64,
    /// Starts in order, each with the latest end so far.
    spans: Vec<(i64, i64)>,
}

impl ImportedTable {
    fn of<'a>(rows: impl Iterator<Item = &'a IntervalRates> + Clone) -> ImportedTable {
        let mut spans: Vec<(i64, i64)> = rows.clone().map(|r| (r.from_ns, r.to_ns)).collect();
        spans.sort_unstable();
        let mut latest = i64::MIN;
        for s in &mut spans {
            latest = latest.max(s.1);
            s.1 = latest;
        }
        ImportedTable {
            interval_ns: rows.map(IntervalRates::interval_ns).max().unwrap_or(0),
            spans,
        }
    }

    /// Whether any of its rows overlaps `r`.
    fn meets(&self, r: &IntervalRates) -> bool {
        let before_end = self.spans.partition_point(|s| s.0 < r.to_ns);
        before_end
            .checked_sub(1)
            .is_some_and(|i| self.spans[i].1 > r.from_ns)
    }
}

/// The rows of each device that lie in `window`.
fn by_device<'a>(
    rates: &'a [IntervalRates],
    window: &std::ops::Range<i64>,
) -> BTreeMap<DevId, Vec<&'a IntervalRates>> {
    let mut rows: BTreeMap<DevId, Vec<&IntervalRates>> = BTreeMap::new();
    for r in rates
        .iter()
        .filter(|r| r.from_ns >= window.start && r.to_ns <= window.end)
    {
        rows.entry(r.dev).or_default().push(r);
    }
    rows
}

/// Summary of each device over all rows of its tables in `window`: counts, bytes, means weighted by I/Os, and the
/// mean number in flight. Averages give no quantiles and no exact busy time, so these are `None`.
pub fn summaries(rates: &[IntervalRates], window: std::ops::Range<i64>) -> Vec<DeviceSummary> {
    by_device(rates, &window)
        .into_iter()
        .map(|(dev, rows)| summary(dev, &rows))
        .collect()
}

/// I/Os of `rates` in `window` whose class is not known (`tps` alone).
pub fn unclassed_ios(rates: &[IntervalRates], window: std::ops::Range<i64>) -> u64 {
    let inside = rates
        .iter()
        .filter(|r| r.from_ns >= window.start && r.to_ns <= window.end);
    let classless = inside.filter(|r| r.classes.iter().all(|c| c.ios_per_s.is_none()));
    classless.filter_map(|r| r.all.ios(r.interval_ns())).sum()
}

/// Maximum length of a row: longer rows show no burst that one-second samples hide.
const MAX_ROW_NS: i64 = 100_000_000;

/// The bursts (A13) in tables with rows of at most 100 ms, in `window`. `limit_of` returns the bandwidth of a device
/// if the user gave one; otherwise bursts are compared with the table's own peak.
pub fn bursts(
    rates: &[IntervalRates],
    window: std::ops::Range<i64>,
    losses: &[Lost],
    limit_of: impl Fn(DevId) -> Option<Limit>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (dev, rows) in by_device(rates, &window) {
        for class in CLASSES {
            let Some(series) = series(&rows, class) else {
                continue;
            };
            let Some(limit) = limit_of(dev).or_else(|| learned_limit(&series)) else {
                continue;
            };
            // A table does not name the process behind its I/O.
            let bursts = bursts_of(
                &series,
                &limit,
                |from_ns, to_ns| is_lossy(losses, from_ns, to_ns),
                |_, _| None,
            );
            found.extend(conclude_table(
                dev,
                class,
                series.dt_ns,
                limit,
                &bursts,
                |from_ns, to_ns| slowest_mean_us(&rows, other(class), from_ns, to_ns),
            ));
        }
    }
    found
}

fn is_lossy(losses: &[Lost], from_ns: i64, to_ns: i64) -> bool {
    losses
        .iter()
        .any(|l| l.from_ns < to_ns && l.to_ns > from_ns)
}

/// The highest mean latency of `class`, in microseconds, in the rows that overlap an interval.
fn slowest_mean_us(rows: &[&IntervalRates], class: Class, from_ns: i64, to_ns: i64) -> Option<f64> {
    let met = rows
        .iter()
        .filter(|r| r.from_ns < to_ns && r.to_ns > from_ns);
    met.filter_map(|r| r.classes[class as usize].mean_us)
        .max_by(f64::total_cmp)
}

/// Periodic load (A15) in tables, in `window`.
pub fn clocks(
    rates: &[IntervalRates],
    window: std::ops::Range<i64>,
    losses: &[Lost],
) -> Vec<Finding> {
    let mut counted: BTreeMap<DevId, Counted> = BTreeMap::new();
    for (dev, rows) in by_device(rates, &window) {
        let sum = counted.entry(dev).or_default();
        for r in rows {
            sum.add(&counter_rates(r));
        }
    }
    let gaps: Vec<(i64, i64)> = losses.iter().map(|l| (l.from_ns, l.to_ns)).collect();
    let window = Window::new(window.start, window.end);
    summary::findings(&counted, window, |_| gaps.clone())
}

/// A device's rows as slots of equal length; `None` if they are too long, have no bytes, or are too far apart.
fn series(rows: &[&IntervalRates], class: Class) -> Option<Series> {
    let mut lengths: Vec<i64> = rows
        .iter()
        .map(|r| r.interval_ns())
        .filter(|ns| *ns > 0)
        .collect();
    lengths.sort_unstable();
    let dt_ns = *lengths.get(lengths.len() / 2)?;
    let from_ns = rows.iter().map(|r| r.from_ns).min()?;
    let to_ns = rows.iter().map(|r| r.to_ns).max()?;
    let slots = usize::try_from((to_ns - from_ns).checked_add(dt_ns - 1)? / dt_ns).ok()?;
    if dt_ns > MAX_ROW_NS || slots > 16 * rows.len() {
        return None;
    }
    let mut bytes = vec![0; slots];
    let mut ios = vec![0; slots];
    let mut known = false;
    for r in rows {
        // The end of a row is off the grid by as much as its tool was late.
        let slot = ((r.to_ns - from_ns - dt_ns / 2) / dt_ns).clamp(0, slots as i64 - 1) as usize;
        let c = &r.classes[class as usize];
        known |= c.bytes_per_s.is_some();
        bytes[slot] += c.bytes(r.interval_ns()).unwrap_or(0);
        ios[slot] += c.ios(r.interval_ns()).unwrap_or(0);
    }
    known.then(|| Series::dense(from_ns, dt_ns, &bytes, &ios))
}

/// Utilisation of each device as its tables state it, in percent, weighted by time.
pub fn utilisation(rates: &[IntervalRates]) -> BTreeMap<DevId, f64> {
    let mut by_device: BTreeMap<DevId, Vec<(f64, f64)>> = BTreeMap::new();
    for r in rates {
        if let Some(util) = r.util_percent {
            by_device
                .entry(r.dev)
                .or_default()
                .push((util, r.interval_ns() as f64));
        }
    }
    by_device
        .into_iter()
        .filter_map(|(dev, values)| Some((dev, weighted_mean(values.into_iter())?)))
        .collect()
}

/// I/Os, bytes and mean latency of some rows. Counts are rounded only at the end, since a printed rate times the
/// interval is rarely a whole number.
#[derive(Debug, Clone, Copy, Default)]
struct ImportedSums {
    ios: Option<f64>,
    bytes: Option<f64>,
    /// (mean latency times I/Os, I/Os), summed over rows.
    timed: (f64, f64),
    /// (mean latency times seconds, seconds), summed over rows without a number of I/Os.
    unweighted: (f64, f64),
}

impl ImportedSums {
    fn add(&mut self, c: &ClassRates, seconds: f64, ios_per_s: Option<f64>) {
        for (sum, rate) in [(&mut self.ios, ios_per_s), (&mut self.bytes, c.bytes_per_s)] {
            let n = rate
                .map(|r| r * seconds)
                .filter(|n| n.is_finite() && (0.0..9.0e15).contains(n));
            *sum = n.map(|n| sum.unwrap_or(0.0) + n).or(*sum);
        }
        let (to, weight) = match ios_per_s {
            Some(n) => (&mut self.timed, n * seconds),
            None => (&mut self.unweighted, seconds),
        };
        if let Some(mean_us) = c.mean_us.filter(|_| weight.is_finite() && weight > 0.0) {
            *to = (to.0 + mean_us * weight, to.1 + weight);
        }
    }

    fn mean_us(&self) -> Option<f64> {
        let timed = mean_of(self.timed);
        timed.or_else(|| mean_of(self.unweighted).filter(|_| self.ios.is_none()))
    }

    fn summary(&self) -> ClassSummary {
        let low_n = self.ios.is_none_or(|n| n < crate::analysis::LOW_N as f64);
        let ios = self.ios.map(|n| n.round() as u64);
        let bytes = self.bytes.map(|n| n.round() as u64);
        ClassSummary {
            ios,
            bytes,
            mean_us: self.mean_us(),
            low_n,
            ..ClassSummary::default()
        }
    }
}

/// The mean of a weighted sum; `None` if the weight is 0.
fn mean_of((sum, weight): (f64, f64)) -> Option<f64> {
    (weight > 0.0).then(|| sum / weight)
}

/// Values of all classes together, by device, over the rows in `window`; for tables that do not separate classes
/// (`tps`, `await`, `svc_t`).
pub fn of_all_classes(
    rates: &[IntervalRates],
    window: std::ops::Range<i64>,
) -> BTreeMap<DevId, AllClasses> {
    let mut by_device: BTreeMap<DevId, (ImportedSums, ImportedSums)> = BTreeMap::new();
    for r in rates
        .iter()
        .filter(|r| r.from_ns >= window.start && r.to_ns <= window.end)
    {
        if r.all.is_empty() && r.service_us.is_none() {
            continue;
        }
        let seconds = r.interval_ns() as f64 / 1e9;
        let known = r
            .classes
            .iter()
            .filter_map(|c| c.ios_per_s)
            .reduce(|a, b| a + b);
        // The mean over all classes is weighted by the I/Os of all; if a table has no such number, by the sum of the
        // classes that it has.
        let ios_per_s = r.all.ios_per_s.or(known);
        let (all, service) = by_device.entry(r.dev).or_default();
        all.add(&r.all, seconds, ios_per_s);
        service.add(
            &ClassRates {
                mean_us: r.service_us,
                ..ClassRates::default()
            },
            seconds,
            ios_per_s,
        );
    }
    by_device
        .into_iter()
        .map(|(dev, (all, service))| (dev, AllClasses::of(&all, &service)))
        .collect()
}

/// Values that a table gives for all classes of a device together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllClasses {
    /// I/Os completed.
    pub ios: Option<u64>,
    /// Bytes they moved.
    pub bytes: Option<u64>,
    /// Mean time from start to completion.
    pub mean_us: Option<f64>,
    /// Mean of the obsolete `svctm`.
    pub service_us: Option<f64>,
}

impl AllClasses {
    fn of(all: &ImportedSums, service: &ImportedSums) -> AllClasses {
        let s = all.summary();
        AllClasses {
            ios: s.ios,
            bytes: s.bytes,
            mean_us: s.mean_us,
            service_us: service.mean_us(),
        }
    }
}

fn class_summary(rows: &[&IntervalRates], class: Class) -> ClassSummary {
    let mut sums = ImportedSums::default();
    for r in rows {
        let c = &r.classes[class as usize];
        sums.add(c, r.interval_ns() as f64 / 1e9, c.ios_per_s);
    }
    sums.summary()
}

fn summary(dev: DevId, rows: &[&IntervalRates]) -> DeviceSummary {
    let classes = Class::ALL.map(|class| class_summary(rows, class));
    let mean = weighted_mean(
        rows.iter()
            .filter_map(|r| Some((r.in_flight?, r.interval_ns() as f64))),
    );
    DeviceSummary::of_counters(dev, classes, mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ClassRates;

    #[test]
    fn counts_and_means_survive() {
        let mut r = IntervalRates::new(0, 100_000_000, DevId(1));
        let of = |ios_per_s, kib, us| ClassRates {
            ios_per_s: Some(ios_per_s),
            bytes_per_s: Some(kib * 1024.0),
            merges_per_s: None,
            mean_us: Some(us),
        };
        r.classes[0] = of(20.0, 2560.0, 136_888.0);
        r.classes[1] = of(4150.0, 2_171_420.0, 82_941.0);
        let d = counter_rates(&r);
        let read = d.flows[0].expect("known");
        assert_eq!(
            (read.ios, read.bytes, read.mean_us()),
            (2, 262_144, Some(136_888.0))
        );
        assert_eq!(d.flows[1].expect("known").mean_us(), Some(82_941.0));
        assert_eq!(
            (d.flows[2], d.busy_ns),
            (None, None),
            "what the table does not say stays unknown"
        );
    }

    #[test]
    fn a_long_row_in_pieces_is_the_same_row() {
        let mut r = IntervalRates::new(100, 1_600, DevId(1));
        r.classes[1].ios_per_s = Some(7e6);
        r.classes[1].mean_us = Some(3.0);
        r.util_percent = Some(40.0);
        let whole = counter_rates(&r);
        let cut = pieces(&r, 50, 400);
        assert_eq!(
            cut.iter().map(|p| (p.from_ns, p.to_ns)).collect::<Vec<_>>(),
            [(100, 450), (450, 850), (850, 1250), (1250, 1600)]
        );
        let flows = || cut.iter().filter_map(|p| p.flows[1]);
        let mut sum = Flow::default();
        flows().for_each(|f| sum.add(&f));
        assert_eq!(Some(sum), whole.flows[1]);
        assert_eq!(cut.iter().filter_map(|p| p.busy_ns).sum::<i64>(), 600);
        assert!(
            flows().all(|f| f.ios.abs_diff(10 * 400 / 1500) <= 1),
            "evenly: {cut:?}"
        );
        assert_eq!((pieces(&r, 0, 2000), cut[0].flows[0]), (vec![whole], None));
    }

    #[test]
    fn means_are_weighted_by_ios_and_utilisation_by_time() {
        let row = |from_s: i64, to_s: i64, ios_per_s, us, util| {
            let mut r = IntervalRates::new(from_s * 1_000_000_000, to_s * 1_000_000_000, DevId(1));
            r.classes[0] = ClassRates {
                ios_per_s: Some(ios_per_s),
                mean_us: Some(us),
                ..ClassRates::default()
            };
            r.util_percent = Some(util);
            r
        };
        let rates = [
            row(0, 1, 90.0, 100.0, 10.0),
            row(1, 4, 10.0 / 3.0, 1100.0, 50.0),
        ];
        let s = &summaries(&rates, 0..4_000_000_000)[0];
        assert_eq!(
            (s.classes[0].ios, s.classes[0].mean_us),
            (Some(100), Some(200.0))
        );
        assert_eq!(
            (s.classes[0].bytes, s.classes[1].ios),
            (None, None),
            "what no row says is not zero"
        );
        assert_eq!(utilisation(&rates).get(&DevId(1)), Some(&40.0));
        assert_eq!((s.classes[0].p99_us, s.busy_percent), (None, None));
    }

    #[test]
    fn counts_are_rounded_once_and_means_without_counts_are_over_time() {
        let row = |i: i64, ios_per_s, us| {
            let mut r = IntervalRates::new(i * 1_000_000_000, (i + 1) * 1_000_000_000, DevId(1));
            r.classes[0] = ClassRates {
                ios_per_s,
                mean_us: Some(us),
                ..ClassRates::default()
            };
            r.all = ClassRates {
                ios_per_s: ios_per_s.map(|n| 2.0 * n),
                mean_us: Some(us),
                ..ClassRates::default()
            };
            r
        };
        let rates = [row(0, Some(0.4), 100.0), row(1, Some(1.2), 500.0)];
        let s = &summaries(&rates, 0..i64::MAX)[0].classes[0];
        assert_eq!(
            (s.ios, s.mean_us),
            (Some(2), Some(400.0)),
            "not 1 I/O of 500 us"
        );
        let all = of_all_classes(&rates, 0..i64::MAX)[&DevId(1)];
        assert_eq!(
            (all.ios, all.mean_us, all.service_us),
            (Some(3), Some(400.0), None)
        );
        let s = &summaries(&[row(0, None, 100.0), row(1, None, 500.0)], 0..i64::MAX)[0].classes[0];
        assert_eq!(
            (s.ios, s.mean_us),
            (None, Some(300.0)),
            "a log of latencies alone has a mean"
        );
    }

    #[test]
    fn layers_partitions_and_groups_are_not_added_to_their_disks() {
        let names = ["sda", "sda1", "dm-0", "vg-root", "loop0", "disks"];
        let mut devices: Vec<Device> = (1..)
            .zip(names)
            .map(|(i, n)| Device::named(n, DevId::new(0, i)))
            .collect();
        devices[5].stable_id = Some("aggregate:group:disks".to_owned());
        let rates: Vec<IntervalRates> = devices
            .iter()
            .map(|d| IntervalRates::new(0, 10, d.id))
            .collect();
        let counted = |rates: &[IntervalRates], devices: &[Device]| {
            without_doubles(rates, devices)
                .iter()
                .map(|r| r.dev.minor())
                .collect::<Vec<_>>()
        };
        assert_eq!(counted(&rates, &devices), [1]);
        assert_eq!(
            counted(&rates[2..5], &devices[2..5]),
            [3, 4, 5],
            "layers alone are all there is"
        );
        assert_eq!(
            counted(&rates[2..5], &devices),
            [3, 4, 5],
            "a disk without rows is not where they are counted"
        );
        assert_eq!(counted(&rates[5..], &devices[5..]), [6]);
    }

    #[test]
    fn very_many_rows_are_no_matter() {
        let sum = |name: &str, dev| Device {
            stable_id: Some(format!("aggregate:{name}")),
            ..Device::named(name, DevId(dev))
        };
        let row =
            |i: i64| IntervalRates::new(i * 10, i * 10 + 9 + i % 2, DevId(1 + (i % 2) as i32));
        let rates: Vec<IntervalRates> = (0..300_000).map(row).collect();
        assert_eq!(
            without_doubles(&rates, &[sum("fio:a", 1), sum("fio:b", 2)]).len(),
            rates.len(),
            "jobs are no doubles"
        );
        assert_eq!(
            without_doubles(&rates, &[sum("all a", 1), sum("all b", 2)]).len(),
            rates.len(),
            "none overlaps"
        );
    }

    #[test]
    fn sums_and_coarse_tables_do_not_count_twice() {
        let mut sum = Device::named("all", DevId(2));
        sum.stable_id = Some("aggregate:all".to_owned());
        let mut finer = Device::named("all10", DevId(3));
        finer.stable_id = Some("aggregate:all10".to_owned());
        let disk_of = |dev| Device::named("sda", DevId(dev));
        let disk = disk_of(1);
        let of_disk = IntervalRates::new(0, 10, DevId(1));
        let of_sum = IntervalRates::new(0, 10, DevId(2));
        assert_eq!(
            without_doubles(&[of_disk, of_sum], &[disk, sum.clone()]),
            [of_disk]
        );
        let alone = IntervalRates::new(10, 20, DevId(2));
        assert_eq!(
            without_doubles(&[of_disk, of_sum, alone], &[disk_of(1), sum.clone()]),
            [of_disk, alone],
            "later"
        );
        let fine = IntervalRates::new(5, 6, DevId(3));
        let later = alone;
        assert_eq!(
            without_doubles(&[of_sum, fine, later], &[sum, finer]),
            [fine, later]
        );
    }
}
