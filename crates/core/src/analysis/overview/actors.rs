//! I/O by process, control group and file, with its share of the device's I/O time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::model::{Class, Comm, DevId, Histogram, Inode, Io, Origin, bucket_at, rank};

/// Maximum number of actors of a kind that are kept apart at once. Those with the least I/O time beyond it become
/// "others".
const MAX_KEPT: usize = 2048;

/// Maximum number of actors of a kind in the result; the rest are "others".
const MAX_SHOWN: usize = 200;

/// Maximum number of process ids remembered for an actor.
const MAX_PIDS: usize = 64;

/// The actor of I/O. `None` inside: not known to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActorKey {
    /// All processes of one name whose I/O came about in the same way.
    Process(Option<Comm>, Origin),
    /// A control group, by its id.
    Cgroup(Option<i64>),
    /// A file.
    File(Option<Inode>),
    /// All other processes, control groups or files (0, 1, 2).
    Others(u8),
}

impl ActorKey {
    /// 0 for processes, 1 for control groups, 2 for files.
    pub fn kind(self) -> usize {
        match self {
            ActorKey::Process(..) => 0,
            ActorKey::Cgroup(_) => 1,
            ActorKey::File(_) => 2,
            ActorKey::Others(kind) => usize::from(kind),
        }
    }

    fn is_known(self) -> bool {
        !matches!(
            self,
            ActorKey::Process(None, _) | ActorKey::Cgroup(None) | ActorKey::File(None)
        )
    }
}

/// Reads or writes of one actor; latencies start to done, percentiles within 1/32.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActorFlow {
    /// Completed I/Os: n of the latencies.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// 99th percentile, nearest rank, within 1/32.
    pub p99_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
}

/// I/O of one actor on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorSummary {
    /// The actor.
    pub key: ActorKey,
    /// Where; `None` for others, who may have been on several.
    pub dev: Option<DevId>,
    /// Process ids, the lowest first, at most 64; of a control group or file those who caused its I/O.
    pub pids: Vec<i32>,
    /// Reads.
    pub read: ActorFlow,
    /// Writes.
    pub write: ActorFlow,
    /// Sum of the latencies of all its I/Os in percent of that of all I/Os of the device; `None` for others.
    pub time_percent: Option<f64>,
}

/// Sums of one class of I/O of one actor.
#[derive(Debug, Clone, Default)]
struct ClassFlow {
    ios: u64,
    bytes: u64,
    max_ns: i64,
    sum_ns: i64,
    /// Buckets of [`Histogram::index`] in groups of 8, that is sixteen per octave, so that thousands of actors stay
    /// small.
    buckets: Vec<u32>,
}

const GROUP: usize = 8;

impl ClassFlow {
    fn add(&mut self, bytes: i64, total_ns: i64) {
        self.ios += 1;
        self.bytes += bytes.max(0) as u64;
        self.max_ns = self.max_ns.max(total_ns);
        self.sum_ns = self.sum_ns.saturating_add(total_ns.max(0));
        let at = Histogram::index(total_ns) / GROUP;
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] = self.buckets[at].saturating_add(1);
    }

    fn merge(&mut self, other: &ClassFlow) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a = a.saturating_add(*b);
        }
    }

    fn p99_us(&self) -> Option<f64> {
        let counts = self.buckets.iter().map(|c| u64::from(*c));
        let n: u64 = counts.clone().sum();
        let at = bucket_at(counts, rank(0.99, n))?;
        let low = Histogram::bounds(at * GROUP).0;
        let high = Histogram::bounds(at * GROUP + GROUP - 1).1;
        Some((((low + high - 1) as f64 / 2.0).min(self.max_ns as f64)) / 1e3)
    }

    fn summary(&self) -> ActorFlow {
        let some = self.ios > 0;
        ActorFlow {
            ios: self.ios,
            bytes: self.bytes,
            mean_us: some.then(|| self.sum_ns as f64 / self.ios as f64 / 1e3),
            p99_us: self.p99_us(),
            max_us: some.then(|| self.max_ns as f64 / 1e3),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct SlotSums {
    pids: BTreeSet<i32>,
    read: ClassFlow,
    write: ClassFlow,
    /// Flushes and discards count only as I/O time.
    other_ns: i64,
}

impl SlotSums {
    fn add(&mut self, io: &Io) {
        if let Some(tgid) = io.tgid
            && self.pids.len() < MAX_PIDS
        {
            self.pids.insert(tgid);
        }
        match io.class() {
            Class::Read => self.read.add(io.bytes, io.total_ns()),
            Class::Write => self.write.add(io.bytes, io.total_ns()),
            Class::Flush | Class::Discard => {
                self.other_ns = self.other_ns.saturating_add(io.total_ns().max(0))
            }
        }
    }

    fn merge(&mut self, other: &SlotSums) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.other_ns = self.other_ns.saturating_add(other.other_ns);
    }

    fn time_ns(&self) -> i64 {
        self.read
            .sum_ns
            .saturating_add(self.write.sum_ns)
            .saturating_add(self.other_ns)
    }
}

type Who = (ActorKey, DevId);

/// SlotActors of one kind.
#[derive(Debug, Default)]
struct ActorsOfKind {
    numbers: HashMap<Who, usize>,
    sums: Vec<(Who, SlotSums)>,
    /// The actor of the previous I/O; I/Os of one actor often come in sequence.
    last: Option<(Who, usize)>,
    others: SlotSums,
}

impl ActorsOfKind {
    fn add(&mut self, who: Who, io: &Io) {
        let at = match self.last {
            Some((last, at)) if last == who => at,
            _ => self.number(who),
        };
        self.last = Some((who, at));
        self.sums[at].1.add(io);
    }

    fn number(&mut self, who: Who) -> usize {
        if let Some(at) = self.numbers.get(&who) {
            return *at;
        }
        if self.sums.len() >= MAX_KEPT {
            self.shrink(MAX_KEPT / 2);
        }
        self.numbers.insert(who, self.sums.len());
        self.sums.push((who, SlotSums::default()));
        self.sums.len() - 1
    }

    /// Keeps the `keep` actors with the most I/O time.
    fn shrink(&mut self, keep: usize) {
        self.sums
            .sort_by_key(|(who, s)| (std::cmp::Reverse(s.time_ns()), *who));
        for (_, s) in self.sums.drain(keep.min(self.sums.len())..) {
            self.others.merge(&s);
        }
        self.numbers = self
            .sums
            .iter()
            .enumerate()
            .map(|(i, (who, _))| (*who, i))
            .collect();
        self.last = None;
    }

    fn finish(mut self, kind: u8, device_ns: &BTreeMap<DevId, i64>) -> Vec<ActorSummary> {
        self.shrink(MAX_SHOWN);
        if !self.sums.iter().any(|((key, _), _)| key.is_known()) {
            return Vec::new();
        }
        let mut out: Vec<ActorSummary> = self
            .sums
            .into_iter()
            .map(|((key, dev), s)| {
                let all = device_ns.get(&dev).copied().filter(|ns| *ns > 0);
                let percent = all.map(|ns| 100.0 * s.time_ns() as f64 / ns as f64);
                summary(key, Some(dev), &s, percent)
            })
            .collect();
        if self.others.time_ns() > 0 || self.others.read.ios + self.others.write.ios > 0 {
            out.push(summary(ActorKey::Others(kind), None, &self.others, None));
        }
        out
    }
}

fn summary(
    key: ActorKey,
    dev: Option<DevId>,
    s: &SlotSums,
    time_percent: Option<f64>,
) -> ActorSummary {
    let pids = s.pids.iter().copied().collect();
    ActorSummary {
        key,
        dev,
        pids,
        read: s.read.summary(),
        write: s.write.summary(),
        time_percent,
    }
}

/// Accumulates [`ActorSummary`]s. Memory: at most 2048 actors of each kind.
#[derive(Debug, Default)]
pub(super) struct SlotActors {
    kinds: [ActorsOfKind; 3],
    device_ns: BTreeMap<DevId, i64>,
}

impl SlotActors {
    pub(super) fn add(&mut self, io: &Io) {
        let sum = self.device_ns.entry(io.dev).or_default();
        *sum = sum.saturating_add(io.total_ns().max(0));
        let [process, cgroup, file] = &mut self.kinds;
        process.add((ActorKey::Process(io.comm, io.origin), io.dev), io);
        cgroup.add((ActorKey::Cgroup(io.cgroup), io.dev), io);
        file.add((ActorKey::File(io.inode()), io.dev), io);
    }

    /// Returns processes, control groups and files, each with the most I/O time first. A kind for which the source
    /// knows no actor is left out.
    pub(super) fn finish(self) -> Vec<ActorSummary> {
        let device_ns = self.device_ns;
        self.kinds
            .into_iter()
            .zip(0u8..)
            .flat_map(|(kind, i)| kind.finish(i, &device_ns))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;

    fn io(dev: i32, comm: &[u8], tgid: i32, op: Op, total_ns: i64) -> Io {
        Io {
            comm: Some(Comm::new(comm)),
            tgid: Some(tgid),
            origin: Origin::Direct,
            ..Io::new(0, DevId(dev), op, 4096, Some(0), total_ns)
        }
    }

    fn run(ios: &[Io]) -> Vec<ActorSummary> {
        let mut actors = SlotActors::default();
        ios.iter().for_each(|io| actors.add(io));
        actors.finish()
    }

    #[test]
    fn processes_of_one_name_are_one_actor_per_device() {
        let got = run(&[
            io(1, b"pg", 7, Op::READ, 1000),
            io(1, b"pg", 9, Op::READ, 3000),
            io(1, b"dd", 3, Op::WRITE, 12_000),
            io(2, b"pg", 7, Op::FLUSH, 500),
        ]);
        let rows: Vec<_> = got
            .iter()
            .map(|a| {
                (
                    a.dev,
                    a.pids.clone(),
                    a.read.ios,
                    a.write.ios,
                    a.time_percent,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (Some(DevId(1)), vec![3], 0, 1, Some(75.0)),
                (Some(DevId(1)), vec![7, 9], 2, 0, Some(25.0)),
                (Some(DevId(2)), vec![7], 0, 0, Some(100.0)),
            ]
        );
        assert_eq!(
            (
                got[1].read.mean_us,
                got[1].read.max_us,
                got[1].write.mean_us
            ),
            (Some(2.0), Some(3.0), None)
        );
        let p99 = got[1].read.p99_us.expect("a percentile");
        assert!((p99 / 3.0 - 1.0).abs() < 1.0 / 32.0, "{p99}");
        assert!(
            got.iter().all(|a| a.key.kind() == 0),
            "nothing is known of control groups and files"
        );
    }

    #[test]
    fn what_is_not_known_stands_beside_what_is() {
        let known = Io {
            cgroup: Some(5),
            ..io(1, b"a", 1, Op::READ, 10)
        };
        let got = run(&[known, io(1, b"a", 1, Op::READ, 30)]);
        let cgroups: Vec<_> = got
            .iter()
            .filter(|a| a.key.kind() == 1)
            .map(|a| (a.key, a.time_percent))
            .collect();
        assert_eq!(
            cgroups,
            [
                (ActorKey::Cgroup(None), Some(75.0)),
                (ActorKey::Cgroup(Some(5)), Some(25.0))
            ]
        );
    }

    #[test]
    fn a_flood_of_actors_stays_bounded_and_nothing_is_forgotten() {
        let file = |ino: i64, ns: i64| Io {
            fs_dev: Some(1),
            ino: Some(ino),
            ..io(1, b"find", 1, Op::READ, ns)
        };
        let mut ios: Vec<Io> = (0..10_000).map(|i| file(i, 10)).collect();
        (0..20_000).for_each(|_| ios.push(file(77_777, 1000)));
        let got = run(&ios);
        let files: Vec<_> = got.iter().filter(|a| a.key.kind() == 2).collect();
        assert!(files.len() <= MAX_SHOWN + 1);
        assert_eq!(
            files[0].key,
            ActorKey::File(Some(Inode {
                fs_dev: 1,
                ino: 77_777,
                generation: None
            }))
        );
        assert_eq!(files.iter().map(|a| a.read.ios).sum::<u64>(), 30_000);
        assert_eq!(files.last().map(|a| a.key), Some(ActorKey::Others(2)));
    }
}
