//! A real control group at its own limit is recorded and reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iolens_core::analysis::Window;
use iolens_core::analysis::limits::{Held, LimitedRate, OwnLimitsBuilder};
use iolens_core::model::DevId;
use iolens_core::store::{IoColumns, Recording};

use super::machine::{LoopDevice, ebpf, run, scene};

/// Reads per second that the group may do.
const LIMIT: i64 = 60;

/// A control group with a limit of reads per second on one device; removed when dropped.
struct LimitedGroup {
    /// Directories of the group for the process, in one or both versions of the hierarchy.
    directories: Vec<PathBuf>,
    /// Whether the kernel reports how long its tasks wait.
    has_pressure: bool,
}

impl LimitedGroup {
    /// `None`, with a message, where there is no io controller.
    fn new(device: &str) -> Option<LimitedGroup> {
        let made = LimitedGroup::version_2(device).or_else(|| LimitedGroup::version_1(device));
        if made.is_none() {
            eprintln!("SKIP: no control group with a limit of I/O can be made here");
        }
        made
    }

    fn version_2(device: &str) -> Option<LimitedGroup> {
        let top = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(top.join("cgroup.controllers")).ok()?;
        if !controllers.split_whitespace().any(|c| c == "io") {
            return None;
        }
        fs::write(top.join("cgroup.subtree_control"), "+io").ok()?;
        let group = LimitedGroup::at(vec![top.join(name())])?;
        let limit = format!("{device} riops={LIMIT}");
        fs::write(group.directories[0].join("io.max"), limit).ok()?;
        Some(group)
    }

    fn version_1(device: &str) -> Option<LimitedGroup> {
        let blkio = Path::new("/sys/fs/cgroup/blkio");
        let unified = Path::new("/sys/fs/cgroup/unified");
        if !blkio.join("blkio.throttle.read_iops_device").exists() {
            return None;
        }
        let mut directories = vec![blkio.join(name())];
        if unified.join("cgroup.procs").exists() {
            directories.push(unified.join(name()));
        }
        let group = LimitedGroup::at(directories)?;
        let file = group.directories[0].join("blkio.throttle.read_iops_device");
        fs::write(file, format!("{device} {LIMIT}")).ok()?;
        Some(group)
    }

    fn at(directories: Vec<PathBuf>) -> Option<LimitedGroup> {
        for directory in &directories {
            fs::create_dir(directory).ok()?;
        }
        let has_pressure = directories.iter().any(|d| {
            let pressure = fs::read_to_string(d.join("io.pressure"));
            pressure.is_ok_and(|text| text.starts_with("some"))
        });
        Some(LimitedGroup {
            directories,
            has_pressure,
        })
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        for directory in &self.directories {
            fs::remove_dir(directory).ok();
        }
    }
}

fn name() -> String {
    format!("iolens-e2e-limit-{}", std::process::id())
}

#[test]
fn a_group_at_its_own_limit_is_recorded_and_said() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(64)) else {
        return;
    };
    let fio_runs = Command::new("fio").arg("--version").output();
    if !fio_runs.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIP: no fio");
        return;
    }
    let numbers = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    let Some(group) = LimitedGroup::new(numbers.trim()) else {
        return;
    };
    let mut script = String::new();
    for directory in &group.directories {
        script += &format!("echo $$ > {}/cgroup.procs && ", directory.display());
    }
    script += &format!(
        "exec fio --name=limited --filename={} --rw=randread --bs=4k --direct=1 --ioengine=psync --thread \
         --size=64m --time_based --runtime=12 --output=/dev/null",
        device.path.display()
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let recorded = run(&[
        "record",
        "-o",
        path.to_str().unwrap(),
        "-d",
        device.name(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert!(recorded.status.success(), "{}", scene(&recorded));

    let recording = Recording::open(&path).unwrap();
    let dev: DevId = numbers.trim().parse().unwrap();
    let queue = recording.settings().queue(dev).unwrap();
    assert!(
        queue.scheduler.is_some() && queue.nr_requests.is_some(),
        "{queue:?}"
    );
    assert!(recording.settings().io_controller.is_some());
    let samples: Vec<_> = recording
        .cgroups(i64::MIN..i64::MAX)
        .flat_map(|batch| batch.unwrap())
        .collect();
    let limited = samples.iter().find(|s| s.limits_rate()).unwrap();
    assert_eq!(limited.dev, Some(dev), "{limited:?}");
    assert_eq!(limited.read_ios_per_s, Some(LIMIT), "{limited:?}");
    assert_eq!(limited.path, format!("/{}", name()));

    let mut builder = OwnLimitsBuilder::new(&samples, Window::OPEN);
    for batch in recording.ios(i64::MIN..i64::MAX, IoColumns::ALL) {
        batch.unwrap().iter().for_each(|io| builder.push(io));
    }
    let limits = builder.finish();
    let limit = limits
        .iter()
        .find(|l| l.rate == LimitedRate::ReadIos)
        .unwrap();
    eprintln!("{limit:?}");
    assert_eq!((limit.dev, limit.limit_per_s), (dev, LIMIT));
    assert!(
        (limit.rate_per_s / LIMIT as f64 - 1.0).abs() < 0.1,
        "{limit:?}"
    );
    let expected = if group.has_pressure {
        Held::Yes
    } else {
        Held::Probably
    };
    assert_eq!(limit.held, expected, "{limit:?}");
}
