//! Imported rates as the counter differences that time lines are made of, and summed up by device.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::is_sum_of_all;
use super::burst_detail::bursts_of;
use super::bursts::{Limit, learned_limit};
use super::cells::{CLASSES, Series, Sizes, other};
use super::device_summary::{ClassSummary, Concurrency, DeviceSummary};
use super::findings::Finding;
use super::timeline::{CounterRates, Flow};
use super::told_bursts::conclude_table;
use crate::model::{Class, DevId, Device, IntervalRates, Lost};

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

/// The same cut at the multiples of `step_ns` after `from_ns`: what a row says of its interval, spread evenly over it.
pub fn pieces(r: &IntervalRates, from_ns: i64, step_ns: i64) -> Vec<CounterRates> {
    let (whole, length) = (counter_rates(r), r.interval_ns());
    if length <= step_ns || step_ns <= 0 {
        return vec![whole];
    }
    // Sums up to an instant are rounded, not their parts: the parts then add up to the whole.
    let part = |n: i64, a: i64, b: i64| {
        let up_to = |t: i64| i128::from(n) * i128::from(t - r.from_ns) / i128::from(length);
        (up_to(b) - up_to(a)) as i64
    };
    let mut out = Vec::new();
    let mut at = r.from_ns;
    while at < r.to_ns {
        let next = from_ns.saturating_add(((at - from_ns).div_euclid(step_ns) + 1).saturating_mul(step_ns));
        let to = next.min(r.to_ns);
        let of = |n: u64| part(n as i64, at, to) as u64;
        let flow = |f: Flow| Flow { ios: of(f.ios), bytes: of(f.bytes), total_ns: part(f.total_ns, at, to) };
        out.push(CounterRates {
            dev: r.dev,
            from_ns: at,
            to_ns: to,
            flows: whole.flows.map(|f| f.map(flow)),
            busy_ns: whole.busy_ns.map(|n| part(n, at, to)),
            area_ns: whole.area_ns.map(|n| part(n, at, to)),
        });
        at = to;
    }
    out
}

/// The rows that may be added up: sums over devices are left out while devices stand beside them, and of several
/// tables of the same sum the finer one counts where it covers the coarser.
pub fn without_doubles(rates: &[IntervalRates], devices: &[Device]) -> Vec<IntervalRates> {
    let is_sum = |d: &&Device| d.stable_id.as_deref().is_some_and(|s| s.starts_with("aggregate:"));
    let sums: BTreeSet<DevId> = devices.iter().filter(is_sum).map(|d| d.id).collect();
    let of_all: BTreeSet<DevId> = devices.iter().filter(|d| is_sum_of_all(d)).map(|d| d.id).collect();
    let tables: Vec<(DevId, Table)> =
        of_all.iter().map(|dev| (*dev, Table::of(rates.iter().filter(|r| r.dev == *dev)))).collect();
    let apart = Table::of(rates.iter().filter(|r| !sums.contains(&r.dev)));
    let is_double = |r: &IntervalRates| {
        let finer = || tables.iter().any(|(dev, t)| *dev != r.dev && t.interval_ns < r.interval_ns() && t.meets(r));
        sums.contains(&r.dev) && (apart.meets(r) || (of_all.contains(&r.dev) && finer()))
    };
    rates.iter().filter(|r| !is_double(r)).copied().collect()
}

/// When a table has rows, to be looked up fast: a log may have millions of them.
struct Table {
    /// What its longest row covers.
    interval_ns: i64,
    /// Beginnings in order, each with the latest end up to there.
    spans: Vec<(i64, i64)>,
}

impl Table {
    fn of<'a>(rows: impl Iterator<Item = &'a IntervalRates> + Clone) -> Table {
        let mut spans: Vec<(i64, i64)> = rows.clone().map(|r| (r.from_ns, r.to_ns)).collect();
        spans.sort_unstable();
        let mut latest = i64::MIN;
        for s in &mut spans {
            latest = latest.max(s.1);
            s.1 = latest;
        }
        Table { interval_ns: rows.map(IntervalRates::interval_ns).max().unwrap_or(0), spans }
    }

    /// Whether some of its rows share time with `r`.
    fn meets(&self, r: &IntervalRates) -> bool {
        let before_end = self.spans.partition_point(|s| s.0 < r.to_ns);
        before_end.checked_sub(1).is_some_and(|i| self.spans[i].1 > r.from_ns)
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

/// I/Os of `rates` in `window` that no class is known of (`tps` alone).
pub fn unclassed_ios(rates: &[IntervalRates], window: std::ops::Range<i64>) -> u64 {
    let inside = rates.iter().filter(|r| r.from_ns >= window.start && r.to_ns <= window.end);
    let classless = inside.filter(|r| r.classes.iter().all(|c| c.ios_per_s.is_none()));
    classless.filter_map(|r| r.all.ios(r.interval_ns())).sum()
}

/// Longer rows show no burst that one-second samples hide.
const LONGEST_ROW_NS: i64 = 100_000_000;

/// The bursts (A13) in tables of rows of a tenth of a second or less, in `window`. `limit_of` is what a device can carry, if
/// the user knows; else the table's own peak is the measure.
pub fn bursts(
    rates: &[IntervalRates],
    window: std::ops::Range<i64>,
    losses: &[Lost],
    limit_of: impl Fn(DevId) -> Option<Limit>,
) -> Vec<Finding> {
    let mut by_device: BTreeMap<DevId, Vec<&IntervalRates>> = BTreeMap::new();
    for r in rates.iter().filter(|r| r.from_ns >= window.start && r.to_ns <= window.end) {
        by_device.entry(r.dev).or_default().push(r);
    }
    let lossy = |from_ns, to_ns| losses.iter().any(|l| l.from_ns < to_ns && l.to_ns > from_ns);
    let mut found = Vec::new();
    for (dev, rows) in by_device {
        for class in CLASSES {
            let Some(series) = series(&rows, class) else { continue };
            let Some(limit) = limit_of(dev).or_else(|| learned_limit(&series)) else { continue };
            let slowest = |from_ns: i64, to_ns: i64| {
                let met = rows.iter().filter(|r| r.from_ns < to_ns && r.to_ns > from_ns);
                met.filter_map(|r| r.classes[other(class) as usize].mean_us).max_by(f64::total_cmp)
            };
            let bursts = bursts_of(&series, Sizes::of_averages(&series), &limit, lossy, |_, _| None);
            found.extend(conclude_table(dev, class, series.dt_ns, limit, &bursts, slowest));
        }
    }
    found
}

/// A device's rows as slots of equal length; `None` if they are too long, do not say how much, or are too far apart.
fn series(rows: &[&IntervalRates], class: Class) -> Option<Series> {
    let mut lengths: Vec<i64> = rows.iter().map(|r| r.interval_ns()).filter(|ns| *ns > 0).collect();
    lengths.sort_unstable();
    let dt_ns = *lengths.get(lengths.len() / 2)?;
    let (from_ns, to_ns) = (rows.iter().map(|r| r.from_ns).min()?, rows.iter().map(|r| r.to_ns).max()?);
    let slots = usize::try_from((to_ns - from_ns).checked_add(dt_ns - 1)? / dt_ns).ok()?;
    if dt_ns > LONGEST_ROW_NS || slots > 16 * rows.len() {
        return None;
    }
    let mut series = Series { from_ns, dt_ns, ios: vec![0; slots], bytes: vec![0; slots] };
    let mut known = false;
    for r in rows {
        // Ends may be off the grid by what their tool was late.
        let slot = ((r.to_ns - from_ns - dt_ns / 2) / dt_ns).clamp(0, slots as i64 - 1) as usize;
        let c = &r.classes[class as usize];
        known |= c.bytes_per_s.is_some();
        series.bytes[slot] += c.bytes(r.interval_ns()).unwrap_or(0);
        series.ios[slot] += c.ios(r.interval_ns()).unwrap_or(0);
    }
    known.then_some(series)
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
        let (mut ios, mut bytes, mut timed) = (None, None, Flow::default());
        for r in rows {
            let c = &r.classes[class as usize];
            for (sum, n) in [(&mut ios, c.ios(r.interval_ns())), (&mut bytes, c.bytes(r.interval_ns()))] {
                *sum = n.map(|n| sum.unwrap_or(0) + n).or(*sum);
            }
            if let (Some(_), Some(flow)) = (c.mean_us, counter_rates(r).flows[class as usize]) {
                timed.add(&flow);
            }
        }
        let low_n = ios.is_none_or(|n| n < super::LOW_N);
        ClassSummary { ios, bytes, mean_us: timed.mean_us(), low_n, ..ClassSummary::default() }
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
        assert!(flows().all(|f| f.ios.abs_diff(10 * 400 / 1500) <= 1), "evenly: {cut:?}");
        assert_eq!((pieces(&r, 0, 2000), cut[0].flows[0]), (vec![whole], None));
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
        assert_eq!((s.classes[0].ios, s.classes[0].mean_us), (Some(100), Some(200.0)));
        assert_eq!((s.classes[0].bytes, s.classes[1].ios), (None, None), "what no row says is not zero");
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
        let disk_of = |dev| Device::named("sda", DevId(dev));
        let disk = disk_of(1);
        let (of_disk, of_sum) = (IntervalRates::new(0, 10, DevId(1)), IntervalRates::new(0, 10, DevId(2)));
        assert_eq!(without_doubles(&[of_disk, of_sum], &[disk, sum.clone()]), [of_disk]);
        let alone = IntervalRates::new(10, 20, DevId(2));
        assert_eq!(without_doubles(&[of_disk, of_sum, alone], &[disk_of(1), sum.clone()]), [of_disk, alone], "later");
        let (fine, later) = (IntervalRates::new(5, 6, DevId(3)), alone);
        assert_eq!(without_doubles(&[of_sum, fine, later], &[sum, finer]), [fine, later]);
    }
}
