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

/// A bar with the time left, on terminals only.
pub fn bar(cells: usize) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let plain = std::env::var("TERM").is_ok_and(|t| t == "dumb") || !std::io::stderr().is_terminal();
    if plain {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}
