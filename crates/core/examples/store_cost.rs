//! Cost of writing and reading a recording: nanoseconds and bytes per I/O, on a sample or on synthetic load.
//!
//! ```text
//! cargo run --release -p iolens-core --example store_cost -- [--csv SAMPLE | --one-job] [--ios N] [--devices N] [--seconds S] [--dir DIR] [--keep-files] [--write-only]
//! ```
//! SAMPLE has lines `done_ns,dev,rwbs,bytes,queue_ns,device_ns,sector,pid,comm`, as a tracer of `block:block_rq_complete`
//! can print them; it is repeated until N I/Os are there. Without one the load is made up: a mix of processes on so many
//! devices (2) for so many seconds (33 us for each I/O), or one process that reads at random.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use iolens_core::model::{
    Comm, DevId, Device, Io, Op, Origin, RecorderCost, RecordingMeta, Source,
};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

#[path = "../benches/sample/mod.rs"]
mod sample;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut csv = None;
    let mut n = 2_000_000;
    let mut dir = std::env::temp_dir().join("store_cost.iolens");
    let mut keep = false;
    let mut write_only = false;
    let mut one_job = false;
    let mut devices = 2;
    let mut seconds = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--csv" => csv = Some(value()?),
            "--ios" => n = value()?.parse()?,
            "--devices" => devices = value()?.parse()?,
            "--seconds" => seconds = Some(value()?.parse::<f64>()?),
            "--dir" => dir = value()?.into(),
            "--keep-files" => keep = true,
            "--write-only" => write_only = true,
            "--one-job" => one_job = true,
            _ => return Err(format!("{arg}: unknown; see the head of this file").into()),
        }
    }
    let sample = match &csv {
        Some(path) => read_csv(Path::new(path))?,
        None if one_job => sample::one_job(500_000),
        None => {
            let every_ns = seconds.map_or(33_000, |s| (s * 1e9 / n as f64) as u64);
            sample::made_up(n.min(500_000), devices, every_ns)
        }
    };
    write(&dir, &sample, n)?;
    if !write_only {
        columns(&dir)?;
        read(&dir)?;
    }
    if !keep {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn write(dir: &Path, sample: &[Io], n: usize) -> Result<(), AnyError> {
    // Starts the peak anew, so that it is the writer's.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = rss_kib("VmRSS");
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    let devices: BTreeSet<DevId> = sample.iter().map(|io| io.dev).collect();
    let named = devices
        .iter()
        .zip(0..)
        .map(|(dev, i)| Device::named(format!("disk{i}"), *dev));
    meta.devices = named.collect();
    meta.host = Some("example".to_owned());
    let mut writer = RecordingWriter::create(dir, meta, WriterOptions::default())?;
    let span = sample.last().map_or(0, |io| io.done_ns) + 1000;
    let mut pushed = 0;
    let mut shift = 0;
    let mut last_tick = 0;
    let mut batch = Vec::with_capacity(256);
    let cpu = cpu_ns();
    let started = Instant::now();
    while pushed < n {
        for chunk in sample.chunks(256) {
            batch.clear();
            batch.extend(chunk.iter().map(|io| Io {
                done_ns: io.done_ns + shift,
                ..*io
            }));
            writer.push_ios(&batch)?;
            let now = batch.last().map_or(0, |io| io.done_ns);
            if now - last_tick > 200_000_000 {
                writer.tick(now)?;
                last_tick = now;
            }
            pushed += chunk.len();
        }
        shift += span;
    }
    let summary = writer.finish(shift, RecorderCost::default())?;
    let cpu = cpu_ns()
        .zip(cpu)
        .map(|(after, before)| (after.0 - before.0, after.1 - before.1));
    let ios = summary.ios as f64;
    println!(
        "ios {}  wall {:.1} ns/io",
        summary.ios,
        started.elapsed().as_nanos() as f64 / ios
    );
    if let Some((user, system)) = cpu {
        let user = user as f64 / ios;
        let system = system as f64 / ios;
        println!(
            "cpu  user {user:.1} ns/io (copying the sample included)  system {system:.1} ns/io"
        );
    }
    println!("disk {:.2} bytes/io", summary.disk_bytes as f64 / ios);
    if let Some((peak, before)) = rss_kib("VmHWM").zip(before) {
        println!(
            "memory {:.1} MiB at its peak, beyond the sample",
            (peak - before) as f64 / 1024.0
        );
    }
    Ok(())
}

/// Bytes per I/O of every column.
fn columns(dir: &Path) -> Result<(), AnyError> {
    let (mut sizes, mut rows): (BTreeMap<usize, (String, i64)>, i64) = Default::default();
    for entry in std::fs::read_dir(dir.join("io"))? {
        let reader = SerializedFileReader::new(std::fs::File::open(entry?.path())?)?;
        for group in reader.metadata().row_groups() {
            rows += group.num_rows();
            for (i, c) in group.columns().iter().enumerate() {
                let size = sizes
                    .entry(i)
                    .or_insert_with(|| (c.column_path().string(), 0));
                size.1 += c.compressed_size();
            }
        }
    }
    for (name, bytes) in sizes.values() {
        println!("  {name:10} {:.3}", *bytes as f64 / rows as f64);
    }
    Ok(())
}

fn read(dir: &Path) -> Result<(), AnyError> {
    let started = Instant::now();
    let recording = Recording::open(dir)?;
    println!("open {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    for (what, columns) in [
        ("zoom columns", IoColumns::QUEUE),
        ("all columns", IoColumns::ALL),
    ] {
        let started = Instant::now();
        let mut n = 0;
        for batch in recording.ios(0..i64::MAX, columns) {
            n += batch?.len();
        }
        println!(
            "read {what}: {:.1} ns/io",
            started.elapsed().as_nanos() as f64 / n as f64
        );
    }
    for at in [0.1, 0.5, 0.9] {
        let started = Instant::now();
        let from = (recording.end_ns() as f64 * at) as i64;
        let mut n = 0;
        for batch in recording.ios(from..from + 10_000_000_000, IoColumns::QUEUE) {
            n += batch?.len();
        }
        println!(
            "10 s at {at}: {n} ios in {:.1} ms",
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    Ok(())
}

/// CPU time of this process, user and system, in nanoseconds (100 ticks a second, as `/proc` always has it).
fn cpu_ns() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |i: usize| Some(fields.get(i)?.parse::<u64>().ok()? * 10_000_000);
    Some((ticks(11)?, ticks(12)?))
}

/// Resident memory in KiB: `VmRSS` now, or `VmHWM` at its peak.
fn rss_kib(which: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix(which)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn read_csv(path: &Path) -> Result<Vec<Io>, AnyError> {
    let text = std::fs::read_to_string(path)?;
    let mut ios: Vec<Io> = text
        .lines()
        .map(parse)
        .collect::<Option<_>>()
        .ok_or("a line of the sample is not understood")?;
    let start = ios.first().map_or(0, |io| io.done_ns);
    ios.iter_mut().for_each(|io| io.done_ns -= start);
    Ok(ios)
}

fn parse(line: &str) -> Option<Io> {
    let f: Vec<&str> = line.split(',').collect();
    let rwbs = f.get(2)?;
    let op = match rwbs.trim_start_matches('F').chars().next() {
        Some('R') => Op::READ,
        Some('W') => Op::WRITE,
        Some('D') => Op::DISCARD,
        _ => Op::FLUSH,
    };
    let flag = |letter, bit| if rwbs[1..].contains(letter) { bit } else { 0 };
    let flags = flag('S', Io::FLAG_SYNC) | flag('M', Io::FLAG_META) | flag('A', Io::FLAG_RAHEAD);
    let sector: i64 = f.get(6)?.parse().ok()?;
    let comm = f.get(8)?;
    let file = *comm == "fio" && flags & Io::FLAG_META == 0;
    Some(Io {
        sector: Some(sector),
        flags: Some(flags),
        error: Some(0),
        merges: Some(0),
        tgid: Some(f.get(7)?.parse().ok()?),
        comm: Some(Comm::new(comm.as_bytes())),
        cgroup: Some(if comm.starts_with("kworker") { 1 } else { 4242 }),
        // The trace knows no files: an extent of 64 MiB stands for one.
        ino: file.then_some(131_072 + (sector >> 17)),
        fs_dev: file.then_some(f.get(1)?.parse().ok()?),
        origin: if file {
            Origin::Direct
        } else {
            Origin::Metadata
        },
        ..Io::new(
            f[0].parse().ok()?,
            DevId(f[1].parse().ok()?),
            op,
            f[3].parse().ok()?,
            f[4].parse().ok(),
            f[5].parse().ok()?,
        )
    })
}
