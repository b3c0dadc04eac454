//! Integers packed into text, as the page unpacks them (`web/src/codec.ts`): base64 VLQ as in source maps, `.` for an
//! absent value, `~n` for n repetitions of the item before it. Columns hold zigzag deltas to the last present value,
//! lists plain numbers. Numbers that stay JSON lose the digits that no chart shows.

use serde_json::Value;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Log codes per octave.
const CODES_PER_OCTAVE: f64 = 64.0;

/// Replaces each number in `value` that is not an integer by the result of `of`.
pub(super) fn each_number(value: &mut Value, of: impl Fn(f64) -> f64 + Copy) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|v| each_number(v, of)),
        Value::Object(fields) => fields.values_mut().for_each(|v| each_number(v, of)),
        Value::Number(n) if n.is_f64() => *value = n.as_f64().map(of).into(),
        _ => {}
    }
}

fn number(mut value: u64, out: &mut String) {
    loop {
        let digit = (value & 31) as usize;
        value >>= 5;
        out.push(char::from(
            ALPHABET[if value > 0 { digit | 32 } else { digit }],
        ));
        if value == 0 {
            return;
        }
    }
}

/// Packs a column.
pub(super) fn column(values: impl IntoIterator<Item = Option<u64>>) -> String {
    let mut out = String::new();
    let mut last = 0i64;
    let mut previous = String::new();
    let mut repeats = 0u64;
    let mut item = String::new();
    for v in values {
        item.clear();
        match v {
            None => item.push('.'),
            Some(v) => {
                let v = i64::try_from(v).unwrap_or(i64::MAX);
                let delta = v - last;
                number(((delta << 1) ^ (delta >> 63)) as u64, &mut item);
                last = v;
            }
        }
        if item == previous {
            repeats += 1;
        } else {
            repeat(&previous, repeats, &mut out);
            out.push_str(&item);
            std::mem::swap(&mut previous, &mut item);
            repeats = 0;
        }
    }
    repeat(&previous, repeats, &mut out);
    out
}

/// Appends `item` another `times` times, in the shorter of two encodings.
fn repeat(item: &str, times: u64, out: &mut String) {
    if times == 0 {
        return;
    }
    let mut run = String::from("~");
    number(times, &mut run);
    if item.len() as u64 * times <= run.len() as u64 {
        (0..times).for_each(|_| out.push_str(item));
    } else {
        out.push_str(&run);
    }
}

/// Packs a list.
pub(super) fn list(values: impl IntoIterator<Item = u64>) -> String {
    let mut out = String::new();
    values.into_iter().for_each(|v| number(v, &mut out));
    out
}

/// The log code of `value`: 0 for 0, else `1 + 64 log2(value)`, rounded; at most 0.55 % off. Values below 1 count as 1.
pub(super) fn log_code(value: f64) -> u64 {
    if value <= 0.0 {
        0
    } else {
        1 + (CODES_PER_OCTAVE * value.max(1.0).log2()).round() as u64
    }
}

#[cfg(test)]
pub(in crate::present) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Unpacks like the page, to test the round trip.
    pub fn unpack_list(text: &str) -> Vec<u64> {
        let mut out = Vec::new();
        let mut value = 0u64;
        let mut shift = 0;
        for b in text.bytes() {
            let digit = ALPHABET.iter().position(|a| *a == b).expect("a digit") as u64;
            value |= (digit & 31) << shift;
            shift += 5;
            if digit < 32 {
                out.push(value);
                value = 0;
                shift = 0;
            }
        }
        out
    }

    pub fn unpack_column(text: &str) -> Vec<Option<u64>> {
        let mut out: Vec<Option<u64>> = Vec::new();
        let mut rest = text;
        let mut last = 0i64;
        let mut delta = None;
        while !rest.is_empty() {
            let (head, times) = match rest.as_bytes()[0] {
                b'.' => {
                    delta = None;
                    (1, 1)
                }
                b'~' => {
                    let n = digits(&rest[1..]);
                    (1 + n, unpack_list(&rest[1..1 + n])[0])
                }
                _ => {
                    let n = digits(rest);
                    let z = unpack_list(&rest[..n])[0];
                    delta = Some((z >> 1) as i64 ^ -((z & 1) as i64));
                    (n, 1)
                }
            };
            rest = &rest[head..];
            for _ in 0..times {
                out.push(delta.map(|d| {
                    last += d;
                    last as u64
                }));
            }
        }
        out
    }

    fn digits(text: &str) -> usize {
        text.bytes()
            .position(|b| ALPHABET[..32].contains(&b))
            .expect("a last digit")
            + 1
    }

    #[test]
    fn the_wire_is_what_the_page_expects() {
        assert_eq!(column([Some(1), Some(2), Some(3), None, Some(0)]), "CCC.F");
        assert_eq!(column([Some(5); 6]), "KA~E");
        assert_eq!(list([0, 31, 32, 1024]), "AfgBggB");
        assert_eq!((log_code(0.0), log_code(1.0), log_code(2.0)), (0, 1, 65));
    }

    proptest! {
        #[test]
        fn columns_and_lists_survive(values in prop::collection::vec((prop::option::of(prop_oneof![0u64..3, 0u64..500, 0u64..1 << 50]), 1usize..5), 0..60)) {
            let values: Vec<Option<u64>> = values.into_iter().flat_map(|(v, n)| std::iter::repeat_n(v, n)).collect();
            prop_assert_eq!(unpack_column(&column(values.iter().copied())), values.clone());
            let numbers: Vec<u64> = values.into_iter().flatten().collect();
            prop_assert_eq!(unpack_list(&list(numbers.iter().copied())), numbers);
        }

        #[test]
        fn log_codes_are_close(v in 1.0f64..1e15) {
            let back = ((log_code(v) - 1) as f64 / CODES_PER_OCTAVE).exp2();
            prop_assert!((back / v - 1.0).abs() < 0.0055);
        }
    }
}
