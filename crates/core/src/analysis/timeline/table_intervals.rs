//! The intervals of imported tables, which need not be equal. Several tables can cover the same time.

use std::collections::BTreeMap;

use crate::analysis::stream::window::Window;
use crate::model::{DevId, IntervalRates};

/// From begin to end, in nanoseconds since the recording's start; half-open.
pub(super) type RowInterval = (i64, i64);

/// Time between rows that is shorter than this share of the usual interval is the inexactness of clocks, and has no row.
pub(super) const LEAST_SHARE: i64 = 10;

/// The time that some intervals cover together.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Begins and ends. They neither overlap nor touch.
    spans: BTreeMap<i64, i64>,
}

impl Covered {
    /// Adds an interval, which ends after it begins; the parts of it that were not covered, in order.
    pub(super) fn add(&mut self, (from_ns, to_ns): RowInterval) -> Vec<RowInterval> {
        let mut begin_ns = from_ns;
        if let Some((begin, end)) = self.spans.range(..=from_ns).next_back()
            && *end >= from_ns
        {
            begin_ns = *begin;
        }
        let mut met: Vec<RowInterval> = Vec::new();
        for (begin, end) in self.spans.range(begin_ns..=to_ns) {
            met.push((*begin, *end));
        }
        let mut free = Vec::new();
        let mut at_ns = from_ns;
        let mut end_ns = to_ns;
        for (begin, end) in met {
            if at_ns < begin {
                free.push((at_ns, begin));
            }
            at_ns = at_ns.max(end);
            end_ns = end_ns.max(end);
            self.spans.remove(&begin);
        }
        if at_ns < to_ns {
            free.push((at_ns, to_ns));
        }
        self.spans.insert(begin_ns, end_ns);
        free
    }
}

/// The intervals of the rows in a window, in order, and those between them of which no row says anything.
///
/// They are the rows of the finest table. Where that has none, they are those of the next finer one.
pub(super) fn own_intervals(
    devices: &BTreeMap<DevId, Vec<IntervalRates>>,
    window: Window,
) -> Vec<RowInterval> {
    let mut tables: Vec<(i64, &[IntervalRates])> = Vec::new();
    for rows in devices.values() {
        if let Some(usual_ns) = usual_length_ns(rows) {
            tables.push((usual_ns, rows));
        }
    }
    // Devices of one resolution stay in their order.
    tables.sort_by_key(|(usual_ns, _)| *usual_ns);
    let finest_ns = tables.first().map_or(i64::MAX, |(usual_ns, _)| *usual_ns);
    let least_ns = (finest_ns.min(window.len_ns()) / LEAST_SHARE).max(1);
    let mut covered = Covered::default();
    let mut known = Vec::new();
    for (_, rows) in tables {
        for row in shortest_first(rows) {
            let from_ns = row.from_ns.max(window.from_ns);
            let to_ns = row.to_ns.min(window.to_ns);
            if from_ns >= to_ns {
                continue;
            }
            for (from_ns, to_ns) in covered.add((from_ns, to_ns)) {
                let is_whole = (from_ns, to_ns) == (row.from_ns, row.to_ns);
                if is_whole || to_ns - from_ns >= least_ns {
                    known.push((from_ns, to_ns));
                }
            }
        }
    }
    known.sort_unstable();
    with_gaps(&known, window, least_ns)
}

/// The median length of rows; `None` of none.
fn usual_length_ns(rows: &[IntervalRates]) -> Option<i64> {
    let mut lengths: Vec<i64> = rows.iter().map(IntervalRates::interval_ns).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied()
}

/// A device can have rows of two resolutions: what the finer ones cover is theirs.
fn shortest_first(rows: &[IntervalRates]) -> Vec<&IntervalRates> {
    let mut sorted: Vec<&IntervalRates> = rows.iter().collect();
    sorted.sort_by_key(|r| (r.interval_ns(), r.from_ns));
    sorted
}

/// `known`, in order and without overlap, with the time between them and to the window's ends, if that is `least_ns` or more.
fn with_gaps(known: &[RowInterval], window: Window, least_ns: i64) -> Vec<RowInterval> {
    let mut all = Vec::new();
    let mut at_ns = window.from_ns;
    for (from_ns, to_ns) in known {
        if from_ns - at_ns >= least_ns {
            all.push((at_ns, *from_ns));
        }
        all.push((*from_ns, *to_ns));
        at_ns = *to_ns;
    }
    if window.to_ns - at_ns >= least_ns {
        all.push((at_ns, window.to_ns));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The intervals, in a window, of devices with rows from and to these times.
    fn own(devices: &[&[RowInterval]], window: RowInterval) -> Vec<RowInterval> {
        let mut tables = BTreeMap::new();
        for (i, rows) in devices.iter().enumerate() {
            let dev = DevId(i as i32);
            let mut of_device = Vec::new();
            for (from_ns, to_ns) in *rows {
                of_device.push(IntervalRates::new(*from_ns, *to_ns, dev));
            }
            tables.insert(dev, of_device);
        }
        own_intervals(&tables, Window::new(window.0, window.1))
    }

    #[test]
    fn what_was_not_covered_is_new() {
        let mut covered = Covered::default();
        assert_eq!(covered.add((10, 20)), [(10, 20)]);
        assert_eq!(covered.add((30, 40)), [(30, 40)]);
        assert!(covered.add((12, 20)).is_empty());
        assert_eq!(covered.add((5, 50)), [(5, 10), (20, 30), (40, 50)]);
        assert_eq!(covered.add((50, 60)), [(50, 60)], "it touches");
        assert_eq!(covered.add((0, 70)), [(0, 5), (60, 70)]);
        assert_eq!(covered.spans, BTreeMap::from([(0, 70)]));
    }

    #[test]
    fn rows_of_any_length_keep_their_intervals() {
        let rows = [(1, 603), (603, 1201), (1201, 1801), (1801, 1820)];
        assert_eq!(own(&[&rows], (1, 1820)), rows);
        let same = own(&[&rows, &rows], (1, 1820));
        assert_eq!(same, rows, "devices of one report have the same intervals");
        let part = own(&[&rows], (900, 1300));
        assert_eq!(part, [(900, 1201), (1201, 1300)], "those of a window");
    }

    #[test]
    fn time_without_rows_is_one_interval_and_inexact_times_are_none() {
        let rows = [(100, 200), (205, 300), (600, 700)];
        assert_eq!(
            own(&[&rows], (0, 704)),
            [(0, 100), (100, 200), (205, 300), (300, 600), (600, 700)]
        );
        let nothing: [RowInterval; 0] = [];
        assert_eq!(own(&[&nothing], (0, 50)), [(0, 50)]);
    }

    #[test]
    fn coarser_rows_have_intervals_where_finer_ones_end() {
        let coarse = [(0, 1000), (1000, 2000)];
        let fine = [(500, 600), (600, 703), (703, 801)];
        assert_eq!(
            own(&[&coarse, &fine], (0, 2000)),
            [
                (0, 500),
                (500, 600),
                (600, 703),
                (703, 801),
                (801, 1000),
                (1000, 2000)
            ]
        );
        // Rows of two logs of one device.
        let both = [(0, 100), (0, 300), (100, 200), (200, 295)];
        assert_eq!(own(&[&both], (0, 300)), [(0, 100), (100, 200), (200, 295)]);
    }
}
