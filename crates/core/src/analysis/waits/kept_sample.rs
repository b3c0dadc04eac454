//! A random sample of a stream that changes slowly.

use crate::analysis::math::stats::Shuffler;

/// Sample size.
const SAMPLE: usize = 256;

/// After this many values, new ones replace old ones at a constant rate, so the sample follows slow changes.
pub(super) const MEMORY: u64 = 1 << 16;

/// A sample, with a counter that shows when statistics derived from it are out of date.
#[derive(Debug)]
pub(super) struct KeptSample<T> {
    values: Vec<T>,
    seen: u64,
    random: Shuffler,
    /// Values added since statistics were last derived from the sample.
    new: usize,
}

impl<T> KeptSample<T> {
    pub fn new() -> KeptSample<T> {
        KeptSample {
            values: Vec::new(),
            seen: 0,
            random: Shuffler::new(1),
            new: 0,
        }
    }

    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Whether derived statistics should be recomputed because a sixteenth of the values are new.
    pub fn is_due(&self) -> bool {
        self.new > 0 && self.new * 16 >= self.values.len()
    }

    /// Marks derived statistics as up to date.
    pub fn was_used(&mut self) {
        self.new = 0;
    }

    pub fn push(&mut self, value: T) {
        self.seen += 1;
        if self.values.len() < SAMPLE {
            self.values.push(value);
            self.new += 1;
            return;
        }
        // Algorithm R with a bound on the count, so that a value leaves the sample after about MEMORY others. In the
        // usual case the remainder is by a constant, which needs no division.
        let random = self.random.bits();
        let place = if self.seen >= MEMORY {
            random % MEMORY
        } else {
            random % self.seen
        };
        if let Some(slot) = self.values.get_mut(place as usize) {
            *slot = value;
            self.new += 1;
        }
    }
}
