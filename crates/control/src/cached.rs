//! A utilisation reading shared by many threads. Reading it takes a few nanoseconds while it is fresh, and no caller
//! blocks.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iolens_observe::topology::MountPath;
use rustix::time::{ClockId, clock_gettime};

use super::Utilisation;
use super::utilisation::lookup;

/// How often a cached reading refreshes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    /// While the disks are idle.
    pub idle: Duration,
    /// While they are busy all the time. Several jiffies (1/HZ), or the kernel's counter has no resolution left.
    pub busy: Duration,
}

impl Default for Cadence {
    /// 2 s and 100 ms.
    fn default() -> Cadence {
        Cadence {
            idle: Duration::from_secs(2),
            busy: Duration::from_millis(100),
        }
    }
}

impl Cadence {
    /// Geometric between the two, in nanoseconds: each step of utilisation shortens it by the same factor.
    fn interval_ns(&self, percent: Option<f64>) -> i64 {
        let idle = (self.idle.as_nanos() as f64).max(1e6);
        let busy = (self.busy.as_nanos() as f64).clamp(1e6, idle);
        let load = percent.unwrap_or(100.0).clamp(0.0, 100.0) / 100.0;
        (idle * (busy / idle).powf(load)) as i64
    }
}

/// The last reading and how old it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachedReading {
    /// The busiest disk in percent; `None`: not known.
    pub percent: Option<f64>,
    /// Time since it was read.
    pub age: Duration,
}

/// A shared, self-refreshing reading of the busiest disk under a path. Cheap to clone; all clones share one state.
///
/// No caller waits: the one that finds the reading stale refreshes it (one `pread` of a memory-backed kernel file per
/// disk), all others meanwhile get the last one. Looking the path up again, which may wait for a disk, is left to a
/// thread of its own that lives as long as it takes.
#[derive(Debug, Clone)]
pub struct Cached(Arc<CachedState>);

#[derive(Debug)]
struct CachedState {
    /// When the reading becomes stale, on the coarse monotonic clock.
    fresh_until_ns: AtomicI64,
    /// The reading's bits (`f64`, NaN: not known).
    percent: AtomicU64,
    read_at_ns: AtomicI64,
    cadence: Cadence,
    signal: Mutex<Utilisation>,
    looking: AtomicBool,
    found: Mutex<Option<Option<MountPath>>>,
}

/// The coarse clock is a memory read (a few nanoseconds) and right to a jiffy, which is all that freshness needs.
fn coarse_ns() -> i64 {
    let t = clock_gettime(ClockId::MonotonicCoarse);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

impl Cached {
    pub(super) fn new(mut signal: Utilisation, cadence: Cadence) -> Cached {
        signal.resolve_inline = false;
        let now = coarse_ns();
        Cached(Arc::new(CachedState {
            // The first reading needs an interval to have passed.
            fresh_until_ns: AtomicI64::new(now + cadence.interval_ns(Some(100.0))),
            percent: AtomicU64::new(f64::NAN.to_bits()),
            read_at_ns: AtomicI64::new(now),
            cadence,
            signal: Mutex::new(signal),
            looking: AtomicBool::new(false),
            found: Mutex::new(None),
        }))
    }

    /// The busiest disk in percent; `None`: not known (yet, or there is no disk).
    #[inline]
    pub fn percent(&self) -> Option<f64> {
        self.refresh_if_stale();
        let percent = f64::from_bits(self.0.percent.load(Ordering::Relaxed));
        (!percent.is_nan()).then_some(percent)
    }

    /// The reading and its age. The two are of one reading unless a refresh happens in between.
    pub fn reading(&self) -> CachedReading {
        let percent = self.percent();
        let age = coarse_ns() - self.0.read_at_ns.load(Ordering::Relaxed);
        CachedReading {
            percent,
            age: Duration::from_nanos(u64::try_from(age).unwrap_or(0)),
        }
    }

    #[inline]
    fn refresh_if_stale(&self) {
        let now = coarse_ns();
        if now >= self.0.fresh_until_ns.load(Ordering::Relaxed) {
            self.refresh(now);
        }
    }

    #[cold]
    fn refresh(&self, now: i64) {
        let shared = &self.0;
        let Ok(mut signal) = shared.signal.try_lock() else {
            return;
        };
        if now < shared.fresh_until_ns.load(Ordering::Relaxed) {
            return;
        }
        if let Some(found) = shared.found.try_lock().ok().and_then(|mut f| f.take()) {
            signal.take(found);
        }
        let before = signal.sampled_at_ns();
        let percent = signal.sample_busiest();
        let at = signal.sampled_at_ns();
        let interval_ns = shared.cadence.interval_ns(percent);
        // After a long silence the reading is a mean over all of it: the next caller gets a younger one.
        let next = if at - before > 2 * interval_ns {
            shared.cadence.interval_ns(Some(100.0))
        } else {
            interval_ns
        };
        shared
            .percent
            .store(percent.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
        shared.read_at_ns.store(now, Ordering::Relaxed);
        shared.fresh_until_ns.store(now + next, Ordering::Relaxed);
        if signal.resolve_due(at) {
            self.look_up(signal.place());
        }
    }

    fn look_up(&self, (root, path): (std::path::PathBuf, std::path::PathBuf)) {
        if self.0.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new()
            .name("iolens-lookup".into())
            .spawn(move || {
                let found = lookup(&root, &path);
                if let Ok(mut slot) = shared.found.lock() {
                    *slot = Some(found);
                }
                shared.looking.store(false, Ordering::Release);
            });
        if started.is_err() {
            // No thread available: the next refresh tries again.
            self.0.looking.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_poll_interval_follows_the_load() {
        let c = Cadence::default();
        assert_eq!(c.interval_ns(Some(0.0)), 2_000_000_000);
        assert_eq!(c.interval_ns(Some(100.0)), 100_000_000);
        assert!((440_000_000..460_000_000).contains(&c.interval_ns(Some(50.0))));
        assert_eq!(c.interval_ns(None), 100_000_000, "not known: soon");
        let odd = Cadence {
            idle: Duration::from_millis(10),
            busy: Duration::from_secs(5),
        };
        assert_eq!(
            odd.interval_ns(Some(100.0)),
            10_000_000,
            "busy is never slower than idle"
        );
    }

    #[test]
    fn many_threads_share_one_reading_and_it_refreshes() {
        let cadence = Cadence {
            idle: Duration::from_millis(10),
            busy: Duration::from_millis(10),
        };
        let here = Utilisation::of_path(env!("CARGO_MANIFEST_DIR")).unwrap();
        let has_disk = here.no_disk().is_none();
        let cached = here.cached(cadence);
        assert_eq!(cached.percent(), None, "no interval has passed");
        let begin = std::time::Instant::now();
        while has_disk && cached.percent().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..10_000 {
                        let p = cached.clone().percent();
                        assert!(p.is_none_or(|p| (0.0..=100.0).contains(&p)), "{p:?}");
                    }
                });
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        cached.percent();
        assert!(cached.reading().age < Duration::from_secs(5));
    }

    #[test]
    fn a_path_without_a_disk_stays_unknown() {
        let cached = Utilisation::of_path("/proc").unwrap().cached(Cadence {
            idle: Duration::from_millis(1),
            busy: Duration::from_millis(1),
        });
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(cached.percent(), None);
    }
}
