//! Dictionaries for columns with few distinct values, and each row's index.

/// Assigns numbers to the distinct values of a column, in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    pub values: Vec<i64>,
    /// Hash table of indices into `values`, at most half full.
    slots: Vec<u32>,
    most: usize,
    shift: u32,
}

const EMPTY: u32 = u32::MAX;

impl Distinct {
    /// Clears the dictionary and sets its capacity to `most` values (not 0).
    pub fn start(&mut self, most: usize) {
        self.values.clear();
        self.slots.clear();
        self.slots.resize((2 * most).next_power_of_two(), EMPTY);
        self.shift = 64 - self.slots.len().trailing_zeros();
        self.most = most;
    }

    /// The index of `value`; `None` if the dictionary is full.
    #[inline]
    pub fn place(&mut self, value: i64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing, linear probing.
        let mut at =
            ((value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize & mask;
        loop {
            let place = self.slots[at];
            if place == EMPTY {
                break;
            }
            if self.values[place as usize] == value {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
        if self.values.len() == self.most {
            return None;
        }
        self.slots[at] = self.values.len() as u32;
        self.values.push(value);
        Some(self.slots[at])
    }
}

/// Each row's dictionary index. While all rows are equal, one index represents them.
#[derive(Debug, Default)]
pub(crate) struct DictionaryPlaces {
    rows: usize,
    first: u32,
    /// One index per row; empty while all equal the first.
    each: Vec<u32>,
}

/// The indices of some rows of [`DictionaryPlaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacesOf<'a> {
    /// That many rows with the same index.
    One(u32, usize),
    Each(&'a [u32]),
}

impl DictionaryPlaces {
    pub fn clear(&mut self) {
        self.rows = 0;
        self.each.clear();
    }

    /// Adds `n` rows with the same index.
    pub fn repeat(&mut self, place: u32, n: usize) {
        if self.rows == 0 {
            self.first = place;
        }
        if self.each.is_empty() && place == self.first {
            self.rows += n;
        } else {
            self.extend(std::iter::repeat_n(place, n));
        }
    }

    /// Adds a row for each of `places`.
    pub fn extend(&mut self, places: impl Iterator<Item = u32>) {
        if self.each.is_empty() {
            self.each.resize(self.rows, self.first);
        }
        self.each.extend(places);
        self.rows = self.each.len();
    }

    pub fn of(&self, rows: std::ops::Range<usize>) -> PlacesOf<'_> {
        if self.each.is_empty() {
            PlacesOf::One(self.first, rows.len())
        } else {
            PlacesOf::Each(&self.each[rows])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distinct_values_have_places(values in prop::collection::vec(prop_oneof![any::<i64>(), 0i64..9], 0..300), most in 1usize..200) {
            let mut d = Distinct::default();
            d.start(most);
            let places: Option<Vec<u32>> = values.iter().map(|v| d.place(*v)).collect();
            let set: std::collections::HashSet<i64> = values.iter().copied().collect();
            prop_assert_eq!(places.is_some(), set.len() <= most);
            if let Some(places) = places {
                prop_assert_eq!(d.values.len(), set.len());
                prop_assert_eq!(places.iter().map(|p| d.values[*p as usize]).collect::<Vec<_>>(), values);
            }
        }

        #[test]
        fn every_row_has_its_index(runs in prop::collection::vec((0u32..3, 1usize..5, any::<bool>()), 0..9)) {
            let mut places = DictionaryPlaces::default();
            let mut expected = Vec::new();
            for (place, n, at_once) in runs {
                expected.extend(std::iter::repeat_n(place, n));
                match at_once {
                    true => places.repeat(place, n),
                    false => places.extend(std::iter::repeat_n(place, n)),
                }
            }
            let read = match places.of(0..expected.len()) {
                PlacesOf::One(place, n) => vec![place; n],
                PlacesOf::Each(each) => each.to_vec(),
            };
            prop_assert_eq!(read, expected);
        }
    }
}
