//! Runs simultaneous copies of one file to one target, while sampling the disk's counters.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::bracket::{Bracket, BracketReading, Disk};

/// Target of the copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// A directory of the user; a folder is created in it.
    Dir(PathBuf),
    /// A scratch file system of this type on a loop device.
    Loop(String),
}

impl Target {
    /// Its name in tables.
    pub fn label(&self) -> String {
        match self {
            Target::Dir(d) => d.display().to_string(),
            Target::Loop(fs) => fs.clone(),
        }
    }
}

/// One cell of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyCell {
    /// Index into the plan's targets.
    pub target: usize,
    /// Copies at the same time.
    pub copies: u32,
    /// Which repetition, from 0.
    pub replicate: u32,
}

/// Plan of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopiesPlan {
    /// Directory for the source file and the loop devices' files.
    pub dir: PathBuf,
    /// Bytes of the file that is copied.
    pub file_bytes: u64,
    /// Seconds between samples.
    pub sample_s: f64,
    /// Targets of the copies.
    pub targets: Vec<Target>,
    /// Cells in the order of the plan.
    pub cells: Vec<CopyCell>,
}

/// Rates between two samples, in the units of the published tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopySample {
    /// Seconds since the copies began.
    pub at_s: f64,
    /// Length of the interval.
    pub seconds: f64,
    /// MiB read per second.
    #[serde(default)]
    pub read_mb_per_s: f64,
    /// Read requests per second.
    #[serde(default)]
    pub reads_per_s: f64,
    /// MiB written per second.
    pub write_mb_per_s: f64,
    /// Write requests per second.
    pub writes_per_s: f64,
    /// Mean write request in sectors; `None` if there was none.
    pub request_sectors: Option<f64>,
    /// Mean queue length.
    pub queue_length: f64,
    /// `%util`.
    pub util_percent: f64,
    /// user, nice, system, iowait, steal, idle.
    pub cpu_percent: [f64; 6],
}

/// The result of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyResult {
    /// The cell of this result.
    pub cell: CopyCell,
    /// Label of the cell's target.
    pub target: String,
    /// The disk that was watched.
    pub device: String,
    /// From the start of the first `cp` to the exit of the last, in seconds.
    pub elapsed_s: f64,
    /// Until all data was on the disk.
    pub durable_s: f64,
    /// Time of each copy, to the exit of `cp`.
    pub each_s: Vec<f64>,
    /// Time of each copy until it was on the disk (fsync right after `cp`).
    #[serde(default)]
    pub each_durable_s: Vec<f64>,
    /// Number of extents of each copy, as `filefrag` counts them; `None` if it cannot.
    #[serde(default)]
    pub extents: Vec<Option<u32>>,
    /// Free bytes of the target before the copies.
    #[serde(default)]
    pub free_bytes: u64,
    /// The file system driver runs in user space, so its own work is part of the times.
    #[serde(default)]
    pub user_space_driver: bool,
    /// All samples in order of time; the last one ends when all data is on the disk.
    pub samples: Vec<CopySample>,
    /// Averages over the whole time.
    pub whole: CopySample,
}

fn sample(from: &BracketReading, to: &BracketReading, begin_ns: i64) -> CopySample {
    let b = Bracket::between(from, to);
    let [r, w] = &b.sides;
    CopySample {
        read_mb_per_s: r.bytes.unwrap_or(0.0) / 1_048_576.0 / b.seconds,
        reads_per_s: r.ios / b.seconds,
        at_s: (to.at_ns - begin_ns) as f64 / 1e9,
        seconds: b.seconds,
        write_mb_per_s: w.bytes.unwrap_or(0.0) / 1_048_576.0 / b.seconds,
        writes_per_s: w.ios / b.seconds,
        request_sectors: w.request_bytes().map(|b| b / 512.0),
        queue_length: b.in_queue_ms / 1000.0 / b.seconds,
        util_percent: b.io_ticks_ms / 10.0 / b.seconds,
        cpu_percent: b.cpu_percent,
    }
}

/// A running copy.
struct Copy {
    child: Child,
    to: PathBuf,
    started: Instant,
    /// Seconds to the exit of `cp`.
    done_s: Option<f64>,
    /// Syncs it to the disk; returns seconds since the start.
    durable: Option<std::thread::JoinHandle<std::io::Result<f64>>>,
}

impl Copy {
    /// Seconds until it was on the disk.
    fn wait_until_durable(&mut self) -> Result<f64> {
        let thread = self.durable.take().context("a copy has not ended")?;
        let seconds = thread
            .join()
            .map_err(|_| anyhow::anyhow!("the sync of a copy panicked"))?;
        seconds.context("a copy could not be synced")
    }
}

/// Running copies, which are killed when dropped.
struct Copies(Vec<Copy>);

impl Drop for Copies {
    fn drop(&mut self) {
        for c in self.0.iter_mut().filter(|c| c.done_s.is_none()) {
            // Fails only if it has exited already.
            let _ = c.child.kill();
            let _ = c.child.wait();
        }
    }
}

impl Copies {
    fn start(source: &Path, dir: &Path, n: u32) -> Result<Copies> {
        let mut all = Copies(Vec::new());
        for i in 0..n {
            let to = dir.join(format!("copy{i}"));
            let child = super::fio::bound_to_us("cp")
                // A clone (reflink) would copy no data.
                .args([
                    "--reflink=never".as_ref(),
                    source.as_os_str(),
                    to.as_os_str(),
                ])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .context("cp cannot be run")?;
            all.0.push(Copy {
                child,
                to,
                started: Instant::now(),
                done_s: None,
                durable: None,
            });
        }
        Ok(all)
    }

    /// Whether all have exited. Each that exits is synced immediately.
    fn poll(&mut self) -> Result<bool> {
        for c in self.0.iter_mut().filter(|c| c.done_s.is_none()) {
            if let Some(status) = c.child.try_wait()? {
                c.done_s = Some(c.started.elapsed().as_secs_f64());
                if !status.success() {
                    let mut why = String::new();
                    c.child
                        .stderr
                        .take()
                        .map(|mut e| e.read_to_string(&mut why));
                    let why = why.lines().next().unwrap_or("it said nothing").to_owned();
                    bail!("a copy failed ({status}): the cell is not valid: {why}");
                }
                let to = c.to.clone();
                let started = c.started;
                c.durable = Some(std::thread::spawn(move || {
                    File::open(to)?.sync_all()?;
                    Ok(started.elapsed().as_secs_f64())
                }));
            }
        }
        Ok(self.0.iter().all(|c| c.done_s.is_some()))
    }

    /// Seconds until each copy was on the disk.
    fn durable(&mut self) -> Result<Vec<f64>> {
        self.0.iter_mut().map(Copy::wait_until_durable).collect()
    }
}

/// Number of extents of a file; `None` if `filefrag` is missing or the file system does not report them.
fn extents(path: &Path) -> Option<u32> {
    let out = Command::new("filefrag")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.rsplit_once(": ")?.1.split(' ').next()?.parse().ok()
}

/// Copies `source` `cell.copies` times into `dir` (which is emptied afterwards) while sampling the
/// counters of `disk`.
///
/// # Errors
/// A copy failed, the device is gone, or `stop` was set.
pub fn measure(
    plan: &CopiesPlan,
    cell: &CopyCell,
    source: &Path,
    dir: &Path,
    disk: &Disk,
    stop: &AtomicBool,
) -> Result<CopyResult> {
    let free = rustix::fs::statvfs(dir)?;
    let first = disk.read()?;
    let started = Instant::now();
    let mut copies = Copies::start(source, dir, cell.copies)?;
    let mut samples = Vec::new();
    let mut last = first;
    let mut due = Duration::from_secs_f64(plan.sample_s);
    while !copies.poll()? {
        if stop.load(Ordering::Relaxed) {
            bail!("the copies were stopped");
        }
        if started.elapsed() >= due {
            let now = disk.read()?;
            samples.push(sample(&last, &now, first.at_ns));
            last = now;
            due += Duration::from_secs_f64(plan.sample_s);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    let each_durable_s = copies.durable()?;
    rustix::fs::syncfs(File::open(dir)?)?;
    let durable_s = started.elapsed().as_secs_f64();
    let end = disk.read()?;
    if (end.at_ns - last.at_ns) as f64 > 0.05e9 {
        samples.push(sample(&last, &end, first.at_ns));
    }
    let each_s = copies.0.iter().filter_map(|c| c.done_s).collect();
    let pieces = copies.0.iter().map(|c| extents(&c.to)).collect();
    for c in &copies.0 {
        std::fs::remove_file(&c.to)?;
    }
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(CopyResult {
        cell: cell.clone(),
        target: plan.targets[cell.target].label(),
        device: disk.name.clone(),
        elapsed_s,
        durable_s,
        each_s,
        each_durable_s,
        extents: pieces,
        free_bytes: free.f_bavail.saturating_mul(free.f_frsize),
        user_space_driver: false,
        samples,
        whole: sample(&first, &end, first.at_ns),
    })
}
