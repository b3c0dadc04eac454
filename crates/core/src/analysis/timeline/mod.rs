//! Time series: rates, sizes, latencies, concurrency and busy time at any step from 1 ms (A5, A6; busy and in-flight
//! columns A2, A3).
//!
//! Every slot has a row, even if it is empty. An I/O belongs to the slot in which it completes. Rows carry counts and
//! sums, so that coarser rows are sums of finer ones; means are computed only when a row is shown.

mod counters;
mod differences;
mod events;
mod groups;
mod rollups;
mod table_intervals;
mod tables;

use serde::Serialize;

use crate::analysis::stream::window::Window;
use crate::model::{Class, ClassRates, Comm, DevId, Inode, Io, OwnedTime, TimeGrid};

pub use counters::{CounterRates, CounterTimeline};
pub use differences::Differences;
pub use events::Timeline;
pub use rollups::RollupTimeline;
pub use tables::TableTimeline;

/// Maximum number of rows. A plan with more is considered a mistake.
pub const MAX_ROWS: u64 = 10_000_000;

/// The finest step.
pub const MIN_STEP_NS: i64 = 1_000_000;

/// The grouping of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// All devices together. The caller leaves out devices above others (`model::layers_above`).
    All,
    /// The device.
    Device,
    /// The process (thread group) and its name, as in [`Io::tgid`].
    Process,
    /// The control group.
    Cgroup,
    /// The file: its file system's device and inode number.
    File,
}

/// The group of a row. An inner `None` means that the source does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// Everything.
    All,
    /// A device.
    Device(DevId),
    /// A process.
    Process(Option<i32>, Option<Comm>),
    /// A control group.
    Cgroup(Option<i64>),
    /// A file.
    File(Option<Inode>),
}

impl GroupKey {
    /// Whether the source knows the group.
    pub fn is_known(&self) -> bool {
        !matches!(
            self,
            GroupKey::Process(None, None) | GroupKey::Cgroup(None) | GroupKey::File(None)
        )
    }
}

impl GroupBy {
    /// All of them, by name.
    pub const NAMES: [(&'static str, GroupBy); 5] = [
        (GroupBy::All.name(), GroupBy::All),
        (GroupBy::Device.name(), GroupBy::Device),
        (GroupBy::Process.name(), GroupBy::Process),
        (GroupBy::Cgroup.name(), GroupBy::Cgroup),
        (GroupBy::File.name(), GroupBy::File),
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            GroupBy::All => "all",
            GroupBy::Device => "device",
            GroupBy::Process => "process",
            GroupBy::Cgroup => "cgroup",
            GroupBy::File => "file",
        }
    }

    /// The group of `io`.
    pub fn key(self, io: &Io) -> GroupKey {
        match self {
            GroupBy::All => GroupKey::All,
            GroupBy::Device => GroupKey::Device(io.dev),
            GroupBy::Process => GroupKey::Process(io.tgid, io.comm),
            GroupBy::Cgroup => GroupKey::Cgroup(io.cgroup),
            GroupBy::File => GroupKey::File(io.inode()),
        }
    }
}

/// The plan of a timeline: which rows it makes.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePlan {
    /// The window; slots are counted from its start. Its end may be open.
    pub window: Window,
    /// Length of a slot, at least [`MIN_STEP_NS`].
    pub step_ns: i64,
    /// The grouping of rows.
    pub by: GroupBy,
    /// Groups that have a row in every slot, idle or not (`All` always has one). Other groups have rows while they do
    /// I/O. A slot in which no process, control group or file does any has one row of [`GroupKey::All`].
    pub always: Vec<GroupKey>,
    /// Percentiles, maxima, in-flight and busy columns as well.
    pub extended: bool,
    /// Rows are consumed as they arrive, so there may be more than [`MAX_ROWS`].
    pub endless: bool,
    /// Rows of an imported table have the intervals of that table, whose usual length the step is then.
    pub own_intervals: bool,
}

/// Error: a plan that cannot be carried out, as a message for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A step of zero, negative or too fine.
    #[error("a step of {step_us} us is too short: the finest is 1ms", step_us = *.0 as f64 / 1e3)]
    Step(i64),
    /// The window holds no time.
    #[error("nothing between {from_s:.6} s and {to_s:.6} s: the end must come after the beginning", from_s = *.0 as f64 / 1e9, to_s = *.1 as f64 / 1e9)]
    EmptyWindow(i64, i64),
    /// Too many rows.
    #[error(
        "more than {MAX_ROWS} rows: choose a longer step or a shorter stretch (--step, --from, --to)"
    )]
    TooManyRows,
}

impl TimelinePlan {
    /// All devices summed, plain columns, over `window`.
    pub fn new(window: Window, step_ns: i64) -> TimelinePlan {
        TimelinePlan {
            window,
            step_ns,
            by: GroupBy::All,
            always: Vec::new(),
            extended: false,
            endless: false,
            own_intervals: false,
        }
    }

    /// Checks the plan. Called by the timelines themselves.
    ///
    /// [`PlanError`], also if there would be more than [`MAX_ROWS`] rows (known here only for a closed window).
    pub fn check(&self) -> Result<(), PlanError> {
        if self.step_ns < MIN_STEP_NS {
            return Err(PlanError::Step(self.step_ns));
        }
        if self.window.len_ns() == 0 {
            return Err(PlanError::EmptyWindow(
                self.window.from_ns,
                self.window.to_ns,
            ));
        }
        if self.window.to_ns != i64::MAX && !self.endless && !self.own_intervals {
            let slots = (self.window.len_ns() as u64).div_ceil(self.step_ns as u64);
            if slots.saturating_mul(self.always_keys().len().max(1) as u64) > MAX_ROWS {
                return Err(PlanError::TooManyRows);
            }
        }
        Ok(())
    }

    fn always_keys(&self) -> Vec<GroupKey> {
        let mut keys = if self.by == GroupBy::All {
            vec![GroupKey::All]
        } else {
            self.always.clone()
        };
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn grid(&self) -> TimeGrid {
        TimeGrid::new(self.window.from_ns, self.step_ns)
    }

    fn slot_of(&self, at_ns: i64) -> i64 {
        self.grid().slot(at_ns)
    }

    fn slot_end(&self, slot: i64) -> i64 {
        self.grid().end_ns(slot)
    }

    /// Start of a slot, and its end, which is `end_ns` at the latest.
    fn bounds(&self, slot: i64, end_ns: i64) -> (i64, i64) {
        let grid = self.grid();
        (grid.start_ns(slot), grid.end_ns(slot).min(end_ns))
    }

    /// A row without I/O.
    fn empty_row(&self, slot: i64, key: GroupKey) -> Row {
        let (from_ns, to_ns) = self.bounds(slot, i64::MAX);
        Row::empty(from_ns, to_ns, key)
    }
}

/// Counts and sums of one class in one slot. They can be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Flow {
    /// I/Os completed.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Sum of their latencies (start to done), in nanoseconds.
    pub total_ns: i64,
}

impl Flow {
    /// One completed I/O.
    pub fn of(io: &Io) -> Flow {
        Flow {
            ios: 1,
            bytes: io.bytes.max(0) as u64,
            total_ns: io.total_ns(),
        }
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Flow) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// Mean latency in microseconds; `None` if nothing completed.
    pub fn mean_us(&self) -> Option<f64> {
        (self.ios > 0).then(|| self.total_ns as f64 / self.ios as f64 / 1e3)
    }
}

/// The columns that need more than sums.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Extended {
    /// Median of read latencies (nearest rank); `None` without reads or without single I/Os.
    pub r_p50_us: Option<f64>,
    /// The same for writes.
    pub w_p50_us: Option<f64>,
    /// 90th percentile of read latencies.
    pub r_p90_us: Option<f64>,
    /// The same for writes.
    pub w_p90_us: Option<f64>,
    /// 99th percentile of read latencies.
    pub r_p99_us: Option<f64>,
    /// The same for writes.
    pub w_p99_us: Option<f64>,
    /// Longest latency of reads that completed in the slot.
    pub r_max_us: Option<f64>,
    /// Longest latency of writes that completed in the slot.
    pub w_max_us: Option<f64>,
    /// Time in flight (start to done), summed over I/Os.
    pub in_flight: Option<SlotTime>,
    /// Largest number in flight at once.
    pub inflight_max: Option<u64>,
    /// Time with any I/O in flight.
    pub busy: Option<SlotTime>,
    /// Time with an I/O of each class in flight, indexed by `Class as usize`.
    pub busy_of_class: [Option<SlotTime>; Class::ALL.len()],
}

impl Extended {
    /// The columns of a slot of `of_ns` nanoseconds with nothing in flight.
    fn of_idle(of_ns: i64) -> Extended {
        let none = Some(SlotTime::of(0, of_ns));
        Extended {
            in_flight: none,
            inflight_max: Some(0),
            busy: none,
            busy_of_class: [none; Class::ALL.len()],
            ..Extended::default()
        }
    }

    /// The columns over `recorded_ns` of the slot. I/Os that completed later may have been in flight in the rest, so
    /// no mean is above its maximum.
    fn over(mut self, recorded_ns: i64) -> Extended {
        let of_one_ns = i128::from(recorded_ns);
        let of_all_ns = match self.inflight_max {
            Some(max) => of_one_ns.saturating_mul(i128::from(max)),
            None => i128::MAX,
        };
        self.in_flight = self.in_flight.map(|t| t.over(recorded_ns, of_all_ns));
        self.busy = self.busy.map(|t| t.over(recorded_ns, of_one_ns));
        for busy in &mut self.busy_of_class {
            *busy = busy.map(|t| t.over(recorded_ns, of_one_ns));
        }
        self
    }

    /// Time-weighted mean number in flight.
    pub fn inflight_mean(&self) -> Option<f64> {
        Some(match self.in_flight? {
            SlotTime::Sum { ns, of_ns } => ns as f64 / of_ns as f64,
            SlotTime::Quotient(mean) => mean,
        })
    }

    /// Percent of the slot with anything in flight.
    pub fn busy_percent(&self) -> Option<f64> {
        self.busy.map(SlotTime::percent)
    }

    /// Percent of the slot with an I/O of `class` in flight.
    pub fn busy_percent_of(&self, class: Class) -> Option<f64> {
        self.busy_of_class[class as usize].map(SlotTime::percent)
    }
}

/// An amount of time within a slot: a sum, from single I/Os or rollups, which can be added; or a printed average if the
/// source has nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum SlotTime {
    /// `ns` nanoseconds in a slot of `of_ns` nanoseconds.
    Sum {
        /// The time.
        ns: i128,
        /// The slot's length.
        of_ns: i64,
    },
    /// The mean number in flight, or the percentage.
    Quotient(f64),
}

impl SlotTime {
    /// So many nanoseconds of a slot of `of_ns`.
    fn of(ns: i64, of_ns: i64) -> SlotTime {
        let ns = ns.into();
        SlotTime::Sum { ns, of_ns }
    }

    /// The same sum, `max_ns` at most, in a slot of `of_ns`. An average is of the known time already.
    fn over(self, of_ns: i64, max_ns: i128) -> SlotTime {
        match self {
            SlotTime::Sum { ns, .. } => SlotTime::Sum {
                ns: ns.min(max_ns),
                of_ns,
            },
            SlotTime::Quotient(_) => self,
        }
    }

    /// Percent of the slot.
    fn percent(self) -> f64 {
        match self {
            SlotTime::Sum { ns, of_ns } => 100.0 * ns as f64 / of_ns as f64,
            SlotTime::Quotient(percent) => percent,
        }
    }
}

/// One slot of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The slot's beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end, by which it is labelled.
    pub to_ns: i64,
    /// How much of the slot no recorder saw; less than its length. Rates are over the rest.
    pub unrecorded_ns: i64,
    /// The group of the row.
    pub key: GroupKey,
    /// By class, indexed by `Class as usize`.
    pub flows: [Flow; 4],
    /// By class: the latency sums of counters may be too low by less than this, in nanoseconds; 0 if they are exact.
    pub unresolved_ns: [i64; 4],
    /// Averages of an imported table, which has no counts; the flows are empty then. The fifth entry is for all classes
    /// together (`tps`, `await`).
    pub averages: Option<[ClassRates; 5]>,
    /// I/Os are missing from this slot (lost, or removed by retention), enough to change the row by more than 1 %.
    pub lossy: bool,
    /// Whether the source knows what happened in the slot. Counters do not know it between two readings, nor for a
    /// device that is not accounted; no source knows it for time without a recorder. Such a row must not be shown as
    /// idle.
    pub known: bool,
    /// The columns of `-x`, if planned.
    pub extended: Option<Extended>,
    /// I/O time by owner, if an analysis has attributed it. Timelines do not set it.
    pub waits: Option<OwnedTime>,
}

impl Row {
    /// A row without I/O.
    pub fn empty(from_ns: i64, to_ns: i64, key: GroupKey) -> Row {
        Row {
            from_ns,
            to_ns,
            unrecorded_ns: 0,
            key,
            flows: [Flow::default(); 4],
            unresolved_ns: [0; 4],
            averages: None,
            lossy: false,
            known: true,
            extended: None,
            waits: None,
        }
    }

    /// The same slot without any I/O and without a group, to show if no group has a row.
    #[must_use]
    pub fn without_ios(&self) -> Row {
        Row {
            unrecorded_ns: self.unrecorded_ns,
            lossy: self.lossy,
            known: self.known,
            extended: self.extended.map(|_| {
                if self.known {
                    Extended::of_idle(self.to_ns - self.from_ns)
                } else {
                    Extended::default()
                }
            }),
            waits: self.waits.map(|_| OwnedTime::default()),
            ..Row::empty(self.from_ns, self.to_ns, GroupKey::All)
        }
    }

    /// The slot's length in seconds.
    pub fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    /// The time of the slot that was recorded, in nanoseconds; all of it if none was.
    fn recorded_ns(&self) -> i64 {
        let len_ns = self.to_ns - self.from_ns;
        if self.unrecorded_ns < len_ns {
            len_ns - self.unrecorded_ns
        } else {
            len_ns
        }
    }

    fn recorded_s(&self) -> f64 {
        self.recorded_ns() as f64 / 1e9
    }

    /// The row with rates and shares over the slot without `unrecorded_ns` of it, in which no recorder ran.
    #[must_use]
    pub fn without_unrecorded(mut self, unrecorded_ns: i64) -> Row {
        if unrecorded_ns <= 0 || unrecorded_ns >= self.to_ns - self.from_ns {
            return self;
        }
        self.unrecorded_ns = unrecorded_ns;
        let recorded_ns = self.recorded_ns();
        self.extended = self.extended.map(|extended| extended.over(recorded_ns));
        self
    }

    /// Values that an imported table has only for all classes together.
    pub fn of_all_classes(&self) -> Option<&ClassRates> {
        self.averages.as_ref()?.last()
    }

    /// Completed I/Os per second of `class`; `None` if the source does not say.
    pub fn ios_per_s(&self, class: Class) -> Option<f64> {
        match &self.averages {
            Some(averages) => averages[class as usize].ios_per_s,
            None => self
                .known
                .then(|| self.flows[class as usize].ios as f64 / self.recorded_s()),
        }
    }

    /// KiB per second of `class`; `None` if the source does not say.
    pub fn kib_per_s(&self, class: Class) -> Option<f64> {
        let bytes_per_s = match &self.averages {
            Some(averages) => averages[class as usize].bytes_per_s?,
            None if !self.known => return None,
            None => self.flows[class as usize].bytes as f64 / self.recorded_s(),
        };
        Some(bytes_per_s / 1024.0)
    }

    /// Mean latency of `class` in microseconds. `None` if nothing completed, if it is below the resolution of counters,
    /// or if the source does not know it.
    pub fn mean_us(&self, class: Class) -> Option<f64> {
        match &self.averages {
            Some(averages) => averages[class as usize].mean_us,
            None if self.mean_below_us(class).is_some() => None,
            None => self.flows[class as usize].mean_us(),
        }
    }

    /// Upper bound of the mean latency of `class` in microseconds, for counters that show I/Os but a time of 0.
    pub fn mean_below_us(&self, class: Class) -> Option<f64> {
        let flow = &self.flows[class as usize];
        let unresolved_ns = self.unresolved_ns[class as usize];
        let below = flow.ios > 0 && flow.total_ns == 0 && unresolved_ns > 0;
        below.then(|| unresolved_ns as f64 / flow.ios as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// A slot of 10 s with 60 reads, 3 s with an I/O in flight, and 40 s of I/O time.
    fn row() -> Row {
        let mut row = Row::empty(0, 10 * S, GroupKey::All);
        row.flows[Class::Read as usize].ios = 60;
        row.flows[Class::Read as usize].bytes = 60 * 1024;
        row.extended = Some(Extended {
            in_flight: Some(SlotTime::of(40 * S, 10 * S)),
            inflight_max: Some(16),
            busy: Some(SlotTime::of(3 * S, 10 * S)),
            ..Extended::default()
        });
        row
    }

    /// Reads per second, KiB per second, mean number in flight and busy percentage.
    fn figures(row: &Row) -> [Option<f64>; 4] {
        let extended = row.extended.expect("planned");
        [
            row.ios_per_s(Class::Read),
            row.kib_per_s(Class::Read),
            extended.inflight_mean(),
            extended.busy_percent(),
        ]
    }

    #[test]
    fn rates_and_shares_are_over_the_recorded_time() {
        let whole = [Some(6.0), Some(6.0), Some(4.0), Some(30.0)];
        assert_eq!(figures(&row().without_unrecorded(0)), whole);
        let half = row().without_unrecorded(5 * S);
        assert_eq!(
            figures(&half),
            [Some(12.0), Some(12.0), Some(8.0), Some(60.0)]
        );
        assert_eq!((half.from_ns, half.to_ns), (0, 10 * S));
        // An I/O that completed after the gap was in flight in it.
        let little = row().without_unrecorded(8 * S);
        assert_eq!(
            figures(&little),
            [Some(30.0), Some(30.0), Some(16.0), Some(100.0)]
        );
        assert_eq!(figures(&row().without_unrecorded(10 * S)), whole);
    }
}
