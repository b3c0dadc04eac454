//! Random access to a recording, or to all recordings of a root: the time they cover, and the I/Os of any stretch of
//! it.
//!
//! All times are nanoseconds since the start of the first recording, even in stretches of a later one.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use iolens_core::analysis::counters::pressure::HostPressure;
use iolens_core::analysis::timeline::{CounterRates, Differences, GroupBy};
use iolens_core::model::{
    DevId, Io, Lost, Name, Named, Names, Observation, PressureSample, RecordingMeta, SECOND_NS,
    Source,
};
use iolens_core::store::{IoColumns, StoreError};

use super::caller::Caller;
use super::error::Result;
use super::layers::Layers;
use super::part::Part;
use super::query::{Grain, Query};
use super::{Instant, TimeWindow, choose, decode, window};

/// To compute the first difference of a stretch, samples of counters are read from this long before it.
const SAMPLE_BEFORE_NS: i64 = 10 * SECOND_NS;

/// The recording or root that is browsed.
pub struct BrowsedPlace {
    path: PathBuf,
    devices: Vec<String>,
    start_unix_ns: i64,
    /// The devices stacked on others, by the start of each recording. Cached, because finding them may mean reading
    /// the whole recording.
    layers: HashMap<i64, Layers>,
}

/// A stretch of time of one recording, open for reading.
pub struct BrowsedStretch {
    part: Part,
    shift_ns: i64,
    layers: Layers,
    host: HostPressure,
}

/// How reading a stretch ended.
pub struct StretchRead {
    /// Whether it was read to the end: the consumer did not stop early.
    pub is_whole: bool,
    /// Damaged blocks met while reading, as losses.
    pub damage: Vec<Lost>,
}

impl BrowsedPlace {
    /// Opens the recording or root at `path`, restricted to these devices (none: all). Also returns the moment `at`
    /// in its time.
    ///
    /// # Errors
    /// There is no recording, or none covers the moment `at`.
    pub fn open(
        path: PathBuf,
        devices: Vec<String>,
        at: Option<Instant>,
        caller: &Caller,
    ) -> Result<(BrowsedPlace, Option<i64>)> {
        let (unix_ns, at_unix_ns) = choose::extent(&path, at, caller)?;
        let place = BrowsedPlace {
            path,
            devices,
            start_unix_ns: unix_ns.start,
            layers: HashMap::new(),
        };
        let at_ns = at_unix_ns.map(|ns| ns - unix_ns.start);
        Ok((place, at_ns))
    }

    /// The Unix time in nanoseconds from which times count.
    pub fn start_unix_ns(&self) -> i64 {
        self.start_unix_ns
    }

    /// The time that is recorded now. It changes: a recording may grow, and the oldest ones of a root may be removed.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub fn range_ns(&self, caller: &Caller) -> Result<Range<i64>> {
        let (unix_ns, _) = choose::extent(&self.path, None, caller)?;
        Ok(unix_ns.start - self.start_unix_ns..unix_ns.end - self.start_unix_ns)
    }

    /// Opens the stretch `range`, which must lie inside the recorded time.
    ///
    /// # Errors
    /// Nothing was recorded then, single I/Os were removed, or it cannot be read.
    pub fn stretch(&mut self, range: &Range<i64>, caller: &Caller) -> Result<BrowsedStretch> {
        let window = TimeWindow {
            at: None,
            from: Some(self.instant(range.start)),
            to: Some(self.instant(range.end)),
        };
        let query = Query::new(&self.path, window, caller).of_devices(&self.devices);
        let part = query.one(Grain::Ios)?;
        let recording = &part.recording;
        let own_start_ns = recording.meta().start_unix_ns;
        let layers = match self.layers.get(&own_start_ns) {
            Some(known) => known.clone(),
            None => {
                let found = Layers::of(recording, GroupBy::All, caller)?;
                self.layers.insert(own_start_ns, found.clone());
                found
            }
        };
        let shift_ns = own_start_ns - self.start_unix_ns;
        let mut host = HostPressure::default();
        let samples = recording.pressure(part.range.clone());
        decode::each_row(recording, samples, caller, |sample| {
            host.push(&PressureSample {
                from_ns: sample.from_ns + shift_ns,
                to_ns: sample.to_ns + shift_ns,
                timer_due_ns: sample.timer_due_ns.map(|ns| ns + shift_ns),
                ..sample
            });
        })?;
        Ok(BrowsedStretch {
            part,
            shift_ns,
            layers,
            host,
        })
    }

    fn instant(&self, at_ns: i64) -> Instant {
        Instant::of_unix_ns(self.start_unix_ns.saturating_add(at_ns))
    }
}

impl BrowsedStretch {
    /// The description of its recording.
    pub fn meta(&self) -> &RecordingMeta {
        self.part.recording.meta()
    }

    /// Whether its recording holds only samples of the kernel's counters, no single I/Os.
    pub fn is_of_counters(&self) -> bool {
        self.meta().source == Source::Counters
    }

    /// Whether single I/Os are missing although there may have been some.
    pub fn lacks_ios(&self) -> bool {
        self.part.lacks_ios()
    }

    /// Names of its control groups and files.
    pub fn names(&self) -> &Names {
        &self.part.names
    }

    /// Devices stacked on others, which would count an I/O twice; empty if devices were chosen.
    pub fn above(&self) -> Vec<DevId> {
        if !self.part.filter.devices.is_all() {
            return Vec::new();
        }
        self.layers.left_out().keys().copied().collect()
    }

    /// The pressure (PSI) of the host.
    pub fn host(&self) -> &HostPressure {
        &self.host
    }

    /// The losses in `range`.
    pub fn lost(&self, range: &Range<i64>) -> Vec<Lost> {
        let own = self.own_ns(range);
        let mut all = self.part.recording.lost(own);
        all.retain(|l| l.dev.is_none_or(|dev| self.part.filter.devices.has(dev)));
        all.iter_mut().for_each(|lost| self.shift(lost));
        all
    }

    /// Converts a loss from the recording's own time to the common time.
    fn shift(&self, lost: &mut Lost) {
        lost.from_ns = lost.from_ns.saturating_add(self.shift_ns);
        lost.to_ns = lost.to_ns.saturating_add(self.shift_ns);
    }

    /// Hands all I/Os that completed in `range` to `consume`, in batches and in order of completion, until it returns
    /// false.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn each_batch(
        &self,
        range: &Range<i64>,
        caller: &Caller,
        mut consume: impl FnMut(&[Io]) -> bool,
    ) -> Result<StretchRead> {
        let recording = &self.part.recording;
        let own = window::with_last_instant(recording, &self.own_ns(range));
        let mut reader = decode::Ios::new(recording, own, IoColumns::ALL);
        let mut is_whole = true;
        for batch in reader.by_ref() {
            let mut ios = batch?;
            ios.retain(|io| self.part.filter.devices.has(io.dev));
            for io in &mut ios {
                io.done_ns += self.shift_ns;
            }
            if !consume(&ios) {
                is_whole = false;
                break;
            }
        }
        caller.damage(recording.path(), reader.reader().warnings());
        let mut damage = reader.reader().damage().to_vec();
        damage.iter_mut().for_each(|lost| self.shift(lost));
        Ok(StretchRead { is_whole, damage })
    }

    /// Hands the differences between successive counter samples in `range` to `consume`, in order of time, until it
    /// returns false. Returns whether it read to the end.
    ///
    /// # Errors
    /// The samples cannot be read.
    pub fn each_difference(
        &self,
        range: &Range<i64>,
        caller: &Caller,
        mut consume: impl FnMut(&CounterRates) -> bool,
    ) -> Result<bool> {
        let own = self.own_ns(range);
        let first_ns = own.start.saturating_sub(SAMPLE_BEFORE_NS);
        let mut samples = self
            .part
            .recording
            .counters(first_ns..own.end.saturating_add(1));
        let mut differences = Differences::new(&self.meta().devices);
        for batch in &mut samples {
            caller.check()?;
            for sample in batch? {
                let Some(mut rates) = differences.push(&sample) else {
                    continue;
                };
                rates.from_ns = rates.from_ns.saturating_add(self.shift_ns);
                rates.to_ns = rates.to_ns.saturating_add(self.shift_ns);
                if self.part.filter.devices.has(rates.dev) && !consume(&rates) {
                    return Ok(false);
                }
            }
        }
        caller.damage(self.part.recording.path(), samples.warnings());
        Ok(true)
    }

    /// Every observation in `own_ns` (the recording's own time), in order, preceded by the names recorded before it.
    ///
    /// # Errors
    /// The names cannot be read.
    pub fn observations(
        &self,
        own_ns: &Range<i64>,
    ) -> Result<impl Iterator<Item = Result<Observation, StoreError>>> {
        let recording = &self.part.recording;
        let mut names: HashMap<Named, Name> = HashMap::new();
        for batch in recording.names(i64::MIN..own_ns.start) {
            names.extend(batch?.into_iter().map(|name| (name.of, name)));
        }
        let names = names.into_values().map(|n| Ok(Observation::Name(n)));
        Ok(names.chain(recording.observations(own_ns.clone())))
    }

    /// Converts `range` to the time of its recording.
    pub fn own_ns(&self, range: &Range<i64>) -> Range<i64> {
        range.start.saturating_sub(self.shift_ns)..range.end.saturating_sub(self.shift_ns)
    }
}
