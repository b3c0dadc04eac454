//! Block I/Os, one row each, ordered by completion. They are most of a recording's bytes.

use std::ops::BitOr;

use crate::model::{Comm, DevId, Io, Op, Origin};
use crate::store::cell::Text;
use crate::store::column::{Column, Texts};
use crate::store::frame_encoder::FrameEncoder;
use crate::store::row::Row;
use crate::store::schema::Table;

table! {
    logged "io" of Io, by done_ns, lasting queue_ns device_ns;

    /// completion; the table's time
    done_ns: i64 as Time from 0 to MAX_TIME_NS = |r| r.done_ns;

    /// device number of the whole disk, never of a partition
    dev: i32 as Few = |r| r.dev.0;

    /// operation, below
    op: i32 as Few = |r| r.op.0;

    /// bytes transferred; 0 for flushes
    bytes: i64 as Few from 0 = |r| r.bytes;

    /// start (accounted by the block layer) to issue (handed to the driver)
    queue_ns: Option<i64> as Many from 0 to MAX_TIME_NS = |r| r.queue_ns;

    /// issue to completion
    device_ns: i64 as Many from 0 to MAX_TIME_NS = |r| r.device_ns;

    /// first sector, on the whole disk
    sector: Option<i64> as Many = |r| r.sector;

    /// the kernel's `cmd_flags >> 8`, below
    flags: Option<i32> as Few = |r| r.flags;

    /// 0, or the positive errno with which the device failed it
    error: Option<i32> as Few = |r| r.error;

    /// bios or requests merged into this one, as `/proc/diskstats` counts merges
    merges: Option<i32> as Few = |r| r.merges;

    /// process that caused it, as far as `origin` says
    tgid: Option<i32> as Few = |r| r.tgid;

    /// name of that task, at most 16 bytes
    comm: Option<Text> as Few = |r| r.comm;

    /// cgroup v2 id (inode number of the control group's directory)
    cgroup: Option<i64> as Few = |r| r.cgroup;

    /// inode number of the file behind it
    ino: Option<i64> as Few = |r| r.ino;

    /// device number of the file system on which `ino` counts
    fs_dev: Option<i32> as Few = |r| r.fs_dev;

    /// how far `tgid` can be trusted as the cause, below; null is the same as 3
    origin: Option<i32> as Few = |r| Some(r.origin.code());

    /// which of the files that had the inode number `ino` (the kernel's `i_generation`, 0 to 4294967295); a file is
    /// identified by `fs_dev`, `ino` and `generation` together
    generation: Option<i64> as Few = |r| r.generation.map(i64::from);
}

/// Optional fields of [`Io`] that a reader decodes. The others are returned as unknown. Time of completion, device,
/// operation, bytes and device time are always decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoColumns(pub(in crate::store) u32);

impl IoColumns {
    /// The required fields alone.
    pub const REQUIRED: IoColumns = IoColumns(0);
    /// [`Io::queue_ns`].
    pub const QUEUE: IoColumns = IoColumns(1 << at::queue_ns);
    /// [`Io::sector`].
    pub const SECTOR: IoColumns = IoColumns(1 << at::sector);
    /// [`Io::flags`].
    pub const FLAGS: IoColumns = IoColumns(1 << at::flags);
    /// [`Io::error`].
    pub const ERROR: IoColumns = IoColumns(1 << at::error);
    /// [`Io::merges`].
    pub const MERGES: IoColumns = IoColumns(1 << at::merges);
    /// [`Io::tgid`].
    pub const TGID: IoColumns = IoColumns(1 << at::tgid);
    /// [`Io::comm`].
    pub const COMM: IoColumns = IoColumns(1 << at::comm);
    /// [`Io::cgroup`].
    pub const CGROUP: IoColumns = IoColumns(1 << at::cgroup);
    /// [`Io::ino`], [`Io::generation`] and [`Io::fs_dev`].
    pub const FILE: IoColumns = IoColumns(1 << at::ino | 1 << at::generation | 1 << at::fs_dev);
    /// [`Io::origin`].
    pub const ORIGIN: IoColumns = IoColumns(1 << at::origin);
    /// Everything.
    pub const ALL: IoColumns = IoColumns(u32::MAX);

    /// This set without `other`.
    pub const fn without(self, other: IoColumns) -> IoColumns {
        IoColumns(self.0 & !other.0)
    }

    /// Whether this set includes all of `other`.
    pub fn contains(self, other: IoColumns) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for IoColumns {
    type Output = IoColumns;

    fn bitor(self, other: IoColumns) -> IoColumns {
        IoColumns(self.0 | other.0)
    }
}

impl Row for Io {
    const TABLE: Table = Table::Io;

    fn time(&self) -> i64 {
        self.done_ns
    }

    fn shift(&mut self, ns: i64) {
        self.done_ns = self.done_ns.saturating_add(ns);
    }

    fn encode(rows: &[Io], e: &mut FrameEncoder) {
        put(rows, e);
    }

    fn assemble(c: &[Column], i: usize) -> Io {
        let mut io = [BLANK];
        IoValues::of(c).fill(i, &mut io);
        let [io] = io;
        io
    }

    fn assemble_all(c: &[Column], n: usize, out: &mut Vec<Io>) {
        let first = out.len();
        out.resize(first + n, BLANK);
        let values = IoValues::of(c);
        // Column by column, but with so few rows at a time that they stay in the cache.
        for (i, rows) in out[first..].chunks_mut(ROWS_AT_ONCE).enumerate() {
            values.fill(i * ROWS_AT_ONCE, rows);
        }
    }
}

const ROWS_AT_ONCE: usize = 64;

/// An I/O whose optional fields are all unknown.
const BLANK: Io = Io::new(0, DevId(0), Op(0), 0, None, 0);

/// Decoded columns of the table.
struct IoValues<'a> {
    columns: &'a [Column],
    comms: Vec<Comm>,
}

impl<'a> IoValues<'a> {
    fn of(columns: &'a [Column]) -> IoValues<'a> {
        let words = match &columns[at::comm] {
            Column::Texts(texts) => texts.dictionary.as_slice(),
            _ => &[],
        };
        IoValues {
            columns,
            comms: words.iter().map(|word| Comm::new(word)).collect(),
        }
    }

    /// Fills `rows`, which must be blank, from the columns, starting with row `first`.
    #[rustfmt::skip] // a line for each column
    fn fill(&self, first: usize, rows: &mut [Io]) {
        self.set(at::done_ns, first, rows, |io, v| io.done_ns = v);
        self.set(at::dev, first, rows, |io, v| io.dev = DevId(v as i32));
        self.set(at::op, first, rows, |io, v| io.op = Op(v as i32));
        self.set(at::bytes, first, rows, |io, v| io.bytes = v);
        self.set(at::queue_ns, first, rows, |io, v| io.queue_ns = Some(v));
        self.set(at::device_ns, first, rows, |io, v| io.device_ns = v);
        self.set(at::sector, first, rows, |io, v| io.sector = Some(v));
        self.set(at::flags, first, rows, |io, v| io.flags = Some(v as i32));
        self.set(at::error, first, rows, |io, v| io.error = Some(v as i32));
        self.set(at::merges, first, rows, |io, v| io.merges = Some(v as i32));
        self.set(at::tgid, first, rows, |io, v| io.tgid = Some(v as i32));
        self.set(at::comm, first, rows, |io, v| io.comm = self.comms.get(v as usize).copied());
        self.set(at::cgroup, first, rows, |io, v| io.cgroup = Some(v));
        self.set(at::ino, first, rows, |io, v| io.ino = Some(v));
        self.set(at::fs_dev, first, rows, |io, v| io.fs_dev = Some(v as i32));
        self.set(at::origin, first, rows, |io, v| io.origin = Origin::from_code(v as i32));
        self.set(at::generation, first, rows, |io, v| io.generation = u32::try_from(v).ok());
    }

    /// Applies the values of one column to the rows; null values are skipped.
    #[inline]
    fn set(&self, column: usize, first: usize, rows: &mut [Io], put: impl Fn(&mut Io, i64)) {
        let (Column::Ints(ints) | Column::Texts(Texts { index: ints, .. })) = &self.columns[column]
        else {
            return;
        };
        let values = rows.iter_mut().zip(&ints.values[first..]);
        match &ints.valid {
            None => values.for_each(|(io, v)| put(io, *v)),
            Some(valid) => values
                .zip(&valid[first..])
                .filter(|(_, known)| **known)
                .for_each(|((io, v), _)| put(io, *v)),
        }
    }
}
