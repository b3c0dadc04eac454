//! A14, by whom: which class of I/Os starves reads or writes, and which process slows another one.
//!
//! Processes are judged as classes are ([`crate::analysis::starvation`]): the few that submit most as aggressors, with all they submit,
//! against the few that submit most as victims, each by the class it submits more of. Nothing is claimed where both processes seem to
//! slow each other, where latency rises first, where the victim's own I/O of the other class comes at the same times, or where
//! two aggressors come at the same times.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::bursts::cells::{Actor, CLASSES, other};
use crate::analysis::device::detail::DeviceContext;
use crate::analysis::findings::conclusions::PathOf;
use crate::analysis::findings::evidence::{Cause, Contrast, Evidence, InterferenceEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::math::lead_lag::Direction;
use crate::analysis::starvation::demand::{Demand, demand};
use crate::analysis::starvation::{self, Family, Starvation, Verdict};
use crate::analysis::stream::requests::{Request, Requests};
use crate::model::{Class, DevId};

/// Processes that are tested as victims; as aggressors so many that submit most, and so many that move most.
const VICTIMS: usize = 3;
const AGGRESSORS: usize = 2;

/// Pairs of one device, at most: victims times aggressors.
const PAIRS: usize = VICTIMS * 2 * AGGRESSORS;

/// Requests of a process without which it is no victim, and no aggressor.
const MIN_VICTIM: usize = 200;
const MIN_AGGRESSOR: usize = 20;

/// The victim's own other I/O must not be so much denser during episodes.
const OWN_OTHER: f64 = 1.5;

/// Of two aggressors at the same times, one must be so much surer.
const SURER: f64 = 1.5;

/// What starves reads, and what starves writes: of all other classes the one whose effect is surest. Of reads and writes that
/// seem to starve each other, only the surer victim is one.
/// `demands` are those of `requests`.
pub(in crate::analysis) fn by_class(
    around: &DeviceContext,
    requests: &[Requests; 4],
    demands: &[Option<Demand>; 4],
) -> [Option<Starvation>; 2] {
    let gaps = around.losses.of(around.dev);
    let window = (around.window.from_ns, around.window.to_ns);
    let family = Family::of(around.family);
    let surest = |a: &Starvation, b: &Starvation| a.strength().total_cmp(&b.strength());
    let mut found = CLASSES.map(|victim| {
        let aggressors = Class::ALL
            .into_iter()
            .filter(|aggressor| *aggressor != victim);
        let of = |aggressor: Class| {
            let others = (
                aggressor,
                requests[aggressor as usize].kept(),
                demands[aggressor as usize].as_ref()?,
            );
            starvation::test(
                requests[victim as usize].kept(),
                others,
                &gaps,
                window,
                family,
            )
        };
        let mut worst = aggressors.filter_map(of).max_by(surest)?;
        worst.excess_request_ms = worst
            .excess_request_ms
            .map(|ms| ms * requests[victim as usize].one_in() as f64);
        Some(worst)
    });
    if let [Some(a), Some(b)] = &mut found
        && (a.aggressor, b.aggressor) == (Class::Write, Class::Read)
    {
        let weaker = if a.strength() < b.strength() { a } else { b };
        weaker.withdraw();
    }
    found
}

/// One process slows another.
#[derive(Debug, Clone, PartialEq)]
pub struct Interference {
    victim: Actor,
    class: Class,
    aggressor: Actor,
    starvation: Starvation,
}

/// What a process submits: requests kept of reads and of writes, and all its bytes.
#[derive(Debug, Default)]
struct Load {
    kept: [usize; 2],
    ios: u64,
    bytes: u64,
}

fn loads(requests: &[Requests; 4]) -> BTreeMap<i32, Load> {
    let mut loads: BTreeMap<i32, Load> = BTreeMap::new();
    for class in CLASSES {
        let own = &requests[class as usize];
        for r in own.kept().iter().filter(|r| r.tgid > 0) {
            let load = loads.entry(r.tgid).or_default();
            load.kept[class as usize] += 1;
            load.ios += own.one_in();
            load.bytes += u64::from(r.bytes) * own.one_in();
        }
    }
    loads
}

/// The `n` processes with most by `key`, largest first.
fn most<K: Ord>(loads: &BTreeMap<i32, Load>, n: usize, key: impl Fn(&Load) -> K) -> Vec<i32> {
    let mut all: Vec<(K, i32)> = loads
        .iter()
        .map(|(tgid, load)| (key(load), *tgid))
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(n).map(|(_, tgid)| tgid).collect()
}

/// The processes that slow others on a device; of each victim the one aggressor that is surest.
pub(in crate::analysis) fn by_process(
    around: &DeviceContext,
    requests: &[Requests; 4],
) -> Vec<Interference> {
    let loads = loads(requests);
    if loads.len() < 2 {
        return Vec::new();
    }
    let of = |tgid: i32, class: Class| {
        requests[class as usize]
            .kept()
            .iter()
            .filter(move |r| r.tgid == tgid)
            .copied()
    };
    let mut aggressors = most(&loads, AGGRESSORS, |l| l.ios);
    aggressors.extend(most(&loads, AGGRESSORS, |l| l.bytes));
    aggressors.sort_unstable();
    aggressors.dedup();
    aggressors.retain(|tgid| loads[tgid].kept.iter().sum::<usize>() >= MIN_AGGRESSOR);
    let gaps = around.losses.of(around.dev);
    let window = (around.window.from_ns, around.window.to_ns);
    let with_demand = |tgid: i32| {
        let all: Vec<Request> = CLASSES
            .into_iter()
            .flat_map(|class| of(tgid, class))
            .collect();
        demand(&all, window).map(|demand| (tgid, all, demand))
    };
    let aggressors: Vec<(i32, Vec<Request>, Demand)> =
        aggressors.into_iter().filter_map(with_demand).collect();
    let family = Family {
        streams: (around.family / 2).max(1) * PAIRS,
        spares_shifts: true,
    };
    let mut found: Vec<Interference> = Vec::new();
    for victim in most(&loads, VICTIMS, |l| l.ios) {
        let kept = loads[&victim].kept;
        let class = CLASSES[usize::from(kept[1] > kept[0])];
        if kept[class as usize] < MIN_VICTIM {
            continue;
        }
        let victims: Vec<Request> = of(victim, class).collect();
        let own_other: Vec<Request> = of(victim, other(class)).collect();
        let mut surest: Vec<(i32, Starvation)> = aggressors
            .iter()
            .filter(|(tgid, ..)| *tgid != victim)
            .filter_map(|(tgid, all, demand)| {
                let s =
                    starvation::test(&victims, (Class::Write, all, demand), &gaps, window, family)?;
                let clear =
                    s.verdict == Verdict::Starvation && s.direction != Direction::LatencyFirst;
                (clear && !shares(&own_other, &s.episodes, window)).then_some((*tgid, s))
            })
            .collect();
        surest.sort_by_key(|(_, s)| Reverse((s.t * 1e6) as i64));
        let mut surest = surest.into_iter();
        let Some((aggressor, mut s)) = surest.next() else {
            continue;
        };
        if surest.any(|(_, second)| {
            second.t * SURER > s.t
                && overlap_ns(&s.episodes, &second.episodes) * 2 > length(&s.episodes)
        }) {
            continue;
        }
        s.excess_request_ms = s
            .excess_request_ms
            .map(|ms| ms * requests[class as usize].one_in() as f64);
        let (victim, aggressor) = (
            around.cells.process(victim),
            around.cells.process(aggressor),
        );
        found.push(Interference {
            victim,
            class,
            aggressor,
            starvation: s,
        });
    }
    let pairs: Vec<_> = found
        .iter()
        .map(|i| (i.aggressor.tgid, i.victim.tgid))
        .collect();
    found.retain(|i| !pairs.contains(&(i.victim.tgid, i.aggressor.tgid)));
    found
}

fn length(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().map(|(a, b)| b - a).sum()
}

/// Time that two lists of intervals, each in order and disjoint, have in common.
fn overlap_ns(a: &[(i64, i64)], b: &[(i64, i64)]) -> i64 {
    let of = |x: &(i64, i64)| {
        let first = b.partition_point(|y| y.1 <= x.0);
        b[first..]
            .iter()
            .take_while(|y| y.0 < x.1)
            .map(|y| x.1.min(y.1) - x.0.max(y.0))
            .sum::<i64>()
    };
    a.iter().map(of).sum()
}

/// Whether `requests` come more densely during `episodes`.
fn shares(requests: &[Request], episodes: &[(i64, i64)], window: (i64, i64)) -> bool {
    let inside = |r: &&Request| {
        let i = episodes.partition_point(|e| e.1 <= r.start_ns);
        episodes.get(i).is_some_and(|e| e.0 <= r.start_ns)
    };
    let n = requests.iter().filter(inside).count() as f64;
    let part = length(episodes) as f64 / (window.1 - window.0).max(1) as f64;
    n >= 20.0 && n > OWN_OTHER * part * requests.len() as f64
}

impl Interference {
    /// The finding about `dev`.
    pub(in crate::analysis) fn finding(&self, dev: DevId, path_of: PathOf) -> Finding {
        let s = &self.starvation;
        let [victim, aggressor] =
            [self.victim, self.aggressor].map(|a| Cause::of(Some(a), Class::Write, path_of));
        let (from_ns, to_ns) = s
            .episodes
            .first()
            .zip(s.episodes.last())
            .map_or((0, 0), |(a, b)| (a.0, b.1));
        Finding {
            dev: Some(dev),
            from_ns,
            to_ns,
            severity: Severity::Warning,
            evidence: Evidence::Interference(Box::new(InterferenceEvidence {
                contrast: Contrast::of(self.class, s),
                aggressor: "process",
                cause: aggressor.clone(),
                victim_process: victim,
                victim_pid: self.victim.tgid,
                aggressor_process: aggressor,
                aggressor_pid: self.aggressor.tgid,
            })),
        }
    }
}
