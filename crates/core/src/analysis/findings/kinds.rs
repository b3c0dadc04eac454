//! The table of kinds: the only place that lists them. A new kind is added here; `docs/architecture.md` has the rest.

use serde::Serialize;

use crate::analysis::findings::evidence::{
    AveragedAveragesEvidence, BandwidthSaturationEvidence, CachedReadsEvidence, Cause,
    FsyncBoundEvidence, IoErrorEvidence, LatencyChangeEvidence, LatencyModeEvidence,
    LostEventsEvidence, MicroburstEvidence, PeriodicityEvidence, QueueFullEvidence,
    SaturationEvidence, SlowIoEvidence, SlowMemberEvidence, SmallSequentialEvidence, StallEvidence,
    UtilDisagreementEvidence, WrittenBackEvidence,
};
use crate::model::KindName;

/// Makes [`FindingKind`] and [`Evidence`] of the table. An entry is
///
/// ```text
/// /// What was found.
/// Kind = "its-name", rank N {
///     /// Of `its-name`.
///     Form(StructOfItsEvidence) names [fields that say who it was],
/// }
/// ```
///
/// The name stands in JSON and on screens, and the rank is the place among findings of one severity, the first the lowest. A
/// kind has several forms where some sources tell less than others.
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
        /// What was found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum FindingKind {
            $($(#[$kind_doc])* $kind,)+
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[FindingKind] = &[$(FindingKind::$kind),+];

            /// The order in which equals are listed.
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

            /// The one of this name; `None` of a kind that this version does not know.
            pub fn from_name(name: &str) -> Option<FindingKind> {
                FindingKind::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }

        impl From<FindingKind> for KindName {
            fn from(kind: FindingKind) -> KindName {
                kind.name().into()
            }
        }

        /// What a finding rests on. The variant says what was found; some kinds have a second form where the source says less.
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

            /// Its fields that say who it was, by key: documents hold their names instead.
            pub fn causes(&self) -> Vec<(&'static str, &Cause)> {
                // A form without such fields has no use for its evidence.
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

        /// Does the same with the evidence of any kind: `with_evidence!(finding.evidence, e => e.sentence())`.
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
        /// Of `microburst`.
        Microburst(Box<MicroburstEvidence>) names [cause],
    }
    /// Requests are in flight and none completes.
    Stall = "stall", rank 1 {
        /// Of `stall`.
        Stall(StallEvidence),
    }
    /// From some moment on a device takes longer, or less long, for the same load.
    LatencyStep = "latency-step", rank 4 {
        /// Of `latency-step`.
        LatencyStep(LatencyChangeEvidence),
    }
    /// A device takes longer and longer, or less and less long, for the same load.
    LatencyTrend = "latency-trend", rank 5 {
        /// Of `latency-trend`.
        LatencyTrend(LatencyChangeEvidence),
    }
    /// Some requests take far longer than others that are alike, but less than a second.
    LatencyMode = "latency-mode", rank 6 {
        /// Of `latency-mode`.
        LatencyMode(LatencyModeEvidence),
    }
    /// One member of an array takes longer than each of the others.
    SlowMember = "slow-member", rank 5 {
        /// Of `slow-member`.
        SlowMember(SlowMemberEvidence),
    }
    /// A device moves bytes as fast as it can, and more demand only waits.
    BandwidthSaturation = "bandwidth-saturation", rank 8 {
        /// Of `bandwidth-saturation`.
        BandwidthSaturation(BandwidthSaturationEvidence),
    }
    /// A device takes no more requests at once, and others wait in the kernel.
    QueueFull = "queue-full", rank 9 {
        /// Of `queue-full`.
        QueueFull(QueueFullEvidence),
    }
    /// Bursts that come back (A15).
    Periodicity = "periodicity", rank 11 {
        /// Of `periodicity`.
        Periodicity(PeriodicityEvidence) names [cause],
    }
    /// A device at its capacity (A18).
    Saturation = "saturation", rank 7 {
        /// Of `saturation`.
        Saturation(Box<SaturationEvidence>),
    }
    /// The kernel's %util and the truth differ (A2).
    UtilDisagreement = "util-disagreement", rank 13 {
        /// Of `util-disagreement`.
        UtilDisagreement(UtilDisagreementEvidence),
    }
    /// A writer that waits for its syncs most of the time.
    FsyncBound = "fsync-bound", rank 7 {
        /// Of `fsync-bound`.
        FsyncBound(FsyncBoundEvidence) names [cause],
    }
    /// A sequential stream cut into small requests.
    SmallSequential = "small-sequential", rank 12 {
        /// Of `small-sequential`.
        SmallSequential(SmallSequentialEvidence) names [cause],
    }
    /// Single I/Os that took very long.
    SlowIo = "slow-io", rank 2 {
        /// Of `slow-io`.
        SlowIo(SlowIoEvidence),
    }
    /// I/Os that the device failed.
    IoError = "io-error", rank 0 {
        /// Of `io-error`.
        IoError(IoErrorEvidence),
    }
    /// The page cache answers for the device (A16).
    PageCache = "page-cache", rank 12 {
        /// Of `page-cache`, where programs read more than devices.
        CachedReads(CachedReadsEvidence),
        /// Of `page-cache`, where the kernel writes for programs.
        WrittenBack(WrittenBackEvidence),
    }
    /// Imported means were checked against finer rows (A25).
    AveragedAverages = "averaged-averages", rank 14 {
        /// Of `averaged-averages`.
        AveragedAverages(AveragedAveragesEvidence),
    }
    /// I/Os are missing from the recording.
    LostEvents = "lost-events", rank 15 {
        /// Of `lost-events`.
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
