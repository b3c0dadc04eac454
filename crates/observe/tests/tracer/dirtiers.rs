//! Writeback is attributed to the process that dirtied the pages, not to the submitter.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use iolens_core::model::{Class, Comm, Io, Op, Origin};
use iolens_observe::trace::TracerOptions;

use crate::lab::{
    LoopDisk, Mounted, Traced, fio, on_each_file_system, own_cgroup, ready, run, trace,
};

/// A program that writes, identified by its name.
struct Writer {
    name: &'static str,
    program: PathBuf,
}

impl Writer {
    /// A copy of dd in `dir`.
    fn new(dir: &Path, name: &'static str) -> Writer {
        let dd = run("sh", &["-c", "command -v dd"]);
        let program = dir.join(name);
        std::fs::copy(dd.trim(), &program).unwrap();
        Writer { name, program }
    }

    /// Writes `mib` MiB at offset `seek` MiB into `file`, into the page cache only. Returns the id of its process,
    /// which has ended.
    fn write(&self, file: &str, seek: u32, mib: u32) -> i32 {
        let to = format!("of={file}");
        let count = format!("count={}", mib * 16);
        let mut child = Command::new(&self.program)
            .args([
                "if=/dev/zero",
                &to,
                "bs=64k",
                &count,
                &format!("seek={}", seek * 16),
            ])
            .args(["conv=notrunc", "status=none"])
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        child.id() as i32
    }

    /// Writes 64 KiB to a new file and waits until it is on disk, `times` times. The process exists until it is waited
    /// for.
    fn start_syncing(&self, directory: &str, times: u32) -> Child {
        let script = format!(
            "i=0; while [ $i -lt {times} ]; do \"$0\" if=/dev/zero of={directory}/{name}$i bs=64k count=1 conv=fsync \
             status=none || exit 1; i=$((i+1)); done",
            name = self.name
        );
        Command::new("sh")
            .args(["-c", &script])
            .arg(&self.program)
            .spawn()
            .unwrap()
    }

    fn comm(&self) -> Option<Comm> {
        Some(Comm::new(self.name.as_bytes()))
    }
}

/// Inode number of a file.
fn ino(path: &str) -> i64 {
    std::fs::metadata(path).unwrap().ino() as i64
}

/// What was written back of one file.
fn written_of(traced: &Traced, ino: i64) -> Vec<&Io> {
    let of_file =
        |io: &&Io| io.ino == Some(ino) && io.op == Op::WRITE && io.origin == Origin::Writeback;
    traced.ios.iter().filter(of_file).collect()
}

/// Fails unless at least `mib` MiB of the file were written (minus what the kernel hid), all by the given process.
fn assert_written_by(
    traced: &Traced,
    what: &str,
    ino: i64,
    mib: i64,
    who: (Option<i32>, Option<Comm>),
) {
    let ios = written_of(traced, ino);
    let hidden: i64 = traced.lost.iter().filter_map(|l| l.bytes).sum();
    let bytes: i64 = ios.iter().map(|io| io.bytes).sum();
    assert!(
        bytes + hidden >= mib << 20,
        "{what}: only {bytes} bytes written, {hidden} hidden"
    );
    for io in ios {
        assert_eq!((io.tgid, io.comm), who, "{what}: {io:?}");
    }
}

#[test]
fn writeback_by_sync_belongs_to_the_writers() {
    let programs = tempfile::tempdir().unwrap();
    on_each_file_system(&["dd", "sync"], |kind, disk| {
        let a = Writer::new(programs.path(), "writer-a");
        let b = Writer::new(programs.path(), "writer-b");
        let fs = Mounted::new(disk, kind);
        let first = fs.path("first");
        let second = fs.path("second");
        let mut pids = (0, 0);
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            pids = (a.write(&first, 0, 4), b.write(&second, 0, 3));
            run("sync", &[]);
        });
        assert_written_by(&traced, kind, ino(&first), 4, (Some(pids.0), a.comm()));
        assert_written_by(&traced, kind, ino(&second), 3, (Some(pids.1), b.comm()));
        if let Some(group) = own_cgroup() {
            let files = [
                written_of(&traced, ino(&first)),
                written_of(&traced, ino(&second)),
            ]
            .concat();
            assert!(
                files.iter().all(|io| io.cgroup == Some(group)),
                "{kind}: not all in {group}: {files:?}"
            );
        }
        let journal = |io: &Io| io.comm.is_some_and(|c| c.to_text().starts_with("jbd2/"));
        if kind == "ext4" {
            let metadata = |io: &&Io| io.origin == Origin::Journal;
            assert!(
                traced.ios.iter().filter(metadata).any(journal),
                "the journal is still named as itself"
            );
        }
    });
}

#[test]
fn the_last_writer_of_a_shared_file_is_named() {
    let programs = tempfile::tempdir().unwrap();
    on_each_file_system(&["dd", "sync"], |kind, disk| {
        let a = Writer::new(programs.path(), "writer-a");
        let b = Writer::new(programs.path(), "writer-b");
        let fs = Mounted::new(disk, kind);
        let file = fs.path("shared");
        let mut last = 0;
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            a.write(&file, 0, 2);
            last = b.write(&file, 2, 2);
            run("sync", &[]);
        });
        assert_written_by(&traced, kind, ino(&file), 4, (Some(last), b.comm()));
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            last = a.write(&file, 0, 1);
            run("sync", &[]);
        });
        assert_written_by(&traced, kind, ino(&file), 1, (Some(last), a.comm()));
    });
}

#[test]
fn pages_dirty_before_the_recording_have_no_process() {
    let programs = tempfile::tempdir().unwrap();
    on_each_file_system(&["dd", "sync"], |kind, disk| {
        let a = Writer::new(programs.path(), "writer-a");
        let fs = Mounted::new(disk, kind);
        let file = fs.path("old");
        a.write(&file, 0, 4);
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            drop(run("sync", &[]))
        });
        assert_written_by(&traced, kind, ino(&file), 4, (None, None));
    });
}

/// As on a kernel without the tracepoint.
#[test]
fn without_dirtiers_writeback_has_no_process() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4", "dd", "sync"]) else {
        return;
    };
    let programs = tempfile::tempdir().unwrap();
    let a = Writer::new(programs.path(), "writer-a");
    let disk = LoopDisk::in_memory(64);
    let fs = Mounted::new(&disk, "ext4");
    let file = fs.path("file");
    let options = TracerOptions {
        without_dirtiers: true,
        ..TracerOptions::default()
    };
    let traced = trace(&disk.name, options, false, || {
        a.write(&file, 0, 4);
        run("sync", &[]);
    });
    assert_written_by(&traced, "no tracepoint", ino(&file), 4, (None, None));
}

#[test]
fn pages_written_through_a_mapping_belong_to_their_process() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4", "fio", "sync"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(64);
    let fs = Mounted::new(&disk, "ext4");
    let file = fs.path("mapped");
    let args = [
        "--rw=write",
        "--bs=4k",
        "--size=4m",
        "--ioengine=mmap",
        "--fallocate=none",
        "--thread=1",
    ];
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        fio(&file, &args);
        run("sync", &[]);
    });
    let ios = written_of(&traced, ino(&file));
    assert!(!ios.is_empty());
    assert!(
        ios.iter()
            .all(|io| io.comm == Some(Comm::new(b"fio")) && io.tgid == ios[0].tgid),
        "{:?}",
        ios[0]
    );
}

/// The buffered side of a device without a file system.
#[test]
fn pages_of_a_bare_device_belong_to_the_process_that_wrote_them() {
    let Some(_turn) = ready(&["losetup", "dd", "sync"]) else {
        return;
    };
    let programs = tempfile::tempdir().unwrap();
    let a = Writer::new(programs.path(), "writer-a");
    let disk = LoopDisk::in_memory(64);
    let mut pid = 0;
    // Held open, because the last one to close a device writes all of it back.
    let held = std::fs::File::open(disk.path()).unwrap();
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        pid = a.write(&disk.path(), 0, 4);
        run("sync", &[]);
    });
    drop(held);
    let ios: Vec<&Io> = traced
        .ios
        .iter()
        .filter(|io| io.op == Op::WRITE && io.bytes > 0)
        .collect();
    assert!(!ios.is_empty());
    for io in ios {
        assert_eq!(
            (io.origin, io.tgid, io.comm),
            (Origin::Writeback, Some(pid), a.comm()),
            "{io:?}"
        );
    }
}

/// A kernel worker writes to a loop device's file, which is not the process that created the file.
#[test]
fn pages_dirtied_by_kernel_workers_have_no_process() {
    let Some(_turn) = ready(&["losetup", "mkfs.ext4", "dd", "sync"]) else {
        return;
    };
    let programs = tempfile::tempdir().unwrap();
    let a = Writer::new(programs.path(), "writer-a");
    let below = LoopDisk::in_memory(256);
    let fs = Mounted::new(&below, "ext4");
    let above = LoopDisk::new(fs.dir.path(), 32);
    let image = above.file().to_str().unwrap().to_owned();
    let traced = trace(&below.name, TracerOptions::default(), false, || {
        a.write(&image, 0, 1);
        run(
            "dd",
            &[
                "if=/dev/zero",
                &format!("of={}", above.path()),
                "bs=1M",
                "count=8",
                "oflag=direct",
                "status=none",
            ],
        );
        run("sync", &[]);
    });
    assert_written_by(&traced, "an image", ino(&image), 8, (None, None));
    drop(above);
}

/// The attribution of commits and flushes while two programs wait in fsync at the same time: one of the two, on every
/// file system, no matter which process submits them.
#[test]
fn flushes_and_commits_belong_to_the_programs_that_wait_for_them() {
    const TIMES: u32 = 15;
    let programs = tempfile::tempdir().unwrap();
    on_each_file_system(&["dd", "sh"], |kind, disk| {
        let a = Writer::new(programs.path(), "syncer-a");
        let b = Writer::new(programs.path(), "syncer-b");
        let fs = Mounted::new(disk, kind);
        let directory = fs.dir.path().to_str().unwrap().to_owned();
        let traced = trace(&disk.name, TracerOptions::default(), false, || {
            let mut both = [&a, &b].map(|w| w.start_syncing(&directory, TIMES));
            for child in &mut both {
                assert!(child.wait().unwrap().success());
            }
        });
        let of_syncs = |io: &&Io| {
            let is_log = matches!(io.origin, Origin::Journal | Origin::Metadata);
            io.class() == Class::Flush || (is_log && io.class() == Class::Write)
        };
        let mut by = [0, 0, 0];
        for io in traced.ios.iter().filter(of_syncs) {
            let known = [&a, &b].iter().position(|w| w.comm() == io.comm);
            by[known.unwrap_or(2)] += 1;
        }
        let [by_a, by_b, by_others] = by;
        eprintln!("{kind}: {by_a} by one, {by_b} by the other, {by_others} by others");
        let hidden = traced.hidden() as usize;
        // Each fsync flushes, even if only on behalf of the other program.
        let least = TIMES as usize / 2;
        assert!(
            by_a + hidden >= least && by_b + hidden >= least,
            "{kind}: {by:?}"
        );
        // Journal maintenance, and a log that exceeds an xfs buffer, are submitted by a kernel thread.
        assert!(by_others * 10 <= by_a + by_b, "{kind}: {by:?}");
    });
}
