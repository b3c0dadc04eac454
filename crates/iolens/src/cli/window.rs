//! `--at`, `--from` and `--to`: which part of a recording, or of the recordings of a root.

use std::fmt::Write as _;

use clap::Args;
use iolens_core::model::RecordingMeta;
use jiff::tz::TimeZone;

use crate::present::escape;
use crate::present::times::{Clock, Times};
use crate::units::{Instant, TimeWindow, parse_instant};

/// A part of a recording, as given on the command line.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WindowArgs {
    /// The minute around this moment, from 30 s before to 30 s after it; a time of day is the newest one that is recorded
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    pub at: Option<Instant>,
    /// Start: seconds since the recording's start, or a wall-clock time (2026-11-21T05:48:00Z, 08:42:26, "yesterday 03:12",
    /// -5m, "10 min ago", now)
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true)]
    pub from: Option<Instant>,
    /// End, in the same formats
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true)]
    pub to: Option<Instant>,
}

impl WindowArgs {
    /// The stretch that is meant, its times without a zone in that of `clock`.
    pub fn by(&self, clock: ClockArgs) -> TimeWindow {
        clock.in_zone(TimeWindow {
            at: self.at,
            from: self.from,
            to: self.to,
        })
    }
}

/// The options of a part, as a shell needs them typed, each after a blank; none for all of a recording.
pub fn typed_window(window: &WindowArgs, clock: ClockArgs) -> String {
    let mut out = String::new();
    let times = [
        ("--at", window.at),
        ("--from", window.from),
        ("--to", window.to),
    ];
    for (option, time) in times {
        if let Some(time) = time {
            let _ = write!(out, " {option} {}", escape::shell(&time.to_string()));
        }
    }
    if clock.utc && !out.is_empty() {
        out.push_str(" --utc");
    }
    out
}

/// Which clock times are typed and shown in.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ClockArgs {
    /// Use UTC for times without a zone and for printed times [default: the local time zone]
    #[arg(long)]
    pub utc: bool,
    /// Show seconds since the recording's start instead of wall-clock time
    #[arg(long)]
    pub relative: bool,
}

impl ClockArgs {
    /// The zone of times without one.
    pub fn zone(&self) -> TimeZone {
        if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::system()
        }
    }

    /// The stretch with its times without a zone in this one.
    pub fn in_zone(&self, window: TimeWindow) -> TimeWindow {
        TimeWindow {
            at: window.at.map(|at| self.instant(at)),
            from: window.from.map(|from| self.instant(from)),
            to: window.to.map(|to| self.instant(to)),
        }
    }

    /// An instant with its time in this zone, if it was typed without one.
    pub fn instant(&self, instant: Instant) -> Instant {
        if self.utc { instant.in_utc() } else { instant }
    }

    /// How instants of this recording are shown; the reader knows the date of `first_ns`.
    pub fn times(&self, meta: &RecordingMeta, first_ns: i64) -> Times {
        self.times_since(meta.start_unix_ns, first_ns)
    }

    /// The same of nanoseconds since `start_unix_ns`.
    pub fn times_since(&self, start_unix_ns: i64, first_ns: i64) -> Times {
        Times::new(self.clock(), start_unix_ns, first_ns)
    }

    /// How instants are shown.
    pub fn clock(&self) -> Clock {
        if self.relative {
            Clock::Relative
        } else {
            Clock::Wall(self.zone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_typed_as_it_was_given() {
        let utc = ClockArgs {
            utc: true,
            relative: false,
        };
        assert_eq!(typed_window(&WindowArgs::default(), utc), "");
        let window = WindowArgs {
            at: None,
            from: parse_instant("yesterday 03:12").ok(),
            to: parse_instant("106").ok(),
        };
        assert_eq!(
            typed_window(&window, ClockArgs::default()),
            " --from 'yesterday 03:12:00' --to 106"
        );
        let window = WindowArgs {
            at: parse_instant("14:27:15").ok(),
            ..WindowArgs::default()
        };
        assert_eq!(typed_window(&window, utc), " --at 14:27:15 --utc");
    }
}
