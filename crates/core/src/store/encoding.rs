//! Parquet's encodings, written for what recordings hold: whole columns of integers at once.
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>. The library's own writer hashes and
//! buffers value by value, which is most of what it costs; this costs a third of that. Decoding is the library's, which
//! makes every round trip a test against it.

/// Bytes of a physical integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

/// PLAIN.
pub(crate) fn plain(values: &[i64], width: Width, out: &mut Vec<u8>) {
    match width {
        Width::Four => values.iter().for_each(|v| out.extend_from_slice(&(*v as i32).to_le_bytes())),
        Width::Eight => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
    }
}

/// BYTE_STREAM_SPLIT: all first bytes, then all second ones, and so on.
pub(crate) fn byte_stream_split(values: &[i64], width: Width, out: &mut Vec<u8>) {
    let streams = if width == Width::Four { 4 } else { 8 };
    for stream in 0..streams {
        out.extend(values.iter().map(|v| (v >> (8 * stream)) as u8));
    }
}

const DELTA_BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK: usize = DELTA_BLOCK / MINIBLOCKS;

/// DELTA_BINARY_PACKED.
pub(crate) fn delta_binary_packed(values: &[i64], width: Width, out: &mut Vec<u8>) {
    put_varint(out, DELTA_BLOCK as u64);
    put_varint(out, MINIBLOCKS as u64);
    put_varint(out, values.len() as u64);
    let mut previous = values.first().copied().unwrap_or(0);
    put_varint(out, super::frame::zigzag(previous));
    let mut deltas = [0i64; DELTA_BLOCK];
    for block in values.get(1..).unwrap_or_default().chunks(DELTA_BLOCK) {
        for (delta, v) in deltas.iter_mut().zip(block) {
            let d = v.wrapping_sub(previous);
            // Four-byte columns count modulo 2^32, as their readers do.
            *delta = if width == Width::Four { i64::from(d as i32) } else { d };
            previous = *v;
        }
        put_delta_block(&deltas[..block.len()], width, out);
    }
}

fn put_delta_block(deltas: &[i64], width: Width, out: &mut Vec<u8>) {
    let min = deltas.iter().copied().min().unwrap_or(0);
    put_varint(out, super::frame::zigzag(min));
    let mut above = [0u64; DELTA_BLOCK];
    for (a, d) in above.iter_mut().zip(deltas) {
        let distance = d.wrapping_sub(min) as u64;
        *a = if width == Width::Four { distance & 0xffff_ffff } else { distance };
    }
    let widths_at = out.len();
    out.resize(widths_at + MINIBLOCKS, 0);
    for (i, mini) in above[..deltas.len().next_multiple_of(MINIBLOCK)].chunks(MINIBLOCK).enumerate() {
        let bits = 64 - mini.iter().fold(0, |all, v| all | v).leading_zeros();
        out[widths_at + i] = bits as u8;
        pack(mini.iter().copied(), bits, out);
    }
}

/// Bit packing, least significant bit first; fills the last byte with zeros.
pub(crate) fn pack(values: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let (mut word, mut held) = (0u64, 0u32);
    for v in values {
        word |= v << held;
        held += bits;
        if held >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            held -= 64;
            // What of `v` did not fit; a shift by 64 would be by 0.
            word = if held == 0 { 0 } else { v >> (bits - held) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..held.div_ceil(8) as usize]);
}

/// Indices of a dictionary (RLE_DICTIONARY): one run if they are all the same, else bit-packed. Widths are powers of
/// two, so that every byte holds whole indices and the compressor sees their frequencies.
pub(crate) fn dictionary_indices(indices: &[u32], out: &mut Vec<u8>) {
    let max = indices.iter().copied().max().unwrap_or(0);
    let bits = match 32 - max.leading_zeros() {
        bits @ 0..=2 => bits,
        3..=8 => 8,
        9..=16 => 16,
        _ => 32,
    };
    out.push(bits as u8);
    if indices.is_empty() {
        return;
    }
    match indices.iter().all(|i| *i == max) {
        true => put_run(indices.len(), &max.to_le_bytes()[..bits.div_ceil(8) as usize], out),
        false => put_packed(indices.iter().map(|i| u64::from(*i)), indices.len(), bits, out),
    }
}

/// Definition levels of a page of an optional, flat column (RLE, with its length in front).
pub(crate) fn definition_levels(valid: Option<&[bool]>, rows: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match valid {
        Some(valid) if valid.iter().any(|v| *v != valid[0]) => {
            put_packed(valid.iter().map(|v| u64::from(*v)), rows, 1, out);
        }
        valid => put_run(rows, &[u8::from(valid.is_none_or(|v| v[0]))], out),
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_run(n: usize, value: &[u8], out: &mut Vec<u8>) {
    put_varint(out, (n as u64) << 1);
    out.extend_from_slice(value);
}

/// One bit-packed run, padded to a multiple of eight values.
fn put_packed(values: impl Iterator<Item = u64>, n: usize, bits: u32, out: &mut Vec<u8>) {
    let groups = n.div_ceil(8);
    put_varint(out, (groups as u64) << 1 | 1);
    pack(values.chain(std::iter::repeat_n(0, groups * 8 - n)), bits, out);
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// The distinct values of a column in order of appearance, and each row as an index into them.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    pub values: Vec<i64>,
    pub indices: Vec<u32>,
    slots: Vec<u32>,
}

impl Distinct {
    /// Indexes `values`; `false` if more than `most` of them differ.
    pub fn index(&mut self, values: &[i64], most: usize) -> bool {
        self.values.clear();
        self.indices.clear();
        self.slots.clear();
        self.slots.resize((2 * most).next_power_of_two(), u32::MAX);
        let shift = 64 - self.slots.len().trailing_zeros();
        let mask = self.slots.len() - 1;
        let mut last = None;
        for &v in values {
            if let Some((value, index)) = last
                && value == v
            {
                self.indices.push(index);
                continue;
            }
            // Fibonacci hashing, linear probing: the table is at most half full.
            let mut at = (v as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(shift) as usize & mask;
            let index = loop {
                let slot = self.slots[at];
                if slot == u32::MAX {
                    if self.values.len() == most {
                        return false;
                    }
                    self.slots[at] = self.values.len() as u32;
                    self.values.push(v);
                    break self.slots[at];
                }
                if self.values[slot as usize] == v {
                    break slot;
                }
                at = (at + 1) & mask;
            };
            self.indices.push(index);
            last = Some((v, index));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads `n` values of `bits` bits back.
    fn unpack(bytes: &[u8], n: usize, bits: u32) -> Vec<u64> {
        let bit = |i: usize| u64::from(bytes[i / 8] >> (i % 8) & 1);
        (0..n).map(|v| (0..bits as usize).fold(0, |word, b| word | bit(v * bits as usize + b) << b)).collect()
    }

    proptest! {
        #[test]
        fn packed_values_come_back(values in prop::collection::vec(any::<u64>(), 0..70), bits in 1u32..=64) {
            let values: Vec<u64> = values.iter().map(|v| v >> (64 - bits)).collect();
            let mut out = Vec::new();
            pack(values.iter().copied(), bits, &mut out);
            prop_assert_eq!(out.len(), (values.len() * bits as usize).div_ceil(8));
            prop_assert_eq!(unpack(&out, values.len(), bits), values);
        }

        #[test]
        fn distinct_values_index_their_rows(values in prop::collection::vec(prop_oneof![any::<i64>(), 0i64..9], 0..300), most in 1usize..200) {
            let mut d = Distinct::default();
            let fits = d.index(&values, most);
            let set: std::collections::HashSet<i64> = values.iter().copied().collect();
            prop_assert_eq!(fits, set.len() <= most);
            if fits {
                prop_assert_eq!(d.values.len(), set.len());
                prop_assert_eq!(d.indices.iter().map(|i| d.values[*i as usize]).collect::<Vec<_>>(), values);
            }
        }
    }
}
