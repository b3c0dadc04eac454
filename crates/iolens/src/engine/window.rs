//! Resolves the time window of a query in one recording.

use std::ops::Range;

use iolens_core::analysis::math::intervals::union;
use iolens_core::model::{DAY_NS, Io, LossReason, Lost, SECOND_NS};
use iolens_core::store::Recording;

use super::caller::Caller;
use super::error::{QueryError, Result, Stretch, WindowBound};
use super::note::Note;
use super::{Instant, TimeWindow, unix_ns};

/// The window in nanoseconds since the recording's start, half-open.
///
/// # Errors
/// The window is empty or lies outside the recording.
pub fn resolve(recording: &Recording, asked: &TimeWindow) -> Result<Range<i64>> {
    let end_ns = recording.end_ns();
    let from = asked.from.map_or(0, |t| since_start_ns(recording, t));
    let to = asked.to.map_or(end_ns, |t| since_start_ns(recording, t));
    // The order is wrong wherever the recording begins and ends. A beginning that was not given is the recording's.
    let is_before = to < from && asked.from.is_some();
    if asked.to.is_some() && (is_before || to == from) {
        return Err(ends_before(recording, asked, from, to));
    }
    if from < 0 || (from >= end_ns && asked.from.is_some()) {
        return Err(outside(recording, WindowBound::From, asked.from, from));
    }
    if to <= 0 && asked.to.is_some() {
        return Err(outside(recording, WindowBound::To, asked.to, to));
    }
    Ok(from..to.min(end_ns))
}

/// That the end of a window is not after its beginning, in the clock in which both were asked for.
fn ends_before(recording: &Recording, asked: &TimeWindow, from_ns: i64, to_ns: i64) -> QueryError {
    let start_unix_ns = recording.meta().start_unix_ns;
    // A log without a date has no wall clock.
    if let (Some(Instant::Wall(from)), Some(Instant::Wall(to))) = (asked.from, asked.to)
        && start_unix_ns > 0
    {
        return QueryError::EndsBefore(Stretch {
            from_unix_ns: unix_ns(from),
            to_unix_ns: unix_ns(to),
        });
    }
    QueryError::EndsBeforeSinceStart { from_ns, to_ns }
}

fn since_start_ns(recording: &Recording, instant: Instant) -> i64 {
    match instant.until_now() {
        Instant::SinceStart(ns) => ns,
        // Other times of day are resolved already; what is left does not exist in the calendar.
        Instant::Civil(_) => i64::MIN,
        Instant::Wall(t) => unix_ns(t).saturating_sub(recording.meta().start_unix_ns),
    }
}

/// The error for a time outside the recording, in the clock in which it was given.
pub fn outside(
    recording: &Recording,
    bound: WindowBound,
    asked: Option<Instant>,
    at_ns: i64,
) -> QueryError {
    let end_ns = recording.end_ns();
    let start_unix_ns = recording.meta().start_unix_ns;
    // A log without a date has no wall clock.
    if let Some(Instant::Wall(t)) = asked
        && start_unix_ns > 0
    {
        return QueryError::NotRecordedAt {
            bound,
            unix_ns: unix_ns(t),
            recorded: Stretch {
                from_unix_ns: start_unix_ns,
                to_unix_ns: start_unix_ns.saturating_add(end_ns),
            },
        };
    }
    QueryError::Outside {
        bound,
        at_ns,
        end_ns,
    }
}

/// Longer windows are refused: groups of intervals would fill the memory, and such distant times are mostly errors.
const MAX_DAYS: i64 = 400;

/// The part of `range` that is left, for the analyses. They keep state for every minute.
///
/// # Errors
/// It is longer than 400 days, or nothing is left of it.
pub fn for_analysis(
    recording: &Recording,
    range: &Range<i64>,
    caller: &Caller,
) -> Result<Range<i64>> {
    let days = range.end.saturating_sub(range.start) / DAY_NS;
    if days > MAX_DAYS {
        return Err(QueryError::TooManyDays(days));
    }
    let kept = kept_from(recording, range);
    if kept >= range.end && kept > range.start {
        return Err(QueryError::Removed { before_ns: kept });
    }
    if kept > range.start {
        caller.note(Note::RemovedBefore(kept));
    }
    Ok(kept..range.end)
}

/// Where what is left of `range` begins: rates and busy time over what the size limit removed would be too low. Later than its end
/// if that lies between removals.
pub fn kept_from(recording: &Recording, range: &Range<i64>) -> i64 {
    let mut kept_ns = range.start;
    for removed in recording.removed() {
        if removed.from_ns < range.end {
            kept_ns = kept_ns.max(removed.to_ns);
        }
    }
    kept_ns
}

/// The losses of `range`. What the size limit removed is one loss, which also covers the time between two removals.
pub fn losses(recording: &Recording, range: &Range<i64>) -> Vec<Lost> {
    let mut losses = recording.lost(range.clone());
    losses.retain(|l| l.reason != LossReason::Retention);
    for removed in recording.removed() {
        if removed.to_ns >= range.start && removed.from_ns < range.end {
            losses.push(removed);
        }
    }
    losses
}

/// The time in `range` in which no recorder ran, in order and without overlap.
pub fn gaps(recording: &Recording, range: &Range<i64>) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    for lost in recording.lost(range.clone()) {
        if lost.reason == LossReason::NotRecorded && lost.is_unrecorded_time() {
            gaps.push((lost.from_ns, lost.to_ns));
        }
    }
    union(gaps)
}

/// The newest rollups of a recording that is still open are not used for this long: rollups include the losses of a
/// moment before the I/Os of the same time, which are complete a minute later.
pub const UNSETTLED_NS: i64 = 120 * SECOND_NS;

/// Mean number of I/Os per nanosecond, over what is left of a recording.
pub fn ios_per_ns(recording: &Recording) -> f64 {
    let end_ns = recording.end_ns();
    let kept_ns = end_ns - kept_from(recording, &(0..end_ns));
    recording.ios_stored() as f64 / kept_ns.max(1) as f64
}

/// Estimated number of single I/Os in `range`.
pub fn ios_in(recording: &Recording, range: &Range<i64>) -> f64 {
    (range.end - range.start) as f64 * ios_per_ns(recording)
}

/// `range`, extended to include the last instant of the recording if it reaches the end: what completes then was
/// recorded.
pub fn with_last_instant(recording: &Recording, range: &Range<i64>) -> Range<i64> {
    let to_ns = if range.end >= recording.end_ns() {
        i64::MAX
    } else {
        range.end
    };
    range.start..to_ns
}

/// Moves I/Os that complete at the recording's last instant, which half-open windows exclude, one nanosecond earlier.
/// A window that is one nanosecond longer would end with a bin of one nanosecond, and rates of billions in it.
pub fn hold_inside(ios: &mut [Io], end_ns: i64) {
    for io in ios
        .iter_mut()
        .rev()
        .take_while(|io| io.done_ns >= end_ns)
        .filter(|io| io.done_ns == end_ns)
    {
        io.done_ns -= 1;
    }
}

/// An I/O that completes up to this long after the window is still counted as in flight in it.
const IN_FLIGHT_NS: i64 = 30_000_000_000;

/// `range` and the 30 s after it, in which I/Os that were in flight inside it may complete.
pub fn with_in_flight(range: &Range<i64>) -> Range<i64> {
    range.start..range.end.saturating_add(IN_FLIGHT_NS)
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    fn resolve_for_analysis(recording: &Recording, asked: &TimeWindow) -> Result<Range<i64>> {
        for_analysis(
            recording,
            &resolve(recording, asked)?,
            &Caller::without_notes(),
        )
    }
    use iolens_core::model::{DevId, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{IoColumns, RecordingWriter, WriterOptions};

    /// I/Os done at 1 s, 2 s (two of them) and 3 s; the description says that the recording ended at `end_ns`.
    fn recorded(dir: &std::path::Path, end_ns: i64) -> Recording {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(dir, meta, WriterOptions::default()).expect("a recording");
        let ios = [1, 2, 2, 3].map(|s| {
            Io::new(
                s * 1_000_000_000,
                DevId::new(8, 0),
                Op::READ,
                512,
                Some(5),
                10,
            )
        });
        writer.push_ios(&ios).expect("written");
        writer
            .finish(end_ns, RecorderCost::default())
            .expect("finished");
        Recording::open(dir).expect("readable")
    }

    fn done(recording: &Recording, range: Range<i64>) -> Vec<i64> {
        let mut done = Vec::new();
        let range = with_last_instant(recording, &range);
        decode::each_io(
            recording,
            range,
            IoColumns::ALL,
            &Caller::without_notes(),
            |io| {
                assert_eq!(io.total_ns(), 15);
                done.push(io.done_ns);
            },
        )
        .expect("readable");
        done
    }

    #[test]
    fn analyses_begin_where_the_size_limit_left_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let options = WriterOptions {
            keep_bytes: Some(WriterOptions::MIN_KEEP),
            ..WriterOptions::default()
        };
        let mut writer =
            RecordingWriter::create(&path, RecordingMeta::new(Source::Ebpf, 0), options)
                .expect("a recording");
        for i in 0..2_000_000i64 {
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let sector =
                Some(((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24) as i64);
            let io = Io {
                sector,
                ..Io::new(i * 1_000_000, DevId::new(8, 0), Op::READ, 512, Some(5), 10)
            };
            writer.push_ios(&[io]).expect("written");
            if i % 1000 == 0 {
                writer.tick(io.done_ns).expect("written");
            }
        }
        writer
            .finish(2_000_000_000_000, RecorderCost::default())
            .expect("finished");
        let recording = Recording::open(&path).expect("readable");
        let window = |from| TimeWindow {
            from,
            ..TimeWindow::default()
        };
        let range = resolve_for_analysis(&recording, &window(None)).expect("something is left");
        let first = done(&recording, range.clone());
        assert!(
            range.start > 0 && range.end == 2_000_000_000_000,
            "{range:?}"
        );
        assert!(
            first
                .first()
                .is_some_and(|t| (range.start..range.start + 10_000_000).contains(t)),
            "{range:?}"
        );
        let later = resolve_for_analysis(
            &recording,
            &window(Some(Instant::SinceStart(1_999_000_000_000))),
        );
        assert_eq!(later.expect("kept"), 1_999_000_000_000..2_000_000_000_000);
        let gone = TimeWindow {
            to: Some(Instant::SinceStart(1_000_000_000)),
            ..TimeWindow::default()
        };
        let e = resolve_for_analysis(&recording, &gone).expect_err("nothing is left");
        assert!(
            matches!(e, QueryError::Removed { before_ns } if before_ns == range.start),
            "{e}"
        );
    }

    /// Why the recording has no time from `from_s` to `to_s`.
    fn refusal(recording: &Recording, from_s: Option<i64>, to_s: i64) -> QueryError {
        let asked = TimeWindow {
            at: None,
            from: from_s.map(|s| Instant::SinceStart(s * SECOND_NS)),
            to: Some(Instant::SinceStart(to_s * SECOND_NS)),
        };
        resolve(recording, &asked).expect_err("no window")
    }

    #[test]
    fn the_order_of_two_times_is_checked_before_what_was_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let recording = recorded(&dir.path().join("r"), 3 * SECOND_NS);
        for (from_s, to_s) in [(Some(2), 0), (Some(2), -1), (Some(9), 1), (Some(1), 1)] {
            let e = refusal(&recording, from_s, to_s);
            let is_order = matches!(e, QueryError::EndsBeforeSinceStart { .. });
            assert!(is_order, "{from_s:?} to {to_s}: {e}");
        }
        let nothing = refusal(&recording, None, 0);
        assert!(matches!(
            nothing,
            QueryError::EndsBeforeSinceStart {
                from_ns: 0,
                to_ns: 0
            }
        ));
        for (from_s, to_s, outside) in [
            (Some(4), 5, WindowBound::From),
            (Some(-2), 1, WindowBound::From),
            (None, -1, WindowBound::To),
        ] {
            let e = refusal(&recording, from_s, to_s);
            let is_outside = matches!(e, QueryError::Outside { bound, .. } if bound == outside);
            assert!(is_outside, "{from_s:?} to {to_s}: {e}");
        }
    }

    #[test]
    fn what_completes_at_the_last_instant_is_inside() {
        let dir = tempfile::tempdir().expect("a directory");
        let ended = |name: &str, end_ns| recorded(&dir.path().join(name), end_ns);
        let whole = resolve(&ended("a", 3_000_000_000), &TimeWindow::default()).expect("a window");
        assert_eq!(whole, 0..3_000_000_000);
        let times = [1_000_000_000, 2_000_000_000, 2_000_000_000, 2_999_999_999];
        assert_eq!(done(&ended("b", 3_000_000_000), whole.clone()), times);
        assert_eq!(
            done(&ended("c", 2_500_000_000), whole),
            times,
            "the end is not before the last I/O"
        );
        let years = ended("f", 3660 * DAY_NS);
        let refused = resolve_for_analysis(&years, &TimeWindow::default()).expect_err("ten years");
        assert!(
            matches!(refused, QueryError::TooManyDays(3660)),
            "{refused}"
        );
        let part = TimeWindow {
            to: Some(Instant::SinceStart(5_000_000_000)),
            ..TimeWindow::default()
        };
        assert!(resolve_for_analysis(&years, &part).is_ok());
        assert_eq!(
            done(&ended("d", 4_000_000_000), 0..4_000_000_000)[3],
            3_000_000_000
        );
        assert_eq!(
            done(&ended("e", 3_000_000_000), 0..2_000_000_000),
            [1_000_000_000],
            "within it windows are half open"
        );
    }
}
