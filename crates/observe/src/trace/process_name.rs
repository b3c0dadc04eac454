//! Names of processes whose threads have names given by the kernel.

use std::collections::HashMap;
use std::path::Path;

use iolens_core::model::{Comm, SECOND_NS};

/// A process id may be reused, so a name is read again after this time.
const KNOWN_FOR_NS: i64 = SECOND_NS;

/// Maximum number of names. Beyond it, those that were read longest ago are forgotten.
const MAX_KNOWN: usize = 1024;

/// A name, and the time until which it is valid.
#[derive(Debug, Clone, Copy)]
struct ReadName {
    comm: Option<Comm>,
    until_ns: i64,
}

/// Names of processes with I/O or opens by io_uring threads, all of which are called `iou-wrk-N` or `iou-sqp-N`.
#[derive(Debug)]
pub(super) struct ProcessNameReader {
    /// Path to the processes by the ids that the BPF programs see; `None` if they are not visible.
    proc: Option<&'static Path>,
    known: HashMap<i32, ReadName>,
}

impl ProcessNameReader {
    /// In a container process ids differ, so nothing is read there.
    pub fn new() -> ProcessNameReader {
        ProcessNameReader {
            proc: sees_all_processes().then_some(Path::new("/proc")),
            known: HashMap::new(),
        }
    }

    /// The name to record for a thread called `comm` of process `tgid` at `now_ns`: for an io_uring thread the name of
    /// its process, if that still exists.
    pub fn name(&mut self, tgid: Option<i32>, comm: Option<Comm>, now_ns: i64) -> Option<Comm> {
        if comm.is_none_or(|comm| !comm.is_of_io_uring()) {
            return comm;
        }
        let (Some(tgid), Some(proc)) = (tgid, self.proc) else {
            return comm;
        };
        let known = self.known.get(&tgid).copied();
        let name = match known.filter(|name| now_ns < name.until_ns) {
            Some(name) => name,
            None => {
                if self.known.len() >= MAX_KNOWN {
                    self.known.clear();
                }
                let name = ReadName {
                    comm: name_of(proc, tgid),
                    until_ns: now_ns + KNOWN_FOR_NS,
                };
                self.known.insert(tgid, name);
                name
            }
        };
        name.comm.or(comm)
    }
}

fn name_of(proc: &Path, tgid: i32) -> Option<Comm> {
    let name = std::fs::read(proc.join(tgid.to_string()).join("comm")).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    (!name.is_empty()).then(|| Comm::new(name))
}

/// Whether process ids here are those by which the kernel traces processes.
pub(super) fn sees_all_processes() -> bool {
    const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]"; // PROC_PID_INIT_INO, include/linux/proc_ns.h
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|ns| ns.as_os_str() == INITIAL_PID_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_io_uring_have_the_name_of_their_process() {
        let mut names = ProcessNameReader {
            proc: Some(Path::new("/proc")),
            known: HashMap::new(),
        };
        let own = std::process::id() as i32;
        let own_name = name_of(Path::new("/proc"), own);
        assert!(own_name.is_some());
        let mut named = |tgid, comm: &[u8]| names.name(tgid, Some(Comm::new(comm)), 1);
        assert_eq!(named(Some(own), b"iou-wrk-77"), own_name);
        assert_eq!(named(Some(own), b"worker"), Some(Comm::new(b"worker")));
        // Numbers of processes end far below this one.
        let gone = named(Some(i32::MAX), b"iou-sqp-77");
        assert_eq!(gone, Some(Comm::new(b"iou-sqp-77")));
        let unknown = named(None, b"iou-wrk-77");
        assert_eq!(unknown, Some(Comm::new(b"iou-wrk-77")));
    }
}
