//! What a table of averages says of an interval: the most that logs without single I/Os can tell.

use super::DevId;

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
    /// Whether the table said nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == ClassRates::default()
    }

    /// I/Os completed in `interval_ns`, rounded to whole ones: undoes the division that the table's author made.
    pub fn ios(&self, interval_ns: i64) -> Option<u64> {
        whole(self.ios_per_s? * interval_ns as f64 / 1e9)
    }

    /// Bytes moved in `interval_ns`, rounded to whole ones.
    pub fn bytes(&self, interval_ns: i64) -> Option<u64> {
        whole(self.bytes_per_s? * interval_ns as f64 / 1e9)
    }
}

fn whole(x: f64) -> Option<u64> {
    // 2^53: beyond it a double holds no single I/O any more, so the table cannot have meant it.
    (x.is_finite() && (0.0..9.0e15).contains(&x)).then(|| x.round() as u64)
}

/// A row of an imported table: one device (or what the table summed up) over one interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IntervalRates {
    /// Start of the interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end, which is the instant that tables print.
    pub to_ns: i64,
    /// The device; imports that know no device numbers make some up, see the recording's device list.
    pub dev: DevId,
    /// Reads, writes, discards and flushes apart; `class as usize` indexes it.
    pub classes: [ClassRates; 4],
    /// What the table gives only for all classes together (`tps`, `await`).
    pub all: ClassRates,
    /// Mean number of I/Os in flight (`aqu-sz`, `avgqu-sz`, `actv`).
    pub in_flight: Option<f64>,
    /// The table's idea of utilisation, in percent (`%util`, `%b`).
    pub util_percent: Option<f64>,
    /// The obsolete `svctm`, in microseconds.
    pub service_us: Option<f64>,
}

impl IntervalRates {
    /// A row that says nothing yet.
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

    /// Length of the interval in nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Where the processors' time went over an interval, in percent of all of them together (`avg-cpu`).
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct CpuShares {
    /// Start of the interval, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// Programs.
    pub user: Option<f64>,
    /// Programs of lowered priority.
    pub nice: Option<f64>,
    /// Kernel, interrupts included.
    pub system: Option<f64>,
    /// Idle while a block I/O was outstanding.
    pub iowait: Option<f64>,
    /// Taken by the hypervisor.
    pub steal: Option<f64>,
    /// Idle otherwise.
    pub idle: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_recovered_from_rates() {
        let r = ClassRates { ios_per_s: Some(3.33), bytes_per_s: Some(512.0 * 10.0), ..ClassRates::default() };
        assert_eq!(r.ios(3_000_000_000), Some(10), "9.99 is what two decimals left of 10");
        assert_eq!(r.bytes(100_000_000), Some(512));
        assert_eq!(ClassRates::default().ios(1), None);
        let odd = ClassRates { ios_per_s: Some(f64::NAN), bytes_per_s: Some(-4.0), ..ClassRates::default() };
        assert_eq!((odd.ios(1), odd.bytes(1_000_000_000)), (None, None));
    }
}
