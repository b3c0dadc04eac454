//! The actors of a growing recording: summed with their names on the writer's thread, written along with the rollups.

use std::collections::HashMap;

use anyhow::Result;
use iolens_core::model::{Actor, ActorSums, Io, Name, Named, floor_to};
use iolens_core::rollup::{ACTOR_STEPS_S, ActorsBuilder, coarser_actors};
use iolens_core::store::RecordingWriter;

use crate::rollups::put_back;

/// Maximum number of waiting rows (about 16 MiB); with very many busy devices files are written more often.
const MAX_WAITING: usize = 64 << 10;
/// Names remembered in each of two generations. Those not used during the life of the younger generation are forgotten.
const MAX_GENERATION: usize = 1 << 14;

/// Collects and writes actors.
#[derive(Debug, Default)]
pub struct ActorRollups {
    builder: ActorsBuilder,
    names: KnownNames,
    waiting: Vec<ActorSums>,
}

/// Names of files and control groups.
#[derive(Debug, Default)]
pub struct KnownNames {
    young: HashMap<Named, String>,
    old: HashMap<Named, String>,
}

impl KnownNames {
    /// Stores the newest name of a file or control group.
    pub fn note(&mut self, name: &Name) {
        if self.young.len() >= MAX_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name.of, name.text.clone());
    }

    /// Adds names to those of `rows` that have none.
    pub fn put_into(&self, rows: &mut [ActorSums]) {
        for row in rows.iter_mut().filter(|r| r.name.is_none()) {
            let of = match row.actor {
                Actor::Cgroup(Some(id)) => Named::Cgroup(id),
                Actor::File(Some(inode)) => Named::File(inode),
                _ => continue,
            };
            row.name = self.young.get(&of).or_else(|| self.old.get(&of)).cloned();
        }
    }
}

impl ActorRollups {
    /// Takes I/Os in the order of completion.
    pub fn note(&mut self, ios: &[Io]) {
        self.builder.push_ios(ios);
    }

    /// Notes the name of a file or of a control group.
    pub fn note_name(&mut self, name: &Name) {
        self.names.note(name);
    }

    /// Declares that all I/Os completed before `now_ns` have been pushed. Returns whether enough rows are waiting to be
    /// written.
    pub fn seen_until(&mut self, now_ns: i64) -> bool {
        self.builder.seen_until(now_ns);
        self.waiting.append(&mut self.builder.take());
        self.waiting.len() >= MAX_WAITING
    }

    /// Writes the rows of complete coarser slots, so that most of these have a single set of rows.
    ///
    /// # Errors
    /// The file system refuses. A full disk is not an error; the rows are tried again.
    pub fn write_whole(&mut self, writer: &mut RecordingWriter) -> Result<()> {
        let slot_ns = i64::from(ACTOR_STEPS_S[1]) * 1_000_000_000;
        let last_ns = self.waiting.iter().map(|r| r.at_ns).max().unwrap_or(0);
        let whole_ns = if self.waiting.len() >= MAX_WAITING {
            i64::MAX
        } else {
            floor_to(last_ns, slot_ns)
        };
        let due: Vec<ActorSums> = self
            .waiting
            .extract_if(.., |r| r.at_ns < whole_ns)
            .collect();
        self.write(due, writer)
    }

    /// Writes all remaining rows.
    ///
    /// # Errors
    /// As [`ActorRollups::write_whole`].
    pub fn finish(mut self, writer: &mut RecordingWriter) -> Result<()> {
        let mut due = std::mem::take(&mut self.waiting);
        due.append(&mut std::mem::take(&mut self.builder).finish());
        self.write(due, writer)
    }

    fn write(&mut self, mut due: Vec<ActorSums>, writer: &mut RecordingWriter) -> Result<()> {
        due.sort_by_key(|r| r.at_ns);
        self.names.put_into(&mut due);
        let [finer_s, coarser_s] = ACTOR_STEPS_S;
        if !writer.write_actors(coarser_s, &coarser_actors(&due))? {
            put_back(&mut self.waiting, due, MAX_WAITING);
            return Ok(());
        }
        // As with the rollups, rows without space are not tried again.
        writer.write_actors(finer_s, &due)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Inode, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{WriterOptions, read_actors};

    #[test]
    fn rows_are_written_in_whole_coarser_slots_with_the_names_known_by_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        let mut actors = ActorRollups::default();
        let inode = Inode {
            fs_dev: 8,
            ino: 5,
            generation: Some(1),
        };
        for s in 0..1300 {
            let io = Io::new(
                s * 1_000_000_000,
                DevId(8),
                Op::WRITE,
                512,
                Some(10),
                90_000,
            );
            let fs_dev = Some(8);
            let ino = Some(5);
            let generation = Some(1);
            actors.note(&[Io {
                fs_dev,
                ino,
                generation,
                cgroup: Some(7),
                tgid: Some(1),
                ..io
            }]);
            assert!(!actors.seen_until((s - 5) * 1_000_000_000));
        }
        actors.note_name(&Name {
            at_ns: 1,
            of: Named::File(inode),
            text: "/old".to_owned(),
        });
        actors.note_name(&Name {
            at_ns: 2,
            of: Named::File(inode),
            text: "/new".to_owned(),
        });
        actors.write_whole(&mut writer).unwrap();
        let read = |step_s| {
            let mut rows = Vec::new();
            assert!(
                read_actors(&path, step_s, 0..i64::MAX, |r| rows.push(r))
                    .unwrap()
                    .is_empty()
            );
            rows
        };
        let fine = read(10);
        assert_eq!(
            (fine.len(), fine.last().unwrap().at_ns),
            (3 * 120, 1190 * 1_000_000_000)
        );
        assert_eq!(
            read(600).iter().map(|r| r.sums.ios).collect::<Vec<_>>(),
            [600; 6]
        );
        let named: Vec<Option<&str>> = fine[..3].iter().map(|r| r.name.as_deref()).collect();
        assert_eq!(
            named,
            [None, None, Some("/new")],
            "of process, control group and file"
        );
        actors.finish(&mut writer).unwrap();
        writer
            .finish(1300 * 1_000_000_000, RecorderCost::default())
            .unwrap();
        assert_eq!(read(10).iter().map(|r| r.sums.ios).sum::<i64>(), 3 * 1300);
    }
}
