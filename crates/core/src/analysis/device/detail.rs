//! The detailed analysis of one device: everything that needs more than counts and histograms.

use std::sync::Arc;

use serde::Serialize;

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::cells::{CLASSES, IoActor, Series};
pub use crate::analysis::bursts::detail::{BurstDetail, MAX_BURSTS};
use crate::analysis::bursts::detail::{Found, Surroundings, find_bursts, largest};
use crate::analysis::bursts::envelope::{Unevenness, most_bytes, unevenness_of};
use crate::analysis::bursts::stream_scan::BurstScan;
use crate::analysis::capacity::bandwidth::{self, Plateau};
use crate::analysis::capacity::load::{Load, LoadPoint, LoadWindows};
use crate::analysis::capacity::queue_full::QueueFull;
use crate::analysis::capacity::{Capacity, DeviceMeans, capacity};
use crate::analysis::counters::io_ticks::{IoTicks, Regime, UtilCheck, sigma_pp};
use crate::analysis::device::attribution::{Attribution, AttributionSummary};
use crate::analysis::device::by_issue::SweptByIssue;
use crate::analysis::device::context::{BURST_SLOT_NS, DeviceContext};
use crate::analysis::device::slots::{SLOT_NS, SlotSummary, SlotSweep, group_ns};
use crate::analysis::device::stages::StagesSummary;
use crate::analysis::latency::change::{self, Change};
use crate::analysis::latency::mode::Mode;
use crate::analysis::latency::sequences::{Sequences, SmallSequential};
use crate::analysis::latency::stalls::Stalls;
use crate::analysis::latency::syncs::{Bound, SyncScan};
use crate::analysis::periodicity::{self, Periodicity};
use crate::analysis::stream::arrivals::Arrivals;
use crate::analysis::stream::kept_slots::within_budget;
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::peak::peak;
use crate::analysis::stream::requests::{Request, Requests};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, HOUR_NS, Io, SECTOR_BYTES};

/// Maximum sample of reads and of writes, used for the latency of requests that overlap a burst of the other class.
const SAMPLE: usize = 1 << 16;

/// Maximum number of entries kept of the submissions of reads and of writes, in which periods are searched.
const MAX_ARRIVALS: usize = 1 << 17;

const MAX_SLOTS: i64 = 1_000_000;

/// The analyses of one device in the order of start.
#[derive(Debug)]
pub(in crate::analysis) struct Swept {
    pub slots: SlotSweep,
    ticks: Option<IoTicks>,
    pub load: LoadWindows,
    scans: [BurstScan; 2],
}

impl Swept {
    /// For `window`; nothing was recorded in the intervals `unrecorded`.
    pub fn new(
        window: Window,
        kernel: Option<(Regime, u32)>,
        unrecorded: &Arc<[(i64, i64)]>,
    ) -> Swept {
        let slots = SlotSweep::new(window, SLOT_NS, group_ns(window));
        Swept {
            slots: slots.leaving_out(unrecorded),
            ticks: kernel.map(|(regime, hz)| IoTicks::new(regime, hz)),
            load: LoadWindows::new(window),
            scans: CLASSES.map(|_| BurstScan::new(window)),
        }
    }
}

impl Sweep for Swept {
    fn start(&mut self, span: &Span) {
        self.slots.start(span);
        self.load.start(span);
        self.submit(span);
        if let Some(ticks) = &mut self.ticks {
            ticks.start(span.start_ns);
        }
    }

    fn done(&mut self, end: &End) {
        self.slots.done(end);
        self.load.done(end);
        if let Some(ticks) = &mut self.ticks {
            ticks.done(end.at_ns);
        }
    }

    fn instant(&mut self, span: &Span) {
        self.slots.instant(span);
        self.submit(span);
    }
}

impl Swept {
    fn submit(&mut self, span: &Span) {
        if let Some(scan) = self.scans.get_mut(span.class as usize) {
            scan.push(span.start_ns, u64::from(span.sectors) * SECTOR_BYTES as u64);
        }
    }
}

/// The analyses of one device in the order of completion.
#[derive(Debug)]
pub(in crate::analysis) struct Completed {
    attribution: Attribution,
    requests: [Requests; 2],
    arrivals: [Arrivals; 2],
    syncs: SyncScan,
    sequences: Sequences,
}

/// Bins and requests kept of all devices together. Beyond that the largest collections are halved.
const MAX_BINS: usize = 1 << 19;
const MAX_REQUESTS: usize = 1 << 20;

impl Completed {
    /// Bounds the memory of `all` devices together, whatever their number and the length of the recording.
    pub fn bound(all: &mut [Completed]) {
        within_budget(
            all,
            MAX_BINS,
            |c| c.attribution.kept(),
            |c| c.attribution.halve(),
        );
        let mut streams: Vec<&mut Requests> =
            all.iter_mut().flat_map(|c| &mut c.requests).collect();
        within_budget(
            &mut streams,
            MAX_REQUESTS,
            |r| r.kept().len(),
            |r| r.halve(),
        );
        let mut streams: Vec<&mut Arrivals> =
            all.iter_mut().flat_map(|c| &mut c.arrivals).collect();
        within_budget(&mut streams, MAX_REQUESTS, |a| a.len(), |a| a.shrink());
    }

    pub fn new(window: Window) -> Completed {
        Completed {
            attribution: Attribution::new(window),
            requests: CLASSES.map(|_| Requests::new(SAMPLE)),
            arrivals: CLASSES.map(|_| Arrivals::new(MAX_ARRIVALS)),
            syncs: SyncScan::default(),
            sequences: Sequences::default(),
        }
    }

    /// An I/O completes inside the window.
    pub fn push(&mut self, io: &Io) {
        self.attribution.push(io);
        self.syncs.push(io);
        self.sequences.push(io);
        if let Some(own) = self.requests.get_mut(io.class() as usize) {
            let request = Request::from(io);
            own.push(request);
            self.arrivals[io.class() as usize].push(request);
        }
    }
}

/// Everything accumulated for one device.
pub(in crate::analysis) struct Gathered {
    pub swept: Swept,
    pub issued: SweptByIssue,
    pub completed: Completed,
    /// Start to done.
    pub s2c: Latencies,
}

/// Reads or writes of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamDetail {
    /// Reads or writes.
    pub class: Class,
    /// Bytes moved.
    pub bytes: u64,
    /// Width of the slots in which bursts were searched, in nanoseconds.
    pub slot_ns: i64,
    /// The limit that bursts are compared with; `None` without I/O.
    pub limit: Option<Limit>,
    /// The bursts in order of time; if there are more than [`MAX_BURSTS`], the largest.
    pub bursts: Vec<BurstDetail>,
    /// Number of bursts found.
    pub bursts_found: usize,
    /// Empirical arrival curve: (window length in nanoseconds, most bytes in any window of that length).
    pub envelope: Vec<(i64, u64)>,
    /// Dispersion of counts at several resolutions.
    pub unevenness: Vec<Unevenness>,
    /// Periods of its submissions.
    pub periodicity: Periodicity,
    /// The process behind each clock of `periodicity`, in the same order.
    #[serde(skip)]
    pub periodic_causes: Vec<Option<IoActor>>,
}

/// The hour with most completed I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PeakHour {
    /// Its beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// I/Os per second in it.
    pub ios_per_s: f64,
    /// Rate relative to the mean of the recording.
    pub ratio: f64,
}

/// One device in depth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceDetail {
    /// Device number.
    pub dev: DevId,
    /// Concurrency by slots (A3), groups of 20 minutes.
    pub slots: SlotSummary,
    /// The kernel's busy time compared with the exact one (A2); `None` without counters or with losses.
    pub util: Option<UtilCheck>,
    /// Throughput, latency and concurrency over time (input of A18).
    #[serde(skip)]
    pub load: Vec<LoadPoint>,
    /// Capacity and headroom (A18).
    pub capacity: Capacity,
    /// Stages and seeks (A24).
    pub stages: StagesSummary,
    /// Latency over time, counted at completion and at arrival (A6).
    #[serde(skip)]
    pub attribution: AttributionSummary,
    /// The busiest hour (A12); `None` in a recording of less than two hours.
    pub peak_hour: Option<PeakHour>,
    /// Reads and writes (A13, A15).
    pub streams: [StreamDetail; 2],
    /// Stretches in which nothing completed.
    pub stalls: Stalls,
    /// Changes of the device times of reads or writes at equal load.
    #[serde(skip)]
    pub latency_changes: Vec<Change>,
    /// A writer whose rate is limited by its syncs.
    #[serde(skip)]
    pub sync_bound: Option<Bound>,
    /// A sequential stream in small requests.
    #[serde(skip)]
    pub small_stream: Option<SmallSequential>,
    /// Second modes and heavy tails of device time.
    #[serde(skip)]
    pub latency_modes: Vec<Mode>,
    /// The throughput above which more demand only adds waiting.
    #[serde(skip)]
    pub plateau: Option<Plateau>,
    /// When the device took no more requests.
    #[serde(skip)]
    pub queue_full: Option<QueueFull>,
}

impl Gathered {
    /// The detail of this device.
    pub fn finish(self, around: &DeviceContext) -> DeviceDetail {
        let Gathered {
            swept,
            issued,
            completed,
            s2c,
        } = self;
        let known = change::LatencyContext {
            window: around.window,
            gaps: &around.losses.of(around.dev),
            family: around.family,
        };
        let (latency_changes, latency_modes) = issued.latencies(&known);
        let SweptByIssue {
            stages,
            gaps: standstills,
            full,
            ..
        } = issued;
        let stages = stages.finish(s2c);
        let expected = swept
            .ticks
            .as_ref()
            .map(|t| 100.0 * t.busy_ns() as f64 / around.window.len_ns().max(1) as f64);
        let load = swept.load.finish(around.window);
        let series = CLASSES.map(|class| series_of(around, class));
        let streams = streams(
            around,
            &series,
            swept.scans,
            completed.arrivals,
            &completed.requests,
            &load.points,
        );
        DeviceDetail {
            dev: around.dev,
            slots: swept.slots.finish(around.window),
            util: util_check(around, &stages, expected),
            capacity: capacity(&load, &known_of(around, &stages, &series)),
            attribution: completed.attribution.finish(around.window),
            peak_hour: peak_hour(around, &load),
            stalls: standstills.finish(around.dev, stages.d2c.p50_us, around.losses),
            sync_bound: completed
                .syncs
                .finish(around.dev, around.window, around.losses),
            small_stream: completed.sequences.finish(around, &stages.costs),
            latency_changes,
            latency_modes,
            plateau: bandwidth::find(&load, around.dev, around.losses),
            queue_full: full.finish(around.dev, around.window, around.losses),
            load: load.points,
            stages,
            streams,
        }
    }
}

/// Inputs of A18 besides the load windows.
fn known_of(around: &DeviceContext, stages: &StagesSummary, series: &[Series; 2]) -> DeviceMeans {
    let recorded_ns = around.window.len_ns() - around.unrecorded_ns;
    let seconds = (recorded_ns as f64 / 1e9).max(1e-9);
    let rates = series.each_ref().map(|s| {
        let ios: u64 = s.filled().iter().map(|slot| slot.ios).sum();
        let bytes: u64 = s.filled().iter().map(|slot| slot.bytes).sum();
        (ios as f64 / seconds, bytes as f64 / seconds)
    });
    DeviceMeans {
        rates,
        costs: stages.costs,
        queue_us: stages.s2d.mean_us,
        device_us: stages.d2c.mean_us,
    }
}

/// The busiest hour. Windows with losses count as not observed.
fn peak_hour(around: &DeviceContext, load: &Load) -> Option<PeakHour> {
    if around.window.len_ns() < 2 * HOUR_NS {
        return None;
    }
    // Slots of a minute are fine enough for an hour.
    let joined = (60 * 1_000_000_000 / load.len_ns).max(1) as usize;
    let len_ns = joined as i64 * load.len_ns;
    let mut ios = vec![0.0; load.windows / joined];
    for p in &load.points {
        if let Some(sum) = ios.get_mut(load.index(p) / joined) {
            *sum += p.ios_per_s / joined as f64;
        }
    }
    let mut seen: Vec<Option<f64>> = Vec::with_capacity(ios.len());
    let mut begin_ns = load.from_ns;
    for ios_per_s in ios {
        let end_ns = begin_ns + len_ns;
        let is_lossy = around.losses.overlap(around.dev, begin_ns, end_ns);
        seen.push((!is_lossy).then_some(ios_per_s));
        begin_ns = end_ns;
    }
    let found = peak(&seen, (HOUR_NS / len_ns) as usize)?;
    let from_ns = load.from_ns + found.first as i64 * len_ns;
    let to_ns = from_ns + found.slots as i64 * len_ns;
    Some(PeakHour {
        from_ns,
        to_ns,
        ios_per_s: found.sum / found.slots as f64,
        ratio: found.ratio,
    })
}

fn util_check(
    around: &DeviceContext,
    stages: &StagesSummary,
    expected: Option<f64>,
) -> Option<UtilCheck> {
    let (busy_ns, covered_ns) = around.counted?;
    let window_ns = around.window.len_ns();
    // With losses, or with counters that cover less than 90 % of the window, the comparison would be meaningless.
    if !around.complete || covered_ns < window_ns / 10 * 9 {
        return None;
    }
    let sigma = around
        .kernel
        .zip(stages.s2c.mean_us)
        .map(|((_, hz), mean_us)| {
            sigma_pp(
                stages.s2c.n,
                mean_us * 1e3,
                1e9 / f64::from(hz.max(1)),
                window_ns as f64,
            )
        });
    let ticks_percent = 100.0 * busy_ns as f64 / covered_ns as f64;
    Some(UtilCheck::new(
        around.busy_percent?,
        ticks_percent,
        expected,
        sigma,
        around.kernel.map(|k| k.0),
    ))
}

fn series_of(around: &DeviceContext, class: Class) -> Series {
    // Only slots with something in flight take memory, so their width depends on the busy time.
    let busy_ns = around.busy_percent.map_or(1.0, |p| p / 100.0) * around.window.len_ns() as f64;
    around.cells.series(
        around.dev,
        class,
        burst_slot_ns(busy_ns as i64),
        around.window,
    )
}

/// Slot width, in nanoseconds, for the burst search over `busy_ns` of busy time: the finest with at most `MAX_SLOTS` slots.
pub(in crate::analysis) fn burst_slot_ns(busy_ns: i64) -> i64 {
    let mut dt_ns = BURST_SLOT_NS;
    while busy_ns / dt_ns > MAX_SLOTS {
        dt_ns *= 10;
    }
    dt_ns
}

/// Reads and writes, each with its bursts and periods. All arrays are in the order of [`CLASSES`].
fn streams(
    around: &DeviceContext,
    series: &[Series; 2],
    scans: [BurstScan; 2],
    arrivals: [Arrivals; 2],
    requests: &[Requests; 2],
    load: &[LoadPoint],
) -> [StreamDetail; 2] {
    let [read_scan, write_scan] =
        scans.map(|scan| scan.finish(around.window, around.family as u64 / 2));
    let read_bursts = find_bursts(around, &series[0], Class::Read, read_scan);
    let write_bursts = find_bursts(around, &series[1], Class::Write, write_scan);
    let [reads, writes] = requests;
    let [read_arrivals, write_arrivals] = arrivals;
    // Where too many I/Os are lost, submissions are missing, so no period is searched there.
    let gaps = around.losses.heavy(around.dev, |from_ns, to_ns| {
        reads.completed_in(from_ns, to_ns) + writes.completed_in(from_ns, to_ns)
    });
    [
        stream(
            around,
            Class::Read,
            series,
            read_bursts,
            (read_arrivals, &gaps),
            writes,
            load,
        ),
        stream(
            around,
            Class::Write,
            series,
            write_bursts,
            (write_arrivals, &gaps),
            reads,
            load,
        ),
    ]
}

/// `others` are requests of the other class. In `gaps` too many I/Os are lost for submissions to be seen.
fn stream(
    around: &DeviceContext,
    class: Class,
    both: &[Series; 2],
    own: Found,
    (arrivals, gaps): (Arrivals, &[(i64, i64)]),
    others: &Requests,
    load: &[LoadPoint],
) -> StreamDetail {
    let series = &both[class as usize];
    let surroundings = Surroundings::new(series, load, others);
    let window = (around.window.from_ns, around.window.to_ns);
    let (arrivals, resolution_ns) = arrivals.finish();
    let periodicity = periodicity::find(&arrivals, window, resolution_ns, gaps);
    // Each beat is attributed to the process that moved most bytes in the 100 ms after it.
    let mut periodic_causes = Vec::with_capacity(periodicity.clocks.len());
    for clock in &periodicity.clocks {
        let actors = clock.beats_s.iter().filter_map(|beat_s| {
            let at_ns = around.window.from_ns + (beat_s * 1e9) as i64;
            let beat = (at_ns, at_ns + 100_000_000);
            around.cells.main_actor(around.dev, class, &[beat])
        });
        periodic_causes.push(usual_actor(actors));
    }
    StreamDetail {
        class,
        bytes: around.cells.bytes(around.dev, class),
        slot_ns: series.dt_ns,
        limit: own.limit,
        bursts_found: own.bursts.len(),
        bursts: largest(own.bursts, &surroundings),
        envelope: envelope_of(series),
        unevenness: [1, 10, 100]
            .iter()
            .filter_map(|k| unevenness_of(series, *k))
            .collect(),
        periodic_causes,
        periodicity,
    }
}

/// The process with most beats, not the one with most bytes: one large flush among many commits does not cause the
/// period. Its file is named only if it belongs to more than half of its beats.
fn usual_actor(actors: impl Iterator<Item = IoActor>) -> Option<IoActor> {
    let actors: Vec<IoActor> = actors.collect();
    let mut seen: Vec<(IoActor, usize)> = Vec::new();
    for actor in &actors {
        match seen.iter_mut().find(|(a, _)| is_same_process(a, actor)) {
            Some((_, n)) => *n += 1,
            None => seen.push((*actor, 1)),
        }
    }
    let (usual, beats) = seen.into_iter().rev().max_by_key(|(_, n)| *n)?;
    let mut own = actors;
    own.retain(|a| is_same_process(a, &usual));
    // Majority vote (Boyer and Moore): `main` is the only file that can have more than half, which is then counted.
    let mut main = usual;
    let mut lead = 0usize;
    for actor in &own {
        if lead == 0 {
            main = *actor;
            lead = 1;
        } else if actor.file == main.file {
            lead += 1;
        } else {
            lead -= 1;
        }
    }
    let has_most = 2 * own.iter().filter(|a| a.file == main.file).count() > beats;
    Some(if has_most {
        main
    } else {
        IoActor {
            file: None,
            ..usual
        }
    })
}

fn is_same_process(a: &IoActor, b: &IoActor) -> bool {
    (a.tgid, a.comm) == (b.tgid, b.comm)
}

fn envelope_of(series: &Series) -> Vec<(i64, u64)> {
    [1usize, 2, 5, 10, 20, 50, 100, 500, 1000]
        .into_iter()
        .filter(|k| *k <= series.slots())
        .map(|k| (k as i64 * series.dt_ns, most_bytes(series, k)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Inode, Origin};

    #[test]
    fn a_clock_has_the_file_of_most_of_its_beats_or_none() {
        let [first, usual, other] = [1, 2, 3].map(|ino| IoActor {
            tgid: Some(7),
            comm: None,
            origin: Origin::Writeback,
            file: Some(Inode {
                fs_dev: 1,
                ino,
                generation: None,
            }),
        });
        let file = |beats: &[IoActor]| usual_actor(beats.iter().copied()).map(|a| a.file);
        assert_eq!(file(&[first, usual, usual, usual]), Some(usual.file));
        assert_eq!(
            file(&[first, usual, other]),
            Some(None),
            "no file of most beats"
        );
        assert_eq!(file(&[]), None);
    }
}
