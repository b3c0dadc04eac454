//! Recognises the tool that wrote a log, by the log's content.

use super::text::{Lines, columns, has_word};

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogFormat {
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
    /// Binary files of blktrace, version 7 or 8.
    Blktrace,
    /// biosnoop of bcc or libbpf-tools.
    Biosnoop,
    /// `perf script` (or the kernel's trace file) with block events.
    BlockEvents,
    /// Text of FreeBSD's `iostat -x`.
    FreebsdIostat,
    /// Text of sysstat's `sar -d`.
    SarText,
    /// `sadf -d` and `sadf -p`.
    Sadf,
    /// `sadf -j`.
    SadfJson,
    /// Copies of `/proc/diskstats`.
    Diskstats,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [LogFormat; 14] = [
        LogFormat::IostatText,
        LogFormat::IostatJson,
        LogFormat::SolarisIostat,
        LogFormat::RateTable,
        LogFormat::FioJson,
        LogFormat::FioLog,
        LogFormat::Blktrace,
        LogFormat::Biosnoop,
        LogFormat::BlockEvents,
        LogFormat::FreebsdIostat,
        LogFormat::SarText,
        LogFormat::Sadf,
        LogFormat::SadfJson,
        LogFormat::Diskstats,
    ];

    /// The word after `import:` in the recording's source.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::IostatText | LogFormat::IostatJson => "iostat",
            LogFormat::SolarisIostat => "solaris-iostat",
            LogFormat::FreebsdIostat => "freebsd-iostat",
            LogFormat::RateTable => "rate-table",
            LogFormat::FioJson => "fio",
            LogFormat::FioLog => "fio-log",
            LogFormat::Blktrace => "blktrace",
            LogFormat::Biosnoop => "biosnoop",
            LogFormat::BlockEvents => "perf-script",
            LogFormat::SarText | LogFormat::Sadf | LogFormat::SadfJson => "sar",
            LogFormat::Diskstats => "diskstats",
        }
    }
}

/// How many bytes are inspected: except for messages and blank lines at the start, a format is recognisable
/// early.
pub(super) const LOOK: usize = 64 * 1024;

/// The format of `bytes`; `None` if it is none of them.
pub fn recognise(bytes: &[u8]) -> Option<LogFormat> {
    let head = &bytes[..bytes.len().min(LOOK)];
    if super::blktrace::has_magic(head) {
        return Some(LogFormat::Blktrace);
    }
    let mut source = head;
    let mut lines = Lines::new(&mut source);
    while let Some(line) = lines.next_line() {
        if let Some(kind) = of_line(line.bytes) {
            return Some(kind);
        }
    }
    json_kind(head)
}

/// The kind of table whose heading this line is, if it is one.
pub(super) fn table_kind(line: &[u8]) -> Option<LogFormat> {
    const TABLES: [LogFormat; 4] = [
        LogFormat::IostatText,
        LogFormat::SolarisIostat,
        LogFormat::FreebsdIostat,
        LogFormat::RateTable,
    ];
    let text = line.trim_ascii_start();
    let may_be_heading = [&b"time"[..], b"device", b"Device"]
        .iter()
        .any(|w| text.starts_with(w));
    may_be_heading
        .then(|| of_line(line))
        .flatten()
        .filter(|k| TABLES.contains(k))
}

fn of_line(line: &[u8]) -> Option<LogFormat> {
    if super::rate_table::is_heading(line) {
        return Some(LogFormat::RateTable);
    }
    let all = columns(line);
    // Tables of devices differ in the position of the device in the heading, and in columns that only one tool
    // has.
    match *all.first()? {
        b"TIME(s)" if super::biosnoop::is_heading(line) => return Some(LogFormat::Biosnoop),
        b"Device" | b"Device:" | b"avg-cpu:" => return Some(LogFormat::IostatText),
        b"device" if has_word(&all, "ms/r") || has_word(&all, "qlen") => {
            return Some(LogFormat::FreebsdIostat);
        }
        b"device" if has_word(&all, "r/s") || has_word(&all, "r/i") || has_word(&all, "r_s") => {
            return Some(LogFormat::SolarisIostat);
        }
        _ => {}
    }
    match *all.last()? {
        b"device" if has_word(&all, "actv") => return Some(LogFormat::SolarisIostat),
        b"Device" if has_word(&all, "tps") || contains(line, b"/s ") => {
            return Some(LogFormat::IostatText);
        }
        _ => {}
    }
    if super::block_events::looks_like_event(line) {
        return Some(LogFormat::BlockEvents);
    }
    if super::sar_text::is_heading(line) {
        return Some(LogFormat::SarText);
    }
    if super::sadf::looks_like_line(line) {
        return Some(LogFormat::Sadf);
    }
    if super::diskstats::looks_like_line(line) {
        return Some(LogFormat::Diskstats);
    }
    super::fio_log::looks_like_row(line).then_some(LogFormat::FioLog)
}

fn json_kind(head: &[u8]) -> Option<LogFormat> {
    if contains(head, b"\"file-date\"") || contains(head, b"\"disk-device\"") {
        return Some(LogFormat::SadfJson);
    }
    if contains(head, b"\"sysstat\"")
        || contains(head, b"\"statistics\"")
        || contains(head, b"\"disk_device\"")
    {
        return Some(LogFormat::IostatJson);
    }
    let fio = contains(head, b"\"fio version\"")
        || contains(head, b"\"jobs\"")
        || contains(head, b"\"client_stats\"");
    fio.then_some(LogFormat::FioJson)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}
