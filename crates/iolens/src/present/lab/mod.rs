//! The documents of experiments, from the results of their cells.

pub mod chart;
pub mod copies;
pub mod document;
mod fio;
pub mod poll;

use iolens_core::model::DataTable;
use iolens_lab::fio::FioResult;
use serde_json::Value;

use document::Section;

/// What an experiment's kind makes of its cells.
pub struct Rendered {
    /// Parts of the document.
    pub sections: Vec<Section>,
    /// For JSON.
    pub results: Value,
    /// Tables of data by name; each becomes NAME.csv and NAME.parquet.
    pub tables: Vec<(&'static str, DataTable)>,
    /// How it was measured.
    pub method: Vec<String>,
    /// Complete cells.
    pub done: usize,
}

/// A sweep of fio.
///
/// # Errors
/// A result that JSON cannot hold.
pub fn fio_sweep(results: &[(String, FioResult)], plan: &Value) -> serde_json::Result<Rendered> {
    let series = fio::series(results);
    let version = results
        .iter()
        .find_map(|r| r.1.fio_version.clone())
        .unwrap_or_else(|| "fio".to_owned());
    let extra: Vec<&str> = plan["plan"]["extra"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut method = vec![
        format!(
            "{version}, {} s per run on {} MiB; before each run the file's own pages were dropped from the page cache (runs marked as cached read the file first).",
            plan["plan"]["seconds"],
            plan["plan"]["size"].as_u64().unwrap_or(0) >> 20
        ),
        "The device's counters were read right before and right after fio; every I/O of each run is in cells/*/rec.iolens, which `iolens report` and `iolens zoom` take.".to_owned(),
        "Other processes' I/O and the file system's own are separated by the recording and taken off before fio and device are compared.".to_owned(),
        "Seek + transfer: t(x) = a + x/B by least squares of relative errors, intervals by jackknife over block sizes. Two-phase page cache: calls and copies from runs on the cached file, the disk's rate from the recording of the cold runs; no parameter is fitted to the predicted rates.".to_owned(),
    ];
    if !extra.is_empty() {
        method.push(format!("More options of fio: {}", extra.join(" ")));
    }
    Ok(Rendered {
        sections: fio::sections(&series),
        results: serde_json::to_value(&series)?,
        tables: fio::data(&series, results),
        method,
        done: results.len(),
    })
}

/// The heading of the experiment that `plan` describes.
pub fn title(plan: &Value) -> String {
    match plan["kind"].as_str() {
        Some("fio") => "fio and the device: a sweep".to_owned(),
        Some("copies") => "Simultaneous copies".to_owned(),
        _ => "Polling the kernel's counters".to_owned(),
    }
}

/// Machine and extent of an experiment with `done` complete runs.
pub fn facts(plan: &Value, done: usize) -> Vec<(String, String)> {
    let m = &plan["machine"];
    let planned = plan["plan"]["cells"].as_array().map_or(0, Vec::len);
    let seed = number(&plan["seed"]);
    [
        ("Host", word(&m["host"])),
        ("Kernel", word(&m["kernel"])),
        ("HZ", number(&m["hz"])),
        ("Processors", number(&m["cpus"])),
        ("Runs complete", format!("{done} of {planned}")),
        (
            "Order",
            format!("random within each replicate, seed {seed}"),
        ),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .to_vec()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("unknown").to_owned()
}

fn number(value: &Value) -> String {
    match value.as_u64() {
        Some(n) => n.to_string(),
        None => "unknown".to_owned(),
    }
}
