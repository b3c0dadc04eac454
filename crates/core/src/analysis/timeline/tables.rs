//! Rows from imported tables: averages over intervals that need not be the slots'.

use std::collections::BTreeMap;

use super::{Extended, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::stats::weighted_mean;
use crate::model::{ClassRates, DevId, IntervalRates, Lost};

/// Makes rows from averages. A slot shows the mean over time of the averages whose intervals end in it; if none does, of
/// the one that covers its end: fifteen-second rows in steps of a second are fifteen equal rows. A slot that no interval
/// reaches is unknown, as is whatever a table does not say.
#[derive(Debug)]
pub struct TableTimeline {
    plan: TimelinePlan,
    devices: BTreeMap<DevId, Vec<IntervalRates>>,
    losses: Vec<Lost>,
}

/// So many rows after a slot are asked whether they cover it: several logs of one device may lie over each other.
const COVERING: usize = 16;

/// The mean of some averages of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    /// The classes, then all together.
    classes: [ClassRates; 5],
    in_flight: Option<f64>,
    util_percent: Option<f64>,
}

impl TableTimeline {
    /// Rows by `plan`; only all devices together or each by itself are possible.
    ///
    /// # Errors
    /// [`PlanError`] if the plan makes no sense or asks for too many rows.
    pub fn new(plan: TimelinePlan) -> Result<TableTimeline, PlanError> {
        plan.check()?;
        Ok(TableTimeline {
            plan,
            devices: BTreeMap::new(),
            losses: Vec::new(),
        })
    }

    /// Takes a row of a table; intervals of no length say nothing.
    pub fn push(&mut self, r: &IntervalRates) {
        if r.interval_ns() > 0 {
            self.devices.entry(r.dev).or_default().push(*r);
        }
    }

    /// Takes what is missing: rows that overlap it are marked.
    pub fn lost(&mut self, lost: &Lost) {
        self.losses.push(*lost);
    }

    /// All rows, one after the other, to the recording's end.
    ///
    /// # Errors
    /// [`PlanError::TooManyRows`].
    pub fn finish(mut self, end_ns: i64) -> Result<Vec<Row>, PlanError> {
        let latest = self
            .devices
            .values()
            .flatten()
            .map(|r| r.to_ns.saturating_sub(1))
            .max();
        let window = self.plan.window.closed_at(end_ns, latest);
        if window.len_ns() == 0 {
            return Ok(Vec::new());
        }
        self.devices
            .values_mut()
            .for_each(|rows| rows.sort_by_key(|r| (r.to_ns, r.from_ns)));
        let one = self.devices.len() == 1;
        let mut rows = Vec::new();
        for slot in 0..=self.plan.slot_of(window.to_ns - 1) {
            let (from_ns, to_ns) = self.plan.bounds(slot, window.to_ns);
            let mean_of = |dev: &DevId| {
                self.devices
                    .get(dev)
                    .and_then(|rows| mean_in(rows, from_ns, to_ns))
            };
            let lossy = self
                .losses
                .iter()
                .any(|l| l.from_ns < to_ns && l.to_ns > from_ns);
            let row = |key, mean: Option<Mean>, exact: bool| {
                self.row(from_ns, to_ns, key, mean, exact, lossy)
            };
            if self.plan.by == GroupBy::All {
                let means: Vec<Mean> = self.devices.keys().filter_map(mean_of).collect();
                rows.push(row(GroupKey::All, sum(&means), one));
            } else {
                let keys = self.plan.always_keys().into_iter().filter_map(|k| match k {
                    GroupKey::Device(dev) => Some(dev),
                    _ => None,
                });
                let mut devices: Vec<DevId> = keys.chain(self.devices.keys().copied()).collect();
                devices.sort_unstable();
                devices.dedup();
                rows.extend(
                    devices
                        .iter()
                        .map(|dev| row(GroupKey::Device(*dev), mean_of(dev), true)),
                );
            }
            if rows.len() as u64 > MAX_ROWS {
                return Err(PlanError::TooManyRows);
            }
        }
        Ok(rows)
    }

    fn row(
        &self,
        from_ns: i64,
        to_ns: i64,
        key: GroupKey,
        mean: Option<Mean>,
        one: bool,
        lossy: bool,
    ) -> Row {
        let mean = mean.unwrap_or_default();
        Row {
            averages: Some(mean.classes),
            lossy,
            // Over several devices busy times cannot be joined: they may overlap.
            extended: self.plan.extended.then(|| Extended {
                in_flight: mean.in_flight.filter(|_| one).map(SlotTime::Quotient),
                busy: mean.util_percent.filter(|_| one).map(SlotTime::Quotient),
                ..Extended::default()
            }),
            ..Row::empty(from_ns, to_ns, key)
        }
    }
}

/// What `rows`, in order of their ends, say of `[from_ns, to_ns)`; `None` if none of them reaches it.
fn mean_in(rows: &[IntervalRates], from_ns: i64, to_ns: i64) -> Option<Mean> {
    // An interval that ends on the boundary belongs to the slot before it.
    let first = rows.partition_point(|r| r.to_ns <= from_ns);
    let after = rows.partition_point(|r| r.to_ns <= to_ns);
    let inside = &rows[first..after];
    let later = &rows[after..];
    // Rows of one log need not say the same: bandwidth and latency may stand in files of their own.
    let covering: Vec<&IntervalRates> = later
        .iter()
        .take(COVERING)
        .filter(|r| r.from_ns < to_ns)
        .collect();
    let known = |get: &dyn Fn(&IntervalRates) -> Option<f64>| -> Vec<&IntervalRates> {
        let ended: Vec<_> = inside.iter().filter(|r| get(r).is_some()).collect();
        if ended.is_empty() {
            covering
                .iter()
                .copied()
                .find(|r| get(r).is_some())
                .into_iter()
                .collect()
        } else {
            ended
        }
    };
    let over_time = |get: &dyn Fn(&IntervalRates) -> Option<f64>| {
        weighted_mean(
            known(get)
                .into_iter()
                .filter_map(|r| Some((get(r)?, r.interval_ns() as f64))),
        )
    };
    // After the classes come all together.
    let class = |i: usize| {
        let of = |r: &IntervalRates| r.classes.get(i).copied().unwrap_or(r.all);
        // Where a row counts I/Os, no mean says that there were none.
        let counted = inside.iter().any(|r| of(r).ios_per_s.is_some());
        let mut timed = known(&|r| of(r).mean_us);
        timed.retain(|r| !counted || r.to_ns <= to_ns);
        // A mean weighs as much as the I/Os that it is of; several means alone do not say how many.
        let ios = |r: &IntervalRates| {
            let known = || {
                r.classes
                    .iter()
                    .filter_map(|c| c.ios_per_s)
                    .reduce(|a, b| a + b)
            };
            // `await` is of the reads and writes that stand beside it.
            let n = of(r)
                .ios_per_s
                .or_else(|| known().filter(|_| i >= r.classes.len()))?;
            Some(n * r.interval_ns() as f64)
        };
        let by_ios = weighted_mean(timed.iter().filter_map(|r| Some((of(r).mean_us?, ios(r)?))));
        let one = || {
            if let [r] = timed[..] {
                of(r).mean_us
            } else {
                None
            }
        };
        // Latency logs without counts: each interval weighs as long as it lasts.
        let over_time_alone = || {
            let countless = timed.iter().all(|r| ios(r).is_none());
            weighted_mean(
                timed
                    .iter()
                    .filter(|_| countless)
                    .filter_map(|r| Some((of(r).mean_us?, r.interval_ns() as f64))),
            )
        };
        ClassRates {
            ios_per_s: over_time(&|r| of(r).ios_per_s),
            bytes_per_s: over_time(&|r| of(r).bytes_per_s),
            merges_per_s: over_time(&|r| of(r).merges_per_s),
            mean_us: by_ios.or_else(one).or_else(over_time_alone),
        }
    };
    (!inside.is_empty() || !covering.is_empty()).then(|| Mean {
        classes: std::array::from_fn(class),
        in_flight: over_time(&|r| r.in_flight),
        util_percent: over_time(&|r| r.util_percent),
    })
}

/// Several devices together; what one of them does not say is not known of the sum.
fn sum(means: &[Mean]) -> Option<Mean> {
    let (first, rest) = means.split_first()?;
    let mut out = *first;
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    for m in rest {
        for (a, b) in out.classes.iter_mut().zip(&m.classes) {
            let of = |c: &ClassRates| Some((c.mean_us?, c.ios_per_s?)).filter(|(_, n)| *n > 0.0);
            let silent = |c: &ClassRates| c.mean_us.is_none() && c.ios_per_s != Some(0.0);
            let mean_us = weighted_mean([of(a), of(b)].into_iter().flatten())
                .filter(|_| !silent(a) && !silent(b));
            *a = ClassRates {
                ios_per_s: add(a.ios_per_s, b.ios_per_s),
                bytes_per_s: add(a.bytes_per_s, b.bytes_per_s),
                merges_per_s: add(a.merges_per_s, b.merges_per_s),
                mean_us,
            };
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stream::window::Window;
    use crate::model::{Class, LossReason};

    const S: i64 = 1_000_000_000;

    fn table(dev: i32, from_s: i64, to_s: i64, reads: f64, us: Option<f64>) -> IntervalRates {
        let mut r = IntervalRates::new(from_s * S, to_s * S, DevId(dev));
        r.classes[0] = ClassRates {
            ios_per_s: Some(reads),
            bytes_per_s: Some(reads * 4096.0),
            mean_us: us,
            merges_per_s: None,
        };
        r.util_percent = Some(reads / 2.0);
        r
    }

    fn rows(plan: TimelinePlan, tables: &[IntervalRates]) -> Vec<Row> {
        let mut t = TableTimeline::new(plan).expect("a good plan");
        tables.iter().for_each(|r| t.push(r));
        t.finish(0).expect("few rows")
    }

    fn reads(rows: &[Row]) -> Vec<Option<f64>> {
        rows.iter().map(|r| r.ios_per_s(Class::Read)).collect()
    }

    #[test]
    fn averages_are_neither_heaped_up_nor_zero_in_between() {
        let plan = TimelinePlan {
            extended: true,
            ..TimelinePlan::new(Window::OPEN, S)
        };
        let got = rows(
            plan,
            &[
                table(1, 2, 4, 179.0, Some(5590.0)),
                table(1, 4, 6, 165.0, Some(6020.0)),
            ],
        );
        assert_eq!(
            reads(&got),
            [
                None,
                None,
                Some(179.0),
                Some(179.0),
                Some(165.0),
                Some(165.0)
            ]
        );
        assert_eq!(
            (got[2].mean_us(Class::Read), got[0].mean_us(Class::Read)),
            (Some(5590.0), None)
        );
        assert_eq!(
            (
                got[2].kib_per_s(Class::Read),
                got[2].kib_per_s(Class::Write)
            ),
            (Some(716.0), None)
        );
        assert_eq!(got[5].extended.expect("planned").busy_percent(), Some(82.5));
    }

    #[test]
    fn longer_steps_weigh_rates_by_time_and_means_by_ios() {
        let tables = [
            table(1, 0, 1, 90.0, Some(100.0)),
            table(1, 1, 4, 10.0 / 3.0, Some(1100.0)),
            table(1, 4, 5, 0.0, None),
        ];
        let got = rows(TimelinePlan::new(Window::new(0, 6 * S), 4 * S), &tables);
        assert_eq!(
            reads(&got),
            [Some(25.0), Some(0.0)],
            "the last second is known to be idle, the one after is not"
        );
        assert_eq!(
            (got[0].mean_us(Class::Read), got[1].mean_us(Class::Read)),
            (Some(200.0), None)
        );
    }

    #[test]
    fn devices_add_up_as_far_as_all_of_them_are_known() {
        let mut silent = table(3, 0, 1, 1.0, None);
        silent.classes[0].ios_per_s = None;
        let two = [
            table(1, 0, 1, 10.0, Some(100.0)),
            table(2, 0, 1, 30.0, Some(200.0)),
        ];
        let got = rows(TimelinePlan::new(Window::OPEN, S), &two);
        assert_eq!(
            (reads(&got), got[0].mean_us(Class::Read)),
            (vec![Some(40.0)], Some(175.0))
        );
        let got = rows(TimelinePlan::new(Window::OPEN, S), &[two[0], silent]);
        assert_eq!(
            (reads(&got), got[0].kib_per_s(Class::Read)),
            (vec![None], Some(44.0))
        );
        let always = [1, 2, 9].map(|d| GroupKey::Device(DevId(d))).to_vec();
        let plan = TimelinePlan {
            by: GroupBy::Device,
            always,
            ..TimelinePlan::new(Window::OPEN, S)
        };
        assert_eq!(reads(&rows(plan, &two)), [Some(10.0), Some(30.0), None]);
    }

    #[test]
    fn logs_of_rates_and_of_means_lie_over_each_other() {
        let mut rate = table(1, 0, 2, 1.0, None);
        let mut mean = table(1, 0, 3, 1.0, Some(90.0));
        rate.classes[0].ios_per_s = None;
        (mean.classes[0].ios_per_s, mean.classes[0].bytes_per_s) = (None, None);
        let got = rows(TimelinePlan::new(Window::OPEN, 2 * S), &[rate, mean]);
        let seen = got.iter().map(|r| {
            (
                r.ios_per_s(Class::Read),
                r.kib_per_s(Class::Read),
                r.mean_us(Class::Read),
            )
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(None, Some(4.0), Some(90.0)), (None, None, Some(90.0))]
        );
        let late = IntervalRates {
            from_ns: S - 10,
            ..table(1, 0, 2, 5.0, Some(70.0))
        };
        let got = rows(
            TimelinePlan::new(Window::OPEN, S),
            &[table(1, 0, 1, 0.0, None), late],
        );
        assert_eq!(
            (got[0].mean_us(Class::Read), got[1].mean_us(Class::Read)),
            (None, Some(70.0))
        );
    }

    #[test]
    fn what_is_known_of_all_classes_only_is_shown() {
        let row = |s: i64, ios_per_s, us| {
            let mut r = IntervalRates::new(s * S, (s + 1) * S, DevId(1));
            r.all = ClassRates {
                ios_per_s: Some(ios_per_s),
                mean_us: Some(us),
                ..ClassRates::default()
            };
            r
        };
        let got = rows(
            TimelinePlan::new(Window::OPEN, 2 * S),
            &[row(0, 30.0, 100.0), row(1, 10.0, 300.0)],
        );
        let all = got[0].of_all_classes().expect("a table");
        assert_eq!(
            (all.ios_per_s, all.mean_us, reads(&got)),
            (Some(20.0), Some(150.0), vec![None])
        );
        let mut await_beside_reads = table(1, 0, 1, 10.0, None);
        await_beside_reads.all.mean_us = Some(7.0);
        let got = rows(TimelinePlan::new(Window::OPEN, S), &[await_beside_reads]);
        assert_eq!(got[0].of_all_classes().and_then(|a| a.mean_us), Some(7.0));
        let alone = |s, us| IntervalRates {
            classes: [ClassRates {
                mean_us: Some(us),
                ..ClassRates::default()
            }; 4],
            ..row(s, 1.0, 1.0)
        };
        let got = rows(
            TimelinePlan::new(Window::OPEN, 2 * S),
            &[alone(0, 100.0), alone(1, 300.0)],
        );
        assert_eq!(
            got[0].mean_us(Class::Read),
            Some(200.0),
            "means without counts weigh by time"
        );
    }

    #[test]
    fn what_is_lost_marks_its_rows() {
        let mut t = TableTimeline::new(TimelinePlan::new(Window::OPEN, S)).expect("a good plan");
        t.push(&table(1, 0, 3, 1.0, None));
        t.lost(&Lost::somewhere(S, 2 * S, LossReason::Import));
        let lossy: Vec<bool> = t
            .finish(0)
            .expect("few rows")
            .iter()
            .map(|r| r.lossy)
            .collect();
        assert_eq!(lossy, [false, true, false]);
    }
}
