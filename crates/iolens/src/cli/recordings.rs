//! Commands on recordings as files: what they are, parts of them, whether they are whole.

use std::path::PathBuf;

use clap::Args;

use super::ClockArgs;

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
