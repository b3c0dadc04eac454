//! `iolens import`: other tools' logs become a recording.

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::audit;
use iolens_core::model::RecorderCost;
use iolens_core::store::{RecordingWriter, WriterOptions, write_rates, write_stages};
use iolens_observe::import::{ImportOptions, Imported, import_files};

use crate::cli::ImportPlan;
use crate::present::escape;

/// Runs the command.
///
/// # Errors
/// A log cannot be read or is of no known format; `--strict` and it is damaged; the recording cannot be written.
pub fn run(plan: &ImportPlan) -> Result<u8> {
    if plan.output.exists() {
        bail!("{}: exists already; choose another name or remove it first", plan.output.display());
    }
    let options = ImportOptions { interval_ns: plan.interval, start_unix_ns: plan.start, strict: plan.strict };
    let mut got = import_files(&plan.files, options)?;
    got.meta.options = plan.files.iter().map(|f| f.display().to_string()).collect();
    write(plan, &got).with_context(|| format!("{} could not be written", plan.output.display()))?;
    for place in &got.damage.places {
        eprintln!("iolens: {}", escape::terminal(&place.to_string()));
    }
    if let Some(more @ 1..) = got.damage.count.checked_sub(got.damage.places.len() as u64) {
        eprintln!("iolens: and {more} more damaged lines or records, not named here");
    }
    print!("{}", summary(plan, &got));
    Ok(0)
}

fn write(plan: &ImportPlan, got: &Imported) -> Result<()> {
    let mut writer = RecordingWriter::create(&plan.output, got.meta.clone(), WriterOptions::default())?;
    for o in &got.observations {
        writer.push(o)?;
    }
    writer.finish(got.meta.end_ns.unwrap_or(0), RecorderCost::default())?;
    write_rates(&plan.output, &got.rates, &got.cpu)?;
    write_stages(&plan.output, &got.bios)?;
    Ok(())
}

fn summary(plan: &ImportPlan, got: &Imported) -> String {
    let ios = got.observations.iter().filter(|o| matches!(o, iolens_core::model::Observation::Io(_))).count();
    let seconds = got.meta.end_ns.unwrap_or(0) as f64 / 1e9;
    let mut out = format!(
        "{}: {} I/Os and {} rows of tables on {} devices, {seconds:.3} s (source {})\n",
        escape::terminal(&plan.output.display().to_string()),
        ios,
        got.rates.len(),
        got.meta.devices.len(),
        got.meta.source,
    );
    if got.damage.count > 0 {
        out.push_str(&format!("damaged and left out: {} lines or records\n", got.damage.count));
    }
    for limit in &got.meta.limits {
        out.push_str(&format!("- {}\n", escape::terminal(limit)));
    }
    if let Some(sentence) = audit::sentence(&audit::audit_tables(&got.rates, &got.meta.devices)) {
        out.push_str(&format!("audit of averages: {sentence}\n"));
    }
    let rec = escape::terminal(&plan.output.display().to_string()).into_owned();
    out.push_str(&format!("Next: iolens zoom {rec}, iolens report {rec}\n"));
    out
}
