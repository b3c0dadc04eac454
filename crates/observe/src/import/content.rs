//! The bytes of a log, from wherever they come: a file, standard input, either of them compressed by gzip.

use std::io::Read;
use std::path::Path;

use super::log::ImportError;

/// What a compressed log may become: more would not fit into memory beside what is made of it.
const MOST_BYTES: u64 = 4 << 30;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// A log's bytes.
pub(super) struct Content {
    pub bytes: Vec<u8>,
    /// It was compressed, and what remains cannot be read.
    pub cut: Option<String>,
}

/// Reads `file`, or standard input for `-`.
pub(super) fn read(file: &Path) -> Result<Content, ImportError> {
    if file.is_dir() {
        return Err(ImportError::Directory(file.to_owned()));
    }
    let mut bytes = Vec::new();
    let got = match file.as_os_str().as_encoded_bytes() {
        b"-" => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        _ => std::fs::read(file).map(|all| bytes = all),
    };
    got.map_err(|source| ImportError::Read { file: file.to_owned(), source })?;
    if bytes.starts_with(GZIP) { unpacked(file, &bytes) } else { Ok(Content { bytes, cut: None }) }
}

/// What of a compressed log can be read.
fn unpacked(file: &Path, packed: &[u8]) -> Result<Content, ImportError> {
    let mut bytes = Vec::new();
    let mut stream = flate2::read::MultiGzDecoder::new(packed).take(MOST_BYTES + 1);
    let cut = stream.read_to_end(&mut bytes).err().map(|e| e.to_string());
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ImportError::TooLarge(file.to_owned(), MOST_BYTES >> 30));
    }
    Ok(Content { bytes, cut })
}

/// What `bytes` are instead of a log, if that can be said, and what to do about it.
pub(super) fn in_other_words(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 5] = [
        (b"\xfd7zXZ\0", "it is compressed by xz: xz -dc FILE | iolens import - -o REC"),
        (b"\x28\xb5\x2f\xfd", "it is compressed by zstd: zstd -dc FILE | iolens import - -o REC"),
        (b"BZh", "it is compressed by bzip2: bzip2 -dc FILE | iolens import - -o REC"),
        (b"PERFILE2", "it is perf's own data: perf script -i FILE | iolens import - -o REC"),
        (b"PAR1", "it is a Parquet file; a recording's directory is read by iolens report as it is"),
    ];
    if bytes.is_empty() {
        return Some("it is empty");
    }
    known.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_packed_log_is_unpacked_as_far_as_it_goes() {
        let text: Vec<u8> =
            (0..20_000u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        let mut packed = gzip(&text);
        let whole = unpacked(Path::new("x"), &packed).unwrap();
        assert_eq!((whole.bytes == text, whole.cut), (true, None));
        let twice = [&packed[..], &gzip(b"more\n")].concat();
        assert!(unpacked(Path::new("x"), &twice).unwrap().bytes.ends_with(b"more\n"), "rotated logs are often joined");
        packed.truncate(packed.len() / 2);
        let part = unpacked(Path::new("x"), &packed).unwrap();
        assert!(part.cut.is_some() && part.bytes.len() > 1000 && text.starts_with(&part.bytes));
    }
}
