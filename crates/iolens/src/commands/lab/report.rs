//! `iolens lab report`: renders an experiment as text, CSV, Parquet, JSON and HTML.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::DataTable;
use iolens_core::private::{Access, write_file};
use iolens_core::store::data_parquet;
use iolens_lab::copies::CopyResult;
use iolens_lab::experiment::Experiment;
use iolens_lab::poll::PollResult;
use serde_json::{Value, json};

use crate::present::SCHEMA_VERSION;
use crate::present::escape;
use crate::present::lab::document::{Document, Raw, csv, html, text};
use crate::present::lab::{self, Rendered};
use crate::streams;

/// Larger files are not embedded in the HTML report but written beside it.
const MAX_EMBEDDED_BYTES: usize = 4 << 20;

/// Renders the experiment in `dir`: text or one JSON document on stdout, and report.html, results.json and the tables
/// as files beside the cells.
///
/// # Errors
/// There is no experiment, or its cells cannot be read.
pub fn run(dir: &Path, as_json: bool) -> Result<u8> {
    let (experiment, plan) = Experiment::open(dir)?;
    let rendered = match plan["kind"].as_str() {
        Some("fio") => lab::fio_sweep(&experiment.results()?, &plan)?,
        Some("copies") => copies(&experiment, &plan)?,
        Some("poll") => lab::poll::render(&polled(&experiment)?, &plan),
        other => bail!(
            "{}: an experiment of kind {other:?} is not known here",
            dir.display()
        ),
    };
    if rendered.done == 0 {
        bail!(
            "{}: no cell is complete yet; give the experiment's command again",
            dir.display()
        );
    }
    let whole = json!({ "schema_version": SCHEMA_VERSION, "experiment": plan, "results": rendered.results });
    let pretty = escape::json(&(serde_json::to_string_pretty(&whole)? + "\n")).into_owned();
    let document = Document {
        title: lab::title(&plan),
        facts: lab::facts(&plan, rendered.done),
        method: rendered.method,
        sections: rendered.sections,
    };
    let mut files = vec![Raw {
        name: "results.json".to_owned(),
        media: "application/json",
        content: pretty.clone().into(),
    }];
    files.extend(table_files(&rendered.tables)?);
    for f in &files {
        save(&dir.join(&f.name), &f.content)?;
    }

    // Embedded in the page as well; the plan is already in the directory.
    files.push(Raw {
        name: "experiment.json".to_owned(),
        media: "application/json",
        content: escape::json(&serde_json::to_string_pretty(&plan)?)
            .as_bytes()
            .to_vec(),
    });
    // Without line ends and indentation, which are a third of its size.
    files[0].content = escape::json(&serde_json::to_string(&whole)?)
        .as_bytes()
        .to_vec();
    files.retain(|f| f.content.len() <= MAX_EMBEDDED_BYTES);
    let page = save_page(&dir.join("report.html"), &document, &files)?;

    if as_json {
        print!("{pretty}");
        return Ok(0);
    }
    let names: Vec<String> = rendered
        .tables
        .iter()
        .map(|t| format!("{}.csv/.parquet", t.0))
        .collect();
    let place = escape::terminal(&dir.display().to_string()).into_owned();
    let layout = streams::layout();
    let page = if page { "report.html, " } else { "" };
    let written = layout.sentences(&format!(
        "Written: {page}results.json, {} in {place}",
        names.join(", ")
    ));
    print!("{}\n{written}", text(&document, layout));
    Ok(0)
}

/// Each table as a CSV and a Parquet file.
fn table_files(tables: &[(&str, DataTable)]) -> Result<Vec<Raw>> {
    let mut files = Vec::new();
    for (name, table) in tables {
        files.push(Raw {
            name: format!("{name}.csv"),
            media: "text/csv",
            content: csv(table).into(),
        });
        files.push(Raw {
            name: format!("{name}.parquet"),
            media: "application/vnd.apache.parquet",
            content: data_parquet(table)?,
        });
    }
    Ok(files)
}

/// Writes a file in the experiment's directory atomically.
fn save(path: &Path, content: &[u8]) -> Result<()> {
    write_file(path, content, Access::OWNER)
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// Writes the page of a document, and returns whether it did: a program built without the page only writes the
/// numbers.
fn save_page(path: &Path, document: &Document, files: &[Raw]) -> Result<bool> {
    match html(document, files) {
        Ok(page) => save(path, &page).map(|()| true),
        Err(e) => {
            streams::note(format_args!(
                "{}: {e}\n",
                escape::terminal(&path.display().to_string())
            ));
            Ok(false)
        }
    }
}

/// Writes a document beside each cell. Returns the document of the whole experiment.
fn copies(e: &Experiment, plan: &Value) -> Result<Rendered> {
    let results: Vec<(String, CopyResult)> = e.results()?;
    let file_mb = plan["plan"]["file_bytes"].as_f64().unwrap_or(0.0) / 1_048_576.0;
    for (cell, result) in &results {
        let document = lab::copies::cell_document(result, file_mb, lab::facts(plan, results.len()));
        let samples =
            lab::copies::samples_data(std::slice::from_ref(&(cell.clone(), result.clone())));
        let raw = [Raw {
            name: "samples.csv".to_owned(),
            media: "text/csv",
            content: csv(&samples).into(),
        }];
        save_page(&e.cell_dir_named(cell).join("report.html"), &document, &raw)?;
    }
    Ok(lab::copies::render(&results, file_mb, plan))
}

fn polled(e: &Experiment) -> Result<Vec<PollResult>> {
    let results: Vec<(String, PollResult)> = e.results()?;
    Ok(results.into_iter().map(|r| r.1).collect())
}
