//! Recomputes the rollups and actors that a killed recorder had not written, from the I/Os in its recording.

use std::path::Path;

use anyhow::Result;
use iolens_core::model::{MINUTE_NS, Rollup, ceil_to};
use iolens_core::private::Access;
use iolens_core::rollup::{
    ACTOR_STEPS_S, ActorsBuilder, CoarserRollups, ROLLUP_STEPS_S, RollupBuilder, coarser_actors,
    minutes,
};
use iolens_core::store::{
    IoColumns, Recording, SumTable, read_rollups, write_missing_actors, write_missing_rollups,
};

use crate::actors::KnownNames;

/// How far to read back, because I/Os that started before the first missing second may be in flight in it.
const REACH_NS: i64 = 60_000_000_000;

/// Computes and writes missing rollups and actors of the recording at `path`. Returns the number of one-second rows.
///
/// # Errors
/// The recording cannot be read or written.
pub fn complete_rollups(path: &Path, access: Access) -> Result<usize> {
    let [second_s, minute_s, _] = ROLLUP_STEPS_S;
    // A recorder may have been killed between writing the two files.
    let seconds_from_ns = whole_until(path, second_s)?;
    let minutes_from_ns = whole_until(path, minute_s)?;
    let from_ns = seconds_from_ns.min(minutes_from_ns);
    let recording = Recording::open(path)?;
    let mut builder = RollupBuilder::default();
    for ios in recording.ios(from_ns.saturating_sub(REACH_NS)..i64::MAX, columns()) {
        builder.push_ios(&ios?);
    }
    recording
        .lost(from_ns..i64::MAX)
        .iter()
        .for_each(|l| builder.lost(l));
    let mut rows = builder.finish();
    rows.retain(|r| r.at_ns >= from_ns);
    // Each file gets the rows after its own last one, because one of the two may already have more.
    let first_of_seconds = rows.partition_point(|r| r.at_ns < seconds_from_ns);
    let first_of_minutes = rows.partition_point(|r| r.at_ns < minutes_from_ns);
    let seconds = &rows[first_of_seconds..];
    let of_minutes = minutes(&rows[first_of_minutes..]);
    let hours = hours_of(path, &of_minutes)?;
    write_missing_rollups(path, access, [seconds, &of_minutes, &hours])?;
    complete_actors(&recording, access)?;
    Ok(seconds.len())
}

/// End of the newest minute with rollups of `step_s`, because files hold whole minutes.
fn whole_until(path: &Path, step_s: i32) -> Result<i64> {
    Ok(ceil_to(SumTable::Rollups.until(path, step_s)?, MINUTE_NS))
}

/// Hours computed from all minutes, including those about to be written. None if hours exist, because they are written
/// last.
fn hours_of(path: &Path, more: &[Rollup]) -> Result<Vec<Rollup>> {
    let [_, minute_s, hour_s] = ROLLUP_STEPS_S;
    if SumTable::Rollups.steps(path)?.contains(&hour_s) {
        return Ok(Vec::new());
    }
    let mut hours = CoarserRollups::new(hour_s);
    read_rollups(path, minute_s, 0..i64::MAX, |r| hours.add(&[r]))?;
    hours.add(more);
    Ok(hours.finish())
}

/// Computes and writes the actors after those already written.
fn complete_actors(recording: &Recording, access: Access) -> Result<()> {
    // Slots are written when they are complete, the coarser before the finer ones. The next slot begins where the last
    // one ends.
    let [finer_s, coarser_s] = ACTOR_STEPS_S;
    let finer_from_ns = SumTable::Actors.until(recording.path(), finer_s)?;
    let coarser_from_ns = SumTable::Actors.until(recording.path(), coarser_s)?;
    let from_ns = finer_from_ns.min(coarser_from_ns);
    let whose =
        IoColumns::QUEUE | IoColumns::TGID | IoColumns::COMM | IoColumns::CGROUP | IoColumns::FILE;
    let mut builder = ActorsBuilder::default();
    for ios in recording.ios(from_ns..i64::MAX, whose) {
        builder.push_ios(&ios?);
    }
    let mut rows = builder.finish();
    let mut names = KnownNames::default();
    for batch in recording.names(i64::MIN..i64::MAX) {
        batch?.iter().for_each(|name| names.note(name));
    }
    names.put_into(&mut rows);
    let first_of_finer = rows.partition_point(|r| r.at_ns < finer_from_ns);
    let first_of_coarser = rows.partition_point(|r| r.at_ns < coarser_from_ns);
    let finer = &rows[first_of_finer..];
    let coarser = coarser_actors(&rows[first_of_coarser..]);
    Ok(write_missing_actors(
        recording.path(),
        access,
        [finer, &coarser],
    )?)
}

fn columns() -> IoColumns {
    IoColumns::QUEUE | IoColumns::ERROR | IoColumns::MERGES
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rollups::Rollups;
    use iolens_core::model::{ActorKind, ActorSums, DevId, Inode, Io, Name, Named, Observation};
    use iolens_core::model::{Op, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions, read_actors};

    #[test]
    fn what_was_not_written_before_a_kill_is_computed_from_the_ios() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let mut rollups = Rollups::default();
        let mut whole = RollupBuilder::default();
        for s in 0..2000 {
            let io = Io::new(
                s * 1_000_000_000 + 7,
                DevId(8),
                Op::READ,
                512,
                Some(s),
                1_500_000_000,
            );
            let io = Io {
                merges: Some(1),
                error: Some(0),
                ino: Some(9),
                fs_dev: Some(8),
                ..io
            };
            writer.push_ios(&[io]).unwrap();
            rollups.note(&[io]);
            whole.push_ios(&[io]);
            rollups.tick(s * 1_000_000_000, &mut writer).unwrap();
            writer.tick(s * 1_000_000_000).unwrap();
        }
        let of = Named::File(Inode {
            fs_dev: 8,
            ino: 9,
            generation: None,
        });
        writer
            .push(&Observation::Name(Name {
                at_ns: 7,
                of,
                text: "/f".to_owned(),
            }))
            .unwrap();
        writer.tick(2_000_000_000_000).unwrap();
        drop((writer, rollups));
        // The state after a kill between two files of the same rows: the coarser file exists, the finer one does not.
        for (table, finer) in [("rollup", "1s-"), ("actors", "10s-")] {
            let all = std::fs::read_dir(path.join(table))
                .unwrap()
                .map(|e| e.unwrap().path());
            let newest = all
                .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(finer))
                .max();
            std::fs::remove_file(newest.unwrap()).unwrap();
        }
        let rows = |step| {
            let mut rows: Vec<Rollup> = Vec::new();
            read_rollups(&path, step, 0..i64::MAX, |r| rows.push(r)).unwrap();
            rows
        };
        let expected = whole.finish();
        let before = rows(1).len();
        assert!(before < expected.len() && !rows(60).is_empty());
        assert_eq!(
            complete_rollups(&path, Access::OWNER).unwrap(),
            expected.len() - before
        );
        assert_eq!((rows(1), rows(60)), (expected.clone(), minutes(&expected)));
        let mut hours = CoarserRollups::new(3600);
        hours.add(&expected);
        assert_eq!(rows(3600), hours.finish());
        assert_eq!(complete_rollups(&path, Access::OWNER).unwrap(), 0, "once");
        for step_s in ACTOR_STEPS_S {
            let mut actors = Vec::new();
            read_actors(&path, step_s, 0..i64::MAX, |r| actors.push(r)).unwrap();
            for kind in ActorKind::ALL {
                let of: Vec<&ActorSums> =
                    actors.iter().filter(|r| r.actor.kind() == kind).collect();
                assert_eq!(of.iter().map(|r| r.sums.ios).sum::<i64>(), 2000, "{kind:?}");
                assert!(
                    kind != ActorKind::File || of.iter().any(|r| r.name.as_deref() == Some("/f"))
                );
            }
        }
    }
}
