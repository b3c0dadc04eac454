//! Loading the kernel half: which programs and which of their forms this kernel takes.

use std::{fs, path::Path};

use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel, programs::BtfTracePoint};

use super::{
    cpu_rings::RingSizes,
    error::{TraceError, one_line, refused},
};

/// The compiled kernel half; `bpf/build.sh` makes it from `bpf/blkio.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/blkio.bpf.o"));
/// The same for kernels that refuse atomic operations that return a value, reached or not.
static OBJECT_WITHOUT_FETCH: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/blkio-without-fetch.bpf.o"));

/// Where the kernel describes its types.
pub(super) const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// A program of the kernel half and the tracepoint it sits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    pub program: &'static str,
    pub tracepoint: &'static str,
}

/// Who dirties pages, on kernels before and since b9b0ff61eef5 (5.16), whose arguments the program takes both.
const DIRTY_FOLIO: Probe = Probe { program: "dirtied", tracepoint: "writeback_dirty_folio" };
const DIRTY_PAGE: Probe = Probe { program: "dirtied", tracepoint: "writeback_dirty_page" };

/// In the order in which they must be attached: what opens a slot first, what writes events last, so that at the
/// instant of the last one every I/O started since the first has its slot. Only older ones are censored.
pub(super) const START: Probe = Probe { program: "io_start", tracepoint: "block_io_start" };
pub(super) const ISSUE: Probe = Probe { program: "rq_issue", tracepoint: "block_rq_issue" };
pub(super) const MERGE: Probe = Probe { program: "rq_merge", tracepoint: "block_rq_merge" };
pub(super) const COMPLETE: Probe = Probe { program: "rq_complete", tracepoint: "block_rq_complete" };
pub(super) const BIO_QUEUE: Probe = Probe { program: "bio_queue", tracepoint: "block_bio_queue" };
pub(super) const BIO_COMPLETE: Probe = Probe { program: "bio_complete", tracepoint: "block_bio_complete" };

/// The words in the kernel's type information that decide which form is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub io_start: bool,
    pub merge: bool,
    pub marks_pinned_pages: bool,
    /// What tells who dirties a page; without it nobody is named for what is written back.
    pub dirty: Option<Probe>,
}

impl Features {
    /// Reads the kernel's type information and looks for the words.
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
        })
    }
}

/// What tells who dirties a page on the kernel of these types.
pub(super) fn dirty_probe(btf: &[u8]) -> Option<Probe> {
    [DIRTY_FOLIO, DIRTY_PAGE].into_iter().find(|p| has_tracepoint(btf, p.tracepoint))
}

/// Whether programs can be attached to tracepoint `name` by its types.
pub(super) fn has_tracepoint(btf: &[u8], name: &str) -> bool {
    has_word(btf, &format!("btf_trace_{name}"))
}

/// Whether a name stands in the type information. Names lie between NULs in its last part, whose place the header
/// tells (`struct btf_header`: length of the header at 4, offset of the names after it at 16); a header that makes no
/// sense means looking through everything.
fn has_word(btf: &[u8], word: &str) -> bool {
    let field = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at + 4)?.try_into().ok()?) as usize);
    let names = field(4).zip(field(16)).and_then(|(header, names)| btf.get(header.checked_add(names)?..));
    names.unwrap_or(btf).split(|b| *b == 0).any(|name| name == word.as_bytes())
}

/// What the kernel half is told before it is loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    pub rings: RingSizes,
    pub attribution: bool,
    pub filtered: bool,
    pub slots: u32,
    /// Load what kernels without atomic operations that return a value take.
    pub without_fetch: bool,
    /// See [`io_controller_is_v2`].
    pub cgroup_of_bio: bool,
}

/// Inodes whose last dirtier is remembered, some 130 bytes of kernel memory each.
const DIRTIERS: u32 = 1 << 14;

/// Loads all programs that this kernel can take; none is attached yet. Returns them with the features that are really
/// in use: a kernel that has a tracepoint may still refuse the program that tells who dirties pages, which is no reason
/// not to record.
pub(super) fn load(config: Config, features: Features) -> Result<(Ebpf, Features), TraceError> {
    // The loader parses the kernel's types on its own when made; that copy is dropped before ours is made.
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    let btf = Btf::from_sys_fs().map_err(|e| TraceError::NoBtf(one_line(&e)))?;
    let mut refusal = None;
    for form in forms(config.without_fetch) {
        match load_form(&mut loader, &btf, config, features, form) {
            Err(TraceError::Refused { what, why }) => refusal = refusal.or(Some(TraceError::Refused { what, why })),
            other => return other,
        }
    }
    Err(refusal.unwrap_or_else(|| TraceError::Refused {
        what: "write events".into(),
        why: "this processor needs atomic operations that this kernel's BPF does not have".into(),
    }))
}

/// What differs between kernels and only the verifier can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// a54895fa057c (5.11, but also 5.10.137) dropped an argument: the version number does not tell.
    has_queue_argument: bool,
    /// 5ca419f2864a (5.12) for x86, later elsewhere.
    has_fetch: bool,
}

/// Whether the processor makes its stores visible in their order.
const STORES_IN_ORDER: bool = cfg!(target_arch = "x86_64");

/// The forms to try, newest kernels first.
fn forms(without_fetch: bool) -> impl Iterator<Item = Form> {
    let fetch = [true, false].into_iter().filter(move |f| if *f { !without_fetch } else { STORES_IN_ORDER });
    fetch.flat_map(|has_fetch| {
        [false, true].into_iter().map(move |has_queue_argument| Form { has_queue_argument, has_fetch })
    })
}

fn load_form<'a>(
    loader: &mut EbpfLoader<'a>,
    btf: &'a Btf,
    config: Config,
    features: Features,
    form: Form,
) -> Result<(Ebpf, Features), TraceError> {
    let mut features = features;
    features.dirty = features.dirty.filter(|_| config.attribution);
    // The loader borrows its values for as long as the types.
    static NUMBERS: [u8; 64] = numbers();
    let flag = |on: bool| -> &'static u8 { &NUMBERS[usize::from(on)] };
    let slots = slot_count(config.slots);
    // Of a 64-bit hash, so many bits are shifted out as leave the number of a slot.
    let shift: &'static u8 = &NUMBERS[64 - slots.trailing_zeros() as usize];
    let RingSizes { cpus, shift: seat_shift } = config.rings;
    loader
        .btf(Some(btf))
        .verifier_log_level(VerifierLogLevel::STATS)
        .map_max_entries("rings", cpus as u32)
        .map_max_entries("seats", (cpus as u32) << seat_shift)
        .map_max_entries("slots", slots)
        .map_max_entries("slot_notes", slots)
        .map_max_entries("slot_ends", slots)
        .map_max_entries("dirtiers", if features.dirty.is_some() { DIRTIERS } else { 1 })
        .override_global("has_queue_argument", flag(form.has_queue_argument), true)
        .override_global("stores_in_order", flag(STORES_IN_ORDER), true)
        .override_global("seat_shift", &NUMBERS[seat_shift as usize], true)
        .override_global("has_io_start", flag(features.io_start), true)
        .override_global("marks_pinned_pages", flag(features.marks_pinned_pages), true)
        .override_global("attribution", flag(config.attribution), true)
        .override_global("cgroup_of_bio", flag(config.cgroup_of_bio), true)
        .override_global("filtered", flag(config.filtered), true)
        .override_global("slot_shift", shift, true);
    let object = if form.has_fetch { OBJECT } else { OBJECT_WITHOUT_FETCH };
    let mut bpf = loader.load(object).map_err(|e| refused("create the tracer's maps", &e))?;
    for probe in probes(features) {
        match program(&mut bpf, probe)?.load(probe.tracepoint, btf) {
            Ok(()) => {}
            Err(_) if Some(probe) == features.dirty => features.dirty = None,
            Err(e) => return Err(refused(format!("load the program {}", probe.program), &e)),
        }
    }
    Ok((bpf, features))
}

/// The size of the table of slots for so many I/Os in flight.
pub(super) fn slot_count(wanted: u32) -> u32 {
    wanted.clamp(1 << 6, 1 << 22).next_power_of_two()
}

/// One more than the highest number that a CPU of this machine may ever have: not all below need be there.
pub(super) fn cpus() -> Result<usize, TraceError> {
    let path = "/sys/devices/system/cpu/possible";
    let list = fs::read_to_string(path).map_err(|e| refused(format!("read {path}"), &e))?;
    cpu_numbers(&list).ok_or_else(|| TraceError::Refused { what: format!("read {path}"), why: format!("{list:?}") })
}

/// The same of a list such as `0-3,8-11`.
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
    request_probes(features).chain(BIO_PROBES)
}

/// The probes of request-based devices in attach order.
pub(super) fn request_probes(features: Features) -> impl Iterator<Item = Probe> {
    let start = features.io_start.then_some(START);
    let merge = features.merge.then_some(MERGE);
    features.dirty.into_iter().chain(start).chain([ISSUE]).chain(merge).chain([COMPLETE])
}

/// The probes of bio-based devices in attach order.
pub(super) const BIO_PROBES: [Probe; 2] = [BIO_QUEUE, BIO_COMPLETE];

/// The loaded program of `probe`.
pub(super) fn program(bpf: &mut Ebpf, probe: Probe) -> Result<&mut BtfTracePoint, TraceError> {
    let missing =
        || TraceError::Refused { what: format!("find the program {}", probe.program), why: "not in the object".into() };
    bpf.program_mut(probe.program).ok_or_else(missing)?.try_into().map_err(|_| missing())
}

/// Whether the cgroup that a bio is charged to belongs to the cgroup v2 hierarchy, whose directories' inode numbers
/// are the ids in recordings. Where the io controller sits on a v1 hierarchy ("hybrid") its ids mean something else,
/// and the submitting task's v2 cgroup is taken instead. `/proc/cgroups` says 0 in its second column for v2; recent
/// kernels leave controllers without v1 support out.
pub(super) fn io_controller_is_v2(proc_cgroups: &Path) -> bool {
    let Ok(text) = fs::read_to_string(proc_cgroups) else { return false };
    let blkio = text.lines().find(|l| l.split_whitespace().next() == Some("blkio"));
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
            let features = Features { io_start: here.io_start && on(3), marks_pinned_pages: on(4), dirty, ..here };
            match load(config, features) {
                Ok((_, used)) => {
                    assert_eq!(used.dirty, dirty.filter(|_| config.attribution), "refused by the verifier")
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
    fn words_are_found_whole() {
        let btf = b"\0btf_trace_block_io_start_x\0btf_trace_block_rq_issue\0";
        assert!(has_tracepoint(btf, "block_rq_issue"));
        assert!(!has_tracepoint(btf, "block_io_start"));
    }

    #[test]
    fn dirtiers_are_watched_under_the_name_that_the_kernel_has() {
        assert_eq!(dirty_probe(b"\0btf_trace_writeback_dirty_folio\0"), Some(DIRTY_FOLIO));
        assert_eq!(dirty_probe(b"\0btf_trace_writeback_dirty_page\0"), Some(DIRTY_PAGE));
        assert_eq!(dirty_probe(b"\0btf_trace_writeback_dirty_inode\0"), None);
    }

    #[test]
    fn completion_is_attached_last() {
        let features = Features { io_start: true, merge: true, marks_pinned_pages: true, dirty: Some(DIRTY_FOLIO) };
        assert_eq!(request_probes(features).collect::<Vec<_>>(), [DIRTY_FOLIO, START, ISSUE, MERGE, COMPLETE]);
        let old = Features { io_start: false, merge: false, marks_pinned_pages: false, dirty: None };
        assert_eq!(request_probes(old).collect::<Vec<_>>(), [ISSUE, COMPLETE]);
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
