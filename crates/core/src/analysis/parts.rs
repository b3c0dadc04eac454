//! The parts of a report that do not need each other while the stream runs: what is counted as I/Os complete, what is
//! swept in the order of start, and what is swept in the order of issue. Each may run on a thread of its own.

use std::collections::BTreeSet;

use super::cells::Cells;
use super::detail::{Completed, Swept};
use super::device_index::DeviceIndex;
use super::device_set::{SetSweep, SweptSet};
use super::devices::{Counts, DeviceSweep, Issued, Sweeps};
use super::io_ticks::Regime;
use super::level::LevelTime;
use super::order::{Clipped, Hold, Span, StartOrder, Sweep};
use super::page_cache::PageCache;
use super::stages::Stages;
use super::trouble::Trouble;
use super::window::Window;
use crate::model::{Class, DevId, Io};

/// A part of a report. All parts must eat the same I/Os.
pub trait Part: Send {
    /// Takes the next completed I/Os, in the order of completion. None of those after them began before
    /// `later_start_ns` (`i64::MIN`: nobody knows): nothing depends on being told, but memory then stays in the cache.
    fn eat(&mut self, ios: &[Io], later_start_ns: i64);
}

/// What is counted as I/Os complete.
#[derive(Debug)]
pub(super) struct Completions {
    window: Window,
    pub counts: Counts,
    pub devices: Vec<Completed>,
    pub cells: Cells,
    pub trouble: Trouble,
    pub page_cache: PageCache,
}

impl Completions {
    pub fn new(window: Window) -> Completions {
        Completions {
            window,
            counts: Counts::new(window),
            devices: Vec::new(),
            cells: Cells::new(window),
            trouble: Trouble::new(window),
            page_cache: PageCache::new(window),
        }
    }

    /// Devices of which only losses are known have a place too, and nothing in it.
    pub fn make_room(&mut self) {
        self.devices.resize_with(self.counts.known().len(), || Completed::new(self.window));
    }

    fn push(&mut self, io: &Io) {
        let Some(i) = self.counts.admit(io) else { return };
        if self.devices.len() <= i as usize {
            self.make_room();
        }
        if self.window.contains(io.done_ns) {
            self.devices[i as usize].push(io);
            self.cells.push(io);
            self.trouble.push(io);
            self.page_cache.push(io);
        }
    }
}

impl Part for Completions {
    fn eat(&mut self, ios: &[Io], _: i64) {
        ios.iter().for_each(|io| self.push(io));
    }
}

/// `items` by device number, put in the order of `known`; devices without any get a new one.
fn aligned<T>(items: Vec<T>, index: &DeviceIndex, known: &[DevId], new: impl Fn() -> T) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let place = |dev: &DevId| index.devices().iter().position(|d| d == dev);
    known.iter().map(|dev| place(dev).and_then(|i| items[i].take()).unwrap_or_else(&new)).collect()
}

/// What is swept in the order of start.
#[derive(Debug)]
pub(super) struct Starts {
    window: Window,
    kernel: Option<(Regime, u32)>,
    index: DeviceIndex,
    order: StartOrder,
    swept: ByStart,
}

#[derive(Debug)]
struct ByStart {
    sweeps: Sweeps,
    own: Vec<Swept>,
    set: SetSweep,
}

impl Sweep for ByStart {
    fn start(&mut self, span: &Span) {
        self.set.start(span, |key| (&self.sweeps.0[key as usize], &self.own[key as usize].slots));
        self.sweeps.start(span);
        self.own[span.key as usize].start(span);
    }

    fn done(&mut self, at_ns: i64, key: u32, class: Class) {
        self.set.done(at_ns, key, class);
        self.sweeps.done(at_ns, key, class);
        self.own[key as usize].done(at_ns, key, class);
    }

    fn instant(&mut self, span: &Span) {
        self.set.instant(span, |key| (&self.sweeps.0[key as usize], &self.own[key as usize].slots));
        self.sweeps.start(span);
        self.sweeps.done(span.done_ns, span.key, span.class);
        self.own[span.key as usize].instant(span);
    }
}

impl Starts {
    /// The set of all devices leaves `layers` out.
    pub fn new(window: Window, kernel: Option<(Regime, u32)>, layers: BTreeSet<DevId>) -> Starts {
        Starts {
            window,
            kernel,
            index: DeviceIndex::default(),
            order: StartOrder::new(Hold::RECORDING),
            swept: ByStart { sweeps: Sweeps::default(), own: Vec::new(), set: SetSweep::new(window, layers) },
        }
    }

    fn push(&mut self, io: &Io) {
        if io.done_ns < self.window.from_ns {
            return;
        }
        let key = self.index.number(io.dev);
        if key as usize == self.swept.own.len() {
            self.swept.own.push(Swept::new(self.window, self.kernel));
            self.swept.sweeps.0.push(DeviceSweep::new(self.window));
            self.swept.set.add(io.dev);
        }
        if self.window.contains(io.done_ns) {
            self.swept.own[key as usize].load.complete(io.done_ns, io.bytes, io.total_ns());
        }
        self.order.push(Span::of(io, key), &mut self.swept);
    }

    /// What was swept of each of the devices `known`, and of them together.
    pub fn finish(mut self, known: &[DevId]) -> (Vec<DeviceSweep>, Vec<Swept>, SweptSet, Clipped) {
        let clipped = self.order.finish(&mut self.swept);
        let ByStart { sweeps, own, set } = self.swept;
        let set = set.swept(&sweeps.0);
        let sweeps = aligned(sweeps.0, &self.index, known, || DeviceSweep::new(self.window));
        let own = aligned(own, &self.index, known, || Swept::new(self.window, self.kernel));
        (sweeps, own, set, clipped)
    }
}

impl Part for Starts {
    fn eat(&mut self, ios: &[Io], later_start_ns: i64) {
        ios.iter().for_each(|io| self.push(io));
        self.order.settle(later_start_ns, &mut self.swept);
    }
}

/// What is swept in the order of issue.
#[derive(Debug)]
pub(super) struct Issues {
    window: Window,
    index: DeviceIndex,
    order: StartOrder,
    swept: ByIssue,
}

#[derive(Debug, Default)]
struct ByIssue {
    issued: Issued,
    stages: Vec<Stages>,
}

impl Sweep for ByIssue {
    fn start(&mut self, span: &Span) {
        self.issued.start(span);
        self.stages[span.key as usize].start(span);
    }

    fn done(&mut self, at_ns: i64, key: u32, class: Class) {
        self.issued.done(at_ns, key, class);
        self.stages[key as usize].done(at_ns, key, class);
    }
}

impl Issues {
    pub fn new(window: Window) -> Issues {
        let order = StartOrder::new(Hold::RECORDING);
        Issues { window, index: DeviceIndex::default(), order, swept: ByIssue::default() }
    }

    fn push(&mut self, io: &Io) {
        if io.done_ns < self.window.from_ns {
            return;
        }
        let key = self.index.number(io.dev);
        if key as usize == self.swept.stages.len() {
            self.swept.stages.push(Stages::new(self.window));
            self.swept.issued.0.push(LevelTime::new(self.window));
        }
        if self.window.contains(io.done_ns) {
            self.swept.stages[key as usize].complete(io);
        }
        self.order.push(Span::issued(io, key), &mut self.swept);
    }

    /// What was swept of each of the devices `known`.
    pub fn finish(mut self, known: &[DevId]) -> (Vec<LevelTime>, Vec<Stages>) {
        self.order.finish(&mut self.swept);
        let issued = aligned(self.swept.issued.0, &self.index, known, || LevelTime::new(self.window));
        (issued, aligned(self.swept.stages, &self.index, known, || Stages::new(self.window)))
    }
}

impl Part for Issues {
    fn eat(&mut self, ios: &[Io], later_start_ns: i64) {
        ios.iter().for_each(|io| self.push(io));
        self.order.settle(later_start_ns, &mut self.swept);
    }
}
