//! Limits the I/O rate of a command: `io.max` of cgroup v2, or `blkio.throttle.*` of version 1.
//!
//! The controller decides on a share of the time. The limit is that share of the rate that the command reached without
//! a limit: a command that may run half of the time gets half of its unlimited rate.

use std::fs;
use std::io;
use std::sync::Mutex;
use std::time::Instant;

use iolens_core::model::DevId;

use super::cgroup::{Group, Hierarchy, limit};
use super::lock::locked;

/// Lower bound of the unlimited rate in bytes/s: a command that has just started has no measured rate.
const MIN_FULL: f64 = 1e6;

/// Decay of the remembered maximum rate, per interval without a limit.
const FORGET: f64 = 0.9;

/// "No limit" in version 1, which does not count the I/O of a group without a limit: more than any disk can move.
const UNLIMITED_V1: u64 = 1 << 50;

#[derive(Debug)]
struct Learnt {
    /// Bytes per second without a limit; `None`: not measured yet.
    full: Option<f64>,
    last: Option<(Instant, u64)>,
    /// The current share; `None`: no limit.
    share: Option<f64>,
}

/// The limits of one command.
#[derive(Debug)]
pub struct Rates {
    group: Group,
    /// `MAJ:MIN`, as cgroup files name disks.
    disks: Vec<String>,
    learnt: Mutex<Learnt>,
}

impl Rates {
    /// In a new group, of version 2 if possible.
    ///
    /// # Errors
    /// Why it is not possible, for each version.
    pub fn new(disks: &[DevId]) -> Result<Rates, Vec<String>> {
        let mut why = Vec::new();
        for (hierarchy, name) in [
            (Hierarchy::V2, "cgroup v2 io.max"),
            (Hierarchy::V1Blkio, "cgroup v1 blkio.throttle"),
        ] {
            let made = Group::limiting(hierarchy).and_then(|group| Rates::over(group, disks));
            match made {
                Ok(rates) => return Ok(rates),
                Err(e) => why.push(format!(
                    "{name}: {e} (needs the controller mounted, and root or a delegated group)"
                )),
            }
        }
        Err(why)
    }

    /// In an existing group.
    pub(super) fn over(group: Group, disks: &[DevId]) -> io::Result<Rates> {
        let disks = disks
            .iter()
            .map(|d| format!("{}:{}", d.major(), d.minor()))
            .collect();
        let rates = Rates {
            group,
            disks,
            learnt: Mutex::new(Learnt {
                full: None,
                last: None,
                share: None,
            }),
        };
        // Checks whether the kernel accepts limits; version 1 starts counting.
        rates.put(None)?;
        rates.learn(None, Instant::now());
        Ok(rates)
    }

    /// The group with the limits.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Name for messages.
    pub fn name(&self) -> &'static str {
        if self.group.hierarchy() == Hierarchy::V2 {
            "cgroup v2 io.max"
        } else {
            "cgroup v1 blkio.throttle"
        }
    }

    /// Limits the command to this share of its unlimited rate; `None`: no limit.
    ///
    /// # Errors
    /// The kernel refuses the limit.
    pub fn set(&self, share: Option<f64>) -> io::Result<()> {
        let full = self.learn(share, Instant::now());
        self.put(share.map(|s| (s * full) as u64))
    }

    /// Updates the rate without a limit, from the bytes moved since the last call.
    fn learn(&self, next: Option<f64>, now: Instant) -> f64 {
        let moved = self.moved();
        let mut l = locked(&self.learnt);
        let rate = l.last.zip(moved).and_then(|((at, before), bytes)| {
            let s = now.saturating_duration_since(at).as_secs_f64();
            (s > 0.0).then(|| bytes.saturating_sub(before) as f64 / s)
        });
        if let Some(rate) = rate.filter(|_| l.share.is_none()) {
            l.full = Some(l.full.map_or(rate, |full| rate.max(full * FORGET)));
        }
        l.last = moved.map(|bytes| (now, bytes));
        l.share = next;
        l.full.unwrap_or(0.0).max(MIN_FULL)
    }

    fn put(&self, bytes_per_s: Option<u64>) -> io::Result<()> {
        let hierarchy = self.group.hierarchy();
        // Version 2 refuses a limit of 0, and in version 1 it means no limit.
        let limited = bytes_per_s.map(|b| b.max(1));
        let rate = match hierarchy {
            Hierarchy::V2 => limited,
            _ => Some(limited.unwrap_or(UNLIMITED_V1)),
        };
        self.disks
            .iter()
            .try_for_each(|d| limit(self.group.dir(), hierarchy, d, rate))
    }

    /// Bytes that the group has read and written on these disks; `None`: not known.
    fn moved(&self) -> Option<u64> {
        let v2 = self.group.hierarchy() == Hierarchy::V2;
        let name = if v2 {
            "io.stat"
        } else {
            "blkio.throttle.io_service_bytes"
        };
        let text = fs::read_to_string(self.group.dir().join(name)).ok()?;
        let lines = text.lines().filter(|l| {
            self.disks
                .iter()
                .any(|d| l.split_whitespace().next() == Some(d))
        });
        Some(lines.map(|l| bytes_of_line(l, v2)).sum())
    }
}

/// `8:0 rbytes=1 wbytes=2 ...` in version 2; `8:0 Read 1` and `8:0 Write 2` in version 1.
fn bytes_of_line(line: &str, v2: bool) -> u64 {
    let mut words = line.split_whitespace().skip(1);
    if !v2 {
        let counts = matches!(words.next(), Some("Read" | "Write"));
        return words
            .next()
            .filter(|_| counts)
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
    }
    let values = words.filter_map(|w| w.strip_prefix("rbytes=").or(w.strip_prefix("wbytes=")));
    values.filter_map(|v| v.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    fn said(dir: &std::path::Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap()
    }

    #[test]
    fn a_share_becomes_that_share_of_the_unlimited_rate() {
        let dir = tempfile::tempdir().unwrap();
        let stat = |bytes: u64| {
            fs::write(
                dir.path().join("io.stat"),
                format!("8:0 rbytes={bytes} wbytes=0 rios=9\n8:16 rbytes=77 wbytes=1\n"),
            )
            .unwrap();
        };
        let rates = Rates::over(Group::at(Hierarchy::V2, dir.path()), &[DevId::new(8, 0)]).unwrap();
        assert_eq!(said(dir.path(), "io.max"), "8:0 rbps=max wbps=max");
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        stat(0);
        rates.learn(None, at(0));
        stat(200_000_000);
        assert_eq!(rates.learn(Some(0.5), at(1)), 200e6);
        stat(210_000_000);
        assert_eq!(
            rates.learn(Some(0.25), at(2)),
            200e6,
            "while limited nothing is learnt"
        );
        rates.put(Some(50_000_000)).unwrap();
        assert_eq!(
            said(dir.path(), "io.max"),
            "8:0 rbps=50000000 wbps=50000000"
        );
    }

    #[test]
    fn a_command_without_history_gets_the_minimum_rate() {
        let dir = tempfile::tempdir().unwrap();
        let rates = Rates::over(
            Group::at(Hierarchy::V1Blkio, dir.path()),
            &[DevId::new(7, 3)],
        )
        .unwrap();
        assert_eq!(
            said(dir.path(), "blkio.throttle.read_bps_device"),
            format!("7:3 {UNLIMITED_V1}")
        );
        rates.set(Some(0.5)).unwrap();
        assert_eq!(
            said(dir.path(), "blkio.throttle.write_bps_device"),
            "7:3 500000"
        );
        rates.set(None).unwrap();
        assert_eq!(
            said(dir.path(), "blkio.throttle.write_bps_device"),
            format!("7:3 {UNLIMITED_V1}")
        );
    }

    #[test]
    fn both_versions_counters_are_read() {
        assert_eq!(
            bytes_of_line("8:0 rbytes=10 wbytes=5 rios=3 dbytes=100", true),
            15
        );
        assert_eq!(
            bytes_of_line("8:0 Read 7", false) + bytes_of_line("8:0 Write 2", false),
            9
        );
        assert_eq!(
            bytes_of_line("8:0 Sync 7", false) + bytes_of_line("8:0 Total 9", false),
            0
        );
    }
}
