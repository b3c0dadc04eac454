//! The full report as text for a terminal: findings, devices, processes, details of each device, and how far to trust
//! it.

use std::collections::BTreeSet;
use std::fmt::Write;

use iolens_core::analysis::bursts::detail::BurstDetail;
use iolens_core::analysis::bursts::links::LinkDetail;
use iolens_core::analysis::{ClassSummary, DeviceSummary, Finding, Report, Severity};
use iolens_core::model::{Class, DevId, RecordingMeta, Source};

use indicatif::HumanCount;

use super::actors;
use super::escape::terminal;
use super::estimator;
use super::findings as words;
use super::layout::{self, Layout, Role, count_of, number, size};
use super::report_detail_text;
use super::report_json::{
    RecordingFacts, bytes_per_io, counted_above, cpu_percent, device_name, device_names,
    finding_place, is_above, link_name, losses,
};
use super::rows_shown::RowsShown;
use super::story_text;
use super::times::Times;
use super::waits;
use iolens_core::model::Names;

/// Renders the full report; if `facts` names devices, only of these.
pub fn render(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    times: &Times,
    layout: Layout,
) -> String {
    let mut out = layout.sentences(&head(report, meta, facts, times));
    out.push_str(&story_text::section(
        report,
        meta,
        names,
        facts,
        times,
        layout,
        usize::MAX,
    ));
    out.push_str(&heading(layout, "Findings"));
    out.push_str(&list_of(report, meta, facts, times, layout, false));
    out.push_str(&heading(layout, "Who waited for whom"));
    let waited = who_waited(report, meta, facts, layout);
    if story_text::lacks_ios(report, meta, facts) {
        out.push_str(&layout.sentences(&format!("  {}\n", story_text::NO_IOS)));
    } else if waited.is_empty() {
        out.push_str("  no process lost a twentieth of its I/O time\n");
    } else {
        out.push_str(&waited);
    }
    out.push('\n');
    devices(&mut out, report, meta, &facts.detailed, layout);
    out.push_str(&heading(layout, "Processes"));
    let table = processes(report, meta, names, facts, layout);
    out.push_str(if table.is_empty() {
        "  none known\n"
    } else {
        &table
    });
    out.push('\n');
    devices_in_depth(&mut out, report, meta, &facts.detailed, times, layout);
    out.push_str(&heading(layout, "Facts"));
    out.push_str(&list_of(report, meta, facts, times, layout, true));
    out.push_str(&heading(layout, "Data quality"));
    out.push_str(&layout.sentences(&quality(report, meta, facts, times)));
    out
}

/// The findings or facts about the selected devices, followed by an empty line.
fn list_of(
    report: &Report,
    meta: &RecordingMeta,
    facts: &RecordingFacts,
    times: &Times,
    layout: Layout,
    is_fact: bool,
) -> String {
    let mut out = String::new();
    for f in &report.findings {
        if f.is_fact() == is_fact && is_about(f, &facts.detailed) {
            finding(&mut out, f, meta, times, layout);
        }
    }
    if out.is_empty() {
        out.push_str("  none\n");
    }
    out + "\n"
}

/// Maximum number of rows in the table of processes; `--json` has more.
const MAX_PROCESSES: usize = 50;

fn processes(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    layout: Layout,
) -> String {
    let shown = RowsShown::of_asked(facts, MAX_PROCESSES);
    actors::table(report, meta, names, &shown, layout)
}

/// Maximum number of rows in the table of waits; `--json` has more.
const MAX_WAITS: usize = 8;

fn who_waited(
    report: &Report,
    meta: &RecordingMeta,
    facts: &RecordingFacts,
    layout: Layout,
) -> String {
    let shown = RowsShown::of_asked(facts, MAX_WAITS);
    waits::table(report, meta, &shown, layout)
}

/// Whether `f` is about one of `devices` (empty: all), or about the recording as a whole.
fn is_about(f: &Finding, devices: &BTreeSet<DevId>) -> bool {
    let is_of_link = f.link().iter().any(|dev| devices.contains(dev));
    let is_of_device = f.dev.is_some_and(|dev| devices.contains(&dev));
    let is_of_all = f.dev.is_none() && f.link().is_empty();
    devices.is_empty() || is_of_link || is_of_device || is_of_all
}

fn heading(layout: Layout, title: &str) -> String {
    layout.paint(Role::Heading, title) + "\n"
}

pub(super) fn head(
    report: &Report,
    meta: &RecordingMeta,
    facts: &RecordingFacts,
    times: &Times,
) -> String {
    let mut out = String::new();
    let window = report.devices.window;
    let started = times.full(window.from_ns);
    let _ = writeln!(
        out,
        "{}: {:.3} s from {started}, host {}, kernel {}, source {}",
        terminal(&facts.path),
        window.len_s(),
        or_unknown(meta.host.as_deref()),
        or_unknown(meta.kernel.as_deref()),
        terminal(&meta.source.to_string()),
    );
    // An I/O of a stacked device is counted once, on the disk under it.
    let (ios_above, bytes_above) = counted_above(report, meta, facts);
    let ios = report.devices.ios - ios_above;
    let bytes = report.devices.bytes - bytes_above;
    let lost = report
        .devices
        .lost_ios_without(|dev| is_above(dev, meta, facts));
    let lost = match lost {
        Some(0) => "none lost".to_owned(),
        Some(n) => format!("{} lost", HumanCount(n)),
        None => "some lost, number unknown".to_owned(),
    };
    let ios = report.devices.known_ios().map_or_else(
        || "unknown number of I/Os".to_owned(),
        |_| count_of(ios, "I/O"),
    );
    let bytes = report
        .devices
        .known_bytes()
        .map_or_else(|| "unknown size".to_owned(), |_| size(bytes as f64));
    let _ = writeln!(out, "{ios}, {bytes}, {lost}");
    if !facts.layers.is_empty() {
        let names: Vec<String> = facts
            .layers
            .keys()
            .map(|dev| device_name(meta, *dev))
            .collect();
        let ios = if ios_above > 0 {
            format!(" ({})", count_of(ios_above, "I/O"))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "sums count the bottom layer; not in them: {}{ios}",
            terminal(&names.join(", "))
        );
    }
    out.push('\n');
    out
}

fn or_unknown(name: Option<&str>) -> String {
    terminal(name.unwrap_or("unknown")).into_owned()
}

/// Only the stories, and at most `most` findings: first one of each kind, then the others in order.
pub fn stories_and_findings(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    most: usize,
    times: &Times,
    layout: Layout,
) -> String {
    let facts = RecordingFacts::default();
    let mut out = story_text::section(report, meta, names, &facts, times, layout, usize::MAX);
    let all: Vec<&Finding> = report.findings.iter().filter(|f| !f.is_fact()).collect();
    if all.is_empty() {
        return out;
    }
    out.push_str(&heading(layout, "Findings"));
    let mut order = first_of_each_kind_first(&all);
    let kinds = order.iter().filter(|i| is_first_of_kind(&all, **i)).count();
    order.truncate(most.max(kinds));
    order.sort_unstable();
    order
        .iter()
        .for_each(|i| finding(&mut out, all[*i], meta, times, layout));
    if order.len() < all.len() {
        let _ = writeln!(
            out,
            "  and {} more of these kinds: iolens report --full",
            all.len() - order.len()
        );
    }
    out.push('\n');
    out
}

/// The story of the process that made the recording; all stories if there is none.
pub fn own_story(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    times: &Times,
    layout: Layout,
) -> String {
    let own = meta.recorder_tgid;
    let own_story = report
        .stories
        .iter()
        .find(|s| own.is_some() && s.victim.tgid == own && s.class == Class::Read);
    match own_story {
        Some(story) => story_text::only(report, story, meta, names, times, layout),
        None => {
            let facts = RecordingFacts::default();
            story_text::section(report, meta, names, &facts, times, layout, usize::MAX)
        }
    }
}

fn is_first_of_kind(all: &[&Finding], i: usize) -> bool {
    all[..i].iter().all(|f| f.kind() != all[i].kind())
}

/// Indices of findings: first one of each kind, then the others, each in the order of `all`.
pub(super) fn first_of_each_kind_first(all: &[&Finding]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| !is_first_of_kind(all, *i));
    order
}

pub(super) fn finding(
    out: &mut String,
    f: &Finding,
    meta: &RecordingMeta,
    times: &Times,
    layout: Layout,
) {
    // The severity and the blanks around it.
    const INDENT: usize = 12;
    let device = finding_place(f, meta).unwrap_or_else(|| "all devices".to_owned());
    let role = if f.severity == Severity::Warning {
        Role::Warning
    } else {
        Role::Info
    };
    let severity = layout.paint(role, &format!("{:<8}", f.severity.name()));
    let head = format!(
        "{}, {}, {}",
        f.kind().name(),
        terminal(&device),
        times.span(f.from_ns, f.to_ns)
    );
    let head = layout.paragraph(&head, INDENT);
    let _ = write!(out, "  {severity}  {}", head.trim_start());
    let summary = words::summary(f, times);
    out.push_str(&layout.paragraph(&terminal(&summary), INDENT));
}

/// Columns of the table of devices; classes are indented below their device.
const COLUMNS: [&str; 11] = [
    "Device, class",
    "I/Os",
    "size",
    "mean us",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "queue us",
    "device us",
    "%seq",
];

fn is_shown(dev: DevId, devices: &BTreeSet<DevId>) -> bool {
    devices.is_empty() || devices.contains(&dev)
}

/// The table of the devices in `shown` (empty: all).
fn devices(
    out: &mut String,
    report: &Report,
    meta: &RecordingMeta,
    shown: &BTreeSet<DevId>,
    layout: Layout,
) {
    let mut rows = Vec::new();
    for d in &report.devices.devices {
        if is_shown(d.dev, shown) {
            rows.extend(device_rows(d, report, meta));
        }
    }
    out.push_str(&layout.table(&COLUMNS.map(str::to_owned), &rows, 1, |i| i == 0));
    if rows.is_empty() {
        out.push_str("  no I/O\n");
    }
    out.push('\n');
}

/// The details of the devices in `shown` (empty: all, and links), one after another.
fn devices_in_depth(
    out: &mut String,
    report: &Report,
    meta: &RecordingMeta,
    shown: &BTreeSet<DevId>,
    times: &Times,
    layout: Layout,
) {
    for d in &report.devices.devices {
        if is_shown(d.dev, shown) {
            out.push_str(&heading(layout, &terminal(&device_name(meta, d.dev))));
            device(out, d, report, times, layout);
        }
    }
    if shown.is_empty() && report.set.members.len() > 1 {
        set(out, report, meta, times, layout);
    }
    let mut links = String::new();
    for l in report.links.iter().filter(|_| shown.is_empty()) {
        link(&mut links, l, meta, times);
    }
    out.push_str(&layout.sentences(&links));
    out.push('\n');
}

/// Devices behind one link (A13).
fn link(out: &mut String, l: &LinkDetail, meta: &RecordingMeta, times: &Times) {
    let name = terminal(&link_name(&l.link.devices, meta)).into_owned();
    let _ = writeln!(
        out,
        "link {name}, which carries {}/s",
        size(l.link.limit.bytes_per_s)
    );
    for s in l.streams.iter().filter(|s| s.bytes > 0) {
        let class = if s.class == Class::Read {
            "reads"
        } else {
            "writes"
        };
        let bursts = match s.bursts.iter().rev().max_by_key(|b| b.burst.bytes) {
            None => "no burst reaches half of it".to_owned(),
            Some(BurstDetail { burst: b, .. }) => format!(
                "{} bursts reach half of it, the largest {} in {:.2} s from {} on, at its peak at least {:.1} % of it",
                s.bursts_found,
                size(b.bytes as f64),
                (b.to_ns - b.from_ns) as f64 / 1e9,
                times.instant(b.from_ns),
                b.percent_of_limit
            ),
        };
        let _ = writeln!(out, "  {class} {}: {bursts}", size(s.bytes as f64));
    }
}

/// All devices together (A4).
fn set(out: &mut String, report: &Report, meta: &RecordingMeta, times: &Times, layout: Layout) {
    let set = &report.set;
    let above = match &*set.left_out {
        [] => String::new(),
        layers => {
            let names = device_names(layers, meta).join(", ");
            format!(" (without the layers above: {names})")
        }
    };
    let names = device_names(&set.members, meta).join(", ");
    let title = format!("{} devices together: {names}{above}", set.members.len());
    let lines = format!(
        "{}\n  any busy {} (reads {}, writes {}, both {}), mean of devices {}, busiest {}\n  \
         in flight mean {}, p99 {}, max {}\n",
        terminal(&title),
        percent(set.busy_percent),
        percent(set.busy_read_percent),
        percent(set.busy_write_percent),
        percent(set.busy_both_percent),
        percent(set.mean_busy_percent),
        percent(set.max_busy_percent),
        number(set.concurrency.mean, 2),
        count(set.concurrency.p99),
        count(set.concurrency.max),
    );
    out.push_str(&layout.sentences(&lines));
    if let Some(slots) = &report.set_slots {
        report_detail_text::slots(out, slots, times, layout);
    }
}

fn device_rows(d: &DeviceSummary, report: &Report, meta: &RecordingMeta) -> Vec<Vec<String>> {
    let mut rows = vec![vec![terminal(&device_name(meta, d.dev)).into_owned()]];
    for (class, c) in classes_with_ios(d, report) {
        let few = if c.low_n && c.ios.is_some() {
            " (few)"
        } else {
            ""
        };
        rows.push(class_row(&format!("  {class}{few}"), &c));
    }
    rows
}

/// The classes with known activity; `all` are the totals of imported tables over all classes.
pub(super) fn classes_with_ios(
    d: &DeviceSummary,
    report: &Report,
) -> Vec<(&'static str, ClassSummary)> {
    let mut classes = Vec::new();
    for class in Class::ALL {
        let c = d.class(class);
        let moved = c.bytes > Some(0) || c.mean_us.is_some();
        if c.ios > Some(0) || (c.ios.is_none() && moved) {
            classes.push((class.name(), c.clone()));
        }
    }
    let Some(all) = report.all_classes.get(&d.dev) else {
        return classes;
    };
    if all.ios.is_some() || all.bytes.is_some() || all.mean_us.is_some() {
        let together = ClassSummary {
            ios: all.ios,
            bytes: all.bytes,
            mean_us: all.mean_us,
            ..ClassSummary::default()
        };
        classes.push(("all", together));
    }
    classes
}

fn device(out: &mut String, d: &DeviceSummary, report: &Report, times: &Times, layout: Layout) {
    let mut lines = String::new();
    if let Some(us) = report
        .all_classes
        .get(&d.dev)
        .and_then(|all| all.service_us)
    {
        let _ = writeln!(lines, "  svctm {us:.1} us (obsolete: busy time by I/Os)");
    }
    // If the kernel's figure can be checked, it is printed in the details with its assessment.
    let is_checked = report.detail(d.dev).is_some_and(|own| own.util.is_some());
    let util = if is_checked {
        String::new()
    } else {
        let util = report.util_io_ticks_percent.get(&d.dev).copied();
        format!("; the kernel's %util {}", percent(util))
    };
    let _ = writeln!(
        lines,
        "  busy {} (reads {}, writes {}{util}); in flight mean {}, p50 {}, p75 {}, p99 {}, max {}",
        percent(d.busy_percent),
        percent(d.busy_read_percent),
        percent(d.busy_write_percent),
        number(d.concurrency.mean, 2),
        count(d.concurrency.p50),
        count(d.concurrency.p75),
        count(d.concurrency.p99),
        count(d.concurrency.max),
    );
    out.push_str(&layout.sentences(&lines));
    if let Some(detail) = report.detail(d.dev) {
        report_detail_text::detail(out, detail, times, layout);
    }
}

fn class_row(name: &str, c: &ClassSummary) -> Vec<String> {
    vec![
        name.to_owned(),
        count(c.ios),
        c.bytes.map_or_else(|| "-".to_owned(), |b| size(b as f64)),
        number(c.mean_us, 1),
        number(c.p50_us, 1),
        number(c.p99_us, 1),
        number(c.p999_us, 1),
        number(c.max_us, 1),
        number(c.queue_mean_us, 1),
        number(c.device_mean_us, 1),
        number(c.sequential_percent, 1),
    ]
}

fn quality(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts, times: &Times) -> String {
    let mut out = lost_ios(report, times);
    let s = &report.devices;
    if s.censored_ios > 0 {
        let _ = writeln!(
            out,
            "  {} in flight when recording began: not counted",
            count_of(s.censored_ios, "I/O")
        );
    }
    if s.clipped.ios > 0 {
        let n = s.clipped.ios;
        let sec = s.clipped.ns as f64 / 1e9;
        let _ = writeln!(
            out,
            "  {n} I/Os outlived a million others: {sec:.3} s of their time are missing from busy times"
        );
    }
    if s.devices
        .iter()
        .flat_map(|d| &d.classes)
        .any(|c| c.ios > Some(0) && c.low_n)
    {
        out.push_str("  (few): fewer than 30 I/Os, percentiles mean little\n");
    }
    match meta.source {
        Source::Ebpf => {}
        Source::Counters => {
            out.push_str("  source counters: rates and means only, no percentiles, no single I/O\n")
        }
        Source::Import(_) => {
            out.push_str("  imported: what the other tool left out is unknown here\n")
        }
    }
    let hz = meta
        .kernel_hz
        .map_or_else(|| "unknown".to_owned(), |hz| hz.to_string());
    let _ = writeln!(
        out,
        "  kernel {}, HZ {hz}",
        terminal(meta.kernel.as_deref().unwrap_or("unknown"))
    );
    if let Some(regime) = report.regime {
        let _ = writeln!(out, "  %util: {}", estimator::about(regime));
    }
    for limit in &meta.limits {
        let _ = writeln!(out, "  not seen: {}", terminal(limit));
    }
    let _ = writeln!(out, "  recorder: {}", cost(meta, facts));
    out.push_str(
        "  latency is start to done (queue + device); percentiles are nearest rank, within 0.4 % above 65536 I/Os;\n",
    );
    out.push_str(
        "  %seq: begins where the previous I/O of the same device and class, by start, ended\n",
    );
    out
}

/// The total number of lost I/Os, and when they were lost.
fn lost_ios(report: &Report, times: &Times) -> String {
    let mut out = String::new();
    let s = &report.devices;
    let _ = match s.lost_ios {
        Some(0) => writeln!(out, "  losses: none"),
        Some(n) => {
            writeln!(
                out,
                "  losses: {}, {:.3} % of all",
                count_of(n, "I/O"),
                100.0 * n as f64 / (n + s.ios) as f64
            )
        }
        None => writeln!(out, "  losses: some, their number is unknown"),
    };
    for (f, lost) in losses(report) {
        let n = lost
            .ios
            .map_or_else(|| "unknown number".to_owned(), |n| n.to_string());
        let reason = lost.reason.name();
        let when = times.span(f.from_ns, f.to_ns);
        let _ = writeln!(
            out,
            "    {n} ({reason}) within {when}; excluded from all figures above"
        );
    }
    out
}

/// The cost of recording.
pub(super) fn cost(meta: &RecordingMeta, facts: &RecordingFacts) -> String {
    format!(
        "{} % of one CPU, {} of memory, {} on disk, {} bytes per I/O",
        number(cpu_percent(meta, facts.unrecorded_ns), 2),
        size_or_dash(meta.cost.max_rss_bytes),
        size_or_dash(facts.disk_bytes),
        number(bytes_per_io(facts), 1),
    )
}

fn size_or_dash(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| size(bytes as f64))
}

fn percent(v: Option<f64>) -> String {
    layout::percent(v, 2, "unknown")
}

fn count(v: Option<u64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::report_json::tests::sample;
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};

    #[test]
    fn the_text_says_findings_first_and_escapes_names() {
        let (report, meta, facts) = sample();
        let text = render(
            &report,
            &meta,
            &Names::default(),
            &facts,
            &Times::utc(&meta),
            Layout::PLAIN,
        );
        insta::assert_snapshot!(text);
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn findings_fit_a_terminal_of_fifty_columns() {
        let (report, meta, _) = sample();
        let layout = Layout {
            width: 50,
            colour: false,
        };
        let mut text = String::new();
        for f in &report.findings {
            finding(&mut text, f, &meta, &Times::utc(&meta), layout);
        }
        assert!(text.lines().all(|l| l.chars().count() <= 50), "{text}");
        let head = "  critical  io-error, 259:3, 22:13:29.500 to\n            22:13:29.500\n";
        assert!(text.contains(head), "{text}");
    }

    #[test]
    fn an_empty_recording_gives_an_honest_empty_report() {
        let meta = RecordingMeta::new(Source::Counters, 0);
        let text = render(
            &ReportBuilder::new(Window::OPEN).finish(0),
            &meta,
            &Names::default(),
            &RecordingFacts::default(),
            &Times::utc(&meta),
            Layout::PLAIN,
        );
        assert!(
            text.contains("0 I/Os, 0 B, none lost")
                && text.contains("no I/O")
                && text.contains("  none\n"),
            "{text}"
        );
    }
}
