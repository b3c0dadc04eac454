//! Finds the bursts of one stream while it is read, segment by segment (A13).

use crate::analysis::bursts::SampledView;
use crate::analysis::bursts::scan::{BurstBin, Excess, Sizes, segment};
use crate::analysis::stream::requests::grow_slowly;
use crate::analysis::stream::window::Window;

/// Submissions are counted in bins of 1 ms.
pub(in crate::analysis) const BIN_NS: i64 = 1_000_000;

/// In bins: a segment is judged once `AHEAD` bins after it are known. `BEHIND` bins before it are kept.
const SEGMENT: u64 = 60_000;
const AHEAD: u64 = 30_000;
const BEHIND: u64 = 2_000;

/// Peaks are those of slots of 10 bins.
const PEAK: u64 = 10;

/// A burst with the values that are computed while its bins are still in memory.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::analysis) struct Scanned {
    pub excess: Excess,
    pub from_ns: i64,
    pub to_ns: i64,
    pub bytes: u64,
    pub ios: u64,
    /// Total length and bytes of the 10 ms slots with at least half the bytes of the highest one.
    pub core_ns: i64,
    pub core_bytes: u64,
    pub peak_iops: f64,
    /// As seen by one-second samples, without the hidden factor.
    pub second: SampledView,
}

/// Finds bursts of one stream, whose submissions are pushed in order of time. Memory is that of a minute and a half of bins.
#[derive(Debug)]
pub(in crate::analysis) struct BurstScan {
    window: Window,
    bins: Vec<BurstBin>,
    sizes: Sizes,
    /// Bins before this one have been judged.
    judged: u64,
    found: Vec<Scanned>,
}

impl BurstScan {
    pub fn new(window: Window) -> BurstScan {
        BurstScan {
            window,
            bins: Vec::new(),
            sizes: Sizes::default(),
            judged: 0,
            found: Vec::new(),
        }
    }

    /// An I/O of `bytes` is submitted.
    pub fn push(&mut self, at_ns: i64, bytes: u64) {
        if !self.window.contains(at_ns) {
            return;
        }
        let at = ((at_ns - self.window.from_ns) / BIN_NS) as u64;
        while at >= self.judged + SEGMENT + AHEAD {
            self.judge(self.judged + SEGMENT, self.judged + SEGMENT + AHEAD);
            if self.bins.last().is_none_or(|b| b.at < self.judged) {
                self.judged = self.judged.max(at);
                self.bins.clear();
            }
        }
        self.sizes.add(bytes);
        match self.bins.last_mut() {
            Some(bin) if bin.at >= at => {
                bin.ios += 1;
                bin.bytes += bytes;
            }
            _ => {
                grow_slowly(&mut self.bins);
                self.bins.push(BurstBin { at, ios: 1, bytes });
            }
        }
    }

    /// Judges the bins before `to`, and accepts the bursts that begin before `accept`.
    fn judge(&mut self, accept: u64, to: u64) {
        let first = self.bins.partition_point(|b| b.at < self.judged);
        let found = segment(&self.bins[first..], (self.judged, to), BIN_NS, &self.sizes);
        self.judged = accept;
        for excess in found.into_iter().filter(|e| e.first < accept) {
            self.found
                .push(describe(&self.bins, excess, self.window.from_ns));
            self.judged = self.judged.max(excess.end);
        }
        let keep = self.judged.saturating_sub(BEHIND);
        self.bins
            .drain(..self.bins.partition_point(|b| b.at < keep));
    }

    /// The bursts of `window`, which is closed, in a report of `devices` devices.
    pub fn finish(mut self, window: Window, devices: u64) -> Vec<Scanned> {
        let end = bins_in(window.to_ns.saturating_sub(self.window.from_ns));
        if end > self.judged {
            self.judge(end, end);
        }
        // A burst that is rare in a minute may not be rare in a day, or over all members of an array.
        self.found
            .retain(|b| b.excess.is_rare(bins_in(window.len_ns()) * devices.max(1)));
        self.found
    }
}

/// Number of bins that cover `ns`, at least one.
fn bins_in(ns: i64) -> u64 {
    (ns.max(1) as u64).div_ceil(BIN_NS as u64)
}

/// The part of `bins` with numbers in `from..to`.
fn between(bins: &[BurstBin], from: u64, to: u64) -> &[BurstBin] {
    let first = bins.partition_point(|b| b.at < from);
    let end = bins.partition_point(|b| b.at < to);
    &bins[first..end]
}

fn describe(bins: &[BurstBin], excess: Excess, origin_ns: i64) -> Scanned {
    let own = between(bins, excess.first, excess.end);
    // (number, I/Os, bytes) of each 10 ms slot, counted from the start of the burst, to find its peak.
    let mut slots: Vec<(u64, u64, u64)> = Vec::new();
    for bin in own {
        let slot = (bin.at - excess.first) / PEAK;
        match slots.last_mut() {
            Some((at, ios, bytes)) if *at == slot => {
                *ios += bin.ios;
                *bytes += bin.bytes;
            }
            _ => slots.push((slot, bin.ios, bin.bytes)),
        }
    }
    let most = slots.iter().map(|s| s.2).max().unwrap_or(0);
    let core = slots.iter().filter(|s| 2 * s.2 >= most);
    Scanned {
        from_ns: origin_ns + excess.first as i64 * BIN_NS,
        to_ns: origin_ns + excess.end as i64 * BIN_NS,
        bytes: own.iter().map(|b| b.bytes).sum(),
        ios: own.iter().map(|b| b.ios).sum(),
        core_ns: core.clone().count() as i64 * (PEAK as i64 * BIN_NS),
        core_bytes: core.map(|s| s.2).sum(),
        peak_iops: slots.iter().map(|s| s.1).max().unwrap_or(0) as f64 * 1e9
            / (PEAK as i64 * BIN_NS) as f64,
        second: SampledView::of(
            (excess.first as i64, excess.end as i64),
            1_000_000_000,
            BIN_NS,
            |from, to| {
                between(bins, from.max(0) as u64, to.max(0) as u64)
                    .iter()
                    .map(|b| b.bytes)
                    .sum()
            },
        ),
        excess,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;

    /// Bursts of `n` writes of 128 KiB within 30 ms, at these seconds, over `background` reads of 16 KiB a second at random.
    fn found(seconds: i64, at_s: &[f64], n: i64, background: u64) -> Vec<Scanned> {
        found_among(1, seconds, at_s, n, background)
    }

    fn found_among(
        devices: u64,
        seconds: i64,
        at_s: &[f64],
        n: i64,
        background: u64,
    ) -> Vec<Scanned> {
        let mut random = Shuffler::new(7);
        let mut ios: Vec<(i64, u64)> = (0..background * seconds as u64)
            .map(|_| (random.below(seconds as u64 * 1_000_000_000) as i64, 16_384))
            .collect();
        for at in at_s {
            ios.extend((0..n).map(|i| ((at * 1e9) as i64 + i * 30_000_000 / n, 131_072)));
        }
        ios.sort_unstable();
        let window = Window::new(0, seconds * 1_000_000_000);
        let mut scan = BurstScan::new(window);
        ios.iter().for_each(|(at, bytes)| scan.push(*at, *bytes));
        scan.finish(window, devices)
    }

    #[test]
    fn what_is_rare_on_one_device_is_not_among_many() {
        let alone = found(60, &[30.0], 6, 600);
        let [burst] = &alone[..] else {
            panic!("{} bursts", alone.len())
        };
        let devices = (0.002 / burst.excess.by_chance(60_000)) as u64;
        let counts = [1, devices.saturating_sub(1), devices + 1]
            .map(|d| found_among(d, 60, &[30.0], 6, 600).len());
        assert!(devices > 1 && counts == [1, 1, 0], "{devices}: {counts:?}");
    }

    #[test]
    fn every_burst_counts_in_silence_and_at_the_edges_of_segments() {
        let ten: Vec<f64> = (0..10).map(|i| 3.0 + 5.3 * f64::from(i)).collect();
        let bursts = found(60, &ten, 512, 0);
        assert_eq!(bursts.len(), 10);
        assert!(bursts.iter().all(|b| (b.bytes, b.ios) == (512 << 17, 512)
            && (28..32).contains(&((b.to_ns - b.from_ns) / 1_000_000))));
        assert!(
            bursts
                .iter()
                .all(|b| b.second.max_bytes_per_s == f64::from(512 << 17)),
            "a second holds it all"
        );
        let edges = [0.0, 59.99, 60.0 + 30.0, 119.985, 599.97];
        assert_eq!(found(600, &edges, 256, 300).len(), edges.len());
    }

    #[test]
    fn memory_does_not_grow_with_time() {
        let window = Window::new(0, i64::MAX);
        let mut scan = BurstScan::new(window);
        // A day of an I/O a millisecond, with a pause of hours, would be 86 million bins.
        for i in 0..400_000i64 {
            scan.push(i * 2_000_000 + i / 200_000 * 10_000_000_000_000, 4096);
        }
        assert!(
            scan.bins.len() < 100_000 && scan.found.is_empty(),
            "{} bins",
            scan.bins.len()
        );
    }
}
