//! Tests of `starvation`.

use super::*;
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const WINDOW: (i64, i64) = (0, 20_000 * MS);

/// A request each 10 ms; 1 ms long, but `during` ms long in every episode.
fn requests(episodes: &[(i64, i64)], during: i64) -> Vec<Request> {
    (0..2000)
        .map(|i| {
            let start_ns = i * 10 * MS;
            let inside = episodes
                .iter()
                .any(|(a, b)| *a <= start_ns && start_ns < *b);
            let us = if inside {
                during * 1000 + i % 5
            } else {
                1000 + i % 7
            };
            Request {
                start_ns,
                issue_ns: start_ns,
                done_ns: start_ns + us * 1000,
                bytes: 4096,
                tgid: 0,
            }
        })
        .collect()
}

fn regular(n: i64) -> Vec<(i64, i64)> {
    (0..n)
        .map(|i| {
            (
                i * 2000 * MS + i * i * 13 * MS + 500 * MS,
                i * 2000 * MS + i * i * 13 * MS + 800 * MS,
            )
        })
        .collect()
}

fn of(victims: &[Request], episodes: &[(i64, i64)]) -> Option<Starvation> {
    compare(
        victims,
        episodes,
        &without(&[WINDOW], episodes),
        WINDOW,
        Family::of(2),
    )
}

#[test]
fn a_clear_case_is_named_and_measured() {
    let episodes = regular(9);
    let s = of(&requests(&episodes, 5), &episodes).expect("episodes");
    assert_eq!((s.verdict, s.bursts), (Verdict::Starvation, 9), "{s:?}");
    assert!(
        s.p_value.expect("tested") <= 0.01 && s.p_episodes.expect("tested") < 1e-6,
        "{s:?}"
    );
    assert!((s.ratio_p50.expect("both") - 5.0).abs() < 0.05 && s.cliffs_delta == Some(1.0));
    let (low, high) = s.ratio_ci.expect("nine");
    assert!(low <= 5.0 && high >= 4.98 && high - low < 0.1, "{s:?}");
    assert!(
        (s.excess_us.expect("both") - 4000.0).abs() < 4.0
            && (s.shift_us.expect("both") - 4000.0).abs() < 4.0
    );
    assert!(
        (s.excess_request_ms.expect("both") - 4.0 * s.treated as f64).abs()
            < 1.0 + 0.01 * s.treated as f64
    );
    assert!((s.own_load_ratio.expect("both") - 1.0).abs() < 0.05);
}

#[test]
fn few_episodes_are_only_suggestive_and_none_is_nothing() {
    let episodes = regular(2);
    let all = requests(&episodes, 5);
    assert_eq!(
        of(&all, &episodes).map(|s| s.verdict),
        Some(Verdict::Suggestive)
    );
    let two = of(&all, &episodes).expect("compared");
    assert!(two.ratio.is_some_and(|r| r > 1.5));
    assert_eq!(
        (two.ratio_ci, two.excess_us_ci),
        (None, None),
        "two episodes have no interval"
    );
    let three = of(&requests(&regular(3), 5), &regular(3)).expect("compared");
    assert!(three.ratio_ci.is_some() && three.excess_us_ci.is_some());
    assert_eq!(of(&all, &[]), None);
    assert_eq!(
        of(&requests(&regular(9), 1), &regular(9)).map(|s| s.verdict),
        Some(Verdict::NoEffect)
    );
    assert_eq!(
        of(&[], &episodes).map(|s| s.verdict),
        Some(Verdict::NoneObserved)
    );
}

#[test]
fn victims_that_submit_more_at_the_same_times_share_the_load() {
    let episodes = regular(9);
    let mut all = requests(&episodes, 5);
    let inside: Vec<Request> = all
        .iter()
        .filter(|r| r.total_ns() > 2 * MS)
        .copied()
        .collect();
    all.extend(inside);
    assert_eq!(
        of(&all, &episodes).map(|s| s.verdict),
        Some(Verdict::SharedLoad)
    );
}

#[test]
fn a_large_family_needs_more_evidence_and_small_samples_have_no_p99() {
    let episodes = regular(5);
    let mut all = requests(&episodes, 2);
    // Episodes that differ much: a t of about 4.
    for (i, r) in all
        .iter_mut()
        .enumerate()
        .filter(|(_, r)| r.total_ns() > 2 * MS - 1)
    {
        r.done_ns = r.start_ns + [2, 3, 4, 3, 2][i / 200 % 5] * MS + 1;
    }
    let of_family = |n| {
        compare(
            &all,
            &episodes,
            &without(&[WINDOW], &episodes),
            WINDOW,
            Family::of(n),
        )
        .expect("episodes")
    };
    assert_eq!(
        (of_family(1).verdict, of_family(1000).verdict),
        (Verdict::Starvation, Verdict::NoEffect),
        "{:?}",
        of_family(1)
    );
    let few = compare(
        &all[..200],
        &episodes[..1],
        &without(&[WINDOW], &episodes[..1]),
        WINDOW,
        Family::of(1),
    )
    .expect("one");
    assert!(
        few.p99_during_us.is_none() && few.p50_during_us.is_some(),
        "{few:?}"
    );
}

proptest! {
    #[test]
    fn effects_equal_brute_force(a in prop::collection::vec(0u32..100, 1..30), b in prop::collection::vec(0u32..100, 1..30)) {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
        let pairs = || a.iter().flat_map(|x| b.iter().map(move |y| x - y));
        let delta = pairs().map(|d| if d > 0.0 { 1.0 } else if d < 0.0 { -1.0 } else { 0.0 }).sum::<f64>() / pairs().count() as f64;
        prop_assert!((cliffs_delta(&a, &b).expect("both") - delta).abs() < 1e-12);
        prop_assert_eq!(hodges_lehmann(&a, &b), median(&mut pairs().collect::<Vec<_>>()));
    }

    #[test]
    fn a_shift_around_the_circle_treats_what_it_covers(starts in prop::collection::vec((0i64..1000, 1i64..100), 2..60), a in 0i64..900, len in 1i64..100, shift in 0i64..1000) {
        let requests: Vec<Request> = starts.iter().map(|(s, d)| Request { start_ns: *s, issue_ns: *s, done_ns: s + d * 1000, bytes: 0, tgid: 0 }).collect();
        let covered = |r: &&Request| (r.start_ns - a - shift).rem_euclid(1000) < len;
        let log = |r: &Request| (r.total_ns() as f64 / 1e3).ln();
        let (inside, outside): (Vec<&Request>, Vec<&Request>) = requests.iter().partition(covered);
        let mean = |v: &[&Request]| v.iter().map(|r| log(r)).sum::<f64>() / v.len() as f64;
        let got = Sums::of(requests.iter().copied()).contrast(&[(a, a + len)], shift, 0, 1000);
        prop_assert_eq!(got.is_some(), !inside.is_empty() && !outside.is_empty());
        prop_assert!(got.is_none_or(|c| (c - mean(&inside) + mean(&outside)).abs() < 1e-9));
    }
}
