//! The numbers behind findings: a struct for each kind. Its fields are the keys of JSON documents and carry their units; what
//! could not be known is `None`, in JSON `null`. Sentences are made of them by whoever shows them.

mod bursts;
mod capacity;
mod contrast;
mod latency;
mod quality;
mod writers;

use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::analysis::bursts::cells::Actor;
use crate::analysis::findings::FindingKind;
use crate::analysis::findings::conclusions::PathOf;
use crate::analysis::latency::change;
use crate::model::{Class, Comm};

pub use bursts::{MicroburstEvidence, PeriodicityEvidence};
pub use capacity::{
    BandwidthSaturationEvidence, QueueFullEvidence, SaturationEvidence, UtilDisagreementEvidence,
};
pub use contrast::{
    Contrast, InterferenceEvidence, MeansSource, StarvationEvidence, StarvationOfMeansEvidence,
};
pub use latency::StallScope;
pub use latency::{
    LatencyChangeEvidence, LatencyModeEvidence, SlowIoEvidence, SlowMemberEvidence, StallEvidence,
};
pub use quality::{AveragedAveragesEvidence, IoErrorEvidence, LostEventsEvidence};
pub use writers::{
    CachedReadsEvidence, FsyncBoundEvidence, SmallSequentialEvidence, SyncSource,
    WrittenBackEvidence,
};

/// What a finding rests on. The variant says what was found; two have a second form where the source tells less.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Evidence {
    /// Of `microburst`.
    Microburst(Box<MicroburstEvidence>),
    /// Of `starvation`, from single I/Os.
    Starvation(Box<StarvationEvidence>),
    /// Of `starvation`, from means of intervals.
    StarvationOfMeans(StarvationOfMeansEvidence),
    /// Of `interference`.
    Interference(Box<InterferenceEvidence>),
    /// Of `stall`.
    Stall(StallEvidence),
    /// Of `latency-step` and `latency-trend`.
    LatencyChange(LatencyChangeEvidence),
    /// Of `latency-mode`.
    LatencyMode(LatencyModeEvidence),
    /// Of `slow-member`.
    SlowMember(SlowMemberEvidence),
    /// Of `bandwidth-saturation`.
    BandwidthSaturation(BandwidthSaturationEvidence),
    /// Of `queue-full`.
    QueueFull(QueueFullEvidence),
    /// Of `periodicity`.
    Periodicity(PeriodicityEvidence),
    /// Of `saturation`.
    Saturation(Box<SaturationEvidence>),
    /// Of `util-disagreement`.
    UtilDisagreement(UtilDisagreementEvidence),
    /// Of `fsync-bound`.
    FsyncBound(FsyncBoundEvidence),
    /// Of `small-sequential`.
    SmallSequential(SmallSequentialEvidence),
    /// Of `slow-io`.
    SlowIo(SlowIoEvidence),
    /// Of `io-error`.
    IoError(IoErrorEvidence),
    /// Of `page-cache`, where programs read more than devices.
    CachedReads(CachedReadsEvidence),
    /// Of `page-cache`, where the kernel writes for programs.
    WrittenBack(WrittenBackEvidence),
    /// Of `averaged-averages`.
    AveragedAverages(AveragedAveragesEvidence),
    /// Of `lost-events`.
    LostEvents(LostEventsEvidence),
}

impl Evidence {
    /// What was found.
    pub fn kind(&self) -> FindingKind {
        match self {
            Evidence::Microburst(_) => FindingKind::Microburst,
            Evidence::Starvation(_) | Evidence::StarvationOfMeans(_) => FindingKind::Starvation,
            Evidence::Interference(_) => FindingKind::Interference,
            Evidence::Stall(_) => FindingKind::Stall,
            Evidence::LatencyChange(e) => match e.form {
                change::Form::Step => FindingKind::LatencyStep,
                change::Form::Trend => FindingKind::LatencyTrend,
            },
            Evidence::LatencyMode(_) => FindingKind::LatencyMode,
            Evidence::SlowMember(_) => FindingKind::SlowMember,
            Evidence::BandwidthSaturation(_) => FindingKind::BandwidthSaturation,
            Evidence::QueueFull(_) => FindingKind::QueueFull,
            Evidence::Periodicity(_) => FindingKind::Periodicity,
            Evidence::Saturation(_) => FindingKind::Saturation,
            Evidence::UtilDisagreement(_) => FindingKind::UtilDisagreement,
            Evidence::FsyncBound(_) => FindingKind::FsyncBound,
            Evidence::SmallSequential(_) => FindingKind::SmallSequential,
            Evidence::SlowIo(_) => FindingKind::SlowIo,
            Evidence::IoError(_) => FindingKind::IoError,
            Evidence::CachedReads(_) | Evidence::WrittenBack(_) => FindingKind::PageCache,
            Evidence::AveragedAverages(_) => FindingKind::AveragedAverages,
            Evidence::LostEvents(_) => FindingKind::LostEvents,
        }
    }

    /// Its fields that say who it was, by key: documents hold their names instead.
    pub fn causes(&self) -> Vec<(&'static str, &Cause)> {
        let fields: &[(&'static str, &Option<Cause>)] = match self {
            Evidence::Microburst(e) => &[("cause", &e.cause)],
            Evidence::Starvation(e) => &[("cause", &e.cause)],
            Evidence::Interference(e) => &[
                ("cause", &e.cause),
                ("victim_process", &e.victim_process),
                ("aggressor_process", &e.aggressor_process),
            ],
            Evidence::Periodicity(e) => &[("cause", &e.cause)],
            Evidence::FsyncBound(e) => &[("cause", &e.cause)],
            Evidence::SmallSequential(e) => &[("cause", &e.cause)],
            _ => &[],
        };
        fields
            .iter()
            .filter_map(|(key, cause)| Some((*key, cause.as_ref()?)))
            .collect()
    }
}

/// Who it was, as far as the recording knows. Untrusted text inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The process, how far it can be trusted as the cause, and its file.
    pub actor: Actor,
    /// The I/Os it is the cause of: a kernel thread that reads is not what it is when it writes.
    pub class: Class,
    /// The file's path, if the recording knows it.
    pub path: Option<String>,
}

impl Cause {
    /// `actor` behind I/Os of `class`; `None` if nothing is known of it.
    pub(in crate::analysis) fn of(
        actor: Option<Actor>,
        class: Class,
        path_of: PathOf,
    ) -> Option<Cause> {
        let actor = actor.filter(Actor::is_known)?;
        Some(Cause {
            actor,
            class,
            path: actor.file.and_then(path_of),
        })
    }
}

impl Serialize for Cause {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Cause", 3)?;
        fields.serialize_field("process", &self.actor.comm.as_ref().map(Comm::to_text))?;
        fields.serialize_field("pid", &self.actor.tgid)?;
        fields.serialize_field("path", &self.path)?;
        fields.end()
    }
}
