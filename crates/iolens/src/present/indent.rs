//! Readable JSON without excessive indentation for hundreds of devices.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

/// The document with one line per value of its first three levels, and a final line end. Deeper levels share a line,
/// because with hundreds of devices half of the text would be indentation.
///
/// # Errors
/// Serialisation fails.
pub fn indented(document: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    let formatter = Indented {
        pretty: PrettyFormatter::new(),
        depth: 0,
    };
    document.serialize(&mut serde_json::Serializer::with_formatter(
        &mut text, formatter,
    ))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Pretty-prints down to three levels.
struct Indented {
    pretty: PrettyFormatter<'static>,
    depth: usize,
}

impl Indented {
    fn is_deep(&self) -> bool {
        self.depth > 3
    }

    fn begin<W: ?Sized + Write>(&mut self, w: &mut W, bracket: u8) -> io::Result<()> {
        self.depth += 1;
        match bracket {
            _ if self.is_deep() => w.write_all(&[bracket]),
            b'[' => self.pretty.begin_array(w),
            _ => self.pretty.begin_object(w),
        }
    }

    fn end<W: ?Sized + Write>(&mut self, w: &mut W, bracket: u8) -> io::Result<()> {
        let deep = self.is_deep();
        self.depth -= 1;
        match bracket {
            _ if deep => w.write_all(&[bracket]),
            b']' => self.pretty.end_array(w),
            _ => self.pretty.end_object(w),
        }
    }

    fn comma<W: ?Sized + Write>(w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }
}

impl Formatter for Indented {
    fn begin_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.begin(w, b'[')
    }

    fn end_array<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.end(w, b']')
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if self.is_deep() {
            Indented::comma(w, first)
        } else {
            self.pretty.begin_array_value(w, first)
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        if self.is_deep() {
            Ok(())
        } else {
            self.pretty.end_array_value(w)
        }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.begin(w, b'{')
    }

    fn end_object<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        self.end(w, b'}')
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if self.is_deep() {
            Indented::comma(w, first)
        } else {
            self.pretty.begin_object_key(w, first)
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        if self.is_deep() {
            Ok(())
        } else {
            self.pretty.end_object_value(w)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_levels_have_lines_and_the_rest_shares_one() {
        let value =
            serde_json::json!({"a": [], "b": [{"c": {"d": [1, {"e": null}], "f": "x"}, "g": 2}]});
        let text = indented(&value).expect("JSON");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON"),
            value
        );
        let lines = [
            "{",
            "  \"a\": [],",
            "  \"b\": [",
            "    {",
            "      \"c\": {\"d\": [1, {\"e\": null}], \"f\": \"x\"},",
        ];
        assert_eq!(text.lines().take(5).collect::<Vec<_>>(), lines);
        assert!(text.ends_with("}\n"));
    }
}
