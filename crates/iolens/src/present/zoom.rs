//! Writes time series (`iolens zoom`) as a table, CSV or JSON.

use std::cell::OnceCell;
use std::fmt::Write;

use iolens_core::analysis::timeline::{GroupBy, GroupKey, Row};
use jiff::civil::Date;
use jiff::tz::Offset;
use serde_json::{Map, json};

use super::NOT_KNOWN;
use super::escape;
use super::fields::{Field, ShownColumns, Value};
use super::layout::{cut, fixed};
use super::times::{Times, exact_seconds, time_of_day};
use super::workload::{Pods, Workload};
use crate::engine::subjects::{Figure, Order};

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table for terminals.
    Table,
    /// A line of column names, then one line per row.
    Csv,
    /// One array of objects.
    Json,
    /// One object per line, for unbounded streams.
    Ndjson,
}

/// Writes rows one by one: `begin`, `row` for each, `end`. After any `row`, `end` completes a valid document.
#[derive(Debug)]
pub struct ZoomWriter {
    format: Format,
    by: GroupBy,
    columns: ShownColumns,
    step_ns: i64,
    time_decimals: usize,
    rows: u64,
    lossy: u64,
    /// Length of the slot that is cut by the end of the window.
    cut_ns: Option<i64>,
    /// Slots end at samples, not at multiples of the step.
    sampled: bool,
    /// Slots have the lengths that the rows of a table have, and the step is the usual one.
    own_intervals: bool,
    /// Rows are over the whole of their recordings, and the step is the length of the first.
    are_totals: bool,
    /// How the instants of rows are written; `None`: as seconds since the start, of which no date is known.
    times: Option<Times>,
    /// The date and zone offset that the table showed last.
    shown_day: Option<(Date, Offset)>,
    /// Pods of the control groups.
    pods: Pods,
    /// Columns of the terminal.
    width: usize,
    /// The columns of each line of a row, with their widths. Computed at the first row.
    lines: OnceCell<Vec<Vec<(&'static Field, usize)>>>,
}

/// Width of the time, and of the column of device names with the space before it.
const TIME_WIDTH: usize = 8;
/// Width of a time of day up to the point before its fraction.
const CLOCK_WIDTH: usize = 9;
/// Decimals of the time of a row that does not end at a multiple of the step.
const CUT_DECIMALS: usize = 3;
const DEVICE_WIDTH: usize = 18;
/// Width of the marks before a name in the last column, and of the name.
const MARKS_WIDTH: usize = 5;
const MIN_NAME: usize = 12;
/// A column of a narrow table: eight digits and a space.
const NARROW_COLUMN: usize = 9;

impl ZoomWriter {
    /// For rows of `step_ns`, grouped `by`.
    pub fn new(format: Format, by: GroupBy, extended: bool, step_ns: i64) -> ZoomWriter {
        let time_decimals = (0..9)
            .find(|d| step_ns % 10_i64.pow(9 - d) == 0)
            .unwrap_or(9) as usize;
        ZoomWriter {
            format,
            by,
            columns: ShownColumns {
                extended,
                ..ShownColumns::default()
            },
            step_ns,
            time_decimals,
            rows: 0,
            lossy: 0,
            cut_ns: None,
            sampled: false,
            own_intervals: false,
            are_totals: false,
            times: None,
            shown_day: None,
            pods: Pods::default(),
            width: usize::MAX,
            lines: OnceCell::new(),
        }
    }

    /// For a terminal of `width` columns: a row of the table that is too long continues on the next line.
    pub fn with_width(self, width: usize) -> ZoomWriter {
        ZoomWriter { width, ..self }
    }

    /// Writes the time of day if `times` has a date, and the columns `time` and `time_unix_s` in CSV and JSON.
    pub fn with_times(self, times: Times) -> ZoomWriter {
        ZoomWriter {
            times: Some(times),
            ..self
        }
    }

    /// As [`ZoomWriter::with_times`], for the following rows.
    pub fn set_times(&mut self, times: Times) {
        self.times = Some(times);
    }

    /// For rows of several recordings, which start between multiples of the step: times to the millisecond.
    pub fn with_fine_times(self, fine: bool) -> ZoomWriter {
        ZoomWriter {
            time_decimals: if fine {
                self.time_decimals.max(3)
            } else {
                self.time_decimals
            },
            ..self
        }
    }

    /// For rows over whole windows, which are no multiples of a step: times to the millisecond, and none is cut short.
    pub fn with_totals(self, are_totals: bool) -> ZoomWriter {
        ZoomWriter {
            are_totals,
            time_decimals: if are_totals {
                self.time_decimals.min(3)
            } else {
                self.time_decimals
            },
            ..self
        }
    }

    /// Width of everything to the left of the numbers.
    fn label_width(&self) -> usize {
        self.time_width()
            + if self.by == GroupBy::Device {
                DEVICE_WIDTH
            } else {
                0
            }
    }

    /// Width of the time column. If a row ends between multiples of the step, times of day have a fraction.
    fn time_width(&self) -> usize {
        if self.shows_time_of_day() {
            CLOCK_WIDTH + self.time_decimals.max(CUT_DECIMALS)
        } else {
            TIME_WIDTH
        }
    }

    fn shows_time_of_day(&self) -> bool {
        self.times.as_ref().is_some_and(|t| !t.is_relative())
    }

    /// Width of everything to the right of the numbers.
    fn name_width(&self) -> usize {
        MARKS_WIDTH + if self.name_is_last() { MIN_NAME } else { 0 }
    }

    fn lay_out(&self) -> Vec<Vec<(&'static Field, usize)>> {
        let wide: usize =
            self.label_width() + self.fields().map(|f| f.width).sum::<usize>() + self.name_width();
        let narrow = wide > self.width;
        let mut lines: Vec<Vec<(&Field, usize)>> = vec![Vec::new()];
        let mut used = self.label_width();
        for f in self.fields() {
            let width = if narrow {
                f.width.min(NARROW_COLUMN.max(f.title.len() + 1))
            } else {
                f.width
            };
            if used + width + self.name_width() > self.width
                && lines.last().is_some_and(|l| !l.is_empty())
            {
                lines.push(Vec::new());
                used = self.label_width();
            }
            used += width;
            if let Some(line) = lines.last_mut() {
                line.push((f, width));
            }
        }
        lines
    }

    /// The lines of a row: `label` precedes the first line, and `end` fills the room that is left after the last one.
    fn laid_out(
        &self,
        label: &str,
        cell: impl Fn(&Field) -> String,
        end: impl Fn(usize) -> String,
    ) -> String {
        let mut out = String::new();
        let lines = self.lines.get_or_init(|| self.lay_out());
        for (i, columns) in lines.iter().enumerate() {
            let mut line = if i == 0 {
                label.to_owned()
            } else {
                " ".repeat(self.label_width())
            };
            columns.iter().for_each(|(f, width)| {
                let _ = write!(line, "{:>width$}", cell(f));
            });
            if i + 1 == lines.len() {
                let room = self.width.saturating_sub(line.chars().count());
                line.push_str(&end(room));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// With these columns.
    pub fn with_columns(self, columns: ShownColumns) -> ZoomWriter {
        ZoomWriter { columns, ..self }
    }

    /// Adds names of pods for the following rows.
    pub fn know_pods(&mut self, pods: impl IntoIterator<Item = (i64, String)>) {
        self.pods.know(pods);
    }

    fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.columns.fields()
    }

    /// For rows between samples, which are not exactly regular: times have two digits more than the step, and no row
    /// counts as cut.
    pub fn sampled(self) -> ZoomWriter {
        ZoomWriter {
            time_decimals: (self.time_decimals + 2).min(9),
            sampled: true,
            ..self
        }
    }

    /// The name of the column that identifies the subject of a row, if there is one.
    fn group_name(&self) -> Option<&'static str> {
        (self.by != GroupBy::All).then(|| self.by.name())
    }

    /// The text before the first row.
    pub fn begin(&self) -> String {
        match self.format {
            Format::Json => "[".to_owned(),
            Format::Ndjson => String::new(),
            Format::Csv => {
                let times: &[&str] = if self.times.is_some() {
                    &["time", "time_unix_s", "time_s"]
                } else {
                    &["time_s"]
                };
                let names = times
                    .iter()
                    .copied()
                    .chain(self.group_name())
                    .chain(self.fields().map(|f| f.name));
                let of_group = Some(Workload::KEYS).filter(|_| self.by == GroupBy::Cgroup);
                let names = names.chain(["lossy"]).chain(of_group.into_iter().flatten());
                names.collect::<Vec<_>>().join(",") + "\n"
            }
            Format::Table => {
                let group = self.group_name().unwrap_or("");
                let label = self.label("time", group);
                let end = if self.name_is_last() {
                    format!("     {group}")
                } else {
                    String::new()
                };
                self.laid_out(&label, |f| f.title.to_owned(), |_| end.clone())
            }
        }
    }

    fn label(&self, time: &str, group: &str) -> String {
        let device = if self.by == GroupBy::Device {
            format!("  {:<16}", cut(group, DEVICE_WIDTH - 2))
        } else {
            String::new()
        };
        let width = self.time_width();
        format!("{time:>width$}{device}")
    }

    /// Whether names are in the last column of the table, where long names displace no numbers.
    fn name_is_last(&self) -> bool {
        matches!(self.by, GroupBy::Process | GroupBy::Cgroup | GroupBy::File)
    }

    /// For rows of a table with intervals of their own: a shorter one is not cut short.
    pub fn with_own_intervals(self, own_intervals: bool) -> ZoomWriter {
        ZoomWriter {
            own_intervals,
            ..self
        }
    }

    /// One row; `group` is the name of its group (not escaped).
    pub fn row(&mut self, row: &Row, group: &str) -> String {
        self.rows += 1;
        self.lossy += u64::from(row.lossy);
        if self.is_cut(row) {
            self.cut_ns = Some(row.to_ns - row.from_ns);
        }
        match self.format {
            Format::Table => self.day_line(row.to_ns) + &self.table_row(row, group),
            Format::Csv => self.csv_row(row, group),
            Format::Json => format!(
                "{}\n{}",
                if self.rows == 1 { "" } else { "," },
                self.json_row(row, group)
            ),
            Format::Ndjson => self.json_row(row, group) + "\n",
        }
    }

    /// The text after the last row. In a table it explains the marks.
    pub fn end(&self) -> String {
        match self.format {
            Format::Json if self.rows == 0 => "]\n".to_owned(),
            Format::Json => "\n]\n".to_owned(),
            Format::Table => self.legend(),
            Format::Csv | Format::Ndjson => String::new(),
        }
    }

    fn legend(&self) -> String {
        let mut out = String::new();
        if self.lossy > 0 {
            let _ = writeln!(
                out,
                "* interval contains lost I/Os ({} of {} rows)",
                self.lossy, self.rows
            );
        }
        if let Some(note) = self.cut_short() {
            let _ = writeln!(out, "~ {note}");
        }
        out
    }

    /// A note for standard error that a table has below its rows: the other formats have no place for it.
    pub fn remark(&self) -> Option<String> {
        self.cut_short().filter(|_| self.format != Format::Table)
    }

    /// A note that names the slot that is cut; its rates refer to its actual length.
    fn cut_short(&self) -> Option<String> {
        let has_s = self.cut_ns? as f64 / 1e9;
        let step_s = self.step_ns as f64 / 1e9;
        Some(format!(
            "partial last interval ({has_s:.3} s of {step_s} s); rates scaled accordingly"
        ))
    }

    fn is_cut(&self, row: &Row) -> bool {
        let is_slot = !self.sampled && !self.own_intervals && !self.are_totals;
        is_slot && row.to_ns - row.from_ns < self.step_ns
    }

    /// Whether a row has another length than its place says.
    fn has_own_length(&self, row: &Row) -> bool {
        let is_other = row.to_ns - row.from_ns != self.step_ns;
        let has_none_of_step = self.own_intervals || self.are_totals;
        self.sampled || self.is_cut(row) || (has_none_of_step && is_other)
    }

    /// The line with the date of the rows from `at_ns` on, if the date or the zone offset changes.
    fn day_line(&mut self, at_ns: i64) -> String {
        let Some(at) = self.times.as_ref().and_then(|t| t.zoned(at_ns)) else {
            return String::new();
        };
        let day = Some((at.date(), at.offset()));
        if self.shown_day == day {
            return String::new();
        }
        self.shown_day = day;
        at.strftime("%Y-%m-%d %Z\n").to_string()
    }

    /// Whether the decimals of the step are enough for the end of `row` on the clock shown. With a start between
    /// multiples of the step, they are not.
    fn ends_on_digits(&self, row: &Row) -> bool {
        let mut shown_ns = row.to_ns;
        if let Some(times) = self.times.as_ref().filter(|t| !t.is_relative()) {
            shown_ns = times.unix_ns(row.to_ns).unwrap_or(row.to_ns);
        }
        let digit_ns = 10_i64.pow(9 - self.time_decimals as u32);
        shown_ns % digit_ns == 0
    }

    fn table_row(&self, row: &Row, group: &str) -> String {
        // If a slot ends between multiples of the step, its label gets more digits.
        let decimals = if self.is_cut(row) || !self.ends_on_digits(row) {
            self.time_decimals.max(CUT_DECIMALS)
        } else {
            self.time_decimals
        };
        let time = match self.times.as_ref().and_then(|t| t.zoned(row.to_ns)) {
            Some(at) => time_of_day(&at, decimals),
            None => format!("{:.decimals$}", row.to_ns as f64 / 1e9),
        };
        self.labelled_row(&time, row, group)
    }

    /// The table of totals per subject after the rows. Each row is the sum of a subject's rows.
    pub fn totals<'a>(&self, rows: impl IntoIterator<Item = (&'a str, &'a Row)>) -> String {
        let mut out = String::new();
        for (group, row) in rows {
            if out.is_empty() {
                let _ = writeln!(out, "\nin all, {:.3} s:", row.seconds());
            }
            out += &self.labelled_row("total", row, group);
        }
        out
    }

    fn labelled_row(&self, time: &str, row: &Row, group: &str) -> String {
        let group = escape::terminal(shown_name(row.key, group));
        let marks = [row.lossy.then_some(" *"), self.is_cut(row).then_some(" ~")];
        let marks: String = marks.into_iter().flatten().collect();
        let label = self.label(time, &group);
        self.laid_out(
            &label,
            |field| cell(field, row),
            |room| {
                if self.name_is_last() {
                    let name = cut(&group, room.saturating_sub(MARKS_WIDTH));
                    format!("{marks:<4} {name}")
                } else {
                    marks.clone()
                }
            },
        )
    }

    fn csv_row(&self, row: &Row, group: &str) -> String {
        let mut line = String::new();
        if let Some(times) = &self.times {
            // Empty cells if the date is not known.
            let time = times.rfc3339(row.to_ns).unwrap_or_default();
            let unix_s = times.unix_ns(row.to_ns).map(exact_seconds);
            let _ = write!(line, "{time},{},", unix_s.unwrap_or_default());
        }
        line += &exact_seconds(row.to_ns);
        if self.group_name().is_some() {
            let _ = write!(line, ",{}", escape::csv(group));
        }
        for f in self.fields() {
            let _ = match (f.get)(row) {
                Value::Unknown | Value::Below(_) => write!(line, ","),
                Value::Count(n) => write!(line, ",{n}"),
                Value::Number(v) => write!(line, ",{}", rounded(v)),
            };
        }
        // Losses are part of the data.
        line.push_str(if row.lossy { ",1" } else { ",0" });
        line.push_str(&self.pods.csv(row.key, group));
        line + "\n"
    }

    fn json_row(&self, row: &Row, group: &str) -> String {
        let mut out = Map::new();
        if let Some(times) = &self.times {
            let unix_s = times.unix_ns(row.to_ns).map(|ns| ns as f64 / 1e9);
            out.insert("time".to_owned(), json!(times.rfc3339(row.to_ns)));
            out.insert("time_unix_s".to_owned(), json!(unix_s));
        }
        out.insert("time_s".to_owned(), json!(row.to_ns as f64 / 1e9));
        if let Some(name) = self.group_name() {
            out.insert(name.to_owned(), json!(group));
        }
        out.extend(self.pods.json(row.key, group));
        for f in self.fields() {
            let value = match (f.get)(row) {
                Value::Unknown | Value::Below(_) => json!(null),
                Value::Count(n) => json!(n),
                Value::Number(v) => json!(rounded(v)),
            };
            out.insert(f.name.to_owned(), value);
        }
        out.insert("lossy".to_owned(), json!(row.lossy));
        if self.has_own_length(row) {
            out.insert(
                "slot_s".to_owned(),
                json!((row.to_ns - row.from_ns) as f64 / 1e9),
            );
        }
        escape::json(&serde_json::Value::Object(out).to_string()).into_owned()
    }
}

/// The name of a group as shown to people; `name` is the one for programs.
pub fn shown_name(key: GroupKey, name: &str) -> &str {
    if key.is_known() { name } else { NOT_KNOWN }
}

fn cell(f: &Field, row: &Row) -> String {
    match (f.get)(row) {
        Value::Unknown => "-".to_owned(),
        Value::Count(n) => n.to_string(),
        Value::Number(v) => fixed(v, f.decimals),
        // Rounded up: it is a bound.
        Value::Below(v) => format!("<{}", v.ceil()),
    }
}

/// Rounds to a thousandth, but keeps three significant digits of small values: one I/O per hour must not become 0.
pub(super) fn rounded(v: f64) -> f64 {
    let places = if v == 0.0 || v.abs() >= 0.1 {
        3.0
    } else {
        2.0 - v.abs().log10().floor()
    };
    let unit = 10f64.powf(places.min(15.0));
    (v * unit).round() / unit
}

/// The order by the one of `columns` with this name or title, or by `io_time`.
///
/// # Errors
/// There is no such column; the text lists the columns.
pub fn order(name: &str, columns: ShownColumns) -> Result<Order, String> {
    if name == "io_time" {
        return Ok(Order::IoTime);
    }
    let found = columns.fields().find(|f| f.name == name || f.title == name);
    if let Some(field) = found {
        return Ok(Order::Figure(field));
    }
    let known: Vec<&str> = columns.fields().map(|f| f.name).collect();
    let more = match (columns.extended, columns.waits) {
        (false, false) => " (more with -x and --waits)",
        (false, true) => " (more with -x)",
        (true, false) => " (more with --waits)",
        (true, true) => "",
    };
    Err(format!(
        "--sort: no column {name}; there are io_time, {}{more}",
        known.join(", ")
    ))
}

impl Figure for Field {
    fn of(&self, row: &Row) -> Option<f64> {
        match (self.get)(row) {
            Value::Unknown => None,
            Value::Count(n) => Some(n as f64),
            Value::Number(v) => Some(v),
            // An upper bound sorts below all known values.
            Value::Below(_) => Some(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::FIELDS;
    use super::*;
    use iolens_core::analysis::timeline::{Extended, Flow, SlotTime};
    use iolens_core::model::{Class, DevId};

    fn row() -> Row {
        Row {
            flows: [
                flow(2, 256, 136_888),
                flow(415, 217_142, 82_941),
                Flow::default(),
                Flow::default(),
            ],
            ..Row::empty(153_700_000_000, 153_800_000_000, GroupKey::Device(DevId(1)))
        }
    }

    fn idle() -> Row {
        Row {
            from_ns: 153_800_000_000,
            to_ns: 153_900_000_000,
            flows: Default::default(),
            lossy: true,
            ..row()
        }
    }

    fn written(mut w: ZoomWriter, rows: &[Row]) -> String {
        let mut out = w.begin();
        rows.iter().for_each(|r| out += &w.row(r, "sd\x1b[1ma"));
        out + &w.end()
    }

    #[test]
    fn what_is_below_the_resolution_is_no_zero() {
        let reads = Flow {
            ios: 30,
            bytes: 122_880,
            total_ns: 0,
        };
        let quick = Row {
            flows: [reads, Flow::default(), Flow::default(), Flow::default()],
            ..row()
        };
        let quick = Row {
            unresolved_ns: [1_000_000; 4],
            ..quick
        };
        for (format, expected) in [
            (Format::Table, "      <34"),
            (Format::Csv, "153.8,300,1200,,0,0,,0\n"),
            (Format::Json, "\"r_us\":null"),
        ] {
            let writer = ZoomWriter::new(format, GroupBy::All, false, 100_000_000);
            let text = written(writer, std::slice::from_ref(&quick));
            assert!(text.contains(expected), "{text}");
            assert!(format != Format::Csv || text.ends_with(expected), "{text}");
        }
    }

    #[test]
    fn the_table_looks_as_published() {
        let w = ZoomWriter::new(Format::Table, GroupBy::All, false, 100_000_000);
        let expected = "    time         r/s     Kr/s     us/r         w/s     Kw/s     us/w\n   \
                        153.8          20     2560   136888        4150  2171420    82941\n   \
                        153.9           0        0        -           0        0        - *\n\
                        * interval contains lost I/Os (1 of 2 rows)\n";
        assert_eq!(written(w, &[row(), idle()]), expected);
    }

    #[test]
    fn time_without_a_recorder_has_no_figures_and_its_mark() {
        let unrecorded = Row {
            known: false,
            extended: Some(Extended::default()),
            ..idle()
        };
        let [figures, csv, table] = [Format::Json, Format::Csv, Format::Table].map(|format| {
            let w = ZoomWriter::new(format, GroupBy::All, true, 100_000_000);
            written(w, std::slice::from_ref(&unrecorded))
        });
        let doc: serde_json::Value = serde_json::from_str(&figures).expect("valid JSON");
        let row = doc[0].as_object().expect("a row");
        for (key, value) in row {
            let is_figure = key != "time_s" && key != "lossy";
            assert_eq!(value.is_null(), is_figure, "{figures}");
        }
        assert_eq!(row["lossy"], json!(true));
        let empty = ",".repeat(FIELDS.len());
        assert!(csv.ends_with(&format!("\n153.9{empty},1\n")), "{csv}");
        let line = table.lines().nth(1).expect("a row");
        let mut cells: Vec<&str> = line.split_whitespace().skip(1).collect();
        assert_eq!(cells.pop(), Some("*"), "{table}");
        assert!(cells.len() == FIELDS.len() && cells.iter().all(|cell| *cell == "-"));
    }

    #[test]
    fn rows_with_a_date_say_it_where_it_changes() {
        use super::super::times::Clock;
        let start_unix_ns = 1_795_046_400_000_000_000 - 153_800_000_000; // midnight is where the first row ends
        let writer = |format| {
            let utc = Times::new(Clock::Wall(jiff::tz::TimeZone::UTC), start_unix_ns, 0);
            ZoomWriter::new(format, GroupBy::All, false, 100_000_000).with_times(utc)
        };
        let before = row_of(153_600_000_000..153_700_000_000);
        let rows = [before, row(), idle()];
        let table = written(writer(Format::Table), &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "2026-11-18 UTC", "{table}");
        assert!(lines[2].starts_with("  23:59:59.9          20 "), "{table}");
        assert_eq!(lines[3], "2026-11-19 UTC", "{table}");
        assert!(lines[4].starts_with("  00:00:00.0          20 "), "{table}");
        assert!(lines[5].starts_with("  00:00:00.1 "), "once a day: {table}");
        let csv = written(writer(Format::Csv), &rows);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[0].starts_with("time,time_unix_s,time_s,r_per_s,"),
            "{csv}"
        );
        assert!(
            lines[3].starts_with("2026-11-19T00:00:00.1Z,1795046400.1,153.9,0,"),
            "{csv}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&written(writer(Format::Json), &rows)).expect("valid JSON");
        assert_eq!(
            (
                &json[1]["time"],
                &json[1]["time_unix_s"],
                &json[1]["time_s"]
            ),
            (
                &json!("2026-11-19T00:00:00Z"),
                &json!(1_795_046_400.0),
                &json!(153.8)
            )
        );
    }

    #[test]
    fn rows_that_begin_between_the_steps_have_their_own_ends() {
        use super::super::times::Clock;
        let rows = [
            row_of(500_000_000..1_500_000_000),
            row_of(1_500_000_000..2_500_000_000),
        ];
        let relative = ZoomWriter::new(Format::Table, GroupBy::All, false, 1_000_000_000);
        let table = written(relative, &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].starts_with("   1.500 "), "{table}");
        assert!(lines[2].starts_with("   2.500 "), "{table}");
        // The same rows of a recording that begins between two seconds.
        let start_unix_ns = 1_795_046_390_250_000_000;
        let times = Times::new(Clock::Wall(jiff::tz::TimeZone::UTC), start_unix_ns, 0);
        let wall = ZoomWriter::new(Format::Table, GroupBy::All, false, 1_000_000_000);
        let table = written(wall.with_times(times), &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[2].starts_with("23:59:51.750 "), "{table}");
        assert!(lines[3].starts_with("23:59:52.750 "), "{table}");
        // On the clock they end on whole seconds, whatever they do since the start.
        let start_unix_ns = 1_795_046_390_500_000_000;
        let times = Times::new(Clock::Wall(jiff::tz::TimeZone::UTC), start_unix_ns, 0);
        let wall = ZoomWriter::new(Format::Table, GroupBy::All, false, 1_000_000_000);
        let table = written(wall.with_times(times), &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[2].starts_with("    23:59:52 "), "{table}");
    }

    #[test]
    fn the_whole_time_ends_at_a_millisecond() {
        let whole_ns = 153_812_345_678;
        let w = ZoomWriter::new(Format::Table, GroupBy::All, false, whole_ns);
        assert_eq!(w.time_decimals, 9);
        assert_eq!(w.with_totals(true).time_decimals, 3);
        let w = ZoomWriter::new(Format::Table, GroupBy::All, false, 10_000_000_000);
        assert_eq!(w.with_totals(true).time_decimals, 0);
    }

    #[test]
    fn totals_stand_after_the_rows() {
        let w = ZoomWriter::new(Format::Table, GroupBy::Process, false, 100_000_000);
        let total = Row {
            from_ns: 0,
            ..row()
        };
        let text = w.totals([("fio[7]", &total)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "in all, 153.800 s:");
        assert!(
            lines[2].starts_with("   total ") && lines[2].ends_with("fio[7]"),
            "{text}"
        );
        assert_eq!(w.totals([]), "");
    }

    #[test]
    fn csv_has_the_promised_columns() {
        let w = ZoomWriter::new(Format::Csv, GroupBy::Device, true, 100_000_000);
        let x = Extended {
            r_p99_us: Some(136_888.0),
            in_flight: Some(SlotTime::Quotient(0.12345)),
            inflight_max: Some(3),
            ..Extended::default()
        };
        let expected = "time_s,device,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,r_p99_us,w_p99_us,r_max_us,w_max_us,inflight_mean,inflight_max,busy_percent,lossy\n\
                        153.8,sd\\x1b[1ma,20,2560,136888,4150,2171420,82941,136888,,,,0.123,3,,0\n";
        assert_eq!(
            written(
                w,
                &[Row {
                    extended: Some(x),
                    ..row()
                }]
            ),
            expected
        );
    }

    #[test]
    fn flushes_have_columns_where_they_are_asked_for() {
        let mut flushed = row();
        flushed.flows = [Flow::default(); 4];
        flushed.flows[Class::Flush as usize] = Flow {
            ios: 3,
            bytes: 0,
            total_ns: 6_000_000,
        };
        let columns = ShownColumns {
            class: Some(Class::Flush),
            ..ShownColumns::default()
        };
        let writer = |format| {
            ZoomWriter::new(format, GroupBy::All, false, 100_000_000).with_columns(columns)
        };
        let expected = "time_s,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,f_per_s,f_us,lossy\n\
                        153.8,0,0,,0,0,,30,2000,0\n";
        let rows = [flushed];
        assert_eq!(written(writer(Format::Csv), &rows), expected);
        let table = written(writer(Format::Table).with_width(80), &rows);
        assert!(
            table.contains("us/f") && table.contains(" 2000\n"),
            "{table}"
        );
        assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    }

    #[test]
    fn losses_and_rare_ios_show_in_csv() {
        let csv = written(
            ZoomWriter::new(Format::Csv, GroupBy::All, false, 100_000_000),
            &[row(), idle()],
        );
        assert_eq!(
            csv.lines().map(|l| &l[l.len() - 2..]).collect::<Vec<_>>(),
            ["sy", ",0", ",1"],
            "{csv}"
        );
        // One I/O in an hour.
        let rare = [0.000_277_777, 0.123_45, 136_888.000_4, 0.0].map(rounded);
        assert_eq!(rare, [0.000_278, 0.123, 136_888.0, 0.0]);
    }

    #[test]
    fn ndjson_is_a_document_per_line() {
        let text = written(
            ZoomWriter::new(Format::Ndjson, GroupBy::Device, false, 100_000_000),
            &[row(), idle()],
        );
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).expect("a document"))
            .collect();
        assert_eq!((lines.len(), &lines[0]["r_us"]), (2, &json!(136_888.0)));
        assert_eq!(
            written(
                ZoomWriter::new(Format::Ndjson, GroupBy::Device, false, 100_000_000),
                &[]
            ),
            ""
        );
    }

    #[test]
    fn json_is_one_document_however_many_rows() {
        for rows in [&[][..], &[row()], &[row(), idle()]] {
            let w = ZoomWriter::new(Format::Json, GroupBy::Device, true, 100_000_000);
            let doc: serde_json::Value =
                serde_json::from_str(&written(w, rows)).expect("valid JSON");
            let doc = doc.as_array().expect("an array");
            assert_eq!(doc.len(), rows.len());
            if let Some(first) = doc.first() {
                assert_eq!(
                    (&first["r_us"], &first["device"], &first["busy_percent"]),
                    (&json!(136_888.0), &json!("sd\x1b[1ma"), &json!(null))
                );
            }
        }
    }

    #[test]
    fn long_names_stand_last_and_move_no_number() {
        let mut w = ZoomWriter::new(Format::Table, GroupBy::File, false, 100_000_000);
        let text =
            w.begin() + &w.row(&row(), "/a") + &w.row(&idle(), "/a/very/long/path/of/a/file\n");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].ends_with("us/w     file") && lines[1].ends_with("82941     /a"),
            "{text}"
        );
        assert!(
            lines[2].ends_with("- *   /a/very/long/path/of/a/file\\x0a"),
            "{text}"
        );
        assert_eq!(lines[1].find("/a"), lines[2].find("/a"), "{text}");
    }

    #[test]
    fn what_has_no_name_is_said_to_people_and_stays_a_word_for_programs() {
        let unknown = Row {
            key: GroupKey::Process(None, None),
            ..row()
        };
        let mut writer = ZoomWriter::new(Format::Table, GroupBy::Process, false, 100_000_000);
        let table = writer.row(&unknown, "unknown");
        assert!(table.ends_with("     (not known)\n"), "{table}");
        let mut writer = ZoomWriter::new(Format::Csv, GroupBy::Process, false, 100_000_000);
        let csv = writer.row(&unknown, "unknown");
        assert!(csv.starts_with("153.8,unknown,"), "{csv}");
    }

    #[test]
    fn rows_continue_where_the_terminal_is_narrow() {
        for (by, name) in [
            (GroupBy::All, ""),
            (GroupBy::Device, "a-rather-long-device-name"),
            (GroupBy::File, "/a/b/c"),
        ] {
            for extended in [false, true] {
                let mut w =
                    ZoomWriter::new(Format::Table, by, extended, 100_000_000).with_width(80);
                let text =
                    w.begin() + &w.row(&row(), name) + &w.row(&idle(), &name.repeat(40)) + &w.end();
                assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
                assert!(
                    text.contains("2171420") && (!extended || text.contains("%busy")),
                    "{text}"
                );
                assert!(name != "/a/b/c" || text.contains("/a/b/c\n"), "{text}");
            }
        }
    }

    #[test]
    fn a_slot_that_the_end_cuts_short_is_marked() {
        let cut = row_of(153_800_000_000..153_837_000_000);
        let text = written(
            ZoomWriter::new(Format::Table, GroupBy::All, false, 100_000_000),
            &[row(), cut.clone()],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            !lines[1].contains('~')
                && lines[2].starts_with(" 153.837 ")
                && lines[2].ends_with(" ~"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("~ ") && lines[3].contains("0.037 s of 0.1 s"),
            "{text}"
        );
        let json = written(
            ZoomWriter::new(Format::Json, GroupBy::All, false, 100_000_000),
            &[row(), cut],
        );
        let doc: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(
            (&doc[0]["slot_s"], &doc[1]["slot_s"]),
            (&json!(null), &json!(0.037))
        );
    }

    #[test]
    fn what_a_table_says_of_a_cut_slot_stands_beside_other_formats() {
        let cut = row_of(153_800_000_000..153_837_000_000);
        for (format, is_said) in [(Format::Table, false), (Format::Csv, true)] {
            let mut w = ZoomWriter::new(format, GroupBy::All, false, 100_000_000);
            w.row(&row(), "");
            assert_eq!(w.remark(), None);
            w.row(&cut, "");
            let remark = w.remark();
            let is_right = remark.is_some_and(|text| text.contains("0.037 s of 0.1 s"));
            assert_eq!(is_right, is_said, "{format:?}");
        }
    }

    #[test]
    fn rows_between_samples_say_when_these_were() {
        let rows = [row_of(6_000_123..7_104_321), row_of(7_104_321..8_000_456)];
        let writer = |format| ZoomWriter::new(format, GroupBy::All, false, 1_000_000).sampled();
        let text = written(writer(Format::Table), &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with(" 0.00710 ") && lines[2].starts_with(" 0.00800 "),
            "{text}"
        );
        assert!(!text.contains('~'), "{text}");
        let doc: serde_json::Value =
            serde_json::from_str(&written(writer(Format::Json), &rows)).expect("valid JSON");
        assert_eq!(
            (&doc[0]["slot_s"], &doc[1]["slot_s"]),
            (&json!(0.001104198), &json!(0.000896135))
        );
    }

    #[test]
    fn rows_of_a_table_have_their_own_lengths_and_none_is_cut_short() {
        let rows = [
            row_of(0..600_000_000_000),
            row_of(600_000_000_000..603_500_000_000),
        ];
        let table = ZoomWriter::new(Format::Table, GroupBy::All, false, 600_000_000_000);
        let text = written(table.with_own_intervals(true), &rows);
        assert!(!text.contains('~') && text.contains(" 603.500 "), "{text}");
        let json = ZoomWriter::new(Format::Json, GroupBy::All, false, 600_000_000_000);
        let text = written(json.with_own_intervals(true), &rows);
        let doc: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(
            (&doc[0]["slot_s"], &doc[1]["slot_s"]),
            (&json!(null), &json!(3.5))
        );
    }

    #[test]
    fn totals_of_a_shorter_recording_are_not_cut_short() {
        let rows = [
            row_of(0..11_415_000_000),
            row_of(12_000_000_000..19_206_000_000),
        ];
        let table = ZoomWriter::new(Format::Table, GroupBy::All, false, 11_415_000_000);
        let text = written(table.with_totals(true), &rows);
        assert!(!text.contains('~') && text.contains(" 19.206 "), "{text}");
        let json = ZoomWriter::new(Format::Json, GroupBy::All, false, 11_415_000_000);
        let text = written(json.with_totals(true), &rows);
        let doc: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(
            (&doc[0]["slot_s"], &doc[1]["slot_s"]),
            (&json!(null), &json!(7.206))
        );
    }

    #[test]
    fn times_have_as_many_digits_as_the_step_needs() {
        for (step_ns, digits) in [
            (1_000_000, 3),
            (10_000_000, 2),
            (1_500_000_000, 1),
            (15_000_000_000, 0),
            (1_234_567, 9),
        ] {
            assert_eq!(
                ZoomWriter::new(Format::Table, GroupBy::All, false, step_ns).time_decimals,
                digits
            );
        }
    }

    /// The row of [`row`] at another time, in ns.
    fn row_of(time_ns: std::ops::Range<i64>) -> Row {
        Row {
            from_ns: time_ns.start,
            to_ns: time_ns.end,
            ..row()
        }
    }

    fn flow(ios: u64, kib: u64, mean_us: i64) -> Flow {
        Flow {
            ios,
            bytes: kib * 1024,
            total_ns: mean_us * 1000 * ios as i64,
        }
    }
}
