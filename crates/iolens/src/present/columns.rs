//! Long tables stored by column: as JSON, as CSV and as an Arrow stream.
//!
//! A value takes four or eight bytes until it is written, so a hundred thousand rows take some MiB.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use serde::{Serialize, Serializer};

use super::escape;

/// The requested format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// A JSON document.
    Json,
    /// A line of column names, then one line per row; empty cells for unknown values.
    Csv,
    /// The Arrow IPC stream format, with a single batch; null for unknown values.
    Arrow,
}

impl TableFormat {
    /// The values of the parameter `format`.
    pub const NAMES: [(&'static str, TableFormat); 3] = [
        ("json", TableFormat::Json),
        ("csv", TableFormat::Csv),
        ("arrow", TableFormat::Arrow),
    ];
}

/// Texts with many repetitions: each distinct text is stored once.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    known: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    rows: Vec<u32>,
}

/// The index of an unknown text.
const UNKNOWN: u32 = u32::MAX;

impl Texts {
    /// Adds a row.
    pub fn push(&mut self, text: Option<&str>) {
        let number = match text {
            None => UNKNOWN,
            Some(text) => self.number(text),
        };
        self.rows.push(number);
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.known.len() as u32;
        let text: Arc<str> = text.into();
        self.known.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    fn get(&self, row: usize) -> Option<&str> {
        let number = *self.rows.get(row)?;
        self.known.get(number as usize).map(|text| &**text)
    }

    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.rows.len()).map(|row| self.get(row))
    }
}

impl<'a> FromIterator<Option<&'a str>> for Texts {
    fn from_iter<I: IntoIterator<Item = Option<&'a str>>>(rows: I) -> Texts {
        let mut texts = Texts::default();
        for text in rows {
            texts.push(text);
        }
        texts
    }
}

/// A column.
#[derive(Debug, Clone)]
pub enum Column {
    /// Texts.
    Texts(Texts),
    /// Whole numbers.
    Integers(Vec<Option<i64>>),
    /// Numbers; NaN if unknown.
    Numbers(Vec<f64>),
    /// Whole numbers; NaN if unknown.
    Counts(Vec<f64>),
    /// Booleans.
    Flags(Vec<bool>),
}

impl Column {
    /// A column of numbers, some of which may be unknown.
    pub fn numbers(values: impl IntoIterator<Item = Option<f64>>) -> Column {
        let values = values.into_iter();
        Column::Numbers(values.map(|v| v.unwrap_or(f64::NAN)).collect())
    }

    /// A column of texts that are all known.
    pub fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> Column {
        Column::Texts(values.into_iter().map(Some).collect())
    }

    fn len(&self) -> usize {
        match self {
            Column::Texts(texts) => texts.rows.len(),
            Column::Integers(values) => values.len(),
            Column::Numbers(values) | Column::Counts(values) => values.len(),
            Column::Flags(values) => values.len(),
        }
    }

    /// Writes the value of a row as a CSV cell; empty if it is unknown.
    fn write_cell(&self, row: usize, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Column::Texts(texts) => match texts.get(row) {
                Some(text) => out.write_all(escape::csv(text).as_bytes()),
                None => Ok(()),
            },
            Column::Integers(values) => match values.get(row).copied().flatten() {
                Some(value) => write!(out, "{value}"),
                None => Ok(()),
            },
            Column::Numbers(values) => match values.get(row) {
                Some(value) if value.is_finite() => {
                    serde_json::to_writer(out, value).map_err(Into::into)
                }
                _ => Ok(()),
            },
            Column::Counts(values) => match values.get(row) {
                Some(value) if value.is_finite() => write!(out, "{value:.0}"),
                _ => Ok(()),
            },
            Column::Flags(values) => match values.get(row) {
                Some(value) => write!(out, "{value}"),
                None => Ok(()),
            },
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Column::Texts(_) => DataType::Utf8,
            Column::Integers(_) => DataType::Int64,
            Column::Numbers(_) | Column::Counts(_) => DataType::Float64,
            Column::Flags(_) => DataType::Boolean,
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Column::Texts(texts) => Arc::new(texts.iter().collect::<StringArray>()),
            Column::Integers(values) => Arc::new(values.iter().copied().collect::<Int64Array>()),
            Column::Numbers(values) | Column::Counts(values) => {
                let known = values.iter().map(|v| v.is_finite().then_some(*v));
                Arc::new(known.collect::<Float64Array>())
            }
            Column::Flags(values) => {
                Arc::new(values.iter().copied().map(Some).collect::<BooleanArray>())
            }
        }
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Column::Texts(texts) => to.collect_seq(texts.iter()),
            Column::Integers(values) => to.collect_seq(values),
            // NaN is `null` in JSON.
            Column::Numbers(values) => to.collect_seq(values),
            Column::Counts(values) => {
                to.collect_seq(values.iter().map(|v| v.is_finite().then_some(*v as u64)))
            }
            Column::Flags(values) => to.collect_seq(values),
        }
    }
}

/// A table: named columns of the same length.
#[derive(Debug, Clone, Default)]
pub struct Columns(Vec<(String, Column)>);

impl Columns {
    /// Adds a column on the right.
    pub fn push(&mut self, name: impl Into<String>, column: Column) {
        self.0.push((name.into(), column));
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, column)| column.len())
    }

    /// A line of column names, then one line per row. Texts are quoted according to RFC 4180; characters that could
    /// act on a terminal or in a spreadsheet are escaped.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_csv(&self, out: &mut dyn Write) -> Result<()> {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        writeln!(out, "{}", names.join(","))?;
        for row in 0..self.rows() {
            for (i, (_, column)) in self.0.iter().enumerate() {
                if i > 0 {
                    out.write_all(b",")?;
                }
                column.write_cell(row, out)?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes the table as an Arrow stream.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write_arrow(&self, out: &mut dyn Write) -> Result<()> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (name, column) in &self.0 {
            fields.push(Field::new(name, column.data_type(), true));
            arrays.push(column.array());
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        let mut writer = StreamWriter::try_new(out, &schema)?;
        writer.write(&batch)?;
        writer.finish()?;
        Ok(())
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, column)| (name, column)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_ipc::reader::StreamReader;
    use serde_json::json;

    fn table() -> Columns {
        let mut columns = Columns::default();
        columns.push("done_unix_s", Column::numbers([Some(1.5), Some(2.5)]));
        let devices = [Some("a,\"b\""), None];
        columns.push("device", Column::Texts(devices.into_iter().collect()));
        columns.push("bytes", Column::Integers(vec![Some(4096), None]));
        columns.push("ios", Column::Counts(vec![7.0, f64::NAN]));
        columns.push("lossy", Column::Flags(vec![true, false]));
        columns
    }

    fn csv(columns: &Columns) -> String {
        let mut out = Vec::new();
        columns.write_csv(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_forms_say_the_same() {
        assert_eq!(
            csv(&table()),
            "done_unix_s,device,bytes,ios,lossy\n1.5,\"a,\"\"b\"\"\",4096,7,true\n2.5,,,,false\n"
        );
        let expected = json!({
            "done_unix_s": [1.5, 2.5], "device": ["a,\"b\"", null], "bytes": [4096, null], "ios": [7, null],
            "lossy": [true, false],
        });
        assert_eq!(serde_json::to_value(table()).unwrap(), expected);
        let mut bytes = Vec::new();
        table().write_arrow(&mut bytes).unwrap();
        let batches: Vec<RecordBatch> = StreamReader::try_new(&bytes[..], None)
            .unwrap()
            .map(|batch| batch.unwrap())
            .collect();
        let column = |name: &str| batches[0].column_by_name(name).unwrap();
        assert_eq!(column("device").as_string::<i32>().value(0), "a,\"b\"");
        assert!(column("device").is_null(1) && column("bytes").is_null(1));
        assert!(column("ios").is_null(1));
        assert_eq!(column("bytes").as_primitive::<Int64Type>().value(0), 4096);
        assert_eq!(
            column("done_unix_s").as_primitive::<Float64Type>().value(1),
            2.5
        );
    }

    #[test]
    fn no_name_begins_a_formula_or_a_line() {
        let hostile = [
            "=cmd|' /C calc'!A0",
            "+1",
            "-1+1",
            "@SUM(1)",
            "a\n=1",
            "\t=1",
        ];
        let mut columns = Columns::default();
        columns.push("process", Column::texts(hostile));
        let text = csv(&columns);
        assert_eq!(text.lines().count(), hostile.len() + 1, "{text}");
        for line in text.lines() {
            let cell = line.trim_start_matches('"').trim_start();
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{text}");
        }
    }

    #[test]
    fn equal_texts_are_held_once() {
        let texts: Texts = (0..1000).map(|i| Some(["a", "b"][i % 2])).collect();
        assert_eq!((texts.known.len(), texts.rows.len()), (2, 1000));
        assert_eq!(texts.get(999), Some("b"));
    }
}
