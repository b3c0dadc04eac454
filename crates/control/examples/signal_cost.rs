//! What the signal costs: a fresh cached reading, a refresh, and the bare reads that a refresh needs.
//!
//! `cargo run --release -p iolens-control --example signal_cost -- PATH`

use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use iolens_control::{Cadence, Utilisation};

/// Short rounds, and many: on a busy machine most of them then pass without the scheduler taking the processor away.
const ROUNDS: usize = 301;
const CALLS: u32 = 100;

fn median(v: &mut [f64]) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Mean time of `call` in one round, in nanoseconds.
fn round(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..CALLS).for_each(|_| call());
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let mut signal = Utilisation::of_path(&path)?;
    if let Some(why) = signal.no_disk() {
        return Err(format!("{path}: {why}").into());
    }
    let stats: Vec<_> = signal
        .stack()
        .disks
        .iter()
        .flat_map(|d| d.stats.clone())
        .collect();
    let files = stats
        .iter()
        .map(std::fs::File::open)
        .collect::<Result<Vec<_>, _>>()?;
    let mut buffer = [0u8; 4096];
    // Taken in turns, so that a busy machine slows both alike.
    let mut bare = Vec::new();
    let mut refresh = Vec::new();
    for _ in 0..ROUNDS {
        bare.push(round(|| {
            for f in &files {
                black_box(f.read_at(&mut buffer, 0).is_ok());
            }
        }));
        refresh.push(round(|| {
            black_box(signal.sample_busiest());
        }));
    }
    let bare = median(&mut bare);
    let refresh = median(&mut refresh);
    // As it is used: with other work in between, so that neither finds its memory in the processor's caches.
    let mut cold_bare = Vec::new();
    let mut cold_refresh = Vec::new();
    let mut other_work = vec![0u8; 8 << 20];
    for i in 0..400u32 {
        other_work
            .iter_mut()
            .step_by(64)
            .for_each(|b| *b = b.wrapping_add(1));
        let begin = Instant::now();
        if i % 2 == 0 {
            for f in &files {
                black_box(f.read_at(&mut buffer, 0).is_ok());
            }
            cold_bare.push(begin.elapsed().as_nanos() as f64);
        } else {
            black_box(signal.sample_busiest());
            cold_refresh.push(begin.elapsed().as_nanos() as f64);
        }
    }
    let cold_bare = median(&mut cold_bare);
    let cold_refresh = median(&mut cold_refresh);
    let hour = std::time::Duration::from_secs(3600);
    let cached = signal.cached(Cadence {
        idle: hour,
        busy: hour,
    });
    let mut fresh: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            round(|| {
                black_box(cached.percent());
            })
        })
        .collect();
    let fresh = median(&mut fresh);
    println!("disks under {path}: {}", files.len());
    let verdict = |holds: bool| if holds { "holds" } else { "FAILS" };
    let times = cold_refresh / cold_bare;
    println!(
        "{}: fresh cached reading: {fresh:.1} ns (limit 50)",
        verdict(fresh < 50.0)
    );
    println!(
        "in a tight loop: bare reads {bare:.0} ns, refresh {refresh:.0} ns: {:.2} times",
        refresh / bare
    );
    println!(
        "{}: with other work in between: bare reads {cold_bare:.0} ns, refresh {cold_refresh:.0} ns: {times:.2} times (limit 1.2)",
        verdict(times <= 1.2)
    );
    if fresh < 50.0 && times <= 1.2 {
        Ok(())
    } else {
        Err("a limit does not hold".into())
    }
}
