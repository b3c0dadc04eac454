//! Copies the files of a sample: one directory per sample, each a root that [`super::Root::recorded`] can read.

use super::root::path_of;
use super::{DiskstatsReader, Root, RowKind, read_once, system_names};
use std::io;
use std::path::{Path, PathBuf};

/// Copies everything that the counters' commands read from `root` into `dir/index`, as one sample.
///
/// Samples of one recording are numbered from 1 in the order in which they were taken. Written are
/// `proc/{stat,uptime,diskstats,devices}`, `proc/sys/kernel/{ostype,osrelease,hostname,arch}`, `timestamp`, for each disk
/// and partition its `stat` under `sys/block`, its number under `sys/class/block`, its link under `sys/dev/block` and a
/// placeholder `dev/NAME` that holds `MAJ:MIN`; `sys/devices/system/cpu/cpuN`, and the links of `dev/mapper` and
/// `dev/disk/by-*`.
///
/// Each device's counters are read with one `pread`; a device that vanishes meanwhile is left out.
///
/// # Errors
/// The kernel's files cannot be read, the sample exists already, or it cannot be written. Files written so far stay.
pub fn write(root: &Root, dir: &Path, index: usize) -> io::Result<PathBuf> {
    let sample = dir.join(index.to_string());
    std::fs::create_dir_all(dir)?;
    std::fs::create_dir(&sample)?;
    let out = Writer {
        root,
        sample: &sample,
    };
    // Copy uptime and counters first and together, because the interval between two samples is computed from the
    // uptime.
    out.copy("/proc/uptime")?;
    out.copy("/proc/diskstats")?;
    out.copy("/proc/stat")?;
    out.block_devices()?;
    out.put("/timestamp", super::unix_time_s().to_string().as_bytes())?;
    out.copy_if_there("/proc/devices")?;
    out.names()?;
    out.processors()?;
    out.links("/dev/mapper")?;
    for kind in root.names("/dev/disk").unwrap_or_default() {
        out.links(Path::new("/dev/disk").join(path_of(&kind)))?;
    }
    Ok(sample)
}

struct Writer<'a> {
    root: &'a Root,
    sample: &'a Path,
}

impl Writer<'_> {
    fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let to = Root::recorded(self.sample).path(path);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(to, bytes)
    }

    fn copy(&self, path: &str) -> io::Result<()> {
        let text = read_once(&self.root.path(path)).map_err(|e| {
            io::Error::new(
                io::Error::from(e).kind(),
                format!("{path}: {}", io::Error::from(e)),
            )
        })?;
        self.put(path, &text)
    }

    fn copy_if_there(&self, path: impl AsRef<Path>) -> io::Result<()> {
        match read_once(&self.root.path(&path)) {
            Ok(text) => self.put(path, &text),
            Err(_) => Ok(()),
        }
    }

    fn block_devices(&self) -> io::Result<()> {
        let copied = Root::recorded(self.sample);
        let mut reader = DiskstatsReader::at(self.root, &copied.path("/proc/diskstats"));
        let rows = reader.read()?.to_vec();
        let mut disks: Vec<Vec<u8>> = rows
            .iter()
            .filter(|r| r.kind == RowKind::Disk)
            .map(|r| r.name.clone())
            .collect();
        for name in self.root.names("/sys/block").unwrap_or_default() {
            if !disks.contains(&name) {
                disks.push(name);
            }
        }
        for disk in &disks {
            let dir = Path::new("/sys/block").join(path_of(disk));
            self.device(&dir, &Path::new("../../block").join(path_of(disk)), disk)?;
            for part in self.root.names(&dir).unwrap_or_default() {
                let sub = dir.join(path_of(&part));
                if self.root.exists(sub.join("stat")) {
                    self.device(
                        &sub,
                        &Path::new("../../block")
                            .join(path_of(disk))
                            .join(path_of(&part)),
                        &part,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// One disk or partition: its counters, number, link and placeholder.
    fn device(&self, dir: &Path, link: &Path, name: &[u8]) -> io::Result<()> {
        let Ok(stat) = read_once(&self.root.path(dir.join("stat"))) else {
            return Ok(());
        };
        self.put(dir.join("stat"), &stat)?;
        let Some(dev) = super::device_number(self.root, name) else {
            return Ok(());
        };
        let number = dev.to_string();
        self.put(
            Path::new("/sys/class/block")
                .join(path_of(name))
                .join("dev"),
            number.as_bytes(),
        )?;
        self.link(format!("/sys/dev/block/{number}"), link)?;
        let node: Vec<u8> = name
            .iter()
            .map(|b| if *b == b'!' { b'/' } else { *b })
            .collect();
        self.put(Path::new("/dev").join(path_of(&node)), number.as_bytes())
    }

    fn names(&self) -> io::Result<()> {
        let names = system_names(self.root);
        for (file, text) in [
            ("ostype", names.sysname),
            ("hostname", names.nodename),
            ("osrelease", names.release),
            ("arch", names.machine),
        ] {
            self.put(
                format!("/proc/sys/kernel/{file}"),
                &[&text[..], b"\n"].concat(),
            )?;
        }
        Ok(())
    }

    fn processors(&self) -> io::Result<()> {
        const DIR: &str = "/sys/devices/system/cpu";
        for name in self.root.names(DIR).unwrap_or_default() {
            let dir = Path::new(DIR).join(path_of(&name));
            let numbered = name
                .strip_prefix(b"cpu")
                .and_then(|r| r.first())
                .is_some_and(u8::is_ascii_digit);
            if numbered && self.root.is_dir(&dir) {
                std::fs::create_dir_all(Root::recorded(self.sample).path(dir))?;
            }
        }
        Ok(())
    }

    /// Copies the symbolic links of a directory, and other nodes as placeholders.
    fn links(&self, dir: impl AsRef<Path>) -> io::Result<()> {
        let dir = dir.as_ref();
        let Ok(names) = self.root.names(dir) else {
            return Ok(());
        };
        std::fs::create_dir_all(Root::recorded(self.sample).path(dir))?;
        for name in names {
            let path = dir.join(path_of(&name));
            match self.root.link_target(&path) {
                Some(target) => self.link(&path, path_of(&target))?,
                None => {
                    if let Some((major, minor)) = self.root.node(&path) {
                        self.put(&path, format!("{major}:{minor}").as_bytes())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn link(&self, path: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        let at = Root::recorded(self.sample).path(path);
        if let Some(parent) = at.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(target, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{PersistentNames, SystemFiles, mapper_name, parse_stat, processors};
    use std::os::unix::fs::symlink;

    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |p: &str, text: &str| {
            let path = dir.path().join(p);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        put("proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\nbtime 100\n");
        put("proc/uptime", "50.25 1.0\n");
        put(
            "proc/diskstats",
            "8 0 sda 5 0 40 1 0 0 0 0 0 1 1\n8 1 sda1 4 0 32 1 0 0 0 0 0 1 1\n104 0 cciss/c0d0 1 0 8 0 0 0 0 0 0 0 0\n",
        );
        put("sys/block/sda/stat", "5 0 40 1 0 0 0 0 0 1 1\n");
        put("sys/block/sda/sda1/stat", "4 0 32 1 0 0 0 0 0 1 1\n");
        put("sys/block/sda/queue/iostats", "1\n");
        put("sys/block/cciss!c0d0/stat", "1 0 8 0 0 0 0 0 0 0 0\n");
        for (name, dev) in [("sda", "8:0"), ("sda1", "8:1"), ("cciss!c0d0", "104:0")] {
            put(&format!("sys/class/block/{name}/dev"), dev);
        }
        put("sys/devices/system/cpu/cpu0/online", "1");
        put("sys/devices/system/cpu/cpu1/online", "0");
        put("proc/sys/kernel/hostname", "host\n");
        put("dev/disk/by-id/x", "");
        std::fs::remove_file(dir.path().join("dev/disk/by-id/x")).expect("removed");
        symlink("../../sda", dir.path().join("dev/disk/by-id/ata-1")).expect("linked");
        dir
    }

    #[test]
    fn a_sample_holds_all_counters() {
        let dir = machine();
        let out = tempfile::tempdir().expect("a directory");
        let written = write(&Root::under(dir.path()), &out.path().join("raw"), 1).expect("written");
        let root = Root::recorded(&written);
        let text = |p: &str| String::from_utf8(read_once(&root.path(p)).expect(p)).expect("text");
        assert_eq!(text("/sys/block/sda/sda1/stat"), "4 0 32 1 0 0 0 0 0 1 1\n");
        assert_eq!(
            parse_stat(text("/sys/dev/block/8:1/stat").as_bytes())
                .counters
                .read
                .ios,
            4,
            "through the link"
        );
        assert_eq!(text("/dev/cciss/c0d0"), "104:0");
        assert_eq!(root.node(Path::new("/dev/sda")), Some((8, 0)));
        assert_eq!(processors(&root), Ok(2));
        assert_eq!(system_names(&root).nodename, b"host");
        assert_eq!(SystemFiles::new(&root).uptime_cs(), Ok(Some(5025)));
        let ids = PersistentNames::of_kind(&root, "id").expect("ids");
        assert_eq!(ids.name_of(&root, 8, 0), Some(b"ata-1".to_vec()));
        let rows = DiskstatsReader::open(&root)
            .expect("opened")
            .rows()
            .to_vec();
        assert_eq!(rows.iter().filter(|r| r.kind == RowKind::Disk).count(), 2);
        assert!(
            write(&Root::under(dir.path()), &out.path().join("raw"), 1).is_err(),
            "a sample is never overwritten"
        );
    }

    #[test]
    fn the_machine_itself() {
        if !Path::new("/proc/diskstats").exists() {
            eprintln!("SKIP: no /proc/diskstats here");
            return;
        }
        let out = tempfile::tempdir().expect("a directory");
        let written = write(&Root::live(), out.path(), 1).expect("written");
        let root = Root::recorded(&written);
        assert_eq!(processors(&root), processors(&Root::live()));
        assert_eq!(
            root.names("/sys/block").map(|n| n.len()),
            Root::live().names("/sys/block").map(|n| n.len())
        );
        let _ = mapper_name(&root, 1, 1);
    }

    #[test]
    fn an_unreadable_machine_is_an_error_that_says_what() {
        let out = tempfile::tempdir().expect("a directory");
        let e =
            write(&Root::under(out.path().join("none")), out.path(), 1).expect_err("nothing there");
        assert!(e.to_string().contains("/proc/uptime"), "{e}");
    }
}
