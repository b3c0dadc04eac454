//! Processes that write and sync, in closed loops and open ones, with a known truth.

use iolens_core::model::{Comm, Io, Op, Origin, Request, SyncKind};

use crate::simulator::{DEV, Rng, SECOND};

/// An I/O of process `tgid`; times in seconds.
pub fn of(tgid: i32, op: Op, bytes: i64, start_s: f64, for_s: f64) -> Io {
    let start = (start_s * SECOND) as i64;
    let device = ((for_s * SECOND) as i64).max(1);
    let comm = Some(Comm::new(format!("writer{tgid}").as_bytes()));
    Io {
        tgid: Some(tgid),
        comm,
        origin: Origin::Direct,
        flags: Some(0),
        ..Io::new(start + device, DEV, op, bytes, Some(0), device)
    }
}

/// A sync as the kernel shows it: an empty write that carries a flush, and the flush, whose process is not known.
pub fn sync(tgid: i32, start_s: f64, for_s: f64) -> [Io; 2] {
    let carrier = Io {
        flags: Some(Io::FLAG_PREFLUSH | Io::FLAG_SYNC),
        ..of(tgid, Op::WRITE, 0, start_s, for_s)
    };
    let flush = Io {
        tgid: None,
        comm: None,
        origin: Origin::Unknown,
        ..of(0, Op::FLUSH, 0, start_s + 2e-6, for_s - 3e-6)
    };
    [carrier, flush]
}

pub fn in_order(mut ios: Vec<Io>) -> Vec<Io> {
    ios.sort_by_key(|io| io.done_ns);
    ios
}

/// One thread that writes, syncs and thinks.
#[derive(Clone, Copy)]
pub struct Loop {
    pub tgid: i32,
    pub writes: u64,
    /// Means, exponential but for a fixed half.
    pub sync_s: f64,
    pub think_s: f64,
    /// Cycles begin at its multiples, if it is not 0.
    pub every_s: f64,
    pub from_s: f64,
    pub to_s: f64,
}

impl Loop {
    pub fn ios(&self, rng: &mut Rng) -> Vec<Io> {
        let mut at = self.from_s;
        let mut ios = Vec::new();
        while at < self.to_s {
            let begin = at;
            for _ in 0..self.writes {
                let service = 5e-5 + rng.exp(5e-5);
                ios.push(of(self.tgid, Op::WRITE, 4096, at, service));
                at += service + 5e-6;
            }
            let for_s = self.sync_s / 2.0 + rng.exp(self.sync_s / 2.0);
            ios.extend(sync(self.tgid, at, for_s));
            at += for_s + 5e-6 + rng.exp(self.think_s.max(1e-7));
            if self.every_s > 0.0 {
                at = at.max((begin / self.every_s).floor() * self.every_s + self.every_s);
            }
        }
        ios
    }

    /// What a tracer of files sees of the same: sync calls, and at the end the file that was written.
    pub fn calls(&self, rng: &mut Rng) -> Vec<Request> {
        let ios = self.ios(rng);
        let who = |start, end| Request {
            tgid: Some(self.tgid),
            path: Some("/srv/log".into()),
            ..Request::new(start, end)
        };
        let is_sync = |io: &&Io| io.bytes == 0 && io.tgid.is_some();
        let mut calls: Vec<Request> = ios
            .iter()
            .filter(is_sync)
            .map(|io| Request {
                sync: Some(SyncKind::Fsync),
                ..who(io.start_ns(), io.done_ns)
            })
            .collect();
        let writes = ios.iter().filter(|io| io.bytes > 0).count() as i64;
        let end = (self.to_s * SECOND) as i64 - 1;
        calls.push(Request {
            ios_out: writes,
            bytes_out: 4096 * writes,
            ..who(0, end)
        });
        calls
    }
}

/// Poisson writes of `tgid`, whatever else happens.
pub fn independent(rng: &mut Rng, tgid: i32, op: Op, per_s: f64, to_s: f64) -> Vec<Io> {
    let mut at = rng.exp(1.0 / per_s);
    let mut ios = Vec::new();
    while at < to_s {
        let service = 1e-4 + rng.exp(1e-4);
        ios.push(of(tgid, op, 16_384, at, service));
        at += rng.exp(1.0 / per_s);
    }
    ios
}

/// Syncs of `tgid` at random times, which may overlap.
pub fn random_syncs(rng: &mut Rng, tgid: i32, per_s: f64, sync_s: f64, to_s: f64) -> Vec<Io> {
    let mut at = rng.exp(1.0 / per_s);
    let mut ios = Vec::new();
    while at < to_s {
        let for_s = sync_s / 2.0 + rng.exp(sync_s / 2.0);
        ios.extend(sync(tgid, at, for_s));
        at += rng.exp(1.0 / per_s);
    }
    ios
}

/// One thread that reads or writes `bytes` at a time, so many in flight, from where `place` says (from the number of the request).
#[derive(Clone, Copy)]
pub struct Stream {
    pub tgid: i32,
    pub op: Op,
    pub bytes: i64,
    pub in_flight: usize,
    /// Mean pause between requests, exponential.
    pub think_s: f64,
    pub to_s: f64,
}

impl Stream {
    /// `place` gives sectors.
    pub fn ios(&self, rng: &mut Rng, mut place: impl FnMut(&mut Rng, i64) -> i64) -> Vec<Io> {
        let mut free = vec![0.0f64; self.in_flight.max(1)];
        let mut ios = Vec::new();
        for i in 0.. {
            let next = free
                .iter_mut()
                .min_by(|a, b| a.total_cmp(b))
                .expect("one at least");
            if *next >= self.to_s {
                break;
            }
            let service = 5e-5 + rng.exp(3e-5);
            let sector = place(rng, i);
            ios.push(Io {
                sector: Some(sector),
                ..of(self.tgid, self.op, self.bytes, *next, service)
            });
            *next += service + 2e-6 + rng.exp(self.think_s.max(1e-9));
        }
        ios
    }
}

/// A request of a process before service.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub at_s: f64,
    pub tgid: i32,
    pub op: Op,
    pub bytes: i64,
    pub service_s: f64,
}

/// Poisson requests of `tgid` over `to_s`, whose rate, at most `most`, changes with time; `service_s` on average.
pub fn arrivals(
    rng: &mut Rng,
    (tgid, op, bytes): (i32, Op, i64),
    (most, service_s): (f64, f64),
    to_s: f64,
    rate: impl Fn(f64) -> f64,
) -> Vec<Arrival> {
    let mut at_s = 0.0;
    let mut all = Vec::new();
    loop {
        at_s += rng.exp(1.0 / most);
        if at_s >= to_s {
            return all;
        }
        if rng.uniform() * most < rate(at_s) {
            all.push(Arrival {
                at_s,
                tgid,
                op,
                bytes,
                service_s: service_s / 2.0 + rng.exp(service_s / 2.0),
            });
        }
    }
}

/// First come, first served, on `servers` servers.
pub fn served(mut all: Vec<Arrival>, servers: usize) -> Vec<Io> {
    all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let mut free = vec![0.0f64; servers.max(1)];
    let serve = |w: &Arrival| {
        let next = free
            .iter_mut()
            .min_by(|a, b| a.total_cmp(b))
            .expect("one at least");
        let started = next.max(w.at_s);
        *next = started + w.service_s;
        let queue_ns = ((started - w.at_s) * SECOND) as i64;
        let io = of(
            w.tgid,
            w.op,
            w.bytes,
            w.at_s,
            started + w.service_s - w.at_s,
        );
        Io {
            queue_ns: Some(queue_ns),
            device_ns: io.device_ns - queue_ns,
            ..io
        }
    };
    all.iter().map(serve).collect()
}
