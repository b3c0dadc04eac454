//! Finds devices whose device time changes at equal load: at once (step) or gradually (trend).
//!
//! Each request is compared with those issued at the same load (`at_issue.rs`). The recording is cut into blocks. The best
//! split of their means is a *step*, unless a straight line fits better, which is a *trend*. Device times stay high or low for
//! a while on any device, so a step must pass three tests: shuffles of pairs of blocks; Student's t over blocks, widened by
//! their autocorrelation and corrected for all splits and streams of the report; and a separation into high and low blocks. If
//! the load itself changes at the step (more requests, other sizes, another mix), nothing is reported.

use serde::Serialize;

use crate::analysis::counters::pressure::{CpuShortage, HostPressure, HostState};
use crate::analysis::device::at_issue::{AtIssue, IssueCell, against_alike};
use crate::analysis::findings::evidence::{Evidence, LatencyChangeEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::math::distributions::{normal_below, t_both_sides, t_critical};
use crate::analysis::math::stats::{Shuffler, median, nearest_rank};
use crate::analysis::stream::requests::Requests;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId};

/// Number of blocks, and minimum number of blocks on each side of a step.
const BLOCKS: usize = 32;
const MIN_SIDE: usize = 5;
/// Minimum number of blocks with requests; fewer do not show their spread.
const MIN_BLOCKS: usize = 24;
/// Minimum number of requests in a block.
const MIN_IN_BLOCK: usize = 20;
/// Minimum length of a recording, 10 s: shorter ones only show how a load begins.
const MIN_NS: i64 = 10_000_000_000;
/// Significance level: by shuffles for each stream, by Student's t and by Kendall's tau for all streams together.
const ALPHA: f64 = 0.01;
const SHUFFLES: usize = 999;
/// Minimum ratio that is reported, and minimum of the end of its confidence interval that is nearer to 1.
const NOTICEABLE: f64 = 1.25;
const MIN_INTERVAL_RATIO: f64 = 1.1;
/// Ratio from which on a slowdown is a warning.
const WARNING: f64 = 1.5;
/// Minimum share of the pairs (block before, block after) that differ in the direction of the step.
const MIN_PAIRS_SEPARATED: f64 = 0.9;
/// Minimum Kendall's tau of a trend.
const MIN_TAU: f64 = 0.6;

/// How device time changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "LatencyChangeForm")
)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Sudden change.
    Step,
    /// Gradual change.
    Trend,
}

/// Device times on one side of the change; for a trend, of the first and the last quarter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Requests in the sample.
    pub ios: usize,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile; `None` with fewer than 100 requests.
    pub p99_us: Option<f64>,
}

impl Side {
    fn of<'a>(requests: impl Iterator<Item = &'a AtIssue>) -> Side {
        let mut us: Vec<f64> = requests.map(|r| r.device_ns as f64 / 1e3).collect();
        let p99_us = if us.len() >= 100 {
            nearest_rank(&mut us, 0.99)
        } else {
            None
        };
        Side {
            ios: us.len(),
            p50_us: nearest_rank(&mut us, 0.5),
            p99_us,
        }
    }
}

/// A change of device time at comparable load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Class of the requests.
    pub class: Class,
    /// Step or trend.
    pub form: Form,
    /// The step, or the beginning of the trend, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// End of the compared time.
    pub to_ns: i64,
    /// Device time after the change divided by that before, at the same load; for a trend, end divided by beginning.
    pub ratio: f64,
    /// 95 % confidence interval of `ratio`, over blocks.
    pub ratio_ci: (f64, f64),
    /// Of shuffles of pairs of blocks; for a trend, of the Mann-Kendall test, corrected for autocorrelation.
    pub p_value: f64,
    /// p-value corrected for all streams of the report: Student's t over blocks, times splits and streams. Of a trend:
    /// `p_value` times streams.
    pub p_family: f64,
    /// Blocks compared.
    pub blocks: usize,
    /// Requests issued per second after the change divided by those before.
    pub load_ratio: f64,
    /// Before.
    pub before: Side,
    /// After.
    pub after: Side,
}

/// Sums of one block.
#[derive(Clone, Copy, Default)]
struct Block {
    from_ns: i64,
    /// Requests with residuals, and the sum of the residuals.
    n: usize,
    sum: f64,
    /// Load: requests of the class, of the other class, logarithms of sizes, sequential requests.
    own: f64,
    others: f64,
    log_sizes: f64,
    sequential: f64,
}

impl Block {
    fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }
}

/// The blocks without lost I/Os in which the class is active.
fn blocks(
    rows: &[(&AtIssue, f64)],
    samples: &[Requests<AtIssue>; 2],
    class: usize,
    around: &LatencyContext,
) -> Vec<Block> {
    let len_ns = (around.window.len_ns() / BLOCKS as i64).max(1);
    let mut all: Vec<Block> = (0..BLOCKS)
        .map(|i| Block {
            from_ns: around.window.from_ns + i as i64 * len_ns,
            ..Block::default()
        })
        .collect();
    for (r, residual) in rows {
        let block = (r.issue_ns - around.window.from_ns) / len_ns;
        if let Some(b) = all.get_mut(block as usize) {
            b.n += 1;
            b.sum += residual;
        }
    }
    // The load counts all requests, also those without a residual because their cell is rare.
    for (c, sample) in samples.iter().enumerate() {
        for r in sample
            .kept()
            .iter()
            .filter(|r| r.issue_ns >= around.window.from_ns)
        {
            let block = (r.issue_ns - around.window.from_ns) / len_ns;
            let Some(b) = all.get_mut(block as usize) else {
                continue;
            };
            let one = sample.one_in() as f64;
            if c == class {
                b.own += one;
                b.log_sizes += one * f64::from(r.sectors.max(1)).ln();
                b.sequential += if r.cell.is_sequential() { one } else { 0.0 };
            } else {
                b.others += one;
            }
        }
    }
    all.retain(|b| {
        let mut gaps = around.gaps.iter();
        let is_missing = gaps.any(|g| g.0 < b.from_ns + len_ns && g.1 > b.from_ns);
        b.n >= MIN_IN_BLOCK && !is_missing
    });
    all
}

/// Inputs of a test besides the requests.
pub(in crate::analysis) struct LatencyContext<'a> {
    pub window: Window,
    /// Intervals with lost I/Os.
    pub gaps: &'a [(i64, i64)],
    /// Number of streams tested in this report.
    pub family: usize,
}

/// The change of the reads or writes in `samples` (in this order); `None` if there is none.
pub(in crate::analysis) fn find(
    samples: &[Requests<AtIssue>; 2],
    class: Class,
    around: &LatencyContext,
) -> Option<Change> {
    if around.window.len_ns() < MIN_NS {
        return None;
    }
    let requests: Vec<&AtIssue> = samples[class as usize]
        .kept()
        .iter()
        .filter(|r| r.issue_ns >= around.window.from_ns)
        .collect();
    if requests.len() < MIN_BLOCKS * MIN_IN_BLOCK {
        return None;
    }
    // A residual says how much longer a request took than similar ones. A change is a change of its block means.
    let rows = against_alike(&requests);
    let blocks = blocks(&rows, samples, class as usize, around);
    if blocks.len() < MIN_BLOCKS {
        return None;
    }
    let means: Vec<f64> = blocks.iter().map(Block::mean).collect();
    let step = best_split(&means)?;
    let line = Line::fit(&means);
    let found = if line.squares(&means) < step.squares {
        found_trend(&line, &means, &blocks, around)?
    } else {
        found_step(&step, &means, &rows, &blocks, around)?
    };
    let effect = found.effect;
    let load_ratio = load_only(&blocks, found.first_after, effect.ratio > 1.0)?;
    if !effect.is_noticeable() {
        return None;
    }
    let last = blocks.last()?;
    let to_ns = around
        .window
        .to_ns
        .min(last.from_ns + around.window.len_ns() / BLOCKS as i64);
    // The two sides are shown as plain device times, as a person would measure them.
    let all = requests.iter().copied();
    let before = Side::of(all.clone().filter(|r| r.issue_ns < found.before_ns));
    let after = Side::of(all.filter(|r| r.issue_ns >= found.after_ns));
    Some(Change {
        class,
        form: found.form,
        at_ns: found.at_ns,
        to_ns,
        ratio: effect.ratio,
        ratio_ci: effect.ratio_ci,
        p_value: effect.p_value,
        p_family: effect.p_family,
        blocks: blocks.len(),
        load_ratio,
        before,
        after,
    })
}

/// A change of the means of blocks. Whether the load explains it is checked later.
struct Found {
    form: Form,
    effect: Effect,
    /// The first block after the change; for a trend, the middle block.
    first_after: usize,
    /// Time of the step or start of the trend, in nanoseconds since the recording's start.
    at_ns: i64,
    /// Requests issued before this are shown as the side before the change.
    before_ns: i64,
    /// Requests issued from here on are shown as the side after the change.
    after_ns: i64,
}

/// The trend along `line`, if it is significant.
fn found_trend(
    line: &Line,
    means: &[f64],
    blocks: &[Block],
    around: &LatencyContext,
) -> Option<Found> {
    let n = blocks.len();
    Some(Found {
        form: Form::Trend,
        effect: trend(line, means, around)?,
        first_after: n / 2,
        at_ns: blocks[0].from_ns,
        before_ns: blocks[n / 4].from_ns,
        after_ns: blocks[n * 3 / 4].from_ns,
    })
}

/// The step at the best split, if it is significant. `rows` are requests with their residuals.
fn found_step(
    step: &Split,
    means: &[f64],
    rows: &[(&AtIssue, f64)],
    blocks: &[Block],
    around: &LatencyContext,
) -> Option<Found> {
    let at_ns = moment(rows, blocks, step);
    let (before, after): (Vec<_>, Vec<_>) = rows.iter().partition(|r| r.0.issue_ns < at_ns);
    let of_blocks = stepped(step, means, around)?;
    let ratio = matched(&before, &after)?.exp();
    // Means of blocks underestimate the ratio where slower requests are compared mostly with each other.
    let (low, high) = of_blocks.ratio_ci;
    let ratio_ci = (
        low * ratio / of_blocks.ratio,
        high * ratio / of_blocks.ratio,
    );
    Some(Found {
        form: Form::Step,
        effect: Effect {
            ratio,
            ratio_ci,
            ..of_blocks
        },
        first_after: step.first_after,
        at_ns,
        before_ns: at_ns,
        after_ns: at_ns,
    })
}

/// Ratio of device times and its significance, as in [`Change`].
struct Effect {
    ratio: f64,
    ratio_ci: (f64, f64),
    p_value: f64,
    p_family: f64,
}

impl Effect {
    /// Whether the ratio and the nearer end of its confidence interval are large enough to be reported.
    fn is_noticeable(&self) -> bool {
        let is_sure = if self.ratio > 1.0 {
            self.ratio_ci.0 >= MIN_INTERVAL_RATIO
        } else {
            self.ratio_ci.1 <= 1.0 / MIN_INTERVAL_RATIO
        };
        is_sure && self.ratio.max(1.0 / self.ratio) >= NOTICEABLE
    }
}

/// A split of a series into two levels.
struct Split {
    first_after: usize,
    difference: f64,
    /// Sum of squares around the two levels.
    squares: f64,
}

/// The split with the smallest sum of squares; the first of equal ones.
fn best_split(means: &[f64]) -> Option<Split> {
    let n = means.len();
    let total = means.iter().sum::<f64>();
    let all: f64 = means.iter().map(|m| m * m).sum();
    let mut sum: f64 = means.iter().take(MIN_SIDE - 1).sum();
    let mut best: Option<Split> = None;
    for k in MIN_SIDE..=n.checked_sub(MIN_SIDE)? {
        sum += means[k - 1];
        let a = sum / k as f64;
        let b = (total - sum) / (n - k) as f64;
        let split = Split {
            first_after: k,
            difference: b - a,
            squares: all - k as f64 * a * a - (n - k) as f64 * b * b,
        };
        if best
            .as_ref()
            .is_none_or(|best| split.squares.total_cmp(&best.squares).is_lt())
        {
            best = Some(split);
        }
    }
    best
}

/// Variance inflation of an autocorrelated series, from the residuals of a model: how many of its values are worth
/// one independent value. It is `(1 + r) / (1 - r)` with the autocorrelation r at lag one, corrected for short series
/// and never negative.
pub(in crate::analysis) fn inflation(rest: &[f64]) -> f64 {
    let squares: f64 = rest.iter().map(|r| r * r).sum();
    let products: f64 = rest.windows(2).map(|w| w[0] * w[1]).sum();
    let r = if squares > 0.0 {
        products / squares
    } else {
        0.0
    };
    let r = (r + (1.0 + 4.0 * r) / rest.len() as f64).clamp(0.0, 0.9);
    (1.0 + r) / (1.0 - r)
}

/// The step, if it is significant.
fn stepped(step: &Split, means: &[f64], around: &LatencyContext) -> Option<Effect> {
    let (before, after) = means.split_at(step.first_after);
    let levels = [before, after].map(|side| side.iter().sum::<f64>() / side.len() as f64);
    let rest: Vec<f64> = means
        .iter()
        .enumerate()
        .map(|(i, m)| m - levels[usize::from(i >= step.first_after)])
        .collect();
    // Autocorrelated blocks are worth fewer independent ones, which leaves fewer degrees of freedom.
    let df = (means.len() as f64 / inflation(&rest) - 2.0).max(1.0);
    let variance = (step.squares / df).max(1e-12);
    let se = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    let splits = means.len() + 1 - 2 * MIN_SIDE;
    let p_family = (t_both_sides(step.difference.abs() / se, df)
        * (splits * around.family.max(1)) as f64)
        .min(1.0);
    // A step separates the blocks into high and low ones; a few extreme blocks on one side do not.
    let sign = step.difference.signum();
    let apart = before
        .iter()
        .flat_map(|a| after.iter().map(move |b| (b - a) * sign))
        .filter(|d| *d > 0.0)
        .count();
    let is_apart = apart as f64 >= MIN_PAIRS_SEPARATED * (before.len() * after.len()) as f64;
    if !is_apart || p_family > ALPHA {
        return None;
    }
    // The shuffles are the most expensive test, so they come last.
    let p_value = p_shuffled(means, step.squares);
    let half = t_critical(0.05, df) * se;
    let ratio_ci = (
        (step.difference - half).exp(),
        (step.difference + half).exp(),
    );
    (p_value <= ALPHA).then(|| Effect {
        ratio: step.difference.exp(),
        ratio_ci,
        p_value,
        p_family,
    })
}

/// p-value: how often shuffled pairs of neighbouring blocks split at least as well.
fn p_shuffled(means: &[f64], squares: f64) -> f64 {
    let mut random = Shuffler::new(0x5eed_57e9);
    let mut pairs: Vec<&[f64]> = means.chunks(2).collect();
    let as_good = (0..SHUFFLES).filter(|_| {
        random.shuffle(&mut pairs);
        best_split(&pairs.concat()).is_some_and(|s| s.squares <= squares)
    });
    (1 + as_good.count()) as f64 / (1 + SHUFFLES) as f64
}

/// Theil-Sen line through a series, and Kendall's S.
struct Line {
    slope: f64,
    middle: f64,
    /// All pairwise slopes, sorted.
    slopes: Vec<f64>,
    /// Kendall's S: rising pairs minus falling ones.
    s: f64,
}

impl Line {
    fn fit(means: &[f64]) -> Line {
        let mut slopes = Vec::new();
        for (i, before) in means.iter().enumerate() {
            for (j, after) in means.iter().enumerate().skip(i + 1) {
                slopes.push((after - before) / (j - i) as f64);
            }
        }
        slopes.sort_by(f64::total_cmp);
        let slope = median(&mut slopes.clone()).unwrap_or(0.0);
        let mut levels: Vec<f64> = means
            .iter()
            .enumerate()
            .map(|(i, m)| m - slope * i as f64)
            .collect();
        let s = slopes.iter().map(|s| s.signum()).sum();
        Line {
            slope,
            middle: median(&mut levels).unwrap_or(0.0),
            slopes,
            s,
        }
    }

    fn rest(&self, means: &[f64]) -> Vec<f64> {
        means
            .iter()
            .enumerate()
            .map(|(i, m)| m - self.middle - self.slope * i as f64)
            .collect()
    }

    fn squares(&self, means: &[f64]) -> f64 {
        self.rest(means).iter().map(|r| r * r).sum()
    }

    /// The slope of a rank among all slopes, or the nearest one.
    fn slope_at(&self, place: f64) -> f64 {
        self.slopes[(place.max(0.0) as usize).min(self.slopes.len() - 1)]
    }
}

/// The trend, if it is significant: Mann-Kendall test with the variance of an autocorrelated series.
fn trend(line: &Line, means: &[f64], around: &LatencyContext) -> Option<Effect> {
    let n = means.len() as f64;
    let sigma = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0 * inflation(&line.rest(means))).sqrt();
    let p_value = 2.0 * normal_below(-(line.s.abs() - 1.0).max(0.0) / sigma);
    let p_family = (p_value * around.family.max(1) as f64).min(1.0);
    let tau = line.s / (n * (n - 1.0) / 2.0);
    if p_family > ALPHA || tau.abs() < MIN_TAU {
        return None;
    }
    // Sen's confidence interval: the slopes within `reach / 2` ranks of the middle.
    let pairs = line.slopes.len() as f64;
    let reach = 1.96 * sigma;
    let low = line.slope_at((pairs - reach) / 2.0);
    let high = line.slope_at((pairs + reach) / 2.0);
    // Over the whole series, from the first block to the last.
    let [ratio, low, high] = [line.slope, low, high].map(|slope| (slope * (n - 1.0)).exp());
    Some(Effect {
        ratio,
        ratio_ci: (low, high),
        p_value,
        p_family,
    })
}

/// Time of the step, to the request: where the residuals change from one side of their middle to the other.
fn moment(rows: &[(&AtIssue, f64)], blocks: &[Block], step: &Split) -> i64 {
    let k = step.first_after;
    let n = blocks.len();
    let [before, after] = [&blocks[..k], &blocks[k..]]
        .map(|side| side.iter().map(Block::mean).sum::<f64>() / side.len() as f64);
    let middle = f64::midpoint(before, after);
    let from_ns = blocks[k.saturating_sub(2)].from_ns;
    let to_ns = blocks[(k + 2).min(n - 1)].from_ns;
    let mut sum = 0.0;
    let mut least = 0.0;
    let mut at_ns = None;
    for (r, residual) in rows
        .iter()
        .filter(|r| from_ns <= r.0.issue_ns && r.0.issue_ns < to_ns)
    {
        // Terms before the step are negative, so the sum has its minimum at the step.
        at_ns = at_ns.or(Some(r.issue_ns));
        if sum < least {
            least = sum;
            at_ns = Some(r.issue_ns);
        }
        sum += (residual - middle) * step.difference.signum();
    }
    at_ns.unwrap_or(blocks[k].from_ns)
}

/// Difference of mean logarithms, over cells with enough requests on both sides.
fn matched(before: &[&(&AtIssue, f64)], after: &[&(&AtIssue, f64)]) -> Option<f64> {
    let mut cells: std::collections::BTreeMap<IssueCell, [(f64, f64); 2]> =
        std::collections::BTreeMap::new();
    for (side, rows) in [before, after].into_iter().enumerate() {
        for (r, residual) in rows {
            let sums = &mut cells.entry(r.cell).or_default()[side];
            *sums = (sums.0 + 1.0, sums.1 + residual);
        }
    }
    let both = cells.values().filter(|[b, a]| b.0 >= 3.0 && a.0 >= 3.0);
    let (weight, sum) = both.fold((0.0, 0.0), |(weight, sum), [b, a]| {
        let w = b.0 * a.0 / (b.0 + a.0);
        (weight + w, sum + w * (a.1 / a.0 - b.1 / b.0))
    });
    (weight >= MIN_IN_BLOCK as f64).then(|| sum / weight)
}

/// The ratio of requests issued per second after and before `split`. `None` if the load changed there, so that it may
/// be the reason: more requests if they are slower (fewer if they are faster), other sizes, another mix.
fn load_only(blocks: &[Block], split: usize, slower: bool) -> Option<f64> {
    let (before, after) = blocks.split_at(split);
    let load = Contrast::of(before, after, |b| (b.own + b.others).max(1.0).ln());
    let size = Contrast::of(before, after, |b| b.log_sizes / b.own);
    let share = Contrast::of(before, after, |b| b.own / (b.own + b.others));
    let sequential = Contrast::of(before, after, |b| b.sequential / b.own);
    let is_loaded = load.is_beyond(0.05) && (load.difference > 0.0) == slower;
    let is_other = size.is_beyond(0.1) || share.is_beyond(0.03) || sequential.is_beyond(0.03);
    (!is_loaded && !is_other).then(|| load.difference.exp())
}

/// How much higher the mean of a quantity is in the blocks after a split than in those before it.
struct Contrast {
    difference: f64,
    /// Whether it exceeds the noise among blocks.
    is_beyond_noise: bool,
}

impl Contrast {
    fn of(before: &[Block], after: &[Block], quantity: fn(&Block) -> f64) -> Contrast {
        let mut sides = [0.0; 2];
        let mut squares = 0.0;
        for (side, part) in [before, after].into_iter().enumerate() {
            sides[side] = part.iter().map(quantity).sum::<f64>() / part.len() as f64;
            squares += part
                .iter()
                .map(|b| (quantity(b) - sides[side]).powi(2))
                .sum::<f64>();
        }
        let n = before.len() as f64;
        let m = after.len() as f64;
        let se = (squares / (n + m - 2.0) * (1.0 / n + 1.0 / m)).sqrt();
        let difference = sides[1] - sides[0];
        Contrast {
            difference,
            is_beyond_noise: difference.abs() > 3.5 * se,
        }
    }

    fn is_beyond(&self, noticeable: f64) -> bool {
        self.difference.abs() > noticeable && self.is_beyond_noise
    }
}

/// Pressure of the host before and after a change.
struct Hosts {
    before: Option<HostState>,
    after: Option<HostState>,
    /// A shortage of CPU time, on the slower side only, that explains the longer latency.
    shortage: Option<CpuShortage>,
}

impl Hosts {
    fn of(c: &Change, window: Window, host: &HostPressure) -> Hosts {
        // A trend has no two sides, so its halves are compared.
        let middle_ns = match c.form {
            Form::Step => c.at_ns,
            Form::Trend => i64::midpoint(c.at_ns, c.to_ns),
        };
        let before = host.between(window.from_ns, middle_ns);
        let after = host.between(middle_ns, c.to_ns);
        let [fast, slow] = match c.ratio > 1.0 {
            true => [before, after],
            false => [after, before],
        };
        let p50s_us = c.before.p50_us.zip(c.after.p50_us);
        let longer_ns = p50s_us.map_or(0, |(b, a)| ((a - b).abs() * 1e3) as i64);
        let [when_fast, when_slow] =
            [fast, slow].map(|state| state.and_then(|s| s.cpu_shortage(longer_ns)));
        let shortage = when_slow.filter(|_| when_fast.is_none());
        Hosts {
            before,
            after,
            shortage,
        }
    }
}

/// The finding. If a shortage of CPU time began or ended with it, it is no warning about the device.
pub(in crate::analysis) fn finding(
    dev: DevId,
    c: &Change,
    window: Window,
    host: &HostPressure,
) -> Finding {
    let hosts = Hosts::of(c, window, host);
    let numbers = LatencyChangeEvidence {
        class: c.class,
        form: c.form,
        at_s: c.at_ns as f64 / 1e9,
        ratio_at_same_load: c.ratio,
        ratio_at_same_load_ci: c.ratio_ci,
        device_p50_before_us: c.before.p50_us,
        device_p50_after_us: c.after.p50_us,
        device_p99_before_us: c.before.p99_us,
        device_p99_after_us: c.after.p99_us,
        ios_before: c.before.ios,
        ios_after: c.after.ios,
        load_ratio: c.load_ratio,
        p_value: c.p_value,
        p_family: c.p_family,
        blocks: c.blocks,
        cpu_shortage: hosts.shortage,
        host_before: hosts.before,
        host_after: hosts.after,
    };
    Finding {
        dev: Some(dev),
        from_ns: c.at_ns,
        to_ns: c.to_ns,
        severity: if c.ratio >= WARNING && hosts.shortage.is_none() {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: match c.form {
            Form::Step => Evidence::LatencyStep(numbers),
            Form::Trend => Evidence::LatencyTrend(numbers),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PressureSample;

    const S: i64 = 1_000_000_000;

    /// 20 s, with eight tasks for two CPUs from 10 s on.
    fn busy_later() -> HostPressure {
        let mut host = HostPressure::default();
        for s in 0..20 {
            host.push(&PressureSample {
                from_ns: s * S,
                to_ns: (s + 1) * S,
                cpus: Some(2),
                cpu_some_ns: Some(if s < 10 { 0 } else { S * 9 / 10 }),
                io_some_ns: Some(0),
                io_full_ns: Some(0),
                steal_ns: Some(0),
                runnable: Some(if s < 10 { 1 } else { 8 }),
                timer_due_ns: None,
                timer_late_ns: None,
            });
        }
        host
    }

    /// At 10 s reads take so many times as long.
    fn change(ratio: f64, [before_us, after_us]: [f64; 2]) -> Change {
        let side = |p50_us| Side {
            ios: 1000,
            p50_us: Some(p50_us),
            p99_us: None,
        };
        Change {
            class: Class::Read,
            form: Form::Step,
            at_ns: 10 * S,
            to_ns: 20 * S,
            ratio,
            ratio_ci: (ratio, ratio),
            p_value: 0.001,
            p_family: 0.001,
            blocks: 32,
            load_ratio: 1.0,
            before: side(before_us),
            after: side(after_us),
        }
    }

    fn severity_and_shortage(c: &Change, host: &HostPressure) -> (Severity, Option<CpuShortage>) {
        let found = finding(DevId(1), c, Window::new(0, 20 * S), host);
        let Evidence::LatencyStep(e) = &found.evidence else {
            panic!("{found:?}")
        };
        (found.severity, e.cpu_shortage)
    }

    #[test]
    fn a_step_that_comes_with_busy_cpus_is_no_warning_about_the_device() {
        let slower = change(3.0, [100.0, 300.0]);
        let is_cpu = (Severity::Info, Some(CpuShortage::Pressure));
        assert_eq!(severity_and_shortage(&slower, &busy_later()), is_cpu);
        let unknown = HostPressure::default();
        let is_device = (Severity::Warning, None);
        assert_eq!(severity_and_shortage(&slower, &unknown), is_device);
        // No task waits for a CPU as long as these take longer.
        let far_slower = change(3.0, [100_000.0, 400_000.0]);
        assert_eq!(severity_and_shortage(&far_slower, &busy_later()), is_device);
        // It became faster while the CPUs became short.
        let faster = change(0.5, [100.0, 50.0]);
        assert_eq!(
            severity_and_shortage(&faster, &busy_later()),
            (Severity::Info, None)
        );
    }
}
