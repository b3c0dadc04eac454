//! The log that a parser fills, and the result of an import.

use std::path::{Path, PathBuf};

use iolens_core::model::{BioStages, CpuShares, Io, Mark, Observation, RateRows, RecordingMeta};

use super::damage::{Damage, Place};
use super::devices::Devices;
use super::recognise::LogFormat;
use super::text::{Line, Lines};

/// The note for a log without a date.
pub(super) const NO_DATE: &str =
    "the log has no date: the recording is dated 1970-01-01 (--start gives it one)";

/// The note if the log's own value has priority over the user's.
pub(super) const START_NOT_USED: &str = "--start was not used: the log has a date";

/// Values from the user that a log may lack.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Length of an interval in nanoseconds, for tables without time stamps.
    pub interval_ns: Option<i64>,
    /// Wall-clock time of the start, in nanoseconds since the Unix epoch, for logs that have no date, or only a day.
    pub start_unix_ns: Option<i64>,
    /// Make any damaged line an error.
    pub strict: bool,
}

/// The origin of a log's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Epoch {
    /// Its own start, or an arbitrary origin such as that of a table's time column.
    #[default]
    Own,
    /// The machine's monotonic clock, without a start of its own.
    Monotonic,
    /// Seconds or nanoseconds since the Unix epoch.
    Unix,
}

/// The contents of one file.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub file: PathBuf,
    pub options: ImportOptions,
    pub epoch: Epoch,
    /// Single I/Os and marks.
    pub observations: Vec<Observation>,
    pub rates: RateRows,
    pub cpu: Vec<CpuShares>,
    /// Stages of bios, in order of completion.
    pub bios: Vec<BioStages>,
    /// Number of I/Os with only one end in the log.
    pub censored: u64,
    /// Number of I/Os that are missing in the log itself.
    pub lost_ios: u64,
    pub devices: Devices,
    pub damage: Damage,
    pub host: Option<String>,
    pub kernel: Option<String>,
    /// Unix time of the log's zero, if the log contains it.
    pub zero_unix_ns: Option<i64>,
    /// Its epoch is [`Epoch::Unix`], but it has times of day only: they are of 1970-01-01.
    pub is_undated: bool,
    pub limits: Vec<String>,
    /// Why the log may yield nothing, if that is known.
    pub unusable: Option<&'static str>,
}

impl Log {
    pub fn new(file: &Path, options: ImportOptions, shared: Shared) -> Log {
        Log {
            file: file.to_owned(),
            options,
            devices: shared.devices,
            damage: shared.damage,
            ..Log::default()
        }
    }

    /// Takes out the state that is shared by all logs.
    pub fn share(&mut self) -> Shared {
        self.devices.set_host(None);
        Shared {
            devices: std::mem::take(&mut self.devices),
            damage: std::mem::take(&mut self.damage),
        }
    }

    /// The next line; `None` at the end, or if more devices were named than are imported, so that the rest is
    /// useless.
    pub fn next_line<'l>(&self, lines: &'l mut Lines<'_>) -> Option<Line<'l>> {
        if self.devices.too_many() {
            return None;
        }
        lines.next_line()
    }

    pub fn damaged(&mut self, line: u64, why: impl Into<String>) {
        self.damage.line(&self.file, line, why);
    }

    /// Counts a line that was not written by the log's tool.
    pub fn other_line(&mut self, line: u64) {
        self.damage.other(&self.file, line);
    }

    pub fn io(&mut self, io: Io) {
        self.observations.push(Observation::Io(io));
    }

    pub fn mark(&mut self, at_ns: i64, kind: &str, text: String) {
        self.observations.push(Observation::Mark(Mark {
            at_ns,
            kind: kind.to_owned(),
            text,
        }));
    }

    pub fn ios(&self) -> impl Iterator<Item = &Io> {
        self.observations.iter().filter_map(|o| {
            if let Observation::Io(io) = o {
                Some(io)
            } else {
                None
            }
        })
    }

    /// Records a limitation of the source, once.
    pub fn limit(&mut self, text: &str) {
        if !self.limits.iter().any(|l| l == text) {
            self.limits.push(text.to_owned());
        }
    }

    pub fn first_ns(&self) -> Option<i64> {
        let observed = self.observations.iter().map(begin_ns).min();
        let cpu = self.cpu.iter().map(|c| c.from_ns).min();
        [observed, self.rates.first_ns(), cpu]
            .into_iter()
            .flatten()
            .min()
    }

    pub fn last_ns(&self) -> Option<i64> {
        let observed = self.observations.iter().map(Observation::at_ns).max();
        let cpu = self.cpu.iter().map(|c| c.to_ns).max();
        [observed, self.rates.last_ns(), cpu]
            .into_iter()
            .flatten()
            .max()
    }

    /// Shifts all times by `-by_ns`, saturating at the range of the clock.
    pub fn shift(&mut self, by_ns: i64) {
        if by_ns == 0 {
            return;
        }
        for o in &mut self.observations {
            match o {
                Observation::Io(io) => io.done_ns = io.done_ns.saturating_sub(by_ns),
                Observation::Mark(m) => m.at_ns = m.at_ns.saturating_sub(by_ns),
                _ => {}
            }
        }
        self.rates.replace(0..self.rates.len(), |from, to, dev| {
            (from.saturating_sub(by_ns), to.saturating_sub(by_ns), dev)
        });
        for c in &mut self.cpu {
            c.from_ns = c.from_ns.saturating_sub(by_ns);
            c.to_ns = c.to_ns.saturating_sub(by_ns);
        }
        for b in &mut self.bios {
            b.done_ns = b.done_ns.saturating_sub(by_ns);
        }
    }
}

/// Start of an I/O, or time of any other observation.
fn begin_ns(observation: &Observation) -> i64 {
    match observation {
        Observation::Io(io) => io.start_ns(),
        other => other.at_ns(),
    }
}

/// State shared by all logs of an import.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub devices: Devices,
    pub damage: Damage,
}

/// The result of an import, on one time line.
#[derive(Debug)]
pub struct Imported {
    /// Metadata.
    pub meta: RecordingMeta,
    /// Single I/Os, marks and losses, ordered by time.
    pub observations: Vec<Observation>,
    /// Rows of tables, ordered by time.
    pub rates: RateRows,
    /// CPU shares, in order of time.
    pub cpu: Vec<CpuShares>,
    /// Stages of bios in the block layer, in order of completion.
    pub bios: Vec<BioStages>,
    /// What could not be read.
    pub damage: Damage,
    /// Which formats were found.
    pub kinds: Vec<LogFormat>,
}

#[cfg(test)]
impl Imported {
    /// The single I/Os of the import.
    pub fn ios(&self) -> Vec<Io> {
        let io = |o: &Observation| match o {
            Observation::Io(io) => Some(*io),
            _ => None,
        };
        self.observations.iter().filter_map(io).collect()
    }
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{} cannot be read", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The content has no known format; with a description of what it is, if known.
    #[error("{}: not the log of a tool that can be imported{}", .0.display(), .1.as_ref().map_or_else(|| " (iostat, sar -d, /proc/diskstats, fio, blktrace, biosnoop, perf script with block events)".to_owned(), |why| format!(": {why}")))]
    Unknown(PathBuf, Option<String>),
    /// The path is a directory.
    #[error("{}: is a directory; logs are files, and a recording needs no import (iolens report DIR)", .0.display())]
    Directory(PathBuf),
    /// A log that is too large, with the limit in MiB.
    #[error("{}: it has more than {} MiB: import it in parts", .0.display(), .1)]
    TooLarge(PathBuf, u64),
    /// A compressed log that expands by more than this factor.
    #[error("{}: unpacked it has more than {} times its size, which no log has: unpack it and see what it is", .0.display(), .1)]
    TooDense(PathBuf, u64),
    /// It names more devices than any machine has.
    #[error("{}: it names more than {} devices, which no machine has: its names are damaged, or it is the log of many machines, to be imported in parts", .0.display(), .1)]
    TooManyDevices(PathBuf, usize),
    /// The format is known, but the file contains nothing usable.
    #[error("{}: {why}", file.display())]
    Empty {
        /// Path of the file.
        file: PathBuf,
        /// Reason.
        why: String,
    },
    /// Damage with `--strict`.
    #[error("{first} ({count} damaged in all; without --strict the rest is imported)")]
    Damaged {
        /// The first damaged place.
        first: Place,
        /// How many there are.
        count: u64,
    },
}
