//! A15: does it come back? Breathing, flushing, commits.
//!
//! The series `ln(1 + KiB)` of slots is correlated with itself (biased, to a third of its length); the highest peak
//! after the first zero crossing is the candidate, refined by a parabola; a shorter period wins if it is nearly as
//! strong. Against chance: the observed runs of activity, with their lengths and energies, are placed at random, again
//! and again. The period itself is then fitted to the onsets, with a jackknife over them for its interval.
//!
//! Slots must suit the period (jitter wider than a slot smears the peak): [`find`] tries slots of many widths and tests
//! the most promising three.
//!
//! A second opinion comes from the onsets alone: their Lomb-Scargle periodogram ([`super::periodogram`]), against the
//! same random placements. Where it alone is sure, the finding is tentative.

use serde::Serialize;

use super::autocorrelation::{Correlator, autocorrelation};
use super::periodogram::{PowerPeak, Transform};
use super::stats::{Shuffler, mad, mean_sd, median};

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It comes back, at least five times in this recording, and not by chance.
    Periodic,
    /// It seems to, but only three or four periods were seen, or only the onsets say so.
    Tentative,
    /// Nothing that chance would not do.
    NotPeriodic,
    /// Fewer than three periods: nobody could tell.
    InsufficientData,
}

/// Significance needed.
pub const ALPHA: f64 = 0.01;

/// Random placements tried at most.
pub const PLACEMENTS: usize = 400;

/// Longer series are not looked at in one piece.
pub const MOST_SLOTS: usize = 4096;

/// So many random placements that do as well end the test: chance explains it.
const ENOUGH: usize = 10;

/// Onsets that a periodogram needs.
const LEAST_ONSETS: usize = 5;

/// What was found in one series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Periodicity {
    /// The judgement.
    pub verdict: Verdict,
    /// Width of the slots in which it was looked for, in seconds.
    pub slot_s: f64,
    /// The period in seconds.
    pub period_s: Option<f64>,
    /// Its 95 % interval, by jackknife over onsets.
    pub period_ci_s: Option<(f64, f64)>,
    /// Autocorrelation at the period.
    pub acf: Option<f64>,
    /// Share of random placements that correlate as well.
    pub p_value: Option<f64>,
    /// Period of the onsets' highest power in the Lomb-Scargle periodogram, in seconds.
    pub onset_period_s: Option<f64>,
    /// That power, 0 to 1 (1: a pure sine; combs of many narrow teeth have little at any one frequency).
    pub onset_power: Option<f64>,
    /// Its false-alarm probability: share of random placements whose onsets have as much power at any frequency.
    pub onset_p_value: Option<f64>,
    /// Periods in the recording.
    pub cycles: Option<f64>,
    /// Onsets of activity: n.
    pub onsets: usize,
    /// Onsets that keep the period, of those.
    pub in_step: usize,
    /// Mean time between onsets.
    pub gap_mean_s: Option<f64>,
    /// Its coefficient of variation.
    pub gap_cv: Option<f64>,
    /// Median absolute deviation of gaps.
    pub gap_mad_s: Option<f64>,
    /// The onsets, in seconds since the series' beginning.
    #[serde(skip)]
    pub onsets_s: Vec<f64>,
}

/// A stretch of activity: first slot and logs.
struct Run {
    first: usize,
    values: Vec<f64>,
}

/// One series with its strongest peak, before any test.
struct Candidate {
    logs: Vec<f64>,
    runs: Vec<Run>,
    peak: Option<Peak>,
    result: Periodicity,
}

/// Looks for a period in slots of `dt_s` seconds and in wider ones, up to a twentieth of the series, which is shortened
/// to its first [`MOST_SLOTS`] where it is longer. `bytes` is what each slot moved.
pub fn find(bytes: &[u64], dt_s: f64) -> Periodicity {
    find_among(candidates(bytes, dt_s), dt_s)
}

/// The same with finer slots for the beginning of the series, where fast rhythms show: `fine` in slots of `fine_s`.
pub fn find_with_fine(bytes: &[u64], dt_s: f64, fine: &[u64], fine_s: f64) -> Periodicity {
    let mut all = candidates(bytes, dt_s);
    let finer = |c: &Candidate| c.result.slot_s < 0.99 * dt_s;
    all.extend(candidates(fine, fine_s).into_iter().filter(finer));
    find_among(all, dt_s)
}

fn candidates(bytes: &[u64], dt_s: f64) -> Vec<Candidate> {
    let widths = (0..).map(|i| [1, 2, 5][i % 3] * 10usize.pow(i as u32 / 3));
    widths
        .take_while(|times| *times == 1 || bytes.len() / times >= 20)
        .map(|times| {
            let slots: Vec<u64> = bytes.chunks(times).take(MOST_SLOTS).map(|c| c.iter().sum()).collect();
            Candidate::of(&slots, dt_s * times as f64)
        })
        .collect()
}

fn find_among(mut candidates: Vec<Candidate>, dt_s: f64) -> Periodicity {
    candidates.sort_by(|a, b| b.promise().total_cmp(&a.promise()));
    let tests = candidates.iter().filter(|c| c.promise() > 0.0).count().clamp(1, 3);
    candidates
        .into_iter()
        .take(tests)
        .map(|c| c.tested(tests as f64))
        .max_by(|a, b| a.result.rank().total_cmp(&b.result.rank()))
        .map_or_else(|| nothing(Vec::new(), dt_s), Candidate::with_second_opinion)
}

/// Looks for a period in slots of exactly `dt_s` seconds.
pub fn find_at(bytes: &[u64], dt_s: f64) -> Periodicity {
    Candidate::of(&bytes[..bytes.len().min(MOST_SLOTS)], dt_s).tested(1.0).with_second_opinion()
}

impl Periodicity {
    /// Better verdicts first, then whatever keeps step best.
    fn rank(&self) -> f64 {
        let verdict = match self.verdict {
            Verdict::Periodic => 3.0,
            Verdict::Tentative => 2.0,
            Verdict::NotPeriodic => 1.0,
            Verdict::InsufficientData => 0.0,
        };
        verdict + 0.9 * self.acf.unwrap_or(0.0).clamp(0.0, 1.0) * self.step_share()
    }

    /// Onsets that keep step, of those that there are and of those that there should be, whichever is less.
    fn step_share(&self) -> f64 {
        let expected = self.cycles.unwrap_or(0.0).floor().max(self.onsets as f64).max(1.0);
        (self.in_step as f64 / expected).min(1.0)
    }
}

impl Candidate {
    fn of(bytes: &[u64], dt_s: f64) -> Candidate {
        let logs: Vec<f64> = bytes.iter().map(|b| (*b as f64 / 1024.0).ln_1p()).collect();
        let runs = runs_of(&logs);
        let onsets = onset_slots(runs.iter().map(|r| (r.first, r.values.len())));
        let mut result = nothing(onsets.into_iter().map(|i| i as f64 * dt_s).collect(), dt_s);
        let peak = if result.onsets < 3 { None } else { Peak::of(&autocorrelation(&logs, logs.len() / 3)) };
        if let Some(peak) = &peak {
            result.acf = Some(peak.height);
            result.cycles = Some(logs.len() as f64 / peak.lag);
            fit(&mut result, peak.lag * dt_s);
        }
        Candidate { logs, runs, peak, result }
    }

    /// How much a test is worth.
    fn promise(&self) -> f64 {
        self.result.acf.unwrap_or(0.0) * self.result.step_share()
    }

    /// The test against chance; `tests` are made in all.
    fn tested(mut self, tests: f64) -> Candidate {
        let Some(peak) = &self.peak else { return self };
        let p = p_value(&self.logs, &self.runs, self.logs.len() / 3, peak.highest);
        self.result.p_value = p.map(|p| (p * tests).min(1.0));
        let significant = self.result.p_value.is_some_and(|p| p <= ALPHA) && peak.height >= 0.1;
        // A peak without onsets that keep step is the shadow of one run upon another.
        let in_step = self.result.step_share() >= 0.5 && self.result.in_step >= 3;
        let cycles = self.logs.len() as f64 / peak.lag;
        self.result.verdict = match (significant && in_step, cycles) {
            (false, _) => Verdict::NotPeriodic,
            (true, c) if c >= 5.0 && self.result.in_step >= 5 => Verdict::Periodic,
            (true, c) if c >= 3.0 => Verdict::Tentative,
            (true, _) => Verdict::InsufficientData,
        };
        self
    }

    /// What the onsets alone say. They may overrule a doubt, not a denial for want of data.
    fn with_second_opinion(self) -> Periodicity {
        let (slots, mut result) = (self.logs.len(), self.result);
        if result.onsets < LEAST_ONSETS {
            return result;
        }
        let transform = Transform::new(slots);
        let Some(peak) = power_of(&self.runs, slots, &transform) else { return result };
        let dt_s = result.slot_s;
        result.onset_period_s = Some(peak.period * dt_s);
        result.onset_power = Some(peak.power);
        result.onset_p_value = chance(&self.logs, &self.runs, |_, at| {
            power_at(at, slots, &transform).is_some_and(|p| p.highest >= peak.highest * (1.0 - 1e-9))
        });
        if result.verdict != Verdict::NotPeriodic || result.onset_p_value.is_none_or(|p| p > ALPHA / 2.0) {
            return result;
        }
        let mut by_onsets = result.clone();
        by_onsets.cycles = Some(slots as f64 / peak.period);
        fit(&mut by_onsets, peak.period * dt_s);
        if by_onsets.step_share() < 0.5 || by_onsets.in_step < 5 {
            return result;
        }
        by_onsets.p_value = by_onsets.onset_p_value;
        by_onsets.verdict = Verdict::Tentative;
        by_onsets
    }
}

/// The onsets' highest power, at periods of five slots to a third of the series; `None` for fewer than five onsets.
fn power_of(runs: &[Run], slots: usize, transform: &Transform) -> Option<PowerPeak> {
    power_at(&onset_slots(runs.iter().map(|r| (r.first, r.values.len()))), slots, transform)
}

fn power_at(onsets: &[usize], slots: usize, transform: &Transform) -> Option<PowerPeak> {
    if onsets.len() < LEAST_ONSETS {
        return None;
    }
    let mut comb = vec![Some(0.0); slots];
    onsets.iter().for_each(|i| comb[*i] = Some(1.0));
    transform.lomb_scargle(&comb).peak(5.0, slots as f64 / 3.0)
}

fn nothing(onsets_s: Vec<f64>, slot_s: f64) -> Periodicity {
    let gaps: Vec<f64> = onsets_s.windows(2).map(|w| w[1] - w[0]).collect();
    let stats = mean_sd(&gaps);
    Periodicity {
        verdict: Verdict::InsufficientData,
        slot_s,
        period_s: None,
        period_ci_s: None,
        acf: None,
        p_value: None,
        onset_period_s: None,
        onset_power: None,
        onset_p_value: None,
        cycles: None,
        onsets: onsets_s.len(),
        in_step: 0,
        gap_mean_s: stats.map(|s| s.0),
        gap_cv: stats.map(|s| s.1 / s.0),
        gap_mad_s: median(&mut gaps.clone()).map(|m| mad(&gaps, m)),
        onsets_s,
    }
}

/// Runs of slots above what is usual: above zero if most slots are empty, else three robust deviations above the median.
fn runs_of(logs: &[f64]) -> Vec<Run> {
    let usual = median(&mut logs.to_vec()).unwrap_or(0.0);
    let threshold = if usual > 0.0 { usual + 3.0 * 1.4826 * mad(logs, usual) } else { 0.0 };
    let mut runs: Vec<Run> = Vec::new();
    for (i, v) in logs.iter().enumerate().filter(|(_, v)| **v > threshold) {
        match runs.last_mut() {
            Some(run) if run.first + run.values.len() == i => run.values.push(*v),
            _ => runs.push(Run { first: i, values: vec![*v] }),
        }
    }
    runs
}

/// Where activity begins after at least three quiet slots: what follows more closely belongs to the same breath. Runs
/// are (first slot, slots).
fn onset_slots(runs: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut quiet_from = None;
    let mut onsets = Vec::new();
    for (first, slots) in runs {
        if quiet_from.is_none_or(|end| first >= end + 3) {
            onsets.push(first);
        }
        quiet_from = Some(first + slots);
    }
    onsets
}

/// A peak of an autocorrelation.
struct Peak {
    /// In slots, refined.
    lag: f64,
    /// Correlation there.
    height: f64,
    /// The highest correlation of all: the statistic that chance is asked to match.
    highest: f64,
}

impl Peak {
    /// The highest interior peak after the first zero crossing and from lag 5 on; a divisor of its lag with at least 0.8
    /// of its height is the true period.
    fn of(acf: &[f64]) -> Option<Peak> {
        let from = acf.iter().position(|r| *r <= 0.0)?.max(5);
        let peaks: Vec<usize> = (from.max(1)..acf.len().saturating_sub(1))
            .filter(|k| acf[*k] >= acf[k - 1] && acf[*k] > acf[k + 1])
            .collect();
        let best = *peaks.iter().max_by(|a, b| acf[**a].total_cmp(&acf[**b]))?;
        if acf[best] <= 0.0 {
            return None;
        }
        let divides = |k: usize| {
            let times = (best as f64 / k as f64).round();
            times >= 2.0 && (best as f64 - times * k as f64).abs() <= 0.1 * k as f64
        };
        let first = peaks.iter().copied().find(|k| divides(*k) && acf[*k] >= 0.8 * acf[best]).unwrap_or(best);
        Some(Peak { lag: refined(acf, first), height: acf[first], highest: acf[best] })
    }
}

/// Top of the parabola through a peak and its neighbours.
fn refined(acf: &[f64], k: usize) -> f64 {
    let (a, b, c) = (acf[k - 1], acf[k], acf[k + 1]);
    let curvature = a - 2.0 * b + c;
    k as f64 + if curvature < 0.0 { 0.5 * (a - c) / curvature } else { 0.0 }
}

/// The share of random placements whose highest correlation reaches `observed`.
fn p_value(logs: &[f64], runs: &[Run], max_lag: usize, observed: f64) -> Option<f64> {
    let mut correlator = Correlator::new(logs.len(), max_lag);
    chance(logs, runs, |placed, _| Peak::of(&correlator.autocorrelation(placed)).map_or(0.0, |p| p.highest) >= observed)
}

/// The share of random placements of the runs that do as well, judged by the series and by its onsets. Stops early when
/// chance does it easily (Besag and Clifford's sequential p-value).
fn chance(logs: &[f64], runs: &[Run], mut as_well: impl FnMut(&[f64], &[usize]) -> bool) -> Option<f64> {
    let active: usize = runs.iter().map(|r| r.values.len()).sum();
    let idle = logs.len().checked_sub(active)?;
    let background = logs.iter().sum::<f64>() - runs.iter().flat_map(|r| &r.values).sum::<f64>();
    let background = if idle > 0 { background / idle as f64 } else { return None };
    let mut lot = Shuffler::new(0x5eed_0a15);
    let mut order: Vec<&Run> = runs.iter().collect();
    let mut did = 0;
    for tried in 1..=PLACEMENTS {
        lot.shuffle(&mut order);
        let before = lot.choose(idle + 1, order.len());
        // Each run comes after the idle slots and the runs before it.
        let mut earlier = 0;
        let placed_runs = order.iter().zip(&before).map(|(run, at)| {
            let first = at + earlier;
            earlier += run.values.len();
            (first, run.values.len())
        });
        let onsets = onset_slots(placed_runs);
        did += usize::from(as_well(&place(&order, &before, idle, background), &onsets));
        if did == ENOUGH {
            return Some(ENOUGH as f64 / tried as f64);
        }
    }
    Some((1 + did) as f64 / (1 + PLACEMENTS) as f64)
}

/// Puts the runs in this order among `idle` quiet slots, run `i` before quiet slot `before[i]` (or after the last). At
/// least one is quiet between two, as between those that were observed.
fn place(order: &[&Run], before: &[usize], idle: usize, background: f64) -> Vec<f64> {
    let mut placed = Vec::with_capacity(idle + order.iter().map(|r| r.values.len()).sum::<usize>());
    let mut used = 0;
    for (run, at) in order.iter().zip(before) {
        placed.extend(std::iter::repeat_n(background, at - used));
        used = *at;
        placed.extend(&run.values);
    }
    placed.extend(std::iter::repeat_n(background, idle - used));
    placed
}

/// Fits `onset = a + period * cycle` to the onsets that keep step with `period_s`, and judges the fit by leaving out one
/// at a time.
fn fit(result: &mut Periodicity, period_s: f64) {
    // Any of the first onsets may be the one out of step.
    let chain = (0..result.onsets_s.len().min(20))
        .map(|i| in_step(&result.onsets_s[i..], period_s))
        .max_by_key(Vec::len)
        .unwrap_or_default();
    result.in_step = chain.len();
    result.period_s = Some(period_s);
    if chain.len() < 5 {
        return;
    }
    let chain = unbroken(&chain, result.slot_s);
    let Some(period) = slope(&chain, None) else { return };
    result.period_s = Some(period);
    let n = chain.len() as f64;
    let left_out: Vec<f64> = (0..chain.len()).filter_map(|i| slope(&chain, Some(i))).collect();
    if let Some((_, sd)) = mean_sd(&left_out) {
        let error = sd * (n - 1.0) / n.sqrt();
        result.period_ci_s = Some((period - 1.96 * error, period + 1.96 * error));
    }
}

/// (cycle, onset) of the onsets that come a whole number of periods after the one before, give or take a quarter.
fn in_step(onsets: &[f64], period_s: f64) -> Vec<(f64, f64)> {
    let Some(first) = onsets.first() else { return Vec::new() };
    let mut chain = vec![(0.0, *first)];
    let (mut cycle, mut last) = (0.0, *first);
    for t in &onsets[1..] {
        let periods = (t - last) / period_s;
        if periods.round() >= 1.0 && (periods - periods.round()).abs() <= 0.25 {
            cycle += periods.round();
            last = *t;
            chain.push((cycle, *t));
        }
    }
    chain
}

/// An onset that keeps step: its cycle, its time, and the stretch without a slip to which it belongs.
#[derive(Clone, Copy)]
struct Beat {
    cycle: f64,
    at_s: f64,
    stretch: usize,
}

/// Clocks that something sets back (a forced commit restarts the journal's timer) keep their period and slip in phase.
/// A step that lies more than six robust deviations off begins a new stretch; steady jitter never does, nor does what
/// slots of `slot_s` round to one slot more or less.
fn unbroken(chain: &[(f64, f64)], slot_s: f64) -> Vec<Beat> {
    let step = |w: &[(f64, f64)]| (w[1].1 - w[0].1) / (w[1].0 - w[0].0);
    let steps: Vec<f64> = chain.windows(2).map(step).collect();
    let usual = median(&mut steps.clone()).unwrap_or(0.0);
    // Equal steps have no spread at all.
    let most = (6.0 * 1.4826 * mad(&steps, usual)).max(0.1 * usual).max(1.5 * slot_s);
    let mut stretch = 0;
    let mut beats = Vec::with_capacity(chain.len());
    for (i, (cycle, at_s)) in chain.iter().enumerate() {
        if i > 0 && (steps[i - 1] - usual).abs() > most {
            stretch += 1;
        }
        beats.push(Beat { cycle: *cycle, at_s: *at_s, stretch });
    }
    beats
}

/// Least squares slope over all stretches, each with its own phase, without beat `skip`.
fn slope(beats: &[Beat], skip: Option<usize>) -> Option<f64> {
    let (mut xx, mut xy) = (0.0, 0.0);
    let last = beats.last()?.stretch;
    for stretch in 0..=last {
        let kept =
            || beats.iter().enumerate().filter(|(i, b)| Some(*i) != skip && b.stretch == stretch).map(|(_, b)| b);
        let n = kept().count() as f64;
        let (mx, my) = kept().fold((0.0, 0.0), |m, b| (m.0 + b.cycle / n, m.1 + b.at_s / n));
        xx += kept().map(|b| (b.cycle - mx).powi(2)).sum::<f64>();
        xy += kept().map(|b| (b.cycle - mx) * (b.at_s - my)).sum::<f64>();
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of two slots at the given slots, each of another size.
    fn series(n: usize, at: impl IntoIterator<Item = usize>) -> Vec<u64> {
        let mut bytes = vec![0; n];
        for (i, slot) in at.into_iter().enumerate() {
            bytes[slot..(slot + 2).min(n)].fill((1 << 20) + (i as u64 * 7919 % 13) * 10_000);
        }
        bytes
    }

    #[test]
    fn a_clock_is_found_to_a_hundredth() {
        for period in [7usize, 25, 51, 130] {
            let p = find(&series(2000, (0..2000 / period).map(|k| k * period + 3)), 0.1);
            assert_eq!(p.verdict, Verdict::Periodic, "{period}: {p:?}");
            let expected = period as f64 * 0.1;
            assert!((p.period_s.expect("found") - expected).abs() < 0.01 * expected, "{period}: {p:?}");
        }
    }

    #[test]
    fn jitter_of_a_fifth_costs_less_than_a_hundredth() {
        let mut lot = Shuffler::new(3);
        let at: Vec<usize> = (0..20).map(|k| k * 50 + lot.below(10) as usize).collect();
        let p = find(&series(1000, at), 0.1);
        assert_eq!(p.verdict, Verdict::Periodic, "{p:?}");
        assert!((p.period_s.expect("found") - 5.0).abs() < 0.05, "{p:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_once_keeps_its_period() {
        // A journal on a real disk: commits every 5.07 s, one of them forced after 3.96 s.
        let mut at = 392;
        let mut onsets = vec![at];
        for k in 0..16 {
            at += if k == 6 { 396 } else { 506 + k % 3 };
            onsets.push(at);
        }
        let p = find(&series(9000, onsets), 0.01);
        assert_eq!(p.verdict, Verdict::Periodic, "{p:?}");
        assert!((p.period_s.expect("found") - 5.07).abs() < 0.02, "{p:?}");
    }

    #[test]
    fn three_periods_are_tentative_and_two_are_nothing() {
        let four = find(&series(400, (0..4).map(|k| 20 + k * 100)), 0.1);
        assert!(matches!(four.verdict, Verdict::Tentative | Verdict::NotPeriodic), "{four:?}");
        assert_eq!(find(&series(100, [10, 60]), 0.1).verdict, Verdict::InsufficientData);
        assert_eq!(find(&[], 0.1).verdict, Verdict::InsufficientData);
        assert_eq!(find(&[5; 1000], 0.1).verdict, Verdict::InsufficientData);
    }

    #[test]
    fn bursts_at_random_are_not_a_clock() {
        let mut periodic = 0;
        for seed in 0..100 {
            let mut lot = Shuffler::new(seed);
            let at: Vec<usize> = (0..20).map(|_| lot.below(998) as usize).collect();
            periodic += usize::from(find(&series(1000, at), 0.1).verdict == Verdict::Periodic);
        }
        assert!(periodic <= 5, "{periodic} of 100");
    }

    /// Poisson bursts of 1 to 4 slots in a long silence.
    fn poisson_bursts(seed: u64) -> Vec<u64> {
        let mut lot = Shuffler::new(seed);
        let mut bytes = vec![0; 1000];
        for _ in 0..25 {
            let at = lot.below(996) as usize;
            let len = 1 + lot.below(4) as usize;
            bytes[at..at + len].iter_mut().for_each(|b| *b = 1 + lot.below(1 << 20));
        }
        bytes
    }

    #[test]
    fn chance_has_uniform_p_values() {
        // Kolmogorov and Smirnov, 1 %; sequential p-values are uniform up to their own steps.
        let found: Vec<Periodicity> = (0..100).map(|seed| find_at(&poisson_bursts(seed), 0.1)).collect();
        for p_of in [|p: &Periodicity| p.p_value, |p: &Periodicity| p.onset_p_value] {
            let mut p: Vec<f64> = found.iter().filter_map(p_of).collect();
            p.sort_by(f64::total_cmp);
            assert!(p.len() >= 90, "{}", p.len());
            let n = p.len() as f64;
            let above = p.iter().enumerate().map(|(i, p)| (i as f64 + 1.0) / n - p).fold(0.0, f64::max);
            let below = p.iter().enumerate().map(|(i, p)| p - i as f64 / n).fold(0.0, f64::max);
            assert!(above.max(below) <= 1.63 / n.sqrt(), "too small by {above}, too large by {below}, n {n}");
        }
    }

    #[test]
    fn both_opinions_agree_on_a_clock() {
        let p = find(&series(1000, (0..20).map(|k| 7 + k * 50)), 0.1);
        assert!((p.onset_period_s.expect("onsets") - 5.0).abs() < 0.05, "{p:?}");
        assert!(p.onset_p_value.expect("tested") <= ALPHA, "{p:?}");
    }
}
