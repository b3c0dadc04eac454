//! Busy time and concurrency of several devices together (A3, A4): busy while any of them has an I/O, in flight summed
//! over all.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::device::devices::DeviceSweep;
use crate::analysis::device::slots::{SlotSummary, SlotSweep};
use crate::analysis::device::summary::Concurrency;
use crate::analysis::stream::order::{End, Span, Sweep as _};
use crate::analysis::stream::window::Window;
use crate::model::DevId;

/// Busy time and concurrency of a set of devices. Busy means any I/O on any of them (A4's subsystem meaning). The
/// mean over the devices is reported as well: it is never higher, and hides one hot device among idle ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetSummary {
    /// Devices with I/O: n of the means and of the maximum.
    pub devices: usize,
    /// Their device numbers.
    #[serde(skip)]
    pub members: Vec<DevId>,
    /// Devices with I/O that are left out because the same I/Os are recorded on the layer below.
    #[serde(skip)]
    pub left_out: Vec<DevId>,
    /// Mean of the devices' own busy percent.
    pub mean_busy_percent: Option<f64>,
    /// Busy percentage of the busiest device.
    pub max_busy_percent: Option<f64>,
    /// Percent of time with any I/O on any of them.
    pub busy_percent: Option<f64>,
    /// With any read.
    pub busy_read_percent: Option<f64>,
    /// With any write.
    pub busy_write_percent: Option<f64>,
    /// With reads and writes at once.
    pub busy_both_percent: Option<f64>,
    /// In flight on all of them together.
    pub concurrency: Concurrency,
}

/// Sweeps the set of all devices but those of `layers`, in the order of start.
#[derive(Debug)]
pub(in crate::analysis) struct SetSweep {
    layers: BTreeSet<DevId>,
    /// Whether a device belongs to the set, by its number.
    counted: Vec<bool>,
    window: Window,
    /// The first device of the set with I/O. Until a second device has I/O, its sweep is also that of the set.
    first: Option<u32>,
    both: Option<(DeviceSweep, SlotSweep)>,
}

impl SetSweep {
    pub fn new(window: Window, layers: BTreeSet<DevId>) -> SetSweep {
        SetSweep {
            layers,
            counted: Vec::new(),
            window,
            first: None,
            both: None,
        }
    }

    /// Adds a device. Devices are numbered in the order of these calls.
    pub fn add(&mut self, dev: DevId) {
        self.counted.push(!self.layers.contains(&dev));
    }

    /// An I/O starts. `own` gives the state of a single device before this event.
    pub fn start<'a>(
        &mut self,
        span: &Span,
        own: impl Fn(u32) -> (&'a DeviceSweep, &'a SlotSweep),
    ) {
        if let Some((levels, slots)) = self.together(span.key, own) {
            slots.start(span);
            levels.change(span.start_ns, span.class, 1);
        }
    }

    /// A request is done.
    pub fn done(&mut self, end: &End) {
        if let Some((levels, slots)) = self
            .both
            .as_mut()
            .filter(|_| self.counted[end.key as usize])
        {
            slots.done(end);
            levels.change(end.at_ns, end.class, -1);
        }
    }

    /// Adds the part of a late `span` before `to_ns`, the current position of the sweep.
    pub fn late(&mut self, span: &Span, to_ns: i64) {
        if let Some((levels, _)) = self
            .both
            .as_mut()
            .filter(|_| self.counted[span.key as usize])
        {
            levels.late(span, to_ns);
        }
    }

    /// A request that took no time.
    pub fn instant<'a>(
        &mut self,
        span: &Span,
        own: impl Fn(u32) -> (&'a DeviceSweep, &'a SlotSweep),
    ) {
        if let Some((_, slots)) = self.together(span.key, own) {
            slots.instant(span);
        }
    }

    /// The sweep of the set; it exists once a second device has I/O.
    fn together<'a>(
        &mut self,
        key: u32,
        own: impl Fn(u32) -> (&'a DeviceSweep, &'a SlotSweep),
    ) -> Option<&mut (DeviceSweep, SlotSweep)> {
        if !self.counted[key as usize] {
            return None;
        }
        let first = *self.first.get_or_insert(key);
        if self.both.is_none() && key != first {
            let (levels, slots) = own(first);
            self.both = Some((levels.clone(), slots.clone()));
        }
        self.both.as_mut()
    }

    /// The sweep of the set; `own` holds the sweeps of single devices by number. Slots only for more than one device.
    pub fn swept(self, own: &[DeviceSweep]) -> SweptSet {
        let (levels, slots) = match (self.both, self.first) {
            (Some((levels, slots)), _) => (levels, Some(slots)),
            (None, Some(first)) => (own[first as usize].clone(), None),
            (None, None) => (DeviceSweep::new(self.window), None),
        };
        SweptSet {
            layers: self.layers,
            levels,
            slots,
        }
    }
}

/// A set of devices after the sweep.
pub(in crate::analysis) struct SweptSet {
    layers: BTreeSet<DevId>,
    levels: DeviceSweep,
    slots: Option<SlotSweep>,
}

impl SweptSet {
    /// The summary. `busy` are the devices' own busy percentages; nothing was recorded in `unrecorded_ns` of the window.
    pub fn finish(
        mut self,
        window: Window,
        unrecorded_ns: i64,
        busy: &[(DevId, Option<f64>)],
    ) -> (SetSummary, Option<SlotSummary>) {
        self.levels.finish(window, unrecorded_ns);
        let (above, inside): (Vec<_>, Vec<_>) =
            busy.iter().partition(|(dev, _)| self.layers.contains(dev));
        let own: Vec<f64> = inside.iter().filter_map(|(_, percent)| *percent).collect();
        let n = own.len();
        // Counters alone do not show how I/Os of several devices overlapped.
        let levels = (n > 0).then_some(&self.levels);
        let set = SetSummary {
            devices: n,
            members: inside.iter().map(|(dev, _)| *dev).collect(),
            left_out: above.iter().map(|(dev, _)| *dev).collect(),
            mean_busy_percent: (n > 0).then(|| own.iter().sum::<f64>() / n as f64),
            max_busy_percent: own.iter().copied().max_by(f64::total_cmp),
            busy_percent: levels.and_then(|l| l.all.busy_percent()),
            busy_read_percent: levels.and_then(|l| l.read.busy_percent()),
            busy_write_percent: levels.and_then(|l| l.write.busy_percent()),
            busy_both_percent: levels.and_then(|l| l.both.busy_percent()),
            concurrency: levels.map(|l| Concurrency::of(&l.all)).unwrap_or_default(),
        };
        (set, self.slots.map(|slots| slots.finish(window)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::{Report, ReportBuilder};
    use crate::model::{Io, Op};

    const DISKS: [DevId; 2] = [DevId(8 << 20), DevId(8 << 20 | 16)];
    const ABOVE: DevId = DevId(253 << 20);

    /// 10 s in which each disk takes a 100 ms request a second, the two of them half overlapping, all through a layer.
    fn report(layers: &[DevId]) -> Report {
        let mut builder = ReportBuilder::new(Window::new(0, 10_000_000_000))
            .leaving_out(layers.iter().copied().collect());
        for i in 0..10 {
            for (disk, delay_ns) in DISKS.into_iter().zip([0, 50_000_000]) {
                let done_ns = i * 1_000_000_000 + 100_000_000 + delay_ns;
                let op = if disk == DISKS[0] {
                    Op::READ
                } else {
                    Op::WRITE
                };
                builder.push(&Io::new(done_ns, ABOVE, op, 4096, Some(0), 100_000_000));
                builder.push(&Io::new(done_ns, disk, op, 4096, Some(0), 100_000_000));
            }
        }
        builder.finish(10_000_000_000)
    }

    #[test]
    fn a_set_is_busy_when_any_of_it_is() {
        let set = report(&[ABOVE]).set;
        assert_eq!(
            (set.devices, &*set.members, &*set.left_out),
            (2, &DISKS[..], &[ABOVE][..])
        );
        assert_eq!(
            (
                set.busy_percent,
                set.mean_busy_percent,
                set.max_busy_percent
            ),
            (Some(15.0), Some(10.0), Some(10.0))
        );
        assert_eq!(
            (set.busy_read_percent, set.busy_both_percent),
            (Some(10.0), Some(5.0))
        );
        assert_eq!(
            (set.concurrency.mean, set.concurrency.max),
            (Some(0.2), Some(2))
        );
    }

    #[test]
    fn layers_change_busy_time_by_nothing_and_concurrency_twofold() {
        let without = report(&[ABOVE]);
        let with = report(&[]);
        assert_eq!(without.set.busy_percent, with.set.busy_percent);
        assert_eq!(with.set.concurrency.mean, Some(0.4));
        let touched = |r: &Report| {
            r.set_slots.as_ref().expect("several devices").all[0]
                .touched
                .max
        };
        assert_eq!((touched(&without), touched(&with)), (2.0, 4.0));
    }

    #[test]
    fn nothing_is_known_of_a_set_without_single_ios() {
        let set = ReportBuilder::new(Window::new(0, 100)).finish(100).set;
        assert_eq!(
            (set.devices, set.busy_percent, set.concurrency.mean),
            (0, None, None)
        );
    }
}
