//! Who caused I/O: from single I/Os, and where the size limit has removed them from the table of actors.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use iolens_core::analysis::timeline::{Flow, GroupKey};
use iolens_core::model::{Actor, ActorKind, ActorSums, Class, Comm};
use iolens_core::store::{Recording, actor_steps, read_actors};

use super::layers::Layers;
use super::rows::{DeviceFilter, group_by, group_name};
use super::view::{Tier, View};
use super::{By, Format, RowArgs, WindowArgs, choose, names, privacy, rollups, source, window};
use crate::present::html::Names;

/// Sums by class.
pub type Flows = [Flow; Class::ALL.len()];

/// Longer than any recording: one row for each actor and recording.
const WHOLE_NS: i64 = 400 * 86_400 * 1_000_000_000;

/// Who caused how much.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Actors {
    /// By name.
    pub named: BTreeMap<String, Flows>,
    /// What recordings without single I/Os do not attribute to a name.
    pub others: Flows,
    /// Of control groups: names of pods by path.
    pub pods: BTreeMap<String, String>,
}

/// All I/O in `asked` on `devices` (none: all) by its cause.
///
/// # Errors
/// No recording holds the time, or one knows nothing of causes.
pub fn actors(path: &Path, asked: &WindowArgs, by: By, devices: &[String]) -> Result<Actors> {
    let mut found = Actors::default();
    let rows = RowArgs {
        step: Some(WHOLE_NS),
        by,
        format: Format::Json,
        extended: false,
    };
    for chosen in choose::all(path, asked)? {
        let filter = DeviceFilter::of(&chosen.recording.meta().devices, devices)?;
        if by == By::Cgroup {
            let names = names::read(&chosen.recording, i64::MAX)?;
            let of = |(id, pod)| Some((names.cgroups.get(&id)?.clone(), pod));
            found.pods.extend(names.pods.into_iter().filter_map(of));
        }
        if rollups::left(&chosen.recording)?.is_some() {
            stored(&chosen.recording, &chosen.window, by, &filter, &mut found)?;
            continue;
        }
        View::of_tier(chosen, &rows, Tier::Coarsest)?
            .of_devices(filter)
            .show(0, |row, name| {
                let sums = found.named.entry(name.to_owned()).or_default();
                sums.iter_mut()
                    .zip(&row.flows)
                    .for_each(|(sum, flow)| sum.add(flow));
                Ok(())
            })?;
    }
    Ok(found)
}

/// The same of a recording that has no single I/Os any more.
fn stored(
    recording: &Recording,
    asked: &WindowArgs,
    by: By,
    devices: &DeviceFilter,
    found: &mut Actors,
) -> Result<()> {
    let Some(step_s) = actor_steps(recording.path())?.first().copied() else {
        bail!(
            "--by: the size limit removed the single I/Os of this time; the sums that are left do not say who caused them"
        );
    };
    eprintln!(
        "iolens: the size limit removed the single I/Os of this time; sums of {step_s} s are left, each of the 20 with most I/O time and of all others together"
    );
    let range = window::resolve(recording, asked)?;
    let step_ns = i64::from(step_s) * 1_000_000_000;
    let whole = range.start.div_euclid(step_ns) * step_ns..range.end;
    let layers = if devices.is_all() {
        Layers::of(recording, group_by(by))?
    } else {
        Layers::default()
    };
    layers.say();
    let kind = match by {
        By::Process => ActorKind::Process,
        By::Cgroup => ActorKind::Cgroup,
        _ => ActorKind::File,
    };
    let mut take = |row: ActorSums| {
        if row.actor.kind() != kind || !layers.counts(row.dev) || !devices.has(row.dev) {
            return;
        }
        let sums = match name(&row) {
            Some(name) => found.named.entry(name).or_default(),
            None => &mut found.others,
        };
        let (ios, bytes) = (
            u64::try_from(row.sums.ios).unwrap_or(0),
            u64::try_from(row.sums.bytes).unwrap_or(0),
        );
        sums[row.class as usize].add(&Flow {
            ios,
            bytes,
            total_ns: row.sums.time_ns(),
        });
    };
    source::warn(&read_actors(recording.path(), step_s, whole, &mut take)?);
    Ok(())
}

/// As the rows of single I/Os are called; `None` of the others.
fn name(row: &ActorSums) -> Option<String> {
    let is_hidden = privacy::hides_names() && !matches!(row.actor, Actor::Cgroup(_));
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
    use iolens_core::model::{
        DevId, Inode, Io, Name, Named, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::private::Access;
    use iolens_core::rollup::{ActorsBuilder, RollupBuilder};
    use iolens_core::store::{
        Budget, RecordingWriter, Root, WriterOptions, stored_bytes, write_missing_actors,
    };
    use std::path::PathBuf;

    const S: i64 = 1_000_000_000;

    /// A minute of I/O by `processes` in a root, with who caused it.
    fn record(root: &Path, processes: i64) -> PathBuf {
        let dir = root.join(Root::host_directory("h"));
        std::fs::create_dir_all(&dir).expect("makes");
        let path = dir.join(Root::recording_directory(0));
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let (mut actors, mut rollups) = (ActorsBuilder::default(), RollupBuilder::default());
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
            let (tgid, comm) = (Some((i % processes) as i32), Some(Comm::new(b"fio")));
            let (ino, fs_dev, sector) = (Some(i % processes), Some(8), Some((mixed >> 24) as i64));
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
            [By::Process, By::Cgroup, By::File]
                .map(|by| actors(tmp.path(), &WindowArgs::default(), by, &[]).expect("found"))
        };
        let before = all();
        assert_eq!(before[0].named.len(), 12);
        assert!(
            before[1].named.contains_key("77") && before[2].named.contains_key("/data/one"),
            "{before:?}"
        );
        trim(tmp.path(), &path);
        assert_eq!(all(), before);
        let other = actors(
            tmp.path(),
            &WindowArgs::default(),
            By::Process,
            &["8:0".to_owned()],
        );
        assert!(other.is_err(), "a device that is not listed: {other:?}");
    }

    #[test]
    fn those_beyond_the_first_twenty_are_others_and_all_add_up() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = record(tmp.path(), 25);
        trim(tmp.path(), &path);
        let found = actors(tmp.path(), &WindowArgs::default(), By::Process, &[]).expect("found");
        assert_eq!(found.named.len(), 20);
        let ios = |flows: &Flows| flows.iter().map(|f| f.ios).sum::<u64>();
        let named: u64 = found.named.values().map(ios).sum();
        assert_eq!((named, ios(&found.others)), (4800, 1200));
        std::fs::remove_dir_all(path.join("actors")).expect("removed");
        let gone = actors(tmp.path(), &WindowArgs::default(), By::Process, &[])
            .expect_err("nothing says it");
        assert!(gone.to_string().contains("who caused them"), "{gone}");
    }
}
