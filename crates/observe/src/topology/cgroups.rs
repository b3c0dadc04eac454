//! Limits of control groups, in both versions of the cgroup hierarchy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use iolens_core::model::{CgroupSample, DevId};

use super::devices::{number, text};
use super::mounts::{Mount, MountTable};
use super::names::PathLookup;

/// cgroup v1 prints the largest page-aligned number for "no limit".
const V1_NO_LIMIT: i64 = 1 << 62;

/// Maximum number of processes whose groups are remembered, so that a group can be read after its process has ended.
const MAX_REMEMBERED: usize = 1024;

/// A control group that did I/O, identified by what its I/Os carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CgroupMember {
    /// The id of a v2 group.
    Group(i64),
    /// A process in it.
    Process(i32),
}

/// A mounted hierarchy.
#[derive(Debug, Clone)]
struct Hierarchy {
    /// Where it is mounted, under the root.
    point: PathBuf,
    /// Path of the group that is visible at the mount point.
    shown: PathBuf,
}

impl Hierarchy {
    fn of(root: &Path, mount: &Mount) -> Hierarchy {
        let point = mount.point.strip_prefix("/").unwrap_or(&mount.point);
        Hierarchy {
            point: root.join(point),
            shown: mount.root.clone(),
        }
    }

    /// The directory of the group with this path; `None` if it is not visible here.
    fn directory(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix(&self.shown).ok()?;
        Some(self.point.join(inside))
    }
}

/// The mounted cgroup hierarchies.
#[derive(Debug, Default)]
pub struct Cgroups {
    root: PathBuf,
    v2: Option<Hierarchy>,
    v1_blkio: Option<Hierarchy>,
    v1_memory: Option<Hierarchy>,
    names: PathLookup,
    /// `/proc/PID/cgroup` at its last reading.
    memberships: HashMap<i32, Vec<u8>>,
}

impl Cgroups {
    /// Finds the mount points under `root`.
    pub fn find(root: &Path) -> Cgroups {
        let mounts = MountTable::read(root).unwrap_or_default();
        let v2 = mounts.mounts().iter().find(|m| m.fs_type == "cgroup2");
        let v1_blkio = mounts.mounts().iter().find(|m| has_v1(m, "blkio"));
        let v1_memory = mounts.mounts().iter().find(|m| has_v1(m, "memory"));
        Cgroups {
            root: root.to_owned(),
            v2: v2.map(|m| Hierarchy::of(root, m)),
            v1_blkio: v1_blkio.map(|m| Hierarchy::of(root, m)),
            v1_memory: v1_memory.map(|m| Hierarchy::of(root, m)),
            names: PathLookup::new(),
            memberships: HashMap::new(),
        }
    }

    /// Version of the hierarchy that has the io controller.
    pub fn io_controller(&self) -> Option<u32> {
        if self.v1_blkio.is_some() {
            return Some(1);
        }
        let controllers = text(&self.v2.as_ref()?.point.join("cgroup.controllers"))?;
        let has_io = controllers.split_whitespace().any(|c| c == "io");
        has_io.then_some(2)
    }

    /// A device's line in a file of the v2 root group, without the device number.
    pub(super) fn line_of_root(&self, file: &str, dev: DevId) -> Option<String> {
        let lines = text(&self.v2.as_ref()?.point.join(file))?;
        let (_, rest) = device_lines(&lines).into_iter().find(|(d, _)| *d == dev)?;
        Some(rest.to_owned())
    }

    /// Reads the groups of `members` and, under v2, their ancestors with settings; at most `max_groups` in total.
    /// `clock` returns the time of each reading. The root group is left out if it has no settings.
    pub fn read(
        &mut self,
        members: &[CgroupMember],
        max_groups: usize,
        clock: impl Fn() -> i64,
    ) -> Vec<CgroupSample> {
        let mut samples = Vec::new();
        let mut groups = BTreeSet::new();
        for member in members {
            if groups.len() >= max_groups {
                break;
            }
            match *member {
                CgroupMember::Group(id) => {
                    let path = self.names.cgroup(id).map(PathBuf::from);
                    let is_new = path.as_ref().is_some_and(|p| groups.insert(p.clone()));
                    if is_new {
                        let path = path.unwrap_or_default();
                        samples.extend(self.read_v2(&path, clock()));
                        self.read_above(&path, max_groups, &mut groups, &mut samples, &clock);
                    }
                }
                CgroupMember::Process(tgid) => {
                    groups.insert(PathBuf::from(tgid.to_string()));
                    samples.extend(self.read_v1(tgid, clock()));
                }
            }
        }
        samples
    }

    /// Reads the ancestors of `path` that set a limit.
    fn read_above(
        &self,
        path: &Path,
        max_groups: usize,
        groups: &mut BTreeSet<PathBuf>,
        samples: &mut Vec<CgroupSample>,
        clock: &impl Fn() -> i64,
    ) {
        for above in path.ancestors().skip(1) {
            if groups.len() >= max_groups || above == Path::new("/") {
                return;
            }
            if !groups.insert(above.to_owned()) {
                continue;
            }
            let rows = self.read_v2(above, clock());
            if rows.iter().any(is_limited) {
                samples.extend(rows);
            }
        }
    }

    fn remember(&mut self, tgid: i32) {
        let file = self.root.join("proc").join(tgid.to_string()).join("cgroup");
        if let Ok(membership) = fs::read(file) {
            if self.memberships.len() >= MAX_REMEMBERED {
                self.memberships.clear();
            }
            self.memberships.insert(tgid, membership);
        }
    }

    fn read_v2(&self, path: &Path, at_ns: i64) -> Vec<CgroupSample> {
        let directory = self.v2.as_ref().and_then(|v2| v2.directory(path));
        let Some(directory) = directory.filter(|d| d.is_dir()) else {
            return Vec::new();
        };
        let mut rows = Rows::of(path, at_ns);
        rows.group.cgroup = id_of(&directory);
        rows.group.memory_max = number(&directory.join("memory.max"));
        rows.group.memory_high = number(&directory.join("memory.high"));
        if rows.group.memory_max.is_some() || rows.group.memory_high.is_some() {
            let events = text(&directory.join("memory.events")).unwrap_or_default();
            rows.group.memory_limit_hits = value_after(&events, "max")
                .zip(value_after(&events, "high"))
                .map(|(max, high)| max + high);
            rows.group.refaulted_bytes = refaulted_bytes(&directory, "");
        }
        rows.add_pressure(&directory);
        rows.add_limits(&text(&directory.join("io.max")).unwrap_or_default());
        rows.add_latency(&text(&directory.join("io.latency")).unwrap_or_default());
        let weights = text(&directory.join("io.weight"));
        let weights = weights.or_else(|| text(&directory.join("io.bfq.weight")));
        rows.add_weights(&weights.unwrap_or_default());
        rows.finish(path)
    }

    fn read_v1(&mut self, tgid: i32, at_ns: i64) -> Vec<CgroupSample> {
        self.remember(tgid);
        let Some(membership) = self.memberships.get(&tgid) else {
            return Vec::new();
        };
        let path = path_of_controller(membership, "blkio");
        let Some((hierarchy, path)) = self.v1_blkio.as_ref().zip(path) else {
            return Vec::new();
        };
        let Some(directory) = hierarchy.directory(path).filter(|d| d.is_dir()) else {
            return Vec::new();
        };
        let mut rows = Rows::of(path, at_ns);
        rows.group.tgid = Some(tgid);
        // If v2 is mounted beside v1, the v2 group has the id and the pressure.
        let v2_path = path_of_controller(membership, "");
        if let Some((v2, path)) = self.v2.as_ref().zip(v2_path)
            && let Some(directory) = v2.directory(path)
        {
            rows.group.cgroup = id_of(&directory);
            rows.add_pressure(&directory);
        }
        let memory_path = path_of_controller(membership, "memory").unwrap_or(path);
        let memory = self.memory_v1(memory_path, at_ns);
        if memory_path == path {
            rows.group.memory_max = memory.memory_max;
            rows.group.memory_limit_hits = memory.memory_limit_hits;
            rows.group.refaulted_bytes = memory.refaulted_bytes;
        }
        let read_bps = v1_limits(&directory, "read_bps");
        rows.add_numbers(&read_bps, |row| &mut row.read_bytes_per_s);
        let write_bps = v1_limits(&directory, "write_bps");
        rows.add_numbers(&write_bps, |row| &mut row.write_bytes_per_s);
        let read_iops = v1_limits(&directory, "read_iops");
        rows.add_numbers(&read_iops, |row| &mut row.read_ios_per_s);
        let write_iops = v1_limits(&directory, "write_iops");
        rows.add_numbers(&write_iops, |row| &mut row.write_ios_per_s);
        for name in ["blkio.weight", "blkio.bfq.weight"] {
            let file = directory.join(name);
            rows.group.weight = rows.group.weight.or_else(|| number(&file));
            let devices = directory.join(format!("{name}_device"));
            let devices = text(&devices).unwrap_or_default();
            rows.add_numbers(&devices, |row| &mut row.weight);
        }
        let mut rows = rows.finish(path);
        // Under v1 the process may be in a group with another path there.
        if memory_path != path && memory.memory_max.is_some() {
            rows.push(CgroupSample {
                tgid: Some(tgid),
                ..memory
            });
        }
        rows
    }

    /// The memory limit of a v1 group, and how often it was hit.
    fn memory_v1(&self, path: &Path, at_ns: i64) -> CgroupSample {
        let mut group = Rows::of(path, at_ns).group;
        let directory = self.v1_memory.as_ref().and_then(|v1| v1.directory(path));
        let Some(directory) = directory else {
            return group;
        };
        let limit = number::<i64>(&directory.join("memory.limit_in_bytes"));
        group.memory_max = limit.filter(|bytes| *bytes < V1_NO_LIMIT);
        if group.memory_max.is_some() {
            group.memory_limit_hits = number(&directory.join("memory.failcnt"));
            group.refaulted_bytes = refaulted_bytes(&directory, "total_");
        }
        group
    }
}

/// Bytes that a group read again after their eviction (page cache and swap). `prefix` is the prefix of its keys in
/// `memory.stat`.
fn refaulted_bytes(directory: &Path, prefix: &str) -> Option<i64> {
    let stat = text(&directory.join("memory.stat"))?;
    let [of_files, from_swap, old] = ["_file", "_anon", ""]
        .map(|kind| value_after(&stat, &format!("{prefix}workingset_refault{kind}")));
    // Before Linux 5.9 only pages of files were counted, in a single number.
    let pages = match of_files {
        Some(of_files) => of_files.checked_add(from_swap.unwrap_or(0))?,
        None => old?,
    };
    let page_bytes = i64::try_from(rustix::param::page_size()).ok()?;
    pages.checked_mul(page_bytes)
}

/// The value of the line `key value`.
fn value_after(text: &str, key: &str) -> Option<i64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// Whether an ancestor has settings that make it worth a row.
fn is_limited(row: &CgroupSample) -> bool {
    row.limits_rate() || row.latency_target_ns.is_some() || row.memory_max.is_some()
}

fn id_of(directory: &Path) -> Option<i64> {
    let meta = fs::metadata(directory).ok()?;
    i64::try_from(meta.ino()).ok()
}

/// Whether this is the hierarchy of a v1 controller.
fn has_v1(mount: &Mount, controller: &str) -> bool {
    let mut options = mount.super_options.as_bytes().split(|b| *b == b',');
    mount.fs_type == "cgroup" && options.any(|o| o == controller.as_bytes())
}

/// The lines of a v1 limit; empty if the kernel does not have this limit.
fn v1_limits(directory: &Path, name: &str) -> String {
    let file = format!("blkio.throttle.{name}_device");
    text(&directory.join(file)).unwrap_or_default()
}

/// Time in nanoseconds that `some` or all (`full`) tasks waited, from the text of `io.pressure`, which is in
/// microseconds.
fn pressure_ns(text: &str, kind: &str) -> Option<i64> {
    let line = text.lines().find(|l| l.starts_with(kind))?;
    value_of(line, "total")?.checked_mul(1000)
}

/// The path of a process's group in the text of `/proc/PID/cgroup`, whose lines are `HIERARCHY:CONTROLLERS:PATH`. v2
/// has no controllers.
fn path_of_controller<'a>(membership: &'a [u8], controller: &str) -> Option<&'a Path> {
    for line in membership.split(|b| *b == b'\n') {
        let mut fields = line.splitn(3, |b| *b == b':');
        let number = fields.next()?;
        let Some((controllers, path)) = fields.next().zip(fields.next()) else {
            continue;
        };
        let is_v2 = number == b"0" && controllers.is_empty();
        let mut names = controllers.split(|b| *b == b',');
        let is_wanted = match controller {
            "" => is_v2,
            name => names.any(|n| n == name.as_bytes()),
        };
        if is_wanted {
            return Some(Path::new(OsStr::from_bytes(path)));
        }
    }
    None
}

/// The lines that begin with a device number, split after it.
fn device_lines(text: &str) -> Vec<(DevId, &str)> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some((dev, rest)) = line.split_once(' ') else {
            continue;
        };
        if let Ok(dev) = dev.parse() {
            lines.push((dev, rest.trim()));
        }
    }
    lines
}

/// The value of `key=value` in a line; `None` also for `max`.
fn value_of(line: &str, key: &str) -> Option<i64> {
    let mut words = line.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
    value.parse().ok()
}

/// The rows of one group.
struct Rows {
    group: CgroupSample,
    devices: BTreeMap<DevId, CgroupSample>,
}

impl Rows {
    fn of(path: &Path, at_ns: i64) -> Rows {
        Rows {
            group: CgroupSample {
                at_ns,
                path: path.to_string_lossy().into_owned(),
                ..CgroupSample::default()
            },
            devices: BTreeMap::new(),
        }
    }

    fn device(&mut self, dev: DevId) -> &mut CgroupSample {
        self.devices.entry(dev).or_default()
    }

    fn add_pressure(&mut self, directory: &Path) {
        let text = text(&directory.join("io.pressure")).unwrap_or_default();
        self.group.io_some_ns = pressure_ns(&text, "some");
        self.group.io_full_ns = pressure_ns(&text, "full");
    }

    /// `8:16 rbps=2097152 wbps=max riops=max wiops=120`
    fn add_limits(&mut self, text: &str) {
        for (dev, line) in device_lines(text) {
            let row = self.device(dev);
            row.read_bytes_per_s = value_of(line, "rbps");
            row.write_bytes_per_s = value_of(line, "wbps");
            row.read_ios_per_s = value_of(line, "riops");
            row.write_ios_per_s = value_of(line, "wiops");
        }
    }

    /// `8:16 target=75000`, in microseconds.
    fn add_latency(&mut self, text: &str) {
        for (dev, line) in device_lines(text) {
            let target_us = value_of(line, "target").filter(|us| *us > 0);
            self.device(dev).latency_target_ns = target_us.and_then(|us| us.checked_mul(1000));
        }
    }

    /// `default 100`, then `8:16 200`.
    fn add_weights(&mut self, text: &str) {
        let mut lines = text.lines();
        let default = lines.find_map(|l| l.strip_prefix("default "));
        self.group.weight = default.and_then(|w| w.trim().parse().ok());
        self.add_numbers(text, |row| &mut row.weight);
    }

    /// `8:16 1048576`
    fn add_numbers(&mut self, text: &str, field: impl Fn(&mut CgroupSample) -> &mut Option<i64>) {
        for (dev, number) in device_lines(text) {
            *field(self.device(dev)) = number.parse().ok();
        }
    }

    fn finish(self, path: &Path) -> Vec<CgroupSample> {
        let Rows { group, devices } = self;
        let mut rows = Vec::new();
        for (dev, row) in devices {
            let named = CgroupSample {
                at_ns: group.at_ns,
                cgroup: group.cgroup,
                tgid: group.tgid,
                path: group.path.clone(),
                dev: Some(dev),
                ..row
            };
            rows.push(named);
        }
        if path == Path::new("/") && rows.is_empty() {
            return rows;
        }
        rows.insert(0, group);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tree;

    const V2: &str = "40 1 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn limits_of_v2_are_read_with_their_devices() {
        let root = tree(&[
            ("proc/1/mountinfo", V2),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
            (
                "sys/fs/cgroup/io.cost.qos",
                "8:0 enable=1 ctrl=auto\n8:16 enable=0\n",
            ),
            (
                "sys/fs/cgroup/a/b/io.max",
                "8:16 rbps=2097152 wbps=max riops=max wiops=120\n",
            ),
            ("sys/fs/cgroup/a/b/io.latency", "8:0 target=75000\n"),
            ("sys/fs/cgroup/a/b/io.weight", "default 100\n8:16 250\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "1048576\n"),
            (
                "sys/fs/cgroup/a/b/memory.events",
                "low 0\nhigh 40\nmax 2\noom 0\n",
            ),
            (
                "sys/fs/cgroup/a/b/memory.stat",
                "anon 0\nworkingset_refault_anon 9\nworkingset_refault_file 3\n",
            ),
            (
                "sys/fs/cgroup/a/b/io.pressure",
                "some avg10=0.06 avg60=0.73 avg300=1.43 total=19\nfull avg10=0.00 avg60=0.35 avg300=0.89 total=7\n",
            ),
        ]);
        let cgroups = Cgroups::find(root.path());
        assert_eq!(cgroups.io_controller(), Some(2));
        assert_eq!(
            cgroups.line_of_root("io.cost.qos", DevId::new(8, 16)),
            Some("enable=0".to_owned())
        );
        let rows = cgroups.read_v2(Path::new("/a/b"), 5);
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!((rows[0].dev, rows[0].weight), (None, Some(100)));
        assert_eq!(
            (rows[0].memory_max, rows[0].memory_high),
            (None, Some(1 << 20))
        );
        assert_eq!(rows[0].memory_limit_hits, Some(42));
        let page_bytes = rustix::param::page_size() as i64;
        assert_eq!(rows[0].refaulted_bytes, Some(12 * page_bytes));
        assert_eq!(
            (rows[0].io_some_ns, rows[0].io_full_ns),
            (Some(19_000), Some(7_000))
        );
        assert_eq!(rows[1].dev, Some(DevId::new(8, 0)));
        assert_eq!(rows[1].latency_target_ns, Some(75_000_000));
        assert!(!rows[1].limits_rate());
        assert_eq!(rows[2].dev, Some(DevId::new(8, 16)));
        assert_eq!(rows[2].read_bytes_per_s, Some(2_097_152));
        assert_eq!(
            (rows[2].write_bytes_per_s, rows[2].write_ios_per_s),
            (None, Some(120))
        );
        assert_eq!((rows[2].weight, rows[2].at_ns), (Some(250), 5));
        assert!(rows.iter().all(|r| r.path == "/a/b" && r.cgroup.is_some()));
    }

    #[test]
    fn groups_above_are_read_if_they_limit_something() {
        let root = tree(&[
            ("proc/1/mountinfo", V2),
            (
                "sys/fs/cgroup/a/io.max",
                "8:16 rbps=5 wbps=max riops=max wiops=max\n",
            ),
            ("sys/fs/cgroup/a/b/io.weight", "default 100\n"),
            ("sys/fs/cgroup/a/b/c/io.weight", "default 100\n"),
        ]);
        let cgroups = Cgroups::find(root.path());
        let mut groups = BTreeSet::new();
        let mut samples = Vec::new();
        cgroups.read_above(Path::new("/a/b/c"), 10, &mut groups, &mut samples, &|| 0);
        let paths: Vec<&str> = samples.iter().map(|s| s.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/a"]);
        let mut none = Vec::new();
        cgroups.read_above(
            Path::new("/a/b/c"),
            0,
            &mut BTreeSet::new(),
            &mut none,
            &|| 0,
        );
        assert!(none.is_empty(), "no more groups than allowed");
    }

    #[test]
    fn limits_of_v1_are_those_of_the_processs_group() {
        let root = tree(&[
            (
                "proc/1/mountinfo",
                "40 1 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                 41 1 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 42 1 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            (
                "proc/77/cgroup",
                "7:blkio:/backup\n4:memory:/m\n0::/slice\n",
            ),
            ("proc/78/cgroup", "7:blkio:/\n4:memory:/\n0::/\n"),
            (
                "sys/fs/cgroup/blkio/backup/blkio.throttle.read_bps_device",
                "7:0 1048576\n",
            ),
            (
                "sys/fs/cgroup/blkio/backup/blkio.throttle.write_iops_device",
                "7:0 50\n",
            ),
            ("sys/fs/cgroup/blkio/backup/blkio.bfq.weight", "300\n"),
            (
                "sys/fs/cgroup/memory/m/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "sys/fs/cgroup/unified/slice/io.pressure",
                "some avg10=0.00 total=3\n",
            ),
        ]);
        let mut cgroups = Cgroups::find(root.path());
        assert_eq!(cgroups.io_controller(), Some(1));
        let members = [CgroupMember::Process(77), CgroupMember::Process(78)];
        let rows = cgroups.read(&members, 200, || 9);
        assert_eq!(rows.len(), 2, "the topmost group has no settings: {rows:?}");
        assert_eq!((rows[0].tgid, rows[0].path.as_str()), (Some(77), "/backup"));
        assert_eq!((rows[0].weight, rows[0].memory_max), (Some(300), None));
        assert_eq!(
            (rows[0].io_some_ns, rows[0].io_full_ns),
            (Some(3_000), None)
        );
        assert_eq!(rows[1].dev, Some(DevId::new(7, 0)));
        assert_eq!(rows[1].read_bytes_per_s, Some(1_048_576));
        assert_eq!(rows[1].write_ios_per_s, Some(50));
        assert_eq!(cgroups.read(&members, 1, || 9).len(), 2);
        // A limit of memory is of the memory group, wherever that is.
        let memory = root.path().join("sys/fs/cgroup/memory/m");
        for (file, text) in [
            ("memory.limit_in_bytes", "4096000\n"),
            ("memory.failcnt", "17\n"),
            (
                "memory.stat",
                "workingset_refault_file 1\ntotal_workingset_refault_file 5\ntotal_workingset_refault_anon 2\n",
            ),
        ] {
            fs::write(memory.join(file), text).expect("a directory");
        }
        let limited = cgroups.read(&members[..1], 1, || 9);
        assert_eq!(limited.len(), 3);
        assert_eq!(limited[2].path, "/m");
        assert_eq!(limited[2].memory_max, Some(4_096_000));
        assert_eq!(limited[2].memory_limit_hits, Some(17));
        let page_bytes = rustix::param::page_size() as i64;
        assert_eq!(limited[2].refaulted_bytes, Some(7 * page_bytes));
        assert_eq!(limited[2].tgid, Some(77));
        fs::remove_dir_all(&memory).expect("it was there");
        fs::remove_file(root.path().join("proc/77/cgroup")).expect("it was there");
        let gone = cgroups.read(&members[..1], 1, || 12);
        assert_eq!(gone.len(), 2, "the group is read when its process is gone");
        assert_eq!(gone[0].at_ns, 12);
        assert!(cgroups.read(&members, 0, || 9).is_empty());
    }
}
