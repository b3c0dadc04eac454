//! The address of the server: TCP or a Unix socket.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail};

use rustix::fs::{FileType, Gid, Mode, OFlags};
use rustix::process::geteuid;

use crate::serve::restrict::restrict_to_removal;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `ADDR:PORT`.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl Listen {
    /// Loopback only: the names of all users' files must not be offered to a network by default.
    pub const DEFAULT: Listen = Listen::Tcp(SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        9950,
    ));

    /// In the syntax of `--listen`.
    pub fn argument(&self) -> String {
        match self {
            Listen::Tcp(at) => at.to_string(),
            Listen::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Listen::Tcp(at) => at.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => true,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(s: &str) -> Result<Listen, String> {
        if let Some(path) = s.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: needs a path".to_owned())
            } else {
                Ok(Listen::Unix(path.into()))
            };
        }
        let name = s.replacen("localhost:", "127.0.0.1:", 1);
        name.parse()
            .map(Listen::Tcp)
            .map_err(|_| "expected ADDR:PORT, [ADDR]:PORT or unix:PATH".to_owned())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(at) => write!(f, "http://{at}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub enum Bound {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, reachable as long as its [`SocketFile`] exists.
    Unix(UnixListener),
}

/// The file of a Unix socket, removed when dropped. This also works in a process that may only write below its root:
/// a thread that may do nothing but remove the file waits for the drop.
#[derive(Debug)]
pub struct SocketFile {
    /// Dropping it makes the thread remove the file.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SocketFile {
    fn new(path: &Path) -> Result<SocketFile> {
        let path = std::path::absolute(path)?;
        let own = id(&path).with_context(|| format!("{} was removed", path.display()))?;
        let (end, ended) = channel::<()>();
        let builder = std::thread::Builder::new().name("iolens-socket".to_owned());
        let thread = builder.spawn(move || {
            let directory = path.parent().unwrap_or(&path);
            if let Err(e) = restrict_to_removal(directory) {
                eprintln!("iolens: {}: its socket stays behind: {e:#}", path.display());
                return;
            }
            // Nothing is sent: this returns when the other end is dropped.
            let _ = ended.recv();
            // Another server may have put its socket there.
            if id(&path) == Some(own) {
                drop(std::fs::remove_file(&path));
            }
        });
        let thread = thread.context("the thread that removes the socket could not be started")?;
        Ok(SocketFile {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        drop(self.end.take());
        // If that thread panics, the file stays, and the next start replaces it.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Device and inode of a file.
fn id(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path)
        .ok()
        .map(|m| (m.dev(), m.ino()))
}

impl Bound {
    /// Binds. The file of a socket without a server is replaced. It gets `mode` and `group`, whose members may then
    /// connect.
    ///
    /// # Errors
    /// The address is in use or does not belong to this machine, or the path is something other than a socket.
    pub fn new(
        listen: &Listen,
        mode: u32,
        group: Option<u32>,
    ) -> Result<(Bound, Option<SocketFile>)> {
        match listen {
            Listen::Tcp(at) => {
                let listener = TcpListener::bind(at);
                let listener = listener.with_context(|| {
                    format!("{at} cannot be listened on; give another address with --listen")
                })?;
                listener.set_nonblocking(true)?;
                Ok((Bound::Tcp(listener), None))
            }
            Listen::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path);
                let listener =
                    listener.with_context(|| format!("{} cannot be made", path.display()))?;
                let file = SocketFile::new(path)?;
                set_socket_mode(path, mode, group)?;
                listener.set_nonblocking(true)?;
                Ok((Bound::Unix(listener), Some(file)))
            }
        }
    }

    /// The address; if port 0 was requested, with the port that the kernel chose.
    pub fn place(&self) -> Option<Listen> {
        match self {
            Bound::Tcp(listener) => listener.local_addr().ok().map(Listen::Tcp),
            Bound::Unix(listener) => Some(Listen::Unix(
                listener.local_addr().ok()?.as_pathname()?.to_owned(),
            )),
        }
    }
}

/// Sets the mode and group of the socket at `path`. The opened file is checked and then changed, so that a file put
/// there instead is never changed.
fn set_socket_mode(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    let problem = format!("{}: its mode cannot be set", path.display());
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(path, how, Mode::empty()).context(problem.clone())?;
    let stat = rustix::fs::fstat(&socket).context(problem.clone())?;
    let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    if !is_socket || stat.st_uid != geteuid().as_raw() {
        bail!("{}: the socket was replaced meanwhile", path.display());
    }
    // `fchmod` does not work on an `O_PATH` descriptor; its link in /proc refers to the same file.
    let itself = format!("/proc/self/fd/{}", socket.as_raw_fd());
    if let Some(group) = group {
        let given = rustix::fs::chown(&*itself, None, Some(Gid::from_raw(group)));
        given.with_context(|| format!("{} cannot be given to group {group}", path.display()))?;
    }
    rustix::fs::chmod(&*itself, Mode::from_raw_mode(mode)).context(problem)
}

/// Removes a socket that no process listens on. Removes nothing else.
fn remove_stale(path: &Path) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !meta.file_type().is_socket() {
        bail!(
            "{}: exists and is no socket; give another path with --listen",
            path.display()
        );
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!(
            "{}: another server listens here; give another path with --listen",
            path.display()
        ),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| format!("{} cannot be removed", path.display())),
        // It was removed in the meantime.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        // A process may be listening: with another type of socket, or not accessible to this user.
        Err(e) => bail!(
            "{}: another server may listen here ({e}); give another path with --listen",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn places_are_addresses_or_sockets() {
        assert_eq!("127.0.0.1:9950".parse(), Ok(Listen::DEFAULT));
        assert_eq!("localhost:9950".parse(), Ok(Listen::DEFAULT));
        assert_eq!("unix:/run/x".parse(), Ok(Listen::Unix("/run/x".into())));
        let local = |s: &str| s.parse::<Listen>().expect("a place").is_local();
        assert!(
            local("127.9.9.9:1")
                && local("[::1]:1")
                && local("unix:x")
                && local("[::ffff:127.0.0.1]:1")
        );
        assert!(!local("0.0.0.0:1") && !local("[::]:1") && !local("10.0.0.1:1"));
        assert!(
            ["", "9950", "unix:", "host:1", "1.2.3.4", "1.2.3.4:99999"]
                .iter()
                .all(|s| s.parse::<Listen>().is_err())
        );
    }

    /// Waits until no process listens at `path` any more: a program that another test starts has a copy of every open file until
    /// it runs.
    fn left_behind(path: &Path) {
        let is_refused = |e: std::io::Error| e.kind() == ErrorKind::ConnectionRefused;
        while !UnixStream::connect(path).is_err_and(is_refused) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("s");
        let at = Listen::Unix(path.clone());
        let new = || Bound::new(&at, 0o600, None);
        let refusal = || format!("{:#}", new().expect_err("refused"));
        let first = new().expect("new");
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!((mode & 0o777, first.0.place()), (0o600, Some(at.clone())));
        assert!(refusal().contains("another server"));
        drop(first);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).expect("binds"));
        left_behind(&path);
        drop(new().expect("left over by a killed one"));
        let datagrams = UnixDatagram::bind(&path).expect("binds");
        assert!(
            refusal().contains("another server may listen"),
            "it takes no streams"
        );
        drop(datagrams);
        left_behind(&path);
        drop(new().expect("left over by a killed one"));
        std::fs::write(&path, "letter").expect("writes");
        assert!(refusal().contains("is no socket"));
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "letter");
    }

    #[test]
    fn the_mode_of_what_a_link_leads_to_stays() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = tmp.path().join("file");
        let socket = tmp.path().join("socket");
        std::fs::write(&file, "").expect("writes");
        let _listener = UnixListener::bind(&socket).expect("binds");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        for target in [&file, &socket] {
            let link = tmp.path().join("link");
            symlink(target, &link).expect("links");
            let before = mode(target);
            assert!(set_socket_mode(&link, 0o603, None).is_err());
            assert_eq!(mode(target), before);
            std::fs::remove_file(&link).expect("removes");
        }
        assert!(set_socket_mode(&file, 0o603, None).is_err());
        set_socket_mode(&socket, 0o603, None).expect("a socket of this user");
        assert_eq!(mode(&socket) & 0o777, 0o603);
    }

    #[test]
    fn its_end_removes_no_socket_but_its_own() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("s");
        let first = Bound::new(&Listen::Unix(path.clone()), 0o600, None).expect("new");
        std::fs::rename(&path, tmp.path().join("moved")).expect("moves");
        let second = UnixListener::bind(&path).expect("binds");
        drop(first);
        assert!(path.exists());
        drop(second);
    }
}
