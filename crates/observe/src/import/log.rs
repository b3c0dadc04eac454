//! What a parser fills, and what all files together become.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use iolens_core::model::{
    BioStages, CpuShares, Io, LossReason, Lost, Mark, Observation, RateRows, RecordingMeta, Source,
};

use super::damage::{Damage, Place};
use super::devices::Devices;
use super::recognise::{Kind, recognise, sections};
use super::text::{without_colours, without_commas};
use super::{biosnoop, blktrace, block_events, content, fio_json, fio_log, iostat_json, iostat_text, rate_table};

/// What the user knows that a log does not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Length of an interval in nanoseconds, for tables without time stamps.
    pub interval_ns: Option<i64>,
    /// Wall clock of the first instant, in nanoseconds since the Unix epoch, for logs that have no date.
    pub start_unix_ns: Option<i64>,
    /// Make any damaged line an error.
    pub strict: bool,
}

/// What the clock of a log counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Epoch {
    /// Its own beginning (or something that was meant to be shown, such as the time column of a table).
    #[default]
    Own,
    /// The machine's monotonic clock: no beginning of its own.
    Monotonic,
    /// The Unix epoch.
    Unix,
}

/// What one file held.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub file: PathBuf,
    pub options: ImportOptions,
    pub epoch: Epoch,
    pub ios: Vec<Io>,
    pub rates: RateRows,
    pub cpu: Vec<CpuShares>,
    pub marks: Vec<Mark>,
    /// The ways of bios, in order of completion.
    pub bios: Vec<BioStages>,
    /// I/Os of which only one end was seen.
    pub censored: u64,
    pub devices: Devices,
    pub damage: Damage,
    pub host: Option<String>,
    pub kernel: Option<String>,
    /// Wall clock of the log's own zero, if it says so.
    pub zero_unix_ns: Option<i64>,
    pub limits: Vec<String>,
    /// Why nothing may have come out of it, if that is known.
    pub unusable: Option<&'static str>,
}

impl Log {
    pub fn new(file: &Path, options: ImportOptions, devices: Devices, damage: Damage) -> Log {
        Log { file: file.to_owned(), options, devices, damage, ..Log::default() }
    }

    pub fn damaged(&mut self, line: u64, why: impl Into<String>) {
        self.damage.line(&self.file, line, why);
    }

    /// Says once what this source cannot know.
    pub fn limit(&mut self, text: &str) {
        if !self.limits.iter().any(|l| l == text) {
            self.limits.push(text.to_owned());
        }
    }

    fn first_ns(&self) -> Option<i64> {
        let ios = self.ios.iter().map(Io::start_ns).min();
        let rates = self.rates.first_ns();
        let cpu = self.cpu.iter().map(|c| c.from_ns).min();
        let marks = self.marks.iter().map(|m| m.at_ns).min();
        [ios, rates, cpu, marks].into_iter().flatten().min()
    }

    /// Moves every instant by `-by_ns`; what would leave the range of the clock is nonsense and goes to its edge.
    fn shift(&mut self, by_ns: i64) {
        for io in &mut self.ios {
            io.done_ns = io.done_ns.saturating_sub(by_ns);
        }
        self.rates
            .replace(0..self.rates.len(), |from, to, dev| (from.saturating_sub(by_ns), to.saturating_sub(by_ns), dev));
        for c in &mut self.cpu {
            c.from_ns = c.from_ns.saturating_sub(by_ns);
            c.to_ns = c.to_ns.saturating_sub(by_ns);
        }
        for m in &mut self.marks {
            m.at_ns = m.at_ns.saturating_sub(by_ns);
        }
        for b in &mut self.bios {
            b.done_ns = b.done_ns.saturating_sub(by_ns);
        }
    }
}

/// Everything that was imported, on one time line.
#[derive(Debug)]
pub struct Imported {
    /// What is said once.
    pub meta: RecordingMeta,
    /// Single I/Os, marks and losses, ordered by time.
    pub observations: Vec<Observation>,
    /// Rows of tables, ordered by time.
    pub rates: RateRows,
    /// The processors' shares, ordered by time.
    pub cpu: Vec<CpuShares>,
    /// The ways of bios through the block layer, ordered by completion.
    pub bios: Vec<BioStages>,
    /// What could not be read.
    pub damage: Damage,
    /// Which formats were found, in the order of the files.
    pub kinds: Vec<Kind>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{} cannot be read", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The content is of no known format; what it is instead, if that can be said.
    #[error("{}: not the log of a tool that can be imported{}", .0.display(), .1.map_or_else(|| " (iostat, fio, blktrace, biosnoop, perf script with block events)".to_owned(), |why| format!(": {why}")))]
    Unknown(PathBuf, Option<&'static str>),
    /// No file.
    #[error("{}: is a directory; logs are files, and a recording needs no import (iolens report DIR)", .0.display())]
    Directory(PathBuf),
    /// A compressed log that becomes too large, in GiB.
    #[error("{}: unpacked it has more than {} GiB: import it in parts", .0.display(), .1)]
    TooLarge(PathBuf, u64),
    /// The format is known and nothing usable is in it.
    #[error("{}: {why}", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// Damage, and the user asked for none.
    #[error("{first} ({count} damaged in all; without --strict the rest is imported)")]
    Damaged {
        /// The first damaged place.
        first: Place,
        /// How many there are.
        count: u64,
    },
}

/// Imports files as one recording. Files of blktrace are taken together, CPU by CPU; other files one after the other.
///
/// # Errors
/// A file cannot be read, is of no known format or holds nothing; or [`ImportOptions::strict`] and something is damaged.
pub fn import_files(files: &[PathBuf], options: ImportOptions) -> Result<Imported, ImportError> {
    let mut contents = Vec::new();
    let mut damage = Damage::default();
    for file in files {
        let content::Content { bytes, cut } = content::read(file)?;
        let Some(kind) = recognise(&bytes) else {
            // blktrace leaves an empty file for a processor that saw nothing.
            if bytes.is_empty() && cut.is_none() && files.len() > 1 {
                continue;
            }
            let why = if cut.is_some() { Some("its compression is damaged") } else { content::in_other_words(&bytes) };
            return Err(ImportError::Unknown(file.clone(), why));
        };
        if let Some(why) = cut {
            damage.record(file, bytes.len() as u64, format!("the rest cannot be unpacked: {why}"));
        }
        contents.push((file.as_path(), kind, bytes));
    }
    let mut state = (Devices::default(), damage);
    let mut logs = Vec::new();
    let traces: Vec<_> = contents.iter().filter(|c| c.1 == Kind::Blktrace).map(|c| (c.0, c.2.as_slice())).collect();
    if let Some((first, _)) = traces.first() {
        let mut log = Log::new(first, options, state.0, state.1);
        blktrace::parse(&mut log, &traces);
        state = (std::mem::take(&mut log.devices), std::mem::take(&mut log.damage));
        logs.push((Kind::Blktrace, log));
    }
    for (file, kind, bytes) in contents.iter().filter(|c| c.1 != Kind::Blktrace) {
        let sections = sections(*kind, bytes);
        let (several, before) = (sections.len() > 1, logs.len());
        for (kind, bytes) in sections {
            let mut log = Log::new(file, options, state.0, state.1);
            parse(&mut log, kind, &bytes);
            state = (std::mem::take(&mut log.devices), std::mem::take(&mut log.damage));
            // Of several kinds of tables one may be no more than a heading.
            if !several || log.first_ns().is_some() || logs.len() == before {
                logs.push((kind, log));
            }
        }
        if logs.len() > before + 1 && logs[before].1.first_ns().is_none() {
            logs.remove(before);
        }
    }
    let (devices, damage) = state;
    finish(logs, devices, damage, options)
}

/// Imports one file's content that was read already; the path is for messages only (and tells fio's logs apart).
///
/// # Errors
/// As [`import_files`].
pub fn parse_bytes(kind: Kind, file: &Path, bytes: &[u8], options: ImportOptions) -> Result<Imported, ImportError> {
    let mut log = Log::new(file, options, Devices::default(), Damage::default());
    parse(&mut log, kind, bytes);
    let (devices, damage) = (std::mem::take(&mut log.devices), std::mem::take(&mut log.damage));
    finish(vec![(kind, log)], devices, damage, options)
}

fn parse(log: &mut Log, kind: Kind, bytes: &[u8]) {
    let text = if kind == Kind::Blktrace { Cow::Borrowed(bytes) } else { without_colours(bytes) };
    let bytes = &*text;
    match kind {
        Kind::IostatText => iostat_text::parse(log, bytes),
        Kind::SolarisIostat => iostat_text::parse(log, &without_commas(bytes)),
        Kind::IostatJson => iostat_json::parse(log, bytes),
        Kind::RateTable => rate_table::parse(log, bytes),
        Kind::FioJson => fio_json::parse(log, bytes),
        Kind::FioLog => fio_log::parse(log, bytes),
        Kind::Biosnoop => biosnoop::parse(log, bytes),
        Kind::BlockEvents => block_events::parse(log, bytes),
        Kind::Blktrace => {
            let file = log.file.clone();
            blktrace::parse(log, &[(&file, bytes)]);
        }
    }
}

fn finish(
    mut logs: Vec<(Kind, Log)>,
    devices: Devices,
    damage: Damage,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    if let (true, Some(first)) = (options.strict, damage.places.first()) {
        return Err(ImportError::Damaged { first: first.clone(), count: damage.count });
    }
    for (_, log) in &logs {
        if log.first_ns().is_none() {
            let why = log.unusable.unwrap_or("nothing in it could be used");
            return Err(ImportError::Empty { file: log.file.clone(), why });
        }
    }
    let (start_unix_ns, start_monotonic_ns) = align(&mut logs, options);
    let mut kinds: Vec<Kind> = logs.iter().map(|(k, _)| *k).collect();
    let mut names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
    names.sort_unstable();
    names.dedup();
    let mut meta = RecordingMeta::new(Source::Import(names.join("+")), start_unix_ns);
    meta.start_monotonic_ns = start_monotonic_ns;
    meta.devices = devices.into_list();
    let mut out = Imported {
        meta,
        observations: Vec::new(),
        rates: RateRows::default(),
        cpu: Vec::new(),
        bios: Vec::new(),
        damage,
        kinds: Vec::new(),
    };
    for (_, log) in logs {
        collect(&mut out, log);
    }
    out.kinds.append(&mut kinds);
    out.observations.sort_by_key(Observation::at_ns);
    out.rates.sort();
    out.cpu.sort_by_key(|c| c.to_ns);
    // Windows are half-open: the last completion must lie before the end.
    let last = out.observations.last().map(|o| o.at_ns().saturating_add(1));
    let last = last.max(out.rates.last_ns()).max(out.cpu.last().map(|c| c.to_ns));
    out.meta.end_ns = last;
    note_damage(&mut out);
    Ok(out)
}

/// Puts all logs on one time line and returns its wall clock and monotonic clock.
fn align(logs: &mut [(Kind, Log)], options: ImportOptions) -> (i64, Option<i64>) {
    let first_of = |logs: &[(Kind, Log)], e: Epoch| {
        logs.iter().filter(|(_, l)| l.epoch == e).filter_map(|(_, l)| l.first_ns()).min()
    };
    let unix = first_of(logs, Epoch::Unix);
    let monotonic = first_of(logs, Epoch::Monotonic);
    for (_, log) in logs.iter_mut() {
        match log.epoch {
            Epoch::Unix => log.shift(unix.unwrap_or(0)),
            Epoch::Monotonic => log.shift(monotonic.unwrap_or(0)),
            // A time column that starts below zero would count from before the recording.
            Epoch::Own => log.shift(log.first_ns().unwrap_or(0).min(0)),
        }
    }
    let own = logs.iter().find_map(|(_, l)| l.zero_unix_ns);
    let wall = options.start_unix_ns.or(unix).or(own);
    if wall.is_none()
        && let Some((_, log)) = logs.first_mut()
    {
        log.limit("the log has no date: the recording is dated 1970-01-01 (--start gives it one)");
    }
    (wall.unwrap_or(0), monotonic)
}

fn collect(out: &mut Imported, log: Log) {
    let end = log.ios.iter().map(|io| io.done_ns).max();
    if let (true, Some(to_ns)) = (log.censored > 0, end) {
        let from_ns = log.ios.iter().map(Io::start_ns).min().unwrap_or(to_ns);
        let ios = i64::try_from(log.censored).ok();
        let lost = Lost::somewhere(from_ns, to_ns, LossReason::Censored);
        out.observations.push(Observation::Lost(Lost { ios, ..lost }));
    }
    out.observations.extend(log.ios.into_iter().map(Observation::Io));
    out.observations.extend(log.marks.into_iter().map(Observation::Mark));
    out.rates.append(log.rates);
    out.cpu.extend(log.cpu);
    out.bios.extend(log.bios);
    out.meta.host = out.meta.host.take().or(log.host);
    out.meta.kernel = out.meta.kernel.take().or(log.kernel);
    for l in log.limits {
        if !out.meta.limits.contains(&l) {
            out.meta.limits.push(l);
        }
    }
}

/// Damage is loss: it is stored in the recording too.
fn note_damage(out: &mut Imported) {
    if out.damage.count == 0 {
        return;
    }
    out.meta.limits.push(format!("{} damaged lines or records were left out", out.damage.count));
    // How many I/Os a damaged line stood for is not known: a row of a table stands for any number.
    let lost = Lost::somewhere(0, out.meta.end_ns.unwrap_or(0), LossReason::Import);
    out.observations.push(Observation::Lost(lost));
}
