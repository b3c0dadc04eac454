//! What `iolens diff` says of two stretches of time, as text and as JSON.

use std::fmt::Write as _;

use iolens_core::analysis::compare::{Change, MIN_CHANGE_PERCENT, Measure};
use iolens_core::model::Class;
use serde::Serialize;

use super::escape::terminal;
use super::findings::words::plural;
use super::indent::indented;
use super::layout::{Layout, Role, count_of, number, size};
use super::times::Times;
use crate::engine::diff::{
    ComparedStretch, Condition, ConditionResult, DeviceChanges, WaitCause, WaitChange,
};

/// Waits that the text shows.
const MAX_WAITS: usize = 8;

/// Waits of the document.
const MAX_WAIT_ENTRIES: usize = 200;

/// A wait is shown if it differs by as many seconds in each minute, or more.
const MIN_WAIT_S_PER_MIN: f64 = 0.06;

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

/// Two stretches compared.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffDocument<'a> {
    /// Version of this document's form.
    schema_version: u32,
    /// The first stretch.
    before: StretchEntry,
    /// The other one.
    after: StretchEntry,
    /// Whether any measure of any device has changed.
    changed: bool,
    /// Every device that has I/Os in one of them.
    devices: Vec<DeviceEntry<'a>>,
    /// Who waited for whom, the largest difference first.
    waits: Vec<WaitChangeEntry>,
    /// What became of each condition.
    conditions: Vec<ConditionEntry<'a>>,
}

/// One of the two stretches.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StretchEntry {
    /// The recording.
    path: String,
    /// Its beginning, since 1970; null where the recording has no date.
    from_unix_s: Option<f64>,
    /// Its length.
    length_s: f64,
    /// I/Os that completed in it.
    ios: u64,
}

/// What changed on one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceEntry<'a> {
    /// Its name.
    device: &'a str,
    /// Whether it has I/Os in the first stretch.
    is_before: bool,
    /// Whether it has I/Os in the other one.
    is_after: bool,
    /// All measures of all classes that it has I/Os of.
    changes: &'a [Change],
}

/// How long one program waited for one cause.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitChangeEntry {
    /// Name of the device.
    device: String,
    /// Who waited; null where programs are not known.
    victim: Option<String>,
    /// Class of the I/Os that waited.
    class: Class,
    /// What for: `behind` another program, `own` I/Os, `held` above the driver, or the `device`.
    cause: &'static str,
    /// The other program.
    behind: Option<String>,
    /// Seconds that its I/Os waited in each minute of the first stretch.
    before_s_per_min: f64,
    /// Seconds that its I/Os waited in each minute of the other stretch.
    after_s_per_min: f64,
}

/// A condition of `--fail-if`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConditionEntry<'a> {
    /// As it was typed.
    condition: &'a str,
    /// `held`, `passed` (the limit was), or `unknown`: too few I/Os to tell.
    verdict: &'static str,
    /// The devices that have passed the limit.
    devices: &'a [String],
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
            ConditionResult::Passed(devices) => ("passed", devices),
            ConditionResult::Unknown => ("unknown", &[]),
        };
        conditions.push(ConditionEntry {
            condition: &condition.text,
            verdict,
            devices,
        });
    }
    let document = DiffDocument {
        schema_version: super::report_json::SCHEMA_VERSION,
        before: stretch_entry(compared.before, times_before),
        after: stretch_entry(compared.after, times_after),
        changed: changes(compared).next().is_some(),
        devices,
        waits: waits.map(wait_entry).collect(),
        conditions,
    };
    indented(&document)
}

fn stretch_entry(stretch: &ComparedStretch, times: &Times) -> StretchEntry {
    let unix_ns = times.unix_ns(stretch.part.range.start);
    StretchEntry {
        path: stretch.part.recording.path().display().to_string(),
        from_unix_s: unix_ns.map(|ns| ns as f64 / 1e9),
        length_s: stretch.seconds(),
        ios: stretch.ios(),
    }
}

fn wait_entry(wait: &WaitChange) -> WaitChangeEntry {
    let (cause, behind) = match wait.cause {
        WaitCause::Behind(program) => ("behind", program),
        WaitCause::Own => ("own", None),
        WaitCause::Held => ("held", None),
        WaitCause::Device => ("device", None),
    };
    WaitChangeEntry {
        device: wait.device.clone(),
        victim: wait.victim.map(|comm| comm.to_text().into_owned()),
        class: wait.class,
        cause,
        behind: behind.map(|comm| comm.to_text().into_owned()),
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
        ("After ", compared.after, times_after),
    ] {
        let path = stretch.part.recording.path().display().to_string();
        let range = &stretch.part.range;
        let _ = writeln!(
            out,
            "{label}  {}, {} to {}, {}",
            terminal(&path),
            times.full(range.start),
            times.full(range.end),
            count_of(stretch.ios(), "I/O")
        );
    }
    out.push('\n');
    out.push_str(&what_changed(compared, layout));
    out.push_str(&waits_table(compared.waits, layout));
    out.push_str(&measures_table(compared.devices, layout));
    for (condition, verdict) in compared.verdicts {
        let text = match verdict {
            ConditionResult::Held => "held".to_owned(),
            ConditionResult::Passed(devices) => {
                format!("PASSED by {}", terminal(&devices.join(", ")))
            }
            ConditionResult::Unknown => "cannot be judged: too few I/Os".to_owned(),
        };
        let _ = writeln!(out, "--fail-if '{}': {text}", terminal(&condition.text));
    }
    out
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
        let _ = writeln!(
            out,
            "  {} of {} of {}: {} to {}, {} (95 % interval {} to {})",
            title(change.measure),
            plural(change.class).to_lowercase(),
            terminal(&device.device),
            value(change.measure, change.before),
            value(change.measure, change.after),
            percent(change.percent),
            percent(change.percent_low),
            percent(change.percent_high)
        );
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
        if rows.len() == MAX_WAITS || wait.growth_s_per_min().abs() < MIN_WAIT_S_PER_MIN {
            break;
        }
        let name = |program: Option<iolens_core::model::Comm>| match program {
            Some(comm) => terminal(&comm.to_text()).into_owned(),
            None => "(not known)".to_owned(),
        };
        let cause = match wait.cause {
            WaitCause::Behind(program) => name(program),
            WaitCause::Own => "its own I/Os".to_owned(),
            WaitCause::Held => "room above the driver".to_owned(),
            WaitCause::Device => "the device itself".to_owned(),
        };
        rows.push(vec![
            name(wait.victim),
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
    layout.table(&columns.map(str::to_owned), &rows, |i| i < 4) + "\n"
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
            let interval = match (change.percent_low, change.percent_high) {
                (Some(_), Some(_)) => format!(
                    "{} to {}",
                    percent(change.percent_low),
                    percent(change.percent_high)
                ),
                _ => "-".to_owned(),
            };
            rows.push(vec![
                format!("{} {}", change.class.name(), title(change.measure)),
                terminal(&device.device).into_owned(),
                value(change.measure, change.before),
                value(change.measure, change.after),
                percent(change.percent),
                interval,
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    layout.table(&columns.map(str::to_owned), &rows, |i| i < 2) + "\n"
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
        _ => format!("{} µs", number(value, 0)),
    }
}

fn percent(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |p| format!("{p:+.0} %"))
}
