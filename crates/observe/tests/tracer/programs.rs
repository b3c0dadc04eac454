//! Tests that the kernel accepts the BPF programs, and prints its statistics.

use std::collections::BTreeSet;

use aya::programs::{ProgramInfo, loaded_programs};
use iolens_observe::trace::{Tracer, TracerOptions, capabilities};

use crate::lab::ready;

/// What the kernel says of the loaded programs that are not in `before`, by number.
fn loaded_since(before: &BTreeSet<u32>) -> Vec<ProgramInfo> {
    loaded_programs()
        .filter_map(Result::ok)
        .filter(|p| !before.contains(&p.id()))
        .collect()
}

/// Prints each program's verifier statistics, with and without the switches that prune code.
#[test]
fn the_verifier_takes_every_form() {
    let Some(_turn) = ready(&[]) else { return };
    for attribution in [true, false] {
        for (without_io_start, without_fetch) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let options = TracerOptions {
                attribution,
                without_io_start,
                without_fetch,
                ring_bytes: 4096,
                measure_cost: true,
                ..TracerOptions::default()
            };
            let before = loaded_since(&BTreeSet::new())
                .iter()
                .map(ProgramInfo::id)
                .collect();
            let tracer = Tracer::start(options).unwrap();
            let loaded = loaded_since(&before);
            let attached: Vec<String> = tracer
                .probe_cost()
                .unwrap()
                .programs
                .into_iter()
                .map(|p| p.0)
                .collect();
            eprintln!(
                "attribution {attribution}, without block_io_start {without_io_start}, atomics {}:",
                !without_fetch
            );
            for name in &attached {
                // The kernel keeps 15 bytes of a name.
                let short = &name[..name.len().min(15)];
                let p = loaded
                    .iter()
                    .find(|p| p.name_as_str() == Some(short))
                    .unwrap_or_else(|| panic!("no {name}"));
                let verified = p.verified_instruction_count();
                let bytes = p.size_translated();
                eprintln!(
                    "  {name:<18} verified {verified:?} instructions, {bytes:?} bytes of BPF"
                );
                assert!(verified.is_none_or(|n| n < 1_000_000) && bytes > Some(0));
                assert!(!name.starts_with("bio_"), "{name}");
            }
            assert!(
                attached.iter().any(|name| name == "rq_complete"),
                "{attached:?}"
            );
            assert_eq!(
                attached.iter().any(|name| name == "io_start"),
                !without_io_start
            );
        }
    }
}

#[test]
fn cost_is_known_when_asked_for() {
    let Some(_turn) = ready(&["sync"]) else {
        return;
    };
    let tracer = Tracer::start(TracerOptions::default()).unwrap();
    assert_eq!(tracer.probe_cost(), None, "not requested");
    drop(tracer);
    let tracer = Tracer::start(TracerOptions {
        measure_cost: true,
        ..TracerOptions::default()
    })
    .unwrap();
    let disk = crate::lab::LoopDisk::in_memory(16);
    let file = std::fs::File::open(disk.path()).unwrap();
    (0..50).for_each(|_| file.sync_all().unwrap());
    let cost = tracer.probe_cost().unwrap();
    let runs: u64 = cost.programs.iter().map(|p| p.1).sum();
    assert!(runs >= 50 && cost.run_time_ns > 0, "{cost:?}");
}

#[test]
fn the_doctor_reports_what_is_there() {
    let c = capabilities();
    eprintln!("{c:?}");
    if rustix::process::geteuid().is_root() && c.btf {
        assert!(
            c.tracepoints
                .iter()
                .any(|(name, there)| *name == "block_rq_issue" && *there)
        );
    }
    assert_eq!(c.can_trace(), c.load.is_ok());
    if let Err(why) = &c.load {
        assert!(!why.contains('\n'), "{why}");
    }
}
