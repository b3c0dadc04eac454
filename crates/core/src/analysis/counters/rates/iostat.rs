//! The reference program's arithmetic (sysstat's `iostat`), value for value.
//!
//! Its conventions differ from [`super::Delta`]'s: intervals are whole hundredths of a second of `/proc/uptime`,
//! differences are unsigned in the counter's own width (64 bits for counts, 32 for milliseconds), and what is not known
//! is 0. The order of the floating-point operations is part of the contract: it decides the last digit printed.

use crate::model::{ClassCounters, CpuCounters, DiskCounters, FlushCounters};

/// The statistics of one device over one interval, before any choice of unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Values {
    /// Reads.
    pub read: ClassValues,
    /// Writes.
    pub write: ClassValues,
    /// Discards.
    pub discard: ClassValues,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// Mean milliseconds of a flush.
    pub flush_await_ms: f64,
    /// Reads, writes and discards per second (`tps`); flushes are inside writes.
    pub tps: f64,
    /// Merged reads, writes and discards per second (`rqm/s`).
    pub merges_per_s: f64,
    /// Mean milliseconds of reads, writes and discards (`await`).
    pub await_ms: f64,
    /// Mean KiB of reads, writes and discards (`areq-sz`).
    pub request_kib: f64,
    /// Mean number of I/Os in flight (`aqu-sz`).
    pub queue_size: f64,
    /// Busy share in percent (`%util`); of a group, the sum of its members'.
    pub util_percent: f64,
}

/// The part of [`Values`] that every class has.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassValues {
    /// I/Os per second.
    pub per_s: f64,
    /// Sectors of 512 bytes per second.
    pub sectors_per_s: f64,
    /// Sectors in the interval; modulo 2^32 if the counter fell from a value that fits 32 bits (a 32-bit kernel's wrap).
    pub sectors: u64,
    /// Merged I/Os per second.
    pub merges_per_s: f64,
    /// Share of merged I/Os in percent.
    pub merged_percent: f64,
    /// Mean milliseconds from start to completion.
    pub await_ms: f64,
    /// Mean KiB per I/O.
    pub request_kib: f64,
}

/// Processor time in percent of the interval's total.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuPercent {
    /// User mode.
    pub user: f64,
    /// Niced user mode.
    pub nice: f64,
    /// Kernel, interrupts included.
    pub system: f64,
    /// Idle with I/O outstanding.
    pub iowait: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

/// Interval between two uptimes in hundredths of a second: never 0, and unsigned even when the uptime fell.
pub fn interval_cs(before_cs: u64, after_cs: u64) -> u64 {
    after_cs.wrapping_sub(before_cs).max(1)
}

/// The statistics of a device between two snapshots `interval_cs` hundredths of a second apart (a whole number to get
/// the reference's digits).
pub fn values(before: &DiskCounters, after: &DiskCounters, interval_cs: f64) -> Values {
    let itv = if interval_cs > 0.0 { interval_cs } else { 1.0 };
    let b = classes(before);
    let a = classes(after);
    let b_fl = before.flush.unwrap_or_default();
    let a_fl = after.flush.unwrap_or_default();
    // Classes are added up before the subtraction, as in the reference: the others can hide a counter that fell.
    let ios_before = total(&b, |c| c.ios);
    let ios_after = total(&a, |c| c.ios);
    let ticks = ticks32(total(&a, |c| c.ticks_ms)).wrapping_sub(ticks32(total(&b, |c| c.ticks_ms)));
    let sectors = total(&a, |c| c.sectors).wrapping_sub(total(&b, |c| c.sectors));
    Values {
        read: class(&b[0], &a[0], itv),
        write: class(&b[1], &a[1], itv),
        discard: class(&b[2], &a[2], itv),
        flushes_per_s: rate(b_fl.ios, a_fl.ios, itv),
        flush_await_ms: flush_await(b_fl, a_fl),
        tps: rate(ios_before, ios_after, itv),
        merges_per_s: rate(total(&b, |c| c.merges), total(&a, |c| c.merges), itv),
        await_ms: per_io(f64::from(ticks), ios_before, ios_after),
        request_kib: per_io(sectors as f64, ios_before, ios_after) / 2.0,
        queue_size: rate32(before.time_in_queue_ms, after.time_in_queue_ms, itv) / 1000.0,
        util_percent: rate32(before.io_ticks_ms, after.io_ticks_ms, itv) / 10.0,
    }
}

fn class(b: &ClassCounters, a: &ClassCounters, itv: f64) -> ClassValues {
    let ios = a.ios.wrapping_sub(b.ios);
    let merges = a.merges.wrapping_sub(b.merges);
    let both = merges.wrapping_add(ios);
    let ticks = ticks32(a.ticks_ms).wrapping_sub(ticks32(b.ticks_ms));
    ClassValues {
        per_s: rate(b.ios, a.ios, itv),
        sectors_per_s: rate(b.sectors, a.sectors, itv),
        sectors: sectors(b.sectors, a.sectors),
        merges_per_s: rate(b.merges, a.merges, itv),
        merged_percent: if both == 0 {
            0.0
        } else {
            merges as f64 / both as f64 * 100.0
        },
        await_ms: per_io(f64::from(ticks), b.ios, a.ios),
        request_kib: per_io(a.sectors.wrapping_sub(b.sectors) as f64, b.ios, a.ios) / 2.0,
    }
}

fn flush_await(b: FlushCounters, a: FlushCounters) -> f64 {
    let ticks = ticks32(a.ticks_ms).wrapping_sub(ticks32(b.ticks_ms));
    per_io(f64::from(ticks), b.ios, a.ios)
}

/// `sum` per I/O; 0 if the number of I/Os did not grow.
fn per_io(sum: f64, ios_before: u64, ios_after: u64) -> f64 {
    if ios_after > ios_before {
        sum / (ios_after - ios_before) as f64
    } else {
        0.0
    }
}

/// One counter of all classes together.
fn total(classes: &[ClassCounters; 3], of: fn(&ClassCounters) -> u64) -> u64 {
    classes.iter().fold(0, |sum, c| sum.wrapping_add(of(c)))
}

fn classes(c: &DiskCounters) -> [ClassCounters; 3] {
    [c.read, c.write, c.discard.unwrap_or_default()]
}

/// A millisecond counter in the width that the reference keeps it in.
fn ticks32(v: u64) -> u32 {
    v as u32
}

/// Per second; 0 if the counter fell.
fn rate(before: u64, after: u64, itv: f64) -> f64 {
    if after < before {
        0.0
    } else {
        (after - before) as f64 / itv * 100.0
    }
}

/// [`rate`] of a counter kept in 32 bits.
fn rate32(before: u64, after: u64, itv: f64) -> f64 {
    rate(u64::from(ticks32(before)), u64::from(ticks32(after)), itv)
}

fn sectors(before: u64, after: u64) -> u64 {
    match after.checked_sub(before) {
        Some(d) => d,
        None if before <= 0xffff_ffff => after.wrapping_sub(before) & 0xffff_ffff,
        None => 0,
    }
}

/// Whether the device was removed and inserted again between two snapshots: fewer I/Os than before, and fewer sectors in
/// each class that had any.
pub fn restarted(before: &DiskCounters, after: &DiskCounters) -> bool {
    operations(after) < operations(before)
        && classes(before)
            .iter()
            .zip(&classes(after))
            .all(|(b, a)| b.sectors == 0 || a.sectors < b.sectors)
}

/// All operations since boot: reads, writes, discards and flushes. 0: the device was never used.
pub fn operations(c: &DiskCounters) -> u64 {
    flushes(c).wrapping_add(total(&classes(c), |c| c.ios))
}

fn flushes(c: &DiskCounters) -> u64 {
    c.flush.unwrap_or_default().ios
}

/// Whether the device was never used.
pub fn unused(c: &DiskCounters) -> bool {
    classes(c).iter().all(|c| c.ios == 0) && flushes(c) == 0
}

/// Whether no operation count moved between two snapshots.
pub fn idle(before: &DiskCounters, after: &DiskCounters) -> bool {
    classes(before)
        .iter()
        .zip(&classes(after))
        .all(|(b, a)| b.ios == a.ios)
        && flushes(before) == flushes(after)
}

/// Adds a member's counters to its group's.
pub fn add_to_group(group: &mut DiskCounters, member: &DiskCounters) {
    add_class(&mut group.read, &member.read);
    add_class(&mut group.write, &member.write);
    add_class(
        group.discard.get_or_insert_default(),
        &member.discard.unwrap_or_default(),
    );
    let flush = group.flush.get_or_insert_default();
    let member_flush = member.flush.unwrap_or_default();
    flush.ios = flush.ios.wrapping_add(member_flush.ios);
    flush.ticks_ms = flush.ticks_ms.wrapping_add(member_flush.ticks_ms);
    group.in_flight = group.in_flight.wrapping_add(member.in_flight);
    group.io_ticks_ms = group.io_ticks_ms.wrapping_add(member.io_ticks_ms);
    group.time_in_queue_ms = group.time_in_queue_ms.wrapping_add(member.time_in_queue_ms);
}

fn add_class(group: &mut ClassCounters, member: &ClassCounters) {
    group.ios = group.ios.wrapping_add(member.ios);
    group.merges = group.merges.wrapping_add(member.merges);
    group.sectors = group.sectors.wrapping_add(member.sectors);
    group.ticks_ms = group.ticks_ms.wrapping_add(member.ticks_ms);
}

/// Processor time between two readings, in percent. A column that fell is 0; if the total fell, all are about 0.
pub fn cpu_percent(before: &CpuCounters, after: &CpuCounters) -> CpuPercent {
    let total = cpu_total(after).wrapping_sub(cpu_total(before)).max(1) as f64;
    CpuPercent {
        user: rate(before.user, after.user, total),
        nice: rate(before.nice, after.nice, total),
        system: rate(cpu_system(before), cpu_system(after), total),
        iowait: rate(before.iowait, after.iowait, total),
        steal: rate(before.steal, after.steal, total),
        idle: rate(before.idle, after.idle, total),
    }
}

fn cpu_total(c: &CpuCounters) -> u64 {
    let columns = [
        c.user, c.nice, c.system, c.idle, c.iowait, c.irq, c.steal, c.softirq,
    ];
    columns.iter().fold(0, |sum, v| sum.wrapping_add(*v))
}

/// Time of the kernel, with that of interrupts.
fn cpu_system(c: &CpuCounters) -> u64 {
    c.system.wrapping_add(c.softirq).wrapping_add(c.irq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(ios: u64, sectors: u64) -> DiskCounters {
        let read = ClassCounters {
            ios,
            sectors,
            ..ClassCounters::default()
        };
        DiskCounters {
            read,
            ..DiskCounters::default()
        }
    }

    #[test]
    fn an_interval_is_never_zero_and_may_be_absurd() {
        assert_eq!(interval_cs(100, 300), 200);
        assert_eq!(interval_cs(100, 100), 1);
        assert_eq!(interval_cs(1, 0), u64::MAX);
    }

    #[test]
    fn a_counter_that_fell_alone_is_zero() {
        let v = values(&reads(100, 800), &reads(90, 900), 100.0);
        assert_eq!((v.read.per_s, v.tps, v.read.await_ms), (0.0, 0.0, 0.0));
        assert_eq!((v.read.sectors_per_s, v.read.sectors), (100.0, 100));
    }

    #[test]
    fn means_over_all_classes_are_zero_when_their_operations_fell() {
        // Reads fell, sectors did not: no restart, and no number of I/Os to divide by.
        let v = values(&reads(100, 800), &reads(90, 900), 100.0);
        assert_eq!((v.await_ms, v.request_kib), (0.0, 0.0));
        let v = values(&reads(90, 800), &reads(100, 900), 100.0);
        assert_eq!(v.request_kib, 5.0);
    }

    #[test]
    fn totals_of_a_32_bit_kernel_wrap() {
        assert_eq!(sectors(0xffff_fff0, 0x10), 0x20);
        assert_eq!(sectors(0x1_0000_0000, 5), 0);
        assert_eq!(sectors(3, 5), 2);
    }

    #[test]
    fn a_device_plugged_again_has_less_of_everything() {
        assert!(restarted(&reads(10, 80), &reads(1, 8)));
        assert!(!restarted(&reads(10, 80), &reads(1, 90)));
        assert!(!restarted(&reads(10, 80), &reads(10, 8)));
        let wrote = DiskCounters {
            write: ClassCounters {
                ios: 5,
                sectors: 9,
                ..ClassCounters::default()
            },
            ..reads(10, 80)
        };
        assert!(restarted(&wrote, &reads(1, 8)));
    }

    #[test]
    fn milliseconds_are_32_bits_wide() {
        let mut before = reads(10, 80);
        before.read.ticks_ms = u64::from(u32::MAX);
        let mut after = reads(20, 160);
        after.read.ticks_ms = 1 << 32 | 99;
        assert_eq!(values(&before, &after, 100.0).read.await_ms, 10.0);
        before.io_ticks_ms = u64::from(u32::MAX);
        assert_eq!(
            values(&before, &after, 100.0).util_percent,
            0.0,
            "a rate that fell is 0, even if it wrapped"
        );
    }

    #[test]
    fn processor_shares() {
        let before = CpuCounters {
            user: 100,
            idle: 900,
            ..CpuCounters::default()
        };
        let after = CpuCounters {
            user: 150,
            system: 10,
            irq: 5,
            softirq: 10,
            idle: 925,
            ..CpuCounters::default()
        };
        let c = cpu_percent(&before, &after);
        assert_eq!((c.user, c.system, c.idle, c.nice), (50.0, 25.0, 25.0, 0.0));
        assert!(
            cpu_percent(&after, &before).user < 0.005,
            "time that runs backwards"
        );
    }
}
