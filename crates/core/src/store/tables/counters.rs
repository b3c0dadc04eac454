//! The kernel's disk counters, one row per device and sample. The u64 counters are stored as i64 with the same bits, so
//! that a wrapped `in_flight` is restored exactly.

use crate::model::{ClassCounters, CounterSample, DevId, DiskCounters, FlushCounters};
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "counters" of CounterSample, by at_ns;

    /// time of the sample
    at_ns: i64 as Time = |r| r.at_ns;

    /// device number
    dev: i32 as Few = |r| r.dev.0;

    /// reads completed
    read_ios: i64 as Many = |r| r.counters.read.ios as i64;

    /// reads merged
    read_merges: i64 as Many = |r| r.counters.read.merges as i64;

    /// sectors read
    read_sectors: i64 as Many = |r| r.counters.read.sectors as i64;

    /// milliseconds, summed over reads
    read_ticks_ms: i64 as Many = |r| r.counters.read.ticks_ms as i64;

    /// writes completed
    write_ios: i64 as Many = |r| r.counters.write.ios as i64;

    /// writes merged
    write_merges: i64 as Many = |r| r.counters.write.merges as i64;

    /// sectors written
    write_sectors: i64 as Many = |r| r.counters.write.sectors as i64;

    /// milliseconds, summed over writes
    write_ticks_ms: i64 as Many = |r| r.counters.write.ticks_ms as i64;

    /// I/Os in flight
    in_flight: i64 as Many = |r| r.counters.in_flight as i64;

    /// milliseconds with I/O in flight, as the kernel estimates
    io_ticks_ms: i64 as Many = |r| r.counters.io_ticks_ms as i64;

    /// milliseconds in flight, summed over I/Os
    time_in_queue_ms: i64 as Many = |r| r.counters.time_in_queue_ms as i64;

    /// discards completed; null before kernel 4.18, like the next three
    discard_ios: Option<i64> as Many = |r| r.counters.discard.map(|c| c.ios as i64);

    /// discards merged
    discard_merges: Option<i64> as Many = |r| r.counters.discard.map(|c| c.merges as i64);

    /// sectors discarded
    discard_sectors: Option<i64> as Many = |r| r.counters.discard.map(|c| c.sectors as i64);

    /// milliseconds, summed over discards
    discard_ticks_ms: Option<i64> as Many = |r| r.counters.discard.map(|c| c.ticks_ms as i64);

    /// flushes completed; null before kernel 5.5, like the next
    flush_ios: Option<i64> as Many = |r| r.counters.flush.map(|f| f.ios as i64);

    /// milliseconds, summed over flushes
    flush_ticks_ms: Option<i64> as Many = |r| r.counters.flush.map(|f| f.ticks_ms as i64);
}

impl Row for CounterSample {
    const TABLE: Table = Table::Counters;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[CounterSample], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> CounterSample {
        let c = Columns(columns);
        // If the kernel did not count discards or flushes, all their columns are null.
        let discard_ios = c.discard_ios(i);
        let flush_ios = c.flush_ios(i);
        let counters = DiskCounters {
            read: ClassCounters {
                ios: c.read_ios(i) as u64,
                merges: c.read_merges(i) as u64,
                sectors: c.read_sectors(i) as u64,
                ticks_ms: c.read_ticks_ms(i) as u64,
            },
            write: ClassCounters {
                ios: c.write_ios(i) as u64,
                merges: c.write_merges(i) as u64,
                sectors: c.write_sectors(i) as u64,
                ticks_ms: c.write_ticks_ms(i) as u64,
            },
            in_flight: c.in_flight(i) as u64,
            io_ticks_ms: c.io_ticks_ms(i) as u64,
            time_in_queue_ms: c.time_in_queue_ms(i) as u64,
            discard: discard_ios.map(|ios| ClassCounters {
                ios: ios as u64,
                merges: count_or_0(c.discard_merges(i)),
                sectors: count_or_0(c.discard_sectors(i)),
                ticks_ms: count_or_0(c.discard_ticks_ms(i)),
            }),
            flush: flush_ios.map(|ios| FlushCounters {
                ios: ios as u64,
                ticks_ms: count_or_0(c.flush_ticks_ms(i)),
            }),
        };
        CounterSample {
            at_ns: c.at_ns(i),
            dev: DevId(c.dev(i)),
            counters,
        }
    }
}

fn count_or_0(v: Option<i64>) -> u64 {
    v.unwrap_or(0) as u64
}
