//! Any bytes as a file of a recording: the first byte says which one.
#![no_main]

mod shared;

use std::fs;

use libfuzzer_sys::fuzz_target;

const FILES: [&str; 9] = [
    "io/000001.parquet",
    "counters/000001.parquet",
    "lost/000001.parquet",
    "marks/000001.parquet",
    "meta.json",
    "requests/000001.parquet",
    "names/000001.parquet",
    "pressure/000001.parquet",
    "cgroups/000001.parquet",
];

fuzz_target!(init: shared::forgive_the_library(), |data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let dir = shared::recording();
    let path = dir.join(FILES[usize::from(*first) % FILES.len()]);
    fs::write(&path, bytes).expect("writes");
    shared::read_all(&dir);
    fs::remove_file(&path).expect("removes");
});
