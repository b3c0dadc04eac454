//! The independent parts of a report: analyses in the order of completion, of start, and of issue. Each may run on its
//! own thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::analysis::bursts::cells::Cells;
use crate::analysis::bursts::links::Link;
use crate::analysis::counters::io_ticks::Regime;
use crate::analysis::device::by_issue::SweptByIssue;
use crate::analysis::device::detail::{Completed, Swept};
use crate::analysis::device::devices::{Counts, DeviceSweep, Issued, Sweeps};
use crate::analysis::device::level::LevelTime;
use crate::analysis::device::set::{SetSweep, SweptSet};
use crate::analysis::files::page_cache::PageCache;
use crate::analysis::findings::io_errors::ErrorCounts;
use crate::analysis::latency::syncs::SyncCalls;
use crate::analysis::limits::OwnLimitsBuilder;
use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::kept_slots::within_budget;
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::order::{Clipped, End, Hold, Span, StartOrder, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{DevId, Io, Lost};

/// Analyses in the order of completion.
#[derive(Debug)]
pub(in crate::analysis) struct Completions {
    window: Window,
    pub counts: Counts,
    pub devices: Vec<Completed>,
    pub cells: Cells,
    pub own_limits: OwnLimitsBuilder,
    pub trouble: ErrorCounts,
    pub page_cache: PageCache,
    pub sync_calls: SyncCalls,
    consumed: u64,
}

impl Completions {
    /// `layers` are devices above other recorded devices; `links` are shared by several devices.
    pub fn new(window: Window, layers: BTreeSet<DevId>, links: &[Link]) -> Completions {
        let members = links.iter().map(|link| link.devices.clone());
        Completions {
            window,
            counts: Counts::new(window),
            devices: Vec::new(),
            cells: Cells::new(window).with_links(members),
            own_limits: OwnLimitsBuilder::new(&[], window),
            trouble: ErrorCounts::new(window),
            page_cache: PageCache::new(window, layers),
            sync_calls: SyncCalls::new(window),
            consumed: 0,
        }
    }

    /// Adds empty entries for devices that have only losses so far.
    pub fn make_room(&mut self) {
        self.devices
            .resize_with(self.counts.known().len(), || Completed::new(self.window));
    }

    fn push(&mut self, io: &Io) {
        let Some(i) = self.counts.admit(io) else {
            return;
        };
        if self.devices.len() <= i as usize {
            self.make_room();
        }
        if self.window.contains(io.done_ns) {
            self.devices[i as usize].push(io);
            self.cells.push(io);
            if !self.own_limits.is_empty() {
                self.own_limits.push(io);
            }
            self.trouble.push(io);
            self.page_cache.push(io);
        }
    }
}

/// Number of I/Os after which the memory of devices is checked against its limit.
const BOUND_EACH: u64 = 1 << 16;

/// Whether a part that has consumed `consumed` I/Os, and now consumes `more`, must check its memory limit.
fn is_due(consumed: &mut u64, more: usize) -> bool {
    let before = *consumed / BOUND_EACH;
    *consumed += more as u64;
    *consumed / BOUND_EACH > before
}

impl Consumer for Completions {
    fn consume(&mut self, ios: &[Io], _: i64) {
        ios.iter().for_each(|io| self.push(io));
        if is_due(&mut self.consumed, ios.len()) {
            Completed::bound(&mut self.devices);
        }
    }
}

/// Whether an I/O matters to a sweep of `window`: it completes after the window begins and starts early enough.
fn reaches_into(window: Window, io: &Io) -> bool {
    io.done_ns >= window.from_ns && io.start_ns() < window.learned_until_ns()
}

/// Reorders `items` (by device index) like `known`. Devices without an item get a new one.
fn aligned<T>(items: Vec<T>, index: &DeviceIndex, known: &[DevId], new: impl Fn() -> T) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    known
        .iter()
        .map(|dev| {
            index
                .get(*dev)
                .and_then(|i| items[i].take())
                .unwrap_or_else(&new)
        })
        .collect()
}

/// Analyses that sweep I/Os in the order of start.
#[derive(Debug)]
pub(in crate::analysis) struct Starts {
    window: Window,
    kernel: Option<(Regime, u32)>,
    /// Time without a recorder.
    unrecorded: Losses,
    index: DeviceIndex,
    order: StartOrder,
    swept: ByStart,
    consumed: u64,
}

/// Maximum number of windows kept for all devices together. Beyond it, the largest sets are halved.
const MAX_WINDOWS: usize = 1 << 19;

#[derive(Debug)]
struct ByStart {
    sweeps: Sweeps,
    own: Vec<Swept>,
    set: SetSweep,
}

impl Sweep for ByStart {
    fn start(&mut self, span: &Span) {
        self.set.start(span, |key| {
            (&self.sweeps.0[key as usize], &self.own[key as usize].slots)
        });
        self.sweeps.start(span);
        self.own[span.key as usize].start(span);
    }

    fn done(&mut self, end: &End) {
        self.set.done(end);
        self.sweeps.done(end);
        self.own[end.key as usize].done(end);
    }

    fn late(&mut self, span: &Span, to_ns: i64) {
        self.set.late(span, to_ns);
        self.sweeps.late(span, to_ns);
    }

    fn instant(&mut self, span: &Span) {
        self.set.instant(span, |key| {
            (&self.sweeps.0[key as usize], &self.own[key as usize].slots)
        });
        self.sweeps.start(span);
        self.sweeps.done(&End::of(span));
        self.own[span.key as usize].instant(span);
    }
}

impl Starts {
    /// `layers` are left out of the set of all devices.
    pub fn new(window: Window, kernel: Option<(Regime, u32)>, layers: BTreeSet<DevId>) -> Starts {
        Starts {
            window,
            kernel,
            unrecorded: Losses::default(),
            index: DeviceIndex::default(),
            order: StartOrder::new(Hold::RECORDING),
            swept: ByStart {
                sweeps: Sweeps::default(),
                own: Vec::new(),
                set: SetSweep::new(window, layers),
            },
            consumed: 0,
        }
    }

    /// Takes a loss. Time without a recorder is left out of the slots of devices whose first I/O is still to come.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.is_unrecorded_time() {
            self.unrecorded.push(lost);
        }
    }

    fn new_device(&self) -> Swept {
        let unrecorded: Arc<[(i64, i64)]> = self.unrecorded.unrecorded().into();
        Swept::new(self.window, self.kernel, &unrecorded)
    }

    fn push(&mut self, io: &Io) {
        if !reaches_into(self.window, io) {
            return;
        }
        let key = self.index.number(io.dev);
        if key as usize == self.swept.own.len() {
            let new = self.new_device();
            self.swept.own.push(new);
            self.swept.sweeps.0.push(DeviceSweep::new(self.window));
            self.swept.set.add(io.dev);
        }
        if self.window.contains(io.done_ns) {
            self.swept.own[key as usize]
                .load
                .complete(io.done_ns, io.bytes, io.total_ns());
        }
        self.order.push(Span::of(io, key), &mut self.swept);
    }

    /// The swept results of each device in `known`, and of all devices together.
    pub fn finish(mut self, known: &[DevId]) -> (Vec<DeviceSweep>, Vec<Swept>, SweptSet, Clipped) {
        let clipped = self.order.finish(&mut self.swept);
        let unrecorded: Arc<[(i64, i64)]> = self.unrecorded.unrecorded().into();
        let ByStart { sweeps, own, set } = self.swept;
        let set = set.swept(&sweeps.0);
        let sweeps = aligned(sweeps.0, &self.index, known, || {
            DeviceSweep::new(self.window)
        });
        let own = aligned(own, &self.index, known, || {
            Swept::new(self.window, self.kernel, &unrecorded)
        });
        (sweeps, own, set, clipped)
    }
}

impl Consumer for Starts {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        ios.iter().for_each(|io| self.push(io));
        if is_due(&mut self.consumed, ios.len()) {
            within_budget(
                &mut self.swept.own,
                MAX_WINDOWS,
                |s| s.load.kept(),
                |s| s.load.halve(),
            );
        }
        self.order.expect_from(later_start_ns, &mut self.swept);
    }
}

/// Analyses that sweep I/Os in the order of issue.
#[derive(Debug)]
pub(in crate::analysis) struct Issues {
    window: Window,
    index: DeviceIndex,
    order: StartOrder,
    swept: ByIssue,
    consumed: u64,
}

#[derive(Debug, Default)]
struct ByIssue {
    issued: Issued,
    own: Vec<SweptByIssue>,
}

impl Sweep for ByIssue {
    fn start(&mut self, span: &Span) {
        self.issued.start(span);
        self.own[span.key as usize].start(span);
    }

    fn done(&mut self, end: &End) {
        self.issued.done(end);
        self.own[end.key as usize].done(end);
    }

    fn late(&mut self, span: &Span, to_ns: i64) {
        self.issued.late(span, to_ns);
    }

    fn instant(&mut self, span: &Span) {
        self.issued.start(span);
        self.issued.done(&End::of(span));
        self.own[span.key as usize].instant(span);
    }
}

impl Issues {
    pub fn new(window: Window) -> Issues {
        let order = StartOrder::new(Hold::RECORDING);
        Issues {
            window,
            index: DeviceIndex::default(),
            order,
            swept: ByIssue::default(),
            consumed: 0,
        }
    }

    fn push(&mut self, io: &Io) {
        if !reaches_into(self.window, io) {
            return;
        }
        let key = self.index.number(io.dev);
        if key as usize == self.swept.own.len() {
            self.swept.own.push(SweptByIssue::new(self.window));
            self.swept.issued.0.push(LevelTime::new(self.window));
        }
        if self.window.contains(io.done_ns) {
            self.swept.own[key as usize].stages.complete(io);
        }
        self.order.push(Span::issued(io, key), &mut self.swept);
    }

    /// The swept results of each device in `known`.
    pub fn finish(mut self, known: &[DevId]) -> (Vec<LevelTime>, Vec<SweptByIssue>) {
        self.order.finish(&mut self.swept);
        let issued = aligned(self.swept.issued.0, &self.index, known, || {
            LevelTime::new(self.window)
        });
        (
            issued,
            aligned(self.swept.own, &self.index, known, || {
                SweptByIssue::new(self.window)
            }),
        )
    }
}

impl Consumer for Issues {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        ios.iter().for_each(|io| self.push(io));
        if is_due(&mut self.consumed, ios.len()) {
            SweptByIssue::bound(&mut self.swept.own);
        }
        self.order.expect_from(later_start_ns, &mut self.swept);
    }
}
