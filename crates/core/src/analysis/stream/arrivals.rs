//! The submission times of a stream's requests, in bounded memory.
//!
//! Sampling would thin out short bursts, so every request counts. When there are too many entries, those within 1 ms
//! are merged into one, then those within 2 ms, and so on.

use crate::analysis::stream::last_slot::LastSlot;
use crate::analysis::stream::requests::{Request, grow_slowly};

/// Initial width of a cell.
const FINEST_NS: i64 = 1_000_000;

/// Submissions of one stream, added in the order of completion.
#[derive(Debug)]
pub(in crate::analysis) struct Arrivals {
    kept: Vec<Request>,
    most: usize,
    /// Requests that start in the same cell of this width share an entry; 0: each request has its own.
    width_ns: i64,
    /// Cell of the last entry; empty while each request has its own entry.
    cell: LastSlot,
}

impl Arrivals {
    /// Keeps fewer than `most` entries.
    pub fn new(most: usize) -> Arrivals {
        Arrivals {
            kept: Vec::new(),
            most: most.max(4),
            width_ns: 0,
            cell: LastSlot::new(),
        }
    }

    pub fn push(&mut self, request: Request) {
        if self.cell.holds(request.start_ns)
            && let Some(last) = self.kept.last_mut()
        {
            last.join(&request);
            return;
        }
        if self.width_ns > 0 {
            self.cell = LastSlot::around(request.start_ns, 0, self.width_ns);
        }
        grow_slowly(&mut self.kept);
        self.kept.push(request);
        if self.kept.len() >= self.most {
            self.shrink();
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Widens the cells until at most three quarters of the entries remain.
    pub fn shrink(&mut self) {
        let most = self.kept.len() / 4 * 3;
        self.kept.sort_unstable_by_key(|r| r.start_ns);
        while self.kept.len() > most.max(1) {
            self.width_ns = (2 * self.width_ns).max(FINEST_NS);
            self.join_cells();
        }
        if let Some(last) = self.kept.last().filter(|_| self.width_ns > 0) {
            self.cell = LastSlot::around(last.start_ns, 0, self.width_ns);
        }
        self.kept.shrink_to_fit();
    }

    /// Merges neighbours in the same cell; entries are ordered by start.
    fn join_cells(&mut self) {
        let width_ns = self.width_ns;
        let Some(first) = self.kept.first() else {
            return;
        };
        let mut cell = LastSlot::around(first.start_ns, 0, width_ns);
        self.kept.dedup_by(|next, entry| {
            let is_same = cell.holds(next.start_ns);
            if is_same {
                entry.join(next);
            } else {
                cell = LastSlot::around(next.start_ns, 0, width_ns);
            }
            is_same
        });
    }

    /// The entries in order of start, and the width of their cells in nanoseconds (0: each is one request).
    pub fn finish(mut self) -> (Vec<Request>, i64) {
        self.kept.sort_unstable_by_key(|r| r.start_ns);
        if self.width_ns > 0 {
            self.join_cells();
        }
        (self.kept, self.width_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_request_is_left_out_and_cells_begin_with_their_first(
            starts in prop::collection::vec(0i64..2_000_000_000, 1..400),
            most in 4usize..100,
        ) {
            let mut arrivals = Arrivals::new(most);
            for start_ns in &starts {
                arrivals.push(Request { start_ns: *start_ns, done_ns: start_ns + 7, bytes: 512, ios: 1 });
            }
            let (kept, width_ns) = arrivals.finish();
            prop_assert!(kept.len() <= most);
            prop_assert_eq!(kept.iter().map(|r| r.ios as usize).sum::<usize>(), starts.len());
            prop_assert_eq!(kept.iter().map(|r| r.bytes as usize).sum::<usize>(), 512 * starts.len());
            prop_assert!(kept.windows(2).all(|w| w[0].start_ns <= w[1].start_ns));
            let cell = |ns: i64| if width_ns > 0 { ns / width_ns } else { ns };
            for entry in &kept {
                let own = starts.iter().filter(|s| cell(**s) == cell(entry.start_ns));
                prop_assert_eq!(own.min(), Some(&entry.start_ns));
            }
        }
    }
}
