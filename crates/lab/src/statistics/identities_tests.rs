use super::*;

const FIO: &str = include_str!("../../../../fixtures/golden/seed1_fio_values.csv");
const IOSTAT: &str = include_str!("../../../../fixtures/golden/seed1_iostat_values.csv");

fn fio(sample: &str, field: &str) -> f64 {
    let cell = FIO
        .lines()
        .map(|l| l.split(',').collect::<Vec<_>>())
        .find(|c| c[0] == sample && c[1] == field);
    cell.expect("published")
        .last()
        .expect("value")
        .parse()
        .expect("number")
}

/// The published 30 s run: 4 KiB random reads one at a time, fio's own disk statistics.
fn published() -> RunFacts {
    let of = |f| fio("30s_libaio_4k_randread", f);
    let app = AppSide {
        ios: of("issued_r"),
        bytes: of("io_KB") * 1024.0,
        block_bytes: Some(4096.0),
        bytes_per_s: Some(of("bw_B_s")),
        ios_per_s: Some(of("iops")),
        mean_us: None,
    };
    let device = DeviceSide {
        ios: of("disk_ios_r"),
        bytes: None,
        merges: 0.0,
        ticks_ms: of("disk_ticks_ms"),
    };
    RunFacts {
        app: [app, AppSide::default()],
        device: [device, DeviceSide::default()],
        runtime_s: of("runt_ms") / 1000.0,
        window_s: of("runt_ms") / 1000.0,
        source: DeviceSource::FioSampling,
        in_queue_ms: Some(of("disk_in_queue_ms")),
        io_ticks_ms: Some(of("disk_ticks_ms")),
        util_percent: Some(of("disk_util_pct")),
        direct: true,
        queue_depth: 1,
        max_request_bytes: Some(524_288.0),
        read_ahead_bytes: None,
        others: Vec::new(),
        metadata_bytes: 0.0,
        foreign: Default::default(),
        lost_ios: Some(0),
    }
}

fn round(x: f64, decimals: i32) -> f64 {
    (x * 10f64.powi(decimals)).round() / 10f64.powi(decimals)
}

#[test]
fn the_published_run_to_the_printed_digits() {
    let r = published();
    let all = identities(&r);
    let get = |id: &str| {
        all.iter()
            .find(|i| i.id == id)
            .unwrap_or_else(|| panic!("{id} in {all:?}"))
    };
    assert!(all.iter().all(|i| i.holds), "{all:#?}");
    assert_eq!(round(get("I1.r").right / 1024.0, 2), 21060.00);
    assert_eq!(get("I2.r").right / 1024.0, 21060.0);
    assert_eq!(round(r.app[0].ios / r.runtime_s, 2), 175.48);
    let i4 = get("I4.r");
    assert_eq!(
        (i4.left / 1024.0, i4.left / 1024.0 - i4.right / 1024.0),
        (21004.0, -56.0)
    );
    assert_eq!(i4.residual_percent.map(|p| round(p, 3)), Some(-0.266));
    let missing = get("I5.r").right - get("I5.r").left;
    assert_eq!(
        (missing, (missing / 175.48 * 1000.0_f64).round()),
        (14.0, 80.0),
        "14 I/Os are 80 ms of the run"
    );
    let i9 = get("I9.r");
    assert_eq!((round(i9.left, 3), round(i9.right, 3)), (5.680, 5.699));
    let i7 = get("I7");
    assert_eq!((round(i7.left, 4), round(i7.right, 4)), (0.9939, 0.9942));
    let i8 = get("I8");
    assert_eq!((round(i8.left, 2), i8.right), (99.42, 99.40));
    assert_eq!(
        round(29828.0 / 0.994 / 1000.0, 3),
        30.008,
        "the window that fio's utilisation implies"
    );
    assert_eq!(round(29820.0 / 0.994 / 1000.0, 3), 30.000);
    assert_eq!(verdicts(&r), [IdentityVerdict::Agree]);
}

#[test]
fn the_published_longer_run() {
    let of = |f| fio("120s_quoted_line", f);
    let bytes = of("io_KB") * 1024.0;
    assert_eq!(round(bytes / (of("runt_ms") / 1000.0), 2), 670_322.19);
    assert_eq!(of("bw_B_s"), 670_322.0);
    assert_eq!(round(bytes / 4096.0 / (of("runt_ms") / 1000.0), 2), 163.65);
}

#[test]
fn the_published_iostat_rows() {
    let heading: Vec<&str> = IOSTAT.lines().next().expect("heading").split(',').collect();
    let want = [(8.0, 1.0006, 5.575), (8.0, 0.9933, 6.024)];
    for (line, (sectors, queue, service)) in IOSTAT.lines().skip(1).zip(want) {
        let cells: Vec<&str> = line.split(',').collect();
        let v = |n: &str| {
            cells[heading.iter().position(|h| *h == n).expect("column")]
                .parse::<f64>()
                .expect("number")
        };
        let d = DeviceSide {
            ios: v("r_s"),
            bytes: Some(v("rkB_s") * 1024.0),
            merges: 0.0,
            ticks_ms: v("r_s") * v("await_ms"),
        };
        assert_eq!(d.request_bytes().map(|b| b / 512.0), Some(sectors));
        assert_eq!(v("avgrq_sz"), sectors);
        assert_eq!(round(d.ticks_ms / 1000.0, 4), queue);
        assert_eq!(round(10.0 * v("pct_util") / v("r_s"), 3), service);
    }
}

/// A bracketed run of 1000 I/Os of `bs` bytes.
fn run(bs: f64, direct: bool, device: DeviceSide) -> RunFacts {
    let app = AppSide {
        ios: 1000.0,
        bytes: 1000.0 * bs,
        block_bytes: Some(bs),
        mean_us: Some(1000.0),
        ..AppSide::default()
    };
    RunFacts {
        app: [app, AppSide::default()],
        device: [device, DeviceSide::default()],
        runtime_s: 1.0,
        window_s: 1.0,
        source: DeviceSource::Bracket,
        in_queue_ms: None,
        io_ticks_ms: None,
        util_percent: None,
        direct,
        queue_depth: 1,
        max_request_bytes: Some(524_288.0),
        read_ahead_bytes: Some(131_072.0),
        others: Vec::new(),
        metadata_bytes: 0.0,
        foreign: Default::default(),
        lost_ios: Some(0),
    }
}

fn device(ios: f64, bytes: f64, merges: f64, ticks_ms: f64) -> DeviceSide {
    DeviceSide {
        ios,
        bytes: Some(bytes),
        merges,
        ticks_ms,
    }
}

#[test]
fn each_mechanism_gets_its_verdict() {
    let kind = |r: &RunFacts| {
        verdicts(r)
            .iter()
            .map(|v| serde_json::to_value(v).expect("json")["kind"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kind(&run(4096.0, true, device(1000.0, 4_096_000.0, 0.0, 900.0))),
        ["\"agree\""]
    );
    let cached = run(4096.0, false, device(250.0, 1_024_000.0, 0.0, 200.0));
    assert!(
        matches!(verdicts(&cached)[..], [IdentityVerdict::PageCache { hit_percent }] if (hit_percent - 75.0).abs() < 1e-9)
    );
    assert_eq!(
        kind(&run(4096.0, false, device(1000.0, 8_192_000.0, 0.0, 900.0))),
        ["\"readahead\"", "\"gathered\""]
    );
    let sequential = run(4096.0, false, device(31.25, 4_096_000.0, 0.0, 300.0));
    assert_eq!(kind(&sequential), ["\"readahead-cap\""]);
    // The published "stuck at 512 sectors": 256 KiB, twice the usual window of 128 KiB.
    let announced = run(4096.0, false, device(15.625, 4_096_000.0, 0.0, 300.0));
    assert!(
        matches!(
            verdicts(&announced)[..],
            [IdentityVerdict::ReadaheadCap { doubled: true, .. }]
        ),
        "{:?}",
        verdicts(&announced)
    );
    let large = run(
        1_048_576.0,
        true,
        device(2000.0, 1_048_576_000.0, 0.0, 900.0),
    );
    assert!(
        matches!(verdicts(&large)[..], [IdentityVerdict::Splitting { requests_per_io, request_bytes, .. }] if requests_per_io == 2.0 && request_bytes == 524_288.0)
    );
    assert_eq!(
        kind(&run(4096.0, true, device(100.0, 4_096_000.0, 900.0, 900.0))),
        ["\"merging\""]
    );
    assert_eq!(
        kind(&run(4096.0, true, device(1000.0, 4_096_000.0, 0.0, 100.0))),
        ["\"throttled-above\""]
    );
    let mut shared = run(4096.0, true, device(1500.0, 6_144_000.0, 0.0, 1400.0));
    shared.others = vec![("rsync".to_owned(), 2_048_000.0)];
    assert_eq!(kind(&shared), ["\"other-writers\""]);
    let mut written = run(4096.0, false, device(10.0, 4_096_000.0, 0.0, 900.0));
    written.app.swap(0, 1);
    written.device.swap(0, 1);
    assert_eq!(kind(&written), ["\"gathered\""]);
}

#[test]
fn io_of_other_processes_is_subtracted() {
    let mut r = run(4096.0, true, device(1500.0, 6_144_000.0, 0.0, 1400.0));
    assert!(identities(&r).iter().any(|i| i.id == "I4.r" && !i.holds));
    r.foreign[0] = Foreign {
        ios: 500.0,
        bytes: 2_048_000.0,
    };
    assert!(
        identities(&r).iter().all(|i| i.holds && i.id != "I9.r"),
        "{:?}",
        identities(&r)
    );
}

#[test]
fn a_failed_identity_says_so() {
    let r = run(4096.0, true, device(1500.0, 6_144_000.0, 0.0, 900.0));
    let bad: Vec<String> = identities(&r)
        .into_iter()
        .filter(|i| !i.holds)
        .map(|i| i.id)
        .collect();
    assert_eq!(bad, ["I4.r", "I5.r"]);
}

/// The names of the identities that fail.
fn failed(r: &RunFacts) -> Vec<String> {
    ids(identities(r).into_iter().filter(|i| !i.holds).collect())
}

#[test]
fn lost_ios_explain_no_more_than_they_can_have_been() {
    // The device completed 3 requests more than the application, one of which may have been in
    // flight.
    let mut r = run(4096.0, true, device(1003.0, 4_108_288.0, 0.0, 900.0));
    let both = vec!["I4.r".to_owned(), "I5.r".to_owned()];
    let unexplained = [IdentityVerdict::Unexplained {
        failed: both.clone(),
    }];
    r.lost_ios = Some(1);
    assert_eq!(
        verdicts(&r)[1],
        IdentityVerdict::Unexplained {
            failed: vec!["I5.r".to_owned()]
        },
        "one lost request may have had all the bytes, but is not two"
    );
    for lost_ios in [Some(3), None] {
        r.lost_ios = lost_ios;
        let losses = IdentityVerdict::RecordingLosses {
            lost_ios,
            failed: both.clone(),
        };
        assert_eq!(verdicts(&r), [losses]);
        assert_eq!(failed(&r), both, "they do not hold by themselves");
    }
    r.lost_ios = Some(0);
    assert_eq!(verdicts(&r), unexplained);
    // I/O missing from the recording makes the device's side larger, never smaller.
    r.lost_ios = Some(3);
    r.device[0].ios = 997.0;
    r.device[0].bytes = Some(4_083_712.0);
    assert_eq!(verdicts(&r), unexplained);
}

fn recording_losses(lost_ios: Option<i64>) -> IdentityVerdict {
    IdentityVerdict::RecordingLosses {
        lost_ios,
        failed: vec!["I4.r".to_owned(), "I5.r".to_owned()],
    }
}

#[test]
fn the_sentence_gives_the_number_of_lost_ios() {
    assert_eq!(
        recording_losses(Some(3)).sentence(),
        "lost I/Os: the recording lost 3 I/Os; I4.r, I5.r would hold if other processes did them"
    );
    let one = recording_losses(Some(1)).sentence();
    assert!(one.contains("lost 1 I/O;"));
    let unknown = recording_losses(None).sentence();
    assert!(unknown.contains("an unknown number of I/Os"));
}
