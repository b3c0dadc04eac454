//! Averages over one interval of an imported table, as logs without single I/Os hold them.

use super::DevId;
use super::rate_rows::{QUANTITIES, quantities, with_quantities};

/// One class of I/O over an interval, as a table printed it. `None`: the table did not say.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct ClassRates {
    /// Completed I/Os per second.
    pub ios_per_s: Option<f64>,
    /// Bytes per second.
    pub bytes_per_s: Option<f64>,
    /// Merged I/Os per second.
    pub merges_per_s: Option<f64>,
    /// Mean time from start to completion, in microseconds; `None` too if no I/O completed.
    pub mean_us: Option<f64>,
}

impl ClassRates {
    /// Whether all values are absent.
    pub fn is_empty(&self) -> bool {
        *self == ClassRates::default()
    }

    /// Mean latency over the I/Os of both, weighted by their numbers; `None` if either has no count.
    fn mean_with(&self, other: &ClassRates) -> Option<f64> {
        let (mean, ios) = self.mean_and_ios()?;
        let (other_mean, other_ios) = other.mean_and_ios()?;
        let all = ios + other_ios;
        (all > 0.0).then(|| (mean * ios + other_mean * other_ios) / all)
    }

    /// Mean latency in microseconds and the I/Os per second that it covers. A class without I/O counts as (0, 0).
    fn mean_and_ios(&self) -> Option<(f64, f64)> {
        match (self.mean_us, self.ios_per_s) {
            (None, None | Some(0.0)) => Some((0.0, 0.0)),
            (mean_us, ios) => Some((mean_us?, ios?)),
        }
    }

    /// Combines each rate with `rate` and the mean latency with `mean`.
    fn combined(
        &self,
        other: &ClassRates,
        rate: impl Fn(Option<f64>, Option<f64>) -> Option<f64>,
        mean: impl Fn(&ClassRates, &ClassRates) -> Option<f64>,
    ) -> ClassRates {
        ClassRates {
            ios_per_s: rate(self.ios_per_s, other.ios_per_s),
            bytes_per_s: rate(self.bytes_per_s, other.bytes_per_s),
            merges_per_s: rate(self.merges_per_s, other.merges_per_s),
            mean_us: mean(self, other),
        }
    }

    /// I/Os completed in `interval_ns`, rounded to an integer. This undoes the division made by the table's author.
    pub fn ios(&self, interval_ns: i64) -> Option<u64> {
        whole(self.ios_per_s? * interval_ns as f64 / 1e9)
    }

    /// Bytes moved in `interval_ns`, rounded to whole ones.
    pub fn bytes(&self, interval_ns: i64) -> Option<u64> {
        whole(self.bytes_per_s? * interval_ns as f64 / 1e9)
    }
}

fn whole(x: f64) -> Option<u64> {
    // Above 2^53 a double cannot represent single I/Os, so the table cannot have meant the value.
    (x.is_finite() && (0.0..9.0e15).contains(&x)).then(|| x.round() as u64)
}

/// The sum of both; where only one is known, that one.
fn sum_of_known(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        _ => a.or(b),
    }
}

/// A row of an imported table: one device (or what the table summed up) over one interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IntervalRates {
    /// Start of the interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end, which is the instant that tables print.
    pub to_ns: i64,
    /// The device. Imports without device numbers make some up; see the recording's device list.
    pub dev: DevId,
    /// Reads, writes, discards and flushes apart; `class as usize` indexes it.
    pub classes: [ClassRates; 4],
    /// Values that the table has only for all classes together (`tps`, `await`).
    pub all: ClassRates,
    /// Mean number of I/Os in flight (`aqu-sz`, `avgqu-sz`, `actv`).
    pub in_flight: Option<f64>,
    /// Utilisation in percent as the table defines it (`%util`, `%b`).
    pub util_percent: Option<f64>,
    /// The obsolete `svctm`, in microseconds.
    pub service_us: Option<f64>,
}

impl IntervalRates {
    /// A row without values.
    pub fn new(from_ns: i64, to_ns: i64, dev: DevId) -> IntervalRates {
        IntervalRates {
            from_ns,
            to_ns,
            dev,
            classes: [ClassRates::default(); 4],
            all: ClassRates::default(),
            in_flight: None,
            util_percent: None,
            service_us: None,
        }
    }

    /// Whether no quantity is in both rows, as if they were columns of two tables.
    pub fn complements(&self, other: &IntervalRates) -> bool {
        let mut both = quantities(self).into_iter().zip(quantities(other));
        !both.any(|(a, b)| a.is_some() && b.is_some())
    }

    /// This row, with absent values taken from `other`.
    pub fn or(&self, other: &IntervalRates) -> IntervalRates {
        self.combined(other, |a, b| a.or(b), |a, b| a.mean_us.or(b.mean_us))
    }

    /// The sum of both rows, which describe different I/Os of the same interval.
    pub fn plus(&self, other: &IntervalRates) -> IntervalRates {
        self.combined(other, sum_of_known, ClassRates::mean_with)
    }

    fn combined(
        &self,
        other: &IntervalRates,
        rate: impl Fn(Option<f64>, Option<f64>) -> Option<f64>,
        mean: impl Fn(&ClassRates, &ClassRates) -> Option<f64>,
    ) -> IntervalRates {
        IntervalRates {
            classes: std::array::from_fn(|i| {
                self.classes[i].combined(&other.classes[i], &rate, &mean)
            }),
            all: self.all.combined(&other.all, &rate, &mean),
            in_flight: rate(self.in_flight, other.in_flight),
            util_percent: self.util_percent.or(other.util_percent),
            service_us: self.service_us.or(other.service_us),
            ..*self
        }
    }

    /// Combines each quantity of this row and `other` with `of`.
    pub fn zipped(
        &self,
        other: &IntervalRates,
        of: impl Fn(Option<f64>, Option<f64>) -> Option<f64>,
    ) -> IntervalRates {
        let own = quantities(self);
        let others = quantities(other);
        let mut values = [None; QUANTITIES];
        for (i, value) in values.iter_mut().enumerate() {
            *value = of(own[i], others[i]);
        }
        with_quantities(*self, &values)
    }

    /// Length of the interval in nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Shares of processor time over an interval, in percent of all processors (`avg-cpu`).
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct CpuShares {
    /// Start of the interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End of the interval, in nanoseconds since the start.
    pub to_ns: i64,
    /// Percent of CPU time in user mode.
    pub user: Option<f64>,
    /// Programs of lowered priority.
    pub nice: Option<f64>,
    /// Percent of CPU time in the kernel, interrupts included.
    pub system: Option<f64>,
    /// Idle while a block I/O was outstanding.
    pub iowait: Option<f64>,
    /// Taken by the hypervisor.
    pub steal: Option<f64>,
    /// Percent of CPU time idle without outstanding I/O.
    pub idle: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_together_or_added_up() {
        let row = |ios: Option<f64>, bytes, mean_us| {
            let mut r = IntervalRates::new(0, 10, DevId(1));
            r.classes[0] = ClassRates {
                ios_per_s: ios,
                bytes_per_s: bytes,
                merges_per_s: None,
                mean_us,
            };
            r
        };
        let rates = row(Some(3.0), Some(8.0), None);
        let means = row(None, None, Some(7.0));
        assert!(rates.complements(&means) && !rates.complements(&rates));
        assert_eq!(rates.or(&means), row(Some(3.0), Some(8.0), Some(7.0)));
        let a = row(Some(30.0), Some(8.0), Some(10.0));
        let b = row(Some(10.0), None, Some(30.0));
        assert_eq!(
            a.plus(&b),
            row(Some(40.0), Some(8.0), Some(15.0)),
            "each I/O weighs the same"
        );
        assert_eq!(a.plus(&row(Some(0.0), None, None)), a);
        assert_eq!(
            a.plus(&row(Some(1.0), None, None)).classes[0].mean_us,
            None,
            "of one of them nothing is known"
        );
    }

    #[test]
    fn counts_are_recovered_from_rates() {
        let r = ClassRates {
            ios_per_s: Some(3.33),
            bytes_per_s: Some(512.0 * 10.0),
            ..ClassRates::default()
        };
        assert_eq!(
            r.ios(3_000_000_000),
            Some(10),
            "9.99 is what two decimals left of 10"
        );
        assert_eq!(r.bytes(100_000_000), Some(512));
        assert_eq!(ClassRates::default().ios(1), None);
        let odd = ClassRates {
            ios_per_s: Some(f64::NAN),
            bytes_per_s: Some(-4.0),
            ..ClassRates::default()
        };
        assert_eq!((odd.ios(1), odd.bytes(1_000_000_000)), (None, None));
    }
}
