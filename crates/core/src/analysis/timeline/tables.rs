//! Rows from imported tables, whose intervals need not match the slots.

use std::collections::{BTreeMap, BTreeSet};

use super::table_intervals::{Covered, LEAST_SHARE, RowInterval, own_intervals};
use super::{Extended, GroupBy, GroupKey, MAX_ROWS, PlanError, Row, SlotTime, TimelinePlan};
use crate::analysis::math::intervals::{total_ns, union};
use crate::analysis::math::stats::weighted_mean;
use crate::model::{ClassRates, DevId, Device, IntervalRates, Lost};

/// Makes rows from averages. A slot shows the mean of the averages that overlap it, each weighted by the time that both have in
/// common: fifteen-second rows in steps of a second are fifteen equal rows. A slot that no interval reaches is unknown, as is
/// whatever a table does not say.
///
/// With [`TimelinePlan::own_intervals`] the slots are the intervals of the finest table, which shows its rows unchanged.
#[derive(Debug)]
pub struct TableTimeline {
    plan: TimelinePlan,
    devices: BTreeMap<DevId, Vec<IntervalRates>>,
    /// Those of them that are sums over others.
    sums: BTreeSet<DevId>,
    losses: Vec<Lost>,
}

/// Number of later rows that are checked for covering a slot, because several logs of one device may overlap.
const COVERING: usize = 16;

/// A row whose part in a slot is below this share of the shorter of both touches the slot only: times in logs are rounded.
const LEAST_PART: i64 = 1000;

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
            sums: BTreeSet::new(),
            losses: Vec::new(),
        })
    }

    /// Which of the devices are sums. They stand for all devices where none has a row, and are not missed where some have.
    #[must_use]
    pub fn with_sums_of(mut self, devices: &[Device]) -> TableTimeline {
        let sums = devices.iter().filter(|d| d.is_sum());
        self.sums = sums.map(|d| d.id).collect();
        self
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
        for rows in self.devices.values_mut() {
            rows.sort_by_key(|r| (r.to_ns, r.from_ns));
        }
        let shown = self.shown_devices();
        let mut rows = Vec::new();
        if self.plan.own_intervals {
            for (from_ns, to_ns) in own_intervals(&self.devices, window) {
                self.add_rows(from_ns, to_ns, &shown, &mut rows)?;
            }
            return Ok(rows);
        }
        for slot in 0..=self.plan.slot_of(window.to_ns - 1) {
            let (from_ns, to_ns) = self.plan.bounds(slot, window.to_ns);
            self.add_rows(from_ns, to_ns, &shown, &mut rows)?;
        }
        Ok(rows)
    }

    /// Devices with a row in each slot. Those that were asked for have one even where no table says anything of them.
    fn shown_devices(&self) -> BTreeSet<DevId> {
        let mut shown: BTreeSet<DevId> = self.devices.keys().copied().collect();
        for key in self.plan.always_keys() {
            if let GroupKey::Device(dev) = key {
                shown.insert(dev);
            }
        }
        shown
    }

    /// Adds the rows of a slot to `rows`.
    fn add_rows(
        &self,
        from_ns: i64,
        to_ns: i64,
        shown: &BTreeSet<DevId>,
        rows: &mut Vec<Row>,
    ) -> Result<(), PlanError> {
        let lossy = self
            .losses
            .iter()
            .any(|l| l.from_ns < to_ns && l.to_ns > from_ns);
        if self.plan.by == GroupBy::All {
            let all = self.all_in(from_ns, to_ns);
            let one = self.devices.len() == 1;
            rows.push(self.row(from_ns, to_ns, GroupKey::All, all, one, lossy));
        } else {
            for dev in shown {
                let mean = self.device_in(*dev, from_ns, to_ns);
                let key = GroupKey::Device(*dev);
                rows.push(self.row(from_ns, to_ns, key, mean, true, lossy));
            }
        }
        if rows.len() as u64 > MAX_ROWS {
            return Err(PlanError::TooManyRows);
        }
        Ok(())
    }

    /// Parts of slots and rows below one in so many are the inexactness of clocks.
    fn least_part(&self) -> i64 {
        // Rows of devices that end nearly at the same time are of the same interval.
        if self.plan.own_intervals {
            LEAST_SHARE
        } else {
            LEAST_PART
        }
    }

    /// What the tables say of a device in a slot.
    fn device_in(&self, dev: DevId, from_ns: i64, to_ns: i64) -> Option<Mean> {
        let rows = self.devices.get(&dev)?;
        mean_of(parts_in(rows, from_ns, to_ns, self.least_part()))
    }

    /// What the tables say of all devices together; unknown if they say nothing of one of them, or not of the same time.
    fn all_in(&self, from_ns: i64, to_ns: i64) -> Option<Mean> {
        let mut devices: Vec<Option<Mean>> = Vec::new();
        let mut times: Vec<Vec<RowInterval>> = Vec::new();
        let mut sums: Vec<Mean> = Vec::new();
        for (dev, rows) in &self.devices {
            let parts = parts_in(rows, from_ns, to_ns, self.least_part());
            if self.sums.contains(dev) {
                sums.extend(mean_of(parts));
            } else {
                times.push(union(parts.iter().map(|part| (part.from_ns, part.to_ns))));
                devices.push(mean_of(parts));
            }
        }
        if devices.iter().all(Option::is_none) {
            return sum(&sums);
        }
        // A mean over one part of the slot and one over another have no sum.
        if !are_same_time(&times, (to_ns - from_ns) / self.least_part()) {
            return None;
        }
        let means: Option<Vec<Mean>> = devices.into_iter().collect();
        sum(&means?)
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

/// Whether all these times, each in order and without overlap, are the same but for `least_ns`.
fn are_same_time(times: &[Vec<RowInterval>], least_ns: i64) -> bool {
    let together_ns = total_ns(&union(times.iter().flatten().copied()));
    times
        .iter()
        .all(|time| together_ns - total_ns(time) <= least_ns)
}

/// The parts of `rows`, in order of their ends, that lie in `[from_ns, to_ns)`. A row whose part in it is below one in
/// `least_part` of the shorter of both has none.
fn parts_in(rows: &[IntervalRates], from_ns: i64, to_ns: i64, least_part: i64) -> Vec<RowPart<'_>> {
    // An interval that ends on the boundary belongs to the slot before it.
    let first = rows.partition_point(|r| r.to_ns <= from_ns);
    let after = rows.partition_point(|r| r.to_ns <= to_ns);
    let inside = rows[first..after].iter();
    let later = rows[after..].iter().take(COVERING);
    // Rows of one log need not say the same: bandwidth and latency may stand in files of their own.
    let mut parts = Vec::new();
    for row in inside.chain(later) {
        let part = RowPart {
            row,
            from_ns: row.from_ns.max(from_ns),
            to_ns: row.to_ns.min(to_ns),
        };
        let shorter_ns = row.interval_ns().min(to_ns - from_ns);
        if part.from_ns < part.to_ns && part.len_ns() >= shorter_ns / least_part {
            parts.push(part);
        }
    }
    parts
}

/// What the parts of rows in a slot say of it; `None` if no row reaches it.
fn mean_of(parts: Vec<RowPart<'_>>) -> Option<Mean> {
    if parts.is_empty() {
        return None;
    }
    let slot = SlotRates { parts };
    Some(Mean {
        classes: std::array::from_fn(|class| slot.class(class)),
        in_flight: slot.over_time(|r| r.in_flight),
        util_percent: slot.over_time(|r| r.util_percent),
    })
}

/// The part of a row that lies in a slot.
struct RowPart<'a> {
    row: &'a IntervalRates,
    from_ns: i64,
    to_ns: i64,
}

impl RowPart<'_> {
    fn len_ns(&self) -> i64 {
        self.to_ns - self.from_ns
    }
}

/// The averages that say something of one slot.
struct SlotRates<'a> {
    /// In order of the rows' ends.
    parts: Vec<RowPart<'a>>,
}

impl<'a> SlotRates<'a> {
    /// The averages that have this value, each with the nanoseconds of the slot for which it speaks. Where several do, it is the
    /// one over the shortest time.
    fn known(&self, get: impl Fn(&IntervalRates) -> Option<f64>) -> Vec<(&'a IntervalRates, i64)> {
        let mut parts: Vec<&RowPart<'a>> = Vec::new();
        for part in &self.parts {
            if get(part.row).is_some() {
                parts.push(part);
            }
        }
        let mut known = Vec::new();
        if parts.windows(2).all(|two| two[0].to_ns <= two[1].from_ns) {
            for part in parts {
                known.push((part.row, part.len_ns()));
            }
            return known;
        }
        parts.sort_by_key(|part| part.row.interval_ns());
        let mut covered = Covered::default();
        for part in parts {
            let mut free_ns = 0;
            for (from_ns, to_ns) in covered.add((part.from_ns, part.to_ns)) {
                free_ns += to_ns - from_ns;
            }
            if free_ns > 0 {
                known.push((part.row, free_ns));
            }
        }
        known
    }

    /// Time-weighted mean of a value.
    fn over_time(&self, get: impl Fn(&IntervalRates) -> Option<f64>) -> Option<f64> {
        let known = self.known(&get);
        weighted_mean(
            known
                .into_iter()
                .filter_map(|(r, ns)| Some((get(r)?, ns as f64))),
        )
    }

    /// The means of a class, numbered as in [`Mean::classes`].
    fn class(&self, class: usize) -> ClassRates {
        let ios_per_s = self.over_time(|r| of_class(r, class).ios_per_s);
        let timed = self.known(|r| of_class(r, class).mean_us);
        // Where rows count no I/O there is no latency, whatever another table has as the mean over a longer time.
        let mean_us = if ios_per_s == Some(0.0) {
            None
        } else {
            mean_latency(&timed, class)
        };
        ClassRates {
            ios_per_s,
            bytes_per_s: self.over_time(|r| of_class(r, class).bytes_per_s),
            merges_per_s: self.over_time(|r| of_class(r, class).merges_per_s),
            mean_us,
        }
    }
}

/// A row's values for a class; the index after the classes stands for all together.
fn of_class(r: &IntervalRates, class: usize) -> ClassRates {
    r.classes.get(class).copied().unwrap_or(r.all)
}

/// How many I/Os of `ns` of a row its mean latency is of, if it says so; in billionths.
fn ios_in(r: &IntervalRates, ns: i64, class: usize) -> Option<f64> {
    let mut per_s = of_class(r, class).ios_per_s;
    // `await` covers the reads and writes in the same row.
    if per_s.is_none() && class >= r.classes.len() {
        let known = r.classes.iter().filter_map(|c| c.ios_per_s);
        per_s = known.reduce(|a, b| a + b);
    }
    Some(per_s? * ns as f64)
}

/// The mean latency of a class in microseconds over the rows `timed`, all of which have one, each for so many nanoseconds.
fn mean_latency(timed: &[(&IntervalRates, i64)], class: usize) -> Option<f64> {
    // A mean weighs as much as the I/Os that it is of; several means alone do not say how many.
    let by_ios = weighted_mean(
        timed
            .iter()
            .filter_map(|(r, ns)| Some((of_class(r, class).mean_us?, ios_in(r, *ns, class)?))),
    );
    if by_ios.is_some() {
        return by_ios;
    }
    if let [(only, _)] = timed {
        return of_class(only, class).mean_us;
    }
    // Latency logs without counts: each weighs as long as it speaks.
    if timed.iter().any(|(r, ns)| ios_in(r, *ns, class).is_some()) {
        return None;
    }
    weighted_mean(
        timed
            .iter()
            .filter_map(|(r, ns)| Some((of_class(r, class).mean_us?, *ns as f64))),
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

    /// The rates of reads and the ends of rows, in seconds.
    fn reads_to(rows: &[Row]) -> Vec<(Option<f64>, i64)> {
        let mut shown = Vec::new();
        for row in rows {
            shown.push((row.ios_per_s(Class::Read), row.to_ns / S));
        }
        shown
    }

    #[test]
    fn a_table_of_unequal_intervals_is_shown_as_it_stands() {
        let ends_s = [603, 1201, 1801, 2402, 3001, 3601];
        let mut tables = Vec::new();
        let mut expected = Vec::new();
        let mut from_s = 1;
        for (i, to_s) in ends_s.into_iter().enumerate() {
            let rate = 10.0 * (i + 1) as f64;
            tables.push(table(1, from_s, to_s, rate, Some(rate)));
            expected.push((Some(rate), to_s));
            from_s = to_s;
        }
        let plan = TimelinePlan::new(Window::new(S, 3601 * S), 600 * S);
        let own = TimelinePlan {
            own_intervals: true,
            ..plan.clone()
        };
        let got = rows(own, &tables);
        assert_eq!(reads_to(&got), expected);
        assert_eq!(got[1].from_ns, 603 * S);
        assert_eq!(got[1].mean_us(Class::Read), Some(20.0));

        // In equal steps a row counts in each by the time that both have in common, a latency by the I/Os in it.
        let got = rows(plan, &tables);
        let reads = got[1].ios_per_s(Class::Read).expect("known");
        let ios = 2.0 * 10.0 + 598.0 * 20.0;
        assert!((reads - ios / 600.0).abs() < 1e-9, "{reads}");
        let mean_us = got[1].mean_us(Class::Read).expect("known");
        let time_us = 2.0 * 10.0 * 10.0 + 598.0 * 20.0 * 20.0;
        assert!((mean_us - time_us / ios).abs() < 1e-9, "{mean_us}");
        assert_eq!(got[0].ios_per_s(Class::Read), Some(10.0));
    }

    #[test]
    fn rows_of_devices_that_end_nearly_together_are_of_one_interval() {
        let mut late = [table(2, 0, 100, 1.0, None), table(2, 100, 200, 3.0, None)];
        for row in &mut late {
            row.from_ns += S;
            row.to_ns += S;
        }
        let first = [table(1, 0, 100, 10.0, None), table(1, 100, 200, 30.0, None)];
        let plan = TimelinePlan {
            own_intervals: true,
            ..TimelinePlan::new(Window::new(0, 201 * S), 100 * S)
        };
        let all = [first, late].concat();
        assert_eq!(
            reads_to(&rows(plan, &all)),
            [(Some(11.0), 100), (Some(33.0), 200)]
        );
    }

    #[test]
    fn a_sum_with_an_unknown_device_is_unknown() {
        let tables = [
            table(1, 0, 1, 10.0, None),
            table(1, 1, 2, 20.0, None),
            table(2, 0, 1, 30.0, None),
            table(9, 2, 3, 7.0, None),
        ];
        let plan = TimelinePlan::new(Window::OPEN, S);
        let mut sum = Device::named("all", DevId(9));
        sum.stable_id = Some("aggregate:all".to_owned());
        let mut t = TableTimeline::new(plan.clone())
            .expect("a good plan")
            .with_sums_of(&[sum]);
        tables.iter().for_each(|r| t.push(r));
        let got = t.finish(0).expect("few rows");
        assert_eq!(reads(&got), [Some(40.0), None, Some(7.0)]);
        // Devices that the user names are all expected.
        assert_eq!(reads(&rows(plan, &tables)), [None, None, None]);
    }

    #[test]
    fn means_of_different_times_have_no_sum() {
        let tables = [
            table(1, 0, 10, 10.0, None),
            table(1, 10, 20, 20.0, None),
            table(1, 20, 30, 30.0, None),
            table(2, 0, 10, 10.0, None),
            table(2, 10, 20, 20.0, None),
        ];
        for (step_s, expected) in [
            (10, vec![Some(20.0), Some(40.0), None]),
            (20, vec![Some(30.0), None]),
            (30, vec![None]),
        ] {
            let plan = TimelinePlan::new(Window::OPEN, step_s * S);
            assert_eq!(reads(&rows(plan, &tables)), expected, "{step_s} s");
        }
        // Both say nothing of the same part of a row.
        let plan = TimelinePlan::new(Window::new(0, 25 * S), 25 * S);
        let both = [tables[0], tables[1], tables[3], tables[4]];
        assert_eq!(reads(&rows(plan, &both)), [Some(30.0)]);
    }

    #[test]
    fn of_two_resolutions_of_a_device_the_finer_speaks() {
        let tables = [
            table(1, 0, 1, 10.0, Some(100.0)),
            table(1, 1, 2, 30.0, Some(300.0)),
            table(1, 0, 3, 99.0, Some(900.0)),
        ];
        let got = rows(TimelinePlan::new(Window::OPEN, S), &tables);
        assert_eq!(reads(&got), [Some(10.0), Some(30.0), Some(99.0)]);
        let got = rows(TimelinePlan::new(Window::OPEN, 2 * S), &tables);
        assert_eq!(reads(&got), [Some(20.0), Some(99.0)]);
        assert_eq!(got[0].mean_us(Class::Read), Some(250.0));
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
