//! Commands on recordings as files: what they are, parts of them, whether they are whole.

use std::path::PathBuf;

use clap::Args;

use super::{ClockArgs, ShareArgs, WindowArgs};

/// Describe recordings: time, host, devices, content, losses
///
/// For a recording root, all its recordings are shown. Damage that is visible without reading all data is reported.
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

/// List the recordings in and below a directory, one per line
///
/// Links are not followed. Unreadable recordings are reported on standard error and left out.
///
/// Examples:
///   iolens ls
///   iolens ls /var/lib/iolens
///   iolens ls --json | jq -r '.recordings[] | select(.lost_ios != 0) | .path'
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

/// Check recordings for damage: read all data and compare checksums
///
/// Prints a line for each damage, or one line for an intact recording, and exits with 1 if anything is damaged. For a
/// recording root, all its recordings are read. Files without checksums, of earlier versions and other programs, are
/// decoded.
///
/// Examples:
///   iolens verify db.iolens
///   iolens verify /backup --json | jq '.recordings[] | select(.damage != [])'
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

/// Copy a part of a recording into a new recording
///
/// From a recording root, the recordings of that time become one. A loss that crosses an end of the part counts in the part
/// in which it ends, so the losses of consecutive parts add up to those of the recording.
///
/// Examples:
///   iolens cut db.iolens --from 08:42 --to 08:47 -o stall.iolens
///   iolens cut /var/lib/iolens -o night.iolens \
///     --from "yesterday 03:00" --to "yesterday 04:00"
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

/// Join consecutive recordings of one host
///
/// The order of the arguments does not matter. The time between recordings is a loss of unknown size.
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

/// Copy the readable data of a damaged recording into a new recording
///
/// Prints a line for each missing file or block; in the new recording these are losses. If only some columns of a block are
/// damaged, its rows are kept and the damaged values are unknown. The damaged recording is not changed.
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
