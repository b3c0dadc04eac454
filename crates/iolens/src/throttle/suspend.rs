//! Ctrl-Z: the command stops, and iolens with it, so that the shell gets its terminal back; `fg` and `bg` resume both.
//!
//! The terminal sends SIGTSTP to the group that has it, which is the command's. The shell only watches iolens: it must
//! stop when the command does, and give it the terminal again when it continues.

use anyhow::Result;
use iolens_observe::terminal;
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use super::start::Started;

/// Whether the command was stopped since the last call, by its terminal (Ctrl-Z, or reading from it in the background) or
/// by another process's SIGSTOP. Never true where iolens stops it.
pub fn was_stopped(started: &Started) -> bool {
    if started.duty.actuator().needs_session() {
        return false;
    }
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(started.leader), options);
    status.ok().flatten().is_some_and(|s| s.stopped())
}

/// Passes a request to stop on to the command. One in a session of its own has no terminal to obey, and its group counts
/// as orphaned, for which the kernel ignores SIGTSTP.
pub fn stop_command(started: &Started) {
    started.duty.release();
    let signal = if started.duty.actuator().needs_session() {
        Signal::STOP
    } else {
        Signal::TSTP
    };
    // It may have ended this very moment: then no process needs the signal.
    let _ = kill_process_group(started.leader, signal);
}

/// Stops this process after its command, and resumes the command when it is resumed itself.
///
/// # Errors
/// The signal cannot be raised.
pub fn sleep_with_it(started: &mut Started) -> Result<()> {
    // Nothing of the command stays frozen on our account, and the guardian must not wake it.
    started.duty.release();
    started.guardian.fall_asleep();
    if let Some(owner) = started.terminal_of.take() {
        terminal::take_back(std::io::stdin(), owner);
        // The rest of our pipeline would have stopped, too, had it had the terminal.
        let _ = kill_process_group(owner, Signal::TSTP);
    }
    emulate_default_handler(SIGTSTP)?;
    wake(started);
    Ok(())
}

/// Resumes the command; it gets the terminal if that is ours to give, that is after `fg` but not after `bg`.
pub fn wake(started: &mut Started) {
    started.guardian.beat();
    if !started.duty.actuator().needs_session() && started.terminal_of.is_none() {
        started.terminal_of = terminal::hand_over(std::io::stdin(), started.leader);
    }
    let _ = kill_process_group(started.leader, Signal::CONT);
}
