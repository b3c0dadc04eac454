//! Findings about bursts, waiting and device time, in the words that people read.

mod limits;

use iolens_core::analysis::bursts::LimitSource;
use iolens_core::analysis::bursts::cells::IoActor;
use iolens_core::analysis::bursts::scan::Measure;
use iolens_core::analysis::counters::pressure::{CpuShortage, HostState};
use iolens_core::analysis::findings::Cause;
use iolens_core::analysis::findings::evidence::*;
use iolens_core::analysis::latency::{change as changes, mode as modes};
use iolens_core::analysis::periodicity;
use iolens_core::analysis::{Finding, Severity};
use iolens_core::model::{Class, Comm, DevId, Origin};

use super::summary;
use crate::present::times::Times;

fn said(evidence: Evidence) -> String {
    summary(&of(evidence), &Times::relative())
}

fn of(evidence: Evidence) -> Finding {
    Finding {
        dev: None,
        from_ns: 0,
        to_ns: 1_000_000_000,
        severity: Severity::Info,
        evidence,
    }
}

fn process(comm: &[u8], pid: i32, path: Option<&str>) -> Option<Cause> {
    let actor = IoActor {
        tgid: Some(pid),
        comm: Some(Comm::new(comm)),
        origin: Origin::Direct,
        file: None,
    };
    Some(Cause {
        actor,
        class: Class::Write,
        path: path.map(str::to_owned),
    })
}

fn burst() -> MicroburstEvidence {
    MicroburstEvidence {
        class: Class::Read,
        bytes: 4_980_736,
        ios: 19,
        peak_bytes_per_s: 889_841_000.0,
        peak_iops: 1900.0,
        mean_1s_bytes_per_s: 391_905_280.0,
        hidden_factor: 2.27,
        duration_s: 0.001,
        core_s: 0.01,
        slot_s: 0.01,
        mean_request_bytes: 262_144.0,
        limit_bytes_per_s: Some(1_222_817_800.0),
        limit_source: Some(LimitSource::Learned),
        percent_of_limit: 72.8,
        exceeds_limit: false,
        measure: Measure::Bytes,
        baseline_per_s: 901_120_000.0,
        expected_by_chance: 0.0014,
        p_value: 0.0014,
        core_bytes: 4_980_736,
        bucket_bytes: 76_252_990.1,
        mean_15s_bytes_per_s: None,
        hidden_factor_15s: None,
        mean_60s_bytes_per_s: None,
        hidden_factor_60s: None,
        active_second_bytes_per_s: None,
        max_in_flight: None,
        other_class_max_us: None,
        other_class_ios: None,
        other_class_mean_max_us: None,
        bursts_in_recording: 1,
        lossy: false,
        cause: None,
        link_devices: Vec::new(),
    }
}

#[test]
fn bursts_say_how_much_in_what_time_and_what_samples_show() {
    assert_eq!(
        said(Evidence::Microburst(Box::new(burst()))),
        "Read burst: 4.98 MB (19 I/Os) in 1.0 ms (5.5x the background). The device moved at least 890 MB/s at its peak; a 1 s sample \
         shows 392 MB/s (2.3x lower)."
    );
    let of_link = MicroburstEvidence {
        class: Class::Write,
        measure: Measure::Ios,
        baseline_per_s: 0.0,
        cause: process(b"dd", 12, Some("/srv/db")),
        lossy: true,
        bursts_in_recording: 4,
        link_devices: vec![DevId::new(8, 0), DevId::new(8, 16)],
        ..burst()
    };
    assert_eq!(
        said(Evidence::Microburst(Box::new(of_link))),
        "Write burst: 4.98 MB (19 I/Os) in 1.0 ms, mostly by dd (process 12), /srv/db. The device moved at least 890 MB/s at its peak; a \
         1 s sample shows 392 MB/s (2.3x lower). Lower bound: some I/Os in this window were lost. One of 4 such bursts. \
         Summed over the 2 devices of one link."
    );
    let of_table = MicroburstEvidence {
        other_class_mean_max_us: Some(Some(136_888.0)),
        ..burst()
    };
    let text = said(Evidence::Microburst(Box::new(of_table)));
    assert!(
        text.ends_with("(2.3x lower). Writes took up to 136.9 ms on average meanwhile."),
        "{text}"
    );
}

#[test]
fn what_comes_back_says_how_often_and_how_sure_that_is() {
    let e = PeriodicityEvidence {
        class: Class::Write,
        verdict: periodicity::Verdict::Periodic,
        period_s: 5.385,
        period_low_s: Some(5.36),
        period_high_s: Some(5.41),
        confidence: 0.996,
        p_value: 0.004,
        jitter: 0.032,
        autocorrelation: Some(0.81),
        cycles: 8.0,
        onsets: 19,
        onsets_in_step: 9,
        cause: process(b"jbd2/sda1-8", 3, None),
    };
    let tentative = PeriodicityEvidence {
        verdict: periodicity::Verdict::Tentative,
        cause: None,
        ..e.clone()
    };
    assert_eq!(
        [e, tentative].map(Evidence::Periodicity).map(said),
        [
            "Writes recur every 5.38 s, mostly from ext4's journal, jbd2/sda1-8 (process 3): 9 beats over 8.0 periods, jitter \
             3.2% (p = 0.004).",
            "Writes recur every 5.38 s: 9 beats over 8.0 periods, jitter 3.2% (p = 0.004; tentative: too few periods).",
        ]
    );
}

#[test]
fn a_stall_says_what_waited_and_how_far_it_reached() {
    let e = StallEvidence {
        duration_s: 0.301,
        expected_s: 0.02,
        in_flight: 302,
        issued_meanwhile: 301,
        completed_before: Some(Class::Read),
        completed_after: Class::Write,
        flush_in_flight: false,
        scope: StallScope::Host,
        other_devices_stalled: 1,
        other_devices: 2,
        group: Some("nvme0".to_owned()),
        group_devices: Some(2),
        group_devices_stalled: Some(2),
        layers_stalled: Vec::new(),
        stalls_in_recording: 1,
        host_state: None,
    };
    assert_eq!(
        said(Evidence::Stall(e.clone())),
        "Device stalled: nothing completed for 301.0 ms with 302 I/Os in flight (301 issued meanwhile); its service times \
         explain gaps of up to 20.0 ms. Reads completed before it, writes after it. All 2 devices behind nvme0 stopped, others \
         did not."
    );
    let on_calm_host = StallEvidence {
        host_state: Some(HostState {
            cpu_pressure_percent: Some(3.2),
            io_pressure_percent: Some(99.0),
            steal_percent: None,
            runnable_per_cpu: Some(0.5),
            timer_late_ms: Some(2.0),
            timer_late_percent: 0.1,
            measured_s: 1.0,
        }),
        ..e.clone()
    };
    assert_eq!(
        said(Evidence::Stall(on_calm_host))
            .split_once("others did not.")
            .map(|s| s.1.to_owned())
            .as_deref(),
        Some(" Not the host's CPUs: CPU pressure 3.2 %, iolens' own timer at most 2.0 ms late.")
    );
    let member = StallEvidence {
        completed_before: None,
        flush_in_flight: true,
        scope: StallScope::ArrayMember,
        group: Some("md0".to_owned()),
        group_devices: Some(4),
        layers_stalled: vec!["md0".to_owned(), "dm-1".to_owned()],
        stalls_in_recording: 3,
        ..e.clone()
    };
    assert_eq!(
        said(Evidence::Stall(member))
            .split_once(" of up to 20.0 ms. ")
            .map(|s| s.1.to_owned())
            .as_deref(),
        Some(
            "The device was idle before it; writes completed after it; a flush was in flight. Of the 4 members of md0 only this one \
             stopped. md0, dm-1 stood still with it. One of 3 stalls."
        )
    );
    let reach =
        |scope, group: Option<(&str, usize, usize)>, (other_devices_stalled, other_devices)| {
            let group_devices = group.map(|g| g.1);
            let group_devices_stalled = group.map(|g| g.2);
            let group = group.map(|g| g.0.to_owned());
            let own = StallEvidence {
                scope,
                group,
                group_devices,
                group_devices_stalled,
                ..e.clone()
            };
            let text = said(Evidence::Stall(StallEvidence {
                other_devices_stalled,
                other_devices,
                ..own
            }));
            text.split_once("writes after it.")
                .expect("a sentence")
                .1
                .to_owned()
        };
    let md = |n| Some(("md0", 4, n));
    let nvme = |n| Some(("nvme0", 3, n));
    assert_eq!(
        [
            reach(StallScope::ArrayMembers, md(2), (1, 3)),
            reach(StallScope::Array, md(4), (3, 3)),
            reach(StallScope::Device, nvme(1), (0, 3)),
            reach(StallScope::Devices, nvme(2), (1, 3)),
            reach(StallScope::Device, None, (0, 0)),
            reach(StallScope::Device, None, (0, 3)),
            reach(StallScope::Devices, None, (2, 3)),
            reach(StallScope::All, None, (3, 3)),
        ],
        [
            " 2 of the 4 members of md0 stopped at the same time.",
            " All 4 members of md0 stopped at the same time.",
            " Of the 3 devices behind nvme0 only this one stopped.",
            " 2 of the 3 devices behind nvme0 stopped at the same time.",
            "",
            " Other devices went on.",
            " 2 of the 3 other devices stopped at the same time.",
            " All devices stopped at the same time.",
        ]
    );
}

#[test]
fn changes_and_modes_of_device_time_are_said_with_both_sides() {
    let e = LatencyChangeEvidence {
        class: Class::Read,
        form: changes::Form::Step,
        at_s: 11.42,
        ratio_at_same_load: 0.4996,
        ratio_at_same_load_ci: (0.4825, 0.5173),
        device_p50_before_us: Some(86.2),
        device_p50_after_us: Some(42.8),
        device_p99_before_us: Some(276.6),
        device_p99_after_us: Some(144.0),
        ios_before: 5757,
        ios_after: 22_119,
        load_ratio: 0.81,
        p_value: 0.007,
        p_family: 1e-23,
        blocks: 32,
        cpu_shortage: None,
        host_before: None,
        host_after: None,
    };
    let trend = LatencyChangeEvidence {
        form: changes::Form::Trend,
        ratio_at_same_load: 1.9,
        device_p99_after_us: None,
        ..e.clone()
    };
    let changed = |e: LatencyChangeEvidence| match e.form {
        changes::Form::Step => Evidence::LatencyStep(e),
        changes::Form::Trend => Evidence::LatencyTrend(e),
    };
    let with_cpus = LatencyChangeEvidence {
        cpu_shortage: Some(CpuShortage::Pressure),
        ..e.clone()
    };
    let text = said(changed(with_cpus));
    assert!(
        text.ends_with("The CPUs were short until then: the device need not be the cause."),
        "{text}"
    );
    let names = [&e, &trend].map(|e| changed(e.clone()).kind().name());
    assert_eq!(names, ["latency-step", "latency-trend"]);
    assert_eq!(
        [e, trend].map(changed).map(said),
        [
            "Reads became faster at 11.4 s: at the same load the device takes 0.50 times as long (95 % interval 0.48 to 0.52; p = \
             0.007). Median 86 us before and 43 us after, p99 277 us and 144 us; n = 5757 and 22119.",
            "Reads became slower little by little: at the same load the device takes 1.90 times as long (95 % interval 0.48 to \
             0.52; p = 0.007). Median 86 us in the first quarter and 43 us in the last; n = 5757 and 22119.",
        ]
    );
    let mode = LatencyModeEvidence {
        class: Class::Read,
        form: modes::Form::SecondMode,
        min_bytes: 4096,
        below_bytes: 8192,
        slow_percent: 4.536,
        usual_device_us: 105.15,
        slow_device_us: 8000.0,
        slow_time_percent: 77.5,
        slow_ios: 1367,
        sampled_ios: 30_136,
        stretches: 1119,
        slow_sectors: None,
        slow_in_cpu_shortage_percent: None,
        cpu_shortage: None,
    };
    let tail = LatencyModeEvidence {
        form: modes::Form::Tail,
        stretches: 400,
        slow_sectors: Some((8, 4096)),
        ..mode.clone()
    };
    assert_eq!(
        [mode, tail].map(Evidence::LatencyMode).map(said),
        [
            "Reads of 4.0 to 8.0 KiB are not all alike: 4.54 % take about 8.0 ms with the device, where the others take 105 us. \
             They come in 1119 stretches, and take 78 % of the device time (n = 1367 of 30136).",
            "Reads of 4.0 to 8.0 KiB are not all alike: 4.54 % form a heavy tail, in the middle 8.0 ms with the device, where the \
             others take 105 us. They come in 400 stretches, about 3 in a row, and take 78 % of the device time (n = 1367 of \
             30136). Most of them lie between sectors 8 and 4096.",
        ]
    );
}

#[test]
fn slow_members_and_slow_ios_are_named() {
    let e = SlowMemberEvidence {
        array: "md0".to_owned(),
        members: 5,
        member: "sdc".to_owned(),
        class: Class::Write,
        ratio: 2.079,
        ratio_ci: (2.031, 2.128),
        p_value: 1e-18,
        blocks: 16,
        device_p50_us: Some(963.2),
        device_p99_us: Some(3960.4),
        slowest_peer: "sdd".to_owned(),
        slowest_peer_p50_us: Some(454.7),
        slowest_peer_p99_us: Some(1831.8),
        slowest_peer_ios: 6164,
        ios: 6016,
        peers_ios: 24_208,
    };
    assert_eq!(
        said(Evidence::SlowMember(e)),
        "Writes of sdc, one of the 5 members of md0, take 963 us with the device, those of sdd, the slowest of the others, 455 us \
         (p50; 2.08x at the same size, 95 % interval 2.03 to 2.13; p < 0.001; n = 6016 vs 6164)."
    );
    let slow = SlowIoEvidence {
        ios_over_1s: 1,
        slowest_us: 11e6,
        slowest_device_us: 5.5e6,
        slowest_done_s: 12.0,
        slowest_class: Class::Write,
        slowest_bytes: 4096,
        slowest_sector: None,
        slowest_process: None,
        slowest_pid: None,
        cpu_shortage: None,
    };
    let in_shortage = SlowIoEvidence {
        cpu_shortage: Some(CpuShortage::Steal),
        ..slow.clone()
    };
    let by_fio = SlowIoEvidence {
        ios_over_1s: 3,
        slowest_device_us: 5.4e6,
        slowest_process: Some("fio".to_owned()),
        slowest_pid: Some(7),
        ..slow.clone()
    };
    assert_eq!(
        [slow, by_fio, in_shortage].map(Evidence::SlowIo).map(said),
        [
            "A write of 4.10 kB took 11.00 s, most of it in the device.",
            "3 I/Os took longer than 1 s; the slowest, a write of 4.10 kB by fio (process 7), took 11.00 s, most of it in the \
             kernel's queue.",
            "A write of 4.10 kB took 11.00 s, most of it in the device. The CPUs were short meanwhile: the device need not be \
             the cause.",
        ]
    );
}
