//! Attribution: process, cgroup, file, origin.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::thread;
use std::time::Duration;

use iolens_core::model::{Class, Comm, DevId, Io, Op, Origin};
use iolens_observe::trace::TracerOptions;

use crate::lab::{
    LoopDisk, Mounted, Traced, fio, kernel_counts, on_each_file_system, own_cgroup, ready, run,
    trace,
};

fn dev_of_file(meta: &std::fs::Metadata) -> i32 {
    DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())).0
}

#[test]
fn direct_io_belongs_to_its_process_and_cgroup() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    let mut group = None;
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        fio(
            &disk.path(),
            &[
                "--rw=randwrite",
                "--bs=4k",
                "--size=16m",
                "--direct=1",
                "--ioengine=psync",
                "--thread=1",
            ],
        );
        group = own_cgroup();
    });
    let data: Vec<&Io> = traced
        .ios
        .iter()
        .filter(|io| io.op == Op::WRITE && io.bytes == 4096)
        .collect();
    assert!(data.len() > 3500);
    assert!(
        data.iter()
            .all(|io| io.origin == Origin::Direct && io.comm == Some(Comm::new(b"fio"))),
        "{:?}",
        data[0]
    );
    assert!(
        data.iter()
            .all(|io| io.tgid == data[0].tgid && io.tgid > Some(1))
    );
    match group {
        Some(id) => assert!(
            data.iter().all(|io| io.cgroup == Some(id)),
            "{:?} is not {id}",
            data[0].cgroup
        ),
        None => eprintln!("SKIP: no cgroup v2 hierarchy"),
    }
}

#[test]
fn cached_io_belongs_to_its_file() {
    on_each_file_system(&["sync"], |kind, disk| {
        let mut meta = None;
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            let fs = Mounted::new(disk, kind);
            let path = fs.path("data");
            std::fs::write(&path, vec![7u8; 8 << 20]).unwrap();
            run("sync", &[]);
            std::fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            std::fs::read(&path).unwrap();
            meta = Some(std::fs::metadata(&path).unwrap());
        });
        let meta = meta.unwrap();
        let of_file = |io: &&Io| io.ino == Some(meta.ino() as i64);
        let bytes = |op: Op| {
            traced
                .ios
                .iter()
                .filter(|io| io.op == op)
                .filter(of_file)
                .map(|io| io.bytes)
                .sum::<i64>()
        };
        let hidden: i64 = traced.lost.iter().filter_map(|l| l.bytes).sum();
        assert!(
            bytes(Op::WRITE) + hidden >= 8 << 20,
            "{kind}: {} written under its inode",
            bytes(Op::WRITE)
        );
        assert!(
            bytes(Op::READ) + hidden >= 8 << 20,
            "{kind}: {} read under its inode",
            bytes(Op::READ)
        );
        for io in traced.ios.iter().filter(of_file) {
            let origins: &[_] = match io.op {
                Op::WRITE => &[Origin::Writeback],
                _ => &[Origin::BufferedRead, Origin::Readahead],
            };
            assert!(origins.contains(&io.origin), "{kind}: {io:?}");
            assert_eq!(io.tgid, Some(std::process::id() as i32), "{kind}: {io:?}");
        }
        // On btrfs, stat(2) returns anonymous numbers of subvolumes, but the kernel uses the file system's own.
        if kind != "btrfs" {
            assert!(
                traced
                    .ios
                    .iter()
                    .filter(of_file)
                    .all(|io| io.fs_dev == Some(dev_of_file(&meta))),
                "{kind}"
            );
        }
        assert!(
            traced.ios.iter().any(|io| io.origin == Origin::Metadata),
            "{kind}: no metadata"
        );
        traced.assert_exact(kind);
    });
}

#[test]
fn reads_into_the_page_cache_are_distinguished_from_direct_ones_and_from_read_ahead() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    // A randomly accessed mapping is read page by page, a sequentially read file by read-ahead.
    let loads: [(&[&str], Origin); 3] = [
        (
            &["--rw=randread", "--bs=4k", "--ioengine=mmap"],
            Origin::BufferedRead,
        ),
        (
            &["--rw=read", "--bs=64k", "--ioengine=psync"],
            Origin::Readahead,
        ),
        (
            &["--rw=randread", "--bs=4k", "--ioengine=psync", "--direct=1"],
            Origin::Direct,
        ),
    ];
    for (load, origin) in loads {
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            std::fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
            fio(
                &disk.path(),
                &[load, &["--size=16m", "--thread=1"]].concat(),
            );
        });
        let of_fio = traced
            .ios
            .iter()
            .filter(|io| io.op == Op::READ && io.comm == Some(Comm::new(b"fio")));
        let (alike, others): (Vec<&Io>, Vec<&Io>) = of_fio.partition(|io| io.origin == origin);
        let bytes = |ios: &[&Io]| ios.iter().map(|io| io.bytes).sum::<i64>();
        assert!(
            bytes(&alike) > 8 << 20,
            "{origin:?}: {} and {} bytes",
            bytes(&alike),
            bytes(&others)
        );
        assert!(bytes(&others) < 2 << 20, "{origin:?}: {:?}", others[0]);
        assert!(
            !traced.ios.iter().any(|io| io.origin == Origin::Metadata),
            "no file system is there"
        );
    }
}

#[test]
fn an_exclusively_opened_device_has_no_file_system() {
    let Some(_turn) = ready(&["losetup"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        let mut held = std::fs::File::options()
            .write(true)
            .custom_flags(libc::O_EXCL)
            .open(disk.path())
            .unwrap();
        held.write_all(&vec![7u8; 8 << 20]).unwrap();
        held.sync_all().unwrap();
    });
    let written = traced
        .ios
        .iter()
        .filter(|io| io.op == Op::WRITE && io.bytes > 0);
    let (back, others): (Vec<&Io>, Vec<&Io>) =
        written.partition(|io| io.origin == Origin::Writeback);
    assert!(others.is_empty(), "{:?}", others[0]);
    assert!(back.iter().map(|io| io.bytes).sum::<i64>() >= 8 << 20);
    assert!(
        back.iter()
            .all(|io| io.tgid == Some(std::process::id() as i32)),
        "its dirtier is known: {:?}",
        back[0]
    );
}

#[test]
fn direct_io_belongs_to_its_file() {
    on_each_file_system(&["fio"], |kind, disk| {
        let fs = Mounted::new(disk, kind);
        let files = [fs.path("first"), fs.path("second")];
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            // One by one and many at once; the large ones are split for the device.
            let ways: [&[&str]; 4] = [
                &["--bs=4k", "--ioengine=psync", "--rw=randwrite"],
                &["--bs=4m", "--ioengine=psync", "--rw=write"],
                // The same from shared memory, which belongs to a file that is not on a disk.
                &["--bs=4m", "--ioengine=psync", "--rw=write", "--mem=shm"],
                &[
                    "--bs=64k",
                    "--ioengine=libaio",
                    "--iodepth=8",
                    "--rw=randrw",
                ],
            ];
            for (way, file) in ways
                .into_iter()
                .flat_map(|way| files.iter().map(move |f| (way, f)))
            {
                fio(
                    file,
                    &[way, &["--direct=1", "--size=8m", "--thread=1"]].concat(),
                );
            }
        });
        let direct = traced
            .ios
            .iter()
            .filter(|io| io.origin == Origin::Direct && io.comm == Some(Comm::new(b"fio")));
        let direct: Vec<&Io> = direct.collect();
        if kind == "btrfs" {
            assert!(
                direct.iter().all(|io| io.inode().is_none()),
                "{kind}: never a wrong one"
            );
            return;
        }
        let cached = traced.ios.iter().find(|io| {
            let is_cached = io.origin == Origin::Writeback || io.origin == Origin::BufferedRead;
            is_cached && io.bytes >= 64 << 10
        });
        assert!(cached.is_none(), "{kind}: nothing is cached: {cached:?}");
        let nameless = direct.iter().find(|io| io.ino.is_none());
        assert!(nameless.is_none(), "{kind}: {nameless:?}");
        let lost: i64 = traced.lost.iter().filter_map(|l| l.bytes).sum();
        let numbers = files.map(|f| std::fs::metadata(f).unwrap());
        for meta in &numbers {
            let mine = direct.iter().filter(|io| io.ino == Some(meta.ino() as i64));
            assert!(
                mine.clone()
                    .all(|io| io.fs_dev == Some(dev_of_file(meta)) && io.generation.is_some()),
                "{kind}"
            );
            let bytes = mine.map(|io| io.bytes).sum::<i64>();
            assert!(
                bytes <= 32 << 20 && bytes + lost >= 32 << 20,
                "{kind}: {bytes} bytes of {meta:?}, {lost} lost"
            );
        }
    });
}

const FSYNCS: usize = 20;

/// Writes a little to a file or device and waits until it is on the disk, again and again.
fn write_and_sync(path: &str) {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    for _ in 0..FSYNCS {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_all().unwrap();
    }
}

fn of_class(traced: &Traced, class: Class) -> Vec<&Io> {
    let ios = traced.ios.iter();
    ios.filter(|io| io.class() == class).collect()
}

/// Every I/O has this process, and its cgroup where there are any.
fn assert_all_by_this_process(what: &str, ios: &[&Io]) {
    let group = own_cgroup();
    for io in ios {
        assert_eq!(io.tgid, Some(std::process::id() as i32), "{what}: {io:?}");
        assert!(io.comm.is_some(), "{what}: {io:?}");
        if group.is_some() {
            assert_eq!(io.cgroup, group, "{what}: {io:?}");
        }
    }
}

#[test]
fn a_flush_belongs_to_the_process_that_called_fsync() {
    let Some(_turn) = ready(&["losetup"]) else {
        return;
    };
    for without_io_start in [false, true] {
        let disk = LoopDisk::in_memory(64);
        let options = TracerOptions {
            without_io_start,
            ..TracerOptions::default()
        };
        let what = format!("without_io_start {without_io_start}");
        let traced = trace(&disk.name, options, false, || write_and_sync(&disk.path()));
        let flushes = of_class(&traced, Class::Flush);
        assert!(
            flushes.len() + traced.hidden() as usize >= FSYNCS,
            "{what}: {} flushes",
            flushes.len()
        );
        assert_all_by_this_process(&what, &flushes);
        let carriers: Vec<&Io> = of_class(&traced, Class::Write)
            .into_iter()
            .filter(|io| io.bytes == 0)
            .collect();
        assert!(carriers.len() + traced.hidden() as usize >= FSYNCS);
        assert_all_by_this_process(&what, &carriers);
    }
}

#[test]
fn a_flush_of_a_journals_commit_belongs_to_the_process_that_waits_for_it() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(128);
    let fs = Mounted::new(&disk, "ext4");
    let mut file = 0;
    for without_io_start in [false, true] {
        let options = TracerOptions {
            without_io_start,
            ..TracerOptions::default()
        };
        let what = format!("without_io_start {without_io_start}");
        let traced = trace(&disk.name, options, false, || {
            file += 1;
            write_and_sync(&fs.path(&format!("data{file}")));
        });
        let flushes = of_class(&traced, Class::Flush);
        assert!(
            flushes.len() + traced.hidden() as usize >= FSYNCS,
            "{what}: {} flushes",
            flushes.len()
        );
        assert_all_by_this_process(&what, &flushes);
        // The journal's writes are attributed to that process, too: of each commit the changes, and the commit record,
        // which carries the flush.
        let writes = of_class(&traced, Class::Write);
        let in_journal = writes.into_iter().filter(|io| io.origin == Origin::Journal);
        let journal_writes: Vec<&Io> = in_journal.collect();
        assert!(
            journal_writes.len() + traced.hidden() as usize >= 2 * FSYNCS,
            "{what}: {}",
            journal_writes.len()
        );
        assert_all_by_this_process(&what, &journal_writes);
        let of_commits = flushes.iter().filter(|io| io.origin == Origin::Journal);
        assert!(
            of_commits.count() + traced.hidden() as usize >= FSYNCS,
            "{what}: the flushes are those of the commits"
        );
    }
}

#[test]
fn a_flush_of_a_commit_that_no_process_waits_for_belongs_to_the_journal() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(128);
    let fs = Mounted::new(&disk, "ext4");
    let dir = fs.dir.path().to_str().unwrap();
    run("mount", &["-o", "remount,commit=1", dir]);
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        let before = kernel_counts(&disk.name)[Class::Flush as usize].ios;
        std::fs::create_dir(fs.path("new")).unwrap();
        while kernel_counts(&disk.name)[Class::Flush as usize].ios == before {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let flushes = of_class(&traced, Class::Flush);
    assert!(!flushes.is_empty() || traced.hidden() > 0);
    for io in flushes {
        let comm = io.comm.map(|c| c.to_text().into_owned());
        assert!(
            comm.as_deref().is_some_and(|c| c.starts_with("jbd2/")),
            "{io:?}"
        );
        assert_eq!(io.origin, Origin::Journal, "{io:?}");
    }
}

#[test]
fn a_discard_belongs_to_the_process_that_asked_for_it() {
    let Some(_turn) = ready(&["losetup", "blkdiscard"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        run("blkdiscard", &[&disk.path()]);
    });
    let discards = of_class(&traced, Class::Discard);
    assert!(!discards.is_empty() || traced.hidden() > 0);
    for io in discards {
        assert_eq!(io.comm, Some(Comm::new(b"blkdiscard")), "{io:?}");
        assert!(io.tgid.is_some(), "{io:?}");
        if own_cgroup().is_some() {
            assert_eq!(io.cgroup, own_cgroup(), "{io:?}");
        }
    }
}
