//! Time in which any I/O of a group is in flight, summed per second.

use std::collections::BTreeMap;

use super::BINS;

/// Maximum number of intervals that a later I/O can still extend; older ones are added to their seconds.
const MAX_OPEN: usize = 4096;

/// Adds up the union of intervals, which come in order of their ends.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    /// Disjoint, in order of time.
    open: Vec<(i64, i64)>,
    seconds: BTreeMap<i64, i64>,
}

impl BusyTime {
    pub fn add(&mut self, start_ns: i64, end_ns: i64) {
        let mut from_ns = start_ns.min(end_ns);
        let mut to_ns = end_ns;
        // An interval that ends later may have started before earlier ones, and closes the gaps between them.
        while let Some((open_from_ns, open_to_ns)) = self.open.pop_if(|open| open.1 >= from_ns) {
            from_ns = from_ns.min(open_from_ns);
            to_ns = to_ns.max(open_to_ns);
        }
        self.open.push((from_ns, to_ns));
        if self.open.len() >= MAX_OPEN {
            let settled: Vec<(i64, i64)> = self.open.drain(..MAX_OPEN / 2).collect();
            settled.into_iter().for_each(|stretch| self.settle(stretch));
        }
    }

    /// Busy nanoseconds, by the number of the second.
    pub fn finish(mut self) -> BTreeMap<i64, i64> {
        for stretch in std::mem::take(&mut self.open) {
            self.settle(stretch);
        }
        self.seconds
    }

    fn settle(&mut self, (from_ns, to_ns): (i64, i64)) {
        for part in BINS.parts(from_ns, to_ns) {
            *self.seconds.entry(part.slot).or_default() += part.len_ns();
        }
    }
}
