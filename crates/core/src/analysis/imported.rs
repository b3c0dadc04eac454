//! Imported rates as the counter differences that time lines are made of, and summed up by device.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::is_sum_of_all;
use super::devices::{ClassSummary, Concurrency, DeviceSummary};
use super::timeline::{CounterRates, Flow};
use crate::model::{Class, DevId, Device, IntervalRates};

/// The difference of counters that `r` must have come from: counts are whole again, latency sums are mean times count.
pub fn counter_rates(r: &IntervalRates) -> CounterRates {
    let interval = r.interval_ns();
    let flows = r.classes.map(|c| {
        let ios = c.ios(interval)?;
        let total_ns = c.mean_us.map_or(0.0, |us| us * 1e3 * ios as f64);
        Some(Flow { ios, bytes: c.bytes(interval).unwrap_or(0), total_ns: total_ns as i64 })
    });
    let share = |percent: f64| (percent / 100.0 * interval as f64) as i64;
    CounterRates {
        dev: r.dev,
        from_ns: r.from_ns,
        to_ns: r.to_ns,
        flows,
        busy_ns: r.util_percent.map(share),
        area_ns: r.in_flight.map(|n| (n * interval as f64) as i64),
    }
}

/// The rows that may be added up: sums over devices are left out where the devices stand beside them, and of several
/// tables of the same sum the finer one counts where it covers the coarser.
pub fn without_doubles(rates: &[IntervalRates], devices: &[Device]) -> Vec<IntervalRates> {
    let is_sum = |d: &&Device| d.stable_id.as_deref().is_some_and(|s| s.starts_with("aggregate:"));
    let sums: BTreeSet<DevId> = devices.iter().filter(is_sum).map(|d| d.id).collect();
    if rates.iter().any(|r| !sums.contains(&r.dev)) {
        return rates.iter().filter(|r| !sums.contains(&r.dev)).copied().collect();
    }
    let of_all: BTreeSet<DevId> = devices.iter().filter(|d| is_sum_of_all(d)).map(|d| d.id).collect();
    let tables: Vec<Table> = of_all.iter().map(|dev| Table::of(rates, *dev)).collect();
    let is_double = |r: &IntervalRates| of_all.contains(&r.dev) && tables.iter().any(|t| t.is_finer_over(r));
    rates.iter().filter(|r| !is_double(r)).copied().collect()
}

/// When a table has rows, to be looked up fast: a log may have millions of them.
struct Table {
    dev: DevId,
    /// What its longest row covers.
    interval_ns: i64,
    /// Beginnings in order, each with the latest end up to there.
    spans: Vec<(i64, i64)>,
}

impl Table {
    fn of(rates: &[IntervalRates], dev: DevId) -> Table {
        let own = || rates.iter().filter(|r| r.dev == dev);
        let mut spans: Vec<(i64, i64)> = own().map(|r| (r.from_ns, r.to_ns)).collect();
        spans.sort_unstable();
        let mut latest = i64::MIN;
        for s in &mut spans {
            latest = latest.max(s.1);
            s.1 = latest;
        }
        Table { dev, interval_ns: own().map(IntervalRates::interval_ns).max().unwrap_or(0), spans }
    }

    /// Whether this is another table with shorter rows, of which some share time with `r`.
    fn is_finer_over(&self, r: &IntervalRates) -> bool {
        let before_end = self.spans.partition_point(|s| s.0 < r.to_ns);
        self.dev != r.dev
            && self.interval_ns < r.interval_ns()
            && before_end.checked_sub(1).is_some_and(|i| self.spans[i].1 > r.from_ns)
    }
}

/// What tables say of each device over all their rows in `window`: counts, bytes, means weighted by I/Os, and the mean
/// in flight. Quantiles and exact busy times are not to be had from averages and stay `None`.
pub fn summaries(rates: &[IntervalRates], window: std::ops::Range<i64>) -> Vec<DeviceSummary> {
    let mut by_device: BTreeMap<DevId, Vec<&IntervalRates>> = BTreeMap::new();
    for r in rates.iter().filter(|r| r.from_ns >= window.start && r.to_ns <= window.end) {
        by_device.entry(r.dev).or_default().push(r);
    }
    by_device.into_iter().map(|(dev, rows)| summary(dev, &rows)).collect()
}

/// The tables' own utilisation of each device in percent, weighted by time.
pub fn utilisation(rates: &[IntervalRates], dev: DevId) -> Option<f64> {
    weighted(rates.iter().filter(|r| r.dev == dev).filter_map(|r| Some((r.util_percent?, r.interval_ns()))))
}

fn weighted(values: impl Iterator<Item = (f64, i64)>) -> Option<f64> {
    let (sum, ns) = values.fold((0.0, 0.0), |(s, t), (v, ns)| (s + v * ns as f64, t + ns as f64));
    (ns > 0.0).then(|| sum / ns)
}

fn summary(dev: DevId, rows: &[&IntervalRates]) -> DeviceSummary {
    let class = |class: Class| {
        let (mut flow, mut timed) = (Flow::default(), Flow::default());
        for r in rows {
            let Some(f) = counter_rates(r).flows[class as usize] else { continue };
            flow.add(&f);
            if r.classes[class as usize].mean_us.is_some() {
                timed.add(&f);
            }
        }
        let (ios, bytes, mean_us) = (flow.ios, flow.bytes, timed.mean_us());
        ClassSummary { ios, bytes, mean_us, low_n: ios < super::LOW_N, ..ClassSummary::default() }
    };
    let mean = weighted(rows.iter().filter_map(|r| Some((r.in_flight?, r.interval_ns()))));
    DeviceSummary {
        dev,
        classes: Class::ALL.map(class),
        busy_percent: None,
        busy_read_percent: None,
        busy_write_percent: None,
        busy_both_percent: None,
        busy_device_percent: None,
        concurrency: Concurrency { mean, ..Concurrency::default() },
        lost_ios: Some(0),
    }
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
        assert_eq!((read.ios, read.bytes, read.mean_us()), (2, 262_144, Some(136_888.0)));
        assert_eq!(d.flows[1].expect("known").mean_us(), Some(82_941.0));
        assert_eq!((d.flows[2], d.busy_ns), (None, None), "what the table does not say stays unknown");
    }

    #[test]
    fn means_are_weighted_by_ios_and_utilisation_by_time() {
        let row = |from_s: i64, to_s: i64, ios_per_s, us, util| {
            let mut r = IntervalRates::new(from_s * 1_000_000_000, to_s * 1_000_000_000, DevId(1));
            r.classes[0] = ClassRates { ios_per_s: Some(ios_per_s), mean_us: Some(us), ..ClassRates::default() };
            r.util_percent = Some(util);
            r
        };
        let rates = [row(0, 1, 90.0, 100.0, 10.0), row(1, 4, 10.0 / 3.0, 1100.0, 50.0)];
        let s = &summaries(&rates, 0..4_000_000_000)[0];
        assert_eq!((s.classes[0].ios, s.classes[0].mean_us), (100, Some(200.0)));
        assert_eq!(utilisation(&rates, DevId(1)), Some(40.0));
        assert_eq!((s.classes[0].p99_us, s.busy_percent), (None, None));
    }

    #[test]
    fn very_many_rows_are_no_matter() {
        let sum = |name: &str, dev| Device {
            stable_id: Some(format!("aggregate:{name}")),
            ..Device::named(name, DevId(dev))
        };
        let row = |i: i64| IntervalRates::new(i * 10, i * 10 + 9 + i % 2, DevId(1 + (i % 2) as i32));
        let rates: Vec<IntervalRates> = (0..300_000).map(row).collect();
        assert_eq!(
            without_doubles(&rates, &[sum("fio:a", 1), sum("fio:b", 2)]).len(),
            rates.len(),
            "jobs are no doubles"
        );
        assert_eq!(without_doubles(&rates, &[sum("all a", 1), sum("all b", 2)]).len(), rates.len(), "none overlaps");
    }

    #[test]
    fn sums_and_coarse_tables_do_not_count_twice() {
        let mut sum = Device::named("all", DevId(2));
        sum.stable_id = Some("aggregate:all".to_owned());
        let mut finer = Device::named("all10", DevId(3));
        finer.stable_id = Some("aggregate:all10".to_owned());
        let disk = Device::named("sda", DevId(1));
        let (of_disk, of_sum) = (IntervalRates::new(0, 10, DevId(1)), IntervalRates::new(0, 10, DevId(2)));
        assert_eq!(without_doubles(&[of_disk, of_sum], &[disk, sum.clone()]), [of_disk]);
        let (fine, later) = (IntervalRates::new(5, 6, DevId(3)), IntervalRates::new(10, 20, DevId(2)));
        assert_eq!(without_doubles(&[of_sum, fine, later], &[sum, finer]), [fine, later]);
    }
}
