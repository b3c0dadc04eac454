//! The context of a query: its deadline, which names it may show, and where notes beside the answer go.
//!
//! It is passed as an argument to everything that reads a store, so that worker threads have the same limits.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::deadline::{Deadline, TooSlow};
use super::note::Note;

/// The recording that a recorder in this process is writing, and how far it has come. The files do not say: while the
/// disks are idle, nothing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowingRecording {
    /// Its start.
    pub start_unix_ns: i64,
    /// Everything that happened before this time is stored.
    pub stored_until_unix_ns: i64,
}

/// The context of one query.
pub struct Caller {
    deadline: Deadline,
    growing: Option<GrowingRecording>,
    /// Text that says how to see names, if names are hidden; `None`: names are shown.
    names_left_out: Option<Arc<str>>,
    on_note: Box<dyn Fn(Note) + Send + Sync>,
}

impl Caller {
    /// A caller without a deadline that sees all names. `on_note` is called with each note as it is made, on any
    /// thread.
    pub fn new(on_note: impl Fn(Note) + Send + Sync + 'static) -> Caller {
        Caller {
            deadline: Deadline::default(),
            growing: None,
            names_left_out: None,
            on_note: Box::new(on_note),
        }
    }

    /// As [`Caller::new`], but notes are discarded.
    pub fn without_notes() -> Caller {
        Caller::new(drop)
    }

    /// With a deadline.
    pub fn until(mut self, moment: Instant) -> Caller {
        self.deadline = Deadline::at(moment);
        self
    }

    /// With the state of the recording that is being written.
    pub fn knowing(mut self, growing: Option<GrowingRecording>) -> Caller {
        self.growing = growing;
        self
    }

    /// Hides the names of files and processes if there is a text that says how to see them.
    pub fn hiding(mut self, how_to_see_names: Option<Arc<str>>) -> Caller {
        self.names_left_out = how_to_see_names;
        self
    }

    /// The same caller without notes, for further queries that would repeat them.
    pub fn silenced(&self) -> Caller {
        Caller {
            deadline: self.deadline,
            growing: self.growing,
            names_left_out: self.names_left_out.clone(),
            on_note: Box::new(drop),
        }
    }

    /// Up to when everything is stored of the recording that started at `start_unix_ns`; `None` if that recording is
    /// not being written.
    pub fn stored_until_unix_ns(&self, start_unix_ns: i64) -> Option<i64> {
        let growing = self.growing?;
        (growing.start_unix_ns == start_unix_ns).then_some(growing.stored_until_unix_ns)
    }

    /// Checks the deadline. Called between batches.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn check(&self) -> Result<(), TooSlow> {
        self.deadline.check()
    }

    /// Reports a note beside the answer.
    pub fn note(&self, note: Note) {
        (self.on_note)(note);
    }

    /// Reports damage to a recording, in the store's words.
    pub fn damage(&self, recording: &Path, warnings: &[String]) {
        for warning in warnings {
            self.note(Note::Damaged {
                recording: recording.to_owned(),
                what: warning.clone(),
            });
        }
    }

    /// Text that says how to see names, if they are hidden.
    pub fn names_left_out(&self) -> Option<&str> {
        self.names_left_out.as_deref()
    }

    /// Whether names of files and processes are hidden.
    pub fn hides_names(&self) -> bool {
        self.names_left_out.is_some()
    }
}

#[cfg(test)]
impl Caller {
    /// One that keeps all remarks.
    pub fn keeping_notes() -> (Caller, Arc<std::sync::Mutex<Vec<Note>>>) {
        let notes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&notes);
        let caller = Caller::new(move |note| kept.lock().expect("no panic").push(note));
        (caller, notes)
    }
}
