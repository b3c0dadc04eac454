//! Start times: the kernel's where it reads the clock for each request, our own elsewhere.

use std::{collections::HashSet, thread, time::Duration};

use iolens_core::model::Io;
use iolens_observe::trace::TracerOptions;

use crate::lab::{LoopDisk, put_on, ready, trace};

fn started(io: &Io) -> Option<i64> {
    io.queue_ns.map(|queue| io.done_ns - io.device_ns - queue)
}

/// While the kernel does not account a disk's requests, it does not set their start times either. Times left from an
/// earlier I/O must not be taken for a start.
#[test]
fn a_disk_whose_accounting_is_switched_off_and_on() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for on in ["0", "1", "0", "1"] {
                    thread::sleep(Duration::from_millis(250));
                    disk.set_queue("iostats", on);
                }
            });
            put_on(
                &disk.path(),
                &[
                    "--rw=randread",
                    "--bs=4k",
                    "--ioengine=libaio",
                    "--iodepth=32",
                ],
                "1300ms",
            );
        });
    });
    let ios = traced.ios.len();
    let counted = traced.kernel[0].ios as usize;
    // How long accounting is off depends on how soon a busy machine wakes the switching thread.
    assert!(
        counted < ios * 19 / 20,
        "{counted} of {ios} were accounted: it never was off"
    );
    // Queue times are microseconds here; a stale start would be from before the switch or from an earlier test.
    let longest = traced
        .ios
        .iter()
        .filter_map(|io| io.queue_ns)
        .max()
        .unwrap();
    assert!(
        longest < 100_000_000,
        "{longest} ns in the queue: a start left over from another I/O"
    );
    let unknown = traced.ios.iter().filter(|io| io.queue_ns.is_none()).count();
    // Each request of the disk's queue (256), or of the scheduler's, may be the first after the switch, twice.
    assert!(unknown <= 2 * 512, "{unknown} of {ios} without a start");
}

/// All requests of a plug have the kernel's one cached time (da4c8c3d0975, 6.9) as start and as issue; ours differ.
#[test]
fn requests_of_one_plug_have_starts_and_issues_of_their_own() {
    let Some(_turn) = ready(&["losetup", "fio"]) else {
        return;
    };
    let disk = LoopDisk::in_memory(256);
    let traced = trace(&disk.name, TracerOptions::default(), false, || {
        let batches = [
            "--iodepth=64",
            "--iodepth_batch_submit=32",
            "--iodepth_batch_complete_min=32",
        ];
        put_on(
            &disk.path(),
            &[
                &["--rw=randread", "--bs=4k", "--ioengine=libaio"][..],
                &batches,
            ]
            .concat(),
            "600ms",
        );
    });
    let starts: Vec<i64> = traced.ios.iter().filter_map(started).collect();
    let issues: Vec<i64> = traced.ios.iter().map(Io::issue_ns).collect();
    for (what, times) in [("starts", starts), ("issues", issues)] {
        let apart: HashSet<i64> = times.iter().copied().collect();
        assert!(times.len() > 1000, "only {} I/Os", times.len());
        assert!(
            apart.len() * 100 > times.len() * 99,
            "{} {what} of {} I/Os",
            apart.len(),
            times.len()
        );
    }
}
