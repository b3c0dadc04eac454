//! Finds beats on a grid of equal cycles, with any jitter within a cycle (A15).

use std::f64::consts::TAU;

/// Half widths of the window around each point of the grid, as shares of the period. If onsets come up to a fifth of
/// the period early or late, the steps of a chain differ by twice as much.
const WIDTHS: [f64; 2] = [0.12, 0.22];

/// Probability that a clock's beat comes inside its window.
const KEPT: f64 = 0.85;

/// Share of the counted grids that are independent.
const TRIALS: f64 = 0.2;

/// A line of [`super::differences::Differences`] is within this share of the period.
const NEAR: f64 = 0.04;

/// Beats on one grid: their evidence against random onsets, the period, and (cycle, time in ns) of each.
pub(in crate::analysis::periodicity) struct Grid {
    pub evidence: f64,
    pub period: f64,
    pub beats: Vec<(f64, f64)>,
}

/// Number of independent grids to choose from, with periods from `shortest` on: periods a window apart over the whole
/// time, with phases a window apart.
pub(in crate::analysis::periodicity) fn trials(onsets: usize, mean_gap: f64, shortest: f64) -> f64 {
    let cycles = onsets as f64 * mean_gap / shortest;
    WIDTHS
        .iter()
        .map(|w| TRIALS * cycles / (2.0 * w).powi(2))
        .sum()
}

/// The grid near `period` with the most evidence.
pub(in crate::analysis::periodicity) fn best(onsets: &[f64], period: f64) -> Grid {
    let (period, phase) = strongest(onsets, period);
    let [narrow, wide] = WIDTHS.map(|half| on_grid(onsets, period, phase, half));
    if wide.evidence > narrow.evidence {
        wide
    } else {
        narrow
    }
}

/// Period and phase, in nanoseconds, with the largest Rayleigh statistic near `period`.
fn strongest(onsets: &[f64], period: f64) -> (f64, f64) {
    let first = onsets[0];
    let span = onsets[onsets.len() - 1] - onsets[0];
    let lowest = 1.0 / (period * (1.0 + NEAR));
    let step = 0.4 / span;
    let steps = ((2.0 * NEAR / period / step) as usize).max(1);
    // Each onset's angle turns by the same amount from one frequency to the next.
    let mut at: Vec<(f64, f64)> = angles(onsets, lowest);
    let turn: Vec<(f64, f64)> = angles(onsets, step);
    let mut best = (0.0, lowest, 0.0);
    for i in 0..=steps {
        let (sin, cos) = at.iter().fold((0.0, 0.0), |s, a| (s.0 + a.0, s.1 + a.1));
        let strength = sin * sin + cos * cos;
        if strength > best.0 {
            best = (strength, lowest + step * i as f64, f64::atan2(sin, cos));
        }
        for (a, t) in at.iter_mut().zip(&turn) {
            *a = (a.0 * t.1 + a.1 * t.0, a.1 * t.1 - a.0 * t.0);
        }
    }
    (1.0 / best.1, first + best.2 / TAU / best.1)
}

/// Sine and cosine of each onset's angle on a circle that turns `frequency` times in a nanosecond, from the first onset on.
fn angles(onsets: &[f64], frequency: f64) -> Vec<(f64, f64)> {
    let first = onsets[0];
    onsets
        .iter()
        .map(|t| (TAU * (t - first) * frequency).sin_cos())
        .collect()
}

/// The run of cycles of this grid with the most evidence.
fn on_grid(onsets: &[f64], period: f64, phase: f64, wide: f64) -> Grid {
    let first = onsets[0];
    let last = onsets[onsets.len() - 1];
    let mean_rate = onsets.len() as f64 / (last - first).max(1.0);
    let mut from = 0;
    let mut recent = [0, 0];
    let (mut sum, mut begin): (f64, usize) = (0.0, 0);
    let mut best = (0.0, 0, 0);
    let mut beats: Vec<(f64, f64)> = Vec::new();
    let cycles =
        ((first - phase) / period).floor() as i64..=((last - phase) / period).ceil() as i64;
    for cycle in cycles {
        let middle = phase + cycle as f64 * period;
        for (i, off) in recent.iter_mut().zip([-2.5, 2.5]) {
            *i += onsets[*i..].partition_point(|t| *t < middle + off * period);
        }
        from += onsets[from..].partition_point(|t| *t < middle - wide * period);
        let rate = mean_rate.max((recent[1] - recent[0]) as f64 / (5.0 * period));
        let by_chance = 1.0 - (-2.0 * wide * period * rate).exp();
        let inside = onsets[from..]
            .iter()
            .take_while(|t| **t <= middle + wide * period);
        let nearest = inside.min_by(|a, b| (**a - middle).abs().total_cmp(&(**b - middle).abs()));
        if sum <= 0.0 {
            sum = 0.0;
            begin = beats.len();
        }
        match nearest {
            Some(t) => {
                sum += (KEPT / by_chance).ln();
                beats.push((cycle as f64, *t));
            }
            None => sum += ((1.0 - KEPT) / (1.0 - by_chance).max(1e-9)).ln().min(0.0),
        }
        if sum > best.0 {
            best = (sum, begin, beats.len());
        }
    }
    Grid {
        evidence: best.0,
        period,
        beats: beats[best.1..best.2].to_vec(),
    }
}
