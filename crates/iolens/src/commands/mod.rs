//! One file per subcommand. Each connects a source, an engine and an output, and contains no logic of its own.

mod cut;
mod demo;
mod devices;
mod diff;
mod doctor;
mod files;
mod generate;
mod import;
mod info;
mod lab;
mod limits;
mod live;
mod ls;
mod merge;
mod query;
mod record;
mod repair;
mod report;
mod serve;
mod throttle;
mod util;
mod verify;
mod zoom;

use anyhow::Result;
use iolens_core::analysis::timeline::GroupBy;

use crate::cli::{By, Plan};
use crate::engine::caller::Caller;
use crate::engine::note::Note;
use crate::present::query_text::{self, Spelling};

/// Executes a plan. The exit code is 0; 1 if a requested check failed; 2 if one of several recordings could not be
/// read or none of the I/Os could be stored; or that of a command run for the user.
///
/// # Errors
/// A one-line error that says what failed, where, and what to do.
pub fn run(plan: Plan) -> Result<u8> {
    match plan {
        Plan::Record(p) => record::run(p),
        Plan::Report(p) => report::run(&p),
        Plan::Zoom(p) => zoom::run(&p),
        Plan::Live(p) => live::run(&p),
        Plan::Serve(p) => serve::run(p),
        Plan::Import(p) => import::run(&p),
        Plan::Lab(p) => lab::run(&p.experiment),
        Plan::Doctor(p) => doctor::run(&p),
        Plan::Demo(p) => demo::run(&p),
        Plan::Files(p) => files::run(&p),
        Plan::Diff(p) => diff::run(&p),
        Plan::Query(p) => query::run(&p),
        Plan::Info(p) => info::run(&p),
        Plan::Ls(p) => ls::run(&p),
        Plan::Verify(p) => verify::run(&p),
        Plan::Cut(p) => cut::run(&p),
        Plan::Merge(p) => merge::run(&p),
        Plan::Repair(p) => repair::run(&p),
        Plan::Iostat(p) => Ok(crate::iostat::run(
            &[vec!["iolens".into(), "iostat".into()], p.words].concat(),
        )),
        Plan::Util(p) => util::run(&p),
        Plan::Throttle(p) => throttle::run(&p),
        Plan::Generate(p) => generate::run(&p),
        Plan::Guard(p) => throttle::guard(&p),
        Plan::Enter(p) => throttle::enter(&p),
    }
}

/// The caller of the command line: no deadline, notes on standard error.
fn caller() -> Caller {
    caller_of(Spelling::Flags)
}

/// As [`caller`], with notes that name options in this spelling.
fn caller_of(spelling: Spelling) -> Caller {
    Caller::new(move |note: Note| eprintln!("iolens: {}", query_text::note(&note, spelling)))
}

impl From<By> for GroupBy {
    fn from(by: By) -> GroupBy {
        match by {
            By::All => GroupBy::All,
            By::Device => GroupBy::Device,
            By::Process => GroupBy::Process,
            By::Cgroup => GroupBy::Cgroup,
            By::File => GroupBy::File,
        }
    }
}
