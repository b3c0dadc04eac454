//! Ten thousand descriptors at once, tens of thousands of I/Os on one, and I/O without system calls.

use std::{fs, process::Command};

use iolens_core::model::{CallHistogram, How, Request, RequestClass, RequestFlags, SyncKind};

use iolens_observe::trace::FilesOptions;

use super::impatient::{self, LAZINESS};
use super::lab::{children, compiled, machine_has, record, story, turn};

#[test]
fn ten_thousand_descriptors_are_kept_apart() {
    let _turn = turn();
    if !machine_has(&["cc"]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = story(tmp.path());
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let (requests, lost) = record(
        &children(),
        Command::new(&program).arg(data.path()).arg("many"),
        data.path(),
    );
    assert!(lost.is_empty(), "{lost:?}");
    let many: Vec<_> = requests
        .iter()
        .filter(|(path, _)| path.starts_with("many/"))
        .collect();
    assert_eq!(many.len(), 10_000);
    assert!(
        many.iter()
            .all(|(_, r)| (r.ios_in, r.bytes_in, r.ios_out, r.bytes_out) == (1, 16, 1, 16))
    );
    assert_eq!(
        many.iter()
            .filter(|(_, r)| r.flags.has(RequestFlags::AT_EXIT))
            .count(),
        5_000
    );
}

#[test]
fn long_runs_are_sampled_and_slow_calls_still_found() {
    let _turn = turn();
    if !machine_has(&["cc"]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let data = tmp.path().join("data");
    fs::create_dir_all(data.join("fuse")).unwrap();
    let Some(_mounted) = impatient::mounted(&data.join("fuse")) else {
        return;
    };
    let program = compiled(tmp.path(), "run");
    let (requests, lost) = record(&children(), Command::new(&program).arg(&data), &data);
    assert!(lost.is_empty(), "{lost:?}");
    let of = |path: &str| -> &Request { &requests.iter().find(|(p, _)| p == path).unwrap().1 };

    let hot = of("hot");
    assert_eq!(
        (hot.ios_in, hot.bytes_in),
        (20_040, 20_000 * 4096 + 20 * 100_050),
        "{hot:?}"
    );
    assert_eq!(
        (hot.ios_out, hot.empty_reads, hot.failed),
        (1, 20, 20),
        "{hot:?}"
    );
    let shared = of("shared");
    assert_eq!(
        (shared.ios_in, shared.bytes_in),
        (80_000, 80_000 * 4096),
        "{shared:?}"
    );
    // Calls that were not timed count like the next timed one, so all are counted except those after the last of each
    // thread.
    for (r, threads) in [(hot, 1), (shared, 4), (of("fuse/lazy"), 1)] {
        let counted = r.read_histogram.as_ref().unwrap().n() as i64;
        let least = r.ios_in - threads * 40;
        assert!(
            (least..=r.ios_in).contains(&counted),
            "{counted} of {} calls: {r:?}",
            r.ios_in
        );
        assert!(
            r.write_histogram.is_none(),
            "one write is among the first: {r:?}"
        );
    }
    let (low, high, slow) = of("fuse/lazy")
        .read_histogram
        .as_ref()
        .unwrap()
        .buckets()
        .last()
        .unwrap();
    assert!(
        slow >= 1
            && low < LAZINESS.as_nanos() as i64 * 2
            && high > LAZINESS.as_nanos() as i64 * 9 / 10
    );

    // The slow call among the fast ones is one of few that were timed rather than estimated.
    let lazy = of("fuse/lazy");
    let slowest = lazy.slowest.unwrap();
    assert_eq!((lazy.ios_in, lazy.bytes_in), (40_000, 40_000 * 4096));
    assert!(
        lazy.slept_ios >= 2 && slowest.how.has(How::SLEPT),
        "{lazy:?}"
    );
    // It sleeps for almost as long as its data are waited for; reading the first of them took as long.
    let laziness = LAZINESS.as_nanos() as i64;
    assert!(
        slowest.duration_ns > laziness * 9 / 10 && lazy.active_ns > laziness * 18 / 10,
        "{lazy:?}"
    );
    for r in [hot, lazy] {
        // On a machine so slow that calls take long compared with reading the clock, all calls are timed.
        let us = r.active_ns / 1000;
        let total_us = r.total_ns().unwrap() / 1000;
        eprintln!(
            "{us} of {total_us} us in calls, estimated: {}",
            r.flags.has(RequestFlags::ESTIMATED)
        );
        assert!(
            us * 10 <= total_us * 12,
            "one thread cannot be in calls for longer than there was: {r:?}"
        );
    }
}

#[test]
fn histograms_are_given_back_and_where_there_are_too_few_that_is_flagged() {
    let _turn = turn();
    if !machine_has(&["sh", "dd"]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let data = tmp.path().join("data");
    fs::write(&data, vec![7u8; 64 * 10]).unwrap();
    // With so small a limit of open files there are 64 histograms, which suffice for any number of readers in sequence.
    let few = FilesOptions {
        open_files: 1024,
        ..children()
    };
    let read = "dd if=data of=/dev/null bs=64 2>/dev/null";
    let one_by_one = format!("for i in $(seq 300); do {read}; done");
    let (requests, _) = record(
        &few,
        Command::new("sh")
            .args(["-c", &one_by_one])
            .current_dir(tmp.path()),
        tmp.path(),
    );
    let counted = |r: &Request| r.read_histogram.as_ref().map(CallHistogram::n);
    assert_eq!(requests.len(), 300);
    assert!(
        requests
            .iter()
            .all(|(_, r)| counted(r) == Some(10) && r.ios_in == 10),
        "{requests:?}"
    );
    // Of 200 files that are open at once, most have no histogram and report that; their calls are counted all the same.
    let at_once = "exec python3 -c 'f = [open(\"data\", \"rb\", 0) for _ in range(200)]; [g.read(64) for _ in range(10) for g in f]'";
    if !machine_has(&["python3"]) {
        return;
    }
    let (requests, lost) = record(
        &few,
        Command::new("sh")
            .args(["-c", at_once])
            .current_dir(tmp.path()),
        tmp.path(),
    );
    assert!(lost.is_empty() && requests.len() == 200, "{lost:?}");
    let flagged = |r: &Request| r.flags.has(RequestFlags::NO_HISTOGRAM);
    assert!(
        requests
            .iter()
            .all(|(_, r)| r.ios_in == 10 && counted(r) == (!flagged(r)).then_some(10)),
        "{requests:?}"
    );
    let without = requests.iter().filter(|(_, r)| flagged(r)).count();
    assert!(
        (136..=190).contains(&without),
        "{without} of 200 have none, and there are 64"
    );
}

#[test]
fn io_uring_is_seen_to_the_last_byte() {
    let _turn = turn();
    if !machine_has(&["fio"]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = tmp.path().join("data");
    fs::write(&file, vec![7u8; 4 << 20]).unwrap();
    let mut fio = Command::new("fio");
    let name = format!("--filename={}", file.display());
    fio.args([
        "--name=x",
        &name,
        "--ioengine=io_uring",
        "--iodepth=8",
        "--rw=read",
        "--bs=4k",
        "--size=4m",
        "--output=/dev/null",
    ]);
    if !Command::new("fio")
        .args([
            "--name=x",
            &name,
            "--ioengine=io_uring",
            "--rw=read",
            "--bs=4k",
            "--size=4k",
            "--output=/dev/null",
        ])
        .status()
        .unwrap()
        .success()
    {
        eprintln!("SKIP: io_uring is not allowed here");
        return;
    }
    let (requests, lost) = record(&children(), &mut fio, tmp.path());
    assert!(lost.is_empty(), "{lost:?}");
    let ring: Vec<_> = requests
        .iter()
        .filter(|(_, r)| r.flags.has(RequestFlags::IO_URING))
        .collect();
    assert_eq!(
        ring.iter()
            .map(|(_, r)| (r.ios_in, r.bytes_in))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (1024, 4 << 20)
    );
}

#[test]
fn a_request_may_use_io_uring_only() {
    let _turn = turn();
    if !machine_has(&["cc"]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = compiled(tmp.path(), "ring");
    let file = tmp.path().join("data");
    if Command::new(&program).arg(&file).status().unwrap().code() == Some(77) {
        eprintln!("SKIP: io_uring is not allowed here");
        return;
    }
    let (requests, lost) = record(&children(), Command::new(&program).arg(&file), tmp.path());
    assert!(lost.is_empty(), "{lost:?}");
    let of_file: Vec<_> = requests
        .iter()
        .filter(|(path, _)| path == "data")
        .map(|(_, r)| r)
        .collect();
    let syncs: Vec<_> = of_file.iter().filter_map(|r| r.sync).collect();
    assert_eq!(syncs, [SyncKind::Fsync, SyncKind::Fdatasync]);
    let data: Vec<_> = of_file.iter().filter(|r| r.sync.is_none()).collect();
    let [r] = &data[..] else { panic!("{data:#?}") };
    assert_eq!(
        (r.ios_out, r.bytes_out, r.ios_in, r.bytes_in, r.empty_reads),
        (1, 8192, 1, 100, 1)
    );
    assert!(
        r.flags.has(RequestFlags::IO_URING) && r.flags.has(RequestFlags::CREATES),
        "{r:?}"
    );
    assert!(
        !r.flags.has(RequestFlags::AT_EXIT) && r.close_ns.is_some_and(|ns| ns > 0),
        "closed by the ring: {r:?}"
    );
    assert_eq!((r.class(), r.size), (RequestClass::Out, Some(8192)));
}
