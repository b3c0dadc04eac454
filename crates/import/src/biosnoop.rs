//! Parses biosnoop of bcc and of libbpf-tools, with and without `-Q`: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)]
//! LAT(ms)`.
//!
//! LAT is issue to completion in both. QUE is start (bcc) or insertion (libbpf-tools) to issue, or -1 if that was not
//! seen.

use iolens_core::model::{Comm, DevId, Io, Op};

use super::log::Log;
use super::pairing::rwbs;
use super::text::{Lines, integer, number, seconds_ns, words};

/// The columns besides the time that distinguish biosnoop from other tools of its family.
pub(super) const REQUIRED: [&str; 5] = ["DISK", "T", "SECTOR", "BYTES", "LAT(ms)"];

/// The value (-1 ms) that libbpf-tools prints if it did not see a request's insertion.
const NOT_SEEN_NS: i64 = -1_000_000;

/// Whether a heading that begins with `TIME(s)` is biosnoop's; `fileslower` and others print other latencies.
pub(super) fn is_heading(line: &[u8]) -> bool {
    Columns::of(line).is_some_and(|c| {
        REQUIRED
            .iter()
            .all(|r| c.after_comm.iter().any(|name| name == r.as_bytes()))
    })
}

/// Parses a log; a new heading may change the columns.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let mut columns: Option<Columns> = None;
    let mut queues = false;
    let mut diskless = 0u64;
    let mut negative = 0u64;
    while let Some(line) = log.next_line(lines) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if text.starts_with(b"TIME(s)") {
            columns = Columns::of(text);
            continue;
        }
        if lost_events(text) {
            log.damaged(line.number, String::from_utf8_lossy(text));
            continue;
        }
        let Some(c) = &columns else {
            log.other_line(line.number);
            continue;
        };
        let whole = line.complete || ends_like(text);
        let io = row(log, c, text, true).or_else(|| {
            let io = row(log, c, text, false)?;
            diskless += 1;
            Some(io)
        });
        match io.filter(|_| whole) {
            Some(io) if io.device_ns < 0 => log.damaged(line.number, "a negative latency"),
            Some(mut io) => {
                negative += u64::from(io.queue_ns.is_some_and(|q| q < 0 && q != NOT_SEEN_NS));
                io.queue_ns = io.queue_ns.filter(|q| *q >= 0);
                queues |= io.queue_ns.is_some();
                log.io(io);
            }
            None => log.damaged(line.number, "not a row under this heading"),
        }
    }
    log.limit("source knows no cgroup, no file, no merges and no errors");
    if diskless > 0 {
        log.limit(&format!(
            "{diskless} I/Os have no disk in the log: they are those of a device called unknown"
        ));
    }
    if negative > 0 {
        log.limit(&format!(
            "{negative} queue times are negative in the log, and not known here"
        ));
    }
    if !queues {
        log.limit("source was run without -Q: time in the kernel's queues is not known");
    }
}

/// `lost 12 events on CPU #3`, which libbpf-tools prints among the rows if both streams go to one file.
fn lost_events(text: &[u8]) -> bool {
    text.starts_with(b"lost ") || text.starts_with(b"Possibly lost ")
}

/// A truncated last row is complete if its last cell has three (or two) decimals and only the line end is missing.
fn ends_like(text: &[u8]) -> bool {
    text.iter().rev().take_while(|b| b.is_ascii_digit()).count() >= 2
}

struct Columns {
    /// Columns after `COMM`, which may contain blanks and is therefore the remaining text in the middle.
    after_comm: Vec<Vec<u8>>,
}

impl Columns {
    fn of(text: &[u8]) -> Option<Columns> {
        // bcc prints `BYTES  QUE(ms) LAT(ms)`; some versions have no blank between two headings.
        let spaced = String::from_utf8_lossy(text)
            .replace("QUE(ms)", " QUE(ms) ")
            .replace("LAT(ms)", " LAT(ms) ");
        let names: Vec<Vec<u8>> = words(spaced.as_bytes()).map(<[u8]>::to_vec).collect();
        let comm = names.iter().position(|n| n == b"COMM")?;
        Some(Columns {
            after_comm: names[comm + 1..].to_vec(),
        })
    }
}

/// Parses a row. biosnoop leaves the disk column empty if it is unknown.
fn row(log: &mut Log, c: &Columns, text: &[u8], has_disk: bool) -> Option<Io> {
    let done_ns = seconds_ns(words(text).next()?)?;
    let mut io = Io::new(done_ns, DevId(0), Op::READ, 0, None, 0);
    let mut disk: &[u8] = b"unknown";
    let mut has_latency = false;
    // Cells are read from the last column on. What remains in front of them is the time, and a name that may contain
    // blanks.
    let mut rest = text;
    for column in c.after_comm.iter().rev() {
        if column == b"DISK" && !has_disk {
            continue;
        }
        let (before, cell) = last_word(rest)?;
        rest = before;
        // A number is the process ID: the disk is missing.
        if column == b"DISK" {
            disk = Some(cell).filter(|c| integer(c).is_none())?;
            continue;
        }
        has_latency |= column == b"LAT(ms)";
        put_cell(&mut io, column, cell)?;
    }
    if !has_latency {
        return None;
    }
    io.comm = comm_behind_time(rest);
    io.dev = log.devices.by_name(disk);
    Some(io)
}

/// Stores a cell's value in `io`; `None` if it is invalid for its column. Unknown columns are ignored here.
fn put_cell(io: &mut Io, column: &[u8], cell: &[u8]) -> Option<()> {
    match column {
        b"LAT(ms)" => io.device_ns = millis(cell)?,
        b"QUE(ms)" => io.queue_ns = Some(millis(cell)?),
        b"BYTES" => io.bytes = i64::try_from(integer(cell)?).ok()?,
        b"SECTOR" => io.sector = Some(i64::try_from(integer(cell)?).ok()?),
        b"T" => {
            if !is_operation(cell) {
                return None;
            }
            // The column of bytes is to the right of this one, so it has been read already.
            let (op, flags) = rwbs(cell, io.bytes > 0);
            io.op = op;
            // bcc prints only R or W and no flags. A single letter may also mean that there were none.
            io.flags = (cell.len() > 1).then_some(flags);
        }
        b"PID" | b"TID" => io.tgid = i32::try_from(integer(cell)?).ok(),
        _ => {}
    }
    Some(())
}

/// The name of the process, which follows the time; `None` if it is unknown.
fn comm_behind_time(text: &[u8]) -> Option<Comm> {
    let text = text.trim_ascii();
    let end_of_time = text.iter().position(|b| *b == b' ')?;
    let name = text[end_of_time..].trim_ascii();
    (!name.is_empty() && name != b"?").then(|| Comm::new(name))
}

/// Letters that the kernel prints for an operation.
fn is_operation(cell: &[u8]) -> bool {
    cell.len() <= 8 && cell.iter().all(u8::is_ascii_uppercase)
}

fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let at = text.iter().rposition(|b| *b == b' ' || *b == b'\t')?;
    Some((&text[..at], &text[at + 1..]))
}

/// Milliseconds with decimals, as nanoseconds.
fn millis(cell: &[u8]) -> Option<i64> {
    let ms = number(cell)?;
    (ms.abs() < 9e12).then(|| (ms * 1e6).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::super::log::{ImportOptions, Imported};
    use super::super::recognise::{LogFormat, recognise};
    use iolens_core::model::{Io, Op};
    use std::path::Path;

    fn import(text: &str) -> Imported {
        assert_eq!(recognise(text.as_bytes()), Some(LogFormat::Biosnoop));
        parse_bytes(
            LogFormat::Biosnoop,
            Path::new("b.txt"),
            text.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports")
    }

    #[test]
    fn libbpf_tools_with_queue_time() {
        let got = import(
            "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n\
             0.000000    postgres: wal  1188    nvme0n1 WS   3145728    8192      0.012   0.345\n\
             0.001500    kworker/u4:2   77      nvme0n1 FWFS 99         4096     -1.000   1.500\n\
             0.002000    fio            9       sdb     RA   0          131072    0.100  12.000\n",
        );
        let ios = got.ios();
        assert_eq!(ios.len(), 3);
        assert_eq!(
            ios[0].comm.map(|c| c.to_text().into_owned()).as_deref(),
            Some("postgres: wal")
        );
        assert_eq!(
            (ios[0].queue_ns, ios[0].device_ns, ios[0].tgid),
            (Some(12_000), 345_000, Some(1188))
        );
        assert_eq!(
            (ios[1].queue_ns, ios[1].op),
            (None, Op::WRITE),
            "-1 is what the tool prints for not seen"
        );
        assert_eq!(
            ios[1].flags,
            Some(Io::FLAG_PREFLUSH | Io::FLAG_FUA | Io::FLAG_SYNC)
        );
        assert_eq!(
            got.meta
                .devices
                .iter()
                .map(|d| d.name.as_str())
                .collect::<Vec<_>>(),
            ["nvme0n1", "sdb"]
        );
    }

    #[test]
    fn negative_times_are_reported() {
        let got = import(
            "TIME(s)     COMM    PID    DISK    T SECTOR     BYTES   QUE(ms) LAT(ms)\n\
             0.000004    a       1      sda     W 8          4096    -0.250  0.740\n\
             0.000010    a       1      sda     W 16         4096    -1.000  0.740\n\
             0.000020    a       1      sda     W 24         4096    0.100   0.740\n\
             0.000030    a       1      sda     W 32         4096    0.100   -0.740\n",
        );
        assert_eq!(
            got.ios().iter().map(|io| io.queue_ns).collect::<Vec<_>>(),
            [None, None, Some(100_000)]
        );
        assert!(
            got.meta
                .limits
                .iter()
                .any(|l| l.starts_with("1 queue times are negative")),
            "{:?}",
            got.meta.limits
        );
        assert_eq!(
            (got.damage.count, got.damage.places[0].why.as_str()),
            (1, "a negative latency")
        );
    }

    #[test]
    fn milliseconds_of_the_bpftrace_version_are_not_taken_for_seconds() {
        let text = b"TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n             MAJOR MINOR\n\
            611          259   0        bash             4179        10\n";
        assert_eq!(recognise(text), None);
    }

    #[test]
    fn bcc_without_queue_time_and_with_damage() {
        let got = import(
            "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n\
             0.000004    supervise      1950   xvda1   W 13092560   4096      0.74\n\
             garbage line here\n\
             0.995280    ?              0              R 0          8192      9.14\n\
             1.1         cut            19",
        );
        let ios = got.ios();
        assert_eq!(
            (ios.len(), ios[0].queue_ns, ios[0].device_ns),
            (2, None, 740_000)
        );
        assert_eq!(ios[0].flags, None);
        let unknown = got
            .meta
            .devices
            .iter()
            .find(|d| d.name == "unknown")
            .expect("a device");
        assert_eq!(
            (ios[1].dev, ios[1].tgid, ios[1].bytes),
            (unknown.id, Some(0), 8192),
            "its disk is not in the log"
        );
        assert_eq!(
            got.damage.places.iter().map(|p| p.at).collect::<Vec<_>>(),
            [3, 5]
        );
        assert!(got.meta.limits.iter().any(|l| l.contains("-Q")));
    }
}
