//! What the signal costs: a fresh cached reading, a refresh, and the bare reads that a refresh needs.
//!
//! `cargo run --release -p iolens --example signal_cost -- PATH`

use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use iolens::control::{Cadence, Utilisation};

const ROUNDS: usize = 9;

/// Median over rounds of the mean time of `call` in nanoseconds.
fn nanoseconds(calls: u32, mut call: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            (0..calls).for_each(|_| call());
            begin.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let mut signal = Utilisation::of_path(&path)?;
    if let Some(why) = signal.no_disk() {
        return Err(format!("{path}: {why}").into());
    }
    let stats: Vec<_> = signal.stack().disks.iter().flat_map(|d| d.stats.clone()).collect();
    let files = stats.iter().map(std::fs::File::open).collect::<Result<Vec<_>, _>>()?;
    let mut buffer = [0u8; 4096];
    // Taken in turns, so that a busy machine slows both alike.
    let (mut bare, mut refresh) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(nanoseconds(2000, || {
            for f in &files {
                black_box(f.read_at(&mut buffer, 0).is_ok());
            }
        }));
        refresh.push(nanoseconds(2000, || drop(black_box(signal.sample()))));
    }
    let median = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    let (bare, refresh) = (median(&mut bare), median(&mut refresh));
    // As it is used: with other work in between, so that neither finds its memory in the processor's caches.
    let (mut cold_bare, mut cold_refresh) = (Vec::new(), Vec::new());
    let mut other_work = vec![0u8; 8 << 20];
    for i in 0..400u32 {
        other_work.iter_mut().step_by(64).for_each(|b| *b = b.wrapping_add(1));
        let begin = Instant::now();
        if i % 2 == 0 {
            for f in &files {
                black_box(f.read_at(&mut buffer, 0).is_ok());
            }
            cold_bare.push(begin.elapsed().as_nanos() as f64);
        } else {
            drop(black_box(signal.sample()));
            cold_refresh.push(begin.elapsed().as_nanos() as f64);
        }
    }
    let (cold_bare, cold_refresh) = (median(&mut cold_bare), median(&mut cold_refresh));
    let hour = std::time::Duration::from_secs(3600);
    let cached = signal.cached(Cadence { idle: hour, busy: hour });
    let fresh = nanoseconds(2_000_000, || {
        black_box(cached.percent());
    });
    println!("disks under {path}: {}", files.len());
    println!("fresh cached reading: {fresh:.1} ns (limit 50)");
    println!("in a tight loop: bare reads {bare:.0} ns, refresh {refresh:.0} ns: {:.2} times", refresh / bare);
    println!(
        "with other work in between: bare reads {cold_bare:.0} ns, refresh {cold_refresh:.0} ns: {:.2} times (limit 1.2)",
        cold_refresh / cold_bare
    );
    Ok(())
}
