//! The actors with the most I/O time, as tables: `actors/10s-NNNNNN.parquet`, `actors/600s-NNNNNN.parquet`.

use std::ops::Range;
use std::path::Path;

use parquet::errors::ParquetError;

use crate::model::{Actor, ActorKind, ActorSums, Class, DevId, Inode, IoSums};
use crate::private::Access;
use crate::store::StoreError;
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::schema::TableDef;
use crate::store::sums::{self, SumRow, encode_rows};
use crate::store::whole_file::missing;

table! {
    whole "actors" of ActorSums, by at_ns;

    /// length of the slot: 10 or 600 seconds
    step_s: i32 = |r| r.step_s;

    /// start of the slot, a multiple of the step; the table's time
    at_ns: i64 = |r| r.at_ns;

    /// device number
    dev: i32 = |r| r.dev.0;

    /// `read`, `write`, `discard` or `flush`
    class: Text = |r| r.class;

    /// kind of the actor: `process`, `cgroup` or `file`
    by: Text = |r| r.actor.kind().name();

    /// 1 if the row stands for all actors without a row of their own; else 0
    others: i32 = |r| i32::from(matches!(r.actor, Actor::Others(_)));

    /// name of the process, or path of the control group or file; null if it is not known, and if `others` is 1
    name: Option<Text> = |r| r.name.as_deref();

    /// process id, as in `io`; like the next four null if it is not known, and in rows of another kind
    tgid: Option<i32> = tgid_of;

    /// cgroup v2 id
    cgroup: Option<i64> = cgroup_of;

    /// for a file, like the next two: device number of its file system
    fs_dev: Option<i32> = |r| file_of(r).map(|f| f.fs_dev);

    /// its inode number
    ino: Option<i64> = |r| file_of(r).map(|f| f.ino);

    /// which of the files that had this inode number
    generation: Option<i64> = |r| file_of(r)?.generation.map(i64::from);

    /// I/Os completed
    ios: i64 = |r| r.sums.ios;

    /// bytes that they moved
    bytes: i64 = |r| r.sums.bytes;

    /// time from start to issue, summed; null unless it is known for every I/O
    queue_sum_ns: Option<i64> = |r| r.sums.queue_sum_ns;

    /// time from issue to completion, summed
    device_sum_ns: i64 = |r| r.sums.device_sum_ns;
}

fn tgid_of(r: &ActorSums) -> Option<i32> {
    match r.actor {
        Actor::Process(tgid) => tgid,
        _ => None,
    }
}

fn cgroup_of(r: &ActorSums) -> Option<i64> {
    match r.actor {
        Actor::Cgroup(id) => id,
        _ => None,
    }
}

fn file_of(r: &ActorSums) -> Option<Inode> {
    match r.actor {
        Actor::File(inode) => inode,
        _ => None,
    }
}

/// Passes the actors of `step_s` whose slots start in `range` (nanoseconds since the recording's start) to `take`, file
/// by file; does nothing if the recording has none. Rows after damage in a file are skipped; returns a warning for each
/// damaged file.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read_actors(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    take: impl FnMut(ActorSums),
) -> Result<Vec<String>, StoreError> {
    sums::read_rows(recording, step_s, &range, take)
}

/// Writes missing actors, `[finer, coarser]`, to a recording that no process writes to any more.
///
/// # Errors
/// The recording is another user's, or the file system refuses.
pub fn write_missing_actors(
    recording: &Path,
    access: Access,
    [finer, coarser]: [&[ActorSums]; 2],
) -> Result<(), StoreError> {
    // Write the finer rows last: they decide whether the actors count as complete.
    let files = [coarser, finer].map(|rows| Some((rows.first()?.step_s, encode_rows(rows))));
    sums::write_missing(recording, TABLE.name, access, files)
}

impl SumRow for ActorSums {
    const TABLE: &'static TableDef = &TABLE;

    fn slot(&self) -> (i32, i64) {
        (self.step_s, self.at_ns)
    }

    fn collect(rows: &[ActorSums]) -> Vec<Column> {
        collect(rows)
    }

    fn read(columns: &[Column], i: usize) -> Result<ActorSums, ParquetError> {
        row(Columns(columns), i)
    }
}

fn row(c: Columns<'_>, i: usize) -> Result<ActorSums, ParquetError> {
    let kind = ActorKind::ALL
        .into_iter()
        .find(|kind| kind.name().as_bytes() == c.by(i))
        .ok_or_else(|| missing("by"))?;
    let class = Class::from_name(c.class(i)).ok_or_else(|| missing("class"))?;
    let actor = match kind {
        _ if c.others(i) != 0 => Actor::Others(kind),
        ActorKind::Process => Actor::Process(c.tgid(i)),
        ActorKind::Cgroup => Actor::Cgroup(c.cgroup(i)),
        ActorKind::File => Actor::File(inode(c, i)),
    };
    let name = c.name(i);
    Ok(ActorSums {
        step_s: c.step_s(i),
        at_ns: c.at_ns(i),
        dev: DevId(c.dev(i)),
        class,
        actor,
        name: name.map(|letters| String::from_utf8_lossy(letters).into_owned()),
        sums: IoSums {
            ios: c.ios(i),
            bytes: c.bytes(i),
            queue_sum_ns: c.queue_sum_ns(i),
            device_sum_ns: c.device_sum_ns(i),
        },
    })
}

fn inode(c: Columns<'_>, i: usize) -> Option<Inode> {
    Some(Inode {
        fs_dev: c.fs_dev(i)?,
        ino: c.ino(i)?,
        generation: c.generation(i).and_then(|g| u32::try_from(g).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comm, Io, Op};
    use crate::rollup::{ActorsBuilder, coarser_actors};
    use crate::store::SumTable;
    use crate::store::sums::GROUP;

    fn rows(seconds: i64) -> Vec<ActorSums> {
        let mut builder = ActorsBuilder::default();
        for s in 0..seconds {
            let op = if s % 3 == 0 { Op::WRITE } else { Op::READ };
            let queue_ns = Some(s % 5).filter(|q| *q > 0);
            let io = Io::new(
                s * 1_000_000_000,
                DevId(8),
                op,
                4096,
                queue_ns,
                90_000 + s * 977,
            );
            let known = s % 4 != 0;
            let ino = known.then_some(s);
            let fs_dev = Some(8);
            let generation = (s % 8 == 1).then_some(u32::MAX);
            let tgid = Some(s as i32);
            let comm = known.then_some(Comm::new(b"fio\xff"));
            builder.push_ios(&[Io {
                tgid,
                comm,
                cgroup: known.then_some(s),
                ino,
                fs_dev,
                generation,
                ..io
            }]);
        }
        builder.finish()
    }

    #[test]
    fn rows_come_back_whole_by_step_and_time_over_several_groups_and_files() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let read = |step_s, range| {
            let mut rows = Vec::new();
            let warnings =
                read_actors(dir.path(), step_s, range, |r| rows.push(r)).expect("readable");
            assert!(warnings.is_empty(), "{warnings:?}");
            rows
        };
        assert!(
            read(10, 0..i64::MAX).is_empty()
                && SumTable::Actors.steps(dir.path()).expect("none").is_empty()
        );
        let finer = rows(GROUP as i64 / 2);
        assert!(finer.len() > GROUP, "{}", finer.len());
        let coarser = coarser_actors(&finer);
        let (early, late) = finer.split_at(finer.len() / 2);
        write_missing_actors(dir.path(), Access::OWNER, [early, &[]]).expect("writes");
        write_missing_actors(dir.path(), Access::OWNER, [late, &coarser]).expect("writes");
        assert!(read(10, 0..i64::MAX) == finer && read(600, 0..i64::MAX) == coarser);
        assert_eq!(
            SumTable::Actors.steps(dir.path()).expect("steps"),
            [10, 600]
        );
        assert_eq!(
            SumTable::Actors.until(dir.path(), 10).expect("an end"),
            finer[finer.len() - 1].at_ns + 10_000_000_000
        );
        let range = 900_000_000_000..1_000_000_000_000;
        let part: Vec<ActorSums> = finer
            .iter()
            .filter(|r| range.contains(&r.at_ns))
            .cloned()
            .collect();
        assert!(part.len() > 100 && read(10, range) == part);
    }

    #[test]
    fn a_damaged_file_costs_its_own_rows() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let all = rows(100);
        write_missing_actors(dir.path(), Access::OWNER, [&all, &[]]).expect("writes");
        write_missing_actors(dir.path(), Access::OWNER, [&all, &[]]).expect("writes");
        let path = dir.path().join(sums::file_name(TABLE.name, 10, 1));
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).expect("writes");
        let mut left = Vec::new();
        let warnings =
            read_actors(dir.path(), 10, 0..i64::MAX, |r| left.push(r)).expect("readable");
        assert!(
            left == all && warnings.len() == 1 && warnings[0].contains("10s-000001"),
            "{warnings:?}"
        );
    }
}
