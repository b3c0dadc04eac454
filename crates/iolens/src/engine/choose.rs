//! Resolves a path and a time window to the recordings that they mean: a single recording, or those of a root that
//! cover the time.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use iolens_core::model::{HOUR_NS, MINUTE_NS};
use iolens_core::store::{Recording, Root, StoreError, Stored};
use jiff::Timestamp;

use super::caller::Caller;
use super::error::{QueryError, Result, Stretch, WindowBound};
use super::note::Note;
use super::{Instant, TimeWindow, civil, source, unix_ns, window};

/// A recording and the part of it that was selected.
pub struct Chosen {
    /// Open for reading.
    pub recording: Recording,
    /// The window in this recording. `at` is already resolved, and for a recording of a root no bound lies outside of
    /// it.
    pub window: TimeWindow,
}

/// `--at` shows this much time before and after the moment.
pub const AROUND_NS: i64 = 30_000_000_000;

/// Selects one recording: of a root without a time the newest one. Several consecutive recordings are joined into
/// one.
///
/// # Errors
/// No recording covers the time, or several do that cannot be analysed as one.
pub fn one(path: &Path, asked: &TimeWindow, caller: &Caller) -> Result<Chosen> {
    let Some(found) = in_root(path, asked, caller)? else {
        return plain(path, asked, caller);
    };
    match &found[..] {
        [only] => only.open(caller),
        several => joined(path, several, caller),
    }
}

/// Joins the parts into one recording called `path`.
fn joined(path: &Path, found: &[FoundRecording], caller: &Caller) -> Result<Chosen> {
    let longest = found.iter().max_by_key(|f| f.to_unix_ns - f.from_unix_ns);
    let Some(longest) = longest.map(FoundRecording::part) else {
        return Err(nothing_in(path));
    };
    let recordings = found.len();
    // Sums cannot be joined: they belong to one recording.
    if !found.iter().all(FoundRecording::has_ios) {
        return Err(QueryError::SeveralWithSums {
            recordings,
            longest,
        });
    }
    let mut parts = Vec::new();
    for f in found {
        parts.push((source::open(&f.stored.path, caller)?, f.range()));
    }
    let of_one_source = parts
        .windows(2)
        .all(|pair| pair[0].0.meta().source == pair[1].0.meta().source);
    if !of_one_source {
        return Err(QueryError::SeveralSources {
            recordings,
            longest,
        });
    }
    let first_from_ns = parts.first().map_or(0, |(_, range)| range.start);
    let recording = Recording::joined(path, parts).ok_or_else(|| nothing_in(path))?;
    // The joined recording starts with the first recording and ends with the last part.
    let window = TimeWindow {
        at: None,
        from: (first_from_ns > 0).then_some(Instant::SinceStart(first_from_ns)),
        to: None,
    };
    Ok(Chosen { recording, window })
}

fn nothing_in(path: &Path) -> QueryError {
    QueryError::NothingThen {
        place: path.to_owned(),
        nearest: None,
    }
}

/// All recordings that cover the window, in order of time. If there are several, those that cannot be read are left
/// out with a note.
///
/// # Errors
/// No recording covers the time, or none of those that do can be read.
pub fn all(path: &Path, asked: &TimeWindow, caller: &Caller) -> Result<Vec<Chosen>> {
    let Some(mut found) = in_root(path, asked, caller)? else {
        return Ok(vec![plain(path, asked, caller)?]);
    };
    // A recording that has just started is still empty. Others can answer without it.
    if found.iter().any(|f| !f.range().is_empty()) {
        found.retain(|f| !f.range().is_empty());
    }
    let mut chosen = Vec::new();
    let mut unreadable = Vec::new();
    for f in &found {
        match f.open(caller) {
            Ok(c) => chosen.push(c),
            Err(e) => unreadable.push((&f.stored.path, e)),
        }
    }
    // If none can be read, the last error is returned, and the others become notes.
    let answer = if chosen.is_empty() {
        unreadable.pop().map_or(Ok(chosen), |(_, e)| Err(e))
    } else {
        Ok(chosen)
    };
    for (path, e) in unreadable {
        caller.note(Note::LeftOut {
            recording: path.clone(),
            why: Arc::new(e),
        });
    }
    answer
}

/// The recorded time from the start of the first recording to the end of the last, in Unix time, and the moment `at`,
/// which one recording must cover.
///
/// # Errors
/// No recording can be read, or none covers that moment.
pub fn extent(
    path: &Path,
    at: Option<Instant>,
    caller: &Caller,
) -> Result<(Range<i64>, Option<i64>)> {
    let asked = TimeWindow {
        at,
        ..TimeWindow::default()
    };
    let held = match Root::open(path)? {
        Some(root) => {
            // Fails for a root with several hosts and for a moment that was not recorded.
            if at.is_some() || root.hosts().len() != 1 {
                in_root(path, &asked, caller)?;
            }
            held(&root, caller)
        }
        None => {
            let chosen = plain(path, &asked, caller)?;
            let start_ns = chosen.recording.meta().start_unix_ns;
            let span = start_ns..start_ns.saturating_add(chosen.recording.end_ns());
            vec![span]
        }
    };
    let first_ns = held.iter().map(|h| h.start).min();
    let last_ns = held.iter().map(|h| h.end).max();
    let Some((start_ns, end_ns)) = first_ns.zip(last_ns) else {
        return Err(QueryError::Unreadable(path.to_owned()));
    };
    let settled = civil::settled_over(&asked, || held)?;
    let at_ns = match settled.at {
        Some(Instant::Wall(t)) => Some(unix_ns(t)),
        Some(Instant::SinceStart(ns)) => Some(start_ns.saturating_add(ns)),
        Some(Instant::Civil(_)) | None => None,
    };
    Ok((start_ns..end_ns, at_ns))
}

/// Completes `asked`: without a time it becomes the last `length_ns` before now, or before the end of the newest
/// recording if that is longer ago.
///
/// # Errors
/// No recording can be read.
pub fn or_latest(
    path: &Path,
    asked: &TimeWindow,
    length_ns: i64,
    caller: &Caller,
) -> Result<TimeWindow> {
    if asked.is_named() {
        return Ok(*asked);
    }
    let known = match Root::open(path)? {
        Some(root) => spans(root.recordings(), caller)
            .next()
            .map(|newest| (i64::MIN, newest.end_unix_ns)),
        None => {
            let recording = source::open(path, caller)?;
            let start_unix_ns = recording.meta().start_unix_ns;
            let end_unix_ns = start_unix_ns.saturating_add(recording.end_ns());
            Some((start_unix_ns, end_unix_ns))
        }
    };
    // An empty place has no last minute. The query itself will fail.
    let Some((earliest_unix_ns, end_unix_ns)) = known else {
        return Ok(*asked);
    };
    let now_unix_ns = unix_ns(Timestamp::now());
    let since_now = now_unix_ns.saturating_sub(length_ns);
    let from_unix_ns = if end_unix_ns > since_now {
        since_now
    } else {
        end_unix_ns.saturating_sub(length_ns)
    };
    let from_unix_ns = from_unix_ns.max(earliest_unix_ns);
    Ok(TimeWindow {
        from: Some(Instant::of_unix_ns(from_unix_ns)),
        ..TimeWindow::default()
    })
}

/// The window `asked` over all hosts of a root, in Unix time. Without an end it ends with the newest readable
/// recording; without a start it covers `default_ns`.
///
/// # Errors
/// A bound is not a wall-clock time, or the end is not after the start.
pub fn stretch_of_hosts(root: &Root, asked: &TimeWindow, default_ns: i64) -> Result<Range<i64>> {
    let from_ns = wall_ns(asked.from, WindowBound::From, root.path())?;
    let mut to_ns = wall_ns(asked.to, WindowBound::To, root.path())?;
    if to_ns.is_none() {
        let newest = root.by_host().filter_map(<[Stored]>::last);
        let ends = newest.filter_map(|stored| stored.span_unix_ns().ok());
        to_ns = ends.map(|(_, end_ns)| end_ns).max();
    }
    // If no recording can be read, the start times in their names are all that is known.
    if to_ns.is_none() {
        to_ns = root.recordings().iter().map(|r| r.start_unix_ns).max();
    }
    let to_ns = to_ns.unwrap_or_else(|| unix_ns(Timestamp::now()));
    let from_ns = from_ns.unwrap_or_else(|| to_ns.saturating_sub(default_ns));
    not_empty(from_ns..to_ns)
}

/// A recording outside a root, or one that is given by its own path.
fn plain(path: &Path, asked: &TimeWindow, caller: &Caller) -> Result<Chosen> {
    let recording = source::open(path, caller)?;
    let start_ns = recording.meta().start_unix_ns;
    let span = start_ns..start_ns.saturating_add(recording.end_ns());
    let settled = civil::settled(asked, std::slice::from_ref(&span))?;
    let Some(at) = settled.at else {
        return Ok(Chosen {
            recording,
            window: met_by(&span, settled),
        });
    };
    let at_ns = match at {
        Instant::SinceStart(ns) => ns,
        // Already resolved above.
        Instant::Civil(_) => i64::MIN,
        Instant::Wall(t) => unix_ns(t).saturating_sub(recording.meta().start_unix_ns),
    };
    let end_ns = recording.end_ns();
    if at_ns < 0 || at_ns > end_ns {
        return Err(window::outside(
            &recording,
            WindowBound::At,
            Some(at),
            at_ns,
        ));
    }
    let around = TimeWindow {
        at: None,
        from: bound_within(at_ns - AROUND_NS, end_ns),
        to: bound_within(at_ns + AROUND_NS, end_ns),
    };
    Ok(Chosen {
        recording,
        window: around,
    })
}

/// A window bound at `ns`; `None` if it does not lie strictly inside the recording.
fn bound_within(ns: i64, end_ns: i64) -> Option<Instant> {
    (0 < ns && ns < end_ns).then_some(Instant::SinceStart(ns))
}

/// Clips a wall-clock window that starts before the recording and ends in or after it. Roots do this, too: a page may
/// ask for a margin around the recording, or for the last five minutes of one that is two minutes old.
fn met_by(recorded: &Range<i64>, asked: TimeWindow) -> TimeWindow {
    let Some(Instant::Wall(from)) = asked.from else {
        return asked;
    };
    let ends_after = match asked.to {
        None => true,
        Some(Instant::Wall(to)) => recorded.start < unix_ns(to),
        Some(_) => false,
    };
    let begins_before = unix_ns(from) < recorded.start;
    TimeWindow {
        from: asked.from.filter(|_| !(begins_before && ends_after)),
        ..asked
    }
}

/// A recording of a root, and the part of it that was selected.
#[derive(Clone)]
pub struct FoundRecording {
    /// Where it is.
    pub stored: Stored,
    /// Its start.
    pub start_unix_ns: i64,
    end_unix_ns: i64,
    from_unix_ns: i64,
    to_unix_ns: i64,
}

impl FoundRecording {
    /// The whole recording.
    fn whole(stored: &Stored) -> Result<FoundRecording, StoreError> {
        let (start_unix_ns, end_unix_ns) = stored.span_unix_ns()?;
        Ok(FoundRecording {
            stored: stored.clone(),
            start_unix_ns,
            end_unix_ns,
            from_unix_ns: start_unix_ns,
            to_unix_ns: end_unix_ns,
        })
    }

    /// Moves the end to where the recorder has come, as [`source::open`] does.
    fn with_known_end(mut self, caller: &Caller) -> FoundRecording {
        if let Some(until_unix_ns) = caller.stored_until_unix_ns(self.start_unix_ns) {
            self.end_unix_ns = self.end_unix_ns.max(until_unix_ns);
            self.to_unix_ns = self.end_unix_ns;
        }
        self
    }

    /// The part in nanoseconds since its start.
    pub fn range(&self) -> Range<i64> {
        self.from_unix_ns - self.start_unix_ns..self.to_unix_ns - self.start_unix_ns
    }

    fn open(&self, caller: &Caller) -> Result<Chosen> {
        let recording = source::open(&self.stored.path, caller)?;
        let window = TimeWindow {
            at: None,
            from: self.bound(self.from_unix_ns, self.start_unix_ns),
            to: self.bound(self.to_unix_ns, self.end_unix_ns),
        };
        Ok(Chosen { recording, window })
    }

    /// A window bound at `unix_ns`; `None` if it is the recording's own edge.
    fn bound(&self, unix_ns: i64, edge_unix_ns: i64) -> Option<Instant> {
        let since_start_ns = unix_ns.saturating_sub(self.start_unix_ns);
        (unix_ns != edge_unix_ns).then_some(Instant::SinceStart(since_start_ns))
    }

    /// Distance in nanoseconds between the whole recording and `from_ns..to_ns`, if they do not overlap.
    fn distance_ns(&self, from_ns: i64, to_ns: i64) -> i64 {
        let after_ns = self.start_unix_ns.saturating_sub(to_ns);
        let before_ns = from_ns.saturating_sub(self.end_unix_ns);
        after_ns.max(before_ns)
    }

    /// Whether the part covers all of `from_ns..to_ns`.
    fn holds(&self, from_ns: i64, to_ns: i64) -> bool {
        self.from_unix_ns <= from_ns && to_ns <= self.to_unix_ns
    }

    /// The part inside `from_ns..to_ns`; `Err` returns the recording if they do not overlap.
    fn part_of(self, from_ns: i64, to_ns: i64) -> Result<FoundRecording, FoundRecording> {
        if self.start_unix_ns >= to_ns || self.end_unix_ns <= from_ns {
            return Err(self);
        }
        let from_unix_ns = self.start_unix_ns.max(from_ns);
        let to_unix_ns = self.end_unix_ns.min(to_ns);
        Ok(FoundRecording {
            from_unix_ns,
            to_unix_ns,
            ..self
        })
    }

    /// The part of a copy inside `gap`, which shares no I/O with the recordings around it. A copy with sums is cut at
    /// whole slots of its own time, because sums cannot be divided.
    fn inside(&self, gap: &Range<i64>) -> Option<FoundRecording> {
        let mut from_ns = self.from_unix_ns.max(gap.start);
        let mut to_ns = self.to_unix_ns.min(gap.end);
        if self.stored.path.join("rollup").exists() {
            // Slots are minutes; days are shown with the sums of hours.
            let slot_ns = if to_ns.saturating_sub(from_ns) >= 24 * HOUR_NS {
                HOUR_NS
            } else {
                MINUTE_NS
            };
            if from_ns > self.from_unix_ns {
                let into_slot_ns = (from_ns - self.start_unix_ns) % slot_ns;
                from_ns += (slot_ns - into_slot_ns) % slot_ns;
            }
            if to_ns < self.to_unix_ns {
                to_ns -= (to_ns - self.start_unix_ns) % slot_ns;
            }
        }
        (from_ns < to_ns).then(|| FoundRecording {
            from_unix_ns: from_ns,
            to_unix_ns: to_ns,
            ..self.clone()
        })
    }

    /// Whether single observations are left, or only sums.
    fn has_ios(&self) -> bool {
        ["io", "wal"]
            .iter()
            .any(|table| self.stored.path.join(table).exists())
    }

    fn part(&self) -> Stretch {
        Stretch {
            from_unix_ns: self.from_unix_ns,
            to_unix_ns: self.to_unix_ns,
        }
    }
}

/// The recordings of the root at `path` that cover the time; `None` if it is not a root.
fn in_root(
    path: &Path,
    asked: &TimeWindow,
    caller: &Caller,
) -> Result<Option<Vec<FoundRecording>>> {
    let Some(root) = Root::open(path)? else {
        return Ok(None);
    };
    let settled = civil::settled_over(asked, || held(&root, caller))?;
    let at = wall_ns(settled.at, WindowBound::At, path)?;
    let from = wall_ns(settled.from, WindowBound::From, path)?;
    let to = wall_ns(settled.to, WindowBound::To, path)?;
    let from_ns = at.map(|t| t.saturating_sub(AROUND_NS)).or(from);
    let to_ns = at.map(|t| t.saturating_add(AROUND_NS)).or(to);
    if let (Some(from_ns), Some(to_ns)) = (from_ns, to_ns) {
        not_empty(from_ns..to_ns)?;
    }
    match root.hosts()[..] {
        [] => return Err(QueryError::Empty(path.to_owned())),
        [_] => {}
        ref hosts => {
            return Err(QueryError::ManyHosts {
                place: path.to_owned(),
                hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
                directory: Root::host_directory(hosts[0]),
            });
        }
    }
    if from_ns.is_none() && to_ns.is_none() {
        return newest(&root, caller).map(|found| Some(vec![found]));
    }
    holding(&root, from_ns, to_ns, caller).map(Some)
}

/// Fails if the end is not after the start.
fn not_empty(unix_ns: Range<i64>) -> Result<Range<i64>> {
    if unix_ns.is_empty() {
        return Err(QueryError::EndsBefore(Stretch {
            from_unix_ns: unix_ns.start,
            to_unix_ns: unix_ns.end,
        }));
    }
    Ok(unix_ns)
}

/// A time in a query about a root must be a wall-clock time: its recordings have no common start.
fn wall_ns(instant: Option<Instant>, bound: WindowBound, place: &Path) -> Result<Option<i64>> {
    match instant {
        None => Ok(None),
        Some(Instant::Wall(t)) => Ok(Some(unix_ns(t))),
        Some(Instant::SinceStart(_) | Instant::Civil(_)) => Err(QueryError::NeedsWallClock {
            bound,
            place: place.to_owned(),
        }),
    }
}

/// The time spans of the recordings that can be read, newest first.
fn spans<'a>(
    recordings: &'a [Stored],
    caller: &'a Caller,
) -> impl Iterator<Item = FoundRecording> + 'a {
    recordings
        .iter()
        .rev()
        .filter_map(|stored| match FoundRecording::whole(stored) {
            Ok(found) => Some(found.with_known_end(caller)),
            Err(e) => {
                caller.note(Note::LeftOut {
                    recording: stored.path.clone(),
                    why: Arc::new(e.into()),
                });
                None
            }
        })
}

/// The Unix times that readable recordings cover.
fn held(root: &Root, caller: &Caller) -> Vec<Range<i64>> {
    let found = spans(root.recordings(), caller);
    found.map(|f| f.start_unix_ns..f.end_unix_ns).collect()
}

fn newest(root: &Root, caller: &Caller) -> Result<FoundRecording> {
    let Some(found) = spans(root.recordings(), caller).next() else {
        return Err(QueryError::Unreadable(root.path().to_owned()));
    };
    let recordings = root.recordings().len();
    if recordings > 1 {
        caller.note(Note::NewestOf {
            recordings,
            path: found.stored.path.clone(),
        });
    }
    Ok(found)
}

/// The recordings of one host that overlap `unix_ns`, in order of time; an error for each that cannot be read.
pub fn holding_of_host(
    recordings: &[Stored],
    unix_ns: &Range<i64>,
) -> impl Iterator<Item = Result<FoundRecording, StoreError>> {
    // A recording ends before the next one starts, so most need not be opened.
    let started_before = recordings.partition_point(|r| r.start_unix_ns <= unix_ns.start);
    let recordings = &recordings[started_before.saturating_sub(1)..];
    // The time that the newest recording covers is known only if it can be read, so its error is returned for any
    // window.
    let newest = recordings.last();
    recordings
        .iter()
        .filter(move |r| r.start_unix_ns < unix_ns.end || Some(*r) == newest)
        .filter_map(|stored| match FoundRecording::whole(stored) {
            Ok(found) => found.part_of(unix_ns.start, unix_ns.end).ok().map(Ok),
            Err(e) => Some(Err(e)),
        })
}

/// The recordings that overlap `asked_from_ns..asked_to_ns` (`None`: unbounded), in order of time. Preserved copies
/// stand in for recordings that the size limit has removed. A copy also replaces recordings that have only sums left,
/// if it alone covers all of the time.
fn holding(
    root: &Root,
    asked_from_ns: Option<i64>,
    asked_to_ns: Option<i64>,
    caller: &Caller,
) -> Result<Vec<FoundRecording>> {
    let from_ns = asked_from_ns.unwrap_or(i64::MIN);
    let to_ns = asked_to_ns.unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let mut nearest: Option<FoundRecording> = None;
    for f in spans(root.recordings(), caller) {
        match f.part_of(from_ns, to_ns) {
            Ok(part) => found.push(part),
            Err(other) => {
                let distance_ns = other.distance_ns(from_ns, to_ns);
                let nearest_ns = nearest.as_ref().map(|n| n.distance_ns(from_ns, to_ns));
                if nearest_ns.is_none_or(|ns| distance_ns < ns) {
                    nearest = Some(other);
                }
            }
        }
    }
    found.sort_by_key(|f| f.start_unix_ns);
    stand_in(root, &mut found, asked_from_ns, asked_to_ns, caller);
    if found.is_empty() {
        return Err(QueryError::NothingThen {
            place: root.path().to_owned(),
            nearest: nearest.as_ref().map(FoundRecording::part),
        });
    }
    Ok(found)
}

/// Adds copies for the time that `found`, which is in order of time, does not cover.
fn stand_in(
    root: &Root,
    found: &mut Vec<FoundRecording>,
    asked_from_ns: Option<i64>,
    asked_to_ns: Option<i64>,
    caller: &Caller,
) {
    // Without a bound, copies from before the first recording count only if there is no recording at all.
    let bounds = found
        .first()
        .zip(found.last())
        .map(|(first, last)| (first.from_unix_ns, last.to_unix_ns));
    let first_ns = bounds.map_or(i64::MIN, |(first_ns, _)| first_ns);
    let last_ns = bounds.map_or(i64::MAX, |(_, last_ns)| last_ns);
    let from_ns = asked_from_ns.unwrap_or(first_ns);
    let to_ns = asked_to_ns.unwrap_or(last_ns);
    let sums_only = !found.is_empty() && !found.iter().any(FoundRecording::has_ios);
    // Retention removes the oldest recordings first, so nothing is missing after the start of the newest.
    let missing_to_ns = root
        .recordings()
        .last()
        .map_or(to_ns, |newest| newest.start_unix_ns.min(to_ns));
    let mut free = gaps(found, from_ns, missing_to_ns);
    if free.is_empty() && !sums_only {
        return;
    }
    let [host] = root.hosts()[..] else { return };
    let stored = root.copies(host);
    let mut copies: Vec<FoundRecording> = spans(&stored, caller)
        .filter_map(|f| f.part_of(from_ns, to_ns).ok())
        .collect();
    copies.sort_by_key(|f| f.from_unix_ns - f.to_unix_ns);
    let whole = bounds.and_then(|(from, to)| copies.iter().find(|c| c.holds(from, to)));
    if sums_only && let Some(copy) = whole {
        *found = vec![copy.clone()];
    } else {
        for copy in copies {
            let parts: Vec<FoundRecording> =
                free.iter().filter_map(|gap| copy.inside(gap)).collect();
            found.extend(parts);
            found.sort_by_key(|f| f.from_unix_ns);
            free = gaps(found, from_ns, missing_to_ns);
        }
    }
    for copy in found
        .iter()
        .filter(|f| !root.recordings().contains(&f.stored))
    {
        caller.note(Note::OfCopy {
            from_unix_ns: copy.from_unix_ns,
            to_unix_ns: copy.to_unix_ns,
            path: copy.stored.path.clone(),
        });
    }
}

/// The gaps of `found`, which is in order of time, in `from_ns..to_ns`.
fn gaps(found: &[FoundRecording], from_ns: i64, to_ns: i64) -> Vec<Range<i64>> {
    let mut free = Vec::new();
    let mut at_ns = from_ns;
    for f in found {
        if at_ns < f.from_unix_ns {
            free.push(at_ns..f.from_unix_ns);
        }
        // An I/O that completes exactly at the end belongs to the recording.
        at_ns = at_ns.max(f.to_unix_ns.saturating_add(1));
    }
    if at_ns < to_ns {
        free.push(at_ns..to_ns);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::query_text;
    use iolens_core::model::{DevId, Io, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

    const S: i64 = 1_000_000_000;
    /// 2026-11-18T08:53:20Z.
    const EPOCH: i64 = 1_795_000_000 * S;

    /// A recording from `from_s` to `to_s` after [`EPOCH`] with one I/O in its middle.
    fn record(root: &Path, host: &str, from_s: i64, to_s: i64) {
        let dir = root.join(Root::host_directory(host));
        std::fs::create_dir_all(&dir).expect("makes");
        let start = EPOCH + from_s * S;
        let meta = RecordingMeta::new(Source::Ebpf, start);
        let path = dir.join(Root::recording_directory(start));
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let end = (to_s - from_s) * S;
        writer
            .push_ios(&[Io::new(
                end / 2,
                DevId::new(8, 0),
                Op::READ,
                512,
                Some(5),
                10,
            )])
            .expect("writes");
        writer
            .finish(end, RecorderCost::default())
            .expect("finishes");
    }

    fn wall(s: i64) -> Option<Instant> {
        Some(Instant::Wall(
            Timestamp::from_nanosecond((EPOCH + s * S).into()).expect("in range"),
        ))
    }

    fn window(from: Option<Instant>, to: Option<Instant>) -> TimeWindow {
        TimeWindow { at: None, from, to }
    }

    fn ranges(found: Vec<Chosen>) -> Vec<(i64, i64)> {
        let of =
            |c: &Chosen| super::super::window::resolve(&c.recording, &c.window).expect("a window");
        found
            .iter()
            .map(of)
            .map(|r| (r.start / S, r.end / S))
            .collect()
    }

    fn refusal(found: Result<impl Sized>) -> String {
        let e = found.map(drop).expect_err("refused");
        query_text::error(&e, query_text::Spelling::Flags)
    }

    fn one(path: &Path, asked: &TimeWindow) -> Result<Chosen> {
        super::one(path, asked, &Caller::without_notes())
    }

    fn all(path: &Path, asked: &TimeWindow) -> Result<Vec<Chosen>> {
        super::all(path, asked, &Caller::without_notes())
    }

    #[test]
    fn a_stretch_with_a_margin_means_the_part_that_a_single_recording_has() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 100, 200);
        let path = Root::open(tmp.path()).expect("readable").expect("a root");
        let path = path.recordings()[0].path.clone();
        let part = |from, to| one(&path, &window(wall(from), wall(to))).map(|c| ranges(vec![c]));
        assert_eq!(part(50, 250).expect("found"), [(0, 100)]);
        assert_eq!(part(50, 150).expect("found"), [(0, 50)]);
        let to_its_end = one(&path, &window(wall(50), None)).map(|c| ranges(vec![c]));
        assert_eq!(to_its_end.expect("found"), [(0, 100)]);
        assert_eq!(part(120, 250).expect("found"), [(20, 100)]);
        let apart = one(&path, &window(wall(50), wall(90))).expect("settled");
        assert!(super::super::window::resolve(&apart.recording, &apart.window).is_err());
    }

    #[test]
    fn a_time_chooses_the_recordings_that_hold_it_and_the_part_of_each() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 0, 100);
        record(tmp.path(), "a", 100, 300);
        record(tmp.path(), "a", 400, 500);
        let all = |asked| all(tmp.path(), &asked).map(ranges);
        assert_eq!(all(window(wall(50), wall(60))).expect("found"), [(50, 60)]);
        assert_eq!(
            all(window(wall(50), wall(450))).expect("found"),
            [(50, 100), (0, 200), (0, 50)]
        );
        assert_eq!(
            all(window(wall(250), None)).expect("found"),
            [(150, 200), (0, 100)]
        );
        assert_eq!(
            all(window(None, wall(100))).expect("found"),
            [(0, 100)],
            "half open"
        );
        assert_eq!(
            all(TimeWindow {
                at: wall(200),
                ..Default::default()
            })
            .expect("found"),
            [(70, 130)]
        );
        assert_eq!(
            all(TimeWindow::default()).expect("found"),
            [(0, 100)],
            "the newest"
        );
        let gap = refusal(all(window(wall(310), wall(320))));
        assert!(
            gap.contains("nearest") && gap.contains("--from 2026-11-18T11:08:20Z --to"),
            "{gap}"
        );
    }

    #[test]
    fn the_year_1_is_before_everything_and_the_year_9999_after_it() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 1000, 1100);
        record(&tmp.path().join(Root::SNAPSHOTS), "a", 0, 100);
        let first = Some(Instant::Wall(
            "0001-01-01T00:00:00Z".parse().expect("a time"),
        ));
        let last = Some(Instant::Wall(
            "9999-01-01T00:00:00Z".parse().expect("a time"),
        ));
        for (from, to, expected) in [
            (first, last, vec![(0, 100), (0, 100)]),
            (first, wall(1050), vec![(0, 100), (0, 50)]),
            (wall(1050), last, vec![(50, 100)]),
        ] {
            let found = all(tmp.path(), &window(from, to)).expect("found");
            assert_eq!(ranges(found), expected);
        }
        assert!(refusal(all(tmp.path(), &window(None, first))).contains("nearest"));
        let root = Root::open(tmp.path()).expect("readable").expect("a root");
        let path = root.recordings()[0].path.clone();
        let whole = one(&path, &window(first, last)).expect("found");
        assert_eq!(ranges(vec![whole]), [(0, 100)]);
        let apart = one(&path, &window(last, None)).expect("settled");
        assert!(super::super::window::resolve(&apart.recording, &apart.window).is_err());
    }

    #[test]
    fn a_recording_without_any_time_yet_hides_no_other() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 0, 100);
        record(tmp.path(), "a", 100, 100);
        let since = window(wall(50), None);
        assert_eq!(
            all(tmp.path(), &since).map(ranges).expect("found"),
            [(50, 100)]
        );
    }

    #[test]
    fn copies_stand_in_for_what_the_size_limit_removed_and_nothing_is_counted_twice() {
        let tmp = tempfile::tempdir().expect("a directory");
        let place = |place: &str| tmp.path().join(place);
        record(tmp.path(), "a", 1000, 1100);
        record(tmp.path(), "a", 1300, 1400);
        record(&place(Root::SNAPSHOTS), "a", 0, 100);
        record(&place(Root::FROZEN), "a", 50, 200);
        record(&place(Root::FROZEN), "a", 1050, 1250);
        record(&place(Root::FROZEN), "b", 1200, 1300);
        let host = tmp.path().join("host=a");
        for path in [tmp.path(), &host] {
            let all = |from, to| {
                let found = all(path, &window(wall(from), wall(to))).expect("found");
                let of = |c: &Chosen| {
                    super::super::window::resolve(&c.recording, &c.window).expect("a window")
                };
                let unix = |c: &Chosen| {
                    let start = c.recording.meta().start_unix_ns - EPOCH;
                    let range = of(c);
                    ((start + range.start) / S, (start + range.end) / S)
                };
                found.iter().map(unix).collect::<Vec<_>>()
            };
            assert_eq!(all(60, 90), [(60, 90)], "the longest of those that hold it");
            assert_eq!(all(0, 300), [(0, 50), (50, 200)]);
            assert_eq!(
                all(1020, 1350),
                [(1020, 1100), (1100, 1250), (1300, 1350)],
                "recordings first"
            );
            assert_eq!(all(1060, 1090), [(1060, 1090)]);
        }
        let frozen = place(Root::FROZEN).canonicalize().expect("there");
        let at = |s| {
            let found = in_root(
                tmp.path(),
                &TimeWindow {
                    at: wall(s),
                    ..Default::default()
                },
                &Caller::without_notes(),
            )?;
            Result::Ok(
                found
                    .expect("a root")
                    .iter()
                    .map(|f| f.stored.path.starts_with(&frozen))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            (at(150).expect("held"), at(1075).expect("held")),
            (vec![true], vec![false, true])
        );
        assert_eq!(at(1065).expect("held"), [false]);
        assert!(refusal(at(600)).contains("nearest"));
        let before = window(None, wall(1100));
        assert_eq!(
            ranges(all(tmp.path(), &before).expect("found")),
            [(0, 100)],
            "not what was before all recordings"
        );
        let gone = host.join(Root::recording_directory(EPOCH + 1000 * S));
        std::fs::remove_dir_all(gone.join("io")).expect("removes");
        assert_eq!(
            at(1085).expect("held"),
            [true],
            "of the recording sums are left"
        );
        assert_eq!(
            at(1065).expect("held"),
            [false],
            "the copy does not hold all of it"
        );
    }

    #[test]
    fn copies_with_sums_are_cut_at_whole_minutes() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 1000, 1100);
        record(&tmp.path().join(Root::SNAPSHOTS), "a", 830, 1100);
        let parts = || ranges(all(tmp.path(), &window(wall(800), wall(1100))).expect("found"));
        assert_eq!(parts(), [(0, 170), (0, 100)]);
        let copy = tmp
            .path()
            .join(Root::SNAPSHOTS)
            .join("host=a")
            .join(Root::recording_directory(EPOCH + 830 * S));
        std::fs::create_dir(copy.join("rollup")).expect("makes");
        assert_eq!(parts(), [(0, 120), (0, 100)]);
        assert_eq!(
            ranges(all(tmp.path(), &window(wall(840), wall(850))).expect("found")),
            [(10, 20)],
            "as asked"
        );
    }

    #[test]
    fn what_cannot_be_one_is_refused_with_what_can() {
        let tmp = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(tmp.path().join("host=empty")).expect("makes");
        assert!(
            refusal(one(tmp.path(), &TimeWindow::default())).contains("holds no recording yet")
        );
        record(tmp.path(), "a", 0, 100);
        record(tmp.path(), "a", 100, 300);
        let since_start = refusal(one(tmp.path(), &window(Some(Instant::SinceStart(S)), None)));
        assert!(since_start.contains("wall-clock"), "{since_start}");
        assert!(refusal(one(tmp.path(), &window(wall(9), wall(9)))).contains("not after"));
        record(tmp.path(), "b", 0, 1);
        let hosts = refusal(one(tmp.path(), &TimeWindow::default()));
        assert!(
            hosts.contains("2 hosts (a, b)") && hosts.contains("/host=a"),
            "{hosts}"
        );
        assert!(one(&tmp.path().join("host=b"), &TimeWindow::default()).is_ok());
    }

    #[test]
    fn a_time_over_several_recordings_is_one_recording() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 0, 100);
        record(tmp.path(), "a", 100, 300);
        record(tmp.path(), "a", 400, 500);
        let chosen = one(tmp.path(), &window(wall(40), wall(420))).expect("as one");
        let recording = &chosen.recording;
        assert_eq!(recording.meta().start_unix_ns, EPOCH);
        let ios = recording.ios(0..i64::MAX, iolens_core::store::IoColumns::REQUIRED);
        let done: Vec<i64> = ios
            .flat_map(|b| b.expect("readable"))
            .map(|io| io.done_ns / S)
            .collect();
        assert_eq!(done, [50, 200], "the third one's is after the end");
        let gaps = recording.lost(0..i64::MAX);
        assert_eq!(
            (gaps.len(), gaps[0].from_ns / S, gaps[0].to_ns / S),
            (1, 300, 400)
        );
        assert_eq!(ranges(vec![chosen]), [(40, 420)]);
        let gone = tmp
            .path()
            .join("host=a")
            .join(Root::recording_directory(EPOCH));
        std::fs::remove_dir_all(gone.join("io")).expect("removes");
        let sums = refusal(one(tmp.path(), &window(wall(40), wall(420))));
        assert!(
            sums.contains("left only sums") && sums.contains("--from "),
            "{sums}"
        );
    }

    #[test]
    fn at_shows_the_minute_around_a_moment_of_a_recording() {
        let tmp = tempfile::tempdir().expect("a directory");
        record(tmp.path(), "a", 0, 200);
        let path = tmp
            .path()
            .join(Root::host_directory("a"))
            .join(Root::recording_directory(EPOCH));
        let at = |at| {
            one(
                &path,
                &TimeWindow {
                    at,
                    ..Default::default()
                },
            )
            .map(|c| ranges(vec![c]))
        };
        assert_eq!(at(wall(100)).expect("inside"), [(70, 130)]);
        assert_eq!(
            at(Some(Instant::SinceStart(10 * S))).expect("inside"),
            [(0, 40)]
        );
        assert_eq!(at(wall(190)).expect("inside"), [(160, 200)]);
        let since_start = refusal(at(Some(Instant::SinceStart(201 * S))));
        assert!(
            since_start.contains("--at is 201.000 s") && since_start.contains("0 to 200.000 s")
        );
        let rfc3339 = |s| Timestamp::from_second(EPOCH / S + s).expect("a date");
        for outside in [-1, 201] {
            let said = format!(
                "--at {}: nothing was recorded then; there is {} to {}",
                rfc3339(outside),
                rfc3339(0),
                rfc3339(200)
            );
            assert_eq!(refusal(at(wall(outside))), said);
        }
    }
}
