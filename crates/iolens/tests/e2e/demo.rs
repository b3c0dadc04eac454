//! The demo, on a machine with other load.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use iolens_core::store::{IoColumns, Recording};

use super::machine::{
    LoopDevice, Mounted, StopOnDrop, assert_refused, ebpf, read_in_sequence, run, scene,
};

#[test]
fn a_name_that_cannot_be_made_is_refused_before_anything_is_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/demo.iolens");
    let out = run(&["demo", "-o", path.to_str().unwrap()]);
    assert_refused(&out, &["there is no directory", "missing"]);
}

#[test]
fn it_records_its_own_disk_alone_and_says_what_its_reader_lost() {
    let (Some(()), Some(own), Some(other)) = (ebpf(), LoopDevice::new(512), LoopDevice::new(16))
    else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&own) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("demo.iolens");
    let stop = AtomicBool::new(false);
    let out = std::thread::scope(|s| {
        let load = s.spawn(|| read_in_sequence(&other, 4096, &stop));
        let _stop = StopOnDrop(&stop);
        let out = run(&[
            "demo",
            "-o",
            path.to_str().unwrap(),
            "--dir",
            mounted.path().to_str().unwrap(),
        ]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(load.join().unwrap() > 0, "the other disk was read");
        out
    });
    assert!(out.status.success(), "{}", scene(&out));
    let recording = Recording::open(&path).unwrap();
    let ios = recording.ios(i64::MIN..i64::MAX, IoColumns::REQUIRED);
    let devices: BTreeSet<_> = ios.flat_map(|b| b.unwrap()).map(|io| io.dev).collect();
    let names: Vec<&str> = recording.meta().devices.iter().map(|d| &*d.name).collect();
    assert!(
        !devices.is_empty() && !names.contains(&other.name()),
        "{names:?}: {}",
        scene(&out)
    );
    for dev in devices {
        assert!(
            recording.meta().device(dev).is_some(),
            "{dev} is none of {names:?}"
        );
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("Reads stopped for "), "{}", scene(&out));
    assert!(text.contains(" instead of 0."), "{}", scene(&out));
    // One in 2.4 s for 15 s, which leaves 0.6 s. A machine that is late by more comes to one less: it stopped once for half of that,
    // or the disk was slow each time.
    let fsyncs = if stop_ms(&text) > 300.0 { 5 } else { 6 };
    let has_fsyncs = (fsyncs..=6).any(|n| text.contains(&format!("{n} fsyncs")));
    assert!(has_fsyncs, "{}", scene(&out));
    // A loop device over memory may take the flushes so fast that no read loses much: then it is said that none did.
    assert!(text.contains("What happened "), "{}", scene(&out));
    let nothings = [
        "no program lost much time to another",
        "no program made another wait for long; what devices did by themselves is below",
    ];
    if nothings.iter().any(|nothing| text.contains(nothing)) {
        return;
    }
    // If the machine itself paused for a second, one of its reads lost most time, or the device paused.
    let has_victim = text.contains(" wait for it")
        || text.contains(" took long over one of the reads ")
        || text.contains(" paused: nothing completed ");
    assert!(has_victim, "{}", scene(&out));
    assert!(text.contains("Try: "), "{}", scene(&out));
}

/// For how long reads stopped, as the demo says it, in milliseconds.
fn stop_ms(text: &str) -> f64 {
    let (_, stopped) = text.split_once("Reads stopped for ").unwrap();
    let mut words = stopped.split_whitespace();
    let value: f64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "ms:" => value,
        "s:" => 1000.0 * value,
        unit => panic!("{unit}: {text}"),
    }
}
