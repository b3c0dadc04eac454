//! Counts equal to the kernel's, for every kind of load.

use iolens_observe::trace::TracerOptions;

use crate::lab::{LoopDisk, fio, machine_has, trace, turn};

#[test]
fn first_light() {
    if !machine_has(&["losetup", "fio"]) {
        return;
    }
    let _turn = turn();
    let disk = LoopDisk::in_memory(256);
    let t = trace(&disk.name, TracerOptions { measure_cost: true, ..TracerOptions::default() }, false, || {
        fio(
            &disk.path(),
            &[
                "--rw=randrw",
                "--bs=4k",
                "--iodepth=32",
                "--ioengine=libaio",
                "--direct=1",
                "--runtime=2",
                "--time_based",
                "--size=200m",
                "--fsync=100",
            ],
        );
    });
    eprintln!("{:?}\n{:?}\n{:?}\n{:?}", t.recorded(), t.kernel, t.lost, t.stats);
    eprintln!("{:?}", &t.ios[t.ios.len() - 3..]);
    t.assert_exact("first light");
    t.assert_nothing_lost("first light");
}

#[test]
fn tiny_ring() {
    if !machine_has(&["losetup", "fio"]) {
        return;
    }
    let _turn = turn();
    let disk = LoopDisk::in_memory(256);
    let t = trace(&disk.name, TracerOptions { ring_bytes: 65536, ..TracerOptions::default() }, true, || {
        fio(
            &disk.path(),
            &[
                "--rw=randrw",
                "--bs=4k",
                "--iodepth=32",
                "--ioengine=libaio",
                "--direct=1",
                "--runtime=2",
                "--time_based",
                "--size=200m",
                "--fsync=100",
            ],
        );
    });
    eprintln!("{:?}\n{:?}\n{:?}\n{:?}", t.recorded(), t.kernel, t.lost, t.stats);
    t.assert_exact("tiny ring");
}
