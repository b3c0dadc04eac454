//! A part of a recording that answers a query, with its source, its filter and its names.

use std::ops::Range;

use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{self, IntervalRates, Io, Names};
use iolens_core::store::{IoColumns, Recording, read_rates};

use super::caller::Caller;
use super::choose::Chosen;
use super::error::{DevicesOnly, Result};
use super::filter::{Filter, FilterPlan, IoFilter};
use super::layers::Layers;
use super::note::Note;
use super::{decode, names, parallel, tables, window};

/// The source of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Single I/Os.
    Ios,
    /// Samples of the kernel's counters.
    Counters,
    /// The rates of an imported table.
    Tables(Vec<IntervalRates>),
    /// Rollups, and single I/Os after the end of the rollups.
    Rollups(Rollups),
    /// Sums per actor. The single I/Os were removed.
    ActorSums {
        /// Length of the finest sums in seconds.
        step_s: i32,
    },
}

impl Source {
    /// Why it knows I/O per device only; `None` for single I/Os.
    pub fn devices_only(&self) -> Option<DevicesOnly> {
        match self {
            Source::Ios => None,
            Source::Counters => Some(DevicesOnly::Counters),
            Source::Tables(_) => Some(DevicesOnly::Tables),
            Source::Rollups(_) | Source::ActorSums { .. } => Some(DevicesOnly::Sums),
        }
    }
}

/// Sums per device, and the time up to which they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rollups {
    /// Length of a sum in seconds.
    pub step_s: i32,
    /// They are used up to here, in nanoseconds since the recording's start.
    pub until_ns: i64,
    /// They are used because the single I/Os were removed.
    pub ios_are_removed: bool,
}

/// Which source to prefer if several can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Single I/Os where they exist: exact.
    Finest,
    /// Rollups where they fit the step: fast.
    Coarsest,
}

/// A part of a recording that answers a query.
#[derive(Debug)]
pub struct Part {
    /// Open for reading.
    pub recording: Recording,
    /// The range in nanoseconds since the recording's start.
    pub range: Range<i64>,
    /// The source of the answer.
    pub source: Source,
    /// Which I/Os count.
    pub filter: Filter,
    /// Names of control groups and files, if the query's grain shows them.
    pub names: Names,
    /// Length of a row or column in nanoseconds; 0 if there are none.
    pub step_ns: i64,
    /// Rows are those of an imported table, each with its own interval; the step is their usual length.
    pub own_intervals: bool,
    /// The question says when it begins, and not the recording.
    pub begins_as_asked: bool,
}

impl Part {
    /// Opens the selected part. Its source is not determined yet.
    ///
    /// # Errors
    /// The window is empty or lies outside the recording.
    pub fn open(chosen: Chosen) -> Result<Part> {
        let range = window::resolve(&chosen.recording, &chosen.window)?;
        let source = match chosen.recording.meta().source {
            model::Source::Counters => Source::Counters,
            _ => Source::Ios,
        };
        Ok(Part {
            begins_as_asked: chosen.window.from.is_some(),
            recording: chosen.recording,
            range,
            source,
            filter: Filter::default(),
            names: Names::default(),
            step_ns: 0,
            own_intervals: false,
        })
    }

    /// Where what is left of its single I/Os begins; its beginning if none are left, as sums may answer.
    pub fn kept_from_ns(&self) -> i64 {
        let kept_ns = window::kept_from(&self.recording, &self.range);
        if self.source == Source::Ios && kept_ns < self.range.end {
            kept_ns
        } else {
            self.range.start
        }
    }

    /// Moves its beginning to where what is left begins: rates over all of it would be too low.
    pub fn leave_out_removed(&mut self, caller: &Caller) {
        let kept_ns = self.kept_from_ns();
        if kept_ns > self.range.start {
            caller.note(Note::RemovedBefore(kept_ns));
            self.range.start = kept_ns;
        }
    }

    /// What is left of the part for the analyses, with its tables and names.
    ///
    /// # Errors
    /// The part is too long, or nothing of it is left.
    pub fn for_analysis(mut self, caller: &Caller) -> Result<Part> {
        self.range = window::for_analysis(&self.recording, &self.range, caller)?;
        self.described(caller)
    }

    /// Adds the tables, the names, and the stacked devices that must not count in sums.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn described(mut self, caller: &Caller) -> Result<Part> {
        let rates = read_rates(self.recording.path())?;
        // If there are single I/Os, they give exact figures and the tables are not needed.
        if !rates.is_empty() && self.recording.ios_stored() == 0 {
            self.range = tables::window(&rates, self.begins_as_asked, self.range);
            self.source = Source::Tables(rates);
        }
        self.names = names::read(&self.recording, self.range.end, caller)?;
        self.filter.layers = Layers::of(&self.recording, GroupBy::All, caller)?;
        Ok(self)
    }

    /// Whether the recording holds no single I/Os although there may have been some: counters and imported tables
    /// contain none, and all may have been lost.
    pub fn lacks_ios(&self) -> bool {
        let has_none = self.recording.ios_stored() == 0;
        match self.recording.meta().source {
            model::Source::Counters => true,
            model::Source::Import(_) => has_none,
            model::Source::Ebpf => has_none && self.has_losses(),
        }
    }

    /// Whether I/Os in it are known to be lost.
    fn has_losses(&self) -> bool {
        let lost = self.recording.lost(self.range.clone());
        lost.iter().any(|l| l.reason.is_loss() && l.ios != Some(0))
    }

    /// Estimated number of single I/Os: the mean rate over what is left of the recording, times the length.
    pub fn expected_ios(&self) -> f64 {
        window::ios_in(&self.recording, &self.range)
    }

    /// Splits the range into pieces of whole steps of `step_ns` that threads can read in parallel for `columns`; a
    /// single piece if sums answer.
    pub fn pieces(&self, step_ns: i64, columns: IoColumns) -> Vec<Range<i64>> {
        let columns = columns | self.filter.ios.columns();
        if self.source != Source::Ios || decode::depends_on_earlier(&self.recording, columns) {
            return vec![self.range.clone()];
        }
        parallel::pieces(&self.range, self.expected_ios(), step_ns)
    }

    /// Whether the process written as `process` has I/O in the part, on any device. True if there are no single I/Os.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn has_process(&self, process: &str, caller: &Caller) -> Result<bool> {
        if self.source != Source::Ios {
            return Ok(true);
        }
        let plan = FilterPlan {
            process: Some(process.to_owned()),
            ..FilterPlan::default()
        };
        let wanted = IoFilter::new(&plan, &self.names);
        let columns = wanted.columns() | IoColumns::QUEUE;
        // Rows include I/Os in flight, which may complete later.
        let read = window::with_in_flight(&self.range);
        let end_ns = self.range.end;
        let ios = decode::Ios::new(&self.recording, read, columns).started_before(end_ns);
        for batch in ios {
            caller.check()?;
            for io in batch? {
                if io.start_ns() < end_ns && wanted.has(&io) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// `io` as it is shown: without its process name if the recording hides names.
    pub fn shown(&self, io: &Io) -> Io {
        if self.recording.hides_names() {
            io.without_name()
        } else {
            *io
        }
    }

    /// Its range as a window for the analyses.
    pub fn window(&self) -> Window {
        Window::from(&self.range)
    }

    /// The part in Unix time.
    pub fn unix_ns(&self) -> Range<i64> {
        let start_ns = self.recording.meta().start_unix_ns;
        start_ns.saturating_add(self.range.start)..start_ns.saturating_add(self.range.end)
    }
}

#[cfg(test)]
mod tests {
    use iolens_core::model::{
        DevId, LossReason, Lost, Observation, Op, RecorderCost, RecordingMeta,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};

    use super::super::TimeWindow;
    use super::super::query::{Grain, Query, Step};
    use super::*;

    fn lacks_ios(source: model::Source, observations: &[Observation]) -> bool {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(source, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("a recording");
        for observation in observations {
            writer.push(observation).expect("written");
        }
        writer
            .finish(1_000_000, RecorderCost::default())
            .expect("finished");
        let caller = Caller::without_notes();
        let query = Query::new(&path, TimeWindow::default(), &caller);
        query.one(Grain::Analysis).expect("readable").lacks_ios()
    }

    fn lost(reason: LossReason) -> Observation {
        Observation::Lost(Lost {
            ios: Some(2),
            ..Lost::somewhere(0, 1000, reason)
        })
    }

    #[test]
    fn a_recording_in_which_nothing_happened_lacks_no_ios() {
        let io = Io::new(500, DevId::new(8, 0), Op::READ, 512, Some(5), 10);
        let io = [Observation::Io(io)];
        assert!(!lacks_ios(model::Source::Ebpf, &[]));
        assert!(!lacks_ios(model::Source::Ebpf, &io));
        let in_flight = [lost(LossReason::Censored)];
        assert!(!lacks_ios(model::Source::Ebpf, &in_flight));
        let damaged = [lost(LossReason::Corrupt)];
        assert!(lacks_ios(model::Source::Ebpf, &damaged));
        assert!(lacks_ios(model::Source::Counters, &[]));
        let imported = model::Source::Import("blktrace".to_owned());
        assert!(!lacks_ios(imported.clone(), &io));
        assert!(lacks_ios(imported, &[]));
    }

    #[test]
    fn one_row_over_all_begins_where_something_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(model::Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("a recording");
        let removed = Lost {
            ios: Some(2),
            ..Lost::somewhere(0, 6_000_000, LossReason::Retention)
        };
        writer.push(&Observation::Lost(removed)).expect("written");
        let io = Io::new(8_000_000, DevId::new(8, 0), Op::READ, 512, Some(5), 10);
        writer.push_ios(&[io]).expect("written");
        writer
            .finish(10_000_000, RecorderCost::default())
            .expect("finished");
        let caller = Caller::without_notes();
        let query = Query::new(&path, TimeWindow::default(), &caller);
        let of_whole = Grain::Rows {
            step: Step::Whole,
            by: GroupBy::All,
            tier: Tier::Finest,
        };
        let part = query.one(of_whole).expect("readable");
        assert_eq!(part.range, 6_000_000..10_000_000);
        assert_eq!(part.step_ns, 4_000_000);
        let of_source = Grain::Rows {
            step: Step::OfSource(None),
            by: GroupBy::All,
            tier: Tier::Finest,
        };
        let part = query.one(of_source).expect("readable");
        assert_eq!(part.range, 0..10_000_000);
        assert_eq!(part.kept_from_ns(), 6_000_000);
    }
}
