//! Losses: I/Os that happened and could not be recorded.

use crate::model::{Class, DevId, LossReason, Lost};
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "lost" of Lost, by to_ns;

    /// start of the interval in which the I/Os completed
    from_ns: i64 as Time = |r| r.from_ns;

    /// end of the interval; the table's time
    to_ns: i64 as Time = |r| r.to_ns;

    /// reason of the loss, below
    reason: Text as Few = |r| r.reason;

    /// device number, if known
    dev: Option<i32> as Few = |r| r.dev.map(|d| d.0);

    /// `read`, `write`, `discard` or `flush`, if known
    class: Option<Text> as Few = |r| r.class;

    /// number of missing I/Os; null if not even that is known
    ios: Option<i64> as Many = |r| r.ios;

    /// bytes that they moved
    bytes: Option<i64> as Many = |r| r.bytes;

    /// merges that went into them
    merges: Option<i64> as Many = |r| r.merges;
}

impl Row for Lost {
    const TABLE: Table = Table::Lost;

    fn time(&self) -> i64 {
        self.to_ns
    }

    fn shift(&mut self, ns: i64) {
        self.from_ns = self.from_ns.saturating_add(ns);
        self.to_ns = self.to_ns.saturating_add(ns);
    }

    fn encode(rows: &[Lost], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> Lost {
        let c = Columns(columns);
        let reason = std::str::from_utf8(c.reason(i)).ok();
        Lost {
            from_ns: c.from_ns(i),
            to_ns: c.to_ns(i),
            // A reason of a later version is still a loss. "import" implies the least about its cause.
            reason: reason
                .and_then(LossReason::from_name)
                .unwrap_or(LossReason::Import),
            dev: c.dev(i).map(DevId),
            class: c.class(i).and_then(Class::from_name),
            ios: c.ios(i),
            bytes: c.bytes(i),
            merges: c.merges(i),
        }
    }
}
