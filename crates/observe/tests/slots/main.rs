//! The kernel half's table of slots, played through at random in user space (`slots.c`): every I/O keeps a slot of its own
//! while it is in flight, and what was taken is ended, missed or still there, to the last one.

use std::{path::Path, process::Command};

#[test]
fn every_io_has_a_slot_of_its_own_and_none_goes_missing() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slots");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-I"])
        .args([&here.join("bpf"), &here.join("tests/slots/slots.c"), Path::new("-o"), &program])
        .status();
    match built {
        Err(e) => return eprintln!("SKIP: no C compiler: {e}"),
        Ok(status) => assert!(status.success(), "slots.c does not compile"),
    }
    for hidden in ["0", "5", "300"] {
        for seed in ["1", "2", "3", "4"] {
            let ran = Command::new(&program).args([seed, "100000", hidden]).output().expect("it was just made");
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "seed {seed}, {hidden} of 1000 hidden: {said}");
            println!("seed {seed}, {hidden} of 1000 hidden: {}", said.trim());
        }
    }
}
