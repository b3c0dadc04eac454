//! Opens a recording's directory: lists segments and logs, and finds missing and damaged ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::block::Block;
use super::disk;
use super::error::StoreError;
use super::merge::TableReader;
use super::parquet_read::{ParquetFile, ReadFailure};
use super::reader::lost_block;
use super::row::Row;
use super::schema::Table;
use super::segment;
use super::wal::{self, NewerWal, WalContents};
use crate::model::{LossReason, Lost, RecordingMeta, TableManifest};

/// Maximum rows of a table that is held in memory as a whole (marks, losses): some hundred MiB.
const MAX_SMALL_ROWS: usize = if cfg!(test) { 10_000 } else { 2 << 20 };
/// Up to this many consecutive missing segments get a warning each; more get one together.
const MAX_MISSING: usize = 100;

/// Merges consecutive losses of the same device, class and reason into one that covers both intervals.
pub(super) fn join_losses(losses: &mut Vec<Lost>) {
    let pairs = losses.chunks(2).flat_map(|pair| match pair {
        [a, b] if (a.dev, a.class, a.reason) == (b.dev, b.class, b.reason) => {
            let from_ns = a.from_ns.min(b.from_ns);
            let to_ns = a.to_ns.max(b.to_ns);
            vec![Lost {
                from_ns,
                to_ns,
                ios: sum_if_known(a.ios, b.ios),
                bytes: sum_if_known(a.bytes, b.bytes),
                merges: sum_if_known(a.merges, b.merges),
                ..*a
            }]
        }
        other => other.to_vec(),
    });
    *losses = pairs.collect();
}

/// The sum of two counts, if both are known.
fn sum_if_known(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a?.checked_add(b?)
}

/// A segment's number, if its file has one, and its blocks; `None` if it cannot be read.
type FoundSegment = (Option<u32>, Option<Vec<Block>>);

/// The manifest entry of a table without rows in a finished recording: its range contains no segment number.
const NO_SEGMENTS: TableManifest = TableManifest {
    segments: 0,
    first: 1,
    last: 0,
    rows: 0,
};

/// Number and first time of the first readable segment with a number.
fn first_segment(found: &[FoundSegment]) -> Option<(u32, i64)> {
    found.iter().find_map(|(number, blocks)| {
        let from = blocks.as_ref()?.iter().map(|b| b.min).min()?;
        Some(((*number)?, from))
    })
}

/// The blocks of the segments that can be read.
fn blocks_of(found: &[FoundSegment]) -> impl Iterator<Item = &Block> {
    found
        .iter()
        .filter_map(|(_, blocks)| blocks.as_ref())
        .flatten()
}

/// Reads a segment: the checksums of its columns, if the file has them, and its blocks.
fn read_segment(path: &Path, table: Table) -> Result<(Option<Vec<u32>>, Vec<Block>), ReadFailure> {
    let file = ParquetFile::open(path, table)?;
    let crcs = file.crcs().map(<[u32]>::to_vec);
    Ok((crcs, Block::of_file(file)?))
}

/// A segment's number and its log.
pub(super) type Log = (u32, PathBuf, WalContents);

/// The state of opening a recording.
pub(super) struct Opening<'a> {
    pub dir: &'a Path,
    pub damage: Vec<Lost>,
    pub warnings: Vec<String>,
    /// Number and first time of the first readable segment of I/Os.
    pub first_ios: Option<(u32, i64)>,
}

impl Opening<'_> {
    /// Names in a directory, in order; none if it is not there.
    fn names(&self, dir: &Path) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| StoreError::io(dir, "read", e))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io(dir, "read", e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Reads all rows of a small table and notes damage. `shrink` merges rows when there are very many.
    pub fn read_all<R: Row>(
        &mut self,
        blocks: &[Block],
        shrink: fn(&mut Vec<R>),
    ) -> Result<Vec<R>, StoreError> {
        let mut reader = TableReader::new(blocks, i64::MIN..i64::MAX, u64::MAX);
        let mut rows = Vec::new();
        for batch in &mut reader {
            rows.extend(batch?);
            if rows.len() > MAX_SMALL_ROWS {
                shrink(&mut rows);
            }
            if rows.len() > MAX_SMALL_ROWS {
                let path = self.dir.join(R::TABLE.name());
                let what = format!("more than {MAX_SMALL_ROWS} rows, which no recorder writes");
                return Err(StoreError::Damaged { path, what });
            }
        }
        reader
            .damage()
            .iter()
            .for_each(|l| self.lose(R::TABLE, l.from_ns, l.to_ns, l.ios));
        self.warnings.extend_from_slice(reader.warnings());
        Ok(rows)
    }

    pub fn read_logs(&mut self) -> Result<BTreeMap<Table, Vec<Log>>, StoreError> {
        let dir = self.dir.join("wal");
        let mut logs: BTreeMap<Table, Vec<Log>> = BTreeMap::new();
        for name in self.names(&dir)? {
            let Some(named) = wal::parse_name(&name) else {
                continue;
            };
            let path = dir.join(&name);
            let bytes = match disk::read_regular(&path, wal::MAX_FILE_BYTES) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|e| StoreError::io(&path, "read", e))?,
            };
            let contents =
                wal::scan(&bytes).map_err(|NewerWal(v)| StoreError::newer(&path, v.into()))?;
            if contents.header != Some(named) && bytes.len() >= wal::FILE_HEADER {
                self.warnings.push(format!(
                    "{}: the header is damaged; its name says enough",
                    path.display()
                ));
            }
            logs.entry(named.0)
                .or_default()
                .push((named.1, path, contents));
        }
        Ok(logs)
    }

    /// All blocks of a table: its Parquet files, and the logs of segments that have none.
    pub fn read_table(
        &mut self,
        table: Table,
        logs: Vec<Log>,
        manifest: Option<&BTreeMap<String, TableManifest>>,
    ) -> Result<Vec<Block>, StoreError> {
        let manifest =
            manifest.map(|tables| tables.get(table.name()).copied().unwrap_or(NO_SEGMENTS));
        let mut found = self.find_segments(table, manifest, &logs)?;

        // A log is used only while its segment has no readable file, because both hold the same rows.
        let whole: BTreeSet<u32> = found
            .iter()
            .filter(|(_, blocks)| blocks.is_some())
            .filter_map(|(number, _)| *number)
            .collect();
        for (number, path, contents) in logs {
            if !whole.contains(&number) {
                found.push((Some(number), Some(self.log_blocks(table, path, contents))));
            }
        }

        // Then the segments that should exist but do not.
        self.add_missing(table, manifest, &mut found);
        self.note_holes(table, manifest, &found);
        if table == Table::Io {
            self.first_ios = first_segment(&found);
        }
        Ok(found
            .into_iter()
            .filter_map(|(_, blocks)| blocks)
            .flatten()
            .collect())
    }

    /// Reads the Parquet files of a table in the order of their names.
    fn find_segments(
        &mut self,
        table: Table,
        manifest: Option<TableManifest>,
        logs: &[Log],
    ) -> Result<Vec<FoundSegment>, StoreError> {
        let dir = self.dir.join(table.name());
        let mut found: Vec<FoundSegment> = Vec::new();
        // Checksums of all columns, including times: equal ones mean a copy of the same segment.
        let mut seen: HashMap<Vec<u32>, String> = HashMap::new();
        for name in self.names(&dir)? {
            if !name.ends_with(".parquet") {
                continue;
            }
            let path = dir.join(&name);
            let number = segment::parse_name(&name);

            // The manifest of a finished recording lists its segments.
            let is_listed =
                manifest.is_none_or(|m| number.is_some_and(|n| (m.first..=m.last).contains(&n)));
            if !is_listed {
                self.warnings.push(format!(
                    "{}: not a part of the recording as it was finished; left out",
                    path.display()
                ));
                continue;
            }

            match read_segment(&path, table) {
                Ok((crcs, blocks)) => {
                    if let Some(same) = crcs.as_ref().and_then(|crcs| seen.get(crcs)) {
                        self.warnings.push(format!(
                            "{}: holds the same rows as {same}; they count once",
                            path.display()
                        ));
                        found.push((number, None));
                        continue;
                    }
                    found.push((number, Some(blocks)));
                    if let Some(crcs) = crcs {
                        seen.insert(crcs, name);
                    }
                }
                Err(ReadFailure::Gone) => {}
                Err(ReadFailure::Fatal(e)) => return Err(e),
                Err(ReadFailure::Damage(what)) => {
                    self.warnings.push(format!(
                        "{}: damaged: {what}; its rows are missing",
                        path.display()
                    ));
                    // If the segment still has a log, the log replaces the damaged file.
                    if !logs.iter().any(|(n, ..)| Some(*n) == number) {
                        found.push((number, None));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Notes missing I/Os before the first segment of an unfinished recording, whose description has no manifest.
    /// Segments removed by the size limit are recorded in `lost`; anything else that removed them left no record.
    pub fn note_missing_beginning(&mut self, meta: &RecordingMeta, lost: &[Lost]) {
        let ours = meta
            .writer
            .as_deref()
            .is_some_and(|w| w.starts_with("iolens "));
        let by_size_limit = lost.iter().any(|l| l.reason == LossReason::Retention);
        let Some((first, from_ns)) = self.first_ios.filter(|(first, _)| *first > 1) else {
            return;
        };
        if !ours || by_size_limit || meta.tables.is_some() {
            return;
        }
        let place = self.dir.join(Table::Io.name());
        let place = place.join(segment::file_name(1)).display().to_string();
        self.warnings.push(match first - 1 {
            1 => format!("{place}: is missing, with its rows"),
            n => format!(
                "{place} and {} segments after it: are missing, with their rows",
                n - 1
            ),
        });
        self.lose(Table::Io, 0, from_ns, None);
    }

    fn log_blocks(&mut self, table: Table, path: PathBuf, log: WalContents) -> Vec<Block> {
        let frames = log.frames;
        for d in &log.damage {
            let rows = d
                .known
                .map_or("an unknown number of".to_owned(), |(rows, ..)| {
                    rows.to_string()
                });
            let what = match d.bytes {
                0 => format!("frames before offset {} are missing or doubled", d.offset),
                n => format!("{n} bytes at offset {} are damaged", d.offset),
            };
            let place = format!("{}: {what}", path.display());
            self.warnings.push(format!(
                "{place}; {rows} rows of {} are missing",
                table.name()
            ));
            let from = d.after_frames.checked_sub(1).map_or(0, |i| frames[i].max);
            let to = frames.get(d.after_frames).map_or(i64::MAX, |f| f.min);
            let (from, to, rows) = d
                .known
                .map_or((from, to.max(from), None), |(rows, min, max)| {
                    (min, max, Some(rows))
                });
            self.lose(table, from, to, rows.map(i64::from));
        }
        if let Some((offset, bytes)) = log.torn {
            let place = format!(
                "{}: the last write, at offset {offset}, stops after {bytes} bytes",
                path.display()
            );
            self.warnings.push(format!(
                "{place}: the recorder was killed, or is writing now"
            ));
        }
        Block::of_log(frames, path).into_iter().collect()
    }

    /// Adds segments that must exist but do not: those in the manifest, or without one those between the first and the
    /// last found. If any file has a name of another form, nothing can be concluded.
    fn add_missing(
        &mut self,
        table: Table,
        manifest: Option<TableManifest>,
        found: &mut Vec<FoundSegment>,
    ) {
        let numbers: Option<BTreeSet<u32>> = found.iter().map(|(number, _)| *number).collect();
        let Some(numbers) = numbers else { return };
        let range = manifest
            .map(|m| (m.first, m.last))
            .or(numbers.first().copied().zip(numbers.last().copied()));
        let Some((first, last)) = range else { return };
        let mut next = u64::from(first);
        // Goes through the gaps rather than the numbers: a file name may contain any number.
        for number in numbers
            .range(first..=last)
            .map(|n| u64::from(*n))
            .chain([u64::from(last) + 1])
        {
            let gap: Vec<u32> = (next..number)
                .take(MAX_MISSING + 1)
                .filter_map(|n| u32::try_from(n).ok())
                .collect();
            if gap.len() > MAX_MISSING {
                let path = self.segment_path(table, gap[0]);
                let more = number - next - 1;
                self.warnings.push(format!(
                    "{} and {more} segments after it: are missing, with their rows",
                    path.display()
                ));
                found.push((Some(gap[0]), None));
            } else {
                for missing in gap {
                    let path = self.segment_path(table, missing);
                    self.warnings
                        .push(format!("{}: is missing, with its rows", path.display()));
                    found.push((Some(missing), None));
                }
            }
            next = number + 1;
        }
        found.sort_by_key(|(number, _)| *number);
    }

    fn segment_path(&self, table: Table, number: u32) -> PathBuf {
        self.dir.join(table.name()).join(segment::file_name(number))
    }

    /// Notes a loss for files that are missing or unreadable; their rows lie between those of their neighbours. The
    /// number of rows is known only if the manifest has the total and there is a single hole.
    fn note_holes(
        &mut self,
        table: Table,
        manifest: Option<TableManifest>,
        found: &[FoundSegment],
    ) {
        let rows: usize = blocks_of(found).map(|b| b.rows).sum();
        let missing = manifest.map(|m| m.rows as i64 - rows as i64);
        // Consecutive missing segments make one hole.
        let mut holes = Vec::new();
        for (i, (_, blocks)) in found.iter().enumerate() {
            let continues_hole = i > 0 && found[i - 1].1.is_none();
            if blocks.is_none() && !continues_hole {
                holes.push(i);
            }
        }
        for i in &holes {
            let before = blocks_of(&found[..*i]).map(|b| b.max).max();
            let after = blocks_of(&found[*i..]).map(|b| b.min).min();
            let from = before.unwrap_or(0);
            let to = after.unwrap_or(i64::MAX).max(from);
            self.lose(
                table,
                from,
                to,
                missing.filter(|n| holes.len() == 1 && *n > 0),
            );
        }
        // All files are present and readable, but they hold more or fewer rows than the manifest says.
        if let Some(missing) = missing.filter(|n| *n != 0 && holes.is_empty()) {
            let dir = self.dir.display();
            let name = table.name();
            let what = if missing > 0 { "fewer" } else { "more" };
            self.warnings.push(format!(
                "{dir}: {name} has {} rows {what} than when it was finished",
                missing.abs()
            ));
            self.lose(table, 0, i64::MAX, Some(missing).filter(|n| *n > 0));
        }
    }

    /// Notes damage as a loss. Only tables `io` and `lost` count: a damaged block of `lost` may have contained losses
    /// of I/Os.
    fn lose(&mut self, table: Table, from: i64, to: i64, rows: Option<i64>) {
        match table {
            Table::Io => self
                .damage
                .push(lost_block(from, to, rows, LossReason::Corrupt)),
            Table::Lost => self
                .damage
                .push(lost_block(from, to, None, LossReason::Corrupt)),
            // The number of requests in a block does not tell how many block I/Os there were.
            Table::Counters
            | Table::Marks
            | Table::Requests
            | Table::Names
            | Table::Pressure
            | Table::Cgroups => {}
        }
    }
}
