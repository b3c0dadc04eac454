//! Determines the intervals of the reports in an iostat log.

use std::ops::Range;

use iolens_core::model::{CpuShares, DAY_NS, SECOND_NS};

use super::clock::Stamp;
use super::iostat_columns::Row;
use super::log::{Epoch, Log};

/// iostat may be late by some intervals (and prints averages over the elapsed time); a longer gap is not an interval
/// of it.
const LATE: i64 = 10;

/// Why a time stamp is damaged for which [`is_wild`] is true.
pub const WILD: &str = "a time stamp far from those before and after it";

/// One report: what iostat printed at one instant.
#[derive(Debug, Default)]
pub struct Report {
    /// Its time stamp, parsed with the month first and with the day first.
    pub stamp: Option<[Stamp; 2]>,
    /// The line of the stamp.
    pub line: u64,
    /// Its rows, until it is closed.
    pub rows: Vec<Row>,
    /// Range of its rows in the log, once it is closed.
    pub stored: Range<usize>,
    /// Length of the interval in seconds, calculated from each row.
    pub seconds: Vec<f32>,
    /// Percentages of the `avg-cpu` line.
    pub cpu: Option<CpuShares>,
    /// Averages since boot, which iostat prints first without `-y`.
    pub since_boot: bool,
}

impl Report {
    /// Moves the rows into the log, whose list is much smaller. Their interval is set when the whole run is known.
    pub fn close(&mut self, log: &mut Log) {
        if self.rows.is_empty() {
            return;
        }
        self.seconds = self
            .rows
            .iter()
            .filter_map(Row::seconds)
            .map(|s| s as f32)
            .collect();
        if self.since_boot {
            return;
        }
        let begin = log.rates.len();
        for mut row in std::mem::take(&mut self.rows) {
            row.complete();
            if !row.is_blank() {
                log.rates.push(&row.rates);
            }
        }
        self.stored = begin..log.rates.len();
    }
}

/// The reports of one run of iostat.
#[derive(Debug, Default)]
pub struct Run {
    /// Reports in order of time.
    pub reports: Vec<Report>,
    /// Midnight of the day in its banner, with the month first and with the day first.
    pub date_unix_ns: Option<[i64; 2]>,
    /// Digits after the point of its counts per second; `None` if they do not yield whole counts.
    pub decimals: Option<i32>,
    /// Only the system's convention implies that the first report is since boot; a single report is an excerpt.
    pub may_be_excerpt: bool,
}

impl Run {
    /// Whether its stamps are times of day, and no banner has their date.
    fn has_undated_stamps(&self) -> bool {
        let mut stamps = self.reports.iter().filter_map(|r| r.stamp);
        self.date_unix_ns.is_none() && stamps.any(|s| matches!(s, [Stamp::TimeOfDay(_), _]))
    }
}

/// Sets the intervals of the rows of `runs`, all of which are closed.
pub fn place(log: &mut Log, runs: Vec<Run>, day_first: bool) {
    let dated = runs
        .iter()
        .flat_map(|r| &r.reports)
        .any(|r| r.stamp.is_some());
    log.epoch = if dated { Epoch::Unix } else { Epoch::Own };
    log.is_undated = runs.iter().any(Run::has_undated_stamps);
    let mut at = 0;
    for run in runs {
        if !dated {
            log.zero_unix_ns = log
                .zero_unix_ns
                .or(run.date_unix_ns.map(|d| d[usize::from(day_first)]));
        }
        at = place_run(log, run, at, day_first);
    }
}

fn place_run(log: &mut Log, mut run: Run, begin_ns: i64, day_first: bool) -> i64 {
    let mut stamps = absolute(&run, day_first);
    drop_wild(log, &run, &mut stamps);
    let step = step_ns(log, &run, &stamps);
    let alone = run.may_be_excerpt
        && run
            .reports
            .iter()
            .filter(|r| !r.rows.is_empty() || !r.stored.is_empty())
            .count()
            < 2;
    if let Some((first, rest)) = run.reports.split_first_mut()
        && first.since_boot
        && (alone
            || spans_an_interval(first, rest)
            || counts_are_whole(&first.rows, step, run.decimals))
    {
        first.since_boot = false;
        first.close(log);
    }
    let mut end = begin_ns;
    let mut previous: Option<i64> = None;
    let mut skipped = 0u32;
    for (report, stamp) in run.reports.into_iter().zip(stamps) {
        if report.since_boot {
            skipped += u32::from(!report.rows.is_empty());
            previous = stamp.or(previous);
            continue;
        }
        let (from_ns, to_ns) = match (stamp, previous) {
            // Stamps have whole seconds, so one that is off the grid by less than that is on the grid.
            (Some(now), Some(p)) if now.abs_diff(p.saturating_add(step)) <= SECOND_NS as u64 => {
                (p, p + step)
            }
            (Some(now), Some(p))
                if now > p && now.abs_diff(p) <= step.saturating_mul(LATE).unsigned_abs() =>
            {
                (p, now)
            }
            (Some(now), _) => (now.saturating_sub(step), now),
            (None, _) => (end, end.saturating_add(step)),
        };
        previous = Some(to_ns);
        end = to_ns;
        settle(log, report, from_ns, to_ns);
    }
    if skipped > 0 {
        log.unusable = Some(
            "it holds averages since boot only; iostat says more when it is given an interval",
        );
        log.limit("the first report of a run is taken for averages since boot, as iostat prints without -y: left out");
    }
    end
}

/// Whether totals show that a first report covers as much time as those after it. Newer versions of iostat with `-y`
/// print it in the form of the report since boot.
fn spans_an_interval(first: &Report, rest: &[Report]) -> bool {
    let others = rest
        .iter()
        .flat_map(|r| &r.seconds)
        .copied()
        .reduce(f32::max);
    let longest = first.seconds.iter().copied().reduce(f32::max);
    longest
        .zip(others)
        .is_some_and(|(first, others)| first < 1.5 * others)
}

/// If the likelihood of whole counts by chance is below this, they are counts of an interval.
const BY_CHANCE: f64 = 1e-3;
/// How many hundredths of a second iostat may be early or late.
const JITTER: Range<i64> = -2..5;

/// Whether the rates of a report times `step_ns` are whole numbers. Then they are counts of one step and not averages
/// since boot (`iostat -y` of sysstat 10 and 11, which leaves no other trace).
fn counts_are_whole(rows: &[Row], step_ns: i64, decimals: Option<i32>) -> bool {
    let Some(decimals) = decimals else {
        return false;
    };
    let counts: Vec<f64> = rows
        .iter()
        .flat_map(Row::counts_per_s)
        .filter(|v| *v > 0.0)
        .collect();
    let rounding = 0.5 * 10f64.powi(-decimals);
    // A report is a little early or late, so every possible length of the step is tried.
    for late in JITTER {
        let seconds = step_ns as f64 / 1e9 + late as f64 / 100.0;
        // A try proves nothing if as many random numbers would often be equally close to whole ones.
        let chance = (2.04 * rounding * seconds)
            .min(1.0)
            .powi(counts.len().min(1000) as i32);
        if chance * (JITTER.end - JITTER.start) as f64 > BY_CHANCE {
            continue;
        }
        let are_whole = counts.iter().all(|v| {
            let count = v * seconds;
            (count - count.round()).abs() <= 1.02 * rounding * seconds
        });
        if are_whole {
            return true;
        }
    }
    false
}

fn settle(log: &mut Log, report: Report, from_ns: i64, to_ns: i64) {
    log.rates
        .replace(report.stored, |_, _, dev| (from_ns, to_ns, dev));
    if let Some(cpu) = report.cpu {
        log.cpu.push(CpuShares {
            from_ns,
            to_ns,
            ..cpu
        });
    }
}

/// Stamps on one axis; times of day get the banner's date, plus a day after each midnight.
fn absolute(run: &Run, day_first: bool) -> Vec<Option<i64>> {
    let mut day = run.date_unix_ns.map_or(0, |d| d[usize::from(day_first)]);
    let mut last = i64::MIN;
    run.reports
        .iter()
        .map(|r| match r.stamp?[usize::from(day_first)] {
            Stamp::Unix(t) => Some(t),
            Stamp::TimeOfDay(t) => {
                if day.saturating_add(t) < last {
                    day = day.saturating_add(DAY_NS);
                }
                last = day.saturating_add(t);
                Some(last)
            }
        })
        .collect()
}

/// Stamps far from both neighbours, which agree with each other, are damaged; their reports follow the previous one.
fn drop_wild(log: &mut Log, run: &Run, stamps: &mut [Option<i64>]) {
    let known: Vec<usize> = (0..stamps.len()).filter(|i| stamps[*i].is_some()).collect();
    let Some(step) = median_gap(stamps) else {
        return;
    };
    for w in known.windows(3) {
        let (Some(before), Some(at), Some(after)) = (stamps[w[0]], stamps[w[1]], stamps[w[2]])
        else {
            continue;
        };
        if is_wild([before, at, after], step) {
            stamps[w[1]] = None;
            log.damaged(run.reports[w[1]].line, WILD);
        }
    }
}

/// Whether the second of three times is far from the others, which are near each other. `step_ns` is the usual distance.
pub fn is_wild([before_ns, at_ns, after_ns]: [i64; 3], step_ns: i64) -> bool {
    let near_ns = step_ns.saturating_mul(LATE).unsigned_abs();
    let is_between_near = before_ns <= after_ns && before_ns.abs_diff(after_ns) <= near_ns;
    is_between_near && before_ns.abs_diff(at_ns) > near_ns
}

fn median_gap(stamps: &[Option<i64>]) -> Option<i64> {
    let known: Vec<i64> = stamps.iter().flatten().copied().collect();
    let mut gaps: Vec<i64> = known
        .windows(2)
        .map(|w| w[1].saturating_sub(w[0]))
        .filter(|d| *d > 0)
        .collect();
    upper_median(&mut gaps)
}

/// The median, of an even number of values the upper one; `None` of no values. Sorts them.
pub fn upper_median<T: Ord + Copy>(values: &mut [T]) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The interval with which iostat was started: from the user, the median distance of stamps, totals, or an assumption.
fn step_ns(log: &mut Log, run: &Run, stamps: &[Option<i64>]) -> i64 {
    if let Some(step) = log.options.interval_ns {
        return step;
    }
    if let Some(median) = median_gap(stamps) {
        return median;
    }
    let mut printed: Vec<f32> = run
        .reports
        .iter()
        .filter(|r| !r.since_boot)
        .flat_map(|r| &r.seconds)
        .copied()
        .collect();
    printed.sort_by(f32::total_cmp);
    if let Some(median) = printed
        .get(printed.len() / 2)
        .filter(|s| **s >= 0.5 && **s < 1e7)
    {
        log.limit("the log has no time stamps: its interval was computed from its own totals");
        return (f64::from(median.round().max(1.0)) * 1e9) as i64;
    }
    log.limit(
        "the log has no time stamps: one second per report is assumed (--interval says otherwise)",
    );
    SECOND_NS
}
