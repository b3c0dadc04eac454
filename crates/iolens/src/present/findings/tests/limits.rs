//! Findings about limits, writers and the quality of data, in the words that people read; and evidence as documents hold it.

use std::collections::BTreeMap;

use iolens_core::analysis::capacity::State;
use iolens_core::analysis::counters::audit::{AuditRow, Rule};
use iolens_core::analysis::counters::io_ticks::{Regime, Verdict};
use iolens_core::analysis::findings::evidence::*;
use iolens_core::model::{Class, DevId, Device, LossReason, RecordingMeta, Source};
use serde_json::json;

use super::super::evidence;
use super::{burst, of, process, said};

#[test]
fn limits_of_a_device_are_said_with_what_waits() {
    let saturation = SaturationEvidence {
        saturated_percent: 38.0,
        max_ios_per_s: 1238.9,
        max_ios_per_s_ci: None,
        unloaded_us: 953.0,
        unloaded_ci_us: None,
        knee_in_flight: 0.7,
        knee_in_flight_ci: None,
        mix_load_percent: None,
        fit: None,
        mean_in_flight: 4.0,
        max_in_flight: 27.4,
        headroom_percent: None,
        windows: 200,
        window_s: 0.1,
        state: State::Saturated,
    };
    assert_eq!(
        said(Evidence::Saturation(Box::new(saturation))),
        "In 38 % of its busy time the device had more than twice what it serves at once (1.0) in flight, up to 27: more load \
         only waited. It does not get beyond 1239 I/Os per second; unloaded, one takes 953 us."
    );
    let bandwidth = BandwidthSaturationEvidence {
        plateau_bytes_per_s: 193_986_560.0,
        plateau_range_bytes_per_s: (193_462_272.0, 194_510_848.0),
        plateau_percent: 46.67,
        windows: 56,
        window_s: 0.5,
        mean_in_flight: 953.98,
        max_in_flight: 1730.1,
        needed_in_flight: 1.163,
        plateau_mean_us: 1_268_413.0,
        unloaded_us: 1571.3,
        mean_request_bytes: 262_144.0,
    };
    assert_eq!(
        said(Evidence::BandwidthSaturation(bandwidth)),
        "Throughput stays at 194 MB/s in 47 % of the time while 954 I/Os are in flight (up to 1730), where 1.2 would do: more \
         demand only waits. Latency there is 1.27 s, at light load 1.6 ms."
    );
    let full = QueueFullEvidence {
        queue_depth: 32,
        full_s: 19.9987,
        full_percent: 99.99,
        full_stretches: 1,
        longest_full_s: 19.9987,
        full_ios: 38_550,
        queue_mean_us: 8298.3,
        queue_max_us: 13_813,
        device_mean_us: 16_600.3,
    };
    let twice = QueueFullEvidence {
        full_stretches: 2,
        ..full.clone()
    };
    assert_eq!(
        said(Evidence::QueueFull(full)),
        "The device's queue was full for 20.0 s, 100 % of the time, in 1 stretch: it had 32 at once, never more, and the next \
         ones waited 8.3 ms in the kernel (at most 13.8 ms), beside 16.6 ms with the device."
    );
    assert!(said(Evidence::QueueFull(twice)).contains(", in 2 stretches: it had 32"));
    let util = UtilDisagreementEvidence {
        busy_percent: 4.9158,
        util_io_ticks_percent: 61.276,
        expected_percent: None,
        sigma_pp: None,
        regime: Some(Regime::StartTouches),
        verdict: Verdict::BiasedHigh,
    };
    let unknown = UtilDisagreementEvidence {
        regime: None,
        verdict: Verdict::Impossible,
        ..util.clone()
    };
    assert_eq!(
        [util, unknown].map(Evidence::UtilDisagreement).map(said),
        [
            "The kernel's %util says 61.3 %, which is too high: the device was busy 4.9 % of the time (kernels 5.7 to 6.9 count \
             every jiffy in which an I/O starts: %util is far too high for short I/O, too low for long overlapping I/O).",
            "The kernel's %util says 61.3 %, which is impossible: the device was busy 4.9 % of the time.",
        ]
    );
}

#[test]
fn writers_and_the_page_cache_are_said_with_who_waits() {
    let bound = FsyncBoundEvidence {
        cause: process(b"postgres", 7, Some("/srv/log")),
        pid: Some(7),
        sync_source: SyncSource::Calls,
        syncs: 2406,
        syncs_per_s: 120.31,
        sync_p50_us: 6812.69,
        sync_wait_s: 19.2,
        writing_s: 20.0,
        sync_wait_percent: 96.2,
        writes: Some(4814),
        writes_per_sync: Some(2.0008),
        bytes: Some(19_718_144),
        times_faster_at_most: 26.34,
        syncs_not_waited_for: 0,
        p_value: None,
    };
    let of_ios = FsyncBoundEvidence {
        cause: None,
        sync_source: SyncSource::Ios,
        writes_per_sync: None,
        ..bound.clone()
    };
    assert_eq!(
        [bound, of_ios].map(Evidence::FsyncBound).map(said),
        [
            "postgres (process 7), /srv/log is bound by syncs: 96 % of its writing time went by inside sync calls (2406 syncs, \
             120.3 per second, median 6.8 ms, 2.0 writes per sync). Without these waits it could write at most 26.3 times as fast.",
            "one writer is bound by syncs: 96 % of its writing time went by waiting for flushes and forced writes (2406 syncs, \
             120.3 per second, median 6.8 ms). Without these waits it could write at most 26.3 times as fast.",
        ]
    );
    let small = SmallSequentialEvidence {
        class: Class::Read,
        cause: process(b"tar", 7, None),
        pid: Some(7),
        request_bytes: 32_768,
        ios: 43_491,
        bytes: 1_425_113_088,
        runs: 1,
        longest_run_ios: 43_491,
        percent_of_ios: 70.03,
        busy_s: 2.0,
        large_request_bytes: 131_072,
        ios_if_large: 10_873,
    };
    assert_eq!(
        said(Evidence::SmallSequential(small)),
        "Reads of tar (process 7) move adjacent sectors in small requests: 43491 of 32.8 kB each in one run of up to 43491, not \
         merged, 70 % of the device's reads and writes. In requests of 131 kB it would be 10873."
    );
    let cached = CachedReadsEvidence {
        program_read_bytes: 10_485_760,
        device_read_bytes: 2_097_152,
        hit_percent: 80.0,
        reads_looked_at: 10,
        reads_without_wait_percent: Some(100.0),
    };
    assert_eq!(
        said(Evidence::CachedReads(cached)),
        "Programs read 10.5 MB through files, devices gave 2.10 MB: 80 % came from the page cache. What programs felt is not what \
         devices took. Of 10 reads looked at, 100 % did not wait."
    );
    let written = WrittenBackEvidence {
        written_bytes: 157_286_400,
        written_back_bytes: 157_286_400,
        origin_known_bytes: 157_286_400,
        written_back_percent: 100.0,
    };
    assert_eq!(
        said(Evidence::WrittenBack(written)),
        "100 % of writes (157 MB) were buffered (kernel writeback): applications waited for them only in fsync."
    );
}

#[test]
fn failed_and_missing_ios_are_counted_with_the_reason() {
    let error = IoErrorEvidence {
        ios: 3,
        by_error: BTreeMap::from([(5, 2), (28, 1)]),
        first_class: Class::Read,
        first_sector: Some(64),
        first_done_s: 1.0,
        first_process: Some("fio".to_owned()),
        first_pid: None,
    };
    let one = IoErrorEvidence {
        ios: 1,
        first_sector: None,
        first_process: None,
        first_pid: Some(9),
        ..error.clone()
    };
    assert_eq!(
        [error, one].map(Evidence::IoError).map(said),
        [
            "The device failed 3 I/Os, most often with error 5 (Input/output error); the first was a read at sector 64 by fio.",
            "The device failed 1 I/O, most often with error 5 (Input/output error); the first was a read by process 9.",
        ]
    );
    let lost = |ios, percent, reason| {
        said(Evidence::LostEvents(LostEventsEvidence {
            reason,
            ios,
            intervals: 1,
            lost_percent: percent,
        }))
    };
    assert_eq!(
        [
            lost(Some(50_000), Some(98.853), LossReason::RingFull),
            lost(Some(1), Some(0.001), LossReason::DiskFull),
            lost(None, None, LossReason::Corrupt),
        ],
        [
            "50000 I/Os lost (98.85 %): ring buffer overflow: raise --ring or give the recorder more CPU. Intervals that this can \
             change by more than 1 % are marked.",
            "1 I/O lost (under 0.01 %): the disk that holds the recording was full: use --keep or another disk. Intervals that \
             this can change by more than 1 % are marked.",
            "An unknown number of I/Os lost: a block of the recording is damaged. Intervals that this can change by more than 1 % \
             are marked.",
        ]
    );
}

#[test]
fn an_audit_says_how_far_means_are_understated() {
    let row = |class, rule, understated_percent| AuditRow {
        from_ns: 0,
        to_ns: 1,
        class,
        finer_rows: 10,
        ios: 5,
        stated_us: 10.0,
        weighted_us: Some(20.0),
        mean_of_means_us: 10.0,
        mean_of_non_empty_us: None,
        rule,
        understated_percent: Some(understated_percent),
        counts_agree: true,
    };
    let rows = vec![
        row(Class::Read, Rule::MeanOfMeans, 4.0),
        row(Class::Read, Rule::MeanOfNonEmptyMeans, 32.4),
        row(Class::Write, Rule::MeanOfMeans, 80.0),
        row(Class::Write, Rule::WeightedByIos, 0.0),
    ];
    let of = |rows: Vec<AuditRow>| {
        let averages_of_averages = rows.iter().filter(|r| r.rule.is_wrong()).count();
        said(Evidence::AveragedAverages(AveragedAveragesEvidence {
            checked: rows.len(),
            averages_of_averages,
            rows,
        }))
    };
    assert_eq!(
        [of(rows.clone()), of(rows[3..].to_vec())],
        [
            "3 of 4 mean latencies are averages of averages; read latency is understated by 4 to 32 %; write latency is \
             understated by 80 to 80 %.",
            "1 mean latencies were checked against finer rows: none is an average of averages.",
        ]
    );
    assert_eq!(super::super::averaged_averages(&[]), None);
}

#[test]
fn documents_name_processes_and_devices_and_leave_out_what_is_not_theirs() {
    let mut meta = RecordingMeta::new(Source::Ebpf, 0);
    meta.devices = vec![Device::named("sda", DevId::new(8, 0))];
    let by_backup = MicroburstEvidence {
        cause: process(b"backup", 9, None),
        ..burst()
    };
    let map = evidence(&of(Evidence::Microburst(Box::new(by_backup))), &meta);
    let expected = [
        ("cause", json!("backup (process 9)")),
        ("class", json!("read")),
        ("max_in_flight", json!(null)),
    ];
    expected
        .iter()
        .for_each(|(key, value)| assert_eq!(map.get(*key), Some(value), "{key}"));
    let burst = burst();
    let plain = evidence(&of(Evidence::Microburst(Box::new(burst.clone()))), &meta);
    assert!(
        plain["cause"].is_null()
            && plain["limit_source"] == "learned"
            && plain["measure"] == "bytes",
        "{plain:?}"
    );
    assert!(
        !plain.contains_key("link_devices") && !plain.contains_key("other_class_mean_max_us"),
        "{plain:?}"
    );
    let link_devices = vec![DevId::new(8, 0), DevId::new(8, 16)];
    let of_link = MicroburstEvidence {
        link_devices,
        other_class_mean_max_us: Some(None),
        ..burst
    };
    let map = evidence(&of(Evidence::Microburst(Box::new(of_link))), &meta);
    assert_eq!(
        (&map["link_devices"], &map["other_class_mean_max_us"]),
        (&json!(["sda", "8:16"]), &json!(null))
    );
    let slow = SlowIoEvidence {
        ios_over_1s: 1,
        slowest_us: 2e6,
        slowest_device_us: 2e6,
        slowest_done_s: 3.0,
        slowest_class: Class::Read,
        slowest_bytes: 512,
        slowest_sector: Some(8),
        slowest_process: Some("fio".to_owned()),
        slowest_pid: Some(7),
        cpu_shortage: None,
    };
    let map = evidence(&of(Evidence::SlowIo(slow)), &meta);
    assert!(
        map["slowest_process"] == "fio" && !map.contains_key("slowest_pid"),
        "{map:?}"
    );
}
