//! The screen of `iolens live`: what happens now, and in the last ten minutes.

mod analyst;
mod draw;
mod heat;
mod history;
mod palette;
mod source;
mod state;
mod words;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{Device, RecordingMeta};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::wall_clock_ns;
use iolens_recorder::Feed;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec};
use signal_hook::consts::SIGTSTP;

use crate::engine::layers::Layers;
use crate::present::stories as story_words;
use crate::present::times::{Clock, Times};
use analyst::{Analyst, IN_FLIGHT_NS, Job, Material, Outcome, WARM_UP_NS};
use draw::{Findings, Scene, SourceFacts};
use heat::HeatCache;
use history::{History, MAX_LIVE_IOS};
use palette::Palette;
use source::SourceThread;
use state::{Action, ScreenView};

/// Four pictures a second: more is flicker, and work.
const FRAME: Duration = Duration::from_millis(250);
/// Stories are looked for in the last so many nanoseconds.
const STORIES_NS: i64 = 60_000_000_000;
/// Tables that nothing but time has changed are made anew after this.
const TABLES_AGE: Duration = Duration::from_secs(1);
/// The same of stories.
const STORIES_AGE: Duration = Duration::from_secs(5);

/// Shows what `feed` brings, until the user ends it or `over` (given nanoseconds since the start) says so.
///
/// # Errors
/// The source failed, or the terminal cannot be used.
pub fn run(feed: Feed, devices: Vec<Device>, over: impl Fn(i64) -> bool) -> Result<()> {
    let mut screen = Screen::new(feed, devices)?;
    // The shell's `kill -TSTP` has to find the terminal as it was, too.
    let stops = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, Arc::clone(&stops)).context("signals cannot be caught")?;
    // From here on a panic gives the terminal back before it is reported.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        leave();
        report(info);
    }));
    let mut terminal = enter()?;
    let ended = screen.show(&mut terminal, &stops, over);
    leave();
    ended
}

fn enter() -> Result<DefaultTerminal> {
    let terminal = ratatui::try_init().and_then(|terminal| {
        execute!(std::io::stdout(), EnableMouseCapture)?;
        Ok(terminal)
    });
    if terminal.is_err() {
        leave();
    }
    terminal.context("this terminal cannot be used: try --plain")
}

/// Leaves the terminal as it was. A terminal that cannot be written to any more is gone.
fn leave() {
    execute!(std::io::stdout(), DisableMouseCapture, Show).ok();
    // ratatui::restore() would print its error into a terminal that is gone.
    ratatui::try_restore().ok();
    std::io::stdout().flush().ok();
}

/// All that the loop works on.
struct Screen {
    source: SourceThread,
    start_ns: i64,
    history: History,
    meta: RecordingMeta,
    view: ScreenView,
    findings: Findings,
    facts: SourceFacts,
    cache: HeatCache,
    analyst: Analyst,
    tables_made: Option<(u64, Instant)>,
    stories_made: Option<Instant>,
    cell_made: u64,
    cpu: CpuUse,
}

impl Screen {
    fn new(feed: Feed, devices: Vec<Device>) -> Result<Screen> {
        let start_ns = feed.start_ns();
        let start_unix_ns = wall_clock_ns() - (monotonic_ns() - start_ns);
        let mut history = History::new(start_unix_ns, MAX_LIVE_IOS);
        history.devices.clone_from(&devices);
        let mut meta = RecordingMeta::new(feed.source(), start_unix_ns);
        meta.devices.clone_from(&devices);
        let layers = Layers::doubled(&devices, GroupBy::Process);
        let mut view = ScreenView::default();
        view.above.extend(layers.left_out().keys());
        let facts = SourceFacts {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            limits: feed.limits().to_vec(),
            ..SourceFacts::default()
        };
        Ok(Screen {
            source: SourceThread::start(feed, devices)?,
            start_ns,
            history,
            meta,
            view,
            findings: Findings::default(),
            facts,
            cache: HeatCache::default(),
            analyst: Analyst::start()?,
            tables_made: None,
            stories_made: None,
            cell_made: 0,
            cpu: CpuUse::default(),
        })
    }

    fn show(
        &mut self,
        terminal: &mut DefaultTerminal,
        stops: &AtomicBool,
        over: impl Fn(i64) -> bool,
    ) -> Result<()> {
        let palette = Palette::from_environment(|name| std::env::var(name).ok());
        let mut next_frame = Instant::now();
        loop {
            let wait = next_frame.saturating_duration_since(Instant::now());
            let mut draws = wait.is_zero();
            let action = match next_input(wait)? {
                Input::Event(event) => self.view.event(&event),
                Input::Nothing => Action::Nothing,
                Input::Closed => return Ok(()),
            };
            match action {
                Action::Quit => return Ok(()),
                Action::Suspend => stops.store(true, Ordering::Relaxed),
                Action::Draw => draws = true,
                Action::Nothing => {}
            }
            if stops.swap(false, Ordering::Relaxed) {
                *terminal = suspend()?;
                draws = true;
            }
            if over(monotonic_ns() - self.start_ns) {
                return Ok(());
            }
            if !draws {
                continue;
            }
            self.source.take(&mut self.history)?;
            self.work();
            self.facts.self_percent = self.cpu.percent();
            let scene = Scene {
                history: &self.history,
                findings: &self.findings,
                facts: &self.facts,
                palette,
            };
            let (view, cache) = (&mut self.view, &mut self.cache);
            terminal.draw(|frame| {
                draw::frame(&scene, view, cache, frame.area(), frame.buffer_mut());
            })?;
            next_frame = Instant::now() + FRAME;
        }
    }

    /// Takes what the analyst has worked out, and gives it what is most wanted now.
    fn work(&mut self) {
        while let Some((ticket, outcome)) = self.analyst.result() {
            match outcome {
                Outcome::Tables(tables) => {
                    self.tables_made = Some((ticket, Instant::now()));
                    self.findings.tables = Some(tables);
                }
                Outcome::Stories(found) => {
                    self.stories_made = Some(Instant::now());
                    let times = Times::new(
                        Clock::Wall(self.history.zone.clone()),
                        self.history.start_unix_ns,
                        0,
                    );
                    let lines = story_words::lines(&found, &self.meta, &self.history.names, &times);
                    self.findings.stories.take(lines);
                }
                Outcome::Cell(cell) => {
                    self.cell_made = ticket;
                    self.findings.cell = Some(cell);
                }
            }
        }
        if !self.analyst.is_idle() {
            return;
        }
        // What the user has just asked for comes first; what only time has changed waits for its share of the CPU.
        if let Some(job) = self.cell_job() {
            let ticket = self.view.cell.as_ref().map_or(0, |cell| cell.ticket);
            return self.analyst.ask(ticket, job);
        }
        let is_old = |made: Instant, age: Duration| made.elapsed() >= age;
        let ticket = self.view.ticket;
        let is_changed = self.tables_made.is_none_or(|(made, _)| made != ticket);
        let is_due = self.analyst.is_due();
        let tables_are_old = self
            .tables_made
            .is_none_or(|(_, made)| is_old(made, TABLES_AGE));
        let stories_are_old = self
            .stories_made
            .is_none_or(|made| is_old(made, STORIES_AGE));
        if is_changed {
            self.analyst.ask(ticket, self.tables_job());
        } else if is_due && stories_are_old {
            self.analyst.ask(ticket, self.stories_job());
        } else if is_due && tables_are_old && self.view.end_ns.is_none() {
            self.analyst.ask(ticket, self.tables_job());
        }
    }

    /// The time in view.
    fn window(&self) -> Window {
        let end_ns = self.view.shown_end_ns(self.history.complete_to_ns);
        let columns = i64::from(self.view.geometry.heat.width.max(1));
        Window::new(end_ns - columns * self.view.step_ns(), end_ns)
    }

    fn material(&self, window: Window) -> Material {
        Material {
            chunks: self
                .history
                .chunks(window.from_ns - WARM_UP_NS, window.to_ns + IN_FLIGHT_NS),
            lost: self.history.lost.iter().copied().collect(),
            window,
        }
    }

    fn tables_job(&self) -> Job {
        Job::Tables {
            material: self.material(self.window()),
            selection: self.view.selection(),
            by: self.view.by,
            devices: self.history.devices.clone(),
            names: self.history.names.clone(),
        }
    }

    fn stories_job(&self) -> Job {
        let end_ns = self.history.complete_to_ns;
        let window = Window::new(end_ns - STORIES_NS, end_ns);
        Job::Stories {
            material: self.material(window),
            above: self.view.above.iter().copied().collect(),
            host: self.history.host(),
        }
    }

    /// The I/Os of the open cell, if they are not known yet.
    fn cell_job(&self) -> Option<Job> {
        let cell = self.view.cell.as_ref()?;
        if cell.ticket == self.cell_made {
            return None;
        }
        let window = Window::new(cell.from_ns, cell.to_ns);
        Some(Job::Cell {
            material: self.material(window),
            selection: self.view.selection(),
            devices: self.history.devices.clone(),
            names: self.history.names.clone(),
            buckets: cell.buckets.clone(),
        })
    }
}

/// What the terminal has brought.
enum Input {
    /// A key, the mouse, another size.
    Event(Event),
    /// Nothing in time.
    Nothing,
    /// There is no terminal any more.
    Closed,
}

/// Waits for input, at most `wait`.
///
/// Of a terminal that is gone crossterm reads nothing again and again and never returns. It is asked only where the
/// terminal is known to be there, and never waits itself.
fn next_input(wait: Duration) -> Result<Input> {
    if is_closed(Duration::ZERO)? {
        return Ok(Input::Closed);
    }
    // Several events may have come with one read: the terminal itself has nothing more then.
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

/// Whether the terminal is gone; returns when there is input, a signal, or after `wait`.
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

/// Gives the terminal to the shell, until it lets this program go on.
fn suspend() -> Result<DefaultTerminal> {
    leave();
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
    enter()
}

/// CPU time of this program.
#[derive(Default)]
struct CpuUse {
    before: Option<(Instant, Duration)>,
    percent: Option<f64>,
}

impl CpuUse {
    /// Of one CPU over the last seconds, in percent.
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
