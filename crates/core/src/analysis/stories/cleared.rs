//! Programs of which no story is: those that did not wait, and those of which the recording does not show whether they did.

use std::collections::BTreeMap;

use super::{Story, cause};
use crate::analysis::waits::effects::{Effect, INTERVAL_NS};
use crate::analysis::waits::{DeviceVictims, Program};
use crate::model::{Class, DevId};

/// A program that lost at most this share of its wall-clock time in every interval is not slow because of its disks.
const MAX_OF_TIME: f64 = 0.05;

/// The busiest program, or the requested one, if its I/Os were not delayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cleared {
    /// Whose I/Os.
    pub program: Program,
    /// Number of I/Os that a program can be waiting for.
    pub ios: u64,
    /// The longest latency.
    pub longest_ns: i64,
    /// Total latency beyond the undisturbed latencies.
    pub excess_ns: i64,
    /// Sum of the latencies.
    pub io_time_ns: i64,
    /// The part of the excess that no other I/O explains.
    device_ns: i64,
    /// The largest excess in one interval of [`INTERVAL_NS`], and the time from the program's first to its last I/O, at
    /// most one such interval.
    most_in_interval_ns: i64,
    span_ns: i64,
    /// Time that I/Os without a known undisturbed latency may have waited for others or each other.
    suspected_ns: i64,
}

impl Cleared {
    fn of(program: Program) -> Cleared {
        Cleared {
            program,
            ios: 0,
            longest_ns: 0,
            excess_ns: 0,
            io_time_ns: 0,
            device_ns: 0,
            most_in_interval_ns: 0,
            span_ns: 0,
            suspected_ns: 0,
        }
    }

    fn add(&mut self, effect: &Effect) {
        self.ios += effect.sums.ios;
        self.longest_ns = self.longest_ns.max(effect.sums.longest_ns);
        self.excess_ns += effect.sums.time.excess_ns();
        self.io_time_ns += effect.sums.time.total_ns();
        self.device_ns += effect.sums.time.device_ns;
        self.most_in_interval_ns += effect.sums.most_in_interval_ns;
        let span_ns = effect.sums.to_ns.saturating_sub(effect.sums.from_ns);
        self.span_ns = self.span_ns.max(span_ns.min(INTERVAL_NS));
        self.suspected_ns += effect.suspects.iter().map(|(_, ns)| ns).sum::<i64>();
    }

    /// Whether the program lost little time, and cannot have lost much unnoticed.
    fn is_shown(&self) -> bool {
        let is_quick = self.longest_ns < cause::LONG_DELAY_NS;
        let has_lost_little = self.is_little(self.excess_ns) || self.only_scatters();
        self.ios >= cause::MIN_DELAYED_IOS && has_lost_little && is_quick
    }

    fn is_little(&self, lost_ns: i64) -> bool {
        let most_lost_ns = lost_ns.max(self.suspected_ns);
        (most_lost_ns as f64) < cause::MIN_LOST_OF_IO_TIME * self.io_time_ns as f64
    }

    /// Whether the excess is only the normal scatter of latencies. Half of the I/Os take longer than the median; in
    /// total this can be a large share of the I/O time although it is a small share of the program's wall-clock time.
    fn only_scatters(&self) -> bool {
        let is_little_of_time =
            self.most_in_interval_ns as f64 <= MAX_OF_TIME * self.span_ns as f64;
        is_little_of_time && self.is_little(self.excess_ns - self.device_ns)
    }
}

/// The program named `name`, or else the busiest one, if it is in no story and none of its I/O went to a device in
/// `suspects` (devices that a warning reports as slow by themselves).
pub fn cleared(
    waits: &[DeviceVictims],
    stories: &[Story],
    suspects: &[DevId],
    name: Option<&[u8]>,
) -> Option<Cleared> {
    let mut programs: BTreeMap<Program, Cleared> = BTreeMap::new();
    for effect in waits.iter().flat_map(|d| &d.felt.effects) {
        // A culprit that did not wait itself is reported only on request.
        let is_culprit = stories.iter().any(|s| s.culprits.contains(&effect.victim));
        if is_asked_for(effect, name) && (name.is_some() || !is_culprit) {
            let program = effect.victim;
            let sum = programs.entry(program).or_insert(Cleared::of(program));
            sum.add(effect);
        }
    }
    let busiest = programs.into_values().max_by_key(|c| c.ios)?;
    let mut on_suspects = waits
        .iter()
        .filter(|d| suspects.contains(&d.dev))
        .flat_map(|d| &d.felt.effects);
    let has_suspect = on_suspects.any(|effect| effect.victim == busiest.program);
    let is_hurt = has_suspect || has_story(stories, &busiest.program);
    (!is_hurt && busiest.is_shown()).then_some(busiest)
}

/// A program whose I/Os always overlapped with another program's. The recording does not show their undisturbed
/// latency, so it cannot show whether they waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotProven {
    /// Whose I/Os.
    pub program: Program,
    /// The device.
    pub dev: DevId,
    /// Class of the I/Os.
    pub class: Class,
    /// How many.
    pub ios: u64,
    /// Sum of the latencies.
    pub io_time_ns: i64,
    /// The program whose I/Os the device worked on at the same time.
    pub beside: Program,
    /// Upper bound of the time that they waited for it.
    pub at_most_ns: i64,
}

/// The program that may have lost most of its I/O time to another one without a story about it: the one named `name`,
/// or any program if there are no stories.
pub fn not_proven(
    waits: &[DeviceVictims],
    stories: &[Story],
    name: Option<&[u8]>,
) -> Option<NotProven> {
    if name.is_none() && !stories.is_empty() {
        return None;
    }
    let mut most: Option<NotProven> = None;
    for device in waits {
        for effect in &device.felt.effects {
            if !is_asked_for(effect, name) || has_story(stories, &effect.victim) {
                continue;
            }
            let Some(found) = of_effect(device.dev, effect) else {
                continue;
            };
            if most.is_none_or(|known| found.at_most_ns > known.at_most_ns) {
                most = Some(found);
            }
        }
    }
    most
}

fn of_effect(dev: DevId, effect: &Effect) -> Option<NotProven> {
    let sums = &effect.sums;
    let mut others = effect
        .suspects
        .iter()
        .filter(|(program, _)| program.comm.is_some() && *program != effect.victim);
    let (beside, at_most_ns) = *others.next()?;
    let io_time_ns = sums.time.total_ns();
    let is_bound = sums.ios >= cause::MIN_DELAYED_IOS && 2 * sums.bound_ios > sums.ios;
    let is_much = at_most_ns >= cause::LONG_DELAY_NS && 2 * at_most_ns >= io_time_ns;
    (is_bound && is_much).then_some(NotProven {
        program: effect.victim,
        dev,
        class: effect.class,
        ios: sums.ios,
        io_time_ns,
        beside,
        at_most_ns,
    })
}

fn has_story(stories: &[Story], program: &Program) -> bool {
    let mut victims = stories.iter().flat_map(Story::victims);
    victims.any(|(victim, _)| victim == program)
}

/// Whether it is a program's, of the name that is asked for, if one is.
fn is_asked_for(effect: &Effect, name: Option<&[u8]>) -> bool {
    let comm = effect.victim.comm;
    let is_program = comm.is_some() && !cause::is_kernel_thread(&effect.victim);
    is_program && name.is_none_or(|name| comm.is_some_and(|c| c.as_bytes() == name))
}
