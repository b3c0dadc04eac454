//! `iolens live`: the screen on a terminal, else rows like those of `zoom` as they happen.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::timeline::{MIN_STEP_NS, PlanError};
use iolens_observe::topology::Topology;
use iolens_recorder::{Feed, FeedOptions, KnownDevices, SourceChoice};

use super::devices::choose_devices;
use super::limits::bare_names;
use crate::cli::{LivePlan, WindowArgs, typed_window};
use crate::engine::browse::BrowsedPlace;
use crate::live;
use crate::live::screen::ServeClient;
use crate::present::record_text::shell_word;
use crate::signals::Signals;

/// Runs until `--for` has passed, or Ctrl-C.
///
/// # Errors
/// There is no source, or stdout is closed.
pub fn run(plan: &LivePlan) -> Result<u8> {
    if let Some(dir) = &plan.replay {
        return live::replay::run(plan, dir);
    }
    if plan.is_of_recording() {
        return browse(plan);
    }
    // A running service already records what the screen shows, so the user needs no privileges.
    if plan.has_screen() && !plan.no_serve && plan.source != SourceChoice::Counters {
        let devices = bare_names(&plan.devices);
        if let Some(client) = ServeClient::find(usual_sockets(), &devices) {
            let signals = Signals::catch()?;
            live::screen::run_served(client, plan.clock.clock(), |_| signals.caught() > 0)?;
            return Ok(0);
        }
    }
    if plan.rows.step_ns() < MIN_STEP_NS {
        return Err(PlanError::Step(plan.rows.step_ns()).into());
    }
    // Without a service, this program reads the devices itself.
    let topology =
        Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let signals = Signals::catch()?;
    let devices = choose_devices(&topology, &plan.devices)?;
    let has_screen = plan.has_screen();
    let mut options = FeedOptions::new(plan.source);
    if !has_screen {
        options.counters_step_ns = plan.rows.step_ns();
    }
    let feed = Feed::open(&options, devices.as_deref(), &topology)?;
    let known = KnownDevices::new(topology, devices);
    let over = |now_ns: i64| signals.caught() > 0 || plan.for_ns.is_some_and(|ns| now_ns >= ns);
    if has_screen {
        live::screen::run(feed, known, plan.clock.clock(), over)?;
    } else {
        live::run(feed, plan, options.poll_ns, known, over)?;
    }
    Ok(0)
}

/// Shows a recording, until the user quits.
fn browse(plan: &LivePlan) -> Result<u8> {
    let path = match &plan.place {
        Some(place) => place.clone(),
        None => served_root(plan)?,
    };
    let devices = bare_names(&plan.devices);
    let name = path.file_name().unwrap_or(path.as_os_str());
    let name = name.to_string_lossy().into_owned();
    let at = plan.at.map(|at| plan.clock.instant(at));
    let typed_path = shell_word(&path);
    let (place, at_ns) = BrowsedPlace::open(path, devices, at, &super::caller())?;
    // Only what can be opened is advised to be shown in another way.
    if plan.asks_for_rows() || !LivePlan::has_terminal() {
        let window = WindowArgs {
            at: plan.at,
            ..WindowArgs::default()
        };
        let reason = if plan.asks_for_rows() {
            "live of a recording has no rows"
        } else {
            "live of a recording needs a terminal"
        };
        bail!(
            "{reason}; iolens zoom {typed_path}{} prints its rows",
            typed_window(&window, plan.clock)
        );
    }
    let signals = Signals::catch()?;
    let clock = plan.clock.clock();
    live::screen::browse(place, at_ns, &name, clock, |_| signals.caught() > 0)?;
    Ok(0)
}

/// The root of the running service, else the default root.
fn served_root(plan: &LivePlan) -> Result<PathBuf> {
    if !plan.no_serve
        && let Some(root) = ServeClient::find_root(usual_sockets())
    {
        return Ok(root);
    }
    super::serve::usual_root()
}

/// The default sockets of a service of root, and of one of this user.
fn usual_sockets() -> Vec<PathBuf> {
    let sockets = [true, false].map(super::serve::usual_socket_of);
    sockets.into_iter().flatten().collect()
}
