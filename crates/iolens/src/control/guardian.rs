//! The guardian: a process of its own that resumes the command when iolens is gone, however it went.
//!
//! It waits for the end of a pipe whose other end only iolens has. The kernel closes that end even after `kill -9`. What
//! is to be resumed is told through the pipe, a line each: `group DIR`, `leader PID`, and `bye` if all is well.

use std::ffi::OsStr;
use std::io::{self, BufRead, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::cgroup;

/// How often the guardian looks whether a left-over group can be removed.
const TIDY: Duration = Duration::from_millis(500);

/// A running guardian.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guardian {
    /// Starts one: this very program, as `iolens guard`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> io::Result<Guardian> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("iolens")
            .arg("guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the terminal's Ctrl-C, which is meant for the command.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Guardian { child, pipe })
    }

    fn tell(&mut self, line: &[u8]) -> io::Result<()> {
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(line)?;
        pipe.write_all(b"\n")
    }

    /// This group is to be thawed and removed.
    ///
    /// # Errors
    /// The guardian is gone.
    pub fn watch_group(&mut self, dir: &Path) -> io::Result<()> {
        self.tell(&[b"group ", dir.as_os_str().as_bytes()].concat())
    }

    /// The process group of this leader is to be continued.
    ///
    /// # Errors
    /// The guardian is gone.
    pub fn watch_leader(&mut self, leader: Pid) -> io::Result<()> {
        self.tell(format!("leader {}", leader.as_raw_nonzero()).as_bytes())
    }

    /// Whether it is still there. Without it nothing may be held.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// All is well and nothing is held: it may go.
    pub fn dismiss(mut self) {
        // If it is gone already it need not be told.
        drop(self.tell(b"bye"));
        self.pipe = None;
        drop(self.child.wait());
    }
}

/// The guardian's life: listens to `input` until its end, then resumes what it was told about.
pub fn keep_watch(input: impl BufRead) {
    let (mut groups, mut leaders): (Vec<PathBuf>, Vec<Pid>) = (Vec::new(), Vec::new());
    for line in input.split(b'\n').map_while(Result::ok) {
        if line == b"bye" {
            return;
        } else if let Some(dir) = line.strip_prefix(b"group ") {
            groups.push(PathBuf::from(OsStr::from_bytes(dir)));
        } else if let Some(pid) = line.strip_prefix(b"leader ") {
            leaders.extend(std::str::from_utf8(pid).ok().and_then(|p| p.parse().ok()).and_then(Pid::from_raw));
        }
    }
    for group in &groups {
        cgroup::thaw(group);
    }
    for leader in &leaders {
        // An error means that it is gone already: nobody to resume.
        let _ = kill_process_group(*leader, Signal::CONT);
    }
    // The command lives on; its group goes when its last process has.
    while groups.iter().any(|g| std::fs::remove_dir(g).is_err() && g.exists()) {
        std::thread::sleep(TIDY);
    }
}

/// Becomes `command` inside the groups `dirs`, in a session of its own if asked for. Returns only if that fails: the exit code that shells use, and why.
pub fn enter_and_run(dirs: &[PathBuf], session: bool, command: &[std::ffi::OsString]) -> (u8, String) {
    if session && let Err(e) = rustix::process::setsid() {
        return (2, format!("no session of its own: {e}"));
    }
    for dir in dirs {
        if let Err(e) = cgroup::enter(dir) {
            return (2, format!("{} cannot be entered: {e}", dir.display()));
        }
    }
    let Some((name, arguments)) = command.split_first() else { return (2, "no command after --".to_owned()) };
    let e = Command::new(name).args(arguments).exec();
    let code = if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    (code, format!("{}: cannot be started: {e}", name.to_string_lossy()))
}
