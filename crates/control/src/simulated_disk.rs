//! A simulated disk under a foreground and a throttled background (A21), for the controller's tests: a discrete
//! event simulation of one server, seen through the kernel's own estimators of busy time.

use std::collections::VecDeque;

use iolens_core::analysis::counters::io_ticks::{IoTicks, Regime};
use iolens_core::analysis::counters::rates::Delta;
use iolens_core::analysis::device::utilisation::{Estimator, Looks};
use iolens_core::model::{CounterSample, DevId, DiskCounters};

use super::{Controller, Limits, Mode, Observed};

pub const SECOND: i64 = 1_000_000_000;
/// Mean service time; uniform between half and one and a half of it.
pub const SERVICE: i64 = 2_000_000;
/// The actuator's cycle: the background runs for a share of it.
const CYCLE: i64 = SECOND / 10;
const HZ: u32 = 250;
/// Looks at the in-flight gauge per second, at random instants.
const LOOKS_PER_S: f64 = 200.0;

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, per_s: f64) -> i64 {
        if per_s <= 0.0 {
            SECOND / 20
        } else {
            (-(1.0 - self.share()).ln() / per_s * 1e9) as i64
        }
    }
}

/// One second of simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Second {
    pub busy_percent: f64,
    pub background_percent: f64,
    pub foreground_p99: Option<i64>,
    pub duty: f64,
    pub mode: Mode,
}

/// The load over time.
pub struct Load<'a> {
    /// Foreground demand in percent of the disk at an instant; more than 100 is more than the disk can do.
    pub foreground: &'a dyn Fn(i64) -> f64,
    /// Whether the background has work at this time.
    pub wants: &'a dyn Fn(i64) -> bool,
    /// I/Os that the background keeps in flight.
    pub depth: usize,
    /// Whether the sensor answers.
    pub sensor: &'a dyn Fn(i64) -> bool,
    /// Whether events report the foreground's share and latency.
    pub events: bool,
    /// The background's share of the time in the first second.
    pub start: f64,
}

impl Default for Load<'_> {
    fn default() -> Self {
        Load {
            foreground: &|_| 30.0,
            wants: &|_| true,
            depth: 1,
            sensor: &|_| true,
            events: false,
            start: 1.0,
        }
    }
}

#[derive(Clone, Copy)]
struct QueuedRequest {
    foreground: bool,
    at: i64,
}

pub struct SimulatedDisk<'a> {
    load: Load<'a>,
    random: Random,
    estimator: Estimator,
    ticks: IoTicks,
    looks: Looks,
    queue: VecDeque<QueuedRequest>,
    /// (since, until) of the one in service.
    serving: Option<(i64, i64)>,
    next_arrival: i64,
    next_look: i64,
    /// Background I/Os not in the queue.
    ready: usize,
    duty: f64,
    counters: DiskCounters,
    queue_ns: i64,
    busy_ns: [i64; 2],
    latencies: Vec<i64>,
}

impl<'a> SimulatedDisk<'a> {
    pub fn new(load: Load<'a>, regime: Regime, seed: u64) -> SimulatedDisk<'a> {
        SimulatedDisk {
            ready: load.depth,
            duty: load.start,
            load,
            random: Random::new(seed),
            estimator: Estimator {
                regime: Some(regime),
                hz: Some(HZ),
            },
            ticks: IoTicks::new(regime, HZ),
            looks: Looks::default(),
            queue: VecDeque::new(),
            serving: None,
            next_arrival: 0,
            next_look: 0,
            counters: DiskCounters::default(),
            queue_ns: 0,
            busy_ns: [0; 2],
            latencies: Vec::new(),
        }
    }

    /// The next instant, from `now` on, at which the background may submit.
    fn background_at(&self, now: i64) -> Option<i64> {
        if self.ready == 0 {
            return None;
        }
        let phase = now.rem_euclid(CYCLE);
        let at = if (phase as f64) < self.duty * CYCLE as f64 {
            now
        } else {
            now - phase + CYCLE
        };
        Some(if (self.load.wants)(at) {
            at
        } else {
            now - phase + CYCLE
        })
    }

    fn serve(&mut self, now: i64) {
        if self.serving.is_none() && !self.queue.is_empty() {
            self.serving = Some((
                now,
                now + (SERVICE as f64 * (0.5 + self.random.share())) as i64,
            ));
        }
    }

    fn submit(&mut self, now: i64, foreground: bool) {
        self.ticks.start(now);
        self.queue.push_back(QueuedRequest {
            foreground,
            at: now,
        });
        self.serve(now);
    }

    fn complete(&mut self, now: i64) {
        let (Some((since, until)), Some(r)) = (self.serving.take(), self.queue.pop_front()) else {
            return;
        };
        self.ticks.done(now);
        self.busy_ns[usize::from(r.foreground)] += until - since;
        self.queue_ns += now - r.at;
        self.counters.read.ios += 1;
        if r.foreground {
            self.latencies.push(now - r.at);
        } else {
            self.ready += 1;
        }
        self.serve(now);
    }

    /// Runs the events of `[from, to)`.
    fn run(&mut self, from: i64, to: i64) {
        let mut now = from;
        loop {
            let done = self.serving.map_or(i64::MAX, |s| s.1);
            let background = self.background_at(now).unwrap_or(i64::MAX);
            let next = done
                .min(background)
                .min(self.next_arrival)
                .min(self.next_look);
            if next >= to {
                return;
            }
            now = next;
            if next == done {
                self.complete(now);
            } else if next == self.next_look {
                self.looks.look(self.queue.len() as u64);
                self.next_look = now + 1 + self.random.exponential(LOOKS_PER_S);
            } else if next == self.next_arrival {
                let percent = (self.load.foreground)(now);
                if percent > 0.0 {
                    // An application that waits for its I/Os: it does not pile up more than a hundred.
                    if self.queue.len() < 100 {
                        self.submit(now, true);
                    }
                }
                self.next_arrival = now
                    + 1
                    + self
                        .random
                        .exponential(percent / 100.0 * 1e9 / SERVICE as f64);
            } else if (self.load.wants)(now)
                && (now.rem_euclid(CYCLE) as f64) < self.duty * CYCLE as f64
            {
                self.ready -= 1;
                self.submit(now, false);
            } else {
                now += 1;
            }
        }
    }

    fn snapshot(&self, at_ns: i64) -> CounterSample {
        let mut counters = self.counters;
        counters.io_ticks_ms = (self.ticks.busy_ns() / 1_000_000) as u64;
        counters.time_in_queue_ms = (self.queue_ns / 1_000_000) as u64;
        CounterSample {
            at_ns,
            dev: DevId::new(8, 0),
            counters,
        }
    }

    /// Closes the loop for `seconds`.
    pub fn throttled(mut self, limits: Limits, seconds: i64) -> Vec<Second> {
        let mut controller = Controller::new(limits)
            .expect("limits are in order")
            .starting_at(self.duty);
        let mut before = self.snapshot(0);
        let mut out = Vec::new();
        for s in 0..seconds {
            self.busy_ns = [0; 2];
            self.looks = Looks::default();
            self.latencies.clear();
            let from = s * SECOND;
            let to = (s + 1) * SECOND;
            self.run(from, to);
            let after = self.snapshot(to);
            let seen = self
                .estimator
                .busy_with_looks(&Delta::between(&before, &after, None), self.looks)
                .busy_percent;
            before = after;
            self.latencies.sort_unstable();
            let n = self.latencies.len();
            let p99 = (n > 0).then(|| self.latencies[(n * 99).div_ceil(100) - 1]);
            let duty = controller.decide(&Observed {
                at_ns: to,
                busy_percent: seen.filter(|_| (self.load.sensor)(to)),
                foreground_percent: self.load.events.then(|| percent_of_second(self.busy_ns[1])),
                foreground_p99_ns: p99.map(|p| (p, n as u64)),
            });
            out.push(Second {
                busy_percent: percent_of_second(self.busy_ns[0] + self.busy_ns[1]),
                background_percent: percent_of_second(self.busy_ns[0]),
                foreground_p99: p99,
                duty: self.duty,
                mode: duty.mode,
            });
            self.duty = duty.share;
        }
        out
    }
}

fn percent_of_second(ns: i64) -> f64 {
    ns as f64 / SECOND as f64 * 100.0
}
