//! File-level requests: what the page's Files part draws.

use iolens_core::analysis::files::FilesReport;
use serde_json::{Value, json};

/// Rows of the table by process.
const MOST_ROWS: usize = 30;

/// The block, its numbers rounded to what a chart can show. `report` is grouped by process.
pub(super) fn block(report: &FilesReport) -> Value {
    let mut block = json!({
        "requests": report.requests,
        "syncs": report.syncs,
        "lost_requests": report.lost_requests,
        "unknown_start": report.unknown_start,
        "one_in": report.one_in,
        "flags": report.flags,
        "peak": report.peak,
        "classes": report.classes,
        "processes": report.groups.iter().take(MOST_ROWS).collect::<Vec<_>>(),
        "files": report.files,
        "over_time": report.over_time,
        "slowest": report.slowest,
        "slowest_syncs": report.slowest_syncs,
        "syncs_by_process": report.syncs_by_process,
        "syncs_by_path": report.syncs_by_path,
        "while_syncing": report.while_syncing,
        "unattributed_percent": report.unattributed_percent,
    });
    round(&mut block);
    block
}

/// Seven significant digits: microseconds of an hour's instants, and a third of the bytes.
fn round(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Number(n) if n.is_f64() => {
            // By way of decimals: multiplying would leave a tail of digits.
            let rounded = n.as_f64().and_then(|v| format!("{v:.6e}").parse::<f64>().ok());
            if let Some(rounded) = rounded {
                *value = json!(rounded);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::files_sample::report;

    #[test]
    fn the_block_holds_what_the_report_said_in_fewer_digits() {
        let v = block(&report("/x", 400, 20_000_000));
        assert_eq!((&v["requests"], &v["syncs_by_path"][0]["key"]), (&json!(400), &json!("/x")));
        let rates = v["over_time"]["classes"][0]["per_s"].as_array().expect("series");
        assert_eq!((rates.len(), rates[0].as_f64()), (100, Some(50.0)));
        assert_eq!(v["slowest"][0]["end_us"], json!(110.0));
        let mut n = json!([std::f64::consts::PI * 1e5, 0.0, 12, 1e-300]);
        round(&mut n);
        assert_eq!(n, json!([314159.3, 0.0, 12, 1e-300]));
    }
}
