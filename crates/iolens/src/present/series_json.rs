//! A time series column by column, as charts take it: the columns of `zoom`, and those that only charts have.

use iolens_core::analysis::timeline::{GroupBy, Row};

use super::columns::{Column, Columns, Texts};
use super::fields::{self, ShownColumns};
use super::zoom::rounded;

/// Gathers rows.
#[derive(Debug)]
pub struct SeriesColumns {
    group: Option<&'static str>,
    columns: ShownColumns,
    times: Vec<f64>,
    groups: Texts,
    values: Vec<SeriesValues>,
    lossy: Vec<bool>,
    slots: Vec<f64>,
}

/// Values of one field; not a number where one is not known.
#[derive(Debug, Clone, Default)]
struct SeriesValues {
    numbers: Vec<f64>,
    is_count: bool,
}

impl SeriesColumns {
    /// For rows grouped `by`.
    pub fn new(by: GroupBy, extended: bool) -> SeriesColumns {
        let columns = ShownColumns::of_chart(extended);
        SeriesColumns {
            group: (by != GroupBy::All).then(|| by.name()),
            columns,
            times: Vec::new(),
            groups: Texts::default(),
            values: vec![SeriesValues::default(); columns.fields().count()],
            lossy: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Takes a row in Unix time.
    pub fn row(&mut self, row: &Row, group: &str) {
        self.times.push(row.to_ns as f64 / 1e9);
        self.groups.push(Some(group));
        for (values, field) in self.values.iter_mut().zip(self.columns.fields()) {
            let number = match (field.get)(row) {
                fields::Value::Unknown | fields::Value::Below(_) => f64::NAN,
                fields::Value::Count(n) => {
                    values.is_count = true;
                    n as f64
                }
                fields::Value::Number(v) => rounded(v),
            };
            values.numbers.push(number);
        }
        self.lossy.push(row.lossy);
        self.slots.push((row.to_ns - row.from_ns) as f64 / 1e9);
    }

    /// All columns, each as long as the others.
    pub fn finish(self) -> Columns {
        let mut out = Columns::default();
        out.push("time_unix_s", Column::Numbers(self.times));
        if let Some(name) = self.group {
            out.push(name, Column::Texts(self.groups));
        }
        for (values, field) in self.values.into_iter().zip(self.columns.fields()) {
            let column = if values.is_count {
                Column::Counts(values.numbers)
            } else {
                Column::Numbers(values.numbers)
            };
            out.push(field.name, column);
        }
        out.push("lossy", Column::Flags(self.lossy));
        out.push("slot_s", Column::Numbers(self.slots));
        out
    }
}
