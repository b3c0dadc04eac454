//! A15, second opinion: the Lomb-Scargle periodogram of a series in which slots may be missing.
//!
//! `P(f) = ((Σ y cos ω(t-τ))² / Σ cos² ω(t-τ) + (Σ y sin ω(t-τ))² / Σ sin² ω(t-τ)) / Σ y²` with the mean removed from `y`
//! and `tan 2ωτ = Σ sin 2ωt / Σ cos 2ωt` (Lomb 1976, Scargle 1982; scaled to 1 for a pure sine). Slots lie on a grid, so
//! that all frequencies come from two Fourier transforms (as in Press and Rybicki 1989, without their interpolation).

use super::autocorrelation::Turns;

/// Frequencies are this much closer than `1 / T`.
pub const OVERSAMPLING: usize = 4;

/// Power at the frequencies `k / (size dt)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Periodogram {
    /// Power, 0 to 1, at frequency number `k`; number 0 stands for the mean and is 0.
    pub power: Vec<f64>,
    /// Slots that one period of frequency number 1 is long.
    pub size: usize,
}

/// The largest of a range of frequencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerPeak {
    /// Period in slots.
    pub period: f64,
    /// Power there.
    pub power: f64,
    /// Highest power of all: what chance is asked to match.
    pub highest: f64,
}

/// Of `values` on a grid; `None` marks a slot that was not observed. All zero for a constant.
pub fn lomb_scargle(values: &[Option<f64>]) -> Periodogram {
    Transform::new(values.len()).lomb_scargle(values)
}

/// Makes the periodograms of many series of one length: what does not depend on their values is made once.
pub struct Transform {
    size: usize,
    turns: Turns,
}

impl Transform {
    /// For series of `slots` values.
    pub fn new(slots: usize) -> Transform {
        let size = (slots * OVERSAMPLING).next_power_of_two().max(4);
        Transform { size, turns: Turns::new(size) }
    }

    /// As [`lomb_scargle`].
    pub fn lomb_scargle(&self, values: &[Option<f64>]) -> Periodogram {
        of_grid(values, self.size, &self.turns)
    }
}

fn of_grid(values: &[Option<f64>], size: usize, turns: &Turns) -> Periodogram {
    let n = values.iter().flatten().count();
    let mean = values.iter().flatten().sum::<f64>() / n.max(1) as f64;
    let square: f64 = values.iter().flatten().map(|v| (v - mean).powi(2)).sum();
    if square <= 1e-12 * n as f64 * mean * mean || square == 0.0 {
        return Periodogram { power: vec![0.0; size / 4], size };
    }
    // Both series are real: one transform of `y + i mask` holds them both.
    let mut re = vec![0.0; size];
    let mut im = vec![0.0; size];
    for (i, v) in values.iter().enumerate() {
        if let Some(v) = v {
            (re[i], im[i]) = (v - mean, 1.0);
        }
    }
    turns.transform(&mut re, &mut im);
    // Spectrum of y at k, and of the mask at 2k.
    let y = |k: usize| (0.5 * (re[k] + re[size - k]), -0.5 * (im[k] - im[size - k]));
    let mask = |k: usize| (0.5 * (im[k] + im[size - k]), 0.5 * (re[k] - re[size - k]));
    let at = |k: usize| power(y(k), mask(2 * k), n as f64) / square;
    let power = std::iter::once(0.0).chain((1..size / 4).map(at)).collect();
    Periodogram { power, size }
}

/// From `Σ y cos`, `Σ y sin`, `Σ cos 2ωt`, `Σ sin 2ωt` at one frequency.
fn power((c, s): (f64, f64), (c2, s2): (f64, f64), n: f64) -> f64 {
    let (sin_t, cos_t) = (0.5 * s2.atan2(c2)).sin_cos();
    let (along, across) = (c * cos_t + s * sin_t, s * cos_t - c * sin_t);
    let spread = c2.hypot(s2);
    let (cc, ss) = (0.5 * (n + spread), 0.5 * (n - spread));
    let part = |sum: f64, weight: f64| if weight > 1e-9 * n { sum * sum / weight } else { 0.0 };
    part(along, cc) + part(across, ss)
}

impl Periodogram {
    /// The peak among periods of `shortest..=longest` slots. A comb has its harmonics too: the lowest frequency of which
    /// the highest is a multiple, with 0.8 of its power or more, is the true one.
    pub fn peak(&self, shortest: f64, longest: f64) -> Option<PowerPeak> {
        let first = (self.size as f64 / longest).ceil().max(1.0) as usize;
        let last = ((self.size as f64 / shortest).floor() as usize).min(self.power.len().checked_sub(2)?);
        if first > last {
            return None;
        }
        let best = (first..=last).max_by(|a, b| self.power[*a].total_cmp(&self.power[*b]))?;
        let highest = self.power[best];
        if highest <= 0.0 {
            return None;
        }
        let is_peak = |k: usize| self.power[k] >= self.power[k - 1] && self.power[k] >= self.power[k + 1];
        let divides = |k: usize| {
            let times = (best as f64 / k as f64).round();
            times >= 2.0 && (best as f64 - times * k as f64).abs() <= times * 0.5 * OVERSAMPLING as f64
        };
        let strong = |k: &usize| is_peak(*k) && divides(*k) && self.power[*k] >= 0.8 * highest;
        let k = (first..best).find(strong).unwrap_or(best);
        Some(PowerPeak { period: self.size as f64 / self.refined(k), power: self.power[k], highest })
    }

    /// Top of the parabola through three powers.
    fn refined(&self, k: usize) -> f64 {
        let (a, b, c) = (self.power[k - 1], self.power[k], self.power[k + 1]);
        let curvature = a - 2.0 * b + c;
        k as f64 + if curvature < 0.0 { (0.5 * (a - c) / curvature).clamp(-0.5, 0.5) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scargle's formula as he wrote it.
    fn by_definition(values: &[Option<f64>], per_slot: f64) -> f64 {
        let seen: Vec<(f64, f64)> = values.iter().enumerate().filter_map(|(i, v)| Some((i as f64, (*v)?))).collect();
        let mean = seen.iter().map(|p| p.1).sum::<f64>() / seen.len() as f64;
        let w = std::f64::consts::TAU * per_slot;
        let sum = |f: &dyn Fn(f64, f64) -> f64| seen.iter().map(|(t, y)| f(*t, y - mean)).sum::<f64>();
        let tau = sum(&|t, _| (2.0 * w * t).sin()).atan2(sum(&|t, _| (2.0 * w * t).cos())) / (2.0 * w);
        let (c, s) = (sum(&|t, y| y * (w * (t - tau)).cos()), sum(&|t, y| y * (w * (t - tau)).sin()));
        let (cc, ss) = (sum(&|t, _| (w * (t - tau)).cos().powi(2)), sum(&|t, _| (w * (t - tau)).sin().powi(2)));
        (c * c / cc + s * s / ss) / sum(&|_, y| y * y)
    }

    proptest! {
        #[test]
        fn it_equals_the_definition(values in prop::collection::vec(prop::option::weighted(0.7, -10.0f64..10.0), 8..80)) {
            prop_assume!(values.iter().flatten().count() > 4);
            let p = lomb_scargle(&values);
            for k in (1..p.power.len()).step_by(3) {
                let expected = by_definition(&values, k as f64 / p.size as f64);
                prop_assert!((p.power[k] - expected).abs() < 1e-6, "{k}: {} {expected}", p.power[k]);
            }
        }

        #[test]
        fn a_sine_is_found_through_holes(period in 6.0f64..60.0, phase in 0.0f64..6.0, holes in prop::collection::vec(0usize..400, 0..200)) {
            let mut values: Vec<Option<f64>> =
                (0..400).map(|i| Some((std::f64::consts::TAU * i as f64 / period + phase).sin())).collect();
            holes.iter().for_each(|i| values[*i] = None);
            let peak = lomb_scargle(&values).peak(5.0, 200.0).expect("a peak");
            prop_assert!((peak.period / period - 1.0).abs() < 0.02 && peak.power > 0.95, "{peak:?} {period}");
        }
    }

    #[test]
    fn a_comb_has_its_own_period_not_that_of_a_harmonic() {
        for period in [17usize, 50, 120] {
            let comb: Vec<Option<f64>> = (0..2000).map(|i| Some(f64::from(u8::from(i % period == 3)))).collect();
            let peak = lomb_scargle(&comb).peak(5.0, 700.0).expect("a peak");
            assert!((peak.period / period as f64 - 1.0).abs() < 0.01, "{period}: {peak:?}");
        }
    }

    #[test]
    fn a_constant_and_nothing_have_no_peak() {
        assert_eq!(lomb_scargle(&[Some(2.0); 100]).peak(5.0, 30.0), None);
        assert_eq!(lomb_scargle(&[None; 100]).peak(5.0, 30.0), None);
        assert_eq!(lomb_scargle(&[]).peak(5.0, 30.0), None);
    }
}
