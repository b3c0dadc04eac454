//! Runs all analyses of a report in one pass over the I/Os.

pub(in crate::analysis) mod streams;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::actors::{ActorTable, Actors};
use crate::analysis::bursts::cells::Cells;
use crate::analysis::bursts::links::{self, Link, LinkDetail};
use crate::analysis::bursts::reported::conclude_link;
use crate::analysis::bursts::{Limit, LimitSource};
use crate::analysis::counters::imported::AllClasses;
use crate::analysis::counters::io_ticks::Regime;
use crate::analysis::counters::pressure::HostPressure;
use crate::analysis::counters::summary::{self, Counted};
use crate::analysis::device::by_issue::SweptByIssue;
use crate::analysis::device::context::DeviceContext;
use crate::analysis::device::detail::{Completed, DeviceDetail, Gathered, Swept, burst_slot_ns};
use crate::analysis::device::set::SetSummary;
use crate::analysis::device::slots::SlotSummary;
use crate::analysis::device::stages::Bios;
use crate::analysis::device::summary::DevicesSummary;
use crate::analysis::files::page_cache::PageCache;
use crate::analysis::findings::conclusions::conclude;
use crate::analysis::findings::io_errors::ErrorCounts;
use crate::analysis::findings::{self, Finding};
use crate::analysis::latency::slow_member::{self, Array};
use crate::analysis::latency::stalls::{self, Stacks};
use crate::analysis::latency::syncs;
use crate::analysis::limits::{self, MemoryLimit, OwnLimitsBuilder};
use crate::analysis::report::streams::{Completions, Issues, Starts};
use crate::analysis::stories::{self, GroupLimits, Scene, Story};
use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::CounterRates;
use crate::analysis::waits::{DeviceVictims, WaitsOfSome};
use crate::model::{
    BioStages, CgroupSample, DevId, Io, Lost, PathOf, PressureSample, RecordingMeta, Request,
    Source,
};

/// All results for one window of one recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// By device and class.
    pub devices: DevicesSummary,
    /// All devices together (A4), without those of [`ReportBuilder::leaving_out`].
    pub set: SetSummary,
    /// Concurrency of all devices together by slots (A3, A4); `None` if one device did all I/O, because that device has
    /// it.
    pub set_slots: Option<SlotSummary>,
    /// The kernel's own estimate of busy time (`io_ticks`), in percent of the time that counter samples cover.
    pub util_io_ticks_percent: BTreeMap<DevId, f64>,
    /// Values that imported tables have only for all classes of a device together.
    pub all_classes: BTreeMap<DevId, AllClasses>,
    /// The estimator behind `io_ticks`, if the kernel is known.
    pub regime: Option<Regime>,
    /// Detailed results of each device, ordered by device number. Devices with only lost I/Os have none.
    pub details: Vec<DeviceDetail>,
    /// Throughput of each link of the plan (A13).
    #[serde(skip)]
    pub links: Vec<LinkDetail>,
    /// I/O by actor (A27).
    #[serde(skip)]
    pub actors: ActorTable,
    /// Waits by victim and cause (A28).
    #[serde(skip)]
    pub waits: Vec<DeviceVictims>,
    /// Stories: victim, culprit, mechanism, lost time and advice (A30), the largest loss first.
    #[serde(skip)]
    pub stories: Vec<Story>,
    /// Pressure of the host; empty if the recording does not have it.
    #[serde(skip)]
    pub host: HostPressure,
    /// Findings, most severe first.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

impl Report {
    /// Detailed results of `dev`.
    pub fn detail(&self, dev: DevId) -> Option<&DeviceDetail> {
        self.details
            .binary_search_by_key(&dev, |d| d.dev)
            .ok()
            .map(|i| &self.details[i])
    }
}

/// Inputs of a report besides the I/Os.
#[derive(Debug, Clone, Default)]
pub struct ReportPlan {
    /// Kernel release and HZ of the recorded machine.
    pub kernel: Option<(Regime, u32)>,
    /// Limits in bytes per second that the user gave for devices.
    pub limits: BTreeMap<DevId, f64>,
    /// Links that several devices share, with their bandwidth.
    pub links: Vec<Link>,
    /// Largest requests that devices take, in bytes.
    pub max_request_bytes: BTreeMap<DevId, u64>,
    /// Stacking of devices.
    pub stacks: Stacks,
    /// Layers that distribute their I/O over several devices.
    pub arrays: Vec<Array>,
    /// Whether single I/Os were recorded. If so, a device without I/Os was idle, whatever its counters show.
    pub has_ios: bool,
}

/// Maximum number of threads for waits, the slowest analysis. Devices are divided among them.
const MAX_WAIT_PARTS: usize = 4;

/// Accumulates a [`Report`].
#[derive(Debug)]
pub struct ReportBuilder {
    window: Window,
    plan: ReportPlan,
    completions: Completions,
    starts: Starts,
    issues: Issues,
    actors: Actors,
    waits: Vec<WaitsOfSome>,
    losses: Losses,
    counted: BTreeMap<DevId, Counted>,
    bios: BTreeMap<DevId, Bios>,
    host: HostPressure,
    /// Devices above other recorded devices.
    layers: BTreeSet<DevId>,
    /// Control groups that reread data which their memory limit had evicted.
    memory_limits: Vec<MemoryLimit>,
}

impl Report {
    /// Removes program names from results that were grouped by them.
    pub fn hide_names(&mut self) {
        for device in &mut self.waits {
            device.hide_names();
        }
        for story in &mut self.stories {
            story.hide_names();
        }
    }
}

impl ReportBuilder {
    /// For `window`, which may be open, of a recording without metadata.
    pub fn new(window: Window) -> ReportBuilder {
        ReportBuilder::with_plan(window, ReportPlan::default())
    }

    /// For `window` of the recording that `meta` describes.
    pub fn for_recording(meta: &RecordingMeta, window: Window) -> ReportBuilder {
        let regime = meta.kernel.as_deref().and_then(Regime::of_release);
        let kernel = regime.zip(meta.kernel_hz);
        let plan = ReportPlan {
            kernel,
            has_ios: meta.source == Source::Ebpf,
            stacks: Stacks::of(&meta.devices),
            arrays: Array::all(&meta.devices, meta.settings.as_ref()),
            max_request_bytes: meta
                .devices
                .iter()
                .filter_map(|d| Some((d.id, d.max_request_bytes?)))
                .collect(),
            ..ReportPlan::default()
        };
        let parts = meta.devices.len().clamp(1, MAX_WAIT_PARTS);
        ReportBuilder {
            waits: WaitsOfSome::parts(window, parts as u32),
            ..ReportBuilder::with_plan(window, plan)
        }
    }

    /// Leaves `layers` (devices above other recorded devices) out of the set of all devices, because an I/O through a
    /// stack would count once per layer. Call it before the first I/O.
    #[must_use]
    pub fn leaving_out(mut self, layers: BTreeSet<DevId>) -> ReportBuilder {
        self.completions = Completions::new(self.window, layers.clone(), &self.plan.links);
        self.starts = Starts::new(self.window, self.plan.kernel, layers.clone());
        self.layers = layers;
        self
    }

    /// Sets the user's limits for bursts in bytes per second, for devices and for links that several devices share.
    /// Call it before the first I/O.
    #[must_use]
    pub fn limited(mut self, limits: BTreeMap<DevId, f64>, links: Vec<Link>) -> ReportBuilder {
        self.completions = Completions::new(self.window, self.layers.clone(), &links);
        self.plan.limits = limits;
        self.plan.links = links;
        self
    }

    /// For `window`, with the inputs of `plan`.
    pub fn with_plan(window: Window, plan: ReportPlan) -> ReportBuilder {
        ReportBuilder {
            window,
            completions: Completions::new(window, BTreeSet::new(), &plan.links),
            starts: Starts::new(window, plan.kernel, BTreeSet::new()),
            issues: Issues::new(window),
            actors: Actors::new(window),
            waits: WaitsOfSome::parts(window, 1),
            plan,
            losses: Losses::default(),
            counted: BTreeMap::new(),
            bios: BTreeMap::new(),
            host: HostPressure::default(),
            layers: BTreeSet::new(),
            memory_limits: Vec::new(),
        }
    }

    /// Takes the next completed I/O, in the order of completion. Also push I/Os that complete after the window but
    /// began inside it, because they belong to its busy time.
    pub fn push(&mut self, io: &Io) {
        self.consumers()
            .into_iter()
            .for_each(|consumer| consumer.consume(std::slice::from_ref(io), i64::MIN));
    }

    /// The independent parts of the report, the slowest last. Each part must receive all I/Os, as
    /// [`ReportBuilder::push`] does, and may run on its own thread.
    pub fn consumers(&mut self) -> Vec<&mut dyn Consumer> {
        let (by_names, others) = self.consumers_by_names();
        let mut all = Vec::from(others);
        all.extend(by_names);
        all
    }

    /// The parts of [`ReportBuilder::consumers`]. Those in the first list group I/Os by process names, which they need
    /// even if names are hidden; [`Report::hide_names`] removes them from the results.
    pub fn consumers_by_names(&mut self) -> (Vec<&mut dyn Consumer>, [&mut dyn Consumer; 4]) {
        let others: [&mut dyn Consumer; 4] = [
            &mut self.actors,
            &mut self.issues,
            &mut self.completions,
            &mut self.starts,
        ];
        let mut by_names: Vec<&mut dyn Consumer> = Vec::new();
        for part in &mut self.waits {
            by_names.push(part);
        }
        (by_names, others)
    }

    /// Takes a loss. To be left out of slots (A3), time without a recorder must be reported before the first I/O.
    pub fn lost(&mut self, lost: &Lost) {
        self.waits.iter_mut().for_each(|part| part.lost(lost));
        self.completions.counts.lost(lost);
        self.completions.trouble.lost(lost);
        self.starts.lost(lost);
        self.losses.push(lost);
    }

    /// Takes the next file-level request, if these were recorded, for the analyses of the page cache and of syncs.
    pub fn request(&mut self, request: &Request) {
        self.completions.page_cache.request(request);
        self.completions.sync_calls.request(request);
    }

    /// Takes the stages of a bio, if a trace has them (A24).
    pub fn bio(&mut self, bio: &BioStages) {
        if self.window.contains(bio.done_ns) {
            self.bios.entry(bio.dev).or_default().push(bio);
        }
    }

    /// Takes the next difference of kernel counters: for the comparison with `io_ticks`, and for devices of recordings
    /// without single I/Os.
    pub fn counters(&mut self, rates: &CounterRates) {
        if self.window.contains(rates.from_ns) && rates.to_ns <= self.window.to_ns {
            self.counted.entry(rates.dev).or_default().add(rates);
        }
    }

    /// Takes the samples of control groups of the whole recording. Groups with limits are analysed. Call it before the
    /// first I/O.
    #[must_use]
    pub fn knowing_cgroups(mut self, samples: &[CgroupSample]) -> ReportBuilder {
        self.completions.own_limits = OwnLimitsBuilder::new(samples, self.window);
        self.memory_limits = limits::memory_limits(samples, self.window);
        self
    }

    /// Takes the next pressure sample of the host, if these were recorded.
    pub fn pressure(&mut self, sample: &PressureSample) {
        self.host.push(sample);
    }

    /// Finishes the report. `end_ns` is the recording's end, which closes an open window.
    pub fn finish(self, end_ns: i64) -> Report {
        self.finish_naming(end_ns, &|_| None)
    }

    /// Like [`ReportBuilder::finish`]; `path_of` supplies the names of files.
    pub fn finish_naming(mut self, end_ns: i64, path_of: PathOf) -> Report {
        self.completions.make_room();
        let Completions {
            counts,
            devices: completed,
            cells,
            own_limits,
            trouble,
            page_cache,
            sync_calls,
            ..
        } = self.completions;
        let window = counts.closed_window(end_ns);
        let known = counts.known().to_vec();
        // The sweeps have held back I/Os in case earlier ones arrive; now they take the rest.
        let (sweeps, swept, set, clipped) = self.starts.finish(&known);
        let (issued, by_issue) = self.issues.finish(&known);
        let s2c: Vec<Latencies> = (0..known.len()).map(|i| counts.latencies(i)).collect();

        // Counts, busy time and concurrency of each device.
        let unrecorded_ns = self.losses.unrecorded_ns(window);
        let mut devices = counts.finish(end_ns, unrecorded_ns, sweeps, issued, clipped);
        // A recording of counters has no I/Os; its devices are those with counters.
        if devices.ios == 0 && !self.plan.has_ios {
            let counted = self.counted.iter();
            devices.replace(counted.filter_map(|(dev, c)| c.summary(*dev)).collect());
        }
        let context = ReportContext {
            window,
            unrecorded_ns,
            plan: &self.plan,
            cells: &cells,
            losses: &self.losses,
            counted: &self.counted,
            host: &self.host,
            devices: &devices,
        };
        let util_io_ticks_percent = context.util_io_ticks_percent();

        // Findings that do not need detailed results.
        let mut found = context.findings_of_all(&known, trouble, page_cache);
        for blocked in &sync_calls.finish(window) {
            found.push(blocked.finding(None, window, path_of));
        }
        found.extend(context.slow_members(&known, &by_issue));

        // All inputs from other devices are complete, so devices can be finished one after the other.
        let gathered = gather(known, swept, by_issue, completed, s2c);
        let details = context.details(gathered, &mut self.bios, path_of, &mut found);
        let links = context.links();
        for link in &links {
            found.extend(conclude_link(link, path_of));
        }
        syncs::without_doubles(&mut found);
        findings::sort(&mut found);
        let (set, set_slots) = set.finish(window, unrecorded_ns, &context.busy_percents(&details));

        // Stories need the waits of each victim and the detailed results of all devices.
        let waits = WaitsOfSome::finish(self.waits);
        let scene = Scene {
            window,
            details: &details,
            layers: &self.layers,
            host: &self.host,
            has_losses: devices.lost_ios != Some(0),
        };
        let limits = GroupLimits {
            own: own_limits.finish(),
            memory: self.memory_limits,
        };
        let stories = stories::stories(&waits, &scene, limits);

        Report {
            devices,
            set,
            set_slots,
            util_io_ticks_percent,
            all_classes: BTreeMap::new(),
            regime: self.plan.kernel.map(|k| k.0),
            details,
            links,
            actors: self.actors.finish(),
            waits,
            stories,
            host: self.host,
            findings: found,
        }
    }
}

/// Groups the results of the three parts by device. All lists are ordered like `known`.
fn gather(
    known: Vec<DevId>,
    swept: Vec<Swept>,
    issued: Vec<SweptByIssue>,
    completed: Vec<Completed>,
    s2c: Vec<Latencies>,
) -> Vec<(DevId, Gathered)> {
    let parts = swept.into_iter().zip(issued).zip(completed).zip(s2c);
    let mut gathered = Vec::with_capacity(known.len());
    for (dev, (((swept, issued), completed), s2c)) in known.into_iter().zip(parts) {
        gathered.push((
            dev,
            Gathered {
                swept,
                issued,
                completed,
                s2c,
            },
        ));
    }
    gathered
}

/// Inputs shared by the results of all devices.
struct ReportContext<'a> {
    window: Window,
    unrecorded_ns: i64,
    plan: &'a ReportPlan,
    cells: &'a Cells,
    losses: &'a Losses,
    counted: &'a BTreeMap<DevId, Counted>,
    host: &'a HostPressure,
    devices: &'a DevicesSummary,
}

impl ReportContext<'_> {
    /// Findings that do not need detailed results; `known` are the devices with I/Os.
    fn findings_of_all(
        &self,
        known: &[DevId],
        errors: ErrorCounts,
        page_cache: PageCache,
    ) -> Vec<Finding> {
        let mut found = errors.finish(self.devices.ios, self.host);
        if known.is_empty() && !self.plan.has_ios {
            found.extend(summary::findings(self.counted, self.window, |dev| {
                self.losses.of(dev)
            }));
        }
        found.extend(page_cache.finish(self.devices.lost_ios == Some(0)));
        found
    }

    /// Finds members of arrays that are slower than the others; `by_issue` is ordered like `known`.
    fn slow_members(&self, known: &[DevId], by_issue: &[SweptByIssue]) -> Vec<Finding> {
        let samples: Vec<_> = known
            .iter()
            .copied()
            .zip(by_issue.iter().map(SweptByIssue::samples))
            .collect();
        slow_member::find(&self.plan.arrays, &samples, self.losses)
    }

    /// Detailed results of each device, ordered by device number; findings are added to `found`.
    fn details(
        &self,
        gathered: Vec<(DevId, Gathered)>,
        bios: &mut BTreeMap<DevId, Bios>,
        path_of: PathOf,
        found: &mut Vec<Finding>,
    ) -> Vec<DeviceDetail> {
        let mut details = Vec::new();
        for (dev, gathered) in gathered {
            let Some(detail) = self.detail(dev, gathered, bios.remove(&dev)) else {
                continue;
            };
            found.extend(conclude(&detail, self.window, self.host, path_of));
            details.push(detail);
        }
        // The extent of a stall is only visible together with the stalls of all devices.
        details.sort_by_key(|d| d.dev);
        found.extend(stalls::conclude(
            details.iter().map(|d| (d.dev, &d.stalls)),
            &self.plan.stacks,
            self.host,
        ));
        details
    }

    /// Utilisation of each of these devices in percent, if it is known.
    fn busy_percents(&self, details: &[DeviceDetail]) -> Vec<(DevId, Option<f64>)> {
        let mut busy = Vec::with_capacity(details.len());
        for detail in details {
            let summary = self.devices.of(detail.dev);
            busy.push((detail.dev, summary.and_then(|s| s.busy_percent)));
        }
        busy
    }

    /// Detailed results of a device; `None` if it has no I/Os.
    fn detail(&self, dev: DevId, gathered: Gathered, bios: Option<Bios>) -> Option<DeviceDetail> {
        let summary = self.devices.of(dev)?;
        if !summary.classes.iter().any(|c| c.ios > Some(0)) {
            return None;
        }
        let mut detail = gathered.finish(&DeviceContext {
            dev,
            window: self.window,
            unrecorded_ns: self.unrecorded_ns,
            cells: self.cells,
            losses: self.losses,
            limit: self.plan.limits.get(&dev).map(|l| Limit {
                bytes_per_s: *l,
                source: LimitSource::User,
            }),
            counted: self.counted.get(&dev).and_then(Counted::ticks),
            busy_percent: summary.busy_percent,
            complete: summary.lost_ios == Some(0) && self.devices.lost_ios == Some(0),
            kernel: self.plan.kernel,
            max_request_bytes: self.plan.max_request_bytes.get(&dev).copied(),
            family: 2 * self.devices.devices.len(),
        });
        detail.stages.bios = bios.map(Bios::finish);
        detail.stalls.compare_with_host(self.host);
        Some(detail)
    }

    fn links(&self) -> Vec<LinkDetail> {
        let slot_ns = burst_slot_ns(self.window.len_ns());
        let links = self.plan.links.iter().enumerate();
        links
            .map(|(number, link)| {
                links::detail(number, link, self.cells, self.losses, self.window, slot_ns)
            })
            .collect()
    }

    /// Utilisation from the kernel's `io_ticks` in percent, by device.
    fn util_io_ticks_percent(&self) -> BTreeMap<DevId, f64> {
        let mut percents = BTreeMap::new();
        for (dev, counted) in self.counted {
            if let Some((busy_ns, covered_ns)) = counted.ticks() {
                percents.insert(*dev, 100.0 * busy_ns as f64 / covered_ns as f64);
            }
        }
        percents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::waits::tests::simulator::{Device, MS, bursts, requests};
    use crate::model::{LossReason, Op};

    #[test]
    fn what_is_kept_grows_with_the_ios_and_not_with_the_days() {
        let kept = |days: i64| {
            let window = Window::new(0, days * 86_400_000_000_000);
            let mut builder = ReportBuilder::new(window);
            let ios = 20_000;
            for i in 0..ios {
                let dev = DevId::new(8, (i % 40) as u32);
                builder.push(&Io::new(
                    window.to_ns / ios * i + 1000,
                    dev,
                    Op::READ,
                    4096,
                    Some(0),
                    1000,
                ));
            }
            let report = builder.finish(0);
            let sizes = report.details.iter().map(|d| {
                (d.load.len() + d.attribution.bins.len()) as i64 + 3 * d.slots.all.len() as i64
            });
            sizes.sum::<i64>()
        };
        let [day, year] = [1, 400].map(kept);
        assert!(
            day <= 60_000 && year <= day + 40 * 3 * 2,
            "{day} in a day, {year} in 400"
        );
    }

    #[test]
    fn slots_in_time_without_a_recorder_are_left_out() {
        let second = 1_000_000_000;
        let window = Window::new(0, 10 * second);
        let mut builder = ReportBuilder::new(window);
        builder.lost(&Lost::somewhere(
            2 * second,
            8 * second,
            LossReason::NotRecorded,
        ));
        // Two devices, of which the set has slots of its own; each I/O touches one slot of 2 ms.
        for dev in [DevId::new(8, 0), DevId::new(8, 16)] {
            builder.push(&Io::new(second + MS, dev, Op::READ, 4096, Some(0), 1000));
        }
        let report = builder.finish(window.to_ns);
        let of_devices = report.details.iter().map(|detail| &detail.slots);
        let summaries: Vec<&SlotSummary> = of_devices.chain(&report.set_slots).collect();
        assert_eq!(summaries.len(), 3);
        for slots in summaries {
            for groups in [&slots.all, &slots.read, &slots.write] {
                assert_eq!((groups.len(), groups[0].slots), (1, 2000));
            }
            assert_eq!(slots.all[0].touched_percent, 0.05);
        }
    }

    #[test]
    fn what_starts_later_than_a_second_after_the_window_changes_nothing() {
        let mut jobs = requests(7, "shop", Op::READ, 300.0, 2 * MS);
        jobs.extend(requests(9, "log", Op::WRITE, 100.0, MS));
        jobs.extend(bursts(20, 700 * MS, 9 * MS));
        jobs.sort_by_key(|job| job.at_ns);
        let ios = Device::fifo(1).serve(jobs);
        for (from_ms, to_ms) in [(0, 5), (1_000, 1_050), (10_000, 12_000), (15_000, 45_000)] {
            let window = Window::new(from_ms * MS, to_ms * MS);
            let report = |until_ns: i64| {
                let mut builder = ReportBuilder::new(window);
                for io in ios.iter().filter(|io| io.done_ns >= window.from_ns) {
                    if io.start_ns() < until_ns {
                        builder.push(io);
                    }
                }
                builder.finish(window.to_ns)
            };
            let all = report(i64::MAX);
            assert!(all.devices.ios > 0 && !all.waits.is_empty());
            assert_eq!(report(window.learned_until_ns()), all, "{window:?}");
        }
    }
}
