//! Rows of `time r/s Kr/s us/r w/s Kw/s us/w`: rates of a set of devices with the end of each interval in seconds, in
//! columns or as CSV.

use iolens_core::model::{Class, DevId, IntervalRates};

use super::log::Log;
use super::text::{Line, number, seconds_ns, words};

/// Whether a line is the heading of such a table.
pub(super) fn is_heading(line: &[u8]) -> bool {
    columns(line).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum RateColumn {
    Time,
    Ios(Class),
    KibPerS(Class),
    MeanUs(Class),
    Skip,
}

impl RateColumn {
    fn of_heading(word: &[u8]) -> RateColumn {
        use Class::{Read, Write};
        match word {
            b"time" | b"time_s" => RateColumn::Time,
            b"r/s" | b"r_s" | b"r_per_s" => RateColumn::Ios(Read),
            b"w/s" | b"w_s" | b"w_per_s" => RateColumn::Ios(Write),
            b"Kr/s" | b"kr/s" | b"kr_s" | b"r_kib_per_s" => RateColumn::KibPerS(Read),
            b"Kw/s" | b"kw/s" | b"kw_s" | b"w_kib_per_s" => RateColumn::KibPerS(Write),
            b"us/r" | b"us_r" | b"r_us" => RateColumn::MeanUs(Read),
            b"us/w" | b"us_w" | b"w_us" => RateColumn::MeanUs(Write),
            _ => RateColumn::Skip,
        }
    }
}

fn cells(line: &[u8]) -> Vec<&[u8]> {
    if line.contains(&b',') {
        line.split(|b| *b == b',').map(<[u8]>::trim_ascii).collect()
    } else {
        words(line).collect()
    }
}

/// The columns of a heading; `None` if it lacks the time or both rates.
fn columns(line: &[u8]) -> Option<Vec<RateColumn>> {
    let columns: Vec<RateColumn> = cells(line)
        .into_iter()
        .map(RateColumn::of_heading)
        .collect();
    let whole = columns.first() == Some(&RateColumn::Time)
        && columns.contains(&RateColumn::Ios(Class::Read))
        && columns.contains(&RateColumn::Ios(Class::Write));
    whole.then_some(columns)
}

/// Reads all tables of a file; a new heading begins a new one.
#[derive(Debug, Default)]
pub(super) struct Parser {
    heading: Option<Vec<RateColumn>>,
    /// Index of the first row of the current table.
    begin: usize,
    /// An empty line came after the table: prose may follow.
    ended: bool,
}

impl Parser {
    pub fn line(&mut self, log: &mut Log, line: Line<'_>) {
        if let Some(columns) = columns(line.bytes) {
            close(log, self.begin);
            *self = Parser {
                heading: Some(columns),
                begin: log.rates.len(),
                ended: false,
            };
            return;
        }
        if line.bytes.trim_ascii().is_empty() {
            self.ended = true;
            return;
        }
        let Some(columns) = &self.heading else {
            return log.other_line(line.number);
        };
        let cells = cells(line.bytes);
        let cut = !line.complete && cells.len() < columns.len();
        match row(columns, &cells) {
            Some(r) if !cut => log.rates.push(&r),
            // Prose around published tables: it does not begin with a number.
            None if self.ended && cells.first().is_none_or(|c| number(c).is_none()) => {
                log.other_line(line.number)
            }
            _ => log.damaged(line.number, "the cells do not fit the heading"),
        }
    }

    pub fn finish(self, log: &mut Log) {
        close(log, self.begin);
        log.limit(
            "source prints sums over its devices: no single device, no single I/O, no percentiles",
        );
    }
}

fn row(columns: &[RateColumn], cells: &[&[u8]]) -> Option<IntervalRates> {
    if columns.len() != cells.len() {
        return None;
    }
    let mut r = IntervalRates::new(0, 0, DevId(0));
    for (column, cell) in columns.iter().zip(cells) {
        match column {
            RateColumn::Time => r.to_ns = seconds_ns(cell)?,
            RateColumn::Ios(c) => r.classes[*c as usize].ios_per_s = Some(number(cell)?),
            RateColumn::KibPerS(c) => {
                r.classes[*c as usize].bytes_per_s = Some(number(cell)? * 1024.0)
            }
            // An empty cell is how CSV says "no I/O, no mean"; the tables print 0.
            RateColumn::MeanUs(_) if cell.is_empty() => {}
            RateColumn::MeanUs(c) => r.classes[*c as usize].mean_us = Some(number(cell)?),
            RateColumn::Skip => {}
        }
    }
    for c in r.classes.iter_mut().filter(|c| c.ios_per_s == Some(0.0)) {
        c.mean_us = None;
    }
    Some(r)
}

/// Gives the rows of a table their beginnings (the time column labels ends) and a pseudo-device named by the interval.
fn close(log: &mut Log, begin: usize) {
    let table = begin..log.rates.len();
    if table.is_empty() {
        return;
    }
    let mut gaps: Vec<i64> = Vec::new();
    let mut before_ns = None;
    for row in table.clone().filter_map(|i| log.rates.get(i)) {
        gaps.extend(before_ns.map(|before| row.to_ns.saturating_sub(before)));
        before_ns = Some(row.to_ns);
    }
    gaps.retain(|gap| *gap > 0);
    gaps.sort_unstable();
    // The user speaks for tables without times; this one has its own.
    let given = gaps
        .get(gaps.len() / 2)
        .copied()
        .or(log.options.interval_ns);
    if given.is_none() {
        log.limit("a table of one row has no interval: one second is assumed (set --interval)");
    }
    let step = given.unwrap_or(1_000_000_000);
    let dev = log
        .devices
        .aggregate(&format!("all every {} s", step as f64 / 1e9));
    log.rates.replace(table, |_, to_ns, _| {
        (to_ns.saturating_sub(step), to_ns, dev)
    });
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::super::log::ImportOptions;
    use super::super::recognise::{LogFormat, recognise};
    use std::path::Path;

    const TABLE: &str = "    time         r/s     Kr/s     us/r         w/s     Kw/s     us/w
   153.7          10     1280     4082       13240  1993760    22143
   153.8          20     2560   136888        4150  2171420    82941
   153.9          40     damaged    13776        1350   286795    73533
   154.0          40     4000     8753       12890    99770     1640
   154.1           0        0        0           0        0        0

And there it is! In just 200ms we see it.
";

    #[test]
    fn times_label_ends_and_damage_costs_a_line() {
        assert_eq!(recognise(TABLE.as_bytes()), Some(LogFormat::RateTable));
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            TABLE.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(got.rates.len(), 4);
        let peak = got.rates.get(1).expect("there");
        assert_eq!(
            (peak.from_ns, peak.to_ns),
            (153_700_000_000, 153_800_000_000)
        );
        assert_eq!(peak.classes[0].ios(peak.interval_ns()), Some(2));
        assert_eq!(peak.classes[0].mean_us, Some(136_888.0));
        assert_eq!(peak.classes[1].bytes_per_s, Some(2_171_420.0 * 1024.0));
        assert_eq!(
            got.rates.get(3).expect("there").classes[0].mean_us,
            None,
            "an empty interval has no mean"
        );
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
        let options = ImportOptions {
            interval_ns: Some(15_000_000_000),
            ..ImportOptions::default()
        };
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            TABLE.as_bytes(),
            options,
        )
        .expect("imports");
        assert_eq!(
            got.rates.get(1).expect("there").interval_ns(),
            100_000_000,
            "its times take precedence"
        );
    }

    #[test]
    fn the_same_as_csv() {
        let csv = b"time_s,r_s,kr_s,us_r,w_s,kw_s,us_w\n153.7,10,1280,4082,13240,1993760,22143\n153.8,20,2560,136888,4150,2171420,82941\n";
        assert_eq!(recognise(csv), Some(LogFormat::RateTable));
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            csv,
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(
            got.rates.get(1).expect("there").classes[0].mean_us,
            Some(136_888.0)
        );
        assert_eq!(got.rates.get(0).expect("there").from_ns, 153_600_000_000);
    }
}
