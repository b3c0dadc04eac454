//! Reads a device's counters and limits immediately before and after a run.

use std::io;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::statistics::identities::DeviceSide;
use iolens_core::model::{ClassCounters, DevId, DiskCounters};
use iolens_observe::counters::{monotonic_ns, parse_cpu, parse_stat};

/// The disk under a path or device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Kernel name of the whole disk.
    pub name: String,
    /// Device number (major:minor).
    pub dev: DevId,
}

impl Disk {
    /// The disk that holds the file (or is the device node) `path`.
    ///
    /// # Errors
    /// The path does not exist, or no single disk is under it (network, tmpfs, btrfs over several).
    pub fn under(path: &Path) -> io::Result<Disk> {
        let meta = std::fs::metadata(path)?;
        let number = if meta.st_mode() & 0o170_000 == 0o060_000 {
            meta.st_rdev()
        } else {
            meta.st_dev()
        };
        let major = rustix::fs::major(number);
        let minor = rustix::fs::minor(number);
        let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let mut dir = link.canonicalize().map_err(|_| {
            io::Error::other(format!(
                "{}: no single disk is under it (a network, memory or multi-disk file system)",
                path.display()
            ))
        })?;
        if dir.join("partition").exists() {
            dir.pop();
        }
        let name = dir
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let text = std::fs::read_to_string(dir.join("dev"))?;
        let dev = text.trim().parse().map_err(|_| {
            io::Error::other(format!("{}: its number cannot be read", dir.display()))
        })?;
        Ok(Disk { name, dev })
    }

    /// A number from its queue directory in sysfs.
    pub fn queue(&self, file: &str) -> Option<f64> {
        std::fs::read_to_string(format!("/sys/block/{}/queue/{file}", self.name))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// The counters now, and the monotonic clock just before they were read.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read(&self) -> io::Result<BracketReading> {
        let at_ns = monotonic_ns();
        let text = std::fs::read(format!("/sys/block/{}/stat", self.name))?;
        let cpu = parse_cpu(&std::fs::read("/proc/stat")?);
        Ok(BracketReading {
            at_ns,
            counters: parse_stat(&text).counters,
            cpu: [
                cpu.user,
                cpu.nice,
                cpu.system + cpu.irq + cpu.softirq,
                cpu.iowait,
                cpu.steal,
                cpu.idle,
            ],
        })
    }
}

/// Counters at one instant.
#[derive(Debug, Clone, Copy)]
pub struct BracketReading {
    /// Time of the reading, nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: i64,
    /// Counters of the device.
    pub counters: DiskCounters,
    /// The processors' ticks: user, nice, system, iowait, steal, idle.
    pub cpu: [u64; 6],
}

/// The difference of two readings.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    /// Time between the two readings, in seconds.
    pub seconds: f64,
    /// Sides: reads, writes.
    pub sides: [DeviceSide; 2],
    /// `time_in_queue` in ms.
    pub in_queue_ms: f64,
    /// `io_ticks` in ms.
    pub io_ticks_ms: f64,
    /// The processors' time in percent: user, nice, system, iowait, steal, idle.
    pub cpu_percent: [f64; 6],
}

/// Milliseconds are printed as 32-bit numbers by the kernel.
fn ms(before: u64, after: u64) -> f64 {
    f64::from((after as u32).wrapping_sub(before as u32))
}

impl Bracket {
    /// The difference of two readings.
    pub fn between(before: &BracketReading, after: &BracketReading) -> Bracket {
        let a = &before.counters;
        let b = &after.counters;
        let ticks: Vec<f64> = before
            .cpu
            .iter()
            .zip(&after.cpu)
            .map(|(a, b)| b.saturating_sub(*a) as f64)
            .collect();
        let total = ticks.iter().sum::<f64>().max(1.0);
        let mut cpu_percent = [0.0; 6];
        for (percent, ticks) in cpu_percent.iter_mut().zip(&ticks) {
            *percent = 100.0 * ticks / total;
        }
        Bracket {
            seconds: (after.at_ns - before.at_ns) as f64 / 1e9,
            sides: [side(&a.read, &b.read), side(&a.write, &b.write)],
            in_queue_ms: ms(a.time_in_queue_ms, b.time_in_queue_ms),
            io_ticks_ms: ms(a.io_ticks_ms, b.io_ticks_ms),
            cpu_percent,
        }
    }
}

/// The device's activity in one class.
fn side(before: &ClassCounters, after: &ClassCounters) -> DeviceSide {
    DeviceSide {
        ios: after.ios.wrapping_sub(before.ios) as f64,
        bytes: Some(after.sectors.wrapping_sub(before.sectors) as f64 * 512.0),
        merges: after.merges.wrapping_sub(before.merges) as f64,
        ticks_ms: ms(before.ticks_ms, after.ticks_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_a_wrap_of_milliseconds() {
        let at = |ios, ticks_ms, at_ns| BracketReading {
            at_ns,
            counters: DiskCounters {
                read: ClassCounters {
                    ios,
                    sectors: ios * 8,
                    ticks_ms,
                    merges: 0,
                },
                io_ticks_ms: ticks_ms,
                ..DiskCounters::default()
            },
            cpu: [ios, 0, 0, 0, 0, ios],
        };
        let b = Bracket::between(
            &at(10, u64::from(u32::MAX) - 9, 0),
            &at(30, 90, 500_000_000),
        );
        assert_eq!(
            (
                b.sides[0].ios,
                b.sides[0].ticks_ms,
                b.io_ticks_ms,
                b.seconds
            ),
            (20.0, 100.0, 100.0, 0.5)
        );
        assert_eq!(b.sides[0].bytes, Some(20.0 * 4096.0));
        assert_eq!(b.cpu_percent[0], 50.0);
    }

    #[test]
    fn memory_has_no_disk() {
        assert!(Disk::under(Path::new("/proc/self/status")).is_err());
    }
}
