//! `iolens demo`: records a bursty load on a scratch file, and shows the intervals around the worst moment.

mod worst_moment;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use iolens_core::model::{DevId, Device};
use iolens_core::private::Access;
use iolens_lab::load::{BurstyLoad, LoadStats, Scratch};
use iolens_observe::topology::{Layer, Lookup, Resolver, Topology};
use iolens_recorder::{FeedOptions, Outcome, Session, SessionOptions, SourceChoice};

use crate::cli::DemoPlan;
use crate::copies::output::refuse_unusable;
use crate::present::{demo_text, escape, record_text};
use crate::signals::Signals;

/// The default output. A demo may only replace a recording that a demo made.
const DEFAULT_OUTPUT: &str = "iolens-demo.iolens";

/// Runs `iolens demo`.
///
/// # Errors
/// There is no disk to write to, or recording is not possible.
pub fn run(plan: &DemoPlan) -> Result<u8> {
    let signals = Signals::catch()?;
    let output = output(plan)?;
    eprintln!(
        "iolens: preparing a scratch file in {} (removed at the end)",
        plan.dir.display()
    );
    let scratch = BurstyLoad::new(&plan.dir)
        .prepare()
        .map_err(|e| explain(&plan.dir, &e))?;
    eprint!(
        "{}",
        demo_text::load_begins(scratch.duration(), scratch.period(), scratch.burst_bytes())
    );
    let topology =
        Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let place = DemoPlace::of(&plan.dir, &topology);
    if place.devices.is_empty() {
        eprintln!(
            "iolens: {}: no disk can be found under it: every disk is recorded",
            plan.dir.display()
        );
    }
    let (outcome, stats) = record(&scratch, output, topology, &place, &signals)?;
    drop(scratch);
    let layout = crate::streams::layout();
    print!(
        "{}",
        layout.sentences(&record_text::summary(&outcome.summary()))
    );
    println!(
        "{}",
        layout.sentences(
            demo_text::load_done(stats.reads, stats.flushes, stats.written_bytes).trim_end()
        )
    );
    worst_moment::show(&outcome.path, place.top)?;
    let html = outcome.path.with_extension("html");
    let report = crate::commands::report::demo_report(&outcome.path, &html)?;
    println!();
    match report.written {
        Ok(()) => println!(
            "HTML report: {}",
            escape::terminal(&html.display().to_string())
        ),
        Err(e) => println!("No HTML report: {}", escape::terminal(&format!("{e:#}"))),
    }
    print!("{}", demo_text::try_next(&outcome.path));
    // Printed last, because it is the point of the demo.
    print!("\n{}", report.story);
    Ok(0)
}

fn output(plan: &DemoPlan) -> Result<PathBuf> {
    let Some(given) = &plan.output else {
        let own = PathBuf::from(DEFAULT_OUTPUT);
        if own.join("meta.json").is_file() {
            std::fs::remove_dir_all(&own)
                .with_context(|| format!("the last demo in {DEFAULT_OUTPUT} cannot be removed"))?;
        }
        return Ok(own);
    };
    refuse_unusable(given)?;
    Ok(given.clone())
}

/// The devices below the scratch file.
#[derive(Debug, Default)]
struct DemoPlace {
    /// The file system's disk and all devices under it; empty if they are not known.
    devices: Vec<DevId>,
    /// The disk or layer right under the file system; `None` if there are several, or it is not known.
    top: Option<DevId>,
}

impl DemoPlace {
    fn of(dir: &Path, topology: &Topology) -> DemoPlace {
        let resolved = Resolver::read("/".as_ref()).and_then(|resolver| resolver.resolve(dir));
        let Ok(stack) = resolved else {
            return DemoPlace::default();
        };
        let mut place = DemoPlace::default();
        for layer in &stack.layers {
            place.add(layer, topology);
        }
        if let [layer] = &stack.layers[..] {
            place.top = disk(layer, topology).map(|d| d.id);
        }
        place
    }

    /// `layer` and what is under it.
    fn add(&mut self, layer: &Layer, topology: &Topology) {
        let known = disk(layer, topology).map(|d| topology.recorded_as(d));
        for dev in known.unwrap_or_default() {
            if !self.devices.contains(&dev) {
                self.devices.push(dev);
            }
        }
        for below in &layer.below {
            self.add(below, topology);
        }
    }
}

/// The disk itself, or the disk of a partition.
fn disk<'a>(layer: &Layer, topology: &'a Topology) -> Option<&'a Device> {
    match topology.find(&layer.name) {
        Lookup::Disk(d) | Lookup::PartitionOf(d) => Some(d),
        Lookup::Unknown => None,
    }
}

fn explain(dir: &Path, e: &std::io::Error) -> anyhow::Error {
    match e.kind() {
        std::io::ErrorKind::InvalidInput => anyhow!(
            "{}: its file system knows no direct I/O (tmpfs?), so no disk is behind it; choose another with --dir",
            dir.display()
        ),
        _ => anyhow!(
            "{}: no scratch file can be made: {e}; choose another directory with --dir",
            dir.display()
        ),
    }
}

fn record(
    scratch: &Scratch,
    output: PathBuf,
    topology: Topology,
    place: &DemoPlace,
    signals: &Signals,
) -> Result<(Outcome, LoadStats)> {
    let options = SessionOptions {
        always_on: false,
        output,
        // I/O on other disks would hide the load.
        devices: Some(place.devices.clone()).filter(|devices| !devices.is_empty()),
        keep_bytes: None,
        access: Access::OWNER,
        // The demo shows what recording costs, so it may cost a little more.
        feed: FeedOptions {
            measure_probes: true,
            ..FeedOptions::new(SourceChoice::Auto)
        },
        command_line: vec!["iolens demo".to_owned()],
        idle_poll_ns: SessionOptions::FAST_IDLE_POLL_NS,
        until_ns: None,
    };
    let mut session = Session::start(options.clone(), topology)?;
    eprint!(
        "{}",
        record_text::started(&session.source(), session.limits(), &options.output)
    );
    let stop = AtomicBool::new(false);
    let stats = std::thread::scope(|s| {
        let load = s.spawn(|| scratch.run(&stop));
        let recorded = watch(&mut session, &load, signals, &stop);
        stop.store(true, Ordering::Relaxed);
        let stats = load
            .join()
            .map_err(|_| anyhow!("the load panicked"))?
            .context("the load failed")?;
        recorded.map(|()| stats)
    })?;
    session.leave_out_cpu(stats.cpu_s);
    let outcome = session.finish()?;
    if signals.caught() > 0 {
        let path = outcome.path.display();
        bail!("interrupted; what was recorded is in {path}");
    }
    Ok((outcome, stats))
}

/// Records while the load runs, and a moment longer, so that its last I/Os are included.
fn watch<T>(
    session: &mut Session,
    load: &ScopedJoinHandle<'_, T>,
    signals: &Signals,
    stop: &AtomicBool,
) -> Result<()> {
    let mut line = crate::commands::record::ProgressLine::new(false);
    let mut finished_ns = None;
    session.run(|progress| {
        line.show(progress);
        if signals.caught() > 0 {
            stop.store(true, Ordering::Relaxed);
        }
        if load.is_finished() && finished_ns.is_none() {
            finished_ns = Some(progress.at_ns);
        }
        let grace_ns = i64::try_from(Duration::from_millis(200).as_nanos()).unwrap_or(0);
        finished_ns.is_some_and(|f| progress.at_ns >= f + grace_ns)
    })?;
    line.clear();
    Ok(())
}
