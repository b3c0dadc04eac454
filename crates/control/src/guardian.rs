//! The guardian: a separate process that resumes the command when iolens has ended for any reason.
//!
//! It waits for the end of a pipe whose other end only iolens has. The kernel closes that end even after `kill -9`. What
//! is to be resumed is named through the pipe, a line each: `group DIR`, `leader PID`, and `bye` if all is well; `end` says
//! that the command is to end as well (`--kill-with`). An empty line says that iolens is at work: an iolens that has been
//! stopped (SIGSTOP, a debugger) would leave the command as it was, so after a silence the command is resumed, too.
//! `asleep` announces an intended silence: Ctrl-Z.
//!
//! There are two guardians, each with its own pipe, so that the command does not stay stopped if iolens and one
//! guardian are killed together. The second one is not a child of iolens and runs in its own session. A guardian that
//! has died is replaced.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::cgroup;

/// Interval between checks whether something has ended: at first, and at the longest.
const LOOKS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// Time that a command gets to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// iolens counts as stopped after this time without a line. Several times [`Guardian::BEAT`], because a busy machine
/// is slow.
const SILENCE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// The guardians of a command.
#[derive(Debug)]
pub struct Guardian {
    watchers: Vec<GuardianWatcher>,
    /// Lines that every new watcher must get.
    wards: Vec<Vec<u8>>,
}

/// One watcher process and the pipe to it.
#[derive(Debug)]
struct GuardianWatcher {
    /// For the detached watcher: the process that started it, which has ended.
    child: Child,
    pipe: ChildStdin,
    detached: bool,
}

impl GuardianWatcher {
    /// Starts this program as `iolens guard`.
    fn start(detached: bool, wards: &[Vec<u8>]) -> io::Result<GuardianWatcher> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("iolens")
            .arg("guard")
            .args(detached.then_some("--detach"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on the terminal is for the command, so it must not reach the guardian.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        if detached && !child.wait()?.success() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut watcher = GuardianWatcher {
            child,
            pipe,
            detached,
        };
        wards.iter().try_for_each(|line| watcher.send(line))?;
        Ok(watcher)
    }

    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.pipe.write_all(&[line, b"\n"].concat())
    }

    fn is_gone(&mut self) -> bool {
        !self.detached && !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Guardian {
    /// Interval at which the watchers expect [`Guardian::beat`].
    pub const BEAT: Duration = Duration::from_secs(1);

    /// Starts both watchers.
    ///
    /// # Errors
    /// One cannot be started.
    pub fn start() -> io::Result<Guardian> {
        let watchers = [false, true]
            .into_iter()
            .map(|detached| GuardianWatcher::start(detached, &[]))
            .collect::<Result<_, _>>()?;
        Ok(Guardian {
            watchers,
            wards: Vec::new(),
        })
    }

    /// Sends a line to each watcher; a watcher that is gone is replaced.
    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        for watcher in &mut self.watchers {
            if watcher.is_gone() || watcher.send(line).is_err() {
                drop(watcher.child.wait());
                *watcher = GuardianWatcher::start(watcher.detached, &self.wards)?;
                watcher.send(line)?;
            }
        }
        Ok(())
    }

    fn add_ward(&mut self, line: Vec<u8>) -> io::Result<()> {
        self.send(&line)?;
        self.wards.push(line);
        Ok(())
    }

    /// Announces a group, to be thawed and removed.
    ///
    /// # Errors
    /// The guardians are gone.
    pub fn watch_group(&mut self, dir: &Path) -> io::Result<()> {
        self.add_ward([b"group ", dir.as_os_str().as_bytes()].concat())
    }

    /// Announces the leader of a process group, to be continued.
    ///
    /// # Errors
    /// The guardians are gone.
    pub fn watch_leader(&mut self, leader: Pid) -> io::Result<()> {
        self.add_ward(format!("leader {}", leader.as_raw_nonzero()).into_bytes())
    }

    /// Makes the guardians end the command when iolens is killed, instead of resuming it.
    ///
    /// # Errors
    /// The guardians are gone.
    pub fn end_with_iolens(&mut self) -> io::Result<()> {
        self.add_ward(b"end".to_vec())
    }

    /// Signals that iolens is working.
    pub fn beat(&mut self) {
        // `alive` checks whether they still run.
        drop(self.send(b""));
    }

    /// Announces a silence until the next [`Guardian::beat`]; iolens does not hold the command in that time.
    pub fn fall_asleep(&mut self) {
        drop(self.send(b"asleep"));
    }

    /// Whether all watchers are running; replaces those that are not. Without them nothing may be held.
    pub fn alive(&mut self) -> bool {
        !self.watchers.iter_mut().any(GuardianWatcher::is_gone) || self.send(b"").is_ok()
    }

    /// Ends the watchers, because nothing is held any more.
    pub fn dismiss(self) {
        let left = self
            .wards
            .iter()
            .filter_map(|ward| ward.strip_prefix(b"group "))
            .any(|dir| Path::new(OsStr::from_bytes(dir)).exists());
        for mut watcher in self.watchers {
            // A watcher that is gone needs no message.
            drop(watcher.send(b"bye"));
            drop(watcher.pipe);
            // A remaining group must still be removed by the watchers.
            if !left {
                drop(watcher.child.wait());
            }
        }
    }
}

/// Starts this program again with the same pipe in its own session: the guardian that is not a child of iolens.
///
/// # Errors
/// It cannot be started.
pub fn detach() -> io::Result<()> {
    // The caller is a process group leader and so cannot create a session; the process that it starts can.
    Command::new("/proc/self/exe")
        .arg0("iolens")
        .args(["guard", "--session"])
        .spawn()
        .map(drop)
}

/// What the watchers resume.
#[derive(Debug, Default)]
struct Wards {
    groups: Vec<PathBuf>,
    leaders: Vec<Pid>,
    end: bool,
}

impl Wards {
    fn add(&mut self, line: &[u8]) {
        if let Some(dir) = line.strip_prefix(b"group ") {
            self.groups.push(PathBuf::from(OsStr::from_bytes(dir)));
        } else if line == b"end" {
            self.end = true;
        } else if let Some(pid) = line.strip_prefix(b"leader ") {
            self.leaders.extend(
                std::str::from_utf8(pid)
                    .ok()
                    .and_then(|p| p.parse().ok())
                    .and_then(Pid::from_raw),
            );
        }
    }

    fn resume(&self) {
        for group in &self.groups {
            cgroup::thaw(group);
        }
        for leader in &self.leaders {
            // An error means that the process has ended, so there is nothing to resume.
            let _ = kill_process_group(*leader, Signal::CONT);
        }
    }

    /// Asks the processes to end, and kills those that have not after a while.
    fn end(&self) {
        let since = Instant::now();
        self.signal(Signal::TERM);
        while self.any_alive() {
            if since.elapsed() > GRACE {
                self.signal(Signal::KILL);
                return;
            }
            std::thread::sleep(LOOKS[0]);
        }
    }

    fn processes(&self) -> Vec<Pid> {
        self.groups
            .iter()
            .flat_map(|g| cgroup::processes(g))
            .filter_map(Pid::from_raw)
            .collect()
    }

    fn any_alive(&self) -> bool {
        !self.processes().is_empty()
            || self
                .leaders
                .iter()
                .any(|l| test_kill_process_group(*l).is_ok())
    }

    fn signal(&self, signal: Signal) {
        // An error means that it has ended.
        for pid in self.processes() {
            let _ = kill_process(pid, signal);
        }
        for leader in &self.leaders {
            let _ = kill_process_group(*leader, signal);
        }
    }

    /// Removes the groups after moving remaining processes out. Retries if that is not possible.
    fn remove_groups(&self) {
        let mut pause = LOOKS[0];
        while self.groups.iter().any(|g| !cgroup::dissolve(g)) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOKS[1]);
        }
    }
}

/// The guardian's main loop: reads the pipe `input` until its end, then resumes the groups and processes that were
/// named in it.
pub fn keep_watch(input: impl AsFd + Read) {
    let mut wards = Wards::default();
    let mut input = BufReader::new(input);
    let mut asleep = false;
    let mut line = Vec::new();
    loop {
        if !asleep && input.buffer().is_empty() && is_silent(input.get_ref()) {
            wards.resume();
        }
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            // End of the pipe or an error: iolens is gone.
            _ => break,
        }
        match line.strip_suffix(b"\n").unwrap_or(&line) {
            b"bye" => return wards.remove_groups(),
            b"asleep" => asleep = true,
            other => {
                asleep = false;
                wards.add(other);
            }
        }
    }
    wards.resume();
    if wards.end {
        wards.end();
    }
    wards.remove_groups();
}

/// Waits for input with a timeout.
fn is_silent(input: &impl AsFd) -> bool {
    matches!(
        poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&SILENCE)),
        Ok(0)
    )
}

/// The error of entering a group while it is being removed.
const NO_SUCH_GROUP: i32 = rustix::io::Errno::NODEV.raw_os_error();

/// Becomes `command` inside the groups `dirs`, in a new session if requested. Returns only if that fails: the exit
/// code that shells use, and why.
pub fn enter_and_run(
    dirs: &[PathBuf],
    session: bool,
    command: &[std::ffi::OsString],
) -> (u8, String) {
    if session && let Err(e) = rustix::process::setsid() {
        return (2, format!("no session of its own: {e}"));
    }
    for dir in dirs {
        match cgroup::enter(dir) {
            Ok(()) => {}
            // iolens was killed before this point, and its guardian has removed the group: the command runs freely.
            Err(e)
                if e.kind() == io::ErrorKind::NotFound
                    || e.raw_os_error() == Some(NO_SUCH_GROUP) => {}
            Err(e) => return (2, format!("{} cannot be entered: {e}", dir.display())),
        }
    }
    let Some((name, arguments)) = command.split_first() else {
        return (2, "no command after --".to_owned());
    };
    let e = Command::new(name).args(arguments).exec();
    let code = if e.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    };
    (
        code,
        format!("{}: cannot be started: {e}", name.to_string_lossy()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that stops itself, in a group of its own.
    fn stopped() -> Child {
        let child = Command::new("sh")
            .args(["-c", "kill -STOP $$; exit 7"])
            .process_group(0)
            .spawn()
            .expect("a shell");
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat)
            .expect("it lives")
            .contains(") T ")
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    #[test]
    fn the_guardian_resumes_at_end_of_pipe_but_not_after_bye() {
        for (last, resumed) in [("", true), ("bye\n", false)] {
            let mut child = stopped();
            let (read, mut write) = io::pipe().expect("a pipe");
            write
                .write_all(format!("leader {}\n{last}", child.id()).as_bytes())
                .expect("written");
            drop(write);
            keep_watch(read);
            if resumed {
                assert_eq!(child.wait().expect("its parent").code(), Some(7));
            } else {
                assert!(child.try_wait().expect("its parent").is_none());
                child.kill().expect("its parent");
                child.wait().expect("its parent");
            }
        }
    }

    #[test]
    fn the_guardian_resumes_after_an_unannounced_silence() {
        let mut child = stopped();
        let (read, mut write) = io::pipe().expect("a pipe");
        write
            .write_all(format!("leader {}\nasleep\n", child.id()).as_bytes())
            .expect("written");
        let watch = std::thread::spawn(move || keep_watch(read));
        std::thread::sleep(Duration::from_secs(SILENCE.tv_sec.unsigned_abs() + 1));
        assert!(
            child.try_wait().expect("its parent").is_none(),
            "the silence was announced"
        );
        write.write_all(b"\n").expect("written");
        assert_eq!(
            child.wait().expect("its parent").code(),
            Some(7),
            "and then nothing was heard"
        );
        write.write_all(b"bye\n").expect("written");
        watch.join().expect("no panic");
    }
}
