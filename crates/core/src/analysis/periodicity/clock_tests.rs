//! What is said of clocks, against streams of which the truth is known.

use crate::analysis::math::stats::Shuffler;
use crate::analysis::periodicity::{Periodicity, find};
use crate::analysis::stream::arrivals::Arrivals;
use crate::analysis::stream::requests::Request;

const SECOND: f64 = 1e9;

struct Random(Shuffler);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Shuffler::new(seed))
    }

    /// From 0 up to 1.
    fn uniform(&mut self) -> f64 {
        (self.0.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, standard deviation 1, by the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

fn request(start_s: f64, latency_s: f64) -> Request {
    Request {
        start_ns: (start_s * SECOND) as i64,
        done_ns: ((start_s + latency_s) * SECOND) as i64,
        bytes: 65_536,
        ios: 1,
    }
}

/// `n` requests, half a millisecond apart, at each time.
fn bursts(at_s: impl IntoIterator<Item = f64>, n: usize) -> Vec<Request> {
    let mut requests = Vec::new();
    for at in at_s {
        requests.extend((0..n).map(|i| request(at + 0.0005 * i as f64, 0.0002)));
    }
    requests
}

fn clocks(mut requests: Vec<Request>, seconds: f64) -> Periodicity {
    requests.sort_by_key(|r| r.done_ns);
    find(&requests, (0, (seconds * SECOND) as i64), 0, &[])
}

fn periods(p: &Periodicity) -> Vec<f64> {
    p.clocks.iter().map(|c| c.period_s).collect()
}

/// How many of 200 intervals hold the true period of `beats(random)`.
fn held(period_s: f64, seconds: f64, beats: impl Fn(&mut Random) -> Vec<f64>) -> usize {
    let mut held = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let p = clocks(bursts(beats(&mut random), 10), seconds);
        let own = p.clocks.iter().find(|c| c.is_like(period_s));
        let interval = own.and_then(|c| c.period_ci_s);
        held +=
            usize::from(interval.is_some_and(|(low, high)| low <= period_s && period_s <= high));
    }
    held
}

#[test]
fn intervals_hold_the_period_of_a_schedule() {
    // Each beat is late on its own, and the next one is not.
    for (n, jitter) in [(12, 0.02), (30, 0.05), (120, 0.02), (1000, 0.01)] {
        let seconds = 2.0 * f64::from(n);
        let held = held(2.0, seconds, |random| {
            (0..n)
                .map(|k| 0.5 + 2.0 * f64::from(k) + 2.0 * jitter * (random.uniform() - 0.5))
                .collect()
        });
        assert!(
            (180..=196).contains(&held),
            "{n} beats, {jitter}: {held} of 200"
        );
    }
}

#[test]
fn intervals_hold_the_period_of_a_timer_that_starts_anew() {
    // Each beat is late, and the next one counts from it.
    for (n, jitter) in [(12, 0.01), (30, 0.02), (120, 0.02), (1000, 0.01)] {
        let seconds = 2.0 * f64::from(n) + 4.0;
        let held = held(2.0, seconds, |random| {
            let mut at = 0.5;
            let mut beats = Vec::new();
            for _ in 0..n {
                beats.push(at);
                at += 2.0 * (1.0 + jitter * random.normal());
            }
            beats
        });
        assert!(
            (180..=196).contains(&held),
            "{n} beats, {jitter}: {held} of 200"
        );
    }
}

#[test]
fn one_clock_is_one_period() {
    for period in [0.06, 0.25, 1.0, 2.5, 5.0] {
        for seconds in [60.0, 600.0] {
            for others_per_s in [0.0, 0.5, 20.0] {
                let mut random = Random::new((period * 100.0) as u64);
                let beats = (seconds / period) as u32;
                let at = |k: u32, after: f64| 0.3 + f64::from(k) * period + after;
                // What a beat starts has a second part, and a third one now and then.
                let mut all = bursts((0..beats).map(|k| at(k, 0.0)), 10);
                all.extend(bursts((0..beats).map(|k| at(k, 0.2 * period)), 4));
                let late = (0..beats).filter(|_| random.uniform() < 0.5);
                all.extend(bursts(late.map(|k| at(k, 0.4 * period)), 3));
                let mut other_s = random.exponential(1.0 / f64::max(others_per_s, 1e-9));
                while other_s < seconds {
                    all.push(request(other_s, 0.0002));
                    other_s += random.exponential(1.0 / others_per_s);
                }
                let p = clocks(all, seconds);
                let found = periods(&p);
                assert!(
                    found.len() == 1 && (found[0] - period).abs() < 0.01 * period
                        || found.is_empty() && period * others_per_s > 1.0,
                    "{period} s in {seconds} s beside {others_per_s}/s: {found:?}"
                );
            }
        }
    }
}

#[test]
fn requests_at_a_pace_are_no_clock() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        // A program reads, thinks for as long as ever, and reads again; or a timer of a few milliseconds.
        for think_s in [0.0, 0.0025, 0.008, 0.02, 0.05, 0.1, 0.3] {
            for latency_s in [0.00002, 0.0003, 0.004] {
                let mut at = 0.1;
                let mut all = Vec::new();
                while at < 60.0 {
                    let latency = latency_s * (0.5 + random.exponential(0.5));
                    all.push(request(at, latency));
                    at += latency + think_s * (1.0 + 0.003 * random.uniform());
                }
                let p = clocks(all, 60.0);
                assert!(
                    p.clocks.is_empty(),
                    "{seed}: think {think_s}, latency {latency_s}: {:?}",
                    periods(&p)
                );
            }
        }
    }
}

#[test]
fn batches_in_a_closed_loop_are_no_clock() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut at = 0.1;
        let mut all = Vec::new();
        while at < 60.0 {
            for _ in 0..10 {
                let latency = 0.0002 + random.exponential(0.001);
                all.push(request(at, latency));
                at += latency;
            }
            at += 0.1;
        }
        let p = clocks(all, 60.0);
        assert!(p.clocks.is_empty(), "{seed}: {:?}", periods(&p));
    }
}

#[test]
fn a_clock_of_hours_does_not_vanish() {
    for hours in [1.0, 6.0, 24.0] {
        for (period, requests, others_per_s) in [
            (1.0, 20, 0.0),
            (5.0, 20, 0.0),
            (30.0, 20, 0.0),
            (5.0, 20, 2.0),
            (30.0, 200, 20.0),
        ] {
            // Beside 170,000 others a beat of 20 is lost in cells of half a second.
            if hours > 6.0 && others_per_s == 2.0 {
                continue;
            }
            let seconds = 3600.0 * hours;
            let mut random = Random::new(7);
            let beats = (seconds / period) as u32;
            let mut all = bursts((0..beats).map(|k| 0.3 + f64::from(k) * period), requests);
            let mut other_s = random.exponential(1.0 / f64::max(others_per_s, 1e-9));
            while other_s < seconds {
                all.push(request(other_s, 0.0002));
                other_s += random.exponential(1.0 / others_per_s);
            }
            all.sort_by_key(|r| r.done_ns);
            // What a report keeps of them.
            let mut arrivals = Arrivals::new(1 << 17);
            all.into_iter().for_each(|r| arrivals.push(r));
            let (kept, resolution_ns) = arrivals.finish();
            let p = find(&kept, (0, (seconds * SECOND) as i64), resolution_ns, &[]);
            let found = periods(&p);
            assert!(
                found.len() == 1 && (found[0] - period).abs() < 0.01 * period,
                "{period} s in {hours} h beside {others_per_s}/s: {found:?} in cells of {resolution_ns} ns"
            );
        }
    }
}
