//! The BPF programs: the kernel accepts them, and its statistics of them.

use iolens_observe::trace::{Tracer, TracerOptions, capabilities};

use crate::lab::ready;

/// Prints each program's verifier statistics, with and without the switches that prune code.
#[test]
fn the_verifier_takes_every_form() {
    let Some(_turn) = ready(&[]) else { return };
    for attribution in [true, false] {
        for (without_io_start, without_fetch) in [(false, false), (true, false), (false, true), (true, true)] {
            let options = TracerOptions {
                attribution,
                without_io_start,
                without_fetch,
                ring_bytes: 4096,
                ..TracerOptions::default()
            };
            let tracer = Tracer::start(options).unwrap();
            let report = tracer.program_report();
            eprintln!(
                "attribution {attribution}, without block_io_start {without_io_start}, atomics {}:",
                !without_fetch
            );
            for p in &report {
                eprintln!(
                    "  {:<12} {:<18} verified {:>6} instructions, {:>5} bytes of BPF, {:>5} of machine code",
                    p.name, p.tracepoint, p.verified_instructions, p.translated_bytes, p.jited_bytes
                );
                assert!(p.verified_instructions < 1_000_000 && p.translated_bytes > 0);
                assert_eq!(p.attached, !p.name.starts_with("bio_"), "{}", p.name);
            }
            assert_eq!(report.iter().any(|p| p.name == "io_start"), !without_io_start);
        }
    }
}

#[test]
fn cost_is_known_when_asked_for() {
    let Some(_turn) = ready(&["sync"]) else { return };
    let tracer = Tracer::start(TracerOptions::default()).unwrap();
    assert_eq!(tracer.probe_cost(), None, "not requested");
    drop(tracer);
    let tracer = Tracer::start(TracerOptions { measure_cost: true, ..TracerOptions::default() }).unwrap();
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
        assert!(c.tracepoints.iter().any(|(name, there)| *name == "block_rq_issue" && *there));
    }
    assert_eq!(c.can_trace(), c.load.is_ok());
    if let Err(why) = &c.load {
        assert!(!why.contains('\n'), "{why}");
    }
}
