//! Devices that appear while recording are recorded, those without requests too; in `live` they are shown.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iolens_core::model::{Class, DevId, Io};
use iolens_core::store::{IoColumns, Recording};

use super::machine::{
    Ended, LoopDevice, Recorder, StopOnDrop, ebpf, hidden, open_direct, scene, wait_until,
};

const BLOCKS: u64 = 200;

fn device_number(name: &str) -> DevId {
    let text = std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let (major, minor) = text.trim().split_once(':').unwrap();
    DevId::new(major.parse().unwrap(), minor.parse().unwrap())
}

/// Writes and reads `BLOCKS` blocks of 4 KiB.
fn write_and_read(file: &File) {
    let mut storage = vec![7u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    for n in 0..BLOCKS {
        file.write_all_at(&storage[at..at + 4096], n * 4096)
            .unwrap();
        file.read_exact_at(&mut storage[at..at + 4096], n * 4096)
            .unwrap();
    }
}

/// Waits until the recorder at `path` has described the device of this size. It attaches what the device needs before that.
fn wait_until_noticed(path: &Path, dev: DevId, size_bytes: u64) {
    wait_until("the recorder has noticed the device", || {
        Recording::open(path).is_ok_and(|recording| {
            let devices = &recording.meta().devices;
            devices
                .iter()
                .any(|d| d.id == dev && d.size_bytes == Some(size_bytes))
        })
    });
}

fn recorded(recording: &Recording, dev: DevId, class: Class) -> Vec<Io> {
    let all = recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|b| b.unwrap());
    all.filter(|io| io.dev == dev && io.class() == class)
        .collect()
}

/// Every I/O is there, but for those that the kernel hid, which are counted.
fn assert_counted(recording: &Recording, ours: usize, class: Class) {
    let hidden = hidden(&recording.lost(i64::MIN..i64::MAX));
    let all = BLOCKS as i64;
    assert!(
        (all - hidden..=all).contains(&(ours as i64)),
        "{class:?}: {ours} of {all}, {hidden} hidden"
    );
}

#[test]
fn a_loop_device_set_up_while_recording_is_recorded_and_named() {
    let Some(()) = ebpf() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &[]);
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    let dev = device_number(device.name());
    write_and_read(&device.open_direct());
    wait_until_noticed(&path, dev, 8 << 20);
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    for class in [Class::Read, Class::Write] {
        let ios = recorded(&recording, dev, class);
        // Others (udev) may read from a new device too.
        let ours = ios
            .iter()
            .filter(|io| io.tgid == i32::try_from(std::process::id()).ok())
            .count();
        assert_counted(&recording, ours, class);
    }
    let known = recording
        .meta()
        .devices
        .iter()
        .find(|d| d.id == dev)
        .unwrap();
    assert_eq!(known.name, device.name());
    assert_eq!(known.size_bytes, Some(8 << 20));
}

/// Held by a test from before its recorder starts: the kernel gives the number of a removed zram device to the next one.
static ZRAM_TURN: Mutex<()> = Mutex::new(());

fn zram_turn() -> MutexGuard<'static, ()> {
    ZRAM_TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A zram device; removed when dropped.
struct Zram(PathBuf);

impl Zram {
    fn new() -> Option<Zram> {
        let Ok(id) = std::fs::read_to_string("/sys/class/zram-control/hot_add") else {
            eprintln!("SKIP: no zram here");
            return None;
        };
        Some(Zram(PathBuf::from(format!("/dev/zram{}", id.trim()))))
    }

    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    fn set_size(&self, bytes: u64) {
        std::fs::write(
            Path::new("/sys/block").join(self.name()).join("disksize"),
            bytes.to_string(),
        )
        .unwrap();
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let id = self.name().trim_start_matches("zram").to_owned();
        if let Err(e) = std::fs::write("/sys/class/zram-control/hot_remove", id) {
            eprintln!("{} could not be removed: {e}", self.0.display());
        }
    }
}

#[test]
fn a_zram_device_that_appears_gets_the_probes_for_devices_without_requests() {
    let Some(()) = ebpf() else { return };
    let _turn = zram_turn();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &[]);
    let Some(zram) = Zram::new() else { return };
    zram.set_size(8 << 20);
    let dev = device_number(zram.name());
    wait_until_noticed(&path, dev, 8 << 20);
    write_and_read(&open_direct(&zram.0));
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    for class in [Class::Read, Class::Write] {
        let ios = recorded(&recording, dev, class);
        let ours: Vec<&Io> = ios
            .iter()
            .filter(|io| io.tgid == i32::try_from(std::process::id()).ok())
            .collect();
        assert_counted(&recording, ours.len(), class);
        assert!(ours.iter().all(|io| io.bytes == 4096 && io.device_ns >= 0));
    }
    assert!(
        recording
            .meta()
            .devices
            .iter()
            .any(|d| d.id == dev && d.added_ns.is_some())
    );
    let marks = recording.marks(i64::MIN..i64::MAX);
    assert!(
        marks
            .iter()
            .any(|m| m.kind == "device-added" && m.text == zram.name()),
        "{marks:?}"
    );
}

#[test]
fn a_device_that_appears_while_live_shows_rows_has_its_name() {
    let Some(()) = ebpf() else { return };
    let _turn = zram_turn();
    let mut live = Command::new(env!("CARGO_BIN_EXE_iolens"));
    live.args(["live", "--plain", "--no-serve", "--by", "device"]);
    live.args(["--step", "100ms", "--format", "csv"]);
    let mut live = Ended(live.stdout(Stdio::piped()).spawn().unwrap());
    let rows = BufReader::new(live.0.stdout.take().unwrap());
    let mut rows = rows.lines().map(|line| line.unwrap());
    // The heading and a row: it watches.
    rows.by_ref().take(2).for_each(drop);
    let Some(zram) = Zram::new() else { return };
    zram.set_size(8 << 20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _stop = StopOnDrop(&stop);
        s.spawn(|| {
            let file = open_direct(&zram.0);
            while !stop.load(Ordering::Relaxed) {
                write_and_read(&file);
            }
        });
        assert!(rows.any(|row| row.contains(zram.name())), "live has ended");
    });
}
