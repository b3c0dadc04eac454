#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn event(at_ns: i64, sector: u64, bytes: u64) -> Event {
    Event {
        at_ns,
        dev: DevId(1),
        sector,
        bytes,
        op: Op::WRITE,
        flags: 0,
        tgid: Some(7),
        comm: None,
        error: 0,
    }
}

fn run(stages: &[(BlockStage, Event)]) -> (Vec<Io>, u64) {
    let (ios, log) = run_with(Pairing::default(), stages);
    (ios, log.censored)
}

fn run_with(mut p: Pairing, stages: &[(BlockStage, Event)]) -> (Vec<Io>, Log) {
    let ios = stages.iter().filter_map(|(s, e)| p.push(*s, e)).collect();
    let mut log = Log::default();
    p.finish(&mut log);
    log.bios = p.bios.take().unwrap_or_default();
    (ios, log)
}

#[test]
fn queue_start_issue_complete() {
    use BlockStage::*;
    let (ios, censored) = run(&[
        (Queue, event(1, 8, 4096)),
        (Start, event(3, 8, 4096)),
        (Issue, event(10, 8, 4096)),
        (Complete, event(30, 8, 4096)),
    ]);
    assert_eq!(
        (ios[0].queue_ns, ios[0].device_ns, ios[0].bytes, censored),
        (Some(7), 20, 4096, 0)
    );
    assert_eq!(ios[0].start_ns(), 3, "accounting starts at G, not at Q");
}

#[test]
fn merges_in_front_and_behind_keep_the_first_start() {
    use BlockStage::*;
    let (ios, _) = run(&[
        (Start, event(1, 16, 4096)),
        (Queue, event(2, 24, 4096)),
        (BackMerge, event(2, 24, 4096)),
        (Queue, event(3, 8, 4096)),
        (FrontMerge, event(3, 8, 4096)),
        (Issue, event(10, 8, 12288)),
        (Complete, event(30, 8, 12288)),
    ]);
    assert_eq!(
        (ios.len(), ios[0].bytes, ios[0].queue_ns, ios[0].merges),
        (1, 12288, Some(9), Some(2))
    );
}

#[test]
fn bios_report_their_stages() {
    use BlockStage::*;
    let mut p = Pairing::with_bios();
    for (stage, e) in [
        (Queue, event(1, 16, 4096)),
        (Start, event(3, 16, 4096)),
        (Queue, event(4, 24, 4096)),
        (BackMerge, event(5, 24, 4096)),
        (Queue, event(6, 8, 4096)),
        (FrontMerge, event(8, 8, 4096)),
        (Insert, event(12, 8, 12288)),
        (Issue, event(20, 8, 12288)),
        (Complete, event(50, 8, 12288)),
    ] {
        p.push(stage, &e);
    }
    let ways: Vec<_> = p
        .bios
        .expect("requested")
        .iter()
        .map(|b| (b.q2g_ns, b.g2i_ns, b.q2m_ns, b.i2d_ns, b.m2d_ns, b.q2c_ns))
        .collect();
    let merged = |q2m, m2d, q2c| (None, None, Some(q2m), None, Some(m2d), Some(q2c));
    assert_eq!(
        ways,
        [
            (Some(2), Some(9), None, Some(8), None, Some(49)),
            merged(1, 15, 46),
            merged(2, 12, 44)
        ]
    );
}

#[test]
fn partial_completions_end_at_the_last_one() {
    use BlockStage::*;
    let (ios, censored) = run(&[
        (Start, event(1, 0, 8192)),
        (Issue, event(2, 0, 8192)),
        (Complete, event(5, 0, 4096)),
        (Complete, event(9, 8, 4096)),
    ]);
    assert_eq!(
        (ios.len(), ios[0].done_ns, ios[0].bytes, censored),
        (1, 9, 8192, 0)
    );
}

#[test]
fn a_time_that_comes_out_negative_is_counted() {
    use BlockStage::*;
    let stages = [
        (Start, event(10, 0, 512)),
        (Issue, event(5, 0, 512)),
        (Complete, event(20, 0, 512)),
    ];
    let (ios, log) = run_with(Pairing::default(), &stages);
    assert_eq!((ios[0].queue_ns, ios[0].device_ns), (Some(0), 15));
    assert!(
        log.limits
            .iter()
            .any(|l| l.starts_with("1 times count as 0")),
        "{:?}",
        log.limits
    );
}

#[test]
fn only_one_end_is_censored() {
    use BlockStage::*;
    let (ios, censored) = run(&[
        (Issue, event(1, 0, 512)),
        (Complete, event(2, 64, 512)),
        (Issue, event(3, 8, 512)),
    ]);
    assert_eq!((ios.len(), censored), (0, 3));
}

#[test]
fn a_device_of_bios_has_no_queue_time() {
    let (ios, _) = run(&[
        (BlockStage::Queue, event(1, 8, 512)),
        (BlockStage::Complete, event(5, 8, 512)),
    ]);
    assert_eq!((ios[0].queue_ns, ios[0].device_ns), (None, 4));
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn ends_missing_in_the_middle_are_lost_and_at_the_ends_censored() {
    use BlockStage::*;
    let mut stages = vec![(Complete, event(0, 800, 512))];
    for i in 1..=5 {
        stages.push((Issue, event(i * SECOND, 8 * i as u64, 512)));
        stages.push((
            Complete,
            event(i * SECOND + 1000, 8 * i as u64 + 4 * u64::from(i == 3), 512),
        ));
    }
    stages.push((Issue, event(5 * SECOND + 2000, 900, 512)));
    let (ios, log) = run_with(Pairing::default(), &stages);
    assert_eq!(
        (ios.len(), log.censored, log.lost_ios),
        (4, 2, 1),
        "{:?}",
        log.limits
    );
    assert!(log.limits[0].contains("at least 1 I/Os"));
}

#[test]
fn a_bio_whose_request_was_not_seen_is_no_start_of_a_later_one() {
    use BlockStage::*;
    let at = |s: i64, ns| event(s * SECOND + ns, 8, 4096);
    let stages = [
        (Issue, event(0, 64, 512)),
        // Its other stages went to a processor whose file is missing.
        (Queue, at(1, 0)),
        (Queue, at(100, 0)),
        (Start, at(100, 5)),
        (Issue, at(100, 9)),
        (Complete, at(100, 20)),
        (Queue, at(101, 0)),
        (Queue, event(102 * SECOND, 72, 4096)),
        (Start, at(222, 5)),
        (Issue, at(222, 9)),
        (Complete, at(222, 20)),
    ];
    let (ios, log) = run_with(Pairing::with_bios(), &stages);
    assert_eq!(
        ios.iter().map(|io| io.queue_ns).collect::<Vec<_>>(),
        [Some(4); 2]
    );
    assert_eq!(
        log.bios.iter().map(|b| b.q2g_ns).collect::<Vec<_>>(),
        [Some(5), None]
    );
}

#[test]
fn letters_of_the_kernel() {
    assert_eq!(rwbs(b"R", false), (Op::READ, 0));
    assert_eq!(
        rwbs(b"FWFSM", false),
        (
            Op::WRITE,
            Io::FLAG_PREFLUSH | Io::FLAG_FUA | Io::FLAG_SYNC | Io::FLAG_META
        )
    );
    assert_eq!(rwbs(b"F", false), (Op::FLUSH, 0));
    assert_eq!(rwbs(b"FF", false), (Op::FLUSH, Io::FLAG_PREFLUSH));
    assert_eq!(rwbs(b"RA", false), (Op::READ, Io::FLAG_RAHEAD));
    assert_eq!(rwbs(b"", false), (Op(34), 0));
    assert_eq!(rwbs(b"WSU", true), (Op::WRITE, Io::FLAG_SYNC), "atomic");
    assert_eq!(
        (rwbs(b"N", false).0, rwbs(b"NS", true).0),
        (Op(34), Op::WRITE_ZEROES)
    );
}

proptest! {
    #[test]
    fn any_order_of_stages_conserves_ios(
        stages in proptest::collection::vec((0usize..8, 0u64..6, 0u64..3, any::<i64>()), 0..200),
    ) {
        use BlockStage::*;
        const ALL: [BlockStage; 8] = [Queue, Start, BackMerge, FrontMerge, Insert, Issue, Requeue, Complete];
        let mut p = Pairing::with_bios();
        let mut completions = 0;
        let mut out = 0;
        for (s, sector, blocks, at) in stages {
            completions += usize::from(ALL[s] == Complete);
            out += usize::from(p.push(ALL[s], &event(at, sector * 8, blocks * 4096)).is_some());
        }
        p.finish(&mut Log::default());
        prop_assert!(out <= completions);
    }
}
