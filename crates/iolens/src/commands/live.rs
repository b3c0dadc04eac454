//! `iolens live`: the screen on a terminal, else the rows of `zoom` while they happen.

use anyhow::{Context as _, Result};
use iolens_core::model::{Device, Source};
use iolens_observe::topology::Topology;
use iolens_recorder::{Feed, FeedOptions};

use super::devices::choose_devices;
use crate::cli::LivePlan;
use crate::live;
use crate::signals::Signals;

/// Runs until `--for` is over, or Ctrl-C.
///
/// # Errors
/// No source, or stdout is gone.
pub fn run(plan: &LivePlan) -> Result<u8> {
    if let Some(dir) = &plan.replay {
        return live::replay::run(plan, dir);
    }
    let topology =
        Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let signals = Signals::catch()?;
    let devices = choose_devices(&topology, &plan.devices)?;
    let options = FeedOptions {
        counters_step_ns: plan.rows.step_ns(),
        ..FeedOptions::new(plan.source)
    };
    let feed = Feed::open(&options, devices.as_deref(), &topology)?;
    let shown: Vec<Device> = topology
        .devices()
        .iter()
        .filter(|d| devices.as_ref().is_none_or(|ids| ids.contains(&d.id)))
        .cloned()
        .collect();
    let over = |now_ns: i64| signals.caught() > 0 || plan.for_ns.is_some_and(|ns| now_ns >= ns);
    if plan.has_screen() && feed.source() == Source::Ebpf {
        live::screen::run(feed, shown, over)?;
    } else {
        live::run(feed, plan, options.poll_ns, shown, over)?;
    }
    Ok(0)
}
