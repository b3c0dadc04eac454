//! Slots of equal width that exist only where something happened. When there are too many, neighbours are merged in
//! pairs.

use super::last_slot::LastSlot;

/// The sums of a slot.
pub(in crate::analysis) trait SlotMeasure: Default {
    /// Adds the sums of another slot.
    fn add(&mut self, other: &Self);
}

/// Sums by slot, in order. Memory is proportional to the slots in use, not to the time range.
#[derive(Debug, Clone)]
pub(in crate::analysis) struct KeptSlots<T> {
    origin_ns: i64,
    width_ns: i64,
    /// When a slot number reaches this limit, all slots are made twice as wide.
    most: i64,
    kept: Vec<(u32, T)>,
}

/// Remembers the last slot found by a caller, because consecutive events usually fall into the same slot.
#[derive(Debug, Clone, Copy)]
pub(in crate::analysis) struct SlotCursor {
    slot: LastSlot,
    number: u32,
    near: usize,
    width_ns: i64,
}

impl SlotCursor {
    /// A cursor without a slot.
    pub fn new() -> SlotCursor {
        SlotCursor {
            slot: LastSlot::new(),
            number: 0,
            near: 0,
            width_ns: 0,
        }
    }

    /// End of the slot found last.
    pub fn end_ns(&self) -> i64 {
        self.slot.end_ns()
    }
}

impl<T: SlotMeasure> KeptSlots<T> {
    /// Creates slots of `width_ns` starting at `origin_ns`. They are merged when there would be more than `most`.
    pub fn new(origin_ns: i64, width_ns: i64, most: i64) -> KeptSlots<T> {
        KeptSlots {
            origin_ns,
            width_ns,
            most,
            kept: Vec::new(),
        }
    }

    /// Current width of a slot.
    pub fn width_ns(&self) -> i64 {
        self.width_ns
    }

    /// The sums of the slot that contains `at_ns`; new ones if it had none.
    #[inline]
    pub fn at(&mut self, at_ns: i64, cursor: &mut SlotCursor) -> &mut T {
        // A cursor is stale if slots were merged, or others inserted before its slot.
        let is_found = cursor.slot.holds(at_ns)
            && cursor.width_ns == self.width_ns
            && self
                .kept
                .get(cursor.near)
                .is_some_and(|k| k.0 == cursor.number);
        if !is_found {
            self.seek(at_ns, cursor);
        }
        &mut self.kept[cursor.near].1
    }

    /// Moves a cursor. Not inlined, so that staying in a slot costs only the comparisons.
    #[inline(never)]
    fn seek(&mut self, at_ns: i64, cursor: &mut SlotCursor) {
        loop {
            cursor.slot = LastSlot::around(at_ns, self.origin_ns, self.width_ns);
            cursor.width_ns = self.width_ns;
            let number = cursor.slot.number();
            if number < self.most {
                cursor.number = number.max(0) as u32;
                cursor.near = self.find(cursor.number);
                return;
            }
            self.halve();
        }
    }

    fn find(&mut self, i: u32) -> usize {
        let place = match self.kept.last() {
            Some(last) if last.0 < i => self.kept.len(),
            Some(last) if last.0 == i => self.kept.len() - 1,
            _ => self.kept.partition_point(|k| k.0 < i),
        };
        if self.kept.get(place).is_none_or(|k| k.0 != i) {
            self.kept.insert(place, (i, T::default()));
        }
        place
    }

    /// Doubles the width of all slots.
    pub fn halve(&mut self) {
        let mut joined: Vec<(u32, T)> = Vec::with_capacity(self.kept.len() / 2 + 1);
        for (i, value) in self.kept.drain(..) {
            match joined.last_mut() {
                Some((last, sum)) if *last == i / 2 => sum.add(&value),
                _ => joined.push((i / 2, value)),
            }
        }
        joined.shrink_to_fit();
        self.kept = joined;
        self.width_ns *= 2;
    }

    /// Number of slots in use.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The slots in order, without those from number `end` on.
    pub fn before(self, end: u32) -> Vec<(u32, T)> {
        let mut kept = self.kept;
        kept.truncate(kept.partition_point(|k| k.0 < end));
        kept
    }
}

/// Halves the largest of `all` until they hold at most `most` together.
pub(in crate::analysis) fn within_budget<A>(
    all: &mut [A],
    most: usize,
    len: impl Fn(&A) -> usize,
    halve: impl Fn(&mut A),
) {
    let mut total: usize = all.iter().map(&len).sum();
    while total > most {
        let Some(largest) = all.iter_mut().max_by_key(|a| len(a)) else {
            return;
        };
        let before = len(largest);
        halve(largest);
        total -= before.saturating_sub(len(largest)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl SlotMeasure for u64 {
        fn add(&mut self, other: &u64) {
            *self += other;
        }
    }

    proptest! {
        #[test]
        fn they_hold_what_a_dense_series_holds(
            touched in prop::collection::vec((-3i64..400, 1u64..9), 0..80), most in 2i64..50, joins in 0u32..3,
        ) {
            let mut slots = KeptSlots::<u64>::new(-3, 10, most);
            let mut cursors = [SlotCursor::new(); 2];
            for (i, (at_ns, n)) in touched.iter().enumerate() {
                let cursor = &mut cursors[i % 2];
                *slots.at(*at_ns, cursor) += n;
                prop_assert!((cursor.end_ns() - slots.width_ns()..cursor.end_ns()).contains(at_ns));
            }
            for _ in 0..joins {
                slots.halve();
            }
            let width_ns = slots.width_ns();
            let mut dense = vec![0u64; 41];
            for (at_ns, n) in &touched {
                dense[((at_ns + 3) / width_ns) as usize] += n;
            }
            prop_assert!(slots.kept.iter().all(|(i, _)| i64::from(*i) < most));
            let kept = slots.before(30);
            let filled = dense.iter().zip(0..30).filter(|(n, _)| **n > 0).map(|(n, i)| (i, *n));
            prop_assert_eq!(kept, filled.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_largest_give_way_first() {
        let mut all = vec![vec![0; 100], vec![0; 10], vec![0; 60]];
        within_budget(&mut all, 80, Vec::len, |v| v.truncate(v.len() / 2));
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [25, 10, 30]);
        within_budget(&mut [vec![0; 4]], 0, Vec::len, |_: &mut Vec<i32>| {});
    }
}
