//! Control groups at their own limit (A29) as stories: what a limit holds back no I/O shows, so waits (A28) cannot.

use super::advice::Advice;
use super::cause::{Place, in_flight, shares};
use super::{Cause, Doubt, Episodes, Harm, Scene, Share, Story, StoryKind};
use crate::analysis::limits::{Held, OwnLimit};

use crate::analysis::waits::{DeviceVictims, Program};

/// Adds a story for each control group that its own limit throttled for long enough. The same limit can look like a
/// device with a fixed rate or like I/O held above the driver, so such stories of the same programs are removed.
pub(super) fn add(
    found: &mut Vec<Story>,
    limits: Vec<OwnLimit>,
    waits: &[DeviceVictims],
    scene: &Scene,
) {
    for limit in limits {
        let device = waits.iter().find(|d| d.dev == limit.dev);
        let Some(story) = device.and_then(|device| of_limit(limit, device, scene)) else {
            continue;
        };
        found.retain(|other| !is_same_limit(other, &story));
        found.push(story);
    }
}

fn is_same_limit(other: &Story, story: &Story) -> bool {
    let is_kind = matches!(
        other.kind,
        StoryKind::RateLimit | StoryKind::Held | StoryKind::OwnQueue
    );
    let Some(limit) = story.own_limit.as_ref().filter(|_| is_kind) else {
        return false;
    };
    let is_of_group = limit.is_for(other.victim.tgid, other.victim.cgroup);
    is_of_group && other.own_limit.is_none() && other.dev == story.dev && other.class == story.class
}

/// The story of one limit. The victim is the group's program that did most of the limited I/O.
fn of_limit(limit: OwnLimit, device: &DeviceVictims, scene: &Scene) -> Option<Story> {
    let doubts = match limit.held {
        Held::Yes => Vec::new(),
        Held::Probably => vec![Doubt::NoPressure],
        Held::NotWaiting | Held::No => return None,
    };
    let class = limit.rate.class();
    let effect = device
        .felt
        .effects
        .iter()
        .filter(|e| e.class == class && limit.is_for(e.victim.tgid, e.victim.cgroup))
        .max_by_key(|e| e.sums.ios);
    let unfelt = Program {
        cgroup: limit.cgroup,
        ..Program::default()
    };
    let held = Share {
        cause: Cause::Held,
        ns: limit.held_ns,
    };
    // No program is seen to wait for write-back; then only the limit itself is known.
    let mut all_shares = effect.map(shares).unwrap_or_default();
    all_shares.push(held);
    all_shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    let io_time_ns = limit.held_ns + effect.map_or(0, |e| e.sums.time.total_ns());
    if !Place::of(device, scene).is_enough(limit.held_ns, io_time_ns) {
        return None;
    }
    let episodes = Episodes::of_limit(&limit.flat, limit.held_ns)?;
    Some(Story {
        kind: StoryKind::RateLimit,
        dev: limit.dev,
        victim: effect.map_or(unfelt, |e| e.victim),
        class,
        ios: effect.map_or(0, |e| e.sums.ios),
        io_time_ns,
        excess_ns: limit.held_ns + effect.map_or(0, |e| e.sums.time.excess_ns()),
        culprits: Vec::new(),
        culprit_ios: Vec::new(),
        shares: all_shares,
        harm: Harm {
            ns: limit.held_ns,
            by_clock_ns: None,
            lost_ns: limit.held_ns,
            delayed_ios: effect.map_or(0, |e| e.sums.delayed_ios),
            worst: effect.map(|e| e.sums.worst).unwrap_or_default(),
            p99_with_ns: None,
            p99_without_ns: None,
        },
        also: Vec::new(),
        episodes,
        doubts,
        in_flight: effect.map_or(0.0, in_flight),
        cap: None,
        advice: vec![Advice::LookAtLimits],
        own_limit: Some(limit),
        memory_limit: None,
    })
}
