//! Finds control groups that read pages again after their memory limit had evicted them.
//!
//! A group at its memory limit evicts pages of files, and reads them again when they are needed. The kernel counts
//! both: how often the group was about to exceed the limit, and how many pages it read again (refaults). A29 in
//! `docs/analyses.md` has the definition.

use std::collections::BTreeMap;

use crate::analysis::stream::window::Window;
use crate::model::CgroupSample;

use super::{LimitMembers, is_at_or_below};

/// A control group that was at its memory limit and read evicted pages again.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryLimit {
    /// Path of the group that has the limit.
    pub path: String,
    /// Its id under cgroup v2; `None` under v1.
    pub cgroup: Option<i64>,
    /// The last known limit, in bytes.
    pub limit_bytes: i64,
    /// Whether the limit is `memory.high`; otherwise it is `memory.max`.
    pub is_high: bool,
    /// Bytes that were read again while the group hit its limit. A lower bound: what was before the first sample is not known.
    pub refaulted_bytes: i64,
    /// The intervals between two samples with such reads; adjacent ones are joined.
    pub intervals: Vec<Window>,
    members: LimitMembers,
}

impl MemoryLimit {
    /// The name of the limit's file.
    pub fn key(&self) -> &'static str {
        match (self.cgroup, self.is_high) {
            (None, _) => "memory.limit_in_bytes",
            (Some(_), true) => "memory.high",
            (Some(_), false) => "memory.max",
        }
    }

    /// Whether I/O of a process in a group is under this limit.
    pub fn is_for(&self, tgid: Option<i32>, cgroup: Option<i64>) -> bool {
        self.members.include(tgid, cgroup)
    }
}

/// The groups that read pages again inside `window` after their memory limit had evicted them. `samples` are all of
/// the recording.
pub fn memory_limits(samples: &[CgroupSample], window: Window) -> Vec<MemoryLimit> {
    let mut groups: BTreeMap<(&str, Option<i64>), Vec<&CgroupSample>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| limit_of(s).is_some()) {
        let version_2 = sample.tgid.is_none();
        let cgroup = sample.cgroup.filter(|_| version_2);
        groups
            .entry((&sample.path, cgroup))
            .or_default()
            .push(sample);
    }
    let mut limits = Vec::new();
    for ((path, cgroup), mut rows) in groups {
        rows.sort_by_key(|row| row.at_ns);
        let mut limit = MemoryLimit {
            path: path.to_owned(),
            cgroup,
            limit_bytes: 0,
            is_high: false,
            refaulted_bytes: 0,
            intervals: Vec::new(),
            members: LimitMembers::default(),
        };
        for pair in rows.windows(2) {
            limit.add(pair[0], pair[1], window);
        }
        if limit.refaulted_bytes == 0 {
            continue;
        }
        limit.find_members(samples);
        limits.push(limit);
    }
    limits
}

/// The lower limit in a group's row, in bytes, and whether it is `memory.high`.
fn limit_of(sample: &CgroupSample) -> Option<(i64, bool)> {
    let max = sample.memory_max.map(|bytes| (bytes, false));
    let high = sample.memory_high.map(|bytes| (bytes, true));
    max.into_iter().chain(high).min()
}

/// Growth of a counter; `None` if it has not grown, is not known, or was reset.
fn growth(before: Option<i64>, after: Option<i64>) -> Option<i64> {
    let growth = after? - before?;
    (growth > 0).then_some(growth)
}

impl MemoryLimit {
    /// Adds the bytes read again between two samples, if the limit was hit between them.
    fn add(&mut self, before: &CgroupSample, after: &CgroupSample, window: Window) {
        if let Some((bytes, is_high)) = limit_of(after) {
            self.limit_bytes = bytes;
            self.is_high = is_high;
        }
        let hits = growth(before.memory_limit_hits, after.memory_limit_hits);
        let refaulted_bytes = growth(before.refaulted_bytes, after.refaulted_bytes);
        let Some(refaulted_bytes) = refaulted_bytes.filter(|_| hits.is_some()) else {
            return;
        };
        // An interval that is partly inside the window counts in proportion.
        let interval = Window::new(before.at_ns, after.at_ns);
        let from_ns = interval.from_ns.max(window.from_ns);
        let to_ns = interval.to_ns.min(window.to_ns);
        if from_ns >= to_ns {
            return;
        }
        let share = (to_ns - from_ns) as f64 / interval.len_ns().max(1) as f64;
        self.refaulted_bytes += (refaulted_bytes as f64 * share) as i64;
        match self.intervals.last_mut() {
            Some(last) if last.to_ns == from_ns => last.to_ns = to_ns,
            _ => self.intervals.push(Window::new(from_ns, to_ns)),
        }
    }

    /// Under v1 a limit applies to the processes of the group, under v2 to all groups below it together.
    fn find_members(&mut self, samples: &[CgroupSample]) {
        for sample in samples {
            match sample.tgid {
                Some(tgid) if sample.path == self.path && self.cgroup.is_none() => {
                    self.members.processes.push(tgid);
                }
                None if is_at_or_below(&sample.path, &self.path) => {
                    self.members.cgroups.extend(sample.cgroup);
                }
                _ => {}
            }
        }
        self.members.processes.sort_unstable();
        self.members.processes.dedup();
        self.members.cgroups.sort_unstable();
        self.members.cgroups.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn sample(at_s: i64, hits: i64, refaulted_bytes: i64) -> CgroupSample {
        CgroupSample {
            at_ns: at_s * S,
            cgroup: Some(7),
            path: "/shop".to_owned(),
            memory_max: Some(64 << 20),
            memory_limit_hits: Some(hits),
            refaulted_bytes: Some(refaulted_bytes),
            ..CgroupSample::default()
        }
    }

    #[test]
    fn what_is_read_again_at_the_limit_is_counted() {
        let child = CgroupSample {
            cgroup: Some(8),
            path: "/shop/worker".to_owned(),
            ..CgroupSample::default()
        };
        let samples = [
            sample(0, 5, 1000),
            child,
            sample(10, 9, 5000),
            // Nothing is evicted for want of room here, then again.
            sample(20, 9, 6000),
            sample(30, 12, 8000),
        ];
        let limits = memory_limits(&samples, Window::OPEN);
        assert_eq!(limits.len(), 1);
        let limit = &limits[0];
        assert_eq!(limit.refaulted_bytes, 6000);
        assert_eq!(limit.limit_bytes, 64 << 20);
        assert_eq!(
            limit.intervals,
            [Window::new(0, 10 * S), Window::new(20 * S, 30 * S)]
        );
        assert!(limit.is_for(Some(1), Some(7)) && limit.is_for(None, Some(8)));
        assert!(!limit.is_for(Some(1), Some(9)));
        // Half of the first interval is in view.
        let half = memory_limits(&samples, Window::new(5 * S, 15 * S));
        assert_eq!(half[0].refaulted_bytes, 2000);
        assert_eq!(half[0].intervals, [Window::new(5 * S, 10 * S)]);
    }

    #[test]
    fn a_group_that_evicts_nothing_has_no_limit_to_blame() {
        // Pages were evicted because the machine was short of memory.
        let machine = [sample(0, 5, 0), sample(10, 5, 9000)];
        assert!(memory_limits(&machine, Window::OPEN).is_empty());
        // A group that reads a long file once meets its limit and reads nothing again.
        let stream = [sample(0, 5, 0), sample(10, 50, 0)];
        assert!(memory_limits(&stream, Window::OPEN).is_empty());
        // The counters of a group that was made anew begin at zero.
        let anew = [sample(0, 50, 9000), sample(10, 1, 0)];
        assert!(memory_limits(&anew, Window::OPEN).is_empty());
    }

    #[test]
    fn under_v1_processes_are_under_the_limit_and_the_lower_limit_counts() {
        let of_process = |at_s: i64, hits: i64, refaulted_bytes: i64| CgroupSample {
            tgid: Some(77),
            memory_high: Some(32 << 20),
            ..sample(at_s, hits, refaulted_bytes)
        };
        let samples = [of_process(1, 0, 0), of_process(9, 3, 400)];
        let limits = memory_limits(&samples, Window::OPEN);
        assert!(limits[0].is_high && limits[0].limit_bytes == 32 << 20);
        assert!(limits[0].is_for(Some(77), None));
        assert!(!limits[0].is_for(Some(78), Some(7)));
    }
}
