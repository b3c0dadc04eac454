//! The analyses of one device that take its requests in the order of issue: stages, stalls, load at issue, full queue.

use crate::analysis::bursts::cells::CLASSES;
use crate::analysis::capacity::queue_full::FullSweep;
use crate::analysis::device::at_issue::{AtIssue, IssueSweep};
use crate::analysis::device::stages::Stages;
use crate::analysis::latency::change::{self, Change, LatencyContext};
use crate::analysis::latency::mode::{self, Mode};
use crate::analysis::latency::stalls::GapSweep;
use crate::analysis::stream::kept_slots::within_budget;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::requests::Requests;
use crate::analysis::stream::window::Window;

/// Requests kept in the samples of all devices together. Beyond that the largest samples are halved.
const MAX_REQUESTS: usize = 1 << 20;

/// The analyses of one device in the order of issue.
#[derive(Debug)]
pub(in crate::analysis) struct SweptByIssue {
    pub stages: Stages,
    pub gaps: GapSweep,
    met: IssueSweep,
    pub full: FullSweep,
}

impl SweptByIssue {
    pub fn new(window: Window) -> SweptByIssue {
        SweptByIssue {
            stages: Stages::new(window),
            gaps: GapSweep::default(),
            met: IssueSweep::new(window),
            full: FullSweep::new(window),
        }
    }

    /// Random samples of its reads and of its writes.
    pub fn samples(&self) -> &[Requests<AtIssue>; 2] {
        &self.met.samples
    }

    /// Keeps the samples of `all` devices together within `MAX_REQUESTS`, whatever the number of devices.
    pub fn bound(all: &mut [SweptByIssue]) {
        let mut samples: Vec<_> = all.iter_mut().flat_map(|s| &mut s.met.samples).collect();
        within_budget(
            &mut samples,
            MAX_REQUESTS,
            |s| s.kept().len(),
            |s| s.halve(),
        );
    }

    /// Changes of the device times of reads and of writes, and their second modes.
    pub fn latencies(&self, around: &LatencyContext) -> (Vec<Change>, Vec<Mode>) {
        let samples = &self.met.samples;
        let changes = CLASSES
            .into_iter()
            .filter_map(|class| change::find(samples, class, around));
        let modes = CLASSES
            .into_iter()
            .filter_map(|class| mode::find(samples, class, around));
        (changes.collect(), modes.collect())
    }
}

impl Sweep for SweptByIssue {
    fn start(&mut self, span: &Span) {
        self.stages.start(span);
        self.gaps.start(span);
        self.met.start(span);
        self.full.start(span);
    }

    fn done(&mut self, end: &End) {
        self.stages.done(end);
        self.gaps.done(end);
        self.met.done(end);
        self.full.done(end);
    }

    fn instant(&mut self, span: &Span) {
        self.stages.start(span);
        self.stages.done(&End::of(span));
        self.gaps.instant(span);
        self.met.instant(span);
        self.full.instant(span);
    }
}
