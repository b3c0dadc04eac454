//! Sums of what programs felt, while the stream runs.

use std::collections::{BTreeMap, HashMap};

use super::caps::CapWatch;
use super::device::Wait;
use super::effects::{DetailsLeft, Effect, ProcessEffect, is_own_class};
use super::groups::Groups;
use super::profiles::Profile;
use super::{DeviceFelt, Group, MAX_PROCESSES, Program};
use crate::model::{Class, Comm, Io, Origin, OwnedTime};

/// Whether a program can be waiting for `io`: not for write-back that no program asked for, nor for discards.
pub(super) fn is_waited_for(io: &Io) -> bool {
    match (io.class(), io.origin) {
        (Class::Discard, _) => false,
        (Class::Write, Origin::Writeback) => io.flags.is_none_or(|f| f & Io::FLAG_SYNC != 0),
        _ => true,
    }
}

/// Of many processes of one program one stands out if in a time like this it moves two thirds of what all move, at least this much,
/// while two others or more have I/O, too. Small I/Os count as larger ones: they take as long.
const TOGETHER_NS: i64 = 2_000_000_000;
const STANDING_OUT_BYTES: i64 = 8 << 20;
const SMALL_BYTES: i64 = 16 << 10;

/// So many of them can.
const MAX_STANDING_OUT: usize = 4;

/// The share of `ns` that goes beyond `spare_ns`.
fn noticed_share(ns: i64, spare_ns: i64) -> f64 {
    (ns - spare_ns).max(0) as f64 / ns.max(1) as f64
}

fn share_of(ns: i64, share: f64) -> i64 {
    (ns as f64 * share) as i64
}

/// This share of what was waited behind each group, without zeros.
fn share_of_all(behind: &[(u32, i64)], share: f64) -> Vec<(u32, i64)> {
    let shares = behind
        .iter()
        .map(|(group, ns)| (*group, share_of(*ns, share)));
    shares.filter(|(_, ns)| *ns > 0).collect()
}

/// Where the time of an I/O went of whose excess its program notices a share, `behind` any I/Os as given; the rest of it counts as
/// undisturbed.
fn noticed_time(time: &OwnedTime, behind: &[(u32, i64)], share: f64) -> OwnedTime {
    let all_ns: i64 = behind.iter().map(|(_, ns)| ns).sum();
    let own_ns = share_of(time.own_ns, share);
    let mut noticed = OwnedTime {
        undisturbed_ns: 0,
        own_ns,
        others_ns: all_ns - own_ns,
        held_ns: share_of(time.held_ns, share),
        device_ns: share_of(time.device_ns, share),
        unknown_ns: share_of(time.unknown_ns, share),
    };
    noticed.undisturbed_ns = time.total_ns() - noticed.excess_ns();
    noticed
}

/// A process on a device, or a pool of them.
#[derive(Debug)]
struct FeltActor {
    device: u32,
    program: Program,
    family: u32,
    /// It is shown as itself, though there are many of its name.
    stands_out: bool,
}

/// The processes of one program in one control group on one device.
#[derive(Debug, Default)]
struct Family {
    /// The first ones, and those that stand out.
    actors: Vec<u32>,
    /// Of all beyond [`MAX_PROCESSES`].
    pool: Option<u32>,
    /// Of all of them.
    groups: Vec<u32>,
    /// The present interval.
    slot: i64,
}

/// Accumulates what programs felt.
#[derive(Debug, Default)]
pub(super) struct FeltTotals {
    /// By the group's number.
    actor_of: Vec<u32>,
    class_of: Vec<Class>,
    profiles: Vec<Profile>,
    /// What each moved in the present interval of its family, if that has a pool.
    moved_bytes: Vec<i64>,
    actors: Vec<FeltActor>,
    family_of: HashMap<(u32, Option<Comm>, Option<i64>), u32>,
    families: Vec<Family>,
    /// By actor and class.
    effects: Vec<Option<Box<ProcessEffect>>>,
    /// By the device's number.
    caps: Vec<CapWatch>,
    left: DetailsLeft,
}

impl FeltTotals {
    /// Takes the groups that it does not know yet.
    pub fn know_groups(&mut self, groups: &[(u32, Group)]) {
        for (device, group) in &groups[self.actor_of.len()..] {
            let actor = self.actor(*device, group.program.map(Program::without_worker_number));
            self.actor_of.push(actor);
            self.class_of.push(group.class);
            self.profiles.push(Profile::of(group));
            self.moved_bytes.push(0);
            let family = self.actors[actor as usize].family as usize;
            self.families[family]
                .groups
                .push(self.actor_of.len() as u32 - 1);
            let device = *device as usize;
            if self.caps.len() <= device {
                self.caps.resize_with(device + 1, CapWatch::default);
            }
        }
    }

    fn actor(&mut self, device: u32, program: Option<Program>) -> u32 {
        let program = program.unwrap_or(Program::OTHERS);
        let key = (device, program.comm, program.cgroup);
        let family = *self.family_of.entry(key).or_insert_with(|| {
            self.families.push(Family::default());
            self.families.len() as u32 - 1
        });
        let known = &mut self.families[family as usize];
        for actor in &known.actors {
            if self.actors[*actor as usize].program == program {
                return *actor;
            }
        }
        let new = self.actors.len() as u32;
        if known.actors.len() >= MAX_PROCESSES {
            if let Some(pool) = known.pool {
                return pool;
            }
            known.pool = Some(new);
        } else {
            known.actors.push(new);
        }
        self.new_actor(FeltActor {
            device,
            program,
            family,
            stands_out: false,
        })
    }

    fn new_actor(&mut self, actor: FeltActor) -> u32 {
        self.actors.push(actor);
        self.effects.resize_with(self.actors.len() * 4, || None);
        self.actors.len() as u32 - 1
    }

    /// Takes an I/O, for what its group's I/O is.
    pub fn profile(&mut self, group: u32, io: &Io) {
        self.profiles[group as usize].push(io);
        let actor = &self.actors[self.actor_of[group as usize] as usize];
        let family = &mut self.families[actor.family as usize];
        if family.pool.is_none() {
            return;
        }
        let slot = io.done_ns / TOGETHER_NS;
        if slot != family.slot {
            family.slot = slot;
            let family = actor.family;
            self.end_interval(family);
        }
        self.moved_bytes[group as usize] += io.bytes.max(SMALL_BYTES);
    }

    /// The present interval of a family is over: one of its processes may have stood out.
    fn end_interval(&mut self, family: u32) {
        let mut processes: HashMap<Option<i32>, i64> = HashMap::new();
        let mut all = 0;
        for group in &self.families[family as usize].groups {
            let bytes = std::mem::take(&mut self.moved_bytes[*group as usize]);
            if bytes > 0 {
                let program = self.profiles[*group as usize].program;
                *processes.entry(program.and_then(|p| p.tgid)).or_default() += bytes;
                all += bytes;
            }
        }
        let has_others = processes.len() > 2;
        let most = processes.into_iter().max_by_key(|(_, bytes)| *bytes);
        if let Some((Some(tgid), bytes)) = most
            && has_others
            && bytes >= STANDING_OUT_BYTES
            && 3 * bytes >= 2 * all
        {
            self.let_stand_out(family, tgid);
        }
    }

    /// From now on a process is shown as itself: it does most of what all do, so what the others wait for is not their own.
    fn let_stand_out(&mut self, family: u32, tgid: i32) {
        let known = &mut self.families[family as usize];
        let Some(pool) = known.pool else { return };
        let shown = known.actors.iter();
        let shown = shown.filter(|actor| self.actors[**actor as usize].stands_out);
        if shown.count() == MAX_STANDING_OUT {
            return;
        }
        // One of the first has an actor.
        for actor in &known.actors {
            let actor = &mut self.actors[*actor as usize];
            if actor.program.tgid == Some(tgid) {
                actor.stands_out = true;
                return;
            }
        }
        let all = self.actor_of.iter_mut().zip(&self.profiles);
        let mut its: Vec<&mut u32> = Vec::new();
        for (actor, profile) in all {
            if *actor == pool && profile.program.and_then(|p| p.tgid) == Some(tgid) {
                its.push(actor);
            }
        }
        let new = self.actors.len() as u32;
        its.into_iter().for_each(|actor| *actor = new);
        known.actors.push(new);
        let FeltActor {
            device, program, ..
        } = self.actors[pool as usize];
        self.new_actor(FeltActor {
            device,
            program: Program {
                tgid: Some(tgid),
                ..program
            },
            family,
            stands_out: true,
        });
    }

    /// Takes where the time of an I/O went.
    pub fn wait(&mut self, wait: &Wait) {
        let io = wait.io;
        self.caps[io.device as usize].push(wait);
        if !io.is_waited_for {
            return;
        }
        if wait.spare_ns == 0 {
            self.felt(wait);
            return;
        }
        let excess_ns = wait.time.excess_ns();
        let share = noticed_share(excess_ns, wait.spare_ns);
        let behind = share_of_all(wait.behind, share);
        let most_ns: i64 = wait.at_most.iter().map(|(_, ns)| ns).sum();
        let at_most = share_of_all(wait.at_most, noticed_share(most_ns, wait.spare_ns));
        self.felt(&Wait {
            io,
            time: noticed_time(&wait.time, &behind, share),
            behind: &behind,
            is_bound: wait.is_bound && !at_most.is_empty(),
            at_most: &at_most,
            spare_ns: 0,
        });
    }

    /// Takes where the time of an I/O went of which its program notices all.
    fn felt(&mut self, wait: &Wait) {
        let io = wait.io;
        let own = self.actor_of[io.group as usize];
        let class = self.class_of[io.group as usize];
        let effect = self.effects[own as usize * 4 + class as usize].get_or_insert_default();
        effect.count(wait);
        let mut own_ns = 0;
        let mut main: Option<(usize, i64)> = None;
        for (group, ns) in wait.behind {
            let actor = self.actor_of[*group as usize];
            if actor == own && is_own_class(class, self.class_of[*group as usize]) {
                own_ns += ns;
                continue;
            }
            let pair = effect.behind(wait, (actor, *group), *ns, &mut self.left);
            if main.is_none_or(|(_, most)| *ns > most) {
                main = Some((pair, *ns));
            }
        }
        for (group, at_most_ns) in wait.at_most {
            effect.may_have_waited(self.actor_of[*group as usize], *at_most_ns);
        }
        effect.close(wait, own_ns, main.map(|(pair, _)| pair));
        if self.left.is_wanted {
            self.left.raise();
            for effect in self.effects.iter_mut().flatten() {
                effect.give_up_details(&mut self.left);
            }
        }
    }

    /// The program of an actor as it is shown: without the number of the process where there are many and it does not stand out.
    fn shown(&self, actor: u32) -> Program {
        let actor = &self.actors[actor as usize];
        let is_pool = self.families[actor.family as usize].pool.is_some();
        let program = actor.program;
        Program {
            tgid: program.tgid.filter(|_| actor.stands_out || !is_pool),
            ..program
        }
    }

    /// What was felt, by the device's number. `groups` has the names of processes.
    pub fn finish(mut self, groups: &Groups) -> BTreeMap<u32, DeviceFelt> {
        for actor in &mut self.actors {
            actor.program = groups.named_program(actor.program);
        }
        let shown: Vec<Program> = (0..self.actors.len() as u32)
            .map(|actor| self.shown(actor))
            .collect();
        let mut devices = self.caps_by_device();
        let places = self.groups_shown(&shown, &mut devices);
        self.add_effects(&shown, &places, &mut devices);
        for device in devices.values_mut() {
            device.effects.sort_by_key(|e| {
                (
                    std::cmp::Reverse(e.sums.time.excess_ns()),
                    e.victim,
                    e.class,
                )
            });
            for effect in &mut device.effects {
                effect.sort_pairs();
            }
        }
        devices
    }

    /// The rates at which devices were held, by the device's number.
    fn caps_by_device(&mut self) -> BTreeMap<u32, DeviceFelt> {
        let mut devices: BTreeMap<u32, DeviceFelt> = BTreeMap::new();
        for (number, watch) in std::mem::take(&mut self.caps).into_iter().enumerate() {
            devices.entry(number as u32).or_default().cap = watch.finish();
        }
        devices
    }

    /// Adds the groups to their devices; those of processes that are shown as one become one. `shown` has the program of each
    /// actor. The place of each group among those of its device comes back.
    fn groups_shown(
        &mut self,
        shown: &[Program],
        devices: &mut BTreeMap<u32, DeviceFelt>,
    ) -> Vec<usize> {
        let mut places = Vec::with_capacity(self.profiles.len());
        let mut place_of: HashMap<(u32, Option<Program>, Class, Origin), usize> = HashMap::new();
        for (group, profile) in self.profiles.iter_mut().enumerate() {
            let actor = self.actor_of[group] as usize;
            let device = self.actors[actor].device;
            if profile.program.is_some() {
                profile.program = Some(shown[actor]);
            }
            let groups = &mut devices.entry(device).or_default().groups;
            let key = (device, profile.program, profile.class, profile.origin);
            let place = *place_of.entry(key).or_insert(groups.len());
            if place == groups.len() {
                groups.push(profile.clone());
            } else {
                groups[place].merge(profile);
            }
            places.push(place);
        }
        places
    }

    /// Adds what was felt to the devices, by program and class; `places` are those of [`FeltTotals::groups_shown`].
    fn add_effects(
        &mut self,
        shown: &[Program],
        places: &[usize],
        devices: &mut BTreeMap<u32, DeviceFelt>,
    ) {
        for process in self.effects.iter_mut().flatten() {
            process.end_interval();
        }
        let mut place_of: HashMap<(u32, Program, Class), usize> = HashMap::new();
        for (unit, process) in self.effects.iter().enumerate() {
            let Some(process) = process else { continue };
            let actor = unit / 4;
            let class = Class::ALL[unit % 4];
            let victim = shown[actor];
            let device = self.actors[actor].device;
            let effects = &mut devices.entry(device).or_default().effects;
            let key = (device, victim, class);
            let place = *place_of.entry(key).or_insert(effects.len());
            if place == effects.len() {
                effects.push(Effect::new(victim, class));
            }
            effects[place].add(
                process,
                |actor| shown[actor as usize],
                |group| self.class_of[group as usize],
                |group| places[group as usize],
            );
        }
    }
}
