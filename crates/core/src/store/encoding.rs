//! Parquet encodings for what recordings hold: whole columns of integers at once.
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>. The Parquet library's own writer hashes
//! and buffers value by value, which is most of its cost; this code takes a third of the time. The library decodes, so
//! every round trip tests this code against it.

use super::dictionary::PlacesOf;

/// Bytes of a physical integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

/// PLAIN.
pub(crate) fn plain(values: &[i64], width: Width, out: &mut Vec<u8>) {
    match width {
        Width::Four => values
            .iter()
            .for_each(|v| out.extend_from_slice(&(*v as i32).to_le_bytes())),
        Width::Eight => values
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
    }
}

/// BYTE_STREAM_SPLIT: the first bytes of all values, then all second bytes, and so on.
pub(crate) fn byte_stream_split(values: &[i64], width: Width, out: &mut Vec<u8>) {
    let streams = if width == Width::Four { 4 } else { 8 };
    let start = out.len();
    let n = values.len();
    out.resize(start + streams * n, 0);
    let out = &mut out[start..];
    let (eights, rest) = values.as_chunks::<8>();
    for (i, eight) in eights.iter().enumerate() {
        for (stream, bytes) in transposed(eight).iter().take(streams).enumerate() {
            out[stream * n + 8 * i..][..8].copy_from_slice(bytes);
        }
    }
    for (i, v) in rest.iter().enumerate() {
        for (stream, byte) in v.to_le_bytes().iter().take(streams).enumerate() {
            out[stream * n + 8 * eights.len() + i] = *byte;
        }
    }
}

/// Transposes an 8x8 matrix of bytes: row `k` of the result holds byte `k` of each value. It transposes the four
/// quarters and swaps two of them, recursively; quarters of one size are handled at once.
///
/// Source: Warren, Hacker's Delight, 2nd edition, section 7-3.
fn transposed(values: &[i64; 8]) -> [[u8; 8]; 8] {
    let mut rows = values.map(|v| v as u64);
    for (distance, mask) in [
        (4, 0x0000_0000_ffff_ffff),
        (2, 0x0000_ffff_0000_ffff),
        (1, 0x00ff_00ff_00ff_00ff),
    ] {
        for i in (0..8).filter(|i| i & distance == 0) {
            let differ = ((rows[i] >> (8 * distance)) ^ rows[i + distance]) & mask;
            rows[i] ^= differ << (8 * distance);
            rows[i + distance] ^= differ;
        }
    }
    rows.map(u64::to_le_bytes)
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
            // Four-byte columns wrap modulo 2^32, as their readers do.
            *delta = if width == Width::Four {
                i64::from(d as i32)
            } else {
                d
            };
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
        *a = if width == Width::Four {
            distance & 0xffff_ffff
        } else {
            distance
        };
    }
    let widths_at = out.len();
    out.resize(widths_at + MINIBLOCKS, 0);
    for (i, mini) in above[..deltas.len().next_multiple_of(MINIBLOCK)]
        .chunks(MINIBLOCK)
        .enumerate()
    {
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
    let mut word = 0u64;
    let mut held = 0u32;
    for v in values {
        word |= v << held;
        held += bits;
        if held >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            held -= 64;
            // Keep the bits of `v` that did not fit. A shift by 64 would shift by 0.
            word = if held == 0 { 0 } else { v >> (bits - held) };
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..held.div_ceil(8) as usize]);
}

/// Dictionary indices (RLE_DICTIONARY): one run if they are all equal, otherwise bit-packed. Bit widths are powers of
/// two, so that bytes hold whole indices and the compressor sees their frequencies.
pub(crate) fn dictionary_places(places: PlacesOf<'_>, out: &mut Vec<u8>) {
    let (rows, max, same) = match places {
        PlacesOf::One(place, rows) => (rows, place, true),
        PlacesOf::Each(each) => {
            let max = each.iter().copied().max().unwrap_or(0);
            (each.len(), max, each.iter().all(|p| *p == max))
        }
    };
    let bits = match 32 - max.leading_zeros() {
        bits @ 0..=2 => bits,
        3..=8 => 8,
        9..=16 => 16,
        _ => 32,
    };
    out.push(bits as u8);
    match places {
        _ if rows == 0 => {}
        PlacesOf::Each(each) if !same => put_places(each, bits, out),
        _ => put_run(rows, &max.to_le_bytes()[..bits.div_ceil(8) as usize], out),
    }
}

/// One bit-packed run of dictionary indices, `bits` wide each: 1, 2, 8, 16 or 32.
fn put_places(places: &[u32], bits: u32, out: &mut Vec<u8>) {
    let groups = places.len().div_ceil(8);
    put_varint(out, (groups as u64) << 1 | 1);
    let start = out.len();
    match bits {
        // Several indices per byte, the first in the lowest bits.
        1 | 2 => out.extend(places.chunks(8 / bits as usize).map(|few| {
            few.iter()
                .rev()
                .fold(0u8, |byte, place| byte << bits | *place as u8)
        })),
        8 => out.extend(places.iter().map(|p| *p as u8)),
        16 => places
            .iter()
            .for_each(|p| out.extend_from_slice(&(*p as u16).to_le_bytes())),
        _ => places
            .iter()
            .for_each(|p| out.extend_from_slice(&p.to_le_bytes())),
    }
    out.resize(start + groups * bits as usize, 0);
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
    pack(
        values.chain(std::iter::repeat_n(0, groups * 8 - n)),
        bits,
        out,
    );
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads `n` values of `bits` bits back.
    fn unpack(bytes: &[u8], n: usize, bits: u32) -> Vec<u64> {
        let bit = |i: usize| u64::from(bytes[i / 8] >> (i % 8) & 1);
        (0..n)
            .map(|v| (0..bits as usize).fold(0, |word, b| word | bit(v * bits as usize + b) << b))
            .collect()
    }

    proptest! {
        #[test]
        fn split_bytes_are_those_of_the_values(values in prop::collection::vec(any::<i64>(), 0..40)) {
            for (width, streams) in [(Width::Four, 4), (Width::Eight, 8)] {
                let mut out = vec![7];
                byte_stream_split(&values, width, &mut out);
                let expected = (0..streams).flat_map(|s| values.iter().map(move |v| v.to_le_bytes()[s]));
                prop_assert_eq!(&out[1..], expected.collect::<Vec<_>>());
            }
        }

        #[test]
        fn places_come_back(places in prop::collection::vec(0u32..0xffff_ffff, 1..70), bits in 1u32..=32) {
            let mut places: Vec<u32> = places.iter().map(|p| p >> (32 - bits)).collect();
            places[0] = 1 << (bits - 1);
            let mut out = Vec::new();
            dictionary_places(PlacesOf::Each(&places), &mut out);
            let width = u32::from(out[0]);
            let rest = &out[1..];
            prop_assert!([1, 2, 8, 16, 32].contains(&width) && width >= bits, "{width} for {bits}");
            if places.iter().any(|p| *p != places[0]) {
                let groups = places.len().div_ceil(8);
                prop_assert_eq!((usize::from(rest[0]), rest.len()), (2 * groups + 1, 1 + groups * width as usize));
                let read = unpack(&rest[1..], places.len(), width);
                prop_assert_eq!(read, places.iter().map(|p| u64::from(*p)).collect::<Vec<_>>());
            }
        }

        #[test]
        fn packed_values_come_back(values in prop::collection::vec(any::<u64>(), 0..70), bits in 1u32..=64) {
            let values: Vec<u64> = values.iter().map(|v| v >> (64 - bits)).collect();
            let mut out = Vec::new();
            pack(values.iter().copied(), bits, &mut out);
            prop_assert_eq!(out.len(), (values.len() * bits as usize).div_ceil(8));
            prop_assert_eq!(unpack(&out, values.len(), bits), values);
        }
    }
}
