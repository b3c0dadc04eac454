//! Addresses of kernel functions, by which the BPF programs classify bios.

use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

use super::btf::has_word;

/// Completion functions of direct I/O bios: iomap (ext4, xfs, f2fs); fs/direct-io.c (ext2, fat, ..., also
/// asynchronous); one part of a bio that was split; an iomap read by a single bio (7.3); and a bio that its submitter
/// waits for (by this name since 7.3).
const ENDS: [&str; 6] = [
    "iomap_dio_bio_end_io",
    "dio_bio_end_io",
    "dio_bio_end_aio",
    "bio_chain_endio",
    SIMPLE_READ,
    "bio_wait_end_io",
];
const SIMPLE_READ: &str = "iomap_dio_simple_end_io";

/// Whether the kernel's types allow finding the files of all direct reads through iomap.
pub(super) fn shows_direct_io(btf: &[u8]) -> bool {
    let [iomap, _, _, _, simple_read, waited_for] = *ends_of_direct_io();
    let has_simple_reads = has_word(btf, SIMPLE_READ);
    iomap != 0 && (!has_simple_reads || (simple_read != 0 && waited_for != 0))
}

/// The addresses of these six functions, read once; 0 if the kernel lacks the function or hides its address.
pub(super) fn ends_of_direct_io() -> &'static [u64; 6] {
    static ADDRESSES: OnceLock<[u64; 6]> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let file = std::fs::File::open("/proc/kallsyms");
        file.map(|f| addresses(&mut BufReader::with_capacity(1 << 16, f)))
            .unwrap_or_default()
    })
}

/// Parses lines `ADDRESS TYPE NAME`. A name that occurs twice is ambiguous and ignored. The kernel's own functions come
/// before those of modules.
fn addresses(lines: &mut impl BufRead) -> [u64; 6] {
    let mut found: [Vec<u64>; 6] = Default::default();
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) && !line.contains(&b'[') {
        let mut words = line.trim_ascii().splitn(3, |b| *b == b' ');
        let address = words.next().and_then(|w| std::str::from_utf8(w).ok());
        let name = words.nth(1);
        if let Some(at) = ENDS.iter().position(|end| name == Some(end.as_bytes())) {
            found[at].extend(address.and_then(|a| u64::from_str_radix(a, 16).ok()));
        }
        line.clear();
    }
    found.map(|f| if let [one] = f[..] { one } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_once_and_only_in_the_kernel_itself() {
        let list = "ffffffff81000000 T _text\nffffffff81768ab0 T iomap_dio_bio_end_io\n\
                    ffffffff81768ac0 t iomap_dio_bio_end_io.cold\nffffffff81af1010 t bio_chain_endio\n\
                    ffffffff81768ad0 t iomap_dio_simple_end_io\n\
                    ffffffff81af2000 t dio_bio_end_aio\nffffffff81af3000 t dio_bio_end_aio\n\
                    ffffffffc0000000 t dio_bio_end_io\t[some_module]\n";
        assert_eq!(
            addresses(&mut list.as_bytes()),
            [
                0xffff_ffff_8176_8ab0,
                0,
                0,
                0xffff_ffff_81af_1010,
                0xffff_ffff_8176_8ad0,
                0
            ]
        );
        let hidden = "0000000000000000 T iomap_dio_bio_end_io\n0000000000000000 t bio_chain_endio";
        assert_eq!(addresses(&mut hidden.as_bytes()), [0; 6], "kptr_restrict");
        assert_eq!(addresses(&mut &b"\xff\xff\n\nzz"[..]), [0; 6]);
    }
}
