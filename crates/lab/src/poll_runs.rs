//! Runs polling under load, compared with the exact utilisation from every I/O.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::counters::io_ticks::{IoTicks, Regime};
use iolens_core::analysis::math::intervals::{union, within_ns};
use iolens_core::model::{DevId, Lost};
use iolens_core::store::{IoColumns, Recording};

use crate::bracket::{Bracket, Disk};
use crate::claim::Claimed;
use crate::experiment::{Experiment, Plan, random_order};
use crate::fio::run_fio;
use crate::poll::{PollCell, PollPlan, Second, measure};
use crate::run::{INTERRUPTED, Watcher, recorded, space_for_a_run};
use crate::scratch::{LoopDisk, need_room};

/// Runs the remaining cells: load on loop disks (or those `given` by the user), polled and recorded at the same time.
///
/// # Errors
/// The disks cannot be created, a run failed, or the user interrupted.
pub fn run(
    experiment: &Experiment,
    whole: &Plan<PollPlan>,
    given: &[Claimed],
    watcher: &dyn Watcher,
) -> Result<()> {
    let plan = &whole.plan;
    let left: Vec<usize> = random_order(&vec![0; plan.cells.len()], whole.seed)
        .into_iter()
        .filter(|i| !experiment.is_done(*i))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let most = plan.cells.iter().map(|c| c.disks).max().unwrap_or(1);
    let loops = if given.is_empty() {
        make_disks(experiment, plan, most, watcher)?
    } else {
        Vec::new()
    };
    let nodes: Vec<&Path> = loops
        .iter()
        .map(|l| l.device.as_path())
        .chain(given.iter().map(|c| c.path.as_path()))
        .collect();
    let disks: Vec<Disk> = nodes
        .iter()
        .map(|n| Disk::under(n))
        .collect::<std::io::Result<_>>()?;

    watcher.begin(left.len(), f64::from(plan.seconds) + 12.0);
    for id in left {
        let n = plan.cells[id].disks;
        run_cell(experiment, whole, id, &nodes[..n], &disks[..n], watcher)?;
        watcher.run_done();
    }
    watcher.end();
    Ok(())
}

/// Creates `n` loop disks over files in the plan's directory.
fn make_disks(
    experiment: &Experiment,
    plan: &PollPlan,
    n: usize,
    watcher: &dyn Watcher,
) -> Result<Vec<LoopDisk>> {
    let registry = experiment.registry();
    need_room(&plan.dir, plan.size * n as u64)?;
    let mut disks = Vec::new();
    for i in 0..n {
        let path = plan
            .dir
            .join(format!("iolens-lab-{}-{i}.disk", std::process::id()));
        disks.push(
            registry
                .loop_disk(&path, plan.size)
                .context("no loop device can be made")?,
        );
        if watcher.interrupted() {
            bail!(INTERRUPTED);
        }
    }
    Ok(disks)
}

/// Runs cell `id` on its disks: finds the rate of the load, then polls and records while the load runs.
fn run_cell(
    experiment: &Experiment,
    whole: &Plan<PollPlan>,
    id: usize,
    nodes: &[&Path],
    disks: &[Disk],
    watcher: &dyn Watcher,
) -> Result<()> {
    let plan = &whole.plan;
    let cell = &plan.cells[id];
    let label = format!(
        "{} disks, {} workers, {} %",
        cell.disks, cell.workers, cell.target_percent
    );
    watcher.run(&label);
    space_for_a_run(experiment.dir())?;
    let dir = experiment.fresh_cell(id)?;
    let rate = calibrate(cell, nodes, watcher)?;
    let recording = dir.join("rec.iolens");
    let watched = disks.iter().map(|d| d.dev).collect();
    let (mut result, _) = recorded(recording.clone(), watched, watcher, &label, |stop| {
        std::thread::scope(|s| {
            let load = s.spawn(|| run_fio(&load_words(cell, nodes, plan.seconds + 4, rate), stop));
            // fio takes a moment to start, so the first compared second begins after it.
            std::thread::sleep(std::time::Duration::from_millis(700));
            let polled = measure(plan, cell, disks, whole.machine.hz, stop);
            match load.join() {
                Ok(Ok(_)) => polled,
                Ok(Err(e)) => polled.and(Err(e)),
                Err(_) => bail!("the load panicked"),
            }
        })
    })?;
    fill_exact(&recording, disks, whole.machine.hz, &mut result.seconds)?;
    experiment.finish_cell(id, &result)
}

/// 75 % reads in random runs of 1000, the load of the published comparison.
fn load_words(cell: &PollCell, nodes: &[&Path], seconds: u32, rate: Option<f64>) -> Vec<String> {
    let mut words: Vec<String> = [
        "--rw=randrw:1000",
        "--rwmixread=75",
        "--bs=8k",
        "--ioengine=libaio",
        "--direct=1",
        "--norandommap",
        "--time_based",
        "--output-format=json",
        "--group_reporting",
        "--thread",
        "--verify_state_save=0",
    ]
    .map(str::to_owned)
    .to_vec();
    words.push(format!("--iodepth={}", cell.workers));
    words.push(format!("--runtime={seconds}"));
    if let Some(r) = rate {
        words.push(format!(
            "--rate_iops={:.0},{:.0}",
            (0.75 * r).max(1.0),
            (0.25 * r).max(1.0)
        ));
    }
    for (i, node) in nodes.iter().enumerate() {
        words.push(format!("--name=disk{i}"));
        words.push(format!("--filename={}", node.display()));
    }
    words
}

/// I/Os per second and disk for the target utilisation; `None`: unlimited.
///
/// Determined by trial runs, because utilisation is not proportional to the rate if I/Os overlap.
fn calibrate(cell: &PollCell, nodes: &[&Path], watcher: &dyn Watcher) -> Result<Option<f64>> {
    if cell.target_percent >= 100.0 {
        return Ok(None);
    }
    let disk = Disk::under(nodes[0])?;
    let never = std::sync::atomic::AtomicBool::new(false);
    let (mut low, mut high): (f64, f64) = (1.0, 40_000.0);
    let mut best = 100.0;
    for _ in 0..4 {
        let rate = (low * high).sqrt();
        let before = disk.read()?;
        run_fio(&load_words(cell, nodes, 1, Some(rate)), &never)?;
        if watcher.interrupted() {
            bail!(INTERRUPTED);
        }
        let b = Bracket::between(&before, &disk.read()?);
        // fio takes a while to start and end, so utilisation is measured over its own second of load.
        let util = (b.io_ticks_ms / 10.0).min(100.0);
        best = rate;
        if util < cell.target_percent {
            low = rate
        } else {
            high = rate
        }
    }
    Ok(Some(best))
}

/// The estimators of all kernel generations, each with the names of its first and last kernel.
const REGIMES: [(Regime, &str); 4] = [
    (Regime::RoundStats, "up to 4.16"),
    (Regime::TouchedJiffy, "5.0 to 5.6"),
    (Regime::StartTouches, "5.7 to 6.9"),
    (Regime::Sampled, "6.10 and later"),
];

/// Exact busy time of each second from the recording's I/Os, and each kernel's estimate for them; nothing if it has
/// only counters.
fn fill_exact(
    recording: &Path,
    disks: &[Disk],
    hz: Option<u32>,
    seconds: &mut [Second],
) -> Result<()> {
    let r = Recording::open(recording)?;
    let Some(zero) = r.meta().start_monotonic_ns else {
        return Ok(());
    };
    if r.ios_stored() == 0 {
        return Ok(());
    }
    let losses: Vec<Lost> = r
        .lost(0..i64::MAX)
        .into_iter()
        .filter(|l| l.reason.is_loss())
        .collect();
    let mut spans: BTreeMap<DevId, Vec<(i64, i64)>> = BTreeMap::new();
    for batch in &mut r.ios(0..i64::MAX, IoColumns::QUEUE) {
        for io in &batch? {
            spans
                .entry(io.dev)
                .or_default()
                .push((io.start_ns() + zero, io.done_ns + zero));
        }
    }
    for disk in disks {
        let list = spans.remove(&disk.dev).unwrap_or_default();
        let of_disk: Vec<usize> = (0..seconds.len())
            .filter(|i| seconds[*i].device == disk.name)
            .collect();
        let bounds: Vec<(i64, i64)> = of_disk
            .iter()
            .map(|i| (seconds[*i].from_ns, seconds[*i].to_ns))
            .collect();
        let others = estimates(&list, hz.unwrap_or(250), &bounds);
        let list = union(list);
        for (i, estimate) in of_disk.into_iter().zip(others) {
            let s = &mut seconds[i];
            // A second with lost I/Os has no exact value.
            let is_incomplete = losses.iter().any(|l| {
                l.dev.is_none_or(|d| d == disk.dev)
                    && l.to_ns + zero >= s.from_ns
                    && l.from_ns + zero < s.to_ns
            });
            if is_incomplete {
                continue;
            }
            let busy_ns = within_ns(&list, s.from_ns, s.to_ns);
            s.exact_percent = Some(100.0 * busy_ns as f64 / (s.to_ns - s.from_ns) as f64);
            s.estimates_percent = estimate;
        }
    }
    Ok(())
}

/// The value that each estimator would have counted in each of `bounds`, in percent; bounds are in order of time.
fn estimates(ios: &[(i64, i64)], hz: u32, bounds: &[(i64, i64)]) -> Vec<Vec<(String, f64)>> {
    let mut edges: Vec<(i64, bool)> = ios
        .iter()
        .flat_map(|(from, to)| [(*from, false), (*to, true)])
        .collect();
    edges.sort_unstable();
    let mut out = vec![Vec::new(); bounds.len()];
    for (regime, name) in REGIMES {
        let mut ticks = IoTicks::new(regime, hz);
        let mut left = edges.as_slice();
        for (i, (from, to)) in bounds.iter().enumerate() {
            let before = busy_until(*from, &mut left, &mut ticks);
            let busy = busy_until(*to, &mut left, &mut ticks) - before;
            out[i].push((name.to_owned(), 100.0 * busy as f64 / (to - from) as f64));
        }
    }
    out
}

/// The count of an estimator after the edges before `instant`, which are removed from `left`.
fn busy_until(instant: i64, left: &mut &[(i64, bool)], ticks: &mut IoTicks) -> i64 {
    let (seen, later) = left.split_at(left.partition_point(|edge| edge.0 < instant));
    for (at_ns, is_end) in seen {
        if *is_end {
            ticks.done(*at_ns);
        } else {
            ticks.start(*at_ns);
        }
    }
    *left = later;
    ticks.busy_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_differ_about_short_ios_and_agree_about_a_long_one() {
        const MS: i64 = 1_000_000;
        // One I/O of 0.1 ms in each tick of 4 ms: exactly 2.5 %.
        let short: Vec<(i64, i64)> = (0..250)
            .map(|i| (i * 4 * MS + MS, i * 4 * MS + MS + MS / 10))
            .collect();
        let said = &estimates(&short, 250, &[(0, 1000 * MS)])[0];
        assert!(
            said[0].1 < 0.1 && said[1].1 > 99.0 && said[3].1 < 0.1,
            "{said:?}"
        );
        let long = &estimates(&[(0, 500 * MS)], 250, &[(0, 1000 * MS)])[0];
        assert!(
            (long[0].1 - 50.0).abs() < 0.5 && (long[3].1 - 50.0).abs() < 0.5,
            "{long:?}"
        );
    }
}
