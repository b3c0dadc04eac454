//! Locks a root for a single recorder.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::http::{Listen, is_token, new_token};
use anyhow::{Context as _, Result, bail};
use iolens_core::private::{Access, PrivateDir, refuse_foreign_parents};
use iolens_core::store::Root;
use rustix::fs::{FlockOperation, OFlags, flock};

const LOCK: &str = "lock";
/// File with the secret; readable by users who may read the recordings.
const TOKEN: &str = "token";
/// File with the address of the service, in the syntax of `--listen`. It exists while the service runs, and after a
/// kill.
const ADDRESS: &str = "address";

/// Reads the secret of the service that records into `root`.
///
/// # Errors
/// There is no secret, or this user may not read it.
pub fn read_token(root: &Path) -> Result<Vec<u8>> {
    let path = root.join(TOKEN);
    let token = std::fs::read(&path).with_context(|| {
        format!(
            "{} cannot be read; is this the root of the service, and may you read its recordings?",
            path.display()
        )
    })?;
    let token = token.trim_ascii();
    if !is_token(token) {
        bail!(
            "{}: holds no token; start the service again, which makes one",
            path.display()
        );
    }
    Ok(token.to_vec())
}

/// The address of the service that records into `root`; `None` if it has not written one.
///
/// # Errors
/// This user may not read the file, or its content is not an address.
pub fn read_address(root: &Path) -> Result<Option<Listen>> {
    let path = root.join(ADDRESS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| format!("{} cannot be read", path.display())),
    };
    match text.trim().parse() {
        Ok(address) => Ok(Some(address)),
        Err(e) => bail!("{}: {e}", path.display()),
    }
}

/// A root locked by this process, until it is dropped or the process ends.
#[derive(Debug)]
pub struct LockedRoot {
    dir: PrivateDir,
    lock: File,
}

impl Drop for LockedRoot {
    /// Unlocks explicitly: a child process has a copy of the descriptor until its exec, and would hold the lock until
    /// then.
    fn drop(&mut self) {
        // The file does not exist if the service never listened.
        let _ = self.dir.remove_file(ADDRESS);
        // If this fails, the lock ends when the file is closed.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl LockedRoot {
    /// Creates the recording root `path`, or opens an existing one, and locks it.
    ///
    /// # Errors
    /// It is not a root, another user can write to it or to a parent directory, or it is already locked.
    pub fn open(path: &Path, access: Access) -> Result<LockedRoot> {
        let (dir, is_new) = directory(path, access)
            .with_context(|| format!("{} cannot be a recording root", path.display()))?;
        if !is_new && !path.join(LOCK).exists() && Root::open(path)?.is_none() {
            bail!(
                "{}: holds something else than recordings; give a directory of its own",
                path.display()
            );
        }
        let lock = lock(&dir)?;
        Ok(LockedRoot { dir, lock })
    }

    /// Whether the directory is still at its path. It may have been removed or moved.
    pub fn is_there(&self) -> bool {
        let own = self.lock.metadata();
        let there = fs::symlink_metadata(self.dir.path().join(LOCK));
        match (own, there) {
            (Ok(own), Ok(there)) => own.dev() == there.dev() && own.ino() == there.ino(),
            _ => false,
        }
    }

    /// The secret for clients that may see names and change something. It is created with the root and kept. If it
    /// cannot be written, for example on a full disk, a secret for this run only is returned.
    ///
    /// # Errors
    /// The system cannot provide random numbers.
    pub fn token(&self) -> Result<Vec<u8>> {
        if let Ok(token) = read_token(self.dir.path()) {
            return Ok(token);
        }
        let token = new_token()?;
        if let Err(e) = self.dir.replace(TOKEN, &[&token[..], b"\n"].concat()) {
            let path = self.dir.path().join(TOKEN);
            eprintln!("iolens: {}: cannot be written: {e}", path.display());
        }
        Ok(token)
    }

    /// Writes the address of the service to a file for other programs. Reports an error on standard error.
    pub fn note_address(&self, address: &Listen) {
        let text = format!("{}\n", address.argument());
        if let Err(e) = self.dir.replace(ADDRESS, text.as_bytes()) {
            // The address of an earlier service is obsolete.
            let _ = self.dir.remove_file(ADDRESS);
            let path = self.dir.path().join(ADDRESS);
            eprintln!("iolens: {}: cannot be written: {e}", path.display());
        }
    }

    /// Creates or opens the directory of `host`. Returns its path.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn host(&self, host: &str) -> Result<std::path::PathBuf> {
        let name = Root::host_directory(host);
        let path = self.dir.path().join(&name);
        self.dir
            .make_dir(&name)
            .with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(path)
    }
}

/// Creates or opens the directory at `path`. Also returns whether it is empty.
fn directory(path: &Path, access: Access) -> Result<(PrivateDir, bool)> {
    if !path.exists() {
        refuse_foreign_parents(path)?;
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        PrivateDir::create(path, access)?;
    }
    let dir = PrivateDir::open_for_good(path, access)?;
    let mut entries = fs::read_dir(path)?.flatten();
    // The root of a file system contains this directory.
    let is_new = entries.all(|entry| entry.file_name() == "lost+found");
    Ok((dir, is_new))
}

fn lock(dir: &PrivateDir) -> Result<File> {
    let path = dir.path().join(LOCK);
    // The file may exist already; only the lock on it matters.
    drop(dir.create_file(LOCK));
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits())?;
    let opened = File::options()
        .read(true)
        .write(true)
        .custom_flags(nofollow)
        .open(&path);
    let mut file = opened.with_context(|| format!("{} cannot be opened", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            drop((&file).take(32).read_to_string(&mut pid));
            let by = pid
                .trim()
                .parse::<u32>()
                .map_or(String::new(), |pid| format!(" (process {pid})"));
            bail!(
                "{}: another iolens serve records into it{by}; stop that one or give another --rec",
                dir.path().display()
            );
        }
        Err(e) => return Err(e).with_context(|| format!("{} cannot be locked", path.display())),
    }
    let noted = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        format!(
            "{:#}",
            LockedRoot::open(path, Access::OWNER).expect_err("refused")
        )
    }

    #[test]
    fn one_recorder_at_a_time_and_the_next_one_after_it() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let path = tmp.path().join("deep/root");
        let first = LockedRoot::open(&path, Access::OWNER).expect("new");
        let said = refusal(&path);
        assert!(
            said.contains(&format!("process {}", std::process::id())) && !said.contains('\n'),
            "{said}"
        );
        let token = first.token().expect("makes");
        assert_eq!(first.token().expect("reads"), token);
        assert_eq!(read_token(&path).expect("reads"), token);
        assert!(token.len() >= 32);
        fs::write(path.join(TOKEN), "\n").expect("writes");
        read_token(&path).expect_err("nothing is no secret");
        let another = first.token().expect("makes");
        assert!(another.len() >= 32 && another != token);
        let host = first.host("db1").expect("makes");
        assert_eq!(host, path.join("host=db1"));
        assert!(first.is_there());
        fs::rename(&path, tmp.path().join("moved")).expect("moves");
        assert!(!first.is_there());
        fs::create_dir_all(&path).expect("makes");
        fs::write(path.join(LOCK), "").expect("writes");
        assert!(!first.is_there(), "another one");
        fs::remove_dir_all(&path).expect("removes");
        fs::rename(tmp.path().join("moved"), &path).expect("moves");
        drop(first);
        let second = LockedRoot::open(&path, Access::OWNER).expect("free again");
        assert!(second.host("db1").is_ok());
    }

    #[test]
    fn the_address_is_known_while_the_service_runs() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let locked = LockedRoot::open(tmp.path(), Access::OWNER).expect("new");
        assert_eq!(read_address(tmp.path()).expect("reads"), None);
        for place in ["127.0.0.1:4711", "[::1]:4711", "unix:/run/some socket"] {
            let place: Listen = place.parse().expect("a place");
            locked.note_address(&place);
            assert_eq!(read_address(tmp.path()).expect("reads"), Some(place));
        }
        drop(locked);
        assert_eq!(read_address(tmp.path()).expect("reads"), None);
        fs::write(tmp.path().join(ADDRESS), "here\n").expect("writes");
        let said = format!("{:#}", read_address(tmp.path()).expect_err("no address"));
        assert!(
            said.contains("address") && said.contains("ADDR:PORT"),
            "{said}"
        );
    }

    #[test]
    fn a_root_is_free_whoever_has_a_copy_of_its_lock() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let first = LockedRoot::open(tmp.path(), Access::OWNER).expect("new");
        let copy = first.lock.try_clone().expect("a descriptor");
        drop(first);
        drop(LockedRoot::open(tmp.path(), Access::OWNER).expect("free again"));
        drop(copy);
    }

    #[test]
    fn what_is_something_else_is_refused() {
        let tmp = tempfile::tempdir().expect("temporary directory");
        fs::write(tmp.path().join("letter"), "x").expect("writes");
        assert!(refusal(tmp.path()).contains("something else than recordings"));
        assert!(refusal(&tmp.path().join("letter")).contains("cannot be a recording root"));
        let link = tmp.path().join("link");
        let real = tempfile::tempdir().expect("temporary directory");
        std::os::unix::fs::symlink(real.path(), &link).expect("links");
        assert!(refusal(&link).contains("cannot be a recording root"));
        let planted = tempfile::tempdir().expect("temporary directory");
        std::os::unix::fs::symlink(tmp.path().join("letter"), planted.path().join(LOCK))
            .expect("links");
        assert!(
            refusal(planted.path()).contains("cannot be opened"),
            "a lock that leads elsewhere"
        );
        assert_eq!(
            fs::read_to_string(tmp.path().join("letter")).expect("there"),
            "x"
        );
    }
}
