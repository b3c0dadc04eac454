//! Rollups and actors of a growing recording: summed on the writer's thread, and written as files a few times an hour.

use anyhow::Result;
use iolens_core::model::{Io, MINUTE_NS, Observation, Rollup};
use iolens_core::rollup::{CoarserRollups, ROLLUP_STEPS_S, RollupBuilder, minutes};
use iolens_core::store::RecordingWriter;

use crate::actors::ActorRollups;

/// Time covered by one file. What a killed recorder had not written is recomputed from its I/Os at the next start,
/// which reads about ten million of them per second.
const FILE_NS: i64 = 10 * MINUTE_NS;
/// Maximum number of waiting rows (about 8 MiB); with very many devices files are written more often.
const MAX_WAITING: usize = 16 << 10;
/// Age after which all I/Os are assumed to have arrived, unless the source reports that it is late.
const SETTLED_NS: i64 = 5_000_000_000;

/// Collects and writes rollups.
#[derive(Debug)]
pub struct Rollups {
    builder: RollupBuilder,
    actors: ActorRollups,
    waiting: Vec<Rollup>,
    written_ns: i64,
    /// Written at the end, as one file per recording, so that a month of daily recordings is read from thirty files.
    hours: CoarserRollups,
}

impl Default for Rollups {
    fn default() -> Rollups {
        let hours = CoarserRollups::new(ROLLUP_STEPS_S[2]);
        let builder = RollupBuilder::default();
        let actors = ActorRollups::default();
        Rollups {
            builder,
            actors,
            waiting: Vec::new(),
            written_ns: 0,
            hours,
        }
    }
}

impl Rollups {
    /// Takes I/Os in the order of completion.
    pub fn note(&mut self, ios: &[Io]) {
        self.builder.push_ios(ios);
        self.actors.note(ios);
    }

    /// Takes losses and names; ignores other observations.
    pub fn note_others(&mut self, others: &[Observation]) {
        for o in others {
            match o {
                Observation::Lost(lost) => self.builder.lost(lost),
                Observation::Name(name) => self.actors.note_name(name),
                _ => {}
            }
        }
    }

    /// Writes what is due at `now_ns`, nanoseconds since the recording's start.
    ///
    /// # Errors
    /// The file system refuses. A full disk is not an error; the rows are tried again.
    pub fn tick(&mut self, now_ns: i64, writer: &mut RecordingWriter) -> Result<()> {
        self.builder.seen_until(now_ns - SETTLED_NS);
        self.waiting.append(&mut self.builder.take());
        let many_actors = self.actors.seen_until(now_ns - SETTLED_NS);
        if now_ns - self.written_ns < FILE_NS && self.waiting.len() < MAX_WAITING && !many_actors {
            return Ok(());
        }
        self.written_ns = now_ns;
        let last_ns = self.waiting.iter().map(|r| r.at_ns).max().unwrap_or(0);
        // Whole minutes, so that most minutes have one row. If a single minute exceeds the limit, all rows are written.
        let whole_ns = last_ns / MINUTE_NS * MINUTE_NS;
        let whole = self.waiting.extract_if(.., |r| r.at_ns < whole_ns);
        let mut due: Vec<Rollup> = whole.collect();
        if due.is_empty() && self.waiting.len() >= MAX_WAITING {
            due.append(&mut self.waiting);
        }
        self.write(due, writer)?;
        self.actors.write_whole(writer)
    }

    /// Writes all remaining rows.
    ///
    /// # Errors
    /// As [`Rollups::tick`].
    pub fn finish(mut self, writer: &mut RecordingWriter) -> Result<()> {
        let mut due = std::mem::take(&mut self.waiting);
        due.append(&mut std::mem::take(&mut self.builder).finish());
        self.write(due, writer)?;
        let hours = self.hours.finish();
        // If there is no space, nothing is lost: the minutes contain them.
        writer.write_rollups(ROLLUP_STEPS_S[2], &hours)?;
        self.actors.finish(writer)
    }

    fn write(&mut self, mut due: Vec<Rollup>, writer: &mut RecordingWriter) -> Result<()> {
        due.sort_by_key(|r| r.at_ns);
        let [second, minute, _] = ROLLUP_STEPS_S;
        let of_minutes = minutes(&due);
        if !writer.write_rollups(minute, &of_minutes)? {
            put_back(&mut self.waiting, due, MAX_WAITING);
            return Ok(());
        }
        self.hours.add(&of_minutes);
        // When space is short, seconds are dropped first. They are not tried again, because the minutes would then be
        // written twice.
        writer.write_rollups(second, &due)?;
        Ok(())
    }
}

/// Puts back rows for which the disk had no space, up to `most` rows in memory; the others are dropped. On a full disk
/// I/Os are not stored either, so the rows cannot be computed again.
pub fn put_back<R>(waiting: &mut Vec<R>, mut due: Vec<R>, most: usize) {
    due.truncate(most.saturating_sub(waiting.len()));
    waiting.append(&mut due);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{WriterOptions, read_rollups};

    #[test]
    fn files_come_every_ten_minutes_and_together_hold_every_second_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let mut rollups = Rollups::default();
        let mut whole = RollupBuilder::default();
        let seconds = 1800;
        for s in 0..seconds {
            let ios: Vec<Io> = (0..3)
                .map(|i| {
                    Io::new(
                        s * 1_000_000_000 + i * 1000,
                        DevId(8),
                        Op::WRITE,
                        512,
                        Some(10),
                        90_000 + s,
                    )
                })
                .collect();
            rollups.note(&ios);
            whole.push_ios(&ios);
            rollups.tick(s * 1_000_000_000, &mut writer).unwrap();
        }
        let files = || std::fs::read_dir(path.join("rollup")).unwrap().count();
        assert_eq!(files(), 4, "two of seconds, two of minutes");
        rollups.finish(&mut writer).unwrap();
        assert_eq!(files(), 7, "and one of hours");
        writer
            .finish(seconds * 1_000_000_000, RecorderCost::default())
            .unwrap();
        let of = |step| {
            let mut rows = Vec::new();
            assert!(
                read_rollups(&path, step, 0..i64::MAX, |r| rows.push(r))
                    .unwrap()
                    .is_empty()
            );
            rows
        };
        let expected = whole.finish();
        assert_eq!(of(60), minutes(&expected));
        let mut hours = CoarserRollups::new(3600);
        hours.add(&expected);
        assert_eq!(of(3600), hours.finish());
        assert_eq!(of(1), expected);
    }
}
