//! `iolens query`: SQL over recordings.

use std::ffi::OsString;

use clap::Args;

use super::Format;

/// Run SQL on a recording, or on the recordings of many hosts; needs the Python package (docs/python.md)
///
/// Tables: ios, rollup, lost, marks, names, devices and the others of docs/recording-format.md; of a root also buckets, and
/// the columns host, at_unix_ns, device, stable_id.
///
/// Examples:
///   iolens query db.iolens "select comm, count(*) from ios group by comm"
///   iolens query /var/lib/iolens \
///     "select device, sum(ios) from rollup \
///      where step_s = 60 and class = 'all' group by all"
///   iolens query s3://bucket/iolens --format csv \
///     "select distinct host, model from devices"
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct QueryPlan {
    /// The recording, or a recording root (recordings by host and start): a directory, or a URL such as s3://bucket/prefix
    #[arg(value_name = "REC|ROOT")]
    pub recording: OsString,
    /// The query, in DuckDB's SQL
    #[arg(allow_hyphen_values = true)]
    pub sql: OsString,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
