//! The zoom as a table, CSV or JSON.

use std::fmt::Write;

use iolens_core::analysis::timeline::{GroupBy, Row};
use serde_json::{Map, json};

use super::escape;
use super::fields::{Field, Value, fields};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// One line per row under a line of names.
    Csv,
    /// One array of objects.
    Json,
}

/// Writes rows one by one: `begin`, `row` for each, `end`. Whatever was written up to any `row` becomes a valid document
/// with `end`.
#[derive(Debug)]
pub struct ZoomWriter {
    format: Format,
    by: GroupBy,
    extended: bool,
    step_ns: i64,
    time_decimals: usize,
    rows: u64,
    lossy: u64,
    /// Length of the slot that the window's end cuts short.
    cut_ns: Option<i64>,
    /// Slots end where samples were taken, not on the steps.
    sampled: bool,
}

impl ZoomWriter {
    /// For rows of `step_ns`, grouped `by`.
    pub fn new(format: Format, by: GroupBy, extended: bool, step_ns: i64) -> ZoomWriter {
        let time_decimals = (0..9).find(|d| step_ns % 10_i64.pow(9 - d) == 0).unwrap_or(9) as usize;
        ZoomWriter { format, by, extended, step_ns, time_decimals, rows: 0, lossy: 0, cut_ns: None, sampled: false }
    }

    /// For rows between samples, each a little early or late: their times have two digits more than the step, and none of
    /// them is cut short.
    pub fn sampled(self) -> ZoomWriter {
        ZoomWriter { time_decimals: (self.time_decimals + 2).min(9), sampled: true, ..self }
    }

    /// The name of the column that says whose row it is, if there is one.
    fn group_name(&self) -> Option<&'static str> {
        match self.by {
            GroupBy::All => None,
            GroupBy::Device => Some("device"),
            GroupBy::Process => Some("process"),
            GroupBy::Cgroup => Some("cgroup"),
            GroupBy::File => Some("file"),
        }
    }

    /// What stands before the first row.
    pub fn begin(&self) -> String {
        match self.format {
            Format::Json => "[".to_owned(),
            Format::Csv => {
                let names =
                    ["time_s"].into_iter().chain(self.group_name()).chain(fields(self.extended).map(|f| f.name));
                names.collect::<Vec<_>>().join(",") + "\n"
            }
            Format::Table => {
                let mut line = format!("{:>8}", "time");
                let group = self.group_name().unwrap_or("");
                if self.by == GroupBy::Device {
                    let _ = write!(line, "  {group:<16}");
                }
                fields(self.extended).for_each(|f| {
                    let _ = write!(line, "{:>w$}", f.title, w = f.width);
                });
                if self.name_is_last() {
                    let _ = write!(line, "     {group}");
                }
                line + "\n"
            }
        }
    }

    /// In the table, names of any length stand where they push no number aside.
    fn name_is_last(&self) -> bool {
        matches!(self.by, GroupBy::Process | GroupBy::Cgroup | GroupBy::File)
    }

    /// One row; `group` is the name of its group (not escaped).
    pub fn row(&mut self, row: &Row, group: &str) -> String {
        self.rows += 1;
        self.lossy += u64::from(row.lossy);
        if self.is_cut(row) {
            self.cut_ns = Some(row.to_ns - row.from_ns);
        }
        match self.format {
            Format::Table => self.table_row(row, group),
            Format::Csv => self.csv_row(row, group),
            Format::Json => self.json_row(row, group),
        }
    }

    /// What stands after the last row: for people, what the marks mean.
    pub fn end(&self) -> String {
        match self.format {
            Format::Json if self.rows == 0 => "]\n".to_owned(),
            Format::Json => "\n]\n".to_owned(),
            Format::Table => self.legend(),
            Format::Csv => String::new(),
        }
    }

    fn legend(&self) -> String {
        let mut out = String::new();
        if self.lossy > 0 {
            let _ = writeln!(
                out,
                "* some I/Os of this slot are missing from the recording ({} of {} rows)",
                self.lossy, self.rows
            );
        }
        if let Some(note) = self.cut_short() {
            let _ = writeln!(out, "~ {note}");
        }
        out
    }

    /// Which slot was not a whole one, for people; its rates are over the time that it has.
    pub fn cut_short(&self) -> Option<String> {
        let (has_s, step_s) = (self.cut_ns? as f64 / 1e9, self.step_ns as f64 / 1e9);
        Some(format!("the last slot is cut short: it has {has_s:.3} s of {step_s} s, and rates are over what it has"))
    }

    fn is_cut(&self, row: &Row) -> bool {
        !self.sampled && row.to_ns - row.from_ns < self.step_ns
    }

    fn table_row(&self, row: &Row, group: &str) -> String {
        // Where a slot ends between the steps, so does its label.
        let decimals = if self.is_cut(row) { self.time_decimals.max(3) } else { self.time_decimals };
        let mut line = format!("{:>8.decimals$}", row.to_ns as f64 / 1e9);
        if self.by == GroupBy::Device {
            let _ = write!(line, "  {:<16}", escape::terminal(group));
        }
        for f in fields(self.extended) {
            let _ = write!(line, "{:>w$}", cell(f, row), w = f.width);
        }
        let marks = [row.lossy.then_some(" *"), self.is_cut(row).then_some(" ~")];
        let marks: String = marks.into_iter().flatten().collect();
        if self.name_is_last() {
            let _ = write!(line, "{marks:<4} {}", escape::terminal(group));
        } else {
            line.push_str(&marks);
        }
        line + "\n"
    }

    fn csv_row(&self, row: &Row, group: &str) -> String {
        let mut line = format!("{}", row.to_ns as f64 / 1e9);
        if self.group_name().is_some() {
            let _ = write!(line, ",{}", escape::csv(group));
        }
        for f in fields(self.extended) {
            let _ = match (f.get)(row) {
                Value::Unknown => write!(line, ","),
                Value::Count(n) => write!(line, ",{n}"),
                Value::Number(v) => write!(line, ",{}", rounded(v)),
            };
        }
        line + "\n"
    }

    fn json_row(&self, row: &Row, group: &str) -> String {
        let mut out = Map::new();
        out.insert("time_s".to_owned(), json!(row.to_ns as f64 / 1e9));
        if let Some(name) = self.group_name() {
            out.insert(name.to_owned(), json!(group));
        }
        for f in fields(self.extended) {
            let value = match (f.get)(row) {
                Value::Unknown => json!(null),
                Value::Count(n) => json!(n),
                Value::Number(v) => json!(rounded(v)),
            };
            out.insert(f.name.to_owned(), value);
        }
        out.insert("lossy".to_owned(), json!(row.lossy));
        if self.sampled || self.is_cut(row) {
            out.insert("slot_s".to_owned(), json!((row.to_ns - row.from_ns) as f64 / 1e9));
        }
        format!("{}\n{}", if self.rows == 1 { "" } else { "," }, serde_json::Value::Object(out))
    }
}

fn cell(f: &Field, row: &Row) -> String {
    match (f.get)(row) {
        Value::Unknown => "-".to_owned(),
        Value::Count(n) => n.to_string(),
        Value::Number(v) => format!("{v:.d$}", d = f.decimals),
    }
}

/// To a thousandth: finer digits of a rate or a microsecond say nothing.
fn rounded(v: f64) -> f64 {
    (v * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::timeline::{Extended, Flow, GroupKey};
    use iolens_core::model::DevId;

    fn row() -> Row {
        let flow = |ios, kib: u64, us: i64| Flow { ios, bytes: kib * 1024, total_ns: us * 1000 * ios as i64 };
        Row {
            from_ns: 153_700_000_000,
            to_ns: 153_800_000_000,
            key: GroupKey::Device(DevId(1)),
            flows: [flow(2, 256, 136_888), flow(415, 217_142, 82_941), Flow::default(), Flow::default()],
            averages: None,
            lossy: false,
            known: true,
            extended: None,
        }
    }

    fn idle() -> Row {
        Row { from_ns: 153_800_000_000, to_ns: 153_900_000_000, flows: Default::default(), lossy: true, ..row() }
    }

    fn written(mut w: ZoomWriter, rows: &[Row]) -> String {
        let mut out = w.begin();
        rows.iter().for_each(|r| out += &w.row(r, "sd\x1b[1ma"));
        out + &w.end()
    }

    #[test]
    fn the_table_looks_as_published() {
        let w = ZoomWriter::new(Format::Table, GroupBy::All, false, 100_000_000);
        let expected = "    time         r/s     Kr/s     us/r         w/s     Kw/s     us/w\n   \
                        153.8          20     2560   136888        4150  2171420    82941\n   \
                        153.9           0        0        -           0        0        - *\n\
                        * some I/Os of this slot are missing from the recording (1 of 2 rows)\n";
        assert_eq!(written(w, &[row(), idle()]), expected);
    }

    #[test]
    fn csv_has_the_promised_columns() {
        let w = ZoomWriter::new(Format::Csv, GroupBy::Device, true, 100_000_000);
        let x = Extended {
            r_p99_us: Some(136_888.0),
            inflight_mean: Some(0.12345),
            inflight_max: Some(3),
            ..Extended::default()
        };
        let expected = "time_s,device,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,r_p99_us,w_p99_us,r_max_us,w_max_us,inflight_mean,inflight_max,busy_percent\n\
                        153.8,sd\\x1b[1ma,20,2560,136888,4150,2171420,82941,136888,,,,0.123,3,\n";
        assert_eq!(written(w, &[Row { extended: Some(x), ..row() }]), expected);
    }

    #[test]
    fn json_is_one_document_however_many_rows() {
        for rows in [&[][..], &[row()], &[row(), idle()]] {
            let w = ZoomWriter::new(Format::Json, GroupBy::Device, true, 100_000_000);
            let doc: serde_json::Value = serde_json::from_str(&written(w, rows)).expect("valid JSON");
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
        let text = w.begin() + &w.row(&row(), "/a") + &w.row(&idle(), "/a/very/long/path/of/a/file\n");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("us/w     file") && lines[1].ends_with("82941     /a"), "{text}");
        assert!(lines[2].ends_with("- *   /a/very/long/path/of/a/file\\x0a"), "{text}");
        assert_eq!(lines[1].find("/a"), lines[2].find("/a"), "{text}");
    }

    #[test]
    fn a_slot_that_the_end_cuts_short_is_marked() {
        let cut = Row { from_ns: 153_800_000_000, to_ns: 153_837_000_000, ..row() };
        let text = written(ZoomWriter::new(Format::Table, GroupBy::All, false, 100_000_000), &[row(), cut.clone()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(!lines[1].contains('~') && lines[2].starts_with(" 153.837 ") && lines[2].ends_with(" ~"), "{text}");
        assert!(lines[3].starts_with("~ ") && lines[3].contains("0.037 s of 0.1 s"), "{text}");
        let json = written(ZoomWriter::new(Format::Json, GroupBy::All, false, 100_000_000), &[row(), cut]);
        let doc: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!((&doc[0]["slot_s"], &doc[1]["slot_s"]), (&json!(null), &json!(0.037)));
    }

    #[test]
    fn rows_between_samples_say_when_these_were() {
        let at = |from_ns, to_ns| Row { from_ns, to_ns, ..row() };
        let rows = [at(6_000_123, 7_104_321), at(7_104_321, 8_000_456)];
        let writer = |format| ZoomWriter::new(format, GroupBy::All, false, 1_000_000).sampled();
        let text = written(writer(Format::Table), &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with(" 0.00710 ") && lines[2].starts_with(" 0.00800 "), "{text}");
        assert!(!text.contains('~'), "{text}");
        let doc: serde_json::Value = serde_json::from_str(&written(writer(Format::Json), &rows)).expect("valid JSON");
        assert_eq!((&doc[0]["slot_s"], &doc[1]["slot_s"]), (&json!(0.001104198), &json!(0.000896135)));
    }

    #[test]
    fn times_have_as_many_digits_as_the_step_needs() {
        for (step_ns, digits) in
            [(1_000_000, 3), (10_000_000, 2), (1_500_000_000, 1), (15_000_000_000, 0), (1_234_567, 9)]
        {
            assert_eq!(ZoomWriter::new(Format::Table, GroupBy::All, false, step_ns).time_decimals, digits);
        }
    }
}
