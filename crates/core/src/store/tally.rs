//! Counts the rows that could not be written while the disk was full, until there is space to store the counts.

use std::collections::HashMap;

use crate::model::{Class, DevId, Io, LossReason, Lost, known_sum};

/// Reason, device, class, and whether the number is known. Only losses with equal keys are added.
type TallyKey = (LossReason, Option<DevId>, Option<Class>, bool);

/// Losses that could not be stored yet. Memory is bounded by the number of devices, not of I/Os.
#[derive(Debug, Default)]
pub(crate) struct Tally(HashMap<TallyKey, Lost>);

impl Tally {
    /// Counts I/Os that could not be stored.
    pub fn add_ios(&mut self, ios: &[Io]) {
        for io in ios {
            self.add(&Lost {
                from_ns: io.done_ns,
                to_ns: io.done_ns,
                dev: Some(io.dev),
                class: Some(io.class()),
                reason: LossReason::DiskFull,
                ios: Some(1),
                bytes: Some(io.bytes),
                merges: Some(io.merges.unwrap_or(0).into()),
            });
        }
    }

    /// Adds a loss to the one with the same key; the interval is extended to cover both.
    pub fn add(&mut self, lost: &Lost) {
        let key: TallyKey = (lost.reason, lost.dev, lost.class, lost.ios.is_some());
        self.0
            .entry(key)
            .and_modify(|l| {
                l.from_ns = l.from_ns.min(lost.from_ns);
                l.to_ns = l.to_ns.max(lost.to_ns);
                l.ios = known_sum(l.ios, lost.ios);
                l.bytes = known_sum(l.bytes, lost.bytes);
                l.merges = known_sum(l.merges, lost.merges);
            })
            .or_insert(*lost);
    }

    /// All losses, leaving none behind.
    pub fn take(&mut self) -> Vec<Lost> {
        let mut all: Vec<Lost> = self.0.drain().map(|(_, lost)| lost).collect();
        all.sort_by_key(|l| (l.to_ns, l.from_ns, l.dev));
        all
    }
}
