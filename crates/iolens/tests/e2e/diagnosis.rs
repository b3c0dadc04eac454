//! Compares stories of real programs with their own measurements: a few of the scenarios of
//! `bench/diagnosis`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::machine::{ebpf, run, scene};

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
    // Its table, or the reason why it was skipped.
    eprint!("{}", String::from_utf8_lossy(&out.stdout));
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    if !String::from_utf8_lossy(&out.stdout).contains("SKIP") {
        diff_says_which_stories_came_and_went(&benchmark.join("../../target/diagnosis/recordings"));
    }
}

/// Recordings of a backup beside another program, and of that program alone.
fn diff_says_which_stories_came_and_went(recordings: &Path) {
    let with = recordings.join("backup-medium-1-short");
    let alone = recordings.join("backup-medium-1-short-twin");
    // They have different disks, so no story is in both.
    let with_ids = story_ids(&document("report", &[&with])["stories"], None);
    let alone_ids = story_ids(&document("report", &[&alone])["stories"], None);
    let came = document("diff", &[&alone, &with])["stories"].take();
    assert_eq!(story_ids(&came, Some("appeared")), with_ids, "{came:#}");
    assert_eq!(story_ids(&came, Some("gone")), alone_ids, "{came:#}");
    let same = document("diff", &[&with, &with])["stories"].take();
    assert_eq!(story_ids(&same, Some("same")), with_ids, "{same:#}");
    assert_eq!(story_ids(&same, None), with_ids, "{same:#}");
}

/// The output of `iolens COMMAND RECORDINGS --json`.
fn document(command: &str, recordings: &[&Path]) -> Value {
    let mut words = vec![command];
    words.extend(recordings.iter().filter_map(|path| path.to_str()));
    words.push("--json");
    let out = run(&words);
    assert!(out.status.success(), "{}", scene(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The ids of stories: of all, or of those with this `outcome` in `diff`.
fn story_ids(stories: &Value, outcome: Option<&str>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for story in stories.as_array().unwrap() {
        if outcome.is_none_or(|outcome| story["outcome"] == outcome) {
            ids.insert(story["id"].as_str().unwrap().to_owned());
        }
    }
    ids
}
