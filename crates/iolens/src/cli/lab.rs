//! `iolens lab`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::lab_fio::LabFio;
use crate::units::{parse_duration_ns, parse_size};

/// Run reproducible I/O experiments
///
/// Every run is a recording with marks in OUT/cells/NNNN/, so that later analyses work on it too. To resume an interrupted
/// experiment, give the same command again. An experiment writes only to devices, mount points and files that it created
/// itself, unless --i-will-lose-data names another.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LabPlan {
    /// Which one.
    #[command(subcommand)]
    pub experiment: LabExperiment,
}

/// Which experiment.
#[derive(Debug, Subcommand)]
#[allow(
    missing_docs,
    reason = "clap shows a variant's docstring instead of its plan's, which says more"
)]
pub enum LabExperiment {
    Fio(LabFio),
    Copies(LabCopies),
    Poll(LabPoll),
    Report(LabReport),
    Clean(LabClean),
}

/// The directory of an experiment, given as a word or as an option.
#[derive(Debug, Default, Args)]
pub struct ExperimentDir {
    /// Directory of the experiment, the same as -o DIR
    #[arg(
        value_name = "DIR",
        required_unless_present = "output",
        conflicts_with = "output"
    )]
    experiment: Option<PathBuf>,
    /// Directory of the experiment
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl ExperimentDir {
    /// The directory; one of both was given.
    pub fn path(&self) -> &Path {
        let given = self.experiment.as_deref().or(self.output.as_deref());
        given.unwrap_or(Path::new("."))
    }
}

/// Simultaneous copies by target and number, with analysis of variance
///
/// Examples:
///   iolens lab copies -o copies --fs ext4,xfs,btrfs --size 64M
///   iolens lab copies -o mine --to /mnt/a --to /mnt/b --copies 1,2,3
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LabCopies {
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub output: ExperimentDir,
    /// Where the source file and the loop devices' files go
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Copy into this directory; may be repeated
    #[arg(long, value_name = "DIR")]
    pub to: Vec<PathBuf>,
    /// Copy into scratch file systems of these types
    #[arg(long, value_name = "FS,...", value_delimiter = ',')]
    pub fs: Vec<String>,
    /// Numbers of simultaneous copies
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,2,3,4,5"
    )]
    pub copies: Vec<u32>,
    /// Size of the file that is copied
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "599.8M")]
    pub size: u64,
    /// Repetitions of everything
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub replicates: u32,
    /// Time between samples
    #[arg(long, value_name = "DUR", value_parser = parse_duration_ns, default_value = "2s")]
    pub sample: i64,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Cost and accuracy of polling the kernel's counters
///
/// Example:
///   iolens lab poll -o poll --disks 1,2,10 --target 25,75 --seconds 20
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LabPoll {
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub output: ExperimentDir,
    /// Where the disks' files go
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Numbers of disks (loop devices that are made)
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,2,10"
    )]
    pub disks: Vec<usize>,
    /// I/Os in flight on each disk
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "10,25,50"
    )]
    pub workers: Vec<u32>,
    /// Utilisation to aim at, in percent
    #[arg(
        long,
        value_name = "P,...",
        value_delimiter = ',',
        default_value = "5,25,50,75,95,100"
    )]
    pub target: Vec<f64>,
    /// Length of each cell
    #[arg(long, value_name = "S", default_value_t = 200)]
    pub seconds: u32,
    /// Size of each disk
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64M")]
    pub size: u64,
    /// Poll these block devices instead of loop devices; a quarter of the load overwrites them. May be repeated
    #[arg(long, value_name = "DEVICE")]
    pub i_will_lose_data: Vec<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Generate the report of an experiment again
#[derive(Debug, Args)]
pub struct LabReport {
    /// Directory of the experiment
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Remove what a killed experiment left: loop devices, mounts, scratch files
#[derive(Debug, Args)]
pub struct LabClean {
    /// Directory of the experiment
    pub dir: PathBuf,
}
