//! Escapes names for text columns: Parquet strings must be UTF-8, and a task's name may contain any bytes.

/// Escapes `raw` as UTF-8: an invalid byte becomes `\xNN`, and so does the backslash of a literal `\x`.
pub(crate) fn escape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        let good = chunk.valid().as_bytes();
        for (i, b) in good.iter().enumerate() {
            if *b == b'\\' && good.get(i + 1) == Some(&b'x') {
                out.extend_from_slice(b"\\x5c");
            } else {
                out.push(*b);
            }
        }
        for b in chunk.invalid() {
            out.extend_from_slice(format!("\\x{b:02x}").as_bytes());
        }
    }
    out
}

/// Reverses [`escape`]. Text without `\xNN`, as other programs write it, is unchanged.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match rest {
            [b'\\', b'x', hi, lo, after @ ..]
                if hi.is_ascii_hexdigit() && lo.is_ascii_hexdigit() =>
            {
                out.push(nibble(*hi) << 4 | nibble(*lo));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

fn nibble(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_come_back_and_are_utf8(raw in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x'), Just(b'4')], 0..40)) {
            let text = escape(&raw);
            prop_assert!(std::str::from_utf8(&text).is_ok());
            prop_assert_eq!(unescape(&text), raw);
        }
    }

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(
            escape("kworker/u8:2 ß \\o/".as_bytes()),
            "kworker/u8:2 ß \\o/".as_bytes()
        );
        assert_eq!(escape(b"a\xff"), b"a\\xff");
        assert_eq!(unescape(br"\xzz"), br"\xzz");
    }
}
