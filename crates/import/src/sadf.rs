//! Parses the text that `sadf` prints of `sar`'s files: `sadf -d` (a table per activity, semicolon-separated) and `sadf
//! -p` (a line per value, tab-separated). Each line has the end and the length of its interval.

use std::collections::{BTreeSet, HashMap};

use iolens_core::model::{CpuShares, DevId, SECOND_NS};

use super::clock::{DateOrder, Stamp, parse_stamp};
use super::damage::NEGATIVE;
use super::iostat_columns::{Column, Row, column, is_negative};
use super::log::{Epoch, Log};
use super::text::{Line, Lines, integer, number, owned_text};

const HEADING: &[u8] = b"# hostname;interval;timestamp";
/// Cells before the values: host, interval, time.
const COMMON: usize = 3;

/// Whether the line is one that `sadf -d` or `sadf -p` prints.
pub(super) fn looks_like_line(line: &[u8]) -> bool {
    if line.starts_with(HEADING) {
        return true;
    }
    let cells: Vec<&[u8]> = line.split(|b| *b == b'\t').collect();
    let [_, interval, stamp, _, field, value] = cells[..] else {
        return false;
    };
    let is_field = [b'%', b'/'].iter().any(|b| field.contains(b)) || field == b"tps";
    integer(interval).is_some() && end_ns(stamp).is_some() && is_field && number(value).is_some()
}

/// The end of an interval: a date (UTC unless `sadf -t` printed local times), or seconds since the epoch.
fn end_ns(stamp: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(stamp).ok()?;
    match parse_stamp(text, DateOrder::MonthFirst)? {
        Stamp::Unix(ns) => Some(ns),
        Stamp::TimeOfDay(_) => None,
    }
}

/// A column of CPU shares, grouped like `iostat` does.
pub(super) fn put_share(cpu: &mut CpuShares, name: &str, percent: f64) {
    let share = match name {
        "user" | "usr" | "guest" => &mut cpu.user,
        "nice" | "gnice" => &mut cpu.nice,
        "system" | "sys" | "irq" | "soft" => &mut cpu.system,
        "iowait" => &mut cpu.iowait,
        "steal" => &mut cpu.steal,
        "idle" => &mut cpu.idle,
        _ => return,
    };
    *share = Some(share.unwrap_or(0.0) + percent);
}

/// The table of the current lines of `sadf -d`.
#[derive(Debug)]
enum SadfTable {
    /// Columns after the name, and whether `sadf -h` puts all devices into one line.
    Disks {
        columns: Vec<Column>,
        repeated: bool,
    },
    Cpus(Vec<String>),
    Other,
}

/// The host, time and subject that values belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    to_ns: i64,
    from_ns: i64,
    host: Vec<u8>,
    name: Vec<u8>,
}

struct SadfParser<'a> {
    log: &'a mut Log,
    table: SadfTable,
    /// The headings so far.
    headings: BTreeSet<Vec<u8>>,
    ids: HashMap<(Vec<u8>, Vec<u8>), DevId>,
    /// The values of one disk or of the CPUs from lines of `sadf -p` so far.
    open: Option<(Subject, Row, CpuShares)>,
    other_rows: u64,
}

/// Parses a file of `sadf`'s text.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let mut parser = SadfParser {
        log,
        table: SadfTable::Other,
        headings: BTreeSet::new(),
        ids: HashMap::new(),
        open: None,
        other_rows: 0,
    };
    while let Some(line) = parser.log.next_line(lines) {
        parser.line(line);
    }
    parser.close_open();
    finish(parser.log, parser.other_rows);
}

/// The state common to all forms of `sadf`.
pub(super) fn finish(log: &mut Log, other_rows: u64) {
    log.epoch = Epoch::Unix;
    if other_rows > 0 {
        log.limit(&format!(
            "{other_rows} rows of sar's tables about other things than disks and processors were left out"
        ));
    }
    log.limit(
        "source prints averages per interval: no single I/O, no percentiles, no exact busy time",
    );
    if log.rates.is_empty() {
        log.cpu.clear();
        log.unusable = Some("it has no rows of devices: sadf -d FILE -- -d prints them");
    }
}

impl SadfParser<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            return;
        }
        if text.starts_with(HEADING) {
            return self.heading(line.number, text);
        }
        let separator = if text.contains(&b'\t') && !text.contains(&b';') {
            b'\t'
        } else {
            b';'
        };
        let cells: Vec<&[u8]> = text.split(|b| *b == separator).collect();
        // `vm;-1;2026-11-24 11:55:08 UTC;LINUX-RESTART (2 CPU)`, and comments of the user.
        if let Some(first) = cells.get(COMMON)
            && (first.starts_with(b"LINUX-RESTART") || first.starts_with(b"COM"))
        {
            return;
        }
        let understood = if separator == b'\t' {
            self.value(line, &cells)
        } else {
            self.row(line, &cells)
        };
        if understood.is_none() {
            self.log.damaged(line.number, "no line that sadf prints");
        }
    }

    fn heading(&mut self, line: u64, text: &[u8]) {
        let repeated = text.ends_with(b"[...]");
        let text = text.strip_suffix(b"[...]").unwrap_or(text);
        let names: Vec<String> = text
            .split(|b| *b == b';')
            .skip(COMMON)
            .map(|c| String::from_utf8_lossy(c).into_owned())
            .collect();
        let known = self.headings.range(text.to_vec()..).next();
        let is_cut = known.is_some_and(|k| k.len() > text.len() && k.starts_with(text));
        if names.is_empty() || names == ["DEV"] || is_cut {
            // Half a heading would give columns the wrong names, so the open table continues.
            return self.log.damaged(line, "a heading that was cut");
        }
        self.headings.insert(text.to_vec());
        self.table = match names.first().map(String::as_str) {
            Some("DEV") if names.iter().any(|n| n == "tps") => SadfTable::Disks {
                columns: names[1..].iter().map(|n| column(n)).collect(),
                repeated,
            },
            Some("CPU") if names.iter().any(|n| n == "%idle") => {
                let shares = names[1..].iter();
                SadfTable::Cpus(
                    shares
                        .map(|n| n.trim_start_matches('%').to_owned())
                        .collect(),
                )
            }
            _ => SadfTable::Other,
        };
    }

    /// The common cells: host, beginning and end of the interval.
    fn subject(cells: &[&[u8]], name: &[u8]) -> Option<Subject> {
        let seconds = i64::try_from(integer(cells[1])?).ok()?;
        let to_ns = end_ns(cells[2])?;
        Some(Subject {
            to_ns,
            from_ns: to_ns.checked_sub(seconds.checked_mul(SECOND_NS)?)?,
            host: cells[0].to_owned(),
            name: name.to_owned(),
        })
    }

    /// A line of `sadf -d`.
    fn row(&mut self, line: Line<'_>, cells: &[&[u8]]) -> Option<()> {
        if cells.len() <= COMMON {
            return None;
        }
        let (common, values) = cells.split_at(COMMON);
        let table = std::mem::replace(&mut self.table, SadfTable::Other);
        let understood = match &table {
            SadfTable::Disks { columns, repeated } => {
                let width = columns.len() + 1;
                let fits = if *repeated {
                    values.len() % width == 0
                } else {
                    values.len() == width
                };
                let mut rows = values.chunks(width);
                let is_damaged = rows.clone().any(|row| has_negative(&row[1..], columns));
                if fits && is_damaged {
                    self.log.damaged(line.number, NEGATIVE);
                    Some(())
                } else {
                    (fits && is_whole(line, values))
                        .then(|| rows.try_for_each(|row| self.disk(common, row, columns)))
                        .flatten()
                }
            }
            SadfTable::Cpus(names) => (values.len() == names.len() + 1 && is_whole(line, values))
                .then(|| self.cpu(common, values, names))
                .flatten(),
            SadfTable::Other => {
                self.other_rows += 1;
                Some(())
            }
        };
        self.table = table;
        understood
    }

    fn disk(&mut self, common: &[&[u8]], row: &[&[u8]], columns: &[Column]) -> Option<()> {
        let subject = Self::subject(common, row[0])?;
        let mut out = Row::new(self.device(&subject));
        for (column, cell) in columns.iter().zip(&row[1..]) {
            out.put(*column, (number(cell)?, None));
        }
        self.push(&subject, out);
        Some(())
    }

    fn cpu(&mut self, common: &[&[u8]], values: &[&[u8]], names: &[String]) -> Option<()> {
        let subject = Self::subject(common, values[0])?;
        let mut cpu = CpuShares::default();
        for (name, cell) in names.iter().zip(&values[1..]) {
            put_share(&mut cpu, name, number(cell)?);
        }
        // -1 is the sum of all CPUs.
        if [&b"-1"[..], b"all"].contains(&values[0]) {
            self.push_cpu(&subject, cpu);
        }
        Some(())
    }

    /// A line of `sadf -p`: one value.
    fn value(&mut self, line: Line<'_>, cells: &[&[u8]]) -> Option<()> {
        let [_, _, _, name, field, text] = cells[..] else {
            return None;
        };
        let percent_or_rate = number(text).filter(|_| line.complete || decimals_are_usual(text))?;
        let field = std::str::from_utf8(field).ok()?;
        let subject = Self::subject(cells, name)?;
        let is_cpu = name == b"all" && field.starts_with('%');
        let meaning = column(field);
        // Network interfaces and sums of all disks have other names, or none.
        if !is_cpu && (name == b"-" || !is_disk_field(field)) {
            self.other_rows += 1;
            return Some(());
        }
        if !is_cpu && is_negative(meaning, percent_or_rate) {
            self.log.damaged(line.number, NEGATIVE);
            return Some(());
        }
        if self.open.as_ref().is_none_or(|(s, ..)| *s != subject) {
            self.close_open();
            let dev = if is_cpu {
                DevId(0)
            } else {
                self.device(&subject)
            };
            self.open = Some((subject, Row::new(dev), CpuShares::default()));
        }
        let (_, row, cpu) = self.open.as_mut()?;
        if is_cpu {
            put_share(cpu, &field[1..], percent_or_rate);
        } else {
            row.put(meaning, (percent_or_rate, None));
        }
        Some(())
    }

    fn close_open(&mut self) {
        let Some((subject, row, cpu)) = self.open.take() else {
            return;
        };
        if subject.name == b"all" {
            self.push_cpu(&subject, cpu);
        } else {
            self.push(&subject, row);
        }
    }

    fn device(&mut self, subject: &Subject) -> DevId {
        let key = (subject.host.clone(), subject.name.clone());
        let devices = &mut self.log.devices;
        let id = *self.ids.entry(key).or_insert_with(|| {
            devices.set_host(Some(owned_text(&subject.host)));
            devices.by_name(&subject.name)
        });
        if self.log.host.is_none() {
            self.log.host = Some(owned_text(&subject.host));
        }
        id
    }

    fn push(&mut self, subject: &Subject, mut row: Row) {
        row.complete();
        row.rates.from_ns = subject.from_ns;
        row.rates.to_ns = subject.to_ns;
        self.log.rates.push(&row.rates);
    }

    fn push_cpu(&mut self, subject: &Subject, cpu: CpuShares) {
        if cpu != CpuShares::default() {
            self.log.cpu.push(CpuShares {
                from_ns: subject.from_ns,
                to_ns: subject.to_ns,
                ..cpu
            });
        }
    }
}

fn has_negative(cells: &[&[u8]], columns: &[Column]) -> bool {
    let mut known = columns.iter().zip(cells);
    known.any(|(column, cell)| number(cell).is_some_and(|v| is_negative(*column, v)))
}

/// Whether a field of `sadf -p` is one of `sar -d`.
fn is_disk_field(field: &str) -> bool {
    const UNUSED: [&str; 2] = ["areq-sz", "avgrq-sz"];
    UNUSED.contains(&field) || column(field) != Column::Skip
}

/// Whether the last cell of a file's last line is as long as it should be.
fn is_whole(line: Line<'_>, values: &[&[u8]]) -> bool {
    line.complete || values.last().is_some_and(|last| decimals_are_usual(last))
}

/// `sadf` prints two digits after the point.
fn decimals_are_usual(text: &[u8]) -> bool {
    super::text::decimals(text) == 2
}

#[cfg(test)]
#[path = "sadf_tests.rs"]
mod tests;
