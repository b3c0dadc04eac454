//! Parses rows of `time r/s Kr/s us/r w/s Kw/s us/w`: rates with the end of each interval, in columns or as CSV, as
//! `zoom` prints them.

use iolens_core::model::{DAY_NS, SECOND_NS};

use super::clock::{Stamp, parse_date_line};
use super::damage::NEGATIVE;
use super::log::{Epoch, Log};
use super::rate_columns::{RateHeading, RateRow, RowEnd, begins_like_a_row};
use super::text::{Line, words};

/// Whether a line is the heading of such a table.
pub(super) fn is_heading(line: &[u8]) -> bool {
    RateHeading::of_line(line).is_some()
}

/// Parses all tables of a file; a new heading begins a new one.
#[derive(Debug, Default)]
pub(super) struct Parser {
    table: Option<OpenTable>,
    /// Whether rows have times of day or dates; unknown before the first row.
    is_wall: Option<bool>,
    /// There are rows with a time of day without a date above them.
    has_undated: bool,
    /// Some tables have a row for each device, others one for all.
    has_devices: bool,
    has_sums: bool,
    /// How many rows are of single processes, control groups or files.
    subject_rows: u64,
    /// How many rows are of intervals in which I/Os were lost.
    lossy_rows: u64,
}

/// The content below one heading.
#[derive(Debug)]
struct OpenTable {
    heading: RateHeading,
    /// Index of its first row.
    begin: usize,
    /// An empty line came after the rows, so prose may follow.
    is_ended: bool,
    /// The sums over the whole time, which `zoom` prints after the rows, follow.
    has_totals: bool,
    day: TableDay,
    last_end_ns: Option<i64>,
    /// The length between the ends of consecutive intervals that are not shortened.
    gaps_ns: Vec<i64>,
}

impl OpenTable {
    fn new(heading: RateHeading, begin: usize) -> OpenTable {
        OpenTable {
            heading,
            begin,
            is_ended: false,
            has_totals: false,
            day: TableDay::default(),
            last_end_ns: None,
            gaps_ns: Vec::new(),
        }
    }

    /// Notes the end of a row.
    fn ends_at(&mut self, end_ns: i64, is_cut: bool) {
        let before_ns = self.last_end_ns.replace(end_ns);
        let gap_ns = before_ns.map_or(0, |before| end_ns.saturating_sub(before));
        if gap_ns > 0 && !is_cut {
            self.gaps_ns.push(gap_ns);
        }
    }
}

/// The length of a whole interval: from the ends of the rows, else from the user, else assumed.
fn step_ns(table: &mut OpenTable, log: &mut Log) -> i64 {
    const MILLISECOND_NS: i64 = 1_000_000;
    let gaps_ns = &mut table.gaps_ns;
    gaps_ns.sort_unstable();
    let median_ns = gaps_ns.get(gaps_ns.len() / 2).copied();
    // CSV has no mark at a shortened last row. With two rows it makes the only gap; a step would be a round number.
    let is_alone = gaps_ns.len() == 1;
    let own = median_ns.filter(|gap| !is_alone || gap % MILLISECOND_NS == 0);
    // The user's value is for tables without times; this one has its own.
    if let Some(step_ns) = own.or(log.options.interval_ns) {
        return step_ns;
    }
    log.limit("a table of one row has no interval: one second is assumed (set --interval)");
    SECOND_NS
}

/// The day of the rows of a table.
#[derive(Debug, Default, Clone, Copy)]
struct TableDay {
    /// Midnight before the rows, in nanoseconds since 1970, if a line with a date precedes them.
    midnight_ns: Option<i64>,
    last_ns: Option<i64>,
}

impl TableDay {
    /// The absolute time of a time of day, in nanoseconds since 1970. It is on the next day if the clock goes back by
    /// more than half a day.
    fn absolute(&mut self, time_ns: i64) -> i64 {
        let midnight_ns = self.midnight_ns.unwrap_or(0);
        let mut at_ns = midnight_ns.saturating_add(time_ns);
        let went_back = self.last_ns.map_or(0, |last| last.saturating_sub(at_ns));
        if went_back > DAY_NS / 2 {
            at_ns = at_ns.saturating_add(DAY_NS);
            self.midnight_ns = Some(midnight_ns.saturating_add(DAY_NS));
        }
        self.last_ns = Some(at_ns);
        at_ns
    }
}

impl Parser {
    pub fn line(&mut self, log: &mut Log, line: Line<'_>) {
        if let Some(heading) = RateHeading::of_line(line.bytes) {
            self.close(log);
            self.table = Some(OpenTable::new(heading, log.rates.len()));
            return;
        }
        let text = line.bytes.trim_ascii();
        let Some(table) = &mut self.table else {
            if !text.is_empty() {
                log.other_line(line.number);
            }
            return;
        };
        if text.is_empty() {
            table.is_ended = true;
            return;
        }
        if text.starts_with(b"iolens: ") {
            return log.other_line(line.number);
        }
        if !table.heading.is_csv && reads_as_remark(table, log, text) {
            return;
        }
        if table.heading.has_subjects() {
            self.subject_rows += 1;
            return;
        }
        match table.heading.row(text) {
            Some(row) => self.row(log, line.number, row),
            // Prose around published tables does not begin with a number.
            None if table.is_ended && !begins_like_a_row(text) => log.other_line(line.number),
            None => log.damaged(line.number, "the cells do not fit the heading"),
        }
    }

    fn row(&mut self, log: &mut Log, number: u64, row: RateRow<'_>) {
        let Some(table) = &mut self.table else {
            return;
        };
        let Some(end) = row.end else {
            return;
        };
        let is_wall = matches!(end, RowEnd::Wall(_));
        if *self.is_wall.get_or_insert(is_wall) != is_wall {
            return log.damaged(number, "the rows before it have times of another clock");
        }
        let mut rates = row.rates;
        rates.to_ns = match end {
            RowEnd::Elapsed(ns) | RowEnd::Wall(Stamp::Unix(ns)) => ns,
            RowEnd::Wall(Stamp::TimeOfDay(ns)) => {
                self.has_undated |= table.day.midnight_ns.is_none();
                table.day.absolute(ns)
            }
        };
        table.ends_at(rates.to_ns, row.is_cut);
        if row.is_negative {
            return log.damaged(number, NEGATIVE);
        }
        if let Some(name) = row.device {
            rates.dev = log.devices.by_name(name);
        }
        self.lossy_rows += u64::from(row.is_lossy);
        log.rates.push(&rates);
    }

    /// Sets the starts of the open table's rows (the time column labels ends), and names a pseudo-device for sums after
    /// the interval.
    fn close(&mut self, log: &mut Log) {
        let Some(mut table) = self.table.take() else {
            return;
        };
        let rows = table.begin..log.rates.len();
        if rows.is_empty() {
            return;
        }
        let step_ns = step_ns(&mut table, log);
        let mut sum = None;
        if table.heading.has_devices() {
            self.has_devices = true;
        } else {
            self.has_sums = true;
            let name = format!("all every {} s", step_ns as f64 / 1e9);
            sum = Some(log.devices.aggregate(&name));
        }
        let mut before_ns: Option<i64> = None;
        let mut last_ns: Option<i64> = None;
        log.rates.replace(rows, |_, to_ns, dev| {
            // Rows of several devices have the same end.
            if last_ns != Some(to_ns) {
                before_ns = last_ns.replace(to_ns);
            }
            // A shortened row begins where the previous one ends.
            let earliest_ns = to_ns.saturating_sub(step_ns);
            let previous_ns = before_ns.filter(|before| *before < to_ns);
            let from_ns = previous_ns.map_or(earliest_ns, |end| end.max(earliest_ns));
            (from_ns, to_ns, sum.unwrap_or(dev))
        });
    }

    pub fn finish(mut self, log: &mut Log) {
        self.close(log);
        if self.is_wall == Some(true) {
            log.epoch = Epoch::Unix;
        }
        log.is_undated = self.has_undated;
        if self.subject_rows > 0 {
            let n = self.subject_rows;
            log.limit(&format!(
                "{n} rows of single processes, control groups or files were left out"
            ));
            log.unusable = Some(
                "its rows are of single processes, control groups or files; a recording of rates has devices (zoom --by device)",
            );
        }
        if self.lossy_rows > 0 {
            let n = self.lossy_rows;
            log.limit(&format!(
                "{n} rows are of intervals in which the source lost I/Os"
            ));
        }
        if self.has_devices {
            log.limit("source prints rates of devices: no single I/O, no percentiles");
        }
        if self.has_sums || !self.has_devices {
            log.limit(
                "source prints sums over its devices: no single device, no single I/O, no percentiles",
            );
        }
    }
}

/// Whether a line is one that `zoom` prints between or after the rows of a table: a date, the meaning of a mark, or
/// sums over the whole time.
fn reads_as_remark(table: &mut OpenTable, log: &mut Log, text: &[u8]) -> bool {
    let date = std::str::from_utf8(text).ok().and_then(parse_date_line);
    if let Some((midnight_ns, is_known_zone)) = date {
        table.day = TableDay {
            midnight_ns: Some(midnight_ns),
            last_ns: None,
        };
        if !is_known_zone {
            log.limit(
                "times of a zone that has only a name are taken for UTC (zoom --utc prints such)",
            );
        }
        return true;
    }
    if text.starts_with(b"in all, ") {
        table.has_totals = true;
        return true;
    }
    let first = words(text).next();
    let is_total = table.has_totals && first == Some(&b"total"[..]);
    is_total || first == Some(&b"*"[..]) || first == Some(&b"~"[..])
}

#[cfg(test)]
mod tests {
    use super::super::damage::NEGATIVE;
    use super::super::files::parse_bytes;
    use super::super::log::{ImportOptions, Imported, NO_DATE};
    use super::super::recognise::{LogFormat, recognise};
    use iolens_core::model::{DAY_NS, IntervalRates, SECOND_NS};
    use std::ops::Range;
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

    /// `zoom` of a recording that ends between two steps.
    const ZOOMED: &str = "        time         r/s     Kr/s     us/r         w/s     Kw/s     us/w   p99 us/r  max us/r  in-flight   max   %busy  device s
2026-11-28 UTC
23:59:59.096           0        0        -           0        0        -          -         -       0.00     0     0.0    0.0000
2026-11-29 UTC
00:00:00.096         300    19200       34           0        0        -         54       146       0.01     1     1.0    0.0007 *
00:00:01.096         200     1600      <34         300    38400       55         98       136       0.02     1     1.6    0.0017
00:00:01.599           -        -        -           -        -        -          -         -          -     -       -         - * ~
* interval contains lost I/Os (2 of 4 rows)
~ partial last interval (0.503 s of 1 s); rates scaled accordingly
iolens: a message
";
    /// 2026-11-28T23:59:58.096Z, in milliseconds.
    const BEGIN_MS: i64 = 1_795_910_398_096;

    fn read(text: &str) -> Imported {
        assert_eq!(recognise(text.as_bytes()), Some(LogFormat::RateTable));
        let options = ImportOptions {
            strict: true,
            ..ImportOptions::default()
        };
        parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            text.as_bytes(),
            options,
        )
        .expect("imports")
    }

    fn intervals_ms(got: &Imported) -> Vec<Range<i64>> {
        let rows = got.rates.iter();
        rows.map(|r| r.from_ns / 1_000_000..r.to_ns / 1_000_000)
            .collect()
    }

    #[test]
    fn a_table_of_zoom_is_read_with_its_dates_and_marks() {
        let got = read(ZOOMED);
        assert_eq!(got.meta.start_unix_ns, BEGIN_MS * 1_000_000);
        assert_eq!(
            intervals_ms(&got),
            [0..1000, 1000..2000, 2000..3000, 3000..3503]
        );
        let rows: Vec<IntervalRates> = got.rates.iter().collect();
        let reads = |row: usize| rows[row].classes[0];
        assert_eq!((reads(0).ios_per_s, reads(0).mean_us), (Some(0.0), None));
        assert_eq!(reads(1).bytes_per_s, Some(19_200.0 * 1024.0));
        assert_eq!(reads(1).mean_us, Some(34.0));
        assert_eq!(
            (reads(2).ios_per_s, reads(2).mean_us),
            (Some(200.0), None),
            "a bound is no mean"
        );
        assert_eq!(rows[2].classes[1].mean_us, Some(55.0));
        assert_eq!(
            (rows[2].in_flight, rows[2].util_percent),
            (Some(0.02), Some(1.6))
        );
        assert_eq!(reads(3).ios_per_s, None, "not known is no zero");
        assert!(got.meta.limits[0].starts_with("2 rows are of intervals"));
        assert_eq!(got.damage.other_lines, 1);
        assert_eq!(got.meta.devices[0].name, "all every 1 s");
    }

    #[test]
    fn csv_of_zoom_has_its_own_clock() {
        let heading =
            "time,time_unix_s,time_s,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,lossy\n";
        let got = read(&format!(
            "{heading}2026-11-28T23:59:59.096Z,1795910399.096,154,300,19200,33.643,0,0,,0\n\
             2026-11-29T00:00:00.096Z,1795910400.096,155,,,,,,,1\n\
             2026-11-29T00:00:00.1Z,1795910400.1,155.004,5,1,2,0,0,,0\n"
        ));
        assert_eq!(got.meta.start_unix_ns, BEGIN_MS * 1_000_000);
        assert_eq!(intervals_ms(&got), [0..1000, 1000..2000, 2000..2004]);
        let rows: Vec<IntervalRates> = got.rates.iter().collect();
        assert_eq!(rows[0].classes[0].mean_us, Some(33.643));
        assert_eq!(rows[1].classes[0].ios_per_s, None);
        // For a recording without a date `zoom` has only seconds.
        let got = read(&format!(
            "{heading},,1,5,1,2,0,0,,0\n,,1.002413818,5,1,2,0,0,,0\n"
        ));
        assert_eq!(got.meta.start_unix_ns, 0);
        assert_eq!(
            intervals_ms(&got),
            [0..1000, 1000..1002],
            "the only gap is no step"
        );
    }

    #[test]
    fn rows_of_devices_stay_apart_and_sums_below_them_are_no_rows() {
        let got = read(
            "    time  device                   r/s     Kr/s     us/r         w/s     Kw/s     us/w
       1  loop0                      0        0        -           0        0        -
       1  vda                        7       28        5           0        0        -
       2  loop0                    300    19200       34           0        0        -
       2  vda                        0        0        -           1        4       60
   2.250  loop0                      4       16        9           0        0        - ~

in all, 2.250 s:
   total  loop0                    134     8535       34           0        0        -
   total  vda                        3       12        5           0        2       60
~ partial last interval (0.250 s of 1 s); rates scaled accordingly
",
        );
        let names: Vec<&str> = got.meta.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["loop0", "vda"]);
        let loop0 = got.rates.of(got.meta.devices[0].id);
        let ios: Vec<_> = loop0
            .iter()
            .map(|r| r.classes[0].ios(r.interval_ns()))
            .collect();
        assert_eq!(ios, [Some(0), Some(300), Some(1)]);
        assert_eq!(got.rates.of(got.meta.devices[1].id).len(), 2);
    }

    #[test]
    fn rows_of_processes_are_no_rows_of_devices() {
        let csv = "time_s,process,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,lossy\n\
                   2,\"a, b[7]\",300,19200,33.643,0,0,,0\n";
        let refused = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            csv.as_bytes(),
            ImportOptions::default(),
        );
        let why = refused.expect_err("refused").to_string();
        assert!(why.contains("single processes"), "{why}");
    }

    #[test]
    fn a_time_of_day_without_a_date_has_the_first_of_1970() {
        let table = "time r/s Kr/s us/r w/s Kw/s us/w
23:59:59.5 10 1280 4082 13240 1993760 22143
00:00:00.5 20 2560 136888 4150 2171420 82941
";
        let got = read(table);
        assert_eq!(
            got.meta.start_unix_ns,
            (DAY_NS / SECOND_NS - 2) * SECOND_NS + SECOND_NS / 2
        );
        assert_eq!(intervals_ms(&got), [0..1000, 1000..2000]);
        assert!(got.meta.limits.iter().any(|l| l == NO_DATE));
        let start_unix_ns = Some(1_795_910_398 * SECOND_NS);
        let options = ImportOptions {
            start_unix_ns,
            ..ImportOptions::default()
        };
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            table.as_bytes(),
            options,
        )
        .expect("imports");
        assert_eq!(Some(got.meta.start_unix_ns), start_unix_ns);
        assert!(got.meta.limits.iter().all(|l| !l.contains("--start")));
    }

    #[test]
    fn a_negative_value_costs_its_row_and_no_dash_does() {
        let table = "time r/s Kr/s us/r w/s Kw/s us/w
153.8 10 1280 - 13240 1993760 22143
153.9 20 2560 -4 4150 2171420 82941
154.0 -20 2560 136888 4150 2171420 82941
154.1 20 2560 136888 4150 2171420 82941
";
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            table.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports");
        let damaged: Vec<(u64, &str)> = got.damage.places.iter().map(|p| (p.at, &*p.why)).collect();
        assert_eq!(damaged, [(3, NEGATIVE), (4, NEGATIVE)]);
        let lengths: Vec<i64> = got.rates.iter().map(|r| r.interval_ns()).collect();
        assert_eq!(lengths, [SECOND_NS / 10; 2]);
    }

    #[test]
    fn what_has_another_clock_than_the_rows_before_is_damage() {
        let table = "time r/s Kr/s us/r w/s Kw/s us/w
153.8 10 1280 4082 13240 1993760 22143
13:52:01.5 20 2560 136888 4150 2171420 82941
13:52:0x 20 2560 136888 4150 2171420 82941
153.9 20 2560 136888 4150 2171420 82941 ?
154.0 20 2560 -- 4150 2171420 82941
154.1 20 2560 136888 4150 2171420 82941
";
        let got = parse_bytes(
            LogFormat::RateTable,
            Path::new("t"),
            table.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports");
        let damaged: Vec<u64> = got.damage.places.iter().map(|p| p.at).collect();
        assert_eq!(damaged, [3, 4, 5, 6]);
        assert_eq!(got.rates.len(), 2);
    }
}
