//! The one table of statistics: heading, width and value of each column, in each report's order.

use super::{Row, SizeUnit};
use iolens_core::analysis::counters::rates::iostat::{ClassValues, Values};

/// Which percentages are coloured as warning and extreme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// From 75 and 90 up.
    High,
    /// From 25 and 10 down.
    Low,
    /// From 25 and 10 down, but not zero.
    LowNonZero,
}

/// Where a column's value comes from, and what kind of value it is.
#[derive(Clone, Copy)]
pub enum CellValue {
    /// A number without unit.
    Number(fn(&Row<'_>) -> f64),
    /// Sectors per second, shown in the unit of sizes.
    SectorRate(fn(&Row<'_>) -> f64),
    /// Sectors in the interval, shown in whole units of sizes.
    SectorTotal(fn(&Row<'_>) -> u64),
    /// KiB, whatever the unit of sizes.
    Kib(fn(&Row<'_>) -> f64),
    /// A percentage.
    Percent(Alarm, fn(&Row<'_>) -> f64),
    /// A number that may not be known, with so many decimals unless others are asked for.
    Known(u8, fn(&Row<'_>) -> Option<f64>),
}

/// A column. Its heading is `before`, the unit's name if `unit` is set, and `after`, right-aligned above the field.
#[derive(Clone, Copy)]
pub struct Column {
    before: &'static str,
    unit: bool,
    after: &'static str,
    /// Width of the field, without the blank before it.
    pub width: usize,
    /// Its value.
    pub cell: CellValue,
}

impl Column {
    /// A column that the reference does not have.
    pub const fn known(
        name: &'static str,
        width: usize,
        decimals: u8,
        f: fn(&Row<'_>) -> Option<f64>,
    ) -> Column {
        Column {
            before: name,
            unit: false,
            after: "",
            width,
            cell: CellValue::Known(decimals, f),
        }
    }

    /// The heading.
    pub fn heading(&self, unit: SizeUnit, extended: bool) -> String {
        format!(
            "{}{}{}",
            self.before,
            if self.unit { unit.name(extended) } else { "" },
            self.after
        )
    }

    /// The key in JSON: the heading without a percent sign.
    pub fn key(&self, unit: SizeUnit, extended: bool) -> String {
        self.heading(unit, extended).replace('%', "")
    }
}

const fn number(name: &'static str, width: usize, f: fn(&Row<'_>) -> f64) -> Column {
    Column {
        before: name,
        unit: false,
        after: "",
        width,
        cell: CellValue::Number(f),
    }
}

const fn kib(name: &'static str, f: fn(&Row<'_>) -> f64) -> Column {
    Column {
        before: name,
        unit: false,
        after: "",
        width: 8,
        cell: CellValue::Kib(f),
    }
}

const fn percent(name: &'static str, alarm: Alarm, f: fn(&Row<'_>) -> f64) -> Column {
    Column {
        before: name,
        unit: false,
        after: "",
        width: 6,
        cell: CellValue::Percent(alarm, f),
    }
}

const fn rate(
    before: &'static str,
    after: &'static str,
    width: usize,
    f: fn(&Row<'_>) -> f64,
) -> Column {
    Column {
        before,
        unit: true,
        after,
        width,
        cell: CellValue::SectorRate(f),
    }
}

const fn total(after: &'static str, f: fn(&Row<'_>) -> u64) -> Column {
    Column {
        before: "",
        unit: true,
        after,
        width: 10,
        cell: CellValue::SectorTotal(f),
    }
}

const TPS: Column = number("tps", 8, |r| r.values.tps);
const AQU_SZ: Column = number("aqu-sz", 7, |r| r.values.queue_size);
const UTIL: Column = percent("%util", Alarm::High, |r| {
    r.values.util_percent / r.members.max(1) as f64
});

/// The basic report.
pub const BASIC: [Column; 7] = [
    TPS,
    rate("", "_read/s", 12, |r| r.values.read.sectors_per_s),
    rate("", "_wrtn/s", 12, |r| r.values.write.sectors_per_s),
    rate("", "_dscd/s", 12, |r| r.values.discard.sectors_per_s),
    total("_read", |r| r.values.read.sectors),
    total("_wrtn", |r| r.values.write.sectors),
    total("_dscd", |r| r.values.discard.sectors),
];

/// The basic report, short.
pub const BASIC_SHORT: [Column; 5] = [
    TPS,
    BASIC[1],
    rate("", "_w+d/s", 12, |r| {
        r.values.write.sectors_per_s + r.values.discard.sectors_per_s
    }),
    BASIC[4],
    total("_w+d", |r| {
        r.values
            .write
            .sectors
            .wrapping_add(r.values.discard.sectors)
    }),
];

/// The extended report, short.
pub const EXTENDED_SHORT: [Column; 7] = [
    TPS,
    rate("", "/s", 9, |r| all_sectors_per_s(&r.values)),
    number("rqm/s", 8, |r| r.values.merges_per_s),
    number("await", 7, |r| r.values.await_ms),
    kib("areq-sz", |r| r.values.request_kib),
    AQU_SZ,
    UTIL,
];

fn all_sectors_per_s(v: &Values) -> f64 {
    v.read.sectors_per_s + v.write.sectors_per_s + v.discard.sectors_per_s
}

/// The six columns of one class.
macro_rules! class {
    ($field:ident, $per_s:literal, $size:literal, $merges:literal, $merged:literal, $wait:literal, $request:literal) => {{
        fn of<'a>(r: &'a Row<'_>) -> &'a ClassValues {
            &r.values.$field
        }
        [
            number($per_s, 7, |r| of(r).per_s),
            rate($size, "/s", 9, |r| of(r).sectors_per_s),
            number($merges, 8, |r| of(r).merges_per_s),
            percent($merged, Alarm::LowNonZero, |r| of(r).merged_percent),
            number($wait, 7, |r| of(r).await_ms),
            kib($request, |r| of(r).request_kib),
        ]
    }};
}

const READ: [Column; 6] = class!(read, "r/s", "r", "rrqm/s", "%rrqm", "r_await", "rareq-sz");
const WRITE: [Column; 6] = class!(write, "w/s", "w", "wrqm/s", "%wrqm", "w_await", "wareq-sz");
const DISCARD: [Column; 6] = class!(
    discard, "d/s", "d", "drqm/s", "%drqm", "d_await", "dareq-sz"
);
const REST: [Column; 4] = [
    number("f/s", 7, |r| r.values.flushes_per_s),
    number("f_await", 7, |r| r.values.flush_await_ms),
    AQU_SZ,
    UTIL,
];

/// The extended report: reads, writes, discards, the rest; a pretty one has a table for each.
pub const EXTENDED: [&[Column]; 4] = [&READ, &WRITE, &DISCARD, &REST];

/// The extended report's columns in the order of JSON: by statistic, then by class.
pub const EXTENDED_JSON: [Column; 22] = [
    READ[0], WRITE[0], DISCARD[0], REST[0], READ[1], WRITE[1], DISCARD[1], READ[2], WRITE[2],
    DISCARD[2], READ[3], WRITE[3], DISCARD[3], READ[4], WRITE[4], DISCARD[4], REST[1], READ[5],
    WRITE[5], DISCARD[5], REST[2], REST[3],
];
