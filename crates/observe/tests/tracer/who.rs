//! Who did it: process, cgroup, file, origin.

use std::os::unix::fs::MetadataExt;

use iolens_core::model::{Comm, DevId, Io, Op, Origin};
use iolens_observe::trace::TracerOptions;

use crate::lab::{LoopDisk, Mounted, fio, on_each_file_system, own_cgroup, ready, run, trace};

fn dev_of_file(meta: &std::fs::Metadata) -> i32 {
    DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())).0
}

#[test]
fn direct_io_belongs_to_its_process_and_cgroup() {
    let Some(_turn) = ready(&["losetup", "fio"]) else { return };
    let disk = LoopDisk::in_memory(64);
    let mut group = None;
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        fio(&disk.path(), &["--rw=randwrite", "--bs=4k", "--size=16m", "--direct=1", "--ioengine=psync", "--thread=1"]);
        group = own_cgroup();
    });
    let data: Vec<&Io> = traced.ios.iter().filter(|io| io.op == Op::WRITE && io.bytes == 4096).collect();
    assert!(data.len() > 3500);
    assert!(data.iter().all(|io| io.origin == Origin::Direct && io.comm == Some(Comm::new(b"fio"))), "{:?}", data[0]);
    assert!(data.iter().all(|io| io.tgid == data[0].tgid && io.tgid > Some(1)));
    match group {
        Some(id) => assert!(data.iter().all(|io| io.cgroup == Some(id)), "{:?} is not {id}", data[0].cgroup),
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
        let bytes = |op: Op| traced.ios.iter().filter(|io| io.op == op).filter(of_file).map(|io| io.bytes).sum::<i64>();
        let hidden: i64 = traced.lost.iter().filter_map(|l| l.bytes).sum();
        assert!(bytes(Op::WRITE) + hidden >= 8 << 20, "{kind}: {} written under its inode", bytes(Op::WRITE));
        assert!(bytes(Op::READ) + hidden >= 8 << 20, "{kind}: {} read under its inode", bytes(Op::READ));
        for io in traced.ios.iter().filter(of_file) {
            let origin = if io.op == Op::WRITE { Origin::Writeback } else { Origin::Direct };
            assert_eq!(io.origin, origin, "{kind}: {io:?}");
            assert_eq!(io.tgid, Some(std::process::id() as i32), "{kind}: {io:?}");
        }
        // btrfs shows its subvolumes' anonymous numbers to stat(2), its own to the kernel.
        if kind != "btrfs" {
            assert!(traced.ios.iter().filter(of_file).all(|io| io.fs_dev == Some(dev_of_file(&meta))), "{kind}");
        }
        assert!(traced.ios.iter().any(|io| io.origin == Origin::Metadata), "{kind}: no metadata");
        traced.assert_exact(kind);
    });
}
