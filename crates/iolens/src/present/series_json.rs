//! A time series column by column, as charts take it: the columns of `zoom`.

use iolens_core::analysis::timeline::{GroupBy, Row};
use serde_json::{Map, Value, json};

use super::fields::{self, fields};
use super::zoom::rounded;

/// Gathers rows.
#[derive(Debug)]
pub struct SeriesColumns {
    group: Option<&'static str>,
    extended: bool,
    times: Vec<Value>,
    groups: Vec<Value>,
    values: Vec<Vec<Value>>,
    lossy: Vec<Value>,
    slots: Vec<Value>,
}

impl SeriesColumns {
    /// For rows grouped `by`.
    pub fn new(by: GroupBy, extended: bool) -> SeriesColumns {
        let group = match by {
            GroupBy::All => None,
            GroupBy::Device => Some("device"),
            GroupBy::Process => Some("process"),
            GroupBy::Cgroup => Some("cgroup"),
            GroupBy::File => Some("file"),
        };
        SeriesColumns {
            group,
            extended,
            times: Vec::new(),
            groups: Vec::new(),
            values: vec![Vec::new(); fields(extended, false).count()],
            lossy: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Takes a row in Unix time.
    pub fn row(&mut self, row: &Row, group: &str) {
        self.times.push(json!(row.to_ns as f64 / 1e9));
        self.groups.push(json!(group));
        for (values, field) in self.values.iter_mut().zip(fields(self.extended, false)) {
            values.push(match (field.get)(row) {
                fields::Value::Unknown | fields::Value::Below(_) => Value::Null,
                fields::Value::Count(n) => json!(n),
                fields::Value::Number(v) => json!(rounded(v)),
            });
        }
        self.lossy.push(json!(row.lossy));
        self.slots
            .push(json!((row.to_ns - row.from_ns) as f64 / 1e9));
    }

    /// All columns, each as long as the others.
    pub fn finish(self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("time_unix_s".to_owned(), self.times.into());
        if let Some(name) = self.group {
            out.insert(name.to_owned(), self.groups.into());
        }
        for (values, field) in self.values.into_iter().zip(fields(self.extended, false)) {
            out.insert(field.name.to_owned(), values.into());
        }
        out.insert("lossy".to_owned(), self.lossy.into());
        out.insert("slot_s".to_owned(), self.slots.into());
        out
    }
}
