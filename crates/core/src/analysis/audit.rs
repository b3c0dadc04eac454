//! A25: was a coarse table made by averaging averages?
//!
//! Counts and bytes add up; latencies must be weighted by I/Os. Tables in the wild often hold the plain mean of finer
//! rows, empty ones included, and so understate latency by far.

use serde::Serialize;

/// By which rule a coarse mean follows from finer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// `Σ n v / Σ n`: right.
    Weighted,
    /// Plain mean of all rows, empty ones as 0.
    PlainWithEmpty,
    /// Plain mean of the rows that hold anything.
    PlainNonEmpty,
    /// None of these.
    Unknown,
}

/// What a coarse mean is made of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Audit {
    /// The mean that it should be.
    pub weighted: f64,
    /// The plain mean, empty rows included.
    pub plain_with_empty: f64,
    /// The plain mean of non-empty rows.
    pub plain_non_empty: f64,
    /// The rule that gives the published value, to its rounding or truncation.
    pub rule: Rule,
    /// By how many percent the published value misses the right one; negative: too low.
    pub error_percent: f64,
}

/// Audits `published` (rounded or truncated to a whole number) against finer rows of (I/Os, mean); `None` without I/O.
pub fn audit(published: f64, fine: &[(f64, f64)]) -> Option<Audit> {
    let ios: f64 = fine.iter().map(|r| r.0).sum();
    let filled = fine.iter().filter(|r| r.0 > 0.0).count();
    if ios <= 0.0 || filled == 0 {
        return None;
    }
    let weighted = fine.iter().map(|r| r.0 * r.1).sum::<f64>() / ios;
    let plain: f64 = fine.iter().filter(|r| r.0 > 0.0).map(|r| r.1).sum();
    let (plain_with_empty, plain_non_empty) = (plain / fine.len() as f64, plain / filled as f64);
    let is = |value: f64| (value - published).abs() < 1.0;
    let rule = match () {
        () if is(weighted) => Rule::Weighted,
        () if is(plain_with_empty) => Rule::PlainWithEmpty,
        () if is(plain_non_empty) => Rule::PlainNonEmpty,
        () => Rule::Unknown,
    };
    Some(Audit {
        weighted,
        plain_with_empty,
        plain_non_empty,
        rule,
        error_percent: 100.0 * (published / weighted - 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_apart() {
        let fine = [(10.0, 100.0), (0.0, 0.0), (30.0, 500.0)];
        let rule = |v| audit(v, &fine).expect("I/O").rule;
        assert_eq!(
            (rule(400.0), rule(200.0), rule(300.0), rule(1.0)),
            (Rule::Weighted, Rule::PlainWithEmpty, Rule::PlainNonEmpty, Rule::Unknown)
        );
        assert_eq!(audit(200.0, &fine).expect("I/O").error_percent, -50.0);
        assert_eq!(audit(5.0, &[(0.0, 0.0)]), None);
    }
}
