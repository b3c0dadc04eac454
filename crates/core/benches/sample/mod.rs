//! Synthetic I/Os for benchmarks of the store.

use iolens_core::model::{Comm, DevId, Io, Op, Origin};

/// Reproducible numbers below the given one (xorshift64).
fn generator() -> impl FnMut(u64) -> u64 {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}

/// Random reads and sequential writes of a few processes on `devices` devices, one I/O each `every_ns` on average.
pub fn made_up(n: usize, devices: u64, every_ns: u64) -> Vec<Io> {
    let mut random = generator();
    let mut done = 0;
    let mut log = 1 << 20;
    (0..n)
        .map(|_| {
            done += (every_ns / 10 + random((every_ns * 9 / 5).max(1))) as i64;
            let write = random(3) == 0;
            log += 8;
            let service = 20_000 + (random(1_000) * random(1_000) / 4) as i64;
            Io {
                sector: Some(if write {
                    log
                } else {
                    random(1 << 28) as i64 * 8
                }),
                flags: Some(if write { 0 } else { Io::FLAG_SYNC }),
                error: Some(0),
                merges: Some(0),
                tgid: Some(1000 + random(6) as i32),
                comm: Some(Comm::new(if write { b"kworker/u8:1" } else { b"postgres" })),
                cgroup: Some(1000 + random(3) as i64),
                ino: Some(random(40) as i64),
                fs_dev: Some(DevId::new(254, 1).0),
                origin: if write {
                    Origin::Writeback
                } else {
                    Origin::Direct
                },
                ..Io::new(
                    done,
                    DevId::new(8, 16 * random(devices.max(1)) as u32),
                    Op(write.into()),
                    4096,
                    Some(900 + random(700) as i64),
                    service,
                )
            }
        })
        .collect()
}

/// What a benchmark of a fast device gives: one process reads 4 KiB blocks of one file at random, 300k a second.
#[allow(dead_code, reason = "not every measurement takes both loads")]
pub fn one_job(n: usize) -> Vec<Io> {
    let mut random = generator();
    let mut done = 0;
    (0..n)
        .map(|_| {
            done += 1_500 + random(3_600) as i64;
            let service = 60_000 + (random(300) * random(300)) as i64;
            Io {
                sector: Some(random(1 << 24) as i64 * 8),
                flags: Some(Io::FLAG_SYNC),
                error: Some(0),
                merges: Some(0),
                tgid: Some(4711),
                comm: Some(Comm::new(b"fio")),
                cgroup: Some(4242),
                ino: Some(131_072),
                fs_dev: Some(DevId::new(254, 1).0),
                origin: Origin::Direct,
                ..Io::new(
                    done,
                    DevId::new(7, 0),
                    Op::READ,
                    4096,
                    Some(600 + random(400) as i64),
                    service,
                )
            }
        })
        .collect()
}
