//! Utilisation by path: a tree for people, JSON for programs. What both show is first made plain ([`UtilInterval`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use iolens_core::analysis::counters::io_ticks::Regime;
use iolens_core::analysis::device::utilisation::{Busy, Combined};
use iolens_core::model::DevId;
use serde::Serialize;

use super::escape::{self, terminal};
use super::estimator::about;
use super::layout::{self, number};

/// A device of a stack.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerView {
    /// Kernel name.
    pub name: String,
    /// `disk`, `part`, `lvm`, `raid1` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// dm name, backing file.
    pub label: Option<String>,
    /// Layers directly below this one.
    pub below: Vec<LayerView>,
}

/// A disk over the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskView {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub id: DevId,
    /// How busy.
    pub busy: Busy,
    /// Reads and writes per second, bytes read and written per second, mean milliseconds of both.
    pub rates: [Option<f64>; 5],
    /// In flight at the end.
    pub in_flight: Option<u64>,
}

/// A path over the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct PathView {
    /// As asked for.
    pub path: String,
    /// Mount point, kind of file system, what was mounted; `None`: the path is a device.
    pub mount: Option<[String; 3]>,
    /// Why there is no disk.
    pub no_disk: Option<String>,
    /// The devices right under the file system.
    pub layers: Vec<LayerView>,
    /// The disks at the bottom.
    pub disks: Vec<DiskView>,
    /// All of them together.
    pub combined: Option<Combined>,
}

/// Everything over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct UtilInterval {
    /// `ebpf` or `counters`.
    pub source: &'static str,
    /// Why there are no events, what was lost: remarks for people.
    pub remarks: Vec<String>,
    /// The kernel's estimator, where its release is known.
    pub estimator: Option<Regime>,
    /// Wall clock of the interval's end, seconds since the Unix epoch.
    pub unix_s: f64,
    /// Length of the interval.
    pub interval_s: f64,
    /// The paths.
    pub paths: Vec<PathView>,
}

impl UtilInterval {
    /// Disks under more than one path, with the paths.
    fn shared(&self) -> Vec<(&str, Vec<&str>)> {
        let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for path in &self.paths {
            let disks: BTreeSet<&str> = path.disks.iter().map(|d| d.name.as_str()).collect();
            for disk in disks {
                users.entry(disk).or_default().push(&path.path);
            }
        }
        users.retain(|_, paths| paths.len() > 1);
        users.into_iter().collect()
    }
}

fn percent(v: Option<f64>) -> String {
    layout::percent(v, 1, "-")
}

/// The tree.
pub fn text(view: &UtilInterval) -> String {
    let mut out = String::new();
    let shared = view.shared();
    for path in &view.paths {
        head(&mut out, path);
        let n = path.layers.len();
        for (i, layer) in path.layers.iter().enumerate() {
            branch(&mut out, layer, "", i + 1 == n, path, &shared);
        }
        out.push('\n');
    }
    let estimator = view
        .estimator
        .map_or(String::new(), |regime| format!("; {}", about(regime)));
    let how = match view.source {
        "ebpf" => "busy time exact, from every I/O".to_owned(),
        _ => format!("busy time from the kernel's io_ticks{estimator}"),
    };
    let _ = writeln!(
        out,
        "{:.3} s, source {}: {how}",
        view.interval_s, view.source
    );
    for remark in &view.remarks {
        let _ = writeln!(out, "{}", terminal(remark));
    }
    out
}

fn head(out: &mut String, path: &PathView) {
    let mount = match &path.mount {
        Some([point, kind, source]) => format!(
            "{} of {} at {}",
            terminal(kind),
            terminal(source),
            terminal(point)
        ),
        None => "a block device".to_owned(),
    };
    let _ = write!(out, "{}  ({mount})", terminal(&path.path));
    match (&path.combined, &path.no_disk) {
        (Some(c), _) if path.disks.len() == 1 => {
            let _ = write!(out, "  {:.1} % busy", c.any_percent);
        }
        (Some(c), _) => {
            let (low, high) = c.any_range_percent;
            let range = if high - low < 0.05 {
                String::new()
            } else {
                format!(" ({low:.1} to {high:.1})")
            };
            let _ = write!(
                out,
                "  mean {:.1} %, max {:.1} %, any disk busy {:.1} %{range}",
                c.mean_percent, c.max_percent, c.any_percent
            );
        }
        (None, Some(why)) => {
            let _ = write!(out, "  -: {}", terminal(why));
        }
        (None, None) => out.push_str("  not known"),
    }
    out.push('\n');
}

fn branch(
    out: &mut String,
    l: &LayerView,
    indent: &str,
    last: bool,
    path: &PathView,
    shared: &[(&str, Vec<&str>)],
) {
    let label = l
        .label
        .as_deref()
        .map_or(String::new(), |t| format!(" {}", terminal(t)));
    let _ = write!(
        out,
        "{indent}{} {}{label} ({})",
        if last { "└─" } else { "├─" },
        terminal(&l.name),
        terminal(&l.kind)
    );
    if let Some(d) = path.disks.iter().find(|d| d.name == l.name) {
        let [r, w, rb, wb, wait] = d.rates;
        let _ = write!(
            out,
            "  {} busy, {} r/s, {} w/s, {} + {} MiB/s, await {} ms, {} in flight",
            percent(d.busy.busy_percent),
            number(r, 0),
            number(w, 0),
            mebibytes(rb),
            mebibytes(wb),
            number(wait, 2),
            d.in_flight.map_or("-".to_owned(), |n| n.to_string()),
        );
        // A disk that other paths use too may be busy for their sake.
        let others = shared
            .iter()
            .find(|(name, _)| *name == d.name)
            .map(|(_, users)| users);
        let others: Vec<_> = others
            .into_iter()
            .flatten()
            .filter(|u| **u != path.path)
            .map(|u| terminal(u))
            .collect();
        if !others.is_empty() {
            let _ = write!(out, "; shared with {}", others.join(", "));
        }
    }
    out.push('\n');
    let deeper = format!("{indent}{}", if last { "   " } else { "│  " });
    for (i, b) in l.below.iter().enumerate() {
        branch(out, b, &deeper, i + 1 == l.below.len(), path, shared);
    }
}

fn mebibytes(bytes: Option<f64>) -> String {
    number(bytes.map(|b| b / (1u64 << 20) as f64), 1)
}

/// `iolens util --json`, of one interval.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UtilDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// Where busy time comes from: `ebpf` or `counters`.
    source: &'static str,
    /// Reasons for missing events, and losses, as text.
    remarks: &'a [String],
    /// How this kernel counts busy time; `null` if its release is not known.
    estimator: Option<Regime>,
    /// Explanation of `estimator` and of the accuracy of `%util`, as text.
    estimator_about: Option<&'static str>,
    /// Wall clock of the interval's end, seconds since 1970 (UTC).
    time_unix_s: f64,
    /// Length of the interval.
    interval_s: f64,
    paths: Vec<UtilPath<'a>>,
    /// Disks below more than one of the paths.
    shared_disks: Vec<SharedDisk<'a>>,
}

/// A path and the disks below it. What is not known is `null`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UtilPath<'a> {
    path: &'a str,
    /// Mount point of the path's file system; `null` if the path is a device.
    mount_point: Option<&'a str>,
    /// Type of the file system.
    fs_type: Option<&'a str>,
    /// Source of the mount, such as a device.
    fs_source: Option<&'a str>,
    /// Reason why no disk is found below the path.
    no_disk_reason: Option<&'a str>,
    /// Mean busy time of the disks.
    mean_percent: Option<f64>,
    /// Busy time of the busiest disk.
    max_percent: Option<f64>,
    /// Share of time in which at least one of the disks was busy.
    any_percent: Option<f64>,
    /// Lower bound of `any_percent` if it is not known when each disk was busy.
    any_low_percent: Option<f64>,
    /// Upper bound of `any_percent`.
    any_high_percent: Option<f64>,
    /// Devices directly below the file system, and the devices below each.
    stack: &'a [LayerView],
    disks: Vec<UtilDisk<'a>>,
}

/// A disk over the interval.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UtilDisk<'a> {
    name: &'a str,
    major: u32,
    minor: u32,
    busy_percent: Option<f64>,
    method: Option<&'static str>,
    /// Busy time as counted by the kernel.
    io_ticks_percent: Option<f64>,
    /// Standard deviation of the estimated busy time.
    sigma_percent: Option<f64>,
    ios: Option<u64>,
    /// Reads completed per second.
    r_per_s: Option<f64>,
    /// Writes completed per second.
    w_per_s: Option<f64>,
    /// Bytes read per second.
    read_bytes_per_s: Option<f64>,
    /// Bytes written per second.
    write_bytes_per_s: Option<f64>,
    /// Mean latency of reads and writes, in milliseconds.
    await_ms: Option<f64>,
    /// In flight at the end of the interval.
    in_flight: Option<u64>,
}

/// A disk below several of the paths.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SharedDisk<'a> {
    name: &'a str,
    paths: Vec<&'a str>,
}

/// One JSON document (on one line, so that a stream of them is NDJSON).
///
/// # Errors
/// It cannot be serialised.
pub fn json(view: &UtilInterval) -> serde_json::Result<String> {
    let shared = view.shared().into_iter();
    let document = UtilDocument {
        schema_version: super::SCHEMA_VERSION,
        source: view.source,
        remarks: &view.remarks,
        estimator: view.estimator,
        estimator_about: view.estimator.map(about),
        time_unix_s: view.unix_s,
        interval_s: view.interval_s,
        paths: view.paths.iter().map(UtilPath::of).collect(),
        shared_disks: shared
            .map(|(name, paths)| SharedDisk { name, paths })
            .collect(),
    };
    let text = serde_json::to_string(&document)?;
    Ok(escape::json(&(text + "\n")).into_owned())
}

impl UtilPath<'_> {
    fn of(path: &PathView) -> UtilPath<'_> {
        let combined = path.combined;
        let [mount_point, fs_type, fs_source] = match &path.mount {
            Some(mount) => mount.each_ref().map(|part| Some(part.as_str())),
            None => [None; 3],
        };
        UtilPath {
            path: &path.path,
            mount_point,
            fs_type,
            fs_source,
            no_disk_reason: path.no_disk.as_deref(),
            mean_percent: combined.map(|c| c.mean_percent),
            max_percent: combined.map(|c| c.max_percent),
            any_percent: combined.map(|c| c.any_percent),
            any_low_percent: combined.map(|c| c.any_range_percent.0),
            any_high_percent: combined.map(|c| c.any_range_percent.1),
            stack: &path.layers,
            disks: path.disks.iter().map(UtilDisk::of).collect(),
        }
    }
}

impl UtilDisk<'_> {
    fn of(disk: &DiskView) -> UtilDisk<'_> {
        let [
            r_per_s,
            w_per_s,
            read_bytes_per_s,
            write_bytes_per_s,
            await_ms,
        ] = disk.rates;
        UtilDisk {
            name: &disk.name,
            major: disk.id.major(),
            minor: disk.id.minor(),
            busy_percent: disk.busy.busy_percent,
            method: disk.busy.busy_percent.map(|_| disk.busy.method.name()),
            io_ticks_percent: disk.busy.io_ticks_percent,
            sigma_percent: disk.busy.sigma_pp,
            ios: disk.busy.ios,
            r_per_s,
            w_per_s,
            read_bytes_per_s,
            write_bytes_per_s,
            await_ms,
            in_flight: disk.in_flight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::counters::io_ticks::Regime;
    use iolens_core::analysis::device::utilisation::{Method, combine};

    fn disk(name: &str, minor: u32, percent: Option<f64>) -> DiskView {
        let busy = Busy {
            busy_percent: percent,
            io_ticks_percent: percent,
            sigma_pp: None,
            method: Method::IoTicks,
            ios: Some(7),
        };
        let rates = [Some(10.0), None, Some(1048576.0), None, Some(0.5)];
        DiskView {
            name: name.into(),
            id: DevId::new(8, minor),
            busy,
            rates,
            in_flight: percent.map(|_| 2),
        }
    }

    fn layer(name: &str, kind: &str, label: Option<&str>, below: Vec<LayerView>) -> LayerView {
        LayerView {
            name: name.into(),
            kind: kind.into(),
            label: label.map(str::to_owned),
            below,
        }
    }

    /// Two paths that share sda, one of them a mirror; and one without a disk.
    fn view() -> UtilInterval {
        let leg = |n: &str| layer(n, "disk", None, vec![]);
        let path = |path: &str, layers, disks: Vec<DiskView>, no_disk: Option<&str>| PathView {
            path: path.into(),
            mount: Some([path.into(), "ext4".into(), "/dev/x\u{1b}[31m".into()]),
            no_disk: no_disk.map(str::to_owned),
            layers,
            combined: combine(
                &disks
                    .iter()
                    .map(|d| d.busy.busy_percent)
                    .collect::<Vec<_>>(),
                None,
            ),
            disks,
        };
        let mirror = layer("md0", "raid1", Some("home"), vec![leg("sda"), leg("sdb")]);
        UtilInterval {
            source: "counters",
            remarks: vec!["no events: not allowed".into()],
            estimator: Some(Regime::Sampled),
            unix_s: 1.0,
            interval_s: 1.0,
            paths: vec![
                path(
                    "/data",
                    vec![mirror],
                    vec![disk("sda", 0, Some(50.0)), disk("sdb", 16, Some(20.0))],
                    None,
                ),
                path(
                    "/logs",
                    vec![leg("sda")],
                    vec![disk("sda", 0, Some(50.0))],
                    None,
                ),
                path(
                    "/tmp",
                    vec![],
                    vec![],
                    Some("tmpfs has no block device under it"),
                ),
            ],
        }
    }

    #[test]
    fn the_tree_shows_who_shares_and_lets_no_name_colour_the_screen() {
        let text = text(&view());
        assert!(
            text.contains("mean 35.0 %, max 50.0 %, any disk busy 60.0 % (50.0 to 70.0)"),
            "{text}"
        );
        assert!(text.contains("   ├─ sda (disk)  50.0 % busy, 10 r/s, - w/s, 1.0 + - MiB/s, await 0.50 ms, 2 in flight; shared with /logs\n"), "{text}");
        assert!(
            text.contains("   └─ sdb (disk)  20.0 % busy")
                && text.contains("└─ md0 home (raid1)\n"),
            "{text}"
        );
        assert!(
            text.contains("-: tmpfs has no block device under it"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn json_says_null_for_what_is_not_known() {
        let mut v = view();
        v.paths[1].disks[0] = disk("sda", 0, None);
        v.paths[1].combined = None;
        let text = json(&v).expect("serialisable");
        assert_eq!(text.lines().count(), 1);
        let doc: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let unknown = &doc["paths"][1];
        assert!(
            unknown["max_percent"].is_null()
                && unknown["disks"][0]["busy_percent"].is_null()
                && unknown["disks"][0]["method"].is_null()
        );
        assert!(doc["paths"][2]["any_percent"].is_null());
        assert_eq!(
            doc["shared_disks"],
            serde_json::json!([{"name": "sda", "paths": ["/data", "/logs"]}])
        );
        assert_eq!(
            (
                &doc["paths"][0]["any_low_percent"],
                &doc["paths"][0]["any_high_percent"]
            ),
            (&serde_json::json!(50.0), &serde_json::json!(70.0))
        );
    }
}
