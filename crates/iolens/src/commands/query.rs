//! `iolens query`: SQL by the Python package `iolens`, which has a database; this program has none.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::cli::{Format, QueryPlan};

/// The command that the package installs; pipx puts nothing else on the PATH.
const INSTALLED: &str = "iolens-lake";
const INTERPRETER: &str = "python3";
const HOW_TO_GET: &str =
    "install the wheel of the release, or that of make package: pip install iolens-*.whl";
/// What the interpreter runs. The working directory is no place to import from: a directory `iolens` there is not the package.
const LAUNCHER: &str = "import sys
sys.path = [p for p in sys.path if p]
try:
    from iolens.cli import main
except ImportError as e:
    sys.stderr.write(f'iolens: query needs the Python package iolens, but: {e}; ' + sys.argv.pop() + '\\n')
    sys.exit(2)
sys.argv.pop()
sys.exit(main())";

/// Runs `iolens query`: becomes the package's command, so that its output and its exit code are this command's.
///
/// # Errors
/// There is neither that command nor Python.
pub fn run(plan: &QueryPlan) -> Result<u8> {
    let failed = |program: &str, e: &std::io::Error| anyhow!("{program}: cannot be started: {e}");
    let e = with_query(&mut Command::new(INSTALLED), plan).exec();
    if e.kind() != ErrorKind::NotFound {
        return Err(failed(INSTALLED, &e));
    }
    let e = with_query(Command::new(INTERPRETER).args(["-c", LAUNCHER]), plan)
        .arg(HOW_TO_GET)
        .exec();
    Err(match e.kind() {
        ErrorKind::NotFound => {
            anyhow!(
                "query needs the Python package iolens, and neither {INSTALLED} nor {INTERPRETER} is on the PATH; {HOW_TO_GET}"
            )
        }
        _ => failed(INTERPRETER, &e),
    })
}

/// The words of the package's own command; what it asks of the program it asks of this one.
fn with_query<'a>(command: &'a mut Command, plan: &QueryPlan) -> &'a mut Command {
    if let (None, Ok(program)) = (std::env::var_os("IOLENS"), std::env::current_exe()) {
        command.env("IOLENS", program);
    }
    let format = match plan.format {
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Json => "json",
    };
    command
        .args(["query", "--format", format, "--"])
        .arg(&plan.recording)
        .arg(&plan.sql)
}
