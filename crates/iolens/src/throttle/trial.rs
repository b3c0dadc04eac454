//! How a command starts: freely if nothing else uses the disks, else with a small share of the time.

use std::time::Duration;

use iolens_control::{MIN_FOREGROUND_PERCENT, Meter};

/// How long other work is watched for before the command starts. Loading the probes takes much longer.
const WATCHED_BEFORE: Duration = Duration::from_millis(50);

/// The command's first share of the time if other work uses the disks, or cannot be distinguished from its own, so
/// that other work is not delayed before it is measured.
pub const FIRST_SHARE: f64 = 0.1;

/// The time until the first decision, in which the command runs freely until other work is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// No other work has been seen, so the command runs freely.
    Alone,
    /// Other work was seen, or cannot be distinguished: the command has [`FIRST_SHARE`] until the first decision.
    Shared,
}

impl Trial {
    /// What `meter` shows before the command runs: all I/O now is other work.
    pub fn before_start(meter: &Meter) -> Trial {
        let watched = meter
            .events()
            .filter(|events| events.attributed())
            .map(|events| events.watch_foreground(WATCHED_BEFORE));
        match watched {
            // Counters cannot tell the command's own I/O from others'.
            None => Trial::Shared,
            Some(percent) => Trial::with_foreground(percent),
        }
    }

    /// The same while the command runs.
    pub fn look(self, meter: &Meter) -> Trial {
        match (self, meter.events()) {
            (Trial::Alone, Some(events)) => {
                Trial::with_foreground(events.foreground_percent_so_far())
            }
            _ => self,
        }
    }

    fn with_foreground(percent: Option<f64>) -> Trial {
        match percent {
            Some(percent) if percent >= MIN_FOREGROUND_PERCENT => Trial::Shared,
            _ => Trial::Alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_work_that_counts_ends_the_free_start() {
        assert_eq!(Trial::with_foreground(None), Trial::Alone);
        assert_eq!(Trial::with_foreground(Some(4.9)), Trial::Alone);
        assert_eq!(Trial::with_foreground(Some(5.0)), Trial::Shared);
    }
}
