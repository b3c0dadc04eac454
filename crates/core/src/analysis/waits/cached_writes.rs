//! What writes left in a device's volatile cache: a flush writes it out, of whichever program it is.

use std::collections::BTreeMap;

/// Minimum rate at which a flush writes data out, in bytes per nanosecond (50 MB/s). Time beyond that has another
/// cause.
const MIN_BYTES_PER_NS: f64 = 0.05;

/// Maximum number of groups that are tracked; writes of further groups count for `others`.
const MAX_GROUPS: usize = 32;

/// Bytes by group number.
type GroupBytes = BTreeMap<u32, i64>;

/// Writes of a device that no flush has written out yet.
#[derive(Debug)]
pub(super) struct CachedWrites {
    /// The group for writes of groups that are not tracked.
    others: u32,
    /// Writes completed since the last flush was issued.
    since_issue: GroupBytes,
    /// Writes that the flush in flight writes out.
    in_flush: GroupBytes,
    /// Writes of flushes that completed but are not attributed yet.
    written_out: GroupBytes,
    /// For the last flush of each group, the share of its time spent on each group's writes.
    shares: BTreeMap<u32, Vec<(u32, f64)>>,
}

impl CachedWrites {
    /// `others` is the group that writes of untracked groups count for.
    pub fn new(others: u32) -> CachedWrites {
        CachedWrites {
            others,
            since_issue: GroupBytes::new(),
            in_flush: GroupBytes::new(),
            written_out: GroupBytes::new(),
            shares: BTreeMap::new(),
        }
    }

    /// A write of `group` completed.
    pub fn wrote(&mut self, group: u32, bytes: i64) {
        let written = &mut self.since_issue;
        let has_room = written.len() < MAX_GROUPS || written.contains_key(&group);
        let group = if has_room { group } else { self.others };
        *written.entry(group).or_default() += bytes;
    }

    /// A flush is issued.
    pub fn flush_begins(&mut self) {
        move_all(&mut self.since_issue, &mut self.in_flush);
    }

    /// A flush completed.
    pub fn flush_ends(&mut self) {
        move_all(&mut self.in_flush, &mut self.written_out);
    }

    /// Maximum time that the next flush can have spent writing data out, in nanoseconds.
    pub fn writing_out_ns(&self) -> f64 {
        let all: i64 = self.written_out.values().sum();
        all as f64 / MIN_BYTES_PER_NS
    }

    /// Divides `rest_ns`, the time of the next flush that nothing else explains, among the groups whose writes it wrote
    /// out. The flush belongs to `flush_group` and was in the device for `device_ns`. If several flushes complete
    /// together, the first one wrote out everything.
    pub fn waits(&mut self, rest_ns: i64, flush_group: u32, device_ns: i64) -> Vec<(u32, i64)> {
        let explained_ns = (rest_ns as f64).min(self.writing_out_ns());
        let written_out = std::mem::take(&mut self.written_out);
        let all: i64 = written_out.values().sum();
        let ns_per_byte = explained_ns / all.max(1) as f64;
        let mut waits = Vec::new();
        let mut shares = Vec::new();
        for (group, bytes) in written_out {
            let ns = bytes as f64 * ns_per_byte;
            if ns >= 1.0 {
                waits.push((group, ns as i64));
                shares.push((group, ns / device_ns.max(1) as f64));
            }
        }
        if self.shares.len() >= MAX_GROUPS {
            self.shares.clear();
        }
        self.shares.insert(flush_group, shares);
        waits
    }

    /// Moves the part of a wait behind flushes that these spent on other groups' writes to those groups. `behind` holds
    /// the wait in nanoseconds by group.
    pub fn divide(&self, behind: &mut Vec<(u32, i64)>) {
        if self.shares.is_empty() {
            return;
        }
        for place in 0..behind.len() {
            let (group, all_ns) = behind[place];
            for (writer, share) in self.shares.get(&group).into_iter().flatten() {
                let ns = ((all_ns as f64 * share) as i64).min(behind[place].1);
                behind[place].1 -= ns;
                add(behind, *writer, ns);
            }
        }
        behind.retain(|(_, ns)| *ns > 0);
    }

    /// Visits every group number stored here, so that groups can be renumbered.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        visit(&mut self.others);
        let kept = [
            &mut self.since_issue,
            &mut self.in_flush,
            &mut self.written_out,
        ];
        for groups in kept {
            for (mut group, bytes) in std::mem::take(groups) {
                visit(&mut group);
                *groups.entry(group).or_default() += bytes;
            }
        }
        for (mut flush_group, mut shares) in std::mem::take(&mut self.shares) {
            visit(&mut flush_group);
            shares.iter_mut().for_each(|(writer, _)| visit(writer));
            self.shares.insert(flush_group, shares);
        }
    }
}

fn move_all(from: &mut GroupBytes, to: &mut GroupBytes) {
    for (group, bytes) in std::mem::take(from) {
        *to.entry(group).or_default() += bytes;
    }
}

/// Adds `ns` to the wait behind a group.
pub(super) fn add(behind: &mut Vec<(u32, i64)>, group: u32, ns: i64) {
    match behind.iter_mut().find(|(known, _)| *known == group) {
        Some((_, sum)) => *sum += ns,
        None if ns > 0 => behind.push((group, ns)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;
    const MS: i64 = 1_000_000;

    #[test]
    fn a_flush_waits_for_all_that_was_written_before_it() {
        let mut cached = CachedWrites::new(0);
        cached.wrote(1, 30 * MIB);
        cached.wrote(2, 10 * MIB);
        cached.flush_begins();
        cached.wrote(3, 100 * MIB);
        cached.flush_ends();
        let waits = cached.waits(80 * MS, 9, 100 * MS);
        assert_eq!(waits, [(1, 60 * MS), (2, 20 * MS)]);
        // Who waits for that flush, waits for the same.
        let mut behind = vec![(9, 50 * MS), (2, 7 * MS)];
        cached.divide(&mut behind);
        assert_eq!(behind, [(9, 10 * MS), (2, 17 * MS), (1, 30 * MS)]);
        cached.flush_begins();
        cached.flush_ends();
        let waits = cached.waits(80 * MS, 9, 100 * MS);
        assert_eq!(waits, [(3, 80 * MS)], "came during the first one");
        cached.flush_begins();
        cached.flush_ends();
        assert_eq!(cached.waits(80 * MS, 9, 100 * MS), [], "nothing is left");
    }

    #[test]
    fn little_that_was_written_explains_no_long_flush() {
        let mut cached = CachedWrites::new(0);
        cached.wrote(1, 50_000);
        cached.flush_begins();
        cached.flush_ends();
        assert_eq!(cached.waits(500 * MS, 9, 500 * MS), [(1, MS)]);
    }
}
