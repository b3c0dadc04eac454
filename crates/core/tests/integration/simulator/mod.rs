//! A seeded discrete-event simulator of queues whose behaviour is known in closed form. Test support only.

use std::sync::LazyLock;

use iolens_core::model::{DevId, Io, Op};

pub const SECOND: f64 = 1e9;
pub const DEV: DevId = DevId(8 << 20);

/// SplitMix64: small, seedable, good enough for simulation.
pub struct Rng(u64);

/// `IOLENS_SEED=N` makes other recordings of every scene; without it they are the same each time.
static SEED_BASE: LazyLock<u64> = LazyLock::new(|| {
    let asked = std::env::var("IOLENS_SEED").ok();
    asked.map_or(0, |n| {
        n.parse::<u64>()
            .unwrap_or_else(|_| panic!("IOLENS_SEED={n}: a whole number is needed"))
    })
});

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let seed = seed ^ SEED_BASE.wrapping_mul(0xd134_2543_de82_ef95);
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential with the given mean.
    pub fn exp(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// One arrival: when (ns), what, how long it will be served (ns).
#[derive(Clone, Copy)]
pub struct Job {
    pub at: f64,
    pub op: Op,
    pub bytes: i64,
    pub service: f64,
}

/// Arrivals of a Poisson process over `seconds`, each served for `service(rng)` nanoseconds.
pub fn poisson(
    rng: &mut Rng,
    per_s: f64,
    seconds: f64,
    mut service: impl FnMut(&mut Rng) -> f64,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut at = rng.exp(SECOND / per_s);
    while at < seconds * SECOND {
        jobs.push(Job {
            at,
            op: Op::READ,
            bytes: 4096,
            service: service(rng),
        });
        at += rng.exp(SECOND / per_s);
    }
    jobs
}

/// Serves `jobs` (ordered by arrival) first come, first served by `servers` (`None`: as many as it takes). I/Os come
/// out in the order of completion; waiting is queue time, service is device time.
pub fn serve(jobs: &[Job], servers: Option<usize>) -> Vec<Io> {
    let mut free = vec![0.0f64; servers.unwrap_or(0)];
    let mut ios: Vec<Io> = jobs
        .iter()
        .map(|job| {
            let started = match free.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                None => job.at,
                Some(next) => {
                    let started = next.max(job.at);
                    *next = started + job.service;
                    started
                }
            };
            let start = job.at as i64;
            let issue = started as i64;
            let done = (started + job.service) as i64;
            Io::new(
                done,
                DEV,
                job.op,
                job.bytes,
                Some(issue - start),
                done - issue,
            )
        })
        .collect();
    ios.sort_by_key(|io| io.done_ns);
    ios
}

/// Jobs of several sources, in the order of arrival.
pub fn merged(sources: &[&[Job]]) -> Vec<Job> {
    let mut all: Vec<Job> = sources.iter().flat_map(|s| s.iter().copied()).collect();
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}

/// Bursts of writes: from each of `onsets` (s) on, writes of `bytes` at `per_s` for `on_s` seconds, each served for
/// `service` ns.
pub fn bursts(onsets: &[f64], on_s: f64, per_s: f64, bytes: i64, service: f64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for onset in onsets {
        for i in 0..(on_s * per_s) as u64 {
            let at = (onset + (i as f64 + 0.5) / per_s) * SECOND;
            jobs.push(Job {
                at,
                op: Op::WRITE,
                bytes,
                service,
            });
        }
    }
    jobs
}

/// The evidence of a finding that must be of a kind.
#[allow(unused_macros)]
macro_rules! evidence {
    ($finding:expr, $kind:ident) => {
        match &$finding.evidence {
            iolens_core::analysis::findings::Evidence::$kind(e) => e,
            other => panic!("{other:?}"),
        }
    };
}
#[allow(unused_imports)]
pub(crate) use evidence;
