//! Frames: a few thousand rows of one table, column by column, in 11 to 25 bytes per I/O.
//!
//! The write-ahead log consists of frames, and so does the active segment in memory, from which the Parquet file is
//! made. A column is stored as fixed-width offsets from its minimum or as zigzag deltas, whichever is narrower. Both
//! encode and decode in about a nanosecond per value; variable-length integers are slower.

use std::collections::HashMap;

use super::column::{Column, Ints, Texts};
use super::schema::{Kind, Table};

/// Maximum rows of a frame. Bounds a reader's allocation for a frame of constant columns.
pub(crate) const MAX_FRAME_ROWS: usize = 65_536;

pub(crate) const ALL_NULL: u8 = 0x10;
pub(crate) const OFFSETS: u8 = 0x20;
pub(crate) const DELTAS: u8 = 0x30;
pub(crate) const HAS_NULLS: u8 = 0x80;

/// Error: the bytes are not a frame. If their checksum matches, this is a bug or malice; without a checksum it is
/// damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame does not hold what its header says")]
pub(crate) struct BadFrame;

/// The payload of a frame, split into columns that are decoded one at a time.
pub(crate) struct FrameColumns<'a> {
    rows: usize,
    columns: Vec<&'a [u8]>,
}

impl<'a> FrameColumns<'a> {
    /// Splits `payload` into columns; `rows` is the number of rows in the frame's header.
    pub fn parse(payload: &'a [u8], rows: usize) -> Result<FrameColumns<'a>, BadFrame> {
        let mut rest = payload;
        let n = take_varint(&mut rest)?;
        if rows > MAX_FRAME_ROWS || n > 1024 {
            return Err(BadFrame);
        }
        let lengths: Vec<u64> = (0..n)
            .map(|_| take_varint(&mut rest))
            .collect::<Result<_, _>>()?;
        let columns = lengths
            .iter()
            .map(|l| take(&mut rest, usize::try_from(*l).map_err(|_| BadFrame)?));
        let columns = columns.collect::<Result<_, _>>()?;
        if rest.is_empty() {
            Ok(FrameColumns { rows, columns })
        } else {
            Err(BadFrame)
        }
    }

    /// Column `i` of integers.
    pub fn packed(&self, i: usize) -> Result<Packed<'a>, BadFrame> {
        Packed::parse(self.columns.get(i).ok_or(BadFrame)?, self.rows)
    }

    /// Appends column `i` of integers to `out`.
    pub fn ints(&self, i: usize, out: &mut Ints) -> Result<(), BadFrame> {
        self.packed(i)?.decode(out);
        Ok(())
    }

    /// Column `i` of texts. Appends its new texts to `words` and `seen`. Returns the index in `words` of each of the
    /// frame's texts, and the column of integers that index the frame's texts.
    pub fn packed_texts(
        &self,
        i: usize,
        words: &mut Vec<Vec<u8>>,
        seen: &mut HashMap<Vec<u8>, i64>,
    ) -> Result<(Vec<i64>, Packed<'a>), BadFrame> {
        let mut rest = *self.columns.get(i).ok_or(BadFrame)?;
        let mut map = Vec::new();
        for _ in 0..take_varint(&mut rest)? {
            let length = usize::try_from(take_varint(&mut rest)?).map_err(|_| BadFrame)?;
            let text = take(&mut rest, length)?;
            let index = seen.get(text).copied().unwrap_or_else(|| {
                let index = words.len() as i64;
                words.push(text.to_vec());
                seen.insert(text.to_vec(), index);
                index
            });
            map.push(index);
        }
        Ok((map, Packed::parse(rest, self.rows)?))
    }

    /// Appends column `i` of texts to `out`, whose dictionary `seen` indexes.
    pub fn texts(
        &self,
        i: usize,
        out: &mut Texts,
        seen: &mut HashMap<Vec<u8>, i64>,
    ) -> Result<(), BadFrame> {
        let (map, column) = self.packed_texts(i, &mut out.dictionary, seen)?;
        let before = out.index.len();
        column.decode(&mut out.index);
        let valid = out.index.valid.as_ref();
        for (row, v) in out.index.values.iter_mut().enumerate().skip(before) {
            if valid.is_none_or(|valid| valid[row]) {
                *v = usize::try_from(*v)
                    .ok()
                    .and_then(|i| map.get(i).copied())
                    .ok_or(BadFrame)?;
            }
        }
        Ok(())
    }

    /// Decodes all columns of `table`, except those not in `selected`, and trailing optional columns that an older
    /// writer did not have.
    pub fn decode(
        &self,
        table: Table,
        selected: impl Fn(usize) -> bool,
    ) -> Result<Vec<Column>, BadFrame> {
        let mut out = Vec::with_capacity(table.columns().len());
        for (i, def) in table.columns().iter().enumerate() {
            out.push(match def.kind {
                _ if !selected(i) || (i >= self.columns.len() && !def.required) => Column::Absent,
                Kind::Text => {
                    let mut texts = Texts::default();
                    self.texts(i, &mut texts, &mut HashMap::new())?;
                    Column::Texts(texts)
                }
                Kind::F64 | Kind::List => return Err(BadFrame),
                Kind::I32 | Kind::I64 => {
                    let mut ints = Ints::default();
                    self.ints(i, &mut ints)?;
                    Column::Ints(ints)
                }
            });
        }
        Ok(out)
    }
}

/// A column of integers as encoded in a frame.
pub(crate) struct Packed<'a> {
    pub rows: usize,
    mode: u8,
    width: usize,
    base: i64,
    /// One bit per row: whether it has a value.
    known: Option<&'a [u8]>,
    words: &'a [u8],
}

impl<'a> Packed<'a> {
    fn parse(column: &'a [u8], rows: usize) -> Result<Packed<'a>, BadFrame> {
        let mut rest = column;
        let tag = take(&mut rest, 1)?[0];
        let mut packed = Packed {
            rows,
            mode: tag & 0x70,
            width: 0,
            base: 0,
            known: None,
            words: &[],
        };
        if tag != ALL_NULL {
            packed.width = usize::from(tag & 0x0f);
            if !matches!(packed.mode, OFFSETS | DELTAS) || packed.width > 8 {
                return Err(BadFrame);
            }
            packed.base = unzigzag(take_varint(&mut rest)?);
            packed.known = if tag & HAS_NULLS != 0 {
                Some(take(&mut rest, rows.div_ceil(8))?)
            } else {
                None
            };
            packed.words = take(&mut rest, rows * packed.width)?;
        }
        if rest.is_empty() {
            Ok(packed)
        } else {
            Err(BadFrame)
        }
    }

    /// The common value of all rows, if they are equal and the encoding shows it.
    pub fn steady(&self) -> Option<Option<i64>> {
        match self.mode {
            ALL_NULL => Some(None),
            _ => (self.width == 0 && self.known.is_none()).then_some(Some(self.base)),
        }
    }

    /// Base value and the rows' offsets from it, if all rows have a value and each offset fits into a byte.
    pub fn byte_offsets(&self) -> Option<(i64, &'a [u8])> {
        (self.mode == OFFSETS && self.width == 1 && self.known.is_none())
            .then_some((self.base, self.words))
    }

    /// Appends the rows to `out`.
    pub fn decode(&self, out: &mut Ints) {
        let rows = self.rows;
        match self.mode {
            OFFSETS => get_fixed(self.words, self.width, rows, &mut out.values, |raw| {
                self.base.wrapping_add(raw as i64)
            }),
            DELTAS => {
                let mut previous = self.base;
                get_fixed(self.words, self.width, rows, &mut out.values, |raw| {
                    previous = previous.wrapping_add(unzigzag(raw));
                    previous
                });
            }
            _ => {
                out.values.resize(out.values.len() + rows, 0);
                return out.mark_tail(rows, std::iter::repeat_n(false, rows));
            }
        }
        match self.known {
            Some(bits) => out.mark_tail(rows, (0..rows).map(|i| bits[i / 8] & 1 << (i % 8) != 0)),
            None => out.mark_tail_valid(rows),
        }
    }
}

pub(crate) fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

pub(crate) fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

pub(crate) fn bytes_for(max: u64) -> usize {
    (64 - max.leading_zeros() as usize).div_ceil(8)
}

fn take_varint(rest: &mut &[u8]) -> Result<u64, BadFrame> {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        v |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(v);
        }
    }
    Err(BadFrame)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8], BadFrame> {
    let (head, tail) = rest.split_at_checked(n).ok_or(BadFrame)?;
    *rest = tail;
    Ok(head)
}

/// Appends `rows` values of `width` bytes each, converted by `value`. Common widths have separate loops, which the
/// compiler vectorises.
fn get_fixed(
    bytes: &[u8],
    width: usize,
    rows: usize,
    out: &mut Vec<i64>,
    value: impl FnMut(u64) -> i64,
) {
    match width {
        0 => out.extend(std::iter::repeat_n(0, rows).map(value)),
        1 => out.extend(words::<1>(bytes).map(value)),
        2 => out.extend(words::<2>(bytes).map(value)),
        3 => out.extend(words::<3>(bytes).map(value)),
        4 => out.extend(words::<4>(bytes).map(value)),
        5 => out.extend(words::<5>(bytes).map(value)),
        6 => out.extend(words::<6>(bytes).map(value)),
        7 => out.extend(words::<7>(bytes).map(value)),
        _ => out.extend(words::<8>(bytes).map(value)),
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<N>().0.iter().map(|chunk| {
        let mut word = [0; 8];
        word[..N].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::frame_encoder::FrameEncoder;
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[Option<i64>]) -> Ints {
        let mut e = FrameEncoder::default();
        let mut payload = Vec::new();
        e.options(values.iter().copied());
        e.finish(0, &mut payload);
        let mut out = Ints::default();
        let columns = FrameColumns::parse(&payload, values.len()).expect("parses");
        columns.ints(0, &mut out).expect("decodes");
        out
    }

    fn any_value() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -300i64..300,
            Just(i64::MIN),
            Just(i64::MAX),
            0i64..5_000_000_000
        ]
    }

    proptest! {
        #[test]
        fn any_column_comes_back(values in prop::collection::vec(prop::option::of(any_value()), 1..200)) {
            let out = round_trip(&values);
            prop_assert_eq!((0..values.len()).map(|i| out.get(i)).collect::<Vec<_>>(), values);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), rows in 0usize..70_000) {
            if let Ok(columns) = FrameColumns::parse(&bytes, rows) {
                for table in Table::ALL {
                    let _ = columns.decode(table, |_| true);
                }
            }
        }

        #[test]
        fn texts_come_back(words in prop::collection::vec(prop::option::of("[a-z]{0,3}"), 1..100)) {
            let mut e = FrameEncoder::default();
            let mut payload = Vec::new();
                e.texts(words.iter().map(|w| w.as_deref()), |w, out| out.extend_from_slice(w.as_bytes()));
            e.finish(0, &mut payload);
            let mut out = Texts::default();
            FrameColumns::parse(&payload, words.len()).expect("parses").texts(0, &mut out, &mut HashMap::new()).expect("decodes");
            for (i, w) in words.iter().enumerate() {
                prop_assert_eq!(out.get(i), w.as_deref().map(str::as_bytes));
            }
        }
    }

    #[test]
    fn a_steady_column_costs_next_to_nothing() {
        let mut e = FrameEncoder::default();
        e.ints(std::iter::repeat_n(4096, 4096));
        let mut payload = Vec::new();
        assert_eq!(e.finish(0, &mut payload), (4096, 4096));
        assert!(payload.len() < 8, "{} bytes", payload.len());
    }
}
