//! Losses are counted, dated and attributed to a reason.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use iolens_core::model::LossReason;
use iolens_observe::trace::{Tracer, TracerOptions};

use crate::lab::{LoopDisk, dev_of, fio, kernel_counts, now_ns, ready, settle, trace};

const BUSY: &[&str] = &[
    "--rw=randrw",
    "--bs=4k",
    "--iodepth=32",
    "--ioengine=libaio",
    "--direct=1",
    "--runtime=1500ms",
    "--time_based",
    "--size=200m",
    "--fsync=100",
];

#[test]
fn a_small_ring_with_a_slow_reader_counts_losses() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let options = TracerOptions {
        ring_bytes: 64 << 10,
        devices: Some(vec![disk.dev]),
        ..TracerOptions::default()
    };
    let traced = trace(&disk.name, options, true, || {
        fio(&disk.path(), BUSY);
    });
    traced.assert_exact("tiny ring");
    let lost = traced.missing(LossReason::RingFull);
    assert!(
        lost[0].ios > 1000 && lost[1].ios > 1000,
        "the ring held everything: {lost:?}"
    );
    assert!(!traced.ios.is_empty());
    let last = traced.ios.iter().map(|io| io.done_ns).max().unwrap();
    let from = traced.lost.iter().map(|l| l.from_ns).min().unwrap();
    let to = traced.lost.iter().map(|l| l.to_ns).max().unwrap();
    assert!(
        from <= last + 1_000_000 && to >= from + 1_000_000_000,
        "lost {from}..{to}, recorded to {last}"
    );
}

/// A reader that polls too rarely: every gap in the recorded I/Os lies in a loss interval.
#[test]
fn lost_intervals_cover_the_gaps() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    settle(&disk.name);
    let before = kernel_counts(&disk.name);
    let options = TracerOptions {
        ring_bytes: 64 << 10,
        devices: Some(vec![disk.dev]),
        ..TracerOptions::default()
    };
    let mut tracer = Tracer::start(options).unwrap();
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    let total = || kernel_counts(&disk.name).iter().map(|c| c.ios).sum::<i64>();
    let over = AtomicBool::new(false);
    let truth = thread::scope(|scope| {
        let load = scope.spawn(|| fio(&disk.path(), BUSY));
        // The kernel's counts every 10 ms: (time before reading, time after, I/Os so far).
        let witness = scope.spawn(|| {
            let mut seen = Vec::new();
            while !over.load(Ordering::Acquire) {
                let from = now_ns();
                let n = total();
                seen.push((from, now_ns(), n));
                thread::sleep(Duration::from_millis(10));
            }
            seen
        });
        while !load.is_finished() {
            thread::sleep(Duration::from_millis(50));
            tracer.poll(&mut ios, &mut lost).unwrap();
        }
        over.store(true, Ordering::Release);
        witness.join().unwrap()
    });
    settle(&disk.name);
    let kernel = kernel_counts(&disk.name);
    tracer.finish(&mut ios, &mut lost).unwrap();
    lost.retain(|l| l.ios > Some(0));
    let all: i64 = ios.len() as i64 + lost.iter().filter_map(|l| l.ios).sum::<i64>();
    assert_eq!(
        all,
        (0..4).map(|i| (kernel[i] - before[i]).ios).sum::<i64>()
    );
    let mut silent = 0;
    for pair in truth.windows(2) {
        // The kernel counts an I/O some time after its completion was traced.
        let from = pair[0].0 - 2_000_000;
        let to = pair[1].1;
        let recorded = ios.partition_point(|io| io.done_ns <= to)
            - ios.partition_point(|io| io.done_ns < from);
        if pair[1].2 > pair[0].2 && recorded == 0 {
            silent += 1;
            assert!(
                lost.iter().any(|l| l.from_ns <= to && l.to_ns >= from),
                "{} I/Os in {from}..{to} are neither recorded nor in an interval of loss: {lost:?}",
                pair[1].2 - pair[0].2
            );
        }
    }
    assert!(
        silent > 3,
        "the ring held everything: {} recorded",
        ios.len()
    );
}

/// Attached in the middle of a load: I/Os in flight are censored, and there are few.
#[test]
fn in_flight_at_attach_is_censored() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            fio(
                &disk.path(),
                &[
                    "--rw=randread",
                    "--bs=1m",
                    "--iodepth=64",
                    "--ioengine=libaio",
                    "--direct=1",
                    "--runtime=5",
                    "--time_based",
                    "--size=200m",
                ],
            )
        });
        thread::sleep(Duration::from_millis(700));
        let mut tracer = Tracer::start(TracerOptions {
            devices: Some(vec![disk.dev]),
            ..TracerOptions::default()
        })
        .unwrap();
        while !worker.is_finished() {
            thread::sleep(Duration::from_millis(5));
            tracer.poll(&mut ios, &mut lost).unwrap();
        }
        tracer.finish(&mut ios, &mut lost).unwrap();
    });
    let sum = |reason| {
        lost.iter()
            .filter(|l| l.reason == reason)
            .filter_map(|l| l.ios)
            .sum::<i64>()
    };
    assert!(ios.len() > 100, "{} recorded, {lost:?}", ios.len());
    assert_eq!(
        (sum(LossReason::RingFull), sum(LossReason::SlotClash)),
        (0, 0)
    );
    let censored = sum(LossReason::Censored);
    let unseen = sum(LossReason::Unseen);
    assert!(censored <= 1024 + unseen, "{censored} censored");
    // Their bytes are known, but not their times.
    let bytes: i64 = lost
        .iter()
        .filter(|l| l.reason == LossReason::Censored)
        .filter_map(|l| l.bytes)
        .sum();
    assert_eq!(bytes % 512, 0);
    assert!(censored == 0 || bytes > 0);
}

/// With far fewer slots than I/Os in flight, and both CPUs using them, every I/O without a slot is counted as a clash.
#[test]
fn slot_clashes_are_counted() {
    few_slots(TracerOptions {
        slots: 64,
        ..TracerOptions::default()
    });
}

#[test]
fn slot_clashes_are_counted_without_atomic_operations() {
    few_slots(TracerOptions {
        slots: 64,
        without_fetch: true,
        ..TracerOptions::default()
    });
}

fn few_slots(options: TracerOptions) {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disks: Vec<LoopDisk> = (0..2).map(|_| LoopDisk::in_memory(64)).collect();
    let traced = trace(&disks[0].name, options, false, || {
        thread::scope(|scope| {
            for disk in &disks {
                scope.spawn(|| {
                    fio(
                        &disk.path(),
                        &[
                            "--rw=randread",
                            "--bs=64k",
                            "--iodepth=128",
                            "--ioengine=libaio",
                            "--direct=1",
                            "--runtime=1",
                            "--time_based",
                            "--size=60m",
                        ],
                    )
                });
            }
        });
        settle(&disks[1].name);
    });
    traced.assert_exact("few slots");
    assert!(
        traced.missing(LossReason::SlotClash)[0].ios > 0,
        "no clash: {:?}",
        traced.lost
    );
}

#[test]
fn only_the_devices_asked_for() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disks: Vec<LoopDisk> = (0..2).map(|_| LoopDisk::in_memory(64)).collect();
    let load = |disk: &LoopDisk| {
        fio(
            &disk.path(),
            &[
                "--rw=randread",
                "--bs=4k",
                "--size=16m",
                "--io_size=4m",
                "--direct=1",
                "--ioengine=psync",
            ],
        )
    };
    let mut tracer = Tracer::start(TracerOptions {
        devices: Some(vec![disks[0].dev]),
        ..TracerOptions::default()
    })
    .unwrap();
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    disks.iter().for_each(|d| drop(load(d)));
    tracer.set_devices(&[disks[1].dev]).unwrap();
    disks.iter().for_each(|d| drop(load(d)));
    tracer.finish(&mut ios, &mut lost).unwrap();
    let unseen: i64 = lost.iter().filter_map(|l| l.ios).sum();
    for disk in &disks {
        let n = ios.iter().filter(|io| io.dev == disk.dev).count() as i64;
        assert!(
            (1024 - unseen..=1100).contains(&n),
            "{}: {n} (hidden {unseen})",
            disk.name
        );
    }
    assert!(
        ios.iter().all(|io| disks.iter().any(|d| d.dev == io.dev)),
        "another device was recorded"
    );
    let mut all = Tracer::start(TracerOptions::default()).unwrap();
    assert!(
        all.set_devices(&[disks[0].dev])
            .unwrap_err()
            .to_string()
            .contains("all devices")
    );
}

#[test]
fn a_device_that_appears_is_recorded() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let tracer = Tracer::start(TracerOptions::default()).unwrap();
    let disk = LoopDisk::in_memory(64);
    fio(
        &disk.path(),
        &[
            "--rw=randread",
            "--bs=4k",
            "--size=16m",
            "--io_size=4m",
            "--direct=1",
            "--ioengine=psync",
        ],
    );
    let dev = dev_of(&disk.name);
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    tracer.finish(&mut ios, &mut lost).unwrap();
    let hidden: i64 = lost.iter().filter_map(|l| l.ios).sum();
    assert!(ios.iter().filter(|io| io.dev == dev).count() as i64 >= 1024 - hidden);
}

#[test]
fn impossible_options_are_refused_in_one_line() {
    for bytes in [0, 1000, 5000, 3 << 20] {
        let Err(e) = Tracer::start(TracerOptions {
            ring_bytes: bytes,
            ..TracerOptions::default()
        }) else {
            panic!("a ring of {bytes} bytes")
        };
        let text = e.to_string();
        assert!(
            text.contains("power of two") && text.lines().count() == 1,
            "{text}"
        );
    }
}
