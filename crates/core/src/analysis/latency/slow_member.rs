//! Is one member of an array slower than each of its peers?
//!
//! Members of an array get alike requests, so their device times are compared at the same time, size and direction: the
//! recording is cut into blocks of equally many requests, and in each the mean logarithm of a member's device times is
//! compared with each peer's over requests of one size (a factor of two), those that continue the one before apart from
//! others. The differences of blocks must be surely and noticeably above zero against *every* peer, for all members,
//! classes and arrays of the report together. A member that is given more to do than any peer is not judged.

use std::collections::BTreeMap;

use crate::analysis::device::at_issue::AtIssue;
use crate::analysis::findings::evidence::{Evidence, SlowMemberEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::latency::change::inflation;
use crate::analysis::math::distributions::{t_both_sides, t_critical};
use crate::analysis::math::stats::{mean_sd, nearest_rank};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::requests::Requests;
use crate::model::{Below, BtrfsSettings, Class, DevId, Device, SECTOR_BYTES, Settings};

/// What is compared is cut into so many blocks; fewer comparable ones say nothing of their own spread.
const BLOCKS: usize = 16;
const MIN_BLOCKS: usize = 8;
/// Requests of both that must be alike in a block.
const MIN_ALIKE: usize = 5;
/// Smaller ratios are not reported; the interval must lie beyond the second.
const NOTICEABLE: f64 = 1.5;
const MIN_INTERVAL_RATIO: f64 = 1.25;
/// A member that takes so many times as long is a warning.
const WARNING: f64 = 2.0;
/// Its median must be so much above each peer's, in microseconds.
const MIN_EXCESS_US: f64 = 50.0;
/// Significance needed, for all comparisons of the report together.
const ALPHA: f64 = 0.01;
/// So many of the blocks must agree.
const MIN_BLOCKS_AGREE: f64 = 0.9;
/// A member with so many times the I/Os or bytes of its busiest peer has a load of its own.
const MAX_LOAD: f64 = 1.25;

/// Reads and writes of one device.
pub(in crate::analysis) type Samples = [Requests<AtIssue>; 2];

/// What spreads its I/O over several devices: a layer, or a file system.
#[derive(Debug, Clone, Default)]
pub struct Array {
    /// The layer's own device; a file system has none.
    dev: Option<DevId>,
    name: String,
    members: Vec<(DevId, String)>,
}

impl Array {
    /// Those of `devices`: md arrays, devices of dm that lie on several, and btrfs that keep their data on several.
    pub fn all(devices: &[Device], settings: Option<&Settings>) -> Vec<Array> {
        let mut arrays = Array::layers(devices);
        for btrfs in settings.iter().flat_map(|s| &s.btrfs) {
            arrays.extend(Array::of_btrfs(btrfs, devices));
        }
        arrays.retain(|array| array.members.len() > 1);
        arrays
    }

    fn layers(devices: &[Device]) -> Vec<Array> {
        let below = Below::new(devices);
        let mut layers = Vec::new();
        for device in devices {
            if device.raid.is_some() || device.name.starts_with("dm-") {
                let members: BTreeMap<_, _> =
                    below.of(device).map(|m| (m.id, m.name.clone())).collect();
                layers.push(Array {
                    dev: Some(device.id),
                    name: device.name.clone(),
                    members: members.into_iter().collect(),
                });
            }
        }
        layers
    }

    /// `None` where each piece of data has one place, which a member's load follows.
    fn of_btrfs(btrfs: &BtrfsSettings, devices: &[Device]) -> Option<Array> {
        let is_spread = btrfs.data_profile.as_ref()?.starts_with("raid");
        let members = devices.iter().filter(|d| btrfs.devices.contains(&d.id));
        let uuid = btrfs.uuid.split('-').next().unwrap_or_default();
        is_spread.then(|| Array {
            dev: None,
            name: format!("btrfs {uuid}"),
            members: members.map(|d| (d.id, d.name.clone())).collect(),
        })
    }
}

/// One member while it is compared.
struct Member<'a> {
    dev: DevId,
    requests: Vec<&'a AtIssue>,
    ios: f64,
    bytes: f64,
}

impl Member<'_> {
    fn quantile_us(&self, q: f64) -> Option<f64> {
        nearest_rank(
            &mut self
                .requests
                .iter()
                .map(|r| r.device_ns as f64 / 1e3)
                .collect::<Vec<_>>(),
            q,
        )
    }
}

/// How much longer one member takes than another.
struct Comparison {
    ratio: f64,
    ci: (f64, f64),
    p_family: f64,
    blocks: usize,
    is_apart: bool,
}

/// The findings about `arrays`; `samples` are those of each device.
pub(in crate::analysis) fn find(
    arrays: &[Array],
    samples: &[(DevId, &Samples)],
    losses: &Losses,
) -> Vec<Finding> {
    let family = 2 * arrays.iter().map(|a| a.members.len().pow(2)).sum::<usize>();
    let of = |array: &Array| {
        let found =
            [Class::Read, Class::Write].map(|class| slowest(array, class, samples, losses, family));
        // Once is enough; what takes longer compared with its peers says it best.
        found
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|f| f.1)
    };
    arrays.iter().filter_map(of).collect()
}

/// The member that is slower than all others, with how many times.
fn slowest(
    array: &Array,
    class: Class,
    samples: &[(DevId, &Samples)],
    losses: &Losses,
    family: usize,
) -> Option<(f64, Finding)> {
    // What its members do before and after is not the array's.
    let own = samples
        .iter()
        .find(|s| Some(s.0) == array.dev)
        .map(|s| s.1.iter().flat_map(|s| s.kept()));
    let ends = own
        .into_iter()
        .flatten()
        .fold((i64::MAX, i64::MIN), |e, r| {
            (e.0.min(r.issue_ns), e.1.max(r.issue_ns + r.device_ns))
        });
    let (from_ns, to_ns) = if ends.0 < ends.1 {
        ends
    } else {
        (i64::MIN, i64::MAX)
    };
    let of = |(dev, _): &(DevId, String)| {
        let own = samples.iter().find(|s| s.0 == *dev)?.1;
        let gaps = losses.of(*dev);
        let inside = |r: &AtIssue| (from_ns..=to_ns).contains(&r.issue_ns);
        let is_seen = |r: &AtIssue| {
            !gaps
                .iter()
                .any(|g| g.0 <= r.issue_ns + r.device_ns && r.issue_ns <= g.1)
        };
        let all = || {
            let weighted = |s| {
                Requests::kept(s)
                    .iter()
                    .map(|r| (Requests::one_in(s) as f64, r))
            };
            own.iter().flat_map(weighted).filter(|(_, r)| inside(r))
        };
        Some(Member {
            dev: *dev,
            requests: own[class as usize]
                .kept()
                .iter()
                .filter(|r| inside(r) && is_seen(r))
                .collect(),
            ios: all().map(|(one_in, _)| one_in).sum(),
            bytes: all()
                .map(|(one_in, r)| one_in * f64::from(r.sectors) * SECTOR_BYTES as f64)
                .sum(),
        })
    };
    let members: Vec<Member> = array
        .members
        .iter()
        .filter_map(of)
        .filter(|m| !m.requests.is_empty())
        .collect();
    let edges = edges(&members)?;
    let blocks: Vec<Vec<MemberCells>> = members.iter().map(|m| cells(m, &edges)).collect();
    let mut found = None;
    for (i, member) in members.iter().enumerate() {
        let peers = || members.iter().enumerate().filter(|(k, _)| *k != i);
        let most =
            |of: fn(&Member) -> f64| MAX_LOAD * peers().map(|(_, p)| of(p)).fold(0.0, f64::max);
        if members.len() < 2 || member.ios > most(|p| p.ios) || member.bytes > most(|p| p.bytes) {
            continue;
        }
        let all: Option<Vec<(Comparison, &Member)>> = peers()
            .map(|(k, p)| Some((compare(&blocks[i], &blocks[k], family)?, p)))
            .collect();
        let Some((least, peer)) =
            all.and_then(|a| a.into_iter().min_by(|a, b| a.0.ci.0.total_cmp(&b.0.ci.0)))
        else {
            continue;
        };
        let excess_us = member.quantile_us(0.5)? - peer.quantile_us(0.5)?;
        let is_slow = least.ratio >= NOTICEABLE
            && least.ci.0 >= MIN_INTERVAL_RATIO
            && least.is_apart
            && least.p_family <= ALPHA;
        if is_slow && excess_us >= MIN_EXCESS_US {
            let ios = peers().map(|(_, p)| p.requests.len()).sum();
            found = Some((
                least.ratio,
                finding(array, class, (member, peer), &least, ios),
            ));
        }
    }
    found
}

/// The ends of blocks that have equally many requests of all members together; `None` if they are too few.
fn edges(members: &[Member]) -> Option<Vec<i64>> {
    let mut issues: Vec<i64> = members
        .iter()
        .flat_map(|m| m.requests.iter().map(|r| r.issue_ns))
        .collect();
    issues.sort_unstable();
    let blocks = (issues.len() / (MIN_ALIKE * 4 * members.len().max(1))).min(BLOCKS);
    (blocks >= MIN_BLOCKS && members.len() > 1).then(|| {
        (1..blocks)
            .map(|b| issues[issues.len() * b / blocks])
            .chain([i64::MAX])
            .collect()
    })
}

/// Number and sum of logarithms of device times, by size and sequence.
type MemberCells = BTreeMap<(u32, bool), (usize, f64)>;

fn cells(member: &Member, edges: &[i64]) -> Vec<MemberCells> {
    let mut all: Vec<MemberCells> = vec![MemberCells::new(); edges.len()];
    for r in &member.requests {
        let block = edges
            .partition_point(|e| *e <= r.issue_ns)
            .min(edges.len() - 1);
        let cell = all[block]
            .entry((r.sectors.max(1).ilog2(), r.cell.is_sequential()))
            .or_default();
        *cell = (cell.0 + 1, cell.1 + (r.device_ns.max(1) as f64).ln());
    }
    all
}

/// `None` where too little of theirs is alike.
fn compare(member: &[MemberCells], peer: &[MemberCells], family: usize) -> Option<Comparison> {
    let difference = |(own, other): (&MemberCells, &MemberCells)| {
        let mut alike = 0;
        let mut sum = 0.0;
        for (cell, (n, log)) in own {
            let Some((m, of_peer)) = other.get(cell) else {
                continue;
            };
            let weight = *n.min(m);
            alike += weight;
            sum += weight as f64 * (log / *n as f64 - of_peer / *m as f64);
        }
        (alike >= MIN_ALIKE).then(|| sum / alike as f64)
    };
    let differences: Vec<f64> = member.iter().zip(peer).filter_map(difference).collect();
    let blocks = differences.len();
    let (mean, sd) = mean_sd(&differences).filter(|_| blocks >= MIN_BLOCKS)?;
    let rest: Vec<f64> = differences.iter().map(|d| d - mean).collect();
    let effective = blocks as f64 / inflation(&rest);
    let se = (sd / effective.sqrt()).max(1e-9);
    let df = (effective - 1.0).max(1.0);
    let half = t_critical(0.05, df) * se;
    let above = differences.iter().filter(|d| **d > 0.0).count();
    Some(Comparison {
        ratio: mean.exp(),
        ci: ((mean - half).exp(), (mean + half).exp()),
        p_family: (t_both_sides(mean.abs() / se, df) * family as f64).min(1.0),
        blocks,
        is_apart: above as f64 >= MIN_BLOCKS_AGREE * blocks as f64,
    })
}

fn finding(
    array: &Array,
    class: Class,
    (member, peer): (&Member, &Member),
    c: &Comparison,
    peers_ios: usize,
) -> Finding {
    let name = |dev: DevId| {
        array
            .members
            .iter()
            .find(|m| m.0 == dev)
            .map_or_else(|| dev.to_string(), |m| m.1.clone())
    };
    let of = |q: f64| (member.quantile_us(q), peer.quantile_us(q));
    let ((p50_us, slowest_peer_p50_us), (p99_us, slowest_peer_p99_us)) = (of(0.5), of(0.99));
    let ends = |m: &Member| {
        (
            m.requests.first().map(|r| r.issue_ns),
            m.requests.last().map(|r| r.issue_ns + r.device_ns),
        )
    };
    let (from_ns, to_ns) = ends(member);
    Finding {
        dev: Some(member.dev),
        from_ns: from_ns.unwrap_or(0),
        to_ns: to_ns.unwrap_or(0),
        severity: if c.ratio >= WARNING {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::SlowMember(SlowMemberEvidence {
            array: array.name.clone(),
            members: array.members.len(),
            member: name(member.dev),
            class,
            ratio: c.ratio,
            ratio_ci: c.ci,
            p_value: c.p_family,
            blocks: c.blocks,
            device_p50_us: p50_us,
            device_p99_us: p99_us,
            slowest_peer: name(peer.dev),
            slowest_peer_p50_us,
            slowest_peer_p99_us,
            slowest_peer_ios: peer.requests.len(),
            ios: member.requests.len(),
            peers_ios,
        }),
    }
}
