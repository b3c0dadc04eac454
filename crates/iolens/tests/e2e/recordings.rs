//! `iolens info`, `ls`, `verify`, `cut` and `merge` on recordings of a real device.

use super::machine::{LoopDevice, Recorder, assert_refused, ebpf, run, scene};

#[test]
fn info_and_ls_agree_with_what_was_recorded() {
    let Some(()) = ebpf() else { return };
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let recording = tmp.path().join("below/r.iolens");
    std::fs::create_dir(tmp.path().join("below")).unwrap();
    let recorder = Recorder::start(&recording, &["-q", "--device", device.name()]);
    let file = device.open_direct();
    let mut storage = vec![0u8; 8192];
    let at = storage.as_ptr().align_offset(4096);
    for block in 0..500 {
        let block_bytes = &mut storage[at..at + 4096];
        std::os::unix::fs::FileExt::read_exact_at(&file, block_bytes, block * 4096).unwrap();
    }
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));
    let path = recording.to_str().unwrap();

    let out = run(&["info", path, "--json"]);
    assert!(out.status.success(), "{}", scene(&out));
    let of_info: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let first = &of_info["recordings"][0];
    assert!(first["ios"].as_u64().unwrap() >= 500, "{first:#}");
    assert_eq!(first["open"], false, "{first:#}");
    assert_eq!(first["source"], "ebpf", "{first:#}");
    assert_eq!(first["tables"][0]["name"], "io", "{first:#}");
    assert_eq!(first["tables"][0]["row_count"], first["ios"], "{first:#}");

    let out = run(&["ls", tmp.path().to_str().unwrap(), "--json"]);
    assert!(out.status.success(), "{}", scene(&out));
    let of_ls: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(of_ls, of_info, "the same document");

    let part = tmp.path().join("part");
    let rest = tmp.path().join("rest");
    let part = part.to_str().unwrap();
    let rest = rest.to_str().unwrap();
    let middle = format!("{}", first["duration_s"].as_f64().unwrap() / 2.0);
    for args in [
        ["cut", path, "--to", &middle, "-o", part],
        ["cut", path, "--from", &middle, "-o", rest],
    ] {
        let out = run(&args);
        assert!(out.status.success(), "{}", scene(&out));
        assert_refused(&run(&args), &["exists already"]);
    }
    let both = tmp.path().join("both");
    let both = both.to_str().unwrap();
    let out = run(&["merge", rest, part, "-o", both]);
    assert!(out.status.success(), "{}", scene(&out));
    let out = run(&["info", path, both, "--json"]);
    let infos: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let [whole, merged] = [0, 1].map(|i| &infos["recordings"][i]);
    for fact in ["ios", "lost_ios", "from", "to", "devices"] {
        assert_eq!(whole[fact], merged[fact], "{fact}");
    }
    let out = run(&["merge", path, part, "-o", "/nonexistent/x"]);
    assert_refused(&out, &["would count twice"]);
    std::fs::remove_dir_all(part).unwrap();
    std::fs::remove_dir_all(rest).unwrap();
    std::fs::remove_dir_all(both).unwrap();

    let out = run(&["verify", path]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && text.contains(": whole: "), "{text}");
    let segment = recording.join("io/000001.parquet");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let out = run(&["verify", path]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1), "{}", scene(&out));
    assert!(
        text.lines().count() == 1 && text.contains("io/000001.parquet: damaged: "),
        "{text}"
    );
    assert_refused(&run(&["verify", "/"]), &["not a recording", "meta.json"]);

    let out = run(&["ls", tmp.path().to_str().unwrap()]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("below/r.iolens"), "{text}");
    let out = run(&["info", tmp.path().to_str().unwrap()]);
    assert_refused(&out, &["not a recording", "meta.json"]);
}
