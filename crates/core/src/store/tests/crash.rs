//! Kills at any instant, full disks, and what remains of the recording.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::support::{
    copy, ios, meta, numbers, read, record_all_tables, ring_full, small_segments,
};
use crate::model::{Io, LossReason, Mark, Observation, RecorderCost};
use crate::private::Access;
use crate::store::{IoColumns, Recording, RecordingWriter, WriterOptions, close_logs};

/// Opens a recording after a crash and checks that it is a prefix of what was pushed. Returns its length.
fn prefix(dir: &Path) -> i64 {
    let r = Recording::open(dir).expect("opens after a crash");
    let (rows, damage) = read(&r);
    let numbers = numbers(&rows);
    assert!(
        numbers.iter().copied().eq(0..numbers.len() as i64),
        "a gap: {numbers:?}"
    );
    assert!(damage.is_empty(), "{damage:?}");
    numbers.len() as i64
}

#[test]
fn a_copy_taken_at_any_time_holds_everything_ticked() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(70)).expect("creates");
    let mut ticked = 0;
    for (i, chunk) in ios(0..600).chunks(9).enumerate() {
        w.push_ios(chunk).expect("pushes");
        if i % 3 == 2 {
            w.tick(i as i64 * 200_000_000).expect("ticks");
            ticked = (i as i64 + 1) * 9;
        }
        let snapshot = tmp.path().join(format!("copy{i}"));
        copy(&dir, &snapshot);
        let n = prefix(&snapshot);
        assert!(n >= ticked, "{n} of {ticked} I/Os after call {i}");
    }
}

#[test]
fn what_is_still_to_come_of_a_log_began_at_a_known_time() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(50)).expect("creates");
    let all = ios(0..140);
    w.push_ios(&all).expect("pushes");
    w.tick(1).expect("ticks");
    assert!(dir.join("io/000001.parquet").exists() && dir.join("wal").exists());
    let r = Recording::open(&dir).expect("opens");
    let mut batches = r.ios(i64::MIN..i64::MAX, IoColumns::ALL);
    let mut seen = 0;
    while let Some(batch) = batches.next() {
        seen += batch.expect("reads").len();
        let first_ns = all[seen..].iter().map(Io::start_ns).min();
        let promised_ns = batches.later_start_ns();
        assert!(promised_ns > i64::MIN, "after {seen}");
        assert!(first_ns.is_none_or(|ns| promised_ns <= ns), "after {seen}");
    }
    assert_eq!(seen, 140);
}

#[test]
fn a_log_with_a_finished_parquet_file_is_ignored() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(50)).expect("creates");
    w.push_ios(&ios(0..40)).expect("pushes");
    w.tick(1).expect("ticks");
    let log = dir.join("wal/io-000001.wal");
    let bytes = fs::read(&log).expect("a log");
    let new = ios(40..60);
    w.push_ios(&new).expect("pushes");
    w.tick(2).expect("ticks");
    assert!(dir.join("io/000001.parquet").exists() && !log.exists());
    // The state after a kill between the rename and the removal.
    fs::write(&log, bytes).expect("writes");
    assert_eq!(prefix(&dir), 60);
    // If the Parquet file is damaged, the log is used again.
    fs::write(dir.join("io/000001.parquet"), b"PAR1").expect("writes");
    assert_eq!(prefix(&dir), 40);
}

/// Everything that a reader returns for a recording.
fn held(dir: &Path) -> String {
    let r = Recording::open(dir).expect("opens");
    assert_eq!(r.warnings(), [""; 0]);
    let all = i64::MIN..i64::MAX;
    let counters: Vec<_> = r.counters(all.clone()).map(|b| b.expect("reads")).collect();
    let (rows, damage) = read(&r);
    let marks = r.marks(all.clone());
    let lost = r.lost(all);
    let counters = counters.concat();
    format!("{rows:?} {damage:?} {counters:?} {marks:?} {lost:?}")
}

#[test]
fn the_logs_that_a_kill_left_become_segments_of_the_same_rows() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record_all_tables(&dir, false);
    let logs = || {
        let names = fs::read_dir(dir.join("wal")).expect("logs").flatten();
        let names = names.filter(|e| e.path().extension().is_some_and(|e| e == "wal"));
        names.count()
    };
    let before = held(&dir);
    let found = logs();
    assert!(found >= 3, "{found} logs");
    // An unfinished write at the end.
    let io_log = fs::read_dir(dir.join("wal"))
        .expect("logs")
        .flatten()
        .map(|e| e.path())
        .find(|p| p.to_string_lossy().contains("/io-"))
        .expect("a log of I/Os");
    let whole = fs::read(&io_log).expect("reads");
    fs::write(&io_log, [&whole[..], b"iofr"].concat()).expect("writes");
    assert_eq!(close_logs(&dir, Access::OWNER).expect("closes"), found);
    assert_eq!((logs(), held(&dir)), (0, before.clone()));
    assert_eq!(close_logs(&dir, Access::OWNER).expect("closes"), 0);
    // The state after a kill between the rename and the removal.
    fs::write(&io_log, &whole).expect("writes");
    assert_eq!(close_logs(&dir, Access::OWNER).expect("closes"), 0);
    assert_eq!((logs(), held(&dir)), (0, before));
}

#[test]
fn a_damaged_log_stays() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), small_segments(500)).expect("creates");
    for chunk in ios(0..60).chunks(20) {
        w.push_ios(chunk).expect("pushes");
        w.tick(1).expect("ticks");
    }
    drop(w);
    let log = dir.join("wal/io-000001.wal");
    let mut bytes = fs::read(&log).expect("reads");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).expect("writes");
    assert_eq!(close_logs(&dir, Access::OWNER).expect("looks"), 0);
    assert_eq!(fs::read(&log).expect("reads"), bytes);
}

#[test]
fn half_written_temporary_files_are_not_looked_at() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    super::support::record(&dir, 50, WriterOptions::default());
    fs::write(dir.join("io/000002.parquet.tmp"), b"PAR1half").expect("writes");
    fs::write(dir.join("meta.json.tmp"), b"{").expect("writes");
    assert_eq!(prefix(&dir), 50);
}

const CHILD: &str = "IOLENS_TEST_WRITER";

/// Not a test by itself: the process that [`a_killed_writer_leaves_everything_it_ticked`] kills.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let options = WriterOptions {
        segment_rows: 3000,
        sync_interval_ns: 20,
        ..WriterOptions::default()
    };
    let mut w = RecordingWriter::create(Path::new(&dir), meta(), options).expect("creates");
    let mut out = std::io::stdout();
    for i in 0..i64::MAX {
        w.push_ios(&ios(i * 250..(i + 1) * 250)).expect("pushes");
        w.tick(i).expect("ticks");
        writeln!(out, "ticked {}", (i + 1) * 250)
            .and_then(|()| out.flush())
            .expect("writes");
    }
}

fn spawn_writer(dir: &PathBuf) -> Child {
    let test = "store::tests::crash::child_that_writes_until_it_is_killed";
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, dir);
    command.stdout(Stdio::piped()).spawn().expect("starts")
}

#[test]
fn a_killed_writer_leaves_everything_it_ticked() {
    let tmp = tempfile::tempdir().expect("a directory");
    for round in 0..12 {
        let dir = tmp.path().join(format!("r{round}.iolens"));
        let mut child = spawn_writer(&dir);
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let reader = std::thread::spawn(move || {
            let ticked = |l: String| {
                l.rsplit_once("ticked ")
                    .and_then(|(_, n)| n.parse::<i64>().ok())
            };
            lines
                .map_while(Result::ok)
                .filter_map(ticked)
                .last()
                .unwrap_or(0)
        });
        // Irregular delays, so that no two rounds hit the same point of the writer's cycle.
        std::thread::sleep(Duration::from_micros(60_000 + round * 13_337));
        child.kill().expect("kills");
        child.wait().expect("is dead");
        let ticked = reader.join().expect("reads");
        if dir.join("meta.json").exists() {
            let n = prefix(&dir);
            assert!(n >= ticked, "round {round}: {n} of {ticked} I/Os are left");
        }
    }
}

/// A tmpfs of `size` at `dir`, gone when dropped; `None` where mounting is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(dir: &Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir_all(dir).expect("creates");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={size}"))
            .arg("tmpfs")
            .arg(dir)
            .stderr(Stdio::null());
        match mount.status() {
            Ok(status) if status.success() => Some(SmallDisk(dir.to_owned())),
            _ => {
                eprintln!("SKIP: mounting a small tmpfs is not allowed here");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_counted_and_recording_resumes_with_space() {
    let tmp = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&tmp.path().join("disk"), "1m") else {
        return;
    };
    let dir = disk.0.join("r.iolens");
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 600 << 10]).expect("fits");
    let options = WriterOptions {
        segment_rows: 2000,
        ..WriterOptions::default()
    };
    let mut w = RecordingWriter::create(&dir, meta(), options).expect("creates");
    let mut pushed = 0;
    let mut now = 0;
    let mut was_full = false;
    let mut after = 0;
    while after < 20 {
        let rows = ios(pushed..pushed + 500);
        w.push_ios(&rows).expect("a full disk is no error");
        w.push(&Observation::Lost(ring_full(pushed * 10_000, 1)))
            .expect("nor here");
        pushed += 500;
        now += 200_000_000;
        w.tick(now).expect("nor here");
        if w.status().full && !was_full {
            was_full = true;
        } else if was_full && ballast.exists() && w.status().ios_lost > 5000 {
            fs::remove_file(&ballast).expect("removes");
        }
        after += i32::from(!ballast.exists());
        assert!(pushed < 1_000_000, "the disk never became full");
    }
    assert!(!w.status().full, "there is room again");
    let summary = w
        .finish(pushed * 10_000, RecorderCost::default())
        .expect("finishes");
    let (rows, lost) = read(&Recording::open(&dir).expect("opens"));
    let numbers = numbers(&rows);
    let sum = |reason| {
        lost.iter()
            .filter(|l| l.reason == reason)
            .map(|l| l.ios.expect("counted"))
            .sum::<i64>()
    };
    assert_eq!(
        numbers.len() as i64 + sum(LossReason::DiskFull),
        pushed,
        "every I/O is there or counted"
    );
    assert_eq!(
        sum(LossReason::RingFull),
        pushed / 500,
        "losses are not lost"
    );
    assert_eq!(
        summary.ios_lost as i64,
        sum(LossReason::DiskFull) + sum(LossReason::RingFull)
    );
    let gone = |n: &i64| numbers.binary_search(n).is_err();
    for n in (0..pushed).filter(gone) {
        let at = n * 10_000;
        assert!(
            lost.iter()
                .any(|l| l.reason == LossReason::DiskFull && l.from_ns <= at && at <= l.to_ns),
            "{n}"
        );
    }
}

#[test]
fn a_disk_that_is_full_at_the_end_leaves_a_readable_recording() {
    let tmp = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&tmp.path().join("disk"), "512k") else {
        return;
    };
    let dir = disk.0.join("r.iolens");
    let mut w = RecordingWriter::create(&dir, meta(), WriterOptions::default()).expect("creates");
    let mut pushed = 0;
    while w.status().ios_lost < 1000 {
        w.push_ios(&ios(pushed..pushed + 500))
            .expect("a full disk is no error");
        pushed += 500;
        w.tick(pushed * 10_000).expect("nor here");
    }
    w.finish(pushed * 10_000, RecorderCost::default())
        .expect("finishes");
    let r = Recording::open(&dir).expect("opens");
    let (rows, lost) = read(&r);
    let counted: i64 = lost.iter().map(|l| l.ios.expect("counted")).sum();
    assert_eq!(rows.len() as i64 + counted, pushed);
    assert_eq!(r.meta().end_ns, Some(pushed * 10_000));
}

#[test]
fn a_full_disk_at_the_start_leaves_no_files() {
    let tmp = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&tmp.path().join("disk"), "48k") else {
        return;
    };
    let dir = disk.0.join("r.iolens");
    let e = RecordingWriter::create(&dir, meta(), WriterOptions::default()).expect_err("no room");
    assert!(e.is_no_space(), "{e}");
    assert!(!dir.exists());
}

#[test]
fn requests_open_at_a_crash_are_counted_and_those_of_a_whole_recording_are_not() {
    let tmp = tempfile::tempdir().expect("a directory");
    for (name, finished, expected) in [
        (
            "killed",
            false,
            vec![(LossReason::RequestUnwritten, Some(7))],
        ),
        ("whole", true, vec![]),
    ] {
        let dir = tmp.path().join(name);
        let mut w =
            RecordingWriter::create(&dir, meta(), WriterOptions::default()).expect("creates");
        for (at_ns, n) in [(1_000, 3), (2_000, 7)] {
            let open = Mark {
                at_ns,
                kind: Mark::OPEN_REQUESTS.to_owned(),
                text: n.to_string(),
            };
            w.push(&Observation::Mark(open)).expect("pushes");
        }
        w.push(&Observation::Mark(Mark {
            at_ns: 2_500,
            kind: "phase".to_owned(),
            text: "x".to_owned(),
        }))
        .expect("pushes");
        w.tick(3_000).expect("ticks");
        if finished {
            w.finish(4_000, RecorderCost::default()).expect("finishes");
        } else {
            drop(w);
        }
        let r = Recording::open(&dir).expect("opens");
        let lost: Vec<_> = r
            .lost(0..i64::MAX)
            .iter()
            .map(|l| (l.reason, l.ios))
            .collect();
        assert_eq!(lost, expected, "{name}");
        assert_eq!(r.marks(0..i64::MAX).len(), 1, "bookkeeping is no remark");
    }
}
