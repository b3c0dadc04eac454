//! Single I/Os of a short stretch.

use std::collections::HashMap;
use std::sync::Arc;

use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::model::Io;
use iolens_core::store::IoColumns;

use super::error::Result;
use super::query::{Grain, Query};
use super::rows::group_name;
use super::{decode, window};

/// One I/O with its names, in Unix time.
#[derive(Debug, Clone)]
pub struct NamedIo {
    /// Times since the recording's start are in here as they were recorded.
    pub io: Io,
    /// Completion in Unix time.
    pub done_unix_ns: i64,
    /// Names of its device, control group and file.
    pub device: Arc<str>,
    /// `None` if it is not known.
    pub cgroup: Option<Arc<str>>,
    /// The same of the file.
    pub file: Option<Arc<str>>,
}

/// More than were asked for: the stretch that has as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    /// Unix time in nanoseconds.
    pub from_ns: i64,
    /// The first I/O that does not fit completed then.
    pub to_ns: i64,
}

/// All I/Os that completed in the window of `query`, by completion; at most `limit`.
///
/// # Errors
/// No recording holds the time, or it cannot be read.
pub fn ios(query: &Query<'_>, limit: usize) -> Result<std::result::Result<Vec<NamedIo>, TooMany>> {
    let caller = query.caller;
    let answer = query.parts(Grain::Ios)?;
    let mut found: Vec<NamedIo> = Vec::new();
    for part in &answer.parts {
        let meta = part.recording.meta();
        // Of a hundred thousand I/Os most have the same few names.
        let mut known: HashMap<GroupKey, Arc<str>> = HashMap::new();
        let mut name = |key: GroupKey| {
            let made = || group_name(&meta.devices, &part.names, key).into();
            Arc::clone(known.entry(key).or_insert_with(made))
        };
        let range = window::with_last_instant(&part.recording, &part.range);
        let mut reader = decode::Ios::new(&part.recording, range, IoColumns::ALL);
        for batch in reader.by_ref() {
            caller.check()?;
            for io in batch?.into_iter().filter(|io| part.filter.has(io)) {
                let done_unix_ns = meta.start_unix_ns.saturating_add(io.done_ns);
                if found.len() == limit {
                    return Ok(Err(TooMany {
                        from_ns: answer.parts[0].unix_ns().start,
                        to_ns: done_unix_ns,
                    }));
                }
                let cgroup = GroupBy::Cgroup.key(&io);
                let file = GroupBy::File.key(&io);
                let has_file = matches!(file, GroupKey::File(Some(_)));
                found.push(NamedIo {
                    done_unix_ns,
                    device: name(GroupKey::Device(io.dev)),
                    cgroup: io.cgroup.is_some().then(|| name(cgroup)),
                    file: has_file.then(|| name(file)),
                    io,
                });
            }
        }
        caller.damage(reader.reader().warnings());
    }
    Ok(Ok(found))
}
