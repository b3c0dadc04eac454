//! The events that the BPF programs write, as in `bpf/event.h`, and their translation to the model.

use iolens_core::model::{Class, Comm, DevId, Io, LossReason, Op, Origin};

use super::order::Stamped;

const BIT_START: u8 = 1 << 0;
const BIT_WHO: u8 = 1 << 1;
const BIT_INO: u8 = 1 << 2;
const BIT_FS_DEV: u8 = 1 << 3;
const BIT_ERRNO: u8 = 1 << 6;
const BIT_BIO: u8 = 1 << 7;

const SLOT_CLASH: u16 = 1;
const BEGUN_WITHOUT_SLOT: u16 = 4;

/// `struct io_event`: one completed I/O as stored in its CPU's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct IoEvent {
    pub done_ns: u64,
    pub queue_ns: u64,
    pub device_ns: u64,
    pub sector: u64,
    pub cgroup: u64,
    pub ino: u64,
    pub comm: [u8; 16],
    pub dev: u32,
    pub bytes: u32,
    pub cmd_flags: u32,
    pub tgid: u32,
    pub fs_dev: u32,
    pub merges: u16,
    pub error: u8,
    pub bits: u8,
    pub generation: u32,
    pub origin: u8,
    pub unused: [u8; 3],
    /// The number of its entry plus one, written when the event is finished.
    pub entry: u64,
}
const _: () = assert!(size_of::<IoEvent>() == 104);

impl Stamped for IoEvent {
    fn stamp(&self) -> u64 {
        self.done_ns
    }
}

impl IoEvent {
    /// Converts the event to an I/O with times relative to `start_monotonic_ns`.
    #[inline]
    pub fn to_io(self, start_monotonic_ns: i64) -> Io {
        let has = |bit: u8| self.bits & bit != 0;
        let is_bio = has(BIT_BIO);
        let who = has(BIT_WHO);
        Io {
            done_ns: self.done_ns as i64 - start_monotonic_ns,
            dev: DevId(self.dev as i32),
            op: Op((self.cmd_flags & 0xff) as i32),
            bytes: i64::from(self.bytes),
            queue_ns: (has(BIT_START) && !is_bio).then_some(self.queue_ns as i64),
            device_ns: self.device_ns as i64,
            // A flush has no position; the kernel sets all bits there.
            sector: (self.bytes > 0 && self.sector <= i64::MAX as u64)
                .then_some(self.sector as i64),
            flags: Some((self.cmd_flags >> 8) as i32),
            error: Some(if has(BIT_ERRNO) {
                i32::from(self.error)
            } else {
                errno_of_status(self.error)
            }),
            merges: (!is_bio).then_some(i32::from(self.merges)),
            tgid: who.then_some(self.tgid as i32),
            comm: who.then(|| Comm::new(&self.comm)),
            cgroup: (self.cgroup != 0).then_some(self.cgroup as i64),
            ino: has(BIT_INO).then_some(self.ino as i64),
            generation: has(BIT_INO).then_some(self.generation),
            fs_dev: has(BIT_FS_DEV).then_some(self.fs_dev as i32),
            origin: Origin::from_code(i32::from(self.origin)),
        }
    }
}

/// The errno of a `blk_status_t`, as in the kernel's `blk_errors[]` (block/blk-core.c). Values not in that table are
/// `EIO`.
fn errno_of_status(status: u8) -> i32 {
    match status {
        0 => 0,
        1 => libc::EOPNOTSUPP, // BLK_STS_NOTSUPP
        2 => libc::ETIMEDOUT,  // BLK_STS_TIMEOUT
        3 => libc::ENOSPC,     // BLK_STS_NOSPC
        4 => libc::ENOLINK,    // BLK_STS_TRANSPORT
        5 => libc::EREMOTEIO,  // BLK_STS_TARGET
        6 => libc::EBADE,      // BLK_STS_RESV_CONFLICT (BLK_STS_NEXUS before 6.5)
        7 => libc::ENODATA,    // BLK_STS_MEDIUM
        8 => libc::EILSEQ,     // BLK_STS_PROTECTION
        9 => libc::ENOMEM,     // BLK_STS_RESOURCE
        12 => libc::EAGAIN,    // BLK_STS_AGAIN
        _ => libc::EIO,
    }
}

/// `struct loss_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct LossKey {
    pub dev: u32,
    pub class: u16,
    pub reason: u16,
}
const _: () = assert!(size_of::<LossKey>() == 8);

impl LossKey {
    /// The class under which the kernel counts it.
    pub fn class(self) -> Option<Class> {
        Class::ALL.get(usize::from(self.class)).copied()
    }

    /// The model's reason; `None` if the key counts I/Os that began without a slot, which are not a loss yet.
    pub fn reason(self) -> Option<LossReason> {
        Some(match self.reason {
            0 => LossReason::RingFull,
            SLOT_CLASH => LossReason::SlotClash,
            2 => LossReason::Censored,
            BEGUN_WITHOUT_SLOT => return None,
            _ => LossReason::Unseen,
        })
    }

    /// For I/Os that began without a slot: the key under which they are counted when they complete.
    pub fn ends(self) -> Option<LossKey> {
        (self.reason == BEGUN_WITHOUT_SLOT).then_some(LossKey {
            reason: SLOT_CLASH,
            ..self
        })
    }
}

/// `struct loss_value`, of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct LossValue {
    pub ios: u64,
    pub bytes: u64,
    pub merges: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub epoch: u64,
}
const _: () = assert!(size_of::<LossValue>() == 48);

/// Devices of one set of the table of traced devices.
pub(crate) const DEVICE_WAYS: usize = 8;
/// Multiplicative hash constant for device numbers.
pub(crate) const DEVICE_HASH: u32 = 0x9E37_79B1;
/// Right shift of the product, which yields the number of the set.
pub(crate) const DEVICE_SHIFT: u32 = 22;

/// `struct device_set`: device numbers, 0 for none.
pub(crate) type DeviceSet = [u32; DEVICE_WAYS];

/// `struct disk_name`: ended by NUL.
pub(crate) type DiskName = [u8; 32];

/// `struct wbt_throttled`: windows, and the largest step.
pub(crate) type RawWbtThrottled = [u64; 2];

/// Write-back of a device that the kernel throttled above the block layer (wbt).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WbtThrottled {
    /// Windows (about 100 ms each) with throttling.
    pub windows: u64,
    /// Largest scale step: how many steps the limit of writes in flight was lowered.
    pub max_step: u64,
}

/// The name without its padding.
pub(crate) fn text_of_disk_name(name: &DiskName) -> String {
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

// SAFETY: both are `repr(C)` structs of integers without padding; every bit pattern is a value.
unsafe impl aya::Pod for LossKey {}
// SAFETY: as above.
unsafe impl aya::Pod for LossValue {}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bits: u8, origin: Origin) -> IoEvent {
        IoEvent {
            done_ns: 5_000,
            queue_ns: 100,
            device_ns: 1_000,
            sector: 8,
            cgroup: 7,
            ino: 9,
            comm: *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
            dev: 7 << 20 | 3,
            bytes: 4096,
            cmd_flags: 1 | 1 << 11,
            tgid: 42,
            fs_dev: 254 << 20,
            merges: 2,
            error: 0,
            bits,
            generation: 77,
            origin: origin as u8,
            unused: [0; 3],
            entry: 1,
        }
    }

    #[test]
    fn missing_kernel_values_are_absent() {
        let io = IoEvent {
            cgroup: 0,
            ..event(0, Origin::Unknown)
        }
        .to_io(4_000);
        assert_eq!(
            (io.done_ns, io.queue_ns, io.device_ns),
            (1_000, None, 1_000)
        );
        assert_eq!(
            (io.tgid, io.comm, io.cgroup, io.inode(), io.fs_dev),
            (None, None, None, None, None)
        );
        assert_eq!(
            (io.origin, io.merges, io.sector),
            (Origin::Unknown, Some(2), Some(8))
        );
    }

    #[test]
    fn a_page_without_a_process_may_still_have_a_cgroup() {
        let io = event(BIT_INO, Origin::Writeback).to_io(0);
        assert_eq!(
            (io.tgid, io.comm, io.cgroup, io.ino),
            (None, None, Some(7), Some(9))
        );
    }

    #[test]
    fn known_data_is_present() {
        let io = event(
            BIT_START | BIT_WHO | BIT_INO | BIT_FS_DEV,
            Origin::Writeback,
        )
        .to_io(0);
        assert_eq!(
            (io.op, io.flags, io.dev),
            (Op::WRITE, Some(Io::FLAG_SYNC), DevId::new(7, 3))
        );
        assert_eq!(
            (io.queue_ns, io.tgid, io.cgroup),
            (Some(100), Some(42), Some(7))
        );
        assert_eq!(
            (io.comm, io.ino, io.fs_dev),
            (Some(Comm::new(b"fio")), Some(9), Some(254 << 20))
        );
        assert_eq!(io.generation, Some(77));
        assert_eq!(io.origin, Origin::Writeback);
    }

    #[test]
    fn the_name_of_a_disk_ends_at_its_padding() {
        let mut name: DiskName = [0; 32];
        name[..9].copy_from_slice(b"nvme0c0n1");
        assert_eq!(text_of_disk_name(&name), "nvme0c0n1");
        assert_eq!(text_of_disk_name(&[b'x'; 32]).len(), 32);
    }

    #[test]
    fn a_bio_has_no_queue_time_and_no_merges() {
        let io = event(BIT_BIO | BIT_START, Origin::Unknown).to_io(0);
        assert_eq!((io.queue_ns, io.merges, io.device_ns), (None, None, 1_000));
    }

    #[test]
    fn errors_of_old_and_new_kernels_become_errnos() {
        let error = |error, bits| {
            IoEvent {
                error,
                bits,
                ..event(0, Origin::Unknown)
            }
            .to_io(0)
            .error
        };
        assert_eq!(error(10, 0), Some(libc::EIO), "BLK_STS_IOERR");
        assert_eq!(error(3, 0), Some(libc::ENOSPC));
        assert_eq!(error(libc::ENODATA as u8, BIT_ERRNO), Some(libc::ENODATA));
        assert_eq!(error(0, 0), Some(0));
    }
}
