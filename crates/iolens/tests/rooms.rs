//! Which module may name which, where crate walls do not enforce it; and that the docs name what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All files below `dir`.
fn files_below(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, out);
        } else {
            out.push(path);
        }
    }
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut files = Vec::new();
    files_below(dir, &mut files);
    files.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    out.append(&mut files);
}

/// Lines of the room that name something forbidden to it.
fn trespasses(room: &str, forbidden: &[&str]) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/");
    let mut files = Vec::new();
    rust_files(&crates.join(room), &mut files);
    assert!(
        !files.is_empty() || !crates.join(room).exists(),
        "{room} holds no Rust file"
    );
    let mut found = Vec::new();
    for file in files {
        // Tests may do what their room may not: they are not in the program.
        if file.components().any(|c| c.as_os_str() == "tests")
            || file.file_name().is_some_and(|n| n == "tests.rs")
        {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        for (i, line) in program.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if let Some(word) = forbidden.iter().find(|w| code.contains(**w)) {
                found.push(format!(
                    "{}:{}: a line of {room} names {word}: {}",
                    file.display(),
                    i + 1,
                    line.trim()
                ));
            }
        }
    }
    found
}

#[test]
fn modules_use_only_their_allowed_dependencies() {
    let rules: &[(&str, &[&str])] = &[
        ("core/src/model", &["crate::store", "crate::analysis"]),
        ("core/src/store", &["crate::analysis", "crate::rollup"]),
        (
            "core/src/rollup",
            &["crate::store", "crate::analysis", "std::fs"],
        ),
        (
            "core/src/analysis",
            &["crate::store", "std::fs", "std::io::"],
        ),
        ("core/src", &["std::thread", "std::process"]),
        (
            "observe/src",
            &["iolens_core::store", "iolens_core::analysis"],
        ),
        (
            "iolens/src/present",
            &[
                "iolens_observe",
                "iolens_core::store",
                "crate::commands",
                "crate::cli",
            ],
        ),
        (
            "iolens/src/cli",
            &[
                "iolens_observe",
                "iolens_core::store",
                "iolens_core::analysis",
                "crate::commands",
            ],
        ),
        (
            "iolens/src/engine",
            &[
                "iolens_observe",
                "iolens_recorder",
                "crate::commands",
                "crate::cli",
                "crate::present",
                "crate::streams",
                "crate::serve",
                "println!",
                "eprint!",
                "anyhow",
                "thread_local!",
            ],
        ),
        (
            "iolens/src/iostat",
            &["iolens_core::store", "crate::commands", "crate::engine"],
        ),
        (
            "iolens/src/live",
            &["iolens_core::store", "crate::commands"],
        ),
        ("iolens/src/serve", &["crate::commands", "crate::cli"]),
        (
            "iolens/src/throttle",
            &["iolens_core::store", "crate::commands", "crate::engine"],
        ),
        (
            "recorder/src",
            &[
                "iolens_core::analysis",
                "iolens_import",
                "iolens_control",
                "indicatif",
                "print!",
                "println!",
            ],
        ),
        (
            "lab/src",
            &["iolens_control", "indicatif", "print!", "println!"],
        ),
        ("control/src", &["iolens_core::store", "iolens_import"]),
        (
            "import/src",
            &[
                "iolens_observe",
                "iolens_core::store",
                "iolens_core::analysis",
            ],
        ),
    ];
    let found: Vec<String> = rules
        .iter()
        .flat_map(|(room, forbidden)| trespasses(room, forbidden))
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Lines of a command's file without its tests: a command that needs more hides an engine.
const MAX_COMMAND_LINES: usize = 225;

#[test]
fn command_files_stay_short() {
    let mut files = Vec::new();
    rust_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands"),
        &mut files,
    );
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let lines = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or("")
            .lines()
            .count();
        assert!(
            lines <= MAX_COMMAND_LINES,
            "{} has {lines} lines without tests",
            file.display()
        );
    }
}

#[test]
fn the_c_library_links_no_command_line() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = [
        "tree",
        "-p",
        "iolens-capi",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--locked",
        "--offline",
    ];
    let out = std::process::Command::new(cargo)
        .args(tree)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let out = out.expect("cargo runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let tree = String::from_utf8_lossy(&out.stdout);
    assert!(tree.contains("iolens-control"), "{tree}");
    for name in ["clap", "indicatif", "iolens", "iolens-recorder"] {
        assert!(
            !tree
                .lines()
                .any(|line| line.split(' ').next() == Some(name)),
            "iolens-capi links {name}:\n{tree}"
        );
    }
}

#[test]
fn clap_is_seen_in_cli_only() {
    let found: Vec<String> = [
        "core/src",
        "observe/src",
        "import/src",
        "recorder/src",
        "control/src",
        "iolens/src/commands",
        "iolens/src/engine",
        "iolens/src/iostat",
        "iolens/src/live",
        "iolens/src/present",
        "iolens/src/serve",
        "iolens/src/throttle",
        "lab/src",
    ]
    .iter()
    .flat_map(|room| trespasses(room, &["clap::"]))
    .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the workspace")
}

/// Text between backticks in a page of documentation.
fn quoted(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect("readable");
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned))
        .collect()
}

#[test]
fn the_files_that_the_docs_name_exist() {
    let folders = ["crates/", "docs/", "web/", "fixtures/", "bench/", "ci/"];
    for page in [
        "docs/architecture.md",
        "docs/analyses.md",
        "CONTRIBUTING.md",
    ] {
        let named: Vec<String> = quoted(page)
            .into_iter()
            .filter(|w| folders.iter().any(|f| w.starts_with(f)))
            .collect();
        assert!(named.len() > 2, "{page} names {named:?}");
        let missing: Vec<&String> = named.iter().filter(|w| !root().join(w).exists()).collect();
        assert!(
            missing.is_empty(),
            "{page} names what does not exist: {missing:?}"
        );
    }
    let analysis = root().join("crates/core/src/analysis");
    let of_analyses = quoted("docs/analyses.md")
        .into_iter()
        .filter(|w| w.ends_with(".rs") || w.ends_with('/'));
    let missing: Vec<String> = of_analyses
        .filter(|w| !analysis.join(w).exists() && !root().join(w).exists())
        .collect();
    assert!(
        missing.is_empty(),
        "docs/analyses.md names what does not exist: {missing:?}"
    );
}

/// Where source files lie that `docs/source-files.md` lists.
const LISTED: [&str; 7] = [
    "crates",
    "web/src",
    "go",
    "python/src",
    "bench",
    "ci",
    "packaging",
];

/// Whether a path below the root is a source file that is written by hand, and no test.
fn is_listed(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let is_source = [".rs", ".c", ".h", ".ts", ".go", ".py"];
    let is_left_out = ["benches", "examples", "generated", "target"];
    is_source.iter().any(|end| name.ends_with(end))
        && !name.ends_with(".d.ts")
        && path.iter().all(|part| {
            let part = part.to_string_lossy();
            !part.contains("test") && !is_left_out.contains(&&*part)
        })
}

/// The first sentence of a source file, without the marks of a comment; empty if it begins with something else.
fn first_sentence(text: &str) -> String {
    let mut sentence = String::new();
    for line in text.lines() {
        let is_for_machines = line.contains("SPDX-License-Identifier") || line.starts_with("#!");
        let is_mark = ["/*", "/**", "\"\"\""].contains(&line.trim());
        if is_for_machines || is_mark || (sentence.is_empty() && line.trim().is_empty()) {
            continue;
        }
        let is_comment = ["//", "/*", " *", "\"\"\""]
            .iter()
            .any(|mark| line.starts_with(mark));
        if sentence.is_empty() && !is_comment {
            break;
        }
        let words = line
            .trim_start_matches(['/', '!', '*', ' ', '"'])
            .trim_end_matches(['*', '/', '"', ' ']);
        if words.is_empty() {
            break;
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(words);
        // What follows the first sentence is for those who open the file.
        if let Some(end) = sentence.find(". ") {
            sentence.truncate(end + 1);
        }
        if sentence.ends_with('.') {
            break;
        }
    }
    without_links(&sentence)
}

/// Text whose links of the API's documentation are plain words.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((name, after)) = after.split_once(']') else {
            plain.push('[');
            rest = after;
            continue;
        };
        plain.push_str(name);
        rest = after;
        if let Some((_, behind)) = after.strip_prefix('(').and_then(|a| a.split_once(')')) {
            rest = behind;
        }
    }
    plain.push_str(rest);
    plain
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let mut files = Vec::new();
    for folder in LISTED {
        files_below(&root().join(folder), &mut files);
    }
    files.sort();
    // Folders with their files; what the first file of a folder says is about the folder.
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut silent = Vec::new();
    for path in files {
        let shown = path.strip_prefix(root()).expect("below the root");
        if !is_listed(shown) {
            continue;
        }
        let sentence = first_sentence(&fs::read_to_string(&path).expect("readable"));
        if sentence.is_empty() {
            silent.push(shown.display().to_string());
        }
        let folder = shown.parent().expect("a folder").display().to_string();
        let name = shown.file_name().expect("a name").to_string_lossy();
        let of_folder = folders.entry(folder).or_default();
        of_folder.push(format!("- `{name}`: {sentence}\n"));
    }
    let mut page = "# Every file\n\nWhat each source file is for, by its own first sentence. Made by `make schema`; \
                    [architecture.md](architecture.md) says how they work together.\n"
        .to_owned();
    for (folder, lines) in folders {
        page += &format!("\n## {folder}\n\n{}", lines.concat());
    }
    let stored = root().join("docs/source-files.md");
    if std::env::var_os("IOLENS_WRITE_SCHEMA").is_some() {
        fs::write(&stored, &page).expect("writable");
    }
    let before = fs::read_to_string(&stored).unwrap_or_default();
    assert!(silent.is_empty(), "without a first sentence: {silent:?}");
    assert!(
        before == page,
        "docs/source-files.md is not up to date: `make schema`"
    );
}

#[test]
fn sentences_are_taken_from_all_kinds_of_comments() {
    for (text, sentence) in [
        ("//! A table.\n//! More.\nuse x;", "A table."),
        (
            "//! Rows of\n//! [`Row`](super::Row): sums. More.\n",
            "Rows of `Row`: sums.",
        ),
        (
            "/* SPDX-License-Identifier: GPL */\n/* Part of it. */\n",
            "Part of it.",
        ),
        (
            "// SPDX-License-Identifier: MIT\n\n// Disks.\n\npackage x",
            "Disks.",
        ),
        (
            "// SPDX-License-Identifier: GPL\n/*\n * Every I/O, from\n * start on. So.\n */",
            "Every I/O, from start on.",
        ),
        ("\"\"\"A lake.\n\nMore.\"\"\"\n", "A lake."),
        ("import { x } from \"y\";\n", ""),
    ] {
        assert_eq!(first_sentence(text), sentence);
    }
}

fn files_called(name: &str, dir: &Path, out: &mut Vec<PathBuf>) {
    let mut files = Vec::new();
    files_below(dir, &mut files);
    files.retain(|path| path.file_name().is_some_and(|n| n == name));
    out.append(&mut files);
}

/// The ids of analyses (`A` and a number) in a text.
fn ids(text: &str) -> BTreeSet<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter_map(|w| w.strip_prefix('A')?.parse().ok())
        .collect()
}

#[test]
fn every_id_of_an_analysis_is_defined() {
    let page = fs::read_to_string(root().join("docs/analyses.md")).expect("readable");
    let defined: BTreeSet<u32> = page
        .lines()
        .filter_map(|l| l.strip_prefix("## "))
        .flat_map(ids)
        .collect();
    let mut files = Vec::new();
    for folder in [
        "crates/core/src",
        "crates/control/src",
        "crates/iolens/src",
        "crates/lab/src",
        "crates/observe/src",
    ] {
        rust_files(&root().join(folder), &mut files);
    }
    files.push(root().join("docs/report.md"));
    files_called("definitions.ts", &root().join("web/src"), &mut files);
    files_called(
        "fields.json",
        &root().join("crates/iolens/src/present"),
        &mut files,
    );
    let mut used = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let comments =
            |line: &&str| file.extension().is_some_and(|e| e != "rs") || line.contains("//");
        let named: BTreeSet<u32> = text.lines().filter(comments).flat_map(ids).collect();
        let undefined: Vec<&u32> = named.difference(&defined).collect();
        assert!(
            undefined.is_empty(),
            "{} names analyses that docs/analyses.md does not define: {undefined:?}",
            file.display()
        );
        used.extend(named);
    }
    assert!(used.len() > 20 && defined.len() >= used.len(), "{used:?}");
}

/// Names of types that three files or more define: a reader who meets one has to look which one it is. May only fall.
const MAX_SHARED_NAMES: usize = 9;

#[test]
fn few_names_of_types_mean_three_things() {
    let mut files = Vec::new();
    let crates = fs::read_dir(root().join("crates")).expect("crates/");
    for entry in crates.flatten() {
        rust_files(&entry.path().join("src"), &mut files);
    }
    let mut homes: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for file in &files {
        let path = file.to_string_lossy();
        if path.contains("/tests/") || path.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(file).expect("readable");
        let program = text.split("#[cfg(test)]\nmod tests {").next();
        let types = program.unwrap_or("").lines().filter_map(defined_type);
        for name in types {
            homes.entry(name.to_owned()).or_default().insert(file);
        }
    }
    assert!(homes.len() > 500, "{} types", homes.len());
    let shared: Vec<String> = homes
        .iter()
        .filter(|(_, files)| files.len() >= 3)
        .map(|(name, files)| format!("{name} ({})", files.len()))
        .collect();
    assert!(
        shared.len() <= MAX_SHARED_NAMES,
        "{} names are defined three times or more, {MAX_SHARED_NAMES} were: {}",
        shared.len(),
        shared.join(", ")
    );
}

/// The type that a line at the left margin defines.
fn defined_type(line: &str) -> Option<&str> {
    let visible = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = visible.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    rest.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// Files of the core that import each other in a circle: none can be read, moved or tested without the others. Both may only fall.
const MAX_IN_CIRCLES: usize = 11;
const MAX_CIRCLE: usize = 3;

#[test]
fn few_files_import_each_other_in_circles() {
    let source = root().join("crates/core/src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut modules: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("readable");
        let program = text.split("#[cfg(test)]\nmod tests {").next();
        modules.insert(module_of(file, &source), program.unwrap_or("").to_owned());
    }
    let mut imported: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (module, text) in &modules {
        let mut targets = BTreeSet::new();
        for path in imports(text, module) {
            let known = (1..=path.len())
                .rev()
                .find_map(|n| modules.get_key_value(&path[..n]));
            // What a module shares with those inside it is no circle: it is made of them.
            let is_apart =
                |other: &Vec<String>| !other.starts_with(module) && !module.starts_with(other);
            targets.extend(
                known
                    .map(|(other, _)| other)
                    .filter(|other| is_apart(other))
                    .map(|m| &m[..]),
            );
        }
        imported.insert(module, targets);
    }
    let reached: BTreeMap<&[String], BTreeSet<&[String]>> = imported
        .keys()
        .map(|module| (*module, reached_from(module, &imported)))
        .collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, others) in &reached {
        let is_back = |other: &&&[String]| reached[**other].contains(module);
        let circle: Vec<String> = others
            .iter()
            .filter(is_back)
            .map(|m| m.join("::"))
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let largest = circles.iter().map(Vec::len).max().unwrap_or(0);
    let all: usize = circles.iter().map(Vec::len).sum();
    assert!(modules.len() > 200, "{} files", modules.len());
    assert!(
        all <= MAX_IN_CIRCLES && largest <= MAX_CIRCLE,
        "{all} files in circles, the largest of {largest}: {circles:#?}"
    );
}

/// The module that a file is.
fn module_of(file: &Path, source: &Path) -> Vec<String> {
    let inside = file
        .strip_prefix(source)
        .expect("below it")
        .with_extension("");
    let mut parts: Vec<String> = inside
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        parts.pop();
    }
    parts
}

/// The paths, from the crate on, that the `use` of a module name.
fn imports(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("use ") {
        let (tree, later) = after.split_once(';').unwrap_or((after, ""));
        for path in expanded(&tree.split_whitespace().collect::<String>()) {
            let parts: Vec<&str> = path.split("::").collect();
            let supers = parts.iter().take_while(|p| **p == "super").count();
            let from = match parts[0] {
                "crate" => Vec::new(),
                "super" => module[..module.len().saturating_sub(supers)].to_vec(),
                _ => continue,
            };
            let own = parts.iter().skip(supers.max(1)).map(|p| (*p).to_owned());
            paths.push(from.into_iter().chain(own).collect());
        }
        rest = later;
    }
    paths
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((front, inside)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let mut paths = Vec::new();
    let mut depth = 0;
    let is_end = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    for part in inside.split(is_end) {
        paths.extend(
            expanded(part)
                .into_iter()
                .map(|path| format!("{front}{path}")),
        );
    }
    paths
}

fn reached_from<'a>(
    module: &'a [String],
    imported: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
) -> BTreeSet<&'a [String]> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        for other in &imported[module] {
            if reached.insert(*other) {
                next.push(*other);
            }
        }
    }
    reached
}
