//! The reports as one JSON document, laid out as the reference does.
//!
//! Strings are escaped here, which the reference forgets.

use super::super::escape;
use super::columns::{BASIC, CellValue, Column, EXTENDED_JSON, EXTENDED_SHORT};
use super::number::{push_float, push_integer};
use super::{Banner, IostatReport, Row, Style, exact};

/// The document's opening, up to and with the list of reports.
pub fn banner(out: &mut Vec<u8>, b: &Banner) {
    out.extend_from_slice(b"{\"sysstat\": {\n\t\"hosts\": [\n\t\t{\n");
    for (key, text) in [
        ("nodename", &b.nodename),
        ("sysname", &b.sysname),
        ("release", &b.release),
        ("machine", &b.machine),
    ] {
        member(out, key, text);
    }
    out.extend_from_slice(format!("\t\t\t\"number-of-cpus\": {},\n", b.processors).as_bytes());
    member(out, "date", &b.date);
    out.extend_from_slice(b"\t\t\t\"statistics\": [\n");
}

/// The document's end, after the line end of the last report.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\t\t\t]\n\t\t}\n\t]\n}}\n");
}

fn member(out: &mut Vec<u8>, key: &str, text: &[u8]) {
    out.extend_from_slice(format!("\t\t\t\"{key}\": ").as_bytes());
    string(out, text);
    out.extend_from_slice(b",\n");
}

/// One report, without comma or line end after it.
pub fn report(out: &mut Vec<u8>, style: &Style, report: &IostatReport<'_>) {
    out.extend_from_slice(b"\t\t\t\t{\n");
    if let Some(stamp) = &report.stamp {
        out.extend_from_slice(b"\t\t\t\t\t\"timestamp\": ");
        string(out, stamp);
        out.extend_from_slice(b",\n");
    }
    if let Some(c) = &report.cpu {
        out.extend_from_slice(b"\t\t\t\t\t\"avg-cpu\":  {");
        let values = [
            ("user", c.user),
            ("nice", c.nice),
            ("system", c.system),
            ("iowait", c.iowait),
            ("steal", c.steal),
            ("idle", c.idle),
        ];
        for (i, (key, v)) in values.into_iter().enumerate() {
            out.extend_from_slice(if i > 0 { b", \"" } else { b"\"" });
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            push_float(out, v, 0, 2, b".");
        }
        out.extend_from_slice(if report.rows.is_some() {
            b"},\n"
        } else {
            b"}\n"
        });
    }
    if let Some(rows) = &report.rows {
        devices(out, style, rows);
    }
    out.extend_from_slice(b"\t\t\t\t}");
}

fn devices(out: &mut Vec<u8>, style: &Style, rows: &[Row<'_>]) {
    let columns: &[Column] = match (style.extended, style.short) {
        (false, _) => &BASIC,
        (true, true) => &EXTENDED_SHORT,
        (true, false) => &EXTENDED_JSON,
    };
    let keys: Vec<String> = columns
        .iter()
        .map(|c| format!(", \"{}\":", c.key(style.unit, style.extended)))
        .collect();
    out.extend_from_slice(b"\t\t\t\t\t\"disk\": [\n");
    let more = exact::fields(style.exact, style.percentiles);
    let shown = rows.iter().filter(|r| !(style.extended && r.members == 0));
    for (i, row) in shown.enumerate() {
        if i > 0 {
            out.extend_from_slice(b",\n");
        }
        out.extend_from_slice(b"\t\t\t\t\t\t{\"disk_device\": ");
        string(out, &row.name);
        for (column, key) in columns.iter().zip(&keys) {
            out.extend_from_slice(key.as_bytes());
            value(out, style, column, row);
        }
        for (key, value) in &more {
            out.extend_from_slice(format!(", \"{key}\":").as_bytes());
            let known = row.exact.as_deref().and_then(value);
            out.extend_from_slice(
                known
                    .map_or_else(|| "null".to_owned(), exact::text)
                    .as_bytes(),
            );
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"\n\t\t\t\t\t]\n");
}

fn value(out: &mut Vec<u8>, style: &Style, column: &Column, row: &Row<'_>) {
    match column.cell {
        CellValue::Number(f) | CellValue::Kib(f) | CellValue::Percent(_, f) => {
            push_float(out, f(row), 0, 2, b".")
        }
        CellValue::SectorRate(f) => {
            push_float(out, f(row) / style.unit.sectors() as f64, 0, 2, b".")
        }
        CellValue::SectorTotal(f) => push_integer(out, f(row) / style.unit.sectors(), 0),
        CellValue::Known(_, f) => match f(row) {
            Some(v) => out.extend_from_slice(exact::text(v).as_bytes()),
            None => out.extend_from_slice(b"null"),
        },
    }
}

/// A JSON string. Bytes that are no UTF-8 become U+FFFD.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for c in escape::json(&String::from_utf8_lossy(text)).chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            c if (c as u32) < 0x20 => {
                out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes())
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
