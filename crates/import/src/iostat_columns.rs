//! The columns of iostat's tables, identified by their headings: sysstat 9 to 12.8, Solaris and illumos.

use iolens_core::model::{Class, ClassRates, IntervalRates};

use super::text::number;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;
const SECTOR: f64 = 512.0;

/// The meaning of a column; the factor converts its unit to bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column {
    /// Not needed, or derived from others.
    Skip,
    /// Completions per second of a class.
    Ios(Class),
    /// Bytes per second of a class.
    Bytes(Class, f64),
    /// Bytes of a class in the interval, which determine the interval's length.
    Total(Class, f64),
    /// Merges per second of a class.
    Merges(Class),
    /// Mean response time of a class in ms.
    Await(Class),
    /// Completions per second of all classes.
    AllIos,
    /// Bytes per second of all classes.
    AllBytes(f64),
    /// Bytes per second of writes and discards together (`-s`).
    WriteAndDiscardBytes(f64),
    /// Merges per second of all classes.
    AllMerges,
    /// Mean response time of all classes in ms.
    AllAwait,
    /// Mean number in flight (part of it if Solaris separates waiting from active).
    InFlight,
    /// `%util`.
    Util,
    /// `svctm` in ms.
    Service,
    /// Part of a response time that Solaris splits into waiting and service, in ms.
    AwaitPart,
}

/// The meaning of a heading.
pub fn column(heading: &str) -> Column {
    use Class::{Discard, Flush, Read, Write};
    match heading {
        "tps" => Column::AllIos,
        "r/s" | "r_s" => Column::Ios(Read),
        "w/s" | "w_s" => Column::Ios(Write),
        "d/s" => Column::Ios(Discard),
        "f/s" => Column::Ios(Flush),
        "rrqm/s" => Column::Merges(Read),
        "wrqm/s" => Column::Merges(Write),
        "drqm/s" => Column::Merges(Discard),
        "rqm/s" => Column::AllMerges,
        "r_await" | "ms/r" => Column::Await(Read),
        "w_await" | "ms/w" => Column::Await(Write),
        "d_await" => Column::Await(Discard),
        "f_await" => Column::Await(Flush),
        // Solaris' svc_t is the whole response time (wait + active) of all I/Os.
        "await" | "svc_t" | "svc_t_ms" | "ms/t" => Column::AllAwait,
        "wsvc_t" | "asvc_t" => Column::AwaitPart,
        "svctm" => Column::Service,
        "aqu-sz" | "avgqu-sz" | "wait" | "actv" => Column::InFlight,
        "%util" | "util" | "%b" | "pct_b" => Column::Util,
        "kr/s" | "kr_s" => Column::Bytes(Read, KIB),
        "kw/s" | "kw_s" => Column::Bytes(Write, KIB),
        "Mr/s" => Column::Bytes(Read, MIB),
        "Mw/s" => Column::Bytes(Write, MIB),
        "kB/s" => Column::AllBytes(KIB),
        "MB/s" => Column::AllBytes(MIB),
        "GB/s" => Column::AllBytes(GIB),
        "sec/s" => Column::AllBytes(SECTOR),
        // sar of sysstat 11 and older.
        "rd_sec/s" => Column::Bytes(Read, SECTOR),
        "wr_sec/s" => Column::Bytes(Write, SECTOR),
        _ => sized(heading),
    }
}

/// Headings that consist of a class and a unit: `rkB/s`, `MB_wrtn/s`, `Blk_read`.
fn sized(heading: &str) -> Column {
    if let Some((unit, what)) = heading.split_once('_') {
        let Some(unit) = unit_bytes(unit) else {
            return Column::Skip;
        };
        let (what, per_s) = what.strip_suffix("/s").map_or((what, false), |w| (w, true));
        let class = match what {
            "read" => Class::Read,
            "wrtn" => Class::Write,
            "dscd" => Class::Discard,
            "w+d" if per_s => return Column::WriteAndDiscardBytes(unit),
            _ => return Column::Skip,
        };
        return if per_s {
            Column::Bytes(class, unit)
        } else {
            Column::Total(class, unit)
        };
    }
    let Some(body) = heading.strip_suffix("/s") else {
        return Column::Skip;
    };
    let class = match body.as_bytes().first() {
        Some(b'r') => Class::Read,
        Some(b'w') => Class::Write,
        Some(b'd') => Class::Discard,
        _ => return Column::Skip,
    };
    match unit_bytes(&body[1..]) {
        Some(unit) => Column::Bytes(class, unit),
        None => Column::Skip,
    }
}

fn unit_bytes(unit: &str) -> Option<f64> {
    match unit {
        "kB" | "KB" => Some(KIB),
        "MB" => Some(MIB),
        "GB" => Some(GIB),
        "sec" | "Blk" => Some(SECTOR),
        _ => None,
    }
}

/// Whether a cell is negative in a column with a meaning: no rate, latency, queue or utilisation can be.
pub fn is_negative(column: Column, value: f64) -> bool {
    column != Column::Skip && value < 0.0
}

/// A number, optionally with the unit letter of `--human`, which has priority over the heading's unit.
pub fn value(word: &[u8]) -> Option<(f64, Option<f64>)> {
    if let Some(n) = number(word) {
        return Some((n, None));
    }
    let (last, digits) = word.split_last()?;
    let unit = match last {
        b'%' => None,
        b's' => Some(SECTOR),
        b'B' => Some(1.0),
        b'k' => Some(KIB),
        b'M' => Some(MIB),
        b'G' => Some(GIB),
        b'T' => Some(1024.0 * GIB),
        b'P' => Some(MIB * GIB),
        // iostat has no letter for larger units.
        b'?' => Some(GIB * GIB),
        _ => return None,
    };
    Some((number(digits)?, unit))
}

/// A row of a report, with data that is needed until the report is complete.
#[derive(Debug, Clone)]
pub struct Row {
    /// The values so far; its interval is set later.
    pub rates: IntervalRates,
    write_and_discard: Option<f64>,
    /// Largest (bytes in the interval, bytes per second) of the row.
    total: Option<(f64, f64)>,
}

impl Row {
    /// An empty row of `dev`.
    pub fn new(dev: iolens_core::model::DevId) -> Row {
        Row {
            rates: IntervalRates::new(0, 0, dev),
            write_and_discard: None,
            total: None,
        }
    }

    /// Adds a cell.
    pub fn put(&mut self, column: Column, (v, unit): (f64, Option<f64>)) {
        let r = &mut self.rates;
        match column {
            Column::Skip => {}
            Column::Ios(c) => r.classes[c as usize].ios_per_s = Some(v),
            Column::Bytes(c, u) => r.classes[c as usize].bytes_per_s = Some(v * unit.unwrap_or(u)),
            Column::Merges(c) => r.classes[c as usize].merges_per_s = Some(v),
            Column::Await(c) => r.classes[c as usize].mean_us = Some(v * 1000.0),
            Column::AllIos => r.all.ios_per_s = Some(v),
            Column::AllBytes(u) => r.all.bytes_per_s = Some(v * unit.unwrap_or(u)),
            Column::WriteAndDiscardBytes(u) => self.write_and_discard = Some(v * unit.unwrap_or(u)),
            Column::AllMerges => r.all.merges_per_s = Some(v),
            Column::AllAwait => r.all.mean_us = Some(v * 1000.0),
            Column::AwaitPart => r.all.mean_us = Some(r.all.mean_us.unwrap_or(0.0) + v * 1000.0),
            Column::InFlight => r.in_flight = Some(r.in_flight.unwrap_or(0.0) + v),
            Column::Util => r.util_percent = Some(v),
            Column::Service => r.service_us = Some(v * 1000.0),
            Column::Total(c, u) => {
                let total = v * unit.unwrap_or(u);
                if let Some(rate) = r.classes[c as usize].bytes_per_s.filter(|r| *r > 0.0)
                    && self.total.is_none_or(|(t, _)| t < total)
                {
                    self.total = Some((total, rate));
                }
            }
        }
    }

    /// Whether a cell of this column was added. Parts of a sum, which have several columns, are not checked.
    pub fn has(&self, column: Column) -> bool {
        let r = &self.rates;
        match column {
            Column::Ios(c) => r.classes[c as usize].ios_per_s.is_some(),
            Column::Bytes(c, _) => r.classes[c as usize].bytes_per_s.is_some(),
            Column::Merges(c) => r.classes[c as usize].merges_per_s.is_some(),
            Column::Await(c) => r.classes[c as usize].mean_us.is_some(),
            Column::AllIos => r.all.ios_per_s.is_some(),
            Column::AllBytes(_) => r.all.bytes_per_s.is_some(),
            Column::AllMerges => r.all.merges_per_s.is_some(),
            Column::AllAwait => r.all.mean_us.is_some(),
            Column::Util => r.util_percent.is_some(),
            Column::Service => r.service_us.is_some(),
            Column::WriteAndDiscardBytes(_) => self.write_and_discard.is_some(),
            Column::Skip | Column::Total(..) | Column::InFlight | Column::AwaitPart => false,
        }
    }

    /// Calculates values from several cells.
    pub fn complete(&mut self) {
        let r = &mut self.rates;
        if let (Some(wd), Some(read)) = (
            self.write_and_discard,
            r.classes[Class::Read as usize].bytes_per_s,
        ) {
            r.all.bytes_per_s = Some(read + wd);
        }
        for c in r.classes.iter_mut().chain([&mut r.all]) {
            no_mean_of_nothing(c);
        }
        let known: f64 = r.classes.iter().filter_map(|c| c.ios_per_s).sum();
        if r.all.ios_per_s.is_none() && known == 0.0 && r.all.mean_us == Some(0.0) {
            r.all.mean_us = None;
        }
    }

    /// Whether no value is known because its cells were damaged.
    pub fn is_blank(&self) -> bool {
        self.rates.complements(&self.rates)
    }

    /// The values of the row in counts per second.
    pub fn counts_per_s(&self) -> impl Iterator<Item = f64> {
        self.rates
            .classes
            .iter()
            .chain([&self.rates.all])
            .flat_map(|c| [c.ios_per_s, c.merges_per_s])
            .flatten()
    }

    /// Length of the interval in seconds from the row's own totals; needs enough bytes for a precision of 1 %.
    pub fn seconds(&self) -> Option<f64> {
        self.total
            .filter(|(t, _)| *t >= 100.0 * KIB)
            .map(|(total, rate)| total / rate)
    }
}

/// Tables print 0.00 as the mean of no I/O.
fn no_mean_of_nothing(c: &mut ClassRates) {
    if c.ios_per_s == Some(0.0) {
        c.mean_us = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::DevId;

    #[test]
    fn headings_of_all_generations() {
        assert_eq!(column("rsec/s"), Column::Bytes(Class::Read, 512.0));
        assert_eq!(column("wMB/s"), Column::Bytes(Class::Write, MIB));
        assert_eq!(column("dGB/s"), Column::Bytes(Class::Discard, GIB));
        assert_eq!(column("Blk_wrtn/s"), Column::Bytes(Class::Write, 512.0));
        assert_eq!(column("kB_dscd"), Column::Total(Class::Discard, 1024.0));
        assert_eq!(column("MB_w+d/s"), Column::WriteAndDiscardBytes(MIB));
        assert_eq!(column("svctm"), Column::Service);
        for unused in [
            "avgrq-sz", "%rrqm", "rareq-sz", "%w", "x_y", "_", "/s", "é/s", "qlen", "ms/o",
        ] {
            assert_eq!(column(unused), Column::Skip, "{unused}");
        }
    }

    #[test]
    fn human_units_win_over_the_heading() {
        assert_eq!(value(b"1.2M"), Some((1.2, Some(MIB))));
        assert_eq!(value(b"99.5%"), Some((99.5, None)));
        assert_eq!(value(b"520,0k"), Some((520.0, Some(KIB))));
        assert_eq!(value(b"8.0?"), Some((8.0, Some(GIB * GIB))));
        assert_eq!(value(b"x"), None);
    }

    #[test]
    fn a_row_without_cells_is_blank_and_no_used_column_is_negative() {
        let mut row = Row::new(DevId(1));
        assert!(row.is_blank());
        row.put(Column::Util, (0.0, None));
        assert!(!row.is_blank());
        assert!(is_negative(Column::Util, -14.0));
        assert!(!is_negative(Column::Util, -0.0));
        assert!(!is_negative(Column::Skip, -14.0));
    }

    #[test]
    fn means_without_ios_are_unknown_and_totals_give_the_interval() {
        let mut row = Row::new(DevId(1));
        row.put(Column::Ios(Class::Read), (0.0, None));
        row.put(Column::Await(Class::Read), (0.0, None));
        row.put(Column::Bytes(Class::Write, KIB), (500.0, None));
        row.put(Column::Total(Class::Write, KIB), (1000.0, None));
        row.complete();
        assert_eq!(row.rates.classes[0].mean_us, None);
        assert_eq!(row.seconds(), Some(2.0));
    }
}
