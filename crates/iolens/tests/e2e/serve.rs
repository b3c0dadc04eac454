//! The always-on recorder: a root, one recording after the other, kills and restarts.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolens_core::model::{Actor, ActorKind, ActorSums, Io, Rollup};
use iolens_core::store::{IoColumns, Recording, Root, read_actors, read_rollups};
use rustix::process::{Pid, Signal, kill_process};

use super::machine::{
    LoopDevice, StopOnDrop, TIMEOUT, assert_refused, ebpf, hidden, iolens, read_in_sequence, run,
    scene, wait_until,
};

const BLOCKS: u64 = 4096;

/// Reads the device block by block while `during` runs; returns the number of reads.
pub fn while_reading(device: &LoopDevice, during: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let reader = s.spawn(|| read_in_sequence(device, BLOCKS, &stop));
        let _stop = StopOnDrop(&stop);
        during();
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    })
}

/// Arguments of `iolens` to record a device into `root`.
pub fn serve_arguments<'a>(root: &'a Path, device: &'a LoopDevice) -> [&'a str; 9] {
    [
        "serve",
        "--rec",
        text(root),
        "--keep",
        "64M",
        "-d",
        device.name(),
        "--source",
        "ebpf",
    ]
}

/// `iolens serve`, killed when dropped.
pub struct Serve(Child);

impl Serve {
    /// Starts it and waits for its `nth` recording; it listens on `ROOT.sock`.
    pub fn start(root: &Path, device: &LoopDevice, nth: usize) -> Serve {
        Serve::wait(
            Serve::spawn(root, device, &format!("unix:{}.sock", text(root)), &[]),
            root,
            nth,
        )
    }

    /// The same, listening elsewhere.
    pub fn listening(root: &Path, device: &LoopDevice, listen: &str) -> Serve {
        Serve::wait(Serve::spawn(root, device, listen, &[]), root, 1)
    }

    /// The same with more arguments.
    pub fn start_with(root: &Path, device: &LoopDevice, more: &[&str]) -> Serve {
        Serve::wait(
            Serve::spawn(root, device, &format!("unix:{}.sock", text(root)), more),
            root,
            1,
        )
    }

    fn wait(mut child: Child, root: &Path, nth: usize) -> Serve {
        let begin = Instant::now();
        while recordings(root).len() < nth {
            assert!(
                child.try_wait().unwrap().is_none(),
                "{}",
                scene(&child.wait_with_output().unwrap())
            );
            assert!(begin.elapsed() < TIMEOUT, "no recording after {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Serve(child)
    }

    fn spawn(root: &Path, device: &LoopDevice, listen: &str, more: &[&str]) -> Child {
        let of = serve_arguments(root, device);
        let arguments = [&of, &["--listen", listen][..], more].concat();
        iolens(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The same on a free port of loopback, and the address.
    pub fn start_on_tcp(root: &Path, device: &LoopDevice) -> (Serve, String) {
        let mut child = Serve::spawn(root, device, "127.0.0.1:0", &[]);
        let mut said = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let address = said.find_map(|line| {
            line.split_once("http://")
                .map(|(_, at)| at.trim().to_owned())
        });
        // The reader of the rest may be gone.
        std::thread::spawn(move || said.for_each(drop));
        (Serve(child), address.expect("it says where it listens"))
    }

    /// A service that was started in another way.
    pub fn of(child: Child) -> Serve {
        Serve(child)
    }

    /// Ends it with SIGTERM; returns its standard error.
    pub fn terminate_and_read(mut self) -> String {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let mut printed = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        stderr.read_to_string(&mut printed).unwrap();
        assert!(self.0.wait().unwrap().success(), "{printed}");
        printed
    }

    /// Ends it with SIGTERM.
    pub fn terminate(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Recordings of the root that have a description, by time.
pub fn recordings(root: &Path) -> Vec<PathBuf> {
    let found = Root::open(root).unwrap_or(None);
    let paths = found
        .iter()
        .flat_map(|r| r.recordings())
        .map(|r| r.path.clone());
    paths.filter(|p| p.join("meta.json").exists()).collect()
}

pub fn ios(path: &Path) -> Vec<Io> {
    let recording = Recording::open(path).unwrap();
    recording
        .ios(i64::MIN..i64::MAX, IoColumns::ALL)
        .flat_map(|batch| batch.unwrap())
        .collect()
}

/// Losses that only the kernel knows of.
pub fn lost(path: &Path) -> i64 {
    hidden(&Recording::open(path).unwrap().lost(i64::MIN..i64::MAX))
}

fn rollups(path: &Path, step_s: i32) -> Vec<Rollup> {
    let mut rows = Vec::new();
    assert!(
        read_rollups(path, step_s, 0..i64::MAX, |r| rows.push(r))
            .unwrap()
            .is_empty()
    );
    rows
}

fn actors(path: &Path, step_s: i32) -> Vec<ActorSums> {
    let mut rows = Vec::new();
    assert!(
        read_actors(path, step_s, 0..i64::MAX, |r| rows.push(r))
            .unwrap()
            .is_empty()
    );
    rows
}

/// I/Os by the rows of all classes together.
fn rolled_up(path: &Path, step_s: i32) -> usize {
    rollups(path, step_s)
        .iter()
        .filter(|r| r.class.is_none())
        .map(|r| r.ios as usize)
        .sum()
}

#[test]
fn a_root_holds_what_happened_and_refuses_a_second_recorder() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let serve = Serve::start(&root, &device, 1);
    let n = while_reading(&device, || {
        let first = recordings(&root)[0].clone();
        wait_until("more than 0.2 s of I/O are recorded", || {
            ios(&first).iter().map(Io::total_ns).sum::<i64>() > 200_000_000
        });
        let second = run(&["serve", "--rec", text(&root), "--keep", "64M"]);
        assert_refused(
            &second,
            &["another iolens serve", &format!("process {}", serve.0.id())],
        );
    });
    serve.terminate();
    assert!(
        !dir.path().join("root.sock").exists(),
        "its socket goes with it, though it is not below the root"
    );
    let [path] = &recordings(&root)[..] else {
        panic!("{:?}", recordings(&root))
    };
    let stored = ios(path).len();
    assert!(
        (stored as i64 + lost(path) - n as i64).abs() <= 2,
        "{stored} of {n} (udev may read too)"
    );
    assert_eq!((rolled_up(path, 1), rolled_up(path, 60)), (stored, stored));
    for step_s in [10, 600] {
        let rows = actors(path, step_s);
        for kind in ActorKind::ALL {
            let ios: i64 = rows
                .iter()
                .filter(|r| r.actor.kind() == kind)
                .map(|r| r.sums.ios)
                .sum();
            assert_eq!(ios, stored as i64, "{kind:?} per {step_s} s");
        }
        let own = Actor::Process(Some(std::process::id() as i32));
        assert!(
            rows.iter().any(|r| r.actor == own && r.name.is_some()),
            "this process read: {rows:?}"
        );
    }
    let busy: i64 = rollups(path, 1)
        .iter()
        .filter_map(|r| r.flight)
        .map(|f| f.busy_ns)
        .sum();
    assert!(
        busy > 100_000_000,
        "{busy} ns busy of more than 0.2 s of I/O, one at a time"
    );
    assert!(path.join("devices/000001.parquet").is_file() && !path.join("wal").exists());
    for arguments in [
        &["zoom", text(&root), "--from", "-5m"][..],
        &["report", text(&root), "--at", "now"],
    ] {
        let out = run(arguments);
        assert!(
            out.status.success() && !out.stdout.is_empty(),
            "{}",
            scene(&out)
        );
    }
    let out = run(&["report", text(&root), "--at", "2001-10-10T00:00:00Z"]);
    assert_refused(&out, &["no recording holds", "the nearest one is --from 2"]);
}

#[test]
fn a_killed_recorder_goes_on_by_the_same_command_and_what_it_had_not_summed_is_summed() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    while_reading(&device, || {
        for nth in 1..=3 {
            let serve = Serve::start(&root, &device, nth);
            let newest = recordings(&root)[nth - 1].clone();
            wait_until("some I/Os are stored", || ios(&newest).len() > 100);
            drop(serve);
        }
        let serve = Serve::start(&root, &device, 4);
        let killed = recordings(&root)[..3].to_vec();
        let is_summed = |path: &PathBuf| path.join("rollup").exists() && rolled_up(path, 1) > 0;
        wait_until("the killed ones have rollups", || {
            killed.iter().all(is_summed)
        });
        serve.terminate();
        for path in &killed {
            let stored = ios(path).len();
            assert!(stored > 100, "{stored} I/Os in {}", path.display());
            assert_eq!(
                (rolled_up(path, 1), rolled_up(path, 60)),
                (stored, stored),
                "{}",
                path.display()
            );
        }
    });
    assert_eq!(recordings(&root).len(), 4);
}

#[test]
fn a_full_recording_is_followed_by_another_without_a_gap_and_the_budget_holds() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let serve = Serve::start(&root, &device, 1);
    let n = while_reading(&device, || {
        let begin = Instant::now();
        while recordings(&root).len() < 2 && begin.elapsed() < Duration::from_secs(180) {
            assert!(du(&root) <= 64 << 20, "{} bytes", du(&root));
            std::thread::sleep(Duration::from_millis(100));
        }
        if let [first, _, ..] = &recordings(&root)[..] {
            wait_until("the first recording has its end", || {
                Recording::open(first).is_ok_and(|r| r.meta().end_ns.is_some())
            });
        }
    });
    serve.terminate();
    let paths = recordings(&root);
    if paths.len() < 2 && n < 1_500_000 {
        eprintln!("SKIP: {n} I/Os in three minutes do not fill a recording");
        return;
    }
    assert!(
        paths.len() >= 2,
        "{n} I/Os of at least 6 bytes did not fill an eighth of 64M: {paths:?}"
    );
    let mut all = Vec::new();
    let mut starts = Vec::new();
    for path in &paths {
        let recording = Recording::open(path).unwrap();
        let start = recording.meta().start_monotonic_ns.unwrap();
        starts.push((start, start + recording.end_ns()));
        assert!(
            recording.warnings().is_empty(),
            "{:?}",
            recording.warnings()
        );
        let own = ios(path);
        assert_eq!(rolled_up(path, 1), own.len(), "{}", path.display());
        all.extend(
            own.into_iter()
                .map(|io| (io.done_ns + start, io.sector.unwrap() as u64 / 8)),
        );
    }
    assert!(
        starts.windows(2).all(|w| w[0].1 == w[1].0),
        "one begins where the one before ends: {starts:?}"
    );
    assert!(all.is_sorted_by_key(|(done_ns, _)| *done_ns));
    let holes: u64 = all
        .windows(2)
        .map(|w| (w[1].1 + BLOCKS - w[0].1 - 1) % BLOCKS)
        .sum();
    let lost: i64 = paths.iter().map(|p| lost(p)).sum();
    assert!(
        holes as i64 <= lost + 2,
        "{holes} I/Os are missing or doubled, {lost} counted as lost"
    );
}

fn du(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    meta.blocks() * 512 + entries.map(|e| du(&e.path())).sum::<u64>()
}

#[test]
fn bad_settings_are_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("iolens.toml");
    std::fs::write(&config, "rec = \"/x\"\nkeeep = \"1G\"\n").unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        assert_refused(&run(&[&["serve"], arguments].concat()), words)
    };
    refused(
        &["--config", text(&config)],
        &["iolens.toml", "keeep", "the nearest is keep"],
    );
    refused(
        &["--config", text(&dir.path().join("none"))],
        &["none", "cannot be read"],
    );
    refused(&["--keep", "5M"], &["at least 64M"]);
    refused(
        &["--freeze-on", "stall,stal"],
        &["stal: no such kind", "slow-io"],
    );
    refused(&["--freeze-keep", "1M"], &["at least 16M"]);
    std::fs::write(dir.path().join("letter"), "x").unwrap();
    refused(
        &["--rec", text(dir.path())],
        &["something else than recordings"],
    );
    refused(
        &["--rec", text(&dir.path().join("new")), "-d", "nosuchdisk"],
        &["no such device"],
    );
    assert!(!dir.path().join("new").exists());
}
