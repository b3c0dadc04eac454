//! The recordings of a session, one after the other.

use std::path::PathBuf;

use anyhow::{Result, bail};
use iolens_core::model::{Device, RecordingMeta, WaitSums};
use iolens_core::store::{RecordingWriter, Root, WriterOptions};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::{Host, own_cost, wall_clock_ns};

use super::{Closed, Session, SessionOptions, devices_from, mark};
use crate::feed::Feed;
use crate::losses::LossTally;
use crate::pipeline::Pipeline;
use crate::viewer::Viewer;

/// A recording that is about to begin.
pub(super) struct StartedRecording {
    pub pipeline: Pipeline,
    /// Its directory.
    pub path: PathBuf,
    /// Offset of the wall clock at its start.
    pub wall_minus_monotonic_ns: i64,
}

/// Creates the directory and the writer of the recording that begins at `from_ns` of the session's time.
pub(super) fn begin(
    options: &SessionOptions,
    feed: &Feed,
    known: &[Device],
    from_ns: i64,
    losses: &LossTally,
) -> Result<StartedRecording> {
    let start_ns = feed.start_ns() + from_ns;
    let wall_minus_monotonic_ns = wall_clock_ns() - monotonic_ns();
    let start_unix_ns = start_ns + wall_minus_monotonic_ns;
    let host = Host::read("/".as_ref());
    let meta = RecordingMeta {
        start_monotonic_ns: Some(start_ns),
        host: host.name,
        kernel: host.kernel,
        kernel_hz: host.hz,
        devices: devices_from(known, from_ns),
        recorder_tgid: i32::try_from(std::process::id()).ok(),
        options: options.command_line.clone(),
        limits: feed.limits().to_vec(),
        ..RecordingMeta::new(feed.source(), start_unix_ns)
    };
    let writer_options = WriterOptions {
        keep_bytes: options.keep_bytes,
        access: options.access,
        devices_table: options.always_on,
        ..WriterOptions::default()
    };
    let path = match options.always_on {
        true => options
            .output
            .join(Root::recording_directory(start_unix_ns)),
        false => options.output.clone(),
    };
    let writer = RecordingWriter::create(&path, meta, writer_options)?;
    let pipeline = Pipeline::start(writer, start_ns, options.always_on, losses.clone())?;
    Ok(StartedRecording {
        pipeline,
        path,
        wall_minus_monotonic_ns,
    })
}

impl Session {
    /// Continues in another recording, with the I/Os that complete from now on. No I/O is lost or counted twice in
    /// between. The previous recording is finished on its own thread, see [`Session::closed`].
    ///
    /// # Errors
    /// No place for it, or the source failed; the previous recording continues then.
    pub fn rotate(&mut self) -> Result<()> {
        if !self.options.always_on || self.options.feed.files.is_some() {
            bail!("only an always-on recording without file-level requests goes on in another one");
        }
        self.drain()?;
        let from_ns = monotonic_ns() - self.start_ns;
        let started = begin(
            &self.options,
            &self.feed,
            self.known.all(),
            from_ns,
            &self.losses,
        )?;
        let cost = self.cost();
        self.outputs.send(vec![mark(
            from_ns - 1,
            "end",
            &format!("goes on in {}", started.path.display()),
        )]);
        self.outputs
            .rotate(started.pipeline, started.path, from_ns, cost);
        let clock_ns = started.wall_minus_monotonic_ns;
        if self.clock.recording_begins(clock_ns)
            && let Some(viewer) = &mut self.viewer
        {
            viewer.clock_was_set(self.start_ns + clock_ns);
        }
        self.known.forget_removed();
        self.cpu_before_s = [None, own_cost().cpu_s];
        self.outputs
            .send(vec![mark(from_ns, "start", "recording goes on")]);
        Ok(())
    }

    /// From now on also passes observations to a viewer.
    pub fn show_to(&mut self, mut viewer: Viewer) {
        viewer.devices(self.known.all());
        self.viewer = Some(viewer);
    }

    /// Stops showing; the viewer ends when it has seen everything.
    pub fn stop_showing(&mut self) {
        self.viewer = None;
    }

    /// Stores rows of waits, in the session's time.
    pub fn store_waits(&mut self, rows: Vec<WaitSums>) {
        if !rows.is_empty() {
            self.outputs.send_waits(rows);
        }
    }

    /// Unix time of the session's start, by the current wall clock.
    pub fn start_unix_ns(&self) -> i64 {
        wall_clock_ns() - (monotonic_ns() - self.start_ns)
    }

    /// Directory of the current recording.
    pub fn path(&self) -> &PathBuf {
        self.outputs.path()
    }

    /// Start of the current recording, in nanoseconds of the session's time ([`super::Progress::at_ns`]).
    pub fn recording_from_ns(&self) -> i64 {
        self.outputs.began_ns()
    }

    /// Previous recordings that have been finished since the last call.
    pub fn closed(&mut self) -> Vec<Closed> {
        self.outputs.closed(false)
    }

    /// Whether the end of the previous recording has not been written yet.
    pub fn is_closing(&self) -> bool {
        self.outputs.is_closing()
    }
}
