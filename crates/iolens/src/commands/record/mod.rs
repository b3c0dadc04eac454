//! `iolens record`: attach, write, show progress, finish.

mod child;
mod options;
mod progress;
mod raw;

use std::path::Path;

use anyhow::{Context as _, Result};
use iolens_observe::topology::Topology;
use iolens_recorder::{Outcome, Session};
use rustix::process::Signal;

use crate::FAILED;
use crate::cli::RecordPlan;
use crate::copies::output::refuse_inside_recording;
use crate::present::record_text;
use crate::signals::Signals;

pub use progress::ProgressLine;

use child::RecordedChild;

/// Runs the command. The exit code is that of the recorded command, if there is one; 2 if no I/O could be stored.
///
/// # Errors
/// A one-line error that says what failed, where, and what to do.
pub fn run(plan: RecordPlan) -> Result<u8> {
    let topology =
        Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let signals = Signals::catch()?;
    let options = options::resolve(&plan, &topology)?;
    if let Some(dir) = &plan.counters_raw {
        refuse_inside_recording(dir)?;
        return raw::run(dir, &plan, &signals);
    }
    refuse_inside_recording(&options.output)?;
    let mut session = Session::start(options.clone(), topology)?;
    if !plan.quiet {
        eprint!(
            "{}",
            record_text::started(&session.source(), session.limits(), &options.output)
        );
    }
    session.catch_up()?;
    let child = match start_child(&plan) {
        Ok(child) => child,
        Err(cannot) => return give_up(session, &options.output, &cannot),
    };
    let code = watch(&mut session, child, &plan, &signals)?;
    let outcome = session.finish()?;
    let summary = outcome.summary();
    let nothing_stored = has_stored_nothing(&outcome);
    if !plan.quiet {
        print_summary(&plan, &outcome)?;
    } else if summary.unwritten > 0 || nothing_stored {
        // `--quiet` omits messages of success.
        eprint!("{}", record_text::incomplete(&summary, &outcome.path));
    }
    if code == 0 && nothing_stored {
        return Ok(FAILED);
    }
    Ok(code)
}

/// Whether there were I/Os but none could be stored, so that the recording does not contain what was requested.
fn has_stored_nothing(outcome: &Outcome) -> bool {
    outcome.progress.ios > 0 && outcome.progress.recorded_ios() <= 0
}

fn print_summary(plan: &RecordPlan, outcome: &Outcome) -> Result<()> {
    println!(
        "{}",
        crate::streams::layout().sentences(&record_text::summary(&outcome.summary()))
    );
    if plan.wants_files() {
        print!(
            "{}",
            record_text::requests(
                outcome.progress.requests,
                outcome.progress.losses.requests(),
                &outcome.path
            )
        );
    }
    print!(
        "{}{}",
        super::report::findings(&outcome.path)?,
        record_text::hints(&outcome.path)
    );
    Ok(())
}

fn start_child(plan: &RecordPlan) -> Result<Option<RecordedChild>, child::CannotStart> {
    if plan.command.is_empty() {
        Ok(None)
    } else {
        RecordedChild::start(&plan.command).map(Some)
    }
}

/// The command could not be started, so the recording is removed.
fn give_up(session: Session, output: &Path, cannot: &child::CannotStart) -> Result<u8> {
    session.finish()?;
    std::fs::remove_dir_all(output)
        .with_context(|| format!("{} could not be removed", output.display()))?;
    eprintln!("iolens: {}", cannot.message);
    Ok(cannot.exit_code)
}

/// Records until the time has passed, the command has ended, or the user interrupts.
fn watch(
    session: &mut Session,
    child: Option<RecordedChild>,
    plan: &RecordPlan,
    signals: &Signals,
) -> Result<u8> {
    let mut line = ProgressLine::new(plan.quiet);
    let mut end = RecordingEnd {
        child,
        for_ns: plan.for_ns,
        signals,
        code: None,
        asked_ns: None,
    };
    session.run(|progress| {
        line.show(progress);
        end.is_reached(progress.at_ns)
    })?;
    line.clear();
    if end.code.is_none()
        && let Some(child) = &end.child
    {
        let name = plan.command[0].to_string_lossy();
        eprint!("{}", record_text::still_runs(&name, child.id()));
    }
    Ok(end.code.unwrap_or(0))
}

/// How long a command that was asked to end (SIGTERM) is waited for.
const GRACE_NS: i64 = 5_000_000_000;

/// The conditions that end a recording: time, command, user.
struct RecordingEnd<'a> {
    child: Option<RecordedChild>,
    for_ns: Option<i64>,
    signals: &'a Signals,
    /// Exit code of the command, once it has ended.
    code: Option<u8>,
    /// When the command was asked to end, in nanoseconds since the start.
    asked_ns: Option<i64>,
}

impl RecordingEnd<'_> {
    /// Whether the recording must end, `at_ns` nanoseconds after the start. Asks the command to end when its time is
    /// over.
    fn is_reached(&mut self, at_ns: i64) -> bool {
        let is_over = self.for_ns.is_some_and(|ns| at_ns >= ns);
        let Some(child) = &mut self.child else {
            return is_over || self.signals.caught() > 0;
        };
        self.code = child.ended();
        // A terminal sends Ctrl-C to the command too, so wait for it to end by itself. A second Ctrl-C is for iolens.
        if self.code.is_some() || self.signals.caught() > 1 {
            return true;
        }
        if let Some(asked_ns) = self.asked_ns {
            return at_ns >= asked_ns + GRACE_NS;
        }
        if is_over || self.signals.terminated() > 0 {
            child.signal(Signal::TERM);
            self.asked_ns = Some(at_ns);
        }
        false
    }
}
