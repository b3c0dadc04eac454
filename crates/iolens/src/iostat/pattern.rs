//! Patterns of device names with `*`, `?` and `[...]`, as in shells.

/// Whether a word is a pattern.
pub fn is_pattern(word: &[u8]) -> bool {
    word.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// Whether the whole name matches. `*` matches any bytes, `?` one byte, `[a-c]` and `[!a-c]` one byte in or not in a
/// set; a `[` without `]` matches itself.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut p = 0;
    let mut n = 0;
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return true,
            Some(_) if n < name.len() => {
                let (matched, length) = one(&pattern[p..], name[n]);
                if matched {
                    p += length;
                    n += 1;
                    continue;
                }
            }
            _ => {}
        }
        // Backtrack: the last `*` matches one more byte.
        match &mut retry {
            Some((after, from)) if *from < name.len() => {
                *from += 1;
                p = *after;
                n = *from;
            }
            _ => return false,
        }
    }
}

/// Whether the first item of a pattern matches a byte, and the length of the item.
fn one(pattern: &[u8], byte: u8) -> (bool, usize) {
    match pattern[0] {
        b'?' => (true, 1),
        b'[' => {
            let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
            let start = if negated { 2 } else { 1 };
            // A `]` right after the start is part of the set.
            let Some(end) = pattern
                .iter()
                .skip(start + 1)
                .position(|b| *b == b']')
                .map(|i| i + start + 1)
            else {
                return (byte == b'[', 1);
            };
            let set = &pattern[start..end];
            let mut found = false;
            let mut i = 0;
            while i < set.len() {
                if i + 2 < set.len() && set[i + 1] == b'-' {
                    found |= (set[i]..=set[i + 2]).contains(&byte);
                    i += 3;
                } else {
                    found |= set[i] == byte;
                    i += 1;
                }
            }
            (found != negated, end + 1)
        }
        b => (b == byte, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shell_patterns() {
        for (pattern, yes, no) in [
            ("nvme*", "nvme0n1", "sda"),
            ("*", "", "\u{0}x".trim_matches('x').trim_matches('\u{0}')),
            ("sd?", "sda", "sda1"),
            ("sd[a-c]1", "sdb1", "sdd1"),
            ("sd[!a-c]", "sdz", "sda"),
            ("nvme*n*p1", "nvme0n1p1", "nvme0n1p2"),
            ("[]x]", "]", "["),
            ("sd[a", "sd[a", "sda"),
            ("a*b*c", "aXbYbZc", "aXbYbZ"),
        ] {
            assert!(
                matches(pattern.as_bytes(), yes.as_bytes()),
                "{pattern} {yes}"
            );
            if !no.is_empty() {
                assert!(
                    !matches(pattern.as_bytes(), no.as_bytes()),
                    "{pattern} {no}"
                );
            }
        }
        assert!(is_pattern(b"nvme*") && is_pattern(b"sd[ab]") && !is_pattern(b"sda"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(pattern in prop::collection::vec(prop::sample::select(b"ab*?[]!-^".to_vec()), 0..12), name in "[ab\\[\\]]{0,10}") {
            let _ = matches(&pattern, name.as_bytes());
        }

        #[test]
        fn a_star_matches_all_and_a_name_matches_itself(name in "[a-z0-9]{0,12}") {
            prop_assert!(matches(b"*", name.as_bytes()));
            prop_assert!(matches(name.as_bytes(), name.as_bytes()));
            let longer = [name.as_bytes(), b"*"].concat();
            prop_assert!(matches(&longer, name.as_bytes()));
        }
    }
}
