//! Who did it, with the names of files.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use iolens_core::model::Named;
use iolens_core::store::Recording;

use super::machine::{LoopDevice, Mounted, Recorder, ebpf, run, scene};

/// Writes 64 MiB through the page cache, then forces them out.
fn write_back(path: &Path) {
    let mut file = File::create(path).unwrap();
    let block = vec![7u8; 1 << 20];
    (0..64).for_each(|_| file.write_all(&block).unwrap());
    file.sync_all().unwrap();
}

#[test]
fn buffered_writes_are_told_with_their_file_and_a_hostile_name_stays_escaped() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(512)) else { return };
    let Some(mounted) = Mounted::ext4(&device) else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let big = mounted.path().join("big file");
    let hostile = mounted.path().join("x\x1b[31m\n<script>alert(1)<");
    // Quiet moments around each make it a burst that one-second samples hide.
    for file in [&big, &hostile] {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        write_back(file);
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let (big, hostile) = (big.to_str().unwrap(), hostile.to_str().unwrap());
    assert!(!String::from_utf8_lossy(&out.stdout).contains('\x1b'), "{}", scene(&out));

    let recording = Recording::open(&path).unwrap();
    let names: Vec<_> = recording.names(i64::MIN..i64::MAX).flat_map(|b| b.unwrap()).collect();
    for wanted in [big, hostile] {
        let told = names.iter().filter(|n| n.text == wanted).collect::<Vec<_>>();
        assert!(matches!(told[..], [n] if matches!(n.of, Named::File { .. })), "{wanted:?}: {names:?}");
    }

    let recording = path.to_str().unwrap();
    let zoom = run(&["zoom", recording, "--by", "file", "--step", "1s", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&zoom.stdout).unwrap();
    let kib = |name: &str| -> f64 {
        rows.as_array().unwrap().iter().filter(|r| r["file"] == name).map(|r| r["w_kib_per_s"].as_f64().unwrap()).sum()
    };
    assert!(kib(big) >= 65_536.0 && kib(hostile) >= 65_536.0, "{rows}");
    let table = run(&["zoom", recording, "--by", "file", "--step", "1s"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(!table.contains('\x1b') && table.contains("x\\x1b[31m\\x0a<script>alert(1)<"), "{table}");

    let out = run(&["report", recording, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let told = |name: &str| findings.iter().any(|f| f["summary"].as_str().unwrap().contains(name));
    // How fast each is written decides which of them is a burst worth a finding.
    assert!(told(big) || told(hostile), "{}", scene(&out));
    let text = run(&["report", recording]);
    let text = String::from_utf8(text.stdout).unwrap();
    // Lines are broken at spaces.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(big) || words.contains("x\\x1b[31m\\x0a<script>"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");

    let html = dir.path().join("r.html");
    let out = run(&["report", recording, "-o", html.to_str().unwrap()]);
    if String::from_utf8_lossy(&out.stderr).contains("built without the HTML page") {
        return eprintln!("SKIP: {}", scene(&out));
    }
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(!page.contains("<script>alert(1)<") && page.contains("big file"), "the name stays text");
}
