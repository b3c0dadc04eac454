//! `iolens live` on recordings, in a terminal provided by tmux.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use iolens_core::model::{Comm, DevId, Device, Io, Op, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

use super::machine::{assert_refused, run};

const S: i64 = 1_000_000_000;

/// A minute of reads each 10 ms; in its middle a second in which a writer delays them.
fn record(path: &Path) {
    let dev = DevId::new(8, 0);
    let mut meta = RecordingMeta::new(Source::Ebpf, 1_795_000_000 * S);
    meta.devices = vec![Device::named("sda", dev)];
    meta.host = Some("db1".to_owned());
    let mut writer = RecordingWriter::create(path, meta, WriterOptions::default()).unwrap();
    let io = |done_ns, op, device_ns, who: &[u8], tgid| Io {
        comm: Some(Comm::new(who)),
        tgid: Some(tgid),
        ..Io::new(done_ns, dev, op, 4096, Some(0), device_ns)
    };
    for n in 1..6000 {
        let at_ns = n * S / 100;
        let is_disturbed = at_ns / S == 30;
        let device_ns = if is_disturbed { 9_000_000 } else { 100_000 };
        let mut ios = vec![io(at_ns, Op::READ, device_ns, b"shop", 77)];
        if is_disturbed {
            ios.push(io(at_ns + 1000, Op::WRITE, 9_500_000, b"backup", 812));
        }
        writer.push_ios(&ios).unwrap();
    }
    writer.finish(60 * S, RecorderCost::default()).unwrap();
}

/// A terminal that ends with the test.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Runs a command in `dir`; `None`, with a message, where there is no tmux.
    fn run(dir: &Path, words: &[&str]) -> Option<Terminal> {
        Terminal::run_in("UTC", dir, words)
    }

    /// The same in this time zone.
    fn run_in(zone: &str, dir: &Path, words: &[&str]) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("SKIP: no tmux");
            return None;
        }
        let terminal = Terminal {
            socket: dir.join("tmux").to_str().unwrap().to_owned(),
        };
        let zone = format!("TZ={zone}");
        let mut line = vec!["env", &zone, env!("CARGO_BIN_EXE_iolens")];
        line.extend(words);
        let out = terminal
            .tmux(&[
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                "120",
                "-y",
                "36",
            ])
            .args(["-c", dir.to_str().unwrap()])
            .args(line)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        Some(terminal)
    }

    fn tmux(&self, words: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", &self.socket]).args(words);
        tmux
    }

    fn press(&self, keys: &[&str]) {
        let out = self.tmux(&["send-keys"]).args(keys).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    }

    fn picture(&self) -> String {
        let out = self.tmux(&["capture-pane", "-p"]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The screen as soon as it contains all of `texts`.
    fn shows(&self, texts: &[&str]) -> String {
        let begin = Instant::now();
        loop {
            let picture = self.picture();
            if texts.iter().all(|text| picture.contains(text)) {
                return picture;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "not {texts:?}:\n{picture}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.tmux(&["kill-server"]).output());
    }
}

#[test]
fn live_walks_through_a_recording_and_saves_what_is_in_view() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    record(&path);
    let Some(terminal) = Terminal::run(dir.path(), &["live", "r.iolens", "--at", "30.5"]) else {
        return;
    };
    // Around that time: the end of the visible range is some seconds later.
    terminal.shows(&[
        "db1",
        "r.iolens",
        "held",
        "shop[77]",
        "backup[812]",
        "11:07:16",
    ]);
    // To the end, where only one program is active.
    terminal.press(&["End"]);
    let picture = terminal.shows(&["11:07:40.0", "100 IOPS"]);
    assert!(picture.contains("2026-11-18"), "{picture}");
    // Back to the start and forward: space resumes time.
    terminal.press(&["Home"]);
    terminal.press(&["Space"]);
    terminal.shows(&["plays"]);
    terminal.press(&["Space"]);
    terminal.shows(&["held"]);
    // A column of ten seconds shows all of it.
    terminal.press(&["End"]);
    terminal.press(&["-", "-", "-", "-", "-", "-"]);
    terminal.shows(&["10 s a column", "backup[812]"]);
    terminal.press(&["s"]);
    let picture = terminal.shows(&["saved live-2026", ".iolens: 6,099 I/Os of "]);
    assert!(picture.contains("11:06:40.0 to 11:07:40.0"), "{picture}");
    let saved: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("live-")
        })
        .collect();
    assert_eq!(saved.len(), 1, "{saved:?}");
    let copy = Recording::open(&saved[0]).unwrap();
    let original = Recording::open(&path).unwrap();
    assert_eq!(all_ios(&copy), all_ios(&original));
    terminal.press(&["q"]);
}

#[test]
fn live_shows_and_reads_times_in_the_zone_that_is_asked_for() {
    // The I/Os are around 11:07 in UTC, 20:07 in Japan.
    let at = "2026-11-18 11:07:10.5";
    for (words, shown) in [
        (vec!["live", "r.iolens"], "20:07:40.0  held"),
        (vec!["live", "r.iolens", "--utc"], "11:07:40.0 UTC  held"),
        (vec!["live", "r.iolens", "--relative"], " 60.0 s  held"),
        (vec!["live", "r.iolens", "--utc", "--at", at], "11:07:16"),
    ] {
        // Each terminal has a socket in a directory of its own.
        let dir = tempfile::tempdir().unwrap();
        record(&dir.path().join("r.iolens"));
        let Some(terminal) = Terminal::run_in("JST-9", dir.path(), &words) else {
            return;
        };
        terminal.shows(&["shop[77]", shown]);
    }
}

#[test]
fn live_says_what_of_a_recording_it_cannot_show() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    record(&path);
    let name = path.to_str().unwrap();
    assert_refused(&run(&["live", name]), &["terminal", "iolens zoom"]);
    let out = run(&["live", name, "--at", "3"]);
    assert_refused(&out, &["terminal", "r.iolens --at 3 prints"]);
    let out = run(&["live", "nope"]);
    assert_refused(&out, &["nope: not a recording"]);
    for options in [&["--plain"][..], &["--json"], &["--step", "10ms"]] {
        let out = run(&[&["live", name, "--at", "3"][..], options].concat());
        assert_refused(&out, &["no rows", "iolens zoom", "r.iolens --at 3 prints"]);
    }
    for words in [
        vec!["live", "--at", "3", "--step", "1s"],
        vec!["live", "--at", "nonsense"],
    ] {
        assert_eq!(run(&words).status.code(), Some(2), "{words:?}");
    }
}

fn all_ios(recording: &Recording) -> Vec<Io> {
    let batches = recording.ios(i64::MIN..i64::MAX, IoColumns::ALL);
    batches.flat_map(|batch| batch.unwrap()).collect()
}
