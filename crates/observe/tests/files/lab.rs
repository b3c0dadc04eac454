//! Programs whose requests are recorded, and the results.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use iolens_core::model::{Lost, Request};
use iolens_observe::trace::{FilesFilter, FilesOptions, FilesTracer};

/// Serialises tests, because they record the children of this process.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the machine has what a test needs; prints what is missing.
pub fn machine_has(tools: &[&str]) -> bool {
    for tool in tools {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .output()
            .unwrap()
            .status
            .success();
        if !found {
            eprintln!("SKIP: {tool} is not installed");
            return false;
        }
    }
    match FilesTracer::start(&children()) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("SKIP: {why}");
            false
        }
    }
}

/// Children of this process.
pub fn children() -> FilesOptions {
    FilesOptions {
        filter: FilesFilter {
            children: true,
            ..FilesFilter::default()
        },
        ..FilesOptions::default()
    }
}

/// Compiles story.c.
pub fn story(dir: &Path) -> PathBuf {
    compiled(dir, "story")
}

/// A program beside this file, compiled.
pub fn compiled(dir: &Path, name: &str) -> PathBuf {
    let program = dir.join(name);
    let source = format!("{}/tests/files/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let out = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    program
}

/// Runs a command to its end. Returns the requests recorded for files below `below`, with relative paths.
pub fn record(
    options: &FilesOptions,
    command: &mut Command,
    below: &Path,
) -> (Vec<(String, Request)>, Vec<Lost>) {
    let mut tracer = FilesTracer::start(options).unwrap();
    let mut out = Vec::new();
    let mut lost = Vec::new();
    let mut child = command.spawn().unwrap();
    let status = loop {
        tracer.poll(&mut out, &mut lost).unwrap();
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let stats = tracer.finish(&mut out, &mut lost).unwrap();
    assert!(status.success(), "{command:?}: {status}");
    assert_eq!(stats.late, 0);
    assert!(out.is_sorted_by_key(|r| r.end_ns));
    let below = format!("{}/", below.canonicalize().unwrap().display());
    let named = out
        .into_iter()
        .filter_map(|r| Some((r.path.as_deref()?.strip_prefix(&below)?.to_owned(), r)));
    (named.collect(), lost)
}
