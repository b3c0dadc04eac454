//! A file system with two files: "slow", whose calls are interrupted by signals in turn, and "lazy", whose first reads
//! take long and are then cached.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::process::{Pid, Signal, kill_process};

const SLOW: u64 = 2;
const LAZY: u64 = 3;
/// How long reading from "lazy" takes.
pub const LAZINESS: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(3600);

/// What happens to a call.
enum Turn {
    Whole,
    Interrupted,
    Half,
}

#[derive(Default)]
struct Impatient {
    opens: AtomicUsize,
    reads: AtomicUsize,
    writes: AtomicUsize,
    syncs: AtomicUsize,
}

/// Every third call is interrupted, and every third transfers half of the data.
fn turn(calls: &AtomicUsize) -> Turn {
    match calls.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => Turn::Whole,
        1 => Turn::Interrupted,
        _ => Turn::Half,
    }
}

/// Signals the caller, which waits in its call. Returns the error with which the call then ends.
fn interrupt(caller: &Request) -> Errno {
    std::thread::sleep(Duration::from_millis(1));
    if let Some(pid) = Pid::from_raw(caller.pid() as i32) {
        let _ = kill_process(pid, Signal::USR1);
    }
    Errno::EINTR
}

fn attributes(ino: u64) -> FileAttr {
    let (kind, perm, size) = if ino == 1 {
        (FileType::Directory, 0o755, 0)
    } else {
        (FileType::RegularFile, 0o600, 1 << 20)
    };
    let never = UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size / 512,
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

impl Filesystem for Impatient {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("slow") => reply.entry(&TTL, &attributes(SLOW), Generation(0)),
            Some("lazy") => reply.entry(&TTL, &attributes(LAZY), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino.into()));
    }

    /// Interrupts only the first open of "slow". Uses direct I/O, so that every call arrives here.
    fn open(&self, caller: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if u64::from(ino) == LAZY {
            return reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
        match self.opens.fetch_add(1, Ordering::Relaxed) {
            0 => reply.error(interrupt(caller)),
            _ => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
        }
    }

    fn read(
        &self,
        caller: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let zeros = vec![0; size as usize];
        if u64::from(ino) == LAZY {
            std::thread::sleep(LAZINESS);
            return reply.data(&zeros);
        }
        match turn(&self.reads) {
            Turn::Whole => reply.data(&zeros),
            Turn::Interrupted => reply.error(interrupt(caller)),
            Turn::Half => reply.data(&zeros[..zeros.len() / 2]),
        }
    }

    fn write(
        &self,
        caller: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match turn(&self.writes) {
            Turn::Whole => reply.written(data.len() as u32),
            Turn::Interrupted => reply.error(interrupt(caller)),
            Turn::Half => reply.written(data.len() as u32 / 2),
        }
    }

    fn fsync(&self, caller: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match turn(&self.syncs) {
            Turn::Interrupted => reply.error(interrupt(caller)),
            _ => reply.ok(),
        }
    }

    /// Closing a descriptor.
    fn flush(
        &self,
        caller: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        if u64::from(ino) == LAZY {
            return reply.ok();
        }
        reply.error(interrupt(caller));
    }
}

/// Mounts it; unmounted when dropped. `None`, with a message, where the machine has no FUSE.
pub fn mounted(at: &Path) -> Option<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("impatient".to_owned())];
    fuser::spawn_mount(Impatient::default(), at, &config)
        .inspect_err(|e| eprintln!("SKIP: no FUSE: {e}"))
        .ok()
}
