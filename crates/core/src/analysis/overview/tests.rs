//! Compares the overview with its definitions, by brute force.

use super::*;
use crate::model::{LossReason, Op};
use proptest::prelude::*;

const A: DevId = DevId(1);
const B: DevId = DevId(2);

fn single(devices: &[DevId]) -> Vec<Scope> {
    vec![Scope {
        devices: devices.to_vec(),
    }]
}

fn run(plan: OverviewPlan, ios: &[Io]) -> OverviewData {
    let mut overview = Overview::new(plan);
    ios.iter().for_each(|io| overview.push(io));
    overview.finish()
}

/// A time range with steps of 1 ns, so that every rule has an effect.
fn tiny(len: i64, step_ns: i64, merges: &[i64]) -> OverviewPlan {
    let window = Window::new(0, len);
    let stretch = PlannedStretch {
        scope: 0,
        window: Window::new(0, (len + step_ns - 1) / step_ns * step_ns),
        step_ns,
        merges: merges.to_vec(),
    };
    OverviewPlan {
        window,
        scopes: single(&[A]),
        stretches: vec![stretch],
        distributions: true,
    }
}

fn io(done_ns: i64, total_ns: i64, op: Op, bytes: i64) -> Io {
    Io::new(
        done_ns,
        A,
        op,
        bytes,
        Some(total_ns / 3),
        total_ns - total_ns / 3,
    )
}

fn ios() -> impl Strategy<Value = Vec<Io>> {
    prop::collection::vec((0i64..400, 0i64..120, 0i32..4, 0i64..40), 0..80).prop_map(|v| {
        let mut v: Vec<Io> = v
            .into_iter()
            .map(|(done, total, op, kib)| io(done, total, Op(op), kib * 1024))
            .collect();
        v.sort_by_key(|io| io.done_ns);
        v
    })
}

proptest! {
    #[test]
    fn every_slot_is_what_its_definition_says(ios in ios(), len in 1i64..400, step in 1i64..50, merge in 2i64..5) {
        let data = run(tiny(len, step, &[1, merge]), &ios);
        prop_assert_eq!(data.levels.len(), 2);
        let inside: Vec<&Io> = ios.iter().filter(|io| io.done_ns < len).collect();
        for level in &data.levels {
            prop_assert_eq!(level.counts.len(), level.time.len());
            for (i, (c, t)) in level.counts.iter().zip(&level.time).enumerate() {
                let from = i as i64 * level.step_ns;
                let to = (from + level.step_ns).min(len);
                let here: Vec<&&Io> = inside.iter().filter(|io| from <= io.done_ns && io.done_ns < from + level.step_ns).collect();
                for class in Class::ALL {
                    let n = here.iter().filter(|io| io.class() == class).count() as u64;
                    prop_assert_eq!(c.ios[class as usize], n);
                    // Bytes are spread over issue to completion.
                    let to = (from + level.step_ns).min(len);
                    let share = |io: &&Io| match io.device_ns {
                        0 => if from <= io.done_ns && io.done_ns < to { io.bytes as f64 } else { 0.0 },
                        ns => io.bytes as f64 * (io.done_ns.min(to) - io.issue_ns().max(from)).max(0) as f64 / ns as f64,
                    };
                    let bytes: f64 = ios.iter().filter(|io| io.class() == class).map(|io| share(&io)).sum();
                    prop_assert!((c.sectors[class as usize] as f64 - bytes / 512.0).abs() <= 1.1, "{:?} for {}", c.sectors, bytes);
                }
                for (class, got) in [Class::Read, Class::Write].into_iter().zip(c.latency) {
                    let mut ns: Vec<i64> = here.iter().filter(|io| io.class() == class).map(|io| io.total_ns()).collect();
                    ns.sort_unstable();
                    prop_assert_eq!(got.is_some(), !ns.is_empty());
                    let Some(got) = got else { continue };
                    let q = got.quantiles.expect("single I/Os are known");
                    // Below 256 ns the buckets are exact.
                    let rank = |q: f64| ns[((q * ns.len() as f64).ceil() as usize).max(1) - 1];
                    prop_assert_eq!((q.p50_ns, q.p90_ns, q.p99_ns, q.max_ns), (rank(0.5), rank(0.9), rank(0.99), rank(1.0)));
                    let mean = ns.iter().sum::<i64>() as f64 / ns.len() as f64;
                    prop_assert!((got.mean_ns as f64 - mean).abs() <= 0.5);
                }
                let depth = |at: i64, class: Option<Class>| ios.iter().filter(|io| io.start_ns() <= at && at < io.done_ns && class.is_none_or(|c| io.class() == c)).count() as i64;
                let each: Vec<i64> = (from..to).map(|at| depth(at, None)).collect();
                prop_assert_eq!(t.area_ns, each.iter().sum::<i64>());
                prop_assert_eq!(i64::from(t.max), each.iter().copied().max().unwrap_or(0));
                for (k, class) in [None, Some(Class::Read), Some(Class::Write)].into_iter().enumerate() {
                    prop_assert_eq!(t.busy_ns[k], (from..to).filter(|at| depth(*at, class) > 0).count() as i64);
                }
            }
        }
        // All resolutions agree on every sum.
        let [fine, coarse] = &data.levels[..] else { panic!("two rungs") };
        let sum = |l: &Level| l.counts.iter().flat_map(|c| c.ios).sum::<u64>();
        prop_assert_eq!(sum(fine), sum(coarse));
        let spent: i64 = data.distributions[0].concurrency[0].iter().sum();
        prop_assert_eq!(spent, len);
    }
}

#[test]
fn an_hour_is_cut_into_seconds_and_other_scopes_more_coarsely() {
    let hour = Window::new(0, 3600 * 1_000_000_000);
    let plan = OverviewPlan::whole(
        hour,
        vec![
            Scope {
                devices: vec![A, B],
            },
            Scope { devices: vec![A] },
            Scope { devices: vec![B] },
        ],
    );
    let first = &plan.stretches[0];
    assert_eq!(
        (first.step_ns, first.slots(), &first.merges),
        (1_000_000_000, 3600, &vec![1, 5, 20])
    );
    assert_eq!(
        plan.stretches[1].step_ns, 5_000_000_000,
        "others are coarser"
    );
}

#[test]
fn short_and_empty_windows_make_no_fuss() {
    for len in [0, 1, 999_999, 5_000_000] {
        let window = Window::new(7, 7 + len);
        let data = run(
            OverviewPlan::whole(window, single(&[A])),
            &[io(7, 3, Op::READ, 512)],
        );
        assert!(data.levels.iter().all(|l| l.counts.len() == l.time.len()));
        assert_eq!(data.levels.is_empty(), len == 0);
    }
    let nothing = run(OverviewPlan::whole(Window::new(0, 1000), Vec::new()), &[]);
    assert!(nothing.levels.is_empty() && nothing.distributions.is_empty());
}

#[test]
fn layers_of_a_stack_are_not_summed() {
    let dm = DevId(9);
    let idle = DevId(8);
    let got = scopes(&[(A, 5), (dm, 20), (B, 10), (idle, 0)], |d| d == dm, 2);
    let sets: Vec<_> = got.into_iter().map(|s| s.devices).collect();
    assert_eq!(sets, [vec![B, A], vec![dm], vec![B]]);
    assert_eq!(
        scopes(&[(A, 5)], |_| false, 8).len(),
        1,
        "one device needs no sum"
    );
}

#[test]
fn neighbouring_losses_are_one_and_a_flood_stays_bounded() {
    let window = Window::new(0, 1_000_000_000_000);
    let mut overview = Overview::new(OverviewPlan::whole(window, single(&[A])));
    let lost = |at: i64, dev: i32, reason| Lost {
        from_ns: at,
        to_ns: at + 10,
        dev: Some(DevId(dev)),
        class: None,
        reason,
        ios: Some(2),
        bytes: None,
        merges: None,
    };
    overview.lost(&lost(0, 1, LossReason::RingFull));
    overview.lost(&lost(500_000, 1, LossReason::RingFull));
    overview.lost(&lost(900_000_000, 1, LossReason::RingFull));
    overview.lost(&lost(900_000_000, 1, LossReason::Corrupt));
    let got = overview.finish().losses;
    assert_eq!(got.len(), 3);
    assert_eq!(
        (got[0].from_ns, got[0].to_ns, got[0].ios),
        (0, 500_010, Some(4))
    );

    let mut overview = Overview::new(OverviewPlan::whole(window, single(&[A])));
    (0..5000).for_each(|i| overview.lost(&lost(i * 100_000_000, i as i32, LossReason::RingFull)));
    let got = overview.finish().losses;
    assert!(got.len() <= 2000);
    assert_eq!(
        got.iter().filter_map(|l| l.ios).sum::<i64>(),
        10_000,
        "none is forgotten"
    );
}

#[test]
fn percentiles_of_distributions_are_those_of_the_tables() {
    let window = Window::new(0, 10_000_000_000);
    for n in [500, 70_000] {
        let mut overview = Overview::new(OverviewPlan::whole(window, single(&[A])));
        let mut report = crate::analysis::ReportBuilder::new(window);
        for i in 0..n {
            let io = Io::new(
                i * 100_000,
                A,
                Op::READ,
                4096,
                Some(i % 9),
                4_000_000 + (i * 7919) % 500_000,
            );
            overview.push(&io);
            report.push(&io);
        }
        let report = report.finish(window.to_ns);
        let reads = &report.devices.devices[0].classes[0];
        let shown = overview.finish().distributions[0].percentiles_us[0][Stage::Total as usize];
        let table = reads
            .p50_us
            .zip(reads.p90_us)
            .zip(reads.p99_us)
            .map(|((a, b), c)| [a, b, c]);
        assert_eq!(shown, table, "{n} I/Os");
        assert!(shown.is_some());
    }
}

#[test]
fn the_distribution_of_depth_is_that_of_the_recorded_time() {
    let second = 1_000_000_000;
    let window = Window::new(0, 10 * second);
    let mut overview = Overview::new(OverviewPlan::whole(window, single(&[A])));
    // Six of ten seconds, one of which is in both gaps.
    for (from_s, to_s) in [(3, 6), (5, 9)] {
        let from_ns = from_s * second;
        overview.lost(&Lost::somewhere(
            from_ns,
            to_s * second,
            LossReason::NotRecorded,
        ));
    }
    overview.push(&Io::new(2 * second, A, Op::READ, 4096, None, second));
    let data = overview.finish();
    let all = &data.distributions[0].concurrency[0];
    assert_eq!(*all, [3 * second, second]);
}

#[test]
fn a_loss_is_hatched_if_it_can_change_a_slot() {
    let second = 1_000_000_000;
    let window = Window::new(0, 16 * second);
    let mut overview = Overview::new(OverviewPlan::whole(window, single(&[A])));
    (0..8000)
        .for_each(|i| overview.push(&Io::new(i * 2_000_000, A, Op::READ, 4096, None, 100_000)));
    let lost = |from_ns, to_ns, ios, reason| Lost {
        dev: Some(A),
        ios: Some(ios),
        ..Lost::somewhere(from_ns, to_ns, reason)
    };
    overview.lost(&lost(second, 16 * second, 13, LossReason::Unseen));
    overview.lost(&lost(
        5 * second,
        5 * second + 1_000_000,
        20,
        LossReason::RingFull,
    ));
    let marks: Vec<_> = overview
        .finish()
        .losses
        .iter()
        .map(|l| (l.ios, l.marks))
        .collect();
    assert_eq!(marks, [(Some(13), false), (Some(20), true)]);
}

#[test]
fn counters_give_counts_and_means_but_no_quantiles() {
    use crate::analysis::timeline::{CounterRates, Flow};
    let window = Window::new(0, 2_000_000_000);
    let devices = vec![
        Scope {
            devices: vec![A, B],
        },
        Scope { devices: vec![A] },
    ];
    let plan = OverviewPlan::whole_of_counters(window, devices, 10_000_000);
    assert_eq!(
        plan.stretches[0].step_ns, 100_000_000,
        "ten samples to a slot"
    );
    let mut overview = CounterOverview::new(plan);
    for i in 0..200 {
        let flow = Some(Flow {
            ios: 2,
            bytes: 8192,
            total_ns: 6_000_000,
        });
        let from_ns = i * 10_000_000;
        let to_ns = (i + 1) * 10_000_000;
        for dev in [A, B] {
            let flows = [flow, Some(Flow::default()), None, None];
            overview.push(&CounterRates {
                dev,
                from_ns,
                to_ns,
                flows,
                busy_ns: Some(5_000_000),
                area_ns: Some(6_000_000),
            });
        }
    }
    let silent = CounterRates {
        dev: A,
        from_ns: 0,
        to_ns: 10_000_000,
        flows: [None; 4],
        busy_ns: None,
        area_ns: None,
    };
    let mut untimed = CounterOverview::new(OverviewPlan::whole_of_tables(
        window,
        vec![Scope { devices: vec![A] }],
        30_000_000,
    ));
    untimed.push(&silent);
    let untimed = untimed.finish();
    assert_eq!(
        (untimed.levels[0].detail, untimed.levels[0].step_ns),
        (Detail::SummedCounters, 30_000_000)
    );
    let data = overview.finish();
    let finest = |scope| {
        data.levels
            .iter()
            .find(|l| l.scope == scope)
            .expect("a level")
    };
    let sum = finest(0);
    let one = finest(1);
    assert_eq!(
        (sum.detail, one.detail),
        (Detail::SummedCounters, Detail::Counters)
    );
    assert_eq!(
        (
            sum.counts.len(),
            sum.counts[3].ios[0],
            one.counts[3].ios[0],
            one.counts[3].sectors[0]
        ),
        (20, 40, 20, 160)
    );
    let latency = one.counts[3].latency[0].expect("reads");
    assert_eq!(
        (latency.mean_ns, latency.quantiles, one.counts[3].latency[1]),
        (3_000_000, None, None)
    );
    assert_eq!(
        (one.time[3].busy_ns[0], one.time[3].area_ns),
        (50_000_000, 60_000_000)
    );
    assert!(data.distributions.is_empty());
}
