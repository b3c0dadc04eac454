//! A random sample of a stream that changes slowly.

use crate::analysis::math::stats::Shuffler;

/// Values kept.
const SAMPLE: usize = 256;

/// After so many values new ones replace old ones at a constant rate: the sample forgets.
pub(super) const MEMORY: u64 = 1 << 16;

/// The sample, and whether what was made of it is still good.
#[derive(Debug)]
pub(super) struct KeptSample<T> {
    values: Vec<T>,
    seen: u64,
    random: Shuffler,
    /// Values that came since something was made of all of them.
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

    /// Whether something is to be made of the values now: a sixteenth of them are new.
    pub fn is_due(&self) -> bool {
        self.new > 0 && self.new * 16 >= self.values.len()
    }

    /// Something was made of all of them.
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
        // Algorithm R, but with a bound on what was seen: a value that is in the sample leaves it after some MEMORY others.
        // The remainder by a constant takes no division, and nearly always it is that one.
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
