//! A14: does one class of requests wait longer while another asks for much?
//!
//! *Episodes* are stretches in which the aggressor submits far more than at its calmest ([`crate::analysis::starvation::demand`]), prolonged by the
//! time that the device takes to drain them. A victim is *treated* if it is submitted during an episode (not if it merely
//! overlaps one: long requests overlap more), and compared with its neighbours submitted while the aggressor is calm. Each
//! episode gives one difference of mean log latency, so that an episode, not a request, is the unit of evidence.
//!
//! Two tests must agree: Student's t over episodes, which can be as small as a whole fleet of streams needs, and circular
//! shifts of the episodes around the recording, which keep the autocorrelation of latencies:
//! `p = (1 + #{at least as large}) / (1 + M)`. Where the victims themselves submit more during episodes, load is shared, and
//! their waiting is queueing, not starvation.

pub mod demand;
pub mod starved_by;

use serde::Serialize;

use crate::analysis::math::distributions::{t_both_sides, t_critical};
use crate::analysis::math::lead_lag::{Direction, direction};
use crate::analysis::math::stats::{Shuffler, median, nearest_rank};
use crate::analysis::starvation::demand::{Demand, joined, without};
use crate::analysis::stream::requests::Request;
use crate::model::Class;

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "StarvationVerdict")
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least five episodes, a significant effect that matters.
    Starvation,
    /// A difference that would matter, but of one to four episodes: a finding only where the shifts do not show it too.
    Suggestive,
    /// The victims submit more at the same times: they wait because there is more load.
    SharedLoad,
    /// Nothing that matters, or nothing beyond chance.
    NoEffect,
    /// No request was treated, or none was not: the worst starvation looks like this too.
    NoneObserved,
}

/// Significance needed: of circular shifts for each stream, of the test over episodes for all streams together.
pub const ALPHA: f64 = 0.01;

/// Shifts tried.
pub const SHIFTS: u64 = 999;

/// When so many shifts show as much, no more are tried.
const ENOUGH: u64 = 50;

/// An effect that matters: this ratio of medians, of means of logarithms, or of p99.
pub const NOTICEABLE: f64 = 1.5;

/// The ratio of means of logarithms must be beyond this with 97.5 % confidence.
const SURE_RATIO: f64 = 1.15;

/// Episodes needed for a verdict.
pub const MIN_EPISODES: usize = 5;

/// Requests on a side without which no p99 of it is given.
const MIN_FOR_P99: usize = 100;

/// Victims that submit more than this, beyond their own noise, share the load.
const SHARED: f64 = 1.05;

/// Among what a verdict stands.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Tests in all: a finding must beat the chance of all.
    pub streams: usize,
    /// Shifts are tried only where the test over episodes leaves a doubt, which costs no verdict of starvation.
    pub spares_shifts: bool,
}

impl Family {
    /// So many tests, each with its shifts.
    pub fn of(streams: usize) -> Family {
        Family {
            streams,
            spares_shifts: false,
        }
    }
}

/// What the aggressor's episodes did to the victims.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Starvation {
    /// Whose demand it is about.
    pub aggressor: Class,
    /// Episodes.
    pub bursts: usize,
    /// Treated requests: n of everything "during".
    pub treated: usize,
    /// Control requests: n of everything "outside".
    pub control: usize,
    /// Medians in microseconds.
    pub p50_during_us: Option<f64>,
    /// See above.
    pub p50_outside_us: Option<f64>,
    /// 99th percentiles in microseconds; `None` of fewer than 100 requests.
    pub p99_during_us: Option<f64>,
    /// See above.
    pub p99_outside_us: Option<f64>,
    /// Longest treated request.
    pub max_during_us: Option<f64>,
    /// Ratio of medians.
    pub ratio_p50: Option<f64>,
    /// Ratio of 99th percentiles.
    pub ratio_p99: Option<f64>,
    /// Ratio of geometric means, each episode against its neighbourhood.
    pub ratio: Option<f64>,
    /// Its 95 % interval, over episodes; `None` of fewer than three.
    pub ratio_ci: Option<(f64, f64)>,
    /// Additional latency of a treated request in microseconds, each episode against its neighbourhood.
    pub excess_us: Option<f64>,
    /// Its 95 % interval, over episodes.
    pub excess_us_ci: Option<(f64, f64)>,
    /// Hodges-Lehmann shift: median of all differences, in microseconds.
    pub shift_us: Option<f64>,
    /// Cliff's delta: how much more often a treated request is the longer one, -1..1.
    pub cliffs_delta: Option<f64>,
    /// Time lost beyond the control's median, summed over treated requests (request x milliseconds).
    pub excess_request_ms: Option<f64>,
    /// One-sided, by circular shifts.
    pub p_value: Option<f64>,
    /// One-sided, by Student's t over episodes.
    pub p_episodes: Option<f64>,
    /// The victims' rate of submission during episodes over that in calm time.
    pub own_load_ratio: Option<f64>,
    /// By how much an episode is prolonged: the median time that the device takes to drain one.
    pub lag_ns: i64,
    /// By how much latency follows the aggressor's submissions, where the two correlate most; `None` without variation.
    pub follows_ns: Option<i64>,
    /// What that says of cause and effect.
    pub direction: Direction,
    /// The judgement.
    pub verdict: Verdict,
    /// Student's t over episodes.
    #[serde(skip)]
    pub t: f64,
    /// The episodes, prolonged, in nanoseconds since the recording's start.
    #[serde(skip)]
    pub episodes: Vec<(i64, i64)>,
}

impl Starvation {
    /// Of two claims the one with more of it is surer: verdict first, then Student's t over episodes.
    pub fn strength(&self) -> f64 {
        let verdict = match self.verdict {
            Verdict::Starvation => 4e9,
            Verdict::Suggestive => 3e9,
            Verdict::SharedLoad => 2e9,
            Verdict::NoEffect => 1e9,
            Verdict::NoneObserved => 0.0,
        };
        verdict + self.t.clamp(-1e6, 1e6)
    }

    /// The other direction is surer: this one is no claim any more.
    pub fn withdraw(&mut self) {
        if matches!(self.verdict, Verdict::Starvation | Verdict::Suggestive) {
            self.verdict = Verdict::NoEffect;
        }
    }
}

/// Victims in the order of submission, with running sums of the logarithm of their latency: a single monster must not decide.
struct Sums {
    starts: Vec<i64>,
    us: Vec<f64>,
    logs: Vec<f64>,
    times: Vec<f64>,
}

impl Sums {
    fn of(requests: impl Iterator<Item = Request>) -> Sums {
        let mut pairs: Vec<(i64, f64)> = requests
            .map(|r| (r.start_ns, (r.total_ns().max(1) as f64) / 1e3))
            .collect();
        pairs.sort_by_key(|p| p.0);
        let running = |value: fn(f64) -> f64| {
            let mut sum = 0.0;
            let sums = pairs.iter().map(|p| {
                sum += value(p.1);
                sum
            });
            std::iter::once(0.0).chain(sums).collect::<Vec<f64>>()
        };
        let (logs, times) = (running(f64::ln), running(|us| us));
        let (starts, us) = pairs.into_iter().unzip();
        Sums {
            starts,
            us,
            logs,
            times,
        }
    }

    fn range(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let first = self.starts.partition_point(|s| *s < from);
        first..self.starts.partition_point(|s| *s < to).max(first)
    }

    fn mean(sums: &[f64], range: &std::ops::Range<usize>) -> f64 {
        (sums[range.end] - sums[range.start]) / range.len() as f64
    }

    /// Mean logarithm of treated minus that of the others, for intervals shifted by `shift` around `[from, to)`.
    fn contrast(&self, intervals: &[(i64, i64)], shift: i64, from: i64, to: i64) -> Option<f64> {
        let (mut n, mut sum) = (0, 0.0);
        let mut add = |a: i64, b: i64| {
            let range = self.range(a, b);
            n += range.len();
            sum += self.logs[range.end] - self.logs[range.start];
        };
        for (a, b) in intervals {
            let begin = from + (a - from + shift).rem_euclid(to - from);
            let end = begin + (b - a);
            if end <= to {
                add(begin, end);
            } else {
                add(begin, to);
                add(from, end - (to - from));
            }
        }
        let total = self.logs.last()?;
        let others = self.starts.len().checked_sub(n).filter(|o| *o > 0)?;
        (n > 0).then(|| sum / n as f64 - (total - sum) / others as f64)
    }
}

/// What `aggressors` (class, requests, their demand) do to `victims` inside `window`; `None` without victims.
/// `gaps` are stretches where I/Os are missing: nothing that touches them counts.
pub fn test(
    victims: &[Request],
    aggressors: (Class, &[Request], &Demand),
    gaps: &[(i64, i64)],
    window: (i64, i64),
    family: Family,
) -> Option<Starvation> {
    let (aggressor, aggressors, Demand { high, calm }) = aggressors;
    let touched = |r: &Request| {
        let after = gaps.partition_point(|g| g.1 < r.start_ns);
        gaps.get(after).is_some_and(|g| g.0 < r.done_ns)
    };
    let clean: Vec<Request> = victims.iter().filter(|r| !touched(r)).copied().collect();
    if clean.is_empty() {
        return None;
    }
    let lag_ns = drain_ns(aggressors, high);
    let whole = |e: &(i64, i64)| !gaps.iter().any(|g| g.0 < e.1 && g.1 >= e.0);
    let mut episodes = joined(high.iter().copied(), lag_ns);
    episodes
        .last_mut()
        .into_iter()
        .for_each(|last| last.1 = last.1.min(window.1));
    let calm = without(&without(calm, &episodes), gaps);
    episodes.retain(whole);
    let mut result = compare(&clean, &episodes, &calm, window, family)?;
    (result.aggressor, result.lag_ns) = (aggressor, lag_ns);
    if matches!(result.verdict, Verdict::Starvation | Verdict::Suggestive) {
        let within_ns = result
            .max_during_us
            .map_or(lag_ns, |us| lag_ns.max((us * 1e3) as i64));
        (result.follows_ns, result.direction) =
            direction(&clean, aggressors, &result.episodes, within_ns);
    }
    Some(result)
}

/// The median time from the end of an episode until what was submitted in it is done. One for all episodes: prolonging each
/// by its own would prolong those that meet a slow device.
fn drain_ns(aggressors: &[Request], high: &[(i64, i64)]) -> i64 {
    let mut last_done = vec![i64::MIN; high.len()];
    for r in aggressors {
        let i = high.partition_point(|h| h.1 <= r.start_ns);
        if high.get(i).is_some_and(|h| h.0 <= r.start_ns) {
            last_done[i] = last_done[i].max(r.done_ns);
        }
    }
    let mut drains: Vec<f64> = last_done
        .iter()
        .zip(high)
        .map(|(done, h)| (done - h.1).max(0) as f64)
        .collect();
    median(&mut drains).unwrap_or(0.0) as i64
}

/// One episode against its neighbourhood.
struct Difference {
    weight: f64,
    log: f64,
    us: f64,
}

/// Compares victims submitted during `episodes` with their neighbours submitted in `calm` time. Both are in order and
/// disjoint; `None` without episodes.
pub fn compare(
    victims: &[Request],
    episodes: &[(i64, i64)],
    calm: &[(i64, i64)],
    window: (i64, i64),
    family: Family,
) -> Option<Starvation> {
    if episodes.is_empty() {
        return None;
    }
    let all = Sums::of(victims.iter().copied());
    let is_calm = |r: &&Request| {
        let i = calm.partition_point(|c| c.1 <= r.start_ns);
        calm.get(i).is_some_and(|c| c.0 <= r.start_ns)
    };
    let controls = Sums::of(victims.iter().filter(is_calm).copied());
    let (mut during, mut near, mut differences) = (Vec::new(), Vec::new(), Vec::new());
    for (a, b) in episodes {
        let treated = all.range(*a, *b);
        let reach = treated.len().clamp(15, 1000);
        let (before, after) = (
            controls.range(i64::MIN, *a).end,
            controls.range(i64::MIN, *b).end,
        );
        let around = before.saturating_sub(reach)..(after + reach).min(controls.starts.len());
        if treated.is_empty() || around.is_empty() {
            continue;
        }
        differences.push(Difference {
            weight: treated.len().min(16) as f64,
            log: Sums::mean(&all.logs, &treated) - Sums::mean(&controls.logs, &around),
            us: Sums::mean(&all.times, &treated) - Sums::mean(&controls.times, &around),
        });
        during.extend_from_slice(&all.us[treated]);
        near.push((around.start as i64, around.end as i64));
    }
    let mut outside: Vec<f64> = joined(near.into_iter(), 0)
        .iter()
        .flat_map(|(a, b)| &controls.us[*a as usize..*b as usize])
        .copied()
        .collect();
    let mut result = effect(&mut during, &mut outside);
    result.bursts = differences.len();
    (result.ratio, result.ratio_ci) =
        interval(&differences, |d| d.log).map_or((None, None), |(mean, half)| {
            (
                Some(mean.exp()),
                half.map(|h| ((mean - h).exp(), (mean + h).exp())),
            )
        });
    (result.excess_us, result.excess_us_ci) = interval(&differences, |d| d.us)
        .map_or((None, None), |(mean, half)| {
            (Some(mean), half.map(|h| (mean - h, mean + h)))
        });
    if let Some((t, df)) = t_of(&differences) {
        let half = t_both_sides(t, df) / 2.0;
        (result.t, result.p_episodes) = (t, Some(if t > 0.0 { half } else { 1.0 - half }));
    }
    if result.treated > 0
        && result.control > 0
        && (!family.spares_shifts || is_likely(&result, family))
    {
        result.p_value = p_shifts(&all, episodes, window);
    }
    let shared = own_load(&all, &controls, episodes, calm, &mut result);
    result.episodes = episodes.to_vec();
    result.verdict = verdict(&result, shared, family);
    Some(result)
}

/// Whether the victims submit more during episodes than in calm time, beyond their own noise.
fn own_load(
    all: &Sums,
    controls: &Sums,
    episodes: &[(i64, i64)],
    calm: &[(i64, i64)],
    result: &mut Starvation,
) -> bool {
    let length = |v: &[(i64, i64)]| v.iter().map(|(a, b)| (b - a) as f64).sum::<f64>().max(1.0);
    let treated: usize = episodes.iter().map(|(a, b)| all.range(*a, *b).len()).sum();
    let (n, m) = (treated as f64, controls.starts.len() as f64);
    if treated == 0 || controls.starts.is_empty() {
        return false;
    }
    let ratio = n / length(episodes) / (m / length(calm));
    result.own_load_ratio = Some(ratio);
    ratio * (-1.645 * (1.0 / n + 1.0 / m).sqrt()).exp() > SHARED
}

/// Weighted mean of the differences, its standard error and degrees of freedom.
fn mean_of(differences: &[Difference], of: impl Fn(&Difference) -> f64) -> Option<(f64, f64, f64)> {
    let weight: f64 = differences.iter().map(|d| d.weight).sum();
    if weight <= 0.0 {
        return None;
    }
    let mean = differences.iter().map(|d| d.weight * of(d)).sum::<f64>() / weight;
    let squares: f64 = differences
        .iter()
        .map(|d| (d.weight * (of(d) - mean)).powi(2))
        .sum();
    let effective = weight * weight / differences.iter().map(|d| d.weight * d.weight).sum::<f64>();
    let df = effective - 1.0;
    let se = (squares / (weight * weight) * effective / df.max(1e-9)).sqrt();
    Some((mean, se, df))
}

/// Degrees of freedom of two episodes are 1, and the interval of their mean is wider than anything that is measured.
const MIN_INTERVAL_DF: f64 = 1.5;

/// Mean, and the half width of its 95 % interval.
fn interval(
    differences: &[Difference],
    of: impl Fn(&Difference) -> f64,
) -> Option<(f64, Option<f64>)> {
    let (mean, se, df) = mean_of(differences, of)?;
    let half = (df >= MIN_INTERVAL_DF).then(|| t_critical(0.05, df) * se);
    Some((mean, half))
}

/// Student's t of the differences of logarithms, and its degrees of freedom.
fn t_of(differences: &[Difference]) -> Option<(f64, f64)> {
    let (mean, se, df) = mean_of(differences, |d| d.log).filter(|m| m.2 >= 1.0)?;
    // Differences without any spread would be beyond all doubt; no clock is that good.
    Some((mean / se.max(0.01 * mean.abs()).max(f64::MIN_POSITIVE), df))
}

fn p_shifts(all: &Sums, episodes: &[(i64, i64)], (from, to): (i64, i64)) -> Option<f64> {
    let observed = all.contrast(episodes, 0, from, to)?;
    let mut random = Shuffler::new(0x5eed_0a14);
    let mut as_large = 0;
    for tried in 1..=SHIFTS {
        let contrast = all.contrast(episodes, random.below((to - from) as u64) as i64, from, to);
        as_large += u64::from(contrast.is_some_and(|c| c >= observed));
        // So many are enough to know that there is nothing (Besag and Clifford's sequential p-value).
        if as_large == ENOUGH {
            return Some(ENOUGH as f64 / tried as f64);
        }
    }
    Some((1 + as_large) as f64 / (1 + SHIFTS) as f64)
}

fn effect(during: &mut [f64], outside: &mut [f64]) -> Starvation {
    let p99 = |v: &mut [f64]| {
        if v.len() >= MIN_FOR_P99 {
            nearest_rank(v, 0.99)
        } else {
            None
        }
    };
    let (p50_during_us, p50_outside_us) = (nearest_rank(during, 0.5), nearest_rank(outside, 0.5));
    let (p99_during_us, p99_outside_us) = (p99(during), p99(outside));
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    let excess = |middle: f64| during.iter().map(|us| (us - middle).max(0.0)).sum::<f64>() / 1e3;
    Starvation {
        aggressor: Class::Write,
        bursts: 0,
        treated: during.len(),
        control: outside.len(),
        max_during_us: during.iter().copied().max_by(f64::total_cmp),
        ratio_p50: ratio(p50_during_us, p50_outside_us),
        ratio_p99: ratio(p99_during_us, p99_outside_us),
        ratio: None,
        ratio_ci: None,
        excess_us: None,
        excess_us_ci: None,
        excess_request_ms: p50_outside_us.filter(|_| !during.is_empty()).map(excess),
        shift_us: hodges_lehmann(during, outside),
        cliffs_delta: cliffs_delta(during, outside),
        p50_during_us,
        p50_outside_us,
        p99_during_us,
        p99_outside_us,
        p_value: None,
        p_episodes: None,
        own_load_ratio: None,
        lag_ns: 0,
        follows_ns: None,
        direction: Direction::Unclear,
        verdict: Verdict::NoneObserved,
        t: 0.0,
        episodes: Vec::new(),
    }
}

fn matters(s: &Starvation) -> bool {
    [s.ratio_p50, s.ratio_p99, s.ratio]
        .into_iter()
        .flatten()
        .any(|r| r >= NOTICEABLE)
}

/// Whether the test over episodes leaves it to the shifts.
fn is_likely(s: &Starvation, family: Family) -> bool {
    s.bursts >= MIN_EPISODES
        && matters(s)
        && s.p_episodes
            .is_some_and(|p| p <= ALPHA / family.streams.max(1) as f64)
        && s.ratio_ci.is_some_and(|ci| ci.0 >= SURE_RATIO)
        && s.excess_us_ci.is_some_and(|ci| ci.0 > 0.0)
}

fn verdict(s: &Starvation, shared: bool, family: Family) -> Verdict {
    if s.treated == 0 || s.control == 0 {
        return Verdict::NoneObserved;
    }
    let shifts = s.p_value.is_some_and(|p| p <= ALPHA);
    match s.bursts {
        _ if !matters(s) => Verdict::NoEffect,
        _ if shared && shifts => Verdict::SharedLoad,
        n if n < MIN_EPISODES => Verdict::Suggestive,
        _ if shifts && is_likely(s, family) => Verdict::Starvation,
        _ => Verdict::NoEffect,
    }
}

/// Median of all differences `a - b`. Beyond 1000 values a side, 1000 evenly spaced order statistics stand for it.
fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<f64> {
    let thin = |v: &[f64]| {
        let mut sorted = v.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n <= 1000 {
            sorted
        } else {
            (0..1000).map(|i| sorted[(2 * i + 1) * n / 2000]).collect()
        }
    };
    let (a, b) = (thin(a), thin(b));
    let mut differences: Vec<f64> = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| x - y))
        .collect();
    median(&mut differences)
}

/// `P(a > b) - P(a < b)` over all pairs.
fn cliffs_delta(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut sorted = b.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wins: i64 = a
        .iter()
        .map(|x| {
            let below = sorted.partition_point(|y| y < x) as i64;
            let not_above = sorted.partition_point(|y| y <= x) as i64;
            below - (sorted.len() as i64 - not_above)
        })
        .sum();
    Some(wins as f64 / (a.len() as f64 * b.len() as f64))
}

#[cfg(test)]
mod tests;
