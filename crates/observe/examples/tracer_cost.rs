//! Cost of the tracer: traces one disk until its standard input ends, then prints numbers. `bench/tracer.sh` runs it.
//!
//! Usage: `tracer_cost DISK [attribution|bare] [measure]`

use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use iolens_core::model::DevId;
use iolens_observe::trace::{Tracer, TracerOptions};

/// CPU time of the calling thread in nanoseconds.
fn cpu_ns() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn status(field: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix(field))
        .unwrap_or("?")
        .trim()
        .to_owned()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let disk = args
        .first()
        .ok_or("usage: tracer_cost DISK [attribution|bare] [measure]")?;
    let number = std::fs::read_to_string(format!("/sys/block/{disk}/dev"))?;
    let (major, minor) = number.trim().split_once(':').ok_or("no device number")?;
    let dev = DevId::new(major.parse()?, minor.parse()?);
    let options = TracerOptions {
        attribution: args.iter().all(|a| a != "bare"),
        measure_cost: args.iter().any(|a| a == "measure"),
        bio_based: args.iter().any(|a| a == "bio"),
        ..TracerOptions::default()
    };
    let mut tracer = Tracer::start(options)?;
    eprintln!("attached");
    static OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        OVER.store(true, Ordering::Release);
    });
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    let mut events = 0u64;
    let mut of_disk = 0u64;
    let mut polls = 0u64;
    let mut fill = 0f64;
    let begin = cpu_ns();
    let mut polling = 0;
    while !OVER.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(10));
        let from = cpu_ns();
        let stats = tracer.poll(&mut ios, &mut lost)?;
        polling += cpu_ns() - from;
        events += ios.len() as u64;
        of_disk += ios.iter().filter(|io| io.dev == dev).count() as u64;
        polls += 1;
        fill = fill.max(stats.fill_fraction);
        ios.clear();
    }
    let cpu = cpu_ns() - begin;
    println!(
        "events {events}, of the disk {of_disk}, lost {:?}",
        lost.iter().filter_map(|l| l.ios).sum::<i64>()
    );
    println!(
        "user space: {:.1} ns per event in poll(), {:.1} in all; fullest {:.3}",
        polling as f64 / events as f64,
        cpu as f64 / events as f64,
        fill
    );
    println!(
        "polls {polls}, memory now {}, at most {}",
        status("VmRSS:"),
        status("VmHWM:")
    );
    if let Some(cost) = tracer.probe_cost() {
        let mut net = 0.0;
        for (name, runs, ns) in &cost.programs {
            if *runs > 0 {
                println!(
                    "{name}: {runs} runs, {:.1} ns each, statistics included",
                    *ns as f64 / *runs as f64
                );
                net += *ns as f64 - 62.0 * *runs as f64;
            }
        }
        println!(
            "probes: {:.1} ns per I/O, less 62 ns for each empty probe",
            net / events as f64
        );
    }
    Ok(())
}
