//! Which tracing features the kernel and the privileges allow.

use std::path::Path;

use iolens_observe::topology::Host;
use iolens_observe::trace::Capabilities;

use crate::present::doctor_text::Check;

/// The checks, from what everything needs to what only adds names to some I/Os.
pub fn checks(t: &Capabilities) -> Vec<Check> {
    let mut checks = vec![
        kernel(t),
        btf(t),
        privileges(t),
        tracepoints(t),
        programs(t),
    ];
    if t.can_trace() {
        checks.push(dirtiers(t));
        checks.push(direct_io(t));
    }
    checks
}

fn kernel(t: &Capabilities) -> Check {
    let hz = Host::read(Path::new("/"))
        .hz
        .map_or("CONFIG_HZ unknown".to_owned(), |hz| {
            format!("CONFIG_HZ={hz}")
        });
    match &t.kernel_release {
        Some(release) => Check::good("kernel", format!("{release}, {hz}")),
        None => Check::bad(
            "kernel",
            "its release cannot be read",
            "mount proc on /proc",
        ),
    }
}

fn btf(t: &Capabilities) -> Check {
    if t.btf {
        Check::good("kernel BTF", "/sys/kernel/btf/vmlinux".to_owned())
    } else {
        Check::bad(
            "kernel BTF",
            "/sys/kernel/btf/vmlinux cannot be read",
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
        )
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn privileges(t: &Capabilities) -> Check {
    let what = format!(
        "CAP_BPF {}, CAP_PERFMON {}",
        yes_or_no(t.cap_bpf),
        yes_or_no(t.cap_perfmon)
    );
    if t.cap_bpf && t.cap_perfmon {
        Check::good("privileges", what)
    } else {
        Check::bad(
            "privileges",
            &what,
            "run as root, or: setcap cap_bpf,cap_perfmon+ep on the program",
        )
    }
}

fn tracepoints(t: &Capabilities) -> Check {
    let missing: Vec<&str> = t
        .tracepoints
        .iter()
        .filter(|(_, there)| !there)
        .map(|(name, _)| *name)
        .collect();
    if t.tracepoints.is_empty() {
        Check::bad("tracepoints", "unknown without kernel BTF", "see above")
    } else if missing.is_empty() {
        Check::good("tracepoints", "all that are used are there".to_owned())
    } else if missing == ["block_io_start"] {
        Check::good(
            "tracepoints",
            "block_io_start is missing (before Linux 6.5): starts are taken from the request"
                .to_owned(),
        )
    } else {
        Check::bad(
            "tracepoints",
            &format!("missing: {}", missing.join(", ")),
            "record with --source counters",
        )
    }
}

fn dirtiers(t: &Capabilities) -> Check {
    let what = if t.dirtiers {
        "buffered writes are attributed to the writing process"
    } else {
        "no tracepoint shows the process that dirties a page (writeback_dirty_folio): writeback has a file but no \
         process"
    };
    Check::good("buffered writes", what.to_owned())
}

fn direct_io(t: &Capabilities) -> Check {
    let what = if t.direct_io_files {
        "its file is known on ext4, xfs and (since Linux 5.18) f2fs, not on btrfs nor below dm and md"
    } else {
        "its file is not known: /proc/kallsyms shows no addresses of the functions that end it (iomap_dio_bio_end_io; kernel.kptr_restrict, CAP_SYSLOG)"
    };
    Check::good("direct I/O", what.to_owned())
}

fn programs(t: &Capabilities) -> Check {
    match &t.load {
        Ok(()) if t.limits.is_empty() => {
            Check::good("BPF programs", "load and attach OK".to_owned())
        }
        Ok(()) => Check::bad(
            "BPF programs",
            &t.limits.join("; "),
            "please report it; everything else is recorded",
        ),
        Err(why) => Check::bad(
            "BPF programs",
            why,
            "until then `record` takes counters every 10 ms",
        ),
    }
}
