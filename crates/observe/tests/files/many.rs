//! Ten thousand descriptors at once, and I/O without system calls.

use std::{fs, process::Command};

use iolens_core::model::{RequestClass, RequestFlags, SyncKind};

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
    let (requests, lost) = record(&children(), Command::new(&program).arg(data.path()).arg("many"), data.path());
    assert!(lost.is_empty(), "{lost:?}");
    let many: Vec<_> = requests.iter().filter(|(path, _)| path.starts_with("many/")).collect();
    assert_eq!(many.len(), 10_000);
    assert!(many.iter().all(|(_, r)| (r.ios_in, r.bytes_in, r.ios_out, r.bytes_out) == (1, 16, 1, 16)));
    assert_eq!(many.iter().filter(|(_, r)| r.flags.has(RequestFlags::AT_EXIT)).count(), 5_000);
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
        .args(["--name=x", &name, "--ioengine=io_uring", "--rw=read", "--bs=4k", "--size=4k", "--output=/dev/null"])
        .status()
        .unwrap()
        .success()
    {
        eprintln!("SKIP: io_uring is not allowed here");
        return;
    }
    let (requests, lost) = record(&children(), &mut fio, tmp.path());
    assert!(lost.is_empty(), "{lost:?}");
    let ring: Vec<_> = requests.iter().filter(|(_, r)| r.flags.has(RequestFlags::IO_URING)).collect();
    assert_eq!(
        ring.iter().map(|(_, r)| (r.ios_in, r.bytes_in)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (1024, 4 << 20)
    );
}

#[test]
fn a_files_whole_life_may_pass_through_io_uring() {
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
    let of_file: Vec<_> = requests.iter().filter(|(path, _)| path == "data").map(|(_, r)| r).collect();
    let syncs: Vec<_> = of_file.iter().filter_map(|r| r.sync).collect();
    assert_eq!(syncs, [SyncKind::Fsync, SyncKind::Fdatasync]);
    let data: Vec<_> = of_file.iter().filter(|r| r.sync.is_none()).collect();
    let [r] = &data[..] else { panic!("{data:#?}") };
    assert_eq!((r.ios_out, r.bytes_out, r.ios_in, r.bytes_in, r.empty_reads), (1, 8192, 1, 100, 1));
    assert!(r.flags.has(RequestFlags::IO_URING) && r.flags.has(RequestFlags::CREATES), "{r:?}");
    assert!(!r.flags.has(RequestFlags::AT_EXIT) && r.close_ns.is_some_and(|ns| ns > 0), "closed by the ring: {r:?}");
    assert_eq!((r.class(), r.size), (RequestClass::Out, Some(8192)));
}
