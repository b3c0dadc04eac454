//! Makes a recording root as `iolens serve` leaves it, for measurements of what reads it.
//!
//! ```text
//! cargo run --release -p iolens-core --example root_store -- ROOT [--days 30] [--devices 100] [--ios 100000000]
//! ```
//! `ROOT/rollups`: a recording for each day with sums per minute and hour of so many devices, up to today. `ROOT/ios`: recordings of
//! ten million single I/Os each with their sums per second and minute, actors and waits, one after the other, 30,000 a second.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use iolens_core::analysis::waits::{WAIT_STEPS_S, WaitBinsBuilder, coarser_waits, wait_rows};
use iolens_core::model::{
    CallHistogram, Class, DevId, Device, Flight, Io, RecorderCost, RecordingMeta, Rollup, Source,
};
use iolens_core::private::Access;
use iolens_core::rollup::{ACTOR_STEPS_S, ActorsBuilder, RollupBuilder, coarser_actors, minutes};
use iolens_core::store::{RecordingWriter, Root, WriterOptions, write_missing_rollups};

#[path = "../benches/sample/mod.rs"]
mod sample;

type AnyError = Box<dyn std::error::Error>;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
const EVERY_NS: u64 = 33_000;

fn main() -> Result<(), AnyError> {
    let mut root = None;
    let mut days = 30;
    let mut devices = 100;
    let mut ios = 100_000_000;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--days" => days = value()?.parse()?,
            "--devices" => devices = value()?.parse()?,
            "--ios" => ios = value()?.parse()?,
            _ => root = Some(PathBuf::from(arg)),
        }
    }
    let root = root.ok_or("give the directory to make; see the head of this file")?;
    let now_ns = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?;
    let today_ns = now_ns / (DAY_S * SECOND_NS) * DAY_S * SECOND_NS;
    for day in 0..days {
        rollups(
            &host(&root, "rollups")?,
            today_ns - (days - day) * DAY_S * SECOND_NS,
            devices,
        )?;
    }
    let each = 10_000_000.min(ios.max(1));
    let length_ns = (each * EVERY_NS) as i64;
    let n = i64::try_from(ios / each)?;
    for i in 0..n {
        single(
            &host(&root, "ios")?,
            now_ns - (n - i) * (length_ns + SECOND_NS),
            each as usize,
        )?;
    }
    Ok(())
}

fn host(root: &Path, part: &str) -> Result<PathBuf, AnyError> {
    let dir = root.join(part).join(Root::host_directory("bench"));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn begin(dir: &Path, start_ns: i64, devices: u32) -> Result<(PathBuf, RecordingWriter), AnyError> {
    let path = dir.join(Root::recording_directory(start_ns));
    let named = (0..devices).map(|i| Device::named(format!("disk{i}"), DevId::new(8, 16 * i)));
    let meta = RecordingMeta {
        devices: named.collect(),
        ..RecordingMeta::new(Source::Ebpf, start_ns)
    };
    let options = WriterOptions {
        devices_table: true,
        ..WriterOptions::default()
    };
    let writer = RecordingWriter::create(&path, meta, options)?;
    Ok((path, writer))
}

/// A day of `devices` devices that read and write.
fn rollups(dir: &Path, start_ns: i64, devices: u32) -> Result<(), AnyError> {
    let (path, writer) = begin(dir, start_ns, devices)?;
    writer.finish(DAY_S * SECOND_NS, RecorderCost::default())?;
    let of_step = |step_s: i32, length_s: i64| {
        let slots = (0..length_s / i64::from(step_s)).map(|i| i * i64::from(step_s) * SECOND_NS);
        let rows = slots.flat_map(|at_ns| {
            (0..devices).flat_map(move |d| {
                [None, Some(Class::Read), Some(Class::Write)].map(|c| row(step_s, at_ns, d, c))
            })
        });
        rows.collect::<Vec<Rollup>>()
    };
    write_missing_rollups(
        &path,
        Access::OWNER,
        [&[], &of_step(60, DAY_S), &of_step(3600, DAY_S)],
    )?;
    Ok(())
}

fn row(step_s: i32, at_ns: i64, device: u32, class: Option<Class>) -> Rollup {
    let at_s = at_ns / SECOND_NS;
    // Some 100 to 300 a second, more by day, each device at its own level; latencies in a score of buckets.
    let n = i64::from(step_s) * (100 + i64::from(device) + 100 * (at_s / 3600 % 24 / 8))
        + at_s / 60 % 17;
    let mut total = CallHistogram::default();
    if class.is_some() {
        let base = 150_000 + 1_000 * i64::from(device) + at_s % 977;
        (0..20).for_each(|i| total.add(base + base * i * i / 20, (n / 20) as u64));
    }
    let flight = Flight {
        busy_ns: n * 90_000,
        in_flight_ns: n * 300_000,
        in_flight_max: 8 + at_s % 5,
    };
    Rollup {
        ios: n,
        bytes: n * 8192,
        merges: Some(0),
        errors: Some(0),
        queue_sum_ns: Some(n * 20_000),
        device_sum_ns: n * 280_000,
        flight: class.is_none().then_some(flight),
        device: total.clone(),
        total,
        ..Rollup::empty(step_s, at_ns, Some(DevId::new(8, 16 * device)), class)
    }
}

fn single(dir: &Path, start_ns: i64, n: usize) -> Result<(), AnyError> {
    let (_, mut writer) = begin(dir, start_ns, 8)?;
    let ios = sample::made_up(n.min(500_000), 8, EVERY_NS);
    let span_ns = ios.last().map_or(0, |io| io.done_ns) + 1_000;
    let mut sums = RollupBuilder::default();
    let mut actors = ActorsBuilder::default();
    let slot_ns = i64::from(WAIT_STEPS_S[0]) * SECOND_NS;
    let mut waits = WaitBinsBuilder::running(slot_ns);
    for round in 0..n.div_ceil(ios.len()) as i64 {
        for chunk in ios.chunks(256) {
            let moved: Vec<Io> = chunk
                .iter()
                .map(|io| Io {
                    done_ns: io.done_ns + round * span_ns,
                    ..*io
                })
                .collect();
            writer.push_ios(&moved)?;
            sums.push_ios(&moved);
            actors.push_ios(&moved);
            moved.iter().for_each(|io| waits.push(io));
        }
        writer.tick(round * span_ns)?;
    }
    let seconds = sums.finish();
    writer.write_rollups(1, &seconds)?;
    writer.write_rollups(60, &minutes(&seconds))?;
    let actors = actors.finish();
    writer.write_actors(ACTOR_STEPS_S[0], &actors)?;
    writer.write_actors(ACTOR_STEPS_S[1], &coarser_actors(&actors))?;
    let bins = waits.finish();
    let slots = bins.chunk_by(|a, b| a.from_ns == b.from_ns);
    let rows: Vec<_> = slots
        .flat_map(|slot| wait_rows(slot, WAIT_STEPS_S[0], slot[0].from_ns))
        .collect();
    writer.write_waits(WAIT_STEPS_S[0], &rows)?;
    writer.write_waits(WAIT_STEPS_S[1], &coarser_waits(&rows, WAIT_STEPS_S[1]))?;
    writer.finish(
        n.div_ceil(ios.len()) as i64 * span_ns,
        RecorderCost::default(),
    )?;
    Ok(())
}
