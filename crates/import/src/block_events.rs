//! Parses block tracepoints as text: `perf script`, `trace-cmd report` and the kernel's own trace file.
//!
//! `COMM PID [CPU] TIME: block:block_rq_issue: 7,0 R 4096 () 43736 + 8 0x2,0,4 [fio]`

use iolens_core::model::{Comm, DevId, Op};

use super::log::{Epoch, Log};
use super::pairing::{BlockStage, Event, Pairing, rwbs};
use super::text::{Line, Lines, integer, seconds_ns, words};

/// Whether a line is such an event.
pub(super) fn looks_like_event(line: &[u8]) -> bool {
    split(line).is_some_and(|(_, name, _)| stage(name).is_some())
}

/// Parses a text trace of block events.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let mut pairing = Pairing::default();
    let mut known: Vec<DevId> = Vec::new();
    let mut last_ns = i64::MIN;
    let mut started = false;
    let mut threads = false;
    let mut events = 0u64;
    while let Some(line) = log.next_line(lines) {
        let block =
            split(line.bytes).and_then(|(head, name, rest)| Some((head, stage(name)?, rest)));
        let Some((head, stage, rest)) =
            block.filter(|_| line.complete || line.bytes.ends_with(b"]"))
        else {
            not_ours(log, line, events > 0);
            continue;
        };
        let Some(event) = event(head, rest) else {
            log.damaged(line.number, "a block event that cannot be read");
            continue;
        };
        events += 1;
        threads |= !event.is_tgid;
        let event = event.event;
        started |= stage == BlockStage::Start || stage == BlockStage::Queue;
        if event.at_ns < last_ns {
            log.limit(
                "events are not in order of time: some I/Os may not have found their completion",
            );
        }
        last_ns = last_ns.max(event.at_ns);
        if !known.contains(&event.dev) {
            known.push(event.dev);
            log.devices.by_number(event.dev);
        }
        pairing
            .push(stage, &event)
            .into_iter()
            .for_each(|io| log.io(io));
    }
    pairing.finish(log);
    log.epoch = Epoch::Monotonic;
    log.unusable = Some(
        "no I/O was seen from issue to completion; import the logs of all processors together",
    );
    if events > 0 && !started {
        log.limit("the trace holds no block_io_start, block_getrq or block_bio_queue: time in queues is not known");
    }
    if threads {
        log.limit("source counts threads, not processes: thread ids are shown as process ids");
    }
    log.limit("source knows no cgroup and no file");
}

/// Lines between block events: headings, other events and their call chains are not losses.
fn not_ours(log: &mut Log, line: Line<'_>, started: bool) {
    let text = line.bytes.trim_ascii();
    if text.is_empty() || text.starts_with(b"#") {
        return;
    }
    if let Some(n) = lost_events(text) {
        // How many of them were block events is unknown.
        return log.damaged(line.number, format!("{n} events were lost by the tracer"));
    }
    let frame = line.bytes.starts_with(b" ") || line.bytes.starts_with(b"\t");
    let address = words(text)
        .next()
        .is_some_and(|w| w == b"=>" || w.len() >= 4 && w.iter().all(u8::is_ascii_hexdigit));
    if line.complete && (is_event(text) || frame && address) {
        return;
    }
    if !started && line.complete {
        return log.other_line(line.number);
    }
    log.damaged(
        line.number,
        if line.complete {
            "no event of a trace"
        } else {
            "cut off"
        },
    );
}

/// `CPU:1 [LOST 8086 EVENTS]` of the kernel's trace file.
fn lost_events(text: &[u8]) -> Option<u64> {
    let rest = &text[text.windows(6).position(|w| w == b"[LOST ")? + 6..];
    integer(words(rest).next()?)
}

/// Whether a line is an event of any kind: time and name, each with its colon.
fn is_event(text: &[u8]) -> bool {
    let all: Vec<&[u8]> = words(text).take(12).collect();
    all.windows(2)
        .any(|w| is_time(w[0]) && w[1].contains(&b':'))
}

/// `10.5:`.
fn is_time(word: &[u8]) -> bool {
    word.strip_suffix(b":")
        .is_some_and(|w| seconds_ns(w).is_some())
}

/// Text before the event's name, the name, and the text after it.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let at = line
        .windows(7)
        .position(|w| &w[1..] == b"block_" && matches!(w[0], b' ' | b':' | b'\t'))?
        + 1;
    let end = at + line[at..].iter().position(|b| *b == b':' || *b == b' ')?;
    if line.get(end) != Some(&b':') {
        return None;
    }
    let head = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]);
    Some((head, &line[at..end], &line[end + 1..]))
}

fn stage(name: &[u8]) -> Option<BlockStage> {
    Some(match name {
        b"block_bio_queue" => BlockStage::Queue,
        b"block_getrq" | b"block_io_start" => BlockStage::Start,
        // Without an earlier stage, insertion is the first known time of the I/O.
        b"block_rq_insert" => BlockStage::Queue,
        b"block_bio_backmerge" => BlockStage::BackMerge,
        b"block_bio_frontmerge" => BlockStage::FrontMerge,
        b"block_rq_issue" => BlockStage::Issue,
        b"block_rq_requeue" => BlockStage::Requeue,
        b"block_rq_complete" | b"block_bio_complete" => BlockStage::Complete,
        _ => return None,
    })
}

struct BlockEvent {
    event: Event,
    /// Whether the number of the task is its process ID.
    is_tgid: bool,
}

fn event(head: &[u8], rest: &[u8]) -> Option<BlockEvent> {
    let Who {
        at_ns,
        comm,
        tgid,
        is_tgid,
    } = who_and_when(head)?;
    let mut cells = words(rest).peekable();
    let dev = device(cells.next()?)?;
    let letters = cells.next()?;
    // Requests print their bytes and the command (`4096 ()` or `()`); bios have neither.
    let first = cells.next()?;
    let mut printed_bytes = None;
    let mut sector = first;
    if let Some(b) = integer(first)
        && cells.peek().is_some_and(|w| w.starts_with(b"("))
    {
        printed_bytes = Some(b);
        sector = cells.next()?;
    }
    if sector.starts_with(b"(") {
        while !sector.ends_with(b")") {
            sector = cells.next()?;
        }
        sector = cells.next()?;
    }
    let sector = integer(sector)?;
    if cells.next()? != b"+" {
        return None;
    }
    let sectors = integer(cells.next()?)?;
    let bytes = sectors.checked_mul(512)?;
    let (op, flags) = rwbs(letters, bytes > 0);
    let error = cells.last().and_then(bracketed_number).unwrap_or(0);
    // A flush has no sector: the kernel prints sector 0 or -1 with length 0.
    let sector = if bytes == 0 && op == Op::FLUSH {
        0
    } else {
        sector
    };
    let bytes = if sectors == 0 {
        printed_bytes.unwrap_or(0)
    } else {
        bytes
    };
    Some(BlockEvent {
        event: Event {
            at_ns,
            dev,
            sector,
            bytes,
            op,
            flags,
            tgid,
            comm,
            error,
        },
        is_tgid,
    })
}

/// `[0]`, `[-5]`: the error of a completion. In other events this is the task's name. Some tools print it as an
/// unsigned number of 16 or 32 bits.
fn bracketed_number(word: &[u8]) -> Option<i32> {
    let inner = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let digits = inner.strip_prefix(b"-").unwrap_or(inner);
    let n = integer(digits)?;
    let wrapped = [1u64 << 16, 1 << 32]
        .into_iter()
        .filter_map(|top| top.checked_sub(n));
    wrapped
        .filter(|n| (1..4096).contains(n))
        .chain([n])
        .find_map(|n| i32::try_from(n).ok())
}

fn device(word: &[u8]) -> Option<DevId> {
    let comma = word.iter().position(|b| *b == b',')?;
    let major = integer(&word[..comma])?;
    let minor = integer(&word[comma + 1..])?;
    (major < 1 << 11 && minor < 1 << 20).then(|| DevId::new(major as u32, minor as u32))
}

struct Who {
    at_ns: i64,
    comm: Option<Comm>,
    tgid: Option<i32>,
    is_tgid: bool,
}

/// Time, task and task number of `  fio 23322 [001]  2426.758552:` (perf), `fio-23322 [001] d..1. 2426.758552:`
/// (kernel), or `fio-23322 (  23320) [001] d..1. 2426.758552:` (kernel with process IDs recorded).
fn who_and_when(head: &[u8]) -> Option<Who> {
    let head = head.trim_ascii();
    let (before, time) = head.split_at(head.iter().rposition(|b| *b == b' ' || *b == b'\t')? + 1);
    let at_ns = seconds_ns(time.strip_suffix(b":")?)?;
    // The CPU in brackets ends the task's part; some options of perf omit it.
    let cpu = before
        .iter()
        .rposition(|b| *b == b'[')
        .filter(|i| before[i + 1..].first().is_some_and(u8::is_ascii_digit));
    let task = cpu.map_or(before, |i| &before[..i]).trim_ascii();
    let (task, process) = without_process(task);
    let at = task.iter().rposition(|b| matches!(b, b' ' | b'-' | b'\t'));
    let Some(at) = at else {
        return Some(Who {
            at_ns,
            comm: None,
            tgid: process,
            is_tgid: process.is_some(),
        });
    };
    let id = &task[at + 1..];
    let thread = id.iter().position(|b| *b == b'/').map_or(id, |i| &id[..i]);
    let name = task[..at].trim_ascii();
    let comm = (!name.is_empty() && name != b"<...>" && name != b":").then(|| Comm::new(name));
    let tgid = process.or_else(|| i32::try_from(integer(thread)?).ok());
    // perf prints `PROCESS/THREAD` if both are requested.
    Some(Who {
        at_ns,
        comm,
        tgid,
        is_tgid: process.is_some() || thread.len() < id.len() || tgid == Some(0),
    })
}

/// `fio-23322` and 23320 of `fio-23322 (  23320)`; the kernel prints dashes if the process is unknown.
fn without_process(task: &[u8]) -> (&[u8], Option<i32>) {
    let inner = task
        .strip_suffix(b")")
        .and_then(|t| Some((t, t.iter().rposition(|b| *b == b'(')?)));
    let Some((inner, at)) = inner else {
        return (task, None);
    };
    let number = inner[at + 1..].trim_ascii();
    if !number.iter().all(|b| b.is_ascii_digit() || *b == b'-') {
        return (task, None);
    }
    (
        inner[..at].trim_ascii(),
        integer(number).and_then(|n| i32::try_from(n).ok()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::super::fixtures;
    use super::super::log::{ImportOptions, Imported};
    use super::super::recognise::{LogFormat, recognise};
    use super::*;
    use iolens_core::model::{Class, Io};
    use std::path::Path;

    fn import(bytes: &[u8]) -> Imported {
        assert_eq!(recognise(bytes), Some(LogFormat::BlockEvents));
        parse_bytes(
            LogFormat::BlockEvents,
            Path::new("p"),
            bytes,
            ImportOptions::default(),
        )
        .expect("imports")
    }

    #[test]
    fn heads_of_perf_and_of_the_kernel() {
        let who = |head: &[u8]| who_and_when(head).map(|w| (w.at_ns, w.comm, w.tgid, w.is_tgid));
        let comm = |c: &[u8]| Some(Comm::new(c));
        for (head, expected) in [
            (
                &b"     fio 23322 [001]  2426.758552:    "[..],
                (2_426_758_552_000, comm(b"fio"), Some(23322), false),
            ),
            (
                b" Web Content  12/34 [000] 1.000000001: ",
                (1_000_000_001, comm(b"Web Content"), Some(12), true),
            ),
            (
                b" kworker/0:1H-77 [000] d..1. 5.000001: ",
                (5_000_001_000, comm(b"kworker/0:1H"), Some(77), false),
            ),
            (
                b" <...>-77 [000] 5.000001: ",
                (5_000_001_000, None, Some(77), false),
            ),
            (
                b" fio-23322 (  23320) [001] d..1. 5.000001: ",
                (5_000_001_000, comm(b"fio"), Some(23320), true),
            ),
            (
                b" fio-23322 (-------) [001] d..1. 5.000001: ",
                (5_000_001_000, comm(b"fio"), Some(23322), false),
            ),
            (
                b" (sd-pam)-5 [001] d..1. 5.000001: ",
                (5_000_001_000, comm(b"(sd-pam)"), Some(5), false),
            ),
        ] {
            assert_eq!(
                who(head),
                Some(expected),
                "{}",
                String::from_utf8_lossy(head)
            );
        }
    }

    #[test]
    fn zeroes_are_writes_atomic_ones_too_and_failures_keep_their_error() {
        let text =
            b"# tracer: nop\n fio-1 (1) [000] 10.000001: block_rq_issue: 8,0 NS 4194304 () 1000 + 8192 be,0,4 [fio]\n \
            fio-1 (1) [000] 10.000002: block_rq_complete: 8,0 NS () 1000 + 8192 be,0,4 [0]\n \
            fio-1 (1) [000] 10.000003: block_rq_issue: 8,0 WSU 4096 () 64 + 8 none,0,0 [Web Content]\n \
            fio-1 (1) [000] 10.000004: block_rq_complete: 8,0 WSU () 64 + 8 none,0,0 [65531]\n \
            fio-1 (1) [000] 10.000005: block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 [fio]\n \
            fio-1 (1) [000] 10.000006: block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [4294967291]\n";
        let got = import(text);
        let of = |io: &Io| (io.class(), io.op, io.bytes, io.error);
        assert_eq!(
            got.ios().iter().map(of).collect::<Vec<_>>(),
            [
                (Class::Write, Op::WRITE_ZEROES, 4_194_304, Some(0)),
                (Class::Write, Op::WRITE, 4096, Some(5)),
                (Class::Flush, Op::FLUSH, 0, Some(5)),
            ]
        );
        assert!(
            !got.meta.limits.iter().any(|l| l.contains("threads")),
            "{:?}",
            got.meta.limits
        );
    }

    #[test]
    fn unknown_lines_are_counted_and_lost_events_named() {
        let text = b"words in front of a trace\n# heading\n \
            fio 1 [000] 10.000001: block:block_rq_issue: 8,0 R 4096 () 64 + 8 [fio]\n\
            \tffffffff81234 blk_mq_start_request+0x12 ([kernel.kallsyms])\n\
            CPU:1 [LOST 8086 EVENTS]\n\
            rubbish\nsome more words of rubbish\n \
            fio 1 [000] 10.000003: sched:sched_switch: a:1 [120] R ==> b:2 [120]\n \
            fio 1 [000] 10.000009: block:block_rq_complete: 8,0 R () 64 + 8 [0]\n";
        let got = import(text);
        assert_eq!(got.ios().len(), 1);
        assert_eq!(
            got.damage.places.iter().map(|p| p.at).collect::<Vec<_>>(),
            [5, 6, 7],
            "{:?}",
            got.damage
        );
        assert!(got.damage.places[0].why.contains("8086"));
        assert_eq!(
            (got.damage.other_lines, got.damage.other_places[0].at),
            (1, 1)
        );
    }

    #[test]
    fn old_and_new_layouts_of_the_events() {
        let text = b" fio 1 [000] 10.000000: block:block_bio_queue: 8,0 WS 64 + 8 [fio]\n \
            fio 1 [000] 10.000001: block:block_getrq: 8,0 WS 64 + 8 [fio]\n \
            fio 1 [000] 10.000002: block:block_rq_insert: 8,0 WS 4096 () 64 + 8 [fio]\n \
            kworker 9 [000] 10.000010: block:block_rq_issue: 8,0 WS 4096 () 64 + 8 [kworker/0:1H]\n \
            fio 1 [000] 10.000011: sched:sched_switch: whatever\n \
            swapper 0 [000] 10.000110: block:block_rq_complete: 8,0 WS () 64 + 8 [-5]\n \
            smart 5 [000] 10.000200: block:block_rq_issue: 8,0 N 512 (12 00 00 00 24 00) 0 + 0 [smart]\n \
            swapper 0 [000] 10.000300: block:block_rq_complete: 8,0 N (12 00 00 00 24 00) 0 + 0 [0]\n \
            x 5 [000] 10.0003: block:block_rq_issue: 8,0 R 40";
        let got = import(text);
        let ios = got.ios();
        assert_eq!(
            (ios[0].queue_ns, ios[0].device_ns, ios[0].error, ios[0].tgid),
            (Some(9_000), 100_000, Some(5), Some(1))
        );
        assert_eq!(
            ios[0].comm,
            Some(Comm::new(b"fio")),
            "who queued it, not who issued it"
        );
        assert_eq!(ios.len(), 2);
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 9));
    }

    #[test]
    fn a_real_trace_of_fio_pairs_completely() {
        let bytes = fixtures::bytes("perf-script-ns.txt");
        let got = import(&bytes);
        let ios = got.ios();
        let lines = bytes
            .split(|b| *b == b'\n')
            .filter(|l| l.windows(11).any(|w| w == b"rq_complete"))
            .count();
        assert_eq!(
            ios.len() + 1,
            lines,
            "the first completion started before the trace"
        );
        assert!(ios.iter().all(|io| io.queue_ns.is_some()
            && io.bytes == 4096
            && io.comm == Some(Comm::new(b"fio"))));
        assert_eq!(got.damage.count, 0);
    }
}
