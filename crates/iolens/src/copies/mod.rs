//! Creates recordings from others: the copies that `serve` keeps, and the output of `cut`, `merge` and `repair`.

mod devices;
pub mod output;
pub mod parts;
pub mod repair;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use iolens_core::model::{
    Device, Lost, Mark, Name, Named, Observation, RecorderCost, RecordingMeta, StoredFinding,
};
use iolens_core::private::Access;
use iolens_core::store::{Recording, RecordingWriter, WriterOptions, put_finding, read_findings};
use iolens_recorder::{devices_from, excerpt_meta, moved};

use devices::learn_devices;

/// The writer's clock advances after this many observations.
const TICK: usize = 4096;

/// How to treat a loss of a known number of I/Os that ends after the copied range. One of an unknown number is always cut to the
/// range: nothing of it can count twice, and no time of it may look idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateLoss {
    /// It counts, cut to the end of the range: nothing is copied after it.
    Cut,
    /// It is left out, because it counts in the later range or copy in which it ends.
    LeftOut,
}

/// A recording that grows by ranges of others. Times are converted to its own start.
#[derive(Debug)]
pub struct RecordingCopy {
    writer: RecordingWriter,
    path: PathBuf,
    start_unix_ns: i64,
    devices: Vec<Device>,
    /// The latest text of each name, if repeated names are dropped.
    names: Option<HashMap<Named, String>>,
    ios: u64,
    late_losses: u64,
    damage: Vec<String>,
}

impl RecordingCopy {
    /// Creates a recording that starts at `start_unix_ns`, with the metadata of `first`.
    ///
    /// # Errors
    /// `path` exists, or a file operation fails.
    pub fn create(
        path: &Path,
        first: &RecordingMeta,
        start_unix_ns: i64,
        options: WriterOptions,
    ) -> Result<RecordingCopy> {
        let meta = excerpt_meta(first, start_unix_ns.saturating_sub(first.start_unix_ns));
        let devices = meta.devices.clone();
        Ok(RecordingCopy {
            writer: RecordingWriter::create(path, meta, options)?,
            path: path.to_owned(),
            start_unix_ns,
            devices,
            names: None,
            ios: 0,
            late_losses: 0,
            damage: Vec::new(),
        })
    }

    /// Drops names at the start of a range that are already known: a part of a recording starts with the names looked
    /// up before it.
    pub fn drop_repeated_names(&mut self) {
        self.names = Some(HashMap::new());
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// I/Os in it.
    pub fn ios(&self) -> u64 {
        self.ios
    }

    /// Number of losses that were left out because they end after their range.
    pub fn late_losses(&self) -> u64 {
        self.late_losses
    }

    /// What could not be read in the ranges, as text.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Adds an observation of its own, with its own time.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn push(&mut self, observation: &Observation) -> Result<()> {
        Ok(self.writer.push(observation)?)
    }

    /// Adds a mark with a text.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn remark(&mut self, at_ns: i64, text: &str) -> Result<()> {
        self.push(&Observation::Mark(Mark {
            at_ns,
            kind: Mark::REMARK.to_owned(),
            text: text.to_owned(),
        }))
    }

    /// Adds the observations in `range` of a recording (in its time), as long as `goes_on` accepts the size on disk.
    /// Returns whether it did to the end.
    ///
    /// # Errors
    /// Reading or writing fails, the disk is full, or `goes_on` fails.
    pub fn add(
        &mut self,
        recording: &Recording,
        range: &Range<i64>,
        late: LateLoss,
        mut goes_on: impl FnMut(u64) -> Result<bool>,
    ) -> Result<bool> {
        let shift_ns = self.shift_ns(recording);
        self.add_devices(recording, shift_ns)?;
        let mut observations = recording.observations(range.clone());
        let mut n = 0usize;
        for o in observations.by_ref() {
            let mut o = o?;
            if let Observation::Lost(lost) = &mut o
                && !self.cut_loss(lost, range, late)
            {
                continue;
            }
            match &o {
                Observation::Name(name) if self.is_repeated(name, range.start) => continue,
                Observation::Io(_) => self.ios += 1,
                _ => {}
            }
            let at_ns = o.at_ns().saturating_sub(shift_ns);
            self.writer.push(&moved(o, shift_ns))?;
            if n.is_multiple_of(TICK) && !self.tick(at_ns, &mut goes_on)? {
                return Ok(false);
            }
            n += 1;
        }
        self.damage.extend(observations.warnings().cloned());
        Ok(true)
    }

    /// Cuts a loss to `range`. Returns whether it is part of the copy.
    ///
    /// A loss with a number of I/Os belongs to the part in which it ends, so that no part counts them twice.
    fn cut_loss(&mut self, lost: &mut Lost, range: &Range<i64>, late: LateLoss) -> bool {
        if lost.to_ns < range.start {
            return false;
        }
        if lost.ios.is_none() {
            return cut_to(lost, range);
        }
        if lost.to_ns >= range.end && late == LateLoss::LeftOut {
            self.late_losses += 1;
            return false;
        }
        lost.to_ns = lost.to_ns.min(range.end);
        true
    }

    /// Writes buffered data, and asks `goes_on` whether to continue.
    ///
    /// # Errors
    /// A file operation fails, the disk is full, or `goes_on` fails.
    pub fn tick(
        &mut self,
        at_ns: i64,
        goes_on: &mut impl FnMut(u64) -> Result<bool>,
    ) -> Result<bool> {
        self.writer.tick(at_ns.max(0))?;
        let status = self.writer.status();
        if status.full {
            bail!("the disk is full");
        }
        goes_on(status.disk_bytes)
    }

    /// How much earlier a recording starts than the copy, in nanoseconds.
    fn shift_ns(&self, recording: &Recording) -> i64 {
        self.start_unix_ns
            .saturating_sub(recording.meta().start_unix_ns)
    }

    /// Whether the name is already known; remembers it.
    fn is_repeated(&mut self, name: &Name, begins_ns: i64) -> bool {
        let Some(names) = &mut self.names else {
            return false;
        };
        let known = names.insert(name.of, name.text.clone());
        name.at_ns == begins_ns && known.as_ref() == Some(&name.text)
    }

    /// Adds the names looked up before `from_ns`, which later I/Os refer to.
    ///
    /// # Errors
    /// Reading or writing fails.
    pub fn add_names_before(&mut self, recording: &Recording, from_ns: i64) -> Result<()> {
        let shift_ns = self.shift_ns(recording);
        let mut newest = HashMap::new();
        for batch in recording.names(i64::MIN..from_ns) {
            newest.extend(batch?.into_iter().map(|name| (name.of, name)));
        }
        for name in newest.into_values() {
            self.is_repeated(&name, i64::MAX);
            self.push(&moved(Observation::Name(name), shift_ns))?;
        }
        Ok(())
    }

    fn add_devices(&mut self, recording: &Recording, shift_ns: i64) -> Result<()> {
        let later = devices_from(&recording.meta().devices, shift_ns);
        // If the recording starts before the copy, all of its time is in the copy.
        let from_ns = shift_ns.saturating_neg().max(0);
        if learn_devices(&mut self.devices, later, from_ns) {
            self.writer.set_devices(self.devices.clone())?;
        }
        Ok(())
    }

    /// Finishes the copy.
    ///
    /// # Errors
    /// A file operation fails.
    pub fn finish(self, end_ns: i64, cost: RecorderCost) -> Result<()> {
        self.writer.finish(end_ns, cost)?;
        Ok(())
    }
}

/// Cuts a loss to `range`, which it touches. Returns whether any of it is left.
fn cut_to(lost: &mut Lost, range: &Range<i64>) -> bool {
    let is_before = lost.from_ns < range.start && lost.to_ns <= range.start;
    lost.from_ns = lost.from_ns.max(range.start);
    lost.to_ns = lost.to_ns.min(range.end);
    !is_before
}

/// Adds the findings of a recording that overlap the finished copy at `path`. Findings are cut at its end, and open
/// ones are closed, because nothing is added to the copy later.
///
/// # Errors
/// Reading or writing them fails.
pub fn add_findings(
    path: &Path,
    access: Access,
    unix_ns: &Range<i64>,
    recording: &Recording,
) -> Result<()> {
    let shift_ns = unix_ns.start.saturating_sub(recording.meta().start_unix_ns);
    let end_ns = unix_ns.end.saturating_sub(unix_ns.start);
    for finding in read_findings(recording.path())? {
        let from_ns = finding.from_ns.saturating_sub(shift_ns);
        let to_ns = finding.to_ns.saturating_sub(shift_ns);
        if to_ns >= 0 && from_ns < end_ns {
            let moved = StoredFinding {
                from_ns: from_ns.max(0),
                to_ns,
                ..finding
            };
            put_finding(path, access, &closed(moved, end_ns))?;
        }
    }
    Ok(())
}

/// Closes the open findings of the finished copy at `path`, which were copied unchanged.
///
/// # Errors
/// Reading or writing them fails.
pub fn close_findings(path: &Path, access: Access, end_ns: i64) -> Result<()> {
    for finding in read_findings(path)? {
        if finding.open || finding.to_ns > end_ns {
            // If the end of the recording is missing, a finding may start after what is left.
            let end_ns = end_ns.max(finding.from_ns);
            put_finding(path, access, &closed(finding, end_ns))?;
        }
    }
    Ok(())
}

/// A finding of a finished copy, which ends with the copy at the latest.
fn closed(finding: StoredFinding, end_ns: i64) -> StoredFinding {
    StoredFinding {
        to_ns: finding.to_ns.min(end_ns),
        open: false,
        ..finding
    }
}
