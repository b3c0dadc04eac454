//! Formats times of a recording: as time of day, or as seconds since the recording's start.

use iolens_core::model::RecordingMeta;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// How times are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clock {
    /// Seconds since the recording's start.
    Relative,
    /// The time of day in this zone.
    Wall(TimeZone),
}

/// No recording is older (2001-09-09); an earlier time comes from a log without a date.
const MIN_UNIX_NS: i64 = 1_000_000_000 * 1_000_000_000;
/// Default number of decimals of the seconds.
const DECIMALS: usize = 3;

/// RFC 3339 in UTC with as many digits as needed, so that a proposed time can be typed.
pub fn rfc3339(unix_ns: i64) -> String {
    Timestamp::from_nanosecond(unix_ns.into())
        .map_or_else(|_| unix_ns.to_string(), |t| t.to_string())
}

/// Formats the times of one recording, given in nanoseconds since its start.
#[derive(Debug, Clone)]
pub struct Times {
    clock: Clock,
    start_unix_ns: i64,
    /// The date that the reader knows; times of this day are written without it.
    day: Option<Date>,
}

impl Times {
    /// For a recording that started at `start_unix_ns`. The reader knows the date of `first_ns` from a heading made
    /// by [`Times::full`].
    pub fn new(clock: Clock, start_unix_ns: i64, first_ns: i64) -> Times {
        let clock = if start_unix_ns < MIN_UNIX_NS {
            Clock::Relative
        } else {
            clock
        };
        let mut times = Times {
            clock,
            start_unix_ns,
            day: None,
        };
        times.day = times.zoned(first_ns).map(|z| z.date());
        times
    }

    /// For a recording, in UTC, as in documents.
    pub fn utc(meta: &RecordingMeta) -> Times {
        Times::new(Clock::Wall(TimeZone::UTC), meta.start_unix_ns, 0)
    }

    /// Formats times as seconds since the recording's start.
    pub fn relative() -> Times {
        Times::new(Clock::Relative, 0, 0)
    }

    /// Whether instants are seconds since the recording's start.
    pub fn is_relative(&self) -> bool {
        self.clock == Clock::Relative
    }

    /// `08:42:26.123`, with its date if that is not the day that the reader knows; `153.600 s` if relative.
    pub fn instant(&self, at_ns: i64) -> String {
        self.instant_to(at_ns, DECIMALS)
    }

    /// As [`Times::instant`], with this number of decimals.
    pub fn instant_to(&self, at_ns: i64, decimals: usize) -> String {
        self.written(at_ns, self.day, decimals)
    }

    /// `08:42:26.123 to 08:42:27.001`, with dates where the day changes; `153.600 s to 155.000 s` if relative.
    pub fn span(&self, from_ns: i64, to_ns: i64) -> String {
        self.span_to(from_ns, to_ns, DECIMALS)
    }

    /// As [`Times::span`], with this number of decimals.
    pub fn span_to(&self, from_ns: i64, to_ns: i64, decimals: usize) -> String {
        let from = self.instant_to(from_ns, decimals);
        let day_of_from = self.zoned(from_ns).map(|z| z.date());
        let to = self.written(to_ns, day_of_from, decimals);
        format!("{from} to {to}")
    }

    /// `2026-11-24 08:42:26.123 UTC`, for the heading above the others; `153.600 s` if relative.
    pub fn full(&self, at_ns: i64) -> String {
        match self.zoned(at_ns) {
            Some(z) => z.strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string(),
            None => seconds(at_ns, DECIMALS),
        }
    }

    /// The time in a form that `--from` and `--to` accept, independent of the user's time zone:
    /// `2026-11-24T08:42:26.123Z`, or `153.600` if relative.
    pub fn argument(&self, at_ns: i64) -> String {
        match self.zoned(at_ns) {
            Some(z) => format!("{:.DECIMALS$}", z.timestamp()),
            None => format!("{:.DECIMALS$}", at_ns as f64 / 1e9),
        }
    }

    /// RFC 3339 with the offset of the reader's zone, or in UTC if times are relative; `None` if the date is not
    /// known.
    pub fn rfc3339(&self, at_ns: i64) -> Option<String> {
        let unix_ns = self.unix_ns(at_ns)?;
        let timestamp = Timestamp::from_nanosecond(unix_ns.into()).ok()?;
        let offset = self.zoned(at_ns).map_or(Offset::UTC, |z| z.offset());
        if offset == Offset::UTC {
            Some(timestamp.to_string())
        } else {
            Some(timestamp.display_with_offset(offset).to_string())
        }
    }

    /// Nanoseconds since the epoch; `None` if the date is not known.
    pub fn unix_ns(&self, at_ns: i64) -> Option<i64> {
        if self.start_unix_ns < MIN_UNIX_NS {
            return None;
        }
        self.start_unix_ns.checked_add(at_ns)
    }

    /// The instant in the zone of the reader; `None` if instants are relative.
    pub fn zoned(&self, at_ns: i64) -> Option<Zoned> {
        let Clock::Wall(zone) = &self.clock else {
            return None;
        };
        let unix_ns = i128::from(self.start_unix_ns) + i128::from(at_ns);
        let timestamp = Timestamp::from_nanosecond(unix_ns).ok()?;
        Some(timestamp.to_zoned(zone.clone()))
    }

    /// With its date if that is not `known`.
    fn written(&self, at_ns: i64, known: Option<Date>, decimals: usize) -> String {
        let Some(z) = self.zoned(at_ns) else {
            return seconds(at_ns, decimals);
        };
        let time = time_of_day(&z, decimals);
        if Some(z.date()) == known {
            time
        } else {
            format!("{} {time}", z.date())
        }
    }
}

/// `08:42:26.123`; digits that are not shown are truncated, as on clocks.
pub fn time_of_day(z: &Zoned, decimals: usize) -> String {
    let format = match decimals {
        0 => "%H:%M:%S".to_owned(),
        n => format!("%H:%M:%S%.{n}f"),
    };
    z.strftime(&format).to_string()
}

fn seconds(at_ns: i64, decimals: usize) -> String {
    format!("{:.decimals$} s", at_ns as f64 / 1e9)
}

/// Seconds with nanoseconds, without trailing zeros. Since the epoch, a double would lose digits.
pub fn exact_seconds(ns: i64) -> String {
    const SECOND_NS: u64 = 1_000_000_000;
    let sign = if ns < 0 { "-" } else { "" };
    let whole = ns.unsigned_abs() / SECOND_NS;
    let part = ns.unsigned_abs() % SECOND_NS;
    if part == 0 {
        return format!("{sign}{whole}");
    }
    let digits = format!("{part:09}");
    format!("{sign}{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    /// 2026-11-18T23:59:50Z.
    const START: i64 = 1_795_046_390 * S;

    fn wall(zone: TimeZone) -> Times {
        Times::new(Clock::Wall(zone), START, 0)
    }

    #[test]
    fn the_date_is_shown_where_it_changes() {
        let times = wall(TimeZone::UTC);
        assert_eq!(times.full(0), "2026-11-18 23:59:50.000 UTC");
        assert_eq!(times.instant(S / 8), "23:59:50.125");
        assert_eq!(times.instant(11 * S), "2026-11-19 00:00:01.000");
        assert_eq!(times.span(S, 2 * S), "23:59:51.000 to 23:59:52.000");
        assert_eq!(
            times.span(S, 12 * S),
            "23:59:51.000 to 2026-11-19 00:00:02.000"
        );
        assert_eq!(
            times.span(11 * S, 12 * S),
            "2026-11-19 00:00:01.000 to 00:00:02.000",
            "once for both"
        );
        assert_eq!(times.instant_to(S / 8, 0), "23:59:50");
    }

    #[test]
    fn a_window_of_a_later_day_has_that_day_as_its_own() {
        let times = Times::new(Clock::Wall(TimeZone::UTC), START, 20 * S);
        assert_eq!(times.instant(11 * S), "00:00:01.000");
        assert_eq!(times.instant(S), "2026-11-18 23:59:51.000");
    }

    #[test]
    fn times_are_of_the_zone_of_the_reader() {
        let offset = jiff::tz::Offset::from_hours(1).expect("an offset");
        let times = wall(TimeZone::fixed(offset));
        assert_eq!(times.instant(S), "00:59:51.000");
        assert_eq!(times.full(S), "2026-11-19 00:59:51.000 +01");
        assert_eq!(times.argument(S), "2026-11-18T23:59:51.000Z");
    }

    #[test]
    fn documents_have_rfc_3339_with_the_offset_and_exact_seconds() {
        let offset = jiff::tz::Offset::from_hours(1).expect("an offset");
        let local = wall(TimeZone::fixed(offset));
        assert_eq!(
            local.rfc3339(S / 8).as_deref(),
            Some("2026-11-19T00:59:50.125+01:00")
        );
        let utc = wall(TimeZone::UTC);
        assert_eq!(utc.rfc3339(S).as_deref(), Some("2026-11-18T23:59:51Z"));
        assert_eq!(
            utc.unix_ns(1).map(exact_seconds).as_deref(),
            Some("1795046390.000000001")
        );
        assert_eq!(exact_seconds(-S / 4), "-0.25");
        assert_eq!(exact_seconds(7 * S), "7");
        let undated = Times::new(Clock::Wall(TimeZone::UTC), 0, 0);
        assert_eq!(undated.rfc3339(S), None);
        assert_eq!(undated.unix_ns(S), None);
    }

    #[test]
    fn relative_times_are_seconds_since_the_start() {
        let times = Times::new(Clock::Relative, START, 0);
        assert_eq!(times.span(S, 2 * S + S / 2), "1.000 s to 2.500 s");
        assert_eq!(times.full(S), "1.000 s");
        assert_eq!(times.argument(S), "1.000");
    }

    #[test]
    fn a_recording_without_a_date_has_relative_times_only() {
        let times = Times::new(Clock::Wall(TimeZone::UTC), 0, 0);
        assert!(times.is_relative());
        assert_eq!(times.instant(S), "1.000 s");
    }
}
