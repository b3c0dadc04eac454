//! The subjects of rows (devices, processes, groups, files): which are shown, their order, and their totals.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use iolens_core::analysis::timeline::Row;
use iolens_core::model::Class;

use super::caller::Caller;
use super::error::Result;
use super::view::PlannedRows;

/// A value of a row.
pub trait Figure: std::fmt::Debug + Sync {
    /// The value; `None` if it is not known.
    fn of(&self, row: &Row) -> Option<f64>;
}

/// The order of rows, largest first.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// By total I/O time from start to completion.
    IoTime,
    /// By a value.
    Figure(&'static dyn Figure),
}

impl Order {
    fn value(self, row: &Row) -> Option<f64> {
        match self {
            Order::IoTime => Some(io_time_s(row)),
            Order::Figure(figure) => figure.of(row),
        }
    }

    /// Orders the larger row first. Unknown values come last.
    pub fn compare(self, a: &Row, b: &Row) -> Ordering {
        let value_a = self.value(a).unwrap_or(f64::NEG_INFINITY);
        let value_b = self.value(b).unwrap_or(f64::NEG_INFINITY);
        value_b.total_cmp(&value_a)
    }
}

/// Total I/O time in seconds: the sum if there are counts and sums, rate times latency for the averages of a table.
fn io_time_s(row: &Row) -> f64 {
    let mut time_s = 0.0;
    for class in Class::ALL {
        if row.averages.is_none() {
            time_s += row.flows[class as usize].total_ns as f64 / 1e9;
        } else {
            let ios = row.ios_per_s(class).unwrap_or(0.0) * row.seconds();
            time_s += ios * row.mean_us(class).unwrap_or(0.0) / 1e6;
        }
    }
    time_s
}

fn is_idle(row: &Row) -> bool {
    for class in Class::ALL {
        if row.ios_per_s(class) > Some(0.0) || row.kib_per_s(class) > Some(0.0) {
            return false;
        }
    }
    let together = row
        .of_all_classes()
        .is_some_and(|all| all.ios_per_s > Some(0.0) || all.bytes_per_s > Some(0.0));
    !together
}

/// One row per subject, over the whole time.
#[derive(Debug, Default)]
pub struct SubjectTotals {
    of: BTreeMap<String, Row>,
    /// There are rows of tables, whose averages cannot be combined over several intervals.
    has_averages: bool,
}

impl SubjectTotals {
    /// Computes the totals of the recordings' subjects, each over its recording's part. With `waits`, including who
    /// owned the I/O time.
    ///
    /// # Errors
    /// A recording cannot be read.
    pub fn of_views(views: &[PlannedRows], waits: bool, caller: &Caller) -> Result<SubjectTotals> {
        let mut totals = SubjectTotals::default();
        for view in views {
            view.each_subject(waits, caller, |row, name| {
                totals.add(row, name);
                Ok(())
            })?;
        }
        Ok(totals)
    }

    /// Adds a subject's row of one more interval.
    pub fn add(&mut self, row: &Row, name: &str) {
        // The row of an interval without I/O has no subject.
        if name.is_empty() {
            return;
        }
        self.has_averages |= row.averages.is_some();
        let Some(total) = self.of.get_mut(name) else {
            let extended = None;
            self.of.insert(
                name.to_owned(),
                Row {
                    extended,
                    ..row.clone()
                },
            );
            return;
        };
        for (sum, flow) in total.flows.iter_mut().zip(&row.flows) {
            sum.add(flow);
        }
        if let (Some(sum), Some(waits)) = (&mut total.waits, &row.waits) {
            sum.add(waits);
        }
        for (sum, ns) in total.unresolved_ns.iter_mut().zip(&row.unresolved_ns) {
            *sum = sum.saturating_add(*ns);
        }
        total.from_ns = total.from_ns.min(row.from_ns);
        total.to_ns = total.to_ns.max(row.to_ns);
        total.unrecorded_ns = total.unrecorded_ns.saturating_add(row.unrecorded_ns);
        total.lossy |= row.lossy;
        total.known |= row.known;
    }

    /// Names of the first `most` subjects in `order`.
    pub fn first(&self, order: Order, most: usize) -> BTreeSet<String> {
        let sorted = self.sorted(order);
        sorted
            .into_iter()
            .take(most)
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Names of the subjects with any activity; all names if none had any.
    pub fn busy(&self) -> BTreeSet<String> {
        let busy: BTreeSet<String> = self
            .of
            .iter()
            .filter(|(_, row)| !is_idle(row))
            .map(|(name, _)| name.clone())
            .collect();
        if busy.is_empty() {
            self.of.keys().cloned().collect()
        } else {
            busy
        }
    }

    /// All subjects with their sums over the same time, of which `recorded_ns` was recorded, in `order`; empty if averages
    /// cannot be summed.
    pub fn over(
        &mut self,
        from_ns: i64,
        to_ns: i64,
        recorded_ns: i64,
        order: Order,
    ) -> Vec<(&str, &Row)> {
        if self.has_averages {
            return Vec::new();
        }
        for row in self.of.values_mut() {
            row.from_ns = from_ns;
            row.to_ns = to_ns;
            row.unrecorded_ns = (to_ns - from_ns - recorded_ns).max(0);
        }
        self.sorted(order)
    }

    fn sorted(&self, order: Order) -> Vec<(&str, &Row)> {
        let mut rows: Vec<(&str, &Row)> = self.of.iter().map(|(n, r)| (n.as_str(), r)).collect();
        rows.sort_by(|a, b| order.compare(a.1, b.1));
        rows
    }
}

/// Buffers the rows of one interval: sorts them, and keeps an empty row if all subjects are left out.
#[derive(Debug)]
pub struct SubjectInterval {
    /// `None`: rows stay in the order of arrival.
    order: Option<Order>,
    rows: Vec<(Row, String)>,
    /// An empty row, kept when a subject is left out.
    empty: Option<Row>,
    /// When the interval ends.
    to_ns: Option<i64>,
}

impl SubjectInterval {
    /// A buffer that sorts rows by `order`, or keeps their order of arrival.
    pub fn new(order: Option<Order>) -> SubjectInterval {
        SubjectInterval {
            order,
            rows: Vec::new(),
            empty: None,
            to_ns: None,
        }
    }

    /// Adds a row; without a name if its subject is left out. If it starts a new interval, returns the rows of the
    /// one before.
    pub fn push(&mut self, row: &Row, name: Option<&str>) -> Vec<(Row, String)> {
        let is_next = self.to_ns.is_some_and(|to_ns| to_ns != row.to_ns);
        let before = if is_next { self.finish() } else { Vec::new() };
        self.to_ns = Some(row.to_ns);
        match name {
            Some(name) => self.rows.push((row.clone(), name.to_owned())),
            None => self.empty = Some(row.without_ios()),
        }
        before
    }

    /// Returns the rows of the last interval.
    pub fn finish(&mut self) -> Vec<(Row, String)> {
        let mut rows = std::mem::take(&mut self.rows);
        let empty = self.empty.take();
        if rows.is_empty() {
            rows.extend(empty.map(|row| (row, String::new())));
        }
        if let Some(order) = self.order {
            rows.sort_by(|a, b| order.compare(&a.0, &b.0));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::fields::ShownColumns;
    use crate::present::zoom;
    use iolens_core::analysis::timeline::{Flow, GroupKey};
    use iolens_core::model::OwnedTime;

    const S: i64 = 1_000_000_000;

    fn row(to_s: i64, reads: u64, us: i64) -> Row {
        let flow = Flow {
            ios: reads,
            bytes: reads * 4096,
            total_ns: us * 1000 * reads as i64,
        };
        Row {
            flows: [flow, Flow::default(), Flow::default(), Flow::default()],
            ..Row::empty((to_s - 1) * S, to_s * S, GroupKey::All)
        }
    }

    fn totals() -> SubjectTotals {
        let mut totals = SubjectTotals::default();
        totals.add(&row(1, 10, 50), "many");
        totals.add(&row(2, 90, 50), "many");
        totals.add(&row(2, 2, 9000), "slow");
        totals.add(&row(2, 0, 0), "idle");
        totals
    }

    #[test]
    fn totals_are_rates_over_the_whole_stretch() {
        let mut totals = totals();
        let sorted = totals.over(0, 10 * S, 10 * S, Order::IoTime);
        let names: Vec<&str> = sorted.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["slow", "many", "idle"]);
        assert_eq!(sorted[1].1.ios_per_s(Class::Read), Some(10.0));
        assert_eq!(sorted[1].1.mean_us(Class::Read), Some(50.0));
        let sorted = totals.over(0, 10 * S, 4 * S, Order::IoTime);
        let reads_per_s = sorted[1].1.ios_per_s(Class::Read);
        assert_eq!(reads_per_s, Some(25.0), "the rest was not recorded");
    }

    #[test]
    fn the_first_are_those_of_the_chosen_column() {
        let plain = ShownColumns::default();
        let by_rate = zoom::order("r/s", plain).expect("a title");
        assert!(totals().first(by_rate, 1).contains("many"));
        assert!(totals().first(Order::IoTime, 1).contains("slow"));
        let refused = zoom::order("speed", plain).expect_err("no column");
        assert!(
            refused.contains("r_per_s") && refused.contains("-x"),
            "{refused}"
        );
        assert!(zoom::order("busy_percent", plain).is_err());
        let extended = ShownColumns {
            extended: true,
            ..plain
        };
        assert!(zoom::order("busy_percent", extended).is_ok());
    }

    #[test]
    fn rows_can_be_put_in_the_order_of_their_waits() {
        let waits = ShownColumns {
            waits: true,
            ..ShownColumns::default()
        };
        let mut totals = totals();
        for name in ["many", "slow"] {
            let others_ns = if name == "many" { 5 * S } else { 2 * S };
            let waited = OwnedTime {
                others_ns,
                ..OwnedTime::default()
            };
            totals.of.get_mut(name).expect("a subject").waits = Some(waited);
        }
        for column in ["others_s", "others s"] {
            let order = zoom::order(column, waits).expect("a column");
            assert!(totals.first(order, 1).contains("many"), "{column}");
        }
        let refused = zoom::order("others_s", ShownColumns::default()).expect_err("no column");
        assert!(refused.contains("--waits"), "{refused}");
    }

    #[test]
    fn idle_subjects_are_left_out_unless_all_are_idle() {
        let busy: Vec<String> = totals().busy().into_iter().collect();
        assert_eq!(busy, ["many", "slow"]);
        let mut quiet = SubjectTotals::default();
        quiet.add(&row(1, 0, 0), "sda");
        assert_eq!(quiet.busy().len(), 1);
    }

    #[test]
    fn rows_of_an_interval_come_in_order_when_the_next_begins() {
        let mut interval = SubjectInterval::new(Some(Order::IoTime));
        assert!(interval.push(&row(1, 1, 1), Some("a")).is_empty());
        assert!(interval.push(&row(1, 5, 1), Some("b")).is_empty());
        let names = |rows: Vec<(Row, String)>| rows.into_iter().map(|r| r.1).collect::<Vec<_>>();
        assert_eq!(names(interval.push(&row(2, 1, 1), Some("c"))), ["b", "a"]);
        assert_eq!(names(interval.finish()), ["c"]);
    }

    #[test]
    fn an_interval_has_a_row_where_all_subjects_are_left_out() {
        let mut interval = SubjectInterval::new(None);
        assert!(interval.push(&row(1, 9, 1), None).is_empty());
        assert!(interval.push(&row(1, 1, 1), Some("a")).is_empty());
        let shown = interval.push(&row(2, 9, 1), None);
        assert_eq!(shown, [(row(1, 1, 1), "a".to_owned())]);
        let lossy = Row {
            lossy: true,
            ..row(2, 8, 1)
        };
        assert!(interval.push(&lossy, None).is_empty());
        let empty = Row {
            lossy: true,
            ..row(2, 0, 0)
        };
        assert_eq!(interval.finish(), [(empty, String::new())]);
        assert!(interval.finish().is_empty());
    }
}
