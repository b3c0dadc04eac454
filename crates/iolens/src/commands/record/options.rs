//! Converts the arguments of `iolens record` to the recorder's options.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::timeline::{MIN_STEP_NS, PlanError};
use iolens_core::model::Comm;
use iolens_observe::topology::Topology;
use iolens_observe::trace::{FilesFilter, TracerOptions};
use iolens_recorder::{FeedOptions, SessionOptions, SourceChoice};

use super::super::devices::choose_devices;
use crate::cli::RecordPlan;

/// Maximum length of a task name in the kernel, without the NUL (`TASK_COMM_LEN`).
const MAX_COMM: usize = 15;

/// The options of a recording.
///
/// # Errors
/// A disk does not exist, a ring size is impossible, a step is too short, or a task filter can match no task.
pub fn resolve(plan: &RecordPlan, topology: &Topology) -> Result<SessionOptions> {
    Ok(SessionOptions {
        always_on: false,
        devices: choose_devices(topology, &plan.devices)?,
        output: plan.output.clone().unwrap_or_else(default_output),
        keep_bytes: plan.keep,
        access: plan.share.access(),
        feed: FeedOptions {
            choice: plan.source,
            attribution: !plan.no_attribution,
            ring_bytes: ring_bytes(plan.ring)?,
            poll_ns: plan.poll,
            counters_step_ns: counters_step_ns(plan)?,
            files: plan.wants_files().then(|| files_filter(plan)).transpose()?,
            measure_probes: false,
        },
        command_line: std::env::args().collect(),
        idle_poll_ns: if plan.command.is_empty() {
            SessionOptions::IDLE_POLL_NS
        } else {
            SessionOptions::FAST_IDLE_POLL_NS
        },
        until_ns: plan.for_ns,
    })
}

fn ring_bytes(requested: Option<u64>) -> Result<u32> {
    let Some(bytes) = requested else {
        return Ok(TracerOptions::usual_ring_bytes());
    };
    let min = TracerOptions::min_ring_bytes();
    match u32::try_from(bytes) {
        Ok(b) if (min..=1 << 30).contains(&b) => Ok(b),
        _ => bail!(
            "--ring {bytes}: give {}K to 1G; less than 64K for each CPU loses I/Os under any load worth recording",
            min >> 10
        ),
    }
}

/// The sampling interval of counters. Intervals shorter than those of rows would only cost CPU time. Beside events,
/// counters are always read once a second.
fn counters_step_ns(plan: &RecordPlan) -> Result<i64> {
    let Some(step_ns) = plan.counters_step else {
        return Ok(FeedOptions::new(plan.source).counters_step_ns);
    };
    if plan.source == SourceChoice::Ebpf {
        bail!("--counters-step has no effect with --source ebpf; leave one of them out");
    }
    if step_ns < MIN_STEP_NS {
        return Err(PlanError::Step(step_ns)).context("--counters-step");
    }
    Ok(step_ns)
}

/// Whose file-level requests to record. With a command and no other option: those of the command and its children.
///
/// # Errors
/// No task can match, or the filter needs eBPF, which is not available.
fn files_filter(plan: &RecordPlan) -> Result<FilesFilter> {
    if plan.source == SourceChoice::Counters {
        bail!(
            "file-level requests (--files, --pid, --comm, --cgroup) need eBPF: leave out --source counters"
        );
    }
    if let Some(name) = &plan.comm {
        match name.len() {
            0 => bail!("--comm: a task's name is never empty; see /proc/PID/comm"),
            1..=MAX_COMM => {}
            _ => bail!(
                "--comm {name}: the kernel keeps {MAX_COMM} bytes of a task's name, so none has this one; give its first {MAX_COMM}"
            ),
        }
    }
    let named =
        !plan.pid.is_empty() || plan.comm.is_some() || plan.cgroup.is_some() || plan.all_files;
    Ok(FilesFilter {
        pids: plan.pid.clone(),
        comm: plan.comm.as_ref().map(|c| Comm::new(c.as_bytes())),
        cgroup: plan.cgroup.clone(),
        children: !plan.command.is_empty() && !named,
    })
}

fn default_output() -> PathBuf {
    PathBuf::from(
        jiff::Zoned::now()
            .strftime("iolens-%Y%m%d-%H%M%S.iolens")
            .to_string(),
    )
}
