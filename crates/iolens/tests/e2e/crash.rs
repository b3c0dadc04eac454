//! `kill -9` at any moment costs at most the last second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolens_core::model::Io;
use iolens_core::store::{IoColumns, Recording};
use iolens_observe::counters::monotonic_ns;

use super::machine::{LoopDevice, Recorder, ebpf, read_in_sequence};

const BLOCKS: u64 = 4096;
const KILLS: u64 = 50;

/// Kills a recorder after `delay`; returns the recorded I/Os and the instant of the kill in the recording's time.
fn record_and_kill(dir: &std::path::Path, device: &LoopDevice, delay: Duration) -> (Vec<Io>, i64) {
    let mut recorder = Recorder::start(dir, &["-q", "-d", device.name()]);
    std::thread::sleep(delay);
    let killed_ns = monotonic_ns();
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let recording = Recording::open(dir).unwrap();
    let start_ns = recording.meta().start_monotonic_ns.unwrap();
    let all = i64::MIN..i64::MAX;
    let lost = recording.lost(all.clone()).unwrap();
    assert!(lost.iter().all(|l| !l.reason.is_loss()), "{lost:?}");
    let ios = recording.ios(all, IoColumns::ALL).flat_map(|batch| batch.unwrap()).collect();
    (ios, killed_ns - start_ns)
}

#[test]
fn after_any_kill_everything_older_than_a_second_is_there_without_a_hole() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else { return };
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, BLOCKS, &stop));
        for i in 0..KILLS {
            // From right at the start to after several log frames, spread without a pattern.
            let delay = Duration::from_micros(i * 7919 % 50 * 40_000 + 1000);
            let (ios, killed_ns) = record_and_kill(&dir.path().join(format!("{i}.iolens")), &device, delay);
            // The reader never pauses, so whatever is missing before the last second shows as a missing tail...
            let last_ns = ios.last().map_or(0, |io| io.done_ns);
            assert!(last_ns > killed_ns - 1_000_000_000, "kill {i}: ends {} ns before the kill", killed_ns - last_ns);
            // ... and what is missing in between as a jump in its sequence of sectors.
            let next = |io: &Io| (io.sector.unwrap() as u64 / 8 + 1) % BLOCKS;
            for pair in ios.windows(2) {
                assert_eq!(next(&pair[0]), pair[1].sector.unwrap() as u64 / 8, "kill {i}: a hole at {pair:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
