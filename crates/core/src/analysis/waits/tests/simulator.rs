//! Simulated devices: what happens to given arrivals, with and without a culprit among them.

use crate::analysis::math::stats::Shuffler;
use crate::model::{Comm, DevId, Io, Op, Origin};

pub const MS: i64 = 1_000_000;
/// How long the loads last.
pub const SECONDS: i64 = 60;

/// An I/O that is about to be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub at_ns: i64,
    /// How long the device works on it.
    pub work_ns: i64,
    pub bytes: i64,
    pub op: Op,
    pub sector: i64,
    pub who: &'static str,
}

/// Which of the waiting I/Os is served next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    Arrival,
    /// The nearest sector above the last one, then from the lowest again.
    Elevator,
    ReadsFirst,
    /// All at the same time, each with an equal share of one server.
    Sharing,
}

#[derive(Debug, Clone)]
pub struct Device {
    pub servers: usize,
    pub order: Order,
    /// I/Os that the driver takes; the others wait above it.
    pub tags: usize,
    /// Completions are reported together once so many are there, or none is being served.
    pub batch: usize,
    /// The device does nothing from one of these instants for so long.
    pub pauses: Vec<(i64, i64)>,
    pub limit: Option<Limit>,
    /// An I/O that does not begin where the last one ended takes so much longer.
    pub seek_ns: i64,
}

/// A token bucket: so many I/Os at full speed, and one more each interval.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub burst_ios: f64,
    pub interval_ns: f64,
}

/// What is left of a limit's burst.
#[derive(Debug)]
struct Tokens {
    limit: Limit,
    left: f64,
    at_ns: i64,
}

impl Tokens {
    /// When an I/O that could be served at `from_ns` may be.
    fn take(&mut self, from_ns: i64) -> i64 {
        let passed_ns = (from_ns - self.at_ns).max(0) as f64;
        self.left = (self.left + passed_ns / self.limit.interval_ns).min(self.limit.burst_ios);
        let missing = (1.0 - self.left).max(0.0);
        let at_ns = from_ns + (missing * self.limit.interval_ns) as i64;
        self.left += missing - 1.0;
        self.at_ns = at_ns;
        at_ns
    }
}

impl Device {
    pub fn fifo(servers: usize) -> Device {
        Device {
            servers,
            order: Order::Arrival,
            tags: usize::MAX,
            batch: 1,
            pauses: Vec::new(),
            limit: None,
            seek_ns: 0,
        }
    }

    /// Serves `jobs`, in the order of completion.
    pub fn serve(&self, mut jobs: Vec<Job>) -> Vec<Io> {
        jobs.sort_by_key(|j| j.at_ns);
        let mut ios = match self.order {
            Order::Sharing => self.share(&jobs),
            _ => self.queue(&jobs),
        };
        ios.sort_by_key(|io| io.done_ns);
        ios
    }

    /// When work of `work_ns` that begins at `from_ns` ends.
    fn end(&self, mut from_ns: i64, work_ns: i64) -> i64 {
        let mut left_ns = work_ns;
        for (pause_ns, length_ns) in &self.pauses {
            let resumes_ns = pause_ns + length_ns;
            if from_ns >= resumes_ns {
                continue;
            }
            let before_ns = (pause_ns - from_ns).max(0);
            if left_ns <= before_ns {
                break;
            }
            left_ns -= before_ns;
            from_ns = resumes_ns;
        }
        from_ns + left_ns
    }

    fn queue(&self, jobs: &[Job]) -> Vec<Io> {
        // Server by server: when it is free. I/Os are handed to the driver in the order of arrival, as tags are free.
        let mut free = vec![0i64; self.servers];
        let mut waiting: Vec<(Job, i64)> = Vec::new();
        let mut next = 0;
        let mut head = 0;
        let mut arm = 0;
        let mut in_driver: Vec<i64> = Vec::new();
        let mut served: Vec<(Job, i64, i64)> = Vec::new();
        let mut tokens = self.limit.map(|limit| Tokens {
            limit,
            left: limit.burst_ios,
            at_ns: 0,
        });
        while next < jobs.len() || !waiting.is_empty() {
            let server = (0..free.len()).min_by_key(|i| free[*i]).expect("a server");
            let now = if waiting.is_empty() {
                free[server].max(jobs[next].at_ns)
            } else {
                free[server]
            };
            while next < jobs.len() && jobs[next].at_ns <= now {
                waiting.push((jobs[next], jobs[next].at_ns));
                next += 1;
            }
            if waiting.is_empty() {
                continue;
            }
            let place = self.choose(&waiting, head);
            let (job, arrived_ns) = waiting.remove(place);
            head = job.sector;
            let begin_ns = now.max(arrived_ns);
            // With a bound on what the driver takes, an I/O is issued when one of those before it has left.
            let issue_ns = if self.tags == usize::MAX {
                arrived_ns
            } else {
                in_driver.sort_unstable();
                let full = in_driver.len().checked_sub(self.tags);
                full.map_or(arrived_ns, |i| in_driver[i].max(arrived_ns))
            };
            let allowed_ns = tokens.as_mut().map_or(begin_ns, |t| t.take(begin_ns));
            let seek_ns = if job.sector == arm { 0 } else { self.seek_ns };
            arm = job.sector + job.bytes / 512;
            let done_ns = self.end(allowed_ns, seek_ns + job.work_ns);
            in_driver.push(done_ns);
            free[server] = done_ns;
            served.push((job, issue_ns.min(begin_ns), done_ns));
        }
        self.report(served)
    }

    fn choose(&self, waiting: &[(Job, i64)], head: i64) -> usize {
        let places = 0..waiting.len();
        let rank = |i: &usize| {
            let job = &waiting[*i].0;
            match self.order {
                Order::Elevator => (i64::from(job.sector < head), job.sector, job.at_ns),
                Order::ReadsFirst => (i64::from(job.op != Op::READ), job.at_ns, 0),
                _ => (0, job.at_ns, 0),
            }
        };
        places.min_by_key(rank).expect("one waits")
    }

    fn share(&self, jobs: &[Job]) -> Vec<Io> {
        let mut next = 0;
        let mut present: Vec<(Job, f64)> = Vec::new();
        let mut now = 0.0f64;
        let mut out = Vec::new();
        while next < jobs.len() || !present.is_empty() {
            let n = present.len().max(1) as f64;
            let least = present.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
            let done_at = now + least * n;
            let arrives_at = jobs.get(next).map_or(f64::INFINITY, |j| j.at_ns as f64);
            let at = done_at.min(arrives_at);
            for one in &mut present {
                one.1 -= (at - now) / n;
            }
            now = at;
            if arrives_at <= done_at {
                present.push((jobs[next], jobs[next].work_ns as f64));
                next += 1;
                continue;
            }
            let place = (0..present.len())
                .min_by(|a, b| present[*a].1.total_cmp(&present[*b].1))
                .expect("one is done");
            let (job, _) = present.swap_remove(place);
            out.push((job, job.at_ns, now as i64));
        }
        self.report(out)
    }

    /// Completions as the host sees them.
    fn report(&self, mut served: Vec<(Job, i64, i64)>) -> Vec<Io> {
        served.sort_by_key(|s| s.2);
        let mut seen: Vec<i64> = served.iter().map(|s| s.2).collect();
        let mut first = 0;
        for last in 0..served.len() {
            let is_idle = served
                .get(last + 1)
                .is_none_or(|(job, _, _)| job.at_ns > served[last].2);
            if last + 1 - first < self.batch && !is_idle {
                continue;
            }
            // One interrupt: a microsecond for each completion.
            for (i, at_ns) in seen[first..=last].iter_mut().enumerate() {
                *at_ns = served[last].2 + 1000 * i as i64;
            }
            first = last + 1;
        }
        let mut ios = Vec::new();
        for ((job, issue_ns, _), done_ns) in served.into_iter().zip(seen) {
            ios.push(io_of(&job, issue_ns, done_ns));
        }
        ios
    }
}

pub fn dev() -> DevId {
    DevId::new(8, 0)
}

fn io_of(job: &Job, issue_ns: i64, done_ns: i64) -> Io {
    let mut io = Io::new(
        done_ns,
        dev(),
        job.op,
        job.bytes,
        Some(issue_ns - job.at_ns),
        done_ns - issue_ns,
    );
    io.comm = Some(Comm::new(job.who.as_bytes()));
    io.tgid = Some(job.who.bytes().map(i32::from).sum());
    io.origin = Origin::Direct;
    io.sector = Some(job.sector);
    io
}

/// Arrivals at random, `per_s` of them on average.
pub fn poisson(
    seed: u64,
    seconds: i64,
    per_s: f64,
    job: impl Fn(&mut Shuffler, i64) -> Job,
) -> Vec<Job> {
    let mut random = Shuffler::new(seed);
    let mut at = 0.0;
    let mut jobs = Vec::new();
    loop {
        let uniform = (random.below(1 << 53) as f64 + 1.0) / (1u64 << 53) as f64;
        at -= uniform.ln() / per_s * 1e9;
        if at >= seconds as f64 * 1e9 {
            return jobs;
        }
        let one = job(&mut random, at as i64);
        jobs.push(one);
    }
}

/// Requests of `work_ns`, a little more or less, at random places and times.
pub fn requests(seed: u64, who: &'static str, op: Op, per_s: f64, work_ns: i64) -> Vec<Job> {
    poisson(seed, SECONDS, per_s, |random, at_ns| Job {
        at_ns,
        work_ns: work_ns * (90 + random.below(21) as i64) / 100,
        bytes: 4096,
        op,
        sector: random.below(1 << 30) as i64,
        who,
    })
}

/// `n` writes at once every `period_ns`.
pub fn bursts(n: usize, period_ns: i64, work_ns: i64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for burst in 1..SECONDS * 1000 * MS / period_ns {
        for i in 0..n {
            jobs.push(Job {
                at_ns: burst * period_ns + i as i64 * 10_000,
                work_ns,
                bytes: 1 << 20,
                op: Op::WRITE,
                sector: (1 << 20) + 2048 * i as i64,
                who: "backup",
            });
        }
    }
    jobs
}
