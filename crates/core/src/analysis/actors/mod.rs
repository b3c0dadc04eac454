//! Who did the I/O (A27): for each device, class, process name and control group the I/O time, latencies and most used files.
//!
//! Processes of one name in one control group are a group. A process has a row of its own if it took a tenth of its group's I/O
//! time, the others of the group share one: two copies of `dd` are separate rows, three hundred of `postgres` are one row beside
//! the one that does most. Memory does not grow with I/Os or processes.

mod top_files;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use foldhash::HashMap;

use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Histogram, Io};

pub use top_files::FileUse;
use top_files::TopFiles;

/// Processes (on one device, in one class) that are counted apart at once.
const MAX_PROCESSES: usize = 1024;
/// Groups whose smaller processes are counted together at once.
const MAX_GROUPS: usize = 1024;
/// Rows of the answer.
const MAX_ROWS: usize = 200;
/// Process ids remembered of those that share a row.
const MAX_PIDS: usize = 4096;
/// Files named in a row.
const MAX_FILES: usize = 3;
/// A process has a row of its own from this share of its group's I/O time on.
const OWN_ROW_SHARE: f64 = 0.1;

/// The common properties of the processes of a row. `None`: not known to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorGroup {
    /// The device.
    pub dev: DevId,
    /// Reads, writes, discards or flushes.
    pub class: Class,
    /// The process name.
    pub comm: Option<Comm>,
    /// The control group's id.
    pub cgroup: Option<i64>,
}

/// Groups are looked up for each I/O. Those of one device that differ in nothing but the name are few, so it is left out.
impl Hash for ActorGroup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.dev.0 as u32) << 8 | self.class as u64);
        state.write_u64(self.cgroup.unwrap_or(-1) as u64);
    }
}

/// One process, or several of a group, on one device in one class.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorRow {
    /// The group of the row.
    pub group: ActorGroup,
    /// Their process ids, the lowest first; at most 4096.
    pub pids: Vec<i32>,
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Sum of their latencies, start to done.
    pub io_time_ns: i64,
    /// Median latency, within 0.4 %.
    pub p50_ns: i64,
    /// 99th percentile, within 0.4 %.
    pub p99_ns: i64,
    /// At most three files, those with most I/O time first.
    pub files: Vec<FileUse>,
}

/// Sums of the I/Os that no row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherActors {
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Sum of their latencies, start to done.
    pub io_time_ns: i64,
}

/// The table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActorTable {
    /// Those with most I/O time first, at most 200.
    pub rows: Vec<ActorRow>,
    /// All I/Os beyond the rows.
    pub others: OtherActors,
}

/// Latencies that are counted at once: the buckets of many processes do not fit the cache, those of one do.
const LATENCIES_AT_ONCE: usize = 64;

/// I/Os of one process, or of several.
#[derive(Debug, Default)]
struct Usage {
    latencies: Histogram,
    /// Of the latest I/Os, which `latencies` does not have yet.
    latest_ns: Vec<i64>,
    bytes: u64,
    files: TopFiles,
    pids: BTreeSet<i32>,
}

impl Usage {
    fn push(&mut self, io: &Io) {
        if self.latest_ns.len() == LATENCIES_AT_ONCE {
            self.count_latest();
        }
        self.latest_ns.push(io.total_ns());
        self.bytes += io.bytes.max(0) as u64;
        self.files.push(io);
    }

    /// Counts the latest latencies. Call it before `latencies` are looked at.
    fn count_latest(&mut self) {
        for ns in self.latest_ns.drain(..) {
            self.latencies.add(ns);
        }
    }

    fn merge(&mut self, other: &Usage) {
        self.latencies.merge(&other.latencies);
        self.bytes += other.bytes;
        self.files.merge(&other.files);
        for pid in &other.pids {
            if self.pids.len() >= MAX_PIDS {
                break;
            }
            self.pids.insert(*pid);
        }
    }

    fn io_time_ns(&self) -> i64 {
        i64::try_from(self.latencies.sum()).unwrap_or(i64::MAX)
    }
}

impl OtherActors {
    fn add(&mut self, usage: &Usage) {
        self.ios += usage.latencies.n();
        self.bytes += usage.bytes;
        self.io_time_ns = self.io_time_ns.saturating_add(usage.io_time_ns());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ProcessKey {
    group: ActorGroup,
    tgid: Option<i32>,
}

impl Hash for ProcessKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.group.hash(state);
        state.write_u32(self.tgid.unwrap_or(-1) as u32);
    }
}

/// Accumulates an [`ActorTable`].
#[derive(Debug)]
pub(in crate::analysis) struct Actors {
    window: Window,
    places: HashMap<ProcessKey, usize>,
    processes: Vec<(ProcessKey, Usage)>,
    /// Key and place of the I/O before: I/Os often come in runs.
    last: Option<(ProcessKey, usize)>,
    /// The smaller processes of groups, where there were too many to count them apart.
    groups: HashMap<ActorGroup, Usage>,
    others: OtherActors,
}

impl Actors {
    pub fn new(window: Window) -> Actors {
        Actors {
            window,
            places: HashMap::default(),
            processes: Vec::new(),
            last: None,
            groups: HashMap::default(),
            others: OtherActors::default(),
        }
    }

    fn push(&mut self, io: &Io) {
        if !self.window.contains(io.done_ns) {
            return;
        }
        let group = ActorGroup {
            dev: io.dev,
            class: io.class(),
            comm: io.comm,
            cgroup: io.cgroup,
        };
        let key = ProcessKey {
            group,
            tgid: io.tgid,
        };
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => self.place_of(key),
        };
        self.last = Some((key, at));
        self.processes[at].1.push(io);
    }

    fn place_of(&mut self, key: ProcessKey) -> usize {
        if let Some(at) = self.places.get(&key) {
            return *at;
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.merge_smaller_half();
        }
        let at = self.processes.len();
        let mut usage = Usage::default();
        usage.pids.extend(key.tgid);
        self.places.insert(key, at);
        self.processes.push((key, usage));
        at
    }

    /// Makes room: the half of the processes with less I/O time is from now on counted with others of its group, and the
    /// smallest of too many groups with all others.
    fn merge_smaller_half(&mut self) {
        self.count_latest();
        self.processes
            .sort_by_key(|(key, usage)| (Reverse(usage.io_time_ns()), *key));
        for (key, usage) in self.processes.drain(MAX_PROCESSES / 2..) {
            self.groups.entry(key.group).or_default().merge(&usage);
        }
        self.places.clear();
        for (at, (key, _)) in self.processes.iter().enumerate() {
            self.places.insert(*key, at);
        }
        self.last = None;
        if self.groups.len() <= MAX_GROUPS {
            return;
        }
        let mut groups: Vec<(ActorGroup, Usage)> = self.groups.drain().collect();
        groups.sort_by_key(|(group, usage)| (Reverse(usage.io_time_ns()), *group));
        for (_, usage) in groups.drain(MAX_GROUPS / 2..) {
            self.others.add(&usage);
        }
        self.groups.extend(groups);
    }

    fn count_latest(&mut self) {
        for (_, usage) in &mut self.processes {
            usage.count_latest();
        }
    }

    /// The table.
    pub fn finish(mut self) -> ActorTable {
        self.count_latest();
        let mut group_ns: HashMap<ActorGroup, i64> = HashMap::default();
        let of_processes = self.processes.iter().map(|(key, usage)| (key.group, usage));
        let of_groups = self.groups.iter().map(|(group, usage)| (*group, usage));
        for (group, usage) in of_processes.chain(of_groups) {
            let sum = group_ns.entry(group).or_default();
            *sum = sum.saturating_add(usage.io_time_ns());
        }
        let mut rows = Vec::new();
        for (key, usage) in self.processes {
            let all_ns = group_ns.get(&key.group).copied().unwrap_or(0);
            if usage.io_time_ns() as f64 >= OWN_ROW_SHARE * all_ns as f64 {
                rows.push(row(key.group, usage));
            } else {
                self.groups.entry(key.group).or_default().merge(&usage);
            }
        }
        for (group, usage) in self.groups {
            rows.push(row(group, usage));
        }
        rows.sort_by_key(|row| {
            (
                Reverse(row.io_time_ns),
                row.group,
                row.pids.first().copied(),
            )
        });
        let mut others = self.others;
        for row in rows.drain(MAX_ROWS.min(rows.len())..) {
            others.ios += row.ios;
            others.bytes += row.bytes;
            others.io_time_ns = others.io_time_ns.saturating_add(row.io_time_ns);
        }
        ActorTable { rows, others }
    }
}

impl Consumer for Actors {
    fn consume(&mut self, ios: &[Io], _: i64) {
        ios.iter().for_each(|io| self.push(io));
    }
}

fn row(group: ActorGroup, usage: Usage) -> ActorRow {
    ActorRow {
        group,
        ios: usage.latencies.n(),
        bytes: usage.bytes,
        io_time_ns: usage.io_time_ns(),
        p50_ns: usage.latencies.quantile(0.5).unwrap_or(0),
        p99_ns: usage.latencies.quantile(0.99).unwrap_or(0),
        pids: usage.pids.into_iter().collect(),
        files: usage.files.finish(MAX_FILES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;

    fn io(comm: &[u8], tgid: i32, cgroup: i64, op: Op, total_ns: i64) -> Io {
        Io {
            comm: Some(Comm::new(comm)),
            tgid: Some(tgid),
            cgroup: Some(cgroup),
            fs_dev: Some(1),
            ino: Some(i64::from(tgid)),
            ..Io::new(0, DevId(1), op, 4096, Some(0), total_ns)
        }
    }

    fn table(ios: &[Io]) -> ActorTable {
        let mut actors = Actors::new(Window::OPEN);
        actors.consume(ios, i64::MIN);
        actors.finish()
    }

    fn total(table: &ActorTable) -> (u64, i64) {
        let mut ios = table.others.ios;
        let mut io_time_ns = table.others.io_time_ns;
        for row in &table.rows {
            ios += row.ios;
            io_time_ns += row.io_time_ns;
        }
        (ios, io_time_ns)
    }

    #[test]
    fn tenants_of_one_process_name_are_told_apart_and_the_worst_is_first() {
        let mut ios = Vec::new();
        for i in 0..100 {
            ios.push(io(b"worker", 10, 1, Op::READ, 1000 + i));
            ios.push(io(b"worker", 20, 2, Op::READ, 9000 + i));
            ios.push(io(b"worker", 20, 2, Op::WRITE, 10));
        }
        let table = table(&ios);
        let who: Vec<_> = table
            .rows
            .iter()
            .map(|r| (r.group.cgroup, r.group.class, r.pids.clone(), r.ios))
            .collect();
        assert_eq!(
            who,
            [
                (Some(2), Class::Read, vec![20], 100),
                (Some(1), Class::Read, vec![10], 100),
                (Some(2), Class::Write, vec![20], 100),
            ]
        );
        let worst = &table.rows[0];
        assert_eq!(worst.io_time_ns, 904_950);
        assert_eq!(worst.bytes, 409_600);
        assert!((worst.p50_ns - 9049).abs() <= 9049 / 256, "{worst:?}");
        assert!((worst.p99_ns - 9098).abs() <= 9098 / 256, "{worst:?}");
        assert_eq!((worst.files[0].file.ino, worst.files[0].ios), (20, 100));
    }

    #[test]
    fn many_processes_of_a_group_share_a_row_beside_the_one_that_does_most() {
        let mut ios = Vec::new();
        for i in 0..3000 {
            ios.push(io(b"postgres", 100 + i % 300, 5, Op::READ, 100));
            ios.push(io(b"postgres", 7, 5, Op::READ, 1000));
        }
        let table = table(&ios);
        let rows: Vec<_> = table.rows.iter().map(|r| (r.pids.len(), r.ios)).collect();
        assert_eq!(rows, [(1, 3000), (300, 3000)]);
        assert_eq!(table.rows[0].pids, [7]);
    }

    #[test]
    fn a_flood_of_processes_stays_bounded_and_every_io_is_counted() {
        let mut ios = Vec::new();
        for i in 0..20_000 {
            ios.push(io(b"cat", 1000 + i, 5, Op::READ, 50));
            let name = format!("job-{i}");
            ios.push(io(name.as_bytes(), 50_000 + i, 6, Op::WRITE, 20));
        }
        let table = table(&ios);
        assert_eq!(table.rows.len(), MAX_ROWS);
        assert_eq!(total(&table), (40_000, 20_000 * 70));
        let cat = &table.rows[0];
        assert_eq!(
            cat.group.comm,
            Some(Comm::new(b"cat")),
            "one row: {:?}",
            cat.pids.len()
        );
        assert!(cat.ios > 19_000, "{}", cat.ios);
    }

    #[test]
    fn ios_outside_the_window_belong_to_no_one() {
        let mut actors = Actors::new(Window::new(10, 20));
        for done_ns in [9, 10, 19, 20] {
            let mut own = io(b"dd", 3, 1, Op::WRITE, 5);
            own.done_ns = done_ns;
            actors.push(&own);
        }
        assert_eq!(total(&actors.finish()), (2, 10));
    }
}
