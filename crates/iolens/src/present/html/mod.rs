//! The HTML report: one file that needs no network. The page (`web/`) is built in advance and embedded in the
//! program. This module inserts the data of one recording.

mod actors;
pub(super) mod capacity;
mod depth;
mod files;
mod inside;
mod levels;
mod pack;
mod tables;
mod view;

use iolens_core::analysis::Report;
use iolens_core::analysis::files::FilesReport;
use iolens_core::analysis::overview::{Distributions, Level, LossInterval, OverviewData};
use iolens_core::model::{HOUR_NS, Mark, Names, RecordingMeta, Source};
use serde::Serialize;
use serde_json::Value;

use super::escape;
use super::query_text;
use super::report_json::{self, DeviceStats, FindingBlock, Recording, RecordingFacts, device_name};
use super::times::Times;
use crate::engine::inside::Inside;
use crate::engine::page::Drawn;
use crate::engine::part::Part;
use actors::ActorBlock;
use capacity::CapacityBlock;
use depth::DepthBlock;
use inside::InsideBlock;
use levels::{DistributionsBlock, LevelBlock};
pub use tables::Tables;
use tables::TablesBlock;
use view::ViewBlock;
#[cfg(test)]
pub use view::has_page;
pub(super) use view::script_policy;
pub use view::{
    Application, View, application_policy, content_security_policy, render_application,
    render_nothing,
};

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Maximum size of a page without an application in bytes; data that does not fit is left out.
pub const MAX_BYTES: usize = 2 << 20;

/// Program name and version, included in every page.
pub(super) const WRITER: &str = concat!("iolens ", env!("CARGO_PKG_VERSION"));

const TITLE_MARKER: &str = "__TITLE__";
const DATA_MARKER: &str = "__DATA__";

/// The program was built without the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPage;

impl std::fmt::Display for NoPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this iolens was built without the HTML page: run `make web`, then build again")
    }
}

impl std::error::Error for NoPage {}

/// The input of an HTML report.
#[derive(Clone, Copy)]
pub struct ReportData<'a> {
    /// Results of the analyses.
    pub report: &'a Report,
    /// Metadata of the recording.
    pub meta: &'a RecordingMeta,
    /// Facts that only the caller knows.
    pub facts: &'a RecordingFacts,
    /// The whole window at several resolutions.
    pub overview: &'a OverviewData,
    /// Names of files and control groups.
    pub names: &'a Names,
    /// Additional notes on data quality.
    pub notes: &'a [Note],
    /// Marks on the time line.
    pub marks: &'a [Mark],
    /// File-level requests, grouped by process; `None` if none were recorded.
    pub files: Option<&'a FilesReport>,
    /// Imported tables; `None` if the recording has single I/Os.
    pub tables: Option<Tables<'a>>,
    /// The time range that a server's page was requested for; `None` for a file.
    pub view: Option<View>,
    /// Data for the application inside a file; `None` for a page without it.
    pub inside: Option<(&'a Part, &'a Inside)>,
}

impl ReportData<'_> {
    /// Whether an application, in the file or at the server, draws the I/O over time. It can only draw single I/Os:
    /// counters and imported tables have more columns than it shows.
    fn application_draws(&self) -> bool {
        self.tables.is_none() && self.meta.source != Source::Counters
    }
}

/// Additional input of a page.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a> {
    /// Additional notes.
    pub notes: &'a [Note],
    /// The time range that a server's page was requested for.
    pub view: Option<View>,
    /// Data for the application inside a file.
    pub inside: Option<&'a Inside>,
}

/// Renders the page of `report`, which is the analysis of `part`.
///
/// # Errors
/// This program was built without the page.
pub fn page(
    part: &Part,
    report: &Report,
    drawn: &Drawn,
    beside: Beside<'_>,
) -> Result<Vec<u8>, NoPage> {
    let tables = drawn.rates.as_deref().map(|rates| Tables {
        rates,
        cpu: &drawn.cpu,
    });
    render(&ReportData {
        report,
        meta: part.recording.meta(),
        facts: &RecordingFacts::of(part),
        overview: &drawn.overview,
        names: &part.names,
        notes: beside.notes,
        marks: &drawn.marks,
        files: drawn.files.as_ref(),
        tables,
        view: beside.view,
        inside: beside.inside.map(|inside| (part, inside)),
    })
}

/// A remark on the quality of the data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Note {
    /// Topic of the note.
    pub topic: String,
    /// Severity of the note.
    pub level: NoteLevel,
    /// The message, as text.
    pub text: String,
}

/// How serious a [`Note`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoteLevel {
    /// As it should be.
    Ok,
    /// Information only.
    Info,
    /// Numbers are worse for it.
    Warning,
}

/// What a report page is made of: the one JSON document embedded in it.
///
/// Times are nanoseconds (`_ns`) or seconds (`_s`) since the recording's start. Absent is `null`, or a missing key, never 0.
/// `recording`, `devices` and `findings` are the same blocks as `iolens report --json` prints.
///
/// Series are columns packed into text (`pack.rs`, `codec.ts`), so that an hour of 10 000 I/Os a second stays under 2 MiB:
/// counts are exact, latencies and mean concurrency are rounded to 1/64 octave (at most 0.55 % off).
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PageData<'a> {
    /// Version of the document's layout.
    format: u32,
    /// Program and version that wrote it.
    writer: &'static str,
    recording: Recording<'a>,
    devices: Vec<DeviceStats<'a>>,
    /// Conclusions, the most severe first.
    findings: Vec<FindingBlock>,
    /// Selectable scopes of the charts. The first is the initial one.
    scopes: Vec<ScopeBlock>,
    /// Detailed results per device, those with most I/O first. Not all devices are included if there are many.
    depth: Vec<DepthBlock<'a>>,
    /// Several devices together, and the I/O on links.
    #[cfg_attr(test, schemars(with = "Vec<depth::SetOfPage>"))]
    sets: Vec<Value>,
    /// Attribution: one row per process, cgroup or file and device.
    actors: Vec<ActorBlock>,
    /// Intervals in which I/Os are missing from the recording.
    lost_intervals: Vec<LossBlock>,
    /// Limits of the data quality, as text.
    quality: Vec<Note>,
    /// Marks on the time line, such as phases of an experiment and clock steps.
    marks: Vec<MarkBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// File-level requests; missing without any.
    #[cfg_attr(test, schemars(with = "Option<files::FilesBlock>"))]
    files: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Rows of imported tables; absent if the recording holds anything else.
    imported_tables: Option<TablesBlock>,
    /// Of a page made by a server: the displayed part of the server's data.
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<ViewBlock>,
    /// Of a file: what the application in it can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<InsideBlock>,
}

/// A set of devices whose I/O is drawn together. Layers of one stack are never in one set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ScopeBlock {
    label: String,
    /// Which devices, by name.
    device_names: Vec<String>,
    /// Explanation of the selection, shown below the selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The whole time, of counters and imported tables in several steps.
    levels: Vec<LevelBlock>,
    distributions: DistributionsBlock,
    /// `null` for several devices together.
    capacity: Option<CapacityBlock>,
    /// Nothing completed: not worth a choice.
    #[serde(skip)]
    idle: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LossBlock {
    start_s: f64,
    end_s: f64,
    reason: &'static str,
    ios: Option<i64>,
    /// Whether an overlapping slot may be off by more than 1 %.
    is_marked: bool,
    device: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MarkBlock<'a> {
    at_s: f64,
    kind: &'a str,
    text: &'a str,
}

/// Renders the report as a file.
///
/// # Errors
/// [`NoPage`] if this program was built without the page.
pub fn render(data: &ReportData) -> Result<Vec<u8>, NoPage> {
    // The application is only included if there is data for it.
    let page = match data.inside {
        Some(_) => FILE_PAGE,
        None => REPORT_PAGE,
    };
    page.map(|page| report(page, data)).ok_or(NoPage)
}

/// Number of bytes at the start of a file that [`is_page`] needs.
pub const PAGE_HEAD: u64 = 1 << 14;

/// Whether a file that starts with `head` is a page of this program, which is recognised by its title.
pub fn is_page(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    head.starts_with("<!doctype html>") && head.contains(" – iolens</title>")
}

/// Renders the page of an experiment as a file.
///
/// # Errors
/// [`NoPage`] if this program was built without the page.
pub(super) fn lab_page(title: &str, data: &impl Serialize) -> Result<Vec<u8>, NoPage> {
    LAB_PAGE
        .map(|page| fill(page, &format!("{title} – iolens"), &script_safe(data)))
        .ok_or(NoPage)
}

/// Inserts the report of `data` into `page`.
fn report(page: &str, data: &ReportData) -> Vec<u8> {
    let title = match &data.meta.host {
        Some(host) => format!("Disk I/O of {host} – iolens"),
        None => "Disk I/O – iolens".to_owned(),
    };
    fill(
        page,
        &title,
        &json(data, MAX_BYTES.saturating_sub(page.len())),
    )
}

/// Inserts title and data into `page` at its markers.
pub(super) fn fill(page: &str, title: &str, json: &str) -> Vec<u8> {
    // The page is split before anything is inserted, because the inserted text may contain a marker.
    let (head, rest) = page.split_once(TITLE_MARKER).unwrap_or((page, ""));
    let (body, tail) = rest.split_once(DATA_MARKER).unwrap_or((rest, ""));
    [head, &escape::html(title), body, json, tail]
        .concat()
        .into_bytes()
}

/// The data as JSON of about `budget` bytes, without anything that could end the script element that contains it.
fn json(data: &ReportData, budget: usize) -> String {
    let (depth, shallow) = depth::blocks(data);
    let mut document = PageData {
        format: 1,
        writer: WRITER,
        recording: report_json::recording(data.report, data.meta, data.facts),
        devices: (data.report.devices.devices.iter())
            .map(|d| report_json::device(d, data.report, data.meta))
            .collect(),
        findings: report_json::findings_and_facts(data.report, data.meta),
        scopes: scopes(data),
        depth,
        sets: depth::sets(data),
        actors: actors::blocks(data),
        lost_intervals: data
            .overview
            .losses
            .iter()
            .map(|l| loss(l, data.meta))
            .collect(),
        quality: quality(data),
        marks: data
            .marks
            .iter()
            .map(|m| MarkBlock {
                at_s: m.at_ns as f64 / 1e9,
                kind: &m.kind,
                text: &m.text,
            })
            .collect(),
        files: data.files.map(files::block),
        imported_tables: data
            .tables
            .map(|tables| tables::block(data, tables, budget / 2)),
        view: data.view.map(ViewBlock::from),
        inside: None,
    };
    if shallow > 0 {
        let text = depth::left_out_text(shallow);
        document.quality.push(Note {
            topic: "Depth".to_owned(),
            level: NoteLevel::Info,
            text,
        });
    }
    let mut used = script_safe(&document).len();
    while used > budget && document.scopes.len() > 1 {
        document.scopes.pop();
        used = script_safe(&document).len();
    }
    document.scopes.retain(|s| !s.idle);
    document.inside = data.inside.map(|(part, inside)| {
        // The budget excludes the size of the page itself.
        let page_bytes = MAX_BYTES.saturating_sub(budget);
        let taken = page_bytes + script_safe(&document).len();
        let most = max_file_bytes(inside.unix_ns.end - inside.unix_ns.start);
        InsideBlock::of(inside, part, data.report, most.saturating_sub(taken))
    });
    script_safe(&document)
}

/// Maximum size of a file with an application in bytes: 4 MiB for an hour, 10 MiB for a day.
fn max_file_bytes(length_ns: i64) -> usize {
    let hours = (length_ns as f64 / HOUR_NS as f64).clamp(1.0, 24.0);
    let share = (hours - 1.0) / 23.0;
    (4 << 20) + (share * f64::from(6 << 20)) as usize
}

/// JSON without `<`: in a script element, only `</script` and `<!--` have a special meaning.
pub(super) fn script_safe(document: &impl Serialize) -> String {
    // Structs with string keys cannot fail to serialise; if they did, the page would report damaged data.
    serde_json::to_string(document)
        .unwrap_or_default()
        .replace('<', "\\u003c")
}

fn scopes(data: &ReportData) -> Vec<ScopeBlock> {
    (0..data.overview.plan.scopes.len())
        .map(|i| scope(i, data))
        .collect()
}

fn scope(i: usize, data: &ReportData) -> ScopeBlock {
    let plan = &data.overview.plan;
    let devices: Vec<String> = plan.scopes[i]
        .devices
        .iter()
        .map(|d| device_name(data.meta, *d))
        .collect();
    let (label, note) = match &devices[..] {
        [one] => (one.clone(), None),
        many => (
            format!("All {} devices", many.len()),
            Some(note_on_sum(many, data)),
        ),
    };
    let alone = match plan.scopes[i].devices[..] {
        [dev] => Some(dev),
        _ => None,
    };
    let levels: Vec<&Level> = data
        .overview
        .levels
        .iter()
        .filter(|l| l.scope == i)
        .collect();
    let mut drawn = levels.clone();
    if data.application_draws() {
        // The finest level is needed for periods; everything else over time is drawn by the application.
        let finest = levels.iter().min_by_key(|l| l.step_ns);
        drawn = finest.into_iter().copied().collect();
    }
    let distributions = data.overview.distributions.get(i);
    ScopeBlock {
        label,
        device_names: devices,
        note,
        levels: drawn
            .into_iter()
            .map(|l| LevelBlock::new(l, plan.window.to_ns))
            .collect(),
        distributions: DistributionsBlock::new(distributions.unwrap_or(&Distributions::default())),
        capacity: alone
            .and_then(|dev| data.report.detail(dev))
            .map(|d| CapacityBlock::new(d, &Times::utc(data.meta))),
        idle: levels
            .iter()
            .flat_map(|l| &l.counts)
            .all(|c| c.ios == [0; 4]),
    }
}

/// The devices of a sum, and the stacked devices that it leaves out.
fn note_on_sum(devices: &[String], data: &ReportData) -> String {
    let mut above = Vec::new();
    for dev in data.facts.layers.keys() {
        above.push(device_name(data.meta, *dev));
    }
    let mut note = format!("The sum of {}.", devices.join(", "));
    if !above.is_empty() {
        note += &format!(
            " Each I/O counts once, on the bottom layer; left out: {}.",
            query_text::some_of(&above)
        );
    }
    note
}

fn loss(l: &LossInterval, meta: &RecordingMeta) -> LossBlock {
    LossBlock {
        start_s: l.from_ns as f64 / 1e9,
        end_s: l.to_ns as f64 / 1e9,
        reason: l.reason.name(),
        ios: l.ios,
        is_marked: l.marks,
        device: l.dev.map(|d| device_name(meta, d)),
    }
}

/// Notes on data quality: what the recording lacks, and what sums leave out.
fn quality(data: &ReportData) -> Vec<Note> {
    let mut out = capacity::util_notes(data);
    out.extend_from_slice(data.notes);
    if data.meta.source == Source::Counters {
        out.push(note("Counters only", NoteLevel::Warning, "This recording holds kernel counters, no single I/Os: there are no latency percentiles, no concurrency and no exact busy time.".to_owned()));
    }
    let above = data.facts.layers.iter();
    let above: Vec<String> = above
        .map(|(dev, on)| format!("{} (on {})", device_name(data.meta, *dev), on.join(", ")))
        .collect();
    if !above.is_empty() {
        let rule = "Sums over devices count an I/O once, on the bottom layer that was recorded. They leave out";
        out.push(note(
            "Layers",
            NoteLevel::Info,
            format!("{rule} {}.", above.join(", ")),
        ));
    }
    out.extend(
        data.meta
            .limits
            .iter()
            .map(|l| note("Limit", NoteLevel::Info, l.clone())),
    );
    let clipped = data.overview.clipped;
    if clipped.ios > 0 {
        out.push(note(
            "Very long I/Os",
            NoteLevel::Warning,
            format!("{} I/Os were in flight longer than could be followed: busy time and concurrency are short by {:.3} I/O-seconds.", clipped.ios, clipped.ns as f64 / 1e9),
        ));
    }
    out
}

fn note(topic: &str, level: NoteLevel, text: String) -> Note {
    Note {
        topic: topic.to_owned(),
        level,
        text,
    }
}

#[cfg(test)]
mod tests;
