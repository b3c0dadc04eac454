//! Stories: who made whom wait, how, how often, how much, and what to try.
//!
//! A story starts from its effect: a program that lost I/O time. Its cause is whatever that program waited behind, as
//! attributed by A28, if this explains at least half of the lost time. Its mechanism is the kind of I/O that the cause
//! did. If no program lost time, there is no story. A30 in `docs/analyses.md` has the rules and what their thresholds
//! were calibrated on.

mod advice;
mod cause;
mod cleared;
mod identity;
mod joined;
mod mechanism;
mod memory_limits;
mod own_limits;

use serde::Serialize;

use crate::analysis::counters::pressure::HostPressure;
use crate::analysis::device::detail::DeviceDetail;
use crate::analysis::limits::{MemoryLimit, OwnLimit};
use crate::analysis::stream::window::Window;
use crate::analysis::waits::effects::Effect;
use crate::analysis::waits::stretches::Stretch;
use crate::analysis::waits::{DeviceVictims, Program, WorstWait};
use crate::model::{Class, DevId, Origin};

pub use advice::Advice;
pub use cause::{Cause, is_likely_victim};
pub use cleared::{Cleared, NotProven, cleared, not_proven};
pub use identity::story_id;
pub use joined::AlsoHurt;

/// Mechanism by which time was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StoryKind {
    /// Write-back of data that was written to the page cache.
    WritebackFlush,
    /// Forced writes of a journal or a log.
    Journal,
    /// Many syncs, each of them small.
    FsyncStorm,
    /// Sequential reads, such as a backup or a scan.
    SequentialScan,
    /// Bulk reads and writes by one program.
    Compaction,
    /// Large writes that bypass the page cache.
    BulkWrites,
    /// Discards (trim).
    Discard,
    /// Swapping.
    Swap,
    /// Many small writes, each of which the program waits for.
    SmallWrites,
    /// File system metadata.
    Metadata,
    /// Many reads at random positions.
    RandomReads,
    /// The victim reads again data that was evicted because of its control group's memory limit.
    CacheMisses,
    /// The victim keeps more I/Os in flight than the device serves in parallel.
    OwnQueue,
    /// The device completes I/Os at a fixed rate regardless of its queue, or the control group is at its own limit.
    RateLimit,
    /// The device completed nothing for a while, not explained by a shortage of CPU time.
    DevicePause,
    /// One or a few I/Os were very slow without waiting for others.
    SlowIo,
    /// I/Os waited above the driver: in the I/O scheduler, by a limit of a control group, or for lack of tags.
    Held,
    /// No single cause explains half of the lost time.
    NoSingleCause,
    /// I/O of unknown type.
    Unknown,
}

impl StoryKind {
    /// All of them.
    pub const ALL: [StoryKind; 19] = [
        StoryKind::WritebackFlush,
        StoryKind::Journal,
        StoryKind::FsyncStorm,
        StoryKind::SequentialScan,
        StoryKind::Compaction,
        StoryKind::BulkWrites,
        StoryKind::Discard,
        StoryKind::Swap,
        StoryKind::SmallWrites,
        StoryKind::Metadata,
        StoryKind::RandomReads,
        StoryKind::CacheMisses,
        StoryKind::OwnQueue,
        StoryKind::RateLimit,
        StoryKind::DevicePause,
        StoryKind::SlowIo,
        StoryKind::Held,
        StoryKind::NoSingleCause,
        StoryKind::Unknown,
    ];

    /// Its name in JSON and on screens.
    pub fn name(self) -> &'static str {
        match self {
            StoryKind::WritebackFlush => "writeback-flush",
            StoryKind::Journal => "journal",
            StoryKind::FsyncStorm => "fsync-storm",
            StoryKind::SequentialScan => "sequential-scan",
            StoryKind::Compaction => "compaction",
            StoryKind::BulkWrites => "bulk-writes",
            StoryKind::Discard => "discard",
            StoryKind::Swap => "swap",
            StoryKind::SmallWrites => "small-writes",
            StoryKind::Metadata => "metadata",
            StoryKind::RandomReads => "random-reads",
            StoryKind::CacheMisses => "cache-misses",
            StoryKind::OwnQueue => "own-queue",
            StoryKind::RateLimit => "rate-limit",
            StoryKind::DevicePause => "device-pause",
            StoryKind::SlowIo => "slow-io",
            StoryKind::Held => "held",
            StoryKind::NoSingleCause => "no-single-cause",
            StoryKind::Unknown => "unknown",
        }
    }
}

/// One part of the time that the victim lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// What the victim waited behind.
    pub cause: Cause,
    /// Time lost to it, summed over the I/Os.
    pub ns: i64,
}

/// The culprit's I/O, restricted to the class and origin that the victim waited behind longest.
#[derive(Debug, Clone, PartialEq)]
pub struct CulpritIo {
    /// Its class.
    pub class: Class,
    /// How it came to be.
    pub origin: Origin,
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Share of its bytes that continue another I/O.
    pub sequential_share: f64,
    /// I/Os that carry a flush or must reach the medium themselves (FUA).
    pub forced_ios: u64,
    /// Number of stretches of time with such I/O (I/Os less than 0.1 s apart belong together), not counting stretches
    /// that moved less than half of the median bytes.
    pub stretches: u64,
    /// Median bytes per stretch.
    pub stretch_bytes: f64,
    /// Median duration of a stretch.
    pub stretch_ns: f64,
    /// The stretch that `stretches` counts, if it counts one.
    pub only_stretch: Option<Stretch>,
    /// Start of the first stretch of any size.
    pub from_ns: i64,
    /// End of the last stretch of any size.
    pub to_ns: i64,
    /// Time between starts of stretches, if there are at least five and they are periodic.
    pub period_ns: Option<f64>,
    /// The stretch in which the victim waited longest; `None` if it was dropped because there were too many to keep.
    pub at_worst: Option<Stretch>,
}

impl CulpritIo {
    /// Whether the I/O is mostly sequential, not random.
    pub fn is_sequential(&self) -> bool {
        self.sequential_share >= mechanism::SEQUENTIAL_SHARE
    }
}

/// What the victim lost to the cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harm {
    /// Time lost, summed over the I/Os: a lower bound.
    pub ns: i64,
    /// Time lost in wall-clock time: time that several I/Os of a process lose at once counts once. `None` if the cause
    /// is not a program.
    pub by_clock_ns: Option<i64>,
    /// The figure that ranks stories: lost wall-clock time. If the cause is not a program, it is `ns` scaled by the
    /// ratio of wall-clock time to I/O time in the victim's whole excess.
    pub lost_ns: i64,
    /// I/Os that took more than twice their undisturbed latency because of the cause.
    pub delayed_ios: u64,
    /// The worst moment.
    pub worst: WorstWait,
    /// p99 latency of the I/Os that waited behind the cause; `None` for fewer than 100.
    pub p99_with_ns: Option<i64>,
    /// p99 latency of the victim's other I/Os; `None` for fewer than 100.
    pub p99_without_ns: Option<i64>,
}

/// When the victim was hurt.
#[derive(Debug, Clone, PartialEq)]
pub struct Episodes {
    /// Number of episodes; lost times less than 0.1 s apart belong to one episode.
    pub times: u64,
    /// Start of the first episode.
    pub from_ns: i64,
    /// End of the last episode.
    pub to_ns: i64,
    /// The worst episodes in order of time; `amount` is the time lost in nanoseconds.
    pub worst: Vec<Stretch>,
}

/// Maximum number of episodes that a story about a limit lists.
const MAX_EPISODES: usize = 8;

impl Episodes {
    /// The episodes in which a limit was reached. `lost_ns` is divided among them in proportion to their length; `None`
    /// if there are no episodes.
    fn of_limit(windows: &[Window], lost_ns: i64) -> Option<Episodes> {
        let first = windows.first()?;
        let last = windows.last()?;
        let all_ns: i64 = windows.iter().map(Window::len_ns).sum();
        let mut worst = Vec::new();
        for window in windows.iter().take(MAX_EPISODES) {
            let share = window.len_ns() as f64 / all_ns.max(1) as f64;
            worst.push(Stretch {
                from_ns: window.from_ns,
                to_ns: window.to_ns,
                amount: (lost_ns as f64 * share) as i64,
                ios: 0,
            });
        }
        Some(Episodes {
            times: windows.len() as u64,
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            worst,
        })
    }
}

/// One story.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// The mechanism.
    pub kind: StoryKind,
    /// The device.
    pub dev: DevId,
    /// The program that lost time.
    pub victim: Program,
    /// Class of the I/Os that lost it.
    pub class: Class,
    /// Number of the victim's completed I/Os of this class.
    pub ios: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
    /// The part of it beyond the undisturbed latencies.
    pub excess_ns: i64,
    /// The programs that caused it; empty if the cause is not a program.
    pub culprits: Vec<Program>,
    /// The I/O of each culprit, in the same order.
    pub culprit_ios: Vec<CulpritIo>,
    /// How the excess divides among causes, largest part first.
    pub shares: Vec<Share>,
    /// The time lost to the cause.
    pub harm: Harm,
    /// What the same cause cost other I/Os of the victim, worst first.
    pub also: Vec<AlsoHurt>,
    /// When.
    pub episodes: Episodes,
    /// Reasons why the story is only probable; empty if it is certain.
    pub doubts: Vec<Doubt>,
    /// Mean number of I/Os of this class that the victim had in flight, between its first and its last.
    pub in_flight: f64,
    /// The rate limit of the device, if it is the cause.
    pub cap: Option<crate::analysis::waits::Cap>,
    /// The I/O limit of the victim's control group, if it is the cause.
    pub own_limit: Option<OwnLimit>,
    /// The memory limit that makes the victim's control group read evicted pages again, if it is the cause.
    pub memory_limit: Option<MemoryLimit>,
    /// Suggested actions.
    pub advice: Vec<Advice>,
}

impl Story {
    /// Removes the names of programs, except those of kernel threads.
    pub fn hide_names(&mut self) {
        self.victim.hide_name();
        self.culprits.iter_mut().for_each(Program::hide_name);
        for also in &mut self.also {
            also.victim.hide_name();
        }
        for share in &mut self.shares {
            if let Cause::Program(program) = &mut share.cause {
                program.hide_name();
            }
        }
    }

    /// The victim and the other programs or classes that the same cause hurt, worst first.
    pub fn victims(&self) -> impl Iterator<Item = (&Program, Class)> {
        let also = self.also.iter().map(|also| (&also.victim, also.class));
        std::iter::once((&self.victim, self.class)).chain(also)
    }

    /// Share of the victim's I/O time that it lost to the cause.
    pub fn harm_share(&self) -> f64 {
        self.harm.ns as f64 / self.io_time_ns.max(1) as f64
    }

    /// Share of the victim's excess that the cause explains.
    pub fn explained_share(&self) -> f64 {
        self.harm.ns as f64 / self.excess_ns.max(1) as f64
    }
}

/// Reason why a story is only probable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Fewer than 20 I/Os were delayed, in fewer than 3 stretches of time.
    FewIos,
    /// I/Os are missing from the recording.
    LostIos,
    /// The kernel does not say whether the tasks of the control group waited (no PSI).
    NoPressure,
}

/// What the analysis knows besides waits.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The analysed time window.
    pub window: Window,
    /// Detailed analyses of the devices.
    pub details: &'a [DeviceDetail],
    /// Devices that are stacked on other recorded devices.
    pub layers: &'a std::collections::BTreeSet<DevId>,
    /// CPU pressure and other shortages of the host.
    pub host: &'a HostPressure,
    /// Whether I/Os were lost from the recording.
    pub has_losses: bool,
}

/// Limits of control groups (A29) on I/O and memory. Their delays are not visible as waits of I/Os.
#[derive(Debug, Default)]
pub struct GroupLimits {
    /// Of I/O.
    pub own: Vec<OwnLimit>,
    /// Of memory.
    pub memory: Vec<MemoryLimit>,
}

/// All stories, worst first. Each cause of a victim's harm is reported once.
pub fn stories(waits: &[DeviceVictims], scene: &Scene, limits: GroupLimits) -> Vec<Story> {
    let mut found = Vec::new();
    for device in waits {
        let place = cause::Place::of(device, scene);
        for effects in by_program(&device.felt.effects) {
            found.extend(of_program(&place, &effects));
        }
    }
    let mut found = without_layers(found, waits, scene);
    own_limits::add(&mut found, limits.own, waits, scene);
    memory_limits::add(&mut found, limits.memory, waits, scene);
    sort(&mut found, waits);
    joined::joined(found)
}

/// Sorts by lost wall-clock time, worst first. If two programs delay each other on one device, only the difference
/// counts, because they share the device; the same holds for reads and writes of one program that wait for each other.
/// A victim's own queue comes last.
fn sort(stories: &mut [Story], waits: &[DeviceVictims]) {
    stories.sort_by_cached_key(|story| {
        // With fewer I/Os in flight the program would be as fast, so its own queue costs it no time.
        let is_own_queue = story.kind == StoryKind::OwnQueue;
        let harm = &story.harm;
        let net_ns = (harm.ns - cost_back_ns(story, waits)).max(0);
        let net_share = net_ns as f64 / harm.ns.max(1) as f64;
        let net_lost_ns = (harm.lost_ns as f64 * net_share) as i64;
        let most = [net_lost_ns, harm.lost_ns, harm.ns].map(std::cmp::Reverse);
        (is_own_queue, most, story.dev, story.victim, story.class)
    });
}

/// What the culprits of a story lost behind its victim, whether or not that is a story, too. Write-back does not count: much of it
/// waits at once, and nothing waits for it.
fn cost_back_ns(story: &Story, waits: &[DeviceVictims]) -> i64 {
    let of_device = waits.iter().filter(|device| device.dev == story.dev);
    let mut back_ns = 0;
    for entry in of_device.flat_map(|device| &device.victims) {
        let Some(program) = entry.group.program else {
            continue;
        };
        let is_hurt_itself = story.victim.includes(&program);
        let is_hurt = is_hurt_itself && entry.group.class == story.class;
        let is_culprit = story.culprits.iter().any(|c| c.includes(&program));
        if is_hurt || !is_culprit || entry.group.origin == Origin::Writeback {
            continue;
        }
        for behind in &entry.behind {
            let is_victim = behind
                .group
                .program
                .is_some_and(|p| story.victim.includes(&p));
            if is_victim && (behind.group.class == story.class || !is_hurt_itself) {
                back_ns += behind.ns;
            }
        }
    }
    back_ns
}

/// The effects on the processes of one program in one control group, of one class, beside each other.
fn by_program(effects: &[Effect]) -> Vec<Vec<&Effect>> {
    let mut programs: std::collections::BTreeMap<_, Vec<&Effect>> = Default::default();
    for effect in effects {
        let key = (effect.victim.name(), effect.class);
        programs.entry(key).or_default().push(effect);
    }
    programs.into_values().collect()
}

/// The stories of one program's processes: a single story if all of them have the same kind and culprits.
fn of_program(place: &cause::Place, effects: &[&Effect]) -> Vec<Story> {
    let mut own = Vec::new();
    let mut hurt = Vec::new();
    for effect in effects {
        if let Some(story) = place.story(effect) {
            own.push(story);
            hurt.push(*effect);
        }
    }
    let [first, others @ ..] = &hurt[..] else {
        return own;
    };
    let alike = own
        .iter()
        .all(|s| s.culprits == own[0].culprits && s.kind == own[0].kind);
    if others.is_empty() || !alike {
        return own;
    }
    let both = Program {
        tgid: None,
        ..first.victim
    };
    let mut together = (*first).clone();
    for other in others {
        together.merge(other, both);
    }
    match place.story(&together) {
        Some(story) => vec![story],
        // Without a culprit there is one story, that of the process that lost most.
        None if own[0].culprits.is_empty() => own
            .into_iter()
            .max_by_key(|s| s.harm.ns)
            .into_iter()
            .collect(),
        None => own,
    }
}

/// Removes duplicate stories of stacked devices. An I/O through a stack waits on every layer, so one victim can have a
/// story on several of them. The story on the lower device is kept, unless it explains less than half of the harm
/// because part of the I/O below has no known program; then the one on the upper device is kept.
fn without_layers(found: Vec<Story>, waits: &[DeviceVictims], scene: &Scene) -> Vec<Story> {
    let mut kept = Vec::new();
    for story in &found {
        let is_above = scene.layers.contains(&story.dev);
        let is_better_elsewhere = found.iter().any(|other| {
            let is_same = other.victim == story.victim && other.class == story.class;
            let is_elsewhere = scene.layers.contains(&other.dev) != is_above;
            let is_enough = if is_above {
                2 * other.harm.ns >= story.harm.ns
            } else {
                other.harm.ns > 2 * story.harm.ns && came_from_above(story, waits)
            };
            is_same && is_elsewhere && is_enough
        });
        if !is_better_elsewhere {
            kept.push(story.clone());
        }
    }
    kept
}

/// Whether the victim's I/O reached the story's device through a device stacked on it.
fn came_from_above(story: &Story, waits: &[DeviceVictims]) -> bool {
    let device = waits.iter().find(|device| device.dev == story.dev);
    let mut groups = device
        .into_iter()
        .flat_map(|d| d.felt.from_above(&story.victim));
    groups.any(|group| group.class == story.class)
}

#[cfg(test)]
mod tests;
