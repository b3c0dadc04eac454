//! Stories (A30) in words: what happened, who waited for whom, how bad, what to try.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use indicatif::HumanCount;
use iolens_core::analysis::Report;
use iolens_core::analysis::limits::OwnLimit;
use iolens_core::analysis::stories::{
    Advice, Cause, Cleared, CulpritIo, Doubt, NotProven, Story, StoryKind,
};
use iolens_core::analysis::waits::Program;
use iolens_core::analysis::waits::stretches::Stretch;
use iolens_core::model::{
    Class, DevId, KernelThread, Names, Origin, RecordingMeta, Settings, Source,
};

use super::escape::terminal;
use super::findings::words::{plural, role_of};
use super::layout::{Layout, Role, count_of, duration, size};
use super::record_text::shell_word;
use super::report_json::RecordingFacts;
use super::stories::{self, CulpritFiles, NamedStory};
use super::times::Times;

/// Maximum number of stories on one screen.
pub(super) const MAX_STORIES: usize = 5;

/// Number of spaces before each line of a story.
pub(super) const INDENT: usize = 2;

/// Maximum number of causes that are named if no single one explains half.
const MAX_SHARES: usize = 3;

/// If the lost wall-clock time is less than this share of the time summed over I/Os, the I/Os waited at the same time.
const ONE_BY_ONE: f64 = 0.5;

/// Maximum number of other classes or processes of the victim that are named.
const MAX_ALSO: usize = 2;

/// A stretch stands out if it has at least this many times the bytes of the median stretch.
const OUTSTANDING: f64 = 4.0;

/// The text for recordings without single I/Os, from which no story can be derived.
pub(super) const NO_IOS: &str = "no single I/Os were recorded, so who waited for whom is not known";

/// Whether single I/Os are missing although there may have been some: counters and imported tables have none, and those
/// of a time range may all be lost.
pub(super) fn lacks_ios(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) -> bool {
    match meta.source {
        Source::Counters => true,
        Source::Import(_) => facts.total_ios == Some(0),
        Source::Ebpf => report.devices.ios == 0 && report.devices.lost_ios != Some(0),
    }
}

/// Moves the worst story of each device to the front, if it cost at least a tenth of the worst of all, so that two
/// simultaneous incidents are both on the screen.
fn first_of_devices_first(stories: Vec<NamedStory>) -> Vec<NamedStory> {
    let most_ns = stories.first().map_or(0, |first| first.story.harm.lost_ns);
    let mut devices = HashSet::new();
    let mut ahead = Vec::new();
    let mut others = Vec::new();
    for named in stories {
        let is_first = devices.insert(named.story.dev);
        if is_first && 10 * named.story.harm.lost_ns >= most_ns {
            ahead.push(named);
        } else {
            others.push(named);
        }
    }
    ahead.extend(others);
    ahead
}

/// The first part of a report: at most five stories in at most `max_lines` lines, and the program that is cleared.
pub(super) fn section(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    facts: &RecordingFacts,
    times: &Times,
    layout: Layout,
    max_lines: usize,
) -> String {
    let mut named = first_of_devices_first(stories::named_stories(report, meta, names, facts));
    let mut out = layout.paint(Role::Heading, "What happened") + "\n";
    if let Some(name) = &facts.victim {
        // Stories of a requested program come first.
        named.sort_by_key(|named| !stories::is_victim(named.story, name));
        if let Some(absent) = stories::absent(report, name) {
            let _ = writeln!(out, "  {}", terminal(&absent));
        }
    }
    // Room for stories, without the heading, the count of stories left out, and the empty line at the end.
    let mut lines_left = max_lines.saturating_sub(3);
    let mut shown = 0;
    for named in named.iter().take(MAX_STORIES) {
        let text = paragraph(named, times, layout);
        let lines = text.lines().count();
        if shown > 0 && lines > lines_left {
            break;
        }
        lines_left = lines_left.saturating_sub(lines);
        out.push_str(&text);
        shown += 1;
    }
    if let Some(not_proven) = stories::not_proven(report, meta, names, facts) {
        // Then the text must not claim that no program lost much time.
        out.push_str(&layout.sentences(&format!("  {}\n", terminal(&not_proven.summary))));
    } else if named.is_empty() {
        let why = format!("  {}\n", why_no_story(report, meta, facts));
        out.push_str(&layout.sentences(&why));
    }
    // `--full` prints no more stories than this text may hold; the JSON document has all.
    let seen_in = if named.len() <= MAX_STORIES {
        "--full"
    } else {
        "--json"
    };
    out.push_str(&left_out(named.len() - shown, seen_in));
    if let Some(cleared) = stories::cleared(report, names, facts) {
        let text = layout.sentences(&format!("  {}\n", terminal(&cleared.summary)));
        // A request for a program is always answered.
        if facts.victim.is_some() || text.lines().count() <= lines_left {
            out.push_str(&text);
        }
    }
    out.push('\n');
    out
}

/// The text if no story is shown.
fn why_no_story(report: &Report, meta: &RecordingMeta, facts: &RecordingFacts) -> String {
    if lacks_ios(report, meta, facts) {
        return NO_IOS.to_owned();
    }
    // Stories that exist but are not shown are muted.
    match report.stories.len() {
        0 => {}
        1 => return "1 story is muted (--mute)".to_owned(),
        muted => return format!("{muted} stories are muted (--mute)"),
    }
    if stories::suspects(report).is_empty() {
        stories::NO_STORY.to_owned()
    } else {
        "no program made another wait for long; what devices did by themselves is below".to_owned()
    }
}

/// The number of stories left out, and the option that shows them; empty if there are none.
pub(super) fn left_out(stories: usize, seen_in: &str) -> String {
    if stories == 0 {
        return String::new();
    }
    let more = count_of(stories as u64, "more story");
    format!("  and {more}: {seen_in}\n")
}

/// A single story with its heading.
pub(super) fn only(
    report: &Report,
    story: &Story,
    meta: &RecordingMeta,
    names: &Names,
    times: &Times,
    layout: Layout,
) -> String {
    let mut out = layout.paint(Role::Heading, "What happened") + "\n";
    for named in stories::named_stories(report, meta, names, &RecordingFacts::default()) {
        if std::ptr::eq(named.story, story) {
            out.push_str(&paragraph(&named, times, layout));
        }
    }
    out
}

/// The indented lines of one story.
fn paragraph(named: &NamedStory, times: &Times, layout: Layout) -> String {
    let what = sentences(named, times).join(" ");
    let mut out = layout.paragraph(&terminal(&what), INDENT);
    if !named.story.advice.is_empty() {
        let advice = format!("Try: {}", tries(named));
        out.push_str(&layout.paragraph_of_commands(&terminal(&advice), INDENT));
    }
    out
}

fn tries(named: &NamedStory) -> String {
    let mut all = Vec::new();
    for what in &named.story.advice {
        let mut text = advice(*what, named);
        if let Some(now) = present_value(*what, named.story, named.settings) {
            let _ = write!(text, " (now {now})");
        }
        all.push(text);
    }
    all.join("; ")
}

/// The sentences of one story.
pub(super) fn sentences(named: &NamedStory, times: &Times) -> Vec<String> {
    let story = named.story;
    let mut out = vec![what_happened(named, times), how_bad(story)];
    out.extend(also(story));
    for doubt in &story.doubts {
        out.push(match doubt {
            Doubt::FewIos => "Probably: few I/Os were delayed.".to_owned(),
            Doubt::LostIos => "Probably: I/Os are missing from the recording.".to_owned(),
            Doubt::NoPressure => {
                "Probably: the kernel does not say whether the group's tasks waited (no PSI)."
                    .to_owned()
            }
        });
    }
    out
}

fn what_happened(named: &NamedStory, times: &Times) -> String {
    let story = named.story;
    let device = &named.device;
    let victim = label(&story.victim);
    let class = plural(story.class);
    let worst = worst(story, times);
    match story.kind {
        StoryKind::OwnQueue => format!(
            "{victim} keeps {:.0} {} in flight on {device}, more than it serves at once: they wait for each other, {worst}.",
            story.in_flight,
            class.to_lowercase()
        ),
        StoryKind::RateLimit => rate_limit(named, times),
        StoryKind::CacheMisses => cache_misses(named, times),
        StoryKind::DevicePause => format!(
            "{device} paused: nothing completed although requests were with it, and the CPUs were not the reason. {class} of \
             {victim} waited, {worst}."
        ),
        StoryKind::SlowIo => format!(
            "{device} took long over {} of {victim}, with nothing else to do: {worst}.",
            singles(story)
        ),
        StoryKind::Held => format!(
            "{class} of {victim} were held above the driver of {device} while it had room: by a limit of the control group, the \
             scheduler, or for want of tags; {worst}."
        ),
        StoryKind::NoSingleCause => {
            format!(
                "{class} of {victim} waited on {device} for several others, {worst}: no single cause."
            )
        }
        _ => by_program(named, times),
    }
}

fn singles(story: &Story) -> String {
    let n = story.harm.delayed_ios;
    let class = plural(story.class).to_lowercase();
    if n == 1 {
        return format!("one of the {class}");
    }
    format!("{n} of the {class}")
}

/// The sentence about a control group at its own limit.
fn own_limit(named: &NamedStory, limit: &OwnLimit, times: &Times) -> String {
    let class = plural(named.story.class);
    let per_s = limit.limit_per_s as f64;
    let amount = if limit.rate.is_of_ios() {
        format!("{} {}", rounded(per_s), class.to_lowercase())
    } else {
        size(per_s)
    };
    let setting = if limit.cgroup.is_some() {
        format!("io.max {}={}", limit.rate.key(), limit.limit_per_s)
    } else {
        limit.rate.v1_file().to_owned()
    };
    let victim = match named.story.victim.comm {
        Some(_) => format!("{class} of {}", label(&named.story.victim)),
        None => format!("Its {}", class.to_lowercase()),
    };
    format!(
        "From {} on the control group {} is at its own limit of {amount} per second on {} ({setting}): not the disk and no other \
         load. {victim} wait for it before the block layer has them.",
        times.instant(named.story.episodes.from_ns),
        limit.path,
        named.device,
    )
}

fn rate_limit(named: &NamedStory, times: &Times) -> String {
    if let Some(limit) = &named.story.own_limit {
        return own_limit(named, limit, times);
    }
    let Some(cap) = &named.story.cap else {
        return String::new();
    };
    let rate = match (cap.ios_per_s, cap.bytes_per_s) {
        (Some(ios), _) => format!("{} I/Os", rounded(ios)),
        (None, Some(bytes)) => size(bytes),
        (None, None) => return String::new(),
    };
    let before = match (cap.before_per_s, cap.bytes_per_s) {
        (Some(before), None) => format!(" (before: {})", rounded(before)),
        (Some(before), Some(_)) => format!(" (before: {})", size(before)),
        (None, _) => String::new(),
    };
    format!(
        "From {} on {} completes {rate} per second{before}, whatever is queued: a rate limit, not the disk and no other load. \
         {} of {} wait for it: {}.",
        times.instant(cap.from_ns),
        named.device,
        plural(named.story.class),
        label(&named.story.victim),
        worst(named.story, times),
    )
}

/// The sentence about a control group that reads pages again that its memory limit had evicted.
fn cache_misses(named: &NamedStory, times: &Times) -> String {
    let Some(limit) = &named.story.memory_limit else {
        return String::new();
    };
    format!(
        "{} reads again on {} what it had in memory before: at least {} that the memory limit of its control group had evicted ({}, {} {}; \
         {}): not the disk and no other load.",
        label(&named.story.victim),
        named.device,
        size(limit.refaulted_bytes as f64),
        limit.path,
        limit.key(),
        size(limit.limit_bytes as f64),
        times.span(named.story.episodes.from_ns, named.story.episodes.to_ns),
    )
}

/// The sentence about what a culprit did and that the victim waited.
fn by_program(named: &NamedStory, times: &Times) -> String {
    let story = named.story;
    let (Some(culprit), Some(io)) = (story.culprits.first(), story.culprit_ios.first()) else {
        return String::new();
    };
    let mut out = when(io, times);
    // Two programs without a name may be different ones; threads of one process may have different names.
    let is_own = *culprit == story.victim && culprit.comm.is_some();
    let is_same_process = culprit.tgid.is_some() && culprit.tgid == story.victim.tgid;
    let _ = write!(
        out,
        "{} {}",
        culprit_label(culprit, io, named.loop_device.as_deref()),
        deed(story.kind, io, &named.device, &named.files)
    );
    let second = story.culprits.get(1);
    if let Some(second) = second {
        out += &by_second(second, io, named, times);
    }
    let class = plural(story.class);
    if is_own && second.is_none() {
        let _ = write!(out, "; its own {} wait for it: ", class.to_lowercase());
    } else if is_same_process && second.is_none() {
        let victim = label(&story.victim);
        let _ = write!(
            out,
            ". {class} of {victim}, the same process, wait for it: "
        );
    } else {
        let _ = write!(out, ". {class} of {} wait for it: ", label(&story.victim));
    }
    out + &worst(story, times) + "."
}

/// What the second culprit did, with figures of its own; its files are not known. `first_io` is the I/O of the first one.
fn by_second(second: &Program, first_io: &CulpritIo, named: &NamedStory, times: &Times) -> String {
    let story = named.story;
    let Some(io) = story.culprit_ios.get(1) else {
        return format!(", as does {}", label(second));
    };
    // The kind of a story is what the first culprit did.
    let kind = match io.class {
        _ if (io.class, io.origin) == (first_io.class, first_io.origin) => story.kind,
        Class::Discard => StoryKind::Discard,
        Class::Flush => StoryKind::FsyncStorm,
        Class::Read | Class::Write => StoryKind::Unknown,
    };
    format!(
        ", and {}{} {}",
        when(io, times).to_lowercase(),
        culprit_label(second, io, None),
        deed(kind, io, &named.device, &CulpritFiles::default())
    )
}

/// The sentence about the worst I/O.
fn worst(story: &Story, times: &Times) -> String {
    let worst = &story.harm.worst;
    format!(
        "up to {} instead of {} ({})",
        duration(worst.latency_ns as f64),
        duration(worst.undisturbed_ns as f64),
        times.instant(worst.done_ns),
    )
}

/// The stretch of a culprit's I/O in which the victim waited longest, if it stands out so much that medians over all
/// stretches would not describe it.
fn outstanding(io: &CulpritIo) -> Option<&Stretch> {
    let stretch = io.at_worst.as_ref()?;
    let is_larger = stretch.amount as f64 > OUTSTANDING * io.stretch_bytes;
    (is_larger && io.period_ns.is_none()).then_some(stretch)
}

/// The single stretch that a sentence describes; `None` if it gives the medians of several stretches.
fn single_stretch(io: &CulpritIo) -> Option<&Stretch> {
    outstanding(io).or(io.only_stretch.as_ref())
}

/// The time at which a culprit did its I/O: from when to when, at what period, or how many times.
fn when(io: &CulpritIo, times: &Times) -> String {
    if let Some(stretch) = single_stretch(io) {
        return format!("From {} ", times.span(stretch.from_ns, stretch.to_ns));
    }
    if let Some(period_ns) = io.period_ns {
        return format!("Every {} ", duration(period_ns));
    }
    format!("{} times ", rounded(io.stretches as f64))
}

/// What the culprit does: in the present tense if it recurs, else in the past tense.
fn deed(kind: StoryKind, io: &CulpritIo, device: &str, files: &CulpritFiles) -> String {
    let verb = verb(kind, io);
    let mut bytes = io.stretch_bytes;
    let mut length_ns = io.stretch_ns;
    let mut per_s = io.ios as f64 / ((io.to_ns - io.from_ns).max(1) as f64 / 1e9);
    if let Some(stretch) = single_stretch(io) {
        bytes = stretch.amount as f64;
        length_ns = (stretch.to_ns - stretch.from_ns) as f64;
        per_s = stretch.ios as f64 / (length_ns / 1e9).max(1e-9);
    }
    let amount = size(bytes);
    let files = of_files(files, single_stretch(io));
    match kind {
        StoryKind::Discard => format!("{verb} {amount} on {device} in {}", duration(length_ns)),
        StoryKind::FsyncStorm
        | StoryKind::Journal
        | StoryKind::SmallWrites
        | StoryKind::Metadata => {
            format!("{verb} {device} ({} a second)", rounded(per_s))
        }
        _ => {
            let rate = size(bytes / (length_ns / 1e9).max(1e-9));
            format!(
                "{verb} {amount}{files} on {device} in {} ({rate}/s or more)",
                duration(length_ns)
            )
        }
    }
}

/// The files whose bytes a sentence gives: ` of A`, ` of A and B`, ` of A and 2 more files`, or ` of A and others` if the files that are
/// known have less than nine tenths of the bytes; empty if none is known. `stretch` is the single stretch that the sentence describes.
fn of_files(files: &CulpritFiles, stretch: Option<&Stretch>) -> String {
    if let Some(file) = stretch.and_then(|stretch| files.of_stretch(stretch)) {
        return format!(" of {}", short_path(&file.name));
    }
    let [first, others @ ..] = &files.used[..] else {
        return String::new();
    };
    let first = short_path(&first.name);
    if !files.are_nearly_all() {
        return format!(" of {first} and others");
    }
    match others {
        [] => format!(" of {first}"),
        [second] => format!(" of {first} and {}", short_path(&second.name)),
        _ => format!(" of {first} and {} more files", others.len()),
    }
}

fn verb(kind: StoryKind, io: &CulpritIo) -> &'static str {
    // Large random reads keep the device busy for as long as sequential ones.
    let is_stream = io.is_sequential();
    match kind {
        StoryKind::WritebackFlush => "writes back",
        StoryKind::Journal => "commits to",
        StoryKind::FsyncStorm => "syncs small writes to",
        StoryKind::Compaction => "reads and writes",
        StoryKind::Discard => "discards",
        StoryKind::Swap => "swaps",
        StoryKind::SmallWrites => "makes small writes to",
        StoryKind::Metadata if io.class == Class::Read => "reads metadata on",
        StoryKind::Metadata => "changes metadata on",
        StoryKind::SequentialScan if is_stream => "reads in one stream",
        StoryKind::RandomReads => "reads at random places",
        _ if io.class == Class::Read => "reads",
        _ => "writes",
    }
}

/// Time lost, what explains it, and p99 with and without.
fn how_bad(story: &Story) -> String {
    let harm = &story.harm;
    if story.kind == StoryKind::CacheMisses {
        return format!(
            "Those reads took {} of {} of I/O time ({:.0} %).",
            duration(harm.ns as f64),
            duration(story.io_time_ns as f64),
            100.0 * story.harm_share(),
        );
    }
    let mut out = format!(
        "They lost at least {} of {} of I/O time ({:.0} %)",
        duration(harm.ns as f64),
        duration(story.io_time_ns as f64),
        100.0 * story.harm_share(),
    );
    if let Some(by_clock_ns) = harm.by_clock_ns
        && (by_clock_ns as f64) < ONE_BY_ONE * harm.ns as f64
    {
        let by_clock = duration(by_clock_ns as f64);
        let _ = write!(out, ", several at a time within {by_clock}");
    }
    if !story.culprits.is_empty() {
        // The p99 with the cause is missing if there were too many victim-culprit pairs to keep.
        match story.episodes.times {
            0 => {}
            1 => out.push_str(", once"),
            n => {
                let _ = write!(out, ", {} times", rounded(n as f64));
            }
        }
    }
    out.push_str(&shares(story));
    // If other causes delay more, the quantiles do not show the effect of this one.
    if let (Some(with), Some(without)) = (harm.p99_with_ns, harm.p99_without_ns)
        && with > without
    {
        let _ = write!(
            out,
            "; p99 {} with it, {} without",
            duration(with as f64),
            duration(without as f64)
        );
    }
    out.push('.');
    out
}

/// The sentence about other I/Os of the victim that the cause delayed.
fn also(story: &Story) -> Option<String> {
    let mut parts = Vec::new();
    for also in story.also.iter().take(MAX_ALSO) {
        let class = plural(also.class).to_lowercase();
        let whose = if also.victim == story.victim {
            format!("its {class}")
        } else {
            format!("{class} of {}", label(&also.victim))
        };
        let lost = duration(also.harm_ns as f64);
        let all = duration(also.io_time_ns as f64);
        parts.push(format!("{whose} at least {lost} of {all}"));
    }
    if parts.is_empty() {
        return None;
    }
    let left = match story.also.len() - parts.len() {
        0 => String::new(),
        n => format!(", beside {n} more"),
    };
    Some(format!("The same cost {}{left}.", parts.join(" and ")))
}

/// The causes of the lost time with their shares.
fn shares(story: &Story) -> String {
    if story.kind == StoryKind::NoSingleCause {
        let mut parts = Vec::new();
        for share in story.shares.iter().take(MAX_SHARES) {
            let percent = percent_of_delay(share.ns, story);
            parts.push(format!("{} {percent:.0} %", cause(&share.cause, story)));
        }
        return format!("; of the delay: {}", parts.join(", "));
    }
    let percent = percent_of_delay(story.harm.ns, story);
    let mut out = format!(": {percent:.0} % of their delay");
    // The largest cause that the sentence has not named yet is named if it explains a considerable share.
    let next = story.shares.iter().find(|s| !is_named(&s.cause, story));
    if let Some(next) = next {
        let percent = percent_of_delay(next.ns, story);
        if percent >= 10.0 {
            let _ = write!(out, ", {} {percent:.0} %", cause(&next.cause, story));
        }
    }
    out
}

fn percent_of_delay(ns: i64, story: &Story) -> f64 {
    100.0 * ns as f64 / story.excess_ns.max(1) as f64
}

/// Whether the story is about this cause, so that its sentence already names it.
fn is_named(cause: &Cause, story: &Story) -> bool {
    match cause {
        Cause::Program(program) => story.culprits.contains(program),
        Cause::OwnQueue => matches!(story.kind, StoryKind::OwnQueue | StoryKind::RateLimit),
        Cause::Held => story.kind == StoryKind::Held || story.own_limit.is_some(),
        Cause::Device => story.culprits.is_empty() && story.kind != StoryKind::Held,
        Cause::MemoryLimit => story.kind == StoryKind::CacheMisses,
        Cause::NotKnown => false,
    }
}

fn cause(cause: &Cause, story: &Story) -> String {
    match cause {
        Cause::Program(program) if *program == story.victim => "its other I/O".to_owned(),
        Cause::Program(program) => label(program),
        Cause::OwnQueue => "its own queue".to_owned(),
        Cause::Held => "waiting above the driver".to_owned(),
        Cause::Device => "the device itself".to_owned(),
        Cause::MemoryLimit => "the memory limit".to_owned(),
        Cause::NotKnown => "not known".to_owned(),
    }
}

/// The value of the setting that an advice is about, if it was recorded.
pub(super) fn present_value(
    what: Advice,
    story: &Story,
    settings: Option<&Settings>,
) -> Option<String> {
    let settings = settings?;
    match what {
        Advice::DirtyBackgroundBytes => {
            let writeback = &settings.writeback;
            if let Some(bytes) = writeback.dirty_background_bytes.filter(|b| *b > 0) {
                return Some(size(bytes as f64));
            }
            let ratio = writeback.dirty_background_ratio?;
            let Some(bytes) = writeback.dirty_background_threshold_bytes else {
                return Some(format!("{ratio} % of the memory"));
            };
            Some(format!("{ratio} % = {}", size(bytes as f64)))
        }
        Advice::RaiseMemoryLimit => {
            let limit = story.memory_limit.as_ref()?;
            Some(size(limit.limit_bytes as f64))
        }
        Advice::LookAtLimits => {
            let queue = settings.queue(story.dev)?;
            queue.scheduler.clone()
        }
        _ => None,
    }
}

/// What to try.
pub(super) fn advice(what: Advice, named: &NamedStory) -> String {
    let story = named.story;
    let culprit = story.culprits.first().unwrap_or(&story.victim);
    let name = match &culprit.comm {
        Some(comm) => comm.to_text().into_owned(),
        None => "the program".to_owned(),
    };
    match what {
        Advice::DirtyBackgroundBytes => "vm.dirty_background_bytes=16M".to_owned(),
        Advice::SyncInSteps => format!("let {name} sync in smaller steps (sync_file_range)"),
        Advice::LimitCgroup => format!("io.max or io.weight for the control group of {name}"),
        Advice::Throttle => throttled(culprit, named),
        Advice::GroupSyncs => format!("fewer, larger syncs in {name} (group commit)"),
        Advice::TrimApart => "discard at a quiet time (fstrim), not by the mount option".to_owned(),
        Advice::Memory => "more memory, or less for the program that fills it".to_owned(),
        Advice::RaiseMemoryLimit => {
            "a higher memory limit for the control group, or less memory in use in it".to_owned()
        }
        Advice::LowerDepth => {
            format!("fewer I/Os in flight in {name}: the same rate, shorter waits")
        }
        Advice::RaiseLimit => "a volume with a higher limit, or fewer I/Os".to_owned(),
        Advice::LookAtLimits => {
            "look at io.max of the control group and at the device's scheduler".to_owned()
        }
        Advice::LookAtDevice => "look at the device: its log, firmware, the hypervisor, a rate limit that lets I/Os through in bursts".to_owned(),
        Advice::LookAbove => {
            let above = named.loop_device.as_deref().unwrap_or("the device above");
            format!("see who uses {above} (report --device)")
        }
    }
}

/// The command that starts a program under `iolens throttle` for the device of its story.
fn throttled(program: &Program, named: &NamedStory) -> String {
    let command = match &program.comm {
        Some(comm) => comm.to_text().into_owned(),
        None => "COMMAND".to_owned(),
    };
    let path = path_on(named.story.dev, named.settings);
    format!("start it with iolens throttle --path {path} -- {command}")
}

/// The mount point of the device's file system, quoted for a shell; a placeholder if it was not recorded.
fn path_on(dev: DevId, settings: Option<&Settings>) -> String {
    let mut mounts = settings.into_iter().flat_map(|s| s.mounts_on(dev));
    match mounts.find_map(|mount| mount.mount_point.as_deref()) {
        Some(path) => shell_word(Path::new(path)),
        None => "/mount/point".to_owned(),
    }
}

/// The sentence about a program that is in no story.
pub(super) fn cleared(cleared: &Cleared) -> String {
    format!(
        "Not the disk: of {} I/Os of {} none took longer than {}, and they waited {} in all.",
        rounded(cleared.ios as f64),
        label(&cleared.program),
        duration(cleared.longest_ns as f64),
        duration(cleared.excess_ns as f64),
    )
}

/// The sentence about a program of which it is not known whether it waited.
pub(super) fn not_proven(found: &NotProven, device: &str) -> String {
    let class = plural(found.class).to_lowercase();
    let ios = format!("{class} of {}", label(&found.program));
    format!(
        "Not proven: {ios} took {}, of which they can have lost up to {} behind {} on {device}. Hardly any of them had {device} to \
         itself, so what they take undisturbed is not known: record a quieter time, too.",
        duration(found.io_time_ns as f64),
        duration(found.at_most_ns as f64),
        label(&found.beside),
    )
}

/// A culprit's name; for a kernel worker, which works for any program, what it does.
fn culprit_label(culprit: &Program, io: &CulpritIo, loop_device: Option<&str>) -> String {
    if culprit.comm.is_none() && culprit.tgid.is_none() && io.origin == Origin::Writeback {
        let whose = loop_device.unwrap_or("an unknown process");
        return format!("the kernel for {whose}");
    }
    if culprit.kernel_thread() != Some(KernelThread::Worker) {
        return label(culprit);
    }
    let role = role_of(KernelThread::Worker, io.class, io.origin);
    match loop_device.filter(|_| io.origin.is_by_submitter()).or(role) {
        Some(who) => format!("{who} (kworker)"),
        None => label(culprit),
    }
}

fn label(program: &Program) -> String {
    if *program == Program::OTHERS {
        return "other programs".to_owned();
    }
    let name = program.comm.as_ref().map(|comm| comm.to_text());
    program_label(name.as_deref(), program.tgid)
}

/// `NAME (PID)`; for a kernel thread what it does.
pub(super) fn program_label(name: Option<&str>, pid: Option<i32>) -> String {
    let Some(name) = name else {
        return match pid {
            Some(pid) => format!("process {pid}"),
            None => "an unknown process".to_owned(),
        };
    };
    if name == "kworker" {
        return "the kernel (kworker)".to_owned();
    }
    if KernelThread::of(name.as_bytes()) == Some(KernelThread::Journal) {
        return format!("ext4's journal ({name})");
    }
    match pid {
        Some(pid) => format!("{name} ({pid})"),
        None => name.to_owned(),
    }
}

/// The base name of a file; the JSON document has its path.
fn short_path(path: &str) -> &str {
    let path = path.trim_end_matches(" (deleted)");
    path.rsplit('/').next().unwrap_or(path)
}

/// A rounded number, at least zero, with thousands separators.
fn rounded(value: f64) -> HumanCount {
    HumanCount(value.round_ties_even() as u64)
}
