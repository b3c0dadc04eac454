//! Everything that a report says, in one pass.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::bursts::{Limit, LimitSource};
use super::conclusions::{PathOf, conclude};
use super::counted::Counted;
use super::detail::{Around, DeviceDetail, Gathered, burst_slot_ns};
use super::device_set::SetSummary;
use super::device_summary::{DeviceSummary, DevicesSummary};
use super::findings::{self, Finding};
use super::io_ticks::Regime;
use super::latencies::Latencies;
use super::links::{self, Link, LinkDetail};
use super::losses::Losses;
use super::parts::{Completions, Issues, Part, Starts};
use super::slots::SlotSummary;
use super::stages::Bios;
use super::timeline::CounterRates;
use super::told_bursts::conclude_link;
use super::window::Window;
use crate::model::{BioStages, DevId, Io, Lost, RecordingMeta, Request, Source};

/// All answers about one window of one recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By device and class.
    pub devices: DevicesSummary,
    /// All devices together (A4), without those of [`ReportBuilder::leaving_out`].
    pub set: SetSummary,
    /// Concurrency of all devices together by slots (A3, A4); `None` where one device did all I/O: see its own.
    pub set_slots: Option<SlotSummary>,
    /// The kernel's own estimate of busy time (`io_ticks`), in percent of the time that counter samples cover.
    pub util_io_ticks_percent: BTreeMap<DevId, f64>,
    /// The estimator behind it, if the kernel is known.
    pub regime: Option<Regime>,
    /// Each device in depth, in the order of `devices`; none for those that only lost I/Os.
    pub details: Vec<DeviceDetail>,
    /// What passed through each link of the plan (A13).
    #[serde(skip)]
    pub links: Vec<LinkDetail>,
    /// What a person should hear first, most severe first.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// What is known besides the stream.
#[derive(Debug, Clone, Default)]
pub struct ReportPlan {
    /// Kernel release and HZ of the recorded machine.
    pub kernel: Option<(Regime, u32)>,
    /// Limits in bytes per second that the user gave for devices.
    pub limits: BTreeMap<DevId, f64>,
    /// Devices that share a link, with what it carries.
    pub links: Vec<Link>,
    /// Single I/Os were recorded: without any, nothing happened, whatever the counters say.
    pub has_ios: bool,
}

/// Accumulates a [`Report`].
#[derive(Debug)]
pub struct ReportBuilder {
    window: Window,
    plan: ReportPlan,
    completions: Completions,
    starts: Starts,
    issues: Issues,
    losses: Losses,
    counted: BTreeMap<DevId, Counted>,
    bios: BTreeMap<DevId, Bios>,
}

impl ReportBuilder {
    /// For `window`, which may be open, of a recording of which nothing else is known.
    pub fn new(window: Window) -> ReportBuilder {
        ReportBuilder::with_plan(window, ReportPlan::default())
    }

    /// For `window` of the recording that `meta` describes.
    pub fn for_recording(meta: &RecordingMeta, window: Window) -> ReportBuilder {
        let regime = meta.kernel.as_deref().and_then(Regime::of_release);
        let kernel = regime.zip(meta.kernel_hz);
        ReportBuilder::with_plan(
            window,
            ReportPlan { kernel, has_ios: meta.source == Source::Ebpf, ..ReportPlan::default() },
        )
    }

    /// The same, for devices of which some lie above others that are recorded too: the set of all devices leaves these
    /// `layers` out, or an I/O through a stack would be in flight on each of them. Before the first I/O.
    #[must_use]
    pub fn leaving_out(mut self, layers: BTreeSet<DevId>) -> ReportBuilder {
        self.starts = Starts::new(self.window, self.plan.kernel, layers);
        self
    }

    /// The same, judging bursts by what the user knows: limits in bytes per second of devices, and of links that several
    /// share.
    #[must_use]
    pub fn limited(mut self, limits: BTreeMap<DevId, f64>, links: Vec<Link>) -> ReportBuilder {
        (self.plan.limits, self.plan.links) = (limits, links);
        self
    }

    /// For `window`, with whatever else is known.
    pub fn with_plan(window: Window, plan: ReportPlan) -> ReportBuilder {
        ReportBuilder {
            window,
            completions: Completions::new(window),
            starts: Starts::new(window, plan.kernel, BTreeSet::new()),
            issues: Issues::new(window),
            plan,
            losses: Losses::default(),
            counted: BTreeMap::new(),
            bios: BTreeMap::new(),
        }
    }

    /// Takes the next completed I/O, in the order of completion. I/Os that complete after the window but began inside
    /// it still belong to its busy time: push them too.
    pub fn push(&mut self, io: &Io) {
        self.parts().into_iter().for_each(|part| part.eat(std::slice::from_ref(io), i64::MIN));
    }

    /// The parts among which the work on I/Os is divided, the slowest one last. Each takes all I/Os, as [`ReportBuilder::push`]
    /// does; none needs the others until all have eaten.
    pub fn parts(&mut self) -> [&mut dyn Part; 3] {
        [&mut self.issues, &mut self.completions, &mut self.starts]
    }

    /// Takes what is missing.
    pub fn lost(&mut self, lost: &Lost) {
        self.completions.counts.lost(lost);
        self.completions.trouble.lost(lost);
        self.losses.push(lost);
    }

    /// Takes the next file-level request, where those were recorded: for what the page cache answered.
    pub fn request(&mut self, request: &Request) {
        self.completions.page_cache.request(request);
    }

    /// Takes the way of a bio, where a trace tells of them (A24).
    pub fn bio(&mut self, bio: &BioStages) {
        if self.window.contains(bio.done_ns) {
            self.bios.entry(bio.dev).or_default().push(bio);
        }
    }

    /// Takes the next difference of kernel counters: for the comparison with `io_ticks`, and for all that is known
    /// where no single I/O was recorded.
    pub fn counters(&mut self, rates: &CounterRates) {
        if self.window.contains(rates.from_ns) && rates.to_ns <= self.window.to_ns {
            self.counted.entry(rates.dev).or_default().add(rates);
        }
    }

    /// The answers. `end_ns` is the recording's end, which closes an open window.
    pub fn finish(self, end_ns: i64) -> Report {
        self.finish_naming(end_ns, &|_, _| None)
    }

    /// The answers, with files named by `path_of` where it knows them.
    pub fn finish_naming(mut self, end_ns: i64, path_of: PathOf) -> Report {
        self.completions.make_room();
        let Completions { counts, devices: completed, cells, trouble, page_cache, .. } = self.completions;
        let (window, known) = (counts.closed_window(end_ns), counts.known().to_vec());
        let (sweeps, swept, set, clipped) = self.starts.finish(&known);
        let (issued, stages) = self.issues.finish(&known);
        let s2c: Vec<Latencies> = (0..known.len()).map(|i| counts.latencies(i)).collect();
        let mut devices = counts.finish(end_ns, sweeps, issued, clipped);
        if devices.ios == 0 && !self.plan.has_ios {
            devices.devices = self.counted.iter().filter_map(|(dev, c)| c.summary(*dev)).collect();
            devices.ios = devices.devices.iter().map(DeviceSummary::ios).sum();
            devices.bytes = devices.devices.iter().map(DeviceSummary::bytes).sum();
        }
        let mut found = trouble.finish(devices.ios);
        found.extend(page_cache.finish(devices.lost_ios == Some(0)));
        let mut details = Vec::new();
        let gathered = swept.into_iter().zip(stages).zip(completed).zip(s2c);
        let gathered = gathered.map(|(((swept, stages), completed), s2c)| Gathered { swept, stages, completed, s2c });
        for (dev, gathered) in known.into_iter().zip(gathered) {
            let Some(summary) =
                devices.devices.iter().find(|d| d.dev == dev && d.classes.iter().any(|c| c.ios > Some(0)))
            else {
                continue;
            };
            let mut detail = gathered.finish(&Around {
                dev,
                window,
                cells: &cells,
                losses: &self.losses,
                limit: self.plan.limits.get(&dev).map(|l| Limit { bytes_per_s: *l, source: LimitSource::User }),
                counted: self.counted.get(&dev).and_then(Counted::ticks),
                busy_percent: summary.busy_percent,
                complete: summary.lost_ios == Some(0) && devices.lost_ios == Some(0),
                kernel: self.plan.kernel,
            });
            detail.stages.bios = self.bios.remove(&dev).map(Bios::finish);
            found.extend(conclude(&detail, window, path_of));
            details.push(detail);
        }
        details.sort_by_key(|d| d.dev);
        let slot_ns = burst_slot_ns(window);
        let of_link = |link: &Link| links::detail(link, &cells, &self.losses, window, slot_ns);
        let links: Vec<LinkDetail> = self.plan.links.iter().map(of_link).collect();
        links.iter().for_each(|link| found.extend(conclude_link(link, path_of)));
        findings::sort(&mut found);
        let percent = |(busy_ns, covered_ns): (i64, i64)| 100.0 * busy_ns as f64 / covered_ns as f64;
        let util_io_ticks_percent =
            self.counted.iter().filter_map(|(dev, c)| Some((*dev, percent(c.ticks()?)))).collect();
        let regime = self.plan.kernel.map(|k| k.0);
        let busy =
            |d: &DeviceDetail| (d.dev, devices.devices.iter().find(|s| s.dev == d.dev).and_then(|s| s.busy_percent));
        let (set, set_slots) = set.finish(window, &details.iter().map(busy).collect::<Vec<_>>());
        Report { devices, set, set_slots, util_io_ticks_percent, regime, details, links, findings: found }
    }
}
