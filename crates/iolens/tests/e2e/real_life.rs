//! Common problems are found and named: a journal that commits periodically, a copy beside a database, a load of many
//! workers.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::calibrated_disk::CalibratedDisk;
use super::machine::{LoopDevice, Mounted, Recorder, ebpf, run, scene};

fn report(path: &Path) -> Value {
    let out = run(&["report", path.to_str().unwrap(), "--json"]);
    assert!(out.status.success(), "{}", scene(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn facts<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    report["facts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["kind"] == kind)
        .collect()
}

fn fio(arguments: &[&str]) -> Option<std::process::Child> {
    let started = Command::new("fio")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        eprintln!("SKIP: fio is missing");
    }
    started.ok()
}

/// The journal commits five seconds after the first change; at least five periods make a verdict. 90 s with
/// `IOLENS_FULL=1`.
#[test]
fn a_file_appended_to_makes_the_journal_commit_periodically() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(512)) else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&device) else {
        return;
    };
    // Other processes that use the CPUs may delay the writes, but not in every attempt.
    let is_period = |period: f64| (4.99..=5.15).contains(&period);
    let mut runs = std::iter::repeat_with(|| journal_period(device.name(), mounted.path())).take(5);
    let rhythm =
        runs.find_map(|r| r.filter(|r| is_period(r["evidence"]["period_s"].as_f64().unwrap())));
    let rhythm =
        rhythm.expect("a period of five seconds, and what timers round up, in one of five runs");
    let cause = rhythm["evidence"]["cause"].as_str().unwrap();
    assert!(
        cause.contains("journal") && cause.contains("jbd2/"),
        "{rhythm}"
    );
    assert!(
        rhythm["summary"].as_str().unwrap().contains("journal"),
        "{rhythm}"
    );
}

/// Appends to a file below `dir` for a while; returns the periodicity that the report finds on the device, if any.
fn journal_period(device: &str, dir: &Path) -> Option<Value> {
    let seconds = if std::env::var_os("IOLENS_FULL").is_some() {
        90
    } else {
        42
    };
    let recordings = tempfile::tempdir().unwrap();
    let path = recordings.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-q", "-d", device]);
    let mut log = File::create(dir.join("log")).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        log.write_all(&[7; 16 << 10]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let report = report(&path);
    let rhythms = facts(&report, "periodicity");
    let [rhythm] = rhythms[..] else {
        eprintln!("NOTE: {} rhythms: {}", rhythms.len(), report["facts"]);
        return None;
    };
    eprintln!("{rhythm}");
    Some(rhythm.clone())
}

/// Files that are copied beside the reader.
const COPIES: u32 = 9;
const COPY_MIB: u32 = 48;

/// MiB that the processes whose name begins so have written, by `zoom`.
fn written_by(path: &Path, prefix: &str) -> f64 {
    let zoom = run(&[
        "zoom",
        path.to_str().unwrap(),
        "--by",
        "process",
        "--step",
        "1h",
        "--format",
        "json",
    ]);
    let rows: Value = serde_json::from_slice(&zoom.stdout).unwrap();
    let of = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["process"].as_str().unwrap().starts_with(prefix));
    of.map(|r| r["w_kib_per_s"].as_f64().unwrap() * r["slot_s"].as_f64().unwrap() / 1024.0)
        .sum()
}

#[test]
fn a_buffered_copy_makes_direct_readers_wait_and_is_named_with_its_file() {
    // 100 MB/s and 0.2 ms a request, one after the other: a copy fills its queue for most of a second, whatever else the
    // machine does, and whatever its own disks do. A reader alone waits for a quarter of a millisecond.
    let disk = CalibratedDisk::keeping_data(640, |_| Duration::from_micros(200), 10);
    let (Some(()), Some(disk)) = (ebpf(), disk) else {
        return;
    };
    let device = disk.device();
    // Other readers come in between: each read waits for some of the writes, not for all of a copy.
    device.set_queue("nr_requests", 16);
    device.set_queue("max_sectors_kb", 128);
    let Some(mounted) = Mounted::ext4(device) else {
        return;
    };
    let readme = mounted.path().join("readme");
    let filled = Command::new("dd")
        .args([
            "if=/dev/urandom",
            "bs=1M",
            "count=32",
            "conv=fsync",
            "status=none",
        ])
        .arg(format!("of={}", readme.display()))
        .status();
    assert!(filled.unwrap().success());
    let Some((dir, report)) = copies_beside_a_reader(device, &mounted, &readme) else {
        return;
    };
    made_to_wait_by_dd(&dir.path().join("r.iolens"), &report);
}

/// The process of the writes, and that they made the readers wait.
fn made_to_wait_by_dd(path: &Path, report: &Value) {
    let lost = report["recording"]["lost_ios"]
        .as_f64()
        .unwrap_or(f64::INFINITY);
    let written = written_by(path, "dd[");
    // Rates are printed with a few digits only.
    assert!(
        written >= f64::from(COPY_MIB * COPIES) - lost - 0.1,
        "laid to dd: {written} MiB, {lost} I/Os lost"
    );
    let metadata = written_by(path, "sync[");
    assert!(
        metadata < 8.0,
        "who flushes is not who wrote: {metadata} MiB of sync's"
    );
    let story = &report["stories"][0];
    assert_eq!(story["kind"], "writeback-flush", "{report}");
    assert_eq!(story["victim"]["process"], "fio", "{story}");
    assert_eq!(story["victim"]["class"], "read", "{story}");
    let culprit = &story["culprits"][0];
    assert_eq!(culprit["process"], "dd", "{story}");
    assert_eq!(culprit["origin"], "writeback", "{story}");
    let file = culprit["file_names"][0].as_str().unwrap();
    assert!(file.contains("/big"), "{story}");
    for key in [
        "seconds",
        "lost_time_percent",
        "explains_percent",
        "worst_us",
    ] {
        assert!(story["harm"][key].is_number(), "{key}: {story}");
    }
    let text = run(&["report", path.to_str().unwrap()]);
    let words = String::from_utf8(text.stdout)
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        words.contains("Reads of fio") && words.contains("wait for it") && words.contains("/big"),
        "{words}"
    );
}

/// Records a reader, with copies beside it that write to the page cache first: the recording and its report; `None`
/// without fio.
fn copies_beside_a_reader(
    device: &LoopDevice,
    mounted: &Mounted,
    readme: &Path,
) -> Option<(tempfile::TempDir, Value)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-q", "-d", device.name()]);
    let name = format!("--filename={}", readme.display());
    let reader = fio(&[
        "--name=reader",
        &name,
        "--rw=randread",
        "--bs=4k",
        "--direct=1",
        "--ioengine=psync",
        "--time_based",
        "--runtime=20",
        "--rate_iops=50",
        "--numjobs=8",
    ]);
    let mut reader = reader?;
    for i in 0..COPIES {
        std::thread::sleep(Duration::from_millis(1500));
        // It writes to the page cache and exits; other processes submit the I/O to the disk.
        let copied = Command::new("dd")
            .args([
                "if=/dev/zero",
                "bs=1M",
                &format!("count={COPY_MIB}"),
                "status=none",
            ])
            .arg(format!(
                "of={}",
                mounted.path().join(format!("big{i}")).display()
            ))
            .status();
        assert!(copied.unwrap().success());
        assert!(
            Command::new("sync")
                .arg("-f")
                .arg(mounted.path())
                .status()
                .unwrap()
                .success()
        );
    }
    reader.wait().unwrap();
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let report = report(&path);
    Some((dir, report))
}

#[test]
fn eight_workers_of_fio_are_named_and_their_bytes_add_up() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-q", "-d", device.name()]);
    let name = format!("--filename={}", device.path.display());
    // In shared loops, so that the total is known at any speed.
    let load = fio(&[
        "--name=w",
        &name,
        "--rw=randread",
        "--bs=16k",
        "--direct=1",
        "--ioengine=psync",
        "--numjobs=8",
        "--io_size=16M",
        "--size=64M",
        "--group_reporting",
        "--output-format=json",
    ]);
    let Some(load) = load else { return };
    let done = load.wait_with_output().unwrap();
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let said: Value = serde_json::from_slice(&done.stdout).unwrap();
    let bytes = said["jobs"][0]["read"]["io_bytes"].as_u64().unwrap();
    assert_eq!(bytes, 8 * (16 << 20));
    let hidden = report(&path)["recording"]["lost_ios"]
        .as_u64()
        .unwrap_or(u64::MAX);
    let zoom = run(&[
        "zoom",
        path.to_str().unwrap(),
        "--by",
        "process",
        "--step",
        "1h",
        "--format",
        "json",
    ]);
    let rows: Value = serde_json::from_slice(&zoom.stdout).unwrap();
    let workers: Vec<f64> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["process"].as_str().unwrap().starts_with("fio["))
        .map(|r| r["r_kib_per_s"].as_f64().unwrap() * r["slot_s"].as_f64().unwrap())
        .filter(|kib| *kib >= 1.0)
        .collect();
    assert!(workers.len() >= 8, "each worker by itself: {rows}");
    let kib: f64 = workers.iter().sum();
    // Rates are printed to a thousandth. fio's parent itself reads little of the device (its size, its partitions).
    let least = (bytes - 16384 * hidden.min(1000)) as f64 / 1024.0;
    let most = bytes as f64 / 1024.0 + 4096.0;
    assert!(
        kib >= least * 0.999 && kib <= most,
        "{kib} KiB of {least} to {most}; {hidden} hidden"
    );
    let html = dir.path().join("r.html");
    let out = run(&[
        "report",
        path.to_str().unwrap(),
        "-o",
        html.to_str().unwrap(),
    ]);
    if String::from_utf8_lossy(&out.stderr).contains("built without the HTML page") {
        return eprintln!("SKIP: {}", scene(&out));
    }
    let page = std::fs::read_to_string(&html).unwrap();
    let (_, data) = page.split_once("id=\"iolens-data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let fio = data["actors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|a| a["by"] == "process" && a["name"] == "fio");
    let moved: f64 = fio.map(|a| a["read"]["bytes"].as_f64().unwrap()).sum();
    assert!(
        (moved / 1024.0 - kib).abs() <= 1.0 + kib * 1e-3,
        "the page's list and the zoom agree: {moved} {kib}"
    );
}
