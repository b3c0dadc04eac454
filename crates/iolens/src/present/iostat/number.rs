//! Numbers as C's `printf` writes them, quickly.

/// Powers of ten for the decimals that have a short way.
const POW10: [u64; 3] = [1, 10, 100];

/// Appends a blank and `value` with `decimals` decimals, right-aligned in `width` bytes, as `" %*.*f"` does: rounded from
/// the exact binary value, ties to even. What is wider pushes the rest of the line.
pub fn push_float(out: &mut Vec<u8>, value: f64, width: usize, decimals: usize, point: &[u8]) {
    let mut digits = [0u8; 24];
    match rounded(value, decimals) {
        Some(scaled) => {
            let n = write_scaled(scaled, decimals, &mut digits);
            push_field(out, &digits[digits.len() - n..], width, decimals, point);
        }
        None => push_field(
            out,
            format!("{value:.decimals$}").as_bytes(),
            width,
            decimals,
            point,
        ),
    }
}

/// Appends a blank and `value`, right-aligned in `width` bytes.
pub fn push_integer(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [0u8; 24];
    let n = write_scaled(value, 0, &mut digits);
    push_field(out, &digits[digits.len() - n..], width, 0, b".");
}

/// `value * 10^decimals` as an integer, rounded as `printf` does. `None`: too large or too small for the short way, or
/// no finite non-negative number.
fn rounded(value: f64, decimals: usize) -> Option<u64> {
    let pow = *POW10.get(decimals)?;
    let bits = value.to_bits();
    if bits == 0 {
        return Some(0);
    }
    let exponent = (bits >> 52) as i64 - 1075;
    // Normal, positive, below 2^53: an exact product of at most 60 bits, cut at a binary digit.
    if !(-1074..0).contains(&exponent) {
        return None;
    }
    let product = u128::from((bits & ((1 << 52) - 1)) | 1 << 52) * u128::from(pow);
    let shift = -exponent as u32;
    if shift > 100 {
        return Some(0);
    }
    let whole = product >> shift;
    let rest = product & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    let up = rest > half || (rest == half && whole & 1 == 1);
    Some(whole as u64 + u64::from(up))
}

/// Writes digits from the end of `to`, with a point before the last `decimals`; returns their number.
fn write_scaled(mut v: u64, decimals: usize, to: &mut [u8; 24]) -> usize {
    let mut n = 0;
    loop {
        if n == decimals && decimals > 0 {
            to[23 - n] = b'.';
            n += 1;
        }
        to[23 - n] = b'0' + (v % 10) as u8;
        n += 1;
        v /= 10;
        if v == 0 && n > decimals {
            return n;
        }
    }
}

fn push_field(out: &mut Vec<u8>, text: &[u8], width: usize, decimals: usize, point: &[u8]) {
    const BLANKS: [u8; 32] = [b' '; 32];
    let plain = decimals == 0 || point == b".";
    let length = if plain {
        text.len()
    } else {
        text.len() - 1 + point.len()
    };
    let pad = 1 + width.saturating_sub(length);
    out.extend_from_slice(&BLANKS[..pad.min(BLANKS.len())]);
    match text.iter().position(|b| *b == b'.').filter(|_| !plain) {
        Some(at) => {
            out.extend_from_slice(&text[..at]);
            out.extend_from_slice(point);
            out.extend_from_slice(&text[at + 1..]);
        }
        None => out.extend_from_slice(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn float(v: f64, width: usize, decimals: usize) -> String {
        let mut out = Vec::new();
        push_float(&mut out, v, width, decimals, b".");
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn fields_are_padded_and_pushed() {
        assert_eq!(float(3.0, 7, 2), "    3.00");
        assert_eq!(float(123456789.0, 7, 2), " 123456789.00");
        assert_eq!(float(0.125, 0, 2), " 0.12", "a tie goes to even");
        assert_eq!(float(0.375, 0, 2), " 0.38");
        assert_eq!(float(2.5, 0, 0), " 2");
        assert_eq!(float(591810846124785152.0, 8, 2), " 591810846124785152.00");
        let mut out = Vec::new();
        push_integer(&mut out, u64::MAX, 10);
        push_integer(&mut out, 7, 3);
        assert_eq!(out, b" 18446744073709551615   7");
    }

    #[test]
    fn a_comma_takes_the_point_s_place_and_width() {
        let mut out = Vec::new();
        push_float(&mut out, 1.5, 6, 2, b",");
        push_float(&mut out, 1.5, 6, 0, b",");
        push_float(&mut out, 1.5, 8, 1, "٫".as_bytes());
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "   1,50      2     1٫5"
        );
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_long(v in 0.0f64..1e12, decimals in 0usize..3) {
            prop_assert_eq!(float(v, 0, decimals), format!(" {v:.decimals$}"));
        }

        #[test]
        fn also_for_all_bit_patterns(bits in any::<u64>(), decimals in 0usize..3) {
            let v = f64::from_bits(bits & !(1 << 63));
            prop_assume!(v.is_finite());
            prop_assert_eq!(float(v, 0, decimals), format!(" {v:.decimals$}"));
        }

        #[test]
        fn also_for_ties(n in 0u64..1_000_000, decimals in 0usize..3) {
            let v = n as f64 / 8.0;
            prop_assert_eq!(float(v, 0, decimals), format!(" {v:.decimals$}"));
        }
    }
}
