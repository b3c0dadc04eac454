//! What the kernel reads ahead of a program: it comes late only if the program gets there before it does.
//!
//! A player that needs the next part of its file every 60 ms does not notice that a read took 30 ms instead of 5. The
//! stream itself shows how much time there was: the next part is requested when the program reaches the one before it.
//! If that part was already complete, it could have completed later by the time between its completion and the request.

use std::collections::VecDeque;

use super::arm::Place;

/// Maximum number of groups per device whose streams are tracked.
const STREAMS: usize = 32;

/// Number of recent values kept per stream; with fewer than [`MIN_SPARE`] the spare time is not known.
const KEPT_SPARE: usize = 16;
const MIN_SPARE: usize = 3;

/// A program that continues within this time after a completion may have waited for it.
const WAKES_WITHIN_NS: i64 = 1_000_000;

/// The read-ahead stream of one group.
#[derive(Debug)]
struct AheadStream {
    group: u32,
    /// The sector after the last requested one.
    end: i64,
    in_flight: u32,
    last_done_ns: i64,
    /// The largest excess of an I/O since the program was last seen to reach a completed part.
    late_ns: i64,
    /// Recent spare times: how early parts would have completed with the undisturbed latency.
    spare_ns: VecDeque<i64>,
    /// The usual spare time; 0 if there are too few values or they are too short to matter.
    usual_spare_ns: i64,
}

impl AheadStream {
    fn new(group: u32) -> AheadStream {
        AheadStream {
            group,
            end: 0,
            in_flight: 0,
            last_done_ns: 0,
            late_ns: 0,
            spare_ns: VecDeque::new(),
            usual_spare_ns: 0,
        }
    }

    /// Called when the next part is requested: the program has reached a completed part.
    fn note_spare(&mut self, start_ns: i64) {
        let early_ns = (start_ns - self.last_done_ns).max(0);
        let has_waited = early_ns < WAKES_WITHIN_NS;
        // If the program waited for a late part, it is not known when it would have reached it otherwise.
        let is_known = !has_waited || self.late_ns < WAKES_WITHIN_NS;
        if is_known {
            if self.spare_ns.len() == KEPT_SPARE {
                self.spare_ns.pop_front();
            }
            let late_ns = if has_waited { 0 } else { self.late_ns };
            self.spare_ns.push_back(early_ns + late_ns);
            self.usual_spare_ns = self.find_usual_spare_ns();
        }
        self.late_ns = 0;
    }

    fn find_usual_spare_ns(&self) -> i64 {
        if self.spare_ns.len() < MIN_SPARE {
            return 0;
        }
        let mut values: Vec<i64> = self.spare_ns.iter().copied().collect();
        let middle = (values.len() - 1) / 2;
        let median_ns = *values.select_nth_unstable(middle).1;
        if median_ns < WAKES_WITHIN_NS {
            0
        } else {
            median_ns
        }
    }
}

/// The streams of one device.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// In the order of their latest issue, the newest last.
    streams: Vec<AheadStream>,
}

impl ReadAhead {
    /// Called when a read-ahead I/O is issued. Returns whether it continues its stream; a program always waits for the
    /// first I/O of a stream.
    pub fn begin(&mut self, place: Place, start_ns: i64) -> bool {
        let Some(first) = place.first else {
            return false;
        };
        let known = self.streams.iter().position(|s| s.group == place.group);
        let mut stream = match known {
            Some(known) => self.streams.remove(known),
            None => AheadStream::new(place.group),
        };
        let is_continued = known.is_some() && stream.end == first;
        // What is requested while other I/Os are in flight belongs to the same part.
        if is_continued && stream.in_flight == 0 {
            stream.note_spare(start_ns);
        }
        stream.end = first + place.sectors;
        stream.in_flight += 1;
        if self.streams.len() == STREAMS {
            self.streams.remove(0);
        }
        self.streams.push(stream);
        is_continued
    }

    /// Called when a read-ahead I/O of this group completes.
    pub fn done(&mut self, group: u32, done_ns: i64) {
        if let Some(stream) = self.of(group) {
            stream.in_flight = stream.in_flight.saturating_sub(1);
            stream.last_done_ns = stream.last_done_ns.max(done_ns);
        }
    }

    /// How late an I/O that continues its stream can be without delaying its program, in nanoseconds. The current one
    /// is `excess_ns` late.
    pub fn spare_ns(&mut self, group: u32, excess_ns: i64) -> i64 {
        let Some(stream) = self.of(group) else {
            return 0;
        };
        stream.late_ns = stream.late_ns.max(excess_ns);
        stream.usual_spare_ns
    }

    fn of(&mut self, group: u32) -> Option<&mut AheadStream> {
        self.streams.iter_mut().rev().find(|s| s.group == group)
    }

    /// Visits every group number stored here, so that groups can be renumbered.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        for stream in &mut self.streams {
            visit(&mut stream.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const SECTORS: i64 = 256;

    /// Parts of group 3, each (when it is asked for, how long it takes, its excess); how late each could have been.
    fn spare_of(parts: &[(i64, i64, i64)]) -> Vec<i64> {
        let mut ahead = ReadAhead::default();
        let mut spare = Vec::new();
        for (n, (at_ms, latency_ms, excess_ms)) in parts.iter().enumerate() {
            let place = Place {
                group: 3,
                first: Some(n as i64 * SECTORS),
                sectors: SECTORS,
            };
            assert_eq!(ahead.begin(place, at_ms * MS), n > 0);
            ahead.done(3, (at_ms + latency_ms) * MS);
            spare.push(ahead.spare_ns(3, excess_ms * MS) / MS);
        }
        spare
    }

    #[test]
    fn a_player_has_what_is_left_of_its_pace_to_spare() {
        let mut parts = vec![(0, 5, 0), (60, 5, 0), (120, 5, 0), (180, 5, 0)];
        // One is late, and still there before it is needed.
        parts.push((240, 40, 35));
        parts.extend([(300, 5, 0), (360, 5, 0)]);
        assert_eq!(spare_of(&parts), [0, 0, 0, 55, 55, 55, 55]);
    }

    #[test]
    fn one_that_reads_as_fast_as_it_can_has_none() {
        let parts: Vec<_> = (0..20).map(|n| (5 * n, 5, 0)).collect();
        assert_eq!(spare_of(&parts), [0; 20]);
    }

    #[test]
    fn a_part_that_is_waited_for_shows_nothing_of_the_pace() {
        let mut parts = vec![(0, 5, 0), (60, 5, 0), (120, 5, 0), (180, 5, 0)];
        for n in 0..20 {
            parts.push((240 + 100 * n, 100, 95));
        }
        assert_eq!(spare_of(&parts)[3..], [55; 21]);
    }

    #[test]
    fn one_that_becomes_faster_than_its_disk_has_none_any_more() {
        let mut parts = vec![(0, 5, 0), (60, 5, 0), (120, 5, 0), (180, 5, 0)];
        for n in 0..20 {
            parts.push((240 + 5 * n, 5, 0));
        }
        assert_eq!(spare_of(&parts).last(), Some(&0));
    }

    #[test]
    fn what_is_elsewhere_is_waited_for() {
        let mut ahead = ReadAhead::default();
        for n in 0..20i64 {
            let place = Place {
                group: 3,
                first: Some(n * 7919 % 1000 * SECTORS),
                sectors: SECTORS,
            };
            assert!(!ahead.begin(place, n * 60 * MS));
            ahead.done(3, (n * 60 + 5) * MS);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut ahead = ReadAhead::default();
        for group in 0..1000 {
            let place = Place {
                group,
                first: Some(0),
                sectors: SECTORS,
            };
            ahead.begin(place, 0);
            ahead.done(group, MS);
        }
        assert_eq!(ahead.streams.len(), STREAMS);
    }
}
