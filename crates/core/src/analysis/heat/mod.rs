//! Latencies by time: how many I/Os completed in each column of a picture, by how long they took.

use std::ops::Range;

use crate::model::{CallHistogram, Io};

/// Which time of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePart {
    /// From start to completion.
    Total,
    /// From start to issue.
    Queue,
    /// From issue to completion.
    Device,
}

impl TimePart {
    fn of(self, io: &Io) -> Option<i64> {
        match self {
            TimePart::Total => Some(io.total_ns()),
            TimePart::Queue => io.queue_ns,
            TimePart::Device => Some(io.device_ns),
        }
    }
}

/// A picture before its rows are chosen.
#[derive(Debug, Clone)]
pub struct Heat {
    /// Unix time of the first column's beginning, and of the last one's end, in nanoseconds.
    pub unix_ns: Range<i64>,
    /// Length of a column in nanoseconds.
    pub column_ns: i64,
    /// Latencies in nanoseconds, column by column.
    pub columns: Vec<CallHistogram>,
    /// I/Os whose time is not known (of a source without queue times).
    pub unknown: u64,
}

/// The picture in rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// Edges of the rows in nanoseconds, one more than rows.
    pub edges_ns: Vec<f64>,
    /// I/Os, column by column, each from the shortest latency on.
    pub counts: Vec<Vec<u64>>,
}

impl Heat {
    /// A picture of `width` columns with nothing in it.
    pub fn new(unix_ns: Range<i64>, column_ns: i64, width: usize) -> Heat {
        Heat {
            unix_ns,
            column_ns,
            columns: vec![CallHistogram::default(); width],
            unknown: 0,
        }
    }

    /// Adds an I/O of a recording that began at `start_unix_ns`.
    pub fn push(&mut self, io: &Io, part: TimePart, start_unix_ns: i64) {
        match part.of(io) {
            Some(ns) => self.column_at(start_unix_ns + io.done_ns).add(ns, 1),
            None => self.unknown += 1,
        }
    }

    /// Adds latencies of I/Os that completed around `at_unix_ns`.
    pub fn merge(&mut self, at_unix_ns: i64, latencies: &CallHistogram) {
        self.column_at(at_unix_ns).merge(latencies);
    }

    /// What is before or after the picture counts in its first or last column.
    fn column_at(&mut self, at_unix_ns: i64) -> &mut CallHistogram {
        let since_begin_ns = (at_unix_ns - self.unix_ns.start).max(0);
        let last = self.columns.len() - 1;
        let column = (since_begin_ns / self.column_ns) as usize;
        &mut self.columns[column.min(last)]
    }

    /// With what another thread counted in the same columns.
    pub fn joined(mut self, other: Heat) -> Heat {
        for (own, of) in self.columns.iter_mut().zip(&other.columns) {
            own.merge(of);
        }
        self.unknown += other.unknown;
        self
    }

    /// The picture in `height` rows, each the same factor longer than the one before.
    pub fn cells(&self, height: usize) -> Cells {
        let height = height.max(1);
        let mut low_ns: Option<i64> = None;
        for (low, ..) in self.columns.iter().flat_map(CallHistogram::buckets) {
            low_ns = Some(low_ns.map_or(low, |least| least.min(low)));
        }
        let low_ns = low_ns.unwrap_or(1_000).max(100) as f64;
        // The longest latency is to be inside the last row, not on its edge.
        let mut high_ns = low_ns * 2.0;
        for (low, high, _) in self.columns.iter().flat_map(CallHistogram::buckets) {
            high_ns = high_ns.max(middle(low, high));
        }
        let high_ns = high_ns * 1.04;
        let factor = (high_ns / low_ns).powf(1.0 / height as f64);
        let row_of = |ns: f64| {
            let row = (ns / low_ns).ln() / factor.ln();
            row.floor().clamp(0.0, (height - 1) as f64) as usize
        };
        let mut edges_ns = Vec::new();
        for i in 0..=height {
            edges_ns.push(low_ns * factor.powi(i32::try_from(i).unwrap_or(0)));
        }
        let mut counts = Vec::new();
        for column in &self.columns {
            let mut rows = vec![0; height];
            for (low, high, ios) in column.buckets() {
                rows[row_of(middle(low, high))] += ios;
            }
            counts.push(rows);
        }
        Cells { edges_ns, counts }
    }
}

/// The middle of a bucket; of the last one, which has no end, its beginning.
fn middle(low: i64, high: i64) -> f64 {
    if high == i64::MAX {
        low as f64
    } else {
        (low + high) as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op};

    #[test]
    fn every_io_is_in_one_cell_and_rows_are_in_order() {
        let mut heat = Heat::new(0..30, 10, 3);
        for (i, column) in heat.columns.iter_mut().enumerate() {
            for ns in [50, 10_000, 10_000, 900_000, 3_000_000_000] {
                column.add(ns, i as u64);
            }
        }
        let Cells { edges_ns, counts } = heat.cells(20);
        assert_eq!((edges_ns.len(), counts.len()), (21, 3));
        assert!(
            edges_ns.is_sorted() && edges_ns[0] <= 100.0 && edges_ns[20] > 3.0e9,
            "{edges_ns:?}"
        );
        let sums: Vec<u64> = counts.iter().map(|c| c.iter().sum()).collect();
        assert_eq!(sums, [0, 5, 10]);
        let at = counts[1]
            .iter()
            .position(|n| *n == 2)
            .expect("both in one row");
        assert!(
            edges_ns[at] <= 10_100.0 && edges_ns[at + 1] >= 9_900.0,
            "{at} of {edges_ns:?}"
        );
    }

    #[test]
    fn ios_are_in_the_column_in_which_they_complete_and_parts_add_up() {
        let heat = Heat::new(1_000..1_300, 100, 3);
        let io = |done_ns| Io::new(done_ns, DevId::new(8, 0), Op::READ, 512, None, 7);
        let mut own = heat.clone();
        for done_ns in [0, 150, 299, 300] {
            own.push(&io(done_ns), TimePart::Device, 1_000);
        }
        own.push(&io(10), TimePart::Queue, 1_000);
        let mut other = heat;
        other.merge(1_150, &own.columns[0]);
        let joined = own.joined(other);
        let ios: Vec<u64> = joined.columns.iter().map(CallHistogram::n).collect();
        assert_eq!((ios, joined.unknown), (vec![1, 2, 2], 1));
    }
}
