//! Commands on recordings as files: what they are, parts of them, whether they are whole.

use std::path::PathBuf;

use clap::Args;

use super::{ClockArgs, ShareArgs, WindowArgs};

/// What a recording is: when, of which host and devices, how much is in it, what is missing
///
/// Of a recording root all recordings are shown. Damage that shows without reading all bytes is named.
///
/// Examples:
///   iolens info db.iolens
///   iolens info *.iolens --json | jq '.recordings[] | {path, ios, lost_ios}'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct InfoPlan {
    /// The recordings, or recording roots
    #[arg(required = true, value_name = "REC")]
    pub recordings: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

/// The recordings at and below a directory, a line each
///
/// Links are not followed. What cannot be read is named on standard error and left out.
///
/// Examples:
///   iolens ls
///   iolens ls /var/lib/iolens
///   iolens ls /backup --json | jq -r '.recordings[] | select(.lost_ios != 0) | .path'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LsPlan {
    /// Where to look
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Times are UTC [default: the local time zone]
    #[arg(long)]
    pub utc: bool,
}

/// Whether recordings are whole: reads every byte and compares it with its checksum
///
/// Prints a line for each damage, or one that says that a recording is whole, and exits with 1 if something is damaged. Of a
/// recording root all recordings are read. Files without checksums, of earlier versions and other programs, are decoded.
///
/// Examples:
///   iolens verify db.iolens
///   iolens verify /backup/iolens --json | jq '.recordings[] | select(.damage != [])'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct VerifyPlan {
    /// The recordings, or recording roots
    #[arg(required = true, value_name = "REC")]
    pub recordings: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A part of a recording, as a recording of its own
///
/// Of a recording root the recordings of that time become one. A loss that reaches over an end of the part counts in the part
/// in which it ends, so that parts of one recording lose as much together as it did.
///
/// Examples:
///   iolens cut db.iolens --from 08:42 --to 08:47 -o stall.iolens
///   iolens cut /var/lib/iolens --from "yesterday 03:00" --to "yesterday 04:00" -o night.iolens
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct CutPlan {
    /// The recording, or a recording root
    #[arg(value_name = "REC")]
    pub recording: PathBuf,
    /// Directory to write; must not exist yet
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub window: WindowArgs,
    /// Times without a zone are UTC [default: the local time zone]
    #[arg(long)]
    pub utc: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub share: ShareArgs,
}

/// Recordings of one host that follow each other, as one
///
/// Their order does not matter. What was not recorded between them is a loss of unknown size.
///
/// Examples:
///   iolens merge monday.iolens tuesday.iolens -o both.iolens
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct MergePlan {
    /// The recordings, or recording roots
    #[arg(required = true, value_name = "REC")]
    pub recordings: Vec<PathBuf>,
    /// Directory to write; must not exist yet
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
}

/// What a damaged recording still holds, as a whole recording
///
/// Says what is missing, a line for each file or block; in the new recording these are losses. Where only some columns of a block
/// are damaged the rest of its rows is kept, and the values are not known. The damaged recording stays as it is.
///
/// Examples:
///   iolens repair crashed.iolens -o saved.iolens
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct RepairPlan {
    /// The damaged recording
    #[arg(value_name = "REC")]
    pub recording: PathBuf,
    /// Directory to write; must not exist yet
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
}
