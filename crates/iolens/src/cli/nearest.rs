//! The word that was probably meant.

/// The word of `known` that `word` becomes by the fewest slips: a letter too many, too few, another one, or two in the wrong
/// order. `None` if more than one in three letters would have to be wrong.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let with_slips = known.iter().map(|k| (slips(word, k), *k));
    let (fewest, best) = with_slips.min_by_key(|(n, _)| *n)?;
    let longer = word.chars().count().max(best.chars().count());
    (fewest * 3 <= longer.max(3)).then_some(best)
}

/// The number of slips between two words (optimal string alignment distance).
fn slips(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    // rows[i][j]: slips between the first i letters of a and the first j of b.
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, slips) in rows[0].iter_mut().enumerate() {
        *slips = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let other = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + other);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_found_and_other_words_are_not() {
        let known = ["record", "report", "zoom", "fio", "live"];
        for (typed, meant) in [
            ("reocrd", Some("record")),
            ("reprot", Some("report")),
            ("foi", Some("fio")),
            ("zom", Some("zoom")),
            ("lives", Some("live")),
            ("tree", None),
            ("", None),
            ("ünïcode", None),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed}");
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
