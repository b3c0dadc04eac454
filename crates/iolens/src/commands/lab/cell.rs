//! One run under the recorder, and the progress of many.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iolens_core::model::DevId;
use iolens_observe::topology::Topology;

use crate::cli::SourceChoice;
use crate::commands::record::{FeedOptions, Outcome, Session, SessionOptions, Signals};

/// Room for one run's recording.
const KEEP_BYTES: u64 = 256 << 20;

/// Records `devices` into `output` while `load` runs; the load is told to stop when the user interrupts.
///
/// # Errors
/// No recording could be made, the load failed, or the user interrupted.
pub fn recorded<T: Send>(
    output: PathBuf,
    devices: Vec<DevId>,
    signals: &Signals,
    label: &str,
    load: impl FnOnce(&AtomicBool) -> Result<T> + Send,
) -> Result<(T, Outcome)> {
    let topology = Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let options = SessionOptions {
        output,
        devices: Some(devices),
        keep_bytes: Some(KEEP_BYTES),
        feed: FeedOptions::new(SourceChoice::Auto),
        words: vec![format!("iolens lab: {label}")],
        patience_ns: SessionOptions::SHORT_PATIENCE_NS,
        until_ns: None,
    };
    let mut session = Session::start(options, topology)?;
    session.mark("phase", &format!("begin: {label}"));
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|s| {
        let running = s.spawn(|| load(&stop));
        let watched = session.run(|_| {
            if signals.caught() > 0 {
                stop.store(true, Ordering::Relaxed);
            }
            running.is_finished()
        });
        stop.store(true, Ordering::Relaxed);
        let result = running.join().map_err(|_| anyhow!("the load panicked"))?;
        watched.and(result)
    });
    session.mark("phase", &format!("end: {label}"));
    let outcome = session.finish()?;
    if signals.caught() > 0 {
        bail!("interrupted; the same command goes on where it stopped");
    }
    Ok((result?, outcome))
}

/// A bar with the time left, on terminals only. `planned_s` is what one cell should take; once some are done, what they
/// took counts.
pub fn bar(cells: usize, planned_s: f64) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let plain = std::env::var("TERM").is_ok_and(|t| t == "dumb") || !std::io::stderr().is_terminal();
    if plain {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({left} left)") {
        let left = move |s: &indicatif::ProgressState, w: &mut dyn std::fmt::Write| {
            let seconds = time_left_s(s.pos(), s.len().unwrap_or(0), s.elapsed().as_secs_f64(), planned_s);
            let about = indicatif::HumanDuration(std::time::Duration::from_secs_f64(seconds));
            // A progress bar that cannot be drawn is no reason to stop.
            let _ = write!(w, "about {about:#}");
        };
        bar.set_style(style.with_key("left", left));
    }
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}

/// Seconds until all `cells` are done, when `done` of them took `elapsed_s` (and a running one, half of it).
fn time_left_s(done: u64, cells: u64, elapsed_s: f64, planned_s: f64) -> f64 {
    let per_cell = if done == 0 { planned_s } else { elapsed_s / (done as f64 + 0.5) };
    (cells as f64 * per_cell - elapsed_s).max(0.0)
}

/// Fails unless there is room for one more recording where the experiment's directory is.
///
/// # Errors
/// Too little room.
pub fn room_for_a_cell(experiment: &std::path::Path) -> Result<()> {
    crate::lab::scratch::need_room(experiment, KEEP_BYTES)
        .context("no room for the next run's recording; free some and give the same command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_plan_first_and_experience_later() {
        assert_eq!(time_left_s(0, 10, 2.0, 5.0), 48.0);
        assert_eq!(time_left_s(4, 10, 45.0, 5.0), 55.0);
        assert_eq!(time_left_s(0, 1, 9.0, 5.0), 0.0);
    }
}
