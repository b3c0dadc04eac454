//! Which I/Os are meant: of a device, a process, a control group, a file, a class.

use std::collections::{BTreeSet, HashSet};

use iolens_core::analysis::waits::Program;
use iolens_core::model::{Class, Comm, DevId, Device, Inode, Io, Names};
use iolens_core::store::IoColumns;

use super::error::{QueryError, Result};
use super::layers::Layers;

/// What is asked for, as users write it; nothing: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterPlan {
    /// A process by its number, its name or both, as `NAME[NUMBER]`.
    pub process: Option<String>,
    /// A control group and those below it.
    pub cgroup: Option<String>,
    /// A file, or the files below a directory.
    pub file: Option<String>,
    /// Reads, writes, discards or flushes.
    pub class: Option<Class>,
}

impl FilterPlan {
    /// Whether all I/Os are meant.
    pub fn is_all(&self) -> bool {
        *self == FilterPlan::default()
    }

    /// Whether it names a process, a control group or a file.
    pub fn is_by_name(&self) -> bool {
        self.process.is_some() || self.wants_names()
    }

    /// Whether names of control groups or files must be known.
    pub fn wants_names(&self) -> bool {
        self.cgroup.is_some() || self.file.is_some()
    }
}

/// The same with the names that one recording has for its numbers.
#[derive(Debug, Clone, Default)]
pub struct IoFilter {
    process: Option<String>,
    cgroups: Option<BTreeSet<i64>>,
    files: Option<HashSet<Inode>>,
    /// A file whose name was never found: device of its file system and inode number.
    unnamed_file: Option<(i32, i64)>,
    class: Option<Class>,
}

impl IoFilter {
    /// `plan` in the recording that has these `names`.
    pub fn new(plan: &FilterPlan, names: &Names) -> IoFilter {
        let mut filter = IoFilter {
            process: plan.process.clone(),
            class: plan.class,
            ..IoFilter::default()
        };
        if let Some(wanted) = &plan.cgroup {
            let named = names.cgroups.iter().filter(|(_, n)| is_below(n, wanted));
            let mut ids: BTreeSet<i64> = named.map(|(id, _)| *id).collect();
            // A group whose name was never found is shown by its number.
            ids.extend(wanted.parse::<i64>().ok());
            filter.cgroups = Some(ids);
        }
        if let Some(wanted) = &plan.file {
            let named = names.files.iter().filter(|(_, n)| is_below(n, wanted));
            filter.files = Some(named.map(|(file, _)| *file).collect());
            filter.unnamed_file = unnamed_file(wanted);
        }
        filter
    }

    /// Whether files are chosen.
    pub fn is_of_files(&self) -> bool {
        self.files.is_some()
    }

    /// Whether no I/O can match: the recording has no such name.
    pub fn is_empty(&self) -> bool {
        self.cgroups.as_ref().is_some_and(BTreeSet::is_empty)
            || self.files.as_ref().is_some_and(HashSet::is_empty) && self.unnamed_file.is_none()
    }

    /// Columns that [`IoFilter::has`] looks at.
    pub fn columns(&self) -> IoColumns {
        let mut columns = IoColumns::REQUIRED;
        if self.process.is_some() {
            columns = columns | IoColumns::TGID | IoColumns::COMM;
        }
        if self.cgroups.is_some() {
            columns = columns | IoColumns::CGROUP;
        }
        if self.files.is_some() {
            columns = columns | IoColumns::FILE;
        }
        columns
    }

    /// Whether `io` is meant.
    pub fn has(&self, io: &Io) -> bool {
        if self.class.is_some_and(|class| io.class() != class) {
            return false;
        }
        if let Some(cgroups) = &self.cgroups
            && !io.cgroup.is_some_and(|id| cgroups.contains(&id))
        {
            return false;
        }
        if let Some(files) = &self.files
            && !io.inode().is_some_and(|file| {
                files.contains(&file) || self.unnamed_file == Some((file.fs_dev, file.ino))
            })
        {
            return false;
        }
        let process = self.process.as_ref();
        process.is_none_or(|p| is_process(io.comm, io.tgid, p))
    }

    /// Whether it may do I/O that is meant, by its name, number and control group.
    pub fn has_program(&self, program: &Program) -> bool {
        if let Some(cgroups) = &self.cgroups
            && !program.cgroup.is_some_and(|id| cgroups.contains(&id))
        {
            return false;
        }
        let process = self.process.as_ref();
        process.is_none_or(|p| is_process(program.comm, program.tgid, p))
    }
}

/// Whether the process is called `wanted`.
fn is_process(comm: Option<Comm>, tgid: Option<i32>, wanted: &str) -> bool {
    let name = comm.map(|c| c.to_text().into_owned());
    if name.as_deref() == Some(wanted) {
        return true;
    }
    let Some(number) = tgid.map(|n| n.to_string()) else {
        return false;
    };
    if number == wanted {
        return true;
    }
    let shown = format!("{}[{number}]", name.unwrap_or_default());
    shown == wanted
}

/// The file that is shown as `MAJOR:MINOR inode NUMBER`, as its name was never found.
fn unnamed_file(shown: &str) -> Option<(i32, i64)> {
    let (fs_dev, ino) = shown.split_once(" inode ")?;
    let fs_dev: DevId = fs_dev.parse().ok()?;
    Some((fs_dev.0, ino.parse().ok()?))
}

/// Whether `path` is `wanted` or below it; a name without a slash is that of the last part.
fn is_below(path: &str, wanted: &str) -> bool {
    let directory = wanted.strip_suffix('/').unwrap_or(wanted);
    let below = path
        .strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below || (!wanted.contains('/') && path.rsplit('/').next() == Some(wanted))
}

/// Devices that were chosen by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFilter(Option<BTreeSet<DevId>>);

impl DeviceFilter {
    /// Those called `names`, or `MAJOR:MINOR`; all, if there is no name.
    ///
    /// # Errors
    /// None is called so.
    pub fn of(devices: &[Device], names: &[String]) -> Result<DeviceFilter> {
        if names.is_empty() {
            return Ok(DeviceFilter(None));
        }
        let mut chosen = BTreeSet::new();
        for name in names {
            let before = chosen.len();
            chosen.extend(
                devices
                    .iter()
                    .filter(|d| d.name == *name || d.id.to_string() == *name)
                    .map(|d| d.id),
            );
            if chosen.len() == before && !devices.iter().any(|d| d.name == *name) {
                let known = devices.iter().take(MAX_NAMED).map(|d| d.name.clone());
                return Err(QueryError::NoSuchDevice {
                    name: name.clone(),
                    known: known.collect(),
                });
            }
        }
        Ok(DeviceFilter(Some(chosen)))
    }

    /// `dev` alone.
    pub fn only(dev: DevId) -> DeviceFilter {
        DeviceFilter(Some(BTreeSet::from([dev])))
    }

    /// Whether none was chosen.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `dev` is one of them.
    pub fn has(&self, dev: DevId) -> bool {
        self.0.as_ref().is_none_or(|chosen| chosen.contains(&dev))
    }
}

/// As many devices are named where one is not found.
const MAX_NAMED: usize = 12;

/// Which I/Os count.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of stacked devices each I/O counts once.
    pub layers: Layers,
    /// The devices that were asked for.
    pub devices: DeviceFilter,
    /// The processes, control groups, files and classes.
    pub ios: IoFilter,
}

impl Filter {
    /// Whether I/Os of `dev` count.
    pub fn counts(&self, dev: DevId) -> bool {
        self.layers.counts(dev) && self.devices.has(dev)
    }

    /// Whether `io` counts.
    pub fn has(&self, io: &Io) -> bool {
        self.counts(io.dev) && self.ios.has(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{Comm, DevId, Op};

    fn io() -> Io {
        Io {
            tgid: Some(7),
            comm: Some(Comm::new(b"fio")),
            cgroup: Some(42),
            fs_dev: Some(8),
            ino: Some(5),
            ..Io::new(10, DevId::new(8, 0), Op::READ, 512, Some(1), 2)
        }
    }

    fn has(plan: FilterPlan) -> bool {
        let mut names = Names::default();
        names.cgroups.insert(42, "/a/b.service".to_owned());
        names
            .files
            .extend(io().inode().map(|f| (f, "/data/x.db".to_owned())));
        let filter = IoFilter::new(&plan, &names);
        assert!(filter.has(&io()) <= !filter.is_empty());
        filter.has(&io())
    }

    #[test]
    fn processes_go_by_number_name_or_both() {
        let process = |p: &str| {
            has(FilterPlan {
                process: Some(p.to_owned()),
                ..FilterPlan::default()
            })
        };
        assert!(process("7") && process("fio") && process("fio[7]"));
        assert!(!process("fio[8]") && !process("8") && !process("fi"));
    }

    #[test]
    fn files_and_control_groups_go_by_path_directory_or_last_part() {
        let file = |f: &str| {
            has(FilterPlan {
                file: Some(f.to_owned()),
                ..FilterPlan::default()
            })
        };
        assert!(file("/data/x.db") && file("/data") && file("/data/") && file("x.db"));
        assert!(!file("/dat") && !file("x") && !file("/x.db"));
        assert!(file("0:8 inode 5") && !file("0:8 inode 6") && !file("0:9 inode 5"));
        let cgroup = |c: &str| {
            has(FilterPlan {
                cgroup: Some(c.to_owned()),
                ..FilterPlan::default()
            })
        };
        assert!(cgroup("/a") && cgroup("b.service") && cgroup("42") && !cgroup("43"));
    }

    #[test]
    fn all_that_is_asked_for_must_hold() {
        let plan = |class| FilterPlan {
            process: Some("fio".to_owned()),
            class: Some(class),
            ..FilterPlan::default()
        };
        assert!(has(plan(Class::Read)) && !has(plan(Class::Write)));
        assert!(has(FilterPlan::default()) && FilterPlan::default().is_all());
    }
}
