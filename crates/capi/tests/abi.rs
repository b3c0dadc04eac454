//! The header matches the library's exports, and the examples build and run.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn repository() -> PathBuf {
    here().join("../..").canonicalize().unwrap()
}

/// The directory of the shared library that was built for this test.
fn library_dir() -> PathBuf {
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let dirs = [deps.parent().unwrap().to_owned(), deps];
    dirs.into_iter()
        .find(|d| d.join("libiolens_signal.so").exists())
        .expect("libiolens_signal.so was built")
}

/// Runs a compiler; `None`, with a message, where there is none.
fn compile(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(out) => Some(out),
        Err(e) => {
            eprintln!("SKIP: {:?}: {e}", command.get_program());
            None
        }
    }
}

fn said(out: &Output) -> String {
    format!(
        "{}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The C declaration that a Rust signature amounts to.
fn as_c(signature: &str) -> String {
    let of = |rust: &str| match rust.trim() {
        "*const c_char" => "const char *".to_owned(),
        "*mut c_char" => "char *".to_owned(),
        "*const Signal" => "const iolens_signal *".to_owned(),
        "*mut Signal" => "iolens_signal *".to_owned(),
        "*const Brake" => "const iolens_brake *".to_owned(),
        "*mut Brake" => "iolens_brake *".to_owned(),
        "*mut Reading" => "iolens_reading *".to_owned(),
        "*mut u32" => "uint32_t *".to_owned(),
        "f64" => "double ".to_owned(),
        "usize" => "size_t ".to_owned(),
        "u32" => "uint32_t ".to_owned(),
        "i32" => "int32_t ".to_owned(),
        "i64" => "int64_t ".to_owned(),
        "" => "void ".to_owned(),
        other => panic!("a type that the header cannot have: {other}"),
    };
    let (name, rest) = signature.split_once('(').unwrap();
    let (arguments, ret) = rest.split_once(')').unwrap();
    let ret = of(ret.trim().strip_prefix("->").unwrap_or("").trim());
    let arguments: Vec<String> = arguments
        .split(',')
        .filter(|a| !a.trim().is_empty())
        .map(|a| {
            let (name, rust) = a.split_once(':').unwrap();
            format!("{}{}", of(rust), name.trim())
        })
        .collect();
    let arguments = if arguments.is_empty() {
        "void".to_owned()
    } else {
        arguments.join(", ")
    };
    format!("{ret}{}({arguments});", name.trim())
}

#[test]
fn the_header_declares_exactly_what_the_library_exports() {
    let source = std::fs::read_to_string(here().join("src/lib.rs")).unwrap();
    let header = std::fs::read_to_string(here().join("include/iolens_signal.h")).unwrap();
    let source = one_line(source.split("#[cfg(test)]").next().unwrap());
    let exported: Vec<String> = source
        .split("extern \"C\" fn ")
        .skip(1)
        .map(|rest| as_c(&rest.split('{').next().unwrap().replace(", )", ")")))
        .collect();
    assert!(exported.len() >= 9, "{exported:?}");
    let declared = one_line(&header);
    for c in &exported {
        assert!(declared.contains(c.as_str()), "the header lacks: {c}");
    }
    let functions = header
        .lines()
        .filter(|l| l.ends_with(");") && l.contains("iolens_"))
        .count();
    assert_eq!(
        functions,
        exported.len(),
        "the header declares what the library does not export"
    );
}

/// C's own view of sizes, offsets and names.
const LAYOUT: &str = r#"
#include "iolens_signal.h"
_Static_assert(sizeof(iolens_reading) == 40, "size");
_Static_assert(offsetof(iolens_reading, mean_percent) == 0, "mean");
_Static_assert(offsetof(iolens_reading, max_percent) == 8, "max");
_Static_assert(offsetof(iolens_reading, any_percent) == 16, "any");
_Static_assert(offsetof(iolens_reading, span_ns) == 24, "span");
_Static_assert(offsetof(iolens_reading, disks) == 32, "disks");
_Static_assert(offsetof(iolens_reading, known) == 36, "known");
_Static_assert(IOLENS_ABI_VERSION == 1, "version");
int main(void) { return iolens_abi_version() != IOLENS_ABI_VERSION; }
"#;

#[test]
fn structures_have_the_layout_of_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    let program = dir.path().join("layout");
    std::fs::write(&source, LAYOUT).unwrap();
    let Some(out) = build_c(&source, &program) else {
        return;
    };
    assert!(out.status.success(), "{}", said(&out));
    let run = Command::new(&program)
        .env("LD_LIBRARY_PATH", library_dir())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", said(&run));
}

fn build_c(source: &Path, program: &Path) -> Option<Output> {
    compile(
        Command::new("cc")
            .args([
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-D_POSIX_C_SOURCE=200809L",
            ])
            .arg("-I")
            .arg(here().join("include"))
            .arg(source)
            .arg("-L")
            .arg(library_dir())
            .args(["-liolens_signal", "-o"])
            .arg(program),
    )
}

/// The example was given a path on a disk, or said why there is none.
fn check_example(out: &Output, words: &[&str]) {
    let on_disk = iolens_control::Utilisation::of_path(here())
        .unwrap()
        .no_disk()
        .is_none();
    assert_eq!(out.status.success(), on_disk, "{}", said(out));
    if on_disk {
        let text = String::from_utf8_lossy(&out.stdout);
        words
            .iter()
            .for_each(|w| assert!(text.contains(w), "{w:?} is missing: {}", said(out)));
    }
}

#[test]
fn the_example_in_c_builds_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("signal");
    let Some(out) = build_c(&repository().join("examples/c/signal.c"), &program) else {
        return;
    };
    assert!(out.status.success(), "{}", said(&out));
    let run = |arguments: &[&str]| {
        Command::new(&program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", library_dir())
            .output()
            .unwrap()
    };
    check_example(
        &run(&[here().to_str().unwrap(), "2"]),
        &["disks ", "of the time"],
    );
    let none = run(&["/proc"]);
    assert!(
        !none.status.success() && String::from_utf8_lossy(&none.stderr).contains("proc"),
        "{}",
        said(&none)
    );
}

#[test]
fn the_example_in_go_builds_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("signal");
    let library = library_dir();
    let Some(out) = compile(
        Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(repository().join("examples/go"))
            .env("CGO_ENABLED", "1")
            .env("GOFLAGS", "-mod=mod")
            .env("GOTOOLCHAIN", "local")
            .env(
                "CGO_LDFLAGS",
                format!("-L{} -Wl,-rpath,{}", library.display(), library.display()),
            ),
    ) else {
        return;
    };
    assert!(out.status.success(), "{}", said(&out));
    let run = Command::new(&program)
        .arg(here())
        .env("LD_LIBRARY_PATH", &library)
        .output()
        .unwrap();
    check_example(&run, &["busiest disk"]);
}
