//! Writes a directory atomically: it appears complete or not at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use iolens_core::store::{Recording, StoreError};
use iolens_observe::counters::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether the user has requested to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Checks for an interrupt. Called between batches.
    ///
    /// # Errors
    /// The user has requested to stop.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was written")
        }
        Ok(())
    }
}

/// Fails if `output` exists.
///
/// # Errors
/// It exists.
pub fn refuse_existing(output: &Path) -> Result<()> {
    if output.symlink_metadata().is_ok() {
        bail!(
            "{}: exists already; choose another name or remove it first",
            output.display()
        );
    }
    Ok(())
}

/// Fails early if no new recording can be created at `output`.
///
/// # Errors
/// It exists, it is inside a recording, or its directory does not exist.
pub fn refuse_unusable(output: &Path) -> Result<()> {
    refuse_existing(output)?;
    refuse_inside_recording(output)?;
    let parent = output.parent().filter(|dir| !dir.as_os_str().is_empty());
    if parent.is_some_and(|dir| !dir.is_dir()) {
        let path = output.to_owned();
        return Err(StoreError::NoParent { path }.into());
    }
    Ok(())
}

/// Lets `write` create a recording under a temporary name, and renames it, so that it appears complete or not at all.
/// `verb` is part of the temporary name, for users who find it after a kill.
///
/// # Errors
/// `output` exists, it is inside a recording, `write` fails, or a file operation fails.
pub fn write_whole<T>(
    output: &Path,
    verb: &str,
    write: impl FnOnce(&Path, &Interrupt) -> Result<T>,
) -> Result<T> {
    refuse_existing(output)?;
    refuse_inside_recording(output)?;
    let interrupt = Interrupt::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if !process::is_ignored(signal) {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
    }
    let unfinished = unfinished_name(output, verb);
    let written = write(&unfinished, &interrupt)
        .and_then(|written| {
            // Another process may have created it; a directory that is not empty is never replaced.
            refuse_existing(output)?;
            std::fs::rename(&unfinished, output)?;
            Ok(written)
        })
        .with_context(|| format!("{} could not be written", output.display()));
    if written.is_err() && unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    written
}

/// Fails if `output` is inside a recording, which must contain only its own files.
///
/// # Errors
/// It is inside a recording.
pub fn refuse_inside_recording(output: &Path) -> Result<()> {
    let output = std::path::absolute(output)?;
    let recording = output.ancestors().skip(1).find(|dir| Recording::is_at(dir));
    if let Some(recording) = recording {
        bail!(
            "{}: is inside the recording {}; choose a place outside of it",
            output.display(),
            recording.display()
        );
    }
    Ok(())
}

/// The temporary name `.NAME.VERB-PID` in the same directory.
fn unfinished_name(output: &Path, verb: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".{verb}-{}", std::process::id()));
    output.with_file_name(name)
}
