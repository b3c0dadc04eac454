//! How each observation becomes columns and comes back.

use super::column::{Column, Texts};
use super::frame_encoder::FrameEncoder;
use super::schema::Table;
use crate::model::{
    CgroupSample, Class, ClassCounters, Comm, CounterSample, DevId, DiskCounters, FlushCounters,
    Inode, Io, LossReason, Lost, Mark, Name, Named, Op, Origin, PressureSample,
};

/// A row of one of the recording's tables.
pub(crate) trait Row: Clone {
    const TABLE: Table;

    /// The instant by which the table is ordered.
    fn time(&self) -> i64;

    /// Moves all instants of the row to `ns` later.
    fn shift(&mut self, ns: i64);

    /// Hands the values of every column to `e`, in the order of the table's schema.
    fn encode(rows: &[Self], e: &mut FrameEncoder);

    /// Row `i` of decoded columns. Required columns have been checked: a missing value there reads as 0 or "".
    fn assemble(columns: &[Column], i: usize) -> Self;

    /// Appends the first `n` rows of decoded columns.
    fn assemble_all(columns: &[Column], n: usize, out: &mut Vec<Self>) {
        out.extend((0..n).map(|i| Self::assemble(columns, i)));
    }
}

/// Positions of the optional `io` columns, for [`super::IoColumns`].
pub(crate) mod io_column {
    pub const QUEUE: usize = 4;
    pub const DEVICE: usize = 5;
    pub const SECTOR: usize = 6;
    pub const FLAGS: usize = 7;
    pub const ERROR: usize = 8;
    pub const MERGES: usize = 9;
    pub const TGID: usize = 10;
    pub const COMM: usize = 11;
    pub const CGROUP: usize = 12;
    pub const INO: usize = 13;
    pub const FS_DEV: usize = 14;
    pub const ORIGIN: usize = 15;
    pub const GENERATION: usize = 16;
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
        let wide = |v: Option<i32>| v.map(i64::from);
        e.ints(rows.iter().map(|r| r.done_ns));
        e.ints(rows.iter().map(|r| i64::from(r.dev.0)));
        e.ints(rows.iter().map(|r| i64::from(r.op.0)));
        e.ints(rows.iter().map(|r| r.bytes));
        e.options(rows.iter().map(|r| r.queue_ns));
        e.ints(rows.iter().map(|r| r.device_ns));
        e.options(rows.iter().map(|r| r.sector));
        e.options(rows.iter().map(|r| wide(r.flags)));
        e.options(rows.iter().map(|r| wide(r.error)));
        e.options(rows.iter().map(|r| wide(r.merges)));
        e.options(rows.iter().map(|r| wide(r.tgid)));
        e.texts(rows.iter().map(|r| r.comm), |c, out| {
            out.extend_from_slice(c.as_bytes())
        });
        e.options(rows.iter().map(|r| r.cgroup));
        e.options(rows.iter().map(|r| r.ino));
        e.options(rows.iter().map(|r| wide(r.fs_dev)));
        e.ints(rows.iter().map(|r| i64::from(r.origin.code())));
        e.options(rows.iter().map(|r| r.generation.map(i64::from)));
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
        // Column by column, but few enough rows at a time that they stay in the cache.
        for (i, rows) in out[first..].chunks_mut(ROWS_AT_ONCE).enumerate() {
            values.fill(i * ROWS_AT_ONCE, rows);
        }
    }
}

const ROWS_AT_ONCE: usize = 64;

/// An I/O whose optional fields are all unknown.
const BLANK: Io = Io::new(0, DevId(0), Op(0), 0, None, 0);

/// Decoded columns of the `io` table.
struct IoValues<'a> {
    columns: &'a [Column],
    comms: Vec<Comm>,
}

impl<'a> IoValues<'a> {
    fn of(columns: &'a [Column]) -> IoValues<'a> {
        let words = match &columns[io_column::COMM] {
            Column::Texts(texts) => texts.dictionary.as_slice(),
            _ => &[],
        };
        IoValues {
            columns,
            comms: words.iter().map(|word| Comm::new(word)).collect(),
        }
    }

    /// Fills `rows`, which are blank, from row `first` of the columns on.
    fn fill(&self, first: usize, rows: &mut [Io]) {
        self.set(0, first, rows, |io, v| io.done_ns = v);
        self.set(1, first, rows, |io, v| io.dev = DevId(v as i32));
        self.set(2, first, rows, |io, v| io.op = Op(v as i32));
        self.set(3, first, rows, |io, v| io.bytes = v);
        self.set(io_column::QUEUE, first, rows, |io, v| io.queue_ns = Some(v));
        self.set(io_column::DEVICE, first, rows, |io, v| io.device_ns = v);
        self.set(io_column::SECTOR, first, rows, |io, v| io.sector = Some(v));
        self.set(io_column::FLAGS, first, rows, |io, v| {
            io.flags = Some(v as i32)
        });
        self.set(io_column::ERROR, first, rows, |io, v| {
            io.error = Some(v as i32)
        });
        self.set(io_column::MERGES, first, rows, |io, v| {
            io.merges = Some(v as i32)
        });
        self.set(io_column::TGID, first, rows, |io, v| {
            io.tgid = Some(v as i32)
        });
        self.set(io_column::COMM, first, rows, |io, v| {
            io.comm = self.comms.get(v as usize).copied()
        });
        self.set(io_column::CGROUP, first, rows, |io, v| io.cgroup = Some(v));
        self.set(io_column::INO, first, rows, |io, v| io.ino = Some(v));
        self.set(io_column::FS_DEV, first, rows, |io, v| {
            io.fs_dev = Some(v as i32)
        });
        self.set(io_column::ORIGIN, first, rows, |io, v| {
            io.origin = Origin::from_code(v as i32)
        });
        self.set(io_column::GENERATION, first, rows, |io, v| {
            io.generation = u32::try_from(v).ok()
        });
    }

    /// Hands each row its value of one column, where it has one.
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

impl Row for CounterSample {
    const TABLE: Table = Table::Counters;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[CounterSample], e: &mut FrameEncoder) {
        // Counters are u64 and stored as i64: equal bits, so that a wrapped in_flight comes back as it was.
        let class = |e: &mut FrameEncoder, of: fn(&CounterSample) -> Option<ClassCounters>| {
            e.options(rows.iter().map(|r| of(r).map(|c| c.ios as i64)));
            e.options(rows.iter().map(|r| of(r).map(|c| c.merges as i64)));
            e.options(rows.iter().map(|r| of(r).map(|c| c.sectors as i64)));
            e.options(rows.iter().map(|r| of(r).map(|c| c.ticks_ms as i64)));
        };
        e.ints(rows.iter().map(|r| r.at_ns));
        e.ints(rows.iter().map(|r| i64::from(r.dev.0)));
        class(e, |r| Some(r.counters.read));
        class(e, |r| Some(r.counters.write));
        e.ints(rows.iter().map(|r| r.counters.in_flight as i64));
        e.ints(rows.iter().map(|r| r.counters.io_ticks_ms as i64));
        e.ints(rows.iter().map(|r| r.counters.time_in_queue_ms as i64));
        class(e, |r| r.counters.discard);
        e.options(rows.iter().map(|r| r.counters.flush.map(|f| f.ios as i64)));
        e.options(
            rows.iter()
                .map(|r| r.counters.flush.map(|f| f.ticks_ms as i64)),
        );
    }

    fn assemble(c: &[Column], i: usize) -> CounterSample {
        let value = |column: usize| c[column].int(i).unwrap_or(0) as u64;
        let class = |first: usize| ClassCounters {
            ios: value(first),
            merges: value(first + 1),
            sectors: value(first + 2),
            ticks_ms: value(first + 3),
        };
        CounterSample {
            at_ns: c[0].int(i).unwrap_or(0),
            dev: DevId(value(1) as i32),
            counters: DiskCounters {
                read: class(2),
                write: class(6),
                in_flight: value(10),
                io_ticks_ms: value(11),
                time_in_queue_ms: value(12),
                discard: c[13].int(i).map(|_| class(13)),
                flush: c[17].int(i).map(|_| FlushCounters {
                    ios: value(17),
                    ticks_ms: value(18),
                }),
            },
        }
    }
}

impl Row for Lost {
    const TABLE: Table = Table::Lost;

    fn time(&self) -> i64 {
        self.to_ns
    }

    fn shift(&mut self, ns: i64) {
        self.from_ns = self.from_ns.saturating_add(ns);
        self.to_ns = self.to_ns.saturating_add(ns);
    }

    fn encode(rows: &[Lost], e: &mut FrameEncoder) {
        e.ints(rows.iter().map(|r| r.from_ns));
        e.ints(rows.iter().map(|r| r.to_ns));
        e.texts(rows.iter().map(|r| Some(r.reason)), |r, out| {
            out.extend_from_slice(r.name().as_bytes())
        });
        e.options(rows.iter().map(|r| r.dev.map(|d| i64::from(d.0))));
        e.texts(rows.iter().map(|r| r.class), |c, out| {
            out.extend_from_slice(c.name().as_bytes())
        });
        e.options(rows.iter().map(|r| r.ios));
        e.options(rows.iter().map(|r| r.bytes));
        e.options(rows.iter().map(|r| r.merges));
    }

    fn assemble(c: &[Column], i: usize) -> Lost {
        let reason = c[2]
            .text(i)
            .and_then(|t| std::str::from_utf8(t).ok())
            .and_then(LossReason::from_name);
        let class = |name: &[u8]| Class::ALL.into_iter().find(|c| c.name().as_bytes() == name);
        Lost {
            from_ns: c[0].int(i).unwrap_or(0),
            to_ns: c[1].int(i).unwrap_or(0),
            // A reason of a later version is still a loss; "import" claims least about its cause.
            reason: reason.unwrap_or(LossReason::Import),
            dev: c[3].int(i).map(|d| DevId(d as i32)),
            class: c[4].text(i).and_then(class),
            ios: c[5].int(i),
            bytes: c[6].int(i),
            merges: c[7].int(i),
        }
    }
}

impl Row for Mark {
    const TABLE: Table = Table::Marks;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[Mark], e: &mut FrameEncoder) {
        e.ints(rows.iter().map(|r| r.at_ns));
        e.texts(rows.iter().map(|r| Some(r.kind.as_str())), |t, out| {
            out.extend_from_slice(t.as_bytes())
        });
        e.texts(rows.iter().map(|r| Some(r.text.as_str())), |t, out| {
            out.extend_from_slice(t.as_bytes())
        });
    }

    fn assemble(c: &[Column], i: usize) -> Mark {
        let text = |column: usize| {
            String::from_utf8_lossy(c[column].text(i).unwrap_or_default()).into_owned()
        };
        Mark {
            at_ns: c[0].int(i).unwrap_or(0),
            kind: text(1),
            text: text(2),
        }
    }
}

impl Row for PressureSample {
    const TABLE: Table = Table::Pressure;

    fn time(&self) -> i64 {
        self.to_ns
    }

    fn shift(&mut self, ns: i64) {
        self.from_ns = self.from_ns.saturating_add(ns);
        self.to_ns = self.to_ns.saturating_add(ns);
        self.timer_due_ns = self.timer_due_ns.map(|due_ns| due_ns.saturating_add(ns));
    }

    fn encode(rows: &[PressureSample], e: &mut FrameEncoder) {
        e.ints(rows.iter().map(|r| r.from_ns));
        e.ints(rows.iter().map(|r| r.to_ns));
        e.options(rows.iter().map(|r| r.cpus.map(i64::from)));
        e.options(rows.iter().map(|r| r.cpu_some_ns));
        e.options(rows.iter().map(|r| r.io_some_ns));
        e.options(rows.iter().map(|r| r.io_full_ns));
        e.options(rows.iter().map(|r| r.steal_ns));
        e.options(rows.iter().map(|r| r.runnable.map(i64::from)));
        e.options(rows.iter().map(|r| r.timer_due_ns));
        e.options(rows.iter().map(|r| r.timer_late_ns));
    }

    fn assemble(c: &[Column], i: usize) -> PressureSample {
        let small = |column: usize| c[column].int(i).and_then(|n| i32::try_from(n).ok());
        PressureSample {
            from_ns: c[0].int(i).unwrap_or(0),
            to_ns: c[1].int(i).unwrap_or(0),
            cpus: small(2),
            cpu_some_ns: c[3].int(i),
            io_some_ns: c[4].int(i),
            io_full_ns: c[5].int(i),
            steal_ns: c[6].int(i),
            runnable: small(7),
            timer_due_ns: c[8].int(i),
            timer_late_ns: c[9].int(i),
        }
    }
}

impl Row for CgroupSample {
    const TABLE: Table = Table::Cgroups;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[CgroupSample], e: &mut FrameEncoder) {
        e.ints(rows.iter().map(|r| r.at_ns));
        e.options(rows.iter().map(|r| r.cgroup));
        e.options(rows.iter().map(|r| r.tgid.map(i64::from)));
        e.texts(rows.iter().map(|r| Some(r.path.as_str())), |t, out| {
            out.extend_from_slice(t.as_bytes())
        });
        e.options(rows.iter().map(|r| r.dev.map(|d| i64::from(d.0))));
        e.options(rows.iter().map(|r| r.read_bytes_per_s));
        e.options(rows.iter().map(|r| r.write_bytes_per_s));
        e.options(rows.iter().map(|r| r.read_ios_per_s));
        e.options(rows.iter().map(|r| r.write_ios_per_s));
        e.options(rows.iter().map(|r| r.latency_target_ns));
        e.options(rows.iter().map(|r| r.weight));
        e.options(rows.iter().map(|r| r.memory_max));
        e.options(rows.iter().map(|r| r.memory_high));
        e.options(rows.iter().map(|r| r.io_some_ns));
        e.options(rows.iter().map(|r| r.io_full_ns));
    }

    fn assemble(c: &[Column], i: usize) -> CgroupSample {
        let path = String::from_utf8_lossy(c[3].text(i).unwrap_or_default()).into_owned();
        CgroupSample {
            at_ns: c[0].int(i).unwrap_or(0),
            cgroup: c[1].int(i),
            tgid: c[2].int(i).and_then(|n| i32::try_from(n).ok()),
            path,
            dev: c[4].int(i).map(|d| DevId(d as i32)),
            read_bytes_per_s: c[5].int(i),
            write_bytes_per_s: c[6].int(i),
            read_ios_per_s: c[7].int(i),
            write_ios_per_s: c[8].int(i),
            latency_target_ns: c[9].int(i),
            weight: c[10].int(i),
            memory_max: c[11].int(i),
            memory_high: c[12].int(i),
            io_some_ns: c[13].int(i),
            io_full_ns: c[14].int(i),
        }
    }
}

impl Row for Name {
    const TABLE: Table = Table::Names;

    fn time(&self) -> i64 {
        self.at_ns
    }

    fn shift(&mut self, ns: i64) {
        self.at_ns = self.at_ns.saturating_add(ns);
    }

    fn encode(rows: &[Name], e: &mut FrameEncoder) {
        let number = |of: Named| match of {
            Named::File(f) => (
                Some(i64::from(f.fs_dev)),
                f.ino,
                f.generation.map(i64::from),
            ),
            Named::Cgroup(id) | Named::Pod(id) => (None, id, None),
            Named::Unknown => (None, 0, None),
        };
        e.ints(rows.iter().map(|r| r.at_ns));
        e.texts(rows.iter().map(|r| r.of.kind().or(Some(""))), |t, out| {
            out.extend_from_slice(t.as_bytes())
        });
        e.options(rows.iter().map(|r| number(r.of).0));
        e.ints(rows.iter().map(|r| number(r.of).1));
        e.texts(rows.iter().map(|r| Some(r.text.as_str())), |t, out| {
            out.extend_from_slice(t.as_bytes())
        });
        e.options(rows.iter().map(|r| number(r.of).2));
    }

    fn assemble(c: &[Column], i: usize) -> Name {
        let id = c[3].int(i).unwrap_or(0);
        let generation = c[5].int(i).and_then(|g| u32::try_from(g).ok());
        let of = match (c[1].text(i), c[2].int(i)) {
            (Some(b"file"), Some(fs_dev)) => Named::File(Inode {
                fs_dev: fs_dev as i32,
                ino: id,
                generation,
            }),
            (Some(b"cgroup"), _) => Named::Cgroup(id),
            (Some(b"pod"), _) => Named::Pod(id),
            _ => Named::Unknown,
        };
        let text = String::from_utf8_lossy(c[4].text(i).unwrap_or_default()).into_owned();
        Name {
            at_ns: c[0].int(i).unwrap_or(0),
            of,
            text,
        }
    }
}
