//! `iolens record`: attach, write, show progress, end well.

mod child;
mod clock;
mod feed;
mod pipeline;
mod progress;
mod seeker;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::{Comm, DevId, Device};
use iolens_observe::counters::{Pace, Root, monotonic_ns, snapshot};
use iolens_observe::topology::{Lookup, Topology};
use iolens_observe::trace::{FilesFilter, TracerOptions};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::RecordPlan;
use crate::present::record_text;

pub use feed::{COUNTERS_LIMIT, Feed, FeedOptions};
pub use progress::ProgressLine;
pub use seeker::Seeker;
pub use session::{Outcome, Progress, Session, SessionOptions, Taken};

use child::RecordedChild;

fn ring_bytes(asked_for: Option<u64>) -> Result<u32> {
    let Some(bytes) = asked_for else { return Ok(TracerOptions::usual_ring_bytes()) };
    u32::try_from(bytes).ok().filter(|b| *b <= 1 << 30).context("--ring: at most 1G")
}

/// Runs the command; the exit code is that of the recorded command if there was one.
///
/// # Errors
/// One line: what, where, what to do.
pub fn run(plan: RecordPlan) -> Result<u8> {
    let topology = Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let signals = Signals::catch()?;
    let options = SessionOptions {
        devices: choose_devices(&topology, &plan.devices)?,
        output: plan.output.clone().unwrap_or_else(default_output),
        keep_bytes: plan.keep,
        feed: FeedOptions {
            choice: plan.source,
            attribution: !plan.no_attribution,
            ring_bytes: ring_bytes(plan.ring)?,
            poll_ns: plan.poll,
            counters_step_ns: plan.counters_step,
            files: plan.wants_files().then(|| files_filter(&plan)),
        },
        words: std::env::args().collect(),
        patience_ns: if plan.command.is_empty() {
            SessionOptions::PATIENCE_NS
        } else {
            SessionOptions::SHORT_PATIENCE_NS
        },
        until_ns: plan.for_ns,
    };
    if let Some(dir) = &plan.counters_raw {
        return record_raw(dir, &plan, &signals);
    }
    let mut session = Session::start(options.clone(), topology)?;
    if !plan.quiet {
        eprint!("{}", record_text::started(&session.source(), session.limits(), &options.output));
    }
    let child = match start_child(&plan) {
        Ok(child) => child,
        Err(cannot) => return give_up(session, &options.output, &cannot),
    };
    let code = watch(&mut session, child, &plan, &signals)?;
    let outcome = session.finish()?;
    if !plan.quiet {
        println!("{}", record_text::summary(&outcome.summary()));
        if plan.wants_files() {
            print!(
                "{}",
                record_text::requests(outcome.progress.requests, outcome.progress.requests_lost, &outcome.path)
            );
        }
        print!("{}{}", super::report::findings(&outcome.path)?, record_text::hints(&outcome.path));
    }
    Ok(code)
}

/// Copies what `iolens iostat --replay` reads, a numbered sub-directory per sample: what a bug report needs. One sample at
/// once, one after each step, and one at the end of a given time.
fn record_raw(dir: &Path, plan: &RecordPlan, signals: &Signals) -> Result<u8> {
    std::fs::create_dir(dir).with_context(|| format!("{} cannot be made; choose a new directory", dir.display()))?;
    let period = Duration::from_nanos(u64::try_from(plan.raw_step).unwrap_or(u64::MAX));
    let start_ns = monotonic_ns();
    let end_ns = plan.for_ns.map_or(i64::MAX, |ns| start_ns.saturating_add(ns));
    let mut pace = Pace::starting_at(start_ns, period);
    let mut samples = 0;
    loop {
        write_raw_sample(dir, samples + 1)?;
        samples += 1;
        let now_ns = monotonic_ns();
        if now_ns >= end_ns {
            break;
        }
        if end_ns < pace.next_ns() {
            let left = Duration::from_nanos(end_ns.abs_diff(now_ns));
            Pace::starting_at(now_ns, left).wait();
        } else {
            pace.wait();
        }
        if signals.caught() > 0 {
            break;
        }
    }
    if !plan.quiet {
        let plural = if samples == 1 { "" } else { "s" };
        println!("{samples} sample{plural} in {0}; replay with: iolens iostat --replay {0}", dir.display());
    }
    Ok(0)
}

/// One sample; none if it cannot be written whole, because half of one would be taken for a machine.
fn write_raw_sample(dir: &Path, index: usize) -> Result<()> {
    let written = snapshot::write(&Root::live(), dir, index);
    if written.is_err() {
        drop(std::fs::remove_dir_all(dir.join(index.to_string())));
        if index == 1 {
            drop(std::fs::remove_dir(dir));
        }
    }
    written.with_context(|| format!("a sample cannot be written to {}", dir.display()))?;
    Ok(())
}

/// Whose file-level requests are wanted: with a command and no other word those of the command and its children.
fn files_filter(plan: &RecordPlan) -> FilesFilter {
    let named = !plan.pid.is_empty() || plan.comm.is_some() || plan.cgroup.is_some() || plan.all_files;
    FilesFilter {
        pids: plan.pid.clone(),
        comm: plan.comm.as_ref().map(|c| Comm::new(c.as_bytes())),
        cgroup: plan.cgroup.clone(),
        children: !plan.command.is_empty() && !named,
    }
}

fn start_child(plan: &RecordPlan) -> Result<Option<RecordedChild>, child::CannotStart> {
    if plan.command.is_empty() { Ok(None) } else { RecordedChild::start(&plan.command).map(Some) }
}

/// The command could not be started: there is nothing to record, so nothing is left behind.
fn give_up(session: Session, output: &Path, cannot: &child::CannotStart) -> Result<u8> {
    session.finish()?;
    std::fs::remove_dir_all(output).with_context(|| format!("{} could not be removed", output.display()))?;
    eprintln!("iolens: {}", cannot.message);
    Ok(cannot.exit_code)
}

/// Records until time, command or user say that it is enough.
fn watch(session: &mut Session, mut child: Option<RecordedChild>, plan: &RecordPlan, signals: &Signals) -> Result<u8> {
    let mut line = ProgressLine::new(plan.quiet);
    let mut code = 0;
    let mut told_child = false;
    session.run(|progress| {
        line.show(progress);
        if let Some(ended) = child.as_mut().and_then(RecordedChild::ended) {
            code = ended;
            return true;
        }
        let over = plan.for_ns.is_some_and(|ns| progress.at_ns >= ns);
        match &child {
            None => over || signals.caught() > 0,
            // A terminal sends Ctrl-C to the command too: wait for it to end in its own way. A second one is for us.
            Some(_) if signals.caught() > 1 => true,
            Some(c) => {
                if (over || signals.terminated() > 0) && !told_child {
                    c.signal(Signal::TERM);
                    told_child = true;
                }
                false
            }
        }
    })?;
    line.clear();
    Ok(code)
}

/// SIGINT and SIGTERM, counted instead of deadly.
#[derive(Debug)]
pub struct Signals {
    interrupted: Arc<AtomicUsize>,
    terminated: Arc<AtomicUsize>,
}

impl Signals {
    /// Begins to catch.
    ///
    /// # Errors
    /// The handlers could not be installed.
    pub fn catch() -> Result<Signals> {
        let signals = Signals { interrupted: Arc::default(), terminated: Arc::default() };
        let mut incoming = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .context("signal handlers could not be installed")?;
        let (interrupted, terminated) = (Arc::clone(&signals.interrupted), Arc::clone(&signals.terminated));
        // A thread of its own counts them (a second Ctrl-C means more than the first): no code runs in the handler.
        let count = move || {
            for signal in incoming.forever() {
                if signal == SIGINT { &interrupted } else { &terminated }.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new()
            .name("iolens-signals".to_owned())
            .spawn(count)
            .context("the signal thread could not be started")?;
        Ok(signals)
    }

    /// How many of both.
    pub fn caught(&self) -> usize {
        self.interrupted.load(Ordering::Relaxed) + self.terminated()
    }

    /// How many SIGTERM and SIGHUP.
    pub fn terminated(&self) -> usize {
        self.terminated.load(Ordering::Relaxed)
    }
}

/// The disks that `words` name; `None` if there are none, which means every disk.
///
/// # Errors
/// A word names no disk.
pub fn choose_devices(topology: &Topology, words: &[String]) -> Result<Option<Vec<DevId>>> {
    if words.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for word in words {
        match topology.find(word) {
            Lookup::Disk(d) => chosen.push(d.id),
            Lookup::PartitionOf(d) => bail!("{word} is a partition; whole disks are recorded: use -d {}", d.name),
            Lookup::Unknown => bail!("{word}: no such disk; there are {}", disk_names(topology.devices())),
        }
    }
    Ok(Some(chosen))
}

fn disk_names(devices: &[Device]) -> String {
    let names: Vec<&str> =
        devices.iter().filter(|d| d.size_bytes.unwrap_or(0) > 0).map(|d| d.name.as_str()).take(12).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn default_output() -> PathBuf {
    PathBuf::from(jiff::Zoned::now().strftime("iolens-%Y%m%d-%H%M%S.iolens").to_string())
}
