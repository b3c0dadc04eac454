//! Compares a run under `strace`: the requests are equal, and each of our times lies within `strace`'s time of the
//! call.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use iolens_core::model::{Request, RequestFlags};

use super::{
    impatient,
    lab::{children, compiled, machine_has, record, turn},
    strace_log::{Call, calls},
};

/// Data I/Os, bytes, of reads and of writes; end-of-file probes; failures.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Sums {
    ios_in: i64,
    bytes_in: i64,
    ios_out: i64,
    bytes_out: i64,
    empty: i64,
    failed: i64,
}

impl Sums {
    fn of(r: &Request) -> Sums {
        let ios_in = r.ios_in;
        let bytes_in = r.bytes_in;
        let ios_out = r.ios_out;
        let bytes_out = r.bytes_out;
        Sums {
            ios_in,
            bytes_in,
            ios_out,
            bytes_out,
            empty: r.empty_reads,
            failed: r.failed,
        }
    }

    fn add(&mut self, bytes: i64, writes: bool) {
        match (bytes, writes) {
            (..0, _) => self.failed += 1,
            (0, _) => self.empty += i64::from(!writes),
            (n, false) => (self.ios_in, self.bytes_in) = (self.ios_in + 1, self.bytes_in + n),
            (n, true) => (self.ios_out, self.bytes_out) = (self.ios_out + 1, self.bytes_out + n),
        }
    }
}

/// The calls after one open, according to `strace`.
#[derive(Debug, Default)]
struct Theirs {
    fd: i64,
    open: Option<Call>,
    sums: Sums,
    ios: Vec<Call>,
}

const READS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];
const WRITES: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];

/// Requests by path, in the order of opens. In these programs a path is closed before it is opened again.
fn requests_of(calls: &[Call]) -> BTreeMap<String, Vec<Theirs>> {
    let mut all: BTreeMap<String, Vec<Theirs>> = BTreeMap::new();
    for call in calls {
        if call.name.starts_with("open") {
            // A call that failed, or was interrupted and restarted, has opened nothing.
            if let Some(path) = &call.opened {
                let theirs = Theirs {
                    fd: call.result,
                    open: Some(call.clone()),
                    ..Theirs::default()
                };
                all.entry(bare(path)).or_default().push(theirs);
            }
            continue;
        }
        let sides: Vec<(usize, bool)> = match call.name.as_str() {
            name if READS.contains(&name) => vec![(0, false)],
            name if WRITES.contains(&name) => vec![(0, true)],
            "copy_file_range" => vec![(0, false), (1, true)],
            "sendfile" => vec![(0, true), (1, false)],
            "splice" => vec![(0, true)], // in our stories from a pipe to a file, and only that is below `data`
            _ => vec![],
        };
        for (at, writes) in sides {
            let path = call.files.get(at).map(|p| bare(p));
            let Some(theirs) = path
                .and_then(|p| all.get_mut(&p))
                .and_then(|t| t.last_mut())
            else {
                continue;
            };
            theirs.sums.add(call.result, writes);
            if call.result > 0 {
                theirs.ios.push(call.clone());
            }
        }
    }
    all
}

fn bare(path: &str) -> String {
    path.trim_end_matches("(deleted)").trim_end().to_owned()
}

/// Offset of our times from `strace`'s stamps and durations, in microseconds.
#[derive(Default)]
struct Times {
    later_us: Vec<f64>,
    longer_us: Vec<f64>,
}

impl Times {
    /// strace stops a thread before our entry probe and after our exit probe, so our times must lie between its stamp
    /// of the call and the next one. Two microseconds are allowed for what its stamps omit and for the drift between
    /// both clocks.
    fn inside(&mut self, call: &Call, from_us: f64, to_us: f64, what: &str) {
        assert!(
            call.start_us - 2.0 <= from_us && from_us <= to_us && to_us <= call.over_us + 2.0,
            "{what}: {from_us:.1}..{to_us:.1} beside {call:?}"
        );
        self.later_us.push(from_us - call.start_us);
        self.longer_us.push(call.duration_us - (to_us - from_us));
    }
}

/// Wall clock in nanoseconds at `CLOCK_MONOTONIC` 0. Uses the fastest of ten readings, because a preemption between
/// reading the two clocks moves them apart.
fn wall_at_monotonic_zero() -> i64 {
    let now = |clock| {
        let t = rustix::time::clock_gettime(clock);
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    };
    let reading = || {
        let a = now(rustix::time::ClockId::Monotonic);
        let wall = now(rustix::time::ClockId::Realtime);
        let b = now(rustix::time::ClockId::Monotonic);
        (b - a, wall - (a + b) / 2)
    };
    (0..10).map(|_| reading()).min().unwrap().1
}

/// Runs `command` under strace while it is recorded, and compares the results for files below `data`. Returns the
/// recorded requests and strace's calls.
fn compare(
    command: &[&Path],
    arguments: &[&str],
    data: &Path,
) -> (Vec<(String, Request)>, Vec<Call>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-ttt", "-T", "-s", "0", "-o"])
        .arg(log.path())
        .args(command)
        .args(arguments);
    let zero = wall_at_monotonic_zero();
    let (ours, lost) = record(&children(), &mut strace, data);
    assert!(lost.is_empty(), "{lost:?}");
    let calls = calls(
        &fs::read_to_string(log.path()).unwrap(),
        &data.canonicalize().unwrap(),
    );
    let theirs = requests_of(&calls);
    let mut mine: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for (path, r) in ours.iter().filter(|(_, r)| r.sync.is_none()) {
        mine.entry(path).or_default().push(r);
    }
    let mut times = Times::default();
    let mut compared = 0;
    for (path, theirs) in &theirs {
        let of_path = mine
            .get_mut(path.as_str())
            .unwrap_or_else(|| panic!("{path} is missing in {ours:#?}"));
        of_path.sort_by_key(|r| r.start_ns);
        // A descriptor received over a socket: its open was not recorded, and strace knows it by the same path.
        let (received, opened): (Vec<&Request>, Vec<&Request>) = of_path
            .iter()
            .partition(|r| r.flags.has(RequestFlags::UNKNOWN_START));
        assert_eq!(
            opened.len(),
            theirs.len(),
            "{path}: {opened:#?} beside {theirs:#?}"
        );
        for (r, t) in opened.iter().zip(theirs) {
            let mut sums = Sums::of(r);
            for more in &received {
                let s = Sums::of(more);
                sums = Sums {
                    ios_in: sums.ios_in + s.ios_in,
                    bytes_in: sums.bytes_in + s.bytes_in,
                    ..sums
                };
            }
            assert_eq!(
                (i64::from(r.fd.unwrap()), sums),
                (t.fd, t.sums),
                "{path}: {r:#?} beside {t:#?}"
            );
            compared += 1;
            let wall = |ns: i64| (ns + zero) as f64 / 1e3;
            let open = t.open.as_ref().unwrap();
            times.inside(
                open,
                wall(r.start_ns),
                wall(r.start_ns + r.open_ns.unwrap()),
                path,
            );
            // Where calls overlap, our order (by end) may differ from strace's (by start).
            let overlap = t
                .ios
                .windows(2)
                .any(|w| w[0].start_us + w[0].duration_us > w[1].start_us);
            for (io, call) in r.first.iter().zip(&t.ios).filter(|_| !overlap) {
                let from = r.start_ns + io.after_ns;
                times.inside(call, wall(from), wall(from + io.duration_ns), path);
                assert_eq!(io.bytes, call.result, "{path}");
            }
        }
    }
    let n = times.later_us.len();
    assert!(compared >= 2 && n >= 4, "{compared} requests, {n} times");
    for (what, values) in [
        ("begin after strace's stamps", &mut times.later_us),
        ("are shorter than strace's", &mut times.longer_us),
    ] {
        values.sort_by(f64::total_cmp);
        let near = values.iter().filter(|us| us.abs() <= 20.0).count() as f64 / n as f64;
        let median = values[n / 2];
        eprintln!(
            "{compared} requests the same; {n} calls {what} by {median:.1} us (median); {:.1} % by at most 20 us",
            100.0 * near
        );
    }
    (ours, calls)
}

/// A program beside this file, given the directory `data` in `tmp` and of `more`.
fn compare_program(name: &str, tmp: &Path, more: &[&str]) -> (Vec<(String, Request)>, Vec<Call>) {
    let program = compiled(tmp, name);
    let data = tmp.join("data");
    compare(&[&program, &data], more, &data)
}

/// A directory with `data` in it, on a disk; `None`, with a message, where the comparison cannot be made.
fn place(tools: &[&str]) -> Option<tempfile::TempDir> {
    if !machine_has(tools) || !machine_has(&["strace"]) {
        return None;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(tmp.path().join("data")).unwrap();
    Some(tmp)
}

#[test]
fn a_story_in_c_is_the_same_to_strace() {
    let _turn = turn();
    let Some(tmp) = place(&["cc"]) else { return };
    compare_program("story", tmp.path(), &[]);
}

#[test]
fn ten_thousand_descriptors_are_the_same_to_strace() {
    let _turn = turn();
    let Some(tmp) = place(&["cc"]) else { return };
    compare_program("story", tmp.path(), &["many"]);
}

#[test]
fn calls_that_signals_cut_short_are_the_same_to_strace() {
    let _turn = turn();
    let Some(tmp) = place(&["cc"]) else { return };
    let mount = tmp.path().join("data/fuse");
    fs::create_dir(&mount).unwrap();
    let Some(_mounted) = impatient::mounted(&mount) else {
        return;
    };
    let (ours, calls) = compare_program("interrupted", tmp.path(), &[]);
    let restarts = |name: &str| {
        calls
            .iter()
            .filter(|c| c.restarts && c.name.starts_with(name))
            .count()
    };
    assert_eq!((restarts("splice"), restarts("open")), (2, 1), "{calls:#?}");
    let of = |path: &str| -> Vec<&Request> {
        ours.iter()
            .filter(|(p, _)| p == path)
            .map(|(_, r)| r)
            .collect()
    };
    let sums = |path: &str| {
        of(path)
            .into_iter()
            .filter(|r| r.sync.is_none())
            .map(Sums::of)
            .collect::<Vec<_>>()
    };
    // Reads: 3 whole, 3 cut short, 3 by half; writes 2 of each. The opening that failed is no request.
    let slow = Sums {
        ios_in: 6,
        bytes_in: 3 * 6144,
        ios_out: 4,
        bytes_out: 2 * 1500,
        empty: 0,
        failed: 5,
    };
    assert_eq!(sums("fuse/slow"), [slow]);
    // The time of a failed call is no data I/O.
    let r = of("fuse/slow")
        .into_iter()
        .find(|r| r.sync.is_none())
        .unwrap();
    assert!(
        r.first.iter().all(|io| io.bytes > 0) && r.close_ns.is_some_and(|ns| ns > 1_000_000),
        "{r:?}"
    );
    let syncs: Vec<i64> = of("fuse/slow")
        .iter()
        .filter(|r| r.sync.is_some())
        .map(|r| r.failed)
        .collect();
    assert_eq!(syncs, [0, i64::from(libc::EINTR)]);
    // Restarted by the kernel or by the program: one failed call, one I/O.
    let spliced = Sums {
        ios_out: 1,
        bytes_out: 100,
        failed: 1,
        ..Sums::default()
    };
    assert_eq!(
        (sums("restarted"), sums("cut")),
        (vec![spliced], vec![spliced])
    );
    assert_eq!((of("leased").len(), sums("cold")[0].failed), (3, 1));
}

/// Buffered streams, unbuffered ones, a child with an inherited descriptor, and pauses.
const PYTHON: &str = r#"
import os, subprocess, sys, time
d = sys.argv[1]
with open(d + "/stream", "w+") as f:
    for i in range(3000):
        print("line", i, file=f)
    f.seek(0)
    f.read()
with open(d + "/raw", "wb", buffering=0) as f:
    for n in (1, 10, 100, 1000):
        f.write(b"x" * n)
        time.sleep(0.005)
fd = os.open(d + "/raw", os.O_RDONLY)
while os.read(fd, 300):
    time.sleep(0.01)
os.close(fd)
with open(d + "/child", "w") as f:
    subprocess.run(["/bin/echo", "hello"], stdout=f, check=True)
"#;

/// The Python program, and its arguments.
fn python(tmp: &Path) -> [PathBuf; 3] {
    let script = tmp.join("story.py");
    fs::write(&script, PYTHON).unwrap();
    [PathBuf::from("python3"), script, tmp.join("data")]
}

#[test]
fn a_story_in_python_is_the_same_to_strace() {
    let _turn = turn();
    let Some(tmp) = place(&["python3"]) else {
        return;
    };
    let [interpreter, script, data] = python(tmp.path());
    compare(&[&interpreter, &script, &data], &[], &data);
}

#[test]
fn gaps_equal_the_programs_pauses() {
    let _turn = turn();
    let Some(tmp) = place(&["python3"]) else {
        return;
    };
    let [interpreter, script, data] = python(tmp.path());
    let (ours, _) = record(
        &children(),
        Command::new(interpreter).arg(script).arg(&data),
        &data,
    );
    let raw: Vec<&Request> = ours
        .iter()
        .filter(|(p, _)| p == "raw")
        .map(|(_, r)| r)
        .collect();
    let gaps: Vec<i64> = raw.iter().map(|r| r.gaps_ns().unwrap()).collect();
    // Three pauses of 5 ms are between four writes, three of 10 ms between four reads; the last one follows the data.
    assert!(gaps[0] >= 15_000_000 && gaps[1] >= 30_000_000, "{gaps:?}");
    assert_eq!(
        (raw[0].ios_out, raw[1].ios_in, raw[1].empty_reads),
        (4, 4, 1)
    );
    assert!(
        raw.iter()
            .all(|r| r.active_ns + r.open_ns.unwrap() + r.gaps_ns().unwrap()
                == r.total_ns().unwrap())
    );
}
