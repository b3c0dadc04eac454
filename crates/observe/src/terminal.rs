//! Hands the controlling terminal to a program that runs in the foreground.

use std::os::fd::AsFd;

use rustix::process::Pid;

/// Hands the terminal to the process group of `leader`, so that it can read from it and receives Ctrl-C. Returns the
/// group that had it before, or `None` if there is no terminal or this process does not control it.
///
/// From then on this process ignores SIGTTOU, because it could not take the terminal back otherwise.
pub fn hand_over(terminal: impl AsFd, leader: Pid) -> Option<Pid> {
    let owner = rustix::termios::tcgetpgrp(&terminal).ok()?;
    if owner != rustix::process::getpgrp() {
        return None;
    }
    // SAFETY: SIG_IGN is a valid disposition, and no handler of this process' own is replaced.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    rustix::termios::tcsetpgrp(&terminal, leader).ok()?;
    Some(owner)
}

/// Returns the terminal to `owner`.
pub fn take_back(terminal: impl AsFd, owner: Pid) {
    // Errors are ignored: if the owner has ended or the terminal is gone, there is nothing to restore.
    let _ = rustix::termios::tcsetpgrp(&terminal, owner);
}
