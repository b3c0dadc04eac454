//! One device in depth as lines of the text report: what every analysis says of it, a "no" as well as a "yes".

use std::fmt::Write;

use iolens_core::analysis::attribution::AttributionSummary;
use iolens_core::analysis::capacity::{Capacity, State};
use iolens_core::analysis::detail::{DeviceDetail, StreamDetail};
use iolens_core::analysis::io_ticks::{UtilCheck, Verdict as Util};
use iolens_core::analysis::periodicity::Verdict as Rhythm;
use iolens_core::analysis::slots::{SLOT_NS, SlotGroup, SlotSummary};
use iolens_core::analysis::stages::{Stage, StagesSummary};
use iolens_core::analysis::starvation::Verdict as Wait;
use iolens_core::model::Class;

use super::html::capacity::summary;
use super::report_text::{binary_size, number, wrapped};

/// As wide as the table of devices.
const WIDTH: usize = 119;
/// Groups of slots that the text shows; `--json` has all.
const MOST_GROUPS: usize = 12;

/// The lines under a device, broken where they are too long.
pub fn detail(out: &mut String, d: &DeviceDetail) {
    let mut text = String::new();
    lines(&mut text, d);
    for line in text.lines() {
        if line.chars().count() <= WIDTH {
            let _ = writeln!(out, "{line}");
            continue;
        }
        for (i, part) in wrapped(line.trim_start(), WIDTH - 6).iter().enumerate() {
            let _ = writeln!(out, "{:indent$}{part}", "", indent = if i == 0 { 2 } else { 6 });
        }
    }
}

fn lines(out: &mut String, d: &DeviceDetail) {
    if let Some(u) = &d.util {
        util(out, u);
    }
    stages(out, &d.stages);
    slots(out, &d.slots);
    capacity(out, &d.capacity);
    d.streams.iter().filter(|s| s.bytes > 0).for_each(|s| rhythm(out, s));
    d.streams.iter().for_each(|s| waiting(out, s));
    attribution(out, &d.attribution);
    if let Some(p) = d.peak_hour {
        let _ = writeln!(
            out,
            "  busiest hour: from {:.0} s, {:.1} I/Os/s, {:.2} times the mean",
            p.from_ns as f64 / 1e9,
            p.ios_per_s,
            p.ratio
        );
    }
}

fn util(out: &mut String, u: &UtilCheck) {
    let verdict = match u.verdict {
        Util::Ok => "right within its resolution",
        Util::BiasedHigh => "too high",
        Util::BiasedLow => "too low",
        Util::Impossible => "impossible",
    };
    let sigma = u.sigma_pp.map(|s| format!(", one sigma {s:.2} points")).unwrap_or_default();
    let expected =
        u.expected_percent.map(|e| format!(", this kernel must count {e:.2} % for these I/Os")).unwrap_or_default();
    let _ = writeln!(
        out,
        "  %util: {:.2} % is {verdict}; exactly {:.2} %{expected}{sigma}",
        u.io_ticks_percent, u.exact_percent
    );
}

fn stages(out: &mut String, s: &StagesSummary) {
    let stage = |name: &str, stage: &Stage| {
        let share = stage.share_percent.map(|p| format!(" ({p:.1} % of the time)")).unwrap_or_default();
        stage.mean_us.map(|us| format!("{name} mean {us:.1} us{share}"))
    };
    let parts = [
        stage("queue", &s.s2d),
        stage("device", &s.d2c).map(|text| format!("{text}, n {}", s.d2c.n)),
        s.depth_at_issue.map(|n| format!("{n:.2} others with the device when one is issued")),
        s.seek_p50_sectors.map(|n| format!("median seek {}", binary_size(n as f64 * 512.0))),
        s.turn_percent.map(|p| format!("{p:.1} % of issues turn between reading and writing")),
    ];
    let _ = writeln!(out, "  stages: {}", known(parts));
    if let Some(b) = &s.bios {
        let named =
            [("Q2G", &b.q2g), ("G2I", &b.g2i), ("Q2M", &b.q2m), ("I2D", &b.i2d), ("M2D", &b.m2d), ("D2C", &b.d2c)];
        let parts = named.map(|(name, s)| stage(name, s).map(|text| format!("{text}, n {}", s.n)));
        let whole = stage("Q2C", &b.q2c).unwrap_or_default();
        let _ = writeln!(out, "  bios: {}; {whole}, n {}", known(parts), b.q2c.n);
    }
}

/// What is known of `parts`.
fn known<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Concurrency in slots, in groups (A3, A4).
pub fn slots(out: &mut String, s: &SlotSummary) {
    if s.all.is_empty() {
        return;
    }
    let width_ms = SLOT_NS as f64 / 1e6;
    let title = format!("  in flight in {width_ms} ms slots, p50/p75:");
    let (touched, sampled, mean, most, share) = ("touched", "sampled", "mean", "most", "slots touched");
    let _ = writeln!(out, "{title:<36}{touched:>10}{sampled:>10}{mean:>12}{most:>10}  {share}");
    for (i, all) in s.all.iter().take(MOST_GROUPS).enumerate() {
        let when = format!("{:.0}-{:.0} s", all.from_ns as f64 / 1e9, all.to_ns as f64 / 1e9);
        let classes = [("all", Some(all)), ("reads", s.read.get(i)), ("writes", s.write.get(i))];
        let shown = classes.into_iter().filter_map(|(name, g)| Some((name, g?)));
        for (name, g) in shown.filter(|(name, g)| *name == "all" || g.touched_percent > 0.0) {
            let when = if name == "all" { &*when } else { "" };
            let _ = writeln!(out, "    {when:<22}{name:<10}{}", group(g));
        }
    }
    if s.all.len() > MOST_GROUPS {
        let _ = writeln!(out, "    ... and {} more groups (--json has them)", s.all.len() - MOST_GROUPS);
    }
}

fn group(g: &SlotGroup) -> String {
    let pair = |q: iolens_core::analysis::slots::SlotQuantiles| format!("{}/{}", short(q.p50), short(q.p75));
    format!(
        "{:>10}{:>10}{:>12}{:>10}  {:.2} % of {}",
        pair(g.touched),
        pair(g.sampled),
        pair(g.mean),
        pair(g.max),
        g.touched_percent,
        g.slots
    )
}

/// Whole numbers without a point.
fn short(v: f64) -> String {
    if v.fract() == 0.0 { format!("{v:.0}") } else { format!("{v:.2}") }
}

fn capacity(out: &mut String, c: &Capacity) {
    let state = serde_json::to_value(c.state).ok();
    let state = state.as_ref().and_then(|s| s.as_str()).unwrap_or("unknown").replace('-', " ");
    let of_device = !matches!(c.state, State::Idle | State::Inconsistent);
    let parts = [
        c.max_ios_per_s.filter(|_| of_device).map(|x| format!("most seen {x:.0} I/Os/s")),
        c.min_us.map(|us| format!("{us:.1} us when unloaded")),
        c.knee_in_flight
            .filter(|_| of_device)
            .map(|n| format!("knee at {n:.2} in flight, mean {:.2}", c.mean_in_flight)),
        c.headroom.filter(|_| of_device).map(|h| format!("headroom {:.1} %", 100.0 * h)),
    ];
    let _ = writeln!(out, "  capacity: {state}: {} {}", summary(c), known(parts));
}

fn rhythm(out: &mut String, s: &StreamDetail) {
    let p = &s.periodicity;
    let class = s.class.name();
    let _ = match (p.verdict, p.period_s) {
        (verdict @ (Rhythm::Periodic | Rhythm::Tentative), Some(period)) => {
            let sure = if verdict == Rhythm::Tentative { ", tentative: too few periods" } else { "" };
            let interval = p.period_ci_s.map(|(low, high)| format!(" ({low:.3} to {high:.3})")).unwrap_or_default();
            writeln!(
                out,
                "  rhythm of {class}s: every {period:.3} s{interval}, {} periods, p {}{sure}",
                number(p.cycles, 1),
                number(p.p_value, 4)
            )
        }
        (Rhythm::InsufficientData, _) => {
            writeln!(out, "  rhythm of {class}s: insufficient data ({} onsets)", p.onsets)
        }
        _ => writeln!(out, "  rhythm of {class}s: none beyond chance ({} onsets)", p.onsets),
    };
}

fn waiting(out: &mut String, s: &StreamDetail) {
    let Some(w) = &s.starvation else { return };
    let other = if s.class == Class::Read { "write" } else { "read" };
    let bursts = if w.bursts == 1 { format!("1 {other} burst") } else { format!("{} {other} bursts", w.bursts) };
    let class = s.class.name();
    let verdict = match w.verdict {
        Wait::Starvation => "starved",
        Wait::Suggestive => "perhaps starved (fewer than 5 bursts)",
        Wait::NoEffect => "not noticeably delayed",
        Wait::NoneObserved => {
            let (during, outside) = (w.treated, w.control);
            let _ = writeln!(out, "  {class}s under {bursts}: nothing to compare ({during} during, {outside} outside)");
            return;
        }
    };
    let _ = writeln!(
        out,
        "  {class}s under {bursts}: {verdict}; p99 {} us (n {}) against {} us (n {}), p {}",
        number(w.p99_during_us, 1),
        w.treated,
        number(w.p99_outside_us, 1),
        w.control,
        number(w.p_value, 4),
    );
}

fn attribution(out: &mut String, a: &AttributionSummary) {
    let Some(differ) = a.differ_percent else { return };
    let _ = writeln!(
        out,
        "  by arrival instead of completion, {differ:.1} % of the {} s bins with I/O differ by more than 10 %",
        a.bin_ns as f64 / 1e9
    );
}
