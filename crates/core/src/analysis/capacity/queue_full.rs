//! Finds times in which requests waited in the kernel because the device or its driver accepted no more.
//!
//! A *full stretch* is a run of reads and writes that all waited for their issue. At least every fourth of them filled the
//! queue: as many were then in flight on the device as ever in the recording. A request that is issued without waiting ends the
//! stretch. A program with a fixed number in flight reaches the same level each time, but none of its requests waits, so its
//! queue is not full. Nor is a queue full if a slot is free for more than half of the time while requests wait.

use serde::Serialize;

use crate::analysis::findings::evidence::{Evidence, QueueFullEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId};

/// Minimum wait; less is the way through the scheduler.
const MIN_WAIT_US: u32 = 50;
/// Minimum length of a stretch, 100 ms; shorter ones are bursts.
const MIN_NS: i64 = 100_000_000;
/// Minimum length of all stretches together and of the longest one, and their minimum share of the recording.
const MIN_TOTAL_NS: i64 = 1_000_000_000;
const MIN_LONGEST_NS: i64 = 500_000_000;
const MIN_SHARE: f64 = 0.05;
/// Minimum number of requests in one stretch: at 80 % load a device that serves one at a time is hardly ever busy for
/// so many in a row.
const MIN_IOS: u64 = 700;
/// At least one in this many requests must fill the queue.
const INTO_LAST: u64 = 4;
/// Maximum share of a stretch with a free slot: waiting requests are issued only after others have completed.
const MAX_FREE: f64 = 0.5;
/// Share of the recording from which on it is a warning, if requests also wait for longer than the device takes.
const WARNING: f64 = 0.2;
/// Maximum number of stretches kept; the longest are kept.
const MAX_STRETCHES: usize = 4096;

/// A run of issued requests.
#[derive(Debug, Clone, Copy)]
struct FullStretch {
    from_ns: i64,
    to_ns: i64,
    ios: u64,
    /// Requests that filled the queue.
    last_places: u64,
    waited_us: u64,
    device_ns: i64,
    longest_wait_us: u32,
    /// Time with a free slot.
    free_ns: i64,
}

impl FullStretch {
    fn len_ns(&self) -> i64 {
        self.to_ns - self.from_ns
    }

    /// Whether it is long, fills the queue often enough and does not leave a slot free for too long.
    fn is_full(&self) -> bool {
        self.len_ns() >= MIN_NS
            && self.last_places * INTO_LAST >= self.ios
            && self.free_ns as f64 <= MAX_FREE * self.len_ns() as f64
    }
}

/// A queue that was full.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueFull {
    /// Queue depth: the most reads and writes ever in flight on the device.
    pub level: i64,
    /// Start of the first stretch, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End of the last stretch.
    pub to_ns: i64,
    /// Number of stretches of at least 100 ms.
    pub stretches: usize,
    /// Their total length.
    pub full_ns: i64,
    /// Length of the longest one.
    pub longest_ns: i64,
    /// Share of the recording, 0 to 1.
    pub share: f64,
    /// Requests issued in them.
    pub ios: u64,
    /// Mean time that these requests waited, in microseconds.
    pub wait_us: f64,
    /// Longest wait, in microseconds.
    pub longest_wait_us: u32,
    /// Mean device time of these requests, in microseconds.
    pub device_us: f64,
}

/// Accumulates full stretches of one device; swept in the order of issue.
#[derive(Debug)]
pub(in crate::analysis) struct FullSweep {
    window: Window,
    level: i64,
    most: i64,
    /// Time since which a slot is free.
    free_since_ns: Option<i64>,
    open: Option<FullStretch>,
    found: Vec<FullStretch>,
}

impl FullSweep {
    /// For requests issued inside `window`.
    pub fn new(window: Window) -> FullSweep {
        FullSweep {
            window,
            level: 0,
            most: 0,
            free_since_ns: None,
            open: None,
            found: Vec::new(),
        }
    }

    fn close(&mut self) {
        self.found
            .extend(self.open.take().filter(FullStretch::is_full));
        if self.found.len() >= 2 * MAX_STRETCHES {
            self.found.sort_by_key(|s| std::cmp::Reverse(s.len_ns()));
            self.found.truncate(MAX_STRETCHES);
        }
    }

    /// The result; `None` if the queue was not full for long enough. Stretches with lost I/Os do not count.
    pub fn finish(mut self, dev: DevId, window: Window, losses: &Losses) -> Option<QueueFull> {
        self.close();
        let mut found = self.found;
        found.retain(|s| !losses.overlap(dev, s.from_ns, s.to_ns));
        let full_ns = found.iter().map(FullStretch::len_ns).sum::<i64>();
        let longest_ns = found.iter().map(FullStretch::len_ns).max()?;
        let share = full_ns as f64 / window.len_ns().max(1) as f64;
        let is_long = found
            .iter()
            .any(|s| s.len_ns() >= MIN_LONGEST_NS && s.ios >= MIN_IOS);
        if full_ns < MIN_TOTAL_NS || !is_long || share < MIN_SHARE {
            return None;
        }
        let ios: u64 = found.iter().map(|s| s.ios).sum();
        let waited_us: f64 = found.iter().map(|s| s.waited_us as f64).sum();
        let device_us: f64 = found.iter().map(|s| s.device_ns as f64 / 1e3).sum();
        Some(QueueFull {
            level: self.most,
            from_ns: found.iter().map(|s| s.from_ns).min()?,
            to_ns: found.iter().map(|s| s.to_ns).max()?,
            stretches: found.len(),
            full_ns,
            longest_ns,
            share,
            ios,
            wait_us: waited_us / ios.max(1) as f64,
            longest_wait_us: found.iter().map(|s| s.longest_wait_us).max()?,
            device_us: device_us / ios.max(1) as f64,
        })
    }
}

impl Sweep for FullSweep {
    fn start(&mut self, span: &Span) {
        if !matches!(span.class, Class::Read | Class::Write) {
            return;
        }
        self.level += 1;
        if self.level > self.most {
            // The queue holds more than was known, so it was never full before.
            self.most = self.level;
            self.open = None;
            self.free_since_ns = None;
            self.found.clear();
        }
        let fills = self.level == self.most;
        let free_since_ns = if fills {
            self.free_since_ns.take()
        } else {
            self.free_since_ns
        };
        if span.waited_us < MIN_WAIT_US || !self.window.contains(span.start_ns) {
            if self.open.is_some() {
                self.close();
            }
            return;
        }
        if self.open.is_none() && !fills {
            return;
        }
        let s = self.open.get_or_insert(FullStretch {
            from_ns: span.start_ns,
            to_ns: span.start_ns,
            ios: 0,
            last_places: 0,
            waited_us: 0,
            device_ns: 0,
            longest_wait_us: 0,
            free_ns: 0,
        });
        if let Some(since_ns) = free_since_ns {
            s.free_ns += span.start_ns - since_ns.max(s.to_ns);
        }
        s.to_ns = span.start_ns;
        s.ios += 1;
        s.last_places += u64::from(fills);
        s.waited_us += u64::from(span.waited_us);
        s.device_ns += span.done_ns - span.start_ns;
        s.longest_wait_us = s.longest_wait_us.max(span.waited_us);
    }

    fn done(&mut self, end: &End) {
        if matches!(end.class, Class::Read | Class::Write) {
            if self.level == self.most {
                self.free_since_ns = Some(end.at_ns);
            }
            self.level -= 1;
        }
    }

    /// A request of zero length takes no slot.
    fn instant(&mut self, _: &Span) {}
}

/// The finding.
pub(in crate::analysis) fn finding(dev: DevId, q: &QueueFull) -> Finding {
    let is_warning = q.share >= WARNING && q.wait_us >= q.device_us;
    Finding {
        dev: Some(dev),
        from_ns: q.from_ns,
        to_ns: q.to_ns,
        severity: if is_warning {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::QueueFull(QueueFullEvidence {
            queue_depth: q.level,
            full_s: q.full_ns as f64 / 1e9,
            full_percent: 100.0 * q.share,
            full_stretches: q.stretches,
            longest_full_s: q.longest_ns as f64 / 1e9,
            full_ios: q.ios,
            queue_mean_us: q.wait_us,
            queue_max_us: q.longest_wait_us,
            device_mean_us: q.device_us,
        }),
    }
}
