//! One column of the frame that is being filled: values are appended, and encoded when the frame is full.

use super::encoding::put_varint;
use super::frame::{ALL_NULL, DELTAS, HAS_NULLS, OFFSETS, bytes_for, zigzag};

/// Integers of a column. While all rows are equal, one value represents them. Most columns are constant most of the
/// time, and then cost one comparison per row.
#[derive(Debug, Default)]
pub(crate) struct ColumnBuffer {
    rows: usize,
    first: Option<i64>,
    /// One value per row; empty while all rows equal the first. A null repeats the value before it, so it does not
    /// widen the encoding.
    values: Vec<i64>,
    /// Whether each row has a value; empty while all have.
    valid: Vec<bool>,
}

impl ColumnBuffer {
    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.values.clear();
        self.valid.clear();
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows at the end.
    #[inline]
    pub fn append(&mut self, values: impl ExactSizeIterator<Item = Option<i64>> + Clone) {
        if self.rows == 0 {
            self.first = values.clone().next().flatten();
        }
        let n = values.len();
        if self.values.is_empty() && all_are(values.clone(), self.first) {
            self.rows += n;
            return;
        }
        if self.values.is_empty() {
            self.spell_out();
        }
        self.rows += n;
        if values.clone().fold(true, |all, v| all & v.is_some()) {
            self.values.extend(values.map(Option::unwrap_or_default));
            if !self.valid.is_empty() {
                self.valid.resize(self.rows, true);
            }
            return;
        }
        self.valid.resize(self.values.len(), true);
        let mut last = self.values.last().copied().unwrap_or(0);
        for v in values {
            last = v.unwrap_or(last);
            self.values.push(last);
            self.valid.push(v.is_some());
        }
    }

    /// Expands equal rows to one value each.
    fn spell_out(&mut self) {
        self.values.resize(self.rows, self.first.unwrap_or(0));
        if self.first.is_none() {
            self.valid.resize(self.rows, false);
        }
    }

    /// Appends the encoded column to `out`. Returns its smallest and largest value, if it has any.
    pub fn encode(&mut self, out: &mut Vec<u8>) -> Option<(i64, i64)> {
        if self.values.is_empty() {
            let value = self.first.filter(|_| self.rows > 0);
            put_steady(value, out);
            return value.map(|v| (v, v));
        }
        // Nulls before the first value repeat that value.
        let nulls = self.valid.iter().take_while(|v| !**v).count();
        let first = self.values[nulls];
        self.values[..nulls].fill(first);
        let range = Range::of(&self.values, first);
        let offsets = bytes_for(range.max.wrapping_sub(range.min) as u64);
        let deltas = bytes_for(range.delta_bits);
        let flags = if self.valid.is_empty() { 0 } else { HAS_NULLS };
        if deltas < offsets {
            out.push(flags | DELTAS | deltas as u8);
            put_varint(out, zigzag(first));
            put_bits(out, &self.valid);
            let mut before = first;
            put_fixed(
                out,
                deltas,
                self.values.iter().map(|v| {
                    let delta = v.wrapping_sub(before);
                    before = *v;
                    zigzag(delta)
                }),
            );
        } else {
            out.push(flags | OFFSETS | offsets as u8);
            put_varint(out, zigzag(range.min));
            put_bits(out, &self.valid);
            put_fixed(
                out,
                offsets,
                self.values.iter().map(|v| v.wrapping_sub(range.min) as u64),
            );
        }
        Some((range.min, range.max))
    }
}

fn put_steady(value: Option<i64>, out: &mut Vec<u8>) {
    match value {
        None => out.push(ALL_NULL),
        Some(v) => {
            out.push(OFFSETS);
            put_varint(out, zigzag(v));
        }
    }
}

/// Whether all `values` equal `first`, computed without a branch per value.
#[inline]
fn all_are(values: impl Iterator<Item = Option<i64>>, first: Option<i64>) -> bool {
    let known = first.is_some();
    let value = first.unwrap_or(0);
    let different_bits = values.fold(0, |bits, v| {
        bits | (v.unwrap_or(0) ^ value) | i64::from(v.is_some() != known)
    });
    different_bits == 0
}

/// Bounds of a column's values.
struct Range {
    min: i64,
    max: i64,
    /// Bitwise or of the zigzag differences of neighbouring values.
    delta_bits: u64,
}

impl Range {
    fn of(values: &[i64], first: i64) -> Range {
        let mut range = Range {
            min: first,
            max: first,
            delta_bits: 0,
        };
        let mut before = first;
        for &v in values {
            range.min = range.min.min(v);
            range.max = range.max.max(v);
            range.delta_bits |= zigzag(v.wrapping_sub(before));
            before = v;
        }
        range
    }
}

fn put_bits(out: &mut Vec<u8>, bits: &[bool]) {
    out.extend(bits.chunks(8).map(|c| {
        c.iter()
            .enumerate()
            .fold(0u8, |byte, (i, b)| byte | u8::from(*b) << i)
    }));
}

/// Writes the low `width` bytes of each value. Each width has a loop of its own, without branches.
fn put_fixed(out: &mut Vec<u8>, width: usize, values: impl ExactSizeIterator<Item = u64>) {
    match width {
        0 => {}
        1 => put_words::<1>(out, values),
        2 => put_words::<2>(out, values),
        3 => put_words::<3>(out, values),
        4 => put_words::<4>(out, values),
        5 => put_words::<5>(out, values),
        6 => put_words::<6>(out, values),
        7 => put_words::<7>(out, values),
        _ => put_words::<8>(out, values),
    }
}

fn put_words<const N: usize>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let (words, _) = out[start..].as_chunks_mut::<N>();
    for (word, v) in words.iter_mut().zip(values) {
        word.copy_from_slice(&v.to_le_bytes()[..N]);
    }
}
