//! Reads the kernel's information on a loaded program (`BPF_OBJ_GET_INFO_BY_FD`).

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// `struct bpf_prog_info` up to `run_cnt` (include/uapi/linux/bpf.h). Fields not read here have no name. Kernels fill
/// the part they know; the rest stays 0.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct ProgramInfo {
    head: [u64; 24],
    /// Time spent in it while statistics were on.
    pub run_time_ns: u64,
    /// How often it ran while statistics were on.
    pub runs: u64,
}
const _: () = assert!(size_of::<ProgramInfo>() == 208);

#[repr(C)]
struct InfoByFd {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// Asks the kernel about the program behind `fd`.
pub(super) fn program_info(fd: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    let attr = InfoByFd {
        fd: fd.as_raw_fd() as u32,
        info_len: size_of::<ProgramInfo>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the attributes are those of this command and live through the call; the kernel writes at most
    // `info_len` bytes to `info`, all of whose bit patterns are values.
    let r = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_OBJ_GET_INFO_BY_FD,
            &raw const attr,
            size_of::<InfoByFd>(),
        )
    };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(info)
    }
}
