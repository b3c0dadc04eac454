//! Untrusted text never reaches a terminal unescaped: from recordings, logs and samples.

use std::fs;
use std::path::Path;

use iolens_core::model::{
    Comm, DevId, Device, Inode, Io, Mark, Name, Named, Observation, Op, Origin, RecorderCost,
    RecordingMeta, Request, Source, SyncKind,
};
use iolens_core::store::{RecordingWriter, WriterOptions};

use super::machine::{iolens, run, scene};

/// Sets a title, clears the screen by a C1 control, reverses the direction of text, and ends the line.
const EVIL: &str = "x\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\u{2066}\u{200f}\r\u{7f}y";

/// Characters that could mislead a terminal or a reader.
fn treacherous(text: &str) -> Vec<char> {
    let bidi = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .filter(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || bidi(*c))
        .collect()
}

/// Runs it and checks all of its output; returns its standard output.
fn harmless(words: &[&str]) -> String {
    let out = run(words);
    for stream in [&out.stdout, &out.stderr] {
        let text = std::str::from_utf8(stream)
            .unwrap_or_else(|e| panic!("{words:?}: {e}\n{}", scene(&out)));
        assert_eq!(
            treacherous(text),
            [' '; 0],
            "{words:?}\n{}",
            text.escape_debug()
        );
    }
    assert!(
        !out.stdout.is_empty() || out.status.code() == Some(2),
        "{words:?}\n{}",
        scene(&out)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// A recording in which every text is [`EVIL`].
fn recording(path: &Path, source: Source) {
    let device = |name: &str, minor| Device {
        stable_id: Some(EVIL.to_owned()),
        model: Some(EVIL.to_owned()),
        scheduler: Some(EVIL.to_owned()),
        ..Device::named(format!("{EVIL}{name}"), DevId::new(8, minor))
    };
    let above = Device {
        slaves: vec![format!("{EVIL}a")],
        ..device("b", 1)
    };
    let meta = RecordingMeta {
        host: Some(EVIL.to_owned()),
        kernel: Some(EVIL.to_owned()),
        options: vec![EVIL.to_owned()],
        limits: vec![EVIL.to_owned()],
        writer: Some(EVIL.to_owned()),
        devices: vec![device("a", 0), above],
        ..RecordingMeta::new(source, 0)
    };
    let mut w = RecordingWriter::create(path, meta, WriterOptions::default()).unwrap();
    let comm = Some(Comm::new(EVIL.as_bytes()));
    let name = |of| {
        Observation::Name(Name {
            at_ns: 0,
            of,
            text: format!("/{EVIL}"),
        })
    };
    w.push(&name(Named::File(Inode {
        fs_dev: 3,
        ino: 12,
        generation: None,
    })))
    .unwrap();
    w.push(&name(Named::Cgroup(5))).unwrap();
    w.push(&Observation::Mark(Mark {
        at_ns: 1,
        kind: EVIL.to_owned(),
        text: EVIL.to_owned(),
    }))
    .unwrap();
    for i in 1..2000i64 {
        let done = i * 1_000_000;
        // A burst of large writes every 400 ms, and one error: findings that name processes and files.
        let (op, bytes) = if i % 400 < 20 {
            (Op::WRITE, 1 << 20)
        } else {
            (Op::READ, 4096)
        };
        let io = Io::new(
            done,
            DevId::new(8, (i % 2) as u32),
            op,
            bytes,
            Some(1000),
            900_000,
        );
        let io = Io {
            comm,
            tgid: Some(7),
            cgroup: Some(5),
            fs_dev: Some(3),
            ino: Some(12),
            origin: Origin::Writeback,
            ..io
        };
        w.push(&Observation::Io(Io {
            error: Some(if i == 77 { 5 } else { 0 }),
            sector: Some(i * 8),
            ..io
        }))
        .unwrap();
        if i % 50 == 0 {
            let path = Some(format!("/{EVIL}").into());
            let r = Request {
                comm,
                tgid: Some(7),
                cgroup: Some(5),
                path,
                ..Request::new(done - 900_000, done)
            };
            let sync = (i % 100 == 0).then_some(SyncKind::Fsync);
            let r = Request {
                sync,
                ios_in: 1,
                bytes_in: 4096,
                active_ns: 800_000,
                open_ns: Some(1000),
                ..r
            };
            w.push(&Observation::Request(Box::new(r))).unwrap();
        }
    }
    w.finish(2_000_000_000, RecorderCost::default()).unwrap();
}

#[test]
fn recorded_text_is_escaped() {
    let dir = tempfile::tempdir().unwrap();
    for (name, source) in [
        ("e.iolens", Source::Ebpf),
        ("i.iolens", Source::Import(EVIL.to_owned())),
    ] {
        let path = dir.path().join(name);
        recording(&path, source);
        let r = path.to_str().unwrap();
        for extent in [&["report", r][..], &["report", r, "--full"]] {
            assert!(harmless(extent).contains("x\\x1b]0;t\\x07\\x9b2J\\u{202e}"));
        }
        let document = harmless(&["report", r, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(
            document["recording"]["host"], EVIL,
            "JSON says the text itself"
        );
        for by in ["all", "device", "process", "cgroup", "file"] {
            for format in ["table", "csv", "json"] {
                harmless(&["zoom", r, "--by", by, "--format", format]);
            }
            if by != "device" && by != "all" {
                harmless(&["files", r, "--by", if by == "file" { "path" } else { by }]);
            }
        }
        harmless(&["files", r, "--json"]);
        let page = dir.path().join("page.html");
        harmless(&["report", r, "-o", page.to_str().unwrap()]);
        harmless(&["report", &format!("{r}{EVIL}")]);
    }
}

#[test]
fn names_in_samples_and_logs_are_shown_escaped() {
    let dir = tempfile::tempdir().unwrap();
    for sample in ["1", "2"] {
        let proc = dir.path().join("samples").join(sample).join("proc");
        fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        let name = EVIL.replace('\r', "");
        fs::write(
            proc.join("diskstats"),
            format!("8 0 {name} {sample} 2 3 4 5 6 7 8 9 10 11\n"),
        )
        .unwrap();
        fs::write(proc.join("uptime"), format!("{sample}0.00 5.00\n")).unwrap();
        fs::write(
            proc.join("stat"),
            format!("cpu {sample} 2 3 4 5 6 7 8 9 10\ncpu0 {sample} 2 3 4 5 6 7 8 9 10\n"),
        )
        .unwrap();
        fs::write(proc.join("sys/kernel/hostname"), EVIL).unwrap();
        fs::write(proc.join("sys/kernel/osrelease"), EVIL).unwrap();
    }
    let samples = dir.path().join("samples");
    let samples = samples.to_str().unwrap();
    for more in [
        &[][..],
        &["-x"],
        &["-s"],
        &["-o", "JSON"],
        &["-o", "CSV"],
        &["-o", "NDJSON"],
    ] {
        harmless(&[&["iostat", "--replay", samples][..], more].concat());
    }
    for format in ["table", "csv"] {
        harmless(&[
            "live", "--plain", "--replay", samples, "--by", "device", "--format", format,
        ]);
    }
    let log = dir.path().join("evil.log");
    let name = EVIL.replace('\r', "");
    let rows: String = (1..9)
        .map(|i| format!("{i}.0 {name} 7 {name} R {} 4096 1.5\n", i * 8))
        .collect();
    fs::write(
        &log,
        format!("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n{rows}{name}\n"),
    )
    .unwrap();
    let out = dir.path().join("out.iolens");
    harmless(&["import", log.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    let odd = dir.path().join(format!("odd{EVIL}"));
    fs::write(&odd, "neither a log nor anything else\n").unwrap();
    harmless(&[
        "import",
        odd.to_str().unwrap(),
        "-o",
        dir.path().join("none").to_str().unwrap(),
    ]);
    // Commands in hints can be pasted.
    let odd = dir.path().join(format!("rec{EVIL}"));
    let copied = iolens(&["import", log.to_str().unwrap(), "-o", odd.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&copied.stdout).into_owned();
    assert!(
        copied.status.success() && treacherous(&text).is_empty(),
        "{}",
        scene(&copied)
    );
}
