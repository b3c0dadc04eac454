//! Parses numbers of `/proc` and `/sys` text without allocation; no input makes it panic.
//!
//! Layout of the fields: `Documentation/admin-guide/iostats.rst` of the kernel. 11 fields until 4.17, 15 with discards
//! (4.18), 17 with flushes (5.5); partitions before 2.6.25 had 4.

use iolens_core::model::{ClassCounters, DiskCounters, FlushCounters};

/// The values of a `stat` file of sysfs, or of a `/proc/diskstats` line after the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParsedStat {
    /// Number of fields before the first text that is not a number (at most 17).
    pub fields: usize,
    /// The counters; all zero if no kernel prints this number of fields.
    pub counters: DiskCounters,
}

/// One line of `/proc/diskstats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedLine<'a> {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Kernel name; any bytes but white space.
    pub name: &'a [u8],
    /// The values after the name.
    pub stat: ParsedStat,
}

/// A cursor over text whose tokens are separated by white space.
pub(crate) struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Scanner<'a> {
        Scanner { rest }
    }

    /// The kernel pads columns with blanks, which are skipped eight at a time.
    #[inline]
    fn skip_space(&mut self) {
        while let Some(word) = self.rest.first_chunk::<8>() {
            let blanks = (u64::from_le_bytes(*word) ^ BLANKS).trailing_zeros() as usize / 8;
            self.rest = &self.rest[blanks..];
            if blanks < 8 {
                break;
            }
        }
        let n = self.rest.iter().take_while(|b| is_space(**b)).count();
        self.rest = &self.rest[n..];
    }

    /// The next unsigned number. As with C's `strtoul`, a sign is allowed (the kernel has printed negative in-flight
    /// counts) and wraps; a value that is too large becomes the largest one. `None` leaves the cursor where it is.
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.skip_space();
        let (negative, digits) = match self.rest.first() {
            Some(b'-') => (true, &self.rest[1..]),
            Some(b'+') => (false, &self.rest[1..]),
            _ => (false, self.rest),
        };
        let (mut value, mut n) = digits
            .first_chunk()
            .map_or((0, 0), |word| leading_digits(*word));
        while let Some(digit) = digits
            .get(n)
            .map(|b| b.wrapping_sub(b'0'))
            .filter(|d| *d <= 9)
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            n += 1;
        }
        if n == 0 {
            return None;
        }
        // Nineteen digits always fit; longer numbers are checked.
        if n > 19 {
            value = saturating(&digits[..n]).unwrap_or(u64::MAX);
            if value == u64::MAX {
                self.rest = &digits[n..];
                return Some(value);
            }
        }
        self.rest = &digits[n..];
        Some(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    /// The next run of bytes that are not white space.
    pub(crate) fn word(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let n = self.rest.iter().take_while(|b| !is_space(**b)).count();
        let (word, rest) = self.rest.split_at(n);
        self.rest = rest;
        (n > 0).then_some(word)
    }

    /// The text that has not been read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Eight bytes of `' '`, of `'0'`, and of 6. Adding 6 moves a byte above `'9'` out of the digits' high nibble.
const BLANKS: u64 = 0x2020_2020_2020_2020;
const ZEROS: u64 = 0x3030_3030_3030_3030;
const SIXES: u64 = 0x0606_0606_0606_0606;
const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;

/// Value and number of the digits at the start of eight bytes. All eight are processed at once, as a little-endian
/// word: neighbours are combined to numbers below 100, these to numbers below 10000, and these to the value (D. Lemire,
/// "Quickly parsing eight digits", 2018). Counters are parsed at every refresh of a live view.
#[inline]
fn leading_digits(bytes: [u8; 8]) -> (u64, usize) {
    let word = u64::from_le_bytes(bytes);
    // A digit is 0x30 to 0x39: its high nibble is 3, and remains 3 when 6 is added. Adding 6 to a byte below 0xfa does
    // not carry into the next byte; after a byte that does carry, digits do not matter any more.
    let others =
        ((word & HIGH_HALVES) ^ ZEROS) | ((word.wrapping_add(SIXES) & HIGH_HALVES) ^ ZEROS);
    let n = others.trailing_zeros() as usize / 8;
    if n == 0 {
        return (0, 0);
    }
    // Shift out what follows the digits, and shift in zeros before them.
    let digits = (word << (64 - 8 * n)) | (ZEROS.checked_shr(8 * n as u32).unwrap_or(0));
    let digits = digits & !HIGH_HALVES;
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (
        fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff,
        n,
    )
}

/// `None` if the number does not fit into 64 bits.
fn saturating(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |v, b| {
        v.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// Parses a `stat` file of sysfs (`/sys/block/DEV/stat`).
///
/// Kernels print 11, 15 or 17 fields, depending on the version; a number between them counts as the next smaller one. 4
/// fields are an old partition: reads, sectors read, writes, sectors written. For any other number the counters are
/// zero.
pub fn parse_stat(text: &[u8]) -> ParsedStat {
    let mut scanner = Scanner::new(text);
    let mut f = [0u64; 17];
    let mut fields = 0;
    for slot in &mut f {
        let Some(v) = scanner.number() else { break };
        *slot = v;
        fields += 1;
    }
    let mut counters = DiskCounters::default();
    if fields >= 11 {
        counters.read = class(&f[0..4]);
        counters.write = class(&f[4..8]);
        counters.in_flight = f[8];
        counters.io_ticks_ms = f[9];
        counters.time_in_queue_ms = f[10];
        counters.discard = (fields >= 15).then(|| class(&f[11..15]));
        counters.flush = (fields >= 17).then(|| FlushCounters {
            ios: f[15],
            ticks_ms: f[16],
        });
    } else if fields == 4 {
        counters.read = ClassCounters {
            ios: f[0],
            sectors: f[1],
            ..ClassCounters::default()
        };
        counters.write = ClassCounters {
            ios: f[2],
            sectors: f[3],
            ..ClassCounters::default()
        };
    }
    ParsedStat { fields, counters }
}

fn class(f: &[u64]) -> ClassCounters {
    ClassCounters {
        ios: f[0],
        merges: f[1],
        sectors: f[2],
        ticks_ms: f[3],
    }
}

/// Parses one line of `/proc/diskstats`. `None` unless it begins with two numbers and a name, followed by a number of
/// fields that some kernel prints (4, or 11 and more).
pub fn parse_diskstats_line(line: &[u8]) -> Option<ParsedLine<'_>> {
    let mut scanner = Scanner::new(line);
    let major = scanner.number()? as u32;
    let minor = scanner.number()? as u32;
    let name = scanner.word()?;
    let stat = parse_stat(scanner.rest());
    (stat.fields == 4 || stat.fields >= 11).then_some(ParsedLine {
        major,
        minor,
        name,
        stat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODERN: &str = "73262 14195 10127490 44020 48204 39337 10051320 24828 3 12280 69820 12065 25 1209864 713 7187 258";

    fn first(n: usize) -> String {
        MODERN.split(' ').take(n).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_generation_of_the_kernel() {
        let all = parse_stat(MODERN.as_bytes());
        assert_eq!(all.fields, 17);
        assert_eq!(
            all.counters.read,
            ClassCounters {
                ios: 73262,
                merges: 14195,
                sectors: 10127490,
                ticks_ms: 44020
            }
        );
        assert_eq!(
            all.counters.write,
            ClassCounters {
                ios: 48204,
                merges: 39337,
                sectors: 10051320,
                ticks_ms: 24828
            }
        );
        assert_eq!(
            (
                all.counters.in_flight,
                all.counters.io_ticks_ms,
                all.counters.time_in_queue_ms
            ),
            (3, 12280, 69820)
        );
        assert_eq!(
            all.counters.discard.map(|d| (d.ios, d.ticks_ms)),
            Some((12065, 713))
        );
        assert_eq!(
            all.counters.flush,
            Some(FlushCounters {
                ios: 7187,
                ticks_ms: 258
            })
        );
        for n in 11..17 {
            let some = parse_stat(first(n).as_bytes());
            assert_eq!((some.fields, some.counters.read), (n, all.counters.read));
            assert_eq!(some.counters.discard.is_some(), n >= 15, "{n} fields");
            assert_eq!(some.counters.flush, None);
        }
    }

    #[test]
    fn old_partitions_have_four_fields() {
        let p = parse_stat(b" 10 80 5 40\n").counters;
        assert_eq!(
            (p.read.ios, p.read.sectors, p.write.ios, p.write.sectors),
            (10, 80, 5, 40)
        );
        assert_eq!(parse_stat(b"1 2 3").counters, DiskCounters::default());
        assert_eq!(parse_stat(b"1 2 3 4 5").counters, DiskCounters::default());
        assert_eq!(parse_stat(b""), ParsedStat::default());
    }

    #[test]
    fn numbers_as_c_reads_them() {
        assert_eq!(Scanner::new(b"-1").number(), Some(u64::MAX));
        assert_eq!(
            Scanner::new(b"99999999999999999999999").number(),
            Some(u64::MAX)
        );
        assert_eq!(Scanner::new(b" \t+7x").number(), Some(7));
        assert_eq!(Scanner::new(b"x").number(), None);
        assert_eq!(Scanner::new(b"- 1").number(), None);
    }

    #[test]
    fn lines_of_diskstats() {
        let line = format!(" 259       0 nvme0n1 {MODERN}");
        let p = parse_diskstats_line(line.as_bytes()).expect("a line");
        assert_eq!(
            (p.major, p.minor, p.name, p.stat.fields),
            (259, 0, &b"nvme0n1"[..], 17)
        );
        assert_eq!(parse_diskstats_line(b"8 0 sda"), None);
        assert_eq!(parse_diskstats_line(b"8 0 sda 1 2 3 4 5"), None);
        assert_eq!(parse_diskstats_line(b"8 0"), None);
        assert!(parse_diskstats_line(b"8 1 sda1 1 2 3 4").is_some());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let stat = parse_stat(&bytes);
            prop_assert!(stat.fields <= 17);
            let _ = parse_diskstats_line(&bytes);
        }

        #[test]
        fn damaged_lines_never_panic(cut in 0usize..120, at in 0usize..120, byte in any::<u8>()) {
            let mut line = format!("   8       0 sda {MODERN}").into_bytes();
            line.truncate(cut);
            if at < line.len() {
                line[at] = byte;
            }
            let _ = parse_diskstats_line(&line);
        }

        #[test]
        fn printed_output_parses_back(
            // Of every length, and padded as the kernel pads its columns.
            f in prop::collection::vec((any::<u64>(), 0u32..64, 0usize..30), 17),
            end in "[\n ]?.{0,12}",
        ) {
            let f: Vec<(u64, usize)> = f.into_iter().map(|(v, shift, width)| (v >> shift, width)).collect();
            let columns: Vec<String> = f.iter().map(|(v, width)| format!("{v:>width$}")).collect();
            let f: Vec<u64> = f.into_iter().map(|(v, _)| v).collect();
            let text = format!("{}{}", columns.join(" "), if end.starts_with(['\n', ' ']) { &end } else { "\n" });
            let c = parse_stat(text.as_bytes()).counters;
            prop_assert_eq!((c.read.ios, c.read.ticks_ms, c.in_flight), (f[0], f[3], f[8]));
            prop_assert_eq!(c.write.sectors, f[6]);
            prop_assert_eq!(c.flush.map(|x| x.ticks_ms), Some(f[16]));
        }
    }
}
