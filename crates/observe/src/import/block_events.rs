//! Block tracepoints as text: `perf script`, `trace-cmd report` and the kernel's own trace file.
//!
//! `COMM PID [CPU] TIME: block:block_rq_issue: 7,0 R 4096 () 43736 + 8 0x2,0,4 [fio]`

use iolens_core::model::{Comm, DevId, Op};

use super::log::{Epoch, Log};
use super::pairing::{Event, Pairing, Stage, rwbs};
use super::text::{Lines, integer, seconds_ns, words};

/// Whether a line is such an event.
pub(super) fn looks_like_event(line: &[u8]) -> bool {
    split(line).is_some_and(|(_, name, _)| stage(name).is_some())
}

/// Reads a trace.
pub(super) fn parse(log: &mut Log, bytes: &[u8]) {
    let mut pairing = Pairing::default();
    let mut known: Vec<DevId> = Vec::new();
    let mut last_ns = i64::MIN;
    let mut started = false;
    let mut events = 0u64;
    for line in Lines::new(bytes) {
        let Some((head, name, rest)) = split(line.bytes) else {
            // Headings, call chains and other events are no damage; a trace that was cut in a line is.
            if !line.complete && !line.bytes.is_empty() {
                log.damaged(line.number, "cut off");
            }
            continue;
        };
        let Some(stage) = stage(name) else { continue };
        let Some(event) = event(head, rest) else {
            log.damaged(line.number, "a block event that cannot be read");
            continue;
        };
        events += 1;
        started |= stage == Stage::Start || stage == Stage::Queue;
        if event.at_ns < last_ns {
            log.limit("events are not in order of time: some I/Os may not have found their completion");
        }
        last_ns = last_ns.max(event.at_ns);
        if !known.contains(&event.dev) {
            known.push(event.dev);
            log.devices.by_number(event.dev);
        }
        log.ios.extend(pairing.push(stage, &event));
    }
    pairing.finish();
    log.censored += pairing.censored;
    log.epoch = Epoch::Monotonic;
    log.unusable = Some("no I/O was seen from issue to completion; the logs of all processors are wanted together");
    if events > 0 && !started {
        log.limit("the trace holds no block_io_start, block_getrq or block_bio_queue: time in queues is not known");
    }
    log.limit("source counts threads, not processes: their numbers stand in the place of process ids");
    log.limit("source knows no cgroup and no file");
}

/// Head, name of the event and what follows it.
fn split(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let at = line.windows(7).position(|w| &w[1..] == b"block_" && matches!(w[0], b' ' | b':' | b'\t'))? + 1;
    let end = at + line[at..].iter().position(|b| *b == b':' || *b == b' ')?;
    if line.get(end) != Some(&b':') {
        return None;
    }
    let head = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]);
    Some((head, &line[at..end], &line[end + 1..]))
}

fn stage(name: &[u8]) -> Option<Stage> {
    Some(match name {
        b"block_bio_queue" => Stage::Queue,
        b"block_getrq" | b"block_io_start" => Stage::Start,
        // Without an earlier stage insertion is all that is known of the start.
        b"block_rq_insert" => Stage::Queue,
        b"block_bio_backmerge" => Stage::BackMerge,
        b"block_bio_frontmerge" => Stage::FrontMerge,
        b"block_rq_issue" => Stage::Issue,
        b"block_rq_requeue" => Stage::Requeue,
        b"block_rq_complete" | b"block_bio_complete" => Stage::Complete,
        _ => return None,
    })
}

fn event(head: &[u8], rest: &[u8]) -> Option<Event> {
    let (at_ns, comm, tgid) = who_and_when(head)?;
    let mut cells = words(rest).peekable();
    let dev = device(cells.next()?)?;
    let (op, flags) = rwbs(cells.next()?);
    // Requests print their bytes and the command (`4096 ()` or `()`), bios neither.
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
    let error = cells.last().and_then(bracketed_number).unwrap_or(0);
    // A flush has no place: the kernel prints sector 0 or -1 with length 0.
    let sector = if bytes == 0 && op == Op::FLUSH { 0 } else { sector };
    let bytes = if sectors == 0 { printed_bytes.unwrap_or(0) } else { bytes };
    Some(Event { at_ns, dev, sector, bytes, op, flags, tgid, comm, error })
}

/// `[0]`, `[-5]`: the error of a completion. In other events this is the task's name.
fn bracketed_number(word: &[u8]) -> Option<i32> {
    let inner = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let digits = inner.strip_prefix(b"-").unwrap_or(inner);
    i32::try_from(integer(digits)?).ok()
}

fn device(word: &[u8]) -> Option<DevId> {
    let comma = word.iter().position(|b| *b == b',')?;
    let (major, minor) = (integer(&word[..comma])?, integer(&word[comma + 1..])?);
    (major < 1 << 11 && minor < 1 << 20).then(|| DevId::new(major as u32, minor as u32))
}

/// Time, task and its number of `  fio 23322 [001]  2426.758552:` (perf) or `fio-23322 [001] d..1. 2426.758552:` (kernel).
fn who_and_when(head: &[u8]) -> Option<(i64, Option<Comm>, Option<i32>)> {
    let head = head.trim_ascii();
    let (before, time) = head.split_at(head.iter().rposition(|b| *b == b' ' || *b == b'\t')? + 1);
    let at_ns = seconds_ns(time.strip_suffix(b":")?)?;
    // The processor in brackets ends the task's part; some options of perf leave it out.
    let cpu =
        before.iter().rposition(|b| *b == b'[').filter(|i| before[i + 1..].first().is_some_and(u8::is_ascii_digit));
    let task = cpu.map_or(before, |i| &before[..i]).trim_ascii();
    let at = task.iter().rposition(|b| matches!(b, b' ' | b'-' | b'\t'));
    let Some(at) = at else { return Some((at_ns, None, None)) };
    let id = &task[at + 1..];
    let id = id.iter().position(|b| *b == b'/').map_or(id, |i| &id[..i]);
    let name = task[..at].trim_ascii();
    let comm = (!name.is_empty() && name != b"<...>" && name != b":").then(|| Comm::new(name));
    Some((at_ns, comm, integer(id).and_then(|n| i32::try_from(n).ok())))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::super::log::{ImportOptions, Imported, parse_bytes};
    use super::super::recognise::{Kind, recognise};
    use super::*;
    use iolens_core::model::{Io, Observation};
    use std::path::Path;

    fn import(bytes: &[u8]) -> Imported {
        assert_eq!(recognise(bytes), Some(Kind::BlockEvents));
        parse_bytes(Kind::BlockEvents, Path::new("p"), bytes, ImportOptions::default()).expect("imports")
    }

    fn ios(i: &Imported) -> Vec<Io> {
        i.observations.iter().filter_map(|o| if let Observation::Io(io) = o { Some(*io) } else { None }).collect()
    }

    #[test]
    fn heads_of_perf_and_of_the_kernel() {
        let comm = |c: &[u8]| Some(Comm::new(c));
        assert_eq!(
            who_and_when(b"     fio 23322 [001]  2426.758552:    "),
            Some((2_426_758_552_000, comm(b"fio"), Some(23322)))
        );
        assert_eq!(
            who_and_when(b" Web Content  12/34 [000] 1.000000001: "),
            Some((1_000_000_001, comm(b"Web Content"), Some(12)))
        );
        assert_eq!(
            who_and_when(b" kworker/0:1H-77 [000] d..1. 5.000001: "),
            Some((5_000_001_000, comm(b"kworker/0:1H"), Some(77)))
        );
        assert_eq!(who_and_when(b" <...>-77 [000] 5.000001: "), Some((5_000_001_000, None, Some(77))));
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
        let ios = ios(&got);
        assert_eq!(
            (ios[0].queue_ns, ios[0].device_ns, ios[0].error, ios[0].tgid),
            (Some(9_000), 100_000, Some(5), Some(1))
        );
        assert_eq!(ios[0].comm, Some(Comm::new(b"fio")), "who queued it, not who issued it");
        assert_eq!(ios.len(), 2);
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 9));
    }

    #[test]
    fn a_real_trace_of_fio_pairs_completely() {
        let bytes = fixtures::bytes("perf-script-ns.txt");
        let got = import(&bytes);
        let ios = ios(&got);
        let lines = bytes.split(|b| *b == b'\n').filter(|l| l.windows(11).any(|w| w == b"rq_complete")).count();
        assert_eq!(ios.len() + 1, lines, "the first completion's start lies before the trace");
        assert!(ios.iter().all(|io| io.queue_ns.is_some() && io.bytes == 4096 && io.comm == Some(Comm::new(b"fio"))));
        assert_eq!(got.damage.count, 0);
    }
}
