//! Parses time stamps as tools print them in many languages: groups of digits with separators.

use iolens_core::model::SECOND_NS;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};

/// Which of two small numbers is the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// `11/21/26`.
    MonthFirst,
    /// `21/11/26`.
    DayFirst,
}

/// A stamp: wall-clock time if it has a date, else only a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Nanoseconds since the Unix epoch; local time without a zone is interpreted as UTC.
    Unix(i64),
    /// Nanoseconds since midnight.
    TimeOfDay(i64),
}

/// Valid times of a log, in ns since 1970. Later ones (after 2116) are damaged digits, and adding days and
/// zones could overflow 64 bits.
const TIMES: std::ops::Range<i64> = 0..i64::MAX / 2;

impl Stamp {
    /// The wall-clock time `ns` after 1970; `None` if it is out of range.
    pub fn unix(ns: i64) -> Option<Stamp> {
        TIMES.contains(&ns).then_some(Stamp::Unix(ns))
    }
}

/// Parses a line that contains only a time stamp; `None` for other lines.
pub fn parse_stamp(line: &str, order: DateOrder) -> Option<Stamp> {
    let line = line.trim();
    if line.len() > 80 {
        return None;
    }
    let line = line.strip_prefix("Time:").unwrap_or(line).trim();
    if (9..=11).contains(&line.len()) && line.bytes().all(|b| b.is_ascii_digit()) {
        let seconds: i64 = line.parse().ok()?;
        return Stamp::unix(seconds.checked_mul(SECOND_NS)?);
    }
    if !line
        .split(|c: char| !c.is_ascii_alphabetic())
        .all(may_stand_in_stamp)
    {
        return None;
    }
    let groups = digit_groups(line);
    let pm = [
        ("PM", true),
        ("pm", true),
        ("p.m.", true),
        ("下午", true),
        ("오후", true),
        ("午後", true),
    ]
    .iter()
    .any(|(word, _)| line.contains(word));
    let am = ["AM", "am", "a.m.", "上午", "오전", "午前"]
        .iter()
        .any(|word| line.contains(word));
    let month = english_month(line);
    let n = groups.len();
    if n == 3 && month.is_none() && is_clock(&groups) {
        return time(&groups, am, pm).map(|t| Stamp::TimeOfDay(nanos(t)));
    }
    // With the month as a word: day and year (in either order), then the time.
    if let (Some(month), 5..=6) = (month, n) {
        if is_clock(&groups[2..5]) {
            let date = make_date(groups[1].value, month, groups[0].value)?;
            return zoned(date, time(&groups[2..5], am, pm)?, groups.get(5).copied());
        }
        // `Sat Nov 21 09:20:01 UTC 2026`, as date(1) prints.
        if n == 5 && is_clock(&groups[1..4]) {
            let date = make_date(groups[4].value, month, groups[0].value)?;
            return zoned(date, time(&groups[1..4], am, pm)?, None);
        }
        return None;
    }
    if !(6..=7).contains(&n) || !is_clock(&groups[3..6]) {
        return None;
    }
    zoned(
        parse_date(&groups[..3], order)?,
        time(&groups[3..6], am, pm)?,
        groups.get(6).copied(),
    )
}

/// Parses a cell with a time of day to a fraction of a second (`13:52:01.234`), optionally with a date before it, as in
/// RFC 3339.
pub fn parse_time_cell(word: &str) -> Option<Stamp> {
    if word.contains('T') {
        let at: Timestamp = word.parse().ok()?;
        return Stamp::unix(i64::try_from(at.as_nanosecond()).ok()?);
    }
    let is_clock = word
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
    if !is_clock || word.matches(':').count() != 2 {
        return None;
    }
    let time: Time = word.parse().ok()?;
    Some(Stamp::TimeOfDay(nanos(time)))
}

/// Reads what `date` prints with `-Iseconds`, `-Ins` or `--rfc-3339`, or with the formats `+%F %T.%N` and `+%T.%N`: a zone and
/// a fraction of a second may follow. Local time without a zone is taken for UTC.
pub fn parse_iso_stamp(text: &str) -> Option<Stamp> {
    const DATE_LENGTH: usize = 10;
    const MAX_LENGTH: usize = 40;
    if text.len() > MAX_LENGTH {
        return None;
    }
    let text = text.replace(',', ".");
    let mut start = text.bytes().take(DATE_LENGTH).enumerate();
    let is_dated = text.len() > DATE_LENGTH && start.all(|(i, b)| is_of_iso_date(i, b));
    if !is_dated {
        return parse_time_cell(&text);
    }
    let (date, time) = text.split_at(DATE_LENGTH);
    let time = time.strip_prefix(['T', ' '])?;
    if !time.bytes().all(is_of_iso_time) || time.matches(':').count() < 2 {
        return None;
    }
    let joined = format!("{date}T{time}");
    if time.contains(['+', '-', 'Z']) {
        let at: Timestamp = joined.parse().ok()?;
        return Stamp::unix(i64::try_from(at.as_nanosecond()).ok()?);
    }
    let local: DateTime = joined.parse().ok()?;
    unix(local).map(Stamp::Unix)
}

/// Whether this byte can be at this place of `2026-11-21`.
fn is_of_iso_date(at: usize, byte: u8) -> bool {
    match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    }
}

fn is_of_iso_time(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'+' | b'-' | b'Z')
}

/// Midnight, in ns since 1970, of a line with a date and a zone, as `zoom` prints above rows of a day (`2026-11-21 UTC`), and whether
/// the zone is known: local time of a zone that has only a name is taken for UTC.
pub fn parse_date_line(line: &str) -> Option<(i64, bool)> {
    let (date, zone) = line.split_once(' ')?;
    let is_iso = date.len() == 10 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if !is_iso || zone.len() > 8 {
        return None;
    }
    let midnight_ns = parse_banner_date(date, DateOrder::MonthFirst)?;
    if zone.starts_with(['+', '-']) {
        return Some((midnight_ns - offset_ns(zone)?, true));
    }
    if zone.is_empty() || !zone.bytes().all(|b| b.is_ascii_uppercase()) {
        return None;
    }
    Some((midnight_ns, matches!(zone, "UTC" | "GMT")))
}

/// The offset of a zone from UTC (`+02`, `-0330`, `+05:30`).
fn offset_ns(zone: &str) -> Option<i64> {
    let mut digits = zone[1..].replace(':', "");
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match digits.len() {
        2 => digits.push_str("00"),
        4 => {}
        _ => return None,
    }
    let number: i64 = digits.parse().ok()?;
    let minutes = number / 100 * 60 + number % 100;
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    Some(sign * minutes * 60 * SECOND_NS)
}

/// The same line parsed with the month first and with the day first. Which is right may become clear later in the file.
pub fn parse_both(line: &str) -> Option<[Stamp; 2]> {
    in_both_orders(|order| parse_stamp(line, order))
}

/// The results of `read` with the month first and with the day first. If one is not a date, the other is used for both.
fn in_both_orders<T: Copy>(read: impl Fn(DateOrder) -> Option<T>) -> Option<[T; 2]> {
    let month_first = read(DateOrder::MonthFirst);
    let day_first = read(DateOrder::DayFirst);
    Some([month_first.or(day_first)?, day_first.or(month_first)?])
}

/// The date of a banner (`11/21/26`, `2026-11-21`, `21.11.2026`).
pub fn parse_banner_date(word: &str, order: DateOrder) -> Option<i64> {
    let groups = digit_groups(word);
    if groups.len() != 3 {
        return None;
    }
    unix(parse_date(&groups, order)?.to_datetime(Time::midnight()))
}

/// The same date of a banner, parsed with the month first and with the day first.
pub fn parse_both_banner_dates(word: &str) -> Option<[i64; 2]> {
    in_both_orders(|order| parse_banner_date(word, order))
}

/// Whether this date is only valid with the day first, which decides `05/06/26` elsewhere in the same file.
pub fn day_must_be_first(line: &str) -> bool {
    let groups = digit_groups(line.trim());
    (groups.len() == 3 || groups.len() >= 6)
        && groups[0].digits <= 2
        && (13..=31).contains(&groups[0].value)
}

#[derive(Debug, Clone, Copy)]
struct ClockGroup {
    value: i64,
    digits: usize,
    /// Text before the stamp.
    before: Option<char>,
}

impl ClockGroup {
    /// Whether the text before it can separate the parts of a time of day.
    fn is_part_of_time(&self) -> bool {
        matches!(
            self.before,
            Some(':' | '.' | '時' | '时' | '分' | '시' | '분' | ' ')
        )
    }

    /// Whether the text before it contains more than blanks.
    fn is_marked(&self) -> bool {
        self.before.is_some_and(|c| c != ' ')
    }
}

fn digit_groups(line: &str) -> Vec<ClockGroup> {
    let mut groups: Vec<ClockGroup> = Vec::new();
    let mut previous = None;
    for c in line.chars() {
        match (c.to_digit(10), previous) {
            (Some(d), Some(p)) if char::is_ascii_digit(&p) => {
                if let Some(g) = groups.last_mut() {
                    g.value = g.value.saturating_mul(10).saturating_add(i64::from(d));
                    g.digits += 1;
                }
            }
            (Some(d), before) => groups.push(ClockGroup {
                value: i64::from(d),
                digits: 1,
                before,
            }),
            (None, _) => {}
        }
        previous = Some(c);
        if groups.len() > 8 {
            break;
        }
    }
    groups
}

/// Hours, minutes and seconds with their separators; three numbers separated by blanks are not a time.
fn is_clock(g: &[ClockGroup]) -> bool {
    g.len() == 3
        && g[0].value < 24
        && g[1].value < 60
        && g[2].value < 61
        && g[1].is_part_of_time()
        && (g[1].is_marked() || g[2].is_marked())
}

/// Letters that a time stamp may contain: `T`, AM or PM, a zone, the names of days and months, `h` and `min`. Device
/// names do not match.
fn may_stand_in_stamp(word: &str) -> bool {
    const SHORT: [&str; 8] = ["Time", "h", "min", "s", "am", "pm", "a", "p"];
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let capitals = word.len() <= 5 && word.bytes().all(|b| b.is_ascii_uppercase());
    let day = word
        .get(..3)
        .is_some_and(|start| DAYS.contains(&start.to_ascii_lowercase().as_str()));
    word.is_empty()
        || capitals
        || day
        || word == "m"
        || SHORT.contains(&word)
        || english_month(word).is_some()
}

fn time(g: &[ClockGroup], am: bool, pm: bool) -> Option<Time> {
    let hour = match g[0].value {
        12 if am => 0,
        h if pm && h < 12 => h + 12,
        h => h,
    };
    Time::new(
        i8::try_from(hour).ok()?,
        i8::try_from(g[1].value).ok()?,
        i8::try_from(g[2].value.min(59)).ok()?,
        0,
    )
    .ok()
}

fn nanos(t: Time) -> i64 {
    let seconds = i64::from(t.hour()) * 3600 + i64::from(t.minute()) * 60 + i64::from(t.second());
    seconds * SECOND_NS + i64::from(t.subsec_nanosecond())
}

fn parse_date(g: &[ClockGroup], order: DateOrder) -> Option<Date> {
    let [a, b, c] = [g[0], g[1], g[2]];
    if a.digits == 4 || a.value > 31 {
        return make_date(a.value, b.value, c.value);
    }
    let day_first = match b.before {
        Some('/') => order == DateOrder::DayFirst || a.value > 12,
        _ => b.value <= 12,
    };
    if day_first {
        make_date(c.value, b.value, a.value)
    } else {
        make_date(c.value, a.value, b.value)
    }
}

fn make_date(year: i64, month: i64, day: i64) -> Option<Date> {
    let year = if year < 100 { 2000 + year } else { year };
    Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    )
    .ok()
}

fn english_month(line: &str) -> Option<i64> {
    const NAMES: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    line.split(|c: char| !c.is_ascii_alphabetic())
        .find_map(|word| {
            let start = word.get(..3)?.to_ascii_lowercase();
            NAMES.iter().position(|n| *n == start).map(|i| i as i64 + 1)
        })
}

fn zoned(date: Date, time: Time, zone: Option<ClockGroup>) -> Option<Stamp> {
    let local = unix(date.to_datetime(time))?;
    let offset = match zone {
        Some(z) if z.digits == 4 => {
            let seconds = (z.value / 100 * 60 + z.value % 100) * 60;
            if z.before == Some('-') {
                -seconds
            } else {
                seconds
            }
        }
        Some(_) => return None,
        None => 0,
    };
    Stamp::unix(local - offset * SECOND_NS)
}

fn unix(t: DateTime) -> Option<i64> {
    let ns = t
        .to_zoned(jiff::tz::TimeZone::UTC)
        .ok()?
        .timestamp()
        .as_nanosecond();
    i64::try_from(ns).ok().filter(|ns| TIMES.contains(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: i64 = 1_795_252_801; // 2026-11-21 09:20:01 UTC

    #[test]
    fn a_time_that_no_log_can_have_is_no_stamp() {
        for line in [
            "99999999999",
            "2262-04-11 23:47:16",
            "2262-04-11T23:47:16-9999",
            "9999-12-31 23:59:59",
            "1969-12-31 23:59:59",
        ] {
            assert_eq!(parse_stamp(line, DateOrder::MonthFirst), None, "{line}");
        }
    }

    #[test]
    fn every_language_says_the_same_instant() {
        for line in [
            "11/21/2026 09:20:01 AM",
            "11/21/26 09:20:01",
            "21/11/26 09:20:01",
            "21.11.2026 09:20:01",
            "21-11-2026 09:20:01",
            "2026-11-21 09:20:01",
            "2026-11-21T09:20:01+0000",
            "2026-11-21T10:20:01+0100",
            "2026-11-21T04:20:01-0500",
            "2026年11月21日 09時20分01秒",
            "2026年11月21日 09:20:01",
            "2026/11/21 09:20:01",
            "Saturday 21 November 2026 09:20:01 AM",
            "Sat Nov 21 09:20:01 UTC 2026",
            "Saturday, November 21, 2026 09:20:01 AM UTC",
            "1795252801",
        ] {
            assert_eq!(
                parse_stamp(line, DateOrder::MonthFirst),
                Some(Stamp::Unix(NOON * SECOND_NS)),
                "{line}"
            );
        }
        let evening = Some(Stamp::Unix((NOON + 12 * 3600) * SECOND_NS));
        assert_eq!(
            parse_stamp("11/21/2026 09:20:01 PM", DateOrder::MonthFirst),
            evening
        );
        assert_eq!(
            parse_stamp("Time: 09:20:01 PM", DateOrder::MonthFirst),
            Some(Stamp::TimeOfDay(76_801 * SECOND_NS))
        );
    }

    #[test]
    fn cells_of_tables_have_fractions_of_seconds() {
        let morning_ns = (9 * 3600 + 1201) * SECOND_NS + 7;
        assert_eq!(
            parse_time_cell("09:20:01.000000007"),
            Some(Stamp::TimeOfDay(morning_ns))
        );
        assert_eq!(parse_time_cell("00:00:00"), Some(Stamp::TimeOfDay(0)));
        let quarter = Some(Stamp::Unix(NOON * SECOND_NS + SECOND_NS / 4));
        assert_eq!(parse_time_cell("2026-11-21T09:20:01.25Z"), quarter);
        assert_eq!(parse_time_cell("2026-11-21T10:20:01.25+01:00"), quarter);
        for other in [
            "",
            "12",
            "09:20",
            "09:20:01:02",
            "25:20:01",
            "09:20:01 PM",
            "2026-11-21T09:20:01",
            "2026-11-21",
            "1969-12-31T23:59:59Z",
            "T",
        ] {
            assert_eq!(parse_time_cell(other), None, "{other}");
        }
    }

    #[test]
    fn what_date_prints_has_zones_and_fractions() {
        let whole_ns = NOON * SECOND_NS;
        for (text, fraction_ns) in [
            ("2026-11-21T09:20:01+00:00", 0),
            ("2026-11-21T10:20:01+01:00", 0),
            ("2026-11-21 05:50:01-03:30", 0),
            ("2026-11-21 09:20:01Z", 0),
            ("2026-11-21T10:20:01,123456789+01:00", 123_456_789),
            ("2026-11-21 09:20:01.123456789", 123_456_789),
            ("2026-11-21T09:20:01", 0),
        ] {
            let expected = Some(Stamp::Unix(whole_ns + fraction_ns));
            assert_eq!(parse_iso_stamp(text), expected, "{text}");
        }
        let of_day_ns = (9 * 3600 + 1201) * SECOND_NS;
        assert_eq!(
            parse_iso_stamp("09:20:01.000000007"),
            Some(Stamp::TimeOfDay(of_day_ns + 7))
        );
        for other in [
            "",
            "2026-11-21",
            "2026-11-21 09",
            "2026-11-2X 09:20:01",
            "2026-11-21 09:20:01 PM",
            "2026-13-21 09:20:01",
            "2026-11-21é09:20:01",
        ] {
            assert_eq!(parse_iso_stamp(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_with_a_date_says_its_midnight() {
        const HOUR_NS: i64 = 3600 * SECOND_NS;
        let midnight_ns = (NOON - 9 * 3600 - 1201) * SECOND_NS;
        assert_eq!(parse_date_line("2026-11-21 UTC"), Some((midnight_ns, true)));
        assert_eq!(
            parse_date_line("2026-11-21 +02"),
            Some((midnight_ns - 2 * HOUR_NS, true))
        );
        assert_eq!(
            parse_date_line("2026-11-21 -0330"),
            Some((midnight_ns + 7 * HOUR_NS / 2, true))
        );
        assert_eq!(
            parse_date_line("2026-11-21 CET"),
            Some((midnight_ns, false))
        );
        for other in [
            "",
            "2026-11-21",
            "2026-11-21 ",
            "2026-11-21 sda",
            "2026-11-21 UTC 5",
            "2026-13-21 UTC",
            "2026-11-21 +1",
            "2026-11-21 -",
        ] {
            assert_eq!(parse_date_line(other), None, "{other}");
        }
    }

    #[test]
    fn file_order_resolves_ambiguous_lines() {
        let may = parse_stamp("05/06/26 00:00:00", DateOrder::MonthFirst);
        let june = parse_stamp("05/06/26 00:00:00", DateOrder::DayFirst);
        assert_ne!(may, june);
        assert!(day_must_be_first("21/11/26 09:20:01"));
        assert!(!day_must_be_first("11/21/26 09:20:01"));
    }

    #[test]
    fn other_lines_are_no_stamps() {
        for line in [
            "",
            "sda 1.00 2.00 3.00 4.00 5.00 6.00",
            "avg-cpu:  %user",
            "Linux 6.1.0 (host) 11/21/26 _x86_64_ (2 CPU)",
            "12",
            "99/99/99 99:99:99",
            "loop0 1 2",
            "sda1 2 3 4 5 6",
            "dm-0 10.00 20",
            "md0: 10:20:30",
            "1 2 3",
            "2026 11 21 9 20 1",
        ] {
            assert_eq!(parse_stamp(line, DateOrder::MonthFirst), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_never_panic(line in "\\PC{0,90}", digits in "[0-9:/. -]{0,60}") {
            let _ = parse_stamp(&line, DateOrder::DayFirst);
            let _ = parse_stamp(&digits, DateOrder::MonthFirst);
            let _ = parse_banner_date(&digits, DateOrder::MonthFirst);
            let _ = day_must_be_first(&digits);
            let _ = parse_time_cell(&line);
            let _ = parse_time_cell(&digits);
            let _ = parse_iso_stamp(&line);
            let _ = parse_iso_stamp(&digits);
            let _ = parse_date_line(&line);
            let _ = parse_date_line(&digits);
        }
    }
}
