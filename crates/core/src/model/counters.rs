//! The kernel's disk counters, every field by its name (`Documentation/admin-guide/iostats.rst`).

use super::DevId;

/// The four counters of one class (reads, writes or discards) of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct ClassCounters {
    /// Completed I/Os.
    pub ios: u64,
    /// I/Os merged into others before they reached the device.
    pub merges: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Milliseconds from start to completion, summed over I/Os. Printed by the kernel as u32: wraps after 49.7 days.
    pub ticks_ms: u64,
}

/// The flush counters (kernel 5.5 and newer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FlushCounters {
    /// Flushes the device completed.
    pub ios: u64,
    /// Milliseconds they took, summed.
    pub ticks_ms: u64,
}

/// A line of `/proc/diskstats` or `/sys/block/DEV/stat`: 11, 15 or 17 fields depending on the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct DiskCounters {
    /// Reads.
    pub read: ClassCounters,
    /// Writes.
    pub write: ClassCounters,
    /// I/Os in flight now; a gauge. The kernel has printed wrapped negative values here.
    pub in_flight: u64,
    /// The kernel's estimate of the milliseconds with at least one I/O in flight; the source of `%util`.
    pub io_ticks_ms: u64,
    /// Milliseconds in flight, summed over I/Os; the source of `aqu-sz`.
    pub time_in_queue_ms: u64,
    /// Discards: kernel 4.18 and newer.
    pub discard: Option<ClassCounters>,
    /// Flushes: kernel 5.5 and newer.
    pub flush: Option<FlushCounters>,
}

/// The counters of one device at one instant.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CounterSample {
    /// Read just after this instant, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// Device number of the whole disk.
    pub dev: DevId,
    /// The counters that the kernel printed.
    pub counters: DiskCounters,
}

/// The `cpu ` line of `/proc/stat`: ticks since boot, summed over processors. Fields that an old kernel lacks are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct CpuCounters {
    /// Time in user mode, guests included.
    pub user: u64,
    /// User time of niced processes.
    pub nice: u64,
    /// Time in the kernel, interrupts excluded.
    pub system: u64,
    /// Idle time without outstanding I/O.
    pub idle: u64,
    /// Idle while an I/O was outstanding.
    pub iowait: u64,
    /// Time in interrupt handlers.
    pub irq: u64,
    /// Time in soft interrupt handlers.
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}
