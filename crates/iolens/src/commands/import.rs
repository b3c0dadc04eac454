//! `iolens import`: other tools' logs become a recording.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::counters::audit;
use iolens_core::model::RecorderCost;
use iolens_core::private::Access;
use iolens_core::store::{RecordingWriter, WriterOptions, write_rates, write_stages};
use iolens_import::{ImportOptions, Imported, import_files};
use iolens_observe::counters::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::ImportPlan;
use crate::present::escape;
use crate::present::findings::averaged_averages;
use crate::present::layout::count_of;
use crate::present::record_text::shell_word;

/// Runs `iolens import`.
///
/// # Errors
/// A log cannot be read or is of no known format; `--strict` and it is damaged; the recording cannot be written.
pub fn run(plan: &ImportPlan) -> Result<u8> {
    if plan.output.exists() {
        bail!(
            "{}: exists already; choose another name or remove it first",
            plan.output.display()
        );
    }
    let options = ImportOptions {
        interval_ns: plan.interval,
        start_unix_ns: plan.start,
        strict: plan.strict,
    };
    let mut got = import_files(&plan.files, options)?;
    got.meta.options = plan.files.iter().map(|f| f.display().to_string()).collect();
    write_whole(plan, &got)?;
    for place in &got.damage.places {
        eprintln!("iolens: {}", escape::terminal(&place.to_string()));
    }
    if let Some(more @ 1..) = got.damage.count.checked_sub(got.damage.places.len() as u64) {
        eprintln!("iolens: and {more} more damaged lines or records, not named here");
    }
    print!("{}", summary(plan, &got));
    Ok(0)
}

/// Writes the recording under another name and renames it: there is a whole one or none, whatever ends this.
fn write_whole(plan: &ImportPlan, got: &Imported) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|s| !process::is_ignored(*s))
    {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let unfinished = unfinished_name(&plan.output);
    let written = write(&unfinished, got, plan.share.access(), &interrupted)
        .and_then(|()| Ok(std::fs::rename(&unfinished, &plan.output)?))
        .with_context(|| format!("{} could not be written", plan.output.display()));
    if written.is_err() && unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    written
}

/// `.NAME.importing-PID` beside the recording to be.
fn unfinished_name(output: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".importing-{}", std::process::id()));
    output.with_file_name(name)
}

/// I/Os between two checks for an interrupt by the user.
const BETWEEN_LOOKS: usize = 1 << 14;

fn write(to: &Path, got: &Imported, access: Access, interrupted: &AtomicBool) -> Result<()> {
    let check = || {
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was written")
        } else {
            Ok(())
        }
    };
    let mut writer = RecordingWriter::create(
        to,
        got.meta.clone(),
        WriterOptions {
            access,
            ..WriterOptions::default()
        },
    )?;
    for some in got.observations.chunks(BETWEEN_LOOKS) {
        check()?;
        some.iter().try_for_each(|o| writer.push(o))?;
    }
    writer.finish(got.meta.end_ns.unwrap_or(0), RecorderCost::default())?;
    check()?;
    write_rates(to, &got.rates, &got.cpu, access)?;
    check()?;
    write_stages(to, &got.bios, access)?;
    check()
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
