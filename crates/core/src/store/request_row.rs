//! How a file-level request becomes columns and comes back.

use std::sync::Arc;

use super::column::Column;
use super::frame_encoder::FrameEncoder;
use super::row::Row;
use super::schema::Table;
use crate::model::{CallHistogram, Comm, DataIo, FIRST_IOS, How, Request, RequestFlags, SyncKind};

/// Positions of the columns whose rows repeat a pattern.
const FIRST: usize = 16;
const SLOWEST: usize = FIRST + 4 * FIRST_IOS;
const REST: usize = SLOWEST + 4;

fn detail<'a>(
    rows: &'a [Request],
    e: &mut FrameEncoder,
    of: impl Fn(&'a Request) -> Option<DataIo>,
) {
    e.options(rows.iter().map(|r| of(r).map(|io| io.after_ns)));
    e.options(rows.iter().map(|r| of(r).map(|io| io.duration_ns)));
    e.options(rows.iter().map(|r| of(r).map(|io| io.bytes)));
    e.options(rows.iter().map(|r| of(r).map(|io| i64::from(io.how.0))));
}

fn detail_at(c: &[Column], column: usize, i: usize) -> Option<DataIo> {
    Some(DataIo {
        after_ns: c[column].int(i)?,
        duration_ns: c[column + 1].int(i)?,
        bytes: c[column + 2].int(i).unwrap_or(0),
        how: How(c[column + 3].int(i).unwrap_or(0) as i32),
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
        let wide = |v: Option<i32>| v.map(i64::from);
        e.ints(rows.iter().map(|r| r.end_ns));
        e.ints(rows.iter().map(|r| r.start_ns));
        e.ints(rows.iter().map(|r| i64::from(r.flags.0)));
        e.options(rows.iter().map(|r| r.sync.map(|k| i64::from(k.code()))));
        e.options(rows.iter().map(|r| r.open_ns));
        e.options(rows.iter().map(|r| r.close_ns));
        e.options(rows.iter().map(|r| r.last_after_ns));
        e.ints(rows.iter().map(|r| r.active_ns));
        e.ints(rows.iter().map(|r| r.ios_in));
        e.ints(rows.iter().map(|r| r.ios_out));
        e.ints(rows.iter().map(|r| r.bytes_in));
        e.ints(rows.iter().map(|r| r.bytes_out));
        e.ints(rows.iter().map(|r| r.empty_reads));
        e.ints(rows.iter().map(|r| r.failed));
        e.ints(rows.iter().map(|r| r.device_ios));
        e.ints(rows.iter().map(|r| r.slept_ios));
        for n in 0..FIRST_IOS {
            detail(rows, e, |r| r.first.get(n).copied());
        }
        detail(rows, e, |r| r.slowest);
        e.options(rows.iter().map(|r| r.size));
        e.options(rows.iter().map(|r| wide(r.tgid)));
        e.texts(rows.iter().map(|r| r.comm), |c, out| {
            out.extend_from_slice(c.as_bytes())
        });
        e.options(rows.iter().map(|r| r.cgroup));
        e.options(rows.iter().map(|r| wide(r.fd)));
        e.options(rows.iter().map(|r| r.ino));
        e.options(rows.iter().map(|r| wide(r.fs_dev)));
        e.texts(rows.iter().map(|r| r.path.as_deref()), |p, out| {
            out.extend_from_slice(p.as_bytes())
        });
        let spell =
            |h: &&CallHistogram, out: &mut Vec<u8>| out.extend_from_slice(h.to_string().as_bytes());
        e.texts(rows.iter().map(|r| r.read_histogram.as_ref()), spell);
        e.texts(rows.iter().map(|r| r.write_histogram.as_ref()), spell);
    }

    fn assemble(c: &[Column], i: usize) -> Request {
        let count = |column: usize| c[column].int(i).unwrap_or(0);
        let narrow = |column: usize| c[column].int(i).map(|v| v as i32);
        let path = |text: &[u8]| Arc::from(String::from_utf8_lossy(text).as_ref());
        Request {
            end_ns: count(0),
            start_ns: count(1),
            flags: RequestFlags(count(2) as i32),
            sync: narrow(3).and_then(SyncKind::from_code),
            open_ns: c[4].int(i),
            close_ns: c[5].int(i),
            last_after_ns: c[6].int(i),
            active_ns: count(7),
            ios_in: count(8),
            ios_out: count(9),
            bytes_in: count(10),
            bytes_out: count(11),
            empty_reads: count(12),
            failed: count(13),
            device_ios: count(14),
            slept_ios: count(15),
            first: (0..FIRST_IOS)
                .map_while(|n| detail_at(c, FIRST + 4 * n, i))
                .collect(),
            slowest: detail_at(c, SLOWEST, i),
            size: c[REST].int(i),
            tgid: narrow(REST + 1),
            comm: c[REST + 2].text(i).map(Comm::new),
            cgroup: c[REST + 3].int(i),
            fd: narrow(REST + 4),
            ino: c[REST + 5].int(i),
            fs_dev: narrow(REST + 6),
            path: c[REST + 7].text(i).map(path),
            read_histogram: c[REST + 8].text(i).and_then(CallHistogram::parse),
            write_histogram: c[REST + 9].text(i).and_then(CallHistogram::parse),
        }
    }
}
