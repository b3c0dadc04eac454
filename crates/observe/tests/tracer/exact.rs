//! Counts equal the kernel's, for every kind of load.

use iolens_core::model::{Class, Op};
use iolens_observe::trace::TracerOptions;

use crate::lab::{
    LoopDisk, Mounted, dev_of, fio, kernel_counts, machine_has, on_each_file_system, put_on, ready,
    run, scratch, trace, trace_fairly, turn,
};

/// A load: name, arguments for fio. All are direct and asynchronous unless they say otherwise.
type Load = (&'static str, &'static [&'static str]);

const LOADS: &[Load] = &[
    (
        "random reads",
        &[
            "--rw=randread",
            "--bs=4k",
            "--iodepth=32",
            "--ioengine=libaio",
        ],
    ),
    (
        "random writes, deep, 4 jobs",
        &[
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=128",
            "--ioengine=io_uring",
            "--numjobs=4",
        ],
    ),
    (
        "512 bytes, mixed, fsync",
        &[
            "--rw=randrw",
            "--bs=512",
            "--ioengine=psync",
            "--fsync=16",
            "--numjobs=2",
        ],
    ),
    (
        "4 MiB reads",
        &["--rw=read", "--bs=4m", "--iodepth=4", "--ioengine=libaio"],
    ),
    (
        "1 MiB writes, fsync",
        &[
            "--rw=write",
            "--bs=1m",
            "--iodepth=8",
            "--ioengine=io_uring",
            "--fsync=8",
        ],
    ),
    (
        "sequential in batches: merges",
        &[
            "--rw=read",
            "--bs=512",
            "--iodepth=64",
            "--ioengine=libaio",
            "--iodepth_batch_submit=32",
            "--iodepth_batch_complete_min=16",
        ],
    ),
    (
        "sequential writes in batches",
        &[
            "--rw=write",
            "--bs=4k",
            "--iodepth=128",
            "--ioengine=io_uring",
            "--iodepth_batch_submit=64",
            "--iodepth_batch_complete_min=32",
            "--numjobs=4",
            "--offset_increment=32m",
        ],
    ),
    (
        "mixed sizes",
        &[
            "--rw=randrw",
            "--bsrange=512-4m",
            "--blocksize_unaligned=0",
            "--iodepth=16",
            "--ioengine=libaio",
        ],
    ),
    (
        "trim",
        &[
            "--rw=randtrim",
            "--bs=64k",
            "--iodepth=4",
            "--ioengine=libaio",
        ],
    ),
    (
        "trim and write",
        &["--rw=trimwrite", "--bs=128k", "--ioengine=psync"],
    ),
    (
        "write with FUA",
        &[
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=8",
            "--ioengine=libaio",
            "--sync=dsync",
        ],
    ),
    (
        "buffered writes, fsync",
        &[
            "--rw=write",
            "--bs=64k",
            "--direct=0",
            "--ioengine=psync",
            "--fsync=64",
        ],
    ),
    (
        "buffered reads",
        &[
            "--rw=read",
            "--bs=64k",
            "--direct=0",
            "--ioengine=psync",
            "--invalidate=1",
        ],
    ),
];

fn full() -> bool {
    std::env::var_os("IOLENS_FULL").is_some_and(|v| v == "1")
}

fn check(disk: &LoopDisk, what: &str, options: TracerOptions, work: impl Fn() + Sync) {
    for tries_left in (0..5).rev() {
        let traced = trace_fairly(&disk.name, &options, &work);
        traced.assert_exact(what);
        traced.assert_nothing_lost(what);
        assert!(
            traced.kernel.iter().any(|c| c.ios > 0),
            "{what}: nothing happened"
        );
        // For the kernel, a request with merges starts when the submitter began to collect its bios.
        if traced.kernel.iter().any(|c| c.merges > 0) {
            return;
        }
        traced.assert_not_longer_than_the_kernels(what);
        // The kernel's time of an I/O includes work of the scheduler that ours does not. Another attempt may have less
        // of it.
        match traced.shorter_than_the_kernels(what) {
            Some(why) if tries_left == 0 => panic!("{why}"),
            Some(why) => eprintln!("NOTE: once more: {why}"),
            None => return,
        }
    }
}

#[test]
fn every_load_on_a_disk_in_memory() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    for (what, load) in LOADS {
        check(&disk, what, TracerOptions::default(), || {
            put_on(&disk.path(), load, "800ms")
        });
    }
}

#[test]
fn every_scheduler_and_merges() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let mut merges = 0;
    for scheduler in ["mq-deadline", "bfq", "kyber"] {
        let offered =
            std::fs::read_to_string(format!("/sys/block/{}/queue/scheduler", disk.name)).unwrap();
        if !offered.contains(scheduler) {
            eprintln!("SKIP: no scheduler {scheduler}");
            continue;
        }
        disk.set_queue("scheduler", scheduler);
        for (what, load) in [LOADS[2], LOADS[6]] {
            let what = format!("{what} under {scheduler}");
            let traced = trace_fairly(&disk.name, &TracerOptions::default(), || {
                put_on(&disk.path(), load, "800ms")
            });
            traced.assert_exact(&what);
            traced.assert_nothing_lost(&what);
            merges += traced.recorded().iter().map(|c| c.merges).sum::<i64>();
        }
    }
    // The next loop device with this number would keep the setting.
    disk.set_queue("scheduler", "none");
    assert!(merges > 0, "no load merged anything");
}

#[test]
fn a_loop_disk_on_a_file_system() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::new(scratch(), 256);
    for (what, load) in [LOADS[0], LOADS[2], LOADS[4], LOADS[8]] {
        check(&disk, what, TracerOptions::default(), || {
            put_on(&disk.path(), load, "800ms")
        });
    }
}

/// Journals, metadata, writeback, empty flushes, FUA, discards by the file system.
#[test]
fn file_systems_from_mkfs_to_unmount() {
    on_each_file_system(&["fio", "fstrim"], |kind, disk| {
        let traced = trace_fairly(&disk.name, &TracerOptions::default(), || {
            let fs = Mounted::new(disk, kind);
            fio(
                &fs.path("f"),
                &[
                    "--rw=randrw",
                    "--bs=4k",
                    "--size=64m",
                    "--io_size=16m",
                    "--fsync=32",
                    "--fallocate=none",
                ],
            );
            std::fs::remove_file(fs.path("f")).unwrap();
            run("sync", &[]);
            run("fstrim", &[fs.dir.path().to_str().unwrap()]);
        });
        traced.assert_exact(kind);
        traced.assert_nothing_lost(kind);
        let has = |class: Class| traced.kernel[class as usize].ios > 0;
        assert!(
            has(Class::Write) && has(Class::Flush) && has(Class::Discard),
            "{kind}: {:?}",
            traced.kernel
        );
    });
}

#[test]
fn an_empty_flush_is_a_write_without_bytes_and_a_flush() {
    let Some(_turn) = ready(&["losetup"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(16);
    let file = std::fs::File::open(disk.path()).unwrap();
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        (0..5).for_each(|_| file.sync_all().unwrap());
    });
    traced.assert_exact("fsync of a disk");
    let of = |op: Op| traced.ios.iter().filter(move |io| io.op == op);
    if traced.ios.len() as i64 == traced.kernel.iter().map(|c| c.ios).sum::<i64>() {
        assert_eq!((of(Op::WRITE).count(), of(Op::FLUSH).count()), (5, 5));
    }
    assert!(of(Op::WRITE).all(|io| io.bytes == 0
        && io.device_ns == 0
        && io.queue_ns > Some(0)
        && io.sector.is_none()));
    assert!(of(Op::FLUSH).all(|io| io.bytes == 0
        && io.device_ns > 0
        && io.queue_ns.is_some()
        && io.tgid == Some(std::process::id() as i32)));
}

/// A loop disk whose file ends in the middle of a read completes the existing part, requeues the rest, and fails it.
#[test]
fn partial_completion_requeue_and_error() {
    use std::os::unix::fs::FileExt;
    let Some(_turn) = ready(&["losetup"]) else {
        return;
    };
    for without_io_start in [false, true] {
        let disk = LoopDisk::in_memory(16);
        disk.truncate_file((1 << 20) + 2048);
        let options = TracerOptions {
            without_io_start,
            ..TracerOptions::default()
        };
        let traced = trace(&disk.name, options, false, || {
            let file = std::fs::File::open(disk.path()).unwrap();
            let mut buffer = vec![0; 8192];
            for _ in 0..3 {
                file.read_exact_at(&mut buffer, 1 << 20).unwrap_err();
                run("blockdev", &["--flushbufs", &disk.path()]);
            }
        });
        traced.assert_exact("a disk cut short");
        let failed: Vec<_> = traced.ios.iter().filter(|io| io.error != Some(0)).collect();
        assert!(
            !failed.is_empty() || !traced.lost.is_empty(),
            "{:?}",
            traced.ios
        );
        for io in failed {
            assert_eq!((io.error, io.op), (Some(libc::EIO), Op::READ), "{io:?}");
            assert!(
                io.bytes >= 4096 && io.sector.is_some() && io.device_ns > 0,
                "{io:?}"
            );
        }
    }
}

/// Behaves as on a kernel before 6.5: slots are taken at issue, and start times are the kernel's own.
#[test]
fn without_block_io_start() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let options = TracerOptions {
        without_io_start: true,
        ..TracerOptions::default()
    };
    for (what, load) in [LOADS[0], LOADS[2], LOADS[6], LOADS[8], LOADS[10], LOADS[11]] {
        let trace = || trace_fairly(&disk.name, &options, || put_on(&disk.path(), load, "800ms"));
        // Such a kernel shows an empty flush only by its completion. If that is hidden, the flush cannot be counted.
        let calm = (0..4)
            .map(|_| trace())
            .find(|traced| !traced.misses_empty_flushes_only());
        let traced = calm.unwrap_or_else(trace);
        traced.assert_exact(what);
        traced.assert_nothing_lost(what);
        assert!(
            traced.ios.iter().all(|io| io.queue_ns.is_some()),
            "{what}: the kernel accounts this disk"
        );
    }
}

/// Behaves as on a kernel before 5.12: its BPF has no fetch-and-add.
#[test]
fn without_atomic_operations() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let options = TracerOptions {
        without_fetch: true,
        ..TracerOptions::default()
    };
    for (what, load) in [LOADS[2], LOADS[6]] {
        let traced = trace_fairly(&disk.name, &options, || put_on(&disk.path(), load, "800ms"));
        traced.assert_exact(what);
        traced.assert_nothing_lost(what);
    }
}

#[test]
fn without_attribution() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let options = TracerOptions {
        attribution: false,
        ..TracerOptions::default()
    };
    let traced = trace_fairly(&disk.name, &options, || {
        put_on(&disk.path(), LOADS[2].1, "800ms")
    });
    traced.assert_exact("without attribution");
    traced.assert_nothing_lost("without attribution");
    assert!(
        traced
            .ios
            .iter()
            .all(|io| io.tgid.is_none() && io.comm.is_none() && io.cgroup.is_none())
    );
}

/// The machine's disk is never idle, so the recorded count must lie between the kernel's counts inside and outside.
#[test]
fn the_machines_own_disk() {
    if !machine_has(&["fio", "findmnt", "lsblk"]) {
        return;
    }
    let source = run(
        "findmnt",
        &["-no", "SOURCE", "-T", scratch().to_str().unwrap()],
    );
    let parents = run("lsblk", &["-sno", "NAME", "-r", source.trim()]);
    let Some(name) = parents
        .lines()
        .last()
        .filter(|n| std::path::Path::new(&format!("/sys/block/{n}")).exists())
    else {
        eprintln!("SKIP: {} is on no disk", scratch().display());
        return;
    };
    let _turn = turn();
    let dev = dev_of(name);
    let file = scratch().join("own-disk");
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    let outer = kernel_counts(name);
    let mut tracer = iolens_observe::trace::Tracer::start(TracerOptions::default()).unwrap();
    let inner = kernel_counts(name);
    let args = [
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=16",
        "--ioengine=libaio",
        "--direct=1",
        "--size=64m",
        "--fsync=64",
        "--runtime=2",
        "--time_based",
    ];
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| fio(file.to_str().unwrap(), &args));
        while !worker.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            tracer.poll(&mut ios, &mut lost).unwrap();
        }
    });
    let inner_end = kernel_counts(name);
    tracer.finish(&mut ios, &mut lost).unwrap();
    let outer_end = kernel_counts(name);
    std::fs::remove_file(&file).unwrap();
    for class in Class::ALL {
        let i = class as usize;
        let recorded = ios
            .iter()
            .filter(|io| io.dev == dev && io.class() == class)
            .count() as i64;
        let missing: i64 = lost
            .iter()
            .filter(|l| l.dev == Some(dev) && l.class == Some(class))
            .filter_map(|l| l.ios)
            .sum();
        let least = (inner_end[i] - inner[i]).ios;
        let most = (outer_end[i] - outer[i]).ios;
        // An I/O may have completed but not be counted yet when the counters are read.
        assert!(
            (least - 8..=most + 8).contains(&(recorded + missing)),
            "{name} {}: {recorded}+{missing} not in {least}..={most}",
            class.name()
        );
    }
}

/// The long matrix: patterns, sizes, depths, jobs and engines against each other.
#[test]
fn the_long_matrix() {
    if !full() {
        eprintln!("SKIP: the long matrix runs with IOLENS_FULL=1");
        return;
    }
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    for rw in [
        "read",
        "write",
        "randread",
        "randwrite",
        "randrw",
        "randtrim",
    ] {
        for bs in ["512", "4k", "128k", "4m"] {
            for depth in ["1", "32", "128"] {
                for jobs in ["1", "4"] {
                    for engine in ["libaio", "io_uring", "psync"] {
                        if engine == "psync" && depth != "1" {
                            continue;
                        }
                        let args = [
                            ("--rw=", rw),
                            ("--bs=", bs),
                            ("--iodepth=", depth),
                            ("--numjobs=", jobs),
                            ("--ioengine=", engine),
                        ];
                        let args: Vec<String> =
                            args.iter().map(|(k, v)| format!("{k}{v}")).collect();
                        let args: Vec<&str> = args
                            .iter()
                            .map(String::as_str)
                            .chain(["--fsync=64"])
                            .collect();
                        let what = args.join(" ");
                        check(&disk, &what, TracerOptions::default(), || {
                            put_on(&disk.path(), &args, "300ms")
                        });
                    }
                }
            }
        }
    }
}
