//! `iolens doctor`: available features, and how to enable the others.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use iolens_core::model::{Device, DeviceKind};
use iolens_observe::counters::{DiskstatsReader, Root};
use iolens_observe::topology::{Host, Topology};
use iolens_observe::trace::{Capabilities, capabilities};

use crate::cli::DoctorPlan;
use crate::present::doctor_text::{self, Check};

/// Runs the command; exit code 1 if every I/O cannot be recorded here.
///
/// # Errors
/// stdout is gone.
pub fn run(plan: &DoctorPlan) -> Result<u8> {
    let tracing = capabilities();
    let mut checks = vec![
        kernel(&tracing),
        btf(&tracing),
        privileges(&tracing),
        tracepoints(&tracing),
        programs(&tracing),
    ];
    if tracing.can_trace() {
        checks.extend([dirtiers(&tracing), direct_io(&tracing)]);
    }
    checks.extend([
        counters(),
        devices(),
        helper("fio", "experiments with a known load"),
        room(),
    ]);
    let text = if plan.json {
        doctor_text::json(&checks)
    } else {
        crate::streams::layout().sentences(&doctor_text::text(&checks))
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(u8::from(!tracing.can_trace()))
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

fn privileges(t: &Capabilities) -> Check {
    let have = |yes: bool| if yes { "yes" } else { "no" };
    let what = format!(
        "CAP_BPF {}, CAP_PERFMON {}",
        have(t.cap_bpf),
        have(t.cap_perfmon)
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

fn counters() -> Check {
    match DiskstatsReader::open(&Root::live()) {
        Ok(r) => Check::good(
            "counters",
            format!(
                "/proc/diskstats has {} devices and partitions",
                r.rows().len()
            ),
        ),
        Err(e) => Check::bad(
            "counters",
            &format!("/proc/diskstats: {e}"),
            "mount proc on /proc",
        ),
    }
}

fn devices() -> Check {
    match Topology::read(Path::new("/")) {
        Ok(topology) => in_use(topology.devices()),
        Err(e) => Check::bad(
            "devices",
            &format!("/sys/block: {e}"),
            "mount sysfs on /sys",
        ),
    }
}

/// The devices that can hold data, and of which the kernel keeps no counters.
fn in_use(devices: &[Device]) -> Check {
    let mut names = Vec::new();
    let mut switched_off = Vec::new();
    // A driver that takes no requests (brd, the head of NVMe multipath) counts its I/Os itself or not at all: there the switch
    // in sysfs changes nothing.
    let mut never_counted = Vec::new();
    for device in devices {
        if device.size_bytes.unwrap_or(0) == 0 {
            continue;
        }
        let name = device.name.as_str();
        names.push(name);
        match (device.iostats, device.kind) {
            (Some(false), DeviceKind::Bio) => never_counted.push(name),
            (Some(false), _) => switched_off.push(name),
            _ => {}
        }
    }
    let mut found = names.join(", ");
    if !never_counted.is_empty() {
        let names = never_counted.join(", ");
        found += &format!("; the drivers of {names} keep no counters");
    }
    if switched_off.is_empty() {
        return Check::good("devices", found);
    }
    let names = switched_off.join(", ");
    found += &format!("; the kernel keeps no counters for {names}");
    Check::bad(
        "devices",
        &found,
        "echo 1 > /sys/block/NAME/queue/iostats (events are recorded all the same)",
    )
}

fn helper(program: &'static str, what_for: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
    {
        Some(found) => Check::good(program, found.display().to_string()),
        None => Check::note(
            program,
            format!("not installed; it is only needed for {what_for}"),
        ),
    }
}

fn room() -> Check {
    match rustix::fs::statvfs(".") {
        Ok(fs) => {
            let free = fs.f_bavail.saturating_mul(fs.f_frsize);
            Check::room("free disk space (cwd)", free)
        }
        Err(e) => Check::bad(
            "free disk space (cwd)",
            &e.to_string(),
            "change to a directory that can be written",
        ),
    }
}

#[cfg(test)]
mod tests {
    use iolens_core::model::DevId;

    use super::*;
    use crate::present::doctor_text::Verdict;

    fn device(name: &str, minor: u32, kind: DeviceKind, iostats: bool) -> Device {
        let mut device = Device::named(name.to_owned(), DevId::new(8, minor));
        device.kind = kind;
        device.size_bytes = Some(1 << 20);
        device.iostats = Some(iostats);
        device
    }

    #[test]
    fn a_driver_that_counts_nothing_is_no_problem() {
        let devices = [
            device("ram0", 0, DeviceKind::Bio, false),
            device("sda", 1, DeviceKind::Request, true),
        ];
        let check = in_use(&devices);
        assert_eq!((check.verdict, check.advice), (Verdict::Ok, None));
        assert_eq!(
            check.found,
            "ram0, sda; the drivers of ram0 keep no counters"
        );
    }

    #[test]
    fn counters_that_are_switched_off_are_a_problem_with_a_remedy() {
        let devices = [
            device("nvme0n1", 0, DeviceKind::Bio, false),
            device("sda", 1, DeviceKind::Request, false),
        ];
        let check = in_use(&devices);
        assert_eq!(check.verdict, Verdict::Problem);
        assert!(check.found.ends_with("no counters for sda"), "{check:?}");
    }
}
