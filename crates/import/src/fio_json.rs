//! Parses fio's JSON and JSON+, versions 2 and 3.

use std::collections::BTreeMap;
use std::sync::Arc;

use iolens_core::model::{Class, DevId, IntervalRates};

use super::json::{Json, parse_documents};
use super::log::{Epoch, Log};

/// No host has a longer name. Each job and disk of a client stores it, so longer ones are truncated.
const MAX_HOST_CHARS: usize = 255;
/// The mark of each job repeats the global options, up to this many bytes.
const MAX_REPEATED: usize = 4 << 10;

/// One direction of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioSide {
    /// Bytes transferred.
    pub bytes: f64,
    /// I/Os completed, including short ones.
    pub ios: f64,
    /// I/Os that transferred less than requested.
    pub short_ios: f64,
    /// Bytes per second as fio computed them.
    pub bytes_per_s: f64,
    /// I/Os per second as fio computed them.
    pub ios_per_s: f64,
    /// Runtime of the job, in milliseconds.
    pub runtime_ms: f64,
    /// Mean latency from submission to completion, in microseconds; `None` if fio was configured not to measure it.
    pub lat_mean_us: Option<f64>,
    /// Mean latency from the kernel's acceptance to completion, in microseconds.
    pub clat_mean_us: Option<f64>,
    /// Percentiles of `clat` (or `lat`): (percent, microseconds).
    pub percentiles_us: Vec<(f64, f64)>,
}

/// One job, or a group of them with `group_reporting`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioJob {
    /// Name of the job.
    pub name: String,
    /// The host that ran it, if a server collected the results.
    pub host: Option<String>,
    /// First error, as errno.
    pub error: f64,
    /// Global options: (name, value). All jobs of a run share them.
    pub globals: Arc<[(String, String)]>,
    /// The job's own options.
    pub options: Vec<(String, String)>,
    /// Reads, writes and trims.
    pub sides: [FioSide; 3],
    /// CPU time in user mode, in percent of the run.
    pub usr_cpu: Option<f64>,
    /// CPU time in the kernel, in percent of the run.
    pub sys_cpu: Option<f64>,
}

impl FioJob {
    /// The value of an option; the job's own has priority over the global one.
    pub fn option(&self, name: &str) -> Option<&str> {
        let own = self.options.iter().rev();
        own.chain(self.globals.iter().rev())
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

/// fio's statistics of a disk. It samples every 250 ms, so the counts miss up to that much at both ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioDisk {
    /// Kernel name of the disk.
    pub name: String,
    /// Its host, if a server collected the results.
    pub host: Option<String>,
    /// I/Os: reads, writes.
    pub ios: [f64; 2],
    /// Merges of reads and writes.
    pub merges: [f64; 2],
    /// Bytes of reads and writes; versions up to 3.33 lack them.
    pub bytes: [Option<f64>; 2],
    /// Milliseconds from start to completion, summed.
    pub ticks_ms: [f64; 2],
    /// `time_in_queue` in milliseconds.
    pub in_queue_ms: f64,
    /// Utilisation in percent, capped at 100 by fio.
    pub util_percent: f64,
}

/// One document of fio.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FioRun {
    /// fio's version, `fio-3.33`.
    pub version: Option<String>,
    /// Wall-clock time of the end, in nanoseconds since the Unix epoch.
    pub end_unix_ns: Option<i64>,
    /// Results per job.
    pub jobs: Vec<FioJob>,
    /// The disks under their files.
    pub disks: Vec<FioDisk>,
}

/// Parses all documents of a text; also returns the damaged lines, each with its number and reason.
pub fn parse_fio(bytes: &[u8]) -> (Vec<FioRun>, Vec<(u64, String)>) {
    let documents = parse_documents(bytes);
    (
        runs(&documents.values),
        documents
            .problems
            .into_iter()
            .map(|p| (p.line, p.why.to_owned()))
            .collect(),
    )
}

fn runs(documents: &[Json<'_>]) -> Vec<FioRun> {
    documents
        .iter()
        .map(run)
        .filter(|r| !r.jobs.is_empty() || !r.disks.is_empty())
        .collect()
}

fn run(doc: &Json<'_>) -> FioRun {
    let ms = doc.number_of("timestamp_ms").map(|ms| ms * 1e6);
    let end = ms.or_else(|| doc.number_of("timestamp").map(|s| s * 1e9));
    // Client/server runs have their jobs under other keys. In old versions several groups have duplicate keys.
    let lists = ["jobs", "client_stats"]
        .iter()
        .flat_map(|k| doc.get_all(k))
        .flat_map(Json::items);
    let globals = options(doc.get("global options")).into();
    let mut disks = disks_of(doc);
    let mut jobs = Vec::new();
    for j in lists {
        disks.extend(disks_of(j));
        // The server's sum repeats the jobs before it.
        if j.text_of("jobname") != Some("All clients") {
            jobs.push(job(j, &globals));
        }
    }
    FioRun {
        version: doc.text_of("fio version").map(str::to_owned),
        end_unix_ns: end
            .filter(|ns| (0.0..9.2e18).contains(ns))
            .map(|ns| ns as i64),
        jobs,
        disks,
    }
}

fn disks_of(o: &Json<'_>) -> Vec<FioDisk> {
    o.get_all("disk_util")
        .flat_map(Json::items)
        // fio's client lists the disks of all its servers together, each with its host.
        .filter_map(|d| disk(d, host(d).or_else(|| host(o))))
        .collect()
}

/// The client that ran a job of `client_stats`.
fn host(o: &Json<'_>) -> Option<String> {
    let name = o.text_of("hostname")?;
    Some(name.chars().take(MAX_HOST_CHARS).collect())
}

fn options(o: Option<&Json<'_>>) -> Vec<(String, String)> {
    o.map(Json::entries)
        .unwrap_or_default()
        .iter()
        .map(|(k, v)| (k.clone().into_owned(), option_text(v)))
        .collect()
}

fn option_text(value: &Json<'_>) -> String {
    match value {
        Json::Text(t) => t.clone().into_owned(),
        Json::Number(n) | Json::Negative { value: n, .. } => n.to_string(),
        Json::Bool(b) => b.to_string(),
        _ => String::new(),
    }
}

fn job(j: &Json<'_>, globals: &Arc<[(String, String)]>) -> FioJob {
    FioJob {
        name: j.text_of("jobname").unwrap_or("unnamed").to_owned(),
        host: host(j),
        error: j.number_of("error").unwrap_or(0.0),
        globals: globals.clone(),
        options: options(j.get("job options")),
        sides: ["read", "write", "trim"].map(|key| j.get(key).map(side).unwrap_or_default()),
        usr_cpu: j.number_of("usr_cpu"),
        sys_cpu: j.number_of("sys_cpu"),
    }
}

fn side(s: &Json<'_>) -> FioSide {
    // Old versions have only KiB.
    let bytes = s
        .number_of("io_bytes")
        .unwrap_or_else(|| number_or_zero(s, "io_kbytes") * 1024.0);
    let bytes_per_s = s
        .number_of("bw_bytes")
        .unwrap_or_else(|| number_or_zero(s, "bw") * 1024.0);
    FioSide {
        bytes,
        ios: number_or_zero(s, "total_ios"),
        short_ios: number_or_zero(s, "short_ios"),
        bytes_per_s,
        ios_per_s: number_or_zero(s, "iops"),
        runtime_ms: number_or_zero(s, "runtime"),
        lat_mean_us: mean_us(s, "lat_ns", "lat"),
        clat_mean_us: mean_us(s, "clat_ns", "clat"),
        percentiles_us: percentiles(s),
    }
}

fn number_or_zero(o: &Json<'_>, key: &str) -> f64 {
    o.number_of(key).unwrap_or(0.0)
}

/// The mean of a kind of latency: fio 3 has nanoseconds in `lat_ns`, fio 2 microseconds in `lat`.
fn mean_us(side: &Json<'_>, ns_key: &str, us_key: &str) -> Option<f64> {
    if let Some(ns) = side.get(ns_key).and_then(measured_mean) {
        return Some(ns / 1000.0);
    }
    side.get(us_key).and_then(measured_mean)
}

/// fio prints a mean of 0 for values that it did not measure.
fn measured_mean(latency: &Json<'_>) -> Option<f64> {
    if latency.number_of("N") == Some(0.0) {
        return None;
    }
    latency.number_of("mean").filter(|m| *m > 0.0)
}

fn percentiles(s: &Json<'_>) -> Vec<(f64, f64)> {
    for (key, scale) in [("clat_ns", 1000.0), ("lat_ns", 1000.0), ("clat", 1.0)] {
        let Some(p) = s.get(key).and_then(|l| l.get("percentile")) else {
            continue;
        };
        let pairs = p
            .entries()
            .iter()
            .filter_map(|(q, v)| Some((q.parse().ok()?, v.number()? / scale)));
        return pairs.filter(|(q, _): &(f64, f64)| *q > 0.0).collect();
    }
    Vec::new()
}

fn disk(d: &Json<'_>, host: Option<String>) -> Option<FioDisk> {
    let sectors = ["read_sectors", "write_sectors"].map(|key| d.number_of(key));
    Some(FioDisk {
        name: d.text_of("name")?.to_owned(),
        host,
        ios: ["read_ios", "write_ios"].map(|key| number_or_zero(d, key)),
        merges: ["read_merges", "write_merges"].map(|key| number_or_zero(d, key)),
        bytes: sectors.map(|s| s.map(|s| s * 512.0)),
        ticks_ms: ["read_ticks", "write_ticks"].map(|key| number_or_zero(d, key)),
        in_queue_ms: number_or_zero(d, "in_queue"),
        util_percent: number_or_zero(d, "util"),
    })
}

/// Each job and each disk becomes a row over the run; jobs with the same name on one host are added.
pub(super) fn parse(log: &mut Log, bytes: &[u8]) {
    let documents = parse_documents(bytes);
    for p in &documents.problems {
        log.damaged(p.line, p.why);
    }
    documents
        .messages
        .iter()
        .for_each(|line| log.other_line(*line));
    let mut runs = runs(&documents.values);
    let all = runs.len();
    let interim: Vec<bool> = runs
        .windows(2)
        .map(|pair| is_interim(&pair[0], &pair[1]))
        .collect();
    let mut interim = interim.into_iter();
    runs.retain(|_| interim.next() != Some(true));
    if let left_out @ 1.. = all - runs.len() {
        log.limit(&format!(
            "{left_out} documents that fio printed while it ran (--status-interval) were left out: the last one includes them"
        ));
    }
    log.epoch = if runs.iter().any(|r| r.end_unix_ns.is_some()) {
        Epoch::Unix
    } else {
        Epoch::Own
    };
    let mut begin = 0;
    for run in &runs {
        let length = run.length_ns();
        let to_ns = run.end_unix_ns.unwrap_or(begin + length);
        begin = to_ns;
        place(log, run, to_ns.saturating_sub(length), to_ns);
    }
    log.limit("source prints sums over a run: no single I/O; rows called fio:JOB are the application's view, others the disk's");
}

impl FioRun {
    fn length_ns(&self) -> i64 {
        let longest = self
            .jobs
            .iter()
            .flat_map(|j| &j.sides)
            .map(|s| s.runtime_ms)
            .fold(0.0, f64::max);
        (longest.clamp(1.0, 1e12) * 1e6) as i64
    }

    fn begin_unix_ns(&self) -> Option<i64> {
        Some(self.end_unix_ns?.saturating_sub(self.length_ns()))
    }

    /// Host and name of each job.
    fn job_names(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.jobs.iter().map(|j| (j.host.as_deref(), &*j.name))
    }

    fn ios(&self) -> f64 {
        self.jobs.iter().flat_map(|j| &j.sides).map(|s| s.ios).sum()
    }
}

/// Whether `next` contains everything in `run`: both began at the same time, with the same jobs.
fn is_interim(run: &FioRun, next: &FioRun) -> bool {
    const CLOCK_NS: u64 = 1_100_000_000;
    let (Some(begin), Some(next_begin)) = (run.begin_unix_ns(), next.begin_unix_ns()) else {
        return false;
    };
    begin.abs_diff(next_begin) <= CLOCK_NS
        && run.end_unix_ns < next.end_unix_ns
        && run.ios() <= next.ios()
        && run.job_names().eq(next.job_names())
}

fn place(log: &mut Log, run: &FioRun, from_ns: i64, to_ns: i64) {
    let seconds = r_seconds(from_ns, to_ns);
    let mut rows: BTreeMap<DevId, (IntervalRates, u32)> = BTreeMap::new();
    for job in &run.jobs {
        log.devices.set_host(job.host.clone());
        let dev = log.devices.aggregate(&format!("fio:{}", job.name));
        let r = job_row(job, IntervalRates::new(from_ns, to_ns, dev), seconds);
        if let Some((sum, jobs)) = rows.get_mut(&dev) {
            *sum = sum.plus(&r);
            *jobs += 1;
            continue;
        }
        rows.insert(dev, (r, 1));
        let globals = repeated(&job.globals);
        if globals.len() < job.globals.len() {
            log.limit("global options beyond 4 KiB were left out of the marks that name the jobs");
        }
        let words: Vec<String> = globals
            .iter()
            .chain(&job.options)
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        log.mark(
            from_ns,
            "phase",
            format!("fio {}: {}", job.name, words.join(" ")),
        );
    }
    let mut repeated_disks: u64 = 0;
    for d in &run.disks {
        log.devices.set_host(d.host.clone());
        let dev = log.devices.by_name(d.name.as_bytes());
        let row = disk_row(d, from_ns, to_ns, dev);
        // Each job of a client, and each server on one host, repeats the list of the host's disks; the most complete
        // one is used.
        let Some((known, _)) = rows.get_mut(&dev) else {
            rows.insert(dev, (row, 1));
            continue;
        };
        if *known != row {
            repeated_disks += 1;
        }
        if ios_per_s(&row) > ios_per_s(known) {
            *known = row;
        }
    }
    if repeated_disks > 0 {
        log.limit("fio lists disks of a host more than once, with different numbers: of each the list with most I/Os counts");
    }
    log.devices.set_host(None);
    if rows.values().any(|(_, jobs)| *jobs > 1) {
        log.limit("jobs of one name on one host are added up in one row");
    }
    rows.values().for_each(|(r, _)| log.rates.push(r));
}

/// The first of the global options, limited to [`MAX_REPEATED`] bytes.
fn repeated(globals: &[(String, String)]) -> &[(String, String)] {
    let mut bytes = 0;
    for (i, (name, value)) in globals.iter().enumerate() {
        bytes += name.len() + value.len() + "= ".len();
        if bytes > MAX_REPEATED {
            return &globals[..i];
        }
    }
    globals
}

fn job_row(job: &FioJob, mut r: IntervalRates, seconds: f64) -> IntervalRates {
    for (class, s) in [Class::Read, Class::Write, Class::Discard]
        .into_iter()
        .zip(&job.sides)
    {
        let c = &mut r.classes[class as usize];
        c.ios_per_s = Some(s.ios / seconds);
        c.bytes_per_s = Some(s.bytes / seconds);
        c.mean_us = s.lat_mean_us.or(s.clat_mean_us);
    }
    r
}

/// Completions per second of all classes.
fn ios_per_s(r: &IntervalRates) -> f64 {
    r.classes.iter().filter_map(|c| c.ios_per_s).sum()
}

fn r_seconds(from_ns: i64, to_ns: i64) -> f64 {
    to_ns.saturating_sub(from_ns).max(1) as f64 / 1e9
}

fn disk_row(d: &FioDisk, from_ns: i64, to_ns: i64, dev: DevId) -> IntervalRates {
    let mut r = IntervalRates::new(from_ns, to_ns, dev);
    let seconds = r_seconds(from_ns, to_ns);
    for i in 0..2 {
        let c = &mut r.classes[i];
        c.ios_per_s = Some(d.ios[i] / seconds);
        c.merges_per_s = Some(d.merges[i] / seconds);
        c.bytes_per_s = d.bytes[i].map(|b| b / seconds);
        c.mean_us = (d.ios[i] > 0.0).then(|| d.ticks_ms[i] * 1000.0 / d.ios[i]);
    }
    r.in_flight = Some(d.in_queue_ms / 1000.0 / seconds);
    r.util_percent = Some(d.util_percent);
    r
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::super::fixtures;
    use super::super::log::ImportOptions;
    use super::super::recognise::{LogFormat, recognise};
    use super::*;
    use iolens_core::model::Observation;
    use std::path::Path;

    #[test]
    fn a_real_json_plus_file_after_messages() {
        let mut bytes = b"fio: time_based used without runtime\nmix: {warning}\n".to_vec();
        bytes.truncate(37);
        bytes.extend_from_slice(&fixtures::bytes("fio-mix.json"));
        assert_eq!(recognise(&bytes), Some(LogFormat::FioJson));
        let (runs, problems) = parse_fio(&bytes);
        assert!(problems.is_empty(), "{problems:?}");
        let job = &runs[0].jobs[0];
        assert_eq!((job.name.as_str(), job.option("bs")), ("mix", Some("4k")));
        assert_eq!(job.sides[0].bytes, job.sides[0].ios * 4096.0);
        assert!(job.sides[0].percentiles_us.len() > 5 && job.sides[0].lat_mean_us.is_some());
        assert!(runs[0].disks[0].name.starts_with("loop"));
        let got = parse_bytes(
            LogFormat::FioJson,
            Path::new("f.json"),
            &bytes,
            ImportOptions::default(),
        )
        .expect("imports");
        assert_eq!(got.rates.len(), 2, "the job and its disk");
    }

    #[test]
    fn several_documents_duplicate_keys_and_a_cut_one() {
        let one = r#"{"fio version":"fio-2.1","jobs":[{"jobname":"a","read":{"io_bytes":4,"iops":1.5,"bw":2,"runtime":1000,"total_ios":3,"lat":{"mean":7.5}}}],
            "disk_util":[{"name":"sda","read_ios":1}],"disk_util":[{"name":"sdb","read_ios":2}]}"#;
        let text = format!("note\n{one}\nfio: another\n{one}\n{}", &one[..90]);
        let (runs, problems) = parse_fio(text.as_bytes());
        assert_eq!(runs.len(), 3);
        assert_eq!(runs[0].disks.len(), 2, "both of the duplicate keys");
        assert_eq!(runs[0].jobs[0].sides[0].lat_mean_us, Some(7.5));
        assert_eq!(runs[0].jobs[0].sides[0].bytes_per_s, 2048.0);
        assert_eq!(problems.len(), 1);
    }

    fn import(text: &str) -> super::super::log::Imported {
        parse_bytes(
            LogFormat::FioJson,
            Path::new("f.json"),
            text.as_bytes(),
            ImportOptions::default(),
        )
        .expect("imports")
    }

    fn side(ios: u32, us: u32) -> String {
        format!(
            r#"{{"io_bytes":{},"total_ios":{ios},"runtime":1000,"lat_ns":{{"N":{ios},"mean":{}}}}}"#,
            ios * 4096,
            us * 1000
        )
    }

    #[test]
    fn many_jobs_share_long_global_options() {
        const JOBS: usize = 100_000;
        let long: Vec<String> = (0..16)
            .map(|i| format!(r#""o{i}":"{}""#, "x".repeat(60_000)))
            .collect();
        let text = format!(
            r#"{{"global options":{{"bs":"4k","rw":"read",{}}},"jobs":[{{"jobname":"j","job options":{{"bs":"8k","bs":"16k"}},"read":{}}}{}]}}"#,
            long.join(","),
            side(10, 5),
            ",{}".repeat(JOBS)
        );
        let (runs, problems) = parse_fio(text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        let jobs = &runs[0].jobs;
        assert_eq!(jobs.len(), JOBS + 1);
        assert!(
            jobs.iter()
                .all(|j| Arc::ptr_eq(&j.globals, &jobs[0].globals))
        );
        let found = ["bs", "rw", "none"].map(|name| jobs[0].option(name));
        assert_eq!(found, [Some("16k"), Some("read"), None]);
        assert_eq!(jobs[JOBS].option("bs"), Some("4k"));

        let got = import(&text);
        let mut marks = Vec::new();
        for o in &got.observations {
            if let Observation::Mark(mark) = o {
                marks.push(mark.text.as_str());
            }
        }
        let expected = [
            "fio j: bs=4k rw=read bs=8k bs=16k",
            "fio unnamed: bs=4k rw=read",
        ];
        assert_eq!(marks, expected);
        let limits = &got.meta.limits;
        assert!(limits.iter().any(|l| l.contains("4 KiB")), "{limits:?}");
    }

    #[test]
    fn many_disks_do_not_hold_a_long_name_of_their_host_each() {
        let text = format!(
            r#"{{"client_stats":[{{"hostname":"{}","disk_util":[{}]}}]}}"#,
            "é".repeat(30_000),
            vec![r#"{"name":""}"#; 100_000].join(",")
        );
        let (runs, _) = parse_fio(text.as_bytes());
        let host = Some("é".repeat(MAX_HOST_CHARS));
        assert_eq!(runs[0].disks.len(), 100_000);
        assert!(runs[0].disks.iter().all(|d| d.host == host));
    }

    #[test]
    fn jobs_of_one_name_are_added_up_and_hosts_kept_apart() {
        let job = |host: &str, ios, us| {
            format!(
                r#"{{"jobname":"w","hostname":"{host}","write":{}, "disk_util":[{{"name":"sda","write_ios":{ios}}}]}}"#,
                side(ios, us)
            )
        };
        let jobs: Vec<String> = (1..=64)
            .map(|i| format!(r#"{{"jobname":"w","write":{}}}"#, side(i, i)))
            .collect();
        let got = import(&format!(
            r#"{{"fio version":"fio-3.33","timestamp_ms":5000,"jobs":[{}]}}"#,
            jobs.join(",")
        ));
        let write = got.rates.get(0).expect("one row").classes[1];
        assert_eq!(
            (got.rates.len(), write.ios(1_000_000_000)),
            (1, Some(64 * 65 / 2))
        );
        assert_eq!(write.mean_us, Some(43.0), "Σn² / Σn");
        assert!(
            got.meta.limits.iter().any(|l| l.contains("added up")),
            "{:?}",
            got.meta.limits
        );
        let clients = [job("a", 10, 5), job("b", 20, 5), job("b", 30, 5)].join(",");
        let got = import(&format!(
            r#"{{"timestamp_ms":5000,"client_stats":[{clients}]}}"#
        ));
        let mut rows: Vec<(String, Option<u64>)> = Vec::new();
        for d in &got.meta.devices {
            rows.extend(
                got.rates
                    .of(d.id)
                    .iter()
                    .map(|r| (d.name.clone(), r.classes[1].ios(1_000_000_000))),
            );
        }
        let expected = [
            ("a/fio:w", 10),
            ("b/fio:w", 50),
            ("a/sda", 10),
            ("b/sda", 30),
        ];
        assert_eq!(rows, expected.map(|(n, ios)| (n.to_owned(), Some(ios))));
    }

    #[test]
    fn disks_that_a_client_lists_for_all_its_servers_are_kept_apart_by_host() {
        let disk = |host: &str, ios| {
            format!(r#"{{"name":"sda","read_ios":{ios},"hostname":"{host}","port":8765}}"#)
        };
        let disks = [disk("a", 10), disk("b", 2000), disk("c", 30)].join(",");
        let side = side(10, 5);
        let got = import(&format!(
            r#"{{"timestamp_ms":5000,"client_stats":[{{"jobname":"w","hostname":"a","read":{side}}}],"disk_util":[{disks}]}}"#
        ));
        let mut rows = Vec::new();
        for d in got.meta.devices.iter().filter(|d| d.name.ends_with("/sda")) {
            let reads = got.rates.of(d.id)[0].classes[0].ios(1_000_000_000);
            rows.push((d.name.as_str(), reads));
        }
        let expected = [("a/sda", 10), ("b/sda", 2000), ("c/sda", 30)];
        assert_eq!(rows, expected.map(|(name, ios)| (name, Some(ios))));
    }

    #[test]
    fn documents_printed_while_fio_ran_are_in_the_last_one() {
        let doc = |end_ms: u32, ios: u32, runtime: u32| {
            let side = side(ios, 9).replace("1000,\"lat", &format!("{runtime},\"lat"));
            format!(
                r#"{{"fio version":"fio-3.33","timestamp_ms":{end_ms},"jobs":[{{"jobname":"a","read":{side}}}]}}"#
            )
        };
        let got = import(
            &[
                doc(11_000, 10, 1000),
                doc(12_001, 25, 2001),
                doc(30_000, 5, 1000),
            ]
            .join("\n"),
        );
        let ios: Vec<_> = got
            .rates
            .iter()
            .map(|r| r.classes[0].ios(r.interval_ns()))
            .collect();
        assert_eq!(
            ios,
            [Some(25), Some(5)],
            "the second run is another one: {:?}",
            got.meta.limits
        );
        assert!(
            got.meta.limits.iter().any(|l| l.starts_with("1 documents")),
            "{:?}",
            got.meta.limits
        );
    }
}
