//! What a process is called whose threads have names of their own.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};

use super::Program;
use crate::model::Comm;

/// Maximum number of processes whose threads are joined; threads of further processes count as separate programs by
/// name.
const MAX_KNOWN_PROCESSES: usize = 1 << 14;

/// Maximum number of thread names per process; further ones count as the last.
const MAX_NAMES: usize = 64;

/// A thread name with this share of the I/Os becomes the name of the process. The other names may date from before the
/// process called exec.
const MAIN_SHARE: f64 = 0.9;

/// A common prefix of thread names is used as a name if it has at least this many bytes.
const MIN_COMMON: usize = 3;

/// A process in its control group.
type Process = (i32, Option<i64>);

/// A name under which a process did I/O.
#[derive(Debug)]
struct ThreadName {
    process: Process,
    comm: Comm,
    ios: u64,
}

/// The thread names of processes, with the number of I/Os of each.
#[derive(Debug, Default)]
pub(super) struct ProcessNames {
    names: Vec<ThreadName>,
    /// Indices into `names` by process, in the order in which they were seen.
    processes: HashMap<Process, Vec<u32>>,
}

impl ProcessNames {
    /// The name number of I/O without a process.
    pub const NONE: u32 = u32::MAX;

    /// Replaces the thread name of an I/O's program by the name seen first for its process. Returns the number of the
    /// thread name.
    pub fn know(&mut self, program: &mut Program) -> u32 {
        let Some((process, comm)) = process_of(program) else {
            return ProcessNames::NONE;
        };
        if self.processes.len() >= MAX_KNOWN_PROCESSES && !self.processes.contains_key(&process) {
            return ProcessNames::NONE;
        }
        let known = self.processes.entry(process).or_default();
        let same = known
            .iter()
            .find(|name| self.names[**name as usize].comm == comm);
        let name = match (same, known.last()) {
            (Some(name), _) => *name,
            (None, Some(last)) if known.len() == MAX_NAMES => *last,
            (None, _) => {
                let name = self.names.len() as u32;
                known.push(name);
                self.names.push(ThreadName {
                    process,
                    comm,
                    ios: 0,
                });
                name
            }
        };
        if let Some(first) = known.first() {
            program.comm = Some(self.names[*first as usize].comm);
        }
        name
    }

    /// Counts an I/O under a name.
    pub fn count(&mut self, name: u32) {
        if let Some(name) = self.names.get_mut(name as usize) {
            name.ios += 1;
        }
    }

    /// Drops all processes except those of `programs`.
    pub fn keep(&mut self, programs: impl Iterator<Item = Program>) {
        let needed: HashSet<Process> = programs.filter_map(|p| Some(process_of(&p)?.0)).collect();
        self.processes.clear();
        self.names.retain(|name| needed.contains(&name.process));
        for (number, name) in self.names.iter().enumerate() {
            let known = self.processes.entry(name.process).or_default();
            known.push(number as u32);
        }
    }

    /// `program` with the name of its process.
    pub fn of(&self, program: Program) -> Program {
        let known = process_of(&program).and_then(|(process, _)| self.processes.get(&process));
        let Some(known) = known else {
            return program;
        };
        let mut ios: BTreeMap<Comm, u64> = BTreeMap::new();
        for name in known {
            let name = &self.names[*name as usize];
            ios.insert(name.comm, name.ios);
        }
        Program {
            comm: name_of_process(ios).or(program.comm),
            ..program
        }
    }
}

/// The process and the thread name of a program; `None` for kernel threads.
fn process_of(program: &Program) -> Option<(Process, Comm)> {
    let tgid = program.tgid.filter(|tgid| *tgid > 0)?;
    let comm = program.comm?;
    let is_user = comm.kernel_thread().is_none();
    is_user.then_some(((tgid, program.cgroup), comm))
}

/// The name of a process, from the number of I/Os per thread name: the name with nearly all I/Os, else the common
/// prefix of all names, else the most frequent name.
fn name_of_process(mut ios: BTreeMap<Comm, u64>) -> Option<Comm> {
    if ios.keys().all(Comm::is_of_io_uring) {
        return ios
            .keys()
            .next()
            .map(|comm| Comm::new(trimmed(comm.as_bytes())));
    }
    ios.retain(|comm, _| !comm.is_of_io_uring());
    let all: u64 = ios.values().sum();
    let (main, most) = ios.iter().max_by_key(|(_, n)| **n)?;
    if *most as f64 >= MAIN_SHARE * all as f64 {
        return Some(*main);
    }
    let mut names = ios.keys();
    let mut common = names.next()?.as_bytes();
    for name in names {
        let same = common
            .iter()
            .zip(name.as_bytes())
            .take_while(|(a, b)| a == b);
        common = &common[..same.count()];
    }
    let common = trimmed(common);
    if common.len() < MIN_COMMON {
        return Some(*main);
    }
    Some(Comm::new(common))
}

/// Whether a process called `name` can have a thread called `thread`: its name, or what follows a common prefix. What follows
/// begins with a separator or a number, so that `mysql` is not a prefix of `mysqld`.
pub fn can_have_thread(name: &Comm, thread: &Comm) -> bool {
    if name == thread {
        return true;
    }
    let name = name.as_bytes();
    let Some(rest) = thread.as_bytes().strip_prefix(name) else {
        return false;
    };
    let is_word = rest
        .first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
    name.len() >= MIN_COMMON && !is_word
}

/// A name without a trailing number and the separator before it.
fn trimmed(name: &[u8]) -> &[u8] {
    let end = name
        .iter()
        .rposition(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
    end.map_or(name, |end| &name[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(threads: &[(&str, u64)]) -> String {
        let mut names = ProcessNames::default();
        let mut first = None;
        for (comm, ios) in threads {
            let mut program = Program {
                tgid: Some(77),
                comm: Some(Comm::new(comm.as_bytes())),
                cgroup: Some(1),
            };
            let number = names.know(&mut program);
            for _ in 0..*ios {
                names.count(number);
            }
            assert_eq!(*first.get_or_insert(program), program, "one process");
        }
        let of_process = names.of(first.expect("a thread"));
        let comm = of_process.comm.expect("a name");
        comm.to_text().into_owned()
    }

    #[test]
    fn a_process_is_called_what_its_threads_have_in_common_or_what_most_of_them_are_called() {
        assert_eq!(name(&[("shop", 3)]), "shop");
        let pool = [
            ("pool-worker-11", 4),
            ("pool-worker-12", 4),
            ("pool-worker-2", 9),
        ];
        assert_eq!(name(&pool), "pool-worker");
        assert_eq!(name(&[("conn1", 4), ("conn12", 4)]), "conn");
        assert_eq!(
            name(&[("redis-server", 20), ("bio_aof_fsync", 80)]),
            "bio_aof_fsync"
        );
        // What the shell read before it became dd.
        assert_eq!(name(&[("sh", 3), ("dd", 500)]), "dd");
        assert_eq!(name(&[("fio", 3), ("iou-sqp-25088", 500)]), "fio");
        assert_eq!(name(&[("iou-wrk-25088", 500)]), "iou-wrk");
        assert_eq!(name(&[("a1", 3), ("a2", 4)]), "a2");
    }

    fn can_have(name: &str, thread: &str) -> bool {
        let name = Comm::new(name.as_bytes());
        can_have_thread(&name, &Comm::new(thread.as_bytes()))
    }

    #[test]
    fn a_process_can_have_threads_of_its_name_and_of_those_that_begin_with_it() {
        for thread in ["pool", "pool-worker-11", "pool7", "pool_x"] {
            assert!(can_have("pool", thread), "{thread}");
        }
        for thread in ["poold", "poo", "spool", ""] {
            assert!(!can_have("pool", thread), "{thread}");
        }
        assert!(can_have("dd", "dd"));
        assert!(!can_have("dd", "dd-1"), "too short for a common prefix");
    }

    #[test]
    fn names_of_many_threads_and_processes_are_bounded() {
        let mut names = ProcessNames::default();
        for i in 0..5000 {
            let mut program = Program {
                tgid: Some(77),
                comm: Some(Comm::new(format!("conn{i}").as_bytes())),
                cgroup: None,
            };
            let number = names.know(&mut program);
            names.count(number);
            assert_eq!(program.comm, Some(Comm::new(b"conn0")));
        }
        assert_eq!(names.names.len(), MAX_NAMES);
        for tgid in 1..2 * MAX_KNOWN_PROCESSES as i32 {
            names.know(&mut Program {
                tgid: Some(tgid),
                comm: Some(Comm::new(b"true")),
                cgroup: None,
            });
        }
        assert_eq!(names.processes.len(), MAX_KNOWN_PROCESSES);
        names.keep(std::iter::empty());
        assert!(names.names.is_empty() && names.processes.is_empty());
    }

    #[test]
    fn threads_of_the_kernel_keep_their_names() {
        let mut names = ProcessNames::default();
        let journal = Program {
            tgid: Some(300),
            comm: Some(Comm::new(b"jbd2/sda1-8")),
            cgroup: None,
        };
        let mut program = journal;
        assert_eq!(names.know(&mut program), ProcessNames::NONE);
        assert_eq!(names.of(journal), journal);
    }
}
