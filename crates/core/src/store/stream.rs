//! All tables of a recording as the one stream of observations.

use std::collections::VecDeque;

use super::error::StoreError;
use super::reader::BatchReader;
use super::row::Row;
use crate::model::{
    CgroupSample, CounterSample, Io, Lost, Mark, Name, Observation, PressureSample, Request,
};

/// Observations in order of [`Observation::at_ns`]; at the same instant losses first, then marks, names,
/// counters, pressure, control groups, requests and I/Os.
pub struct Observations {
    pub(super) ios: ReadAhead<Io>,
    pub(super) counters: ReadAhead<CounterSample>,
    pub(super) requests: ReadAhead<Request>,
    pub(super) names: ReadAhead<Name>,
    pub(super) pressure: ReadAhead<PressureSample>,
    pub(super) cgroups: ReadAhead<CgroupSample>,
    pub(super) lost: VecDeque<Lost>,
    pub(super) marks: VecDeque<Mark>,
    pub(super) damage_seen: usize,
    pub(super) failed: bool,
}

/// Rows of a table, with one batch read ahead.
pub(super) struct ReadAhead<R> {
    reader: BatchReader<R>,
    batch: VecDeque<R>,
}

impl<R> From<BatchReader<R>> for ReadAhead<R> {
    fn from(reader: BatchReader<R>) -> ReadAhead<R> {
        ReadAhead {
            reader,
            batch: VecDeque::new(),
        }
    }
}

impl<R: Row> ReadAhead<R> {
    /// Reads the next batch if the current one is used up.
    fn fill(&mut self) -> Result<(), StoreError> {
        while self.batch.is_empty() {
            match self.reader.next().transpose()? {
                Some(rows) => self.batch.extend(rows),
                None => break,
            }
        }
        Ok(())
    }

    /// Time of the next row.
    fn head(&self) -> Option<i64> {
        self.batch.front().map(Row::time)
    }
}

impl Observations {
    /// The damaged blocks found so far, as messages.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let all = self.ios.reader.warnings().iter();
        all.chain(self.counters.reader.warnings())
            .chain(self.requests.reader.warnings())
            .chain(self.names.reader.warnings())
            .chain(self.pressure.reader.warnings())
            .chain(self.cgroups.reader.warnings())
    }

    fn fill(&mut self) -> Result<(), StoreError> {
        self.ios.fill()?;
        let damage = self.ios.reader.damage();
        for lost in &damage[self.damage_seen..] {
            let at = self.lost.partition_point(|l| l.to_ns <= lost.to_ns);
            self.lost.insert(at, *lost);
        }
        self.damage_seen = damage.len();
        self.counters.fill()?;
        self.requests.fill()?;
        self.pressure.fill()?;
        self.cgroups.fill()?;
        self.names.fill()
    }

    fn pop(&mut self) -> Option<Observation> {
        let heads = [
            self.lost.front().map(|l| l.to_ns),
            self.marks.front().map(|m| m.at_ns),
            self.names.head(),
            self.counters.head(),
            self.pressure.head(),
            self.cgroups.head(),
            self.requests.head(),
            self.ios.head(),
        ];
        let (_, which) = heads
            .iter()
            .enumerate()
            .filter_map(|(i, at)| Some(((*at)?, i)))
            .min()?;
        match which {
            0 => self.lost.pop_front().map(Observation::Lost),
            1 => self.marks.pop_front().map(Observation::Mark),
            2 => self.names.batch.pop_front().map(Observation::Name),
            3 => self.counters.batch.pop_front().map(Observation::Counters),
            4 => self.pressure.batch.pop_front().map(Observation::Pressure),
            5 => {
                let sample = self.cgroups.batch.pop_front()?;
                Some(Observation::Cgroup(Box::new(sample)))
            }
            6 => {
                let request = self.requests.batch.pop_front()?;
                Some(Observation::Request(Box::new(request)))
            }
            _ => self.ios.batch.pop_front().map(Observation::Io),
        }
    }
}

impl Iterator for Observations {
    type Item = Result<Observation, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if let Err(e) = self.fill() {
            self.failed = true;
            return Some(Err(e));
        }
        self.pop().map(Ok)
    }
}
