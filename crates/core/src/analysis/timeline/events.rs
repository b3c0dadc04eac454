//! Rows from single I/Os.

use std::collections::VecDeque;

use super::super::order::{Clipped, Hold, Span, StartOrder};
use super::groups::{Groups, OpenRow};
use super::{Extended, Flow, GroupKey, MAX_ROWS, PlanError, Row, TimelinePlan};
use crate::model::{Io, LossReason, Lost};

/// Makes rows from completed I/Os, while they stream.
///
/// Take rows with [`Timeline::next_row`] after each push; they come in order of time and, within a slot, of group.
/// They are held back for [`Hold`] (30 s unless told otherwise) because a long I/O that is still in flight, or a loss
/// that is still to be reported, changes slots of the past; what comes later than that is counted in
/// [`Timeline::clipped`] and [`Timeline::late_losses`].
#[derive(Debug)]
pub struct Timeline {
    plan: TimelinePlan,
    hold: Hold,
    groups: Groups,
    always: Vec<u32>,
    order: StartOrder,
    losses: Vec<Lost>,
    late_losses: u64,
    latest_ns: i64,
    last_done_ns: Option<i64>,
    closed: VecDeque<Closed>,
    made: u64,
}

/// What next_row gives out. Idle stretches are kept as such: a quiet night at 1 ms must not fill the memory.
#[derive(Debug)]
enum Closed {
    Row(Box<Row>),
    Idle { next: i64, to: i64, group: usize, lossy: Vec<bool> },
}

impl Timeline {
    /// Rows by `plan`, held back for 30 s.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<Timeline, PlanError> {
        Timeline::with_hold(plan, Hold::ROWS)
    }

    /// The same with a given patience: short for a live view, long for devices that hang for minutes.
    ///
    /// # Errors
    /// As [`Timeline::new`].
    pub fn with_hold(plan: TimelinePlan, hold: Hold) -> Result<Timeline, PlanError> {
        plan.check()?;
        let mut groups = Groups::new(plan.clone());
        let always = plan.always_keys().into_iter().map(|k| groups.number(k)).collect();
        Ok(Timeline {
            latest_ns: plan.window.from_ns,
            plan,
            hold,
            groups,
            always,
            order: StartOrder::new(hold),
            losses: Vec::new(),
            late_losses: 0,
            last_done_ns: None,
            closed: VecDeque::new(),
            made: 0,
        })
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
            // An I/O out of order by more than the hold can only be counted where rows are still open.
            let slot = self.plan.slot_of(io.done_ns).max(self.groups.first);
            let flow = Flow { ios: 1, bytes: io.bytes.max(0) as u64, total_ns: io.total_ns() };
            self.groups.complete(g, slot, io.class(), flow, self.plan.extended);
            self.last_done_ns = self.last_done_ns.max(Some(io.done_ns));
        }
        if self.plan.extended && io.start_ns() < self.plan.window.to_ns {
            self.order.push(Span::of(io, g), &mut self.groups);
        }
        Ok(())
    }

    /// Takes what is missing: rows that overlap it are marked. Censored I/Os mark nothing.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason == LossReason::Censored || lost.reason.is_of_requests() {
            return;
        }
        if self.plan.slot_of(lost.from_ns.max(self.plan.window.from_ns)) < self.groups.first {
            self.late_losses += 1;
        }
        self.losses.push(*lost);
    }

    /// Nothing will complete before `now_ns` any more: lets slots close while a device is idle.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`] once there are.
    pub fn advance(&mut self, now_ns: i64) -> Result<(), PlanError> {
        self.latest_ns = self.latest_ns.max(now_ns);
        let hold = self.hold.ns.min(i64::MAX / 4);
        // Closing in strides keeps the cost of a sweep away from each single I/O. Without a hold there is none to keep
        // away, and a row is wanted as soon as its slot is over.
        let stride = if hold == 0 { 0 } else { (hold / 16).max(self.plan.step_ns) };
        let sure_ns = self.latest_ns - hold;
        if self.plan.slot_end(self.groups.first).saturating_add(stride) > sure_ns {
            return self.close_swept();
        }
        if self.plan.extended {
            self.order.drain_to(sure_ns, &mut self.groups);
        }
        self.close_to(sure_ns)
    }

    /// Memory ran into its limit and the sweep went on by itself: what it has passed may close.
    fn close_swept(&mut self) -> Result<(), PlanError> {
        let swept = self.order.swept_to_ns();
        if self.plan.extended && swept > self.plan.slot_end(self.groups.first) {
            return self.close_to(swept);
        }
        Ok(())
    }

    /// The end of the stream: all slots up to `end_ns` (the recording's end) or the window's end close.
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

    /// The next row that is complete.
    pub fn next_row(&mut self) -> Option<Row> {
        let (slot, g, lossy) = match self.closed.front_mut()? {
            Closed::Row(_) => {
                return self.closed.pop_front().and_then(|c| if let Closed::Row(row) = c { Some(*row) } else { None });
            }
            Closed::Idle { next, to, group, lossy } => {
                let now = (*next, *group, lossy[*group]);
                *group += 1;
                if *group == lossy.len() {
                    (*next, *group) = (*next + 1, 0);
                }
                if next == to {
                    self.closed.pop_front();
                }
                now
            }
        };
        let (from_ns, to_ns) = self.bounds(slot);
        Some(self.row(from_ns, to_ns, self.always[g], &OpenRow::default(), lossy))
    }

    /// I/Os that outlived the hold.
    pub fn clipped(&self) -> Clipped {
        self.order.clipped()
    }

    /// Losses that were reported after rows they belong to had gone out.
    pub fn late_losses(&self) -> u64 {
        self.late_losses
    }

    fn close_to(&mut self, to_ns: i64) -> Result<(), PlanError> {
        // The last slot may be a short one; it is closed by the window's end.
        let to = self.plan.slot_of(to_ns).min(self.plan.slot_of(self.plan.window.to_ns - 1) + 1);
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

    /// Closes at most `slots` empty slots, as far as the same losses hold for all of them.
    fn close_idle(&mut self, slots: i64) -> Result<(), PlanError> {
        let first = self.groups.first;
        let (from_ns, to_ns) = self.bounds(first);
        let mut end = first + slots;
        for loss in &self.losses {
            for edge in [self.plan.slot_of(loss.from_ns), self.plan.slot_of(loss.to_ns) + 1] {
                end = if edge > first { end.min(edge) } else { end };
            }
        }
        self.groups.skip(end - first);
        if self.always.is_empty() {
            return Ok(());
        }
        self.count((end - first) as u64 * self.always.len() as u64)?;
        let lossy = self.always.iter().map(|g| self.is_lossy(from_ns, to_ns, self.groups.key(*g))).collect();
        self.closed.push_back(Closed::Idle { next: first, to: end, group: 0, lossy });
        Ok(())
    }

    fn close_rows(&mut self, slot: i64, mut open: Vec<(u32, OpenRow)>) -> Result<(), PlanError> {
        for g in &self.always {
            if !open.iter().any(|(have, _)| have == g) {
                open.push((*g, OpenRow::default()));
            }
        }
        open.sort_by_key(|(g, _)| self.groups.key(*g));
        self.count(open.len() as u64)?;
        let (from_ns, to_ns) = self.bounds(slot);
        for (g, open) in open {
            let lossy = self.is_lossy(from_ns, to_ns, self.groups.key(g));
            self.closed.push_back(Closed::Row(Box::new(self.row(from_ns, to_ns, g, &open, lossy))));
        }
        Ok(())
    }

    fn count(&mut self, rows: u64) -> Result<(), PlanError> {
        self.made += rows;
        if self.made > MAX_ROWS { Err(PlanError::TooManyRows) } else { Ok(()) }
    }

    fn row(&self, from_ns: i64, to_ns: i64, g: u32, open: &OpenRow, lossy: bool) -> Row {
        Row {
            from_ns,
            to_ns,
            key: self.groups.key(g),
            flows: open.flows,
            averages: None,
            lossy,
            known: true,
            extended: self.plan.extended.then(|| extended(open, to_ns - from_ns)),
        }
    }

    /// A slot's beginning and end.
    fn bounds(&self, slot: i64) -> (i64, i64) {
        (self.plan.slot_end(slot - 1), self.plan.slot_end(slot).min(self.plan.window.to_ns))
    }

    fn is_lossy(&self, from_ns: i64, to_ns: i64, key: GroupKey) -> bool {
        let concerns = |l: &Lost| match (key, l.dev) {
            (GroupKey::Device(dev), Some(lost)) => dev == lost,
            _ => true,
        };
        self.losses.iter().any(|l| l.from_ns < to_ns && l.to_ns >= from_ns && concerns(l))
    }
}

fn extended(row: &OpenRow, len_ns: i64) -> Extended {
    let us = |ns: i64| ns as f64 / 1e3;
    let [r, w] = row.tails;
    Extended {
        r_p99_us: r.map(|t| us(t.0)),
        w_p99_us: w.map(|t| us(t.0)),
        r_max_us: r.map(|t| us(t.1)),
        w_max_us: w.map(|t| us(t.1)),
        inflight_mean: Some(row.area_ns as f64 / len_ns as f64),
        inflight_max: Some(row.max),
        busy_percent: Some(100.0 * row.busy_ns as f64 / len_ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupBy;
    use super::*;
    use crate::analysis::window::Window;
    use crate::model::{Class, DevId, Op};
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;
    const A: DevId = DevId(8 << 20);
    const B: DevId = DevId(9 << 20);

    fn rows_of(plan: TimelinePlan, hold: Hold, ios: &[Io], end_ns: i64) -> Vec<Row> {
        let mut t = Timeline::with_hold(plan, hold).expect("a good plan");
        let mut rows = Vec::new();
        for io in ios {
            t.push(io).expect("few rows");
            rows.extend(std::iter::from_fn(|| t.next_row()));
        }
        t.finish(end_ns).expect("few rows");
        rows.extend(std::iter::from_fn(|| t.next_row()));
        rows
    }

    fn extended_plan(step_ns: i64, by: GroupBy) -> TimelinePlan {
        TimelinePlan { by, extended: true, ..TimelinePlan::new(Window::OPEN, step_ns) }
    }

    #[test]
    fn every_slot_has_a_row_and_empty_ones_have_no_mean() {
        let io = Io::new(25 * MS, A, Op::WRITE, 2048, Some(MS), 2 * MS);
        let rows = rows_of(TimelinePlan::new(Window::OPEN, 10 * MS), Hold::ROWS, &[io], 50 * MS);
        assert_eq!(rows.iter().map(|r| r.to_ns / MS).collect::<Vec<_>>(), [10, 20, 30, 40, 50]);
        assert_eq!(rows.iter().map(|r| r.flows[1].ios).collect::<Vec<_>>(), [0, 0, 1, 0, 0]);
        assert_eq!((rows[2].ios_per_s(Class::Write), rows[2].kib_per_s(Class::Write)), (Some(100.0), Some(200.0)));
        assert_eq!((rows[2].mean_us(Class::Write), rows[2].mean_us(Class::Read)), (Some(3000.0), None));
    }

    #[test]
    fn a_completion_on_the_boundary_belongs_to_the_next_slot() {
        let io = Io::new(10 * MS, A, Op::READ, 512, None, MS);
        let rows = rows_of(TimelinePlan::new(Window::OPEN, 10 * MS), Hold::ROWS, &[io], 0);
        assert_eq!(rows.iter().map(|r| r.flows[0].ios).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(rows[1].to_ns, 10 * MS + 1, "the last slot ends with the recording");
    }

    #[test]
    fn a_long_io_fills_the_slots_it_covers() {
        let io = Io::new(35 * MS, A, Op::READ, 512, Some(5 * MS), 20 * MS);
        let rows = rows_of(extended_plan(10 * MS, GroupBy::All), Hold::ROWS, &[io], 40 * MS);
        let busy: Vec<_> = rows.iter().map(|r| r.extended.expect("planned").busy_percent).collect();
        assert_eq!(busy, [Some(0.0), Some(100.0), Some(100.0), Some(50.0)]);
        let x = rows[3].extended.expect("planned");
        assert_eq!((x.r_p99_us, x.r_max_us, x.w_max_us, x.inflight_max), (Some(25000.0), Some(25000.0), None, Some(1)));
    }

    #[test]
    fn losses_mark_the_rows_of_their_device() {
        let lost = Lost {
            from_ns: 15 * MS,
            to_ns: 21 * MS,
            dev: Some(B),
            class: None,
            reason: LossReason::RingFull,
            ios: None,
            bytes: None,
            merges: None,
        };
        let plan = TimelinePlan {
            by: GroupBy::Device,
            always: vec![A, B].into_iter().map(GroupKey::Device).collect(),
            ..TimelinePlan::new(Window::OPEN, 10 * MS)
        };
        let mut t = Timeline::new(plan).expect("a good plan");
        t.lost(&lost);
        t.finish(40 * MS).expect("few rows");
        let rows: Vec<_> = std::iter::from_fn(|| t.next_row()).map(|r| (r.key, r.to_ns / MS, r.lossy)).collect();
        let lossy: Vec<_> = rows.iter().filter(|r| r.2).map(|r| (r.0, r.1)).collect();
        assert_eq!((rows.len(), lossy), (8, vec![(GroupKey::Device(B), 20), (GroupKey::Device(B), 30)]));
    }

    #[test]
    fn impossible_plans_are_refused_in_words() {
        let err = |p: TimelinePlan| Timeline::new(p).map(|_| ()).expect_err("refused").to_string();
        assert!(err(TimelinePlan::new(Window::OPEN, 0)).contains("finest is 1 ms"));
        assert!(err(TimelinePlan::new(Window::new(5, 5), MS)).contains("nothing between"));
        assert!(err(TimelinePlan::new(Window::new(0, 11_000_000 * MS), MS)).contains("10000000 rows"));
        let mut t = Timeline::new(TimelinePlan::new(Window::OPEN, MS)).expect("open");
        let far = Io::new(20_000_000 * MS, A, Op::READ, 0, None, 0);
        assert_eq!(t.push(&far), Err(PlanError::TooManyRows), "noticed while streaming too");
    }

    #[test]
    fn what_comes_after_the_window_makes_no_rows() {
        let ios =
            [Io::new(5 * MS, A, Op::READ, 512, None, MS), Io::new(500_000 * MS, A, Op::READ, 512, None, 499_980 * MS)];
        let plan = TimelinePlan { window: Window::new(0, 25 * MS), ..extended_plan(10 * MS, GroupBy::All) };
        let rows = rows_of(plan, Hold { spans: 1 << 20, ns: i64::MAX }, &ios, 0);
        let busy: Vec<_> = rows.iter().map(|r| r.extended.expect("planned").busy_percent).collect();
        assert_eq!((busy, rows[2].to_ns), (vec![Some(10.0), Some(0.0), Some(100.0)], 25 * MS));
    }

    fn ios() -> impl Strategy<Value = Vec<Io>> {
        let one = (0i64..200 * MS, prop_oneof![0i64..MS, 0i64..90 * MS], 0i64..3 * MS, any::<bool>(), any::<bool>());
        prop::collection::vec(one, 0..60).prop_map(|v| {
            let mut ios: Vec<_> = v
                .into_iter()
                .map(|(done, dev_ns, q, write, b)| {
                    Io::new(done, if b { B } else { A }, if write { Op::WRITE } else { Op::READ }, 512, Some(q), dev_ns)
                })
                .collect();
            ios.sort_by_key(|i| i.done_ns);
            ios
        })
    }

    /// Every instant's level over `[from, to)`, by brute force over the edges.
    fn brute(ios: &[&Io], from: i64, to: i64) -> (f64, u64, f64) {
        let mut cuts: Vec<i64> =
            ios.iter().flat_map(|i| [i.start_ns(), i.done_ns]).filter(|t| from < *t && *t < to).collect();
        cuts.extend([from, to]);
        cuts.sort_unstable();
        let (mut area, mut busy, mut max) = (0, 0, 0);
        for w in cuts.windows(2).filter(|w| w[0] < w[1]) {
            let n = ios.iter().filter(|i| i.start_ns() <= w[0] && w[0] < i.done_ns).count() as i64;
            area += n * (w[1] - w[0]);
            busy += (w[1] - w[0]) * i64::from(n > 0);
            max = max.max(n as u64);
        }
        let len = (to - from) as f64;
        (area as f64 / len, max, 100.0 * busy as f64 / len)
    }

    proptest! {
        #[test]
        fn rows_equal_brute_force_at_any_step_and_hold(ios in ios(), step in 1i64..40, hold_ms in 94i64..200) {
            for by in [GroupBy::All, GroupBy::Device] {
                let hold = Hold { spans: 1000, ns: hold_ms * MS };
                let rows = rows_of(extended_plan(step * MS, by), hold, &ios, 210 * MS);
                for row in &rows {
                    let mine: Vec<&Io> = ios.iter().filter(|i| by.key(i) == row.key).collect();
                    let x = row.extended.expect("planned");
                    let (mean, max, busy) = brute(&mine, row.from_ns, row.to_ns);
                    prop_assert!((x.inflight_mean.expect("known") - mean).abs() < 1e-9);
                    prop_assert_eq!(x.inflight_max, Some(max));
                    prop_assert!((x.busy_percent.expect("known") - busy).abs() < 1e-9);
                    let mut reads: Vec<i64> = mine.iter().filter(|i| i.class() == Class::Read && row.from_ns <= i.done_ns && i.done_ns < row.to_ns).map(|i| i.total_ns()).collect();
                    reads.sort_unstable();
                    prop_assert_eq!(row.flows[0].ios, reads.len() as u64);
                    prop_assert_eq!(row.flows[0].total_ns, reads.iter().sum::<i64>());
                    prop_assert_eq!(x.r_max_us, reads.last().map(|v| *v as f64 / 1e3));
                    let rank = (0.99 * reads.len() as f64).ceil() as usize;
                    prop_assert_eq!(x.r_p99_us, reads.get(rank.wrapping_sub(1)).map(|v| *v as f64 / 1e3));
                }
                let counted: u64 = rows.iter().flat_map(|r| &r.flows).map(|f| f.ios).sum();
                prop_assert_eq!(counted, ios.len() as u64);
                if by == GroupBy::All {
                    prop_assert_eq!(rows.len() as i64, 210_i64.div_euclid(step) + i64::from(210 % step != 0));
                }
            }
        }

        #[test]
        fn finer_rows_sum_to_coarser_ones(ios in ios(), k in 1i64..8) {
            let fine = rows_of(TimelinePlan::new(Window::new(0, 240 * MS), 2 * MS), Hold::ROWS, &ios, 0);
            let coarse = rows_of(TimelinePlan::new(Window::new(0, 240 * MS), 2 * k * MS), Hold::ROWS, &ios, 0);
            let summed: Vec<_> = fine.chunks(k as usize).filter_map(super::super::sum_rows).collect();
            prop_assert_eq!(summed, coarse);
        }
    }
}
