//! Who caused most I/O time, as tables: `actors/10s-NNNNNN.parquet`, `actors/600s-NNNNNN.parquet`.

use std::ops::Range;
use std::path::Path;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;

use super::error::StoreError;
use super::rates::{Cells, encode};
use super::stages::{column, missing, required};
use super::sums;
use crate::model::{Actor, ActorKind, ActorSums, Class, DevId, Inode, IoSums};
use crate::private::Access;

/// The directory of these tables in a recording.
pub(crate) const ACTORS: &str = "actors";
/// Rows of one row group: what is in memory at once.
const GROUP: usize = 1 << 14;
const SCHEMA: &str = "message actors {
    REQUIRED INT32 step_s; REQUIRED INT64 at_ns; REQUIRED INT32 dev; REQUIRED BYTE_ARRAY class (UTF8);
    REQUIRED BYTE_ARRAY by (UTF8); REQUIRED INT32 others; OPTIONAL BYTE_ARRAY name (UTF8);
    OPTIONAL INT32 tgid; OPTIONAL INT64 cgroup; OPTIONAL INT32 fs_dev; OPTIONAL INT64 ino; OPTIONAL INT64 generation;
    REQUIRED INT64 ios; REQUIRED INT64 bytes; OPTIONAL INT64 queue_sum_ns; REQUIRED INT64 device_sum_ns; }";

/// The file of `rows`, which are ordered by time.
pub(crate) fn encode_actors(rows: &[ActorSums]) -> Result<Vec<u8>, ParquetError> {
    encode(SCHEMA, rows.chunks(GROUP).map(columns))
}

fn columns(rows: &[ActorSums]) -> Vec<Cells> {
    let long = |f: fn(&ActorSums) -> i64| Cells::Long(rows.iter().map(f).collect());
    let some = |f: fn(&ActorSums) -> Option<i64>| Cells::OptionalLong(rows.iter().map(f).collect());
    let int = |f: fn(&ActorSums) -> i32| Cells::Int(rows.iter().map(f).collect());
    let text = |f: fn(&ActorSums) -> &str| {
        Cells::Text(rows.iter().map(|r| ByteArray::from(f(r))).collect())
    };
    let inode = |r: &ActorSums| match r.actor {
        Actor::File(inode) => inode,
        _ => None,
    };
    vec![
        int(|r| r.step_s),
        long(|r| r.at_ns),
        int(|r| r.dev.0),
        text(|r| r.class.name()),
        text(|r| r.actor.kind().name()),
        int(|r| matches!(r.actor, Actor::Others(_)).into()),
        Cells::OptionalText(
            rows.iter()
                .map(|r| r.name.as_deref().map(ByteArray::from))
                .collect(),
        ),
        Cells::OptionalInt(
            rows.iter()
                .map(|r| {
                    if let Actor::Process(tgid) = r.actor {
                        tgid
                    } else {
                        None
                    }
                })
                .collect(),
        ),
        some(|r| {
            if let Actor::Cgroup(id) = r.actor {
                id
            } else {
                None
            }
        }),
        Cells::OptionalInt(rows.iter().map(|r| inode(r).map(|i| i.fs_dev)).collect()),
        Cells::OptionalLong(rows.iter().map(|r| inode(r).map(|i| i.ino)).collect()),
        Cells::OptionalLong(
            rows.iter()
                .map(|r| inode(r)?.generation.map(i64::from))
                .collect(),
        ),
        long(|r| r.sums.ios),
        long(|r| r.sums.bytes),
        some(|r| r.sums.queue_sum_ns),
        long(|r| r.sums.device_sum_ns),
    ]
}

/// The steps in seconds of the actors that a recording has, the finest first.
///
/// # Errors
/// The directory cannot be listed.
pub fn actor_steps(recording: &Path) -> Result<Vec<i32>, StoreError> {
    sums::steps(recording, ACTORS)
}

/// Where the newest slot of `step_s` ends, in nanoseconds since the recording's start; 0 if there is none. Damaged files are
/// left out.
///
/// # Errors
/// The directory cannot be listed.
pub fn actors_until(recording: &Path, step_s: i32) -> Result<i64, StoreError> {
    sums::until(recording, ACTORS, step_s)
}

/// Gives `take` the actors of `step_s` whose slots begin in `range` (nanoseconds since the recording's start), file by file;
/// nothing if the recording has none. Of damaged files what follows the damage is left out; what they are comes back.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn read_actors(
    recording: &Path,
    step_s: i32,
    range: Range<i64>,
    take: impl FnMut(ActorSums),
) -> Result<Vec<String>, StoreError> {
    sums::read(
        recording,
        ACTORS,
        step_s,
        &range,
        rows_of,
        |r| (r.step_s, r.at_ns),
        take,
    )
}

/// Writes actors that are missing in a recording that no process writes to any more: `[finer, coarser]`.
///
/// # Errors
/// The recording is another user's, or the file system refuses.
pub fn write_missing_actors(
    recording: &Path,
    access: Access,
    [finer, coarser]: [&[ActorSums]; 2],
) -> Result<(), StoreError> {
    // The finer last: what is complete is judged by them.
    let file = |rows: &[ActorSums]| Some((rows.first()?.step_s, encode_actors(rows)));
    sums::write_missing(recording, ACTORS, access, [file(coarser), file(finer)])
}

fn rows_of(group: &dyn RowGroupReader) -> Result<Vec<ActorSums>, ParquetError> {
    let int = |name| column::<Int32Type>(group, name);
    let long = |name| column::<Int64Type>(group, name);
    let text = |name| column::<ByteArrayType>(group, name);
    let (step, at, dev) = (
        required("step_s", int("step_s")?)?,
        required("at_ns", long("at_ns")?)?,
        required("dev", int("dev")?)?,
    );
    let (class, by) = (
        required("class", text("class")?)?,
        required("by", text("by")?)?,
    );
    let (others, name) = (required("others", int("others")?)?, text("name")?);
    let (tgid, cgroup, fs_dev) = (int("tgid")?, long("cgroup")?, int("fs_dev")?);
    let (ino, generation) = (long("ino")?, long("generation")?);
    let (ios, bytes) = (
        required("ios", long("ios")?)?,
        required("bytes", long("bytes")?)?,
    );
    let (queue, device) = (
        long("queue_sum_ns")?,
        required("device_sum_ns", long("device_sum_ns")?)?,
    );
    let row = |i: usize| {
        let kind = ActorKind::ALL
            .into_iter()
            .find(|k| by.get(i).is_some_and(|b| b.data() == k.name().as_bytes()))?;
        let inode = || {
            let generation = (*generation.get(i)?).and_then(|g| u32::try_from(g).ok());
            Some(Inode {
                fs_dev: (*fs_dev.get(i)?)?,
                ino: (*ino.get(i)?)?,
                generation,
            })
        };
        let actor = match kind {
            _ if *others.get(i)? != 0 => Actor::Others(kind),
            ActorKind::Process => Actor::Process(*tgid.get(i)?),
            ActorKind::Cgroup => Actor::Cgroup(*cgroup.get(i)?),
            ActorKind::File => Actor::File(inode()),
        };
        let name = name
            .get(i)?
            .as_ref()
            .map(|n| String::from_utf8_lossy(n.data()).into_owned());
        let (ios, bytes) = (*ios.get(i)?, *bytes.get(i)?);
        let sums = IoSums {
            ios,
            bytes,
            queue_sum_ns: *queue.get(i)?,
            device_sum_ns: *device.get(i)?,
        };
        let class = Class::ALL.into_iter().find(|c| {
            class
                .get(i)
                .is_some_and(|n| n.data() == c.name().as_bytes())
        })?;
        Some(ActorSums {
            step_s: step[i],
            at_ns: *at.get(i)?,
            dev: DevId(*dev.get(i)?),
            class,
            actor,
            name,
            sums,
        })
    };
    (0..step.len())
        .map(|i| row(i).ok_or_else(|| missing("by, class or another one")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comm, Io, Op};
    use crate::rollup::{ActorsBuilder, coarser_actors};

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
            let (ino, fs_dev, generation) = (
                known.then_some(s),
                Some(8),
                (s % 8 == 1).then_some(u32::MAX),
            );
            let (tgid, comm) = (Some(s as i32), known.then_some(Comm::new(b"fio\xff")));
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
            read(10, 0..i64::MAX).is_empty() && actor_steps(dir.path()).expect("none").is_empty()
        );
        let finer = rows(GROUP as i64 / 2);
        assert!(finer.len() > GROUP, "{}", finer.len());
        let coarser = coarser_actors(&finer);
        let (early, late) = finer.split_at(finer.len() / 2);
        write_missing_actors(dir.path(), Access::OWNER, [early, &[]]).expect("writes");
        write_missing_actors(dir.path(), Access::OWNER, [late, &coarser]).expect("writes");
        assert!(read(10, 0..i64::MAX) == finer && read(600, 0..i64::MAX) == coarser);
        assert_eq!(actor_steps(dir.path()).expect("steps"), [10, 600]);
        assert_eq!(
            actors_until(dir.path(), 10).expect("an end"),
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
        let path = dir.path().join(sums::file_name(ACTORS, 10, 1));
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
