//! Parses series of `/proc/diskstats`: repeated copies of the file, with times between them or at the start of their
//! lines.
//!
//! Each pair of consecutive copies becomes a row of rates per device. Rate times interval is the counters' difference
//! again.

use std::collections::{HashMap, HashSet};

use iolens_core::model::{Class, DAY_NS, DevId, IntervalRates, SECOND_NS};

use super::clock::{DateOrder, Stamp, parse_iso_stamp, parse_stamp};
use super::intervals::{WILD, is_wild, upper_median};
use super::log::{Epoch, Log};
use super::text::{Line, Lines, integer, seconds_ns, words};

/// Major and minor number, then the name.
const HEAD: usize = 3;
/// Fields after the name of a partition up to 2.6.24: I/Os and sectors of reads, then of writes.
const OF_PARTITION: usize = 4;
/// Fields after the name: since 2.6, with discards (4.18), with flushes (5.5).
const READS_AND_WRITES: usize = 11;
const WITH_DISCARDS: usize = 15;
const WITH_FLUSHES: usize = 17;
/// Words of a time at the start of a line: `2026-11-24 11:55:08`.
const MAX_STAMP_WORDS: usize = 2;

/// Whether a line is one of `/proc/diskstats`, optionally with a time at the start.
pub(super) fn looks_like_line(line: &[u8]) -> bool {
    DiskstatsSample::of(line).is_some_and(|sample| sample.counters.is_whole())
}

/// One line.
#[derive(Debug, PartialEq)]
struct DiskstatsSample<'a> {
    /// The time at the start of the line.
    at_ns: Option<DiskstatsInstant>,
    name: &'a [u8],
    number: DevId,
    counters: Counters,
}

/// The counters of a device, in the order of the kernel; counters that an older kernel lacks are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Counters {
    classes: [Option<ClassCounters>; 4],
    io_ticks_ms: Option<u64>,
    queue_ticks_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ClassCounters {
    ios: u64,
    /// Flushes have neither merges nor sectors.
    merges: Option<u64>,
    sectors: Option<u64>,
    ticks_ms: Option<u64>,
}

impl ClassCounters {
    /// The four counters of reads, writes or discards at the beginning of `v`.
    fn of_transfers(v: &[u64]) -> ClassCounters {
        ClassCounters {
            ios: v[0],
            merges: Some(v[1]),
            sectors: Some(v[2]),
            ticks_ms: Some(v[3]),
        }
    }

    /// The two counters of flushes at the beginning of `v`.
    fn of_flushes(v: &[u64]) -> ClassCounters {
        ClassCounters {
            ios: v[0],
            merges: None,
            sectors: None,
            ticks_ms: Some(v[1]),
        }
    }

    /// The two counters of a partition's reads or writes at the beginning of `v`.
    fn of_partition(v: &[u64]) -> ClassCounters {
        ClassCounters {
            ios: v[0],
            merges: None,
            sectors: Some(v[1]),
            ticks_ms: None,
        }
    }
}

/// A time as printed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum DiskstatsInstant {
    Unix(i64),
    TimeOfDay(i64),
    /// Seconds since boot.
    Uptime(i64),
}

impl DiskstatsInstant {
    fn ns(self) -> i64 {
        match self {
            DiskstatsInstant::Unix(ns)
            | DiskstatsInstant::TimeOfDay(ns)
            | DiskstatsInstant::Uptime(ns) => ns,
        }
    }

    /// What it counts from; times of day have an origin of their own.
    fn epoch(self) -> Epoch {
        match self {
            DiskstatsInstant::Unix(_) => Epoch::Unix,
            DiskstatsInstant::TimeOfDay(_) => Epoch::Own,
            DiskstatsInstant::Uptime(_) => Epoch::Monotonic,
        }
    }

    /// A line, or the beginning of one, that is a time and nothing else.
    fn of(text: &[u8]) -> Option<DiskstatsInstant> {
        let text = text.trim_ascii_start();
        let text = text.strip_prefix(b"zzz").unwrap_or(text);
        // OSWatcher writes `zzz ***Tue Nov 24 11:55:08 UTC 2026`, scripts `### DATE`, `--- DATE ---`, `TIME: DATE`.
        let from = text.iter().position(|b| !is_frame(*b))?;
        let to = text.iter().rposition(|b| !is_frame(*b))? + 1;
        let text = &text[from..to];
        let text = text.strip_prefix(b"TIME:").unwrap_or(text).trim_ascii();
        let all: Vec<&[u8]> = words(text).collect();
        match all[..] {
            [one] if is_epoch(one) => seconds_ns(one).map(DiskstatsInstant::Unix),
            // /proc/uptime: seconds since boot, and idle seconds of all CPUs.
            [up, idle] if up.contains(&b'.') && idle.contains(&b'.') => {
                seconds_ns(idle)?;
                seconds_ns(up).map(DiskstatsInstant::Uptime)
            }
            _ => {
                let text = std::str::from_utf8(text).ok()?;
                let iso = parse_iso_stamp(text);
                match iso.or_else(|| parse_stamp(text, DateOrder::MonthFirst))? {
                    Stamp::Unix(ns) => Some(DiskstatsInstant::Unix(ns)),
                    Stamp::TimeOfDay(ns) => Some(DiskstatsInstant::TimeOfDay(ns)),
                }
            }
        }
    }
}

/// Text around a date in a line of its own.
fn is_frame(byte: u8) -> bool {
    matches!(byte, b'*' | b'#' | b'-' | b'=' | b'[' | b']' | b' ')
}

/// Seconds since the epoch with a fraction (`date +%s.%N`); `clock` parses those without one.
fn is_epoch(word: &[u8]) -> bool {
    let seconds = word.split(|b| *b == b'.').next().unwrap_or_default();
    word.contains(&b'.') && (9..=11).contains(&seconds.len()) && seconds_ns(word).is_some()
}

impl<'a> DiskstatsSample<'a> {
    fn of(line: &'a [u8]) -> Option<DiskstatsSample<'a>> {
        let all: Vec<&[u8]> = words(line).collect();
        (0..=MAX_STAMP_WORDS).find_map(|skipped| {
            let (stamp, rest) = all.split_at_checked(skipped)?;
            let at_ns = if stamp.is_empty() {
                None
            } else {
                Some(DiskstatsInstant::of(&stamp.join(&b' '))?)
            };
            let mut sample = DiskstatsSample::of_words(rest)?;
            sample.at_ns = at_ns;
            Some(sample)
        })
    }

    fn of_words(all: &[&'a [u8]]) -> Option<DiskstatsSample<'a>> {
        let (head, rest) = all.split_at_checked(HEAD)?;
        let major = u32::try_from(integer(head[0])?).ok()?;
        let minor = u32::try_from(integer(head[1])?).ok()?;
        let name = head[2];
        let is_name = name.first().is_some_and(u8::is_ascii_alphabetic);
        if !is_name || major >= 1 << 12 || minor >= 1 << 20 {
            return None;
        }
        let values: Option<Vec<u64>> = rest.iter().map(|w| integer(w)).collect();
        Some(DiskstatsSample {
            at_ns: None,
            name,
            number: DevId::new(major, minor),
            counters: Counters::of(&values?)?,
        })
    }
}

impl Counters {
    fn of(v: &[u64]) -> Option<Counters> {
        if v.len() == OF_PARTITION {
            return Some(Counters::of_partition(v));
        }
        if v.len() < READS_AND_WRITES {
            return None;
        }
        let mut classes = [None; 4];
        classes[Class::Read as usize] = Some(ClassCounters::of_transfers(v));
        classes[Class::Write as usize] = Some(ClassCounters::of_transfers(&v[4..]));
        if v.len() >= WITH_DISCARDS {
            classes[Class::Discard as usize] =
                Some(ClassCounters::of_transfers(&v[READS_AND_WRITES..]));
        }
        if v.len() >= WITH_FLUSHES {
            classes[Class::Flush as usize] = Some(ClassCounters::of_flushes(&v[WITH_DISCARDS..]));
        }
        Some(Counters {
            classes,
            io_ticks_ms: Some(v[9]),
            queue_ticks_ms: Some(v[10]),
        })
    }

    fn of_partition(v: &[u64]) -> Counters {
        let mut counters = Counters::default();
        counters.classes[Class::Read as usize] = Some(ClassCounters::of_partition(v));
        counters.classes[Class::Write as usize] = Some(ClassCounters::of_partition(&v[2..]));
        counters
    }

    /// Whether these are more than the four counters of a partition.
    fn is_whole(&self) -> bool {
        self.io_ticks_ms.is_some()
    }

    fn is_unused(&self) -> bool {
        let classes = self.classes.iter().flatten();
        classes.into_iter().all(|c| c.ios == 0)
    }

    /// The difference from `before`; `None` if a counter decreased: the device was replaced or reset, or one of the
    /// lines was truncated.
    fn since(
        &self,
        before: &Counters,
        seconds: f64,
        mut row: IntervalRates,
    ) -> Option<IntervalRates> {
        if self.is_whole() != before.is_whole() {
            return None;
        }
        for (i, (now, then)) in self.classes.iter().zip(&before.classes).enumerate() {
            let (Some(now), Some(then)) = (now, then) else {
                continue;
            };
            let ios = now.ios.checked_sub(then.ios)?;
            let rates = &mut row.classes[i];
            rates.ios_per_s = Some(ios as f64 / seconds);
            if let (Some(now), Some(then)) = (now.merges, then.merges) {
                rates.merges_per_s = Some(now.checked_sub(then)? as f64 / seconds);
            }
            if let (Some(now), Some(then)) = (now.sectors, then.sectors) {
                rates.bytes_per_s = Some(now.checked_sub(then)? as f64 * 512.0 / seconds);
            }
            if let (1.., Some(now), Some(then)) = (ios, now.ticks_ms, then.ticks_ms) {
                let ticks_ms = wrapped(now, then);
                rates.mean_us = Some(f64::from(ticks_ms) * 1000.0 / ios as f64);
            }
        }
        if let (Some(now), Some(then)) = (self.io_ticks_ms, before.io_ticks_ms) {
            let busy_ms = f64::from(wrapped(now, then));
            row.util_percent = Some(busy_ms / seconds / 10.0);
        }
        if let (Some(now), Some(then)) = (self.queue_ticks_ms, before.queue_ticks_ms) {
            let queue_ms = f64::from(wrapped(now, then));
            row.in_flight = Some(queue_ms / seconds / 1000.0);
        }
        Some(row)
    }
}

/// The kernel prints milliseconds in 32 bits, which wrap after 50 days.
fn wrapped(now: u64, before: u64) -> u32 {
    (now as u32).wrapping_sub(before as u32)
}

/// The name of the disk that contains a partition of this name: `sda` of `sda1`, `cciss/c0d0` of `cciss/c0d0p1`. Names
/// without a number at the end are not partitions.
fn disk_of(name: &[u8]) -> Option<&[u8]> {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit());
    let (base, number) = name.split_at(name.len() - digits.count());
    if number.is_empty() {
        return None;
    }
    match base.strip_suffix(b"p") {
        // If a disk's name ends with a number, a letter follows it.
        Some(disk) if disk.last().is_some_and(u8::is_ascii_digit) => Some(disk),
        _ => Some(base),
    }
}

/// A copy of the file.
#[derive(Debug, Default)]
struct Snapshot {
    at: Option<DiskstatsInstant>,
    /// The first line.
    line: u64,
    /// A line that was not understood, perhaps a time, is between the copy before and this one.
    follows_unknown: bool,
    devices: Vec<(DevId, Counters)>,
    /// Its devices; a second line with the same number begins the next copy.
    has: HashMap<DevId, usize>,
}

struct DiskstatsParser<'a> {
    log: &'a mut Log,
    snapshots: Vec<Snapshot>,
    /// The last printed time, which has no copy yet.
    stamp: Option<DiskstatsInstant>,
    /// A line that was not understood is after the last line of a copy.
    is_after_unknown: bool,
    ids: HashMap<(Vec<u8>, DevId), DevId>,
    /// Names of whole disks, as long as the kernel may be older than 2.6.25.
    disks: HashSet<Vec<u8>>,
    /// The kernel is 2.6.25 or newer, whose partitions have all counters.
    has_whole_partitions: bool,
}

/// Reads a series.
pub(super) fn parse(log: &mut Log, lines: &mut Lines<'_>) {
    let mut parser = DiskstatsParser {
        log,
        snapshots: Vec::new(),
        stamp: None,
        is_after_unknown: false,
        ids: HashMap::new(),
        disks: HashSet::new(),
        has_whole_partitions: false,
    };
    while let Some(line) = parser.log.next_line(lines) {
        parser.line(line);
    }
    // Times below their copies: the first copy has none, and after the last one stands another, perhaps damaged.
    let snapshots = &mut parser.snapshots;
    let first_is_undated = snapshots.first().is_some_and(|s| s.at.is_none());
    let first_follows_unknown = snapshots.first().is_some_and(|s| s.follows_unknown);
    let ends_with_damaged_time = parser.is_after_unknown && !first_follows_unknown;
    if first_is_undated && (parser.stamp.is_some() || ends_with_damaged_time) {
        for i in 1..snapshots.len() {
            snapshots[i - 1].at = snapshots[i].at;
        }
        if let Some(s) = snapshots.last_mut() {
            s.at = parser.stamp;
        }
    }
    let snapshots = parser.snapshots;
    place(log, &snapshots);
}

impl DiskstatsParser<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if text.is_empty() {
            return;
        }
        // A last line without a line end may lack digits.
        let sample = DiskstatsSample::of(text).filter(|_| line.complete);
        if let Some(sample) = sample.filter(|sample| self.is_of_the_kernel(sample)) {
            self.note_kernel(&sample);
            return self.sample(line.number, &sample);
        }
        if let Some(at) = DiskstatsInstant::of(text) {
            self.stamp = Some(at);
            return;
        }
        // A line that begins like one of the file, or is between such lines, is a damaged one.
        let mut start = words(text).take(2);
        let begins_as_one = start.all(|w| integer(w).is_some());
        let among_them = words(text).count() > HEAD && !self.snapshots.is_empty();
        self.is_after_unknown |= !begins_as_one;
        if begins_as_one || among_them {
            self.log
                .damaged(line.number, "neither a line of /proc/diskstats nor a time");
        } else {
            self.log.other_line(line.number);
        }
    }

    /// Whether the kernel prints such a line. A line with four counters is a partition's before 2.6.25, or a truncated
    /// one.
    fn is_of_the_kernel(&self, sample: &DiskstatsSample<'_>) -> bool {
        sample.counters.is_whole() || !self.has_whole_partitions && self.is_partition(sample)
    }

    fn is_partition(&self, sample: &DiskstatsSample<'_>) -> bool {
        disk_of(sample.name).is_some_and(|disk| self.disks.contains(disk))
    }

    fn note_kernel(&mut self, sample: &DiskstatsSample<'_>) {
        if self.has_whole_partitions || !sample.counters.is_whole() {
            return;
        }
        let has_discards = sample.counters.classes[Class::Discard as usize].is_some();
        if has_discards || self.is_partition(sample) {
            self.has_whole_partitions = true;
        } else if !self.disks.contains(sample.name) {
            self.disks.insert(sample.name.to_owned());
        }
    }

    fn sample(&mut self, line: u64, sample: &DiskstatsSample<'_>) {
        let key = (sample.name.to_owned(), sample.number);
        let devices = &mut self.log.devices;
        let dev = *self
            .ids
            .entry(key)
            .or_insert_with(|| devices.by_name(sample.name));
        let at = sample.at_ns.or(self.stamp.take());
        let follows_unknown = std::mem::take(&mut self.is_after_unknown);
        let is_next = self
            .snapshots
            .last()
            .is_none_or(|last| last.has.contains_key(&dev) || at.is_some() && at != last.at);
        if is_next {
            self.snapshots.push(Snapshot {
                at,
                line,
                follows_unknown,
                ..Snapshot::default()
            });
        }
        if let Some(last) = self.snapshots.last_mut() {
            last.has.insert(dev, last.devices.len());
            last.devices.push((dev, sample.counters));
        }
    }
}

/// For each copy, the earlier copy at whose time its interval begins. `None` for the first copy, and for a copy with a
/// damaged time, which is not after the last good one.
fn bases(times: &[i64]) -> Vec<Option<usize>> {
    let step_ns = usual_gap_ns(times);
    let mut bases = vec![None; times.len()];
    let mut last_good = 0;
    let mut damaged: Option<usize> = None;
    for (now, now_ns) in times.iter().copied().enumerate().skip(1) {
        if let Some(low) = damaged.take()
            && goes_on_from(times[low], times[last_good], now_ns, step_ns)
        {
            last_good = low;
        }
        if now_ns > times[last_good] {
            bases[now] = Some(last_good);
            last_good = now;
        } else {
            damaged = Some(now);
        }
    }
    bases
}

/// Whether a time continues from the damaged one at `low_ns` and not from the last good one: the clock was set back
/// permanently.
fn goes_on_from(low_ns: i64, good_ns: i64, now_ns: i64, step_ns: Option<i64>) -> bool {
    if now_ns <= low_ns {
        return false;
    }
    if now_ns <= good_ns {
        return true;
    }
    // It is after both: the one at the usual distance is its predecessor.
    let from_low_ns = now_ns.saturating_sub(low_ns);
    let from_good_ns = now_ns.saturating_sub(good_ns);
    step_ns.is_some_and(|step| from_low_ns.abs_diff(step) < from_good_ns.abs_diff(step))
}

/// The median distance of consecutive times, without those to and from a time that goes back.
fn usual_gap_ns(times: &[i64]) -> Option<i64> {
    let mut gaps = Vec::new();
    let mut went_back = false;
    for pair in times.windows(2) {
        let gap_ns = pair[1].saturating_sub(pair[0]);
        if gap_ns > 0 && !went_back {
            gaps.push(gap_ns);
        }
        went_back = gap_ns <= 0;
    }
    upper_median(&mut gaps)
}

/// Rows between each copy and the last good one before it.
fn place(log: &mut Log, snapshots: &[Snapshot]) {
    log.limit("source prints counters: no single I/O, no percentiles, no exact busy time");
    let (mut copies, epoch) = dated_copies(log, snapshots);
    log.epoch = epoch;
    drop_wild(log, &mut copies);
    // Of copies that were left out, the damage says more.
    if copies.len() == snapshots.len() {
        log.unusable =
            Some("it has one copy of /proc/diskstats: rates need two or more, some time apart");
    }
    // As iostat does, devices that never did anything are left out: most machines have many loop and ram devices.
    let all = snapshots.iter().flat_map(|s| &s.devices);
    if all.clone().any(|(_, counters)| !counters.is_whole()) {
        log.limit(
            "partitions of this kernel (before 2.6.25) have numbers of I/Os and bytes only, counted before merges and when they \
             are submitted",
        );
    }
    let active = all.filter(|(_, counters)| !counters.is_unused());
    let used: HashSet<DevId> = active.map(|(dev, _)| *dev).collect();
    let mut resets: u64 = 0;
    let times: Vec<i64> = copies.iter().map(|copy| copy.at_ns).collect();
    let bases = bases(&times);
    for (i, copy) in copies.iter().enumerate().skip(1) {
        let now = copy.snapshot;
        let Some(base) = bases[i] else {
            log.damaged(now.line, "a time that is not after the one before");
            continue;
        };
        let before = copies[base].snapshot;
        let from_ns = times[base];
        let to_ns = times[i];
        let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
        for (dev, counters) in &now.devices {
            let Some(at) = before.has.get(dev).filter(|_| used.contains(dev)) else {
                continue;
            };
            let row = IntervalRates::new(from_ns, to_ns, *dev);
            match counters.since(&before.devices[*at].1, seconds, row) {
                Some(row) => log.rates.push(&row),
                None => resets += 1,
            }
        }
    }
    if resets > 0 {
        log.limit(&format!(
            "{resets} intervals in which a device's counters went back (it was removed, or the machine restarted) were left out"
        ));
    }
}

/// A copy and its time in nanoseconds.
struct DatedCopy<'a> {
    snapshot: &'a Snapshot,
    at_ns: i64,
}

/// The copies with a time, and what the times count from. A copy without one beside others that have one is damage. Times of
/// day are of 1970-01-01 and count from there, as those of iostat do.
fn dated_copies<'a>(log: &mut Log, snapshots: &'a [Snapshot]) -> (Vec<DatedCopy<'a>>, Epoch) {
    let Some(epoch) = usual_epoch(snapshots).filter(|_| !has_one_time_only(snapshots)) else {
        return (assumed_times(log, snapshots), Epoch::Own);
    };
    log.is_undated = epoch == Epoch::Own;
    let mut day_ns = 0i64;
    let mut last_ns = i64::MIN;
    let mut copies = Vec::with_capacity(snapshots.len());
    for snapshot in snapshots {
        let Some(at) = snapshot.at.filter(|at| at.epoch() == epoch) else {
            let why = "a copy without a time that could be read, beside others that have one";
            log.damaged(snapshot.line, why);
            continue;
        };
        let mut at_ns = at.ns();
        if let DiskstatsInstant::TimeOfDay(_) = at {
            if at_ns.saturating_add(day_ns) < last_ns {
                day_ns = day_ns.saturating_add(DAY_NS);
            }
            at_ns = at_ns.saturating_add(day_ns);
        }
        last_ns = at_ns;
        copies.push(DatedCopy { snapshot, at_ns });
    }
    let epoch = if log.is_undated { Epoch::Unix } else { epoch };
    (copies, epoch)
}

/// Leaves out the copies whose times are far from both of their neighbours.
fn drop_wild(log: &mut Log, copies: &mut Vec<DatedCopy<'_>>) {
    let times: Vec<i64> = copies.iter().map(|copy| copy.at_ns).collect();
    let Some(step_ns) = usual_gap_ns(&times) else {
        return;
    };
    let mut good: Vec<DatedCopy<'_>> = Vec::with_capacity(copies.len());
    for (i, copy) in copies.drain(..).enumerate() {
        // The time before is the last one that was not left out.
        let before_ns = good.last().map(|before| before.at_ns);
        let after_ns = times.get(i + 1).copied();
        let is_wild_copy = before_ns
            .zip(after_ns)
            .is_some_and(|(before, after)| is_wild([before, copy.at_ns, after], step_ns));
        if is_wild_copy {
            log.damaged(copy.snapshot.line, WILD);
        } else {
            good.push(copy);
        }
    }
    *copies = good;
}

/// What most times count from; `None` if no copy has a time.
fn usual_epoch(snapshots: &[Snapshot]) -> Option<Epoch> {
    let mut counts = [
        (Epoch::Own, 0usize),
        (Epoch::Monotonic, 0),
        (Epoch::Unix, 0),
    ];
    for at in snapshots.iter().filter_map(|s| s.at) {
        for (epoch, count) in &mut counts {
            *count += usize::from(*epoch == at.epoch());
        }
    }
    let used = counts.into_iter().filter(|(_, count)| *count > 0);
    let (epoch, _) = used.max_by_key(|(_, count)| *count)?;
    Some(epoch)
}

/// Whether one copy alone has a time, and nothing else is between them: a script printed it once for a series without times.
fn has_one_time_only(snapshots: &[Snapshot]) -> bool {
    let dated = snapshots.iter().filter(|s| s.at.is_some());
    let has_unknown = snapshots.iter().skip(1).any(|s| s.follows_unknown);
    dated.count() == 1 && !has_unknown
}

/// The copies of a series without times, one interval apart.
fn assumed_times<'a>(log: &mut Log, snapshots: &'a [Snapshot]) -> Vec<DatedCopy<'a>> {
    let has_lines_between =
        snapshots.len() > 1 && snapshots.iter().skip(1).all(|s| s.follows_unknown);
    let note = if has_lines_between {
        "the lines between the copies could not be read as times: one second between copies is assumed (--interval says otherwise)"
    } else {
        "the series has no time stamps: one second between copies is assumed (--interval says otherwise)"
    };
    let step_ns = log.options.interval_ns.unwrap_or_else(|| {
        log.limit(note);
        SECOND_NS
    });
    let mut copies = Vec::with_capacity(snapshots.len());
    let mut at_ns = 0i64;
    for snapshot in snapshots {
        copies.push(DatedCopy { snapshot, at_ns });
        at_ns = at_ns.saturating_add(step_ns);
    }
    copies
}

#[cfg(test)]
#[path = "diskstats_tests.rs"]
mod tests;
