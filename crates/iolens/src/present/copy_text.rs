//! `iolens cut`, `merge` and `repair`: what was written, and what is to be known of it.

use std::fmt::Write as _;
use std::path::Path;

use super::escape;
use super::layout::count_of;
use super::record_text::shell_word;
use crate::copies::parts::CopiedParts;
use crate::copies::repair::Repaired;

/// Two lines: what was written, and what comes next.
pub fn summary(output: &Path, copied: &CopiedParts) -> String {
    format!(
        "{}: {}, {:.3} s\nNext: iolens report {}\n",
        escape::terminal(&output.display().to_string()),
        single_ios(copied.ios),
        copied.length_ns as f64 / 1e9,
        shell_word(output)
    )
}

/// How many there are. Where none can be, 0 would look like a quiet disk.
fn single_ios(ios: Option<u64>) -> String {
    ios.map_or_else(|| "no single I/Os".to_owned(), |ios| count_of(ios, "I/O"))
}

/// A line for each thing that is not in it as in the source.
pub fn remarks(copied: &CopiedParts) -> String {
    let mut out = String::new();
    for damage in &copied.damage {
        let _ = writeln!(out, "iolens: {}", escape::terminal(damage));
    }
    if copied.late_losses > 0 {
        let _ = writeln!(
            out,
            "iolens: {} that began before the end of the part and ended after it: the part that follows counts them",
            count_of(copied.late_losses, "loss interval")
        );
    }
    if copied.without_removed_sums > 0 {
        let _ = writeln!(
            out,
            "iolens: the size limit had removed I/Os; the sums of their time are not in the copy"
        );
    }
    out
}

/// A line for each thing that is missing, and what was saved.
pub fn repaired(output: &Path, repaired: &Repaired) -> String {
    let mut out = String::new();
    for damage in &repaired.damage {
        let _ = writeln!(out, "{}", escape::terminal(damage));
    }
    let missing = match repaired.damaged_ios {
        Some(0) => "none missing".to_owned(),
        Some(n) => format!("{} missing", count_of(n, "I/O")),
        None => "an unknown number missing".to_owned(),
    };
    let _ = writeln!(
        out,
        "{}: {} saved, {missing}, {:.3} s\nNext: iolens report {}",
        escape::terminal(&output.display().to_string()),
        single_ios(repaired.ios),
        repaired.length_ns as f64 / 1e9,
        shell_word(output)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_and_what_was_not() {
        let mut copied = CopiedParts {
            ios: Some(5),
            length_ns: 1_500_000_000,
            ..CopiedParts::default()
        };
        assert_eq!(
            summary(Path::new("a\u{202e}"), &copied).lines().next(),
            Some("a\\u{202e}: 5 I/Os, 1.500 s")
        );
        assert_eq!(remarks(&copied), "");
        copied.damage.push("io/1: damaged".to_owned());
        copied.late_losses = 1;
        copied.without_removed_sums = 1;
        assert_eq!(remarks(&copied).lines().count(), 3);
        copied.ios = None;
        let text = summary(Path::new("b"), &copied);
        assert!(text.starts_with("b: no single I/Os, 1.500 s\n"), "{text}");
    }

    #[test]
    fn a_repair_says_what_is_missing_before_what_is_saved() {
        let mut result = Repaired {
            ios: Some(80),
            damaged_ios: Some(40),
            length_ns: 2_000_000_000,
            damage: vec!["io/2: damaged\x1b".to_owned()],
        };
        assert_eq!(
            repaired(Path::new("b"), &result),
            "io/2: damaged\\x1b\nb: 80 I/Os saved, 40 I/Os missing, 2.000 s\nNext: iolens report b\n"
        );
        result.damaged_ios = None;
        assert!(repaired(Path::new("b"), &result).contains("an unknown number missing"));
    }
}
