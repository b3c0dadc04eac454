//! Compact storage of the rows of imported tables.

use std::ops::Range;

use super::{ClassRates, DevId, IntervalRates};

/// Number of quantities in a row: four for each class and for all classes together, then queue length, utilisation and
/// service time.
pub(super) const QUANTITIES: usize = 23;

/// A compact list of [`IntervalRates`]: absent values take no space.
///
/// A row of a narrow table (fio's logs have one quantity each) takes a tenth of the plain structure's memory, and
/// importing is faster by as much, because writing to fresh memory is most of its cost.
#[derive(Debug, Clone, Default)]
pub struct RateRows {
    heads: Vec<Head>,
    values: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    from_ns: i64,
    to_ns: i64,
    dev: DevId,
    /// Bit `i` is set if quantity `i` is known.
    known: u32,
    /// Index of the first known quantity.
    at: usize,
}

impl Head {
    /// The sort key of rows; equal for rows of the same device and interval.
    fn key(&self) -> (i64, DevId, i64) {
        (self.to_ns, self.dev, self.from_ns)
    }
}

impl RateRows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Appends a row.
    pub fn push(&mut self, r: &IntervalRates) {
        let at = self.values.len();
        let mut known = 0;
        for (i, v) in quantities(r).into_iter().enumerate() {
            if let Some(v) = v {
                known |= 1 << i;
                self.values.push(v);
            }
        }
        self.heads.push(Head {
            from_ns: r.from_ns,
            to_ns: r.to_ns,
            dev: r.dev,
            known,
            at,
        });
    }

    /// Row `i`.
    pub fn get(&self, i: usize) -> Option<IntervalRates> {
        self.heads.get(i).map(|h| self.unpack(h))
    }

    /// All rows in order.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = IntervalRates> + ExactSizeIterator + Clone + '_ {
        self.heads.iter().map(|h| self.unpack(h))
    }

    /// Appends the rows of `other`.
    pub fn append(&mut self, other: RateRows) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let offset = self.values.len();
        self.values.extend_from_slice(&other.values);
        self.heads.extend(other.heads.into_iter().map(|h| Head {
            at: h.at + offset,
            ..h
        }));
    }

    /// Changes start, end (both in nanoseconds) and device of the rows in `range`, which must be within bounds.
    pub fn replace(
        &mut self,
        range: Range<usize>,
        mut with: impl FnMut(i64, i64, DevId) -> (i64, i64, DevId),
    ) {
        for h in self.heads.get_mut(range).unwrap_or_default() {
            (h.from_ns, h.to_ns, h.dev) = with(h.from_ns, h.to_ns, h.dev);
        }
    }

    /// Sorts the rows by end, device and start. The sort is stable.
    pub fn sort(&mut self) {
        if !self.heads.is_sorted_by_key(Head::key) {
            self.heads.sort_by_key(Head::key);
        }
    }

    /// Merges consecutive rows of the same device and interval with `one`.
    pub fn merge(&mut self, mut one: impl FnMut(&IntervalRates, &IntervalRates) -> IntervalRates) {
        if self.heads.windows(2).all(|w| w[0].key() != w[1].key()) {
            return;
        }
        let mut out = RateRows::default();
        let mut last: Option<IntervalRates> = None;
        for r in self.iter() {
            last = Some(match last {
                Some(l) if (l.to_ns, l.dev, l.from_ns) == (r.to_ns, r.dev, r.from_ns) => {
                    one(&l, &r)
                }
                l => {
                    l.iter().for_each(|l| out.push(l));
                    r
                }
            });
        }
        last.iter().for_each(|l| out.push(l));
        *self = out;
    }

    /// Smallest start, in nanoseconds; `None` without rows.
    pub fn first_ns(&self) -> Option<i64> {
        self.heads.iter().map(|h| h.from_ns).min()
    }

    /// Largest end, in nanoseconds; `None` without rows.
    pub fn last_ns(&self) -> Option<i64> {
        self.heads.iter().map(|h| h.to_ns).max()
    }

    /// The devices, each once, in order.
    pub fn devices(&self) -> Vec<DevId> {
        let mut devices: Vec<DevId> = self.heads.iter().map(|h| h.dev).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The rows of one device.
    pub fn of(&self, dev: DevId) -> Vec<IntervalRates> {
        self.heads
            .iter()
            .filter(|h| h.dev == dev)
            .map(|h| self.unpack(h))
            .collect()
    }

    fn unpack(&self, h: &Head) -> IntervalRates {
        let mut known = self.values.get(h.at..).unwrap_or_default().iter();
        let mut values = [None; QUANTITIES];
        for (i, value) in values.iter_mut().enumerate() {
            if h.known & (1 << i) != 0 {
                *value = known.next().copied();
            }
        }
        with_quantities(IntervalRates::new(h.from_ns, h.to_ns, h.dev), &values)
    }
}

impl PartialEq for RateRows {
    /// Compares the rows in order, regardless of their memory layout.
    fn eq(&self, other: &RateRows) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> FromIterator<&'a IntervalRates> for RateRows {
    fn from_iter<I: IntoIterator<Item = &'a IntervalRates>>(rows: I) -> RateRows {
        let mut out = RateRows::default();
        rows.into_iter().for_each(|r| out.push(r));
        out
    }
}

/// `r` with these quantities, in the order of [`quantities`].
pub(super) fn with_quantities(
    mut r: IntervalRates,
    values: &[Option<f64>; QUANTITIES],
) -> IntervalRates {
    let (of_classes, others) = values.as_chunks::<4>();
    for (c, of_class) in r.classes.iter_mut().chain([&mut r.all]).zip(of_classes) {
        let [ios_per_s, bytes_per_s, merges_per_s, mean_us] = *of_class;
        *c = ClassRates {
            ios_per_s,
            bytes_per_s,
            merges_per_s,
            mean_us,
        };
    }
    if let [in_flight, util_percent, service_us] = *others {
        r.in_flight = in_flight;
        r.util_percent = util_percent;
        r.service_us = service_us;
    }
    r
}

/// All quantities: four of each class and of all together, then the three others.
pub(super) fn quantities(r: &IntervalRates) -> [Option<f64>; QUANTITIES] {
    let mut out = [None; QUANTITIES];
    for (c, to) in r.classes.iter().chain([&r.all]).zip(out.chunks_mut(4)) {
        to.copy_from_slice(&[c.ios_per_s, c.bytes_per_s, c.merges_per_s, c.mean_us]);
    }
    out[20..].copy_from_slice(&[r.in_flight, r.util_percent, r.service_us]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = IntervalRates> {
        let cell = || proptest::option::of(-1e9..1e9f64);
        (
            proptest::array::uniform23(cell()),
            any::<i64>(),
            any::<i64>(),
            any::<i32>(),
        )
            .prop_map(|(v, from, to, dev)| {
                let mut r = IntervalRates::new(from, to, DevId(dev));
                for (i, c) in r.classes.iter_mut().chain([&mut r.all]).enumerate() {
                    let [ios_per_s, bytes_per_s, merges_per_s, mean_us] =
                        [v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]];
                    *c = ClassRates {
                        ios_per_s,
                        bytes_per_s,
                        merges_per_s,
                        mean_us,
                    };
                }
                r.in_flight = v[20];
                r.util_percent = v[21];
                r.service_us = v[22];
                r
            })
    }

    proptest! {
        #[test]
        fn rows_come_out_as_they_went_in(
            a in proptest::collection::vec(row(), 0..20),
            b in proptest::collection::vec(row(), 0..20),
        ) {
            let (mut rows, other): (RateRows, RateRows) = (a.iter().collect(), b.iter().collect());
            rows.append(other);
            let mut all: Vec<IntervalRates> = a.into_iter().chain(b).collect();
            prop_assert_eq!(rows.iter().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(rows.get(all.len()), None);
            rows.sort();
            all.sort_by_key(|r| (r.to_ns, r.dev, r.from_ns));
            prop_assert_eq!(rows.iter().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!(rows.last_ns(), all.last().map(|r| r.to_ns));
            for dev in rows.devices() {
                prop_assert_eq!(rows.of(dev), all.iter().filter(|r| r.dev == dev).copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn rows_of_one_interval_become_one() {
        let row = |from, dev, util| {
            let mut r = IntervalRates::new(from, 5, DevId(dev));
            r.util_percent = Some(util);
            r
        };
        let mut rows: RateRows = [
            row(0, 1, 1.0),
            row(0, 2, 2.0),
            row(0, 1, 4.0),
            row(1, 1, 8.0),
        ]
        .iter()
        .collect();
        rows.sort();
        rows.merge(|a, b| {
            row(
                a.from_ns,
                a.dev.0,
                a.util_percent.unwrap_or(0.0) + b.util_percent.unwrap_or(0.0),
            )
        });
        assert_eq!(
            rows.iter().collect::<Vec<_>>(),
            [row(0, 1, 5.0), row(1, 1, 8.0), row(0, 2, 2.0)]
        );
    }

    #[test]
    fn intervals_are_given_later() {
        let mut rows: RateRows = [IntervalRates::new(0, 1, DevId(1)); 3].iter().collect();
        rows.replace(1..3, |from, to, _| (from + 5, to + 5, DevId(2)));
        assert_eq!(rows.of(DevId(2)), [IntervalRates::new(5, 6, DevId(2)); 2]);
        assert_eq!((rows.first_ns(), rows.last_ns()), (Some(0), Some(6)));
    }
}
