//! docs/recording-format.md lists the columns that the code writes: all of them, in this order, and no others.

use crate::model::{LossReason, Op};
use crate::store::schema::{Kind, Table};

const DOCUMENT: &str = include_str!("../../../../../docs/recording-format.md");

/// Rows of the first table below `heading`: its first three cells.
fn rows(heading: &str) -> Vec<[&'static str; 3]> {
    let (_, below) = DOCUMENT
        .split_once(&format!("\n### {heading}\n"))
        .expect("the heading is there");
    let lines = below
        .lines()
        .skip_while(|l| !l.starts_with("| column"))
        .skip(2)
        .take_while(|l| l.starts_with('|'));
    let cells = |line: &'static str| {
        let mut cells = line.split('|').skip(1).map(|c| c.trim().trim_matches('`'));
        std::array::from_fn(|_| cells.next().expect("three cells"))
    };
    lines.map(cells).collect()
}

#[test]
fn the_document_lists_the_columns_of_every_table() {
    for table in Table::ALL {
        let expected: Vec<[&str; 3]> = table
            .columns()
            .iter()
            .map(|c| {
                let kind = match c.kind {
                    Kind::I32 => "INT32",
                    Kind::I64 => "INT64",
                    Kind::Text => "STRING",
                };
                [c.name, kind, if c.required { "yes" } else { "no" }]
            })
            .collect();
        assert_eq!(rows(table.name()), expected, "{table:?}");
    }
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
