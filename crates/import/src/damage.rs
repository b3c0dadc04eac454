//! Damaged lines: all counted, reported up to a limit.

use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of places that are kept by name; the rest is only counted.
const NAMED: usize = 20;
const OTHERS_NAMED: usize = 3;

/// Why a row is damaged: it contains a negative number that cannot be negative.
pub(super) const NEGATIVE: &str = "a negative rate, latency, queue or utilisation";

/// A place in a log that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Path of the damaged file.
    pub file: PathBuf,
    /// Its line, counted from 1; in binary files the offset in bytes.
    pub at: u64,
    /// Whether [`Place::at`] is an offset.
    pub binary: bool,
    /// Description of the damage.
    pub why: String,
}

impl Place {
    /// Its position in the file, and the damage.
    pub fn position(&self) -> String {
        let unit = if self.binary { "byte" } else { "line" };
        format!("{unit} {}: {}", self.at, self.why)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.position())
    }
}

/// All damage of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Number of lost lines (or binary records).
    pub count: u64,
    /// The first of them.
    pub places: Vec<Place>,
    /// Lines that belong to no table or event: messages, shell prompts, prose. They are not losses.
    pub other_lines: u64,
    /// The first of these.
    pub other_places: Vec<Place>,
}

impl Damage {
    /// Counts a damaged line.
    pub fn line(&mut self, file: &Path, line: u64, why: impl Into<String>) {
        self.note(file, line, false, why);
    }

    /// Counts a damaged binary record.
    pub fn record(&mut self, file: &Path, offset: u64, why: impl Into<String>) {
        self.note(file, offset, true, why);
    }

    /// Counts a line that was not written by the log's tool.
    pub fn other(&mut self, file: &Path, line: u64) {
        self.other_lines += 1;
        if self.other_places.len() < OTHERS_NAMED {
            let why = "not understood".to_owned();
            self.other_places.push(Place {
                file: file.to_owned(),
                at: line,
                binary: false,
                why,
            });
        }
    }

    fn note(&mut self, file: &Path, at: u64, binary: bool, why: impl Into<String>) {
        self.count += 1;
        if self.places.len() < NAMED {
            self.places.push(Place {
                file: file.to_owned(),
                at,
                binary,
                why: why.into(),
            });
        }
    }
}
