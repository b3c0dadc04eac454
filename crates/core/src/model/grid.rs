//! Time divided into slots of equal length: the slot of an instant, and the share of an interval in each slot.

use super::SECOND_NS;

/// Slots of equal length. Slot 0 starts at the origin; slots before it have negative numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeGrid {
    /// Where slot 0 begins, in nanoseconds since the recording's start.
    pub origin_ns: i64,
    /// Length of a slot.
    pub step_ns: i64,
}

/// The part of an interval that lies in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPart {
    /// The number of the slot.
    pub slot: i64,
    /// Where the part begins.
    pub from_ns: i64,
    /// Where it ends.
    pub to_ns: i64,
}

/// The last multiple of `step_ns` that is not after an instant.
pub fn floor_to(at_ns: i64, step_ns: i64) -> i64 {
    at_ns.div_euclid(step_ns) * step_ns
}

/// The first multiple of `step_ns` that is not before an instant, or the last representable one if that would overflow.
pub fn ceil_to(at_ns: i64, step_ns: i64) -> i64 {
    floor_to(at_ns.saturating_add(step_ns - 1), step_ns)
}

impl TimeGrid {
    /// Seconds since the recording's start.
    pub const SECONDS: TimeGrid = TimeGrid {
        origin_ns: 0,
        step_ns: SECOND_NS,
    };

    /// Slots of `step_ns` aligned to `origin_ns`.
    pub fn new(origin_ns: i64, step_ns: i64) -> TimeGrid {
        TimeGrid { origin_ns, step_ns }
    }

    /// The number of the slot that holds an instant.
    #[inline]
    pub fn slot(self, at_ns: i64) -> i64 {
        at_ns
            .saturating_sub(self.origin_ns)
            .div_euclid(self.step_ns)
    }

    /// Where a slot begins.
    #[inline]
    pub fn start_ns(self, slot: i64) -> i64 {
        self.origin_ns
            .saturating_add(slot.saturating_mul(self.step_ns))
    }

    /// Where a slot ends: the first instant after it.
    #[inline]
    pub fn end_ns(self, slot: i64) -> i64 {
        self.start_ns(slot.saturating_add(1))
    }

    /// The parts of `[from_ns, to_ns)` in the slots that it touches, by time.
    #[inline]
    pub fn parts(self, from_ns: i64, to_ns: i64) -> impl Iterator<Item = SlotPart> {
        let mut next_ns = from_ns;
        let mut next_slot = if from_ns < to_ns {
            self.slot(from_ns)
        } else {
            0
        };
        std::iter::from_fn(move || {
            if next_ns >= to_ns {
                return None;
            }
            let end_ns = self.end_ns(next_slot);
            // Near `i64::MAX` the bounds saturate; the last slot then holds the rest of the interval.
            let is_last = end_ns <= next_ns || end_ns >= to_ns;
            let part = SlotPart {
                slot: next_slot,
                from_ns: next_ns,
                to_ns: if is_last { to_ns } else { end_ns },
            };
            next_ns = part.to_ns;
            next_slot += 1;
            Some(part)
        })
    }
}

impl SlotPart {
    /// How long it is.
    pub fn len_ns(self) -> i64 {
        self.to_ns - self.from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_the_interval_cut_where_slots_begin(
            origin in -50i64..50, step in 1i64..20, from in -100i64..100, len in -5i64..100,
        ) {
            let grid = TimeGrid::new(origin, step);
            let mut instants = Vec::new();
            let mut slots = Vec::new();
            for part in grid.parts(from, from + len) {
                prop_assert!(part.len_ns() > 0);
                slots.push(part.slot);
                for at in part.from_ns..part.to_ns {
                    prop_assert_eq!(grid.slot(at), part.slot);
                    instants.push(at);
                }
            }
            prop_assert_eq!(instants, (from..from + len).collect::<Vec<_>>());
            prop_assert!(slots.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        }

        #[test]
        fn a_slot_holds_its_instants(origin in -50i64..50, step in 1i64..20, at in -100i64..100) {
            let grid = TimeGrid::new(origin, step);
            let slot = grid.slot(at);
            prop_assert!(grid.start_ns(slot) <= at && at < grid.end_ns(slot));
            prop_assert_eq!(grid.end_ns(slot) - grid.start_ns(slot), step);
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let grid = TimeGrid::new(-1000, 1000);
        assert_eq!(grid.slot(i64::MAX), i64::MAX / 1000);
        assert_eq!(grid.end_ns(i64::MAX), i64::MAX - 1000);
        let last = grid.parts(i64::MAX - 5, i64::MAX);
        assert_eq!(last.map(SlotPart::len_ns).sum::<i64>(), 5);
    }
}
