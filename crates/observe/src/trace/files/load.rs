//! Loading the BPF programs of the files tracer.

use std::fs;

use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};

use super::super::{
    btf::{BTF_PATH, has_tracepoint, has_word},
    error::{TraceError, one_line, refused},
    load::{Probe, program},
};
use super::{event::FILE_WAYS, syscalls, tracer::FilesFilter};

/// The compiled BPF programs; `bpf/build.sh` makes them from `bpf/files.bpf.c`.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/files.bpf.o"));

const fn probe(program: &'static str, tracepoint: &'static str) -> Probe {
    Probe {
        program,
        tracepoint,
    }
}

/// Required programs in attach order: those for processes and closes come before those for opens.
const NEEDED: [Probe; 8] = [
    probe("process_fork", "sched_process_fork"),
    probe("process_exec", "sched_process_exec"),
    probe("process_exit", "sched_process_exit"),
    probe("rename", "task_rename"),
    probe("bio_submitted", "block_bio_queue"),
    probe("switched", "sched_switch"),
    probe("leave", "sys_exit"),
    probe("enter", "sys_enter"),
];

/// Programs for I/O without system calls (io_uring).
const IO_URING: [Probe; 2] = [
    probe("uring_complete", "io_uring_complete"),
    probe("uring_submit", "io_uring_submit_req"),
];

/// The helper in `enum bpf_func_id` that iterates over a process's descriptors (e6f2dd0f8067, 5.17).
const LOOPS: &str = "BPF_FUNC_loop";

/// Configuration of the BPF programs, set before they are loaded.
pub(super) struct Config<'a> {
    pub ring_bytes: u32,
    pub open_files: u32,
    pub filter: &'a FilesFilter,
    /// Number and depth of the cgroup of the filter.
    pub cgroup: (u64, u32),
}

/// The loaded BPF programs.
pub(super) struct Loaded {
    pub bpf: Ebpf,
    /// In the order in which they must be attached.
    pub probes: Vec<Probe>,
    /// Limits of this kernel, as sentences.
    pub limits: Vec<String>,
    /// Number of entries in the table of histograms.
    pub histograms: usize,
}

/// Indices of histograms are 16-bit numbers, some of which have another meaning (`NO_HISTOGRAM`).
const MAX_HISTOGRAMS: u32 = 1 << 15;

const FILTER_PID: u32 = 1;
const FILTER_COMM: u32 = 2;
const FILTER_CGROUP: u32 = 4;
const FILTER_TREE: u32 = 8;

fn filter_mode(filter: &FilesFilter) -> u32 {
    let mut mode = 0;
    if !filter.pids.is_empty() {
        mode |= FILTER_PID;
    }
    if filter.comm.is_some() {
        mode |= FILTER_COMM;
    }
    if filter.cgroup.is_some() {
        mode |= FILTER_CGROUP;
    }
    if filter.children {
        mode |= FILTER_TREE;
    }
    mode
}

/// Loads all programs that this kernel accepts, without attaching them.
pub(super) fn load(config: &Config<'_>) -> Result<Loaded, TraceError> {
    let kernel = fs::read(BTF_PATH).map_err(|e| TraceError::NoBtf(e.to_string()))?;
    for needed in NEEDED {
        if !has_tracepoint(&kernel, needed.tracepoint) {
            return Err(TraceError::NoTracepoint(needed.tracepoint));
        }
    }
    if !has_word(&kernel, LOOPS) {
        return Err(TraceError::TooOld {
            what: "follow files from open to close (bpf_loop)",
            since: "5.17",
        });
    }
    let io_uring = IO_URING
        .iter()
        .all(|p| has_tracepoint(&kernel, p.tracepoint));
    drop(kernel);
    let kinds = syscalls::kinds();
    let mode = filter_mode(config.filter);
    let comm = config.filter.comm.map_or([0; 16], |c| {
        let mut bytes = [0; 16];
        bytes[..c.as_bytes().len()].copy_from_slice(c.as_bytes());
        bytes
    });
    let (cgroup, level) = config.cgroup;
    let own = std::process::id();
    let sets = (config.open_files / FILE_WAYS as u32)
        .clamp(1 << 7, 1 << 17)
        .next_power_of_two();
    let histograms = (sets / 2).min(MAX_HISTOGRAMS);
    let [set_shift, histogram_shift] = [sets, histograms].map(|n| 64 - n.trailing_zeros() as u8);
    // The loader parses the kernel's types when it is created. Its copy is dropped before ours is parsed.
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    let btf = Btf::from_sys_fs().map_err(|e| TraceError::NoBtf(one_line(&e)))?;
    loader
        .btf(Some(&btf))
        .verifier_log_level(VerifierLogLevel::STATS)
        .map_max_entries("file_events", config.ring_bytes)
        .map_max_entries("requests", sets)
        .map_max_entries("histograms", histograms)
        .override_global("kind_of", &kinds, true)
        .override_global("filter_mode", &mode, true)
        .override_global("filter_comm", &comm, true)
        .override_global("filter_cgroup", &cgroup, true)
        .override_global("filter_cgroup_level", &level, true)
        .override_global("own_tgid", &own, true)
        .override_global("set_shift", &set_shift, true)
        .override_global("histogram_shift", &histogram_shift, true);
    let mut bpf = loader
        .load(OBJECT)
        .map_err(|e| refused("create the files tracer's maps", &e))?;
    let mut limits = Vec::new();
    let mut probes = Vec::new();
    for p in NEEDED {
        let loaded = program(&mut bpf, p)?.load(p.tracepoint, &btf);
        loaded.map_err(|e| refused(format!("load the program {}", p.program), &e))?;
        probes.push(p);
    }
    if io_uring && load_all(&mut bpf, &btf, &IO_URING)? {
        probes.extend(IO_URING);
    } else {
        limits.push(
            "I/O through io_uring is not seen: this kernel's tracepoints are older than Linux 6.10"
                .to_owned(),
        );
    }
    Ok(Loaded {
        bpf,
        probes,
        limits,
        histograms: histograms as usize,
    })
}

/// Whether the kernel accepts all of `probes`. Arguments of its tracepoints may be older than those known here.
fn load_all(bpf: &mut Ebpf, btf: &Btf, probes: &[Probe]) -> Result<bool, TraceError> {
    for p in probes {
        if program(bpf, *p)?.load(p.tracepoint, btf).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
