//! The waits of one device: its I/Os in the order of issue and completion, and who worked while each of them waited.

use std::collections::VecDeque;

use super::arm::{Arm, Continues, Place};
use super::cached_writes::{CachedWrites, add};
use super::first_ios::Alone;
use super::levels::{Levels, Observed, class_of};
use super::read_ahead::ReadAhead;
use super::workers::{Worker, Workers};
use crate::model::{Class, OwnedTime, WorstWait};

/// Levels are learned so many edges (issues and completions) ahead of attribution.
const LOOK_AHEAD: usize = 1024;

/// Longer credits are looked at for batched completions: one interrupt that reports many.
const LONG_CREDIT_NS: i64 = 200_000;

/// Completions that follow within this share of the first one's credit belong to its batch.
const BATCH_GAP: f64 = 0.05;

/// In a batch, time is shared by bytes and by so many more for each I/O.
const BYTES_OF_ANY_IO: f64 = 16_384.0;

/// I/Os of one batch.
const MAX_BATCH: usize = 4096;

/// Work older than this is forgotten: what waited longer has a part that is unknown.
const HORIZON_NS: i64 = 60_000_000_000;

/// After so many edges old work is forgotten.
const FORGET_EACH: u32 = 4096;

/// What a model leaves unexplained is remembered with this half-life.
const MODEL_HALF_LIFE_NS: f64 = 7e9;

/// It is brought up to date when so much time has passed; within that it fades by a ten-thousandth.
const FADE_EACH_NS: i64 = 1_000_000;

/// Side by side is taken only if it leaves less than this share of what in turn leaves.
const SIDE_MUST_LEAVE: f64 = 0.8;

/// An I/O while it is swept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub start_ns: i64,
    pub issue_ns: i64,
    pub done_ns: i64,
    pub bytes: i64,
    /// Its first sector; `None` if that is not recorded.
    pub sector: Option<i64>,
    /// Number of its device.
    pub device: u32,
    /// Number of its group.
    pub group: u32,
    pub kind: u16,
    /// Whether a program can be waiting for it.
    pub is_waited_for: bool,
    /// Whether the kernel read it ahead of a program.
    pub is_read_ahead: bool,
    /// Whether its wait counts; others wait for it anyway.
    pub is_counted: bool,
    /// A place that what is made of its wait has given it.
    pub number: u32,
    /// How long it waited for its issue; the sweep may take it for issued later.
    queue_ns: i64,
    worker: Worker,
    /// `None` if something was in the device when it came.
    alone: Option<Alone>,
    /// How many others were in the device at its issue.
    pub found: u32,
    /// Integral of one over the number in the device, at its issue.
    share_at_issue: f64,
    /// Work per nanosecond in the device, if all are served side by side.
    side_rate: f64,
    /// Work if all are served in turn.
    turn_work: f64,
    /// Whether it continues where its group left off.
    continues: Continues,
    /// Whether it is read ahead and continues what was.
    is_next_part: bool,
}

impl Pending {
    pub fn new(start_ns: i64, issue_ns: i64, done_ns: i64, bytes: i64) -> Pending {
        Pending {
            start_ns,
            issue_ns,
            done_ns,
            bytes,
            sector: None,
            device: 0,
            group: 0,
            kind: 0,
            is_waited_for: false,
            is_read_ahead: false,
            is_counted: true,
            number: 0,
            queue_ns: issue_ns - start_ns,
            worker: Worker::default(),
            alone: None,
            found: 0,
            share_at_issue: 0.0,
            side_rate: 0.0,
            turn_work: 0.0,
            continues: Continues::No,
            is_next_part: false,
        }
    }

    /// Where it is served; a flush and a discard are nowhere.
    fn place(&self) -> Place {
        let is_somewhere = matches!(self.class(), Class::Read | Class::Write);
        Place {
            group: self.group,
            first: self.sector.filter(|_| is_somewhere),
            sectors: self.bytes / 512,
        }
    }

    fn class(&self) -> Class {
        class_of(usize::from(self.kind))
    }

    pub fn latency_ns(&self) -> i64 {
        self.done_ns - self.start_ns
    }

    fn in_device_ns(&self) -> i64 {
        (self.done_ns - self.issue_ns).max(1)
    }

    fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        visit(&mut self.group);
        visit(&mut self.worker.group);
        if let Continues::After(group) = &mut self.continues {
            visit(group);
        }
    }
}

/// How a device serves several I/Os at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// It serves one I/O after the other.
    InTurn,
    /// It serves all of them at the same time, each more slowly.
    SideBySide,
}

/// Where the time of one I/O went. The parts add up to its latency.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub io: &'a Pending,
    pub time: OwnedTime,
    /// By group, its own one too; no zeros.
    pub behind: &'a [(u32, i64)],
    /// What an I/O of its kind takes undisturbed is only bounded from above.
    pub is_bound: bool,
    /// Then: what it may have waited behind each group, if undisturbed it takes no more than its own work.
    pub at_most: &'a [(u32, i64)],
    /// So much of its excess its program did not notice, as it was read ahead of it; none else.
    pub spare_ns: i64,
}

impl Wait<'_> {
    /// Whether it took more than twice its undisturbed latency.
    pub fn is_delayed(&self) -> bool {
        self.time.excess_ns() > self.time.undisturbed_ns
    }

    pub fn as_worst(&self) -> WorstWait {
        WorstWait {
            done_ns: self.io.done_ns,
            latency_ns: self.io.latency_ns(),
            undisturbed_ns: self.time.undisturbed_ns,
        }
    }
}

/// What takes the waits as they are known, in the order of completion.
pub(super) trait WaitSink {
    fn wait(&mut self, wait: &Wait);

    /// Whether I/Os of `device` are missing in an interval.
    fn has_losses(&self, device: u32, from_ns: i64, to_ns: i64) -> bool;
}

/// An issue or a completion.
#[derive(Debug, Clone, Copy)]
struct Edge {
    at_ns: i64,
    key: u32,
    is_done: bool,
}

/// Pending I/Os of all devices, by their key.
#[derive(Debug, Default)]
pub(super) struct Slab {
    ios: Vec<Pending>,
    free: Vec<u32>,
}

impl Slab {
    pub fn insert(&mut self, io: Pending) -> u32 {
        if let Some(key) = self.free.pop() {
            self.ios[key as usize] = io;
            return key;
        }
        self.ios.push(io);
        (self.ios.len() - 1) as u32
    }

    pub fn get(&self, key: u32) -> &Pending {
        &self.ios[key as usize]
    }

    fn get_mut(&mut self, key: u32) -> &mut Pending {
        &mut self.ios[key as usize]
    }

    fn remove(&mut self, key: u32) {
        self.free.push(key);
        let io = &mut self.ios[key as usize];
        // A free place needs no group of its own: the first one is always there.
        io.group = 0;
        io.worker.group = 0;
        io.continues = Continues::No;
    }

    /// Visits every number of a group that it keeps.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        for io in &mut self.ios {
            io.each_group(visit);
        }
    }
}

/// Learns the levels, ahead of attribution.
#[derive(Debug)]
struct Observer {
    levels: Levels,
    in_device: u32,
    last_done_ns: i64,
    /// When something was issued beside the I/O that found the device empty.
    joined_ns: Option<i64>,
    /// Integral of one over the number in the device, up to `share_at_ns`.
    share: f64,
    share_at_ns: i64,
}

impl Observer {
    fn advance(&mut self, at_ns: i64) {
        if self.in_device > 0 {
            self.share += (at_ns - self.share_at_ns) as f64 / f64::from(self.in_device);
        }
        self.share_at_ns = at_ns;
    }

    fn issue(&mut self, io: &mut Pending, at_ns: i64) {
        self.advance(at_ns);
        io.share_at_issue = self.share;
        io.found = self.in_device;
        if self.in_device > 0 {
            self.joined_ns.get_or_insert(at_ns);
        } else {
            self.joined_ns = None;
            // What it had to wait for above the device was there when it came, too.
            let found_it_empty = self.last_done_ns <= io.start_ns;
            io.alone = found_it_empty.then(Alone::default);
        }
        self.in_device += 1;
    }

    fn done(&mut self, io: &mut Pending, at_ns: i64) {
        self.advance(at_ns);
        if let Some(alone) = &mut io.alone {
            alone.ns = self.joined_ns.unwrap_or(at_ns) - io.issue_ns;
            alone.was_joined = self.joined_ns.is_some();
        }
        let observed = Observed {
            latency_ns: io.latency_ns(),
            device_ns: io.in_device_ns(),
            share_ns: (self.share - io.share_at_issue).max(1.0),
            alone: io.alone,
            found: io.found,
        };
        self.levels.observe(usize::from(io.kind), &observed);
        self.in_device = self.in_device.saturating_sub(1);
        self.last_done_ns = at_ns;
    }
}

/// Completions that one interrupt reported, or a single one whose credit is long enough that others may follow.
#[derive(Debug)]
struct Batch {
    /// Where the first one's credit begins.
    begin_ns: i64,
    /// That credit.
    credit_ns: i64,
    last_done_ns: i64,
    members: Vec<Pending>,
}

impl Batch {
    fn gap_ns(&self) -> i64 {
        (BATCH_GAP * self.credit_ns as f64) as i64
    }

    /// Whether an I/O that completes now was reported together with the others.
    fn includes(&self, io: &Pending, at_ns: i64) -> bool {
        let follows = at_ns - self.last_done_ns < self.gap_ns();
        let was_there = io.issue_ns <= self.begin_ns + self.credit_ns / 2;
        follows && was_there && self.members.len() < MAX_BATCH
    }
}

/// Work of a group while an I/O waited, by both models; the I/O's own work is not among it.
#[derive(Debug, Clone, Copy)]
struct GroupWork {
    group: u32,
    work: [f64; 2],
}

/// The waits of one device.
#[derive(Debug)]
pub(super) struct DeviceWaits {
    observer: Observer,
    ahead: VecDeque<Edge>,
    workers: Workers,
    cached: CachedWrites,
    arm: Arm,
    read_ahead: ReadAhead,
    last_done_ns: i64,
    batch: Option<Batch>,
    edges: u32,
    /// What the two models left unexplained of late, and when that was brought up to date.
    unexplained: [f64; 2],
    unexplained_at_ns: i64,
    /// Of the I/O that is looked at: who worked while it waited.
    worked: Vec<GroupWork>,
    behind: Vec<(u32, i64)>,
    at_most: Vec<(u32, i64)>,
    /// Room for the next batch: its members, what each has of its time, and what of that is work.
    members: Vec<Pending>,
    shares: Vec<Share>,
    work: Vec<f64>,
}

impl DeviceWaits {
    /// `others` is the group of work for which there is no place of its own.
    pub fn new(others: u32) -> DeviceWaits {
        DeviceWaits {
            observer: Observer {
                levels: Levels::new(),
                in_device: 0,
                last_done_ns: i64::MIN,
                joined_ns: None,
                share: 0.0,
                share_at_ns: 0,
            },
            ahead: VecDeque::new(),
            workers: Workers::new(others),
            cached: CachedWrites::new(others),
            arm: Arm::default(),
            read_ahead: ReadAhead::default(),
            last_done_ns: i64::MIN,
            batch: None,
            edges: 0,
            unexplained: [0.0; 2],
            unexplained_at_ns: 0,
            worked: Vec::new(),
            behind: Vec::new(),
            at_most: Vec::new(),
            members: Vec::new(),
            shares: Vec::new(),
            work: Vec::new(),
        }
    }

    /// The model that explains more of late.
    pub fn service(&self) -> Service {
        let [turn, side] = self.unexplained;
        if side < SIDE_MUST_LEAVE * turn {
            Service::SideBySide
        } else {
            Service::InTurn
        }
    }

    /// An I/O is issued.
    pub fn issue(&mut self, slab: &mut Slab, key: u32, at_ns: i64, sink: &mut impl WaitSink) {
        // An issue that the sweep had already passed counts from where the sweep is.
        let io = slab.get_mut(key);
        io.issue_ns = at_ns;
        self.observer.issue(io, at_ns);
        self.look_ahead(slab, key, at_ns, false, sink);
    }

    /// An I/O completes.
    pub fn done(&mut self, slab: &mut Slab, key: u32, at_ns: i64, sink: &mut impl WaitSink) {
        let io = slab.get_mut(key);
        io.done_ns = at_ns;
        self.observer.done(io, at_ns);
        self.look_ahead(slab, key, at_ns, true, sink);
    }

    fn look_ahead(
        &mut self,
        slab: &mut Slab,
        key: u32,
        at_ns: i64,
        is_done: bool,
        sink: &mut impl WaitSink,
    ) {
        self.ahead.push_back(Edge {
            at_ns,
            key,
            is_done,
        });
        if self.ahead.len() > LOOK_AHEAD
            && let Some(edge) = self.ahead.pop_front()
        {
            self.attribute_edge(slab, edge, sink);
        }
    }

    /// Attributes all before `to_ns`, as far as levels are known by then.
    pub fn attribute_until(&mut self, slab: &mut Slab, to_ns: i64, sink: &mut impl WaitSink) {
        while self.ahead.front().is_some_and(|edge| edge.at_ns < to_ns)
            && let Some(edge) = self.ahead.pop_front()
        {
            self.attribute_edge(slab, edge, sink);
        }
        if let Some(batch) = &self.batch
            && to_ns - batch.last_done_ns >= batch.gap_ns()
        {
            self.close_batch(sink);
        }
    }

    /// Visits every number of a group that it keeps.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        self.workers.each_group(visit);
        self.cached.each_group(visit);
        self.arm.each_group(visit);
        self.read_ahead.each_group(visit);
        for io in self.batch.iter_mut().flat_map(|batch| &mut batch.members) {
            io.each_group(visit);
        }
    }

    /// Attributes all that is left.
    pub fn finish(&mut self, slab: &mut Slab, sink: &mut impl WaitSink) {
        while let Some(edge) = self.ahead.pop_front() {
            self.attribute_edge(slab, edge, sink);
        }
        self.close_batch(sink);
    }

    fn attribute_edge(&mut self, slab: &mut Slab, edge: Edge, sink: &mut impl WaitSink) {
        self.edges += 1;
        if self.edges.is_multiple_of(FORGET_EACH) {
            self.workers.forget_before(edge.at_ns - HORIZON_NS);
        }
        if let Some(batch) = &self.batch
            && edge.at_ns - batch.last_done_ns >= batch.gap_ns()
        {
            self.close_batch(sink);
        }
        if edge.is_done {
            self.complete(slab.get_mut(edge.key), sink);
            slab.remove(edge.key);
        } else {
            self.begin(slab.get_mut(edge.key));
        }
    }

    /// From its issue on an I/O works side by side with all others in the device.
    fn begin(&mut self, io: &mut Pending) {
        let level = self.observer.levels.of(usize::from(io.kind));
        let in_device_ns = io.in_device_ns() as f64;
        io.side_rate = (level.side_work_ns / in_device_ns).min(1.0);
        io.worker = self.workers.begin(io.group, io.issue_ns, io.side_rate);
        if io.class() == Class::Flush {
            self.cached.flush_begins();
        }
        if io.is_read_ahead {
            io.is_next_part = self.read_ahead.begin(io.place(), io.start_ns);
        }
    }

    fn complete(&mut self, io: &mut Pending, sink: &mut impl WaitSink) {
        self.workers.end(io.worker, io.done_ns, io.side_rate);
        io.continues = self.arm.serve(io.place());
        if io.is_read_ahead {
            self.read_ahead.done(io.group, io.done_ns);
        }
        match io.class() {
            Class::Write => self.cached.wrote(io.group, io.bytes),
            Class::Flush => self.cached.flush_ends(),
            Class::Read | Class::Discard => {}
        }
        if let Some(batch) = &mut self.batch {
            if batch.includes(io, io.done_ns) {
                batch.last_done_ns = io.done_ns;
                batch.members.push(*io);
                self.last_done_ns = io.done_ns;
                return;
            }
            self.close_batch(sink);
        }
        let begin_ns = io.issue_ns.max(self.last_done_ns).min(io.done_ns);
        self.last_done_ns = io.done_ns;
        let credit_ns = io.done_ns - begin_ns;
        if credit_ns <= LONG_CREDIT_NS {
            self.complete_single(io, credit_ns, sink);
            return;
        }
        let mut members = std::mem::take(&mut self.members);
        members.clear();
        members.push(*io);
        self.batch = Some(Batch {
            begin_ns,
            credit_ns,
            last_done_ns: io.done_ns,
            members,
        });
    }

    /// What [`DeviceWaits::close_batch`] does of a batch of one, as most are.
    fn complete_single(&mut self, io: &mut Pending, credit_ns: i64, sink: &mut impl WaitSink) {
        let levels = &mut self.observer.levels;
        let kind = usize::from(io.kind);
        levels.observe_credit(kind, credit_ns as f64, io.alone.as_ref());
        levels.observe_late_credit(kind, credit_ns as f64);
        self.arm.observe(kind, io.continues, credit_ns as f64);
        let limit_ns = levels.of(kind).most_work_ns;
        io.turn_work = (limit_ns + self.writing_out_ns(io)).min(credit_ns as f64);
        self.work_in_turn(io, io.done_ns);
        self.attribute(io, sink);
    }

    /// How long a flush may have written out what lay in the cache.
    fn writing_out_ns(&self, io: &Pending) -> f64 {
        match io.class() {
            Class::Flush => self.cached.writing_out_ns(),
            _ => 0.0,
        }
    }

    /// Counts the work in turn of an I/O, which ended at `to_ns`.
    fn work_in_turn(&mut self, io: &Pending, to_ns: i64) {
        self.workers
            .add_in_turn(io.worker, io.done_ns, to_ns, io.turn_work);
    }

    /// Shares the time since the batch began among its members, and attributes what they waited.
    fn close_batch(&mut self, sink: &mut impl WaitSink) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        let time_ns = (batch.last_done_ns - batch.begin_ns) as f64;
        let weights = batch.members.iter().map(weight);
        let all: f64 = weights.sum();
        let is_single = batch.members.len() == 1;
        let mut shares = std::mem::take(&mut self.shares);
        shares.clear();
        for io in &batch.members {
            let ns = time_ns * weight(io) / all;
            let levels = &mut self.observer.levels;
            let kind = usize::from(io.kind);
            levels.observe_credit(kind, ns, io.alone.as_ref());
            if is_single {
                levels.observe_late_credit(kind, ns);
                self.arm.observe(kind, io.continues, ns);
            }
            shares.push(Share { ns, limit_ns: 0.0 });
        }
        for (io, share) in batch.members.iter().zip(&mut shares) {
            let level = self.observer.levels.of(usize::from(io.kind));
            share.limit_ns = level.most_work_ns + self.writing_out_ns(io);
        }
        let mut work = std::mem::take(&mut self.work);
        shared_work(&mut work, &shares);
        // What goes beyond what all of them can have needed is no work: the device paused.
        let unused = (time_ns - work.iter().sum::<f64>()).max(0.0);
        let mut passed = 0.0;
        for (io, work) in batch.members.iter_mut().zip(&work) {
            passed += work + unused * weight(io) / all;
            io.turn_work = *work;
            self.work_in_turn(io, batch.begin_ns + passed as i64);
        }
        self.shares = shares;
        self.work = work;
        for io in &batch.members {
            self.attribute(io, sink);
        }
        self.members = batch.members;
    }

    /// Splits the latency of one I/O.
    fn attribute(&mut self, io: &Pending, sink: &mut impl WaitSink) {
        let level = self.observer.levels.of(usize::from(io.kind));
        let latency_ns = io.latency_ns();
        let undisturbed_ns = level.undisturbed_ns.min(latency_ns);
        let excess_ns = latency_ns - undisturbed_ns;
        self.behind.clear();
        self.at_most.clear();
        let mut rest_ns = excess_ns;
        if excess_ns > 0 || level.is_bound {
            let totals = self.find_work(io, excess_ns as f64);
            let model = match self.service() {
                Service::InTurn => 0,
                Service::SideBySide => 1,
            };
            rest_ns -= divide_work(&mut self.behind, &self.worked, model, totals, excess_ns);
            self.cached.divide(&mut self.behind);
            if level.is_bound {
                let own_ns = own_work(io)[model] as i64;
                let room_ns = (latency_ns - own_ns).max(excess_ns);
                divide_work(&mut self.at_most, &self.worked, model, totals, room_ns);
                self.cached.divide(&mut self.at_most);
            }
        }
        let misses_work = io.start_ns < self.workers.forgotten_ns()
            || rest_ns > 0 && sink.has_losses(io.device, io.start_ns, io.done_ns);
        let unknown_ns = if misses_work { rest_ns } else { 0 };
        let held_ns = (rest_ns - unknown_ns).min(io.queue_ns.max(0));
        let mut device_ns = rest_ns - unknown_ns - held_ns;
        if io.class() == Class::Flush {
            // What the device itself seems to take is what it writes out for all.
            for (group, ns) in self.cached.waits(device_ns, io.group, io.in_device_ns()) {
                device_ns -= ns;
                add(&mut self.behind, group, ns);
            }
        }
        if let Some((group, most_ns)) = self.arm.came_back(usize::from(io.kind), io.continues) {
            let ns = device_ns.min(most_ns);
            device_ns -= ns;
            add(&mut self.behind, group, ns);
        }
        let own = self.behind.iter().find(|(group, _)| *group == io.group);
        let own_ns = own.map_or(0, |(_, ns)| *ns);
        let others_ns = excess_ns - own_ns - held_ns - device_ns - unknown_ns;
        let spare_ns = if io.is_next_part {
            self.read_ahead.spare_ns(io.group, excess_ns)
        } else {
            0
        };
        sink.wait(&Wait {
            io,
            time: OwnedTime {
                undisturbed_ns,
                own_ns,
                others_ns,
                held_ns,
                device_ns,
                unknown_ns,
            },
            behind: &self.behind,
            is_bound: level.is_bound,
            at_most: &self.at_most,
            spare_ns,
        });
    }

    /// Finds who worked while an I/O waited, notes what each model leaves unexplained, and returns the sum of the work by both.
    fn find_work(&mut self, io: &Pending, excess_ns: f64) -> [f64; 2] {
        let own_work = own_work(io);
        self.fade_unexplained(io.done_ns);
        self.worked.clear();
        let mut totals = [0.0; 2];
        for (group, place) in self.workers.since(io.start_ns) {
            let mut work = self.workers.between(place, io.start_ns, io.done_ns);
            if group == io.worker.group {
                for (work, own) in work.iter_mut().zip(own_work) {
                    *work = (*work - own).max(0.0);
                }
            }
            for (total, work) in totals.iter_mut().zip(work) {
                *total += work;
            }
            self.worked.push(GroupWork { group, work });
        }
        for (unexplained, total) in self.unexplained.iter_mut().zip(totals) {
            *unexplained += (excess_ns - total).max(0.0);
        }
        totals
    }

    fn fade_unexplained(&mut self, at_ns: i64) {
        let passed_ns = at_ns - self.unexplained_at_ns;
        if passed_ns < FADE_EACH_NS {
            return;
        }
        let remembered = (-passed_ns as f64 / MODEL_HALF_LIFE_NS).exp2();
        for unexplained in &mut self.unexplained {
            *unexplained *= remembered;
        }
        self.unexplained_at_ns = at_ns;
    }
}

/// Work of an I/O by both models.
fn own_work(io: &Pending) -> [f64; 2] {
    [io.turn_work, io.side_rate * io.in_device_ns() as f64]
}

/// Divides `excess_ns` among the groups that worked meanwhile by one of the models, and returns how much of it that explains. No more
/// is blamed than was worked, and never more than the excess.
fn divide_work(
    parts: &mut Vec<(u32, i64)>,
    worked: &[GroupWork],
    model: usize,
    totals: [f64; 2],
    excess_ns: i64,
) -> i64 {
    let scale = excess_ns as f64 / totals[model].max(excess_ns as f64).max(1.0);
    let mut rest_ns = excess_ns;
    for worked in worked {
        let ns = ((worked.work[model] * scale) as i64).min(rest_ns);
        if ns > 0 {
            parts.push((worked.group, ns));
            rest_ns -= ns;
        }
    }
    excess_ns - rest_ns
}

/// What a member of a batch has of its time.
#[derive(Debug, Clone, Copy)]
struct Share {
    ns: f64,
    /// The most that it can have needed.
    limit_ns: f64,
}

/// The work of each member of a batch: its share by weight, at most its limit. What is beyond that the others
/// of the batch were served with, as far as their limits have room: a forced write completes with the flush that follows it, which
/// takes nearly all of the time.
fn shared_work(work: &mut Vec<f64>, shares: &[Share]) {
    work.clear();
    let mut spare = 0.0;
    let mut room = 0.0;
    for share in shares {
        work.push(share.ns.min(share.limit_ns));
        spare += (share.ns - share.limit_ns).max(0.0);
        room += (share.limit_ns - share.ns).max(0.0);
    }
    // Longer than all of them can have needed: the device paused, and served no I/O in the rest.
    if spare > 0.0 && spare <= room {
        let filled = spare / room;
        for (own, share) in work.iter_mut().zip(shares) {
            *own += filled * (share.limit_ns - *own);
        }
    }
}

/// What an I/O counts in a batch.
fn weight(io: &Pending) -> f64 {
    io.bytes.max(0) as f64 + BYTES_OF_ANY_IO
}
