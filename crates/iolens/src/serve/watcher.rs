//! Finds problems while they happen: runs the report's analyses over the last minutes, or on a busy host over the
//! costliest part of them, again and again. Each finding is reported once, and stored in the recording in which it
//! begins.

mod active;
mod commands;
mod pace;
mod stories;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use iolens_core::analysis::findings::FindingKind;
use iolens_core::model::{KindName, Severity, StoredFinding};
use iolens_core::private::Access;
use iolens_core::store::{Recording, Root, read_findings};
use iolens_observe::topology::{lower_this_thread, wall_clock_ns};

use super::freeze::{FreezeEvent, FreezerFeed};
use super::http::Health;
use super::live::LiveEvents;
use super::log::EventLog;
use super::lost_time::LostTime;
use crate::engine::caller::Caller;
use crate::engine::error::QueryError;
use crate::engine::query::{Grain, Query};
use crate::engine::report::{self, Limits};
use crate::engine::{Instant, TimeWindow, privacy};
use crate::present::escape;
use crate::present::findings as words;
use crate::present::query_text::{self, Spelling};
use crate::present::report_json::RecordingFacts;
use crate::present::stories as story_entries;
use active::{ActiveFinding, JOIN_NS, Memory, Phase};
pub use commands::Commands;
use commands::StopTime;
use pace::{LookPace, NextLook, WINDOW_NS};
pub use stories::StorySeconds;
use stories::{ActiveStory, StoryCosts, StoryMemory};

/// Until a look is due, lost time is checked this often.
const ASK_EACH: Duration = Duration::from_secs(1);
/// Timeout of a look.
const MAX_LOOK: Duration = Duration::from_secs(10);

/// Counts of the watcher, and the number of I/Os recorded.
#[derive(Debug, Default)]
pub struct Found {
    counts: Mutex<BTreeMap<(KindName, Severity), u64>>,
    story_seconds: Mutex<StorySeconds>,
    /// Number of I/Os recorded so far: without new ones there is nothing to look at.
    pub ios: AtomicI64,
}

impl Found {
    /// Number of findings by kind and severity, including kinds with none.
    pub fn counts(&self) -> BTreeMap<(KindName, Severity), u64> {
        let mut counts = BTreeMap::new();
        for kind in FindingKind::ALL {
            for severity in Severity::ALL {
                counts.insert((KindName::from(*kind), severity), 0);
            }
        }
        let counted = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.extend(counted.clone());
        counts
    }

    /// Time lost to stories so far; only of stories that occurred.
    pub fn story_seconds(&self) -> StorySeconds {
        let seconds = self.story_seconds.lock();
        seconds.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count_stories(&self, new: StorySeconds) {
        let seconds = self.story_seconds.lock();
        let mut seconds = seconds.unwrap_or_else(PoisonError::into_inner);
        for (key, cost_s) in new {
            *seconds.entry(key).or_default() += cost_s;
        }
    }

    fn count(&self, finding: &StoredFinding) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = counts.entry((finding.kind.clone(), finding.severity));
        *of_kind.or_default() += 1;
    }
}

/// Watches the recordings below a directory on a thread of its own.
#[derive(Debug)]
pub struct Watcher {
    found: Arc<Found>,
    end: Sender<()>,
    commands_stop: Vec<StopTime>,
    thread: JoinHandle<()>,
}

/// A watcher that stops after its current look.
#[derive(Debug)]
pub struct Ending(JoinHandle<()>);

impl Ending {
    /// Waits until the ends of active findings are stored and reported.
    pub fn wait(self) {
        // A panic was reported already.
        drop(self.0.join());
    }
}

/// The destinations of findings and stories.
#[derive(Debug)]
pub struct Outlets {
    /// The log on standard error.
    pub log: EventLog,
    /// Runs a shell command for each finding.
    pub commands: Option<Commands>,
    /// Runs a shell command for each story.
    pub story_commands: Option<Commands>,
    /// Ids of stories that are not reported.
    pub muted: BTreeSet<String>,
    /// The live clients.
    pub live: Arc<LiveEvents>,
    /// Who may read the files written.
    pub access: Access,
    /// Preserves the minutes around some findings.
    pub freeze: Option<FreezerFeed>,
    /// Degraded by damage and by looks that fail.
    pub health: Arc<Health>,
}

impl Watcher {
    /// Starts watching the recordings in `host_dir`. `lost_time` is that of the current recording.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(host_dir: PathBuf, lost_time: Arc<LostTime>, outlets: Outlets) -> Result<Watcher> {
        let found = Arc::new(Found::default());
        let own = Arc::clone(&found);
        let (end, ended) = channel();
        let mut commands_stop = Vec::new();
        for commands in [&outlets.commands, &outlets.story_commands] {
            commands_stop.extend(commands.as_ref().map(Commands::stop_time));
        }
        let builder = std::thread::Builder::new().name("iolens-watch".to_owned());
        let thread = builder.spawn(move || {
            watch(&host_dir, &own, &lost_time, &outlets, &ended);
            let both = [outlets.commands, outlets.story_commands];
            for commands in both.into_iter().flatten() {
                commands.finish();
            }
        });
        let thread = thread.context("the thread that watches could not be started")?;
        Ok(Watcher {
            found,
            end,
            commands_stop,
            thread,
        })
    }

    /// Stops: active findings end where they were last seen. Does not wait for the current look, because the end of
    /// the recording comes first. No command runs after `commands_stop`.
    pub fn end(self, commands_stop: std::time::Instant) -> Ending {
        drop(self.end);
        for stop in &self.commands_stop {
            stop.set(commands_stop);
        }
        Ending(self.thread)
    }

    /// The counts.
    pub fn found(&self) -> &Arc<Found> {
        &self.found
    }
}

fn watch(
    host_dir: &Path,
    found: &Found,
    lost_time: &LostTime,
    outlets: &Outlets,
    ended: &Receiver<()>,
) {
    lower_this_thread();
    let begin_ns = wall_clock_ns();
    let mut memory = Memory::new(reported_before(host_dir, begin_ns - WINDOW_NS));
    let mut stories = StoryMemory::default();
    let mut costs = StoryCosts::default();
    let mut seen = 0;
    let mut pace = LookPace::new(begin_ns);
    let mut next = NextLook::first();
    while is_time_for(&next, lost_time, ended) {
        let now = std::time::Instant::now();
        lost_time.look_begins();
        let now_ns = wall_clock_ns();
        let ios = found.ios.load(Ordering::Relaxed);
        let range = pace.next(now_ns, lost_time);
        // Without new I/Os there are no new findings; active ones end by themselves.
        let looked = if ios == seen {
            Ok(Look::default())
        } else {
            look(host_dir, &range, outlets)
        };
        outlets.health.forget_removed();
        say_failure(&outlets.health, &looked);
        match looked {
            Ok(all) => {
                seen = ios;
                report_all(&memory.look(&range, all.findings), found, outlets);
                found.count_stories(costs.look(range.start, &all.stories));
                report_stories(&stories.look(range.start, all.stories), outlets);
                pace.looked(now_ns);
            }
            Err(QueryError::TooSlow(_)) => pace.was_too_slow(),
            // There was nothing to look at, or the look failed. The next look covers this time, too.
            Err(_) => {}
        }
        next = NextLook::after(now, now.elapsed());
    }
    report_all(&memory.end(|_| true), found, outlets);
    report_stories(&stories.end(), outlets);
}

/// Stores the failure of a look in `health`, and reports it on standard error if it is new.
fn say_failure(health: &Health, looked: &Result<Look, QueryError>) {
    let failure = match looked {
        // The next look covers less time.
        Err(QueryError::TooSlow(_)) => return,
        // Before the first I/O, and between two recordings, there is nothing to look at.
        Ok(_) | Err(QueryError::NothingThen { .. } | QueryError::Empty(_)) => None,
        // The text is always the same, so that it is reported only once.
        Err(QueryError::Removed { .. }) => {
            Some("the size limit removes I/Os before they are looked at".to_owned())
        }
        Err(e) => Some(query_text::error(e, Spelling::Parameters)),
    };
    let failure = failure.map(|why| format!("nothing is found: {why}"));
    let text = match &failure {
        Some(text) => escape::terminal(text).into_owned(),
        None => "findings are looked for again".to_owned(),
    };
    if health.looked_for_findings(failure) {
        eprintln!("iolens: {text}");
    }
}

/// Waits until the next look is due. Returns `false` if the watcher must stop.
fn is_time_for(next: &NextLook, lost_time: &LostTime, ended: &Receiver<()>) -> bool {
    loop {
        let now = std::time::Instant::now();
        if next.is_due(now, lost_time) {
            return true;
        }
        let until = next.earliest.saturating_duration_since(now);
        if ended.recv_timeout(until.max(ASK_EACH)) != Err(RecvTimeoutError::Timeout) {
            return false;
        }
    }
}

/// The results of a look.
#[derive(Debug, Default)]
struct Look {
    findings: Vec<ActiveFinding>,
    /// Ordered by harm, largest first.
    stories: Vec<ActiveStory>,
}

/// Reports stories that begin or end.
fn report_stories(events: &[(Phase, ActiveStory)], outlets: &Outlets) {
    for (phase, story) in events {
        let text = story.event(*phase);
        outlets.log.write(&text, || story.line(*phase));
        let without_names = story.event_without_names(*phase);
        outlets
            .live
            .publish_named(wall_clock_ns(), "story", &text, &without_names);
        if let Some(commands) = &outlets.story_commands {
            commands.push_with(&text, story.variables(*phase));
        }
    }
}

/// Stores all changed findings, and reports those that begin or end.
fn report_all(events: &[(Phase, ActiveFinding)], found: &Found, outlets: &Outlets) {
    // All findings are stored before a command may delay anything.
    for (_, active) in events {
        active.store(outlets.access);
    }
    for (phase, active) in events {
        if *phase != Phase::GoesOn {
            dispatch(*phase, active, found, outlets);
        }
    }
}

/// Findings that an earlier recorder of the same root reported and that may still be active: a killed recorder wrote
/// no end.
fn reported_before(host_dir: &Path, since_ns: i64) -> Vec<ActiveFinding> {
    let mut reported = Vec::new();
    let Ok(Some(root)) = Root::open(host_dir) else {
        return reported;
    };
    for stored in root.recordings().iter().rev() {
        let mut findings = read_findings(&stored.path).unwrap_or_default();
        findings.retain(|f| {
            let to_unix_ns = stored.start_unix_ns.saturating_add(f.to_ns);
            f.open || to_unix_ns + JOIN_NS >= since_ns
        });
        if findings.is_empty() {
            continue;
        }
        let Ok(recording) = Recording::open(&stored.path) else {
            continue;
        };
        for finding in findings {
            reported.push(ActiveFinding::new(finding, &recording));
        }
    }
    reported
}

/// All findings and stories in a range of Unix time.
fn look(host_dir: &Path, range: &Range<i64>, outlets: &Outlets) -> Result<Look, QueryError> {
    let window = TimeWindow {
        from: Some(Instant::of_unix_ns(range.start)),
        to: Some(Instant::of_unix_ns(range.end)),
        ..TimeWindow::default()
    };
    let health = Arc::clone(&outlets.health);
    let caller = Caller::new(move |note| health.record_damage(&note))
        .until(std::time::Instant::now() + MAX_LOOK);
    let query = Query::new(host_dir, window, &caller);
    let mut all = Look::default();
    for part in query.parts(Grain::Analysis)?.parts {
        let report = report::of_part(&part, &Limits::default(), &caller)?;
        for f in &report.findings {
            let finding = StoredFinding {
                open: true,
                ..words::reported(f, part.recording.meta())
            };
            all.findings
                .push(ActiveFinding::new(finding, &part.recording));
        }
        let facts = RecordingFacts {
            muted: outlets.muted.clone(),
            ..RecordingFacts::of(&part)
        };
        let meta = part.recording.meta();
        for entry in story_entries::entries(&report, meta, &part.names, &facts) {
            all.stories
                .push(ActiveStory::of(&entry, meta.start_unix_ns));
        }
    }
    // At a change of recordings there are two parts, so their stories must be merged.
    all.stories
        .sort_by(|a, b| b.news.harm_s.total_cmp(&a.news.harm_s));
    Ok(all)
}

/// Counts and reports a finding that begins or ends.
fn dispatch(phase: Phase, active: &ActiveFinding, found: &Found, outlets: &Outlets) {
    publish(phase, active, found, outlets);
    if let Some(freeze) = &outlets.freeze {
        let finding = &active.finding;
        let from_ns = active.begin_unix_ns();
        freeze.send(FreezeEvent {
            what: (finding.kind.clone(), finding.device.clone(), from_ns),
            from_ns,
            to_ns: (phase == Phase::Ends).then(|| active.last_unix_ns()),
            summary: finding.summary.clone(),
        });
    }
}

/// Whether a finding is reported on standard error. Infos and facts, which harmed no known program, are not; they are
/// stored, counted and published like all others.
fn is_said(finding: &StoredFinding) -> bool {
    let kind = FindingKind::from_name(finding.kind.as_str());
    finding.severity > Severity::Info && kind.is_none_or(|kind| !kind.is_fact())
}

/// Writes the event to standard error and to the live clients, and runs the command for it.
fn publish(phase: Phase, active: &ActiveFinding, found: &Found, outlets: &Outlets) {
    let text = active.event(phase);
    if is_said(&active.finding) {
        outlets.log.write(&text, || active.event_line(phase));
    }
    if phase == Phase::Begins {
        found.count(&active.finding);
    }
    let shown = ActiveFinding {
        finding: privacy::without_names(active.finding.clone()),
        ..active.clone()
    };
    let without_names = shown.event(phase);
    outlets
        .live
        .publish_named(wall_clock_ns(), "finding", &text, &without_names);
    if let Some(commands) = &outlets.commands {
        commands.push(&text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::engine::deadline::TooSlow;
    use crate::serve::live::Since;
    use iolens_core::model::SECOND_NS;
    use iolens_core::model::{RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, StoreError, WriterOptions};
    use serde_json::Value;

    fn active(kind: &'static str, from_s: i64, to_s: i64) -> ActiveFinding {
        ActiveFinding {
            finding: StoredFinding {
                from_ns: from_s * SECOND_NS,
                to_ns: to_s * SECOND_NS,
                open: true,
                kind: kind.into(),
                severity: Severity::Warning,
                device: Some("sda".to_owned()),
                summary: "backup is slow".to_owned(),
                ..StoredFinding::default()
            },
            recording: PathBuf::from("none"),
            start_unix_ns: 0,
            written_to_unix_ns: to_s * SECOND_NS,
        }
    }

    fn seconds(range_s: Range<i64>) -> Range<i64> {
        range_s.start * SECOND_NS..range_s.end * SECOND_NS
    }

    /// A look at all time from then on.
    fn since(from_unix_ns: i64) -> Range<i64> {
        from_unix_ns..i64::MAX
    }

    fn names(events: &[(Phase, ActiveFinding)]) -> Vec<(Phase, String, i64)> {
        let row = |(phase, a): &(Phase, ActiveFinding)| {
            let kind = a.finding.kind.to_string();
            (*phase, kind, a.last_unix_ns() / SECOND_NS)
        };
        events.iter().map(row).collect()
    }

    #[test]
    fn only_what_a_program_probably_felt_is_said_on_stderr() {
        let findings = [
            ("stall", Severity::Warning, true),
            ("stall", Severity::Critical, true),
            ("stall", Severity::Info, false),
            // A fact.
            ("microburst", Severity::Warning, false),
        ];
        for (kind, severity, expected) in findings {
            let finding = StoredFinding {
                severity,
                ..active(kind, 100, 110).finding
            };
            assert_eq!(is_said(&finding), expected, "{kind} {severity:?}");
        }
    }

    #[test]
    fn a_look_that_fails_degrades_until_one_succeeds_and_one_at_nothing_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let host_dir = dir.path().join("host=h");
        let outlets = Outlets {
            log: EventLog::default(),
            commands: None,
            story_commands: None,
            muted: BTreeSet::new(),
            live: LiveEvents::new(),
            access: Access::OWNER,
            freeze: None,
            health: Arc::default(),
        };
        let degraded_after_look = || {
            let looked = look(&host_dir, &seconds(100..220), &outlets);
            say_failure(&outlets.health, &looked);
            outlets.health.document().degraded
        };
        let gone = degraded_after_look();
        assert!(gone[0].starts_with("nothing is found: "), "{gone:?}");
        std::fs::create_dir(&host_dir).unwrap();
        assert!(degraded_after_look().is_empty(), "no recording yet");
        let meta = RecordingMeta::new(Source::Ebpf, SECOND_NS);
        let path = host_dir.join(Root::recording_directory(SECOND_NS));
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        writer.finish(SECOND_NS, RecorderCost::default()).unwrap();
        assert!(degraded_after_look().is_empty(), "another time");
    }

    #[test]
    fn what_a_look_cannot_read_degrades_and_one_that_is_too_slow_changes_nothing() {
        let no_file_left = StoreError::Io {
            path: PathBuf::from("/rec/host=h"),
            doing: "read",
            why: std::io::Error::from_raw_os_error(24),
        };
        let health = Health::default();
        say_failure(&health, &Err(QueryError::TooSlow(TooSlow)));
        assert!(health.document().degraded.is_empty());
        say_failure(&health, &Err(QueryError::Store(no_file_left)));
        say_failure(&health, &Err(QueryError::TooSlow(TooSlow)));
        let document = health.document();
        assert!(document.healthy && document.degraded.len() == 1);
        let text = &document.degraded[0];
        assert!(text.contains("/rec/host=h: cannot read"), "{text}");
        say_failure(&health, &Err(QueryError::Removed { before_ns: 7 }));
        assert!(health.document().degraded[0].contains("removes I/Os"));
        say_failure(&health, &Ok(Look::default()));
        assert!(health.document().degraded.is_empty());
    }

    #[test]
    fn each_finding_begins_once_and_ends_once() {
        let mut memory = Memory::new(Vec::new());
        let first = memory.look(
            &since(0),
            vec![active("stall", 100, 110), active("slow-io", 105, 105)],
        );
        assert_eq!(
            names(&first),
            [
                (Phase::Begins, "stall".to_owned(), 110),
                (Phase::Begins, "slow-io".to_owned(), 105)
            ]
        );
        assert!(
            memory
                .look(&since(20 * SECOND_NS), vec![active("stall", 100, 130)])
                .is_empty(),
            "it goes on"
        );
        assert!(
            memory
                .look(&since(100 * SECOND_NS), vec![active("stall", 125, 139)])
                .is_empty(),
            "a look begins in it"
        );
        let second = memory.look(
            &since(130 * SECOND_NS),
            vec![active("stall", 130, 139), active("stall", 200, 201)],
        );
        assert_eq!(
            names(&second),
            [
                (Phase::Begins, "stall".to_owned(), 201),
                (Phase::Ends, "slow-io".to_owned(), 105)
            ]
        );
        let ended = memory.look(&since(300 * SECOND_NS), Vec::new());
        assert_eq!(
            names(&ended),
            [
                (Phase::Ends, "stall".to_owned(), 139),
                (Phase::Ends, "stall".to_owned(), 201)
            ]
        );
        assert!(memory.look(&since(400 * SECOND_NS), Vec::new()).is_empty());
    }

    #[test]
    fn what_went_on_may_go_on_in_time_that_no_look_was_at() {
        let mut memory = Memory::new(Vec::new());
        let found = vec![active("stall", 100, 130), active("slow-io", 105, 110)];
        assert_eq!(memory.look(&seconds(90..130), found).len(), 2);
        // One reached to the end of what was looked at, the other one did not.
        let found = vec![active("stall", 200, 230), active("slow-io", 201, 202)];
        let events = memory.look(&seconds(200..230), found);
        assert_eq!(
            names(&events),
            [
                (Phase::GoesOn, "stall".to_owned(), 230),
                (Phase::Begins, "slow-io".to_owned(), 202),
                (Phase::Ends, "slow-io".to_owned(), 110)
            ]
        );
        let ended = memory.look(&seconds(300..330), vec![active("stall", 320, 330)]);
        assert_eq!(
            names(&ended),
            [
                (Phase::Begins, "stall".to_owned(), 330),
                (Phase::Ends, "stall".to_owned(), 230),
                (Phase::Ends, "slow-io".to_owned(), 202)
            ],
            "it was not there when the look began"
        );
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
        // Times are Unix time; the recording starts at 50 s.
        let of = |from_s: i64, to_s: i64| ActiveFinding {
            recording: kept.clone(),
            start_unix_ns: 50 * SECOND_NS,
            written_to_unix_ns: to_s * SECOND_NS,
            ..active("stall", from_s - 50, to_s - 50)
        };
        let live = LiveEvents::new();
        let found = Found::default();
        let outlets = Outlets {
            log: EventLog::default(),
            commands: None,
            story_commands: None,
            muted: BTreeSet::new(),
            live,
            access: Access::OWNER,
            freeze: None,
            health: Arc::default(),
        };
        let mut memory = Memory::new(Vec::new());
        let look = |memory: &mut Memory, from_s: i64, all| {
            report_all(
                &memory.look(&since(from_s * SECOND_NS), all),
                &found,
                &outlets,
            );
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
        let mut restarted = Memory::new(reported_before(&host_dir, 160 * SECOND_NS));
        assert_eq!(
            look(&mut restarted, 160, vec![of(165, 175)]),
            [(50, 121, true)],
            "the same one goes on"
        );
        assert_eq!(look(&mut restarted, 300, Vec::new()), [(50, 125, false)]);
        assert!(
            reported_before(&host_dir, 500 * SECOND_NS).is_empty(),
            "it is over"
        );
        assert_eq!(found.counts().values().sum::<u64>(), 1, "reported once");

        assert_eq!(
            look(&mut memory, 400, vec![of(400, 420)])[1],
            (350, 370, true)
        );
        let (end, ended) = channel();
        drop(end);
        watch(&host_dir, &found, &LostTime::new(0), &outlets, &ended);
        let rows = read_findings(&kept).unwrap();
        assert!(
            rows.iter().all(|r| !r.open),
            "an orderly stop, or the next start after a kill, ends what goes on"
        );
        assert_eq!(rows[1].to_ns / SECOND_NS, 370, "where it was seen last");
        let mut restarted = Memory::new(reported_before(&host_dir, 400 * SECOND_NS));
        let again = restarted.look(&since(400 * SECOND_NS), vec![of(400, 430)]);
        assert_eq!(
            names(&again),
            [(Phase::Begins, "stall".to_owned(), 430)],
            "its end was reported: it begins again"
        );
        assert_eq!(again[0].1.begin_unix_ns(), 400 * SECOND_NS);
        let mut restarted = Memory::new(reported_before(&host_dir, 400 * SECOND_NS));
        assert!(
            restarted
                .look(&since(400 * SECOND_NS), vec![of(400, 420)])
                .is_empty(),
            "found anew and not longer"
        );
        assert!(
            restarted
                .look(&since(900 * SECOND_NS), Vec::new())
                .is_empty(),
            "its end was reported"
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
            let mut of = ActiveFinding {
                recording: path,
                start_unix_ns: n * SECOND_NS,
                ..active("stall", 0, 0)
            };
            of.finding.open = n == 1;
            of.store(Access::OWNER);
        }
        let open = reported_before(&host_dir, 500 * SECOND_NS);
        assert_eq!(
            open.iter()
                .map(|a| (a.begin_unix_ns() / SECOND_NS, a.finding.open))
                .collect::<Vec<_>>(),
            [(1, true)]
        );
    }

    #[test]
    fn an_event_is_the_finding_with_its_times_and_commands_get_it() {
        let open = active("stall", 1_795_000_000, 1_795_000_009);
        let event: Value = serde_json::from_str(&open.event(Phase::Begins)).unwrap();
        assert_eq!(event["event"], "start");
        assert_eq!(event["start"], "2026-11-18T11:06:40Z");
        assert_eq!(event["end"], "2026-11-18T11:06:49Z");
        assert_eq!(event["kind"], "stall");
        assert_eq!(event["severity"], "warning");
        assert_eq!(event["summary"], "backup is slow");
        assert_eq!(event["start_s"], Value::Null);
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let live = LiveEvents::new();
        let (_, mut watcher) = live.watch(Since::Now);
        let command = format!("cat >> {}", out.display());
        let outlets = Outlets {
            log: EventLog::default(),
            commands: Some(Commands::start("--on-finding", command).unwrap()),
            story_commands: None,
            muted: BTreeSet::new(),
            live,
            access: Access::OWNER,
            freeze: None,
            health: Arc::default(),
        };
        let found = Found::default();
        publish(Phase::Begins, &active("stall", 1, 2), &found, &outlets);
        publish(Phase::Ends, &active("stall", 1, 2), &found, &outlets);
        outlets.commands.unwrap().finish();
        let text = std::fs::read_to_string(&out).unwrap();
        assert_eq!(
            text.lines()
                .map(|l| serde_json::from_str::<Value>(l).unwrap()["event"].clone())
                .collect::<Vec<_>>(),
            ["start", "end"]
        );
        let counts = found.counts();
        assert_eq!(counts[&("stall".into(), Severity::Warning)], 1);
        assert_eq!(
            (counts.len(), counts.values().sum::<u64>()),
            (FindingKind::ALL.len() * 3, 1)
        );
        let heard = watcher.try_recv().unwrap();
        assert_eq!(heard.event, "finding");
        assert!(heard.data.contains("backup is slow"), "{}", heard.data);
        let without_names = heard.without_names.unwrap();
        assert!(!without_names.contains("backup"), "{without_names}");
    }
}
