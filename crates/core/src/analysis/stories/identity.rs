//! The name of a story by which it is recognised tomorrow and on another host.

/// Twelve hexadecimal digits: a hash of the kind, the device and the programs with their control groups, but of nothing
/// that changes when a process restarts. The hash is FNV-1a and must never change.
pub fn story_id(kind: &str, device: &str, culprits: &[String], victim: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut sorted = culprits.to_vec();
    sorted.sort();
    let mut parts = vec![kind, device, victim];
    parts.extend(sorted.iter().map(String::as_str));
    let mut hash = OFFSET;
    for part in parts {
        // Each part ends with a byte that cannot occur in text.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    format!("{:012x}", hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_stays_what_it_is() {
        let culprits = ["dd /backup".to_owned(), "tar".to_owned()];
        let id = story_id("writeback-flush", "wwid-1", &culprits, "postgres");
        assert_eq!(id, "48b69ca5edff");
        let turned = ["tar".to_owned(), "dd /backup".to_owned()];
        assert_eq!(
            story_id("writeback-flush", "wwid-1", &turned, "postgres"),
            id
        );
    }

    #[test]
    fn parts_are_told_apart() {
        let none: [String; 0] = [];
        assert_ne!(
            story_id("a", "bc", &none, "d"),
            story_id("ab", "c", &none, "d")
        );
    }
}
