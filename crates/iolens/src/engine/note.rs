//! What an answer leaves out or rests on, for people beside it. The edges word it (`present::query_text`).

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use iolens_core::model::Source;

use super::error::QueryError;

/// A remark beside an answer.
#[derive(Debug, Clone)]
pub enum Note {
    /// Something that is stored is damaged; in the store's words.
    Damaged(String),
    /// A recording that cannot be read is left out.
    LeftOut(Arc<QueryError>),
    /// Something could not be read, which says nothing of what is stored: it may be removed, or grow; in the store's words.
    Unread(String),
    /// No time was named, and there are several recordings.
    NewestOf {
        /// How many.
        recordings: usize,
        /// The one that is shown.
        path: PathBuf,
    },
    /// The size limit removed the I/Os of this time from the recording, and a copy stands in.
    OfCopy {
        /// Unix time in nanoseconds.
        from_unix_ns: i64,
        /// Its end.
        to_unix_ns: i64,
        /// The copy.
        path: PathBuf,
    },
    /// The size limit removed what came before; in nanoseconds since the recording's start.
    RemovedBefore(i64),
    /// The I/Os were not traced by this program.
    Source(Source),
    /// What a source cannot show, in the recorder's words.
    Limit(String),
    /// Rows are finer than the averages of the tables, which are over so many nanoseconds.
    FinerThanTables(i64),
    /// Rows are finer than the readings of the counters, which are so many nanoseconds apart.
    FinerThanCounters(i64),
    /// Sums count an I/O once; these devices, with what each lies on, are left out.
    Layers(Vec<String>),
    /// Rows are sums of so many seconds: the single I/Os are removed.
    RowsOfSums(i32),
    /// The same of who caused I/O.
    ActorsOfSums(i32),
    /// The same, because single I/Os are too many for one answer.
    ActorsOfMany(i32),
    /// The same of who waited for whom, in sums of so many seconds, or single I/Os are too many for one answer.
    WaitsOfSums(i32),
    /// There are no single I/Os, of which it could be said what they waited for.
    NoWaits,
    /// The I/Os are removed: findings are those of then.
    FindingsOfThen,
    /// Too many I/Os to analyse for one answer: findings are those of then.
    FindingsOfMany,
    /// Stories are of this stretch, in Unix time in nanoseconds: there are too many I/Os for one answer.
    StoriesOf(Range<i64>),
    /// A short time was asked for: stories are those of so many nanoseconds around it that meet it.
    StoriesAround(i64),
    /// The stretch spans so many recordings, of which the longest part is shown.
    LongestPartOf(usize),
}

impl Note {
    /// Whether it says that something stored cannot be read.
    pub fn is_damage(&self) -> bool {
        matches!(self, Note::Damaged(_) | Note::LeftOut(_))
    }

    /// The recording of a root of which something cannot be read; `None` if the note names none.
    pub fn damaged_recording(&self) -> Option<PathBuf> {
        match self {
            Note::Damaged(words) => recording_in(words),
            Note::LeftOut(e) => match &**e {
                QueryError::Store(e) => recording_in(&e.to_string()),
                QueryError::NothingReadable { damage, .. } => recording_in(damage),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The recording of a root in the store's words, which begin with the path of a file in it, or of itself.
fn recording_in(words: &str) -> Option<PathBuf> {
    const DIRECTORY: &str = "/start_ns=";
    let number_begins = words.find(DIRECTORY)? + DIRECTORY.len();
    let number = words[number_begins..].bytes();
    let digits = number.take_while(u8::is_ascii_digit).count();
    Some(PathBuf::from(&words[..number_begins + digits]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_its_recording() {
        let recording = |words: &str| Note::Damaged(words.to_owned()).damaged_recording();
        let path = Some(PathBuf::from("/a root/host=h/start_ns=17"));
        let file = "/a root/host=h/start_ns=17/io/000001.parquet: damaged: cut off";
        assert_eq!(recording(file), path);
        assert_eq!(
            recording("/a root/host=h/start_ns=17: io has 3 rows fewer"),
            path
        );
        assert_eq!(recording("r/io/000001.parquet: damaged"), None);
        let ruined = QueryError::NothingReadable {
            damage: file.to_owned(),
            repairable: None,
        };
        assert_eq!(Note::LeftOut(Arc::new(ruined)).damaged_recording(), path);
        assert_eq!(Note::Unread(file.to_owned()).damaged_recording(), None);
    }
}
