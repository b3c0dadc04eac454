//! NDJSON and CSV output: one record per device, with correct arithmetic where the reference's is wrong.

use super::exact::Exact;
use super::list::{DeviceList, Entry, EntryKind};
use super::rows::{Filter, Sums, in_order, shown};
use crate::cli::iostat::IostatFormat;
use crate::present::iostat::exact::ExactField;
use crate::present::iostat::records::{csv_cpu, csv_device, ndjson_cpu, ndjson_device};
use iolens_core::analysis::counters::rates::iostat::CpuPercent;
use iolens_core::analysis::counters::rates::{Delta, State};
use iolens_core::model::{CounterSample, DevId, DiskCounters};
use iolens_observe::counters::{Root, read_once};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The sample, its time, and the length of its interval.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    /// Index of the sample, starting at 0; the interval of the first one starts at boot.
    pub sample: u64,
    /// Slot of its counters.
    pub slot: usize,
    /// Length of the interval in nanoseconds.
    pub span_ns: i64,
    /// Wall clock of its end, in nanoseconds since the Unix epoch.
    pub unix_ns: i64,
}

/// The input of a report.
#[derive(Debug)]
pub struct ReportInput<'a> {
    /// File system root of the sample.
    pub root: &'a Root,
    /// The list with its counters.
    pub list: &'a DeviceList,
    /// Statistics of single I/Os, and the requested fields.
    pub exact: &'a Exact,
    /// Fields of single I/Os; see `exact`.
    pub fields: &'a [ExactField],
}

/// Appends one report's records.
pub fn report(
    out: &mut Vec<u8>,
    format: IostatFormat,
    input: &ReportInput<'_>,
    at: Interval,
    filter: Filter,
    cpu: Option<&CpuPercent>,
    devices: bool,
) {
    let time = time(at.unix_ns);
    if let Some(cpu) = cpu {
        match format {
            IostatFormat::Csv if devices => {}
            IostatFormat::Csv => csv_cpu(out, &time, cpu),
            _ => ndjson_cpu(out, &time, cpu),
        }
    }
    if !devices {
        return;
    }
    let mut sums = Sums::new(input.exact);
    for placed in in_order(input.list) {
        let found = sums.of(&placed);
        if !shown(&placed, at.slot, filter) {
            continue;
        }
        let mut rates = delta(placed.entry, at, input.root).rates();
        if placed.entry.kind == EntryKind::Group {
            rates.util_percent = rates
                .util_percent
                .filter(|_| placed.members > 0)
                .map(|u| u / placed.members as f64);
        }
        let name = placed
            .entry
            .name
            .strip_prefix(b" ")
            .unwrap_or(&placed.entry.name);
        let name: Vec<u8> = name
            .iter()
            .map(|b| if *b == b'!' { b'/' } else { *b })
            .collect();
        match format {
            IostatFormat::Csv => {
                csv_device(out, &time, &name, &rates, (input.fields, found.as_ref()))
            }
            _ => ndjson_device(out, &time, &name, &rates, (input.fields, found.as_ref())),
        }
    }
}

/// The difference of an entry's counters over the interval. A device without a previous sample has none.
fn delta(entry: &Entry, at: Interval, root: &Root) -> Delta {
    let now = entry.slots[at.slot];
    let before = if at.sample == 0 {
        // Counters start at zero at boot, with the same fields.
        DiskCounters {
            discard: now.discard.map(|_| Default::default()),
            flush: now.flush.map(|_| Default::default()),
            ..DiskCounters::default()
        }
    } else if entry.sampled[1 - at.slot] == Some(at.sample - 1) {
        entry.slots[1 - at.slot]
    } else {
        return Delta::unknown(State::Appeared, at.span_ns);
    };
    Delta::between(
        &sample(0, before),
        &sample(at.span_ns, now),
        iostats(entry, root),
    )
}

/// The counters of a device as a sample; the device number does not matter.
fn sample(at_ns: i64, counters: DiskCounters) -> CounterSample {
    CounterSample {
        at_ns,
        dev: DevId::new(0, 0),
        counters,
    }
}

/// `queue/iostats` of a disk: whether the kernel accounts its I/O.
fn iostats(entry: &Entry, root: &Root) -> Option<bool> {
    if !matches!(entry.kind, EntryKind::Disk | EntryKind::DiskWithPartitions) {
        return None;
    }
    let path = Path::new("/sys/block")
        .join(OsStr::from_bytes(&entry.name))
        .join("queue/iostats");
    let text = read_once(&root.path(path)).ok()?;
    text.first().map(|b| *b != b'0')
}

/// ISO 8601 in UTC.
fn time(unix_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .map(|t| t.to_string())
        .unwrap_or_default()
}
