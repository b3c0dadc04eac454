//! Resolves times of day without a date or zone to the day that the recordings cover.

use std::ops::Range;

use jiff::Timestamp;

use super::error::{QueryError, Result, Stretch};
use super::{CivilInstant, Day, Instant, TimeWindow, unix_ns};

/// `args` with times of day resolved to instants. `--at` and `--from` mean the newest matching time that one of
/// `spans` (Unix time, in nanoseconds) covers; `--to` means the first one after `--from`.
///
/// # Errors
/// No recording covers the time of day.
pub fn settled(args: &TimeWindow, spans: &[Range<i64>]) -> Result<TimeWindow> {
    let now = Timestamp::now();
    let at = match args.at {
        Some(Instant::Civil(civil)) => Some(Instant::Wall(at(civil, spans, now)?)),
        other => other,
    };
    let to_is_open = matches!(args.to, Some(Instant::Civil(to)) if to.day == Day::Newest);
    let limit = match args.to {
        Some(Instant::Wall(to)) => Some(to),
        Some(Instant::Civil(to)) => to.named(now),
        _ => None,
    };
    let from = match args.from {
        Some(Instant::Civil(civil)) => Some(Instant::Wall(newest(civil, spans, limit, now)?)),
        other => other,
    };
    let to = match (args.to, from) {
        // A window such as 23:50 to 00:10 crosses midnight.
        (Some(Instant::Civil(to)), Some(Instant::Wall(from))) if to_is_open => {
            Some(Instant::Wall(to.after(from).ok_or(QueryError::NoSuchTime)?))
        }
        (Some(Instant::Civil(to)), _) => Some(Instant::Wall(end(to, spans, now)?)),
        (other, _) => other,
    };
    Ok(TimeWindow { at, from, to })
}

/// As [`settled`], but computes `spans` only if they are needed.
///
/// # Errors
/// As [`settled`].
pub fn settled_over(
    args: &TimeWindow,
    spans: impl FnOnce() -> Vec<Range<i64>>,
) -> Result<TimeWindow> {
    let given = [args.at, args.from, args.to];
    if given.iter().any(|t| matches!(t, Some(Instant::Civil(_)))) {
        settled(args, &spans())
    } else {
        Ok(*args)
    }
}

/// Resolves `--at`.
fn at(civil: CivilInstant, spans: &[Range<i64>], now: Timestamp) -> Result<Timestamp> {
    if let Some(named) = civil.named(now) {
        return Ok(named);
    }
    let Some(held) = newest_held(civil, spans, None) else {
        let from_ns = spans.iter().map(|s| s.start).min().unwrap_or(0);
        let to_ns = spans.iter().map(|s| s.end).max().unwrap_or(0);
        return Err(QueryError::NoSuchTimeOfDay {
            time: civil.time,
            recorded: Stretch {
                from_unix_ns: from_ns,
                to_unix_ns: to_ns,
            },
        });
    };
    Ok(held)
}

/// Resolves `--to` without `--from`. If no recording covers it, of the last match before and the first match after
/// the newest recording the nearer one is taken: a later end means the end of the recording.
fn end(civil: CivilInstant, spans: &[Range<i64>], now: Timestamp) -> Result<Timestamp> {
    let before = newest(civil, spans, None, now)?;
    let is_certain = civil.named(now).is_some() || newest_held(civil, spans, None).is_some();
    let newest_span = spans.iter().max_by_key(|span| span.end);
    let Some(span) = newest_span.filter(|_| !is_certain) else {
        return Ok(before);
    };
    let end = Timestamp::from_nanosecond(span.end.into()).map_err(|_| QueryError::NoSuchTime)?;
    let after = civil
        .after(end)
        .filter(|after| unix_ns(*after) - span.end < span.start - unix_ns(before));
    Ok(after.unwrap_or(before))
}

/// The newest match before `limit` that a recording covers, else the newest one before the end of all recordings.
fn newest(
    civil: CivilInstant,
    spans: &[Range<i64>],
    limit: Option<Timestamp>,
    now: Timestamp,
) -> Result<Timestamp> {
    if let Some(named) = civil.named(now) {
        return Ok(named);
    }
    if let Some(held) = newest_held(civil, spans, limit) {
        return Ok(held);
    }
    let end_ns = spans.iter().map(|s| s.end).max().unwrap_or(0);
    let end = limit.map_or(end_ns, |t| unix_ns(t).min(end_ns));
    let end = Timestamp::from_nanosecond(end.into()).map_err(|_| QueryError::NoSuchTime)?;
    civil.at_or_before(end).ok_or(QueryError::NoSuchTime)
}

/// The newest match before `limit` that one of `spans` covers.
fn newest_held(
    civil: CivilInstant,
    spans: &[Range<i64>],
    limit: Option<Timestamp>,
) -> Option<Timestamp> {
    let limit_ns = limit.map_or(i64::MAX, |t| unix_ns(t).saturating_sub(1));
    let mut newest = None;
    for span in spans {
        // A span longer than a day always contains a match. In a shorter one, the last match before its end may
        // precede it.
        let end = Timestamp::from_nanosecond(span.end.min(limit_ns).into()).ok()?;
        let candidate = civil.at_or_before(end)?;
        if unix_ns(candidate) >= span.start {
            newest = newest.max(Some(candidate));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parse_instant;

    const S: i64 = 1_000_000_000;

    fn at_ns(s: &str) -> i64 {
        unix_ns(s.parse().expect("a time"))
    }

    fn civil(s: &str) -> Option<Instant> {
        Some(parse_instant(s).expect("a time").in_utc())
    }

    fn said_of(t: Option<Instant>) -> String {
        match t {
            Some(Instant::Wall(t)) => t.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn spans() -> [Range<i64>; 2] {
        [
            at_ns("2026-11-20T22:00:00Z")..at_ns("2026-11-21T06:00:00Z"),
            at_ns("2026-11-21T23:00:00Z")..at_ns("2026-11-22T05:00:00Z"),
        ]
    }

    #[test]
    fn a_time_of_day_is_the_newest_that_is_recorded() {
        let at = |s| {
            let args = TimeWindow {
                at: civil(s),
                ..TimeWindow::default()
            };
            settled(&args, &spans()).map(|args| said_of(args.at))
        };
        assert_eq!(at("03:12").expect("held"), "2026-11-22T03:12:00Z");
        assert_eq!(at("22:30").expect("held"), "2026-11-20T22:30:00Z");
        assert_eq!(at("05:30").expect("held"), "2026-11-21T05:30:00Z");
        let refused = at("12:00").expect_err("never");
        let QueryError::NoSuchTimeOfDay { recorded, .. } = refused else {
            panic!("{refused}")
        };
        assert_eq!(recorded.from_unix_ns, at_ns("2026-11-20T22:00:00Z"));
        assert_eq!(recorded.to_unix_ns, at_ns("2026-11-22T05:00:00Z"));
    }

    #[test]
    fn a_range_may_go_over_midnight() {
        let range = |from, to| {
            let args = TimeWindow { at: None, from, to };
            let args = settled(&args, &spans()).expect("held");
            (said_of(args.from), said_of(args.to))
        };
        assert_eq!(
            range(civil("23:50"), civil("00:10")),
            ("2026-11-21T23:50:00Z".into(), "2026-11-22T00:10:00Z".into())
        );
        assert_eq!(
            range(civil("04:00"), civil("09:00")),
            ("2026-11-22T04:00:00Z".into(), "2026-11-22T09:00:00Z".into()),
            "it may end after all recordings"
        );
        let until = |to| {
            let args = TimeWindow {
                to: civil(to),
                ..TimeWindow::default()
            };
            said_of(settled(&args, &spans()).expect("settled").to)
        };
        assert_eq!(until("06:30"), "2026-11-22T06:30:00Z", "soon after the end");
        assert_eq!(until("21:00"), "2026-11-21T21:00:00Z", "soon before it");
        assert_eq!(until("05:30"), "2026-11-21T05:30:00Z", "recorded");
        let to = Instant::Wall("2026-11-21T04:00:00Z".parse().expect("a time"));
        assert_eq!(range(civil("03:12"), Some(to)).0, "2026-11-21T03:12:00Z");
    }

    #[test]
    fn spans_are_asked_for_only_where_a_zone_is_missing() {
        let args = TimeWindow {
            from: Some(Instant::SinceStart(S)),
            ..TimeWindow::default()
        };
        let same = settled_over(&args, || panic!("not needed")).expect("settled");
        assert_eq!(same.from, args.from);
    }
}
