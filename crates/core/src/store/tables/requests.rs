//! File-level requests.

use std::sync::Arc;

use crate::model::{CallHistogram, Comm, DataIo, How, Request, RequestFlags, SyncKind};
use crate::store::cell::Text;
use crate::store::column::Column;
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "requests" of Request, by end_ns;

    /// exit of the last close or of the fsync, or end of the recording; the table's time
    end_ns: i64 as Time = |r| r.end_ns;

    /// entry of the open or of the fsync; with flag 8 entry of the first I/O, or the end
    start_ns: i64 as Time = |r| r.start_ns;

    /// bits, below
    flags: i32 as Few = |r| r.flags.0;

    /// null for requests of data; otherwise 1 fsync, 2 fdatasync, 3 sync_file_range, 4 syncfs
    sync: Option<i32> as Few = |r| r.sync.map(SyncKind::code);

    /// duration of the open call
    open_ns: Option<i64> as Many = |r| r.open_ns;

    /// duration of the last close call; 0 if the process ended instead
    close_ns: Option<i64> as Many = |r| r.close_ns;

    /// exit of the last data I/O, in nanoseconds after `start_ns`
    last_after_ns: Option<i64> as Many = |r| r.last_after_ns;

    /// time inside data I/Os, summed
    active_ns: i64 as Many = |r| r.active_ns;

    /// data I/Os that read
    ios_in: i64 as Few = |r| r.ios_in;

    /// data I/Os that wrote
    ios_out: i64 as Few = |r| r.ios_out;

    /// bytes read
    bytes_in: i64 as Few = |r| r.bytes_in;

    /// bytes written
    bytes_out: i64 as Few = |r| r.bytes_out;

    /// reads that returned no data: end-of-file probes
    empty_reads: i64 as Few = |r| r.empty_reads;

    /// calls that failed; for an fsync its errno, or 0
    failed: i64 as Few = |r| r.failed;

    /// data I/Os during which the caller submitted block I/O
    device_ios: i64 as Few = |r| r.device_ios;

    /// data I/Os during which the caller slept
    slept_ios: i64 as Few = |r| r.slept_ios;

    /// entry of the first data I/O, in nanoseconds after `start_ns`
    io1_after_ns: Option<i64> as Many = |r| r.first.first().map(|io| io.after_ns);

    /// its duration
    io1_ns: Option<i64> as Many = |r| r.first.first().map(|io| io.duration_ns);

    /// its bytes
    io1_bytes: Option<i64> as Few = |r| r.first.first().map(|io| io.bytes);

    /// bits, below
    io1_how: Option<i32> as Few = |r| r.first.first().map(|io| io.how.0);

    /// entry of the second data I/O, in nanoseconds after `start_ns`
    io2_after_ns: Option<i64> as Many = |r| r.first.get(1).map(|io| io.after_ns);

    /// its duration
    io2_ns: Option<i64> as Many = |r| r.first.get(1).map(|io| io.duration_ns);

    /// its bytes
    io2_bytes: Option<i64> as Few = |r| r.first.get(1).map(|io| io.bytes);

    /// bits, below
    io2_how: Option<i32> as Few = |r| r.first.get(1).map(|io| io.how.0);

    /// entry of the third data I/O, in nanoseconds after `start_ns`
    io3_after_ns: Option<i64> as Many = |r| r.first.get(2).map(|io| io.after_ns);

    /// its duration
    io3_ns: Option<i64> as Many = |r| r.first.get(2).map(|io| io.duration_ns);

    /// its bytes
    io3_bytes: Option<i64> as Few = |r| r.first.get(2).map(|io| io.bytes);

    /// bits, below
    io3_how: Option<i32> as Few = |r| r.first.get(2).map(|io| io.how.0);

    /// entry of the fourth data I/O, in nanoseconds after `start_ns`
    io4_after_ns: Option<i64> as Many = |r| r.first.get(3).map(|io| io.after_ns);

    /// its duration
    io4_ns: Option<i64> as Many = |r| r.first.get(3).map(|io| io.duration_ns);

    /// its bytes
    io4_bytes: Option<i64> as Few = |r| r.first.get(3).map(|io| io.bytes);

    /// bits, below
    io4_how: Option<i32> as Few = |r| r.first.get(3).map(|io| io.how.0);

    /// entry of the slowest data I/O, in nanoseconds after `start_ns`
    slowest_after_ns: Option<i64> as Many = |r| r.slowest.map(|io| io.after_ns);

    /// its duration
    slowest_ns: Option<i64> as Many = |r| r.slowest.map(|io| io.duration_ns);

    /// its bytes
    slowest_bytes: Option<i64> as Few = |r| r.slowest.map(|io| io.bytes);

    /// bits, below
    slowest_how: Option<i32> as Few = |r| r.slowest.map(|io| io.how.0);

    /// bytes of the file when it was closed
    size: Option<i64> as Few = |r| r.size;

    /// process that opened it
    tgid: Option<i32> as Few = |r| r.tgid;

    /// name of the task that opened it; for a thread of io_uring the name of its process
    comm: Option<Text> as Few = |r| r.comm;

    /// cgroup v2 id of that task
    cgroup: Option<i64> as Few = |r| r.cgroup;

    /// descriptor that the open returned
    fd: Option<i32> as Few = |r| r.fd;

    /// inode number
    ino: Option<i64> as Many = |r| r.ino;

    /// device number of the file system on which `ino` counts
    fs_dev: Option<i32> as Few = |r| r.fs_dev;

    /// path when the file was first seen
    path: Option<Text> as Few = |r| r.path.as_deref();

    /// histogram of the durations of its reads, below; null if all of them are among `io1` to `io4`, if they could not
    /// be counted (flag 16384), and in recordings made before the column existed
    read_histogram: Option<Text> as Many = |r| r.read_histogram.as_ref();

    /// histogram of the durations of its writes, in the same way
    write_histogram: Option<Text> as Many = |r| r.write_histogram.as_ref();
}

/// One of the data I/Os of a request that are kept individually.
fn data_io(
    after_ns: Option<i64>,
    duration_ns: Option<i64>,
    bytes: Option<i64>,
    how: Option<i32>,
) -> Option<DataIo> {
    Some(DataIo {
        after_ns: after_ns?,
        duration_ns: duration_ns?,
        bytes: bytes.unwrap_or(0),
        how: How(how.unwrap_or(0)),
    })
}

impl Row for Request {
    const TABLE: Table = Table::Requests;

    fn time(&self) -> i64 {
        self.end_ns
    }

    fn shift(&mut self, ns: i64) {
        self.start_ns = self.start_ns.saturating_add(ns);
        self.end_ns = self.end_ns.saturating_add(ns);
    }

    fn encode(rows: &[Request], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(columns: &[Column], i: usize) -> Request {
        let c = Columns(columns);
        // The columns are filled in order, so the first empty one ends the list.
        let first = [
            data_io(c.io1_after_ns(i), c.io1_ns(i), c.io1_bytes(i), c.io1_how(i)),
            data_io(c.io2_after_ns(i), c.io2_ns(i), c.io2_bytes(i), c.io2_how(i)),
            data_io(c.io3_after_ns(i), c.io3_ns(i), c.io3_bytes(i), c.io3_how(i)),
            data_io(c.io4_after_ns(i), c.io4_ns(i), c.io4_bytes(i), c.io4_how(i)),
        ];
        Request {
            end_ns: c.end_ns(i),
            start_ns: c.start_ns(i),
            flags: RequestFlags(c.flags(i)),
            sync: c.sync(i).and_then(SyncKind::from_code),
            open_ns: c.open_ns(i),
            close_ns: c.close_ns(i),
            last_after_ns: c.last_after_ns(i),
            active_ns: c.active_ns(i),
            ios_in: c.ios_in(i),
            ios_out: c.ios_out(i),
            bytes_in: c.bytes_in(i),
            bytes_out: c.bytes_out(i),
            empty_reads: c.empty_reads(i),
            failed: c.failed(i),
            device_ios: c.device_ios(i),
            slept_ios: c.slept_ios(i),
            first: first.into_iter().map_while(|io| io).collect(),
            slowest: data_io(
                c.slowest_after_ns(i),
                c.slowest_ns(i),
                c.slowest_bytes(i),
                c.slowest_how(i),
            ),
            size: c.size(i),
            tgid: c.tgid(i),
            comm: c.comm(i).map(Comm::new),
            cgroup: c.cgroup(i),
            fd: c.fd(i),
            ino: c.ino(i),
            fs_dev: c.fs_dev(i),
            path: c
                .path(i)
                .map(|text| Arc::from(String::from_utf8_lossy(text).as_ref())),
            read_histogram: c.read_histogram(i).and_then(CallHistogram::parse),
            write_histogram: c.write_histogram(i).and_then(CallHistogram::parse),
        }
    }
}
