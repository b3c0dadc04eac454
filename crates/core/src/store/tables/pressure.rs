//! CPU and I/O pressure of the host.

use crate::model::PressureSample;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "pressure" of PressureSample, by to_ns;

    /// beginning of the interval; negative if that began before the recording
    from_ns: i64 as Time = |r| r.from_ns;

    /// end of the interval; the table's time
    to_ns: i64 as Time from 0 = |r| r.to_ns;

    /// CPUs that were online
    cpus: Option<i32> as Few = |r| r.cpus;

    /// time in which at least one task waited for a CPU (`some` of `/proc/pressure/cpu`)
    cpu_some_ns: Option<i64> as Many from 0 = |r| r.cpu_some_ns;

    /// time in which at least one task waited for I/O (`some` of `/proc/pressure/io`)
    io_some_ns: Option<i64> as Many from 0 = |r| r.io_some_ns;

    /// time in which all tasks that were not idle waited for I/O (`full`)
    io_full_ns: Option<i64> as Many from 0 = |r| r.io_full_ns;

    /// time in which the hypervisor ran others while a CPU had work, summed over CPUs (`steal` of `/proc/stat`)
    steal_ns: Option<i64> as Few from 0 = |r| r.steal_ns;

    /// largest number of tasks found running or waiting for a CPU, without the recorder's own
    runnable: Option<i32> as Few = |r| r.runnable;

    /// deadline of the recorder's most overdue timer
    timer_due_ns: Option<i64> as Many = |r| r.timer_due_ns;

    /// how long after that deadline the recorder ran; an interval with more than 5 ms has no other late timer
    timer_late_ns: Option<i64> as Many from 0 = |r| r.timer_late_ns;
}

impl Row for PressureSample {
    const TABLE: Table = Table::Pressure;

    fn time(&self) -> i64 {
        self.to_ns
    }

    fn shift(&mut self, ns: i64) {
        self.from_ns = self.from_ns.saturating_add(ns);
        self.to_ns = self.to_ns.saturating_add(ns);
        self.timer_due_ns = self.timer_due_ns.map(|due_ns| due_ns.saturating_add(ns));
    }

    fn encode(rows: &[PressureSample], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> PressureSample {
        let c = Columns(columns);
        PressureSample {
            from_ns: c.from_ns(i),
            to_ns: c.to_ns(i),
            cpus: c.cpus(i),
            cpu_some_ns: c.cpu_some_ns(i),
            io_some_ns: c.io_some_ns(i),
            io_full_ns: c.io_full_ns(i),
            steal_ns: c.steal_ns(i),
            runnable: c.runnable(i),
            timer_due_ns: c.timer_due_ns(i),
            timer_late_ns: c.timer_late_ns(i),
        }
    }
}
