//! The load of the device when each request is issued: the number of other requests in flight, and their bytes.
//!
//! Device time grows with load, so device times are compared at equal load only. Similar requests that were issued at
//! the same load share a [cell](IssueCell), and device times are compared within a cell.

use std::collections::HashMap;

use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::requests::Requests;
use crate::analysis::stream::window::Window;

/// Maximum sample of reads, and of writes, of one device.
const SAMPLE: usize = 1 << 16;

/// Minimum number of requests in a cell from which a mean is computed.
const MIN_IN_CELL: u32 = 10;

/// One request at the moment of its issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) struct AtIssue {
    /// Issue, in nanoseconds since the recording's start.
    pub issue_ns: i64,
    /// Issue to completion.
    pub device_ns: i64,
    /// First sector, -1 if not known.
    pub sector: i64,
    /// Sectors that it moves.
    pub sectors: u32,
    /// The cell, within which device times are comparable. It is compact, since a million of these are kept.
    pub cell: IssueCell,
}

impl AtIssue {
    /// Whether I/Os were lost while it was in flight on the device. `gaps` are sorted by time; their ends are inclusive.
    pub fn meets_gap(&self, gaps: &[(i64, i64)]) -> bool {
        let after = gaps.partition_point(|gap| gap.1 < self.issue_ns);
        let done_ns = self.issue_ns + self.device_ns;
        gaps.get(after).is_some_and(|gap| gap.0 <= done_ns)
    }
}

/// Load of the device at the issue of a request, packed into 32 bits: its size and the sectors in flight by powers of
/// two, the numbers in flight exactly up to 8 and in steps of about 19 % beyond, and whether it is sequential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::analysis) struct IssueCell(u32);

impl IssueCell {
    /// `own` and `other` are the requests of its own class and of other classes in flight; `ahead` are their sectors.
    fn new((own, other): (u32, u32), ahead: u64, sectors: u32, is_sequential: bool) -> IssueCell {
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        IssueCell(
            ((fine(own) << 7 | fine(other)) << 6 | octave(ahead)) << 7
                | octave(sectors) << 1
                | u32::from(is_sequential),
        )
    }

    /// Whether the request begins where the one issued before it ends.
    pub fn is_sequential(self) -> bool {
        self.0 & 1 == 1
    }
}

fn octave(n: u32) -> u32 {
    u32::BITS - n.leading_zeros()
}

/// Classifies a number of requests: exact up to 8, in steps of about 19 % (a quarter of an octave) beyond.
fn fine(n: u32) -> u32 {
    if n <= 8 {
        n
    } else {
        // Four times the base-2 logarithm.
        u64::from(n.min(u32::from(u16::MAX))).pow(4).ilog2()
    }
}

/// Each request with the natural logarithm of its device time minus the mean logarithm of its cell. Requests of cells
/// with fewer than `MIN_IN_CELL` are left out.
pub(in crate::analysis) fn against_alike<'a>(requests: &[&'a AtIssue]) -> Vec<(&'a AtIssue, f64)> {
    let mut logs: Vec<(&AtIssue, f64)> = Vec::with_capacity(requests.len());
    let mut cells: HashMap<IssueCell, (u32, f64)> = HashMap::new();
    for r in requests {
        let log = (r.device_ns.max(1) as f64).ln();
        logs.push((*r, log));
        let sums = cells.entry(r.cell).or_default();
        *sums = (sums.0 + 1, sums.1 + log);
    }
    let mut residuals = Vec::new();
    for (r, log) in logs {
        if let Some((n, sum)) = cells.get(&r.cell).filter(|c| c.0 >= MIN_IN_CELL) {
            residuals.push((r, log - sum / f64::from(*n)));
        }
    }
    residuals
}

/// Accumulates random samples of the requests of one device; swept in order of issue.
#[derive(Debug)]
pub(in crate::analysis) struct IssueSweep {
    window: Window,
    /// Requests of each class in flight on the device, and the sectors of all of them.
    levels: [u32; 4],
    ahead: u64,
    end: Option<i64>,
    /// Reads and writes.
    pub samples: [Requests<AtIssue>; 2],
}

impl IssueSweep {
    /// For requests that complete inside `window`.
    pub fn new(window: Window) -> IssueSweep {
        IssueSweep {
            window,
            levels: [0; 4],
            ahead: 0,
            end: None,
            samples: std::array::from_fn(|_| Requests::new(SAMPLE)),
        }
    }
}

impl Sweep for IssueSweep {
    fn start(&mut self, span: &Span) {
        let class = span.class as usize;
        let all = self.levels.iter().sum::<u32>();
        if let Some(sample) = self
            .samples
            .get_mut(class)
            .filter(|_| self.window.contains(span.done_ns))
            && sample.takes_next()
        {
            sample.keep(AtIssue {
                issue_ns: span.start_ns,
                device_ns: span.done_ns - span.start_ns,
                sector: span.sector,
                sectors: span.sectors,
                cell: IssueCell::new(
                    (self.levels[class], all - self.levels[class]),
                    self.ahead,
                    span.sectors,
                    span.sector >= 0 && self.end == Some(span.sector),
                ),
            });
        }
        self.end = (span.sector >= 0).then(|| span.sector + i64::from(span.sectors));
        self.levels[class] += 1;
        self.ahead += u64::from(span.sectors);
    }

    fn done(&mut self, end: &End) {
        self.levels[end.class as usize] -= 1;
        self.ahead -= u64::from(end.sectors);
    }

    /// A request of zero length is not sampled and adds no load.
    fn instant(&mut self, _: &Span) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stream::order::{Hold, StartOrder};
    use crate::model::{DevId, Io, Op};

    #[test]
    fn cells_differ_where_requests_met_something_else() {
        let base = IssueCell::new((10, 3), 64, 8, false);
        assert_eq!(
            base,
            IssueCell::new((11, 3), 127, 15, false),
            "a tenth more, less than twice as much"
        );
        let others = [
            ((10, 4), 64, 8, false),
            ((12, 3), 64, 8, false),
            ((10, 3), 128, 8, false),
            ((10, 3), 64, 16, false),
        ];
        assert!(
            others
                .iter()
                .all(|(n, ahead, sectors, s)| IssueCell::new(*n, *ahead, *sectors, *s) != base)
        );
        let continues = IssueCell::new((10, 3), 64, 8, true);
        assert!(continues != base && continues.is_sequential() && !base.is_sequential());
        // Nothing overflows into another part.
        let most = IssueCell::new((u32::MAX, u32::MAX), u64::MAX, u32::MAX, true);
        assert_ne!(
            most,
            IssueCell::new((u32::MAX, 0), u64::MAX, u32::MAX, true)
        );
    }

    #[test]
    fn numbers_ahead_go_by_a_quarter_of_an_octave() {
        assert!((0..=8).all(|n| fine(n) == n));
        for n in 9..=u32::from(u16::MAX) {
            assert_eq!(fine(n), (4.0 * f64::from(n).log2()) as u32, "{n}");
        }
        assert_eq!(fine(u32::MAX), 63);
    }

    #[test]
    fn a_request_knows_what_the_device_had_when_it_came() {
        // (issue, done, sector, op) of 8 sectors each.
        let ios = [
            (0, 50, 0, Op::READ),
            (10, 30, 8, Op::WRITE),
            (20, 60, 16, Op::READ),
            (30, 70, 99, Op::READ),
        ];
        let mut order = StartOrder::new(Hold::RECORDING);
        let mut sweep = IssueSweep::new(Window::OPEN);
        let mut by_end = ios;
        by_end.sort_by_key(|io| io.1);
        for (issue, done, sector, op) in by_end {
            let io = Io {
                sector: Some(sector),
                ..Io::new(done, DevId(1), op, 4096, None, done - issue)
            };
            order.push(Span::issued(&io, 0), &mut sweep);
        }
        order.finish(&mut sweep);
        let met = |class: usize| {
            let kept = sweep.samples[class].kept().iter();
            kept.map(|r| (r.issue_ns, r.cell)).collect::<Vec<_>>()
        };
        let cell = |own, other, ahead, is_sequential| {
            IssueCell::new((own, other), ahead, 8, is_sequential)
        };
        let reads = [
            (0, cell(0, 0, 0, false)),
            (20, cell(1, 1, 16, true)),
            (30, cell(2, 0, 16, false)),
        ];
        assert_eq!(met(0), reads, "a write ended at 30");
        assert_eq!(met(1), [(10, cell(0, 1, 8, true))]);
        assert_eq!(size_of::<AtIssue>(), 32, "a million are kept");
    }
}
