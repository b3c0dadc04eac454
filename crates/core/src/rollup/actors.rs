//! The actors with the most I/O time in each ten seconds, summed while I/Os are recorded.
//!
//! An I/O counts in the slot in which it completes, as in the rollups. Over all actors of a kind, including the others,
//! the sums equal those of the device.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::model::{
    Actor, ActorKind, ActorSums, Class, Comm, DevId, Inode, Io, IoSums, SECOND_NS, floor_to,
};

/// Slot lengths in seconds. Files of the finer step are removed with the rollups of a second; the coarser ones are kept
/// as long as those of a minute.
pub const ACTOR_STEPS_S: [i32; 2] = [10, 600];
/// Maximum number of named actors in a slot of a device; the others are summed.
pub const MAX_ACTORS: usize = 20;
/// Delay after which a slot is complete, because the source may deliver completions late.
const LATE_NS: i64 = 2 * SECOND_NS;
/// Maximum number of distinct (process, control group, file) combinations in a slot of a device: 2 MiB. Beyond it files
/// count as others; beyond twice as many, processes and control groups do too.
const MAX_KEYS: usize = 1 << 14;

/// An actor and its name.
type NamedActor = (Actor, Option<String>);
type Classes = [IoSums; Class::ALL.len()];
const NOTHING: Classes = [IoSums::ZERO; Class::ALL.len()];

/// Computes ten-second rows from I/Os in the order of completion.
#[derive(Debug, Default)]
pub struct ActorsBuilder {
    /// Open slots, by start and device.
    slots: BTreeMap<(i64, DevId), ActorSlot>,
    done: Vec<ActorSums>,
    seen_ns: i64,
}

/// The process, control group and file that an I/O belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ActorKey {
    /// Process id, name and control group; `None` if the slot already holds too many other combinations.
    process: Option<(Option<i32>, Option<Comm>, Option<i64>)>,
    /// The file; `None` for the same reason.
    file: Option<Option<Inode>>,
}

/// One slot of a device.
#[derive(Debug, Default)]
struct ActorSlot {
    numbers: HashMap<ActorKey, usize>,
    sums: Vec<(ActorKey, Classes)>,
    /// Entry of the last I/O; the next one usually has the same.
    last: usize,
}

impl ActorsBuilder {
    /// Takes I/Os, in the order of completion.
    pub fn push_ios(&mut self, ios: &[Io]) {
        let slot_ns = i64::from(ACTOR_STEPS_S[0]) * SECOND_NS;
        for io in ios {
            let done_ns = io.done_ns.max(0);
            self.slots
                .entry((floor_to(done_ns, slot_ns), io.dev))
                .or_default()
                .count(io);
            self.seen_ns = self.seen_ns.max(done_ns);
        }
        self.complete(self.seen_ns - slot_ns - LATE_NS);
    }

    /// Declares that every I/O completed before `now_ns` has been pushed.
    pub fn seen_until(&mut self, now_ns: i64) {
        self.complete(now_ns - i64::from(ACTOR_STEPS_S[0]) * SECOND_NS);
    }

    /// Completes the slots that start at `at_ns` or earlier.
    fn complete(&mut self, at_ns: i64) {
        while let Some(slot) = self.slots.first_entry().filter(|s| s.key().0 <= at_ns) {
            let ((at_ns, dev), slot) = slot.remove_entry();
            self.done.extend(slot.rows(at_ns, dev));
        }
    }

    /// Returns the rows of complete slots, ordered by time.
    pub fn take(&mut self) -> Vec<ActorSums> {
        let mut rows = std::mem::take(&mut self.done);
        rows.sort_by_key(|r| (r.at_ns, r.dev));
        rows
    }

    /// Returns the rows of all slots, complete or not.
    pub fn finish(mut self) -> Vec<ActorSums> {
        self.complete(i64::MAX);
        self.take()
    }
}

impl ActorSlot {
    fn count(&mut self, io: &Io) {
        let mut key = ActorKey {
            process: Some((io.tgid, io.comm, io.cgroup)),
            file: Some(io.inode()),
        };
        if self
            .sums
            .get(self.last)
            .is_none_or(|(last, _)| *last != key)
        {
            if !self.numbers.contains_key(&key) {
                key.file = key.file.filter(|_| self.sums.len() < MAX_KEYS);
                key.process = key.process.filter(|_| self.sums.len() < 2 * MAX_KEYS);
            }
            let next = self.sums.len();
            self.last = *self.numbers.entry(key).or_insert(next);
            if self.last == next {
                self.sums.push((key, NOTHING));
            }
        }
        self.sums[self.last].1[io.class() as usize].count(io);
    }

    fn rows(&self, at_ns: i64, dev: DevId) -> Vec<ActorSums> {
        let mut rows = Vec::new();
        for kind in ActorKind::ALL {
            let mut sums: HashMap<(Actor, Option<Comm>), Classes> = HashMap::new();
            for (key, classes) in &self.sums {
                let (actor, comm) = key.actor(kind);
                add(sums.entry((actor, comm)).or_insert(NOTHING), classes);
            }
            // Slots compare names as bytes, which is cheap; rows hold text.
            let mut named = Vec::with_capacity(sums.len());
            for ((actor, comm), classes) in sums {
                let name = comm.map(|c| c.to_text().into_owned());
                named.push(((actor, name), classes));
            }
            let at = RollupPlace {
                step_s: ACTOR_STEPS_S[0],
                at_ns,
                dev,
            };
            rows.extend(at.rows(kind, named));
        }
        rows
    }
}

impl ActorKey {
    fn actor(&self, kind: ActorKind) -> (Actor, Option<Comm>) {
        let others = (Actor::Others(kind), None);
        match kind {
            ActorKind::Process => self
                .process
                .map_or(others, |(tgid, comm, _)| (Actor::Process(tgid), comm)),
            ActorKind::Cgroup => self
                .process
                .map_or(others, |(_, _, cgroup)| (Actor::Cgroup(cgroup), None)),
            ActorKind::File => self.file.map_or(others, |inode| (Actor::File(inode), None)),
        }
    }
}

fn add(sums: &mut Classes, more: &Classes) {
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| sum.add(more));
}

/// A slot of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RollupPlace {
    at_ns: i64,
    dev: DevId,
    step_s: i32,
}

impl RollupPlace {
    /// Rows of the [`MAX_ACTORS`] actors with the most time, and of the others together; one row for each class with
    /// I/O.
    fn rows(self, kind: ActorKind, sums: Vec<(NamedActor, Classes)>) -> Vec<ActorSums> {
        let (unnamed, mut named): (Vec<_>, Vec<_>) = sums
            .into_iter()
            .partition(|((actor, _), _)| matches!(actor, Actor::Others(_)));
        // Ties are broken by actor and name, so that the same I/Os always give the same rows.
        named.sort_by_cached_key(|((actor, name), classes)| {
            (Reverse(time_ns(classes)), *actor, name.clone())
        });
        let rest = named.split_off(named.len().min(MAX_ACTORS));
        // The others make one more actor, so that the rows add up to the device's sums.
        let mut others = NOTHING;
        for (_, classes) in rest.iter().chain(&unnamed) {
            add(&mut others, classes);
        }
        named.push(((Actor::Others(kind), None), others));
        let mut rows = Vec::new();
        for ((actor, name), classes) in &named {
            for class in Class::ALL {
                let sums = classes[class as usize];
                if sums.ios <= 0 {
                    continue;
                }
                rows.push(ActorSums {
                    step_s: self.step_s,
                    at_ns: self.at_ns,
                    dev: self.dev,
                    class,
                    actor: *actor,
                    name: name.clone(),
                    sums,
                });
            }
        }
        rows
    }
}

/// Time of all classes together.
fn time_ns(classes: &Classes) -> i64 {
    classes
        .iter()
        .fold(0, |sum, c| sum.saturating_add(c.time_ns()))
}

/// Aggregates finer rows to the coarser step. Actors that are among the others of a finer slot stay there. Rows of one
/// slot that are passed in two calls make two sets, which readers add.
pub fn coarser_actors(rows: &[ActorSums]) -> Vec<ActorSums> {
    let step_s = ACTOR_STEPS_S[1];
    let slot_ns = i64::from(step_s) * SECOND_NS;
    let mut slots: BTreeMap<(RollupPlace, ActorKind), BTreeMap<NamedActor, Classes>> =
        BTreeMap::new();
    for r in rows {
        let place = RollupPlace {
            at_ns: floor_to(r.at_ns, slot_ns),
            dev: r.dev,
            step_s,
        };
        let of = slots
            .entry((place, r.actor.kind()))
            .or_default()
            .entry((r.actor, r.name.clone()));
        of.or_insert(NOTHING)[r.class as usize].add(&r.sums);
    }
    slots
        .into_iter()
        .flat_map(|((place, kind), sums)| place.rows(kind, sums.into_iter().collect()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Op, Rollup};
    use crate::rollup::{RollupBuilder, minutes};
    use proptest::prelude::*;

    fn io(done_ns: i64, total_ns: i64, tgid: i32, dev: i32) -> Io {
        let op = if total_ns % 3 == 0 {
            Op::WRITE
        } else {
            Op::READ
        };
        let io = Io::new(
            done_ns,
            DevId(dev),
            op,
            4096,
            Some(total_ns / 4),
            total_ns - total_ns / 4,
        );
        let known = tgid % 7 != 0;
        let ino = known.then_some(i64::from(tgid) % 40);
        let fs_dev = known.then_some(8);
        let tgid = Some(tgid);
        let comm = Some(Comm::new(b"p"));
        Io {
            tgid,
            comm,
            cgroup: known.then_some(5),
            ino,
            fs_dev,
            ..io
        }
    }

    fn built(ios: &[Io], batch: usize) -> Vec<ActorSums> {
        let mut builder = ActorsBuilder::default();
        let mut rows = Vec::new();
        for part in ios.chunks(batch) {
            builder.push_ios(part);
            rows.append(&mut builder.take());
        }
        rows.extend(builder.finish());
        rows
    }

    /// Sums of each slot, device and class over all actors of `kind`.
    fn of_devices(
        rows: &[ActorSums],
        kind: ActorKind,
        step_s: i64,
    ) -> BTreeMap<(i64, DevId, Class), IoSums> {
        let mut sums = BTreeMap::new();
        for r in rows.iter().filter(|r| r.actor.kind() == kind) {
            assert_eq!(
                (i64::from(r.step_s), r.at_ns % (step_s * SECOND_NS)),
                (step_s, 0)
            );
            sums.entry((r.at_ns, r.dev, r.class))
                .or_insert(IoSums::ZERO)
                .add(&r.sums);
        }
        sums
    }

    /// The same of rollups.
    fn of_rollups(rows: &[Rollup], step_s: i64) -> BTreeMap<(i64, DevId, Class), IoSums> {
        let mut sums = BTreeMap::new();
        let slot_ns = step_s * SECOND_NS;
        for (r, dev, class) in rows.iter().filter_map(|r| Some((r, r.dev?, r.class?))) {
            let of = IoSums {
                ios: r.ios,
                bytes: r.bytes,
                queue_sum_ns: r.queue_sum_ns,
                device_sum_ns: r.device_sum_ns,
            };
            sums.entry((floor_to(r.at_ns, slot_ns), dev, class))
                .or_insert(IoSums::ZERO)
                .add(&of);
        }
        sums
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_device_and_at_most_twenty_are_named(
            steps in prop::collection::vec((0i64..2_000_000_000, 0i64..1_000_000, 0i32..90, 0i32..2), 0..400),
            batch in 1usize..50,
        ) {
            let mut now_ns = 0;
            let ios: Vec<Io> = steps.into_iter().map(|(gap, total, tgid, dev)| { now_ns += gap; io(now_ns, total, tgid, dev) }).collect();
            let rows = built(&ios, batch);
            let mut rollups = RollupBuilder::default();
            rollups.push_ios(&ios);
            let seconds = rollups.finish();
            let coarse = coarser_actors(&rows);
            for kind in ActorKind::ALL {
                prop_assert_eq!(of_devices(&rows, kind, 10), of_rollups(&seconds, 10));
                prop_assert_eq!(of_devices(&coarse, kind, 600), of_rollups(&minutes(&seconds), 600));
            }
            let mut named: BTreeMap<_, std::collections::BTreeSet<Actor>> = BTreeMap::new();
            for r in rows.iter().chain(&coarse).filter(|r| !matches!(r.actor, Actor::Others(_))) {
                named.entry((r.step_s, r.at_ns, r.dev, r.actor.kind())).or_default().insert(r.actor);
            }
            prop_assert!(named.values().all(|actors| actors.len() <= MAX_ACTORS));
        }
    }

    #[test]
    fn those_with_most_time_are_named_and_the_others_are_one_row() {
        let ios: Vec<Io> = (1..=30)
            .map(|i| Io {
                op: Op::READ,
                ..io(i64::from(i), i64::from(i) * 1000, i * 100, 1)
            })
            .collect();
        let rows = built(&ios, 7);
        let of: Vec<&ActorSums> = rows
            .iter()
            .filter(|r| r.actor.kind() == ActorKind::Process)
            .collect();
        assert_eq!(
            (of.len(), of[0].actor, of[0].name.as_deref()),
            (21, Actor::Process(Some(3000)), Some("p"))
        );
        let others = of.last().expect("the others");
        assert_eq!(
            (others.actor, others.sums.ios, others.name.as_deref()),
            (Actor::Others(ActorKind::Process), 10, None)
        );
        let least_named = of[19].sums.time_ns();
        assert!(least_named == 11_000 && others.sums.time_ns() == (1..=10).sum::<i64>() * 1000);
        let unknown = rows
            .iter()
            .find(|r| r.actor == Actor::File(None))
            .expect("I/Os whose file is not known");
        assert_eq!(unknown.sums.ios, 4, "those of 7, 14, 21, 28");
    }

    #[test]
    fn a_slot_is_complete_when_nothing_can_come_and_memory_is_bounded() {
        let mut builder = ActorsBuilder::default();
        let n = 3 * MAX_KEYS as i32;
        builder.push_ios(
            &(0..n)
                .map(|i| Io {
                    ino: Some(i.into()),
                    ..io(5, 100, i, 1)
                })
                .collect::<Vec<_>>(),
        );
        assert_eq!(builder.slots[&(0, DevId(1))].sums.len(), 2 * MAX_KEYS + 1);
        builder.push_ios(&[io(11 * SECOND_NS, 1, 1, 1)]);
        assert!(builder.take().is_empty(), "a completion may come late");
        builder.seen_until(9 * SECOND_NS);
        assert!(builder.take().is_empty());
        builder.push_ios(&[io(12 * SECOND_NS, 1, 1, 1)]);
        let rows = builder.take();
        for kind in ActorKind::ALL {
            let ios: i64 = rows
                .iter()
                .filter(|r| r.actor.kind() == kind)
                .map(|r| r.sums.ios)
                .sum();
            assert_eq!(ios, i64::from(n), "{kind:?}");
        }
        builder.seen_until(20 * SECOND_NS);
        assert_eq!(builder.take().len(), 3);
        assert!(builder.slots.is_empty());
    }
}
