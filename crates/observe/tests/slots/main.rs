//! Tests the BPF programs' table of slots at random in user space (`slots.c`), on one and on several threads: every I/O
//! keeps its own slot while it is in flight, and each slot that was taken is ended, missed or still in use.

use std::{path::Path, process::Command};

fn play(form: &str, flags: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(form);
    let built = Command::new("cc")
        .args([
            "-O1",
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
        ])
        .args(flags)
        .args([
            Path::new("-I"),
            &here.join("bpf"),
            &here.join("tests/slots/slots.c"),
            Path::new("-o"),
            &program,
        ])
        .status();
    match built {
        Err(e) => return eprintln!("SKIP: no C compiler: {e}"),
        Ok(status) => assert!(status.success(), "slots.c does not compile"),
    }
    for threads in ["1", "2", "4"] {
        for hidden in ["0", "5", "300"] {
            for seed in ["1", "2", "3", "4"] {
                let ran = Command::new(&program)
                    .args([seed, "300000", hidden, threads])
                    .output()
                    .expect("just made");
                let said = String::from_utf8_lossy(&ran.stdout);
                let what = format!("seed {seed}, {hidden} of 1000 hidden, {threads} threads");
                assert!(ran.status.success(), "{what}: {said}");
                println!("{what}: {}", said.trim());
            }
        }
    }
}

#[test]
fn every_io_has_its_own_slot_and_none_is_lost() {
    play("slots", &[]);
}

#[test]
fn no_io_is_lost_without_fetching_atomics() {
    play("slots-without-fetch", &["-DWITHOUT_FETCH"]);
}
