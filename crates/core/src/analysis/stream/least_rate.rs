//! The least throughput that a stream's I/Os allow: bytes of I/Os that were issued and completed inside a window, over the
//! window's length.
//!
//! A device works on an I/O somewhere between issue and completion, and nobody sees when. Spread evenly over that time, the
//! I/Os of a queue inside the device add up to rates that it never reached: of 64 I/Os issued at once and served one by one,
//! each is counted from the beginning. What is wholly inside a window was moved inside it, so no true peak is exceeded.

/// Shorter windows count as this long: a single I/O in a cache is no throughput.
const SHORTEST_NS: i64 = 10_000_000;

/// Issue times are kept in granules, of 1.05 ms (2^20 ns) on the finest level and four times as much on each next one. The
/// levels look at windows of up to 42 ms, 168 ms, 0.67 s, 2.7 s and 10.7 s.
const FINEST_SHIFT: u32 = 20;
const LEVELS: u32 = 5;
const MAX_GRANULES: i64 = 42;

/// A power of two above [`MAX_GRANULES`].
const GRANULES: i64 = 64;

/// What completed of the I/Os that were issued in one granule.
#[derive(Debug, Clone, Copy, Default)]
struct Granule {
    bytes: u64,
    /// Its earliest issue; meaningless without bytes.
    issue_ns: i64,
}

/// Windows of one range of lengths, which end with a granule's last completion.
#[derive(Debug)]
struct GranuleLevel {
    shift: u32,
    /// By number, modulo [`GRANULES`]: those up to `last`.
    granules: [Granule; GRANULES as usize],
    /// The granule of the last completion, and that completion.
    last: i64,
    done_ns: i64,
}

impl GranuleLevel {
    fn new(shift: u32) -> GranuleLevel {
        GranuleLevel {
            shift,
            granules: [Granule::default(); GRANULES as usize],
            last: i64::MIN / 2,
            done_ns: i64::MIN,
        }
    }

    fn place(number: i64) -> usize {
        number.rem_euclid(GRANULES) as usize
    }

    /// Makes room for granule `number`, and forgets those that are too long ago for any window.
    fn advance(&mut self, number: i64) {
        let oldest_new = (self.last + 1).max(number - GRANULES + 1);
        for new in oldest_new..=number {
            self.granules[GranuleLevel::place(new)] = Granule::default();
        }
        self.last = number;
    }

    fn add(&mut self, issue_ns: i64, done_ns: i64, bytes: u64) {
        self.done_ns = self.done_ns.max(done_ns);
        let number = issue_ns >> self.shift;
        if number <= self.last - GRANULES {
            return;
        }
        let granule = &mut self.granules[GranuleLevel::place(number)];
        granule.issue_ns = match granule.bytes {
            0 => issue_ns,
            _ => granule.issue_ns.min(issue_ns),
        };
        granule.bytes += bytes;
    }

    /// The highest rate of the windows that end with the last completion, in bytes per second.
    fn highest_rate(&self) -> f64 {
        let mut bytes = 0;
        let mut best_bytes = 0.0;
        let mut best_ns = 1.0;
        for number in (self.last - MAX_GRANULES + 1..=self.last).rev() {
            let granule = self.granules[GranuleLevel::place(number)];
            if granule.bytes == 0 {
                continue;
            }
            // The window begins with this granule's earliest issue: it holds all I/Os of this and of the later granules.
            bytes += granule.bytes;
            let window_ns = (self.done_ns - granule.issue_ns).max(SHORTEST_NS) as f64;
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

/// Follows one stream of I/Os in the order of completion; its memory is 5 kB.
///
/// Rates are never higher than that of the best window of all, and, as windows begin and end at the edges of granules, they
/// are at least four fifths of it (of windows of 10 ms to 10 s).
#[derive(Debug)]
pub(in crate::analysis) struct LeastRate {
    levels: [GranuleLevel; LEVELS as usize],
}

impl LeastRate {
    pub fn new() -> LeastRate {
        LeastRate {
            levels: std::array::from_fn(|level| GranuleLevel::new(FINEST_SHIFT + 2 * level as u32)),
        }
    }

    /// Takes the next I/O to complete. `reached` gets completions before it, with the highest rate of windows that end there.
    pub fn push(
        &mut self,
        issue_ns: i64,
        done_ns: i64,
        bytes: u64,
        mut reached: impl FnMut(i64, f64),
    ) {
        for level in &mut self.levels {
            let number = done_ns >> level.shift;
            if number > level.last {
                // All completions of a granule are known when one of a later granule comes.
                let rate = level.highest_rate();
                if rate > 0.0 {
                    reached(level.done_ns, rate);
                }
                level.advance(number);
            }
            level.add(issue_ns.min(done_ns), done_ns, bytes);
        }
    }

    /// The completions that [`LeastRate::push`] has not reported yet, because their granules may go on.
    pub fn pending(&self) -> impl Iterator<Item = (i64, f64)> {
        self.levels
            .iter()
            .map(|level| (level.done_ns, level.highest_rate()))
            .filter(|(_, rate)| *rate > 0.0)
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
            least.push(issue_ns, done_ns, bytes, |at_ns, rate| {
                rates.push((at_ns, rate));
            });
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
