//! Findings of a time window: analysed from single I/Os, or as reported during recording where those I/Os were
//! removed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use iolens_core::analysis::findings::{Finding, harm};
use iolens_core::model::{KindName, RecordingMeta, Severity, StoredFinding};
use iolens_core::store::{Recording, StoreError, Stored, read_findings};

use super::caller::Caller;
use super::error::Result;
use super::note::Note;
use super::part::Part;
use super::query::{Grain, Query};
use super::{parallel, privacy, report, window};

/// Number of findings kept per host; the others are only counted.
const MAX_OF_HOST: usize = 20;

/// Up to this many of the newest I/Os are analysed for one answer. This takes about 0.2 s of CPU time.
const MAX_ANALYSED_IOS: f64 = 200_000.0;
/// Findings this shortly before a recording's end may not have been reported yet.
const UNREPORTED_NS: i64 = 30_000_000_000;

/// A finding with its absolute time.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedFinding {
    /// Start in Unix time, in nanoseconds.
    pub from_unix_ns: i64,
    /// End in Unix time, in nanoseconds.
    pub to_unix_ns: i64,
    /// The finding; its own times are relative to the recording's start.
    pub finding: StoredFinding,
}

/// Converts a finding of an analysis to its stored form with text.
pub type Wording = fn(&Finding, &RecordingMeta) -> StoredFinding;

/// The findings in the window of `query`, for each recording separately. `wording` adds the text to those that are
/// analysed here.
///
/// # Errors
/// No recording covers the time, or it cannot be read.
pub fn findings(query: &Query<'_>, wording: Wording) -> Result<Vec<PlacedFinding>> {
    let caller = query.caller;
    let found = query.parts(Grain::Recording)?;
    let mut left = MAX_ANALYSED_IOS;
    let mut parts: Vec<(&Part, i64)> = Vec::new();
    for part in found.parts.iter().rev() {
        let from_ns = analysed_from(part, left);
        left -= window::ios_in(&part.recording, &(from_ns..part.range.end));
        parts.push((part, from_ns));
    }
    parts.reverse();
    let found = parallel::shared(&parts, caller, Vec::new, |of_thread, i, part| {
        let (part, from_ns) = part;
        of_thread.push((i, of_part(part, *from_ns, wording, caller)?));
        Ok(())
    })?;
    // Threads end in any order, so each part carries its index.
    let mut all = found.concat();
    all.sort_by_key(|(i, _)| *i);
    Ok(all.into_iter().flat_map(|(_, of_part)| of_part).collect())
}

/// The findings of a part: those reported before `reported_to_ns`, and those analysed from its I/Os after that.
fn of_part(
    part: &Part,
    reported_to_ns: i64,
    wording: Wording,
    caller: &Caller,
) -> Result<Vec<PlacedFinding>> {
    let recording = &part.recording;
    let range = part.range.clone();
    let start_ns = recording.meta().start_unix_ns;
    let removed_to_ns = window::kept_from(recording, &range).min(range.end);
    let mut stored = Vec::new();
    if removed_to_ns > range.start {
        caller.note(Note::FindingsOfThen);
    }
    if reported_to_ns > removed_to_ns {
        caller.note(Note::FindingsOfMany);
    }
    if reported_to_ns > range.start {
        let reported = reported(recording.path(), &(range.start..reported_to_ns))?;
        for finding in reported {
            stored.push(privacy::shown_finding(finding, caller));
        }
    }
    let mut all = stored.clone();
    if reported_to_ns < range.end {
        let found = report::plain(recording, &(reported_to_ns..range.end), caller)?;
        for f in &found.findings {
            let finding = wording(f, recording.meta());
            // A finding that started before was reported, and is in the list with its start.
            let is_reported = stored.iter().any(|s| {
                s.kind == finding.kind && s.device == finding.device && s.to_ns >= finding.from_ns
            });
            if !is_reported {
                all.push(finding);
            }
        }
    }
    let mut placed = Vec::new();
    for finding in all {
        placed.push(PlacedFinding {
            from_unix_ns: start_ns.saturating_add(finding.from_ns),
            to_unix_ns: start_ns.saturating_add(finding.to_ns),
            finding,
        });
    }
    Ok(placed)
}

/// Whether `serve` made the recording. It reports findings while it records, and only it writes the table of actors.
fn is_watched(recording: &Recording) -> bool {
    recording.path().join("actors").is_dir()
}

/// The time from which a part is analysed again with at most `left` I/Os: all that the size limit kept, if it has no
/// more I/Os than that; else only what may not have been reported yet.
fn analysed_from(part: &Part, left: f64) -> i64 {
    let recording = &part.recording;
    let range = &part.range;
    let kept_ns = window::kept_from(recording, range).min(range.end);
    // An estimate from the mean rate is enough: a second more or less does not matter.
    let ios = window::ios_in(recording, &(kept_ns..range.end));
    if ios <= left || !is_watched(recording) {
        return kept_ns;
    }
    let newest_ns = (left.max(0.0) / window::ios_per_ns(recording)) as i64;
    let unreported_ns = recording.end_ns() - UNREPORTED_NS;
    unreported_ns
        .max(range.end - newest_ns)
        .clamp(kept_ns, range.end)
}

/// Findings that were reported during recording and overlap `range`.
fn reported(recording: &Path, range: &Range<i64>) -> Result<Vec<StoredFinding>, StoreError> {
    let mut stored = read_findings(recording)?;
    stored.retain(|f| f.from_ns < range.end && f.to_ns >= range.start);
    Ok(stored)
}

/// A finding as reported while its host recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFinding {
    /// Name of the host.
    pub host: String,
    /// Start in Unix time, in nanoseconds.
    pub from_unix_ns: i64,
    /// End in Unix time in nanoseconds, as far as it was seen.
    pub to_unix_ns: i64,
    /// Whether it was still going on when it was written.
    pub open: bool,
    /// Kind of the finding.
    pub kind: KindName,
    /// How severe it is.
    pub severity: Severity,
    /// The device, or the devices behind one link; `None` if it concerns all.
    pub device: Option<String>,
    /// One line for people.
    pub summary: String,
}

/// The findings reported in a stretch of a host's recordings.
#[derive(Debug, Clone, Default)]
pub struct Reported {
    /// The most severe first; of equal severity the longest first.
    pub worst: Vec<HostFinding>,
    /// Number and highest severity of the findings of each kind.
    pub kinds: BTreeMap<KindName, (u64, Severity)>,
}

impl Reported {
    /// Reads those in `range` of a recording that starts at `start_unix_ns`.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn read(
        recording: &Stored,
        start_unix_ns: i64,
        range: &Range<i64>,
    ) -> Result<Reported, StoreError> {
        let mut of = Reported::default();
        for f in reported(&recording.path, range)? {
            of.count(&f.kind, 1, f.severity);
            of.worst.push(HostFinding {
                host: recording.host.clone(),
                from_unix_ns: start_unix_ns.saturating_add(f.from_ns),
                to_unix_ns: start_unix_ns.saturating_add(f.to_ns),
                open: f.open,
                kind: f.kind,
                severity: f.severity,
                device: f.device,
                summary: f.summary,
            });
        }
        of.keep_worst();
        Ok(of)
    }

    /// Adds the findings of another recording.
    pub fn add(&mut self, other: &Reported) {
        for (kind, (n, severity)) in &other.kinds {
            self.count(kind, *n, *severity);
        }
        self.worst.extend_from_slice(&other.worst);
        self.keep_worst();
    }

    /// Total number of findings.
    pub fn total(&self) -> u64 {
        self.kinds.values().map(|(n, _)| n).sum()
    }

    fn count(&mut self, kind: &KindName, n: u64, severity: Severity) {
        let (sum, highest) = self.kinds.entry(kind.clone()).or_default();
        *sum += n;
        *highest = severity.max(*highest);
    }

    fn keep_worst(&mut self) {
        sort(&mut self.worst);
        self.worst.truncate(MAX_OF_HOST);
    }
}

/// Sorts the most severe first, of equal severity the longest first.
pub fn sort(findings: &mut [HostFinding]) {
    findings.sort_by_cached_key(|f| {
        (
            harm(f.severity, &f.kind),
            Reverse(f.to_unix_ns.saturating_sub(f.from_unix_ns)),
            f.host.clone(),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TimeWindow;
    use crate::present::findings::reported;
    use iolens_core::model::{
        DevId, Device, Io, LossReason, Lost, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::private::Access;
    use iolens_core::store::{RecordingWriter, WriterOptions, put_finding};

    const S: i64 = 1_000_000_000;

    /// 100 s of quiet I/O, of which what came before `kept_s` was removed.
    fn record(path: &Path, kept_s: i64) {
        let mut meta = RecordingMeta::new(Source::Ebpf, 5 * S);
        meta.devices = vec![Device {
            size_bytes: Some(1 << 30),
            ..Device::named("sda", DevId::new(8, 0))
        }];
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("creates");
        let ios: Vec<Io> = (kept_s * 10..1000)
            .map(|i| {
                Io::new(
                    i * S / 10,
                    DevId::new(8, 0),
                    Op::READ,
                    4096,
                    Some(10),
                    90_000 + i % 7,
                )
            })
            .collect();
        writer.push_ios(&ios).expect("writes");
        if kept_s > 0 {
            let lost = Lost {
                ios: Some(kept_s * 10),
                ..Lost::somewhere(0, kept_s * S, LossReason::Retention)
            };
            writer.push(&Observation::Lost(lost)).expect("writes");
        }
        writer
            .finish(100 * S, RecorderCost::default())
            .expect("finishes");
        for (from_s, to_s) in [(10, 20), (55, 65), (90, 95)] {
            put_finding(path, Access::OWNER, &stall(from_s, to_s)).expect("writes");
        }
    }

    fn stall(from_s: i64, to_s: i64) -> StoredFinding {
        StoredFinding {
            from_ns: from_s * S,
            to_ns: to_s * S,
            open: false,
            kind: "stall".into(),
            severity: Severity::Critical,
            device: Some("sda".to_owned()),
            summary: "nothing completes".to_owned(),
            evidence: [("longest_s".to_owned(), 9.5.into())].into_iter().collect(),
        }
    }

    #[test]
    fn of_many_ios_of_a_service_those_that_were_reported_answer() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let mut meta = RecordingMeta::new(Source::Ebpf, 5 * S);
        meta.devices = vec![Device::named("sda", DevId::new(8, 0))];
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let dev = DevId::new(8, 0);
        for i in 0..400_000i64 {
            let io = Io::new(i * S / 4_000, dev, Op::READ, 4096, Some(10), 90_000 + i % 7);
            writer.push_ios(&[io]).expect("writes");
        }
        writer
            .finish(100 * S, RecorderCost::default())
            .expect("finishes");
        put_finding(&path, Access::OWNER, &stall(10, 20)).expect("writes");
        let stalls = |window: &TimeWindow| {
            let caller = Caller::without_notes();
            let found = findings(&Query::new(&path, *window, &caller), reported).expect("found");
            found
                .iter()
                .filter(|f| f.finding.kind == "stall".into())
                .count()
        };
        let all = TimeWindow::default();
        assert_eq!(stalls(&all), 0, "nothing watched it: it is analysed");
        std::fs::create_dir(path.join("actors")).expect("makes");
        assert_eq!(stalls(&all), 1);
        let short = TimeWindow {
            to: Some(crate::engine::Instant::SinceStart(30 * S)),
            ..all
        };
        assert_eq!(stalls(&short), 0, "few I/Os are analysed anew");
    }

    #[test]
    fn where_ios_are_gone_those_that_were_reported_answer_and_nowhere_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |kept_s: i64| {
            let path = dir.path().join(kept_s.to_string());
            record(&path, kept_s);
            let caller = Caller::without_notes();
            let query = Query::new(&path, TimeWindow::default(), &caller);
            let found = findings(&query, reported).expect("found");
            let stalls = found
                .into_iter()
                .filter(|f| f.finding.kind == "stall".into());
            stalls
                .map(|f| (f.from_unix_ns / S, f.to_unix_ns / S, f.finding))
                .collect::<Vec<_>>()
        };
        assert!(
            of(0).is_empty(),
            "the I/Os are there, and nothing stalls in them"
        );
        let half = of(60);
        assert_eq!(
            half.iter()
                .map(|(from, to, _)| (*from, *to))
                .collect::<Vec<_>>(),
            [(15, 25), (60, 70)]
        );
        assert_eq!(
            (&half[0].2.evidence["longest_s"], half[0].2.from_ns),
            (&serde_json::json!(9.5), 10 * S)
        );
        assert_eq!(of(100).len(), 3);
    }
}
