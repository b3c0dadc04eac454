//! Measures the cost of name lookups: looks up every file of a directory by its number, several times.
//!
//! Usage: `names_cost DIRECTORY [ROUNDS]`

use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use iolens_core::model::{DevId, Inode};
use iolens_observe::topology::PathLookup;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = args.first().ok_or("usage: names_cost DIRECTORY [ROUNDS]")?;
    let rounds: usize = args.get(1).map_or(Ok(100), |n| n.parse())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let meta = entry?.metadata()?;
        if meta.is_file() {
            let dev = DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())).0;
            files.push(Inode {
                fs_dev: dev,
                ino: meta.ino() as i64,
                generation: None,
            });
        }
    }
    let mut names = PathLookup::new();
    let mut took_ns = Vec::with_capacity(rounds * files.len());
    let mut found = 0;
    for inode in std::iter::repeat_n(&files, rounds).flatten() {
        let begin = Instant::now();
        found += usize::from(names.file(*inode, None).is_some());
        took_ns.push(begin.elapsed().as_nanos());
    }
    took_ns.sort_unstable();
    let n = took_ns.len();
    let at = |q: usize| {
        took_ns
            .get((n * q / 100).min(n.saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    };
    println!(
        "{n} lookups of {} files, {found} found: median {} ns, p99 {} ns",
        files.len(),
        at(50),
        at(99)
    );
    Ok(())
}
