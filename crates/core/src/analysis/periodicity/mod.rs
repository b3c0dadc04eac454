//! Periodic load such as flushes, commits and scheduled jobs (A15).
//!
//! Activity begins at *onsets*: a submission after a silence (of various lengths), or a step up in demand. A clock is a chain
//! of onsets, each one period after the one before, up to its jitter, with up to two beats missing. The evidence of a chain is
//! its likelihood ratio against onsets that come at random at their local rate. Whatever period, jitter and start are chosen
//! after the fact, chance reaches a ratio of `x` with a probability of at most `trials / x` (Wald), which is the p-value. A
//! chain may begin late and end early. The onsets of one clock are removed before the next one is searched.
//!
//! A multiple of the period has fewer beats and a divisor misses some: both have less evidence than the period itself.

mod chains;
#[cfg(test)]
mod clock_tests;
mod demand;
mod differences;
mod fit;
mod grid;
mod pacing;
mod search;

use serde::Serialize;

use crate::analysis::math::stats::{mad, mean_sd, median};
use crate::analysis::periodicity::search::Search;
use crate::analysis::stream::requests::Request;

/// Whether load is periodic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "PeriodicityVerdict")
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The load recurs at least five times in this recording, and not by chance.
    Periodic,
    /// The load seems to recur, but only three or four periods were observed.
    Tentative,
    /// The observed onsets can be explained by chance.
    NotPeriodic,
    /// Too few onsets, or too coarse samples, to decide.
    InsufficientData,
}

/// Significance level.
pub const ALPHA: f64 = 0.01;

/// Maximum number of clocks reported of one stream, and maximum number of searches. Some searches find only what is
/// left of a clock that is known already, or nothing.
const MAX_CLOCKS: usize = 4;
const MAX_LOOKS: usize = 12;

/// Minimum length of a clock, as a share of the window; a shorter one is not a schedule.
const MIN_SPAN: f64 = 0.05;

/// A multiple of another clock's period is the same clock. It may be off by this share, or by what would set them a
/// quarter of a period apart over its length.
const LOCKED: f64 = 0.003;

/// Minimum number of onsets to decide anything.
pub(in crate::analysis) const MIN_ONSETS: usize = 4;

/// Minimum period, 20 ms; shorter ones are pacing within a burst.
const MIN_NS: i64 = 20_000_000;

/// A clock is followed over at most two missing beats. A beat may be early or late by at most this share of the period.
const MAX_STEPS: i32 = 3;
const MAX_FOLLOWED: f64 = 0.12;

/// A clock: onsets that are one period apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// The period in seconds.
    pub period_s: f64,
    /// 95 % confidence interval of the period: for a schedule from the line through its beats, for a timer that
    /// starts anew after each beat from its steps.
    pub period_ci_s: Option<(f64, f64)>,
    /// Probability that chance shows such a chain anywhere.
    pub p_value: f64,
    /// Number of periods from its first to its last beat.
    pub cycles: f64,
    /// Number of onsets that are its beats.
    pub onsets_in_step: usize,
    /// Standard deviation of the time between beats, as a share of the period.
    pub jitter: f64,
    /// First beat, in seconds since the start of the window.
    pub first_beat_s: f64,
    /// Last beat, in seconds since the start of the window.
    pub last_beat_s: f64,
    /// All beats, in seconds since the start of the window.
    #[serde(skip)]
    pub beats_s: Vec<f64>,
}

impl Clock {
    /// Whether a period, in seconds, is indistinguishable from its own.
    pub(in crate::analysis) fn is_like(&self, period_s: f64) -> bool {
        (self.period_s - period_s).abs() <= 0.05 * self.period_s
    }

    /// Whether it is the same clock as `other` or a multiple of it, so that they stay together as long as it lasts.
    fn is_multiple_of(&self, other: &Clock) -> bool {
        let times = (self.period_s / other.period_s).round();
        let off_s = (self.period_s - times * other.period_s).abs();
        let apart_s = 0.25 * other.period_s / self.cycles.max(1.0);
        times >= 1.0 && off_s <= apart_s.max(LOCKED * self.period_s) || self.is_like(other.period_s)
    }

    /// Adds the beats of `other`, which is the same clock, if they are at other times. Beats between its own have
    /// another phase: what the clock starts has more than one part.
    fn extend(&mut self, other: Clock, resolution_ns: i64) {
        let is_apart =
            other.last_beat_s < self.first_beat_s || self.last_beat_s < other.first_beat_s;
        if is_apart {
            self.beats_s.extend(other.beats_s);
            self.refit(resolution_ns);
        }
    }

    /// Recomputes period, interval and length from all beats.
    fn refit(&mut self, resolution_ns: i64) {
        self.beats_s.sort_by(f64::total_cmp);
        let beats_ns: Vec<f64> = self.beats_s.iter().map(|s| s * 1e9).collect();
        let fit = fit::fit(&beats_ns, self.period_s * 1e9, resolution_ns as f64);
        self.period_s = fit.period_ns / 1e9;
        self.period_ci_s = fit.interval_ns.map(|(low, high)| (low / 1e9, high / 1e9));
        self.cycles = fit.cycles;
        self.jitter = fit.jitter;
        self.onsets_in_step = self.beats_s.len();
        self.first_beat_s = self.beats_s.first().copied().unwrap_or(self.first_beat_s);
        self.last_beat_s = self.beats_s.last().copied().unwrap_or(self.last_beat_s);
    }

    /// Removes its beats from a list of onsets, and all other onsets that are whole periods away from their
    /// neighbours: they belong to this clock, too.
    fn take_out(&self, list: &mut Vec<i64>, origin_ns: i64, resolution_ns: i64) {
        let near_ns = resolution_ns.max(1_000_000);
        let beats: Vec<i64> = self
            .beats_s
            .iter()
            .map(|s| origin_ns + (s * 1e9).round() as i64)
            .collect();
        let period_ns = self.period_s * 1e9;
        let half_ns = self.half_width_ns(resolution_ns).min(0.05 * period_ns);

        let kept: Vec<i64> = list
            .iter()
            .copied()
            .filter(|t| !is_near(&beats, *t, near_ns) && !is_in_time(list, *t, period_ns, half_ns))
            .collect();
        *list = kept;
    }

    /// How early or late a beat may come, in nanoseconds.
    fn half_width_ns(&self, resolution_ns: i64) -> f64 {
        let period_ns = self.period_s * 1e9;
        (3.0 * self.jitter * period_ns)
            .min(MAX_FOLLOWED * period_ns)
            .max(1.5 * resolution_ns as f64)
            .max(1e6)
    }

    /// Follows the clock beyond the piece of a long list in which it was found. Beats left behind would be found
    /// again as a clock with a multiple of the period.
    fn follow_through(&mut self, lists: &[Vec<i64>], origin_ns: i64, resolution_ns: i64) {
        let Some((first_s, last_s)) = self
            .beats_s
            .first()
            .copied()
            .zip(self.beats_s.last().copied())
        else {
            return;
        };
        let period_ns = self.period_s * 1e9;
        let half_ns = self.half_width_ns(resolution_ns);
        let origin_ns = origin_ns as f64;
        let after = farthest_walk(lists, origin_ns + last_s * 1e9, period_ns, half_ns);
        let before = farthest_walk(lists, origin_ns + first_s * 1e9, -period_ns, half_ns);
        for beat_ns in before.into_iter().chain(after) {
            self.beats_s.push((beat_ns - origin_ns) / 1e9);
        }
        self.refit(resolution_ns);
    }

    /// Whether it repeated often enough to be called periodic.
    pub fn is_periodic(&self) -> bool {
        self.cycles >= 4.5 && self.onsets_in_step > 5
    }
}

/// Periodicity of one stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Periodicity {
    /// The verdict.
    pub verdict: Verdict,
    /// Resolution of the times, in seconds; 0 for single I/Os.
    pub slot_s: f64,
    /// Period of the clock with the most evidence, in seconds.
    pub period_s: Option<f64>,
    /// Its 95 % confidence interval.
    pub period_ci_s: Option<(f64, f64)>,
    /// Autocorrelation of the logarithm of KiB at the period.
    pub acf: Option<f64>,
    /// Probability that chance shows such a chain anywhere.
    pub p_value: Option<f64>,
    /// Number of periods from its first to its last beat.
    pub cycles: Option<f64>,
    /// Number of onsets of activity.
    pub onsets: usize,
    /// Number of these onsets that are its beats.
    pub onsets_in_step: usize,
    /// Mean time between onsets, in seconds.
    pub gap_mean_s: Option<f64>,
    /// Coefficient of variation of the time between onsets.
    pub gap_cv: Option<f64>,
    /// Median absolute deviation of the time between onsets, in seconds.
    pub gap_mad_s: Option<f64>,
    /// All clocks, most evidence first.
    pub clocks: Vec<Clock>,
}

/// Searches for clocks in the submissions inside `window`. Times are multiples of `resolution_ns` (0: exact). In
/// `gaps` I/Os are lost, so that submissions in them are no onsets.
pub fn find(
    requests: &[Request],
    window: (i64, i64),
    resolution_ns: i64,
    gaps: &[(i64, i64)],
) -> Periodicity {
    let mut arrivals: Vec<&Request> = requests
        .iter()
        .filter(|r| window.0 <= r.start_ns && r.start_ns < window.1)
        .collect();
    arrivals.sort_by_key(|r| r.start_ns);
    let high = demand::high_demand(requests, window);
    let mut lists = onset_lists(&high, &arrivals, window, resolution_ns, gaps);
    let mut result = nothing(&lists, resolution_ns);
    let shortest_ns = MIN_NS.max(5 * resolution_ns);
    if result.onsets < MIN_ONSETS || window.1 - window.0 < 5 * shortest_ns {
        return result;
    }
    result.verdict = Verdict::NotPeriodic;
    let search = Search {
        shortest_ns,
        resolution_ns,
        window,
    };
    let (mut found, p_value) = find_clocks(&search, &mut lists);
    result.p_value = p_value;

    // Short runs of beats are not a schedule, and a program that waits between its requests is not a clock.
    let least_s = MIN_SPAN * (window.1 - window.0) as f64 / 1e9;
    found.retain(|clock| {
        let is_long = clock.cycles * clock.period_s >= least_s;
        is_long && !pacing::is_pacing(clock, &arrivals, window.0, resolution_ns)
    });
    found.truncate(MAX_CLOCKS);

    result.clocks = found;
    if let Some(first) = result.clocks.first() {
        result.verdict = if first.is_periodic() {
            Verdict::Periodic
        } else {
            Verdict::Tentative
        };
        result.period_s = Some(first.period_s);
        result.period_ci_s = first.period_ci_s;
        result.cycles = Some(first.cycles);
        result.onsets_in_step = first.onsets_in_step;
        result.acf = correlation_at(&arrivals, window, resolution_ns, first.period_s);
    }
    result
}

/// Finds clocks one after the other: the one with the most evidence among the onsets in `lists`, whose beats are then
/// removed before the next search. Also returns the p-value of the first one, significant or not.
fn find_clocks(search: &Search, lists: &mut [Vec<i64>]) -> (Vec<Clock>, Option<f64>) {
    let origin_ns = search.window.0;
    let resolution_ns = search.resolution_ns;
    let mut found: Vec<Clock> = Vec::new();
    let mut p_value = None;
    for _ in 0..MAX_LOOKS {
        let Some(mut clock) = search.best(lists) else {
            break;
        };
        p_value.get_or_insert(clock.p_value);
        if clock.p_value > ALPHA {
            break;
        }

        clock.follow_through(lists, origin_ns, resolution_ns);
        for list in lists.iter_mut() {
            clock.take_out(list, origin_ns, resolution_ns);
        }

        // A multiple of a period that was found already is the same clock with missing beats.
        if let Some(known) = found.iter_mut().find(|known| clock.is_multiple_of(known)) {
            known.extend(clock, resolution_ns);
        } else if let Some(known) = found.iter_mut().find(|known| known.is_multiple_of(&clock)) {
            // Beats were missing when the longer one was found.
            clock.p_value = clock.p_value.min(known.p_value);
            *known = clock;
        } else {
            found.push(clock);
        }
    }
    (found, p_value)
}

fn nothing(lists: &[Vec<i64>], resolution_ns: i64) -> Periodicity {
    let onsets: &[i64] = lists
        .iter()
        .min_by_key(|l| l.len().abs_diff(100))
        .map_or(&[], Vec::as_slice);
    let gaps: Vec<f64> = onsets
        .windows(2)
        .map(|w| (w[1] - w[0]) as f64 / 1e9)
        .collect();
    let stats = mean_sd(&gaps);
    Periodicity {
        verdict: Verdict::InsufficientData,
        slot_s: resolution_ns as f64 / 1e9,
        period_s: None,
        period_ci_s: None,
        acf: None,
        p_value: None,
        cycles: None,
        onsets: onsets.len(),
        onsets_in_step: 0,
        gap_mean_s: stats.map(|s| s.0),
        gap_cv: stats.map(|s| s.1 / s.0),
        gap_mad_s: median(&mut gaps.clone()).map(|m| mad(&gaps, m)),
        clocks: Vec::new(),
    }
}

/// Lists of onsets by several rules: submissions after a silence of at least 2, 5, 10, ... ms, and starts of high demand.
fn onset_lists(
    high: &[(i64, i64)],
    arrivals: &[&Request],
    window: (i64, i64),
    resolution_ns: i64,
    gaps: &[(i64, i64)],
) -> Vec<Vec<i64>> {
    let mut lists: Vec<Vec<i64>> = Vec::new();
    let begins = high.iter().map(|h| h.0);
    add_list(
        &mut lists,
        begins.filter(|t| !is_in_gap(gaps, *t)).collect(),
    );
    let lengths = (0..).map(|i| [2, 5, 10][i % 3] * 10i64.pow(i as u32 / 3) * 1_000_000);
    for quiet_ns in lengths.take_while(|g| *g <= (window.1 - window.0) / 10) {
        // With rounded times, a silence of up to two steps may be none at all.
        if resolution_ns != 0 && quiet_ns <= 2 * resolution_ns {
            continue;
        }
        let mut last = i64::MIN / 2;
        let mut list = Vec::new();
        for r in arrivals {
            if r.start_ns - last >= quiet_ns && !is_in_gap(gaps, r.start_ns) {
                list.push(r.start_ns);
            }
            last = r.start_ns;
        }
        add_list(&mut lists, list);
    }
    lists
}

/// Whether I/Os are lost at `t`; `gaps` are sorted.
fn is_in_gap(gaps: &[(i64, i64)], t: i64) -> bool {
    let after = gaps.partition_point(|g| g.1 < t);
    gaps.get(after).is_some_and(|g| g.0 <= t)
}

/// Adds a list of onsets, unless it cannot contain a clock or nearly the same list is there already.
fn add_list(lists: &mut Vec<Vec<i64>>, list: Vec<i64>) {
    // Onsets closer than the shortest period would only show its multiples.
    let mut gaps: Vec<f64> = list.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    if median(&mut gaps).is_some_and(|gap| gap < MIN_NS as f64) {
        return;
    }
    let is_new = lists
        .iter()
        .all(|l| l.len().abs_diff(list.len()) * 50 > l.len());
    if list.len() >= MIN_ONSETS && is_new {
        lists.push(list);
    }
}

/// Whether at least two onsets of `list` are one or two periods before or after `t`.
fn is_in_time(list: &[i64], t: i64, period_ns: f64, half_ns: f64) -> bool {
    let mut met = 0;
    for periods in [-2.0, -1.0, 1.0, 2.0] {
        let at = t as f64 + periods * period_ns;
        met += usize::from(nearest_within(list, at, half_ns).is_some());
    }
    met >= 2
}

/// The longest walk through any of `lists`: of several rules for onsets the one that follows the clock farthest.
fn farthest_walk(lists: &[Vec<i64>], from_ns: f64, step_ns: f64, half_ns: f64) -> Vec<f64> {
    let walks = lists
        .iter()
        .map(|list| walk(list, from_ns, step_ns, half_ns));
    walks.max_by_key(Vec::len).unwrap_or_default()
}

/// Times of the onsets found in steps of `step_ns` from `from_ns` on, until [`MAX_STEPS`] steps in a row find none.
fn walk(list: &[i64], from_ns: f64, step_ns: f64, half_ns: f64) -> Vec<f64> {
    let mut at = from_ns;
    let mut beats = Vec::new();
    while let Some(beat) =
        (1..=MAX_STEPS).find_map(|k| nearest_within(list, at + f64::from(k) * step_ns, half_ns))
    {
        at = beat as f64;
        beats.push(at);
    }
    beats
}

/// The element of `sorted` nearest to `at`, if it is within `half_ns`.
fn nearest_within(sorted: &[i64], at: f64, half_ns: f64) -> Option<i64> {
    let after = sorted.partition_point(|t| (*t as f64) < at);
    let around = &sorted[after.saturating_sub(1)..sorted.len().min(after + 1)];
    let mut nearest: Option<(i64, f64)> = None;
    for t in around {
        let off_ns = (*t as f64 - at).abs();
        if off_ns <= half_ns && nearest.is_none_or(|(_, least_ns)| off_ns < least_ns) {
            nearest = Some((*t, off_ns));
        }
    }
    nearest.map(|(t, _)| t)
}

fn is_near(sorted: &[i64], t: i64, near: i64) -> bool {
    let i = sorted.partition_point(|b| *b < t - near);
    sorted.get(i).is_some_and(|b| *b <= t + near)
}

/// Biased autocorrelation of `ln(1 + KiB)` at lag `period_s`, in bins of the resolution, or of a fiftieth of the lag
/// if times are exact.
fn correlation_at(
    arrivals: &[&Request],
    window: (i64, i64),
    resolution_ns: i64,
    period_s: f64,
) -> Option<f64> {
    let lag = if resolution_ns > 0 {
        (period_s * 1e9 / resolution_ns as f64).round().max(1.0)
    } else {
        50.0
    };
    let bin_ns = period_s * 1e9 / lag;
    let bins = ((window.1 - window.0) as f64 / bin_ns) as usize;
    let mut kib = vec![0.0; bins.min(1 << 20)];
    for r in arrivals {
        if let Some(bin) = kib.get_mut(((r.start_ns - window.0) as f64 / bin_ns) as usize) {
            *bin += f64::from(r.bytes) / 1024.0;
        }
    }
    let mean = kib.iter().map(|v: &f64| v.ln_1p()).sum::<f64>() / kib.len().max(1) as f64;
    let x: Vec<f64> = kib.iter().map(|v| v.ln_1p() - mean).collect();
    let square: f64 = x.iter().map(|v| v * v).sum();
    let lagged: f64 = x
        .iter()
        .zip(x.get(lag as usize..)?)
        .map(|(a, b)| a * b)
        .sum();
    (square > 0.0).then(|| lagged / square)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;

    const S: f64 = 1e9;

    /// Bursts of `n` requests, half a millisecond apart, at the given seconds.
    fn bursts(at_s: impl IntoIterator<Item = f64>, n: i64) -> Vec<Request> {
        let at = |s: f64, i: i64| (s * S) as i64 + i * 500_000;
        let request = |start_ns: i64| Request {
            start_ns,
            done_ns: start_ns + 1000,
            bytes: 65_536,
            ios: 1,
        };
        at_s.into_iter()
            .flat_map(|s| (0..n).map(move |i| request(at(s, i))))
            .collect()
    }

    fn uniform(random: &mut Shuffler) -> f64 {
        (random.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn found(requests: &[Request], seconds: f64) -> Periodicity {
        find(requests, (0, (seconds * S) as i64), 0, &[])
    }

    #[test]
    fn a_clock_is_found_to_a_hundredth() {
        for period in [0.06, 0.7, 2.5, 5.1, 13.0] {
            let p = found(
                &bursts(
                    (0..(100.0 / period) as u32).map(|k| 0.3 + f64::from(k) * period),
                    10,
                ),
                100.0,
            );
            assert_eq!(
                (p.verdict, p.clocks.len()),
                (Verdict::Periodic, 1),
                "{period}: {p:?}"
            );
            assert!(
                (p.period_s.expect("found") - period).abs() < 0.01 * period,
                "{period}: {p:?}"
            );
        }
    }

    #[test]
    fn a_clock_of_many_beats_is_one_clock_over_all_of_them() {
        for beats in [1500, 5000, 20_000] {
            let seconds = f64::from(beats);
            let p = found(&bursts((0..beats).map(|k| 0.3 + f64::from(k)), 3), seconds);
            let periods: Vec<f64> = p.clocks.iter().map(|c| c.period_s).collect();
            assert_eq!(periods.len(), 1, "{beats}: {periods:?}");
            let clock = &p.clocks[0];
            assert!((clock.period_s - 1.0).abs() < 1e-6, "{beats}: {periods:?}");
            assert!(
                clock.onsets_in_step as i32 == beats
                    && (clock.cycles - (seconds - 1.0)).abs() < 1e-3,
                "{beats}: {} in step, {} cycles",
                clock.onsets_in_step,
                clock.cycles
            );
        }
    }

    #[test]
    fn jitter_makes_no_period_of_twice_the_length() {
        let mut right = 0;
        let mut wide = 0;
        for seed in 0..24 {
            let mut random = Shuffler::new(seed);
            let mut jittered = |by: f64| -> Vec<f64> {
                (0..29)
                    .map(|k| 0.7 + 2.0 * f64::from(k) + 4.0 * by * (uniform(&mut random) - 0.5))
                    .collect()
            };
            let right_period = |p: &Periodicity| {
                p.verdict == Verdict::Periodic && (p.period_s.unwrap_or(0.0) - 2.0).abs() < 0.04
            };
            right += usize::from(right_period(&found(&bursts(jittered(0.05), 40), 60.0)));
            wide += usize::from(right_period(&found(&bursts(jittered(0.1), 40), 60.0)));
        }
        assert!(right >= 23 && wide >= 22, "{right} and {wide} of 24");
    }

    #[test]
    fn missing_beats_and_one_reset_keep_the_period() {
        let mut random = Shuffler::new(5);
        let kept: Vec<f64> = (0..40)
            .map(|k| 0.5 + 1.5 * f64::from(k))
            .filter(|_| uniform(&mut random) < 0.8)
            .collect();
        let p = found(&bursts(kept, 10), 60.0);
        assert!(
            p.verdict == Verdict::Periodic && (p.period_s.unwrap_or(0.0) - 1.5).abs() < 0.015,
            "{p:?}"
        );
        // A journal on a real disk: commits every 5.07 s, one of them forced after 3.96 s.
        let mut at = 3.92;
        let reset = (0..17).map(|k| {
            at += if k == 7 {
                3.96
            } else {
                5.06 + 0.01 * f64::from(k % 3)
            };
            at
        });
        let p = found(&bursts(reset, 3), 92.0);
        assert!(
            p.verdict == Verdict::Periodic && (p.period_s.unwrap_or(0.0) - 5.07).abs() < 0.03,
            "{p:?}"
        );
    }

    #[test]
    fn a_schedule_that_begins_late_and_a_second_clock_are_found() {
        for seed in 0..4 {
            let mut random = Shuffler::new(seed);
            let mut at: Vec<f64> = (0..60).map(|_| 2600.0 * uniform(&mut random)).collect();
            at.extend((0..180).map(|k| 2702.0 + 5.0 * f64::from(k)));
            at.sort_by(f64::total_cmp);
            let p = found(&bursts(at, 40), 3600.0);
            let first = &p.clocks[0];
            assert!(
                (first.period_s - 5.0).abs() < 0.05 && first.first_beat_s > 2650.0,
                "{seed}: {first:?}"
            );
            let mut two = bursts(
                (0..24).map(|k| 0.3 + 2.5 * f64::from(k) + 0.05 * uniform(&mut random)),
                100,
            );
            two.extend(bursts((0..8).map(|k| 1.1 + 7.3 * f64::from(k)), 100));
            let p = found(&two, 60.0);
            for period in [2.5, 7.3] {
                let has = p
                    .clocks
                    .iter()
                    .any(|c| (c.period_s - period).abs() < 0.02 * period);
                assert!(has, "{seed}: {period} of {:?}", p.clocks);
            }
        }
    }

    #[test]
    fn chance_and_pauses_are_no_clock() {
        let mut periodic = 0;
        for seed in 0..120 {
            let mut random = Shuffler::new(seed);
            let mut exp = |mean: f64| -mean * (1.0 - uniform(&mut random)).ln();
            let mut t = 0.0;
            let mut at = Vec::new();
            while t < 59.0 {
                t += match seed % 4 {
                    0 => exp(2.0),
                    1 => exp(0.02),
                    // One at a time, after a pause.
                    2 => 0.01 + exp(0.005),
                    _ => (0..4).map(|_| exp(0.25)).sum(),
                };
                at.push(t);
            }
            periodic += usize::from(
                found(&bursts(at, 1 + (seed % 3) as i64), 60.0).verdict == Verdict::Periodic,
            );
        }
        assert!(periodic <= 3, "{periodic} of 120");
    }

    #[test]
    fn few_onsets_coarse_samples_and_lost_time_say_nothing() {
        assert_eq!(
            found(&bursts([10.0, 60.0], 10), 100.0).verdict,
            Verdict::InsufficientData
        );
        assert_eq!(found(&[], 100.0).verdict, Verdict::InsufficientData);
        let seconds: Vec<Request> = (0..20)
            .flat_map(|i| Request::spread(i * 1_000_000_000, 1_000_000_000, 1, 5))
            .collect();
        let sampled = find(&seconds, (0, 20_000_000_000), 1_000_000_000, &[]);
        assert_eq!(sampled.verdict, Verdict::InsufficientData);
        let clock = bursts((0..30).map(|k| 0.3 + 2.0 * f64::from(k)), 10);
        let gaps: Vec<(i64, i64)> = (0..30)
            .map(|k| (k * 2_000_000_000, k * 2_000_000_000 + 500_000_000))
            .collect();
        let p = find(&clock, (0, 60_000_000_000), 0, &gaps);
        assert!(p.clocks.is_empty() && p.period_s.is_none(), "{p:?}");
    }
}
