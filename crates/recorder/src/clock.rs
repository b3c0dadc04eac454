//! Watches the clocks: steps of the wall clock and suspends become marks on the time line.

use iolens_core::model::Mark;
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::{boottime_ns, wall_clock_ns};

/// A wall clock that differs from its prediction by more than this was stepped, not slewed.
const STEP_NS: i64 = 100_000_000;

/// Compares the wall clock and the boot clock with the monotonic one.
#[derive(Debug)]
pub struct ClockWatch {
    wall_minus_monotonic_ns: i64,
    suspended_ns: i64,
    /// The wall clock's offset when the current recording began.
    of_recording_ns: i64,
}

impl ClockWatch {
    /// Begins with the clocks as they are now.
    pub fn start() -> ClockWatch {
        let monotonic = monotonic_ns();
        let wall_minus_monotonic_ns = wall_clock_ns() - monotonic;
        ClockWatch {
            wall_minus_monotonic_ns,
            suspended_ns: boottime_ns() - monotonic,
            of_recording_ns: wall_minus_monotonic_ns,
        }
    }

    /// Notes the offset of the wall clock at the start of a recording. Returns whether the clock was set, or the
    /// machine suspended, since the previous recording began.
    pub fn recording_begins(&mut self, wall_minus_monotonic_ns: i64) -> bool {
        let before = std::mem::replace(&mut self.of_recording_ns, wall_minus_monotonic_ns);
        (wall_minus_monotonic_ns - before).abs() > STEP_NS
    }

    /// By how much the wall clock, at the last check, was ahead of the times of the current recording.
    pub fn shift_ns(&self) -> i64 {
        self.wall_minus_monotonic_ns - self.of_recording_ns
    }

    /// Marks for steps of the wall clock and suspends since the last call; `at_ns` is the recording's time now.
    pub fn check(&mut self, at_ns: i64) -> Vec<Mark> {
        let monotonic = monotonic_ns();
        self.compare(
            at_ns,
            wall_clock_ns() - monotonic,
            boottime_ns() - monotonic,
        )
    }

    fn compare(
        &mut self,
        at_ns: i64,
        wall_minus_monotonic_ns: i64,
        suspended_ns: i64,
    ) -> Vec<Mark> {
        let suspended = suspended_ns - self.suspended_ns;
        let stepped = wall_minus_monotonic_ns - self.wall_minus_monotonic_ns - suspended.max(0);
        let mut marks = Vec::new();
        if suspended > STEP_NS {
            let text = format!(
                "the machine was suspended for {:.3} s",
                suspended as f64 / 1e9
            );
            marks.push(Mark {
                at_ns,
                kind: "suspend".to_owned(),
                text,
            });
        }
        if stepped.abs() > STEP_NS {
            let text = format!("the wall clock was set by {:+.3} s", stepped as f64 / 1e9);
            marks.push(Mark {
                at_ns,
                kind: "clock-step".to_owned(),
                text,
            });
        }
        // Slewing (NTP) changes the difference slowly. Follow it, so that only steps are reported.
        self.wall_minus_monotonic_ns = wall_minus_monotonic_ns;
        self.suspended_ns = suspended_ns;
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(marks: &[Mark]) -> Vec<&str> {
        marks.iter().map(|m| m.kind.as_str()).collect()
    }

    #[test]
    fn steps_and_suspends_are_distinguished_and_slewing_is_neither() {
        let mut watch = ClockWatch {
            wall_minus_monotonic_ns: 1_000_000_000_000,
            suspended_ns: 0,
            of_recording_ns: 1_000_000_000_000,
        };
        assert!(watch.compare(1, 1_000_000_050_000, 0).is_empty(), "slew");
        assert_eq!(
            kinds(&watch.compare(2, 1_005_000_050_000, 5_000_000_000)),
            ["suspend"]
        );
        let back = watch.compare(3, 1_001_000_050_000, 5_000_000_000);
        assert_eq!(kinds(&back), ["clock-step"]);
        assert!(back[0].text.contains("-4.000 s"), "{}", back[0].text);
        assert!(
            watch
                .compare(4, 1_001_000_050_000, 5_000_000_000)
                .is_empty(),
            "reported once"
        );
    }

    #[test]
    fn the_shift_is_that_since_the_recording_began_and_a_new_one_has_none() {
        let mut watch = ClockWatch {
            wall_minus_monotonic_ns: 1_000_000_000_000,
            suspended_ns: 0,
            of_recording_ns: 1_000_000_000_000,
        };
        watch.compare(1, 1_005_000_000_000, 5_000_000_000);
        watch.compare(2, 1_155_000_000_000, 5_000_000_000);
        assert_eq!(watch.shift_ns(), 155_000_000_000, "asleep, then set");
        assert!(watch.recording_begins(1_155_000_000_020));
        assert_eq!(watch.shift_ns(), -20);
        assert!(!watch.recording_begins(1_155_000_000_000), "as it was");
        watch.compare(3, 1_100_000_000_000, 5_000_000_000);
        assert_eq!(watch.shift_ns(), -55_000_000_000);
    }
}
