//! Slots of equal width of which only those exist in which something happened.

/// Values by slot, in order: as many as slots were touched, however long the time around them.
#[derive(Debug, Clone)]
pub(in crate::analysis) struct KeptSlots<T> {
    kept: Vec<(u32, T)>,
}

impl<T> Default for KeptSlots<T> {
    fn default() -> KeptSlots<T> {
        KeptSlots { kept: Vec::new() }
    }
}

impl<T: Default> KeptSlots<T> {
    /// The value of slot `i`, a new one if there was none. `near` is where the caller found its last one.
    #[inline]
    pub fn at(&mut self, i: u32, near: &mut usize) -> &mut T {
        if self.kept.get(*near).is_none_or(|k| k.0 != i) {
            *near = self.find(i);
        }
        &mut self.kept[*near].1
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

    /// Makes slots twice as wide; places found before are none any more.
    pub fn join_pairs(&mut self, add: impl Fn(&mut T, &T)) {
        let mut joined: Vec<(u32, T)> = Vec::with_capacity(self.kept.len() / 2 + 1);
        for (i, value) in self.kept.drain(..) {
            match joined.last_mut() {
                Some((last, sum)) if *last == i / 2 => add(sum, &value),
                _ => joined.push((i / 2, value)),
            }
        }
        joined.shrink_to_fit();
        self.kept = joined;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// They, in order, and nothing from slot `end` on.
    pub fn before(self, end: u32) -> Vec<(u32, T)> {
        let mut kept = self.kept;
        kept.truncate(kept.partition_point(|k| k.0 < end));
        kept
    }
}

/// Halves the largest of `all` until no more than `most` are left of them together.
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

    proptest! {
        #[test]
        fn they_hold_what_a_dense_series_holds(touched in prop::collection::vec((0u32..40, 1u64..9), 0..80), joins in 0u32..4) {
            let (mut slots, mut dense, mut near) = (KeptSlots::<u64>::default(), vec![0u64; 40], 0);
            for (i, n) in &touched {
                *slots.at(*i, &mut near) += n;
                dense[*i as usize] += n;
            }
            for _ in 0..joins {
                slots.join_pairs(|a, b| *a += b);
                dense = dense.chunks(2).map(|c| c.iter().sum()).collect();
            }
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
