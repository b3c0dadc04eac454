//! Searches the kernel's type information (BTF) for what CO-RE does not offer: whether it contains a name, and the
//! value of an enumerator of an anonymous enum.

/// Path of the kernel's type information.
pub(super) const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Whether the kernel has tracepoint `name`, so that a typed program can be attached to it.
pub(super) fn has_tracepoint(btf: &[u8], name: &str) -> bool {
    has_word(btf, &format!("btf_trace_{name}"))
}

/// Whether the type information contains a name.
pub(super) fn has_word(btf: &[u8], word: &str) -> bool {
    names(btf)
        .split(|b| *b == 0)
        .any(|name| name == word.as_bytes())
}

/// The value of the first enumerator called `name`, whichever enum it is in.
pub(super) fn enumerator(btf: &[u8], name: &str) -> Option<u32> {
    /// `BTF_KIND_ENUM`: its members are a name and a value of 32 bits each.
    const ENUM: u32 = 6;
    let types = u32_at(btf, 4)?.checked_add(u32_at(btf, 8)?)?;
    let len = u32_at(btf, 12)?;
    let types = btf.get(types as usize..types.checked_add(len)? as usize)?;
    let names = names(btf);
    let is_called = |at: u32| {
        names
            .get(at as usize..)
            .is_some_and(|n| n.split(|b| *b == 0).next() == Some(name.as_bytes()))
    };
    let mut at = 0;
    while at < types.len() {
        let info = u32_at(types, at + 4)?;
        let kind = info >> 24 & 0x1f;
        let members = (info & 0xffff) as usize;
        at += 12;
        if kind == ENUM {
            let found = (0..members)
                .map(|m| at + 8 * m)
                .find(|m| u32_at(types, *m).is_some_and(is_called));
            if let Some(member) = found {
                return u32_at(types, member + 4);
            }
        }
        at += trailing_bytes(kind, members)?;
    }
    None
}

/// Number of bytes after the twelve-byte header that each type begins with (Documentation/bpf/btf.rst). `None` for an
/// unknown kind, after which nothing can be found.
fn trailing_bytes(kind: u32, members: usize) -> Option<usize> {
    match kind {
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        4 | 5 | 15 | 19 => Some(12 * members),
        6 | 13 => Some(8 * members),
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

/// The last section, at an offset given in the header, holds NUL-terminated names (`struct btf_header`: length of the
/// header at 4, offset of the names after it at 16). If the header is invalid, all bytes are searched.
fn names(btf: &[u8]) -> &[u8] {
    let start = u32_at(btf, 4)
        .zip(u32_at(btf, 16))
        .and_then(|(header, names)| header.checked_add(names));
    start
        .and_then(|start| btf.get(start as usize..))
        .unwrap_or(btf)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, types as words, and names.
    fn btf(types: &[u32], names: &[u8]) -> Vec<u8> {
        let len = 4 * types.len() as u32;
        let header = [0x1_eb9f, 24, 0, len, len, names.len() as u32];
        let words = header.iter().chain(types).flat_map(|w| w.to_ne_bytes());
        words.chain(names.iter().copied()).collect()
    }

    #[test]
    fn words_are_found_whole() {
        let btf = b"\0btf_trace_block_io_start_x\0btf_trace_block_rq_issue\0";
        assert!(has_tracepoint(btf, "block_rq_issue"));
        assert!(!has_tracepoint(btf, "block_io_start"));
    }

    /// Linux 6.11 and 6.12 have the request flags in an enum without a name.
    #[test]
    fn enumerators_of_enums_without_a_name_are_found() {
        let int = [0, 1 << 24, 4, 32];
        let of_two_members = [0, 6 << 24 | 2, 4, 1, 0, 9, 1];
        let types: Vec<u32> = int
            .into_iter()
            .chain([0, 4 << 24 | 1, 8, 1, 1, 0])
            .chain(of_two_members)
            .collect();
        let btf = btf(&types, b"\0STARTED\0FLUSH_SEQ\0");
        assert_eq!(enumerator(&btf, "STARTED"), Some(0));
        assert_eq!(enumerator(&btf, "FLUSH_SEQ"), Some(1));
        assert_eq!(enumerator(&btf, "FLUSH"), None);
    }

    #[test]
    fn damaged_type_information_ends_the_search() {
        for bytes in [
            &[][..],
            &[0xff; 24],
            &btf(&[0, 6 << 24 | 0xffff, 4], b"\0A\0"),
            &btf(&[0, 31 << 24, 4], b"\0A\0"),
        ] {
            assert_eq!(enumerator(bytes, "A"), None);
        }
    }

    #[test]
    fn this_kernels_enumerators_are_what_its_types_say() {
        let Ok(btf) = std::fs::read(BTF_PATH) else {
            eprintln!("SKIP: no BTF");
            return;
        };
        assert_eq!(enumerator(&btf, "BPF_MAP_TYPE_RINGBUF"), Some(27));
    }
}
