//! Pressure of the host: PSI, time stolen by the hypervisor, and the number of runnable tasks.

use super::scan::Scanner;
use super::{KernelFile, Root, parse_cpu};

/// Totals since boot and a snapshot of the run queues; `None` where the kernel does not provide them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounters {
    /// Time in which at least one task waited for a CPU, in nanoseconds.
    pub cpu_some_ns: Option<i64>,
    /// Time in which at least one task waited for I/O, in nanoseconds.
    pub io_some_ns: Option<i64>,
    /// Time in which all tasks that were not idle waited for I/O, in nanoseconds.
    pub io_full_ns: Option<i64>,
    /// Time in which the hypervisor ran others while a CPU had work (steal), summed over CPUs, in nanoseconds.
    pub steal_ns: Option<i64>,
    /// CPUs that are online.
    pub cpus: Option<i32>,
    /// Number of tasks that run or wait for a CPU, including the calling one.
    pub runnable: Option<i32>,
}

/// `/proc/pressure/cpu`, `/proc/pressure/io` and `/proc/stat` of one root, kept open.
#[derive(Debug)]
pub struct HostFiles {
    cpu: KernelFile,
    io: KernelFile,
    stat: KernelFile,
    tick_ns: i64,
    buffer: Vec<u8>,
}

impl HostFiles {
    /// Sets the paths; the first read opens the files.
    pub fn new(root: &Root) -> HostFiles {
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
        HostFiles {
            cpu: KernelFile::new(root.path("/proc/pressure/cpu")),
            io: KernelFile::new(root.path("/proc/pressure/io")),
            stat: KernelFile::new(root.path("/proc/stat")),
            tick_ns: i64::try_from(1_000_000_000 / ticks_per_s).unwrap_or(0),
            buffer: Vec::new(),
        }
    }

    /// Reads all of them; values that cannot be read are `None`.
    pub fn read(&mut self) -> HostCounters {
        let mut counters = HostCounters::default();
        if let Ok(text) = self.cpu.read(&mut self.buffer) {
            counters.cpu_some_ns = parse_pressure_total_ns(text, b"some");
        }
        if let Ok(text) = self.io.read(&mut self.buffer) {
            counters.io_some_ns = parse_pressure_total_ns(text, b"some");
            counters.io_full_ns = parse_pressure_total_ns(text, b"full");
        }
        if let Ok(text) = self.stat.read(&mut self.buffer) {
            let steal_ticks = i64::try_from(parse_cpu(text).steal).ok();
            counters.steal_ns = steal_ticks.and_then(|n| n.checked_mul(self.tick_ns));
            counters.cpus = online_cpus(text);
            counters.runnable = running(text);
        }
        counters
    }
}

/// The total of the line that begins with `kind` (`some`, `full`), in nanoseconds. The kernel prints microseconds.
fn parse_pressure_total_ns(text: &[u8], kind: &[u8]) -> Option<i64> {
    let line = text.split(|b| *b == b'\n').find(|l| l.starts_with(kind))?;
    let mut words = line.split(|b| *b == b' ');
    let total = words.find_map(|word| word.strip_prefix(b"total="))?;
    let total_us = Scanner::new(total).number()?;
    i64::try_from(total_us).ok()?.checked_mul(1000)
}

fn online_cpus(stat: &[u8]) -> Option<i32> {
    let lines = stat.split(|b| *b == b'\n');
    let numbered = lines
        .filter_map(|l| l.strip_prefix(b"cpu"))
        .filter(|rest| rest.first().is_some_and(u8::is_ascii_digit));
    i32::try_from(numbered.count()).ok().filter(|n| *n > 0)
}

fn running(stat: &[u8]) -> Option<i32> {
    let mut lines = stat.split(|b| *b == b'\n');
    let rest = lines.find_map(|l| l.strip_prefix(b"procs_running "))?;
    i32::try_from(Scanner::new(rest).number()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        dir
    }

    #[test]
    fn totals_are_read_in_nanoseconds() {
        let dir = laid_out(&[
            (
                "proc/pressure/cpu",
                "some avg10=88.66 avg60=77.86 avg300=39.08 total=354514920\n\
                 full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            ),
            (
                "proc/pressure/io",
                "some avg10=0.06 avg60=0.73 avg300=1.43 total=19576466\n\
                 full avg10=0.00 avg60=0.35 avg300=0.89 total=10892292\n",
            ),
            (
                "proc/stat",
                "cpu  10 0 10 100 0 0 0 7 0 0\ncpu0 5 0 5 50 0 0 0 3 0 0\ncpu1 5 0 5 50 0 0 0 4 0 0\n\
                 intr 1 2 3\nbtime 1\nprocs_running 9\nprocs_blocked 0\n",
            ),
        ]);
        let counters = HostFiles::new(&Root::under(dir.path())).read();
        assert_eq!(counters.cpu_some_ns, Some(354_514_920_000));
        assert_eq!(counters.io_some_ns, Some(19_576_466_000));
        assert_eq!(counters.io_full_ns, Some(10_892_292_000));
        assert_eq!(counters.steal_ns, Some(70_000_000));
        assert_eq!(counters.cpus, Some(2));
        assert_eq!(counters.runnable, Some(9));
    }

    #[test]
    fn a_kernel_without_pressure_leaves_it_unknown() {
        let dir = laid_out(&[("proc/stat", "cpu  1 2 3 4\n")]);
        let counters = HostFiles::new(&Root::under(dir.path())).read();
        assert_eq!(counters.cpu_some_ns, None);
        assert_eq!(counters.io_some_ns, None);
        assert_eq!(counters.cpus, None);
        assert_eq!(counters.runnable, None);
    }
}
