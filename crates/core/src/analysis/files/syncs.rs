//! What forcing data to the device cost, and what the devices did meanwhile.

use std::collections::HashMap;

use serde::Serialize;

use super::super::latencies::Latencies;
use crate::model::{Class, Io, Request};

/// Syncs of one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SyncSummary {
    /// How many.
    pub n: u64,
    /// Fewer than 30.
    pub low_n: bool,
    /// How many failed.
    pub failed: u64,
    /// Mean duration, in microseconds.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// Syncs of one process, or of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyncGroup {
    /// Its name. Untrusted: escape it where it is shown.
    pub key: String,
    /// Its syncs.
    #[serde(flatten)]
    pub sync: SyncSummary,
}

/// The `most` groups that waited longest in all.
pub fn worst(groups: HashMap<String, Syncs>, most: usize) -> Vec<SyncGroup> {
    let finish = |(key, mut s): (String, Syncs)| Some(SyncGroup { sync: s.finish()?, key });
    let mut out: Vec<SyncGroup> = groups.into_iter().filter_map(finish).collect();
    let waited = |g: &SyncGroup| g.sync.mean_us * g.sync.n as f64;
    out.sort_by(|a, b| waited(b).total_cmp(&waited(a)).then_with(|| a.key.cmp(&b.key)));
    out.truncate(most);
    out
}

/// Durations of syncs.
#[derive(Debug, Default)]
pub struct Syncs {
    latencies: Latencies,
    failed: u64,
}

impl Syncs {
    /// Adds a request of class sync.
    pub fn add(&mut self, r: &Request) {
        self.latencies.add(r.end_ns - r.start_ns);
        self.failed += u64::from(r.failed != 0);
    }

    /// The summary; `None` of none.
    pub fn finish(&mut self) -> Option<SyncSummary> {
        Some(SyncSummary {
            n: self.latencies.n(),
            low_n: self.latencies.low_n(),
            failed: self.failed,
            mean_us: self.latencies.mean_us()?,
            p50_us: self.latencies.quantile_us(0.5)?,
            p95_us: self.latencies.quantile_us(0.95)?,
            p99_us: self.latencies.quantile_us(0.99)?,
            max_us: self.latencies.max_us()?,
        })
    }
}

/// What the devices completed while at least one sync was waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Meanwhile {
    /// Seconds with a sync waiting.
    pub seconds: f64,
    /// Writes completed in that time.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: i64,
    /// Flushes completed.
    pub flushes: u64,
    /// Reads completed: what the syncs competed with.
    pub reads: u64,
}

/// Adds up `ios` (in order of completion) over the union of the intervals of `syncs`.
pub fn meanwhile(syncs: &[(i64, i64)], ios: &[(i64, Class, i64)]) -> Meanwhile {
    let mut spans = syncs.to_vec();
    spans.sort_unstable();
    let mut union: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match union.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => union.push((from, to)),
        }
    }
    let mut out = Meanwhile { seconds: union.iter().map(|(a, b)| (b - a) as f64 / 1e9).sum(), ..Meanwhile::default() };
    for (from, to) in union {
        let first = ios.partition_point(|io| io.0 < from);
        for (_, class, bytes) in ios[first..].iter().take_while(|io| io.0 <= to) {
            match class {
                Class::Write => {
                    out.writes += 1;
                    out.written_bytes += bytes;
                }
                Class::Flush => out.flushes += 1,
                Class::Read => out.reads += 1,
                Class::Discard => {}
            }
        }
    }
    out
}

/// What [`meanwhile`] needs of an I/O.
pub fn brief(io: &Io) -> (i64, Class, i64) {
    (io.done_ns, io.class(), io.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_syncs_count_their_time_and_ios_once() {
        let ios = [
            (5, Class::Write, 100),
            (15, Class::Write, 10),
            (18, Class::Flush, 0),
            (40, Class::Read, 7),
            (60, Class::Write, 1),
        ];
        let m = meanwhile(&[(10, 20), (15, 30), (38, 45)], &ios);
        assert_eq!((m.writes, m.written_bytes, m.flushes, m.reads), (1, 10, 1, 1));
        assert!((m.seconds - 27e-9).abs() < 1e-15);
    }

    #[test]
    fn no_sync_has_no_summary() {
        assert_eq!(Syncs::default().finish(), None);
        let mut s = Syncs::default();
        s.add(&Request { failed: 5, ..Request::new(1000, 4000) });
        let f = s.finish().expect("one");
        assert_eq!((f.n, f.failed, f.p50_us, f.low_n), (1, 1, 3.0, true));
    }
}
