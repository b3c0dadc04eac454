//! File-level requests: what the page's Files part draws.

use std::collections::BTreeMap;

use iolens_core::analysis::files::answers::PeakWindow;
use iolens_core::analysis::files::calls::FileCalls;
use iolens_core::analysis::files::syncs::{Meanwhile, SyncGroup};
use iolens_core::analysis::files::timeline::FilesOverTime;
use iolens_core::analysis::files::{ClassReport, FilesReport, Group, SlowRequest};
use serde::Serialize;
use serde_json::Value;

use super::pack::each_number;

/// Rows of the table by process.
const MAX_ROWS: usize = 30;

/// The part of a report of requests that the page draws.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FilesBlock<'a> {
    requests: u64,
    syncs: u64,
    lost_requests: u64,
    /// Requests opened before recording began. They count in sums but not in response times.
    unknown_start: u64,
    /// Sampling ratio: medians are based on one in this many requests.
    one_in: u64,
    /// Number of requests with each flag.
    requests_by_flag: &'a BTreeMap<&'static str, u64>,
    /// The busiest stretch.
    peak_window: &'a Option<PeakWindow>,
    classes: &'a [ClassReport],
    /// Those with most time in calls.
    groups: &'a [Group],
    /// The files with most time in calls.
    files: &'a [Group],
    over_time: &'a FilesOverTime,
    slowest: &'a [SlowRequest],
    slowest_syncs: &'a [SlowRequest],
    syncs_by_process: &'a [SyncGroup],
    syncs_by_path: &'a [SyncGroup],
    calls: &'a [FileCalls],
    while_syncing: &'a [Meanwhile],
    /// Percent of the bytes of block I/O that no request asked for at that time: write-back, metadata.
    unattributed_percent: Option<f64>,
}

/// The block, its numbers rounded to what a chart can show. `report` is grouped by process.
pub(super) fn block(report: &FilesReport) -> Value {
    let block = FilesBlock {
        requests: report.requests,
        syncs: report.syncs,
        lost_requests: report.lost_requests,
        unknown_start: report.unknown_start,
        one_in: report.one_in,
        requests_by_flag: &report.requests_by_flag,
        peak_window: &report.peak_window,
        classes: &report.classes,
        groups: &report.groups[..report.groups.len().min(MAX_ROWS)],
        files: &report.files,
        over_time: &report.over_time,
        slowest: &report.slowest,
        slowest_syncs: &report.slowest_syncs,
        syncs_by_process: &report.syncs_by_process,
        syncs_by_path: &report.syncs_by_path,
        calls: &report.calls,
        while_syncing: &report.while_syncing,
        unattributed_percent: report.unattributed_percent,
    };
    // Plain structs with string keys cannot fail to serialise.
    let mut value = serde_json::to_value(block).unwrap_or_default();
    round(&mut value);
    value
}

/// Seven significant digits: microseconds of an hour's instants, and a third of the bytes.
fn round(value: &mut Value) {
    // By way of decimals: multiplying would leave a tail of digits.
    each_number(value, |v| format!("{v:.6e}").parse().unwrap_or(v));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::files_sample::report;
    use serde_json::json;

    #[test]
    fn the_block_holds_what_the_report_said_in_fewer_digits() {
        let v = block(&report("/x", 400, 20_000_000));
        assert_eq!(
            (&v["requests"], &v["syncs_by_path"][0]["name"]),
            (&json!(400), &json!("/x"))
        );
        let rates = v["over_time"]["classes"][0]["per_s"]
            .as_array()
            .expect("series");
        assert_eq!((rates.len(), rates[0].as_f64()), (100, Some(50.0)));
        assert_eq!(v["slowest"][0]["end_us"], json!(110.0));
        assert_eq!(
            (
                &v["calls"][0]["read"]["n"],
                &v["calls"][0]["sync"]["p99_us"]
            ),
            (&json!(800), &json!(5000.0))
        );
        let mut n = json!([std::f64::consts::PI * 1e5, 0.0, 12, 1e-300]);
        round(&mut n);
        assert_eq!(n, json!([314159.3, 0.0, 12, 1e-300]));
    }
}
