//! `iolens lab`: runs with a known verdict, a disk with a programmed service time, interruptions, rejected input.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{LoopDevice, assert_refused, ebpf, iolens, run, scene, wait_until};

/// `None`, with a message, where a program is missing.
fn program(name: &str) -> Option<()> {
    let found = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .any(|d| Path::new(d).join(name).exists());
    if !found {
        eprintln!("SKIP: {name} is not installed");
    }
    found.then_some(())
}

/// A directory on a disk: a tmpfs has no device under its files.
fn on_a_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `iolens lab fio -o DIR/out --dir DIR` with short runs; returns the results.
fn sweep(dir: &Path, arguments: &[&str]) -> Value {
    let out = dir.join("out");
    let mut all = vec![
        "lab",
        "fio",
        "-o",
        text(&out),
        "--dir",
        text(dir),
        "--replicates",
        "1",
    ];
    all.extend_from_slice(arguments);
    let ran = run(&all);
    assert!(ran.status.success(), "{}", scene(&ran));
    results(&out)
}

fn results(experiment: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(experiment.join("results.json")).unwrap()).unwrap()
}

/// The sentences of every row of every series, with the series' names.
fn verdicts(results: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for series in results["results"].as_array().unwrap() {
        for row in series["rows"].as_array().unwrap() {
            let said = row["verdicts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_str().unwrap());
            out.extend(said.map(|v| {
                format!(
                    "{} {}: {v}",
                    series["name"].as_str().unwrap(),
                    row["block_bytes"]
                )
            }));
        }
    }
    out
}

fn is_said(results: &Value, series: &str, words: &str) -> bool {
    verdicts(results)
        .iter()
        .any(|v| v.starts_with(series) && v.contains(words))
}

fn assert_said(results: &Value, series: &str, words: &str) {
    assert!(
        is_said(results, series, words),
        "{series}: {words} in\n{}",
        verdicts(results).join("\n")
    );
}

/// A loop device that fio may overwrite, for runs in which no other process uses the disk.
fn sweep_of(device: &LoopDevice, dir: &Path, arguments: &[&str]) -> Value {
    let mut all = vec![
        "--i-will-lose-data",
        text(&device.path),
        "--size",
        "64M",
        "--seconds",
        "1",
    ];
    all.extend_from_slice(arguments);
    sweep(dir, &all)
}

#[test]
fn direct_runs_agree_exactly_and_large_blocks_are_split() {
    let (Some(()), Some(()), Some(device)) = (program("fio"), ebpf(), LoopDevice::new(64)) else {
        return;
    };
    device.set_queue("max_sectors_kb", 256);
    let dir = on_a_disk();
    let r = sweep_of(
        &device,
        dir.path(),
        &["--bs", "4k,512k", "--iodepth", "1,32", "--engine", "libaio"],
    );
    for depth in ["queue depth 1", "queue depth 32"] {
        let series = format!("randread libaio direct {depth} 4096");
        assert_said(&r, &series, "agree");
        let all = r["results"].as_array().unwrap();
        let of = all
            .iter()
            .find(|s| s["name"].as_str().unwrap().ends_with(depth))
            .unwrap();
        let bytes = of["identities"]
            .as_array()
            .unwrap()
            .iter()
            .find(|i| i["id"] == "I4.r")
            .unwrap();
        // Read immediately before and after, on a separate device: the same number of bytes on both sides.
        assert_eq!(
            (&bytes["left"], bytes["holds"].as_u64()),
            (&bytes["right"], Some(1)),
            "{bytes:#}"
        );
        assert_said(
            &r,
            &format!("randread libaio direct {depth} 524288"),
            "splitting: 2.00 requests per I/O",
        );
    }
    // The same document is created again from the cells alone.
    let out = dir.path().join("out");
    let before = std::fs::read(out.join("results.json")).unwrap();
    std::fs::remove_file(out.join("report.html")).unwrap();
    let again = run(&["lab", "report", text(&out), "--json"]);
    assert!(
        again.status.success() && again.stdout == before,
        "{}",
        scene(&again)
    );
    for file in [
        "report.html",
        "results.csv",
        "results.parquet",
        "runs.parquet",
        "identities.csv",
        "models.parquet",
    ] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn the_page_cache_and_readahead_get_their_verdicts() {
    let (Some(()), Some(()), Some(device)) = (program("fio"), ebpf(), LoopDevice::new(64)) else {
        return;
    };
    device.set_queue("read_ahead_kb", 128);
    device.set_queue("max_sectors_kb", 1280);
    // The file is read repeatedly: all passes except the first from memory. The first may be split into smaller
    // requests, or repeated, if other processes use memory or the disk.
    let in_full = |_| {
        let dir = on_a_disk();
        let r = sweep_of(
            &device,
            dir.path(),
            &["--bs", "64k", "--rw", "read", "--direct", "0"],
        );
        assert_said(&r, "read psync buffered", "page cache: 9");
        let said = is_said(
            &r,
            "read psync buffered",
            "readahead sets the size of requests: 25",
        );
        if !said {
            eprintln!("NOTE: once more: {}", verdicts(&r).join("\n"));
        }
        said
    };
    assert!(
        (0..3).any(in_full),
        "requests of 25x KiB, twice read_ahead_kb, in one of three runs"
    );
    // Every second block is skipped, but read ahead all the same. The rate keeps the run within the file.
    let dir = on_a_disk();
    let r = sweep_of(
        &device,
        dir.path(),
        &[
            "--bs",
            "4k",
            "--rw",
            "read:4k",
            "--direct",
            "0",
            "--",
            "--rate=16m",
        ],
    );
    assert_said(
        &r,
        "read:4k psync buffered",
        "readahead: the device read 2.0",
    );
}

#[test]
fn neighbours_in_one_batch_are_merged() {
    let (Some(()), Some(()), Some(device)) = (program("fio"), ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let dir = on_a_disk();
    let batch = [
        "--",
        "--iodepth_batch_submit=16",
        "--iodepth_batch_complete_min=16",
    ];
    let mut all = vec![
        "--bs",
        "4k",
        "--rw",
        "write",
        "--iodepth",
        "16",
        "--engine",
        "libaio",
    ];
    all.extend(batch);
    let r = sweep_of(&device, dir.path(), &all);
    assert_said(&r, "write libaio direct queue depth 16", "merging:");
}

/// A control group with a limit of reads per second on a device; removed when dropped.
struct Throttled(PathBuf);

impl Throttled {
    fn new(device: &LoopDevice, reads_per_s: u32) -> Option<Throttled> {
        let number = std::fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
        let number = number.trim();
        let name = format!("iolens-e2e-{}", std::process::id());
        let v1 = (
            format!("/sys/fs/cgroup/blkio/{name}"),
            "blkio.throttle.read_iops_device",
            format!("{number} {reads_per_s}"),
        );
        let v2 = (
            format!("/sys/fs/cgroup/{name}"),
            "io.max",
            format!("{number} riops={reads_per_s}"),
        );
        for (dir, file, limit) in [v1, v2] {
            let path = PathBuf::from(dir);
            if std::fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Throttled(path);
            if group.0.join(file).exists() && std::fs::write(group.0.join(file), &limit).is_ok() {
                return Some(group);
            }
        }
        eprintln!("SKIP: no control group that limits block I/O can be made");
        None
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

#[test]
fn a_limit_above_the_device_is_distinguished_from_a_slow_device() {
    let (Some(()), Some(()), Some(device)) = (program("fio"), ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let Some(group) = Throttled::new(&device, 100) else {
        return;
    };
    let dir = on_a_disk();
    let out = dir.path().join("out");
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$@\"",
        group.0.display()
    );
    let ran = Command::new("sh")
        .args([
            "-c",
            &script,
            "sh",
            env!("CARGO_BIN_EXE_iolens"),
            "lab",
            "fio",
            "-o",
            text(&out),
        ])
        .args([
            "--i-will-lose-data",
            text(&device.path),
            "--size",
            "64M",
            "--seconds",
            "2",
            "--replicates",
            "1",
            "--bs",
            "4k",
        ])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", scene(&ran));
    assert_said(
        &results(&out),
        "randread psync direct",
        "throttled above the device",
    );
}

/// A FUSE file whose service time is programmed, and a loop device over it.
struct SlowDisk {
    server: Child,
    dir: tempfile::TempDir,
    device: PathBuf,
}

impl SlowDisk {
    fn new(mib: u32, base_us: f64, mb_per_s: f64) -> Option<SlowDisk> {
        if !Path::new("/dev/fuse").exists() || program("python3").is_none() {
            eprintln!("SKIP: no /dev/fuse or no python3");
            return None;
        }
        let dir = on_a_disk();
        let point = dir.path().join("mnt");
        std::fs::create_dir(&point).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/fuse_disk.py");
        let server = Command::new("python3")
            .arg(script)
            .arg(&point)
            .arg(mib.to_string())
            .arg(dir.path().join("backing"))
            .args([base_us.to_string(), mb_per_s.to_string()])
            .env("FUSE_DISK_TIMES", dir.path().join("times"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut disk = SlowDisk {
            server,
            dir,
            device: PathBuf::new(),
        };
        let begin = Instant::now();
        while std::fs::metadata(point.join("disk")).is_err() {
            if disk.server.try_wait().unwrap().is_some()
                || begin.elapsed() > Duration::from_secs(10)
            {
                eprintln!("SKIP: the FUSE file cannot be served here");
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let out = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(point.join("disk"))
            .output()
            .unwrap();
        if !out.status.success() {
            eprintln!(
                "SKIP: no loop device over FUSE: {}",
                String::from_utf8_lossy(&out.stderr)
            );
            return None;
        }
        disk.device = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim());
        Some(disk)
    }

    /// Least squares through the actual service times of each size by the server's own clock: seconds at 0 bytes, and
    /// bytes per second. Both include the machine's overhead over the programmed times.
    fn served(&self) -> (f64, f64) {
        let text = std::fs::read_to_string(self.dir.path().join("times")).unwrap();
        let mut sizes = std::collections::BTreeMap::<u64, (f64, f64)>::new();
        // The last line may be incomplete.
        for line in text.split_inclusive('\n').filter(|l| l.ends_with('\n')) {
            let (bytes, seconds) = line.trim().split_once(' ').unwrap();
            let sum = sizes.entry(bytes.parse().unwrap()).or_default();
            sum.0 += seconds.parse::<f64>().unwrap();
            sum.1 += 1.0;
        }
        // Sizes with some hundred reads; others are from the partition scan.
        let means: Vec<(f64, f64)> = sizes
            .iter()
            .filter(|(_, s)| s.1 >= 50.0)
            .map(|(&b, s)| (b as f64, s.0 / s.1))
            .collect();
        let n = means.len() as f64;
        let x = means.iter().map(|m| m.0).sum::<f64>() / n;
        let y = means.iter().map(|m| m.1).sum::<f64>() / n;
        let slope = means.iter().map(|m| (m.0 - x) * (m.1 - y)).sum::<f64>()
            / means.iter().map(|m| (m.0 - x).powi(2)).sum::<f64>();
        (y - slope * x, 1.0 / slope)
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if !self.device.as_os_str().is_empty() {
            Command::new("losetup")
                .arg("-d")
                .arg(&self.device)
                .status()
                .ok();
        }
        Command::new("umount")
            .arg("-l")
            .arg(self.dir.path().join("mnt"))
            .stderr(Stdio::null())
            .status()
            .ok();
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// `None`, with a message, if the load is so high that requests are served late: the disk's programmed time is then not
/// the time of an I/O.
fn calm() -> Option<()> {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = text.split(' ').next().unwrap().parse().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    if load > 2.0 * processors as f64 {
        eprintln!(
            "SKIP: a load of {load} on {processors} processors is too much for a disk with a programmed time"
        );
        return None;
    }
    Some(())
}

/// Error of the fit relative to the actual seek time and rate of a programmed disk, measured once.
fn missed(disk: &SlowDisk) -> ((f64, f64), Value) {
    let dir = on_a_disk();
    let arguments = [
        "--i-will-lose-data",
        text(&disk.device),
        "--size",
        "64M",
        "--seconds",
        "3",
        "--bs",
        "4k,16k,64k,128k,256k",
    ];
    let r = sweep(dir.path(), &arguments);
    let fit = r["results"][0]["seek_transfer"].clone();
    let of = |name: &str, real: f64| (fit[name]["value"].as_f64().unwrap() / real - 1.0).abs();
    let (a_s, rate) = disk.served();
    eprintln!("served: {a_s:.6} s and {:.2} MB/s", rate / 1e6);
    ((of("a_s", a_s), of("rate_bytes_per_s", rate)), fit)
}

#[test]
fn the_fit_finds_the_seek_and_the_rate_of_a_programmed_disk() {
    let (Some(()), Some(()), Some(disk)) =
        (program("fio"), calm(), SlowDisk::new(64, 4860.0, 75.86))
    else {
        return;
    };
    // Other load on the machine is not an error of the fit: measure again.
    for _ in 0..3 {
        let ((a, rate), fit) = missed(&disk);
        if a < 0.08 && rate < 0.15 {
            return;
        }
        eprintln!("seek off by {a:.3}, rate by {rate:.3}: {fit:#}");
    }
    assert!(calm().is_none(), "three times in a row, on a calm machine");
}

#[test]
fn the_two_phase_model_predicts_a_programmed_disk_behind_the_page_cache() {
    let (Some(()), Some(()), Some(disk)) =
        (program("fio"), ebpf(), SlowDisk::new(64, 100.0, 100.0))
    else {
        return;
    };
    let arguments = [
        "--i-will-lose-data",
        text(&disk.device),
        "--size",
        "64M",
        "--seconds",
        "3",
        "--rw",
        "read",
        "--direct",
        "0",
    ];
    // Other load on the machine is not an error of the model either.
    for _ in 0..3 {
        let dir = on_a_disk();
        let r = sweep(
            dir.path(),
            &[&arguments[..], &["--bs", "512,4k,64k"]].concat(),
        );
        let fit = &r["results"][0]["page_cache"];
        assert_eq!(fit["points"].as_array().unwrap().len(), 3);
        assert!(
            fit["points"]
                .as_array()
                .unwrap()
                .iter()
                .all(|p| p["regime"] == "disk-then-memory"),
            "{fit:#}"
        );
        if fit["max_abs_error_percent"].as_f64().unwrap() < 20.0 {
            return;
        }
        eprintln!("{fit:#}");
    }
    assert!(calm().is_none(), "three times in a row, on a calm machine");
}

/// Starts an experiment of several runs on a loop device of its own and waits until the first of them is complete.
fn started(dir: &Path) -> (Child, Vec<String>) {
    let out = dir.join("out");
    let words = [
        "lab",
        "fio",
        "-o",
        text(&out),
        "--dir",
        text(dir),
        "--loop",
        "--size",
        "16M",
        "--seconds",
        "1",
        "--replicates",
        "1",
    ];
    let mut all: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    all.extend(["--bs".to_owned(), "4k,16k,64k".to_owned()]);
    let child = iolens(&all.iter().map(String::as_str).collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a run is complete", || !complete(&out).is_empty());
    (child, all)
}

/// The complete runs' results, by their files' times.
fn complete(out: &Path) -> Vec<(PathBuf, std::time::SystemTime)> {
    let cells = std::fs::read_dir(out.join("cells"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("cell.json"));
    cells
        .filter_map(|p| Some((p.clone(), p.metadata().ok()?.modified().ok()?)))
        .collect()
}

/// Loop devices and scratch files in `dir`.
fn left_behind(dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_dir("/sys/block")
        .unwrap()
        .flatten()
        .filter_map(|e| std::fs::read_to_string(e.path().join("loop/backing_file")).ok())
        .filter(|f| f.starts_with(text(dir)))
        .collect();
    let names = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|e| e.file_name().into_string().unwrap());
    found.extend(names.filter(|n| n.starts_with("iolens-lab")));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|l| l.contains(text(dir)))
            .map(str::to_owned),
    );
    found
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// Whether loop devices can be made.
fn loops() -> Option<()> {
    LoopDevice::new(1).map(drop)
}

#[test]
fn ctrl_c_and_term_leave_nothing_behind_and_the_experiment_goes_on() {
    let (Some(()), Some(())) = (program("fio"), loops()) else {
        return;
    };
    for by in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let dir = on_a_disk();
        let (child, words) = started(dir.path());
        assert!(
            !left_behind(dir.path()).is_empty(),
            "there was something to leave behind"
        );
        signal(&child, by);
        let ended = child.wait_with_output().unwrap();
        assert!(
            !ended.status.success() && left_behind(dir.path()).is_empty(),
            "{:?}\n{}",
            left_behind(dir.path()),
            scene(&ended)
        );
        goes_on(dir.path(), &words);
    }
}

/// The same command runs the remaining cells, and none twice.
fn goes_on(dir: &Path, words: &[String]) {
    let before = complete(&dir.join("out"));
    assert!(!before.is_empty() && before.len() < 3, "{before:?}");
    let again = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(again.status.success(), "{}", scene(&again));
    let after = complete(&dir.join("out"));
    assert_eq!(after.len(), 3);
    assert!(
        before.iter().all(|b| after.contains(b)),
        "complete runs are not done again"
    );
    assert!(left_behind(dir).is_empty());
}

#[test]
fn clean_removes_everything_after_a_kill() {
    let (Some(()), Some(())) = (program("fio"), loops()) else {
        return;
    };
    let dir = on_a_disk();
    let out = dir.path().join("out");
    let (mut child, words) = started(dir.path());
    assert_refused(&run(&["lab", "clean", text(&out)]), &["is running"]);
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    assert!(!left_behind(dir.path()).is_empty());
    // The kernel kills fio; until it has exited, the loop device is in use.
    let mut cleaned = run(&["lab", "clean", text(&out)]);
    wait_until("all can be cleaned", || {
        if !cleaned.status.success() {
            cleaned = run(&["lab", "clean", text(&out)]);
        }
        cleaned.status.success()
    });
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(
        cleaned.status.success() && said.contains("removed file"),
        "{}",
        scene(&cleaned)
    );
    wait_until("nothing is left behind", || {
        left_behind(dir.path()).is_empty()
    });
    assert!(
        String::from_utf8_lossy(&run(&["lab", "clean", text(&out)]).stdout)
            .contains("nothing was left")
    );
    goes_on(dir.path(), &words);
}

fn refused_device(device: &Path, words: &[&str]) -> Output {
    let dir = on_a_disk();
    let out = dir.path().join("out");
    let o = run(&[
        "lab",
        "fio",
        "-o",
        text(&out),
        "--rw",
        "write",
        "--seconds",
        "1",
        "--i-will-lose-data",
        text(device),
    ]);
    assert_refused(&o, words);
    assert!(!out.exists(), "refused before anything is made");
    let o = run(&[
        "lab",
        "poll",
        "-o",
        text(&out),
        "--seconds",
        "1",
        "--i-will-lose-data",
        text(device),
    ]);
    assert_refused(&o, words);
    o
}

#[test]
fn devices_in_use_are_never_written() {
    let (Some(()), Some(device)) = (program("fio"), LoopDevice::new(32)) else {
        return;
    };
    let dir = on_a_disk();
    let file = dir.path().join("precious");
    std::fs::write(&file, "do not touch").unwrap();
    refused_device(&file, &["precious", "no block device"]);
    refused_device(dir.path(), &["no block device"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "do not touch");

    let held = std::fs::File::open(&device.path).unwrap();
    refused_device(&device.path, &[device.name(), "is open in process"]);
    drop(held);

    if program("mkfs.ext4").is_none() {
        return;
    }
    let made = Command::new("mkfs.ext4")
        .arg("-q")
        .arg(&device.path)
        .status()
        .unwrap();
    let point = dir.path().join("mnt");
    std::fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount")
        .arg(&device.path)
        .arg(&point)
        .status()
        .unwrap();
    if !(made.success() && mounted.success()) {
        return eprintln!("SKIP: cannot mount");
    }
    let o = refused_device(&device.path, &[device.name(), "is mounted on"]);
    assert!(
        Command::new("umount")
            .arg(&point)
            .status()
            .unwrap()
            .success(),
        "{}",
        scene(&o)
    );
}

#[test]
fn existing_things_and_fios_own_ways_out_are_refused() {
    let Some(()) = program("fio") else { return };
    let dir = on_a_disk();
    std::fs::write(dir.path().join("there"), "kept").unwrap();
    let d = text(dir.path());
    assert_refused(
        &run(&["lab", "fio", "-o", d, "--seconds", "1"]),
        &["not empty"],
    );
    let out = dir.path().join("out");
    for way in ["--filename=/dev/vda", "--exec_prerun=true", "job.fio"] {
        assert_refused(
            &run(&["lab", "fio", "-o", text(&out), "--", way]),
            &["other files", way].map(|w| if way == "job.fio" { "job" } else { w }),
        );
    }
    assert_refused(
        &run(&[
            "lab",
            "fio",
            "-o",
            text(&out),
            "--dir",
            d,
            "--size",
            "900T",
            "--bs",
            "4k",
        ]),
        &["MiB are needed"],
    );
    let plan = dir.path().join("sweep.toml");
    std::fs::write(&plan, "bs = \"4k\"\nblocksize = 3\n").unwrap();
    assert_refused(
        &run(&["lab", "fio", "-o", text(&out), "--plan", text(&plan)]),
        &["sweep.toml", "line 2"],
    );
}

#[test]
fn copies_make_their_files_and_leave_no_mounts() {
    let (Some(()), Some(()), Some(())) = (program("mkfs.ext4"), loops(), program("cp")) else {
        return;
    };
    let dir = on_a_disk();
    let out = dir.path().join("out");
    let to = dir.path().join("to");
    std::fs::create_dir(&to).unwrap();
    let words = [
        "lab",
        "copies",
        "-o",
        text(&out),
        "--dir",
        text(dir.path()),
        "--fs",
        "ext4,nofs",
        "--to",
        text(&to),
    ];
    let ran = run(&[
        &words[..],
        &[
            "--copies",
            "1,2",
            "--size",
            "4M",
            "--replicates",
            "2",
            "--sample",
            "20ms",
        ],
    ]
    .concat());
    assert!(ran.status.success(), "{}", scene(&ran));
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("nofs is skipped"),
        "{}",
        scene(&ran)
    );
    assert_eq!(complete(&out).len(), 8);
    for file in ["data", "averages", "report.html"] {
        assert!(
            out.join("cells/0000").join(file).metadata().unwrap().len() > 0,
            "{file}"
        );
    }
    let r = results(&out);
    assert!(
        r["results"]["anova"]["write_mb_per_s"]["two_way"]["interaction"].is_object(),
        "{r:#}"
    );
    assert!(
        left_behind(dir.path()).is_empty(),
        "{:?}",
        left_behind(dir.path())
    );
    assert_eq!(
        std::fs::read_dir(&to).unwrap().count(),
        0,
        "the given directory is as it was"
    );
}

#[test]
fn polling_is_compared_with_iostat_and_with_the_truth() {
    let (Some(()), Some(()), Some(()), Some(())) =
        (program("fio"), program("iostat"), ebpf(), loops())
    else {
        return;
    };
    let dir = on_a_disk();
    let out = dir.path().join("out");
    let words = [
        "lab",
        "poll",
        "-o",
        text(&out),
        "--dir",
        text(dir.path()),
        "--disks",
        "2",
        "--workers",
        "10",
        "--target",
        "50",
    ];
    let ran = run(&[&words[..], &["--size", "8M", "--seconds", "3"]].concat());
    assert!(ran.status.success(), "{}", scene(&ran));
    let r = results(&out);
    let seconds = r["results"]["cells"][0]["seconds"].as_array().unwrap();
    assert_eq!(seconds.len(), 6, "two disks, three seconds");
    assert!(
        seconds
            .iter()
            .all(|s| s["iostat_percent"].is_number() && s["poll_percent"].is_number()),
        "{seconds:#?}"
    );
    let exact = seconds.iter().filter(|s| s["exact_percent"].is_number());
    assert!(
        exact
            .clone()
            .all(|s| s["estimates_percent"].as_array().unwrap().len() == 4),
        "{seconds:#?}"
    );
    assert!(left_behind(dir.path()).is_empty());
}
