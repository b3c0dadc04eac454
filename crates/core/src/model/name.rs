//! Names for the numbers by which block I/Os know files and control groups.

/// What a [`Name`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Named {
    /// A file: as in [`super::Io::fs_dev`] and [`super::Io::ino`].
    File {
        /// Device of the file system (`major << 20 | minor`).
        fs_dev: i32,
        /// Inode number on it.
        ino: i64,
    },
    /// A control group, as in [`super::Io::cgroup`].
    Cgroup(i64),
    /// Something that only a later version can name.
    Unknown,
}

impl Named {
    /// How recordings call the kind; `None` of what this version does not know.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Named::File { .. } => Some("file"),
            Named::Cgroup(_) => Some("cgroup"),
            Named::Unknown => None,
        }
    }
}

/// What a file or a control group was called when its first I/O was seen, or when it was looked up again later.
///
/// Numbers are used again after files are removed: of several names the one told last before an I/O is the best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// When it was looked up, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// What it is the name of.
    pub of: Named,
    /// The path: of a file as the recorder saw it, of a control group within the hierarchy. Untrusted, not escaped;
    /// bytes that are no UTF-8 became U+FFFD.
    pub text: String,
}
