//! One recording from start to end: a source, the clocks, hot-plug, and the writer.

mod rotate;

use std::path::PathBuf;

use anyhow::Result;
use iolens_core::model::{DevId, LossReason, Mark, Observation, RecorderCost, Request, Source};
use iolens_core::private::Access;
use iolens_core::store::RecordingSummary;
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::{Topology, own_cost, prefer_this_thread};
use iolens_observe::trace::{FinishStats, TracerOptions};

use crate::clock::ClockWatch;
use crate::feed::{Feed, FeedOptions, IdleEnd, Taken};
use crate::known_devices::KnownDevices;
use crate::losses::{LossCounts, LossTally};
use crate::outputs::{Closed, Outputs, devices_from, with_others};
use crate::pressure::{PressureWatch, TimerWake};
use crate::self_check::SelfCheck;
use crate::viewer::Viewer;
use crate::wbt_watch::WbtWatch;
use rotate::begin;

/// Interval at which clocks, devices and (in addition to events) counters are checked.
const HOUSEKEEPING_NS: i64 = 1_000_000_000;
/// Interval at which open requests are saved in case this process is killed. Each reading takes about 5 ms.
const LOOK_AT_OPEN_NS: i64 = 5_000_000_000;
/// Maximum poll interval of idle rings; see [`idle_wait_ns`].
const MAX_IDLE_WAIT_NS: i64 = 50_000_000;

/// Options of a recording.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Directory of the recording; must not exist. With [`SessionOptions::always_on`], the existing directory of the
    /// host in a recording root.
    pub output: PathBuf,
    /// The recording belongs to a root: its directory is named after its start, it has rollups and a table of devices,
    /// and [`Session::rotate`] begins the next one.
    pub always_on: bool,
    /// Disks to record; `None`: all, including those that appear later.
    pub devices: Option<Vec<DevId>>,
    /// Hard limit of the recording's size on disk in bytes.
    pub keep_bytes: Option<u64>,
    /// Access of other users.
    pub access: Access,
    /// Where the observations come from.
    pub feed: FeedOptions,
    /// The command line, for people.
    pub command_line: Vec<String>,
    /// While there is no I/O, [`Session::run`] asks whether to stop this often, in nanoseconds.
    pub idle_poll_ns: i64,
    /// It asks at this time for certain, in nanoseconds since the recording's start.
    pub until_ns: Option<i64>,
}

impl SessionOptions {
    /// A [`SessionOptions::idle_poll_ns`] that feels immediate to a user and hardly wakes an idle machine.
    pub const IDLE_POLL_NS: i64 = 200_000_000;
    /// Poll interval while idle, if no user waits for the end.
    pub const SELDOM_IDLE_POLL_NS: i64 = 500_000_000;
    /// Poll interval while idle, if the end of a program is awaited.
    pub const FAST_IDLE_POLL_NS: i64 = 50_000_000;
}

/// Progress of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Nanoseconds since the recording's start.
    pub at_ns: i64,
    /// I/Os seen so far.
    pub ios: i64,
    /// File-level requests seen.
    pub requests: i64,
    /// Lost I/Os by reason. I/Os that were seen but not stored are also in [`Progress::ios`].
    pub losses: LossCounts,
    /// Bytes of the recording on disk.
    pub disk_bytes: u64,
    /// The disk is full: I/Os are counted but not stored.
    pub disk_full: bool,
    /// The writer has failed: nothing is stored until [`Session::rotate`] begins another recording.
    pub writer_failed: bool,
    /// By how much the wall clock is ahead of the times of the current recording, because it was set since the
    /// recording began or the machine was suspended.
    pub clock_shift_ns: i64,
}

impl Progress {
    /// I/Os that were seen and are not known to be missing from the recording.
    pub fn recorded_ios(&self) -> i64 {
        self.ios - self.losses.unstored_ios()
    }
}

/// The result of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// Progress at the end.
    pub progress: Progress,
    /// The writer's summary.
    pub stored: RecordingSummary,
    /// Where the observations came from.
    pub source: Source,
    /// Resources used by the recorder.
    pub cost: RecorderCost,
    /// Directory of the recording.
    pub path: PathBuf,
    /// Previous recordings that [`Session::closed`] did not return.
    pub closed: Vec<Closed>,
}

/// A running recording.
pub struct Session {
    feed: Feed,
    outputs: Outputs,
    known: KnownDevices,
    clock: ClockWatch,
    options: SessionOptions,
    /// See [`idle_wait_ns`].
    gather_ns: i64,
    start_ns: i64,
    next_housekeeping_ns: i64,
    /// Number of open file-level requests in the last report.
    reported_open: u64,
    kept_open: Vec<Request>,
    looked_at_open_ns: i64,
    progress: Progress,
    losses: LossTally,
    check: SelfCheck,
    pressure: PressureWatch,
    wbt: WbtWatch,
    /// Whether I/O was seen since the last pressure sample.
    had_io: bool,
    /// CPU seconds of this process when the session was started, and when it was ready to record.
    cpu_before_s: [Option<f64>; 2],
    /// CPU seconds of other work in this process, see [`Session::leave_out_cpu`].
    others_cpu_s: f64,
    viewer: Option<Viewer>,
}

impl Session {
    /// Attaches the probes (or opens the counters), then creates the recording's directory. In this order, an
    /// unavailable source leaves nothing behind.
    ///
    /// # Errors
    /// No source, or the directory cannot be written.
    pub fn start(options: SessionOptions, topology: Topology) -> Result<Session> {
        Session::start_then(options, topology, || Ok(()))
    }

    /// Like [`Session::start`]. `attached` is called when the source is open, before threads are started and anything
    /// is written. It may drop privileges, which the threads then do not have.
    ///
    /// # Errors
    /// As of [`Session::start`], and of `attached`.
    pub fn start_then(
        options: SessionOptions,
        topology: Topology,
        attached: impl FnOnce() -> Result<()>,
    ) -> Result<Session> {
        let before_s = own_cost().cpu_s;
        let mut clock = ClockWatch::start();
        // The last slow step, because the rings fill from here until they are first emptied.
        let feed = Feed::open(&options.feed, options.devices.as_deref(), &topology)?;
        attached()?;
        let start_ns = feed.start_ns();
        let known = KnownDevices::new(topology, options.devices.clone());
        let losses = LossTally::default();
        let started = begin(&options, &feed, known.all(), 0, &losses)?;
        clock.recording_begins(started.wall_minus_monotonic_ns);
        let mut session = Session {
            feed,
            outputs: Outputs::new(started.pipeline, started.path),
            known,
            clock,
            gather_ns: idle_wait_ns(&options.feed),
            options,
            start_ns,
            next_housekeeping_ns: 0,
            reported_open: 0,
            kept_open: Vec::new(),
            looked_at_open_ns: 0,
            progress: Progress::default(),
            losses,
            check: SelfCheck::default(),
            pressure: PressureWatch::start(monotonic_ns() - start_ns),
            wbt: WbtWatch::default(),
            had_io: false,
            cpu_before_s: [before_s, own_cost().cpu_s],
            others_cpu_s: 0.0,
            viewer: None,
        };
        session
            .outputs
            .send(vec![mark(0, "start", "recording started")]);
        Ok(session)
    }

    /// The source of the observations.
    pub fn source(&self) -> Source {
        self.feed.source()
    }

    /// Limits of this recording, one line each.
    pub fn limits(&self) -> &[String] {
        self.feed.limits()
    }

    /// Takes the observations so far, so that the rings are empty when a command is started next.
    ///
    /// # Errors
    /// The source fails.
    pub fn catch_up(&mut self) -> Result<()> {
        self.drain().map(drop)
    }

    /// Records until `stop` returns true. `stop` is called after every poll of the source: about 100 times a second
    /// while there is I/O (at least 20 times if always on), and see [`SessionOptions::idle_poll_ns`] for idle times.
    /// Unless it is always on, it also ends if the writer fails; [`Session::finish`] returns the reason.
    ///
    /// # Errors
    /// The source failed.
    pub fn run(&mut self, mut stop: impl FnMut(&Progress) -> bool) -> Result<()> {
        // Only now, so that a recorded command, which was started before, does not inherit the priority. Without
        // privileges the rings are emptied at ordinary priority.
        let _preferred = prefer_this_thread();
        loop {
            let now_ns = monotonic_ns() - self.start_ns;
            let idle = self.drain()?;
            self.had_io |= !idle;
            self.look_at_pressure();
            if now_ns >= self.next_housekeeping_ns {
                self.housekeeping(now_ns)?;
                self.next_housekeeping_ns = now_ns + HOUSEKEEPING_NS;
            }
            let status = self.outputs.status();
            self.progress.at_ns = now_ns;
            self.progress.losses = self.losses.counts();
            self.progress.disk_bytes = status.disk_bytes;
            self.progress.disk_full = status.full;
            self.progress.writer_failed = self.outputs.has_failed();
            self.progress.clock_shift_ns = self.clock.shift_ns();
            // An always-on session continues in another recording.
            if stop(&self.progress) || (self.progress.writer_failed && !self.options.always_on) {
                return Ok(());
            }
            self.rest(now_ns, idle)?;
        }
    }

    /// Waits until the next poll of the source. After an idle poll the kernel signals new data. The first I/O is then
    /// followed by a pause as long as a ring takes to fill, to collect more.
    fn rest(&mut self, now_ns: i64, idle: bool) -> Result<()> {
        let now = self.start_ns + now_ns;
        if !idle {
            // An always-on session should cost little; others should also notice their end soon.
            let poll_ns = if self.options.always_on {
                self.gather_ns
            } else {
                self.options.feed.poll_ns
            };
            let woke = self.feed.wait(now + poll_ns);
            self.note_wake(woke);
            return Ok(());
        }
        let seldom_ns = idle_end_ns(now_ns, self.options.idle_poll_ns, self.options.until_ns);
        let idle_end = self
            .feed
            .wait_idle(self.start_ns + seldom_ns, now + self.gather_ns)?;
        let woke = match idle_end {
            IdleEnd::Event => self.feed.wait(monotonic_ns() + self.gather_ns),
            IdleEnd::Timer(woke) => woke,
        };
        self.note_wake(woke);
        Ok(())
    }

    fn note_wake(&mut self, woke: Option<TimerWake>) {
        if let Some(woke) = woke {
            self.pressure.woke(woke);
        }
    }

    /// Samples the host's pressure if it is due.
    fn look_at_pressure(&mut self) {
        let start_ns = self.start_ns;
        let now_ns = monotonic_ns() - start_ns;
        if !self.pressure.is_due(now_ns) {
            return;
        }
        let had_io = std::mem::take(&mut self.had_io);
        let sample = self
            .pressure
            .look(now_ns, had_io, || monotonic_ns() - start_ns);
        if let Some(sample) = sample {
            self.outputs.send(vec![Observation::Pressure(sample)]);
        }
    }

    /// Empties the source once; returns whether it had nothing.
    fn drain(&mut self) -> Result<bool> {
        let mut taken = Taken {
            ios: self.outputs.batch(),
            ..Taken::default()
        };
        self.check.drain(&mut self.feed, &mut taken)?;
        let idle = taken.ios.is_empty() && taken.lost.is_empty() && taken.requests.is_empty();
        let complete_to_ns = taken.complete_to_ns;
        if let Some(viewer) = &mut self.viewer {
            viewer.show(&taken.ios, &taken.lost, complete_to_ns);
        }
        self.deliver(taken);
        // Counters are taken when they are read, so nothing arrives later.
        self.outputs.settle(complete_to_ns.unwrap_or(i64::MAX));
        Ok(idle)
    }

    fn deliver(&mut self, taken: Taken) {
        self.progress.ios += taken.ios.len() as i64;
        taken.lost.iter().for_each(|l| self.losses.add_lost(l));
        self.progress.requests += taken.requests.len() as i64;
        let mut others: Vec<Observation> = taken.lost.into_iter().map(Observation::Lost).collect();
        others.extend(taken.counters.into_iter().map(Observation::Counters));
        others.extend(
            taken
                .requests
                .into_iter()
                .map(|r| Observation::Request(Box::new(r))),
        );
        self.outputs.send_ios(taken.ios);
        self.outputs.send(others);
    }

    /// Adds a mark to the time line, now.
    pub fn mark(&mut self, kind: &str, text: &str) {
        self.outputs
            .send(vec![mark(monotonic_ns() - self.start_ns, kind, text)]);
    }

    /// Checks clocks and devices, and samples counters in addition to events.
    fn housekeeping(&mut self, now_ns: i64) -> Result<()> {
        let marks = self.clock.check(now_ns);
        self.outputs
            .send(marks.into_iter().map(Observation::Mark).collect());
        let open = self.feed.open_requests();
        if open != self.reported_open {
            // If this recorder is killed, open requests that were not saved are lost; this mark has their number.
            self.reported_open = open;
            self.mark(Mark::OPEN_REQUESTS, &open.to_string());
        }
        if now_ns - self.looked_at_open_ns >= LOOK_AT_OPEN_NS {
            self.looked_at_open_ns = now_ns;
            self.keep_open_requests(open)?;
        }
        let throttled = self.feed.wbt_throttled();
        self.outputs
            .send(self.wbt.look(now_ns, &throttled, self.known.all()));
        self.sample_counters();
        if let Some(marks) = self.known.look(&mut self.feed, now_ns)? {
            self.devices_changed(marks);
        }
        Ok(())
    }

    fn sample_counters(&mut self) {
        let sampled = self.check.sample(&mut self.feed, self.known.all());
        self.deliver(sampled);
    }

    /// Passes the state of open requests to the writer if it has changed. If it has not, the disk of an idle machine
    /// must not be woken.
    fn keep_open_requests(&mut self, open: u64) -> Result<()> {
        if open == 0 && self.kept_open.is_empty() {
            return Ok(());
        }
        let now = self.feed.look_at_open_requests()?;
        let is_unchanged = now.len() == self.kept_open.len()
            && now
                .iter()
                .zip(&self.kept_open)
                .all(|(a, b)| has_done_as(a, b));
        if !is_unchanged {
            self.outputs.send_open_requests(now.clone());
            self.kept_open = now;
        }
        Ok(())
    }

    fn devices_changed(&mut self, marks: Vec<Mark>) {
        self.outputs
            .send(marks.into_iter().map(Observation::Mark).collect());
        if let Some(viewer) = &mut self.viewer {
            viewer.devices(self.known.all());
        }
        self.outputs.send_devices(self.known.all());
    }

    /// Sends the last interval, which ends with the recording.
    fn finish_pressure(&mut self) {
        let start_ns = self.start_ns;
        let now_ns = monotonic_ns() - start_ns;
        let before_last = self
            .pressure
            .look(now_ns, self.had_io, || monotonic_ns() - start_ns);
        let last = self.pressure.finish();
        let samples = before_last.into_iter().chain(last);
        self.outputs
            .send(samples.map(Observation::Pressure).collect());
    }

    /// Detaches, empties the source, and closes the recording.
    ///
    /// # Errors
    /// Error of the source or the writer; what was written before stays readable.
    pub fn finish(mut self) -> Result<Outcome> {
        let running = self.cost();
        self.finish_pressure();
        self.sample_counters();
        let now_ns = monotonic_ns() - self.start_ns;
        if let Some(marks) = self.known.last_look(&mut self.feed, now_ns)? {
            self.devices_changed(marks);
        }
        let source = self.feed.source();
        let mut last = Taken::default();
        let feed = std::mem::replace(&mut self.feed, Feed::ended(source.clone()));
        let missed = feed.missed_samples();
        let finished = feed.finish(&mut last)?;
        self.check.finished(&last.ios, &mut last.lost);
        self.deliver(last);
        let end_ns = monotonic_ns() - self.start_ns;
        self.progress.at_ns = end_ns;
        self.outputs
            .send(vec![mark(end_ns, "end", &ending(finished, missed))]);
        let cost = RecorderCost {
            max_rss_bytes: own_cost().max_rss_bytes,
            ..running
        };
        let finished = self.outputs.finish(end_ns, cost);
        let stored = match finished.stored {
            Ok(stored) => stored,
            Err(error) => return Err(with_others(error, finished.closed)),
        };
        self.progress.losses = self.losses.counts();
        self.progress.disk_bytes = stored.disk_bytes;
        Ok(Outcome {
            progress: self.progress,
            stored,
            source,
            cost,
            path: finished.path,
            closed: finished.closed,
        })
    }

    /// Subtracts CPU seconds that this process has spent since the recording began on other work than recording.
    pub fn leave_out_cpu(&mut self, seconds: f64) {
        self.others_cpu_s += seconds;
    }

    /// Cost of recording so far. Detaching and finishing the files is not included.
    fn cost(&self) -> RecorderCost {
        let now = own_cost();
        let [before, ready] = self.cpu_before_s;
        let recording = now.cpu_s.zip(ready).map(|(now, ready)| now - ready);
        let startup = ready.zip(before).map(|(ready, before)| ready - before);
        RecorderCost {
            cpu_s: recording.map(|s| (s - self.others_cpu_s).max(0.0)),
            startup_cpu_s: startup,
            probe_cpu_s: self.feed.probe_cpu_s(),
            ..now
        }
    }
}

/// Whether two readings of open requests saw the same one without activity in between.
fn has_done_as(a: &Request, b: &Request) -> bool {
    a.tgid == b.tgid
        && a.fd == b.fd
        && a.ino == b.ino
        && a.ios() == b.ios()
        && a.bytes_in == b.bytes_in
        && a.bytes_out == b.bytes_out
        && a.empty_reads == b.empty_reads
        && a.failed == b.failed
}

/// Message about how a recording ended.
fn ending(finished: Option<FinishStats>, missed_samples: u64) -> String {
    match finished {
        Some(f) if f.late > 0 => {
            format!(
                "{} I/Os in flight at the end; {} events came too late to be in order",
                f.in_flight, f.late
            )
        }
        Some(f) => format!("{} I/Os in flight at the end", f.in_flight),
        None => format!("{missed_samples} samples missed because the recorder did not run in time"),
    }
}

/// Summary of a finished recording.
#[derive(Debug, Clone)]
pub struct RecordSummary {
    /// Where the observations came from.
    pub source: Source,
    /// Length of the recording in nanoseconds.
    pub duration_ns: i64,
    /// I/Os stored.
    pub ios: i64,
    /// I/Os lost.
    pub lost: i64,
    /// I/Os whose start was before the recording.
    pub censored: i64,
    /// Lost I/Os for which the disk had no space.
    pub unwritten: i64,
    /// Size of the directory.
    pub disk_bytes: u64,
    /// Resources used by the recorder.
    pub cost: RecorderCost,
}

impl Outcome {
    /// The totals.
    pub fn summary(&self) -> RecordSummary {
        let losses = &self.progress.losses;
        RecordSummary {
            source: self.source.clone(),
            duration_ns: self.progress.at_ns,
            ios: self.progress.recorded_ios(),
            lost: losses.ios(),
            censored: losses.get(LossReason::Censored),
            unwritten: losses.get(LossReason::DiskFull),
            disk_bytes: self.progress.disk_bytes,
            cost: self.cost,
        }
    }
}

/// Time of the next poll of an idle source, not later than the end. After the end, while a command is still awaited,
/// polls continue at the interval.
fn idle_end_ns(now_ns: i64, poll_ns: i64, until_ns: Option<i64>) -> i64 {
    let next_ns = now_ns + poll_ns;
    match until_ns {
        Some(end_ns) if end_ns > now_ns => next_ns.min(end_ns),
        _ => next_ns,
    }
}

/// Maximum wait on idle rings: at most the time in which a CPU could fill its ring, at a million completions per
/// second.
fn idle_wait_ns(feed: &FeedOptions) -> i64 {
    let fill_ns = TracerOptions::events_per_cpu(feed.ring_bytes) as i64 * 1_000;
    fill_ns.clamp(feed.poll_ns, MAX_IDLE_WAIT_NS.max(feed.poll_ns))
}

fn mark(at_ns: i64, kind: &str, text: &str) -> Observation {
    Observation::Mark(Mark {
        at_ns,
        kind: kind.to_owned(),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_source_is_left_until_the_end_and_by_polls_after_it() {
        assert_eq!(idle_end_ns(100, 50, None), 150);
        assert_eq!(idle_end_ns(100, 50, Some(120)), 120);
        assert_eq!(idle_end_ns(100, 50, Some(900)), 150);
        assert_eq!(idle_end_ns(100, 50, Some(100)), 150);
        assert_eq!(idle_end_ns(100, 50, Some(20)), 150);
    }
}
