//! Control groups that read again what their memory limit had evicted (A29) as stories: their reads need not wait for anything,
//! so waits (A28) say nothing of them.

use super::advice::{Advice, CulpritFacts};
use super::cause::{Place, in_flight, is_kernel_thread, is_much_unknown};
use super::{Cause, Doubt, Episodes, Harm, Scene, Share, Story, StoryKind};
use crate::analysis::limits::MemoryLimit;

use crate::analysis::waits::DeviceVictims;
use crate::model::Class;

/// Adds a story for each control group that lost enough time to reading evicted pages again.
pub(super) fn add(
    found: &mut Vec<Story>,
    limits: Vec<MemoryLimit>,
    waits: &[DeviceVictims],
    scene: &Scene,
) {
    for limit in limits {
        let share = refaulted_share(&limit, waits, scene);
        for device in waits.iter().filter(|d| !scene.layers.contains(&d.dev)) {
            found.extend(of_device(&limit, share, device, scene));
        }
    }
}

/// Share of the group's read bytes that are pages read again.
fn refaulted_share(limit: &MemoryLimit, waits: &[DeviceVictims], scene: &Scene) -> f64 {
    let mut read_bytes = 0;
    for device in waits.iter().filter(|d| !scene.layers.contains(&d.dev)) {
        for group in &device.felt.groups {
            let Some(program) = group.program else {
                continue;
            };
            if group.class == Class::Read && limit.is_for(program.tgid, program.cgroup) {
                read_bytes += group.bytes;
            }
        }
    }
    (limit.refaulted_bytes as f64 / read_bytes.max(1) as f64).min(1.0)
}

/// The story on one device. The victim is the group's program with the most read time there.
fn of_device(
    limit: &MemoryLimit,
    share: f64,
    device: &DeviceVictims,
    scene: &Scene,
) -> Option<Story> {
    let reads = device.felt.effects.iter().filter(|e| {
        let is_member = limit.is_for(e.victim.tgid, e.victim.cgroup);
        is_member && e.class == Class::Read && !is_kernel_thread(&e.victim)
    });
    let effect = reads.max_by_key(|e| e.sums.time.total_ns())?;
    let io_time_ns = effect.sums.time.total_ns();
    // Without the limit these pages would still be in memory, so the time to read them again is what the limit cost.
    let lost_ns = (io_time_ns as f64 * share) as i64;
    if !Place::of(device, scene).is_enough(lost_ns, io_time_ns) {
        return None;
    }
    let episodes = Episodes::of_limit(&limit.intervals, lost_ns)?;
    Some(Story {
        kind: StoryKind::CacheMisses,
        dev: device.dev,
        victim: effect.victim,
        class: Class::Read,
        ios: effect.sums.ios,
        io_time_ns,
        excess_ns: lost_ns,
        culprits: Vec::new(),
        culprit_ios: Vec::new(),
        shares: vec![Share {
            cause: Cause::MemoryLimit,
            ns: lost_ns,
        }],
        harm: Harm {
            ns: lost_ns,
            by_clock_ns: None,
            lost_ns: (lost_ns as f64 * effect.sums.share_by_clock()) as i64,
            delayed_ios: (effect.sums.ios as f64 * share) as u64,
            worst: effect.sums.worst,
            p99_with_ns: None,
            p99_without_ns: None,
        },
        also: Vec::new(),
        episodes,
        // The kernel's count of refaults includes lost I/Os; the summed read time does not.
        doubts: (scene.has_losses && is_much_unknown(&effect.sums.time))
            .then_some(Doubt::LostIos)
            .into_iter()
            .collect(),
        in_flight: in_flight(effect),
        cap: None,
        advice: Advice::of(StoryKind::CacheMisses, CulpritFacts::default()),
        own_limit: None,
        memory_limit: Some(limit.clone()),
    })
}
