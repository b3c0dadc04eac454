//! Measures cost and accuracy of polling the counters: compared with `iostat`, and with every I/O.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use iolens_observe::counters::{DiskstatsReader, KernelFile, Root, monotonic_ns, parse_stat};
use serde::{Deserialize, Serialize};

use super::bracket::Disk;

/// One cell of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollCell {
    /// Number of disks polled.
    pub disks: usize,
    /// I/Os that the load keeps in flight on each.
    pub workers: u32,
    /// Target utilisation, in percent.
    pub target_percent: f64,
}

/// Plan of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollPlan {
    /// Directory of the scratch files.
    pub dir: PathBuf,
    /// Bytes of each disk.
    pub size: u64,
    /// Seconds per cell.
    pub seconds: u32,
    /// Block devices that the user allows to overwrite, instead of loop devices.
    #[serde(default)]
    pub given: Vec<PathBuf>,
    /// Cells in the order of the plan.
    pub cells: Vec<PollCell>,
}

/// One disk over one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Kernel name of the disk.
    pub device: String,
    /// Monotonic time at the two polls.
    pub from_ns: i64,
    /// Time of the second reading, in nanoseconds.
    pub to_ns: i64,
    /// Utilisation by polling, in percent.
    pub poll_percent: f64,
    /// Utilisation that `iostat` printed for (nearly) the same second; `None` if it is not installed.
    pub iostat_percent: Option<f64>,
    /// Exact busy time from every I/O, filled in from the recording.
    pub exact_percent: Option<f64>,
    /// The estimate of each kernel generation's estimator for the same I/Os: (kernels, percent).
    #[serde(default)]
    pub estimates_percent: Vec<(String, f64)>,
}

/// The result of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollResult {
    /// The cell of this result.
    pub cell: PollCell,
    /// `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// Nanoseconds to open, read and parse `/proc/diskstats`.
    pub reopened_ns: Vec<f64>,
    /// The same with the file kept open.
    pub kept_ns: Vec<f64>,
    /// The same for one disk's `stat` in sysfs, kept open.
    pub sysfs_ns: Vec<f64>,
    /// Every disk, in every second.
    pub seconds: Vec<Second>,
}

/// `iostat -dxy` with one report per second; killed when dropped.
struct Iostat {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Drop for Iostat {
    fn drop(&mut self) {
        // Fails only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Iostat {
    fn start(disks: &[Disk]) -> Option<Iostat> {
        if !super::scratch::has_program("iostat") {
            return None;
        }
        let mut child = super::fio::bound_to_us("iostat")
            .args(["-d", "-x", "-y"])
            .args(disks.iter().map(|d| d.name.as_str()))
            .arg("1")
            .env("LC_ALL", "C")
            .env_remove("POSIXLY_CORRECT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lines = BufReader::new(child.stdout.take()?).lines();
        Some(Iostat { child, lines })
    }

    /// Utilisation of each disk in the next report, in the order of `disks`; blocks until it is complete.
    fn next(&mut self, disks: &[Disk]) -> Option<Vec<f64>> {
        let mut out = vec![f64::NAN; disks.len()];
        let mut missing = disks.len();
        while missing > 0 {
            let line = self.lines.next()?.ok()?;
            let mut words = line.split_whitespace();
            let Some(at) = words
                .next()
                .and_then(|w| disks.iter().position(|d| d.name == w))
            else {
                continue;
            };
            out[at] = words.next_back()?.parse().ok()?;
            missing -= 1;
        }
        Some(out)
    }
}

/// How often each polling method is timed per second.
const TIMED: usize = 20;

/// Polls `disks` for the cell's seconds while the load runs, which the caller has started.
///
/// # Errors
/// The counters cannot be read, or `stop` was set.
pub fn measure(
    plan: &PollPlan,
    cell: &PollCell,
    disks: &[Disk],
    hz: Option<u32>,
    stop: &AtomicBool,
) -> Result<PollResult> {
    let root = Root::live();
    let mut kept = DiskstatsReader::open(&root).context("/proc/diskstats cannot be read")?;
    let mut stat = KernelFile::new(format!("/sys/block/{}/stat", disks[0].name));
    let mut out = PollResult {
        cell: cell.clone(),
        hz,
        reopened_ns: vec![],
        kept_ns: vec![],
        sysfs_ns: vec![],
        seconds: vec![],
    };
    let mut iostat = Iostat::start(disks);
    let mut last = poll(&mut kept, disks)?;
    let mut first = true;
    for _ in 0..=plan.seconds {
        if stop.load(Ordering::Relaxed) {
            bail!("the polling was stopped");
        }
        let printed = iostat.as_mut().and_then(|i| i.next(disks));
        if printed.is_none() {
            // Not installed, or it exited.
            iostat = None;
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        let now = poll(&mut kept, disks)?;
        // The first report covers a second that began before the first poll.
        if !first {
            for (i, d) in disks.iter().enumerate() {
                let busy_ms = f64::from((now.1[i] as u32).wrapping_sub(last.1[i] as u32));
                out.seconds.push(Second {
                    device: d.name.clone(),
                    from_ns: last.0,
                    to_ns: now.0,
                    poll_percent: busy_ms * 1e8 / (now.0 - last.0) as f64,
                    iostat_percent: printed.as_ref().map(|p| p[i]).filter(|p| p.is_finite()),
                    exact_percent: None,
                    estimates_percent: Vec::new(),
                });
            }
        }
        first = false;
        last = now;
        time_polls(&mut out, &mut kept, &mut stat)?;
    }
    Ok(out)
}

fn poll(reader: &mut DiskstatsReader, disks: &[Disk]) -> Result<(i64, Vec<u64>)> {
    let at_ns = monotonic_ns();
    let rows = reader.read()?;
    let mut ticks = Vec::with_capacity(disks.len());
    for disk in disks {
        let row = rows.iter().find(|r| r.dev == disk.dev);
        let row = row.context("a disk is gone")?;
        ticks.push(row.counters.io_ticks_ms);
    }
    Ok((at_ns, ticks))
}

fn time_polls(
    out: &mut PollResult,
    kept: &mut DiskstatsReader,
    stat: &mut KernelFile,
) -> Result<()> {
    let mut buffer = Vec::new();
    for _ in 0..TIMED {
        let t = Instant::now();
        let text = std::fs::read(Path::new("/proc/diskstats"))?;
        let rows = text
            .split(|b| *b == b'\n')
            .filter_map(iolens_observe::counters::parse_diskstats_line)
            .count();
        out.reopened_ns.push(t.elapsed().as_nanos() as f64);
        let t = Instant::now();
        let same = kept.read()?.len();
        out.kept_ns.push(t.elapsed().as_nanos() as f64);
        let t = Instant::now();
        let fields = parse_stat(stat.read(&mut buffer)?).fields;
        out.sysfs_ns.push(t.elapsed().as_nanos() as f64);
        if rows == 0 || same == 0 || fields == 0 {
            bail!("the kernel printed no counters");
        }
    }
    Ok(())
}
