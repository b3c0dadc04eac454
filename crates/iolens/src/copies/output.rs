//! A directory that appears whole or not at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use iolens_core::store::{Recording, StoreError};
use iolens_observe::counters::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether the user asked to end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Called between batches.
    ///
    /// # Errors
    /// The user asked to end.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted; nothing was written")
        }
        Ok(())
    }
}

/// Fails where there is something at `output` already.
///
/// # Errors
/// There is.
pub fn refuse_existing(output: &Path) -> Result<()> {
    if output.symlink_metadata().is_ok() {
        bail!(
            "{}: exists already; choose another name or remove it first",
            output.display()
        );
    }
    Ok(())
}

/// Fails where no new recording can be made at `output`, before there is anything to put there.
///
/// # Errors
/// There is something already, it is inside a recording, or its directory is missing.
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

/// Lets `write` make a recording under another name and renames it: there is a whole one or none, whatever ends this. `verb`
/// is in the name of what is not whole, for those who find one that a kill left.
///
/// # Errors
/// There is something at `output` already, it is inside a recording, `write` fails, or the file system refuses.
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
            // Another process may have made it meanwhile; a directory that is not empty is never replaced.
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

/// Fails where `output` is inside a recording: a recording holds its own files only.
///
/// # Errors
/// It is.
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

/// `.NAME.VERB-PID` beside the recording to be.
fn unfinished_name(output: &Path, verb: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".{verb}-{}", std::process::id()));
    output.with_file_name(name)
}
