//! `iolens query`: runs SQL with the Python package `iolens`, which contains a database; this program has none.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Error, Result, anyhow};
use iolens_core::store::Recording;

use crate::cli::{Format, QueryPlan};
use crate::present::record_text::shell_word;

/// The command that the package installs. pipx puts nothing else on the PATH.
const INSTALLED: &str = "iolens-lake";
const INTERPRETER: &str = "python3";
/// The script for the interpreter. The working directory must not be an import path: a directory `iolens` there is
/// not the package.
const LAUNCHER: &str = "import sys
sys.path = [p for p in sys.path if p]
try:
    from iolens.cli import main
except ImportError as e:
    sys.stderr.write(f'iolens: query needs the Python package iolens, but: {e}; ' + sys.argv.pop() + '\\n')
    sys.exit(2)
sys.argv.pop()
sys.exit(main())";
/// Where packages install the wheel, relative to the directory of the program: .deb, tar.gz, checkout.
const WHEEL_PLACES: [&str; 4] = ["../share/iolens", "../package", "../wheel", "../../wheel"];

/// Runs `iolens query` by replacing this process with the package's command, whose output and exit code are passed
/// on.
///
/// # Errors
/// The recording does not exist, or neither that command nor Python is installed.
pub fn run(plan: &QueryPlan) -> Result<u8> {
    refuse_missing(&plan.recording)?;
    let environment = own_environment();
    let own = environment
        .as_deref()
        .map(|e| e.join("bin").join(INSTALLED))
        .filter(|command| command.exists());
    let commands = [Some(PathBuf::from(INSTALLED)), own];
    for command in commands.into_iter().flatten() {
        let e = with_query(&mut Command::new(&command), plan).exec();
        if !is_absent(&e) {
            return Err(not_started(&command.display().to_string(), &e));
        }
    }
    // Without the command, the interpreter may still have the package.
    let advice = advice(wheel().as_deref(), environment.as_deref());
    let e = with_query(Command::new(INTERPRETER).args(["-c", LAUNCHER]), plan)
        .arg(&advice)
        .exec();
    if !is_absent(&e) {
        return Err(not_started(INTERPRETER, &e));
    }
    Err(anyhow!(
        "query needs the Python package iolens, and neither {INSTALLED} nor {INTERPRETER} is on the PATH; install {INTERPRETER}, then {advice}"
    ))
}

/// Fails if the directory does not exist. Without the package, the user would otherwise only learn that the package
/// is missing.
///
/// # Errors
/// The path does not exist and is not a URL.
fn refuse_missing(place: &OsStr) -> Result<()> {
    let is_url = place.to_string_lossy().contains("://");
    let path = Path::new(place);
    if !is_url && matches!(path.try_exists(), Ok(false)) {
        Recording::open(path)?;
    }
    Ok(())
}

/// Whether a program was not found. A PATH directory that this user may not enter causes "permission denied" instead.
fn is_absent(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

fn not_started(program: &str, e: &std::io::Error) -> Error {
    anyhow!("{program}: cannot be started: {e}")
}

/// The command that installs the package. It installs into an environment that `query` searches, because Debian's own
/// Python does not accept packages.
fn advice(wheel: Option<&Path>, environment: Option<&Path>) -> String {
    let (Some(wheel), Some(environment)) = (wheel, environment) else {
        return "its wheel is in the .deb and the tar.gz (share/iolens/), and make package builds it: pip install iolens-*.whl"
            .to_owned();
    };
    let pip = environment.join("bin/pip");
    format!(
        "run this once: {INTERPRETER} -m venv {} && {} install {}",
        shell_word(environment),
        shell_word(&pip),
        shell_word(wheel)
    )
}

/// The environment of this user that the advice creates: `~/.local/share/iolens/venv`.
fn own_environment() -> Option<PathBuf> {
    let data = match variable("XDG_DATA_HOME") {
        Some(data) => PathBuf::from(data),
        None => Path::new(&variable("HOME")?).join(".local/share"),
    };
    Some(data.join("iolens/venv"))
}

/// An environment variable; `None` if it is unset or empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The wheel that was installed with this program.
fn wheel() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let beside = program.parent()?;
    let mut places = WHEEL_PLACES.iter().map(|p| beside.join(p));
    places.find_map(|place| wheel_in(&place))
}

/// The newest wheel in a directory, as a path without `..`.
fn wheel_in(place: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(place.canonicalize().ok()?).ok()?;
    let mut wheels: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    wheels.retain(|path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("iolens-") && name.ends_with(".whl")
    });
    wheels.sort();
    wheels.pop()
}

/// Adds the arguments of the package's command. It calls this same program for what it needs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_one_command_that_exists() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(wheel_in(dir.path()), None);
        assert_eq!(wheel_in(&dir.path().join("missing")), None);
        for name in [
            "iolens-0.1.0-py3-none-any.whl",
            "other-1.whl",
            "iolens-x.txt",
        ] {
            std::fs::write(dir.path().join(name), "").expect("writes");
        }
        let wheel = wheel_in(dir.path()).expect("is there");
        assert!(wheel.ends_with("iolens-0.1.0-py3-none-any.whl"));
        let advice = advice(Some(&wheel), Some(Path::new("/home/a b/venv")));
        let expected = format!(
            "run this once: python3 -m venv '/home/a b/venv' && '/home/a b/venv/bin/pip' install {}",
            shell_word(&wheel)
        );
        assert_eq!(advice, expected);
        assert!(super::advice(None, None).contains("pip install iolens-*.whl"));
    }
}
