//! Names for the numbers of files and control groups in block I/Os.

use std::collections::BTreeMap;

/// Identity of a file within a file system. Inode numbers are reused for new files; the pair of number and generation
/// is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Device of the file system (`major << 20 | minor`).
    pub fs_dev: i32,
    /// Inode number on it.
    pub ino: i64,
    /// Which of the files that had this number (the kernel's `i_generation`). `None`: the source does not know.
    pub generation: Option<u32>,
}

/// A name for a file, if the recording knows one.
pub type PathOf<'a> = &'a dyn Fn(Inode) -> Option<String>;

/// An object with a [`Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Named {
    /// A file, as in [`super::Io::inode`].
    File(Inode),
    /// A control group, as in [`super::Io::cgroup`].
    Cgroup(i64),
    /// The pod, and the container if that is known, of a control group, as in [`super::Io::cgroup`].
    Pod(i64),
    /// Something that only a later version can name.
    Unknown,
}

impl Named {
    /// The kind's name in recordings; `None` for kinds that this version does not know.
    pub fn kind(self) -> Option<&'static str> {
        match self {
            Named::File(_) => Some("file"),
            Named::Cgroup(_) => Some("cgroup"),
            Named::Pod(_) => Some("pod"),
            Named::Unknown => None,
        }
    }
}

/// The name of a file or of a control group at its first I/O, or at a later lookup.
///
/// If a file has several names (it was renamed), the last one reported before an I/O is the best. If the source knows
/// no generations, the names may also be those of different files that had the inode number one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// When it was looked up, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// The named object.
    pub of: Named,
    /// The path: of a file as the recorder saw it, of a control group within the hierarchy; of a
    /// pod `NAMESPACE/POD` or `NAMESPACE/POD/CONTAINER`. Untrusted, not escaped;
    /// bytes that are no UTF-8 became U+FFFD.
    pub text: String,
}

/// The names of a recording, by number. Untrusted: code that shows them escapes them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Names {
    /// Paths of control groups by id.
    pub cgroups: BTreeMap<i64, String>,
    /// `NAMESPACE/POD[/CONTAINER]` of control groups by id.
    pub pods: BTreeMap<i64, String>,
    /// Paths of files.
    pub files: BTreeMap<Inode, String>,
}

impl Names {
    /// Stores the current name of an object.
    pub fn insert(&mut self, of: Named, text: String) {
        match of {
            Named::File(file) => drop(self.files.insert(file, text)),
            Named::Cgroup(id) => drop(self.cgroups.insert(id, text)),
            Named::Pod(id) => drop(self.pods.insert(id, text)),
            Named::Unknown => {}
        }
    }
}
