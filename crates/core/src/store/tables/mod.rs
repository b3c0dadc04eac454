//! The tables of a recording, one file each: what is written and read, its meaning, and its conversion to bytes.
//!
//! A column is one line of a declaration: its name, the type of its cells (`Option`: null if not known), the
//! distribution that the writer expects, the valid range (`from` and `to`), and the expression that gets the value from
//! a row of the model. The doc comment above is its meaning in `docs/recording-format.md`. `make schema` generates that
//! page and the columns of the Python package from the declarations, and a test compares them. To add a column, add a
//! line at the end of the declaration, and one to the function below it that reads rows.
//!
//! New columns come last and are optional, because logs and files of earlier versions lack them.

use std::path::Path;

use super::error::StoreError;
use super::schema::{Table, TableDef};
use super::sums;

/// Declares a table. Rows of `logged` tables go through the write-ahead log as they arrive ([`super::wal`]). The others
/// are `whole`: they are written as complete files ([`super::whole_file`]).
///
/// Defines `TABLE`, the column positions `at::COLUMN`, [`Columns`](marks::Columns) to read decoded columns by name, and
/// the function that passes rows to the encoder: `put` for logged tables, `collect` for whole ones.
macro_rules! table {
    (
        $mode:ident $name:literal of $row:ty $(, by $time:ident)? $(, lasting $($length:ident)+)? ;
        $( $(#[doc = $meaning:literal])+
           $column:ident : $cell:ty $(as $layout:ident $(from $min:literal $(to $max:ident)?)?)? = $get:expr ; )+
    ) => {
        /// Positions of the columns.
        #[allow(non_upper_case_globals, dead_code)]
        pub(in crate::store) mod at {
            #[allow(non_camel_case_types)]
            enum Position { $($column),+ }
            $( pub const $column: usize = Position::$column as usize; )+
        }

        pub(in crate::store) const TABLE: $crate::store::schema::TableDef = $crate::store::schema::TableDef {
            name: $name,
            time: table!(@time $($time)?),
            length: &[$($(at::$length),+)?],
            columns: &[$( $crate::store::schema::ColumnDef {
                name: stringify!($column),
                kind: <$cell as $crate::store::cell::Cell>::KIND,
                required: <$cell as $crate::store::cell::Cell>::REQUIRED,
                layout: table!(@layout $($layout)?),
                min: table!(@min $($($min)?)?),
                max: table!(@max $($($($max)?)?)?),
                meaning: concat!($($meaning),+),
            } ),+],
        };

        /// Decoded columns by their names.
        #[derive(Clone, Copy)]
        #[allow(dead_code)]
        pub(in crate::store) struct Columns<'a>(pub &'a [$crate::store::column::Column]);

        // Methods have the names of columns, some of which start with `from_` or `to_`.
        #[allow(dead_code, clippy::wrong_self_convention)]
        impl<'a> Columns<'a> {
            $( $(#[doc = $meaning])+
            pub fn $column(self, row: usize) -> <$cell as $crate::store::cell::Cell>::Read<'a> {
                <$cell as $crate::store::cell::Cell>::read(&self.0[at::$column], row)
            } )+
        }

        table! { @$mode $row; $( $cell, $get; )+ }
    };
    (@logged $row:ty; $( $cell:ty, $get:expr; )+) => {
        /// Passes the values of all columns to `e`, in order.
        fn put(rows: &[$row], e: &mut $crate::store::frame_encoder::FrameEncoder) {
            $( <_ as $crate::store::cell::Framed<$cell>>::frame(e, rows.iter().map($get)); )+
        }
    };
    (@whole $row:ty; $( $cell:ty, $get:expr; )+) => {
        /// The columns of rows, in order.
        fn collect(rows: &[$row]) -> Vec<$crate::store::column::Column> {
            vec![$( <_ as $crate::store::cell::Collected<$cell>>::collect(rows.iter().map($get)) ),+]
        }
    };
    (@time $time:ident) => { Some(at::$time) };
    (@time) => { None };
    (@layout $layout:ident) => { $crate::store::schema::ColumnLayout::$layout };
    (@layout) => { $crate::store::schema::ColumnLayout::Many };
    (@min $min:literal) => { $min };
    (@min) => { i64::MIN };
    (@max $max:ident) => { $crate::store::schema::$max };
    (@max) => { i64::MAX };
}

pub(super) mod actors;
pub(super) mod cgroups;
pub(super) mod counters;
pub(super) mod cpu;
pub(super) mod devices;
pub(super) mod findings;
pub(super) mod io;
pub(super) mod lost;
pub(super) mod marks;
pub(super) mod names;
pub(super) mod pressure;
pub(super) mod rates;
pub(super) mod requests;
pub(super) mod rollup;
pub(super) mod stages;
pub(super) mod waits;

impl Table {
    /// Its declaration.
    pub(super) fn def(self) -> &'static TableDef {
        match self {
            Table::Io => &io::TABLE,
            Table::Counters => &counters::TABLE,
            Table::Lost => &lost::TABLE,
            Table::Marks => &marks::TABLE,
            Table::Requests => &requests::TABLE,
            Table::Names => &names::TABLE,
            Table::Pressure => &pressure::TABLE,
            Table::Cgroups => &cgroups::TABLE,
        }
    }
}

/// A table of sums. Each row belongs to a slot of one of several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumTable {
    /// I/Os per device and class.
    Rollups,
    /// The actors with the most I/O time.
    Actors,
    /// Waits by victim and cause.
    Waits,
}

impl SumTable {
    fn name(self) -> &'static str {
        match self {
            SumTable::Rollups => rollup::TABLE.name,
            SumTable::Actors => actors::TABLE.name,
            SumTable::Waits => waits::TABLE.name,
        }
    }

    /// The steps in seconds for which the recording has rows, the finest first.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn steps(self, recording: &Path) -> Result<Vec<i32>, StoreError> {
        sums::steps(recording, self.name())
    }

    /// End of the newest slot of `step_s`, in nanoseconds since the recording's start; 0 if there is none. Damaged
    /// files are ignored.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn until(self, recording: &Path, step_s: i32) -> Result<i64, StoreError> {
        sums::until(recording, self.name(), step_s)
    }
}

/// Every table, in the order of `docs/recording-format.md`.
#[cfg(test)]
pub(super) const ALL: [&TableDef; 16] = [
    &io::TABLE,
    &counters::TABLE,
    &lost::TABLE,
    &requests::TABLE,
    &names::TABLE,
    &pressure::TABLE,
    &cgroups::TABLE,
    &marks::TABLE,
    &rates::TABLE,
    &stages::TABLE,
    &cpu::TABLE,
    &rollup::TABLE,
    &actors::TABLE,
    &waits::TABLE,
    &findings::TABLE,
    &devices::TABLE,
];
