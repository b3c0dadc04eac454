//! Converts the frames of a finished segment to one Parquet file: one row group, ordered by time, with checksums.
//!
//! The pages of a segment carry Parquet's own checksums. These cover neither page headers nor the footer, and the
//! library's page writer (used for whole tables) does not write them at all. The footer's key-value list therefore has
//! two more: `iolens.chunk_crc32`, one CRC-32 per column chunk, and `iolens.footer_crc32`, that of the footer itself
//! with the eight digits of this value as zeros. Other readers ignore both.

use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;

use super::chunk::ChunkEncoder;
use super::frame::{BadFrame, FrameColumns};
use super::gather::Gatherer;
use super::schema::Table;

pub(crate) const CHUNK_CRC_KEY: &str = "iolens.chunk_crc32";
pub(crate) const FOOTER_CRC_KEY: &str = "iolens.footer_crc32";
/// First word of `created_by`. A file with this creator must have the checksums.
pub(crate) const CREATOR: &str = "iolens";
const NO_CRC: &str = "00000000";

/// Error: a segment could not be encoded. This is always a bug, never caused by input.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    #[error(transparent)]
    Frame(#[from] BadFrame),
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// Encodes segments as Parquet files, one after the other, reusing its buffers.
#[derive(Debug, Default)]
pub(crate) struct FileEncoder {
    gatherer: Gatherer,
    chunks: ChunkEncoder,
}

impl FileEncoder {
    /// Encodes `frames` (payloads and their rows), all of table `table`, as a Parquet file in `file`.
    pub fn encode<'a>(
        &mut self,
        table: Table,
        frames: impl Iterator<Item = (&'a [u8], usize)>,
        file: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let frames = frames.map(|(payload, rows)| FrameColumns::parse(payload, rows));
        let frames: Vec<FrameColumns<'_>> = frames.collect::<Result<_, _>>()?;
        file.clear();
        let mut writer =
            SerializedFileWriter::new(std::mem::take(file), table.parquet(), properties(table))?;
        self.put_columns(table, &frames, &mut writer)?;
        *file = with_checksums(writer)?;
        Ok(())
    }

    fn put_columns(
        &mut self,
        table: Table,
        frames: &[FrameColumns<'_>],
        writer: &mut SerializedFileWriter<Vec<u8>>,
    ) -> Result<(), EncodeError> {
        let order = self.gatherer.time_order(table, frames)?;
        let schema = writer.schema_descr().columns().to_vec();
        let mut group = writer.next_row_group()?;
        for (i, (def, descr)) in table.columns().iter().zip(schema).enumerate() {
            let column = self.gatherer.gather(i, def, frames, order.as_deref())?;
            let (bytes, close) = self.chunks.encode(def, descr, &column)?;
            group.append_column(&bytes, close)?;
            self.chunks.reuse(bytes);
        }
        group.close()?;
        Ok(())
    }
}

fn properties(table: Table) -> WriterPropertiesPtr {
    let order = SortingColumn {
        column_idx: table.time_column() as i32,
        descending: false,
        nulls_first: false,
    };
    let builder = WriterProperties::builder()
        .set_created_by(format!("{CREATOR} {}", env!("CARGO_PKG_VERSION")))
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(vec![order]));
    Arc::new(builder.build())
}

/// Finishes a file. Returns its bytes, with the checksums of its chunks and of its footer.
pub(crate) fn with_checksums(
    mut writer: SerializedFileWriter<Vec<u8>>,
) -> Result<Vec<u8>, ParquetError> {
    // Checksums are computed from the written bytes.
    writer.flush().map_err(ParquetError::from)?;
    let crcs = chunk_crcs(&writer);
    writer.append_key_value_metadata(KeyValue::new(CHUNK_CRC_KEY.to_owned(), crcs));
    writer.append_key_value_metadata(KeyValue::new(FOOTER_CRC_KEY.to_owned(), NO_CRC.to_owned()));
    let mut bytes = writer.into_inner()?;
    seal_footer(&mut bytes);
    Ok(bytes)
}

fn chunk_crcs(writer: &SerializedFileWriter<Vec<u8>>) -> String {
    let bytes = writer.inner();
    let chunks = writer.flushed_row_groups().iter().flat_map(|g| g.columns());
    let crcs = chunks.map(|c| {
        let (start, length) = c.byte_range();
        format!(
            "{:08x}",
            crc32fast::hash(&bytes[start as usize..(start + length) as usize])
        )
    });
    crcs.collect::<Vec<_>>().join(" ")
}

/// Fills in the footer's own checksum.
fn seal_footer(bytes: &mut [u8]) {
    let end = bytes.len() - 8;
    let mut length = [0; 4];
    length.copy_from_slice(&bytes[end..end + 4]);
    let footer = &mut bytes[end - u32::from_le_bytes(length) as usize..end];
    let crc = crc32fast::hash(footer);
    if let Some(at) = footer_crc_position(footer) {
        footer[at..at + 8].copy_from_slice(format!("{crc:08x}").as_bytes());
    }
}

/// Position of the eight digits of the footer's checksum: after the key, a field header and a length of one byte each.
pub(crate) fn footer_crc_position(footer: &[u8]) -> Option<usize> {
    let key = FOOTER_CRC_KEY.as_bytes();
    let at = footer.windows(key.len()).rposition(|w| w == key)? + key.len() + 2;
    (footer.len() >= at + 8).then_some(at)
}

/// Whether the footer is the one that was written: `None` if it carries no checksum of its own.
pub(crate) fn footer_is_whole(footer: &[u8]) -> Option<bool> {
    let at = footer_crc_position(footer)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&footer[..at]);
    hasher.update(NO_CRC.as_bytes());
    hasher.update(&footer[at + 8..]);
    Some(format!("{:08x}", hasher.finalize()).as_bytes() == &footer[at..at + 8])
}
