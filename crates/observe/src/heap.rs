//! Settings of the C library's allocator.

/// Blocks of at least this size, in bytes, get their own mapping.
#[cfg(target_env = "gnu")]
const MIN_MAPPED: libc::c_int = 128 << 10;

/// Returns large blocks to the kernel as soon as they are freed.
///
/// glibc raises its threshold for separate mappings with each large block that is freed. Later large blocks then come
/// from per-thread heaps, which keep what other threads free. A fixed threshold prevents that. Other C libraries are
/// not changed.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers, and may be called at any time by any thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MIN_MAPPED);
    }
}

/// Returns freed memory, which glibc keeps, to the kernel. Loading probes parses the kernel's type information, which
/// takes tens of megabytes.
pub(crate) fn release_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no arguments of consequence, no state of ours.
    unsafe {
        libc::malloc_trim(0);
    }
}
