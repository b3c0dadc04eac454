//! The rows of `iolens live --plain`, computed from events or counters as they come.

pub mod replay;
pub mod screen;

use std::io::Write as _;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::stream::order::Hold;
use iolens_core::analysis::timeline::{
    CounterTimeline, Differences, GroupBy, Row, Timeline, TimelinePlan,
};
use iolens_core::model::{CounterSample, Device, LossReason, Lost, Named, Observation, Source};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::wall_clock_ns;
use iolens_recorder::{Feed, KnownDevices, NameLookup, SelfCheck, SessionOptions, Taken};

use crate::cli::{Format, LivePlan};
use crate::engine::layers::Layers;
use crate::engine::rows::{device_keys, group_name};
use crate::present::escape;
use crate::present::layout::count_of;
use crate::present::query_text::{self, Spelling};
use crate::present::times::Times;
use crate::present::zoom::{self, ZoomWriter};
use crate::streams::{Stdout, stdout};
use iolens_core::model::Names;

/// A row with in-flight columns waits this long for I/Os that were in flight in it; longer ones are clipped.
const MAX_WAIT: Hold = Hold {
    spans: 1 << 20,
    ns: 1_000_000_000,
};
/// Other rows need not wait.
const NONE: Hold = Hold { spans: 0, ns: 0 };

/// The time between two comparisons with the kernel's counters.
const SAMPLE_NS: i64 = 1_000_000_000;

const DEVICES_ONLY: &str = "--by: counters know devices only; events are needed for the rest (iolens doctor says what is missing)";

/// Prints rows from `feed` until `over`, which gets the nanoseconds since the start, returns true.
///
/// # Errors
/// The grouping needs events that `feed` does not have, the source failed, or stdout is closed.
pub fn run(
    feed: Feed,
    plan: &LivePlan,
    poll_ns: i64,
    known: KnownDevices,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    if feed.source() == Source::Counters
        && !matches!(GroupBy::from(plan.rows.by), GroupBy::All | GroupBy::Device)
    {
        bail!(DEVICES_ONLY);
    }
    for line in feed.limits() {
        eprintln!("iolens: {}", escape::terminal(line));
    }
    eprintln!("iolens: source: {}", feed.source());
    let start_unix_ns = wall_clock_ns() - (monotonic_ns() - feed.start_ns());
    let times = plan.clock.times_since(start_unix_ns, 0);
    let devices = known.all().to_vec();
    let mut output = RowsOutput::new(plan, devices, feed.source(), Some(times))?;
    if let Some(note) = output.layers.note() {
        eprintln!("iolens: {}", query_text::note(&note, Spelling::Flags));
    }
    match feed.source() {
        Source::Counters => from_counters(feed, known, plan, &mut output, over)?,
        _ => from_events(feed, known, plan, poll_ns, &mut output, over)?,
    }
    output.end()
}

/// Destination of the rows.
struct RowsOutput {
    out: Stdout,
    writer: ZoomWriter,
    by: GroupBy,
    layers: Layers,
    devices: Vec<Device>,
    names: Names,
    /// Formats times; `None`: their date is not known.
    times: Option<Times>,
}

impl RowsOutput {
    fn new(
        plan: &LivePlan,
        devices: Vec<Device>,
        source: Source,
        times: Option<Times>,
    ) -> Result<RowsOutput> {
        let by = GroupBy::from(plan.rows.by);
        let json = plan.json || plan.rows.format == Format::Json;
        let format = if json {
            zoom::Format::Ndjson
        } else {
            zoom::Format::from(plan.rows.format)
        };
        let writer = ZoomWriter::new(format, by, plan.rows.extended, plan.rows.step_ns())
            .with_width(crate::streams::layout().width);
        let writer = if source == Source::Counters {
            writer.sampled()
        } else {
            writer
        };
        let writer = match &times {
            Some(times) => writer.with_times(times.clone()),
            None => writer,
        };
        let mut out = stdout();
        out.write_all(writer.begin().as_bytes())?;
        out.flush()?;
        let layers = Layers::doubled(&devices, by);
        Ok(RowsOutput {
            out,
            writer,
            by,
            layers,
            devices,
            names: Names::default(),
            times,
        })
    }

    /// The set of devices has changed.
    fn devices_changed(&mut self, devices: &[Device]) {
        self.devices = devices.to_vec();
        self.layers = Layers::doubled(devices, self.by);
    }

    fn rows(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        for row in rows {
            let name = group_name(&self.devices, &self.names, row.key);
            self.out
                .write_all(self.writer.row(&row, &name).as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    /// Whether the names of rows must be looked up.
    fn wants_names(&self) -> bool {
        matches!(self.by, GroupBy::Cgroup | GroupBy::File)
    }

    fn learn(&mut self, found: Vec<Observation>) {
        for name in found {
            let Observation::Name(name) = name else {
                continue;
            };
            match name.of {
                Named::Pod(id) => self.writer.know_pods([(id, name.text)]),
                of => self.names.insert(of, name.text),
            }
        }
    }

    /// Reports I/Os that the kernel counted but its tracepoints did not report: no row can show them.
    fn warn(&self, lost: &[Lost]) {
        let times = self.times.clone().unwrap_or_else(Times::relative);
        for l in lost.iter().filter(|l| l.reason == LossReason::Unaccounted) {
            let name = self
                .devices
                .iter()
                .find(|d| Some(d.id) == l.dev)
                .map_or("?", |d| &d.name);
            let class = l.class.map_or("", |c| c.name());
            let missing = count_of(
                l.ios.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
                "I/O",
            );
            eprintln!(
                "iolens: {}: {missing} ({class}) from {} not shown: only the kernel's own counters hold them ({})",
                escape::terminal(name),
                times.span_to(l.from_ns, l.to_ns, 1),
                l.reason.name()
            );
        }
    }

    fn end(&mut self) -> Result<()> {
        self.out.write_all(self.writer.end().as_bytes())?;
        self.out.flush()?;
        if let Some(remark) = self.writer.remark() {
            eprintln!("iolens: {remark}");
        }
        Ok(())
    }

    fn plan(&self, window: Window, step_ns: i64, extended: bool) -> TimelinePlan {
        let always = device_keys(&self.devices, self.by);
        TimelinePlan {
            by: self.by,
            always,
            extended,
            endless: true,
            ..TimelinePlan::new(window, step_ns)
        }
    }
}

fn from_events(
    mut feed: Feed,
    mut known: KnownDevices,
    plan: &LivePlan,
    poll_ns: i64,
    output: &mut RowsOutput,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    let hold = if plan.rows.extended { MAX_WAIT } else { NONE };
    let mut timeline = Timeline::with_hold(
        output.plan(Window::OPEN, plan.rows.step_ns(), plan.rows.extended),
        hold,
    )?;
    let mut seen_to_ns = 0;
    let start_ns = feed.start_ns();
    let wait_ns = poll_ns.min(plan.rows.step_ns());
    let mut lookup = output.wants_names().then(NameLookup::start);
    let mut check = SelfCheck::default();
    let mut next_sample_ns = 0;
    loop {
        let now_ns = monotonic_ns() - start_ns;
        if now_ns >= next_sample_ns {
            next_sample_ns = now_ns + SAMPLE_NS;
            check.sample(&mut feed, known.all());
            if known.look(&mut feed, now_ns)?.is_some() {
                output.devices_changed(known.all());
            }
        }
        let mut taken = Taken::default();
        check.drain(&mut feed, &mut taken)?;
        output.warn(&taken.lost);
        let counted = taken
            .lost
            .iter()
            .filter(|l| l.dev.is_none_or(|dev| output.layers.counts(dev)));
        counted.for_each(|l| timeline.lost(l));
        if let Some(lookup) = &mut lookup {
            lookup.note(&taken.ios, now_ns);
            output.learn(lookup.found(now_ns));
        }
        // I/Os that started before the probes were attached are left out.
        for io in taken
            .ios
            .iter()
            .filter(|io| io.done_ns >= 0 && output.layers.counts(io.dev))
        {
            timeline.push(io)?;
        }
        if let Some(complete_to_ns) = taken.complete_to_ns {
            timeline.advance(complete_to_ns)?;
            seen_to_ns = complete_to_ns;
        }
        output.rows(std::iter::from_fn(|| timeline.next_row()))?;
        if over(now_ns) {
            let whole_ns = seen_to_ns / plan.rows.step_ns() * plan.rows.step_ns();
            // An incomplete last interval is left out unless it is the only one.
            timeline.finish(if whole_ns == 0 { seen_to_ns } else { whole_ns })?;
            return output.rows(std::iter::from_fn(|| timeline.next_row()));
        }
        feed.wait(start_ns + now_ns + wait_ns);
    }
}

/// One row per step, from the samples at its start and end. The last row may be shorter.
fn from_counters(
    mut feed: Feed,
    mut known: KnownDevices,
    plan: &LivePlan,
    output: &mut RowsOutput,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    let mut steps = Steps::new(output);
    let start_ns = feed.start_ns();
    let end_ns = plan.for_ns.unwrap_or(i64::MAX);
    loop {
        let mut taken = Taken::default();
        feed.drain(&mut taken)?;
        let at_ns = match taken.counters.first() {
            Some(sample) => sample.at_ns,
            None => monotonic_ns() - start_ns,
        };
        if known.look(&mut feed, at_ns)?.is_some() {
            output.devices_changed(known.all());
            steps.differences.devices_changed(known.all());
        }
        steps.take(&taken.counters, plan, output)?;
        if over(at_ns) {
            let mut last = Taken::default();
            feed.finish(&mut last)?;
            return steps.take(&last.counters, plan, output);
        }
        // Checked within a step as well, so that a long step does not delay the end or Ctrl-C.
        let look_ns = end_ns.min(at_ns + SessionOptions::IDLE_POLL_NS);
        feed.wait(start_ns + look_ns);
    }
}

/// Keeps the last sample of the counters, which the next row needs.
struct Steps {
    differences: Differences,
    before_ns: Option<i64>,
    /// Whether a row was shown, for which two samples at different times are needed.
    shown: bool,
}

impl Steps {
    fn new(output: &RowsOutput) -> Steps {
        Steps {
            differences: Differences::new(&output.devices),
            before_ns: None,
            shown: false,
        }
    }

    /// Shows the row between the previous sample and `counters`, whose values were all read at one instant.
    fn take(
        &mut self,
        counters: &[CounterSample],
        plan: &LivePlan,
        output: &mut RowsOutput,
    ) -> Result<()> {
        let at_ns = counters.first().map(|c| c.at_ns);
        let counted = counters.iter().filter(|c| output.layers.counts(c.dev));
        let found: Vec<_> = counted.filter_map(|c| self.differences.push(c)).collect();
        if let Some((from_ns, to_ns)) = self.before_ns.zip(at_ns).filter(|(from, to)| from < to) {
            let step_ns = (to_ns - from_ns).max(plan.rows.step_ns());
            let mut timeline = CounterTimeline::new(output.plan(
                Window::new(from_ns, to_ns),
                step_ns,
                plan.rows.extended,
            ))?;
            found.iter().for_each(|d| timeline.push(d));
            output.rows(timeline.finish(to_ns)?)?;
            self.shown = true;
        }
        self.before_ns = at_ns.or(self.before_ns);
        Ok(())
    }
}
