//! `iolens doctor`: which features are available, and how to enable the others.

mod tracing;

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use iolens_core::model::{Device, DeviceKind};
use iolens_observe::counters::{DiskstatsReader, Root};
use iolens_observe::topology::Topology;
use iolens_observe::trace::capabilities;

use crate::cli::DoctorPlan;
use crate::present::doctor_text::{self, Check};

/// Runs the command. The exit code is 1 if recording every I/O is not possible here.
///
/// # Errors
/// stdout is closed.
pub fn run(plan: &DoctorPlan) -> Result<u8> {
    let allowed = capabilities();
    let mut checks = tracing::checks(&allowed);
    checks.extend([
        counters(),
        devices(),
        helper("fio", "experiments with a known load"),
        room(),
    ]);
    let text = if plan.json {
        doctor_text::json(&checks)?
    } else {
        crate::streams::layout().sentences(&doctor_text::text(&checks))
    };
    crate::streams::stdout().write_all(text.as_bytes())?;
    Ok(u8::from(!allowed.can_trace()))
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

/// The devices that can hold data but for which the kernel keeps no counters.
fn in_use(devices: &[Device]) -> Check {
    let mut names = Vec::new();
    let mut switched_off = Vec::new();
    // A driver that takes bios instead of requests (brd, the head of NVMe multipath) counts its I/Os itself or not at
    // all. For these, `queue/iostats` in sysfs has no effect.
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
    use crate::present::doctor_text::CheckOutcome;

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
        assert_eq!((check.verdict, check.advice), (CheckOutcome::Ok, None));
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
        assert_eq!(check.verdict, CheckOutcome::Problem);
        assert!(check.found.ends_with("no counters for sda"), "{check:?}");
    }
}
