//! Rollups and actors that a killed recorder had not written, from the I/Os that it had.

use std::path::Path;

use anyhow::Result;
use iolens_core::private::Access;
use iolens_core::rollup::{ACTOR_STEPS_S, ActorsBuilder, RollupBuilder, coarser_actors, minutes};
use iolens_core::store::{
    IoColumns, Recording, RollupHistograms, actors_until, read_rollups_with, write_missing_actors,
    write_missing_rollups,
};

use crate::actors::KnownNames;
use crate::rollups::MINUTE_NS;

/// I/Os that began so long before are in flight in the first second that is missing.
const REACH_NS: i64 = 60_000_000_000;

/// Computes and writes what is missing in the recording at `path`; how many rows of seconds that was.
///
/// # Errors
/// The recording cannot be read or written.
pub fn complete_rollups(path: &Path, access: Access) -> Result<usize> {
    let mut written_to_ns = 0;
    let histograms = RollupHistograms::NONE;
    read_rollups_with(path, 1, 0..i64::MAX, histograms, |r| written_to_ns = written_to_ns.max(r.at_ns + 1))?;
    // Files end with a whole minute.
    let from_ns = (written_to_ns + MINUTE_NS - 1) / MINUTE_NS * MINUTE_NS;
    let recording = Recording::open(path)?;
    let mut builder = RollupBuilder::default();
    for ios in recording.ios(from_ns.saturating_sub(REACH_NS)..i64::MAX, columns()) {
        builder.push_ios(&ios?);
    }
    recording.lost(from_ns..i64::MAX).iter().for_each(|l| builder.lost(l));
    let mut rows = builder.finish();
    rows.retain(|r| r.at_ns >= from_ns);
    write_missing_rollups(path, access, &rows, &minutes(&rows))?;
    complete_actors(&recording, access)?;
    Ok(rows.len())
}

/// Who caused I/Os after what is written of that.
fn complete_actors(recording: &Recording, access: Access) -> Result<()> {
    // Slots are written when they are complete: the next one begins where the last of them ends.
    let from_ns = actors_until(recording.path(), ACTOR_STEPS_S[0])?;
    let whose = IoColumns::QUEUE | IoColumns::TGID | IoColumns::COMM | IoColumns::CGROUP | IoColumns::FILE;
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
    Ok(write_missing_actors(recording.path(), access, [&rows, &coarser_actors(&rows)])?)
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
    use iolens_core::model::{Op, RecordingMeta, Rollup, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions, read_actors, read_rollups};

    #[test]
    fn what_was_not_written_before_a_kill_is_computed_from_the_ios() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let (mut rollups, mut whole) = (Rollups::default(), RollupBuilder::default());
        for s in 0..1000 {
            let io = Io::new(s * 1_000_000_000 + 7, DevId(8), Op::READ, 512, Some(s), 1_500_000_000);
            let io = Io { merges: Some(1), error: Some(0), ino: Some(9), fs_dev: Some(8), ..io };
            writer.push_ios(&[io]).unwrap();
            rollups.note(&[io]);
            whole.push_ios(&[io]);
            rollups.tick(s * 1_000_000_000, &mut writer).unwrap();
            writer.tick(s * 1_000_000_000).unwrap();
        }
        let of = Named::File(Inode { fs_dev: 8, ino: 9, generation: None });
        writer.push(&Observation::Name(Name { at_ns: 7, of, text: "/f".to_owned() })).unwrap();
        writer.tick(1_000_000_000_000).unwrap();
        drop((writer, rollups));
        let rows = |step| {
            let mut rows: Vec<Rollup> = Vec::new();
            read_rollups(&path, step, 0..i64::MAX, |r| rows.push(r)).unwrap();
            rows
        };
        let expected = whole.finish();
        let before = rows(1).len();
        assert!(before > 0 && before < expected.len());
        assert_eq!(complete_rollups(&path, Access::OWNER).unwrap(), expected.len() - before);
        assert_eq!((rows(1), rows(60)), (expected.clone(), minutes(&expected)));
        assert_eq!(complete_rollups(&path, Access::OWNER).unwrap(), 0, "once");
        for step_s in ACTOR_STEPS_S {
            let mut actors = Vec::new();
            read_actors(&path, step_s, 0..i64::MAX, |r| actors.push(r)).unwrap();
            for kind in ActorKind::ALL {
                let of: Vec<&ActorSums> = actors.iter().filter(|r| r.actor.kind() == kind).collect();
                assert_eq!(of.iter().map(|r| r.sums.ios).sum::<i64>(), 1000, "{kind:?}");
                assert!(kind != ActorKind::File || of.iter().any(|r| r.name.as_deref() == Some("/f")));
            }
        }
    }
}
