//! docs/recording-format.md and the Python package list exactly the declared columns, in the declared order. `make
//! schema` writes both; the tests compare them.

use std::fmt::Write as _;
use std::path::Path;

use crate::model::{Class, LossReason, Op, Origin};
use crate::store::schema::{ColumnDef, Kind, TableDef};
use crate::store::tables;

const DOCUMENT: &str = include_str!("../../../../../docs/recording-format.md");
/// The files are written instead of compared if this is set.
const WRITE: &str = "IOLENS_WRITE_SCHEMA";

/// Compares `text` with a file of the repository, or writes it.
fn assert_written(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, text).expect("writes");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (is, must)) in there.lines().zip(text.lines()).enumerate() {
        assert_eq!(is, must, "{name}:{}: run `make schema`", line + 1);
    }
    assert!(
        there == text,
        "{name} is not as declared: run `make schema`"
    );
}

fn type_in_document(kind: Kind) -> &'static str {
    match kind {
        Kind::I32 => "INT32",
        Kind::I64 => "INT64",
        Kind::F64 => "DOUBLE",
        Kind::Text => "STRING",
        Kind::List => "LIST of INT32",
    }
}

/// The meaning, which is a comment of one or more lines.
fn meaning(c: &ColumnDef) -> &'static str {
    c.meaning.trim()
}

fn table_in_document(table: &TableDef) -> String {
    let mut text = "| column | type | required | meaning |\n|---|---|---|---|\n".to_owned();
    for c in table.columns {
        let required = if c.required { "yes" } else { "no" };
        let kind = type_in_document(c.kind);
        let meaning = meaning(c);
        writeln!(text, "| `{}` | {kind} | {required} | {meaning} |", c.name).expect("a string");
    }
    text
}

#[test]
fn the_document_lists_the_columns_of_every_table() {
    let mut document = DOCUMENT.to_owned();
    for table in tables::ALL {
        let heading = format!("\n### {}\n", table.name);
        let section = document.find(&heading).expect("the heading is there") + heading.len();
        let start = document[section..].find("| column |").expect("a table") + section;
        let length = document[start..].find("\n\n").expect("its end") + 1;
        document.replace_range(start..start + length, &table_in_document(table));
    }
    assert_written("docs/recording-format.md", &document);
}

/// Names that DuckDB and Spark share.
fn type_in_sql(kind: Kind) -> &'static str {
    match kind {
        Kind::I32 => "int",
        Kind::I64 => "bigint",
        Kind::F64 => "double",
        Kind::Text => "string",
        Kind::List => "array<int>",
    }
}

/// SQL of the class of a column `op`: the operations that are no reads though even, or no writes though odd, one by one.
fn class_in_sql() -> String {
    let mut sql = "case".to_owned();
    for op in (0..256).map(Op) {
        let is_odd = op.0 % 2 == 1;
        let usual = if is_odd { Class::Write } else { Class::Read };
        if op.class() != usual {
            let name = op.class().name();
            write!(sql, " when op = {} then '{name}'", op.0).expect("a string");
        }
    }
    sql + " when abs(op) % 2 = 1 then 'write' else 'read' end"
}

#[test]
fn the_python_package_has_the_columns_of_every_table() {
    let mut text = "\"\"\"Columns of the stored tables, as crates/core/src/store/tables declares them. Made by `make schema`.\"\"\"\n\n\
        # Of each table: of each column its name, its type in SQL, and whether it is required.\n\
        COLUMNS: dict[str, tuple[tuple[str, str, bool], ...]] = {\n"
        .to_owned();
    for table in tables::ALL {
        writeln!(text, "    \"{}\": (", table.name).expect("a string");
        for c in table.columns {
            let required = if c.required { "True" } else { "False" };
            let sql = type_in_sql(c.kind);
            writeln!(text, "        (\"{}\", \"{sql}\", {required}),", c.name).expect("a string");
        }
        text += "    ),\n";
    }
    text += "}\n\n# Of each table: the column by which it is ordered.\nTIMES: dict[str, str] = {\n";
    for table in tables::ALL {
        if let Some(time) = table.time {
            let time = table.columns[time].name;
            writeln!(text, "    \"{}\": \"{time}\",", table.name).expect("a string");
        }
    }
    text += "}\n\n# What counts as a read, a write, a discard or a flush.\n";
    writeln!(text, "CLASS_OF_OP = \"{}\"", class_in_sql()).expect("a string");
    text += "\n# How an I/O came to be, by the number in `origin`.\nORIGINS = (";
    let names: Vec<String> = Origin::ALL.map(|o| format!("\"{}\"", o.name())).into();
    writeln!(text, "{})", names.join(", ")).expect("a string");
    assert_written("python/src/iolens/columns.py", &text);
}

#[test]
fn the_document_names_every_reason_and_operation() {
    for reason in LossReason::ALL {
        assert!(
            DOCUMENT.contains(&format!("`{}`", reason.name())),
            "{reason:?}"
        );
    }
    for (op, name) in [
        (Op::READ, "read"),
        (Op::DISCARD, "discard"),
        (Op::WRITE_ZEROES, "write zeroes"),
    ] {
        assert!(DOCUMENT.contains(&format!("{} {name}", op.0)), "{name}");
    }
}

#[test]
fn constants_of_the_document_are_those_of_the_code() {
    let flags = [8, 16, 512, 1024, 2048];
    use crate::model::Io;
    let code = [
        Io::FLAG_SYNC,
        Io::FLAG_META,
        Io::FLAG_FUA,
        Io::FLAG_PREFLUSH,
        Io::FLAG_RAHEAD,
    ];
    assert_eq!(flags, code);
    for flag in flags {
        assert!(DOCUMENT.contains(&format!("{flag} `REQ_")), "{flag}");
    }
}
