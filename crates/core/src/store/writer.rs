//! Writes a recording: rows become frames in the log, full segments become Parquet files.

mod beside;
mod finish;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::disk;
use super::error::StoreError;
use super::frame::FrameColumns;
use super::frame_encoder::FrameEncoder;
use super::meta_file;
use super::open_requests;
use super::options::WriterOptions;
use super::parquet_write::FileEncoder;
use super::repeats::Repeats;
use super::retention::{Retention, RetentionLimits};
use super::row::Row;
use super::schema::Table;
use super::segment::{self, ClosedSegment, Segment, Totals};
use super::tally::Tally;
use super::wal::{self, FRAME_HEADER, WalFile};
use crate::model::{
    CgroupSample, CounterSample, Device, Io, LossReason, Lost, Mark, Name, Observation,
    PressureSample, RecordingMeta, Request, Settings,
};
use crate::private::PrivateDir;

/// Writes one recording. Everything runs in the caller's thread: see [`RecordingWriter::tick`].
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PrivateDir,
    meta: RecordingMeta,
    options: WriterOptions,
    limits: RetentionLimits,
    /// I/Os that are not in a frame yet, as columns, and their sums.
    ios: FrameEncoder,
    ios_totals: Totals,
    /// Rows of other tables that are not in a frame yet.
    counters: Vec<CounterSample>,
    lost: Vec<Lost>,
    marks: Vec<Mark>,
    requests: Vec<Request>,
    names: Vec<Name>,
    pressure: Vec<PressureSample>,
    cgroups: Vec<CgroupSample>,
    repeats: Repeats,
    segments: [Segment; Table::COUNT],
    /// Which tables have their directory.
    tables: [bool; Table::COUNT],
    retention: Retention,
    /// Size of the last snapshot of open requests.
    open_bytes: u64,
    /// Number of files of rollups and actors so far, and size of the table of devices.
    sum_files: u32,
    devices_bytes: u64,
    encoder: FrameEncoder,
    /// Buffers for the frame and for the file to write next.
    buffer: Vec<u8>,
    file: Vec<u8>,
    files: FileEncoder,
    now_ns: i64,
    synced_ns: i64,
    foreign_looked_ns: i64,
    /// Time of the last attempt to write to a full disk; `None` if the disk is not full.
    full_since_try_ns: Option<i64>,
    unwritten: Tally,
    ios_written: u64,
    ios_lost: u64,
    ios_unwritten: u64,
    requests_unwritten: u64,
}

/// Interval at which writing to a full disk is tried again.
const RETRY_NS: i64 = 1_000_000_000;
/// Bytes reserved inside the recording, so that the end can be written on a full disk.
const RESERVE: usize = 64 << 10;
const RESERVE_NAME: &str = "wal/reserve";
/// The directory of the logs.
const WAL: &str = "wal";
/// Marks kept in memory while the disk is full.
const MARKS_WAITING: usize = 1024;
/// Names kept in memory while the disk is full.
const NAMES_WAITING: usize = 4096;

impl RecordingWriter {
    /// Creates the directory `dir` and its first files. On failure everything is removed again.
    pub fn create(
        dir: &Path,
        meta: RecordingMeta,
        options: WriterOptions,
    ) -> Result<RecordingWriter, StoreError> {
        if !RecordingMeta::STARTS_UNIX_NS.contains(&meta.start_unix_ns) {
            return Err(StoreError::BadStart {
                path: dir.to_owned(),
                start_unix_ns: meta.start_unix_ns,
            });
        }
        if let Some(keep) = options.keep_bytes.filter(|k| *k < WriterOptions::MIN_KEEP) {
            return Err(StoreError::KeepTooSmall {
                keep,
                least: WriterOptions::MIN_KEEP,
            });
        }
        let created = PrivateDir::create(dir, options.access).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => StoreError::Exists {
                path: dir.to_owned(),
            },
            _ => StoreError::io(dir, "create", e),
        })?;
        let laid_out = Self::lay_out(&created, &meta);
        let meta_bytes = laid_out.inspect_err(|_| drop(fs::remove_dir_all(dir)))?;
        let limits = RetentionLimits::new(&options);
        let retention = Retention::new(options.keep_bytes, meta_bytes, RESERVE as u64);
        if let Err(e) = retention.fits(limits.largest_file) {
            let _ = fs::remove_dir_all(dir);
            return Err(e);
        }
        let mut writer = RecordingWriter {
            dir: created,
            meta,
            options,
            limits,
            ios: FrameEncoder::default(),
            ios_totals: Totals::default(),
            counters: Vec::new(),
            lost: Vec::new(),
            marks: Vec::new(),
            requests: Vec::new(),
            names: Vec::new(),
            pressure: Vec::new(),
            cgroups: Vec::new(),
            repeats: Repeats::default(),
            segments: Table::ALL.map(|t| Segment::new(t, 1)),
            tables: [false; Table::COUNT],
            retention,
            open_bytes: 0,
            sum_files: 0,
            devices_bytes: 0,
            encoder: FrameEncoder::default(),
            buffer: Vec::new(),
            file: Vec::new(),
            files: FileEncoder::default(),
            now_ns: 0,
            synced_ns: 0,
            foreign_looked_ns: 0,
            full_since_try_ns: None,
            unwritten: Tally::default(),
            ios_written: 0,
            ios_lost: 0,
            ios_unwritten: 0,
            requests_unwritten: 0,
        };
        writer.write_devices()?;
        Ok(writer)
    }

    fn lay_out(dir: &PrivateDir, meta: &RecordingMeta) -> Result<u64, StoreError> {
        dir.make_dir(WAL)
            .map_err(|e| StoreError::io(&dir.path().join(WAL), "create", e))?;
        let reserved = dir.write_atomically(RESERVE_NAME, &vec![0; RESERVE]);
        reserved.map_err(|e| StoreError::io(&dir.path().join(RESERVE_NAME), "write", e))?;
        meta_file::write(dir, meta)
    }

    /// Adds completed I/Os, preferably in order of completion. This is the hot path: no system call until a frame is
    /// full.
    pub fn push_ios(&mut self, ios: &[Io]) -> Result<(), StoreError> {
        let mut rest = ios;
        while !rest.is_empty() {
            if self.full_since_try_ns.is_some() {
                self.count_unwritten(rest);
                return Ok(());
            }
            let (now, later) =
                rest.split_at(rest.len().min(self.limits.frame_rows - self.ios.rows()));
            self.ios.push(now);
            self.ios_totals.add_ios(now);
            rest = later;
            if self.ios.rows() == self.limits.frame_rows {
                self.flush_ios()?;
            }
        }
        Ok(())
    }

    /// Adds any observation. Counters equal to the device's previous ones are skipped, except for the last of a run.
    pub fn push(&mut self, o: &Observation) -> Result<(), StoreError> {
        match o {
            Observation::Io(io) => return self.push_ios(std::slice::from_ref(io)),
            Observation::Counters(sample) => self.repeats.push(sample, &mut self.counters),
            Observation::Lost(lost) => {
                if lost.reason.is_loss() {
                    self.ios_lost += lost.ios.unwrap_or(0).max(0) as u64;
                }
                self.lost.push(*lost);
            }
            Observation::Mark(mark) => self.marks.push(mark.clone()),
            Observation::Name(name) => self.names.push(name.clone()),
            Observation::Pressure(sample) => self.pressure.push(*sample),
            Observation::Cgroup(sample) => self.cgroups.push((**sample).clone()),
            Observation::Request(request) => self.requests.push((**request).clone()),
        }
        let rest = [
            self.counters.len(),
            self.lost.len(),
            self.marks.len(),
            self.requests.len(),
            self.names.len(),
            self.pressure.len(),
            self.cgroups.len(),
        ];
        let waiting = rest.into_iter().max().unwrap_or(0);
        if waiting >= self.limits.frame_rows {
            self.flush_rest()
        } else {
            Ok(())
        }
    }

    /// Writes what was pushed to the log, so that a killed process loses nothing older. Syncs, closes segments and
    /// retries a full disk when due. Call it after every push or within 200 ms, and at least once a second, with the
    /// time since the recording's start.
    pub fn tick(&mut self, now_ns: i64) -> Result<(), StoreError> {
        self.now_ns = now_ns;
        if let Some(tried) = self.full_since_try_ns {
            if now_ns.saturating_sub(tried) < RETRY_NS {
                return Ok(());
            }
            self.resume()?;
        }
        self.look_at_foreign();
        self.flush_ios()?;
        self.flush_rest()?;
        if now_ns.saturating_sub(self.synced_ns) >= self.options.sync_interval_ns {
            self.synced_ns = now_ns;
            self.sync()?;
        }
        for table in Table::ALL {
            let s = &self.segments[table as usize - 1];
            let age = now_ns.saturating_sub(s.opened_ns);
            let worth =
                age >= self.options.segment_age_ns && s.rows >= self.options.segment_min_rows;
            if s.rows > 0 && (worth || age >= self.options.segment_max_age_ns) {
                let closed = self.close_segment(table);
                self.tolerate_full(closed)?;
            }
        }
        Ok(())
    }

    /// Stores the open requests with their sums so far and replaces the previous snapshot. They are used if this
    /// process is killed. On a full disk the old snapshot stays; this is not an error.
    pub fn set_open_requests(&mut self, open: &[Request]) -> Result<(), StoreError> {
        if self.full_since_try_ns.is_some() {
            return Ok(());
        }
        let bytes = open_requests::encode(open, &mut self.encoder);
        let written = self.make_room(bytes.len() as u64).and_then(|()| {
            open_requests::replace(&self.dir, &bytes).map_err(|e| self.error(WAL, "write to", e))
        });
        if written.is_ok() {
            self.open_bytes = bytes.len() as u64;
        }
        self.tolerate_full(written)
    }

    /// The devices of the recording.
    pub fn devices(&self) -> &[Device] {
        &self.meta.devices
    }

    /// Replaces the list of devices and writes the description.
    pub fn set_devices(&mut self, devices: Vec<Device>) -> Result<(), StoreError> {
        self.meta.devices = devices;
        self.write_devices()?;
        self.write_meta()
    }

    /// Replaces the machine's settings, and writes the description if they have changed.
    pub fn set_settings(&mut self, settings: Settings) -> Result<(), StoreError> {
        if self.meta.settings.as_ref() == Some(&settings) {
            return Ok(());
        }
        self.meta.settings = Some(settings);
        self.write_meta()
    }

    /// Rewrites `meta.json`. On a full disk the old one stays; this is not an error.
    pub fn write_meta(&mut self) -> Result<(), StoreError> {
        self.retention.meta_bytes = self
            .retention
            .meta_bytes
            .max(meta_file::encode(&self.meta).len() as u64);
        let room = self.make_room(0);
        let written = room
            .and_then(|()| meta_file::write(&self.dir, &self.meta))
            .map(|bytes| self.retention.meta_bytes = bytes);
        self.tolerate_full(written)
    }

    fn flush_ios(&mut self) -> Result<(), StoreError> {
        let rows = self.ios.rows();
        if rows == 0 {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.buffer);
        let times = wal::finish_frame(Table::Io, &mut self.ios, &mut frame);
        let totals = std::mem::take(&mut self.ios_totals);
        match self.append(Table::Io, &mut frame, rows, times) {
            Ok(()) => {
                self.ios_written += rows as u64;
                self.segments[Table::Io as usize - 1].totals.add(totals);
            }
            Err(e) => {
                self.count_unwritten(&self.ios_of(&frame[FRAME_HEADER..], rows)?);
                self.tolerate_full(Err(e))?;
            }
        }
        self.buffer = frame;
        self.close_if_large(Table::Io)
    }

    /// Decodes the I/Os of a frame that could not be stored.
    fn ios_of(&self, payload: &[u8], rows: usize) -> Result<Vec<Io>, StoreError> {
        let columns =
            FrameColumns::parse(payload, rows).and_then(|c| c.decode(Table::Io, |_| true));
        let columns = columns.map_err(|e| bug(&self.dir.path().join(WAL), &e))?;
        let mut ios = Vec::new();
        Io::assemble_all(&columns, rows, &mut ios);
        Ok(ios)
    }

    fn flush_rest(&mut self) -> Result<(), StoreError> {
        // Counters that cannot be stored only make the interval between two samples longer.
        let counters = std::mem::take(&mut self.counters);
        let (_, written) = self.write_rows(&counters);
        self.tolerate_full(written)?;
        // Pressure while the disk was full is not known afterwards.
        let pressure = std::mem::take(&mut self.pressure);
        let (_, written) = self.write_rows(&pressure);
        self.tolerate_full(written)?;
        // The next sample of a control group has the same limits; only the waiting times in between are lost.
        let cgroups = std::mem::take(&mut self.cgroups);
        let (_, written) = self.write_rows(&cgroups);
        self.tolerate_full(written)?;
        let requests = std::mem::take(&mut self.requests);
        let (n, written) = self.write_rows(&requests);
        self.unwritten_requests(&requests[n..]);
        self.tolerate_full(written)?;
        let lost = std::mem::take(&mut self.lost);
        let (n, written) = self.write_rows(&lost);
        self.segments[Table::Lost as usize - 1]
            .totals
            .add_removed(&lost[..n]);
        lost[n..].iter().for_each(|l| self.unwritten.add(l));
        self.tolerate_full(written)?;
        let mut marks = std::mem::take(&mut self.marks);
        let (n, written) = self.write_rows(&marks);
        marks.drain(..n);
        marks.truncate(MARKS_WAITING);
        self.marks = marks;
        self.tolerate_full(written)?;
        let mut names = std::mem::take(&mut self.names);
        let (n, written) = self.write_rows(&names);
        names.drain(..n);
        names.truncate(NAMES_WAITING);
        self.names = names;
        self.tolerate_full(written)?;
        Table::OTHERS
            .into_iter()
            .try_for_each(|t| self.close_if_large(t))
    }

    /// Writes `rows` in frames. Returns how many were written before an error.
    fn write_rows<R: Row>(&mut self, rows: &[R]) -> (usize, Result<(), StoreError>) {
        let mut done = 0;
        for chunk in rows.chunks(self.limits.frame_rows) {
            if let Err(e) = self.write_frame(chunk) {
                return (done, Err(e));
            }
            done += chunk.len();
        }
        (done, Ok(()))
    }

    fn write_frame<R: Row>(&mut self, rows: &[R]) -> Result<(), StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let times = wal::encode_frame(rows, &mut self.encoder, &mut buffer);
        let written = self.append(R::TABLE, &mut buffer, rows.len(), times);
        self.buffer = buffer;
        written
    }

    fn append(
        &mut self,
        table: Table,
        frame: &mut [u8],
        rows: usize,
        times: (i64, i64),
    ) -> Result<(), StoreError> {
        self.make_room(frame.len() as u64)?;
        let segment = &mut self.segments[table as usize - 1];
        let appended = segment.append(&self.dir, frame, rows, times, self.now_ns);
        appended.map_err(|e| self.error(WAL, "write to", e))
    }

    fn close_if_large(&mut self, table: Table) -> Result<(), StoreError> {
        let s = &self.segments[table as usize - 1];
        let rows = if table == Table::Io {
            self.options
                .segment_rows
                .min(WriterOptions::MAX_SEGMENT_ROWS)
        } else {
            self.limits.other_rows
        };
        if s.rows < rows && s.wal_bytes() < self.limits.wal_bytes(table) {
            return Ok(());
        }
        let closed = self.close_segment(table);
        self.tolerate_full(closed)
    }

    /// Converts the active segment to a Parquet file, after which its log is void.
    fn close_segment(&mut self, table: Table) -> Result<(), StoreError> {
        let s = &self.segments[table as usize - 1];
        if s.rows == 0 {
            return Ok(());
        }
        let name = format!("{}/{}", table.name(), segment::file_name(s.number));
        let mut file = std::mem::take(&mut self.file);
        let encoded = self.files.encode(table, s.frames(), &mut file);
        let encoded = encoded.map_err(|e| bug(&self.dir.path().join(&name), &e));
        let written = encoded.and_then(|()| self.write_file(table, &name, &file));
        let bytes = file.len() as u64;
        self.file = file;
        written?;
        let old = self.segments[table as usize - 1].start_next();
        let number = old.number;
        let rows = old.rows;
        let min = old.min;
        let max = old.max;
        let totals = old.totals;
        self.retention.put(
            table,
            ClosedSegment {
                name,
                number,
                rows,
                bytes,
                min,
                max,
                totals,
            },
        );
        if let Some(wal) = old.wal {
            self.dir
                .remove_file(&wal.name)
                .map_err(|e| self.error(&wal.name, "remove", e))?;
        }
        Ok(())
    }

    fn write_file(&mut self, table: Table, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.make_room(bytes.len() as u64)?;
        if !self.tables[table as usize - 1] {
            let made = self
                .dir
                .make_dir(table.name())
                .and_then(|()| self.dir.sync(Path::new(".")));
            made.map_err(|e| self.error(table.name(), "create", e))?;
            self.tables[table as usize - 1] = true;
        }
        self.dir
            .write_atomically(name, bytes)
            .map_err(|e| self.error(name, "write", e))
    }

    /// Removes the oldest segments until `extra` more bytes fit under the limit.
    fn make_room(&mut self, extra: u64) -> Result<(), StoreError> {
        let active = self.active_bytes();
        let active_io_from = self.segments[Table::Io as usize - 1].min;
        let lost = &mut self.lost;
        self.retention
            .make_room(&self.dir, active, extra, active_io_from, lost)
    }

    fn active_bytes(&self) -> u64 {
        let logs: u64 = self
            .segments
            .iter()
            .map(|s| disk::allocated(s.wal_bytes()))
            .sum();
        logs + disk::allocated(self.open_bytes)
    }

    fn disk_bytes(&self) -> u64 {
        self.retention.used(self.active_bytes())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // An idle recorder must not wake the disk: even syncing an unchanged file can flush the disk's cache.
        let mut logs = self
            .segments
            .iter_mut()
            .filter_map(|s| s.wal.as_mut())
            .filter(|w| w.dirty)
            .peekable();
        if logs.peek().is_none() {
            return Ok(());
        }
        let synced = logs
            .try_for_each(WalFile::sync)
            .and_then(|()| self.dir.sync(Path::new(WAL)));
        self.tolerate_full(synced.map_err(|e| self.error(WAL, "sync", e)))
    }

    /// Treats a full disk as a state, not as an error.
    fn tolerate_full(&mut self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        match result {
            Err(e) if e.is_no_space() => {
                self.full_since_try_ns = Some(self.now_ns);
                Ok(())
            }
            other => other,
        }
    }

    fn count_unwritten(&mut self, ios: &[Io]) {
        self.ios_lost += ios.len() as u64;
        self.ios_unwritten += ios.len() as u64;
        self.unwritten.add_ios(ios);
    }

    fn unwritten_requests(&mut self, requests: &[Request]) {
        self.requests_unwritten += requests.len() as u64;
        let ends = requests.iter().map(|r| r.end_ns);
        if let Some((from_ns, to_ns)) = ends.clone().min().zip(ends.max()) {
            let reason = LossReason::RequestUnwritten;
            let ios = Some(requests.len() as i64);
            self.unwritten.add(&Lost {
                ios,
                ..Lost::somewhere(from_ns, to_ns, reason)
            });
        }
    }

    /// Tries whether there is space again, by writing the losses caused by its lack.
    fn resume(&mut self) -> Result<(), StoreError> {
        self.full_since_try_ns = None;
        self.lost.extend(self.unwritten.take());
        self.flush_rest()
    }

    fn error(&self, name: &str, doing: &'static str, why: std::io::Error) -> StoreError {
        StoreError::io(&self.dir.path().join(name), doing, why)
    }
}

/// Error: a frame of this writer cannot be encoded.
fn bug(path: &Path, e: &dyn std::error::Error) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        what: format!("cannot be encoded: {e}; please report this"),
    }
}
