//! A device's capacity, the knee of its throughput curve, and its headroom (A18).
//!
//! Throughput X grows with the number in flight L up to a plateau, `X_max`. With the unloaded latency `R_min`,
//! `N* = X_max R_min` (Little; Denning and Buzen's knee) is the number that the device serves at once. A device that
//! is busy 100 % of the time still has headroom if L < N*. Intervals are 95 % confidence intervals from resampling
//! stretches of the recording (block bootstrap), which preserves the dependence of neighbouring windows.

pub mod bandwidth;
pub mod load;
pub mod mix;
pub mod models;
pub mod queue_full;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::capacity::load::{Load, LoadPoint};
use crate::analysis::capacity::mix::Cost;
use crate::analysis::capacity::models::{Bin, Fit, fits};
use crate::analysis::math::stats::{Shuffler, nearest_rank};

/// How heavily a device is loaded, relative to its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "CapacityState")
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Busy less than a twentieth of the time.
    Idle,
    /// Busy, but able to serve more at once.
    ParallelHeadroom,
    /// Close to the knee: more load means more waiting.
    NearKnee,
    /// Beyond the knee: more load means only more waiting.
    Saturated,
    /// I/Os wait in the kernel's queues for longer than the device takes, while the device has headroom: something
    /// above it holds them back.
    ThrottledElsewhere,
    /// Its capacity was not observed: the load was too light, or equally heavy all of the time ([`Capacity::full_percent`]).
    CapacityNotObserved,
    /// `L` and `X R` disagree by more than 5 %: I/Os are lost, or most were in flight at the edges.
    Inconsistent,
}

/// Means of a device besides its windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceMeans {
    /// I/Os and bytes per second of reads and of writes, over the whole recording.
    pub rates: [(f64, f64); 2],
    /// Costs of reads and of writes.
    pub costs: [Option<Cost>; 2],
    /// Mean time in the kernel's queues in microseconds.
    pub queue_us: Option<f64>,
    /// Mean device time in microseconds.
    pub device_us: Option<f64>,
}

/// Estimates of one device's capacity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Windows with I/O: n of everything.
    pub windows: usize,
    /// Length of a window, in nanoseconds.
    pub window_ns: i64,
    /// Throughput at the plateau, in I/Os per second; `None` if there was none.
    pub max_ios_per_s: Option<f64>,
    /// 95 % confidence interval of the maximum throughput.
    pub max_ios_per_s_ci: Option<(f64, f64)>,
    /// Unloaded latency: mean at L < 0.2, or over the tenth of the time with fewest in flight if it was never that idle.
    pub min_us: Option<f64>,
    /// Its 95 % confidence interval.
    pub min_us_ci: Option<(f64, f64)>,
    /// Mean number in flight in the stretches of that latency.
    pub min_us_in_flight: f64,
    /// `N* = X_max R_min`: effective parallelism.
    pub knee_in_flight: Option<f64>,
    /// 95 % confidence interval of the knee.
    pub knee_in_flight_ci: Option<(f64, f64)>,
    /// Mean L over the windows.
    pub mean_in_flight: f64,
    /// Percent of windows with I/O that are beyond the knee.
    pub saturated_percent: Option<f64>,
    /// Percent of windows with I/O in which the device was never idle.
    pub full_percent: f64,
    /// Headroom: `1 - X / X_max` at the mean load.
    pub headroom: Option<f64>,
    /// Without a plateau: the busiest stretch, as a lower bound of what the device can take.
    pub served_more: Option<ServedMore>,
    /// Without a plateau: lower bound of the spare capacity.
    pub room: Option<Room>,
    /// Costs of reads and of writes, from those that were alone on the device.
    pub costs: [Option<Cost>; 2],
    /// Load of the mix: `Σ X_i (a_i + b_i bytes_i) / N*`; `None` without a knee or costs.
    pub mix_load: Option<f64>,
    /// `|L - X R| / L` over all windows.
    pub little_residual: Option<f64>,
    /// Models of throughput against number in flight, best first; empty if the data are inconsistent.
    pub models: Vec<Fit>,
    /// (L, I/Os per second) at which the best model has most throughput per latency.
    pub best_power: Option<(f64, f64)>,
    /// I/Os per second that could be added before the mean latency doubles from unloaded, by the best model but at
    /// most up to a fifth beyond what was observed.
    pub ios_left_at_twice_min: Option<f64>,
    /// State by the means over the recording.
    pub state: State,
}

/// Ten windows in which a device served more than it does on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServedMore {
    /// Beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// Ratio to the mean of the windows with I/O, in I/Os or in bytes, whichever is smaller.
    pub times: f64,
    /// I/Os per second in it.
    pub ios_per_s: f64,
    /// Mean latency in it, in microseconds.
    pub mean_us: f64,
}

/// Lower bound of the spare capacity: the device was seen to serve more at once without taking much longer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Room {
    /// I/Os per second on top of the mean load.
    pub ios_per_s: f64,
    /// Its 95 % confidence interval; `None` if the recording is too short for one.
    pub interval: Option<(f64, f64)>,
    /// Number in flight at which this was observed.
    pub in_flight: f64,
    /// Mean latency there, in microseconds.
    pub mean_us: f64,
}

/// Estimates the capacity of one device from its windows.
pub fn capacity(load: &Load, known: &DeviceMeans) -> Capacity {
    let busy: Vec<&LoadPoint> = load.points.iter().filter(|p| p.in_flight > 0.0).collect();
    let little_residual = little(&busy);
    let is_consistent = little_residual.is_none_or(|r| r <= LITTLE);

    // Every block counts once: this is the estimate of the whole recording. A plateau is the device's only if the
    // numbers are consistent with each other and the device was never idle there.
    let sample = BootstrapBlocks::of(load);
    let mut whole = sample.estimate(&vec![1.0; sample.blocks], None);
    if !is_consistent || !whole.reached_capacity() {
        whole.plateau = None;
        whole.plateau_from = None;
    }
    let knee = whole.knee();

    // Without a plateau the recording may still show that the device can serve more than it mostly did.
    let is_unlimited = is_consistent && whole.plateau.is_none();
    let room = whole.room().filter(|_| is_unlimited);
    let draws = sample.bootstrap(&whole, room.is_some());

    // Models are fitted if the numbers are consistent, whether or not the load came near the device's capacity.
    let models = if is_consistent {
        fits(&whole.bins)
    } else {
        Vec::new()
    };

    let mean_ios_per_s = mean_of(&busy, |p| p.ios_per_s);
    let mut result = Capacity {
        windows: busy.len(),
        window_ns: load.len_ns,
        max_ios_per_s: whole.plateau,
        max_ios_per_s_ci: interval_of(&whole, &draws, |e| e.plateau),
        min_us: whole.min_us,
        min_us_ci: interval_of(&whole, &draws, |e| e.min_us),
        min_us_in_flight: whole.min_in_flight,
        knee_in_flight: knee,
        knee_in_flight_ci: interval_of(&whole, &draws, Estimate::knee),
        mean_in_flight: mean_of(&busy, |p| p.in_flight),
        saturated_percent: knee.map(|knee| percent_of(&busy, |p| is_beyond(p, knee))),
        full_percent: percent_of(&busy, |p| p.busy_percent >= FULL_PERCENT),
        headroom: whole
            .plateau
            .map(|most| (1.0 - mean_ios_per_s / most).max(0.0)),
        served_more: is_unlimited.then(|| served_more(load)).flatten(),
        room: room.map(|r| Room {
            interval: interval(&draws, |e| Some(e.room()?.ios_per_s)),
            ..r
        }),
        costs: known.costs,
        mix_load: knee.and_then(|knee| mix::load(&known.rates, &known.costs, knee.max(1.0))),
        little_residual,
        best_power: best_power(&models, &whole),
        ios_left_at_twice_min: ios_left_at_twice_min(&models, &whole, &busy),
        models,
        state: State::CapacityNotObserved,
    };
    // The state depends on all of the above.
    result.state = state(load, &result, known);
    result
}

/// The mean of a value over windows; 0 without any.
fn mean_of(points: &[&LoadPoint], value: fn(&LoadPoint) -> f64) -> f64 {
    let sum: f64 = points.iter().map(|p| value(p)).sum();
    sum / points.len().max(1) as f64
}

/// The percentage of windows for which `is_true`; 0 without any.
fn percent_of(points: &[&LoadPoint], is_true: impl Fn(&LoadPoint) -> bool) -> f64 {
    let n = points.iter().filter(|p| is_true(p)).count();
    100.0 * n as f64 / points.len().max(1) as f64
}

/// Where the best model has most throughput per latency. Given only for a device whose plateau was observed.
fn best_power(models: &[Fit], whole: &Estimate) -> Option<(f64, f64)> {
    whole.plateau?;
    Some(models.first()?.model.best_power())
}

/// I/Os per second by which the load could grow until the best model has twice the unloaded latency.
fn ios_left_at_twice_min(models: &[Fit], whole: &Estimate, busy: &[&LoadPoint]) -> Option<f64> {
    let best = models.first()?.model;
    let at_twice = best.ios_at_latency(2.0 * whole.min_us?)?;
    let most_seen = busy.iter().map(|p| p.ios_per_s).fold(0.0, f64::max);
    let believed = at_twice.min(FARTHEST * most_seen);
    Some((believed - mean_of(busy, |p| p.ios_per_s)).max(0.0))
}

/// Minimum ratio to the mean load that is reported.
const MIN_TIMES: f64 = 1.2;

/// The ten windows in a row that served the largest multiple of the mean load, counted in I/Os and in bytes: many
/// small requests, or a few large ones, would not be more of the same load.
fn served_more(load: &Load) -> Option<ServedMore> {
    let busy: Vec<&LoadPoint> = load.points.iter().filter(|p| p.in_flight > 0.0).collect();
    let mean_ios = mean_of(&busy, |p| p.ios_per_s);
    let mean_bytes = mean_of(&busy, |p| p.bytes_per_s);
    let mut most: Option<ServedMore> = None;
    for ten in load
        .points
        .chunk_by(|a, b| load.index(a) / 10 == load.index(b) / 10)
    {
        let first = load.index(&ten[0]) / 10 * 10;
        // The last group may have fewer than ten windows.
        if first + 10 > load.windows {
            continue;
        }
        let ios = ten.iter().map(|p| p.ios_per_s).sum::<f64>() / 10.0;
        let bytes = ten.iter().map(|p| p.bytes_per_s).sum::<f64>() / 10.0;
        let waited = ten.iter().filter_map(|p| Some(p.ios_per_s * p.mean_us?));
        let times = multiple(ios, mean_ios).min(multiple(bytes, mean_bytes));
        if times.is_finite() && most.is_none_or(|m| times > m.times) {
            let from_ns = load.from_ns + first as i64 * load.len_ns;
            most = Some(ServedMore {
                from_ns,
                to_ns: from_ns + 10 * load.len_ns,
                times,
                ios_per_s: ios,
                mean_us: waited.sum::<f64>() / (10.0 * ios),
            });
        }
    }
    most.filter(|m| m.times >= MIN_TIMES)
}

/// `rate` as a multiple of `mean`; infinite if the mean is 0.
fn multiple(rate: f64, mean: f64) -> f64 {
    if mean > 0.0 {
        rate / mean
    } else {
        f64::INFINITY
    }
}

/// Whether `point` has at least twice the knee in flight (`L >= 2 N*`) and the device is never idle. Ordinary
/// queueing has as many in flight at the peaks of a load that the device keeps up with, but idles in between.
pub(super) fn is_beyond(point: &LoadPoint, knee: f64) -> bool {
    point.in_flight >= 2.0 * knee.max(1.0) && point.busy_percent >= FULL_PERCENT
}

/// Models are not extrapolated beyond this multiple of the highest observed throughput.
const FARTHEST: f64 = 1.2;

/// Maximum relative difference of `L` and `X R`; beyond it nothing is fitted.
const LITTLE: f64 = 0.05;

fn state(load: &Load, c: &Capacity, known: &DeviceMeans) -> State {
    let all = load.windows.max(1) as f64;
    let busy_percent = load.points.iter().map(|p| p.busy_percent).sum::<f64>() / all;
    match c.knee_in_flight {
        _ if busy_percent < 5.0 => State::Idle,
        _ if c.little_residual.is_some_and(|r| r > LITTLE) => State::Inconsistent,
        None => State::CapacityNotObserved,
        Some(knee) if is_held_back(c, known, knee) => State::ThrottledElsewhere,
        Some(knee) if c.mean_in_flight >= 2.0 * knee.max(1.0) => State::Saturated,
        Some(knee) if c.mean_in_flight >= 0.7 * knee => State::NearKnee,
        Some(_) => State::ParallelHeadroom,
    }
}

/// Whether I/Os mostly wait, although the device has less than a quarter of what it can serve at once in flight.
fn is_held_back(c: &Capacity, known: &DeviceMeans, knee: f64) -> bool {
    known
        .queue_us
        .zip(known.device_us)
        .is_some_and(|(queue, device)| {
            let at_device = c.mean_in_flight * device / (queue + device).max(f64::MIN_POSITIVE);
            queue > device && at_device < 0.25 * knee
        })
}

/// Relative residual of Little's law over all windows; I/Os in flight at their ends contribute to it.
fn little(points: &[&LoadPoint]) -> Option<f64> {
    let l: f64 = points.iter().map(|p| p.in_flight).sum();
    let xr: f64 = points
        .iter()
        .filter_map(|p| Some(p.ios_per_s * p.mean_us? / 1e6))
        .sum();
    (l > 0.0).then(|| (l - xr).abs() / l)
}

/// The estimates of one (re)sample.
struct Estimate {
    /// Mean throughput of the windows on the plateau in which the device was never idle.
    plateau: Option<f64>,
    /// First bin on it.
    plateau_from: Option<i64>,
    /// Mean busy percent of the windows on it.
    plateau_busy: f64,
    min_us: Option<f64>,
    /// Mean number in flight where `min_us` was measured.
    min_in_flight: f64,
    bins: Vec<Bin>,
}

/// Minimum plausible knee: a device that serves one I/O at a time has 1, less noise.
const MIN_KNEE: f64 = 0.8;
/// Minimum busy percentage on a plateau, where the device has no time to idle. M/M/1, which idles most, has this at
/// the shortest plateau that is reported.
const BUSY_PERCENT: f64 = 85.0;
/// Busy percentage of a device that is never idle, allowing for rounding and the moments between two I/Os.
const FULL_PERCENT: f64 = 99.0;
/// Minimum number of such windows.
const MIN_FULL: f64 = 5.0;
/// Minimum number of windows with I/O from which spare capacity is estimated.
const MIN_ROOM_WINDOWS: f64 = 10.0;

/// I/Os that take up to this many times the unloaded latency hardly wait for each other.
const SLOWER: f64 = 1.5;
/// A device is unloaded if at most this share of the knee is in flight.
const LIGHT: f64 = 0.5;

impl Estimate {
    /// Whether the plateau can be the device's own. A load that arrives at a limited rate has a plateau, too, at
    /// which latency varies. Then the device idles there, or was never observed far below the "knee", or the knee is
    /// less than one I/O at a time.
    fn reached_capacity(&self) -> bool {
        self.knee().is_some_and(|knee| {
            knee >= MIN_KNEE
                && self.plateau_busy >= BUSY_PERCENT
                && self.min_in_flight <= LIGHT * knee
        })
    }

    /// Spare capacity, from the bin of highest throughput in which an I/O took at most [`SLOWER`] times the unloaded latency
    /// (by Little's law): the device serves that many side by side. The throughput there beyond the mean is spare.
    fn room(&self) -> Option<Room> {
        let min_us = self.min_us?;
        let windows: f64 = self.bins.iter().map(|b| b.weight).sum();
        if windows < MIN_ROOM_WINDOWS {
            return None;
        }
        let ios: f64 = self.bins.iter().map(|b| b.weight * b.ios_per_s).sum();
        let served = self
            .bins
            .iter()
            .filter(|b| b.ios_per_s > 0.0 && b.latency_us() <= SLOWER * min_us);
        let most = served.max_by(|a, b| a.ios_per_s.total_cmp(&b.ios_per_s))?;
        let left = most.ios_per_s - ios / windows;
        (left > 0.0).then(|| Room {
            ios_per_s: left,
            interval: None,
            in_flight: most.in_flight,
            mean_us: most.latency_us(),
        })
    }

    fn knee(&self) -> Option<f64> {
        Some(self.plateau? * self.min_us? / 1e6)
    }
}

/// Sums of the windows of one block whose L is in one bin.
#[derive(Clone, Copy, Default)]
struct BinSums {
    in_flight: f64,
    ios_per_s: f64,
    busy: f64,
    windows: f64,
    /// Throughput and number of windows in which the device was never idle.
    full_ios_per_s: f64,
    full_windows: f64,
}

impl BinSums {
    /// Adds `other`, counted `times` times.
    fn add(&mut self, times: f64, other: &BinSums) {
        self.in_flight += times * other.in_flight;
        self.ios_per_s += times * other.ios_per_s;
        self.busy += times * other.busy;
        self.windows += times * other.windows;
        self.full_ios_per_s += times * other.full_ios_per_s;
        self.full_windows += times * other.full_windows;
    }
}

/// Ten windows: their block, mean L, and sums of X and of X R.
struct WindowBlock {
    block: usize,
    in_flight: f64,
    ios: f64,
    us: f64,
}

/// The windows in blocks of at least ten, from which the bootstrap draws.
struct BootstrapBlocks {
    blocks: usize,
    bins: Vec<BTreeMap<i64, BinSums>>,
    /// Sorted by L.
    stretches: Vec<WindowBlock>,
}

impl BootstrapBlocks {
    /// Maximum number of blocks.
    const BLOCKS: usize = 200;
    /// Number of resamples.
    const DRAWS: usize = 200;
    /// Minimum number of blocks; fewer do not show their spread.
    const MIN_BLOCKS: usize = 8;

    fn of(load: &Load) -> BootstrapBlocks {
        let len = load
            .windows
            .div_ceil(Self::BLOCKS)
            .next_multiple_of(10)
            .max(10);
        let blocks = load.windows.div_ceil(len);
        let mut sample = BootstrapBlocks {
            blocks,
            bins: vec![BTreeMap::new(); blocks],
            stretches: Vec::new(),
        };
        for windows in load
            .points
            .chunk_by(|a, b| load.index(a) / len == load.index(b) / len)
        {
            sample.bins[load.index(&windows[0]) / len] = binned(windows);
        }
        for ten in load
            .points
            .chunk_by(|a, b| load.index(a) / 10 == load.index(b) / 10)
        {
            let first = load.index(&ten[0]) / 10 * 10;
            sample
                .stretches
                .extend(stretch(first / len, ten, (load.windows - first).min(10)));
        }
        sample
            .stretches
            .sort_by(|a, b| a.in_flight.total_cmp(&b.in_flight));
        sample
    }

    /// The estimate with every block counted `times[block]` times. `plateau_from` is the start of the plateau in
    /// another estimate: resamples do not decide again whether there is one.
    fn estimate(&self, times: &[f64], plateau_from: Option<i64>) -> Estimate {
        let mut sums: BTreeMap<i64, BinSums> = BTreeMap::new();
        for (block, weight) in self.bins.iter().zip(times).filter(|(_, t)| **t > 0.0) {
            for (bin, s) in block {
                sums.entry(*bin).or_default().add(*weight, s);
            }
        }

        // Bins of fewer than three windows are too noisy.
        let solid: Vec<(i64, BinSums)> =
            sums.into_iter().filter(|(_, s)| s.windows >= 3.0).collect();
        let bins: Vec<Bin> = solid
            .iter()
            .map(|(_, s)| Bin {
                in_flight: s.in_flight / s.windows,
                ios_per_s: s.ios_per_s / s.windows,
                weight: s.windows,
            })
            .collect();
        let from = plateau_from.or_else(|| Some(solid[plateau_of(&isotonic(&bins))?].0));
        let mut on_plateau = BinSums::default();
        for (bin, s) in &solid {
            if from.is_some_and(|from| *bin >= from) {
                on_plateau.add(1.0, s);
            }
        }
        // Capacity shows only while the device has no time to idle: a random load below it has idle time on any plateau.
        let full = on_plateau.full_windows;
        let plateau = (full >= MIN_FULL).then(|| on_plateau.full_ios_per_s / full);
        let (min_us, min_in_flight) = self.unloaded(times);
        Estimate {
            plateau,
            plateau_from: from,
            plateau_busy: on_plateau.busy / on_plateau.windows.max(1.0),
            min_us,
            min_in_flight,
            bins,
        }
    }

    /// Mean latency in microseconds, and mean number in flight, of the I/Os in stretches with L < 0.2. If there are
    /// fewer than three of these, of the tenth of stretches with fewest in flight. (Selecting short windows by L
    /// would select short I/Os, since L = X R.)
    fn unloaded(&self, times: &[f64]) -> (Option<f64>, f64) {
        let all: f64 = self.stretches.iter().map(|s| times[s.block]).sum();
        let light: f64 = self
            .stretches
            .iter()
            .take_while(|s| s.in_flight < 0.2)
            .map(|s| times[s.block])
            .sum();
        let mut left = if light >= 3.0 {
            light
        } else {
            (all / 10.0).floor().max(3.0).min(all)
        };
        let mut ios = 0.0;
        let mut us = 0.0;
        let mut in_flight = 0.0;
        let mut windows = 0.0;
        for s in &self.stretches {
            let weight = times[s.block].min(left);
            left -= weight;
            ios += weight * s.ios;
            us += weight * s.us;
            in_flight += weight * s.in_flight;
            windows += weight;
        }
        (
            (ios > 0.0).then(|| us / ios),
            in_flight / f64::max(windows, 1.0),
        )
    }

    fn bootstrap(&self, whole: &Estimate, has_room: bool) -> Vec<Estimate> {
        if self.blocks < Self::MIN_BLOCKS {
            return Vec::new();
        }
        let mut random = Shuffler::new(0x5eed_0a18);
        let mut draws = Vec::with_capacity(Self::DRAWS);
        for _ in 0..Self::DRAWS {
            let mut times = vec![0.0; self.blocks];
            for _ in 0..self.blocks {
                times[random.below(self.blocks as u64) as usize] += 1.0;
            }
            if whole.plateau.is_some() || has_room {
                draws.push(self.estimate(&times, whole.plateau_from));
                continue;
            }
            // Without either, only the unloaded latency is needed.
            let (min_us, min_in_flight) = self.unloaded(&times);
            draws.push(Estimate {
                plateau: None,
                plateau_from: None,
                plateau_busy: 0.0,
                min_us,
                min_in_flight,
                bins: Vec::new(),
            });
        }
        draws
    }
}

/// The middle 95 % of the values of `draws`; `None` unless at least nine in ten have one.
fn interval(draws: &[Estimate], of: impl Fn(&Estimate) -> Option<f64>) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = draws.iter().filter_map(of).collect();
    if values.is_empty() || values.len() * 10 < draws.len() * 9 {
        return None;
    }
    Some((
        nearest_rank(&mut values, 0.025)?,
        nearest_rank(&mut values, 0.975)?,
    ))
}

/// The confidence interval of a value; `None` if the whole recording does not have it.
fn interval_of(
    whole: &Estimate,
    draws: &[Estimate],
    of: impl Fn(&Estimate) -> Option<f64>,
) -> Option<(f64, f64)> {
    of(whole)?;
    interval(draws, of)
}

/// Windows binned by L, four bins per octave.
fn binned(windows: &[LoadPoint]) -> BTreeMap<i64, BinSums> {
    let mut bins: BTreeMap<i64, BinSums> = BTreeMap::new();
    for p in windows.iter().filter(|p| p.in_flight >= 0.01) {
        let b = bins
            .entry((4.0 * p.in_flight.log2()).floor() as i64)
            .or_default();
        b.in_flight += p.in_flight;
        b.ios_per_s += p.ios_per_s;
        b.busy += p.busy_percent;
        b.windows += 1.0;
        if p.busy_percent >= FULL_PERCENT {
            b.full_ios_per_s += p.ios_per_s;
            b.full_windows += 1.0;
        }
    }
    bins
}

/// Sums of `windows` consecutive windows; `ten` are those with activity.
fn stretch(block: usize, ten: &[LoadPoint], windows: usize) -> Option<WindowBlock> {
    let mut in_flight = 0.0;
    let mut ios = 0.0;
    let mut us = 0.0;
    for p in ten {
        in_flight += p.in_flight;
        ios += p.ios_per_s;
        us += p.ios_per_s * p.mean_us.unwrap_or(0.0);
    }
    (ios > 0.0).then(|| WindowBlock {
        block,
        in_flight: in_flight / windows as f64,
        ios,
        us,
    })
}

/// Isotonic regression by pool adjacent violators: the closest curve that never falls.
fn isotonic(bins: &[Bin]) -> Vec<Bin> {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for b in bins {
        pools.push((b.ios_per_s, b.weight, 1));
        while let [.., a, z] = pools[..] {
            if a.0 <= z.0 {
                break;
            }
            pools.truncate(pools.len() - 2);
            pools.push(((a.0 * a.1 + z.0 * z.1) / (a.1 + z.1), a.1 + z.1, a.2 + z.2));
        }
    }
    let levels = pools
        .into_iter()
        .flat_map(|(x, _, n)| std::iter::repeat_n(x, n));
    bins.iter()
        .zip(levels)
        .map(|(b, x)| Bin { ios_per_s: x, ..*b })
        .collect()
}

/// Index of the first bin on the plateau; throughput of `bins` never falls. Twice as many are in flight there as
/// where throughput comes within a tenth of its final value, so that doubling them gained next to nothing. `None` if
/// L did not go that far.
fn plateau_of(bins: &[Bin]) -> Option<usize> {
    let last = bins.last()?;
    let knee = bins.iter().find(|b| b.ios_per_s >= 0.9 * last.ios_per_s)?;
    bins.iter()
        .position(|b| b.in_flight >= 2.0 * knee.in_flight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(l: f64, x: f64) -> LoadPoint {
        LoadPoint {
            from_ns: 0,
            len_ns: 1,
            ios_per_s: x,
            bytes_per_s: 0.0,
            mean_us: Some(1e6 * l / x),
            in_flight: l,
            busy_percent: (100.0 * l).min(100.0),
        }
    }

    fn capacity(points: &[LoadPoint], known: &DeviceMeans) -> Capacity {
        let points: Vec<LoadPoint> = points
            .iter()
            .zip(0..)
            .map(|(p, i)| LoadPoint { from_ns: i, ..*p })
            .collect();
        super::capacity(
            &Load {
                from_ns: 0,
                len_ns: 1,
                windows: points.len(),
                points,
            },
            known,
        )
    }

    /// A device that serves `c` at once for 1 ms each, in a closed loop of n.
    fn closed(c: f64, ns: &[f64]) -> Vec<LoadPoint> {
        ns.iter()
            .flat_map(|n| (0..10).map(|_| point(*n, n.min(c) * 1000.0)))
            .collect()
    }

    #[test]
    fn a_ladder_shows_the_knee_and_the_state() {
        let ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        let c = capacity(&ladder, &DeviceMeans::default());
        assert_eq!(
            (c.max_ios_per_s.map(f64::round), c.min_us.map(f64::round)),
            (Some(8000.0), Some(1000.0))
        );
        assert!((c.knee_in_flight.expect("seen") - 8.0).abs() < 0.1);
        assert_eq!(
            c.state,
            State::NearKnee,
            "mean L is just below the knee: {c:?}"
        );
        assert!((c.saturated_percent.expect("seen") - 25.0).abs() < 1.0);
    }

    #[test]
    fn the_lightest_load_says_how_light_it_was() {
        let of = |ns: &[f64]| capacity(&closed(8.0, ns), &DeviceMeans::default()).min_us_in_flight;
        assert!(of(&[0.1, 0.1, 0.1, 0.1, 8.0]) < 0.2);
        assert!(of(&[64.0, 64.0, 64.0]) > 63.0);
    }

    #[test]
    fn a_narrow_range_of_load_shows_no_capacity() {
        let c = capacity(&closed(1.0, &[0.99, 1.0]), &DeviceMeans::default());
        assert_eq!(
            (c.max_ios_per_s, c.state),
            (None, State::CapacityNotObserved)
        );
        assert_eq!(capacity(&[], &DeviceMeans::default()).state, State::Idle);
    }

    #[test]
    fn intervals_hold_the_truth_and_the_best_model_is_named() {
        let mut random = Shuffler::new(11);
        let law = crate::analysis::capacity::models::Model::Mmc {
            servers: 4,
            service_us: 1000.0,
        };
        let rough = |l: f64, random: &mut Shuffler| {
            point(
                l,
                law.ios_per_s(l) * (0.9 + random.below(2001) as f64 * 1e-4),
            )
        };
        let mut ladder = Vec::new();
        for i in 0..400 {
            let l = 0.05 * 1.22f64.powi((i * 7) % 40);
            ladder.extend((0..10).map(|_| rough(l, &mut random)));
        }
        let c = capacity(&ladder, &DeviceMeans::default());
        let (low, high) = c.max_ios_per_s_ci.expect("enough blocks");
        assert!(
            low <= 4000.0 && 3900.0 <= high && high - low < 200.0,
            "{c:?}"
        );
        let (low, high) = c.knee_in_flight_ci.expect("enough blocks");
        assert!(
            low <= c.knee_in_flight.expect("seen") && c.knee_in_flight <= Some(high),
            "{c:?}"
        );
        let best = c.models.first().expect("fitted");
        assert!(
            matches!(
                best.model,
                crate::analysis::capacity::models::Model::Mmc { servers: 4, .. }
            ),
            "{best:?}"
        );
        assert!(c.best_power.is_some() && c.ios_left_at_twice_min.is_some());
    }

    #[test]
    fn what_waits_above_an_idle_device_is_held_back_elsewhere() {
        let ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        let held = DeviceMeans {
            queue_us: Some(9000.0),
            device_us: Some(1000.0),
            ..DeviceMeans::default()
        };
        assert_eq!(capacity(&ladder, &held).state, State::ThrottledElsewhere);
        let busy = DeviceMeans {
            queue_us: Some(500.0),
            device_us: Some(1000.0),
            ..DeviceMeans::default()
        };
        assert_eq!(capacity(&ladder, &busy).state, State::NearKnee);
    }

    #[test]
    fn without_a_plateau_the_busiest_stretch_is_a_lower_bound() {
        // One in flight at a time most of the time, and five once for a second, all of 1 ms: no limit is seen.
        let mut windows = Vec::new();
        for i in 0..40 {
            let in_flight = if i == 30 { 5.0 } else { 0.9 };
            windows.extend((0..10).map(|_| point(in_flight, in_flight * 1000.0)));
        }
        let c = capacity(&windows, &DeviceMeans::default());
        assert_eq!(c.max_ios_per_s, None);
        let served = c.served_more.expect("a busier stretch");
        assert_eq!((served.from_ns, served.to_ns), (300, 310));
        assert!((served.times - 5000.0 / 1002.5).abs() < 1e-6, "{served:?}");
        assert!((served.mean_us - 1000.0).abs() < 1e-6, "{served:?}");
        let room = c.room.expect("five at once were served in the same time");
        assert!((room.ios_per_s - (5000.0 - 1002.5)).abs() < 1.0, "{room:?}");
        assert!((room.in_flight - 5.0).abs() < 1e-9, "{room:?}");
    }

    #[test]
    fn what_waits_longer_leaves_no_room_and_what_has_a_limit_has_no_lower_bound() {
        let windows: Vec<_> = [0.9, 2.0, 4.0]
            .iter()
            .flat_map(|l| (0..10).map(|_| point(*l, 900.0)))
            .collect();
        let waits = capacity(&windows, &DeviceMeans::default());
        assert_eq!((waits.room, waits.served_more), (None, None));
        let ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        let limited = capacity(&ladder, &DeviceMeans::default());
        assert_eq!((limited.room, limited.served_more), (None, None));
    }

    #[test]
    fn many_small_requests_are_not_more_of_a_load_of_large_ones() {
        let mut windows: Vec<LoadPoint> = (0..100).map(|_| point(0.9, 900.0)).collect();
        for (i, p) in windows.iter_mut().enumerate() {
            p.bytes_per_s = 900e6;
            if i / 10 == 5 {
                *p = point(4.0, 4000.0);
                p.bytes_per_s = 1e6;
            }
        }
        assert_eq!(
            capacity(&windows, &DeviceMeans::default()).served_more,
            None
        );
    }

    #[test]
    fn contradictions_are_not_fitted() {
        let mut ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        ladder
            .iter_mut()
            .for_each(|p| p.mean_us = p.mean_us.map(|us| us * 1.2));
        let c = capacity(&ladder, &DeviceMeans::default());
        assert_eq!((c.state, c.models.len()), (State::Inconsistent, 0));
        assert_eq!(
            (c.max_ios_per_s, c.knee_in_flight, c.headroom),
            (None, None, None)
        );
    }

    #[test]
    fn a_plateau_that_is_not_the_devices_is_none() {
        let rates = |ladder: &[(f64, f64)]| {
            let points: Vec<_> = ladder
                .iter()
                .flat_map(|(l, x)| (0..10).map(|_| point(*l, *x)))
                .collect();
            let c = capacity(&points, &DeviceMeans::default());
            (c.max_ios_per_s, c.knee_in_flight, c.state)
        };
        let unseen = (None, None, State::CapacityNotObserved);
        // 500 I/Os/s of 0.2 ms and more, whatever their latency: a knee at a tenth.
        assert_eq!(
            rates(&[(0.1, 500.0), (0.2, 500.0), (0.4, 500.0), (0.8, 500.0)]),
            unseen
        );
        // 5000 of 0.4 ms and more: never seen far below.
        assert_eq!(
            rates(&[(2.0, 5000.0), (4.0, 5000.0), (8.0, 5000.0)]),
            unseen
        );
    }

    #[test]
    fn a_plateau_on_which_the_device_idles_is_none() {
        let mut ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        ladder
            .iter_mut()
            .for_each(|p| p.busy_percent = p.busy_percent.min(70.0));
        let c = capacity(&ladder, &DeviceMeans::default());
        assert_eq!(
            (c.knee_in_flight, c.state),
            (None, State::CapacityNotObserved)
        );
    }
}
