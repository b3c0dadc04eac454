//! Ordering across CPUs: a low-watermark reorder buffer.
//!
//! Each CPU writes its completions into a ring, with the time at which it read the clock. Events next to each other in
//! a ring may be out of order, because one program can interrupt another between two steps. The BPF programs take their
//! ring entry *before* they read the clock. A drain reads the clock (T), then the end of each ring, and then takes
//! every event up to that end. If it finds no unfinished event, it has every event stamped before T, because an event
//! with an earlier stamp had its entry by then. T, minus a slack for stores that are not yet visible to other CPUs, is
//! the *watermark*: older events are complete and can leave in order, younger ones wait for the next drain. If an
//! unfinished event stops a drain, the watermark stays where it was.
//!
//! An event older than a watermark up to which others have already left is *late*. The scheme above excludes this. If a
//! kernel should ever break its assumption, late events are delivered with the next batch and counted, never dropped.

use std::vec::Drain;

/// An item with a time.
pub(crate) trait Stamped {
    /// When it happened, in nanoseconds of the kernel's monotonic clock.
    fn stamp(&self) -> u64;
}

/// Maximum distance from the end over which a new event is inserted in place. Beyond it, [`ReorderBuffer::release`]
/// sorts the whole buffer.
const SHORT_WAY: usize = 64;

/// Holds events until all older ones have arrived.
#[derive(Debug)]
pub(crate) struct ReorderBuffer<T> {
    pending: Vec<T>,
    sorted: bool,
    watermark: u64,
    late: u64,
}

impl<T: Stamped> ReorderBuffer<T> {
    /// An empty buffer with its watermark at 0.
    pub fn new() -> ReorderBuffer<T> {
        ReorderBuffer {
            pending: Vec::new(),
            sorted: true,
            watermark: 0,
            late: 0,
        }
    }

    /// Adds an event, in any order. Cheap if its position is near the end.
    #[inline]
    pub fn push(&mut self, event: T) {
        let stamp = event.stamp();
        if stamp < self.watermark {
            self.late += 1;
        }
        match self.pending.last() {
            Some(last) if last.stamp() > stamp => self.insert(event, stamp),
            _ => self.pending.push(event),
        }
    }

    #[cold]
    fn insert(&mut self, event: T, stamp: u64) {
        if self.sorted {
            let from = self.pending.len().saturating_sub(SHORT_WAY);
            let at = from + self.pending[from..].partition_point(|p| p.stamp() <= stamp);
            if at > from || from == 0 {
                self.pending.insert(at, event);
                return;
            }
        }
        self.sorted = false;
        self.pending.push(event);
    }

    /// Raises the watermark and returns all older events, in order. Events with equal stamps keep the order in which
    /// they were added. A watermark below an earlier one changes nothing.
    pub fn release(&mut self, watermark: u64) -> Drain<'_, T> {
        self.watermark = self.watermark.max(watermark);
        if !self.sorted {
            self.pending.sort_by_key(Stamped::stamp);
            self.sorted = true;
        }
        let n = self.pending.partition_point(|p| p.stamp() < self.watermark);
        self.pending.drain(..n)
    }

    /// Number of late events so far.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// All events older than this have been returned.
    pub fn watermark(&self) -> u64 {
        self.watermark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Stamped for (u64, u32) {
        fn stamp(&self) -> u64 {
            self.0
        }
    }

    /// Events of several CPUs as a drain shows them: each takes its place, then its stamp up to `delay` later.
    fn ring(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut place = 0;
        steps
            .iter()
            .map(|(gap, delay)| {
                place += gap;
                (place, place + delay)
            })
            .collect()
    }

    proptest! {
        /// The algorithm's promise, played through: drains at arbitrary instants, records unfinished until stamped.
        #[test]
        fn sorted_complete_and_never_late(
            steps in prop::collection::vec((0u64..20, 0u64..200), 0..300),
            drains in prop::collection::vec(0u64..50, 1..100),
        ) {
            let records = ring(&steps);
            let mut buffer = ReorderBuffer::new();
            let mut out = Vec::new();
            let mut next = 0;
            let mut now = 0;
            for gap in drains {
                now += gap;
                let placed = records.partition_point(|(place, _)| *place < now);
                let mut stopped = false;
                while next < placed {
                    if records[next].1 >= now {
                        stopped = true;
                        break;
                    }
                    buffer.push((records[next].1, next as u32));
                    next += 1;
                }
                out.extend(buffer.release(if stopped { 0 } else { now }));
            }
            for (i, record) in records.iter().enumerate().skip(next) {
                buffer.push((record.1, i as u32));
            }
            out.extend(buffer.release(u64::MAX));
            prop_assert_eq!(buffer.late(), 0);
            prop_assert!(out.is_sorted_by_key(|e| e.0));
            let mut seen: Vec<u32> = out.iter().map(|e| e.1).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..records.len() as u32).collect::<Vec<_>>());
        }

        /// Any input at all, in any batches: nothing is dropped, each batch is sorted, what is late is counted.
        #[test]
        fn every_pushed_item_is_returned_once(batches in prop::collection::vec((prop::collection::vec(0u64..1000, 0..150), 0u64..1000), 0..10)) {
            let mut buffer = ReorderBuffer::new();
            let mut pushed = Vec::new();
            let mut out = Vec::new();
            let mut late = 0;
            let mut mark = 0;
            for (stamps, watermark) in batches {
                for s in stamps {
                    late += u64::from(s < mark);
                    let id = pushed.len() as u32;
                    pushed.push((s, id));
                    buffer.push((s, id));
                }
                mark = mark.max(watermark);
                let from = out.len();
                out.extend(buffer.release(watermark));
                prop_assert!(out[from..].is_sorted());
                prop_assert!(out[from..].iter().all(|e| e.0 < mark));
            }
            let from = out.len();
            out.extend(buffer.release(u64::MAX));
            prop_assert!(out[from..].is_sorted(), "equal stamps keep their order");
            prop_assert_eq!(buffer.late(), late);
            out.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(out, pushed);
        }
    }

    #[test]
    fn events_after_the_watermark_wait() {
        let mut buffer = ReorderBuffer::new();
        [(30, 0), (10, 1), (20, 2)]
            .into_iter()
            .for_each(|e| buffer.push(e));
        assert_eq!(buffer.release(20).collect::<Vec<_>>(), [(10, 1)]);
        buffer.push((15, 3));
        assert_eq!(buffer.late(), 1);
        assert_eq!(
            buffer.release(31).collect::<Vec<_>>(),
            [(15, 3), (20, 2), (30, 0)]
        );
        assert_eq!(buffer.watermark(), 31);
    }
}
