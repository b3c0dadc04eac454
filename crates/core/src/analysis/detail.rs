//! One device in depth: everything that needs more than counts and histograms, gathered while the stream runs.

use serde::Serialize;

use super::attribution::{Attribution, AttributionSummary};
pub use super::burst_detail::{BurstDetail, MOST_BURSTS};
use super::burst_detail::{Found, Surroundings, find_bursts, largest};
use super::bursts::Limit;
use super::capacity::{Capacity, Known, capacity};
use super::cells::{self, Actor, CLASSES, Cells, Series};
use super::envelope::{Unevenness, max_sliding, unevenness};
use super::io_ticks::{IoTicks, Regime, UtilCheck, sigma_pp};
use super::latencies::Latencies;
use super::load::{LoadPoint, LoadWindows};
use super::losses::Losses;
use super::order::{Span, Sweep};
use super::peak::peak;
use super::periodicity::{self, Periodicity, Verdict};
use super::requests::{Request, Requests};
use super::slots::{GROUP_NS, SLOT_NS, SlotSummary, SlotSweep};
use super::stages::{Stages, StagesSummary};
use super::starvation::{self, Starvation};
use super::window::Window;
use crate::model::{Class, DevId, Io};

/// Requests of each class of which starvation is judged.
const SAMPLE: usize = 1 << 17;

/// Finest slots for bursts, and the most of them.
const BURST_SLOT_NS: i64 = 10_000_000;
const MOST_SLOTS: i64 = 1_000_000;

/// What is swept of one device in the order of start.
#[derive(Debug)]
pub(super) struct Swept {
    pub slots: SlotSweep,
    ticks: Option<IoTicks>,
    pub load: LoadWindows,
}

impl Swept {
    pub fn new(window: Window, kernel: Option<(Regime, u32)>) -> Swept {
        Swept {
            slots: SlotSweep::new(window, SLOT_NS, GROUP_NS),
            ticks: kernel.map(|(regime, hz)| IoTicks::new(regime, hz)),
            load: LoadWindows::new(window),
        }
    }
}

impl Sweep for Swept {
    fn start(&mut self, span: &Span) {
        self.slots.start(span);
        self.load.start(span);
        if let Some(ticks) = &mut self.ticks {
            ticks.start(span.start_ns);
        }
    }

    fn done(&mut self, at_ns: i64, key: u32, class: Class) {
        self.slots.done(at_ns, key, class);
        self.load.done(at_ns, key, class);
        if let Some(ticks) = &mut self.ticks {
            ticks.done(at_ns);
        }
    }

    fn instant(&mut self, span: &Span) {
        self.slots.instant(span);
    }
}

/// What is gathered of one device as its I/Os complete.
#[derive(Debug)]
pub(super) struct Completed {
    attribution: Attribution,
    requests: [Requests; 2],
}

impl Completed {
    pub fn new(window: Window) -> Completed {
        Completed { attribution: Attribution::new(window), requests: [Requests::new(SAMPLE), Requests::new(SAMPLE)] }
    }

    /// An I/O completes inside the window.
    pub fn push(&mut self, io: &Io) {
        self.attribution.push(io);
        if let Some(requests) = self.requests.get_mut(io.class() as usize) {
            requests.push(Request::from(io));
        }
    }
}

/// All that is gathered of one device.
pub(super) struct Gathered {
    pub swept: Swept,
    pub stages: Stages,
    pub completed: Completed,
    /// Start to done.
    pub s2c: Latencies,
}

/// Reads or writes of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamDetail {
    /// Which.
    pub class: Class,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Slots in which bursts were looked for.
    pub slot_ns: i64,
    /// Against which bursts were judged; `None` without I/O.
    pub limit: Option<Limit>,
    /// The bursts, in order of time; at most [`MOST_BURSTS`], the largest.
    pub bursts: Vec<BurstDetail>,
    /// How many there were.
    pub bursts_found: usize,
    /// Empirical arrival curve: most bytes in any window of so many nanoseconds.
    pub envelope: Vec<(i64, u64)>,
    /// Dispersion of counts at several resolutions.
    pub unevenness: Vec<Unevenness>,
    /// Whether it comes back.
    pub periodicity: Periodicity,
    /// Who is behind what comes back.
    #[serde(skip)]
    pub periodic_cause: Option<Actor>,
    /// How this class fares under bursts of the other one.
    pub starvation: Option<Starvation>,
    /// Who is behind those bursts.
    #[serde(skip)]
    pub starvation_cause: Option<Actor>,
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
    /// Over the mean of the recording.
    pub ratio: f64,
}

/// One device in depth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceDetail {
    /// Which.
    pub dev: DevId,
    /// Concurrency by slots (A3), groups of 20 minutes.
    pub slots: SlotSummary,
    /// The kernel's busy time against the truth (A2); `None` without counters or with losses.
    pub util: Option<UtilCheck>,
    /// Throughput, latency and concurrency over time (A18's ground).
    #[serde(skip)]
    pub load: Vec<LoadPoint>,
    /// Capacity and headroom (A18).
    pub capacity: Capacity,
    /// Stages and seeks (A24).
    pub stages: StagesSummary,
    /// By completion and by arrival (A6).
    #[serde(skip)]
    pub attribution: AttributionSummary,
    /// The busiest hour (A12); `None` in a recording of less than two.
    pub peak_hour: Option<PeakHour>,
    /// Reads and writes (A13 to A15).
    pub streams: [StreamDetail; 2],
}

/// What is known around a device when its detail is made.
pub(super) struct Around<'a> {
    pub dev: DevId,
    pub window: Window,
    pub cells: &'a Cells,
    pub losses: &'a Losses,
    pub limit: Option<Limit>,
    /// (counted busy time, time that samples cover), in nanoseconds.
    pub counted: Option<(i64, i64)>,
    pub busy_percent: Option<f64>,
    pub complete: bool,
    pub kernel: Option<(Regime, u32)>,
}

impl Gathered {
    /// The detail of this device.
    pub fn finish(self, around: &Around) -> DeviceDetail {
        let Gathered { swept, stages, completed, s2c } = self;
        let stages = stages.finish(s2c);
        let expected = swept.ticks.as_ref().map(|t| 100.0 * t.busy_ns() as f64 / around.window.len_ns().max(1) as f64);
        let load = swept.load.finish(around.window);
        let series = CLASSES.map(|class| series_of(around, class));
        let bursts = [0, 1].map(|c| find_bursts(around, &series[c], CLASSES[c]));
        let [reads, writes] = &completed.requests;
        let streams = [
            stream(around, Class::Read, &series, bursts[0].clone(), &bursts[1], [reads, writes], &load),
            stream(around, Class::Write, &series, bursts[1].clone(), &bursts[0], [writes, reads], &load),
        ];
        DeviceDetail {
            dev: around.dev,
            slots: swept.slots.finish(around.window),
            util: util_check(around, &stages, expected),
            capacity: capacity(&load, &known_of(around, &stages, &series)),
            attribution: completed.attribution.finish(around.window),
            peak_hour: peak_hour(around, &load),
            load,
            stages,
            streams,
        }
    }
}

/// What A18 needs to know besides the windows.
fn known_of(around: &Around, stages: &StagesSummary, series: &[Series; 2]) -> Known {
    let seconds = (around.window.len_ns() as f64 / 1e9).max(1e-9);
    let total = |v: &[u64]| v.iter().sum::<u64>() as f64 / seconds;
    Known {
        rates: [0, 1].map(|c| (total(&series[c].ios), total(&series[c].bytes))),
        costs: stages.costs,
        queue_us: stages.s2d.mean_us,
        device_us: stages.d2c.mean_us,
    }
}

/// Windows with losses were not observed.
fn peak_hour(around: &Around, load: &[LoadPoint]) -> Option<PeakHour> {
    const HOUR_NS: i64 = 3600 * 1_000_000_000;
    let len_ns = load.first()?.len_ns;
    if around.window.len_ns() < 2 * HOUR_NS {
        return None;
    }
    let seen =
        |p: &LoadPoint| (!around.losses.overlap(around.dev, p.from_ns, p.from_ns + len_ns)).then_some(p.ios_per_s);
    let found = peak(&load.iter().map(seen).collect::<Vec<_>>(), (HOUR_NS / len_ns) as usize)?;
    let from_ns = load[found.first].from_ns;
    let to_ns = from_ns + found.slots as i64 * len_ns;
    Some(PeakHour { from_ns, to_ns, ios_per_s: found.sum / found.slots as f64, ratio: found.ratio })
}

fn util_check(around: &Around, stages: &StagesSummary, expected: Option<f64>) -> Option<UtilCheck> {
    let (busy_ns, covered_ns) = around.counted?;
    let window_ns = around.window.len_ns();
    // Counters of another stretch of time, or I/Os that are missing, would make any comparison idle.
    if !around.complete || covered_ns < window_ns / 10 * 9 {
        return None;
    }
    let sigma = around
        .kernel
        .zip(stages.s2c.mean_us)
        .map(|((_, hz), mean_us)| sigma_pp(stages.s2c.n, mean_us * 1e3, 1e9 / f64::from(hz.max(1)), window_ns as f64));
    let ticks_percent = 100.0 * busy_ns as f64 / covered_ns as f64;
    Some(UtilCheck::new(around.busy_percent?, ticks_percent, expected, sigma, around.kernel.map(|k| k.0)))
}

fn series_of(around: &Around, class: Class) -> Series {
    around.cells.series(around.dev, class, burst_slot_ns(around.window), around.window)
}

/// Slots in which bursts of `window` are looked for.
pub(super) fn burst_slot_ns(window: Window) -> i64 {
    let mut dt_ns = BURST_SLOT_NS;
    while window.len_ns() / dt_ns > MOST_SLOTS {
        dt_ns *= 10;
    }
    dt_ns
}

/// `requests` are those of this class and of the other one.
fn stream(
    around: &Around,
    class: Class,
    both: &[Series; 2],
    own: Found,
    other: &Found,
    requests: [&Requests; 2],
    load: &[LoadPoint],
) -> StreamDetail {
    let (series, others) = (&both[class as usize], &both[1 - class as usize]);
    let starvation = starvation_of(around, requests[0], &other.bursts, others);
    let surroundings = Surroundings::new(series, load, requests[1]);
    let other_class = cells::other(class);
    let cause = |class, intervals: &[(i64, i64)]| around.cells.main_actor(around.dev, class, intervals);
    let intervals: Vec<(i64, i64)> = other.bursts.iter().map(|b| (b.burst.from_ns, b.burst.to_ns)).collect();
    let periodicity = periodicity_of(around, series, class, &own.bursts);
    let onsets: Vec<(i64, i64)> = periodicity
        .onsets_s
        .iter()
        .map(|s| around.window.from_ns + (s * 1e9) as i64)
        .map(|at| (at, at + ((periodicity.slot_s * 1e9) as i64).max(100_000_000)))
        .collect();
    StreamDetail {
        class,
        bytes: series.bytes.iter().sum(),
        slot_ns: series.dt_ns,
        limit: own.limit,
        bursts_found: own.bursts.len(),
        bursts: largest(own.bursts, &surroundings),
        envelope: envelope_of(series),
        unevenness: [1, 10, 100]
            .iter()
            .filter_map(|k| unevenness(&series.coarser(*k).ios, series.dt_ns * *k as i64))
            .collect(),
        periodic_cause: usual_actor(onsets.iter().filter_map(|onset| cause(class, &[*onset]))),
        periodicity,
        starvation_cause: cause(other_class, &intervals),
        starvation,
    }
}

/// Whoever comes back most often, not whoever moved most: one large flush among many commits is not the clock.
fn usual_actor(actors: impl Iterator<Item = Actor>) -> Option<Actor> {
    let mut seen: Vec<(Actor, u32)> = Vec::new();
    for actor in actors {
        match seen.iter_mut().find(|(a, _)| (a.tgid, a.comm) == (actor.tgid, actor.comm)) {
            Some((_, n)) => *n += 1,
            None => seen.push((actor, 1)),
        }
    }
    seen.into_iter().rev().max_by_key(|(_, n)| *n).map(|(actor, _)| actor)
}

fn envelope_of(series: &Series) -> Vec<(i64, u64)> {
    [1usize, 2, 5, 10, 20, 50, 100, 500, 1000]
        .into_iter()
        .filter(|k| *k <= series.bytes.len())
        .map(|k| (k as i64 * series.dt_ns, max_sliding(&series.bytes, k).0))
        .collect()
}

/// Slots for fast rhythms, and how much of the recording's beginning is looked at in them.
const FINE_NS: i64 = 1_000_000;
const FINE_WINDOW_NS: i64 = 20_000_000_000;

/// First among the bursts alone, which background I/O would drown, then in all that the stream did.
fn periodicity_of(around: &Around, series: &Series, class: Class, own: &[BurstDetail]) -> Periodicity {
    let to_ns = around.window.to_ns.min(around.window.from_ns.saturating_add(FINE_WINDOW_NS));
    let fine = around.cells.series(around.dev, class, FINE_NS, Window::new(around.window.from_ns, to_ns));
    let find = |coarse: &[u64], fine_bytes: &[u64]| {
        periodicity::find_with_fine(coarse, series.dt_ns as f64 / 1e9, fine_bytes, fine.dt_ns as f64 / 1e9)
    };
    let only_bursts = |all: &Series| {
        let mut bytes = vec![0u64; all.bytes.len()];
        let slot = |ns: i64| (((ns - all.from_ns) / all.dt_ns).max(0) as usize).min(all.bytes.len());
        for b in own {
            let (from, to) = (slot(b.burst.from_ns), slot(b.burst.to_ns));
            bytes[from..to].copy_from_slice(&all.bytes[from..to]);
        }
        bytes
    };
    let of_bursts = find(&only_bursts(series), &only_bursts(&fine));
    if of_bursts.verdict == Verdict::Periodic {
        return of_bursts;
    }
    let of_all = find(&series.bytes, &fine.bytes);
    let better = of_all.verdict == Verdict::Periodic || of_bursts.verdict == Verdict::InsufficientData;
    if better || (of_all.verdict == Verdict::Tentative && of_bursts.verdict != Verdict::Tentative) {
        of_all
    } else {
        of_bursts
    }
}

/// Requests and bursts that a loss touches are left out: nobody knows what happened there.
fn starvation_of(
    around: &Around,
    requests: &Requests,
    bursts: &[BurstDetail],
    bursting: &Series,
) -> Option<Starvation> {
    let gaps = around.losses.of(around.dev);
    let touched = |from: i64, to: i64| {
        let after = gaps.partition_point(|g| g.1 < from);
        gaps.get(after).is_some_and(|g| g.0 < to)
    };
    let clean: Vec<Request> = requests.kept().iter().filter(|r| !touched(r.start_ns, r.done_ns)).copied().collect();
    let intervals: Vec<(i64, i64)> =
        bursts.iter().filter(|b| !b.lossy).map(|b| (b.burst.from_ns, b.burst.to_ns)).collect();
    // A stream that is one long burst treats everything: there is nothing to compare with.
    let busy: i64 = intervals.iter().map(|(a, b)| b - a).sum();
    if clean.is_empty() || intervals.is_empty() || busy > around.window.len_ns() / 2 {
        return None;
    }
    let mut result =
        starvation::test(&clean, &intervals, starvation::lag_of(&clean), (around.window.from_ns, around.window.to_ns));
    let within_ns = result.p99_during_us.map_or(result.lag_ns, |us| result.lag_ns.max((us * 1e3) as i64));
    (result.follows_ns, result.direction) = starvation::direction(&clean, &intervals, bursting, within_ns);
    result.excess_request_ms = result.excess_request_ms.map(|ms| ms * requests.one_in() as f64);
    Some(result)
}
