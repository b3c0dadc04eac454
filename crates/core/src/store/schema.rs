//! The parts of a table's declaration ([`super::tables`]), and the schemas of its files.

use std::sync::{Arc, LazyLock};

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use super::column::Ints;

/// Upper bound of times and durations in nanoseconds: 73 years. Three such values can be added without overflow.
pub(crate) const MAX_TIME_NS: i64 = (1 << 61) - 1;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    I32,
    I64,
    F64,
    Text,
    /// A list of numbers of 32 bits.
    List,
}

/// The distribution of a column's values that the writer expects, from which it chooses the encoding. Readers take any
/// encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnLayout {
    /// Increasing values: stored as deltas.
    Time,
    /// Few distinct values: stored with a dictionary, unless there turn out to be too many.
    Few,
    /// Many distinct values.
    Many,
}

/// Definition of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnDef {
    pub name: &'static str,
    pub kind: Kind,
    /// Must be in every file and never null.
    pub required: bool,
    pub layout: ColumnLayout,
    /// Smaller values are invalid in a file that another program wrote.
    pub min: i64,
    /// Larger values are invalid in any file, and so are those below its complement.
    pub max: i64,
    /// Its meaning, as in the documentation of the format.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the documentation is made by a test")
    )]
    pub meaning: &'static str,
}

impl ColumnDef {
    /// The smallest and the largest allowed value, in our files or in those of another program (`foreign`).
    pub fn bounds(&self, foreign: bool) -> (i64, i64) {
        // Our writer stores no impossible values, but another program can write a file that looks like ours.
        let least = if foreign { self.min } else { i64::MIN };
        // The complement of `i64::MAX` is `i64::MIN`, which is no bound.
        (least.max(!self.max), self.max)
    }

    /// Describes the first invalid value in `values`, whose first row is row `row` of the file; `None` if all are
    /// valid.
    pub fn problem(&self, values: &Ints, row: usize, foreign: bool) -> Option<String> {
        let (least, most) = self.bounds(foreign);
        let (at, value) = values.first_outside(least, most)?;
        let row = row + at;
        Some(if value < least {
            format!("holds {value} in row {row}; it must not be below {least}")
        } else {
            format!("holds {value} in row {row}; it must not be above {most}")
        })
    }
}

/// Definition of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableDef {
    /// Its directory inside a recording.
    pub name: &'static str,
    /// Position of the column by which it is ordered.
    pub time: Option<usize>,
    /// Positions of the columns whose sum is the duration of a row, that is the time from its start to its time column.
    pub length: &'static [usize],
    pub columns: &'static [ColumnDef],
}

impl TableDef {
    /// The schema of its files as the Parquet library parses it.
    pub fn message(&self) -> String {
        let fields: Vec<String> = self.columns.iter().map(field).collect();
        format!("message {} {{ {} }}", self.name, fields.join(" "))
    }
}

fn field(c: &ColumnDef) -> String {
    let repetition = if c.required { "REQUIRED" } else { "OPTIONAL" };
    let name = c.name;
    match c.kind {
        Kind::I32 => format!("{repetition} INT32 {name};"),
        Kind::I64 => format!("{repetition} INT64 {name};"),
        Kind::F64 => format!("{repetition} DOUBLE {name};"),
        Kind::Text => format!("{repetition} BYTE_ARRAY {name} (UTF8);"),
        Kind::List => format!(
            "{repetition} group {name} (LIST) {{ repeated group list {{ REQUIRED INT32 element; }} }}"
        ),
    }
}

/// A table whose rows go through the write-ahead log. The discriminant is stored in the headers of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Table {
    Io = 1,
    Counters = 2,
    Lost = 3,
    Marks = 4,
    Requests = 5,
    Names = 6,
    Pressure = 7,
    Cgroups = 8,
}

impl Table {
    pub const ALL: [Table; Table::COUNT] = [
        Table::Io,
        Table::Counters,
        Table::Lost,
        Table::Marks,
        Table::Requests,
        Table::Names,
        Table::Pressure,
        Table::Cgroups,
    ];

    /// How many tables there are.
    pub const COUNT: usize = 8;

    /// All but the block I/Os.
    pub const OTHERS: [Table; Table::COUNT - 1] = [
        Table::Counters,
        Table::Lost,
        Table::Marks,
        Table::Requests,
        Table::Names,
        Table::Pressure,
        Table::Cgroups,
    ];

    /// Directory of the table inside a recording, and first part of its logs' names.
    pub fn name(self) -> &'static str {
        self.def().name
    }

    pub fn from_code(code: u16) -> Option<Table> {
        Self::ALL.into_iter().find(|t| *t as u16 == code)
    }

    pub fn from_name(name: &str) -> Option<Table> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    pub fn columns(self) -> &'static [ColumnDef] {
        self.def().columns
    }

    /// Position of the column by which the table is ordered.
    pub fn time_column(self) -> usize {
        self.def().time.unwrap_or(0)
    }

    /// Positions of the columns whose sum is the duration of a row, that is the time from its start to its time column.
    pub fn length_columns(self) -> &'static [usize] {
        self.def().length
    }

    /// The Parquet schema that the writer gives its files.
    pub fn parquet(self) -> TypePtr {
        static SCHEMAS: LazyLock<[TypePtr; Table::COUNT]> = LazyLock::new(|| Table::ALL.map(build));
        SCHEMAS[self as usize - 1].clone()
    }
}

fn build(table: Table) -> TypePtr {
    let fields = table.columns().iter().map(|c| {
        let (physical, logical) = match c.kind {
            Kind::I32 => (Physical::INT32, None),
            Kind::I64 => (Physical::INT64, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            // No logged table has a column of this kind.
            Kind::F64 | Kind::List => (Physical::DOUBLE, None),
        };
        let repetition = if c.required {
            Repetition::REQUIRED
        } else {
            Repetition::OPTIONAL
        };
        let built = Type::primitive_type_builder(c.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build();
        Arc::new(built.expect("the schema is a constant, and a test builds it"))
    });
    let group = Type::group_type_builder(table.name())
        .with_fields(fields.collect())
        .build();
    Arc::new(group.expect("the schema is a constant, and a test builds it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_schema_whose_time_column_is_a_required_i64() {
        for table in Table::ALL {
            assert_eq!(table.parquet().get_fields().len(), table.columns().len());
            let time = table.columns()[table.time_column()];
            assert!(time.required && time.kind == Kind::I64, "{table:?}");
            assert_eq!(table.def().time, Some(table.time_column()));
            let fits_a_frame = |c: &ColumnDef| !matches!(c.kind, Kind::F64 | Kind::List);
            assert!(table.columns().iter().all(fits_a_frame), "{table:?}");
            assert_eq!(Table::from_code(table as u16), Some(table));
            assert_eq!(Table::from_name(table.name()), Some(table));
        }
    }
}
