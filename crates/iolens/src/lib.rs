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
    let first = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("usage error");
    let wanted_help = e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if wanted_help {
        eprint!("{text}");
    } else {
        let hint = text.lines().skip(1).find_map(|l| l.trim().strip_prefix("tip: ")).map(|t| format!("; {t}"));
        let reason = first.strip_prefix("error: ").unwrap_or(first);
        let missing: Vec<&str> =
            text.lines().skip(1).take_while(|l| l.starts_with("  <") || l.starts_with("  --")).map(str::trim).collect();
        let missing = if missing.is_empty() { String::new() } else { format!(" {}", missing.join(" ")) };
        eprintln!("iolens: {}{missing}{}; try --help", present::escape::terminal(reason), hint.unwrap_or_default());
    }
    FAILED
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::BrokenPipe))
}
