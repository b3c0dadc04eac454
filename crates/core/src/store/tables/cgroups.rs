//! Limits and pressure of the control groups that do I/O.

use crate::model::{CgroupSample, DevId};
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "cgroups" of CgroupSample, by at_ns;

    /// when it was read; the table's time
    at_ns: i64 as Time from 0 = |r| r.at_ns;

    /// id as in `io`
    cgroup: Option<i64> as Few = |r| r.cgroup;

    /// only under v1: a process in the group
    tgid: Option<i32> as Few = |r| r.tgid;

    /// path within the hierarchy
    path: Text as Few = |r| r.path.as_str();

    /// device number of the settings; null in the row of the group
    dev: Option<i32> as Few = |r| r.dev.map(|d| d.0);

    /// `rbps` of `io.max`; v1: `blkio.throttle.read_bps_device`
    read_bytes_per_s: Option<i64> as Few from 0 = |r| r.read_bytes_per_s;

    /// `wbps`
    write_bytes_per_s: Option<i64> as Few from 0 = |r| r.write_bytes_per_s;

    /// `riops`
    read_ios_per_s: Option<i64> as Few from 0 = |r| r.read_ios_per_s;

    /// `wiops`
    write_ios_per_s: Option<i64> as Few from 0 = |r| r.write_ios_per_s;

    /// target of `io.latency`
    latency_target_ns: Option<i64> as Few from 0 = |r| r.latency_target_ns;

    /// `io.weight`: the device's, or in the group's row the default; if only BFQ has weights, BFQ's; v1: `blkio.weight`
    /// or `blkio.bfq.weight`
    weight: Option<i64> as Few from 0 = |r| r.weight;

    /// `memory.max` in bytes; this and all following columns are set in the group's row only
    memory_max: Option<i64> as Few from 0 = |r| r.memory_max;

    /// `memory.high` in bytes
    memory_high: Option<i64> as Few from 0 = |r| r.memory_high;

    /// time since boot in which at least one task of the group waited for I/O (`some` of `io.pressure`)
    io_some_ns: Option<i64> as Many from 0 = |r| r.io_some_ns;

    /// time since boot in which all tasks that were not idle waited for I/O (`full`)
    io_full_ns: Option<i64> as Many from 0 = |r| r.io_full_ns;

    /// how often the group's memory was about to exceed `memory_max` or `memory_high`, since the group was created
    /// (`max` and `high` of `memory.events`; v1: `memory.failcnt`); null without such a limit
    memory_limit_hits: Option<i64> as Many from 0 = |r| r.memory_limit_hits;

    /// bytes that were evicted and read again (page cache and swap), since the group was created
    /// (`workingset_refault_file` and `workingset_refault_anon` of `memory.stat`); null without such a limit
    refaulted_bytes: Option<i64> as Many from 0 = |r| r.refaulted_bytes;
}

impl Row for CgroupSample {
    const TABLE: Table = Table::Cgroups;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[CgroupSample], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> CgroupSample {
        let c = Columns(columns);
        CgroupSample {
            at_ns: c.at_ns(i),
            cgroup: c.cgroup(i),
            tgid: c.tgid(i),
            path: String::from_utf8_lossy(c.path(i)).into_owned(),
            dev: c.dev(i).map(DevId),
            read_bytes_per_s: c.read_bytes_per_s(i),
            write_bytes_per_s: c.write_bytes_per_s(i),
            read_ios_per_s: c.read_ios_per_s(i),
            write_ios_per_s: c.write_ios_per_s(i),
            latency_target_ns: c.latency_target_ns(i),
            weight: c.weight(i),
            memory_max: c.memory_max(i),
            memory_high: c.memory_high(i),
            io_some_ns: c.io_some_ns(i),
            io_full_ns: c.io_full_ns(i),
            memory_limit_hits: c.memory_limit_hits(i),
            refaulted_bytes: c.refaulted_bytes(i),
        }
    }
}
