//! The bin widths that charts and tables use.

use crate::model::{MS_NS, SECOND_NS};

/// Steps in nanoseconds that are easy to read and divide each other well, the shortest first.
pub const READABLE_STEPS_NS: [i64; 22] = [
    MS_NS,
    2 * MS_NS,
    5 * MS_NS,
    10 * MS_NS,
    20 * MS_NS,
    50 * MS_NS,
    100 * MS_NS,
    200 * MS_NS,
    500 * MS_NS,
    SECOND_NS,
    2 * SECOND_NS,
    5 * SECOND_NS,
    10 * SECOND_NS,
    20 * SECOND_NS,
    60 * SECOND_NS,
    120 * SECOND_NS,
    300 * SECOND_NS,
    600 * SECOND_NS,
    1200 * SECOND_NS,
    3600 * SECOND_NS,
    4 * 3600 * SECOND_NS,
    24 * 3600 * SECOND_NS,
];

/// The longest of these steps.
pub const LONGEST_STEP_NS: i64 = READABLE_STEPS_NS[READABLE_STEPS_NS.len() - 1];

/// The shortest readable step in nanoseconds that is at least `least_ns` and divides `len_ns` into at most `most`
/// steps; `None` if even the longest step is too short.
pub fn readable_step(len_ns: i64, least_ns: i64, most: i64) -> Option<i64> {
    READABLE_STEPS_NS
        .into_iter()
        .find(|step_ns| *step_ns >= least_ns && steps_in(len_ns, *step_ns) <= most)
}

/// Number of steps of `step_ns` in `len_ns`; the last one may be shorter.
pub fn steps_in(len_ns: i64, step_ns: i64) -> i64 {
    len_ns.div_euclid(step_ns) + i64::from(len_ns.rem_euclid(step_ns) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_step_that_is_cut_short_counts() {
        assert_eq!(steps_in(0, 10), 0);
        assert_eq!(steps_in(1, 10), 1);
        assert_eq!(steps_in(10, 10), 1);
        assert_eq!(steps_in(11, 10), 2);
        assert_eq!(steps_in(i64::MAX, i64::MAX), 1);
        assert_eq!(steps_in(i64::MAX, 1), i64::MAX);
    }

    #[test]
    fn the_shortest_step_with_few_enough_is_chosen() {
        assert_eq!(readable_step(100 * MS_NS, 0, 100), Some(MS_NS));
        assert_eq!(readable_step(100 * MS_NS + 1, 0, 100), Some(2 * MS_NS));
        assert_eq!(readable_step(100 * MS_NS, 3 * MS_NS, 100), Some(5 * MS_NS));
        assert_eq!(readable_step(0, 0, 0), Some(MS_NS));
        assert_eq!(
            readable_step(10 * LONGEST_STEP_NS, 0, 10),
            Some(LONGEST_STEP_NS)
        );
    }

    #[test]
    fn no_step_is_longer_than_the_longest() {
        assert_eq!(readable_step(10 * LONGEST_STEP_NS + 1, 0, 10), None);
        assert_eq!(readable_step(1, LONGEST_STEP_NS + 1, 10), None);
        assert_eq!(readable_step(1, 0, 0), None);
    }
}
