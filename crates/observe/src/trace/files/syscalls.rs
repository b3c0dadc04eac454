//! Maps the system calls of this machine to the kinds of the BPF programs (`enum kind` of `bpf/files_event.h`).

use libc::c_long;

/// Size of the BPF programs' table.
pub(super) const TABLE: usize = 512;

/// `K_SIZED`: argument 2 is the maximum number of bytes to transfer.
const SIZED: u8 = 0x80;

/// System calls of all architectures.
const KINDS: &[(c_long, u8)] = &[
    (libc::SYS_read, SIZED | 1),
    (libc::SYS_pread64, SIZED | 1),
    (libc::SYS_readv, 1),
    (libc::SYS_preadv, 1),
    (libc::SYS_preadv2, 1),
    (libc::SYS_write, SIZED | 2),
    (libc::SYS_pwrite64, SIZED | 2),
    (libc::SYS_writev, 2),
    (libc::SYS_pwritev, 2),
    (libc::SYS_pwritev2, 2),
    (libc::SYS_copy_file_range, 3),
    (libc::SYS_splice, 3),
    (libc::SYS_sendfile, 4),
    (libc::SYS_openat, 6),
    (libc::SYS_openat2, 7),
    (libc::SYS_close, 9),
    (libc::SYS_dup, 10),
    (libc::SYS_dup3, 11),
    (libc::SYS_fcntl, 12),
    (libc::SYS_close_range, 13),
    (libc::SYS_mmap, 14),
    (libc::SYS_fsync, 15),
    (libc::SYS_fdatasync, 16),
    (libc::SYS_sync_file_range, 17),
    (libc::SYS_syncfs, 18),
    (libc::SYS_execve, 19),
    (libc::SYS_execveat, 19),
    (libc::SYS_io_submit, 20),
    (libc::SYS_open_by_handle_at, 21),
];

/// System calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[(c_long, u8)] = &[
    (libc::SYS_open, 5),
    (libc::SYS_creat, 8),
    (libc::SYS_dup2, 11),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(c_long, u8)] = &[];

/// The table by system call number.
pub(super) fn kinds() -> [u8; TABLE] {
    let mut table = [0; TABLE];
    for (number, kind) in KINDS.iter().chain(OLD) {
        if let Some(place) = usize::try_from(*number).ok().and_then(|n| table.get_mut(n)) {
            *place = *kind;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_its_place_and_others_have_none() {
        let table = kinds();
        assert_eq!(
            table.iter().filter(|k| **k != 0).count(),
            KINDS.len() + OLD.len()
        );
        assert_eq!(table[libc::SYS_pread64 as usize], 0x81);
        assert_eq!(
            table[libc::SYS_preadv as usize],
            1,
            "argument 2 is a number of buffers"
        );
        assert_eq!(table[libc::SYS_getpid as usize], 0);
    }
}
