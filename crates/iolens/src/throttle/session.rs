//! A running throttle: measure, decide, act, report; until the command ends.

use std::collections::HashMap;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use iolens_core::analysis::device::utilisation::Method;
use iolens_core::analysis::math::stats::Shuffler;
use iolens_observe::counters::process;
use iolens_observe::terminal;
use iolens_observe::topology::wall_clock_ns;
use rustix::process::{Signal, kill_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::start::Started;
use super::suspend;
use super::trial::{FIRST_SHARE, Trial};
use crate::cli::ThrottlePlan;
use crate::present::throttle_text::{self, Share, Summary, ThrottleStep};
use crate::signals;
use crate::streams::ERASE;
use iolens_control::{Controller, EventWindow, Guardian, Meter, Observed, Reading};

/// How often to check whether the command has ended or a signal has arrived.
const TICK: Duration = Duration::from_millis(20);

/// The first decisions come four times as often: a command that started with a small share then runs freely after one
/// interval if no other work uses the disks.
const FIRST_DECISIONS: u32 = 4;

/// Mean interval between looks, for counters that need them. They are at irregular times.
const LOOK_NS: u64 = 5_000_000;

/// How often the command's open files are recorded. A file that is open for less time may be missed; its write-back
/// then counts as other work.
const NOTE: Duration = Duration::from_millis(100);

/// Signals that are forwarded to the command. If one is ignored from the start, as with `nohup`, the command ignores
/// it too.
const FORWARDED: [i32; 8] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT,
];

/// A running throttle.
pub struct ThrottleSession {
    controller: Controller,
    meter: Meter,
    started: Started,
    signals: Signals,
    interval: Duration,
    log: Option<File>,
    status: bool,
    quiet: bool,
    begin: Instant,
    own_io_before: Option<(u64, u64)>,
    holding: Share,
    free: Share,
    noted: Instant,
    beat: Instant,
    next: Instant,
    decided: u32,
    random: Shuffler,
    /// How the command was started, until the first decision.
    trial: Trial,
}

impl ThrottleSession {
    /// Takes over a command that was just started.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn new(
        plan: &ThrottlePlan,
        controller: Controller,
        meter: Meter,
        log: Option<File>,
        started: Started,
        trial: Trial,
    ) -> Result<ThrottleSession> {
        let now = Instant::now();
        Ok(ThrottleSession {
            controller,
            meter,
            started,
            signals: Signals::new(FORWARDED.into_iter().filter(|s| !process::is_ignored(*s)))?,
            interval: Duration::from_nanos(plan.interval_ns.unsigned_abs())
                .max(Duration::from_millis(50)),
            log,
            status: !plan.quiet && std::io::stderr().is_terminal(),
            quiet: plan.quiet,
            begin: now,
            own_io_before: io_of_this_process(),
            holding: Share::default(),
            free: Share::default(),
            noted: now,
            beat: now,
            next: now,
            decided: 0,
            random: Shuffler::new(std::process::id().into()),
            trial,
        })
    }

    /// Runs until the command ends. Returns its exit code.
    ///
    /// # Errors
    /// Waiting for its end fails.
    pub fn run(mut self) -> Result<u8> {
        let ended = self.watch();
        // After any error the command runs freely.
        self.started.duty.end();
        let status = match ended {
            Ok(status) => status,
            Err(e) => {
                eprintln!("iolens: the command goes on without a throttle: {e:#}");
                self.accompany()?
            }
        };
        if let Some(owner) = self.started.terminal_of {
            terminal::take_back(std::io::stdin(), owner);
        }
        let took = self.begin.elapsed();
        self.clear_status();
        if !self.quiet && !self.started.never_ran() {
            eprint!("{}", throttle_text::summary(&self.summary(took)));
        }
        // The groups are removed first, because the guardians would remove what is left of them.
        let Started {
            duty,
            guardian,
            blkio,
            ..
        } = self.started;
        drop((duty, blkio));
        guardian.dismiss();
        Ok(signals::exit_code(status))
    }

    /// Waits for the end of a command that is no longer held, and forwards signals to it.
    fn accompany(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.started.child.try_wait()? {
                return Ok(status);
            }
            self.follow()?;
            std::thread::sleep(TICK);
        }
    }

    /// Forwards signals to the command, and stops this process when the command stops.
    fn follow(&mut self) -> Result<()> {
        self.forward_signals()?;
        if suspend::was_stopped(&self.started) {
            self.sleep_with_it()?;
        }
        Ok(())
    }

    fn watch(&mut self) -> Result<ExitStatus> {
        self.note();
        self.begin_share();
        self.next = Instant::now() + self.pace();
        loop {
            if let Some(status) = self.started.child.try_wait()? {
                return Ok(status);
            }
            self.follow()?;
            self.look_for_others();
            if self.beat.elapsed() >= Guardian::BEAT {
                self.started.guardian.beat();
                self.beat = Instant::now();
            }
            if let Some(pacer) = &self.started.pacer {
                self.started.duty.set_waits(pacer.is_behind());
            }
            if Instant::now() >= self.next {
                self.step()?;
                let pace = self.pace();
                self.next = (self.next + pace).max(Instant::now() + pace / 2);
            }
            if self.noted.elapsed() >= NOTE {
                self.note();
            }
            std::thread::sleep(
                self.tick()
                    .min(self.next.saturating_duration_since(Instant::now())),
            );
        }
    }

    /// Sets the command's share of the time until the first decision.
    fn begin_share(&mut self) {
        if self.trial == Trial::Shared {
            self.controller = self.controller.clone().starting_at(FIRST_SHARE);
        }
        self.apply(self.controller.duty().share);
    }

    /// Before the first decision, a command that runs freely is held as soon as other work is seen.
    fn look_for_others(&mut self) {
        if self.decided > 0 || self.trial == Trial::Shared {
            return;
        }
        self.trial = self.trial.look(&self.meter);
        if self.trial == Trial::Shared {
            self.begin_share();
        }
    }

    /// Updates the command's processes and files: they identify its I/O, and its files are written back at its share.
    fn note(&mut self) {
        self.noted = Instant::now();
        let own = self.started.background.look(self.started.duty.actuator());
        if let Some(events) = self.meter.events().filter(|e| e.attributed()) {
            events.set_own(own);
        }
        if let Some(pacer) = &self.started.pacer {
            // Files on other file systems are written back to disks that are not protected.
            let mut files = HashMap::new();
            for (id, path) in self.started.background.open_files() {
                if self.started.file_systems.contains(&id.0) {
                    files.insert(*id, path.clone());
                }
            }
            pacer.set_files(files);
        }
    }

    /// The user has stopped the command: nothing is measured or decided until it continues.
    fn sleep_with_it(&mut self) -> Result<()> {
        self.clear_status();
        suspend::sleep_with_it(&mut self.started)?;
        // Stop and continue signals are handled here; all others are forwarded.
        let came: Vec<_> = self
            .signals
            .pending()
            .filter(|s| ![SIGTSTP, SIGCONT].contains(s))
            .collect();
        came.into_iter().for_each(|s| self.forward(s));
        // I/O during the suspend is not attributed to the command.
        self.meter.measure();
        self.next = Instant::now() + self.interval;
        self.note();
        Ok(())
    }

    fn tick(&mut self) -> Duration {
        if !self.meter.wants_looks() {
            return TICK;
        }
        self.meter.look();
        Duration::from_nanos(LOOK_NS / 2 + self.random.below(LOOK_NS))
    }

    fn forward_signals(&mut self) -> Result<()> {
        for signal in self.signals.pending().collect::<Vec<_>>() {
            match signal {
                SIGTSTP => {
                    suspend::stop_command(&self.started);
                    if self.started.duty.actuator().needs_session() {
                        self.sleep_with_it()?;
                    }
                }
                SIGCONT => suspend::wake(&mut self.started),
                other => self.forward(other),
            }
        }
        Ok(())
    }

    /// Forwards a signal. A terminating one also releases the command, so that it can end.
    fn forward(&self, signal: i32) {
        if signal != SIGUSR1 && signal != SIGUSR2 {
            self.started.duty.set(1.0);
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may just have ended; then no process needs the signal.
            let _ = kill_process_group(self.started.leader, signal);
        }
    }

    /// One decision: measures the time since the last one, sets the command's share, and reports both.
    fn step(&mut self) -> Result<()> {
        self.check_that_holding_is_safe()?;
        let share_before = self.controller.duty().share;
        let (readings, window) = self.meter.measure();
        // Other work is only known if I/Os are attributed to processes and hardly any are lost.
        let is_attributed = self.meter.events().is_some_and(|e| e.attributed());
        let seen = window.as_ref().filter(|w| !w.lossy && is_attributed);

        let observed = Observed {
            at_ns: i64::try_from(self.begin.elapsed().as_nanos())?,
            busy_percent: max_percent(&readings),
            foreground_percent: seen.and_then(EventWindow::foreground_percent),
            foreground_p99_ns: seen.and_then(foreground_p99),
        };
        let duty = self.controller.decide(&observed);
        self.decided = self.decided.saturating_add(1);
        self.apply(duty.share);

        // The measurement is the result of the share before this decision.
        self.add_to_summary(share_before, &observed, seen);
        let step = ThrottleStep {
            unix_s: wall_clock_ns() as f64 / 1e9,
            busy_percent: observed.busy_percent,
            method: method_of_busiest(&readings),
            foreground_percent: observed.foreground_percent,
            foreground_p99_ns: observed.foreground_p99_ns,
            own_bytes: seen.map(|w| w.own_bytes),
            mode: duty.mode.name(),
            duty: duty.share,
            held: self.started.duty.held(),
        };
        self.report(&step);
        Ok(())
    }

    /// Without a guardian, or if the command can no longer be released, it must not be held.
    fn check_that_holding_is_safe(&mut self) -> Result<()> {
        if !self.started.guardian.alive() {
            anyhow::bail!("the guardian has died, and without it nothing may be held");
        }
        if let Some(why) = self.started.duty.failed() {
            anyhow::bail!("{why}");
        }
        Ok(())
    }

    /// Adds the measurement to the summary of the time in which the command was held, or ran freely.
    fn add_to_summary(&mut self, share: f64, observed: &Observed, seen: Option<&EventWindow>) {
        let sums = if share < 1.0 {
            &mut self.holding
        } else {
            &mut self.free
        };
        add(sums, observed.busy_percent, observed.foreground_percent);
        if let Some(window) = seen {
            sums.latency.merge(&window.foreground);
        }
    }

    fn apply(&self, share: f64) {
        self.started.duty.set(share);
        if let Some(pacer) = &self.started.pacer {
            pacer.set_share((share < 1.0).then_some(share));
        }
    }

    /// Time until the next decision.
    fn pace(&self) -> Duration {
        if self.decided < FIRST_DECISIONS {
            self.interval / FIRST_DECISIONS
        } else {
            self.interval
        }
    }

    fn report(&mut self, step: &ThrottleStep) {
        if let Some(log) = &mut self.log {
            let line = throttle_text::log_line(step);
            if let Err(e) = log.write_all(line.as_bytes()) {
                // A full disk must not end the command.
                eprintln!("iolens: the log ends here: {e}");
                self.log = None;
            }
        }
        if self.status {
            eprint!("{ERASE}{}", throttle_text::status(step));
        }
    }

    fn clear_status(&self) {
        if self.status {
            eprint!("{ERASE}");
        }
    }

    fn summary(&self, took: Duration) -> Summary {
        let moved = io_of_this_process()
            .zip(self.own_io_before)
            .map(|(now, before)| {
                (
                    now.0.saturating_sub(before.0),
                    now.1.saturating_sub(before.1),
                )
            });
        Summary {
            took,
            held: self.started.duty.held(),
            moved_bytes: moved,
            actuator: self.started.duty.actuator().name(),
            source: if self.meter.events().is_some() {
                "ebpf"
            } else {
                "counters"
            },
            attributed: self.meter.events().is_some_and(|e| e.attributed()),
            holding: self.holding.clone(),
            free: self.free.clone(),
        }
    }
}

/// Utilisation of the busiest disk in percent. If one disk is unknown the result is `None`, because it may be the
/// busiest.
fn max_percent(readings: &[Reading]) -> Option<f64> {
    readings
        .iter()
        .map(|r| r.combined.map(|c| c.max_percent))
        .reduce(|a, b| Some(a?.max(b?)))
        .flatten()
}

/// The method that measured the busiest disk.
fn method_of_busiest(readings: &[Reading]) -> Option<Method> {
    let busiest = readings.iter().flat_map(|r| &r.disks).max_by(|a, b| {
        let a = a.busy.busy_percent.unwrap_or(-1.0);
        let b = b.busy.busy_percent.unwrap_or(-1.0);
        a.total_cmp(&b)
    })?;
    busiest.busy.busy_percent?;
    Some(busiest.busy.method)
}

/// The p99 latency of other work in nanoseconds, and the number of I/Os.
fn foreground_p99(window: &EventWindow) -> Option<(i64, u64)> {
    let p99_ns = window.foreground.quantile(0.99)?;
    Some((p99_ns, window.foreground.n()))
}

fn add(share: &mut Share, busy: Option<f64>, foreground: Option<f64>) {
    share.n += 1;
    for (sum, value) in [(&mut share.busy, busy), (&mut share.foreground, foreground)] {
        if let Some(value) = value {
            sum.0 += value;
            sum.1 += 1;
        }
    }
}

/// Bytes that this process, and children it has waited for, have read from and written to disks (proc_pid_io(5)).
fn io_of_this_process() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    Some((field(&text, "read_bytes:")?, field(&text, "write_bytes:")?))
}

/// The number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
}
