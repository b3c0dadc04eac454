//! Any bytes as the kernel's counters: every parser of `/proc` and `/sys` text reads them, and the first two lines of a
//! `/proc/diskstats` become rates. Nothing may panic.
#![no_main]

use iolens_core::analysis::counters::rates::{Delta, iostat};
use iolens_core::model::{CounterSample, DevId};
use iolens_observe::counters::{
    parse_boot_time_s, parse_cpu, parse_diskstats_line, parse_stat, parse_uptime_cs,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = parse_stat(data);
    let _ = (parse_uptime_cs(data), parse_boot_time_s(data));
    let cpu = parse_cpu(data);
    let _ = iostat::cpu_percent(&cpu, &parse_cpu(&data[data.len() / 2..]));
    let mut rows = data.split(|b| *b == b'\n').filter_map(parse_diskstats_line);
    if let (Some(a), Some(b)) = (rows.next(), rows.next()) {
        let sample = |at_ns, line: &iolens_observe::counters::ParsedLine<'_>| CounterSample {
            at_ns,
            dev: DevId::new(line.major, line.minor),
            counters: line.stat.counters,
        };
        let delta = Delta::between(&sample(0, &a), &sample(1_000_000_000, &b), None);
        let _ = delta.merge(&delta).rates();
        let _ = iostat::values(&a.stat.counters, &b.stat.counters, 100.0);
    }
});
