//! Waits by victim and cause, as tables: `waits/10s-NNNNNN.parquet`, `waits/600s-NNNNNN.parquet`.

use std::ops::Range;
use std::path::Path;

use parquet::errors::ParquetError;

use crate::model::{Class, Comm, DevId, Origin, TimeOwner, WaitParty, WaitSums, WorstWait};
use crate::store::StoreError;
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::schema::TableDef;
use crate::store::sums::{self, SumRow};
use crate::store::whole_file::missing;

table! {
    whole "waits" of WaitSums, by at_ns;

    /// length of the slot: 10 or 600 seconds
    step_s: i32 = |r| r.step_s;

    /// start of the slot; the table's time
    at_ns: i64 = |r| r.at_ns;

    /// device number
    dev: i32 = |r| r.dev.0;

    /// 1 if the victim stands for all that have no row of their own; else 0
    others: i32 = |r| i32::from(r.victim.is_others);

    /// name of the victim's process; null if it is not known, and if `others` is 1
    name: Option<Text> = |r| r.victim.comm;

    /// its process id; null also if there are several
    tgid: Option<i32> = |r| r.victim.tgid;

    /// its cgroup v2 id
    cgroup: Option<i64> = |r| r.victim.cgroup;

    /// class of the victim's I/Os: `read`, `write`, `discard` or `flush`
    class: Text = |r| r.victim.class;

    /// origin of the victim's I/Os, as in `io`
    origin: i32 = |r| r.victim.origin.code();

    /// owner of the time: `undisturbed`, `own`, `others`, `held`, `device` or `unknown`
    cause: Text = |r| r.cause.name();

    /// for cause `others`, like the next five: 1 if the culprit stands for all that have no row of their own; else 0
    culprit_others: Option<i32> = |r| r.culprit.map(|c| i32::from(c.is_others));

    /// name of the process waited for
    culprit_name: Option<Text> = |r| r.culprit?.comm;

    /// its process id
    culprit_tgid: Option<i32> = |r| r.culprit?.tgid;

    /// its cgroup v2 id
    culprit_cgroup: Option<i64> = |r| r.culprit?.cgroup;

    /// class of the culprit's I/Os
    culprit_class: Option<Text> = |r| Some(r.culprit?.class);

    /// origin of the culprit's I/Os
    culprit_origin: Option<i32> = |r| Some(r.culprit?.origin.code());

    /// I/O time with this owner
    ns: i64 = |r| r.ns;

    /// for cause `undisturbed` the number of all I/Os, for `others` of those that waited; else null
    ios: Option<i64> = |r| r.ios;

    /// for cause `undisturbed`, like the next three: I/Os that took more than twice their undisturbed latency
    delayed_ios: Option<i64> = |r| r.delayed_ios;

    /// completion of the I/O that waited longest
    worst_done_ns: Option<i64> = |r| Some(r.worst?.done_ns);

    /// its latency
    worst_ns: Option<i64> = |r| Some(r.worst?.latency_ns);

    /// its undisturbed latency
    worst_undisturbed_ns: Option<i64> = |r| Some(r.worst?.undisturbed_ns);
}

/// Passes the waits of `step_s` whose slots start in `range` (nanoseconds since the recording's start) to `take`, file
/// by file; does nothing if the recording has none. Rows after damage in a file are skipped; returns a warning for each
/// damaged file.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read_waits(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    take: impl FnMut(WaitSums),
) -> Result<Vec<String>, StoreError> {
    sums::read_rows(recording, step_s, &range, take)
}

impl SumRow for WaitSums {
    const TABLE: &'static TableDef = &TABLE;

    fn slot(&self) -> (i32, i64) {
        (self.step_s, self.at_ns)
    }

    fn collect(rows: &[WaitSums]) -> Vec<Column> {
        collect(rows)
    }

    fn read(columns: &[Column], i: usize) -> Result<WaitSums, ParquetError> {
        row(Columns(columns), i)
    }
}

fn row(c: Columns<'_>, i: usize) -> Result<WaitSums, ParquetError> {
    let victim = WaitParty {
        is_others: c.others(i) != 0,
        tgid: c.tgid(i),
        comm: c.name(i).map(Comm::new),
        cgroup: c.cgroup(i),
        class: class_named(c.class(i))?,
        origin: Origin::from_code(c.origin(i)),
    };
    // Every party has a class, so a row without a class has no culprit.
    let culprit = match c.culprit_class(i) {
        None => None,
        Some(name) => Some(WaitParty {
            is_others: c.culprit_others(i) == Some(1),
            tgid: c.culprit_tgid(i),
            comm: c.culprit_name(i).map(Comm::new),
            cgroup: c.culprit_cgroup(i),
            class: class_named(name)?,
            origin: c
                .culprit_origin(i)
                .map_or(Origin::Unknown, Origin::from_code),
        }),
    };
    Ok(WaitSums {
        step_s: c.step_s(i),
        at_ns: c.at_ns(i),
        dev: DevId(c.dev(i)),
        victim,
        cause: TimeOwner::from_name(c.cause(i)).ok_or_else(|| missing("cause"))?,
        culprit,
        ns: c.ns(i),
        ios: c.ios(i),
        delayed_ios: c.delayed_ios(i),
        worst: worst(c, i),
    })
}

fn class_named(name: &[u8]) -> Result<Class, ParquetError> {
    Class::from_name(name).ok_or_else(|| missing("class"))
}

fn worst(c: Columns<'_>, i: usize) -> Option<WorstWait> {
    Some(WorstWait {
        done_ns: c.worst_done_ns(i)?,
        latency_ns: c.worst_ns(i)?,
        undisturbed_ns: c.worst_undisturbed_ns(i)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RecorderCost, RecordingMeta, Source};
    use crate::store::{RecordingWriter, SumTable, WriterOptions};

    fn party(comm: &str, class: Class) -> WaitParty {
        WaitParty {
            is_others: false,
            tgid: Some(7),
            comm: Some(Comm::new(comm.as_bytes())),
            cgroup: Some(5),
            class,
            origin: Origin::Writeback,
        }
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("new");
        let undisturbed = WaitSums {
            step_s: 10,
            at_ns: 3,
            dev: DevId(8),
            victim: party("shop\u{202e}", Class::Read),
            cause: TimeOwner::Undisturbed,
            culprit: None,
            ns: 12,
            ios: Some(4),
            delayed_ios: Some(1),
            worst: Some(WorstWait {
                done_ns: 9,
                latency_ns: 8,
                undisturbed_ns: 2,
            }),
        };
        let behind = WaitSums {
            at_ns: 10_000_000_003,
            victim: WaitParty::others(Class::Flush),
            cause: TimeOwner::Others,
            culprit: Some(party("backup", Class::Write)),
            delayed_ios: None,
            worst: None,
            ..undisturbed
        };
        let held = WaitSums {
            cause: TimeOwner::Held,
            culprit: None,
            ios: None,
            ..behind
        };
        let rows = [undisturbed, behind, held];
        assert!(writer.write_waits(10, &rows).expect("written"));
        writer
            .finish(20_000_000_000, RecorderCost::default())
            .expect("finished");
        let read = |range| {
            let mut read = Vec::new();
            let damage = read_waits(&path, 10, range, |row| read.push(row)).expect("readable");
            assert!(damage.is_empty(), "{damage:?}");
            read
        };
        assert_eq!(read(0..i64::MAX), rows);
        assert_eq!(read(0..5), [undisturbed]);
        assert_eq!(SumTable::Waits.steps(&path).expect("listed"), [10]);
        assert_eq!(
            SumTable::Waits.until(&path, 10).expect("read"),
            20_000_000_003
        );
    }
}
