//! End-to-end tests of `iolens util`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{LoopDevice, assert_refused, ebpf, iolens, read_in_sequence, run, scene};

fn json(arguments: &[&str]) -> serde_json::Value {
    let out = run(arguments);
    assert!(out.status.success(), "{}", scene(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn paths_without_a_disk_are_null_with_a_reason() {
    let doc = json(&[
        "util",
        "--json",
        "--interval",
        "50ms",
        "--path",
        "/proc",
        "--source",
        "counters",
    ]);
    let path = &doc["paths"][0];
    assert!(
        path["max_percent"].is_null() && path["any_percent"].is_null(),
        "{path}"
    );
    assert!(
        path["no_disk_reason"].as_str().unwrap().contains("proc"),
        "{path}"
    );
    assert_refused(
        &run(&["util", "--path", "/nonexistent/x"]),
        &["/nonexistent/x", "No such file"],
    );
    assert_refused(
        &run(&["util", "--interval", "1ms", "--path", "/"]),
        &["too short"],
    );
}

#[test]
fn the_disks_are_those_at_the_roots_of_lsblk() {
    let Ok(out) = Command::new("lsblk")
        .args(["-s", "-J", "-o", "NAME,TYPE,MOUNTPOINT"])
        .output()
    else {
        return eprintln!("SKIP: no lsblk");
    };
    let tree: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let mine = json(&[
        "util",
        "--json",
        "--interval",
        "50ms",
        "--source",
        "counters",
    ]);
    let mut compared = 0;
    for top in tree["blockdevices"].as_array().unwrap() {
        let Some(point) = top["mountpoint"].as_str().filter(|p| p.starts_with('/')) else {
            continue;
        };
        let Some(path) = mine["paths"]
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["path"] == *point)
        else {
            continue;
        };
        let mut leaves = Vec::new();
        collect_leaves(top, &mut leaves);
        if leaves.iter().any(|l| l.starts_with("loop")) {
            continue; // lsblk ends at loop devices.
        }
        let disks: Vec<&str> = path["disks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["name"].as_str().unwrap())
            .collect();
        assert_eq!(disks, leaves, "{point}");
        compared += 1;
    }
    if compared == 0 {
        eprintln!("SKIP: lsblk shows no mounted disk here");
    }
}

fn collect_leaves(node: &serde_json::Value, out: &mut Vec<String>) {
    match node["children"].as_array() {
        Some(children) => children.iter().for_each(|c| collect_leaves(c, out)),
        None => out.push(node["name"].as_str().unwrap().to_owned()),
    }
    out.sort();
    out.dedup();
}

/// With one request at a time, the busy time is the number of requests times their latency, according to the counters.
/// The measured part depends on other load on the CPUs.
fn assert_busy_as_one_at_a_time(disk: &serde_json::Value) {
    let number = |key: &str| disk[key].as_f64().unwrap();
    let expected = (number("r_per_s") * number("await_ms") / 10.0).min(100.0);
    let noise = 4.0 * disk["sigma_percent"].as_f64().unwrap_or(0.0) + 10.0;
    // The counters' latencies begin some microseconds earlier than the events, with the plug.
    let least = if disk["method"] == "events" {
        expected / 2.0
    } else {
        expected - noise
    };
    let busy = number("busy_percent");
    assert!(
        expected > 5.0 && least < busy && busy < expected + noise,
        "{expected} % expected: {disk}"
    );
}

#[test]
fn a_disk_that_is_read_without_a_pause_is_busy_and_its_sharers_are_named() {
    let Some(device) = LoopDevice::new(16) else {
        return;
    };
    let stop = AtomicBool::new(false);
    let node = device.path.to_str().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        let by_counters = json(&[
            "util",
            "--json",
            "--interval",
            "500ms",
            "--source",
            "counters",
            "--path",
            node,
            "--path",
            node,
        ]);
        // If the kernel hid more than 1 % of the I/Os from the tracer, the counters are used; it does not always do
        // that.
        let exact = || {
            json(&[
                "util",
                "--json",
                "--interval",
                "500ms",
                "--source",
                "ebpf",
                "--path",
                node,
            ])
        };
        let by_events = ebpf().map(|()| {
            let mut runs = std::iter::repeat_with(exact).take(5);
            runs.find(|doc| doc["paths"][0]["disks"][0]["method"] == "events")
                .expect("events in one of five runs")
        });
        stop.store(true, Ordering::Relaxed);
        let disk = &by_counters["paths"][0]["disks"][0];
        assert_eq!(disk["name"], device.name());
        assert_busy_as_one_at_a_time(disk);
        assert!(disk["r_per_s"].as_f64().unwrap() > 100.0, "{disk}");
        assert_eq!(
            by_counters["shared_disks"][0]["paths"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        if let Some(doc) = by_events {
            let disk = &doc["paths"][0]["disks"][0];
            assert_eq!(doc["source"], "ebpf", "{doc}");
            assert_busy_as_one_at_a_time(disk);
        }
    });
}

#[test]
fn a_watched_stream_is_whole_lines_of_json_even_when_interrupted() {
    let mut child = iolens(&[
        "util", "--json", "--watch", "50ms", "--source", "counters", "--path", "/",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    // Not SIGINT, which is ignored in what a shell has started in the background.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    for line in std::iter::once(first).chain(lines.map(Result::unwrap)) {
        let doc: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(doc["interval_s"].as_f64().unwrap() > 0.0);
    }
    child.wait().unwrap();
}
