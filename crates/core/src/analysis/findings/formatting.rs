//! How findings name things: who it was, amounts, times.

use crate::analysis::bursts::cells::Actor;
use crate::analysis::findings::conclusions::PathOf;
use crate::model::{Class, Origin};

/// Whose I/Os of `class` they were, in words; kernel threads by what they do.
pub(in crate::analysis) fn name_of(actor: Option<Actor>, class: Class, path_of: PathOf) -> Option<String> {
    let actor = actor?;
    let role = actor.comm.and_then(|c| kernel_thread(&c.to_text(), class, actor.origin));
    let path = actor.file.and_then(path_of);
    // The path says it better than an inode number, and the role better than the origin.
    let file = actor.file.filter(|_| path.is_none());
    let origin = if role.is_some() && actor.origin != Origin::Above { Origin::Direct } else { actor.origin };
    let who = Actor { file, origin, ..actor }.describe();
    let mut text = role.map_or_else(String::new, |r| format!("{r}, "));
    let parts: Vec<String> = who.into_iter().chain(path).collect();
    text += &parts.join(", ");
    (!text.is_empty()).then_some(text)
}

/// What the kernel's own threads are for, by their names. A `kworker` works for anybody: only what it writes out of caches is
/// write-back; what it reads, or moves past the page cache, may be for a loop device or a network server.
fn kernel_thread(comm: &str, class: Class, origin: Origin) -> Option<&'static str> {
    let is_loop = |c: &str| c.strip_prefix("loop").is_some_and(|n| n.parse::<u32>().is_ok());
    let for_others = class != Class::Write || origin.is_by_submitter();
    if for_others && (comm.starts_with("kworker") || is_loop(comm)) {
        return Some("a worker thread of the kernel");
    }
    let known = [
        ("jbd2/", "ext4's journal"),
        ("xfsaild", "XFS's log"),
        ("xfs-", "XFS"),
        ("btrfs-transacti", "Btrfs's commit"),
        ("txg_sync", "ZFS's transaction group"),
        ("z_wr", "ZFS's transaction group"),
        ("dmcrypt_write", "dm-crypt"),
        ("kworker", "the kernel's write-back"),
        ("flush-", "the kernel's write-back"),
        ("kswapd", "swapping"),
        ("md", "RAID resynchronisation"),
    ];
    let is_md = |p: &str| p != "md" || comm.contains("_resync") || comm.contains("_raid");
    known.iter().find(|(prefix, _)| comm.starts_with(prefix) && is_md(prefix)).map(|(_, role)| *role)
}

pub(in crate::analysis) fn plural(class: Class) -> &'static str {
    match class {
        Class::Read => "Reads",
        Class::Write => "Writes",
        Class::Discard => "Discards",
        Class::Flush => "Flushes",
    }
}

pub(in crate::analysis) fn singular(class: Class) -> &'static str {
    match class {
        Class::Read => "Read",
        Class::Write => "Write",
        Class::Discard => "Discard",
        Class::Flush => "Flush",
    }
}

/// 1.23 GB and the like, decimal as rates are.
pub(in crate::analysis) fn amount(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / 1e9, "GB"),
        b if b >= 1e6 => (b / 1e6, "MB"),
        b => (b / 1e3, "kB"),
    };
    format!("{value:.*} {unit}", if value < 10.0 { 2 } else { 1 })
}

/// 1.2 ms and the like.
pub(in crate::analysis) fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Comm, Inode};

    #[test]
    fn kernel_threads_are_named_by_what_they_do() {
        let actor =
            |comm: &[u8], file| Actor { tgid: Some(9), comm: Some(Comm::new(comm)), origin: Origin::Unknown, file };
        let nameless = |_: Inode| None;
        let named = |file: Inode| (file.ino == 12).then(|| "/srv/db".to_owned());
        let name = |a| name_of(Some(a), Class::Write, &nameless);
        assert_eq!(name(actor(b"jbd2/loop1-8", None)).as_deref(), Some("ext4's journal, jbd2/loop1-8 (process 9)"));
        let flusher = Actor { origin: Origin::Writeback, ..actor(b"kworker/u8:2", None) };
        assert_eq!(name(flusher).as_deref(), Some("the kernel's write-back, kworker/u8:2 (process 9)"));
        let worker = actor(b"kworker/u8:2", None);
        let image = Some(Inode { fs_dev: 1, ino: 12, generation: None });
        for origin in [Origin::Readahead, Origin::BufferedRead, Origin::Direct, Origin::Unknown, Origin::Metadata] {
            let read = name_of(Some(Actor { origin, file: image, ..worker }), Class::Read, &named);
            let expected = "a worker thread of the kernel, kworker/u8:2 (process 9), /srv/db";
            assert_eq!(read.as_deref(), Some(expected), "{origin:?}: a loop device reads its file");
        }
        let direct = name(Actor { origin: Origin::Direct, ..worker });
        assert_eq!(direct.as_deref(), Some("a worker thread of the kernel, kworker/u8:2 (process 9)"));
        let db = Some(Inode { fs_dev: 1, ino: 12, generation: None });
        let buffered = Actor { origin: Origin::Writeback, ..actor(b"dd", db) };
        assert_eq!(
            name_of(Some(buffered), Class::Write, &named).as_deref(),
            Some("buffered writes of dd (process 9), /srv/db"),
            "the process that dirtied the pages"
        );
        let nobody = Actor { tgid: None, comm: None, ..buffered };
        assert_eq!(
            name_of(Some(nobody), Class::Write, &named).as_deref(),
            Some("buffered writes of an unknown process, /srv/db"),
            "dirty before the recording"
        );
        assert_eq!(name(actor(b"fio", None)).as_deref(), Some("fio (process 9)"));
        assert_eq!(name(actor(b"mdadm", None)).as_deref(), Some("mdadm (process 9)"));
        assert_eq!(name_of(Some(actor(b"dd", db)), Class::Read, &named).as_deref(), Some("dd (process 9), /srv/db"));
        assert_eq!(name_of(None, Class::Read, &nameless), None);
    }

    #[test]
    fn amounts_and_times_read_well() {
        assert_eq!([2.2235e9, 500.1e6, 4096.0].map(amount), ["2.22 GB", "500.1 MB", "4.10 kB"]);
        assert_eq!([136_888.0, 2.5e6, 98.6].map(time), ["136.9 ms", "2.50 s", "99 us"]);
    }
}
