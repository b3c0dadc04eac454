//! Compares rows from single I/Os with small examples and brute force.

use super::super::GroupBy;
use super::*;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, Op};
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const A: DevId = DevId(8 << 20);
const B: DevId = DevId(9 << 20);
const C: DevId = DevId(10 << 20);

/// Reads per second, whether the row is marked, and whether its busy time is known.
fn known_values(row: &Row) -> (Option<f64>, bool, bool) {
    let busy_percent = row.extended.and_then(|e| e.busy_percent());
    (
        row.ios_per_s(Class::Read),
        row.lossy,
        busy_percent.is_some(),
    )
}

#[test]
fn removed_time_is_not_known_and_the_next_interval_is_not_lossy() {
    let plan = TimelinePlan {
        extended: true,
        ..TimelinePlan::new(Window::new(0, 40 * MS), 10 * MS)
    };
    let mut t = Timeline::new(plan).expect("a good plan");
    t.lost(&Lost {
        ios: Some(3),
        ..Lost::somewhere(0, 20 * MS, LossReason::Retention)
    });
    t.push(&Io::new(35 * MS, A, Op::READ, 4096, None, 1))
        .expect("few rows");
    t.finish(40 * MS).expect("few rows");
    let rows: Vec<Row> = std::iter::from_fn(|| t.next_row()).collect();
    assert_eq!(
        rows.iter().map(known_values).collect::<Vec<_>>(),
        [
            (None, true, false),
            (None, true, false),
            (Some(0.0), false, true),
            (Some(100.0), false, true)
        ]
    );
}

#[test]
fn an_interval_that_is_removed_in_part_is_known_where_it_has_ios() {
    let plan = TimelinePlan {
        by: GroupBy::Device,
        always: vec![GroupKey::Device(A), GroupKey::Device(B)],
        ..TimelinePlan::new(Window::new(0, 30 * MS), 10 * MS)
    };
    let mut t = Timeline::new(plan).expect("a good plan");
    t.lost(&Lost {
        ios: Some(3),
        ..Lost::somewhere(2 * MS, 15 * MS, LossReason::Retention)
    });
    t.push(&Io::new(17 * MS, B, Op::READ, 4096, None, 1))
        .expect("few rows");
    t.finish(30 * MS).expect("few rows");
    let mut says = Vec::new();
    while let Some(row) = t.next_row() {
        says.push((row.ios_per_s(Class::Read), row.lossy));
    }
    assert_eq!(
        says,
        [
            (None, true),
            (None, true),
            (None, true),
            (Some(100.0), true),
            (Some(0.0), false),
            (Some(0.0), false)
        ]
    );
}

#[test]
fn time_without_a_recorder_is_not_known_and_a_row_that_has_some_of_it_is() {
    for by in [GroupBy::All, GroupBy::Device, GroupBy::Process] {
        let plan = TimelinePlan {
            by,
            always: match by {
                GroupBy::Device => vec![GroupKey::Device(A)],
                _ => Vec::new(),
            },
            extended: true,
            ..TimelinePlan::new(Window::new(0, 60 * MS), 10 * MS)
        };
        let mut t = Timeline::new(plan).expect("a good plan");
        // Both gaps together cover the row from 20 to 30 ms.
        for (from_ms, to_ms) in [(15, 25), (25, 47)] {
            t.lost(&Lost::somewhere(
                from_ms * MS,
                to_ms * MS,
                LossReason::NotRecorded,
            ));
        }
        for done_ms in [5, 55] {
            t.push(&Io::new(done_ms * MS, A, Op::READ, 4096, None, 1))
                .expect("few rows");
        }
        t.finish(60 * MS).expect("few rows");
        let rows: Vec<Row> = std::iter::from_fn(|| t.next_row()).collect();
        assert_eq!(
            rows.iter().map(known_values).collect::<Vec<_>>(),
            [
                (Some(100.0), false, true),
                (Some(0.0), true, true),
                (None, true, false),
                (None, true, false),
                (Some(0.0), true, true),
                (Some(100.0), false, true)
            ],
            "{by:?}"
        );
        // A row that stands for groups that are left out contains no more than they do.
        let left_out = rows[2].without_ios();
        assert_eq!(known_values(&left_out), (None, true, false));
        assert_eq!(left_out.extended, Some(Extended::default()));
    }
}

fn rows_of(plan: TimelinePlan, hold: Hold, ios: &[Io], end_ns: i64) -> Vec<Row> {
    let mut t = Timeline::with_hold(plan, hold).expect("a good plan");
    let mut rows = Vec::new();
    for io in ios {
        t.push(io).expect("few rows");
        rows.extend(std::iter::from_fn(|| t.next_row()));
    }
    t.finish(end_ns).expect("few rows");
    rows.extend(std::iter::from_fn(|| t.next_row()));
    rows
}

fn extended_plan(step_ns: i64, by: GroupBy) -> TimelinePlan {
    TimelinePlan {
        by,
        extended: true,
        ..TimelinePlan::new(Window::OPEN, step_ns)
    }
}

#[test]
fn every_slot_has_a_row_and_empty_ones_have_no_mean() {
    let io = Io::new(25 * MS, A, Op::WRITE, 2048, Some(MS), 2 * MS);
    let rows = rows_of(
        TimelinePlan::new(Window::OPEN, 10 * MS),
        Hold::ROWS,
        &[io],
        50 * MS,
    );
    assert_eq!(
        rows.iter().map(|r| r.to_ns / MS).collect::<Vec<_>>(),
        [10, 20, 30, 40, 50]
    );
    assert_eq!(
        rows.iter().map(|r| r.flows[1].ios).collect::<Vec<_>>(),
        [0, 0, 1, 0, 0]
    );
    assert_eq!(
        (
            rows[2].ios_per_s(Class::Write),
            rows[2].kib_per_s(Class::Write)
        ),
        (Some(100.0), Some(200.0))
    );
    assert_eq!(
        (rows[2].mean_us(Class::Write), rows[2].mean_us(Class::Read)),
        (Some(3000.0), None)
    );
}

#[test]
fn groups_that_always_have_rows_change_for_slots_that_are_not_closed() {
    let plan = TimelinePlan {
        by: GroupBy::Device,
        always: vec![GroupKey::Device(A), GroupKey::Device(B)],
        ..TimelinePlan::new(Window::OPEN, 10 * MS)
    };
    let none = Hold { spans: 1, ns: 0 };
    let mut t = Timeline::with_hold(plan, none).expect("a good plan");
    t.advance(10 * MS).expect("few rows");
    // The slot is closed, but its rows have not been taken yet.
    t.set_always(vec![GroupKey::Device(B)]);
    t.advance(20 * MS).expect("few rows");
    t.set_always(vec![GroupKey::Device(C), GroupKey::Device(B)]);
    t.push(&Io::new(25 * MS, A, Op::READ, 4096, None, 1))
        .expect("few rows");
    t.advance(30 * MS).expect("few rows");
    t.set_always(Vec::new());
    t.advance(40 * MS).expect("few rows");
    let rows: Vec<Row> = std::iter::from_fn(|| t.next_row()).collect();
    let found: Vec<(i64, GroupKey)> = rows.iter().map(|r| (r.to_ns / MS, r.key)).collect();
    assert_eq!(
        found,
        [
            (10, GroupKey::Device(A)),
            (10, GroupKey::Device(B)),
            (20, GroupKey::Device(B)),
            (30, GroupKey::Device(A)),
            (30, GroupKey::Device(B)),
            (30, GroupKey::Device(C)),
        ]
    );
}

#[test]
fn a_slot_without_any_process_has_a_row_without_a_process() {
    let of = |done_ns, tgid| Io {
        tgid: Some(tgid),
        ..Io::new(done_ns, A, Op::READ, 4096, Some(0), 1000)
    };
    let ios = [of(5 * MS, 1), of(6 * MS, 2), of(35 * MS, 1)];
    let rows = rows_of(
        TimelinePlan {
            by: GroupBy::Process,
            ..TimelinePlan::new(Window::new(0, 50 * MS), 10 * MS)
        },
        Hold::ROWS,
        &ios,
        50 * MS,
    );
    let process = |tgid| GroupKey::Process(Some(tgid), None);
    let got: Vec<_> = rows
        .iter()
        .map(|r| (r.to_ns / MS, r.key, r.flows[0].ios))
        .collect();
    let empty = |at| (at, GroupKey::All, 0);
    assert_eq!(
        got,
        [
            (10, process(1), 1),
            (10, process(2), 1),
            empty(20),
            empty(30),
            (40, process(1), 1),
            empty(50)
        ]
    );
}

#[test]
fn a_completion_on_the_boundary_belongs_to_the_next_slot() {
    let io = Io::new(10 * MS, A, Op::READ, 512, None, MS);
    let rows = rows_of(
        TimelinePlan::new(Window::OPEN, 10 * MS),
        Hold::ROWS,
        &[io],
        0,
    );
    assert_eq!(
        rows.iter().map(|r| r.flows[0].ios).collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(
        rows[1].to_ns,
        10 * MS + 1,
        "the last slot ends with the recording"
    );
}

#[test]
fn a_long_io_fills_the_slots_it_covers() {
    let io = Io::new(35 * MS, A, Op::READ, 512, Some(5 * MS), 20 * MS);
    let rows = rows_of(
        extended_plan(10 * MS, GroupBy::All),
        Hold::ROWS,
        &[io],
        40 * MS,
    );
    let busy: Vec<_> = rows
        .iter()
        .map(|r| r.extended.expect("planned").busy_percent())
        .collect();
    assert_eq!(busy, [Some(0.0), Some(100.0), Some(100.0), Some(50.0)]);
    let x = rows[3].extended.expect("planned");
    assert_eq!(
        (x.r_p99_us, x.r_max_us, x.w_max_us, x.inflight_max),
        (Some(25000.0), Some(25000.0), None, Some(1))
    );
}

#[test]
fn losses_mark_the_rows_of_their_device() {
    let lost = Lost {
        from_ns: 15 * MS,
        to_ns: 21 * MS,
        dev: Some(B),
        class: None,
        reason: LossReason::RingFull,
        ios: None,
        bytes: None,
        merges: None,
    };
    let plan = TimelinePlan {
        by: GroupBy::Device,
        always: vec![A, B].into_iter().map(GroupKey::Device).collect(),
        ..TimelinePlan::new(Window::OPEN, 10 * MS)
    };
    let mut t = Timeline::new(plan).expect("a good plan");
    t.lost(&lost);
    t.finish(40 * MS).expect("few rows");
    let rows: Vec<_> = std::iter::from_fn(|| t.next_row())
        .map(|r| (r.key, r.to_ns / MS, r.lossy))
        .collect();
    let lossy: Vec<_> = rows.iter().filter(|r| r.2).map(|r| (r.0, r.1)).collect();
    assert_eq!(
        (rows.len(), lossy),
        (
            8,
            vec![(GroupKey::Device(B), 20), (GroupKey::Device(B), 30)]
        )
    );
}

#[test]
fn few_lost_of_many_mark_no_row_and_many_of_few_do() {
    // 8,000 I/Os in 16 s. 13 completions within the last 15 s were not seen; 20 more I/Os were lost at once.
    let io = |i: i64| Io::new(i * 2 * MS, A, Op::READ, 512, None, MS);
    let lost = |from_ns, to_ns, reason, ios| Lost {
        ios: Some(ios),
        ..Lost::somewhere(from_ns, to_ns, reason)
    };
    let unseen = lost(1000 * MS, 16_000 * MS, LossReason::Unseen, 13);
    let marked = |step_ns: i64, losses: &[Lost]| {
        let mut t = Timeline::new(TimelinePlan::new(Window::OPEN, step_ns)).expect("a good plan");
        losses.iter().for_each(|l| t.lost(l));
        (0..8000).for_each(|i| t.push(&io(i)).expect("few rows"));
        t.finish(16_000 * MS).expect("few rows");
        std::iter::from_fn(|| t.next_row())
            .filter(|r| r.lossy)
            .map(|r| r.to_ns / step_ns)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (marked(1000 * MS, &[unseen]), marked(10 * MS, &[unseen])),
        (vec![], vec![])
    );
    let burst = lost(5200 * MS, 5204 * MS, LossReason::RingFull, 20);
    assert_eq!(
        (
            marked(1000 * MS, &[unseen, burst]),
            marked(10 * MS, &[burst])
        ),
        (vec![6], vec![521])
    );
    for ios in [None, Some(130)] {
        assert_eq!(
            marked(1000 * MS, &[Lost { ios, ..unseen }]).len(),
            15,
            "unknown, or 1.7 percent of each"
        );
    }
}

#[test]
fn impossible_plans_are_refused_in_words() {
    let err = |p: TimelinePlan| {
        Timeline::new(p)
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    assert!(err(TimelinePlan::new(Window::OPEN, 0)).contains("finest is 1ms"));
    assert!(err(TimelinePlan::new(Window::new(5, 5), MS)).contains("nothing between"));
    assert!(err(TimelinePlan::new(Window::new(0, 11_000_000 * MS), MS)).contains("10000000 rows"));
    let mut t = Timeline::new(TimelinePlan::new(Window::OPEN, MS)).expect("open");
    let far = Io::new(20_000_000 * MS, A, Op::READ, 0, None, 0);
    assert_eq!(
        t.push(&far),
        Err(PlanError::TooManyRows),
        "noticed while streaming too"
    );
}

#[test]
fn what_comes_after_the_window_makes_no_rows() {
    let ios = [
        Io::new(5 * MS, A, Op::READ, 512, None, MS),
        Io::new(500_000 * MS, A, Op::READ, 512, None, 499_980 * MS),
    ];
    let plan = TimelinePlan {
        window: Window::new(0, 25 * MS),
        ..extended_plan(10 * MS, GroupBy::All)
    };
    let rows = rows_of(
        plan,
        Hold {
            spans: 1 << 20,
            ns: i64::MAX,
        },
        &ios,
        0,
    );
    let busy: Vec<_> = rows
        .iter()
        .map(|r| r.extended.expect("planned").busy_percent())
        .collect();
    assert_eq!(
        (busy, rows[2].to_ns),
        (vec![Some(10.0), Some(0.0), Some(100.0)], 25 * MS)
    );
}

fn ios() -> impl Strategy<Value = Vec<Io>> {
    let one = (
        0i64..200 * MS,
        prop_oneof![0i64..MS, 0i64..90 * MS],
        0i64..3 * MS,
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..60).prop_map(|v| {
        let mut ios: Vec<_> = v
            .into_iter()
            .map(|(done, dev_ns, q, write, b)| {
                Io::new(
                    done,
                    if b { B } else { A },
                    if write { Op::WRITE } else { Op::READ },
                    512,
                    Some(q),
                    dev_ns,
                )
            })
            .collect();
        ios.sort_by_key(|i| i.done_ns);
        ios
    })
}

/// Every instant's level over `[from, to)`, by brute force over all starts and ends.
fn brute(ios: &[&Io], from: i64, to: i64) -> (f64, u64, f64) {
    let mut cuts: Vec<i64> = ios
        .iter()
        .flat_map(|i| [i.start_ns(), i.done_ns])
        .filter(|t| from < *t && *t < to)
        .collect();
    cuts.extend([from, to]);
    cuts.sort_unstable();
    let mut area = 0;
    let mut busy = 0;
    let mut max = 0;
    for w in cuts.windows(2).filter(|w| w[0] < w[1]) {
        let n = ios
            .iter()
            .filter(|i| i.start_ns() <= w[0] && w[0] < i.done_ns)
            .count() as i64;
        area += n * (w[1] - w[0]);
        busy += (w[1] - w[0]) * i64::from(n > 0);
        max = max.max(n as u64);
    }
    let len = (to - from) as f64;
    (area as f64 / len, max, 100.0 * busy as f64 / len)
}

/// Adds rows of the same group into a coarser one, as counts and sums (A5). Percentiles cannot be added: `None`.
fn sum_rows(rows: &[Row]) -> Option<Row> {
    let first = rows.first()?;
    let last = rows.last()?;
    let mut sum = Row {
        to_ns: last.to_ns,
        extended: None,
        ..first.clone()
    };
    for row in &rows[1..] {
        sum.lossy |= row.lossy;
        sum.known |= row.known;
        for (a, b) in sum.flows.iter_mut().zip(&row.flows) {
            a.add(b);
        }
        for (a, b) in sum.unresolved_ns.iter_mut().zip(&row.unresolved_ns) {
            *a += b;
        }
    }
    Some(sum)
}

proptest! {
    #[test]
    fn rows_equal_brute_force_at_any_step_and_hold(ios in ios(), step in 1i64..40, hold_ms in 94i64..200) {
        for by in [GroupBy::All, GroupBy::Device] {
            let hold = Hold { spans: 1000, ns: hold_ms * MS };
            let rows = rows_of(extended_plan(step * MS, by), hold, &ios, 210 * MS);
            for row in &rows {
                let mine: Vec<&Io> = ios.iter().filter(|i| by.key(i) == row.key).collect();
                let x = row.extended.expect("planned");
                let (mean, max, busy) = brute(&mine, row.from_ns, row.to_ns);
                prop_assert!((x.inflight_mean().expect("known") - mean).abs() < 1e-9);
                prop_assert_eq!(x.inflight_max, Some(max));
                prop_assert!((x.busy_percent().expect("known") - busy).abs() < 1e-9);
                let mut reads: Vec<i64> = mine.iter().filter(|i| i.class() == Class::Read && row.from_ns <= i.done_ns && i.done_ns < row.to_ns).map(|i| i.total_ns()).collect();
                reads.sort_unstable();
                prop_assert_eq!(row.flows[0].ios, reads.len() as u64);
                prop_assert_eq!(row.flows[0].total_ns, reads.iter().sum::<i64>());
                prop_assert_eq!(x.r_max_us, reads.last().map(|v| *v as f64 / 1e3));
                for (share, got) in [(0.5, x.r_p50_us), (0.9, x.r_p90_us), (0.99, x.r_p99_us)] {
                    let rank = (share * reads.len() as f64).ceil() as usize;
                    prop_assert_eq!(got, reads.get(rank.wrapping_sub(1)).map(|v| *v as f64 / 1e3));
                }
                for class in Class::ALL {
                    let of_class: Vec<&Io> = mine.iter().copied().filter(|i| i.class() == class).collect();
                    let (_, _, busy) = brute(&of_class, row.from_ns, row.to_ns);
                    prop_assert!((x.busy_percent_of(class).expect("known") - busy).abs() < 1e-9);
                }
            }
            let counted: u64 = rows.iter().flat_map(|r| &r.flows).map(|f| f.ios).sum();
            prop_assert_eq!(counted, ios.len() as u64);
            if by == GroupBy::All {
                prop_assert_eq!(rows.len() as i64, 210_i64.div_euclid(step) + i64::from(210 % step != 0));
            }
        }
    }

    #[test]
    fn finer_rows_sum_to_coarser_ones(ios in ios(), k in 1i64..8) {
        let fine = rows_of(TimelinePlan::new(Window::new(0, 240 * MS), 2 * MS), Hold::ROWS, &ios, 0);
        let coarse = rows_of(TimelinePlan::new(Window::new(0, 240 * MS), 2 * k * MS), Hold::ROWS, &ios, 0);
        let summed: Vec<_> = fine.chunks(k as usize).filter_map(sum_rows).collect();
        prop_assert_eq!(summed, coarse);
    }
}
