//! A recorder whose probes are detached: I/Os that only the kernel counts are reported.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use iolens_core::model::{LossReason, Lost};
use iolens_core::store::{IoColumns, Recording};

use super::machine::{LoopDevice, Recorder, ebpf, hidden, iolens, run, scene, wait_until};
use super::serve::while_reading;

/// Loaded into the recorder: replaces its links to the kernel's tracepoints, which detaches them, once the file with
/// this name exists.
const DETACH: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *detach(void *flag)
{
    char path[64], target[64];
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (access(flag, F_OK))
        usleep(1000);
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0 && (target[n] = 0, !strcmp(target, "anon_inode:bpf_link")))
            dup2(other, fd);
    }
    unlink(flag);
    return 0;
}
__attribute__((constructor)) static void start(void)
{
    static pthread_t thread;
    if (getenv("DETACH"))
        pthread_create(&thread, 0, detach, getenv("DETACH"));
}
"#;

/// The library, or `None`, with a message, where there is no compiler.
fn library(dir: &Path) -> Option<PathBuf> {
    let source = dir.join("detach.c");
    let library = dir.join("detach.so");
    std::fs::write(&source, DETACH).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    match built {
        Ok(out) => assert!(out.status.success(), "{}", scene(&out)),
        Err(e) => {
            eprintln!("SKIP: no C compiler: {e}");
            return None;
        }
    }
    Some(library)
}

/// `program`, made to lose its probes when `flag` is written.
fn losing_its_probes(mut program: Command, library: &Path, flag: &Path) -> Command {
    program.env("LD_PRELOAD", library).env("DETACH", flag);
    program
}

/// Returns when all probes are detached.
fn detach(flag: &Path) {
    std::fs::write(flag, "").unwrap();
    wait_until("the probes are detached", || !flag.exists());
}

/// Reads some thousand blocks; how many.
fn read_some(device: &LoopDevice) -> u64 {
    let before = device.stat()[0];
    while_reading(device, || {
        wait_until("some thousand are read", || {
            device.stat()[0] >= before + 5000
        });
    })
}

/// I/Os in a recording so far, and those that the kernel is known to have hidden.
fn known_ios(path: &Path) -> u64 {
    let recording = Recording::open(path).unwrap();
    let all = i64::MIN..i64::MAX;
    let stored = recording.ios(all.clone(), IoColumns::REQUIRED);
    let stored: usize = stored.map(|batch| batch.unwrap().len()).sum();
    stored as u64 + hidden(&recording.lost(all)) as u64
}

#[test]
fn ios_seen_only_by_the_kernel_are_unaccounted() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else {
        return;
    };
    let path = dir.path().join("r.iolens");
    let flag = dir.path().join("flag");
    let started = |command| losing_its_probes(command, &library, &flag);
    let recorder = Recorder::start_as(&path, &["-d", device.name()], started);
    // What completed before the first look at the kernel's counters is not compared.
    wait_until("the kernel's counters are read", || {
        let recording = Recording::open(&path).unwrap();
        recording.counters(i64::MIN..i64::MAX).next().is_some()
    });
    let seen = read_some(&device);
    wait_until("all reads are recorded", || known_ios(&path) == seen);
    detach(&flag);
    let unseen = read_some(&device);
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));

    let recording = Recording::open(&path).unwrap();
    let lost: Vec<Lost> = recording.lost(i64::MIN..i64::MAX);
    let unaccounted = |l: &&Lost| l.reason == LossReason::Unaccounted;
    let missing: i64 = lost.iter().filter(unaccounted).filter_map(|l| l.ios).sum();
    assert_eq!(known_ios(&path), seen, "{lost:?}");
    assert_eq!(missing, unseen as i64, "{lost:?}");

    let report = run(&["report", path.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let reported = findings
        .iter()
        .any(|f| f["kind"] == "lost-events" && f["evidence"]["reason"] == "unaccounted");
    assert!(reported, "{findings:?}");
}

#[test]
fn live_says_what_only_the_kernel_counts() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = library(dir.path()) else {
        return;
    };
    let flag = dir.path().join("flag");
    let rows = dir.path().join("stdout");
    let words = dir.path().join("stderr");
    let live = iolens(&[
        "live",
        "--plain",
        "-d",
        device.name(),
        "--step",
        "500ms",
        "--for",
        "60s",
    ]);
    let mut live = losing_its_probes(live, &library, &flag);
    let mut live = live
        .stdout(std::fs::File::create(&rows).unwrap())
        .stderr(std::fs::File::create(&words).unwrap())
        .spawn()
        .unwrap();
    let says = |what: &str| {
        let begin = Instant::now();
        while !std::fs::read_to_string(&words).unwrap().contains(what) {
            if begin.elapsed() > Duration::from_secs(40) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    };
    let is_ready = says("source: ebpf");
    // The kernel's counters are read before the first row is printed; the heading has two lines at most.
    wait_until("rows are printed", || {
        std::fs::read_to_string(&rows).unwrap().lines().count() > 3
    });
    detach(&flag);
    let unseen = read_some(&device);
    let is_said = says("(unaccounted)");
    live.kill().unwrap();
    live.wait().unwrap();
    let text = std::fs::read_to_string(&words).unwrap();
    assert!(is_ready && is_said, "{text}");
    assert!(
        text.contains(device.name()) && text.contains("(read)"),
        "{text}"
    );
    // A second may end between them, and thousands are set off from each other.
    let words = text.lines().filter(|l| l.contains("(unaccounted)"));
    let numbers = words.filter_map(|l| {
        l.split(": ")
            .nth(2)?
            .split(' ')
            .next()?
            .replace(',', "")
            .parse::<u64>()
            .ok()
    });
    let said: u64 = numbers.sum();
    assert!(said > 0 && said <= unseen, "{said} of {unseen}: {text}");
}
