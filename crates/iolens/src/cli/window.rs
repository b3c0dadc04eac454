//! `--at`, `--from` and `--to`: which part of a recording, or of the recordings of a root.

use clap::Args;

use super::units::{Instant, parse_instant};

/// A part of a recording, as given on the command line.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WindowArgs {
    /// The minute around this moment, 30 s before it to 30 s after it
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    pub at: Option<Instant>,
    /// Begin here: seconds since the recording's start, or a wall-clock time (2026-11-21T05:48:00Z, -5m, "10 min ago", now)
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true)]
    pub from: Option<Instant>,
    /// End here
    #[arg(long, value_name = "T", value_parser = parse_instant, allow_hyphen_values = true)]
    pub to: Option<Instant>,
}
