//! Stories with one cause as one: a program that waits for another one with its reads and its syncs, and threads of one process, read
//! like the same story twice.

use super::{Class, Program, Story};

/// What the cause of a story cost other I/Os: another class of the victim's, or those of another process or thread of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlsoHurt {
    /// Whose I/Os.
    pub victim: Program,
    /// Class of the I/Os.
    pub class: Class,
    /// Number of I/Os.
    pub ios: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
    /// The part of it beyond the undisturbed latencies.
    pub excess_ns: i64,
    /// Time lost to the cause; a lower bound.
    pub harm_ns: i64,
    /// I/Os that took more than twice as long because of it.
    pub delayed_ios: u64,
}

impl AlsoHurt {
    fn of(story: &Story) -> AlsoHurt {
        AlsoHurt {
            victim: story.victim,
            class: story.class,
            ios: story.ios,
            io_time_ns: story.io_time_ns,
            excess_ns: story.excess_ns,
            harm_ns: story.harm.ns,
            delayed_ios: story.harm.delayed_ios,
        }
    }
}

/// Merges stories with the same cause and victim into the first of them, which lists the others in `also`.
pub(super) fn joined(stories: Vec<Story>) -> Vec<Story> {
    let mut kept: Vec<Story> = Vec::new();
    for story in stories {
        match kept.iter_mut().find(|first| is_same(first, &story)) {
            Some(first) => first.also.push(AlsoHurt::of(&story)),
            None => kept.push(story),
        }
    }
    kept
}

/// Whether two stories have the same cause and victim. A limit of a control group applies to one class only.
fn is_same(one: &Story, other: &Story) -> bool {
    let is_same_process = one.victim.is_process(&other.victim);
    let has_limit = one.own_limit.is_some() || other.own_limit.is_some();
    let names = one.culprits.iter().map(Program::name);
    (one.kind, one.dev) == (other.kind, other.dev)
        && (is_same_process || one.victim.name() == other.victim.name())
        && names.eq(other.culprits.iter().map(Program::name))
        && !has_limit
        && !blames_victim_of(one, other)
        && !blames_victim_of(other, one)
}

/// Whether a victim of `other` is a culprit of `one`, such as one of several processes of one name that wait for each other. A
/// program that waits for itself blames no other one.
fn blames_victim_of(one: &Story, other: &Story) -> bool {
    !has_culprit(one, &one.victim) && other.victims().any(|(victim, _)| has_culprit(one, victim))
}

fn has_culprit(story: &Story, program: &Program) -> bool {
    let mut culprits = story.culprits.iter();
    culprits.any(|culprit| culprit.is_process(program) || culprit.includes(program))
}
