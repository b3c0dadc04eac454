//! Recorded samples, ordered by name.

use std::cmp::Ordering;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// What a directory of samples is.
const EXPECTED: &str = "one sub-directory per sample is expected (1, 2, ...), with proc and sys in it, as \
                        `iolens record --counters-raw` makes them";

/// The samples of a directory: its sub-directories, in version order of their names (1, 2, ... 10).
///
/// # Errors
/// A one-line text: the directory cannot be read, contains no samples, or contains something else.
pub fn samples(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries: Vec<DirEntry> = std::fs::read_dir(dir)
        .and_then(Iterator::collect)
        .map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        let name = path
            .file_name()
            .map(|n| n.as_encoded_bytes().to_vec())
            .unwrap_or_default();
        if path.is_dir() && !name.starts_with(b".") {
            found.push((name, path));
        }
    }
    found.sort_by(|a, b| version_order(&a.0, &b.0));
    if found.is_empty() {
        return Err(format!("{} holds no samples: {EXPECTED}", dir.display()));
    }
    // The root of a single sample also has sub-directories, such as `proc`; these are not samples.
    if dir.join("proc").is_dir()
        && found
            .iter()
            .all(|(n, _)| !n.first().is_some_and(u8::is_ascii_digit))
    {
        return Err(format!(
            "{} is a single sample; give the directory that holds the samples",
            dir.display()
        ));
    }
    let other = found.iter().find(|(_, path)| !path.join("proc").is_dir());
    if let Some((_, path)) = other {
        return Err(format!("{} is no sample: {EXPECTED}", path.display()));
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Compares names, with numbers in them by value; equal numbers with different leading zeros by bytes.
fn version_order(a: &[u8], b: &[u8]) -> Ordering {
    let mut x = a;
    let mut y = b;
    loop {
        let order = match (x.first(), y.first()) {
            (Some(p), Some(q)) if p.is_ascii_digit() && q.is_ascii_digit() => {
                let m = take_number(&mut x);
                let n = take_number(&mut y);
                m.len().cmp(&n.len()).then_with(|| m.cmp(n))
            }
            (Some(p), Some(q)) => {
                x = &x[1..];
                y = &y[1..];
                p.cmp(q)
            }
            (p, q) => return p.cmp(&q).then_with(|| a.cmp(b)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Removes the digits at the start and returns them without leading zeros.
fn take_number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let n = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(n);
    *text = rest;
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn samples_come_in_version_order() {
        let dir = tempfile::tempdir().expect("a directory");
        for n in ["10", "2", "1", "03", ".hidden"] {
            std::fs::create_dir_all(dir.path().join(n).join("proc")).expect("made");
        }
        std::fs::write(dir.path().join("README"), "").expect("written");
        let got = samples(dir.path()).expect("samples");
        let names: Vec<_> = got
            .iter()
            .map(|p| p.file_name().expect("a name").to_string_lossy())
            .collect();
        assert_eq!(names, ["1", "2", "03", "10"]);
    }

    #[test]
    fn invalid_replay_directories_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(samples(&dir.path().join("none")).is_err_and(|e| e.contains("cannot read")));
        assert!(samples(dir.path()).is_err_and(|e| e.contains("holds no samples")));
        std::fs::create_dir(dir.path().join("proc")).expect("made");
        assert!(samples(dir.path()).is_err_and(|e| e.contains("single sample")));
        std::fs::create_dir_all(dir.path().join("1/sys")).expect("made");
        assert!(samples(dir.path()).is_err_and(|e| e.contains("/1 is no sample")));
    }

    proptest! {
        #[test]
        fn all_readers_share_one_order(a in "[a0-3]{0,4}", b in "[a0-3]{0,4}", c in "[a0-3]{0,4}") {
            let o = |x: &str, y: &str| version_order(x.as_bytes(), y.as_bytes());
            prop_assert_eq!(o(&a, &b), o(&b, &a).reverse());
            prop_assert_eq!(o(&a, &b) == Ordering::Equal, a == b);
            if o(&a, &b) != Ordering::Greater && o(&b, &c) != Ordering::Greater {
                prop_assert!(o(&a, &c) != Ordering::Greater);
            }
        }

        #[test]
        fn numbers_are_in_numeric_order(a in 0u32..2000, b in 0u32..2000) {
            let o = version_order(a.to_string().as_bytes(), b.to_string().as_bytes());
            prop_assert_eq!(o, a.cmp(&b));
        }
    }
}
