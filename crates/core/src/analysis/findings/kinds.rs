//! The table of finding kinds, the only place that lists them. A new kind is added here; `docs/architecture.md`
//! describes the rest.

use serde::Serialize;

use crate::analysis::findings::evidence::{
    AveragedAveragesEvidence, BandwidthSaturationEvidence, CachedReadsEvidence, Cause,
    FsyncBoundEvidence, IoErrorEvidence, LatencyChangeEvidence, LatencyModeEvidence,
    LostEventsEvidence, MicroburstEvidence, PeriodicityEvidence, QueueFullEvidence,
    SaturationEvidence, SlowIoEvidence, SlowMemberEvidence, SmallSequentialEvidence, StallEvidence,
    UtilDisagreementEvidence, WrittenBackEvidence,
};
use crate::model::KindName;

/// Generates [`FindingKind`] and [`Evidence`] from the table. An entry is
///
/// ```text
/// /// What was found.
/// Kind = "its-name", rank N {
///     /// Of `its-name`.
///     Form(StructOfItsEvidence) names [fields that say who it was],
/// }
/// ```
///
/// The name appears in JSON and on screens. The rank orders findings of the same severity, lowest first. A kind has
/// several forms if some sources provide less than others.
macro_rules! finding_kinds {
    ($dollar:tt $(
        $(#[$kind_doc:meta])*
        $kind:ident = $name:literal, rank $rank:literal {
            $(
                $(#[$form_doc:meta])*
                $form:ident($evidence:ty) $(names [$($cause:ident),+])?,
            )+
        }
    )+) => {
        /// Kind of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum FindingKind {
            $($(#[$kind_doc])* $kind,)+
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &[FindingKind] = &[$(FindingKind::$kind),+];

            /// Order among findings of the same severity.
            pub(super) fn rank(self) -> u8 {
                match self {
                    $(FindingKind::$kind => $rank,)+
                }
            }

            /// Its name in JSON and on screens.
            pub fn name(self) -> &'static str {
                match self {
                    $(FindingKind::$kind => $name,)+
                }
            }

            /// The kind with this name; `None` for a kind that this version does not know.
            pub fn from_name(name: &str) -> Option<FindingKind> {
                FindingKind::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }

        impl From<FindingKind> for KindName {
            fn from(kind: FindingKind) -> KindName {
                kind.name().into()
            }
        }

        /// The numbers behind a finding. The variant determines the kind; some kinds have a second form for sources
        /// that provide less.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(untagged)]
        pub enum Evidence {
            $($($(#[$form_doc])* $form($evidence),)+)+
        }

        impl Evidence {
            /// Kind of the finding.
            pub fn kind(&self) -> FindingKind {
                match self {
                    $($(Evidence::$form(_) => FindingKind::$kind,)+)+
                }
            }

            /// Its fields that name a process, by key. Documents hold the names instead.
            pub fn causes(&self) -> Vec<(&'static str, &Cause)> {
                // A form without such fields does not use its evidence.
                #[allow(unused_variables)]
                let fields: Vec<(&'static str, &Option<Cause>)> = match self {
                    $($(Evidence::$form(e) => vec![$($((stringify!($cause), &e.$cause)),+)?],)+)+
                };
                fields
                    .into_iter()
                    .filter_map(|(key, cause)| Some((key, cause.as_ref()?)))
                    .collect()
            }
        }

        /// Evaluates an expression with the evidence of any kind: `with_evidence!(finding.evidence, e => e.sentence())`.
        #[macro_export]
        macro_rules! with_evidence {
            ($dollar evidence:expr, $dollar e:ident => $dollar then:expr) => {
                match &$dollar evidence {
                    $($($crate::analysis::findings::Evidence::$form($dollar e) => $dollar then,)+)+
                }
            };
        }
    };
}

finding_kinds! { $
    /// A burst that coarse sampling hides (A13).
    Microburst = "microburst", rank 10 {
        /// Evidence of `microburst`.
        Microburst(Box<MicroburstEvidence>) names [cause],
    }
    /// Requests are in flight and none completes.
    Stall = "stall", rank 1 {
        /// Evidence of `stall`.
        Stall(StallEvidence),
    }
    /// Device time at equal load changes at once, up or down.
    LatencyStep = "latency-step", rank 4 {
        /// Evidence of `latency-step`.
        LatencyStep(LatencyChangeEvidence),
    }
    /// Device time at equal load rises or falls gradually.
    LatencyTrend = "latency-trend", rank 5 {
        /// Evidence of `latency-trend`.
        LatencyTrend(LatencyChangeEvidence),
    }
    /// Some requests take far longer than similar ones, but less than a second.
    LatencyMode = "latency-mode", rank 6 {
        /// Evidence of `latency-mode`.
        LatencyMode(LatencyModeEvidence),
    }
    /// One member of an array takes longer than each of the others.
    SlowMember = "slow-member", rank 5 {
        /// Evidence of `slow-member`.
        SlowMember(SlowMemberEvidence),
    }
    /// Throughput is at the limit of the device: more demand only adds waiting.
    BandwidthSaturation = "bandwidth-saturation", rank 8 {
        /// Evidence of `bandwidth-saturation`.
        BandwidthSaturation(BandwidthSaturationEvidence),
    }
    /// A device accepts no more requests, and others wait in the kernel.
    QueueFull = "queue-full", rank 9 {
        /// Evidence of `queue-full`.
        QueueFull(QueueFullEvidence),
    }
    /// Periodic load (A15).
    Periodicity = "periodicity", rank 11 {
        /// Evidence of `periodicity`.
        Periodicity(PeriodicityEvidence) names [cause],
    }
    /// A device at its capacity (A18).
    Saturation = "saturation", rank 7 {
        /// Evidence of `saturation`.
        Saturation(Box<SaturationEvidence>),
    }
    /// The kernel's %util and the exact busy time differ (A2).
    UtilDisagreement = "util-disagreement", rank 13 {
        /// Evidence of `util-disagreement`.
        UtilDisagreement(UtilDisagreementEvidence),
    }
    /// A writer that waits for its syncs most of the time.
    FsyncBound = "fsync-bound", rank 7 {
        /// Evidence of `fsync-bound`.
        FsyncBound(FsyncBoundEvidence) names [cause],
    }
    /// A sequential stream cut into small requests.
    SmallSequential = "small-sequential", rank 12 {
        /// Evidence of `small-sequential`.
        SmallSequential(SmallSequentialEvidence) names [cause],
    }
    /// Single I/Os that took very long.
    SlowIo = "slow-io", rank 2 {
        /// Evidence of `slow-io`.
        SlowIo(SlowIoEvidence),
    }
    /// I/Os that the device failed.
    IoError = "io-error", rank 0 {
        /// Evidence of `io-error`.
        IoError(IoErrorEvidence),
    }
    /// The page cache serves I/O instead of the device (A16).
    PageCache = "page-cache", rank 12 {
        /// Evidence of `page-cache`: programs read more than devices returned.
        CachedReads(CachedReadsEvidence),
        /// Evidence of `page-cache`: the kernel writes for programs.
        WrittenBack(WrittenBackEvidence),
    }
    /// Imported means were checked against finer rows (A25).
    AveragedAverages = "averaged-averages", rank 14 {
        /// Evidence of `averaged-averages`.
        AveragedAverages(AveragedAveragesEvidence),
    }
    /// I/Os are lost from the recording.
    LostEvents = "lost-events", rank 15 {
        /// Evidence of `lost-events`.
        LostEvents(LostEventsEvidence),
    }
}

impl FindingKind {
    /// Whether findings of this kind are facts: see [`super::Finding::is_fact`].
    pub fn is_fact(self) -> bool {
        !matches!(
            self,
            FindingKind::Stall
                | FindingKind::LatencyStep
                | FindingKind::LatencyTrend
                | FindingKind::LatencyMode
                | FindingKind::SlowMember
                | FindingKind::UtilDisagreement
                | FindingKind::SlowIo
                | FindingKind::IoError
                | FindingKind::LostEvents
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person can know nine kinds; what is further found is a fact or belongs into a story.
    const MOST_FINDINGS: usize = 9;

    #[test]
    fn at_most_nine_kinds_are_findings_and_the_page_about_them_lists_each() {
        let page = include_str!("../../../../../docs/findings.md");
        let (findings, facts) = page
            .split_once("\n## Facts")
            .expect("the page has both parts");
        let mut listed = 0;
        for kind in FindingKind::ALL {
            let name = format!("`{}`", kind.name());
            let part = if kind.is_fact() { facts } else { findings };
            assert!(part.contains(&name), "{name} is missing");
            listed += usize::from(!kind.is_fact());
        }
        assert!(listed <= MOST_FINDINGS, "{listed} kinds of findings");
    }
}
