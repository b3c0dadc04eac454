//! `iolens diff`: two times of a recording of a real device whose load changes in between.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::machine::{LoopDevice, Recorder, assert_refused, ebpf, now_unix_s, run, scene};

/// Reads of one block after the other, so many in each 10 ms, for five seconds; when each step was over, in seconds since 1970.
fn read_at_rate(device: &LoopDevice, reads_per_step: u64) -> Vec<f64> {
    let file = device.open_direct();
    let mut storage = vec![0u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    let mut ended_s = Vec::new();
    for step in 0..500 {
        for read in 0..reads_per_step {
            let block = (step * reads_per_step + read) % 1000;
            file.read_exact_at(&mut storage[at..at + 4096], block * 4096)
                .unwrap();
        }
        ended_s.push(now_unix_s());
        std::thread::sleep(Duration::from_millis(10));
    }
    ended_s
}

#[test]
fn a_rate_that_tripled_is_a_change_and_steady_halves_are_none() {
    let Some(()) = ebpf() else { return };
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let recording = tmp.path().join("r.iolens");
    let recorder = Recorder::start(&recording, &["-q", "--device", device.name()]);
    let slow_s = now_unix_s();
    let slow_steps_s = read_at_rate(&device, 1);
    let fast_s = now_unix_s();
    read_at_rate(&device, 3);
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let rec = recording.to_str().unwrap();
    let stretch = |from_s: f64, to_s: f64| format!("{from_s:.3}..{to_s:.3}");
    // On a busy machine a phase takes longer than five seconds: up to the next one it is the same load.
    let slow = stretch(slow_s, fast_s);
    let fast = stretch(fast_s, fast_s + 4.5);
    let arguments = ["diff", rec, rec, "--before", &slow, "--after", &fast];

    let out = run(&[&arguments[..], &["--json", "--fail-if", "read.ios > +50%"]].concat());
    assert_eq!(out.status.code(), Some(1), "{}", scene(&out));
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["conditions"][0]["verdict"], "failed", "{v:#}");
    let changes = v["devices"][0]["changes"].as_array().unwrap();
    let rate = changes
        .iter()
        .find(|c| c["measure"] == "ios_per_s")
        .unwrap();
    assert_eq!(rate["changed"], true, "{rate:#}");
    let held = run(&[&arguments[..], &["--fail-if", "read.ios < -50%"]].concat());
    assert_eq!(held.status.code(), Some(0), "{}", scene(&held));
    let text = String::from_utf8_lossy(&held.stdout).into_owned();
    assert!(text.contains("rate of reads of loop"), "{text}");

    let middle_s = f64::midpoint(slow_s, fast_s);
    let halves = [stretch(slow_s, middle_s), stretch(middle_s, fast_s)];
    let [first, second] = &halves;
    let out = run(&[
        "diff", rec, rec, "--before", first, "--after", second, "--json",
    ]);
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let rates = v["devices"][0]["changes"].as_array().unwrap().iter();
    let rates = rates.filter(|c| c["measure"] == "ios_per_s");
    // On a busy machine a sleep can take longer in one half than in the other: then the rate has changed indeed.
    let steps_before_middle = slow_steps_s.iter().filter(|s| **s < middle_s).count();
    let is_steady =
        steps_before_middle.abs_diff(slow_steps_s.len() / 2) <= slow_steps_s.len() / 100;
    if !is_steady {
        eprintln!(
            "SKIP: no steady rate here ({steps_before_middle} of 500 reads in the first half)"
        );
    }
    for rate in rates.filter(|_| is_steady) {
        assert!(rate["p_value"].as_f64().is_some(), "{rate:#}");
        assert_eq!(rate["changed"], false, "{rate:#}");
    }

    let out = run(&[&arguments[..], &["--fail-if", "write.p99 > 10%"]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", scene(&out));
    let out = run(&["diff", rec, rec, "--fail-if", "read.p98 > 10%"]);
    assert_refused(&out, &["--fail-if", "read.p99 > +10%"]);
}
