//! The reference program's reports (sysstat's `iostat`), byte for byte: results in, bytes out.
//!
//! [`columns`] is the one table of statistics; [`plain`] and [`json`] lay it out as the reference does, [`records`] as
//! NDJSON and CSV, which the reference does not have; nor has it the columns of [`exact`].

pub mod color;
pub mod columns;
pub mod exact;
pub mod json;
pub mod number;
pub mod plain;
pub mod records;

use color::Colors;
use iolens_core::analysis::counters::rates::iostat::{CpuPercent, Values};
use iolens_core::analysis::device::exact::DeviceExact;
use std::borrow::Cow;

/// Unit of sizes and of rates of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// Sectors of 512 bytes: `Blk`, or `sec` in the extended report.
    Blocks,
    /// KiB, written `kB`.
    Kilo,
    /// MiB, written `MB`.
    Mega,
    /// GiB, written `GB`.
    Giga,
}

impl SizeUnit {
    /// Sectors in one unit.
    pub fn sectors(self) -> u64 {
        match self {
            SizeUnit::Blocks => 1,
            SizeUnit::Kilo => 2,
            SizeUnit::Mega => 2 << 10,
            SizeUnit::Giga => 2 << 20,
        }
    }

    /// Its name in headings.
    pub fn name(self, extended: bool) -> &'static str {
        match self {
            SizeUnit::Blocks if extended => "sec",
            SizeUnit::Blocks => "Blk",
            SizeUnit::Kilo => "kB",
            SizeUnit::Mega => "MB",
            SizeUnit::Giga => "GB",
        }
    }
}

/// How a report looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Style {
    /// `-x`.
    pub extended: bool,
    /// `-s`.
    pub short: bool,
    /// `--pretty`: names at the end of the line.
    pub pretty: bool,
    /// `--human`: scaled sizes, percent signs.
    pub human: bool,
    /// `--compact`: one table even if pretty.
    pub compact: bool,
    /// `--dec=N`.
    pub decimals: Option<u8>,
    /// Unit of sizes.
    pub unit: SizeUnit,
    /// The locale's decimal sign, for plain output.
    pub decimal_point: Vec<u8>,
    /// Colours, if they are on.
    pub colors: Option<Colors>,
    /// `--true`.
    pub exact: bool,
    /// `--hist`.
    pub percentiles: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            extended: false,
            short: false,
            pretty: false,
            human: false,
            compact: false,
            decimals: None,
            unit: SizeUnit::Kilo,
            decimal_point: b".".to_vec(),
            colors: None,
            exact: false,
            percentiles: false,
        }
    }
}

/// What stands above the first report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Banner {
    /// Operating system.
    pub sysname: Vec<u8>,
    /// Kernel release.
    pub release: Vec<u8>,
    /// Host name.
    pub nodename: Vec<u8>,
    /// Architecture.
    pub machine: Vec<u8>,
    /// Date, already formatted.
    pub date: Vec<u8>,
    /// Number of processors.
    pub processors: usize,
}

/// One device, partition or group in a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// The name to show. Untrusted; plain output shows it as the reference does.
    pub name: Cow<'a, [u8]>,
    /// The statistics; of a group, summed over its members.
    pub values: Values,
    /// By how many members a group's busy share is divided; 1 for a device, 0 for a group without members.
    pub members: usize,
    /// What single I/Os tell, if anything; boxed, since most reports have none.
    pub exact: Option<Box<DeviceExact>>,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IostatReport<'a> {
    /// The time stamp, already formatted.
    pub stamp: Option<Vec<u8>>,
    /// The processors' part.
    pub cpu: Option<CpuPercent>,
    /// The devices' part.
    pub rows: Option<Vec<Row<'a>>>,
    /// The next row cannot be had: the report breaks off there.
    pub cut: bool,
}
