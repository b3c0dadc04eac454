//! A14: does one class of requests suffer while another bursts?
//!
//! *Treated* are the requests whose `[start, done)` intersects a burst (prolonged by the 95th percentile of the
//! sufferers' device time), *control* are others near it. Effect: ratios of median and p99, Hodges-Lehmann shift,
//! Cliff's delta. Significance: the bursts are shifted around the circle of the recording, which keeps their spacing
//! and the autocorrelation of latencies: `p = (1 + #{at least as large}) / (1 + M)`.

use serde::Serialize;

use super::cells::Series;
use super::requests::Request;
use super::stats::{Shuffler, median, nearest_rank};

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least five bursts, a significant and noticeable effect.
    Starvation,
    /// An effect, but with one to four bursts it may be chance.
    Suggestive,
    /// Nothing noticeable.
    NoEffect,
    /// No request was treated, or none was not: the worst starvation looks like this too.
    NoneObserved,
}

/// Significance needed.
pub const ALPHA: f64 = 0.05;

/// Shifts tried.
pub const SHIFTS: u64 = 999;

/// From this ratio of medians or of p99 on, somebody notices.
pub const NOTICEABLE: f64 = 1.5;

/// What bursts did to requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Starvation {
    /// Bursts.
    pub bursts: usize,
    /// Treated requests: n of everything "during".
    pub treated: usize,
    /// Control requests: n of everything "outside".
    pub control: usize,
    /// Medians in microseconds.
    pub p50_during_us: Option<f64>,
    /// See above.
    pub p50_outside_us: Option<f64>,
    /// 99th percentiles in microseconds.
    pub p99_during_us: Option<f64>,
    /// See above.
    pub p99_outside_us: Option<f64>,
    /// Longest treated request.
    pub max_during_us: Option<f64>,
    /// Ratio of medians.
    pub ratio_p50: Option<f64>,
    /// Ratio of 99th percentiles.
    pub ratio_p99: Option<f64>,
    /// Hodges-Lehmann shift: median of all differences, in microseconds.
    pub shift_us: Option<f64>,
    /// Cliff's delta: how much more often a treated request is the longer one, -1..1.
    pub cliffs_delta: Option<f64>,
    /// Time lost beyond the control's median, summed over treated requests (request x milliseconds).
    pub excess_request_ms: Option<f64>,
    /// One-sided, by circular shifts.
    pub p_value: Option<f64>,
    /// By how much a burst prolongs: 95th percentile of the sufferers' device time.
    pub lag_ns: i64,
    /// By how much latency follows the burst rate, where the two correlate most; `None` without variation.
    pub follows_ns: Option<i64>,
    /// What that says of cause and effect.
    pub direction: Direction,
    /// The judgement.
    pub verdict: Verdict,
}

/// Which came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Latency follows the bursts, by no more than sufferers take.
    BurstFirst,
    /// Latency rises before the bursts: they are not its cause, or not alone.
    LatencyFirst,
    /// Neither, or nothing varies.
    Unclear,
}

/// Requests by start and by end with running sums of their score: what a stretch of time holds is two look-ups.
struct Sums {
    starts: Vec<i64>,
    start_sums: Vec<f64>,
    ends: Vec<i64>,
    end_sums: Vec<f64>,
    total: f64,
}

impl Sums {
    /// The score is the logarithm of the latency: a single monster must not decide.
    fn of(requests: &[Request]) -> Sums {
        let score = |r: &Request| (r.total_ns().max(1) as f64).ln();
        let column = |mut pairs: Vec<(i64, f64)>| {
            pairs.sort_by_key(|p| p.0);
            let mut sum = 0.0;
            let sums = std::iter::once(0.0).chain(pairs.iter().map(|p| {
                sum += p.1;
                sum
            }));
            let sums = sums.collect::<Vec<f64>>();
            (pairs.into_iter().map(|p| p.0).collect::<Vec<i64>>(), sums)
        };
        let (starts, start_sums) = column(requests.iter().map(|r| (r.start_ns, score(r))).collect());
        let (ends, end_sums) = column(requests.iter().map(|r| (r.done_ns, score(r))).collect());
        let total = start_sums.last().copied().unwrap_or(0.0);
        Sums { starts, start_sums, ends, end_sums, total }
    }

    /// Number and score of requests with `start < to` and `done > from`.
    fn between(&self, from: i64, to: i64) -> (usize, f64) {
        let begun = self.starts.partition_point(|s| *s < to);
        let over = self.ends.partition_point(|e| *e <= from);
        (begun.saturating_sub(over), self.start_sums[begun] - self.end_sums[over])
    }

    /// Mean score of treated minus mean score of the others, for intervals shifted by `shift` around `[from, to)`.
    fn contrast(&self, intervals: &[(i64, i64)], shift: i64, from: i64, to: i64) -> Option<f64> {
        let (mut n, mut sum) = (0, 0.0);
        let mut add = |a: i64, b: i64| {
            let (more, score) = self.between(a, b);
            n += more;
            sum += score;
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
        let others = self.starts.len().checked_sub(n).filter(|o| *o > 0)?;
        (n > 0).then(|| sum / n as f64 - (self.total - sum) / others as f64)
    }
}

/// Tests whether `sufferers` suffer during `bursts` (`[from, to)` in nanoseconds, in order) inside `window`.
///
/// `lag_ns` prolongs each burst; see [`lag_of`]. Requests and bursts of the whole window are needed: a burst of which
/// only the beginning was recorded treats only what was recorded.
pub fn test(sufferers: &[Request], bursts: &[(i64, i64)], lag_ns: i64, window: (i64, i64)) -> Starvation {
    let (from, to) = window;
    let intervals = prolonged(bursts, lag_ns, window);
    let near = neighbourhood(&intervals);
    let (mut during, mut outside, mut nearby) = (Vec::new(), Vec::new(), Vec::new());
    for r in sufferers {
        let us = r.total_ns() as f64 / 1e3;
        if intersects(&intervals, r) {
            during.push(us);
        } else {
            outside.push(us);
            if intersects(&near, r) {
                nearby.push(us);
            }
        }
    }
    // Enough neighbours make a fairer control than the whole recording.
    let mut control = if nearby.len() >= 30 { nearby } else { outside };
    let p_value = if during.is_empty() || control.is_empty() { None } else { p_value(sufferers, &intervals, from, to) };
    let mut result = effect(&mut during, &mut control);
    result.bursts = bursts.len();
    result.lag_ns = lag_ns;
    result.p_value = p_value;
    result.verdict = verdict(&result);
    result
}

/// By how much bursts are prolonged: the 95th percentile of the sufferers' device time (D2C).
pub fn lag_of(sufferers: &[Request]) -> i64 {
    let mut device: Vec<f64> = sufferers.iter().map(|r| (r.done_ns - r.issue_ns) as f64).collect();
    nearest_rank(&mut device, 0.95).unwrap_or(0.0) as i64
}

fn prolonged(bursts: &[(i64, i64)], lag_ns: i64, (from, to): (i64, i64)) -> Vec<(i64, i64)> {
    let mut merged: Vec<(i64, i64)> = Vec::with_capacity(bursts.len());
    for (a, b) in bursts {
        let (a, b) = ((*a).clamp(from, to), b.saturating_add(lag_ns).clamp(from, to));
        match merged.last_mut() {
            Some(last) if last.1 >= a => last.1 = last.1.max(b),
            _ if a < b => merged.push((a, b)),
            _ => {}
        }
    }
    merged
}

/// Ten lengths of each burst to both sides of it.
fn neighbourhood(intervals: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let wide = intervals.iter().map(|(a, b)| (a.saturating_sub(10 * (b - a)), b.saturating_add(10 * (b - a))));
    let mut merged: Vec<(i64, i64)> = Vec::new();
    let mut sorted: Vec<_> = wide.collect();
    sorted.sort_unstable();
    for (a, b) in sorted {
        match merged.last_mut() {
            Some(last) if last.1 >= a => last.1 = last.1.max(b),
            _ => merged.push((a, b)),
        }
    }
    merged
}

fn intersects(intervals: &[(i64, i64)], r: &Request) -> bool {
    let first_after = intervals.partition_point(|(_, b)| *b <= r.start_ns);
    intervals.get(first_after).is_some_and(|(a, _)| *a < r.done_ns.max(r.start_ns + 1))
}

fn p_value(requests: &[Request], intervals: &[(i64, i64)], from: i64, to: i64) -> Option<f64> {
    let sums = Sums::of(requests);
    let observed = sums.contrast(intervals, 0, from, to)?;
    let mut lot = Shuffler::new(0x5eed_0a14);
    let as_large = (0..SHIFTS)
        .filter_map(|_| sums.contrast(intervals, lot.below((to - from) as u64) as i64, from, to))
        .filter(|c| *c >= observed)
        .count();
    Some((1 + as_large) as f64 / (1 + SHIFTS) as f64)
}

fn effect(during: &mut [f64], outside: &mut [f64]) -> Starvation {
    let (p50_during_us, p50_outside_us) = (nearest_rank(during, 0.5), nearest_rank(outside, 0.5));
    let (p99_during_us, p99_outside_us) = (nearest_rank(during, 0.99), nearest_rank(outside, 0.99));
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    let excess = |middle: f64| during.iter().map(|us| (us - middle).max(0.0)).sum::<f64>() / 1e3;
    Starvation {
        bursts: 0,
        treated: during.len(),
        control: outside.len(),
        max_during_us: during.iter().copied().max_by(f64::total_cmp),
        ratio_p50: ratio(p50_during_us, p50_outside_us),
        ratio_p99: ratio(p99_during_us, p99_outside_us),
        excess_request_ms: p50_outside_us.filter(|_| !during.is_empty()).map(excess),
        shift_us: hodges_lehmann(during, outside),
        cliffs_delta: cliffs_delta(during, outside),
        p50_during_us,
        p50_outside_us,
        p99_during_us,
        p99_outside_us,
        p_value: None,
        lag_ns: 0,
        follows_ns: None,
        direction: Direction::Unclear,
        verdict: Verdict::NoneObserved,
    }
}

fn verdict(s: &Starvation) -> Verdict {
    if s.treated == 0 || s.control == 0 {
        return Verdict::NoneObserved;
    }
    let noticeable = [s.ratio_p50, s.ratio_p99].into_iter().flatten().any(|r| r >= NOTICEABLE);
    match (noticeable, s.bursts, s.p_value) {
        (false, _, _) | (_, 0, _) => Verdict::NoEffect,
        (true, 1..=4, _) => Verdict::Suggestive,
        (true, _, Some(p)) if p < ALPHA => Verdict::Starvation,
        _ => Verdict::NoEffect,
    }
}

/// Median of all differences `a - b`. Beyond 1000 values a side, 1000 evenly spaced order statistics stand for it.
fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<f64> {
    let thin = |v: &[f64]| {
        let mut sorted = v.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n <= 1000 { sorted } else { (0..1000).map(|i| sorted[(2 * i + 1) * n / 2000]).collect() }
    };
    let (a, b) = (thin(a), thin(b));
    let mut differences: Vec<f64> = a.iter().flat_map(|x| b.iter().map(move |y| x - y)).collect();
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

/// The same question for a published table of slots, where only counts and mean latencies are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotContrast {
    /// Requests in treated slots.
    pub treated: u64,
    /// Their mean latency, weighted by requests.
    pub treated_mean: f64,
    /// Requests in the other slots.
    pub control: u64,
    /// Their mean latency.
    pub control_mean: f64,
    /// Ratio of means.
    pub ratio: f64,
    /// Circular shifts of the burst with at least this ratio, and all shifts; the identity is one of them.
    pub circular: (u64, u64),
    /// Choices of as many non-empty slots with at least this ratio, and all choices; `None` if they are too many.
    pub choices: Option<(u64, u64)>,
}

/// Contrast of slots given as (requests, latency sum) by `burst`; `None` unless both sides hold requests.
pub fn slot_contrast(slots: &[(u64, f64)], burst: &[bool]) -> Option<SlotContrast> {
    let total = slots.iter().fold((0, 0.0), |t, s| (t.0 + s.0, t.1 + s.1));
    let ratio = |(n, sum): (u64, f64)| {
        let others = total.0 - n;
        (n > 0 && others > 0).then(|| (sum / n as f64) / ((total.1 - sum) / others as f64))
    };
    let shifted = |by: usize| {
        slots
            .iter()
            .enumerate()
            .filter(|(i, _)| burst[(i + by) % burst.len()])
            .fold((0, 0.0), |t, (_, s)| (t.0 + s.0, t.1 + s.1))
    };
    let treated = shifted(0);
    let observed = ratio(treated)?;
    // Equal up to rounding is equal.
    let as_large = |r: f64| r >= observed * (1.0 - 1e-12);
    let circular = (0..slots.len()).filter_map(|by| ratio(shifted(by))).filter(|r| as_large(*r)).count() as u64;
    let filled: Vec<(u64, f64)> = slots.iter().copied().filter(|s| s.0 > 0).collect();
    let chosen = slots.iter().zip(burst).filter(|(s, b)| s.0 > 0 && **b).count();
    let mut tally = (0, 0);
    if binomial(filled.len() as u64, chosen as u64) <= 1_000_000 {
        choose(&filled, chosen, (0, 0.0), &mut |sum| {
            tally.1 += 1;
            tally.0 += u64::from(ratio(sum).is_some_and(as_large));
        });
    }
    Some(SlotContrast {
        treated: treated.0,
        treated_mean: treated.1 / treated.0 as f64,
        control: total.0 - treated.0,
        control_mean: (total.1 - treated.1) / (total.0 - treated.0) as f64,
        ratio: observed,
        circular: (circular, slots.len() as u64),
        choices: (tally.1 > 0).then_some(tally),
    })
}

fn binomial(n: u64, k: u64) -> u64 {
    (0..k.min(n)).fold(1u64, |b, i| b.saturating_mul(n - i) / (i + 1))
}

fn choose(slots: &[(u64, f64)], k: usize, sum: (u64, f64), visit: &mut impl FnMut((u64, f64))) {
    if k == 0 {
        visit(sum);
        return;
    }
    for i in 0..=slots.len().saturating_sub(k) {
        if let Some(s) = slots.get(i) {
            choose(&slots[i + 1..], k - 1, (sum.0 + s.0, sum.1 + s.1), visit);
        }
    }
}

/// Slots of the burst rate that direction is judged on, and how far apart rate and latency may lie.
const DIRECTION_SLOTS: usize = 20_000;
const REACH: usize = 25;

/// Which comes first, the `rate` of bursts or the latency of `sufferers` (in the slot of their completion): cross-correlation
/// in the slots of `rate`, of which `DIRECTION_SLOTS` from the first of `bursts` on. An effect shows `within_ns` of its
/// cause: the longest that a sufferer takes, give or take a slot.
pub fn direction(
    sufferers: &[Request],
    bursts: &[(i64, i64)],
    rate: &Series,
    within_ns: i64,
) -> (Option<i64>, Direction) {
    let Some((first_ns, _)) = bursts.first() else { return (None, Direction::Unclear) };
    let slot = |ns: i64| (ns - rate.from_ns).div_euclid(rate.dt_ns);
    let from = (slot(*first_ns) - 2 * REACH as i64).max(0) as usize;
    let to = (from + DIRECTION_SLOTS).min(rate.bytes.len());
    let mut sums = vec![(0u64, 0i128); to.saturating_sub(from)];
    for r in sufferers {
        let sum = usize::try_from(slot(r.done_ns) - from as i64).ok().and_then(|i| sums.get_mut(i));
        if let Some((n, sum)) = sum {
            *n += 1;
            *sum += i128::from(r.total_ns());
        }
    }
    let latency: Vec<Option<f64>> = sums.iter().map(|(n, sum)| (*n > 0).then(|| *sum as f64 / *n as f64)).collect();
    let rates: Vec<f64> = rate.bytes[from.min(to)..to].iter().map(|b| *b as f64).collect();
    let Some(slots) = follows_by(&rates, &latency, REACH) else { return (None, Direction::Unclear) };
    let direction = match slots * rate.dt_ns {
        ns if ns < -rate.dt_ns => Direction::LatencyFirst,
        ns if ns <= within_ns.saturating_add(rate.dt_ns) => Direction::BurstFirst,
        _ => Direction::Unclear,
    };
    (Some(slots * rate.dt_ns), direction)
}

/// Direction: by how many slots the sufferers' mean latency follows the burst rate, at the highest correlation among
/// `-reach..=reach` slots. Positive: the rate comes first. `None` without variation.
pub fn follows_by(rate: &[f64], latency: &[Option<f64>], reach: usize) -> Option<i64> {
    let reach = reach as i64;
    (-reach..=reach)
        .filter_map(|lag| {
            let pairs: Vec<(f64, f64)> = latency
                .iter()
                .enumerate()
                .filter_map(|(i, l)| Some((*rate.get(usize::try_from(i as i64 - lag).ok()?)?, (*l)?)))
                .collect();
            Some((correlation(&pairs)?, lag))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.abs().cmp(&a.1.abs())))
        .map(|(_, lag)| lag)
}

fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mx, my) = pairs.iter().fold((0.0, 0.0), |m, p| (m.0 + p.0 / n, m.1 + p.1 / n));
    let (xx, yy, xy) = pairs.iter().fold((0.0, 0.0, 0.0), |s, p| {
        let (x, y) = (p.0 - mx, p.1 - my);
        (s.0 + x * x, s.1 + y * y, s.2 + x * y)
    });
    let varies = |ss: f64, mean: f64| ss > 1e-12 * n * (mean * mean).max(f64::MIN_POSITIVE);
    (pairs.len() > 2 && varies(xx, mx) && varies(yy, my)).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// A request each 10 ms; 1 ms long, but `during` ms long in every burst.
    fn requests(bursts: &[(i64, i64)], during: i64) -> Vec<Request> {
        (0..2000)
            .map(|i| {
                let start_ns = i * 10 * MS;
                let inside = bursts.iter().any(|(a, b)| *a <= start_ns && start_ns < *b);
                Request {
                    start_ns,
                    issue_ns: start_ns,
                    done_ns: start_ns + if inside { during * MS } else { MS + i % 7 * 1000 },
                }
            })
            .collect()
    }

    fn regular(n: i64) -> Vec<(i64, i64)> {
        (0..n)
            .map(|i| (i * 2000 * MS + i * i * 13 * MS + 500 * MS, i * 2000 * MS + i * i * 13 * MS + 800 * MS))
            .collect()
    }

    #[test]
    fn a_clear_case_is_named_and_measured() {
        let bursts = regular(9);
        let s = test(&requests(&bursts, 5), &bursts, 0, (0, 20_000 * MS));
        assert_eq!((s.verdict, s.bursts), (Verdict::Starvation, 9));
        assert!(s.p_value.expect("tested") <= 0.01, "{s:?}");
        assert!((s.ratio_p50.expect("both") - 5.0).abs() < 0.05 && s.cliffs_delta == Some(1.0));
        assert!((s.shift_us.expect("both") - 3997.0).abs() < 4.0);
        assert!((s.excess_request_ms.expect("both") - 4.0 * s.treated as f64).abs() < 1.0 + 0.01 * s.treated as f64);
    }

    #[test]
    fn few_bursts_are_only_suggestive_and_none_is_nothing() {
        let bursts = regular(2);
        let all = requests(&bursts, 5);
        assert_eq!(test(&all, &bursts, 0, (0, 20_000 * MS)).verdict, Verdict::Suggestive);
        assert_eq!(test(&all, &[], 0, (0, 20_000 * MS)).verdict, Verdict::NoneObserved);
        assert_eq!(test(&requests(&regular(9), 1), &regular(9), 0, (0, 20_000 * MS)).verdict, Verdict::NoEffect);
        assert_eq!(test(&[], &bursts, 0, (0, 20_000 * MS)).verdict, Verdict::NoneObserved);
    }

    #[test]
    fn latency_follows_the_rate() {
        let rate: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 37 < 4))).collect();
        let latency: Vec<Option<f64>> = (0..200).map(|i| (i >= 3).then(|| rate[i - 3] * 5.0 + 1.0)).collect();
        assert_eq!(follows_by(&rate, &latency, 10), Some(3));
        assert_eq!(follows_by(&[1.0; 200], &latency, 10), None);
    }

    #[test]
    fn what_comes_first_is_told() {
        let bursts = regular(9);
        let all = requests(&bursts, 5);
        let rate_shifted = |by_ns: i64| {
            let dt_ns = 10 * MS;
            let inside = |at: i64| bursts.iter().any(|(a, b)| *a <= at - by_ns && at - by_ns < *b);
            let bytes: Vec<u64> = (0..2000).map(|i| u64::from(inside(i * dt_ns)) << 20).collect();
            Series { from_ns: 0, dt_ns, ios: bytes.clone(), bytes }
        };
        let at = |by_ns| direction(&all, &bursts, &rate_shifted(by_ns), 5 * MS);
        assert_eq!(at(0), (Some(0), Direction::BurstFirst));
        assert_eq!(at(80 * MS), (Some(-80 * MS), Direction::LatencyFirst));
        assert_eq!(at(-80 * MS), (Some(80 * MS), Direction::Unclear), "farther than the lag explains");
        assert_eq!(direction(&all, &[], &rate_shifted(0), MS), (None, Direction::Unclear));
    }

    proptest! {
        #[test]
        fn effects_equal_brute_force(a in prop::collection::vec(0u32..100, 1..30), b in prop::collection::vec(0u32..100, 1..30)) {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| x - y));
            let delta = pairs().map(|d| if d > 0.0 { 1.0 } else if d < 0.0 { -1.0 } else { 0.0 }).sum::<f64>() / pairs().count() as f64;
            prop_assert!((cliffs_delta(&a, &b).expect("both") - delta).abs() < 1e-12);
            prop_assert_eq!(hodges_lehmann(&a, &b), median(&mut pairs().collect::<Vec<_>>()));
        }

        #[test]
        fn sums_between_equal_brute_force(spans in prop::collection::vec((0i64..1000, 1i64..100), 1..60), a in 0i64..900, len in 1i64..100) {
            let requests: Vec<Request> = spans.iter().map(|(s, d)| Request { start_ns: *s, issue_ns: *s, done_ns: s + d }).collect();
            let hit: Vec<&Request> = requests.iter().filter(|r| r.start_ns < a + len && r.done_ns > a).collect();
            let (n, score) = Sums::of(&requests).between(a, a + len);
            prop_assert_eq!(n, hit.len());
            prop_assert!((score - hit.iter().map(|r| (r.total_ns() as f64).ln()).sum::<f64>()).abs() < 1e-6);
            for r in &requests {
                prop_assert_eq!(intersects(&[(a, a + len)], r), r.start_ns < a + len && r.done_ns > a);
            }
        }
    }
}
