//! A lower bound of throughput: the bytes of I/Os that were issued and completed inside a window, divided by the
//! window's length.
//!
//! A device works on an I/O at some time between issue and completion, and the trace does not show when. If each I/O is
//! spread evenly over that time, the I/Os queued inside the device add up to rates that it never reached: of 64 I/Os
//! issued at once and served one by one, each counts from the beginning. Bytes of an I/O that is completely inside a
//! window were transferred inside it, so this bound never exceeds the true peak.

/// Shorter windows count as this long, because a single I/O served from a cache is not a throughput.
const SHORTEST_NS: i64 = 10_000_000;

/// Issue times are grouped into granules of 1.05 ms (2^20 ns) on the finest level, and of four times the length on each
/// next level. The levels cover windows of up to 42 ms, 168 ms, 0.67 s, 2.7 s and 10.7 s.
const FINEST_SHIFT: u32 = 20;
const LEVELS: u32 = 5;
const MAX_GRANULES: i64 = 42;

/// The number of bits of a word; greater than [`MAX_GRANULES`].
const GRANULES: i64 = u64::BITS as i64;

/// Completed I/Os that were issued in one granule.
#[derive(Debug, Clone, Copy, Default)]
struct Granule {
    bytes: i64,
    /// Earliest issue in the granule.
    issue_ns: i64,
}

impl Granule {
    /// The granule's number on the finest level.
    fn number(&self) -> i64 {
        self.issue_ns >> FINEST_SHIFT
    }

    fn join(&mut self, other: Granule) {
        self.issue_ns = self.issue_ns.min(other.issue_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// One level: windows of one range of lengths, each ending with the last completion of a granule.
#[derive(Debug, Clone)]
struct GranuleLevel {
    shift: u32,
    /// Granules up to `last`, at their number modulo [`GRANULES`].
    granules: [Granule; GRANULES as usize],
    /// One bit per granule: whether it has bytes. Granules without the bit are stale.
    filled: u64,
    /// The granule of the last completion.
    last: i64,
}

impl GranuleLevel {
    fn new(shift: u32) -> GranuleLevel {
        GranuleLevel {
            shift,
            granules: [Granule::default(); GRANULES as usize],
            filled: 0,
            last: i64::MIN / 2,
        }
    }

    fn place(number: i64) -> usize {
        number.rem_euclid(GRANULES) as usize
    }

    /// Makes room for granule `number` and drops those that are too old for any window.
    fn advance(&mut self, number: i64) {
        let new = number - self.last;
        if new < GRANULES {
            let places = ((1u64 << new) - 1).rotate_left(GranuleLevel::place(self.last + 1) as u32);
            self.filled &= !places;
        } else {
            self.filled = 0;
        }
        self.last = number;
    }

    /// Adds I/Os that were issued in the same granule.
    fn add(&mut self, issued: Granule) {
        let number = issued.issue_ns >> self.shift;
        if number <= self.last - GRANULES {
            return;
        }
        let place = GranuleLevel::place(number);
        if self.filled >> place & 1 == 1 {
            self.granules[place].join(issued);
        } else if issued.bytes > 0 {
            self.granules[place] = issued;
            self.filled |= 1 << place;
        }
    }

    /// The highest rate of windows that end with `done_ns`, the last completion, in bytes per second.
    fn highest_rate(&self, done_ns: i64) -> f64 {
        let newest = GranuleLevel::place(self.last);
        // From the highest bit down: the newest granule first, then the one before it, and so on.
        let mut left = self.filled.rotate_right(newest as u32 + 1);
        left &= u64::MAX << (GRANULES - MAX_GRANULES);
        let mut bytes = 0i64;
        let mut best_bytes = 0.0;
        let mut best_ns = 1.0;
        while left > 0 {
            let age = left.leading_zeros();
            left &= !(1 << 63 >> age);
            let granule = self.granules[newest.wrapping_sub(age as usize) % GRANULES as usize];
            // The window begins with this granule's earliest issue. It contains all I/Os of this and of later granules.
            bytes = bytes.saturating_add(granule.bytes);
            let window_ns = (done_ns - granule.issue_ns).max(SHORTEST_NS) as f64;
            let window_bytes = bytes as f64;
            // Compares rates without a division.
            if window_bytes * best_ns > best_bytes * window_ns {
                best_bytes = window_bytes;
                best_ns = window_ns;
            }
        }
        1e9 * best_bytes / best_ns
    }
}

/// Tracks one stream of I/Os in the order of completion, in 5 kB of memory.
///
/// Reported rates never exceed that of the best window. Because windows begin and end at the edges of granules, they
/// are at least four fifths of it (for windows of 10 ms to 10 s).
#[derive(Debug)]
pub(in crate::analysis) struct LeastRate {
    levels: [GranuleLevel; LEVELS as usize],
    /// Consecutive I/Os issued in the same granule; they are added to the levels together.
    waiting: Granule,
    /// The last completion.
    done_ns: i64,
}

impl LeastRate {
    pub fn new() -> LeastRate {
        LeastRate {
            levels: std::array::from_fn(|level| GranuleLevel::new(FINEST_SHIFT + 2 * level as u32)),
            waiting: Granule::default(),
            done_ns: i64::MIN,
        }
    }

    /// Takes the next I/O to complete. If the completion before it was the last of a granule, returns its time and the
    /// highest rate of windows that end there, in bytes per second.
    pub fn push(&mut self, issue_ns: i64, done_ns: i64, bytes: u64) -> Option<(i64, f64)> {
        // A granule of a coarser level ends together with one of the finest.
        let reached = if done_ns >> FINEST_SHIFT > self.levels[0].last {
            self.end_granules(done_ns)
        } else {
            None
        };
        self.done_ns = self.done_ns.max(done_ns);
        let issued = Granule {
            bytes: bytes as i64,
            issue_ns: issue_ns.min(done_ns),
        };
        if self.waiting.bytes > 0 && self.waiting.number() == issued.number() {
            self.waiting.join(issued);
        } else {
            self.settle();
            self.waiting = issued;
        }
        reached
    }

    /// Adds the waiting I/Os to the levels.
    fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for level in &mut self.levels {
            level.add(waiting);
        }
    }

    /// Ends granules: all completions of a granule have been seen when one of a later granule arrives.
    fn end_granules(&mut self, done_ns: i64) -> Option<(i64, f64)> {
        self.settle();
        let mut highest = 0.0f64;
        for level in &mut self.levels {
            let number = done_ns >> level.shift;
            if number > level.last {
                highest = highest.max(level.highest_rate(self.done_ns));
                level.advance(number);
            }
        }
        (highest > 0.0).then_some((self.done_ns, highest))
    }

    /// The last completion, which [`LeastRate::push`] has not reported yet because its granule may continue.
    pub fn pending(&self) -> Option<(i64, f64)> {
        let mut highest = 0.0f64;
        for mut level in self.levels.clone() {
            level.add(self.waiting);
            highest = highest.max(level.highest_rate(self.done_ns));
        }
        (highest > 0.0).then_some((self.done_ns, highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All that is reported of (issue, done, bytes), which are brought into the order of completion.
    fn reached(ios: &[(i64, i64, u64)]) -> Vec<(i64, f64)> {
        let mut ios = ios.to_vec();
        ios.sort_by_key(|io| io.1);
        let mut least = LeastRate::new();
        let mut rates = Vec::new();
        for (issue_ns, done_ns, bytes) in ios {
            rates.extend(least.push(issue_ns, done_ns, bytes));
        }
        rates.extend(least.pending());
        rates
    }

    fn peak(ios: &[(i64, i64, u64)]) -> f64 {
        reached(ios).iter().map(|r| r.1).fold(0.0, f64::max)
    }

    /// Every window from an issue to a completion.
    fn brute_force(ios: &[(i64, i64, u64)]) -> f64 {
        let mut best = 0.0f64;
        for (from_ns, _, _) in ios {
            for (_, to_ns, _) in ios.iter().filter(|io| io.1 >= *from_ns) {
                let inside = ios.iter().filter(|io| io.0 >= *from_ns && io.1 <= *to_ns);
                let bytes: u64 = inside.map(|io| io.2).sum();
                let window_ns = (to_ns - from_ns).max(SHORTEST_NS);
                best = best.max(1e9 * bytes as f64 / window_ns as f64);
            }
        }
        best
    }

    proptest! {
        #[test]
        fn the_peak_is_that_of_brute_force_and_never_more(
            ios in prop::collection::vec((0i64..2_000_000_000, 0i64..400_000_000, 1u64..2_000_000), 1..60),
            squeeze in 1i64..50,
        ) {
            let ios: Vec<(i64, i64, u64)> = ios
                .into_iter()
                .map(|(from, len, bytes)| (from / squeeze, from / squeeze + len / squeeze, bytes))
                .collect();
            let best = brute_force(&ios);
            let got = peak(&ios);
            prop_assert!(got <= best * (1.0 + 1e-12), "{got} of {best}");
            prop_assert!(got >= 0.8 * best, "{got} of {best}");
        }

        #[test]
        fn a_device_that_serves_in_turn_never_exceeds_its_rate(
            batches in prop::collection::vec((0i64..300_000_000, 1usize..200), 1..12),
            kib in prop::sample::select(vec![4u64, 64, 512, 1024]),
        ) {
            const BYTES_PER_S: f64 = 150e6;
            let bytes = kib << 10;
            let service_ns = (bytes as f64 / BYTES_PER_S * 1e9).ceil() as i64;
            let mut at_ns = 0;
            let mut free_ns = 0;
            let mut ios = Vec::new();
            for (pause_ns, queued) in batches {
                at_ns += pause_ns;
                for _ in 0..queued {
                    free_ns = free_ns.max(at_ns) + service_ns;
                    ios.push((at_ns, free_ns, bytes));
                }
            }
            prop_assert!(peak(&ios) <= BYTES_PER_S);
        }
    }

    #[test]
    fn a_full_queue_in_the_device_is_seen_whole() {
        // 64 I/Os of 1 MiB issued at once, one by one at 150 MB/s: spread evenly they would begin at 700 MB/s.
        let service_ns = 6_990_507;
        let ios: Vec<(i64, i64, u64)> = (1..=64).map(|i| (0, i * service_ns, 1 << 20)).collect();
        let got = peak(&ios);
        assert!(got <= 150.0e6 && got > 149.9e6, "{got}");
    }

    #[test]
    fn completions_in_one_batch_are_a_rate_over_their_wait() {
        let ios = [(100_000_000, 148_000_000, 512 * (256 << 10))];
        assert!((peak(&ios) - 512.0 * 262_144.0 / 0.048).abs() < 1.0);
        // The rate is reported where the window ends.
        assert_eq!(reached(&ios)[0].0, 148_000_000);
    }
}
