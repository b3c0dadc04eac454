//! All arithmetic on more than one observation: a file per question, named by it.
//!
//! Every analysis is a streaming accumulator: `push` takes completed I/Os in the order of completion, `lost` takes what
//! is missing, `finish` gives a plain struct. Memory grows with slots and devices, not with I/Os.
//!
//! Rules that all of them obey: windows are half-open; means are kept as (sum, count) and merged that way; what could
//! not be known is `None`, never zero; every mean and quantile carries its count; a printed time labels the end of its
//! interval; an I/O belongs to the interval in which it completes.

pub mod anova;
mod at_issue;
pub mod attribution;
pub mod audit;
pub mod bandwidth;
pub mod burst_detail;
mod burst_scan;
pub mod bursts;
mod by_issue;
pub mod capacity;
pub mod cells;
mod chains;
pub mod conclusions;
pub mod copies;
mod counted;
pub mod demand;
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
mod kept_slots;
mod last_slot;
pub mod latencies;
pub mod latency_change;
pub mod latency_mode;
pub mod lead_lag;
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
pub mod poll;
pub mod report;
pub mod requests;
mod runs;
pub mod scan;
pub mod sequences;
mod series;
pub mod slots;
pub mod slow_member;
mod spread;
pub mod stack_join;
mod stack_offset;
pub mod stages;
pub mod stalls;
pub mod starvation;
pub mod starved_by;
pub mod stats;
pub mod sweep;
pub mod syncs;
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

pub mod queue_full;
pub mod rates;
