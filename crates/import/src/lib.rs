//! Converts other tools' logs to observations: for `iolens import`, and fio's results for `iolens lab`.
//!
//! Dependencies: this crate uses `iolens_core::model` only; it needs no privileges and no Linux. Start at
//! [`import_files`].
//!
//! Each format has a file that reads it line by line (JSON: whole; blktrace: record by record) and appends what it finds to
//! a `Log`, and a line in [`recognise`] that identifies it by its content. To add one: write that file, add a
//! [`LogFormat`] and its line in `files.rs`, and put a sample into `fixtures/import/`. Three rules hold for all
//! parsers. A value that a source lacks is `None`, never 0. A line that cannot be parsed is skipped and noted in
//! [`Damage`] by its number. A file is never trusted: names are kept unchanged and escaped on output, numbers are
//! checked, lines and nesting have limits.

mod biosnoop;
mod blktrace;
mod block_events;
mod clock;
mod content;
mod cpu_share;
mod damage;
mod devices;
mod diskstats;
mod files;
mod finish;
mod fio_boundaries;
mod fio_json;
mod fio_log;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod hostile_tests;
mod intervals;
mod iostat_columns;
mod iostat_json;
mod iostat_text;
mod json;
mod log;
mod pairing;
mod rate_columns;
mod rate_table;
mod recognise;
mod sadf;
mod sadf_json;
mod sar_text;
mod text;
mod unrecognised;

pub use damage::{Damage, Place};
pub use files::{import_files, parse_bytes};
pub use fio_json::{FioDisk, FioJob, FioRun, FioSide, parse_fio};
pub use log::{ImportError, ImportOptions, Imported};
pub use recognise::{LogFormat, recognise};
