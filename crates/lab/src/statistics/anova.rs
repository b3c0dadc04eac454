//! A19's statistics: two factors and their interaction, their shares of the variation, and which levels differ
//! significantly.
//!
//! Formulas: Jain, *The Art of Computer Systems Performance Analysis*, chapters 21 and 22; Tukey (1949) for the test of
//! non-additivity and the honestly significant difference.

use serde::Serialize;

use iolens_core::analysis::math::distributions::{
    f_above, studentized_range_above, studentized_range_critical, t_critical,
};

/// One row of an analysis of variance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Source {
    /// Sum of squares.
    pub ss: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// Share of the total variation, in percent.
    pub percent: f64,
    /// Ratio of its mean square to the error's; `None` for the error itself or if the error is 0.
    pub f: Option<f64>,
    /// Probability of such an F if the source had no effect.
    pub p: Option<f64>,
}

/// Two factors: rows are levels of A, columns levels of B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anova {
    /// Mean of everything.
    pub mean: f64,
    /// Effects of the levels of A: their means less the mean.
    pub effects_a: Vec<f64>,
    /// Effects of the levels of B.
    pub effects_b: Vec<f64>,
    /// Variation of factor A.
    pub a: Source,
    /// Variation of factor B.
    pub b: Source,
    /// Interaction of A and B; `None` without replicates, where it cannot be separated from the error.
    pub interaction: Option<Source>,
    /// Error (including the interaction, if there are no replicates).
    pub error: Source,
    /// Total sum of squares about the mean.
    pub total_ss: f64,
    /// Tukey's one degree of freedom for non-additivity; only without replicates.
    pub non_additivity: Option<Source>,
    /// Replicates per cell.
    pub replicates: usize,
}

/// Why the analysis is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnovaError {
    /// A factor has too few levels.
    #[error("two levels of each factor are needed")]
    TooFewLevels,
    /// Cells of different size, or an empty one.
    #[error("every cell needs the same number of replicates")]
    Unbalanced,
    /// A value is not a finite number.
    #[error("a value is not finite")]
    NotFinite,
}

/// Analyses `cells[a][b][replicate]`, which must be balanced.
///
/// # Errors
/// [`AnovaError`].
pub fn two_way(cells: &[Vec<Vec<f64>>]) -> Result<Anova, AnovaError> {
    let (a, b, r) = shape(cells)?;
    let af = a as f64;
    let bf = b as f64;
    let rf = r as f64;
    let mean = cells.iter().flatten().flatten().sum::<f64>() / (af * bf * rf);
    // The effect of a level is the mean of its cells minus the grand mean.
    let mut cell_means = vec![vec![0.0; b]; a];
    let mut effects_a = vec![0.0; a];
    let mut effects_b = vec![0.0; b];
    for (i, row) in cells.iter().enumerate() {
        for (j, cell) in row.iter().enumerate() {
            let of_cell = cell.iter().sum::<f64>() / rf;
            cell_means[i][j] = of_cell;
            effects_a[i] += of_cell;
            effects_b[j] += of_cell;
        }
    }
    for effect in &mut effects_a {
        *effect = *effect / bf - mean;
    }
    for effect in &mut effects_b {
        *effect = *effect / af - mean;
    }
    let ss_a = bf * rf * sum_of_squares(&effects_a);
    let ss_b = af * rf * sum_of_squares(&effects_b);
    let total_ss: f64 = cells
        .iter()
        .flatten()
        .flatten()
        .map(|y| (y - mean).powi(2))
        .sum();
    // A cell's mean minus both effects is the interaction. A value minus its cell's mean is the error within the cell.
    let mut ss_ab = 0.0;
    let mut ss_within = 0.0;
    for (i, row) in cells.iter().enumerate() {
        for (j, cell) in row.iter().enumerate() {
            let of_cell = cell_means[i][j];
            ss_ab += rf * (of_cell - mean - effects_a[i] - effects_b[j]).powi(2);
            ss_within += cell.iter().map(|y| (y - of_cell).powi(2)).sum::<f64>();
        }
    }
    // Without replicates there is no variation within a cell, so the interaction serves as the error.
    let df_ab = (af - 1.0) * (bf - 1.0);
    let (error_ss, error_df) = if r > 1 {
        (ss_within, af * bf * (rf - 1.0))
    } else {
        (ss_ab, df_ab)
    };
    let non_additivity = (r == 1 && df_ab > 1.0).then(|| {
        let ss = non_additivity_ss(cells, &effects_a, &effects_b);
        let rest_ss = (error_ss - ss).max(0.0);
        Source::of(ss, 1.0, total_ss).tested(rest_ss, error_df - 1.0)
    });
    let interaction =
        (r > 1).then(|| Source::of(ss_ab, df_ab, total_ss).tested(error_ss, error_df));
    Ok(Anova {
        mean,
        a: Source::of(ss_a, af - 1.0, total_ss).tested(error_ss, error_df),
        b: Source::of(ss_b, bf - 1.0, total_ss).tested(error_ss, error_df),
        interaction,
        error: Source::of(error_ss, error_df, total_ss),
        total_ss,
        non_additivity,
        replicates: r,
        effects_a,
        effects_b,
    })
}

fn shape(cells: &[Vec<Vec<f64>>]) -> Result<(usize, usize, usize), AnovaError> {
    let a = cells.len();
    let b = cells.first().map_or(0, Vec::len);
    if a < 2 || b < 2 {
        return Err(AnovaError::TooFewLevels);
    }
    let r = cells[0][0].len();
    if r == 0
        || cells
            .iter()
            .any(|row| row.len() != b || row.iter().any(|c| c.len() != r))
    {
        return Err(AnovaError::Unbalanced);
    }
    if cells.iter().flatten().flatten().any(|y| !y.is_finite()) {
        return Err(AnovaError::NotFinite);
    }
    Ok((a, b, r))
}

impl Source {
    /// Its share of the variation, without a test.
    fn of(ss: f64, df: f64, total_ss: f64) -> Source {
        Source {
            ss,
            df,
            percent: if total_ss > 0.0 {
                100.0 * ss / total_ss
            } else {
                0.0
            },
            f: None,
            p: None,
        }
    }

    /// Adds its F test against this error.
    fn tested(mut self, error_ss: f64, error_df: f64) -> Source {
        if error_ss > 0.0 && error_df > 0.0 {
            let f = (self.ss / self.df) / (error_ss / error_df);
            self.f = Some(f);
            self.p = Some(f_above(f, self.df, error_df));
        }
        self
    }
}

fn sum_of_squares(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum()
}

/// (Σ αᵢβⱼyᵢⱼ)² / (Σαᵢ² Σβⱼ²)
fn non_additivity_ss(cells: &[Vec<Vec<f64>>], a: &[f64], b: &[f64]) -> f64 {
    let cross: f64 = a
        .iter()
        .zip(cells)
        .map(|(ai, row)| ai * b.iter().zip(row).map(|(bj, c)| bj * c[0]).sum::<f64>())
        .sum();
    let scale = sum_of_squares(a) * sum_of_squares(b);
    if scale > 0.0 {
        cross * cross / scale
    } else {
        0.0
    }
}

/// One pair of levels of factor A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairDifference {
    /// Index of the first level.
    pub first: usize,
    /// Index of the second.
    pub second: usize,
    /// Mean of the first less mean of the second.
    pub difference: f64,
    /// Half width of the simultaneous confidence interval of the difference.
    pub half_width: f64,
    /// Probability of such a difference between any two of the levels if there were no differences.
    pub p: f64,
}

/// Tukey's honestly significant differences between all levels of A, at the joint confidence `1 - alpha` for all pairs.
/// Empty if the error has no degrees of freedom or is 0.
pub fn tukey_hsd(anova: &Anova, alpha: f64) -> Vec<PairDifference> {
    let a = anova.effects_a.len();
    let b = anova.effects_b.len();
    if anova.error.df <= 0.0 || anova.error.ss <= 0.0 {
        return Vec::new();
    }
    let per_level = (b * anova.replicates) as f64;
    let step = (anova.error.ss / anova.error.df / per_level).sqrt();
    let half_width = studentized_range_critical(alpha, a, anova.error.df) * step;
    let mut out = Vec::new();
    for first in 0..a {
        for second in first + 1..a {
            let difference = anova.effects_a[first] - anova.effects_a[second];
            let p = studentized_range_above(difference.abs() / step, a, anova.error.df);
            out.push(PairDifference {
                first,
                second,
                difference,
                half_width,
                p,
            });
        }
    }
    out
}

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanInterval {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half width of the interval by Student's t; `None` for a single value.
    pub half_width: Option<f64>,
}

/// Mean and `1 - alpha` interval of `values`; `None` if there are none.
pub fn mean_interval(values: &[f64], alpha: f64) -> Option<MeanInterval> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let half_width = (n > 1).then(|| {
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0);
        t_critical(alpha, n as f64 - 1.0) * (variance / n as f64).sqrt()
    });
    Some(MeanInterval {
        n,
        mean,
        half_width,
    })
}

/// Jain's index of fairness: 1 if all get the same, 1/n if one gets all. `None` if all get nothing.
pub fn jain_fairness(shares: &[f64]) -> Option<f64> {
    let square_sum: f64 = shares.iter().map(|x| x * x).sum();
    (square_sum > 0.0)
        .then(|| shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * square_sum))
}

#[cfg(test)]
#[path = "anova_tests.rs"]
mod tests;
