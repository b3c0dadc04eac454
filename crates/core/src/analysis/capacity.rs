//! A18: how much a device can take, where its knee is, and how far from it it runs.
//!
//! Throughput X grows with the number in flight L until it does not: the plateau is `X_max`. With the unloaded latency
//! `R_min`, `N* = X_max R_min` (Little; Denning and Buzen's knee) is the number that the device serves at once. Being
//! busy 100 % of the time says nothing: a device with L < N* has room.

use serde::Serialize;

use super::load::LoadPoint;

/// How a device runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Less than a twentieth of the time busy.
    Idle,
    /// Busy, and it would serve more at once.
    ParallelHeadroom,
    /// Close to the knee: more load means more waiting.
    NearKnee,
    /// Beyond the knee: more load means only more waiting.
    Saturated,
    /// Its capacity was not reached in this recording, so nobody can say.
    CapacityNotObserved,
    /// `L` and `X R` disagree by more than 5 %: I/Os are missing, or most were in flight at the edges.
    Inconsistent,
}

/// What the recording shows of one device's capacity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Windows with I/O: n of everything.
    pub windows: usize,
    /// Length of a window.
    pub window_ns: i64,
    /// Throughput at the plateau, in I/Os per second; `None` if there was none.
    pub max_ios_per_s: Option<f64>,
    /// Unloaded latency: mean at L < 0.2, or of the tenth of the time with least in flight if it was never so idle.
    pub min_us: Option<f64>,
    /// `N* = X_max R_min`: effective parallelism.
    pub knee_in_flight: Option<f64>,
    /// Mean L over the windows.
    pub mean_in_flight: f64,
    /// Percent of windows with I/O that lie beyond the knee (`L >= 2 N*` at the plateau).
    pub saturated_percent: Option<f64>,
    /// Room left: `1 - X / X_max` at the mean load.
    pub headroom: Option<f64>,
    /// `|L - X R| / L` over all windows.
    pub little_residual: Option<f64>,
    /// The model of throughput against number in flight that fits best.
    pub usl: Option<Usl>,
    /// Most of the time.
    pub state: State,
}

/// One step of the curve.
#[derive(Debug, Clone, Copy)]
struct Bin {
    in_flight: f64,
    ios_per_s: f64,
    weight: f64,
}

/// Reads capacity off the windows of one device.
pub fn capacity(points: &[LoadPoint]) -> Capacity {
    let busy: Vec<&LoadPoint> = points.iter().filter(|p| p.in_flight > 0.0).collect();
    let bins = isotonic(bins_of(&busy));
    let plateau = plateau_of(&bins);
    let min_us = unloaded_us(points);
    let knee = plateau.zip(min_us).map(|(x, us)| x * us / 1e6);
    let n = busy.len().max(1) as f64;
    let mean_in_flight = busy.iter().map(|p| p.in_flight).sum::<f64>() / n;
    let mean_x = busy.iter().map(|p| p.ios_per_s).sum::<f64>() / n;
    let beyond = |k: f64| busy.iter().filter(|p| p.in_flight >= 2.0 * k.max(1.0)).count() as f64;
    let little_residual = little(&busy);
    let mut result = Capacity {
        windows: busy.len(),
        window_ns: points.first().map_or(0, |p| p.len_ns),
        max_ios_per_s: plateau,
        min_us,
        knee_in_flight: knee,
        mean_in_flight,
        saturated_percent: knee.map(|k| 100.0 * beyond(k) / n),
        headroom: plateau.map(|x| (1.0 - mean_x / x).max(0.0)),
        little_residual,
        usl: Usl::fit(&bins.iter().map(|b| (b.in_flight, b.ios_per_s)).collect::<Vec<_>>()),
        state: State::CapacityNotObserved,
    };
    result.state = state(points, &result);
    result
}

fn state(points: &[LoadPoint], c: &Capacity) -> State {
    let all = points.len().max(1) as f64;
    let busy_percent = points.iter().map(|p| p.busy_percent).sum::<f64>() / all;
    match c.knee_in_flight {
        _ if busy_percent < 5.0 => State::Idle,
        _ if c.little_residual.is_some_and(|r| r > 0.05) => State::Inconsistent,
        None => State::CapacityNotObserved,
        Some(knee) if c.mean_in_flight >= 2.0 * knee.max(1.0) => State::Saturated,
        Some(knee) if c.mean_in_flight >= 0.7 * knee => State::NearKnee,
        Some(_) => State::ParallelHeadroom,
    }
}

/// Little's law over all windows, that is up to what is in flight at their ends.
fn little(points: &[&LoadPoint]) -> Option<f64> {
    let l: f64 = points.iter().map(|p| p.in_flight).sum();
    let xr: f64 = points.iter().filter_map(|p| Some(p.ios_per_s * p.mean_us? / 1e6)).sum();
    (l > 0.0).then(|| (l - xr).abs() / l)
}

/// Mean latency of the I/Os in stretches of ten windows with L < 0.2; where there are fewer than three, of the tenth of
/// stretches with least in flight. (Choosing short windows by L would choose the short I/Os: L = X R.)
fn unloaded_us(points: &[LoadPoint]) -> Option<f64> {
    let mut stretches: Vec<(f64, f64, f64)> = points
        .chunks(10)
        .map(|ten| {
            let of = |f: fn(&LoadPoint) -> f64| ten.iter().map(f).sum::<f64>();
            let us = of(|p| p.ios_per_s * p.mean_us.unwrap_or(0.0));
            (of(|p| p.in_flight) / ten.len() as f64, of(|p| p.ios_per_s), us)
        })
        .filter(|(_, ios, _)| *ios > 0.0)
        .collect();
    stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let light = stretches.partition_point(|s| s.0 < 0.2);
    let few = if light >= 3 { light } else { (stretches.len() / 10).max(3).min(stretches.len()) };
    let (ios, us) = stretches[..few].iter().fold((0.0, 0.0), |(n, sum), s| (n + s.1, sum + s.2));
    (ios > 0.0).then(|| us / ios)
}

/// Windows binned by L, four bins an octave; bins of fewer than three windows say nothing.
fn bins_of(points: &[&LoadPoint]) -> Vec<Bin> {
    let mut bins: std::collections::BTreeMap<i64, Bin> = std::collections::BTreeMap::new();
    for p in points.iter().filter(|p| p.in_flight >= 0.01) {
        let bin = bins.entry((4.0 * p.in_flight.log2()).floor() as i64);
        let b = bin.or_insert(Bin { in_flight: 0.0, ios_per_s: 0.0, weight: 0.0 });
        b.in_flight += p.in_flight;
        b.ios_per_s += p.ios_per_s;
        b.weight += 1.0;
    }
    let mean = |b: Bin| Bin { in_flight: b.in_flight / b.weight, ios_per_s: b.ios_per_s / b.weight, ..b };
    bins.into_values().filter(|b| b.weight >= 3.0).map(mean).collect()
}

/// Pool adjacent violators: the closest curve that never falls.
fn isotonic(bins: Vec<Bin>) -> Vec<Bin> {
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for b in &bins {
        pools.push((b.ios_per_s, b.weight, 1));
        while let [.., a, z] = pools[..] {
            if a.0 <= z.0 {
                break;
            }
            pools.truncate(pools.len() - 2);
            pools.push(((a.0 * a.1 + z.0 * z.1) / (a.1 + z.1), a.1 + z.1, a.2 + z.2));
        }
    }
    let levels = pools.into_iter().flat_map(|(x, _, n)| std::iter::repeat_n(x, n));
    bins.iter().zip(levels).map(|(b, x)| Bin { ios_per_s: x, ..*b }).collect()
}

/// The throughput that a doubling of the number in flight raises by less than a tenth, if L went that far.
fn plateau_of(bins: &[Bin]) -> Option<f64> {
    let last = bins.last()?;
    let knee = bins.iter().find(|b| b.ios_per_s >= 0.9 * last.ios_per_s)?;
    (last.in_flight >= 2.0 * knee.in_flight).then_some(last.ios_per_s)
}

/// Gunther's universal scalability law: `X(N) = γ N / (1 + σ (N - 1) + κ N (N - 1))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usl {
    /// Throughput of one in flight, per second.
    pub gamma: f64,
    /// Contention.
    pub sigma: f64,
    /// Coherency.
    pub kappa: f64,
}

impl Usl {
    /// Least squares of `N / X`, which is linear in the parameters; `None` with fewer than four points or a law that
    /// makes no sense (negative throughput).
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
            // Relative errors: large N must not drown small ones.
            let w = 1.0 / (y * y);
            for i in 0..3 {
                for j in 0..3 {
                    m[i][j] += w * a[i] * a[j];
                }
                m[i][3] += w * a[i] * y;
            }
        }
        let [one, s, k] = solve(m)?;
        (one > 0.0).then(|| Usl { gamma: 1.0 / one, sigma: s / one, kappa: k / one })
    }

    /// Throughput with `n` in flight.
    pub fn ios_per_s(&self, n: f64) -> f64 {
        self.gamma * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The number in flight of highest throughput, `sqrt((1 - σ) / κ)`; `None` if it grows for ever.
    pub fn best_in_flight(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// Gauss with pivoting, for three unknowns.
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
                m[row].iter_mut().zip(pivot_row).for_each(|(a, b)| *a -= by * b);
            }
        }
    }
    Some(std::array::from_fn(|i| m[i][3] / m[i][i]))
}

/// Mean response time of M/M/c in units of the service time, at utilisation `rho` of each of `c` servers (Erlang C);
/// `None` at or beyond saturation.
pub fn mmc_response(c: u32, rho: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&rho) || c == 0 {
        return None;
    }
    let offered = f64::from(c) * rho;
    // Erlang B by its recursion, then C from B.
    let b = (1..=c).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let wait = b / (1.0 - rho * (1.0 - b));
    Some(1.0 + wait / (f64::from(c) * (1.0 - rho)))
}

/// Mean response time of M/D/1 in units of the service time at utilisation `rho`; `None` at or beyond saturation.
pub fn md1_response(rho: f64) -> Option<f64> {
    (0.0..1.0).contains(&rho).then(|| 1.0 + rho / (2.0 * (1.0 - rho)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(l: f64, x: f64) -> LoadPoint {
        LoadPoint {
            from_ns: 0,
            len_ns: 1,
            ios_per_s: x,
            bytes_per_s: 0.0,
            mean_us: Some(1e6 * l / x),
            in_flight: l,
            busy_percent: 50.0,
        }
    }

    /// A device that serves `c` at once for 1 ms each, in a closed loop of n.
    fn closed(c: f64, ns: &[f64]) -> Vec<LoadPoint> {
        ns.iter().flat_map(|n| (0..10).map(|_| point(*n, n.min(c) * 1000.0))).collect()
    }

    #[test]
    fn a_ladder_shows_the_knee_and_the_state() {
        let ladder = closed(8.0, &[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        let c = capacity(&ladder);
        assert_eq!((c.max_ios_per_s.map(f64::round), c.min_us.map(f64::round)), (Some(8000.0), Some(1000.0)));
        assert!((c.knee_in_flight.expect("seen") - 8.0).abs() < 0.1);
        assert_eq!(c.state, State::NearKnee, "mean L is just below the knee: {c:?}");
        assert!((c.saturated_percent.expect("seen") - 25.0).abs() < 1.0);
    }

    #[test]
    fn a_narrow_range_of_load_shows_no_capacity() {
        let c = capacity(&closed(1.0, &[0.99, 1.0]));
        assert_eq!((c.max_ios_per_s, c.state), (None, State::CapacityNotObserved));
        assert_eq!(capacity(&[]).state, State::Idle);
    }

    #[test]
    fn queueing_formulas() {
        assert!((mmc_response(1, 0.5).expect("stable") - 2.0).abs() < 1e-12, "M/M/1: 1 / (1 - rho)");
        assert!((mmc_response(2, 0.5).expect("stable") - 4.0 / 3.0).abs() < 1e-12, "M/M/2: 1 / (1 - rho^2)");
        assert!((md1_response(0.5).expect("stable") - 1.5).abs() < 1e-12);
        assert_eq!((mmc_response(4, 1.0), md1_response(1.2)), (None, None));
    }

    proptest! {
        #[test]
        fn the_scalability_law_is_recovered(gamma in 10.0f64..1e5, sigma in 0.0f64..0.3, kappa in 1e-5f64..1e-2) {
            let law = Usl { gamma, sigma, kappa };
            let points: Vec<(f64, f64)> = (0..10).map(|i| { let n = 1.5f64.powi(i); (n, law.ios_per_s(n)) }).collect();
            let fit = Usl::fit(&points).expect("a law");
            prop_assert!((fit.gamma / gamma - 1.0).abs() < 1e-6 && (fit.sigma - sigma).abs() < 1e-6 && (fit.kappa - kappa).abs() < 1e-6, "{fit:?} {law:?}");
        }
    }
}
