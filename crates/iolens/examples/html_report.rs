//! Writes the HTML report of a synthetic recording, to look at the page and to test it in a browser without a recording:
//! steady random reads, and every five seconds a batch of writes behind which the reads wait.
//!
//!     cargo run -p iolens --example html_report -- OUT.html [SECONDS]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use iolens::present::html::{self, ReportData};
use iolens::present::report_json::RecordingFacts;
use iolens_core::analysis::overview::{Overview, OverviewPlan, moments, scopes};
use iolens_core::analysis::{ReportBuilder, Window};
use iolens_core::model::{
    Comm, DevId, Device, Io, LossReason, Lost, Names, Op, RecordingMeta, Source,
};

const SECOND: i64 = 1_000_000_000;
const SERVERS: usize = 16;
const READS_PER_S: f64 = 8900.0;
const BATCH: usize = 5500;

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

    fn run(mut self, seconds: i64, mut push: impl FnMut(&Io)) {
        let mut read = 0;
        for second in 0..seconds {
            let end = (second + 1) * SECOND;
            let mut batch = (second % 5 == 3).then_some(second * SECOND + 200_000_000);
            while read < end {
                if batch.is_some_and(|at| at <= read) {
                    let at = batch.take().unwrap_or(read);
                    self.land(at, &mut push);
                    (0..BATCH).for_each(|_| self.arrive(at, true));
                }
                self.land(read, &mut push);
                self.arrive(read, false);
                read += self.dice.exponential(1e9 / READS_PER_S) as i64 + 1;
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let out = args.next().ok_or("usage: html_report OUT.html [SECONDS]")?;
    let seconds: i64 = args.next().map_or(Ok(60), |s| s.parse())?;
    let end = seconds * SECOND;
    let window = Window::new(0, end);

    let (from_ns, to_ns, reason) = (end / 3, end / 3 + end / 100, LossReason::RingFull);
    let lost = Lost {
        from_ns,
        to_ns,
        dev: None,
        class: None,
        reason,
        ios: Some(42),
        bytes: None,
        merges: None,
    };

    let mut builder = ReportBuilder::for_recording(&meta(seconds), window);
    builder.lost(&lost);
    Simulation::new().run(seconds, |io| builder.push(io));
    let report = builder.finish(end);
    let devices: Vec<_> = report
        .devices
        .devices
        .iter()
        .map(|d| (d.dev, d.classes.iter().filter_map(|c| c.ios).sum()))
        .collect();

    let started = Instant::now();
    let mut overview = Overview::new(OverviewPlan::whole(window, scopes(&devices, |_| false, 8)));
    let mut ios = 0u64;
    Simulation::new().run(seconds, |io| {
        overview.push(io);
        ios += 1;
    });
    overview.lost(&lost);
    let base = overview.finish();
    eprintln!(
        "{ios} I/Os simulated and overlooked in {:.1} s",
        started.elapsed().as_secs_f64()
    );

    let plan = OverviewPlan::details(&base, &moments(&base, &report.findings), 8);
    let reads = plan.reads(base.longest_ns);
    let mut details = Overview::new(plan);
    Simulation::new().run(seconds, |io| {
        if reads.iter().any(|w| w.contains(io.done_ns)) {
            details.push(io);
        }
    });
    let details = details.finish();
    let facts = RecordingFacts {
        path: "simulated.iolens".to_owned(),
        total_ios: Some(ios),
        ..RecordingFacts::default()
    };
    let meta = meta(seconds);
    let started = Instant::now();
    let html = html::render(&ReportData {
        report: &report,
        meta: &meta,
        facts: &facts,
        overview: &base,
        details: Some(&details),
        names: &Names::default(),
        notes: &[],
        marks: &[],
        files: None,
        tables: None,
        view: None,
    })?;
    std::fs::write(&out, &html)?;
    eprintln!(
        "{out}: {} bytes, rendered in {:.3} s",
        html.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
