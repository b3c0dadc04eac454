//! `iolens diff`: what changed between two recordings.

use std::path::PathBuf;

use clap::Args;

use super::ClockArgs;
use crate::engine::diff::Condition;
use crate::units::{Instant, TimeWindow, parse_instant};

/// What changed between two recordings: rates, latencies and waits, with intervals
///
/// BEFORE and AFTER may be the same recording; --before and --after then select the times to compare. A difference counts
/// as a change if it is at least 5 % and if chance, over all measures together, explains it in at most 2 of 100
/// comparisons.
///
/// Examples:
///   iolens diff monday.iolens tuesday.iolens
///   iolens diff db.iolens db.iolens --before 0..60 --after 60..120
///   iolens diff /var/lib/iolens /var/lib/iolens \
///     --before "02:00..02:10" --after "03:00..03:10"
///   iolens diff base.iolens new.iolens --fail-if 'read.p99 > +10%'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct DiffPlan {
    /// The recording, or a root, before the change
    #[arg(value_name = "BEFORE")]
    pub first: PathBuf,
    /// The recording, or a root, after the change
    #[arg(value_name = "AFTER")]
    pub second: PathBuf,
    /// Time of BEFORE to compare: two times as for --from and --to of `report`
    #[arg(long, value_name = "FROM..TO", value_parser = parse_stretch, allow_hyphen_values = true)]
    pub before: Option<TimeWindow>,
    /// Time of AFTER to compare
    #[arg(long, value_name = "FROM..TO", value_parser = parse_stretch, allow_hyphen_values = true)]
    pub after: Option<TimeWindow>,
    /// Exit with code 1 if the change of a device exceeds this limit and is not due to chance: CLASS.MEASURE > +N% or <
    /// -N%, such as 'read.p99 > +10%'; prefix DEVICE: for one device. MEASURE: ios, bytes, mean, p50, p90, p99, p999. May
    /// be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub clock: ClockArgs,
}

/// `FROM..TO`, of which one may be missing.
fn parse_stretch(text: &str) -> Result<TimeWindow, String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err("expected FROM..TO, such as 0..60 or 02:00..02:10".to_owned());
    };
    Ok(TimeWindow {
        at: None,
        from: parse_end(from)?,
        to: parse_end(to)?,
    })
}

/// One end of a stretch; `None` if it is left out.
fn parse_end(text: &str) -> Result<Option<Instant>, String> {
    match text.trim() {
        "" => Ok(None),
        text => parse_instant(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_two_ends_of_which_one_may_be_missing() {
        let stretch = parse_stretch("10..20.5").expect("a stretch");
        assert_eq!(stretch.from, Some(Instant::SinceStart(10_000_000_000)));
        assert_eq!(stretch.to, Some(Instant::SinceStart(20_500_000_000)));
        let open = parse_stretch("..30").expect("a stretch");
        assert_eq!(open.from, None);
        assert!(parse_stretch("10").is_err());
        assert!(parse_stretch("10..soon").is_err());
    }
}
