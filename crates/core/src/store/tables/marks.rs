//! Remarks on the time line.

use crate::model::Mark;
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "marks" of Mark, by at_ns;

    /// time of the mark; the table's time
    at_ns: i64 as Time = |r| r.at_ns;

    /// e.g. `start`, `end`, `clock-step`, `suspend`, `device-added`, `phase`, `open-requests`,
    /// `throttled-above`
    kind: Text as Few = |r| r.kind.as_str();

    /// text for people; for `open-requests` a number
    text: Text as Few = |r| r.text.as_str();
}

impl Row for Mark {
    const TABLE: Table = Table::Marks;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[Mark], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> Mark {
        let c = Columns(columns);
        Mark {
            at_ns: c.at_ns(i),
            kind: String::from_utf8_lossy(c.kind(i)).into_owned(),
            text: String::from_utf8_lossy(c.text(i)).into_owned(),
        }
    }
}
