//! `findings`: conclusions with their places in time.

use iolens_core::model::{KindName, Severity};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::engine;
use crate::present::SCHEMA_VERSION;
use crate::present::columns::{Column, Columns};
use crate::present::times::rfc3339;

/// Findings of a time range.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingsDocument {
    schema_version: u32,
    findings: Vec<PlacedFinding>,
    notes: Vec<String>,
}

impl FindingsDocument {
    /// `found` in their order.
    pub fn new(
        found: Vec<engine::findings::PlacedFinding>,
        notes: Vec<String>,
    ) -> FindingsDocument {
        FindingsDocument {
            schema_version: SCHEMA_VERSION,
            findings: found.into_iter().map(placed).collect(),
            notes,
        }
    }

    /// A row for each finding; its evidence is JSON in a text.
    pub fn columns(&self) -> Columns {
        columns(&self.findings)
    }
}

/// A finding of the report with its place in time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlacedFinding {
    start: String,
    end: String,
    start_unix_s: f64,
    end_unix_s: f64,
    /// Start, in seconds since the recording's start.
    start_s: f64,
    end_s: f64,
    #[cfg_attr(test, schemars(with = "String"))]
    kind: KindName,
    #[cfg_attr(test, schemars(with = "String"))]
    severity: Severity,
    device: Option<String>,
    summary: String,
    #[cfg_attr(test, schemars(with = "iolens_core::analysis::findings::Evidence"))]
    evidence: Map<String, Value>,
}

fn placed(f: engine::findings::PlacedFinding) -> PlacedFinding {
    let finding = f.finding;
    PlacedFinding {
        start: rfc3339(f.from_unix_ns),
        end: rfc3339(f.to_unix_ns),
        start_unix_s: f.from_unix_ns as f64 / 1e9,
        end_unix_s: f.to_unix_ns as f64 / 1e9,
        start_s: finding.from_ns as f64 / 1e9,
        end_s: finding.to_ns as f64 / 1e9,
        kind: finding.kind,
        severity: finding.severity,
        device: finding.device,
        summary: finding.summary,
        evidence: finding.evidence,
    }
}

fn columns(findings: &[PlacedFinding]) -> Columns {
    let mut columns = Columns::default();
    columns.push("start", texts(findings, |f| &f.start));
    columns.push("end", texts(findings, |f| &f.end));
    columns.push("start_unix_s", numbers(findings, |f| f.start_unix_s));
    columns.push("end_unix_s", numbers(findings, |f| f.end_unix_s));
    columns.push("kind", texts(findings, |f| f.kind.as_str()));
    let devices = findings.iter().map(|f| f.device.as_deref());
    columns.push("device", Column::Texts(devices.collect()));
    columns.push("severity", texts(findings, |f| f.severity.name()));
    columns.push("summary", texts(findings, |f| &f.summary));
    let evidence: Vec<String> = findings
        .iter()
        .map(|f| Value::from(f.evidence.clone()).to_string())
        .collect();
    let evidence = Column::texts(evidence.iter().map(String::as_str));
    columns.push("evidence", evidence);
    columns
}

fn texts(findings: &[PlacedFinding], of: fn(&PlacedFinding) -> &str) -> Column {
    Column::texts(findings.iter().map(of))
}

fn numbers(findings: &[PlacedFinding], of: fn(&PlacedFinding) -> f64) -> Column {
    Column::Numbers(findings.iter().map(of).collect())
}
