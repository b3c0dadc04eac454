//! All tables of a recording as the one stream of observations.

use std::collections::VecDeque;

use super::error::StoreError;
use super::reader::{
    CgroupReader, CounterReader, IoReader, NameReader, PressureReader, RequestReader,
};
use crate::model::{
    CgroupSample, CounterSample, Io, Lost, Mark, Name, Observation, PressureSample, Request,
};

/// Observations in order of [`Observation::at_ns`]; at the same instant losses first, then marks, names,
/// counters, pressure, control groups, requests and I/Os.
pub struct Observations {
    ios: IoReader,
    io_batch: VecDeque<Io>,
    counters: CounterReader,
    counter_batch: VecDeque<CounterSample>,
    requests: RequestReader,
    request_batch: VecDeque<Request>,
    names: NameReader,
    name_batch: VecDeque<Name>,
    pressure: PressureReader,
    pressure_batch: VecDeque<PressureSample>,
    cgroups: CgroupReader,
    cgroup_batch: VecDeque<CgroupSample>,
    lost: VecDeque<Lost>,
    marks: VecDeque<Mark>,
    damage_seen: usize,
    failed: bool,
}

/// The readers of all tables but those that are read as a whole.
pub(crate) struct TableReaders {
    pub ios: IoReader,
    pub counters: CounterReader,
    pub requests: RequestReader,
    pub names: NameReader,
    pub pressure: PressureReader,
    pub cgroups: CgroupReader,
}

impl Observations {
    pub(crate) fn new(tables: TableReaders, lost: Vec<Lost>, marks: Vec<Mark>) -> Observations {
        let TableReaders {
            ios,
            counters,
            requests,
            names,
            pressure,
            cgroups,
        } = tables;
        Observations {
            ios,
            io_batch: VecDeque::new(),
            counters,
            counter_batch: VecDeque::new(),
            requests,
            request_batch: VecDeque::new(),
            names,
            name_batch: VecDeque::new(),
            pressure,
            pressure_batch: VecDeque::new(),
            cgroups,
            cgroup_batch: VecDeque::new(),
            lost: lost.into(),
            marks: marks.into(),
            damage_seen: 0,
            failed: false,
        }
    }

    /// The damaged blocks met so far, in words.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let others = self.requests.warnings().iter().chain(self.names.warnings());
        let others = others.chain(self.pressure.warnings());
        let others = others.chain(self.cgroups.warnings());
        self.ios
            .warnings()
            .iter()
            .chain(self.counters.warnings())
            .chain(others)
    }

    fn refill(&mut self) -> Result<(), StoreError> {
        while self.io_batch.is_empty() {
            let batch = self.ios.next().transpose()?;
            for lost in &self.ios.damage()[self.damage_seen..] {
                let at = self.lost.partition_point(|l| l.to_ns <= lost.to_ns);
                self.lost.insert(at, *lost);
            }
            self.damage_seen = self.ios.damage().len();
            match batch {
                Some(rows) => self.io_batch.extend(rows),
                None => break,
            }
        }
        while self.counter_batch.is_empty() {
            match self.counters.next().transpose()? {
                Some(rows) => self.counter_batch.extend(rows),
                None => break,
            }
        }
        while self.request_batch.is_empty() {
            match self.requests.next().transpose()? {
                Some(rows) => self.request_batch.extend(rows),
                None => break,
            }
        }
        while self.pressure_batch.is_empty() {
            match self.pressure.next().transpose()? {
                Some(rows) => self.pressure_batch.extend(rows),
                None => break,
            }
        }
        while self.cgroup_batch.is_empty() {
            match self.cgroups.next().transpose()? {
                Some(rows) => self.cgroup_batch.extend(rows),
                None => break,
            }
        }
        while self.name_batch.is_empty() {
            match self.names.next().transpose()? {
                Some(rows) => self.name_batch.extend(rows),
                None => break,
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<Observation> {
        let heads = [
            self.lost.front().map(|l| l.to_ns),
            self.marks.front().map(|m| m.at_ns),
            self.name_batch.front().map(|n| n.at_ns),
            self.counter_batch.front().map(|c| c.at_ns),
            self.pressure_batch.front().map(|p| p.to_ns),
            self.cgroup_batch.front().map(|c| c.at_ns),
            self.request_batch.front().map(|r| r.end_ns),
            self.io_batch.front().map(|io| io.done_ns),
        ];
        let (_, which) = heads
            .iter()
            .enumerate()
            .filter_map(|(i, at)| Some(((*at)?, i)))
            .min()?;
        match which {
            0 => self.lost.pop_front().map(Observation::Lost),
            1 => self.marks.pop_front().map(Observation::Mark),
            2 => self.name_batch.pop_front().map(Observation::Name),
            3 => self.counter_batch.pop_front().map(Observation::Counters),
            4 => self.pressure_batch.pop_front().map(Observation::Pressure),
            5 => self
                .cgroup_batch
                .pop_front()
                .map(|c| Observation::Cgroup(Box::new(c))),
            6 => self
                .request_batch
                .pop_front()
                .map(|r| Observation::Request(Box::new(r))),
            _ => self.io_batch.pop_front().map(Observation::Io),
        }
    }
}

impl Iterator for Observations {
    type Item = Result<Observation, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let empty = self.io_batch.is_empty()
            || self.counter_batch.is_empty()
            || self.request_batch.is_empty()
            || self.name_batch.is_empty()
            || self.pressure_batch.is_empty()
            || self.cgroup_batch.is_empty();
        if empty && let Err(e) = self.refill() {
            self.failed = true;
            return Some(Err(e));
        }
        self.pop().map(Ok)
    }
}
