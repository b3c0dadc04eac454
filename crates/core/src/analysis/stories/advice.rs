//! What to try, where the evidence carries it.

use super::StoryKind;

/// A setting or a way of running a program. The current value of a setting is known if the recording holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// `vm.dirty_background_bytes` small, so that write-back begins early and in small amounts.
    DirtyBackgroundBytes,
    /// Let the program write with `sync_file_range` or `O_DIRECT` in small steps instead of one sync at the end.
    SyncInSteps,
    /// A limit (`io.max`) for the control group of the culprit.
    LimitCgroup,
    /// Run the culprit under `iolens throttle`.
    Throttle,
    /// One sync for several writes (group commit).
    GroupSyncs,
    /// `fstrim` at a quiet time instead of the mount option `discard`.
    TrimApart,
    /// More memory, or less memory for the program that fills it.
    Memory,
    /// A higher memory limit for the control group, or less memory in use in it.
    RaiseMemoryLimit,
    /// Fewer I/Os in flight.
    LowerDepth,
    /// A larger volume, or fewer I/Os.
    RaiseLimit,
    /// Look at `io.max` and at the scheduler of the device.
    LookAtLimits,
    /// Look at the device: SMART, firmware, the hypervisor.
    LookAtDevice,
    /// Look at the stories of the device above, whose I/O a kernel thread submits: they name the program.
    LookAbove,
}

/// What is known of a culprit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CulpritFacts {
    /// Its write-back was requested by syncs.
    pub is_sync: bool,
    /// It is the victim.
    pub is_own: bool,
    /// It is not in the victim's control group.
    pub is_apart: bool,
    /// It is a kernel thread, so it cannot be run under `iolens throttle`.
    pub is_kernel_thread: bool,
    /// It submits I/O on behalf of programs that use a device stacked on this one.
    pub is_for_device_above: bool,
}

impl Advice {
    /// The advice for a culprit whose I/O is of `kind`.
    pub(super) fn of(kind: StoryKind, culprit: CulpritFacts) -> Vec<Advice> {
        if culprit.is_for_device_above {
            return vec![Advice::LookAbove];
        }
        let mut all = Advice::of_kind(kind, culprit);
        // A limit on a control group that the victim shares would throttle the victim, too.
        if !culprit.is_apart {
            all.retain(|a| *a != Advice::LimitCgroup);
        }
        if culprit.is_kernel_thread {
            all.retain(|a| *a != Advice::Throttle);
        }
        all
    }

    fn of_kind(kind: StoryKind, culprit: CulpritFacts) -> Vec<Advice> {
        match kind {
            StoryKind::WritebackFlush if culprit.is_sync => {
                vec![Advice::SyncInSteps, Advice::DirtyBackgroundBytes]
            }
            StoryKind::WritebackFlush => vec![Advice::DirtyBackgroundBytes, Advice::LimitCgroup],
            StoryKind::Journal | StoryKind::FsyncStorm | StoryKind::SmallWrites => {
                vec![Advice::GroupSyncs]
            }
            StoryKind::SequentialScan
            | StoryKind::BulkWrites
            | StoryKind::Compaction
            | StoryKind::RandomReads
            | StoryKind::Metadata
                if !culprit.is_own =>
            {
                vec![Advice::LimitCgroup, Advice::Throttle]
            }
            StoryKind::Discard => vec![Advice::TrimApart],
            StoryKind::Swap => vec![Advice::Memory],
            StoryKind::CacheMisses => vec![Advice::RaiseMemoryLimit],
            StoryKind::OwnQueue => vec![Advice::LowerDepth],
            StoryKind::RateLimit => vec![Advice::RaiseLimit],
            StoryKind::Held => vec![Advice::LookAtLimits],
            StoryKind::DevicePause | StoryKind::SlowIo => vec![Advice::LookAtDevice],
            _ => Vec::new(),
        }
    }
}
