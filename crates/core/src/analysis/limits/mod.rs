//! Finds control groups that were throttled by their own limit, of I/O (here) or of memory ([`memory_limits`]).
//!
//! The rate of a throttled group is constant at its `io.max`, and its tasks wait for I/O that has not reached the block
//! layer.
//!
//! The limit delays I/O before the block layer accounts it, so no I/O shows the wait. Two signs do: completions come
//! at the rate of the limit, second after second, and the group's pressure (PSI) shows that tasks wait for I/O while
//! none of its I/Os is in flight. A29 in `docs/analyses.md` has the definition.

mod busy;
mod memory;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::window::Window;
use crate::model::{CgroupSample, Class, DevId, Io, KernelThread, TimeGrid};

use busy::BusyTime;
pub use memory::{MemoryLimit, memory_limits};

/// Minimum length of a bin in which rates are measured.
const BINS: TimeGrid = TimeGrid::SECONDS;
const BIN_NS: i64 = BINS.step_ns;

/// Maximum relative difference between a rate and the limit that it is at.
const TOLERANCE: f64 = 0.1;

/// Minimum number of the largest I/Os per bin: one more or less is then within half of the tolerance.
const MIN_IOS_PER_BIN: f64 = 20.0;

/// Maximum length of a bin, in seconds: lower limits than this allows for cannot be judged.
const MAX_BIN_S: i64 = 60;

/// Requests that start within this time may be charged together.
const TOGETHER_NS: i64 = 2_000_000;

/// Minimum number of bins in a row that make a flat rate.
const MIN_FLAT_BINS: usize = 3;

/// A group waits if at least one of its tasks waits for I/O in this share of the time,
const MIN_WAITED_SHARE: f64 = 0.25;

/// and if no I/O of its own is in flight during this share of the wait.
const MIN_UNSEEN_SHARE: f64 = 0.25;

/// The rate of a group's I/O that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitedRate {
    /// Bytes read per second (`rbps`).
    ReadBytes,
    /// Bytes written per second (`wbps`).
    WriteBytes,
    /// Reads per second (`riops`).
    ReadIos,
    /// Writes per second (`wiops`).
    WriteIos,
}

impl LimitedRate {
    /// All rates.
    pub const ALL: [LimitedRate; 4] = [
        LimitedRate::ReadBytes,
        LimitedRate::WriteBytes,
        LimitedRate::ReadIos,
        LimitedRate::WriteIos,
    ];

    /// The key of `io.max`.
    pub fn key(self) -> &'static str {
        match self {
            LimitedRate::ReadBytes => "rbps",
            LimitedRate::WriteBytes => "wbps",
            LimitedRate::ReadIos => "riops",
            LimitedRate::WriteIos => "wiops",
        }
    }

    /// The file of a control group of v1 that holds it.
    pub fn v1_file(self) -> &'static str {
        match self {
            LimitedRate::ReadBytes => "blkio.throttle.read_bps_device",
            LimitedRate::WriteBytes => "blkio.throttle.write_bps_device",
            LimitedRate::ReadIos => "blkio.throttle.read_iops_device",
            LimitedRate::WriteIos => "blkio.throttle.write_iops_device",
        }
    }

    /// Whether it limits the number of I/Os, not their bytes.
    pub fn is_of_ios(self) -> bool {
        matches!(self, LimitedRate::ReadIos | LimitedRate::WriteIos)
    }

    /// Class of the I/Os that it limits.
    pub fn class(self) -> Class {
        match self {
            LimitedRate::ReadBytes | LimitedRate::ReadIos => Class::Read,
            LimitedRate::WriteBytes | LimitedRate::WriteIos => Class::Write,
        }
    }

    fn limit(self, sample: &CgroupSample) -> Option<i64> {
        match self {
            LimitedRate::ReadBytes => sample.read_bytes_per_s,
            LimitedRate::WriteBytes => sample.write_bytes_per_s,
            LimitedRate::ReadIos => sample.read_ios_per_s,
            LimitedRate::WriteIos => sample.write_ios_per_s,
        }
    }

    /// The amount that the kernel charges for an I/O. Limits of I/Os count bios; a request has one more than it has
    /// merges.
    fn charge(self, io: &Io) -> i64 {
        match self {
            LimitedRate::ReadBytes | LimitedRate::WriteBytes => io.bytes,
            LimitedRate::ReadIos | LimitedRate::WriteIos => {
                1 + i64::from(io.merges.unwrap_or(0).max(0))
            }
        }
    }
}

/// Whether a group was throttled by a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// Its rate is flat at the limit, and its tasks wait for I/O that is not in the block layer.
    Yes,
    /// Its rate is flat at the limit; whether it waits is not known, since the kernel does not report it.
    Probably,
    /// Its rate is at the limit, but its tasks do not wait, or only for I/O in flight on the device.
    NotWaiting,
    /// Its rate was not flat at the limit for long enough.
    No,
}

/// The control groups whose I/O counts for a limit.
#[derive(Debug, Clone, Default, PartialEq)]
struct LimitMembers {
    /// Groups, by their ids.
    cgroups: Vec<i64>,
    /// Processes, under cgroup v1.
    processes: Vec<i32>,
}

impl LimitMembers {
    fn include(&self, tgid: Option<i32>, cgroup: Option<i64>) -> bool {
        let is_in_group = cgroup.is_some_and(|id| self.cgroups.contains(&id));
        is_in_group || tgid.is_some_and(|tgid| self.processes.contains(&tgid))
    }
}

/// One limit of one control group on one device, and the measured rate.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnLimit {
    /// Path of the group that has the limit. I/O of the groups below it counts, too.
    pub path: String,
    /// Its id under cgroup v2.
    pub cgroup: Option<i64>,
    /// The device.
    pub dev: DevId,
    /// The limited rate.
    pub rate: LimitedRate,
    /// The last known limit, per second.
    pub limit_per_s: i64,
    /// Mean rate while it was flat at the limit, per second; if it never was, over all its time with I/O.
    pub rate_per_s: f64,
    /// The intervals in which the rate was flat at the limit.
    pub flat: Vec<Window>,
    /// Share of the time in which at least one task of the group waited for I/O, over the samples of its pressure
    /// that are at least half flat; `None` if that is not known.
    pub waited_share: Option<f64>,
    /// Share of that wait in which none of the group's I/Os was in flight: what it waited for was held above the block layer.
    pub unseen_share: Option<f64>,
    /// Whether the limit throttled the group.
    pub held: Held,
    /// Time for which its I/O was held back, in nanoseconds: the wait while none of it was in flight, over the samples of its
    /// pressure that are at least half flat. If that is not known, the flat time in which none was in flight. A lower bound.
    pub held_ns: i64,
    members: LimitMembers,
}

impl OwnLimit {
    /// Whether the I/O of a process in a group is under this limit.
    pub fn is_for(&self, tgid: Option<i32>, cgroup: Option<i64>) -> bool {
        self.members.include(tgid, cgroup)
    }

    /// Time in which the rate was flat at the limit, in nanoseconds.
    pub fn flat_ns(&self) -> i64 {
        self.flat.iter().map(Window::len_ns).sum()
    }

    /// Time of `window` in which the rate was flat at the limit, in nanoseconds.
    pub fn flat_ns_in(&self, window: Window) -> i64 {
        let mut sum_ns = 0;
        for flat in &self.flat {
            let from_ns = flat.from_ns.max(window.from_ns);
            let to_ns = flat.to_ns.min(window.to_ns);
            sum_ns += (to_ns - from_ns).max(0);
        }
        sum_ns
    }
}

/// Measures the rates of all groups that have limits.
#[derive(Debug)]
pub struct OwnLimitsBuilder {
    window: Window,
    groups: Vec<LimitedGroup>,
    /// Indices in `groups` for which an I/O counts, by its cgroup (v2) and by its process (v1).
    by_cgroup: HashMap<i64, Vec<usize>>,
    by_process: HashMap<i32, Vec<usize>>,
    /// Devices on which a single group of v1 has a limit, and its index.
    alone_on: Vec<(DevId, usize)>,
}

/// A group that limits its rate on some device.
#[derive(Debug)]
struct LimitedGroup {
    path: String,
    cgroup: Option<i64>,
    /// Rows with limits, in order of time.
    limits: Vec<CgroupSample>,
    /// The v2 group whose pressure is known: the group itself, or under v1 that of its first process.
    pressure_of: Option<i64>,
    /// (time of a sample, total wait of its tasks up to then) in nanoseconds, in order of time.
    waited: Vec<(i64, i64)>,
    busy: BusyTime,
    members: LimitMembers,
    rates: BTreeMap<(DevId, LimitedRate), Rate>,
}

/// The amount charged in each second with I/O, by the number of the second.
#[derive(Debug, Default)]
struct Rate {
    bins: Vec<(i64, i64)>,
    /// Highest charge of one request, and of requests that start together.
    max_charge: i64,
    max_together: i64,
    /// Start of the first of the latest requests that start together, and their charge.
    together_from_ns: i64,
    together: i64,
}

impl Rate {
    /// Requests that start together may have passed the limit at once: a bio of some megabytes becomes many requests.
    fn add(&mut self, bin: i64, charge: i64, start_ns: i64) {
        if (start_ns - self.together_from_ns).abs() > TOGETHER_NS {
            self.together_from_ns = start_ns;
            self.together = 0;
        }
        self.together += charge;
        self.max_charge = self.max_charge.max(charge);
        self.max_together = self.max_together.max(self.together);
        // I/Os come in order of completion, so only the last bin grows.
        match self.bins.last_mut() {
            Some(last) if last.0 >= bin => last.1 += charge,
            _ => self.bins.push((bin, charge)),
        }
    }

    /// Sums over aligned bins of `bin_s` seconds, by the number of the wider bin.
    fn widened(&self, bin_s: i64) -> Vec<(i64, i64)> {
        let mut wide: Vec<(i64, i64)> = Vec::new();
        for (bin, charge) in &self.bins {
            let number = bin.div_euclid(bin_s);
            match wide.last_mut() {
                Some(last) if last.0 == number => last.1 += charge,
                _ => wide.push((number, *charge)),
            }
        }
        wide
    }
}

impl OwnLimitsBuilder {
    /// For I/Os that complete in `window`, of groups that have limits. `samples` are all of the recording.
    pub fn new(samples: &[CgroupSample], window: Window) -> OwnLimitsBuilder {
        let mut builder = OwnLimitsBuilder {
            window,
            groups: Vec::new(),
            by_cgroup: HashMap::new(),
            by_process: HashMap::new(),
            alone_on: Vec::new(),
        };
        for sample in samples.iter().filter(|s| s.limits_rate()) {
            builder.add_limit(sample);
        }
        let mut members = BTreeSet::new();
        for sample in samples {
            builder.add_member(sample, &mut members);
        }
        builder.alone_on = alone_on(&builder.groups);
        for group in &mut builder.groups {
            group.limits.sort_by_key(|l| l.at_ns);
            group.waited.sort_unstable();
            group.waited.dedup_by_key(|w| w.0);
        }
        builder
    }

    /// Whether there is nothing to measure: no group has a limit.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn add_limit(&mut self, sample: &CgroupSample) {
        let version_2 = sample.tgid.is_none();
        let cgroup = sample.cgroup.filter(|_| version_2);
        let known = self
            .groups
            .iter_mut()
            .find(|g| g.path == sample.path && g.cgroup == cgroup);
        match known {
            Some(group) => group.limits.push(sample.clone()),
            None => self.groups.push(LimitedGroup {
                path: sample.path.clone(),
                cgroup,
                limits: vec![sample.clone()],
                pressure_of: cgroup,
                waited: Vec::new(),
                busy: BusyTime::default(),
                members: LimitMembers::default(),
                rates: BTreeMap::new(),
            }),
        }
    }

    /// Notes for which limited groups the I/Os of a group count, and the wait of a limited group itself.
    fn add_member(
        &mut self,
        sample: &CgroupSample,
        members: &mut BTreeSet<(Option<i32>, Option<i64>)>,
    ) {
        for group in &mut self.groups {
            let Some(waited_ns) = sample.io_some_ns.filter(|_| group.path == sample.path) else {
                continue;
            };
            group.pressure_of = group.pressure_of.or(sample.cgroup);
            if group.pressure_of == sample.cgroup {
                group.waited.push((sample.at_ns, waited_ns));
            }
        }
        let cgroup = sample.cgroup.filter(|_| sample.tgid.is_none());
        if !members.insert((sample.tgid, cgroup)) {
            return;
        }
        for (number, group) in self.groups.iter_mut().enumerate() {
            // Under v1 a limit applies to the group alone, under v2 to all groups below it together.
            let counts = match sample.tgid {
                Some(_) => group.path == sample.path,
                None => is_at_or_below(&sample.path, &group.path),
            };
            if !counts {
                continue;
            }
            if let Some(tgid) = sample.tgid {
                self.by_process.entry(tgid).or_default().push(number);
                group.members.processes.push(tgid);
            } else if let Some(id) = cgroup {
                self.by_cgroup.entry(id).or_default().push(number);
                group.members.cgroups.push(id);
            }
        }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        if !self.window.contains(io.done_ns) {
            return;
        }
        let of_cgroup = io.cgroup.and_then(|id| self.by_cgroup.get(&id));
        let of_process = io.tgid.and_then(|tgid| self.by_process.get(&tgid));
        let numbers = match of_cgroup.or(of_process) {
            Some(numbers) => numbers.as_slice(),
            None if self.by_process.is_empty() => return,
            None => held_under_v1(&self.alone_on, io),
        };
        for number in numbers {
            self.groups[*number].push(io);
        }
    }

    /// Every limit of every group with I/O of the limited kind on the limited device.
    pub fn finish(self) -> Vec<OwnLimit> {
        let mut limits = Vec::new();
        for mut group in self.groups {
            let busy = std::mem::take(&mut group.busy).finish();
            for ((dev, rate), measured) in &group.rates {
                limits.extend(group.judge(*dev, *rate, measured, &busy));
            }
        }
        limits
    }
}

impl Consumer for OwnLimitsBuilder {
    fn consume(&mut self, ios: &[Io], _: i64) {
        for io in ios {
            self.push(io);
        }
    }
}

/// I/O that a limit has held back is submitted by a kernel worker, which then is the I/O's process. Under v2 the I/O
/// still has its group. Under v1 it counts for the group that alone has a limit on the device, if there is one.
fn held_under_v1<'a>(alone_on: &'a [(DevId, usize)], io: &Io) -> &'a [usize] {
    let thread = io.comm.and_then(|comm| comm.kernel_thread());
    if thread != Some(KernelThread::Worker) {
        return &[];
    }
    let alone = alone_on.iter().find(|(dev, _)| *dev == io.dev);
    alone.map_or(&[], |(_, number)| std::slice::from_ref(number))
}

/// The devices that a single group limits.
fn alone_on(groups: &[LimitedGroup]) -> Vec<(DevId, usize)> {
    let mut limiting: BTreeMap<DevId, BTreeSet<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        for dev in group.limits.iter().filter_map(|l| l.dev) {
            limiting.entry(dev).or_default().insert(number);
        }
    }
    let mut alone = Vec::new();
    for (dev, numbers) in limiting {
        if numbers.len() == 1 {
            alone.extend(numbers.first().map(|number| (dev, *number)));
        }
    }
    alone
}

/// Whether `path` is `group` or below it.
fn is_at_or_below(path: &str, group: &str) -> bool {
    let Some(rest) = path.strip_prefix(group) else {
        return false;
    };
    rest.is_empty() || rest.starts_with('/') || group == "/"
}

impl LimitedGroup {
    fn push(&mut self, io: &Io) {
        self.busy.add(io.start_ns(), io.done_ns);
        let is_limited = self.limits.iter().any(|l| l.dev == Some(io.dev));
        if !is_limited {
            return;
        }
        let bin = BINS.slot(io.done_ns);
        for rate in LimitedRate::ALL {
            if rate.class() == io.class() {
                let measured = self.rates.entry((io.dev, rate)).or_default();
                measured.add(bin, rate.charge(io), io.start_ns());
            }
        }
    }

    /// The limit in effect at `at_ns`: the last one that was read by then, or else the first.
    fn limit_at(&self, dev: DevId, rate: LimitedRate, at_ns: i64) -> Option<i64> {
        let mut of_device = self.limits.iter().filter(|l| l.dev == Some(dev));
        let first = of_device.clone().next();
        let last = of_device.rfind(|l| l.at_ns <= at_ns);
        rate.limit(last.or(first)?)
    }

    fn judge(
        &self,
        dev: DevId,
        rate: LimitedRate,
        measured: &Rate,
        busy: &BTreeMap<i64, i64>,
    ) -> Option<OwnLimit> {
        let end_ns = measured.bins.last()?.0.saturating_add(1) * BIN_NS;
        let limit_per_s = self.limit_at(dev, rate, end_ns)?;
        let flat_runs = self.flat_runs(dev, rate, measured, limit_per_s);
        // The rate is measured while it is at the limit; for a group that never was, over all its time.
        let never_flat = flat_runs.is_empty();
        let mut seconds = 0.0;
        let mut charged = 0.0;
        for (bin, charge) in &measured.bins {
            if never_flat || flat_runs.iter().any(|run| run.contains(*bin * BIN_NS)) {
                seconds += 1.0;
                charged += *charge as f64;
            }
        }
        // A rate at the limit may be all that the group needs. It was throttled if it waited while none of its I/O
        // was in flight.
        let pressure = self.pressure_in(&flat_runs, busy);
        let held = match pressure {
            _ if never_flat => Held::No,
            None => Held::Probably,
            Some(p) if p.waited >= MIN_WAITED_SHARE && p.unseen >= MIN_UNSEEN_SHARE => Held::Yes,
            Some(_) => Held::NotWaiting,
        };
        let held_ns = match pressure {
            Some(p) => p.unseen_ns,
            None => flat_runs
                .iter()
                .map(|run| (run.len_ns() - busy_in(busy, *run)).max(0))
                .sum(),
        };
        Some(OwnLimit {
            held_ns,
            members: self.members.clone(),
            path: self.path.clone(),
            cgroup: self.cgroup,
            dev,
            rate,
            limit_per_s,
            rate_per_s: charged / f64::max(seconds, 1.0),
            flat: flat_runs,
            waited_share: pressure.map(|p| p.waited),
            unseen_share: pressure.map(|p| p.unseen),
            held,
        })
    }

    /// Intervals at the rate of the limit. Bins are long enough for single requests, or for requests that start
    /// together, whichever finds more.
    fn flat_runs(
        &self,
        dev: DevId,
        rate: LimitedRate,
        measured: &Rate,
        limit_per_s: i64,
    ) -> Vec<Window> {
        let mut most = Vec::new();
        let mut most_ns = 0;
        for charge in [measured.max_charge, measured.max_together] {
            let Some(bin_s) = bin_length_s(limit_per_s, charge) else {
                continue;
            };
            let runs = self.flat_bins(dev, rate, measured, bin_s);
            let flat_ns: i64 = runs.iter().map(Window::len_ns).sum();
            if flat_ns > most_ns {
                most = runs;
                most_ns = flat_ns;
            }
        }
        most
    }

    /// Runs of at least [`MIN_FLAT_BINS`] consecutive bins of `bin_s` seconds at the rate of the limit.
    fn flat_bins(&self, dev: DevId, rate: LimitedRate, measured: &Rate, bin_s: i64) -> Vec<Window> {
        let bin_ns = bin_s * BIN_NS;
        let mut runs: Vec<(Window, usize)> = Vec::new();
        for (number, charge) in measured.widened(bin_s) {
            let bin = Window::new(number * bin_ns, (number + 1) * bin_ns);
            let limit = self.limit_at(dev, rate, bin.from_ns);
            let is_at_limit = limit.is_some_and(|l| {
                let share = charge as f64 / (l as f64 * bin_s as f64);
                (share - 1.0).abs() <= TOLERANCE
            });
            if !is_at_limit {
                continue;
            }
            match runs.last_mut() {
                Some((run, bins)) if run.to_ns == bin.from_ns => {
                    run.to_ns = bin.to_ns;
                    *bins += 1;
                }
                _ => runs.push((bin, 1)),
            }
        }
        runs.retain(|(_, bins)| *bins >= MIN_FLAT_BINS);
        runs.into_iter().map(|(run, _)| run).collect()
    }

    /// Time that the group waited, in the intervals between samples of its pressure that are at least half in `flat`.
    fn pressure_in(&self, flat: &[Window], busy: &BTreeMap<i64, i64>) -> Option<WaitedShares> {
        let mut time_ns = 0;
        let mut waited_ns = 0;
        let mut unseen_ns = 0;
        for pair in self.waited.windows(2) {
            let [(from_ns, before_ns), (to_ns, after_ns)] = [pair[0], pair[1]];
            let interval = Window::new(from_ns, to_ns);
            let mut flat_ns = 0;
            for run in flat {
                let overlap = Window::new(run.from_ns.max(from_ns), run.to_ns.min(to_ns));
                flat_ns += overlap.len_ns();
            }
            let waited_here_ns = after_ns - before_ns;
            if 2 * flat_ns < interval.len_ns() || waited_here_ns < 0 {
                continue;
            }
            time_ns += interval.len_ns();
            waited_ns += waited_here_ns;
            unseen_ns += (waited_here_ns - busy_in(busy, interval)).max(0);
        }
        (time_ns > 0).then(|| WaitedShares {
            waited: (waited_ns as f64 / time_ns as f64).min(1.0),
            unseen: unseen_ns as f64 / f64::max(waited_ns as f64, 1.0),
            unseen_ns,
        })
    }
}

/// See [`OwnLimit::waited_share`] and [`OwnLimit::unseen_share`].
#[derive(Debug, Clone, Copy)]
struct WaitedShares {
    waited: f64,
    unseen: f64,
    unseen_ns: i64,
}

/// Time with I/O in flight in an interval, in nanoseconds, from sums per second. Seconds that are partly in it count
/// in proportion.
fn busy_in(busy: &BTreeMap<i64, i64>, interval: Window) -> i64 {
    let first = BINS.slot(interval.from_ns);
    let last = BINS.slot(interval.to_ns);
    let mut sum_ns = 0.0;
    for (bin, busy_ns) in busy.range(first..=last) {
        let from_ns = interval.from_ns.max(BINS.start_ns(*bin));
        let to_ns = interval.to_ns.min(BINS.end_ns(*bin));
        let share = (to_ns - from_ns).max(0) as f64 / BIN_NS as f64;
        sum_ns += *busy_ns as f64 * share;
    }
    sum_ns as i64
}

/// Length of the shortest bin in which enough I/Os pass at the limit, in seconds; `None` if it would be too long.
fn bin_length_s(limit_per_s: i64, max_charge: i64) -> Option<i64> {
    let per_second = limit_per_s as f64 / max_charge.max(1) as f64;
    if per_second <= 0.0 {
        return None;
    }
    let bin_s = (MIN_IOS_PER_BIN / per_second).ceil().max(1.0);
    (bin_s <= MAX_BIN_S as f64).then_some(bin_s as i64)
}

#[cfg(test)]
mod tests;
