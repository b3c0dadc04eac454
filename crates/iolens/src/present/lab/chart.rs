//! Charts of experiments as data: curves over two axes, and box plots. The page draws them (`web/src/lab/chart.ts`).

use iolens_lab::statistics::poll::BoxStats;
use serde::{Serialize, Serializer};

/// A curve with a mark at every point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// Name.
    pub name: String,
    /// Points as (x, y) pairs of finite numbers.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a model, not a measurement. Models are drawn dashed and without marks.
    pub is_model: bool,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Even, from 0.
    #[default]
    Linear,
    /// By powers of ten; what is not above 0 is left out.
    Log,
    /// Even, labelled in KiB and MiB.
    Bytes,
    /// By powers of two, labelled in KiB and MiB.
    LogBytes,
}

/// Curves over a common pair of axes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Chart {
    /// Quantity on the x axis.
    pub x: String,
    /// What the y axis shows.
    pub y: String,
    /// Scale of the x axis.
    pub x_scale: Scale,
    /// Scale of the y axis.
    pub y_scale: Scale,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A box of a box plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BoxMark {
    /// Label below the box.
    pub name: String,
    /// Index of its group, which gives the colour.
    pub group_index: usize,
    /// Values of the box.
    #[serde(serialize_with = "box_numbers")]
    #[cfg_attr(test, schemars(with = "BoxNumbers"))]
    pub stats: BoxStats,
}

/// Boxes side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BoxChart {
    /// What the y axis shows.
    pub y: String,
    /// Scale of the y axis.
    pub y_scale: Scale,
    /// Names of the groups.
    pub group_names: Vec<String>,
    /// The boxes.
    pub boxes: Vec<BoxMark>,
    /// Horizontal lines with labels, such as limits and budgets.
    pub lines: Vec<(String, f64)>,
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Curves.
    Chart(Chart),
    /// Boxes.
    BoxChart(BoxChart),
}

/// More outliers than these in one box make a blot, not a picture.
const MAX_OUTLIERS: usize = 80;

/// Values of a box: quartiles, whiskers at 1.5 interquartile ranges, mean, and a sample of the values beyond the whiskers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BoxNumbers {
    /// First quartile.
    q1: f64,
    /// Median.
    median: f64,
    /// Third quartile.
    q3: f64,
    /// Lowest value within 1.5 interquartile ranges of the first quartile.
    whisker_low: f64,
    /// Highest value within 1.5 interquartile ranges of the third quartile.
    whisker_high: f64,
    /// Arithmetic mean.
    mean: f64,
    /// Largest value.
    max: f64,
    /// Values beyond the whiskers; at most 80, evenly chosen.
    outliers: Vec<f64>,
}

fn box_numbers<S: Serializer>(s: &BoxStats, serializer: S) -> Result<S::Ok, S::Error> {
    let skip = s.outliers.len().div_ceil(MAX_OUTLIERS).max(1);
    let q1 = s.q1;
    let median = s.median;
    let q3 = s.q3;
    let outliers = s.outliers.iter().copied().step_by(skip).collect();
    let whisker_low = s.whisker_low;
    let whisker_high = s.whisker_high;
    let mean = s.mean;
    let max = s.max;
    BoxNumbers {
        q1,
        median,
        q3,
        whisker_low,
        whisker_high,
        mean,
        max,
        outliers,
    }
    .serialize(serializer)
}

/// 65536 as `64K`, in powers of 1024.
pub fn bytes(v: f64) -> String {
    for (limit, unit) in [(1_073_741_824.0, "G"), (1_048_576.0, "M"), (1024.0, "K")] {
        if v >= limit {
            return format!("{}{unit}", (v / limit * 10.0).round() / 10.0);
        }
    }
    format!("{v:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_lab::statistics::poll::box_stats;

    #[test]
    fn a_box_has_at_most_80_of_its_outliers() {
        let values: Vec<f64> = (0..10_000)
            .map(|i| {
                if i % 50 == 0 {
                    1e6 + f64::from(i)
                } else {
                    f64::from(i % 7)
                }
            })
            .collect();
        let stats = box_stats(&values).expect("values");
        assert_eq!(stats.outliers.len(), 200);
        let mark = BoxMark {
            name: "b".to_owned(),
            group_index: 0,
            stats,
        };
        let json = serde_json::to_value(&mark).expect("JSON");
        assert_eq!(json["stats"]["outliers"].as_array().map(Vec::len), Some(67));
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(
            (bytes(65_536.0), bytes(512.0)),
            ("64K".to_owned(), "512".to_owned())
        );
    }
}
