//! Other tools' logs become observations like any other.
//!
//! Each format has a file with one function `parse(&mut Log, &[u8])` that appends what it finds to a `Log`, and a
//! line in [`recognise`] that knows it by its content. To add one: write that file, add a [`Kind`], and put a sample
//! into `fixtures/import/`. Three rules hold for all: what a source cannot know is `None`, never 0; a damaged line
//! costs that line and is noted in [`Damage`] by its number; a file is never trusted (names are kept as they are and
//! escaped where they are shown, numbers are checked, nothing nests without a limit).

mod biosnoop;
mod blktrace;
mod block_events;
mod clock;
mod content;
mod damage;
mod devices;
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
mod rate_table;
mod recognise;
mod text;

pub use damage::{Damage, Place};
pub use fio_json::{FioDisk, FioJob, FioRun, FioSide, parse_fio};
pub use log::{ImportError, ImportOptions, Imported, import_files, parse_bytes};
pub use recognise::{Kind, recognise};
