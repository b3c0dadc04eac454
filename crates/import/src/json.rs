//! A lenient JSON parser: accepts text before and between documents, missing ends and commas, duplicate keys, `nan`,
//! and decimal commas. It reports each of these with its line.

use std::borrow::Cow;

/// A value; objects keep the order of their keys and all duplicates.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`, and anything that is not a value (`nan`).
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A finite number that is not negative.
    Number(f64),
    /// A finite negative number: as a rate or a time it is damage.
    Negative {
        /// The number.
        value: f64,
        /// Its line, counted from 1.
        line: u64,
    },
    /// A decoded string.
    Text(Cow<'a, str>),
    /// `[...]`.
    List(Vec<Json<'a>>),
    /// `{...}`.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// The first value under `key`.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.entries()
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v)
    }

    /// All values under `key`, including duplicates.
    pub fn get_all<'b>(&'b self, key: &'b str) -> impl Iterator<Item = &'b Json<'a>> + 'b {
        self.entries()
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, v)| v)
    }

    /// Keys and values of an object; nothing for other values.
    pub fn entries(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        match self {
            Json::Object(o) => o,
            _ => &[],
        }
    }

    /// Members of a list; nothing for other values.
    pub fn items(&self) -> &[Json<'a>] {
        match self {
            Json::List(l) => l,
            _ => &[],
        }
    }

    /// A number, also in quotes.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Number(n) | Json::Negative { value: n, .. } => Some(*n),
            Json::Text(t) => super::text::number(t.trim().as_bytes()),
            _ => None,
        }
    }

    /// The number under `key`.
    pub fn number_of(&self, key: &str) -> Option<f64> {
        self.get(key)?.number()
    }

    /// The text under `key`.
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// The text of a string; `None` for other values.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(t) => Some(t),
            _ => None,
        }
    }
}

/// A syntax problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: u64,
    /// Description of the problem.
    pub why: &'static str,
}

/// All documents of a text, their syntax problems, and the number of lines of other text around them.
#[derive(Debug, Default)]
pub struct Documents<'a> {
    /// The documents in order.
    pub values: Vec<Json<'a>>,
    /// Syntax errors that were skipped.
    pub problems: Vec<Problem>,
    /// Lines of messages before, between and after the documents.
    pub messages: Vec<u64>,
}

/// Nesting limit, deeper than any tool prints; protects the stack.
const MAX_DEPTH: u32 = 64;
/// Longer strings are neither names nor options; they are truncated, so that memory holds the text only once.
const MAX_STRING: usize = 64 << 10;
/// Limit of the number of values, higher than in the largest text of any tool's format. It protects the memory: a value
/// takes ten times the two bytes that it may take in the text.
const MAX_VALUES: usize = 24 << 20;

/// Parses every document that begins with `{`.
pub fn parse_documents(bytes: &[u8]) -> Documents<'_> {
    parse_at_most(bytes, MAX_VALUES)
}

fn parse_at_most(bytes: &[u8], max_values: usize) -> Documents<'_> {
    let mut p = JsonParser {
        bytes,
        at: 0,
        problems: Vec::new(),
        counted_to: 0,
        line: 1,
        values_left: max_values,
        stopped: false,
    };
    let mut out = Documents::default();
    loop {
        p.skip_messages(&mut out.messages);
        if p.at >= bytes.len() {
            break;
        }
        out.values.push(p.value(0));
    }
    out.problems = p.problems;
    out
}

const TOO_DEEP: &str = "nested deeper than any tool prints: the rest was not read";
const LONG_STRING: &str = "a string longer than any tool prints: the rest of it was left out";

struct JsonParser<'a> {
    bytes: &'a [u8],
    at: usize,
    problems: Vec<Problem>,
    counted_to: usize,
    line: u64,
    /// How many more values are parsed.
    values_left: usize,
    /// Parsing ended before the text did, so open lists and objects are not a further problem.
    stopped: bool,
}

impl<'a> JsonParser<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Number of the current line.
    fn line(&mut self) -> u64 {
        let to = self.at.min(self.bytes.len());
        self.line += self.bytes[self.counted_to..to]
            .iter()
            .filter(|b| **b == b'\n')
            .count() as u64;
        self.counted_to = to;
        self.line
    }

    fn problem(&mut self, why: &'static str) {
        self.line();
        // Damage in one place often causes several errors; a line counts as lost once.
        let is_new = self.problems.last().is_none_or(|p| p.line != self.line);
        if is_new && !self.stopped {
            self.problems.push(Problem {
                line: self.line,
                why,
            });
        }
    }

    /// Stops parsing. In a line with other damage, this problem is the one that is reported.
    fn stop(&mut self, why: &'static str) {
        let line = self.line();
        self.problems.pop_if(|p| p.line == line);
        self.problem(why);
        self.at = self.bytes.len();
        self.stopped = true;
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Moves to the next line that begins a document; counts the skipped lines of text.
    fn skip_messages(&mut self, messages: &mut Vec<u64>) {
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b'{') => return,
                Some(_) => {
                    messages.push(self.line());
                    while self.peek().is_some_and(|b| b != b'\n' && b != b'{') {
                        self.at += 1;
                    }
                }
            }
        }
    }

    fn value(&mut self, depth: u32) -> Json<'a> {
        self.blanks();
        let Some(left) = self.values_left.checked_sub(1) else {
            self.stop("more values than any log has: the rest was not read");
            return Json::Null;
        };
        self.values_left = left;
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => {
                self.stop(TOO_DEEP);
                Json::Null
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Json::Text(self.string()),
            Some(_) => self.bare(),
            None => {
                self.problem("the document ends early");
                Json::Null
            }
        }
    }

    fn object(&mut self, depth: u32) -> Json<'a> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    // Objects are many and small: unused capacity would be a third of the memory.
                    entries.shrink_to_fit();
                    return Json::Object(entries);
                }
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let key = self.string();
                    self.blanks();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                        let value = self.value(depth + 1);
                        entries.push((key, value));
                    } else {
                        self.problem("a key without a value");
                    }
                }
                Some(b']') => {
                    // The end of a list that encloses this object, so the object's own end is missing.
                    self.problem("'}' is missing");
                    return Json::Object(entries);
                }
                Some(_) => {
                    self.problem("text that is no JSON");
                    self.skip_junk(depth);
                }
                None => {
                    self.problem("the document ends early");
                    return Json::Object(entries);
                }
            }
        }
    }

    fn list(&mut self, depth: u32) -> Json<'a> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Json::List(items);
                }
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.problem("']' is missing");
                    return Json::List(items);
                }
                Some(b':') => {
                    self.problem("text that is no JSON");
                    self.at += 1;
                }
                Some(_) => items.push(self.value(depth + 1)),
                None => {
                    self.problem("the document ends early");
                    return Json::List(items);
                }
            }
        }
    }

    /// Skips text inside an object at `depth`, including lists and objects that begin in it.
    fn skip_junk(&mut self, depth: u32) {
        self.at += 1;
        while self
            .peek()
            .is_some_and(|b| !matches!(b, b'\n' | b',' | b'"' | b'{' | b'}' | b'[' | b']'))
        {
            self.at += 1;
        }
        if matches!(self.peek(), Some(b'{' | b'[')) {
            let _ = self.value(depth + 1);
        }
    }

    /// A number or a word.
    fn bare(&mut self) -> Json<'a> {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'%'))
        {
            self.at += 1;
        }
        // `1,23`: a comma directly before a digit is a decimal comma; JSON printers write a blank or a quote there.
        if self.peek() == Some(b',')
            && self.bytes[from..self.at].iter().all(u8::is_ascii_digit)
            && self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit)
        {
            self.at += 1;
            while self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1;
            }
        }
        let word = &self.bytes[from..self.at];
        match word {
            b"" => {
                self.problem("text that is no JSON");
                self.at += 1;
                Json::Null
            }
            b"null" => Json::Null,
            b"true" => Json::Bool(true),
            b"false" => Json::Bool(false),
            _ => self.bare_number(word),
        }
    }

    fn bare_number(&mut self, word: &[u8]) -> Json<'a> {
        if let Some(n) = super::text::number(word) {
            return self.finite(n);
        }
        match std::str::from_utf8(word)
            .ok()
            .and_then(|w| w.parse::<f64>().ok())
        {
            Some(n) if n.is_finite() => self.finite(n),
            // `nan` and `inf` come from divisions by zero in the tool that printed them: not a value, but not damage
            // either.
            Some(_) => Json::Null,
            None => {
                self.problem("text that is no JSON");
                Json::Null
            }
        }
    }

    fn finite(&mut self, value: f64) -> Json<'a> {
        if value < 0.0 {
            let line = self.line();
            return Json::Negative { value, line };
        }
        Json::Number(value)
    }

    fn string(&mut self) -> Cow<'a, str> {
        self.at += 1;
        let from = self.at;
        while let Some(b) = self.peek() {
            match b {
                b'"' => {
                    let text = self.short(from);
                    self.at += 1;
                    return text;
                }
                b'\\' => return Cow::Owned(self.escaped(from)),
                // No tool prints a line end inside a string, so its closing quote is missing.
                b'\n' => break,
                _ => self.at += 1,
            }
        }
        self.problem("a string without its end");
        self.short(from)
    }

    /// The text from `from` to here, truncated if it is longer than any tool prints.
    fn short(&mut self, from: usize) -> Cow<'a, str> {
        let mut to = self.at.min(self.bytes.len());
        if to - from > MAX_STRING {
            self.problem(LONG_STRING);
            to = from + MAX_STRING;
        }
        String::from_utf8_lossy(&self.bytes[from..to])
    }

    fn escaped(&mut self, from: usize) -> String {
        let mut out = self.bytes[from..self.at].to_vec();
        out.truncate(MAX_STRING);
        let mut too_long = self.at - from > MAX_STRING;
        while let Some(b) = self.peek() {
            self.at += 1;
            // The search for the end continues beyond the part that is kept.
            if out.len() >= MAX_STRING && b != b'"' && b != b'\n' {
                too_long = true;
                self.at += usize::from(b == b'\\');
                continue;
            }
            match b {
                b'"' => {
                    if too_long {
                        self.problem(LONG_STRING);
                    }
                    return String::from_utf8_lossy(&out).into_owned();
                }
                b'\\' => self.escape(&mut out),
                b'\n' => break,
                b => out.push(b),
            }
        }
        self.problem("a string without its end");
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The character that an escape represents.
    fn escape(&mut self, out: &mut Vec<u8>) {
        let c = self.peek().unwrap_or(b'\\');
        self.at += 1;
        match c {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => out.extend(self.code_point().to_string().bytes()),
            other => out.push(other),
        }
    }

    fn code_point(&mut self) -> char {
        let hex = self
            .bytes
            .get(self.at..self.at + 4)
            .and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u32::from_str_radix(h, 16).ok()) {
            Some(n) => {
                self.at += 4;
                char::from_u32(n).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            None => char::REPLACEMENT_CHARACTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_documents_and_duplicates() {
        let d = parse_documents(
            b"fio: this is a warning\n{\"a\": 1, \"a\": 2, \"s\": \"x\\u0041\\n\"}\nbye\n{\"b\":[nan, -inf,1e3]}\n",
        );
        assert_eq!(d.messages, [1, 3]);
        assert!(d.problems.is_empty(), "{:?}", d.problems);
        let both: Vec<_> = d.values[0].get_all("a").filter_map(Json::number).collect();
        assert_eq!(both, [1.0, 2.0]);
        assert_eq!(d.values[0].get("s").and_then(Json::text), Some("xA\n"));
        assert_eq!(
            d.values[1].get("b").map(Json::items),
            Some(&[Json::Null, Json::Null, Json::Number(1000.0)][..])
        );
    }

    #[test]
    fn a_number_below_zero_has_its_line() {
        let d = parse_documents(b"{\"a\": 1,\n\"b\": -2.5, \"c\": -0.0,\n\"d\": -1e3}");
        let fraction = Json::Negative {
            value: -2.5,
            line: 2,
        };
        let exponent = Json::Negative {
            value: -1000.0,
            line: 3,
        };
        assert_eq!(d.values[0].get("b"), Some(&fraction));
        assert_eq!(d.values[0].get("c"), Some(&Json::Number(0.0)));
        assert_eq!(d.values[0].get("d"), Some(&exponent));
        assert_eq!(d.values[0].number_of("b"), Some(-2.5));
    }

    #[test]
    fn decimal_commas_and_missing_commas() {
        let d = parse_documents(b"{\"r/s\": 1,23, \"w/s\": 4,56 \"x\": [1, 2] \"n\":[1,2]}");
        assert_eq!(d.values[0].get("r/s").and_then(Json::number), Some(1.23));
        assert_eq!(d.values[0].get("w/s").and_then(Json::number), Some(4.56));
        assert_eq!(d.values[0].get("x").map(|x| x.items().len()), Some(2));
    }

    #[test]
    fn a_truncated_document_keeps_its_reports_and_names_the_line() {
        let d = parse_documents(b"{\"a\": [\n{\"b\": 1},\n{\"c\": 2, \"d");
        assert_eq!(d.problems.first().map(|p| p.line), Some(3));
        assert_eq!(d.values[0].get("a").map(|a| a.items().len()), Some(2));
    }

    #[test]
    fn a_string_that_no_tool_prints_is_cut_and_named_and_what_follows_is_read() {
        for text in [
            "x".repeat(3 * MAX_STRING),
            format!("\\n{}", "y\\\"".repeat(MAX_STRING)),
            format!("{}\\t", "z".repeat(2 * MAX_STRING)),
        ] {
            let bytes = format!("{{\"a\": \"{text}\",\n\"b\": 7}}");
            let d = parse_documents(bytes.as_bytes());
            let a = d.values[0].get("a").and_then(Json::text);
            assert!(a.is_some_and(|a| a.len() <= MAX_STRING + 3 && a.len() >= MAX_STRING - 1));
            assert_eq!(d.values[0].get("b").and_then(Json::number), Some(7.0));
            let whys: Vec<_> = d.problems.iter().map(|p| (p.line, p.why)).collect();
            assert_eq!(whys, [(1, LONG_STRING)]);
        }
    }

    #[test]
    fn more_values_than_any_log_has_are_not_kept() {
        let d = parse_at_most(b"{\"a\": [1, 2, 3, 4, 5, 6]}\n{\"b\": 7}\n", 5);
        assert_eq!(d.values[0].get("a").map(|a| a.items().len()), Some(4));
        assert_eq!((d.values.len(), d.problems.len()), (1, 1));
    }

    #[test]
    fn nesting_ends_the_reading_however_it_begins() {
        const LEVELS: usize = 1_000_000;
        for level in ["{\"a\":", "[", "x{", "x[{", "x{\n"] {
            let bytes = format!("{{\"jobs\": [7]\n{}\n}}\n", level.repeat(LEVELS));
            let d = parse_documents(bytes.as_bytes());
            let jobs = d.values[0].get("jobs").map(|j| j.items().len());
            assert_eq!((d.values.len(), jobs), (1, Some(1)), "{level:?}");
            let last = d.problems.last().map(|p| p.why);
            assert_eq!(last, Some(TOO_DEEP), "{level:?}");
            let lines = if level.ends_with('\n') {
                MAX_DEPTH as usize
            } else {
                1
            };
            assert_eq!(d.problems.len(), lines, "{level:?}");
        }
    }

    #[test]
    fn text_between_the_keys_of_an_object_costs_its_line() {
        let d = parse_documents(b"{\"a\": 1,\nx{\"b\": [2, {y[3]}]}\n\"c\": 4}");
        assert_eq!(d.values[0].get("b"), None);
        assert_eq!(d.values[0].get("c").and_then(Json::number), Some(4.0));
        assert_eq!(d.problems.len(), 1, "{:?}", d.problems);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_documents(&bytes);
        }

        #[test]
        fn nearly_json_never_panics(s in "[\\[\\]{}\",:0-9a-u\\\\ \n-]{0,300}") {
            let _ = parse_documents(s.as_bytes());
        }
    }
}
