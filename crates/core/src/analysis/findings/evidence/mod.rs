//! The numbers behind findings: one struct per kind. Its fields are the keys of JSON documents and carry their units. A value
//! that could not be determined is `None`, in JSON `null`. Sentences are made from these numbers where they are shown.

mod bursts;
mod capacity;
mod latency;
mod quality;
mod writers;

use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::analysis::bursts::cells::IoActor;
pub use crate::analysis::findings::kinds::Evidence;
use crate::model::{Class, Comm, PathOf};

pub use bursts::{MicroburstEvidence, PeriodicityEvidence};
pub use capacity::{
    BandwidthSaturationEvidence, QueueFullEvidence, SaturationEvidence, UtilDisagreementEvidence,
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

/// The process and file behind a finding, as far as the recording knows them. Contains untrusted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The process, how far it can be trusted as the cause, and its file.
    pub actor: IoActor,
    /// Class of the I/Os that it caused: a kernel thread that reads has another role than when it writes.
    pub class: Class,
    /// The file's path, if the recording knows it.
    pub path: Option<String>,
}

impl Cause {
    /// `actor` behind I/Os of `class`; `None` if nothing is known of it.
    pub(in crate::analysis) fn of(
        actor: Option<IoActor>,
        class: Class,
        path_of: PathOf,
    ) -> Option<Cause> {
        let actor = actor.filter(IoActor::is_known)?;
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
