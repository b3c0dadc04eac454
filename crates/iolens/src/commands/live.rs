//! `iolens live --plain`: the zoom's rows while they happen.

mod replay;

use std::io::{StdoutLock, Write as _};

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::order::Hold;
use iolens_core::analysis::timeline::{CounterTimeline, Differences, GroupBy, Row, Timeline, TimelinePlan};
use iolens_core::model::{CounterSample, Device, Named, Observation, Source};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::Topology;

use super::layers::Layers;
use super::record::{Feed, FeedOptions, Seeker, Signals, Taken, choose_devices};
use super::zoom::{device_keys, format, group_by, group_name};
use crate::cli::LivePlan;
use crate::present::escape;
use crate::present::html::Names;
use crate::present::zoom::ZoomWriter;

/// A row with in-flight columns waits this long for I/Os that were in flight in it; longer ones are clipped.
const PATIENCE: Hold = Hold { spans: 1 << 20, ns: 1_000_000_000 };
/// Other rows need not wait.
const NONE: Hold = Hold { spans: 0, ns: 0 };

const DEVICES_ONLY: &str =
    "--by: counters know devices only; events are needed for the rest (iolens doctor says what is missing)";

/// Runs until `--for` is over, or Ctrl-C.
///
/// # Errors
/// No source, or stdout is gone.
pub fn run(plan: &LivePlan) -> Result<u8> {
    if let Some(dir) = &plan.replay {
        return replay::run(plan, dir);
    }
    let topology = Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let signals = Signals::catch()?;
    let devices = choose_devices(&topology, &plan.devices)?;
    let options = FeedOptions { counters_step_ns: plan.rows.step_ns(), ..FeedOptions::new(plan.source) };
    let feed = Feed::open(&options, devices.as_deref(), &topology)?;
    if feed.source() == Source::Counters && !matches!(group_by(plan.rows.by), GroupBy::All | GroupBy::Device) {
        bail!(DEVICES_ONLY);
    }
    for line in feed.limits().iter().map(|l| escape::terminal(l).into_owned()) {
        eprintln!("iolens: {line}");
    }
    eprintln!("iolens: source: {}", feed.source());
    let shown: Vec<Device> =
        topology.devices().iter().filter(|d| devices.as_ref().is_none_or(|ids| ids.contains(&d.id))).cloned().collect();
    let mut screen = Screen::new(plan, shown, feed.source())?;
    screen.layers.say();
    let over = |now_ns: i64| signals.caught() > 0 || plan.for_ns.is_some_and(|ns| now_ns >= ns);
    match feed.source() {
        Source::Counters => from_counters(feed, plan, &mut screen, over)?,
        _ => from_events(feed, plan, &options, &mut screen, over)?,
    }
    screen.end()?;
    Ok(0)
}

/// Where rows go.
struct Screen {
    out: StdoutLock<'static>,
    writer: ZoomWriter,
    by: GroupBy,
    layers: Layers,
    devices: Vec<Device>,
    names: Names,
}

impl Screen {
    fn new(plan: &LivePlan, devices: Vec<Device>, source: Source) -> Result<Screen> {
        let by = group_by(plan.rows.by);
        let writer = ZoomWriter::new(format(plan.rows.format), by, plan.rows.extended, plan.rows.step_ns());
        let writer = if source == Source::Counters { writer.sampled() } else { writer };
        let mut out = std::io::stdout().lock();
        out.write_all(writer.begin().as_bytes())?;
        out.flush()?;
        let layers = Layers::doubled(&devices, by);
        Ok(Screen { out, writer, by, layers, devices, names: Names::default() })
    }

    fn rows(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        for row in rows {
            let name = group_name(&self.devices, &self.names, row.key);
            self.out.write_all(self.writer.row(&row, &name).as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    /// Whether rows are called by names that have to be looked up.
    fn wants_names(&self) -> bool {
        matches!(self.by, GroupBy::Cgroup | GroupBy::File)
    }

    fn learn(&mut self, found: Vec<Observation>) {
        for name in found {
            let Observation::Name(name) = name else { continue };
            match name.of {
                Named::File { fs_dev, ino } => drop(self.names.files.insert((fs_dev, ino), name.text)),
                Named::Cgroup(id) => drop(self.names.cgroups.insert(id, name.text)),
                Named::Unknown => {}
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        self.out.write_all(self.writer.end().as_bytes())?;
        Ok(self.out.flush()?)
    }

    fn plan(&self, window: Window, step_ns: i64, extended: bool) -> TimelinePlan {
        TimelinePlan { window, step_ns, by: self.by, always: device_keys(&self.devices, self.by), extended }
    }
}

fn from_events(
    mut feed: Feed,
    plan: &LivePlan,
    options: &FeedOptions,
    screen: &mut Screen,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    let hold = if plan.rows.extended { PATIENCE } else { NONE };
    let mut timeline = Timeline::with_hold(screen.plan(Window::OPEN, plan.rows.step_ns(), plan.rows.extended), hold)?;
    let mut seen_to_ns = 0;
    let start_ns = feed.start_ns();
    let wait_ns = options.poll_ns.min(plan.rows.step_ns());
    let mut seeker = screen.wants_names().then(Seeker::start);
    loop {
        let now_ns = monotonic_ns() - start_ns;
        let mut taken = Taken::default();
        feed.take(&mut taken)?;
        let counted = taken.lost.iter().filter(|l| l.dev.is_none_or(|dev| screen.layers.counts(dev)));
        counted.for_each(|l| timeline.lost(l));
        if let Some(seeker) = &mut seeker {
            seeker.note(&taken.ios, now_ns);
            screen.learn(seeker.found(now_ns));
        }
        // What began before the probes were attached is not ours to show.
        for io in taken.ios.iter().filter(|io| io.done_ns >= 0 && screen.layers.counts(io.dev)) {
            timeline.push(io)?;
        }
        if let Some(complete_to_ns) = taken.complete_to_ns {
            timeline.advance(complete_to_ns)?;
            seen_to_ns = complete_to_ns;
        }
        screen.rows(std::iter::from_fn(|| timeline.next_row()))?;
        if over(now_ns) {
            // A last interval that is not over yet would show too little.
            timeline.finish(seen_to_ns / plan.rows.step_ns() * plan.rows.step_ns())?;
            return screen.rows(std::iter::from_fn(|| timeline.next_row()));
        }
        feed.wait(start_ns + now_ns + wait_ns);
    }
}

/// One row per step, from the samples at its two ends.
fn from_counters(mut feed: Feed, plan: &LivePlan, screen: &mut Screen, over: impl Fn(i64) -> bool) -> Result<()> {
    let mut steps = Steps::new(screen);
    loop {
        let mut taken = Taken::default();
        feed.take(&mut taken)?;
        steps.take(&taken.counters, plan, screen)?;
        if over(taken.counters.first().map_or(0, |c| c.at_ns)) {
            return Ok(());
        }
        feed.wait(0);
    }
}

/// What the counters' last sample was, for the row up to the next.
struct Steps {
    differences: Differences,
    before_ns: Option<i64>,
}

impl Steps {
    fn new(screen: &Screen) -> Steps {
        Steps { differences: Differences::new(&screen.devices), before_ns: None }
    }

    /// Shows what happened between the sample before and `counters`, which were taken at one instant.
    fn take(&mut self, counters: &[CounterSample], plan: &LivePlan, screen: &mut Screen) -> Result<()> {
        let at_ns = counters.first().map(|c| c.at_ns);
        let counted = counters.iter().filter(|c| screen.layers.counts(c.dev));
        let found: Vec<_> = counted.filter_map(|c| self.differences.push(c)).collect();
        if let Some((from_ns, to_ns)) = self.before_ns.zip(at_ns).filter(|(from, to)| from < to) {
            let step_ns = (to_ns - from_ns).max(plan.rows.step_ns());
            let mut timeline =
                CounterTimeline::new(screen.plan(Window::new(from_ns, to_ns), step_ns, plan.rows.extended))?;
            found.iter().for_each(|d| timeline.push(d));
            screen.rows(timeline.finish(to_ns)?)?;
        }
        self.before_ns = at_ns.or(self.before_ns);
        Ok(())
    }
}
