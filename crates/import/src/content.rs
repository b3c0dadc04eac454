//! Reads the bytes of a log from a file or standard input, optionally compressed by gzip. They are read in
//! pieces, so that only the parsed rows of a log of any size are in memory.

use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use super::log::ImportError;
use super::recognise::LOOK;

/// Larger logs must be imported in parts, because their rows would not fit into memory.
const MAX_BYTES: u64 = 4 << 30;
/// JSON is read as a whole, because its end may be missing and its keys may be in any order.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// Text of tables compresses to a tenth, that of idle devices to a fiftieth.
const MAX_EXPANSION: u64 = 100;
/// Up to this size, a log is decompressed whatever its compression ratio.
const SMALL: u64 = 64 << 20;
const GZIP: &[u8] = &[0x1f, 0x8b];
const PIECE: usize = 64 << 10;

/// Why the rest of a log was not read.
#[derive(Debug)]
pub(super) enum ContentError {
    Read(std::io::Error),
    /// The compressed data is damaged.
    Packed(std::io::Error),
    TooLarge,
    TooDense,
}

/// A log that is being read. An error ends the log and is kept until [`Content::close`].
pub(super) struct Content {
    inner: Box<dyn Read>,
    /// Compressed bytes that were read.
    packed: Option<Rc<Cell<u64>>>,
    bytes: u64,
    most: u64,
    hash: DefaultHasher,
    trouble: Option<ContentError>,
}

struct Counted<R>(R, Rc<Cell<u64>>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(buffer)?;
        self.1.set(self.1.get() + n as u64);
        Ok(n)
    }
}

/// A reader that returns this error once, and then ends.
struct Broken(Option<std::io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

impl Content {
    /// Opens `file`, or standard input for `-`, and reads its first bytes, which determine its format.
    pub fn open(file: &Path) -> Result<(Content, Vec<u8>), ImportError> {
        if file.is_dir() {
            return Err(ImportError::Directory(file.to_owned()));
        }
        let opened = Content::open_raw(file).and_then(Content::read);
        opened.map_err(|source| ImportError::Read {
            file: file.to_owned(),
            source,
        })
    }

    fn open_raw(file: &Path) -> std::io::Result<Box<dyn Read>> {
        if file.as_os_str() == "-" {
            return Ok(Box::new(std::io::stdin()));
        }
        Ok(Box::new(File::open(file)?))
    }

    /// The bytes that are in memory already.
    pub fn of_bytes(bytes: &[u8]) -> Content {
        let inner = Box::new(Cursor::new(bytes.to_vec()));
        let hash = DefaultHasher::new();
        Content {
            inner,
            packed: None,
            bytes: 0,
            most: MAX_BYTES,
            hash,
            trouble: None,
        }
    }

    fn read(mut raw: Box<dyn Read>) -> std::io::Result<(Content, Vec<u8>)> {
        let magic = first_bytes(&mut raw, GZIP.len())?;
        let is_packed = magic == GZIP;
        let raw = Cursor::new(magic).chain(raw);
        let packed = is_packed.then(Rc::<Cell<u64>>::default);
        let inner: Box<dyn Read> = match &packed {
            Some(count) => Box::new(flate2::read::MultiGzDecoder::new(Counted(
                raw,
                Rc::clone(count),
            ))),
            None => Box::new(raw),
        };
        let mut content = Content {
            inner,
            packed,
            bytes: 0,
            most: MAX_BYTES,
            hash: DefaultHasher::new(),
            trouble: None,
        };
        let head = first_bytes(&mut content, LOOK)?;
        let rest: Box<dyn Read> = match content.trouble.take() {
            Some(ContentError::Packed(e) | ContentError::Read(e)) => Box::new(Broken(Some(e))),
            _ => std::mem::replace(&mut content.inner, Box::new(std::io::empty())),
        };
        content.inner = Box::new(Cursor::new(head.clone()).chain(rest));
        content.bytes = 0;
        content.hash = DefaultHasher::new();
        Ok((content, head))
    }

    /// Whether not even its first bytes, which show the format, can be read.
    pub fn is_broken_at_start(&mut self) -> bool {
        first_bytes(self, LOOK + 1).is_err()
            || matches!(
                self.trouble,
                Some(ContentError::Packed(_) | ContentError::Read(_))
            )
    }

    /// The whole content, for formats that cannot be read line by line.
    pub fn whole(&mut self) -> Vec<u8> {
        self.most = MAX_JSON_BYTES;
        let mut bytes = Vec::new();
        if let Err(e) = self.read_to_end(&mut bytes) {
            self.trouble = Some(ContentError::Read(e));
        }
        bytes
    }

    /// A reader for pieces of a fixed size.
    pub fn buffered(&mut self) -> BufReader<&mut Content> {
        BufReader::with_capacity(PIECE, self)
    }

    pub fn buffered_whole(self) -> BufReader<Content> {
        BufReader::with_capacity(PIECE, self)
    }

    /// An identity of the content, so that the same content is recognised.
    pub fn identity(&self) -> (u64, u64) {
        (self.bytes, self.hash.finish())
    }

    /// Where and why a damaged compressed log ends; an error if it could not be read as far as needed.
    pub fn close(&mut self, file: &Path) -> Result<Option<(u64, String)>, ImportError> {
        match self.trouble.take() {
            None => Ok(None),
            Some(ContentError::Packed(e)) => Ok(Some((
                self.bytes,
                format!("the rest cannot be unpacked: {e}"),
            ))),
            Some(ContentError::Read(source)) => Err(ImportError::Read {
                file: file.to_owned(),
                source,
            }),
            Some(ContentError::TooLarge) => {
                Err(ImportError::TooLarge(file.to_owned(), self.most >> 20))
            }
            Some(ContentError::TooDense) => {
                Err(ImportError::TooDense(file.to_owned(), MAX_EXPANSION))
            }
        }
    }

    fn over_limit(&self) -> Option<ContentError> {
        if let Some(packed) = &self.packed {
            let most = SMALL.max(packed.get().saturating_mul(MAX_EXPANSION));
            if self.bytes > most {
                return Some(ContentError::TooDense);
            }
        }
        (self.bytes > self.most).then_some(ContentError::TooLarge)
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.trouble.is_some() {
            return Ok(0);
        }
        let n = match self.inner.read(buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return Err(e),
            Err(e) => {
                self.trouble = Some(if self.packed.is_some() {
                    ContentError::Packed(e)
                } else {
                    ContentError::Read(e)
                });
                return Ok(0);
            }
        };
        self.bytes += n as u64;
        self.hash.write(&buffer[..n]);
        self.trouble = self.over_limit();
        Ok(if self.trouble.is_some() { 0 } else { n })
    }
}

fn first_bytes(from: &mut dyn Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
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

    fn unpacked(packed: Vec<u8>) -> (Vec<u8>, Content) {
        let (mut content, head) = Content::read(Box::new(Cursor::new(packed))).unwrap();
        let bytes = content.whole();
        assert!(bytes.starts_with(&head));
        (bytes, content)
    }

    #[test]
    fn a_packed_log_is_unpacked_as_far_as_it_goes() {
        let text: Vec<u8> = (0..20_000u32)
            .flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes())
            .collect();
        let mut packed = gzip(&text);
        let (whole, mut content) = unpacked(packed.clone());
        assert!(whole == text && content.close(Path::new("x")).unwrap().is_none());
        assert_eq!(
            content.identity(),
            unpacked(text.clone()).1.identity(),
            "packed or not"
        );
        let (twice, _) = unpacked([&packed[..], &gzip(b"more\n")].concat());
        assert!(twice.ends_with(b"more\n"), "rotated logs are often joined");
        for part in [packed.len() / 2, 3000] {
            packed.truncate(part);
            let (part, mut content) = unpacked(packed.clone());
            let (at, _) = content.close(Path::new("x")).unwrap().unwrap();
            assert!(at == part.len() as u64 && at > 1000 && text.starts_with(&part));
        }
    }

    #[test]
    fn oversized_input_is_refused() {
        let (_, mut content) = unpacked(gzip(&vec![b'1'; SMALL as usize + 1]));
        assert!(matches!(
            content.close(Path::new("x")),
            Err(ImportError::TooDense(..))
        ));
        let infinite = Box::new(Cursor::new(b"{".to_vec()).chain(std::io::repeat(b' ')));
        let (mut content, _) = Content::read(infinite).unwrap();
        let mut few = content.buffered().take(1000);
        assert_eq!(std::io::copy(&mut few, &mut std::io::sink()).unwrap(), 1000);
        content.bytes = MAX_BYTES;
        assert_eq!(content.read(&mut [0; 10]).unwrap(), 0);
        assert!(matches!(
            content.close(Path::new("x")),
            Err(ImportError::TooLarge(..))
        ));
    }
}
