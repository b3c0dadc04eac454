//! All arithmetic on more than one observation: a file per question, named by it.
//!
//! Every analysis is a streaming accumulator: `push` takes completed I/Os in the order of completion, `lost` takes what
//! is missing, `finish` gives a plain struct. Memory grows with slots and devices, not with I/Os.
//!
//! Rules that all of them obey: windows are half-open; means are kept as (sum, count) and merged that way; what could
//! not be known is `None`, never zero; every mean and quantile carries its count; a printed time labels the end of its
//! interval; an I/O belongs to the interval in which it completes.

pub mod anova;
pub mod attribution;
pub mod audit;
pub mod autocorrelation;
pub mod burst_detail;
pub mod bursts;
pub mod capacity;
pub mod cells;
pub mod chance;
pub mod conclusions;
pub mod copies;
mod counted;
pub mod detail;
pub mod device_index;
pub mod device_set;
pub mod device_summary;
pub mod devices;
pub mod distributions;
pub mod envelope;
pub mod exact;
pub mod files;
pub mod findings;
pub mod identities;
pub mod imported;
pub mod io_ticks;
mod last_slot;
pub mod latencies;
pub mod level;
pub mod links;
pub mod load;
pub mod losses;
pub mod mix;
pub mod models;
pub mod order;
pub mod overview;
pub mod page_cache;
mod parts;
pub mod peak;
pub mod periodicity;
pub mod periodogram;
pub mod poll;
pub mod report;
pub mod requests;
pub mod slots;
pub mod stages;
pub mod starvation;
pub mod stats;
pub mod sweep;
pub mod timeline;
mod told_bursts;
pub mod trouble;
pub mod utilisation;
pub mod window;
mod words;

pub use device_summary::{ClassSummary, Concurrency, DeviceSummary, DevicesSummary};
pub use devices::Devices;
pub use findings::{Finding, FindingKind, Severity};
pub use latencies::{LOW_N, Latencies};
pub use parts::Part;
pub use report::{Report, ReportBuilder, ReportPlan};
pub use window::Window;

pub mod rates;
