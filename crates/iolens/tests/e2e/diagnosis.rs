//! Stories of real programs beside what their own clocks say: a few of the scenarios of `bench/diagnosis`.

use std::path::Path;
use std::process::Command;

use super::machine::ebpf;

#[test]
fn stories_name_those_that_made_real_programs_wait() {
    if ebpf().is_none() {
        return;
    }
    let benchmark = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/diagnosis");
    let judge = Command::new("python3")
        .arg(benchmark.join("judge_test.py"))
        .output();
    let Ok(judge) = judge else {
        eprintln!("SKIP: no python3");
        return;
    };
    assert!(judge.status.success(), "{judge:?}");
    let out = Command::new("python3")
        .arg(&benchmark)
        .args(["--short", "--program", env!("CARGO_BIN_EXE_iolens")])
        .output()
        .unwrap();
    // Its table, or why it was skipped.
    eprint!("{}", String::from_utf8_lossy(&out.stdout));
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
