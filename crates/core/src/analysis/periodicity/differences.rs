//! The histogram of distances between onsets; its peaks are the candidate periods.

use std::f64::consts::TAU;
use std::sync::LazyLock;

/// Histogram of the distances between onsets, in steps of 1 %: periods stand out.
pub(in crate::analysis::periodicity) struct Differences {
    shortest: f64,
    /// Cumulative number of pairs, and number expected by chance in each step.
    sums: Vec<f64>,
    expected: Vec<f64>,
    /// Minimum excess of a candidate over chance, in standard deviations.
    least_excess: f64,
}

/// Number of beats that a chain with this period needs to be a clock; `None` if no chain can be one.
pub(in crate::analysis::periodicity) type Needed<'a> = dyn Fn(f64) -> Option<f64> + 'a;

/// With more onsets than this, most periods exceed the others by 2 standard deviations. Those of a lasting clock
/// exceed them by 3.
const MANY_ONSETS: usize = 256;

/// Minimum share of the needed beats that are followed by the next beat: up to two in a row may be missing.
const PAIRED: f64 = 0.3;

/// Maximum number of candidates per half width.
const MAX_CANDIDATES: usize = 5;

/// Minimum of a grid's spectral line, in standard deviations of the pairs' noise. The second value, times the square
/// root of the number of onsets, is half of what beats have that come up to a fifth of the period early or late for
/// the shortest time that makes a schedule.
const LINE: f64 = 4.0;
const LASTING_LINE: f64 = 0.19;
const MAX_LINES: usize = 2;

/// Number of steps on either side with which pairs are compared.
const AROUND: usize = 30;

/// Natural logarithms of mantissas from 1 to 2.
static LOGARITHMS: LazyLock<[f32; 4096]> =
    LazyLock::new(|| std::array::from_fn(|i| ((i as f64 + 0.5) / 4096.0).ln_1p() as f32));

/// `cos(2 pi lag / period)` by the number of steps between them, from [`Differences::BELOW`] steps below on; and its squares.
static COSINES: LazyLock<[Vec<f64>; 2]> = LazyLock::new(|| {
    let mut cosines = Vec::new();
    for i in 0..Differences::BELOW + Differences::ABOVE {
        let periods = ((i as f64 - Differences::BELOW as f64) * Differences::STEP).exp();
        cosines.push((TAU * periods).cos());
    }
    let squares = cosines.iter().map(|c| c * c).collect();
    [cosines, squares]
});

/// The natural logarithm of `x` > 0 to 0.00013: fast, as there are many pairs, and exact enough for equal steps of 1 %.
fn near_ln(x: f64, logarithms: &[f32; 4096]) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    exponent * std::f64::consts::LN_2 + f64::from(logarithms[(bits >> 40) as usize & 4095])
}

/// Sum of products over the shorter length; four at a time, so that the additions can be vectorised.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let n = a.len().min(b.len());
    let fours = a[..n].chunks_exact(4).zip(b[..n].chunks_exact(4));
    let rest = n / 4 * 4..n;
    for (x, y) in fours {
        (0..4).for_each(|k| sums[k] += x[k] * y[k]);
    }
    sums.iter().sum::<f64>() + rest.map(|i| a[i] * b[i]).sum::<f64>()
}

impl Differences {
    const STEP: f64 = 0.01;
    /// Lags below half a period contribute little.
    const BELOW: usize = 70;
    /// Lags above seven periods add little to the nearer ones.
    const ABOVE: usize = 195;

    pub fn collect(onsets: &[i64], shortest: f64, longest: f64) -> Differences {
        let steps = ((longest / shortest).ln() / Self::STEP) as usize + 2 * AROUND;
        let most = (longest * (AROUND as f64 * Self::STEP).exp()) as i64;
        let first = AROUND as f64 - shortest.ln() / Self::STEP;
        let logarithms = &*LOGARITHMS;
        let mut pairs = vec![0u32; steps];
        let mut end = 0;
        for (i, a) in onsets.iter().enumerate() {
            end += onsets[end..].iter().take_while(|b| *b - a <= most).count();
            for b in &onsets[i + 1..end] {
                let step = near_ln((b - a) as f64, logarithms) * (1.0 / Self::STEP) + first;
                if step >= 0.0
                    && let Some(pairs) = pairs.get_mut(step as usize)
                {
                    *pairs += 1;
                }
            }
        }
        let mut sums = vec![0.0; steps + 1];
        (0..steps).for_each(|i| sums[i + 1] = sums[i] + f64::from(pairs[i]));
        let n = onsets.len() as f64;
        let span = (onsets[onsets.len() - 1] - onsets[0]) as f64;
        let per_ns = n * (n - 1.0) / span;
        let expected = (0..steps)
            .map(|i| Self::STEP * per_ns * Self::apart(shortest, i as f64))
            .collect();
        let least_excess = if onsets.len() > MANY_ONSETS { 3.0 } else { 2.0 };
        Differences {
            shortest,
            sums,
            expected,
            least_excess,
        }
    }

    /// Distance at the middle of step `i`, in nanoseconds.
    fn apart(shortest: f64, i: f64) -> f64 {
        shortest * ((i + 0.5 - AROUND as f64) * Self::STEP).exp()
    }

    /// The step of pairs that are `period` apart.
    fn step_of(&self, period: f64) -> usize {
        ((period / self.shortest).ln() / Self::STEP) as usize + AROUND
    }

    fn steps(&self) -> usize {
        self.expected.len()
    }

    /// Mean number of pairs in the steps around `i`, without the `wide` nearest ones on either side.
    fn surroundings(&self, i: usize, wide: usize) -> f64 {
        let [from, low, high, to] = [
            i.saturating_sub(AROUND),
            i.saturating_sub(wide),
            i + wide + 1,
            i + AROUND + 1,
        ]
        .map(|s| s.min(self.steps()));
        let steps = (to - high) + (low - from);
        (self.sums[to] - self.sums[high] + self.sums[low] - self.sums[from]) / steps.max(1) as f64
    }

    /// The periods, in nanoseconds, at which pairs exceed chance most, within `jitter`.
    pub fn candidates(&self, jitter: f64, needed: &Needed) -> Vec<f64> {
        let wide = ((jitter / Self::STEP).round() as usize).max(1);
        let steps = self.steps();
        let z: Vec<f64> = (0..steps).map(|i| self.excess(i, wide)).collect();
        let mut tops = Vec::new();
        for i in AROUND..steps.saturating_sub(AROUND) {
            if z[i] < self.least_excess || z[i] < z[i - 1] || z[i] <= z[i + 1] {
                continue;
            }
            let Some(beats) = needed(Self::apart(self.shortest, i as f64)) else {
                continue;
            };
            // A clock with only as many beats as it needs would add at least this many pairs to those by chance.
            let pairs = self.by_chance(i, wide) * (2 * wide + 1) as f64;
            if z[i] >= PAIRED * beats / pairs.max(0.25).sqrt() {
                tops.push(i);
            }
        }
        let chosen = foremost(tops, &z, MAX_CANDIDATES, wide.max(2));
        chosen
            .into_iter()
            .map(|i| Self::apart(self.shortest, self.middle(i, wide)))
            .collect()
    }

    /// First and end of the steps from `wide` before `i` to `wide` after it, as far as they exist.
    fn around(&self, i: usize, wide: usize) -> (usize, usize) {
        (i.saturating_sub(wide), (i + wide + 1).min(self.steps()))
    }

    /// Number of pairs in step `i` without a clock. The silence before each onset, and load that changes, make short
    /// distances more frequent than by chance alone.
    fn by_chance(&self, i: usize, wide: usize) -> f64 {
        let local = if 2 * wide + 1 < AROUND / 2 {
            self.surroundings(i, 2 * wide)
        } else {
            0.0
        };
        local.max(self.expected[i])
    }

    /// Excess of pairs in the steps around `i` over those without a clock, in standard deviations.
    fn excess(&self, i: usize, wide: usize) -> f64 {
        let (from, to) = self.around(i, wide);
        let expected = self.by_chance(i, wide) * (to - from) as f64;
        (self.sums[to] - self.sums[from] - expected) / expected.max(0.25).sqrt()
    }

    /// Centre of the excess pairs around step `i`; for an exact clock it can be anywhere in the step.
    fn middle(&self, i: usize, wide: usize) -> f64 {
        let (from, to) = self.around(i, wide);
        let mut sum = 0.0;
        let mut weighted = 0.0;
        for step in from..to {
            let more = (self.sums[step + 1] - self.sums[step] - self.expected[step]).max(0.0);
            sum += more;
            weighted += step as f64 * more;
        }
        if sum > 0.0 { weighted / sum } else { i as f64 }
    }

    /// Periods in `from..to` whose multiples all have an excess of pairs, however widely these are spread around each.
    pub fn lines(&self, (from, to): (f64, f64), onsets: usize, mean_gap: f64) -> Vec<f64> {
        let steps = self.steps();
        let usual: Vec<f64> = (0..steps)
            .map(|i| self.surroundings(i, 0).max(0.01))
            .collect();
        let excess: Vec<f64> = (0..steps)
            .map(|i| self.sums[i + 1] - self.sums[i] - usual[i])
            .collect();
        // A line is wide, so every second step shows it.
        const EVERY: usize = 2;
        let first = self.step_of(from).max(AROUND);
        let end = self.step_of(to).min(steps);
        let places: Vec<usize> = (first..end).step_by(EVERY).collect();
        let z: Vec<f64> = places
            .iter()
            .map(|at| line_at(*at, &excess, &usual))
            .collect();
        let mut tops = Vec::new();
        for i in 1..z.len().saturating_sub(1) {
            // The longer the period, the fewer of the onsets are beats of its grid, and the weaker its line may be.
            let gaps = Self::apart(self.shortest, places[i] as f64) / mean_gap;
            let least = (LASTING_LINE * (onsets as f64).sqrt() / gaps.powi(2)).max(LINE);
            if z[i] >= z[i - 1] && z[i] > z[i + 1] && z[i] >= least {
                tops.push(i);
            }
        }
        let chosen = foremost(tops, &z, MAX_LINES, 3);
        chosen
            .into_iter()
            .map(|i| Self::apart(self.shortest, places[i] as f64))
            .collect()
    }
}

/// Strength of the spectral line at the period of step `at`, in standard deviations: the sum over the `excess` pairs
/// against the noise of the `usual` ones.
fn line_at(at: usize, excess: &[f64], usual: &[f64]) -> f64 {
    let [cosines, squares] = &*COSINES;
    let first = at.saturating_sub(Differences::BELOW);
    let from = first + Differences::BELOW - at;
    dot(&excess[first..], &cosines[from..]) / dot(&usual[first..], &squares[from..]).max(1.0).sqrt()
}

/// Up to `most` of `tops` with the highest `z`, further than `apart` from each other.
fn foremost(mut tops: Vec<usize>, z: &[f64], most: usize, apart: usize) -> Vec<usize> {
    tops.sort_by(|a, b| z[*b].total_cmp(&z[*a]));
    let mut chosen: Vec<usize> = Vec::new();
    for i in tops {
        if chosen.len() < most && chosen.iter().all(|c| c.abs_diff(i) > apart) {
            chosen.push(i);
        }
    }
    chosen
}
