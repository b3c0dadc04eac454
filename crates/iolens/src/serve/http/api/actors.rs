//! `actors`: who did it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use iolens_core::analysis::timeline::{Flow, Row};
use iolens_core::model::Class;
use serde::Serialize;

use super::super::problem::Problem;
use super::super::{App, SCHEMA_VERSION};
use super::description::parameters;
use super::json;
use super::params::Params;
use crate::engine::choose::{self, Chosen};
use crate::engine::series::Series;
use crate::engine::{By, Format, RowArgs, WindowArgs, names};
use crate::present::workload::Workload;

/// As many are named; the others are added up.
const MAX_ACTORS: usize = 20;
/// Longer than any recording: one row for each actor and recording.
const WHOLE_NS: i64 = 400 * 86_400 * 1_000_000_000;

/// Who had most I/O time.
#[derive(Debug, Serialize)]
struct ActorsDocument {
    schema_version: u32,
    by: &'static str,
    /// Those with most I/O time first.
    actors: Vec<Actor>,
    /// All who are not named, together; their sums and those of the named are all that happened.
    others: Actor,
    notes: Vec<String>,
}

/// One of them.
#[derive(Debug, Default, Serialize)]
struct Actor {
    name: Option<String>,
    read: Sums,
    write: Sums,
    discard: Sums,
    flush: Sums,
    /// From start to completion, summed over its I/Os.
    io_time_s: f64,
    /// Of that of all.
    io_time_percent: Option<f64>,
    /// Of control groups: whose.
    #[serde(flatten)]
    workload: Option<Workload>,
}

/// One class.
#[derive(Debug, Default, Serialize)]
struct Sums {
    ios: u64,
    bytes: u64,
    mean_us: Option<f64>,
}

type Flows = [Flow; Class::ALL.len()];

/// `GET /api/v1/actors`.
///
/// # Errors
/// A parameter makes no sense, or no recording with single I/Os holds the time.
pub async fn actors(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Problem> {
    let params = Params::of(&uri, parameters("actors"))?;
    let (place, window, devices) = (app.place(&params), params.window()?, params.all("device"));
    let names = [("process", By::Process), ("cgroup", By::Cgroup), ("file", By::File)];
    let by = params.one_of("by", &names)?.unwrap_or(By::Process);
    let rows = RowArgs { step: Some(WHOLE_NS), by, format: Format::Json, extended: false };
    let said = app
        .read(move || {
            let mut found: BTreeMap<String, Flows> = BTreeMap::new();
            let series = Series { path: &place, window, rows, devices: &devices };
            series.each_row(|row: &Row, name| {
                let sums = found.entry(name.to_owned()).or_default();
                sums.iter_mut().zip(&row.flows).for_each(|(sum, flow)| sum.add(flow));
            })?;
            let pods = if by == By::Cgroup { pods(&place, &window)? } else { BTreeMap::new() };
            Ok((found, pods))
        })
        .await?;
    let (found, pods) = said.answer;
    let (mut actors, others) = ranked(found);
    for actor in actors.iter_mut().filter(|_| by == By::Cgroup) {
        actor.workload = actor.name.as_ref().map(|path| Workload::of(path, pods.get(path).map(String::as_str)));
    }
    let by = names.iter().find(|(_, b)| *b == by).map_or("process", |(name, _)| name);
    json(&ActorsDocument { schema_version: SCHEMA_VERSION, by, actors, others, notes: said.notes })
}

/// Names of pods by the paths of their control groups.
fn pods(place: &Path, window: &WindowArgs) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for Chosen { recording, .. } in choose::all(place, window)? {
        let names = names::read(&recording, i64::MAX)?;
        let of = |(id, pod)| Some((names.cgroups.get(&id)?.clone(), pod));
        found.extend(names.pods.into_iter().filter_map(of));
    }
    Ok(found)
}

fn time_ns(flows: &Flows) -> i64 {
    flows.iter().fold(0, |sum, f| sum.saturating_add(f.total_ns))
}

fn ranked(found: BTreeMap<String, Flows>) -> (Vec<Actor>, Actor) {
    let mut found: Vec<(String, Flows)> = found.into_iter().filter(|(_, f)| f.iter().any(|f| f.ios > 0)).collect();
    found.sort_by_key(|(_, flows)| std::cmp::Reverse(time_ns(flows)));
    let all_ns: i64 = found.iter().fold(0, |sum, (_, f)| sum.saturating_add(time_ns(f)));
    let rest = found.split_off(found.len().min(MAX_ACTORS));
    let mut others = Flows::default();
    rest.iter().for_each(|(_, flows)| others.iter_mut().zip(flows).for_each(|(sum, flow)| sum.add(flow)));
    let actor = |name: Option<String>, flows: &Flows| {
        let sums = |class: Class| {
            let f = &flows[class as usize];
            Sums { ios: f.ios, bytes: f.bytes, mean_us: f.mean_us() }
        };
        Actor {
            name,
            read: sums(Class::Read),
            write: sums(Class::Write),
            discard: sums(Class::Discard),
            flush: sums(Class::Flush),
            io_time_s: time_ns(flows) as f64 / 1e9,
            workload: None,
            io_time_percent: (all_ns > 0).then(|| 100.0 * time_ns(flows) as f64 / all_ns as f64),
        }
    };
    let named = found.into_iter().map(|(name, flows)| actor(Some(name), &flows)).collect();
    (named, actor(None, &others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_most_time_are_named_and_all_add_up() {
        let of = |ns: i64| {
            let mut flows = Flows::default();
            flows[Class::Write as usize] = Flow { ios: 2, bytes: 1024, total_ns: ns };
            flows
        };
        let found = (1..=30).map(|i| (format!("p{i:02}"), of(i * 1_000_000))).collect();
        let (named, others) = ranked(found);
        assert_eq!((named.len(), named[0].name.as_deref()), (MAX_ACTORS, Some("p30")));
        assert_eq!((others.write.ios, others.name.as_deref()), (20, None));
        let percent: f64 = named.iter().chain([&others]).filter_map(|a| a.io_time_percent).sum();
        assert!((percent - 100.0).abs() < 1e-9, "{percent}");
        assert_eq!(named[0].write.mean_us, Some(15_000.0));
        let (none, others) = ranked(BTreeMap::new());
        assert!(none.is_empty() && others.io_time_percent.is_none(), "a share of nothing is not known");
    }
}
