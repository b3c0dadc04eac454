//! Any bytes as a write-ahead log: as they are, or as payloads of frames whose checksums fit, so that the decoder
//! behind the checksums is reached.
#![no_main]

mod shared;

use std::fs;

use libfuzzer_sys::fuzz_target;

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// A log of frames cut from `data`: two bytes of length, two of rows, the payload.
fn log(table: u8, mut data: &[u8]) -> Vec<u8> {
    let mut out = sealed([b"IOLENSWL".as_slice(), &[1, 0, table, 0], &[1, 0, 0, 0]].concat());
    while let [l0, l1, r0, r1, rest @ ..] = data {
        let length = usize::from(u16::from_le_bytes([*l0, *l1])).min(rest.len());
        let (payload, tail) = rest.split_at(length);
        let rows = u32::from(u16::from_le_bytes([*r0, *r1]));
        let header = [
            b"iofr".as_slice(),
            &(length as u32).to_le_bytes(),
            &rows.to_le_bytes(),
            &crc32fast::hash(payload).to_le_bytes(),
            &[0; 8],
            &i64::MAX.to_le_bytes(),
        ];
        out.extend(sealed(header.concat()));
        out.extend_from_slice(payload);
        data = tail;
    }
    out
}

fuzz_target!(init: shared::forgive_the_library(), |data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let table = first & 7;
    let name = shared::TABLES[usize::from(table)];
    let bytes = if first & 8 == 0 { log(table + 1, bytes) } else { bytes.to_vec() };
    let dir = shared::recording();
    let path = dir.join(format!("wal/{name}-000001.wal"));
    fs::write(&path, bytes).expect("writes");
    shared::read_all(&dir);
    fs::remove_file(&path).expect("removes");
});
