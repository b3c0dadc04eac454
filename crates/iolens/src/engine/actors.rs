//! I/O by its cause (process, control group or file): computed from single I/Os, or from the table of actors where
//! the size limit has removed the single I/Os.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use iolens_core::analysis::timeline::{Flow, GroupBy, GroupKey};
use iolens_core::model::{
    Actor, ActorKind, ActorSums, Class, Comm, Names, SECOND_NS, ceil_to, floor_to,
};
use iolens_core::store::{SumTable, read_actors};

use super::caller::Caller;
use super::error::Result;
use super::filter::FilterPlan;
use super::note::Note;
use super::parallel;
use super::part::{Part, Source, Tier};
use super::query::{Grain, Query, Step};
use super::rows::{self, group_name};
use super::view::PlannedRows;
use super::{decode, window};

/// Sums by class.
pub type Flows = [Flow; Class::ALL.len()];

/// I/O by who caused it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActorFlows {
    /// By name.
    pub named: BTreeMap<String, Flows>,
    /// I/O that recordings without single I/Os do not attribute to a name.
    pub others: Flows,
    /// When grouped by control group: pod name by control group path. Else empty.
    pub pods: BTreeMap<String, String>,
}

impl ActorFlows {
    /// Adds the I/O of another recording.
    fn add(&mut self, other: ActorFlows) {
        for (name, flows) in other.named {
            add_flows(self.named.entry(name).or_default(), &flows);
        }
        add_flows(&mut self.others, &other.others);
        self.pods.extend(other.pods);
    }
}

fn add_flows(sums: &mut Flows, flows: &Flows) {
    for (sum, flow) in sums.iter_mut().zip(flows) {
        sum.add(flow);
    }
}

/// The I/O in the window of `query`, grouped `by` its cause.
///
/// # Errors
/// No recording covers the window, or one of them does not record who caused I/O.
pub fn actors(query: &Query<'_>, by: GroupBy) -> Result<ActorFlows> {
    let caller = query.caller;
    let parts = query.parts(Grain::Actors(by))?.parts;
    let mut found = ActorFlows::default();
    for part in &parts {
        if by == GroupBy::Cgroup {
            found.pods.extend(pods(&part.names));
        }
    }
    // Queries that cannot be answered are refused before anything is read.
    let is_of_all = query.ios.is_none_or(FilterPlan::is_all);
    let mut answers = Vec::new();
    for part in parts {
        let range = part.range.clone();
        answers.push(match (&part.source, whole_slots(&part, by, is_of_all)?) {
            (Source::ActorSums { step_s }, _) => Answer::Sums {
                step_s: *step_s,
                slots: range.start..range.end,
                part,
            },
            (_, Some((step_s, slots))) => Answer::Both {
                step_s,
                slots,
                part,
            },
            _ => Answer::Rows(PlannedRows::new(part, by, false, caller)?),
        });
    }
    let mut pieces: Vec<(&Answer, Range<i64>)> = Vec::new();
    for answer in &answers {
        pieces.extend(answer.pieces(by).into_iter().map(|piece| (answer, piece)));
    }
    // Each thread has its own sums; they are added here.
    let counted = parallel::shared(&pieces, caller, ActorFlows::default, |some, _, piece| {
        let (answer, slots) = piece;
        answer.add(slots.clone(), by, some, caller)
    })?;
    for some in counted {
        found.add(some);
    }
    Ok(found)
}

/// As [`actors`], but one result per interval of `step_ns`, computed from single I/Os. Each comes with its interval
/// in Unix time in nanoseconds, in order. Intervals without I/O are left out.
///
/// # Errors
/// Those of [`actors`], and too many intervals.
pub fn in_steps(
    query: &Query<'_>,
    by: GroupBy,
    step_ns: i64,
) -> Result<Vec<(Range<i64>, ActorFlows)>> {
    let grain = Grain::Rows {
        step: Step::OfSource(Some(step_ns)),
        by,
        tier: Tier::Finest,
    };
    let mut steps: BTreeMap<(i64, i64), ActorFlows> = BTreeMap::new();
    for part in query.parts(grain)?.parts {
        let view = PlannedRows::new(part, by, false, query.caller)?;
        view.show(view.start_unix_ns(), query.caller, |row, name| {
            let step = steps.entry((row.from_ns, row.to_ns)).or_default();
            add_flows(step.named.entry(name.to_owned()).or_default(), &row.flows);
            Ok(())
        })?;
    }
    let each = steps
        .into_iter()
        .map(|((from, to), actors)| (from..to, actors));
    Ok(each.collect())
}

/// The source that says who caused the I/O of a part.
enum Answer {
    /// Single I/Os.
    Rows(PlannedRows),
    /// Sums over intervals of `step_s` seconds.
    Sums {
        part: Part,
        step_s: i32,
        slots: Range<i64>,
    },
    /// Sums for the time of `slots`, and single I/Os before and after it.
    Both {
        part: Part,
        step_s: i32,
        slots: Range<i64>,
    },
}

impl Answer {
    /// Splits the time into pieces that can be counted independently.
    fn pieces(&self, by: GroupBy) -> Vec<Range<i64>> {
        match self {
            // Sums over rows do not depend on where the time is split.
            Answer::Rows(view) => view.part.pieces(1, rows::columns(by)),
            Answer::Sums { slots, .. } => vec![slots.clone()],
            Answer::Both { part, slots, .. } => vec![
                part.range.start..slots.start,
                slots.clone(),
                slots.end..part.range.end,
            ],
        }
    }

    /// Adds the I/O of one piece.
    fn add(
        &self,
        piece: Range<i64>,
        by: GroupBy,
        found: &mut ActorFlows,
        caller: &Caller,
    ) -> Result<()> {
        match self {
            Answer::Rows(view) => add_rows(view, piece, found, caller),
            Answer::Sums { part, step_s, .. } => {
                caller.note(Note::ActorsOfSums(*step_s));
                of_sums(part, *step_s, &piece, by, found, caller)
            }
            Answer::Both {
                part,
                step_s,
                slots,
            } if piece == *slots => {
                caller.note(Note::ActorsOfMany(*step_s));
                of_sums(part, *step_s, &piece, by, found, caller)
            }
            Answer::Both { part, .. } => of_ios(part, piece, by, found, caller),
        }
    }
}

/// Adds the rows of a piece. A row without I/O has no actor and is skipped.
pub(super) fn add_rows(
    view: &PlannedRows,
    piece: Range<i64>,
    found: &mut ActorFlows,
    caller: &Caller,
) -> Result<()> {
    view.show_piece(piece, 0, caller, |row, name| {
        if row.flows.iter().any(|flow| flow.ios > 0) {
            add_flows(found.named.entry(name.to_owned()).or_default(), &row.flows);
        }
        Ok(())
    })
}

/// If there are sums too, up to this many single I/Os are counted instead of them.
const MAX_COUNTED_IOS: f64 = 2_000_000.0;

/// For a part with too many I/Os to count: the step in seconds of its finest sums, and the time that whole sums
/// cover.
fn whole_slots(part: &Part, by: GroupBy, is_of_all: bool) -> Result<Option<(i32, Range<i64>)>> {
    let range = &part.range;
    let recording = &part.recording;
    let ios = part.expected_ios();
    let has_sums = matches!(by, GroupBy::Process | GroupBy::Cgroup | GroupBy::File);
    let has_ios = part.source == Source::Ios && is_of_all;
    if !has_sums || !has_ios || ios <= MAX_COUNTED_IOS {
        return Ok(None);
    }
    let Some(step_s) = SumTable::Actors.steps(recording.path())?.first().copied() else {
        return Ok(None);
    };
    let step_ns = i64::from(step_s) * SECOND_NS;
    let until_ns = SumTable::Actors.until(recording.path(), step_s)?;
    let start = ceil_to(range.start, step_ns);
    // The last sum of a finished recording may cover less than a step, but it covers all that is left of the
    // recording.
    let is_to_the_end = recording.meta().end_ns.is_some() && range.end >= recording.end_ns();
    let end = if is_to_the_end && until_ns >= range.end {
        range.end
    } else {
        floor_to(until_ns.min(range.end), step_ns)
    };
    Ok((start < end).then_some((step_s, start..end)))
}

/// Adds the single I/Os that completed in `range`.
fn of_ios(
    part: &Part,
    range: Range<i64>,
    by: GroupBy,
    found: &mut ActorFlows,
    caller: &Caller,
) -> Result<()> {
    let recording = &part.recording;
    let mut flows: HashMap<GroupKey, Flows> = HashMap::new();
    let range = if range.end == part.range.end {
        window::with_last_instant(recording, &range)
    } else {
        range
    };
    let met = decode::each_io(recording, range, rows::columns(by), caller, |io| {
        if part.filter.has(io) {
            let of_key = flows.entry(by.key(io)).or_default();
            of_key[io.class() as usize].add(&Flow::of(io));
        }
    })?;
    caller.damage(recording.path(), &met.warnings);
    for (key, flows) in flows {
        let name = group_name(&recording.meta().devices, &part.names, key);
        add_flows(found.named.entry(name).or_default(), &flows);
    }
    Ok(())
}

/// Pod names by the path of their control group.
fn pods(names: &Names) -> BTreeMap<String, String> {
    let mut pods = BTreeMap::new();
    for (id, pod) in &names.pods {
        if let Some(path) = names.cgroups.get(id) {
            pods.insert(path.clone(), pod.clone());
        }
    }
    pods
}

/// Adds the sums of `slots`.
fn of_sums(
    part: &Part,
    step_s: i32,
    slots: &Range<i64>,
    by: GroupBy,
    found: &mut ActorFlows,
    caller: &Caller,
) -> Result<()> {
    let step_ns = i64::from(step_s) * SECOND_NS;
    let whole = floor_to(slots.start, step_ns)..slots.end;
    if let Some(note) = part.filter.layers.note() {
        caller.note(note);
    }
    let kind = match by {
        GroupBy::Process => ActorKind::Process,
        GroupBy::Cgroup => ActorKind::Cgroup,
        GroupBy::All | GroupBy::Device | GroupBy::File => ActorKind::File,
    };
    let warnings = read_actors(part.recording.path(), step_s, whole, |row: ActorSums| {
        // The table holds every I/O three times: by process, by control group and by file. Only rows of the requested
        // kind count.
        if row.actor.kind() != kind || !part.filter.counts(row.dev) {
            return;
        }
        let sums = match name(&row, caller.hides_names()) {
            Some(name) => found.named.entry(name).or_default(),
            None => &mut found.others,
        };
        sums[row.class as usize].add(&Flow {
            ios: u64::try_from(row.sums.ios).unwrap_or(0),
            bytes: u64::try_from(row.sums.bytes).unwrap_or(0),
            total_ns: row.sums.time_ns(),
        });
    })?;
    caller.damage(part.recording.path(), &warnings);
    Ok(())
}

/// The name that rows of single I/Os would have; `None` if no name is known.
fn name(row: &ActorSums, hides_names: bool) -> Option<String> {
    let is_hidden = hides_names && !matches!(row.actor, Actor::Cgroup(_));
    let recorded = row.name.as_ref().filter(|_| !is_hidden);
    let key = match (row.actor, recorded) {
        (Actor::Others(_), _) => return None,
        (Actor::Process(tgid), name) => {
            GroupKey::Process(tgid, name.map(|n| Comm::new(n.as_bytes())))
        }
        (_, Some(path)) => return Some(path.clone()),
        (Actor::Cgroup(id), None) => GroupKey::Cgroup(id),
        (Actor::File(inode), None) => GroupKey::File(inode),
    };
    Some(group_name(&[], &Names::default(), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TimeWindow;
    use crate::engine::error::QueryError;
    use iolens_core::model::{
        DevId, Inode, Io, Name, Named, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::private::Access;
    use iolens_core::rollup::{ActorsBuilder, RollupBuilder};
    use iolens_core::store::{
        Budget, RecordingWriter, Root, WriterOptions, stored_bytes, write_missing_actors,
    };
    use std::path::{Path, PathBuf};

    const S: i64 = 1_000_000_000;

    fn all_by(root: &Path, by: GroupBy, devices: &[String]) -> Result<ActorFlows> {
        let caller = Caller::without_notes();
        let query = Query::new(root, TimeWindow::default(), &caller);
        actors(&query.of_devices(devices), by)
    }

    /// A minute of I/O by `processes` in a root, with who caused it.
    fn record(root: &Path, processes: i64) -> PathBuf {
        let dir = root.join(Root::host_directory("h"));
        std::fs::create_dir_all(&dir).expect("makes");
        let path = dir.join(Root::recording_directory(0));
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let mut actors = ActorsBuilder::default();
        let mut rollups = RollupBuilder::default();
        for i in 0..6000 {
            let op = if i % 2 == 0 { Op::READ } else { Op::WRITE };
            let io = Io::new(
                i * S / 100,
                DevId::new(8, 0),
                op,
                4096,
                Some(i % 99),
                500_000 + i % processes * 1000,
            );
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let tgid = Some((i % processes) as i32);
            let comm = Some(Comm::new(b"fio"));
            let ino = Some(i % processes);
            let fs_dev = Some(8);
            let sector = Some((mixed >> 24) as i64);
            let io = Io {
                tgid,
                comm,
                ino,
                fs_dev,
                sector,
                cgroup: (i % 3 == 0).then_some(77),
                ..io
            };
            writer.push_ios(&[io]).expect("writes");
            actors.push_ios(&[io]);
            rollups.push_ios(&[io]);
        }
        let of = Named::File(Inode {
            fs_dev: 8,
            ino: 1,
            generation: None,
        });
        let name = Name {
            at_ns: 5,
            of,
            text: "/data/one".to_owned(),
        };
        writer
            .push(&Observation::Name(name.clone()))
            .expect("writes");
        assert!(writer.write_rollups(1, &rollups.finish()).expect("writes"));
        writer
            .finish(60 * S, RecorderCost::default())
            .expect("finishes");
        let mut rows = actors.finish();
        for row in rows
            .iter_mut()
            .filter(|r| matches!(r.actor, Actor::File(Some(i)) if i.ino == 1))
        {
            row.name = Some(name.text.clone());
        }
        write_missing_actors(&path, Access::OWNER, [&rows, &[]]).expect("writes");
        path
    }

    fn trim(root: &Path, path: &Path) {
        let budget = Budget {
            keep_bytes: 1 << 30,
            access: Access::OWNER,
        };
        // The root, the host's directory and the lock are counted beside the recording.
        let limit = stored_bytes(path).expect("sizes") + 3 * 4096 - 1;
        assert_eq!(
            budget.make_room(root, None, limit, 0).expect("room").of_ios,
            1
        );
    }

    #[test]
    fn when_single_ios_are_gone_the_same_are_named_with_the_same_sums() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = record(tmp.path(), 12);
        let all = || {
            [GroupBy::Process, GroupBy::Cgroup, GroupBy::File]
                .map(|by| all_by(tmp.path(), by, &[]).expect("found"))
        };
        let before = all();
        assert_eq!(before[0].named.len(), 12);
        assert!(
            before[1].named.contains_key("77") && before[2].named.contains_key("/data/one"),
            "{before:?}"
        );
        trim(tmp.path(), &path);
        assert_eq!(all(), before);
        let other = all_by(tmp.path(), GroupBy::Process, &["8:0".to_owned()]);
        assert!(other.is_err(), "a device that is not listed: {other:?}");
    }

    #[test]
    fn those_beyond_the_first_twenty_are_others_and_all_add_up() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = record(tmp.path(), 25);
        trim(tmp.path(), &path);
        let found = all_by(tmp.path(), GroupBy::Process, &[]).expect("found");
        assert_eq!(found.named.len(), 20);
        let ios = |flows: &Flows| flows.iter().map(|f| f.ios).sum::<u64>();
        let named: u64 = found.named.values().map(ios).sum();
        assert_eq!((named, ios(&found.others)), (4800, 1200));
        std::fs::remove_dir_all(path.join("actors")).expect("removed");
        let gone = all_by(tmp.path(), GroupBy::Process, &[]).expect_err("nothing says it");
        assert!(matches!(gone, QueryError::SumsWithoutActors), "{gone}");
    }
}
