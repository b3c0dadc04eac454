//! What `iolens diff` says of two stretches of time, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iolens_core::analysis::compare::{Change, MIN_CHANGE_PERCENT, Measure};
use iolens_core::analysis::stories::StoryKind;
use iolens_core::model::{Class, Comm};
use serde::Serialize;

use super::NOT_KNOWN;
use super::escape::terminal;
use super::findings::words::plural;
use super::indent::indented;
use super::layout::{Layout, Role, count_of, number, size};
use super::report_json::RecordingFacts;
use super::stories::{self, StoryNews};
use super::story_text;
use super::times::Times;
use crate::engine::diff::{
    ComparedStretch, Condition, ConditionResult, DeviceChanges, WaitCause, WaitChange,
};

/// Columns of `Before` and `After` with the blanks behind them.
const LABEL: usize = 8;

/// Waits that the text shows.
const MAX_WAITS: usize = 8;

/// Waits of the document.
const MAX_WAIT_ENTRIES: usize = 200;

/// A wait is shown if it differs by as many seconds in each minute, or more.
const MIN_WAIT_S_PER_MIN: f64 = 0.06;

/// From this ratio of the time lost in a minute on a story has grown, and at its inverse it has shrunk.
const MIN_STORY_RATIO: f64 = 1.25;

/// Both stretches, and what was found.
pub struct Compared<'a> {
    /// The first one.
    pub before: &'a ComparedStretch,
    /// The other one.
    pub after: &'a ComparedStretch,
    /// Device by device.
    pub devices: &'a [DeviceChanges],
    /// The largest difference first.
    pub waits: &'a [WaitChange],
    /// The conditions that the user gave, with what became of them.
    pub verdicts: &'a [(&'a Condition, ConditionResult)],
    /// How the times of each are shown.
    pub times: [Times; 2],
}

/// Comparison of two time ranges.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffDocument<'a> {
    /// Version of the document's layout.
    schema_version: u32,
    /// The first time range.
    stretch_before: StretchEntry,
    /// The second time range.
    stretch_after: StretchEntry,
    /// Whether any measure of any device has changed.
    changed: bool,
    /// Devices with I/Os in either time range.
    devices: Vec<DeviceEntry<'a>>,
    /// Stories of either time range, matched by `id`, the largest difference first.
    stories: Vec<StoryChangeEntry>,
    /// Who waited for whom, the largest difference first.
    waits: Vec<WaitChangeEntry>,
    /// Result of each condition.
    conditions: Vec<ConditionEntry<'a>>,
}

/// One of the two time ranges.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StretchEntry {
    /// The recording.
    path: String,
    /// Start, in seconds since 1970; `null` if the recording has no date.
    start_unix_s: Option<f64>,
    /// Length of the time range.
    duration_s: f64,
    /// I/Os completed in the time range.
    ios: u64,
}

/// Changes on one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceEntry<'a> {
    /// Name of the device.
    device: &'a str,
    /// Whether the device has I/Os in the first time range.
    is_before: bool,
    /// Whether the device has I/Os in the second time range.
    is_after: bool,
    /// Changes of all measures, for all classes with I/Os on the device.
    changes: &'a [Change],
}

/// How a story changed between two time ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum StoryState {
    /// Only the second time range has it.
    Appeared,
    /// Only the first time range has it.
    Gone,
    /// The time lost per minute grew by a quarter or more.
    Grew,
    /// The time lost per minute shrank by a fifth or more.
    Shrank,
    /// The time lost per minute is about the same.
    Same,
}

impl StoryState {
    fn of(before_s_per_min: Option<f64>, after_s_per_min: Option<f64>) -> StoryState {
        match (before_s_per_min, after_s_per_min) {
            (None, _) => StoryState::Appeared,
            (_, None) => StoryState::Gone,
            (Some(before), Some(after)) if after >= MIN_STORY_RATIO * before => StoryState::Grew,
            (Some(before), Some(after)) if before >= MIN_STORY_RATIO * after => StoryState::Shrank,
            _ => StoryState::Same,
        }
    }
}

/// A story of one or both time ranges.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoryChangeEntry {
    /// Identifier of the story, as in `stories` of a report.
    id: String,
    /// How the story changed between the time ranges.
    outcome: StoryState,
    /// Mechanism by which time was lost.
    kind: StoryKind,
    /// Name of the device.
    device: String,
    /// Name of the program that lost time, with its process ID.
    victim_name: String,
    /// Names of the programs that caused it. Empty if no program did.
    culprit_names: Vec<String>,
    /// Seconds lost per minute of the first time range; `null` if it has no such story.
    before_s_per_min: Option<f64>,
    /// Seconds lost per minute of the second time range; `null` if it has no such story.
    after_s_per_min: Option<f64>,
    /// Text of the story in the second time range, or in the first if it is gone.
    summary: String,
}

impl StoryChangeEntry {
    fn difference_s_per_min(&self) -> f64 {
        let growth = self.after_s_per_min.unwrap_or(0.0) - self.before_s_per_min.unwrap_or(0.0);
        growth.abs()
    }
}

/// The stories of both stretches, the largest difference first.
fn story_changes(compared: &Compared<'_>) -> Vec<StoryChangeEntry> {
    let mut before: BTreeMap<String, (StoryNews, f64)> = BTreeMap::new();
    for (news, s_per_min) in stories_of(compared.before) {
        before.insert(news.id.clone(), (news, s_per_min));
    }
    let mut all = Vec::new();
    for (news, after_s_per_min) in stories_of(compared.after) {
        let earlier = before.remove(&news.id).map(|(_, s_per_min)| s_per_min);
        all.push(story_change(news, earlier, Some(after_s_per_min)));
    }
    for (news, before_s_per_min) in before.into_values() {
        all.push(story_change(news, Some(before_s_per_min), None));
    }
    all.sort_by(|a, b| {
        b.difference_s_per_min()
            .total_cmp(&a.difference_s_per_min())
    });
    all
}

fn story_change(
    news: StoryNews,
    before_s_per_min: Option<f64>,
    after_s_per_min: Option<f64>,
) -> StoryChangeEntry {
    StoryChangeEntry {
        id: news.id,
        outcome: StoryState::of(before_s_per_min, after_s_per_min),
        kind: news.kind,
        device: news.device,
        victim_name: news.victim,
        culprit_names: news.culprits,
        before_s_per_min,
        after_s_per_min,
        summary: news.summary,
    }
}

/// The stories of a stretch with the seconds lost in each of its minutes.
fn stories_of(stretch: &ComparedStretch) -> Vec<(StoryNews, f64)> {
    let part = &stretch.part;
    let facts = RecordingFacts::default();
    let entries = stories::entries(&stretch.report, part.recording.meta(), &part.names, &facts);
    let minutes = stretch.recorded_s() / 60.0;
    let mut all = Vec::new();
    for entry in entries {
        all.push((entry.news(), entry.harm_s() / minutes));
    }
    all
}

/// How long one program waited for one cause.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitChangeEntry {
    /// Name of the device.
    device: String,
    /// Name of the program that waited; `null` if programs are not known.
    victim_name: Option<String>,
    /// Class of the I/Os that waited.
    class: Class,
    /// Owner of the lost time: `program` (another program), `own-queue`, `held` (above the driver) or `device`.
    owner: &'static str,
    /// Name of the other program.
    culprit_name: Option<String>,
    /// Seconds that its I/Os waited per minute of the first time range.
    before_s_per_min: f64,
    /// Seconds that its I/Os waited per minute of the second time range.
    after_s_per_min: f64,
}

/// A condition of `--fail-if`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConditionEntry<'a> {
    /// The condition as typed by the user.
    condition: &'a str,
    /// `held`, `failed` (a device exceeded the limit), or `unknown` (too few I/Os).
    verdict: &'static str,
    /// Devices that exceeded the limit.
    device_names: &'a [String],
}

/// As JSON.
///
/// # Errors
/// None that occurs: every document can be written.
pub fn render_json(compared: &Compared<'_>) -> serde_json::Result<String> {
    let [times_before, times_after] = &compared.times;
    let mut devices = Vec::new();
    for device in compared.devices {
        devices.push(DeviceEntry {
            device: &device.device,
            is_before: device.is_before,
            is_after: device.is_after,
            changes: &device.changes,
        });
    }
    let waits = compared.waits.iter().take(MAX_WAIT_ENTRIES);
    let mut conditions = Vec::new();
    for (condition, verdict) in compared.verdicts {
        let (verdict, devices): (&str, &[String]) = match verdict {
            ConditionResult::Held => ("held", &[]),
            ConditionResult::Failed(devices) => ("failed", devices),
            ConditionResult::Unknown => ("unknown", &[]),
        };
        conditions.push(ConditionEntry {
            condition: &condition.text,
            verdict,
            device_names: devices,
        });
    }
    let document = DiffDocument {
        schema_version: super::SCHEMA_VERSION,
        stretch_before: stretch_entry(compared.before, times_before),
        stretch_after: stretch_entry(compared.after, times_after),
        changed: changes(compared).next().is_some(),
        devices,
        stories: story_changes(compared),
        waits: waits.map(wait_entry).collect(),
        conditions,
    };
    indented(&document)
}

fn stretch_entry(stretch: &ComparedStretch, times: &Times) -> StretchEntry {
    let unix_ns = times.unix_ns(stretch.part.range.start);
    StretchEntry {
        path: stretch.part.recording.path().display().to_string(),
        start_unix_s: unix_ns.map(|ns| ns as f64 / 1e9),
        duration_s: stretch.seconds(),
        ios: stretch.ios(),
    }
}

fn wait_entry(wait: &WaitChange) -> WaitChangeEntry {
    let (owner, culprit) = match wait.cause {
        WaitCause::Behind(program) => ("program", program),
        WaitCause::Own => ("own-queue", None),
        WaitCause::Held => ("held", None),
        WaitCause::Device => ("device", None),
    };
    WaitChangeEntry {
        device: wait.device.clone(),
        victim_name: wait.victim.map(|comm| comm.to_text().into_owned()),
        class: wait.class,
        owner,
        culprit_name: culprit.map(|comm| comm.to_text().into_owned()),
        before_s_per_min: wait.before_s_per_min,
        after_s_per_min: wait.after_s_per_min,
    }
}

/// The changes that are no chance, each with its device.
fn changes<'a>(
    compared: &'a Compared<'_>,
) -> impl Iterator<Item = (&'a DeviceChanges, &'a Change)> {
    compared.devices.iter().flat_map(|device| {
        let changed = device.changes.iter().filter(|change| change.changed);
        changed.map(move |change| (device, change))
    })
}

/// As text: what changed, who waits for whom now, and all measures.
pub fn render_text(compared: &Compared<'_>, layout: Layout) -> String {
    let mut out = String::new();
    let [times_before, times_after] = &compared.times;
    for (label, stretch, times) in [
        ("Before", compared.before, times_before),
        ("After", compared.after, times_after),
    ] {
        let path = stretch.part.recording.path().display().to_string();
        let range = &stretch.part.range;
        let head = format!(
            "{}, {} to {}, {}",
            terminal(&path),
            times.full(range.start),
            times.full(range.end),
            count_of(stretch.ios(), "I/O")
        );
        out.push_str(&layout.fact(label, &head, LABEL));
    }
    out.push('\n');
    out.push_str(&what_changed(compared, layout));
    out.push_str(&stories_section(&story_changes(compared), layout));
    out.push_str(&waits_table(compared.waits, layout));
    out.push_str(&measures_table(compared.devices, layout));
    for (condition, verdict) in compared.verdicts {
        out.push_str(&layout.sentences(&condition_line(condition, verdict)));
    }
    out
}

/// What became of a condition, as a person reads it in the log of a check.
fn condition_line(condition: &Condition, verdict: &ConditionResult) -> String {
    let text = match verdict {
        ConditionResult::Held => "held".to_owned(),
        ConditionResult::Failed(devices) => {
            format!("FAILED on {}", terminal(&devices.join(", ")))
        }
        ConditionResult::Unknown => "cannot be judged: too few I/Os".to_owned(),
    };
    format!("--fail-if '{}': {text}\n", terminal(&condition.text))
}

/// A line for each change that is no chance.
fn what_changed(compared: &Compared<'_>, layout: Layout) -> String {
    let mut out = layout.paint(Role::Heading, "What changed") + "\n";
    for device in compared.devices {
        let name = terminal(&device.device);
        match (device.is_before, device.is_after) {
            (true, false) => {
                let _ = writeln!(out, "  {name} has no I/O any more");
            }
            (false, true) => {
                let _ = writeln!(out, "  {name} had no I/O before");
            }
            _ => {}
        }
    }
    for (device, change) in changes(compared) {
        let line = format!("  {}", change_line(&device.device, change));
        out.push_str(&layout.sentences(&line));
    }
    if out.lines().count() == 1 {
        let _ = writeln!(
            out,
            "  nothing by {MIN_CHANGE_PERCENT} % or more that chance does not explain"
        );
    }
    out.push('\n');
    out
}

/// One change in words.
fn change_line(device: &str, change: &Change) -> String {
    let how_sure = match interval(change) {
        Some(known) => format!("95 % interval {known}"),
        None => "interval not known".to_owned(),
    };
    format!(
        "{} of {} of {}: {} to {}, {} ({how_sure})",
        title(change.measure),
        plural(change.class).to_lowercase(),
        terminal(device),
        value(change.measure, change.before),
        value(change.measure, change.after),
        percent(change.percent),
    )
}

/// The 95 % interval of a change, unless one of its ends is not known.
fn interval(change: &Change) -> Option<String> {
    let low = percent(Some(change.percent_low?));
    let high = percent(Some(change.percent_high?));
    Some(format!("{low} to {high}"))
}

/// Stories that are not the same, each in a paragraph.
fn stories_section(changes: &[StoryChangeEntry], layout: Layout) -> String {
    let mut changed = Vec::new();
    for change in changes {
        if change.outcome != StoryState::Same {
            changed.push(change);
        }
    }
    if changed.is_empty() {
        return String::new();
    }
    let mut out = layout.paint(Role::Heading, "Stories") + "\n";
    for change in changed.iter().take(story_text::MAX_STORIES) {
        let before = number(change.before_s_per_min, 2);
        let after = number(change.after_s_per_min, 2);
        let state = match change.outcome {
            StoryState::Appeared => format!("New, {after} s lost a minute"),
            StoryState::Gone => format!("Gone, {before} s lost a minute before"),
            StoryState::Grew | StoryState::Shrank | StoryState::Same => {
                format!("{before} s lost a minute before, {after} after")
            }
        };
        let text = format!("{state}: {}", change.summary);
        out.push_str(&layout.paragraph(&terminal(&text), story_text::INDENT));
    }
    let left_out = changed.len().saturating_sub(story_text::MAX_STORIES);
    out.push_str(&story_text::left_out(left_out, "--json"));
    out.push('\n');
    out
}

fn waits_table(waits: &[WaitChange], layout: Layout) -> String {
    let columns = [
        "Who waits",
        "device",
        "class",
        "for",
        "before s/min",
        "after s/min",
    ];
    let mut rows = Vec::new();
    for wait in waits {
        // The largest change comes first, so that after a small one no large one follows.
        if rows.len() == MAX_WAITS || wait.growth_s_per_min().abs() < MIN_WAIT_S_PER_MIN {
            break;
        }
        let cause = match wait.cause {
            WaitCause::Behind(program) => program_name(program),
            WaitCause::Own => "its own I/Os".to_owned(),
            WaitCause::Held => "room above the driver".to_owned(),
            WaitCause::Device => "the device itself".to_owned(),
        };
        rows.push(vec![
            program_name(wait.victim),
            terminal(&wait.device).into_owned(),
            wait.class.name().to_owned(),
            cause,
            number(Some(wait.before_s_per_min), 2),
            number(Some(wait.after_s_per_min), 2),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    layout.table(&columns.map(str::to_owned), &rows, 4, |i| i < 4) + "\n"
}

fn program_name(program: Option<Comm>) -> String {
    match program {
        Some(comm) => terminal(&comm.to_text()).into_owned(),
        None => NOT_KNOWN.to_owned(),
    }
}

fn measures_table(devices: &[DeviceChanges], layout: Layout) -> String {
    let columns = [
        "Measure",
        "device",
        "before",
        "after",
        "change",
        "95 % interval",
    ];
    let mut rows = Vec::new();
    for device in devices
        .iter()
        .filter(|device| device.is_before && device.is_after)
    {
        for change in &device.changes {
            let is_empty = change.before.is_none() && change.after.is_none();
            // A flush has no bytes.
            let is_of_flushes =
                change.class == Class::Flush && change.measure == Measure::BytesPerS;
            if is_empty || is_of_flushes {
                continue;
            }
            rows.push(vec![
                format!("{} {}", change.class.name(), title(change.measure)),
                terminal(&device.device).into_owned(),
                value(change.measure, change.before),
                value(change.measure, change.after),
                percent(change.percent),
                interval(change).unwrap_or_else(|| "-".to_owned()),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    layout.table(&columns.map(str::to_owned), &rows, 2, |i| i < 2) + "\n"
}

fn title(measure: Measure) -> &'static str {
    match measure {
        Measure::IosPerS => "rate",
        Measure::BytesPerS => "throughput",
        Measure::MeanUs => "mean latency",
        Measure::P50Us => "p50",
        Measure::P90Us => "p90",
        Measure::P99Us => "p99",
        Measure::P999Us => "p99.9",
    }
}

fn value(measure: Measure, value: Option<f64>) -> String {
    let Some(known) = value else {
        return "-".to_owned();
    };
    match measure {
        Measure::IosPerS => format!("{}/s", number(value, 1)),
        Measure::BytesPerS => format!("{}/s", size(known)),
        _ if known >= 10_000.0 => format!("{} ms", number(Some(known / 1e3), 1)),
        _ => format!("{} us", number(value, 0)),
    }
}

fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |p| format!("{p:+.0} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_grew_if_a_quarter_more_is_lost_in_a_minute() {
        let cases = [
            (None, Some(1.0), StoryState::Appeared),
            (Some(1.0), None, StoryState::Gone),
            (Some(4.0), Some(5.0), StoryState::Grew),
            (Some(4.0), Some(4.9), StoryState::Same),
            (Some(4.0), Some(3.3), StoryState::Same),
            (Some(5.0), Some(4.0), StoryState::Shrank),
        ];
        for (before, after, expected) in cases {
            assert_eq!(StoryState::of(before, after), expected);
        }
    }

    fn rate_of_writes() -> Change {
        Change {
            class: Class::Write,
            measure: Measure::IosPerS,
            before: Some(0.2),
            after: Some(70.5),
            ios_before: 2,
            ios_after: 705,
            percent: Some(35133.0),
            percent_low: None,
            percent_high: None,
            p_value: Some(0.001),
            changed: true,
        }
    }

    #[test]
    fn an_interval_that_is_not_known_has_no_ends() {
        let unknown = rate_of_writes();
        assert_eq!(
            change_line("loop0", &unknown),
            "rate of writes of loop0: 0.2/s to 70.5/s, +35133 % (interval not known)"
        );
        let half = Change {
            percent_low: Some(900.0),
            ..unknown
        };
        assert_eq!(interval(&half), None);
        let known = Change {
            percent_high: Some(99000.4),
            ..half
        };
        assert_eq!(
            change_line("loop0", &known),
            "rate of writes of loop0: 0.2/s to 70.5/s, +35133 % (95 % interval +900 % to +99000 %)"
        );
    }

    #[test]
    fn a_check_that_fails_says_so() {
        let condition: Condition = "read.p99 > +10%".parse().expect("a condition");
        let failed = ConditionResult::Failed(vec!["sda".to_owned(), "sd\x1bb".to_owned()]);
        let line = condition_line(&condition, &failed);
        assert_eq!(
            line,
            "--fail-if 'read.p99 > +10%': FAILED on sda, sd\\x1bb\n"
        );
        let line = condition_line(&condition, &ConditionResult::Held);
        assert_eq!(line, "--fail-if 'read.p99 > +10%': held\n");
    }

    #[test]
    fn what_did_not_change_is_not_in_the_text() {
        let layout = Layout {
            width: 100,
            colour: false,
        };
        let change = |state, before: Option<f64>, after: Option<f64>| StoryChangeEntry {
            id: "0123456789ab".to_owned(),
            outcome: state,
            kind: StoryKind::SequentialScan,
            device: "sda".to_owned(),
            victim_name: "shop (7)".to_owned(),
            culprit_names: vec!["back\x1b[31mup (9)".to_owned()],
            before_s_per_min: before,
            after_s_per_min: after,
            summary: "back\x1b[31mup (9) reads".to_owned(),
        };
        let same = change(StoryState::Same, Some(2.0), Some(2.0));
        assert_eq!(stories_section(&[same], layout), "");
        let text = stories_section(
            &[
                change(StoryState::Appeared, None, Some(2.5)),
                change(StoryState::Gone, Some(1.25), None),
                change(StoryState::Grew, Some(1.0), Some(3.0)),
            ],
            layout,
        );
        let expected = "Stories
  New, 2.50 s lost a minute: back\\x1b[31mup (9) reads
  Gone, 1.25 s lost a minute before: back\\x1b[31mup (9) reads
  1.00 s lost a minute before, 3.00 after: back\\x1b[31mup (9) reads

";
        assert_eq!(text, expected);
    }
}
