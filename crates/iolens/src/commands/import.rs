//! `iolens import`: converts other tools' logs to a recording.

use std::path::Path;

use anyhow::Result;
use iolens_core::analysis::counters::audit;
use iolens_core::model::RecorderCost;
use iolens_core::private::Access;
use iolens_core::store::{RecordingWriter, WriterOptions, write_rates, write_stages};
use iolens_import::{ImportOptions, Imported, import_files};

use crate::cli::ImportPlan;
use crate::copies::output::{Interrupt, refuse_existing, write_whole};
use crate::present::escape;
use crate::present::findings::averaged_averages;
use crate::present::layout::count_of;
use crate::present::record_text::shell_word;

/// Runs `iolens import`.
///
/// # Errors
/// A log cannot be read or has no known format, it is damaged and `--strict` is set, or the recording cannot be
/// written.
pub fn run(plan: &ImportPlan) -> Result<u8> {
    refuse_existing(&plan.output)?;
    let options = ImportOptions {
        interval_ns: plan.interval,
        start_unix_ns: plan.start,
        strict: plan.strict,
    };
    let mut got = import_files(&plan.files, options)?;
    got.meta.options = plan.files.iter().map(|f| f.display().to_string()).collect();
    write_whole(&plan.output, "importing", |to, interrupt| {
        write(to, &got, plan.share.access(), interrupt)
    })?;
    for place in &got.damage.places {
        eprintln!("iolens: {}", escape::terminal(&place.to_string()));
    }
    if let Some(more @ 1..) = got.damage.count.checked_sub(got.damage.places.len() as u64) {
        eprintln!("iolens: and {more} more damaged lines or records, not named here");
    }
    print!("{}", summary(plan, &got));
    Ok(0)
}

/// Number of I/Os between two checks for an interrupt.
const BETWEEN_LOOKS: usize = 1 << 14;

fn write(to: &Path, got: &Imported, access: Access, interrupt: &Interrupt) -> Result<()> {
    let mut writer = RecordingWriter::create(
        to,
        got.meta.clone(),
        WriterOptions {
            access,
            ..WriterOptions::default()
        },
    )?;
    for some in got.observations.chunks(BETWEEN_LOOKS) {
        interrupt.check()?;
        some.iter().try_for_each(|o| writer.push(o))?;
    }
    writer.finish(got.meta.end_ns.unwrap_or(0), RecorderCost::default())?;
    interrupt.check()?;
    write_rates(to, &got.rates, &got.cpu, access)?;
    interrupt.check()?;
    write_stages(to, &got.bios, access)?;
    interrupt.check()
}

fn summary(plan: &ImportPlan, got: &Imported) -> String {
    let ios = got
        .observations
        .iter()
        .filter(|o| matches!(o, iolens_core::model::Observation::Io(_)))
        .count();
    let seconds = got.meta.end_ns.unwrap_or(0) as f64 / 1e9;
    let intervals = count_of(got.rates.len() as u64, "interval");
    let (what, remark) = match (ios, got.rates.len()) {
        (_, 0) => (count_of(ios as u64, "I/O"), ""),
        (0, _) => (intervals, " (averages, no per-I/O data)"),
        _ => (
            format!(
                "{} and {intervals} of averages",
                count_of(ios as u64, "I/O")
            ),
            "",
        ),
    };
    let mut out = format!(
        "{}: {what} from {}{remark}, {seconds:.3} s (source {})\n",
        escape::terminal(&plan.output.display().to_string()),
        count_of(got.meta.devices.len() as u64, "device"),
        escape::terminal(&got.meta.source.to_string()),
    );
    if got.damage.count > 0 {
        out.push_str(&format!(
            "damaged and left out: {} lines or records\n",
            got.damage.count
        ));
    }
    for limit in &got.meta.limits {
        out.push_str(&format!("- {}\n", escape::terminal(limit)));
    }
    if let Some(sentence) = averaged_averages(&audit::audit_tables(&got.rates, &got.meta.devices)) {
        out.push_str(&format!(
            "audit of averages: {}\n",
            escape::terminal(&sentence)
        ));
    }
    let rec = shell_word(&plan.output);
    out.push_str(&format!("Next: iolens zoom {rec}, iolens report {rec}\n"));
    out
}
