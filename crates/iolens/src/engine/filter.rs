//! Selects I/Os by device, process, control group, file and class.

use std::collections::{BTreeSet, HashSet};

use iolens_core::analysis::waits::Program;
use iolens_core::model::{Class, Comm, DevId, Device, Inode, Io, KernelThread, Names};
use iolens_core::store::IoColumns;

use super::error::{QueryError, Result};
use super::layers::Layers;

/// The selection as users write it; empty: all I/Os.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterPlan {
    /// A process: its number, its name, or both as `NAME[NUMBER]`.
    pub process: Option<String>,
    /// A control group, including its descendants.
    pub cgroup: Option<String>,
    /// A file, or a directory with all files below it.
    pub file: Option<String>,
    /// Reads, writes, discards or flushes.
    pub class: Option<Class>,
}

impl FilterPlan {
    /// Whether all I/Os are selected.
    pub fn is_all(&self) -> bool {
        *self == FilterPlan::default()
    }

    /// Whether it names a process, a control group or a file.
    pub fn is_by_name(&self) -> bool {
        self.process.is_some() || self.wants_names()
    }

    /// Whether names of control groups or files must be read.
    pub fn wants_names(&self) -> bool {
        self.cgroup.is_some() || self.file.is_some()
    }
}

/// A [`FilterPlan`] resolved with the names of one recording.
#[derive(Debug, Clone, Default)]
pub struct IoFilter {
    process: Option<WantedProcess>,
    cgroups: Option<BTreeSet<i64>>,
    files: Option<HashSet<Inode>>,
    /// A file whose name is unknown: device of its file system and inode number.
    unnamed_file: Option<(i32, i64)>,
    class: Option<Class>,
}

impl IoFilter {
    /// Resolves `plan` in a recording with these `names`.
    pub fn new(plan: &FilterPlan, names: &Names) -> IoFilter {
        let mut filter = IoFilter {
            process: plan.process.as_deref().map(WantedProcess::new),
            class: plan.class,
            ..IoFilter::default()
        };
        if let Some(wanted) = &plan.cgroup {
            let named = names.cgroups.iter().filter(|(_, n)| is_below(n, wanted));
            let mut ids: BTreeSet<i64> = named.map(|(id, _)| *id).collect();
            // A group whose name is unknown is shown by its number.
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

    /// Whether I/Os are selected by file.
    pub fn is_of_files(&self) -> bool {
        self.files.is_some()
    }

    /// Whether no I/O can match, because the recording does not contain the name.
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

    /// Whether `io` is selected.
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
        process.is_none_or(|p| p.is(io.comm, io.tgid))
    }

    /// Whether `program` may do selected I/O, judged by its name, number and control group.
    pub fn has_program(&self, program: &Program) -> bool {
        if let Some(cgroups) = &self.cgroups
            && !program.cgroup.is_some_and(|id| cgroups.contains(&id))
        {
            return false;
        }
        let process = self.process.as_ref();
        process.is_none_or(|p| p.is(program.comm, program.tgid))
    }
}

/// A requested process, parsed once and compared with that of each I/O.
#[derive(Debug, Clone)]
struct WantedProcess {
    /// The text as written, which may be the name.
    text: String,
    /// The process number, if the text is one.
    number: Option<i32>,
    /// Name and number, if the text has both.
    both: Option<(String, i32)>,
}

impl WantedProcess {
    fn new(text: &str) -> WantedProcess {
        WantedProcess {
            text: text.to_owned(),
            number: process_number(text),
            both: name_and_number(text),
        }
    }

    /// Whether the process with this name and number is meant.
    fn is(&self, comm: Option<Comm>, tgid: Option<i32>) -> bool {
        let name = comm.as_ref().map(Comm::to_text);
        if name.as_deref() == Some(self.text.as_str()) {
            return true;
        }
        // Stories and sums of waits treat all kernel workers as one program.
        if self.text == WORKERS
            && comm.and_then(|comm| comm.kernel_thread()) == Some(KernelThread::Worker)
        {
            return true;
        }
        if tgid.is_none() {
            return false;
        }
        // A process without a name is shown as `[NUMBER]`.
        let shown_name = name.as_deref().unwrap_or_default();
        self.number == tgid
            || self
                .both
                .as_ref()
                .is_some_and(|(name, number)| tgid == Some(*number) && shown_name == name.as_str())
    }
}

/// The common name of all kernel workers (`kworker/u4:1+flush-8:0`).
const WORKERS: &str = "kworker";

/// Parses a process number that is written exactly as it is shown: `007` and `+7` are names.
fn process_number(text: &str) -> Option<i32> {
    let number: i32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Splits `NAME[NUMBER]`, or `NAME (NUMBER)` as used in stories.
fn name_and_number(text: &str) -> Option<(String, i32)> {
    let (name, number) = match text.strip_suffix(']') {
        Some(of_table) => of_table.rsplit_once('[')?,
        None => text.strip_suffix(')')?.rsplit_once(" (")?,
    };
    Some((name.to_owned(), process_number(number)?))
}

/// Parses `MAJOR:MINOR inode NUMBER`, which is shown for a file whose name is unknown.
fn unnamed_file(shown: &str) -> Option<(i32, i64)> {
    let (fs_dev, ino) = shown.split_once(" inode ")?;
    let fs_dev: DevId = fs_dev.parse().ok()?;
    Some((fs_dev.0, ino.parse().ok()?))
}

/// Whether `path` is `wanted` or below it. A name without a slash is compared with the last component.
fn is_below(path: &str, wanted: &str) -> bool {
    let directory = wanted.strip_suffix('/').unwrap_or(wanted);
    let below = path
        .strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    below || (!wanted.contains('/') && path.rsplit('/').next() == Some(wanted))
}

/// A selection of devices by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFilter(Option<BTreeSet<DevId>>);

impl DeviceFilter {
    /// Selects the devices with these names or `MAJOR:MINOR` numbers; all devices if `names` is empty.
    ///
    /// # Errors
    /// A name matches no device.
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

    /// Selects `dev` alone.
    pub fn only(dev: DevId) -> DeviceFilter {
        DeviceFilter(Some(BTreeSet::from([dev])))
    }

    /// Whether all devices are selected.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `dev` is selected.
    pub fn has(&self, dev: DevId) -> bool {
        self.0.as_ref().is_none_or(|chosen| chosen.contains(&dev))
    }
}

/// Number of devices that the error for an unknown name lists.
const MAX_NAMED: usize = 12;

/// Which I/Os count in sums.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Makes each I/O through stacked devices count once.
    pub layers: Layers,
    /// The selected devices.
    pub devices: DeviceFilter,
    /// The selected processes, control groups, files and classes.
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
        assert!(process("7") && process("fio") && process("fio[7]") && process("fio (7)"));
        assert!(!process("fio[8]") && !process("fio (8)") && !process("8") && !process("fi"));
    }

    #[test]
    fn a_process_is_asked_for_as_it_is_shown() {
        let wanted = [
            "7",
            "+7",
            "007",
            "-7",
            "8",
            "fio",
            "fio[7]",
            "fio[07]",
            "fio[8]",
            "fio[7",
            "[7]",
            "[]",
            "",
            "]",
            "[",
            "a[1]",
            "a[1][7]",
            "\u{fffd}",
            "\u{fffd}[7]",
            "7[7]",
            "-7[-7]",
            "2147483648",
        ];
        let names: [&[u8]; 6] = [b"fio", b"", b"7", b"a[1]", b"fio[7]", b"\xff"];
        let mut comms: Vec<Option<Comm>> = names.map(|name| Some(Comm::new(name))).to_vec();
        comms.push(None);
        for text in wanted {
            let process = WantedProcess::new(text);
            for comm in &comms {
                let name = comm.map(|comm| comm.to_text().into_owned());
                assert_eq!(process.is(*comm, None), name.as_deref() == Some(text));
                for tgid in [7, 8, -7, 0] {
                    let shown = format!("{}[{tgid}]", name.clone().unwrap_or_default());
                    let is_shown_so =
                        name.as_deref() == Some(text) || tgid.to_string() == text || shown == text;
                    let is = process.is(*comm, Some(tgid));
                    assert_eq!(is, is_shown_so, "{text}: {shown}");
                }
            }
        }
    }

    #[test]
    fn a_process_without_a_name_goes_by_its_number() {
        for (text, is_meant) in [
            ("7", true),
            ("[7]", true),
            ("07", false),
            ("[8]", false),
            ("fio[7]", false),
            ("", false),
        ] {
            let process = WantedProcess::new(text);
            assert_eq!(process.is(None, Some(7)), is_meant, "{text}");
        }
    }

    #[test]
    fn workers_of_the_kernel_go_by_one_name() {
        let worker = Some(Comm::new(b"kworker/u4:1+fl"));
        let program = Some(Comm::new(b"kwork"));
        let workers = WantedProcess::new("kworker");
        assert!(workers.is(worker, Some(7)) && workers.is(worker, None));
        assert!(!workers.is(program, Some(7)) && !workers.is(None, Some(7)));
        assert!(!WantedProcess::new("kworker[8]").is(worker, Some(7)));
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
