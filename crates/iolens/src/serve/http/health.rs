//! The health of the recorder, reported by `/healthz`.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use iolens_recorder::{LossCounts, Progress};
use serde::Serialize;

use super::endpoint::Endpoint;
use super::places::RequestKind;
use super::{App, api};
use crate::engine::caller::GrowingRecording;
use crate::engine::note::Note;
use crate::present::query_text::{self, Spelling};
use crate::serve::ship::{ShipStatus, ShipTotals};

/// What `/healthz` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/healthz",
    method: "get",
    kind: RequestKind::Health,
    summary: "200 while it records and stores, 503 where it does not",
    parameters: &[],
    keys: &[
        "schema_version",
        "healthy",
        "recording",
        "source",
        "ios",
        "lost_ios",
        "lost_percent",
        "reasons",
        "degraded",
        "damaged",
    ],
    schema: None,
    handler: || get(healthz),
};

/// The recorder polls its source at least five times a second. On a very busy machine it is late.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// After this time without a poll it counts as not recording. Systemd's watchdog restarts it then, too.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The time over which losses are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of damages listed.
const MAX_DAMAGES: usize = 20;
/// More than one lost I/O in a thousand degrades health.
const MAX_LOST_PERCENT: f64 = 0.1;

/// The health of the recorder.
#[derive(Debug, Default)]
pub struct Health(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    source: Option<String>,
    /// Counts of recorded and lost I/Os, about one per second of the last minute, plus the one before.
    samples: VecDeque<Sample>,
    disk_full: bool,
    /// How far the current recording has come.
    growing: Option<GrowingRecording>,
    /// The last failure of the service, until it is resolved.
    trouble: Option<String>,
    /// Why looking for findings failed, until it succeeds.
    finds_nothing: Option<String>,
    root_is_gone: bool,
    /// I/Os lost by the current recording so far.
    losses: LossCounts,
    /// Damage found in stored data, ordered by its text, with the recording.
    damaged: BTreeMap<String, PathBuf>,
    /// The state of shipping, if it is enabled.
    shipping: Option<Arc<ShipStatus>>,
}

/// Whether the path no longer exists. A path that cannot be accessed counts as existing.
fn is_removed(path: &Path) -> bool {
    let looked_at = std::fs::symlink_metadata(path);
    looked_at.is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    ios: i64,
    lost: i64,
}

/// The document of `/healthz`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HealthDocument {
    schema_version: u32,
    /// Whether I/Os are recorded and stored, or this server only shows: 503 if not.
    pub healthy: bool,
    /// Whether this server records, or only shows.
    pub recording: bool,
    /// `ebpf` or `counters`; `null` if it does not record.
    source: Option<String>,
    /// I/Os recorded in the last minute, and those missing.
    ios: Option<i64>,
    lost_ios: Option<i64>,
    lost_percent: Option<f64>,
    /// Why it is not healthy, a line each.
    pub reasons: Vec<String>,
    /// What is missing, late or damaged although it records and stores, a line each: nothing that a restart would cure.
    pub degraded: Vec<String>,
    /// What was found damaged of what is stored, a line each. It is left out of answers, and harms no recording that grows.
    pub damaged: Vec<String>,
}

/// `GET /healthz`: 503 only if the server does not record or cannot store.
pub async fn healthz(Shared(app): Shared<Arc<App>>) -> Response {
    let document = app.health.document();
    let mut response = api::json(&document).into_response();
    if !document.healthy {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

impl Health {
    /// A recorder has started.
    pub fn recording(&self, source: &str) {
        let mut state = self.state();
        state.source = Some(source.to_owned());
        state.samples.push_back(Sample {
            at: Instant::now(),
            ios: 0,
            lost: 0,
        });
    }

    /// The recorder has polled its source.
    pub fn looked(&self, progress: &Progress) {
        self.looked_at(progress, Instant::now());
    }

    fn looked_at(&self, progress: &Progress, at: Instant) {
        let mut state = self.state();
        state.disk_full = progress.disk_full;
        state.losses = progress.losses;
        let sample = Sample {
            at,
            ios: progress.recorded_ios(),
            lost: progress.losses.ios(),
        };
        let second = Duration::from_secs(1);
        let n = state.samples.len();
        // The newest sample is always the current one: it is replaced until it is a second after the one before.
        if n >= 2
            && state.samples[n - 1]
                .at
                .saturating_duration_since(state.samples[n - 2].at)
                < second
        {
            state.samples[n - 1] = sample;
        } else {
            state.samples.push_back(sample);
        }
        // One sample older than the window stays, because the window reaches back to it.
        while state.samples.len() > 2 && at.saturating_duration_since(state.samples[1].at) >= WINDOW
        {
            state.samples.pop_front();
        }
    }

    /// The current recording has come this far.
    pub fn stored(&self, growing: GrowingRecording) {
        self.state().growing = Some(growing);
    }

    /// How far the current recording has come; `None` if this server does not record.
    pub fn growing(&self) -> Option<GrowingRecording> {
        self.state().growing
    }

    /// Sets the current failure, or clears it with `None`. Returns whether that changed.
    pub fn trouble(&self, what: Option<String>) -> bool {
        let mut state = self.state();
        let is_new = state.trouble != what;
        state.trouble = what;
        is_new
    }

    /// Sets why the last look for findings failed, or clears it with `None`. Returns whether that changed.
    pub fn looked_for_findings(&self, failure: Option<String>) -> bool {
        let mut state = self.state();
        let is_new = state.finds_nothing != failure;
        state.finds_nothing = failure;
        is_new
    }

    /// Passes on whether the recording root is where it was.
    pub fn root_is_there(&self, is_there: bool) -> bool {
        self.state().root_is_gone = !is_there;
        is_there
    }

    /// Keeps the damage that a note reports, as long as its recording exists. Other notes only belong to the response
    /// that they came with.
    pub fn record_damage(&self, note: &Note) {
        let Some(recording) = note.damaged_recording() else {
            return;
        };
        if self.state().damaged.len() >= MAX_DAMAGES {
            self.forget_removed();
        }
        let mut state = self.state();
        if state.damaged.len() < MAX_DAMAGES {
            let text = query_text::note(note, Spelling::Parameters);
            state.damaged.insert(text, recording.to_owned());
        }
    }

    /// Forgets the damage of recordings that have been removed. May block on the disk, so it is called by readers,
    /// not by the recorder or `/healthz`.
    pub fn forget_removed(&self) {
        let mut recordings: Vec<PathBuf> = self.state().damaged.values().cloned().collect();
        // The lock is not held here, so the recorder does not wait.
        recordings.retain(|recording| is_removed(recording));
        let mut state = self.state();
        state
            .damaged
            .retain(|_, recording| !recordings.contains(recording));
    }

    /// Shipping is enabled.
    pub fn ships(&self, status: Arc<ShipStatus>) {
        self.state().shipping = Some(status);
    }

    /// The state of shipping.
    pub fn shipping(&self) -> Option<ShipTotals> {
        self.state().shipping.as_ref().map(|s| s.totals())
    }

    /// I/Os lost by the current recording so far, by reason.
    pub fn losses(&self) -> LossCounts {
        self.state().losses
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current document.
    pub fn document(&self) -> HealthDocument {
        self.document_at(Instant::now())
    }

    fn document_at(&self, now: Instant) -> HealthDocument {
        let state = self.state();
        let damaged: Vec<String> = state.damaged.keys().cloned().collect();
        let mut reasons: Vec<String> = state.trouble.iter().cloned().collect();
        let mut degraded = Vec::new();
        let ends = state.samples.front().zip(state.samples.back());
        let (ios, lost) = ends.map_or((0, 0), |(a, b)| (b.ios - a.ios, b.lost - a.lost));
        let lost_percent = 100.0 * lost as f64 / (ios + lost).max(1) as f64;
        // A recorder that is late is slow; one that is late for long does not record.
        if let Some((_, last)) = ends {
            let silent = now.saturating_duration_since(last.at);
            let text = format!(
                "the recorder has not looked for events for {} s",
                silent.as_secs()
            );
            if silent > MAX_SILENCE {
                reasons.push(text);
            } else if silent > MAX_DELAY {
                degraded.push(text);
            }
        }
        if state.root_is_gone {
            reasons.push(
                "the recording root was removed or moved: start iolens serve again".to_owned(),
            );
        }
        if state.disk_full {
            reasons.push("the disk is full: I/Os are counted and not stored".to_owned());
        }
        if lost_percent > MAX_LOST_PERCENT {
            degraded.push(format!(
                "{lost} of {} I/Os of the last minute are missing",
                ios + lost
            ));
        }
        degraded.extend(state.finds_nothing.clone());
        if !damaged.is_empty() {
            degraded.push(format!(
                "{} damages in what is stored: damaged lists them",
                damaged.len()
            ));
        }
        if let Some(shipping) = &state.shipping {
            degraded.extend(shipping.totals().degraded(now));
        }
        // A server without a recorder has no counts: absent is not zero.
        let recording = state.source.is_some();
        HealthDocument {
            schema_version: super::SCHEMA_VERSION,
            healthy: reasons.is_empty(),
            recording,
            source: state.source.clone(),
            ios: recording.then_some(ios),
            lost_ios: recording.then_some(lost),
            lost_percent: recording.then_some(lost_percent),
            reasons,
            degraded,
            damaged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::LossReason;

    fn progress(ios: i64, lost: i64) -> Progress {
        Progress {
            ios,
            losses: LossCounts::default().with(LossReason::RingFull, lost),
            ..Progress::default()
        }
    }

    #[test]
    fn losses_of_a_minute_degrade_and_silence_is_first_late_and_then_an_end() {
        let health = Health::default();
        assert!(
            health.document().healthy && !health.document().recording,
            "it only shows"
        );
        health.recording("ebpf");
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        health.looked_at(&progress(1_000, 0), at(1));
        assert!(health.document_at(at(2)).healthy);
        let late = health.document_at(at(9));
        assert!(
            late.healthy && late.degraded[0].contains("has not looked"),
            "{late:?}"
        );
        let silent = health.document_at(at(32));
        assert!(
            !silent.healthy && silent.reasons[0].contains("has not looked"),
            "{silent:?}"
        );
        health.looked_at(&progress(1_900, 100), at(10));
        let lossy = health.document_at(at(10));
        assert_eq!(
            (lossy.healthy, lossy.lost_ios, lossy.degraded.len()),
            (true, Some(100), 1),
            "it records, and a restart would bring nothing back: {lossy:?}"
        );
        for s in 11..=71 {
            health.looked_at(&progress(2_000 + s as i64, 100), at(s));
        }
        let later = health.document_at(at(71));
        assert_eq!(
            (later.degraded.len(), later.lost_ios),
            (0, Some(0)),
            "{later:?}"
        );
    }

    #[test]
    fn a_look_for_findings_that_fails_degrades_until_one_succeeds_and_is_news_once() {
        let health = Health::default();
        let failure = || Some("nothing is found: no file left".to_owned());
        assert!(!health.looked_for_findings(None));
        assert!(health.looked_for_findings(failure()));
        assert!(!health.looked_for_findings(failure()));
        let document = health.document();
        assert!(document.healthy, "it records: {document:?}");
        assert_eq!(document.degraded, ["nothing is found: no file left"]);
        assert!(health.looked_for_findings(Some("nothing is found: another reason".to_owned())));
        assert!(health.looked_for_findings(None));
        assert!(health.document().degraded.is_empty());
    }

    #[test]
    fn damage_is_listed_as_long_as_its_recording_is_there() {
        let root = tempfile::tempdir().expect("a directory");
        let recording = |n: usize| root.path().join(format!("host=h/start_ns={n}"));
        let health = Health::default();
        let damage = |n: usize| {
            health.record_damage(&Note::Damaged {
                recording: recording(n),
                what: format!("{}/io/000001.parquet: damaged", recording(n).display()),
            });
        };
        for n in 0..MAX_DAMAGES {
            std::fs::create_dir_all(recording(n)).expect("makes");
            damage(n);
        }
        assert_eq!(health.document().damaged.len(), MAX_DAMAGES);
        std::fs::create_dir_all(recording(100)).expect("makes");
        damage(100);
        assert_eq!(health.document().damaged.len(), MAX_DAMAGES);
        // One that goes makes place for another.
        std::fs::remove_dir(recording(0)).expect("removes");
        damage(100);
        let listed = health.document().damaged;
        assert_eq!(listed.len(), MAX_DAMAGES);
        assert!(listed.iter().any(|line| line.contains("start_ns=100/")));
        std::fs::remove_dir_all(root.path().join("host=h")).expect("removes");
        health.forget_removed();
        let document = health.document();
        assert!(document.damaged.is_empty() && document.degraded.is_empty());
        health.record_damage(&Note::Unread("r/meta.json: cannot read".to_owned()));
        assert!(health.document().damaged.is_empty(), "no damage");
    }

    #[test]
    fn one_in_a_thousand_is_the_limit_and_troubles_end() {
        let health = Health::default();
        health.recording("ebpf");
        health.looked(&progress(999_000, 1_000));
        assert!(health.document().degraded.is_empty());
        health.looked(&progress(998_000, 2_000));
        assert_eq!(health.document().degraded.len(), 1);
        let well = Health::default();
        well.trouble(Some("no room".to_owned()));
        assert_eq!(well.document().reasons, ["no room"]);
        well.trouble(None);
        assert!(well.document().healthy);
        well.recording("ebpf");
        well.looked(&Progress {
            disk_full: true,
            ..Progress::default()
        });
        assert!(well.document().reasons[0].contains("disk is full"));
    }
}
