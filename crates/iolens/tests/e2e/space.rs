//! Little space: a full disk, a read-only one, a size limit.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolens_core::model::LossReason;
use iolens_core::store::{IoColumns, Recording};

use super::machine::{
    LoopDevice, Recorder, StopOnDrop, TIMEOUT, assert_refused, ebpf, read_in_sequence, run, scene,
    wait_until,
};

/// A tmpfs of a given size; unmounted when dropped.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Mounts it; says why if that is not possible.
    pub fn new(at: &Path, options: &str) -> Option<SmallDisk> {
        std::fs::create_dir(at).unwrap();
        let out = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(at)
            .output()
            .unwrap();
        if !out.status.success() {
            eprintln!(
                "SKIP: cannot mount a tmpfs: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if !Command::new("umount")
            .arg(&self.0)
            .status()
            .is_ok_and(|s| s.success())
        {
            eprintln!("{} could not be unmounted", self.0.display());
        }
    }
}

/// The file system at `path` has no free block.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).unwrap().f_bavail == 0
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    // Files are created and removed while the recorder works; removed ones use no space.
    let size = |e: std::fs::DirEntry| match e.metadata() {
        Ok(m) if m.is_dir() => bytes_below(&e.path()),
        Ok(m) => m.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

fn ios_stored(recording: &Recording) -> usize {
    recording
        .ios(i64::MIN..i64::MAX, IoColumns::REQUIRED)
        .map(|batch| batch.unwrap().len())
        .sum()
}

#[test]
fn on_a_full_disk_ios_are_counted_and_the_recording_stays_readable() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::new(&dir.path().join("disk"), "size=200k") else {
        return;
    };
    let path = disk.0.join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let before = device.stat()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        let _stop = StopOnDrop(&stop);
        wait_until("the disk is full", || is_full(&disk.0));
        // More than the free space in its last block.
        let reads = || device.stat()[0];
        let then = reads();
        wait_until("more is read", || reads() >= then + 50_000);
    });
    let kernel = (device.stat()[0] - before) as i64;
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let stored = ios_stored(&recording);
    let lost = recording.lost(i64::MIN..i64::MAX);
    let counted: i64 = lost
        .iter()
        .filter(|l| l.reason.is_loss())
        .map(|l| l.ios.unwrap())
        .sum();
    assert!(
        lost.iter().any(|l| l.reason == LossReason::DiskFull),
        "{lost:?}\n{}",
        scene(&out)
    );
    assert_eq!(
        stored as i64 + counted,
        kernel,
        "stored {stored}, counted as lost {counted}"
    );
}

#[test]
fn a_recording_that_could_store_no_io_is_a_failure_and_says_so() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // Enough for the description of a recording and its reserve for the end. Whether the first I/Os also fit depends on
    // their timing.
    // they come.
    let Some(disk) = SmallDisk::new(&dir.path().join("disk"), "size=80k") else {
        return;
    };
    let path = disk.0.join("r.iolens");
    let input = format!("if={}", device.path.display());
    for quiet in [&["-q"][..], &[]] {
        let record = ["record", "-o", path.to_str().unwrap(), "-d", device.name()];
        let dd = [
            "--",
            "dd",
            &input,
            "of=/dev/null",
            "bs=4k",
            "iflag=direct",
            "status=none",
        ];
        let out = run(&[&record[..], quiet, &dd].concat());
        let said = scene(&out);
        let has_some = ios_stored(&Recording::open(&path).unwrap()) > 0;
        let code = if has_some { 0 } else { 2 };
        assert_eq!(out.status.code(), Some(code), "{said}");
        assert!(said.contains("because the disk was full"), "{said}");
        if !quiet.is_empty() {
            let lines = String::from_utf8_lossy(&out.stderr).lines().count();
            assert_eq!(lines, 1, "{said}");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_read_only_target_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::new(&dir.path().join("disk"), "size=1m,ro") else {
        return;
    };
    let path = disk.0.join("r.iolens");
    let out = run(&[
        "record",
        "-q",
        "-o",
        path.to_str().unwrap(),
        "--source",
        "counters",
        "--for",
        "1s",
    ]);
    assert_refused(&out, &["r.iolens", "ead-only"]);
}

/// Reads of many positions and lengths: their recording grows faster than that of a sequence.
fn read_scattered(device: &LoopDevice, stop: &AtomicBool) {
    let file = device.open_direct();
    let mut storage = vec![0u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    let mut random: u64 = 1;
    while !stop.load(Ordering::Relaxed) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let block = (random >> 33) % 4095;
        let length = 512 * (1 + (random >> 60) as usize % 8);
        file.read_exact_at(&mut storage[at..at + length], block * 4096)
            .unwrap();
    }
}

/// The number of the oldest file of I/Os.
fn oldest_segment(recording: &Path) -> Option<u32> {
    let entries = std::fs::read_dir(recording.join("io"))
        .into_iter()
        .flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(".parquet")?.parse().ok())
        .min()
}

#[test]
fn the_size_limit_holds_at_every_moment_and_the_newest_ios_stay() {
    const KEEP: u64 = 4 << 20;
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name(), "--keep", "4M"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| read_scattered(&device, &stop));
        }
        let _stop = StopOnDrop(&stop);
        let begin = Instant::now();
        // Until two of the oldest segments were removed.
        while oldest_segment(&path).is_none_or(|number| number <= 2) {
            let used = bytes_below(&path);
            assert!(
                used <= KEEP,
                "{used} bytes on disk after {:?}",
                begin.elapsed()
            );
            assert!(begin.elapsed() < TIMEOUT, "no segment was removed");
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    assert!(bytes_below(&path) <= KEEP);
    let recording = Recording::open(&path).unwrap();
    let last = recording
        .ios(i64::MIN..i64::MAX, IoColumns::REQUIRED)
        .flat_map(|b| b.unwrap())
        .last()
        .unwrap();
    assert!(
        last.done_ns > recording.end_ns() - 1_000_000_000,
        "the newest are there"
    );
}
