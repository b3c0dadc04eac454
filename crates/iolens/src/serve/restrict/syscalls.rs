//! Seccomp filters: the system calls that each kind of thread may make. All others fail with EPERM.
//!
//! Filters accumulate: a thread that inherits the recorder's filter can only be restricted further. So the recorder's
//! list also contains the calls of the other roles, and calls that only one role needs are in lists of their own.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The role of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Records, and starts the threads of the others.
    Recorder,
    /// Answers requests.
    Reader,
    /// Copies recordings elsewhere.
    Shipper,
    /// Starts the commands of findings, which inherit its filter.
    Commands,
}

/// Restricts this thread, and those that it starts, to the calls of `role`.
///
/// # Errors
/// The kernel does not support filters, or not on this architecture.
pub fn allow_only(role: Role) -> Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .context("there is no list for this machine")?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for list in lists(role) {
        rules.extend(list.iter().map(|call| (*call, Vec::new())));
    }
    rules.insert(libc::SYS_ioctl, vec![harmless_ioctl()?]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        arch,
    )?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

fn lists(role: Role) -> &'static [&'static [i64]] {
    match role {
        Role::Recorder => &[
            COMMON,
            LEGACY,
            PROGRAMS,
            LEGACY_PROGRAMS,
            OWN_FILES,
            RECORDER,
        ],
        Role::Reader => &[COMMON, LEGACY],
        Role::Shipper => &[COMMON, LEGACY, OWN_FILES],
        Role::Commands => &[COMMON, LEGACY, PROGRAMS, LEGACY_PROGRAMS],
    }
}

/// Requests that change a file's flags or inject terminal input are refused: file systems and Landlock do not check
/// who may.
const REFUSED_IOCTLS: [u64; 4] = [
    0x4008_6602, // FS_IOC_SETFLAGS
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x5412,      // TIOCSTI
    0x541c,      // TIOCLINUX
];

/// Any request but [`REFUSED_IOCTLS`].
fn harmless_ioctl() -> Result<SeccompRule> {
    let mut conditions = Vec::new();
    for request in REFUSED_IOCTLS {
        let differs = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, request)?;
        conditions.push(differs);
    }
    Ok(SeccompRule::new(conditions)?)
}

/// Files, memory, threads, time, sockets: what any program does. No role may change owners, modes or attributes of a
/// file by its name, change the user, leave the session, or inspect other processes.
const COMMON: &[i64] = &[
    // Files.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_memfd_create,
    // Threads.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_ioprio_get,
    libc::SYS_ioprio_set,
    libc::SYS_prctl,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    // Process and system information.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_times,
    libc::SYS_getrandom,
    libc::SYS_capget,
    // Further restrictions.
    libc::SYS_capset,
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_delete,
    // Sockets.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
];

/// Older variants of calls of [`COMMON`] that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_sync_file_range,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_inotify_init,
    libc::SYS_getpgrp,
    libc::SYS_arch_prctl,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
/// Calls for which libc has no name on every aarch64 target: renameat and `sync_file_range`.
#[cfg(target_arch = "aarch64")]
const LEGACY: &[i64] = &[38, 84];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const LEGACY: &[i64] = &[];

/// Starting programs, and what shells and their tools do in addition to [`COMMON`].
const PROGRAMS: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_setpgid,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_umask,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_signalfd4,
    libc::SYS_personality,
];

/// Older variants of calls of [`PROGRAMS`].
#[cfg(target_arch = "x86_64")]
const LEGACY_PROGRAMS: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mknod,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY_PROGRAMS: &[i64] = &[];

/// Group and mode of files that it has just created, by descriptor only.
const OWN_FILES: &[i64] = &[libc::SYS_fchmod, libc::SYS_fchown];

/// Calls that only recording needs: maps and rings of the probes, file names by handle.
const RECORDER: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
];
