//! Which tool wrote this? Told from the content alone.

use std::borrow::Cow;

use super::text::{Lines, without_colours, without_commas, words};

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Text of sysstat's `iostat`, any version and options.
    IostatText,
    /// `iostat -o JSON`.
    IostatJson,
    /// Text of the `iostat -x` of Solaris and illumos.
    SolarisIostat,
    /// Rows of `time r/s Kr/s us/r w/s Kw/s us/w`.
    RateTable,
    /// fio's JSON or JSON+.
    FioJson,
    /// fio's bandwidth, latency or IOPS log.
    FioLog,
    /// Binary files of blktrace, version 7.
    Blktrace,
    /// biosnoop of bcc or libbpf-tools.
    Biosnoop,
    /// `perf script` (or the kernel's trace file) with block events.
    BlockEvents,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::IostatText,
        Kind::IostatJson,
        Kind::SolarisIostat,
        Kind::RateTable,
        Kind::FioJson,
        Kind::FioLog,
        Kind::Blktrace,
        Kind::Biosnoop,
        Kind::BlockEvents,
    ];

    /// The word after `import:` in the recording's source.
    pub fn name(self) -> &'static str {
        match self {
            Kind::IostatText | Kind::IostatJson => "iostat",
            Kind::SolarisIostat => "solaris-iostat",
            Kind::RateTable => "rate-table",
            Kind::FioJson => "fio",
            Kind::FioLog => "fio-log",
            Kind::Blktrace => "blktrace",
            Kind::Biosnoop => "biosnoop",
            Kind::BlockEvents => "perf-script",
        }
    }
}

/// How many bytes are looked at: beyond messages and blank lines in front, a format shows itself early.
const LOOK: usize = 64 * 1024;

/// The format of `bytes`; `None` if it is none of them.
pub fn recognise(bytes: &[u8]) -> Option<Kind> {
    let head = &bytes[..bytes.len().min(LOOK)];
    if super::blktrace::has_magic(head) {
        return Some(Kind::Blktrace);
    }
    let head = &*without_colours(head);
    for line in Lines::new(head) {
        if let Some(kind) = of_line(line.bytes) {
            return Some(kind);
        }
    }
    json_kind(head)
}

/// The tables of `bytes`, which is of `kind`, kind by kind: articles and tickets show several tools' output one below the
/// other. What belongs to another kind is left out but for its line ends, so that lines keep their numbers.
pub(super) fn sections(kind: Kind, bytes: &[u8]) -> Vec<(Kind, Cow<'_, [u8]>)> {
    const TABLES: [Kind; 3] = [Kind::IostatText, Kind::SolarisIostat, Kind::RateTable];
    if !TABLES.contains(&kind) {
        return vec![(kind, Cow::Borrowed(bytes))];
    }
    let mut begins = vec![(0, kind)];
    for line in Lines::new(bytes) {
        let text = line.bytes.trim_ascii_start();
        let may_be_heading = [&b"time"[..], b"device", b"Device"].iter().any(|w| text.starts_with(w));
        let other = may_be_heading.then(|| of_line(line.bytes)).flatten().filter(|k| TABLES.contains(k));
        if let (Some(other), Some((_, now))) = (other, begins.last())
            && other != *now
        {
            begins.push((line.bytes.as_ptr() as usize - bytes.as_ptr() as usize, other));
        }
    }
    let mut kinds: Vec<Kind> = begins.iter().map(|b| b.1).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if let [_] = kinds[..] {
        return vec![(kind, Cow::Borrowed(bytes))];
    }
    let ends = begins.iter().skip(1).map(|b| b.0).chain([bytes.len()]);
    let spans: Vec<(usize, usize, Kind)> = begins.iter().zip(ends).map(|(b, end)| (b.0, end, b.1)).collect();
    let only = |kind: Kind| {
        let mut part = Vec::with_capacity(bytes.len());
        for (from, to, of) in &spans {
            let text = &bytes[*from..*to];
            if *of == kind { part.extend_from_slice(text) } else { part.extend(text.iter().filter(|b| **b == b'\n')) }
        }
        part
    };
    kinds.into_iter().map(|kind| (kind, Cow::Owned(only(kind)))).collect()
}

fn of_line(line: &[u8]) -> Option<Kind> {
    if super::rate_table::is_heading(line) {
        return Some(Kind::RateTable);
    }
    if let Cow::Owned(line) = without_commas(line) {
        return of_line(&line);
    }
    let first: Vec<&[u8]> = words(line).take(8).collect();
    match first.first()? {
        // The bpftrace version counts milliseconds and has other columns: none of ours.
        &b"TIME(s)" if contains(line, b"LAT(ms)") => return Some(Kind::Biosnoop),
        &b"Device" | &b"Device:" | &b"avg-cpu:" => return Some(Kind::IostatText),
        &b"device" if contains(line, b"r/s") || contains(line, b"r/i") || contains(line, b" r_s ") => {
            return Some(Kind::SolarisIostat);
        }
        _ => {}
    }
    if words(line).next_back() == Some(b"device") && contains(line, b"actv") {
        return Some(Kind::SolarisIostat);
    }
    if words(line).next_back() == Some(b"Device") && (contains(line, b"/s ") || contains(line, b"tps")) {
        return Some(Kind::IostatText);
    }
    if super::block_events::looks_like_event(line) {
        return Some(Kind::BlockEvents);
    }
    super::fio_log::looks_like_row(line).then_some(Kind::FioLog)
}

fn json_kind(head: &[u8]) -> Option<Kind> {
    if contains(head, b"\"sysstat\"") || contains(head, b"\"statistics\"") || contains(head, b"\"disk_device\"") {
        return Some(Kind::IostatJson);
    }
    let fio = contains(head, b"\"fio version\"") || contains(head, b"\"jobs\"") || contains(head, b"\"client_stats\"");
    fio.then_some(Kind::FioJson)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}
