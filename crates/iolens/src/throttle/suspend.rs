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

/// Whether the command was stopped since the last call, by its terminal (Ctrl-Z, or reading from it in the
/// background) or by another process with SIGSTOP. Always false while iolens itself stops it.
pub fn was_stopped(started: &Started) -> bool {
    if started.duty.actuator().needs_session() {
        return false;
    }
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(started.leader), options);
    status.ok().flatten().is_some_and(|s| s.stopped())
}

/// Forwards a stop request to the command. A command in its own session has no terminal, and its process group counts
/// as orphaned, for which the kernel ignores SIGTSTP.
pub fn stop_command(started: &Started) {
    started.duty.release();
    let signal = if started.duty.actuator().needs_session() {
        Signal::STOP
    } else {
        Signal::TSTP
    };
    // It may just have ended; then no process needs the signal.
    let _ = kill_process_group(started.leader, signal);
}

/// Stops this process after its command, and resumes the command when this process is resumed.
///
/// # Errors
/// The signal cannot be raised.
pub fn sleep_with_it(started: &mut Started) -> Result<()> {
    // The command must not stay frozen by iolens, and the guardian must not wake it.
    started.duty.release();
    started.guardian.fall_asleep();
    if let Some(owner) = started.terminal_of.take() {
        terminal::take_back(std::io::stdin(), owner);
        // If the rest of the pipeline had owned the terminal, it would have been stopped as well.
        let _ = kill_process_group(owner, Signal::TSTP);
    }
    emulate_default_handler(SIGTSTP)?;
    wake(started);
    Ok(())
}

/// Resumes the command. It gets the terminal if iolens owns it, that is after `fg` but not after `bg`.
pub fn wake(started: &mut Started) {
    started.guardian.beat();
    if !started.duty.actuator().needs_session() && started.terminal_of.is_none() {
        started.terminal_of = terminal::hand_over(std::io::stdin(), started.leader);
    }
    let _ = kill_process_group(started.leader, Signal::CONT);
}
