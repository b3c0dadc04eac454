//! Kernel counters to rates (A1, A26): the only place where one counter is subtracted from another.
//!
//! [`Delta::between`] compares two snapshots of one device; what they do not determine is `None`. [`Delta::merge`]
//! joins neighbouring intervals, so that parts and whole agree exactly. [`Delta::rates`] divides. Means carry their
//! count and are merged as sums and counts, never as means.
//!
//! [`iostat`] holds the same arithmetic with the reference program's conventions (centiseconds, unsigned wrap-around,
//! zeros for what is not known); only the drop-in surface uses it.

pub mod iostat;

use crate::model::{ClassCounters, CounterSample, FlushCounters};

/// A step back of a millisecond counter by less than this is a kernel race, not a wrap: about 17 minutes.
const BACKWARD_MS: u64 = 1 << 20;

/// Whether a difference is known, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Both snapshots are of one uninterrupted life of the device.
    Known,
    /// The device was unplugged and replugged in between, so nothing about the interval is known.
    Restarted,
    /// The device was not there at the start of the interval.
    Appeared,
    /// The kernel does not account this device's I/O (`queue/iostats` is 0). It is not idle.
    NotAccounted,
}

/// Differences of one class (reads, writes, discards, flushes) between two snapshots. `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassDelta {
    /// I/Os completed.
    pub ios: Option<u64>,
    /// I/Os merged into others.
    pub merges: Option<u64>,
    /// Sectors of 512 bytes.
    pub sectors: Option<u64>,
    /// Milliseconds from start to completion, summed over I/Os.
    pub ticks_ms: Option<u64>,
}

/// Differences of a device between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// Whether the difference is valid.
    pub state: State,
    /// Length of the interval in nanoseconds, measured, never nominal.
    pub span_ns: i64,
    /// Reads.
    pub read: ClassDelta,
    /// Writes.
    pub write: ClassDelta,
    /// Discards; all `None` before kernel 4.18.
    pub discard: ClassDelta,
    /// Flushes (`ios` and `ticks_ms` only); all `None` before kernel 5.5.
    pub flush: ClassDelta,
    /// The kernel's estimate of busy milliseconds.
    pub io_ticks_ms: Option<u64>,
    /// Milliseconds in flight, summed over I/Os; since 5.0 counted when an I/O completes.
    pub time_in_queue_ms: Option<u64>,
}

/// Rates of one class. `None`: not known, or a mean over no I/O.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassRates {
    /// Number of I/Os that the means are over.
    pub n: Option<u64>,
    /// I/Os per second (`r/s`).
    pub per_s: Option<f64>,
    /// KiB per second (`rkB/s`).
    pub kib_per_s: Option<f64>,
    /// Merged I/Os per second (`rrqm/s`).
    pub merges_per_s: Option<f64>,
    /// Share of I/Os that were merged, in percent (`%rrqm`).
    pub merged_percent: Option<f64>,
    /// Mean milliseconds from start to completion (`r_await`).
    pub await_ms: Option<f64>,
    /// Mean KiB per I/O (`rareq-sz`).
    pub request_kib: Option<f64>,
}

/// All extended statistics of one device over one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceRates {
    /// Whether anything is known.
    pub state: State,
    /// Length of the interval in seconds.
    pub span_s: f64,
    /// Reads.
    pub read: ClassRates,
    /// Writes.
    pub write: ClassRates,
    /// Discards.
    pub discard: ClassRates,
    /// Flushes: `per_s`, `await_ms` and `n` only.
    pub flush: ClassRates,
    /// Mean milliseconds of reads, writes and discards together (`await`).
    pub await_ms: Option<f64>,
    /// Mean KiB per I/O of reads, writes and discards together (`areq-sz`).
    pub request_kib: Option<f64>,
    /// Mean number of I/Os in flight (`aqu-sz`), of those that completed in the interval.
    pub queue_size: Option<f64>,
    /// The kernel's busy estimate in percent (`%util`); may exceed 100, see A2.
    pub util_percent: Option<f64>,
    /// Kernel busy time per I/O in milliseconds (`svctm`); obsolete, meaningless for devices that serve I/Os in parallel.
    pub service_ms: Option<f64>,
}

impl Delta {
    /// The difference of two snapshots of one device.
    ///
    /// - Counts and sectors are 64 bits and only grow: one that fell is `None`.
    /// - Milliseconds are printed modulo 2^32 and wrap after 49.7 days: their difference is taken modulo 2^32, unless it
    ///   would mean a small step back (`None`).
    /// - If I/Os and all sectors fell together, the device was replugged ([`State::Restarted`]).
    /// - `iostats` is the device's `queue/iostats`, if known.
    pub fn between(before: &CounterSample, after: &CounterSample, iostats: Option<bool>) -> Delta {
        let b = &before.counters;
        let a = &after.counters;
        let span_ns = after.at_ns - before.at_ns;
        if iostats == Some(false) {
            return Delta::unknown(State::NotAccounted, span_ns);
        }
        if iostat::restarted(b, a) {
            return Delta::unknown(State::Restarted, span_ns);
        }
        let discard = b
            .discard
            .zip(a.discard)
            .map(|(b, a)| class(&b, &a))
            .unwrap_or_default();
        let flush = b
            .flush
            .zip(a.flush)
            .map(|(b, a)| flushes(b, a))
            .unwrap_or_default();
        Delta {
            state: State::Known,
            span_ns,
            read: class(&b.read, &a.read),
            write: class(&b.write, &a.write),
            discard,
            flush,
            io_ticks_ms: milliseconds(b.io_ticks_ms, a.io_ticks_ms),
            time_in_queue_ms: milliseconds(b.time_in_queue_ms, a.time_in_queue_ms),
        }
    }

    /// An interval of known length with unknown counters.
    pub fn unknown(state: State, span_ns: i64) -> Delta {
        let none = ClassDelta::default();
        Delta {
            state,
            span_ns,
            read: none,
            write: none,
            discard: none,
            flush: none,
            io_ticks_ms: None,
            time_in_queue_ms: None,
        }
    }

    /// Joins this interval and the one right after it. What is unknown in either is unknown in the whole.
    pub fn merge(&self, next: &Delta) -> Delta {
        let state = if self.state == State::Known {
            next.state
        } else {
            self.state
        };
        Delta {
            state,
            span_ns: self.span_ns + next.span_ns,
            read: self.read.merge(&next.read),
            write: self.write.merge(&next.write),
            discard: self.discard.merge(&next.discard),
            flush: self.flush.merge(&next.flush),
            io_ticks_ms: sum(self.io_ticks_ms, next.io_ticks_ms),
            time_in_queue_ms: sum(self.time_in_queue_ms, next.time_in_queue_ms),
        }
    }

    /// Rates and means (formulas: A1). An interval of no length has no rates; means need only its I/Os.
    pub fn rates(&self) -> DeviceRates {
        let span_s = self.span_ns as f64 / 1e9;
        let ios = self.total(|c| c.ios);
        DeviceRates {
            state: self.state,
            span_s,
            read: self.read.rates(self.span_ns),
            write: self.write.rates(self.span_ns),
            discard: self.discard.rates(self.span_ns),
            flush: self.flush.rates(self.span_ns),
            await_ms: mean(self.total(|c| c.ticks_ms), ios),
            request_kib: mean(self.total(|c| c.sectors), ios).map(|s| s / 2.0),
            queue_size: per_s(self.time_in_queue_ms, self.span_ns).map(|ms| ms / 1000.0),
            util_percent: per_s(self.io_ticks_ms, self.span_ns).map(|ms| ms / 10.0),
            service_ms: mean(self.io_ticks_ms, ios),
        }
    }

    /// The sum over reads, writes and discards; `None` if one of them is not known.
    fn total(&self, of: fn(&ClassDelta) -> Option<u64>) -> Option<u64> {
        let both = sum(of(&self.read), of(&self.write));
        // Before 4.18 there are no discards to count: if they are not printed, there were none.
        if self.discard == ClassDelta::default() {
            both
        } else {
            sum(both, of(&self.discard))
        }
    }
}

impl ClassDelta {
    fn merge(&self, next: &ClassDelta) -> ClassDelta {
        ClassDelta {
            ios: sum(self.ios, next.ios),
            merges: sum(self.merges, next.merges),
            sectors: sum(self.sectors, next.sectors),
            ticks_ms: sum(self.ticks_ms, next.ticks_ms),
        }
    }

    fn rates(&self, span_ns: i64) -> ClassRates {
        ClassRates {
            n: self.ios,
            per_s: per_s(self.ios, span_ns),
            kib_per_s: per_s(self.sectors, span_ns).map(|s| s / 2.0),
            merges_per_s: per_s(self.merges, span_ns),
            merged_percent: mean(self.merges, sum(self.merges, self.ios)).map(|m| m * 100.0),
            await_ms: mean(self.ticks_ms, self.ios),
            request_kib: mean(self.sectors, self.ios).map(|s| s / 2.0),
        }
    }
}

fn class(before: &ClassCounters, after: &ClassCounters) -> ClassDelta {
    ClassDelta {
        ios: after.ios.checked_sub(before.ios),
        merges: after.merges.checked_sub(before.merges),
        sectors: after.sectors.checked_sub(before.sectors),
        ticks_ms: milliseconds(before.ticks_ms, after.ticks_ms),
    }
}

fn flushes(before: FlushCounters, after: FlushCounters) -> ClassDelta {
    ClassDelta {
        ios: after.ios.checked_sub(before.ios),
        ticks_ms: milliseconds(before.ticks_ms, after.ticks_ms),
        ..ClassDelta::default()
    }
}

/// Difference of two millisecond counters that the kernel prints modulo 2^32.
fn milliseconds(before: u64, after: u64) -> Option<u64> {
    match (u32::try_from(before), u32::try_from(after)) {
        (Ok(b), Ok(a)) => {
            Some(u64::from(a.wrapping_sub(b))).filter(|d| *d <= u64::from(u32::MAX) - BACKWARD_MS)
        }
        _ => after.checked_sub(before),
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.saturating_add(b))
}

/// Rate per second; `None` if the interval has no length.
fn per_s(n: Option<u64>, span_ns: i64) -> Option<f64> {
    let span_s = span_ns as f64 / 1e9;
    n.filter(|_| span_ns > 0).map(|n| n as f64 / span_s)
}

/// Mean per I/O; `None` without I/Os.
fn mean(total: Option<u64>, n: Option<u64>) -> Option<f64> {
    total
        .zip(n)
        .filter(|(_, n)| *n > 0)
        .map(|(t, n)| t as f64 / n as f64)
}

#[cfg(test)]
mod tests;
