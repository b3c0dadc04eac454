//! Data of the machine as a whole from `/proc` and `/sys`: CPU time, uptime, number of CPUs, names.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;

use super::scan::Scanner;
use super::{KernelFile, Root};
use iolens_core::model::CpuCounters;
use rustix::io::Errno;

/// Names of the running system, as `uname(2)` has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemNames {
    /// Name of the system, `Linux`.
    pub sysname: Vec<u8>,
    /// Host name.
    pub nodename: Vec<u8>,
    /// Kernel release.
    pub release: Vec<u8>,
    /// Architecture, e.g. `x86_64`.
    pub machine: Vec<u8>,
}

/// The first `cpu ` line of `/proc/stat`; all zero if there is none.
pub fn parse_cpu(stat: &[u8]) -> CpuCounters {
    let Some(line) = stat.split(|b| *b == b'\n').find(|l| l.starts_with(b"cpu ")) else {
        return CpuCounters::default();
    };
    // Old kernels print fewer numbers.
    let mut ticks = [0; 8];
    let mut s = Scanner::new(&line[4..]);
    for number in &mut ticks {
        *number = s.number().unwrap_or(0);
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    CpuCounters {
        user,
        nice,
        system,
        idle,
        iowait,
        irq,
        softirq,
        steal,
    }
}

/// The first number of `/proc/uptime` in hundredths of a second, from `SECONDS.HUNDREDTHS`; `None` if there is none.
pub fn parse_uptime_cs(text: &[u8]) -> Option<u64> {
    let mut s = Scanner::new(text);
    let seconds = s.number()?;
    let hundredths = s
        .rest()
        .strip_prefix(b".")
        .and_then(|r| Scanner::new(r).number())
        .unwrap_or(0);
    Some(seconds.wrapping_mul(100).wrapping_add(hundredths))
}

/// Boot time in seconds since the Unix epoch, from the `btime` line of `/proc/stat`.
pub fn parse_boot_time_s(stat: &[u8]) -> Option<i64> {
    let line = stat
        .split(|b| *b == b'\n')
        .find_map(|l| l.strip_prefix(b"btime "))?;
    Scanner::new(line)
        .number()
        .and_then(|v| i64::try_from(v).ok())
}

/// Number of CPUs of the machine: the `cpuN` directories of `/sys/devices/system/cpu` (including offline ones) or, if
/// there are none, the highest number of a `cpuN` line in `/proc/stat` plus one.
///
/// # Errors
/// `/proc/stat` was needed and cannot be read.
pub fn processors(root: &Root) -> Result<usize, Errno> {
    const DIR: &str = "/sys/devices/system/cpu";
    let entries = std::fs::read_dir(root.path(DIR))
        .into_iter()
        .flatten()
        .map_while(Result::ok);
    let n = entries
        .filter(|e| is_processor(&e.file_name()))
        .filter(|e| {
            e.file_type()
                .is_ok_and(|t| t.is_dir() || t.is_symlink() && e.path().is_dir())
        })
        .count();
    if n > 0 {
        return Ok(n);
    }
    let stat = super::read_once(&root.path("/proc/stat"))?;
    let highest = stat
        .split(|b| *b == b'\n')
        .filter_map(|l| l.strip_prefix(b"cpu"))
        .filter(|r| !r.starts_with(b" "));
    Ok(highest
        .filter_map(|r| Scanner::new(r).number())
        .max()
        .map_or(0, |m| m.saturating_add(1) as usize))
}

/// Whether a name is that of a CPU: `cpu0`, not `cpufreq`.
fn is_processor(name: &OsStr) -> bool {
    let number = name.as_bytes().strip_prefix(b"cpu");
    number.is_some_and(|n| n.first().is_some_and(u8::is_ascii_digit))
}

/// Names of the system: from `uname(2)` for the live machine, otherwise from
/// `/proc/sys/kernel/{ostype,hostname,osrelease,arch}` under the root. If a file is missing, the name is `uname`'s for
/// a live prefix, and `unknown` for a recorded sample.
pub fn system_names(root: &Root) -> SystemNames {
    let u = rustix::system::uname();
    SystemNames {
        sysname: system_name(root, "ostype", u.sysname()),
        nodename: system_name(root, "hostname", u.nodename()),
        release: system_name(root, "osrelease", u.release()),
        machine: system_name(root, "arch", u.machine()),
    }
}

/// One of the names: `file` is in `/proc/sys/kernel`, `own` is from `uname(2)`.
fn system_name(root: &Root, file: &str, own: &CStr) -> Vec<u8> {
    if root.is_live() {
        return own.to_bytes().to_vec();
    }
    if let Ok(mut text) = super::read_once(&root.path(format!("/proc/sys/kernel/{file}"))) {
        let end = text.iter().position(|b| *b == b'\n');
        text.truncate(end.unwrap_or(text.len()));
        return text;
    }
    if root.is_recorded() {
        b"unknown".to_vec()
    } else {
        own.to_bytes().to_vec()
    }
}

/// `/proc/stat` and `/proc/uptime` of one root, kept open.
#[derive(Debug)]
pub struct SystemFiles {
    stat: KernelFile,
    uptime: KernelFile,
    own_clock: bool,
    buffer: Vec<u8>,
}

impl SystemFiles {
    /// Names the files; they are opened by the first read.
    pub fn new(root: &Root) -> SystemFiles {
        SystemFiles {
            stat: KernelFile::new(root.path("/proc/stat")),
            uptime: KernelFile::new(root.path("/proc/uptime")),
            own_clock: false,
            buffer: Vec::new(),
        }
    }

    /// CPU time since boot.
    ///
    /// # Errors
    /// Error of reading `/proc/stat`.
    pub fn cpu(&mut self) -> Result<CpuCounters, Errno> {
        Ok(parse_cpu(self.stat.read(&mut self.buffer)?))
    }

    /// Uptime in hundredths of a second. `None`: the file could be read but holds no number.
    ///
    /// If the file is the kernel's own, it is read only once. Its value is `CLOCK_BOOTTIME`, which can be read without
    /// a system call. (A container may have another file there, with its own uptime.)
    ///
    /// # Errors
    /// Error of reading `/proc/uptime`.
    pub fn uptime_cs(&mut self) -> Result<Option<u64>, Errno> {
        if let Some(clock) = self.clock_cs() {
            return Ok(Some(clock));
        }
        let uptime = parse_uptime_cs(self.uptime.read(&mut self.buffer)?);
        self.own_clock = uptime.is_some() && self.uptime.is_kernels();
        Ok(uptime)
    }

    /// Whether [`SystemFiles::clock_cs`] returns the uptime.
    pub fn has_own_clock(&self) -> bool {
        self.own_clock
    }

    /// Uptime in hundredths of a second from the clock; `None` unless [`SystemFiles::uptime_cs`] has found that the
    /// file is the kernel's own.
    pub fn clock_cs(&self) -> Option<u64> {
        if !self.own_clock {
            return None;
        }
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = t.tv_sec as u64;
        let rest_cs = t.tv_nsec as u64 / 10_000_000;
        Some(seconds.wrapping_mul(100).wrapping_add(rest_cs))
    }

    /// Wall clock of a recorded sample, in seconds since the Unix epoch: from the file `timestamp` of the root, or else
    /// boot time plus uptime. `None` if neither exists.
    pub fn recorded_time_s(&mut self, root: &Root) -> Option<i64> {
        let text = super::read_once(&root.path("/timestamp")).unwrap_or_default();
        if let Some(t) = Scanner::new(&text).number() {
            return Some(t as i64);
        }
        let boot = parse_boot_time_s(self.stat.read(&mut self.buffer).ok()?)?;
        let up = self.uptime_cs().ok()??;
        Some(boot.saturating_add((up / 100) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processor_line() {
        let c = parse_cpu(b"cpu0 1 1 1 1\ncpu  10 2 3 40 5 6 7 8 9 10\n");
        assert_eq!((c.user, c.idle, c.steal), (10, 40, 8));
        assert_eq!(
            parse_cpu(b"cpu  10 2 3 40\n"),
            CpuCounters {
                user: 10,
                nice: 2,
                system: 3,
                idle: 40,
                ..CpuCounters::default()
            }
        );
        assert_eq!(parse_cpu(b""), CpuCounters::default());
    }

    #[test]
    fn uptime_in_hundredths() {
        assert_eq!(parse_uptime_cs(b"32940.53 12.00\n"), Some(3294053));
        assert_eq!(parse_uptime_cs(b"7"), Some(700));
        assert_eq!(parse_uptime_cs(b"x"), None);
    }

    #[test]
    fn processors_are_directories_or_lines() {
        let dir = tempfile::tempdir().expect("a directory");
        let cpu = dir.path().join("sys/devices/system/cpu");
        std::fs::create_dir_all(dir.path().join("proc")).expect("made");
        std::fs::write(
            dir.path().join("proc/stat"),
            "cpu  1\ncpu0 1\ncpu7 1\nintr 3\n",
        )
        .expect("written");
        let root = Root::recorded(dir.path());
        assert_eq!(processors(&root), Ok(8));
        for name in ["cpu0", "cpu1", "cpufreq", "cpuidle"] {
            std::fs::create_dir_all(cpu.join(name)).expect("made");
        }
        std::fs::write(cpu.join("cpu2"), "").expect("a file is no processor");
        assert_eq!(processors(&root), Ok(2));
    }

    #[test]
    fn wall_clock_of_a_sample() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("proc")).expect("made");
        std::fs::write(dir.path().join("proc/stat"), "cpu  1\nbtime 1000000\n").expect("written");
        std::fs::write(dir.path().join("proc/uptime"), "99.99 1.0\n").expect("written");
        let root = Root::recorded(dir.path());
        assert_eq!(
            SystemFiles::new(&root).recorded_time_s(&root),
            Some(1_000_099)
        );
        std::fs::write(dir.path().join("timestamp"), "1700000000\n").expect("written");
        assert_eq!(
            SystemFiles::new(&root).recorded_time_s(&root),
            Some(1_700_000_000)
        );
    }

    #[test]
    fn the_clock_is_the_file() {
        let root = Root::live();
        let mut files = SystemFiles::new(&root);
        let Ok(Some(first)) = files.uptime_cs() else {
            eprintln!("SKIP: no /proc/uptime here");
            return;
        };
        let clock = files.uptime_cs().expect("read").expect("a number");
        let again = SystemFiles::new(&root)
            .uptime_cs()
            .expect("read")
            .expect("a number");
        assert!(first <= clock && clock <= again, "{first} {clock} {again}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse_cpu(&bytes), parse_uptime_cs(&bytes), parse_boot_time_s(&bytes));
        }
    }
}
