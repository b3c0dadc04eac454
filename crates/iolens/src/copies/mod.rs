//! Recordings that are written anew from others: what `serve` keeps, and what `cut`, `merge` and `repair` make.

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
    Device, Mark, Name, Named, Observation, RecorderCost, RecordingMeta, StoredFinding,
};
use iolens_core::private::Access;
use iolens_core::store::{Recording, RecordingWriter, WriterOptions, put_finding, read_findings};
use iolens_recorder::{devices_from, excerpt_meta, moved};

use devices::learn_devices;

/// The writer's clock is fed after so many observations.
const TICK: usize = 4096;

/// What becomes of a loss that ends after the range that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateLoss {
    /// It counts, and ends with the range: nothing is copied after it.
    Cut,
    /// It counts where it ends, in a later range or in another copy.
    LeftOut,
}

/// A recording that grows by ranges of others. Times are moved to its own start.
#[derive(Debug)]
pub struct RecordingCopy {
    writer: RecordingWriter,
    path: PathBuf,
    start_unix_ns: i64,
    devices: Vec<Device>,
    /// The newest text of each name, where names are looked at.
    names: Option<HashMap<Named, String>>,
    ios: u64,
    late_losses: u64,
    damage: Vec<String>,
}

impl RecordingCopy {
    /// Begins one that starts at `start_unix_ns`, described as `first`.
    ///
    /// # Errors
    /// There is something at `path`, or the file system refuses.
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

    /// From now on leaves out a name at the very beginning of a range that says what is known already: a part of a recording
    /// begins with what was looked up before it.
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

    /// Losses that were left out because they end after their range.
    pub fn late_losses(&self) -> u64 {
        self.late_losses
    }

    /// What could not be read of the ranges, in words.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Adds an observation of its own, in its own time.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn push(&mut self, observation: &Observation) -> Result<()> {
        Ok(self.writer.push(observation)?)
    }

    /// Adds a remark.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn remark(&mut self, at_ns: i64, text: &str) -> Result<()> {
        self.push(&Observation::Mark(Mark {
            at_ns,
            kind: Mark::REMARK.to_owned(),
            text: text.to_owned(),
        }))
    }

    /// Adds what was observed in `range` of a recording (in its time), as long as `goes_on` agrees to what the copy takes of
    /// the disk; whether it did to the end.
    ///
    /// # Errors
    /// Something cannot be read or written, the disk is full, or `goes_on` fails.
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
            match &mut o {
                // One that ends right before the range touches it.
                Observation::Lost(lost) if lost.to_ns < range.start => continue,
                Observation::Lost(lost) if lost.to_ns >= range.end => {
                    if late == LateLoss::LeftOut {
                        self.late_losses += 1;
                        continue;
                    }
                    lost.to_ns = range.end;
                }
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

    /// Writes what waits, and asks whether to go on.
    ///
    /// # Errors
    /// The file system refuses, the disk is full, or `goes_on` fails.
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

    /// How much earlier a recording's start is than that of the copy.
    fn shift_ns(&self, recording: &Recording) -> i64 {
        self.start_unix_ns
            .saturating_sub(recording.meta().start_unix_ns)
    }

    /// Whether a name says what is known already; remembers it.
    fn is_repeated(&mut self, name: &Name, begins_ns: i64) -> bool {
        let Some(names) = &mut self.names else {
            return false;
        };
        let known = names.insert(name.of, name.text.clone());
        name.at_ns == begins_ns && known.as_ref() == Some(&name.text)
    }

    /// Adds what was looked up before `from_ns`: it names what comes then.
    ///
    /// # Errors
    /// Something cannot be read or written.
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
        // A recording that begins before the copy has all of its time.
        let from_ns = shift_ns.saturating_neg().max(0);
        if learn_devices(&mut self.devices, later, from_ns) {
            self.writer.set_devices(self.devices.clone())?;
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish(self, end_ns: i64, cost: RecorderCost) -> Result<()> {
        self.writer.finish(end_ns, cost)?;
        Ok(())
    }
}

/// Adds the findings of a recording that are of the time of the finished copy at `path`. What reaches beyond its end ends with
/// it, and what had not ended has: nothing is added to the copy later.
///
/// # Errors
/// They cannot be read or written.
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

/// Closes the findings of the finished copy at `path`, which were copied as they were.
///
/// # Errors
/// They cannot be read or written.
pub fn close_findings(path: &Path, access: Access, end_ns: i64) -> Result<()> {
    for finding in read_findings(path)? {
        if finding.open || finding.to_ns > end_ns {
            // Where the end of the recording is missing, a finding may begin after what is left.
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
