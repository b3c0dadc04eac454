//! Numbers and text in named columns: results of an experiment, before formatting.

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// Numbers; `None` is not known.
    Numbers(Vec<Option<f64>>),
    /// Words; `None` is not known.
    Words(Vec<Option<String>>),
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct DataColumn {
    /// Its name, with the unit.
    pub name: String,
    /// One value per row.
    pub values: ColumnValues,
}

impl DataColumn {
    /// The value of row `at` as text.
    fn text(&self, at: usize) -> Option<String> {
        match &self.values {
            ColumnValues::Numbers(v) => v[at].map(|x| x.to_string()),
            ColumnValues::Words(v) => v[at].clone(),
        }
    }
}

/// Columns of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataTable {
    /// The columns, in order.
    pub columns: Vec<DataColumn>,
    rows: usize,
}

impl DataTable {
    /// A table of `rows` rows without columns yet.
    pub fn new(rows: usize) -> DataTable {
        DataTable {
            columns: Vec::new(),
            rows,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a column of numbers. Non-finite values are stored as null. Missing rows become null, surplus rows are
    /// dropped.
    #[must_use]
    pub fn numbers(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = impl Into<Option<f64>>>,
    ) -> DataTable {
        let mut v: Vec<Option<f64>> = values
            .into_iter()
            .map(|v| v.into().filter(|x| x.is_finite()))
            .collect();
        v.resize(self.rows, None);
        self.columns.push(DataColumn {
            name: name.to_owned(),
            values: ColumnValues::Numbers(v),
        });
        self
    }

    /// Adds a column of words. Missing rows become null, surplus rows are dropped.
    #[must_use]
    pub fn words(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = impl Into<Option<String>>>,
    ) -> DataTable {
        let mut v: Vec<Option<String>> = values.into_iter().map(Into::into).collect();
        v.resize(self.rows, None);
        self.columns.push(DataColumn {
            name: name.to_owned(),
            values: ColumnValues::Words(v),
        });
        self
    }

    /// A row's values as text; null is empty.
    pub fn row(&self, at: usize) -> Vec<String> {
        self.columns
            .iter()
            .map(|c| c.text(at).unwrap_or_default())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_one_length_and_the_unknown_is_no_zero() {
        let t = DataTable::new(2)
            .numbers("a", [1.5, f64::NAN])
            .words("b", ["x".to_owned()])
            .numbers("c", [None, Some(3.0), Some(4.0)]);
        assert_eq!(t.row(0), ["1.5", "x", ""]);
        assert_eq!(t.row(1), ["", "", "3"]);
    }
}
