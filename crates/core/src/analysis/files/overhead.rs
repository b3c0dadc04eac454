//! Cost of opening a file and cost of an I/O (A9), by two methods: estimated from response time by size, and measured
//! directly. A verdict says whether the estimate agrees with the measurement.

use serde::Serialize;

use super::median;
use super::size::SizePoint;
use crate::analysis::math::stats::nearest_rank;

/// The classical decomposition: `first delay = overhead + I/O`, `total(2 blocks) = first delay + I/O`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Classical {
    /// Size of one I/O in the estimate.
    pub block_bytes: i64,
    /// Median response time of requests of up to one block, in microseconds.
    pub one_block_us: f64,
    /// Number of requests of up to one block.
    pub one_block_n: usize,
    /// Median response time of requests of more than one and up to two blocks, in microseconds.
    pub two_blocks_us: f64,
    /// Number of requests of more than one and up to two blocks.
    pub two_blocks_n: usize,
    /// Cost of an I/O: the difference of the medians, in microseconds.
    pub io_us: f64,
    /// Cost of everything else: one block minus one I/O, in microseconds.
    pub overhead_us: f64,
    /// Second estimate of the cost of an I/O: median of response time minus first delay of two-block requests, in microseconds.
    pub io2_us: f64,
}

/// The classical decomposition for I/Os of `block` bytes; `None` without requests of one block, or of two.
pub fn classical(points: &[SizePoint], block: i64) -> Option<Classical> {
    let mut one = totals_us(points, 0, block);
    let mut two = totals_us(points, block, 2 * block);
    let of_two = points
        .iter()
        .filter(|p| block < p.bytes && p.bytes <= 2 * block);
    let mut later: Vec<f64> = of_two
        .map(|p| (p.total_ns - p.first_ns) as f64 / 1e3)
        .collect();
    let one_block_us = median(&mut one)?;
    let two_blocks_us = median(&mut two)?;
    let io_us = two_blocks_us - one_block_us;
    Some(Classical {
        block_bytes: block,
        one_block_us,
        one_block_n: one.len(),
        two_blocks_us,
        two_blocks_n: two.len(),
        io_us,
        overhead_us: one_block_us - io_us,
        io2_us: median(&mut later)?,
    })
}

/// Response times in microseconds of the requests of more than `over` bytes and at most `to`.
fn totals_us(points: &[SizePoint], over: i64, to: i64) -> Vec<f64> {
    points
        .iter()
        .filter(|p| over < p.bytes && p.bytes <= to)
        .map(|p| p.total_ns as f64 / 1e3)
        .collect()
}

/// The measurements of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectPoint {
    /// Duration of the open call, in nanoseconds.
    pub open_ns: Option<i64>,
    /// Duration of the first data I/O.
    pub first_ns: Option<i64>,
    /// Duration of the second data I/O.
    pub second_ns: Option<i64>,
    /// Whether the second data I/O found its data in memory; `None` if that is not known.
    pub second_hit: Option<bool>,
    /// Mean duration of the data I/Os after the first.
    pub later_ns: Option<i64>,
    /// Duration of the close call.
    pub close_ns: Option<i64>,
    /// Time between calls.
    pub gaps_ns: Option<i64>,
    /// Time of block I/Os that the caller submitted during its data I/Os.
    pub device_ns: Option<i64>,
    /// Number of synchronous reads.
    pub reads: i64,
    /// Number of synchronous reads that found their data in memory.
    pub hits: i64,
}

/// Median and 95th percentile of one part of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostPart {
    /// Number of requests with this part.
    pub n: usize,
    /// Fewer than 30 requests.
    pub low_n: bool,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 95th percentile (nearest rank), in microseconds.
    pub p95_us: f64,
}

fn part(values: impl Iterator<Item = Option<i64>>) -> Option<CostPart> {
    let mut us: Vec<f64> = values.flatten().map(|ns| ns as f64 / 1e3).collect();
    let n = us.len();
    Some(CostPart {
        n,
        low_n: n < 30,
        p50_us: median(&mut us)?,
        p95_us: nearest_rank(&mut us, 0.95)?,
    })
}

/// The direct decomposition; `None` for a part that no request has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Direct {
    /// Duration of the open call.
    pub open_call: Option<CostPart>,
    /// Duration of the first data I/O.
    pub first_io: Option<CostPart>,
    /// Duration of the second data I/O.
    pub second_io: Option<CostPart>,
    /// Duration of the data I/Os after the first.
    pub later_ios: Option<CostPart>,
    /// Duration of the close call.
    pub close_call: Option<CostPart>,
    /// Time between calls, spent in the program itself.
    pub gaps: Option<CostPart>,
    /// Time of block I/O inside the calls.
    pub block_io: Option<CostPart>,
    /// Percent of synchronous reads that found their data in memory.
    pub cache_hit_percent: Option<f64>,
    /// Percent of second data I/Os that found their data in memory.
    pub second_hit_percent: Option<f64>,
}

/// The direct decomposition of `points`.
pub fn direct(points: &[DirectPoint]) -> Direct {
    let seconds: Vec<bool> = points.iter().filter_map(|p| p.second_hit).collect();
    let second_hits = seconds.iter().filter(|h| **h).count();
    Direct {
        open_call: part(points.iter().map(|p| p.open_ns)),
        first_io: part(points.iter().map(|p| p.first_ns)),
        second_io: part(points.iter().map(|p| p.second_ns)),
        later_ios: part(points.iter().map(|p| p.later_ns)),
        close_call: part(points.iter().map(|p| p.close_ns)),
        gaps: part(points.iter().map(|p| p.gaps_ns)),
        block_io: part(points.iter().map(|p| p.device_ns)),
        cache_hit_percent: percent(
            points.iter().map(|p| p.hits).sum(),
            points.iter().map(|p| p.reads).sum(),
        ),
        second_hit_percent: percent(second_hits as i64, seconds.len() as i64),
    }
}

/// `hits` in percent of `all`; `None` if `all` is 0.
fn percent(hits: i64, all: i64) -> Option<f64> {
    (all > 0).then(|| 100.0 * hits as f64 / all as f64)
}

/// Whether the classical decomposition is valid.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "ClassicalVerdict")
)]
pub struct OverheadVerdict {
    /// Whether the estimate is valid.
    pub valid: bool,
    /// Reason why the estimate is valid or not.
    pub why: String,
}

/// Judges `c` by the direct measurement.
pub fn judge(c: &Classical, direct: &Direct) -> OverheadVerdict {
    if c.io_us <= 0.0 || c.overhead_us < 0.0 {
        let why = format!(
            "requests of one block took {:.1} us, of two {:.1} us: a negative cost comes out",
            c.one_block_us, c.two_blocks_us
        );
        return OverheadVerdict { valid: false, why };
    }
    verdict(
        c.io_us,
        direct.second_io.map(|p| p.p50_us),
        direct.second_hit_percent,
    )
}

/// Valid if and only if the classical cost of an I/O is within 20 % of the duration of second I/Os, and at most 10 %
/// of these found their data in memory. The derivation assumes that all I/Os cost the same, which readahead breaks.
pub fn verdict(
    io_us: f64,
    second_us: Option<f64>,
    second_hit_percent: Option<f64>,
) -> OverheadVerdict {
    let Some(second) = second_us else {
        return OverheadVerdict {
            valid: false,
            why: "no second I/O was measured to compare with".to_owned(),
        };
    };
    let off = 100.0 * (io_us - second).abs() / second.abs().max(f64::MIN_POSITIVE);
    let hits = second_hit_percent.unwrap_or(0.0);
    // An I/O from memory costs next to nothing: with many of them, the mean says nothing about I/Os from the device.
    if hits > 10.0 {
        let why = format!(
            "{hits:.0} % of second I/Os found their data in memory (readahead or cache), so that I/Os do not cost the same"
        );
        return OverheadVerdict { valid: false, why };
    }
    if off > 20.0 {
        let why = format!(
            "an I/O of {io_us:.1} us is {off:.0} % off the {second:.1} us that second I/Os took"
        );
        return OverheadVerdict { valid: false, why };
    }
    OverheadVerdict {
        valid: true,
        why: format!(
            "second I/Os took {second:.1} us, {off:.0} % off; {hits:.0} % of them from memory"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::simulated;
    use super::*;

    fn golden(file: &str) -> Vec<Vec<String>> {
        let path = format!(
            "{}/../../fixtures/golden/{file}",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(&path).expect(&path);
        text.lines()
            .skip(1)
            .map(|l| l.split(',').map(str::to_owned).collect())
            .collect()
    }

    /// Requests whose medians are those from which a published row of I/O and overhead must have come.
    fn built_from(io_ms: f64, overhead_ms: f64) -> Vec<SizePoint> {
        let one = (io_ms + overhead_ms) * 1e6;
        let two = (2.0 * io_ms + overhead_ms) * 1e6;
        let spread = [0.2, 0.6, 1.0, 1.7, 9.0];
        let point = |bytes: i64, ns: f64| {
            spread.map(|s| SizePoint {
                bytes,
                total_ns: (ns * s) as i64,
                first_ns: ((ns - io_ms * 1e6) * s) as i64,
            })
        };
        [point(5000, one), point(12_000, two)].concat()
    }

    #[test]
    fn the_published_table_comes_out_exactly() {
        for row in golden("seed4_overhead_table.csv") {
            let v: Vec<f64> = row[1..]
                .iter()
                .map(|w| w.parse().expect("a number"))
                .collect();
            for (io, overhead) in [(v[0], v[1]), (v[2], v[3])] {
                let c = classical(&built_from(io, overhead), 8192).expect("both sizes");
                assert_eq!(
                    (c.io_us / 1e3, c.overhead_us / 1e3, c.io2_us / 1e3),
                    (io, overhead, io),
                    "{row:?}"
                );
            }
        }
    }

    #[test]
    fn costs_of_simulated_requests_are_recovered() {
        let points = simulated(7, 40_000, 8192, 16_000.0, 38_000.0, 40_960);
        let c = classical(&points, 8192).expect("both sizes");
        assert!(
            (c.io_us / 38.0 - 1.0).abs() < 0.02 && (c.overhead_us / 16.0 - 1.0).abs() < 0.02,
            "{c:?}"
        );
        assert!((c.io2_us / 38.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn measured_modes_get_their_verdicts() {
        for row in golden("measured_overhead_decomposition_us.csv") {
            let n = |i: usize| row[i].parse::<f64>().expect("a number");
            let one = n(1);
            let two = n(2);
            let second = n(9);
            let point = |bytes, us: f64| SizePoint {
                bytes,
                total_ns: (us * 1e3) as i64,
                first_ns: 0,
            };
            let c = classical(&[point(8000, one), point(16_000, two)], 8192).expect("both sizes");
            assert!(
                (c.io_us - n(5)).abs() < 0.06 && (c.overhead_us - n(6)).abs() < 0.11,
                "{row:?} {c:?}"
            );
            let hits = if row[0].starts_with("buffered") {
                95.0
            } else {
                0.0
            };
            let v = verdict(c.io_us, Some(second), Some(hits));
            assert_eq!(v.valid, !row[0].starts_with("buffered"), "{row:?} {v:?}");
            assert!(!verdict(c.io_us, Some(2.0), Some(0.0)).valid, "far off");
        }
        assert!(!verdict(1.0, None, None).valid);
    }

    #[test]
    fn a_negative_cost_is_no_decomposition() {
        let point = |bytes, us: i64| SizePoint {
            bytes,
            total_ns: us * 1000,
            first_ns: us * 500,
        };
        let direct = direct(
            &[DirectPoint {
                second_ns: Some(11_400),
                ..DirectPoint::default()
            }; 2],
        );
        for (one, two) in [(11, 839_359), (50, 40)] {
            let c = classical(&[point(8000, one), point(16_000, two)], 8192).expect("both sizes");
            let v = judge(&c, &direct);
            assert!(!v.valid && v.why.contains("negative"), "{c:?} {v:?}");
        }
    }

    #[test]
    fn parts_nobody_has_are_absent() {
        let points = [DirectPoint {
            open_ns: Some(5000),
            reads: 4,
            hits: 3,
            ..DirectPoint::default()
        }; 3];
        let d = direct(&points);
        assert_eq!(
            d.open_call.map(|p| (p.n, p.p50_us, p.low_n)),
            Some((3, 5.0, true))
        );
        assert_eq!(
            (d.close_call, d.cache_hit_percent, d.second_hit_percent),
            (None, Some(75.0), None)
        );
        assert_eq!(classical(&[], 8192), None);
    }
}
