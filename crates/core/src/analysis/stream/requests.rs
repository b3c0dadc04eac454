//! A bounded random sample of single requests.

use crate::analysis::math::stats::Shuffler;
use crate::model::Io;

/// Start and end of one request, or of those of a short time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Start; of several requests, that of the first.
    pub start_ns: i64,
    /// Completion; of several requests, that of the last.
    pub done_ns: i64,
    /// Bytes moved; of several requests, their sum.
    pub bytes: u32,
    /// Number of requests.
    pub ios: u32,
}

impl Request {
    /// Represents the I/Os of a counter difference or table row by at most eight submissions, spread over its interval.
    pub fn spread(
        from_ns: i64,
        span_ns: i64,
        ios: u64,
        bytes: u64,
    ) -> impl Iterator<Item = Request> {
        let n = ios.clamp(1, 8) as i64;
        let bytes = u32::try_from(bytes / n as u64).unwrap_or(u32::MAX);
        (0..n)
            .map(move |k| from_ns + k * span_ns / n)
            .map(move |at| Request {
                start_ns: at,
                done_ns: at,
                bytes,
                ios: 1,
            })
    }

    /// Latency (start to done) in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.done_ns - self.start_ns
    }

    /// Merges another entry into this one.
    pub fn join(&mut self, other: &Request) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.done_ns = self.done_ns.max(other.done_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ios = self.ios.saturating_add(other.ios);
    }
}

impl From<&Io> for Request {
    fn from(io: &Io) -> Request {
        Request {
            start_ns: io.start_ns(),
            done_ns: io.done_ns,
            bytes: u32::try_from(io.bytes).unwrap_or(0),
            ios: 1,
        }
    }
}

/// A sample of the requests of one stream: all of them while there are few, then every second one at random, every
/// fourth, and so on. The sample is large enough for quantiles and ratios; sums must be scaled by [`Requests::one_in`].
#[derive(Debug)]
pub struct Requests<T = Request> {
    kept: Vec<T>,
    most: usize,
    one_in: u64,
    random: Shuffler,
}

/// Grows the capacity by an eighth. With hundreds of devices, doubling would leave a third of the memory unused.
pub(in crate::analysis) fn grow_slowly<T>(kept: &mut Vec<T>) {
    if kept.len() == kept.capacity() {
        kept.reserve_exact((kept.len() / 8).max(16));
    }
}

impl<T> Requests<T> {
    /// Keeps at most `most` requests.
    pub fn new(most: usize) -> Requests<T> {
        Requests {
            kept: Vec::new(),
            most: most.max(2),
            one_in: 1,
            random: Shuffler::new(0x0010_1e25),
        }
    }

    /// Adds the next request, in the caller's order.
    pub fn push(&mut self, request: T) {
        if self.takes_next() {
            self.keep(request);
        }
    }

    /// Whether the next request in the caller's order belongs to the sample. Call it once per request, followed by
    /// [`Requests::keep`] if true. For callers to whom creating a request is more expensive than this check.
    #[inline]
    pub(in crate::analysis) fn takes_next(&mut self) -> bool {
        self.one_in == 1 || self.random.below(self.one_in) == 0
    }

    /// Adds a request for which [`Requests::takes_next`] returned true.
    pub(in crate::analysis) fn keep(&mut self, request: T) {
        if self.kept.len() == self.most {
            self.halve();
        }
        grow_slowly(&mut self.kept);
        self.kept.push(request);
    }

    /// Halves the sampling rate, for the requests kept so far and for later ones.
    pub fn halve(&mut self) {
        self.one_in *= 2;
        let random = &mut self.random;
        self.kept.retain(|_| random.below(2) == 0);
        self.kept.shrink_to_fit();
    }

    /// The sample, in the order in which requests were added.
    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// The sampling interval `n`: one of `n` requests is kept.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }
}

impl Requests {
    /// Estimated number of requests completed in `[from_ns, to_ns]`, scaled from the sample. Requests must have been
    /// added in the order of completion.
    pub fn completed_in(&self, from_ns: i64, to_ns: i64) -> u64 {
        let first = self.kept.partition_point(|r| r.done_ns < from_ns);
        let end = self.kept.partition_point(|r| r.done_ns <= to_ns);
        (end - first) as u64 * self.one_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stays_small_ordered_and_fair() {
        let mut requests: Requests = Requests::new(1000);
        for i in 0..100_000 {
            requests.push(Request {
                start_ns: i,
                done_ns: i + 1,
                bytes: 512,
                ios: 1,
            });
        }
        let kept = requests.kept();
        assert!(kept.len() <= 1000 && kept.len() >= 400);
        assert!(kept.windows(2).all(|w| w[0].done_ns < w[1].done_ns));
        assert!((64..=256).contains(&requests.one_in()));
        // A sample of one in n of 50,000 has a standard deviation of sqrt(50,000 n): three of them.
        let most_off = 3.0 * (50_000.0 * requests.one_in() as f64).sqrt();
        assert!((requests.completed_in(1, 50_000) as f64 - 50_000.0).abs() < most_off);
        let early = kept.iter().filter(|r| r.start_ns < 50_000).count() as f64 / kept.len() as f64;
        assert!((early - 0.5).abs() < 0.07, "{early}");
    }

    #[test]
    fn completions_are_counted_with_both_ends() {
        let mut requests: Requests = Requests::new(1000);
        for done_ns in [10, 20, 20, 30, i64::MAX] {
            requests.push(Request {
                start_ns: 0,
                done_ns,
                bytes: 512,
                ios: 1,
            });
        }
        let counted = |from_ns, to_ns| requests.completed_in(from_ns, to_ns);
        assert_eq!(
            [
                counted(10, 20),
                counted(20, 29),
                counted(21, 29),
                counted(0, 30)
            ],
            [3, 2, 0, 4]
        );
    }
}
