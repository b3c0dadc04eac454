//! Any bytes as the log of each tool that can be imported: the first byte says which, the rest is the log. Nothing may
//! panic, and whatever comes out obeys the model: ordered, on known devices, without negative times.
#![no_main]

use std::path::Path;

use iolens_core::model::Observation;
use iolens_import::{ImportOptions, LogFormat, parse_bytes, parse_fio, recognise};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, log)) = data.split_first() else {
        return;
    };
    let _ = recognise(log);
    let format = LogFormat::ALL[usize::from(*first) % LogFormat::ALL.len()];
    if format == LogFormat::FioJson {
        let _ = parse_fio(log);
    }
    // fio's logs say by their name what they hold.
    let name = ["x_lat.1.log", "x_bw.1.log"][usize::from(*first >= 128)];
    let Ok(got) = parse_bytes(format, Path::new(name), log, ImportOptions::default()) else {
        return;
    };
    assert!(got.observations.is_sorted_by_key(Observation::at_ns));
    let listed = |dev| got.meta.devices.iter().any(|d| d.id == dev);
    assert!(got.rates.iter().all(|r| listed(r.dev)));
    for o in &got.observations {
        if let Observation::Io(io) = o {
            assert!(
                listed(io.dev)
                    && io.bytes >= 0
                    && io.device_ns >= 0
                    && io.queue_ns.is_none_or(|q| q >= 0)
            );
        }
    }
});
