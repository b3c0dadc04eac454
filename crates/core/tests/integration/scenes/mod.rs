//! Seeded recordings with a known truth: a scene and a seed give the same I/Os each time. Test support only; a scene with
//! nothing planted is a null scene, in which any finding is false.

pub mod arrays;
pub mod loads;
pub mod writers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iolens_core::analysis::{Report, ReportBuilder, Window};
use iolens_core::model::{DevId, Io, Op};

use crate::simulator::{DEV, Job, Rng, SECOND};

/// A load, the device that serves it, and what is planted. All times are seconds.
#[derive(Clone)]
pub struct Scene {
    pub seconds: f64,
    pub arrivals: Arrivals,
    /// Request sizes in bytes with their weights.
    pub sizes: &'static [(i64, u64)],
    /// Share of reads among the background's requests; the rest are writes.
    pub reads: f64,
    pub device: Device,
    pub bursts: Vec<Burst>,
    /// (start, duration): the device completes nothing, arrivals continue.
    pub stalls: Vec<(f64, f64)>,
    /// (at, factor): service times are multiplied, with linear interpolation between the points. None: unchanged.
    pub pace: Vec<(f64, f64)>,
    /// (share, seconds): this share of the requests takes this long instead.
    pub slow: Option<(f64, f64)>,
    /// Maximum number of requests issued to the device; others wait for their issue. None: unlimited.
    pub places: Option<usize>,
}

/// Arrivals of the background's requests.
#[derive(Clone, Copy)]
pub enum Arrivals {
    Silence,
    Poisson(f64),
    /// A Poisson stream of `per_s` while on; exponential on and off times.
    OnOff {
        per_s: f64,
        on_s: f64,
        off_s: f64,
    },
    /// This many sources that are on and off for Pareto times with this tail index (self-similar for 1 to 2), mean 0.1
    /// s.
    SelfSimilar {
        per_s: f64,
        sources: usize,
        tail: f64,
    },
    /// A binary multiplicative cascade down to 1 ms: of each half one gets this share of the I/Os.
    Cascade {
        per_s: f64,
        bias: f64,
    },
    /// A Poisson stream whose rate swings by this share around its mean in a sine of `period_s`.
    Diurnal {
        per_s: f64,
        swing: f64,
        period_s: f64,
    },
    /// This many workers, each with an exponential pause between completion and next request.
    Closed {
        workers: usize,
        think_s: f64,
    },
}

/// First come, first served, unless `nearest`: then the request with the nearest sector is next (one server).
#[derive(Clone, Copy)]
pub struct Device {
    pub servers: usize,
    /// Service time: a fixed part, an exponential part of this mean, and the transfer.
    pub fixed_s: f64,
    pub random_s: f64,
    pub bytes_per_s: f64,
    pub nearest: bool,
}

impl Device {
    pub const FAST: Device = Device {
        servers: 32,
        fixed_s: 5e-5,
        random_s: 5e-5,
        bytes_per_s: 3e9,
        nearest: false,
    };
    pub const DISK: Device = Device {
        servers: 1,
        fixed_s: 2e-4,
        random_s: 3e-4,
        bytes_per_s: 2e8,
        nearest: false,
    };
}

/// Requests that come evenly at `per_s` for `for_s`, besides the background.
#[derive(Clone, Copy)]
pub struct Burst {
    pub at_s: f64,
    pub for_s: f64,
    pub per_s: f64,
    pub op: Op,
    /// 0: sizes as the background's.
    pub bytes: i64,
}

impl Default for Scene {
    /// A minute of 1000 reads and writes a second of 4 KiB on a fast device, nothing planted.
    fn default() -> Scene {
        Scene {
            seconds: 60.0,
            arrivals: Arrivals::Poisson(1000.0),
            sizes: &[(4096, 1)],
            reads: 0.5,
            device: Device::FAST,
            bursts: Vec::new(),
            stalls: Vec::new(),
            pace: Vec::new(),
            slow: None,
            places: None,
        }
    }
}

/// Sizes of a file server: mostly small, most bytes in large ones.
pub const MIXED: &[(i64, u64)] = &[(4096, 70), (16_384, 15), (65_536, 10), (1 << 20, 5)];

impl Scene {
    /// Its I/Os in order of completion.
    pub fn ios(&self, seed: u64) -> Vec<Io> {
        let mut rng = Rng::new(seed);
        if let Arrivals::Closed { workers, think_s } = self.arrivals {
            return self.closed(&mut rng, workers, think_s);
        }
        let mut times = self.times(&mut rng);
        times.sort_by(f64::total_cmp);
        let mut jobs: Vec<Job> = times.into_iter().map(|at| self.job(&mut rng, at)).collect();
        for burst in &self.bursts {
            let n = (burst.for_s * burst.per_s).round() as u64;
            for i in 0..n {
                let at = burst.at_s + (i as f64 + rng.uniform()) / burst.per_s;
                let job = self.job(&mut rng, at);
                let bytes = if burst.bytes > 0 {
                    burst.bytes
                } else {
                    job.bytes
                };
                jobs.push(Job {
                    op: burst.op,
                    bytes,
                    ..job
                });
            }
        }
        jobs.sort_by(|a, b| a.at.total_cmp(&b.at));
        let mut queue = Queue::new(self);
        let mut ios: Vec<Io> = if self.device.nearest {
            self.nearest(&jobs, &mut rng)
        } else {
            jobs.iter().map(|j| queue.serve(j)).collect()
        };
        ios.sort_by_key(|io| io.done_ns);
        ios
    }

    /// The report of its I/Os.
    pub fn report(&self, seed: u64) -> Report {
        let mut builder = ReportBuilder::new(Window::new(0, (self.seconds * SECOND) as i64));
        self.ios(seed).iter().for_each(|io| builder.push(io));
        builder.finish(0)
    }

    fn job(&self, rng: &mut Rng, at_s: f64) -> Job {
        let op = if rng.uniform() < self.reads {
            Op::READ
        } else {
            Op::WRITE
        };
        let mut left = rng.below(self.sizes.iter().map(|s| s.1).sum());
        let size = self.sizes.iter().find(|(_, weight)| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        });
        let bytes = size.map_or(4096, |s| s.0);
        let d = &self.device;
        let mut service = (d.fixed_s + rng.exp(d.random_s) + bytes as f64 / d.bytes_per_s) * SECOND;
        if let Some((share, slow_s)) = self.slow
            && rng.uniform() < share
        {
            service = slow_s * SECOND;
        }
        Job {
            at: at_s * SECOND,
            op,
            bytes,
            service: service * self.pace_at(at_s),
        }
    }

    fn pace_at(&self, at_s: f64) -> f64 {
        let next = self.pace.partition_point(|p| p.0 <= at_s);
        match (
            next.checked_sub(1).map(|i| self.pace[i]),
            self.pace.get(next),
        ) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (at_s - a.0) / (b.0 - a.0),
            (Some(a), None) => a.1,
            (None, Some(b)) => b.1,
            (None, None) => 1.0,
        }
    }

    fn times(&self, rng: &mut Rng) -> Vec<f64> {
        let mut times = Vec::new();
        match self.arrivals {
            Arrivals::Silence | Arrivals::Closed { .. } => {}
            Arrivals::Poisson(per_s) => poisson(rng, per_s, 0.0, self.seconds, &mut times),
            Arrivals::OnOff { per_s, on_s, off_s } => {
                let mut at = rng.uniform() * (on_s + off_s);
                while at < self.seconds {
                    let on = rng.exp(on_s);
                    poisson(rng, per_s, at, (at + on).min(self.seconds), &mut times);
                    at += on + rng.exp(off_s);
                }
            }
            Arrivals::SelfSimilar {
                per_s,
                sources,
                tail,
            } => {
                // Pareto with mean 0.1 s.
                let pareto =
                    |rng: &mut Rng| 0.1 * (tail - 1.0) / tail * rng.uniform().powf(-1.0 / tail);
                for _ in 0..sources {
                    let mut at = -pareto(rng);
                    while at < self.seconds {
                        let on = pareto(rng);
                        let from = at.max(0.0);
                        let to = (at + on).min(self.seconds);
                        poisson(rng, 2.0 * per_s / sources as f64, from, to, &mut times);
                        at += on + pareto(rng);
                    }
                }
            }
            Arrivals::Cascade { per_s, bias } => cascade(
                rng,
                per_s * self.seconds,
                bias,
                0.0,
                self.seconds,
                &mut times,
            ),
            Arrivals::Diurnal {
                per_s,
                swing,
                period_s,
            } => {
                let most = per_s * (1.0 + swing);
                poisson(rng, most, 0.0, self.seconds, &mut times);
                let rate =
                    |at: f64| per_s * (1.0 + swing * (std::f64::consts::TAU * at / period_s).sin());
                times.retain(|at| rng.uniform() * most < rate(*at));
            }
        }
        times
    }

    fn closed(&self, rng: &mut Rng, workers: usize, think_s: f64) -> Vec<Io> {
        let mut ready: BinaryHeap<Reverse<i64>> = (0..workers)
            .map(|_| Reverse((rng.exp(think_s.max(1e-6)) * SECOND) as i64))
            .collect();
        let mut queue = Queue::new(self);
        let mut ios = Vec::new();
        while let Some(Reverse(at)) = ready
            .pop()
            .filter(|at| (at.0 as f64) < self.seconds * SECOND)
        {
            let io = queue.serve(&self.job(rng, at as f64 / SECOND));
            let think = if think_s > 0.0 {
                rng.exp(think_s) * SECOND
            } else {
                0.0
            };
            ready.push(Reverse(io.done_ns + think as i64 + 1));
            ios.push(io);
        }
        ios.sort_by_key(|io| io.done_ns);
        ios
    }

    /// One server that serves the nearest waiting request; a seek over the whole disk doubles the fixed part.
    fn nearest(&self, jobs: &[Job], rng: &mut Rng) -> Vec<Io> {
        let mut waiting: Vec<(f64, Job)> = Vec::new();
        let mut jobs = jobs
            .iter()
            .map(|j| (rng.uniform(), *j))
            .collect::<Vec<_>>()
            .into_iter()
            .peekable();
        let mut at = 0.0f64;
        let mut head = 0.5;
        let mut ios = Vec::new();
        loop {
            if waiting.is_empty() {
                let Some(next) = jobs.peek() else { return ios };
                at = at.max(next.1.at);
            }
            waiting.extend(std::iter::from_fn(|| jobs.next_if(|j| j.1.at <= at)));
            let distance = |p: f64| (p - head).abs();
            let by_distance =
                |a: &usize, b: &usize| distance(waiting[*a].0).total_cmp(&distance(waiting[*b].0));
            let Some(i) = (0..waiting.len()).min_by(by_distance) else {
                return ios;
            };
            let (place, job) = waiting.swap_remove(i);
            let done = at + job.service + self.device.fixed_s * (place - head).abs() * SECOND;
            ios.push(io(&job, at, done));
            at = done;
            head = place;
        }
    }
}

fn io(job: &Job, started: f64, done: f64) -> Io {
    let start = job.at as i64;
    let issue = started as i64;
    let done = done as i64;
    Io::new(
        done,
        DEV,
        job.op,
        job.bytes,
        Some(issue - start),
        done - issue,
    )
}

/// Servers, first come, first served, that pause during stalls. All requests are with the device from their arrival,
/// unless it has a number of places.
struct Queue<'a> {
    scene: &'a Scene,
    free: BinaryHeap<Reverse<i64>>,
    /// When each place is free again.
    places: BinaryHeap<Reverse<i64>>,
}

impl Queue<'_> {
    fn new(scene: &Scene) -> Queue<'_> {
        let free = |n: usize| (0..n).map(|_| Reverse(0)).collect();
        Queue {
            scene,
            free: free(scene.device.servers.max(1)),
            places: free(scene.places.unwrap_or(0)),
        }
    }

    fn serve(&mut self, job: &Job) -> Io {
        let free = self.free.pop().map_or(0, |f| f.0);
        let started = job.at.max(free as f64);
        let mut done = started + job.service;
        for (from, length) in &self.scene.stalls {
            let from = from * SECOND;
            let length = length * SECOND;
            // Work during the pause, or starting in it, waits for its end.
            if done > from && started < from + length {
                done = from + length + (done - started.max(from));
            }
        }
        self.free.push(Reverse(done as i64));
        let issued = self
            .places
            .pop()
            .map_or(job.at, |place| job.at.max(place.0 as f64));
        if self.scene.places.is_some() {
            self.places.push(Reverse(done as i64));
        }
        io(job, issued, done)
    }
}

fn poisson(rng: &mut Rng, per_s: f64, from: f64, to: f64, times: &mut Vec<f64>) {
    let mut at = from + rng.exp(1.0 / per_s);
    while at < to {
        times.push(at);
        at += rng.exp(1.0 / per_s);
    }
}

fn cascade(rng: &mut Rng, n: f64, bias: f64, from: f64, to: f64, times: &mut Vec<f64>) {
    if to - from < 2e-3 || n < 0.5 {
        return poisson(rng, (n / (to - from)).max(1e-9), from, to, times);
    }
    let first = if rng.below(2) == 0 { bias } else { 1.0 - bias };
    let middle = f64::midpoint(from, to);
    cascade(rng, n * first, bias, from, middle, times);
    cascade(rng, n * (1.0 - first), bias, middle, to, times);
}

/// The device of all scenes.
pub const DEVICE: DevId = DEV;

/// Null scenes: any finding is false.
pub fn nulls() -> Vec<(&'static str, Scene)> {
    let of = |arrivals| Scene {
        arrivals,
        ..Scene::default()
    };
    let disk = |arrivals| Scene {
        arrivals,
        device: Device::DISK,
        ..Scene::default()
    };
    vec![
        ("poisson", of(Arrivals::Poisson(1000.0))),
        ("poisson, sparse", of(Arrivals::Poisson(20.0))),
        (
            "poisson, mixed sizes",
            Scene {
                sizes: MIXED,
                ..of(Arrivals::Poisson(1000.0))
            },
        ),
        (
            "on-off",
            of(Arrivals::OnOff {
                per_s: 2000.0,
                on_s: 0.5,
                off_s: 0.5,
            }),
        ),
        (
            "on-off, mixed sizes",
            Scene {
                sizes: MIXED,
                ..of(Arrivals::OnOff {
                    per_s: 2000.0,
                    on_s: 0.2,
                    off_s: 0.3,
                })
            },
        ),
        (
            "self-similar",
            of(Arrivals::SelfSimilar {
                per_s: 1000.0,
                sources: 20,
                tail: 1.4,
            }),
        ),
        (
            "self-similar, mixed sizes",
            Scene {
                sizes: MIXED,
                ..of(Arrivals::SelfSimilar {
                    per_s: 1000.0,
                    sources: 50,
                    tail: 1.4,
                })
            },
        ),
        (
            "cascade",
            of(Arrivals::Cascade {
                per_s: 1000.0,
                bias: 0.6,
            }),
        ),
        (
            "diurnal",
            of(Arrivals::Diurnal {
                per_s: 1000.0,
                swing: 0.8,
                period_s: 30.0,
            }),
        ),
        (
            "closed loop",
            of(Arrivals::Closed {
                workers: 8,
                think_s: 0.005,
            }),
        ),
        ("disk, 40 % busy", disk(Arrivals::Poisson(750.0))),
        ("disk, 80 % busy", disk(Arrivals::Poisson(1500.0))),
        (
            "disk, nearest first",
            Scene {
                device: Device {
                    nearest: true,
                    ..Device::DISK
                },
                ..disk(Arrivals::Poisson(1200.0))
            },
        ),
    ]
}
