//! `iolens lab report`: an experiment as text, CSV, JSON and HTML.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{copies, fio_report, poll};
use crate::lab::copies::CopyResult;
use crate::lab::experiment::Experiment;
use crate::lab::fio::FioResult;
use crate::lab::poll::PollResult;
use crate::present::lab_document::{Document, Section, Table, csv, html, text};

/// Renders the experiment in `dir`: text (or one JSON document) on stdout; report.html, results.csv and results.json
/// beside the cells.
///
/// # Errors
/// There is no experiment, or its cells cannot be read.
pub fn run(dir: &Path, as_json: bool) -> Result<u8> {
    let (experiment, plan) = Experiment::open(dir)?;
    let (sections, results, table, done) = match plan["kind"].as_str() {
        Some("fio") => fio(&experiment)?,
        Some("copies") => copies_of(&experiment, &plan)?,
        Some("poll") => poll_of(&experiment)?,
        other => bail!("{}: an experiment of kind {other:?} is not known here", dir.display()),
    };
    let planned = plan["plan"]["cells"].as_array().map_or(0, Vec::len);
    if done == 0 {
        bail!("{}: no cell is complete yet; give the experiment's command again", dir.display());
    }
    let document = Document { title: title(&plan), facts: facts(&plan, done, planned), sections };
    let whole = json!({ "schema_version": 1, "experiment": plan, "results": results });
    let save = |name: &str, content: &str| {
        std::fs::write(dir.join(name), content)
            .with_context(|| format!("{} cannot be written", dir.join(name).display()))
    };
    let numbers = csv(&table);
    let pretty = serde_json::to_string_pretty(&whole)? + "\n";
    save("results.csv", &numbers)?;
    save("results.json", &pretty)?;
    save("report.html", &html(&document, &[("results.csv".to_owned(), numbers)]))?;
    print!("{}", if as_json { pretty } else { text(&document) });
    if !as_json {
        println!(
            "\nWritten: report.html, results.csv and results.json in {}",
            crate::present::escape::terminal(&dir.display().to_string())
        );
    }
    Ok(0)
}

type Rendered = (Vec<Section>, Value, Table, usize);

fn fio(e: &Experiment) -> Result<Rendered> {
    let results: Vec<FioResult> = e.results()?;
    let series = fio_report::series(&results);
    Ok((fio_report::sections(&series), serde_json::to_value(&series)?, fio_report::table(&series), results.len()))
}

fn copies_of(e: &Experiment, plan: &Value) -> Result<Rendered> {
    let results: Vec<CopyResult> = e.results()?;
    let file_mb = plan["plan"]["file_bytes"].as_f64().unwrap_or(0.0) / 1_048_576.0;
    let (sections, table, summary) = copies::render(&results, file_mb);
    Ok((sections, summary, table, results.len()))
}

fn poll_of(e: &Experiment) -> Result<Rendered> {
    let results: Vec<PollResult> = e.results()?;
    let (sections, table, summary) = poll::render(&results);
    Ok((sections, summary, table, results.len()))
}

fn title(plan: &Value) -> String {
    match plan["kind"].as_str() {
        Some("fio") => "fio and the device: a sweep".to_owned(),
        Some("copies") => "Simultaneous copies".to_owned(),
        _ => "Polling the kernel's counters".to_owned(),
    }
}

fn facts(plan: &Value, done: usize, planned: usize) -> Vec<String> {
    let m = &plan["machine"];
    let word = |v: &Value| v.as_str().map_or_else(|| "unknown".to_owned(), str::to_owned);
    let number = |v: &Value| v.as_u64().map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    vec![
        format!("host {}, kernel {}, HZ {}, {} processors", word(&m["host"]), word(&m["kernel"]), number(&m["hz"]), number(&m["cpus"])),
        format!("{done} of {planned} cells complete; random order within each replicate, seed {}", number(&plan["seed"])),
        "device numbers from the kernel's counters read right before and right after each run; every I/O in cells/*/rec.iolens".to_owned(),
    ]
}
