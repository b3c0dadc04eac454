//! Escapes untrusted names (processes, files, devices, imported text) for each kind of output.

use std::borrow::Cow;

/// Whether `c` could mislead a terminal, a log or a reader: controls, C1, bidirectional overrides, invisible marks,
/// line and paragraph separators, private and unassigned specials.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// For a terminal: dangerous characters become `\x1b` or `\u{202e}`, and a backslash is doubled, so that untrusted
/// text cannot look like such an escape.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_treacherous(c) || c == '\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if is_treacherous(c) && (c as u32) < 0x100 => {
                out.push_str(&format!("\\x{:02x}", c as u32))
            }
            c if is_treacherous(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// For a whole message, or a name that must look as in the reference: as [`terminal`], but line ends, tabs and single
/// backslashes are kept.
pub fn message(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_treacherous_in_message) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_treacherous_in_message(c) {
            out.push_str(&terminal(c.encode_utf8(&mut [0; 4])));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_treacherous_in_message(c: char) -> bool {
    is_treacherous(c) && !matches!(c, '\n' | '\t')
}

/// [`message`] for bytes that may not be UTF-8. Bytes without control characters are kept.
pub fn bytes(text: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(text) {
        Ok(text) => match message(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        // 0x80 to 0x9f are control characters in one-byte character sets.
        Err(_)
            if text
                .iter()
                .any(|b| b.is_ascii_control() || (0x80..0xa0).contains(b)) =>
        {
            Cow::Owned(
                message(&String::from_utf8_lossy(text))
                    .into_owned()
                    .into_bytes(),
            )
        }
        Err(_) => Cow::Borrowed(text),
    }
}

/// For JSON text: characters that could mislead a terminal become `\uXXXX`, which is equivalent for every JSON
/// parser. Such characters occur only in strings, and those below U+0020 are escaped there already.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_treacherous_in_json) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_treacherous_in_json(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Characters below U+0020 are escaped by JSON itself.
fn is_treacherous_in_json(c: char) -> bool {
    c >= '\x7f' && is_treacherous(c)
}

/// For a shell: a word that is exactly this text, in `$'...'` if it contains control characters.
pub fn shell(text: &str) -> Cow<'_, str> {
    if !text.is_empty() && text.chars().all(is_plain_in_shell) {
        return Cow::Borrowed(text);
    }
    if !text.chars().any(is_treacherous) {
        return Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")));
    }
    let mut out = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\\' | '\'' => out.extend(['\\', c]),
            c if is_treacherous(c) => {
                c.encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|b| out.push_str(&format!("\\x{b:02x}")));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out + "'")
}

/// Whether `c` needs no quotes in a shell.
fn is_plain_in_shell(c: char) -> bool {
    c.is_alphanumeric() || "-_./+,=:@%".contains(c)
}

/// For the value of a label: misleading characters become text as in [`terminal`].
pub fn label(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c != '\n' && is_treacherous(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// As [`label`], for the text format of Prometheus.
pub fn prometheus(text: &str) -> String {
    label(text)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Characters that start a formula in a spreadsheet; in East Asian locales also their full-width forms.
const FORMULA: [char; 8] = [
    '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];

/// For a CSV field (RFC 4180), safe to open in a spreadsheet: text that would start a formula, in some programs also
/// after spaces, gets a leading apostrophe.
pub fn csv(text: &str) -> Cow<'_, str> {
    let formula = text.trim_start().starts_with(FORMULA);
    let safe = if text.chars().any(is_treacherous) {
        terminal(text)
    } else {
        Cow::Borrowed(text)
    };
    let quote = safe.contains([',', '"']) || safe.starts_with(' ') || safe.ends_with(' ');
    if !formula && !quote {
        return safe;
    }
    let safe = format!("{}{safe}", if formula { "'" } else { "" });
    Cow::Owned(if quote {
        format!("\"{}\"", safe.replace('"', "\"\""))
    } else {
        safe
    })
}

/// For HTML text and quoted attributes.
pub fn html(text: &str) -> Cow<'_, str> {
    if !text
        .chars()
        .any(|c| matches!(c, '&' | '<' | '>' | '"' | '\'' | '`') || is_treacherous(c))
    {
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
        assert_eq!(
            terminal("a\x1b[31mb\n\u{9b}\u{202e}\\"),
            "a\\x1b[31mb\\x0a\\x9b\\u{202e}\\\\"
        );
        assert_eq!(terminal("Größe 磁盘"), "Größe 磁盘");
    }

    #[test]
    fn json_says_the_same_in_harmless_characters() {
        let evil =
            "a\u{7f}\u{9b}31m\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{e0041}\n\x1b\\ü";
        let text =
            serde_json::to_string_pretty(&serde_json::json!({ "name": evil })).expect("JSON");
        let safe = json(&text);
        assert!(
            !safe.chars().any(|c| c != '\n' && is_treacherous(c)),
            "{safe}"
        );
        assert!(
            safe.contains("a\\u007f\\u009b31m\\u200e")
                && safe.contains("\\udb40\\udc41")
                && safe.contains('ü')
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).expect("JSON")["name"],
            evil
        );
        assert!(matches!(json("{\n\"a\": \"ü\"\n}"), Cow::Borrowed(_)));
    }

    #[test]
    fn messages_keep_their_lines_and_backslashes() {
        assert_eq!(
            message("a\\x2d\n\tb\x1b[1m\r\u{202e}"),
            "a\\x2d\n\tb\\x1b[1m\\x0d\\u{202e}"
        );
        assert_eq!(
            bytes(b"sd\xe9"),
            &b"sd\xe9"[..],
            "a name in another character set"
        );
        assert_eq!(bytes(b"sd\xe9\x9b1m"), "sd\u{fffd}1m".as_bytes());
        assert_eq!(bytes("sd\u{9b}".as_bytes()), &b"sd\\x9b"[..]);
    }

    #[test]
    fn shell_words_stand_for_the_same_text() {
        for word in [
            "plain.iolens",
            "a b",
            "it's",
            "a\x1b]0;x\x07\\'b\nc",
            "\u{9b}\u{202e}",
            "",
        ] {
            let quoted = shell(word);
            assert!(!quoted.chars().any(is_treacherous), "{quoted}");
            let out = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {quoted}")])
                .output();
            match out {
                Ok(out) => assert_eq!(out.stdout, word.as_bytes(), "{quoted}"),
                Err(e) => eprintln!("SKIP: bash cannot be run: {e}"),
            }
        }
    }

    #[test]
    fn csv_fields_are_quoted_and_never_formulas() {
        assert_eq!(csv("fio"), "fio");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("=1+2"), "'=1+2");
        assert_eq!(csv("-x,y"), "\"'-x,y\"");
        assert_eq!(csv(" @SUM(1)"), "\"' @SUM(1)\"");
        assert_eq!(csv("\u{ff1d}1"), "'\u{ff1d}1");
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
            prop_assert!(!content.trim_start().starts_with(FORMULA));
        }
    }
}
