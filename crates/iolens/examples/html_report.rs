//! Writes the HTML report of a synthetic recording, to look at the page and to test it in a browser without a recording:
//! steady random reads, and every five seconds a batch of writes behind which the reads wait. The recording is written beside it
//! and removed again. It is of 10,000 I/Os a second, or of a part of them (0.1: of a tenth).
//!
//!     cargo run -p iolens --example html_report -- OUT.html [SECONDS [PART]]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use iolens_core::model::{
    Comm, DevId, Device, Io, LossReason, Lost, Observation, Op, RecorderCost, RecordingMeta, Source,
};
use iolens_core::store::{RecordingWriter, WriterOptions};

const SECOND: i64 = 1_000_000_000;
const SERVERS: usize = 16;
const READS_PER_S: f64 = 8900.0;
const BATCH: f64 = 5500.0;

/// A small seeded generator (xorshift).
struct Dice(u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Done, arrived, started, whether it writes, and its number.
type Flight = (i64, i64, i64, bool, u64);

/// A device that works on 16 requests at once, first come, first served.
struct Simulation {
    dice: Dice,
    free: BinaryHeap<Reverse<i64>>,
    flying: BinaryHeap<Reverse<Flight>>,
    number: u64,
}

impl Simulation {
    fn new() -> Simulation {
        let free = (0..SERVERS).map(|_| Reverse(0)).collect();
        Simulation {
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            free,
            flying: BinaryHeap::new(),
            number: 0,
        }
    }

    fn arrive(&mut self, at: i64, write: bool) {
        let spread = (0.3 * self.dice.normal()).exp();
        let service = if write { 1_050_000.0 } else { 90_000.0 } * spread;
        let Some(Reverse(free)) = self.free.pop() else {
            return;
        };
        let begin = free.max(at);
        let done = begin + service as i64;
        self.free.push(Reverse(done));
        self.number += 1;
        self.flying
            .push(Reverse((done, at, begin, write, self.number)));
    }

    fn land(&mut self, until: i64, push: &mut impl FnMut(&Io)) {
        while let Some(Reverse((done, at, begin, write, number))) = self.flying.peek().copied() {
            if done > until {
                return;
            }
            self.flying.pop();
            let (op, bytes) = if write {
                (Op::WRITE, 128 << 10)
            } else {
                (Op::READ, 8 << 10)
            };
            // Half of the wait is queue time, half device time.
            let queue = (begin - at) / 2;
            let comm = Comm::new(if write { b"</script><b>" } else { b"postgres" });
            let sector = if write {
                number as i64 * 256
            } else {
                (number as i64).wrapping_mul(7919) % (1 << 30)
            };
            push(&Io {
                comm: Some(comm),
                tgid: Some(if write { 4 } else { 2114 }),
                sector: Some(sector),
                ..Io::new(done, device(), op, bytes, Some(queue), done - at - queue)
            });
        }
    }

    fn run(mut self, seconds: i64, part: f64, mut push: impl FnMut(&Io)) {
        let mut read = 0;
        for second in 0..seconds {
            let end = (second + 1) * SECOND;
            let mut batch = (second % 5 == 3).then_some(second * SECOND + 200_000_000);
            while read < end {
                if batch.is_some_and(|at| at <= read) {
                    let at = batch.take().unwrap_or(read);
                    self.land(at, &mut push);
                    (0..(BATCH * part) as usize).for_each(|_| self.arrive(at, true));
                }
                self.land(read, &mut push);
                self.arrive(read, false);
                read += self.dice.exponential(1e9 / READS_PER_S / part) as i64 + 1;
            }
        }
        self.land(seconds * SECOND - 1, &mut push);
    }
}

fn device() -> DevId {
    DevId::new(259, 0)
}

fn meta(seconds: i64) -> RecordingMeta {
    let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_238_400 * SECOND);
    meta.host = Some("simulated.example".to_owned());
    meta.kernel = Some("6.18.44".to_owned());
    meta.end_ns = Some(seconds * SECOND);
    meta.devices = vec![Device::named("nvme0n1<i>", device())];
    meta.limits = vec!["This recording is simulated.".to_owned()];
    meta
}

/// I/Os that are handed to the writer at once.
const BATCH_OF_WRITER: usize = 4096;

fn record(path: &Path, seconds: i64, part: f64) -> Result<u64, Box<dyn std::error::Error>> {
    let end = seconds * SECOND;
    let lost = Lost {
        from_ns: end / 3,
        to_ns: end / 3 + end / 100,
        dev: None,
        class: None,
        reason: LossReason::RingFull,
        ios: Some(42),
        bytes: None,
        merges: None,
    };
    let mut writer = RecordingWriter::create(path, meta(seconds), WriterOptions::default())?;
    writer.push(&Observation::Lost(lost))?;
    let mut batch = Vec::new();
    let mut written = Ok(());
    let mut ios = 0;
    Simulation::new().run(seconds, part, |io| {
        ios += 1;
        batch.push(*io);
        if batch.len() == BATCH_OF_WRITER && written.is_ok() {
            written = writer.push_ios(&batch);
            batch.clear();
        }
    });
    written?;
    writer.push_ios(&batch)?;
    writer.finish(end, RecorderCost::default())?;
    Ok(ios)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: html_report OUT.html [SECONDS [PART]]";
    let out = args.next().ok_or(usage)?;
    let seconds: i64 = args.next().map_or(Ok(60), |s| s.parse())?;
    let part: f64 = args.next().map_or(Ok(1.0), |s| s.parse())?;
    let recording = PathBuf::from(format!("{out}.iolens"));
    let started = Instant::now();
    let ios = record(&recording, seconds, part)?;
    let recorded_s = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let argv = ["iolens", "report", &recording.to_string_lossy(), "-o", &out].map(OsString::from);
    let code = iolens::run(argv.into());
    std::fs::remove_dir_all(&recording)?;
    if code != 0 {
        return Err("no report".into());
    }
    eprintln!(
        "{out}: {} bytes of {ios} I/Os, recorded in {recorded_s:.1} s, reported in {:.1} s",
        std::fs::metadata(&out)?.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
