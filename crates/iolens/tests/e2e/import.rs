//! `import` end to end: real logs of the installed tools, and files that are not logs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use iolens_core::model::{IntervalRates, Io};
use iolens_core::store::{IoColumns, Recording, read_cpu, read_rates};

use super::machine::{LoopDevice, assert_refused, file_with, iolens, run, scene};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

pub fn import(dir: &Path, to: &str, files: &[PathBuf], options: &[&str]) -> Output {
    iolens(&["import", "-o"])
        .arg(dir.join(to))
        .args(options)
        .args(files)
        .current_dir(dir)
        .output()
        .unwrap()
}

pub fn imported(dir: &Path, to: &str, files: &[PathBuf], options: &[&str]) -> PathBuf {
    let out = import(dir, to, files, options);
    assert!(out.status.success(), "{}", scene(&out));
    dir.join(to)
}

pub fn json(words: &[&str]) -> serde_json::Value {
    let out = run(words);
    assert!(out.status.success(), "{words:?}: {}", scene(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Name of a log, the options and the environment that produce it, and the tolerance of its printed digits, in
/// percent.
type OptionSet = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    f64,
);

const OPTION_SETS: [OptionSet; 17] = [
    ("x", &["-x"], &[], 2.0),
    ("d", &["-d"], &[], 2.0),
    ("dk", &["-d", "-k"], &[], 2.0),
    ("dm", &["-d", "-m"], &[], 12.0),
    ("dx", &["-d", "-x"], &[], 2.0),
    ("xk", &["-x", "-k"], &[], 2.0),
    ("xm", &["-x", "-m"], &[], 12.0),
    ("xt", &["-x", "-t"], &[], 2.0),
    ("xt-iso", &["-x", "-t"], &[("S_TIME_FORMAT", "ISO")], 2.0),
    (
        "dt-iso",
        &["-d", "-t"],
        &[("S_TIME_FORMAT", "ISO"), ("TZ", "Asia/Kolkata")],
        2.0,
    ),
    ("h", &["-h"], &[], 12.0),
    ("xh", &["-x", "-h"], &[], 12.0),
    ("human", &["-d", "--human"], &[], 12.0),
    ("xz", &["-x", "-z"], &[], 2.0),
    ("c-d", &["-c", "-d"], &[], 2.0),
    ("s", &["-d", "-s"], &[], 2.0),
    ("json", &["-x", "-o", "JSON"], &[], 2.0),
];

/// Long enough for fio to start, run and end within the middle half even if it must wait for a CPU.
const PERIOD: Duration = Duration::from_secs(4);
const INTERVAL: &str = "4s";
const ROUNDS: usize = 2;

/// Every option set and `iolens iostat` sample the same disk. fio runs only in the middle of each interval, so that
/// all of them read the same counters even if this machine wakes them late. Returns each log's name and text.
fn watch_together(device: &LoopDevice, dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let spawn = |name: &str, mut command: Command| -> (PathBuf, Child) {
        let path = dir.join(format!("{name}.log"));
        let child = command
            .stdout(fs::File::create(&path).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (path, child)
    };
    let period = PERIOD.as_secs().to_string();
    let rounds = ROUNDS.to_string();
    let interval = [device.name(), period.as_str(), rounds.as_str()];
    let started = Instant::now();
    let mut logs = Vec::new();
    for (name, options, env, _) in OPTION_SETS {
        let mut c = Command::new("iostat");
        c.arg("-y")
            .args(options)
            .args(interval)
            .envs([("LC_ALL", "C"), ("TZ", "UTC")])
            .envs(env.iter().copied());
        logs.push((name, spawn(name, c)));
    }
    let mut ours = iolens(&["iostat", "-y", "-x", "-o", "NDJSON"]);
    ours.args(interval);
    logs.push(("ours", spawn("ours", ours)));
    for round in 0..ROUNDS as u32 {
        let at = PERIOD * round + PERIOD / 4;
        sleep(at.saturating_sub(started.elapsed()));
        let out = Command::new("fio")
            .args([
                "--name=x",
                "--rw=randrw",
                "--bs=4k",
                "--direct=1",
                "--ioengine=psync",
                "--size=8m",
                "--rwmixread=60",
            ])
            .arg(format!("--number_ios={}", 300 + 200 * round))
            .arg(format!("--filename={}", device.path.display()))
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", scene(&out));
    }
    logs.into_iter()
        .map(|(name, (path, mut child))| {
            child.wait().unwrap();
            (name, path)
        })
        .collect()
}

fn near(a: f64, b: f64, percent: f64) -> bool {
    (a - b).abs() <= b.abs() * percent / 100.0 + 1e-9
}

/// Compares rows of an imported log with the records of `iolens iostat`; returns the differences.
fn compare(
    name: &str,
    rows: &[IntervalRates],
    ours: &[serde_json::Value],
    percent: f64,
) -> Result<(), String> {
    if rows.len() != ours.len() {
        return Err(format!(
            "{name}: {} rows, {} records of ours",
            rows.len(),
            ours.len()
        ));
    }
    for (i, (row, ours)) in rows.iter().zip(ours).enumerate() {
        let of = |key: &str| ours[key].as_f64();
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        let [r, w, ..] = row.classes;
        let pairs = [
            ("reads", r.ios_per_s, of("reads_per_s"), percent),
            ("writes", w.ios_per_s, of("writes_per_s"), percent),
            (
                "tps",
                row.all.ios_per_s,
                sum(of("reads_per_s"), of("writes_per_s")),
                percent,
            ),
            (
                "read bytes",
                r.bytes_per_s,
                of("read_kib_per_s").map(|k| k * 1024.0),
                percent,
            ),
            (
                "written bytes",
                w.bytes_per_s,
                of("write_kib_per_s").map(|k| k * 1024.0),
                percent,
            ),
            (
                "utilisation",
                row.util_percent,
                of("util_percent"),
                percent.max(8.0),
            ),
        ];
        for (what, theirs, ours, percent) in pairs {
            let (Some(theirs), Some(ours)) = (theirs, ours) else {
                continue;
            };
            if !near(theirs, ours, percent) {
                return Err(format!("{name}, report {i}: {what} {theirs}, ours {ours}"));
            }
        }
        // No mean contains the length of an interval, so they are equal to the printed digits.
        for (what, theirs, ours) in [
            ("r_await", r.mean_us, of("read_await_ms")),
            ("w_await", w.mean_us, of("write_await_ms")),
        ] {
            if let (Some(theirs), Some(ours)) = (theirs, ours)
                && (theirs / 1000.0 - ours).abs() > 0.0051
            {
                return Err(format!(
                    "{name}, report {i}: {what} {theirs} us, ours {ours} ms"
                ));
            }
        }
        if sum(r.ios_per_s, w.ios_per_s)
            .or(row.all.ios_per_s)
            .is_none()
        {
            return Err(format!("{name}, report {i}: no rate of I/Os at all"));
        }
        if (row.interval_ns() - PERIOD.as_nanos() as i64).abs() > 1_000_000_000 {
            return Err(format!(
                "{name}, report {i}: an interval of {} ns",
                row.interval_ns()
            ));
        }
    }
    Ok(())
}

fn rows_of(recording: &Path, device: &str) -> Vec<IntervalRates> {
    let id = Recording::open(recording)
        .unwrap()
        .meta()
        .devices
        .iter()
        .find(|d| d.name == device)
        .map(|d| d.id);
    let Some(id) = id else { return Vec::new() };
    read_rates(recording)
        .unwrap()
        .into_iter()
        .filter(|r| r.dev == id)
        .collect()
}

const TOO_BUSY: &str = "an interval ended while fio ran";

fn logs_agree(device: &LoopDevice) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let logs = watch_together(device, dir.path());
    let ours = fs::read_to_string(&logs.iter().find(|l| l.0 == "ours").unwrap().1).unwrap();
    let ours: Vec<serde_json::Value> = ours
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let ours: Vec<_> = ours
        .into_iter()
        .filter(|o| o["device"] == device.name())
        .collect();
    for (i, o) in ours.iter().enumerate() {
        let seen = o["read_ios"].as_f64().unwrap() + o["write_ios"].as_f64().unwrap();
        if seen != (300 + 200 * i) as f64 {
            return Err(format!("round {i} has {seen} I/Os: {TOO_BUSY}"));
        }
    }
    for (name, options, _, percent) in OPTION_SETS {
        let log = dir.path().join(format!("{name}.log"));
        // Logs without a time stamp have their interval in their totals, or not at all.
        let mut words = vec!["--strict"];
        if !options.contains(&"-t") {
            words.extend(["--interval", INTERVAL]);
        }
        let recording = imported(dir.path(), name, &[log], &words);
        compare(name, &rows_of(&recording, device.name()), &ours, percent)?;
        if ["x", "c-d", "json"].contains(&name) {
            let cpu = read_cpu(&recording).unwrap();
            if name != "c-d"
                && (cpu.len() != ROUNDS
                    || cpu.iter().any(|c| (sum_of_shares(c) - 100.0).abs() > 0.1))
            {
                return Err(format!("{name}: shares of processors {cpu:?}"));
            }
        }
    }
    // A log truncated in its last report keeps the reports before it, and the place is reported.
    let whole = fs::read(dir.path().join("x.log")).unwrap();
    let cut = file_with(dir.path(), "cut.log", &whole[..whole.len() - 60]);
    let out = import(
        dir.path(),
        "cut",
        std::slice::from_ref(&cut),
        &["--interval", INTERVAL],
    );
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("cut.log: line "),
        "{}",
        scene(&out)
    );
    compare(
        "cut",
        &rows_of(&dir.path().join("cut"), device.name()),
        &ours[..ROUNDS - 1],
        2.0,
    )?;
    let whole = fs::read(dir.path().join("json.log")).unwrap();
    let cut = file_with(dir.path(), "cut.json", &whole[..whole.len() * 4 / 5]);
    let out = import(
        dir.path(),
        "cut-json",
        std::slice::from_ref(&cut),
        &["--interval", INTERVAL],
    );
    assert!(out.status.success(), "{}", scene(&out));
    let rows = rows_of(&dir.path().join("cut-json"), device.name());
    compare("cut JSON", &rows[..ROUNDS - 1], &ours[..ROUNDS - 1], 2.0)
}

#[test]
fn imports_of_installed_iostat_equal_ours_on_the_same_counters() {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !has("fio") || Command::new("iostat").arg("-V").output().is_err() {
        return eprintln!("SKIP: no fio or no iostat");
    }
    let Some(device) = LoopDevice::new(16) else {
        return;
    };
    // A busy machine may wake a program so late that fio runs across the end of its interval.
    let mut why = String::new();
    for _ in 0..5 {
        match logs_agree(&device) {
            Ok(()) => return,
            Err(e) => why = e,
        }
        eprintln!("measured again: {why}");
    }
    assert!(why.contains(TOO_BUSY), "{why}");
    eprintln!("SKIP: this machine is too busy to run fio inside an interval of {INTERVAL}");
}

/// The reference in a language with decimal commas, where one can be made.
#[test]
fn a_log_with_decimal_commas() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("localedef")
        .args(["-i", "de_DE", "-f", "UTF-8"])
        .arg(dir.path().join("de_DE.UTF-8"))
        .output();
    if !made.is_ok_and(|o| o.status.success()) || Command::new("iostat").arg("-V").output().is_err()
    {
        return eprintln!("SKIP: no iostat, or no locale can be made");
    }
    let log = |options: &[&str]| {
        let out = Command::new("iostat")
            .args(options)
            .env("LOCPATH", dir.path())
            .env("LC_ALL", "de_DE.UTF-8")
            .env_remove("S_TIME_FORMAT")
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let text = log(&["-x", "-t", "1", "3"]);
    if !text.contains("0,00") {
        return eprintln!("SKIP: this iostat knows no decimal commas:\n{text}");
    }
    let file = file_with(dir.path(), "comma.log", text.as_bytes());
    let recording = imported(dir.path(), "r", &[file], &["--strict"]);
    let cpu = read_cpu(&recording).unwrap();
    let last = text
        .lines()
        .skip_while(|l| !l.starts_with("avg-cpu"))
        .filter(|l| l.starts_with("   "));
    let printed: Vec<f64> = last
        .last()
        .unwrap()
        .split_whitespace()
        .map(|w| w.replace(',', ".").parse().unwrap())
        .collect();
    assert_eq!(cpu.len(), 2, "{text}");
    assert_eq!(
        (cpu[1].user, cpu[1].idle),
        (Some(printed[0]), Some(printed[5])),
        "{text}"
    );
}

/// Transcripts of the reference on recorded counters of other machines, compared with our output for the same
/// counters.
#[test]
fn all_iostat_output_imports_without_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut taken = 0;
    for tree in ["mixed", "many", "old", "wraps"] {
        let text = String::from_utf8_lossy(
            &fs::read(fixture(&format!("iostat/{tree}.expected"))).unwrap(),
        )
        .into_owned();
        for (i, case) in text.split("\n$ ").enumerate() {
            let (command, output) = case.split_once('\n').unwrap();
            let (output, code) = output.rsplit_once("# exit ").unwrap();
            // Without an interval iostat prints only averages since boot; -c alone has no devices; groups are
            // artificial.
            let words: Vec<&str> = command.split_whitespace().collect();
            let repeats = words.last().is_some_and(|w| w.parse::<u32>().is_ok());
            if code.trim() != "0" || !repeats || words.contains(&"-V") || !output.contains("Device")
            {
                continue;
            }
            let file = file_with(dir.path(), "log", output.as_bytes());
            let out = import(dir.path(), &format!("{tree}{i}"), &[file], &["--strict"]);
            if !out.status.success() {
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                assert!(
                    said.contains("could be used") || said.contains("since boot only"),
                    "{command}\n{output}\n{said}"
                );
                continue;
            }
            taken += 1;
        }
    }
    assert!(taken > 50, "{taken} transcripts were imported");
}

#[test]
fn tables_of_several_resolutions_are_audited_and_the_report_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["10hz", "1s", "15s"].map(|n| fixture(&format!("golden/seed3_agg_{n}.csv")));
    let recording = imported(dir.path(), "r", &files, &["--strict"]);
    let sentence = "6 of 6 mean latencies are averages of averages; read latency is understated by 4 to 32 %; \
                    write latency is understated by 8 to 80 %";
    let words = recording.to_str().unwrap();
    // Full reports include facts; a table does not show which of them affected a program.
    let text = run(&["report", words, "--full"]);
    let said: Vec<&str> = std::str::from_utf8(&text.stdout)
        .unwrap()
        .split_whitespace()
        .collect();
    assert!(said.join(" ").contains(sentence), "{}", scene(&text));
    assert!(
        said.join(" ").contains("62,689 I/Os"),
        "no I/O counts in two tables: {}",
        scene(&text)
    );
    assert!(
        json(&["report", words, "--json"])
            .to_string()
            .contains(sentence)
    );
    let html = dir.path().join("r.html");
    let out = run(&["report", words, "-o", html.to_str().unwrap()]);
    match String::from_utf8_lossy(&out.stderr).contains("without the HTML page") {
        true => eprintln!("SKIP: built without the HTML page"),
        false => assert!(
            out.status.success() && html.metadata().unwrap().len() > 10_000,
            "{}",
            scene(&out)
        ),
    }
    // The published rows come back digit by digit.
    let out = run(&[
        "zoom", words, "--from", "153.7", "--to", "154", "--step", "100ms",
    ]);
    let shown: Vec<Vec<String>> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .skip(1)
        .map(|l| l.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(
        shown[0],
        ["153.8", "20", "2560", "136888", "4150", "2171420", "82941"],
        "{}",
        scene(&out)
    );
}

#[test]
fn unknown_values_are_null_and_never_zero() {
    let dir = tempfile::tempdir().unwrap();
    let snoop = "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)\n\
                 0.000000    postgres: wal  1188    nvme0n1 W    3145728    8192      0.345\n\
                 1.000000    fio            9       nvme0n1 R    0          4096      1.250\n";
    let recording = imported(
        dir.path(),
        "snoop",
        &[file_with(dir.path(), "b.txt", snoop.as_bytes())],
        &["--strict"],
    );
    let reader = Recording::open(&recording)
        .unwrap()
        .ios(0..i64::MAX, IoColumns::ALL);
    let ios: Vec<Io> = reader.flat_map(|batch| batch.unwrap()).collect();
    assert!(ios.iter().all(|io| io.queue_ns.is_none()
        && io.cgroup.is_none()
        && io.ino.is_none()
        && io.merges.is_none()));
    assert_eq!(ios[1].device_ns, 1_250_000);
    let table = imported(
        dir.path(),
        "table",
        &[fixture("import/iostat-k.txt")],
        &["--strict"],
    );
    let report = json(&["report", table.to_str().unwrap(), "--json"]);
    let text = String::from_utf8_lossy(&run(&["report", table.to_str().unwrap(), "--full"]).stdout)
        .into_owned();
    assert!(
        text.contains("busy unknown") && text.contains("p50 -"),
        "{text}"
    );
    assert!(report.to_string().contains("null"), "{report}");
    for words in [
        vec!["zoom", "--format", "json"],
        vec!["zoom", "--by", "device"],
    ] {
        let out = iolens(&words).arg(&table).output().unwrap();
        assert!(out.status.success(), "{}", scene(&out));
    }
}

/// The rows of `zoom --format csv` from the column `time_s` on, cells unchanged.
pub fn zoomed(recording: &Path, options: &[&str]) -> Vec<Vec<String>> {
    let out = iolens(&["zoom", "--format", "csv"])
        .args(options)
        .arg(recording)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines()
        .skip(1)
        .map(|l| l.split(',').skip(2).map(str::to_owned).collect())
        .collect()
}

#[test]
fn zoom_shows_a_table_as_it_stands_and_nothing_where_it_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let source = fixture("golden/seed3_agg_10hz.csv");
    let tenths = imported(
        dir.path(),
        "tenths",
        std::slice::from_ref(&source),
        &["--strict"],
    );
    // The published table row by row, from its own start; a mean of no I/O is not zero.
    let published = fs::read_to_string(&source).unwrap();
    let published: Vec<Vec<f64>> = published
        .lines()
        .skip(1)
        .map(|l| l.split(',').map(|c| c.parse().unwrap()).collect())
        .collect();
    let shown = zoomed(&tenths, &[]);
    assert_eq!(shown.len(), published.len());
    for (row, truth) in shown.iter().zip(&published) {
        for (i, (cell, value)) in row.iter().zip(truth).enumerate() {
            let of_nothing = (i == 3 || i == 6) && truth[i - 2] == 0.0;
            assert!(
                if of_nothing {
                    cell.is_empty()
                } else {
                    cell.parse() == Ok(*value)
                },
                "{row:?} for {truth:?}"
            );
        }
    }
    // A row of two seconds in steps of one becomes two equal rows; the time before the log is unknown.
    let log = "Linux 3.10.0 (h) \t06/02/2016 \t_x86_64_\t(4 CPU)\n\n\n\
               Device:  r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n\
               vdb 179.00 0.00 716.00 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n\n\
               Device:  r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n\
               vdb 165.00 0.00 660.00 0.00 8.00 0.99 6.02 6.02 0.00 6.02 99.40\n";
    let log = file_with(dir.path(), "iostat.txt", log.as_bytes());
    let table = imported(
        dir.path(),
        "table",
        &[log],
        &["--strict", "--interval", "2s"],
    );
    let rates = |options: &[&str]| {
        zoomed(&table, options)
            .into_iter()
            .map(|r| r[..2].join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(rates(&[]), ["2 179", "4 165"]);
    assert_eq!(
        rates(&["--step", "1s"]),
        ["1 179", "2 179", "3 165", "4 165"]
    );
    assert_eq!(rates(&["--step", "4s"]), ["4 172"]);
    assert_eq!(
        zoomed(&table, &["-x"])[0][12..14],
        ["", "99.8"],
        "one device's utilisation is that of all"
    );
    let out = iolens(&["zoom", "--by", "process"])
        .arg(&table)
        .output()
        .unwrap();
    assert_refused(&out, &["--by", "tables"]);
}

#[test]
fn what_zoom_prints_is_imported_as_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let log = "time r/s Kr/s us/r w/s Kw/s us/w\n0.5 0 0 0 0 0 0\n\
               1 300 19200 34 0 0 0\n1.5 2 8 5 600 76800 55\n";
    let log = file_with(dir.path(), "log.txt", log.as_bytes());
    let start = ["--start", "2026-11-29T23:59:59.5Z"];
    let first = imported(dir.path(), "first", &[log], &start);
    let shown = zoomed(&first, &[]);
    let forms = [
        &["--format", "csv"][..],
        &["--format", "csv", "-x"],
        &["--utc"],
        &["--utc", "-x"],
        &["--relative"],
        &["--by", "device", "--format", "csv"],
    ];
    for (i, options) in forms.iter().enumerate() {
        let out = iolens(&["zoom"])
            .args(*options)
            .arg(&first)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", scene(&out));
        let printed = file_with(dir.path(), &format!("{i}.txt"), &out.stdout);
        let again = imported(dir.path(), &format!("again{i}"), &[printed], &["--strict"]);
        assert_eq!(zoomed(&again, &[]), shown, "{options:?}");
    }
}

#[test]
fn a_layer_of_a_table_is_shown_where_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let log = "Linux 3.10.0 (h) \t06/02/2016 \t_x86_64_\t(4 CPU)\n\n\n\
               Device:  r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n\
               vdb 179.00 0.00 716.00 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n\
               vdb1 100.00 0.00 400.00 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n";
    let log = file_with(dir.path(), "iostat.txt", log.as_bytes());
    let table = imported(dir.path(), "table", &[log], &["--interval", "2s"]);
    let reads = |options: &[&str]| zoomed(&table, options)[0][1].clone();
    assert_eq!(reads(&[]), "179", "the disk, which its partition is on");
    assert_eq!(reads(&["-d", "vdb1"]), "100");
    assert_eq!(reads(&["-d", "vdb"]), "179");
}

#[test]
fn an_idle_device_of_a_table_is_not_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let log = "Linux 3.10.0 (h) \t06/02/2016 \t_x86_64_\t(4 CPU)\n\n\n\
               Device:  r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n\
               vdb 179.00 0.00 716.00 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n\
               vdc 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00\n\
               vdd 0.00 0.00 0.00 0.00 0.00 1.00 0.00 0.00 0.00 0.00 100.00\n";
    let log = file_with(dir.path(), "iostat.txt", log.as_bytes());
    let table = imported(dir.path(), "table", &[log], &["--interval", "2s"]);
    let report = json(&["report", table.to_str().unwrap(), "--json"]);
    let devices = report["devices"].as_array().unwrap();
    let names: Vec<&str> = devices
        .iter()
        .map(|d| d["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vdb", "vdd"], "one is idle, another hangs");
}

#[test]
fn counts_that_a_log_does_not_hold_are_null_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let report = |name: &str, files: &[&str]| {
        let files: Vec<PathBuf> = files.iter().map(|f| fixture(f)).collect();
        let recording = imported(dir.path(), name, &files, &["--strict"]);
        json(&["report", recording.to_str().unwrap(), "--json"])
    };
    let null = serde_json::Value::Null;
    let tenths = report("tenths", &["golden/seed3_agg_10hz.csv"]);
    let all = &tenths["devices"][0];
    assert_eq!(
        (
            &all["read"]["ios"],
            &all["discard"]["ios"],
            &all["flush"]["ios"]
        ),
        (&329.into(), &null, &null)
    );
    assert_eq!(
        tenths["recording"]["duration_s"], 2.0,
        "as long as the table"
    );
    // The published burst is found in the table of averages too.
    let burst = &tenths["facts"][0];
    assert_eq!(
        (&burst["kind"], &burst["start_s"], &burst["end_s"]),
        (&"microburst".into(), &153.5.into(), &153.8.into())
    );
    let evidence = &burst["evidence"];
    assert_eq!(evidence["bytes"], 460_472_832);
    assert_eq!(
        (&evidence["core_s"], &evidence["core_bytes"]),
        (&0.2.into(), &(416_518 * 1024).into())
    );
    assert_eq!(
        (&evidence["peak_iops"], &evidence["other_class_mean_max_us"]),
        (&13240.0.into(), &136_888.0.into())
    );
    let fio = report("fio", &["import/fio-mix.json"]);
    let disk = fio["devices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|d| d["name"] == "loop0")
        .unwrap();
    assert_eq!(
        (&disk["read"]["ios"], &disk["read"]["bytes"]),
        (&11970.into(), &null),
        "this fio reports no sectors"
    );
    let log = report(
        "log",
        &["import/fio-mix_bw.1.log", "import/fio-mix_clat.1.log"],
    );
    assert_eq!(
        (&log["recording"]["ios"], &log["devices"][0]["read"]["ios"]),
        (&null, &null)
    );
    assert!(log["devices"][0]["read"]["bytes"].as_u64().unwrap() > 30_000_000);
}

#[test]
fn bad_input_is_refused_in_one_line_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let new = d.join("new");
    let refused = |files: &[PathBuf], options: &[&str], words: &[&str]| {
        assert_refused(&import(d, "new", files, options), words);
        assert!(!new.exists(), "{files:?} left something behind");
    };
    let good = fixture("import/iostat-x.txt");
    let empty = file_with(d, "empty", b"");
    refused(std::slice::from_ref(&empty), &[], &["empty"]);
    refused(
        &[empty, file_with(d, "void", b"")],
        &[],
        &["empty: not the log", "it is empty"],
    );
    let garbage: Vec<u8> = (0..60_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    refused(
        &[file_with(d, "garbage", &garbage)],
        &[],
        &["garbage", "not the log"],
    );
    refused(
        &[
            good.clone(),
            file_with(d, "letter", b"Dear Sir,\nnothing.\n"),
        ],
        &[],
        &["letter", "not the log"],
    );
    refused(&[d.to_owned()], &[], &["directory"]);
    refused(&[d.join("absent")], &[], &["absent", "No such file"]);
    refused(
        &[file_with(d, "log.xz", b"\xfd7zXZ\0rest")],
        &[],
        &["log.xz", "xz -dc"],
    );
    refused(
        &[file_with(d, "log.gz", b"\x1f\x8brest")],
        &[],
        &["log.gz", "compression is damaged"],
    );
    refused(
        &[file_with(
            d,
            "boot",
            b"Linux 6.1 (h) 11/21/26 _x86_64_ (2 CPU)\n\nDevice tps\n",
        )],
        &[],
        &["boot"],
    );
    refused(
        &[fixture("import/iostat-cut.json")],
        &["--strict"],
        &["iostat-cut.json: line ", "--strict"],
    );
    refused(
        std::slice::from_ref(&good),
        &["--interval", "0"],
        &["--interval"],
    );
    refused(
        std::slice::from_ref(&good),
        &["--start", "1800-01-01T00:00:00Z"],
        &["--start", "between 1934 and 2115"],
    );
    let out = iolens(&["import", "-o", "/proc/new"])
        .arg(&good)
        .output()
        .unwrap();
    assert_refused(&out, &["/proc/new"]);
    fs::create_dir(d.join("there")).unwrap();
    assert_refused(
        &import(d, "there", std::slice::from_ref(&good), &[]),
        &["there", "exists"],
    );
    assert_eq!(fs::read_dir(d.join("there")).unwrap().count(), 0);
}

#[test]
fn logs_of_sar_and_of_diskstats_become_recordings_with_a_page_of_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    for (name, column, rows) in [
        ("sar-d.txt", "all_us", 3),
        ("sadf.csv", "all_us", 3),
        ("sadf.txt", "all_us", 3),
        ("sadf.json", "all_us", 3),
        ("diskstats.txt", "r_us", 3),
        ("iostat-xt.txt", "w_us", 3),
    ] {
        let log = fixture(&format!("import/{name}"));
        let recording = imported(dir.path(), &format!("{name}.iolens"), &[log], &[]);
        let page = dir.path().join(format!("{name}.html"));
        let report = iolens(&["report", "-o"])
            .arg(&page)
            .arg(&recording)
            .output()
            .unwrap();
        assert!(report.status.success(), "{}", scene(&report));
        let html = fs::read_to_string(&page).unwrap();
        let (_, rest) = html.split_once("id=\"iolens-data\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(json).unwrap();
        let device = &data["imported_tables"]["devices"][0]["table"];
        assert_eq!(device["row_count"], rows, "{name}");
        assert!(device["cols"][column].is_string(), "{name}: {device}");
        let has_cpu = name != "diskstats.txt";
        assert_eq!(
            data["imported_tables"]["cpu"].is_object(),
            has_cpu,
            "{name}"
        );
    }
}

#[test]
fn a_log_may_come_through_a_pipe_and_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let plain = imported(
        dir.path(),
        "plain",
        &[fixture("import/iostat-x.txt")],
        &["--strict"],
    );
    let packed = dir.path().join("iostat.log.2.gz");
    let out = Command::new("gzip")
        .arg("-c")
        .arg(fixture("import/iostat-x.txt"))
        .output()
        .unwrap();
    fs::write(&packed, out.stdout).unwrap();
    let through_pipe = dir.path().join("pipe");
    let mut c = iolens(&["import", "-", "--strict", "-o"]);
    let out = c
        .arg(&through_pipe)
        .stdin(fs::File::open(&packed).unwrap())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    let rows = read_rates(&plain).unwrap();
    let unpacked = imported(dir.path(), "packed", &[packed], &["--strict"]);
    assert_eq!(read_rates(&unpacked).unwrap(), rows);
    assert_eq!(read_rates(&through_pipe).unwrap(), rows);
}

#[test]
fn a_log_that_may_not_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let secret = file_with(dir.path(), "secret.log", b"Device r/s w/s\n");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let mut c = iolens(&["import", "-o", "/tmp/never-made"]);
    c.arg(&secret).uid(65_534);
    match c.output() {
        Ok(out) => assert_refused(&out, &["secret.log", "ermission denied"]),
        Err(e) => eprintln!("SKIP: nobody may not run the program here: {e}"),
    }
}

/// Stage, AVG in seconds and N of each line of btt's first table that has three numbers and a count.
fn btt_stages(text: &str) -> Vec<(String, f64, u64)> {
    let line = |l: &str| {
        let words: Vec<&str> = l.split_whitespace().collect();
        let [name, _, avg, _, n] = words[..] else {
            return None;
        };
        Some((name.to_lowercase(), avg.parse().ok()?, n.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn assert_as_btt(bios: &serde_json::Value, btt: &str) {
    let stages = btt_stages(btt);
    assert_eq!(stages.len(), 8, "{btt}");
    for (name, avg_s, n) in stages.iter().filter(|(name, ..)| name != "q2q") {
        let stage = &bios[name];
        assert_eq!(stage["n"].as_u64(), Some(*n), "{name}: {bios:#}");
        let mean_us = stage["mean_us"].as_f64().unwrap();
        assert!(
            (mean_us * 1e3 - avg_s * 1e9).abs() <= 1.0,
            "{name}: {mean_us} us, btt {avg_s} s"
        );
    }
}

#[test]
fn stages_of_bios_are_those_of_btt() {
    let tmp = tempfile::tempdir().unwrap();
    let files = [
        fixture("import/merge.blktrace.0"),
        fixture("import/merge.blktrace.1"),
    ];
    let rec = imported(tmp.path(), "merge.iolens", &files, &["--strict"]);
    let report = json(&["report", rec.to_str().unwrap(), "--json"]);
    let bios = &report["devices"][0]["detail"]["stages"]["bios"];
    let expected = fs::read_to_string(fixture("import/merge.blktrace.btt.txt")).unwrap();
    assert_as_btt(bios, &expected);
    for (stage, percent) in [
        ("q2g", 2.2816),
        ("g2i", 2.6452),
        ("q2m", 0.1138),
        ("i2d", 1.9381),
        ("d2c", 88.4264),
    ] {
        let share = bios[stage]["share_percent"].as_f64().unwrap();
        assert!(
            (share - percent).abs() < 1e-4,
            "{stage}: {share} %, btt {percent} %"
        );
    }
    // Windows apply: the sequential writes of the first tenth of a second are all that merged.
    let late = json(&["report", rec.to_str().unwrap(), "--json", "--from", "0.1"]);
    let bios = &late["devices"][0]["detail"]["stages"]["bios"];
    assert_eq!(
        (
            &bios["q2m"]["n"],
            &bios["q2g"]["n"],
            &bios["q2m"]["mean_us"]
        ),
        (&0.into(), &300.into(), &serde_json::Value::Null)
    );
    for f in &files {
        fs::copy(f, tmp.path().join(f.file_name().unwrap())).unwrap();
    }
    let live = Command::new("sh")
        .args([
            "-c",
            "blkparse -q -i merge -d merge.bin -O >/dev/null 2>&1 && btt -i merge.bin",
        ])
        .current_dir(tmp.path())
        .output()
        .unwrap();
    if live.status.success() {
        assert_as_btt(
            &report["devices"][0]["detail"]["stages"]["bios"],
            &String::from_utf8_lossy(&live.stdout),
        );
    } else {
        eprintln!("SKIP: no blkparse and btt here; only their saved words were compared");
    }
}

#[test]
fn a_trace_without_scheduler_has_no_such_stages() {
    let tmp = tempfile::tempdir().unwrap();
    let files = [
        fixture("import/loop.blktrace.0"),
        fixture("import/loop.blktrace.1"),
    ];
    let rec = imported(tmp.path(), "loop.iolens", &files, &[]);
    let report = json(&["report", rec.to_str().unwrap(), "--json"]);
    let bios = &report["devices"][0]["detail"]["stages"]["bios"];
    // The output of btt for these files.
    for (stage, mean_us) in [("q2g", 9.622), ("d2c", 214.020), ("q2c", 224.621)] {
        assert_eq!(bios[stage]["n"], 440, "{bios:#}");
        assert!(
            (bios[stage]["mean_us"].as_f64().unwrap() - mean_us).abs() <= 1e-3,
            "{stage}: {bios:#}"
        );
    }
    for stage in ["g2i", "q2m", "i2d", "m2d"] {
        assert_eq!(
            (&bios[stage]["n"], &bios[stage]["mean_us"]),
            (&0.into(), &serde_json::Value::Null),
            "{stage}"
        );
    }
}

/// The sum of the CPU shares, in percent.
fn sum_of_shares(cpu: &iolens_core::model::CpuShares) -> f64 {
    [
        cpu.user, cpu.nice, cpu.system, cpu.iowait, cpu.steal, cpu.idle,
    ]
    .into_iter()
    .flatten()
    .sum()
}
