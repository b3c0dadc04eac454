//! Runs fio between two readings of the device's counters.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::statistics::identities::{AppSide, DeviceSource, RunFacts};
use anyhow::{Context as _, Result, bail};
use iolens_import::{FioRun, parse_fio};
use serde::{Deserialize, Serialize};

use super::bracket::{Bracket, Disk};

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FioCell {
    /// Bytes per I/O.
    pub bs: u64,
    /// `randread`, `read`, `randwrite`, `write`.
    pub rw: String,
    /// fio's `ioengine`.
    pub engine: String,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// fio's `iodepth`.
    pub iodepth: u32,
    /// Which repetition, from 0.
    pub replicate: u32,
    /// Whether the file is read into the page cache first, instead of dropped from it. Such a run measures the cost
    /// of calls and copies.
    #[serde(default)]
    pub warm: bool,
}

impl FioCell {
    /// Whether it can run on a disk with this block size in bytes.
    pub(crate) fn fits_blocks(&self, block_bytes: u64) -> bool {
        !self.direct || self.bs.is_multiple_of(block_bytes)
    }

    /// The settings that the run shares with others of its series.
    pub fn series(&self) -> String {
        let way = if self.direct { "direct" } else { "buffered" };
        format!(
            "{} {} {way} queue depth {}",
            self.rw, self.engine, self.iodepth
        )
    }

    /// Reads the file sequentially and repeatedly.
    pub fn reads_in_order(&self) -> bool {
        self.rw == "read"
    }
}

/// A sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FioPlan {
    /// Directory of the scratch file.
    pub dir: PathBuf,
    /// Whether fio gets a loop device over the scratch file instead of the file itself.
    pub use_loop: bool,
    /// Existing device or file that the user allows to overwrite, instead of a scratch file.
    pub lose: Option<PathBuf>,
    /// Bytes of the scratch file.
    pub size: u64,
    /// Seconds per run.
    pub seconds: f64,
    /// More options for fio, passed unchanged.
    pub extra: Vec<String>,
    /// The runs, in the order of their numbers (not of execution).
    pub cells: Vec<FioCell>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FioResult {
    /// The cell of this result.
    pub cell: FioCell,
    /// Kernel name of the device.
    pub device: String,
    /// fio's version.
    pub fio_version: Option<String>,
    /// Measurements of the application and of the device.
    pub facts: RunFacts,
    /// fio's CPU time in percent of the run: user, kernel.
    pub fio_cpu_percent: (Option<f64>, Option<f64>),
    /// The machine's CPU time in percent: user, nice, system, iowait, steal, idle.
    pub cpu_percent: [f64; 6],
    /// I/Os that the recording lost, if there is an event recording.
    pub lost_ios: Option<i64>,
    /// Bytes that the application's reads transferred from the device, and the seconds from the first of them to
    /// the last.
    #[serde(default)]
    pub disk_phase: Option<(f64, f64)>,
    /// Bytes of the file.
    #[serde(default)]
    pub file_bytes: f64,
}

impl FioPlan {
    /// The arguments of a run on `target`.
    pub fn arguments(&self, cell: &FioCell, target: &Path) -> Vec<String> {
        let mut words = vec![
            "--name=cell".to_owned(),
            format!("--filename={}", target.display()),
            format!("--rw={}", cell.rw),
            format!("--bs={}", cell.bs),
            format!("--ioengine={}", cell.engine),
            format!("--iodepth={}", cell.iodepth),
            format!("--direct={}", u8::from(cell.direct)),
            format!("--size={}", self.size),
            format!("--runtime={}ms", (self.seconds * 1000.0).round()),
            "--time_based".to_owned(),
            "--randrepeat=0".to_owned(),
            "--norandommap".to_owned(),
            // The cache was dropped before. By default fio would drop it again each time it reaches the file's end.
            "--invalidate=0".to_owned(),
            // Threads instead of processes, which would survive a kill.
            "--thread".to_owned(),
            // No state file in the working directory.
            "--verify_state_save=0".to_owned(),
            "--output-format=json+".to_owned(),
        ];
        words.extend(self.extra.iter().cloned());
        words
    }
}

/// A command that the kernel kills when this process dies, if util-linux supports it.
pub fn bound_to_us(program: &str) -> Command {
    if !super::scratch::has_program("setpriv") {
        return Command::new(program);
    }
    let mut c = Command::new("setpriv");
    c.args(["--pdeathsig", "KILL", "--", program]);
    c
}

/// Runs fio to completion, or kills it when `stop` is set.
///
/// # Errors
/// fio is missing, failed, or was stopped.
pub fn run_fio(words: &[String], stop: &AtomicBool) -> Result<FioRun> {
    let mut child = bound_to_us("fio")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("fio cannot be run; install it (Debian: apt-get install fio)")?;
    // Both pipes are read while it runs, because it would block on a full one.
    let out = read_beside(child.stdout.take());
    let err = read_beside(child.stderr.take());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            bail!("fio was stopped");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let out = out.join().unwrap_or_default();
    let err = err.join().unwrap_or_default();
    // A job may have failed although fio itself exited successfully.
    let (runs, _) = parse_fio(&out);
    let run = runs.into_iter().next();
    let failed = run
        .as_ref()
        .and_then(|r| r.jobs.iter().map(|j| j.error).find(|e| *e != 0.0));
    match run {
        Some(run) if status.success() && failed.is_none() => Ok(run),
        _ => {
            let text = String::from_utf8_lossy(&err).into_owned() + &String::from_utf8_lossy(&out);
            let why = text
                .lines()
                .find(|l| l.contains("error") || l.contains("fio:"))
                .unwrap_or("it said nothing");
            bail!("fio failed: {}", why.trim())
        }
    }
}

/// Reads a pipe to its end, on a thread.
fn read_beside(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // The data before an error is kept.
            let _ = pipe.read_to_end(&mut text);
        }
        text
    })
}

/// Runs a cell between two readings of the counters.
///
/// # Errors
/// fio failed, or the device is gone.
pub fn measure(
    plan: &FioPlan,
    cell: &FioCell,
    target: &Path,
    disk: &Disk,
    stop: &AtomicBool,
) -> Result<FioResult> {
    let before = disk.read()?;
    let run = run_fio(&plan.arguments(cell, target), stop)?;
    let after = disk.read()?;
    let bracket = Bracket::between(&before, &after);
    let job = run.jobs.first().context("fio printed no job")?;
    let app = [0, 1].map(|i| {
        let s = &job.sides[i];
        AppSide {
            ios: s.ios,
            bytes: s.bytes,
            block_bytes: (s.ios > 0.0 && s.short_ios == 0.0).then_some(cell.bs as f64),
            bytes_per_s: Some(s.bytes_per_s),
            ios_per_s: Some(s.ios_per_s),
            mean_us: s.lat_mean_us.or(s.clat_mean_us),
        }
    });
    let runtime_s = job.sides.iter().map(|s| s.runtime_ms).fold(0.0, f64::max) / 1000.0;
    let facts = RunFacts {
        app,
        device: bracket.sides,
        runtime_s,
        window_s: bracket.seconds,
        source: DeviceSource::Bracket,
        in_queue_ms: Some(bracket.in_queue_ms),
        io_ticks_ms: Some(bracket.io_ticks_ms),
        util_percent: run
            .disks
            .iter()
            .find(|d| d.name == disk.name)
            .map(|d| d.util_percent),
        direct: cell.direct,
        queue_depth: cell.iodepth,
        max_request_bytes: disk.queue("max_sectors_kb").map(|k| k * 1024.0),
        read_ahead_bytes: disk.queue("read_ahead_kb").map(|k| k * 1024.0),
        others: Vec::new(),
        metadata_bytes: 0.0,
        foreign: Default::default(),
        lost_ios: None,
    };
    Ok(FioResult {
        cell: cell.clone(),
        device: disk.name.clone(),
        fio_version: run.version,
        facts,
        fio_cpu_percent: (job.usr_cpu, job.sys_cpu),
        cpu_percent: bracket.cpu_percent,
        lost_ios: None,
        disk_phase: None,
        file_bytes: plan.size as f64,
    })
}
