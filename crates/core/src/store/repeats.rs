//! Drops repeated counter samples: unchanged counters are written at the first equal sample and just before the next
//! change.

use std::collections::HashMap;

use crate::model::{CounterSample, DevId};

/// The last written sample of each device, and the last one left out since.
#[derive(Debug, Default)]
pub(crate) struct Repeats(HashMap<DevId, (CounterSample, Option<CounterSample>)>);

impl Repeats {
    /// Appends those samples to `out` that must be written now that `sample` has arrived.
    pub fn push(&mut self, sample: &CounterSample, out: &mut Vec<CounterSample>) {
        match self.0.get_mut(&sample.dev) {
            Some((last, held)) if last.counters == sample.counters => *held = Some(*sample),
            Some((last, held)) => {
                // Write the last unchanged sample too; otherwise the first change would be averaged over the whole
                // standstill.
                out.extend(held.take());
                out.push(*sample);
                *last = *sample;
            }
            None => {
                out.push(*sample);
                self.0.insert(sample.dev, (*sample, None));
            }
        }
    }

    /// Appends the last sample of every device whose counters are unchanged.
    pub fn finish(&mut self, out: &mut Vec<CounterSample>) {
        let mut held: Vec<CounterSample> =
            self.0.drain().filter_map(|(_, (_, held))| held).collect();
        held.sort_by_key(|s| (s.at_ns, s.dev));
        out.extend(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DiskCounters;

    #[test]
    fn a_flat_column_keeps_its_first_and_last_row() {
        let sample = |at_ns, in_flight| CounterSample {
            at_ns,
            dev: DevId::new(8, 0),
            counters: DiskCounters {
                in_flight,
                ..DiskCounters::default()
            },
        };
        let mut repeats = Repeats::default();
        let mut out = Vec::new();
        for (at, value) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 3)] {
            repeats.push(&sample(at, value), &mut out);
        }
        repeats.finish(&mut out);
        assert_eq!(
            out.iter().map(|s| s.at_ns).collect::<Vec<_>>(),
            [0, 2, 3, 4, 6]
        );
    }
}
