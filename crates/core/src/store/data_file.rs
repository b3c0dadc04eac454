//! A table of results as one Parquet file: optional doubles and strings, one row group, zstd.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::model::{ColumnValues, DataColumn, DataTable};

/// Encodes `table` as a Parquet file. It can be read by any Parquet reader and is not part of a recording.
///
/// # Errors
/// Two columns of one name, or a bug.
pub fn data_parquet(table: &DataTable) -> std::io::Result<Vec<u8>> {
    encode(table).map_err(|e| {
        std::io::Error::other(format!("the results cannot be written as Parquet: {e}"))
    })
}

fn encode(table: &DataTable) -> Result<Vec<u8>, ParquetError> {
    let fields = table
        .columns
        .iter()
        .map(field)
        .collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("results")
        .with_fields(fields)
        .build()?;
    let properties = WriterProperties::builder()
        .set_created_by(format!("iolens-lab {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for c in &table.columns {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        match &c.values {
            ColumnValues::Numbers(v) => {
                let present: Vec<f64> = v.iter().copied().flatten().collect();
                column
                    .typed::<DoubleType>()
                    .write_batch(&present, Some(&defined(v)), None)?;
            }
            ColumnValues::Words(v) => {
                let present: Vec<ByteArray> = v
                    .iter()
                    .flatten()
                    .map(|w| ByteArray::from(w.as_str()))
                    .collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&present, Some(&defined(v)), None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(c: &DataColumn) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match c.values {
        ColumnValues::Numbers(_) => (Physical::DOUBLE, None),
        ColumnValues::Words(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let builder = Type::primitive_type_builder(&c.name, physical).with_logical_type(logical);
    Ok(Arc::new(
        builder.with_repetition(Repetition::OPTIONAL).build()?,
    ))
}

/// Definition levels: 1 where there is a value.
fn defined<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|v| i16::from(v.is_some())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn written_rows_are_read_back_with_gaps() {
        let table = DataTable::new(3)
            .words("series", [Some("a".to_owned()), None, Some("ü".to_owned())])
            .numbers("iops", [Some(1.5), Some(-2e9), None]);
        let bytes = data_parquet(&table).expect("encodes");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("is Parquet");
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .expect("rows")
            .map(|r| {
                r.expect("row")
                    .get_column_iter()
                    .map(|(_, f)| f.clone())
                    .collect()
            })
            .collect();
        assert_eq!(rows[0], [Field::Str("a".to_owned()), Field::Double(1.5)]);
        assert_eq!(rows[1], [Field::Null, Field::Double(-2e9)]);
        assert_eq!(rows[2], [Field::Str("ü".to_owned()), Field::Null]);
        assert!(
            data_parquet(&DataTable::new(0).numbers("x", Vec::<f64>::new())).is_ok(),
            "no rows"
        );
    }
}
