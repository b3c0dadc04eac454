//! Names that others chose (processes, files, devices, imported text) made harmless for a surface.
//!
//! JSON needs nothing here: `serde_json` escapes it.

use std::borrow::Cow;

/// Whether a terminal, a log or a reader's eye could be misled by `c`: controls, C1, bidirectional overrides, invisible
/// marks, line and paragraph separators, private and unassigned specials.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// For a terminal: treacherous characters become `\x1b` or `\u{202e}`, a backslash becomes two, so that nothing typed by
/// others can be mistaken for an escape of ours.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_treacherous(c) || c == '\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if is_treacherous(c) && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if is_treacherous(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// For a CSV field (RFC 4180), safe to open in a spreadsheet: what would begin a formula gets an apostrophe in front.
pub fn csv(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@']);
    let safe = if text.chars().any(is_treacherous) { terminal(text) } else { Cow::Borrowed(text) };
    let quote = safe.contains([',', '"']) || safe.starts_with(' ') || safe.ends_with(' ');
    if !formula && !quote {
        return safe;
    }
    let safe = format!("{}{safe}", if formula { "'" } else { "" });
    Cow::Owned(if quote { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe })
}

/// For HTML text and quoted attributes.
pub fn html(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| matches!(c, '&' | '<' | '>' | '"' | '\'' | '`') || is_treacherous(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            c if is_treacherous(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(terminal("fio"), "fio");
        assert_eq!(terminal("a\x1b[31mb\n\u{9b}\u{202e}\\"), "a\\x1b[31mb\\x0a\\x9b\\u{202e}\\\\");
        assert_eq!(terminal("Größe 磁盘"), "Größe 磁盘");
    }

    #[test]
    fn csv_fields_are_quoted_and_never_formulas() {
        assert_eq!(csv("fio"), "fio");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("=1+2"), "'=1+2");
        assert_eq!(csv("-x,y"), "\"'-x,y\"");
        assert_eq!(csv("a\nb"), "a\\x0ab");
    }

    #[test]
    fn markup_stays_text() {
        assert_eq!(
            html("<script>alert('x')&\"</script>"),
            "&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;&lt;/script&gt;"
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_in_nothing_dangerous_comes_out(s in "\\PC*|[\\x00-\\x20<>&\"',=\\\\]*") {
            prop_assert!(!terminal(&s).chars().any(is_treacherous));
            prop_assert!(!html(&s).contains(['<', '>', '"', '\'']) && !html(&s).chars().any(is_treacherous));
            let field = csv(&s);
            prop_assert!(!field.contains(['\n', '\r']));
            prop_assert!(field.starts_with('"') || !field.contains([',', '"']));
            let content = field.strip_prefix('"').map_or(field.to_string(), |f| f.replace("\"\"", "\""));
            prop_assert!(!content.starts_with(['=', '+', '-', '@']));
        }
    }
}
