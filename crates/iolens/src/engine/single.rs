//! Single I/Os of a short stretch.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::model::Io;
use iolens_core::store::IoColumns;

use super::rows::{DeviceFilter, group_name};
use super::{WindowArgs, choose, decode, names, patience, source, window};

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

/// All I/Os that completed in `window` on `devices` (none: all), by completion; at most `limit`.
///
/// # Errors
/// No recording holds the time, or it cannot be read.
pub fn ios(
    path: &Path,
    asked: &WindowArgs,
    devices: &[String],
    limit: usize,
) -> Result<std::result::Result<Vec<NamedIo>, TooMany>> {
    let mut found: Vec<NamedIo> = Vec::new();
    let mut from_ns = None;
    for chosen in choose::all(path, asked)? {
        let recording = chosen.recording;
        let range = window::resolve(&recording, &chosen.window)?;
        let meta = recording.meta();
        if recording.ios_stored() == 0 && super::rollups::left(&recording)?.is_some() {
            bail!(
                "the size limit removed the single I/Os of this time; series and heatmap show the sums that are left"
            );
        }
        let start_ns = meta.start_unix_ns;
        let from_ns = *from_ns.get_or_insert(start_ns.saturating_add(range.start));
        let devices = DeviceFilter::of(&meta.devices, devices)?;
        let names = names::read(&recording, range.end)?;
        // Of a hundred thousand I/Os most have the same few names.
        let mut known: HashMap<GroupKey, Arc<str>> = HashMap::new();
        let mut name = |key: GroupKey| {
            let made = || group_name(&meta.devices, &names, key).into();
            Arc::clone(known.entry(key).or_insert_with(made))
        };
        let mut reader = decode::Ios::new(
            &recording,
            window::with_last_instant(&recording, &range),
            IoColumns::ALL,
        );
        for batch in reader.by_ref() {
            patience::check()?;
            for io in batch?.into_iter().filter(|io| devices.has(io.dev)) {
                let done_unix_ns = start_ns.saturating_add(io.done_ns);
                if found.len() == limit {
                    return Ok(Err(TooMany {
                        from_ns,
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
        source::warn(reader.reader().warnings());
    }
    Ok(Ok(found))
}
