//! Whose I/Os are taken together.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use foldhash::HashMap;

use super::process_names::ProcessNames;
use crate::analysis::timeline::GroupBy;
use crate::model::{Class, Comm, Inode, Io, KernelThread, Origin};

/// Maximum number of groups per device; I/Os of further groups count for `others`.
const MAX_GROUPS: usize = 4096;

/// Maximum number of groups that are cached by thread name.
const MAX_BY_THREAD: usize = 4 * MAX_GROUPS;

/// Maximum number of processes of one program and control group that stay separate groups. More are shown as one group:
/// in a pool of workers each waits behind all others, and no single one is the cause.
pub(super) const MAX_PROCESSES: usize = 4;

/// Whose I/Os are taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The program; `None` for programs without a group of their own.
    pub program: Option<Program>,
    /// Class of the I/Os.
    pub class: Class,
    /// Origin of the I/Os; read-ahead counts as a buffered read.
    pub origin: Origin,
    /// The file, if I/Os are grouped by file; `None` without a file or if it is not known.
    pub file: Option<Inode>,
}

/// What distinguishes groups, beside class and origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// A process in its control group.
    #[default]
    Process,
    /// The control group alone.
    Cgroup,
    /// The file.
    File,
}

impl Grouping {
    /// All groupings by name.
    pub const NAMES: [(&'static str, Grouping); 3] = [
        (Grouping::Process.name(), Grouping::Process),
        (Grouping::Cgroup.name(), Grouping::Cgroup),
        (Grouping::File.name(), Grouping::File),
    ];

    /// Its name in options and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Grouping::Process => "process",
            Grouping::Cgroup => "cgroup",
            Grouping::File => "file",
        }
    }
}

impl From<Grouping> for GroupBy {
    fn from(grouping: Grouping) -> GroupBy {
        match grouping {
            Grouping::Process => GroupBy::Process,
            Grouping::Cgroup => GroupBy::Cgroup,
            Grouping::File => GroupBy::File,
        }
    }
}

/// A process in its control group. A field is `None` if the source does not know it; `tgid` also if there are several
/// processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Program {
    /// Process ID.
    pub tgid: Option<i32>,
    /// Process name.
    pub comm: Option<Comm>,
    /// ID of the control group.
    pub cgroup: Option<i64>,
}

impl Program {
    /// All programs without a group of their own, as one.
    pub const OTHERS: Program = Program {
        tgid: Some(i32::MIN),
        comm: None,
        cgroup: None,
    };
}

impl Program {
    /// The program that an I/O belongs to. Workers of the kernel (`kworker/u4:1+flush-8:0`) are one program.
    pub fn of(io: &Io) -> Program {
        let program = Program {
            tgid: io.tgid,
            comm: io.comm,
            cgroup: io.cgroup,
        };
        program.without_worker_number()
    }

    /// Workers of the kernel as one program.
    pub fn without_worker_number(self) -> Program {
        if self.kernel_thread() == Some(KernelThread::Worker) {
            return Program {
                tgid: None,
                comm: Some(Comm::new(b"kworker")),
                cgroup: None,
            };
        }
        self
    }

    /// The kind of kernel thread, if it is one.
    pub fn kernel_thread(&self) -> Option<KernelThread> {
        self.comm.and_then(|comm| comm.kernel_thread())
    }

    /// The name and control group that all processes of one program share.
    pub fn name(&self) -> (Option<Comm>, Option<i64>) {
        (self.comm, self.cgroup)
    }

    /// Whether this program includes the process `one`; a program without a process ID stands for several processes.
    pub fn includes(&self, one: &Program) -> bool {
        match self.tgid {
            Some(_) => self.is_process(one) && self.cgroup == one.cgroup,
            None => self.name() == one.name(),
        }
    }

    /// Whether both are the same process, whatever their threads are called.
    pub fn is_process(&self, other: &Program) -> bool {
        self.tgid.is_some() && self.tgid == other.tgid
    }

    /// Removes the name, except that of a kernel thread.
    pub fn hide_name(&mut self) {
        self.comm = self.comm.filter(Comm::is_of_kernel);
    }
}

/// Every I/O looks up its group. IDs distinguish nearly all groups, so names are not hashed.
impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let program = self.program.unwrap_or_default();
        let process = program.tgid.unwrap_or(-1) as u32;
        let cgroup = program.cgroup.unwrap_or(-1) as u64;
        let kind = self.class as u64 * Origin::ALL.len() as u64 + self.origin as u64;
        state.write_u64(kind << 32 | u64::from(process));
        state.write_u64(cgroup);
        if let Some(file) = self.file {
            file.hash(state);
        }
    }
}

impl Group {
    /// Removes the name of the program, except that of a kernel thread.
    pub fn hide_name(&mut self) {
        if let Some(program) = &mut self.program {
            program.hide_name();
        }
    }

    pub(super) fn of(io: &Io, grouping: Grouping) -> Group {
        let origin = match io.origin {
            Origin::Readahead => Origin::BufferedRead,
            other => other,
        };
        let program = match grouping {
            Grouping::Process => Program {
                tgid: io.tgid,
                comm: io.comm,
                cgroup: io.cgroup,
            },
            Grouping::Cgroup => Program {
                cgroup: io.cgroup,
                ..Program::default()
            },
            Grouping::File => Program::default(),
        };
        Group {
            program: Some(program),
            class: io.class(),
            origin,
            file: io.inode().filter(|_| grouping == Grouping::File),
        }
    }
}

/// A device, and a program's name and control group.
type ProgramOnDevice = (u32, Option<Comm>, Option<i64>);

/// The number of a group and the number of the thread name that did the I/O.
#[derive(Debug, Clone, Copy)]
struct GroupAndName {
    group: u32,
    name: u32,
}

/// Size of the direct-mapped cache of recent groups.
const NEAR: usize = 64;

/// Index into the cache, below [`NEAR`], from the fields that mostly differ between groups.
fn near_place((device, group): &(u32, Group)) -> usize {
    let program = group.program.unwrap_or_default();
    let process = u64::from(program.tgid.unwrap_or(0) as u32);
    let kind = group.class as u64 * Origin::ALL.len() as u64 + group.origin as u64;
    let file = group.file.map_or(0, |file| file.ino as u64);
    let mixed = process << 32 ^ kind << 24 ^ u64::from(*device) << 16;
    let mixed = mixed ^ program.cgroup.unwrap_or(0) as u64 ^ file.rotate_left(40);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR.ilog2())) as usize
}

/// Assigns numbers to groups. A group belongs to one device. I/Os of all threads of a process belong to one group,
/// which keeps the thread name seen first.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<(u32, Group), u32>,
    /// Cache of the numbers by thread name.
    by_thread: HashMap<(u32, Group), GroupAndName>,
    pub all: Vec<(u32, Group)>,
    /// Groups of each device.
    counts: Vec<usize>,
    /// Cache of recent look-ups, indexed by [`near_place`].
    near: Vec<Option<((u32, Group), GroupAndName)>>,
    names: ProcessNames,
}

impl Groups {
    /// Creates the group for all I/Os of a new `device` that have no group of their own.
    pub fn others(&mut self, device: u32) -> u32 {
        self.counts.resize(device as usize + 1, 0);
        let others = Group {
            program: None,
            class: Class::Read,
            origin: Origin::Unknown,
            file: None,
        };
        self.new_group((device, others))
    }

    /// The number of the group of an I/O.
    pub fn number(&mut self, device: u32, group: Group) -> u32 {
        let key = (device, group);
        let place = near_place(&key);
        let found = match self.near.get(place) {
            Some(Some((known, found))) if *known == key => *found,
            _ => self.look_up(key, place),
        };
        self.names.count(found.name);
        found.group
    }

    fn look_up(&mut self, key: (u32, Group), near_place: usize) -> GroupAndName {
        let found = match self.by_thread.get(&key) {
            Some(found) => *found,
            None => self.find(key),
        };
        self.near.resize(NEAR, None);
        self.near[near_place] = Some((key, found));
        found
    }

    fn find(&mut self, (device, mut group): (u32, Group)) -> GroupAndName {
        let key = (device, group);
        let mut name = ProcessNames::NONE;
        if let Some(program) = &mut group.program {
            name = self.names.know(program);
        }
        let is_new = !self.numbers.contains_key(&(device, group));
        if is_new && self.counts[device as usize] >= MAX_GROUPS {
            group.program = None;
            group.file = None;
            name = ProcessNames::NONE;
        }
        let group = self.new_group((device, group));
        let found = GroupAndName { group, name };
        // There may be many thread names. Those that do not fit into the cache are looked up in two steps.
        if self.by_thread.len() < MAX_BY_THREAD {
            self.by_thread.insert(key, found);
        }
        found
    }

    fn new_group(&mut self, key: (u32, Group)) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(key, number);
        self.all.push(key);
        self.counts[key.0 as usize] += 1;
        number
    }

    /// Drops the groups that are not needed and returns the new number of each group; the value is arbitrary for
    /// dropped ones.
    pub fn keep(&mut self, needed: &[bool]) -> Vec<u32> {
        let before = std::mem::take(&mut self.all);
        self.numbers.clear();
        self.by_thread.clear();
        self.counts.fill(0);
        self.near.clear();
        let mut numbers = Vec::with_capacity(before.len());
        for (key, is_needed) in before.into_iter().zip(needed) {
            numbers.push(if *is_needed { self.new_group(key) } else { 0 });
        }
        let programs = self.all.iter().filter_map(|(_, group)| group.program);
        self.names.keep(programs);
        numbers
    }

    /// All groups, with the names of their processes.
    pub fn named(&self) -> Vec<Group> {
        let mut all = Vec::with_capacity(self.all.len());
        for (_, group) in &self.all {
            let mut named = *group;
            if let Some(program) = &mut named.program {
                *program = self.names.of(*program);
            }
            all.push(named);
        }
        all
    }

    /// `program` with the name of its process.
    pub fn named_program(&self, program: Program) -> Program {
        self.names.of(program)
    }

    /// All groups as they are shown. If a device has more than [`MAX_PROCESSES`] processes of one program and control
    /// group, their groups become one without a process ID. Processes without a name may be different programs and stay
    /// separate.
    pub fn shown(&self) -> Vec<Group> {
        let mut all = self.named();
        let mut processes: BTreeMap<ProgramOnDevice, Vec<Option<i32>>> = BTreeMap::new();
        for ((device, _), group) in self.all.iter().zip(&all) {
            let Some(program) = group.program else {
                continue;
            };
            let known = processes
                .entry((*device, program.comm, program.cgroup))
                .or_default();
            if known.len() <= MAX_PROCESSES && !known.contains(&program.tgid) {
                known.push(program.tgid);
            }
        }
        for ((device, _), group) in self.all.iter().zip(&mut all) {
            if let Some(program) = &mut group.program {
                let known = &processes[&(*device, program.comm, program.cgroup)];
                if program.comm.is_some() && known.len() > MAX_PROCESSES {
                    program.tgid = None;
                }
            }
        }
        all
    }
}
