//! A disk of known speed without hardware: one file on a FUSE file system, where every request takes a programmed time,
//! under a loop device with direct I/O. It contains zeros, or the data written to it. It logs the actual times, which
//! on a busy machine are longer than programmed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEntry, ReplyWrite, Request, WriteFlags,
};
use iolens_observe::counters::monotonic_ns;

use super::machine::{LoopDevice, unmount};

const NAME: &str = "disk";
const TTL: Duration = Duration::from_secs(3600);

/// The actual times of one request: its arrival and its reply, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    pub from_ns: i64,
    pub to_ns: i64,
    /// The programmed time.
    pub programmed_ns: i64,
}

struct Job {
    from_ns: i64,
    due_ns: i64,
    programmed_ns: i64,
    reply: Box<dyn FnOnce() + Send>,
}

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The state of a disk that keeps data: the data in memory, and when it will have served all requests so far.
struct Store {
    data: File,
    ns_per_byte: u64,
    free_ns: Mutex<i64>,
}

/// Service time of the n-th request.
pub type Programme = fn(usize) -> Duration;

struct OneFile {
    size: u64,
    programme: Programme,
    requests: AtomicUsize,
    jobs: Mutex<Sender<Job>>,
    prompt: Once,
    store: Option<Store>,
}

impl OneFile {
    /// Replies after the request's time, counted from its arrival. On a disk that keeps data, the time is counted from
    /// the end of the previous request and includes a time per byte.
    fn answer(&self, from_ns: i64, bytes: usize, reply: Box<dyn FnOnce() + Send>) {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut programmed_ns = (self.programme)(n).as_nanos() as i64;
        let mut due_ns = from_ns + programmed_ns;
        if let Some(store) = &self.store {
            programmed_ns += bytes as i64 * store.ns_per_byte as i64;
            let mut free_ns = store.free_ns.lock().unwrap();
            due_ns = from_ns.max(*free_ns) + programmed_ns;
            *free_ns = due_ns;
        }
        self.jobs
            .lock()
            .unwrap()
            .send(Job {
                from_ns,
                due_ns,
                programmed_ns,
                reply,
            })
            .unwrap();
    }

    fn attributes(&self, ino: u64) -> FileAttr {
        let (kind, perm, size) = if ino == 1 {
            (FileType::Directory, 0o755, 0)
        } else {
            (FileType::RegularFile, 0o600, self.size)
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
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without asynchronous direct I/O a loop device submits one request at a time.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.prompt.call_once(prefer_this_thread);
        match name == NAME {
            true => reply.entry(&TTL, &self.attributes(2), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(ino.into()));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let from_ns = monotonic_ns();
        let bytes = size as usize;
        let Some(store) = &self.store else {
            return self.answer(
                from_ns,
                bytes,
                Box::new(move || reply.data(&ZEROS[..bytes])),
            );
        };
        let mut data = vec![0; bytes];
        match store.data.read_exact_at(&mut data, offset) {
            Ok(()) => self.answer(from_ns, bytes, Box::new(move || reply.data(&data))),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let from_ns = monotonic_ns();
        let bytes = data.len();
        match self
            .store
            .as_ref()
            .map(|s| s.data.write_all_at(data, offset))
        {
            Some(Ok(())) => self.answer(
                from_ns,
                bytes,
                Box::new(move || reply.written(bytes as u32)),
            ),
            Some(Err(_)) => reply.error(Errno::EIO),
            None => reply.error(Errno::EROFS),
        }
    }
}

/// A real disk does not wait for a CPU. If a real-time priority is not allowed, the logged times are still exact.
fn prefer_this_thread() {
    let tid = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt").args(["-f", "-p", "50", &tid]).output();
}

fn serve(jobs: &Mutex<Receiver<Job>>, log: &Mutex<Vec<Served>>) {
    prefer_this_thread();
    loop {
        let Ok(job) = jobs.lock().unwrap().recv() else {
            return;
        };
        let left = job.due_ns - monotonic_ns();
        std::thread::sleep(Duration::from_nanos(left.max(0) as u64));
        // Logged before the reply, because the test may read the log as soon as it has the reply.
        let served = Served {
            from_ns: job.from_ns,
            to_ns: monotonic_ns(),
            programmed_ns: job.programmed_ns,
        };
        log.lock().unwrap().push(served);
        (job.reply)();
    }
}

/// The disk, which is removed when dropped.
pub struct CalibratedDisk {
    pub device: Option<LoopDevice>,
    session: Option<BackgroundSession>,
    servers: Vec<JoinHandle<()>>,
    log: Arc<Mutex<Vec<Served>>>,
    mount: tempfile::TempDir,
}

impl CalibratedDisk {
    /// Serves `servers` requests at a time, each for the time that `programme` returns, counted from its arrival.
    /// `None`, with a message, if the machine has no FUSE or no loop devices.
    pub fn new(mib: u64, servers: usize, programme: Programme) -> Option<CalibratedDisk> {
        CalibratedDisk::with(mib, servers, programme, None)
    }

    /// A disk that keeps data in memory and serves one request after the other: each takes the time of `programme` plus
    /// `ns_per_byte`, counted from the end of the previous one.
    pub fn keeping_data(
        mib: u64,
        programme: Programme,
        ns_per_byte: u64,
    ) -> Option<CalibratedDisk> {
        let data = tempfile::tempfile_in("/dev/shm").and_then(|f| f.set_len(mib << 20).map(|()| f));
        match data {
            Ok(data) => {
                let store = Store {
                    data,
                    ns_per_byte,
                    free_ns: Mutex::new(0),
                };
                CalibratedDisk::with(mib, 1, programme, Some(store))
            }
            Err(e) => {
                eprintln!("SKIP: no disk in memory: {e}");
                None
            }
        }
    }

    fn with(
        mib: u64,
        servers: usize,
        programme: Programme,
        store: Option<Store>,
    ) -> Option<CalibratedDisk> {
        let mount = tempfile::tempdir().unwrap();
        let (jobs, asked) = channel();
        let file = OneFile {
            size: mib << 20,
            programme,
            requests: AtomicUsize::new(0),
            jobs: Mutex::new(jobs),
            prompt: Once::new(),
            store,
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("programmed".to_owned())];
        let session = match fuser::spawn_mount(file, mount.path(), &config) {
            Ok(session) => session,
            Err(e) => {
                eprintln!("SKIP: no FUSE: {e}");
                return None;
            }
        };
        let asked = Arc::new(Mutex::new(asked));
        let log = Arc::new(Mutex::new(Vec::new()));
        let server = || {
            let asked = Arc::clone(&asked);
            let log = Arc::clone(&log);
            std::thread::spawn(move || serve(&asked, &log))
        };
        let servers = (0..servers).map(|_| server()).collect();
        let path: PathBuf = mount.path().join(NAME);
        let device = LoopDevice::over(path, &["--direct-io=on", "--sector-size=4096"]);
        let disk = CalibratedDisk {
            device,
            session: Some(session),
            servers,
            log,
            mount,
        };
        disk.device.is_some().then_some(disk)
    }

    /// Loop device on top of the disk.
    pub fn device(&self) -> &LoopDevice {
        self.device.as_ref().unwrap()
    }

    /// The requests served so far, in the order of replies.
    pub fn take_log(&self) -> Vec<Served> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl Drop for CalibratedDisk {
    fn drop(&mut self) {
        self.device = None;
        let unmounted = self
            .session
            .take()
            .map_or(Ok(()), BackgroundSession::umount_and_join);
        if unmounted.is_err() {
            // Its threads may still wait for requests, so joining them could block for ever.
            return unmount(self.mount.path());
        }
        for server in self.servers.drain(..) {
            let _ = server.join();
        }
    }
}
