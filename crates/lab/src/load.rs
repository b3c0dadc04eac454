//! A small bursty load on a scratch file: a steady random direct reader beside a writer whose data reaches the
//! disk in one flush every few seconds, as databases, ZFS and plain page-cache writeback do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use iolens_core::analysis::math::stats::Shuffler;
use iolens_observe::topology::thread_cpu_s;

const MIB: u64 = 1 << 20;
const READ_BYTES: usize = 4096;
/// Direct I/O needs buffers aligned to the logical block; 4096 satisfies every disk.
const ALIGN: usize = 4096;

/// Shape of the load. All of it happens in one scratch file, which has no name while it is used.
#[derive(Debug, Clone)]
pub struct BurstyLoad {
    /// Directory of the scratch file; it must be on a disk (direct I/O).
    pub dir: PathBuf,
    /// How long to run, after the preparation.
    pub duration: Duration,
    /// Time between two flushes.
    pub period: Duration,
    /// Steady random reads per second.
    pub reads_per_s: u32,
    /// Area that is read.
    pub read_area_bytes: u64,
    /// Most that one flush may write; a slow disk gets what it can take in a quarter of a second.
    pub max_burst_bytes: u64,
}

impl BurstyLoad {
    /// 15 seconds on a file of at most 256 MiB in `dir`.
    pub fn new(dir: &Path) -> BurstyLoad {
        BurstyLoad {
            dir: dir.to_owned(),
            duration: Duration::from_secs(15),
            // Six periods: fewer than five bursts or periods would be a suspicion only.
            period: Duration::from_millis(2400),
            reads_per_s: 400,
            read_area_bytes: 128 * MIB,
            max_burst_bytes: 128 * MIB,
        }
    }
}

/// A scratch file without a name: however the program ends, the file system takes its room back.
#[derive(Debug)]
pub struct Scratch {
    load: BurstyLoad,
    /// For reads and the preparation: past the page cache.
    direct: File,
    /// For the writer: through the page cache.
    buffered: File,
    burst_bytes: u64,
    read_area_bytes: u64,
}

/// What the load did.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct LoadStats {
    /// Reads completed.
    pub reads: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes written by the flushes.
    pub written_bytes: u64,
    /// CPU seconds of its threads (user and system).
    pub cpu_s: f64,
}

impl BurstyLoad {
    /// Makes the scratch file and measures how much the disk takes in a quarter of a second.
    ///
    /// # Errors
    /// The directory cannot be written, has no space, or is on a file system without direct I/O (tmpfs, for instance).
    pub fn prepare(self) -> io::Result<Scratch> {
        let path = self
            .dir
            .join(format!("iolens-demo-{}.scratch", std::process::id()));
        let direct_flag = rustix::fs::OFlags::DIRECT.bits() as i32;
        let buffered = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // A name before, so that a recording can say it; none after, so that a kill leaves nothing behind.
        std::fs::remove_file(&path)?;
        let again = format!("/proc/self/fd/{}", buffered.as_raw_fd());
        let direct = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(direct_flag)
            .open(again)?;
        let mut scratch = Scratch {
            direct,
            buffered,
            burst_bytes: 0,
            read_area_bytes: 0,
            load: self,
        };
        scratch.fill()?;
        Ok(scratch)
    }
}

impl Scratch {
    /// Writes the area that will be read, for at most three seconds, and learns the disk's rate from it.
    fn fill(&mut self) -> io::Result<()> {
        let mut storage = vec![0u8; MIB as usize + ALIGN];
        let block = aligned(&mut storage, MIB as usize);
        // Not zeros: a disk or file system that compresses would answer without doing the work.
        let mut random = Shuffler::new(1);
        block
            .chunks_exact_mut(8)
            .for_each(|c| c.copy_from_slice(&random.bits().to_le_bytes()));
        let begin = Instant::now();
        while self.read_area_bytes < self.load.read_area_bytes
            && begin.elapsed() < Duration::from_secs(3)
        {
            self.direct.write_all_at(block, self.read_area_bytes)?;
            self.read_area_bytes += MIB;
        }
        self.direct.sync_all()?;
        let bytes_per_s = self.read_area_bytes as f64 / begin.elapsed().as_secs_f64();
        let quarter = (bytes_per_s * 0.25) as u64 / MIB * MIB;
        self.burst_bytes = quarter.clamp(4 * MIB, self.load.max_burst_bytes);
        Ok(())
    }

    /// How much each flush writes.
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }

    /// Time between two flushes.
    pub fn period(&self) -> Duration {
        self.load.period
    }

    /// How long [`Scratch::run`] runs.
    pub fn duration(&self) -> Duration {
        self.load.duration
    }

    /// Runs until the duration is over or `stop` is set; blocks.
    ///
    /// # Errors
    /// A read, write or flush failed.
    pub fn run(&self, stop: &AtomicBool) -> io::Result<LoadStats> {
        let reads = AtomicU64::new(0);
        let end = Instant::now() + self.load.duration;
        let before_s = thread_cpu_s().unwrap_or(0.0);
        let (read, written) = std::thread::scope(|s| {
            let reader = s.spawn(|| {
                self.read_steadily(end, stop, &reads)
                    .map(|()| thread_cpu_s().unwrap_or(0.0))
            });
            let written = self.write_in_gulps(end, stop);
            (reader.join(), written)
        });
        let reader_s = read.map_err(|_| io::Error::other("the reader thread panicked"))??;
        let (flushes, written_bytes) = written?;
        let cpu_s = reader_s + thread_cpu_s().unwrap_or(0.0) - before_s;
        Ok(LoadStats {
            reads: reads.load(Ordering::Relaxed),
            flushes,
            written_bytes,
            cpu_s,
        })
    }

    fn read_steadily(&self, end: Instant, stop: &AtomicBool, reads: &AtomicU64) -> io::Result<()> {
        let mut storage = vec![0u8; READ_BYTES + ALIGN];
        let block = aligned(&mut storage, READ_BYTES);
        let mut random = Shuffler::new(2);
        let blocks = self.read_area_bytes / READ_BYTES as u64;
        let gap = Duration::from_secs(1) / self.load.reads_per_s;
        let mut due = Instant::now();
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            self.direct
                .read_exact_at(block, random.below(blocks) * READ_BYTES as u64)?;
            reads.fetch_add(1, Ordering::Relaxed);
            // An absolute schedule; after a stall it goes on from now instead of catching up in a burst of its own.
            due = (due + gap).max(Instant::now() - gap);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    fn write_in_gulps(&self, end: Instant, stop: &AtomicBool) -> io::Result<(u64, u64)> {
        let block = vec![0xa5u8; MIB as usize];
        let steps = u32::try_from(self.burst_bytes / MIB).unwrap_or(u32::MAX);
        let begin = Instant::now();
        let mut flushes = 0;
        let mut written = 0;
        loop {
            let flush_number = flushes + 1;
            let flush_due = begin + due_in(self.load.period, steps, flush_number, steps);
            for step in 0..steps {
                if flush_due > end || Instant::now() > end || stop.load(Ordering::Relaxed) {
                    return Ok((u64::from(flushes), written));
                }
                let at = self.read_area_bytes + u64::from(step) * MIB;
                self.buffered.write_all_at(&block, at)?;
                let due = begin + due_in(self.load.period, steps, flush_number, step + 1);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            self.buffered.sync_data()?;
            flushes = flush_number;
            written += self.burst_bytes;
        }
    }
}

/// When the writer goes on after `step` of `steps` writes before flush number `flush`, counted from its begin. Flushes are due at
/// whole periods, however long those before them took: a busy machine delays a flush and removes none.
fn due_in(period: Duration, steps: u32, flush: u32, step: u32) -> Duration {
    let before = period * (flush - 1);
    before + period.mul_f64(f64::from(step) / f64::from(steps.max(1)))
}

/// The part of `storage` that begins at a multiple of [`ALIGN`].
fn aligned(storage: &mut [u8], len: usize) -> &mut [u8] {
    let at = storage.as_ptr().align_offset(ALIGN);
    &mut storage[at..at + len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_are_due_at_whole_periods_and_writes_are_spread_between_them() {
        let period = Duration::from_millis(2400);
        let due_ms = |flush, step| due_in(period, 4, flush, step).as_millis();
        assert_eq!(
            [1, 2, 3, 4].map(|step| due_ms(1, step)),
            [600, 1200, 1800, 2400]
        );
        assert_eq!((due_ms(2, 1), due_ms(6, 4)), (3000, 14_400));
    }

    #[test]
    fn a_short_load_reads_writes_and_leaves_nothing_behind() {
        // The crate's own folder: the temporary directory is often a tmpfs, which knows no direct I/O.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("temporary directory");
        let mut load = BurstyLoad::new(dir.path());
        load.duration = Duration::from_millis(700);
        load.period = Duration::from_millis(200);
        load.read_area_bytes = 4 * MIB;
        load.max_burst_bytes = 4 * MIB;
        let scratch = match load.prepare() {
            Ok(s) => s,
            Err(e) => return eprintln!("SKIP: no direct I/O here: {e}"),
        };
        assert_eq!(scratch.burst_bytes(), 4 * MIB);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("listable").count(),
            0,
            "nothing is left by a kill now"
        );
        let stats = scratch.run(&AtomicBool::new(false)).expect("runs");
        assert!(stats.reads > 0 && stats.flushes > 0, "{stats:?}");
        assert_eq!(stats.written_bytes, stats.flushes * 4 * MIB);
        drop(scratch);
        assert_eq!(std::fs::read_dir(dir.path()).expect("listable").count(), 0);
    }
}
