//! Measures the cost of one poll of the counters, compared with a bare `pread` of the same file, and the punctuality of
//! 1 kHz sampling.
//!
//!     cargo run --release -p iolens-observe --example poll_cost [ROOT | --sleep | --all]
//!
//! `--sleep` only sleeps until the next second, forever: the cost of a sampler without work. `--all` polls all devices
//! and nothing else.
//!
//! All measurements of one run are taken in turns, so they compare under the same conditions.

use iolens_observe::counters::{
    DiskstatsReader, Pace, Root, Sampler, StatFile, Wake, monotonic_ns,
};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Turns of measurement, and polls in each.
const TURNS: usize = 60;
const POLLS: usize = 200;

fn main() {
    if std::env::args().nth(1).is_some_and(|a| a == "--sleep") {
        let mut pace = Pace::new(Duration::from_secs(1));
        loop {
            pace.wait();
        }
    }
    if std::env::args().nth(1).is_some_and(|a| a == "--all") {
        return all_disks(&Root::live());
    }
    let root = std::env::args().nth(1).map_or_else(Root::live, Root::under);
    let disk = root.names("/sys/block").ok().and_then(|names| {
        names
            .into_iter()
            .map(|n| String::from_utf8_lossy(&n).into_owned())
            .max_by_key(|n| n.starts_with("vd") || n.starts_with("sd") || n.starts_with("nvme"))
    });
    if let Some(disk) = disk {
        one_disk(&root, &disk);
        kilohertz(&root, &disk);
    }
    all_disks(&root);
}

/// Median nanoseconds per call of two alternatives, measured in turns.
fn compare(mut a: impl FnMut(), mut b: impl FnMut()) -> (f64, f64) {
    let mut times_a = Vec::new();
    let mut times_b = Vec::new();
    for _ in 0..TURNS {
        for (f, times) in [
            (&mut a as &mut dyn FnMut(), &mut times_a),
            (&mut b, &mut times_b),
        ] {
            let start = monotonic_ns();
            (0..POLLS).for_each(|_| f());
            times.push((monotonic_ns() - start) as f64 / POLLS as f64);
        }
    }
    let median = |t: &mut Vec<f64>| {
        t.sort_by(f64::total_cmp);
        t[t.len() / 2]
    };
    (median(&mut times_a), median(&mut times_b))
}

fn one_disk(root: &Root, disk: &str) {
    let path = root.path(format!("/sys/block/{disk}/stat"));
    let Ok(bare) = std::fs::File::open(&path) else {
        return;
    };
    let mut file = StatFile::new(&path);
    let mut buffer = Vec::new();
    let mut room = [0u8; 4096];
    let mut sum = 0u64;
    let (p, r) = compare(
        || {
            let _ = bare.read_at(&mut room, 0);
        },
        || {
            sum = sum.wrapping_add(
                file.read(&mut buffer)
                    .map(|s| s.counters.read.ios)
                    .unwrap_or(0),
            )
        },
    );
    println!(
        "one disk ({disk}): bare pread {p:.0} ns, poll {r:.0} ns, ratio {:.3}",
        r / p
    );
}

fn all_disks(root: &Root) {
    let path = root.path("/proc/diskstats");
    let (Ok(bare), Ok(mut reader)) = (std::fs::File::open(&path), DiskstatsReader::open(root))
    else {
        return;
    };
    let mut room = vec![0u8; 1 << 20];
    let n = reader.rows().len();
    let (p, r) = compare(
        || {
            // As many reads as the text needs, and no more.
            let mut at = 0;
            while let Ok(got) = bare.read_at(&mut room[at..], at as u64) {
                at += got;
                if got < 3584 {
                    break;
                }
            }
        },
        || {
            let _ = reader.read();
        },
    );
    println!(
        "{n} lines of diskstats: bare pread {p:.0} ns, poll {r:.0} ns, ratio {:.3}",
        r / p
    );
}

/// CPU time of this process in nanoseconds.
fn cpu_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// CPU time in percent of one CPU for `work` a thousand times a second over `seconds`, and how late each turn began
/// (ns).
fn share(seconds: i64, mut work: impl FnMut()) -> (f64, Vec<i64>) {
    let mut pace = Pace::new(Duration::from_millis(1));
    let start = monotonic_ns();
    let cpu = cpu_ns();
    let mut late = Vec::with_capacity(8192);
    while monotonic_ns() - start < seconds * 1_000_000_000 {
        if let Wake::Due { due_ns, .. } = pace.wait() {
            late.push(monotonic_ns() - due_ns);
            work();
        }
    }
    late.sort_unstable();
    (
        (cpu_ns() - cpu) as f64 / (monotonic_ns() - start) as f64 * 100.0,
        late,
    )
}

fn microseconds(sorted: &[i64], q: f64) -> f64 {
    sorted
        .get(((sorted.len().max(1) - 1) as f64 * q) as usize)
        .map_or(0.0, |ns| *ns as f64 / 1000.0)
}

/// A thousand times a second: sleeping alone, with a bare `pread`, and with our sampler, which includes both.
fn kilohertz(root: &Root, disk: &str) {
    let path = root.path(format!("/sys/block/{disk}/stat"));
    let Ok(bare) = std::fs::File::open(&path) else {
        return;
    };
    let mut room = [0u8; 4096];
    let (floor, _) = share(3, || {});
    let (read, late) = share(3, || {
        let _ = bare.read_at(&mut room, 0);
    });
    let Ok(mut sampler) = Sampler::new(root, Some(&[disk]), Duration::from_millis(1)) else {
        return;
    };
    let start = monotonic_ns();
    let cpu = cpu_ns();
    let mut ours_late: Vec<i64> = Vec::with_capacity(8192);
    while monotonic_ns() - start < 5_000_000_000 {
        if let Ok(Some(s)) = sampler.next() {
            ours_late.push(s.at_monotonic_ns - s.due_monotonic_ns);
        }
    }
    let ours = (cpu_ns() - cpu) as f64 / (monotonic_ns() - start) as f64 * 100.0;
    ours_late.sort_unstable();
    println!(
        "1 kHz of {disk}: {ours:.2} % of one CPU; a bare loop of sleep and pread {read:.2} %, of sleeps alone {floor:.2} %; \
         {} samples, {} missed, lateness p50 {:.0} us, p99 {:.0} us (bare loop {:.0} us), max {:.0} us",
        ours_late.len(),
        sampler.pace().missed(),
        microseconds(&ours_late, 0.5),
        microseconds(&ours_late, 0.99),
        microseconds(&late, 0.99),
        microseconds(&ours_late, 1.0)
    );
}
