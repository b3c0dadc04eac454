//! Errors of the tracer, with their remedies.

use std::io;

/// The tracer could not start or continue. Prints as one line: what is missing, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel does not provide its type information.
    #[error(
        "cannot read the kernel's type information /sys/kernel/btf/vmlinux ({0}); a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y is needed, and /sys must be mounted"
    )]
    NoBtf(String),
    /// The process may not load BPF programs.
    #[error(
        "not allowed to {what} ({why}); run as root, or with the capabilities CAP_BPF and CAP_PERFMON"
    )]
    NoPrivilege {
        /// Operation that failed.
        what: String,
        /// Error of the system call.
        why: io::Error,
    },
    /// A required tracepoint does not exist.
    #[error(
        "the kernel has no tracepoint {0}; Linux 5.8 or newer with CONFIG_BLOCK and CONFIG_TRACEPOINTS is needed"
    )]
    NoTracepoint(&'static str),
    /// A feature of a later kernel is missing.
    #[error("this kernel cannot {what}; Linux {since} or newer is needed")]
    TooOld {
        /// What it cannot do.
        what: &'static str,
        /// First release that has the feature.
        since: &'static str,
    },
    /// The kernel refused a program or a map.
    #[error(
        "the kernel refused to {what}: {why}; please report it together with the output of `iolens doctor`"
    )]
    Refused {
        /// Operation that failed.
        what: String,
        /// The kernel's answer, including the last lines of its verifier.
        why: String,
    },
    /// The ring size is not a power of two of whole pages.
    #[error("a ring of {0} bytes is not possible; give a power of two from 4096 to 1 GiB")]
    RingSize(u32),
    /// The control group of a filter is not usable.
    #[error("{}: {why}; give a directory below the mount point of cgroup v2, e.g. /sys/fs/cgroup/system.slice", path.display())]
    NoCgroup {
        /// Path that was given.
        path: std::path::PathBuf,
        /// Reason.
        why: String,
    },
    /// The process of a filter is not usable.
    #[error("process {pid}: {why}; give one that runs (ps -e)")]
    NoProcess {
        /// Process id that was given.
        pid: i32,
        /// Reason.
        why: String,
    },
    /// The set of traced devices in which this device belongs is full.
    #[error(
        "no room for device {0} in the list of traced devices; trace fewer, or all of them (no -d)"
    )]
    TooManyDevices(iolens_core::model::DevId),
    /// A device filter was requested, but the tracer was started without one.
    #[error(
        "the tracer was started for all devices; start it with a list of devices to change that list"
    )]
    NotFiltered,
}

impl TraceError {
    /// Whether the kernel is the reason, rather than privileges or options. Other sources are still available then.
    pub fn is_of_kernel(&self) -> bool {
        use TraceError as E;
        matches!(
            self,
            E::NoBtf(_) | E::NoTracepoint(_) | E::TooOld { .. } | E::Refused { .. }
        )
    }
}

/// First words of the lines that follow the error in a verifier log.
const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];

fn is_statistic(line: &str) -> bool {
    STATISTICS.iter().any(|s| line.starts_with(s))
}

/// The error with all its causes in one line, without control characters and without the body of verifier logs.
pub(super) fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(e) = next {
        let text = e.to_string();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        let line = match lines.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            // A verifier log: the error is the last line before the statistics.
            [first, rest @ ..] => {
                let complaint = rest.iter().rev().find(|l| !is_statistic(l));
                format!("{first} ... {}", complaint.unwrap_or(first))
            }
        };
        let clean: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
        if !parts.iter().any(|p| p.contains(&clean)) {
            parts.push(clean);
        }
        next = e.source();
    }
    parts.join(": ")
}

/// The operating system's answer within an error of the loader, if there is one.
pub(super) fn io_error_of(error: &(dyn std::error::Error + 'static)) -> Option<io::Error> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(code) = e
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(io::Error::from_raw_os_error(code));
        }
        next = e.source();
    }
    None
}

/// Creates the error for a failure to `what`.
pub(super) fn refused(
    what: impl Into<String>,
    error: &(dyn std::error::Error + 'static),
) -> TraceError {
    match io_error_of(error) {
        Some(source)
            if source.kind() == io::ErrorKind::PermissionDenied
                && source.raw_os_error() == Some(libc::EPERM) =>
        {
            TraceError::NoPrivilege {
                what: what.into(),
                why: source,
            }
        }
        _ => TraceError::Refused {
            what: what.into(),
            why: one_line(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("load failed")]
    struct Outer(#[source] io::Error);

    #[test]
    fn missing_privileges_are_explained() {
        let text = refused(
            "load the program io_start",
            &Outer(io::Error::from_raw_os_error(libc::EPERM)),
        )
        .to_string();
        assert!(
            text.contains("CAP_BPF") && text.contains("io_start") && !text.contains('\n'),
            "{text}"
        );
        assert!(
            !TraceError::NotFiltered.is_of_kernel() && TraceError::NoTracepoint("x").is_of_kernel()
        );
    }

    #[test]
    fn other_refusals_keep_their_causes_in_one_line() {
        let text = refused(
            "load it",
            &Outer(io::Error::other(
                "first\nR1 invalid access\nprocessed 5 insns\nverification time 9 usec\nstack depth 8\n",
            )),
        )
        .to_string();
        assert!(
            text.contains("load failed: first ... R1 invalid access;"),
            "{text}"
        );
    }
}
