//! I/O sums and histograms per device over a second, minute or hour. They outlive the single I/Os.

use super::{CallHistogram, Class, DevId, Io};

/// Sums over the I/Os of one device and class (or of all its classes together) that completed in one slot. A key may
/// have several rows; readers add them up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// Length of the slot in seconds.
    pub step_s: i32,
    /// Its beginning, in nanoseconds since the recording's start: a multiple of the step.
    pub at_ns: i64,
    /// The device; `None` for losses whose device is not known.
    pub dev: Option<DevId>,
    /// The class; `None` stands for all together.
    pub class: Option<Class>,
    /// I/Os completed.
    pub ios: i64,
    /// Bytes that they moved.
    pub bytes: i64,
    /// Number of bios or requests merged into them. Like the next two, `None` unless it is known for every I/O.
    pub merges: Option<i64>,
    /// How many of them failed.
    pub errors: Option<i64>,
    /// Time from start to issue, summed.
    pub queue_sum_ns: Option<i64>,
    /// Time from issue to completion, summed.
    pub device_sum_ns: i64,
    /// How busy the device was; only in rows of all classes together.
    pub flight: Option<Flight>,
    /// Nanoseconds with an I/O of each class in flight, indexed by `Class as usize`; only in rows of all classes
    /// together. `None` if not known.
    pub busy_of_class_ns: Option<[i64; Class::ALL.len()]>,
    /// I/Os known to be missing; `None` if not even how many.
    pub lost_ios: Option<i64>,
    /// Time from start to completion.
    pub total: CallHistogram,
    /// Time from issue to completion.
    pub device: CallHistogram,
}

/// How busy a device was in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flight {
    /// Time with any I/O in flight.
    pub busy_ns: i64,
    /// Time in flight, summed over I/Os.
    pub in_flight_ns: i64,
    /// Most I/Os in flight at one moment.
    pub in_flight_max: i64,
}

impl Flight {
    /// Adds `ns` nanoseconds with `level` I/Os in flight.
    #[inline]
    pub fn pass(&mut self, ns: i64, level: i64) {
        if level > 0 {
            self.busy_ns += ns;
            self.in_flight_ns = self.in_flight_ns.saturating_add(ns.saturating_mul(level));
            self.in_flight_max = self.in_flight_max.max(level);
        }
    }

    /// Adds the values of another slot of the device.
    pub fn add(&mut self, other: &Flight) {
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.in_flight_ns = self.in_flight_ns.saturating_add(other.in_flight_ns);
        self.in_flight_max = self.in_flight_max.max(other.in_flight_max);
    }
}

impl Rollup {
    /// Nothing happened yet.
    pub fn empty(step_s: i32, at_ns: i64, dev: Option<DevId>, class: Option<Class>) -> Rollup {
        Rollup {
            step_s,
            at_ns,
            dev,
            class,
            ios: 0,
            bytes: 0,
            merges: Some(0),
            errors: Some(0),
            queue_sum_ns: Some(0),
            device_sum_ns: 0,
            flight: None,
            busy_of_class_ns: None,
            lost_ios: Some(0),
            total: CallHistogram::default(),
            device: CallHistogram::default(),
        }
    }

    /// Counts an I/O that completed in the slot.
    pub fn count(&mut self, io: &Io) {
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(io.bytes);
        self.merges = known_sum(self.merges, io.merges.map(i64::from));
        self.errors = known_sum(self.errors, io.error.map(|e| i64::from(e != 0)));
        self.queue_sum_ns = known_sum(self.queue_sum_ns, io.queue_ns);
        self.device_sum_ns = self.device_sum_ns.saturating_add(io.device_ns);
        self.total.add(io.total_ns(), 1);
        self.device.add(io.device_ns, 1);
    }

    /// Adds another row: of the same slot, or of another slot within the same coarser step.
    pub fn add(&mut self, other: &Rollup) {
        self.ios += other.ios;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.merges = known_sum(self.merges, other.merges);
        self.errors = known_sum(self.errors, other.errors);
        self.queue_sum_ns = known_sum(self.queue_sum_ns, other.queue_sum_ns);
        self.device_sum_ns = self.device_sum_ns.saturating_add(other.device_sum_ns);
        self.lost_ios = known_sum(self.lost_ios, other.lost_ios);
        self.total.merge(&other.total);
        self.device.merge(&other.device);
        if let Some(of) = &other.flight {
            self.busy_of_class_ns = match (&self.flight, self.busy_of_class_ns) {
                (None, _) => other.busy_of_class_ns,
                (Some(_), busy_ns) => add_each(busy_ns, other.busy_of_class_ns),
            };
            self.flight.get_or_insert_default().add(of);
        }
    }

    /// Whether it holds no values.
    pub fn is_empty(&self) -> bool {
        self.ios == 0
            && self.lost_ios == Some(0)
            && self.flight.is_none_or(|f| f == Flight::default())
    }
}

/// The sum of both, `None` if either is not known.
pub fn known_sum(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    Some(a?.saturating_add(b?))
}

/// Element-wise sums, `None` if either is not known.
pub fn add_each<const N: usize>(a: Option<[i64; N]>, b: Option<[i64; N]>) -> Option<[i64; N]> {
    let mut sums = a?;
    for (sum, part) in sums.iter_mut().zip(b?) {
        *sum = sum.saturating_add(part);
    }
    Some(sums)
}
