//! Names of processes whose threads the kernel has named.

use std::collections::HashMap;
use std::path::Path;

use iolens_core::model::{Comm, SECOND_NS};

/// A number may be another process' later, so a name is read again after so long.
const KNOWN_FOR_NS: i64 = SECOND_NS;

/// With so many processes those that were known longest ago are forgotten.
const MAX_KNOWN: usize = 1024;

/// A name, and until when it is good.
#[derive(Debug, Clone, Copy)]
struct ReadName {
    comm: Option<Comm>,
    until_ns: i64,
}

/// Names of processes that do I/O, or open files, by threads of io_uring, which are all called `iou-wrk-N` or `iou-sqp-N`.
#[derive(Debug)]
pub(super) struct ProcessNameReader {
    /// Where processes are found by the numbers that the BPF programs see.
    proc: Option<&'static Path>,
    known: HashMap<i32, ReadName>,
}

impl ProcessNameReader {
    /// In a container the numbers are others, so nothing is read there.
    pub fn new() -> ProcessNameReader {
        ProcessNameReader {
            proc: sees_all_processes().then_some(Path::new("/proc")),
            known: HashMap::new(),
        }
    }

    /// The name of what a thread called `comm` of process `tgid` did at `now_ns`: of a thread of io_uring that of its process, if there
    /// still is one.
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

/// Whether processes have the numbers here by which the kernel traces them.
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
