//! Parses durations, sizes, times and time ranges as users type them.

use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

/// A point in time as the user gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Instant {
    /// Nanoseconds since the recording's start.
    SinceStart(i64),
    /// A wall-clock time.
    Wall(Timestamp),
    /// A time of day, or a date and time, without a zone.
    Civil(CivilInstant),
}

/// A time that needs a zone to be absolute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CivilInstant {
    /// The day, if one was given.
    pub day: Day,
    /// The time of day.
    pub time: Time,
    /// It is UTC, not in the local zone.
    pub utc: bool,
}

/// The day of a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Day {
    /// The latest day on which the time is valid.
    Newest,
    /// This date.
    Date(Date),
    /// This many days before today.
    Ago(i8),
}

/// A time range: each bound as the user gave it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TimeWindow {
    /// The minute around this time; excludes the others.
    pub at: Option<Instant>,
    /// Start; by default that of the recorded data.
    pub from: Option<Instant>,
    /// End; by default that of the recorded data.
    pub to: Option<Instant>,
}

impl TimeWindow {
    /// Whether any time is given.
    pub fn is_named(&self) -> bool {
        self.at.is_some() || self.from.is_some() || self.to.is_some()
    }
}

impl CivilInstant {
    /// Its zone.
    pub fn zone(&self) -> TimeZone {
        if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::system()
        }
    }

    /// The absolute time on `date`. If a clock change makes it missing or ambiguous, a near one.
    pub fn on(&self, date: Date) -> Option<Timestamp> {
        let zoned = date.to_datetime(self.time).to_zoned(self.zone()).ok()?;
        Some(zoned.timestamp())
    }

    /// The absolute time on a given day, as of `now`.
    pub fn named(&self, now: Timestamp) -> Option<Timestamp> {
        match self.day {
            Day::Newest => None,
            Day::Date(date) => self.on(date),
            Day::Ago(days) => {
                let today = now.to_zoned(self.zone()).date();
                self.on(today.checked_sub(Span::new().days(days)).ok()?)
            }
        }
    }

    /// The latest such time at or before `limit`, if no day was given.
    pub fn at_or_before(&self, limit: Timestamp) -> Option<Timestamp> {
        let day = limit.to_zoned(self.zone()).date();
        let same_day = self.on(day).filter(|t| *t <= limit);
        same_day.or_else(|| self.on(day.yesterday().ok()?))
    }

    /// The first such time after `limit`, if no day was given.
    pub fn after(&self, limit: Timestamp) -> Option<Timestamp> {
        let day = limit.to_zoned(self.zone()).date();
        let same_day = self.on(day).filter(|t| *t > limit);
        same_day.or_else(|| self.on(day.tomorrow().ok()?))
    }
}

impl Instant {
    /// The wall-clock time at this number of nanoseconds after the Unix epoch.
    pub fn of_unix_ns(unix_ns: i64) -> Instant {
        // Years 1677 to 2262, which is within the years of a `Timestamp`.
        Instant::Wall(Timestamp::UNIX_EPOCH + SignedDuration::from_nanos(unix_ns))
    }

    /// Replaces a time without a zone by an absolute one: the latest until now.
    pub fn until_now(self) -> Instant {
        let Instant::Civil(civil) = self else {
            return self;
        };
        let now = Timestamp::now();
        let wall = civil.named(now).or_else(|| civil.at_or_before(now));
        wall.map_or(self, Instant::Wall)
    }

    /// With times without a zone in UTC.
    pub fn in_utc(self) -> Instant {
        match self {
            Instant::Civil(civil) => Instant::Civil(CivilInstant { utc: true, ..civil }),
            other => other,
        }
    }
}

/// Parses like [`parse_instant`], and makes times relative to now absolute.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instant::SinceStart(ns) => write!(f, "{}", *ns as f64 / 1e9),
            Instant::Wall(t) => write!(f, "{t}"),
            Instant::Civil(civil) => {
                match civil.day {
                    Day::Newest => {}
                    Day::Date(date) => write!(f, "{date} ")?,
                    Day::Ago(0) => write!(f, "today ")?,
                    Day::Ago(_) => write!(f, "yesterday ")?,
                }
                write!(f, "{}", civil.time)
            }
        }
    }
}

/// Nanoseconds since the Unix epoch. 64 bits cover 1677 to 2262: earlier and later times saturate.
pub fn unix_ns(t: Timestamp) -> i64 {
    let unix_ns = t.as_nanosecond();
    unix_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// `10ms`, `2s`, `1.5s`, `5m`, `1h30m` as nanoseconds.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_duration_ns(s: &str) -> Result<i64, String> {
    const EXPECTED: &str = "expected a duration with unit, such as 10ms, 2s, 5m or 1h";
    if s.parse::<f64>().is_ok() {
        return Err(EXPECTED.to_owned());
    }
    let d: SignedDuration = s.parse().map_err(|_| EXPECTED.to_owned())?;
    let ns = i64::try_from(d.as_nanos()).map_err(|_| format!("{s} is too long"))?;
    if ns <= 0 {
        return Err("expected a duration above 0, such as 10ms".to_owned());
    }
    Ok(ns)
}

/// `512`, `64K`, `1.5M`, `10G`, `2T` as bytes; the letters are powers of 1024, an `iB` or `B` may follow.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_size(s: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a size, such as 512K, 64M or 10G";
    let lower = s.to_ascii_lowercase();
    let short = lower
        .strip_suffix("ib")
        .or_else(|| lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, shift) = match short.char_indices().next_back() {
        Some((i, 'k')) => (&short[..i], 10),
        Some((i, 'm')) => (&short[..i], 20),
        Some((i, 'g')) => (&short[..i], 30),
        Some((i, 't')) => (&short[..i], 40),
        _ => (short, 0),
    };
    let value: f64 = digits.parse().map_err(|_| EXPECTED.to_owned())?;
    let bytes = value * (1u64 << shift) as f64;
    // 2^53: above it a double cannot represent every whole number, and no disk is that large.
    if !bytes.is_finite() || !(0.0..9.0e15).contains(&bytes) {
        return Err(EXPECTED.to_owned());
    }
    Ok(bytes as u64)
}

/// From this number on (2001-09-09), numbers are seconds since the Unix epoch: no recording is 31 years long.
const MIN_EPOCH_S: f64 = 1.0e9;

/// `153.6` (seconds since the recording's start), `1795000000` (seconds since the epoch), `2026-11-21T05:48:00Z`,
/// `2026-11-21 05:48` (local time), `now`, `-5m` or `10 min ago`.
///
/// # Errors
/// A sentence with the expected form.
pub fn parse_instant(s: &str) -> Result<Instant, String> {
    if let Ok(seconds) = s.parse::<f64>() {
        if (MIN_EPOCH_S..9.0e9).contains(&seconds) {
            return epoch(s)
                .map(Instant::Wall)
                .ok_or_else(|| format!("{s} seconds are out of range"));
        }
        // Nanoseconds in an i64 overflow after 292 years.
        return if seconds.is_finite() && seconds.abs() < 9.0e9 {
            Ok(Instant::SinceStart((seconds * 1e9).round() as i64))
        } else {
            Err(format!("{s} seconds are out of range"))
        };
    }
    if let Ok(t) = s.parse::<Timestamp>() {
        return Ok(Instant::Wall(t));
    }
    if let Some(civil) = civil_instant(s) {
        return Ok(Instant::Civil(civil));
    }
    if s.contains("ago")
        && let Some(t) = s
            .parse::<Span>()
            .ok()
            .and_then(|span| Zoned::now().checked_add(span).ok())
    {
        return Ok(Instant::Wall(t.timestamp()));
    }
    if s == "now" {
        return Ok(Instant::Wall(Timestamp::now()));
    }
    if let Some(ns) = s.strip_prefix('-').and_then(|d| parse_duration_ns(d).ok())
        && let Ok(t) = Timestamp::now().checked_sub(SignedDuration::from_nanos(ns))
    {
        return Ok(Instant::Wall(t));
    }
    Err(
        "expected seconds since the recording's start (153.6) or a time (2026-11-21T05:48:00Z, 08:42:26, \
         \"yesterday 03:12\", -5m, \"10 min ago\", now)"
            .to_owned(),
    )
}

/// `2026-11-21 05:48`, `08:42:26`, `today 08:42`, `yesterday 03:12`.
fn civil_instant(s: &str) -> Option<CivilInstant> {
    if let Ok(at) = s.parse::<DateTime>() {
        return Some(CivilInstant {
            day: Day::Date(at.date()),
            time: at.time(),
            utc: false,
        });
    }
    let (day, time) = match s.split_once(' ') {
        None => (Day::Newest, s),
        Some(("today", time)) => (Day::Ago(0), time),
        Some(("yesterday", time)) => (Day::Ago(1), time),
        Some(_) => return None,
    };
    // The parser would accept digits alone as a time, but they are usually a mistake.
    if !time.contains(':') {
        return None;
    }
    let time = time.trim().parse::<Time>().ok()?;
    Some(CivilInstant {
        day,
        time,
        utc: false,
    })
}

/// Seconds since the epoch with nanoseconds, which a double cannot represent.
fn epoch(s: &str) -> Option<Timestamp> {
    let (whole, part) = s.split_once('.').unwrap_or((s, ""));
    let digits: String = part.chars().chain(std::iter::repeat('0')).take(9).collect();
    Timestamp::new(whole.parse().ok()?, digits.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_need_a_unit_and_a_length() {
        assert_eq!(parse_duration_ns("10ms").unwrap(), 10_000_000);
        assert_eq!(parse_duration_ns("1.5s").unwrap(), 1_500_000_000);
        assert_eq!(parse_duration_ns("1h").unwrap(), 3_600_000_000_000);
        for bad in ["", "10", "0", "0s", "-2s", "ten", "10 parsecs", "9e99s"] {
            assert!(parse_duration_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("64K").unwrap(), 65536);
        assert_eq!(parse_size("10GiB").unwrap(), 10 << 30);
        assert_eq!(parse_size("1.5m").unwrap(), 3 << 19);
        assert_eq!(parse_size("512").unwrap(), 512);
        for bad in ["", "K", "-1", "1X", "nan", "inf", "1e99"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_of_day_are_the_newest_and_days_are_counted_from_today() {
        let now: Timestamp = "2026-11-24T08:00:00Z".parse().unwrap();
        let civil = |s: &str| match parse_instant(s).unwrap().in_utc() {
            Instant::Civil(civil) => civil,
            other => panic!("{other:?}"),
        };
        let said = |t: Option<Timestamp>| t.unwrap().to_string();
        let time = civil("08:42:26");
        assert_eq!(time.named(now), None);
        assert_eq!(said(time.at_or_before(now)), "2026-11-23T08:42:26Z");
        assert_eq!(said(time.after(now)), "2026-11-24T08:42:26Z");
        assert_eq!(
            said(civil("07:59").at_or_before(now)),
            "2026-11-24T07:59:00Z"
        );
        assert_eq!(said(civil("07:59").after(now)), "2026-11-25T07:59:00Z");
        assert_eq!(
            said(civil("yesterday 03:12").named(now)),
            "2026-11-23T03:12:00Z"
        );
        assert_eq!(
            said(civil("today 03:12").named(now)),
            "2026-11-24T03:12:00Z"
        );
        assert!(matches!(
            parse_instant("08:42").unwrap().until_now(),
            Instant::Wall(_)
        ));
    }

    #[test]
    fn an_instant_is_written_as_it_is_read() {
        for text in [
            "46",
            "-1.5",
            "153.6",
            "2026-11-21T05:48:00.25Z",
            "08:42:26",
            "today 08:42:26",
            "yesterday 03:12:00",
            "2026-11-21 05:48:00",
        ] {
            let instant = parse_instant(text).unwrap();
            assert_eq!(instant.to_string(), text);
            assert_eq!(parse_instant(&instant.to_string()).unwrap(), instant);
        }
    }

    #[test]
    fn times_that_nanoseconds_do_not_reach_are_the_nearest_that_they_do() {
        for (text, expected_ns) in [
            ("0001-01-01T00:00:00Z", i64::MIN),
            ("1677-09-21T00:12:43Z", i64::MIN),
            ("1969-12-31T23:59:59Z", -1_000_000_000),
            ("2026-11-18T08:53:20.000000001Z", 1_794_992_000_000_000_001),
            ("2262-04-11T23:47:17Z", i64::MAX),
            ("9999-01-01T00:00:00Z", i64::MAX),
        ] {
            assert_eq!(unix_ns(text.parse().unwrap()), expected_ns, "{text}");
        }
        for expected_ns in [i64::MIN, -1, 0, 1_795_000_000_000_000_001, i64::MAX] {
            let Instant::Wall(t) = Instant::of_unix_ns(expected_ns) else {
                panic!()
            };
            assert_eq!(unix_ns(t), expected_ns);
        }
    }

    #[test]
    fn instants_count_from_the_start_or_name_a_time() {
        assert_eq!(
            parse_instant("153.6").unwrap(),
            Instant::SinceStart(153_600_000_000)
        );
        assert!(matches!(
            parse_instant("2026-11-21T05:48:00Z").unwrap(),
            Instant::Wall(_)
        ));
        let Instant::Civil(at) = parse_instant("2026-11-21 05:48").unwrap() else {
            panic!()
        };
        let at = CivilInstant { utc: true, ..at };
        assert_eq!(
            at.named(Timestamp::UNIX_EPOCH).unwrap().to_string(),
            "2026-11-21T05:48:00Z"
        );
        for (text, ago_s) in [("10 min ago", 600), ("-5m", 300)] {
            let before = Timestamp::now();
            let Instant::Wall(t) = parse_instant(text).unwrap() else {
                panic!()
            };
            let ago = SignedDuration::from_secs(ago_s);
            assert!((before - ago..=Timestamp::now() - ago).contains(&t), "{t}");
        }
        let Instant::Wall(t) = parse_instant("1795000000.123456789").unwrap() else {
            panic!()
        };
        assert_eq!(t.as_nanosecond(), 1_795_000_000_123_456_789);
        assert!(matches!(parse_instant("now").unwrap(), Instant::Wall(_)));
        assert_eq!(
            parse_instant("-5").unwrap(),
            Instant::SinceStart(-5_000_000_000)
        );
        for bad in [
            "",
            "yesterday-ish",
            "nan",
            "1e30",
            "10 min",
            "yesterday",
            "yesterday noon",
            "tomorrow 03:12",
            "25:00",
            "-",
            "--5m",
            "-ten",
            "1e9x",
        ] {
            assert!(parse_instant(bad).is_err(), "{bad}");
        }
    }
}
