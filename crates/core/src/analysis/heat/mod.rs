//! Latency heat maps: the number of I/Os completed in each column of time, by latency.

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

    /// The column of an instant; instants outside the picture count in the first or last column.
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
        let rows = self.fitting_rows(height.max(1));
        let mut counts = Vec::new();
        for column in &self.columns {
            let mut cells = vec![0; rows.count];
            for (low, high, ios) in column.buckets() {
                cells[rows.row_of(middle(low, high))] += ios;
            }
            counts.push(cells);
        }
        let edges_ns = rows.edges_ns();
        Cells { edges_ns, counts }
    }

    /// Rows that hold the shortest and the longest latency.
    fn fitting_rows(&self, height: usize) -> LatencyRows {
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
        LatencyRows {
            low_ns,
            factor: (high_ns / low_ns).powf(1.0 / height as f64),
            count: height,
        }
    }
}

/// Rows of a picture, each the same factor longer than the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyRows {
    /// The lower edge of the first row in nanoseconds.
    pub low_ns: f64,
    /// The upper edge of a row as a multiple of its lower edge.
    pub factor: f64,
    /// How many rows there are.
    pub count: usize,
}

impl LatencyRows {
    /// Rows for all latencies, four to each doubling, from 256 ns to 137 s. They are the same for every recording.
    pub const ALL: LatencyRows = LatencyRows {
        low_ns: 256.0,
        // The fourth root of two.
        factor: 1.189_207_115_002_721,
        count: 116,
    };

    /// The row of a latency; a latency outside counts in the first or the last row.
    pub fn row_of(&self, ns: f64) -> usize {
        let row = (ns / self.low_ns).ln() / self.factor.ln();
        row.floor().clamp(0.0, (self.count - 1) as f64) as usize
    }

    /// Edges of the rows in nanoseconds, one more than rows.
    pub fn edges_ns(&self) -> Vec<f64> {
        let mut edges_ns = Vec::new();
        for i in 0..=self.count {
            edges_ns.push(self.low_ns * self.factor.powi(i32::try_from(i).unwrap_or(0)));
        }
        edges_ns
    }
}

/// A long picture in the rows of [`LatencyRows::ALL`]. Holds the cells that have I/Os.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparseCells {
    /// Where the cells of each column end.
    ends: Vec<usize>,
    /// Row and count, not 0; within a column in the order of rows.
    cells: Vec<(u8, u32)>,
}

impl SparseCells {
    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a column.
    pub fn push(&mut self, latencies: &CallHistogram) {
        let begin = self.cells.len();
        for (low, high, ios) in latencies.buckets() {
            let row = LatencyRows::ALL.row_of(middle(low, high)) as u8;
            let ios = u32::try_from(ios).unwrap_or(u32::MAX);
            // Buckets come in order: those of one row follow each other.
            match self.cells[begin..].last_mut() {
                Some((last, sum)) if *last == row => *sum = sum.saturating_add(ios),
                _ => self.cells.push((row, ios)),
            }
        }
        self.ends.push(self.cells.len());
    }

    /// Adds columns without I/Os until there are `len`.
    pub fn fill(&mut self, len: usize) {
        while self.ends.len() < len {
            self.ends.push(self.cells.len());
        }
    }

    /// Row and count of the cells of a column.
    pub fn column(&self, i: usize) -> &[(u8, u32)] {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.cells[begin..self.ends[i]]
    }

    /// The cells in columns that are `n` times as long.
    pub fn coarser(&self, n: usize) -> SparseCells {
        let mut out = SparseCells::default();
        let mut sums = [0u32; LatencyRows::ALL.count];
        let columns: Vec<usize> = (0..self.len()).collect();
        for together in columns.chunks(n.max(1)) {
            sums.fill(0);
            for i in together {
                for (row, ios) in self.column(*i) {
                    let sum = &mut sums[usize::from(*row)];
                    *sum = sum.saturating_add(*ios);
                }
            }
            for (row, ios) in sums.iter().enumerate().filter(|(_, ios)| **ios > 0) {
                out.cells.push((row as u8, *ios));
            }
            out.ends.push(out.cells.len());
        }
        out
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
    fn sparse_columns_hold_every_io_also_when_they_are_joined() {
        let mut cells = SparseCells::default();
        for i in 0..5u64 {
            let mut column = CallHistogram::default();
            for ns in [0, 300, 10_000, 10_100, 900_000, i64::MAX] {
                column.add(ns, i);
            }
            cells.push(&column);
        }
        cells.fill(7);
        let ios = |c: &SparseCells, i: usize| c.column(i).iter().map(|(_, n)| *n).sum::<u32>();
        let all = |c: &SparseCells| (0..c.len()).map(|i| ios(c, i)).collect::<Vec<u32>>();
        assert_eq!(all(&cells), [0, 6, 12, 18, 24, 0, 0]);
        assert_eq!(all(&cells.coarser(3)), [18, 42, 0]);
        let rows: Vec<u8> = cells.coarser(7).column(0).iter().map(|(r, _)| *r).collect();
        assert!(rows.is_sorted() && rows[0] == 0, "{rows:?}");
        assert_eq!(
            usize::from(rows[rows.len() - 1]),
            LatencyRows::ALL.count - 1
        );
        let edges_ns = LatencyRows::ALL.edges_ns();
        let at = LatencyRows::ALL.row_of(10_000.0);
        assert!(edges_ns[at] <= 10_000.0 && edges_ns[at + 1] > 10_000.0);
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
