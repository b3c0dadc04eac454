//! What is mounted where, as this process sees it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Number that the kernel gives the mount.
    pub id: u64,
    /// Device of the file system (`major << 20 | minor`).
    pub fs_dev: i32,
    /// Directory of the file system that is the root of this mount.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// The subvolume of a btrfs mount.
    pub subvolume: Option<u64>,
}

/// The mounts of a mountinfo text; lines that are none are left out.
pub(super) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|b| *b == b' ');
    let id = number(words.next()?)?;
    let dev = std::str::from_utf8(words.nth(1)?).ok()?;
    let (major, minor) = dev.split_once(':')?;
    let fs_dev = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
    let (root, point) = (unescape(words.next()?), unescape(words.next()?));
    // Optional fields end with a dash.
    let mut rest = words.skip_while(|w| *w != b"-").skip(1);
    let kind = String::from_utf8_lossy(rest.next()?).into_owned();
    let subvolume = rest.nth(1).and_then(|options| {
        options.split(|b| *b == b',').find_map(|o| number(o.strip_prefix(b"subvolid=".as_slice())?))
    });
    Some(Mount { id, fs_dev: fs_dev as i32, root, point, kind, subvolume })
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read_and_nonsense_is_left_out() {
        let text = b"24 1 254:3 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            31 24 0:42 /sub\\134x /mnt/with\\040space\\011\\012 rw - btrfs /dev/vdb rw,space_cache=v2,subvolid=256,subvol=/x\n\
            nonsense\n1 2 x:y / / rw - a b c\n7 8 1:2 /\n\xff\xfe\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        let root = Mount {
            id: 24,
            fs_dev: 254 << 20 | 3,
            root: "/".into(),
            point: "/".into(),
            kind: "ext4".into(),
            subvolume: None,
        };
        assert_eq!(mounts[0], root);
        assert_eq!((mounts[1].root.to_str(), mounts[1].subvolume), (Some("/sub\\x"), Some(256)));
        assert_eq!(mounts[1].point.to_str(), Some("/mnt/with space\t\n"));
    }
}
