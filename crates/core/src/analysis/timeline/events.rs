//! Rows from single I/Os.
//!
//! A row is emitted as soon as no I/O in flight can change it, so memory does not grow with the recording.

use std::collections::VecDeque;

use super::groups::{Groups, OpenRow};
use super::{Extended, Flow, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::intervals::{union, within_ns};
use crate::analysis::stream::order::{Hold, Span, StartOrder};
use crate::model::{Io, LossReason, Lost};

/// Computes rows from completed I/Os as they stream in.
///
/// Take rows with [`Timeline::next_row`] after each push. They are ordered by time and, within a slot, by group. Rows
/// are held back for [`Hold`] (30 s by default), because a long I/O still in flight, or a loss reported late, changes
/// slots of the past. What arrives later than that does not change rows already returned.
#[derive(Debug)]
pub struct Timeline {
    plan: TimelinePlan,
    hold: Hold,
    groups: Groups,
    always: Vec<u32>,
    /// Groups that have a row in slots without any other row.
    quiet: Vec<u32>,
    order: StartOrder,
    losses: Vec<Lost>,
    latest_ns: i64,
    last_done_ns: Option<i64>,
    closed: VecDeque<ClosedRow>,
    made: u64,
}

/// Rows ready for `next_row`. Idle ranges are stored as such, so that a quiet night at 1 ms does not fill the memory.
#[derive(Debug)]
enum ClosedRow {
    Row(Box<Row>),
    Idle {
        next: i64,
        to: i64,
        /// Position in `rows`.
        at: usize,
        rows: Vec<IdleRow>,
        unrecorded: bool,
    },
}

/// An idle range, which stands for one row per slot.
#[derive(Debug, Clone, Copy)]
struct IdleRow {
    group: u32,
    lossy: bool,
}

impl Timeline {
    /// Rows by `plan`, held back for 30 s.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<Timeline, PlanError> {
        Timeline::with_hold(plan, Hold::ROWS)
    }

    /// Like [`Timeline::new`], with a given hold time: short for a live view, long for devices that hang for minutes.
    ///
    /// # Errors
    /// As [`Timeline::new`].
    pub fn with_hold(plan: TimelinePlan, hold: Hold) -> Result<Timeline, PlanError> {
        plan.check()?;
        let mut timeline = Timeline {
            latest_ns: plan.window.from_ns,
            groups: Groups::new(plan.clone()),
            plan,
            hold,
            always: Vec::new(),
            quiet: Vec::new(),
            order: StartOrder::new(hold),
            losses: Vec::new(),
            last_done_ns: None,
            closed: VecDeque::new(),
            made: 0,
        };
        timeline.number_always();
        Ok(timeline)
    }

    /// Replaces [`TimelinePlan::always`] for all slots that are still open.
    pub fn set_always(&mut self, always: Vec<GroupKey>) {
        self.plan.always = always;
        self.number_always();
    }

    fn number_always(&mut self) {
        self.always.clear();
        for key in self.plan.always_keys() {
            self.always.push(self.groups.number(key));
        }
        self.quiet.clone_from(&self.always);
        // Processes, control groups and files come and go, so a slot without any of them gets one row without a name.
        let has_no_groups = self.always.is_empty() && self.plan.by != GroupBy::Device;
        if has_no_groups {
            self.quiet.push(self.groups.number(GroupKey::All));
        }
    }

    /// Takes the next completed I/O.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`] once there are.
    pub fn push(&mut self, io: &Io) -> Result<(), PlanError> {
        if io.done_ns < self.plan.window.from_ns {
            return Ok(());
        }
        if !self.plan.extended && !self.plan.window.contains(io.done_ns) {
            return self.advance(io.done_ns);
        }
        self.advance(io.done_ns)?;
        let g = self.groups.number(self.plan.by.key(io));
        if self.plan.window.contains(io.done_ns) {
            // An I/O that is out of order by more than the hold time is counted in the first slot that is still open.
            let slot = self.plan.slot_of(io.done_ns).max(self.groups.first);
            let flow = Flow::of(io);
            self.groups
                .complete(g, slot, io.class(), flow, self.plan.extended);
            self.last_done_ns = self.last_done_ns.max(Some(io.done_ns));
        }
        if self.plan.extended && io.start_ns() < self.plan.window.to_ns {
            self.order.push(Span::of(io, g), &mut self.groups);
        }
        Ok(())
    }

    /// Takes a loss. Rows that it can change by more than 1 % are marked. Censored I/Os do not mark rows.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        self.losses.push(*lost);
    }

    /// Declares that no I/O completes before `now_ns` any more, so that slots close while a device is idle.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`] once there are.
    pub fn advance(&mut self, now_ns: i64) -> Result<(), PlanError> {
        self.latest_ns = self.latest_ns.max(now_ns);
        let hold = self.hold.ns.min(i64::MAX / 4);
        // Slots are closed in batches, so that not every I/O pays for a sweep. Without a hold time there are no
        // batches: each row is wanted as soon as its slot ends.
        let stride = if hold == 0 {
            0
        } else {
            (hold / 16).max(self.plan.step_ns)
        };
        let sure_ns = self.latest_ns - hold;
        if self.plan.slot_end(self.groups.first).saturating_add(stride) > sure_ns {
            return self.close_swept();
        }
        if self.plan.extended {
            self.order.drain_to(sure_ns, &mut self.groups);
        }
        self.close_to(sure_ns)
    }

    /// If memory reached its limit, the sweep has advanced on its own; the slots that it has passed can be closed.
    fn close_swept(&mut self) -> Result<(), PlanError> {
        let swept = self.order.swept_to_ns();
        if self.plan.extended && swept > self.plan.slot_end(self.groups.first) {
            return self.close_to(swept);
        }
        Ok(())
    }

    /// Ends the stream: closes all slots up to `end_ns` (the recording's end) or the end of the window.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`] once there are.
    pub fn finish(&mut self, end_ns: i64) -> Result<(), PlanError> {
        let window = self.plan.window.closed_at(end_ns, self.last_done_ns);
        self.plan.window = window;
        self.order.finish(&mut self.groups);
        if window.len_ns() == 0 {
            return Ok(());
        }
        let last_slot = self.plan.slot_of(window.to_ns - 1);
        self.close_to(self.plan.slot_end(last_slot))
    }

    /// Returns the next complete row.
    pub fn next_row(&mut self) -> Option<Row> {
        let (slot, idle, unrecorded) = match self.closed.front_mut()? {
            ClosedRow::Row(_) => {
                return self.closed.pop_front().and_then(|c| {
                    if let ClosedRow::Row(row) = c {
                        Some(*row)
                    } else {
                        None
                    }
                });
            }
            ClosedRow::Idle {
                next,
                to,
                at,
                rows,
                unrecorded,
            } => {
                let now = (*next, rows[*at], *unrecorded);
                *at += 1;
                if *at == rows.len() {
                    *next += 1;
                    *at = 0;
                }
                if next == to {
                    self.closed.pop_front();
                }
                now
            }
        };
        let (from_ns, to_ns) = self.bounds(slot);
        Some(self.row(
            from_ns,
            to_ns,
            idle.group,
            &OpenRow::default(),
            (idle.lossy, unrecorded),
        ))
    }

    fn close_to(&mut self, to_ns: i64) -> Result<(), PlanError> {
        // The last slot may be cut short by the end of the window.
        let to = self
            .plan
            .slot_of(to_ns)
            .min(self.plan.slot_of(self.plan.window.to_ns - 1) + 1);
        while self.groups.first < to {
            let idle = self.groups.idle_slots(to - self.groups.first);
            if idle > 0 {
                self.close_idle(idle)?;
                continue;
            }
            let slot = self.groups.first;
            self.groups.sweep_all_to(self.bounds(slot).1);
            let open = self.groups.close_first();
            self.close_rows(slot, open)?;
        }
        let first_open_ns = self.bounds(self.groups.first).0;
        self.losses.retain(|l| l.to_ns >= first_open_ns);
        Ok(())
    }

    /// Closes at most `slots` empty slots, as long as the same losses apply to all of them.
    fn close_idle(&mut self, slots: i64) -> Result<(), PlanError> {
        let first = self.groups.first;
        let (from_ns, to_ns) = self.bounds(first);
        let mut end = first + slots;
        for loss in &self.losses {
            let edges = [loss.from_ns, loss.to_ns]
                .map(|at_ns| self.plan.slot_of(at_ns))
                .map(|slot| [slot, slot + 1]);
            end = edges
                .into_iter()
                .flatten()
                .filter(|edge| *edge > first)
                .fold(end, i64::min);
        }
        self.groups.skip(end - first);
        if self.quiet.is_empty() {
            return Ok(());
        }
        self.count((end - first) as u64 * self.quiet.len() as u64)?;
        let mut rows = Vec::with_capacity(self.quiet.len());
        for group in &self.quiet {
            rows.push(IdleRow {
                group: *group,
                lossy: self.is_lossy(from_ns, to_ns, self.groups.key(*group), 0),
            });
        }
        let unrecorded = self.is_unrecorded(from_ns, to_ns);
        self.closed.push_back(ClosedRow::Idle {
            next: first,
            to: end,
            at: 0,
            rows,
            unrecorded,
        });
        Ok(())
    }

    fn close_rows(&mut self, slot: i64, mut open: Vec<(u32, OpenRow)>) -> Result<(), PlanError> {
        for g in &self.always {
            if !open.iter().any(|(have, _)| have == g) {
                open.push((*g, OpenRow::default()));
            }
        }
        if open.is_empty() {
            open.extend(self.quiet.iter().map(|g| (*g, OpenRow::default())));
        }
        open.sort_by_key(|(g, _)| self.groups.key(*g));
        self.count(open.len() as u64)?;
        let (from_ns, to_ns) = self.bounds(slot);
        let unrecorded = self.is_unrecorded(from_ns, to_ns);
        let together = open.iter().map(|(_, row)| ios_of(row)).sum();
        for (g, open) in open {
            // Only devices tell which row a loss belongs to. For other groups, every row is assumed to miss the same
            // share.
            let seen = if self.plan.by == GroupBy::Device {
                ios_of(&open)
            } else {
                together
            };
            let lossy = self.is_lossy(from_ns, to_ns, self.groups.key(g), seen);
            self.closed.push_back(ClosedRow::Row(Box::new(self.row(
                from_ns,
                to_ns,
                g,
                &open,
                (lossy, unrecorded),
            ))));
        }
        Ok(())
    }

    fn count(&mut self, rows: u64) -> Result<(), PlanError> {
        self.made += rows;
        if self.made > MAX_ROWS && !self.plan.endless {
            Err(PlanError::TooManyRows)
        } else {
            Ok(())
        }
    }

    fn row(
        &self,
        from_ns: i64,
        to_ns: i64,
        g: u32,
        open: &OpenRow,
        (lossy, unrecorded): (bool, bool),
    ) -> Row {
        // Time without a recorder, or removed by the size limit, is unknown rather than idle.
        let known = !unrecorded || open.flows.iter().any(|f| f.ios > 0);
        Row {
            flows: open.flows,
            lossy,
            known,
            extended: self.plan.extended.then(|| {
                if known {
                    extended(open, to_ns - from_ns)
                } else {
                    Extended::default()
                }
            }),
            ..Row::empty(from_ns, to_ns, self.groups.key(g))
        }
    }

    /// Whether it is not known what was done in an interval of which no I/O is there: nothing was recorded in all of it, or the
    /// size limit removed some of it.
    fn is_unrecorded(&self, from_ns: i64, to_ns: i64) -> bool {
        let mut gaps = Vec::new();
        for lost in &self.losses {
            if !lost.is_unrecorded_time() || !lost.meets(from_ns, to_ns) {
                continue;
            }
            // There were I/Os: the number of those that are left says nothing.
            if lost.reason == LossReason::Retention {
                return true;
            }
            gaps.push((lost.from_ns, lost.to_ns));
        }
        // Adjacent gaps can cover the interval together.
        !gaps.is_empty() && within_ns(&union(gaps), from_ns, to_ns) == to_ns - from_ns
    }

    /// Start and end of a slot.
    fn bounds(&self, slot: i64) -> (i64, i64) {
        self.plan.bounds(slot, self.plan.window.to_ns)
    }

    /// Whether losses can change a row of `seen` I/Os by more than 1 %.
    fn is_lossy(&self, from_ns: i64, to_ns: i64, key: GroupKey, seen: u64) -> bool {
        let mut expected = 0.0;
        for lost in &self.losses {
            // Losses on another device do not affect this row.
            match (key, lost.dev) {
                (GroupKey::Device(dev), Some(of)) if dev != of => {}
                _ => expected += lost.expected_in(from_ns, to_ns),
            }
        }
        Lost::marks(expected, seen)
    }
}

/// I/Os of all classes.
fn ios_of(row: &OpenRow) -> u64 {
    row.flows.iter().map(|f| f.ios).sum()
}

/// Nanoseconds as microseconds.
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn extended(row: &OpenRow, len_ns: i64) -> Extended {
    let [r, w] = row.quantiles;
    Extended {
        r_p50_us: r.map(|q| us(q.p50_ns)),
        w_p50_us: w.map(|q| us(q.p50_ns)),
        r_p90_us: r.map(|q| us(q.p90_ns)),
        w_p90_us: w.map(|q| us(q.p90_ns)),
        r_p99_us: r.map(|q| us(q.p99_ns)),
        w_p99_us: w.map(|q| us(q.p99_ns)),
        r_max_us: r.map(|q| us(q.max_ns)),
        w_max_us: w.map(|q| us(q.max_ns)),
        in_flight: Some(SlotTime::of(row.flight.in_flight_ns, len_ns)),
        inflight_max: u64::try_from(row.flight.in_flight_max).ok(),
        busy: Some(SlotTime::of(row.flight.busy_ns, len_ns)),
        busy_of_class: row
            .busy_of_class_ns
            .map(|ns| Some(SlotTime::of(ns, len_ns))),
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
