//! File-level requests as text.

use std::fmt::Write as _;

use iolens_core::analysis::files::answers::ClassTable;
use iolens_core::analysis::files::overhead::Part;
use iolens_core::analysis::files::{By, ClassReport, FilesReport, Group, SlowRequest};
use iolens_core::model::RecordingMeta;

use super::escape::terminal;
use super::report_text::binary_size;

/// Rows of the tables by process, file or control group.
const MOST_ROWS: usize = 30;
/// Slow requests and files shown.
const MOST_SLOW: usize = 10;
/// Cells of a waterfall.
const WATERFALL: usize = 40;

/// The whole text.
pub fn render(r: &FilesReport, meta: &RecordingMeta) -> String {
    let mut out = String::new();
    head(&mut out, r, meta);
    r.classes.iter().for_each(|c| class(&mut out, c));
    groups(&mut out, title_of(r.by), &r.groups, MOST_ROWS);
    if r.by != By::Path {
        groups(&mut out, "Files with most time in calls", &r.files, MOST_SLOW);
    }
    syncs(&mut out, r);
    slowest(&mut out, "Slowest requests", &r.slowest, MOST_SLOW);
    slowest(&mut out, "Slowest syncs", &r.slowest_syncs, MOST_SLOW / 2);
    out
}

fn title_of(by: By) -> &'static str {
    match by {
        By::Class => "By class",
        By::Process => "By process",
        By::Path => "By file",
        By::Cgroup => "By control group",
    }
}

fn head(out: &mut String, r: &FilesReport, meta: &RecordingMeta) {
    let _ = write!(out, "{} requests, {} syncs, {} lost", r.requests, r.syncs, r.lost_requests);
    let _ = writeln!(out, "; source {}", meta.source);
    if r.unknown_start > 0 {
        let n = r.unknown_start;
        let _ = writeln!(out, "{n} were opened before recording began: in sums, not in response times");
    }
    if r.one_in > 1 {
        let _ = writeln!(out, "medians are of one request in {}", r.one_in);
    }
    let odd = [
        ("mmap", "were mapped: what page faults moved is not counted"),
        ("aio", "were used with io_submit, whose I/Os are not counted"),
        ("io_uring", "went through io_uring: durations run from submission to completion, and are left out of medians"),
        ("escaped", "were still held by someone else when closed"),
        ("still-open", "were still open at the end"),
    ];
    for (flag, what) in odd {
        if let Some(n) = r.flags.get(flag) {
            let _ = writeln!(out, "{n} {what}");
        }
    }
    if let Some(p) = &r.peak {
        let _ = writeln!(
            out,
            "peak load: {:.0} requests/s from {:.3} s for {:.0} s, {:.2} times the mean",
            p.per_s, p.start_s, p.length_s, p.ratio
        );
    }
}

/// Median and 95th percentile, or what stands in their place.
type Cell = (Option<f64>, Option<f64>);

fn us(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"))
}

fn class(out: &mut String, c: &ClassReport) {
    let tables: Vec<_> = std::iter::once(("all", &c.all)).chain(c.peak.as_ref().map(|p| ("peak", p))).collect();
    let _ = write!(out, "\n{:<34}", format!("Requests \"{}\", microseconds", c.class));
    for (name, _) in &tables {
        let _ = write!(out, "{name:>14}{:>12}", "p95");
    }
    out.push('\n');
    let mut row = |name: &str, values: Vec<Cell>| {
        if values.iter().any(|v| v.0.is_some()) {
            let _ = write!(out, "  {name:<32}");
            for (a, b) in &values {
                let _ = write!(out, "{:>14}{:>12}", us(*a), us(*b));
            }
            out.push('\n');
        }
    };
    let of = |f: &dyn Fn(&ClassTable) -> Cell| tables.iter().map(|(_, t)| f(t)).collect::<Vec<_>>();
    let part = |p: Option<Part>| (p.map(|p| p.median_us), p.map(|p| p.p95_us));
    row("requests per second", of(&|t| (Some(t.per_s), None)));
    row("response time (open to last I/O)", of(&|t| (t.total_median_us, t.total_p95_us)));
    row("first delay (open to first I/O)", of(&|t| (t.first_median_us, None)));
    row("  open", of(&|t| part(t.direct.open)));
    row("  first I/O", of(&|t| part(t.direct.first_io)));
    row("  second I/O", of(&|t| part(t.direct.second_io)));
    row("  later I/Os, mean of each", of(&|t| part(t.direct.later_ios)));
    row("  gaps (the program's own)", of(&|t| part(t.direct.gaps)));
    row("  close", of(&|t| part(t.direct.close)));
    row("  block I/O inside the calls", of(&|t| part(t.direct.device)));
    row("cache hits, % of reads", of(&|t| (t.direct.cache_hit_percent, None)));
    row("atomic (one I/O), %", of(&|t| (t.atomic.map(|a| a.percent), None)));
    row("classical: I/O", of(&|t| (t.classical.map(|c| c.io_us), None)));
    row("classical: overhead", of(&|t| (t.classical.map(|c| c.overhead_us), None)));
    conclusions(out, c);
}

fn conclusions(out: &mut String, c: &ClassReport) {
    if let Some(v) = &c.all.verdict {
        let word = if v.valid { "VALID" } else { "INVALID" };
        let _ = writeln!(out, "  the classical numbers are {word}: {}", v.why);
    }
    if let Some(a) = &c.all.atomic {
        let _ = write!(out, "  atomic: {:.1} % [{:.1}, {:.1}] of {}", a.percent, a.low_percent, a.high_percent, a.n);
        if let Some(bound) = a.pipelining_bound_percent {
            let _ = write!(out, "; pipelining could hide at most {bound:.0} % of the response time");
        }
        out.push('\n');
    }
    if let Some(s) = &c.steps {
        let _ = writeln!(
            out,
            "  response time grows in steps of {}: {:.1} us each, {:+.1} us once",
            binary_size(s.block_bytes as f64),
            s.io_us,
            s.overhead_us
        );
    }
    if let Some(load) = &c.by_load {
        out.push_str(&by_load(load.slope.zip(load.slope_low).zip(load.slope_high)));
    }
}

/// What load does to an I/O: the slope and its interval's ends, in microseconds per request/s.
fn by_load(slope: Option<((f64, f64), f64)>) -> String {
    let Some(((slope, low), high)) = slope else { return String::new() };
    let [slope, low, high] = [slope, low, high].map(|v| v * 1000.0);
    match low > 0.0 || high < 0.0 {
        true => format!("  an I/O takes {slope:+.2} us [{low:+.2}, {high:+.2}] more per 1000 requests/s of load\n"),
        false => "  how long an I/O takes does not clearly depend on load\n".to_owned(),
    }
}

fn groups(out: &mut String, title: &str, groups: &[Group], most: usize) {
    let _ = writeln!(
        out,
        "\n{:>9} {:>9} {:>10} {:>10} {:>9} {:>9} {:>6} {:>10}  {title}",
        "requests", "I/Os", "read", "written", "calls s", "device s", "hit %", "median us"
    );
    for g in groups.iter().take(most) {
        let gap = &g.gap;
        let hit = gap.cache_hit_percent.map_or_else(|| "-".to_owned(), |p| format!("{p:.1}"));
        let _ = writeln!(
            out,
            "{:>9} {:>9} {:>10} {:>10} {:>9.3} {:>9.3} {hit:>6} {:>10}  {}",
            gap.requests,
            gap.ios,
            binary_size(gap.bytes_in as f64),
            binary_size(gap.bytes_out as f64),
            gap.call_s,
            gap.device_s,
            us(g.total_median_us),
            terminal(&g.key)
        );
    }
    if groups.len() > most {
        let _ = writeln!(out, "{} more; all with --json", groups.len() - most);
    }
}

fn syncs(out: &mut String, r: &FilesReport) {
    if r.syncs_by_process.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:>9} {:>10} {:>10} {:>10} {:>10}  Syncs, microseconds", "n", "p50", "p95", "p99", "max");
    for g in r.syncs_by_process.iter().take(MOST_SLOW).chain(r.syncs_by_path.iter().take(MOST_SLOW)) {
        let s = &g.sync;
        let low = if s.low_n { " (few)" } else { "" };
        let key = terminal(&g.key);
        let _ = writeln!(
            out,
            "{:>9} {:>10.1} {:>10.1} {:>10.1} {:>10.1}  {key}{low}",
            s.n, s.p50_us, s.p95_us, s.p99_us, s.max_us
        );
    }
    for m in &r.while_syncing {
        let _ = writeln!(
            out,
            "while syncs waited for {} ({:.3} s) it completed {} writes ({}), {} flushes, {} reads",
            terminal(&m.device),
            m.seconds,
            m.writes,
            binary_size(m.written_bytes as f64),
            m.flushes,
            m.reads
        );
    }
}

fn slowest(out: &mut String, title: &str, slowest: &[SlowRequest], most: usize) {
    if slowest.is_empty() {
        return;
    }
    let legend = "o open, R/W I/O from a device, r from memory, . gap";
    let _ = writeln!(
        out,
        "\n{:>10} {:>12} {:>12} {:>6} {:>10}  {:<51}  {title}",
        "start s", "calls us", "us", "I/Os", "bytes", legend
    );
    for s in slowest.iter().take(most) {
        let name = s.path.as_deref().unwrap_or("?");
        let who = s.comm.as_deref().unwrap_or("?");
        let _ = writeln!(
            out,
            "{:>10.3} {:>12.1} {:>12.1} {:>6} {:>10}  {:<51}  {} {} {}",
            s.start_s,
            s.call_us,
            s.total_us,
            s.ios,
            binary_size(s.bytes as f64),
            waterfall(s),
            s.class,
            terminal(who),
            terminal(name)
        );
    }
}

/// Open, the I/Os that are known one by one, and what lies between, drawn to scale.
fn waterfall(s: &SlowRequest) -> String {
    if s.class == "sync" || s.total_us <= 0.0 {
        return String::new();
    }
    let mut cells = vec!['.'; WATERFALL];
    let mut fill = |from: f64, length: f64, mark: char| {
        let at = |t: f64| ((t / s.total_us * WATERFALL as f64) as usize).min(WATERFALL - 1);
        cells[at(from.max(0.0))..=at((from + length).max(0.0))].fill(mark);
    };
    fill(0.0, s.open_us.unwrap_or(0.0), 'o');
    for io in s.first_ios.iter().chain(&s.slowest_io) {
        let mark = match io.cache_hit {
            Some(true) => 'r',
            Some(false) => 'R',
            None => 'W',
        };
        fill(io.after_us, io.us, mark);
    }
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::files_sample::report;
    use iolens_core::model::Source;

    #[test]
    fn the_text_says_where_the_time_went_and_escapes_names() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let text = render(&report("/srv/\u{1b}[31mred", 40, 1_000_000), &meta);
        assert!(!text.contains('\u{1b}'), "{text}");
        for words in ["40 requests, 1 syncs, 0 lost; source ebpf", "first I/O", "Slowest requests", "5000.0"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(text.contains("oooo"), "{text}");
    }

    #[test]
    fn a_slope_that_may_be_nothing_is_no_number() {
        assert_eq!(by_load(None), "");
        let clear = by_load(Some(((0.002, 0.001), 0.004)));
        assert_eq!(clear, "  an I/O takes +2.00 us [+1.00, +4.00] more per 1000 requests/s of load\n");
        assert!(by_load(Some(((-1503.0, -3950.0), 121.0))).contains("does not clearly depend"));
    }

    #[test]
    fn the_json_is_one_document() {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let text = super::super::files_json::render(&report("/x", 40, 1_000_000), &meta, "r.iolens".as_ref());
        let v: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(v["files"]["requests"], 40);
        assert_eq!(v["files"]["classes"][0]["all"]["direct"]["open"]["median_us"], 10.0);
        assert!(v["files"]["classes"][0]["steps"].is_null());
    }
}
