//! Paths of files, as the BPF programs report them: once per inode, before the first request on it ends.

use std::{collections::HashMap, path::Path, sync::Arc};

use super::{event::FileName, mounts::Mounts};
use crate::topology::MountTable;

/// Inode number, its generation, device of the file system.
type Inode = (u64, u32, u32);

/// Minimum number of recently used names that are kept. The BPF programs remember some 65536 recently used inodes as
/// reported, so as many must be kept here. There are two generations: names not used during the life of the younger are
/// dropped with the older.
const YOUNG: usize = 1 << 17;

/// Paths of files by inode.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    young: HashMap<Inode, Arc<str>>,
    old: HashMap<Inode, Arc<str>>,
    mounts: Mounts,
}

impl FileNames {
    /// Takes an inode's name as reported by the BPF programs.
    pub fn learn(&mut self, name: &FileName) {
        if !self.mounts.knows(name.fs_dev) {
            // The file system was mounted since, or in another namespace. If it is not in the table, the path within it
            // is used.
            let table = MountTable::read(Path::new("/")).unwrap_or_default();
            self.mounts = Mounts::of(&table);
        }
        let length = (name.length as usize).min(name.names.len());
        let inside = absolute(&name.names[..length], name.truncated != 0);
        let path = if name.truncated != 0 {
            inside
        } else {
            self.mounts.path(name.fs_dev, &inside)
        };
        self.keep((name.ino, name.generation, name.fs_dev), path.into());
    }

    /// The path of an inode, if the kernel reported it.
    pub fn path(&mut self, ino: u64, generation: u32, fs_dev: u32) -> Option<Arc<str>> {
        let inode = (ino, generation, fs_dev);
        if let Some(path) = self.young.get(&inode) {
            return Some(Arc::clone(path));
        }
        let path = self.old.remove(&inode)?;
        self.keep(inode, Arc::clone(&path));
        Some(path)
    }

    fn keep(&mut self, inode: Inode, path: Arc<str>) {
        if self.young.len() >= YOUNG {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(inode, path);
    }
}

/// Joins names, from the file up to the root and each terminated by NUL, to an absolute path.
fn absolute(names: &[u8], truncated: bool) -> String {
    let mut parts: Vec<&[u8]> = names.split(|b| *b == 0).filter(|n| !n.is_empty()).collect();
    parts.reverse();
    let mut path = if truncated {
        "...".to_owned()
    } else {
        String::new()
    };
    for part in parts {
        path.push('/');
        path.push_str(&String::from_utf8_lossy(part));
    }
    if path.is_empty() {
        "/".to_owned()
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_leaf_first() {
        assert_eq!(absolute(b"passwd\0etc\0", false), "/etc/passwd");
        assert_eq!(absolute(b"c\0b\0", true), ".../b/c");
        assert_eq!(absolute(b"", false), "/");
    }

    #[test]
    fn requested_names_survive_a_generation() {
        let mut names = FileNames::default();
        names.keep((1, 0, 0), "/one".into());
        names.keep((2, 0, 0), "/two".into());
        for round in 0..3 {
            for i in 0..YOUNG as u64 {
                names.keep((10 + i, round, 0), "/x".into());
            }
            assert_eq!(names.path(1, 0, 0).as_deref(), Some("/one"), "{round}");
        }
        assert_eq!(names.path(2, 0, 0), None);
    }
}
