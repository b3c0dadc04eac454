//! The screen of `iolens live`: live I/O with the last ten minutes, or a recording.

mod analyst;
mod draw;
mod heat;
mod history;
mod names;
mod output;
mod palette;
mod save;
mod served;
mod source;
mod state;
mod stored;
mod words;
mod worker;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{DevId, Device, RecordingMeta, Source};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::heap;
use iolens_observe::topology::{Host, wall_clock_ns};
use iolens_recorder::{Feed, KnownDevices};
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::SIGTSTP;

use crate::engine::browse::BrowsedPlace;
use crate::engine::caller::Caller;
use crate::engine::layers::Layers;
use crate::engine::waits;
use crate::present::escape::terminal;
use crate::present::times::Clock;
use analyst::{
    Analyst, IN_FLIGHT_NS, IoSource, Job, LIVE_SHARE, Material, Outcome, RECORDED_SHARE, STORIES,
    Selection, TABLES, Ticket, WARM_UP_NS,
};
use draw::{Findings, Scene, ScreenFailure, ScreenNotice, SourceFacts, StoryLog};
use heat::HeatCache;
use history::{History, MAX_LIVE_IOS};
use output::{ScreenOutput, ScreenTerminal};
use palette::Palette;
use save::{SaveRequest, SavedStretch};
pub use served::ServeClient;
use source::SourceThread;
use state::{Action, ScreenView};
use stored::{LoadedStretch, StretchReader, StretchRequest};
use worker::Worker;

/// Four frames per second: more would flicker and cost CPU time.
const FRAME: Duration = Duration::from_millis(250);
/// Time for the program to end by itself after its terminal was closed.
const AFTER_TERMINAL: Duration = Duration::from_secs(5);
/// Interval between checks whether a recording that is followed to its end has grown.
const LOOK_AGE: Duration = Duration::from_secs(1);
/// A recording that has not grown for this long counts as complete.
const GROWTH_WAIT: Duration = Duration::from_secs(10);
/// Name of the job of reading a stretch, for messages.
const READING: &str = "reading";
/// The same for requests to `serve`.
const SERVE: &str = "serve";
/// Interval between frames while part of a recording is being read.
const SHORT_FRAME: Duration = Duration::from_millis(50);
/// Stories are searched for in this much of the latest time, in nanoseconds.
const STORIES_NS: i64 = 60_000_000_000;
/// Age at which tables are recomputed if only time has passed.
const TABLES_AGE: Duration = Duration::from_secs(1);
/// The same for stories.
const STORIES_AGE: Duration = Duration::from_secs(5);

/// Shows the I/Os of `feed`, until the user quits or `over`, which gets the nanoseconds since the start, returns
/// true.
///
/// # Errors
/// The source failed, or the terminal is not usable.
pub fn run(
    feed: Feed,
    known: KnownDevices,
    clock: Clock,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    show(&mut Screen::watching(feed, known)?.with_clock(clock), over)
}

/// Shows what a running `serve` records, until the user quits or `over` returns true.
///
/// # Errors
/// The service does not answer, or the terminal is not usable.
pub fn run_served(client: ServeClient, clock: Clock, over: impl Fn(i64) -> bool) -> Result<()> {
    show(&mut Screen::asking(client)?.with_clock(clock), over)
}

/// Shows the recordings at `place`, starting at `at_ns` or else at their end, until the user quits or `over` returns
/// true.
///
/// # Errors
/// They cannot be read, or the terminal is not usable.
pub fn browse(
    place: BrowsedPlace,
    at_ns: Option<i64>,
    name: &str,
    clock: Clock,
    over: impl Fn(i64) -> bool,
) -> Result<()> {
    let range_ns = place.range_ns(&Caller::without_notes())?;
    let screen = Screen::browsing(place, range_ns, at_ns, name)?;
    show(&mut screen.with_clock(clock), over)
}

/// Stacked devices, which would count an I/O twice in a sum over all devices.
fn above_others(devices: &[Device]) -> Vec<DevId> {
    let layers = Layers::doubled(devices, GroupBy::Process);
    layers.left_out().keys().copied().collect()
}

/// Sets up the terminal, shows `screen`, and restores the terminal.
fn show(screen: &mut Screen, over: impl Fn(i64) -> bool) -> Result<()> {
    // `kill -TSTP` by the shell must restore the terminal, too.
    let stops = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, Arc::clone(&stops)).context("signals cannot be caught")?;
    // I/Os are allocated by one thread and freed by another.
    heap::return_large_blocks();
    let output = ScreenOutput::start()?;
    end_with_terminal()?;
    // From here on, a panic restores the terminal before it is reported.
    let report = std::panic::take_hook();
    let its_output = output.clone();
    std::panic::set_hook(Box::new(move |info| {
        if worker::takes_panic(info) {
            return;
        }
        its_output.leave();
        report(info);
    }));
    let mut terminal = output.enter()?;
    let ended = screen.show(&mut terminal, &output, &stops, over);
    output.leave();
    ended
}

/// The source of the screen.
enum ScreenSource {
    /// Live I/O.
    Watched(SourceThread),
    /// A recording, with the stretch that was read last.
    Recorded(Box<StretchReader>, Option<Box<LoadedStretch>>),
}

/// The state of the loop.
struct Screen {
    source: ScreenSource,
    start_ns: i64,
    /// The data; for a recording it belongs to the stretch that was read.
    history: History,
    meta: RecordingMeta,
    view: ScreenView,
    /// A moment to centre in the first frame.
    begin_ns: Option<i64>,
    findings: Findings,
    facts: SourceFacts,
    cache: HeatCache,
    analyst: Analyst,
    /// Whether the part of a recording that is in view has been read.
    is_there: bool,
    /// Number of checks whether a recording has grown, time of the last one, and when it had grown last.
    look: u64,
    looked: Instant,
    grown: Instant,
    saver: Worker<SaveRequest, Result<SavedStretch>>,
    /// Ticket and time of the last computed tables.
    tables_made: Option<(Ticket, Instant)>,
    stories_made: Option<(Ticket, Instant)>,
    cell_made: Ticket,
    cpu: CpuUse,
}

impl Screen {
    fn watching(feed: Feed, known: KnownDevices) -> Result<Screen> {
        let devices = known.all().to_vec();
        let start_ns = feed.start_ns();
        let start_unix_ns = wall_clock_ns() - (monotonic_ns() - start_ns);
        let mut history = History::new(start_unix_ns, MAX_LIVE_IOS);
        history.devices.clone_from(&devices);
        let host = Host::read("/".as_ref());
        // Metadata of a stretch that is saved.
        let meta = RecordingMeta {
            start_monotonic_ns: Some(start_ns),
            host: host.name.clone(),
            kernel: host.kernel,
            kernel_hz: host.hz,
            devices: devices.clone(),
            limits: feed.limits().to_vec(),
            options: vec!["live".to_owned()],
            ..RecordingMeta::new(feed.source(), start_unix_ns)
        };
        let mut view = ScreenView::default();
        view.above = above_others(&devices);
        let facts = SourceFacts {
            host: host.name.unwrap_or_default(),
            limits: feed.limits().to_vec(),
            is_of_counters: feed.source() == Source::Counters,
            ..SourceFacts::default()
        };
        let source = ScreenSource::Watched(SourceThread::start(feed, known)?);
        let analyst = Analyst::start(LIVE_SHARE)?;
        Ok(Screen {
            start_ns,
            facts,
            ..Screen::new(source, history, meta, view, analyst)?
        })
    }

    fn asking(client: ServeClient) -> Result<Screen> {
        let devices = client.known_devices()?;
        let start_unix_ns = wall_clock_ns() - served::BEFORE_NS;
        let host = Host::read("/".as_ref());
        let from_serve = format!("from serve at {}", client.place());
        let facts = SourceFacts {
            host: host.name.clone().unwrap_or_default(),
            serve: Some("from serve".to_owned()),
            ..SourceFacts::default()
        };
        let meta = RecordingMeta {
            host: host.name,
            kernel: host.kernel,
            kernel_hz: host.hz,
            devices: devices.clone(),
            limits: vec![from_serve],
            options: vec!["live".to_owned()],
            ..RecordingMeta::new(Source::Ebpf, start_unix_ns)
        };
        let mut history = History::new(start_unix_ns, MAX_LIVE_IOS);
        history.devices.clone_from(&devices);
        let mut view = ScreenView::default();
        view.above = above_others(&devices);
        let source = SourceThread::ask(client, devices, start_unix_ns)?;
        let source = ScreenSource::Watched(source);
        let analyst = Analyst::start(LIVE_SHARE)?;
        Ok(Screen {
            facts,
            ..Screen::new(source, history, meta, view, analyst)?
        })
    }

    fn browsing(
        place: BrowsedPlace,
        range_ns: Range<i64>,
        at_ns: Option<i64>,
        name: &str,
    ) -> Result<Screen> {
        let start_unix_ns = place.start_unix_ns();
        // Nothing has been read yet.
        let nothing = range_ns.end..range_ns.end;
        let history = History::of_stretch(start_unix_ns, range_ns.clone(), nothing, 1);
        let meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
        let view = ScreenView::of_recording(range_ns);
        let source = ScreenSource::Recorded(Box::new(StretchReader::start(place)?), None);
        let analyst = Analyst::start(RECORDED_SHARE)?;
        Ok(Screen {
            begin_ns: at_ns,
            facts: SourceFacts {
                recording: Some(name.to_owned()),
                ..SourceFacts::default()
            },
            ..Screen::new(source, history, meta, view, analyst)?
        })
    }

    fn new(
        source: ScreenSource,
        history: History,
        meta: RecordingMeta,
        view: ScreenView,
        analyst: Analyst,
    ) -> Result<Screen> {
        Ok(Screen {
            source,
            start_ns: monotonic_ns(),
            history,
            meta,
            view,
            begin_ns: None,
            findings: Findings::default(),
            facts: SourceFacts::default(),
            cache: HeatCache::default(),
            analyst,
            is_there: false,
            look: 0,
            looked: Instant::now(),
            grown: Instant::now(),
            saver: Worker::start("saver", SaveRequest::run)?,
            tables_made: None,
            stories_made: None,
            cell_made: 0,
            cpu: CpuUse::default(),
        })
    }

    /// With times shown in this clock.
    fn with_clock(mut self, clock: Clock) -> Screen {
        self.history.clock = clock;
        self
    }

    fn show(
        &mut self,
        terminal: &mut ScreenTerminal,
        output: &ScreenOutput,
        stops: &AtomicBool,
        over: impl Fn(i64) -> bool,
    ) -> Result<()> {
        let palette = Palette::from_environment(|name| std::env::var(name).ok());
        let mut next_frame = Instant::now();
        let mut last_frame = Instant::now();
        loop {
            let wait = next_frame.saturating_duration_since(Instant::now());
            let mut draws = wait.is_zero();
            let action = match next_input(wait)? {
                Input::Event(event) => {
                    self.facts.notice.take_if(|notice| notice.is_of_past);
                    self.view.event(&event)
                }
                Input::Nothing => Action::Nothing,
                Input::Closed => return Ok(()),
            };
            match action {
                Action::Quit => return Ok(()),
                Action::Suspend => stops.store(true, Ordering::Relaxed),
                Action::Save => {
                    self.save();
                    draws = true;
                }
                Action::Draw => draws = true,
                Action::Nothing => {}
            }
            if stops.swap(false, Ordering::Relaxed) {
                *terminal = suspend(output)?;
                draws = true;
            }
            if over(monotonic_ns() - self.start_ns) {
                return Ok(());
            }
            if !draws {
                continue;
            }
            self.view.play(last_frame.elapsed().as_nanos() as i64);
            last_frame = Instant::now();
            let size = terminal.size()?;
            let width = draw::picture_width(size.width);
            if let Some(at_ns) = self.begin_ns.take() {
                self.view.centre(at_ns, width);
            }
            self.take(width)?;
            self.work(width);
            self.take_saved();
            self.facts.self_percent = self.cpu.percent();
            // Draw soon after data that is being read arrives.
            let pause = if self.is_reading() {
                SHORT_FRAME
            } else {
                FRAME
            };
            next_frame = Instant::now() + pause;
            // A slow terminal skips frames.
            if !output.is_idle()? {
                continue;
            }
            let scene = Scene {
                history: &self.history,
                findings: &self.findings,
                facts: &self.facts,
                palette,
            };
            let view = &mut self.view;
            let cache = &mut self.cache;
            let before = view.geometry.clone();
            terminal.draw(size, |buffer| {
                draw::frame(&scene, view, cache, buffer.area, buffer);
                view.geometry.moved_since(&before)
            })?;
        }
    }

    /// Takes the data that has arrived, and requests what a frame of this width needs.
    fn take(&mut self, width: i64) -> Result<()> {
        let wanted = StretchRequest {
            view_ns: self.view.window_ns(self.history.complete_to_ns, width),
            step_ns: self.view.step_ns(),
            selection: Some(self.view.selection()).filter(Selection::needs_ios),
            look: self.look,
        };
        let (reader, loaded) = match &mut self.source {
            ScreenSource::Watched(source) => {
                // What was in flight at the end of the time in view counts.
                let held_to_ns = self.view.end_ns.map(|end_ns| end_ns + IN_FLIGHT_NS);
                self.history.hold(held_to_ns);
                let trouble = source.take(&mut self.history)?;
                self.facts.failure.take_if(|failure| failure.of == SERVE);
                if let Some(text) = trouble {
                    self.facts.failure = Some(ScreenFailure { of: SERVE, text });
                }
                if self.meta.devices != self.history.devices {
                    self.meta.devices.clone_from(&self.history.devices);
                    self.view.above = above_others(&self.meta.devices);
                }
                return Ok(());
            }
            ScreenSource::Recorded(reader, loaded) => (reader, loaded),
        };
        match reader.result() {
            Some(Ok(mut new)) => {
                let known_end_ns = self.history.range_ns().end;
                if new.history.range_ns().end > known_end_ns {
                    self.grown = Instant::now();
                }
                self.looked = Instant::now();
                new.history.clock = self.history.clock.clone();
                self.history = std::mem::replace(&mut new.history, History::new(0, 0));
                self.view.above = new.stretch.above();
                self.meta = new.stretch.meta().clone();
                self.facts.host = self.meta.host.clone().unwrap_or_default();
                self.facts.limits.clone_from(&self.meta.limits);
                self.facts.is_of_counters = new.stretch.is_of_counters();
                self.facts.is_without_ios = new.stretch.lacks_ios() && !self.facts.is_of_counters;
                self.cache = HeatCache::default();
                self.facts.failure.take_if(|failure| failure.of == READING);
                *loaded = Some(Box::new(new));
                // Data that the view waited for can be analysed now; data that only grew is analysed in its turn.
                self.view.ticket += u64::from(!self.is_there);
            }
            Some(Err(text)) => self.facts.failure = Some(ScreenFailure { of: READING, text }),
            None => {}
        }
        let loaded = loaded.as_ref();
        self.is_there = loaded.is_some_and(|l| l.covers(&self.history, &wanted));
        let is_old = loaded.is_some_and(|l| l.request.look != self.look);
        if !self.is_there || is_old {
            reader.want(&wanted);
        }
        self.facts.is_reading = !self.is_there && reader.is_busy();
        self.look_for_more();
        Ok(())
    }

    /// Checks periodically whether a followed recording has grown, until it has not for a while.
    fn look_for_more(&mut self) {
        let is_at_end = self.view.end_ns >= Some(self.view.range_ns.end);
        if self.view.plays != Some(true) || !is_at_end {
            self.grown = Instant::now();
            return;
        }
        if self.grown.elapsed() >= GROWTH_WAIT {
            self.view.plays = Some(false);
        } else if self.looked.elapsed() >= LOOK_AGE {
            self.looked = Instant::now();
            self.look += 1;
        }
    }

    fn is_reading(&self) -> bool {
        self.facts.is_reading || !self.analyst.is_idle() && self.facts.recording.is_some()
    }

    /// Takes the results of the analyst, and starts its most important job.
    fn work(&mut self, width: i64) {
        while let Some(result) = self.analyst.result() {
            match result {
                Ok((ticket, outcome)) => self.take_outcome(ticket, outcome),
                Err(panic) => {
                    self.take_failure(panic.ticket, panic.of, panic.text);
                }
            }
        }
        let cell_ticket = self.view.cell.as_ref().map(|cell| cell.ticket);
        if !self.analyst.is_idle() {
            // Stops reading a long stretch of a recording that is not in view any more.
            let ticket = self.view.ticket;
            self.analyst
                .cancel_unless(&[ticket, cell_ticket.unwrap_or(ticket)]);
            return;
        }
        // Counters do not say who caused the I/O.
        if self.facts.lacks_ios() {
            return;
        }
        // The loaded stretch may not contain what is in view yet.
        let is_live = self.view.plays.is_none();
        if !is_live && !self.is_there {
            return;
        }
        // Requests of the user come first; recomputing after time has passed waits for its share of the CPU.
        if let Some(job) = self.cell_job() {
            return self.analyst.ask(cell_ticket.unwrap_or(0), job);
        }
        let ticket = self.view.ticket;
        let job = if is_of_other(self.tables_made, ticket) {
            self.tables_job(width)
        } else {
            self.repeated_job(width)
        };
        if let Some(job) = job {
            self.analyst.ask(ticket, job);
        }
    }

    /// The analysis whose result is the most overdue, if the analyst may work.
    fn repeated_job(&self, width: i64) -> Option<Job> {
        let is_live = self.view.plays.is_none();
        let time_goes_on = self.view.end_ns.is_none() || self.view.plays == Some(true);
        let is_held_recording = !is_live && !time_goes_on;
        if !self.analyst.is_due() && !is_held_recording {
            return None;
        }
        let tables_age = if time_goes_on {
            relative_age(self.tables_made, TABLES_AGE)
        } else {
            0.0
        };
        // Of what happens the last minute is looked at, of a recording what is in view.
        let stories_age = if !is_live && is_of_other(self.stories_made, self.view.ticket) {
            f64::INFINITY
        } else if is_held_recording {
            0.0
        } else {
            relative_age(self.stories_made, STORIES_AGE)
        };
        match most_overdue(tables_age, stories_age)? {
            RepeatedAnalysis::Tables => self.tables_job(width),
            RepeatedAnalysis::Stories => self.stories_job(width),
        }
    }

    /// What failed is not tried again at once.
    fn take_failure(&mut self, ticket: Ticket, of: &'static str, text: String) {
        let made = Some((ticket, Instant::now()));
        match of {
            STORIES => self.stories_made = made,
            TABLES => self.tables_made = made,
            _ => self.cell_made = ticket,
        }
        self.facts.failure = Some(ScreenFailure { of, text });
    }

    fn take_outcome(&mut self, ticket: Ticket, outcome: Outcome) {
        let of = outcome.of();
        // A job that works again clears its failure.
        self.facts.failure.take_if(|failure| Some(failure.of) == of);
        match outcome {
            Outcome::Tables(tables) => {
                self.tables_made = Some((ticket, Instant::now()));
                self.findings.tables = Some(tables);
            }
            Outcome::Stories(found) => {
                self.stories_made = Some((ticket, Instant::now()));
                if self.view.plays.is_some() {
                    self.findings.stories = StoryLog::default();
                }
                self.findings
                    .take_stories(&found, &self.meta, &self.history);
            }
            Outcome::Cell(cell) => {
                self.cell_made = ticket;
                self.findings.cell = Some(cell);
            }
            Outcome::Cancelled => {}
            Outcome::Failed(of, text) => self.take_failure(ticket, of, text),
        }
    }

    /// The time in view.
    fn window(&self, width: i64) -> Window {
        let view = self.view.window_ns(self.history.complete_to_ns, width);
        if self.view.plays.is_none() {
            return Window::new(view.start, view.end);
        }
        // The window is clipped to recorded time, because rates over unrecorded time would be too low.
        let there = self.history.range_ns();
        let from_ns = view.start.clamp(there.start, there.end);
        Window::new(from_ns, view.end.clamp(from_ns, there.end))
    }

    /// Saves the stretch in view as a recording.
    fn save(&mut self) {
        let window = self.window(self.view.geometry.heat.width.into());
        // What is not in memory any more cannot be saved.
        let window = self.history.window_in_memory(window);
        let material = self.material(window, 0);
        let dir = std::env::current_dir();
        let (Some(mut material), Ok(dir)) = (material, dir) else {
            return;
        };
        if matches!(self.source, ScreenSource::Watched(_)) {
            material.lost.extend(self.history.suspected(window));
        }
        if !self.saver.is_idle() {
            return;
        }
        self.saver.ask(SaveRequest {
            material,
            meta: self.meta.clone(),
            names: Arc::clone(self.history.names.all()),
            dir,
        });
        self.facts.notice = Some(ScreenNotice {
            text: "saving".to_owned(),
            is_of_past: false,
        });
    }

    /// Shows the result of saving.
    fn take_saved(&mut self) {
        let Some(answer) = self.saver.answer() else {
            return;
        };
        let text = match answer.result {
            Ok(Ok(saved)) => saved.line(&self.history),
            Ok(Err(e)) => terminal(&format!("not saved: {e:#}")).into_owned(),
            Err(panic) => terminal(&format!("not saved: {panic}")).into_owned(),
        };
        self.facts.notice = Some(ScreenNotice {
            text,
            is_of_past: true,
        });
    }

    /// The input for an analysis of `window`; `None` if nothing has been read yet. For a recording it starts
    /// `warm_up_ns` earlier: undisturbed latencies are learned from earlier I/Os, as in a report of the same time.
    fn material(&self, window: Window, warm_up_ns: i64) -> Option<Material> {
        let source = match &self.source {
            ScreenSource::Watched(_) => IoSource::Memory(
                self.history
                    .chunks(window.from_ns - WARM_UP_NS, window.to_ns + IN_FLIGHT_NS),
            ),
            ScreenSource::Recorded(_, loaded) => {
                IoSource::Recording(Arc::clone(&loaded.as_ref()?.stretch))
            }
        };
        let lost = match &source {
            IoSource::Memory(_) => self.history.lost.iter().copied().collect(),
            IoSource::Recording(stretch) => stretch.lost(&(window.from_ns..window.to_ns)),
        };
        Some(Material {
            source,
            lost,
            window,
            warm_up_ns,
            is_cancelled: Arc::default(),
        })
    }

    fn tables_job(&self, width: i64) -> Option<Job> {
        let window = self.history.window_in_memory(self.window(width));
        Some(Job::Tables {
            material: self.material(window, waits::LEARN_NS)?,
            selection: self.view.selection(),
            by: self.view.by,
            devices: self.history.devices.clone(),
            names: Arc::clone(self.history.names.all()),
        })
    }

    fn stories_job(&self, width: i64) -> Option<Job> {
        let end_ns = self.history.complete_to_ns;
        let (window, host) = match &self.source {
            ScreenSource::Watched(_) => (
                Window::new(end_ns - STORIES_NS, end_ns),
                self.history.host(),
            ),
            ScreenSource::Recorded(_, loaded) => {
                (self.window(width), loaded.as_ref()?.stretch.host().clone())
            }
        };
        Some(Job::Stories {
            material: self.material(window, waits::LEARN_NS)?,
            above: self.view.above.iter().copied().collect(),
            host,
        })
    }

    /// The job that lists the I/Os of the open cell, if it is needed.
    fn cell_job(&self) -> Option<Job> {
        let cell = self.view.cell.as_ref()?;
        if cell.ticket == self.cell_made {
            return None;
        }
        let window = Window::new(cell.from_ns, cell.to_ns);
        Some(Job::Cell {
            material: self.material(window, WARM_UP_NS)?,
            selection: self.view.selection(),
            devices: self.history.devices.clone(),
            names: Arc::clone(self.history.names.all()),
            buckets: cell.buckets.clone(),
        })
    }
}

/// An analysis that is repeated while time goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RepeatedAnalysis {
    Tables,
    Stories,
}

/// Which analysis is next, from the ages of the results in parts of the age at which each is due; `None`: none is due. After a
/// long analysis the analyst pauses for longer than these ages, and both are due at every turn: each has to come.
fn most_overdue(tables_age: f64, stories_age: f64) -> Option<RepeatedAnalysis> {
    if tables_age.max(stories_age) < 1.0 {
        return None;
    }
    Some(if stories_age >= tables_age {
        RepeatedAnalysis::Stories
    } else {
        RepeatedAnalysis::Tables
    })
}

/// The age of what was made in parts of `due_age`; infinite if it was not made yet.
fn relative_age(made: Option<(Ticket, Instant)>, due_age: Duration) -> f64 {
    made.map_or(f64::INFINITY, |(_, at)| {
        at.elapsed().as_secs_f64() / due_age.as_secs_f64()
    })
}

/// Whether a result exists that belongs to another ticket.
fn is_of_other(made: Option<(Ticket, Instant)>, ticket: Ticket) -> bool {
    made.is_none_or(|(made, _)| made != ticket)
}

/// Input from the terminal.
enum Input {
    /// A key, a mouse event or a resize.
    Event(Event),
    /// A timeout.
    Nothing,
    /// The terminal was closed.
    Closed,
}

/// Waits for input, at most `wait`.
///
/// When the terminal is gone, crossterm reads in an infinite loop. So it is only asked if the terminal is known to
/// exist, and never waits itself.
fn next_input(wait: Duration) -> Result<Input> {
    if is_closed(Duration::ZERO)? {
        return Ok(Input::Closed);
    }
    // One read may have returned several events, so the terminal need not be readable.
    if !event::poll(Duration::ZERO)? {
        if is_closed(wait)? {
            return Ok(Input::Closed);
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(Input::Nothing);
        }
    }
    Ok(Input::Event(event::read()?))
}

/// Ends the program some seconds after its terminal was closed. If this happens between the check and crossterm's
/// read, the read never returns and uses a whole CPU.
fn end_with_terminal() -> Result<()> {
    let thread = std::thread::Builder::new().name("iolens-terminal".to_owned());
    thread
        .spawn(|| {
            let stdin = std::io::stdin();
            loop {
                // No events are requested: only a hangup ends the wait.
                let mut polled = [PollFd::new(&stdin, PollFlags::empty())];
                match rustix::event::poll(&mut polled, None) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) => break,
                    Err(_) => return,
                }
            }
            std::thread::sleep(AFTER_TERMINAL);
            std::process::exit(1);
        })
        .context("a thread could not be started")?;
    Ok(())
}

/// Whether the terminal is gone. Returns on input, on a signal, or after `wait`.
fn is_closed(wait: Duration) -> Result<bool> {
    let stdin = std::io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(wait).context("too long a wait")?;
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(false),
        Err(e) => return Err(e.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled[0].revents().intersects(gone))
}

/// Suspends the program, with the terminal restored, until the shell resumes it.
fn suspend(output: &ScreenOutput) -> Result<ScreenTerminal> {
    output.leave();
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
    output.enter()
}

/// CPU time of this program.
#[derive(Default)]
struct CpuUse {
    before: Option<(Instant, Duration)>,
    percent: Option<f64>,
}

impl CpuUse {
    /// CPU use over the last seconds, in percent of one CPU.
    fn percent(&mut self) -> Option<f64> {
        let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu = Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32);
        let now = Instant::now();
        let Some((then, before)) = self.before else {
            self.before = Some((now, cpu));
            return None;
        };
        let elapsed = now - then;
        if elapsed >= Duration::from_secs(2) {
            self.percent = Some(100.0 * (cpu - before).as_secs_f64() / elapsed.as_secs_f64());
            self.before = Some((now, cpu));
        }
        self.percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When tables and stories were made in the first minutes, in seconds, where tables take so long and stories take so long.
    fn made_in_two_minutes(tables_s: f64, stories_s: f64) -> [Vec<f64>; 2] {
        let share = f64::from(LIVE_SHARE);
        let mut now_s = 0.0;
        let mut tables_made = vec![0.0];
        let mut stories_made = vec![0.0];
        while now_s < 120.0 {
            let tables_age =
                (now_s - tables_made[tables_made.len() - 1]) / TABLES_AGE.as_secs_f64();
            let stories_age =
                (now_s - stories_made[stories_made.len() - 1]) / STORIES_AGE.as_secs_f64();
            match most_overdue(tables_age, stories_age) {
                Some(RepeatedAnalysis::Tables) => {
                    now_s += tables_s;
                    tables_made.push(now_s);
                    now_s += (tables_s * share).max(1.0);
                }
                Some(RepeatedAnalysis::Stories) => {
                    now_s += stories_s;
                    stories_made.push(now_s);
                    now_s += (stories_s * share).max(1.0);
                }
                None => now_s += FRAME.as_secs_f64(),
            }
        }
        [tables_made, stories_made]
    }

    fn longest_gap_s(made: &[f64]) -> f64 {
        let gaps = made.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.fold(0.0, f64::max)
    }

    #[test]
    fn long_stories_do_not_keep_the_tables_from_being_made() {
        // The pauses after each are 7.5 and 15 s.
        let [tables, stories] = made_in_two_minutes(0.05, 0.1);
        assert!(longest_gap_s(&tables) < 30.0, "{tables:?}");
        assert!(longest_gap_s(&stories) < 60.0, "{stories:?}");
        assert!(tables.len() > stories.len() && stories.len() > 2);
    }

    #[test]
    fn analyses_that_take_no_time_are_made_when_they_are_due() {
        let [tables, stories] = made_in_two_minutes(0.001, 0.001);
        assert!(longest_gap_s(&tables) < 3.0, "{tables:?}");
        assert!(longest_gap_s(&stories) < 8.0, "{stories:?}");
    }

    #[test]
    fn what_was_never_made_comes_first_and_what_is_new_does_not_come() {
        let never = relative_age(None, TABLES_AGE);
        assert_eq!(most_overdue(never, 100.0), Some(RepeatedAnalysis::Tables));
        let now = relative_age(Some((1, Instant::now())), Duration::from_secs(3600));
        assert_eq!(most_overdue(now, now), None);
        assert_eq!(most_overdue(0.0, 1.0), Some(RepeatedAnalysis::Stories));
    }
}
