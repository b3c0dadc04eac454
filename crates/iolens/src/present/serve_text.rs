//! Messages of `iolens serve` on stderr: start, removals by the size limit, end.

use std::fmt::Write as _;
use std::path::Path;

use indicatif::HumanCount;
use iolens_core::model::{Severity, Source};
use iolens_recorder::Progress;

use super::escape;
use super::layout::{count_of, duration, size};
use super::record_text::shell_word;
use super::stories::StoryNews;

/// The lines printed before recording starts. `limits` are the limitations of the source.
pub fn started(source: &Source, limits: &[String], root: &Path, keep_bytes: u64) -> String {
    let mut out = String::new();
    for limit in limits {
        let _ = writeln!(out, "iolens: {limit}");
    }
    let root = root.display().to_string();
    let root = escape::terminal(&root);
    let keep = size(keep_bytes as f64);
    let _ = writeln!(
        out,
        "iolens: recording always (source: {source}) into {root}, at most {keep}"
    );
    let _ = writeln!(
        out,
        "iolens: to see what happened: iolens report {root} --at \"10 min ago\""
    );
    out
}

/// The message that names the target of shipping.
pub fn ships_to(target: &str) -> String {
    format!(
        "iolens: shipping what is closed to {}\n",
        escape::terminal(target)
    )
}

/// The message that shipping to `target` fails; printed once until it works again.
pub fn ship_fails(target: &str, why: &str) -> String {
    let line = format!("--ship {target}: {why}; it is tried again and again");
    format!("iolens: {}\n", escape::terminal(&line))
}

/// The message that shipping works again.
pub fn ship_works(target: &str) -> String {
    format!("iolens: --ship {}: works again\n", escape::terminal(target))
}

/// The text in `/healthz` about shipping that is behind.
pub fn ship_degraded(seconds: u64, waiting: u64) -> String {
    format!("shipping has failed for {seconds} s (standard error says why); {waiting} files wait")
}

/// The text in `/healthz` about files that will never be at the target.
pub fn ship_dropped(files: u64) -> String {
    format!("{files} files were removed by the size limit, or unreadable, before they were shipped")
}

/// The message with the addresses of the server.
pub fn listening(places: &[impl std::fmt::Display]) -> String {
    let mut out = String::new();
    for place in places {
        let place = place.to_string();
        let _ = writeln!(out, "iolens: listening on {}", escape::terminal(&place));
    }
    out
}

/// The note of a response without names, if nothing is being recorded and there is no token file.
pub const HOW_TO_SEE_SHOWN: &str = "names of files and processes are left out, as everybody on this machine can ask; to see them, open the link that iolens serve has printed";

/// The note of a response without names; `command` prints the login link.
pub fn how_to_see_names(command: &str) -> String {
    format!(
        "names of files and processes are left out, as everybody on this machine can ask; to see them, open the link that this prints: {command}"
    )
}

/// The command that prints the link to the service that records into `root`.
pub fn link_command(root: &Path, token_file: Option<&Path>) -> String {
    let mut command = "iolens serve --link --rec ".to_owned();
    command.push_str(&shell_word(root));
    if let Some(file) = token_file {
        let _ = write!(command, " --token-file {}", shell_word(file));
    }
    command
}

/// How to see names: the login link itself if only the user who started the service reads this, else the command that
/// prints it.
pub fn log_in(link: Option<&str>, command: &str) -> String {
    match link {
        Some(link) => format!("iolens: to see names of files and processes, too: {link}\n"),
        None => format!(
            "iolens: to see names of files and processes, too, open the link that this prints: {command}\n"
        ),
    }
}

/// What the size limit removed: number of recordings that lost their single I/Os, their sums per second, or
/// everything. Empty if none.
pub fn freed(of_ios: usize, of_seconds: usize, whole: usize) -> String {
    let mut parts = Vec::new();
    for (n, what) in [
        (of_ios, "the I/Os"),
        (of_seconds, "the sums per second"),
        (whole, "all"),
    ] {
        if n > 0 {
            let recordings = count_of(n as u64, "recording");
            parts.push(format!("{what} of {recordings}"));
        }
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("iolens: the size limit removed {}\n", parts.join(", "))
    }
}

/// The message about a stretch that was preserved around a finding.
pub fn frozen(path: &Path, bytes: u64, ios: u64) -> String {
    let path = path.display().to_string();
    let ios = count_of(ios, "I/O");
    let size = size(bytes as f64);
    format!(
        "iolens: kept {} around a finding: {ios}, {size}\n",
        escape::terminal(&path)
    )
}

/// A finding that begins or ends, with Unix times.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Whether it has ended.
    pub is_over: bool,
    /// Kind, as in reports.
    pub kind: &'a str,
    /// The device; `None` if it concerns all.
    pub device: Option<&'a str>,
    /// Severity.
    pub severity: Severity,
    /// Summary, as in reports.
    pub summary: &'a str,
    /// Start.
    pub from_unix_ns: i64,
    /// When it was last seen.
    pub to_unix_ns: i64,
}

/// The event as one line.
pub fn event(e: &Event) -> String {
    let device = escape::terminal(e.device.unwrap_or("all devices"));
    let seconds = (e.to_unix_ns - e.from_unix_ns) as f64 / 1e9;
    if e.is_over {
        return format!(
            "{} over: {}, {device}, after {seconds:.1} s",
            clock(e.to_unix_ns),
            e.kind,
        );
    }
    format!(
        "{} {}: {}, {device}: {}",
        clock(e.from_unix_ns),
        e.severity.name(),
        e.kind,
        escape::terminal(e.summary),
    )
}

/// A story that begins or ends, with Unix times.
#[derive(Debug, Clone, Copy)]
pub struct StoryLine<'a> {
    /// Whether it has not been seen for a while.
    pub is_over: bool,
    /// The reported content.
    pub news: &'a StoryNews,
    /// When the victim was first affected.
    pub from_unix_ns: i64,
    /// When it was last affected.
    pub to_unix_ns: i64,
}

/// The story as one line.
pub fn story(line: &StoryLine) -> String {
    let news = line.news;
    let kind = news.kind.name();
    let device = escape::terminal(&news.device);
    if line.is_over {
        let seconds = (line.to_unix_ns - line.from_unix_ns) as f64 / 1e9;
        return format!(
            "{} over: {kind}, {device}, story {}, after {seconds:.1} s: {} lost at least {}",
            clock(line.to_unix_ns),
            news.id,
            escape::terminal(&news.victim),
            duration(1e9 * news.harm_s),
        );
    }
    let mut out = format!(
        "{} story {}: {kind}, {device}: {}",
        clock(line.from_unix_ns),
        news.id,
        escape::terminal(&news.summary),
    );
    if !news.advice.is_empty() {
        let advice = news.advice.join("; ");
        let _ = write!(out, " Try: {}", escape::terminal(&advice));
    }
    out
}

/// A time as time of day (UTC).
fn clock(unix_ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(unix_ns.into()).map_or_else(
        |_| "at an unknown time".to_owned(),
        |t| t.strftime("%H:%M:%SZ").to_string(),
    )
}

/// The last line.
pub fn ended(progress: &Progress, path: &Path) -> String {
    let path = path.display().to_string();
    let mut reasons = Vec::new();
    for (reason, ios) in progress.losses.of_ios() {
        reasons.push(format!("{} {}", reason.name(), HumanCount(ios as u64)));
    }
    let reasons = match reasons.is_empty() {
        true => String::new(),
        false => format!(" ({})", reasons.join(", ")),
    };
    format!(
        "iolens: ended after {:.1} s: {}, {} lost{reasons}; the last recording is {}\n",
        progress.at_ns as f64 / 1e9,
        count_of(progress.recorded_ios().max(0) as u64, "I/O"),
        HumanCount(progress.losses.ios().max(0) as u64),
        escape::terminal(&path)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::LossReason;
    use iolens_recorder::LossCounts;

    #[test]
    fn an_event_is_one_line_with_its_time() {
        let started_story = Event {
            is_over: false,
            kind: "slow-io",
            device: Some("sd\x1b[31ma"),
            severity: Severity::Warning,
            summary: "A read\nby \x1b]0;x took 2.00 s.",
            from_unix_ns: 1_700_000_000_000_000_000,
            to_unix_ns: 1_700_000_012_500_000_000,
        };
        let line = event(&started_story);
        assert_eq!(
            line,
            "22:13:20Z warning: slow-io, sd\\x1b[31ma: A read\\x0aby \\x1b]0;x took 2.00 s."
        );
        let over = Event {
            is_over: true,
            device: None,
            ..started_story
        };
        assert_eq!(
            event(&over),
            "22:13:32Z over: slow-io, all devices, after 12.5 s"
        );
    }

    #[test]
    fn a_story_is_one_line_that_says_what_to_try() {
        let news = StoryNews {
            id: "48b69ca5edff".to_owned(),
            kind: iolens_core::analysis::stories::StoryKind::SequentialScan,
            device: "sda".to_owned(),
            victim: "shop (77)".to_owned(),
            culprits: vec!["backup (12)".to_owned()],
            harm_s: 104.0,
            summary: "backup (12) reads.\nReads of sh\x1b[31mop (77) wait for it.".to_owned(),
            advice: vec!["io.max".to_owned(), "ionice".to_owned()],
        };
        let started_story = StoryLine {
            is_over: false,
            news: &news,
            from_unix_ns: 1_700_000_000_000_000_000,
            to_unix_ns: 1_700_000_012_500_000_000,
        };
        assert_eq!(
            story(&started_story),
            "22:13:20Z story 48b69ca5edff: sequential-scan, sda: backup (12) reads.\\x0aReads of sh\\x1b[31mop (77) \
             wait for it. Try: io.max; ionice"
        );
        let over = StoryLine {
            is_over: true,
            ..started_story
        };
        assert_eq!(
            story(&over),
            "22:13:32Z over: sequential-scan, sda, story 48b69ca5edff, after 12.5 s: shop (77) lost at least 104 s"
        );
    }

    #[test]
    fn names_are_escaped_and_what_went_is_said_once() {
        let text = started(
            &Source::Ebpf,
            &["no names".to_owned()],
            Path::new("/a\x1b[31m"),
            10 << 30,
        );
        assert!(
            !text.contains('\x1b') && text.starts_with("iolens: no names\n") && text.contains("10"),
            "{text}"
        );
        assert_eq!(freed(0, 0, 0), "");
        assert_eq!(
            freed(2, 0, 1),
            "iolens: the size limit removed the I/Os of 2 recordings, all of 1 recording\n"
        );
        let ended = ended(
            &Progress {
                ios: 1,
                ..Progress::default()
            },
            Path::new("/r"),
        );
        assert!(
            ended.contains("1 I/O, 0 lost;") && ended.ends_with("/r\n"),
            "{ended}"
        );
        let losses = LossCounts::default()
            .with(LossReason::DiskFull, 1)
            .with(LossReason::Unseen, 1200);
        let lossy = Progress {
            ios: 4,
            losses,
            ..Progress::default()
        };
        let ended = super::ended(&lossy, Path::new("/r"));
        assert!(
            ended.contains("3 I/Os, 1,201 lost (disk-full 1, unseen 1,200)"),
            "{ended}"
        );
    }
}
