//! Finds the stretches of a stream with more submissions than its own background explains (A13).
//!
//! All lengths are searched at once: an excursion is a stretch whose running sum of `x - 1.8 * background` stays
//! positive, up to its highest point, so no window length has to be chosen. An excursion is a burst if the background
//! would hardly ever show it; the model of the background is a compound Poisson stream of the recording's own request
//! sizes, whose rate varies log-normally as much as the recording's does at that length.
//!
//! The background is estimated from low quantiles, so bursts may take up to a sixth of the time without changing it.
//! Memory is that of one minute of 1 ms bins, whatever the length of the recording.

use crate::model::rank;

/// Submissions in one bin; bins without any are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) struct BurstBin {
    /// Number of the bin.
    pub at: u64,
    pub ios: u64,
    pub bytes: u64,
}

/// The quantity of which a burst has more than the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Bytes.
    Bytes,
    /// I/Os.
    Ios,
}

/// A stretch of bins `first..end` with more than the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::analysis) struct Excess {
    pub first: u64,
    pub end: u64,
    pub measure: Measure,
    /// The background's rate of the measure, per bin.
    pub baseline: f64,
    /// Expected number of such stretches per bin if there were only the background.
    pub per_bin: f64,
}

impl Excess {
    /// Expected number in `bins` bins if there were only the background.
    pub fn by_chance(&self, bins: u64) -> f64 {
        self.per_bin * bins as f64
    }

    /// Whether that number is so small that chance does not explain it.
    pub fn is_rare(&self, bins: u64) -> bool {
        self.by_chance(bins) <= MAX_BY_CHANCE
    }
}

/// An excursion must exceed the background by this factor. It lies between one and three times the background.
const EXCESS: f64 = 1.8;

/// Stretches closer than this are joined.
const GAP_NS: i64 = 100_000_000;

/// Longer stretches are load, which one-second samples show.
const MAX_NS: i64 = 1_500_000_000;

/// Minimum number of I/Os, or of bytes, in a burst.
const MIN_IOS: f64 = 32.0;
const MIN_BYTES: f64 = 1_048_576.0;

/// Maximum number of such bursts expected by chance in the whole recording, over all of its devices.
const MAX_BY_CHANCE: f64 = 0.002;

/// A segment with more bursts than this has none: they are the normal pattern of the stream.
const MAX_IN_SEGMENT: usize = 32;

/// If a stream comes this far from its background's rate towards the rate of a burst in more than `MAX_IN_SEGMENT` stretches,
/// that burst is part of its normal pattern, whether or not the other stretches last long enough to be bursts. This is tested
/// in windows that hold `ALIKE_WINDOW` at the burst's rate. Beside a burst of twice the background's rate, the background's own
/// noise hardly ever comes that far in such a window (3.3 standard deviations).
const ALIKE: f64 = 0.4;
const ALIKE_WINDOW: f64 = 96.0;

/// Number of independent stretches per length: stretches of one length overlap, and their edges are chosen.
const CHOICES: f64 = 10.0;

/// The share of time that bursts leave unchanged.
const CALM: f64 = 0.8;

/// Longest scale at which the background is measured.
const SCALE_NS: i64 = 1_024_000_000;

/// Request sizes: counts and sums in buckets, four per octave.
#[derive(Debug, Clone, Default)]
pub(in crate::analysis) struct Sizes {
    buckets: Vec<(f64, f64)>,
    squares: f64,
}

impl Sizes {
    /// Takes a request.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        self.add_many(bytes, 1.0);
    }

    /// Takes `n` requests of `bytes` each.
    #[inline]
    pub fn add_many(&mut self, bytes: u64, n: f64) {
        let octave = bytes.max(4).ilog2();
        let bucket = (octave * 4 + ((bytes.max(4) >> (octave - 2)) & 3) as u32) as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, (0.0, 0.0));
        }
        self.buckets[bucket].0 += n;
        self.buckets[bucket].1 += n * bytes as f64;
        self.squares += n * (bytes as f64).powi(2);
    }

    /// Request sizes from bins with sums only: all requests of a bin are assumed to have the same size, at most 1 MiB.
    pub fn of_averages(bins: &[BurstBin]) -> Sizes {
        let mut sizes = Sizes::default();
        for bin in bins.iter().filter(|b| b.bytes > 0) {
            let size = (bin.bytes / bin.ios.max(1)).clamp(1, 1 << 20);
            sizes.add_many(size, bin.bytes as f64 / size as f64);
        }
        sizes
    }

    /// The distribution of request sizes for a measure, in units of the typical size: the mean size weighted by bytes.
    fn law(&self, measure: Measure) -> Option<Law> {
        if measure == Measure::Ios {
            return Some(Law {
                unit: 1.0,
                mean: 1.0,
                sizes: vec![(1.0, 1.0)],
            });
        }
        let (n, sum) = self
            .buckets
            .iter()
            .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        if sum <= 0.0 {
            return None;
        }
        let unit = self.squares / sum;
        let used = self.buckets.iter().filter(|b| b.1 > 0.0);
        let sizes = used.map(|b| (b.0 / n, b.1 / b.0 / unit)).collect();
        Some(Law {
            unit,
            mean: sum / n / unit,
            sizes,
        })
    }
}

/// Request sizes as (share, size in units), their mean in units, and the unit.
#[derive(Debug, Clone)]
struct Law {
    unit: f64,
    mean: f64,
    sizes: Vec<(f64, f64)>,
}

impl Law {
    /// Probability that a compound Poisson sum with mean `mu` reaches `x` (both in units), by saddle-point approximation.
    fn tail(&self, x: f64, mu: f64) -> f64 {
        if x <= mu || mu <= 0.0 {
            return if x <= mu { 1.0 } else { 0.0 };
        }
        let arrivals = mu / self.mean;
        // The saddle point is where the tilted sum has mean `x`: bracket it, then bisect.
        let mut low = 0.0;
        let mut high = 1.0;
        while self.cumulants(arrivals, high)[1] < x && high < 64.0 {
            low = high;
            high *= 2.0;
        }
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.cumulants(arrivals, middle)[1] < x {
                low = middle
            } else {
                high = middle
            }
        }
        let [k, _, variance] = self.cumulants(arrivals, high);
        let exponent = high * x - k;
        (-exponent.max(0.0)).exp()
            * (1.0 / (high * (std::f64::consts::TAU * variance).sqrt())).min(1.0)
    }

    /// Cumulant generating function at `theta` of the sum of `arrivals` requests, and its first two derivatives.
    fn cumulants(&self, arrivals: f64, theta: f64) -> [f64; 3] {
        let mut k = [-1.0, 0.0, 0.0];
        for (share, size) in &self.sizes {
            let e = share * (theta * size).exp();
            k[0] += e;
            k[1] += e * size;
            k[2] += e * size * size;
        }
        k.map(|v| v * arrivals)
    }

    /// Probability of reaching `x` if the rate varies log-normally around `mu`; `variance` is that of the rate's logarithm.
    fn varying_tail(&self, x: f64, mu: f64, variance: f64) -> f64 {
        if variance <= 1e-6 {
            return self.tail(x, mu);
        }
        const STEP: f64 = 0.25;
        let sigma = variance.sqrt();
        // Integrate over the normal deviation `z` of the logarithm. Rates far below the mean do not reach `x`.
        let mut chance = 0.0;
        for i in -8..=40 {
            let z = f64::from(i) * STEP;
            let weight = STEP * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
            chance += weight * self.tail(x, mu * (sigma * z).exp());
        }
        chance
    }
}

/// The background of a segment: its rate without bursts.
#[derive(Debug, Clone)]
struct Background {
    /// Units per bin.
    rate: f64,
    /// The rate plus the noise of the windows that it is estimated from; bursts are compared with it.
    upper_rate: f64,
    /// Variance of the rate's logarithm in windows of 1, 2, 4, ... bins.
    variance: Vec<f64>,
}

impl Background {
    /// The background of the bins `from..to`; `values` are (bin, units). It is measured in windows of up to an eighth
    /// of a second, most of which have no burst. Longer windows are used only if counts are too small.
    fn of(values: &[(u64, f64)], (from, to): (u64, u64), scales: u32) -> Background {
        let len = (to - from).max(1);
        let mut rates: Vec<(f64, f64)> = Vec::new();
        let mut measured: Vec<(u32, f64)> = Vec::new();
        for k in 0..=scales {
            let windows = (len >> k) as usize;
            if windows < 20 || (k + 3 > scales && rates.len() > 1) {
                break;
            }
            let mut sums = sums(values, from, k, windows as u64);
            let [low, middle, high] = [0.25, 0.6, CALM].map(|q| quantile(&mut sums, windows, q));
            // Only counts so high that their own noise adds little.
            if high >= 40.0 {
                let bins = (1u64 << k) as f64;
                rates.push((without_noise(high) / bins, high / bins));
            }
            if low >= 16.0 {
                let seen =
                    ((middle / low).ln() / 0.927).powi(2) * (1.0 - 3.0 / (windows as f64).sqrt());
                measured.push((k, (seen - 1.0 / middle).max(0.0)));
            }
        }
        let mean = values.iter().map(|v| v.1).sum::<f64>() / len as f64;
        let (rate, upper_rate) = rates
            .into_iter()
            .reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
            .unwrap_or((mean, mean));
        let mut variance = vec![0.0; scales as usize + 1];
        if let [(first, v), rest @ ..] = &measured[..] {
            let next = rest.first().map_or(*v, |m| m.1);
            // Below the measured lengths the variance is assumed to keep growing as between the two shortest measured ones.
            let growth = if next > 0.01 {
                (v / next).clamp(1.0, 2.0)
            } else {
                1.0
            };
            variance.fill(measured.last().map_or(0.0, |m| m.1));
            measured
                .iter()
                .for_each(|(k, v)| variance[*k as usize] = *v);
            (0..*first)
                .rev()
                .for_each(|k| variance[k as usize] = (variance[k as usize + 1] * growth).min(4.0));
        }
        Background {
            rate,
            upper_rate,
            variance,
        }
    }

    /// Raises the background to at least these rates.
    fn raise(&mut self, (rate, upper_rate): (f64, f64)) {
        self.rate = self.rate.max(rate);
        self.upper_rate = self.upper_rate.max(upper_rate);
    }

    /// Raises rate and variance to at least those of `ios`, the background of I/Os whose mean size is `mean` units.
    fn raise_to(&mut self, ios: &Background, mean: f64) {
        self.raise((ios.rate * mean, ios.upper_rate * mean));
        for (own, known) in self.variance.iter_mut().zip(&ios.variance) {
            *own = own.max(*known);
        }
    }
}

/// The mean of a count whose variance equals its mean and whose quantile [`CALM`] is `high`.
fn without_noise(high: f64) -> f64 {
    // That quantile of the standard normal distribution.
    const DEVIATIONS: f64 = 0.8416;
    ((high + DEVIATIONS * DEVIATIONS / 4.0).sqrt() - DEVIATIONS / 2.0).powi(2)
}

/// Sums over windows of `2^k` bins; empty windows are left out.
fn sums(values: &[(u64, f64)], from: u64, k: u32, windows: u64) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    let mut last = u64::MAX;
    for (at, x) in values {
        match (at - from) >> k {
            window if window >= windows => break,
            window if window == last => {
                if let Some(sum) = sums.last_mut() {
                    *sum += x;
                }
            }
            window => {
                sums.push(*x);
                last = window;
            }
        }
    }
    sums
}

/// Nearest-rank quantile of `n` values. Those not in `values` are 0.
fn quantile(values: &mut [f64], n: usize, q: f64) -> f64 {
    let rank = rank(q, n as u64) as usize;
    match rank.checked_sub(n - values.len().min(n) + 1) {
        Some(i) if i < values.len() => *values.select_nth_unstable_by(i, f64::total_cmp).1,
        _ => 0.0,
    }
}

/// The bins `range` as a burst relative to the recording's mean rate; `None` if that rate explains it.
pub(in crate::analysis) fn excess(
    bins: &[BurstBin],
    range: (u64, u64),
    slots: u64,
    sizes: &Sizes,
) -> Option<Excess> {
    let law = sizes.law(Measure::Bytes)?;
    let [from, to] = [range.0, range.1].map(|at| bins.partition_point(|b| b.at < at));
    let rate = sum_bytes(bins) as f64 / law.unit / slots.max(1) as f64;
    let own = sum_bytes(&bins[from..to]) as f64 / law.unit;
    let length = (range.1 - range.0) as f64;
    let per_bin = law.tail(own, rate * length) * CHOICES / length;
    let baseline = rate * law.unit;
    let found = Excess {
        first: range.0,
        end: range.1,
        measure: Measure::Bytes,
        baseline,
        per_bin,
    };
    found.is_rare(slots).then_some(found)
}

fn sum_bytes(bins: &[BurstBin]) -> u64 {
    bins.iter().map(|b| b.bytes).sum()
}

/// One measure of a segment.
struct Stream<'a> {
    measure: Measure,
    values: &'a [(u64, f64)],
    law: &'a Law,
    background: Background,
    range: (u64, u64),
    dt_ns: i64,
}

impl Stream<'_> {
    /// Stretches whose running excess stays positive, up to its maximum, as the indices of the first and last value of each.
    fn excursions(&self) -> Vec<(usize, usize)> {
        let values = self.values;
        let cost = EXCESS * self.background.rate;
        let gap = (GAP_NS / self.dt_ns).max(1) as u64;
        let mut found = Vec::new();
        let mut start = 0;
        while start < values.len() {
            let mut sum = 0.0;
            let mut most = 0.0;
            let mut best = start;
            let mut at = values[start].0;
            for (i, (bin, x)) in values.iter().enumerate().skip(start) {
                sum += x - cost * (bin + 1 - at) as f64;
                if sum <= 0.0 || bin - values[best].0 > gap {
                    break;
                }
                at = bin + 1;
                if sum > most {
                    best = i;
                    most = sum;
                }
            }
            if most > 0.0 {
                found.push((start, best));
            }
            start = best + 1;
        }
        found
    }

    /// The excursion as a burst; `None` if the background explains it.
    fn judge(&self, first: usize, last: usize) -> Option<Excess> {
        let values = self.values;
        let law = self.law;
        let from = values[first].0;
        let to = values[last].0 + 1;
        let x: f64 = values[first..=last].iter().map(|v| v.1).sum();
        let least = if self.measure == Measure::Bytes {
            MIN_BYTES
        } else {
            MIN_IOS
        };
        if x * law.unit < least {
            return None;
        }
        let length = (to - from) as f64;
        let mu = self.background.upper_rate * length;
        let chances = CHOICES / length;
        let most = MAX_BY_CHANCE / (self.range.1 - self.range.0) as f64;
        // The test with a constant rate is quick, so it comes first.
        if law.tail(x, mu) * chances > most {
            return None;
        }
        let scale = (length.log2().round() as usize).min(self.background.variance.len() - 1);
        let per_bin = law.varying_tail(x, mu, self.background.variance[scale]) * chances;
        let baseline = self.background.rate * law.unit;
        (per_bin <= most).then_some(Excess {
            first: from,
            end: to,
            measure: self.measure,
            baseline,
            per_bin,
        })
    }
}

impl Stream<'_> {
    /// Whether the stream comes close to the rate of `e` so often that `e` is part of its normal pattern.
    fn is_texture(&self, e: &Excess) -> bool {
        let length = e.end - e.first;
        let rate = self.sum_within(e) / length as f64;
        let wide = ((ALIKE_WINDOW / rate).ceil() as u64).clamp(1, length);
        let least = (ALIKE * rate + (1.0 - ALIKE) * self.background.upper_rate) * wide as f64;
        let mut stretches = 0;
        let mut last_end = None;
        for window in self.values.chunk_by(|a, b| a.0 / wide == b.0 / wide) {
            let from = window[0].0 / wide * wide;
            if window.iter().map(|v| v.1).sum::<f64>() >= least {
                stretches += usize::from(last_end != Some(from));
                last_end = Some(from + wide);
            }
        }
        stretches > MAX_IN_SEGMENT
    }

    /// The amount of the stream in `e`, in units.
    fn sum_within(&self, e: &Excess) -> f64 {
        self.values
            .iter()
            .filter(|v| e.first <= v.0 && v.0 < e.end)
            .map(|v| v.1)
            .sum()
    }

    /// The excursions that the background does not explain: those of up to `longest` bins, and longer ones.
    fn judged(&self, longest: u64) -> (Vec<Excess>, Vec<Excess>) {
        let all = self
            .excursions()
            .into_iter()
            .filter_map(|(first, last)| self.judge(first, last));
        all.partition(|e| e.end - e.first <= longest)
    }
}

/// The bursts of one measure. A rate that the stream sustains for long becomes its background.
fn bursts_of(stream: &mut Stream) -> Vec<Excess> {
    let longest = (MAX_NS / stream.dt_ns).max(1) as u64;
    let (short, long) = stream.judged(longest);
    if 3 * total_bins(&long) < total_bins(&short).max(1) {
        return short;
    }
    // A rate that the stream sustains for long at other times makes no burst when it is short.
    let moved: f64 = long.iter().map(|e| stream.sum_within(e)).sum();
    let sustained = moved / total_bins(&long) as f64;
    stream.background.raise((sustained, sustained));
    stream.judged(longest).0
}

fn total_bins(of: &[Excess]) -> u64 {
    of.iter().map(|e| e.end - e.first).sum()
}

/// The bursts among the `bins` of a segment, by bytes and by I/Os. Of overlapping ones the least likely is kept.
pub(in crate::analysis) fn segment(
    bins: &[BurstBin],
    range: (u64, u64),
    dt_ns: i64,
    sizes: &Sizes,
) -> Vec<Excess> {
    let scales = (SCALE_NS / dt_ns).max(1).ilog2();
    let mut all: Vec<Excess> = Vec::new();
    let mut by_number: Option<Background> = None;
    for measure in [Measure::Ios, Measure::Bytes] {
        let Some(law) = sizes.law(measure) else {
            continue;
        };
        let values = in_units(bins, measure, law.unit);
        let mut background = Background::of(&values, range, scales);
        // I/O counts are large, so they give the best estimate of the arrival rate and of how much it varies.
        if let Some(known) = &by_number {
            background.raise_to(known, law.mean);
        }
        let mut stream = Stream {
            measure,
            values: &values,
            law: &law,
            background,
            range,
            dt_ns,
        };
        let mut found = bursts_of(&mut stream);
        // More than that are the normal pattern of the stream in any case; see below.
        if found.len() <= MAX_IN_SEGMENT {
            found.retain(|e| !stream.is_texture(e));
        }
        all.extend(found);
        by_number.get_or_insert(stream.background);
    }

    let mut kept = without_overlaps(all);
    // So many bursts are the normal pattern of the stream.
    if kept.len() > MAX_IN_SEGMENT {
        return Vec::new();
    }
    kept.sort_by_key(|e| e.first);
    kept
}

/// The amount of `measure` in each bin, in units; empty bins are left out.
fn in_units(bins: &[BurstBin], measure: Measure, unit: f64) -> Vec<(u64, f64)> {
    let mut values = Vec::new();
    for bin in bins {
        let amount = match measure {
            Measure::Bytes => bin.bytes,
            Measure::Ios => bin.ios,
        };
        let units = amount as f64 / unit;
        if units > 0.0 {
            values.push((bin.at, units));
        }
    }
    values
}

/// Keeps the least likely of overlapping stretches.
fn without_overlaps(mut all: Vec<Excess>) -> Vec<Excess> {
    all.sort_by(|a, b| a.per_bin.total_cmp(&b.per_bin));
    let mut kept: Vec<Excess> = Vec::new();
    for e in all {
        if kept.iter().all(|k| k.end <= e.first || e.end <= k.first) {
            kept.push(e);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(sizes: &[(u64, f64)], measure: Measure) -> Law {
        let mut all = Sizes::default();
        sizes.iter().for_each(|(bytes, n)| all.add_many(*bytes, *n));
        all.law(measure).expect("sizes")
    }

    #[test]
    fn tails_are_those_of_poisson_and_of_larger_steps() {
        // P(N >= 30) for a mean of 10 is 2.6e-7 (sum of the series), P(N >= 20) is 3.5e-3.
        let single = law(&[(4096, 1.0)], Measure::Ios);
        for (x, exact) in [(30.0, 2.6e-7), (20.0, 3.45e-3)] {
            let ratio = single.tail(x, 10.0) / exact;
            assert!((0.5..2.0).contains(&ratio), "{x}: {ratio}");
        }
        assert_eq!((single.tail(9.0, 10.0), single.tail(1.0, 0.0)), (1.0, 0.0));
        // The same bytes in fewer, larger requests say less; so does a rate that varies.
        let mixed = law(&[(4096, 1000.0), (1 << 20, 10.0)], Measure::Bytes);
        assert!(mixed.unit > 700_000.0);
        let alike = law(&[(4096, 1.0)], Measure::Bytes);
        let bytes = 20.0 * 1_048_576.0;
        assert!(
            mixed.tail(bytes / mixed.unit, bytes / 4.0 / mixed.unit)
                > 1e3 * alike.tail(bytes / 4096.0, bytes / 4.0 / 4096.0)
        );
        assert!(single.varying_tail(30.0, 10.0, 0.1) > 30.0 * single.tail(30.0, 10.0));
    }

    #[test]
    fn the_mean_behind_a_quantile() {
        // The 80th percentile of a Poisson stream of mean 100 is 108, of mean 40 is 45.
        assert!(
            (without_noise(108.0) - 100.0).abs() < 1.0 && (without_noise(45.0) - 40.0).abs() < 0.7
        );
    }

    #[test]
    fn quantiles_count_what_is_empty() {
        assert_eq!(quantile(&mut [5.0, 1.0, 3.0], 10, 0.8), 1.0);
        assert_eq!(quantile(&mut [5.0, 1.0, 3.0], 10, 0.7), 0.0);
        assert_eq!(
            (quantile(&mut [5.0, 1.0], 2, 0.5), quantile(&mut [], 4, 0.9)),
            (1.0, 0.0)
        );
    }
}
