//! Models of a device's throughput under load, and the choice among them by their fit to a recording (A18).
//!
//! Each model gives the throughput in I/Os per second with `L` in flight on average. Its parameters are fitted to the
//! logarithm of throughput over bins of `L`. The corrected Akaike criterion selects the model:
//! `AICc = n ln(RSS / n) + 2k + 2k(k + 1)/(n - k - 1)`, where k also counts the residual's variance.

use serde::Serialize;

/// Windows with about the same number in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Mean number in flight (L).
    pub in_flight: f64,
    /// Mean throughput (X).
    pub ios_per_s: f64,
    /// Number of windows.
    pub weight: f64,
}

impl Bin {
    /// Mean latency in microseconds, by Little's law.
    pub(super) fn latency_us(&self) -> f64 {
        1e6 * self.in_flight / self.ios_per_s
    }
}

/// A model with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "queueing_model", rename_all = "kebab-case")]
pub enum Model {
    /// One server, exponential service: `X = L / (S (1 + L))`.
    Mm1 {
        /// Mean service time in microseconds.
        service_us: f64,
    },
    /// One server, constant service: `X S = 1 + L - sqrt(1 + L²)`.
    Md1 {
        /// Service time in microseconds.
        service_us: f64,
    },
    /// `servers` in parallel, exponential service (Erlang C).
    Mmc {
        /// Number of parallel servers in the model.
        servers: u32,
        /// Mean service time in microseconds.
        service_us: f64,
    },
    /// Gunther's universal scalability law.
    Usl(Usl),
}

/// A model and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// The model with its parameters.
    #[serde(flatten)]
    pub model: Model,
    /// Corrected Akaike criterion: smaller is better; differences below 2 are meaningless.
    pub aicc: f64,
    /// Root mean square of the relative residuals.
    pub residual: f64,
    /// Number of bins that it is fitted to.
    pub bins: usize,
}

impl Model {
    /// Throughput with `l` in flight, in I/Os per second.
    pub fn ios_per_s(&self, l: f64) -> f64 {
        match self {
            Model::Mm1 { service_us } => 1e6 / service_us * mm1_utilisation(l),
            Model::Md1 { service_us } => 1e6 / service_us * md1_utilisation(l),
            Model::Mmc {
                servers,
                service_us,
            } => 1e6 / service_us * mmc_busy_servers(*servers, l),
            Model::Usl(law) => law.ios_per_s(l),
        }
    }

    /// The load of maximum power, throughput over latency `X / R = X² / L` (Kleinrock), as (L, I/Os per second).
    /// M/M/1 has it at half of its capacity, M/D/1 at 2 - √2 of it.
    pub fn best_power(&self) -> (f64, f64) {
        // Power has a single maximum: golden-section search on the logarithm of L.
        let mut a = 1e-3f64.ln();
        let mut b = 1e5f64.ln();
        let golden = (5.0f64.sqrt() - 1.0) / 2.0;
        for _ in 0..80 {
            let c = b - golden * (b - a);
            let d = a + golden * (b - a);
            if self.power(c.exp()) >= self.power(d.exp()) {
                b = d;
            } else {
                a = c;
            }
        }
        let l = f64::midpoint(a, b).exp();
        (l, self.ios_per_s(l))
    }

    /// Throughput over latency with `l` in flight, up to a factor.
    fn power(&self, l: f64) -> f64 {
        self.ios_per_s(l).powi(2) / l
    }

    /// Mean latency with `l` in flight, in microseconds.
    fn latency_us(&self, l: f64) -> f64 {
        1e6 * l / self.ios_per_s(l)
    }

    /// Throughput at which the mean latency `R = L / X` reaches `limit_us`; `None` if it is longer even without load.
    pub fn ios_at_latency(&self, limit_us: f64) -> Option<f64> {
        if self.latency_us(1e-6) > limit_us {
            return None;
        }
        let mut low = 1e-6f64;
        let mut high = 1e6f64;
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if self.latency_us(middle) <= limit_us {
                low = middle
            } else {
                high = middle
            }
        }
        Some(self.ios_per_s(low))
    }

    fn parameters(&self) -> f64 {
        match self {
            Model::Mm1 { .. } | Model::Md1 { .. } => 1.0,
            Model::Mmc { .. } => 2.0,
            Model::Usl(_) => 3.0,
        }
    }

    fn scored(self, bins: &[Bin]) -> Option<Fit> {
        let n = bins.len() as f64;
        let k = self.parameters() + 1.0;
        if n < k + 2.0 {
            return None;
        }
        let weight: f64 = bins.iter().map(|b| b.weight).sum();
        let squares: f64 = bins
            .iter()
            .map(|b| b.weight * (self.ios_per_s(b.in_flight) / b.ios_per_s).ln().powi(2))
            .sum();
        let mean_square = squares / weight;
        // The lower bound keeps noiseless data from giving minus infinity to every model that contains the truth.
        let aicc = n * mean_square.max(1e-18).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0);
        aicc.is_finite().then(|| Fit {
            model: self,
            aicc,
            residual: mean_square.sqrt(),
            bins: bins.len(),
        })
    }
}

/// All models that can be fitted to `bins`, best first; of equally supported ones the simplest first.
pub fn fits(bins: &[Bin]) -> Vec<Fit> {
    let bins: Vec<Bin> = bins
        .iter()
        .copied()
        .filter(|b| b.in_flight > 0.0 && b.ios_per_s > 0.0)
        .collect();
    let points: Vec<(f64, f64)> = bins.iter().map(|b| (b.in_flight, b.ios_per_s)).collect();
    let fitted = [
        one_server(&bins, mm1_utilisation).map(|service_us| Model::Mm1 { service_us }),
        one_server(&bins, md1_utilisation).map(|service_us| Model::Md1 { service_us }),
        mmc(&bins),
        Usl::fit(&points).map(Model::Usl),
    ];
    let mut all: Vec<Fit> = fitted
        .into_iter()
        .flatten()
        .filter_map(|m| m.scored(&bins))
        .collect();
    all.sort_by(|a, b| a.aicc.total_cmp(&b.aicc));
    let supported = all.partition_point(|f| f.aicc < all[0].aicc + INDIFFERENT);
    all[..supported].sort_by(|a, b| a.model.parameters().total_cmp(&b.model.parameters()));
    all
}

/// Models whose criterion is within this distance of the best are supported, too (Burnham and Anderson). Of these the
/// one with fewest parameters comes first.
const INDIFFERENT: f64 = 4.0;

/// Service time in microseconds that fits a model with throughput `shape / S`: from the weighted mean of logarithms.
fn scale(bins: &[Bin], shapes: impl Iterator<Item = f64>) -> Option<f64> {
    let weight: f64 = bins.iter().map(|b| b.weight).sum();
    let sum: f64 = bins
        .iter()
        .zip(shapes)
        .map(|(b, shape)| b.weight * (shape / b.ios_per_s).ln())
        .sum();
    (weight > 0.0)
        .then(|| 1e6 * (sum / weight).exp())
        .filter(|us| us.is_finite() && *us > 0.0)
}

/// Service time in microseconds of one server; `shape` is its utilisation as a function of the number in flight.
fn one_server(bins: &[Bin], shape: fn(f64) -> f64) -> Option<f64> {
    scale(bins, bins.iter().map(|b| shape(b.in_flight)))
}

/// M/M/c with at least two servers: every number up to 24, then steps of a twelfth.
fn mmc(bins: &[Bin]) -> Option<Model> {
    let most = (bins.last()?.in_flight * 2.0 + 2.0).min(4096.0);
    let mut best: Option<(f64, Model)> = None;
    let mut servers = 2u32;
    while f64::from(servers) <= most {
        let busy: Vec<f64> = bins
            .iter()
            .map(|b| mmc_busy_servers(servers, b.in_flight))
            .collect();
        if let Some(service_us) = scale(bins, busy.iter().copied()) {
            let off: f64 = bins
                .iter()
                .zip(&busy)
                .map(|(b, s)| b.weight * (1e6 * s / service_us / b.ios_per_s).ln().powi(2))
                .sum();
            if best.is_none_or(|(least, _)| off.total_cmp(&least).is_lt()) {
                let model = Model::Mmc {
                    servers,
                    service_us,
                };
                best = Some((off, model));
            }
        }
        servers += (servers / 12).max(1);
    }
    best.map(|(_, model)| model)
}

/// Utilisation of M/M/1 with `l` in the system.
fn mm1_utilisation(l: f64) -> f64 {
    l / (1.0 + l)
}

/// Utilisation of M/D/1 with `l` in the system: `ρ² - 2 (1 + l) ρ + 2 l = 0`.
fn md1_utilisation(l: f64) -> f64 {
    2.0 * l / (1.0 + l + (1.0 + l * l).sqrt())
}

/// Mean number of busy servers of M/M/c with `l` in the system, by false position (Illinois).
fn mmc_busy_servers(c: u32, l: f64) -> f64 {
    const TOLERANCE: f64 = 1e-14;
    const MOST_STEPS: usize = 100;
    let servers = f64::from(c);
    let mut opposite = 0.0;
    let mut beyond_opposite = -l;
    // Start at the upper bound: no more servers are busy than I/Os are in the system.
    let mut rho = (l / servers).min(1.0);
    let mut beyond_rho = beyond(c, l, rho);
    for _ in 0..MOST_STEPS {
        if beyond_rho == 0.0 {
            break;
        }
        let next = rho - beyond_rho * (rho - opposite) / (beyond_rho - beyond_opposite);
        let step = next - rho;
        let beyond_next = beyond(c, l, next);
        if (beyond_next < 0.0) == (beyond_rho < 0.0) {
            // The other end stays with half its value, so that it does not stay for long.
            beyond_opposite /= 2.0;
        } else {
            opposite = rho;
            beyond_opposite = beyond_rho;
        }
        rho = next;
        beyond_rho = beyond_next;
        if step.abs() < TOLERANCE {
            break;
        }
    }
    servers * rho
}

/// Number in the system of M/M/c at utilisation `rho` minus `l`, times `1 - ρ`, so that there is no pole.
fn beyond(c: u32, l: f64, rho: f64) -> f64 {
    (1.0 - rho) * (f64::from(c) * rho - l) + erlang_c(c, rho) * rho
}

/// Mean response time of M/M/c in units of the service time, at utilisation `rho` of each of `c` servers; `None` at or
/// beyond saturation.
pub fn mmc_response(c: u32, rho: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&rho) || c == 0 {
        return None;
    }
    Some(1.0 + erlang_c(c, rho) / (f64::from(c) * (1.0 - rho)))
}

/// Probability that all `c` servers are busy at utilisation `rho` of each (Erlang C), from the recursion of Erlang B.
fn erlang_c(c: u32, rho: f64) -> f64 {
    let offered = f64::from(c) * rho;
    let b = (1..=c).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    b / (1.0 - rho * (1.0 - b))
}

/// Gunther's universal scalability law: `X(N) = γ N / (1 + σ (N - 1) + κ N (N - 1))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usl {
    /// Throughput with one I/O in flight, per second.
    pub gamma: f64,
    /// Contention coefficient.
    pub sigma: f64,
    /// Coherency coefficient.
    pub kappa: f64,
}

impl Usl {
    /// Least-squares fit of `N / X`, which is linear in the parameters; `None` with fewer than four points or a
    /// meaningless result (negative throughput).
    pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
        let rows: Vec<([f64; 3], f64)> = points
            .iter()
            .filter(|(n, x)| *n > 0.0 && *x > 0.0)
            .map(|(n, x)| ([1.0, n - 1.0, n * (n - 1.0)], n / x))
            .collect();
        if rows.len() < 4 {
            return None;
        }
        let mut m = [[0.0f64; 4]; 3];
        for (a, y) in &rows {
            // Minimise relative errors, so that large N do not dominate.
            let w = 1.0 / (y * y);
            for i in 0..3 {
                for j in 0..3 {
                    m[i][j] += w * a[i] * a[j];
                }
                m[i][3] += w * a[i] * y;
            }
        }
        let [one, s, k] = solve(m)?;
        (one > 0.0).then(|| Usl {
            gamma: 1.0 / one,
            sigma: s / one,
            kappa: k / one,
        })
    }

    /// Throughput with `n` in flight.
    pub fn ios_per_s(&self, n: f64) -> f64 {
        self.gamma * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }
}

/// Gauss-Jordan elimination with pivoting, for three unknowns.
fn solve(mut m: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for col in 0..3 {
        let pivot = (col..3).max_by(|a, b| m[*a][col].abs().total_cmp(&m[*b][col].abs()))?;
        m.swap(col, pivot);
        if m[col][col].abs() < 1e-300 {
            return None;
        }
        for row in 0..3 {
            if row != col {
                let by = m[row][col] / m[col][col];
                let pivot_row = m[col];
                m[row]
                    .iter_mut()
                    .zip(pivot_row)
                    .for_each(|(a, b)| *a -= by * b);
            }
        }
    }
    Some(std::array::from_fn(|i| m[i][3] / m[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bins_of(model: &Model, from: i32, to: i32) -> Vec<Bin> {
        let bin = |i: i32| {
            let l = 1.4f64.powi(i);
            Bin {
                in_flight: l,
                ios_per_s: model.ios_per_s(l),
                weight: 10.0,
            }
        };
        (from..to).map(bin).collect()
    }

    #[test]
    fn queueing_formulas() {
        assert!(
            (mmc_response(1, 0.5).expect("stable") - 2.0).abs() < 1e-12,
            "M/M/1: 1 / (1 - rho)"
        );
        assert!(
            (mmc_response(2, 0.5).expect("stable") - 4.0 / 3.0).abs() < 1e-12,
            "M/M/2: 1 / (1 - rho^2)"
        );
        assert_eq!(mmc_response(4, 1.0), None);
    }

    #[test]
    fn power_is_highest_at_half_load_of_m_m_1_and_at_2_minus_root_2_of_m_d_1() {
        let (l, x) = Model::Mm1 { service_us: 1000.0 }.best_power();
        assert!(
            (x / 1000.0 - 0.5).abs() < 1e-6 && (l - 1.0).abs() < 1e-4,
            "{l} {x}"
        );
        let (_, x) = Model::Md1 { service_us: 1000.0 }.best_power();
        assert!((x / 1000.0 - (2.0 - 2.0f64.sqrt())).abs() < 1e-6, "{x}");
    }

    #[test]
    fn latency_limits_throughput() {
        // M/M/1: R = S / (1 - rho), so R = 4 S at rho = 0.75.
        let x = Model::Mm1 { service_us: 100.0 }
            .ios_at_latency(400.0)
            .expect("reachable");
        assert!((x / 7500.0 - 1.0).abs() < 1e-6, "{x}");
        assert_eq!(Model::Mm1 { service_us: 100.0 }.ios_at_latency(99.0), None);
    }

    /// The most that a device of this kind can give.
    fn most_ios_per_s(model: &Model) -> f64 {
        match model {
            Model::Mm1 { service_us } | Model::Md1 { service_us } => 1e6 / service_us,
            Model::Mmc {
                servers,
                service_us,
            } => f64::from(*servers) * 1e6 / service_us,
            Model::Usl(law) => law.ios_per_s(((1.0 - law.sigma) / law.kappa).sqrt().max(1.0)),
        }
    }

    #[test]
    fn the_true_model_is_chosen_and_its_parameters_found() {
        let truths = [
            Model::Mm1 { service_us: 500.0 },
            Model::Md1 { service_us: 80.0 },
            Model::Mmc {
                servers: 8,
                service_us: 1000.0,
            },
            Model::Usl(Usl {
                gamma: 900.0,
                sigma: 0.03,
                kappa: 0.002,
            }),
        ];
        for truth in truths {
            let mut random = crate::analysis::math::stats::Shuffler::new(4);
            let mut bins = bins_of(&truth, -8, 14);
            // Half a percent of noise.
            bins.iter_mut()
                .for_each(|b| b.ios_per_s *= 0.995 + random.below(1000) as f64 * 1e-5);
            let best = fits(&bins)[0];
            assert_eq!(
                std::mem::discriminant(&best.model),
                std::mem::discriminant(&truth),
                "{truth:?}: {best:?}"
            );
            let got = most_ios_per_s(&best.model);
            let expected = most_ios_per_s(&truth);
            assert!((got / expected - 1.0).abs() < 0.02, "{truth:?}: {best:?}");
        }
        assert!(fits(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_scalability_law_is_recovered(gamma in 10.0f64..1e5, sigma in 0.0f64..0.3, kappa in 1e-5f64..1e-2) {
            let law = Usl { gamma, sigma, kappa };
            let points: Vec<(f64, f64)> = (0..10).map(|i| { let n = 1.5f64.powi(i); (n, law.ios_per_s(n)) }).collect();
            let fit = Usl::fit(&points).expect("a law");
            prop_assert!((fit.gamma / gamma - 1.0).abs() < 1e-6 && (fit.sigma - sigma).abs() < 1e-6 && (fit.kappa - kappa).abs() < 1e-6, "{fit:?} {law:?}");
        }

        #[test]
        fn models_invert_their_own_littles_law(c in 1u32..40, rho in 0.02f64..0.98) {
            let l = f64::from(c) * rho * mmc_response(c, rho).expect("stable");
            prop_assert!((mmc_busy_servers(c, l) / f64::from(c) - rho).abs() < 1e-6);
            // Pollaczek and Khinchine.
            let l = rho * (1.0 + rho / (2.0 * (1.0 - rho)));
            prop_assert!((md1_utilisation(l) - rho).abs() < 1e-9);
        }
    }
}
