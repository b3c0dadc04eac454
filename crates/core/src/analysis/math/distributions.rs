//! Distributions for tests and intervals: normal, t, F, and the studentized range.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Natural logarithm of the gamma function, for x > 0 (Lanczos' approximation, g = 7, nine terms; relative error 1e-15).
pub fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = C[1..]
        .iter()
        .enumerate()
        .fold(C[0], |s, (i, c)| s + c / (x + i as f64 + 1.0));
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta function I_x(a, b), by Lentz' continued fraction (Numerical Recipes, 6.4).
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..=500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / not_zero(1.0 + even * d);
        c = not_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / not_zero(1.0 + odd * d);
        c = not_zero(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h
}

/// `v`, or a tiny number if `v` is nearly 0, to divide by.
fn not_zero(v: f64) -> f64 {
    const TINY: f64 = 1e-300;
    if v.abs() < TINY { TINY } else { v }
}

/// P(F ≥ f) of Fisher's distribution with `d1` and `d2` degrees of freedom.
pub fn f_above(f: f64, d1: f64, d2: f64) -> f64 {
    if f <= 0.0 {
        1.0
    } else {
        incomplete_beta(d2 / 2.0, d1 / 2.0, d2 / (d2 + d1 * f))
    }
}

/// P(|T| ≥ t) of Student's distribution with `df` degrees of freedom.
pub fn t_both_sides(t: f64, df: f64) -> f64 {
    incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
}

/// The t with P(|T| ≥ t) = `alpha`: half width of a confidence interval in standard errors.
pub fn t_critical(alpha: f64, df: f64) -> f64 {
    // t is heavy-tailed for few degrees of freedom: 1e6 is beyond the 1e-5 quantile even for df = 1.
    bisect(0.0, 1e6, |t| t_both_sides(t, df) - alpha)
}

/// Chernoff's bound for `n` trials with success probability `expected` (0 < `expected` < 1): an upper bound of the
/// probability that the share of successes is at least as far from `expected` as `share`, on the same side.
pub fn chernoff(n: f64, share: f64, expected: f64) -> f64 {
    let divergence =
        divergence_part(share, expected) + divergence_part(1.0 - share, 1.0 - expected);
    (-n * divergence).exp()
}

/// One outcome's term of the Kullback-Leibler divergence of observed from expected shares.
fn divergence_part(seen: f64, expected: f64) -> f64 {
    if seen > 0.0 {
        seen * (seen / expected).ln()
    } else {
        0.0
    }
}

/// Root of a decreasing function between `low` and `high`.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if f(middle) > 0.0 {
            low = middle
        } else {
            high = middle
        }
        if high - low <= 1e-12 * high.max(1.0) {
            break;
        }
    }
    0.5 * (low + high)
}

/// Φ(x), the normal distribution.
pub fn normal_below(x: f64) -> f64 {
    let upper = 0.5 * erfc_positive(x.abs() * FRAC_1_SQRT_2);
    if x < 0.0 { upper } else { 1.0 - upper }
}

/// erfc of x ≥ 0: a series of positive terms (Abramowitz and Stegun 7.1.6) below 3, their continued fraction (7.1.14) above.
fn erfc_positive(x: f64) -> f64 {
    let scale = (-x * x).exp() / PI.sqrt();
    if x < 3.0 {
        let mut term = x;
        let mut sum = x;
        let mut n = 0.0;
        while term > 1e-17 * sum {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return 1.0 - 2.0 * scale * sum;
    }
    let fraction = (1..=60).rev().fold(x, |f, k| x + 0.5 * f64::from(k) / f);
    scale / fraction
}

/// Nodes and weights of 16-point Gauss-Legendre quadrature on [-1, 1] (positive half).
const GAUSS: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_58),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_87),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_89),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

fn integrate(from: f64, to: f64, panels: u32, f: impl Fn(f64) -> f64) -> f64 {
    let half = (to - from) / f64::from(panels) / 2.0;
    let mut sum = 0.0;
    for p in 0..panels {
        let middle = from + half * (2.0 * f64::from(p) + 1.0);
        for (x, w) in GAUSS {
            sum += w * (f(middle + half * x) + f(middle - half * x));
        }
    }
    sum * half
}

/// P(range of `k` standard normals ≥ w).
fn range_above(w: f64, k: f64) -> f64 {
    let below = k * integrate(-8.5, 8.5, 8, |z| {
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        let inside = (normal_below(z) - normal_below(z - w)).max(0.0);
        density * inside.powf(k - 1.0)
    });
    1.0 - below
}

/// P(Q ≥ q) of the studentized range of `groups` means with `df` degrees of freedom of the error.
///
/// Two nested integrals (Copenhaver and Holland 1988): over the range of normals, and over the error's estimate.
pub fn studentized_range_above(q: f64, groups: usize, df: f64) -> f64 {
    if q <= 0.0 {
        return 1.0;
    }
    let k = groups as f64;
    if df > 25_000.0 {
        return range_above(q, k).clamp(0.0, 1.0);
    }
    // s = sqrt(chi^2 / df) has mean 1 and deviation 1 / sqrt(2 df). 12 / sqrt(df) covers it to 1e-16, also for df = 1.
    let ln_front = df / 2.0 * df.ln() - ln_gamma(df / 2.0) - (df / 2.0 - 1.0) * 2f64.ln();
    let reach = 12.0 / df.sqrt();
    let low = (1.0 - reach).max(0.0);
    let high = 1.0 + reach;
    // Beyond a range of 14 deviations nothing is left. With few degrees of freedom only small s matter.
    let high = high.min(14.0 / q).max(low);
    let above = integrate(low, high, 8, |s| {
        let density = (ln_front + (df - 1.0) * s.ln() - df * s * s / 2.0).exp();
        density * range_above(q * s, k)
    });
    above.clamp(0.0, 1.0)
}

/// The q with P(Q ≥ q) = `alpha`.
pub fn studentized_range_critical(alpha: f64, groups: usize, df: f64) -> f64 {
    let mut low = 0.0;
    let mut high = 1000.0;
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if studentized_range_above(middle, groups, df) > alpha {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, relative: f64) {
        assert!((a - b).abs() <= relative * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn gamma_and_normal_at_known_points() {
        near(ln_gamma(0.5), PI.sqrt().ln(), 1e-13);
        near(ln_gamma(11.0), 3_628_800f64.ln(), 1e-14);
        near(normal_below(0.0), 0.5, 1e-15);
        near(normal_below(1.0), 0.841_344_746_068_542_9, 1e-14);
        near(normal_below(-5.0), 2.866_515_718_791_939e-7, 1e-11);
        near(normal_below(-2.0), 0.022_750_131_948_179_21, 1e-12);
    }

    #[test]
    fn t_and_f_at_known_points() {
        near(t_critical(0.05, 10.0), 2.228_138_851_964_939, 1e-10);
        near(t_critical(0.05, 1.0), 12.706_204_736_432_095, 1e-9);
        near(t_critical(0.05, 1e6), 1.959_966, 1e-6);
        near(f_above(3.0, 2.0, 8.0), 0.106_622_240_733_027_9, 1e-10);
        // F with (1, n) degrees of freedom is t squared.
        near(f_above(4.0, 1.0, 7.0), t_both_sides(2.0, 7.0), 1e-12);
    }

    /// Table 8 of Harter (1960): upper 5 % and 1 % points.
    #[test]
    fn studentized_range_at_tabulated_points() {
        for (groups, df, alpha, q) in [
            (3, 8.0, 0.05, 4.041),
            (2, 10.0, 0.05, 3.151),
            (5, 20.0, 0.01, 5.294),
            (10, 60.0, 0.05, 4.646),
            (3, 2.0, 0.05, 8.331),
        ] {
            near(studentized_range_critical(alpha, groups, df), q, 2e-4);
        }
        near(studentized_range_critical(0.05, 5, 1.0), 37.081_5, 1e-5);
        // With two groups it is t, times sqrt(2).
        near(
            studentized_range_above(2.0 * 2f64.sqrt(), 2, 9.0),
            t_both_sides(2.0, 9.0),
            1e-8,
        );
    }
}
