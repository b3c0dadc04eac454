//! The first screen of a report: the most important results in at most 40 lines.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use iolens_core::analysis::{ClassSummary, DeviceSummary, Finding, Report};
use iolens_core::model::RecordingMeta;

use super::actors;
use super::escape::terminal;
use super::layout::{Layout, Role, count_of, number, size};
use super::record_text::shell_word;
use super::report_json::{RecordingFacts, device_name};
use super::report_text;
use super::rows_shown::RowsShown;
use super::story_text;
use super::times::Times;
use super::waits;
use iolens_core::model::Names;

/// Lines of the whole text on a terminal of at least 80 columns.
pub const MAX_LINES: usize = 40;
/// Maximum number of rows in the tables of devices and of processes; fewer of processes if several stories name the
/// relevant ones.
const MAX_ROWS: usize = 6;
const MAX_ROWS_BESIDE_STORIES: usize = 3;
/// Maximum number of rows in the table of waits.
const MAX_WAITS: usize = 3;
/// Maximum number of lines about what could not be observed.
const MAX_LIMITS: usize = 2;

/// Renders the summary.
pub fn render(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    times: &Times,
    layout: Layout,
) -> String {
    let head = layout.sentences(&report_text::head(report, meta, facts, times));
    let mut rest = waits(report, meta, facts, layout);
    rest.push_str(&devices(report, meta, facts, layout));
    rest.push_str(&processes(report, meta, names, facts, layout));
    rest.push_str(&layout.sentences(&quality(report, meta, facts)));
    rest.push_str(&layout.sentences(&more(facts)));
    // Stories get all lines that the other parts leave, then findings get the rest.
    let used = head.lines().count() + rest.lines().count();
    let most = MAX_LINES.saturating_sub(used);
    let least = findings(report, meta, MIN_FINDING_LINES.min(most), times, layout);
    let for_stories = most.saturating_sub(least.lines().count());
    let stories = story_text::section(report, meta, names, facts, times, layout, for_stories);
    let most = most.saturating_sub(stories.lines().count());
    let findings = findings(report, meta, most, times, layout);
    head + &stories + &findings + &rest
}

/// Number of lines reserved for findings, if there are that many.
const MIN_FINDING_LINES: usize = 8;

/// The findings that fit in `max_lines`, including the heading and the empty line at the end: first one of each kind,
/// then the others in the order of the report.
fn findings(
    report: &Report,
    meta: &RecordingMeta,
    max_lines: usize,
    times: &Times,
    layout: Layout,
) -> String {
    // Three lines are for the heading, the number of findings left out, and an empty line.
    let mut lines_left = max_lines.saturating_sub(3);
    let mut texts = Vec::new();
    let all: Vec<&Finding> = report.findings.iter().filter(|f| !f.is_fact()).collect();
    if all.is_empty() {
        return String::new();
    }
    for f in &all {
        let mut text = String::new();
        report_text::finding(&mut text, f, meta, times, layout);
        texts.push(text);
    }
    let mut chosen = BTreeSet::new();
    for i in report_text::first_of_each_kind_first(&all) {
        let lines = texts[i].lines().count();
        if chosen.is_empty() || lines <= lines_left {
            lines_left = lines_left.saturating_sub(lines);
            chosen.insert(i);
        }
    }
    let mut out = layout.paint(Role::Heading, "Findings") + "\n";
    for i in &chosen {
        out.push_str(&texts[*i]);
    }
    let left_out = texts.len() - chosen.len();
    if left_out > 0 {
        let _ = writeln!(
            out,
            "  and {}: --full",
            count_of(left_out as u64, "more finding")
        );
    }
    out.push('\n');
    out
}

const COLUMNS: [&str; 10] = [
    "Device",
    "class",
    "I/Os",
    "size",
    "mean us",
    "p50 us",
    "p99 us",
    "max us",
    "busy %",
    "in flight",
];
/// Columns that are dropped on a narrow terminal, in this order: in flight, p50, size.
const DROPPABLE: [usize; 3] = [9, 5, 3];

/// Rows per class for the devices with the most I/O time.
fn devices(
    report: &Report,
    meta: &RecordingMeta,
    facts: &RecordingFacts,
    layout: Layout,
) -> String {
    let mut devices: Vec<(&DeviceSummary, Vec<ClassOf>)> = Vec::new();
    for d in &report.devices.devices {
        let classes = report_text::classes_with_ios(d, report);
        if !classes.is_empty() && !facts.layers.contains_key(&d.dev) {
            devices.push((d, classes));
        }
    }
    devices.sort_by(|a, b| io_time_us(&b.1).total_cmp(&io_time_us(&a.1)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut shown = 0;
    for (d, classes) in &devices {
        let own = device_rows(d, classes, meta);
        if shown > 0 && rows.len() + own.len() > MAX_ROWS {
            break;
        }
        rows.extend(own);
        shown += 1;
    }
    if rows.is_empty() {
        return "  no I/O\n\n".to_owned();
    }
    let titles = COLUMNS.map(str::to_owned);
    let mut out = layout.table_that_fits(&titles, &rows, 2, |i| i < 2, &DROPPABLE);
    let left_out = devices.len() - shown;
    if left_out > 0 {
        let more = count_of(left_out as u64, "more device");
        let _ = writeln!(out, "  and {more} with less I/O time: --full");
    }
    out.push('\n');
    out
}

/// The name and summary of a class.
type ClassOf = (&'static str, ClassSummary);

/// Sum of the known latencies in microseconds.
fn io_time_us(classes: &[ClassOf]) -> f64 {
    let mut sum = 0.0;
    for (_, class) in classes {
        let ios = class.ios.unwrap_or(0) as f64;
        sum += ios * class.mean_us.unwrap_or(0.0);
    }
    sum
}

fn device_rows(d: &DeviceSummary, classes: &[ClassOf], meta: &RecordingMeta) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, c) in classes {
        let mut row = vec![
            terminal(&device_name(meta, d.dev)).into_owned(),
            (*name).to_owned(),
            c.ios.map_or_else(|| "-".to_owned(), |ios| ios.to_string()),
            c.bytes.map_or_else(|| "-".to_owned(), |b| size(b as f64)),
            number(c.mean_us, 1),
            number(c.p50_us, 1),
            number(c.p99_us, 1),
            number(c.max_us, 1),
        ];
        // Busy time and I/Os in flight are those of the whole device, so they are printed once.
        if rows.is_empty() {
            row.push(number(d.busy_percent, 2));
            row.push(number(d.concurrency.mean, 2));
        } else {
            row.push(String::new());
            row.push(String::new());
        }
        rows.push(row);
    }
    rows
}

fn processes(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    layout: Layout,
) -> String {
    let most = match report.stories.len() {
        0 | 1 => MAX_ROWS,
        _ => MAX_ROWS_BESIDE_STORIES,
    };
    let shown = RowsShown::of_all(facts, most);
    let table = actors::table(report, meta, names, &shown, layout);
    if table.is_empty() {
        return String::new();
    }
    table + "\n"
}

/// The table of waits.
fn waits(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts, layout: Layout) -> String {
    let shown = RowsShown::of_all(facts, MAX_WAITS);
    let table = waits::table(report, meta, &shown, layout);
    if table.is_empty() {
        return String::new();
    }
    table + "\n"
}

/// How far the numbers can be trusted. Losses are in the head and among the findings already.
fn quality(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) -> String {
    let mut out = String::new();
    if report.devices.censored_ios > 0 {
        let ios = count_of(report.devices.censored_ios, "I/O");
        let _ = writeln!(
            out,
            "Not counted: {ios} in flight when the recording started"
        );
    }
    for limit in meta.limits.iter().take(MAX_LIMITS) {
        let _ = writeln!(out, "Not recorded: {}", terminal(limit));
    }
    if meta.limits.len() > MAX_LIMITS {
        let more = meta.limits.len() - MAX_LIMITS;
        let _ = writeln!(out, "Not recorded: {more} more, see --full");
    }
    // The log of an import was not recorded here.
    if meta.cost.cpu_s.is_some() {
        let _ = writeln!(out, "Recorder: {}", report_text::cost(meta, facts));
    }
    out
}

/// How to see more.
fn more(facts: &RecordingFacts) -> String {
    let path = shell_word(Path::new(&facts.path));
    let window = &facts.window_options;
    format!(
        "More: iolens report {path}{window} --full; of one device: --device NAME; charts: -o FILE.html\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::report_json::tests::sample;
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{Comm, DevId, Io, Op, Source};

    fn terminal_of(width: usize) -> Layout {
        Layout {
            width,
            colour: false,
        }
    }

    #[test]
    fn the_first_screen_says_findings_devices_and_processes() {
        let (report, meta, facts) = sample();
        let text = render(
            &report,
            &meta,
            &Names::default(),
            &facts,
            &Times::utc(&meta),
            terminal_of(120),
        );
        insta::assert_snapshot!(text);
        assert!(!text.contains('\x1b'));
    }

    /// Twelve busy devices, forty processes, errors on every device.
    fn busy() -> (Report, RecordingMeta) {
        let mut builder = ReportBuilder::new(Window::new(0, 60_000_000_000));
        for i in 0..6000_i64 {
            let op = if i % 3 == 0 { Op::WRITE } else { Op::READ };
            let dev = DevId::new(8, (i % 12) as u32);
            let io = Io::new((i + 1) * 9_000_000, dev, op, 4096, Some(0), 50_000 + i);
            let name = format!("long-process-{}", i % 40);
            builder.push(&Io {
                comm: Some(Comm::new(name.as_bytes())),
                tgid: Some((i % 40) as i32 + 1_000_000),
                cgroup: Some(i % 40),
                error: Some(if i % 101 == 0 { 5 } else { 0 }),
                ..io
            });
        }
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.limits = (0..9).map(|i| format!("thing {i}")).collect();
        (builder.finish(60_000_000_000), meta)
    }

    #[test]
    fn the_command_for_the_rest_is_of_the_same_time() {
        let facts = RecordingFacts {
            path: "db.iolens".to_owned(),
            window_options: " --from 46 --to 106".to_owned(),
            ..RecordingFacts::default()
        };
        let text = more(&facts);
        assert!(
            text.starts_with("More: iolens report db.iolens --from 46 --to 106 --full;"),
            "{text}"
        );
    }

    #[test]
    fn a_busy_machine_fits_forty_lines_of_eighty_columns() {
        let (report, meta) = busy();
        let facts = RecordingFacts {
            path: "busy.iolens".to_owned(),
            ..RecordingFacts::default()
        };
        assert!(report.findings.len() >= 12, "{}", report.findings.len());
        for width in [80, 100, 132, 200] {
            let mut names = Names::default();
            for id in 0..40 {
                let path = format!("/kubepods.slice/kubepods-burstable.slice/pod{id}.scope");
                names.cgroups.insert(id, path);
            }
            let text = render(
                &report,
                &meta,
                &names,
                &facts,
                &Times::utc(&meta),
                terminal_of(width),
            );
            let lines = text.lines().count();
            assert!(lines <= MAX_LINES, "{lines} lines of {width}:\n{text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{text}"
            );
            assert!(text.contains("more finding"), "{text}");
            assert!(text.contains("more device"), "{text}");
            assert!(text.contains("more row"), "{text}");
            assert!(
                text.contains("More: iolens report busy.iolens --full;"),
                "{text}"
            );
        }
    }
}
