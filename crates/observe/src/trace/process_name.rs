//! What a process is called whose threads the kernel has named itself.

use std::collections::HashMap;
use std::path::Path;

use iolens_core::model::{Comm, Io, SECOND_NS};

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

/// Names of processes that do I/O by threads of io_uring, which are all called `iou-wrk-N` or `iou-sqp-N`.
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

    /// Gives an I/O of a thread of io_uring the name of its process, if there still is one.
    pub fn name(&mut self, io: &mut Io) {
        let (Some(tgid), Some(comm), Some(proc)) = (io.tgid, io.comm, self.proc) else {
            return;
        };
        if !comm.is_of_io_uring() {
            return;
        }
        let now_ns = io.done_ns;
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
        io.comm = name.comm.or(io.comm);
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
    use iolens_core::model::{DevId, Op};

    use super::*;

    fn io(tgid: i32, comm: &[u8]) -> Io {
        Io {
            tgid: Some(tgid),
            comm: Some(Comm::new(comm)),
            ..Io::new(1, DevId::new(8, 0), Op::READ, 4096, Some(0), 1)
        }
    }

    #[test]
    fn threads_of_io_uring_have_the_name_of_their_process() {
        let mut names = ProcessNameReader {
            proc: Some(Path::new("/proc")),
            known: HashMap::new(),
        };
        let own = std::process::id() as i32;
        let own_name = name_of(Path::new("/proc"), own);
        assert!(own_name.is_some());
        let mut of_ring = io(own, b"iou-wrk-77");
        names.name(&mut of_ring);
        assert_eq!(of_ring.comm, own_name);
        let mut other = io(own, b"worker");
        names.name(&mut other);
        assert_eq!(other.comm, Some(Comm::new(b"worker")));
        // Numbers of processes end far below this one.
        let mut gone = io(i32::MAX, b"iou-sqp-77");
        names.name(&mut gone);
        assert_eq!(gone.comm, Some(Comm::new(b"iou-sqp-77")));
    }
}
