//! `iolens iostat`, also when called as `iostat`: the reports of sysstat's iostat (the reference) from a cheaper
//! sampler.

mod exact;
mod list;
mod output;
mod pattern;
mod reader;
mod records;
mod repaint;
pub mod replay;
mod rows;
mod run;
mod scan;
mod signals;
mod style;
mod words;

use crate::cli::iostat::{IostatPlan, MORE_HELP, Source, parse, usage};
use iolens_observe::counters::{Root, process};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use words::Ending;

/// The version of sysstat whose behaviour is reproduced.
const REFERENCE_VERSION: &str = "12.8.0";

/// Whether a command line, including the program name, is for `iostat`: by a link of this name, or as `iolens
/// iostat`.
pub fn is_meant(args: &[OsString]) -> bool {
    called_iostat(args) || args.get(1).is_some_and(|a| a == "iostat")
}

fn called_iostat(args: &[OsString]) -> bool {
    let name = args.first().map(|a| a.as_bytes()).unwrap_or_default();
    name.rsplit(|b| *b == b'/').next() == Some(b"iostat")
}

/// Runs `iostat` on a whole command line (with the program's name) and returns the exit code. Only for [`is_meant`].
pub fn run(args: &[OsString]) -> u8 {
    process::die_of_broken_pipes();
    let (program, words) = if called_iostat(args) {
        (args[0].clone(), &args[1..])
    } else {
        let mut program = args.first().cloned().unwrap_or_else(|| "iolens".into());
        program.push(" iostat");
        (program, args.get(2..).unwrap_or_default())
    };
    let plan = parse(&program, words.iter().cloned());
    let samples = match &plan.source {
        Source::Replay(dir) => match replay::samples(dir) {
            Ok(samples) => samples,
            Err(message) => return fail(2, &format!("iolens iostat: {message}")),
        },
        _ => Vec::new(),
    };
    let root = match &plan.source {
        Source::Live => Root::live(),
        Source::Under(dir) => Root::under(dir),
        Source::Replay(_) => samples.first().map_or_else(Root::live, Root::recorded),
    };
    match words::resolve(&plan, &root) {
        Ok(setup) => match run::Run::start(&plan, setup, root, samples).and_then(run::Run::reports)
        {
            Ok(()) => 0,
            Err(e) => fail(e.code, &e.message),
        },
        Err(ending) => end(&plan, ending),
    }
}

fn end(plan: &IostatPlan, ending: Ending) -> u8 {
    match ending {
        Ending::Version => {
            output::write(&version());
            0
        }
        Ending::Help => {
            output::write_error(&[usage(&plan.program).as_slice(), MORE_HELP].concat());
            1
        }
        Ending::Usage => {
            output::write_error(&usage(&plan.program));
            1
        }
        Ending::Message(message) => fail(1, &message),
        Ending::Own(message) => fail(2, &format!("iolens iostat: {message}")),
    }
}

fn fail(code: u8, message: &str) -> u8 {
    output::write_error(format!("{message}\n").as_bytes());
    code
}

/// The output of `-V`: relevant environment variables, and the version whose behaviour is reproduced, for scripts.
fn version() -> Vec<u8> {
    let mut out = Vec::new();
    for name in [
        "POSIXLY_CORRECT",
        "S_COLORS",
        "S_COLORS_SGR",
        "S_TIME_FORMAT",
    ] {
        if let Some(value) = std::env::var_os(name) {
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(value.as_bytes());
            out.push(b'\n');
        }
    }
    out.extend_from_slice(format!("sysstat version {REFERENCE_VERSION}\n").as_bytes());
    out.extend_from_slice(b"(C) Sebastien Godard (sysstat <at> orange.fr)\n");
    out
}

/// The text of an error number, as by C's `strerror`.
fn reason(e: Errno) -> String {
    let text = std::io::Error::from(e).to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// An error that ends the program.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: u8,
    message: String,
}
