//! Columns in memory; frames and Parquet files are decoded to them and encoded from them.

/// Integers of one column, one per row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ints {
    /// One value per row; arbitrary where the row is null.
    pub values: Vec<i64>,
    /// Whether each row has a value; `None`: all have.
    pub valid: Option<Vec<bool>>,
}

impl Ints {
    /// A column of optional values; without nulls it has no validity marks.
    pub fn of(values: impl Iterator<Item = Option<i64>>) -> Ints {
        let values: Vec<Option<i64>> = values.collect();
        let any_null = values.iter().any(Option::is_none);
        Ints {
            valid: any_null.then(|| values.iter().map(Option::is_some).collect()),
            values: values.into_iter().map(Option::unwrap_or_default).collect(),
        }
    }

    pub fn get(&self, row: usize) -> Option<i64> {
        self.is_known(row).then(|| self.values[row])
    }

    /// Whether a row has a value.
    pub fn is_known(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// The first row with a value that is not in `least..=most`, and that value.
    pub fn first_outside(&self, least: i64, most: i64) -> Option<(usize, i64)> {
        if (least, most) == (i64::MIN, i64::MAX) {
            return None;
        }
        // Usually there is no such value, and a loop without branches shows that fastest.
        let any = self
            .values
            .iter()
            .fold(false, |any, v| any | (*v < least) | (*v > most));
        if !any {
            return None;
        }
        let mut rows = self.values.iter().copied().enumerate();
        rows.find(|(row, v)| !(least..=most).contains(v) && self.is_known(*row))
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.values.clear();
        self.valid = None;
    }

    /// Sets which of the last `n` rows are valid. Their values have already been appended.
    pub fn mark_tail(&mut self, n: usize, valid: impl Iterator<Item = bool>) {
        let before = self.values.len() - n;
        self.valid
            .get_or_insert_with(|| vec![true; before])
            .extend(valid);
    }

    /// Marks the last `n` rows as valid.
    pub fn mark_tail_valid(&mut self, n: usize) {
        if let Some(v) = &mut self.valid {
            v.extend(std::iter::repeat_n(true, n));
        }
    }

    /// The rows in the order that `order` gives.
    pub fn permuted(&self, order: &[u32]) -> Ints {
        Ints {
            values: order.iter().map(|i| self.values[*i as usize]).collect(),
            valid: self
                .valid
                .as_ref()
                .map(|v| order.iter().map(|i| v[*i as usize]).collect()),
        }
    }
}

/// Texts of one column as indices into a dictionary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub dictionary: Vec<Vec<u8>>,
    pub index: Ints,
}

impl Texts {
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        self.index
            .get(row)
            .map(|i| self.dictionary[i as usize].as_slice())
    }
}

/// Lists of one column, one per row, which may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lists {
    /// The elements of all rows one after the other.
    pub values: Vec<i32>,
    /// Where among them each row's list ends.
    pub ends: Vec<usize>,
}

impl Lists {
    pub fn get(&self, row: usize) -> &[i32] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[start..self.ends[row]]
    }
}

/// One column of a table, decoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    /// Not in this file, or not requested.
    Absent,
    Ints(Ints),
    Texts(Texts),
    Doubles(Vec<Option<f64>>),
    Lists(Lists),
}

impl Column {
    pub fn int(&self, row: usize) -> Option<i64> {
        match self {
            Column::Ints(c) => c.get(row),
            _ => None,
        }
    }

    pub fn text(&self, row: usize) -> Option<&[u8]> {
        match self {
            Column::Texts(c) => c.get(row),
            _ => None,
        }
    }

    pub fn double(&self, row: usize) -> Option<f64> {
        match self {
            Column::Doubles(c) => c[row],
            _ => None,
        }
    }

    pub fn list(&self, row: usize) -> &[i32] {
        match self {
            Column::Lists(c) => c.get(row),
            _ => &[],
        }
    }
}
