//! Encodes [frames](super::frame). Rows are split into columns as they arrive, a few at a time, so that each row is
//! read while it is in the cache.

use std::collections::HashMap;

use super::column_buffer::ColumnBuffer;
use super::encoding::put_varint;
use super::row::Row;

/// Rows that are split into columns at a time; about 20 KiB of I/Os.
const ROWS_AT_ONCE: usize = 128;

/// Gathers rows of one table and encodes them into the payload of a frame, reusing its buffers.
#[derive(Debug, Default)]
pub(crate) struct FrameEncoder {
    columns: Vec<EncodedColumn>,
    /// Number of the column whose values come next; the number of columns at the end.
    next: usize,
    indices: Vec<Option<i64>>,
    body: Vec<u8>,
    lengths: Vec<u32>,
}

#[derive(Debug, Default)]
struct EncodedColumn {
    buffer: ColumnBuffer,
    /// For a text column: the words that the buffer's values index.
    words: Option<Words>,
}

impl FrameEncoder {
    /// Adds rows to the frame.
    pub fn push<R: Row>(&mut self, rows: &[R]) {
        for few in rows.chunks(ROWS_AT_ONCE) {
            self.next = 0;
            R::encode(few, self);
        }
    }

    /// How many rows were added since the last frame.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.buffer.rows())
    }

    /// Appends the payload of a frame of all rows to `out`, and starts the next frame. Returns the smallest and the
    /// largest value of column `time`.
    pub fn finish(&mut self, time: usize, out: &mut Vec<u8>) -> (i64, i64) {
        self.body.clear();
        self.lengths.clear();
        let mut times = None;
        for (i, column) in self.columns[..self.next].iter_mut().enumerate() {
            let at = self.body.len();
            if let Some(words) = column.words.take() {
                words.encode(&mut self.body);
            }
            let bounds = column.buffer.encode(&mut self.body);
            column.buffer.clear();
            times = if i == time { bounds } else { times };
            self.lengths.push((self.body.len() - at) as u32);
        }
        self.next = 0;
        put_varint(out, self.lengths.len() as u64);
        for length in &self.lengths {
            put_varint(out, u64::from(*length));
        }
        out.extend_from_slice(&self.body);
        times.unwrap_or((0, 0))
    }

    /// Values of the next column, which has no nulls.
    #[inline]
    pub fn ints(&mut self, values: impl ExactSizeIterator<Item = i64> + Clone) {
        self.next_column().buffer.append(values.map(Some));
    }

    /// Values of the next column, which may have nulls.
    #[inline]
    pub fn options(&mut self, values: impl ExactSizeIterator<Item = Option<i64>> + Clone) {
        self.next_column().buffer.append(values);
    }

    /// Texts of the next column. `write` appends the text of a key.
    pub fn texts<K: Copy + Eq>(
        &mut self,
        values: impl ExactSizeIterator<Item = Option<K>> + Clone,
        write: impl Fn(&K, &mut Vec<u8>),
    ) {
        let mut indices = std::mem::take(&mut self.indices);
        let EncodedColumn { buffer, words } = self.next_column();
        let words = words.get_or_insert_default();
        let first = values.clone().next().flatten();
        if values.clone().all(|v| v == first) {
            let index = first.map(|key| words.index(&key, &write));
            buffer.append(std::iter::repeat_n(index, values.len()));
        } else {
            let mut near = Near::default();
            indices.clear();
            indices.extend(
                values.map(|v| v.map(|key| near.index(key, |key| words.index(key, &write)))),
            );
            buffer.append(indices.iter().copied());
        }
        self.indices = indices;
    }

    fn next_column(&mut self) -> &mut EncodedColumn {
        if self.next == self.columns.len() {
            self.columns.push(EncodedColumn::default());
        }
        self.next += 1;
        &mut self.columns[self.next - 1]
    }
}

/// A cache of the last few keys and their indices. Names repeat, and comparing keys is cheaper than writing their text.
struct Near<K> {
    known: [Option<(K, i64)>; 8],
    last: usize,
    oldest: usize,
}

impl<K: Copy> Default for Near<K> {
    fn default() -> Self {
        Near {
            known: [None; 8],
            last: 0,
            oldest: 0,
        }
    }
}

impl<K: Copy + Eq> Near<K> {
    fn index(&mut self, key: K, look_up: impl FnOnce(&K) -> i64) -> i64 {
        if let Some((last, index)) = self.known[self.last]
            && last == key
        {
            return index;
        }
        for (at, known) in self.known.iter().enumerate() {
            if let Some((known, index)) = *known
                && known == key
            {
                self.last = at;
                return index;
            }
        }
        // On a miss, look the key up and replace the entry that was added first.
        let index = look_up(&key);
        self.last = self.oldest;
        self.oldest = (self.oldest + 1) % self.known.len();
        self.known[self.last] = Some((key, index));
        index
    }
}

/// The different texts of a column, numbered in order of first appearance.
#[derive(Debug, Default)]
struct Words {
    numbers: HashMap<Vec<u8>, i64>,
    /// All texts with their lengths, in the encoding of a frame.
    encoded: Vec<u8>,
    text: Vec<u8>,
}

impl Words {
    fn index<K>(&mut self, key: &K, write: impl Fn(&K, &mut Vec<u8>)) -> i64 {
        self.text.clear();
        write(key, &mut self.text);
        if let Some(number) = self.numbers.get(&self.text) {
            return *number;
        }
        let number = self.numbers.len() as i64;
        put_varint(&mut self.encoded, self.text.len() as u64);
        self.encoded.extend_from_slice(&self.text);
        self.numbers.insert(self.text.clone(), number);
        number
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.numbers.len() as u64);
        out.extend_from_slice(&self.encoded);
    }
}
