//! The data of the screen: latencies of every I/O in columns of 100 ms for the last ten minutes, and the newest
//! single I/Os; for a recording, the columns of the stretch in view.
//!
//! Memory is bounded: the columns by their entries, the I/Os by their number. What goes first is the oldest. While time is held, the
//! I/Os in view stay beside the newest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use iolens_core::analysis::Window;
use iolens_core::analysis::counters::pressure::HostPressure;
use iolens_core::analysis::heat::TimePart;
use iolens_core::analysis::timeline::CounterRates;
use iolens_core::model::{
    CallHistogram, Class, DevId, Device, Io, LossReason, Lost, PressureSample, bucket_at, rank,
};
use jiff::tz::TimeZone;

use super::analyst::Selection;
use super::names::RecentNames;
use crate::present::times::{Clock, Times};

/// Width of a column for live I/O.
pub const COLUMN_NS: i64 = 100_000_000;
/// Maximum number of columns: ten minutes.
const MAX_COLUMNS: usize = 6000;
/// Maximum number of entries in all latency counts together, 8 bytes each.
const MAX_ENTRIES: usize = 1_500_000;
/// Maximum number of single I/Os kept for live I/O, about 160 bytes each.
pub const MAX_LIVE_IOS: usize = 100_000;
/// Maximum number of busy intervals kept per device, to be merged with those of I/Os that complete later.
const MAX_INTERVALS: usize = 1 << 16;
/// The resolution of latency sums in counters.
const COUNTER_NS: i64 = 1_000_000;
/// Maximum number of losses kept.
const MAX_LOSSES: usize = 4096;
/// How long pressure samples are kept: longer than the time in which stories are searched for.
const PRESSURE_NS: i64 = 120_000_000_000;
/// Latency buckets are twice as wide as those of [`CallHistogram`]: rows of the heat map are wider anyway.
const BUCKET_SHIFT: u32 = 1;

/// The parts of the latency that can be shown, in the order in which they are stored.
pub const PARTS: [TimePart; 3] = [TimePart::Total, TimePart::Queue, TimePart::Device];

/// Counts by latency bucket, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnLatencies(Vec<(u16, u32)>);

impl ColumnLatencies {
    /// The bucket of a latency.
    pub fn bucket(ns: i64) -> u16 {
        (CallHistogram::index(ns) >> BUCKET_SHIFT) as u16
    }

    /// The middle of a bucket in nanoseconds.
    pub fn middle_ns(bucket: u16) -> f64 {
        let first = usize::from(bucket) << BUCKET_SHIFT;
        let low = CallHistogram::bounds(first).0;
        let high = CallHistogram::bounds(first + (1 << BUCKET_SHIFT) - 1).1;
        if high == i64::MAX {
            low as f64
        } else {
            (low + high) as f64 / 2.0
        }
    }

    /// Adds `n` to a bucket. Returns whether this created an entry.
    pub fn add(&mut self, bucket: u16, n: u32) -> bool {
        match self.0.binary_search_by_key(&bucket, |c| c.0) {
            Ok(at) => {
                self.0[at].1 = self.0[at].1.saturating_add(n);
                false
            }
            Err(at) => {
                self.0.insert(at, (bucket, n));
                true
            }
        }
    }

    /// All entries.
    pub fn entries(&self) -> &[(u16, u32)] {
        &self.0
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &ColumnLatencies) {
        for (bucket, n) in &other.0 {
            self.add(*bucket, *n);
        }
    }

    /// Number of I/Os.
    pub fn n(&self) -> u64 {
        self.0.iter().map(|c| u64::from(c.1)).sum()
    }

    /// The middle of the bucket of rank `ceil(q n)`, in nanoseconds; `None` if there are no I/Os.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.quantile_bucket(q).map(ColumnLatencies::middle_ns)
    }

    /// The lower bound of that bucket: exact for powers of two, as most I/O sizes are.
    pub fn low_quantile(&self, q: f64) -> Option<f64> {
        let first = usize::from(self.quantile_bucket(q)?) << BUCKET_SHIFT;
        Some(CallHistogram::bounds(first).0 as f64)
    }

    fn quantile_bucket(&self, q: f64) -> Option<u16> {
        let counts = self.0.iter().map(|c| u64::from(c.1));
        let at = bucket_at(counts, rank(q, self.n()))?;
        Some(self.0[at].0)
    }
}

/// One class on one device in a column.
#[derive(Debug, Clone, Default)]
struct ClassCell {
    ios: u64,
    bytes: u64,
    /// Sum of the latencies in nanoseconds; of counters only.
    total_ns: i64,
    /// Latencies by each of [`PARTS`].
    parts: [ColumnLatencies; 3],
}

/// Occupancy of a device in a column.
#[derive(Debug, Clone, Copy, Default)]
struct Occupied {
    /// Nanoseconds with any I/O in the device.
    busy_ns: i64,
    /// Integral of the number of started and not completed I/Os over time, in nanoseconds.
    area_ns: i64,
}

#[derive(Debug, Clone, Default)]
struct HistoryColumn {
    cells: Vec<(DevId, Class, ClassCell)>,
    occupied: Vec<(DevId, Occupied)>,
}

impl HistoryColumn {
    fn cell(&mut self, dev: DevId, class: Class) -> &mut ClassCell {
        let known = self.cells.iter().position(|c| c.0 == dev && c.1 == class);
        let at = known.unwrap_or_else(|| {
            self.cells.push((dev, class, ClassCell::default()));
            self.cells.len() - 1
        });
        &mut self.cells[at].2
    }

    fn occupied(&mut self, dev: DevId) -> &mut Occupied {
        let known = self.occupied.iter().position(|o| o.0 == dev);
        let at = known.unwrap_or_else(|| {
            self.occupied.push((dev, Occupied::default()));
            self.occupied.len() - 1
        });
        &mut self.occupied[at].1
    }

    fn entries(&self) -> usize {
        let parts = self.cells.iter().flat_map(|c| &c.2.parts);
        parts.map(|p| p.0.len()).sum()
    }
}

/// Sums of a class on a device over some columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSum {
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Sum of the latencies in nanoseconds; of counters only.
    pub total_ns: i64,
}

/// The data of the screen. Times are nanoseconds since the start.
#[derive(Debug)]
pub struct History {
    /// Wall clock of the start.
    pub start_unix_ns: i64,
    /// The clock in which times are shown.
    pub clock: Clock,
    /// The known devices.
    pub devices: Vec<Device>,
    /// Names of files and control groups.
    pub names: RecentNames,
    /// All I/Os that completed before this have been added.
    pub complete_to_ns: i64,
    /// I/Os lost by the source.
    pub lost_ios: u64,
    /// I/Os that the source delivered but the screen was too slow to process.
    pub missed_ios: u64,
    /// Losses, the newest last.
    pub lost: VecDeque<Lost>,
    /// Disjoint intervals in which `serve` lost I/Os, of which neither the moment nor the device is known.
    suspect: VecDeque<(i64, i64)>,
    /// Recent pressure samples, in order.
    pressure: VecDeque<PressureSample>,
    /// Latencies of the selected I/Os, if single I/Os are not in memory.
    pub selected: Option<SelectedColumns>,
    /// Length of a column.
    column_ns: i64,
    max_columns: usize,
    /// All recorded time, if the columns are a stretch of a recording.
    whole_ns: Option<std::ops::Range<i64>>,
    /// Index of the first column since the start.
    first: i64,
    columns: VecDeque<HistoryColumn>,
    entries: usize,
    chunks: VecDeque<Arc<Vec<Io>>>,
    ios: usize,
    max_ios: usize,
    /// Whether single I/Os have been dropped.
    has_dropped: bool,
    /// I/Os that completed before this are not dropped: the time in view is held.
    hold_to_ns: Option<i64>,
    /// Chunks that would have been dropped, but are held: they are older than those in `chunks`.
    held: VecDeque<Arc<Vec<Io>>>,
    /// Where I/Os between the held chunks and the others begin to be missing.
    gap_from_ns: Option<i64>,
    /// Disjoint intervals in which each device had something, of the last time, by time.
    busy: BTreeMap<DevId, Vec<(i64, i64)>>,
}

impl History {
    /// For a source that started at this Unix time; keeps at most `max_ios` single I/Os.
    pub fn new(start_unix_ns: i64, max_ios: usize) -> History {
        History {
            start_unix_ns,
            clock: Clock::Wall(TimeZone::system()),
            devices: Vec::new(),
            names: RecentNames::default(),
            complete_to_ns: 0,
            lost_ios: 0,
            missed_ios: 0,
            lost: VecDeque::new(),
            suspect: VecDeque::new(),
            pressure: VecDeque::new(),
            selected: None,
            column_ns: COLUMN_NS,
            max_columns: MAX_COLUMNS,
            whole_ns: None,
            first: 0,
            columns: VecDeque::new(),
            entries: 0,
            chunks: VecDeque::new(),
            ios: 0,
            max_ios,
            has_dropped: false,
            hold_to_ns: None,
            held: VecDeque::new(),
            gap_from_ns: None,
            busy: BTreeMap::new(),
        }
    }

    /// For the stretch `range_ns` of `whole_ns`, in columns of `column_ns`; keeps no single I/Os.
    pub fn of_stretch(
        start_unix_ns: i64,
        whole_ns: std::ops::Range<i64>,
        range_ns: std::ops::Range<i64>,
        column_ns: i64,
    ) -> History {
        let mut history = History::new(start_unix_ns, 0);
        history.column_ns = column_ns;
        history.first = range_ns.start.div_euclid(column_ns);
        // Rounded up: the last column may be cut by the end of the recording.
        let columns = -(-range_ns.end).div_euclid(column_ns) - history.first;
        history.max_columns = usize::try_from(columns).unwrap_or(0).max(1);
        history.complete_to_ns = range_ns.end;
        history.whole_ns = Some(whole_ns);
        history
    }

    /// A formatter of times, for readers who know the date of `first_ns`.
    pub fn times(&self, first_ns: i64) -> Times {
        Times::new(self.clock.clone(), self.start_unix_ns, first_ns)
    }

    /// Adds the I/Os of a stretch in order of completion. Those that complete after it were in flight in it.
    pub fn count_all(&mut self, ios: &[Io]) {
        let end_ns = (self.first + self.max_columns as i64) * self.column_ns;
        for io in ios {
            if io.done_ns < end_ns {
                self.count(io);
            } else {
                self.occupy(io);
            }
        }
    }

    /// The time covered by the columns.
    pub fn kept_ns(&self) -> std::ops::Range<i64> {
        let from_ns = self.first * self.column_ns;
        from_ns..self.complete_to_ns.max(from_ns)
    }

    /// Whether it is a stretch of a recording, whose single I/Os are not in memory.
    pub fn is_stretch(&self) -> bool {
        self.whole_ns.is_some()
    }

    /// Length of a column.
    pub fn column_ns(&self) -> i64 {
        self.column_ns
    }

    /// Adds I/Os in order of completion.
    pub fn push(&mut self, mut ios: Vec<Io>) {
        ios.retain(|io| io.done_ns >= 0);
        for io in &ios {
            self.count(io);
        }
        if !ios.is_empty() {
            ios.shrink_to_fit();
            self.ios += ios.len();
            self.chunks.push_back(Arc::new(ios));
        }
        while self.ios > self.max_ios && self.chunks.len() > 1 {
            if let Some(chunk) = self.chunks.pop_front() {
                self.ios -= chunk.len();
                self.drop_or_hold(chunk);
            }
        }
    }

    fn drop_or_hold(&mut self, chunk: Arc<Vec<Io>>) {
        let first_ns = chunk.first().map_or(i64::MAX, |io| io.done_ns);
        let is_in_view = self.hold_to_ns.is_some_and(|to_ns| first_ns < to_ns);
        if is_in_view && self.gap_from_ns.is_none() {
            self.held.push_back(chunk);
        } else if self.held.is_empty() {
            self.has_dropped = true;
        } else {
            self.gap_from_ns.get_or_insert(first_ns);
        }
    }

    /// Keeps the single I/Os in memory that completed before `to_ns`; with `None` they are dropped as usual. The time in view may move
    /// while it is held: the latest end counts.
    pub fn hold(&mut self, to_ns: Option<i64>) {
        let held_to_ns = self.hold_to_ns;
        self.hold_to_ns = to_ns.map(|ns| held_to_ns.map_or(ns, |held| held.max(ns)));
        if to_ns.is_none() && !self.held.is_empty() {
            self.held.clear();
            self.gap_from_ns = None;
            self.has_dropped = true;
        }
    }

    /// The held chunks, if no I/O between them and `to_ns` is missing.
    fn held_before(&self, to_ns: i64) -> impl Iterator<Item = &Arc<Vec<Io>>> {
        let has_gap = self.gap_from_ns.is_some_and(|gap_ns| gap_ns < to_ns);
        let n = if has_gap { 0 } else { self.held.len() };
        self.held.range(..n)
    }

    /// Takes what is missing.
    pub fn lose(&mut self, lost: &[Lost]) {
        for one in lost.iter().filter(|l| l.reason.is_loss()) {
            self.lost_ios += one.ios.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            self.lost.push_back(*one);
        }
        // Those of a stretch are in memory with its recording anyway, and all of them count.
        while self.lost.len() > MAX_LOSSES && !self.is_stretch() {
            self.lost.pop_front();
        }
    }

    /// I/Os were lost at some moment of this interval. Intervals come in order.
    pub fn suspect(&mut self, from_ns: i64, to_ns: i64) {
        match self.suspect.back_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => self.suspect.push_back((from_ns, to_ns)),
        }
        while self.suspect.len() > MAX_LOSSES {
            self.suspect.pop_front();
        }
    }

    /// The parts of `window` in which an unknown number of I/Os may be lost.
    pub fn suspected(&self, window: Window) -> Vec<Lost> {
        let mut parts = Vec::new();
        for (from_ns, to_ns) in &self.suspect {
            let from_ns = (*from_ns).max(window.from_ns);
            let to_ns = (*to_ns).min(window.to_ns);
            if from_ns < to_ns {
                parts.push(Lost {
                    from_ns,
                    to_ns,
                    dev: None,
                    class: None,
                    reason: LossReason::Unaccounted,
                    ios: None,
                    bytes: None,
                    merges: None,
                });
            }
        }
        parts
    }

    /// The number of lost I/Os to show: of a stretch of a recording those lost in the interval in view, else all.
    pub fn shown_lost_ios(&self, from_ns: i64, to_ns: i64) -> u64 {
        if !self.is_stretch() {
            return self.lost_ios;
        }
        let mut ios = 0u64;
        for one in self.lost.iter().filter(|l| l.meets(from_ns, to_ns)) {
            let lost = one.ios.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            ios = ios.saturating_add(lost);
        }
        ios
    }

    /// Adds pressure samples.
    pub fn learn_pressure(&mut self, samples: Vec<PressureSample>) {
        self.pressure.extend(samples);
        let newest_ns = self.pressure.back().map_or(0, |s| s.to_ns);
        while let Some(oldest) = self.pressure.front()
            && oldest.to_ns < newest_ns - PRESSURE_NS
        {
            self.pressure.pop_front();
        }
    }

    /// The host's pressure in the last two minutes.
    pub fn host(&self) -> HostPressure {
        let mut host = HostPressure::default();
        for sample in &self.pressure {
            host.push(sample);
        }
        host
    }

    /// All I/Os that completed before `to_ns` have been added.
    pub fn advance(&mut self, to_ns: i64) {
        self.complete_to_ns = self.complete_to_ns.max(to_ns);
        self.column(to_ns - 1);
        while self.columns.len() > self.max_columns
            || (self.entries > MAX_ENTRIES && self.columns.len() > 1)
        {
            let gone = self.columns.pop_front().unwrap_or_default();
            self.entries -= gone.entries().min(self.entries);
            self.first += 1;
        }
    }

    fn count(&mut self, io: &Io) {
        let Some(column) = self.column(io.done_ns) else {
            return;
        };
        let cell = column.cell(io.dev, io.class());
        cell.ios += 1;
        cell.bytes += u64::try_from(io.bytes).unwrap_or(0);
        let mut added = 0;
        for (part, counts) in PARTS.iter().zip(&mut cell.parts) {
            if let Some(ns) = part_ns(*part, io) {
                added += usize::from(counts.add(ColumnLatencies::bucket(ns), 1));
            }
        }
        self.entries += added;
        self.occupy(io);
    }

    /// Adds the differences of two counter samples.
    pub fn count_rates(&mut self, rates: &CounterRates) {
        let Some(column) = self.column(rates.to_ns - 1) else {
            return;
        };
        let before = column.entries();
        for class in Class::ALL {
            let Some(flow) = rates.flows[class as usize].filter(|flow| flow.ios > 0) else {
                continue;
            };
            let cell = column.cell(rates.dev, class);
            cell.ios += flow.ios;
            cell.bytes += flow.bytes;
            cell.total_ns += flow.total_ns;
            // Only the mean of the column is known. Counters are in whole milliseconds.
            let mean_ns = cell.total_ns.max(COUNTER_NS / 2) / cell.ios as i64;
            let mut mean = ColumnLatencies::default();
            mean.add(ColumnLatencies::bucket(mean_ns), cell.ios as u32);
            cell.parts[0] = mean;
        }
        let after = column.entries();
        let occupied = column.occupied(rates.dev);
        occupied.busy_ns += rates.busy_ns.unwrap_or(0);
        occupied.area_ns += rates.area_ns.unwrap_or(0);
        self.entries = (self.entries + after).saturating_sub(before);
    }

    /// Adds the time of an I/O to its device's busy time, as far as it is not counted yet.
    fn occupy(&mut self, io: &Io) {
        let from_ns = io.issue_ns().max(0);
        let to_ns = io.done_ns;
        let intervals = self.busy.entry(io.dev).or_default();
        // Completions come in order, so only the last intervals can overlap this one. The gaps between them are new
        // busy time.
        let mut merged_from_ns = from_ns;
        let mut right_ns = to_ns;
        let mut gaps = Vec::new();
        while let Some((start_ns, end_ns)) = intervals.last().copied() {
            if end_ns < from_ns {
                break;
            }
            gaps.push((end_ns, right_ns));
            right_ns = start_ns;
            merged_from_ns = merged_from_ns.min(start_ns);
            intervals.pop();
        }
        gaps.push((from_ns, right_ns));
        intervals.push((merged_from_ns, to_ns));
        // Intervals long before any I/O that can still complete are not needed any more.
        if intervals.len() > MAX_INTERVALS {
            intervals.drain(..MAX_INTERVALS / 2);
        }
        for (from_ns, to_ns) in gaps {
            self.spread(io.dev, from_ns, to_ns, |o, ns| o.busy_ns += ns);
        }
        let start_ns = io.start_ns().max(0);
        self.spread(io.dev, start_ns, to_ns, |o, ns| o.area_ns += ns);
    }

    /// Distributes an interval over the columns that it overlaps.
    fn spread(&mut self, dev: DevId, from_ns: i64, to_ns: i64, add: impl Fn(&mut Occupied, i64)) {
        let column_ns = self.column_ns;
        let mut at_ns = from_ns.max(self.first * column_ns);
        let to_ns = match self.whole_ns {
            Some(_) => to_ns.min((self.first + self.max_columns as i64) * column_ns),
            None => to_ns,
        };
        while at_ns < to_ns {
            let end_ns = ((at_ns / column_ns + 1) * column_ns).min(to_ns);
            if let Some(column) = self.column(at_ns) {
                add(column.occupied(dev), end_ns - at_ns);
            }
            at_ns = end_ns;
        }
    }

    /// The column that contains `at_ns`, created if needed; `None` if it was dropped already.
    fn column(&mut self, at_ns: i64) -> Option<&mut HistoryColumn> {
        let number = at_ns.max(0) / self.column_ns;
        let at = usize::try_from(number - self.first).ok()?;
        // After a suspend of the machine, columns that would be dropped immediately are not created.
        if at >= self.columns.len() + self.max_columns {
            self.columns.clear();
            self.entries = 0;
            self.first = number;
            self.columns.push_back(HistoryColumn::default());
            return self.columns.back_mut();
        }
        while self.columns.len() <= at {
            self.columns.push_back(HistoryColumn::default());
        }
        self.columns.get_mut(at)
    }

    /// The time that can be shown.
    pub fn range_ns(&self) -> std::ops::Range<i64> {
        self.whole_ns.clone().unwrap_or_else(|| self.kept_ns())
    }

    /// From when on the single I/Os that completed before `to_ns` are kept; `None`: there are none.
    pub fn ios_from_ns(&self, to_ns: i64) -> Option<i64> {
        let newest = self.chunks.front()?;
        let oldest = self.held_before(to_ns).next();
        let first = oldest.unwrap_or(newest).first()?;
        let is_after_gap = oldest.is_none() && self.gap_from_ns.is_some();
        if self.has_dropped || is_after_gap {
            Some(first.done_ns)
        } else {
            Some(self.kept_ns().start)
        }
    }

    /// The part of `window` of which the single I/Os are in memory: figures per second are of that. All of it where none are.
    pub fn window_in_memory(&self, window: Window) -> Window {
        let first_ns = self.ios_from_ns(window.to_ns);
        let first_ns = first_ns.filter(|ns| *ns < window.to_ns);
        let from_ns = first_ns.map_or(window.from_ns, |ns| ns.max(window.from_ns));
        Window::new(from_ns, window.to_ns)
    }

    /// The chunks with I/Os that completed in an interval, in order of completion.
    pub fn chunks(&self, from_ns: i64, to_ns: i64) -> Vec<Arc<Vec<Io>>> {
        let mut found = Vec::new();
        for chunk in self.held_before(to_ns).chain(&self.chunks) {
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else {
                continue;
            };
            if last.done_ns >= from_ns && first.done_ns < to_ns {
                found.push(Arc::clone(chunk));
            }
        }
        found
    }

    fn between(&self, from_ns: i64, to_ns: i64) -> impl Iterator<Item = &HistoryColumn> {
        let from = (from_ns / self.column_ns - self.first).clamp(0, self.columns.len() as i64);
        let to = (to_ns / self.column_ns - self.first).clamp(from, self.columns.len() as i64);
        self.columns.range(from as usize..to as usize)
    }

    /// Sums of one class on one device, over whole columns.
    pub fn flow(&self, dev: DevId, class: Class, from_ns: i64, to_ns: i64) -> FlowSum {
        let mut sum = FlowSum::default();
        for column in self.between(from_ns, to_ns) {
            let cells = column.cells.iter();
            for (.., cell) in cells.filter(|c| c.0 == dev && c.1 == class) {
                sum.ios += cell.ios;
                sum.bytes += cell.bytes;
                sum.total_ns += cell.total_ns;
            }
        }
        sum
    }

    /// Number of I/Os, over whole columns.
    pub fn ios(&self, from_ns: i64, to_ns: i64) -> u64 {
        let columns = self.between(from_ns, to_ns);
        columns.flat_map(|c| &c.cells).map(|c| c.2.ios).sum()
    }

    /// Busy time and in-flight time of a device over whole columns, in nanoseconds.
    pub fn occupied_ns(&self, dev: DevId, from_ns: i64, to_ns: i64) -> (i64, i64) {
        let mut busy_ns = 0;
        let mut area_ns = 0;
        for column in self.between(from_ns, to_ns) {
            for (_, occupied) in column.occupied.iter().filter(|o| o.0 == dev) {
                busy_ns += occupied.busy_ns;
                area_ns += occupied.area_ns;
            }
        }
        (busy_ns, area_ns)
    }

    /// Latencies in whole columns.
    pub fn latencies(&self, pick: &Pick, from_ns: i64, to_ns: i64) -> ColumnLatencies {
        let mut counts = ColumnLatencies::default();
        let part = PARTS.iter().position(|p| *p == pick.part).unwrap_or(0);
        for column in self.between(from_ns, to_ns) {
            for (dev, class, cell) in &column.cells {
                if pick.has(*dev, *class) {
                    counts.merge(&cell.parts[part]);
                }
            }
        }
        counts
    }

    /// Devices with I/O in whole columns, ordered by their number of I/Os, largest first.
    pub fn active_devices(&self, from_ns: i64, to_ns: i64) -> Vec<DevId> {
        let mut sums: BTreeMap<DevId, u64> = BTreeMap::new();
        for column in self.between(from_ns, to_ns) {
            for (dev, _, cell) in &column.cells {
                *sums.entry(*dev).or_default() += cell.ios;
            }
        }
        let mut all: Vec<_> = sums.into_iter().filter(|s| s.1 > 0).collect();
        all.sort_by_key(|(dev, ios)| (std::cmp::Reverse(*ios), *dev));
        all.into_iter().map(|(dev, _)| dev).collect()
    }

    /// Whether I/Os are lost in an interval.
    pub fn is_lossy(&self, from_ns: i64, to_ns: i64) -> bool {
        self.lost.iter().any(|l| l.meets(from_ns, to_ns))
    }
}

/// Latencies of selected I/Os, by column.
#[derive(Debug)]
pub struct SelectedColumns {
    /// Which I/Os.
    pub selection: Selection,
    column_ns: i64,
    columns: BTreeMap<i64, ColumnLatencies>,
}

impl SelectedColumns {
    /// Of no I/O yet.
    pub fn new(selection: Selection, column_ns: i64) -> SelectedColumns {
        SelectedColumns {
            selection,
            column_ns,
            columns: BTreeMap::new(),
        }
    }

    /// Counts an I/O that is selected.
    pub fn count(&mut self, io: &Io) {
        if let Some(ns) = part_ns(self.selection.pick.part, io) {
            let column = self.columns.entry(io.done_ns.div_euclid(self.column_ns));
            column.or_default().add(ColumnLatencies::bucket(ns), 1);
        }
    }

    /// Latencies in whole columns.
    pub fn latencies(&self, from_ns: i64, to_ns: i64) -> ColumnLatencies {
        let from = from_ns.div_euclid(self.column_ns);
        let to = to_ns.div_euclid(self.column_ns);
        let mut counts = ColumnLatencies::default();
        for (_, column) in self.columns.range(from..to) {
            counts.merge(column);
        }
        counts
    }
}

/// Selects latencies.
#[derive(Debug, Clone, PartialEq)]
pub struct Pick {
    /// The part of the latency.
    pub part: TimePart,
    /// The device; `None`: all that count in sums.
    pub dev: Option<DevId>,
    /// The class; `None`: all.
    pub class: Option<Class>,
    /// Stacked devices, whose I/Os would count twice in a sum over all devices.
    pub above: Vec<DevId>,
}

impl Pick {
    /// Whether I/Os of this device and class are selected.
    pub fn has(&self, dev: DevId, class: Class) -> bool {
        let is_device = match self.dev {
            Some(wanted) => wanted == dev,
            None => !self.above.contains(&dev),
        };
        is_device && self.class.is_none_or(|wanted| wanted == class)
    }
}

/// The duration of this part of an I/O in nanoseconds; `None` if the source does not report it.
pub fn part_ns(part: TimePart, io: &Io) -> Option<i64> {
    match part {
        TimePart::Total => Some(io.total_ns()),
        TimePart::Queue => io.queue_ns,
        TimePart::Device => Some(io.device_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::Op;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn dev() -> DevId {
        DevId::new(8, 0)
    }

    fn io(done_ms: i64, device_ms: i64) -> Io {
        Io::new(done_ms * MS, dev(), Op::READ, 4096, Some(0), device_ms * MS)
    }

    fn pick() -> Pick {
        Pick {
            part: TimePart::Total,
            dev: None,
            class: None,
            above: Vec::new(),
        }
    }

    fn history(max_ios: usize) -> History {
        History::new(0, max_ios)
    }

    #[test]
    fn what_a_service_has_lost_in_a_minute_may_be_missing_from_all_of_it() {
        let mut history = history(100);
        history.suspect(0, 1000 * MS);
        history.suspect(500 * MS, 1500 * MS);
        history.suspect(9000 * MS, 10_000 * MS);
        let found = history.suspected(Window::new(1000 * MS, 9500 * MS));
        let times: Vec<(i64, i64)> = found.iter().map(|l| (l.from_ns, l.to_ns)).collect();
        let expected = [(1000 * MS, 1500 * MS), (9000 * MS, 9500 * MS)];
        assert_eq!(times, expected);
        assert!(found.iter().all(|l| l.ios.is_none() && l.reason.is_loss()));
        let between = Window::new(2000 * MS, 9000 * MS);
        assert!(history.suspected(between).is_empty());
    }

    #[test]
    fn one_slow_io_among_thousands_has_an_entry_of_its_own() {
        let mut history = history(100);
        let mut ios = vec![Io::new(50 * MS, dev(), Op::READ, 4096, None, 80_000); 5000];
        ios.push(io(60, 250));
        history.push(ios);
        history.advance(100 * MS);
        let counts = history.latencies(&pick(), 0, 100 * MS);
        assert_eq!(counts.n(), 5001);
        let last = counts.entries().last().expect("an entry");
        assert_eq!(last.1, 1);
        let ns = ColumnLatencies::middle_ns(last.0);
        assert!((ns / 250e6 - 1.0).abs() < 0.07, "{ns}");
    }

    #[test]
    fn the_median_of_equal_sizes_is_their_size() {
        for size in [512, 4096, 131_072, 1 << 20] {
            let mut sizes = ColumnLatencies::default();
            sizes.add(ColumnLatencies::bucket(size), 7);
            assert_eq!(sizes.low_quantile(0.5), Some(size as f64));
        }
        assert_eq!(ColumnLatencies::default().low_quantile(0.5), None);
    }

    #[test]
    fn counters_give_rates_and_one_mean_for_each_column() {
        use iolens_core::analysis::timeline::Flow;
        let mut history = history(10);
        for sample in 0..20 {
            let flow = Flow {
                ios: 4,
                bytes: 4 * 4096,
                // A sum that grows by whole milliseconds.
                total_ns: if sample % 2 == 0 { 2 * MS } else { 0 },
            };
            history.count_rates(&CounterRates {
                dev: dev(),
                from_ns: sample * 10 * MS,
                to_ns: (sample + 1) * 10 * MS,
                flows: [Some(flow), None, None, None],
                busy_ns: Some(MS),
                area_ns: Some(2 * MS),
            });
        }
        history.advance(200 * MS);
        let sum = history.flow(dev(), Class::Read, 0, 100 * MS);
        assert_eq!((sum.ios, sum.bytes, sum.total_ns), (40, 40 * 4096, 10 * MS));
        let latencies = history.latencies(&pick(), 0, 200 * MS);
        assert_eq!((latencies.n(), latencies.entries().len()), (80, 1));
        let mean_ns = ColumnLatencies::middle_ns(latencies.entries()[0].0);
        assert!((mean_ns / 250_000.0 - 1.0).abs() < 0.07, "{mean_ns}");
        assert_eq!(history.occupied_ns(dev(), 0, 100 * MS), (10 * MS, 20 * MS));
    }

    #[test]
    fn the_oldest_ios_go_and_their_latencies_stay() {
        let mut history = history(10);
        for done_ms in 0..100 {
            history.push(vec![io(done_ms, 1)]);
        }
        history.advance(100 * MS);
        assert_eq!(history.ios_from_ns(100 * MS), Some(90 * MS));
        assert_eq!(history.chunks(0, 95 * MS).len(), 5);
        assert_eq!(history.ios(0, 100 * MS), 100);
    }

    #[test]
    fn a_window_begins_where_the_single_ios_do() {
        let mut history = history(10);
        let window = Window::new(-50 * MS, 95 * MS);
        assert_eq!(history.window_in_memory(window), window);
        for done_ms in 5..15 {
            history.push(vec![io(done_ms, 1)]);
        }
        history.advance(100 * MS);
        // The device was idle before the first I/O; there is nothing before the start.
        let from_start = Window::new(0, 95 * MS);
        assert_eq!(history.window_in_memory(window), from_start);
        for done_ms in 15..100 {
            history.push(vec![io(done_ms, 1)]);
        }
        let newest = Window::new(90 * MS, 95 * MS);
        assert_eq!(history.window_in_memory(window), newest);
        let gone = Window::new(0, 50 * MS);
        assert_eq!(history.window_in_memory(gone), gone);
    }

    #[test]
    fn ios_in_view_stay_in_memory_while_time_is_held() {
        let mut history = history(10);
        for done_ms in 0..20 {
            history.push(vec![io(done_ms, 1)]);
        }
        for held_to_ms in [18, 12] {
            // The view is moved back, and can be moved forward again.
            history.hold(Some(held_to_ms * MS));
        }
        for done_ms in 20..100 {
            history.push(vec![io(done_ms, 1)]);
        }
        history.advance(100 * MS);
        assert_eq!(history.ios_from_ns(18 * MS), Some(10 * MS));
        assert_eq!(history.chunks(0, 18 * MS).len(), 8);
        // I/Os are missing between those in view and the newest.
        assert_eq!(history.ios_from_ns(95 * MS), Some(90 * MS));
        assert_eq!(history.chunks(0, 95 * MS).len(), 5);
        history.hold(None);
        assert_eq!(history.ios_from_ns(18 * MS), Some(90 * MS));
        assert!(history.chunks(0, 18 * MS).is_empty());
        assert_eq!(history.chunks(0, 95 * MS).len(), 5);
    }

    #[test]
    fn the_host_is_known_for_two_minutes() {
        let mut history = history(10);
        for second in 0..300 {
            history.learn_pressure(vec![PressureSample {
                from_ns: second * 1000 * MS,
                to_ns: (second + 1) * 1000 * MS,
                cpu_some_ns: Some(900 * MS),
                ..PressureSample::default()
            }]);
        }
        let host = history.host();
        let last = host.between(290_000 * MS, 300_000 * MS);
        assert_eq!(last.and_then(|s| s.cpu_pressure_percent), Some(90.0));
        assert!(host.between(181_000 * MS, 183_000 * MS).is_some());
        assert_eq!(host.between(170_000 * MS, 178_000 * MS), None);
    }

    #[test]
    fn columns_older_than_ten_minutes_go() {
        let mut history = history(10);
        history.push(vec![io(10, 1)]);
        history.advance(100 * MS);
        history.push(vec![io(700_000, 1)]);
        history.advance(700_100 * MS);
        assert_eq!(history.ios(0, 800_000 * MS), 1);
        assert!(history.range_ns().start > 0);
    }

    proptest! {
        #[test]
        fn busy_time_is_the_union_of_all_intervals(
            spans in prop::collection::vec((0i64..2000, 0i64..300), 1..60)
        ) {
            let mut spans: Vec<(i64, i64)> =
                spans.into_iter().map(|(done, len)| (done, len.min(done))).collect();
            spans.sort_unstable();
            let mut history = history(1000);
            for (done, len) in &spans {
                history.push(vec![io(*done, *len)]);
            }
            history.advance(2100 * MS);
            let covered = (0..2000)
                .filter(|ms| spans.iter().any(|(done, len)| done - len <= *ms && *ms < *done))
                .count();
            let area: i64 = spans.iter().map(|s| s.1).sum();
            let occupied = history.occupied_ns(dev(), 0, 2100 * MS);
            prop_assert_eq!(occupied, (covered as i64 * MS, area * MS));
        }
    }
}
