#![allow(clippy::unwrap_used)]
use super::*;
use crate::engine::{self, TimeWindow};
use iolens_core::model::{Flight, RecorderCost, RecordingMeta, Severity, Source, StoredFinding};
use iolens_core::private::Access;
use iolens_core::store::{RecordingWriter, Root, WriterOptions, put_finding};
use jiff::Timestamp;
use std::path::Path;
use std::time::Duration;

const START: i64 = 1_795_000_020 * 1_000_000_000;
const MINUTES: i64 = 10;
const IOS: i64 = 600;

/// Ten minutes of `IOS` reads a minute of `usual_us` each; a device named `sdb` is three times as slow from the fifth minute.
fn record(root: &Path, host: &str, start: i64, devices: &[(&str, &str)]) {
    let dir = root.join(Root::host_directory(host));
    std::fs::create_dir_all(&dir).unwrap();
    let mut meta = RecordingMeta::new(Source::Ebpf, start);
    let device = |(i, (name, model)): (usize, &(&str, &str))| Device {
        model: Some((*model).to_owned()),
        stable_id: Some(format!("wwn-{host}-{name}")),
        ..Device::named(*name, DevId::new(8, i as u32 * 16))
    };
    meta.devices = devices.iter().enumerate().map(device).collect();
    let ids: Vec<DevId> = meta.devices.iter().map(|d| d.id).collect();
    let path = dir.join(Root::recording_directory(start));
    let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
    let mut rows = Vec::new();
    for minute in 0..MINUTES {
        for (dev, (name, _)) in ids.iter().zip(devices) {
            let slow = *name == "sdb" && minute >= 5;
            let device_ns = if slow { 3_000_000 } else { 1_000_000 };
            let mut of = Rollup::empty(60, minute * MINUTE_NS, Some(*dev), Some(Class::Read));
            of.ios = IOS;
            of.bytes = IOS * 4096;
            of.device_sum_ns = IOS * device_ns;
            of.total.add(device_ns, IOS as u64);
            let flight = Flight {
                busy_ns: IOS * device_ns,
                in_flight_ns: IOS * device_ns,
                in_flight_max: 1,
            };
            rows.extend([
                of.clone(),
                Rollup {
                    class: None,
                    flight: Some(flight),
                    total: CallHistogram::default(),
                    ..of
                },
            ]);
        }
    }
    assert!(writer.write_rollups(60, &rows).unwrap());
    writer
        .finish(MINUTES * MINUTE_NS, RecorderCost::default())
        .unwrap();
}

fn fleet(root: &Path, asked: (Option<i64>, Option<i64>), remembered: &Remembered) -> Result<Fleet> {
    let wall = |ns: i64| Timestamp::from_nanosecond(ns.into()).unwrap();
    let window = TimeWindow {
        at: None,
        from: asked.0.map(wall).map(engine::Instant::Wall),
        to: asked.1.map(wall).map(engine::Instant::Wall),
    };
    let caller = Caller::without_notes();
    let query = Query::new(root, window, &caller);
    let deadline = Instant::now() + Duration::from_secs(600);
    read(&query, 3_600_000_000_000, remembered, deadline)
}

fn three_hosts() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for host in ["a", "b", "c"] {
        record(
            root.path(),
            host,
            START,
            &[("sda", "M1"), ("sdb", "M2"), ("loop0", "M1")],
        );
    }
    // A fourth disk of that model, which is the slow one.
    record(root.path(), "d", START, &[("sda", "M1"), ("sdb", "M1")]);
    root
}

#[test]
fn time_is_lost_beyond_the_median_of_the_model() {
    let root = three_hosts();
    let found = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
    assert_eq!((found.hosts.len(), found.left_out), (4, 0));
    let peers = Peers::of(&found);
    let lost = |host: &str, device: &str| {
        let host = found.hosts.iter().find(|h| h.host == host).unwrap();
        peers.lost_ns(&host.devices[&format!("wwn-{}-{device}", host.host)])
    };
    // Five minutes of 600 reads, each 2 ms beyond the others.
    let slow = lost("d", "sdb").unwrap();
    assert!((slow - 5.0 * IOS as f64 * 2e6).abs() < 1.0, "{slow}");
    assert_eq!(lost("a", "sda"), Some(0.0));
    assert_eq!(lost("a", "sdb"), Some(0.0), "as slow as all of its model");
    assert_eq!(lost("a", "loop0"), None, "no disk");
    let host = found.hosts.iter().find(|h| h.host == "d").unwrap();
    let sdb = &host.devices["wwn-d-sdb"];
    assert_eq!(sdb.worst.unwrap().0, START + 5 * MINUTE_NS);
    assert_eq!((sdb.ios(), sdb.errors), (MINUTES * IOS, Some(0)));
    assert!(
        matches!(sdb.total.quantile(0.99), Some(2_900_000..3_100_000)),
        "{:?}",
        sdb.total.quantile(0.99)
    );
    assert_eq!(host.covered_ns, MINUTES * MINUTE_NS);
    assert_eq!(sdb.busy_ns, Some(5 * IOS * 4_000_000));
}

/// An hour of minutes of a disk `sda` of each host: `reads` of 4 KiB in a minute, and what each of them takes.
fn record_loads(root: &Path, host: &str, minute: impl Fn(i64) -> (i64, i64)) {
    let dir = root.join(Root::host_directory(host));
    std::fs::create_dir_all(&dir).unwrap();
    let mut meta = RecordingMeta::new(Source::Ebpf, START);
    let sda = DevId::new(8, 0);
    meta.devices = vec![Device {
        model: Some("M1".to_owned()),
        stable_id: Some("disk".to_owned()),
        ..Device::named("sda", sda)
    }];
    let path = dir.join(Root::recording_directory(START));
    let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
    let mut rows = Vec::new();
    for at in 0..60 {
        let (ios, device_ns) = minute(at);
        let mut of = Rollup::empty(60, at * MINUTE_NS, Some(sda), Some(Class::Read));
        of.ios = ios;
        of.bytes = ios * 4096;
        of.device_sum_ns = ios * device_ns;
        let all = Rollup {
            class: None,
            ..of.clone()
        };
        rows.extend([of, all]);
    }
    assert!(writer.write_rollups(60, &rows).unwrap());
    writer
        .finish(60 * MINUTE_NS, RecorderCost::default())
        .unwrap();
}

#[test]
fn a_slow_disk_is_found_where_busy_ones_take_longer_as_well() {
    let root = tempfile::tempdir().unwrap();
    // Loads from 1,000 to 32,000 reads a minute, at which a healthy disk takes 0.1 ms and 10 ns more for each of them.
    let reads = |at: i64| 1000 << (at % 6);
    let healthy = |reads: i64| 100_000 + 10 * reads;
    for i in 0..8 {
        let host = format!("host{i}");
        record_loads(root.path(), &host, |at| {
            (reads(at), healthy(reads(at)) * (100 + i) / 100)
        });
    }
    // This one is busy all the time, so its mean is far above the others'; the next one has little load, and is slow.
    record_loads(root.path(), "busy", |_| (32_000, healthy(32_000)));
    record_loads(root.path(), "slow", |at| {
        (reads(at % 2), 3 * healthy(reads(at % 2)))
    });
    let found = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
    let peers = Peers::of(&found);
    let disk = |host: &str| {
        let host = found.hosts.iter().find(|h| h.host == host).unwrap();
        &host.devices["disk"]
    };
    let mean_ns = |host: &str| {
        let sums = disk(host).classes[Class::Read as usize];
        sums.total_ns / sums.ios
    };
    assert!(mean_ns("busy") > mean_ns("host7"));
    let slow: Vec<&str> = found
        .hosts
        .iter()
        .filter(|h| peers.is_slow(&h.devices["disk"]))
        .map(|h| h.host.as_str())
        .collect();
    assert_eq!(slow, ["slow"]);
    let factor = peers.slow_factor(disk("slow")).unwrap();
    assert!((2.8..3.0).contains(&factor), "{factor}");
    let factor = peers.slow_factor(disk("busy")).unwrap();
    assert!((0.9..1.0).contains(&factor), "{factor}");
    assert_eq!(
        peers.lost_ns(disk("busy")),
        Some(0.0),
        "its load takes that time on the others, too"
    );
    let lost = peers.lost_ns(disk("slow")).unwrap();
    assert!(lost > 1.8 * 60.0 * 1000.0 * 110_000.0, "{lost}");
}

#[test]
fn loads_that_no_other_disk_had_are_not_compared() {
    let root = tempfile::tempdir().unwrap();
    for host in ["a", "b", "c"] {
        record_loads(root.path(), host, |_| (1000, 100_000));
    }
    record_loads(root.path(), "alone", |_| (64_000, 900_000));
    let found = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
    let peers = Peers::of(&found);
    let alone = found.hosts.iter().find(|h| h.host == "alone").unwrap();
    let disk = &alone.devices["disk"];
    let figures = (
        peers.lost_ns(disk),
        peers.slow_factor(disk),
        peers.is_slow(disk),
    );
    assert_eq!(figures, (None, None, false), "not known is not zero");
}

#[test]
fn fewer_than_three_devices_have_no_peers() {
    let root = tempfile::tempdir().unwrap();
    record(root.path(), "a", START, &[("sda", "M1"), ("sdb", "M1")]);
    let found = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
    let device = &found.hosts[0].devices["wwn-a-sdb"];
    assert_eq!(
        Peers::of(&found).lost_ns(device),
        None,
        "not known is not zero"
    );
}

#[test]
fn a_stretch_has_its_minutes_only_and_is_remembered() {
    let root = three_hosts();
    let remembered = Remembered::default();
    let half = (Some(START), Some(START + 5 * MINUTE_NS));
    let found = fleet(root.path(), half, &remembered).unwrap();
    assert!(
        found
            .hosts
            .iter()
            .all(|h| h.devices.values().all(|d| d.ios() == 5 * IOS))
    );
    // What was read before is not read again, whatever became of the files.
    let rollups = root
        .path()
        .join("host=a")
        .join(Root::recording_directory(START))
        .join("rollup");
    std::fs::remove_dir_all(rollups).unwrap();
    let again = fleet(root.path(), half, &remembered).unwrap();
    assert_eq!(
        again
            .hosts
            .iter()
            .map(|h| h.devices.len())
            .collect::<Vec<_>>(),
        [3, 3, 3, 2]
    );
    let none = fleet(
        root.path(),
        (Some(START - 9 * MINUTE_NS), Some(START - MINUTE_NS)),
        &remembered,
    );
    assert!(matches!(none.unwrap_err(), QueryError::NoSumsThen));
    assert!(fleet(root.path(), (Some(START), Some(START)), &remembered).is_err());
}

#[test]
fn hosts_without_time_are_counted_not_forgotten() {
    let root = three_hosts();
    let caller = Caller::without_notes();
    let query = Query::new(root.path(), TimeWindow::default(), &caller);
    let late = read(&query, MINUTE_NS, &Remembered::default(), Instant::now());
    // The first host may have been started in time; the others are left out.
    assert!(late.map_or(true, |f| f.left_out > 0));
    // One of two recordings of a host: the time chooses.
    record(
        root.path(),
        "d",
        START + 3_600_000_000_000,
        &[("sda", "M1")],
    );
    let newest = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
    let d = newest.hosts.iter().find(|h| h.host == "d").unwrap();
    assert_eq!(
        (d.recordings, newest.hosts.len()),
        (1, 1),
        "the last hour before the newest end"
    );
    let all = fleet(root.path(), (Some(START), None), &Remembered::default()).unwrap();
    assert_eq!(
        all.hosts.iter().find(|h| h.host == "d").unwrap().recordings,
        2
    );
}

/// A recording of a minute in which each device did ten reads, and how long it was busy.
fn record_minute(root: &Path, start: i64, devices: &[(Device, Option<i64>)]) {
    let dir = root.join(Root::host_directory("h"));
    std::fs::create_dir_all(&dir).unwrap();
    let mut meta = RecordingMeta::new(Source::Ebpf, start);
    meta.devices = devices.iter().map(|(device, _)| device.clone()).collect();
    let path = dir.join(Root::recording_directory(start));
    let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
    let mut rows = Vec::new();
    for (device, busy_ns) in devices {
        let mut of = Rollup::empty(60, 0, Some(device.id), Some(Class::Read));
        of.ios = 10;
        of.bytes = 10 * 4096;
        of.device_sum_ns = 10_000_000;
        let flight = busy_ns.map(|busy_ns| Flight {
            busy_ns,
            in_flight_ns: busy_ns,
            in_flight_max: 1,
        });
        let all = Rollup {
            class: None,
            flight,
            ..of.clone()
        };
        rows.extend([of, all]);
    }
    assert!(writer.write_rollups(60, &rows).unwrap());
    writer.finish(MINUTE_NS, RecorderCost::default()).unwrap();
}

/// A disk under one of its numbers.
fn disk(name: &str, minor: u32) -> Device {
    Device {
        stable_id: Some("disk".to_owned()),
        ..Device::named(name, DevId::new(8, minor))
    }
}

#[test]
fn a_disk_with_two_numbers_in_a_recording_is_one_with_the_sums_of_both() {
    let away = Device {
        removed_ns: Some(20_000_000_000),
        ..disk("sdb", 16)
    };
    let back = Device {
        added_ns: Some(30_000_000_000),
        ..disk("sdc", 0)
    };
    for (devices, busy_ns) in [
        ([away, back], Some(12)),
        ([disk("sdb", 16), disk("sdc", 32)], None),
    ] {
        let root = tempfile::tempdir().unwrap();
        let [first, second] = devices;
        record_minute(root.path(), START, &[(first, Some(5)), (second, Some(7))]);
        let found = fleet(root.path(), (None, None), &Remembered::default()).unwrap();
        let of_host = &found.hosts[0].devices;
        assert_eq!(of_host.len(), 1);
        let sums = &of_host["disk"];
        assert_eq!((sums.ios(), sums.bytes), (20, 20 * 4096));
        assert_eq!((sums.errors, sums.busy_ns), (Some(0), busy_ns));
        assert_eq!(sums.device.as_ref().unwrap().name, "sdc");
    }
}

#[test]
fn busy_time_that_one_of_the_recordings_does_not_know_is_not_known() {
    let of_two = |busy_ns: [Option<i64>; 2]| {
        let root = tempfile::tempdir().unwrap();
        for (start, busy_ns) in [START, START + MINUTE_NS].into_iter().zip(busy_ns) {
            record_minute(root.path(), start, &[(disk("sda", 0), busy_ns)]);
        }
        let found = fleet(root.path(), (Some(START), None), &Remembered::default()).unwrap();
        assert_eq!(found.hosts[0].recordings, 2);
        let sums = &found.hosts[0].devices["disk"];
        assert_eq!(sums.ios(), 20);
        sums.busy_ns
    };
    assert_eq!(of_two([Some(5), Some(7)]), Some(12));
    for unknown in [[None, Some(7)], [Some(5), None], [None, None]] {
        assert_eq!(of_two(unknown), None, "{unknown:?}");
    }
}

/// What of a fleet is not known, by host.
fn unread(found: &Fleet) -> Vec<(&str, usize)> {
    let without = found.hosts.iter().filter(|h| h.recordings == 0);
    without.map(|h| (&*h.host, h.damage.len())).collect()
}

#[test]
fn a_host_that_cannot_be_read_is_named_whatever_the_stretch_is() {
    let root = three_hosts();
    let recording = |host: &str, start: i64| {
        root.path()
            .join(format!("host={host}"))
            .join(format!("start_ns={start}"))
    };
    let break_meta = |host: &str, start: i64| {
        for name in ["meta.json", "meta.json.bak"] {
            std::fs::write(recording(host, start).join(name), "{").unwrap();
        }
    };
    // Newer than all that can be read, and of another host in the middle of that.
    let later = START + 3_600_000_000_000;
    record(root.path(), "new", later, &[("sda", "M1")]);
    break_meta("new", later);
    break_meta("b", START);
    record(root.path(), "c", later, &[("sda", "M1")]);
    break_meta("c", later);
    let remembered = Remembered::default();
    let end = START + MINUTES * MINUTE_NS;
    for asked in [
        (None, None),
        (Some(START), Some(end)),
        (Some(START + MINUTE_NS), None),
    ] {
        let found = fleet(root.path(), asked, &remembered).unwrap();
        assert_eq!(unread(&found), [("new", 1), ("b", 1)], "{asked:?}");
        let c = found.hosts.iter().find(|h| h.host == "c").unwrap();
        assert_eq!((c.recordings, c.damage.len()), (1, 1), "a part can be read");
        assert!(
            c.damage[0].contains("meta.json: damaged") && c.damage[0].ends_with("left out"),
            "{:?}",
            c.damage
        );
    }
    for host in ["a", "c", "d"] {
        break_meta(host, START);
    }
    let found = fleet(root.path(), (None, None), &remembered).unwrap();
    assert_eq!(
        (unread(&found).len(), found.unix_ns.end),
        (5, later),
        "their names alone say when they began"
    );
}

#[test]
fn damage_is_said_each_time_and_gone_once_it_is_repaired() {
    let root = three_hosts();
    let file = root
        .path()
        .join("host=a")
        .join(Root::recording_directory(START))
        .join("rollup/60s-000001.parquet");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "PAR1").unwrap();
    let remembered = Remembered::default();
    for _ in 0..2 {
        assert_eq!(
            unread(&fleet(root.path(), (None, None), &remembered).unwrap()),
            [("a", 1)]
        );
    }
    let end = START + MINUTES * MINUTE_NS;
    record(root.path(), "e", end, &[("sda", "M1")]);
    let after = fleet(root.path(), (Some(end), None), &remembered).unwrap();
    assert_eq!(
        (unread(&after).len(), after.hosts.len()),
        (0, 1),
        "it ended before"
    );
    std::fs::remove_dir_all(root.path().join("host=e")).unwrap();
    std::fs::write(&file, whole).unwrap();
    assert_eq!(
        fleet(root.path(), (None, None), &remembered).unwrap().hosts[0]
            .devices
            .len(),
        3
    );
}

/// Directories whose path is longer than the kernel takes (4095 bytes) can be listed by no one, root neither.
#[test]
fn a_host_that_cannot_be_listed_is_named() {
    use iolens_core::private::PrivateDir;
    let dir = tempfile::tempdir().unwrap();
    let mut root = dir.path().to_owned();
    while root.as_os_str().len() < 3700 {
        root.push("d".repeat(200));
    }
    root.push("d".repeat(3960 - root.as_os_str().len()));
    std::fs::create_dir_all(&root).unwrap();
    record(&root, "a", START, &[("sda", "M1")]);
    let long = "h".repeat(150);
    PrivateDir::open_own(&root, Access::OWNER)
        .unwrap()
        .make_dir(Root::host_directory(&long))
        .unwrap();
    assert!(is_fleet(&root) && !is_fleet(&root.join("host=a")));
    let found = fleet(&root, (None, None), &Remembered::default()).unwrap();
    assert_eq!((unread(&found), found.hosts.len()), (vec![(&*long, 1)], 2));
}

#[test]
fn findings_are_counted_the_most_harmful_kept_and_read_again_when_they_change() {
    let root = three_hosts();
    let remembered = Remembered::default();
    let recording = |host: &str| {
        root.path()
            .join(format!("host={host}"))
            .join(Root::recording_directory(START))
    };
    let put = |host: &str, at_s: i64, length_s: i64, kind: &'static str, severity: Severity| {
        let finding = StoredFinding {
            from_ns: at_s * 1_000_000_000,
            to_ns: (at_s + length_s) * 1_000_000_000,
            open: false,
            kind: kind.into(),
            severity,
            device: Some("sda".to_owned()),
            summary: "something".to_owned(),
            evidence: serde_json::Map::new(),
        };
        put_finding(&recording(host), Access::OWNER, &finding).unwrap();
    };
    assert_eq!(
        fleet(root.path(), (None, None), &remembered).unwrap().hosts[0]
            .reported
            .total(),
        0
    );
    (0..30).for_each(|i| put("a", i, 1, "microburst", Severity::Info));
    put("a", 100, 1, "slow-io", Severity::Warning);
    put("a", 110, 9, "slow-io", Severity::Warning);
    put("a", 400, 1, "of-tomorrow", Severity::Info);
    put("a", 50, 1, "microburst", Severity::Warning);
    put("a", 500, 1, "stall", Severity::Critical);
    let all = fleet(root.path(), (None, None), &remembered).unwrap();
    let of = &all.hosts[0].reported;
    assert_eq!((of.total(), of.worst.len()), (35, 20));
    let first: Vec<(&str, f64)> = of
        .worst
        .iter()
        .take(4)
        .map(|f| (f.kind.as_str(), (f.from_unix_ns - START) as f64 / 1e9))
        .collect();
    assert_eq!(
        first,
        [
            ("stall", 500.0),
            ("slow-io", 110.0),
            ("slow-io", 100.0),
            ("microburst", 50.0)
        ]
    );
    assert_eq!(of.kinds[&"microburst".into()], (31, Severity::Warning));
    let minute = (Some(START + MINUTE_NS), Some(START + 2 * MINUTE_NS));
    assert_eq!(
        fleet(root.path(), minute, &remembered).unwrap().hosts[0]
            .reported
            .total(),
        2
    );
    std::fs::write(recording("a").join("findings/000001.parquet"), "PAR1").unwrap();
    let damaged = fleet(root.path(), (None, None), &remembered).unwrap();
    let a = &damaged.hosts[0];
    assert_eq!(
        (a.recordings, a.reported.total(), a.damage.len()),
        (1, 0, 1),
        "its rollups are whole"
    );
}
