//! Attribution with the names of files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use iolens_core::model::{Inode, Named, Op};
use iolens_core::store::{IoColumns, Recording};

use super::machine::{LoopDevice, Mounted, Recorder, ebpf, open_direct, run, scene, wait_until};

/// Writes 64 MiB through the page cache, then syncs them.
fn write_back(path: &Path) {
    let mut file = File::create(path).unwrap();
    let block = vec![7u8; 1 << 20];
    (0..64).for_each(|_| file.write_all(&block).unwrap());
    file.sync_all().unwrap();
}

/// The names of all files in the recording.
fn file_names(path: &Path) -> Vec<(Inode, String)> {
    let recording = Recording::open(path).unwrap();
    let names = recording.names(i64::MIN..i64::MAX).flat_map(|b| b.unwrap());
    let file = |n: iolens_core::model::Name| match n.of {
        Named::File(inode) => Some((inode, n.text)),
        _ => None,
    };
    names.filter_map(file).collect()
}

#[test]
fn files_that_had_one_inode_number_after_the_other_keep_their_names() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(256)) else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&device) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let files = [
        ("pgsql_tmp1", 1u64),
        ("backup.tar", 2),
        ("alpha.log", 3),
        ("beta.log", 4),
    ];
    let mut numbers = Vec::new();
    for (name, mib) in files {
        let file = mounted.path().join(name);
        let mut open = File::create(&file).unwrap();
        open.write_all(&vec![7u8; (mib << 20) as usize]).unwrap();
        open.sync_all().unwrap();
        numbers.push(open.metadata().unwrap().ino());
        drop(open);
        wait_until(&format!("{name} is named"), || {
            let names = file_names(&path);
            names
                .iter()
                .any(|(_, text)| text.as_str() == file.to_str().unwrap())
        });
        std::fs::remove_file(&file).unwrap();
    }
    assert!(
        numbers.iter().all(|n| *n == numbers[0]),
        "ext4 gives the lowest free number: {numbers:?}"
    );
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));

    let names = file_names(&path);
    let recording = Recording::open(&path).unwrap();
    let ios: Vec<_> = recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|b| b.unwrap())
        .collect();
    for (name, mib) in files {
        let text = mounted.path().join(name);
        let inodes: BTreeSet<_> = names
            .iter()
            .filter(|(_, t)| Some(t.as_str()) == text.to_str())
            .map(|n| n.0)
            .collect();
        assert_eq!(inodes.len(), 1, "{name}: {names:?}");
        let mine = ios
            .iter()
            .filter(|io| io.op == Op::WRITE && io.inode().is_some_and(|i| inodes.contains(&i)));
        assert_eq!(
            mine.map(|io| io.bytes as u64).sum::<u64>(),
            mib << 20,
            "{name}: {names:?}"
        );
    }
    let zoom = run(&[
        "zoom",
        path.to_str().unwrap(),
        "--by",
        "file",
        "--step",
        "1s",
    ]);
    let table = String::from_utf8(zoom.stdout).unwrap();
    assert!(
        files.iter().all(|(name, _)| table.contains(name)),
        "{table}"
    );
}

#[test]
fn buffered_writes_are_reported_with_their_file_and_a_hostile_name_stays_escaped() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(512)) else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&device) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let big = mounted.path().join("big file");
    let hostile = mounted.path().join("x\x1b[31m\n<script>alert(1)<");
    // Quiet moments around each make it a burst that one-second samples hide: here time itself is what is tested.
    for file in [&big, &hostile] {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        write_back(file);
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let big = big.to_str().unwrap();
    let hostile = hostile.to_str().unwrap();
    assert!(
        !String::from_utf8_lossy(&out.stdout).contains('\x1b'),
        "{}",
        scene(&out)
    );

    let recording = Recording::open(&path).unwrap();
    let names: Vec<_> = recording
        .names(i64::MIN..i64::MAX)
        .flat_map(|b| b.unwrap())
        .collect();
    for expected in [big, hostile] {
        let found = names
            .iter()
            .filter(|n| n.text == expected)
            .collect::<Vec<_>>();
        assert!(
            matches!(found[..], [n] if matches!(n.of, Named::File { .. })),
            "{expected:?}: {names:?}"
        );
    }

    let recording = path.to_str().unwrap();
    let zoom = run(&[
        "zoom", recording, "--by", "file", "--step", "1s", "--format", "json",
    ]);
    let rows: serde_json::Value = serde_json::from_slice(&zoom.stdout).unwrap();
    let kib = |name: &str| -> f64 {
        rows.as_array()
            .unwrap()
            .iter()
            .filter(|r| r["file"] == name)
            .map(|r| r["w_kib_per_s"].as_f64().unwrap())
            .sum()
    };
    // I/Os that the kernel did not show are counted, but not for any file.
    let unseen: i64 = Recording::open(path.as_ref())
        .unwrap()
        .lost(0..i64::MAX)
        .iter()
        .filter_map(|l| l.bytes)
        .sum();
    let least = 65_536.0 - unseen as f64 / 1024.0;
    assert!(
        kib(big) >= least && kib(hostile) >= least,
        "{least} KiB of {rows}"
    );
    let table = run(&["zoom", recording, "--by", "file", "--step", "1s"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        !table.contains('\x1b') && table.contains("x\\x1b[31m\\x0a<script>alert(1)<"),
        "{table}"
    );

    let out = run(&["report", recording, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let facts = report["facts"].as_array().unwrap();
    let named = |name: &str| {
        facts
            .iter()
            .any(|f| f["summary"].as_str().unwrap().contains(name))
    };
    // The speed of each write determines whether it is a burst large enough for a finding.
    assert!(named(big) || named(hostile), "{}", scene(&out));
    let text = run(&["report", recording, "--full"]);
    let text = String::from_utf8(text.stdout).unwrap();
    // Lines are broken at spaces.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(big) || words.contains("x\\x1b[31m\\x0a<script>"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");

    let html = dir.path().join("r.html");
    let out = run(&["report", recording, "-o", html.to_str().unwrap()]);
    if String::from_utf8_lossy(&out.stderr).contains("built without the HTML page") {
        return eprintln!("SKIP: {}", scene(&out));
    }
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(
        !page.contains("<script>alert(1)<") && page.contains("big file"),
        "the name stays text"
    );
}

#[test]
fn direct_io_is_reported_with_its_file() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(256)) else {
        return;
    };
    let Some(mounted) = Mounted::ext4(&device) else {
        return;
    };
    let database = mounted.path().join("table.ibd");
    File::create(&database).unwrap().set_len(8 << 20).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let file = open_direct(&database);
    let mut storage = vec![3u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    for block in 0..256u64 {
        storage[at] = block as u8;
        file.write_all_at(&storage[at..at + 4096], block * 4096)
            .unwrap();
    }
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let zoom = run(&[
        "zoom",
        path.to_str().unwrap(),
        "--by",
        "file",
        "--step",
        "1h",
        "--format",
        "csv",
    ]);
    let table = String::from_utf8(zoom.stdout).unwrap();
    assert!(table.contains("table.ibd"), "{table}");
}
