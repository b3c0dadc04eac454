//! Loads that need no finding, and some that need one, a minute each.

use iolens_core::model::{Io, Op};

use crate::simulator::{Job, Rng, SECOND, bursts, merged, serve};

/// Length of a recording.
pub const SECONDS: f64 = 60.0;

/// A Poisson stream whose rate, at most `most` a second, changes with time.
pub fn stream(
    rng: &mut Rng,
    op: Op,
    bytes: i64,
    most: f64,
    rate: impl Fn(f64) -> f64,
    service: impl Fn(&mut Rng) -> f64,
) -> Vec<Job> {
    let mut t = 0.0;
    let mut jobs = Vec::new();
    loop {
        t += rng.exp(1.0 / most);
        if t >= SECONDS {
            return jobs;
        }
        if rng.uniform() * most < rate(t) {
            jobs.push(Job {
                at: t * SECOND,
                op,
                bytes,
                service: service(rng),
            });
        }
    }
}

/// Reads and writes alike, one server, first come, first served, so many percent busy.
pub fn fifo(rng: &mut Rng, percent: f64) -> Vec<Io> {
    let rate = percent / 100.0 * 500.0;
    let [reads, writes] =
        [Op::READ, Op::WRITE].map(|op| stream(rng, op, 4096, rate, |_| rate, |r| r.exp(1e6)));
    serve(&merged(&[&reads, &writes]), Some(1))
}

/// The rate of both variations together: the waiting is caused by load, not by one class.
pub fn shared_sine(rng: &mut Rng) -> Vec<Io> {
    let period = 5.0 + 10.0 * rng.uniform();
    let swing = 0.3 + 0.5 * rng.uniform();
    let rate = |t: f64| 300.0 * (1.0 + swing * (std::f64::consts::TAU * t / period).sin());
    let [reads, writes] =
        [Op::READ, Op::WRITE].map(|op| stream(rng, op, 4096, 600.0, rate, |r| r.exp(0.8e6)));
    serve(&merged(&[&reads, &writes]), Some(1))
}

/// Intervals of `len` seconds at random.
pub fn spells(rng: &mut Rng, n: u64, len: f64) -> Vec<f64> {
    (0..n).map(|_| rng.uniform() * (SECONDS - len)).collect()
}

pub fn within(starts: &[f64], len: f64, t: f64) -> bool {
    starts.iter().any(|s| *s <= t && t < s + len)
}

/// Writes come in bursts; the device is eight times slower at other times that have nothing to do with them.
pub fn slow_spells(rng: &mut Rng) -> Vec<Io> {
    let writing = 8 + rng.below(12);
    let len = 0.2 + rng.uniform();
    let writing = spells(rng, writing, len);
    let slow = 4 + rng.below(8);
    let slow_len = 0.5 + 2.0 * rng.uniform();
    let slow = spells(rng, slow, slow_len);
    let reads = stream(rng, Op::READ, 4096, 200.0, |_| 200.0, |r| r.exp(0.3e6));
    let rate = |t: f64| if within(&writing, len, t) { 300.0 } else { 5.0 };
    let writes = stream(rng, Op::WRITE, 65_536, 300.0, rate, |r| r.exp(0.3e6));
    let mut jobs = merged(&[&reads, &writes]);
    for job in jobs
        .iter_mut()
        .filter(|j| within(&slow, slow_len, j.at / SECOND))
    {
        job.service *= 8.0;
    }
    serve(&jobs, Some(16))
}

/// On and off, reads and writes together, a device that is 20 % busy while on.
pub fn on_off(rng: &mut Rng, heavy_tailed: bool) -> Vec<Io> {
    let mut phases = Vec::new();
    let mut t = 0.0;
    let mut on = false;
    while t < SECONDS {
        let len = if heavy_tailed {
            0.3 * rng.uniform().powf(-1.0 / 1.4)
        } else {
            rng.exp(1.0)
        };
        if on {
            phases.push((t, t + len));
        }
        t += len;
        on = !on;
    }
    let rate = |t: f64| {
        if phases.iter().any(|p| p.0 <= t && t < p.1) {
            400.0
        } else {
            20.0
        }
    };
    let writes = stream(rng, Op::WRITE, 16_384, 400.0, rate, |r| r.exp(0.5e6));
    let reads = stream(rng, Op::READ, 4096, 200.0, |_| 200.0, |r| r.exp(0.5e6));
    serve(&merged(&[&reads, &writes]), Some(32))
}

/// Twenty writes of 64 KiB at each beat of a clock, up to `jitter` of the period early or late, among some small reads.
pub fn clock(rng: &mut Rng, period: f64, jitter: f64, (from, to): (f64, f64)) -> Vec<Io> {
    let beats = ((to - from) / period) as u64;
    let onsets: Vec<f64> = (0..beats)
        .map(|k| from + (k as f64 + 0.5 + jitter * (2.0 * rng.uniform() - 1.0)) * period)
        .collect();
    let mut writes = bursts(&onsets, 0.02, 1000.0, 65_536, 0.1e6);
    writes.sort_by(|a, b| a.at.total_cmp(&b.at));
    serve(&writes, Some(4))
}
