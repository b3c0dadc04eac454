//! Counts sequential I/Os: those that begin at the sector where the previous one ended.

use crate::analysis::stream::order::Span;

/// Counts sequential I/Os in the order of start.
#[derive(Debug, Clone, Default)]
pub(in crate::analysis) struct Runs {
    next_sector: Option<i64>,
    pairs: u64,
    sequential: u64,
}

impl Runs {
    /// The next I/O to start.
    pub fn add(&mut self, span: &Span) {
        if span.sector < 0 {
            return;
        }
        if let Some(expected) = self.next_sector {
            self.pairs += 1;
            self.sequential += u64::from(expected == span.sector);
        }
        self.next_sector = Some(span.sector + i64::from(span.sectors));
    }

    /// Percent of the I/Os with a predecessor that begin where it ended.
    pub fn percent(&self) -> Option<f64> {
        (self.pairs > 0).then(|| 100.0 * self.sequential as f64 / self.pairs as f64)
    }
}
