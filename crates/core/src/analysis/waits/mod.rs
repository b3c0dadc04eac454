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

mod caps;
mod curve;
mod device;
pub mod effects;
mod felt;
mod levels;
pub mod profiles;
pub mod stretches;

use std::collections::{BTreeMap, HashMap};

use crate::analysis::report::streams::Part;
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::order::{End, Hold, Span, StartOrder, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Io, LossReason, Lost, Origin};

pub use caps::Cap;
pub use device::Service;
use device::{DeviceWaits, Pending, Slab, Wait, WaitSink};
pub use effects::Effect;
use felt::FeltTotals;
use levels::kind_of_io;
pub use profiles::Profile;

/// Groups of one device that are kept apart; I/Os of further ones belong to the others.
const MAX_GROUPS: usize = 4096;

/// Processes of one program in one control group that are kept apart. Where there are more they are one group: of a pool
/// of workers each waits behind all others, and no single one is the cause.
const MAX_PROCESSES: usize = 4;

/// Losses that are remembered while I/Os that may have waited through them are attributed.
const MAX_LOSSES: usize = 64;

/// Whose I/Os are taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The program; `None`: all for which there was no group of their own.
    pub program: Option<Program>,
    /// Their class.
    pub class: Class,
    /// How they came to be; read-ahead counts as a buffered read.
    pub origin: Origin,
}

/// A process in its control group. `None` inside: the source could not tell, or (the number) there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Program {
    /// Number of the process.
    pub tgid: Option<i32>,
    /// Its name.
    pub comm: Option<Comm>,
    /// Its control group.
    pub cgroup: Option<i64>,
}

impl Program {
    /// All programs for which there was no place, as one.
    pub const OTHERS: Program = Program {
        tgid: Some(i32::MIN),
        comm: None,
        cgroup: None,
    };
}

impl Group {
    fn of(io: &Io) -> Group {
        let origin = match io.origin {
            Origin::Readahead => Origin::BufferedRead,
            other => other,
        };
        Group {
            program: Some(Program {
                tgid: io.tgid,
                comm: io.comm,
                cgroup: io.cgroup,
            }),
            class: io.class(),
            origin,
        }
    }
}

/// Time that I/Os of one group waited behind those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Behind whom.
    pub group: Group,
    /// How long, summed.
    pub ns: i64,
    /// How many I/Os did.
    pub ios: u64,
}

/// The longest wait beyond the undisturbed latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worst {
    /// When that I/O completed, in nanoseconds since the recording's start.
    pub done_ns: i64,
    /// Its latency.
    pub latency_ns: i64,
    /// What it takes undisturbed.
    pub undisturbed_ns: i64,
}

/// Where the time of one group's I/Os went. The parts add up to `io_time_ns`, exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Whose I/Os.
    pub group: Group,
    /// How many.
    pub ios: u64,
    /// How many of them took longer than twice their undisturbed latency.
    pub delayed_ios: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
    /// What they would have taken undisturbed.
    pub undisturbed_ns: i64,
    /// Behind I/Os of their own group.
    pub own_ns: i64,
    /// Above the driver while the device had room: by a scheduler, a limit of a control group, or for want of tags.
    pub held_ns: i64,
    /// By the device itself: a pause, garbage collection, firmware, a hypervisor.
    pub device_ns: i64,
    /// Of no known cause: I/Os are missing, or the wait began longer ago than work is remembered.
    pub unknown_ns: i64,
    /// Behind others, the most time first.
    pub behind: Vec<Behind>,
    /// The worst of them.
    pub worst: Worst,
}

impl Worst {
    fn excess_ns(&self) -> i64 {
        self.latency_ns - self.undisturbed_ns
    }

    fn keep_worse(&mut self, other: &Worst) {
        if other.excess_ns() > self.excess_ns() {
            *self = *other;
        }
    }
}

impl Victim {
    /// What they lost: all that is not undisturbed.
    pub fn excess_ns(&self) -> i64 {
        self.io_time_ns - self.undisturbed_ns
    }
}

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

/// Accumulates [`DeviceVictims`]. Memory: per device at most 33 groups' work of a minute, 64 KiB for each, and the sums of
/// at most 4096 groups.
#[derive(Debug)]
pub struct WaitsBuilder {
    order: StartOrder,
    swept: Swept,
}

#[derive(Debug)]
struct Swept {
    slab: Slab,
    devices: Vec<DeviceWaits>,
    index: DeviceIndex,
    groups: Groups,
    totals: Totals,
}

impl Sweep for Swept {
    fn start(&mut self, span: &Span) {
        let device = self.slab.get(span.key).device as usize;
        let totals = &mut self.totals;
        self.devices[device].issue(&mut self.slab, span.key, span.start_ns, totals);
    }

    fn done(&mut self, end: &End) {
        let device = self.slab.get(end.key).device as usize;
        let totals = &mut self.totals;
        self.devices[device].done(&mut self.slab, end.key, end.at_ns, totals);
    }
}

impl WaitsBuilder {
    /// Of the I/Os that complete inside `window`.
    pub fn new(window: Window) -> WaitsBuilder {
        WaitsBuilder {
            order: StartOrder::new(Hold::RECORDING),
            swept: Swept {
                slab: Slab::default(),
                devices: Vec::new(),
                index: DeviceIndex::default(),
                groups: Groups::default(),
                totals: Totals::new(window),
            },
        }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        let swept = &mut self.swept;
        let device = swept.index.number(io.dev);
        if device as usize == swept.devices.len() {
            let others = swept.groups.others(device);
            swept.devices.push(DeviceWaits::new(others));
            swept.totals.devices.push(io.dev);
        }
        let issue_ns = io.issue_ns().min(io.done_ns);
        let start_ns = io.start_ns().min(issue_ns);
        let mut pending = Pending::new(start_ns, issue_ns, io.done_ns, io.bytes);
        pending.device = device;
        pending.group = swept.groups.number(device, Group::of(io));
        pending.kind = kind_of_io(io) as u16;
        pending.is_waited_for = felt::is_waited_for(io);
        let felt = &mut swept.totals.felt;
        felt.know_groups(&swept.groups.all);
        if swept.totals.window.contains(io.done_ns) {
            felt.profile(pending.group, io);
        }
        let key = swept.slab.insert(pending);
        self.order.push(Span::issued(io, key), swept);
    }

    /// Takes what is missing.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        let losses = &mut self.swept.totals.losses;
        if losses.len() >= MAX_LOSSES {
            losses.remove(0);
        }
        losses.push(*lost);
    }

    /// Every device that had I/Os, in the order of their numbers.
    pub fn finish(mut self) -> Vec<DeviceVictims> {
        self.order.finish(&mut self.swept);
        let Swept {
            mut slab,
            mut devices,
            groups,
            mut totals,
            ..
        } = self.swept;
        for device in &mut devices {
            device.finish(&mut slab, &mut totals);
        }
        let services: Vec<Service> = devices.iter().map(DeviceWaits::service).collect();
        totals.finish(&groups, &services)
    }
}

impl Part for WaitsBuilder {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        for io in ios {
            self.push(io);
        }
        self.order.settle(later_start_ns, &mut self.swept);
    }
}

/// A device, and a program's name and control group.
type ProgramOnDevice = (u32, Option<Comm>, Option<i64>);

/// Numbers of groups. A group belongs to one device.
#[derive(Debug, Default)]
struct Groups {
    numbers: HashMap<(u32, Group), u32>,
    all: Vec<(u32, Group)>,
    /// Groups of each device.
    counts: Vec<usize>,
    last: Option<((u32, Group), u32)>,
}

impl Groups {
    /// The group of all I/Os of a new `device` that have no group of their own.
    fn others(&mut self, device: u32) -> u32 {
        self.counts.resize(device as usize + 1, 0);
        let others = Group {
            program: None,
            class: Class::Read,
            origin: Origin::Unknown,
        };
        self.new_number((device, others))
    }

    fn number(&mut self, device: u32, group: Group) -> u32 {
        let key = (device, group);
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.counts[device as usize] < MAX_GROUPS => self.new_number(key),
            None => {
                let others = Group {
                    program: None,
                    ..group
                };
                self.new_number((device, others))
            }
        };
        self.last = Some((key, number));
        number
    }

    fn new_number(&mut self, key: (u32, Group)) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(key, number);
        self.all.push(key);
        self.counts[key.0 as usize] += 1;
        number
    }

    /// Each group as it is shown: where a device has more than [`MAX_PROCESSES`] processes of one program in one control
    /// group, they lose their numbers and become one.
    fn shown(&self) -> Vec<Group> {
        let mut processes: BTreeMap<ProgramOnDevice, Vec<Option<i32>>> = BTreeMap::new();
        for (device, group) in &self.all {
            let Some(program) = group.program else {
                continue;
            };
            let known = processes
                .entry((*device, program.comm, program.cgroup))
                .or_default();
            if known.len() <= MAX_PROCESSES && !known.contains(&program.tgid) {
                known.push(program.tgid);
            }
        }
        let show = |(device, group): &(u32, Group)| {
            let mut shown = *group;
            if let Some(program) = &mut shown.program {
                let known = &processes[&(*device, program.comm, program.cgroup)];
                if known.len() > MAX_PROCESSES {
                    program.tgid = None;
                }
            }
            shown
        };
        self.all.iter().map(show).collect()
    }
}

/// Sums over the I/Os of one group.
#[derive(Debug, Clone, Default)]
struct Sums {
    ios: u64,
    delayed_ios: u64,
    io_time_ns: i64,
    undisturbed_ns: i64,
    held_ns: i64,
    device_ns: i64,
    unknown_ns: i64,
    /// By the group's number. Few: a linear search is faster than a map.
    behind: Vec<(u32, i64, u64)>,
    worst: Worst,
}

impl Sums {
    fn count(&mut self, wait: &Wait) {
        let latency_ns = wait.io.done_ns - wait.io.start_ns;
        self.ios += 1;
        self.io_time_ns += latency_ns;
        self.undisturbed_ns += wait.undisturbed_ns;
        self.held_ns += wait.held_ns;
        self.device_ns += wait.device_ns;
        self.unknown_ns += wait.unknown_ns;
        for (group, ns) in wait.behind {
            self.add_behind(*group, *ns, 1);
        }
        let excess_ns = latency_ns - wait.undisturbed_ns;
        if excess_ns > wait.undisturbed_ns {
            self.delayed_ios += 1;
        }
        self.worst.keep_worse(&Worst {
            done_ns: wait.io.done_ns,
            latency_ns,
            undisturbed_ns: wait.undisturbed_ns,
        });
    }

    fn add_behind(&mut self, group: u32, ns: i64, ios: u64) {
        match self.behind.iter_mut().find(|b| b.0 == group) {
            Some(behind) => {
                behind.1 += ns;
                behind.2 += ios;
            }
            None => self.behind.push((group, ns, ios)),
        }
    }
}

/// The sums of all groups.
#[derive(Debug)]
struct Totals {
    window: Window,
    devices: Vec<DevId>,
    /// By the group's number.
    groups: Vec<Sums>,
    losses: Vec<Lost>,
    felt: FeltTotals,
}

impl WaitSink for Totals {
    fn wait(&mut self, wait: &Wait) {
        if !self.window.contains(wait.io.done_ns) {
            return;
        }
        let group = wait.io.group as usize;
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Sums::default);
        }
        self.groups[group].count(wait);
        self.felt.wait(wait);
    }

    fn has_losses(&self, device: u32, from_ns: i64, to_ns: i64) -> bool {
        let dev = self.devices[device as usize];
        let concerns = |lost: &Lost| lost.dev.is_none_or(|d| d == dev);
        self.losses
            .iter()
            .any(|lost| concerns(lost) && lost.meets(from_ns, to_ns))
    }
}

impl Totals {
    fn new(window: Window) -> Totals {
        Totals {
            window,
            devices: Vec::new(),
            groups: Vec::new(),
            losses: Vec::new(),
            felt: FeltTotals::default(),
        }
    }

    fn finish(self, groups: &Groups, services: &[Service]) -> Vec<DeviceVictims> {
        let shown = groups.shown();
        let mut felt = self.felt.finish();
        // Groups that are shown as one are added up.
        let mut victims: BTreeMap<(u32, Group), Victim> = BTreeMap::new();
        for (number, sums) in self.groups.into_iter().enumerate() {
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
        for (number, dev) in self.devices.into_iter().enumerate() {
            devices.push(DeviceVictims {
                dev,
                service: services[number],
                victims: Vec::new(),
                felt: felt.remove(&(number as u32)).unwrap_or_default(),
            });
        }
        for ((device, _), mut victim) in victims {
            victim
                .behind
                .sort_by_key(|b| (std::cmp::Reverse(b.ns), b.group));
            devices[device as usize].victims.push(victim);
        }
        for device in &mut devices {
            device
                .victims
                .sort_by_key(|v| (std::cmp::Reverse(v.excess_ns()), v.group));
        }
        devices.sort_by_key(|d| d.dev);
        devices
    }
}

impl Victim {
    fn none(group: Group) -> Victim {
        Victim {
            group,
            ios: 0,
            delayed_ios: 0,
            io_time_ns: 0,
            undisturbed_ns: 0,
            own_ns: 0,
            held_ns: 0,
            device_ns: 0,
            unknown_ns: 0,
            behind: Vec::new(),
            worst: Worst::default(),
        }
    }

    fn add(&mut self, sums: &Sums, shown: &[Group]) {
        self.ios += sums.ios;
        self.delayed_ios += sums.delayed_ios;
        self.io_time_ns += sums.io_time_ns;
        self.undisturbed_ns += sums.undisturbed_ns;
        self.held_ns += sums.held_ns;
        self.device_ns += sums.device_ns;
        self.unknown_ns += sums.unknown_ns;
        for (number, ns, ios) in &sums.behind {
            let group = shown[*number as usize];
            if group == self.group {
                self.own_ns += ns;
                continue;
            }
            match self.behind.iter_mut().find(|b| b.group == group) {
                Some(behind) => {
                    behind.ns += ns;
                    behind.ios += ios;
                }
                None => self.behind.push(Behind {
                    group,
                    ns: *ns,
                    ios: *ios,
                }),
            }
        }
        self.worst.keep_worse(&sums.worst);
    }
}

#[cfg(test)]
pub(in crate::analysis) mod tests;
