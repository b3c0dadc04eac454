//! The log of findings on standard error: text on a terminal, JSON lines otherwise.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// One sentence per line, with a rate limit.
    Text,
}

/// Maximum number of text lines per minute. Further events are counted; they are in the recording anyway.
const MAX_LINES: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);

/// Writes events to standard error.
#[derive(Debug, Default)]
pub struct EventLog {
    format: LogFormat,
    pace: Mutex<Pace>,
}

/// When lines were written, and how many were suppressed since.
#[derive(Debug, Default)]
struct Pace {
    written: VecDeque<Instant>,
    left_out: u64,
}

impl Pace {
    /// The number of lines suppressed before this one; `None` if this one must be suppressed too.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        while let Some(first) = self.written.front() {
            if now.duration_since(*first) < MINUTE {
                break;
            }
            self.written.pop_front();
        }
        if self.written.len() >= MAX_LINES {
            self.left_out += 1;
            return None;
        }
        self.written.push_back(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl EventLog {
    /// In this format.
    pub fn new(format: LogFormat) -> EventLog {
        EventLog {
            format,
            pace: Mutex::default(),
        }
    }

    /// Writes an event in the configured format.
    pub fn write(&self, json: &str, text: impl FnOnce() -> String) {
        if self.format == LogFormat::Json {
            eprintln!("{json}");
            return;
        }
        let admitted = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.admit(Instant::now())
        };
        match admitted {
            None => {}
            Some(0) => eprintln!("{}", text()),
            Some(left_out) => eprintln!("{} ({left_out} events before it not shown)", text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_lines_a_minute_are_written_and_the_others_are_counted() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let first: Vec<_> = (0..10).map(|s| pace.admit(at(s))).collect();
        let admitted = [Some(0); MAX_LINES];
        assert_eq!(first[..MAX_LINES], admitted);
        assert_eq!(first[MAX_LINES..], [None; 4]);
        assert_eq!(pace.admit(at(59)), None);
        assert_eq!(
            pace.admit(at(60)),
            Some(5),
            "the line of the first second is a minute old"
        );
        assert_eq!(pace.admit(at(60)), None);
        assert_eq!(pace.admit(at(61)), Some(1));
    }
}
