//! One run under the recorder.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow, bail};
use iolens_core::model::DevId;
use iolens_core::private::Access;
use iolens_observe::topology::Topology;
use iolens_recorder::{FeedOptions, Outcome, Session, SessionOptions, SourceChoice};

/// Cap of one run's recording, in bytes.
const KEEP_BYTES: u64 = 256 << 20;

/// Why an experiment that the user stopped has ended.
pub const INTERRUPTED: &str = "interrupted; the same command goes on where it stopped";

/// The program around an experiment: it shows progress and says when to stop.
pub trait Watcher {
    /// So many runs are left, of about `seconds_per_run` each.
    fn begin(&self, runs: usize, seconds_per_run: f64);
    /// A run starts.
    fn run(&self, label: &str);
    /// A run is complete.
    fn run_done(&self);
    /// No run is left.
    fn end(&self);
    /// The user requests a stop.
    fn interrupted(&self) -> bool;
}

/// Records `devices` into `output` while `load` runs; the load is asked to stop when the user interrupts.
///
/// # Errors
/// No recording could be made, the load failed, or the user interrupted.
pub fn recorded<T: Send>(
    output: PathBuf,
    devices: Vec<DevId>,
    watcher: &dyn Watcher,
    label: &str,
    load: impl FnOnce(&AtomicBool) -> Result<T> + Send,
) -> Result<(T, Outcome)> {
    let topology =
        Topology::read("/".as_ref()).context("/sys/block cannot be listed; is sysfs mounted?")?;
    let options = SessionOptions {
        always_on: false,
        output,
        devices: Some(devices),
        keep_bytes: Some(KEEP_BYTES),
        access: Access::OWNER,
        feed: FeedOptions::new(SourceChoice::Auto),
        command_line: vec![format!("iolens lab: {label}")],
        idle_poll_ns: SessionOptions::FAST_IDLE_POLL_NS,
        until_ns: None,
    };
    let mut session = Session::start(options, topology)?;
    session.mark("phase", &format!("begin: {label}"));
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|s| {
        let running = s.spawn(|| load(&stop));
        let watched = session.run(|_| {
            if watcher.interrupted() {
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
    if watcher.interrupted() {
        bail!(INTERRUPTED);
    }
    Ok((result?, outcome))
}

/// Fails unless there is space for one more recording where the experiment's directory is.
///
/// # Errors
/// The disk has too little space.
pub fn space_for_a_run(experiment: &std::path::Path) -> Result<()> {
    crate::scratch::need_room(experiment, KEEP_BYTES)
        .context("no room for the next run's recording; free some and give the same command again")
}
