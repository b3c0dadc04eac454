//! Who did the I/O (A27), as keys of the report's document and as a table.

use iolens_core::analysis::Report;
use iolens_core::analysis::actors::{ActorRow, FileUse, OtherActors};
use iolens_core::model::{Class, DevId, Inode, RecordingMeta};
use serde::Serialize;

use super::NOT_KNOWN;
use super::escape::terminal;
use super::layout::{Layout, count_of, cut, number, size};
use super::report_json::device_name;
use super::rows_shown::RowsShown;
use super::workload::Workload;
use iolens_core::model::Names;

/// One process, or several of one name in one control group, on one device in one class. Percentiles are within 0.4 %.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ActorEntry {
    /// Name of the device.
    device: String,
    /// Name of the process; `null` if it is not known.
    process: Option<String>,
    /// Process ID; `null` if several processes share the entry, or if it is not known.
    pid: Option<i32>,
    /// Number of processes that share the entry (counted up to 4096); 0 if it is not known.
    processes: u64,
    /// Path of the control group, or its number where the path is not known.
    cgroup: Option<String>,
    /// `NAMESPACE/NAME` of the pod that the control group belongs to.
    pod: Option<String>,
    /// Reads, writes, discards or flushes.
    class: Class,
    /// Completed I/Os.
    ios: u64,
    /// Bytes moved by these I/Os.
    bytes: u64,
    /// Sum of the latencies from start to completion. Entries are sorted by it.
    io_time_s: f64,
    /// Median latency (nearest rank, within 0.4 %).
    p50_us: f64,
    /// 99th percentile (nearest rank, within 0.4 %).
    p99_us: f64,
    /// Up to three files, those with most I/O time first. Lower bounds where more than 16 files were used.
    files: Vec<FileEntry>,
}

/// I/O of an entry to one file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileEntry {
    /// Path of the file, or its inode number if the path is not known.
    file: String,
    /// Completed I/Os.
    ios: u64,
    /// Bytes moved by these I/Os.
    bytes: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
}

/// Sum of all I/Os that no entry includes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OtherEntry {
    /// Completed I/Os.
    ios: u64,
    /// Bytes moved by these I/Os.
    bytes: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
}

/// The entries, those with most I/O time first.
pub(super) fn entries(report: &Report, meta: &RecordingMeta, names: &Names) -> Vec<ActorEntry> {
    let rows = report.actors.rows.iter();
    rows.map(|row| entry(row, meta, names)).collect()
}

/// What the entries leave out.
pub(super) fn others(report: &Report) -> OtherEntry {
    let OtherActors {
        ios,
        bytes,
        io_time_ns,
    } = report.actors.others;
    OtherEntry {
        ios,
        bytes,
        io_time_s: io_time_ns as f64 / 1e9,
    }
}

fn entry(row: &ActorRow, meta: &RecordingMeta, names: &Names) -> ActorEntry {
    let mut files = Vec::new();
    for used in &row.files {
        files.push(FileEntry {
            file: file_name(&used.file, meta, names),
            ios: used.ios,
            bytes: used.bytes,
            io_time_s: used.io_time_ns as f64 / 1e9,
        });
    }
    ActorEntry {
        device: device_name(meta, row.group.dev),
        process: row.group.comm.map(|comm| comm.to_text().into_owned()),
        pid: single_pid(row),
        processes: row.pids.len() as u64,
        cgroup: row.group.cgroup.map(|id| cgroup_name(id, names)),
        pod: row.group.cgroup.and_then(|id| pod_name(id, names)),
        class: row.group.class,
        ios: row.ios,
        bytes: row.bytes,
        io_time_s: row.io_time_ns as f64 / 1e9,
        p50_us: row.p50_ns as f64 / 1e3,
        p99_us: row.p99_ns as f64 / 1e3,
        files,
    }
}

fn single_pid(row: &ActorRow) -> Option<i32> {
    match *row.pids {
        [pid] => Some(pid),
        _ => None,
    }
}

/// The path of a control group, or its number where that is not known.
pub(super) fn cgroup_name(id: i64, names: &Names) -> String {
    let path = names.cgroups.get(&id).cloned();
    path.unwrap_or_else(|| id.to_string())
}

fn pod_name(id: i64, names: &Names) -> Option<String> {
    let path = names.cgroups.get(&id)?;
    let name = names.pods.get(&id).map(String::as_str);
    Workload::of(path, name).pod
}

/// The path of a file, or its inode number and file system where that is not known.
pub(super) fn file_name(file: &Inode, meta: &RecordingMeta, names: &Names) -> String {
    if let Some(path) = names.files.get(file) {
        return path.clone();
    }
    let file_system = file_system_name(meta, DevId(file.fs_dev));
    format!("inode {} on {file_system}", file.ino)
}

/// The partition or disk that holds a file system, by name if the recording knows it.
pub(super) fn file_system_name(meta: &RecordingMeta, dev: DevId) -> String {
    let mut partitions = meta.devices.iter().flat_map(|d| &d.partitions);
    let partition = partitions.find(|(_, id)| *id == dev);
    partition.map_or_else(|| device_name(meta, dev), |(name, _)| name.clone())
}

const COLUMNS: [&str; 10] = [
    "Process",
    "cgroup or pod",
    "device",
    "class",
    "I/Os",
    "size",
    "time s",
    "p50 us",
    "p99 us",
    "file with most",
];
/// Columns that a table that continues below repeats: process, control group, device.
const KEYS: usize = 3;
/// Columns that are left out on a narrow terminal, the first one first: size, p50, class, file.
const DROPPABLE: [usize; 4] = [5, 7, 3, 9];
/// Control groups are cut to this width, on terminals of less than 100 columns to the narrow one.
const CGROUP_WIDTH: usize = 28;
const NARROW_CGROUP_WIDTH: usize = 16;
/// Names of files are cut to the first of these widths with which all columns fit; else to the last one.
const FILE_WIDTHS: [usize; 3] = [44, 32, 20];

/// The table; nothing where no I/O has a known process.
pub(super) fn table(
    report: &Report,
    meta: &RecordingMeta,
    names: &Names,
    shown: &RowsShown,
    layout: Layout,
) -> String {
    let rows: Vec<&ActorRow> = report
        .actors
        .rows
        .iter()
        .filter(|row| shown.has(row.group.dev))
        .collect();
    if !rows.iter().any(|row| row.group.comm.is_some()) {
        return String::new();
    }
    let cgroup_width = if layout.width < 100 {
        NARROW_CGROUP_WIDTH
    } else {
        CGROUP_WIDTH
    };
    let titles = COLUMNS.map(str::to_owned);
    // The widest column of files with which the table fits is taken. Where none fits, the cells of the narrowest stay.
    let mut cells = Vec::new();
    for file_width in FILE_WIDTHS {
        cells.clear();
        for row in rows.iter().take(shown.max_rows) {
            cells.push(text_row(row, meta, names, cgroup_width, file_width));
        }
        if layout.fits(&titles, &cells) {
            break;
        }
    }
    // These columns hold words; all others hold numbers.
    let mut out = layout.table_that_fits(
        &titles,
        &cells,
        KEYS,
        |i| matches!(i, 0..=3 | 9),
        &DROPPABLE,
    );
    let left_out = rows.len() - cells.len();
    if left_out > 0 {
        let more = count_of(left_out as u64, "more row");
        out.push_str(&format!("  and {more} with less I/O time\n"));
    }
    out
}

fn text_row(
    row: &ActorRow,
    meta: &RecordingMeta,
    names: &Names,
    cgroup_width: usize,
    file_width: usize,
) -> Vec<String> {
    let cgroup = row.group.cgroup.map(|id| {
        let pod = pod_name(id, names);
        pod.unwrap_or_else(|| cgroup_name(id, names))
    });
    let cgroup = cgroup.unwrap_or_else(|| "-".to_owned());
    let file = row.files.first();
    vec![
        terminal(&process_label(row, meta)).into_owned(),
        cut(&terminal(&cgroup), cgroup_width),
        terminal(&device_name(meta, row.group.dev)).into_owned(),
        row.group.class.name().to_owned(),
        row.ios.to_string(),
        size(row.bytes as f64),
        number(Some(row.io_time_ns as f64 / 1e9), 3),
        number(Some(row.p50_ns as f64 / 1e3), 1),
        number(Some(row.p99_ns as f64 / 1e3), 1),
        file.map_or_else(
            || "-".to_owned(),
            |used| file_label(used, row, meta, names, file_width),
        ),
    ]
}

/// `NAME[PID]`, as in rows of `zoom --by process`.
fn process_label(row: &ActorRow, meta: &RecordingMeta) -> String {
    let name = row
        .group
        .comm
        .map_or_else(|| NOT_KNOWN.to_owned(), |comm| comm.to_text().into_owned());
    match *row.pids {
        [] => name,
        [pid] if meta.recorder_tgid == Some(pid) => format!("{name}[{pid}, recorder]"),
        [pid] => format!("{name}[{pid}]"),
        _ => format!("{name}[{} processes]", row.pids.len()),
    }
}

/// The file with its share of the row's I/O time.
fn file_label(
    used: &FileUse,
    row: &ActorRow,
    meta: &RecordingMeta,
    names: &Names,
    width: usize,
) -> String {
    let name = file_name(&used.file, meta, names);
    let percent = 100.0 * used.io_time_ns as f64 / row.io_time_ns.max(1) as f64;
    let name = cut(&terminal(&name), width);
    format!("{name} ({percent:.0} %)")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::report_json::RecordingFacts;
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{Comm, Device, Io, Op, Source};

    const TENANTS: [(i64, &str); 2] = [(11, "/tenant-a"), (22, "/tenant-b")];

    /// Two tenants that both call their process `worker`; that of tenant-b takes three times as long.
    fn tenants() -> (Report, RecordingMeta, Names) {
        let sda = DevId::new(8, 0);
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.devices = vec![Device::named("sda", sda)];
        let mut names = Names::default();
        let mut builder = ReportBuilder::new(Window::new(0, 1_000_000_000));
        for (cgroup, path) in TENANTS {
            names.cgroups.insert(cgroup, path.to_owned());
        }
        for i in 0..100 {
            for (cgroup, _) in TENANTS {
                let io = Io::new(
                    (i + 1) * 1_000_000 + cgroup,
                    sda,
                    Op::READ,
                    4096,
                    Some(0),
                    10_000 * (cgroup - 7),
                );
                builder.push(&Io {
                    comm: Some(Comm::new(b"worker")),
                    tgid: Some(100 + cgroup as i32),
                    cgroup: Some(cgroup),
                    fs_dev: Some(8 << 20),
                    ino: Some(cgroup),
                    ..io
                });
            }
        }
        let data = builder.finish(1_000_000_000);
        let of_b = data.actors.rows[0].files[0].file;
        names.files.insert(of_b, "/data/b\x1b[31m.db".to_owned());
        (data, meta, names)
    }

    #[test]
    fn tenants_with_one_process_name_are_two_entries_the_slower_first() {
        let (report, meta, names) = tenants();
        let entries = serde_json::to_value(entries(&report, &meta, &names)).expect("plain structs");
        assert_eq!(
            entries[0],
            serde_json::json!({
                "device": "sda", "process": "worker", "pid": 122, "processes": 1,
                "cgroup": "/tenant-b", "pod": null, "class": "read",
                "ios": 100, "bytes": 409_600, "io_time_s": 0.015, "p50_us": 150.0, "p99_us": 150.0,
                "files": [{ "file": "/data/b\x1b[31m.db", "ios": 100, "bytes": 409_600, "io_time_s": 0.015 }],
            })
        );
        assert_eq!(entries[1]["cgroup"], "/tenant-a");
        assert_eq!(entries[1]["files"][0]["file"], "inode 11 on sda");
        assert_eq!(entries.as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn the_table_fits_the_terminal_and_escapes_names() {
        let (report, meta, names) = tenants();
        let facts = RecordingFacts::default();
        let shown = RowsShown::of_all(&facts, 1);
        let of_width = |width| {
            let layout = Layout {
                width,
                colour: false,
            };
            table(&report, &meta, &names, &shown, layout)
        };
        let wide = of_width(usize::MAX);
        assert!(
            wide.contains("worker[122]") && wide.contains("/tenant-b") && !wide.contains('\x1b'),
            "{wide}"
        );
        assert!(wide.contains("(100 %)"), "{wide}");
        assert!(wide.ends_with("  and 1 more row with less I/O time\n"));
        let narrow = of_width(80);
        assert_eq!(narrow.lines().count(), 3, "{narrow}");
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        assert!(narrow.contains("/tenant-b"), "{narrow}");
        let middle = of_width(110);
        assert!(
            middle.contains("file with most") && middle.contains("(100 %)"),
            "{middle}"
        );
    }

    #[test]
    fn layers_are_left_out_unless_they_are_asked_for() {
        let (report, meta, names) = tenants();
        let sda = DevId::new(8, 0);
        let mut facts = RecordingFacts::default();
        facts.layers.insert(sda, vec!["sdb".to_owned()]);
        let text = |facts: &RecordingFacts| {
            let shown = RowsShown::of_asked(facts, 9);
            table(&report, &meta, &names, &shown, Layout::PLAIN)
        };
        assert_eq!(text(&facts), "");
        let asked = RecordingFacts {
            detailed: BTreeSet::from([sda]),
            ..facts.clone()
        };
        assert_eq!(text(&asked).lines().count(), 3);
    }
}
