//! Converts a path inside a file system to an absolute path by the mount table.

use std::collections::HashMap;

use crate::topology::MountTable;

/// Mounts by device number of their file system.
#[derive(Debug, Default)]
pub(super) struct Mounts(HashMap<u32, Vec<MountPoint>>);

#[derive(Debug, PartialEq, Eq)]
struct MountPoint {
    /// Directory of the file system that is mounted.
    root: String,
    /// Mount point.
    point: String,
}

impl Mounts {
    /// The mounts of a table by their file systems.
    pub fn of(table: &MountTable) -> Mounts {
        let mut mounts = Mounts::default();
        for mount in table.mounts() {
            let of_its_file_system = mounts.0.entry(mount.dev.0 as u32).or_default();
            of_its_file_system.push(MountPoint {
                root: mount.root.to_string_lossy().into_owned(),
                point: mount.point.to_string_lossy().into_owned(),
            });
        }
        mounts
    }

    /// Whether the file system is mounted at all, as far as this process sees.
    pub fn knows(&self, fs_dev: u32) -> bool {
        self.0.contains_key(&fs_dev)
    }

    /// Converts `inside`, an absolute path within the file system, to a path by which it can be reached: through the
    /// mount with the deepest root that contains it, the first of equals. Returns it unchanged if there is no such
    /// mount.
    pub fn path(&self, fs_dev: u32, inside: &str) -> String {
        let mut best: Option<(&MountPoint, &str)> = None;
        for mount in self.0.get(&fs_dev).into_iter().flatten() {
            let root = mount.root.trim_end_matches('/');
            let rest = inside
                .strip_prefix(root)
                .filter(|rest| rest.starts_with('/'));
            if let Some(rest) =
                rest.filter(|_| best.is_none_or(|(b, _)| b.root.len() < mount.root.len()))
            {
                best = Some((mount, rest));
            }
        }
        best.map_or_else(
            || inside.to_owned(),
            |(mount, rest)| format!("{}{rest}", mount.point.trim_end_matches('/')),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                        30 24 0:26 / /mnt/with\\040space rw - tmpfs none rw\n\
                        31 24 254:0 /var/lib/x /srv/x rw - ext4 /dev/vda rw\n\
                        nonsense\n";

    #[test]
    fn the_deepest_root_wins_and_escapes_are_undone() {
        let m = Mounts::of(&MountTable::parse(TEXT.as_bytes()));
        assert_eq!(m.path(254 << 20, "/etc/passwd"), "/etc/passwd");
        assert_eq!(m.path(254 << 20, "/var/lib/x/file"), "/srv/x/file");
        assert_eq!(m.path(254 << 20, "/var/lib/xy"), "/var/lib/xy");
        assert_eq!(m.path(26, "/a"), "/mnt/with space/a");
        assert_eq!(m.path(99, "/a"), "/a");
        assert!(m.knows(26) && !m.knows(99));
    }
}
