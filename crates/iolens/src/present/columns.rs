//! Long tables in other forms than JSON: CSV, and a stream of Arrow.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde_json::{Map, Value};

/// What a column holds, whatever is in it: a table without rows has the same types as another one.
const TEXTS: [&str; 14] = [
    "device", "process", "cgroup", "file", "class", "origin", "name", "kind", "severity",
    "summary", "evidence", "start", "end", "by",
];
const INTEGERS: [&str; 13] = [
    "op",
    "sector",
    "bytes",
    "error",
    "pid",
    "read_ios",
    "read_bytes",
    "write_ios",
    "write_bytes",
    "discard_ios",
    "discard_bytes",
    "flush_ios",
    "flush_bytes",
];
const FLAGS: [&str; 2] = ["lossy", "others"];

/// In which form a table is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// The document.
    Json,
    /// A line of names, and one for each row; empty where a value is not known.
    Csv,
    /// The stream format of Arrow IPC, one batch; null where a value is not known.
    Arrow,
}

impl TableFormat {
    /// By the names of the parameter `format`.
    pub const NAMES: [(&'static str, TableFormat); 3] = [
        ("json", TableFormat::Json),
        ("csv", TableFormat::Csv),
        ("arrow", TableFormat::Arrow),
    ];
}

fn type_of(name: &str) -> DataType {
    match name {
        _ if TEXTS.contains(&name) => DataType::Utf8,
        _ if INTEGERS.contains(&name) => DataType::Int64,
        _ if FLAGS.contains(&name) => DataType::Boolean,
        _ => DataType::Float64,
    }
}

/// The values of a column; none of one that is no array.
fn values(column: &Value) -> &[Value] {
    column.as_array().map_or(&[], Vec::as_slice)
}

/// `columns` (arrays of one length) as CSV.
pub fn csv(columns: &Map<String, Value>) -> String {
    let mut out = columns
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",");
    out.push('\n');
    let rows = columns.values().map(|c| values(c).len()).max().unwrap_or(0);
    for i in 0..rows {
        let cells = columns
            .values()
            .map(|c| values(c).get(i).map_or_else(String::new, cell));
        out.push_str(&cells.collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

/// One value. Texts with a comma, a quote or a line end are quoted, as RFC 4180 has it; what could act on a terminal is
/// escaped as in JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let text = super::escape::terminal(text);
            if text.contains([',', '"']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.into_owned()
            }
        }
        other => other.to_string(),
    }
}

/// `columns` (arrays of one length) as a stream of Arrow.
///
/// # Errors
/// The arrays differ in length.
pub fn arrow(columns: &Map<String, Value>) -> Result<Vec<u8>, ArrowError> {
    let fields: Vec<Field> = columns
        .keys()
        .map(|name| Field::new(name, type_of(name), true))
        .collect();
    let arrays = fields
        .iter()
        .zip(columns.values())
        .map(|(field, column)| array(field.data_type(), values(column)));
    let schema = Arc::new(Schema::new(fields.clone()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.collect())?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    writer.into_inner()
}

fn array(of: &DataType, values: &[Value]) -> ArrayRef {
    match of {
        DataType::Utf8 => Arc::new(values.iter().map(Value::as_str).collect::<StringArray>()),
        DataType::Int64 => Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>()),
        DataType::Boolean => Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>()),
        _ => Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_ipc::reader::StreamReader;
    use serde_json::json;

    fn table() -> Map<String, Value> {
        let columns = json!({
            "done_unix_s": [1.5, 2.5], "device": ["a,\"b\"", null], "bytes": [4096, null], "lossy": [true, false],
        });
        columns.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn both_forms_say_what_json_says() {
        let mut lines: Vec<String> = csv(&table()).lines().map(str::to_owned).collect();
        assert_eq!(
            lines.remove(0),
            table().keys().cloned().collect::<Vec<_>>().join(",")
        );
        assert!(
            lines[0].contains("\"a,\"\"b\"\"\"")
                && lines[0].contains("4096")
                && lines[1].contains("2.5"),
            "{lines:?}"
        );
        let bytes = arrow(&table()).expect("encodes");
        let batches: Vec<RecordBatch> = StreamReader::try_new(&bytes[..], None)
            .expect("a stream")
            .map(|b| b.expect("a batch"))
            .collect();
        let [batch] = &batches[..] else {
            panic!("one batch")
        };
        let column = |name: &str| batch.column_by_name(name).expect("there");
        assert_eq!(column("bytes").as_primitive::<Int64Type>().value(0), 4096);
        assert!(
            column("bytes").is_null(1) && column("device").is_null(1),
            "not known is not zero"
        );
        assert_eq!(column("device").as_string::<i32>().value(0), "a,\"b\"");
        assert_eq!(
            column("done_unix_s")
                .as_primitive::<Float64Type>()
                .values()
                .to_vec(),
            [1.5, 2.5]
        );
        assert!(column("lossy").as_boolean().value(0));
    }

    #[test]
    fn a_table_without_rows_has_the_same_types() {
        let none = json!({ "done_unix_s": [], "device": [], "bytes": [], "lossy": [] });
        let schema = |columns: &Map<String, Value>| {
            let bytes = arrow(columns).expect("encodes");
            StreamReader::try_new(&bytes[..], None)
                .expect("a stream")
                .schema()
        };
        let none = none.as_object().cloned().unwrap_or_default();
        assert_eq!(schema(&none), schema(&table()));
        assert_eq!(csv(&none).lines().count(), 1);
    }

    #[test]
    fn a_name_cannot_act_on_a_terminal() {
        let columns = json!({ "name": ["\u{1b}]0;x", "a\nb"] });
        let text = csv(columns.as_object().unwrap_or(&Map::new()));
        assert!(
            !text.contains('\u{1b}') && text.lines().count() == 3,
            "{text}"
        );
    }
}
