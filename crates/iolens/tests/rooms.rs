//! Who may know whom: the edges between rooms that crate walls do not enforce.

use std::fs;
use std::path::{Path, PathBuf};

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Lines of the room that name something forbidden to it.
fn trespasses(room: &str, forbidden: &[&str]) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let mut files = Vec::new();
    rust_files(&crates.join(room), &mut files);
    assert!(!files.is_empty() || !crates.join(room).exists(), "{room} holds no Rust file");
    let mut found = Vec::new();
    for file in files {
        // Tests may do what their room may not: they are not in the program.
        if file.components().any(|c| c.as_os_str() == "tests") || file.file_name().is_some_and(|n| n == "tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for (i, line) in program.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if let Some(word) = forbidden.iter().find(|w| code.contains(**w)) {
                found.push(format!("{}:{}: a line of {room} names {word}: {}", file.display(), i + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn rooms_know_only_whom_they_may() {
    let rules: &[(&str, &[&str])] = &[
        ("core/src/model", &["crate::store", "crate::analysis"]),
        ("core/src/store", &["crate::analysis"]),
        ("core/src/analysis", &["crate::store", "std::fs", "std::io::"]),
        ("core/src", &["std::thread", "std::process"]),
        ("observe/src", &["iolens_core::store", "iolens_core::analysis"]),
        (
            "iolens/src/present",
            &["iolens_observe", "iolens_core::store", "crate::commands", "crate::cli", "crate::lab"],
        ),
        ("iolens/src/cli", &["iolens_observe", "iolens_core::store", "iolens_core::analysis", "crate::commands"]),
        ("iolens/src/lab", &["crate::commands", "crate::cli", "crate::present"]),
        ("iolens/src/control", &["crate::commands", "crate::cli", "crate::present"]),
    ];
    let found: Vec<String> = rules.iter().flat_map(|(room, forbidden)| trespasses(room, forbidden)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn clap_is_seen_in_cli_only() {
    let found: Vec<String> = ["core/src", "observe/src", "iolens/src/commands", "iolens/src/present", "iolens/src/lab"]
        .iter()
        .flat_map(|room| trespasses(room, &["clap::"]))
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
