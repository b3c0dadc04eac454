//! End to end, from the kernel's probes to the report, against a disk with known service times.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolens_core::model::{Class, Io};
use iolens_core::store::{IoColumns, Recording};
use iolens_observe::counters::monotonic_ns;
use serde_json::Value;

use super::calibrated_disk::{CalibratedDisk, Served};
use super::machine::{LoopDevice, Recorder, ebpf, run, scene};

const MS: i64 = 1_000_000;
const BLOCK: usize = 32 << 10;
/// Relative tolerance of times, which a loaded machine needs.
const TOLERANCE: f64 = 0.08;
/// Number of attempts: the machine may be too busy in one round only.
const ROUNDS: usize = 5;

/// Reads `n` blocks from `first` on, sequentially; returns when each read was called and when it returned.
fn read_blocks(device: &LoopDevice, first: u64, n: u64) -> Vec<(i64, i64)> {
    let file = device.open_direct();
    let mut storage = vec![0u8; BLOCK + 4096];
    let at = storage.as_ptr().align_offset(4096);
    let mut read = |i: u64| {
        let from_ns = monotonic_ns();
        file.read_exact_at(&mut storage[at..at + BLOCK], i * BLOCK as u64)
            .unwrap();
        (from_ns, monotonic_ns())
    };
    (first..first + n).map(&mut read).collect()
}

/// The recording made while `load` ran, as I/Os and as a report; and the disk's own log of it.
struct Measured {
    ios: Vec<Io>,
    device: Value,
    window_s: f64,
    truth: Vec<Served>,
    /// The calls of the load.
    calls: Vec<(i64, i64)>,
}

fn measure(disk: &CalibratedDisk, load: impl FnOnce(&LoopDevice) -> Vec<(i64, i64)>) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    // Other processes read a newly attached loop device, looking for partitions, immediately or never; no event
    // signals it.
    std::thread::sleep(Duration::from_millis(300));
    let recorder = Recorder::start(&path, &["-d", disk.device().name()]);
    disk.take_log();
    let calls = load(disk.device());
    let truth = disk.take_log();
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let (device, window_s) = report(&path, disk.device().name());
    let recording = Recording::open(&path).unwrap();
    let ios = recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|b| b.unwrap())
        .collect();
    Measured {
        ios,
        device,
        window_s,
        truth,
        calls,
    }
}

fn report(path: &Path, name: &str) -> (Value, f64) {
    let out = run(&["report", path.to_str().unwrap(), "--json"]);
    assert!(out.status.success(), "{}", scene(&out));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let device = json["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["name"] == name)
        .unwrap()
        .clone();
    (device, json["recording"]["duration_s"].as_f64().unwrap())
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("no number: {v}"))
}

/// Nearest rank.
fn quantile(values: &mut [i64], q: f64) -> f64 {
    values.sort_unstable();
    let rank = (q * values.len() as f64).ceil() as usize;
    values[rank.max(1) - 1] as f64
}

/// Length of the union, and the sum, of `spans`, in nanoseconds.
fn busy_and_sum(mut spans: Vec<(i64, i64)>) -> (i64, i64) {
    spans.sort_unstable();
    let mut busy = 0;
    let mut reached = i64::MIN;
    for (from, to) in &spans {
        busy += (to - from.max(&reached)).max(0);
        reached = reached.max(*to);
    }
    (busy, spans.iter().map(|(from, to)| to - from).sum())
}

/// `got` is between the disk's own time and the caller's time, whatever the load. If these differ by no more than the
/// tolerance, as with idle CPUs, `got` is within it; otherwise this is printed.
fn between(what: &str, disk: f64, got: f64, caller: f64) {
    // Numbers are printed to a thousandth of a microsecond.
    assert!(
        got >= disk * 0.9999 && got <= caller * 1.0001,
        "{what}: disk {disk}, reported {got}, caller {caller}"
    );
    if got > disk * (1.0 + TOLERANCE) {
        eprintln!(
            "{what}: {got}, the disk alone {disk}, the caller {caller}: this machine is too busy for a closer check"
        );
    }
}

/// Repeats `round` until it passes, at most [`ROUNDS`] times.
fn rounds(round: impl Fn() -> Result<(), String>) {
    judge(round).unwrap();
}

/// The same; returns the last complaint if it never passed.
fn judge(round: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let mut complaints = Vec::new();
    for _ in 0..ROUNDS {
        match round() {
            Ok(()) => return Ok(()),
            Err(e) => complaints.push(e),
        }
    }
    Err(format!(
        "in no round close enough:\n{}",
        complaints.join("\n")
    ))
}

/// Every kernel occasionally hides completions from BPF; a round with a hidden one has no complete truth.
fn all_seen(m: &Measured) -> Result<(), String> {
    if m.ios.len() == m.truth.len() {
        return Ok(());
    }
    assert!(
        m.ios.len() < m.truth.len(),
        "{} I/Os of {}",
        m.ios.len(),
        m.truth.len()
    );
    Err(format!(
        "{} of {} I/Os were seen",
        m.ios.len(),
        m.truth.len()
    ))
}

#[test]
fn latency_percentiles_of_a_programmed_disk() {
    // Few enough that most rounds have no I/O that the kernel hides.
    const READS: u64 = 200;
    // 80 % take 4 ms, 17 % 15 ms, 3 % 40 ms: each percentile is inside its mode, where one late request moves little.
    fn programme(n: usize) -> Duration {
        Duration::from_millis(match n * 37 % 100 {
            0..3 => 40,
            3..20 => 15,
            _ => 4,
        })
    }
    let (Some(()), Some(disk)) = (ebpf(), CalibratedDisk::new(64, 1, programme)) else {
        return;
    };
    rounds(|| {
        let m = measure(&disk, |device| read_blocks(device, 0, READS));
        all_seen(&m)?;
        // One at a time, so the n-th recorded I/O is the n-th served, and its time includes the service time.
        for (io, served) in m.ios.iter().zip(&m.truth) {
            assert!(
                io.class() == Class::Read && io.bytes == BLOCK as i64,
                "{io:?}"
            );
            assert!(
                io.total_ns() >= served.to_ns - served.from_ns,
                "{io:?} {served:?}"
            );
            assert!(
                served.to_ns - served.from_ns >= served.programmed_ns,
                "{served:?}"
            );
        }
        for (io, (from, to)) in m.ios.iter().zip(&m.calls) {
            assert!(
                io.total_ns() <= to - from,
                "{io:?} inside its call of {} ns",
                to - from
            );
        }
        let mut took: Vec<i64> = m.truth.iter().map(|s| s.to_ns - s.from_ns).collect();
        let mut calls: Vec<i64> = m.calls.iter().map(|(from, to)| to - from).collect();
        let read = &m.device["read"];
        assert_eq!(
            (&read["ios"], &read["bytes"]),
            (&READS.into(), &(READS * BLOCK as u64).into())
        );
        for (key, q) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
            between(
                key,
                quantile(&mut took, q),
                1e3 * number(&read[key]),
                quantile(&mut calls, q),
            );
        }
        between(
            "mean",
            mean(&took),
            1e3 * number(&read["mean_us"]),
            mean(&calls),
        );
        Ok(())
    });
}

#[test]
fn busy_time_and_concurrency_of_a_programmed_disk() {
    let (Some(()), Some(disk)) = (
        ebpf(),
        CalibratedDisk::new(64, 4, |_| Duration::from_millis(8)),
    ) else {
        return;
    };
    rounds(|| {
        let m = measure(&disk, |device| {
            // Three at a time for a while, then idle for as long: busy about half of the time.
            let calls = std::thread::scope(|s| {
                let readers =
                    [0, 1, 2].map(|reader| s.spawn(move || read_blocks(device, reader * 200, 150)));
                readers.map(|r| r.join().unwrap()).concat()
            });
            std::thread::sleep(Duration::from_millis(1300));
            calls
        });
        all_seen(&m)?;
        let disk = busy_and_sum(m.truth.iter().map(|s| (s.from_ns, s.to_ns)).collect());
        let caller = busy_and_sum(m.calls.clone());
        let window_ns = m.window_s * 1e9;
        let share = |ns: i64| ns as f64 / window_ns;
        between(
            "busy",
            100.0 * share(disk.0),
            number(&m.device["busy_percent"]),
            100.0 * share(caller.0),
        );
        let concurrency = &m.device["concurrency"];
        between(
            "mean in flight",
            share(disk.1),
            number(&concurrency["mean"]),
            share(caller.1),
        );
        assert_eq!(concurrency["max"], 3, "{concurrency}");
        // The disk was idle half of the time. L = lambda R must hold for the reported values, whatever the load.
        let little = 450.0 / m.window_s * number(&m.device["read"]["mean_us"]) / 1e6;
        let mean = number(&concurrency["mean"]);
        assert!(
            (little - mean).abs() <= 0.005 * mean,
            "Little's law: {little} {mean}"
        );
        Ok(())
    });
}

#[test]
fn an_on_off_pattern_of_a_programmed_disk() {
    const BURSTS: u64 = 8;
    const PERIOD_NS: i64 = 2000 * MS;
    const READERS: u64 = 4;
    const EACH: u64 = 40;
    let (Some(()), Some(disk)) = (
        ebpf(),
        CalibratedDisk::new(64, 8, |_| Duration::from_millis(5)),
    ) else {
        return;
    };
    rounds(|| {
        let m = measure(&disk, |device| {
            let begin = monotonic_ns();
            for burst in 0..BURSTS {
                std::thread::scope(|s| {
                    for reader in 0..READERS {
                        s.spawn(move || {
                            read_blocks(device, (burst * READERS + reader) * EACH % 1500, EACH)
                        });
                    }
                });
                let left = begin + (burst as i64 + 1) * PERIOD_NS - monotonic_ns();
                std::thread::sleep(Duration::from_nanos(left.max(0) as u64));
            }
            Vec::new()
        });
        // A hidden I/O changes nothing here beyond the tolerances.
        if m.ios.len() * 200 < m.truth.len() * 199 {
            return Err(format!(
                "{} of {} I/Os were seen",
                m.ios.len(),
                m.truth.len()
            ));
        }
        let reads = &m.device["detail"]["streams"][0];
        let bursts = reads["bursts"].as_array().unwrap();
        if bursts.len() as u64 != BURSTS {
            return Err(format!("{} bursts: {bursts:?}", bursts.len()));
        }
        let mut truth = m.truth.clone();
        truth.sort_by_key(|s| s.to_ns);
        let slot_s = number(&reads["slot_s"]);
        for (burst, served) in bursts.iter().zip(truth.chunks((READERS * EACH) as usize)) {
            // The scan returns the most significant interval, which may exclude an I/O at its edge.
            let share = number(&burst["bytes"]) / ((READERS * EACH) as f64 * BLOCK as f64);
            if !(0.9..=1.0).contains(&share) {
                return Err(format!("{share} of a burst in {burst}"));
            }
            // From the first completion to the last.
            let lasted = (served[served.len() - 1].to_ns - served[0].to_ns) as f64 / 1e9;
            let found = number(&burst["end_s"]) - number(&burst["start_s"]);
            if (found - lasted).abs() > 2.0 * slot_s + TOLERANCE * lasted {
                return Err(format!("a burst of {lasted} s was found {found} s long"));
            }
        }
        let rhythm = &reads["periodicity"];
        let period = rhythm["period_s"].as_f64().unwrap_or(0.0);
        if rhythm["verdict"] != "periodic"
            || (period - PERIOD_NS as f64 / 1e9).abs() > 0.01 * period
        {
            return Err(format!("the rhythm: {rhythm}"));
        }
        Ok(())
    });
}

/// With one request at a time, fio's completion latency is the device's, plus the system calls around it and the time
/// until fio wakes up.
#[test]
fn percentiles_agree_with_fios_completion_latency_within_one_percent() {
    const REST_NS: f64 = 100e3;
    /// Share of CPU time.
    const BUSY: f64 = 0.3;
    fn programme(n: usize) -> Duration {
        Duration::from_millis([12, 20, 12, 12, 30, 12, 12, 20, 12, 50][n % 10])
    }
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("SKIP: no fio");
        return;
    }
    let (Some(()), Some(disk)) = (ebpf(), CalibratedDisk::new(64, 1, programme)) else {
        return;
    };
    let disturbed = AtomicBool::new(false);
    let judged = judge(|| {
        let logs = tempfile::tempdir().unwrap();
        let (idle_before, all_before) = processor_time();
        let m = measure(&disk, |device| {
            let prefix = logs.path().join("fio");
            let out = Command::new("fio")
                .args([
                    "--name=x",
                    "--rw=randread",
                    "--bs=32k",
                    "--direct=1",
                    "--iodepth=1",
                    "--number_ios=200",
                ])
                .arg(format!("--filename=/dev/{}", device.name()))
                .arg(format!("--write_lat_log={}", prefix.display()))
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", scene(&out));
            Vec::new()
        });
        all_seen(&m)?;
        // Milliseconds, nanoseconds, direction, ...
        let log = std::fs::read_to_string(logs.path().join("fio_clat.1.log")).unwrap();
        let mut theirs: Vec<i64> = log
            .lines()
            .map(|l| l.split(',').nth(1).unwrap().trim().parse().unwrap())
            .collect();
        assert_eq!(theirs.len(), 200);
        for (key, q) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
            let ours = 1e3 * number(&m.device["read"][key]);
            let theirs = quantile(&mut theirs, q);
            assert!(
                theirs >= ours * 0.99,
                "{key}: fio waited {theirs} ns for what took {ours} ns"
            );
            if theirs > ours * 1.01 + REST_NS {
                // One request of 12 ms or more at a time leaves the CPUs idle, except for other load.
                let (idle, all) = processor_time();
                let busy = 1.0 - (idle - idle_before) as f64 / (all - all_before) as f64;
                disturbed.fetch_or(busy > BUSY, Ordering::Relaxed);
                let busy_percent = 100.0 * busy;
                return Err(format!(
                    "{key}: {ours} ns, fio says {theirs}; processors {busy_percent:.0} % busy"
                ));
            }
        }
        Ok(())
    });
    match judged {
        Err(e) if disturbed.into_inner() => {
            eprintln!("SKIP: others use this machine, and fio is woken late:\n{e}")
        }
        judged => judged.unwrap(),
    }
}

/// CPU time of all CPUs so far, in ticks: idle, and total (`/proc/stat`).
fn processor_time() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|t| t.parse().unwrap())
        .collect();
    // The last two, guests, are included in the first two.
    (ticks[3] + ticks[4], ticks[..8].iter().sum())
}

fn mean(times: &[i64]) -> f64 {
    times.iter().sum::<i64>() as f64 / times.len() as f64
}
