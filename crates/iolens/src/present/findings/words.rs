//! How findings name causes, classes and times.

use iolens_core::analysis::bursts::cells::IoActor;
use iolens_core::analysis::findings::Cause;
use iolens_core::model::{Class, DevId, KernelThread, Origin};

use crate::present::layout::scaled;

/// The cause: the process and its file; for kernel threads their role.
pub fn name(cause: &Cause) -> String {
    let actor = cause.actor;
    let role = actor
        .comm
        .and_then(|comm| comm.kernel_thread())
        .and_then(|thread| role_of(thread, cause.class, actor.origin));
    // A path is better than an inode number, and the role is better than the origin.
    let file = actor.file.filter(|_| cause.path.is_none());
    let origin = if role.is_some() && actor.origin != Origin::Above {
        Origin::Direct
    } else {
        actor.origin
    };
    let who = process(&IoActor {
        file,
        origin,
        ..actor
    });
    let parts = [role.map(str::to_owned), who, cause.path.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The actor without its role, e.g. `fio (process 12)` or `buffered writes of dd (process 12), inode 12 on 8:1`.
fn process(actor: &IoActor) -> Option<String> {
    let file = actor
        .file
        .map(|f| format!("inode {} on {}", f.ino, DevId(f.fs_dev)));
    let who = match (actor.comm, actor.tgid) {
        (Some(comm), Some(tgid)) => format!("{} (process {tgid})", comm.to_text()),
        (Some(comm), None) => comm.to_text().into_owned(),
        (None, Some(tgid)) => format!("process {tgid}"),
        (None, None) if matches!(actor.origin, Origin::Writeback | Origin::Above) => {
            "an unknown process".to_owned()
        }
        (None, None) => return file,
    };
    let file = file.map_or_else(String::new, |f| format!(", {f}"));
    Some(match actor.origin {
        Origin::Writeback => format!("buffered writes of {who}{file}"),
        Origin::Metadata => format!("file-system metadata by {who}"),
        Origin::Journal => format!("the file system's journal for {who}"),
        Origin::BufferedRead => format!("buffered reads of {who}{file}"),
        Origin::Readahead => format!("read-ahead for {who}{file}"),
        Origin::Above => format!("{who}{file}, matched on the device above"),
        Origin::Direct | Origin::Unknown => format!("{who}{file}"),
    })
}

/// The role of a kernel thread. A worker works for any program: only what it writes from caches is write-back; what
/// it reads, or transfers without the page cache, may be for a loop device or a network server.
pub(in crate::present) fn role_of(
    thread: KernelThread,
    class: Class,
    origin: Origin,
) -> Option<&'static str> {
    let is_for_others = class != Class::Write || origin.is_by_submitter();
    match thread {
        KernelThread::Worker | KernelThread::Loop if is_for_others => {
            Some("a worker thread of the kernel")
        }
        KernelThread::Worker | KernelThread::Flusher => Some("the kernel's write-back"),
        KernelThread::Swapper => Some("swapping"),
        KernelThread::Journal => Some("ext4's journal"),
        KernelThread::XfsLog => Some("XFS's log"),
        KernelThread::Xfs => Some("XFS"),
        KernelThread::Btrfs => Some("Btrfs"),
        KernelThread::Zfs => Some("ZFS's transaction group"),
        KernelThread::F2fs => Some("F2FS"),
        KernelThread::Ext4Init => Some("ext4's inode tables"),
        KernelThread::Raid => Some("RAID"),
        KernelThread::RaidSync => Some("RAID resynchronisation"),
        KernelThread::DmCrypt => Some("dm-crypt"),
        KernelThread::DeviceMapper => Some("the device mapper"),
        KernelThread::Vdo => Some("VDO"),
        KernelThread::Loop | KernelThread::Other => None,
    }
}

/// ` by fio (process 12)`: of an I/O that stands out; empty if nothing is known.
pub fn by(comm: Option<&str>, pid: Option<i32>) -> String {
    match (comm, pid) {
        (Some(comm), Some(pid)) => format!(" by {comm} (process {pid})"),
        (Some(comm), None) => format!(" by {comm}"),
        (None, Some(pid)) => format!(" by process {pid}"),
        (None, None) => String::new(),
    }
}

/// I/Os of a class, at the start of a sentence.
pub fn plural(class: Class) -> &'static str {
    match class {
        Class::Read => "Reads",
        Class::Write => "Writes",
        Class::Discard => "Discards",
        Class::Flush => "Flushes",
    }
}

/// An I/O of a class, at the start of a sentence.
pub fn singular(class: Class) -> &'static str {
    match class {
        Class::Read => "Read",
        Class::Write => "Write",
        Class::Discard => "Discard",
        Class::Flush => "Flush",
    }
}

/// A time in microseconds: `86 us`, `1.2 ms`, `2.50 s`.
pub fn time(us: f64) -> String {
    match scaled(us, &["us", "ms", "s"]) {
        (value, "us") => format!("{value:.0} us"),
        (value, "ms") => format!("{value:.1} ms"),
        (value, unit) => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{Comm, Inode};

    #[test]
    fn kernel_threads_are_named_by_what_they_do() {
        let actor = |comm: &[u8], file| IoActor {
            tgid: Some(9),
            comm: Some(Comm::new(comm)),
            origin: Origin::Unknown,
            file,
        };
        let named = |actor: IoActor, class: Class, path: Option<&str>| {
            name(&Cause {
                actor,
                class,
                path: path.map(str::to_owned),
            })
        };
        let write = |a| named(a, Class::Write, None);
        assert_eq!(
            write(actor(b"jbd2/loop1-8", None)),
            "ext4's journal, jbd2/loop1-8 (process 9)"
        );
        let worker = actor(b"kworker/u8:2", None);
        let flusher = IoActor {
            origin: Origin::Writeback,
            ..worker
        };
        assert_eq!(
            write(flusher),
            "the kernel's write-back, kworker/u8:2 (process 9)"
        );
        let db = Some(Inode {
            fs_dev: 8 << 20 | 1,
            ino: 34,
            generation: Some(7),
        });
        for origin in [
            Origin::Readahead,
            Origin::BufferedRead,
            Origin::Direct,
            Origin::Unknown,
            Origin::Metadata,
        ] {
            let read = named(
                IoActor {
                    origin,
                    file: db,
                    ..worker
                },
                Class::Read,
                Some("/srv/db"),
            );
            let expected = "a worker thread of the kernel, kworker/u8:2 (process 9), /srv/db";
            assert_eq!(read, expected, "{origin:?}: a loop device reads its file");
        }
        let direct = write(IoActor {
            origin: Origin::Direct,
            ..worker
        });
        assert_eq!(
            direct,
            "a worker thread of the kernel, kworker/u8:2 (process 9)"
        );
        assert_eq!(write(actor(b"fio", None)), "fio (process 9)");
        assert_eq!(write(actor(b"mdadm", None)), "mdadm (process 9)");
        assert_eq!(
            named(actor(b"dd", db), Class::Read, Some("/srv/db")),
            "dd (process 9), /srv/db"
        );
    }

    #[test]
    fn buffered_io_is_named_by_who_made_it_and_by_its_file() {
        let file = Some(Inode {
            fs_dev: 8 << 20 | 1,
            ino: 34,
            generation: Some(7),
        });
        let dd = IoActor {
            tgid: Some(12),
            comm: Some(Comm::new(b"dd")),
            origin: Origin::Writeback,
            file,
        };
        let with_path = |actor| {
            name(&Cause {
                actor,
                class: Class::Write,
                path: Some("/srv/db".to_owned()),
            })
        };
        let words = |actor| {
            name(&Cause {
                actor,
                class: Class::Write,
                path: None,
            })
        };
        assert_eq!(
            with_path(dd),
            "buffered writes of dd (process 12), /srv/db",
            "the process that dirtied the pages"
        );
        assert_eq!(
            words(dd),
            "buffered writes of dd (process 12), inode 34 on 8:1"
        );
        let unknown = IoActor {
            tgid: None,
            comm: None,
            ..dd
        };
        assert_eq!(
            with_path(unknown),
            "buffered writes of an unknown process, /srv/db",
            "dirty before the recording"
        );
        assert_eq!(
            words(unknown),
            "buffered writes of an unknown process, inode 34 on 8:1"
        );
        assert_eq!(
            words(IoActor {
                origin: Origin::Direct,
                ..unknown
            }),
            "inode 34 on 8:1"
        );
        let read = IoActor {
            origin: Origin::BufferedRead,
            file: None,
            ..dd
        };
        assert_eq!(words(read), "buffered reads of dd (process 12)");
        assert_eq!(
            words(IoActor {
                origin: Origin::Readahead,
                ..read
            }),
            "read-ahead for dd (process 12)"
        );
        let above = IoActor {
            origin: Origin::Above,
            ..read
        };
        assert_eq!(words(above), "dd (process 12), matched on the device above");
    }

    #[test]
    fn times_read_well() {
        assert_eq!(
            [136_888.0, 2.5e6, 98.6].map(time),
            ["136.9 ms", "2.50 s", "99 us"]
        );
        assert_eq!(
            [999.4, 999.6, 999_400.0, 999_960.0].map(time),
            ["999 us", "1.0 ms", "999.4 ms", "1.00 s"]
        );
    }
}
