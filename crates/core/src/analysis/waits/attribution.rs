//! The road that every I/O takes: it gets a group, its edges are put in the order of time, and what it waited for goes to
//! whatever adds it up.

use super::device::{DeviceWaits, Pending, Service, Slab, Wait, WaitSink};
use super::felt;
use super::groups::{Group, Grouping, Groups};
use super::levels::kind_of_io;
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::order::{End, Hold, Span, StartOrder, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{DevId, Io, LossReason, Lost, Origin};

/// Maximum number of losses that are remembered until the I/Os in flight during them are attributed.
const MAX_LOSSES: usize = 64;

/// A consumer of attributed waits, such as sums by group or by interval.
pub(super) trait WaitMeasure {
    /// Called when there may be new groups.
    fn know(&mut self, _groups: &Groups) {}

    /// Called for each I/O that completed inside the window, before its wait is known.
    fn io(&mut self, _pending: &mut Pending, _io: &Io) {}

    /// Called with the attributed latency of each I/O that completed inside the window.
    fn wait(&mut self, wait: &Wait);

    /// Visits every group number stored here, so that groups can be renumbered.
    fn each_group(&mut self, _visit: &mut impl FnMut(&mut u32)) {}
}

/// An unbounded stream drops unused groups when this many were added since the last clean-up.
const MAX_NEW_GROUPS: usize = 1024;

/// Attributes the latency of I/Os to the groups that caused it. Memory per device: one minute of work of at most 33
/// groups, 64 KiB each, and what `M` keeps.
#[derive(Debug)]
pub(super) struct Attribution<M> {
    grouping: Grouping,
    order: StartOrder,
    swept: Swept<M>,
    /// At this number of groups, unused ones are dropped.
    forget_at_groups: usize,
}

#[derive(Debug)]
struct Swept<M> {
    slab: Slab,
    devices: Vec<DeviceWaits>,
    index: DeviceIndex,
    groups: Groups,
    sink: Sink<M>,
}

/// Forwards waits of I/Os that completed inside the window, and remembers losses.
#[derive(Debug)]
struct Sink<M> {
    window: Window,
    devices: Vec<DevId>,
    losses: Vec<Lost>,
    measure: M,
}

/// The result at the end of the stream.
#[derive(Debug)]
pub(super) struct Attributed<M> {
    pub groups: Groups,
    /// Devices, indexed by their number.
    pub devices: Vec<DevId>,
    /// The same.
    pub services: Vec<Service>,
    pub measure: M,
}

impl<M: WaitMeasure> WaitSink for Sink<M> {
    fn wait(&mut self, wait: &Wait) {
        if wait.io.is_counted && self.window.contains(wait.io.done_ns) {
            self.measure.wait(wait);
        }
    }

    fn has_losses(&self, device: u32, from_ns: i64, to_ns: i64) -> bool {
        let dev = self.devices[device as usize];
        self.losses
            .iter()
            .any(|lost| lost.dev.is_none_or(|d| d == dev) && lost.meets(from_ns, to_ns))
    }
}

impl<M: WaitMeasure> Sweep for Swept<M> {
    fn start(&mut self, span: &Span) {
        let device = self.slab.get(span.key).device as usize;
        self.devices[device].issue(&mut self.slab, span.key, span.start_ns, &mut self.sink);
    }

    fn done(&mut self, end: &End) {
        let device = self.slab.get(end.key).device as usize;
        self.devices[device].done(&mut self.slab, end.key, end.at_ns, &mut self.sink);
    }
}

impl<M: WaitMeasure> Swept<M> {
    fn attribute_until(&mut self, to_ns: i64) {
        for device in &mut self.devices {
            device.attribute_until(&mut self.slab, to_ns, &mut self.sink);
        }
    }

    fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        self.slab.each_group(visit);
        for device in &mut self.devices {
            device.each_group(visit);
        }
        self.sink.measure.each_group(visit);
    }

    /// Drops groups that no I/O in flight, no remembered work and no sum refers to.
    fn forget_groups(&mut self) {
        let mut needed = vec![false; self.groups.all.len()];
        self.each_group(&mut |group| needed[*group as usize] = true);
        let numbers = self.groups.keep(&needed);
        self.each_group(&mut |group| *group = numbers[*group as usize]);
    }
}

impl<M: WaitMeasure> Attribution<M> {
    /// Attributes the I/Os that complete inside `window`.
    pub fn new(window: Window, grouping: Grouping, measure: M) -> Attribution<M> {
        Attribution::with_hold(window, grouping, measure, Hold::RECORDING)
    }

    /// As [`Attribution::new`]. I/Os that take longer than `hold` are treated as issued when it ends.
    pub fn with_hold(window: Window, grouping: Grouping, measure: M, hold: Hold) -> Attribution<M> {
        Attribution {
            grouping,
            order: StartOrder::new(hold),
            forget_at_groups: MAX_NEW_GROUPS,
            swept: Swept {
                slab: Slab::default(),
                devices: Vec::new(),
                index: DeviceIndex::default(),
                groups: Groups::default(),
                sink: Sink {
                    window,
                    devices: Vec::new(),
                    losses: Vec::new(),
                    measure,
                },
            },
        }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.push_counted(io, true);
    }

    /// As [`Attribution::push`]. Without `is_counted` others may wait for the I/O, but its own wait is not reported.
    pub fn push_counted(&mut self, io: &Io, is_counted: bool) {
        let swept = &mut self.swept;
        if io.start_ns() >= swept.sink.window.learned_until_ns() {
            return;
        }
        let device = swept.index.number(io.dev);
        if device as usize == swept.devices.len() {
            let others = swept.groups.others(device);
            swept.devices.push(DeviceWaits::new(others));
            swept.sink.devices.push(io.dev);
        }
        let issue_ns = io.issue_ns().min(io.done_ns);
        let start_ns = io.start_ns().min(issue_ns);
        let mut pending = Pending::new(start_ns, issue_ns, io.done_ns, io.bytes);
        pending.device = device;
        pending.sector = io.sector;
        pending.group = swept.groups.number(device, Group::of(io, self.grouping));
        pending.kind = kind_of_io(io) as u16;
        pending.is_waited_for = felt::is_waited_for(io);
        pending.is_read_ahead = io.origin == Origin::Readahead;
        pending.is_counted = is_counted;
        swept.sink.measure.know(&swept.groups);
        if swept.sink.window.contains(io.done_ns) {
            swept.sink.measure.io(&mut pending, io);
        }
        let key = swept.slab.insert(pending);
        self.order.push(Span::issued(io, key), swept);
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        let losses = &mut self.swept.sink.losses;
        if losses.len() >= MAX_LOSSES {
            losses.remove(0);
        }
        losses.push(*lost);
    }

    /// Takes the next completed I/Os. I/Os that come later started at or after `later_start_ns`.
    pub fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        for io in ios {
            self.push(io);
        }
        self.expect_from(later_start_ns);
    }

    /// Promises that I/Os that come later were issued at or after `later_start_ns`.
    pub fn expect_from(&mut self, later_start_ns: i64) {
        self.order.expect_from(later_start_ns, &mut self.swept);
    }

    /// Attributes the I/Os that completed before `to_ns`; all of them must have been pushed. An I/O that comes later
    /// but was issued earlier is treated as issued at `to_ns`.
    pub fn attribute_until(&mut self, to_ns: i64) {
        self.order.drain_to(to_ns, &mut self.swept);
        self.swept.attribute_until(to_ns);
        if self.swept.groups.all.len() >= self.forget_at_groups {
            self.swept.forget_groups();
            self.forget_at_groups = 2 * self.swept.groups.all.len() + MAX_NEW_GROUPS;
        }
    }

    /// The devices in the order of their numbers, and how each serves.
    pub fn served(&self) -> Vec<(DevId, Service)> {
        let devs = self.swept.sink.devices.iter().copied();
        let services = self.swept.devices.iter().map(DeviceWaits::service);
        devs.zip(services).collect()
    }

    /// The groups, and the measure of the waits so far.
    pub fn measured(&mut self) -> (&Groups, &mut M) {
        let Swept { groups, sink, .. } = &mut self.swept;
        (groups, &mut sink.measure)
    }

    /// Attributes all remaining I/Os.
    pub fn finish(mut self) -> Attributed<M> {
        self.order.finish(&mut self.swept);
        let Swept {
            mut slab,
            mut devices,
            groups,
            mut sink,
            ..
        } = self.swept;
        for device in &mut devices {
            device.finish(&mut slab, &mut sink);
        }
        Attributed {
            groups,
            services: devices.iter().map(DeviceWaits::service).collect(),
            devices: sink.devices,
            measure: sink.measure,
        }
    }
}
