//! User-visible names of devices: device-mapper names, and the persistent names under `/dev/disk`.

use super::root::path_of;
use super::{Root, read_once};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Where device-mapper names are.
pub const MAPPER_DIR: &str = "/dev/mapper";

/// The major number of device-mapper from `/proc/devices`; `None` if it is not active.
pub fn device_mapper_major(root: &Root) -> Option<u32> {
    let text = read_once(&root.path("/proc/devices")).ok()?;
    let line = text
        .split(|b| *b == b'\n')
        .find(|l| l.windows(13).any(|w| w == b"device-mapper"))?;
    super::scan::Scanner::new(line).number().map(|n| n as u32)
}

/// The first entry of `/dev/mapper`, in directory order, whose node has this number.
///
/// # Errors
/// `/dev/mapper` cannot be listed.
pub fn mapper_name(root: &Root, major: u32, minor: u32) -> Result<Option<Vec<u8>>, Errno> {
    let names = root.names(MAPPER_DIR)?;
    Ok(names
        .into_iter()
        .find(|n| root.node(&Path::new(MAPPER_DIR).join(path_of(n))) == Some((major, minor))))
}

/// The kernel name (`dm-N`) to which the entry `name` of `/dev/mapper` links.
pub fn mapper_target(root: &Root, name: &[u8]) -> Option<Vec<u8>> {
    let name = name.strip_prefix(b"/dev/mapper/").unwrap_or(name);
    plain(name)
        .then(|| root.link_name(Path::new(MAPPER_DIR).join(path_of(name))))
        .flatten()
}

/// The persistent names of one kind: `/dev/disk/by-KIND`.
#[derive(Debug, Clone)]
pub struct PersistentNames {
    dir: PathBuf,
}

impl PersistentNames {
    /// The names of a kind (`id`, `label`, `path`, `uuid`, ...); `None` if the machine has no such directory.
    pub fn of_kind(root: &Root, kind: &str) -> Option<PersistentNames> {
        let dir = PathBuf::from(format!("/dev/disk/by-{kind}"));
        let readable = rustix::fs::access(root.path(&dir), rustix::fs::Access::READ_OK).is_ok();
        readable.then_some(PersistentNames { dir })
    }

    /// The kernel name to which a persistent name links.
    pub fn target(&self, root: &Root, persistent: &[u8]) -> Option<Vec<u8>> {
        let link = self.dir.join(path_of(persistent));
        (!persistent.is_empty() && root.exists(&link))
            .then(|| root.link_name(&link))
            .flatten()
    }

    /// The first persistent name, in byte order, of the device with this number, whose kernel name is looked up in
    /// `/sys/dev/block`.
    pub fn name_of(&self, root: &Root, major: u32, minor: u32) -> Option<Vec<u8>> {
        let kernel = root
            .link_name(format!("/sys/dev/block/{major}:{minor}"))
            .unwrap_or_else(|| format!("dev{major}-{minor}").into_bytes());
        let mut names = root.names(&self.dir).ok()?;
        names.sort_unstable();
        names.into_iter().find(|n| {
            let link = self.dir.join(path_of(n));
            root.exists(&link) && root.link_name(&link).as_deref() == Some(&kernel)
        })
    }
}

/// Whether it is one component of a path.
fn plain(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |p: &str| dir.path().join(p);
        for d in ["proc", "dev/mapper", "dev/disk/by-id", "sys/dev/block"] {
            std::fs::create_dir_all(at(d)).expect("made");
        }
        std::fs::write(
            at("proc/devices"),
            "Block devices:\n  8 sd\n253 device-mapper\n",
        )
        .expect("written");
        for (name, text) in [
            ("dm-0", "253:0"),
            ("dm-1", "253:1"),
            ("sda", "8:0"),
            ("mapper/control", "10:236"),
        ] {
            std::fs::write(at("dev").join(name), text).expect("written");
        }
        symlink("../dm-1", at("dev/mapper/vg-home")).expect("linked");
        symlink("../../sda", at("dev/disk/by-id/wwn-0x5")).expect("linked");
        symlink("../../sda", at("dev/disk/by-id/ata-disk")).expect("linked");
        symlink("../../block/sda", at("sys/dev/block/8:0")).expect("linked");
        dir
    }

    #[test]
    fn device_mapper() {
        let dir = machine();
        let root = Root::recorded(dir.path());
        assert_eq!(device_mapper_major(&root), Some(253));
        assert_eq!(mapper_name(&root, 253, 1), Ok(Some(b"vg-home".to_vec())));
        assert_eq!(mapper_name(&root, 253, 0), Ok(None));
        assert_eq!(
            mapper_target(&root, b"/dev/mapper/vg-home"),
            Some(b"dm-1".to_vec())
        );
        assert_eq!(mapper_target(&root, b"vg-home"), Some(b"dm-1".to_vec()));
        assert_eq!(mapper_target(&root, b"../dm-1"), None);
        std::fs::remove_dir_all(dir.path().join("dev/mapper")).expect("removed");
        assert_eq!(mapper_name(&root, 253, 1), Err(Errno::NOENT));
    }

    #[test]
    fn persistent_names() {
        let dir = machine();
        let root = Root::recorded(dir.path());
        assert!(PersistentNames::of_kind(&root, "uuid").is_none());
        let ids = PersistentNames::of_kind(&root, "id").expect("ids");
        assert_eq!(
            ids.name_of(&root, 8, 0),
            Some(b"ata-disk".to_vec()),
            "the first in byte order"
        );
        assert_eq!(ids.name_of(&root, 8, 1), None);
        assert_eq!(ids.target(&root, b"wwn-0x5"), Some(b"sda".to_vec()));
        assert_eq!(ids.target(&root, b"none"), None);
    }
}
