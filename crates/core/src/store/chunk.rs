//! Writes one column of a segment as a Parquet column chunk: chooses the encoding from the values, and compresses and
//! checksums pages.

use std::fmt;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::dictionary::DictionaryPlaces;
use super::encoding::{self, Width, put_varint};
use super::frame::zigzag;
use super::gather::{Gathered, Values};
use super::schema::{ColumnDef, ColumnLayout, Kind};
use super::text;

/// Rows per page. With this size, one byte stream fills one zstd block (128 KiB), which then has statistics of its own.
/// On a sample this took 8.9 bytes per I/O; pages of half the size took 9.1, and of a quarter 9.4.
const PAGE_ROWS: usize = 128 << 10;
/// Rows in each of two samples that decide between the encodings of numbers without a dictionary.
const TRIAL_ROWS: usize = 4096;

/// Constants of the format: `Encoding` and `PageType` in `parquet.thrift`.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// Compression level of zstd. Levels 3 and 9 save 1 % of the bytes.
const LEVEL: i32 = 1;

/// Encodes column chunks one after the other, reusing its buffers.
#[derive(Default)]
pub(crate) struct ChunkEncoder {
    zstd: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    compressed: Vec<u8>,
    chunk: Vec<u8>,
    uncompressed: usize,
}

impl fmt::Debug for ChunkEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkEncoder").finish_non_exhaustive()
    }
}

impl ChunkEncoder {
    /// The chunk of `column`, to be appended to a row group.
    pub fn encode(
        &mut self,
        def: &ColumnDef,
        descr: ColumnDescPtr,
        column: &Gathered<'_>,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        self.zstd.set_compression_level(LEVEL)?;
        self.chunk.clear();
        self.uncompressed = 0;
        let mut meta = ColumnChunkMetaData::builder(descr);
        // A dictionary has the same bounds as its column, and fewer values.
        let (bounded, encodings) = match column.values {
            Values::Each(values) => (values, self.put_numbers(def, column, values)?),
            Values::Numbers(distinct, places) => {
                self.raw.clear();
                encoding::plain(distinct, width(def), &mut self.raw);
                (
                    distinct,
                    self.put_places(def, column, distinct.len(), places)?,
                )
            }
            Values::Words(words, places) => {
                self.raw.clear();
                put_words(words, &mut self.raw);
                (&[][..], self.put_places(def, column, words.len(), places)?)
            }
        };
        let nulls = column
            .valid
            .map_or(0, |valid| valid.iter().filter(|v| !**v).count());
        if let Some(statistics) = bounds(def, bounded, nulls) {
            meta = meta.set_statistics(statistics);
        }
        let rows = column.rows;
        let dictionary = encodings.dictionary_bytes;
        let data = std::mem::take(&mut self.chunk);
        let metadata = meta
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_encodings(vec![Encoding::RLE, Encoding::PLAIN, encodings.data])
            .set_num_values(rows as i64)
            .set_total_compressed_size(data.len() as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset((dictionary > 0).then_some(0))
            .set_data_page_offset(dictionary as i64)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: data.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((data.into(), close))
    }

    /// Takes back the memory of a chunk that is no longer needed.
    pub fn reuse(&mut self, chunk: Bytes) {
        self.chunk = chunk.into();
    }

    fn put_numbers(
        &mut self,
        def: &ColumnDef,
        column: &Gathered<'_>,
        values: &[i64],
    ) -> Result<Encodings, ParquetError> {
        let width = width(def);
        let data = match def.layout {
            ColumnLayout::Time => Encoding::DELTA_BINARY_PACKED,
            _ => self.better_encoding(values, width)?,
        };
        self.put_pages(def, column, data, |page, out| {
            numbers(data, &values[page], width, out)
        })?;
        Ok(Encodings {
            data,
            dictionary_bytes: 0,
        })
    }

    /// Writes a dictionary, whose `n` values are in `raw`, and pages of indices into it.
    fn put_places(
        &mut self,
        def: &ColumnDef,
        column: &Gathered<'_>,
        n: usize,
        places: &DictionaryPlaces,
    ) -> Result<Encodings, ParquetError> {
        let dictionary_bytes = self.put_dictionary(n)?;
        let data = Encoding::RLE_DICTIONARY;
        self.put_pages(def, column, data, |page, out| {
            encoding::dictionary_places(places.of(page), out)
        })?;
        Ok(Encodings {
            data,
            dictionary_bytes,
        })
    }

    fn put_dictionary(&mut self, values: usize) -> Result<usize, ParquetError> {
        self.put_page(|out| {
            // DictionaryPageHeader is field 7 of PageHeader, three after the checksum.
            out.push(0x3c);
            put_i32(out, values as i32);
            put_i32(out, PLAIN);
            out.push(0);
        })?;
        Ok(self.chunk.len())
    }

    /// Writes data pages. `values` appends the encoded values of `page`, a range of the non-null values.
    fn put_pages(
        &mut self,
        def: &ColumnDef,
        column: &Gathered<'_>,
        data: Encoding,
        values: impl Fn(std::ops::Range<usize>, &mut Vec<u8>),
    ) -> Result<(), ParquetError> {
        let mut row = 0;
        let mut value = 0;
        while row < column.rows {
            let end = column.rows.min(row + PAGE_ROWS);
            let valid = column.valid.map(|v| &v[row..end]);
            let count = valid.map_or(end - row, |v| v.iter().filter(|v| **v).count());
            self.raw.clear();
            if !def.required {
                encoding::definition_levels(valid, end - row, &mut self.raw);
            }
            values(value..value + count, &mut self.raw);
            self.put_page(|out| {
                // DataPageHeader is field 5 of PageHeader, right after the checksum.
                out.push(0x1c);
                [(end - row) as i32, number(data), RLE, RLE]
                    .into_iter()
                    .for_each(|v| put_i32(out, v));
                out.push(0);
            })?;
            row = end;
            value += count;
        }
        Ok(())
    }

    /// Compresses the content of `raw` and appends it as a page; `specific` writes the part of the header that
    /// depends on the page's type.
    fn put_page(&mut self, specific: impl Fn(&mut Vec<u8>)) -> Result<(), ParquetError> {
        self.compressed.clear();
        self.compressed
            .reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        self.zstd
            .compress_to_buffer(&self.raw, &mut self.compressed)?;
        let start = self.chunk.len();
        let mut body = Vec::with_capacity(16);
        specific(&mut body);
        let page_type = if body[0] == 0x3c {
            DICTIONARY_PAGE
        } else {
            DATA_PAGE
        };
        let crc = crc32fast::hash(&self.compressed) as i32;
        for v in [
            page_type,
            self.raw.len() as i32,
            self.compressed.len() as i32,
            crc,
        ] {
            put_i32(&mut self.chunk, v);
        }
        self.chunk.extend_from_slice(&body);
        self.chunk.push(0);
        self.uncompressed += self.chunk.len() - start + self.raw.len();
        self.chunk.extend_from_slice(&self.compressed);
        Ok(())
    }

    /// Chooses the smaller of two encodings for numbers with many distinct values, by encoding two samples. Byte stream
    /// split is smaller for interleaved streams and durations, because bytes of equal significance compress well
    /// together; deltas are smaller for a single sequential stream.
    fn better_encoding(&mut self, values: &[i64], width: Width) -> Result<Encoding, ParquetError> {
        let middle = values.len() / 2;
        let stretches = [values, &values[middle..]].map(|v| &v[..v.len().min(TRIAL_ROWS)]);
        let mut sizes = [0; 2];
        for (size, trial) in sizes
            .iter_mut()
            .zip([Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT])
        {
            for stretch in stretches {
                self.raw.clear();
                numbers(trial, stretch, width, &mut self.raw);
                self.compressed.clear();
                self.compressed
                    .reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
                *size += self
                    .zstd
                    .compress_to_buffer(&self.raw, &mut self.compressed)?;
            }
        }
        Ok(if sizes[1] < sizes[0] {
            Encoding::BYTE_STREAM_SPLIT
        } else {
            Encoding::DELTA_BINARY_PACKED
        })
    }
}

struct Encodings {
    data: Encoding,
    dictionary_bytes: usize,
}

fn number(encoding: Encoding) -> i32 {
    match encoding {
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::RLE_DICTIONARY => 8,
        Encoding::BYTE_STREAM_SPLIT => 9,
        _ => PLAIN,
    }
}

fn numbers(encoding: Encoding, values: &[i64], width: Width, out: &mut Vec<u8>) {
    match encoding {
        Encoding::DELTA_BINARY_PACKED => encoding::delta_binary_packed(values, width, out),
        _ => encoding::byte_stream_split(values, width, out),
    }
}

fn width(def: &ColumnDef) -> Width {
    if def.kind == Kind::I32 {
        Width::Four
    } else {
        Width::Eight
    }
}

/// PLAIN texts.
fn put_words(words: &[Vec<u8>], out: &mut Vec<u8>) {
    for word in words {
        let word = text::escape(word);
        out.extend_from_slice(&(word.len() as u32).to_le_bytes());
        out.extend_from_slice(&word);
    }
}

fn bounds(def: &ColumnDef, values: &[i64], nulls: usize) -> Option<Statistics> {
    let first = *values.first()?;
    let (min, max) = values
        .iter()
        .fold((first, first), |(min, max), v| (min.min(*v), max.max(*v)));
    let nulls = Some(nulls as u64);
    Some(match def.kind {
        Kind::I32 => Statistics::int32(Some(min as i32), Some(max as i32), None, nulls, false),
        _ => Statistics::int64(Some(min), Some(max), None, nulls, false),
    })
}

/// An i32 as the next field of a Thrift struct in the compact protocol.
fn put_i32(out: &mut Vec<u8>, v: i32) {
    out.push(0x15);
    put_varint(out, zigzag(v.into()));
}
