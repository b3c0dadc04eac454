//! Repainted reports equal full ones.

use super::*;
use crate::iostat::words;
use proptest::prelude::*;
use std::ffi::{OsStr, OsString};

/// A machine whose counters tests set.
struct Machine(tempfile::TempDir);

/// The counters of a disk: everything grows with `n`, nothing is in flight if it is even.
fn line(minor: usize, n: u64) -> String {
    let name = ["vda", "loop0", "cciss/c0d0", "vda1", "sr0", "zram0"][minor];
    format!(
        "   8  {minor} {name} {n} 0 {} {} {n} 1 {} {n} {} {n} {} {n} 0 8 {n} {n} {n}\n",
        n * 8,
        n * 3,
        n * 16,
        n % 2,
        n * 5
    )
}

impl Machine {
    fn new() -> Machine {
        let m = Machine(tempfile::tempdir().expect("a directory"));
        for dir in ["proc", "sys/devices/system/cpu/cpu0"] {
            std::fs::create_dir_all(m.0.path().join(dir)).expect("made");
        }
        m
    }

    /// Disks by minor number; one is a partition.
    fn now(&self, tick: u64, disks: &[Option<u64>]) {
        let path = |p: &str| self.0.path().join(p);
        let text: String = disks
            .iter()
            .enumerate()
            .filter_map(|(i, n)| Some(line(i, (*n)?)))
            .collect();
        std::fs::write(path("proc/diskstats"), text).expect("written");
        std::fs::write(path("proc/uptime"), format!("{}.25 0\n", 100 + tick)).expect("written");
        std::fs::write(
            path("proc/stat"),
            format!("cpu  {} 1 {} {} 5 0 0 0\n", tick * 7, tick * 5, tick * 90),
        )
        .expect("written");
        for (i, name) in ["vda", "loop0", "cciss!c0d0", "-", "sr0", "zram0"]
            .iter()
            .enumerate()
            .filter(|(_, n)| **n != "-")
        {
            let dir = path("sys/block").join(name);
            match disks.get(i).copied().flatten() {
                Some(_) => std::fs::create_dir_all(dir).expect("made"),
                None => drop(std::fs::remove_dir(dir)),
            }
        }
    }

    fn run(&self, line: &str) -> Run {
        let plan =
            crate::cli::iostat::parse(OsStr::new("iostat"), line.split(' ').map(OsString::from));
        let root = Root::under(self.0.path());
        let setup = words::resolve(&plan, &root).expect("resolved");
        let mut run = Run::start(&plan, setup, root, Vec::new()).expect("started");
        run.out.clear();
        run.reader.kernel_scan.trusting = true;
        run
    }
}

/// The next report as it would be written; `keeps`: over the last one.
fn next(run: &mut Run, sample: u64, keeps: bool) -> (String, bool) {
    let slot = 1 - (sample % 2) as usize;
    if !keeps {
        run.repaint = None;
    }
    run.sample(slot, sample).expect("sampled");
    run.report(slot, sample).expect("reported");
    let text = match &run.repaint {
        Some(repaint) if run.painted => repaint.text().to_vec(),
        _ => std::mem::take(&mut run.out),
    };
    run.out.clear();
    run.pending = PendingReport::Line;
    (String::from_utf8(text).expect("text"), run.painted)
}

#[test]
fn most_reports_are_repainted_in_place() {
    let m = Machine::new();
    m.now(0, &[Some(5), Some(2), None, Some(1), Some(0)]);
    let mut run = m.run("-x 1");
    let mut painted = Vec::new();
    for (tick, disks) in [
        [Some(5), Some(2), None, Some(1), Some(0)],
        [Some(5), Some(2), None, Some(1), Some(0)],
        [Some(9_000_000), Some(2), None, Some(3), Some(0)],
        // One that has never been used is used: there is a row more.
        [Some(9_000_001), Some(2), None, Some(3), Some(1)],
        [Some(9_000_001), Some(2), None, Some(3), Some(1)],
        // One comes.
        [Some(9_000_001), Some(2), Some(7), Some(3), Some(1)],
        [Some(9_000_002), Some(2), Some(7), Some(4), Some(1)],
    ]
    .iter()
    .enumerate()
    {
        m.now(tick as u64 + 1, disks);
        painted.push(next(&mut run, tick as u64, true).1);
    }
    assert_eq!(painted, [false, false, true, false, true, false, true]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_repainted_report_equals_a_full_one(
        options in prop::sample::select(vec!["-x 1", "1", "-d 1", "-xs 1", "-t 1", "-xht 1", "-x --compact --pretty 1", "-m ALL 1", "-c 1", "-xd --dec=0 1"]),
        steps in prop::collection::vec(prop::collection::vec(prop_oneof![6 => Just(None), 1 => (0u64..4).prop_map(Some), 1 => any::<u32>().prop_map(|n| Some(u64::from(n)))], 6), 2..12),
    ) {
        let m = Machine::new();
        let mut now = vec![Some(3), Some(0), None, Some(1), Some(7), Some(9)];
        m.now(0, &now);
        let mut painting = m.run(options);
        let mut writing = m.run(options);
        for (tick, step) in steps.iter().enumerate() {
            // Most stay as they were, some change, now and then one comes or goes.
            for (disk, change) in now.iter_mut().zip(step) {
                *disk = match change {
                    Some(0) if tick % 3 == 0 => if disk.is_some() { None } else { Some(1) },
                    Some(n) => disk.map(|old| if n % 5 == 4 { *n } else { old + n }),
                    None => *disk,
                };
            }
            m.now(tick as u64 + 1, &now);
            let painted = next(&mut painting, tick as u64, true).0;
            let written = next(&mut writing, tick as u64, false).0;
            let untimed = |s: &str| s.lines().filter(|l| !l.contains(':')).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(untimed(&painted), untimed(&written), "report {} of {}", tick, options);
        }
    }
}
