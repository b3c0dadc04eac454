//! Who asks: how long the answer may take, which names it may hold, and where remarks beside it go.
//!
//! It is an argument of everything that reads a store, so that a thread that does a part of the work has the same limits.

use std::sync::Arc;
use std::time::Instant;

use super::deadline::{Deadline, TooSlow};
use super::note::Note;

/// Who asks, for as long as one question lasts.
pub struct Caller {
    deadline: Deadline,
    /// How to see the names that are left out; `None`: none are.
    names_left_out: Option<Arc<str>>,
    hear: Box<dyn Fn(Note) + Send + Sync>,
}

impl Caller {
    /// One who waits as long as it takes and sees all names; `hear` gets each remark when it is made, on whatever thread.
    pub fn new(hear: impl Fn(Note) + Send + Sync + 'static) -> Caller {
        Caller {
            deadline: Deadline::default(),
            names_left_out: None,
            hear: Box::new(hear),
        }
    }

    /// One who does not listen.
    pub fn deaf() -> Caller {
        Caller::new(drop)
    }

    /// Who waits until `moment` at most.
    pub fn until(mut self, moment: Instant) -> Caller {
        self.deadline = Deadline::at(moment);
        self
    }

    /// Who sees no names of files and processes if there is a text that says how to see them.
    pub fn hiding(mut self, how_to_see_names: Option<Arc<str>>) -> Caller {
        self.names_left_out = how_to_see_names;
        self
    }

    /// The same one, who does not listen: what further questions would repeat has been said.
    pub fn quiet(&self) -> Caller {
        Caller {
            deadline: self.deadline,
            names_left_out: self.names_left_out.clone(),
            hear: Box::new(drop),
        }
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
        (self.hear)(note);
    }

    /// Says what of a store is damaged, in the store's words.
    pub fn damage(&self, warnings: &[String]) {
        for warning in warnings {
            self.note(Note::Damaged(warning.clone()));
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
    /// One that keeps what it hears.
    pub fn listening() -> (Caller, Arc<std::sync::Mutex<Vec<Note>>>) {
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let caller = Caller::new(move |note| ear.lock().expect("no panic").push(note));
        (caller, heard)
    }
}
