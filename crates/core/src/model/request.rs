//! A file-level request: what a program did with a file between opening and closing it.

use std::sync::Arc;

use super::{CallHistogram, Comm};

/// Class of a request, by what it did.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum RequestClass {
    /// Only read.
    In,
    /// Only wrote, or created, truncated or appended to the file.
    Out,
    /// Read and wrote.
    Mixed,
    /// Opened and closed without data.
    None,
    /// Not a request of data: one `fsync`, `fdatasync`, `sync_file_range` or `syncfs`.
    Sync,
}

impl RequestClass {
    /// All classes, in the order of reports.
    pub const ALL: [RequestClass; 5] = [
        RequestClass::In,
        RequestClass::Out,
        RequestClass::Mixed,
        RequestClass::None,
        RequestClass::Sync,
    ];

    /// Name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RequestClass::In => "in",
            RequestClass::Out => "out",
            RequestClass::Mixed => "mixed",
            RequestClass::None => "none",
            RequestClass::Sync => "sync",
        }
    }
}

/// Which call forced data to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyncKind {
    /// `fsync(2)`.
    Fsync,
    /// `fdatasync(2)`.
    Fdatasync,
    /// `sync_file_range(2)`.
    SyncFileRange,
    /// `syncfs(2)`.
    Syncfs,
}

impl SyncKind {
    /// All of them; the position plus 1 is the number stored in recordings.
    pub const ALL: [SyncKind; 4] = [
        SyncKind::Fsync,
        SyncKind::Fdatasync,
        SyncKind::SyncFileRange,
        SyncKind::Syncfs,
    ];

    /// Name of the system call.
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Fsync => "fsync",
            SyncKind::Fdatasync => "fdatasync",
            SyncKind::SyncFileRange => "sync_file_range",
            SyncKind::Syncfs => "syncfs",
        }
    }

    /// The number under which recordings store it.
    pub fn code(self) -> i32 {
        self as i32 + 1
    }

    /// From the number in a recording.
    pub fn from_code(code: i32) -> Option<SyncKind> {
        Self::ALL.into_iter().find(|k| k.code() == code)
    }
}

/// How one data I/O went, in bits (as recordings store it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct How(pub i32);

impl How {
    /// The request wrote data.
    pub const WRITE: How = How(1 << 0);
    /// Block I/O was submitted inside the call.
    pub const DEVICE: How = How(1 << 1);
    /// The caller slept inside the call.
    pub const SLEPT: How = How(1 << 2);
    /// Through io_uring: the duration runs from submission to completion.
    pub const ASYNC: How = How(1 << 3);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: How) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether this was a page-cache hit: a synchronous read that neither submitted block I/O nor slept. `None` for
    /// writes and for io_uring, where this is not known.
    pub fn cache_hit(self) -> Option<bool> {
        let known = !self.has(How::WRITE) && !self.has(How::ASYNC);
        known.then_some(!self.has(How::DEVICE) && !self.has(How::SLEPT))
    }
}

/// One data I/O of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataIo {
    /// Its beginning, in nanoseconds after the request's beginning ([`Request::start_ns`]).
    pub after_ns: i64,
    /// How long it took, in nanoseconds.
    pub duration_ns: i64,
    /// Bytes moved by these calls.
    pub bytes: i64,
    /// Its properties.
    pub how: How,
}

/// Properties of a request, in bits (as recordings store them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RequestFlags(pub i32);

impl RequestFlags {
    /// Mapped into memory: what page faults moved is not counted.
    pub const MMAP: RequestFlags = RequestFlags(1 << 0);
    /// Some of its I/Os came through io_uring.
    pub const IO_URING: RequestFlags = RequestFlags(1 << 1);
    /// Used with `io_submit`, whose I/Os are not counted.
    pub const AIO: RequestFlags = RequestFlags(1 << 2);
    /// Opened before recording began, or by a process outside the filter: its opening was not seen.
    pub const UNKNOWN_START: RequestFlags = RequestFlags(1 << 3);
    /// Had more descriptors than one in a process (`dup` and the like).
    pub const ALIASED: RequestFlags = RequestFlags(1 << 4);
    /// Inherited by a child process.
    pub const FORKED: RequestFlags = RequestFlags(1 << 5);
    /// Another process still held the file when its last known descriptor was closed: passed over a socket, or in use.
    pub const ESCAPED: RequestFlags = RequestFlags(1 << 6);
    /// Not closed when recording ended.
    pub const STILL_OPEN: RequestFlags = RequestFlags(1 << 7);
    /// Its close was not seen; the end is the time at which this was noticed.
    pub const END_UNSEEN: RequestFlags = RequestFlags(1 << 8);
    /// Opened with `O_CREAT`, `O_TRUNC` or `O_APPEND`.
    pub const CREATES: RequestFlags = RequestFlags(1 << 9);
    /// Opened with `O_DIRECT`.
    pub const DIRECT: RequestFlags = RequestFlags(1 << 10);
    /// Closed by the end of its process, or by `exec`.
    pub const AT_EXIT: RequestFlags = RequestFlags(1 << 11);
    /// A block device's node, not a file.
    pub const BLOCK_DEVICE: RequestFlags = RequestFlags(1 << 12);
    /// Some of its data I/Os were not timed. In a long run of short I/Os on cached data most are assumed to take as
    /// long as the timed ones, so [`Request::active_ns`] is an estimate.
    pub const ESTIMATED: RequestFlags = RequestFlags(1 << 13);
    /// Its calls should have been counted by duration but were not: too many files were in use at once, or too many
    /// calls had one duration.
    pub const NO_HISTOGRAM: RequestFlags = RequestFlags(1 << 14);

    const NAMES: [(RequestFlags, &'static str); 15] = [
        (Self::MMAP, "mmap"),
        (Self::IO_URING, "io_uring"),
        (Self::AIO, "aio"),
        (Self::UNKNOWN_START, "unknown-start"),
        (Self::ALIASED, "aliased"),
        (Self::FORKED, "forked"),
        (Self::ESCAPED, "escaped"),
        (Self::STILL_OPEN, "still-open"),
        (Self::END_UNSEEN, "end-unseen"),
        (Self::CREATES, "creates"),
        (Self::DIRECT, "direct"),
        (Self::AT_EXIT, "at-exit"),
        (Self::BLOCK_DEVICE, "block-device"),
        (Self::ESTIMATED, "estimated"),
        (Self::NO_HISTOGRAM, "no-histogram"),
    ];

    /// Whether all bits of `other` are set.
    pub fn has(self, other: RequestFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(flag, _)| self.has(*flag))
            .map(|(_, name)| name)
    }
}

impl std::ops::BitOr for RequestFlags {
    type Output = RequestFlags;

    fn bitor(self, other: RequestFlags) -> RequestFlags {
        RequestFlags(self.0 | other.0)
    }
}

/// How many data I/Os of a request are kept one by one.
pub const FIRST_IOS: usize = 4;

/// One generation of a descriptor: a file from `open` to `close` of the last descriptor that came from that `open`,
/// or one `fsync` (class [`RequestClass::Sync`]).
///
/// Times are nanoseconds since the recording's start; `None` is "not known", never zero. A data I/O is a call that
/// moved at least one byte; reads of nothing (end-of-file probes) and failed calls are counted apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// When it was over: exit of the last close, of the fsync, or end of recording.
    pub end_ns: i64,
    /// Entry of the open call (of the fsync). With [`RequestFlags::UNKNOWN_START`]: entry of its first I/O, or its end.
    pub start_ns: i64,
    /// Its properties.
    pub flags: RequestFlags,
    /// Which call, if it is an fsync.
    pub sync: Option<SyncKind>,
    /// Duration of the open call, in nanoseconds.
    pub open_ns: Option<i64>,
    /// Duration of the last close call, in nanoseconds; 0 if the process ended instead.
    pub close_ns: Option<i64>,
    /// Exit of its last data I/O, in nanoseconds after `start_ns`; `None` without data I/Os.
    pub last_after_ns: Option<i64>,
    /// Time inside data I/Os, summed, in nanoseconds. Exceeds the elapsed time if several threads do I/O at once.
    pub active_ns: i64,
    /// Data I/Os that read.
    pub ios_in: i64,
    /// Data I/Os that wrote.
    pub ios_out: i64,
    /// Bytes read.
    pub bytes_in: i64,
    /// Bytes written.
    pub bytes_out: i64,
    /// Reads of nothing: end-of-file probes.
    pub empty_reads: i64,
    /// Calls that failed (`EINTR`, `EAGAIN`, ...); of an fsync its errno.
    pub failed: i64,
    /// Data I/Os during which block I/O was submitted.
    pub device_ios: i64,
    /// Data I/Os during which the caller slept.
    pub slept_ios: i64,
    /// The first data I/Os, at most [`FIRST_IOS`], in order of completion.
    pub first: Vec<DataIo>,
    /// The slowest data I/O.
    pub slowest: Option<DataIo>,
    /// Histogram of the durations of its reads, unless all reads are in `first`. A call that was not timed
    /// ([`RequestFlags::ESTIMATED`]) counts as long as the next timed one.
    pub read_histogram: Option<CallHistogram>,
    /// Histogram of its writes.
    pub write_histogram: Option<CallHistogram>,
    /// Bytes of the file when it was closed.
    pub size: Option<i64>,
    /// Process that opened it (that synced).
    pub tgid: Option<i32>,
    /// Name of the task that did; of a thread of io_uring that of its process.
    pub comm: Option<Comm>,
    /// Control group (cgroup v2 id).
    pub cgroup: Option<i64>,
    /// Descriptor that the open returned.
    pub fd: Option<i32>,
    /// Inode number of the file.
    pub ino: Option<i64>,
    /// Device of the file system on which `ino` counts (`major << 20 | minor`).
    pub fs_dev: Option<i32>,
    /// Path of the file when it was first seen. Untrusted: escape it where it is shown.
    pub path: Option<Arc<str>>,
}

impl Request {
    /// A request with only its interval known.
    pub fn new(start_ns: i64, end_ns: i64) -> Request {
        Request {
            end_ns,
            start_ns,
            flags: RequestFlags::default(),
            sync: None,
            open_ns: None,
            close_ns: None,
            last_after_ns: None,
            active_ns: 0,
            ios_in: 0,
            ios_out: 0,
            bytes_in: 0,
            bytes_out: 0,
            empty_reads: 0,
            failed: 0,
            device_ios: 0,
            slept_ios: 0,
            first: Vec::new(),
            slowest: None,
            read_histogram: None,
            write_histogram: None,
            size: None,
            tgid: None,
            comm: None,
            cgroup: None,
            fd: None,
            ino: None,
            fs_dev: None,
            path: None,
        }
    }

    /// Number of data I/Os.
    pub fn ios(&self) -> i64 {
        self.ios_in + self.ios_out
    }

    /// Bytes moved.
    pub fn bytes(&self) -> i64 {
        self.bytes_in.saturating_add(self.bytes_out)
    }

    /// Class by what was read and written.
    pub fn class(&self) -> RequestClass {
        if self.sync.is_some() {
            return RequestClass::Sync;
        }
        match (self.ios_in > 0, self.ios_out > 0) {
            (false, false) => RequestClass::None,
            (true, false) => RequestClass::In,
            (false, true) => RequestClass::Out,
            (true, true) if self.flags.has(RequestFlags::CREATES) => RequestClass::Out,
            (true, true) => RequestClass::Mixed,
        }
    }

    /// Whether its opening was seen. Only then are times relative to it meaningful.
    pub fn start_known(&self) -> bool {
        !self.flags.has(RequestFlags::UNKNOWN_START)
    }

    /// Time from entry of open to exit of the last data I/O, in nanoseconds; the duration for an fsync. `None` without
    /// data I/Os or without a known start.
    pub fn total_ns(&self) -> Option<i64> {
        if self.sync.is_some() {
            return Some(self.end_ns - self.start_ns);
        }
        self.last_after_ns.filter(|_| self.start_known())
    }

    /// Entry of open to exit of the first data I/O, in nanoseconds.
    pub fn first_delay_ns(&self) -> Option<i64> {
        let first = self.first.first().filter(|_| self.start_known())?;
        Some(first.after_ns + first.duration_ns)
    }

    /// Think time in nanoseconds: time between open and exit of the last data I/O that was spent in neither. `None` if
    /// I/Os may overlap, because the difference is then meaningless.
    pub fn gaps_ns(&self) -> Option<i64> {
        let total = self.total_ns().filter(|_| self.sync.is_none())?;
        let gaps = total - self.active_ns - self.open_ns.unwrap_or(0);
        (gaps >= 0).then_some(gaps)
    }

    /// Whether a single data I/O served the request (A10); `None` without data I/Os.
    pub fn atomic(&self) -> Option<bool> {
        (self.ios() > 0).then_some(self.ios() == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ios_in: i64, ios_out: i64, flags: RequestFlags) -> RequestClass {
        Request {
            ios_in,
            ios_out,
            flags,
            ..Request::new(0, 10)
        }
        .class()
    }

    #[test]
    fn classes_follow_what_was_done() {
        let none = RequestFlags::default();
        assert_eq!(with(3, 0, none), RequestClass::In);
        assert_eq!(with(0, 3, none), RequestClass::Out);
        assert_eq!(with(2, 1, none), RequestClass::Mixed);
        assert_eq!(with(2, 1, RequestFlags::CREATES), RequestClass::Out);
        assert_eq!(with(0, 0, RequestFlags::CREATES), RequestClass::None);
        let sync = Request {
            sync: Some(SyncKind::Fsync),
            ..Request::new(5, 9)
        };
        assert_eq!(
            (sync.class(), sync.total_ns()),
            (RequestClass::Sync, Some(4))
        );
    }

    #[test]
    fn times_need_a_known_start() {
        let first = vec![DataIo {
            after_ns: 10,
            duration_ns: 5,
            bytes: 1,
            how: How::default(),
        }];
        let mut r = Request {
            first,
            last_after_ns: Some(40),
            open_ns: Some(8),
            active_ns: 20,
            ..Request::new(100, 200)
        };
        r.ios_in = 2;
        assert_eq!(
            (r.total_ns(), r.first_delay_ns(), r.gaps_ns()),
            (Some(40), Some(15), Some(12))
        );
        r.flags = RequestFlags::UNKNOWN_START;
        assert_eq!(
            (r.total_ns(), r.first_delay_ns(), r.gaps_ns()),
            (None, None, None)
        );
    }

    #[test]
    fn cache_hits_are_reported_of_synchronous_reads_only() {
        assert_eq!(How::default().cache_hit(), Some(true));
        assert_eq!(How::DEVICE.cache_hit(), Some(false));
        assert_eq!(How::SLEPT.cache_hit(), Some(false));
        assert_eq!(
            (How::WRITE.cache_hit(), How::ASYNC.cache_hit()),
            (None, None)
        );
    }

    #[test]
    fn codes_and_names_are_one_to_one() {
        for kind in SyncKind::ALL {
            assert_eq!(SyncKind::from_code(kind.code()), Some(kind));
        }
        let all = RequestFlags(0x7fff);
        assert_eq!(all.names().count(), 15);
    }
}
