//! What each request met when it was handed to the device: how many others the device had, and how much they move.
//!
//! A device that takes longer is no slower if it has more to do. Requests that met the same, and are alike themselves,
//! share a [cell](AtIssue::cell): only within a cell are their device times compared.

use std::collections::HashMap;

use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::requests::Requests;
use crate::analysis::stream::window::Window;

/// Reads, and writes, of which this much is kept of one device.
const SAMPLE: usize = 1 << 16;

/// Fewer requests than this in a cell say nothing of what is usual there.
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
    /// Sectors of all that the device already had.
    ahead: u32,
    /// How many of its own class the device already had.
    own: u16,
    /// How many of other classes.
    other: u16,
    /// It begins where the one issued before it ends.
    pub sequential: bool,
}

impl AtIssue {
    /// What makes device times comparable: size and bytes ahead by factors of two; numbers ahead exactly up to 8, by a
    /// fifth beyond; whether it continues the one before.
    pub fn cell(&self) -> u32 {
        let octave = |n: u32| u32::BITS - n.leading_zeros();
        let fine = |n: u16| if n <= 8 { u32::from(n) } else { (4.0 * f64::from(n).log2()) as u32 };
        let depths = fine(self.own) << 7 | fine(self.other);
        ((depths << 6 | octave(self.ahead)) << 6 | octave(self.sectors)) << 1 | u32::from(self.sequential)
    }
}

/// The natural logarithm of each request's device time less the mean of its cell; those of rare cells are left out.
pub(in crate::analysis) fn against_alike<'a>(requests: &[&'a AtIssue]) -> Vec<(&'a AtIssue, f64)> {
    let of = |r: &&'a AtIssue| (*r, r.cell(), (r.device_ns.max(1) as f64).ln());
    let rows: Vec<(&AtIssue, u32, f64)> = requests.iter().map(of).collect();
    let mut cells: HashMap<u32, (u32, f64)> = HashMap::new();
    for (_, cell, log) in &rows {
        let sums = cells.entry(*cell).or_default();
        *sums = (sums.0 + 1, sums.1 + log);
    }
    let residual = |(r, cell, log): (&'a AtIssue, u32, f64)| {
        let (n, sum) = cells.get(&cell).filter(|c| c.0 >= MIN_IN_CELL)?;
        Some((r, log - sum / f64::from(*n)))
    };
    rows.into_iter().filter_map(residual).collect()
}

/// Accumulates a fair sample of requests of one device; swept in the order of issue.
#[derive(Debug)]
pub(in crate::analysis) struct IssueSweep {
    window: Window,
    /// What the device has: how many of each class, and their sectors.
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
        let narrow = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        if let Some(sample) = self.samples.get_mut(class).filter(|_| self.window.contains(span.done_ns)) {
            sample.push(AtIssue {
                issue_ns: span.start_ns,
                device_ns: span.done_ns - span.start_ns,
                sector: span.sector,
                sectors: span.sectors,
                ahead: u32::try_from(self.ahead).unwrap_or(u32::MAX),
                own: narrow(self.levels[class]),
                other: narrow(self.levels.iter().sum::<u32>() - self.levels[class]),
                sequential: span.sector >= 0 && self.end == Some(span.sector),
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

    /// Served at once: it met nothing.
    fn instant(&mut self, _: &Span) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stream::order::{Hold, StartOrder};
    use crate::model::{DevId, Io, Op};

    #[test]
    fn a_request_knows_what_the_device_had_when_it_came() {
        // (issue, done, sector, op) of 8 sectors each.
        let ios = [(0, 50, 0, Op::READ), (10, 30, 8, Op::WRITE), (20, 60, 16, Op::READ), (30, 70, 99, Op::READ)];
        let (mut order, mut sweep) = (StartOrder::new(Hold::RECORDING), IssueSweep::new(Window::OPEN));
        let mut by_end = ios;
        by_end.sort_by_key(|io| io.1);
        for (issue, done, sector, op) in by_end {
            let io = Io { sector: Some(sector), ..Io::new(done, DevId(1), op, 4096, None, done - issue) };
            order.push(Span::issued(&io, 0), &mut sweep);
        }
        order.finish(&mut sweep);
        let met = |class: usize| {
            let kept = sweep.samples[class].kept().iter();
            kept.map(|r| (r.issue_ns, r.own, r.other, r.ahead, r.sequential)).collect::<Vec<_>>()
        };
        assert_eq!(met(0), [(0, 0, 0, 0, false), (20, 1, 1, 16, true), (30, 2, 0, 16, false)], "a write ended at 30");
        assert_eq!(met(1), [(10, 0, 1, 8, true)]);
    }
}
