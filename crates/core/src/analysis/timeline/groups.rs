//! The groups' open rows and their sums so far.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::{Flow, GroupKey, TimelinePlan};
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::model::{Class, Flight};

/// A row while its slot is open.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenRow {
    pub flows: [Flow; 4],
    /// Of reads and of writes.
    pub quantiles: [Option<RowQuantiles>; 2],
    pub flight: Flight,
    /// Time with an I/O of each class in flight.
    pub busy_of_class_ns: [i64; Class::ALL.len()],
}

/// Latencies of one class in one slot, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowQuantiles {
    pub p50_ns: i64,
    pub p90_ns: i64,
    pub p99_ns: i64,
    pub max_ns: i64,
}

impl RowQuantiles {
    /// `None` if there are no I/Os.
    fn of(latencies: &mut Latencies) -> Option<RowQuantiles> {
        Some(RowQuantiles {
            p50_ns: latencies.quantile_ns(0.5)?,
            p90_ns: latencies.quantile_ns(0.9)?,
            p99_ns: latencies.quantile_ns(0.99)?,
            // A histogram has an exact maximum, but no exact quantiles.
            max_ns: (latencies.max_us()? * 1e3).round() as i64,
        })
    }
}

#[derive(Debug)]
struct RowGroup {
    key: GroupKey,
    /// The row of the last completion: (slot, position).
    completing: (i64, usize),
    /// The same for the sweep, which lags behind completions.
    sweeping: (i64, usize),
    latencies: [Latencies; 2],
    /// I/Os in flight.
    level: i64,
    /// The same by class.
    level_of_class: [i64; Class::ALL.len()],
    since_ns: i64,
    /// Position in `in_flight`, if level > 0.
    in_flight_at: Option<usize>,
}

/// All groups, and the open slots from slot `first` on.
#[derive(Debug)]
pub(super) struct Groups {
    plan: TimelinePlan,
    index: HashMap<GroupKey, u32>,
    last: Option<(GroupKey, u32)>,
    groups: Vec<RowGroup>,
    in_flight: Vec<u32>,
    pub first: i64,
    slots: VecDeque<Vec<(u32, OpenRow)>>,
}

impl Groups {
    pub fn new(plan: TimelinePlan) -> Groups {
        Groups {
            plan,
            index: HashMap::default(),
            last: None,
            groups: Vec::new(),
            in_flight: Vec::new(),
            first: 0,
            slots: VecDeque::new(),
        }
    }

    /// The number of `key`. Most I/Os have the group of the previous one.
    pub fn number(&mut self, key: GroupKey) -> u32 {
        if let Some((_, g)) = self.last.filter(|(k, _)| *k == key) {
            return g;
        }
        let next = self.groups.len() as u32;
        let g = *self.index.entry(key).or_insert(next);
        if g == next {
            self.groups.push(RowGroup {
                key,
                completing: (i64::MIN, 0),
                sweeping: (i64::MIN, 0),
                latencies: Default::default(),
                level: 0,
                level_of_class: [0; Class::ALL.len()],
                since_ns: i64::MIN,
                in_flight_at: None,
            });
        }
        self.last = Some((key, g));
        g
    }

    pub fn key(&self, g: u32) -> GroupKey {
        self.groups[g as usize].key
    }

    fn position(&mut self, g: u32, slot: i64) -> usize {
        let at = (slot - self.first) as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, Vec::new);
        }
        let rows = &mut self.slots[at];
        rows.iter()
            .position(|(have, _)| *have == g)
            .unwrap_or_else(|| {
                rows.push((g, OpenRow::default()));
                rows.len() - 1
            })
    }

    /// Counts a completion of group `g` in `slot`, which is not closed.
    pub fn complete(&mut self, g: u32, slot: i64, class: Class, flow: Flow, extended: bool) {
        let (in_slot, mut at) = self.groups[g as usize].completing;
        if in_slot != slot {
            self.settle_latencies(g);
            at = self.position(g, slot);
            self.groups[g as usize].completing = (slot, at);
        }
        self.slots[(slot - self.first) as usize][at].1.flows[class as usize].add(&flow);
        if extended && (class as usize) < 2 {
            self.groups[g as usize].latencies[class as usize].add(flow.total_ns);
        }
    }

    /// Computes the percentiles of the slot in which group `g` was completing, once it has moved on to another.
    fn settle_latencies(&mut self, g: u32) {
        let group = &mut self.groups[g as usize];
        let (slot, at) = group.completing;
        if slot < self.first || group.latencies.iter().all(|l| l.n() == 0) {
            return;
        }
        let row = &mut self.slots[(slot - self.first) as usize][at].1;
        for (quantiles, latencies) in row.quantiles.iter_mut().zip(&mut group.latencies) {
            *quantiles = RowQuantiles::of(latencies);
            latencies.clear();
        }
    }

    /// Closes slot `first` and returns its rows. Everything in flight must have been swept to the slot's end before.
    pub fn close_first(&mut self) -> Vec<(u32, OpenRow)> {
        for at in 0..self.slots.front().map_or(0, Vec::len) {
            let g = self.slots[0][at].0;
            if self.groups[g as usize].completing.0 == self.first {
                self.settle_latencies(g);
            }
        }
        self.first += 1;
        self.slots.pop_front().unwrap_or_default()
    }

    /// Number of empty slots from `first` on, at most `limit`.
    pub fn idle_slots(&self, limit: i64) -> i64 {
        if !self.in_flight.is_empty() {
            return 0;
        }
        self.slots
            .iter()
            .position(|rows| !rows.is_empty())
            .map_or(limit, |n| limit.min(n as i64))
    }

    /// Skips `slots` empty slots at once.
    pub fn skip(&mut self, slots: i64) {
        self.first += slots;
        self.slots.drain(..self.slots.len().min(slots as usize));
    }

    /// Sweeps everything in flight to `to_ns`.
    pub fn sweep_all_to(&mut self, to_ns: i64) {
        for i in 0..self.in_flight.len() {
            self.sweep_to(self.in_flight[i], to_ns);
        }
    }

    fn sweep_to(&mut self, g: u32, to_ns: i64) {
        let group = &self.groups[g as usize];
        let level = group.level;
        let level_of_class = group.level_of_class;
        let since_ns = group.since_ns.max(self.plan.window.from_ns);
        if level > 0 {
            for part in self.plan.grid().parts(since_ns, to_ns) {
                let row = self.swept_row(g, part.slot);
                row.flight.pass(part.len_ns(), level);
                for (busy_ns, level) in row.busy_of_class_ns.iter_mut().zip(level_of_class) {
                    *busy_ns += if level > 0 { part.len_ns() } else { 0 };
                }
            }
        }
        let group = &mut self.groups[g as usize];
        group.since_ns = group.since_ns.max(to_ns);
    }

    fn swept_row(&mut self, g: u32, slot: i64) -> &mut OpenRow {
        let (in_slot, mut at) = self.groups[g as usize].sweeping;
        if in_slot != slot {
            at = self.position(g, slot);
            self.groups[g as usize].sweeping = (slot, at);
        }
        &mut self.slots[(slot - self.first) as usize][at].1
    }

    fn change(&mut self, g: u32, class: Class, at_ns: i64, by: i64) {
        self.sweep_to(g, at_ns.min(self.plan.window.to_ns));
        let group = &mut self.groups[g as usize];
        group.level += by;
        group.level_of_class[class as usize] += by;
        match (group.level > 0, group.in_flight_at) {
            (true, None) => {
                group.in_flight_at = Some(self.in_flight.len());
                self.in_flight.push(g);
            }
            (false, Some(at)) => {
                group.in_flight_at = None;
                self.in_flight.swap_remove(at);
                if let Some(moved) = self.in_flight.get(at) {
                    self.groups[*moved as usize].in_flight_at = Some(at);
                }
            }
            _ => {}
        }
    }
}

impl Sweep for Groups {
    fn start(&mut self, span: &Span) {
        self.change(span.key, span.class, span.start_ns, 1);
    }

    fn done(&mut self, end: &End) {
        self.change(end.key, end.class, end.at_ns, -1);
    }
}
