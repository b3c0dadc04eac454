//! Half-open time intervals (begin, end) in nanoseconds: union, total length, and overlap with a window.

/// Sorts `intervals` and joins overlapping and adjacent ones.
pub fn union(intervals: impl IntoIterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut sorted: Vec<(i64, i64)> = intervals.into_iter().collect();
    sorted.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(sorted.len());
    for (from_ns, to_ns) in sorted {
        match joined.last_mut() {
            Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
            _ => joined.push((from_ns, to_ns)),
        }
    }
    joined
}

/// Total length of `intervals` in nanoseconds.
pub fn total_ns(intervals: &[(i64, i64)]) -> i64 {
    intervals
        .iter()
        .map(|(from_ns, to_ns)| to_ns - from_ns)
        .sum()
}

/// Overlap of `from_ns..to_ns` with `intervals`, which must be ordered and disjoint, in nanoseconds.
pub fn within_ns(intervals: &[(i64, i64)], from_ns: i64, to_ns: i64) -> i64 {
    let first = intervals.partition_point(|i| i.1 <= from_ns);
    let met = intervals[first..].iter().take_while(|i| i.0 < to_ns);
    met.map(|i| i.1.min(to_ns) - i.0.max(from_ns)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_touching_and_nested_intervals_are_one() {
        assert_eq!(union([(5, 9), (0, 3), (2, 4), (9, 10)]), [(0, 4), (5, 10)]);
        assert_eq!(union([(0, 10), (2, 3), (9, 12)]), [(0, 12)]);
        assert!(union(Vec::new()).is_empty());
        assert_eq!(union([(7, 7), (1, 1), (1, 2)]), [(1, 2), (7, 7)]);
    }

    #[test]
    fn lengths_are_added_up() {
        assert_eq!(total_ns(&[(0, 4), (5, 10), (12, 12)]), 9);
        assert_eq!(total_ns(&[]), 0);
    }

    #[test]
    fn only_the_part_in_the_window_counts() {
        let intervals = [(0, 4), (5, 10), (20, 30)];
        assert_eq!(within_ns(&intervals, 2, 7), 4);
        assert_eq!(within_ns(&intervals, 4, 5), 0);
        assert_eq!(within_ns(&intervals, 10, 20), 0);
        assert_eq!(within_ns(&intervals, -5, 99), 19);
        assert_eq!(within_ns(&intervals, 6, 8), 2);
        assert_eq!(within_ns(&[], 0, 9), 0);
    }
}
