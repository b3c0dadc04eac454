//! The mechanism by which a culprit's I/O made others wait: what that I/O is.

use super::{CulpritIo, StoryKind};
use crate::analysis::waits::effects::Pair;
use crate::analysis::waits::{DeviceFelt, Profile};
use crate::model::{Class, KernelThread, Origin};

/// I/Os with at least this mean size, in bytes, count as bulk.
const BULK_BYTES: f64 = 65_536.0;

/// I/O is sequential if at least this share of its bytes continues another I/O.
pub(super) const SEQUENTIAL_SHARE: f64 = 0.5;

/// In a compaction, reads and writes each cause at least this share of the wait.
const BOTH_SHARE: f64 = 0.2;

/// From this many small syncs per second on, they are a sync storm.
const STORM_PER_S: f64 = 20.0;

/// The groups of I/O behind which the victim of a pair waited.
struct Blamed<'a> {
    total_ns: i64,
    parts: Vec<(&'a Profile, i64)>,
}

impl Blamed<'_> {
    fn share(&self, is_it: impl Fn(&Profile) -> bool) -> f64 {
        let of_it = self.parts.iter().filter(|(p, _)| is_it(p));
        let ns: i64 = of_it.map(|(_, ns)| ns).sum();
        ns as f64 / self.total_ns.max(1) as f64
    }
}

/// The mechanism of the I/O behind which `pair` waited.
pub(super) fn of_pair(pair: &Pair, felt: &DeviceFelt) -> StoryKind {
    let mut parts = Vec::new();
    for blame in &pair.blame {
        parts.push((&felt.groups[blame.group], blame.ns));
    }
    let blamed = Blamed {
        total_ns: pair.ns,
        parts,
    };
    if blamed.share(|p| p.class == Class::Discard) >= 0.5 {
        return StoryKind::Discard;
    }
    if pair.culprit.kernel_thread() == Some(KernelThread::Swapper) {
        return StoryKind::Swap;
    }
    if blamed.share(|p| p.is_mostly_forced() || p.origin == Origin::Journal) >= 0.5 {
        return forced(&blamed);
    }
    let reads = blamed.share(|p| p.class == Class::Read);
    let is_mixed = (BOTH_SHARE..=1.0 - BOTH_SHARE).contains(&reads);
    if is_mixed && blamed.share(is_bulk) >= 0.5 {
        return StoryKind::Compaction;
    }
    if blamed.share(|p| p.origin == Origin::Writeback) >= 0.5 {
        return StoryKind::WritebackFlush;
    }
    let is_large = blamed.share(|p| p.sequential_share() >= SEQUENTIAL_SHARE || is_bulk(p)) >= 0.5;
    // All pages of a mounted block device count as metadata; a program that reads them sequentially copies the device.
    let is_copy = reads >= 0.5 && is_large;
    if blamed.share(|p| p.origin == Origin::Metadata) >= 0.5 && !is_copy {
        return StoryKind::Metadata;
    }
    // Without a special origin, the direction and the size of the I/Os decide.
    match (reads >= 0.5, is_large) {
        (true, true) => StoryKind::SequentialScan,
        (true, false) => StoryKind::RandomReads,
        (false, true) => StoryKind::BulkWrites,
        (false, false) if blamed.total_ns > 0 => StoryKind::SmallWrites,
        (false, false) => StoryKind::Unknown,
    }
}

/// The mechanism of forced writes: a sync storm if there are many per second, else a journal commit.
fn forced(blamed: &Blamed) -> StoryKind {
    let mut ios = 0;
    let mut longest_s: f64 = 0.0;
    for (profile, _) in &blamed.parts {
        ios += profile
            .forced_ios
            .max(u64::from(profile.class == Class::Flush) * profile.ios);
        longest_s = longest_s.max(active_s(profile));
    }
    if ios as f64 >= STORM_PER_S * longest_s.max(1.0) {
        StoryKind::FsyncStorm
    } else {
        StoryKind::Journal
    }
}

/// Seconds from the first to the last I/O of a group.
fn active_s(profile: &Profile) -> f64 {
    let stretches = &profile.stretches;
    let ends = stretches.first_ns().zip(stretches.last_ns());
    ends.map_or(0.0, |(from_ns, to_ns)| (to_ns - from_ns) as f64 / 1e9)
}

/// The culprit's I/O of the class and origin that caused most of the wait, summed over its processes.
pub(super) fn culprit_io(pair: &Pair, felt: &DeviceFelt) -> Option<CulpritIo> {
    let [first, others @ ..] = &pair.blame[..] else {
        return None;
    };
    let mut profile = felt.groups[first.group].clone();
    for blame in others {
        let other = &felt.groups[blame.group];
        if (other.class, other.origin) == (profile.class, profile.origin) {
            profile.merge(other);
        }
    }
    let stretches = &profile.stretches;
    let worst = &pair.worst;
    Some(CulpritIo {
        class: profile.class,
        origin: profile.origin,
        ios: profile.ios,
        bytes: profile.bytes,
        sequential_share: profile.sequential_share(),
        forced_ios: profile.forced_ios,
        stretches: stretches.typical_n(),
        stretch_bytes: stretches.median_amount()?,
        stretch_ns: stretches.median_len_ns()?,
        only_stretch: stretches.only_typical(),
        from_ns: stretches.first_ns()?,
        to_ns: stretches.last_ns()?,
        period_ns: stretches.period_ns(),
        at_worst: stretches.at(worst.done_ns - worst.latency_ns, worst.done_ns),
    })
}

fn is_bulk(profile: &Profile) -> bool {
    profile.mean_bytes() >= BULK_BYTES
}

/// Whether a sync requested most of the I/O behind which `pair` waited.
pub(super) fn is_sync(pair: &Pair, felt: &DeviceFelt) -> bool {
    let Some(blame) = pair.blame.first() else {
        return false;
    };
    let profile = &felt.groups[blame.group];
    2 * profile.sync_ios >= profile.ios
}
