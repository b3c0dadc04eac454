//! Where a curve stops being flat: two segments in log-log with slopes 0 and -1.

use serde::Serialize;

/// A constant up to a block size, halved with every doubling beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plateau {
    /// Height, in the unit of the values.
    pub level: f64,
    /// Where it ends, in the unit of the positions; `None` if one segment explains the data as well.
    pub breakpoint: Option<f64>,
    /// Standard deviation of the residuals, as a factor less 1.
    pub scatter: f64,
    /// BIC of one segment less BIC of two: above 0 the breakpoint earns its place.
    pub bic_gain: f64,
}

/// Fits `points` of (position, value), both above 0; `None` with fewer than four.
///
/// The breakpoint is searched on a grid of 1/16 octave and chosen by the sum of squares; whether there is one at all is
/// decided by the Bayesian information criterion against a single segment (flat, or falling throughout).
pub fn plateau(points: &[(f64, f64)]) -> Option<Plateau> {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (x.log2(), y.log2())).collect();
    if logs.len() < 4 {
        return None;
    }
    let first = logs.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let last = logs.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let steps = ((last - first) * 16.0).ceil() as u32;
    let fits = (0..=steps).map(|i| first + f64::from(i) / 16.0).map(|x| (x, fit(&logs, x)));
    let (x0, (level, sse)) = fits.min_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let flat = fit(&logs, last).1;
    let falling = fit(&logs, first).1;
    let n = logs.len() as f64;
    // Measured values repeat to a thousandth at best; without this floor noiseless data would prove anything.
    let bic = |sse: f64, parameters: f64| n * (sse / n).max(1e-6).ln() + parameters * n.ln();
    let bic_gain = bic(flat.min(falling), 1.0) - bic(sse, 2.0);
    let (breakpoint, level, sse) = if bic_gain > 0.0 && x0 > first && x0 < last {
        (Some(x0.exp2()), level, sse)
    } else {
        (None, fit(&logs, last).0, flat)
    };
    Some(Plateau { level: level.exp2(), breakpoint, scatter: (sse / n).sqrt().exp2() - 1.0, bic_gain })
}

/// Level and sum of squares of the curve that bends at `x0`.
fn fit(logs: &[(f64, f64)], x0: f64) -> (f64, f64) {
    let drop = |x: f64| (x - x0).max(0.0);
    let level = logs.iter().map(|(x, y)| y + drop(*x)).sum::<f64>() / logs.len() as f64;
    (level, logs.iter().map(|(x, y)| (y + drop(*x) - level).powi(2)).sum())
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
        assert!((at / 4096.0 - 1.0).abs() < 0.1 && (p.level / 175.0 - 1.0).abs() < 0.03, "{p:?}");
        assert_eq!(plateau(&curve(1e9, 0.02)).expect("fits").breakpoint, None, "flat throughout");
        assert_eq!(plateau(&[(1.0, 2.0), (2.0, 3.0)]), None);
    }
}
