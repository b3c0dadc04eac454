//! Stalls: requests are in flight on the device and none completes, for far longer than its own service times predict.
//!
//! A gap is a time with something in flight on the device, from the last completion (or from the issue that ended
//! idleness) to the next one. Gaps of a working device follow its service times: the median and 99th percentile of
//! their logarithms give a scale, from which the longest gap expected among so many follows.
//!
//! A completion needs a CPU. If the recording holds the host's pressure (`counters/pressure.rs`), a gap explained by
//! a shortage of CPU time is no stall of the device.
//!
//! The scope of a stall follows from the devices that stalled at the same time: one device, one member of an array
//! (md, dm), all of its members, all devices behind one controller or host, or all devices. A layer that stalls
//! because a device under it does has no finding of its own. Which hardware queue an I/O took is not recorded.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::counters::pressure::{CpuShortage, HostPressure, HostState};
use crate::analysis::findings::evidence::{Evidence, StallEvidence, StallScope};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::model::{Below, Class, DevId, Device, Histogram};

/// Minimum length of a reported stall: 20 ms.
const MIN_NS: i64 = 20_000_000;

/// Gaps of at least this length are kept as pauses. They explain how an I/O that took so long was delayed.
const PAUSE_NS: i64 = 100_000_000;

/// Minimum number of gaps from which the expected length is computed.
const MIN_GAPS: u64 = 100;

/// From 256 KiB on, the transfer dominates the time of a request: with more of them in flight, the device needs longer.
const LARGE_SECTORS: u32 = 512;

/// Maximum number of candidates kept, the longest.
const MAX_CANDIDATES: usize = 64;

/// Maximum number of stalls of one device that get a finding of their own.
const REPORTED: usize = 3;

/// A time in which nothing completed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// The last completion, or the issue after idleness, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// The next completion.
    pub to_ns: i64,
    /// I/Os in flight on the device at its end.
    pub in_flight: i64,
    /// I/Os issued during it.
    pub issued: i64,
    /// Class of the last completion before it; `None` if the device was idle.
    pub before: Option<Class>,
    /// Class of the first completion after it.
    pub after: Class,
    /// Whether a flush was in flight on the device.
    pub flush: bool,
    /// The shortage of CPU time that explains it; then it is no stall of the device. `None` if there is none, or if
    /// the recording does not hold the host's pressure.
    pub cpu_shortage: Option<CpuShortage>,
    /// Sectors of large requests in flight on the device.
    #[serde(skip)]
    large_sectors: u64,
}

/// The stalls of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stalls {
    /// In order of time; at most the 64 longest.
    pub stalls: Vec<Stall>,
    /// The longest gap, in nanoseconds, that the device's service times explain; `None` if there were too few.
    pub expected_ns: Option<i64>,
    /// Gaps of 100 ms and more, including those in `stalls`, whether or not the device's service times explain them.
    /// They explain how an I/O that is known to be delayed was delayed, and are no findings.
    #[serde(skip)]
    pub pauses: Vec<Stall>,
}

/// Accumulates gaps of one device; swept in the order of issue.
#[derive(Debug, Default)]
pub(in crate::analysis) struct GapSweep {
    level: [i64; 4],
    since_ns: i64,
    before: Option<Class>,
    issued: i64,
    gaps: Histogram,
    longest: Vec<Stall>,
    /// Sectors of large requests in flight on the device.
    large_sectors: u64,
    /// Device time of large requests per 1024 sectors, in nanoseconds.
    transfers: Histogram,
}

impl Sweep for GapSweep {
    fn start(&mut self, span: &Span) {
        if self.level.iter().all(|n| *n <= 0) {
            self.since_ns = span.start_ns;
            self.before = None;
            self.issued = 0;
        }
        self.level[span.class as usize] += 1;
        self.issued += 1;
        if span.sectors >= LARGE_SECTORS {
            self.large_sectors += u64::from(span.sectors);
            self.transfers
                .add((span.done_ns - span.start_ns).saturating_mul(1024) / i64::from(span.sectors));
        }
    }

    fn done(&mut self, end: &End) {
        let gap_ns = end.at_ns - self.since_ns;
        // Completions of one interrupt count as one.
        if gap_ns >= 1000 {
            self.gaps.add(gap_ns);
        }
        if gap_ns >= MIN_NS {
            let stall = Stall {
                from_ns: self.since_ns,
                to_ns: end.at_ns,
                in_flight: self.level.iter().sum(),
                issued: self.issued,
                before: self.before,
                after: end.class,
                flush: self.level[Class::Flush as usize] > 0,
                cpu_shortage: None,
                large_sectors: self.large_sectors,
            };
            self.longest.push(stall);
            if self.longest.len() >= 2 * MAX_CANDIDATES {
                self.keep_longest();
            }
        }
        if end.sectors >= LARGE_SECTORS {
            self.large_sectors -= u64::from(end.sectors);
        }
        self.level[end.class as usize] -= 1;
        self.since_ns = end.at_ns;
        self.before = Some(end.class);
        self.issued = 0;
    }

    /// A request of zero length makes no gap, and ends none.
    fn instant(&mut self, _: &Span) {}
}

impl GapSweep {
    fn keep_longest(&mut self) {
        self.longest
            .sort_by_key(|s| std::cmp::Reverse(s.to_ns - s.from_ns));
        self.longest.truncate(MAX_CANDIDATES);
    }

    /// The stalls outside `losses`. `device_p50_us` is the median device time: a device that completes requests in
    /// batches has gaps of that length.
    pub fn finish(mut self, dev: DevId, device_p50_us: Option<f64>, losses: &Losses) -> Stalls {
        let expected_ns = self.expected_ns(device_p50_us);
        self.keep_longest();
        let mut stalls = self.longest;
        let transfer_ns = self.transfers.quantile(0.5).unwrap_or(0) as f64 / 1024.0;
        // A single request in flight is a slow request, not a device that stopped.
        stalls.retain(|s| {
            let len_ns = s.to_ns - s.from_ns;
            // Time to transfer all large requests one after the other, at the median speed of one.
            let is_transfer = len_ns as f64 <= s.large_sectors as f64 * transfer_ns;
            !is_transfer && s.in_flight >= 2 && !losses.overlap(dev, s.from_ns, s.to_ns)
        });
        stalls.sort_by_key(|s| s.from_ns);
        let mut pauses = stalls.clone();
        pauses.retain(|s| s.to_ns - s.from_ns >= PAUSE_NS);
        stalls.retain(|s| expected_ns.is_some_and(|most| s.to_ns - s.from_ns > most));
        Stalls {
            stalls,
            expected_ns,
            pauses,
        }
    }

    /// Length that a gap exceeds once in ten thousand recordings like this one if logarithms of gaps are normal, in
    /// nanoseconds. Exponential service times have shorter tails than that. `None` with too few gaps.
    fn expected_ns(&self, device_p50_us: Option<f64>) -> Option<i64> {
        let n = self.gaps.n();
        if n < MIN_GAPS {
            return None;
        }
        let [middle, high] = [0.5, 0.99].map(|q| self.gaps.quantile(q).unwrap_or(1).max(1) as f64);
        let sigma = ((high / middle).ln() / 2.326).max(0.3);
        // Upper normal quantile of probability p: sqrt(2 ln(1/p)) is never below it.
        let z = (2.0 * (n as f64 * 1e4).ln()).sqrt();
        let batch_ns = 4e3 * device_p50_us.unwrap_or(0.0);
        Some(
            (middle * (z * sigma).exp())
                .max(batch_ns)
                .max(MIN_NS as f64) as i64,
        )
    }
}

impl Stalls {
    /// Marks the stalls and pauses that a shortage of CPU time explains.
    pub(in crate::analysis) fn compare_with_host(&mut self, host: &HostPressure) {
        for stall in self.stalls.iter_mut().chain(&mut self.pauses) {
            stall.cpu_shortage = host.cpu_shortage(stall.from_ns, stall.to_ns);
        }
    }

    /// The stalls that are the device's own.
    fn of_device(&self) -> impl Iterator<Item = &Stall> {
        self.stalls.iter().filter(|s| s.cpu_shortage.is_none())
    }
}

/// Stacking of devices, and the controller or host of each.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// The devices under each layer, directly or deeper.
    under: BTreeMap<DevId, Vec<DevId>>,
    names: BTreeMap<DevId, String>,
    behind: BTreeMap<DevId, String>,
}

impl Stacks {
    /// Of the devices of a recording.
    pub fn of(devices: &[Device]) -> Stacks {
        let below = Below::new(devices);
        let mut stacks = Stacks::default();
        for device in devices {
            let mut met = Vec::new();
            let mut upper = vec![device];
            while let Some(layer) = upper.pop() {
                for lower in below.of(layer).filter(|lower| lower.id != device.id) {
                    if !met.contains(&lower.id) {
                        met.push(lower.id);
                        upper.push(lower);
                    }
                }
            }
            if !met.is_empty() {
                stacks.under.insert(device.id, met);
                stacks.names.insert(device.id, device.name.clone());
            }
            stacks
                .behind
                .extend(device.behind().map(|behind| (device.id, behind.to_owned())));
        }
        stacks
    }

    fn lies_on(&self, upper: DevId, lower: DevId) -> bool {
        self.under
            .get(&upper)
            .is_some_and(|under| under.contains(&lower))
    }

    /// Whether one of two devices is stacked on the other.
    fn are_stacked(&self, a: DevId, b: DevId) -> bool {
        self.lies_on(a, b) || self.lies_on(b, a)
    }

    /// The members of `array` in `all`: `dev`, and the devices that are not stacked with it.
    fn members(&self, array: DevId, dev: DevId, all: &[(DevId, &Stalls)]) -> Vec<DevId> {
        let under = all.iter().map(|(d, _)| *d);
        under
            .filter(|d| self.lies_on(array, *d) && (*d == dev || !self.are_stacked(*d, dev)))
            .collect()
    }

    /// The smallest layer that has `dev` and other devices side by side under it, with these members.
    fn array_of(&self, dev: DevId, all: &[(DevId, &Stalls)]) -> Option<(DevId, Vec<DevId>)> {
        let arrays = self
            .under
            .keys()
            .filter(|array| self.lies_on(**array, dev))
            .map(|array| (*array, self.members(*array, dev, all)));
        arrays
            .filter(|(_, members)| members.len() > 1)
            .min_by_key(|(array, members)| (members.len(), self.under[array].len()))
    }
}

/// How far a stall reached.
#[derive(Debug)]
struct Reach {
    scope: StallScope,
    /// Devices that are not stacked with it, and how many of them stalled.
    others: usize,
    others_stalled: usize,
    /// The array or controller that the scope refers to.
    group: Option<StallGroup>,
    layers: Vec<String>,
}

/// The devices of an array, or behind a controller, during a stall of one of them.
#[derive(Debug)]
struct StallGroup {
    name: String,
    devices: usize,
    stalled: usize,
}

/// The devices that are not stacked with the stalled one.
#[derive(Debug, Default)]
struct Beside {
    devices: usize,
    /// Those that stall at the same time.
    stalled: Vec<DevId>,
}

impl Beside {
    /// Number of `members` that stall, including the device itself.
    fn stalled_of(&self, members: &[DevId]) -> usize {
        1 + self.stalled.iter().filter(|d| members.contains(d)).count()
    }

    /// The scope if devices have no array and no controller in common.
    fn scope(&self) -> StallScope {
        match self.stalled.len() {
            0 => StallScope::Device,
            n if n == self.devices => StallScope::All,
            _ => StallScope::Devices,
        }
    }
}

/// The findings: the longest stalls of each device. `all` are the stalls of every device that did I/O.
pub(in crate::analysis) fn conclude<'a>(
    all: impl Iterator<Item = (DevId, &'a Stalls)>,
    stacks: &Stacks,
    host: &HostPressure,
) -> Vec<Finding> {
    let all: Vec<(DevId, &Stalls)> = all.collect();
    let mut found = Vec::new();
    for (dev, stalls) in &all {
        let Some(expected_ns) = stalls.expected_ns else {
            continue;
        };
        // A layer that stalls because a device under it does has no stall of its own.
        let mut longest = Vec::new();
        for stall in stalls.of_device() {
            let is_from_below = all
                .iter()
                .any(|(d, other)| stacks.lies_on(*dev, *d) && explains(other, stall));
            if !is_from_below {
                longest.push(stall);
            }
        }
        let n = longest.len();
        longest.sort_by_key(|s| std::cmp::Reverse(s.to_ns - s.from_ns));
        for stall in longest.into_iter().take(REPORTED) {
            found.push(finding(
                *dev,
                stall,
                expected_ns,
                n,
                reach(*dev, stall, &all, stacks),
                host.between(stall.from_ns, stall.to_ns),
            ));
        }
    }
    found
}

fn meets(stalls: &Stalls, stall: &Stall) -> bool {
    stalls
        .of_device()
        .any(|s| s.from_ns < stall.to_ns && s.to_ns > stall.from_ns)
}

/// Whether stalls of a device under a layer cover at least half of the layer's stall.
fn explains(lower: &Stalls, upper: &Stall) -> bool {
    let mut both_ns = 0;
    for stall in lower.of_device() {
        let overlap_ns = stall.to_ns.min(upper.to_ns) - stall.from_ns.max(upper.from_ns);
        both_ns += overlap_ns.max(0);
    }
    2 * both_ns >= upper.to_ns - upper.from_ns
}

/// The scope of a stall of `dev`: within its array if there is one, otherwise behind its controller if there is one,
/// otherwise among all devices.
fn reach(dev: DevId, stall: &Stall, all: &[(DevId, &Stalls)], stacks: &Stacks) -> Reach {
    let mut layers = Vec::new();
    let mut beside = Beside::default();
    for (other, stalls) in all {
        let is_stalled = meets(stalls, stall);
        // Layers above stall because this device does. Other devices that stall have something in common with it.
        if is_stalled && stacks.lies_on(*other, dev) {
            layers.extend(stacks.names.get(other).cloned());
        }
        if *other != dev && !stacks.are_stacked(*other, dev) {
            beside.devices += 1;
            if is_stalled {
                beside.stalled.push(*other);
            }
        }
    }
    let common = in_array(dev, all, stacks, &beside)
        .or_else(|| behind_controller(dev, all, stacks, &beside));
    let (scope, group) = match common {
        Some((scope, group)) => (scope, Some(group)),
        None => (beside.scope(), None),
    };
    Reach {
        scope,
        others: beside.devices,
        others_stalled: beside.stalled.len(),
        group,
        layers,
    }
}

/// The scope of a stall within the array of `dev`; `None` if `dev` is in no array.
fn in_array(
    dev: DevId,
    all: &[(DevId, &Stalls)],
    stacks: &Stacks,
    beside: &Beside,
) -> Option<(StallScope, StallGroup)> {
    let (array, members) = stacks.array_of(dev, all)?;
    let group = StallGroup {
        name: stacks.names.get(&array).cloned().unwrap_or_default(),
        devices: members.len(),
        stalled: beside.stalled_of(&members),
    };
    let scope = match group.stalled {
        1 => StallScope::ArrayMember,
        n if n == group.devices => StallScope::Array,
        _ => StallScope::ArrayMembers,
    };
    Some((scope, group))
}

/// The scope of a stall among the devices behind one controller or host; `None` if there is only one such device, or
/// if all devices stall, which no single controller explains.
fn behind_controller(
    dev: DevId,
    all: &[(DevId, &Stalls)],
    stacks: &Stacks,
    beside: &Beside,
) -> Option<(StallScope, StallGroup)> {
    let behind = stacks.behind.get(&dev)?;
    let neighbours: Vec<DevId> = all
        .iter()
        .map(|(d, _)| *d)
        .filter(|d| stacks.behind.get(d) == Some(behind))
        .collect();
    if neighbours.len() < 2 || beside.stalled.len() >= beside.devices {
        return None;
    }
    let group = StallGroup {
        name: behind.clone(),
        devices: neighbours.len(),
        stalled: beside.stalled_of(&neighbours),
    };
    // If all devices behind it stall and no other does, the cause is the controller or host itself.
    let is_whole = group.stalled == group.devices && beside.stalled.len() == group.devices - 1;
    let scope = match group.stalled {
        1 => StallScope::Device,
        _ if is_whole => StallScope::Host,
        _ => StallScope::Devices,
    };
    Some((scope, group))
}

fn finding(
    dev: DevId,
    s: &Stall,
    expected_ns: i64,
    stalls: usize,
    reach: Reach,
    host: Option<HostState>,
) -> Finding {
    let group_devices = reach.group.as_ref().map(|g| g.devices);
    let group_devices_stalled = reach.group.as_ref().map(|g| g.stalled);
    Finding {
        dev: Some(dev),
        from_ns: s.from_ns,
        to_ns: s.to_ns,
        severity: Severity::Warning,
        evidence: Evidence::Stall(StallEvidence {
            duration_s: (s.to_ns - s.from_ns) as f64 / 1e9,
            expected_s: expected_ns as f64 / 1e9,
            in_flight: s.in_flight,
            issued_meanwhile: s.issued,
            completed_before: s.before,
            completed_after: s.after,
            flush_in_flight: s.flush,
            scope: reach.scope,
            other_devices_stalled: reach.others_stalled,
            other_devices: reach.others,
            group: reach.group.map(|g| g.name),
            group_devices,
            group_devices_stalled,
            layers_stalled: reach.layers,
            stalls_in_recording: stalls,
            host_state: host,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::findings::FindingKind;
    use crate::analysis::report::{Report, ReportBuilder};
    use crate::analysis::stream::window::Window;
    use crate::model::{Io, LossReason, Lost, Op, PressureSample};

    const MS: i64 = 1_000_000;

    /// Ten seconds of a read per millisecond, 1.2 ms each, on two disks; from 5 s on the first one stands still for
    /// `stall_ms`, the second one with it if `both`.
    fn builder(stall_ms: i64, both: bool) -> ReportBuilder {
        let mut ios = Vec::new();
        for (disk, dev) in [DevId(8 << 20), DevId(8 << 20 | 16)]
            .into_iter()
            .enumerate()
        {
            for at in (0..10_000).map(|i| i * MS) {
                let from = 5000 * MS;
                let to = (5000 + stall_ms) * MS;
                let stands = (disk == 0 || both) && from <= at && at < to;
                let done = if stands { to + at % 997 } else { at } + 1_200_000;
                ios.push(Io::new(done, dev, Op::READ, 4096, Some(0), done - at));
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        let mut builder = ReportBuilder::new(Window::new(0, 10_000 * MS));
        ios.iter().for_each(|io| builder.push(io));
        builder
    }

    fn stalls(report: &Report) -> Vec<&Finding> {
        report
            .findings
            .iter()
            .filter(|f| f.kind() == FindingKind::Stall)
            .collect()
    }

    #[test]
    fn a_device_that_stops_is_named_with_what_waited() {
        let report = builder(300, false).finish(0);
        let found = stalls(&report);
        assert_eq!(found.len(), 1, "{:?}", report.findings);
        let Evidence::Stall(e) = &found[0].evidence else {
            panic!("{found:?}")
        };
        assert_eq!(
            (found[0].dev, e.scope),
            (Some(DevId(8 << 20)), StallScope::Device)
        );
        assert_eq!((e.other_devices_stalled, e.other_devices), (0, 1));
        assert!(
            (e.duration_s - 0.3).abs() < 0.002 && (300..305).contains(&e.in_flight),
            "{e:?}"
        );
        assert_eq!(e.completed_before, Some(Class::Read));
        let both = builder(300, true).finish(0);
        let is_of_all =
            |f: &&Finding| matches!(&f.evidence, Evidence::Stall(e) if e.scope == StallScope::All);
        assert!(stalls(&both).iter().all(is_of_all));
        assert_eq!(stalls(&both).len(), 2);
    }

    /// Ten seconds of small reads; every second 14 writes of `bytes` come at once, and the first completes after 28 ms.
    fn beside_writes(bytes: i64) -> Report {
        let read = |at: i64| {
            Io::new(
                at + 200_000,
                DevId(8 << 20),
                Op::READ,
                4096,
                Some(0),
                200_000,
            )
        };
        let mut ios: Vec<Io> = (0..10_000)
            .filter(|i| i % 1000 >= 40)
            .map(|i| read(i * MS))
            .collect();
        for (second, k) in (1..10).flat_map(|second| (0..14).map(move |k| (second, k))) {
            let took = 28 * MS + k * 30_000;
            ios.push(Io::new(
                second * 1000 * MS + MS + took,
                DevId(8 << 20),
                Op::WRITE,
                bytes,
                Some(0),
                took,
            ));
        }
        ios.sort_by_key(|io| io.done_ns);
        let mut builder = ReportBuilder::new(Window::new(0, 10_000 * MS));
        ios.iter().for_each(|io| builder.push(io));
        builder.finish(0)
    }

    /// Pressure of the whole recording, ten samples a second, of which tasks waited for a CPU for `cpu_ms` each; the timer
    /// that was due at 5 s woke `late_ms` later.
    fn under_pressure(mut builder: ReportBuilder, cpu_ms: i64, late_ms: i64) -> Report {
        for from_ms in (0..10_000).step_by(100) {
            let is_late = from_ms == 5000;
            builder.pressure(&PressureSample {
                from_ns: from_ms * MS,
                to_ns: (from_ms + 100) * MS,
                cpus: Some(2),
                cpu_some_ns: Some(cpu_ms * MS),
                steal_ns: Some(0),
                runnable: Some(8),
                timer_due_ns: Some(from_ms * MS),
                timer_late_ns: Some(if is_late { late_ms * MS } else { 0 }),
                ..PressureSample::default()
            });
        }
        builder.finish(0)
    }

    #[test]
    fn a_gap_that_a_shortage_of_cpu_time_explains_is_no_stall_of_the_device() {
        let late = under_pressure(builder(50, true), 5, 40);
        assert!(
            stalls(&late).is_empty(),
            "the recorder's own timer was late"
        );
        let busy = under_pressure(builder(50, true), 90, 0);
        assert!(stalls(&busy).is_empty(), "four tasks wanted each CPU");
        let noted: Vec<_> = busy.details[0]
            .stalls
            .stalls
            .iter()
            .map(|s| s.cpu_shortage)
            .collect();
        assert_eq!(noted, [Some(CpuShortage::Pressure)]);
    }

    #[test]
    fn a_stall_says_what_it_was_compared_with() {
        let host = |report: &Report| {
            let found = stalls(report);
            assert!(!found.is_empty(), "{:?}", report.findings);
            let Evidence::Stall(e) = &found[0].evidence else {
                panic!("{found:?}")
            };
            e.host_state
        };
        let calm = host(&under_pressure(builder(50, false), 5, 1)).expect("known");
        assert_eq!(calm.cpu_pressure_percent, Some(5.0));
        assert_eq!(calm.timer_late_ms, Some(1.0));
        let long = host(&under_pressure(builder(300, false), 90, 0)).expect("known");
        assert_eq!(
            long.cpu_pressure_percent,
            Some(90.0),
            "no task waits so long"
        );
        assert_eq!(
            host(&builder(50, false).finish(0)),
            None,
            "an older recording"
        );
    }

    #[test]
    fn large_requests_that_share_the_device_take_their_time() {
        assert!(stalls(&beside_writes(4 << 20)).is_empty());
        assert!(
            !stalls(&beside_writes(4096)).is_empty(),
            "small ones do not"
        );
    }

    #[test]
    fn what_is_lost_or_short_is_no_stall() {
        assert!(stalls(&builder(15, false).finish(0)).is_empty());
        let mut lossy = builder(300, false);
        lossy.lost(&Lost {
            from_ns: 5100 * MS,
            to_ns: 5200 * MS,
            dev: None,
            class: None,
            reason: LossReason::RingFull,
            ios: Some(9),
            bytes: None,
            merges: None,
        });
        assert!(stalls(&lossy.finish(0)).is_empty());
    }
}
