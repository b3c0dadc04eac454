//! The tables of a recording and their columns: the one place with names, types and encodings.
//!
//! `docs/recording-format.md` is this table in words; a test holds the two together.

use std::sync::{Arc, LazyLock};

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use super::row::io_column;

/// A table of a recording; the number is in the headers of write-ahead logs.
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

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    I32,
    I64,
    Text,
}

/// What the writer expects of a column's values; readers take any encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Growing: deltas.
    Time,
    /// Few different values: a dictionary, unless there are too many after all.
    Few,
    /// Many different values.
    Many,
}

/// Definition of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnDef {
    pub name: &'static str,
    pub kind: Kind,
    /// Must be in every file and never null.
    pub required: bool,
    pub layout: Layout,
    /// Smaller values are nonsense in a file that another program wrote.
    pub min: i64,
}

impl ColumnDef {
    /// Never negative: a length, or a time since the start of the recording.
    const fn not_negative(self) -> ColumnDef {
        ColumnDef { min: 0, ..self }
    }
}

const fn required(name: &'static str, kind: Kind, layout: Layout) -> ColumnDef {
    ColumnDef {
        name,
        kind,
        required: true,
        layout,
        min: i64::MIN,
    }
}

const fn optional(name: &'static str, kind: Kind, layout: Layout) -> ColumnDef {
    ColumnDef {
        name,
        kind,
        required: false,
        layout,
        min: i64::MIN,
    }
}

use Kind::{I32, I64, Text};
use Layout::{Few, Many, Time};

const IO: &[ColumnDef] = &[
    required("done_ns", I64, Time).not_negative(),
    required("dev", I32, Few),
    required("op", I32, Few),
    required("bytes", I64, Few).not_negative(),
    optional("queue_ns", I64, Many).not_negative(),
    required("device_ns", I64, Many).not_negative(),
    optional("sector", I64, Many),
    optional("flags", I32, Few),
    optional("error", I32, Few),
    optional("merges", I32, Few),
    optional("tgid", I32, Few),
    optional("comm", Text, Few),
    optional("cgroup", I64, Few),
    optional("ino", I64, Few),
    optional("fs_dev", I32, Few),
    optional("origin", I32, Few),
    optional("generation", I64, Few),
];

const COUNTERS: &[ColumnDef] = &[
    required("at_ns", I64, Time),
    required("dev", I32, Few),
    required("read_ios", I64, Many),
    required("read_merges", I64, Many),
    required("read_sectors", I64, Many),
    required("read_ticks_ms", I64, Many),
    required("write_ios", I64, Many),
    required("write_merges", I64, Many),
    required("write_sectors", I64, Many),
    required("write_ticks_ms", I64, Many),
    required("in_flight", I64, Many),
    required("io_ticks_ms", I64, Many),
    required("time_in_queue_ms", I64, Many),
    optional("discard_ios", I64, Many),
    optional("discard_merges", I64, Many),
    optional("discard_sectors", I64, Many),
    optional("discard_ticks_ms", I64, Many),
    optional("flush_ios", I64, Many),
    optional("flush_ticks_ms", I64, Many),
];

const LOST: &[ColumnDef] = &[
    required("from_ns", I64, Time),
    required("to_ns", I64, Time),
    required("reason", Text, Few),
    optional("dev", I32, Few),
    optional("class", Text, Few),
    optional("ios", I64, Many),
    optional("bytes", I64, Many),
    optional("merges", I64, Many),
];

const MARKS: &[ColumnDef] = &[
    required("at_ns", I64, Time),
    required("kind", Text, Few),
    required("text", Text, Few),
];

const REQUESTS: &[ColumnDef] = &[
    required("end_ns", I64, Time),
    required("start_ns", I64, Time),
    required("flags", I32, Few),
    optional("sync", I32, Few),
    optional("open_ns", I64, Many),
    optional("close_ns", I64, Many),
    optional("last_after_ns", I64, Many),
    required("active_ns", I64, Many),
    required("ios_in", I64, Few),
    required("ios_out", I64, Few),
    required("bytes_in", I64, Few),
    required("bytes_out", I64, Few),
    required("empty_reads", I64, Few),
    required("failed", I64, Few),
    required("device_ios", I64, Few),
    required("slept_ios", I64, Few),
    optional("io1_after_ns", I64, Many),
    optional("io1_ns", I64, Many),
    optional("io1_bytes", I64, Few),
    optional("io1_how", I32, Few),
    optional("io2_after_ns", I64, Many),
    optional("io2_ns", I64, Many),
    optional("io2_bytes", I64, Few),
    optional("io2_how", I32, Few),
    optional("io3_after_ns", I64, Many),
    optional("io3_ns", I64, Many),
    optional("io3_bytes", I64, Few),
    optional("io3_how", I32, Few),
    optional("io4_after_ns", I64, Many),
    optional("io4_ns", I64, Many),
    optional("io4_bytes", I64, Few),
    optional("io4_how", I32, Few),
    optional("slowest_after_ns", I64, Many),
    optional("slowest_ns", I64, Many),
    optional("slowest_bytes", I64, Few),
    optional("slowest_how", I32, Few),
    optional("size", I64, Few),
    optional("tgid", I32, Few),
    optional("comm", Text, Few),
    optional("cgroup", I64, Few),
    optional("fd", I32, Few),
    optional("ino", I64, Many),
    optional("fs_dev", I32, Few),
    optional("path", Text, Few),
    optional("read_histogram", Text, Many),
    optional("write_histogram", Text, Many),
];

const NAMES: &[ColumnDef] = &[
    required("at_ns", I64, Time),
    required("kind", Text, Few),
    optional("fs_dev", I32, Few),
    required("id", I64, Many),
    required("text", Text, Few),
    optional("generation", I64, Many),
];

const PRESSURE: &[ColumnDef] = &[
    required("from_ns", I64, Time).not_negative(),
    required("to_ns", I64, Time).not_negative(),
    optional("cpus", I32, Few),
    optional("cpu_some_ns", I64, Many).not_negative(),
    optional("io_some_ns", I64, Many).not_negative(),
    optional("io_full_ns", I64, Many).not_negative(),
    optional("steal_ns", I64, Few).not_negative(),
    optional("runnable", I32, Few),
    optional("timer_due_ns", I64, Many),
    optional("timer_late_ns", I64, Many).not_negative(),
];

const CGROUPS: &[ColumnDef] = &[
    required("at_ns", I64, Time).not_negative(),
    optional("cgroup", I64, Few),
    optional("tgid", I32, Few),
    required("path", Text, Few),
    optional("dev", I32, Few),
    optional("read_bytes_per_s", I64, Few).not_negative(),
    optional("write_bytes_per_s", I64, Few).not_negative(),
    optional("read_ios_per_s", I64, Few).not_negative(),
    optional("write_ios_per_s", I64, Few).not_negative(),
    optional("latency_target_ns", I64, Few).not_negative(),
    optional("weight", I64, Few).not_negative(),
    optional("memory_max", I64, Few).not_negative(),
    optional("memory_high", I64, Few).not_negative(),
    optional("io_some_ns", I64, Many).not_negative(),
    optional("io_full_ns", I64, Many).not_negative(),
];

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
        match self {
            Table::Io => "io",
            Table::Counters => "counters",
            Table::Lost => "lost",
            Table::Marks => "marks",
            Table::Requests => "requests",
            Table::Names => "names",
            Table::Pressure => "pressure",
            Table::Cgroups => "cgroups",
        }
    }

    pub fn from_code(code: u16) -> Option<Table> {
        Self::ALL.into_iter().find(|t| *t as u16 == code)
    }

    pub fn from_name(name: &str) -> Option<Table> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    pub fn columns(self) -> &'static [ColumnDef] {
        match self {
            Table::Io => IO,
            Table::Counters => COUNTERS,
            Table::Lost => LOST,
            Table::Marks => MARKS,
            Table::Requests => REQUESTS,
            Table::Names => NAMES,
            Table::Pressure => PRESSURE,
            Table::Cgroups => CGROUPS,
        }
    }

    /// Position of the column by which the table is ordered.
    pub fn time_column(self) -> usize {
        match self {
            Table::Io
            | Table::Counters
            | Table::Marks
            | Table::Requests
            | Table::Names
            | Table::Cgroups => 0,
            Table::Lost | Table::Pressure => 1,
        }
    }

    /// Positions of the columns whose sum is how long before its time a row began.
    pub fn length_columns(self) -> &'static [usize] {
        match self {
            Table::Io => &[io_column::QUEUE, io_column::DEVICE],
            Table::Counters
            | Table::Marks
            | Table::Requests
            | Table::Names
            | Table::Lost
            | Table::Pressure
            | Table::Cgroups => &[],
        }
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
            assert_eq!(Table::from_code(table as u16), Some(table));
            assert_eq!(Table::from_name(table.name()), Some(table));
        }
    }
}
