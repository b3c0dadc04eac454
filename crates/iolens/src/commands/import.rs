//! `iolens import`: other tools' logs become a recording.

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::audit;
use iolens_core::model::{DevId, IntervalRates, RecorderCost};
use iolens_core::store::{RecordingWriter, WriterOptions, write_rates};
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
    let audit = audit_tables(&got.rates);
    got.meta.limits.extend(audit.iter().map(|s| format!("audit of averages: {s}")));
    write(plan, &got).with_context(|| format!("{} could not be written", plan.output.display()))?;
    for place in &got.damage.places {
        eprintln!("iolens: {}", escape::terminal(&place.to_string()));
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
    Ok(())
}

/// A25 over every pair of tables of which one is finer, each device (or sum of devices) being a table of its own.
fn audit_tables(rates: &[IntervalRates]) -> Option<String> {
    let mut devices: Vec<DevId> = rates.iter().map(|r| r.dev).collect();
    devices.sort_unstable();
    devices.dedup();
    // Sums of devices have made-up numbers and come one per resolution; a log of a thousand disks has nothing to audit.
    if devices.len() > 8 {
        return None;
    }
    let of = |dev: DevId| -> Vec<IntervalRates> { rates.iter().filter(|r| r.dev == dev).copied().collect() };
    let tables: Vec<Vec<IntervalRates>> = devices.into_iter().map(of).collect();
    let step = |t: &[IntervalRates]| t.first().map_or(0, IntervalRates::interval_ns);
    let mut rows = Vec::new();
    for coarse in &tables {
        // Only against the next finer table: a second one below it would count the same rows again.
        let finer = tables.iter().filter(|t| step(t) < step(coarse)).max_by_key(|t| step(t));
        rows.extend(finer.map(|fine| audit::audit(coarse, fine)).unwrap_or_default());
    }
    audit::sentence(&rows)
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
    let rec = escape::terminal(&plan.output.display().to_string()).into_owned();
    out.push_str(&format!("Next: iolens zoom {rec}, iolens report {rec}\n"));
    out
}
