//! The events that the BPF programs write, as in `bpf/files_event.h`, and their translation to the model.

use std::sync::Arc;

use iolens_core::model::{
    CallHistogram, Comm, DataIo, FIRST_IOS, How, Request, RequestFlags, SyncKind,
};

use super::super::order::Stamped;

/// `enum kind` of the first sync call.
const K_FSYNC: u8 = 15;
const UNKNOWN: u64 = u64::MAX;

/// `struct io_detail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(super) struct IoDetail {
    pub enter_ns: u64,
    pub duration_ns: u32,
    pub bytes: u32,
}

/// `struct file_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(super) struct FileRequest {
    pub key: u64,
    pub open_enter_ns: u64,
    pub open_exit_ns: u64,
    pub close_enter_ns: u64,
    pub close_exit_ns: u64,
    pub last_exit_ns: u64,
    pub active_ns: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub ios_in: u32,
    pub ios_out: u32,
    pub empty: u32,
    pub failed: u32,
    pub device_ios: u32,
    pub slept_ios: u32,
    pub first: [IoDetail; FIRST_IOS],
    pub first_how: [u8; FIRST_IOS],
    pub slowest_how: u8,
    pub sync: u8,
    pub pad: [u8; 2],
    pub slowest_bytes: u32,
    pub untimed: u32,
    pub sampled: u32,
    /// Entries of its read and write histograms, counted from 1; 0: none.
    pub histograms: [u16; 2],
    pub sampled_ns: u64,
    pub slowest_enter_ns: u64,
    pub slowest_ns: u64,
    pub size: u64,
    pub ino: u64,
    pub cgroup: u64,
    pub comm: [u8; 16],
    pub generation: u32,
    pub fs_dev: u32,
    pub tgid: u32,
    pub tid: u32,
    pub open_flags: u32,
    pub fd: i32,
    pub aliases: i32,
    pub flags: u32,
    pub exec: [u32; 2],
}
const _: () = assert!(size_of::<FileRequest>() == 288);

/// Number of requests per set (`FILE_WAYS`).
pub(super) const FILE_WAYS: usize = 8;

/// `struct file_set`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct FileSet(pub [FileRequest; FILE_WAYS]);

/// `struct files_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(super) struct FilesState {
    pub tracked: u64,
    /// Counts of: ring full, table full, name did not fit into the ring, two threads hashed to the same entry.
    pub lost: [u64; 4],
}
const _: () = assert!(size_of::<FilesState>() == 40);

/// Bytes of `struct file_name` for names.
pub(super) const NAME_BYTES: usize = 768 + 256;

/// `struct file_name`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct FileName {
    pub ino: u64,
    pub generation: u32,
    pub fs_dev: u32,
    pub length: u32,
    pub truncated: u32,
    pub names: [u8; NAME_BYTES],
}
const _: () = assert!(size_of::<FileName>() == 1048);

// SAFETY: `repr(C)` structs of integers without padding; every bit pattern is a value.
unsafe impl aya::Pod for FileSet {}
// SAFETY: as above.
unsafe impl aya::Pod for FilesState {}

impl Stamped for FileRequest {
    fn stamp(&self) -> u64 {
        self.close_exit_ns
    }
}

impl FileRequest {
    /// Converts the event to a request with times relative to `start_monotonic_ns`. `histograms` are those of its reads
    /// and writes after the first ones.
    pub fn to_request(
        self,
        start_monotonic_ns: i64,
        path: Option<Arc<str>>,
        histograms: [Option<CallHistogram>; 2],
    ) -> Request {
        let [read_histogram, write_histogram] = self.with_first(histograms);
        let flags = self.flags_with([&read_histogram, &write_histogram]);
        let ios = self.ios_in + self.ios_out;
        let first = self
            .first
            .iter()
            .take(ios as usize)
            .map(|io| io.enter_ns)
            .filter(|at| *at > 0)
            .min();
        let start = match flags.has(RequestFlags::UNKNOWN_START) {
            true => first.unwrap_or(self.close_exit_ns),
            false => self.open_enter_ns,
        };
        let end_seen = !flags.has(RequestFlags::END_UNSEEN) && !flags.has(RequestFlags::STILL_OPEN);
        let close_ns = match flags.has(RequestFlags::AT_EXIT) {
            true => 0,
            false => self.close_exit_ns.saturating_sub(self.close_enter_ns) as i64,
        };
        let sync = (self.key == 2)
            .then(|| SyncKind::from_code(i32::from(self.sync) - i32::from(K_FSYNC) + 1))
            .flatten();
        let since = |at: u64, from: u64| at as i64 - from as i64;
        Request {
            end_ns: since(self.close_exit_ns, start_monotonic_ns as u64),
            start_ns: since(start, start_monotonic_ns as u64),
            flags,
            sync,
            open_ns: (sync.is_none() && self.open_enter_ns > 0)
                .then(|| since(self.open_exit_ns, self.open_enter_ns)),
            close_ns: (sync.is_none() && end_seen).then_some(close_ns),
            last_after_ns: (self.last_exit_ns > 0).then(|| since(self.last_exit_ns, start)),
            active_ns: (self.active_ns + self.untimed_ns()) as i64,
            ios_in: self.ios_in.into(),
            ios_out: self.ios_out.into(),
            bytes_in: self.bytes_in as i64,
            bytes_out: self.bytes_out as i64,
            empty_reads: self.empty.into(),
            failed: self.failed.into(),
            device_ios: self.device_ios.into(),
            slept_ios: self.slept_ios.into(),
            first: self.details(start),
            slowest: (self.slowest_enter_ns > 0 && sync.is_none()).then(|| DataIo {
                after_ns: since(self.slowest_enter_ns, start),
                duration_ns: self.slowest_ns as i64,
                bytes: self.slowest_bytes.into(),
                how: How(self.slowest_how.into()),
            }),
            read_histogram,
            write_histogram,
            size: (self.size != UNKNOWN && end_seen).then_some(self.size as i64),
            tgid: Some(self.tgid as i32),
            comm: Some(Comm::new(&self.comm)),
            cgroup: Some(self.cgroup as i64),
            fd: (self.fd >= 0).then_some(self.fd),
            ino: Some(self.ino as i64),
            fs_dev: Some(self.fs_dev as i32),
            path,
        }
    }

    /// Estimated duration of the data I/Os that were not timed: each counts as long as the mean of the timed ones of
    /// its kind.
    fn untimed_ns(&self) -> u64 {
        let ns = u128::from(self.untimed) * u128::from(self.sampled_ns)
            / u128::from(self.sampled.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn flags_with(&self, histograms: [&Option<CallHistogram>; 2]) -> RequestFlags {
        let missing = self
            .histograms
            .iter()
            .zip(histograms)
            .any(|(place, h)| *place > 0 && h.is_none());
        let direct = self.open_flags & libc::O_DIRECT as u32 != 0;
        [
            (direct, RequestFlags::DIRECT),
            (self.untimed > 0, RequestFlags::ESTIMATED),
            (missing, RequestFlags::NO_HISTOGRAM),
        ]
        .into_iter()
        .filter(|(is, _)| *is)
        .fold(
            RequestFlags((self.flags & 0xffff) as i32),
            |flags, (_, flag)| flags | flag,
        )
    }

    /// Adds the first data I/Os to the histograms, because the BPF programs do not count them there.
    fn with_first(&self, mut histograms: [Option<CallHistogram>; 2]) -> [Option<CallHistogram>; 2] {
        for io in self.details(0) {
            if let Some(histogram) = &mut histograms[usize::from(io.how.has(How::WRITE))] {
                histogram.add(io.duration_ns, 1);
            }
        }
        histograms
    }

    /// The first data I/Os. If two threads that share a descriptor took the same entry, one I/O is missing.
    fn details(&self, start: u64) -> Vec<DataIo> {
        let n = (self.ios_in + self.ios_out).min(FIRST_IOS as u32) as usize;
        let known = self.first[..n]
            .iter()
            .zip(self.first_how)
            .filter(|(io, _)| io.enter_ns > 0);
        known
            .map(|(io, how)| DataIo {
                after_ns: io.enter_ns as i64 - start as i64,
                duration_ns: io.duration_ns.into(),
                bytes: io.bytes.into(),
                how: How(how.into()),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Option<CallHistogram>; 2] = [None, None];

    fn event() -> FileRequest {
        let io = |enter_ns| IoDetail {
            enter_ns,
            duration_ns: 20,
            bytes: 4096,
        };
        FileRequest {
            key: 1,
            open_enter_ns: 1_000,
            open_exit_ns: 1_010,
            close_enter_ns: 1_500,
            close_exit_ns: 1_505,
            last_exit_ns: 1_220,
            active_ns: 40,
            bytes_in: 8192,
            ios_in: 2,
            first: [
                io(1_100),
                io(1_200),
                IoDetail::default(),
                IoDetail::default(),
            ],
            size: 8192,
            open_flags: libc::O_DIRECT as u32,
            fd: 3,
            ..FileRequest::default()
        }
    }

    #[test]
    fn times_count_from_open_and_from_the_recordings_start() {
        let r = event().to_request(900, None, NONE);
        assert_eq!(
            (r.start_ns, r.end_ns, r.open_ns, r.close_ns),
            (100, 605, Some(10), Some(5))
        );
        assert_eq!(
            (r.total_ns(), r.first_delay_ns(), r.gaps_ns()),
            (Some(220), Some(120), Some(170))
        );
        assert_eq!((r.first.len(), r.size, r.fd), (2, Some(8192), Some(3)));
        assert!(r.flags.has(RequestFlags::DIRECT) && r.sync.is_none());
    }

    #[test]
    fn an_unknown_start_begins_with_the_first_io_and_has_no_open() {
        let flags = RequestFlags::UNKNOWN_START.0 as u32;
        let r = FileRequest {
            flags,
            open_enter_ns: 0,
            open_exit_ns: 0,
            ..event()
        }
        .to_request(0, None, NONE);
        assert_eq!(
            (r.start_ns, r.open_ns, r.total_ns(), r.last_after_ns),
            (1_100, None, None, Some(120))
        );
    }

    #[test]
    fn requests_ended_without_close_have_none() {
        let with = |flag: RequestFlags| {
            FileRequest {
                flags: flag.0 as u32,
                ..event()
            }
            .to_request(0, None, NONE)
            .close_ns
        };
        assert_eq!(with(RequestFlags::AT_EXIT), Some(0));
        assert_eq!(
            (
                with(RequestFlags::STILL_OPEN),
                with(RequestFlags::END_UNSEEN)
            ),
            (None, None)
        );
    }

    #[test]
    fn untimed_calls_take_as_long_as_timed_ones() {
        let e = FileRequest {
            untimed: 90,
            sampled: 10,
            sampled_ns: 2_500,
            active_ns: 40_000,
            ..event()
        };
        let r = e.to_request(0, None, NONE);
        assert_eq!(r.active_ns, 40_000 + 22_500);
        assert!(
            r.flags.has(RequestFlags::ESTIMATED)
                && !event()
                    .to_request(0, None, NONE)
                    .flags
                    .has(RequestFlags::ESTIMATED)
        );
        // Nothing is known of how long they took: nothing is added.
        assert_eq!(
            FileRequest {
                untimed: 9,
                ..event()
            }
            .to_request(0, None, NONE)
            .active_ns,
            40
        );
    }

    #[test]
    fn a_sync_is_its_own_request() {
        let e = FileRequest {
            key: 2,
            sync: 16,
            open_enter_ns: 50,
            close_exit_ns: 80,
            failed: 5,
            ..FileRequest::default()
        };
        let r = e.to_request(0, None, NONE);
        assert_eq!(
            (r.sync, r.total_ns(), r.open_ns, r.failed),
            (Some(SyncKind::Fdatasync), Some(30), None, 5)
        );
    }

    #[test]
    fn histograms_include_the_first_calls_and_missing_ones_are_flagged() {
        let later = CallHistogram::of_counts([0, 3]);
        let e = FileRequest {
            ios_in: 5,
            first_how: [0, How::WRITE.0 as u8, 0, 0],
            histograms: [1, 0],
            ..event()
        };
        let r = e.to_request(0, None, [later, None]);
        // The first call took 20 ns, and the other of the two that are kept wrote.
        assert_eq!(
            r.read_histogram.map(|h| h.to_string()),
            Some("8:3 16:1".to_owned())
        );
        assert!(r.write_histogram.is_none() && !r.flags.has(RequestFlags::NO_HISTOGRAM));
        assert!(
            e.to_request(0, None, NONE)
                .flags
                .has(RequestFlags::NO_HISTOGRAM)
        );
    }
}
