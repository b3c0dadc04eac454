//! The rows of `zoom`: filters, the first subjects, their order and their totals.

use std::path::PathBuf;

use super::machine::{assert_refused, run};
use super::wall_clock::{S, record, stdout};

struct Recorded {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

/// Ten seconds of `busy` (7), which writes /data/wal/1 on sda, and `calm` (8), which reads /data/table on sdb; sdc is idle.
fn recorded() -> Recorded {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    record(&path, 1_795_000_000 * S, 10);
    Recorded { _dir: dir, path }
}

impl Recorded {
    /// The rows of `zoom --format csv`: by the names of the columns.
    fn rows(&self, words: &[&str]) -> Vec<Vec<(String, String)>> {
        let path = self.path.to_str().unwrap();
        let csv = stdout(&[&["zoom", path, "--format", "csv"], words].concat());
        let mut lines = csv.lines().map(|l| l.split(',').map(str::to_owned));
        let names: Vec<String> = lines.next().unwrap().collect();
        lines
            .map(|l| names.iter().cloned().zip(l).collect())
            .collect()
    }

    /// One column of all rows.
    fn column(&self, name: &str, words: &[&str]) -> Vec<String> {
        let cell = |row: Vec<(String, String)>| {
            let found = row.into_iter().find(|(n, _)| n == name);
            found.unwrap_or_else(|| panic!("no column {name}")).1
        };
        self.rows(words).into_iter().map(cell).collect()
    }

    fn table(&self, words: &[&str]) -> String {
        stdout(&[&["zoom", self.path.to_str().unwrap()], words].concat())
    }
}

#[test]
fn filters_leave_only_the_ios_that_are_asked_for() {
    let r = recorded();
    for (words, reads, writes) in [
        (&["--device", "sda"][..], "0", "10"),
        (&["-d", "/dev/sdb"], "1", "0"),
        (&["--process", "busy"], "0", "10"),
        (&["--process", "8"], "1", "0"),
        (&["--process", "calm[8]"], "1", "0"),
        (&["--file", "/data/wal"], "0", "10"),
        (&["--file", "table"], "1", "0"),
        (&["--file", "/data"], "1", "10"),
        (&["--class", "read"], "1", "0"),
        (&["--class", "flush"], "0", "0"),
        (&["--process", "busy", "--device", "sdb"], "0", "0"),
    ] {
        let words = [words, &["--totals"]].concat();
        assert_eq!(r.column("r_per_s", &words), [reads], "{words:?}");
        assert_eq!(r.column("w_per_s", &words), [writes], "{words:?}");
    }
    let flushes = r.column("f_per_s", &["--class", "flush", "--totals"]);
    assert_eq!(flushes, ["0"]);
    let path = r.path.to_str().unwrap();
    let out = run(&["zoom", path, "--file", "/nowhere"]);
    assert_refused(&out, &["--file /nowhere", "--by file"]);
    let out = run(&["zoom", path, "--process", "busi"]);
    assert_refused(&out, &["--process busi", "--by process"]);
    let out = run(&["zoom", path, "--device", "sdx"]);
    assert_refused(&out, &["sdx", "sda, sdb, sdc"]);
}

#[test]
fn idle_devices_have_no_rows_unless_they_are_named() {
    let r = recorded();
    let by_device = ["--by", "device", "--step", "10s"];
    assert_eq!(r.column("device", &by_device), ["sda", "sdb"]);
    let named = [&by_device[..], &["-d", "sdc"]].concat();
    assert_eq!(r.column("device", &named), ["sdc"]);
}

#[test]
fn the_first_subjects_are_those_of_the_chosen_column() {
    let r = recorded();
    let by = |more: &[&str]| {
        r.column(
            "process",
            &[&["--by", "process", "--totals"], more].concat(),
        )
    };
    assert_eq!(by(&["--top", "1"]), ["busy[7]"], "most I/O time");
    assert_eq!(by(&["--top", "1", "--sort", "r_per_s"]), ["calm[8]"]);
    assert_eq!(by(&["--sort", "r/s"]), ["calm[8]", "busy[7]"]);
    assert_eq!(by(&["--sort", "w/s"]), ["busy[7]", "calm[8]"]);
    // In the second half of each second only `calm` has I/Os.
    let rows = r.column(
        "process",
        &["--by", "process", "--top", "1", "--step", "500ms"],
    );
    assert_eq!(rows, ["busy[7]", ""].repeat(10));
    let path = r.path.to_str().unwrap();
    let out = run(&["zoom", path, "--sort", "speed"]);
    assert_refused(&out, &["--sort", "r_per_s", "io_time"]);
}

#[test]
fn tables_end_with_the_totals_of_each_subject() {
    let r = recorded();
    let table = r.table(&["--by", "process", "--relative"]);
    let (_, totals) = table.split_once("\nin all, 10.000 s:\n").unwrap();
    let totals: Vec<Vec<&str>> = totals
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        totals[0],
        ["total", "0", "0", "-", "10", "40", "100", "busy[7]"],
        "{table}"
    );
    assert_eq!(
        totals[1],
        ["total", "1", "4", "100", "0", "0", "-", "calm[8]"],
        "{table}"
    );
    assert_eq!(totals.len(), 2, "{table}");
}

#[test]
fn waits_are_columns_of_their_own_that_add_up_to_the_io_time() {
    let r = recorded();
    let parts = [
        "undisturbed_s",
        "others_s",
        "own_s",
        "held_s",
        "device_s",
        "unknown_s",
    ];
    for words in [
        &["--by", "process"][..],
        &["--by", "device"],
        &["--class", "write"],
        &[],
    ] {
        let rows = r.rows(&[words, &["--waits"]].concat());
        let mut waited_s = 0.0;
        let mut io_time_s = 0.0;
        for row in &rows {
            let number = |name: &str| -> f64 {
                let cell = &row.iter().find(|(n, _)| n == name).unwrap().1;
                cell.parse().unwrap_or(0.0)
            };
            waited_s += parts.iter().map(|part| number(part)).sum::<f64>();
            io_time_s += number("r_per_s") * number("r_us") / 1e6;
            io_time_s += number("w_per_s") * number("w_us") / 1e6;
        }
        assert!(
            io_time_s > 0.0 && (waited_s - io_time_s).abs() < 1e-6,
            "{words:?}: {rows:?}"
        );
    }
    // `busy` needs 0.01 s in total, `calm` a tenth of that.
    let sorted = ["--by", "process", "--totals", "--waits", "--sort"];
    for column in ["undisturbed_s", "undisturbed s"] {
        let first = [&sorted[..], &[column, "--top", "1"]].concat();
        assert_eq!(r.column("process", &first), ["busy[7]"], "{column}");
    }
    let path = r.path.to_str().unwrap();
    let out = run(&["zoom", path, "--sort", "undisturbed_s"]);
    assert_refused(&out, &["--sort", "--waits"]);
    let table = r.table(&["--by", "process", "--waits"]);
    assert!(table.contains("undisturbed s"), "{table}");
    assert!(!r.table(&[]).contains("undisturbed"));
}
