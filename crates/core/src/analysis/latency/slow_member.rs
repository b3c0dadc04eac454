//! Finds a member of an array that is slower than each of its peers.
//!
//! Members of an array get similar requests, so their device times are compared at the same time, size and direction.
//! The recording is cut into blocks of equally many requests. In each block the mean logarithm of a member's device
//! times is compared with each peer's, over requests of one size (a factor of two), sequential ones separately. The
//! differences must be significantly and noticeably above zero against *every* peer, corrected for all members,
//! classes and arrays of the report. A member with more load than any peer is not judged.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::analysis::device::at_issue::AtIssue;
use crate::analysis::findings::evidence::{Evidence, SlowMemberEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::latency::change::inflation;
use crate::analysis::math::distributions::{t_both_sides, t_critical};
use crate::analysis::math::stats::{mean_sd, nearest_rank};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::requests::Requests;
use crate::model::{Below, BtrfsSettings, Class, DevId, Device, SECTOR_BYTES, Settings};

/// Number of blocks, and minimum number of comparable ones; fewer do not show their spread.
const BLOCKS: usize = 16;
const MIN_BLOCKS: usize = 8;
/// Minimum number of similar requests of both members in a block.
const MIN_ALIKE: usize = 5;
/// Minimum ratio that is reported, and minimum of the lower end of its confidence interval.
const NOTICEABLE: f64 = 1.5;
const MIN_INTERVAL_RATIO: f64 = 1.25;
/// Ratio from which on a slow member is a warning.
const WARNING: f64 = 2.0;
/// Minimum difference of medians to the peer that is compared, in microseconds.
const MIN_EXCESS_US: f64 = 50.0;
/// Significance level, for all comparisons of the report together.
const ALPHA: f64 = 0.01;
/// Minimum share of blocks that must agree.
const MIN_BLOCKS_AGREE: f64 = 0.9;
/// A member with more than this many times the I/Os or bytes of its busiest peer has a load of its own.
const MAX_LOAD: f64 = 1.25;

/// Reads and writes of one device.
pub(in crate::analysis) type Samples = [Requests<AtIssue>; 2];

/// A layer or a file system that spreads its I/O over several devices.
#[derive(Debug, Clone, Default)]
pub struct Array {
    /// The layer's own device; a file system has none.
    dev: Option<DevId>,
    name: String,
    members: Vec<(DevId, String)>,
}

impl Array {
    /// The arrays among `devices`: md arrays, dm devices over several devices, and btrfs file systems with data on
    /// several devices.
    pub fn all(devices: &[Device], settings: Option<&Settings>) -> Vec<Array> {
        let mut arrays = Array::layers(devices);
        for btrfs in settings.iter().flat_map(|s| &s.btrfs) {
            arrays.extend(Array::of_btrfs(btrfs, devices));
        }
        arrays.retain(|array| array.members.len() > 1);
        arrays
    }

    fn name_of(&self, member: DevId) -> String {
        self.members
            .iter()
            .find(|m| m.0 == member)
            .map_or_else(|| member.to_string(), |m| m.1.clone())
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

    /// `None` unless the data profile is a RAID. Otherwise each piece of data is on one device, which determines the
    /// devices' load.
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

impl<'a> Member<'a> {
    /// The requests of `dev` of `class` in `span` outside `gaps`. `ios` and `bytes`, its load, include both classes.
    fn of(
        (dev, own): (DevId, &'a Samples),
        class: Class,
        span: &RangeInclusive<i64>,
        gaps: &[(i64, i64)],
    ) -> Member<'a> {
        let mut ios = 0.0;
        let mut bytes = 0.0;
        for sample in own {
            let one_in = sample.one_in() as f64;
            for r in sample.kept().iter().filter(|r| span.contains(&r.issue_ns)) {
                ios += one_in;
                bytes += one_in * f64::from(r.sectors) * SECTOR_BYTES as f64;
            }
        }
        let inside = own[class as usize]
            .kept()
            .iter()
            .filter(|r| span.contains(&r.issue_ns));
        Member {
            dev,
            requests: inside.filter(|r| !r.meets_gap(gaps)).collect(),
            ios,
            bytes,
        }
    }

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

/// Estimated number of requests that completed in an interval.
fn completed_in(samples: &Samples, from_ns: i64, to_ns: i64) -> u64 {
    let mut completed = 0;
    for sample in samples {
        for r in sample.kept() {
            if (from_ns..=to_ns).contains(&(r.issue_ns + r.device_ns)) {
                completed += sample.one_in();
            }
        }
    }
    completed
}

/// How much longer one member takes than another.
struct Comparison {
    ratio: f64,
    ci: (f64, f64),
    p_family: f64,
    blocks: usize,
    is_apart: bool,
}

/// The findings about `arrays`; `samples` holds those of each device.
pub(in crate::analysis) fn find(
    arrays: &[Array],
    samples: &[(DevId, &Samples)],
    losses: &Losses,
) -> Vec<Finding> {
    let family = 2 * arrays.iter().map(|a| a.members.len().pow(2)).sum::<usize>();
    let mut found = Vec::new();
    for array in arrays {
        let of_classes =
            [Class::Read, Class::Write].map(|class| slowest(array, class, samples, losses, family));
        // One finding per array: of reads and writes the one with the larger ratio.
        let clearest = of_classes
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0));
        found.extend(clearest.map(|(_, finding)| finding));
    }
    found
}

/// From the first issue to the last completion of the array's own requests; all time if it has none.
fn active_span(array: &Array, samples: &[(DevId, &Samples)]) -> RangeInclusive<i64> {
    let mut from_ns = i64::MAX;
    let mut to_ns = i64::MIN;
    let own = samples.iter().find(|s| Some(s.0) == array.dev);
    for r in own.iter().flat_map(|s| s.1).flat_map(|s| s.kept()) {
        from_ns = from_ns.min(r.issue_ns);
        to_ns = to_ns.max(r.issue_ns + r.device_ns);
    }
    if from_ns < to_ns {
        from_ns..=to_ns
    } else {
        i64::MIN..=i64::MAX
    }
}

/// The member that is slower than all others, with the ratio of its device times.
fn slowest(
    array: &Array,
    class: Class,
    samples: &[(DevId, &Samples)],
    losses: &Losses,
    family: usize,
) -> Option<(f64, Finding)> {
    // I/O of the members before and after this is not the array's.
    let span = active_span(array, samples);
    let mut members = Vec::new();
    for (dev, _) in &array.members {
        if let Some(own) = samples.iter().find(|s| s.0 == *dev) {
            // A few lost I/Os among many do not change the median of the others.
            let gaps = losses.heavy(*dev, |from_ns, to_ns| completed_in(own.1, from_ns, to_ns));
            let member = Member::of(*own, class, &span, &gaps);
            if !member.requests.is_empty() {
                members.push(member);
            }
        }
    }
    let edges = edges(&members)?;
    let blocks: Vec<Vec<MemberCells>> = members.iter().map(|m| cells(m, &edges)).collect();
    let mut found = None;
    for (i, member) in members.iter().enumerate() {
        let mut peers = members.iter().zip(&blocks).collect::<Vec<_>>();
        peers.remove(i);
        // A member with more load than any peer may be slower because of it.
        let most_ios = peers.iter().map(|(p, _)| p.ios).fold(0.0, f64::max);
        let most_bytes = peers.iter().map(|(p, _)| p.bytes).fold(0.0, f64::max);
        if peers.is_empty()
            || member.ios > MAX_LOAD * most_ios
            || member.bytes > MAX_LOAD * most_bytes
        {
            continue;
        }
        // It must be slower than every peer, so the least certain comparison decides.
        let all: Option<Vec<(Comparison, &Member)>> = peers
            .iter()
            .map(|(peer, cells)| Some((compare(&blocks[i], cells, family)?, *peer)))
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
            let ios = peers.iter().map(|(p, _)| p.requests.len()).sum();
            found = Some((
                least.ratio,
                finding(array, class, (member, peer), &least, ios),
            ));
        }
    }
    found
}

/// The ends of blocks with equally many requests of all members together; `None` if there are too few requests.
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

/// Number and sum of logarithms of device times, by size (power of two) and whether sequential.
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

/// Mean difference of logarithms over similar requests in one block; `None` if these are too few.
fn difference(own: &MemberCells, other: &MemberCells) -> Option<f64> {
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
}

/// Compares a member with a peer; `None` if too few blocks are comparable.
fn compare(member: &[MemberCells], peer: &[MemberCells], family: usize) -> Option<Comparison> {
    let differences: Vec<f64> = member
        .iter()
        .zip(peer)
        .filter_map(|(own, other)| difference(own, other))
        .collect();
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
    // What was compared lasts from its first request to the end of its last one.
    let first = member.requests.first();
    let last = member.requests.last();
    Finding {
        dev: Some(member.dev),
        from_ns: first.map_or(0, |r| r.issue_ns),
        to_ns: last.map_or(0, |r| r.issue_ns + r.device_ns),
        severity: if c.ratio >= WARNING {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::SlowMember(SlowMemberEvidence {
            array: array.name.clone(),
            members: array.members.len(),
            member: array.name_of(member.dev),
            class,
            ratio: c.ratio,
            ratio_ci: c.ci,
            p_value: c.p_family,
            blocks: c.blocks,
            device_p50_us: member.quantile_us(0.5),
            device_p99_us: member.quantile_us(0.99),
            slowest_peer: array.name_of(peer.dev),
            slowest_peer_p50_us: peer.quantile_us(0.5),
            slowest_peer_p99_us: peer.quantile_us(0.99),
            slowest_peer_ios: peer.requests.len(),
            ios: member.requests.len(),
            peers_ios,
        }),
    }
}
