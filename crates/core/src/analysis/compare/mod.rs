//! Compares two time ranges: rates and latencies of each class of a device, with confidence intervals.
//!
//! I/Os that are close in time resemble each other, so they are not independent observations. Each time range is
//! divided into blocks of equal length. The bootstrap (for intervals) resamples blocks, and the permutation test
//! exchanges blocks. A31 in `docs/analyses.md` has the definitions.

mod blocks;

use crate::analysis::Window;
use crate::analysis::math::stats::Shuffler;
use crate::model::{Class, Io};

use blocks::Blocks;
pub use blocks::MIN_BLOCKS;

/// Number of bootstrap resamples for an interval.
const RESAMPLES: usize = 1000;

/// Number of permutations for a test. The smallest possible p-value times the number of measures must stay well below
/// [`LEVEL`].
const PERMUTATIONS: usize = 4000;

/// A test stops after this many permutations with an equal or larger difference: the p-value is then certain to be
/// large.
const ENOUGH_AS_LARGE: usize = 20;

/// Fixed seed, so that a comparison always returns the same figures.
const SEED: u64 = 0x1015;

/// Family-wise error rate: the probability of any false change among all measures of a comparison.
const LEVEL: f64 = 0.02;

/// Minimum change that is reported, in percent.
pub const MIN_CHANGE_PERCENT: f64 = 5.0;

/// Quantity measured for one class of I/Os on a device.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// I/Os per second.
    IosPerS,
    /// Bytes per second.
    BytesPerS,
    /// Mean latency in microseconds.
    MeanUs,
    /// Median latency in microseconds.
    P50Us,
    /// 90th percentile of the latency in microseconds.
    P90Us,
    /// 99th percentile of the latency in microseconds.
    P99Us,
    /// 99.9th percentile of the latency in microseconds.
    P999Us,
}

impl Measure {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Measure; 7] = [
        Measure::IosPerS,
        Measure::BytesPerS,
        Measure::MeanUs,
        Measure::P50Us,
        Measure::P90Us,
        Measure::P99Us,
        Measure::P999Us,
    ];

    /// The quantile that the measure is, if it is one.
    fn quantile(self) -> Option<f64> {
        match self {
            Measure::P50Us => Some(0.5),
            Measure::P90Us => Some(0.9),
            Measure::P99Us => Some(0.99),
            Measure::P999Us => Some(0.999),
            Measure::IosPerS | Measure::BytesPerS | Measure::MeanUs => None,
        }
    }

    /// Minimum number of I/Os on each side for this measure; for a quantile, ten must lie beyond it.
    fn min_ios(self) -> u64 {
        self.quantile()
            .map_or(1, |q| (10.0 / (1.0 - q)).round() as u64)
    }
}

/// The I/Os of one device in one stretch of time.
#[derive(Debug)]
pub struct Side {
    window: Window,
    classes: [Blocks; Class::ALL.len()],
}

impl Side {
    /// Creates a side for I/Os that complete in `window`. Rates are per recorded time, which excludes `unrecorded` (see
    /// [`Losses::unrecorded`](crate::analysis::stream::losses::Losses::unrecorded)).
    pub fn new(window: Window, unrecorded: &[(i64, i64)]) -> Side {
        Side {
            window,
            classes: std::array::from_fn(|_| Blocks::new(window, unrecorded)),
        }
    }

    /// Adds an I/O; those that complete outside the window are ignored.
    pub fn add(&mut self, io: &Io) {
        if self.window.contains(io.done_ns) {
            self.classes[io.class() as usize].add(io);
        }
    }

    /// Number of its I/Os, of all classes.
    pub fn ios(&self) -> u64 {
        self.classes.iter().map(Blocks::ios).sum()
    }
}

/// One measure before and after.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The class of I/Os.
    pub class: Class,
    /// What is measured.
    pub measure: Measure,
    /// Value before; `null` if there were too few I/Os.
    pub before: Option<f64>,
    /// Value after; `null` if there were too few I/Os.
    pub after: Option<f64>,
    /// I/Os before.
    pub ios_before: u64,
    /// I/Os after.
    pub ios_after: u64,
    /// Change in percent of the value before.
    pub percent: Option<f64>,
    /// Lower end of the 95 % confidence interval of `percent`; `null` if a side is too short for one.
    pub percent_low: Option<f64>,
    /// Upper end of the 95 % confidence interval of `percent`; `null` if a side is too short for one.
    pub percent_high: Option<f64>,
    /// p-value of the difference, not corrected for the number of measures.
    pub p_value: Option<f64>,
    /// Whether the measure changed: by 5 % or more, and significantly after correction for all measures of the
    /// comparison.
    pub changed: bool,
}

/// Compares two time ranges of one device. Classes without I/Os on both sides are left out. `changed` is not set yet:
/// [`decide`] does that for all devices together.
pub fn compare(before: &Side, after: &Side) -> Vec<Change> {
    let mut changes = Vec::new();
    for class in Class::ALL {
        let first = &before.classes[class as usize];
        let second = &after.classes[class as usize];
        if first.ios() + second.ios() > 0 {
            changes.extend(compare_class(class, first, second));
        }
    }
    changes
}

/// Sets `changed`. Holm's method limits the probability of any false change among all of them to 2 %.
///
/// Source: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
pub fn decide<'a>(changes: impl IntoIterator<Item = &'a mut Change>) {
    let mut tested: Vec<&mut Change> = changes
        .into_iter()
        .filter(|change| change.p_value.is_some())
        .collect();
    tested.sort_by(|a, b| {
        a.p_value
            .partial_cmp(&b.p_value)
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let count = tested.len();
    for (rank, change) in tested.into_iter().enumerate() {
        let p_value = change.p_value.unwrap_or(1.0);
        // The first measure that is not significant ends the search; all that follow are not significant either.
        if p_value * (count - rank) as f64 > LEVEL {
            return;
        }
        change.changed = change
            .percent
            .is_some_and(|percent| percent.abs() >= MIN_CHANGE_PERCENT);
    }
}

fn compare_class(class: Class, before: &Blocks, after: &Blocks) -> Vec<Change> {
    let mut changes = differences(class, before, after);
    if before.recorded().min(after.recorded()) >= MIN_BLOCKS {
        add_p_values(&mut changes, before, after);
        add_intervals(&mut changes, before, after);
    }
    changes
}

/// The change of every measure of a class, without intervals and p-values.
fn differences(class: Class, before: &Blocks, after: &Blocks) -> Vec<Change> {
    let whole_before = before.values(&before.each_once());
    let whole_after = after.values(&after.each_once());
    let mut changes = Vec::new();
    for measure in Measure::ALL {
        let value_before = whole_before.get(measure);
        let value_after = whole_after.get(measure);
        changes.push(Change {
            class,
            measure,
            before: value_before,
            after: value_after,
            ios_before: before.ios(),
            ios_after: after.ios(),
            percent: percent_more(value_before, value_after),
            percent_low: None,
            percent_high: None,
            p_value: None,
            changed: false,
        });
    }
    changes
}

fn percent_more(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let before = before.filter(|value| *value > 0.0)?;
    Some((after? / before - 1.0) * 100.0)
}

/// Adds 95 % intervals by the percentile bootstrap: blocks of each side are drawn with replacement.
///
/// Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
fn add_intervals(changes: &mut [Change], before: &Blocks, after: &Blocks) {
    let mut random = Shuffler::new(SEED);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); changes.len()];
    for _ in 0..RESAMPLES {
        let values_before = before.values(&before.draw(&mut random));
        let values_after = after.values(&after.draw(&mut random));
        for (percents, change) in drawn.iter_mut().zip(changes.iter()) {
            let measure = change.measure;
            percents.extend(percent_more(
                values_before.get(measure),
                values_after.get(measure),
            ));
        }
    }
    for (percents, change) in drawn.iter_mut().zip(changes) {
        // Resamples without a value mean that a side hardly has enough I/Os. With more than a tenth of them there is no
        // interval.
        if change.percent.is_none() || percents.len() < RESAMPLES * 9 / 10 {
            continue;
        }
        percents.sort_unstable_by(f64::total_cmp);
        change.percent_low = percents.get(percents.len() * 25 / 1000).copied();
        change.percent_high = percents.get(percents.len() * 975 / 1000 - 1).copied();
    }
}

/// Adds p-values by permutation: if nothing changed, each block could equally have been on the other side. A measure is
/// not tested further once [`ENOUGH_AS_LARGE`] permutations gave an equal or larger difference.
///
/// Sources: P. Good, Permutation, Parametric and Bootstrap Tests of Hypotheses (2005), chapter 3; J. Besag and P. Clifford,
/// Sequential Monte Carlo p-values, Biometrika 78 (1991).
fn add_p_values(changes: &mut [Change], before: &Blocks, after: &Blocks) {
    let mut random = Shuffler::new(SEED);
    let both = before.joined(after);
    let mut is_after = vec![false; before.count()];
    is_after.resize(both.count(), true);
    let mut tests: Vec<PermutationTest> = changes
        .iter()
        .filter_map(|change| {
            Some(PermutationTest {
                measure: change.measure,
                observed: distance(change.percent)?,
                exchanges: 0,
                as_large: 0,
            })
        })
        .collect();
    for _ in 0..PERMUTATIONS {
        if tests.iter().all(PermutationTest::is_decided) {
            break;
        }
        random.shuffle(&mut is_after);
        let first: Vec<u32> = is_after.iter().map(|after| u32::from(!after)).collect();
        let second: Vec<u32> = is_after.iter().map(|after| u32::from(*after)).collect();
        let values_first = both.values(&first);
        let values_second = both.values(&second);
        for test in &mut tests {
            let measure = test.measure;
            test.add(percent_more(
                values_first.get(measure),
                values_second.get(measure),
            ));
        }
    }
    for test in tests {
        for change in changes.iter_mut() {
            if change.measure == test.measure {
                change.p_value = Some(test.p_value());
            }
        }
    }
}

/// The test of one measure.
struct PermutationTest {
    measure: Measure,
    observed: f64,
    exchanges: usize,
    as_large: usize,
}

impl PermutationTest {
    fn is_decided(&self) -> bool {
        self.as_large >= ENOUGH_AS_LARGE
    }

    fn add(&mut self, percent: Option<f64>) {
        if self.is_decided() {
            return;
        }
        self.exchanges += 1;
        // A permutation without a value on one side counts as equally large, which is conservative.
        let is_as_large = distance(percent).is_none_or(|permuted| permuted >= self.observed);
        self.as_large += usize::from(is_as_large);
    }

    fn p_value(&self) -> f64 {
        if self.is_decided() {
            return self.as_large as f64 / self.exchanges as f64;
        }
        // The observed division counts as one of the permutations.
        (self.as_large + 1) as f64 / (self.exchanges + 1) as f64
    }
}

/// Distance of two values that differ by `percent`, on a scale on which twice as much is as far as half.
fn distance(percent: Option<f64>) -> Option<f64> {
    percent.map(|percent| (1.0 + percent / 100.0).ln().abs())
}

#[cfg(test)]
mod tests;
