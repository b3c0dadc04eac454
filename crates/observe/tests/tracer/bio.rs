//! Bio-based devices.

use std::{fs, path::Path};

use iolens_core::model::{Class, DevId};
use iolens_observe::trace::TracerOptions;

use crate::lab::{dev_of, fio, machine_has, run, trace, trace_fairly, turn};

/// A zram disk of its own that goes away with it.
struct Zram {
    name: String,
    dev: DevId,
}

impl Zram {
    fn new(mib: u64) -> Option<Zram> {
        let n = fs::read_to_string("/sys/class/zram-control/hot_add").ok()?;
        let name = format!("zram{}", n.trim());
        // udev may take a moment to make the node; devtmpfs has it at once.
        fs::write(
            format!("/sys/block/{name}/disksize"),
            format!("{}", mib << 20),
        )
        .ok()?;
        let dev = dev_of(&name);
        Path::new(&format!("/dev/{name}"))
            .exists()
            .then_some(Zram { name, dev })
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write(format!("/sys/block/{}/reset", self.name), "1");
        let _ = fs::write(
            "/sys/class/zram-control/hot_remove",
            self.name.trim_start_matches("zram"),
        );
    }
}

const LOADS: &[(&str, &[&str])] = &[
    (
        "random reads and writes",
        &[
            "--rw=randrw",
            "--bs=4k",
            "--iodepth=16",
            "--ioengine=libaio",
            "--direct=1",
        ],
    ),
    (
        "large",
        &["--rw=rw", "--bs=1m", "--ioengine=psync", "--direct=1"],
    ),
    (
        "buffered",
        &["--rw=write", "--bs=64k", "--ioengine=psync", "--fsync=64"],
    ),
    (
        "4 jobs",
        &[
            "--rw=randwrite",
            "--bs=4k",
            "--ioengine=io_uring",
            "--iodepth=8",
            "--numjobs=4",
            "--direct=1",
        ],
    ),
];

#[test]
fn zram_to_the_last_bio() {
    if !machine_has(&["fio"]) {
        return;
    }
    let Some(disk) = Zram::new(128) else {
        eprintln!("SKIP: no zram disk can be made");
        return;
    };
    let _turn = turn();
    for (what, load) in LOADS {
        let path = format!("/dev/{}", disk.name);
        let options = TracerOptions {
            bio_based: true,
            ..TracerOptions::default()
        };
        let traced = trace_fairly(&disk.name, &options, || {
            let mut args = vec!["--size=96m", "--runtime=1", "--time_based"];
            args.extend(*load);
            fio(&path, &args);
        });
        traced.assert_exact(what);
        traced.assert_nothing_lost(what);
        assert!(
            traced
                .ios
                .iter()
                .all(|io| io.queue_ns.is_none() && io.merges.is_none() && io.dev == disk.dev),
            "{what}"
        );
    }
}

/// zram does not count discards; they are recorded all the same.
#[test]
fn discards_of_zram_are_recorded() {
    if !machine_has(&["blkdiscard"]) {
        return;
    }
    let Some(disk) = Zram::new(32) else {
        eprintln!("SKIP: no zram disk can be made");
        return;
    };
    let _turn = turn();
    let options = TracerOptions {
        bio_based: true,
        ..TracerOptions::default()
    };
    let traced = trace(&disk.name, options, false, || {
        run(
            "blkdiscard",
            &[
                "--offset",
                "1M",
                "--length",
                "4M",
                &format!("/dev/{}", disk.name),
            ],
        );
    });
    let recorded = traced.recorded()[Class::Discard as usize];
    let hidden: i64 = traced.lost.iter().filter_map(|l| l.ios).sum();
    assert!(recorded.bytes == 4 << 20 || hidden > 0, "{recorded:?}");
    assert_eq!(
        traced.kernel[Class::Discard as usize].ios,
        0,
        "this kernel's zram counts discards: docs/tracing.md"
    );
}

/// Bio-based devices cost nothing and are not recorded until requested.
#[test]
fn bio_probes_attach_on_request() {
    if !machine_has(&["fio"]) {
        return;
    }
    let Some(disk) = Zram::new(32) else {
        eprintln!("SKIP: no zram disk can be made");
        return;
    };
    let _turn = turn();
    let load = || {
        fio(
            &format!("/dev/{}", disk.name),
            &[
                "--rw=write",
                "--bs=4k",
                "--size=4m",
                "--direct=1",
                "--ioengine=psync",
            ],
        );
    };
    let mut tracer = iolens_observe::trace::Tracer::start(TracerOptions::default()).unwrap();
    let mut ios = Vec::new();
    let mut lost = Vec::new();
    load();
    tracer.attach_bio_based().unwrap();
    tracer.attach_bio_based().unwrap();
    load();
    tracer.finish(&mut ios, &mut lost).unwrap();
    let hidden: i64 = lost
        .iter()
        .filter(|l| l.dev == Some(disk.dev))
        .filter_map(|l| l.ios)
        .sum();
    let n = ios
        .iter()
        .filter(|io| io.dev == disk.dev && io.bytes == 4096)
        .count() as i64;
    assert!(
        (1024 - hidden..1024 + 100).contains(&n),
        "{n} of 1024, {hidden} hidden"
    );
}
