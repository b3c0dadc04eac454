//! Compares the tracer of file-level requests with scripted programs and `strace`. Needs privileges; otherwise skipped
//! with a message.
#![allow(clippy::unwrap_used)]

mod beside;
mod filters;
mod impatient;
mod lab;
mod many;
mod story;
mod strace_log;
