//! Saves the stretch in view as a recording.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::Window;
use iolens_core::model::{Inode, Io, Lost, Name, Named, Names, Observation, RecordingMeta};
use iolens_recorder::Excerpt;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::analyst::{IoSource, Material};
use super::history::History;
use crate::engine::browse::BrowsedStretch;
use crate::present::escape;
use crate::present::layout::count_of;

/// Maximum number of recordings with the same second in one directory.
const MAX_OF_NAME: u32 = 1000;

/// A request to save a stretch.
pub struct SaveRequest {
    /// The I/Os and the time range.
    pub material: Material,
    /// Metadata, for I/Os in memory.
    pub meta: RecordingMeta,
    /// Names, for I/Os in memory.
    pub names: Arc<Names>,
    /// Directory for the recording.
    pub dir: PathBuf,
}

/// The result of saving.
#[derive(Debug)]
pub struct SavedStretch {
    /// The recording.
    pub path: PathBuf,
    ios: u64,
    from_unix_ns: i64,
    to_unix_ns: i64,
    is_of_memory: bool,
}

impl SavedStretch {
    /// A line for people, harmless for a terminal; its times by the clock of `history`. The name comes first: the end of the line is
    /// cut on a narrow terminal.
    pub fn line(&self, history: &History) -> String {
        let from_ns = self.from_unix_ns.saturating_sub(history.start_unix_ns);
        let to_ns = self.to_unix_ns.saturating_sub(history.start_unix_ns);
        let span = history.times(from_ns).span_to(from_ns, to_ns, 1);
        let source = if self.is_of_memory {
            " from memory"
        } else {
            ""
        };
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        format!(
            "saved {}: {} of {span}{source}",
            escape::terminal(&name.to_string_lossy()),
            count_of(self.ios, "I/O")
        )
    }
}

impl SaveRequest {
    /// Writes the recording. A recording that cannot be written completely is removed.
    ///
    /// # Errors
    /// There is nothing to save, it cannot be read, or a file operation fails.
    pub fn run(self) -> Result<SavedStretch> {
        match &self.material.source {
            IoSource::Memory(chunks) => self.save_memory(chunks),
            IoSource::Recording(stretch) => self.save_recorded(stretch),
        }
    }

    fn save_memory(&self, chunks: &[Arc<Vec<Io>>]) -> Result<SavedStretch> {
        let Window { from_ns, to_ns } = self.material.window;
        let inside = chunks
            .iter()
            .flat_map(|c| c.iter())
            .filter(|io| (from_ns..to_ns).contains(&io.done_ns));
        if inside.clone().next().is_none() {
            bail!("no I/O of this time is in memory");
        }
        let names = used_names(inside.clone(), &self.names);
        let (path, mut excerpt) = begin(&self.dir, &self.meta, from_ns)?;
        let pushed = self.push_memory(&mut excerpt, names, inside);
        end(excerpt, pushed, path, &self.meta, from_ns, to_ns, true)
    }

    fn push_memory<'a>(
        &self,
        excerpt: &mut Excerpt,
        names: Vec<Name>,
        ios: impl Iterator<Item = &'a Io>,
    ) -> Result<()> {
        let Window { from_ns, to_ns } = self.material.window;
        for name in names {
            excerpt.push(Observation::Name(Name {
                at_ns: from_ns,
                ..name
            }))?;
        }
        let lost = self.material.lost.iter();
        let mut lost = lost.filter(|l| l.meets(from_ns, to_ns)).peekable();
        for io in ios {
            while let Some(lost) = lost.next_if(|l| l.to_ns <= io.done_ns) {
                excerpt.push(Observation::Lost(clipped(lost, to_ns)))?;
            }
            excerpt.push(Observation::Io(*io))?;
        }
        lost.try_for_each(|lost| excerpt.push(Observation::Lost(clipped(lost, to_ns))))
    }

    fn save_recorded(&self, stretch: &BrowsedStretch) -> Result<SavedStretch> {
        let Window { from_ns, to_ns } = self.material.window;
        let own = stretch.own_ns(&(from_ns..to_ns));
        let (path, mut excerpt) = begin(&self.dir, stretch.meta(), own.start)?;
        let pushed = push_recorded(&mut excerpt, stretch, &own);
        end(
            excerpt,
            pushed,
            path,
            stretch.meta(),
            own.start,
            own.end,
            false,
        )
    }
}

fn push_recorded(
    excerpt: &mut Excerpt,
    stretch: &BrowsedStretch,
    own_ns: &Range<i64>,
) -> Result<()> {
    for observation in stretch.observations(own_ns)? {
        let mut observation = observation.context("the recording cannot be read")?;
        if let Observation::Lost(lost) = &mut observation {
            *lost = clipped(lost, own_ns.end);
        }
        excerpt.push(observation)?;
    }
    Ok(())
}

/// Creates a recording in `dir`, named after its start.
fn begin(dir: &Path, meta: &RecordingMeta, from_ns: i64) -> Result<(PathBuf, Excerpt)> {
    let unix_ns = meta.start_unix_ns.saturating_add(from_ns);
    let at = Timestamp::from_nanosecond(unix_ns.into()).context("no calendar has this time")?;
    let at = at
        .to_zoned(TimeZone::system())
        .strftime("%Y%m%dT%H%M%S")
        .to_string();
    for n in 1..MAX_OF_NAME {
        let suffix = if n > 1 {
            format!("-{n}")
        } else {
            String::new()
        };
        let path = dir.join(format!("live-{at}{suffix}.iolens"));
        if path.symlink_metadata().is_err() {
            // Fails if another program has created it in the meantime.
            let excerpt = Excerpt::create(&path, meta, from_ns)?;
            return Ok((path, excerpt));
        }
    }
    bail!("there are {MAX_OF_NAME} recordings of this second already")
}

/// Finishes a recording that was written completely, else removes it.
fn end(
    excerpt: Excerpt,
    pushed: Result<()>,
    path: PathBuf,
    meta: &RecordingMeta,
    from_ns: i64,
    to_ns: i64,
    is_of_memory: bool,
) -> Result<SavedStretch> {
    if let Err(e) = pushed {
        // The first error is the relevant one.
        excerpt.discard().ok();
        return Err(e);
    }
    let summary = excerpt.finish(to_ns)?;
    Ok(SavedStretch {
        path,
        ios: summary.ios,
        from_unix_ns: meta.start_unix_ns.saturating_add(from_ns),
        to_unix_ns: meta.start_unix_ns.saturating_add(to_ns),
        is_of_memory,
    })
}

/// A loss, clipped to the saved range.
fn clipped(lost: &Lost, to_ns: i64) -> Lost {
    Lost {
        to_ns: lost.to_ns.min(to_ns),
        ..*lost
    }
}

/// The names of control groups and files that these I/Os refer to.
fn used_names<'a>(ios: impl Iterator<Item = &'a Io>, names: &Names) -> Vec<Name> {
    let mut cgroups: HashSet<i64> = HashSet::new();
    let mut files: HashSet<Inode> = HashSet::new();
    for io in ios {
        cgroups.extend(io.cgroup);
        files.extend(io.inode());
    }
    // Names that are still being looked up, or were never found, are left out.
    let mut used = Vec::new();
    for id in cgroups {
        if let Some(text) = names.cgroups.get(&id) {
            used.push(name(Named::Cgroup(id), text));
        }
        if let Some(text) = names.pods.get(&id) {
            used.push(name(Named::Pod(id), text));
        }
    }
    for file in files {
        if let Some(text) = names.files.get(&file) {
            used.push(name(Named::File(file), text));
        }
    }
    used
}

/// A name whose time is set when it is written.
fn name(of: Named, text: &str) -> Name {
    Name {
        at_ns: 0,
        of,
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use iolens_core::model::{DevId, Device, LossReason, Op, Source};
    use iolens_core::store::{IoColumns, Recording};

    use super::*;
    use crate::present::times::Clock;

    const S: i64 = 1_000_000_000;
    /// 2026-11-18T11:06:40Z.
    const EPOCH: i64 = 1_795_000_000 * S;

    fn request(dir: &Path, from_ns: i64, to_ns: i64) -> SaveRequest {
        let dev = DevId::new(8, 0);
        let mut meta = RecordingMeta::new(Source::Ebpf, EPOCH);
        meta.devices = vec![Device::named("sda", dev)];
        let mut ios = Vec::new();
        for second in 0..20 {
            let mut io = Io::new(second * S + 1, dev, Op::READ, 4096, Some(0), 1000);
            io.cgroup = Some(second % 2);
            ios.push(io);
        }
        let lost = Lost {
            from_ns: 9 * S,
            to_ns: 30 * S,
            dev: Some(dev),
            class: None,
            reason: LossReason::RingFull,
            ios: Some(3),
            bytes: None,
            merges: None,
        };
        let mut names = Names::default();
        names.insert(Named::Cgroup(1), "/odd".to_owned());
        names.insert(Named::Cgroup(7), "/of others".to_owned());
        SaveRequest {
            material: Material {
                source: IoSource::Memory(vec![Arc::new(ios)]),
                lost: vec![lost],
                window: Window::new(from_ns, to_ns),
                warm_up_ns: 0,
                is_cancelled: Arc::default(),
            },
            meta,
            names: Arc::new(names),
            dir: dir.to_owned(),
        }
    }

    #[test]
    fn what_memory_holds_of_a_stretch_becomes_a_private_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let saved = request(dir.path(), 5 * S, 10 * S).run().expect("saved");
        let mut history = History::new(EPOCH, 0);
        history.clock = Clock::Wall(TimeZone::UTC);
        let line = saved.line(&history);
        // The directory is left out: a narrow terminal has room for the name.
        let name = saved.path.file_name().expect("a file");
        let name = name.to_str().expect("digits and letters");
        let expected = format!("saved {name}: 5 I/Os of 11:06:45.0 to 11:06:50.0 from memory");
        assert_eq!(line, expected);
        history.clock = Clock::Relative;
        let line = saved.line(&history);
        let expected = format!("saved {name}: 5 I/Os of 5.0 s to 10.0 s");
        assert!(line.starts_with(&expected), "{line}");
        let mode = std::fs::metadata(&saved.path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0);
        let recording = Recording::open(&saved.path).expect("readable");
        assert_eq!(recording.meta().start_unix_ns, EPOCH + 5 * S);
        assert_eq!(recording.end_ns(), 5 * S);
        let ios = recording.ios(i64::MIN..i64::MAX, IoColumns::ALL);
        let done: Vec<i64> = ios
            .flat_map(|batch| batch.expect("readable"))
            .map(|io| io.done_ns)
            .collect();
        assert_eq!(done, [0, 1, 2, 3, 4].map(|s| s * S + 1));
        let lost = recording.lost(i64::MIN..i64::MAX);
        let lost: Vec<(i64, i64)> = lost.iter().map(|l| (l.from_ns, l.to_ns)).collect();
        assert_eq!(lost, [(4 * S, 5 * S)]);
        let names = recording.names(i64::MIN..i64::MAX);
        let names: Vec<String> = names
            .flat_map(|batch| batch.expect("readable"))
            .map(|name| name.text)
            .collect();
        assert_eq!(names, ["/odd"]);
    }

    #[test]
    fn nothing_is_replaced_and_nothing_is_said() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = request(dir.path(), 5 * S, 10 * S).run().expect("saved");
        let second = request(dir.path(), 5 * S, 10 * S).run().expect("saved");
        assert_ne!(first.path, second.path);
        let nothing = request(dir.path(), 100 * S, 110 * S).run();
        assert!(nothing.is_err());
        let entries = std::fs::read_dir(dir.path()).expect("readable").count();
        assert_eq!(entries, 2);
    }
}
