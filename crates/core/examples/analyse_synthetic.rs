//! Time and memory of the analyses, without disk or decoder.
//!
//!     cargo run --release -p iolens-core --example analyse_synthetic -- [IOS] [QUEUE_DEPTH] [DEVICES] [SECONDS]

use iolens_core::analysis::{ReportBuilder, Window};
use iolens_core::model::{DevId, Io, Op};

/// Seconds that this process has spent on a CPU: on a busy machine the clock on the wall says nothing.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        / 1e9
}

/// Reads and writes of a closed loop with `depth` outstanding, one each `every_ns` on average, in the order of completion.
#[derive(Clone, Copy)]
struct Load {
    state: u64,
    now_ns: i64,
    depth: u64,
    devices: u64,
    every_ns: u64,
}

impl Load {
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn next(&mut self) -> Io {
        self.now_ns += (self.random() % (2 * self.every_ns)) as i64;
        let op = if self.random().is_multiple_of(4) {
            Op::WRITE
        } else {
            Op::READ
        };
        let device_ns = (self.depth * 6_500 / 2 + self.random() % (self.depth * 6_500)) as i64;
        let dev = DevId::new(8, (self.random() % self.devices) as u32 * 16);
        let mut io = Io::new(
            self.now_ns,
            dev,
            op,
            4096,
            Some((self.random() % 2000) as i64),
            device_ns,
        );
        io.sector = Some((self.random() % (1 << 30)) as i64);
        io.tgid = Some((self.random() % 8) as i32);
        io
    }
}

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|a| a.parse::<u64>().expect("a number"));
    let n = args.next().unwrap_or(10_000_000);
    let depth = args.next().unwrap_or(32);
    let devices = args.next().unwrap_or(4);
    let every_ns = args
        .next()
        .map_or(6_500, |seconds| seconds * 1_000_000_000 / n.max(1))
        .max(1);
    let made = Load {
        state: 88_172_645_463_325_252,
        now_ns: 0,
        depth,
        devices,
        every_ns,
    };
    let window = Window::new(0, (n * every_ns + n * every_ns / 100) as i64);
    let started = cpu_s();
    let mut load = made;
    let sum = (0..n).fold(0, |a, _| a ^ load.next().done_ns);
    println!("making {n} I/Os: {:.2} s of CPU ({sum})", cpu_s() - started);

    let started = cpu_s();
    let mut load = made;
    let mut report = ReportBuilder::new(window);
    // As a recording is read: in batches, each with the time before which none of the later ones begins.
    let longest_ns = (depth * 6_500 / 2 + depth * 6_500 + 2_000) as i64;
    let mut left = n;
    while left > 0 {
        let batch: Vec<Io> = (0..left.min(8192)).map(|_| load.next()).collect();
        report
            .consumers()
            .into_iter()
            .for_each(|consumer| consumer.consume(&batch, load.now_ns - longest_ns));
        left -= batch.len() as u64;
    }
    let pushed = cpu_s() - started;
    let report = report.finish(0);
    let all = cpu_s() - started;
    let found = report.findings.len();
    println!(
        "whole report, making included: {all:.2} s ({pushed:.2} s of it pushing), {found} findings"
    );
    let rss = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "{}",
        rss.lines()
            .find(|l| l.starts_with("VmHWM"))
            .unwrap_or("peak memory: unknown")
    );
}
