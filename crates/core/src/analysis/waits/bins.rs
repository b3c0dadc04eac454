//! Waits by time: in each interval of one length, where the time of the I/Os went that completed in it.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::CountsWaits;
use super::attribution::{Attribution, WaitMeasure};
use super::device::{Service, Wait};
use super::groups::{Group, Grouping, Groups};
use super::victims::{Sums, Victim};
use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::order::Hold;
use crate::analysis::stream::window::Window;
use crate::model::{DevId, Io, Lost, TimeGrid};

/// While the stream runs, I/Os are held this long to be sorted by issue time; one that takes longer is treated as
/// issued when the hold ends. At about 150 bytes each this is at most 20 MB.
const RUNNING_HOLD: Hold = Hold {
    spans: 1 << 17,
    ns: 1_000_000_000,
};

/// Interval at which waits are attributed while the stream runs.
const SETTLE_EACH_NS: i64 = 250_000_000;

/// The waits of one device in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitBin {
    /// Start of the interval.
    pub from_ns: i64,
    /// The device.
    pub dev: DevId,
    /// The service model that fits the waits so far.
    pub service: Service,
    /// Groups whose I/Os completed in the interval, most excess first.
    pub victims: Vec<Victim>,
}

/// Accumulates [`WaitBin`]s. Memory: the attribution, and the sums per group and interval with I/Os.
#[derive(Debug)]
pub struct WaitBinsBuilder {
    attribution: Attribution<Bins>,
    /// Waits before this time have been attributed.
    settled_ns: i64,
}

/// Sums by group number.
type GroupSums = HashMap<u32, Sums>;

/// By interval and group.
#[derive(Debug)]
struct Bins {
    grid: TimeGrid,
    sums: BTreeMap<i64, GroupSums>,
}

impl WaitMeasure for Bins {
    fn wait(&mut self, wait: &Wait) {
        let groups = self
            .sums
            .entry(self.grid.slot(wait.io.done_ns))
            .or_default();
        groups.entry(wait.io.group).or_default().count(wait);
    }

    fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        for groups in self.sums.values_mut() {
            let before = std::mem::take(groups);
            for (mut group, mut sums) in before {
                visit(&mut group);
                sums.each_group(visit);
                groups.insert(group, sums);
            }
        }
    }
}

impl Bins {
    /// Removes and returns the intervals before the one with this number.
    fn take_before(&mut self, number: i64) -> BTreeMap<i64, GroupSums> {
        let kept = self.sums.split_off(&number);
        std::mem::replace(&mut self.sums, kept)
    }

    /// Converts sums to intervals, sorted by time, then by device.
    fn shown(
        &self,
        bins: &BTreeMap<i64, GroupSums>,
        groups: &Groups,
        served: &[(DevId, Service)],
    ) -> Vec<WaitBin> {
        let shown = groups.shown();
        let mut all = Vec::new();
        for (number, of_groups) in bins {
            let mut devices: BTreeMap<u32, BTreeMap<Group, Victim>> = BTreeMap::new();
            for (group, sums) in of_groups {
                let device = groups.all[*group as usize].0;
                let group = shown[*group as usize];
                devices
                    .entry(device)
                    .or_default()
                    .entry(group)
                    .or_insert_with(|| Victim::none(group))
                    .add(sums, &shown);
            }
            for (device, victims) in devices {
                let (dev, service) = served[device as usize];
                all.push(WaitBin {
                    from_ns: self.grid.start_ns(*number),
                    dev,
                    service,
                    victims: Victim::ordered(victims.into_values().collect()),
                });
            }
        }
        all.sort_by_key(|bin| (bin.from_ns, bin.dev));
        all
    }
}

impl WaitBinsBuilder {
    /// For the I/Os that complete inside `window`, in intervals of `step_ns` aligned to `origin_ns`.
    pub fn new(window: Window, grouping: Grouping, origin_ns: i64, step_ns: i64) -> Self {
        let hold = Hold::RECORDING;
        WaitBinsBuilder::with_hold(window, grouping, origin_ns, step_ns, hold)
    }

    /// For a live stream of I/Os, by process. [`WaitBinsBuilder::take_until`] returns intervals that have ended.
    pub fn running(step_ns: i64) -> Self {
        let window = Window::new(i64::MIN, i64::MAX);
        WaitBinsBuilder::with_hold(window, Grouping::Process, 0, step_ns, RUNNING_HOLD)
    }

    fn with_hold(
        window: Window,
        grouping: Grouping,
        origin_ns: i64,
        step_ns: i64,
        hold: Hold,
    ) -> Self {
        let bins = Bins {
            grid: TimeGrid::new(origin_ns, step_ns.max(1)),
            sums: BTreeMap::new(),
        };
        WaitBinsBuilder {
            attribution: Attribution::with_hold(window, grouping, bins, hold),
            settled_ns: i64::MIN,
        }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.attribution.push(io);
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        self.attribution.lost(lost);
    }

    /// Removes and returns the intervals that have ended, about a second late. All I/Os that completed before `seen_ns`
    /// must have been pushed. After a very long pause of a device, I/Os may complete that belong to an interval
    /// returned before; that interval is then returned again with the new I/Os only.
    pub fn take_until(&mut self, seen_ns: i64) -> Vec<WaitBin> {
        let to_ns = seen_ns.saturating_sub(RUNNING_HOLD.ns);
        if to_ns < self.settled_ns.saturating_add(SETTLE_EACH_NS) {
            return Vec::new();
        }
        self.settled_ns = to_ns;
        self.attribution.attribute_until(to_ns);
        let served = self.attribution.served();
        let (groups, bins) = self.attribution.measured();
        let over = bins.take_before(bins.grid.slot(to_ns));
        if over.is_empty() {
            return Vec::new();
        }
        bins.shown(&over, groups, &served)
    }

    /// The remaining intervals with completed I/Os, sorted by time, then by device.
    pub fn finish(self) -> Vec<WaitBin> {
        let attributed = self.attribution.finish();
        let bins = &attributed.measure;
        let devs = attributed.devices.iter().copied();
        let served: Vec<_> = devs.zip(attributed.services.iter().copied()).collect();
        bins.shown(&bins.sums, &attributed.groups, &served)
    }
}

impl Consumer for WaitBinsBuilder {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.attribution.consume(ios, later_start_ns);
    }
}

impl CountsWaits for WaitBinsBuilder {
    fn push_counted(&mut self, io: &Io, is_counted: bool) {
        self.attribution.push_counted(io, is_counted);
    }

    fn expect_from(&mut self, later_start_ns: i64) {
        self.attribution.expect_from(later_start_ns);
    }
}
