//! The root under which the kernel's files are opened: the live machine, a prefix such as `/host`, or a recorded
//! sample.

use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Longest chain of symbolic links that is followed (as the kernel's own limit).
const MAX_LINKS: usize = 40;

/// A directory under which `/proc`, `/sys` and `/dev` are found.
///
/// All paths given to it are absolute paths as the machine itself would name them. Symbolic links are resolved inside
/// the root: an absolute link in `/host/dev` leads to `/host/...`, never out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    prefix: PathBuf,
    recorded: bool,
}

impl Root {
    /// The root of this machine, `/`.
    pub fn live() -> Root {
        Root {
            prefix: PathBuf::from("/"),
            recorded: false,
        }
    }

    /// A live machine seen under a prefix, such as `/host` in a container.
    pub fn under(prefix: impl Into<PathBuf>) -> Root {
        Root {
            prefix: prefix.into(),
            recorded: false,
        }
    }

    /// One recorded sample: device nodes are placeholder files that hold `MAJ:MIN`, directories are listed in byte order.
    pub fn recorded(sample: impl Into<PathBuf>) -> Root {
        Root {
            prefix: sample.into(),
            recorded: true,
        }
    }

    /// Whether this is a recorded sample.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Whether this is the machine itself.
    pub fn is_live(&self) -> bool {
        !self.recorded && self.prefix == Path::new("/")
    }

    /// The path in this process for `path`, which is relative to the root whether it begins with `/` or not. The kernel
    /// follows links in it; links in `/sys` are relative and stay inside.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if self.prefix == Path::new("/") && path.is_absolute() {
            return path.to_path_buf();
        }
        let mut out = self.prefix.clone();
        out.extend(
            path.components()
                .filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir)),
        );
        out
    }

    /// Resolves `path` like `realpath(3)`, but inside the root. `None` if it does not exist.
    pub fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let mut todo: Vec<OsString> = Vec::new();
        push_components(&mut todo, path);
        let mut done = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            let next = done.join(&part);
            match rustix::fs::readlink(self.path(&next), Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return None;
                    }
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    if target.is_absolute() {
                        done = PathBuf::from("/");
                    }
                    push_components(&mut todo, &target);
                }
                Err(Errno::INVAL) => done = next,
                Err(_) => return None,
            }
        }
        Some(done)
    }

    /// The target of the symbolic link `path`; `None` if it is not a link.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        rustix::fs::readlink(self.path(path), Vec::new())
            .ok()
            .map(|t| t.into_bytes())
    }

    /// The last component of the target of the link `path`.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let target = self.link_target(path)?;
        let end = target.iter().rposition(|b| *b != b'/')? + 1;
        let start = target[..end]
            .iter()
            .rposition(|b| *b == b'/')
            .map_or(0, |i| i + 1);
        Some(target[start..end].to_vec())
    }

    /// Whether `path` exists (its links followed).
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        rustix::fs::access(self.path(path), rustix::fs::Access::EXISTS).is_ok()
    }

    /// Whether `path` is a directory.
    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        std::fs::metadata(self.path(path)).is_ok_and(|m| m.is_dir())
    }

    /// Names in a directory: as the kernel lists them, or in byte order in a recorded sample. `.` and `..` are left out.
    ///
    /// # Errors
    /// Error of opening the directory. If reading it fails later, the names read so far are returned.
    pub fn names(&self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>, Errno> {
        let dir = std::fs::read_dir(self.path(path)).map_err(errno)?;
        let mut names: Vec<Vec<u8>> = dir
            .map_while(Result::ok)
            .map(|e| e.file_name().into_vec())
            .collect();
        if self.recorded {
            names.sort_unstable();
        }
        Ok(names)
    }

    /// Major and minor number of the node `path` (its links followed); `None` if there is none.
    ///
    /// Under a prefix and in a recorded sample it may also be a file that holds `MAJ:MIN`.
    pub fn node(&self, path: &Path) -> Option<(u32, u32)> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let real = self.path(self.canonical(path)?);
        let meta = std::fs::metadata(&real).ok()?;
        if !meta.file_type().is_block_device() && !meta.file_type().is_char_device() {
            let placeholder = meta.is_file() && !self.is_live();
            return if placeholder {
                parse_number_pair(&super::read_once(&real).ok()?)
            } else {
                None
            };
        }
        let dev = meta.rdev();
        Some((rustix::fs::major(dev), rustix::fs::minor(dev)))
    }
}

/// Parses `MAJ:MIN`, as in `/sys/class/block/DEV/dev`; a blank may replace the colon.
pub(crate) fn parse_number_pair(text: &[u8]) -> Option<(u32, u32)> {
    let mut scanner = super::scan::Scanner::new(text);
    let major = scanner.number()? as u32;
    let rest = scanner.rest();
    let minor = super::scan::Scanner::new(rest.strip_prefix(b":").unwrap_or(rest)).number()? as u32;
    Some((major, minor))
}

/// Pushes the components of `path` on a stack, the first on top.
pub(crate) fn push_components(todo: &mut Vec<OsString>, path: &Path) {
    let parts: Vec<OsString> = path
        .components()
        .filter_map(|c| match c {
            Component::Normal(part) => Some(part.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        })
        .collect();
    todo.extend(parts.into_iter().rev());
}

/// The error number of an I/O error; `EIO` if it has none.
pub(crate) fn errno(e: std::io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// A path from bytes.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |p: &str| dir.path().join(p);
        std::fs::create_dir_all(at("dev/mapper")).expect("made");
        std::fs::create_dir_all(at("dev/disk/by-id")).expect("made");
        std::fs::write(at("dev/dm-2"), "253:2\n").expect("written");
        std::fs::write(at("dev/odd"), "8 17").expect("written");
        symlink("../dm-2", at("dev/mapper/vg-root")).expect("linked");
        symlink("/dev/mapper/vg-root", at("dev/disk/by-id/root")).expect("linked");
        symlink("loop", at("dev/loop")).expect("linked");
        dir
    }

    #[test]
    fn links_stay_inside_the_root() {
        let dir = sample();
        let root = Root::recorded(dir.path());
        assert_eq!(
            root.canonical(Path::new("/dev/disk/by-id/root")),
            Some(PathBuf::from("/dev/dm-2"))
        );
        assert_eq!(
            root.canonical(Path::new("/../../dev/./dm-2")),
            Some(PathBuf::from("/dev/dm-2"))
        );
        assert_eq!(root.canonical(Path::new("/dev/none")), None);
        assert_eq!(
            root.canonical(Path::new("/dev/loop")),
            None,
            "a link to itself"
        );
        assert_eq!(root.node(Path::new("/dev/disk/by-id/root")), Some((253, 2)));
        assert_eq!(root.node(Path::new("/dev/odd")), Some((8, 17)));
        assert_eq!(root.node(Path::new("/dev/mapper")), None);
        assert_eq!(
            root.link_name("/dev/mapper/vg-root"),
            Some(b"dm-2".to_vec())
        );
        assert_eq!(
            root.names("/dev").expect("listed"),
            [&b"disk"[..], b"dm-2", b"loop", b"mapper", b"odd"]
        );
    }

    #[test]
    fn the_machine_itself() {
        let root = Root::live();
        assert!(root.is_live() && root.exists("/proc/self/stat"));
        assert_eq!(root.path("/proc/stat"), PathBuf::from("/proc/stat"));
        assert_eq!(root.node(Path::new("/dev/null")), Some((1, 3)));
    }
}
