#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

const TABLE: &str = include_str!("../../../../fixtures/golden/seed2_table2_wide.csv");
const ANOVA: &str = include_str!("../../../../fixtures/golden/seed2_anova.csv");

/// The published copies table: file systems by number of copies.
fn metric(name: &str, log: bool) -> Vec<Vec<Vec<f64>>> {
    let heading: Vec<&str> = TABLE.lines().next().unwrap().split(',').collect();
    let column = heading.iter().position(|h| *h == name).unwrap();
    let of = |fs: &str| {
        let rows = TABLE
            .lines()
            .skip(1)
            .map(|l| l.split(',').collect::<Vec<_>>())
            .filter(|c| c[0] == fs);
        rows.map(|c| c[column].parse::<f64>().unwrap())
            .map(|v| vec![if log { v.log10() } else { v }])
            .collect()
    };
    ["ext4", "FAT32", "NTFS"].into_iter().map(of).collect()
}

/// Equal to the six printed digits.
fn same(got: f64, printed: &str, what: &str) {
    let want: f64 = printed.parse().unwrap();
    assert!(
        (got - want).abs() <= 6e-6 * want.abs() + 1e-12,
        "{what}: {got} is not {printed}"
    );
}

#[test]
fn every_number_of_the_published_tables_analysis() {
    let heading: Vec<&str> = ANOVA.lines().next().unwrap().split(',').collect();
    for line in ANOVA.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let want = |name: &str| cells[heading.iter().position(|h| *h == name).unwrap()];
        let a = two_way(&metric(want("metric"), want("scale") == "log10")).unwrap();
        let na = a.non_additivity.unwrap();
        for (got, name) in [
            (a.mean, "mean"),
            (a.effects_a[0], "eff_ext4"),
            (a.effects_a[1], "eff_FAT32"),
            (a.effects_a[2], "eff_NTFS"),
            (a.effects_b[0], "eff_n1"),
            (a.effects_b[4], "eff_n5"),
            (a.total_ss, "SST"),
            (a.a.ss, "SS_fs"),
            (a.b.ss, "SS_n"),
            (a.error.ss, "SS_resid"),
            (a.a.percent, "pct_fs"),
            (a.b.percent, "pct_n"),
            (a.error.percent, "pct_resid"),
            (a.a.f.unwrap(), "F_fs"),
            (a.a.p.unwrap(), "p_fs"),
            (a.b.f.unwrap(), "F_n"),
            (a.b.p.unwrap(), "p_n"),
            (na.ss, "SS_nonadd"),
            (na.f.unwrap(), "F_nonadd"),
            (na.p.unwrap(), "p_nonadd"),
        ] {
            same(
                got,
                want(name),
                &format!("{} {} {name}", want("metric"), want("scale")),
            );
        }
    }
}

#[test]
fn replicates_separate_interaction_from_error() {
    // Montgomery, Design and Analysis of Experiments, battery life: 3 materials x 3 temperatures x 4.
    let cells = vec![
        vec![
            vec![130., 155., 74., 180.],
            vec![34., 40., 80., 75.],
            vec![20., 70., 82., 58.],
        ],
        vec![
            vec![150., 188., 159., 126.],
            vec![136., 122., 106., 115.],
            vec![25., 70., 58., 45.],
        ],
        vec![
            vec![138., 110., 168., 160.],
            vec![174., 120., 150., 139.],
            vec![96., 104., 82., 60.],
        ],
    ];
    let a = two_way(&cells).unwrap();
    let round = |x: f64| (x * 100.0).round() / 100.0;
    let interaction = a.interaction.unwrap();
    assert_eq!(
        (
            round(a.a.ss),
            round(a.b.ss),
            round(interaction.ss),
            round(a.error.ss)
        ),
        (10683.72, 39118.72, 9613.78, 18230.75)
    );
    assert_eq!(
        (
            round(a.a.f.unwrap()),
            round(a.b.f.unwrap()),
            round(interaction.f.unwrap())
        ),
        (7.91, 28.97, 3.56)
    );
    assert_eq!((a.error.df, interaction.df), (27.0, 4.0));
    assert!(a.non_additivity.is_none());
}

#[test]
fn a_known_difference_is_found_and_the_rest_is_not() {
    let noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0];
    let level = |base: f64| {
        vec![
            vec![base + noise[0], base + noise[1], base + noise[2]],
            vec![base + noise[3], base + noise[4], base + noise[5]],
        ]
    };
    let a = two_way(&[level(10.0), level(10.1), level(14.0)]).unwrap();
    let pairs = tukey_hsd(&a, 0.05);
    assert_eq!(pairs.len(), 3);
    assert!(pairs[0].p > 0.5 && pairs[0].difference.abs() < pairs[0].half_width);
    assert!(pairs[1].p < 1e-6 && pairs[2].p < 1e-6);
}

#[test]
fn impossible_designs_are_refused() {
    assert_eq!(
        two_way(&[vec![vec![1.0]]]).unwrap_err(),
        AnovaError::TooFewLevels
    );
    assert_eq!(
        two_way(&[vec![vec![1.0], vec![1.0, 2.0]], vec![vec![1.0], vec![1.0]]]).unwrap_err(),
        AnovaError::Unbalanced
    );
    let nan = [vec![vec![1.0], vec![f64::NAN]], vec![vec![1.0], vec![1.0]]];
    assert_eq!(two_way(&nan).unwrap_err(), AnovaError::NotFinite);
}

#[test]
fn fairness_and_intervals() {
    assert_eq!(jain_fairness(&[5.0, 5.0]), Some(1.0));
    assert_eq!(jain_fairness(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
    assert_eq!(jain_fairness(&[0.0]), None);
    let m = mean_interval(&[1.0, 2.0, 3.0], 0.05).unwrap();
    assert!((m.half_width.unwrap() - 4.302_652_729_911_275 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!(mean_interval(&[7.0], 0.05).unwrap().half_width, None);
}

proptest! {
    #[test]
    fn variation_is_conserved(
        values in proptest::collection::vec(-1e3f64..1e3, 24),
        (a, b) in (2usize..4, 2usize..4),
    ) {
        let r = 24 / (a * b);
        let mut it = values.into_iter();
        let cells: Vec<Vec<Vec<f64>>> =
            (0..a).map(|_| (0..b).map(|_| it.by_ref().take(r).collect()).collect()).collect();
        let v = two_way(&cells).unwrap();
        let parts = v.a.ss + v.b.ss + v.interaction.map_or(0.0, |i| i.ss) + v.error.ss;
        prop_assert!((parts - v.total_ss).abs() <= 1e-8 * v.total_ss.max(1.0));
        prop_assert!(v.effects_a.iter().sum::<f64>().abs() < 1e-6 && v.effects_b.iter().sum::<f64>().abs() < 1e-6);
    }
}
