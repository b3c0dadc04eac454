//! Compares I/Os one by one with those of other tracers.

use std::{collections::HashMap, fs, io::Read, os::unix::fs::OpenOptionsExt, path::Path, thread};

use iolens_core::model::{Io, Observation, Op};
use iolens_import::{ImportOptions, import_files};
use iolens_observe::trace::TracerOptions;

use crate::lab::{LoopDisk, fio, ready, run, scratch, trace};

const TRACEFS: &str = "/sys/kernel/tracing";

/// The kernel's tracer behind blktrace, switched on for one disk until dropped.
struct BlkTracer {
    disk: String,
}

impl BlkTracer {
    fn new(disk: &str) -> Option<BlkTracer> {
        if !Path::new(TRACEFS).join("current_tracer").exists() {
            run("mount", &["-t", "tracefs", "tracefs", TRACEFS]);
        }
        let tracers = fs::read_to_string(format!("{TRACEFS}/available_tracers")).ok()?;
        let current = fs::read_to_string(format!("{TRACEFS}/current_tracer")).ok()?;
        if !tracers.split_whitespace().any(|t| t == "blk") || current.trim() != "nop" {
            return None;
        }
        let tracer = BlkTracer {
            disk: disk.to_owned(),
        };
        tracer.set("buffer_size_kb", "32768");
        tracer.set("trace_clock", "mono");
        tracer.set("current_tracer", "blk");
        tracer.set("trace_options", "bin");
        tracer.set("trace_options", "nocontext-info");
        fs::write(format!("/sys/block/{disk}/trace/enable"), "1").ok()?;
        Some(tracer)
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(format!("{TRACEFS}/{file}"), value)
            .unwrap_or_else(|e| panic!("{file}={value}: {e}"));
    }

    /// All records since it was switched on, as stored in the kernel's buffers: one buffer per CPU, as blktrace writes
    /// them.
    fn read(&self) -> Vec<Vec<u8>> {
        fs::write(format!("/sys/block/{}/trace/enable", self.disk), "0").unwrap();
        let mut processors = Vec::new();
        for cpu in fs::read_dir(format!("{TRACEFS}/per_cpu")).unwrap() {
            let path = cpu.unwrap().path().join("trace_pipe");
            let mut pipe = fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)
                .unwrap();
            let mut chunk = vec![0; 1 << 16];
            let mut all = Vec::new();
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                all.extend_from_slice(&chunk[..n]);
            }
            processors.push(all);
        }
        processors
    }
}

impl Drop for BlkTracer {
    fn drop(&mut self) {
        let _ = fs::write(format!("/sys/block/{}/trace/enable", self.disk), "0");
        for (file, value) in [
            ("trace_options", "context-info"),
            ("trace_options", "nobin"),
            ("current_tracer", "nop"),
            ("trace_clock", "local"),
            ("buffer_size_kb", "1408"),
        ] {
            let _ = fs::write(format!("{TRACEFS}/{file}"), value);
        }
    }
}

/// `struct blk_io_trace` (include/uapi/linux/blktrace_api.h).
struct Seen {
    time_ns: i64,
    sector: i64,
    bytes: i64,
    is_write: bool,
    action: u32,
}

const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;

fn parse(raw: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut at = 0;
    while at + 48 <= raw.len() {
        let u32_at = |o: usize| u32::from_le_bytes(raw[at + o..at + o + 4].try_into().unwrap());
        let u64_at = |o: usize| u64::from_le_bytes(raw[at + o..at + o + 8].try_into().unwrap());
        assert_eq!(u32_at(0) >> 8, 0x65_6174, "magic number at {at}");
        let action = u32_at(28);
        seen.push(Seen {
            time_ns: u64_at(8) as i64,
            sector: u64_at(16) as i64,
            bytes: i64::from(u32_at(24)),
            is_write: action >> 16 & 2 != 0,
            action: action & 0xffff,
        });
        let extra = u16::from_le_bytes(raw[at + 46..at + 48].try_into().unwrap());
        at += 48 + usize::from(extra);
    }
    seen
}

#[test]
fn the_same_ios_as_the_kernels_own_tracer() {
    let Some(_turn) = ready(&["losetup", "fio", "mount"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let Some(blk) = BlkTracer::new(&disk.name) else {
        eprintln!("SKIP: no blk tracer, or tracefs is in use");
        return;
    };
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        fio(
            &disk.path(),
            &[
                "--rw=randrw",
                "--bsrange=4k-64k",
                "--iodepth=8",
                "--ioengine=libaio",
                "--direct=1",
                "--size=200m",
                "--number_ios=20000",
                "--rate_iops=12000",
            ],
        );
    });
    let mut issues: HashMap<(i64, i64, bool), Vec<i64>> = HashMap::new();
    let mut completions = issues.clone();
    let logs = blk.read();
    assert_imported_alike(
        &logs,
        &traced.ios,
        traced.lost.iter().filter_map(|l| l.ios).sum(),
    );
    for seen in parse(&logs.concat()) {
        let map = match seen.action {
            ISSUE => &mut issues,
            COMPLETE => &mut completions,
            _ => continue,
        };
        map.entry((seen.sector, seen.bytes, seen.is_write))
            .or_default()
            .push(seen.time_ns);
    }
    let data: Vec<&Io> = traced.ios.iter().filter(|io| io.bytes > 0).collect();
    assert!(data.len() > 5_000, "{}", data.len());
    let theirs: usize = completions
        .iter()
        .filter(|(k, _)| k.1 > 0)
        .map(|(_, v)| v.len())
        .sum();
    let hidden: i64 = traced.lost.iter().filter_map(|l| l.ios).sum();
    assert_eq!(data.len() as i64 + hidden, theirs as i64, "as many I/Os");
    let near = |map: &HashMap<(i64, i64, bool), Vec<i64>>, io: &Io, at: i64| {
        let times = map.get(&(io.sector?, io.bytes, io.op == Op::WRITE))?;
        times.iter().map(|t| (t - at).abs()).min()
    };
    let mut off: Vec<i64> = Vec::new();
    for io in &data {
        let issue = near(&issues, io, io.issue_ns());
        let done = near(&completions, io, io.done_ns);
        let (Some(issue), Some(done)) = (issue, done) else {
            panic!("the other tracer has no {io:?}")
        };
        off.push(issue.max(done));
    }
    off.sort_unstable();
    let far = off.iter().filter(|d| **d > 5_000).count();
    eprintln!(
        "{} I/Os: times differ by {} ns (median), {} ns (99.9 %), {far} by more than 5 us",
        off.len(),
        off[off.len() / 2],
        off[off.len() * 999 / 1000]
    );
    // An interrupt may come between the two tracers' readings of the clock.
    assert!(
        far * 200 <= off.len(),
        "{far} of {} differ by more than 5 us",
        off.len()
    );
}

/// The imported logs of the kernel's tracer contain the same I/Os one by one: same position, size, direction, queue
/// time and device time.
fn assert_imported_alike(logs: &[Vec<u8>], ours: &[Io], hidden: i64) {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..logs.len())
        .map(|i| dir.path().join(format!("disk.blktrace.{i}")))
        .collect();
    files
        .iter()
        .zip(logs)
        .for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    let got = import_files(
        &files,
        ImportOptions {
            strict: true,
            ..ImportOptions::default()
        },
    )
    .unwrap();
    let zero = got
        .meta
        .start_monotonic_ns
        .expect("blktrace counts from the machine's start");
    let mut theirs: HashMap<(i64, i64, Op), Vec<Io>> = HashMap::new();
    let mut imported = 0;
    for o in got.observations {
        if let Observation::Io(mut io) = o
            && io.bytes > 0
        {
            io.done_ns += zero;
            imported += 1;
            theirs
                .entry((io.sector.unwrap(), io.bytes, io.op))
                .or_default()
                .push(io);
        }
    }
    let ours: Vec<&Io> = ours.iter().filter(|io| io.bytes > 0).collect();
    assert_eq!(imported, ours.len() as i64 + hidden, "as many I/Os");
    let mut off: Vec<i64> = Vec::new();
    for io in &ours {
        let same = theirs
            .get_mut(&(io.sector.unwrap(), io.bytes, io.op))
            .unwrap_or_else(|| panic!("not imported: {io:?}"));
        let nearest = same
            .iter()
            .enumerate()
            .min_by_key(|(_, t)| (t.done_ns - io.done_ns).abs())
            .map(|(i, _)| i);
        let it = same.swap_remove(nearest.unwrap_or_else(|| panic!("imported too seldom: {io:?}")));
        let queue = (it.queue_ns.expect("its start is in the log") - io.queue_ns.unwrap()).abs();
        off.push(
            (it.done_ns - io.done_ns)
                .abs()
                .max((it.device_ns - io.device_ns).abs())
                .max(queue),
        );
    }
    off.sort_unstable();
    let far = off.iter().filter(|d| **d > 10_000).count();
    eprintln!(
        "{} imported I/Os: times differ by {} ns (median), {far} by more than 10 us",
        off.len(),
        off[off.len() / 2]
    );
    // An interrupt may come between the two tracers' readings of the clock.
    assert!(
        far * 100 <= off.len(),
        "{far} of {} differ by more than 10 us",
        off.len()
    );
}

/// At queue depth 1, fio's completion latency is ours plus the system calls and context switches around it. A disk
/// without latency shows these alone.
#[test]
fn latencies_agree_with_fio_at_depth_one() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split(' ').next().unwrap().parse().unwrap();
    let cpus = thread::available_parallelism().unwrap().get();
    if load > cpus as f64 {
        eprintln!(
            "SKIP: a load of {load} on {cpus} CPUs: fio would mostly measure its wait for a CPU"
        );
        return;
    }
    let (ours, theirs) = medians(&LoopDisk::in_memory(64), "4k");
    let around = theirs - ours;
    assert!(around > 0.0, "fio's {theirs} is below ours {ours}");
    let disk = LoopDisk::new(scratch(), 64);
    run("losetup", &["--direct-io=on", &disk.path()]);
    fio(
        &disk.path(),
        &[
            "--rw=write",
            "--bs=1m",
            "--size=64m",
            "--direct=1",
            "--ioengine=psync",
        ],
    );
    let (ours, theirs) = medians(&disk, "4k");
    eprintln!(
        "median of fio {theirs} ns, ours {ours} ns; in memory the call around it takes {around} ns"
    );
    // fio's percentiles are those of buckets some 1.6 % wide.
    assert!(ours <= theirs * 1.02, "ours {ours} above fio's {theirs}");
    // The difference depends on how fast this machine wakes fio, so it is printed but not checked.
}

/// Median latency of reads of `bs` at depth 1 in nanoseconds: ours, fio's.
fn medians(disk: &LoopDisk, bs: &str) -> (f64, f64) {
    let block = format!("--bs={bs}");
    let mut report = serde_json::Value::Null;
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        report = fio(
            &disk.path(),
            &[
                "--rw=randread",
                &block,
                "--iodepth=1",
                "--ioengine=psync",
                "--direct=1",
                "--size=60m",
                "--runtime=1500ms",
                "--time_based",
            ],
        );
    });
    let mut ours: Vec<i64> = traced
        .ios
        .iter()
        .filter(|io| io.op == Op::READ)
        .map(Io::total_ns)
        .collect();
    ours.sort_unstable();
    let theirs = report["jobs"][0]["read"]["clat_ns"]["percentile"]["50.000000"]
        .as_f64()
        .unwrap();
    (ours[ours.len() / 2] as f64, theirs)
}
