//! `iolens throttle`: runs a command that yields while other work uses the disks.

use std::fs::File;
use std::io::Write as _;

use anyhow::{Context as _, Result, bail};

use crate::cli::{EnterPlan, GuardPlan, ThrottlePlan};
use crate::present::escape::terminal;
use crate::throttle::{ThrottleSession, Trial, start};
use iolens_control::{Controller, Limits, Meter, detach, enter_and_run, keep_watch};
use iolens_recorder::SourceChoice;

/// Exit code if the path has no disk: there is nothing to protect and nothing to measure.
const NO_DISK: u8 = 1;

/// Runs the command. The exit code is that of CMD; 126 or 127 if it cannot be started, 1 if the path has no disk.
///
/// # Errors
/// The limits contradict each other, the path cannot be accessed, or no mechanism to hold a command is available.
pub fn run(plan: &ThrottlePlan) -> Result<u8> {
    if !(plan.floor > 0.0 && plan.floor <= 100.0) {
        bail!(
            "--floor {}: give more than 0 and at most 100 (percent): the command must make progress",
            plan.floor
        );
    }
    let controller = Controller::new(limits(plan)).with_context(|| {
        format!(
            "--low {}, --high {} and --max {}",
            plan.low, plan.high, plan.max
        )
    })?;
    let mut meter = Meter::open(&plan.paths)?;
    for signal in meter.signals() {
        if let Some(why) = signal.no_disk() {
            let path = signal.stack().path.display().to_string();
            eprintln!(
                "iolens: {}: {}; there is nothing to spare",
                terminal(&path),
                terminal(why)
            );
            return Ok(NO_DISK);
        }
    }
    if plan.source != SourceChoice::Counters {
        meter.add_events(true);
    }
    let no_events = match plan.source {
        SourceChoice::Counters => Some("--source counters".to_owned()),
        _ => meter.without_events().map(str::to_owned),
    };
    match (&no_events, plan.source) {
        (Some(why), SourceChoice::Ebpf) => {
            bail!("{why}; without --source ebpf the kernel's counters are used")
        }
        (Some(why), _) if plan.latency_slo_ns.is_some() => {
            bail!("--latency-slo needs to see each I/O, which is not possible here: {why}")
        }
        (Some(why), SourceChoice::Auto) if !plan.quiet => {
            eprintln!(
                "iolens: counters only, so the command's own I/O counts as other work: {}",
                terminal(why)
            );
        }
        _ => {}
    }
    let log = match &plan.log {
        Some(path) => {
            let file = File::create(path);
            Some(file.with_context(|| format!("--log {}", path.display()))?)
        }
        None => None,
    };
    let stacks: Vec<_> = meter.signals().iter().map(|s| s.stack()).collect();
    let trial = Trial::before_start(&meter);
    let started = start(plan, &stacks)?;
    ThrottleSession::new(plan, controller, meter, log, started, trial)?.run()
}

fn limits(plan: &ThrottlePlan) -> Limits {
    Limits {
        low_percent: plan.low,
        high_percent: plan.high,
        max_percent: plan.max,
        floor: plan.floor / 100.0,
        latency_slo_ns: plan.latency_slo_ns,
        ..Limits::DEFAULT
    }
}

/// `iolens guard`: runs a guardian process.
///
/// # Errors
/// The detached guardian cannot be started.
pub fn guard(plan: &GuardPlan) -> Result<u8> {
    if plan.detach {
        detach()?;
        return Ok(0);
    }
    if plan.session {
        // If this fails, this guardian is killed as easily as the other one, but it is still useful.
        let _ = rustix::process::setsid();
    }
    keep_watch(std::io::stdin());
    Ok(0)
}

/// `iolens enter`: replaces itself with the command.
///
/// # Errors
/// Never returns an error: it is printed here, because the exit code is the command's.
pub fn enter(plan: &EnterPlan) -> Result<u8> {
    // The exit codes may also be the command's own. Only this byte shows that the command did not start; exec closes
    // the pipe.
    let tell = plan
        .tell
        .as_ref()
        .and_then(|path| File::options().write(true).open(path).ok());
    let (code, why) = enter_and_run(&plan.groups, plan.session, &plan.command);
    if let Some(mut tell) = tell {
        // Without a reader, no process prints a summary.
        let _ = tell.write_all(b"!");
    }
    eprintln!("iolens: {}", terminal(&why));
    Ok(code)
}
