//! All arithmetic on more than one observation: one directory per question, one file per rule.
//!
//! Every analysis is a streaming accumulator: `push` takes completed I/Os in the order of completion, `lost` takes
//! losses, `finish` returns a plain struct. Memory grows with slots and devices, not with I/Os.
//!
//! Rules for all analyses: Windows are half-open. Means are kept and merged as (sum, count). Unknown values are `None`,
//! never zero. Every mean and quantile carries its count. A printed time labels the end of its interval. An I/O belongs
//! to the interval in which it completes.

pub mod actors;
pub mod bursts;
pub mod capacity;
pub mod compare;
pub mod counters;
pub mod device;
pub mod files;
pub mod findings;
pub mod heat;
pub mod latency;
pub mod limits;
pub mod math;
pub mod overview;
pub mod periodicity;
pub mod report;
pub mod stacks;
pub mod stories;
pub mod stream;
pub mod timeline;
pub mod waits;

pub use device::summary::{ClassSummary, Concurrency, DeviceSummary, DevicesSummary};
pub use findings::{Finding, FindingKind, Severity};
pub use report::{Report, ReportBuilder, ReportPlan};
pub use stream::consumer::Consumer;
pub use stream::latencies::{LOW_N, Latencies};
pub use stream::window::Window;
