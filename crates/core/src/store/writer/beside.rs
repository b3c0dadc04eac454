//! Writes the additional tables of an always-on recorder: rollups, actors and devices. They are not in the write-ahead
//! log.

use std::path::Path;

use parquet::errors::ParquetError;

use super::super::error::StoreError;
use super::super::sums::{SumRow, encode_rows, file_name};
use super::super::tables::devices::{self, DEVICES_FILE, encode_devices};
use super::super::tables::findings::bytes_on_disk;
use super::super::tables::rollup::{self, encode_rollups};
use super::RecordingWriter;
use crate::model::{ActorSums, Rollup, WaitSums};

impl RecordingWriter {
    /// Writes rollups of one step, ordered by time, as a separate file; `false` if there is no space now.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write_rollups(&mut self, step_s: i32, rows: &[Rollup]) -> Result<bool, StoreError> {
        if rows.is_empty() {
            return Ok(true);
        }
        self.write_sums(rollup::TABLE.name, step_s, encode_rollups(rows))
    }

    /// Writes rows of actors like [`RecordingWriter::write_rollups`].
    ///
    /// # Errors
    /// As [`RecordingWriter::write_rollups`].
    pub fn write_actors(&mut self, step_s: i32, rows: &[ActorSums]) -> Result<bool, StoreError> {
        self.write_sum_rows(step_s, rows)
    }

    /// Writes rows of waits like [`RecordingWriter::write_rollups`].
    ///
    /// # Errors
    /// As [`RecordingWriter::write_rollups`].
    pub fn write_waits(&mut self, step_s: i32, rows: &[WaitSums]) -> Result<bool, StoreError> {
        self.write_sum_rows(step_s, rows)
    }

    fn write_sum_rows<R: SumRow>(&mut self, step_s: i32, rows: &[R]) -> Result<bool, StoreError> {
        if rows.is_empty() {
            return Ok(true);
        }
        self.write_sums(R::TABLE.name, step_s, encode_rows(rows))
    }

    fn write_sums(
        &mut self,
        table: &str,
        step_s: i32,
        bytes: Result<Vec<u8>, ParquetError>,
    ) -> Result<bool, StoreError> {
        let name = file_name(table, step_s, self.sum_files + 1);
        let bytes = bytes.map_err(|e| super::bug(&self.dir.path().join(&name), &e))?;
        let written = self.write_beside(table, &name, &bytes);
        if written.is_ok() {
            self.sum_files += 1;
            self.retention.add_beside(bytes.len() as u64);
        }
        self.tolerate_full_beside(written)
    }

    /// Rewrites the table of devices, if the options ask for one.
    pub(super) fn write_devices(&mut self) -> Result<(), StoreError> {
        if !self.options.devices_table {
            return Ok(());
        }
        let bytes = encode_devices(&self.meta.devices);
        let bytes = bytes.map_err(|e| super::bug(&self.dir.path().join(DEVICES_FILE), &e))?;
        let written = self.write_beside(devices::TABLE.name, DEVICES_FILE, &bytes);
        if written.is_ok() {
            self.retention
                .add_beside((bytes.len() as u64).saturating_sub(self.devices_bytes));
            self.devices_bytes = self.devices_bytes.max(bytes.len() as u64);
        }
        self.tolerate_full_beside(written).map(drop)
    }

    /// Measures the files that other components write into the recording, once a second, because the limit covers all
    /// files.
    pub(super) fn look_at_foreign(&mut self) {
        if self.options.devices_table
            && self.now_ns.saturating_sub(self.foreign_looked_ns) >= 1_000_000_000
        {
            self.foreign_looked_ns = self.now_ns;
            self.retention.foreign = bytes_on_disk(self.dir.path());
        }
    }

    fn write_beside(&mut self, table: &str, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.make_room(bytes.len() as u64)?;
        let made = self
            .dir
            .make_dir(table)
            .and_then(|()| self.dir.sync(Path::new(".")));
        made.map_err(|e| self.error(table, "create", e))?;
        self.dir
            .write_atomically(name, bytes)
            .map_err(|e| self.error(name, "write", e))
    }

    /// A full disk does not stop the recorder here, because these rows can be computed again.
    fn tolerate_full_beside(
        &mut self,
        written: Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        match written {
            Err(e) if e.is_no_space() => Ok(false),
            other => other.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{DevId, Device, Io, Op, RecorderCost, RecordingMeta, Source};
    use crate::rollup::{RollupBuilder, minutes};
    use crate::store::{Recording, RecordingWriter, WriterOptions, read_rollups};

    #[test]
    fn rollups_and_devices_stand_beside_the_ios_and_count_against_the_limit() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("r");
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.devices = vec![Device::named("sda", DevId(8))];
        let keep_bytes = Some(WriterOptions::MIN_KEEP);
        let options = WriterOptions {
            keep_bytes,
            devices_table: true,
            ..WriterOptions::default()
        };
        let mut writer = RecordingWriter::create(&path, meta, options).expect("creates");
        let mut builder = RollupBuilder::default();
        let ios: Vec<Io> = (0..200)
            .map(|s| {
                Io::new(
                    s * 1_000_000_000,
                    DevId(8),
                    Op::READ,
                    512,
                    Some(s),
                    7000 * s,
                )
            })
            .collect();
        ios.iter().for_each(|io| builder.push_ios(&[*io]));
        writer.push_ios(&ios).expect("writes");
        let rows = builder.finish();
        let before = writer.status().disk_bytes;
        assert!(writer.write_rollups(1, &rows).expect("writes"));
        assert!(writer.write_rollups(60, &minutes(&rows)).expect("writes"));
        assert!(writer.status().disk_bytes >= before + 4096, "{before}");
        assert!(writer.write_rollups(1, &[]).expect("nothing to write"));
        writer
            .finish(200_000_000_000, RecorderCost::default())
            .expect("finishes");
        let mut read = Vec::new();
        assert!(
            read_rollups(&path, 1, 0..i64::MAX, |r| read.push(r))
                .expect("reads")
                .is_empty()
        );
        assert!(read == rows && path.join("devices/000001.parquet").is_file());
        let recording = Recording::open(&path).expect("opens");
        assert!(
            recording.warnings().is_empty() && recording.ios_stored() == 200,
            "{:?}",
            recording.warnings()
        );
    }
}
