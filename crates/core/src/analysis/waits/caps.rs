//! Whether a device is held at a rate: it completes the same number of I/Os, or bytes, in each quarter of a second in which it is
//! asked for more, and could do more by itself. Where a limiter lets I/Os through in slices of time, each half of a second holds the same.

use super::device::Wait;
use super::kept_sample::KeptSample;
use super::levels::{KINDS, SIZES};
use crate::analysis::math::stats::median;

const BIN_NS: i64 = 250_000_000;

/// Minimum number of I/Os in a bin.
const MIN_IOS: u32 = 10;

/// In a loaded bin at least this share of the I/Os takes more than twice the undisturbed latency.
const LOADED_SHARE: f64 = 0.9;

/// In a loaded bin the device is idle for at most this share of the time. A device that waits for a program is not
/// loaded, however steady the program's pace is.
const MAX_IDLE: f64 = 0.1;

/// Minimum number of loaded bins from which a rate is derived.
const MIN_BINS: u64 = 12;

/// A rate is flat if `FLAT_SHARE` of the bins differ from the median by at most this fraction.
const FLAT: f64 = 0.04;
const FLAT_SHARE: f64 = 0.8;

/// The device can do more if it would serve the I/Os one by one in at most this share of the time, or if it once served
/// at least this many times faster.
const MAX_WORK: f64 = 1.0 / 3.0;
const MIN_FASTER: f64 = 1.5;

/// A queue that never empties hides the undisturbed latency. I/Os that come after a rest of at least one interval of
/// the rate show it: a limit lets them pass at once, a device that needs this long for each I/O does not. Such I/Os may
/// be few, and a cache may have served them, so the gaps between completions must be even as well: in the median bin,
/// `EVEN_SHARE` of the gaps differ from the median gap by at most `EVEN`.
const EVEN_SHARE: f64 = 0.8;
const EVEN: f64 = 0.2;

/// Maximum number of gaps that are kept per bin.
const MAX_GAPS: usize = 1024;

/// Alternatively, the device completes I/Os of one class whose sizes differ by at least this many octaves at the same
/// even pace, in at least this many bins. If 4 KiB takes as long as 64 KiB, the transfer is not what takes the time.
const MIN_OCTAVES_APART: usize = 3;
const MIN_PACED_BINS: u64 = 4;

/// A limiter that lets I/Os through in slices of 100 ms, as Linux' `blk-throttle` does, completes two slices in one bin
/// and three in the next. Two bins together then have a constant sum, while a single bin differs from half of it by at
/// least this fraction (median). Bins that only scatter have no constant sum.
const MIN_UNEVEN: f64 = 0.1;

/// Maximum time from one slice to the next.
const MAX_SLICE_NS: i64 = BIN_NS / 2;

/// Cloud volumes count an I/O below this size, in bytes, as one I/O regardless of its size.
const LARGE_BYTES: f64 = 262_144.0;

/// A rate limit that a device was seen to be at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    /// Limit in I/Os per second, if I/Os are limited.
    pub ios_per_s: Option<f64>,
    /// Limit in bytes per second, if bytes are limited.
    pub bytes_per_s: Option<f64>,
    /// The highest rate in a quarter of a second outside the limited time, in the same unit.
    pub before_per_s: Option<f64>,
    /// Start of the first bin at the limit.
    pub from_ns: i64,
    /// End of the last bin at the limit.
    pub to_ns: i64,
    /// Number of I/Os that completed before the first bin at the limit.
    pub ios_before: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct CapBin {
    number: i64,
    ios: u32,
    bytes: i64,
    delayed_ios: u32,
    /// Sum of their latencies; `latency_ns` is that of all I/Os.
    delayed_ns: i64,
    latency_ns: i64,
    undisturbed_ns: i64,
    longest_gap_ns: i64,
    is_busy_at_start: bool,
    /// Time without an I/O in the device.
    idle_ns: i64,
    /// Share of the gaps between completions that are close to their median.
    even_share: f64,
}

impl CapBin {
    fn start_ns(&self) -> i64 {
        self.number * BIN_NS
    }

    fn end_ns(&self) -> i64 {
        self.start_ns() + BIN_NS
    }

    fn is_busy(&self) -> bool {
        self.is_busy_at_start && self.idle_ns as f64 <= MAX_IDLE * BIN_NS as f64
    }

    fn is_loaded(&self) -> bool {
        let delayed = f64::from(self.delayed_ios);
        self.is_busy() && self.ios >= MIN_IOS && delayed >= LOADED_SHARE * f64::from(self.ios)
    }

    /// Whether nearly all latency comes from I/Os that wait for the next slice, while I/Os inside a slice complete at
    /// once.
    fn is_sliced(&self) -> bool {
        let is_waiting = self.delayed_ns as f64 >= LOADED_SHARE * self.latency_ns as f64;
        self.is_busy() && self.ios >= MIN_IOS && is_waiting && self.longest_gap_ns <= MAX_SLICE_NS
    }
}

/// Bins in which the device was at its limit.
#[derive(Debug, Clone, Copy, Default)]
struct HeldBins {
    bins: u64,
    from_ns: i64,
    to_ns: i64,
    /// Number of I/Os that completed before the first bin.
    ios_before: u64,
}

impl HeldBins {
    /// Adds a bin; `ios_before` I/Os had completed before it.
    fn push(&mut self, from_ns: i64, to_ns: i64, ios_before: u64) {
        if self.bins == 0 {
            self.from_ns = from_ns;
            self.ios_before = ios_before;
        }
        self.to_ns = to_ns;
        self.bins += 1;
    }

    /// The limit with this rate, in I/Os or in bytes per second.
    fn cap(&self, is_ios: bool, per_s: f64, before_per_s: Option<f64>) -> Cap {
        Cap {
            ios_per_s: is_ios.then_some(per_s),
            bytes_per_s: (!is_ios).then_some(per_s),
            before_per_s,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            ios_before: self.ios_before,
        }
    }
}

/// The largest counts of any bin.
#[derive(Debug, Clone, Copy, Default)]
struct Most {
    ios: f64,
    bytes: f64,
}

/// Bins of nearly one kind of I/O whose completions came at even gaps from a device that was never idle.
#[derive(Debug, Clone, Copy, Default)]
struct Paced {
    bins: u64,
    ios: u64,
}

/// An I/O that was issued to an idle device.
#[derive(Debug, Clone, Copy)]
struct Rested {
    kind: u16,
    /// Idle time before it, since the last completion.
    rest_ns: i64,
    latency_ns: i64,
}

/// Accumulates the bins of one device and looks for a rate limit.
#[derive(Debug)]
pub(super) struct CapWatch {
    now: CapBin,
    /// The current bin: gaps between completions, and I/Os by kind.
    gaps_ns: Vec<f64>,
    kinds: Vec<u32>,
    /// I/Os of all loaded bins by kind.
    loaded_kinds: Vec<u64>,
    last_done_ns: Option<i64>,
    rested: KeptSample<Rested>,
    loaded: KeptSample<CapBin>,
    held: HeldBins,
    /// The largest counts of a bin that was not loaded, by the most frequent kind of the bin.
    most: Vec<Most>,
    /// By kind.
    paced: Vec<Paced>,
    sliced: SlicedPairs,
    ios: u64,
}

/// Pairs of consecutive bins of a device that seems to let I/Os through in slices of time.
#[derive(Debug)]
struct SlicedPairs {
    before: Option<CapBin>,
    kept: KeptSample<[CapBin; 2]>,
    held: HeldBins,
}

impl SlicedPairs {
    fn new() -> SlicedPairs {
        SlicedPairs {
            before: None,
            kept: KeptSample::new(),
            held: HeldBins::default(),
        }
    }

    /// Takes the next bin; `ios` is the total number of I/Os completed by its end.
    fn push(&mut self, bin: &CapBin, ios: u64) {
        if !bin.is_sliced() {
            self.before = None;
            return;
        }
        let before = self.before.replace(*bin);
        let Some(before) = before.filter(|b| b.number + 1 == bin.number) else {
            return;
        };
        let ios_before = ios - u64::from(before.ios) - u64::from(bin.ios);
        self.held.push(before.start_ns(), bin.end_ns(), ios_before);
        self.kept.push([before, *bin]);
    }

    /// The limit, if the sums of pairs are flat, single bins are not, and the device could do more.
    fn cap(&self) -> Option<Cap> {
        if self.held.bins < MIN_BINS {
            return None;
        }
        let mut work: Vec<f64> = Vec::new();
        for [first, second] in self.kept.values() {
            let undisturbed_ns = first.undisturbed_ns + second.undisturbed_ns;
            work.push(undisturbed_ns as f64 / (2 * BIN_NS) as f64);
        }
        if median(&mut work)? > MAX_WORK {
            return None;
        }
        let ios = self.level(|bin| f64::from(bin.ios), 1.0);
        let bytes = self.level(|bin| bin.bytes as f64, 0.0);
        let is_ios = is_number_held(ios, bytes);
        let level = if is_ios { ios } else { bytes };
        let per_s = level? * 1e9 / (2 * BIN_NS) as f64;
        Some(self.held.cap(is_ios, per_s, None))
    }

    /// The sum of two bins, if it is constant while single bins differ from half of it.
    fn level(&self, of_bin: impl Fn(&CapBin) -> f64, slack: f64) -> Option<f64> {
        let mut sums: Vec<f64> = Vec::new();
        for [first, second] in self.kept.values() {
            sums.push(of_bin(first) + of_bin(second));
        }
        let level = flat(&sums, slack)?;
        let mut uneven: Vec<f64> = Vec::new();
        for [first, _] in self.kept.values() {
            uneven.push((of_bin(first) / (level / 2.0) - 1.0).abs());
        }
        (median(&mut uneven)? >= MIN_UNEVEN).then_some(level)
    }
}

impl Default for CapWatch {
    fn default() -> CapWatch {
        CapWatch {
            now: CapBin::default(),
            gaps_ns: Vec::new(),
            kinds: vec![0; KINDS],
            loaded_kinds: vec![0; KINDS],
            last_done_ns: None,
            rested: KeptSample::new(),
            loaded: KeptSample::new(),
            held: HeldBins::default(),
            most: vec![Most::default(); KINDS],
            paced: vec![Paced::default(); KINDS],
            sliced: SlicedPairs::new(),
            ios: 0,
        }
    }
}

impl CapWatch {
    pub fn push(&mut self, wait: &Wait) {
        let io = wait.io;
        let number = io.done_ns.div_euclid(BIN_NS);
        if number != self.now.number {
            self.close();
            self.now = CapBin {
                number,
                ..CapBin::default()
            };
        }
        let rest_ns = match self.last_done_ns {
            Some(last_ns) => io.start_ns - last_ns,
            None => i64::MAX,
        };
        if io.found == 0 && rest_ns > 0 {
            let in_bin_ns = io.start_ns - number * BIN_NS;
            self.now.idle_ns += rest_ns.min(in_bin_ns).max(0);
            self.rested.push(Rested {
                kind: io.kind,
                rest_ns,
                latency_ns: io.latency_ns(),
            });
        }
        if let Some(last_ns) = self.last_done_ns {
            let gap_ns = io.done_ns - last_ns;
            self.now.longest_gap_ns = self.now.longest_gap_ns.max(gap_ns);
            if self.gaps_ns.len() < MAX_GAPS {
                self.gaps_ns.push(gap_ns as f64);
            }
        }
        self.last_done_ns = Some(io.done_ns);
        self.kinds[usize::from(io.kind)] += 1;
        self.ios += 1;
        self.now.ios += 1;
        self.now.bytes += io.bytes.max(0);
        self.now.latency_ns += io.latency_ns();
        if wait.is_delayed() {
            self.now.delayed_ios += 1;
            self.now.delayed_ns += io.latency_ns();
        }
        self.now.undisturbed_ns += wait.time.undisturbed_ns;
        self.now.is_busy_at_start |= io.start_ns <= number * BIN_NS;
    }

    fn close(&mut self) {
        let mut bin = self.now;
        bin.even_share = even_share(&mut self.gaps_ns);
        self.gaps_ns.clear();
        if bin.is_loaded() {
            for (sum, n) in self.loaded_kinds.iter_mut().zip(&self.kinds) {
                *sum += u64::from(*n);
            }
        } else if let Some(main) = main_kind(&self.kinds) {
            let most = &mut self.most[main];
            most.ios = most.ios.max(f64::from(bin.ios));
            most.bytes = most.bytes.max(bin.bytes as f64);
        }
        self.pace(&bin);
        self.sliced.push(&bin, self.ios);
        self.kinds.fill(0);
        if !bin.is_loaded() {
            return;
        }
        let ios_before = self.ios - u64::from(bin.ios);
        self.held.push(bin.start_ns(), bin.end_ns(), ios_before);
        self.loaded.push(bin);
    }

    /// Counts a bin whose I/Os are nearly all of one kind and complete at even gaps.
    fn pace(&mut self, bin: &CapBin) {
        let is_even = bin.is_busy() && bin.ios >= MIN_IOS && bin.even_share >= EVEN_SHARE;
        let Some(main) = main_kind(&self.kinds).filter(|_| is_even) else {
            return;
        };
        if f64::from(self.kinds[main]) >= LOADED_SHARE * f64::from(bin.ios) {
            self.paced[main].bins += 1;
            self.paced[main].ios += u64::from(bin.ios);
        }
    }

    /// Whether I/Os of the same class as `main` but of a very different size complete at the same rate.
    fn holds_other_sizes(&self, main: usize, ios_per_bin: f64) -> bool {
        let class = main - main % SIZES;
        for (kind, paced) in self.paced.iter().enumerate().skip(class).take(SIZES) {
            if paced.bins < MIN_PACED_BINS || kind.abs_diff(main) < MIN_OCTAVES_APART {
                continue;
            }
            let rate = paced.ios as f64 / paced.bins as f64;
            if (rate - ios_per_bin).abs() <= FLAT * ios_per_bin {
                return true;
            }
        }
        false
    }

    pub fn finish(mut self) -> Option<Cap> {
        self.close();
        self.of_loaded_bins().or_else(|| self.sliced.cap())
    }

    fn of_loaded_bins(&self) -> Option<Cap> {
        if self.held.bins < MIN_BINS {
            return None;
        }
        let loaded = self.loaded.values();
        let of_ios: Vec<f64> = loaded.iter().map(|b| f64::from(b.ios)).collect();
        let of_bytes: Vec<f64> = loaded.iter().map(|b| b.bytes as f64).collect();
        let ios = flat(&of_ios, 1.0);
        let bytes = flat(&of_bytes, 0.0);
        let is_ios = is_number_held(ios, bytes);
        let level = if is_ios { ios? } else { bytes? };
        // That the device once did more I/O of another kind does not prove that it can do more of this kind.
        let main = main_kind(&self.loaded_kinds)?;
        let most = self.most[main];
        let most = if is_ios { most.ios } else { most.bytes };
        let mut work: Vec<f64> = Vec::new();
        for bin in loaded {
            work.push(bin.undisturbed_ns as f64 / BIN_NS as f64);
        }
        let is_work_little = median(&mut work)? <= MAX_WORK;
        let is_pace_held = match ios {
            Some(per_bin) => {
                self.passes_at_once(main, per_bin) || self.holds_other_sizes(main, per_bin)
            }
            None => false,
        };
        let could_do_more = is_work_little || is_pace_held;
        let was_faster = most >= MIN_FASTER * level;
        if !could_do_more && !was_faster {
            return None;
        }
        let per_s = 1e9 / BIN_NS as f64;
        let before_per_s = was_faster.then_some(most * per_s);
        Some(self.held.cap(is_ios, level * per_s, before_per_s))
    }

    /// Whether I/Os of kind `main` (the most frequent one) take far less than one interval of the rate after the device
    /// has rested that long, while the loaded device completes them at even gaps.
    fn passes_at_once(&self, main: usize, ios_per_bin: f64) -> bool {
        let interval_ns = BIN_NS as f64 / ios_per_bin;
        let mut latencies: Vec<f64> = Vec::new();
        for rested in self.rested.values() {
            if usize::from(rested.kind) == main && rested.rest_ns as f64 >= interval_ns {
                latencies.push(rested.latency_ns as f64);
            }
        }
        let is_quick = median(&mut latencies).is_some_and(|ns| ns <= MAX_WORK * interval_ns);
        let mut even: Vec<f64> = self
            .loaded
            .values()
            .iter()
            .map(|bin| bin.even_share)
            .collect();
        is_quick && median(&mut even).is_some_and(|share| share >= EVEN_SHARE)
    }
}

/// Whether the number of I/Os is limited, not the bytes; `None` is a level that is not flat. With a single I/O size
/// both are flat; then small I/Os are limited by number and large ones by bytes.
fn is_number_held(ios: Option<f64>, bytes: Option<f64>) -> bool {
    match (ios, bytes) {
        (Some(ios), Some(bytes)) => bytes / ios < LARGE_BYTES,
        (ios, _) => ios.is_some(),
    }
}

/// The most frequent kind.
fn main_kind<N: Ord + Copy>(counts: &[N]) -> Option<usize> {
    let (kind, _) = counts.iter().enumerate().max_by_key(|(_, n)| **n)?;
    Some(kind)
}

/// Share of `gaps` that are close to the median gap.
fn even_share(gaps: &mut [f64]) -> f64 {
    let Some(usual) = median(gaps) else {
        return 0.0;
    };
    let close = gaps
        .iter()
        .filter(|gap| (**gap - usual).abs() <= EVEN * usual);
    close.count() as f64 / gaps.len() as f64
}

/// The median of `values`, if they stay within [`FLAT`] and `slack` of it.
fn flat(values: &[f64], slack: f64) -> Option<f64> {
    let level = median(&mut values.to_vec())?;
    let close = values
        .iter()
        .filter(|v| (**v - level).abs() <= FLAT * level + slack);
    (close.count() as f64 >= FLAT_SHARE * values.len() as f64).then_some(level)
}
