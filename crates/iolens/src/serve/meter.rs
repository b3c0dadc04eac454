//! Sums of all I/O since the recorder started: the source of `/metrics`.
//!
//! It runs beside the recorder and may be too slow. I/Os that it misses are counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use iolens_core::analysis::waits::{
    WAIT_STEPS_S, WaitBin, WaitBinsBuilder, WaitTotals, coarser_waits, wait_rows,
};
use iolens_core::model::{CallHistogram, Class, DevId, Device, Io, SECOND_NS, WaitSums, floor_to};
use iolens_recorder::{Seen, View};

use super::live::{InFlight, Live};
use super::lost_time::LostTime;

/// Sums of one class of I/O of one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassTotals {
    /// Bytes moved.
    pub bytes: i64,
    /// I/Os that failed.
    pub errors: u64,
    /// Start to issue; I/Os for which this is not known are left out.
    pub queue: Times,
    /// Issue to completion.
    pub device: Times,
    /// Start to completion.
    pub total: Times,
}

/// A distribution of durations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Histogram of the durations.
    pub histogram: CallHistogram,
    /// Their sum in nanoseconds.
    pub sum_ns: i128,
}

impl Times {
    fn add(&mut self, ns: i64) {
        self.histogram.add(ns, 1);
        self.sum_ns += i128::from(ns);
    }
}

/// Sums of one device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceTotals {
    /// By class; `None` for classes without I/O.
    pub classes: [Option<Box<ClassTotals>>; Class::ALL.len()],
    /// Nanoseconds with any I/O in flight. This and the next field cover complete slots only.
    pub busy_ns: i128,
    /// In-flight time summed over I/Os, in nanoseconds.
    pub in_flight_ns: i128,
}

/// Length of the intervals in which waits are computed.
const WAITS_STEP_NS: i64 = SECOND_NS;

/// All sums.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// By device; devices without I/O have no entry.
    pub devices: BTreeMap<DevId, DeviceTotals>,
    /// I/O time by owner, about two seconds late.
    pub waits: WaitTotals,
    /// The known devices.
    pub known: Vec<Device>,
    /// I/Os that were recorded but are missing in these sums.
    pub missed_ios: u64,
}

/// Computes the sums on a thread of its own.
#[derive(Debug)]
pub struct Meter {
    totals: Mutex<Totals>,
    lost_time: Arc<LostTime>,
    missed_ios: Arc<AtomicU64>,
}

impl Meter {
    /// Reads from `view` until the session ends. Sends rows of waits to `rows`, and adds the time lost in each second
    /// to `lost_time`.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        view: View,
        mut live: Live,
        rows: Sender<Vec<WaitSums>>,
        lost_time: Arc<LostTime>,
    ) -> Result<(Arc<Meter>, JoinHandle<()>)> {
        let missed_ios = Arc::clone(&view.missed_ios);
        let meter = Arc::new(Meter {
            totals: Mutex::default(),
            lost_time,
            missed_ios,
        });
        let own = Arc::clone(&meter);
        let builder = std::thread::Builder::new().name("iolens-meter".to_owned());
        let thread = builder.spawn(move || {
            let mut waits = WaitTable::new(rows);
            for mut look in &view.seen {
                let in_flight = live.update(&look);
                own.add(&mut look, &in_flight);
                own.add_waits(&mut waits, &look);
                view.give_back(look);
            }
            // The session has ended: a partial slot is stored as it is.
            own.add_rest(waits);
        });
        let thread = thread.context("the thread of the metrics could not be started")?;
        Ok((meter, thread))
    }

    /// The sums so far.
    pub fn totals(&self) -> Totals {
        let totals = self
            .totals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Totals {
            missed_ios: self.missed_ios.load(Ordering::Relaxed),
            ..totals
        }
    }

    fn add(&self, seen: &mut Seen, in_flight: &[InFlight]) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        for io in &seen.ios {
            totals.count(io);
        }
        for slot in in_flight {
            let device = totals.devices.entry(slot.dev).or_default();
            device.busy_ns += i128::from(slot.busy_ns);
            device.in_flight_ns += i128::from(slot.area_ns);
        }
        if let Some(devices) = seen.devices.take() {
            totals.known = devices;
        }
    }
}

impl Meter {
    fn add_waits(&self, waits: &mut WaitTable, seen: &Seen) {
        if let Some(start_unix_ns) = seen.start_unix_ns {
            self.lost_time.clock_was_set(start_unix_ns);
        }
        for io in &seen.ios {
            waits.builder.push(io);
        }
        if seen.ios.iter().any(Io::has_failed) {
            self.lost_time.failed();
        }
        for lost in &seen.lost {
            waits.builder.lost(lost);
        }
        let Some(complete_to_ns) = seen.complete_to_ns else {
            return;
        };
        let over = waits.builder.take_until(complete_to_ns);
        self.count_waits(&over);
        waits.push(over);
    }

    /// Adds what is left at the end of the session.
    fn add_rest(&self, mut waits: WaitTable) {
        let ended = WaitBinsBuilder::running(WAITS_STEP_NS);
        let rest = std::mem::replace(&mut waits.builder, ended).finish();
        self.count_waits(&rest);
        waits.push(rest);
        waits.close();
    }

    fn count_waits(&self, bins: &[WaitBin]) {
        if bins.is_empty() {
            return;
        }
        self.lost_time.add(bins);
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        for bin in bins {
            totals.waits.add(bin);
        }
    }
}

/// Aggregates waits into rows of ten seconds, and these into rows of ten minutes.
#[derive(Debug)]
struct WaitTable {
    builder: WaitBinsBuilder,
    /// Intervals of the current slot.
    bins: Vec<WaitBin>,
    slot_from_ns: i64,
    /// Rows of the current coarse slot.
    finer: Vec<WaitSums>,
    coarser_from_ns: i64,
    rows: Sender<Vec<WaitSums>>,
}

impl WaitTable {
    fn new(rows: Sender<Vec<WaitSums>>) -> WaitTable {
        WaitTable {
            builder: WaitBinsBuilder::running(WAITS_STEP_NS),
            bins: Vec::new(),
            slot_from_ns: 0,
            finer: Vec::new(),
            coarser_from_ns: 0,
            rows,
        }
    }

    /// Adds intervals of a second, in order of time.
    fn push(&mut self, bins: Vec<WaitBin>) {
        let slot_ns = i64::from(WAIT_STEPS_S[0]) * SECOND_NS;
        for bin in bins {
            // A late interval is added to the current slot.
            let from_ns = floor_to(bin.from_ns, slot_ns);
            if from_ns > self.slot_from_ns {
                self.close_slot();
                self.slot_from_ns = from_ns;
            }
            self.bins.push(bin);
        }
    }

    fn close_slot(&mut self) {
        let rows = wait_rows(&self.bins, WAIT_STEPS_S[0], self.slot_from_ns);
        self.bins.clear();
        let coarser_ns = i64::from(WAIT_STEPS_S[1]) * SECOND_NS;
        let from_ns = floor_to(self.slot_from_ns, coarser_ns);
        if from_ns > self.coarser_from_ns {
            self.close_coarser();
            self.coarser_from_ns = from_ns;
        }
        self.finer.extend_from_slice(&rows);
        self.send(rows);
    }

    fn close_coarser(&mut self) {
        let finer = std::mem::take(&mut self.finer);
        self.send(coarser_waits(&finer, WAIT_STEPS_S[1]));
    }

    fn close(mut self) {
        self.close_slot();
        self.close_coarser();
    }

    fn send(&self, rows: Vec<WaitSums>) {
        if !rows.is_empty() {
            // A recorder that has ended stores no rows.
            drop(self.rows.send(rows));
        }
    }
}

impl Totals {
    fn count(&mut self, io: &Io) {
        let device = self.devices.entry(io.dev).or_default();
        let class = device.classes[io.class() as usize].get_or_insert_default();
        class.bytes = class.bytes.saturating_add(io.bytes);
        class.errors += u64::from(io.error.is_some_and(|e| e != 0));
        class.device.add(io.device_ns);
        class.total.add(io.total_ns());
        if let Some(ns) = io.queue_ns {
            class.queue.add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::Op;
    use iolens_recorder::view;
    use std::sync::mpsc::channel;

    const S: i64 = 1_000_000_000;

    #[test]
    fn sums_are_those_of_all_ios_and_busy_time_is_exact() {
        let (mut viewer, view) = view();
        let (rows, waits) = channel();
        let lost_time = Arc::new(LostTime::new(0));
        let (meter, thread) =
            Meter::start(view, Live::new(0), rows, Arc::clone(&lost_time)).unwrap();
        let dev = DevId::new(8, 0);
        viewer.devices(&[Device::named("sda", dev)]);
        // Two at a time, 10 ms every 50 ms, the second from the middle of the first on.
        for s in 0..4 {
            let ios: Vec<Io> = (0..20)
                .flat_map(|i| {
                    let done = s * S + i * S / 20 + 10_000_000;
                    let read = Io::new(done, dev, Op::READ, 4096, Some(4_000_000), 6_000_000);
                    let write = Io::new(done + 5_000_000, dev, Op::WRITE, 512, None, 10_000_000);
                    [
                        read,
                        Io {
                            error: Some(5),
                            ..write
                        },
                    ]
                })
                .collect();
            viewer.show(&ios, &[], Some((s + 1) * S));
        }
        viewer.show(&[], &[], Some(6 * S));
        drop(viewer);
        thread.join().unwrap();
        let totals = meter.totals();
        assert_eq!(
            (totals.known[0].name.as_str(), totals.missed_ios),
            ("sda", 0)
        );
        let device = &totals.devices[&dev];
        let read = device.classes[Class::Read as usize].as_ref().unwrap();
        assert_eq!(
            (read.bytes, read.errors, read.total.sum_ns),
            (80 * 4096, 0, 80 * 10_000_000)
        );
        assert_eq!(
            (read.queue.histogram.n(), read.device.sum_ns),
            (80, 80 * 6_000_000)
        );
        let write = device.classes[Class::Write as usize].as_ref().unwrap();
        assert_eq!(
            (write.errors, write.queue.histogram.n()),
            (80, 0),
            "not known is not 0"
        );
        assert!(device.classes[Class::Flush as usize].is_none());
        assert_eq!(device.busy_ns, 80 * 15_000_000);
        // All I/O time is in the table, once for each step.
        let rows: Vec<WaitSums> = waits.into_iter().flatten().collect();
        for step_s in WAIT_STEPS_S {
            let own: Vec<_> = rows.iter().filter(|r| r.step_s == step_s).collect();
            let time_ns: i64 = own.iter().map(|r| r.ns).sum();
            assert_eq!(time_ns, 160 * 10_000_000, "{step_s} s");
            assert!(own.iter().all(|r| r.at_ns == 0), "{own:?}");
        }
        assert_eq!(device.in_flight_ns, 80 * 20_000_000);
        assert_eq!(lost_time.ios(&(0..4 * S)), 160);
    }
}
