//! Formats numbers, times and names briefly for the screen.

use iolens_core::model::{DevId, find_device};
use jiff::Zoned;
use jiff::tz::TimeZone;

use super::analyst::{Whose, key_of};
use super::history::History;
use crate::engine::rows::group_name;
use crate::present::escape::terminal;
use crate::present::layout::scaled;
use crate::present::times::Clock;
use crate::present::zoom::shown_name;
use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::analysis::waits::Program;

/// A number with two or three digits: `7`, `8.1k`, `312k`, `1.2M`.
pub fn short(value: f64) -> String {
    let (value, unit) = scaled(value, &["", "k", "M", "G"]);
    let is_whole = unit.is_empty() && (value.fract() == 0.0 || value >= 9.95);
    let decimals = usize::from(!is_whole && value < 99.95);
    format!("{value:.decimals$}{unit}")
}

/// A duration with two or three digits: `84 us`, `1.2 ms`, `22 ms`, `8.1 s`.
pub fn short_time(ns: f64) -> String {
    if ns <= 0.0 {
        return "0 s".to_owned();
    }
    let (value, unit) = scaled(ns / 1e3, &["us", "ms", "s"]);
    let decimals = usize::from(value < 9.95);
    format!("{value:.decimals$} {unit}")
}

/// The time of day of an instant, or seconds since the start.
pub fn clock(history: &History, at_ns: i64, decimals: usize) -> String {
    history.times(at_ns).instant_to(at_ns, decimals)
}

/// As [`clock`] with tenths of a second; with the zone if it was requested, and with the date if it is not today.
pub fn moment(history: &History, at_ns: i64) -> String {
    let time = now(history, at_ns);
    let Some(then) = history.times(at_ns).zoned(at_ns) else {
        return time;
    };
    let today = Zoned::now().with_time_zone(then.time_zone().clone());
    if then.date() == today.date() {
        return time;
    }
    format!("{} {time}", then.date())
}

/// A time of today with tenths of a second; marked as UTC if the machine's time zone is another.
pub fn now(history: &History, at_ns: i64) -> String {
    let time = clock(history, at_ns, 1);
    let is_utc = history.clock == Clock::Wall(TimeZone::UTC);
    match history.times(at_ns).zoned(at_ns).filter(|_| is_utc) {
        Some(then) if !is_local(&then) => format!("{time} UTC"),
        _ => time,
    }
}

fn is_local(then: &Zoned) -> bool {
    then.with_time_zone(TimeZone::system()).offset() == then.offset()
}

/// From when on single I/Os are available: older ones were dropped.
pub fn kept_from(history: &History, at_ns: i64) -> String {
    format!(
        "single I/Os are in memory from {} on",
        clock(history, at_ns, 0)
    )
}

/// The name of a device, escaped for the terminal.
pub fn device(history: &History, dev: DevId) -> String {
    let name = find_device(&history.devices, dev).map(|d| d.name.clone());
    terminal(&name.unwrap_or_else(|| dev.to_string())).into_owned()
}

/// The owner of I/Os, escaped for the terminal.
pub fn who(history: &History, who: &Whose, by: GroupBy) -> String {
    if by != GroupBy::File && who.program == Some(Program::OTHERS) {
        return "(others)".to_owned();
    }
    if who.program.is_none() && who.file.is_none() {
        return "(others)".to_owned();
    }
    group(history, key_of(who, by))
}

/// The name of a group, escaped for the terminal.
pub fn group(history: &History, key: GroupKey) -> String {
    let name = group_name(&history.devices, history.names.all(), key);
    terminal(shown_name(key, &name)).into_owned()
}

/// The name of a process, escaped for the terminal.
pub fn process(history: &History, key: &Program) -> String {
    let whole = Whose {
        program: Some(*key),
        file: None,
    };
    who(history, &whole, GroupBy::Process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_have_two_or_three_digits() {
        let numbers = [0.0, 7.0, 7.25, 42.4, 999.4, 8123.0, 312_000.0, 1_240_000.0].map(short);
        assert_eq!(
            numbers,
            ["0", "7", "7.2", "42", "999", "8.1k", "312k", "1.2M"]
        );
        let times = [0.0, 840.0, 84_000.0, 1.2e6, 22.4e6, 999.7e6, 8.1e9].map(short_time);
        assert_eq!(
            times,
            [
                "0 s", "0.8 us", "84 us", "1.2 ms", "22 ms", "1.0 s", "8.1 s"
            ]
        );
    }
}
