//! Waits by time: in each interval of one length, where the time of the I/Os went that completed in it.

use std::collections::{BTreeMap, HashMap};

use super::attribution::{Attribution, WaitMeasure};
use super::device::Wait;
use super::groups::{Group, Grouping};
use super::victims::{Sums, Victim};
use crate::analysis::report::streams::Part;
use crate::analysis::stream::window::Window;
use crate::model::{DevId, Io, Lost};

/// The waits of one device in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitBin {
    /// Begin of the interval.
    pub from_ns: i64,
    /// Which device.
    pub dev: DevId,
    /// Whose I/Os completed in it, the most excess first.
    pub victims: Vec<Victim>,
}

/// Accumulates [`WaitBin`]s. Memory: that of the attribution, and the sums of each group in each interval in which it had
/// I/Os.
#[derive(Debug)]
pub struct WaitBinsBuilder {
    origin_ns: i64,
    step_ns: i64,
    attribution: Attribution<Bins>,
}

/// By interval and the group's number.
#[derive(Debug)]
struct Bins {
    origin_ns: i64,
    step_ns: i64,
    sums: BTreeMap<i64, HashMap<u32, Sums>>,
}

impl WaitMeasure for Bins {
    fn wait(&mut self, wait: &Wait) {
        let bin = (wait.io.done_ns - self.origin_ns).div_euclid(self.step_ns);
        let groups = self.sums.entry(bin).or_default();
        groups.entry(wait.io.group).or_default().count(wait);
    }
}

impl WaitBinsBuilder {
    /// Of the I/Os that complete inside `window`, in intervals of `step_ns` of which one begins at `origin_ns`.
    pub fn new(window: Window, grouping: Grouping, origin_ns: i64, step_ns: i64) -> Self {
        let step_ns = step_ns.max(1);
        let bins = Bins {
            origin_ns,
            step_ns,
            sums: BTreeMap::new(),
        };
        WaitBinsBuilder {
            origin_ns,
            step_ns,
            attribution: Attribution::new(window, grouping, bins),
        }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.attribution.push(io);
    }

    /// Takes what is missing.
    pub fn lost(&mut self, lost: &Lost) {
        self.attribution.lost(lost);
    }

    /// The intervals in which I/Os completed, by time and then by device.
    pub fn finish(self) -> Vec<WaitBin> {
        let attributed = self.attribution.finish();
        let shown = attributed.groups.shown();
        let mut all = Vec::new();
        for (bin, groups) in &attributed.measure.sums {
            let mut devices: BTreeMap<DevId, BTreeMap<Group, Victim>> = BTreeMap::new();
            for (number, sums) in groups {
                let device = attributed.groups.all[*number as usize].0;
                let dev = attributed.devices[device as usize];
                let group = shown[*number as usize];
                devices
                    .entry(dev)
                    .or_default()
                    .entry(group)
                    .or_insert_with(|| Victim::none(group))
                    .add(sums, &shown);
            }
            for (dev, victims) in devices {
                all.push(WaitBin {
                    from_ns: self.origin_ns + bin * self.step_ns,
                    dev,
                    victims: Victim::ordered(victims.into_values().collect()),
                });
            }
        }
        all
    }
}

impl Part for WaitBinsBuilder {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.attribution.consume(ios, later_start_ns);
    }
}
