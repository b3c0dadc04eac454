//! The mount table (`/proc/self/mountinfo`, proc_pid_mountinfo(5)) and the mount of a path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::counters::push_components;
use iolens_core::model::DevId;

/// Maximum length of a chain of symbolic links (the kernel's own limit).
const MAX_LINKS: usize = 40;

/// A line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Unique while the mount exists; the kernel reuses ids.
    pub id: u64,
    /// The mount on which this one sits.
    pub parent: u64,
    /// `st_dev` of its files. Major number 0 is assigned by the kernel and belongs to no block device.
    pub dev: DevId,
    /// The directory of the file system that is mounted: `/`, or another one for a bind mount.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Options of this mount, separated by commas.
    pub options: OsString,
    /// Kind of file system (`ext4`, `btrfs`, `fuse.sshfs`).
    pub fs_type: String,
    /// The mounted source as given to mount: a device, a pool, `server:/path`.
    pub source: OsString,
    /// Options of the file system itself, separated by commas.
    pub super_options: OsString,
}

impl Mount {
    /// The number of the subvolume that a btrfs mount shows (`subvolid=`).
    pub fn subvolume(&self) -> Option<u64> {
        let options = split_protected(&self.super_options, b',');
        options
            .iter()
            .find_map(|o| o.to_str()?.strip_prefix("subvolid=")?.parse().ok())
    }
}

/// All mounts that a process sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountTable {
    mounts: Vec<Mount>,
}

impl MountTable {
    /// Reads the table under `root`: this process's own on the live machine (`/`), otherwise that of process 1, because
    /// `/host/proc/self` would show the mounts of the container that reads it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(root: &Path) -> io::Result<MountTable> {
        let who = if root == Path::new("/") { "self" } else { "1" };
        let path = root.join("proc").join(who).join("mountinfo");
        let text = std::fs::read(&path)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Ok(MountTable::parse(&text))
    }

    /// Parses the kernel's lines; lines in another format are skipped.
    pub fn parse(text: &[u8]) -> MountTable {
        MountTable {
            mounts: text.split(|b| *b == b'\n').filter_map(parse_line).collect(),
        }
    }

    /// All mounts in the kernel's order.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The mount with this id.
    pub fn by_id(&self, id: u64) -> Option<&Mount> {
        self.mounts.iter().find(|m| m.id == id)
    }

    /// The mount that holds `path`: absolute, without symbolic links or `..`.
    ///
    /// Walks from the root downwards, as the kernel does, so that a mount covered by a later one is not used.
    pub fn of_path(&self, path: &Path) -> Option<&Mount> {
        let mut at = self
            .mounts
            .iter()
            .find(|m| m.point == Path::new("/") && !self.has_parent(m))
            .or_else(|| self.mounts.iter().find(|m| m.point == Path::new("/")))?;
        // Each step goes to a child, so no walk is longer than the table. (A damaged table may contain a cycle.)
        for _ in 0..self.mounts.len() {
            let children = self
                .mounts
                .iter()
                .filter(|m| m.parent == at.id && m.id != at.id && path.starts_with(&m.point));
            match children.min_by_key(|m| m.point.components().count()) {
                Some(child) => at = child,
                None => break,
            }
        }
        Some(at)
    }

    fn has_parent(&self, mount: &Mount) -> bool {
        self.mounts
            .iter()
            .any(|m| m.id == mount.parent && m.id != mount.id)
    }
}

/// Detects changes of the mount table with one system call.
#[derive(Debug)]
pub struct MountWatch(std::fs::File);

impl MountWatch {
    /// Watches this process's own table.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub fn start() -> io::Result<MountWatch> {
        std::fs::File::open("/proc/self/mountinfo").map(MountWatch)
    }

    /// Whether the table has changed since the last call (proc_pid_mounts(5): a change is exceptional data to poll(2)).
    pub fn changed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.0, PollFlags::PRI)], Some(&now)).is_ok_and(|n| n > 0)
    }
}

fn parse_field<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ').filter(|f| !f.is_empty());
    let id: u64 = parse_field(fields.next()?)?;
    let parent: u64 = parse_field(fields.next()?)?;
    let dev: DevId = parse_field(fields.next()?)?;
    let root = PathBuf::from(unescape(fields.next()?));
    let point = PathBuf::from(unescape(fields.next()?));
    let options = unescape(fields.next()?);
    // A variable number of optional fields ends with a dash.
    fields.by_ref().find(|f| *f == b"-")?;
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next()?);
    let super_options = unescape(fields.next().unwrap_or(b""));
    Some(Mount {
        id,
        parent,
        dev,
        root,
        point,
        options,
        fs_type,
        source,
        super_options,
    })
}

/// Decodes blank, tab, newline and backslash, which the kernel writes as three octal digits (`mangle_path`).
fn unescape(field: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut i = 0;
    while i < field.len() {
        let octal = (field[i] == b'\\')
            .then(|| field.get(i + 1..i + 4))
            .flatten()
            .and_then(|digits| {
                digits.iter().try_fold(0u32, |v, d| {
                    matches!(d, b'0'..=b'7').then(|| v * 8 + u32::from(d - b'0'))
                })
            });
        match octal.and_then(|v| u8::try_from(v).ok()) {
            Some(byte) => {
                out.push(byte);
                i += 4;
            }
            None => {
                out.push(field[i]);
                i += 1;
            }
        }
    }
    OsString::from_vec(out)
}

/// Resolves links, `.` and `..` of `path` like realpath(3), but inside `root`: an absolute link in `/host/data` leads
/// to `/host/...`. The result is the path's name on the machine under `root`.
///
/// # Errors
/// A component does not exist or is not accessible, or links form a cycle.
pub fn canonical_under(root: &Path, path: &Path) -> io::Result<PathBuf> {
    if root == Path::new("/") {
        return std::fs::canonicalize(path);
    }
    let mut todo: Vec<OsString> = Vec::new();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    push_components(&mut todo, path);
    while let Some(part) = todo.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let real = join_under(root, &next);
        if !std::fs::symlink_metadata(&real)?.is_symlink() {
            done = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::other("symbolic links lead round in a ring"));
        }
        let target = std::fs::read_link(&real)?;
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        push_components(&mut todo, &target);
    }
    Ok(done)
}

/// Converts `path` on the machine under `root` to a path for this process.
pub fn join_under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Splits an option list of overlayfs at `,`, or a list of layers at `:`, where a backslash escapes the separator.
pub(super) fn split_protected(text: &OsStr, separator: u8) -> Vec<OsString> {
    let mut out = vec![Vec::new()];
    let mut bytes = text.as_bytes().iter().peekable();
    while let Some(b) = bytes.next() {
        let last = out.len() - 1;
        match *b {
            b'\\' if matches!(bytes.peek(), Some(b':' | b',' | b'\\')) => {
                out[last].extend(bytes.next())
            }
            b if b == separator => out.push(Vec::new()),
            b => out[last].push(b),
        }
    }
    out.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
1 1 0:2 / / rw - rootfs rootfs rw
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 8:17 / /data rw shared:2 master:3 - xfs /dev/sdb1 rw
31 30 8:33 / /data/deep rw - ext4 /dev/sdc1 rw
40 22 8:49 / /srv rw - ext4 /dev/sdd1 rw
41 40 8:65 /export /srv rw - ext4 /dev/sde1 rw
50 22 8:81 / /mnt/a/b rw - ext4 /dev/sdf1 rw
51 22 8:97 / /mnt/a rw - ext4 /dev/sdg1 rw
60 22 0:50 / /with\\040blank\\134x rw - tmpfs tmp rw
";

    #[test]
    fn a_path_resolves_like_the_kernels_walk() {
        let t = MountTable::parse(TABLE.as_bytes());
        let dev = |p: &str| t.of_path(Path::new(p)).expect("has a root").dev;
        assert_eq!(t.mounts().len(), 9);
        assert_eq!(dev("/etc/passwd"), DevId::new(8, 1), "on top of rootfs");
        assert_eq!(
            dev("/database"),
            DevId::new(8, 1),
            "not a prefix by letters"
        );
        assert_eq!(dev("/data"), DevId::new(8, 17));
        assert_eq!(dev("/data/deep/er"), DevId::new(8, 33));
        assert_eq!(
            dev("/srv/x"),
            DevId::new(8, 65),
            "the upper of two on one point"
        );
        assert_eq!(
            dev("/mnt/a/b/c"),
            DevId::new(8, 97),
            "the mount at /mnt/a covers the older one below it"
        );
        assert_eq!(dev("/with blank\\x/f"), DevId::new(0, 50));
        assert_eq!(
            t.by_id(41).map(|m| m.root.as_path()),
            Some(Path::new("/export"))
        );
    }

    #[test]
    fn the_live_table_has_a_root_and_agrees_with_stat() {
        use std::os::unix::fs::MetadataExt as _;
        let t = MountTable::read(Path::new("/")).expect("readable");
        for p in ["/", "/proc", "/sys"] {
            let st = std::fs::metadata(p).expect("there").dev();
            let m = t.of_path(Path::new(p)).expect("mounted");
            assert_eq!(
                (m.dev.major(), m.dev.minor()),
                (rustix::fs::major(st), rustix::fs::minor(st)),
                "{p}: {m:?}"
            );
        }
    }

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir_all(root.path().join("data/x")).expect("mkdir");
        std::os::unix::fs::symlink("/data", root.path().join("link")).expect("link");
        std::os::unix::fs::symlink("ring", root.path().join("ring")).expect("link");
        let at = |p: &str| canonical_under(root.path(), Path::new(p));
        assert_eq!(at("/link/x/../x").expect("there"), Path::new("/data/x"));
        assert_eq!(at("/../../data").expect("there"), Path::new("/data"));
        assert!(at("/ring").is_err());
        assert_eq!(
            at("/none").expect_err("missing").kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn protected_separators_are_part_of_a_layers_name() {
        let parts = split_protected(OsStr::new("/a\\:b:/c\\\\d:e"), b':');
        assert_eq!(parts, ["/a:b", "/c\\d", "e"]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_no_ring_holds_it(text in prop::collection::vec(any::<u8>(), 0..300), ids in prop::collection::vec((0u64..6, 0u64..6), 0..8)) {
            MountTable::parse(&text);
            let ring: String = ids.iter().map(|(a, b)| format!("{a} {b} 8:1 / / rw - ext4 x rw\n")).collect();
            MountTable::parse(ring.as_bytes()).of_path(Path::new("/x/y"));
        }
    }
}
