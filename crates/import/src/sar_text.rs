//! Parses text of `sar -d`, alone or among the other tables of `sar` (`sar -A`), of any version of sysstat.
//!
//! A heading and the rows below it have times of day. A heading's time is the start of the first interval, a row's time
//! is the end of its own. The tables of a file follow each other, each from its first row to its last, while those of a
//! running `sar` alternate. So each kind of table has a clock of its own.

use std::collections::HashMap;
use std::ops::Range;

use iolens_core::model::{CpuShares, DAY_NS, DevId};

use super::clock::{DateOrder, Stamp, day_must_be_first, parse_both_banner_dates, parse_stamp};
use super::cpu_share::CpuShare;
use super::damage::NEGATIVE;
use super::iostat_columns::{Column, Row, column, is_negative, value};
use super::iostat_text::Banner;
use super::log::{Epoch, Log};
use super::text::{Line, Lines, decimals, has_word, owned_text, words};

/// Whether the line is the heading of a table of devices or of CPUs, with its time at the start.
pub(super) fn is_heading(line: &[u8]) -> bool {
    let Some((_, cells)) = timed(line) else {
        return false;
    };
    matches!(
        SarTable::of_heading(&cells),
        Some(SarTable::Disk { .. } | SarTable::Cpu(_))
    )
}

/// The kind of rows below a heading.
#[derive(Debug, Clone, PartialEq)]
enum SarTable {
    Disk {
        columns: Vec<Column>,
        /// Whether the name follows the numbers (`--pretty`).
        name_last: bool,
    },
    Cpu(Vec<CpuShare>),
    /// Another table.
    Other,
}

impl SarTable {
    /// The table whose heading these cells are; `None` if one of them is a number, as in a row.
    fn of_heading(cells: &[&[u8]]) -> Option<SarTable> {
        if cells.is_empty() || cells.iter().any(|c| value(c).is_some()) {
            return None;
        }
        let name_last = cells.last() == Some(&&b"DEV"[..]);
        if (cells[0] == b"DEV" || name_last) && has_word(cells, "tps") {
            let mut columns: Vec<Column> = cells.iter().map(|c| meaning(c)).collect();
            if name_last {
                columns.pop();
            } else {
                columns.remove(0);
            }
            return Some(SarTable::Disk { columns, name_last });
        }
        if cells[0] == b"CPU" && has_word(cells, "%idle") {
            return Some(SarTable::Cpu(cells[1..].iter().map(|c| share(c)).collect()));
        }
        Some(SarTable::Other)
    }

    /// Whether both are tables of devices, and this one has fewer of the same columns.
    fn is_part_of(&self, open: &SarTable) -> bool {
        match (self, open) {
            (SarTable::Disk { columns: own, .. }, SarTable::Disk { columns, .. }) => {
                own.len() < columns.len() && columns.starts_with(own)
            }
            _ => false,
        }
    }
}

/// A truncated heading of devices: without the name or the first column of numbers.
fn is_cut_heading(cells: &[&[u8]]) -> bool {
    let has_name = has_word(cells, "DEV");
    let of_devices = has_name || has_word(cells, "rkB/s") || has_word(cells, "rd_sec/s");
    of_devices && !(has_name && has_word(cells, "tps"))
}

fn meaning(heading: &[u8]) -> Column {
    std::str::from_utf8(heading).map_or(Column::Skip, column)
}

/// The CPU share to which a heading is added: `sar -u ALL` lists interrupts and guests separately, which are parts of
/// others.
fn share(heading: &[u8]) -> CpuShare {
    match heading {
        b"%user" | b"%usr" | b"%guest" => CpuShare::User,
        b"%nice" | b"%gnice" => CpuShare::Nice,
        b"%iowait" => CpuShare::Iowait,
        b"%steal" => CpuShare::Steal,
        b"%idle" => CpuShare::Idle,
        // %system, %sys, and the interrupts %irq and %soft, which `iostat` includes in it.
        _ => CpuShare::System,
    }
}

/// The time of day at the start of a line (`11:55:05`, `11:55:05 AM`), in nanoseconds since midnight, and the cells
/// after it.
fn timed(line: &[u8]) -> Option<(i64, Vec<&[u8]>)> {
    let mut cells: Vec<&[u8]> = words(line).collect();
    let first = std::str::from_utf8(cells.first()?).ok()?;
    let half = cells.get(1).filter(|w| [&b"AM"[..], b"PM"].contains(w));
    let stamp = match half {
        Some(half) => format!("{first} {}", String::from_utf8_lossy(half)),
        None => first.to_owned(),
    };
    let Stamp::TimeOfDay(ns) = parse_stamp(&stamp, DateOrder::MonthFirst)? else {
        return None;
    };
    cells.drain(..1 + usize::from(half.is_some()));
    Some((ns, cells))
}

/// The time of one kind of table, in nanoseconds since the midnight before its banner.
#[derive(Debug, Default, Clone, Copy)]
struct TableClock {
    /// The last time.
    at_ns: Option<i64>,
    /// Start of the rows that end at `at_ns`.
    from_ns: i64,
}

impl TableClock {
    /// A time of day on the same day as the previous one, or on the next day if it would go back.
    fn absolute(&self, time_ns: i64) -> i64 {
        let Some(last) = self.at_ns else {
            return time_ns;
        };
        let same_day = last - last.rem_euclid(DAY_NS) + time_ns;
        if same_day < last {
            same_day + DAY_NS
        } else {
            same_day
        }
    }

    fn heading(&mut self, time_ns: i64) {
        let at_ns = self.absolute(time_ns);
        self.at_ns = Some(at_ns);
        self.from_ns = at_ns;
    }

    /// The interval of a row with this time. Rows with the same time have the same interval.
    fn row(&mut self, time_ns: i64) -> Range<i64> {
        let to_ns = self.absolute(time_ns);
        if let Some(last) = self.at_ns.filter(|last| *last < to_ns) {
            self.from_ns = last;
        }
        self.at_ns = Some(to_ns);
        self.from_ns..to_ns
    }
}

/// The content below one banner.
#[derive(Debug)]
struct Section {
    /// Midnight before its first row, with the month first and with the day first.
    date_unix_ns: Option<[i64; 2]>,
    rows: Range<usize>,
    cpu: Range<usize>,
}

struct SarParser<'a> {
    log: &'a mut Log,
    table: SarTable,
    disks: TableClock,
    cpus: TableClock,
    sections: Vec<Section>,
    day_first: bool,
    ids: HashMap<Vec<u8>, DevId>,
    /// Rows of tables that are not about disks.
    other_rows: u64,
}

/// Parses a file of `sar`'s text.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let mut parser = SarParser {
        log,
        table: SarTable::Other,
        disks: TableClock::default(),
        cpus: TableClock::default(),
        sections: Vec::new(),
        day_first: false,
        ids: HashMap::new(),
        other_rows: 0,
    };
    while let Some(line) = parser.log.next_line(lines) {
        parser.line(line);
    }
    parser.finish();
}

impl SarParser<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            return;
        }
        if let Some(banner) = Banner::of(text) {
            return self.banner(&banner);
        }
        let Some((time_ns, cells)) = timed(text) else {
            return self.without_time(line, text);
        };
        // `11:55:07  LINUX RESTART (2 CPU)`: the next heading has the time from which the counters restart.
        if cells.first().is_some_and(|c| c.starts_with(b"LINUX")) {
            return;
        }
        if let Some(table) = SarTable::of_heading(&cells) {
            // Half a heading would give columns the wrong names, so the open table continues.
            if is_cut_heading(&cells) || table.is_part_of(&self.table) {
                return self.log.damaged(line.number, "a heading that was cut");
            }
            match &table {
                SarTable::Disk { .. } => self.disks.heading(time_ns),
                SarTable::Cpu(_) => self.cpus.heading(time_ns),
                SarTable::Other => {}
            }
            self.table = table;
            return;
        }
        match self.table.clone() {
            SarTable::Disk { columns, name_last } => {
                self.disk(line, time_ns, cells, &columns, name_last)
            }
            SarTable::Cpu(columns) => self.cpu(line, time_ns, &cells, &columns),
            SarTable::Other => self.other_rows += 1,
        }
    }

    /// Handles averages over all rows, in any language (`Average:`, `Moyenne :`), and lines that are not from sar.
    fn without_time(&mut self, line: Line<'_>, text: &[u8]) {
        let mut start = words(text).take(2);
        let is_average = start.any(|w| w.ends_with(b":"));
        if is_average {
            return;
        }
        if self.sections.is_empty() && self.table == SarTable::Other {
            return self.log.other_line(line.number);
        }
        self.log.damaged(line.number, "no line of a table of sar");
    }

    fn banner(&mut self, banner: &Banner<'_>) {
        let host = (!banner.host.is_empty()).then(|| owned_text(banner.host));
        self.log.devices.set_host(host.clone());
        self.log.host = self.log.host.take().or(host);
        self.log.kernel = self
            .log
            .kernel
            .take()
            .or_else(|| Some(owned_text(banner.kernel)));
        let date = banner.date.and_then(|d| std::str::from_utf8(d).ok());
        self.day_first |= date.is_some_and(day_must_be_first);
        self.begin_section(date.and_then(parse_both_banner_dates));
        self.ids.clear();
    }

    fn begin_section(&mut self, date_unix_ns: Option<[i64; 2]>) {
        self.close_section();
        let rows = self.log.rates.len();
        let cpu = self.log.cpu.len();
        self.sections.push(Section {
            date_unix_ns,
            rows: rows..rows,
            cpu: cpu..cpu,
        });
        self.table = SarTable::Other;
        self.disks = TableClock::default();
        self.cpus = TableClock::default();
    }

    fn close_section(&mut self) {
        if let Some(last) = self.sections.last_mut() {
            last.rows.end = self.log.rates.len();
            last.cpu.end = self.log.cpu.len();
        }
    }

    fn disk(
        &mut self,
        line: Line<'_>,
        time_ns: i64,
        mut cells: Vec<&[u8]>,
        columns: &[Column],
        name_last: bool,
    ) {
        if name_last {
            cells.rotate_right(1);
        }
        let is_cut = !line.complete && self.may_be_cut(&cells, name_last);
        let values: Option<Vec<_>> = cells.iter().skip(1).map(|c| value(c)).collect();
        let values = values.filter(|v| v.len() == columns.len() && !is_cut);
        let Some(values) = values else {
            return self
                .log
                .damaged(line.number, "the cells do not fit the heading");
        };
        if self.sections.is_empty() {
            self.begin_section(None);
        }
        let interval = self.disks.row(time_ns);
        if interval.is_empty() {
            return self
                .log
                .damaged(line.number, "a row without a beginning of its interval");
        }
        // The clock has advanced: the next row begins where this one ends.
        let mut known = columns.iter().zip(&values);
        if known.any(|(column, (v, _))| is_negative(*column, *v)) {
            return self.log.damaged(line.number, NEGATIVE);
        }
        let name = cells[0];
        let devices = &mut self.log.devices;
        let dev = *self
            .ids
            .entry(name.to_owned())
            .or_insert_with(|| devices.by_name(name));
        let mut row = Row::new(dev);
        for (column, value) in columns.iter().zip(values) {
            row.put(*column, value);
        }
        row.complete();
        row.rates.from_ns = interval.start;
        row.rates.to_ns = interval.end;
        self.log.rates.push(&row.rates);
    }

    /// Whether the last line of a file, without a line end, may lack a part of its last cell.
    fn may_be_cut(&self, cells: &[&[u8]], name_last: bool) -> bool {
        if name_last {
            return cells
                .first()
                .is_none_or(|name| !self.ids.contains_key(*name));
        }
        match cells {
            [.., before, last] if cells.len() > 2 => decimals(before) != decimals(last),
            _ => true,
        }
    }

    fn cpu(&mut self, line: Line<'_>, time_ns: i64, cells: &[&[u8]], columns: &[CpuShare]) {
        let values: Option<Vec<_>> = cells.iter().skip(1).map(|c| value(c)).collect();
        let is_cut = !line.complete && self.may_be_cut(cells, false);
        let values = values.filter(|v| v.len() == columns.len() && !is_cut);
        let Some(values) = values else {
            return self.log.damaged(
                line.number,
                "processor shares that do not fit their heading",
            );
        };
        if self.sections.is_empty() {
            self.begin_section(None);
        }
        let interval = self.cpus.row(time_ns);
        // Besides the sum of all CPUs, `sar -P ALL` has a row for each CPU.
        if cells[0] != b"all" || interval.is_empty() {
            return;
        }
        let mut cpu = CpuShares {
            from_ns: interval.start,
            to_ns: interval.end,
            ..CpuShares::default()
        };
        for (column, (percent, _)) in columns.iter().zip(values) {
            let share = column.place_in(&mut cpu);
            *share = Some(share.unwrap_or(0.0) + percent);
        }
        self.log.cpu.push(cpu);
    }

    fn finish(mut self) {
        self.close_section();
        let log = self.log;
        if self.other_rows > 0 {
            let n = self.other_rows;
            log.limit(&format!(
                "{n} rows of sar's tables about other things than disks and processors were left out"
            ));
        }
        log.limit("source prints averages per interval: no single I/O, no percentiles, no exact busy time");
        if log.rates.is_empty() {
            log.cpu.clear();
            log.unusable = Some("it has no rows of devices: sar -d prints them");
            return;
        }
        let dated = self.sections.iter().all(|s| s.date_unix_ns.is_some());
        if !dated {
            log.epoch = Epoch::Own;
            return;
        }
        log.epoch = Epoch::Unix;
        let order = usize::from(self.day_first);
        for section in self.sections {
            let midnight_ns = section.date_unix_ns.map_or(0, |d| d[order]);
            log.rates.replace(section.rows, |from, to, dev| {
                (from + midnight_ns, to + midnight_ns, dev)
            });
            for cpu in &mut log.cpu[section.cpu] {
                cpu.from_ns += midnight_ns;
                cpu.to_ns += midnight_ns;
            }
        }
    }
}

#[cfg(test)]
#[path = "sar_text_tests.rs"]
mod tests;
