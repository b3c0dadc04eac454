//! Another kernel than this one: the shortest form of `make kernels`.

use std::{path::Path, process::Command};

/// Boots the newest long-term kernel in the cache: it takes the programs, and 1,000 I/Os are recorded as it counts them.
#[test]
fn a_long_term_kernel_records_exactly_what_it_counts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = std::env::var_os("IOLENS_PYTHON")
        .map_or_else(|| root.join("target/venv/bin/python"), Into::into);
    let mut run = Command::new(python);
    run.arg(root.join("ci/kernels/kernels.py")).args([
        "--short",
        "--binary",
        env!("CARGO_BIN_EXE_iolens"),
    ]);
    let Ok(out) = run.output() else {
        eprintln!("SKIP: no Python with pyarrow for the guests' recordings (ci/venv.sh makes one)");
        return;
    };
    let stdout = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    print!("{stdout}");
    assert!(out.status.success(), "{stdout}{stderr}");
    if let Some(why) = stdout.lines().find(|l| l.starts_with("SKIP: ")) {
        eprintln!("{why}");
        return;
    }
    assert!(stdout.contains("1 of 1 phases equal"), "{stdout}{stderr}");
}
