//! One block I/O: operation, class, origin, flags.

use super::{DevId, Inode, KernelThread};

/// The kernel's `REQ_OP_*` number of a request (`include/linux/blk_types.h`), kept as it was seen.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Op(pub i32);

impl Op {
    /// `REQ_OP_READ`.
    pub const READ: Op = Op(0);
    /// `REQ_OP_WRITE`.
    pub const WRITE: Op = Op(1);
    /// `REQ_OP_FLUSH`.
    pub const FLUSH: Op = Op(2);
    /// `REQ_OP_DISCARD`.
    pub const DISCARD: Op = Op(3);
    /// `REQ_OP_SECURE_ERASE`.
    pub const SECURE_ERASE: Op = Op(5);
    /// `REQ_OP_WRITE_ZEROES`.
    pub const WRITE_ZEROES: Op = Op(9);

    /// The class under which `/proc/diskstats` counts this operation.
    ///
    /// Source: `op_stat_group()` of the kernel: of all but discards odd numbers (secure erase, too) are writes and even
    /// ones reads; flushes are counted apart (`blk_account_io_flush`).
    #[inline]
    pub fn class(self) -> Class {
        match self {
            Op::FLUSH => Class::Flush,
            Op::DISCARD => Class::Discard,
            Op(n) if n & 1 == 1 => Class::Write,
            Op(_) => Class::Read,
        }
    }
}

/// The four I/O classes of the kernel's disk statistics.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Reads.
    Read,
    /// Writes, including the empty write that carries a flush.
    Write,
    /// Discards (trim).
    Discard,
    /// Cache flushes as seen by the device.
    Flush,
}

impl Class {
    /// All classes, in the order of the kernel's statistics; `class as usize` indexes it.
    pub const ALL: [Class; 4] = [Class::Read, Class::Write, Class::Discard, Class::Flush];

    /// Lower-case name, as in JSON keys.
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Write => "write",
            Class::Discard => "discard",
            Class::Flush => "flush",
        }
    }

    /// The class of this name.
    pub fn from_name(name: &[u8]) -> Option<Class> {
        Self::ALL.into_iter().find(|c| c.name().as_bytes() == name)
    }
}

/// How an I/O came to be, that is how far its process can be trusted as its cause.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Past the page cache (`O_DIRECT`), submitted by the process that requested it. In recordings made before
    /// [`Origin::BufferedRead`] and [`Origin::Readahead`] existed, reads into the page cache too.
    Direct,
    /// Written back from the page cache. The inode shows whose data it was; the process is the last one that dirtied
    /// pages of this inode. Without an inode (swap) the process is the submitter.
    Writeback,
    /// File-system metadata, or the journal of a file system other than ext4; the process is the submitter.
    Metadata,
    /// The kernel gave no origin.
    Unknown,
    /// A read into the page cache (or back from swap), submitted by the process that requested it.
    BufferedRead,
    /// A read-ahead of the kernel: data that the process waits for, together with data that it may need next.
    Readahead,
    /// A commit of ext4's journal, written by the journal's thread. The process is one that waits for the commit in
    /// `fsync`, or else that thread. Older recordings store [`Origin::Metadata`] with the thread instead.
    Journal,
    /// Submitted by a kernel worker thread. The process is that of the I/O which was in flight at the same place on the
    /// device above (dm, md). Derived in analysis, never stored.
    Above,
}

impl Origin {
    /// All origins that are stored; the position is the number in recordings.
    pub const ALL: [Origin; 7] = [
        Origin::Direct,
        Origin::Writeback,
        Origin::Metadata,
        Origin::Unknown,
        Origin::BufferedRead,
        Origin::Readahead,
        Origin::Journal,
    ];

    /// Lower-case name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Direct => "direct",
            Origin::Writeback => "writeback",
            Origin::Metadata => "metadata",
            Origin::Unknown => "unknown",
            Origin::BufferedRead => "buffered-read",
            Origin::Readahead => "readahead",
            Origin::Journal => "journal",
            Origin::Above => "layer-above",
        }
    }

    /// Whether the process itself requested the I/O at that time.
    pub fn is_by_submitter(self) -> bool {
        matches!(
            self,
            Origin::Direct | Origin::BufferedRead | Origin::Readahead
        )
    }

    /// The origin stored under `code`; numbers of later versions read as unknown.
    pub fn from_code(code: i32) -> Origin {
        usize::try_from(code)
            .ok()
            .and_then(|i| Self::ALL.get(i).copied())
            .unwrap_or(Origin::Unknown)
    }

    /// The number under which recordings store this origin.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// A task's name as the kernel keeps it: up to 16 bytes, any bytes but NUL. Untrusted: escape it where it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Takes bytes up to the first NUL; whatever is longer than 16 bytes is cut.
    pub fn new(bytes: &[u8]) -> Comm {
        let mut out = [0; 16];
        let n = bytes.len().min(16);
        out[..n].copy_from_slice(&bytes[..n]);
        // Finds the lowest zero byte of all sixteen at once. This runs for every I/O.
        const ONES: u128 = u128::from_ne_bytes([1; 16]);
        let v = u128::from_le_bytes(out);
        let zeros = v.wrapping_sub(ONES) & !v & (ONES << 7);
        let keep = if zeros == 0 {
            u128::MAX
        } else {
            (1 << (zeros.trailing_zeros() / 8 * 8)) - 1
        };
        Comm((v & keep).to_le_bytes())
    }

    /// The bytes without padding.
    pub fn as_bytes(&self) -> &[u8] {
        let n = self.0.iter().position(|b| *b == 0).unwrap_or(16);
        &self.0[..n]
    }

    /// The thread of the kernel that has this name.
    pub fn kernel_thread(&self) -> Option<KernelThread> {
        KernelThread::of(self.as_bytes())
    }

    /// Whether it is a name that normally only kernel threads have; such names reveal nothing about users.
    pub fn is_of_kernel(&self) -> bool {
        self.kernel_thread().is_some()
    }

    /// Whether it is the name of a kernel thread of io_uring, which does not contain the name of its program.
    #[inline]
    pub fn is_of_io_uring(&self) -> bool {
        self.0.starts_with(b"iou-")
    }

    /// All 16 bytes as one number; equal exactly if the names are equal.
    pub fn to_bits(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    /// As text; bytes that are no UTF-8 become U+FFFD. Not escaped for any surface.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

/// One completed block I/O of one device (of one layer: an I/O through a stack is one [`Io`] per layer).
///
/// Three instants: *start* (accounted by the block layer, `block_io_start`), *issue* (handed to the driver, the last
/// one after a requeue) and *done* (last completion). `None` is "the source does not know", never zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Io {
    /// Completion, in nanoseconds since the recording's start.
    pub done_ns: i64,
    /// The whole disk, never a partition.
    pub dev: DevId,
    /// Operation (`REQ_OP_*`).
    pub op: Op,
    /// Bytes transferred (0 for flushes and for the empty write that carries one).
    pub bytes: i64,
    /// Start to issue, in nanoseconds: time in the kernel's queues (S2C - D2C). `None` if the source has no start.
    pub queue_ns: Option<i64>,
    /// Issue to done, in nanoseconds (D2C): the driver, its queue and the device.
    pub device_ns: i64,
    /// First sector, in units of 512 bytes, on the whole disk.
    pub sector: Option<i64>,
    /// The kernel's command flags above the operation (`cmd_flags >> 8`).
    pub flags: Option<i32>,
    /// 0, or the errno-like value with which the device failed it (positive: `EIO` is 5).
    pub error: Option<i32>,
    /// How many bios or requests the block layer merged into this one (as `/proc/diskstats` counts merges).
    pub merges: Option<i32>,
    /// Process (thread group) that caused the I/O, to the extent that [`Io::origin`] says: the submitter, or the
    /// process that last dirtied the file's pages when they are written back.
    pub tgid: Option<i32>,
    /// Name of that task when it submitted or dirtied; of a thread of io_uring that of its process.
    pub comm: Option<Comm>,
    /// Control group (cgroup v2 id, that is the inode number of its directory).
    pub cgroup: Option<i64>,
    /// Inode number of the file behind it.
    pub ino: Option<i64>,
    /// Which of the files that had this inode number (the kernel's `i_generation`).
    pub generation: Option<u32>,
    /// Device of the file system on which `ino` counts (`major << 20 | minor`).
    pub fs_dev: Option<i32>,
    /// How far `tgid` can be trusted as the cause.
    pub origin: Origin,
}

impl Io {
    /// `REQ_SYNC` shifted as in [`Io::flags`] (bit 11 of `cmd_flags`).
    pub const FLAG_SYNC: i32 = 1 << 3;
    /// `REQ_META`.
    pub const FLAG_META: i32 = 1 << 4;
    /// `EOPNOTSUPP`.
    const ERROR_NOT_SUPPORTED: i32 = 95;
    /// `REQ_PREFLUSH`.
    pub const FLAG_PREFLUSH: i32 = 1 << 10;
    /// `REQ_FUA`.
    pub const FLAG_FUA: i32 = 1 << 9;
    /// `REQ_RAHEAD`.
    pub const FLAG_RAHEAD: i32 = 1 << 11;

    /// An I/O with only the required fields known.
    pub const fn new(
        done_ns: i64,
        dev: DevId,
        op: Op,
        bytes: i64,
        queue_ns: Option<i64>,
        device_ns: i64,
    ) -> Io {
        Io {
            done_ns,
            dev,
            op,
            bytes,
            queue_ns,
            device_ns,
            sector: None,
            flags: None,
            error: None,
            merges: None,
            tgid: None,
            comm: None,
            cgroup: None,
            ino: None,
            generation: None,
            fs_dev: None,
            origin: Origin::Unknown,
        }
    }

    /// When it was issued to the driver.
    #[inline]
    pub fn issue_ns(&self) -> i64 {
        self.done_ns - self.device_ns
    }

    /// When the block layer began to account it; the issue time if the start is not known.
    #[inline]
    pub fn start_ns(&self) -> i64 {
        self.issue_ns() - self.queue_ns.unwrap_or(0)
    }

    /// Start to done (S2C), what `iostat` calls await; device time alone if the start is not known.
    #[inline]
    pub fn total_ns(&self) -> i64 {
        self.device_ns + self.queue_ns.unwrap_or(0)
    }

    /// The file behind it.
    #[inline]
    pub fn inode(&self) -> Option<Inode> {
        Some(Inode {
            fs_dev: self.fs_dev?,
            ino: self.ino?,
            generation: self.generation,
        })
    }

    /// This I/O without the name of its program; kernel threads keep their names.
    #[must_use]
    pub fn without_name(&self) -> Io {
        Io {
            comm: self.comm.filter(Comm::is_of_kernel),
            ..*self
        }
    }

    /// Whether the I/O failed. `EOPNOTSUPP` is not a failure: the kernel probes once for an operation, such as the
    /// zeroing of mkfs, and falls back if the device does not offer it.
    pub fn has_failed(&self) -> bool {
        self.error
            .is_some_and(|e| e != 0 && e != Io::ERROR_NOT_SUPPORTED)
    }

    /// Whether it carries a flush (`REQ_PREFLUSH`), or must itself reach the medium (`REQ_FUA`).
    #[inline]
    pub fn is_forced(&self) -> bool {
        self.flags
            .is_some_and(|f| f & (Io::FLAG_PREFLUSH | Io::FLAG_FUA) != 0)
    }

    /// Class under which the kernel's statistics count it.
    #[inline]
    pub fn class(&self) -> Class {
        self.op.class()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_the_kernels_grouping() {
        assert_eq!(Op::READ.class(), Class::Read);
        assert_eq!(Op::WRITE_ZEROES.class(), Class::Write);
        assert_eq!(Op::SECURE_ERASE.class(), Class::Write);
        assert_eq!(Op::DISCARD.class(), Class::Discard);
        assert_eq!(Op::FLUSH.class(), Class::Flush);
        assert_eq!(Op(7).class(), Class::Write, "zone append");
    }

    #[test]
    fn numbers_of_origins_never_change() {
        let names = [0, 1, 2, 3, 4, 5, 6, 7, -1].map(|code| Origin::from_code(code).name());
        let expected = [
            "direct",
            "writeback",
            "metadata",
            "unknown",
            "buffered-read",
            "readahead",
            "journal",
            "unknown",
            "unknown",
        ];
        assert_eq!(names, expected);
        assert!(
            Origin::ALL
                .iter()
                .all(|o| Origin::from_code(o.code()) == *o)
        );
    }

    #[test]
    fn comm_ends_at_nul_and_is_cut_at_sixteen() {
        assert_eq!(Comm::new(b"fio\0junk").as_bytes(), b"fio");
        assert_eq!(
            Comm::new(b"0123456789abcdefXYZ").as_bytes(),
            b"0123456789abcdef"
        );
        assert_eq!(Comm::new(b"").as_bytes(), b"");
        assert_eq!(Comm::new(b"\0after").as_bytes(), b"");
        assert_eq!(
            Comm::new(b"a\x01\x80\xff\0\x01\0junk, 16 b").as_bytes(),
            b"a\x01\x80\xff"
        );
    }
}
