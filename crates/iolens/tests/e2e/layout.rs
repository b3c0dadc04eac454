//! All text fits the terminal.

use std::path::Path;

use super::machine::iolens;

fn recording() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings/v1/finished.iolens")
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_word_is_broken() {
    let recording = recording();
    let commands: [&[&str]; 7] = [
        &["report"],
        &["report", "--full"],
        &["zoom", "--step", "100ms", "-x"],
        &["zoom", "--step", "100ms", "-x", "--by", "device"],
        &["zoom", "--step", "100ms", "--by", "process"],
        &["zoom", "--step", "100ms", "-x", "--by", "file"],
        &["doctor"],
    ];
    for columns in ["80", "120"] {
        for words in commands {
            let mut command = iolens(words);
            command.env("COLUMNS", columns);
            if words[0] != "doctor" {
                command.arg(&recording);
            }
            let out = command.output().expect("runs");
            let text = String::from_utf8_lossy(&out.stdout);
            assert!(
                !text.is_empty(),
                "{words:?}: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            let limit: usize = columns.parse().expect("a number");
            // Only a word that is longer than a line may exceed it.
            let wide = |l: &&str| l.chars().count() > limit && l.trim().contains(' ');
            assert_eq!(
                text.lines().filter(wide).collect::<Vec<_>>(),
                [""; 0],
                "{words:?} at {columns}"
            );
        }
    }
}

#[test]
fn info_fits_a_terminal_of_sixty_columns() {
    let out = iolens(&["info"])
        .arg(recording())
        .env("COLUMNS", "60")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout);
    // The first line is the path, which stays whole.
    let facts: Vec<&str> = text.lines().skip(1).collect();
    assert!(!facts.is_empty(), "{text}");
    assert!(facts.iter().all(|l| l.chars().count() <= 60), "{text}");
}

#[test]
fn colours_are_for_terminals_only() {
    let out = iolens(&["report"])
        .arg(recording())
        .env_remove("NO_COLOR")
        .output()
        .expect("runs");
    assert!(!out.stdout.contains(&0x1b));
}
