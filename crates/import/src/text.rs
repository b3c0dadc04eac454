//! Parses lines and numbers as other tools print them.

use std::borrow::Cow;
use std::io::{BufRead, Read as _};

/// Longer lines are not lines of a log: they are truncated.
const MAX_LINE: u64 = 64 << 10;

/// Lines of a text with their numbers from 1. Line ends are `\n` or `\r\n`; terminal colour sequences are removed.
pub struct Lines<'a> {
    source: &'a mut dyn BufRead,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    /// All lines of `source`, which keeps its own read errors: an unreadable part ends the text.
    pub fn new(source: &'a mut dyn BufRead) -> Lines<'a> {
        Lines {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Reads the next line; `None` at the end.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        self.line.clear();
        let read = (&mut *self.source)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.line);
        if self.line.is_empty() && read.unwrap_or(0) == 0 {
            return None;
        }
        self.number += 1;
        let complete = self.line.pop_if(|b| *b == b'\n').is_some();
        if !complete && self.line.len() as u64 >= MAX_LINE {
            self.pass_over();
        }
        self.line.pop_if(|b| *b == b'\r');
        // Some editors put a byte order mark at the start.
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        if let Cow::Owned(plain) = without_colours(&self.line) {
            self.line = plain;
        }
        Some(Line {
            number: self.number,
            bytes: &self.line,
            complete,
        })
    }

    fn pass_over(&mut self) {
        while let Ok(buffer @ [_, ..]) = self.source.fill_buf() {
            let (length, end) = buffer
                .iter()
                .position(|b| *b == b'\n')
                .map_or((buffer.len(), false), |i| (i + 1, true));
            self.source.consume(length);
            if end {
                return;
            }
        }
    }
}

/// One line of a log.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Line number, from 1.
    pub number: u64,
    /// Content without the line end.
    pub bytes: &'a [u8],
    /// Whether the line end is there. It is missing in the last line of a truncated log, and in a line of more than
    /// [`MAX_LINE`] bytes.
    pub complete: bool,
}

/// The text without terminal colour sequences (`iostat` with `S_COLORS=always`).
pub fn without_colours(bytes: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if !bytes.contains(&ESCAPE) {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| *b == ESCAPE) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"[") {
            // Parameters, then a letter; anything else is not such a sequence and stays.
            let length = after
                .iter()
                .take_while(|b| b.is_ascii_digit() || **b == b';')
                .count();
            rest = if after.get(length) == Some(&b'm') {
                &after[length + 1..]
            } else {
                rest
            };
        }
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Words separated by blanks and tabs.
pub fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|b| *b == b' ' || *b == b'\t')
        .filter(|w| !w.is_empty())
}

/// Whether one of the words of a line is `word`.
pub fn has_word(words: &[&[u8]], word: &str) -> bool {
    words.contains(&word.as_bytes())
}

/// The bytes as text; invalid UTF-8 becomes the replacement character.
pub fn owned_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The cells of a table's line: comma-separated where `iostat -r` of Solaris and illumos prints them, else words.
pub fn columns(line: &[u8]) -> Vec<&[u8]> {
    if line.starts_with(b"device,") || line.ends_with(b",device") {
        return line.split(|b| *b == b',').map(<[u8]>::trim_ascii).collect();
    }
    words(line).collect()
}

/// A number with a decimal point or comma. No exponents and no signs except `-`, because tables never print them.
pub fn number(word: &[u8]) -> Option<f64> {
    let (negative, digits) = match word.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let mut mantissa: u64 = 0;
    let mut decimals: i32 = -1;
    let mut seen = 0;
    for b in digits {
        match b {
            b'0'..=b'9' => {
                seen += 1;
                // Doubles are exact up to 2^53; longer numbers take the slow path.
                if mantissa > (1 << 53) / 10 - 1 {
                    return slow_number(word);
                }
                mantissa = mantissa * 10 + u64::from(b - b'0');
                if decimals >= 0 {
                    decimals += 1;
                }
            }
            b'.' | b',' if decimals < 0 => decimals = 0,
            _ => return None,
        }
    }
    if seen == 0 {
        return None;
    }
    // Exact: both operands are integers below 2^53 and powers of ten up to 10^22 are exact, so there is only one
    // rounding.
    let value = if decimals > 0 {
        mantissa as f64 / 10f64.powi(decimals.min(22))
    } else {
        mantissa as f64
    };
    Some(if negative { -value } else { value })
}

fn slow_number(word: &[u8]) -> Option<f64> {
    if word.len() > 64 {
        return None;
    }
    let text = std::str::from_utf8(word).ok()?.replace(',', ".");
    text.parse::<f64>().ok().filter(|v| v.is_finite())
}

/// Digits after the decimal sign of a number: a line truncated inside its last number has fewer than its neighbour.
pub fn decimals(word: &[u8]) -> usize {
    word.iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count()
        .min(word.len().saturating_sub(1))
}

/// An unsigned whole number.
pub fn integer(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0u64, |acc, b| match b {
        b'0'..=b'9' => acc.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// Seconds with decimals as nanoseconds, without a conversion to double: `12345.678901` keeps every digit.
pub fn seconds_ns(word: &[u8]) -> Option<i64> {
    let (negative, word) = match word.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let dot = word
        .iter()
        .position(|b| *b == b'.' || *b == b',')
        .unwrap_or(word.len());
    let whole = i64::try_from(integer(&word[..dot])?).ok()?;
    let fraction = word.get(dot + 1..).unwrap_or_default();
    let mut nanos = 0i64;
    for i in 0..9 {
        let digit = match fraction.get(i) {
            Some(b @ b'0'..=b'9') => i64::from(b - b'0'),
            Some(_) => return None,
            None => 0,
        };
        nanos = nanos * 10 + digit;
    }
    let ns = whole.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(if negative { -ns } else { ns })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_with_point_or_comma() {
        assert_eq!(number(b"179.00"), Some(179.0));
        assert_eq!(number(b"0,25"), Some(0.25));
        assert_eq!(number(b"-1.5"), Some(-1.5));
        assert_eq!(number(b"591810846124785152.00"), Some(591810846124785152.0));
        for bad in [
            &b""[..],
            b"-",
            b".",
            b"1.2.3",
            b"nan",
            b"inf",
            b"1e5",
            b"0x1",
            b"12abc",
        ] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn colours_are_no_text() {
        assert_eq!(
            &*without_colours(b"\x1b[32;22msda \x1b[0m\x1b[1m 0.5\n"),
            b"sda  0.5\n"
        );
        assert_eq!(&*without_colours(b"\x1b[2Kx\x1b"), b"[2Kx");
        assert!(matches!(without_colours(b"plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn seconds_keep_nanoseconds() {
        assert_eq!(seconds_ns(b"12345.678901"), Some(12_345_678_901_000));
        assert_eq!(seconds_ns(b"1.123456789"), Some(1_123_456_789));
        assert_eq!(seconds_ns(b"99999999999999"), None);
        assert_eq!(seconds_ns(b"1.x"), None);
    }

    #[test]
    fn lines_are_numbered_and_a_missing_end_is_reported() {
        let lines = |mut bytes: &[u8]| {
            let mut lines = Lines::new(&mut bytes);
            let mut out = Vec::new();
            while let Some(l) = lines.next_line() {
                out.push((l.number, l.bytes.to_vec(), l.complete));
            }
            out
        };
        let l = lines(b"\xef\xbb\xbfa\r\n\nb");
        assert_eq!(
            l,
            [
                (1, b"a".to_vec(), true),
                (2, vec![], true),
                (3, b"b".to_vec(), false)
            ]
        );
        let long = [vec![b'x'; 3 * MAX_LINE as usize], b"\nnext\n".to_vec()].concat();
        let l = lines(&long);
        assert_eq!(
            (l[0].1.len() as u64, l[0].2),
            (MAX_LINE, false),
            "memory has a limit"
        );
        assert_eq!(l[1..], [(2, b"next".to_vec(), true)]);
    }

    proptest! {
        #[test]
        fn printed_decimals_parse_to_the_nearest_double(x in 0.0f64..1e9, d in 0usize..7) {
            let s = format!("{x:.d$}");
            prop_assert_eq!(number(s.as_bytes()).unwrap(), s.parse::<f64>().unwrap());
        }
    }
}
