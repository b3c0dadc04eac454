//! Who made whom wait: each nanosecond of each I/O's latency has exactly one owner.
//!
//! The latency of an I/O is its undisturbed latency plus an excess. The excess is split among the groups of I/Os that
//! the device worked on in the meantime. The part that no work explains was spent above the driver (*held*) or is
//! attributed to the device. A group is a process, in its control group, with one class and one origin.
//!
//! How long a device worked on each I/O is not recorded. It is inferred by two models, *in turn* and *side by side*
//! ([`Service`]), each of which is exact for a device that serves that way. For each device the model is used that
//! leaves less time unexplained. The result is a lower bound of the harm: I/Os that queue behind the first victims
//! count as waiting for their own group.
//!
//! A28 in `docs/analyses.md` has the definition and what its accuracy was measured on.

mod arm;
mod attribution;
mod bins;
mod cached_writes;
mod caps;
mod curve;
mod device;
pub mod effects;
mod felt;
mod first_ios;
mod groups;
mod kept_sample;
mod levels;
mod process_names;
pub mod profiles;
mod read_ahead;
mod singles;
pub mod stretches;
mod subjects;
mod table;
mod totals;
mod victims;
mod workers;

use std::collections::BTreeMap;

use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::window::Window;
use crate::model::{DevId, Io, Lost, Origin};

use attribution::{Attributed, Attribution, WaitMeasure};
pub use bins::{WaitBin, WaitBinsBuilder};
pub use caps::Cap;
pub use device::Service;
use device::{Pending, Wait};
pub use effects::{Effect, EffectSums};
use felt::FeltTotals;
pub use groups::{Group, Grouping, Program};
use groups::{Groups, MAX_PROCESSES};
pub use process_names::can_have_thread;
pub use profiles::Profile;
pub use singles::{IoWait, IoWaitsBuilder};
pub use subjects::{SubjectWaits, SubjectWaitsBuilder};
pub use table::{WAIT_STEPS_S, coarser_waits, victims_of_rows, wait_rows};
pub use totals::WaitTotals;

pub use crate::model::{OwnedTime, TimeOwner, WorstWait};
use victims::Sums;
pub use victims::{Behind, Victim};

/// The waits of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceVictims {
    /// The device.
    pub dev: DevId,
    /// The service model that fits its waits.
    pub service: Service,
    /// Groups whose I/Os waited, most excess first.
    pub victims: Vec<Victim>,
    /// The input for stories.
    pub felt: DeviceFelt,
}

impl DeviceVictims {
    /// Removes the names of programs, as [`Victim::hide_names`] does.
    pub fn hide_names(&mut self) {
        for victim in &mut self.victims {
            victim.hide_names();
        }
        for effect in &mut self.felt.effects {
            effect.victim.hide_name();
            for pair in &mut effect.pairs {
                pair.culprit.hide_name();
            }
            for (program, _) in &mut effect.suspects {
                program.hide_name();
            }
        }
        let programs = self.felt.groups.iter_mut().map(|group| &mut group.program);
        programs.flatten().for_each(Program::hide_name);
    }
}

/// The effects of waiting on one device, and the I/O that caused them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceFelt {
    /// Effects by program and class, most excess first.
    pub effects: Vec<Effect>,
    /// All groups of I/Os, indexed by [`effects::Blame::group`].
    pub groups: Vec<Profile>,
    /// The rate limit that the device was at, if any.
    pub cap: Option<Cap>,
}

impl DeviceFelt {
    /// The groups of a program's I/Os that reached this device through a device stacked on it.
    pub fn from_above(&self, program: &Program) -> impl Iterator<Item = &Profile> {
        self.groups.iter().filter(|group| {
            let is_its = group.program.is_some_and(|p| program.includes(&p));
            is_its && group.origin == Origin::Above
        })
    }
}

/// Accumulates [`DeviceVictims`]. Memory: the attribution, and the sums of at most 4096 groups per device.
#[derive(Debug)]
pub struct WaitsBuilder(Attribution<GroupTotals>);

impl WaitsBuilder {
    /// For the I/Os that complete inside `window`, grouped by process.
    pub fn new(window: Window) -> WaitsBuilder {
        WaitsBuilder::by(Grouping::Process, window)
    }

    /// For the I/Os that complete inside `window`. I/Os that start up to [`Window::LEARN_AFTER_NS`] after it must be
    /// pushed as well: undisturbed latencies are learned from them. Later I/Os have no effect.
    pub fn by(grouping: Grouping, window: Window) -> WaitsBuilder {
        WaitsBuilder(Attribution::new(window, grouping, GroupTotals::default()))
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.0.push(io);
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        self.0.lost(lost);
    }

    /// Every device that had I/Os, in the order of their numbers.
    pub fn finish(self) -> Vec<DeviceVictims> {
        GroupTotals::finish(self.0.finish())
    }
}

impl Consumer for WaitsBuilder {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.0.consume(ios, later_start_ns);
    }
}

/// A [`WaitsBuilder`] for some of the devices. An I/O waits only for others on the same device, so each part can run on
/// its own thread.
#[derive(Debug)]
pub struct WaitsOfSome {
    /// Device numbers, which are the same in every part.
    index: DeviceIndex,
    /// The index of this part and the number of parts.
    part: u32,
    parts: u32,
    waits: WaitsBuilder,
}

impl WaitsOfSome {
    /// Creates `parts` builders that together cover all devices.
    pub fn parts(window: Window, parts: u32) -> Vec<WaitsOfSome> {
        let mut all = Vec::new();
        for part in 0..parts {
            all.push(WaitsOfSome {
                index: DeviceIndex::default(),
                part,
                parts,
                waits: WaitsBuilder::new(window),
            });
        }
        all
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        self.waits.lost(lost);
    }

    /// Every device that had I/Os, in the order of their numbers.
    pub fn finish(parts: Vec<WaitsOfSome>) -> Vec<DeviceVictims> {
        let mut devices: Vec<DeviceVictims> = Vec::new();
        for part in parts {
            devices.extend(part.waits.finish());
        }
        devices.sort_by_key(|device| device.dev);
        devices
    }
}

impl Consumer for WaitsOfSome {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        for io in ios {
            if self.index.number(io.dev) % self.parts == self.part {
                self.waits.push(io);
            }
        }
        self.waits.expect_from(later_start_ns);
    }
}

/// An analysis that can leave out the waits of some I/Os.
pub trait CountsWaits: Consumer {
    /// Takes the next completed I/O. Without `is_counted` others may wait for it, but its own wait is not reported.
    fn push_counted(&mut self, io: &Io, is_counted: bool);

    /// Promises that I/Os that come later were issued at or after `later_start_ns`.
    fn expect_from(&mut self, later_start_ns: i64);
}

impl CountsWaits for WaitsBuilder {
    fn push_counted(&mut self, io: &Io, is_counted: bool) {
        self.0.push_counted(io, is_counted);
    }

    fn expect_from(&mut self, later_start_ns: i64) {
        self.0.expect_from(later_start_ns);
    }
}

/// The sums of all groups.
#[derive(Debug, Default)]
struct GroupTotals {
    /// Indexed by group number.
    groups: Vec<Sums>,
    felt: FeltTotals,
}

impl WaitMeasure for GroupTotals {
    fn know(&mut self, groups: &Groups) {
        self.felt.know_groups(&groups.all);
    }

    fn io(&mut self, pending: &mut Pending, io: &Io) {
        self.felt.profile(pending.group, io);
    }

    fn wait(&mut self, wait: &Wait) {
        let group = wait.io.group as usize;
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Sums::default);
        }
        self.groups[group].count(wait);
        self.felt.wait(wait);
    }
}

impl GroupTotals {
    fn finish(attributed: Attributed<GroupTotals>) -> Vec<DeviceVictims> {
        let Attributed {
            groups,
            devices: numbers,
            services,
            measure,
        } = attributed;
        let shown = groups.shown();
        let mut felt = measure.felt.finish(&groups);
        // Groups that are shown as one are summed.
        let mut victims: BTreeMap<(u32, Group), Victim> = BTreeMap::new();
        for (number, sums) in measure.groups.into_iter().enumerate() {
            if sums.ios == 0 {
                continue;
            }
            let device = groups.all[number].0;
            let group = shown[number];
            victims
                .entry((device, group))
                .or_insert_with(|| Victim::none(group))
                .add(&sums, &shown);
        }
        let mut devices: Vec<DeviceVictims> = Vec::new();
        for (number, dev) in numbers.into_iter().enumerate() {
            devices.push(DeviceVictims {
                dev,
                service: services[number],
                victims: Vec::new(),
                felt: felt.remove(&(number as u32)).unwrap_or_default(),
            });
        }
        for ((device, _), victim) in victims {
            devices[device as usize].victims.push(victim);
        }
        for device in &mut devices {
            device.victims = Victim::ordered(std::mem::take(&mut device.victims));
        }
        devices.sort_by_key(|d| d.dev);
        devices
    }
}

#[cfg(test)]
pub(in crate::analysis) mod tests;
