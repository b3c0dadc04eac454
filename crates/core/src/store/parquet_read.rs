//! Parquet files of a recording, ours or foreign: footer, checksums, and column chunks read one at a time.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use bytes::{Buf, Bytes};
use parquet::basic::{Compression, ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length, RowGroupReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::disk;
use super::error::StoreError;
use super::parquet_write::{CHUNK_CRC_KEY, CREATOR, footer_is_whole};
use super::schema::{ColumnDef, Kind, Table};

const MAGIC: &[u8; 4] = b"PAR1";
/// Number of bytes read first at the end of a file; our own footers fit.
const TAIL: u64 = 16 << 10;
/// Longer footers are not read.
const MAX_FOOTER: u64 = 256 << 20;
/// Longer column chunks are not read, nor chunks whose declared uncompressed size is larger.
const MAX_CHUNK: u64 = 1 << 30;

/// Why something could not be read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The bytes are not what was written; whatever else there is can be read.
    Damage(String),
    /// The file went away: the recording is being written, and retention removed it.
    Gone,
    /// Reading cannot continue.
    Fatal(StoreError),
}

impl From<ParquetError> for ReadFailure {
    fn from(e: ParquetError) -> ReadFailure {
        ReadFailure::Damage(e.to_string())
    }
}

thread_local! {
    /// Whether this thread runs inside [`guarded`], where panics are expected and their messages are suppressed.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the Parquet library on bytes without a checksum. The library can panic on malformed page headers or footers, as
/// fuzzing has shown; such a block is reported as damaged, like any other.
pub(crate) fn guarded<T>(
    decode: impl FnOnce() -> Result<T, ReadFailure>,
) -> Result<T, ReadFailure> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !DECODING.get() {
                before(info);
            }
        }));
    });
    let outer = DECODING.replace(true);
    // State left incomplete by a panic is dropped with the block.
    let result = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(outer);
    result.unwrap_or_else(|_| {
        Err(ReadFailure::Damage(
            "it makes no sense to the Parquet decoder".to_owned(),
        ))
    })
}

impl ReadFailure {
    /// A column that holds something else than the format says; `problem` follows its name in the message.
    pub fn bad_column(
        path: &Path,
        column: &'static str,
        problem: impl Into<String>,
    ) -> ReadFailure {
        ReadFailure::Fatal(StoreError::BadColumn {
            path: path.to_owned(),
            column,
            problem: problem.into(),
        })
    }

    /// Classifies an error of reading a file.
    pub fn io(path: &Path, e: io::Error) -> ReadFailure {
        match e.kind() {
            io::ErrorKind::NotFound => ReadFailure::Gone,
            io::ErrorKind::UnexpectedEof => ReadFailure::Damage("the file is cut".to_owned()),
            _ => ReadFailure::Fatal(StoreError::io(path, "read", e)),
        }
    }
}

/// A Parquet file whose footer has been read.
pub(crate) struct ParquetFile {
    pub path: PathBuf,
    pub table: Table,
    meta: ParquetMetaData,
    /// Leaf of each column of the table's schema.
    leaves: Vec<Option<usize>>,
    /// Our checksums of all chunks, row group by row group.
    crcs: Option<Vec<u32>>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl ParquetFile {
    /// Reads the footer and finds the table's columns.
    pub fn open(path: &Path, table: Table) -> Result<ParquetFile, ReadFailure> {
        guarded(|| Self::read(path, table))
    }

    fn read(path: &Path, table: Table) -> Result<ParquetFile, ReadFailure> {
        let file = disk::open_regular(path).map_err(|e| ReadFailure::io(path, e))?;
        let Footer {
            meta,
            crcs,
            has_own_crc,
            ..
        } = read_footer(path, &file)?;
        if written_by_iolens(&meta) && !(has_own_crc && crcs.is_some()) {
            return Err(ReadFailure::Damage("the checksums are gone".to_owned()));
        }
        let leaves = table
            .columns()
            .iter()
            .map(|def| find_column(path, &meta, def))
            .collect::<Result<_, _>>()?;
        let file = ParquetFile {
            path: path.to_owned(),
            table,
            meta,
            leaves,
            crcs,
        };
        // Rows with impossible times would fall outside of every range and be skipped silently.
        let time = &table.columns()[table.time_column()];
        let (least, most) = time.bounds(file.crcs.is_none());
        for group in 0..file.row_groups() {
            let Some((min, max)) = file.time_bounds(group) else {
                continue;
            };
            let problem = if min < least {
                format!(
                    "holds {min} in row group {group}: a time before the start of the recording"
                )
            } else if max > most {
                format!("holds {max} in row group {group}; it must not be above {most}")
            } else {
                continue;
            };
            return Err(ReadFailure::bad_column(path, time.name, problem));
        }
        Ok(file)
    }

    pub fn row_groups(&self) -> usize {
        self.meta.num_row_groups()
    }

    /// The checksums of all its column chunks; `None` of other programs' files.
    pub fn crcs(&self) -> Option<&[u32]> {
        self.crcs.as_deref()
    }

    fn group(&self, group: usize) -> &RowGroupMetaData {
        self.meta.row_group(group)
    }

    pub fn rows(&self, group: usize) -> usize {
        usize::try_from(self.group(group).num_rows()).unwrap_or(0)
    }

    /// First and last time of a row group as its statistics give them.
    pub fn time_bounds(&self, group: usize) -> Option<(i64, i64)> {
        let leaf = self.leaves[self.table.time_column()]?;
        match self.group(group).column(leaf).statistics()? {
            Statistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
            Statistics::Int32(s) => Some((i64::from(*s.min_opt()?), i64::from(*s.max_opt()?))),
            _ => None,
        }
    }

    /// Upper bound of the sum of `columns` in any row of a row group, from its statistics. A missing column adds
    /// nothing. `None` if a column has no statistics.
    pub fn most(&self, group: usize, columns: &[usize]) -> Option<i64> {
        let mut sum = 0_i64;
        for leaf in columns.iter().filter_map(|c| self.leaves[*c]) {
            let most = match self.group(group).column(leaf).statistics()? {
                Statistics::Int64(s) => *s.max_opt()?,
                Statistics::Int32(s) => i64::from(*s.max_opt()?),
                _ => return None,
            };
            sum = sum.checked_add(Some(most).filter(|m| *m >= 0)?)?;
        }
        Some(sum)
    }

    /// Opens the chunk of one column of the table, verified by its checksum if it has one.
    pub fn column(
        &self,
        file: &File,
        group: usize,
        column: usize,
    ) -> Result<Option<ColumnChunk>, ReadFailure> {
        let Some(leaf) = self.leaves[column] else {
            return Ok(None);
        };
        let meta = self.group(group).column(leaf);
        let index = group * self.group(group).num_columns() + leaf;
        let crc = self.crcs.as_ref().and_then(|c| c.get(index)).copied();
        let bytes = read_chunk(&self.path, file, meta, crc)?;
        let descr = meta.column_descr_ptr();
        let pages = SerializedPageReader::new(Arc::new(bytes), meta, self.rows(group), None)?;
        let pages: Box<dyn PageReader> = Box::new(pages);
        Ok(Some(ColumnChunk {
            nullable: descr.max_def_level() > 0,
            max_definition: descr.max_def_level(),
            unsigned: is_unsigned(meta),
            reader: get_column_reader(descr, pages),
            def: &self.table.columns()[column],
            foreign: self.crcs.is_none(),
            escaped: true,
            row: (0..group).map(|g| self.rows(g)).sum(),
        }))
    }
}

/// Like `ColumnChunkMetaData::byte_range`, which panics on negative numbers.
pub(crate) fn checked_range(meta: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let first = meta
        .dictionary_page_offset()
        .unwrap_or(meta.data_page_offset());
    Some((
        u64::try_from(first).ok()?,
        u64::try_from(meta.compressed_size()).ok()?,
    ))
}

/// Reads a column chunk and verifies its checksum, if it has one.
pub(crate) fn read_chunk(
    path: &Path,
    mut file: &File,
    meta: &ColumnChunkMetaData,
    crc: Option<u32>,
) -> Result<ChunkBytes, ReadFailure> {
    let file_len = file.metadata().map_err(|e| ReadFailure::io(path, e))?.len();
    if meta.compressed_size().max(meta.uncompressed_size()) > MAX_CHUNK as i64 {
        let what = format!(
            "column {} takes more than {} MiB in a row group",
            meta.column_path(),
            MAX_CHUNK >> 20
        );
        return Err(ReadFailure::Damage(what));
    }
    let (start, length) = checked_range(meta)
        .filter(|(s, l)| s.checked_add(*l).is_some_and(|e| e <= file_len))
        .ok_or_else(|| {
            ReadFailure::Damage(format!(
                "column {} is outside of the file",
                meta.column_path()
            ))
        })?;
    let mut bytes = vec![0; length as usize];
    file.seek(SeekFrom::Start(start))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(|e| ReadFailure::io(path, e))?;
    if crc.is_some_and(|expected| crc32fast::hash(&bytes) != expected) {
        return Err(ReadFailure::Damage(format!(
            "the checksum of column {} does not fit",
            meta.column_path()
        )));
    }
    Ok(ChunkBytes {
        start,
        bytes: Bytes::from(bytes),
    })
}

/// A file's footer, after its checksum was verified.
pub(crate) struct Footer {
    pub meta: ParquetMetaData,
    /// Our checksums of all chunks, row group by row group.
    pub crcs: Option<Vec<u32>>,
    pub has_own_crc: bool,
    /// Its length in the file.
    pub bytes: u64,
}

/// Reads the footer of a file.
pub(crate) fn read_footer(path: &Path, file: &File) -> Result<Footer, ReadFailure> {
    let footer = footer_bytes(file).map_err(|e| ReadFailure::io(path, e))?;
    let footer =
        footer.ok_or_else(|| ReadFailure::Damage("this is no whole Parquet file".to_owned()))?;
    let whole = footer_is_whole(&footer);
    if whole == Some(false) {
        return Err(ReadFailure::Damage(
            "the footer's checksum does not fit".to_owned(),
        ));
    }
    let meta = ParquetMetaDataReader::decode_metadata(&footer)?;
    Ok(Footer {
        crcs: chunk_crcs(&meta),
        meta,
        has_own_crc: whole.is_some(),
        bytes: footer.len() as u64,
    })
}

fn written_by_iolens(meta: &ParquetMetaData) -> bool {
    let created_by = meta.file_metadata().created_by();
    created_by.is_some_and(|c| c.starts_with(CREATOR))
}

/// The footer of a file, or `None` if it does not look like a Parquet file.
fn footer_bytes(mut file: &File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    let mut head = [0; 4];
    if length < 12 || file.read_exact(&mut head).is_err() || head != *MAGIC {
        return Ok(None);
    }
    let mut tail = read_tail(file, length, TAIL.min(length))?;
    let end = tail.len() - 8;
    let mut word = [0; 4];
    word.copy_from_slice(&tail[end..end + 4]);
    let footer = u64::from(u32::from_le_bytes(word));
    if tail[end + 4..] != *MAGIC || footer + 12 > length || footer > MAX_FOOTER {
        return Ok(None);
    }
    if footer + 8 > tail.len() as u64 {
        tail = read_tail(file, length, footer + 8)?;
    }
    tail.truncate(tail.len() - 8);
    Ok(Some(tail.split_off(tail.len() - footer as usize)))
}

fn read_tail(mut file: &File, length: u64, n: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; n as usize];
    file.seek(SeekFrom::Start(length - n))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn chunk_crcs(meta: &ParquetMetaData) -> Option<Vec<u32>> {
    let list = meta
        .file_metadata()
        .key_value_metadata()?
        .iter()
        .find(|kv| kv.key == CHUNK_CRC_KEY)?;
    let crcs: Vec<u32> = list
        .value
        .as_ref()?
        .split(' ')
        .map(|w| u32::from_str_radix(w, 16).ok())
        .collect::<Option<_>>()?;
    let chunks: usize = meta.row_groups().iter().map(|g| g.num_columns()).sum();
    (crcs.len() == chunks).then_some(crcs)
}

/// Finds the leaf column for `def` and checks that its type fits.
fn find_column(
    path: &Path,
    meta: &ParquetMetaData,
    def: &ColumnDef,
) -> Result<Option<usize>, ReadFailure> {
    let schema = meta.file_metadata().schema_descr();
    let leaf =
        (0..schema.num_columns()).find(|leaf| schema.column(*leaf).path().parts() == [def.name]);
    let Some(leaf) = leaf else {
        let missing = StoreError::MissingColumn {
            path: path.to_owned(),
            column: def.name,
        };
        return if def.required {
            Err(ReadFailure::Fatal(missing))
        } else {
            Ok(None)
        };
    };
    if let Some(problem) = type_problem(&schema.column(leaf), def.kind) {
        return Err(ReadFailure::bad_column(path, def.name, problem));
    }
    if let Some(codec) = unreadable_codec(meta, leaf) {
        let problem = format!(
            "is compressed with {codec}; write it with SNAPPY, ZSTD or without compression"
        );
        return Err(ReadFailure::bad_column(path, def.name, problem));
    }
    Ok(Some(leaf))
}

/// Why a leaf of this type cannot hold a column of `kind`.
fn type_problem(column: &ColumnDescriptor, kind: Kind) -> Option<String> {
    if let Some(unit) = column.logical_type_ref().and_then(coarse_unit) {
        return Some(format!(
            "is a time in {unit}, and it must hold nanoseconds since the start of the recording"
        ));
    }
    let fits = match kind {
        Kind::Text => column.physical_type() == Physical::BYTE_ARRAY,
        Kind::I32 | Kind::I64 => {
            matches!(column.physical_type(), Physical::INT32 | Physical::INT64)
        }
        // No table that is logged has one.
        Kind::F64 | Kind::List => false,
    };
    let is_plain = column.max_rep_level() == 0 && column.max_def_level() <= 1;
    if fits && is_plain {
        return None;
    }
    let expected = if kind == Kind::Text {
        "text (BYTE_ARRAY)"
    } else {
        "integers (INT32 or INT64)"
    };
    Some(format!(
        "is {}, and it must hold plain {expected}",
        column.physical_type()
    ))
}

/// The name of a codec of column `leaf` that is not supported here. Each row group may use another codec.
fn unreadable_codec(meta: &ParquetMetaData, leaf: usize) -> Option<String> {
    for group in meta.row_groups() {
        let Some(chunk) = group.columns().get(leaf) else {
            continue;
        };
        let codec = chunk.compression();
        if !is_readable(&codec) {
            // Without the level that follows in parentheses.
            let name = codec.to_string();
            return Some(name.split('(').next().unwrap_or_default().to_owned());
        }
    }
    None
}

/// Whether the codec is supported. Zstd and Snappy are what iolens and most others write; each further codec adds a
/// dependency.
fn is_readable(codec: &Compression) -> bool {
    matches!(
        codec,
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
    )
}

/// The unit of a logical type that is a time but not in nanoseconds.
fn coarse_unit(logical: &LogicalType) -> Option<&'static str> {
    let unit = match logical {
        LogicalType::Timestamp(t) => &t.unit,
        LogicalType::Time(t) => &t.unit,
        other => return matches!(other, LogicalType::Date).then_some("days"),
    };
    match unit {
        TimeUnit::MILLIS => Some("milliseconds"),
        TimeUnit::MICROS => Some("microseconds"),
        TimeUnit::NANOS => None,
    }
}

fn is_unsigned(meta: &ColumnChunkMetaData) -> bool {
    let descr = meta.column_descr();
    let logical = matches!(descr.logical_type_ref(), Some(LogicalType::Integer(i)) if !i.is_signed);
    let converted = descr.converted_type();
    logical
        || matches!(
            converted,
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        )
}

/// A column chunk, decoded batch by batch by [`super::parquet_column`].
pub(crate) struct ColumnChunk {
    pub reader: ColumnReader,
    pub nullable: bool,
    /// The definition level of values that are not null.
    pub max_definition: i16,
    pub unsigned: bool,
    pub def: &'static ColumnDef,
    /// The file was not written by iolens, so its values may be out of range.
    pub foreign: bool,
    /// Its texts are escaped by [`super::text::escape`].
    pub escaped: bool,
    /// Row of the file that comes next, from 0.
    pub row: usize,
}

impl ColumnChunk {
    /// The chunk of column `leaf` of a file that was written as a whole.
    pub fn of_whole_file(
        group: &dyn RowGroupReader,
        leaf: usize,
        def: &'static ColumnDef,
    ) -> Result<ColumnChunk, ParquetError> {
        let meta = group.metadata().column(leaf);
        let max_definition = meta.column_descr().max_def_level();
        Ok(ColumnChunk {
            reader: group.get_column_reader(leaf)?,
            nullable: max_definition > 0,
            max_definition,
            unsigned: is_unsigned(meta),
            def,
            foreign: false,
            escaped: false,
            row: 0,
        })
    }
}

/// The bytes of one column chunk under their offsets in the file.
pub(crate) struct ChunkBytes {
    start: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    /// Whether the byte at this offset of the file is in it.
    pub fn holds(&self, at: u64) -> bool {
        at >= self.start && at - self.start < self.bytes.len() as u64
    }

    /// Its bytes from this offset of the file on.
    pub fn tail(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        at.map(|at| self.bytes.slice(at..))
            .ok_or_else(|| ParquetError::EOF("a page outside of its column".to_owned()))
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.tail(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        first_bytes(&self.tail(start)?, length)
    }
}

/// The first `length` bytes of what is left of a column chunk.
pub(crate) fn first_bytes(tail: &Bytes, length: usize) -> Result<Bytes, ParquetError> {
    if length > tail.len() {
        return Err(ParquetError::EOF(
            "a page reaches beyond its column".to_owned(),
        ));
    }
    Ok(tail.slice(..length))
}
