//! Recordings on disk: written, kept below a size limit, and read back. Any Parquet reader can read them.
//!
//! A recording is a directory:
//!
//! ```text
//! NAME.iolens/
//!   meta.json, meta.json.bak    what is said once; each with a checksum
//!   io/000001.parquet ...       block I/Os, ordered by completion; one row group per file, checksummed
//!   counters/ lost/ marks/ requests/ names/   the other tables, in the same way
//!   rates/ cpu/ stages/         rows of imported tables and of bios in imported traces, if any
//!   rollup/ actors/ waits/ devices/    sums per second and minute, by cause, and the table of devices, of an always-on recorder
//!   wal/io-000002.wal ...       what is in no Parquet file yet: framed, checksummed, appended
//! ```
//!
//! Rows are collected in *frames*, which hold a few thousand rows as columns. Frames are appended to the log and stay
//! in memory. When a *segment* is full, its frames become a Parquet file and its log is removed. A log whose Parquet
//! file exists is void, so a crash at any instant neither loses nor duplicates rows. `docs/recording-format.md`
//! specifies the format, for programs that read or write recordings by other means.

mod block;
mod budget;
mod cell;
mod chunk;
mod close_logs;
mod column;
mod column_buffer;
mod data_file;
mod dictionary;
mod disk;
mod encoding;
mod error;
mod frame;
mod frame_encoder;
mod gather;
mod inventory;
mod joined;
mod merge;
mod meta_file;
mod open_requests;
mod opening;
mod options;
mod parquet_column;
mod parquet_read;
mod parquet_write;
mod reader;
mod removal;
mod repeats;
mod retention;
mod root;
mod row;
mod salvage;
mod schema;
mod segment;
mod stream;
mod sums;
mod tables;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod verify;
mod wal;
mod whole_file;
mod whole_reader;
mod writer;

pub use budget::{Budget, Freed, remove_recording, stored_bytes};
pub use close_logs::close_logs;
pub use data_file::data_parquet;
pub use error::StoreError;
pub use inventory::TableContent;
pub use joined::{MIN_GAP_NS, gap_between};
pub use options::{RecordingSummary, WriterOptions, WriterStatus};
pub use reader::{BatchReader, Recording};
pub use root::{Root, Stored};
pub use salvage::copy_whole_tables;
pub use stream::Observations;
pub use tables::SumTable;
pub use tables::actors::{read_actors, write_missing_actors};
pub use tables::cpu::read_cpu;
pub use tables::findings::{findings_written, put_finding, read_findings};
pub use tables::io::IoColumns;
pub use tables::rates::{read_rates, write_rates};
pub use tables::rollup::{
    RollupHistograms, read_rollups, read_rollups_with, write_missing_rollups,
};
pub use tables::stages::{read_stages, write_stages};
pub use tables::waits::read_waits;
pub use verify::{Verification, verify};
pub use writer::RecordingWriter;
