//! Measures the importers: each sample is repeated to about 64 MB and read from memory, and CPU time is measured,
//! which depends less on other load than elapsed time.
//!
//! `cargo run --release -p iolens-import --example import_speed [fixtures/import [TRACE]]`; the trace of blktrace that it
//! makes up is left in the file TRACE, for other readers of such traces.

use std::path::{Path, PathBuf};

use iolens_import::{ImportOptions, LogFormat, parse_bytes, recognise};

const LOG_BYTES: usize = 64 << 20;

/// `sample` repeated; `head` lines of it only once.
fn repeated(sample: &[u8], head: usize) -> Vec<u8> {
    let at = sample
        .split_inclusive(|b| *b == b'\n')
        .take(head)
        .map(<[u8]>::len)
        .sum::<usize>();
    let mut out = sample[..at].to_vec();
    while out.len() < LOG_BYTES && at < sample.len() {
        out.extend_from_slice(&sample[at..]);
    }
    out
}

fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// fio's logs: time goes on, so they are made up instead of repeated.
fn fio_log(block_size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0u64.. {
        if out.len() >= LOG_BYTES {
            break;
        }
        let ms = i / 4;
        let latency = 90_000 + i * 7919 % 50_000;
        let direction = i % 2;
        out.extend_from_slice(
            format!("{ms}, {latency}, {direction}, {block_size}, 0\n").as_bytes(),
        );
    }
    out
}

/// blktrace needs the files of all processors in order of time: repeated ones would run backwards.
fn blktrace(keep: Option<PathBuf>) {
    let record = |time: u64, action: u32| {
        let mut r = Vec::new();
        r.extend(0x6561_7407u32.to_le_bytes());
        r.extend((time as u32 + 1).to_le_bytes());
        r.extend(time.to_le_bytes());
        r.extend((time / 4 * 8 % 1_000_000).to_le_bytes());
        r.extend(4096u32.to_le_bytes());
        r.extend((action | 1 << 16).to_le_bytes());
        r.extend([0; 4]);
        r.extend((8u32 << 20).to_le_bytes());
        r.extend([0; 8]);
        r
    };
    let bytes: Vec<u8> = (0..(LOG_BYTES / 48) as u64)
        .flat_map(|i| record(i, [1, 4, 7, 8][i as usize % 4]))
        .collect();
    report("blktrace", &bytes);
    if let Some(path) = keep {
        std::fs::write(&path, &bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

fn report(name: &str, bytes: &[u8]) {
    let kind: LogFormat = recognise(bytes).unwrap_or_else(|| panic!("{name} is not recognised"));
    let started = cpu_seconds();
    let got = parse_bytes(kind, Path::new(name), bytes, ImportOptions::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let seconds = cpu_seconds() - started;
    println!(
        "{name:<16} {:>7.1} MB per second of processor  {:>9} I/Os {:>9} rows  {} damaged",
        bytes.len() as f64 / 1e6 / seconds,
        got.observations.len(),
        got.rates.len(),
        got.damage.count
    );
}

fn main() {
    let dir = std::env::args()
        .nth(1)
        .map_or_else(|| PathBuf::from("fixtures/import"), PathBuf::from);
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let table = "time r/s Kr/s us/r w/s Kw/s us/w\n".to_owned()
        + &"153.8 20 2560 136888 4150 2171420 82941\n".repeat(1000);
    let snoop = "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n".to_owned()
        + &"0.001500    kworker/u4:2   77      nvme0n1 WS   99         4096      0.012   1.500\n".repeat(1000);
    let solaris = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n".to_owned()
        + &(0..11)
            .map(|i| format!("sd{i}     12.3    0.0 1735.2    0.0  0.0  0.1    7.0   0   9 \n"))
            .collect::<String>();
    let samples: Vec<(&str, Vec<u8>)> = vec![
        ("iostat-x.txt", repeated(&read("iostat-x.txt"), 2)),
        ("iostat-x.json", repeated(&read("iostat-x.json"), 0)),
        ("solaris", repeated(solaris.as_bytes(), 0)),
        ("rate table", repeated(table.as_bytes(), 1)),
        ("fio json", repeated(&read("fio-mix.json"), 0)),
        ("fio_clat.1.log", fio_log(0)),
        ("fio_lat.1.log", fio_log(4096)),
        ("biosnoop", repeated(snoop.as_bytes(), 1)),
        ("perf script", repeated(&read("perf-script-ns.txt"), 0)),
    ];
    for (name, bytes) in samples {
        report(name, &bytes);
    }
    blktrace(std::env::args().nth(2).map(PathBuf::from));
}
