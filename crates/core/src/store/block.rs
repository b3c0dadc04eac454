//! Blocks: the units that are read, skipped or lost as a whole. A block is a row group of a Parquet file, or the log of
//! a segment.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::column::{Column, Ints};
use super::disk;
use super::error::StoreError;
use super::frame::FrameColumns;
use super::parquet_read::{ColumnChunk, ParquetFile, ReadFailure, guarded};
use super::row::Row;
use super::schema::Table;
use super::wal::Frame;

/// Rows that a cursor decodes at a time.
const BATCH: usize = 2048;

/// Maximum rows of a row group that is read. A reader keeps their times, which take 128 MiB at this size.
const MAX_GROUP_ROWS: usize = 16 << 20;
/// Maximum rows of a row group that is not ordered by time, and so is held in memory to be sorted: some hundred MiB.
const MAX_UNSORTED_ROWS: usize = if cfg!(test) { 10_000 } else { 4 << 20 };

/// Where a block's rows are.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Group(Arc<ParquetFile>, usize),
    Log(Arc<Vec<Frame>>, PathBuf),
}

/// A block of one table.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub place: Place,
    /// First and last time of its rows.
    pub min: i64,
    pub max: i64,
    pub rows: usize,
    /// Nanoseconds added to the times of its rows, for a recording that continues another.
    pub shift_ns: i64,
    /// Time range outside of which rows are skipped; `None`: all rows are read.
    pub only: Option<(i64, i64)>,
    /// Bit set of optional columns that are not read because they are damaged.
    pub left_out: u64,
    /// Upper bound of the duration of a row: no row began longer before its time than this. `None` if not known.
    pub longest: Option<i64>,
}

impl Block {
    /// The row groups of a file.
    pub fn of_file(file: ParquetFile) -> Result<Vec<Block>, ReadFailure> {
        let file = Arc::new(file);
        if let Some(rows) = (0..file.row_groups())
            .map(|g| file.rows(g))
            .find(|rows| *rows > MAX_GROUP_ROWS)
        {
            return Err(ReadFailure::Damage(format!(
                "a row group of {rows} rows; at most {MAX_GROUP_ROWS} are read"
            )));
        }
        let groups = (0..file.row_groups()).filter(|g| file.rows(*g) > 0);
        groups
            .map(|group| {
                let (min, max) = match file.time_bounds(group) {
                    Some(bounds) => bounds,
                    None => guarded(|| read_bounds(&file, group))?,
                };
                let longest = file.most(group, file.table.length_columns());
                Ok(Block {
                    min,
                    max,
                    rows: file.rows(group),
                    longest,
                    shift_ns: 0,
                    only: None,
                    left_out: 0,
                    place: Place::Group(file.clone(), group),
                })
            })
            .collect()
    }

    /// The frames of a log.
    pub fn of_log(frames: Vec<Frame>, path: PathBuf) -> Option<Block> {
        let min = frames.iter().map(|f| f.min).min()?;
        let max = frames.iter().map(|f| f.max).max()?;
        let rows = frames.iter().map(|f| f.rows as usize).sum();
        Some(Block {
            min,
            max,
            rows,
            longest: None,
            shift_ns: 0,
            only: None,
            left_out: 0,
            place: Place::Log(Arc::new(frames), path),
        })
    }

    /// Computes the longest duration in a log, by reading its rows: logs have no statistics. They hold only the last
    /// minutes.
    pub fn measure_log(&mut self, table: Table) {
        if let Place::Log(frames, _) = &self.place
            && self.longest.is_none()
        {
            self.longest = longest_in_log(frames, table).ok();
        }
    }

    /// Lower bound of the start of this block's rows at or after `time`; `i64::MIN` if not known.
    pub fn began(&self, time: i64) -> i64 {
        self.longest
            .map_or(i64::MIN, |longest| time.saturating_sub(longest))
    }

    /// Path and row group, for messages.
    pub fn describe(&self) -> String {
        match &self.place {
            Place::Group(file, 0) if file.row_groups() == 1 => file.path.display().to_string(),
            Place::Group(file, group) => format!("{}, row group {group}", file.path.display()),
            Place::Log(_, path) => path.display().to_string(),
        }
    }

    /// Starts reading the rows of `range`, with the optional columns that `selected` accepts.
    pub fn open<R: Row>(
        &self,
        range: &Range<i64>,
        selected: &impl Fn(usize) -> bool,
    ) -> Result<Cursor<R>, ReadFailure> {
        let selected = |i: usize| {
            R::TABLE.columns()[i].required || (selected(i) && self.left_out & 1 << i == 0)
        };
        let range = &self.own_range(range);
        let mut cursor = match &self.place {
            Place::Group(file, group) => {
                guarded(|| open_group(file, *group, self.rows, range, selected))?
            }
            Place::Log(frames, path) => open_log(frames, path, range, selected)?,
        };
        cursor.shift(self.shift_ns);
        Ok(cursor)
    }

    /// Converts `range` to the time of the block's file and clips it to the rows that are not skipped.
    fn own_range(&self, range: &Range<i64>) -> Range<i64> {
        let (from, to) = self.only.unwrap_or((i64::MIN, i64::MAX));
        let start = range.start.max(from).saturating_sub(self.shift_ns);
        let end = match range.end.min(to) {
            i64::MAX => i64::MAX,
            end => end.saturating_sub(self.shift_ns),
        };
        start..end
    }

    /// This block shifted by `ns` and limited to `from..to` of the new time; `None` if no rows are left.
    pub fn moved(&self, ns: i64, from: i64, to: i64) -> Option<Block> {
        let min = self.min.saturating_add(ns).max(from);
        let max = self.max.saturating_add(ns).min(to.saturating_sub(1));
        (min <= max).then(|| Block {
            min,
            max,
            shift_ns: self.shift_ns.saturating_add(ns),
            only: Some((from, to)),
            ..self.clone()
        })
    }
}

fn read_times(file: &ParquetFile, handle: &File, group: usize) -> Result<Vec<i64>, ReadFailure> {
    let time = file.table.time_column();
    let chunk = file.column(handle, group, time)?;
    let mut chunk = chunk.ok_or_else(|| ReadFailure::Damage("no time column".to_owned()))?;
    // The row count in a foreign footer must not decide the size of an allocation, so rows are read in batches.
    let mut times = Vec::new();
    let rows = file.rows(group);
    while times.len() < rows {
        match chunk.read(&file.path, BATCH.min(rows - times.len()))? {
            Column::Ints(c) => times.extend(c.values),
            _ => return Err(ReadFailure::Damage("no time column".to_owned())),
        }
    }
    Ok(times)
}

fn open_handle(file: &ParquetFile) -> Result<File, ReadFailure> {
    disk::open_regular(&file.path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => ReadFailure::Gone,
        _ => ReadFailure::Fatal(StoreError::io(&file.path, "read", e)),
    })
}

fn read_bounds(file: &ParquetFile, group: usize) -> Result<(i64, i64), ReadFailure> {
    let times = read_times(file, &open_handle(file)?, group)?;
    Ok((
        times.iter().copied().min().unwrap_or(0),
        times.iter().copied().max().unwrap_or(0),
    ))
}

fn open_group<R: Row>(
    file: &Arc<ParquetFile>,
    group: usize,
    rows: usize,
    range: &Range<i64>,
    selected: impl Fn(usize) -> bool,
) -> Result<Cursor<R>, ReadFailure> {
    let handle = open_handle(file)?;
    let mut times = read_times(file, &handle, group)?;
    let sorted = times.is_sorted();
    let rows_in = if sorted {
        times.partition_point(|t| *t < range.start)..times.partition_point(|t| *t < range.end)
    } else {
        0..rows
    };
    if !sorted && rows > MAX_UNSORTED_ROWS {
        let what = format!(
            "{rows} rows that are not in the order of time; at most {MAX_UNSORTED_ROWS} are sorted"
        );
        return Err(ReadFailure::Damage(what));
    }
    times.truncate(rows_in.end);
    // All chunks are read and verified before the first row is returned, so a damaged block yields no rows rather than
    // some.
    let mut chunks = Vec::with_capacity(R::TABLE.columns().len());
    for i in 0..R::TABLE.columns().len() {
        let selected = i != file.table.time_column() && selected(i) && !rows_in.is_empty();
        let mut chunk = if selected {
            file.column(&handle, group, i)?
        } else {
            None
        };
        if let Some(chunk) = &mut chunk {
            chunk.skip(rows_in.start)?;
        }
        chunks.push(chunk);
    }
    let rest = GroupRest {
        file: file.clone(),
        times,
        chunks,
        left: rows_in.len(),
    };
    let mut cursor = Cursor {
        batch: Vec::new(),
        at: 0,
        rest: Some(rest),
        shift_ns: 0,
    };
    if !sorted {
        let mut all = Vec::new();
        while cursor.fill()? {
            all.append(&mut cursor.batch);
        }
        cursor = Cursor::of_rows(all, range);
    }
    Ok(cursor)
}

fn longest_in_log(frames: &[Frame], table: Table) -> Result<i64, super::frame::BadFrame> {
    let lengths = table.length_columns();
    let mut longest = 0;
    for frame in frames {
        let rows = frame.rows as usize;
        let columns = FrameColumns::parse(&frame.payload, rows)?;
        let columns = columns.decode(table, |i| lengths.contains(&i))?;
        for row in 0..rows {
            let parts = lengths.iter().filter_map(|c| columns[*c].int(row));
            longest = parts.fold(0, i64::saturating_add).max(longest);
        }
    }
    Ok(longest)
}

fn open_log<R: Row>(
    frames: &[Frame],
    path: &Path,
    range: &Range<i64>,
    selected: impl Fn(usize) -> bool,
) -> Result<Cursor<R>, ReadFailure> {
    let mut rows = Vec::new();
    let mut next_row = 0;
    for f in frames {
        let first_row = next_row;
        next_row += f.rows as usize;
        if f.max < range.start || f.min >= range.end {
            continue;
        }
        let columns = FrameColumns::parse(&f.payload, f.rows as usize)
            .and_then(|columns| columns.decode(R::TABLE, &selected));
        let columns = columns.map_err(|_| {
            ReadFailure::Fatal(StoreError::Damaged {
                path: path.to_owned(),
                what: "a frame with a right checksum holds nonsense; please report this".to_owned(),
            })
        })?;
        for (def, column) in R::TABLE.columns().iter().zip(&columns) {
            if let Column::Ints(ints) = column
                && let Some(problem) = def.problem(ints, first_row, false)
            {
                return Err(ReadFailure::bad_column(path, def.name, problem));
            }
        }
        R::assemble_all(&columns, f.rows as usize, &mut rows);
    }
    Ok(Cursor::of_rows(rows, range))
}

/// The rows of one block in time order, a batch at a time.
pub(crate) struct Cursor<R> {
    batch: Vec<R>,
    at: usize,
    rest: Option<GroupRest>,
    /// Added to the times of rows that have not been read yet.
    shift_ns: i64,
}

struct GroupRest {
    file: Arc<ParquetFile>,
    /// The time column up to the last row in the range; it was read to find the first one.
    times: Vec<i64>,
    /// All columns except the time column.
    chunks: Vec<Option<ColumnChunk>>,
    left: usize,
}

impl<R: Row> Cursor<R> {
    fn of_rows(mut rows: Vec<R>, range: &Range<i64>) -> Cursor<R> {
        rows.retain(|r| range.contains(&r.time()));
        if !rows.is_sorted_by_key(Row::time) {
            rows.sort_by_key(Row::time);
        }
        Cursor {
            batch: rows,
            at: 0,
            rest: None,
            shift_ns: 0,
        }
    }

    /// Shifts all rows by `ns`, both those already read and those still to come.
    fn shift(&mut self, ns: i64) {
        self.shift_ns = ns;
        if ns != 0 {
            self.batch.iter_mut().for_each(|row| row.shift(ns));
        }
    }

    /// Loads the next row; `false` at the end of the block.
    pub fn fill(&mut self) -> Result<bool, ReadFailure> {
        if self.at < self.batch.len() {
            return Ok(true);
        }
        self.batch.clear();
        self.at = 0;
        let Some(rest) = self.rest.as_mut().filter(|r| r.left > 0) else {
            return Ok(false);
        };
        let n = BATCH.min(rest.left);
        let from = rest.times.len() - rest.left;
        rest.left -= n;
        let GroupRest {
            file,
            times,
            chunks,
            ..
        } = rest;
        let time = file.table.time_column();
        let columns = chunks.iter_mut().enumerate().map(|(i, chunk)| match chunk {
            Some(chunk) => chunk.read(&file.path, n),
            None if i == time => Ok(Column::Ints(Ints {
                values: times[from..from + n].to_vec(),
                valid: None,
            })),
            None => Ok(Column::Absent),
        });
        let columns: Vec<Column> = guarded(|| columns.collect())?;
        R::assemble_all(&columns, n, &mut self.batch);
        if self.shift_ns != 0 {
            let shift_ns = self.shift_ns;
            self.batch.iter_mut().for_each(|row| row.shift(shift_ns));
        }
        Ok(true)
    }

    /// Number of rows not returned yet, for a loss record when the block is damaged in the middle.
    pub fn rows_left(&self) -> usize {
        self.batch.len() - self.at + self.rest.as_ref().map_or(0, |r| r.left)
    }

    /// Time of the next row. Call it only after [`Cursor::fill`] returned that there is one.
    pub fn head(&self) -> i64 {
        self.batch.get(self.at).map_or(i64::MAX, Row::time)
    }

    /// Takes the next row.
    pub fn pop(&mut self) -> Option<R> {
        let row = self.batch.get(self.at).cloned();
        self.at += 1;
        row
    }

    /// Removes and returns the loaded rows up to the time `limit`.
    pub fn take_until(&mut self, limit: Option<i64>) -> Vec<R> {
        let rest = &self.batch[self.at..];
        let n = limit.map_or(rest.len(), |limit| {
            rest.partition_point(|r| r.time() <= limit)
        });
        if self.at == 0 && n == self.batch.len() {
            return std::mem::take(&mut self.batch);
        }
        let out = rest[..n].to_vec();
        self.at += n;
        out
    }
}
