//! Sums of what programs felt, while the stream runs.

use std::collections::{BTreeMap, HashMap};

use super::caps::CapWatch;
use super::device::Wait;
use super::effects::{DetailsLeft, Effect, ProcessEffect, is_own_class};
use super::profiles::Profile;
use super::{DeviceFelt, Group, MAX_PROCESSES, Program};
use crate::model::{Class, Comm, Io, Origin};

/// Whether a program can be waiting for `io`: not for write-back that no program asked for, nor for discards.
pub(super) fn is_waited_for(io: &Io) -> bool {
    match (io.class(), io.origin) {
        (Class::Discard, _) => false,
        (Class::Write, Origin::Writeback) => io.flags.is_none_or(|f| f & Io::FLAG_SYNC != 0),
        _ => true,
    }
}

/// A process on a device, or a pool of them.
#[derive(Debug)]
struct FeltActor {
    device: u32,
    program: Program,
}

/// The processes of one program in one control group on one device.
#[derive(Debug, Default)]
struct Processes {
    actors: Vec<u32>,
    /// Of all beyond [`MAX_PROCESSES`].
    pool: Option<u32>,
}

/// Accumulates what programs felt.
#[derive(Debug, Default)]
pub(super) struct FeltTotals {
    /// By the group's number.
    actor_of: Vec<u32>,
    class_of: Vec<Class>,
    profiles: Vec<Profile>,
    actors: Vec<FeltActor>,
    processes: HashMap<(u32, Option<Comm>, Option<i64>), Processes>,
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
            let device = *device as usize;
            if self.caps.len() <= device {
                self.caps.resize_with(device + 1, CapWatch::default);
            }
        }
    }

    fn actor(&mut self, device: u32, program: Option<Program>) -> u32 {
        let program = program.unwrap_or(Program::OTHERS);
        let key = (device, program.comm, program.cgroup);
        let known = self.processes.entry(key).or_default();
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
        self.actors.push(FeltActor { device, program });
        self.effects.resize_with(self.actors.len() * 4, || None);
        new
    }

    /// Takes an I/O, for what its group's I/O is.
    pub fn profile(&mut self, group: u32, io: &Io) {
        self.profiles[group as usize].push(io);
    }

    /// Takes where the time of an I/O went.
    pub fn wait(&mut self, wait: &Wait) {
        let io = wait.io;
        self.caps[io.device as usize].push(wait);
        if !io.is_waited_for {
            return;
        }
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
        effect.close(wait, own_ns, main.map(|(pair, _)| pair));
        if self.left.is_wanted {
            self.left.raise();
            for effect in self.effects.iter_mut().flatten() {
                effect.give_up_details(&mut self.left);
            }
        }
    }

    /// The program of an actor as it is shown: without the number of the process where there are many.
    fn shown(&self, actor: u32) -> Program {
        let FeltActor { device, program } = &self.actors[actor as usize];
        let processes = self.processes.get(&(*device, program.comm, program.cgroup));
        let is_pool = processes.is_some_and(|p| p.pool.is_some());
        Program {
            tgid: program.tgid.filter(|_| !is_pool),
            ..*program
        }
    }

    /// What was felt, by the device's number.
    pub fn finish(mut self) -> BTreeMap<u32, DeviceFelt> {
        let shown: Vec<Program> = (0..self.actors.len() as u32)
            .map(|actor| self.shown(actor))
            .collect();
        let mut devices: BTreeMap<u32, DeviceFelt> = BTreeMap::new();
        for (number, watch) in std::mem::take(&mut self.caps).into_iter().enumerate() {
            devices.entry(number as u32).or_default().cap = watch.finish();
        }

        // Groups of processes that are shown as one become one.
        let mut places = Vec::new();
        for (group, profile) in self.profiles.iter_mut().enumerate() {
            let actor = self.actor_of[group];
            let device = self.actors[actor as usize].device;
            if profile.program.is_some() {
                profile.program = Some(shown[actor as usize]);
            }
            let groups = &mut devices.entry(device).or_default().groups;
            let same = groups.iter().position(|g| {
                (g.program, g.class, g.origin) == (profile.program, profile.class, profile.origin)
            });
            match same {
                Some(place) => {
                    groups[place].merge(profile);
                    places.push(place);
                }
                None => {
                    groups.push(profile.clone());
                    places.push(groups.len() - 1);
                }
            }
        }

        for process in self.effects.iter_mut().flatten() {
            process.end_interval();
        }
        for (unit, process) in self.effects.iter().enumerate() {
            let Some(process) = process else { continue };
            let actor = unit / 4;
            let class = Class::ALL[unit % 4];
            let victim = shown[actor];
            let effects = &mut devices
                .entry(self.actors[actor].device)
                .or_default()
                .effects;
            let same = effects
                .iter()
                .position(|e| e.victim == victim && e.class == class);
            let place = match same {
                Some(place) => place,
                None => {
                    effects.push(Effect::new(victim, class));
                    effects.len() - 1
                }
            };
            effects[place].add(
                process,
                |actor| shown[actor as usize],
                |group| self.class_of[group as usize],
                |group| places[group as usize],
            );
        }
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
}
