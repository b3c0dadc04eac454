//! Finds where a curve stops being flat: two segments in log-log with slopes 0 and -1.

use serde::Serialize;

/// IOPS-bound up to a block size, bandwidth-bound above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plateau {
    /// Height, in the unit of the values.
    pub level: f64,
    /// Its end, in the unit of the positions; `None` if one segment explains the data equally well.
    pub breakpoint: Option<f64>,
    /// Standard deviation of the residuals, as a factor minus 1.
    pub scatter: f64,
    /// BIC of the best single line (flat, falling, or of any slope) minus BIC of two segments.
    pub bic_gain: f64,
}

/// Evidence for two segments that counts as positive (Raftery 1995, table 6).
const MIN_BIC_GAIN: f64 = 2.0;
/// Minimum number of points on the plateau and beyond its end, so that the shape is not accidental.
const MIN_POINTS: [usize; 2] = [3, 2];
/// Maximum slope on a plateau, in octaves per octave: 10 % per doubling.
const MAX_SLOPE: f64 = 0.15;
/// Slope beyond the end: at least half of a bandwidth limit's -1.
const MAX_FALL: f64 = -0.5;

/// Fits `points` of (position, value), both above 0; `None` with fewer than four.
///
/// The breakpoint is searched on a grid of 1/16 octave and chosen by the sum of squares. It is reported if the Bayesian
/// information criterion prefers it to every single line, if at least three points are before and two behind it, and if
/// the points before it are flat by themselves: a curve that bends slowly has no plateau.
pub fn plateau(points: &[(f64, f64)]) -> Option<Plateau> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.log2(), y.log2()))
        .collect();
    if logs.len() < 4 {
        return None;
    }
    // Every position on the grid is tried as the end of the plateau; the best fit is kept.
    let first = logs.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let last = logs.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let steps = ((last - first) * 16.0).ceil() as u32;
    let fits = (0..=steps)
        .map(|i| first + f64::from(i) / 16.0)
        .map(|x| (x, fit(&logs, x)));
    let (x0, (level, sse)) = fits.min_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    // Two segments have one parameter more than a flat or a falling line, so their fit must be better by more than
    // chance.
    let flat = fit(&logs, last).1;
    let falling = fit(&logs, first).1;
    let n = logs.len() as f64;
    let single = bic(n, flat.min(falling), 1.0).min(bic(n, line(&logs).1, 2.0));
    let bic_gain = single - bic(n, sse, 2.0);
    let (before, behind): (Vec<_>, Vec<_>) = logs.iter().partition(|p| p.0 <= x0);
    let enough = before.len() >= MIN_POINTS[0] && behind.len() >= MIN_POINTS[1];
    let has_shape = enough && line(&before).0.abs() <= MAX_SLOPE && line(&behind).0 <= MAX_FALL;
    let (breakpoint, level, sse) = if bic_gain > MIN_BIC_GAIN && has_shape {
        (Some(x0.exp2()), level, sse)
    } else {
        (None, fit(&logs, last).0, flat)
    };
    Some(Plateau {
        level: level.exp2(),
        breakpoint,
        scatter: (sse / n).sqrt().exp2() - 1.0,
        bic_gain,
    })
}

/// The Bayesian information criterion of a curve with this number of parameters and this sum of squares.
fn bic(n: f64, sse: f64, parameters: f64) -> f64 {
    // Measured values repeat to 0.1 % at best. Without this floor noiseless data would prove anything.
    n * (sse / n).max(1e-6).ln() + parameters * n.ln()
}

/// Level and sum of squares of the curve that bends at `x0`.
fn fit(logs: &[(f64, f64)], x0: f64) -> (f64, f64) {
    // Each point is raised by the curve's fall at its position, which makes the curve flat.
    let lifted: Vec<f64> = logs.iter().map(|(x, y)| y + (x - x0).max(0.0)).collect();
    let level = lifted.iter().sum::<f64>() / logs.len() as f64;
    (level, lifted.iter().map(|y| (y - level).powi(2)).sum())
}

/// Slope and sum of squares of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let x_mean = points.iter().map(|p| p.0).sum::<f64>() / n;
    let y_mean = points.iter().map(|p| p.1).sum::<f64>() / n;
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let xy: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (
        slope,
        points
            .iter()
            .map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2))
            .sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(break_at: f64, noise: f64) -> Vec<(f64, f64)> {
        (0..16)
            .map(|i| {
                let x = 2f64.powi(i);
                let wobble = 1.0 + noise * if i % 2 == 0 { 1.0 } else { -1.0 };
                (x, 175.0 / (x / break_at).max(1.0) * wobble)
            })
            .collect()
    }

    #[test]
    fn a_bend_is_found_and_a_straight_line_has_none() {
        let p = plateau(&curve(4096.0, 0.02)).expect("fits");
        let at = p.breakpoint.expect("there is one");
        assert!(
            (at / 4096.0 - 1.0).abs() < 0.1 && (p.level / 175.0 - 1.0).abs() < 0.03,
            "{p:?}"
        );
        assert_eq!(
            plateau(&curve(1e9, 0.02)).expect("fits").breakpoint,
            None,
            "flat throughout"
        );
        assert_eq!(plateau(&[(1.0, 2.0), (2.0, 3.0)]), None);
    }

    #[test]
    fn slowly_falling_curves_have_no_plateau() {
        let of = |f: &dyn Fn(f64) -> f64| {
            plateau(
                &(9..22)
                    .map(|i| (2f64.powi(i), f(2f64.powi(i))))
                    .collect::<Vec<_>>(),
            )
            .expect("fits")
            .breakpoint
        };
        assert_eq!(
            of(&|x| 5000.0 / x.sqrt()),
            None,
            "falls by half per two doublings throughout"
        );
        assert_eq!(of(&|x| 1e6 / (x + 2000.0)), None, "too few points are flat");
        assert_eq!(
            of(&|x| if x < 1e6 { 100.0 } else { 50.0 }),
            None,
            "one or two slow points at the end"
        );
    }
}
