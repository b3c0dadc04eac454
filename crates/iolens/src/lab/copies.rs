//! Simultaneous copies of one file to one place, watched through the disk's counters.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::bracket::{Bracket, Disk, Reading};

/// Where copies go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// A directory of the user's; a folder of ours is made in it.
    Dir(PathBuf),
    /// A scratch file system of this type on a loop device.
    Loop(String),
}

impl Target {
    /// What tables call it.
    pub fn label(&self) -> String {
        match self {
            Target::Dir(d) => d.display().to_string(),
            Target::Loop(fs) => fs.clone(),
        }
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyCell {
    /// Index into the plan's targets.
    pub target: usize,
    /// Copies at the same time.
    pub copies: u32,
    /// Which repetition, from 0.
    pub replicate: u32,
}

/// The experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopiesPlan {
    /// Directory for the source file and the loop devices' files.
    pub dir: PathBuf,
    /// Bytes of the file that is copied.
    pub file_bytes: u64,
    /// Seconds between samples.
    pub sample_s: f64,
    /// Where to.
    pub targets: Vec<Target>,
    /// All cells.
    pub cells: Vec<CopyCell>,
}

/// Rates between two samples, in the units of the published tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the copies began.
    pub at_s: f64,
    /// Length of the interval.
    pub seconds: f64,
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

/// What a cell gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyResult {
    /// Which cell.
    pub cell: CopyCell,
    /// Its target's label.
    pub target: String,
    /// The disk that was watched.
    pub device: String,
    /// From the first `cp` to the exit of the last.
    pub elapsed_s: f64,
    /// Until all of it was on the disk.
    pub durable_s: f64,
    /// Each copy's time.
    pub each_s: Vec<f64>,
    /// All samples in order of time; the last one ends when all is durable.
    pub samples: Vec<Sample>,
    /// Over the whole time at once.
    pub whole: Sample,
}

fn sample(from: &Reading, to: &Reading, begin_ns: i64) -> Sample {
    let b = Bracket::between(from, to);
    let w = &b.sides[1];
    Sample {
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

/// Copies that are running; killed when dropped.
struct Copies(Vec<(Child, Instant, Option<f64>)>);

impl Drop for Copies {
    fn drop(&mut self) {
        for (child, _, done) in self.0.iter_mut().filter(|c| c.2.is_none()) {
            // Only fails if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
            *done = Some(0.0);
        }
    }
}

impl Copies {
    fn start(source: &Path, dir: &Path, n: u32) -> Result<Copies> {
        let mut all = Copies(Vec::new());
        for i in 0..n {
            let child = Command::new("cp")
                // A clone would copy nothing.
                .args(["--reflink=never".as_ref(), source.as_os_str(), dir.join(format!("copy{i}")).as_os_str()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .context("cp cannot be run")?;
            all.0.push((child, Instant::now(), None));
        }
        Ok(all)
    }

    /// Whether all have ended.
    fn poll(&mut self) -> Result<bool> {
        for (child, begun, done) in self.0.iter_mut().filter(|c| c.2.is_none()) {
            if let Some(status) = child.try_wait()? {
                *done = Some(begun.elapsed().as_secs_f64());
                if !status.success() {
                    bail!("a copy failed ({status}): the cell is not valid");
                }
            }
        }
        Ok(self.0.iter().all(|c| c.2.is_some()))
    }
}

/// Copies `source` `cell.copies` times into `dir` (which is emptied afterwards) while watching `disk`.
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
    let first = disk.read()?;
    let begun = Instant::now();
    let mut copies = Copies::start(source, dir, cell.copies)?;
    let mut samples = Vec::new();
    let mut last = first;
    let mut due = Duration::from_secs_f64(plan.sample_s);
    while !copies.poll()? {
        if stop.load(Ordering::Relaxed) {
            bail!("the copies were stopped");
        }
        if begun.elapsed() >= due {
            let now = disk.read()?;
            samples.push(sample(&last, &now, first.at_ns));
            last = now;
            due += Duration::from_secs_f64(plan.sample_s);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    for i in 0..cell.copies {
        File::open(dir.join(format!("copy{i}")))?.sync_all()?;
    }
    rustix::fs::syncfs(File::open(dir)?)?;
    let durable_s = begun.elapsed().as_secs_f64();
    let end = disk.read()?;
    if (end.at_ns - last.at_ns) as f64 > 0.05e9 {
        samples.push(sample(&last, &end, first.at_ns));
    }
    let each_s = copies.0.iter().filter_map(|c| c.2).collect();
    for i in 0..cell.copies {
        std::fs::remove_file(dir.join(format!("copy{i}")))?;
    }
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(CopyResult {
        cell: cell.clone(),
        target: plan.targets[cell.target].label(),
        device: disk.name.clone(),
        elapsed_s,
        durable_s,
        each_s,
        samples,
        whole: sample(&first, &end, first.at_ns),
    })
}
