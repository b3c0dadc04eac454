//! The tracer of file-level requests: what programs do with files, from open to close.
//!
//! [`FilesTracer`] loads and attaches the BPF programs (`bpf/files.bpf.c`), which sum up each request and return one
//! event when it ends. Like the tracer of block I/Os it must be polled; nothing wakes the reader. `docs/files.md`
//! defines what is counted how.

mod event;
mod histograms;
mod load;
mod mounts;
mod names;
mod syscalls;
mod tracer;

pub use tracer::{FilesFilter, FilesOptions, FilesStats, FilesTracer};
