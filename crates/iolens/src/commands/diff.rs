//! `iolens diff`: compares two stretches of time.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Result, bail};

use crate::cli::{ClockArgs, DiffPlan};
use crate::engine::TimeWindow;
use crate::engine::diff::{self, ComparedStretch, Condition, ConditionResult};
use crate::engine::query::Query;
use crate::present::diff::{Compared, render_json, render_text};
use crate::present::query_text::{self, Spelling};
use crate::present::times::Times;

/// Runs `iolens diff`; the exit code is 1 if a condition of `--fail-if` is met.
///
/// # Errors
/// A recording cannot be read, or a condition cannot be evaluated.
pub fn run(plan: &DiffPlan) -> Result<u8> {
    let before = read(&plan.first, plan.before, plan.clock, "--before")?;
    let after = read(&plan.second, plan.after, plan.clock, "--after")?;
    let known = diff::device_names(&before, &after);
    for condition in &plan.fail_if {
        if let Some(name) = condition.unknown_device(&known) {
            bail!("--fail-if {}", query_text::no_such_device(name, &known));
        }
    }
    let devices = diff::devices(&before, &after);
    let waits = diff::waits(&before, &after);
    let mut verdicts: Vec<(&Condition, ConditionResult)> = Vec::new();
    for condition in &plan.fail_if {
        verdicts.push((condition, condition.judge(&devices)));
    }
    let compared = Compared {
        before: &before,
        after: &after,
        devices: &devices,
        waits: &waits,
        verdicts: &verdicts,
        times: [times(&before, plan.clock), times(&after, plan.clock)],
    };
    let text = if plan.json {
        render_json(&compared)?
    } else {
        render_text(&compared, crate::streams::layout())
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    for (condition, verdict) in &verdicts {
        if *verdict == ConditionResult::Unknown {
            bail!(
                "--fail-if '{}': no device has enough such I/Os on both sides to tell; compare longer stretches",
                condition.text
            );
        }
    }
    let is_failed = verdicts
        .iter()
        .any(|(_, verdict)| matches!(verdict, ConditionResult::Failed(_)));
    Ok(u8::from(is_failed))
}

/// Reads the stretch `window` of `path`. `option` is the option that set it.
fn read(
    path: &Path,
    window: Option<TimeWindow>,
    clock: ClockArgs,
    option: &'static str,
) -> Result<ComparedStretch> {
    let spelling = Spelling::Ends(option);
    let caller = super::caller_of(spelling);
    let window = clock.in_zone(window.unwrap_or_default());
    match ComparedStretch::read(&Query::new(path, window, &caller)) {
        Ok(stretch) => Ok(stretch),
        Err(e) => bail!("{}", query_text::error(&e, spelling)),
    }
}

fn times(stretch: &ComparedStretch, clock: ClockArgs) -> Times {
    clock.times(stretch.part.recording.meta(), stretch.part.range.start)
}
