//! Stories (A30) as keys of the report's document.

use iolens_core::analysis::Report;
use iolens_core::analysis::findings::{FindingKind, Severity};
use iolens_core::analysis::limits::MemoryLimit;
use iolens_core::analysis::stories::{
    self, Advice, AlsoHurt, Cause, CulpritIo, Doubt, NotProven, Story, StoryKind,
};
use iolens_core::analysis::waits::Program;
use iolens_core::analysis::waits::stretches::Stretch;
use iolens_core::model::{Class, Comm, DevId, Inode, Names, RecordingMeta, Settings};
use serde::Serialize;

use super::actors::{cgroup_name, file_name};
use super::report_json::{RecordingFacts, device_name};
use super::story_text::{self, program_label};
use super::times::Times;

/// The text if no story is found; delays below the thresholds make no story.
pub const NO_STORY: &str = "no program lost much time to another";

/// Who made whom wait, how, how much, and what to try.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoryEntry {
    /// Identifier from the kind and the names of device, culprits and victim, stable across recordings and hosts.
    pub id: String,
    /// Mechanism by which time was lost.
    kind: StoryKind,
    /// Name of the device.
    device: String,
    /// Text of the story.
    summary: String,
    /// Program that lost time.
    victim: VictimEntry,
    /// Programs that caused it, one or two. Empty if no program did.
    culprits: Vec<CulpritEntry>,
    /// The victim's lost time by owner, largest share first.
    shares: Vec<ShareEntry>,
    /// What the victim lost to the cause.
    harm: HarmEntry,
    /// Time that other I/Os of the victim lost to the same cause, sorted by time, largest first.
    also: Vec<AlsoEntry>,
    /// Number of intervals in which the victim was delayed, with gaps of less than 0.1 s; `null` if no program is the cause.
    times: Option<u64>,
    /// Start of the first interval.
    start_s: f64,
    /// End of the last interval.
    end_s: f64,
    /// Up to eight intervals with the most lost time, in order of time.
    episodes: Vec<EpisodeEntry>,
    /// The limit to which the device or the control group is throttled; `null` for other kinds.
    rate_limit: Option<RateLimitEntry>,
    /// The memory limit that makes the control group read evicted data again; `null` for other kinds.
    memory_limit: Option<MemoryLimitEntry>,
    /// Reasons why the story is only probable. Empty if there are none.
    doubts: Vec<Doubt>,
    /// Suggested actions.
    advice: Vec<AdviceEntry>,
}

/// The I/Os that waited, of one class: those that a program can be waiting for, including write-back only if a sync requested
/// it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VictimEntry {
    #[serde(flatten)]
    waited: WaitedEntry,
    /// Mean number of its I/Os in flight, from the first to the last.
    mean_in_flight: f64,
}

/// Other I/Os that lost time to the cause of a story: of another class, or of another process or thread of the victim.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AlsoEntry {
    #[serde(flatten)]
    waited: WaitedEntry,
    /// Time lost to the cause (lower bound).
    harm_s: f64,
    /// I/Os that took more than twice their undisturbed latency because of the cause.
    delayed_ios: u64,
}

/// I/Os of a program, of one class.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitedEntry {
    #[serde(flatten)]
    program: ProgramEntry,
    /// Reads, writes or flushes.
    class: Class,
    /// Completed I/Os; write-back counts only as far as a sync asked for it.
    ios: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// I/O time beyond the undisturbed latency.
    excess_s: f64,
}

/// A process, or several of one name in one control group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramEntry {
    /// Name of the process; `null` if it is not known.
    process: Option<String>,
    /// Process ID; `null` if there are several, or if it is not known.
    pid: Option<i32>,
    /// Path of the control group, or its number.
    cgroup: Option<String>,
}

/// A program that others waited for, and its I/O of the class and origin that caused most of the wait.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CulpritEntry {
    #[serde(flatten)]
    program: ProgramEntry,
    /// Reads, writes or flushes.
    class: Class,
    /// Origin of the I/O.
    origin: &'static str,
    /// Completed I/Os.
    ios: u64,
    /// Bytes that they moved.
    bytes: u64,
    /// Share of the culprit's bytes in I/Os that continue another I/O.
    sequential_bytes_percent: f64,
    /// I/Os that carry a flush or must reach the medium themselves (FUA).
    forced_ios: u64,
    /// Number of uninterrupted sequences of such I/O, with gaps of less than 0.1 s.
    stretches: u64,
    /// Median number of bytes per uninterrupted sequence of I/Os (see `stretches`).
    stretch_bytes: f64,
    /// Median length of an uninterrupted sequence of I/Os (see `stretches`).
    stretch_s: f64,
    /// Start, in seconds since the recording's start.
    start_s: f64,
    /// End, in seconds since the recording's start.
    end_s: f64,
    /// Time from start to start, if at least five are evenly spaced.
    period_s: Option<f64>,
    /// Interval of the culprit's I/O in which the victim waited longest, if it is known.
    at_worst: Option<StretchEntry>,
    /// Up to three files with I/Os of that class, sorted by I/O time, largest first.
    file_names: Vec<String>,
}

/// A stretch of a culprit's I/O.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StretchEntry {
    /// Start, in seconds since the recording's start.
    start_s: f64,
    /// End, in seconds since the recording's start.
    end_s: f64,
    /// I/Os in it.
    ios: u64,
    /// Bytes that they moved.
    bytes: i64,
}

/// A part of the victim's lost time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShareEntry {
    /// Owner of the lost time: `program`, `own-queue`, `held`, `device`, `memory-limit` or `unknown`.
    owner: &'static str,
    #[serde(flatten)]
    program: Option<ProgramEntry>,
    /// Lost time, summed over the I/Os that waited.
    seconds: f64,
    /// Share of the victim's `excess_s`.
    explains_percent: f64,
}

/// Time lost to the cause.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HarmEntry {
    /// Lower bound of the lost time, summed over the I/Os that waited.
    seconds: f64,
    /// Lost wall-clock time: simultaneous losses of a process's I/Os count once; `null` if no program is the cause.
    by_clock_s: Option<f64>,
    /// Share of the victim's I/O time (`io_time_s`) that it lost to the cause.
    lost_time_percent: f64,
    /// Share of the victim's `excess_s`.
    explains_percent: f64,
    /// I/Os that took more than twice their undisturbed latency because of the cause.
    delayed_ios: u64,
    /// Completion of the I/O that waited longest.
    worst_at_s: f64,
    /// Latency of the I/O that waited longest.
    worst_us: f64,
    /// Undisturbed latency of the I/O that waited longest.
    worst_undisturbed_us: f64,
    /// 99th percentile of latency of the victim's I/Os that waited behind the cause, within 3 %; `null` with fewer than 100
    /// I/Os.
    p99_with_us: Option<f64>,
    /// 99th percentile of latency of the victim's other I/Os, within 3 %; `null` with fewer than 100 I/Os.
    p99_without_us: Option<f64>,
}

/// An interval in which the victim was delayed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EpisodeEntry {
    /// Start, in seconds since the recording's start.
    start_s: f64,
    /// End, in seconds since the recording's start.
    end_s: f64,
    /// Time lost in the interval.
    seconds: f64,
    /// Completed I/Os.
    ios: u64,
}

/// Memory limit of a control group that reads evicted data again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemoryLimitEntry {
    /// Path of the control group whose own limit it is.
    cgroup: String,
    /// The limit's name: `memory.max`, `memory.high`, or `memory.limit_in_bytes` under cgroup v1.
    key: &'static str,
    /// The memory limit.
    limit_bytes: i64,
    /// Bytes that the group read again while it reached its limit (lower bound).
    refaulted_bytes: i64,
}

/// Rate limit to which a device or a control group is throttled.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RateLimitEntry {
    /// Path of the control group whose own limit it is; `null` if it is the device's.
    cgroup: Option<String>,
    /// Key of the limit in `io.max`; `null` for a limit of the device.
    key: Option<&'static str>,
    /// The limit in I/Os per second; `null` if it limits bytes.
    ios_per_s: Option<f64>,
    /// The limit in bytes per second; `null` if it limits I/Os.
    bytes_per_s: Option<f64>,
    /// Highest rate over a quarter of a second while not throttled, in bytes or I/Os per second as the limit; `null` unless it
    /// is at least 1.5 times the limit.
    before_per_s: Option<f64>,
    /// Start, in seconds since the recording's start.
    start_s: f64,
    /// End, in seconds since the recording's start.
    end_s: f64,
    /// I/Os that completed before it was first held; `null` of a control group.
    ios_before: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AdviceEntry {
    /// The suggested setting or way of running a program.
    what: Advice,
    /// The advice, as text.
    text: String,
    /// Current value of the setting; `null` if it has none or the recording does not hold it.
    now: Option<String>,
}

/// A program without a story.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ClearedEntry {
    #[serde(flatten)]
    program: ProgramEntry,
    /// Completed I/Os for which it can have been waiting.
    ios: u64,
    /// The longest latency.
    max_us: f64,
    /// I/O time beyond the undisturbed latency.
    excess_s: f64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// Summary, as text.
    pub summary: String,
}

/// A program of which the recording does not show whether it waited.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotProvenEntry {
    #[serde(flatten)]
    program: ProgramEntry,
    /// Name of the device.
    device: String,
    /// Class of the I/Os.
    class: Class,
    /// Number of completed I/Os.
    ios: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// Program whose I/Os were in progress at the same time.
    beside: ProgramEntry,
    /// Upper bound of the time that these I/Os waited for the program in `beside`.
    at_most_s: f64,
    /// Summary, as text.
    pub summary: String,
}

/// A story as `serve` reports it while it happens.
#[derive(Debug, Clone, PartialEq)]
pub struct StoryNews {
    /// The story's id, by which it is recognised and muted.
    pub id: String,
    /// Mechanism by which time was lost.
    pub kind: StoryKind,
    /// Name of the device.
    pub device: String,
    /// The program that lost time, with its process ID.
    pub victim: String,
    /// The programs that caused it; empty if the cause is not a program.
    pub culprits: Vec<String>,
    /// Lost time; a lower bound.
    pub harm_s: f64,
    /// Text of the story.
    pub summary: String,
    /// The advice in words.
    pub advice: Vec<String>,
}

/// Maximum number of a culprit's files that the document names.
const MAX_FILES: usize = 3;

/// Two amounts are the same if the smaller one is at least this share of the larger one.
const SAME_AMOUNT: f64 = 0.9;

/// A file of a culprit.
#[derive(Debug)]
pub(super) struct CulpritFile {
    pub name: String,
    pub bytes: u64,
}

/// The files that a culprit used.
#[derive(Debug, Default)]
pub(super) struct CulpritFiles {
    /// Those with at least a tenth of the culprit's bytes, most I/O time first.
    pub used: Vec<CulpritFile>,
    /// All bytes of the culprit, including those of other files and of no known file.
    bytes: u64,
}

impl CulpritFiles {
    /// The names that the document has.
    fn names(&self) -> Vec<String> {
        let named = self.used.iter().take(MAX_FILES);
        named.map(|file| file.name.clone()).collect()
    }

    /// Whether the files in `used` together have nine tenths of the culprit's bytes.
    pub fn are_nearly_all(&self) -> bool {
        let of_used: u64 = self.used.iter().map(|file| file.bytes).sum();
        10 * of_used >= 9 * self.bytes
    }

    /// The only file with as many bytes as a stretch moved, which is then most likely the file of that stretch.
    pub fn of_stretch(&self, stretch: &Stretch) -> Option<&CulpritFile> {
        let mut alike = self
            .used
            .iter()
            .filter(|file| is_same_amount(file.bytes as f64, stretch.amount as f64));
        let file = alike.next()?;
        alike.next().is_none().then_some(file)
    }
}

fn is_same_amount(one: f64, other: f64) -> bool {
    one.min(other) >= SAME_AMOUNT * one.max(other)
}

/// A story with the names and settings that its sentences need.
pub(super) struct NamedStory<'a> {
    pub story: &'a Story,
    /// Settings of the machine, if they were recorded.
    pub settings: Option<&'a Settings>,
    pub device: String,
    /// Files of the first culprit.
    pub files: CulpritFiles,
    /// The loop device backed by the first file, if a kernel thread does its I/O.
    pub loop_device: Option<String>,
    pub id: String,
}

/// All stories that are not muted, worst first.
pub(super) fn named_stories<'a>(
    report: &'a Report,
    meta: &'a RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
) -> Vec<NamedStory<'a>> {
    let mut all = Vec::new();
    for story in &report.stories {
        let id = id_of(story, meta, names);
        if facts.muted.contains(&id) {
            continue;
        }
        let files = match (story.culprits.first(), story.culprit_ios.first()) {
            (Some(program), Some(io)) => files_of(report, meta, names, story.dev, program, io),
            _ => CulpritFiles::default(),
        };
        let first_file = files.used.first();
        all.push(NamedStory {
            story,
            settings: meta.settings.as_ref(),
            device: device_name(meta, story.dev),
            loop_device: first_file.and_then(|file| loop_over(&file.name, meta)),
            files,
            id,
        });
    }
    all
}

fn id_of(story: &Story, meta: &RecordingMeta, names: &Names) -> String {
    let device = meta
        .device(story.dev)
        .and_then(|d| d.stable_id.clone())
        .unwrap_or_else(|| device_name(meta, story.dev));
    let culprits: Vec<String> = story
        .culprits
        .iter()
        .map(|program| identity_of(program, names))
        .collect();
    let victim = identity_of(&story.victim, names);
    stories::story_id(story.kind.name(), &device, &culprits, &victim)
}

/// A program's name and control group, as they enter a story's id.
fn identity_of(program: &Program, names: &Names) -> String {
    let entry = program_entry(program, names);
    let process = entry.process.unwrap_or_default();
    let cgroup = entry.cgroup.unwrap_or_default();
    format!("{process} {cgroup}")
}

/// The loop device that is backed by a file.
fn loop_over(file: &str, meta: &RecordingMeta) -> Option<String> {
    let stable_id = format!("loop:{file}");
    let mut devices = meta.devices.iter();
    let device = devices.find(|d| d.stable_id.as_ref() == Some(&stable_id))?;
    Some(device.name.clone())
}

/// A culprit's files, most I/O time first; none if other processes share its row of the table of processes.
fn files_of(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    dev: DevId,
    program: &Program,
    io: &CulpritIo,
) -> CulpritFiles {
    let mut bytes = 0;
    let mut used: Vec<(Inode, u64)> = Vec::new();
    // Kernel workers have several rows.
    for row in &report.actors.rows {
        let group = &row.group;
        // Threads of a process have rows of their own.
        let one = Program {
            tgid: program.tgid.filter(|pid| row.pids.contains(pid)),
            comm: group.comm,
            cgroup: group.cgroup,
        };
        let is_its = program.includes(&one.without_worker_number());
        if group.dev != dev || group.class != io.class || !is_its {
            continue;
        }
        // The bytes and files of a row of several processes cannot be divided among them.
        if program.tgid.is_some() && row.pids.len() > 1 {
            return CulpritFiles::default();
        }
        bytes += row.bytes;
        for file in &row.files {
            match used.iter_mut().find(|(known, _)| *known == file.file) {
                Some((_, sum)) => *sum += file.bytes,
                None => used.push((file.file, file.bytes)),
            }
        }
    }
    // A file with less than a tenth of the bytes is not the subject of the story.
    used.retain(|(_, of_file)| 10 * of_file >= bytes);
    let mut files = CulpritFiles {
        used: Vec::new(),
        bytes,
    };
    for (file, of_file) in used {
        files.used.push(CulpritFile {
            name: file_name(&file, meta, names),
            bytes: of_file,
        });
    }
    files
}

/// A story in words, for a screen.
#[derive(Debug, Clone, PartialEq)]
pub struct StoryText {
    /// As [`StoryEntry::id`].
    pub id: String,
    /// What happened and how bad it was; not escaped for terminals.
    pub text: String,
    /// End of the last episode, since the start of the recording.
    pub to_ns: i64,
    /// What it lost.
    pub harm_ns: i64,
}

/// All stories in words, in the same order.
pub fn lines(
    found: &[Story],
    meta: &RecordingMeta,
    names: &Names,
    times: &Times,
) -> Vec<StoryText> {
    let mut all = Vec::new();
    for story in found {
        let named = NamedStory {
            story,
            settings: meta.settings.as_ref(),
            device: device_name(meta, story.dev),
            files: CulpritFiles::default(),
            loop_device: None,
            id: id_of(story, meta, names),
        };
        all.push(StoryText {
            text: story_text::sentences(&named, times).join(" "),
            id: named.id,
            to_ns: story.episodes.to_ns,
            harm_ns: story.harm.ns,
        });
    }
    all
}

/// The entries.
pub fn entries(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
) -> Vec<StoryEntry> {
    let times = Times::utc(meta);
    named_stories(report, meta, names, facts)
        .into_iter()
        .map(|named| entry(named, names, &times))
        .collect()
}

impl StoryEntry {
    /// The lost time that ranks stories, in seconds.
    pub fn harm_s(&self) -> f64 {
        self.harm.seconds
    }

    /// What is reported of it while it happens.
    pub fn news(&self) -> StoryNews {
        let mut culprits = Vec::new();
        for culprit in &self.culprits {
            culprits.push(culprit.program.label());
        }
        let mut advice = Vec::new();
        for entry in &self.advice {
            advice.push(match &entry.now {
                Some(now) => format!("{} (now {now})", entry.text),
                None => entry.text.clone(),
            });
        }
        StoryNews {
            id: self.id.clone(),
            kind: self.kind,
            device: self.device.clone(),
            victim: self.victim.waited.program.label(),
            culprits,
            harm_s: self.harm.seconds,
            summary: self.summary.clone(),
            advice,
        }
    }

    /// Start of the first and end of the last episode, in seconds since the start of the recording.
    pub fn span_s(&self) -> (f64, f64) {
        (self.start_s, self.end_s)
    }
}

impl ProgramEntry {
    /// Its name and process ID, as far as they are known.
    fn label(&self) -> String {
        program_label(self.process.as_deref(), self.pid)
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn entry(named: NamedStory, names: &Names, times: &Times) -> StoryEntry {
    let story = named.story;
    let mut culprits = Vec::new();
    for (i, (program, io)) in story.culprits.iter().zip(&story.culprit_ios).enumerate() {
        let files = if i == 0 {
            named.files.names()
        } else {
            Vec::new()
        };
        culprits.push(culprit_entry(program, io, files, names));
    }
    let mut advice = Vec::new();
    for what in &story.advice {
        advice.push(AdviceEntry {
            what: *what,
            text: story_text::advice(*what, &named),
            now: story_text::present_value(*what, story, named.settings),
        });
    }
    let harm = &story.harm;
    StoryEntry {
        kind: story.kind,
        summary: story_text::sentences(&named, times).join(" "),
        victim: VictimEntry {
            waited: WaitedEntry {
                program: program_entry(&story.victim, names),
                class: story.class,
                ios: story.ios,
                io_time_s: seconds(story.io_time_ns),
                excess_s: seconds(story.excess_ns),
            },
            mean_in_flight: story.in_flight,
        },
        culprits,
        shares: shares(story, names),
        harm: HarmEntry {
            seconds: seconds(harm.ns),
            by_clock_s: harm.by_clock_ns.map(seconds),
            lost_time_percent: 100.0 * story.harm_share(),
            explains_percent: 100.0 * story.explained_share(),
            delayed_ios: harm.delayed_ios,
            worst_at_s: seconds(harm.worst.done_ns),
            worst_us: us(harm.worst.latency_ns),
            worst_undisturbed_us: us(harm.worst.undisturbed_ns),
            p99_with_us: harm.p99_with_ns.map(us),
            p99_without_us: harm.p99_without_ns.map(us),
        },
        also: story
            .also
            .iter()
            .map(|also| also_entry(also, names))
            .collect(),
        times: (!story.culprits.is_empty()).then_some(story.episodes.times),
        start_s: seconds(story.episodes.from_ns),
        end_s: seconds(story.episodes.to_ns),
        episodes: episodes(story),
        rate_limit: rate_limit(story),
        memory_limit: story.memory_limit.as_ref().map(memory_limit),
        doubts: story.doubts.clone(),
        advice,
        device: named.device,
        id: named.id,
    }
}

fn also_entry(also: &AlsoHurt, names: &Names) -> AlsoEntry {
    AlsoEntry {
        waited: WaitedEntry {
            program: program_entry(&also.victim, names),
            class: also.class,
            ios: also.ios,
            io_time_s: seconds(also.io_time_ns),
            excess_s: seconds(also.excess_ns),
        },
        harm_s: seconds(also.harm_ns),
        delayed_ios: also.delayed_ios,
    }
}

fn rate_limit(story: &Story) -> Option<RateLimitEntry> {
    if let Some(limit) = &story.own_limit {
        let per_s = limit.limit_per_s as f64;
        return Some(RateLimitEntry {
            cgroup: Some(limit.path.clone()),
            key: Some(limit.rate.key()),
            ios_per_s: limit.rate.is_of_ios().then_some(per_s),
            bytes_per_s: (!limit.rate.is_of_ios()).then_some(per_s),
            before_per_s: None,
            start_s: seconds(story.episodes.from_ns),
            end_s: seconds(story.episodes.to_ns),
            ios_before: None,
        });
    }
    let cap = story.cap?;
    Some(RateLimitEntry {
        cgroup: None,
        key: None,
        ios_per_s: cap.ios_per_s,
        bytes_per_s: cap.bytes_per_s,
        before_per_s: cap.before_per_s,
        start_s: seconds(cap.from_ns),
        end_s: seconds(cap.to_ns),
        ios_before: Some(cap.ios_before),
    })
}

fn memory_limit(limit: &MemoryLimit) -> MemoryLimitEntry {
    MemoryLimitEntry {
        cgroup: limit.path.clone(),
        key: limit.key(),
        limit_bytes: limit.limit_bytes,
        refaulted_bytes: limit.refaulted_bytes,
    }
}

fn culprit_entry(
    program: &Program,
    io: &CulpritIo,
    files: Vec<String>,
    names: &Names,
) -> CulpritEntry {
    CulpritEntry {
        program: program_entry(program, names),
        class: io.class,
        origin: io.origin.name(),
        ios: io.ios,
        bytes: io.bytes,
        sequential_bytes_percent: 100.0 * io.sequential_share,
        forced_ios: io.forced_ios,
        stretches: io.stretches,
        stretch_bytes: io.stretch_bytes,
        stretch_s: io.stretch_ns / 1e9,
        start_s: seconds(io.from_ns),
        end_s: seconds(io.to_ns),
        period_s: io.period_ns.map(|ns| ns / 1e9),
        at_worst: io.at_worst.map(|stretch| StretchEntry {
            start_s: seconds(stretch.from_ns),
            end_s: seconds(stretch.to_ns),
            ios: stretch.ios,
            bytes: stretch.amount,
        }),
        file_names: files,
    }
}

fn shares(story: &Story, names: &Names) -> Vec<ShareEntry> {
    let mut all = Vec::new();
    for share in &story.shares {
        let program = match &share.cause {
            Cause::Program(program) => Some(program_entry(program, names)),
            _ => None,
        };
        all.push(ShareEntry {
            owner: owner_name(&share.cause),
            program,
            seconds: seconds(share.ns),
            explains_percent: 100.0 * share.ns as f64 / story.excess_ns.max(1) as f64,
        });
    }
    all
}

fn owner_name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Program(_) => "program",
        Cause::OwnQueue => "own-queue",
        Cause::Held => "held",
        Cause::Device => "device",
        Cause::MemoryLimit => "memory-limit",
        Cause::NotKnown => "unknown",
    }
}

fn episodes(story: &Story) -> Vec<EpisodeEntry> {
    let mut all = Vec::new();
    for stretch in &story.episodes.worst {
        all.push(EpisodeEntry {
            start_s: seconds(stretch.from_ns),
            end_s: seconds(stretch.to_ns),
            seconds: seconds(stretch.amount),
            ios: stretch.ios,
        });
    }
    all
}

fn program_entry(program: &Program, names: &Names) -> ProgramEntry {
    ProgramEntry {
        process: program.comm.map(|comm| comm.to_text().into_owned()),
        pid: program.tgid.filter(|_| *program != Program::OTHERS),
        cgroup: program.cgroup.map(|id| cgroup_name(id, names)),
    }
}

/// Devices that a warning reports as slow by themselves.
pub(super) fn suspects(report: &Report) -> Vec<DevId> {
    let mut devices = Vec::new();
    for finding in &report.findings {
        let is_about_load = !matches!(
            finding.kind(),
            FindingKind::LostEvents | FindingKind::UtilDisagreement
        );
        // A disk at its limit is not among them: the time that programs lost to the limit is in their waits.
        if is_about_load && !finding.is_fact() && finding.severity >= Severity::Warning {
            devices.extend(finding.dev);
        }
    }
    devices
}

/// The requested program, or else the busiest one, if it is in no story, lost little time, and no warning is about its
/// disks.
pub(super) fn cleared(
    report: &Report,
    names: &Names,
    facts: &RecordingFacts,
) -> Option<ClearedEntry> {
    let name = facts.victim.as_deref().map(str::as_bytes);
    let suspects = suspects(report);
    let cleared = stories::cleared(&report.waits, &report.stories, &suspects, name)?;
    Some(ClearedEntry {
        program: program_entry(&cleared.program, names),
        ios: cleared.ios,
        max_us: us(cleared.longest_ns),
        excess_s: seconds(cleared.excess_ns),
        io_time_s: seconds(cleared.io_time_ns),
        summary: story_text::cleared(&cleared),
    })
}

/// The requested program, or any program if there are no stories, that may have lost most of its I/O time to another
/// one, while its undisturbed latency is not known.
pub(super) fn not_proven(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
) -> Option<NotProvenEntry> {
    let name = facts.victim.as_deref().map(str::as_bytes);
    let found = stories::not_proven(&report.waits, &report.stories, name)?;
    Some(NotProvenEntry::of(&found, meta, names))
}

impl NotProvenEntry {
    /// The entry of a program whose waits are not proven.
    pub fn of(found: &NotProven, meta: &RecordingMeta, names: &Names) -> NotProvenEntry {
        let device = device_name(meta, found.dev);
        NotProvenEntry {
            program: program_entry(&found.program, names),
            class: found.class,
            ios: found.ios,
            io_time_s: seconds(found.io_time_ns),
            beside: program_entry(&found.beside, names),
            at_most_s: seconds(found.at_most_ns),
            summary: story_text::not_proven(found, &device),
            device,
        }
    }
}

/// Whether a program of this name lost time in the story.
pub(super) fn is_victim(story: &Story, name: &str) -> bool {
    let mut victims = story.victims();
    victims.any(|(victim, _)| is_called(victim.comm, name))
}

fn is_called(comm: Option<Comm>, name: &str) -> bool {
    comm.is_some_and(|comm| comm.as_bytes() == name.as_bytes())
}

/// The sentence that no program of this name did I/O; `None` if one did.
pub(super) fn absent(report: &Report, name: &str) -> Option<String> {
    let rows = &report.actors.rows;
    let mut effects = report.waits.iter().flat_map(|d| &d.felt.effects);
    if rows.iter().any(|row| is_called(row.group.comm, name))
        || effects.any(|effect| is_called(effect.victim.comm, name))
    {
        return None;
    }
    // Counters and tables know no programs, and the least active of very many are summed.
    let knows_all = report.actors.others.ios == 0 && rows.iter().any(|r| r.group.comm.is_some());
    Some(if knows_all {
        format!("no I/O of {name} in this time")
    } else {
        format!("no I/O of {name} is known in this time")
    })
}

#[cfg(test)]
mod tests {
    use super::super::escape;
    use super::super::layout::Layout;
    use super::super::waits::tests::{shop_behind, shop_behind_backup};
    use super::*;
    use iolens_core::analysis::findings::Finding;
    use iolens_core::analysis::findings::evidence::{Evidence, IoErrorEvidence};
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{
        CgroupSample, Comm, Device, Io, LossReason, Lost, MountSettings, Op, Origin, Source,
    };

    fn shown(facts: &RecordingFacts, width: usize) -> String {
        let (report, meta, names) = shop_behind_backup();
        let layout = Layout {
            width,
            colour: false,
        };
        let times = Times::utc(&meta);
        story_text::section(&report, &meta, &names, facts, &times, layout, 40)
    }

    #[test]
    fn a_story_says_who_waited_for_whom_how_bad_and_what_to_try() {
        let text = shown(&RecordingFacts::default(), 112);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "What happened",
            "From 0.101 s to 9.920 s backup (12) writes back 104 MB on sda in 9.82 s",
            "Reads of shop\\x1b[31m (77) wait for it: up to 20.0 ms instead of 100 us",
            "They lost at least 1.8",
            " % of their delay",
            "Try: vm.dirty_background_bytes=16M",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\x1b'), "{text}");
        let narrow = shown(&RecordingFacts::default(), 80);
        assert!(narrow.lines().all(|l| l.chars().count() <= 80), "{narrow}");
    }

    fn mount(on: DevId, mount_point: Option<&str>) -> MountSettings {
        MountSettings {
            fs_dev: on,
            devices: vec![on],
            mount_point: mount_point.map(str::to_owned),
            source: None,
            fs_type: None,
            options: None,
        }
    }

    #[test]
    fn the_advice_to_throttle_is_a_command_that_can_be_typed() {
        let (report, mut meta, names) = shop_behind_backup();
        let facts = RecordingFacts::default();
        let named = named_stories(&report, &meta, &names, &facts);
        assert_eq!(
            story_text::advice(Advice::Throttle, &named[0]),
            "start it with iolens throttle --path /mount/point -- backup"
        );
        let dev = named[0].story.dev;
        meta.settings = Some(Settings {
            mounts: vec![
                mount(DevId::new(8, 16), Some("/other")),
                mount(dev, None),
                mount(dev, Some("/srv/a b")),
            ],
            ..Settings::default()
        });
        let named = named_stories(&report, &meta, &names, &facts);
        assert_eq!(
            story_text::advice(Advice::Throttle, &named[0]),
            "start it with iolens throttle --path '/srv/a b' -- backup"
        );
    }

    /// The story of a shop behind writes of `comm` to the file under a loop device.
    fn summary_behind_image(comm: Option<&[u8]>, origin: Origin) -> String {
        let image = Inode {
            ino: 9,
            generation: None,
            fs_dev: DevId::new(8, 0).0,
        };
        let (report, mut meta, mut names) = shop_behind(|write| Io {
            comm: comm.map(Comm::new),
            tgid: comm.map(|_| 12 + (write.done_ns % 3) as i32),
            origin,
            ino: Some(image.ino),
            fs_dev: Some(image.fs_dev),
            ..write
        });
        names.files.insert(image, "/images/db.img".to_owned());
        meta.devices.push(Device {
            stable_id: Some("loop:/images/db.img".to_owned()),
            ..Device::named("loop3", DevId::new(7, 3))
        });
        let all = entries(&report, &meta, &names, &RecordingFacts::default());
        all[0].summary.clone()
    }

    #[test]
    fn a_worker_of_the_kernel_is_named_by_what_it_works_for() {
        let worker = Some(&b"kworker/u8:3"[..]);
        let for_loop = summary_behind_image(worker, Origin::Direct);
        assert!(for_loop.contains(" loop3 (kworker) writes "), "{for_loop}");
        assert!(for_loop.contains(" of db.img on sda "), "{for_loop}");
        let written_back = summary_behind_image(worker, Origin::Writeback);
        let who = " the kernel's write-back (kworker) writes back ";
        assert!(written_back.contains(who), "{written_back}");
        let nameless = summary_behind_image(None, Origin::Writeback);
        let who = " the kernel for loop3 writes back ";
        assert!(nameless.contains(who), "{nameless}");
    }

    /// The first sentence about 99 writes of 1 MiB, the nth of them to the file `file_of(n)`; `stretch_mib` is what the sentence
    /// says that they moved.
    fn sentence_about_files(file_of: impl Fn(i64) -> i64, stretch_mib: i64) -> String {
        let fs_dev = DevId::new(8, 0).0;
        let (report, meta, mut names) = shop_behind(|write| Io {
            comm: Some(Comm::new(b"backup")),
            tgid: Some(12),
            origin: Origin::Writeback,
            ino: Some(file_of(write.done_ns / 100_000_000)),
            fs_dev: Some(fs_dev),
            ..write
        });
        for ino in 1..=10 {
            let inode = Inode {
                ino,
                generation: None,
                fs_dev,
            };
            names.files.insert(inode, format!("/srv/file{ino}"));
        }
        let mut story = report.stories[0].clone();
        let stretch = story.culprit_ios[0].only_stretch.as_mut();
        stretch.expect("one stretch").amount = stretch_mib << 20;
        let facts = RecordingFacts::default();
        let named = NamedStory {
            story: &story,
            ..named_stories(&report, &meta, &names, &facts).remove(0)
        };
        story_text::sentences(&named, &Times::utc(&meta)).remove(0)
    }

    /// Every `nth` write goes to file 2, all others to file 1.
    fn with_every(nth: i64, stretch_mib: i64) -> String {
        sentence_about_files(|n| if n % nth == 0 { 2 } else { 1 }, stretch_mib)
    }

    /// The writes go to `files` files in turn.
    fn in_turn(files: i64, stretch_mib: i64) -> String {
        sentence_about_files(|n| n % files + 1, stretch_mib)
    }

    #[test]
    fn bytes_of_several_files_are_not_said_to_be_of_one() {
        let cases = [
            (with_every(20, 99), " 104 MB of file1 on sda "),
            (with_every(4, 99), " 104 MB of file1 and file2 on sda "),
            // Only one file has as many bytes as the stretch moved, or two have.
            (with_every(4, 75), " 78.6 MB of file1 on sda "),
            (in_turn(2, 50), " 52.4 MB of file2 and file1 on sda "),
            (in_turn(3, 99), " 104 MB of file1 and 2 more files on sda "),
            // A row of the table of processes has three files.
            (in_turn(10, 99), " 104 MB of file2 and others on sda "),
        ];
        for (text, expected) in cases {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    /// How many files process 12 has, if it and the process `second` make few writes each, and the process `third` all others. All
    /// are called dd, and each has a file of its own.
    fn files_beside(second: i32, third: i32) -> usize {
        let fs_dev = DevId::new(8, 0).0;
        let (report, meta, names) = shop_behind(|write| {
            let pid = match write.done_ns / 100_000_000 % 30 {
                0 => 12,
                1 => second,
                _ => third,
            };
            Io {
                comm: Some(Comm::new(b"dd")),
                tgid: Some(pid),
                origin: Origin::Writeback,
                ino: Some(i64::from(pid)),
                fs_dev: Some(fs_dev),
                ..write
            }
        });
        let (behind_backup, ..) = shop_behind_backup();
        let story = &behind_backup.stories[0];
        let dd = Program {
            tgid: Some(12),
            comm: Some(Comm::new(b"dd")),
            cgroup: None,
        };
        let io = &story.culprit_ios[0];
        let files = files_of(&report, &meta, &names, story.dev, &dd, io);
        files.used.len()
    }

    #[test]
    fn files_of_a_process_are_not_those_of_another_process_with_its_name() {
        assert_eq!(files_beside(12, 14), 1);
        // Processes with less than a tenth of the I/O time share a row.
        assert_eq!(files_beside(13, 14), 0);
    }

    #[test]
    fn what_the_cause_cost_other_ios_of_the_victim_is_a_sentence_of_its_story() {
        let (mut report, meta, names) = shop_behind_backup();
        let story = &mut report.stories[0];
        let victim = story.victim;
        for (victim, class, harm_ns) in [
            (victim, Class::Flush, 1_500_000_000),
            (
                Program {
                    tgid: Some(78),
                    ..victim
                },
                Class::Read,
                400_000_000,
            ),
            (
                Program {
                    tgid: Some(79),
                    ..victim
                },
                Class::Read,
                300_000_000,
            ),
        ] {
            story.also.push(AlsoHurt {
                victim,
                class,
                ios: 40,
                io_time_ns: 2 * harm_ns,
                excess_ns: harm_ns,
                harm_ns,
                delayed_ios: 30,
            });
        }
        let all = entries(&report, &meta, &names, &RecordingFacts::default());
        let text = escape::terminal(&all[0].summary);
        let same_process = "The same cost its flushes at least 1.50 s of 3.00 s and reads of shop";
        assert!(text.contains(same_process), "{text}");
        let another = "(78) at least 400 ms of 800 ms, beside 1 more.";
        assert!(text.ends_with(another), "{text}");
        let also = serde_json::to_value(&all[0].also).expect("plain structs");
        assert_eq!(also[1]["pid"], 78);
        assert_eq!(also[1]["harm_s"], 0.4);
    }

    #[test]
    fn a_stretch_that_stands_out_is_what_the_culprit_did() {
        let (report, meta, names) = shop_behind(|write| Io {
            comm: Some(Comm::new(b"backup")),
            tgid: Some(12),
            origin: Origin::Direct,
            ..write
        });
        let facts = RecordingFacts::default();
        let mut story = report.stories[0].clone();
        let io = &mut story.culprit_ios[0];
        io.stretches = 489;
        io.only_stretch = None;
        io.stretch_bytes = 16_384.0;
        io.period_ns = None;
        let large = Stretch {
            from_ns: 4_000_000_000,
            to_ns: 6_000_000_000,
            amount: 500_000_000,
            ios: 500,
        };
        let begins = [
            (
                Some(large),
                "From 4.000 s to 6.000 s backup (12) writes 500 MB on sda in 2.00 s (250 MB/s or more)",
            ),
            (None, "489 times backup (12) writes 16.4 kB on sda in "),
        ];
        for (at_worst, begin) in begins {
            story.culprit_ios[0].at_worst = at_worst;
            let named = NamedStory {
                story: &story,
                ..named_stories(&report, &meta, &names, &facts).remove(0)
            };
            let text = story_text::sentences(&named, &Times::utc(&meta)).join(" ");
            assert!(text.starts_with(begin), "{text}");
        }
    }

    #[test]
    fn each_of_two_culprits_has_its_own_figures() {
        let (report, meta, names) = shop_behind_backup();
        let facts = RecordingFacts::default();
        let mut story = report.stories[0].clone();
        story.culprits.push(Program {
            tgid: Some(13),
            comm: Some(Comm::new(b"copy")),
            cgroup: None,
        });
        let mut second = story.culprit_ios[0].clone();
        second.only_stretch = None;
        second.at_worst = None;
        second.period_ns = None;
        second.stretches = 3;
        second.stretch_bytes = 67_300_000.0;
        second.stretch_ns = 2e9;
        story.culprit_ios.push(second.clone());
        let file = CulpritFile {
            name: "/srv/dump".to_owned(),
            bytes: 99 << 20,
        };
        let named = NamedStory {
            story: &story,
            files: CulpritFiles {
                bytes: file.bytes,
                used: vec![file],
            },
            ..named_stories(&report, &meta, &names, &facts).remove(0)
        };
        let text = story_text::sentences(&named, &Times::utc(&meta)).join(" ");
        let first = "backup (12) writes back 104 MB of dump on sda in 9.82 s (";
        assert!(text.contains(first), "{text}");
        let of_second = "), and 3 times copy (13) writes back 67.3 MB on sda in 2.00 s (33.";
        assert!(text.contains(of_second), "{text}");

        // It does something else.
        second.class = Class::Read;
        second.origin = Origin::Direct;
        story.culprit_ios[1] = second;
        let named = NamedStory {
            story: &story,
            ..named_stories(&report, &meta, &names, &facts).remove(0)
        };
        let text = story_text::sentences(&named, &Times::utc(&meta)).join(" ");
        assert!(
            text.contains(" copy (13) reads 67.3 MB on sda in "),
            "{text}"
        );
    }

    #[test]
    fn a_sentence_about_one_stretch_has_its_span_and_not_that_of_all_io() {
        let (report, meta, names) = shop_behind_backup();
        let mut story = report.stories[0].clone();
        // A smaller stretch came before it, and another one after it.
        story.culprit_ios[0].from_ns = 0;
        story.culprit_ios[0].to_ns = 60_000_000_000;
        let facts = RecordingFacts::default();
        let named = NamedStory {
            story: &story,
            ..named_stories(&report, &meta, &names, &facts).remove(0)
        };
        let text = story_text::sentences(&named, &Times::utc(&meta)).join(" ");
        let begin = "From 0.101 s to 9.920 s backup (12) writes back 104 MB on sda in 9.82 s";
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn an_entry_has_the_numbers_of_the_waits() {
        let (report, meta, names) = shop_behind_backup();
        let all = entries(&report, &meta, &names, &RecordingFacts::default());
        let stories = serde_json::to_value(&all).expect("plain structs");
        let story = &stories[0];
        assert_eq!(story["kind"], "writeback-flush");
        assert_eq!(story["victim"]["process"], "shop\x1b[31m");
        assert_eq!(story["victim"]["ios"], 399);
        assert_eq!(story["culprits"][0]["process"], "backup");
        assert_eq!(story["culprits"][0]["ios"], 99);
        assert_eq!(story["culprits"][0]["bytes"], 99 << 20);
        assert_eq!(story["harm"]["delayed_ios"], 99);
        assert_eq!(story["harm"]["worst_us"], 20_000.0);
        let waits = super::super::waits::WaitsBlock::of(&report.waits, &meta, &names);
        let waits = serde_json::to_value(&waits.waits).expect("plain structs");
        let behind = &waits[0]["behind"][0]["seconds"];
        assert_eq!(&story["harm"]["seconds"], behind);
        assert_eq!(story["victim"]["io_time_s"], waits[0]["io_time_s"]);
    }

    /// A minute of a program in `/shop` that reads `per_s` times a second, where `/shop` may do 100 reads a second and its tasks
    /// wait for nine tenths of the time.
    fn own_limit(per_s: i64) -> (Report, RecordingMeta) {
        let (_, meta, _) = shop_behind_backup();
        let dev = meta.devices[0].id;
        let group = CgroupSample {
            cgroup: Some(7),
            path: "/shop".to_owned(),
            ..CgroupSample::default()
        };
        let mut samples = vec![CgroupSample {
            dev: Some(dev),
            read_ios_per_s: Some(100),
            ..group.clone()
        }];
        for i in 0..=6 {
            samples.push(CgroupSample {
                at_ns: i * 10_000_000_000,
                io_some_ns: Some(i * 9_000_000_000),
                ..group.clone()
            });
        }
        let window = Window::new(0, 60_000_000_000);
        let mut builder = ReportBuilder::new(window).knowing_cgroups(&samples);
        for i in 0..60 * per_s {
            let done_ns = (i + 1) * 1_000_000_000 / per_s;
            let mut io = Io::new(done_ns, dev, Op::READ, 4096, Some(0), 100_000);
            io.cgroup = Some(7);
            io.tgid = Some(77);
            io.comm = Some(Comm::new(b"shop"));
            builder.push(&io);
        }
        (builder.finish(window.to_ns), meta)
    }

    #[test]
    fn a_control_group_at_its_own_limit_is_a_story_that_names_it() {
        let (report, meta) = own_limit(100);
        let facts = RecordingFacts::default();
        let all = entries(&report, &meta, &Names::default(), &facts);
        let stories = serde_json::to_value(&all).expect("plain structs");
        let story = &stories[0];
        assert_eq!(story["kind"], "rate-limit", "{stories:#}");
        assert_eq!(story["victim"]["process"], "shop");
        assert_eq!(story["rate_limit"]["cgroup"], "/shop");
        assert_eq!(story["rate_limit"]["key"], "riops");
        assert_eq!(story["rate_limit"]["ios_per_s"], 100.0);
        // Of 54 s of waiting an I/O was in flight for a hundredth.
        let lost_s = story["harm"]["seconds"].as_f64().expect("a number");
        assert!((53.0..=54.0).contains(&lost_s), "{lost_s}");
        let text = story["summary"].as_str().expect("a text");
        let expected = "the control group /shop is at its own limit of 100 reads per second on sda (io.max riops=100)";
        assert!(text.contains(expected), "{text}");
        // Below the limit nothing is said.
        let (report, meta) = own_limit(60);
        assert!(entries(&report, &meta, &Names::default(), &facts).is_empty());
    }

    #[test]
    fn reads_of_what_a_memory_limit_had_evicted_are_a_story() {
        let (_, meta, _) = shop_behind_backup();
        let window = Window::new(0, 60_000_000_000);
        let report_of = |refaulted_bytes: i64| {
            let sample = |at_ns: i64, share: i64| CgroupSample {
                at_ns,
                cgroup: Some(7),
                path: "/shop".to_owned(),
                memory_max: Some(64 << 20),
                memory_limit_hits: Some(100 * share),
                refaulted_bytes: Some(refaulted_bytes * share),
                ..CgroupSample::default()
            };
            let samples = [sample(0, 0), sample(60_000_000_000, 1)];
            let mut builder = ReportBuilder::new(window).knowing_cgroups(&samples);
            // 6000 reads of 4 KiB, each of 1 ms, alone on the device.
            for i in 0..6000 {
                let done_ns = (i + 1) * 10_000_000;
                let dev = meta.devices[0].id;
                let mut io = Io::new(done_ns, dev, Op::READ, 4096, Some(0), 1_000_000);
                io.cgroup = Some(7);
                io.tgid = Some(77);
                io.comm = Some(Comm::new(b"shop"));
                builder.push(&io);
            }
            builder.finish(window.to_ns)
        };
        let facts = RecordingFacts::default();
        let three_quarters = 4500 * 4096;
        let all = entries(&report_of(three_quarters), &meta, &Names::default(), &facts);
        let stories = serde_json::to_value(&all).expect("plain structs");
        let story = &stories[0];
        assert_eq!(story["kind"], "cache-misses", "{stories:#}");
        assert_eq!(story["victim"]["process"], "shop");
        assert_eq!(story["memory_limit"]["cgroup"], "/shop");
        assert_eq!(story["memory_limit"]["key"], "memory.max");
        assert_eq!(story["memory_limit"]["refaulted_bytes"], three_quarters);
        let lost_s = story["harm"]["seconds"].as_f64().expect("a number");
        assert!((lost_s - 4.5).abs() < 0.001, "{lost_s}");
        let text = story["summary"].as_str().expect("a text");
        let expected =
            "the memory limit of its control group had evicted (/shop, memory.max 67.1 MB;";
        assert!(text.contains(expected), "{text}");
        let lost = "Those reads took 4.50 s of 6.00 s of I/O time (75 %).";
        assert!(text.contains(lost), "{text}");
        // A group that reads little again reads for another reason.
        let report = report_of(500 * 4096);
        assert!(entries(&report, &meta, &Names::default(), &facts).is_empty());
    }

    #[test]
    fn a_muted_story_is_left_out() {
        let (report, meta, names) = shop_behind_backup();
        let all = named_stories(&report, &meta, &names, &RecordingFacts::default());
        assert_eq!(all.len(), 1);
        let facts = RecordingFacts {
            muted: [all[0].id.clone()].into(),
            ..RecordingFacts::default()
        };
        assert!(named_stories(&report, &meta, &names, &facts).is_empty());
        let text = shown(&facts, 112);
        assert!(text.contains("  1 story is muted (--mute)\n"), "{text}");
        assert!(!text.contains(NO_STORY), "{text}");
    }

    #[test]
    fn nothing_is_said_of_waits_where_no_single_io_was_recorded() {
        let unknown = "no single I/Os were recorded, so who waited for whom is not known";
        let lost = Lost {
            ios: Some(7),
            ..Lost::somewhere(0, 10, LossReason::Corrupt)
        };
        let cases = [
            (Source::Counters, None, Some(0), unknown),
            (Source::Import("iostat".to_owned()), None, Some(0), unknown),
            (
                Source::Import("blktrace".to_owned()),
                None,
                Some(5),
                NO_STORY,
            ),
            (Source::Ebpf, Some(lost), Some(0), unknown),
            (Source::Ebpf, None, Some(0), NO_STORY),
        ];
        for (source, lost, total_ios, expected) in cases {
            let meta = RecordingMeta::new(source, 0);
            let facts = RecordingFacts {
                total_ios,
                ..RecordingFacts::default()
            };
            let mut builder = ReportBuilder::new(Window::OPEN);
            lost.iter().for_each(|lost| builder.lost(lost));
            let report = builder.finish(10);
            let times = Times::utc(&meta);
            let names = Names::default();
            let text =
                story_text::section(&report, &meta, &names, &facts, &times, Layout::PLAIN, 40);
            assert!(text.contains(expected), "{}, {lost:?}: {text}", meta.source);
        }
    }

    #[test]
    fn a_program_that_did_not_wait_is_cleared_when_asked_for() {
        let facts = RecordingFacts {
            victim: Some("backup".to_owned()),
            ..RecordingFacts::default()
        };
        let (report, _, names) = shop_behind_backup();
        let backup = cleared(&report, &names, &facts).expect("it lost nothing");
        let text = "Not the disk: of 99 I/Os of backup (12) none took longer than 19.0 ms";
        assert!(backup.summary.starts_with(text), "{}", backup.summary);
        let shop = RecordingFacts {
            victim: Some("shop\x1b[31m".to_owned()),
            ..RecordingFacts::default()
        };
        assert!(cleared(&report, &names, &shop).is_none(), "it was hurt");
    }

    fn asking_for(name: &str) -> RecordingFacts {
        RecordingFacts {
            victim: Some(name.to_owned()),
            ..RecordingFacts::default()
        }
    }

    #[test]
    fn stories_of_the_program_that_is_asked_for_come_first() {
        let (mut report, meta, names) = shop_behind_backup();
        for name in [&b"mail"[..], b"web"] {
            let mut story = report.stories[0].clone();
            story.victim.comm = Some(Comm::new(name));
            report.stories.push(story);
        }
        let facts = asking_for("web");
        let layout = Layout {
            width: 112,
            colour: false,
        };
        let times = Times::utc(&meta);
        let text = story_text::section(&report, &meta, &names, &facts, &times, layout, 40);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let places = ["Reads of web", "Reads of shop", "Reads of mail"].map(|s| words.find(s));
        assert!(places.iter().all(Option::is_some), "{text}");
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn what_a_screen_has_no_room_for_is_in_the_whole_text_or_else_in_the_document() {
        let (mut report, meta, names) = shop_behind_backup();
        let facts = RecordingFacts::default();
        let layout = Layout {
            width: 112,
            colour: false,
        };
        let times = Times::utc(&meta);
        let story = report.stories[0].clone();
        report.stories.resize(5, story.clone());
        let text = story_text::section(&report, &meta, &names, &facts, &times, layout, 8);
        assert!(text.contains("  and 4 more stories: --full\n"), "{text}");
        let text = story_text::section(&report, &meta, &names, &facts, &times, layout, usize::MAX);
        assert!(!text.contains("more stories"), "{text}");
        report.stories.resize(7, story);
        let text = story_text::section(&report, &meta, &names, &facts, &times, layout, usize::MAX);
        assert!(text.contains("  and 2 more stories: --json\n"), "{text}");
    }

    #[test]
    fn that_a_program_that_is_asked_for_had_no_io_is_said() {
        let text = shown(&asking_for("nginx\x1b[2J"), 112);
        assert!(
            text.contains("no I/O of nginx\\x1b[2J in this time"),
            "{text}"
        );
        assert!(!shown(&asking_for("backup"), 112).contains("no I/O"));
        let (mut report, ..) = shop_behind_backup();
        report.actors.others.ios = 1;
        let text = absent(&report, "nginx").expect("none is known");
        assert_eq!(text, "no I/O of nginx is known in this time");
    }

    #[test]
    fn beside_a_warning_about_a_device_no_program_is_cleared() {
        let (mut report, meta, names) = shop_behind_backup();
        report.stories.clear();
        report.findings = vec![Finding {
            dev: Some(report.waits[0].dev),
            from_ns: 0,
            to_ns: 1,
            severity: Severity::Warning,
            evidence: Evidence::IoError(IoErrorEvidence {
                ios: 1,
                by_error: [(5, 1)].into(),
                first_class: Class::Read,
                first_sector: None,
                first_done_s: 0.0,
                first_process: None,
                first_pid: None,
            }),
        }];
        let facts = RecordingFacts {
            victim: Some("backup".to_owned()),
            ..RecordingFacts::default()
        };
        assert!(cleared(&report, &names, &facts).is_none());
        let layout = Layout {
            width: 112,
            colour: false,
        };
        let times = Times::utc(&meta);
        let text = story_text::section(&report, &meta, &names, &facts, &times, layout, 40);
        assert!(
            text.contains("no program made another wait for long"),
            "{text}"
        );
        assert!(!text.contains("Not the disk"), "{text}");
    }
}
