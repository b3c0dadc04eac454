//! Stories with one cause as one: a program that waits for another one with its reads and its syncs, and threads of one process, read
//! like the same story twice.

use super::{Class, Program, Story};

/// What the cause of a story cost other I/Os: another class of the victim's, or those of another process or thread of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlsoHurt {
    /// Whose I/Os.
    pub victim: Program,
    /// Of this class.
    pub class: Class,
    /// How many there are.
    pub ios: u64,
    /// Sum of their latencies.
    pub io_time_ns: i64,
    /// What of it was not undisturbed.
    pub excess_ns: i64,
    /// What was lost to the cause: a lower bound.
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

/// Each cause of `stories` once, where it comes first; what it cost besides is added there.
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

/// Whether two stories have one cause and one victim. A limit of a control group is for one class.
fn is_same(one: &Story, other: &Story) -> bool {
    let is_same_process = one.victim.is_process(&other.victim);
    let has_limit = one.own_limit.is_some() || other.own_limit.is_some();
    let names = one.culprits.iter().map(Program::name);
    (one.kind, one.dev) == (other.kind, other.dev)
        && (is_same_process || one.victim.name() == other.victim.name())
        && names.eq(other.culprits.iter().map(Program::name))
        && !has_limit
}
