//! Chains of onsets one period apart, and their evidence against random onsets (A15).

use crate::analysis::math::stats::{mad, median};

/// Probability that a clock's beat comes inside its window.
const KEPT: f64 = 0.9;

/// Largest evidence that a beat inside a window adds, if random onsets come at `rate`.
pub(in crate::analysis::periodicity) fn gain(half: f64, rate: f64) -> f64 {
    (KEPT / (1.0 - (-2.0 * half * rate).exp())).ln()
}

/// The best chain that ends at each onset, for one period.
pub(in crate::analysis::periodicity) struct Chains<'a> {
    onsets: &'a [f64],
    evidence: Vec<f64>,
    steps: Vec<ChainStep>,
    /// Evidence that a beat adds, by the number of onsets above the mean within the last five periods.
    gains: Vec<Option<[f64; 3]>>,
}

#[cfg(test)]
thread_local! {
    /// Onsets looked at for one period or another: what the search costs.
    pub static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How a chain reaches an onset: from which one, how many periods earlier (0: the chain starts here), and its first onset.
#[derive(Clone, Copy)]
struct ChainStep {
    from: u32,
    first: u32,
    periods: u8,
}

/// Range of the distance from an onset back to an earlier beat, in nanoseconds.
struct BeatWindow {
    most: f64,
    least: f64,
}

impl<'a> Chains<'a> {
    /// No chains yet; `onsets` are times in nanoseconds, in order.
    pub fn find(onsets: &'a [f64]) -> Chains<'a> {
        Chains {
            onsets,
            evidence: Vec::new(),
            steps: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// Finds the best chain that ends at each onset, for one `period` in nanoseconds. A beat may come up to `half`
    /// (half the width of its window) early or late, and up to two beats may be missing. The windows of two and three
    /// periods are wider by the square root of these numbers.
    pub fn follow(&mut self, period: f64, half: f64) {
        let onsets = self.onsets;
        #[cfg(test)]
        LOOKED_AT.with(|n| n.set(n.get() + onsets.len()));
        let n = onsets.len();
        let mean_rate = n as f64 / (onsets[n - 1] - onsets[0]).max(1.0);
        let wide = [1.0f64, 2.0, 3.0].map(|k| half * k.sqrt());

        let windows = [0, 1, 2].map(|k| {
            let distance = (k + 1) as f64 * period;
            BeatWindow {
                most: distance + wide[k],
                least: distance - wide[k],
            }
        });

        // Up to this number of recent onsets the mean rate applies, and the gain is the same.
        let usual = (5.0 * period * mean_rate) as usize;
        self.evidence.clear();
        self.steps.clear();
        self.gains.clear();
        let mut recent = 0;
        let mut from = [0usize; 3];
        for (j, t) in onsets.iter().enumerate() {
            while t - onsets[recent] > 5.0 * period {
                recent += 1;
            }
            let crowd = (j - recent).saturating_sub(usual);
            if self.gains.len() <= crowd {
                self.gains.resize(crowd + 1, None);
            }
            // The gain of a beat depends only on how many onsets are recent, so it is computed once for each number.
            let gain = *self.gains[crowd].get_or_insert_with(|| {
                let rate = mean_rate.max((j - recent) as f64 / (5.0 * period));
                gains_at(rate, wide)
            });
            let (best, step) = self.best_step(j, &windows, &gain, &mut from);
            self.evidence.push(best);
            self.steps.push(step);
        }
    }

    /// The best chain that ends at onset `j`, and its evidence. `from` holds the first onset that can be in each
    /// window; it advances from onset to onset.
    fn best_step(
        &self,
        j: usize,
        windows: &[BeatWindow; 3],
        gain: &[f64; 3],
        from: &mut [usize; 3],
    ) -> (f64, ChainStep) {
        let onsets = self.onsets;
        let evidence = &self.evidence;
        let steps = &self.steps;
        let t = onsets[j];
        // Without an onset one, two or three periods earlier the chain begins here and has no evidence yet.
        let mut best = 0.0;
        let mut step = ChainStep {
            from: j as u32,
            first: j as u32,
            periods: 0,
        };
        for (k, window) in windows.iter().enumerate() {
            let earliest = t - window.most;
            let latest = t - window.least;
            // Windows only move forwards, so the first onset inside is at or after that of the onset before.
            while from[k] < j && onsets[from[k]] < earliest {
                from[k] += 1;
            }
            // Each onset inside may be the beat before this one: the chain that ends at it goes on here.
            for i in from[k]..j {
                if onsets[i] > latest {
                    break;
                }
                let with_beat = evidence[i] + gain[k];
                if with_beat > best {
                    best = with_beat;
                    step = ChainStep {
                        from: i as u32,
                        first: steps[i].first,
                        periods: k as u8 + 1,
                    };
                }
            }
        }
        (best, step)
    }

    /// The highest evidence, and the onset at which its chain ends.
    pub fn best(&self) -> (f64, usize) {
        let mut best = (0.0, 0);
        for (end, evidence) in self.evidence.iter().enumerate() {
            if *evidence > best.0 {
                best = (*evidence, end);
            }
        }
        best
    }

    /// Nanoseconds from the first to the last onset of the chain that ends at `end`.
    pub fn span(&self, end: usize) -> f64 {
        self.onsets[end] - self.onsets[self.steps[end].first as usize]
    }

    /// (cycle, time in ns) of the chain that ends at `end`, in order.
    pub fn chain(&self, end: usize) -> Vec<(f64, f64)> {
        let mut at = end;
        let mut cycle = 0.0;
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

/// Evidence that a beat adds after one, two and three periods if random onsets come at `rate`. Empty windows before
/// it count against the clock.
fn gains_at(rate: f64, half_widths: [f64; 3]) -> [f64; 3] {
    let mut missed = 0.0;
    half_widths.map(|half| {
        // Chance leaves a window empty with exp(-expected), a clock with 1 - KEPT.
        let expected = 2.0 * half * rate;
        let gain = (KEPT / (1.0 - (-expected).exp())).ln() + missed;
        missed += ((1.0 - KEPT).ln() + expected).min(0.0);
        gain
    })
}

/// A beat of a clock: its cycle, its time in nanoseconds, and the number of its stretch without a phase slip.
#[derive(Clone, Copy)]
pub(in crate::analysis::periodicity) struct Beat {
    pub cycle: f64,
    pub at: f64,
    pub stretch: usize,
}

/// Divides a chain into stretches without a phase slip. A clock that something resets (a forced commit restarts the
/// journal's timer) keeps its period but slips in phase. A step that is off by more than six robust standard
/// deviations begins a new stretch. Steady jitter is never off that far, nor is rounding to this `resolution`.
pub(in crate::analysis::periodicity) fn unbroken(
    chain: &[(f64, f64)],
    resolution: f64,
) -> Vec<Beat> {
    let steps: Vec<f64> = chain
        .windows(2)
        .map(|w| (w[1].1 - w[0].1) / (w[1].0 - w[0].0))
        .collect();
    let usual = median(&mut steps.clone()).unwrap_or(0.0);
    // Equal steps have no spread at all.
    let most = (6.0 * 1.4826 * mad(&steps, usual))
        .max(0.1 * usual)
        .max(1.5 * resolution);
    let mut stretch = 0;
    let mut beats = Vec::with_capacity(chain.len());
    for (i, (cycle, at)) in chain.iter().enumerate() {
        if i > 0 && (steps[i - 1] - usual).abs() > most {
            stretch += 1;
        }
        beats.push(Beat {
            cycle: *cycle,
            at: *at,
            stretch,
        });
    }
    beats
}
