//! The controlling terminal of a program that runs another in the foreground.

use std::os::fd::AsFd;

use rustix::process::Pid;

/// Hands the terminal to the process group of `leader`, so that it can read from it and gets Ctrl-C. Returns the group
/// that had it, or `None` where there is no terminal, or it is not ours to give.
///
/// From then on this process ignores SIGTTOU, without which it could not take the terminal back.
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

/// Gives the terminal back to `owner`.
pub fn take_back(terminal: impl AsFd, owner: Pid) {
    // The owner may have ended, or the terminal be gone: then there is nothing to restore.
    let _ = rustix::termios::tcsetpgrp(&terminal, owner);
}
