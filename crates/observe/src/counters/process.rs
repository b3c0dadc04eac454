//! Process state that a drop-in replacement of a C program needs.

use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's start-up code, which opens `/dev/null` in place of closed standard descriptors and ignores
/// SIGPIPE.
extern "C" fn look_at_inheritance() {
    // SAFETY: F_GETFD takes no argument and touches no memory.
    let closed = unsafe { libc::fcntl(1, libc::F_GETFD) } == -1;
    STDOUT_CLOSED.store(closed, Ordering::Relaxed);
    PIPES_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

// SAFETY: `.init_array` holds pointers to functions that the C library calls once before main; this one does nothing
// that needs an initialised runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_INHERITANCE: extern "C" fn() = look_at_inheritance;

/// Whether the process was started with its standard output closed.
pub fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

/// Whether the process was started with SIGPIPE ignored.
pub fn broken_pipes_were_ignored() -> bool {
    PIPES_IGNORED.load(Ordering::Relaxed)
}

/// Lets a write to a closed pipe terminate the process, as in C programs (Rust programs start with SIGPIPE ignored),
/// unless the parent ignored the signal.
pub fn die_of_broken_pipes() {
    if broken_pipes_were_ignored() {
        return;
    }
    // SAFETY: restoring the default action of a signal has no other effect.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Releases code pages that only the start needed, of the program and its libraries. The kernel maps sixteen pages
/// around each one touched, and they count as memory of the process until memory is short. Pages still needed are
/// mapped again from the page cache on access.
pub fn let_go_of_code() {
    // SAFETY: `code_of` is called for each loaded object, one after the other, while none can be unloaded.
    unsafe { libc::dl_iterate_phdr(Some(code_of), std::ptr::null_mut()) };
}

/// Releases the code pages of one loaded object.
unsafe extern "C" fn code_of(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid description of an object, whose headers it counts.
    let (object, headers) = unsafe {
        let object = &*info;
        (
            object,
            std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)),
        )
    };
    let code = headers.iter().filter(|h| {
        h.p_type == libc::PT_LOAD && h.p_flags & (libc::PF_X | libc::PF_W) == libc::PF_X
    });
    for segment in code {
        let page = rustix::param::page_size();
        let start = (object.dlpi_addr + segment.p_vaddr) as usize;
        let from = start / page * page;
        let end = start + segment.p_memsz as usize;
        // SAFETY: code that cannot be written is the same as in its file, from which the kernel maps it again when it is
        // run. The vDSO's, which is no file's, is put back by the kernel too. Where this is refused, nothing has changed.
        unsafe { libc::madvise(from as *mut libc::c_void, end - from, libc::MADV_DONTNEED) };
    }
    0
}

/// Whether a signal is ignored, as `nohup` sets it before it starts a program.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action `sigaction` only fills the old one, which is valid for that; all zeros is an action too.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Raises the limit of open files to its hard limit, so that the counters of many devices can stay open.
pub fn raise_file_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current < limit.maximum || (limit.current.is_some() && limit.maximum.is_none()) {
        let more = rustix::process::Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // If this fails, the old limit stays, and files beyond it are reopened for each sample.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, more);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_test_runner_has_a_stdout() {
        assert!(!super::stdout_was_closed());
        super::raise_file_limit();
        super::let_go_of_code();
        assert!(
            super::is_ignored(libc::SIGPIPE) && !super::is_ignored(libc::SIGTERM),
            "as Rust programs start"
        );
    }
}
