//! Unbuffered standard output and standard error: one `write` per report.

use iolens_observe::counters::process;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

use crate::present::escape;

/// Writes everything to standard output.
///
/// # Errors
/// The error of `write`; `EBADF` if the program was started with its standard output closed.
pub fn try_write(bytes: &[u8]) -> Result<(), Errno> {
    if process::stdout_was_closed() {
        return Err(Errno::BADF);
    }
    all(std::io::stdout().as_fd(), bytes)
}

/// Writes what fits to standard output; errors are ignored.
pub fn write(bytes: &[u8]) {
    let _ = try_write(bytes);
}

/// Writes to standard error, if there is one.
pub fn write_error(bytes: &[u8]) {
    let _ = all(std::io::stderr().as_fd(), &escape::bytes(bytes));
}

fn all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(fd, bytes)) {
            Ok(n) => bytes = &bytes[n..],
            // The program was started with SIGPIPE ignored. The reference does not check its writes either.
            Err(Errno::PIPE) if process::broken_pipes_were_ignored() => return Ok(()),
            // A signal handler may have replaced the default action: end by SIGPIPE, as without one.
            Err(Errno::PIPE) => {
                signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE)
                    .map_err(|_| Errno::PIPE)?
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
