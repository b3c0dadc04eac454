//! Reads files of whole tables, and verifies the checksum of each column chunk before it is decoded.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length, RowGroupReader};
use parquet::file::serialized_reader::SerializedRowGroupReader;

use super::parquet_read::{
    ChunkBytes, ReadFailure, checked_range, first_bytes, read_chunk, read_footer,
};

/// An open file of a whole table, ours or foreign.
pub(super) struct WholeFile {
    meta: Arc<ParquetMetaData>,
    chunks: Arc<CheckedChunks>,
}

impl WholeFile {
    /// Reads the footer. Files of earlier versions and of other programs have no checksums.
    pub fn read(path: &Path, file: File) -> Result<WholeFile, ReadFailure> {
        let footer = read_footer(path, &file)?;
        // Damage to a key in the footer hides one of the two checksums, never both.
        if footer.has_own_crc != footer.crcs.is_some() {
            return Err(ReadFailure::Damage("the checksums are gone".to_owned()));
        }
        let meta = Arc::new(footer.meta);
        let chunks = CheckedChunks::new(path, file, Arc::clone(&meta), footer.crcs);
        Ok(WholeFile {
            meta,
            chunks: Arc::new(chunks),
        })
    }

    /// Its footer's metadata.
    pub fn meta(&self) -> &ParquetMetaData {
        &self.meta
    }

    /// One of its row groups.
    pub fn group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>, ParquetError> {
        let reader = SerializedRowGroupReader::new(
            Arc::clone(&self.chunks),
            self.meta.row_group(i),
            self.meta.page_index_for_row_group(i),
            Arc::new(ReaderProperties::builder().build()),
        )?;
        Ok(Box::new(reader))
    }
}

/// Where a chunk is, and which it is.
struct ChunkPlace {
    start: u64,
    group: usize,
    column: usize,
    crc: Option<u32>,
}

/// The column chunks of a file for the decoder, which asks for them page by page.
struct CheckedChunks {
    path: std::path::PathBuf,
    file: File,
    length: u64,
    meta: Arc<ParquetMetaData>,
    /// In the order of their places.
    places: Vec<ChunkPlace>,
    /// The chunk read last, because the decoder usually asks for its next page.
    newest: Mutex<Option<ChunkBytes>>,
}

impl CheckedChunks {
    fn new(
        path: &Path,
        file: File,
        meta: Arc<ParquetMetaData>,
        crcs: Option<Vec<u32>>,
    ) -> CheckedChunks {
        let mut places = Vec::new();
        let mut number = 0;
        for (group, row_group) in meta.row_groups().iter().enumerate() {
            for (column, chunk) in row_group.columns().iter().enumerate() {
                let crc = crcs.as_ref().map(|crcs| crcs[number]);
                number += 1;
                // A chunk with an invalid range is left out, and reading it later fails.
                if let Some((start, _)) = checked_range(chunk) {
                    places.push(ChunkPlace {
                        start,
                        group,
                        column,
                        crc,
                    });
                }
            }
        }
        places.sort_by_key(|place| place.start);
        CheckedChunks {
            path: path.to_owned(),
            length: file.metadata().map_or(0, |m| m.len()),
            file,
            meta,
            places,
            newest: Mutex::new(None),
        }
    }

    /// The bytes from `start` to the end of the chunk that holds it.
    fn tail(&self, start: u64) -> Result<Bytes, ParquetError> {
        // A decoder may have panicked while holding the lock; the chunk itself is intact.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = newest.as_ref().filter(|chunk| chunk.holds(start)) {
            return bytes.tail(start);
        }
        let after = self.places.partition_point(|place| place.start <= start);
        let Some(place) = after.checked_sub(1).map(|i| &self.places[i]) else {
            return Err(ParquetError::EOF(
                "a page outside of all columns".to_owned(),
            ));
        };
        let chunk_meta = self.meta.row_group(place.group).column(place.column);
        let chunk =
            read_chunk(&self.path, &self.file, chunk_meta, place.crc).map_err(|failure| {
                match failure {
                    ReadFailure::Damage(what) => ParquetError::General(what),
                    ReadFailure::Gone => {
                        ParquetError::General("it was removed meanwhile".to_owned())
                    }
                    ReadFailure::Fatal(e) => ParquetError::External(Box::new(e)),
                }
            })?;
        let bytes = chunk.tail(start)?;
        *newest = Some(chunk);
        Ok(bytes)
    }
}

impl Length for CheckedChunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for CheckedChunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.tail(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        first_bytes(&self.tail(start)?, length)
    }
}
