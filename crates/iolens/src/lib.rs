//! The program `iolens`: argv becomes a plan (`cli`), a command connects a source, a path through the rooms and a
//! surface (`commands`), pure functions turn results into text (`present`).

pub mod cli;
pub mod commands;
pub mod control;
pub mod lab;
pub mod present;

use std::ffi::OsString;
use std::io::ErrorKind;

/// Exit code of a usage error or failure.
const FAILED: u8 = 2;

/// Runs the program and returns its exit code. Exit codes and broken pipes are decided here and nowhere else.
pub fn run(argv: Vec<OsString>) -> u8 {
    // Before anything is set up: the drop-in starts as fast as the original.
    if commands::iostat::is_meant(&argv) {
        return commands::iostat::run(&argv);
    }
    let plan = match cli::parse(argv) {
        Ok(plan) => plan,
        Err(e) => return explain_usage(&e),
    };
    match commands::run(plan) {
        Ok(code) => code,
        Err(e) if is_broken_pipe(&e) => 0,
        Err(e) => {
            eprintln!("iolens: {}", present::escape::terminal(&format!("{e:#}")));
            FAILED
        }
    }
}

/// Help and version go to stdout with 0; everything else is one line with 2.
fn explain_usage(e: &clap::Error) -> u8 {
    if !e.use_stderr() {
        // `iolens --help | head` closes the pipe: nobody is left to tell.
        drop(e.print());
        return 0;
    }
    let text = e.to_string();
    let wanted_help = e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if wanted_help {
        eprint!("{text}");
    } else {
        eprintln!("iolens: {}; try --help", usage_line(&text));
    }
    FAILED
}

/// What clap says in several lines, in one: the error, what is missing, what would do, what was perhaps meant.
fn usage_line(text: &str) -> String {
    let mut lines = text.lines().skip_while(|l| l.trim().is_empty());
    let first = lines.next().unwrap_or("usage error");
    let rest: Vec<&str> = lines.collect();
    let reason = present::escape::terminal(first.strip_prefix("error: ").unwrap_or(first));
    let missing = rest.iter().take_while(|l| l.starts_with("  <") || l.starts_with("  --"));
    let missing: String = missing.map(|l| format!(" {}", l.trim())).collect();
    let told = |prefix: &str| rest.iter().find_map(|l| l.trim().strip_prefix(prefix));
    let values = told("[possible values: ").map(|v| format!("; it is one of {}", v.trim_end_matches(']')));
    let hint = told("tip: ").map(|tip| format!("; {tip}"));
    format!("{reason}{missing}{}{}", values.unwrap_or_default(), hint.unwrap_or_default())
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_are_one_line_that_says_what_would_do() {
        let text = "error: invalid value 'x' for '--by <BY>'\n  [possible values: all, device]\n\n  tip: a similar value exists: 'all'\n\nFor more";
        assert_eq!(
            usage_line(text),
            "invalid value 'x' for '--by <BY>'; it is one of all, device; a similar value exists: 'all'"
        );
        let text = "error: the following required arguments were not provided:\n  <RECORDING>\n\nUsage: iolens report";
        assert_eq!(usage_line(text), "the following required arguments were not provided: <RECORDING>");
        assert_eq!(usage_line(""), "usage error");
    }
}
