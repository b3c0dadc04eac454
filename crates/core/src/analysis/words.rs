//! How findings name things: who it was, amounts, times.

use super::cells::Actor;
use super::conclusions::PathOf;
use crate::model::{Class, Origin};

/// Who it was, in words; kernel threads by what they do.
pub(super) fn name_of(actor: Option<Actor>, path_of: PathOf) -> Option<String> {
    let actor = actor?;
    let role = actor.comm.and_then(|c| kernel_writer(&c.to_text()));
    let path = actor.file.and_then(|(dev, ino)| path_of(dev, ino));
    // The path says it better than an inode number, and the role better than the origin.
    let file = actor.file.filter(|_| path.is_none());
    let origin = if role.is_some() { Origin::Direct } else { actor.origin };
    let who = Actor { file, origin, ..actor }.describe();
    let mut text = role.map_or_else(String::new, |r| format!("{r}, "));
    let parts: Vec<String> = who.into_iter().chain(path).collect();
    text += &parts.join(", ");
    (!text.is_empty()).then_some(text)
}

/// What the kernel's own writers are for, by the names of their threads.
fn kernel_writer(comm: &str) -> Option<&'static str> {
    let known = [
        ("jbd2/", "ext4's journal"),
        ("xfsaild", "XFS's log"),
        ("xfs-", "XFS"),
        ("btrfs-transacti", "Btrfs's commit"),
        ("txg_sync", "ZFS's transaction group"),
        ("z_wr", "ZFS's transaction group"),
        ("kworker", "the kernel's write-back"),
        ("flush-", "the kernel's write-back"),
        ("kswapd", "swapping"),
        ("md", "RAID resynchronisation"),
    ];
    let is_md = |p: &str| p != "md" || comm.contains("_resync") || comm.contains("_raid");
    known.iter().find(|(prefix, _)| comm.starts_with(prefix) && is_md(prefix)).map(|(_, role)| *role)
}

pub(super) fn plural(class: Class) -> &'static str {
    match class {
        Class::Read => "Reads",
        Class::Write => "Writes",
        Class::Discard => "Discards",
        Class::Flush => "Flushes",
    }
}

/// 1.23 GB and the like, decimal as rates are.
pub(super) fn amount(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / 1e9, "GB"),
        b if b >= 1e6 => (b / 1e6, "MB"),
        b => (b / 1e3, "kB"),
    };
    format!("{value:.*} {unit}", if value < 10.0 { 2 } else { 1 })
}

/// 1.2 ms and the like.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Comm;

    #[test]
    fn kernel_threads_are_named_by_what_they_do() {
        let actor =
            |comm: &[u8], file| Actor { tgid: Some(9), comm: Some(Comm::new(comm)), origin: Origin::Unknown, file };
        let nameless = |_: i32, _: i64| None;
        let named = |_: i32, ino: i64| (ino == 12).then(|| "/srv/db".to_owned());
        let name = |a| name_of(Some(a), &nameless);
        assert_eq!(name(actor(b"jbd2/loop1-8", None)).as_deref(), Some("ext4's journal, jbd2/loop1-8 (process 9)"));
        let flusher = Actor { origin: Origin::Writeback, ..actor(b"kworker/u8:2", None) };
        assert_eq!(name(flusher).as_deref(), Some("the kernel's write-back, kworker/u8:2 (process 9)"));
        let buffered = Actor { origin: Origin::Writeback, ..actor(b"dd", Some((1, 12))) };
        assert_eq!(
            name_of(Some(buffered), &named).as_deref(),
            Some("buffered writes of dd (process 9), /srv/db"),
            "whoever dirtied the pages"
        );
        let nobody = Actor { tgid: None, comm: None, ..buffered };
        assert_eq!(
            name_of(Some(nobody), &named).as_deref(),
            Some("buffered writes of an unknown process, /srv/db"),
            "dirty before the recording"
        );
        assert_eq!(name(actor(b"fio", None)).as_deref(), Some("fio (process 9)"));
        assert_eq!(name(actor(b"mdadm", None)).as_deref(), Some("mdadm (process 9)"));
        assert_eq!(name_of(Some(actor(b"dd", Some((1, 12)))), &named).as_deref(), Some("dd (process 9), /srv/db"));
        assert_eq!(name_of(None, &nameless), None);
    }

    #[test]
    fn amounts_and_times_read_well() {
        assert_eq!([2.2235e9, 500.1e6, 4096.0].map(amount), ["2.22 GB", "500.1 MB", "4.10 kB"]);
        assert_eq!([136_888.0, 2.5e6, 98.6].map(time), ["136.9 ms", "2.50 s", "99 us"]);
    }
}
