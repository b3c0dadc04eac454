//! The report as text for a terminal: findings first, then the devices, then how far to trust it.

use std::fmt::Write;

use iolens_core::analysis::burst_detail::BurstDetail;
use iolens_core::analysis::links::LinkDetail;
use iolens_core::analysis::{ClassSummary, DeviceSummary, Finding, FindingKind, Report};
use iolens_core::model::{Class, DevId, RecordingMeta, Source};

use super::escape::terminal;
use super::report_detail_text;
use super::report_json::{RecordingFacts, bytes_per_io, cpu_percent, device_name, finding_place, link_name};

/// The whole text.
pub fn render(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) -> String {
    let mut out = String::new();
    head(&mut out, report, meta, facts);
    out.push_str(&findings(report, meta, usize::MAX));
    devices(&mut out, report, meta);
    quality(&mut out, report, meta, facts);
    out
}

fn head(out: &mut String, report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) {
    let window = report.devices.window;
    let begun = jiff::Timestamp::from_nanosecond(i128::from(meta.start_unix_ns) + i128::from(window.from_ns));
    let begun = begun.map_or_else(|_| "an unknown time".to_owned(), |t| format!("{t:.3}"));
    let or_unknown =
        |v: &Option<String>| v.as_deref().map_or_else(|| "unknown".to_owned(), |s| terminal(s).into_owned());
    let _ = writeln!(
        out,
        "{}: {:.3} s from {begun}, host {}, kernel {}, source {}",
        terminal(&facts.path),
        window.len_s(),
        or_unknown(&meta.host),
        or_unknown(&meta.kernel),
        terminal(&meta.source.to_string()),
    );
    // On the layers above, the same I/Os are recorded again.
    let layers = report.devices.devices.iter().filter(|d| facts.layers.contains(&d.dev));
    let (ios_above, bytes_above) = layers.fold((0, 0), |(n, b), d| (n + d.ios(), b + d.bytes()));
    let (ios, bytes) = (report.devices.ios - ios_above, report.devices.bytes - bytes_above);
    let above = match ios_above {
        0 => String::new(),
        n => format!(" and the {n} above them in their stacks"),
    };
    let lost = match report.devices.lost_ios {
        Some(0) => "none lost".to_owned(),
        Some(n) => format!("{n} lost"),
        None => "some lost, number unknown".to_owned(),
    };
    let ios = report.devices.known_ios().map_or_else(|| "unknown number of".to_owned(), |_| ios.to_string());
    let size = report.devices.known_bytes().map_or_else(|| "unknown size".to_owned(), |_| binary_size(bytes as f64));
    let _ = writeln!(out, "{ios} I/Os, {size}{above}, {lost}\n");
}

/// The findings alone, the first `most` of them.
pub fn findings(report: &Report, meta: &RecordingMeta, most: usize) -> String {
    let mut out = String::from("Findings\n");
    if report.findings.is_empty() {
        out.push_str("  none\n");
    }
    for f in report.findings.iter().take(most) {
        finding(&mut out, f, meta);
    }
    if report.findings.len() > most {
        let _ = writeln!(out, "  ... and {} more", report.findings.len() - most);
    }
    out.push('\n');
    out
}

fn finding(out: &mut String, f: &Finding, meta: &RecordingMeta) {
    let device = finding_place(f, meta).unwrap_or_else(|| "all devices".to_owned());
    let (from, to) = (f.from_ns as f64 / 1e9, f.to_ns as f64 / 1e9);
    let _ =
        writeln!(out, "  {:<8}  {}, {}, {from:.3} s to {to:.3} s", f.severity.name(), f.kind.name(), terminal(&device));
    for line in wrapped(&terminal(&f.summary), 100) {
        let _ = writeln!(out, "            {line}");
    }
}

/// Breaks at spaces so that lines have at most `width` characters, if words allow.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn devices(out: &mut String, report: &Report, meta: &RecordingMeta) {
    let _ = writeln!(
        out,
        "{:<18}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}{:>11}{:>10}{:>10}{:>7}",
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
        "%seq"
    );
    for d in &report.devices.devices {
        device(out, d, report, meta);
    }
    if report.devices.devices.is_empty() {
        out.push_str("  no I/O\n");
    }
    if report.set.members.len() > 1 {
        set(out, report, meta);
    }
    report.links.iter().for_each(|l| link(out, l, meta));
    out.push('\n');
}

/// Devices behind one link (A13).
fn link(out: &mut String, l: &LinkDetail, meta: &RecordingMeta) {
    let name = terminal(&link_name(&l.link.devices, meta)).into_owned();
    let _ = writeln!(out, "link {name}, which carries {}/s", binary_size(l.link.limit.bytes_per_s));
    for s in l.streams.iter().filter(|s| s.bytes > 0) {
        let class = if s.class == Class::Read { "reads" } else { "writes" };
        let bursts = match s.bursts.iter().rev().max_by_key(|b| b.burst.bytes) {
            None => "no burst reaches half of it".to_owned(),
            Some(BurstDetail { burst: b, .. }) => format!(
                "{} bursts reach half of it, the largest {} in {:.2} s from {:.3} s on, at up to {:.1} % of it",
                s.bursts_found,
                binary_size(b.bytes as f64),
                (b.to_ns - b.from_ns) as f64 / 1e9,
                b.from_ns as f64 / 1e9,
                b.percent_of_limit
            ),
        };
        let _ = writeln!(out, "  {class} {}: {bursts}", binary_size(s.bytes as f64));
    }
}

/// All devices together (A4).
fn set(out: &mut String, report: &Report, meta: &RecordingMeta) {
    let set = &report.set;
    let names = |devices: &[DevId]| devices.iter().map(|dev| device_name(meta, *dev)).collect::<Vec<_>>().join(", ");
    let above = match &*set.left_out {
        [] => String::new(),
        layers => format!(" (without {}, whose I/Os are theirs)", names(layers)),
    };
    let title = format!("{} devices together: {}{above}", set.members.len(), names(&set.members));
    for (i, line) in wrapped(&terminal(&title), 117).iter().enumerate() {
        let _ = writeln!(out, "{}{line}", if i == 0 { "" } else { "  " });
    }
    let _ = writeln!(
        out,
        "  any busy {} (reads {}, writes {}, both {}), mean of devices {}, busiest {}\n  \
         in flight mean {}, p99 {}, max {}",
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
    if let Some(slots) = &report.set_slots {
        report_detail_text::slots(out, slots);
    }
}

fn device(out: &mut String, d: &DeviceSummary, report: &Report, meta: &RecordingMeta) {
    let _ = writeln!(out, "{}", terminal(&device_name(meta, d.dev)));
    for class in Class::ALL {
        let c = d.class(class);
        if c.ios > Some(0) || (c.ios.is_none() && (c.bytes > Some(0) || c.mean_us.is_some())) {
            class_line(out, class, c);
        }
    }
    let util = report.util_io_ticks_percent.get(&d.dev).copied();
    let _ = writeln!(
        out,
        "  busy {} (reads {}, writes {}; the kernel's %util {}); in flight mean {}, p50 {}, p75 {}, p99 {}, max {}",
        percent(d.busy_percent),
        percent(d.busy_read_percent),
        percent(d.busy_write_percent),
        percent(util),
        number(d.concurrency.mean, 2),
        count(d.concurrency.p50),
        count(d.concurrency.p75),
        count(d.concurrency.p99),
        count(d.concurrency.max),
    );
    if let Some(detail) = report.details.iter().find(|detail| detail.dev == d.dev) {
        report_detail_text::detail(out, detail);
    }
}

fn class_line(out: &mut String, class: Class, c: &ClassSummary) {
    let name = if c.low_n && c.ios.is_some() { format!("{} (few)", class.name()) } else { class.name().to_owned() };
    let _ = writeln!(
        out,
        "  {name:<16}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}{:>11}{:>10}{:>10}{:>7}",
        count(c.ios),
        c.bytes.map_or_else(|| "-".to_owned(), |b| binary_size(b as f64)),
        number(c.mean_us, 1),
        number(c.p50_us, 1),
        number(c.p99_us, 1),
        number(c.p999_us, 1),
        number(c.max_us, 1),
        number(c.queue_mean_us, 1),
        number(c.device_mean_us, 1),
        number(c.sequential_percent, 1),
    );
}

fn quality(out: &mut String, report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) {
    out.push_str("Data quality\n");
    let s = &report.devices;
    let _ = match s.lost_ios {
        Some(0) => writeln!(out, "  losses: none"),
        Some(n) => writeln!(out, "  losses: {n} I/Os, {:.3} % of all", 100.0 * n as f64 / (n + s.ios) as f64),
        None => writeln!(out, "  losses: some, their number is unknown"),
    };
    for f in report.findings.iter().filter(|f| f.kind == FindingKind::LostEvents) {
        let reason = f.evidence.get("reason").and_then(|r| r.as_str()).unwrap_or("unknown");
        let n = f.evidence.get("ios").and_then(serde_json::Value::as_u64);
        let (from, to) = (f.from_ns as f64 / 1e9, f.to_ns as f64 / 1e9);
        let n = n.map_or_else(|| "unknown number".to_owned(), |n| n.to_string());
        let _ = writeln!(out, "    {n} ({reason}) within {from:.3} s to {to:.3} s; nothing above holds them");
    }
    if s.censored_ios > 0 {
        let _ = writeln!(out, "  {} I/Os were in flight when recording began; they are not counted", s.censored_ios);
    }
    if s.clipped.ios > 0 {
        let (n, sec) = (s.clipped.ios, s.clipped.ns as f64 / 1e9);
        let _ =
            writeln!(out, "  {n} I/Os outlived a million others: {sec:.3} s of their time are missing from busy times");
    }
    if s.devices.iter().flat_map(|d| &d.classes).any(|c| c.ios > Some(0) && c.low_n) {
        out.push_str("  (few): fewer than 30 I/Os, percentiles mean little\n");
    }
    match meta.source {
        Source::Ebpf => {}
        Source::Counters => out.push_str("  source counters: rates and means only, no percentiles, no single I/O\n"),
        Source::Import(_) => out.push_str("  imported: what the other tool left out is unknown here\n"),
    }
    let hz = meta.kernel_hz.map_or_else(|| "unknown".to_owned(), |hz| hz.to_string());
    let _ = writeln!(out, "  kernel {}, HZ {hz}", terminal(meta.kernel.as_deref().unwrap_or("unknown")));
    if let Some(regime) = report.regime {
        let _ = writeln!(out, "  %util: {}", regime.about());
    }
    for limit in &meta.limits {
        let _ = writeln!(out, "  not seen: {}", terminal(limit));
    }
    let _ = writeln!(
        out,
        "  recorder: {}% of a core, {} of memory, {} on disk, {} bytes per I/O",
        number(cpu_percent(meta), 2),
        meta.cost.max_rss_bytes.map_or_else(|| "-".to_owned(), |b| binary_size(b as f64)),
        facts.disk_bytes.map_or_else(|| "-".to_owned(), |b| binary_size(b as f64)),
        number(bytes_per_io(facts), 1),
    );
    out.push_str(
        "  latency is start to done (queue + device); percentiles are nearest rank, within 0.4 % above 65536 I/Os;\n",
    );
    out.push_str("  %seq: begins where the previous I/O of the same device and class, by start, ended\n");
}

/// A number that may not be known.
pub(super) fn number(v: Option<f64>, decimals: usize) -> String {
    v.filter(|v| v.is_finite()).map_or_else(|| "-".to_owned(), |v| format!("{v:.decimals$}"))
}

fn percent(v: Option<f64>) -> String {
    v.map_or_else(|| "unknown".to_owned(), |v| format!("{v:.2} %"))
}

fn count(v: Option<u64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

/// Bytes with a binary unit.
pub fn binary_size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::super::report_json::tests::sample;
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};

    #[test]
    fn the_text_says_findings_first_and_escapes_names() {
        let (report, meta, facts) = sample();
        let text = render(&report, &meta, &facts);
        insta::assert_snapshot!(text);
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn an_empty_recording_gives_an_honest_empty_report() {
        let meta = RecordingMeta::new(Source::Counters, 0);
        let text = render(&ReportBuilder::new(Window::OPEN).finish(0), &meta, &RecordingFacts::default());
        assert!(
            text.contains("0 I/Os, 0 B, none lost") && text.contains("no I/O") && text.contains("  none\n"),
            "{text}"
        );
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!([0.0, 1023.0, 1536.0, 1e12].map(binary_size), ["0 B", "1023 B", "1.5 KiB", "931.3 GiB"]);
    }
}
