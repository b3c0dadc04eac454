//! Writes a time range of observations as a separate recording.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use iolens_core::model::{Observation, RecorderCost, RecordingMeta};
use iolens_core::private::Access;
use iolens_core::store::{RecordingSummary, RecordingWriter, WriterOptions, remove_recording};

use crate::outputs::{devices_from, moved};

/// The writer's clock advances after this many observations.
const TICK: u64 = 4096;

/// A recording that is being written; only its owner may read it.
pub struct Excerpt {
    path: PathBuf,
    writer: RecordingWriter,
    from_ns: i64,
    pushed: u64,
}

impl Excerpt {
    /// Begins a recording at `path`, which must not exist, with the metadata `meta`, starting at `from_ns` of its time.
    ///
    /// # Errors
    /// There is something at `path`, or the file system refuses.
    pub fn create(path: &Path, meta: &RecordingMeta, from_ns: i64) -> Result<Excerpt> {
        let meta = excerpt_meta(meta, from_ns);
        let writer = RecordingWriter::create(path, meta, WriterOptions::default())?;
        Ok(Excerpt {
            path: path.to_owned(),
            writer,
            from_ns,
            pushed: 0,
        })
    }

    /// Adds the next observation, in the time of the original recording.
    ///
    /// # Errors
    /// The file system refuses, or the disk is full.
    pub fn push(&mut self, observation: Observation) -> Result<()> {
        let at_ns = observation.at_ns() - self.from_ns;
        self.writer.push(&moved(observation, self.from_ns))?;
        self.pushed += 1;
        if self.pushed.is_multiple_of(TICK) {
            self.writer.tick(at_ns.max(0))?;
            if self.writer.status().full {
                bail!("the disk is full");
            }
        }
        Ok(())
    }

    /// Finishes the recording at `to_ns`.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish(self, to_ns: i64) -> Result<RecordingSummary> {
        let summary = self
            .writer
            .finish(to_ns - self.from_ns, RecorderCost::default())?;
        if summary.full {
            bail!("the disk is full");
        }
        Ok(summary)
    }

    /// Removes the recording.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn discard(self) -> Result<()> {
        drop(self.writer);
        Ok(remove_recording(&self.path, Access::OWNER)?)
    }
}

/// Metadata of a recording that begins at `from_ns` of the one that `meta` describes.
pub fn excerpt_meta(meta: &RecordingMeta, from_ns: i64) -> RecordingMeta {
    RecordingMeta {
        start_unix_ns: meta.start_unix_ns.saturating_add(from_ns),
        start_monotonic_ns: meta.start_monotonic_ns.map(|ns| ns.saturating_add(from_ns)),
        end_ns: None,
        devices: devices_from(&meta.devices, from_ns),
        cost: RecorderCost::default(),
        tables: None,
        ..meta.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Io, Op, Source};
    use iolens_core::store::{IoColumns, Recording};

    #[test]
    fn an_excerpt_has_its_own_time_and_never_replaces_anything() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 1_000_000);
        let mut excerpt = Excerpt::create(&path, &meta, 500).unwrap();
        for done_ns in [600, 700, 800] {
            let io = Io::new(done_ns, DevId(8), Op::READ, 512, Some(1), 2);
            excerpt.push(Observation::Io(io)).unwrap();
        }
        assert_eq!(excerpt.finish(1000).unwrap().ios, 3);
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.meta().start_unix_ns, 1_000_500);
        assert_eq!(recording.end_ns(), 500);
        let ios = recording.ios(i64::MIN..i64::MAX, IoColumns::ALL);
        let done: Vec<i64> = ios.flat_map(|b| b.unwrap()).map(|io| io.done_ns).collect();
        assert_eq!(done, [100, 200, 300]);
        assert!(Excerpt::create(&path, &meta, 0).is_err());
        let other = dir.path().join("other");
        Excerpt::create(&other, &meta, 0)
            .unwrap()
            .discard()
            .unwrap();
        assert!(!other.exists());
    }
}
