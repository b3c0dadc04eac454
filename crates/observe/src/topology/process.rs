//! This process: its clocks and its CPU time and memory so far.

use iolens_core::model::RecorderCost;
use rustix::time::{ClockId, clock_gettime};

/// The wall clock in nanoseconds since the Unix epoch.
pub fn wall_clock_ns() -> i64 {
    nanoseconds(ClockId::Realtime)
}

/// Nanoseconds since boot including suspend, during which `CLOCK_MONOTONIC` stops (`CLOCK_BOOTTIME`).
pub fn boottime_ns() -> i64 {
    nanoseconds(ClockId::Boottime)
}

fn nanoseconds(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Raises the priority of the calling thread, so that events are read in time when CPUs are scarce. Returns whether
/// that was allowed. Processes started by this thread afterwards inherit the priority.
pub fn prefer_this_thread() -> bool {
    rustix::process::setpriority_process(None, PREFERRED_NICE).is_ok()
}

/// Lowers the priority of the calling thread, so that recording comes first. On Linux this affects only this thread. If
/// it is not allowed, the priority stays as it was.
pub fn lower_this_thread() {
    let _unchanged = rustix::process::setpriority_process(None, LOWERED_NICE).is_err();
}

/// Lowers the calling thread to the default priority if its process has a higher one. Threads that must not wait then
/// run before it, and it competes equally with other programs when CPUs are scarce.
pub fn make_this_thread_ordinary() {
    let is_higher = rustix::process::getpriority_process(None).is_ok_and(|nice| nice < 0);
    if is_higher {
        let _unchanged = rustix::process::setpriority_process(None, 0).is_err();
    }
}

const LOWERED_NICE: i32 = 10;

/// Nice value halfway to the highest priority: above ordinary work, but below what an administrator raised on purpose.
const PREFERRED_NICE: i32 = -10;

/// Makes the allocator return freed memory to the kernel from now on. For long-running processes whose peaks are on
/// short-lived threads: glibc otherwise keeps up to 64 MiB in each of up to eight heaps per CPU, because it raises its
/// thresholds as memory is freed.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MMAP_FROM_BYTES),
        (libc::M_TRIM_THRESHOLD, 4 * MMAP_FROM_BYTES),
        (libc::M_ARENA_MAX, 4),
    ] {
        // SAFETY: mallopt sets a number; no pointer is involved.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Larger blocks get their own mapping, which is unmapped when they are freed.
#[cfg(target_env = "gnu")]
const MMAP_FROM_BYTES: libc::c_int = 1 << 20;

/// CPU time and peak memory of this process so far.
pub fn own_cost() -> RecorderCost {
    let Some(usage) = usage(libc::RUSAGE_SELF) else {
        return RecorderCost::default();
    };
    let max_rss_bytes = u64::try_from(usage.ru_maxrss).ok().map(|kib| kib * 1024);
    RecorderCost {
        cpu_s: Some(cpu_s(&usage)),
        max_rss_bytes,
        ..RecorderCost::default()
    }
}

/// CPU seconds of the calling thread so far (user and system); `None` if the kernel does not report them.
pub fn thread_cpu_s() -> Option<f64> {
    usage(libc::RUSAGE_THREAD).as_ref().map(cpu_s)
}

fn cpu_s(usage: &libc::rusage) -> f64 {
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn seconds(t: libc::timeval) -> f64 {
    t.tv_sec as f64 + t.tv_usec as f64 / 1e6
}

/// `getrusage(2)`.
fn usage(of: libc::c_int) -> Option<libc::rusage> {
    // SAFETY: rusage is plain numbers, for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, writable rusage.
    (unsafe { libc::getrusage(of, &raw mut usage) } == 0).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_grows_and_is_plausible() {
        let before = own_cost();
        let mut x = 1u64;
        for i in 1..5_000_000u64 {
            x = std::hint::black_box(x.wrapping_mul(i));
        }
        let after = own_cost();
        assert!(after.cpu_s > before.cpu_s);
        assert!(thread_cpu_s().is_some_and(|s| s > 0.0) && thread_cpu_s() <= own_cost().cpu_s);
        assert!(
            after.max_rss_bytes.is_some_and(|b| b > 100_000),
            "{after:?}"
        );
    }

    #[test]
    fn boot_time_is_at_least_monotonic_time() {
        let monotonic = crate::counters::monotonic_ns();
        assert!(boottime_ns() >= monotonic);
    }
}
