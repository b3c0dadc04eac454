//! Who made whom wait: each nanosecond of each I/O's latency has exactly one owner.
//!
//! The latency of an I/O is what it takes undisturbed, and an excess. The excess is split among the groups of I/Os that
//! the device worked on meanwhile; what no work explains was spent above the driver (*held*), or is the device's own. A
//! group is a process, in its control group, with one class and one origin.
//!
//! How much a device worked on an I/O is not recorded, it is inferred by two models that are both exact in their pure
//! case, *in turn* and *side by side* ([`Service`]). Of each device the one is used that leaves less unexplained.
//! Attribution is a lower bound of the harm: what queues up behind the first victims counts as their own group's.
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
    /// Which.
    pub dev: DevId,
    /// How it serves, as far as its waits show it at the end.
    pub service: Service,
    /// Whose I/Os waited, the most excess first.
    pub victims: Vec<Victim>,
    /// What stories are made of.
    pub felt: DeviceFelt,
}

impl DeviceVictims {
    /// Leaves out names of programs, as [`Victim::hide_names`] does.
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

/// What waiting on one device did to programs, and what the I/O is behind which they waited.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceFelt {
    /// By program and class, the most excess first.
    pub effects: Vec<Effect>,
    /// All groups of I/Os; [`effects::Blame::group`] is a place in it.
    pub groups: Vec<Profile>,
    /// A rate at which the device was held, if it was.
    pub cap: Option<Cap>,
}

impl DeviceFelt {
    /// The groups of a program's I/Os that came to this device through one above.
    pub fn from_above(&self, program: &Program) -> impl Iterator<Item = &Profile> {
        self.groups.iter().filter(|group| {
            let is_its = group.program.is_some_and(|p| program.includes(&p));
            is_its && group.origin == Origin::Above
        })
    }
}

/// Accumulates [`DeviceVictims`]. Memory: that of the attribution, and the sums of at most 4096 groups of each device.
#[derive(Debug)]
pub struct WaitsBuilder(Attribution<GroupTotals>);

impl WaitsBuilder {
    /// Of the I/Os that complete inside `window`, by process.
    pub fn new(window: Window) -> WaitsBuilder {
        WaitsBuilder::by(Grouping::Process, window)
    }

    /// Of the I/Os that complete inside `window`. Those that start up to [`Window::LEARN_AFTER_NS`] after it are pushed too,
    /// from which it learns what I/Os take undisturbed; later ones change nothing.
    pub fn by(grouping: Grouping, window: Window) -> WaitsBuilder {
        WaitsBuilder(Attribution::new(window, grouping, GroupTotals::default()))
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.0.push(io);
    }

    /// Takes what is missing.
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

/// [`WaitsBuilder`] of some of the devices. An I/O waits only for others on its own device, so each part may have a thread of its
/// own.
#[derive(Debug)]
pub struct WaitsOfSome {
    /// Each part numbers all devices alike.
    index: DeviceIndex,
    /// Which part, and of how many.
    part: u32,
    parts: u32,
    waits: WaitsBuilder,
}

impl WaitsOfSome {
    /// So many parts together see all devices.
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

    /// Takes what is missing.
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

/// A part of the analysis that counts waits of some I/Os only.
pub trait CountsWaits: Consumer {
    /// Takes the next completed I/O; where `is_counted` is not set, others may wait for it, but what it waits for itself is
    /// left out.
    fn push_counted(&mut self, io: &Io, is_counted: bool);

    /// Says that no I/O still to come was issued before `later_start_ns`.
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
    /// By the group's number.
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
        // Groups that are shown as one are added up.
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
