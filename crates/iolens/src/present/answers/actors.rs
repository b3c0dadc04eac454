//! `actors`: who did it.

use std::collections::BTreeMap;

use iolens_core::analysis::timeline::Flow;
use iolens_core::analysis::waits::Grouping;
use iolens_core::model::Class;
use iolens_core::rollup::MAX_ACTORS;
use serde::Serialize;

use crate::engine::actors::{ActorFlows, Flows};
use crate::present::SCHEMA_VERSION;
use crate::present::columns::{Column, Columns};
use crate::present::workload::Workload;

/// I/O by process, control group or file, with the most I/O time first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActorsDocument {
    schema_version: u32,
    by: &'static str,
    /// Entries, those with most I/O time first.
    actors: Vec<Actor>,
    /// Sum of all I/O that no entry of `actors` includes. Together with the entries it is the total.
    others: Actor,
    notes: Vec<String>,
}

impl ActorsDocument {
    /// `found` by `by`.
    pub fn of(found: ActorFlows, by: Grouping, notes: Vec<String>) -> ActorsDocument {
        let (mut actors, others) = ranked(found.named, found.others);
        if by == Grouping::Cgroup {
            for actor in &mut actors {
                if let Some(path) = &actor.name {
                    let pod = found.pods.get(path).map(String::as_str);
                    actor.workload = Some(Workload::of(path, pod));
                }
            }
        }
        ActorsDocument {
            schema_version: SCHEMA_VERSION,
            by: by.name(),
            actors,
            others,
            notes,
        }
    }

    /// A row for each, the others last.
    pub fn columns(&self) -> Columns {
        columns(&self.actors, &self.others)
    }
}

/// An entry of `actors`.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Actor {
    name: Option<String>,
    read: ActorClassSums,
    write: ActorClassSums,
    discard: ActorClassSums,
    flush: ActorClassSums,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// Share of the total I/O time.
    io_time_percent: Option<f64>,
    /// Of control groups: whose.
    #[serde(flatten)]
    workload: Option<Workload>,
}

impl Actor {
    /// Who did `flows`, of the I/O time `all_ns` of all.
    fn new(name: Option<String>, flows: &Flows, all_ns: i64) -> Actor {
        let own_ns = time_ns(flows);
        Actor {
            name,
            read: ActorClassSums::of(&flows[Class::Read as usize]),
            write: ActorClassSums::of(&flows[Class::Write as usize]),
            discard: ActorClassSums::of(&flows[Class::Discard as usize]),
            flush: ActorClassSums::of(&flows[Class::Flush as usize]),
            io_time_s: own_ns as f64 / 1e9,
            io_time_percent: (all_ns > 0).then(|| 100.0 * own_ns as f64 / all_ns as f64),
            workload: None,
        }
    }
}

/// I/O of one class.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ActorClassSums {
    ios: u64,
    bytes: u64,
    mean_us: Option<f64>,
}

impl ActorClassSums {
    fn of(flow: &Flow) -> ActorClassSums {
        ActorClassSums {
            ios: flow.ios,
            bytes: flow.bytes,
            mean_us: flow.mean_us(),
        }
    }
}

/// A class and its sums of one.
type ClassOf = (&'static str, fn(&Actor) -> &ActorClassSums);

fn columns(actors: &[Actor], others: &Actor) -> Columns {
    let all: Vec<&Actor> = actors.iter().chain([others]).collect();
    let mut columns = Columns::default();
    let names = all.iter().map(|a| a.name.as_deref()).collect();
    columns.push("name", Column::Texts(names));
    let is_others = (0..=actors.len()).map(|i| i == actors.len());
    columns.push("others", Column::Flags(is_others.collect()));
    let classes: [ClassOf; 4] = [
        ("read", |a| &a.read),
        ("write", |a| &a.write),
        ("discard", |a| &a.discard),
        ("flush", |a| &a.flush),
    ];
    for (class, of) in classes {
        let ios = all.iter().map(|a| i64::try_from(of(a).ios).ok());
        columns.push(format!("{class}_ios"), Column::Integers(ios.collect()));
        let bytes = all.iter().map(|a| i64::try_from(of(a).bytes).ok());
        columns.push(format!("{class}_bytes"), Column::Integers(bytes.collect()));
        let means = Column::numbers(all.iter().map(|a| of(a).mean_us));
        columns.push(format!("{class}_mean_us"), means);
    }
    let times = Column::numbers(all.iter().map(|a| Some(a.io_time_s)));
    columns.push("io_time_s", times);
    let percents = Column::numbers(all.iter().map(|a| a.io_time_percent));
    columns.push("io_time_percent", percents);
    columns
}

fn time_ns(flows: &Flows) -> i64 {
    flows
        .iter()
        .fold(0, |sum, f| sum.saturating_add(f.total_ns))
}

fn ranked(named: BTreeMap<String, Flows>, mut others: Flows) -> (Vec<Actor>, Actor) {
    let mut found: Vec<(String, Flows)> = named
        .into_iter()
        .filter(|(_, f)| f.iter().any(|f| f.ios > 0))
        .collect();
    found.sort_by_key(|(_, flows)| std::cmp::Reverse(time_ns(flows)));
    let all_ns: i64 = found.iter().fold(time_ns(&others), |sum, (_, f)| {
        sum.saturating_add(time_ns(f))
    });
    // Those beyond the limit lose their names, and their sums go to the others: all still adds up.
    let rest = found.split_off(found.len().min(MAX_ACTORS));
    for (_, flows) in &rest {
        for (sum, flow) in others.iter_mut().zip(flows) {
            sum.add(flow);
        }
    }
    let mut actors = Vec::new();
    for (name, flows) in found {
        actors.push(Actor::new(Some(name), &flows, all_ns));
    }
    (actors, Actor::new(None, &others, all_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_most_time_are_named_and_all_add_up() {
        let of = |ns: i64| {
            let mut flows = Flows::default();
            flows[Class::Write as usize] = Flow {
                ios: 2,
                bytes: 1024,
                total_ns: ns,
            };
            flows
        };
        let found = (1..=30)
            .map(|i| (format!("p{i:02}"), of(i * 1_000_000)))
            .collect();
        let (named, others) = ranked(found, of(1_000_000));
        assert_eq!(
            (named.len(), named[0].name.as_deref()),
            (MAX_ACTORS, Some("p30"))
        );
        assert_eq!((others.write.ios, others.name.as_deref()), (22, None));
        let percent: f64 = named
            .iter()
            .chain([&others])
            .filter_map(|a| a.io_time_percent)
            .sum();
        assert!((percent - 100.0).abs() < 1e-9, "{percent}");
        assert_eq!(named[0].write.mean_us, Some(15_000.0));
        let (none, others) = ranked(BTreeMap::new(), Flows::default());
        assert!(
            none.is_empty() && others.io_time_percent.is_none(),
            "a share of nothing is not known"
        );
    }
}
