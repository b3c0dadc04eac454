//! Rows from imported tables, whose intervals need not match the slots.

use std::collections::BTreeMap;

use super::{Extended, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::stats::weighted_mean;
use crate::model::{ClassRates, DevId, IntervalRates, Lost};

/// Computes rows from averages. A slot shows the time-weighted mean of the averages whose intervals end in it. If there
/// are none, it shows the average that covers its end: a row of fifteen seconds makes fifteen equal rows of one second.
/// A slot that no interval covers is unknown, and so is every value that a table does not have.
#[derive(Debug)]
pub struct TableTimeline {
    plan: TimelinePlan,
    devices: BTreeMap<DevId, Vec<IntervalRates>>,
    losses: Vec<Lost>,
}

/// Number of later rows that are checked for covering a slot, because several logs of one device may overlap.
const COVERING: usize = 16;

/// The mean of some averages of one device.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    /// The four classes, then all together.
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

    /// Takes a row of a table; rows of zero length are ignored.
    pub fn push(&mut self, r: &IntervalRates) {
        if r.interval_ns() > 0 {
            self.devices.entry(r.dev).or_default().push(*r);
        }
    }

    /// Takes a loss; rows that overlap it are marked.
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
            let lossy = self
                .losses
                .iter()
                .any(|l| l.from_ns < to_ns && l.to_ns > from_ns);
            if self.plan.by == GroupBy::All {
                let means: Vec<Mean> = self
                    .devices
                    .values()
                    .filter_map(|rates| mean_in(rates, from_ns, to_ns))
                    .collect();
                let all = sum(&means);
                rows.push(self.row(from_ns, to_ns, GroupKey::All, all, one, lossy));
            } else {
                // Requested devices have a row even if no table has values for them.
                let keys = self.plan.always_keys().into_iter().filter_map(|k| match k {
                    GroupKey::Device(dev) => Some(dev),
                    _ => None,
                });
                let mut devices: Vec<DevId> = keys.chain(self.devices.keys().copied()).collect();
                devices.sort_unstable();
                devices.dedup();
                for dev in devices {
                    let rates = self.devices.get(&dev);
                    let mean = rates.and_then(|rates| mean_in(rates, from_ns, to_ns));
                    let key = GroupKey::Device(dev);
                    rows.push(self.row(from_ns, to_ns, key, mean, true, lossy));
                }
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
            // Busy times of several devices cannot be added, because they may overlap.
            extended: self.plan.extended.then(|| Extended {
                in_flight: mean.in_flight.filter(|_| one).map(SlotTime::Quotient),
                busy: mean.util_percent.filter(|_| one).map(SlotTime::Quotient),
                ..Extended::default()
            }),
            ..Row::empty(from_ns, to_ns, key)
        }
    }
}

/// The mean of `rows`, which are ordered by their ends, over `[from_ns, to_ns)`; `None` if no row reaches it.
fn mean_in(rows: &[IntervalRates], from_ns: i64, to_ns: i64) -> Option<Mean> {
    // An interval that ends on the boundary belongs to the slot before it.
    let first = rows.partition_point(|r| r.to_ns <= from_ns);
    let after = rows.partition_point(|r| r.to_ns <= to_ns);
    let inside = &rows[first..after];
    let later = &rows[after..];
    // Rows of one log need not have the same columns: bandwidth and latency may come from separate files.
    let covering: Vec<&IntervalRates> = later
        .iter()
        .take(COVERING)
        .filter(|r| r.from_ns < to_ns)
        .collect();
    if inside.is_empty() && covering.is_empty() {
        return None;
    }
    let slot = SlotRates {
        inside,
        covering,
        to_ns,
    };
    Some(Mean {
        classes: std::array::from_fn(|class| slot.class(class)),
        in_flight: slot.over_time(|r| r.in_flight),
        util_percent: slot.over_time(|r| r.util_percent),
    })
}

/// The averages that apply to one slot.
struct SlotRates<'a> {
    /// Averages whose intervals end in the slot.
    inside: &'a [IntervalRates],
    /// Averages whose intervals end later and cover the slot's end.
    covering: Vec<&'a IntervalRates>,
    /// End of the slot.
    to_ns: i64,
}

impl<'a> SlotRates<'a> {
    /// The averages that have this value: those that end in the slot, or else the first that covers its end.
    fn known(&self, get: impl Fn(&IntervalRates) -> Option<f64>) -> Vec<&'a IntervalRates> {
        let ended: Vec<&IntervalRates> = self.inside.iter().filter(|r| get(r).is_some()).collect();
        if !ended.is_empty() {
            return ended;
        }
        let covering = self.covering.iter().find(|r| get(r).is_some());
        covering.copied().into_iter().collect()
    }

    /// Time-weighted mean of a value.
    fn over_time(&self, get: impl Fn(&IntervalRates) -> Option<f64>) -> Option<f64> {
        let known = self.known(&get);
        weighted_mean(
            known
                .into_iter()
                .filter_map(|r| Some((get(r)?, r.interval_ns() as f64))),
        )
    }

    /// The means of a class, numbered as in [`Mean::classes`].
    fn class(&self, class: usize) -> ClassRates {
        let mut timed = self.known(|r| of_class(r, class).mean_us);
        // If a row that ends in the slot has the number of I/Os, a latency from a later row must not be shown.
        let mut rows = self.inside.iter();
        if rows.any(|r| of_class(r, class).ios_per_s.is_some()) {
            timed.retain(|r| r.to_ns <= self.to_ns);
        }
        ClassRates {
            ios_per_s: self.over_time(|r| of_class(r, class).ios_per_s),
            bytes_per_s: self.over_time(|r| of_class(r, class).bytes_per_s),
            merges_per_s: self.over_time(|r| of_class(r, class).merges_per_s),
            mean_us: mean_latency(&timed, class),
        }
    }
}

/// A row's values for a class; the index after the classes stands for all together.
fn of_class(r: &IntervalRates, class: usize) -> ClassRates {
    r.classes.get(class).copied().unwrap_or(r.all)
}

/// Number of I/Os that a row's mean latency covers, if the row has it.
fn ios_in(r: &IntervalRates, class: usize) -> Option<f64> {
    let mut per_s = of_class(r, class).ios_per_s;
    // `await` covers the reads and writes in the same row.
    if per_s.is_none() && class >= r.classes.len() {
        let known = r.classes.iter().filter_map(|c| c.ios_per_s);
        per_s = known.reduce(|a, b| a + b);
    }
    Some(per_s? * r.interval_ns() as f64)
}

/// The mean latency of a class in microseconds over the rows `timed`, all of which have one.
fn mean_latency(timed: &[&IntervalRates], class: usize) -> Option<f64> {
    // Means are weighted by their I/Os, if these are known.
    let by_ios = weighted_mean(
        timed
            .iter()
            .filter_map(|r| Some((of_class(r, class).mean_us?, ios_in(r, class)?))),
    );
    if by_ios.is_some() {
        return by_ios;
    }
    if let [only] = timed {
        return of_class(only, class).mean_us;
    }
    // Latency logs without counts: each interval is weighted by its length.
    if timed.iter().any(|r| ios_in(r, class).is_some()) {
        return None;
    }
    weighted_mean(
        timed
            .iter()
            .filter_map(|r| Some((of_class(r, class).mean_us?, r.interval_ns() as f64))),
    )
}

/// The sum over several devices. A value that one of them does not have is unknown in the sum.
fn sum(means: &[Mean]) -> Option<Mean> {
    let (first, rest) = means.split_first()?;
    let mut out = *first;
    for m in rest {
        for (a, b) in out.classes.iter_mut().zip(&m.classes) {
            // A device without I/Os adds nothing to the mean. With I/Os of unknown latency on a device, the mean is
            // unknown.
            let mean_us = if is_silent(a) || is_silent(b) {
                None
            } else {
                weighted_mean([latency(a), latency(b)].into_iter().flatten())
            };
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

fn add(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

/// Mean latency in microseconds and the I/Os per second that it covers; `None` without I/O.
fn latency(rates: &ClassRates) -> Option<(f64, f64)> {
    let ios_per_s = rates.ios_per_s?;
    let mean_us = rates.mean_us?;
    (ios_per_s > 0.0).then_some((mean_us, ios_per_s))
}

/// Whether there may have been I/Os of unknown latency.
fn is_silent(rates: &ClassRates) -> bool {
    rates.mean_us.is_none() && rates.ios_per_s != Some(0.0)
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
        mean.classes[0].ios_per_s = None;
        mean.classes[0].bytes_per_s = None;
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
