//! Handles standard output and standard error that may not be writable: a closed pipe, a full disk, a closed terminal.
//!
//! The macros below replace the prelude's in this crate, which would panic. What cannot be written to standard error is
//! dropped, because messages never stop the work. The reason why standard output failed is kept for the exit code,
//! which [`crate::run`] determines.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, StdoutLock, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use iolens_observe::counters::process;

use crate::present::escape;
use crate::present::layout::Layout;

macro_rules! print {
    ($($arg:tt)*) => { $crate::streams::out(format_args!($($arg)*)) };
}
macro_rules! println {
    () => { $crate::streams::out(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::streams::out(format_args!("{}\n", format_args!($($arg)*))) };
}
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::streams::note(format_args!($($arg)*)) };
}
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::streams::note(format_args!("{}\n", format_args!($($arg)*))) };
}

/// The first reason why standard output could not be written.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Standard output; its first error is kept for [`failure`].
pub struct Stdout(StdoutLock<'static>);

/// Standard output, locked.
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if process::stdout_was_closed() {
            return noted(Err(rustix::io::Errno::BADF.into()));
        }
        noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(self.0.flush())
    }
}

/// Keeps the kind and text of an error, because the error itself is returned to the caller.
fn noted<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(e) = &result
        && e.kind() != ErrorKind::Interrupted
    {
        FAILURE.get_or_init(|| io::Error::new(e.kind(), e.to_string()));
    }
    result
}

/// The reason why standard output cannot be written, if there is one; flushes its buffer.
pub fn failure() -> Option<&'static io::Error> {
    // The writer itself keeps an error.
    drop(stdout().flush());
    FAILURE.get()
}

/// How wide and how coloured text on standard output may be. A terminal says its width; elsewhere `COLUMNS` may.
/// Colours are for terminals that are not `dumb`, unless `NO_COLOR` is set (no-color.org).
pub fn layout() -> Layout {
    let terminal = io::IsTerminal::is_terminal(&io::stdout());
    let width = if terminal {
        terminal_width(io::stdout()).or_else(wanted_width)
    } else {
        wanted_width()
    };
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    Layout {
        width: width.unwrap_or(usize::MAX),
        colour: terminal && !dumb && !is_plain,
    }
}

/// Columns of a terminal; `None` if it is not a terminal, or the width is unknown.
fn terminal_width(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Columns according to the environment.
fn wanted_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    Some(columns).filter(|columns| *columns > 0)
}

/// The implementation of `print!`. After a failure nothing more is written.
pub fn out(text: Arguments<'_>) {
    if FAILURE.get().is_none() {
        drop(stdout().write_fmt(text));
    }
}

/// Moves the cursor to the start of an erased line; a status line begins with it.
pub const ERASE: &str = "\r\x1b[K";

/// The implementation of `eprint!`. No control character except [`ERASE`] at the start of a message reaches the
/// terminal, whatever the message quotes. On a terminal, whole lines are wrapped at spaces; a status line is not.
pub fn note(text: Arguments<'_>) {
    let text = text.to_string();
    let (erase, rest) = text.split_at(if text.starts_with(ERASE) {
        ERASE.len()
    } else {
        0
    });
    let mut rest = escape::message(rest);
    let width = terminal_width(io::stderr());
    if let Some(width) = width.filter(|_| erase.is_empty() && rest.ends_with('\n')) {
        rest = Layout {
            width,
            colour: false,
        }
        .sentences(&rest)
        .into();
    }
    drop(
        io::stderr()
            .lock()
            .write_all([erase, &rest].concat().as_bytes()),
    );
}
