//! The throttled command: processes, cgroups and files that identify its I/O.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use iolens_core::model::DevId;
use rustix::process::Pid;

use super::{Actuator, Own};

/// A file: its file system's device number (in the model's encoding) and its inode.
pub type FileId = (i32, i64);

/// The identity of a file; `None` if its inode number does not fit into events.
pub fn file_id(meta: &fs::Metadata) -> Option<FileId> {
    let dev = DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    Some((dev.0, i64::try_from(meta.ino()).ok()?))
}

/// So many files are remembered; a command that writes more is known by its processes and groups.
const MAX_FILES: usize = 100_000;

/// Access modes of `flags:` in `/proc/PID/fdinfo/FD` that write (`O_WRONLY`, `O_RDWR`).
const WRITES: u32 = 0o3;

/// Follows the command's processes and the files that they write.
#[derive(Debug)]
pub struct Background {
    leader: Pid,
    own: Own,
    open: HashMap<FileId, PathBuf>,
}

impl Background {
    /// `leader` leads the command's process group; `groups` are the control groups that were made for it.
    pub fn new(leader: Pid, groups: impl IntoIterator<Item = i64>) -> Background {
        // What this program writes back in the command's place is the command's, too.
        let tgids = i32::try_from(std::process::id()).into_iter().collect();
        let own = Own {
            cgroups: groups.into_iter().collect(),
            tgids,
            ..Own::default()
        };
        Background {
            leader,
            own,
            open: HashMap::new(),
        }
    }

    /// Looks up its processes and open files. Ended processes and closed files are kept: their data may
    /// reach the disk 30 s later.
    pub fn look(&mut self, actuator: &Actuator) -> Own {
        let processes = match actuator.group() {
            Some(group) => group.processes(),
            None => in_process_group(self.leader.as_raw_nonzero().get()),
        };
        self.open.clear();
        for pid in processes {
            self.own.tgids.insert(pid);
            self.open.extend(written_files(pid));
        }
        if self.own.files.len() < MAX_FILES {
            self.own.files.extend(self.open.keys());
        }
        self.own.clone()
    }

    /// The files that it had open for writing at the last look, and where each can be opened again.
    pub fn open_files(&self) -> &HashMap<FileId, PathBuf> {
        &self.open
    }
}

/// Processes whose process group is `group` (field 5 of `/proc/PID/stat`, proc_pid_stat(5)).
fn in_process_group(group: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| process_group(*pid) == Some(group))
        .collect()
}

fn process_group(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, blanks and parentheses too.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(2)?
        .parse()
        .ok()
}

/// Regular files that a process has open for writing, each with its `/proc/PID/fd/N`.
fn written_files(pid: i32) -> HashMap<FileId, PathBuf> {
    let dir = format!("/proc/{pid}/fd");
    let open = fs::read_dir(&dir).into_iter().flatten().flatten();
    open.filter_map(|e| {
        let meta = fs::metadata(e.path()).ok().filter(|m| m.is_file())?;
        let info =
            fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(e.file_name()))
                .ok()?;
        let flags = u32::from_str_radix(
            info.lines().find_map(|l| l.strip_prefix("flags:"))?.trim(),
            8,
        )
        .ok()?;
        (flags & WRITES != 0).then_some((file_id(&meta)?, e.path()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_group_and_by_what_it_writes() {
        let me = std::process::id() as i32;
        let group = process_group(me).expect("has one");
        assert!(in_process_group(group).contains(&me));
        let file = tempfile::tempfile().expect("temporary file");
        let meta = file.metadata().expect("has metadata");
        let read_only = fs::File::open("/proc/self/exe").expect("readable");
        let found = written_files(me);
        let key = |m: &fs::Metadata| file_id(m).expect("an ordinary number");
        assert_eq!(
            found
                .get(&key(&meta))
                .and_then(|p| fs::metadata(p).ok())
                .map(|m| key(&m)),
            Some(key(&meta))
        );
        assert!(!found.contains_key(&key(&read_only.metadata().expect("has metadata"))));
    }
}
