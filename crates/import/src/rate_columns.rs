//! The headings of tables of `time r/s Kr/s us/r w/s Kw/s us/w`, and the meaning of the cells in a row.

use iolens_core::model::{Class, ClassRates, DevId, IntervalRates};

use super::clock::{Stamp, parse_time_cell};
use super::text::{number, seconds_ns, words};

/// A value of a row, of one device or of all together.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RateMeasure {
    /// I/Os per second of a class; `None`: of all classes together.
    Ios(Option<Class>),
    KibPerS(Option<Class>),
    MeanUs(Option<Class>),
    InFlight,
    BusyPercent,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum RateColumn {
    /// Seconds, a time of day, or a time with its date.
    Time,
    /// Seconds since the Unix epoch.
    UnixTime,
    Device,
    /// The process, control group or file whose I/Os the row counts.
    Subject,
    /// Whether I/Os of the interval were lost.
    Lossy,
    Measure(RateMeasure),
    Skip,
}

impl RateColumn {
    fn of_title(word: &[u8]) -> RateColumn {
        use RateMeasure::{BusyPercent, InFlight, Ios, KibPerS, MeanUs};
        const READ: Option<Class> = Some(Class::Read);
        const WRITE: Option<Class> = Some(Class::Write);
        let measure = match word {
            b"time" | b"time_s" => return RateColumn::Time,
            b"time_unix_s" => return RateColumn::UnixTime,
            b"device" => return RateColumn::Device,
            b"process" | b"cgroup" | b"file" => return RateColumn::Subject,
            b"lossy" => return RateColumn::Lossy,
            b"r/s" | b"r_s" | b"r_per_s" => Ios(READ),
            b"w/s" | b"w_s" | b"w_per_s" => Ios(WRITE),
            b"io/s" | b"all_per_s" => Ios(None),
            b"Kr/s" | b"kr/s" | b"kr_s" | b"r_kib_per_s" => KibPerS(READ),
            b"Kw/s" | b"kw/s" | b"kw_s" | b"w_kib_per_s" => KibPerS(WRITE),
            b"K/s" | b"all_kib_per_s" => KibPerS(None),
            b"us/r" | b"us_r" | b"r_us" => MeanUs(READ),
            b"us/w" | b"us_w" | b"w_us" => MeanUs(WRITE),
            b"us/io" | b"all_us" => MeanUs(None),
            b"in-flight" | b"inflight_mean" => InFlight,
            b"%busy" | b"busy_percent" => BusyPercent,
            _ => return RateColumn::Skip,
        };
        RateColumn::Measure(measure)
    }
}

/// Headings of two words, whose columns have no field in a recording of rates.
const TITLES_OF_TWO: [[&str; 2]; 10] = [
    ["p99", "us/r"],
    ["p99", "us/w"],
    ["max", "us/r"],
    ["max", "us/w"],
    ["undisturbed", "s"],
    ["others", "s"],
    ["own", "s"],
    ["held", "s"],
    ["device", "s"],
    ["unknown", "s"],
];

fn is_title_of_two(first: &[u8], second: &[u8]) -> bool {
    TITLES_OF_TWO
        .iter()
        .any(|title| title[0].as_bytes() == first && title[1].as_bytes() == second)
}

fn columns_of_words(words: &[&[u8]]) -> Vec<RateColumn> {
    let mut columns = Vec::new();
    let mut i = 0;
    while let Some(word) = words.get(i) {
        let next = words.get(i + 1);
        if next.is_some_and(|next| is_title_of_two(word, next)) {
            columns.push(RateColumn::Skip);
            i += 2;
        } else {
            columns.push(RateColumn::of_title(word));
            i += 1;
        }
    }
    columns
}

/// Comma-separated cells; a comma in quotes is not a separator.
fn cells_of_csv(line: &[u8]) -> Vec<&[u8]> {
    let mut cells = Vec::new();
    let mut begin = 0;
    let mut is_quoted = false;
    for (i, byte) in line.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                cells.push(line[begin..i].trim_ascii());
                begin = i + 1;
            }
            _ => {}
        }
    }
    cells.push(line[begin..].trim_ascii());
    cells
}

fn without_quotes(cell: &[u8]) -> &[u8] {
    let inner = cell.strip_prefix(b"\"");
    inner
        .and_then(|cell| cell.strip_suffix(b"\""))
        .unwrap_or(cell)
}

/// How `zoom` prints unknown values: empty in CSV, `-` in a table. In a table, `<34` is below the source's resolution.
fn is_unknown(cell: &[u8]) -> bool {
    let bound = cell.strip_prefix(b"<").and_then(number);
    cell.is_empty() || cell == b"-" || bound.is_some()
}

/// The heading of such a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RateHeading {
    columns: Vec<RateColumn>,
    pub is_csv: bool,
}

impl RateHeading {
    /// Parses a line as a heading; `None` if the line does not begin with the time, or lacks both rates.
    pub fn of_line(line: &[u8]) -> Option<RateHeading> {
        if !line.trim_ascii_start().starts_with(b"time") {
            return None;
        }
        let is_csv = line.contains(&b',');
        let columns = if is_csv {
            let titles = cells_of_csv(line).into_iter();
            titles.map(RateColumn::of_title).collect()
        } else {
            let titles: Vec<&[u8]> = words(line).collect();
            columns_of_words(&titles)
        };
        let heading = RateHeading { columns, is_csv };
        let first = heading.columns.first();
        let has_time = matches!(first, Some(RateColumn::Time | RateColumn::UnixTime));
        let reads = RateColumn::Measure(RateMeasure::Ios(Some(Class::Read)));
        let writes = RateColumn::Measure(RateMeasure::Ios(Some(Class::Write)));
        (has_time && heading.has(reads) && heading.has(writes)).then_some(heading)
    }

    fn has(&self, column: RateColumn) -> bool {
        self.columns.contains(&column)
    }

    /// Whether each row is of one device.
    pub fn has_devices(&self) -> bool {
        self.has(RateColumn::Device)
    }

    /// Whether each row is of one process, control group or file.
    pub fn has_subjects(&self) -> bool {
        self.has(RateColumn::Subject)
    }

    /// The values of a line; `None` if its cells do not match.
    pub fn row<'a>(&self, line: &'a [u8]) -> Option<RateRow<'a>> {
        let mut cells = if self.is_csv {
            cells_of_csv(line)
        } else {
            words(line).collect()
        };
        let mut row = RateRow::new();
        // The marks of `zoom` follow the last column.
        while !self.is_csv && cells.len() > self.columns.len() {
            match cells.pop() {
                Some(b"*") => row.is_lossy = true,
                Some(b"~") => row.is_cut = true,
                _ => return None,
            }
        }
        if cells.len() != self.columns.len() {
            return None;
        }
        for (column, cell) in self.columns.iter().zip(cells) {
            row.put(*column, cell)?;
        }
        row.end?;
        let rates = &mut row.rates;
        for class in rates.classes.iter_mut().chain([&mut rates.all]) {
            // Published tables have 0 for the mean of no I/O.
            if class.ios_per_s == Some(0.0) {
                class.mean_us = None;
            }
        }
        Some(row)
    }
}

/// Whether a line begins like a row.
pub(super) fn begins_like_a_row(line: &[u8]) -> bool {
    let first = line.split(|b| matches!(b, b' ' | b'\t' | b',')).next();
    first.is_some_and(|cell| RowEnd::of_cell(cell).is_some())
}

/// The end of a row's interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RowEnd {
    /// Nanoseconds since an epoch that is not in the table.
    Elapsed(i64),
    Wall(Stamp),
}

impl RowEnd {
    fn of_cell(cell: &[u8]) -> Option<RowEnd> {
        if let Some(ns) = seconds_ns(cell) {
            return Some(RowEnd::Elapsed(ns));
        }
        let text = std::str::from_utf8(cell).ok()?;
        parse_time_cell(text).map(RowEnd::Wall)
    }
}

/// The values of a line.
#[derive(Debug)]
pub(super) struct RateRow<'a> {
    /// `None` until a cell sets it; never `None` in a complete row.
    pub end: Option<RowEnd>,
    pub device: Option<&'a [u8]>,
    pub rates: IntervalRates,
    /// I/Os of its interval were lost.
    pub is_lossy: bool,
    /// Its interval is shorter than those of the others.
    pub is_cut: bool,
    /// A rate, latency, queue or utilisation is below zero.
    pub is_negative: bool,
}

impl<'a> RateRow<'a> {
    fn new() -> RateRow<'a> {
        RateRow {
            end: None,
            device: None,
            rates: IntervalRates::new(0, 0, DevId(0)),
            is_lossy: false,
            is_cut: false,
            is_negative: false,
        }
    }

    /// `None` if the cell's content is invalid for its column.
    fn put(&mut self, column: RateColumn, cell: &'a [u8]) -> Option<()> {
        match column {
            RateColumn::Skip | RateColumn::Subject => {}
            // A recording without a date has only seconds.
            RateColumn::Time | RateColumn::UnixTime if cell.is_empty() => {}
            RateColumn::Time => {
                let end = RowEnd::of_cell(cell)?;
                self.end = self.end.or(Some(end));
            }
            RateColumn::UnixTime => {
                let stamp = Stamp::unix(seconds_ns(cell)?)?;
                self.end = self.end.or(Some(RowEnd::Wall(stamp)));
            }
            RateColumn::Device if cell.is_empty() => return None,
            RateColumn::Device => self.device = Some(without_quotes(cell)),
            RateColumn::Lossy => self.is_lossy = number(cell)? != 0.0,
            RateColumn::Measure(_) if is_unknown(cell) => {}
            RateColumn::Measure(measure) => {
                let value = number(cell)?;
                self.is_negative |= value < 0.0;
                self.set(measure, value);
            }
        }
        Some(())
    }

    fn set(&mut self, measure: RateMeasure, value: f64) {
        match measure {
            RateMeasure::Ios(class) => self.class(class).ios_per_s = Some(value),
            RateMeasure::KibPerS(class) => self.class(class).bytes_per_s = Some(value * 1024.0),
            RateMeasure::MeanUs(class) => self.class(class).mean_us = Some(value),
            RateMeasure::InFlight => self.rates.in_flight = Some(value),
            RateMeasure::BusyPercent => self.rates.util_percent = Some(value),
        }
    }

    fn class(&mut self, class: Option<Class>) -> &mut ClassRates {
        match class {
            Some(class) => &mut self.rates.classes[class as usize],
            None => &mut self.rates.all,
        }
    }
}
