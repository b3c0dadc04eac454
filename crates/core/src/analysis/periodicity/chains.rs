//! A15: chains of onsets that keep a clock's time, and their evidence against onsets at random.

use std::sync::LazyLock;

use crate::analysis::math::stats::{mad, mean_sd, median};
use crate::analysis::periodicity::{ALPHA, Clock, MIN_ONSETS};

/// Onsets looked at together; longer lists are cut into at most [`MAX_PIECES`] such pieces.
const PIECE: usize = 1024;
const MAX_PIECES: usize = 4;

/// A chain shorter than this share of the time looked at, or a third of it of the whole window, is not a schedule.
const MIN_SPAN: f64 = 0.15;

/// Half widths of the window in which a beat is awaited, as shares of the period; the first only for few onsets.
const JITTERS: [f64; 5] = [0.005, 0.02, 0.05, 0.12, 0.25];

/// Evidence for each period that passes. Submissions at intervals that are merely not exponential (after a pause, one at a time)
/// give long chains of little evidence each.
const BEAT: f64 = 0.5;

/// Independent beginnings and periods, for each that is counted: neighbours share most of their chains. Calibrated on Poisson
/// streams, bursts at random, and on-off streams (`make calibrate`).
const TRIALS: f64 = 0.1;

/// Probability that a clock's beat comes inside its window.
const KEPT: f64 = 0.9;

/// With less than this share of the evidence that is needed, a period's neighbourhood is not looked at more closely.
const PROMISING: f64 = 0.4;

/// One look for the surest clock.
pub(in crate::analysis) struct Search<'a> {
    pub shortest_ns: i64,
    pub resolution_ns: i64,
    pub window: (i64, i64),
    pub known: &'a [Clock],
}

/// The best end of a chain: its evidence, where it ends, and with which period and half width.
#[derive(Clone, Copy)]
struct Best {
    evidence: f64,
    end: usize,
    period: f64,
    half: f64,
}

impl Search<'_> {
    fn len_ns(&self) -> f64 {
        (self.window.1 - self.window.0) as f64
    }

    /// The surest chain of onsets in any of `lists`, each in order.
    pub fn best(&self, lists: &[Vec<i64>]) -> Option<Clock> {
        let (mut trials, mut found): (f64, Option<(Best, &[i64])>) = (0.0, None);
        for list in lists.iter().filter(|l| l.len() >= MIN_ONSETS) {
            let pieces = list.len().div_ceil(PIECE);
            for piece in list.chunks(PIECE).step_by(pieces.div_ceil(MAX_PIECES)).filter(|p| p.len() >= MIN_ONSETS) {
                let times: Vec<f64> = piece.iter().map(|t| *t as f64).collect();
                let (best, tried) = self.best_of(piece, &times);
                trials += tried;
                if let Some(best) = best.filter(|b| found.is_none_or(|f| b.evidence > f.0.evidence)) {
                    found = Some((best, piece));
                }
            }
        }
        let (best, onsets) = found?;
        let times: Vec<f64> = onsets.iter().map(|t| *t as f64).collect();
        let mut chains = Chains::of(&times);
        chains.follow(best.period, best.half);
        self.clock(&chains.chain(best.end), best, trials)
    }

    fn best_of(&self, onsets: &[i64], times: &[f64]) -> (Option<Best>, f64) {
        let span = (onsets[onsets.len() - 1] - onsets[0]) as f64;
        let mean_gap = span / (onsets.len() - 1) as f64;
        let shortest = (0.25 * mean_gap).max(self.shortest_ns as f64);
        let longest = (10.0 * mean_gap).min(span / 3.0);
        let (mut trials, mut best): (f64, Option<Best>) = (0.0, None);
        if shortest >= longest {
            return (None, 0.0);
        }
        let differences = Differences::of(onsets, shortest, longest);
        let mut chains = Chains::of(times);
        for jitter in JITTERS.into_iter().filter(|j| *j > JITTERS[0] || onsets.len() <= 256) {
            // All periods were there to be chosen, whether looked at closely or not; half widths overlap.
            trials += TRIALS * onsets.len() as f64 * (longest / shortest).ln() / jitter;
            let promising = PROMISING * (trials / ALPHA).ln();
            for middle in differences.candidates(jitter) {
                let around = [0.0, -0.4, 0.4].map(|off| middle * (1.0 + off * jitter));
                for period in around.into_iter().filter(|p| self.known.iter().all(|c| !c.is_like(p / 1e9))) {
                    let half = (jitter * period).max(0.6 * self.resolution_ns as f64);
                    chains.follow(period, half);
                    let (evidence, end) = chains.best();
                    let long = || {
                        let length = chains.span(end);
                        let least = (2.5 * period).max(MIN_SPAN * span).max(MIN_SPAN / 3.0 * self.len_ns());
                        length >= least && evidence >= BEAT * length / period
                    };
                    if best.is_none_or(|b| evidence > b.evidence) && evidence > 0.0 && long() {
                        best = Some(Best { evidence, end, period, half });
                    }
                    // Of a clock the first of the three has most of the evidence already, unless its window is no wider
                    // than a step between periods.
                    if evidence < promising && jitter > JITTERS[0] {
                        break;
                    }
                }
            }
        }
        (best, trials)
    }

    /// Its period is fitted to its beats, with a jackknife over them for the interval.
    fn clock(&self, chain: &[(f64, f64)], best: Best, trials: f64) -> Option<Clock> {
        let (first, last) = (chain.first()?, chain.last()?);
        let beats = unbroken(chain, self.resolution_ns as f64);
        let period = slope(&beats, None).filter(|_| chain.len() >= 5).unwrap_or(best.period);
        let steps: Vec<f64> = chain.windows(2).map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0)).collect();
        let left_out: Vec<f64> = (0..chain.len()).filter_map(|i| slope(&beats, Some(i))).collect();
        let n = chain.len() as f64;
        let interval = mean_sd(&left_out).filter(|_| chain.len() >= 5).map(|(_, sd)| {
            let error = sd * (n - 1.0) / n.sqrt();
            ((period - 1.96 * error) / 1e9, (period + 1.96 * error) / 1e9)
        });
        let seconds = |ns: f64| (ns - self.window.0 as f64) / 1e9;
        Some(Clock {
            period_s: period / 1e9,
            period_ci_s: interval,
            p_value: (trials * (-best.evidence).exp()).clamp(1e-12, 1.0),
            cycles: (last.1 - first.1) / period,
            in_step: chain.len(),
            jitter: mean_sd(&steps).map_or(0.0, |s| s.1 / period),
            from_s: seconds(first.1),
            to_s: seconds(last.1),
            beats_s: chain.iter().map(|c| seconds(c.1)).collect(),
        })
    }
}

/// How often onsets are apart by how much, in steps of 1 %: periods stand out.
struct Differences {
    shortest: f64,
    /// Pairs up to each step, and those that chance has in each.
    sums: Vec<f64>,
    expected: Vec<f64>,
    /// So many standard deviations more than by chance make a candidate.
    least_excess: f64,
}

/// Among many onsets most periods have 2 standard deviations more pairs than others; those of a clock that lasts have 3.
const MANY_ONSETS: usize = 256;

/// Logarithms of the mantissas from 1 to 2, a thousandth apart.
static LOGARITHMS: LazyLock<Vec<f64>> =
    LazyLock::new(|| (0..1024).map(|i| ((f64::from(i) + 0.5) / 1024.0).ln_1p()).collect());

/// The natural logarithm of `x` > 0 to 0.0005: steps of 1 % need no more, and there are many pairs.
fn near_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    exponent * std::f64::consts::LN_2 + LOGARITHMS[(bits >> 42) as usize & 1023]
}

impl Differences {
    const STEP: f64 = 0.01;

    fn of(onsets: &[i64], shortest: f64, longest: f64) -> Differences {
        let steps = ((longest / shortest).ln() / Self::STEP) as usize + 60;
        let mut sums = vec![0.0; steps + 1];
        let most = longest * 1.3;
        for (i, a) in onsets.iter().enumerate() {
            for b in &onsets[i + 1..] {
                let apart = (b - a) as f64;
                if apart > most {
                    break;
                }
                let step = near_ln(apart / shortest) / Self::STEP + 30.0;
                if step >= 0.0 && (step as usize) < steps {
                    sums[step as usize + 1] += 1.0;
                }
            }
        }
        (0..steps).for_each(|i| sums[i + 1] += sums[i]);
        let (n, span) = (onsets.len() as f64, (onsets[onsets.len() - 1] - onsets[0]) as f64);
        let per_ns = n * (n - 1.0) / span;
        let expected = (0..steps).map(|i| Self::STEP * per_ns * Self::apart(shortest, i as f64)).collect();
        let least_excess = if onsets.len() > MANY_ONSETS { 3.0 } else { 2.0 };
        Differences { shortest, sums, expected, least_excess }
    }

    /// The middle of step `i`, in nanoseconds.
    fn apart(shortest: f64, i: f64) -> f64 {
        shortest * ((i - 29.5) * Self::STEP).exp()
    }

    /// The periods at which, give or take `jitter`, most more pairs are apart than chance would have it.
    fn candidates(&self, jitter: f64) -> Vec<f64> {
        let wide = ((jitter / Self::STEP).round() as usize).max(1);
        let steps = self.sums.len() - 1;
        let around = |i: usize| (i.saturating_sub(wide), (i + wide + 1).min(steps));
        let excess = |i: usize| {
            let (from, to) = around(i);
            let expected = self.expected[i] * (to - from) as f64;
            (self.sums[to] - self.sums[from] - expected) / expected.max(0.25).sqrt()
        };
        // Where in the window the differences lie that are too many: those of an exact clock at any place of it.
        let middle = |i: usize| {
            let (from, to) = around(i);
            let more = |b: usize| (self.sums[b + 1] - self.sums[b] - self.expected[b]).max(0.0);
            let sum: f64 = (from..to).map(more).sum();
            if sum > 0.0 { (from..to).map(|b| b as f64 * more(b)).sum::<f64>() / sum } else { i as f64 }
        };
        let z: Vec<f64> = (0..steps).map(excess).collect();
        let is_top = |i: &usize| z[*i] >= self.least_excess && z[*i] >= z[i - 1] && z[*i] > z[i + 1];
        let mut tops: Vec<usize> = (30..steps.saturating_sub(30)).filter(is_top).collect();
        tops.sort_by(|a, b| z[*b].total_cmp(&z[*a]));
        let mut chosen: Vec<usize> = Vec::new();
        for i in tops {
            if chosen.len() < 5 && chosen.iter().all(|c| c.abs_diff(i) > wide.max(2)) {
                chosen.push(i);
            }
        }
        chosen.into_iter().map(|i| Self::apart(self.shortest, middle(i))).collect()
    }
}

/// The best chain that ends at each onset, for one period: evidence, the onset before it, and how many periods earlier.
struct Chains<'a> {
    onsets: &'a [f64],
    evidence: Vec<f64>,
    steps: Vec<Step>,
    /// What a beat adds, by how many onsets came within the last five periods.
    gains: Vec<Option<[f64; 3]>>,
}

#[cfg(test)]
thread_local! {
    /// Onsets looked at for one period or another: what the search costs.
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How a chain came to an onset: from which one, how many periods earlier (0: it begins here), and where it began.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    first: u32,
    periods: u8,
}

impl<'a> Chains<'a> {
    fn of(onsets: &'a [f64]) -> Chains<'a> {
        Chains { onsets, evidence: Vec::new(), steps: Vec::new(), gains: Vec::new() }
    }

    fn follow(&mut self, period: f64, half: f64) {
        let Chains { onsets, evidence, steps, gains: known } = self;
        #[cfg(test)]
        LOOKED_AT.with(|n| n.set(n.get() + onsets.len()));
        let n = onsets.len();
        let mean_rate = n as f64 / (onsets[n - 1] - onsets[0]).max(1.0);
        let wide = [1.0f64, 2.0, 3.0].map(|k| half * k.sqrt());
        // A beat in each window.
        let gains = |recent: usize| {
            let rate = mean_rate.max(recent as f64 / (5.0 * period));
            let mut missed = 0.0;
            wide.map(|wide| {
                let by_chance = 1.0 - (-2.0 * wide * rate).exp();
                let gain = (KEPT / by_chance).ln() + missed;
                missed += ((1.0 - KEPT) / (1.0 - by_chance).max(1e-9)).ln().min(0.0);
                gain
            })
        };
        evidence.clear();
        steps.clear();
        known.clear();
        let (mut recent, mut from) = (0, [0usize; 3]);
        for (j, t) in onsets.iter().enumerate() {
            while t - onsets[recent] > 5.0 * period {
                recent += 1;
            }
            if known.len() <= j - recent {
                known.resize(j - recent + 1, None);
            }
            let gain = *known[j - recent].get_or_insert_with(|| gains(j - recent));
            let (mut best, mut step) = (0.0, Step { from: j as u32, first: j as u32, periods: 0 });
            for (k, from) in from.iter_mut().enumerate() {
                let middle = t - (k + 1) as f64 * period;
                let (earliest, latest) = (middle - wide[k], middle + wide[k]);
                while *from < j && onsets[*from] < earliest {
                    *from += 1;
                }
                for i in (*from..j).take_while(|i| onsets[*i] <= latest) {
                    if evidence[i] + gain[k] > best {
                        best = evidence[i] + gain[k];
                        step = Step { from: i as u32, first: steps[i].first, periods: k as u8 + 1 };
                    }
                }
            }
            evidence.push(best);
            steps.push(step);
        }
    }

    /// Most evidence, and the onset that its chain ends at.
    fn best(&self) -> (f64, usize) {
        let better = |a: (f64, usize), (i, e): (usize, &f64)| if *e > a.0 { (*e, i) } else { a };
        self.evidence.iter().enumerate().fold((0.0, 0), better)
    }

    /// Nanoseconds from the first to the last onset of the chain that ends at `end`.
    fn span(&self, end: usize) -> f64 {
        self.onsets[end] - self.onsets[self.steps[end].first as usize]
    }

    /// (cycle, time in ns) of the chain that ends at `end`, in order.
    fn chain(&self, end: usize) -> Vec<(f64, f64)> {
        let (mut at, mut cycle) = (end, 0.0);
        let mut chain = vec![(0.0, self.onsets[end])];
        while self.steps[at].periods > 0 {
            cycle -= f64::from(self.steps[at].periods);
            at = self.steps[at].from as usize;
            chain.push((cycle, self.onsets[at]));
        }
        chain.reverse();
        chain
    }
}

/// An onset that keeps step: its cycle, its time, and the stretch without a slip to which it belongs.
#[derive(Clone, Copy)]
struct Beat {
    cycle: f64,
    at: f64,
    stretch: usize,
}

/// Clocks that something sets back (a forced commit restarts the journal's timer) keep their period and slip in phase.
/// A step that lies more than six robust deviations off begins a new stretch; steady jitter never does, nor does what
/// times of this `resolution` round to one more or less.
fn unbroken(chain: &[(f64, f64)], resolution: f64) -> Vec<Beat> {
    let step = |w: &[(f64, f64)]| (w[1].1 - w[0].1) / (w[1].0 - w[0].0);
    let steps: Vec<f64> = chain.windows(2).map(step).collect();
    let usual = median(&mut steps.clone()).unwrap_or(0.0);
    // Equal steps have no spread at all.
    let most = (6.0 * 1.4826 * mad(&steps, usual)).max(0.1 * usual).max(1.5 * resolution);
    let mut stretch = 0;
    let mut beats = Vec::with_capacity(chain.len());
    for (i, (cycle, at)) in chain.iter().enumerate() {
        if i > 0 && (steps[i - 1] - usual).abs() > most {
            stretch += 1;
        }
        beats.push(Beat { cycle: *cycle, at: *at, stretch });
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
        let (mx, my) = kept().fold((0.0, 0.0), |m, b| (m.0 + b.cycle / n, m.1 + b.at / n));
        xx += kept().map(|b| (b.cycle - mx).powi(2)).sum::<f64>();
        xy += kept().map(|b| (b.cycle - mx) * (b.at - my)).sum::<f64>();
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;

    const S: i64 = 1_000_000_000;

    /// (the surest clock's period if it is none of chance, looks at each onset).
    fn search(onsets: Vec<i64>) -> (Option<f64>, f64) {
        let n = onsets.len() as f64;
        LOOKED_AT.with(|n| n.set(0));
        let search = Search { shortest_ns: 20_000_000, resolution_ns: 0, window: (0, 60 * S), known: &[] };
        let clock = search.best(&[onsets]).filter(|c| c.p_value <= ALPHA);
        (clock.map(|c| c.period_s), LOOKED_AT.with(std::cell::Cell::get) as f64 / n)
    }

    #[test]
    fn a_stream_without_a_clock_is_not_looked_at_closely() {
        let mut random = Shuffler::new(3);
        let mut chance: Vec<i64> = (0..1000).map(|_| random.below(60 * S as u64) as i64).collect();
        chance.sort_unstable();
        let (found, looks) = search(chance);
        // Five jitters of at most five candidates with two neighbours each would be 75.
        assert!(found.is_none() && looks <= 35.0, "{found:?}: {looks} looks");
        let jittered = (0..120).map(|i| i * S / 2 + random.below(50_000_000) as i64).collect();
        let (found, _) = search(jittered);
        assert!(found.is_some_and(|p| (p - 0.5).abs() < 0.005), "{found:?}");
    }
}
