//! A16: compares fio's values with the device's, and finds the mechanisms behind differences.
//!
//! Each identity has a left and a right side, a residual, and a tolerance that follows from how the numbers were
//! measured. The verdicts name the mechanism behind a failed identity.

use serde::{Deserialize, Serialize};

/// One direction (reads or writes) from the application's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct AppSide {
    /// I/Os that the application issued and completed.
    pub ios: f64,
    /// Bytes transferred.
    pub bytes: f64,
    /// Bytes per I/O, if all are equal.
    pub block_bytes: Option<f64>,
    /// Bytes per second as the application printed them.
    pub bytes_per_s: Option<f64>,
    /// I/Os per second as the application printed them.
    pub ios_per_s: Option<f64>,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
}

/// The same direction from the device's point of view, between two readings of its counters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceSide {
    /// Requests completed.
    pub ios: f64,
    /// Bytes transferred; `None` if the source lacks them (fio up to 3.33).
    pub bytes: Option<f64>,
    /// Merges.
    pub merges: f64,
    /// Time from start to completion, summed over requests, in milliseconds.
    pub ticks_ms: f64,
}

impl DeviceSide {
    /// Mean request in bytes.
    pub fn request_bytes(&self) -> Option<f64> {
        self.bytes.filter(|_| self.ios > 0.0).map(|b| b / self.ios)
    }

    /// Mean response time in milliseconds.
    pub fn await_ms(&self) -> Option<f64> {
        (self.ios > 0.0).then(|| self.ticks_ms / self.ios)
    }
}

/// The source of the device's numbers, which limits their precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceSource {
    /// Counters read immediately before and after the run: exact, if no other process used the disk.
    Bracket,
    /// fio's own `disk_util`, sampled every 250 ms: up to that much is missing at both ends.
    FioSampling,
}

/// The part of a direction's I/O that was not the application's: other processes' and the file system's own.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Foreign {
    /// Requests.
    pub ios: f64,
    /// Bytes.
    pub bytes: f64,
}

/// A run, from both points of view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Reads and writes of the application.
    pub app: [AppSide; 2],
    /// Reads and writes of the device.
    pub device: [DeviceSide; 2],
    /// Length of the application's run in seconds.
    pub runtime_s: f64,
    /// Time between the two readings of the counters in seconds.
    pub window_s: f64,
    /// Where the device's numbers come from.
    pub source: DeviceSource,
    /// `time_in_queue` in milliseconds.
    pub in_queue_ms: Option<f64>,
    /// The kernel's busy time in milliseconds.
    pub io_ticks_ms: Option<f64>,
    /// Utilisation as the application printed it, in percent.
    pub util_percent: Option<f64>,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// I/Os the application kept in flight.
    pub queue_depth: u32,
    /// Largest request the kernel sends, in bytes.
    pub max_request_bytes: Option<f64>,
    /// Readahead in bytes.
    pub read_ahead_bytes: Option<f64>,
    /// Bytes that other processes transferred on the device during the run, by name.
    pub others: Vec<(String, f64)>,
    /// Bytes of the file system's own I/O (metadata, journal).
    pub metadata_bytes: f64,
    /// I/O of other processes and of the file system together, by direction; zero without a recording.
    #[serde(default)]
    pub foreign: [Foreign; 2],
    /// I/Os that the recording lost; `None` if their number is unknown. `cell.json` has it beside the facts.
    #[serde(skip)]
    pub lost_ios: Option<i64>,
}

/// An equation between two ways to obtain the same value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Identity {
    /// Its name in the definitions, with the direction.
    pub id: String,
    /// The identity as text.
    pub text: &'static str,
    /// Value of the left side.
    pub left: f64,
    /// Value of the right side.
    pub right: f64,
    /// Left minus right, in percent of the right side; `None` if that is 0.
    pub residual_percent: Option<f64>,
    /// Tolerance of the difference, in the unit of the sides.
    pub tolerance: f64,
    /// Whether the difference is within the tolerance.
    pub holds: bool,
    /// Whether it is within the tolerance, or would be if the I/Os that the recording lost were of other processes.
    pub holds_with_losses: bool,
}

fn identity(
    id: &str,
    side: usize,
    text: &'static str,
    left: f64,
    right: f64,
    tolerance: f64,
) -> Identity {
    let direction = ["r", "w"]
        .get(side)
        .map_or(String::new(), |d| format!(".{d}"));
    let holds = (left - right).abs() <= tolerance;
    Identity {
        id: format!("{id}{direction}"),
        text,
        left,
        right,
        residual_percent: (right != 0.0).then(|| 100.0 * (left - right) / right),
        tolerance,
        holds,
        holds_with_losses: holds,
    }
}

impl Identity {
    /// Allows for losses of the recording. The left side is the device's value minus the recorded I/O of other
    /// processes. So it is too large by at most `lost`, and never too small.
    fn with_losses(mut self, lost: f64) -> Identity {
        let excess = self.left - self.right;
        let is_explained = excess >= 0.0 && excess <= self.tolerance + lost;
        self.holds_with_losses = self.holds || is_explained;
        self
    }
}

/// Upper bound of the total of the I/Os that the recording lost, at `each` per I/O; infinite if their number is
/// unknown.
fn lost_at_most(r: &RunFacts, each: Option<f64>) -> f64 {
    match (r.lost_ios, each) {
        (Some(0), _) => 0.0,
        (Some(lost), Some(each)) => lost as f64 * each,
        _ => f64::INFINITY,
    }
}

/// All identities of which both sides are known.
pub fn identities(r: &RunFacts) -> Vec<Identity> {
    let mut out = Vec::new();
    for side in 0..2 {
        if r.app[side].ios > 0.0 {
            app_identities(r, side, &mut out);
            device_identities(r, side, &mut out);
        }
    }
    whole_identities(r, &mut out);
    out
}

fn app_identities(r: &RunFacts, side: usize, out: &mut Vec<Identity>) {
    let a = &r.app[side];
    if let Some(bw) = a.bytes_per_s {
        let tolerance = rounding(r, bw) + 1024.0;
        out.push(identity(
            "I1",
            side,
            "bytes = bandwidth x runtime",
            a.bytes,
            bw * r.runtime_s,
            tolerance,
        ));
    }
    // A deviation of less than half an I/O in bytes is the same number of I/Os.
    if let Some(bs) = a.block_bytes {
        out.push(identity(
            "I2",
            side,
            "bytes = block size x I/Os",
            a.bytes,
            bs * a.ios,
            0.5 * bs,
        ));
    }
    if let Some(iops) = a.ios_per_s {
        out.push(identity(
            "I3",
            side,
            "I/Os = IOPS x runtime",
            a.ios,
            iops * r.runtime_s,
            rounding(r, iops) + 0.5 * r.runtime_s,
        ));
    }
}

/// Rounding error of a rate times the runtime. Rates are printed as whole numbers (an error of half of one, over the
/// runtime), runtimes as whole milliseconds.
fn rounding(r: &RunFacts, rate: f64) -> f64 {
    0.5 * r.runtime_s + rate * 0.0005
}

/// How many I/Os the device's count may have too few or too many.
fn count_tolerance(r: &RunFacts, side: usize) -> f64 {
    match r.source {
        // In flight at the first or the second reading.
        DeviceSource::Bracket => f64::from(r.queue_depth),
        DeviceSource::FioSampling => {
            2.0 * 0.25 * r.app[side].ios / r.runtime_s + f64::from(r.queue_depth)
        }
    }
}

fn device_identities(r: &RunFacts, side: usize, out: &mut Vec<Identity>) {
    let a = &r.app[side];
    let d = &r.device[side];
    let per_io = a.bytes / a.ios;
    let count = count_tolerance(r, side);
    // Without the device's bytes, they are calculated from its requests of known size.
    let bytes = d.bytes.or_else(|| {
        a.block_bytes
            .filter(|b| r.max_request_bytes.is_none_or(|m| *b <= m))
            .map(|b| b * d.ios)
    });
    if let Some(bytes) = bytes {
        let text = "device bytes, less those of others and of metadata = application bytes";
        let i4 = identity(
            "I4",
            side,
            text,
            bytes - r.foreign[side].bytes,
            a.bytes,
            count * per_io,
        );
        out.push(i4.with_losses(lost_at_most(r, r.max_request_bytes)));
    }
    if let (Some(bs), Some(max)) = (a.block_bytes, r.max_request_bytes) {
        let pieces = (bs / max).ceil().max(1.0);
        let expected = a.ios * pieces - d.merges;
        let text = "device requests, less those of others = I/Os x pieces - merges";
        let i5 = identity(
            "I5",
            side,
            text,
            d.ios - r.foreign[side].ios,
            expected,
            count * pieces,
        );
        out.push(i5.with_losses(lost_at_most(r, Some(1.0))));
    }
    // The device time of other processes' I/O is not known separately.
    let alone = r.foreign[side].ios <= NOTICEABLE * d.ios;
    if let Some(ms) = d
        .await_ms()
        .filter(|_| r.queue_depth == 1 && r.direct && alone)
    {
        let cycle_ms = 1000.0 * r.runtime_s / a.ios;
        let text = "one at a time: device response <= time per I/O";
        let mut i = identity(
            "I9",
            side,
            text,
            ms,
            cycle_ms,
            cycle_ms * count / a.ios + 1.0 / a.ios,
        );
        i.holds = ms <= cycle_ms + i.tolerance;
        i.holds_with_losses = i.holds;
        out.push(i);
    }
}

fn whole_identities(r: &RunFacts, out: &mut Vec<Identity>) {
    let ticks: f64 = r.device.iter().map(|d| d.ticks_ms).sum();
    let ios: f64 = r.device.iter().map(|d| d.ios).sum();
    if let Some(q) = r.in_queue_ms.filter(|_| ios > 0.0) {
        // Each I/O's time is truncated to whole milliseconds once in each sum.
        let text = "queue length = arrival rate x response time (Little)";
        let window_ms = r.window_s * 1000.0;
        out.push(identity(
            "I7",
            2,
            text,
            q / window_ms,
            ticks / window_ms,
            (ios.sqrt() + 10.0) / window_ms,
        ));
    }
    if let (Some(busy), Some(util)) = (r.io_ticks_ms, r.util_percent) {
        // The application samples every 250 ms. Its setup is within our window but not within its own.
        let setup_s = (r.window_s - r.runtime_s).max(0.0);
        let tolerance = 100.0 * (0.25 + setup_s) / r.runtime_s + 1.0;
        out.push(identity(
            "I8",
            2,
            "busy time / window = printed utilisation",
            busy / r.window_s / 10.0,
            util,
            tolerance,
        ));
    }
}

/// The mechanism that explains a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum IdentityVerdict {
    /// Application and device transferred the same bytes with the same requests.
    Agree,
    /// The page cache served reads or absorbed writes.
    PageCache {
        /// Share of the application's bytes that did not come from (or go to) the device during the run, in percent.
        hit_percent: f64,
    },
    /// The device read more than requested.
    Readahead {
        /// Device bytes over application bytes.
        ratio: f64,
    },
    /// Requests are as large as the readahead window, which therefore determines their size, not the application.
    ReadaheadCap {
        /// Mean request in bytes.
        request_bytes: f64,
        /// Twice `read_ahead_kb`, as with `POSIX_FADV_SEQUENTIAL`.
        doubled: bool,
    },
    /// Adjacent I/Os were merged.
    Merging {
        /// Application I/Os per device request.
        ios_per_request: f64,
    },
    /// I/Os were split into requests of the device's maximum size.
    Splitting {
        /// Device requests per application I/O.
        requests_per_io: f64,
        /// Mean request in bytes.
        request_bytes: f64,
        /// Largest request that the kernel sends, if known.
        limit_bytes: Option<f64>,
    },
    /// The page cache combined small I/Os into larger requests, by readahead or by writing back adjacent pages
    /// together.
    Gathered {
        /// Mean request in bytes.
        request_bytes: f64,
        /// Number of the application's I/Os per request.
        ios_per_request: f64,
    },
    /// Another process used the device.
    OtherWriters {
        /// Process names, sorted by bytes in descending order.
        who: Vec<String>,
        /// Their share of the device's bytes, in percent.
        percent: f64,
    },
    /// The application's latency was much longer than the device's: a limit (cgroup, rate) or CPU time.
    ThrottledAbove {
        /// Application's mean latency divided by the device's.
        ratio: f64,
    },
    /// The device did more I/O than is accounted for, by at most the I/Os that the recording lost.
    RecordingLosses {
        /// I/Os that the recording lost, if their number is known.
        lost_ios: Option<i64>,
        /// Names of the identities that failed but would hold if these I/Os were of other processes.
        failed: Vec<String>,
    },
    /// Identities fail, and none of the mechanisms above explains it.
    Unexplained {
        /// Names of the identities that failed.
        failed: Vec<String>,
    },
}

/// Mean number of requests per I/O from which it counts as splitting; fewer come from single unaligned I/Os.
const MIN_SPLITS: f64 = 1.05;
/// Share of the bytes that counts as a difference; less comes from metadata and the edges of the window.
const NOTICEABLE: f64 = 0.02;

/// The mechanisms, most important first. [`IdentityVerdict::Agree`] alone if there are none and every identity holds.
pub fn verdicts(r: &RunFacts) -> Vec<IdentityVerdict> {
    let mut out = Vec::new();
    out.extend(others(r));
    for side in 0..2 {
        if r.app[side].ios > 0.0 {
            out.extend(bytes_verdict(r, side));
            out.extend(request_verdict(r, side));
            out.extend(throttle_verdict(r, side));
        }
    }
    let failed: Vec<Identity> = identities(r).into_iter().filter(|i| !i.holds).collect();
    let (lost, unexplained): (Vec<Identity>, Vec<Identity>) =
        failed.into_iter().partition(|i| i.holds_with_losses);
    // Another mechanism explains the difference that the losses do not.
    let is_explained = unexplained.is_empty() || !out.is_empty();
    if !lost.is_empty() {
        out.push(IdentityVerdict::RecordingLosses {
            lost_ios: r.lost_ios,
            failed: ids(lost),
        });
    }
    if !is_explained {
        out.push(IdentityVerdict::Unexplained {
            failed: ids(unexplained),
        });
    }
    if out.is_empty() {
        out.push(IdentityVerdict::Agree);
    }
    out
}

fn ids(identities: Vec<Identity>) -> Vec<String> {
    identities.into_iter().map(|i| i.id).collect()
}

fn others(r: &RunFacts) -> Option<IdentityVerdict> {
    let total: f64 = r.device.iter().filter_map(|d| d.bytes).sum();
    let theirs: f64 = r.others.iter().map(|o| o.1).sum();
    if total <= 0.0 || theirs < NOTICEABLE * total {
        return None;
    }
    let mut who = r.others.clone();
    who.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Others' I/Os are counted when they complete, which may be after the counters were read, so their total is an
    // upper bound.
    Some(IdentityVerdict::OtherWriters {
        who: who.into_iter().take(3).map(|o| o.0).collect(),
        percent: 100.0 * theirs / total.max(theirs),
    })
}

/// Device bytes of a direction that the application can have caused.
fn own_bytes(r: &RunFacts, side: usize) -> Option<f64> {
    r.device[side]
        .bytes
        .map(|b| (b - r.foreign[side].bytes).max(0.0))
}

fn bytes_verdict(r: &RunFacts, side: usize) -> Option<IdentityVerdict> {
    let app = r.app[side].bytes;
    let device = own_bytes(r, side)?;
    if r.direct || app <= 0.0 {
        return None;
    }
    if device < app * (1.0 - NOTICEABLE) {
        return Some(IdentityVerdict::PageCache {
            hit_percent: 100.0 * (1.0 - device / app),
        });
    }
    (side == 0 && device > app * (1.0 + NOTICEABLE)).then(|| IdentityVerdict::Readahead {
        ratio: device / app,
    })
}

fn request_verdict(r: &RunFacts, side: usize) -> Option<IdentityVerdict> {
    let a = &r.app[side];
    let all = &r.device[side];
    let foreign = &r.foreign[side];
    // Others' requests have other sizes.
    let d = DeviceSide {
        ios: all.ios - foreign.ios,
        bytes: all.bytes.map(|b| b - foreign.bytes),
        ..*all
    };
    let request = d.request_bytes().filter(|b| *b > 0.0)?;
    let per_io = a.bytes / a.ios;
    // An application that announces sequential reading (posix_fadvise, as fio does) gets twice the window.
    let window = r.read_ahead_bytes.and_then(|ra| {
        [ra, 2.0 * ra]
            .into_iter()
            .find(|w| (request / w - 1.0).abs() < 0.1)
    });
    if window.is_some_and(|w| side == 0 && !r.direct && per_io < w) {
        let doubled = window > r.read_ahead_bytes;
        return Some(IdentityVerdict::ReadaheadCap {
            request_bytes: request,
            doubled,
        });
    }
    let moved = d.bytes? / per_io;
    if per_io / request >= MIN_SPLITS && r.direct {
        let limit_bytes = r.max_request_bytes;
        return Some(IdentityVerdict::Splitting {
            requests_per_io: d.ios / moved,
            request_bytes: request,
            limit_bytes,
        });
    }
    if !r.direct && request > per_io * (1.0 + NOTICEABLE) && d.merges <= NOTICEABLE * moved {
        return Some(IdentityVerdict::Gathered {
            request_bytes: request,
            ios_per_request: request / per_io,
        });
    }
    (d.merges > NOTICEABLE * moved && request > per_io * (1.0 + NOTICEABLE)).then(|| {
        IdentityVerdict::Merging {
            ios_per_request: moved / d.ios,
        }
    })
}

fn throttle_verdict(r: &RunFacts, side: usize) -> Option<IdentityVerdict> {
    let a = &r.app[side];
    let d = &r.device[side];
    let app_ms = a.mean_us? / 1000.0;
    let device_ms = d.await_ms()?;
    // Counters have whole milliseconds, so short I/Os have no usable device time.
    let measurable = d.ticks_ms >= 20.0 || app_ms * a.ios >= 1000.0;
    let pieces = (d.ios / a.ios).max(1.0);
    let ratio = app_ms / (device_ms.max(1.0 / d.ios) * pieces);
    (r.direct && measurable && ratio > 3.0 && app_ms > 0.5)
        .then_some(IdentityVerdict::ThrottledAbove { ratio })
}

impl IdentityVerdict {
    /// The verdict as a sentence.
    pub fn sentence(&self) -> String {
        match self {
            IdentityVerdict::Agree => {
                "application and device agree: every I/O reached the device as it was issued"
                    .to_owned()
            }
            IdentityVerdict::PageCache { hit_percent } => {
                format!(
                    "page cache: {hit_percent:.1} % of the application's bytes did not reach the device during the run"
                )
            }
            IdentityVerdict::Readahead { ratio } => {
                format!(
                    "readahead: the device read {ratio:.2} times what the application requested"
                )
            }
            IdentityVerdict::ReadaheadCap {
                request_bytes,
                doubled,
            } => {
                let what = if *doubled {
                    "twice read_ahead_kb, for announced sequential reading"
                } else {
                    "read_ahead_kb"
                };
                format!(
                    "readahead sets the size of requests: {:.0} KiB ({what})",
                    request_bytes / 1024.0
                )
            }
            IdentityVerdict::Merging { ios_per_request } => {
                format!(
                    "merging: {ios_per_request:.1} of the application's I/Os went into each request of the device"
                )
            }
            IdentityVerdict::Splitting {
                requests_per_io,
                request_bytes,
                limit_bytes,
            } => {
                let why = match limit_bytes {
                    // The last part may be smaller than the limit.
                    Some(limit) if *request_bytes < 0.4 * limit => {
                        "far below the device's limit: the file is fragmented"
                    }
                    _ => "as large as the device takes",
                };
                let kib = request_bytes / 1024.0;
                format!(
                    "splitting: {requests_per_io:.2} requests per I/O, {kib:.0} KiB each, {why}"
                )
            }
            IdentityVerdict::Gathered {
                request_bytes,
                ios_per_request,
            } => format!(
                "coalesced: the page cache put {ios_per_request:.1} application I/Os into each request of {:.0} KiB",
                request_bytes / 1024.0
            ),
            IdentityVerdict::RecordingLosses { lost_ios, failed } => {
                let number = match lost_ios {
                    Some(1) => "1 I/O".to_owned(),
                    Some(n) => format!("{n} I/Os"),
                    None => "an unknown number of I/Os".to_owned(),
                };
                format!(
                    "lost I/Os: the recording lost {number}; {} would hold if other processes did them",
                    failed.join(", ")
                )
            }
            IdentityVerdict::Unexplained { failed } => format!(
                "unexplained: application and device disagree beyond the tolerance in {} (see the consistency checks)",
                failed.join(", ")
            ),
            IdentityVerdict::OtherWriters { who, percent } => {
                format!(
                    "background I/O: {percent:.1} % of the device's bytes were moved by {}",
                    who.join(", ")
                )
            }
            IdentityVerdict::ThrottledAbove { ratio } => format!(
                "throttled above the device: the application waited {ratio:.0} times as long as the device took (a cgroup or rate limit, or the processor)"
            ),
        }
    }
}

#[cfg(test)]
#[path = "identities_tests.rs"]
mod tests;
