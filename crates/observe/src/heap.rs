//! The allocator of the C library.

/// Blocks from this size on are mapped by themselves, in bytes.
#[cfg(target_env = "gnu")]
const MIN_MAPPED: libc::c_int = 128 << 10;

/// Returns large blocks to the kernel as soon as they are freed.
///
/// glibc raises its threshold for mapped blocks with each large block that is freed: later ones come from heaps of the threads,
/// which keep what another thread frees. A fixed threshold stops that. Other C libraries are left as they are.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers, and may be called at any time by any thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MIN_MAPPED);
    }
}

/// Gives back what was freed, which glibc keeps. Loading probes goes through the whole of the kernel's type information, tens of
/// megabytes once parsed.
pub(crate) fn release_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no arguments of consequence, no state of ours.
    unsafe {
        libc::malloc_trim(0);
    }
}
