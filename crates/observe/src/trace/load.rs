//! Loads the BPF programs in the variants that this kernel accepts.

use std::{fs, path::Path};

use aya::{
    Btf, Ebpf, EbpfLoader, VerifierLogLevel,
    programs::{BtfTracePoint, ProgramError, RawTracePoint},
};

use super::{
    btf::{BTF_PATH, enumerator, has_tracepoint, has_word},
    cpu_rings::RingSizes,
    error::{TraceError, one_line, refused},
    symbols::ends_of_direct_io,
};

/// The compiled BPF programs; `bpf/build.sh` makes them from `bpf/blkio.bpf.c`.
static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/blkio.bpf.o"));
/// The programs for kernels that reject any atomic operation that returns a value, even in unreachable code.
static OBJECT_WITHOUT_FETCH: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/bpf/blkio-without-fetch.bpf.o"
));

/// A BPF program and the tracepoint it is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub program: &'static str,
    pub tracepoint: &'static str,
}

/// Tracepoints of dirtied pages, on kernels before and since b9b0ff61eef5 (5.16). The program accepts the arguments of
/// both.
const DIRTY_FOLIO: Probe = Probe {
    program: "dirtied",
    tracepoint: "writeback_dirty_folio",
};
const DIRTY_PAGE: Probe = Probe {
    program: "dirtied",
    tracepoint: "writeback_dirty_page",
};

/// Shows the submitter of a bio that needs a flush on kernels without [`START`].
const FLUSH_ASKED: Probe = Probe {
    program: "flush_asked",
    tracepoint: "block_bio_queue",
};

/// Raw tracepoints of ext4, by which a commit of its journal is attributed to a process, in attach order.
const SYNC_PROBES: [Probe; 2] = [
    Probe {
        program: "sync_exit",
        tracepoint: "ext4_sync_file_exit",
    },
    Probe {
        program: "sync_enter",
        tracepoint: "ext4_sync_file_enter",
    },
];

/// Raw tracepoint of wbt that shows throttled write-back.
const WBT_PROBE: Probe = Probe {
    program: "wbt_window",
    tracepoint: "wbt_timer",
};

/// Programs in attach order: the one that opens a slot first, the one that writes events last. At the instant when the
/// last is attached, every I/O started since the first has its slot, so only older I/Os are censored.
const START: Probe = Probe {
    program: "io_start",
    tracepoint: "block_io_start",
};
const ISSUE: Probe = Probe {
    program: "rq_issue",
    tracepoint: "block_rq_issue",
};
const MERGE: Probe = Probe {
    program: "rq_merge",
    tracepoint: "block_rq_merge",
};
pub(super) const COMPLETE: Probe = Probe {
    program: "rq_complete",
    tracepoint: "block_rq_complete",
};
const BIO_QUEUE: Probe = Probe {
    program: "bio_queue",
    tracepoint: "block_bio_queue",
};
pub(super) const BIO_COMPLETE: Probe = Probe {
    program: "bio_complete",
    tracepoint: "block_bio_complete",
};

/// Features found in the kernel's type information, which decide the variant that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub io_start: bool,
    pub merge: bool,
    pub marks_pinned_pages: bool,
    /// Tracepoint that shows the process that dirties a page. Without it, write-back has no process.
    pub dirty: Option<Probe>,
    /// Find the submitter of a flush by its bio, because [`START`] does not exist.
    pub flush_asked: bool,
    /// The kernel accepts the programs that show who waits in fsync.
    pub syncs: bool,
    /// The kernel accepts the programs for devices without requests.
    pub bio_based: bool,
    pub request_flags: RequestFlags,
}

/// Bit numbers in `rq_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestFlags {
    /// The request is in the flush machinery.
    pub flush_seq: u8,
    /// The kernel accounts the request.
    pub io_stat: u8,
}

impl RequestFlags {
    /// Values defined as macros, before 5f89154e8e9e (6.11).
    const MACROS: RequestFlags = RequestFlags {
        flush_seq: 4,
        io_stat: 13,
    };

    fn read(btf: &[u8]) -> RequestFlags {
        let bit = |name| {
            enumerator(btf, name)
                .and_then(|bit| u8::try_from(bit).ok())
                .filter(|bit| *bit < 32)
        };
        let flags = bit("__RQF_FLUSH_SEQ").zip(bit("__RQF_IO_STAT"));
        flags.map_or(Self::MACROS, |(flush_seq, io_stat)| RequestFlags {
            flush_seq,
            io_stat,
        })
    }
}

impl Features {
    /// Reads the kernel's type information and determines the features.
    pub fn read() -> Result<Features, TraceError> {
        let btf = fs::read(BTF_PATH).map_err(|e| TraceError::NoBtf(e.to_string()))?;
        for needed in [ISSUE, COMPLETE] {
            if !has_tracepoint(&btf, needed.tracepoint) {
                return Err(TraceError::NoTracepoint(needed.tracepoint));
            }
        }
        Ok(Features {
            io_start: has_tracepoint(&btf, START.tracepoint),
            merge: has_tracepoint(&btf, MERGE.tracepoint),
            marks_pinned_pages: has_word(&btf, "BIO_PAGE_PINNED"),
            dirty: dirty_probe(&btf),
            flush_asked: true,
            syncs: true,
            bio_based: true,
            request_flags: RequestFlags::read(&btf),
        })
    }
}

/// The tracepoint that shows the process that dirties a page, on a kernel with these types.
pub(super) fn dirty_probe(btf: &[u8]) -> Option<Probe> {
    [DIRTY_FOLIO, DIRTY_PAGE]
        .into_iter()
        .find(|p| has_tracepoint(btf, p.tracepoint))
}

/// The configuration of the BPF programs, set before they are loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    pub rings: RingSizes,
    pub attribution: bool,
    pub filtered: bool,
    pub slots: u32,
    /// Load the variant for kernels without atomic operations that return a value.
    pub without_fetch: bool,
    /// See [`io_controller_is_v2`].
    pub cgroup_of_bio: bool,
}

/// Number of inodes whose last dirtier is remembered; about 130 bytes of kernel memory each.
const DIRTIERS: u32 = 1 << 14;
/// Number of bios requiring a flush whose submitters are remembered.
const ASKERS: u32 = 1 << 10;

/// The loaded BPF object and its links.
pub(super) struct Loaded {
    pub bpf: Ebpf,
    /// The features in use. A kernel may have a tracepoint and still refuse the program for it.
    pub features: Features,
    /// Features that this kernel refused, with the reason, as sentences.
    pub limits: Vec<String>,
}

/// Parts that may be left out if the kernel refuses a program, because a partial recording is better than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    bio_based: bool,
    attribution: bool,
}

/// The combinations, in the order in which they are tried.
const PARTS: [Parts; 4] = [
    Parts {
        bio_based: true,
        attribution: true,
    },
    Parts {
        bio_based: false,
        attribution: true,
    },
    Parts {
        bio_based: true,
        attribution: false,
    },
    Parts {
        bio_based: false,
        attribution: false,
    },
];

/// A program that the kernel refused.
#[derive(Debug)]
struct Refusal {
    /// Number of programs loaded before it.
    loaded: usize,
    error: TraceError,
}

/// Loads all programs that this kernel accepts, without attaching them.
pub(super) fn load(config: Config, features: Features) -> Result<Loaded, TraceError> {
    // The loader parses the kernel's types when it is created. Its copy is dropped before ours is parsed.
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    let btf = Btf::from_sys_fs().map_err(|e| TraceError::NoBtf(one_line(&e)))?;
    let mut furthest: Option<Refusal> = None;
    for parts in PARTS
        .into_iter()
        .filter(|p| p.attribution || config.attribution)
    {
        let config = Config {
            attribution: config.attribution && parts.attribution,
            ..config
        };
        let features = Features {
            bio_based: parts.bio_based,
            ..features
        };
        for form in forms(config.without_fetch) {
            match load_form(&mut loader, &btf, config, features, form) {
                Ok((bpf, features)) => {
                    return Ok(Loaded {
                        bpf,
                        features,
                        limits: limits(parts, furthest.as_ref()),
                    });
                }
                Err(refusal) if matches!(refusal.error, TraceError::Refused { .. }) => {
                    // The variant that got furthest matches the kernel; the errors of the others are irrelevant.
                    if furthest.as_ref().is_none_or(|f| f.loaded < refusal.loaded) {
                        furthest = Some(refusal);
                    }
                }
                Err(refusal) => return Err(refusal.error),
            }
        }
    }
    Err(furthest.map_or_else(
        || TraceError::Refused {
            what: "write events".into(),
            why: "this processor needs atomic operations that this kernel's BPF does not have"
                .into(),
        },
        |f| f.error,
    ))
}

/// The limits of a recording without some parts, one line each.
fn limits(parts: Parts, refusal: Option<&Refusal>) -> Vec<String> {
    let why = refusal.map_or_else(String::new, |r| format!(": {}", r.error));
    let line = |there: bool, what: &str| (!there).then(|| format!("{what}{why}"));
    let bios = line(
        parts.bio_based,
        "devices without requests (dm, md, zram) are not recorded",
    );
    bios.into_iter()
        .chain(line(
            parts.attribution,
            "process, cgroup and file of the I/Os are not recorded",
        ))
        .collect()
}

/// Kernel differences that only the verifier reveals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProgramForm {
    arguments: Arguments,
    /// 5ca419f2864a (5.12) for x86, later elsewhere.
    has_fetch: bool,
}

/// Whether tracepoints still have the queue as their first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arguments {
    /// Tracepoints of requests, before a54895fa057c (5.11, but also 5.10.137: the version number does not decide).
    request_has_queue: bool,
    /// Tracepoints of bios, before e8a676d61c07 (5.11).
    bio_has_queue: bool,
}

/// The existing variants, newest kernels first.
const ARGUMENTS: [Arguments; 3] = [
    Arguments {
        request_has_queue: false,
        bio_has_queue: false,
    },
    Arguments {
        request_has_queue: false,
        bio_has_queue: true,
    },
    Arguments {
        request_has_queue: true,
        bio_has_queue: true,
    },
];

/// Whether the processor makes stores visible to others in program order.
const STORES_IN_ORDER: bool = cfg!(target_arch = "x86_64");

/// The variants to try, newest kernels first.
fn forms(without_fetch: bool) -> impl Iterator<Item = ProgramForm> {
    let fetch = [true, false]
        .into_iter()
        .filter(move |f| if *f { !without_fetch } else { STORES_IN_ORDER });
    fetch.flat_map(|has_fetch| {
        ARGUMENTS.into_iter().map(move |arguments| ProgramForm {
            arguments,
            has_fetch,
        })
    })
}

/// Loads the programs in one variant.
fn load_form<'a>(
    loader: &mut EbpfLoader<'a>,
    btf: &'a Btf,
    config: Config,
    features: Features,
    form: ProgramForm,
) -> Result<(Ebpf, Features), Refusal> {
    let mut features = wanted_features(features, config);
    loader
        .btf(Some(btf))
        .verifier_log_level(VerifierLogLevel::STATS);
    set_map_sizes(loader, config, features);
    set_constants(loader, config, features, form);

    // This creates the maps. The verifier checks each program only when it is loaded, below.
    let object = if form.has_fetch {
        OBJECT
    } else {
        OBJECT_WITHOUT_FETCH
    };
    let mut bpf = loader.load(object).map_err(|e| Refusal {
        loaded: 0,
        error: refused("create the tracer's maps", &e),
    })?;

    load_programs(&mut bpf, btf, &mut features)?;
    if features.syncs {
        features.syncs = load_sync_probes(&mut bpf).is_ok();
    }
    Ok((bpf, features))
}

/// The features of this kernel that a recording with `config` uses.
fn wanted_features(available: Features, config: Config) -> Features {
    let mut features = available;
    features.dirty = features.dirty.filter(|_| config.attribution);
    features.flush_asked &= config.attribution && !features.io_start;
    features.syncs &= config.attribution;
    features
}

/// Sets the number of entries of each map. An unused map gets one entry, because the kernel refuses a map without
/// entries.
fn set_map_sizes(loader: &mut EbpfLoader<'_>, config: Config, features: Features) {
    let cpus = config.rings.cpus as u32;
    let slots = slot_count(config.slots);
    let dirtiers = if features.dirty.is_some() {
        DIRTIERS
    } else {
        1
    };
    let askers = if features.flush_asked { ASKERS } else { 1 };
    loader
        .map_max_entries("rings", cpus)
        .map_max_entries("entries", cpus << config.rings.shift)
        .map_max_entries("slots", slots)
        .map_max_entries("slot_notes", slots)
        .map_max_entries("slot_ends", slots)
        .map_max_entries("dirtiers", dirtiers)
        .map_max_entries("askers", askers);
}

/// Sets the constants of the programs. The verifier removes code that constants of 0 disable.
fn set_constants(
    loader: &mut EbpfLoader<'_>,
    config: Config,
    features: Features,
    form: ProgramForm,
) {
    // Number of bits to shift out of a 64-bit hash, so that the rest is the number of a slot.
    let slot_shift = 64 - slot_count(config.slots).trailing_zeros();
    loader
        .override_global(
            "request_has_queue_argument",
            flag(form.arguments.request_has_queue),
            true,
        )
        .override_global(
            "bio_has_queue_argument",
            flag(form.arguments.bio_has_queue),
            true,
        )
        .override_global("stores_in_order", flag(STORES_IN_ORDER), true)
        .override_global("entry_shift", number(config.rings.shift), true)
        .override_global(
            "flush_seq_bit",
            number(u32::from(features.request_flags.flush_seq & 31)),
            true,
        )
        .override_global(
            "io_stat_bit",
            number(u32::from(features.request_flags.io_stat & 31)),
            true,
        )
        .override_global("has_io_start", flag(features.io_start), true)
        .override_global(
            "marks_pinned_pages",
            flag(features.marks_pinned_pages),
            true,
        )
        .override_global("attribution", flag(config.attribution), true)
        .override_global("cgroup_of_bio", flag(config.cgroup_of_bio), true)
        .override_global("filtered", flag(config.filtered), true)
        .override_global("slot_shift", number(slot_shift), true);
    if config.attribution {
        let constants = [
            "end_of_iomap_dio",
            "end_of_dio",
            "end_of_dio_aio",
            "end_of_split",
            "end_of_iomap_dio_simple",
            "end_of_waited_for",
        ];
        for (constant, address) in constants.into_iter().zip(ends_of_direct_io()) {
            loader.override_global(constant, address, true);
        }
    }
}

/// A number below 64 as a constant of the programs, with the lifetime that the loader needs.
fn number(n: u32) -> &'static u8 {
    static NUMBERS: [u8; 64] = numbers();
    &NUMBERS[n as usize]
}

/// A switch as a constant of the programs.
fn flag(on: bool) -> &'static u8 {
    number(u32::from(on))
}

/// Loads the programs of `features`. If the kernel refuses one that only attributes I/O, its feature is removed; any
/// other refusal is an error.
fn load_programs(bpf: &mut Ebpf, btf: &Btf, features: &mut Features) -> Result<(), Refusal> {
    for (loaded, probe) in probes(*features).enumerate() {
        let program = program(bpf, probe).map_err(|error| Refusal { loaded, error })?;
        match program.load(probe.tracepoint, btf) {
            Ok(()) => {}
            Err(_) if Some(probe) == features.dirty => features.dirty = None,
            Err(_) if probe == FLUSH_ASKED => features.flush_asked = false,
            Err(e) => {
                return Err(Refusal {
                    loaded,
                    error: refused(format!("load the program {}", probe.program), &e),
                });
            }
        }
    }
    Ok(())
}

fn load_sync_probes(bpf: &mut Ebpf) -> Result<(), ProgramError> {
    for probe in SYNC_PROBES {
        if let Some(program) = raw_program(bpf, probe) {
            program.load()?;
        }
    }
    Ok(())
}

/// Attaches the programs that show who waits in fsync. A kernel without ext4 has no such tracepoints, and needs none.
pub(super) fn attach_sync_probes(bpf: &mut Ebpf) -> Result<(), ProgramError> {
    for probe in SYNC_PROBES {
        if let Some(program) = raw_program(bpf, probe) {
            program.attach(probe.tracepoint)?;
        }
    }
    Ok(())
}

/// Loads and attaches the program that shows throttled write-back. A kernel without wbt has no such tracepoint.
pub(super) fn attach_wbt_probe(bpf: &mut Ebpf) -> Result<(), ProgramError> {
    if let Some(program) = raw_program(bpf, WBT_PROBE) {
        program.load()?;
        program.attach(WBT_PROBE.tracepoint)?;
    }
    Ok(())
}

fn raw_program(bpf: &mut Ebpf, probe: Probe) -> Option<&mut RawTracePoint> {
    bpf.program_mut(probe.program)?.try_into().ok()
}

/// Number of slots for `requested` I/Os in flight: the next power of two.
pub(super) fn slot_count(requested: u32) -> u32 {
    requested.clamp(1 << 6, 1 << 22).next_power_of_two()
}

/// One more than the highest number of a possible CPU of this machine. Lower numbers may be unused.
pub(super) fn cpus() -> Result<usize, TraceError> {
    let path = "/sys/devices/system/cpu/possible";
    let list = fs::read_to_string(path).map_err(|e| refused(format!("read {path}"), &e))?;
    cpu_numbers(&list).ok_or_else(|| TraceError::Refused {
        what: format!("read {path}"),
        why: format!("{list:?}"),
    })
}

/// One more than the highest number in a list such as `0-3,8-11`.
fn cpu_numbers(list: &str) -> Option<usize> {
    let highest = list.trim().rsplit([',', '-']).next()?;
    highest.parse::<usize>().ok().map(|n| n + 1)
}

const fn numbers() -> [u8; 64] {
    let mut all = [0; 64];
    let mut i = 0;
    while i < 64 {
        all[i] = i as u8;
        i += 1;
    }
    all
}

/// The probes of request-based devices in attach order, then those of bio-based ones.
pub(super) fn probes(features: Features) -> impl Iterator<Item = Probe> {
    request_probes(features).chain(BIO_PROBES.into_iter().filter(move |_| features.bio_based))
}

/// The probes of request-based devices in attach order.
pub(super) fn request_probes(features: Features) -> impl Iterator<Item = Probe> {
    let start = features.io_start.then_some(START);
    let merge = features.merge.then_some(MERGE);
    let asked = features.flush_asked.then_some(FLUSH_ASKED);
    features
        .dirty
        .into_iter()
        .chain(asked)
        .chain(start)
        .chain([ISSUE])
        .chain(merge)
        .chain([COMPLETE])
}

/// The probes of bio-based devices in attach order.
pub(super) const BIO_PROBES: [Probe; 2] = [BIO_QUEUE, BIO_COMPLETE];

/// Probes that show I/Os, on a kernel that has all of them, in attach order.
pub(super) const IO_PROBES: [Probe; 6] = [START, ISSUE, MERGE, COMPLETE, BIO_QUEUE, BIO_COMPLETE];

/// The loaded program of `probe`.
pub(super) fn program(bpf: &mut Ebpf, probe: Probe) -> Result<&mut BtfTracePoint, TraceError> {
    let missing = || TraceError::Refused {
        what: format!("find the program {}", probe.program),
        why: "not in the object".into(),
    };
    bpf.program_mut(probe.program)
        .ok_or_else(missing)?
        .try_into()
        .map_err(|_| missing())
}

/// Whether bios are charged to cgroups of the v2 hierarchy, whose ids (inode numbers of directories) recordings store.
/// If the io controller is on a v1 hierarchy ("hybrid"), its ids mean something else, and the submitting task's v2
/// cgroup is used instead. For v2 the second column of `/proc/cgroups` is 0; recent kernels omit controllers without v1
/// support.
pub(super) fn io_controller_is_v2(proc_cgroups: &Path) -> bool {
    let Ok(text) = fs::read_to_string(proc_cgroups) else {
        return false;
    };
    let blkio = text
        .lines()
        .find(|l| l.split_whitespace().next() == Some("blkio"));
    blkio.is_none_or(|l| l.split_whitespace().nth(1) == Some("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_may_have_gaps() {
        assert_eq!(cpu_numbers("0\n"), Some(1));
        assert_eq!(cpu_numbers("0-1\n"), Some(2));
        assert_eq!(cpu_numbers("0-3,8-11\n"), Some(12));
        assert_eq!(cpu_numbers("\n"), None);
    }

    /// Each switch prunes code from the programs, so each setting is another program to the verifier.
    #[test]
    fn the_verifier_takes_the_programs_whatever_is_switched_off() {
        let Ok(here) = Features::read() else {
            eprintln!("SKIP: no BTF, or no block tracepoints");
            return;
        };
        // None, all, and all but one.
        for bits in [0, 63].into_iter().chain((0..6).map(|i| 63 ^ 1u8 << i)) {
            let on = |bit: u8| bits >> bit & 1 == 1;
            let config = Config {
                rings: RingSizes::of(4096, cpus().expect("sysfs")),
                attribution: on(0),
                filtered: on(1),
                slots: 64,
                cgroup_of_bio: on(2),
                without_fetch: false,
            };
            let dirty = here.dirty.filter(|_| on(5));
            let features = Features {
                io_start: here.io_start && on(3),
                marks_pinned_pages: on(4),
                dirty,
                ..here
            };
            match load(config, features) {
                Ok(loaded) => {
                    assert_eq!(loaded.limits, [""; 0], "a part was refused by the verifier");
                    assert_eq!(
                        loaded.features.dirty,
                        dirty.filter(|_| config.attribution),
                        "refused by the verifier"
                    );
                    assert_eq!(
                        (loaded.features.flush_asked, loaded.features.syncs),
                        (config.attribution && !features.io_start, config.attribution),
                        "refused by the verifier"
                    );
                }
                Err(TraceError::NoPrivilege { .. }) => {
                    eprintln!("SKIP: may not load BPF programs");
                    return;
                }
                Err(e) => panic!("{config:?} {features:?}: {e}"),
            }
        }
    }

    #[test]
    fn request_flags_have_the_bits_of_the_macros_where_there_is_no_enum() {
        assert_eq!(
            RequestFlags::read(b"\0RQF_FLUSH_SEQ\0"),
            RequestFlags {
                flush_seq: 4,
                io_stat: 13
            }
        );
    }

    #[test]
    fn dirtier_tracepoint_matches_the_kernel() {
        assert_eq!(
            dirty_probe(b"\0btf_trace_writeback_dirty_folio\0"),
            Some(DIRTY_FOLIO)
        );
        assert_eq!(
            dirty_probe(b"\0btf_trace_writeback_dirty_page\0"),
            Some(DIRTY_PAGE)
        );
        assert_eq!(dirty_probe(b"\0btf_trace_writeback_dirty_inode\0"), None);
    }

    #[test]
    fn completion_is_attached_last() {
        let none = Features {
            io_start: false,
            merge: false,
            marks_pinned_pages: false,
            dirty: None,
            flush_asked: false,
            syncs: false,
            bio_based: false,
            request_flags: RequestFlags::MACROS,
        };
        let features = Features {
            io_start: true,
            merge: true,
            dirty: Some(DIRTY_FOLIO),
            ..none
        };
        let before_6_5 = Features {
            flush_asked: true,
            ..none
        };
        assert_eq!(
            request_probes(features).collect::<Vec<_>>(),
            [DIRTY_FOLIO, START, ISSUE, MERGE, COMPLETE]
        );
        assert_eq!(
            request_probes(before_6_5).collect::<Vec<_>>(),
            [FLUSH_ASKED, ISSUE, COMPLETE]
        );
        assert_eq!(request_probes(none).collect::<Vec<_>>(), [ISSUE, COMPLETE]);
        assert_eq!(probes(none).collect::<Vec<_>>(), [ISSUE, COMPLETE]);
        let all = Features {
            dirty: None,
            bio_based: true,
            ..features
        };
        assert_eq!(probes(all).collect::<Vec<_>>(), IO_PROBES);
    }

    #[test]
    fn missing_parts_are_reported_with_the_kernels_reason() {
        let error = TraceError::Refused {
            what: "load the program bio_queue".into(),
            why: "no".into(),
        };
        let refusal = Refusal { loaded: 4, error };
        assert_eq!(limits(PARTS[0], Some(&refusal)), [""; 0]);
        let without_bios = limits(PARTS[1], Some(&refusal));
        assert!(
            without_bios[0].contains("dm, md, zram") && without_bios[0].contains("bio_queue"),
            "{without_bios:?}"
        );
        assert_eq!(limits(PARTS[3], Some(&refusal)).len(), 2);
    }

    /// Of tracepoints that lost an argument in one release but not in another (5.10.137), each mixture is tried.
    #[test]
    fn each_mixture_of_arguments_is_tried() {
        let all: Vec<ProgramForm> = forms(true).collect();
        let of = |request_has_queue, bio_has_queue| Arguments {
            request_has_queue,
            bio_has_queue,
        };
        if STORES_IN_ORDER {
            assert!(
                all.iter().any(|f| f.arguments == of(false, true)),
                "5.10.137 and later 5.10"
            );
            assert!(all.iter().any(|f| f.arguments == of(true, true)), "before");
        }
    }

    #[test]
    fn the_io_controller_is_looked_up_in_its_hierarchy() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("cgroups");
        let is_v2 = |text: &str| {
            fs::write(&path, text).expect("write");
            io_controller_is_v2(&path)
        };
        assert!(!is_v2("#subsys_name\thierarchy\nblkio\t7\t1\t1\n"));
        assert!(is_v2("#subsys_name\thierarchy\nblkio\t0\t1\t1\n"));
        assert!(is_v2("#subsys_name\thierarchy\nmemory\t0\t1\t1\n"));
        assert!(!io_controller_is_v2(&dir.path().join("absent")));
    }
}
