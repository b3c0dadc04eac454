//! The program `iolens`: argv becomes a plan (`cli`), a command connects a source, an engine and an output (`commands`),
//! pure functions turn results into text (`present`).
//!
//! `engine` reads recordings for the analyses, `copies` writes recordings from others; `live`, `iostat`, `serve` and `throttle` are loops that run until they are stopped.
//! No crate depends on this one: the library crates are below it. Start at [`run`], then the file of a
//! command.

#[macro_use]
mod streams;

pub mod cli;
pub mod commands;
mod copies;
mod engine;
mod iostat;
mod live;
pub mod present;
mod serve;
mod signals;
mod throttle;
mod units;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::sync::Arc;

use iolens_observe::counters::process;
use present::query_text::{self, Spelling};
use signal_hook::consts::SIGXFSZ;

/// Exit code of a usage error or failure.
const FAILED: u8 = 2;

/// Runs the program and returns its exit code. Exit codes and broken pipes are decided here and nowhere else.
pub fn run(argv: Vec<OsString>) -> u8 {
    // Before anything is set up: the drop-in starts as fast as the original.
    if iostat::is_meant(&argv) {
        return iostat::run(&argv);
    }
    let plan = match cli::parse(argv) {
        Ok(plan) => plan,
        Err(e) => return explain_usage(&e),
    };
    survive_file_size_limit();
    let code = match commands::run(plan) {
        Ok(code) => code,
        Err(e) if is_of_stdout(&e) => 0,
        Err(e) => {
            let why = query_text::failure(&e, Spelling::Flags);
            eprintln!("iolens: {}", present::escape::terminal(&why));
            FAILED
        }
    };
    finish_stdout(code)
}

/// Flushes stdout. A closed pipe, as by `| head`, is not an error; any other failure is reported and changes the exit
/// code. Other output of the command is kept.
fn finish_stdout(code: u8) -> u8 {
    match streams::failure().filter(|e| e.kind() != ErrorKind::BrokenPipe) {
        None => code,
        Some(e) => {
            eprintln!("iolens: stdout: {e}; what was to be printed is not complete");
            if code == 0 { FAILED } else { code }
        }
    }
}

/// Makes a write beyond the limit of `ulimit -f` fail instead of ending the process. The recording is then closed as
/// on a full disk. Unlike an ignored signal, a handler is not inherited by commands.
fn survive_file_size_limit() {
    if !process::is_ignored(SIGXFSZ) {
        // Without the handler the signal ends the program, which is the default.
        drop(signal_hook::flag::register(SIGXFSZ, Arc::default()));
    }
}

/// Help and version go to stdout with 0; everything else is one line with 2.
fn explain_usage(e: &clap::Error) -> u8 {
    if !e.use_stderr() {
        return match e.print() {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => FAILED,
            _ => 0,
        };
    }
    let text = e.to_string();
    let wanted_help = e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if wanted_help {
        eprint!("{text}");
    } else {
        let line = usage_line(&text);
        let separator = if line.ends_with('?') { "" } else { ";" };
        eprintln!("iolens: {line}{separator} try --help");
    }
    FAILED
}

/// What clap says in several lines, in one: the error, what is missing, what would do, what was perhaps meant.
fn usage_line(text: &str) -> String {
    let mut lines = text.lines().skip_while(|l| l.trim().is_empty());
    let first = lines.next().unwrap_or("usage error");
    let rest: Vec<&str> = lines.collect();
    let reason = first.strip_prefix("error: ").unwrap_or(first);
    let reason = match reason.strip_suffix("invalid digit found in string") {
        Some(start) => format!("{start}expected a number"),
        None => reason.to_owned(),
    };
    let reason = present::escape::terminal(&reason);
    let missing = rest
        .iter()
        .take_while(|l| l.starts_with("  <") || l.starts_with("  --"));
    let missing: String = missing.map(|l| format!(" {}", l.trim())).collect();
    let values = rest_after(&rest, "[possible values: ")
        .map(|v| format!("; it is one of {}", v.trim_end_matches(']')));
    // "to pass '-1' as a value, use '-- -1'" is wrong for the value of an option.
    let tip = rest_after(&rest, "tip: ").filter(|tip| !tip.starts_with("to pass "));
    let hint = tip.map(|tip| format!("; {}", question(tip)));
    format!(
        "{reason}{missing}{}{}",
        values.unwrap_or_default(),
        hint.unwrap_or_default()
    )
}

/// What follows `prefix` in the first line that begins with it.
fn rest_after<'a>(lines: &[&'a str], prefix: &str) -> Option<&'a str> {
    lines.iter().find_map(|l| l.trim().strip_prefix(prefix))
}

/// What clap says of a similar word (`a similar subcommand exists: 'report'`), as people ask.
fn question(tip: &str) -> String {
    match tip.split_once(": ") {
        Some((what, words)) if what.contains(" similar ") => {
            format!("did you mean {}?", words.replace("', '", "' or '"))
        }
        _ => tip.to_owned(),
    }
}

/// Whether a command ended because standard output could not be written.
fn is_of_stdout(e: &anyhow::Error) -> bool {
    e.chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| streams::failure().is_some_and(|f| f.kind() == io.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_are_one_line_with_a_suggestion() {
        let text = "error: invalid value 'x' for '--by <BY>'\n  [possible values: all, device]\n\n  tip: a similar value exists: 'all'\n\nFor more";
        assert_eq!(
            usage_line(text),
            "invalid value 'x' for '--by <BY>'; it is one of all, device; did you mean 'all'?"
        );
        let text = "error: the following required arguments were not provided:\n  <RECORDING>\n\nUsage: iolens report";
        assert_eq!(
            usage_line(text),
            "the following required arguments were not provided: <RECORDING>"
        );
        let text = "error: unrecognized subcommand 'rep'\n\n  tip: some similar subcommands exist: 'report', 'replay'\n";
        assert_eq!(
            usage_line(text),
            "unrecognized subcommand 'rep'; did you mean 'report' or 'replay'?"
        );
        let text = "error: unexpected argument '-1' found\n\n  tip: to pass '-1' as a value, use '-- -1'\n\nUsage: iolens record";
        assert_eq!(usage_line(text), "unexpected argument '-1' found");
        let text = "error: invalid value 'abc' for '--pid <PID>': invalid digit found in string\n";
        assert_eq!(
            usage_line(text),
            "invalid value 'abc' for '--pid <PID>': expected a number"
        );
        assert_eq!(usage_line(""), "usage error");
    }
}
