//! The tracer: every block I/O of this machine, from the kernel's tracepoints.
//!
//! [`Tracer`] loads and attaches the BPF programs (`bpf/blkio.bpf.c`), reads their rings, orders the completions of all
//! CPUs, and yields [`Io`] and [`Lost`]. Nothing wakes the reader: it must call [`Tracer::poll`] at least every 10 ms.
//! `docs/tracing.md` defines what is counted how, and why.
//!
//! [`FilesTracer`] does the same for file-level requests (`docs/files.md`).

mod btf;
mod capabilities;
mod cpu_rings;
mod error;
mod event;
mod files;
mod filter;
mod load;
mod loss;
mod order;
mod process_name;
mod program_info;
mod ring;
mod slots;
mod symbols;
mod tracer;
mod unmatched;

pub use capabilities::{Capabilities, capabilities};
pub use error::TraceError;
pub use event::WbtThrottled;
pub use files::{FilesFilter, FilesOptions, FilesStats, FilesTracer};
pub use tracer::{FinishStats, PollStats, ProbeCost, Tracer, TracerOptions};

#[cfg(doc)]
use iolens_core::model::{Io, Lost};
