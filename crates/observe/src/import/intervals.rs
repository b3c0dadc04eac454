//! Gives the reports of an iostat log their intervals.

use std::ops::Range;

use iolens_core::model::CpuShares;

use super::clock::Stamp;
use super::iostat_columns::Row;
use super::log::{Epoch, Log};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// One report: what iostat printed at one instant.
#[derive(Debug, Default)]
pub struct Report {
    /// Its time stamp.
    pub stamp: Option<Stamp>,
    /// Its rows until it is closed.
    pub rows: Vec<Row>,
    /// Where its rows lie in the log once it is closed.
    pub stored: Range<usize>,
    /// Lengths of the interval in seconds, as its rows tell them.
    pub seconds: Vec<f64>,
    /// Its `avg-cpu` line.
    pub cpu: Option<CpuShares>,
    /// Averages since boot, which iostat prints first unless told `-y`.
    pub since_boot: bool,
}

impl Report {
    /// Puts the rows into the log, whose list is much smaller; their interval comes when the whole run is known.
    pub fn close(&mut self, log: &mut Log) {
        if self.rows.is_empty() {
            return;
        }
        self.seconds = self.rows.iter().filter_map(Row::seconds).collect();
        if self.since_boot {
            return;
        }
        let begin = log.rates.len();
        for mut row in std::mem::take(&mut self.rows) {
            row.complete();
            log.rates.push(&row.rates);
        }
        self.stored = begin..log.rates.len();
    }
}

/// The reports of one run of iostat.
#[derive(Debug, Default)]
pub struct Run {
    /// In order.
    pub reports: Vec<Report>,
    /// Midnight of the day of its banner.
    pub date_unix_ns: Option<i64>,
}

/// Gives the rows of `runs`, all closed, their intervals.
pub fn place(log: &mut Log, runs: Vec<Run>) {
    let dated = runs.iter().flat_map(|r| &r.reports).any(|r| r.stamp.is_some());
    log.epoch = if dated { Epoch::Unix } else { Epoch::Own };
    let mut at = 0;
    for run in runs {
        if !dated {
            log.zero_unix_ns = log.zero_unix_ns.or(run.date_unix_ns);
        }
        at = place_run(log, run, at);
    }
}

fn place_run(log: &mut Log, mut run: Run, begin_ns: i64) -> i64 {
    if let Some((first, rest)) = run.reports.split_first_mut()
        && first.since_boot
        && spans_an_interval(first, rest)
    {
        first.since_boot = false;
        first.close(log);
    }
    let stamps = absolute(&run);
    let step = step_ns(log, &run, &stamps);
    let mut end = begin_ns;
    let mut previous: Option<i64> = None;
    let mut skipped = 0;
    for (report, stamp) in run.reports.into_iter().zip(stamps) {
        if report.since_boot {
            skipped += 1;
            previous = stamp.or(previous);
            continue;
        }
        let (from_ns, to_ns) = match (stamp, previous) {
            // Stamps have whole seconds: one that is off the grid by less than that is the grid's.
            (Some(now), Some(p)) if (now - (p + step)).abs() <= SECOND => (p, p + step),
            (Some(now), Some(p)) if now > p => (p, now),
            (Some(now), _) => (now - step, now),
            (None, _) => (end, end.saturating_add(step)),
        };
        previous = Some(to_ns);
        end = to_ns;
        settle(log, report, from_ns, to_ns);
    }
    if skipped > 0 {
        log.unusable = Some("it holds averages since boot only; iostat says more when it is given an interval");
        log.limit("the first report of a run is taken for averages since boot, as iostat prints without -y: left out");
    }
    end
}

/// Whether totals tell that a first report covers as much time as those after it: newer versions of iostat with `-y`
/// print what looks like their report since boot.
fn spans_an_interval(first: &Report, rest: &[Report]) -> bool {
    let others = rest.iter().flat_map(|r| &r.seconds).copied().reduce(f64::max);
    let longest = first.seconds.iter().copied().reduce(f64::max);
    longest.zip(others).is_some_and(|(first, others)| first < 1.5 * others)
}

fn settle(log: &mut Log, report: Report, from_ns: i64, to_ns: i64) {
    log.rates.replace(report.stored, |_, _, dev| (from_ns, to_ns, dev));
    if let Some(cpu) = report.cpu {
        log.cpu.push(CpuShares { from_ns, to_ns, ..cpu });
    }
}

/// Stamps on one axis; times of day get the banner's date and a day more each midnight.
fn absolute(run: &Run) -> Vec<Option<i64>> {
    let mut day = run.date_unix_ns.unwrap_or(0);
    let mut last = i64::MIN;
    run.reports
        .iter()
        .map(|r| match r.stamp? {
            Stamp::Unix(t) => Some(t),
            Stamp::TimeOfDay(t) => {
                if day + t < last {
                    day += DAY;
                }
                last = day + t;
                Some(last)
            }
        })
        .collect()
}

/// The interval iostat was started with: said by the user, the median distance of stamps, told by totals, or assumed.
fn step_ns(log: &mut Log, run: &Run, stamps: &[Option<i64>]) -> i64 {
    if let Some(step) = log.options.interval_ns {
        return step;
    }
    let known: Vec<i64> = stamps.iter().flatten().copied().collect();
    let mut gaps: Vec<i64> = known.windows(2).map(|w| w[1].saturating_sub(w[0])).filter(|d| *d > 0).collect();
    gaps.sort_unstable();
    if let Some(median) = gaps.get(gaps.len() / 2) {
        return *median;
    }
    let mut told: Vec<f64> = run.reports.iter().filter(|r| !r.since_boot).flat_map(|r| &r.seconds).copied().collect();
    told.sort_by(f64::total_cmp);
    if let Some(median) = told.get(told.len() / 2).filter(|s| **s >= 0.5 && **s < 1e7) {
        log.limit("the log has no time stamps: its interval was computed from its own totals");
        return (median.round().max(1.0) * 1e9) as i64;
    }
    log.limit("the log has no time stamps: one second per report is assumed (--interval says otherwise)");
    SECOND
}
