//! Opens files by their inode numbers instead of names (open_by_handle_at(2)). Needs CAP_DAC_READ_SEARCH.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Length of the longest handle created here: 20 bytes for btrfs.
const MAX_HANDLE_BYTES: usize = 24;

/// `struct file_handle` of the kernel, with room for the handle itself.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_HANDLE_BYTES],
}

/// Identity of a file, as one kind of file system encodes it (`include/linux/exportfs.h`, `enum fid_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handle {
    /// `FILEID_INO32_GEN`: ext2, ext3, ext4 and f2fs. They accept generation 0 for any.
    Inode { ino: u32, generation: u32 },
    /// `FILEID_INO32_GEN | XFS_FILEID_TYPE_64FLAG`: xfs, which needs the generation.
    Xfs { ino: u64, generation: u32 },
    /// `FILEID_BTRFS_WITHOUT_PARENT`. Newer kernels accept generation 0 for any.
    Btrfs {
        ino: u64,
        subvolume: u64,
        generation: u32,
    },
    /// `FILEID_KERNFS`: a control group.
    Kernfs(u64),
}

impl Handle {
    fn encode(self) -> FileHandle {
        let mut bytes = Vec::with_capacity(MAX_HANDLE_BYTES);
        let kind = match self {
            Handle::Inode { ino, generation } => {
                bytes.extend_from_slice(&ino.to_ne_bytes());
                bytes.extend_from_slice(&generation.to_ne_bytes());
                0x01
            }
            Handle::Xfs { ino, generation } => {
                bytes.extend_from_slice(&ino.to_ne_bytes());
                bytes.extend_from_slice(&generation.to_ne_bytes());
                0x81
            }
            Handle::Btrfs {
                ino,
                subvolume,
                generation,
            } => {
                bytes.extend_from_slice(&ino.to_ne_bytes());
                bytes.extend_from_slice(&subvolume.to_ne_bytes());
                bytes.extend_from_slice(&generation.to_ne_bytes());
                0x4d
            }
            Handle::Kernfs(id) => {
                bytes.extend_from_slice(&id.to_ne_bytes());
                0xfe
            }
        };
        let mut handle = [0; MAX_HANDLE_BYTES];
        handle[..bytes.len()].copy_from_slice(&bytes);
        FileHandle {
            bytes: bytes.len() as u32,
            kind,
            handle,
        }
    }
}

/// Opens the file with `O_PATH`: nothing is read and no driver is called.
pub(super) fn open(mount: BorrowedFd<'_>, handle: Handle) -> std::io::Result<OwnedFd> {
    let mut handle = handle.encode();
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: `handle` is laid out as the kernel's structure with `bytes` valid bytes behind it, and outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            flags,
        )
    };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Length of the longest handle of any file system (`MAX_HANDLE_SZ`).
const MAX_HANDLE: usize = 128;

/// The generation of the file that `path` leads to, following links: the part of its handle that distinguishes files
/// that had the same inode number. `None` if the file system has no handles, or handles of another kind.
pub(super) fn generation_of(path: &std::path::Path) -> Option<u32> {
    #[repr(C)]
    struct Answer {
        bytes: u32,
        kind: i32,
        handle: [u8; MAX_HANDLE],
    }
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut answer = Answer {
        bytes: MAX_HANDLE as u32,
        kind: 0,
        handle: [0; MAX_HANDLE],
    };
    let mut mount = 0i32;
    // SAFETY: the path ends in NUL, `answer` is laid out as the kernel's structure with room for as many bytes as it says,
    // and all three outlive the call.
    let code = unsafe {
        let path = path.as_ptr();
        let answer = &raw mut answer;
        let mount = &raw mut mount;
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path,
            answer,
            mount,
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    let at = match (answer.kind, answer.bytes) {
        (0x01, 8) => 4,            // FILEID_INO32_GEN
        (0x01, 12) => 0,           // tmpfs
        (0x81, 12) => 8,           // xfs
        (0x4d | 0x4e, 20..) => 16, // btrfs
        _ => return None,
    };
    let word = answer.handle.get(at..at + 4)?.try_into().ok()?;
    (code == 0).then(|| u32::from_ne_bytes(word))
}

/// `struct xfs_bulkstat_req` with room for one answer (`fs/xfs/libxfs/xfs_fs.h`).
#[repr(C)]
struct BulkstatRequest {
    ino: u64,
    flags: u32,
    wanted: u32,
    found: u32,
    group: u32,
    reserved: [u64; 5],
    answer: BulkstatAnswer,
}

/// `struct xfs_bulkstat`.
#[repr(C)]
struct BulkstatAnswer {
    ino: u64,
    sizes_and_times: [u64; 7],
    generation: u32,
    rest: [u32; 31],
}

/// `XFS_IOC_BULKSTAT`: `_IOR('X', 127, struct xfs_bulkstat_req)`, whose number includes the 64-byte header only.
const XFS_IOC_BULKSTAT: u64 = 2 << 30 | 64 << 16 | (b'X' as u64) << 8 | 127;

/// The generation of an inode of the xfs at `mount`. Needs Linux 5.3 and CAP_SYS_ADMIN.
pub(super) fn xfs_generation(mount: BorrowedFd<'_>, ino: u64) -> Option<u32> {
    let answer = BulkstatAnswer {
        ino: 0,
        sizes_and_times: [0; 7],
        generation: 0,
        rest: [0; 31],
    };
    let mut request = BulkstatRequest {
        ino,
        flags: 0,
        wanted: 1,
        found: 0,
        group: 0,
        reserved: [0; 5],
        answer,
    };
    // SAFETY: the request is laid out as the kernel's structure, has room for the one answer requested, and outlives
    // the call; another file system refuses the number.
    let code = unsafe {
        libc::ioctl(
            mount.as_raw_fd(),
            XFS_IOC_BULKSTAT as libc::Ioctl,
            &raw mut request,
        )
    };
    // It returns the first inode at or after the requested one.
    (code == 0 && request.found == 1 && request.answer.ino == ino)
        .then_some(request.answer.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<BulkstatAnswer>(), 192);
        assert_eq!(std::mem::offset_of!(BulkstatRequest, answer), 64);
        assert_eq!(std::mem::offset_of!(BulkstatAnswer, generation), 64);
        assert_eq!(std::mem::offset_of!(FileHandle, handle), 8);
        let lengths = [
            Handle::Inode {
                ino: 1,
                generation: 2,
            },
            Handle::Xfs {
                ino: 1,
                generation: 2,
            },
            Handle::Btrfs {
                ino: 1,
                subvolume: 2,
                generation: 3,
            },
            Handle::Kernfs(1),
        ]
        .map(|h| h.encode().bytes);
        assert_eq!(lengths, [8, 12, 20, 8]);
    }
}
