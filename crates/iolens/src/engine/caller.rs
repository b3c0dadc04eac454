//! Who asks: how long the answer may take, which names it may hold, and where remarks beside it go.
//!
//! It is an argument of everything that reads a store, so that a thread that does a part of the work has the same limits.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::deadline::{Deadline, TooSlow};
use super::note::Note;

/// The recording that a recorder in this process writes, and how far it has come. While disks are idle nothing is written, so that
/// the files do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowingRecording {
    /// When it began.
    pub start_unix_ns: i64,
    /// All that happened before this time is stored.
    pub stored_until_unix_ns: i64,
}

/// Who asks, for as long as one question lasts.
pub struct Caller {
    deadline: Deadline,
    growing: Option<GrowingRecording>,
    /// How to see the names that are left out; `None`: none are.
    names_left_out: Option<Arc<str>>,
    on_note: Box<dyn Fn(Note) + Send + Sync>,
}

impl Caller {
    /// One who waits as long as it takes and sees all names; `on_note` gets each remark when it is made, on any thread.
    pub fn new(on_note: impl Fn(Note) + Send + Sync + 'static) -> Caller {
        Caller {
            deadline: Deadline::default(),
            growing: None,
            names_left_out: None,
            on_note: Box::new(on_note),
        }
    }

    /// One who gets no remarks.
    pub fn without_notes() -> Caller {
        Caller::new(drop)
    }

    /// Who waits until `moment` at most.
    pub fn until(mut self, moment: Instant) -> Caller {
        self.deadline = Deadline::at(moment);
        self
    }

    /// Who knows how far the recording that grows has come.
    pub fn knowing(mut self, growing: Option<GrowingRecording>) -> Caller {
        self.growing = growing;
        self
    }

    /// Who sees no names of files and processes if there is a text that says how to see them.
    pub fn hiding(mut self, how_to_see_names: Option<Arc<str>>) -> Caller {
        self.names_left_out = how_to_see_names;
        self
    }

    /// The same one without remarks: further questions would repeat those that were made.
    pub fn silenced(&self) -> Caller {
        Caller {
            deadline: self.deadline,
            growing: self.growing,
            names_left_out: self.names_left_out.clone(),
            on_note: Box::new(drop),
        }
    }

    /// Until when all that happened is stored of the recording that began at `start_unix_ns`; `None` if it is not the one that grows.
    pub fn stored_until_unix_ns(&self, start_unix_ns: i64) -> Option<i64> {
        let growing = self.growing?;
        (growing.start_unix_ns == start_unix_ns).then_some(growing.stored_until_unix_ns)
    }

    /// Called between batches.
    ///
    /// # Errors
    /// The caller does not wait any longer.
    pub fn check(&self) -> Result<(), TooSlow> {
        self.deadline.check()
    }

    /// Says something beside the answer.
    pub fn note(&self, note: Note) {
        (self.on_note)(note);
    }

    /// Says what of a recording is damaged, in the store's words.
    pub fn damage(&self, recording: &Path, warnings: &[String]) {
        for warning in warnings {
            self.note(Note::Damaged {
                recording: recording.to_owned(),
                what: warning.clone(),
            });
        }
    }

    /// How to see the names that are left out; `None`: none are.
    pub fn names_left_out(&self) -> Option<&str> {
        self.names_left_out.as_deref()
    }

    /// Whether names are left out.
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
