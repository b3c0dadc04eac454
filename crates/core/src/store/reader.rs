//! Opening a recording, finished, crashed or still being written, without changing a byte of it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::block::Block;
use super::disk;
use super::error::StoreError;
use super::merge::TableReader;
use super::meta_file;
use super::open_requests;
use super::opening::{Opening, join_losses};
use super::row::Row;
use super::schema::Table;
use super::stream::Observations;
use super::tables::io::IoColumns;
use crate::model::{
    CgroupSample, Comm, CounterSample, Io, LossReason, Lost, Mark, Name, Named, PressureSample,
    RecordingMeta, Request, Settings,
};

/// A recording, open for reading.
#[derive(Debug)]
pub struct Recording {
    pub(super) path: PathBuf,
    pub(super) meta: RecordingMeta,
    pub(super) blocks: [Vec<Block>; Table::COUNT],
    pub(super) end_ns: i64,
    pub(super) disk_bytes: u64,
    /// Recorded losses and blocks found damaged on opening, ordered by their ends.
    pub(super) lost: Vec<Lost>,
    pub(super) marks: Vec<Mark>,
    pub(super) warnings: Vec<String>,
    pub(super) hides_names: bool,
}

impl Recording {
    /// Whether there is a recording in directory `path`, whole or damaged.
    pub fn is_at(path: &Path) -> bool {
        meta_file::is_in(path)
    }

    /// Opens the recording in directory `path`, reading its description, the footers of its Parquet files, its logs,
    /// losses and marks. Never writes. A recording that is still being written can be opened too: what is seen is its
    /// state now.
    pub fn open(path: &Path) -> Result<Recording, StoreError> {
        let (meta, warning) = meta_file::read(path)?;
        Recording::open_as(path, meta, warning)
    }

    /// Opens the recording in `path`, described by `meta`.
    pub(super) fn open_as(
        path: &Path,
        meta: RecordingMeta,
        warning: Option<String>,
    ) -> Result<Recording, StoreError> {
        let mut opening = Opening {
            dir: path,
            damage: Vec::new(),
            warnings: Vec::new(),
            first_ios: None,
        };
        opening.warnings.extend(warning);

        // Read logs first: a segment that is closed in between is then found twice rather than not at all.
        let mut logs = opening.read_logs()?;
        let mut blocks: [Vec<Block>; Table::COUNT] = Default::default();
        for table in Table::ALL {
            let logs = logs.remove(&table).unwrap_or_default();
            blocks[table as usize - 1] = opening.read_table(table, logs, meta.tables.as_ref())?;
        }
        // Requests that were open when the recorder was killed are in a separate file.
        let mut open_known = 0;
        if meta.end_ns.is_none() {
            let requests = &mut blocks[Table::Requests as usize - 1];
            let open = open_requests::read(path, requests)?;
            open_known = open.as_ref().map_or(0, |b| b.rows);
            requests.extend(open);
        }

        let mut marks: Vec<Mark> = opening.read_all(&blocks[Table::Marks as usize - 1], |_| {})?;
        let mut lost: Vec<Lost> =
            opening.read_all(&blocks[Table::Lost as usize - 1], join_losses)?;
        opening.note_missing_beginning(&meta, &lost);
        let end_ns = end_of(&meta, &blocks);
        let Opening {
            damage, warnings, ..
        } = opening;

        // A killed recorder left a mark with the number of open requests. Those not found above are lost.
        let open = marks
            .extract_if(.., |m| m.kind == Mark::OPEN_REQUESTS)
            .last();
        if meta.end_ns.is_none()
            && let Some(open) = open
        {
            lost.extend(never_closed(&open, open_known, end_ns));
        }
        for mut hole in damage {
            // A hole after the last block extends to the end of the recording.
            if hole.to_ns == i64::MAX {
                hole.to_ns = end_ns.max(hole.from_ns);
            }
            lost.push(hole);
        }
        lost.sort_by_key(|l| l.to_ns);
        let disk_bytes = disk::bytes_below(path);
        Ok(Recording {
            path: path.to_owned(),
            meta,
            blocks,
            end_ns,
            disk_bytes,
            lost,
            marks,
            warnings,
            hides_names: false,
        })
    }

    /// The directory it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recording's metadata.
    pub fn meta(&self) -> &RecordingMeta {
        &self.meta
    }

    /// End of the recording in nanoseconds since its start: as stored at its end, or else the last observation. Never
    /// before the last I/O.
    pub fn end_ns(&self) -> i64 {
        self.end_ns
    }

    /// Moves the end to `end_ns`, if that is later and no end is stored. For recorders that know to have stored
    /// everything up to then: a growing recording otherwise ends with its last observation, and an idle disk produces
    /// none.
    pub fn extend_to(&mut self, end_ns: i64) {
        if self.meta.end_ns.is_none() {
            self.end_ns = self.end_ns.max(end_ns);
        }
    }

    /// Bytes of all its files.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Rows of the `io` table, without the blocks found damaged on opening.
    pub fn ios_stored(&self) -> u64 {
        self.blocks(Table::Io).iter().map(|b| b.rows as u64).sum()
    }

    /// Messages about damage found on opening, with file and offset. Reading may find more: see
    /// [`BatchReader::warnings`].
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn blocks(&self, table: Table) -> &[Block] {
        &self.blocks[table as usize - 1]
    }

    /// The rows of a table in `range`; `hide` leaves out names.
    fn rows<R: Row>(
        &self,
        range: Range<i64>,
        selected: u64,
        hide: fn(&mut Vec<R>),
    ) -> BatchReader<R> {
        BatchReader {
            rows: TableReader::new(self.blocks(R::TABLE), range, selected),
            hide: self.hides_names.then_some(hide),
        }
    }

    /// The I/Os that completed in `range` (nanoseconds since the start, half-open), in order of completion.
    pub fn ios(&self, range: Range<i64>, columns: IoColumns) -> BatchReader<Io> {
        self.rows(range, columns.0.into(), |batch| {
            let names = batch.iter_mut().map(|io| &mut io.comm);
            names.for_each(hide_program);
        })
    }

    /// Like [`Recording::ios`], with the names of processes even where names are hidden, for analyses that group I/Os
    /// by program. The output must leave names out where [`Recording::hides_names`] is set.
    pub fn identified_ios(&self, range: Range<i64>, columns: IoColumns) -> BatchReader<Io> {
        BatchReader {
            hide: None,
            ..self.ios(range, columns)
        }
    }

    /// The counter samples taken in `range`, in order. Samples equal to the device's previous one are not stored,
    /// except for the last one before a change.
    pub fn counters(&self, range: Range<i64>) -> BatchReader<CounterSample> {
        self.rows(range, u64::MAX, |_| ())
    }

    /// The file-level requests that ended in `range`, in order of their ends.
    pub fn requests(&self, range: Range<i64>) -> BatchReader<Request> {
        self.rows(range, u64::MAX, |batch| {
            let names = batch.iter_mut().map(|request| &mut request.comm);
            names.for_each(hide_program);
        })
    }

    /// The names recorded in `range`, ordered by [`Name::at_ns`]. A file whose first I/O was before `range` may have
    /// its name only there.
    pub fn names(&self, range: Range<i64>) -> BatchReader<Name> {
        self.rows(range, u64::MAX, |batch| {
            batch.retain(|name| matches!(name.of, Named::Cgroup(_) | Named::Pod(_)));
        })
    }

    /// CPU and I/O pressure of the host, in intervals that end in `range`. Empty in recordings of versions that did not
    /// sample it.
    pub fn pressure(&self, range: Range<i64>) -> BatchReader<PressureSample> {
        self.rows(range, u64::MAX, |_| ())
    }

    /// Settings of the machine when the recording began. Empty in imports and in recordings of versions that did not
    /// read them.
    pub fn settings(&self) -> &Settings {
        static UNKNOWN: LazyLock<Settings> = LazyLock::new(Settings::default);
        self.meta.settings.as_ref().unwrap_or(&UNKNOWN)
    }

    /// Limits of the control groups with I/O, read in `range`, about every ten seconds for each group.
    pub fn cgroups(&self, range: Range<i64>) -> BatchReader<CgroupSample> {
        self.rows(range, u64::MAX, |_| ())
    }

    /// Rows of the `requests` table.
    pub fn requests_stored(&self) -> u64 {
        self.blocks(Table::Requests)
            .iter()
            .map(|b| b.rows as u64)
            .sum()
    }

    /// The losses whose interval touches `range`, ordered by their end: recorded losses, and the damaged blocks that
    /// [`Recording::open`] found. Damage found while reading is returned by [`BatchReader::damage`].
    pub fn lost(&self, range: Range<i64>) -> Vec<Lost> {
        self.lost
            .iter()
            .filter(|l| l.to_ns >= range.start && l.from_ns < range.end)
            .copied()
            .collect()
    }

    /// The time of which the size limit removed the I/Os, in order: of each stretch the first to the last I/O that is gone. The
    /// oldest I/Os go first, so removals between which none is stored are one stretch.
    pub fn removed(&self) -> Vec<Lost> {
        let mut removals: Vec<Lost> = self.lost.clone();
        removals.retain(|l| l.reason == LossReason::Retention);
        removals.sort_by_key(|l| l.from_ns);
        let blocks = self.blocks(Table::Io);
        let first_stored_ns = blocks.iter().map(|b| b.min).min().unwrap_or(i64::MAX);
        let mut removed: Vec<Lost> = Vec::new();
        for lost in &removals {
            let Some(last) = removed.last_mut() else {
                removed.push(*lost);
                continue;
            };
            // Only a recording that was merged of others has I/Os before a removal.
            let may_be_apart = first_stored_ns < lost.from_ns && last.to_ns < lost.from_ns;
            let are_apart = may_be_apart
                && blocks
                    .iter()
                    .any(|b| b.max > last.to_ns && b.min < lost.from_ns);
            if are_apart {
                removed.push(*lost);
            } else {
                last.add(lost);
            }
        }
        removed
    }

    /// The marks set in `range`, in order.
    pub fn marks(&self, range: Range<i64>) -> Vec<Mark> {
        let mut marks: Vec<Mark> = self
            .marks
            .iter()
            .filter(|m| range.contains(&m.at_ns))
            .cloned()
            .collect();
        if self.hides_names {
            // Remarks of users and of findings may contain any name.
            let remarks = marks.iter_mut().filter(|m| m.kind == Mark::REMARK);
            remarks.for_each(|m| m.text.clear());
        }
        marks
    }

    /// From now on leaves out names of files and of processes (except kernel threads), mount points, remarks and the
    /// command line: for users who may not read the recording itself.
    pub fn hide_names(&mut self) {
        self.hides_names = true;
        self.meta.options.clear();
        if let Some(settings) = &mut self.meta.settings {
            settings.hide_names();
        }
    }

    /// Whether names are left out.
    pub fn hides_names(&self) -> bool {
        self.hides_names
    }

    /// Everything that was observed in `range`, in order of [`crate::model::Observation::at_ns`]. Damaged blocks
    /// appear as losses.
    pub fn observations(&self, range: Range<i64>) -> Observations {
        let lost = self.lost(range.clone());
        let marks = self.marks(range.clone());
        Observations {
            ios: self.ios(range.clone(), IoColumns::ALL).into(),
            counters: self.counters(range.clone()).into(),
            requests: self.requests(range.clone()).into(),
            names: self.names(range.clone()).into(),
            pressure: self.pressure(range.clone()).into(),
            cgroups: self.cgroups(range).into(),
            lost: lost.into(),
            marks: marks.into(),
            damage_seen: 0,
            failed: false,
        }
    }
}

/// End of a recording in nanoseconds since its start: as stored in its description, or else the last observation. Never
/// before its last I/O, even if a foreign description says so.
fn end_of(meta: &RecordingMeta, blocks: &[Vec<Block>; Table::COUNT]) -> i64 {
    let last = blocks.iter().flatten().map(|b| b.max).max().unwrap_or(0);
    let last_io = blocks[Table::Io as usize - 1]
        .iter()
        .map(|b| b.max)
        .max()
        .unwrap_or(i64::MIN);
    // A recording with an I/O has a length greater than 0, even if the I/O completed at its very start.
    let least = if last_io == 0 { 1 } else { last_io };
    meta.end_ns.unwrap_or(last).max(least)
}

/// Loss of the requests that were open when the recorder was killed (or are open now, if it still runs) and are not
/// among the `known` ones found in the file of open requests.
fn never_closed(mark: &Mark, known: usize, end_ns: i64) -> Option<Lost> {
    let n = mark
        .text
        .parse::<i64>()
        .ok()
        .map(|n| n - known as i64)
        .filter(|n| *n > 0)?;
    let to_ns = end_ns.max(mark.at_ns);
    Some(lost_block(
        mark.at_ns,
        to_ns,
        Some(n),
        LossReason::RequestUnwritten,
    ))
}

/// Removes the name of a program. Names of kernel threads stay.
fn hide_program(comm: &mut Option<Comm>) {
    *comm = comm.filter(Comm::is_of_kernel);
}

/// Iterator over batches of a table's rows in time order. Damaged blocks are skipped and reported. A skipped block of
/// counters only makes the interval between two samples longer.
pub struct BatchReader<R> {
    rows: TableReader<R>,
    hide: Option<fn(&mut Vec<R>)>,
}

impl<R> BatchReader<R> {
    /// The damaged blocks found so far, as losses with reason [`LossReason::Corrupt`].
    pub fn damage(&self) -> &[Lost] {
        self.rows.damage()
    }

    /// The damaged blocks found so far, as messages with file names.
    pub fn warnings(&self) -> &[String] {
        self.rows.warnings()
    }
}

impl BatchReader<Io> {
    /// Lower bound of the start of all I/Os that are still to come, in nanoseconds since the recording's start, if the
    /// files' statistics are correct. `i64::MIN` if not known, `i64::MAX` if no more I/Os come.
    pub fn later_start_ns(&self) -> i64 {
        self.rows.later_start()
    }
}

impl<R: Row> Iterator for BatchReader<R> {
    type Item = Result<Vec<R>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.rows.next();
        if let (Some(Ok(batch)), Some(hide)) = (&mut next, self.hide) {
            hide(batch);
        }
        next
    }
}

pub(crate) fn lost_block(from_ns: i64, to_ns: i64, ios: Option<i64>, reason: LossReason) -> Lost {
    Lost {
        ios,
        ..Lost::somewhere(from_ns, to_ns, reason)
    }
}
