//! `report` on a real machine: attribution.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::machine::{LoopDevice, Recorder, ebpf, run, scene};

/// Control groups of cgroup v2, each with a name of its own; removed when dropped.
struct Tenants(Vec<PathBuf>);

impl Tenants {
    /// `None`, with a message, where none can be made.
    fn new(names: [&str; 2]) -> Option<Tenants> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let unified = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let point = words.next()?;
            (words.next() == Some("cgroup2")).then(|| PathBuf::from(point))
        });
        let Some(unified) = unified else {
            eprintln!("SKIP: no cgroup2 is mounted");
            return None;
        };
        let mut made = Tenants(Vec::new());
        for name in names {
            let path = unified.join(format!("iolens-{name}-{}", std::process::id()));
            if let Err(e) = std::fs::create_dir(&path) {
                eprintln!("SKIP: {}: {e}", path.display());
                return None;
            }
            made.0.push(path);
        }
        Some(made)
    }

    /// Runs `program` with `arguments` in the control group number `tenant`, to its end.
    fn run(&self, tenant: usize, program: &Path, arguments: &[String]) {
        let procs = self.0[tenant].join("cgroup.procs");
        let script = format!(
            "echo $$ > {} && exec {} {}",
            procs.display(),
            program.display(),
            arguments.join(" ")
        );
        let out = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(out.status.success(), "{}", scene(&out));
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        for path in &self.0 {
            std::fs::remove_dir(path).ok();
        }
    }
}

#[test]
fn two_tenants_whose_processes_have_one_name_are_told_apart() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let Some(tenants) = Tenants::new(["tenant-a", "tenant-b"]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let worker = dir.path().join("worker");
    let dd = std::fs::canonicalize("/bin/dd").unwrap();
    std::fs::copy(dd, &worker).unwrap();
    let path = dir.path().join("r.iolens");
    let recorder = Recorder::start(&path, &["-d", device.name()]);
    let reads = [500_u64, 4000];
    for (tenant, count) in reads.iter().enumerate() {
        let arguments = [
            format!("if={}", device.path.display()),
            "of=/dev/null".to_owned(),
            "bs=4k".to_owned(),
            "iflag=direct".to_owned(),
            format!("count={count}"),
        ];
        tenants.run(tenant, &worker, &arguments);
    }
    let out = recorder.interrupt();
    assert!(out.status.success(), "{}", scene(&out));

    let recording = path.to_str().unwrap();
    let out = run(&["report", recording, "--json"]);
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["recording"]["lost_ios"], 0, "{}", scene(&out));
    let actors = document["actors"].as_array().unwrap();
    let workers: Vec<&Value> = actors.iter().filter(|a| a["process"] == "worker").collect();
    let groups: Vec<&str> = workers
        .iter()
        .map(|a| a["cgroup"].as_str().unwrap())
        .collect();
    assert_eq!(workers.len(), 2, "{actors:#?}");
    let io_time_s = |n: usize| workers[n]["io_time_s"].as_f64().unwrap();
    assert!(io_time_s(0) >= io_time_s(1), "most I/O time first");
    // On a busy machine a few reads may take longer than many.
    let order = if groups[0].contains("tenant-a") {
        [0, 1]
    } else {
        [1, 0]
    };
    let names = order.map(|tenant| ["tenant-a", "tenant-b"][tenant]);
    assert!(
        groups[0].contains(names[0]) && groups[1].contains(names[1]),
        "{groups:?}"
    );
    for (entry, ios) in workers.iter().zip(order.map(|tenant| reads[tenant])) {
        assert_eq!(entry["class"], "read");
        assert_eq!(entry["device"], device.name());
        assert_eq!(entry["ios"], ios);
        assert_eq!(entry["bytes"], ios * 4096);
        assert!(
            entry["pid"].is_number() && entry["io_time_s"].as_f64() > Some(0.0),
            "{entry}"
        );
        assert!(
            entry["p50_us"].as_f64() <= entry["p99_us"].as_f64(),
            "{entry}"
        );
    }
    assert_eq!(document["actors_others"]["ios"], 0);

    let out = run(&["report", recording]);
    let text = String::from_utf8(out.stdout).unwrap();
    let row = |tenant: &str| {
        let is_of = |line: &&str| line.contains("worker[") && line.contains(tenant);
        text.lines().position(|line| is_of(&line))
    };
    assert!(row(names[0]).is_some(), "{text}");
    assert!(row(names[0]) < row(names[1]), "{text}");
    assert!(text.lines().count() <= 40, "{text}");
}
