//! Duration of single read, write and sync calls by file.
//!
//! Each sync has its own record. Of the reads and writes of an open file, the first few and the slowest have records,
//! and all of them are counted in latency histograms; percentiles come from the histograms where there are more calls
//! than records. Recordings of versions without histograms have mean and maximum only.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::analysis::stream::latencies::Latencies;
use crate::model::{CallHistogram, How, Request};

/// Calls of one kind on one file. Percentiles are `null` unless all calls are known one by one or by a histogram. For
/// a descriptor with both reads and writes, mean and maximum come from the histogram of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallSummary {
    /// Number of calls.
    pub n: u64,
    /// Number of calls recorded individually.
    pub timed: u64,
    /// Fewer than 30 calls.
    pub low_n: bool,
    /// Mean duration in microseconds; from the histogram for a descriptor with both reads and writes.
    pub mean_us: Option<f64>,
    /// Median (nearest rank); `None` unless all are known one by one or by a histogram.
    pub p50_us: Option<f64>,
    /// 99th percentile (nearest rank), under the same condition.
    pub p99_us: Option<f64>,
    /// Maximum; from the histogram for reads of a descriptor with slower writes, or the reverse.
    pub max_us: Option<f64>,
    /// Maximum error of the percentiles (and of other values from a histogram); 0 if they are exact. `null` without them.
    pub quantile_error_percent: Option<f64>,
}

/// The calls on one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileCalls {
    /// Its path. Untrusted: escape it where it is shown.
    pub name: String,
    /// Calls that read data.
    pub read: Option<CallSummary>,
    /// Calls that wrote data.
    pub write: Option<CallSummary>,
    /// `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
    pub sync: Option<CallSummary>,
}

/// Sums of one kind of call.
#[derive(Debug, Default)]
struct CallSums {
    n: u64,
    timed: u64,
    /// Durations of the calls of requests whose calls are all known one by one.
    known: Latencies,
    /// Durations of calls without a record of their own.
    counted: CallHistogram,
    uncounted: bool,
    /// Sum over all calls, unless `total_unknown`.
    total_ns: f64,
    total_unknown: bool,
    max_ns: i64,
    max_unknown: bool,
}

/// The calls of one kind in one request.
struct Added<'a> {
    n: u64,
    /// Nanoseconds of the calls that are known one by one.
    known: Vec<i64>,
    histogram: Option<&'a CallHistogram>,
    /// Nanoseconds of all these calls, if calls of the other kind are not included.
    total_ns: Option<i64>,
    /// The slowest of the request, if it is one of them; otherwise none of them is longer.
    slowest_ns: Option<i64>,
}

impl CallSums {
    fn add(&mut self, calls: Added<'_>) {
        let Added {
            n,
            known,
            histogram,
            total_ns,
            slowest_ns,
        } = calls;
        let complete = known.len() as u64 == n;
        let histogram = histogram.filter(|h| !complete && h.n() > 0);
        self.n += n;
        self.timed += known.len() as u64;
        let counted_max = histogram
            .filter(|_| slowest_ns.is_none())
            .and_then(|h| h.quantile(1.0));
        self.max_ns = known
            .iter()
            .copied()
            .chain(slowest_ns)
            .chain(counted_max)
            .fold(self.max_ns, i64::max);
        self.max_unknown |= !complete && slowest_ns.is_none() && histogram.is_none();
        let total = total_ns.map(|ns| ns as f64).filter(|_| !complete);
        let total = if complete {
            Some(known.iter().map(|ns| *ns as f64).sum())
        } else {
            total
        };
        match total.or_else(|| Some(histogram?.mean()? * n as f64)) {
            Some(ns) => self.total_ns += ns,
            None => self.total_unknown = true,
        }
        match histogram {
            Some(h) => self.counted.merge(h),
            None if complete => known.into_iter().for_each(|ns| self.known.add(ns)),
            None => self.uncounted = true,
        }
    }

    /// The quantile of rank `ceil(q n)` in microseconds, from single calls and histograms together.
    fn quantile_us(&mut self, q: f64) -> Option<f64> {
        match self.counted.n() {
            _ if self.uncounted => None,
            0 => self.known.quantile_us(q),
            _ => self
                .counted
                .quantile(q)
                .map(|ns| ns.min(self.max_ns) as f64 / 1e3),
        }
    }

    fn finish(mut self) -> Option<CallSummary> {
        let by_histogram = self.counted.n() > 0;
        if by_histogram {
            self.known
                .buckets()
                .for_each(|(ns, calls)| self.counted.add(ns, calls));
        }
        let p50_us = self.quantile_us(0.5);
        let p99_us = self.quantile_us(0.99);
        let error = if by_histogram {
            CallHistogram::ERROR_PERCENT
        } else {
            self.known.error_percent()
        };
        (self.n > 0).then(|| CallSummary {
            n: self.n,
            timed: self.timed,
            low_n: self.n < crate::analysis::LOW_N,
            mean_us: (!self.total_unknown).then(|| self.total_ns / self.n as f64 / 1e3),
            p50_us,
            p99_us,
            max_us: (!self.max_unknown).then(|| self.max_ns as f64 / 1e3),
            quantile_error_percent: p50_us.map(|_| error),
        })
    }
}

/// Accumulates the calls on one file.
#[derive(Debug, Default)]
pub struct Calls {
    read: CallSums,
    write: CallSums,
    sync: CallSums,
    ns: i128,
}

impl Calls {
    /// Adds a request.
    pub fn add(&mut self, r: &Request) {
        if r.sync.is_some() {
            let ns = r.end_ns - r.start_ns;
            self.ns += i128::from(ns);
            let total_ns = Some(ns);
            let slowest_ns = Some(ns);
            return self.sync.add(Added {
                n: 1,
                known: vec![ns],
                histogram: None,
                total_ns,
                slowest_ns,
            });
        }
        // Reads and writes of one descriptor are summed separately, although the request has some of their times only together.
        self.ns += i128::from(r.active_ns);
        let slowest = r.slowest.filter(|s| !r.first.contains(s));
        for (sums, n, others, writes) in [
            (&mut self.read, r.ios_in, r.ios_out, false),
            (&mut self.write, r.ios_out, r.ios_in, true),
        ] {
            let known = r
                .first
                .iter()
                .chain(&slowest)
                .filter(|io| io.how.has(How::WRITE) == writes)
                .map(|io| io.duration_ns);
            // Of a few calls, all are known, and the slowest among them once.
            let known: Vec<i64> = known.take(n.max(0) as usize).collect();
            let slowest = r
                .slowest
                .as_ref()
                .filter(|io| io.how.has(How::WRITE) == writes)
                .map(|io| io.duration_ns);
            // If the slowest call was not recorded by itself, it is one of the known ones, unless it can be of the other kind.
            let slowest_ns =
                slowest.or_else(|| known.iter().copied().max().filter(|_| others == 0));
            let histogram = if writes {
                r.write_histogram.as_ref()
            } else {
                r.read_histogram.as_ref()
            };
            let total_ns = (others == 0).then_some(r.active_ns);
            if n > 0 {
                sums.add(Added {
                    n: n as u64,
                    known,
                    histogram,
                    total_ns,
                    slowest_ns,
                });
            }
        }
    }
}

/// The `most` files with the largest total duration of calls.
pub fn most_time(files: HashMap<Arc<str>, Calls>, most: usize) -> Vec<FileCalls> {
    let mut files: Vec<(Arc<str>, Calls)> = files.into_iter().filter(|(_, c)| c.ns > 0).collect();
    files.sort_by(|(a, x), (b, y)| y.ns.cmp(&x.ns).then_with(|| a.cmp(b)));
    files.truncate(most);
    files
        .into_iter()
        .map(|(name, calls)| FileCalls {
            name: name.to_string(),
            read: calls.read.finish(),
            write: calls.write.finish(),
            sync: calls.sync.finish(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataIo, SyncKind};

    fn io(at: i64, us: i64, how: How) -> DataIo {
        DataIo {
            after_ns: at,
            duration_ns: us * 1000,
            bytes: 4096,
            how,
        }
    }

    fn of(requests: &[Request]) -> FileCalls {
        let mut calls = Calls::default();
        requests.iter().for_each(|r| calls.add(r));
        most_time(HashMap::from([(Arc::from("/db"), calls)]), 5).remove(0)
    }

    #[test]
    fn calls_that_are_all_known_have_percentiles() {
        let read = |us| Request {
            ios_in: 1,
            active_ns: us * 1000,
            first: vec![io(0, us, How::DEVICE)],
            slowest: Some(io(0, us, How::DEVICE)),
            ..Request::new(0, 1_000_000)
        };
        let sync = |us: i64| Request {
            sync: Some(SyncKind::Fdatasync),
            ..Request::new(0, us * 1000)
        };
        let requests: Vec<Request> = (1..=200).flat_map(|us| [read(us), sync(us * 10)]).collect();
        let calls = of(&requests);
        let reads = calls.read.expect("reads");
        assert_eq!((reads.n, reads.timed, reads.low_n), (200, 200, false));
        assert_eq!(
            (reads.p50_us, reads.p99_us, reads.max_us, reads.mean_us),
            (Some(100.0), Some(198.0), Some(200.0), Some(100.5))
        );
        assert_eq!(
            calls.sync.map(|s| (s.n, s.p99_us, s.max_us)),
            Some((200, Some(1980.0), Some(2000.0)))
        );
        assert_eq!(calls.write, None);
    }

    #[test]
    fn of_a_file_kept_open_mean_and_maximum_are_known() {
        let first: Vec<DataIo> = (0..4).map(|k| io(k, 10, How::WRITE)).collect();
        let long = Request {
            ios_out: 1000,
            active_ns: 20_000_000,
            first: first.clone(),
            slowest: Some(io(500, 900, How::WRITE)),
            ..Request::new(0, 1_000_000_000)
        };
        let w = of(std::slice::from_ref(&long)).write.expect("writes");
        assert_eq!(
            (w.n, w.timed, w.mean_us, w.p50_us, w.p99_us, w.max_us),
            (1000, 5, Some(20.0), None, None, Some(900.0))
        );
        assert_eq!(w.quantile_error_percent, None);
        let mixed = of(&[Request { ios_in: 7, ..long }]);
        assert_eq!(
            mixed.write.map(|w| (w.mean_us, w.max_us)),
            Some((None, Some(900.0)))
        );
        assert_eq!(
            mixed.read.map(|r| (r.n, r.timed, r.mean_us, r.max_us)),
            Some((7, 0, None, None))
        );
    }

    /// A descriptor that served these calls (microseconds), counted as the BPF programs do.
    fn kept_open(reads: &[i64], writes: &[i64]) -> Request {
        let count = |calls: &[i64]| {
            let mut h = CallHistogram::default();
            calls.iter().for_each(|us| h.add(us * 1000, 1));
            (!calls.is_empty()).then_some(h)
        };
        let of = |us: &i64, how| io(*us, *us, how);
        let all = reads
            .iter()
            .map(|us| of(us, How::default()))
            .chain(writes.iter().map(|us| of(us, How::WRITE)));
        Request {
            ios_in: reads.len() as i64,
            ios_out: writes.len() as i64,
            active_ns: reads.iter().chain(writes).sum::<i64>() * 1000,
            first: all.clone().take(4).collect(),
            slowest: all.max_by_key(|io| io.duration_ns),
            read_histogram: count(reads),
            write_histogram: count(writes),
            ..Request::new(0, 1_000_000_000)
        }
    }

    /// Whether `got_us` is what the histogram may say of `exact_us`.
    fn close(got_us: Option<f64>, exact_us: i64) -> bool {
        let bound = exact_us as f64 * CallHistogram::ERROR_PERCENT / 100.0;
        got_us.is_some_and(|us| (us - exact_us as f64).abs() <= bound)
    }

    #[test]
    fn percentiles_of_a_file_kept_open_are_those_of_its_histograms_merged() {
        // 1000 reads of 1 to 1000 us on two descriptors, beside slower writes, and 4 on one of which all are known.
        let (odd, even): (Vec<i64>, Vec<i64>) = (1..=1000).partition(|us| us % 2 == 1);
        let writes: Vec<i64> = (1..=200).map(|k| 2000 + k * 10).collect();
        let few = Request {
            read_histogram: None,
            ..kept_open(&[500, 501, 502, 503], &[])
        };
        let calls = of(&[kept_open(&odd, &writes), kept_open(&even, &[]), few.clone()]);
        let reads = calls.read.expect("reads");
        assert_eq!((reads.n, reads.quantile_error_percent), (1004, Some(3.2)));
        assert!(
            close(reads.p50_us, 500) && close(reads.p99_us, 990) && close(reads.max_us, 1000),
            "{reads:?}"
        );
        assert!(close(reads.mean_us, 500), "{reads:?}");
        let w = calls.write.expect("writes");
        assert!(close(w.p50_us, 3000) && close(w.p99_us, 3980), "{w:?}");
        assert_eq!((w.n, w.max_us), (200, Some(4000.0)));
        // One descriptor without counts: of some calls it is not known how long they took.
        let before = Request {
            read_histogram: None,
            ..kept_open(&odd, &[])
        };
        assert_eq!(
            of(&[kept_open(&even, &[]), before])
                .read
                .map(|r| (r.n, r.p50_us)),
            Some((1000, None))
        );
        assert_eq!(
            of(&[few])
                .read
                .map(|r| (r.p50_us, r.quantile_error_percent)),
            Some((Some(501.0), Some(0.0)))
        );
    }
}
