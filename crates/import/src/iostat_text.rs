//! Parses text of `iostat`: sysstat 9 and newer with any options, Solaris, illumos and FreeBSD `-x`.
//!
//! Nothing is parsed by position: headings identify the columns, in any order and number.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use iolens_core::model::{CpuShares, DevId};

use super::clock::{Stamp, day_must_be_first, parse_both, parse_both_banner_dates};
use super::cpu_share::CpuShare;
use super::damage::NEGATIVE;
use super::intervals::{Report, Run, place};
use super::iostat_columns::{Column, Row, column, is_negative, value};
use super::log::Log;
use super::recognise::LogFormat;
use super::text::{Line, columns, decimals, owned_text, words};

/// `Linux 6.1.0 (host) \t11/21/26 \t_x86_64_\t(2 CPU)`.
pub(super) struct Banner<'a> {
    pub kernel: &'a [u8],
    pub host: &'a [u8],
    pub date: Option<&'a [u8]>,
}

impl<'a> Banner<'a> {
    pub fn of(line: &'a [u8]) -> Option<Banner<'a>> {
        if !line.starts_with(b"Linux ") {
            return None;
        }
        let mut parts = words(line).skip(1);
        let kernel = parts.next()?;
        let host = parts.next()?.strip_prefix(b"(")?.strip_suffix(b")")?;
        Some(Banner {
            kernel,
            host,
            date: parts.next(),
        })
    }
}

#[derive(Debug, Default, Clone)]
struct IostatTable {
    columns: Vec<Column>,
    /// Whether the name follows the numbers (`--pretty`, Solaris `-n`).
    name_last: bool,
    /// Its heading begins with a blank, and so do all its rows.
    indented: bool,
    /// Cells are separated by commas.
    commas: bool,
    /// Rows of network file systems (`iostat -n`), which are not block devices.
    left_out: bool,
}

/// A name of at least this length gets a line of its own.
const LONG_NAME: usize = 12;

/// Reads a log line by line.
#[derive(Debug)]
pub struct Parser {
    kind: LogFormat,
    hosts: BTreeSet<Vec<u8>>,
    /// Whether some date is only valid with the day first, which decides `05/06/26` elsewhere in the same file.
    day_first: bool,
    runs: Vec<Run>,
    table: IostatTable,
    /// The last heading of devices in the report.
    last_heading: Vec<u8>,
    /// The headings of this run of iostat: a shorter line that begins like one of them is truncated.
    headings: BTreeSet<Vec<u8>>,
    /// Counts headings of devices.
    heading_number: u64,
    cpu: Option<Vec<Option<CpuShare>>>,
    cpu_row_next: bool,
    /// A long name on a line of its own, and that line.
    pending_name: Option<(Vec<u8>, u64)>,
    blanks: u32,
    /// The next report is the first of its run.
    fresh_run: bool,
    /// Rows of the current report by device, and the last heading above each.
    index: HashMap<DevId, (usize, u64)>,
    ids: HashMap<Vec<u8>, DevId>,
    any_rows: bool,
    network_rows: u64,
}

/// The CPU share that a heading names; `None` for other columns.
fn cpu_share(heading: &[u8]) -> Option<CpuShare> {
    match heading {
        b"%user" => Some(CpuShare::User),
        b"%nice" => Some(CpuShare::Nice),
        b"%system" | b"%sys" => Some(CpuShare::System),
        b"%iowait" => Some(CpuShare::Iowait),
        b"%steal" => Some(CpuShare::Steal),
        b"%idle" => Some(CpuShare::Idle),
        _ => None,
    }
}

impl Parser {
    /// Parser for the text of one tool.
    pub fn new(kind: LogFormat) -> Parser {
        Parser {
            kind,
            hosts: BTreeSet::new(),
            day_first: false,
            runs: Vec::new(),
            table: IostatTable::default(),
            last_heading: Vec::new(),
            headings: BTreeSet::new(),
            heading_number: 0,
            cpu: None,
            cpu_row_next: false,
            pending_name: None,
            blanks: 0,
            // Other systems print no banner, and always the averages since boot.
            fresh_run: kind != LogFormat::IostatText,
            index: HashMap::new(),
            ids: HashMap::new(),
            any_rows: false,
            network_rows: 0,
        }
    }

    /// Closes the last report of the log.
    pub fn finish(mut self, log: &mut Log) {
        self.drop_pending(log);
        self.close_report(log);
        log.limit("source prints averages per interval: no single I/O, no percentiles, no exact busy time");
        if self.network_rows > 0 {
            let n = self.network_rows;
            log.limit(&format!(
                "{n} rows of network file systems (iostat -n) were left out: they are no block devices"
            ));
            log.unusable =
                Some("it holds network file systems (iostat -n) only, which are no block devices");
        }
        place(log, self.runs, self.day_first);
    }

    /// Processes the next line.
    pub fn line(&mut self, log: &mut Log, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            self.drop_pending(log);
            self.blanks += 1;
            // Two empty lines immediately after the banner: iostat -y omitted its report since boot.
            if self.fresh_run && self.blanks == 2 && self.kind == LogFormat::IostatText {
                self.fresh_run = false;
            }
            return;
        }
        self.blanks = 0;
        if self.cpu_row_next {
            self.cpu_row_next = false;
            return self.cpu_row(log, line);
        }
        if let Some(b) = Banner::of(text) {
            return self.banner(log, &b);
        }
        if text.starts_with(b"avg-cpu:") {
            return self.cpu_heading(log, text);
        }
        if self.heading(log, line, text) || self.row(log, line, text) {
            return;
        }
        self.other(log, line, text);
    }

    fn banner(&mut self, log: &mut Log, b: &Banner<'_>) {
        let host = (!b.host.is_empty()).then(|| owned_text(b.host));
        self.hosts.insert(b.host.to_vec());
        log.devices.set_host(host.clone());
        log.host = log.host.take().or(host);
        log.kernel = log.kernel.take().or_else(|| Some(owned_text(b.kernel)));
        let date = b.date.and_then(|d| std::str::from_utf8(d).ok());
        self.day_first |= date.is_some_and(day_must_be_first);
        let date_unix_ns = date.and_then(parse_both_banner_dates);
        // A banner begins another run; an open report belongs to the previous one.
        self.drop_pending(log);
        self.close_report(log);
        self.runs.push(Run {
            date_unix_ns,
            ..self.new_run()
        });
        self.table = IostatTable::default();
        self.headings.clear();
        self.ids.clear();
        self.fresh_run = true;
    }

    fn new_run(&self) -> Run {
        // FreeBSD prints whole numbers whatever the interval.
        let decimals = match self.kind {
            LogFormat::FreebsdIostat => None,
            LogFormat::SolarisIostat => Some(1),
            _ => Some(2),
        };
        Run {
            decimals,
            may_be_excerpt: self.kind != LogFormat::IostatText,
            ..Run::default()
        }
    }

    /// The report to which lines are added.
    fn report(&mut self, log: &mut Log) -> &mut Report {
        if self.runs.last().is_none_or(|r| r.reports.is_empty()) {
            self.begin_report(log);
        }
        let run = self.runs.len() - 1;
        let last = self.runs[run].reports.len() - 1;
        &mut self.runs[run].reports[last]
    }

    fn begin_report(&mut self, log: &mut Log) {
        if self.runs.is_empty() {
            self.runs.push(self.new_run());
        }
        self.close_report(log);
        let since_boot = std::mem::take(&mut self.fresh_run);
        let run = self.runs.len() - 1;
        self.runs[run].reports.push(Report {
            since_boot,
            ..Report::default()
        });
        self.index.clear();
    }

    /// Completes the current report.
    fn close_report(&mut self, log: &mut Log) {
        if let Some(report) = self.runs.last_mut().and_then(|r| r.reports.last_mut()) {
            report.close(log);
        }
    }

    /// Begins a new report, unless the current one has neither rows nor CPU shares yet.
    fn next_report(&mut self, log: &mut Log) {
        let r = self.report(log);
        if !r.rows.is_empty() || r.cpu.is_some() {
            self.begin_report(log);
        }
    }

    /// A word on a line of its own was not the name of the next row.
    fn drop_pending(&mut self, log: &mut Log) {
        if let Some((_, line)) = self.pending_name.take() {
            log.damaged(line, "a word without a row");
        }
    }

    fn cpu_heading(&mut self, log: &mut Log, text: &[u8]) {
        self.drop_pending(log);
        self.next_report(log);
        self.cpu = Some(words(text).skip(1).map(cpu_share).collect());
        self.cpu_row_next = true;
    }

    fn cpu_row(&mut self, log: &mut Log, line: Line<'_>) {
        let fields = self.cpu.clone().unwrap_or_default();
        let mut cpu = CpuShares::default();
        let mut cells = words(line.bytes);
        for share in fields {
            let Some((percent, _)) = cells.next().and_then(value) else {
                return log.damaged(
                    line.number,
                    "processor shares that do not fit their heading",
                );
            };
            if let Some(share) = share {
                *share.place_in(&mut cpu) = Some(percent);
            }
        }
        if cells.next().is_some() {
            return log.damaged(
                line.number,
                "processor shares that do not fit their heading",
            );
        }
        self.report(log).cpu = Some(cpu);
    }

    /// Whether the line is a table's heading.
    fn heading(&mut self, log: &mut Log, line: Line<'_>, text: &[u8]) -> bool {
        let names = columns(text);
        let first = names.first().copied().unwrap_or_default();
        let last = names.last().copied().unwrap_or_default();
        if first == b"Filesystem:" || first == b"Filesystem" && last.ends_with(b"/s") {
            self.drop_pending(log);
            self.table = IostatTable {
                columns: vec![Column::Skip; names.len() - 1],
                left_out: true,
                ..IostatTable::default()
            };
            return true;
        }
        let starts = [&b"Device"[..], b"Device:", b"device"].contains(&first);
        if !starts && !matches!(last, b"Device" | b"device") {
            return false;
        }
        let all: Vec<Column> = names
            .iter()
            .filter_map(|w| std::str::from_utf8(w).ok())
            .map(column)
            .collect();
        if all.iter().all(|c| *c == Column::Skip) {
            return false;
        }
        self.drop_pending(log);
        // Half a heading would give columns the wrong names, so the open table continues.
        if self.is_cut_heading(text) {
            log.damaged(line.number, "a heading that was cut");
            return true;
        }
        // The same heading again: the next report of a log without stamps and CPU shares.
        if !self.index.is_empty() && self.table_seen(text) {
            self.begin_report(log);
        }
        let columns = if starts {
            all[1..].to_vec()
        } else {
            all[..all.len() - 1].to_vec()
        };
        let indented = line.bytes.starts_with(b" ");
        self.last_heading = text.to_owned();
        self.headings.insert(text.to_owned());
        self.heading_number += 1;
        self.table = IostatTable {
            columns,
            name_last: !starts,
            indented,
            commas: text.contains(&b','),
            left_out: false,
        };
        true
    }

    /// Whether a heading of this run begins with this one and is longer: the rest of it is missing.
    fn is_cut_heading(&self, text: &[u8]) -> bool {
        let after = (Bound::Excluded(text.to_vec()), Bound::Unbounded);
        let next = self.headings.range(after).next();
        next.is_some_and(|heading| heading.starts_with(text))
    }

    /// Whether the current report has had this heading: `--pretty` prints four different ones per report.
    fn table_seen(&self, heading: &[u8]) -> bool {
        self.last_heading == heading || words(heading).next() == Some(b"r/s")
    }

    /// The cells of a line, the name first.
    fn cells<'a>(&self, text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut cells: Vec<&[u8]> = if self.table.commas {
            text.split(|b| *b == b',').map(<[u8]>::trim_ascii).collect()
        } else {
            words(text).collect()
        };
        if self.table.name_last {
            cells.rotate_right(1);
        }
        cells
    }

    /// Whether the line is a row of the current table.
    fn row(&mut self, log: &mut Log, line: Line<'_>, text: &[u8]) -> bool {
        let n = self.table.columns.len();
        if n == 0 {
            return false;
        }
        let mut cells = self.cells(text);
        let long_name = self.pending_name.take_if(|_| cells.len() == n).map(|p| p.0);
        if let Some(name) = &long_name {
            cells.insert(0, name);
        }
        self.drop_pending(log);
        let is_name =
            !line.bytes.starts_with(b" ") && !text[0].is_ascii_digit() && text.len() >= LONG_NAME;
        if cells.len() == 1 && is_name && line.complete {
            self.pending_name = Some((cells[0].to_vec(), line.number));
            return true;
        }
        if cells.len() != n + 1 {
            return false;
        }
        // A truncated last number would still parse: 10.0 of 10.00.
        if !line.complete && !self.table.name_last && decimals(cells[n]) != decimals(cells[n - 1]) {
            return false;
        }
        let Some(values) = cells[1..]
            .iter()
            .map(|w| value(w))
            .collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        if self.table.left_out {
            self.network_rows += 1;
            return true;
        }
        // iostat puts a blank before the name of a group.
        let first_blank =
            line.bytes.starts_with(b" ") && !self.table.name_last && !self.table.indented;
        let is_group = first_blank && long_name.is_none() && self.kind == LogFormat::IostatText;
        let dev = self.device(log, cells[0], is_group);
        let mut known = self.table.columns.iter().zip(&values);
        if known.any(|(column, (v, _))| is_negative(*column, *v)) {
            log.damaged(line.number, NEGATIVE);
            // The report keeps a row of the device, so that the next heading begins the next report.
            self.store(log, dev, &[]);
        } else {
            self.store(log, dev, &values);
        }
        true
    }

    /// Adds the cells to the device's row of the current report; without cells the row has no value.
    fn store(&mut self, log: &mut Log, dev: DevId, values: &[(f64, Option<f64>)]) {
        self.any_rows = true;
        // If a device has these columns already, under an earlier heading, the row belongs to its next report, whose
        // beginning is missing.
        if self.is_said(dev) {
            self.begin_report(log);
        }
        // Borrowed separately: the report needs the parser, the index does not need the report.
        let at = self.index.get(&dev).map(|(at, _)| *at);
        let rows = &mut self.report(log).rows;
        let at = at.filter(|at| *at < rows.len()).unwrap_or_else(|| {
            rows.push(Row::new(dev));
            rows.len() - 1
        });
        let mut row = rows[at].clone();
        for (column, v) in self.table.columns.iter().zip(values) {
            row.put(*column, *v);
        }
        self.report(log).rows[at] = row;
        self.index.insert(dev, (at, self.heading_number));
    }

    /// Whether the current report has a column of the current table for `dev` already, under another heading.
    fn is_said(&self, dev: DevId) -> bool {
        let Some((at, number)) = self.index.get(&dev) else {
            return false;
        };
        let report = self.runs.last().and_then(|r| r.reports.last());
        let row = report.and_then(|r| r.rows.get(*at));
        *number != self.heading_number
            && row.is_some_and(|row| self.table.columns.iter().any(|c| row.has(*c)))
    }

    fn device(&mut self, log: &mut Log, name: &[u8], is_group: bool) -> DevId {
        let key = if is_group {
            [b" ", name].concat()
        } else {
            name.to_owned()
        };
        *self.ids.entry(key).or_insert_with(|| {
            if is_group {
                log.devices.group(name)
            } else {
                log.devices.by_name(name)
            }
        })
    }

    /// Parses time stamps, and handles all other lines.
    fn other(&mut self, log: &mut Log, line: Line<'_>, text: &[u8]) {
        let stamp = std::str::from_utf8(text)
            .ok()
            .and_then(|t| Some((parse_both(t)?, day_must_be_first(t))));
        if let Some((stamp, day_first)) = stamp.filter(|(s, _)| self.fits(s)) {
            self.day_first |= day_first;
            self.next_report(log);
            let report = self.report(log);
            report.stamp = Some(stamp);
            report.line = line.number;
            return;
        }
        let other_system = text.ends_with(b"device statistics")
            || text.starts_with(b"tty")
            || text.starts_with(b"cpu");
        if other_system {
            return self.next_report(log);
        }
        if self.table.columns.is_empty() && !self.any_rows {
            // Text before the first table (a shell prompt, a mail) is not a loss.
            return log.other_line(line.number);
        }
        let why = if line.complete {
            "neither a row of the table above nor a time stamp"
        } else {
            "cut off"
        };
        log.damaged(line.number, why);
    }

    /// Whether a stamp is of the run's kind: with or without date.
    fn fits(&self, stamp: &[Stamp; 2]) -> bool {
        let mut reports = self.runs.last().into_iter().flat_map(|r| &r.reports);
        let known = reports.find_map(|r| r.stamp);
        known.is_none_or(|k| matches!(k[0], Stamp::Unix(_)) == matches!(stamp[0], Stamp::Unix(_)))
    }
}

#[cfg(test)]
#[path = "iostat_text_tests.rs"]
mod tests;
