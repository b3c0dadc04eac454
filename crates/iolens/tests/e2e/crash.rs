//! `kill -9` at any moment costs at most the last second.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolens_core::model::{Io, LossReason};
use iolens_core::store::{IoColumns, Recording};
use iolens_observe::counters::monotonic_ns;

use super::machine::{LoopDevice, Recorder, StopOnDrop, ebpf, read_in_sequence};

const BLOCKS: u64 = 4096;
const KILLS: u64 = 50;

/// State of a recording whose recorder is killed after `delay`.
struct Left {
    ios: Vec<Io>,
    /// I/Os that are counted as lost: the kernel may skip a probe that would interrupt itself, and the ring may be full
    /// while the recorder waits for a CPU.
    lost: i64,
    /// Time of the kill, in the recording's time.
    killed_ns: i64,
    /// Total time that the recorder's threads had waited for a CPU.
    waited_ns: i64,
}

/// Total time that the threads of a process have waited for a CPU.
fn waited_for_cpu_ns(pid: u32) -> i64 {
    let mut waited_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // A thread may exit meanwhile. The second number is the wait (Documentation/scheduler/sched-stats.rst).
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat"));
        let text = text.unwrap_or_default();
        let number = text.split_whitespace().nth(1);
        waited_ns += number.map_or(0, |ns| ns.parse::<i64>().unwrap());
    }
    waited_ns
}

fn record_and_kill(dir: &std::path::Path, device: &LoopDevice, delay: Duration) -> Left {
    let mut recorder = Recorder::start(dir, &["-q", "-d", device.name()]);
    std::thread::sleep(delay);
    let killed_ns = monotonic_ns();
    let waited_ns = waited_for_cpu_ns(recorder.0.id());
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let recording = Recording::open(dir).unwrap();
    let start_ns = recording.meta().start_monotonic_ns.unwrap();
    let all = i64::MIN..i64::MAX;
    let lost = recording.lost(all.clone());
    for lost in &lost {
        let is_of_tracer = matches!(lost.reason, LossReason::Unseen | LossReason::RingFull);
        assert!(is_of_tracer || !lost.reason.is_loss(), "{lost:?}");
    }
    let lost = lost
        .iter()
        .filter(|l| l.reason.is_loss())
        .map(|l| l.ios.unwrap())
        .sum();
    let ios = recording
        .ios(all, IoColumns::ALL)
        .flat_map(|batch| batch.unwrap())
        .collect();
    Left {
        ios,
        lost,
        killed_ns: killed_ns - start_ns,
        waited_ns,
    }
}

/// Checks that nothing is missing in `left` except I/Os counted as lost and those of the last second before the kill,
/// plus the time that the recorder waited for a CPU.
fn check(kill: u64, left: &Left) {
    // The reader never pauses, so anything missing before the last second appears as a missing tail...
    let last_ns = left.ios.last().map_or(0, |io| io.done_ns);
    let kept_to_ns = left.killed_ns - 1_000_000_000 - left.waited_ns;
    assert!(
        last_ns > kept_to_ns,
        "kill {kill}: ends {} ns early, waited {} ns for a CPU",
        left.killed_ns - last_ns,
        left.waited_ns
    );
    // ... and anything missing in between appears as a jump in its sequence of sectors. In that last second, I/Os of
    // one CPU may be stored before those of another.
    let mut holes = 0;
    for pair in left.ios.windows(2).filter(|p| p[1].done_ns <= kept_to_ns) {
        holes += (block(&pair[1]) + BLOCKS - block(&pair[0]) - 1) % BLOCKS;
    }
    assert!(
        holes as i64 <= left.lost,
        "kill {kill}: {holes} I/Os are missing, {} counted as lost",
        left.lost
    );
}

/// The block of the disk that an I/O read.
fn block(io: &Io) -> u64 {
    io.sector.unwrap() as u64 / 8
}

#[test]
fn data_older_than_a_second_survives_any_kill() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    // In memory: a disk that other tests keep busy may delay a write by more than that second.
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("SKIP: no /dev/shm");
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, BLOCKS, &stop));
        let _stop = StopOnDrop(&stop);
        // Two recorders at a time: most of it is waiting.
        let mut halves = Vec::new();
        for first in 0..2 {
            let dir = &dir;
            let device = &device;
            halves.push(s.spawn(move || {
                for kill in (first..KILLS).step_by(2) {
                    // From immediately after the start to after several log frames, without a pattern.
                    let delay = Duration::from_micros(kill * 7919 % 50 * 40_000 + 1000);
                    let recording = dir.path().join(format!("{kill}.iolens"));
                    check(kill, &record_and_kill(&recording, device, delay));
                }
            }));
        }
        for half in halves {
            half.join().unwrap();
        }
    });
}
