//! Imported rates as the counter differences that time lines are made of.

use std::collections::BTreeSet;

use super::timeline::{CounterRates, Flow};
use crate::model::{DevId, Device, IntervalRates};

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
    let finer_covers = |r: &IntervalRates| {
        rates
            .iter()
            .any(|f| f.dev != r.dev && f.interval_ns() < r.interval_ns() && r.from_ns < f.to_ns && f.from_ns < r.to_ns)
    };
    rates.iter().filter(|r| !finer_covers(r)).copied().collect()
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
