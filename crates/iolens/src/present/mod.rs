//! Pure renderers: results in, text out.

mod actors;
pub mod answers;
pub mod columns;
pub mod copy_text;
pub mod demo_text;
pub mod diff;
pub mod doctor_text;
pub mod escape;
mod estimator;
pub mod exposition;
pub mod fields;
pub mod files_json;
#[cfg(test)]
mod files_sample;
pub mod files_text;
pub mod findings;
pub mod fleet;
pub mod html;
mod indent;
pub mod inventory;
pub mod iostat;
pub mod lab;
pub mod layout;
pub mod query_text;
pub mod record_text;
pub mod report_detail;
pub mod report_detail_text;
pub mod report_json;
pub mod report_summary;
pub mod report_text;
mod rows_shown;
#[cfg(test)]
mod schema;
pub mod series_json;
pub mod serve_text;
pub mod stories;
mod story_text;
pub mod throttle_text;
pub mod times;
pub mod util;
pub mod verification;
pub mod waits;
pub mod workload;
pub mod zoom;

/// Version of the layout of JSON documents: it rises when a key changes its meaning or goes away. Recordings have one of their own.
pub const SCHEMA_VERSION: u32 = 2;

/// What people read in the place of a name that is not known.
pub const NOT_KNOWN: &str = "(not known)";
