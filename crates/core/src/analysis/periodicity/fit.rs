//! Estimates the period of a clock from all of its beats, with a confidence interval valid for schedules and for timers
//! (A15).
//!
//! A schedule keeps its phase: a late beat does not move the next one, and a line through the beats has independent
//! residuals. A timer that starts anew after each beat loses its phase step by step: its steps are independent, and the
//! residuals of a line wander. The period of a schedule is known far better than that of a timer, so the two are
//! distinguished.

use crate::analysis::math::distributions::t_critical;
use crate::analysis::math::stats::mean_sd;
use crate::analysis::periodicity::chains::{Beat, unbroken};

/// Minimum number of beats for a confidence interval.
const MIN_BEATS: usize = 5;

/// Von Neumann's ratio of the residuals is 2 if they are independent (2.4 for 12 beats), and about 15 / n if they wander. From
/// this value plus 7 / n on they count as independent. Calibrated on schedules and timers of 12 to 1000 beats.
const INDEPENDENT: f64 = 1.7;

/// The estimates from a clock's beats.
pub(in crate::analysis::periodicity) struct Fit {
    pub period_ns: f64,
    /// 95 % confidence interval of the period.
    pub interval_ns: Option<(f64, f64)>,
    /// Number of periods between the beats, without slips and pauses.
    pub cycles: f64,
    /// Standard deviation of the time between beats, as a share of the period.
    pub jitter: f64,
}

/// Estimates from `beats` (sorted, in nanoseconds), which are about `period_ns` or a small multiple of it apart.
/// Times are multiples of `resolution_ns`.
pub(in crate::analysis::periodicity) fn fit(
    beats: &[f64],
    period_ns: f64,
    resolution_ns: f64,
) -> Fit {
    let chain = numbered(beats, period_ns);
    let beats = unbroken(&chain, resolution_ns);
    let stretches = beats.chunk_by(|a, b| a.stretch == b.stretch);
    let lines: Vec<BeatLine> = stretches.map(BeatLine::new).collect();
    let cycles: f64 = lines.iter().map(BeatLine::cycles).sum();
    let steps: Vec<f64> = lines.iter().flat_map(BeatLine::steps).collect();
    let jitter = mean_sd(&steps).map_or(0.0, |(mean, sd)| sd / mean);
    if beats.len() < MIN_BEATS || steps.len() < MIN_BEATS - 1 {
        return Fit {
            period_ns,
            interval_ns: None,
            cycles,
            jitter,
        };
    }
    let line = as_schedule(&lines);
    let (period_ns, error_ns) = match line {
        Some((period, error, ratio)) if ratio >= INDEPENDENT + 7.0 / beats.len() as f64 => {
            (period, error)
        }
        _ => as_timer(&lines, cycles, steps.len()),
    };
    // The rounded times of an exact clock do not scatter, so the error is at least that of rounding.
    let error_ns = error_ns.max(0.5 * resolution_ns.max(1.0) / cycles.max(1.0));
    Fit {
        period_ns,
        interval_ns: Some((period_ns - error_ns, period_ns + error_ns)),
        cycles,
        jitter,
    }
}

/// Numbers the beats by cycle, each relative to the one before.
fn numbered(beats: &[f64], period_ns: f64) -> Vec<(f64, f64)> {
    let mut cycle = 0.0;
    let mut chain: Vec<(f64, f64)> = Vec::new();
    for at in beats {
        if let Some((_, before)) = chain.last() {
            cycle += ((at - before) / period_ns).round().max(1.0);
        }
        chain.push((cycle, *at));
    }
    chain
}

/// Beats without a phase slip.
struct BeatLine<'a> {
    beats: &'a [Beat],
    cycle_mean: f64,
    at_mean: f64,
}

impl BeatLine<'_> {
    fn new(beats: &[Beat]) -> BeatLine<'_> {
        let n = beats.len() as f64;
        BeatLine {
            beats,
            cycle_mean: beats.iter().map(|b| b.cycle).sum::<f64>() / n,
            at_mean: beats.iter().map(|b| b.at / n).sum(),
        }
    }

    fn cycles(&self) -> f64 {
        self.beats[self.beats.len() - 1].cycle - self.beats[0].cycle
    }

    /// Nanoseconds per cycle of each step.
    fn steps(&self) -> impl Iterator<Item = f64> {
        self.beats
            .windows(2)
            .map(|w| (w[1].at - w[0].at) / (w[1].cycle - w[0].cycle))
    }

    fn residual(&self, beat: &Beat, period_ns: f64) -> f64 {
        (beat.at - self.at_mean) - period_ns * (beat.cycle - self.cycle_mean)
    }
}

/// Least squares over all stretches, each with its own phase. Returns the period, the half width of its confidence
/// interval, and von Neumann's ratio of the residuals.
fn as_schedule(lines: &[BeatLine]) -> Option<(f64, f64, f64)> {
    let mut xx = 0.0;
    let mut xy = 0.0;
    let mut n = 0.0;
    for line in lines {
        for b in line.beats {
            xx += (b.cycle - line.cycle_mean).powi(2);
            xy += (b.cycle - line.cycle_mean) * (b.at - line.at_mean);
            n += 1.0;
        }
    }
    let freedom = n - lines.len() as f64 - 1.0;
    if xx <= 0.0 || freedom < 1.0 {
        return None;
    }
    let period = xy / xx;
    let mut squares = 0.0;
    let mut differences = 0.0;
    let mut pairs = 0.0;
    for line in lines {
        let residuals: Vec<f64> = line
            .beats
            .iter()
            .map(|b| line.residual(b, period))
            .collect();
        squares += residuals.iter().map(|r| r * r).sum::<f64>();
        for pair in residuals.windows(2) {
            differences += (pair[1] - pair[0]).powi(2);
            pairs += 1.0;
        }
    }
    // Exact beats have no residuals; they count as a schedule.
    let ratio = if squares > 0.0 {
        (differences / pairs) / (squares / n)
    } else {
        2.0
    };
    let error = (squares / freedom / xx).sqrt() * t_critical(0.05, freedom);
    Some((period, error, ratio))
}

/// The mean of all steps, taken as independent, and the half width of its confidence interval.
fn as_timer(lines: &[BeatLine], cycles: f64, steps: usize) -> (f64, f64) {
    let total: f64 = lines
        .iter()
        .map(|l| l.beats[l.beats.len() - 1].at - l.beats[0].at)
        .sum();
    let period = total / cycles;
    // The variance of a step grows with the number of periods in it.
    let mut squares = 0.0;
    for pair in lines.iter().flat_map(|l| l.beats.windows(2)) {
        let passed = pair[1].cycle - pair[0].cycle;
        squares += (pair[1].at - pair[0].at - passed * period).powi(2) / passed;
    }
    let freedom = (steps as f64 - 1.0).max(1.0);
    let error = (squares / freedom / cycles).sqrt() * t_critical(0.05, freedom);
    (period, error)
}
