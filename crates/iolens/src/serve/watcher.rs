//! Findings while they happen: the report's own analyses over the last minutes, again and again, each finding said once and
//! kept in the recording in which it begins.

mod commands;
mod known;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use iolens_core::analysis::findings::{FindingKind, Severity};
use iolens_core::model::StoredFinding;
use iolens_core::private::Access;
use iolens_core::store::{Recording, Root, read_findings};
use iolens_observe::topology::{lower_this_thread, wall_clock_ns};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::freeze::{Event, FreezerFeed};
use super::live::Feed;
use super::log::EventLog;
use crate::engine::choose::{self, Chosen};
use crate::engine::{Instant as Moment, WindowArgs, patience, report, window};
use crate::present::{escape, report_json, serve_text};
use crate::streams::heard;
pub use commands::Commands;
use commands::StopTime;
use known::{JOIN_NS, Known, Memory};

const SECOND_NS: i64 = 1_000_000_000;
/// Looked at again and again: what lasts longer is known by its beginning.
const WINDOW_NS: i64 = 120 * SECOND_NS;
/// At the earliest this long after the last look began.
const PERIOD: Duration = Duration::from_secs(10);
/// A look takes at most one in so many parts of the time.
const SHARE: u32 = 50;
/// A look that takes longer is given up; the next one sees half as much.
const MAX_LOOK: Duration = Duration::from_secs(10);
const MIN_WINDOW_NS: i64 = 15 * SECOND_NS;

/// What watches has counted, and how many I/Os there have been.
#[derive(Debug, Default)]
pub struct Found {
    counts: Mutex<BTreeMap<(String, String), u64>>,
    /// I/Os recorded so far: without new ones there is nothing to look at.
    pub ios: AtomicI64,
}

impl Found {
    /// Findings so far, by kind and severity, also those of which there was none yet.
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        let none = FindingKind::ALL
            .iter()
            .flat_map(|k| Severity::ALL.map(|s| ((k.name().into(), s.name().into()), 0)));
        let mut counts: BTreeMap<_, _> = none.collect();
        counts.extend(
            self.counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        );
        counts
    }
}

/// Watches the recordings below a directory on a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    found: Arc<Found>,
    end: Sender<()>,
    commands_stop: StopTime,
    thread: JoinHandle<()>,
}

/// A watcher that looks no more once its look is over.
#[derive(Debug)]
pub struct Ending(JoinHandle<()>);

impl Ending {
    /// Waits until the end of what goes on is written and said.
    pub fn wait(self) {
        // A panic has been said.
        drop(self.0.join());
    }
}

/// What a watcher does with what it finds.
#[derive(Debug)]
pub struct Outlets {
    /// Standard error.
    pub log: EventLog,
    /// Run a shell's command for each.
    pub commands: Option<Commands>,
    /// Those who watch.
    pub live: Arc<Feed>,
    /// Who may read what is written.
    pub access: Access,
    /// Keeps the minutes around some.
    pub freeze: Option<FreezerFeed>,
}

impl Watcher {
    /// Begins.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(host_dir: PathBuf, outlets: Outlets) -> Result<Watcher> {
        let found = Arc::new(Found::default());
        let own = Arc::clone(&found);
        let (end, ended) = channel();
        let commands_stop = outlets
            .commands
            .as_ref()
            .map_or_else(StopTime::default, Commands::stop_time);
        let work = move || {
            watch(&host_dir, &own, &outlets, &ended);
            if let Some(commands) = outlets.commands {
                commands.finish();
            }
        };
        let thread = std::thread::Builder::new()
            .name("iolens-watch".to_owned())
            .spawn(work);
        let thread = thread.context("the thread that watches could not be started")?;
        Ok(Watcher {
            found,
            end,
            commands_stop,
            thread,
        })
    }

    /// Looks no more: what goes on ends where it was seen last. The look that it takes is not waited for: the recording's end
    /// comes first. No command runs after `commands_stop`.
    pub fn end(self, commands_stop: Instant) -> Ending {
        drop(self.end);
        self.commands_stop.set(commands_stop);
        Ending(self.thread)
    }

    /// What it finds.
    pub fn found(&self) -> &Arc<Found> {
        &self.found
    }
}

fn watch(host_dir: &Path, found: &Found, outlets: &Outlets, ended: &Receiver<()>) {
    lower_this_thread();
    let mut memory = Memory(said_before(host_dir, wall_clock_ns() - WINDOW_NS));
    let (mut seen, mut window_ns) = (0, WINDOW_NS);
    let mut rest = PERIOD;
    while ended.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        let (now, ios) = (Instant::now(), found.ios.load(Ordering::Relaxed));
        let from_ns = wall_clock_ns() - window_ns;
        // Without new I/Os nothing new is found; what was ends by itself.
        let looked = if ios == seen {
            Ok(Vec::new())
        } else {
            look(host_dir, from_ns)
        };
        match looked {
            Ok(all) => {
                seen = ios;
                memory
                    .look(from_ns, all)
                    .into_iter()
                    .for_each(|(what, known)| take(what, known, found, outlets));
                window_ns = (window_ns * 2).min(WINDOW_NS);
            }
            Err(e) if e.downcast_ref::<patience::TooSlow>().is_some() => {
                window_ns = (window_ns / 2).max(MIN_WINDOW_NS);
            }
            // Between two recordings, or before the first I/O, there is nothing to look at.
            Err(_) => {}
        }
        rest = PERIOD
            .max(now.elapsed() * SHARE)
            .saturating_sub(now.elapsed());
    }
    let ends = memory.end(|_| true);
    // All are written before a command is waited for.
    ends.iter()
        .for_each(|(_, known)| known.keep(outlets.access));
    ends.into_iter()
        .for_each(|(what, known)| tell(what, known, found, outlets));
}

/// What a recorder before this one, in the same root, has said and what may still go on: a killed one wrote no end.
fn said_before(host_dir: &Path, since_ns: i64) -> Vec<Known> {
    let mut known = Vec::new();
    for stored in Root::open(host_dir)
        .ok()
        .flatten()
        .iter()
        .flat_map(|r| r.recordings().iter().rev())
    {
        let mut findings = read_findings(&stored.path).unwrap_or_default();
        let is_recent =
            |f: &StoredFinding| stored.start_unix_ns.saturating_add(f.to_ns) + JOIN_NS >= since_ns;
        findings.retain(|f| f.open || is_recent(f));
        if findings.is_empty() {
            continue;
        }
        let Ok(recording) = Recording::open(&stored.path) else {
            continue;
        };
        known.extend(
            findings
                .into_iter()
                .map(|f| Known::of_stored(f, &recording)),
        );
    }
    known
}

/// All findings since `from_ns` (Unix time), in Unix time.
fn look(host_dir: &Path, from_ns: i64) -> Result<Vec<Known>> {
    let moment = |ns: i64| Timestamp::from_nanosecond(ns.into()).ok().map(Moment::Wall);
    let asked = WindowArgs {
        at: None,
        from: moment(from_ns),
        to: None,
    };
    let work = || -> Result<Vec<Known>> {
        let mut all = Vec::new();
        for Chosen {
            recording,
            window: asked,
        } in choose::all(host_dir, &asked)?
        {
            let range = window::resolve_for_analysis(&recording, &asked)?;
            let report = report::plain(&recording, &range)?.report;
            let (meta, start_ns) = (recording.meta(), recording.meta().start_unix_ns);
            all.extend(report.findings.iter().map(|f| {
                let said = report_json::finding_value(f, meta);
                let device = said["device"].as_str().map(str::to_owned);
                let (from_ns, to_ns) = (start_ns + f.from_ns, start_ns + f.to_ns);
                let (kind, recording) = (f.kind().name().to_owned(), recording.path().to_owned());
                let (start_unix_ns, written_to_ns, open) = (start_ns, to_ns, true);
                Known {
                    kind,
                    device,
                    from_ns,
                    to_ns,
                    said,
                    recording,
                    start_unix_ns,
                    written_to_ns,
                    open,
                }
            }));
        }
        Ok(all)
    };
    heard(|| patience::until(Instant::now() + MAX_LOOK, work)).0
}

/// One JSON object: what began or ended, and the finding with its times.
fn event(what: &str, known: &Known) -> Value {
    let time = |ns: i64| {
        Timestamp::from_nanosecond(ns.into()).map_or(Value::Null, |t| t.to_string().into())
    };
    let mut event =
        json!({ "event": what, "start": time(known.from_ns), "end": time(known.to_ns) });
    if let (Some(event), Some(said)) = (event.as_object_mut(), known.said.as_object()) {
        let own = said
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "start" | "end" | "start_s" | "end_s"));
        event.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    }
    event
}

/// The same for people.
fn event_line(what: &str, known: &Known) -> String {
    let text = |key: &str| known.said[key].as_str().unwrap_or_default();
    serve_text::event(&serve_text::Event {
        is_over: what == "end",
        kind: &known.kind,
        device: known.device.as_deref(),
        severity: text("severity"),
        summary: text("summary"),
        from_unix_ns: known.from_ns,
        to_unix_ns: known.to_ns,
    })
}

fn take(what: &'static str, known: Known, found: &Found, outlets: &Outlets) {
    known.keep(outlets.access);
    if what != "goes-on" {
        tell(what, known, found, outlets);
    }
}

fn tell(what: &'static str, known: Known, found: &Found, outlets: &Outlets) {
    say(what, &known, found, outlets);
    if let Some(freeze) = &outlets.freeze {
        let to_ns = (what == "end").then_some(known.to_ns);
        let summary = known.said["summary"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        freeze.take(Event {
            what: (known.kind, known.device, known.from_ns),
            from_ns: known.from_ns,
            to_ns,
            summary,
        });
    }
}

fn say(what: &'static str, known: &Known, found: &Found, outlets: &Outlets) {
    let text = escape::json(&event(what, known).to_string()).into_owned();
    outlets.log.write(&text, || event_line(what, known));
    if what == "start" {
        let severity = known.said["severity"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut counts = found.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((known.kind.clone(), severity)).or_default() += 1;
    }
    outlets.live.say(wall_clock_ns(), "finding", &text, false);
    if let Some(commands) = &outlets.commands {
        commands.push(&text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::serve::live::Since;
    use iolens_core::model::{RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

    fn known(kind: &str, from_s: i64, to_s: i64) -> Known {
        let said =
            json!({ "severity": "warning", "device": "sda", "start_s": 1.0, "summary": "slow" });
        let (from_ns, to_ns) = (from_s * SECOND_NS, to_s * SECOND_NS);
        let (kind, device, recording) = (
            kind.to_owned(),
            Some("sda".to_owned()),
            PathBuf::from("none"),
        );
        Known {
            kind,
            device,
            from_ns,
            to_ns,
            said,
            recording,
            start_unix_ns: 7,
            written_to_ns: to_ns,
            open: true,
        }
    }

    fn names(events: &[(&'static str, Known)]) -> Vec<(&'static str, String, i64)> {
        events
            .iter()
            .map(|(what, k)| (*what, k.kind.clone(), k.to_ns / SECOND_NS))
            .collect()
    }

    #[test]
    fn each_finding_begins_once_and_ends_once() {
        let mut memory = Memory::default();
        let first = memory.look(
            0,
            vec![known("stall", 100, 110), known("slow-io", 105, 105)],
        );
        assert_eq!(
            names(&first),
            [
                ("start", "stall".to_owned(), 110),
                ("start", "slow-io".to_owned(), 105)
            ]
        );
        assert!(
            memory
                .look(20 * SECOND_NS, vec![known("stall", 100, 130)])
                .is_empty(),
            "it goes on"
        );
        assert!(
            memory
                .look(100 * SECOND_NS, vec![known("stall", 125, 139)])
                .is_empty(),
            "a look begins in it"
        );
        let second = memory.look(
            130 * SECOND_NS,
            vec![known("stall", 130, 139), known("stall", 200, 201)],
        );
        assert_eq!(
            names(&second),
            [
                ("start", "stall".to_owned(), 201),
                ("end", "slow-io".to_owned(), 105)
            ]
        );
        let ended = memory.look(300 * SECOND_NS, Vec::new());
        assert_eq!(
            names(&ended),
            [
                ("end", "stall".to_owned(), 139),
                ("end", "stall".to_owned(), 201)
            ]
        );
        assert!(memory.look(400 * SECOND_NS, Vec::new()).is_empty());
    }

    #[test]
    fn findings_are_in_their_recording_once_with_their_end_and_a_restart_goes_on_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Root::recording_directory(50 * SECOND_NS));
        let meta = RecordingMeta::new(Source::Ebpf, 50 * SECOND_NS);
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        writer
            .finish(1000 * SECOND_NS, RecorderCost::default())
            .unwrap();
        let host_dir = tempfile::tempdir().unwrap();
        let host_dir = host_dir.path().join("host=h");
        std::fs::create_dir(&host_dir).unwrap();
        let kept = host_dir.join(path.file_name().unwrap());
        std::fs::rename(&path, &kept).unwrap();
        let of = |from_s, to_s| {
            let (recording, start_unix_ns) = (kept.clone(), 50 * SECOND_NS);
            Known {
                recording,
                start_unix_ns,
                ..known("stall", from_s, to_s)
            }
        };
        let live = Feed::new();
        let (found, outlets) = (
            Found::default(),
            Outlets {
                log: EventLog::default(),
                commands: None,
                live,
                access: Access::OWNER,
                freeze: None,
            },
        );
        let mut memory = Memory::default();
        let look = |memory: &mut Memory, from_s: i64, all| {
            memory
                .look(from_s * SECOND_NS, all)
                .into_iter()
                .for_each(|(what, k)| take(what, k, &found, &outlets));
            let rows = read_findings(&kept).unwrap();
            rows.iter()
                .map(|r| (r.from_ns / SECOND_NS, r.to_ns / SECOND_NS, r.open))
                .collect::<Vec<_>>()
        };
        assert_eq!(look(&mut memory, 0, vec![of(100, 110)]), [(50, 60, true)]);
        assert_eq!(
            look(&mut memory, 50, vec![of(100, 150)]),
            [(50, 60, true)],
            "a minute later at the earliest"
        );
        assert_eq!(look(&mut memory, 60, vec![of(100, 171)]), [(50, 121, true)]);
        let mut restarted = Memory(said_before(&host_dir, 160 * SECOND_NS));
        assert_eq!(
            look(&mut restarted, 160, vec![of(165, 175)]),
            [(50, 121, true)],
            "the same one goes on"
        );
        assert_eq!(look(&mut restarted, 300, Vec::new()), [(50, 125, false)]);
        assert!(
            said_before(&host_dir, 500 * SECOND_NS).is_empty(),
            "it is over"
        );
        assert_eq!(found.counts().values().sum::<u64>(), 1, "said once");

        assert_eq!(
            look(&mut memory, 400, vec![of(400, 420)])[1],
            (350, 370, true)
        );
        let (end, ended) = channel();
        drop(end);
        watch(&host_dir, &found, &outlets, &ended);
        let rows = read_findings(&kept).unwrap();
        assert!(
            rows.iter().all(|r| !r.open),
            "an orderly stop, or the next start after a kill, ends what goes on"
        );
        assert_eq!(rows[1].to_ns / SECOND_NS, 370, "where it was seen last");
        let mut restarted = Memory(said_before(&host_dir, 400 * SECOND_NS));
        let again = restarted.look(400 * SECOND_NS, vec![of(400, 430)]);
        assert_eq!(
            names(&again),
            [("start", "stall".to_owned(), 430)],
            "its end was said: it begins again"
        );
        assert_eq!(again[0].1.from_ns, 400 * SECOND_NS);
        let mut restarted = Memory(said_before(&host_dir, 400 * SECOND_NS));
        assert!(
            restarted
                .look(400 * SECOND_NS, vec![of(400, 420)])
                .is_empty(),
            "found anew and not longer"
        );
        assert!(
            restarted.look(900 * SECOND_NS, Vec::new()).is_empty(),
            "its end was said"
        );
    }

    #[test]
    fn what_a_kill_left_open_long_ago_is_ended_too() {
        let dir = tempfile::tempdir().unwrap();
        let host_dir = dir.path().join("host=h");
        std::fs::create_dir(&host_dir).unwrap();
        for n in 1..=5 {
            let path = host_dir.join(Root::recording_directory(n * SECOND_NS));
            let meta = RecordingMeta::new(Source::Ebpf, n * SECOND_NS);
            let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
            writer.finish(SECOND_NS, RecorderCost::default()).unwrap();
            let of = Known {
                recording: path,
                start_unix_ns: n * SECOND_NS,
                open: n == 1,
                ..known("stall", n, n)
            };
            of.keep(Access::OWNER);
        }
        let open = said_before(&host_dir, 500 * SECOND_NS);
        assert_eq!(
            open.iter()
                .map(|k| (k.from_ns / SECOND_NS, k.open))
                .collect::<Vec<_>>(),
            [(1, true)]
        );
    }

    #[test]
    fn an_event_is_the_finding_with_its_times_and_commands_get_it() {
        let event = event("start", &known("stall", 1_795_000_000, 1_795_000_009));
        assert_eq!(
            (&event["event"], &event["start"]),
            (&"start".into(), &"2026-11-18T11:06:40Z".into())
        );
        assert_eq!(
            (&event["summary"], &event["start_s"]),
            (&"slow".into(), &Value::Null)
        );
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let live = Feed::new();
        let (_, mut watcher) = live.watch(Since::Now);
        let command = format!("cat >> {}", out.display());
        let outlets = Outlets {
            log: EventLog::default(),
            commands: Some(Commands::start(command).unwrap()),
            live,
            access: Access::OWNER,
            freeze: None,
        };
        let found = Found::default();
        say("start", &known("stall", 1, 2), &found, &outlets);
        say("end", &known("stall", 1, 2), &found, &outlets);
        outlets.commands.unwrap().finish();
        let text = std::fs::read_to_string(&out).unwrap();
        assert_eq!(
            text.lines()
                .map(|l| serde_json::from_str::<Value>(l).unwrap()["event"].clone())
                .collect::<Vec<_>>(),
            ["start", "end"]
        );
        let counts = found.counts();
        assert_eq!(counts[&("stall".to_owned(), "warning".to_owned())], 1);
        assert_eq!(
            (counts.len(), counts.values().sum::<u64>()),
            (FindingKind::ALL.len() * 3, 1)
        );
        assert_eq!(watcher.try_recv().unwrap().event, "finding");
    }
}
