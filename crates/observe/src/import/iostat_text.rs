//! Text of `iostat`: sysstat 9 and newer with any options, Solaris and illumos `-x`.
//!
//! Nothing is read by position: headings say what a column is, in whatever order and however many there are.

use std::collections::HashMap;

use iolens_core::model::{CpuShares, DevId};

use super::clock::{DateOrder, day_must_be_first, parse_banner_date, parse_stamp};
use super::intervals::{Report, Run, place};
use super::iostat_columns::{Column, Row, column, value};
use super::log::Log;
use super::text::{Line, Lines, words};

/// Reads a whole log.
pub fn parse(log: &mut Log, bytes: &[u8]) {
    let survey = Survey::of(bytes);
    let mut p = Parser {
        log,
        several_hosts: survey.hosts > 1,
        order: survey.order,
        host: String::new(),
        runs: Vec::new(),
        table: Table::default(),
        cpu: None,
        cpu_row_next: false,
        pending_name: None,
        blanks: 0,
        fresh_banner: false,
        index: HashMap::new(),
        ids: HashMap::new(),
        any_rows: false,
    };
    for line in Lines::new(bytes) {
        p.line(line);
    }
    p.close_report();
    let runs = p.runs;
    log.limit("source prints averages per interval: no single I/O, no percentiles, no exact busy time");
    place(log, runs);
}

/// What must be known before the first line is read.
struct Survey {
    hosts: usize,
    order: DateOrder,
}

impl Survey {
    fn of(bytes: &[u8]) -> Survey {
        let mut hosts: Vec<&[u8]> = Vec::new();
        let mut order = DateOrder::MonthFirst;
        for line in Lines::new(bytes) {
            let banner = Banner::of(line.bytes);
            if let Some(host) = banner.as_ref().and_then(|b| b.host)
                && !hosts.contains(&host)
            {
                hosts.push(host);
            }
            // Only lines that begin with a digit (or are banners) can be dates; tables begin with names or blanks.
            let date = match &banner {
                Some(b) => b.date,
                None if line.bytes.first().is_some_and(u8::is_ascii_digit) && line.bytes.len() < 40 => Some(line.bytes),
                None => None,
            };
            if date.and_then(|d| std::str::from_utf8(d).ok()).is_some_and(day_must_be_first) {
                order = DateOrder::DayFirst;
            }
        }
        Survey { hosts: hosts.len(), order }
    }
}

/// `Linux 6.1.0 (host) \t11/21/26 \t_x86_64_\t(2 CPU)`.
struct Banner<'a> {
    kernel: &'a [u8],
    host: Option<&'a [u8]>,
    date: Option<&'a [u8]>,
}

impl<'a> Banner<'a> {
    fn of(line: &'a [u8]) -> Option<Banner<'a>> {
        if !line.starts_with(b"Linux ") {
            return None;
        }
        let mut parts = words(line).skip(1);
        let kernel = parts.next()?;
        let host = parts.next().and_then(|w| w.strip_prefix(b"(")?.strip_suffix(b")"));
        Some(Banner { kernel, host, date: parts.next() })
    }
}

#[derive(Debug, Default, Clone)]
struct Table {
    columns: Vec<Column>,
    /// Whether the name comes after the numbers (`--pretty`, Solaris `-n`).
    name_last: bool,
    heading: Vec<u8>,
}

struct Parser<'l> {
    log: &'l mut Log,
    several_hosts: bool,
    order: DateOrder,
    host: String,
    runs: Vec<Run>,
    table: Table,
    cpu: Option<Vec<CpuField>>,
    cpu_row_next: bool,
    /// A long name that got a line of its own.
    pending_name: Option<Vec<u8>>,
    blanks: u32,
    fresh_banner: bool,
    /// Rows of the report at hand by device, and the headings it has shown.
    index: HashMap<DevId, (usize, usize)>,
    ids: HashMap<Vec<u8>, DevId>,
    any_rows: bool,
}

#[derive(Debug, Clone, Copy)]
enum CpuField {
    User,
    Nice,
    System,
    Iowait,
    Steal,
    Idle,
    Other,
}

impl Parser<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            self.blanks += 1;
            // Two empty lines right after the banner: iostat -y left out its report since boot.
            if self.fresh_banner && self.blanks == 2 {
                self.fresh_banner = false;
            }
            return;
        }
        self.blanks = 0;
        if self.cpu_row_next {
            self.cpu_row_next = false;
            return self.cpu_row(line);
        }
        if let Some(b) = Banner::of(text) {
            return self.banner(&b);
        }
        if text.starts_with(b"avg-cpu:") {
            return self.cpu_heading(text);
        }
        if self.heading(text) || self.row(line, text) {
            return;
        }
        self.other(line, text);
    }

    fn banner(&mut self, b: &Banner<'_>) {
        self.host = b.host.map(|h| String::from_utf8_lossy(h).into_owned()).unwrap_or_default();
        self.log.host = self.log.host.take().or_else(|| (!self.host.is_empty()).then(|| self.host.clone()));
        self.log.kernel = self.log.kernel.take().or_else(|| Some(String::from_utf8_lossy(b.kernel).into_owned()));
        let date = b.date.and_then(|d| std::str::from_utf8(d).ok());
        let date_unix_ns = date.and_then(|d| parse_banner_date(d, self.order));
        self.close_report();
        self.runs.push(Run { reports: Vec::new(), date_unix_ns });
        self.table = Table::default();
        self.ids.clear();
        self.fresh_banner = true;
    }

    /// The report that lines go to.
    fn report(&mut self) -> &mut Report {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        let last = self.runs.len() - 1;
        if self.runs[last].reports.is_empty() {
            self.begin_report();
        }
        let reports = &mut self.runs[last].reports;
        let at = reports.len() - 1;
        &mut reports[at]
    }

    fn begin_report(&mut self) {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        self.close_report();
        let since_boot = std::mem::take(&mut self.fresh_banner);
        let last = self.runs.len() - 1;
        self.runs[last].reports.push(Report { since_boot, ..Report::default() });
        self.index.clear();
    }

    /// Nothing more comes into the report at hand.
    fn close_report(&mut self) {
        if let Some(report) = self.runs.last_mut().and_then(|r| r.reports.last_mut()) {
            report.close(self.log);
        }
    }

    /// Begins a new report unless the current one has neither rows nor processors yet.
    fn next_report(&mut self) {
        let r = self.report();
        if !r.rows.is_empty() || r.cpu.is_some() {
            self.begin_report();
        }
    }

    fn cpu_heading(&mut self, text: &[u8]) {
        let r = self.report();
        if r.cpu.is_some() || !r.rows.is_empty() {
            self.begin_report();
        }
        let field = |w: &[u8]| match w {
            b"%user" => CpuField::User,
            b"%nice" => CpuField::Nice,
            b"%system" | b"%sys" => CpuField::System,
            b"%iowait" => CpuField::Iowait,
            b"%steal" => CpuField::Steal,
            b"%idle" => CpuField::Idle,
            _ => CpuField::Other,
        };
        self.cpu = Some(words(text).skip(1).map(field).collect());
        self.cpu_row_next = true;
    }

    fn cpu_row(&mut self, line: Line<'_>) {
        let fields = self.cpu.clone().unwrap_or_default();
        let mut cpu = CpuShares::default();
        let mut cells = words(line.bytes);
        for f in &fields {
            let Some((v, _)) = cells.next().and_then(value) else {
                return self.log.damaged(line.number, "processor shares that do not fit their heading");
            };
            match f {
                CpuField::User => cpu.user = Some(v),
                CpuField::Nice => cpu.nice = Some(v),
                CpuField::System => cpu.system = Some(v),
                CpuField::Iowait => cpu.iowait = Some(v),
                CpuField::Steal => cpu.steal = Some(v),
                CpuField::Idle => cpu.idle = Some(v),
                CpuField::Other => {}
            }
        }
        if cells.next().is_some() {
            return self.log.damaged(line.number, "processor shares that do not fit their heading");
        }
        self.report().cpu = Some(cpu);
    }

    /// Whether the line is a table's heading.
    fn heading(&mut self, text: &[u8]) -> bool {
        let starts = [&b"Device"[..], b"Device:", b"device"].iter().any(|w| words(text).next() == Some(*w));
        let ends = words(text).next_back().is_some_and(|w| w == b"Device" || w == b"device");
        if !starts && !ends {
            return false;
        }
        let all: Vec<Column> = words(text).filter_map(|w| std::str::from_utf8(w).ok()).map(column).collect();
        if all.iter().all(|c| *c == Column::Skip) {
            return false;
        }
        // The same heading again: the next report of a log without stamps and processors.
        if !self.index.is_empty() && self.table_seen(text) {
            self.begin_report();
        }
        let columns = if starts { all[1..].to_vec() } else { all[..all.len() - 1].to_vec() };
        self.table = Table { columns, name_last: !starts, heading: text.to_owned() };
        self.pending_name = None;
        true
    }

    /// Whether the report at hand has shown this heading: `--pretty` shows four different ones per report.
    fn table_seen(&self, heading: &[u8]) -> bool {
        self.table.heading == heading || words(heading).next() == Some(b"r/s")
    }

    /// Whether the line is a row of the table at hand (damaged ones are, too, if they look like one).
    fn row(&mut self, line: Line<'_>, text: &[u8]) -> bool {
        let n = self.table.columns.len();
        if n == 0 {
            return false;
        }
        let mut cells: Vec<&[u8]> = words(text).collect();
        if self.table.name_last {
            cells.rotate_right(1);
        }
        let pending = self.pending_name.take();
        if pending.is_some() && cells.len() == n {
            cells.insert(0, &[]);
        }
        if cells.len() == 1 && !line.bytes.starts_with(b" ") && !text[0].is_ascii_digit() {
            self.pending_name = Some(cells[0].to_vec());
            return true;
        }
        if cells.len() != n + 1 {
            return false;
        }
        // A cut last number would still parse: 10.0 of 10.00.
        if !line.complete && !self.table.name_last && decimals(cells[n]) != decimals(cells[n - 1]) {
            return false;
        }
        let Some(values) = cells[1..].iter().map(|w| value(w)).collect::<Option<Vec<_>>>() else { return false };
        let dev = self.device(pending.as_deref().unwrap_or(cells[0]));
        self.store(dev, &values);
        true
    }

    fn store(&mut self, dev: DevId, values: &[(f64, Option<f64>)]) {
        self.report();
        self.any_rows = true;
        let run = self.runs.len() - 1;
        let report = self.runs[run].reports.len() - 1;
        let rows = &mut self.runs[run].reports[report].rows;
        let (_, at) = *self.index.entry(dev).or_insert_with(|| {
            rows.push(Row::new(dev));
            (report, rows.len() - 1)
        });
        for (column, v) in self.table.columns.iter().zip(values) {
            rows[at].put(*column, *v);
        }
    }

    fn device(&mut self, name: &[u8]) -> DevId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = if self.several_hosts && !self.host.is_empty() {
            let mut full = self.host.clone().into_bytes();
            full.push(b'/');
            full.extend_from_slice(name);
            self.log.devices.by_name(&full)
        } else {
            self.log.devices.by_name(name)
        };
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// Time stamps, and what is none of all that.
    fn other(&mut self, line: Line<'_>, text: &[u8]) {
        if let Some(stamp) = std::str::from_utf8(text).ok().and_then(|t| parse_stamp(t, self.order)) {
            self.next_report();
            self.report().stamp = Some(stamp);
            return;
        }
        let solaris = text.ends_with(b"device statistics") || text.starts_with(b"tty") || text.starts_with(b"cpu");
        if solaris {
            return self.next_report();
        }
        if self.table.columns.is_empty() && !self.any_rows {
            // Whatever stands before the first table (a shell prompt, a mail) is no loss.
            return;
        }
        let why = if line.complete { "neither a row of the table above nor a time stamp" } else { "cut off" };
        self.log.damaged(line.number, why);
    }
}

fn decimals(word: &[u8]) -> usize {
    word.iter().rev().take_while(|b| b.is_ascii_digit()).count().min(word.len().saturating_sub(1))
}

#[cfg(test)]
#[path = "iostat_text_tests.rs"]
mod tests;
