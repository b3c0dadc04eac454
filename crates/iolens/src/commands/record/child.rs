//! The command that is recorded while it runs.

use std::ffi::OsString;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::signals::exit_code;

/// A running command and its process group.
#[derive(Debug)]
pub struct RecordedChild(Child);

/// The command could not be started; contains the exit code that shells use.
#[derive(Debug)]
pub struct CannotStart {
    /// 127: not found; 126: found but not executable.
    pub exit_code: u8,
    /// A one-line error message.
    pub message: String,
}

impl RecordedChild {
    /// Starts `command`; the first element is its name.
    ///
    /// # Errors
    /// It does not exist or may not be run.
    pub fn start(command: &[OsString]) -> Result<RecordedChild, CannotStart> {
        let (name, arguments) = command.split_first().ok_or_else(|| CannotStart {
            exit_code: 2,
            message: "no command after --".to_owned(),
        })?;
        Command::new(name)
            .args(arguments)
            .spawn()
            .map(RecordedChild)
            .map_err(|e| CannotStart {
                exit_code: if e.kind() == std::io::ErrorKind::NotFound {
                    127
                } else {
                    126
                },
                message: format!("{}: cannot be started: {e}", name.to_string_lossy()),
            })
    }

    /// Its exit code if it has ended; 128 + signal number if it was ended by a signal, as in shells.
    pub fn ended(&mut self) -> Option<u8> {
        self.0.try_wait().ok().flatten().map(exit_code)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // It may just have ended, or run as another user. Then it is waited for only for a limited time.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(words: &[&str]) -> u8 {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut child = RecordedChild::start(&command).expect("starts");
        loop {
            if let Some(code) = child.ended() {
                return code;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn exit_codes_and_signals_come_out_as_in_a_shell() {
        assert_eq!(wait(&["true"]), 0);
        assert_eq!(wait(&["sh", "-c", "exit 37"]), 37);
        assert_eq!(wait(&["sh", "-c", "kill -TERM $$"]), 143);
    }

    #[test]
    fn a_command_that_is_not_there_or_not_executable_is_distinguished() {
        let none = RecordedChild::start(&["/nonexistent/command".into()]).expect_err("not there");
        assert_eq!(none.exit_code, 127);
        let plain = RecordedChild::start(&["/etc/hostname".into()]).expect_err("not executable");
        assert_eq!(plain.exit_code, 126);
        assert!(plain.message.contains("/etc/hostname"), "{}", plain.message);
    }
}
