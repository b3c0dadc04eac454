//! `--on-finding` and `--on-story`: runs a shell command for each event, one after another, on a thread of its own.
//!
//! Each command has its own process group, so that its children are killed with it on a timeout.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::serve::restrict::restrict_to_commands;

/// Timeout of a command.
const MAX_RUN: Duration = Duration::from_secs(10);
/// Capacity of the queue of events; events that do not fit run no command.
const MAX_WAITING: usize = 256;
/// Poll interval for the end of a command.
const POLL: Duration = Duration::from_millis(20);

/// The thread that runs the commands.
#[derive(Debug)]
pub struct Commands {
    flag: &'static str,
    events: SyncSender<CommandEvent>,
    stop: StopTime,
    thread: JoinHandle<()>,
}

/// An event for which a command is run.
#[derive(Debug, Clone, Default)]
struct CommandEvent {
    /// A JSON line for its standard input.
    json: String,
    /// Environment variables.
    variables: Vec<(&'static str, String)>,
}

/// When all commands must have ended, once that is known.
#[derive(Debug, Clone, Default)]
pub struct StopTime(Arc<Mutex<Option<Instant>>>);

impl StopTime {
    /// Sets the time after which no command runs.
    pub fn set(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.get().is_some_and(|at| Instant::now() >= at)
    }
}

impl Commands {
    /// Starts the thread that runs `command`, which was given by `flag`.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(flag: &'static str, command: String) -> Result<Commands> {
        let (events, received) = sync_channel(MAX_WAITING);
        let stop = StopTime::default();
        let own = stop.clone();
        let thread = std::thread::Builder::new()
            .name("iolens-command".to_owned())
            .spawn(move || run_all(flag, &command, &received, &own))
            .with_context(|| format!("the thread that runs {flag} could not be started"))?;
        Ok(Commands {
            flag,
            events,
            stop,
            thread,
        })
    }

    /// Queues the command for this event. Never blocks.
    pub fn push(&self, json: &str) {
        self.push_with(json, Vec::new());
    }

    /// As [`Commands::push`], with environment variables.
    pub fn push_with(&self, json: &str, variables: Vec<(&'static str, String)>) {
        let json = json.to_owned();
        let event = CommandEvent { json, variables };
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            let flag = self.flag;
            eprintln!("iolens: {flag}: too many events wait for the command; one is left out");
        }
    }

    /// The handle that sets when commands must have ended.
    pub fn stop_time(&self) -> StopTime {
        self.stop.clone()
    }

    /// Waits for the queued commands.
    pub fn finish(self) {
        drop(self.events);
        // A panic was reported already.
        drop(self.thread.join());
    }
}

fn run_all(flag: &str, command: &str, events: &Receiver<CommandEvent>, stop: &StopTime) {
    if let Err(e) = restrict_to_commands() {
        eprintln!("iolens: {flag}: nothing is run: {e:#}");
        return;
    }
    let mut left_out = 0;
    for event in events {
        if stop.is_over() {
            left_out += 1;
        } else if let Err(e) = run(command, &event, stop) {
            eprintln!("iolens: {flag}: {e:#}");
        }
    }
    if left_out > 0 {
        eprintln!("iolens: {flag}: the service ended before {left_out} commands could run");
    }
}

fn run(command: &str, event: &CommandEvent, stop: &StopTime) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    for (name, value) in &event.variables {
        // An environment variable cannot contain a zero byte.
        shell.env(name, value.replace('\0', " "));
    }
    let mut child = shell
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The pipe's buffer holds the line, so a command that does not read it causes no error.
        drop(stdin.write_all(format!("{}\n", event.json).as_bytes()));
    }
    let status = wait(&mut child, stop)?;
    if !status.success() {
        bail!("{command}: {status}");
    }
    Ok(())
}

/// Waits for the command. On a timeout the whole process group is killed.
fn wait(child: &mut Child, stop: &StopTime) -> Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > MAX_RUN || stop.is_over() {
            // It has not been waited for, so its process id has not been reused.
            kill_process_group(Pid::from_child(child), Signal::KILL)?;
            return Ok(child.wait()?);
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;

    /// Waits until a file has a line, which it yields.
    fn line_of(path: &Path) -> String {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether the process is there and no zombie, which another process may have to collect.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or("");
        !(state.is_empty() || state.starts_with(['Z', 'X']))
    }

    #[test]
    fn each_event_is_a_line_of_input_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let commands =
            Commands::start("--on-finding", format!("cat >> {}", out.display())).unwrap();
        commands.push("{\"n\":1}");
        commands.push("{\"n\":2}");
        commands.finish();
        assert_eq!(
            std::fs::read_to_string(&out).unwrap(),
            "{\"n\":1}\n{\"n\":2}\n"
        );
    }

    #[test]
    fn a_command_has_what_happened_in_its_environment() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let command = format!("printf '%s' \"$IOLENS_VICTIM\" > {}", out.display());
        let commands = Commands::start("--on-story", command).unwrap();
        let victim = "$(touch /tmp/x) `a`\0; \n b";
        commands.push_with("{}", vec![("IOLENS_VICTIM", victim.to_owned())]);
        commands.finish();
        let text = std::fs::read_to_string(&out).unwrap();
        assert_eq!(text, "$(touch /tmp/x) `a` ; \n b", "no shell reads it");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let failed = run("exit 3", &CommandEvent::default(), &StopTime::default()).unwrap_err();
        assert!(failed.to_string().contains("exit"));
    }

    #[test]
    fn at_the_end_a_command_is_killed_with_all_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let pids = [dir.path().join("first"), dir.path().join("second")];
        // A child of the shell and a child of that one; the shell waits for both.
        let command = format!(
            "sh -c 'sleep 1000 & echo $! > {}; wait' & echo $! > {}; wait",
            pids[0].display(),
            pids[1].display()
        );
        let commands = Commands::start("--on-story", command).unwrap();
        commands.push("{}");
        commands.push("{}");
        let pids = pids.map(|path| line_of(&path));
        assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
        commands.stop_time().set(Instant::now());
        commands.finish();
        while pids.iter().any(|pid| runs(pid)) {
            std::thread::sleep(POLL);
        }
    }
}
