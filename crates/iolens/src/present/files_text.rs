//! File-level requests as text.

use std::fmt::Write as _;

use iolens_core::analysis::Window;
use iolens_core::analysis::files::answers::ClassTable;
use iolens_core::analysis::files::overhead::CostPart;
use iolens_core::analysis::files::{By, ClassReport, FilesReport, Group, SlowRequest};
use iolens_core::model::RecordingMeta;

use super::escape::terminal;
use super::layout::{Layout, Role, count_of, number, size};
use super::times::Times;

/// Rows of the tables by process, file or control group.
const MAX_ROWS: usize = 30;
/// Slow requests and files shown.
const MAX_SLOW: usize = 10;
/// Cells of a waterfall.
const WATERFALL: usize = 40;

/// The whole text: requests of `window`.
pub fn render(
    r: &FilesReport,
    meta: &RecordingMeta,
    window: Window,
    times: &Times,
    layout: Layout,
) -> String {
    let mut out = String::new();
    head(&mut out, r, meta, window, times);
    let mut out = layout.sentences(&out);
    r.classes.iter().for_each(|c| class(&mut out, c, layout));
    groups(&mut out, title_of(r.by), &r.groups, MAX_ROWS, layout);
    if r.by != By::Path {
        groups(
            &mut out,
            "Top files by time in I/O syscalls",
            &r.files,
            MAX_SLOW,
            layout,
        );
    }
    calls(&mut out, r, layout);
    syncs(&mut out, r, layout);
    let requests = &r.slowest[..r.slowest.len().min(MAX_SLOW)];
    slowest(&mut out, "Slowest requests", requests, times, layout);
    let syncs = &r.slowest_syncs[..r.slowest_syncs.len().min(MAX_SLOW / 2)];
    slowest(&mut out, "Slowest syncs", syncs, times, layout);
    out
}

/// A table under its title; the first `words` columns hold words and identify a row.
fn table<const N: usize>(
    out: &mut String,
    title: &str,
    columns: [&str; N],
    words: usize,
    rows: &[Vec<String>],
    layout: Layout,
) {
    out.push('\n');
    for line in layout.sentences(title).lines() {
        let _ = writeln!(out, "{}", layout.paint(Role::Heading, line));
    }
    out.push_str(&layout.table(&columns.map(str::to_owned), rows, words, |i| i < words));
}

fn title_of(by: By) -> &'static str {
    match by {
        By::Class => "By class",
        By::Process => "By process",
        By::Path => "By file",
        By::Cgroup => "By control group",
    }
}

fn head(out: &mut String, r: &FilesReport, meta: &RecordingMeta, window: Window, times: &Times) {
    let _ = write!(
        out,
        "{}, {}, {} lost",
        count_of(r.requests, "request"),
        count_of(r.syncs, "sync"),
        r.lost_requests
    );
    let from = times.full(window.from_ns);
    let to = times.instant(window.to_ns);
    let source = meta.source.to_string();
    let _ = writeln!(out, "; {from} to {to}; source {}", terminal(&source));
    if r.unknown_start > 0 {
        let n = r.unknown_start;
        let _ = writeln!(
            out,
            "{n} were opened before recording began: in sums, not in response times"
        );
    }
    if r.one_in > 1 {
        let _ = writeln!(out, "medians are of one request in {}", r.one_in);
    }
    let odd = [
        ("mmap", "were mapped: what page faults moved is not counted"),
        (
            "aio",
            "were used with io_submit, whose I/Os are not counted",
        ),
        (
            "io_uring",
            "went through io_uring: durations run from submission to completion, and are left out of medians",
        ),
        ("escaped", "were still held by someone else when closed"),
        ("still-open", "were still open at the end"),
    ];
    for (flag, what) in odd {
        if let Some(n) = r.requests_by_flag.get(flag) {
            let _ = writeln!(out, "{n} {what}");
        }
    }
    if let Some(p) = &r.peak_window {
        let from = times.instant(nanoseconds(p.start_s));
        let _ = writeln!(
            out,
            "peak load: {:.0} requests/s from {} for {:.0} s, {:.2} times the mean",
            p.per_s, from, p.duration_s, p.peak_to_mean
        );
    }
}

/// Of seconds since the recording's start.
fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// Median and 95th percentile, or what stands in their place.
type TextCell = (Option<f64>, Option<f64>);

fn us(v: Option<f64>) -> String {
    number(v, 1)
}

/// A row of the table of a class: its name, and its cell in each table of numbers.
type ClassRow = (&'static str, fn(&ClassTable) -> TextCell);

const CLASS_ROWS: [ClassRow; 14] = [
    ("requests per second", |t| (Some(t.per_s), None)),
    ("response time (open to last I/O)", |t| {
        (t.total_p50_us, t.total_p95_us)
    }),
    ("first delay (open to first I/O)", |t| {
        (t.first_p50_us, None)
    }),
    ("  open", |t| cost_cell(t.direct.open_call)),
    ("  first I/O", |t| cost_cell(t.direct.first_io)),
    ("  second I/O", |t| cost_cell(t.direct.second_io)),
    ("  later I/Os, mean of each", |t| {
        cost_cell(t.direct.later_ios)
    }),
    ("  think time between calls", |t| cost_cell(t.direct.gaps)),
    ("  close", |t| cost_cell(t.direct.close_call)),
    ("  device time", |t| cost_cell(t.direct.block_io)),
    ("cache hits, % of reads", |t| {
        (t.direct.cache_hit_percent, None)
    }),
    ("atomic (one I/O), %", |t| {
        (t.atomic.map(|a| a.atomic_percent), None)
    }),
    ("from response times: I/O", |t| {
        (t.classical.map(|c| c.io_us), None)
    }),
    ("from response times: overhead", |t| {
        (t.classical.map(|c| c.overhead_us), None)
    }),
];

fn cost_cell(part: Option<CostPart>) -> TextCell {
    (part.map(|p| p.p50_us), part.map(|p| p.p95_us))
}

fn class(out: &mut String, c: &ClassReport, layout: Layout) {
    // The busiest stretch, where there is one, stands beside the whole time.
    let mut tables = vec![("all", &c.all)];
    if let Some(peak) = &c.peak {
        tables.push(("peak", peak));
    }
    let mut columns = vec!["us, if nothing else is said".to_owned()];
    for (name, _) in &tables {
        columns.push((*name).to_owned());
        columns.push("p95".to_owned());
    }
    let mut rows = Vec::new();
    for (name, cell) in CLASS_ROWS {
        let cells: Vec<TextCell> = tables.iter().map(|(_, t)| cell(t)).collect();
        // What was not measured in any of the tables has no row.
        if cells.iter().all(|(p50, _)| p50.is_none()) {
            continue;
        }
        let mut row = vec![name.to_owned()];
        for (p50, p95) in cells {
            row.push(us(p50));
            row.push(us(p95));
        }
        rows.push(row);
    }
    let _ = writeln!(
        out,
        "\n{}",
        layout.paint(Role::Heading, &format!("Requests \"{}\"", c.class))
    );
    out.push_str(&layout.table(&columns, &rows, 1, |i| i == 0));
    out.push_str(&layout.sentences(&conclusions(c)));
}

fn conclusions(c: &ClassReport) -> String {
    let mut out = String::new();
    if let Some(v) = &c.all.classical_verdict {
        let _ = match v.valid {
            true => writeln!(out, "  response-time decomposition applies: {}", v.why),
            false => writeln!(
                out,
                "  response-time decomposition not applicable, hidden: {}",
                v.why
            ),
        };
    }
    if let Some(a) = &c.all.atomic {
        let _ = write!(
            out,
            "  atomic: {:.1} % [{:.1}, {:.1}] of {}",
            a.atomic_percent, a.low_percent, a.high_percent, a.n
        );
        if let Some(bound) = a.pipelining_bound_percent {
            let _ = write!(
                out,
                "; pipelining could hide at most {bound:.0} % of the response time"
            );
        }
        out.push('\n');
    }
    if let Some(s) = &c.steps {
        let _ = writeln!(
            out,
            "  response time grows in steps of {}: {:.1} us each, {:+.1} us once",
            size(s.block_bytes as f64),
            s.io_us,
            s.overhead_us
        );
    }
    if let Some(load) = &c.by_load {
        out.push_str(&by_load(
            load.slope.zip(load.slope_low).zip(load.slope_high),
        ));
    }
    out
}

/// What load does to an I/O: the slope and its interval's ends, in microseconds per request/s.
fn by_load(slope: Option<((f64, f64), f64)>) -> String {
    let Some(((slope, low), high)) = slope else {
        return String::new();
    };
    let [slope, low, high] = [slope, low, high].map(|v| v * 1000.0);
    match low > 0.0 || high < 0.0 {
        true => format!(
            "  an I/O takes {slope:+.2} us [{low:+.2}, {high:+.2}] more per 1000 requests/s of load\n"
        ),
        false => "  how long an I/O takes does not clearly depend on load\n".to_owned(),
    }
}

fn groups(out: &mut String, title: &str, groups: &[Group], most: usize, layout: Layout) {
    let columns = [
        "",
        "requests",
        "I/Os",
        "read",
        "written",
        "calls s",
        "device s",
        "hit %",
        "median us",
    ];
    let rows: Vec<Vec<String>> = groups.iter().take(most).map(group_row).collect();
    table(out, title, columns, 1, &rows, layout);
    if groups.len() > most {
        let _ = writeln!(out, "{} more; all with --json", groups.len() - most);
    }
}

fn group_row(g: &Group) -> Vec<String> {
    let gap = &g.gap;
    vec![
        terminal(&g.name).into_owned(),
        gap.requests.to_string(),
        gap.data_ios.to_string(),
        size(gap.bytes_in as f64),
        size(gap.bytes_out as f64),
        number(Some(gap.call_s), 3),
        number(Some(gap.block_io_s), 3),
        number(gap.cache_hit_percent, 1),
        us(g.total_p50_us),
    ]
}

/// What a single call took, by file: what databases are judged by.
fn calls(out: &mut String, r: &FilesReport, layout: Layout) {
    if r.calls.is_empty() {
        return;
    }
    let mut rows = Vec::new();
    let mut unknown = false;
    let mut off_percent = 0.0f64;
    for f in r.calls.iter().take(MAX_SLOW) {
        for (name, c) in [("read", f.read), ("write", f.write), ("fsync", f.sync)] {
            let Some(c) = c else { continue };
            unknown |= c.p50_us.is_none();
            off_percent = off_percent.max(c.quantile_error_percent.unwrap_or(0.0));
            let few = if c.low_n { " (few)" } else { "" };
            let words = [
                terminal(&f.name).into_owned(),
                format!("{name}{few}"),
                c.n.to_string(),
            ];
            rows.push(
                words
                    .into_iter()
                    .chain([c.mean_us, c.p50_us, c.p99_us, c.max_us].map(us))
                    .collect(),
            );
        }
    }
    let columns = ["file", "call", "n", "mean us", "p50 us", "p99 us", "max us"];
    table(out, "Latency per call, by file", columns, 2, &rows, layout);
    if off_percent > 0.0 {
        let whose = "p50 and p99 of more than 4 calls on one descriptor";
        out.push_str(&layout.sentences(&format!(
            "{whose} come from a histogram: off by at most {off_percent:.1} %"
        )));
    }
    if unknown {
        let why = "the recording has no histogram of all reads and writes of the file";
        out.push_str(&layout.sentences(&format!("- in p50 and p99: {why}")));
    }
}

fn syncs(out: &mut String, r: &FilesReport, layout: Layout) {
    if r.syncs_by_process.is_empty() {
        return;
    }
    let all = r
        .syncs_by_process
        .iter()
        .take(MAX_SLOW)
        .chain(r.syncs_by_path.iter().take(MAX_SLOW));
    let rows: Vec<Vec<String>> = all
        .map(|g| {
            let s = &g.sync;
            let key = format!(
                "{}{}",
                terminal(&g.name),
                if s.low_n { " (few)" } else { "" }
            );
            let times = [s.p50_us, s.p95_us, s.p99_us, s.max_us].map(|v| us(Some(v)));
            [key, s.n.to_string()].into_iter().chain(times).collect()
        })
        .collect();
    table(
        out,
        "Syncs",
        ["", "n", "p50 us", "p95 us", "p99 us", "max us"],
        1,
        &rows,
        layout,
    );
    for m in &r.while_syncing {
        out.push_str(&layout.sentences(&format!(
            "while syncs waited for {} ({:.3} s) it completed {} ({}), {}, {}",
            terminal(&m.device),
            m.syncing_s,
            count_of(m.writes, "write"),
            size(m.written_bytes as f64),
            if m.flushes == 1 {
                "1 flush".to_owned()
            } else {
                format!("{} flushes", m.flushes)
            },
            count_of(m.reads, "read")
        )));
    }
}

fn slowest(out: &mut String, title: &str, slowest: &[SlowRequest], times: &Times, layout: Layout) {
    if slowest.is_empty() {
        return;
    }
    let mut rows = Vec::new();
    for s in slowest {
        let who = s.process.as_deref().unwrap_or("?");
        let name = s.file.as_deref().unwrap_or("?");
        rows.push(vec![
            format!("{} {} {}", s.class, terminal(who), terminal(name)),
            times.instant(nanoseconds(s.start_s)),
            us(Some(s.call_us)),
            us(Some(s.total_us)),
            s.data_ios.to_string(),
            size(s.bytes as f64),
            waterfall(s),
        ]);
    }
    let title = format!("{title} (o open, r from memory, R waited, W write or io_uring, . gap)");
    table(
        out,
        &title,
        ["", "start", "calls us", "us", "I/Os", "bytes", "over time"],
        1,
        &rows,
        layout,
    );
}

/// Open, the I/Os that are known one by one, and what lies between, drawn to scale.
fn waterfall(s: &SlowRequest) -> String {
    if s.class == "sync" || s.total_us <= 0.0 {
        return String::new();
    }
    // Each part with its begin and its length in microseconds. Where two share a cell, the later one of the list shows.
    let mut parts = vec![(0.0, s.open_us.unwrap_or(0.0), 'o')];
    for io in s.first_ios.iter().chain(&s.slowest_io) {
        let mark = match io.cache_hit {
            Some(true) => 'r',
            Some(false) => 'R',
            None => 'W',
        };
        parts.push((io.after_us, io.us, mark));
    }
    let mut cells = vec!['.'; WATERFALL];
    for (from_us, length_us, mark) in parts {
        let first = waterfall_cell(from_us, s.total_us);
        let last = waterfall_cell(from_us + length_us, s.total_us);
        cells[first..=last].fill(mark);
    }
    cells.into_iter().collect()
}

/// The cell of the moment `at_us` in a request that took `total_us`.
fn waterfall_cell(at_us: f64, total_us: f64) -> usize {
    let cell = (at_us.max(0.0) / total_us * WATERFALL as f64) as usize;
    cell.min(WATERFALL - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::files_sample::report;
    use crate::present::times::Clock;
    use iolens_core::model::Source;
    use jiff::tz::TimeZone;

    /// Twelve seconds from midnight on.
    const WINDOW: Window = Window {
        from_ns: 0,
        to_ns: 12_000_000_000,
    };

    fn utc() -> Times {
        const START_UNIX_NS: i64 = 1_795_046_400_000_000_000;
        Times::new(Clock::Wall(TimeZone::UTC), START_UNIX_NS, 0)
    }

    #[test]
    fn the_text_says_where_the_time_went_and_escapes_names() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let text = render(
            &report("/srv/\u{1b}[31mred", 40, 1_000_000),
            &meta,
            WINDOW,
            &utc(),
            Layout::PLAIN,
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        let calls = "red  read         80     40.0    40.0    40.0    40.0\n";
        assert!(
            text.contains(calls) && text.contains("red  fsync (few)   1 "),
            "{text}"
        );
        for words in [
            "40 requests, 1 sync, 0 lost; 2026-11-19 00:00:00.000 UTC to 00:00:12.000; source ebpf",
            "requests/s from 00:00:0",
            "first I/O",
            "Slowest requests",
            "5000.0",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(text.contains("oooo"), "{text}");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let layout = Layout {
            width: 80,
            colour: false,
        };
        let text = render(
            &report(&"/srv/a/long/path".repeat(12), 40, 1_000_000),
            &meta,
            WINDOW,
            &utc(),
            layout,
        );
        let wide: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }

    #[test]
    fn headings_are_wrapped() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let layout = Layout {
            width: 60,
            colour: false,
        };
        let text = render(
            &report("/srv/a", 40, 1_000_000),
            &meta,
            WINDOW,
            &utc(),
            layout,
        );
        let heading =
            "\nSlowest requests (o open, r from memory, R waited, W write\n  or io_uring, . gap)\n";
        assert!(text.contains(heading), "{text}");
    }

    #[test]
    fn a_slope_that_may_be_nothing_is_no_number() {
        assert_eq!(by_load(None), "");
        let clear = by_load(Some(((0.002, 0.001), 0.004)));
        assert_eq!(
            clear,
            "  an I/O takes +2.00 us [+1.00, +4.00] more per 1000 requests/s of load\n"
        );
        assert!(by_load(Some(((-1503.0, -3950.0), 121.0))).contains("does not clearly depend"));
    }

    #[test]
    fn the_json_is_one_document() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let text = super::super::files_json::render(
            &report("/x", 40, 1_000_000),
            &meta,
            "r.iolens".as_ref(),
        );
        let v: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(v["files"]["requests"], 40);
        assert_eq!(
            v["files"]["classes"][0]["all"]["direct"]["open_call"]["p50_us"],
            10.0
        );
        assert!(v["files"]["classes"][0]["steps"].is_null());
        let calls = &v["files"]["calls"][0];
        assert_eq!(
            (
                &calls["name"],
                &calls["read"]["n"],
                &calls["read"]["p99_us"]
            ),
            (&"/x".into(), &80.into(), &40.0.into())
        );
        assert_eq!(
            (&calls["sync"]["max_us"], &calls["write"]),
            (&5000.0.into(), &serde_json::Value::Null)
        );
    }
}
