//! Single I/Os of a short stretch.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::analysis::waits::{IoWait, IoWaitsBuilder};
use iolens_core::analysis::{Consumer as _, Window};
use iolens_core::model::Io;
use iolens_core::store::IoColumns;

use super::caller::Caller;
use super::error::Result;
use super::part::Part;
use super::query::{Grain, Query};
use super::rows::group_name;
use super::{decode, window};

/// One I/O with its names, in Unix time.
#[derive(Debug, Clone)]
pub struct NamedIo {
    /// The I/O with its times as recorded, since the recording's start.
    pub io: Io,
    /// Completion in Unix time, in nanoseconds.
    pub done_unix_ns: i64,
    /// Name of its device.
    pub device: Arc<str>,
    /// Name of its control group; `None` if it is not known.
    pub cgroup: Option<Arc<str>>,
    /// Name of its file; `None` if it is not known.
    pub file: Option<Arc<str>>,
    /// How its time was spent.
    pub wait: Option<IoWait>,
}

impl NamedIo {
    /// Its start in Unix time.
    pub fn start_unix_ns(&self) -> i64 {
        self.done_unix_ns - self.io.total_ns()
    }
}

/// There are more I/Os than requested; these are the times of a stretch that contains the maximum number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// Start of the stretch, in Unix time in nanoseconds.
    pub from_ns: i64,
    /// Completion of the first I/O beyond the limit, in Unix time in nanoseconds.
    pub to_ns: i64,
}

/// Cache of the names in a part: most I/Os share a few names.
struct KnownNames<'a> {
    part: &'a Part,
    known: HashMap<GroupKey, Arc<str>>,
}

impl KnownNames<'_> {
    fn of(&mut self, key: GroupKey) -> Arc<str> {
        let name = self.known.entry(key).or_insert_with(|| {
            let devices = &self.part.recording.meta().devices;
            group_name(devices, &self.part.names, key).into()
        });
        Arc::clone(name)
    }

    /// `io` with its names, and without its wait, which is not known yet.
    fn named(&mut self, io: Io, done_unix_ns: i64) -> NamedIo {
        let cgroup = GroupBy::Cgroup.key(&io);
        let file = GroupBy::File.key(&io);
        let has_file = matches!(file, GroupKey::File(Some(_)));
        NamedIo {
            done_unix_ns,
            device: self.of(GroupKey::Device(io.dev)),
            cgroup: io.cgroup.is_some().then(|| self.of(cgroup)),
            file: has_file.then(|| self.of(file)),
            wait: None,
            io,
        }
    }
}

/// All I/Os that completed in the window of `query`, in order of completion; at most `limit`.
///
/// # Errors
/// No recording holds the time, or it cannot be read.
pub fn ios(query: &Query<'_>, limit: usize) -> Result<std::result::Result<Vec<NamedIo>, TooMany>> {
    let answer = query.parts(Grain::Ios)?;
    let mut found: Vec<NamedIo> = Vec::new();
    for part in &answer.parts {
        if let Some(to_ns) = add_ios_of(part, query.caller, limit, &mut found)? {
            return Ok(Err(TooMany {
                from_ns: answer.parts[0].unix_ns().start,
                to_ns,
            }));
        }
    }
    Ok(Ok(found))
}

/// Adds the I/Os of one part to `found`. Returns the completion, in Unix time in nanoseconds, of the first one beyond `limit`.
fn add_ios_of(
    part: &Part,
    caller: &Caller,
    limit: usize,
    found: &mut Vec<NamedIo>,
) -> Result<Option<i64>> {
    let start_unix_ns = part.recording.meta().start_unix_ns;
    let Range { start, end } = window::with_last_instant(&part.recording, &part.range);
    let window = Window::new(start, end);
    let mut names = KnownNames {
        part,
        known: HashMap::new(),
    };

    // Waits depend on what was in flight around the window, so more is read than is shown.
    let read = super::waits::around(&part.recording, &(start..end));
    let mut waits = IoWaitsBuilder::of(window, |io| part.filter.has(&part.shown(io)));
    for lost in part.recording.lost(read.clone()) {
        waits.lost(&lost);
    }
    let first = found.len();
    let mut reader =
        decode::Ios::identified(&part.recording, read, IoColumns::ALL).started_before(end);
    while let Some(batch) = reader.next() {
        caller.check()?;
        let batch = batch?;
        waits.consume(&batch, reader.later_start_ns());
        for io in &batch {
            let io = part.shown(io);
            if !window.contains(io.done_ns) || !part.filter.has(&io) {
                continue;
            }
            let done_unix_ns = start_unix_ns.saturating_add(io.done_ns);
            if found.len() == limit {
                return Ok(Some(done_unix_ns));
            }
            found.push(names.named(io, done_unix_ns));
        }
    }

    // There is one wait for each I/O that was found, in the same order.
    for (io, wait) in found[first..].iter_mut().zip(waits.finish()) {
        let mut wait = wait;
        if part.recording.hides_names()
            && let Some(group) = &mut wait.behind
        {
            group.hide_name();
        }
        io.wait = Some(wait);
    }
    caller.damage(part.recording.path(), reader.reader().warnings());
    Ok(None)
}
