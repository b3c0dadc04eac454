//! Detects the tracing features that this machine allows, for `iolens doctor`.

use std::{fs, path::Path};

use super::{
    btf::{BTF_PATH, has_tracepoint},
    cpu_rings::RingSizes,
    error::TraceError,
    load::{self, Config, Features, Loaded},
    symbols::shows_direct_io,
};

/// Requirements of the tracer, and whether each is met.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Capabilities {
    /// `uname -r`; `None` if `/proc` does not show it.
    pub kernel_release: Option<String>,
    /// The process has CAP_BPF (or, on older kernels, CAP_SYS_ADMIN).
    pub cap_bpf: bool,
    /// The process has CAP_PERFMON (or CAP_SYS_ADMIN).
    pub cap_perfmon: bool,
    /// Whether the kernel's type information can be read.
    pub btf: bool,
    /// Each tracepoint that can be used, and whether the kernel has it; empty without type information.
    pub tracepoints: Vec<(&'static str, bool)>,
    /// Whether written-back pages can be attributed to the process that dirtied them: the kernel accepts the program
    /// for it.
    pub dirtiers: bool,
    /// Whether direct I/O can be attributed to its file: the kernel shows the addresses of iomap's functions for it.
    pub direct_io_files: bool,
    /// Parts missing from recordings because the kernel refuses their programs, one line each.
    pub limits: Vec<String>,
    /// Result of loading the programs (without attaching them), with the error in one line.
    pub load: Result<(), String>,
}

impl Capabilities {
    /// Whether everything needed to record request-based devices is available.
    pub fn can_trace(&self) -> bool {
        self.load.is_ok()
    }
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Whether a set of capabilities has this one, or CAP_SYS_ADMIN.
fn allows(effective: u64, capability: u32) -> bool {
    effective >> capability & 1 == 1 || effective >> CAP_SYS_ADMIN & 1 == 1
}

/// Determines the capabilities by loading the programs and dropping them.
pub fn capabilities() -> Capabilities {
    let effective = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| effective_capabilities(&s))
        .unwrap_or(0);
    let btf = fs::read(BTF_PATH).ok();
    let tracepoints = btf.as_deref().map_or_else(Vec::new, |btf| {
        load::IO_PROBES
            .iter()
            .map(|p| (p.tracepoint, has_tracepoint(btf, p.tracepoint)))
            .collect()
    });
    let loaded = try_to_load();
    Capabilities {
        kernel_release: fs::read_to_string("/proc/sys/kernel/osrelease")
            .ok()
            .map(|s| s.trim().to_owned()),
        cap_bpf: allows(effective, CAP_BPF),
        cap_perfmon: allows(effective, CAP_PERFMON),
        btf: btf.is_some(),
        tracepoints,
        dirtiers: loaded.as_ref().is_ok_and(|l| l.features.dirty.is_some()),
        direct_io_files: btf.as_deref().is_some_and(shows_direct_io),
        limits: loaded
            .as_ref()
            .map_or_else(|_| Vec::new(), |l| l.limits.clone()),
        load: loaded.map(drop).map_err(|e| e.to_string()),
    }
}

fn try_to_load() -> Result<Loaded, TraceError> {
    let features = Features::read()?;
    let cgroup_of_bio = load::io_controller_is_v2(Path::new("/proc/cgroups"));
    let config = Config {
        rings: RingSizes::of(4096, load::cpus()?),
        attribution: true,
        filtered: false,
        slots: 1 << 10,
        cgroup_of_bio,
        without_fetch: false,
    };
    load::load(config, features)
}

/// `CapEff` of `/proc/self/status`, a bit set.
fn effective_capabilities(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read_as_hexadecimal() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(
            effective_capabilities(status).map(|c| c >> CAP_BPF & 1),
            Some(1)
        );
        assert_eq!(effective_capabilities("Name:\tx\n"), None);
    }
}
