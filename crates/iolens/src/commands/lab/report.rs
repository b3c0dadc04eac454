//! `iolens lab report`: an experiment as text, CSV, Parquet, JSON and HTML.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::DataTable;
use iolens_core::store::data_parquet;
use serde_json::{Value, json};

use super::{copies_report, fio_report, poll_report};
use crate::lab::copies::CopyResult;
use crate::lab::experiment::Experiment;
use crate::lab::fio::FioResult;
use crate::lab::poll::PollResult;
use crate::present::escape;
use crate::present::lab_document::{Document, Raw, Section, csv, html, text};

/// A larger file is not put into the HTML; it lies beside it.
const MAX_EMBEDDED_BYTES: usize = 4 << 20;

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

/// Renders the experiment in `dir`: text (or one JSON document) on stdout; report.html, results.json and the tables
/// beside the cells.
///
/// # Errors
/// There is no experiment, or its cells cannot be read.
pub fn run(dir: &Path, as_json: bool) -> Result<u8> {
    let (experiment, plan) = Experiment::open(dir)?;
    let rendered = match plan["kind"].as_str() {
        Some("fio") => fio(&experiment, &plan)?,
        Some("copies") => copies(&experiment, &plan)?,
        Some("poll") => poll(&experiment, &plan)?,
        other => bail!("{}: an experiment of kind {other:?} is not known here", dir.display()),
    };
    if rendered.done == 0 {
        bail!("{}: no cell is complete yet; give the experiment's command again", dir.display());
    }
    let whole = json!({ "schema_version": 1, "experiment": plan, "results": rendered.results });
    let pretty = serde_json::to_string_pretty(&whole)? + "\n";
    let document = Document {
        title: title(&plan),
        facts: facts(&plan, rendered.done),
        method: rendered.method,
        sections: rendered.sections,
    };
    let mut files =
        vec![Raw { name: "results.json".to_owned(), media: "application/json", content: pretty.clone().into() }];
    for (name, table) in &rendered.tables {
        let parquet = data_parquet(table)?;
        files.push(Raw { name: format!("{name}.csv"), media: "text/csv", content: csv(table).into() });
        files.push(Raw { name: format!("{name}.parquet"), media: "application/vnd.apache.parquet", content: parquet });
    }
    for f in &files {
        save(&dir.join(&f.name), &f.content)?;
    }
    let plan_file = Raw {
        name: "experiment.json".to_owned(),
        media: "application/json",
        content: serde_json::to_vec_pretty(&plan)?,
    };
    files.push(plan_file);
    // Without line ends and indents, which are a third of it.
    files[0].content = serde_json::to_vec(&whole)?;
    files.retain(|f| f.content.len() <= MAX_EMBEDDED_BYTES);
    save(&dir.join("report.html"), html(&document, &files).as_bytes())?;
    if as_json {
        print!("{pretty}");
        return Ok(0);
    }
    let names: Vec<String> = rendered.tables.iter().map(|t| format!("{}.csv/.parquet", t.0)).collect();
    let place = escape::terminal(&dir.display().to_string()).into_owned();
    print!("{}\nWritten: report.html, results.json, {} in {place}\n", text(&document), names.join(", "));
    Ok(0)
}

/// Writes a file of the experiment's directory whole or not at all.
pub fn save(path: &Path, content: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    std::fs::write(&part, content)
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn fio(e: &Experiment, plan: &Value) -> Result<Rendered> {
    let results: Vec<(String, FioResult)> = e.results()?;
    let series = fio_report::series(&results);
    let version = results.iter().find_map(|r| r.1.fio_version.clone()).unwrap_or_else(|| "fio".to_owned());
    let extra: Vec<&str> = plan["plan"]["extra"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut method = vec![
        format!(
            "{version}, {} s per run on {} MiB; before each run the file's own pages were dropped from the page cache (runs marked as cached read the file first).",
            plan["plan"]["seconds"],
            plan["plan"]["size"].as_u64().unwrap_or(0) >> 20
        ),
        "The device's counters were read right before and right after fio; every I/O of each run is in cells/*/rec.iolens, which `iolens report` and `iolens zoom` take.".to_owned(),
        "Other processes' I/O and the file system's own are told apart by the recording and taken off before fio and device are compared.".to_owned(),
        "Seek + transfer: t(x) = a + x/B by least squares of relative errors, intervals by jackknife over block sizes. Two-phase page cache: calls and copies from runs on the cached file, the disk's rate from the recording of the cold runs; no parameter is fitted to the predicted rates.".to_owned(),
    ];
    if !extra.is_empty() {
        method.push(format!("More options of fio: {}", extra.join(" ")));
    }
    Ok(Rendered {
        sections: fio_report::sections(&series),
        results: serde_json::to_value(&series)?,
        tables: fio_report::data(&series, &results),
        method,
        done: results.len(),
    })
}

fn copies(e: &Experiment, plan: &Value) -> Result<Rendered> {
    let results: Vec<(String, CopyResult)> = e.results()?;
    let file_mb = plan["plan"]["file_bytes"].as_f64().unwrap_or(0.0) / 1_048_576.0;
    for (cell, result) in &results {
        let document = copies_report::cell_document(result, file_mb, facts(plan, results.len()));
        let samples = copies_report::samples_data(std::slice::from_ref(&(cell.clone(), result.clone())));
        let raw = [Raw { name: "samples.csv".to_owned(), media: "text/csv", content: csv(&samples).into() }];
        save(&e.cell_dir_named(cell).join("report.html"), html(&document, &raw).as_bytes())?;
    }
    Ok(copies_report::render(&results, file_mb, plan))
}

fn poll(e: &Experiment, plan: &Value) -> Result<Rendered> {
    let results: Vec<(String, PollResult)> = e.results()?;
    let results: Vec<PollResult> = results.into_iter().map(|r| r.1).collect();
    Ok(poll_report::render(&results, plan))
}

fn title(plan: &Value) -> String {
    match plan["kind"].as_str() {
        Some("fio") => "fio and the device: a sweep".to_owned(),
        Some("copies") => "Simultaneous copies".to_owned(),
        _ => "Polling the kernel's counters".to_owned(),
    }
}

fn facts(plan: &Value, done: usize) -> Vec<(String, String)> {
    let m = &plan["machine"];
    let word = |v: &Value| v.as_str().map_or_else(|| "unknown".to_owned(), str::to_owned);
    let number = |v: &Value| v.as_u64().map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let planned = plan["plan"]["cells"].as_array().map_or(0, Vec::len);
    [
        ("Host", word(&m["host"])),
        ("Kernel", word(&m["kernel"])),
        ("HZ", number(&m["hz"])),
        ("Processors", number(&m["cpus"])),
        ("Runs complete", format!("{done} of {planned}")),
        ("Order", format!("random within each replicate, seed {}", number(&plan["seed"]))),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .to_vec()
}
