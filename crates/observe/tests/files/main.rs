//! The tracer of file-level requests beside scripted programs and `strace` (privileged; skipped with a message elsewhere).
#![allow(clippy::unwrap_used)]

mod beside;
mod filters;
mod impatient;
mod lab;
mod many;
mod story;
mod strace_log;
