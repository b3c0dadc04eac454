//! Finds the times of high demand of a stream, from its submissions.
//!
//! Submissions are divided into segments of constant rate: neighbouring cells are merged, most similar first, until
//! each remaining step exceeds what a Poisson stream shows by chance (likelihood ratio). A steady stream, however
//! busy, is a single segment without high demand.
//!
//! Completions would mislead: after a stall many requests complete at once, although no program submitted them at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::analysis::math::intervals::union;
use crate::analysis::stream::requests::Request;

/// Submissions closer together share a cell, so that batches of one system call are not bursts.
const CELL_NS: i64 = 1_000_000;

/// Maximum number of cells.
const MAX_CELLS: i64 = 1 << 16;

/// Minimum length and number of requests of an episode of high demand.
const MIN_HIGH_NS: i64 = 2_000_000;
const MIN_HIGH_REQUESTS: f64 = 4.0;

/// Intervals of high demand in `requests` inside `window`, by number or, if sizes differ, by bytes: sorted,
/// half-open, in nanoseconds. Demand is high from twice the rate of the calmest fifth of the time on, and from a
/// quarter of the highest rate that moves a noticeable share.
pub fn high_demand(requests: &[Request], window: (i64, i64)) -> Vec<(i64, i64)> {
    let mut arrivals: Vec<&Request> = requests
        .iter()
        .filter(|r| window.0 <= r.start_ns && r.start_ns < window.1)
        .collect();
    arrivals.sort_unstable_by_key(|r| r.start_ns);
    let largest = arrivals.iter().map(|r| mean_size(r)).fold(0.0, f64::max);
    let by_number = high_levels(&arrivals, window, |r| f64::from(r.ios));
    let alike = arrivals.iter().all(|r| mean_size(r) > 0.8 * largest);
    if alike || largest == 0.0 {
        return by_number;
    }
    // In units of the largest size no submission exceeds 1, so the Poisson bound holds for any mix of sizes.
    let by_bytes = high_levels(&arrivals, window, |r| f64::from(r.bytes) / largest);
    union(by_number.into_iter().chain(by_bytes))
}

/// Mean bytes per I/O of `r`.
fn mean_size(r: &Request) -> f64 {
    f64::from(r.bytes) / f64::from(r.ios.max(1))
}

/// An interval with the weight of its submissions, and their number.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from_ns: i64,
    to_ns: i64,
    weight: f64,
    requests: f64,
}

impl Segment {
    fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    fn rate(&self) -> f64 {
        self.weight / self.seconds()
    }

    fn and(&self, next: &Segment) -> Segment {
        Segment {
            to_ns: next.to_ns,
            weight: self.weight + next.weight,
            requests: self.requests + next.requests,
            ..*self
        }
    }

    /// Whether it is an episode of high demand; `least` is the lowest rate that counts as high.
    fn is_high(&self, least: f64) -> bool {
        self.rate() >= least
            && self.requests >= MIN_HIGH_REQUESTS
            && self.to_ns - self.from_ns >= MIN_HIGH_NS
    }

    /// Logarithm of its likelihood at its own rate, without the terms that it has in common with its parts.
    fn fit(&self) -> f64 {
        if self.weight > 0.0 {
            self.weight * self.rate().ln()
        } else {
            0.0
        }
    }
}

fn high_levels(
    arrivals: &[&Request],
    window: (i64, i64),
    weight: impl Fn(&Request) -> f64,
) -> Vec<(i64, i64)> {
    let cells = cells(arrivals, window, weight);
    let n = cells.len() as f64;
    // Bound of the largest step in a steady stream: calibrated on Poisson streams of 100 to 100000 submissions.
    let segments = merged(cells, STEP + 4.0 * n.max(1.0).ln());
    let calm_rate = quantile(&segments, 0.2, Segment::seconds);
    let top_rate = quantile(&segments, 0.95, |s| s.weight);
    let least = (2.0 * calm_rate).max(0.25 * top_rate);
    let high = segments.iter().filter(|s| s.is_high(least));
    union(high.map(|s| (s.from_ns, s.to_ns)))
}

/// Constant part of the bound; the other part grows with the number of cells.
const STEP: f64 = 8.0;

/// One cell for each submission and the silence after it, no shorter than [`CELL_NS`].
fn cells(
    arrivals: &[&Request],
    (from, to): (i64, i64),
    weight: impl Fn(&Request) -> f64,
) -> Vec<Segment> {
    let least_ns = CELL_NS.max((to - from) / MAX_CELLS);
    let mut cells: Vec<Segment> = vec![Segment {
        from_ns: from,
        to_ns: to,
        weight: 0.0,
        requests: 0.0,
    }];
    for request in arrivals {
        let at = request.start_ns;
        let Some(last) = cells.last_mut() else { break };
        if at - last.from_ns >= least_ns && at < to {
            last.to_ns = at;
            cells.push(Segment {
                from_ns: at,
                to_ns: to,
                weight: weight(request),
                requests: f64::from(request.ios),
            });
        } else {
            last.weight += weight(request);
            last.requests += f64::from(request.ios);
        }
    }
    // The silences before and after a burst are not part of it.
    let mut split = Vec::with_capacity(cells.len());
    for c in cells {
        let len = c.to_ns - c.from_ns;
        if c.requests > 1.5 && len > 2 * least_ns {
            split.push(Segment {
                to_ns: c.from_ns + least_ns,
                ..c
            });
            split.push(Segment {
                from_ns: c.from_ns + least_ns,
                weight: 0.0,
                requests: 0.0,
                ..c
            });
        } else {
            split.push(c);
        }
    }
    split
}

/// Merges neighbours, most similar first, until every step is at least `least`.
fn merged(mut cells: Vec<Segment>, least: f64) -> Vec<Segment> {
    let n = cells.len();
    let mut next: Vec<u32> = (1..=n as u32).collect();
    let mut previous: Vec<u32> = (0..n as u32).map(|i| i.wrapping_sub(1)).collect();
    let mut version = vec![0u32; n];
    // The fit of a segment is needed for every step to a neighbour.
    let mut fits: Vec<f64> = cells.iter().map(Segment::fit).collect();
    let first = (0..n.saturating_sub(1))
        .map(|i| Reverse((step_bits(&cells, &fits, i, i + 1), i as u32, 0)));
    // The entries are as small as possible: most of the time is spent moving them.
    let mut heap: BinaryHeap<Reverse<(u64, u32, u32)>> = first.collect::<Vec<_>>().into();
    while let Some(Reverse((bits, at, made))) = heap.pop() {
        let i = at as usize;
        let gone = next[i] as usize;
        // One of the two was merged after this step was measured; a newer entry has the current step.
        if made != version[i] || gone >= n {
            continue;
        }
        if f64::from_bits(bits) >= least {
            break;
        }
        // The left segment absorbs the right one, and takes over its right neighbour.
        cells[i] = cells[i].and(&cells[gone]);
        fits[i] = cells[i].fit();
        next[i] = next[gone];
        version[gone] = u32::MAX;
        if let Some(previous) = previous.get_mut(next[i] as usize) {
            *previous = at;
        }
        // Only the two steps at the ends of the merged segment changed.
        for left in [previous[i], at] {
            let Some(version) = version.get_mut(left as usize) else {
                continue;
            };
            *version += 1;
            let own = left as usize;
            let right = next[left as usize] as usize;
            if right < n {
                let bits = step_bits(&cells, &fits, own, right);
                heap.push(Reverse((bits, left, *version)));
            }
        }
    }
    cells
        .into_iter()
        .zip(version)
        .filter(|(_, v)| *v != u32::MAX)
        .map(|(c, _)| c)
        .collect()
}

/// Twice the log likelihood ratio of two rates against a single one for the segments `i` and `j`, as bits: those of
/// positive numbers have the order of the numbers.
fn step_bits(cells: &[Segment], fits: &[f64], i: usize, j: usize) -> u64 {
    (2.0 * (fits[i] + fits[j] - cells[i].and(&cells[j]).fit()))
        .max(0.0)
        .to_bits()
}

/// The rate that a share `q` of `by` (time or weight) does not exceed.
fn quantile(segments: &[Segment], q: f64, by: impl Fn(&Segment) -> f64) -> f64 {
    let mut sorted: Vec<&Segment> = segments.iter().collect();
    sorted.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let total: f64 = segments.iter().map(&by).sum();
    let mut seen = 0.0;
    let at = sorted.iter().find(|s| {
        seen += by(s);
        seen >= q * total
    });
    at.or(sorted.last()).map_or(0.0, |s| s.rate())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::math::stats::Shuffler;

    const S: i64 = 1_000_000_000;

    fn at(start_ns: i64, bytes: u32) -> Request {
        Request {
            start_ns,
            done_ns: start_ns + 1000,
            bytes,
            ios: 1,
        }
    }

    fn poisson(seed: u64, per_s: f64, seconds: f64, bytes: impl Fn(u64) -> u32) -> Vec<Request> {
        let mut random = Shuffler::new(seed);
        let mut uniform = move || ((random.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mut t = 0.0;
        let mut all = Vec::new();
        loop {
            t -= uniform().ln() / per_s;
            if t >= seconds {
                return all;
            }
            all.push(at((t * 1e9) as i64, bytes((uniform() * 1e6) as u64)));
        }
    }

    #[test]
    fn steady_streams_of_any_sizes_have_no_high_demand() {
        let mut high = 0;
        for seed in 0..150 {
            let rate = [5.0, 100.0, 1000.0][seed as usize % 3];
            let sizes = |x: u64| {
                if seed % 2 == 0 {
                    4096
                } else {
                    [4096, 65_536, 1 << 20][(x % 97 / 40) as usize]
                }
            };
            high += usize::from(
                !high_demand(&poisson(seed, rate, 60.0, sizes), (0, 60 * S)).is_empty(),
            );
        }
        assert!(high <= 1, "{high} of 150 steady streams");
    }

    #[test]
    fn phases_bursts_and_single_ones_are_found_with_their_edges() {
        // 20 bursts of 100 requests in 0.2 s; on for 1.4 s of every 2 s; one burst.
        let burst = |onset: i64, n: i64, gap: i64| (0..n).map(move |i| at(onset + i * gap, 4096));
        let cases = [
            (20, 3 * S, 100, 2_000_000),
            (30, 2 * S, 700, 2_000_000),
            (1, 3 * S, 100, 2_000_000),
        ];
        for (n, period, requests, gap) in cases {
            let all: Vec<Request> = (0..n)
                .flat_map(|k| burst(S / 2 + k * period, requests, gap))
                .collect();
            let found = high_demand(&all, (0, 60 * S));
            assert_eq!(found.len(), n as usize, "{found:?}");
            for (k, (a, b)) in found.iter().enumerate() {
                let onset = S / 2 + k as i64 * period;
                let end = S / 2 + k as i64 * period + requests * gap;
                assert!(
                    (a - onset).abs() <= 2_000_000 && (b - end).abs() <= 4_000_000,
                    "{a} {b} {onset} {end}"
                );
            }
        }
    }

    #[test]
    fn large_requests_among_many_small_ones_are_demand() {
        let mut all = poisson(7, 400.0, 60.0, |_| 4096);
        (0..10)
            .for_each(|k| all.extend((0..50).map(|i| at(S + k * 6 * S + i * 2_000_000, 1 << 20))));
        let found = high_demand(&all, (0, 60 * S));
        assert_eq!(found.len(), 10, "{found:?}");
    }
}
