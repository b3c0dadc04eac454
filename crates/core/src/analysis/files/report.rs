//! All analyses of file-level requests in one pass: the tables of `iolens files`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::answers::{By, ClassReport, ClassTable, FilesReport, Group, PeakWindow, call_ns, slow};
use super::atomic::atomic_share;
use super::calls::{Calls, most_time};
use super::gap::{BlockIos, Gap, reads_and_hits};
use super::load::{LoadedIo, duration_by_load};
use super::overhead::{DirectPoint, classical, direct, judge};
use super::size::{SizePoint, bins, steps};
use super::syncs::{Brief, SyncSpan, Syncs, meanwhile, worst};
use super::timeline::FilesTimeline;
use crate::analysis::math::stats::Shuffler;
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::peak::peak;
use crate::analysis::stream::window::Window;
use crate::model::{Device, Io, Lost, Request, RequestClass, RequestFlags};

/// Number of slowest requests, and of most expensive files, that are shown.
const TOP: usize = 20;
/// Maximum number of requests kept for medians; of more, a random sample.
const KEPT: usize = 400_000;
/// Maximum number of block I/Os kept, to find those completed during syncs.
const BRIEF: usize = 5_000_000;

#[derive(Debug, Clone, Copy)]
struct Kept {
    class: RequestClass,
    end_ns: i64,
    size: Option<SizePoint>,
    direct: DirectPoint,
    atomic: Option<bool>,
}

#[derive(Debug, Default)]
struct GroupSums {
    gap: Gap,
    totals: Latencies,
    syncs: Syncs,
}

impl GroupSums {
    /// Adds one request and the block I/O within it.
    fn add(&mut self, r: &Request, device: Option<(i64, i64)>) {
        self.gap.add(r, device);
        if r.sync.is_some() {
            self.syncs.add(r);
        } else if let Some(total) = r.total_ns() {
            self.totals.add(total);
        }
    }
}

/// Takes block I/Os first, then requests in order of their ends.
#[derive(Debug)]
pub struct FilesReportBuilder {
    window: Window,
    by: By,
    blocks: BlockIos,
    briefs: Vec<Brief>,
    devices: Vec<Device>,
    ordered: bool,
    kept: Vec<Kept>,
    one_in: u64,
    random: Shuffler,
    ends: Vec<i64>,
    groups: HashMap<String, GroupSums>,
    files: HashMap<Arc<str>, GroupSums>,
    timeline: FilesTimeline,
    syncs_by_process: HashMap<String, Syncs>,
    syncs_by_path: HashMap<String, Syncs>,
    calls: HashMap<Arc<str>, Calls>,
    slowest: Vec<Request>,
    slowest_syncs: Vec<Request>,
    sync_spans: Vec<SyncSpan>,
    flags: BTreeMap<&'static str, u64>,
    requests: u64,
    unknown_start: u64,
    lost: u64,
}

impl FilesReportBuilder {
    /// For the requests that end in `window`, which must have an end.
    pub fn new(window: Window, by: By) -> FilesReportBuilder {
        FilesReportBuilder {
            window,
            by,
            blocks: BlockIos::default(),
            briefs: Vec::new(),
            devices: Vec::new(),
            ordered: false,
            kept: Vec::new(),
            one_in: 1,
            random: Shuffler::new(0x000f_11e5),
            ends: Vec::new(),
            groups: HashMap::new(),
            files: HashMap::new(),
            timeline: FilesTimeline::new(window),
            syncs_by_process: HashMap::new(),
            syncs_by_path: HashMap::new(),
            calls: HashMap::new(),
            slowest: Vec::new(),
            slowest_syncs: Vec::new(),
            sync_spans: Vec::new(),
            flags: BTreeMap::new(),
            requests: 0,
            unknown_start: 0,
            lost: 0,
        }
    }

    /// Adds the recording's devices, to find those under synced files.
    #[must_use]
    pub fn with_devices(self, devices: &[Device]) -> FilesReportBuilder {
        FilesReportBuilder {
            devices: devices.to_vec(),
            ..self
        }
    }

    /// Takes a completed block I/O, before the first request.
    pub fn push_io(&mut self, io: &Io) {
        self.blocks.push(io);
        if self.briefs.len() < BRIEF {
            self.briefs.push(io.into());
        }
    }

    /// Adds a loss.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.reason.is_of_requests() {
            self.lost += lost.ios.unwrap_or(0).max(0) as u64;
        }
    }

    /// Takes a request.
    pub fn push(&mut self, r: &Request) {
        if !self.window.contains(r.end_ns) {
            return;
        }
        if !self.ordered {
            self.blocks.order();
            self.ordered = true;
        }
        let device = self.blocks.within(r);
        self.timeline.push(r);
        self.group(r, device);
        r.flags
            .names()
            .for_each(|name| *self.flags.entry(name).or_default() += 1);
        self.unknown_start += u64::from(!r.start_known());
        match r.sync {
            Some(_) => {
                self.sync_spans.push((r.start_ns, r.end_ns, r.fs_dev));
                self.syncs_by_process
                    .entry(key_of(By::Process, r))
                    .or_default()
                    .add(r);
                self.syncs_by_path
                    .entry(key_of(By::Path, r))
                    .or_default()
                    .add(r);
            }
            None => {
                self.requests += 1;
                self.ends.push(r.end_ns);
                self.keep(r, device);
            }
        }
        self.rank(r);
    }

    fn group(&mut self, r: &Request, device: Option<(i64, i64)>) {
        let group = self.groups.entry(key_of(self.by, r)).or_default();
        group.add(r, device);
        if let Some(path) = &r.path {
            self.calls.entry(Arc::clone(path)).or_default().add(r);
            let file = self.files.entry(Arc::clone(path)).or_default();
            file.add(r, device);
        }
    }

    fn keep(&mut self, r: &Request, device: Option<(i64, i64)>) {
        if self.one_in > 1 && self.random.below(self.one_in) != 0 {
            return;
        }
        if self.kept.len() == KEPT {
            self.one_in *= 2;
            let random = &mut self.random;
            self.kept.retain(|_| random.below(2) == 0);
        }
        // Mapped and asynchronous requests did more than their calls show, so they have no size and no times.
        let odd = [
            RequestFlags::MMAP,
            RequestFlags::AIO,
            RequestFlags::IO_URING,
        ];
        let plain = r.start_known() && !odd.into_iter().any(|f| r.flags.has(f));
        let size = r.total_ns().zip(r.first_delay_ns()).filter(|_| plain);
        self.kept.push(Kept {
            class: r.class(),
            end_ns: r.end_ns,
            size: size.map(|(total_ns, first_ns)| SizePoint {
                bytes: r.bytes(),
                total_ns,
                first_ns,
            }),
            direct: if plain {
                direct_point(r, device)
            } else {
                DirectPoint::default()
            },
            atomic: r.atomic().filter(|_| plain),
        });
    }

    /// Ranks by the time inside calls: if a program keeps a file open, most of the response time is its own.
    fn rank(&mut self, r: &Request) {
        let Some(waited) = call_ns(r) else { return };
        let (ranking, most) = match r.sync {
            None => (&mut self.slowest, TOP),
            Some(_) => (&mut self.slowest_syncs, TOP / 2),
        };
        let at = ranking.partition_point(|s| call_ns(s).unwrap_or(0) >= waited);
        if at < most {
            ranking.insert(at, r.clone());
            ranking.truncate(most);
        }
    }

    /// The result.
    pub fn finish(mut self) -> FilesReport {
        let group_ns = (self.window.len_ns() / 60).clamp(1_000_000_000, 1_200_000_000_000);
        let counts = self.counts(group_ns);
        let peak_window = self.peak(&counts, group_ns);
        let classes = [RequestClass::In, RequestClass::Out, RequestClass::Mixed];
        let classes = classes
            .into_iter()
            .filter_map(|c| self.class(c, peak_window, &counts, group_ns))
            .collect();
        let syncs = self.sync_spans.len() as u64;
        let recorded = !self.briefs.is_empty();
        let while_syncing =
            recorded.then(|| meanwhile(&self.sync_spans, &self.briefs, &self.devices));
        let mut files = groups(self.files.drain().map(|(k, v)| (k.to_string(), v)));
        files.truncate(TOP);
        FilesReport {
            requests: self.requests,
            syncs,
            lost_requests: self.lost,
            unknown_start: self.unknown_start,
            requests_by_flag: self.flags,
            one_in: self.one_in,
            group_s: group_ns as f64 / 1e9,
            peak_window,
            classes,
            by: self.by,
            groups: groups(self.groups.drain()),
            files,
            over_time: self.timeline.finish(),
            slowest: self.slowest.iter().map(slow).collect(),
            slowest_syncs: self.slowest_syncs.iter().map(slow).collect(),
            syncs_by_process: worst(self.syncs_by_process, TOP),
            syncs_by_path: worst(self.syncs_by_path, TOP),
            calls: most_time(self.calls, TOP),
            while_syncing: while_syncing.unwrap_or_default(),
            unattributed_percent: self.blocks.unattributed_percent(),
        }
    }

    fn counts(&self, group_ns: i64) -> Vec<f64> {
        let mut counts =
            vec![0.0; (self.window.len_ns() as u64).div_ceil(group_ns as u64) as usize];
        for end in &self.ends {
            if let Some(c) = counts.get_mut(((end - self.window.from_ns) / group_ns) as usize) {
                *c += 1.0;
            }
        }
        counts
    }

    /// The three consecutive groups with most requests; `None` if there are no more groups than these.
    fn peak(&self, counts: &[f64], group_ns: i64) -> Option<PeakWindow> {
        const GROUPS: usize = 3;
        let values: Vec<Option<f64>> = counts.iter().copied().map(Some).collect();
        let p = peak(&values, GROUPS).filter(|p| counts.len() > GROUPS && p.sum > 0.0)?;
        let duration_s = GROUPS as f64 * group_ns as f64 / 1e9;
        let start_s = (self.window.from_ns + p.first as i64 * group_ns) as f64 / 1e9;
        Some(PeakWindow {
            start_s,
            duration_s,
            per_s: p.sum / duration_s,
            peak_to_mean: p.ratio,
        })
    }

    fn class(
        &self,
        class: RequestClass,
        peak: Option<PeakWindow>,
        counts: &[f64],
        group_ns: i64,
    ) -> Option<ClassReport> {
        let of_class: Vec<&Kept> = self.kept.iter().filter(|k| k.class == class).collect();
        if of_class.is_empty() {
            return None;
        }
        let points: Vec<SizePoint> = of_class.iter().filter_map(|k| k.size).collect();
        let steps = steps(&points);
        let block = steps.map_or(8192, |s| s.block_bytes);
        // Only for requests of two blocks, the duration of the second I/O is the total minus that of the first.
        let two_blocks = of_class.iter().filter(|k| {
            k.size
                .is_some_and(|s| block < s.bytes && s.bytes <= 2 * block)
        });
        let loaded: Vec<LoadedIo> = two_blocks
            .filter_map(|k| {
                let s = k.size?;
                let count = counts.get(((k.end_ns - self.window.from_ns) / group_ns) as usize)?;
                Some(LoadedIo {
                    per_s: count / (group_ns as f64 / 1e9),
                    us: (s.total_ns - s.first_ns) as f64 / 1e3,
                })
            })
            .collect();
        Some(ClassReport {
            class: class.name(),
            all: self.table(&of_class, block, self.window.len_s()),
            peak: peak.map(|p| self.peak_table(&of_class, block, p)),
            by_size: bins(&points),
            steps,
            by_load: duration_by_load(&loaded),
        })
    }

    /// The table of requests in `kept` that ended in the peak window.
    fn peak_table(&self, kept: &[&Kept], block: i64, peak: PeakWindow) -> ClassTable {
        let from = (peak.start_s * 1e9) as i64;
        let to = ((peak.start_s + peak.duration_s) * 1e9) as i64;
        let in_peak: Vec<&Kept> = kept
            .iter()
            .filter(|k| from <= k.end_ns && k.end_ns < to)
            .copied()
            .collect();
        self.table(&in_peak, block, peak.duration_s)
    }

    fn table(&self, kept: &[&Kept], block: i64, seconds: f64) -> ClassTable {
        let points: Vec<SizePoint> = kept.iter().filter_map(|k| k.size).collect();
        let directs: Vec<DirectPoint> = kept.iter().map(|k| k.direct).collect();
        let mut totals = Latencies::new();
        let mut firsts = Latencies::new();
        points.iter().for_each(|p| {
            totals.add(p.total_ns);
            firsts.add(p.first_ns);
        });
        let direct = direct(&directs);
        let classical = classical(&points, block);
        let verdict = classical.as_ref().map(|c| judge(c, &direct));
        // Requests that are not known to be atomic or not are left out of both sums.
        let mut with_data = 0;
        let mut with_data_ns = 0;
        let mut atomic = 0;
        let mut atomic_ns = 0;
        for k in kept {
            let (Some(is_atomic), Some(size)) = (k.atomic, k.size) else {
                continue;
            };
            with_data += 1;
            with_data_ns += i128::from(size.total_ns);
            if is_atomic {
                atomic += 1;
                atomic_ns += i128::from(size.total_ns);
            }
        }
        let requests = kept.len() as u64 * self.one_in;
        ClassTable {
            requests,
            per_s: if seconds > 0.0 {
                requests as f64 / seconds
            } else {
                0.0
            },
            total_p50_us: totals.quantile_us(0.5),
            total_p95_us: totals.quantile_us(0.95),
            first_p50_us: firsts.quantile_us(0.5),
            classical: classical.filter(|_| verdict.as_ref().is_some_and(|v| v.valid)),
            classical_verdict: verdict,
            direct,
            atomic: atomic_share(atomic, with_data, atomic_ns, with_data_ns),
        }
    }
}

fn key_of(by: By, r: &Request) -> String {
    match by {
        By::Class => r.class().name().to_owned(),
        By::Process => match (r.comm, r.tgid) {
            (Some(comm), Some(tgid)) => format!("{} ({tgid})", comm.to_text()),
            (None, Some(tgid)) => tgid.to_string(),
            _ => unknown(),
        },
        By::Path => r.path.as_deref().map_or_else(unknown, str::to_owned),
        By::Cgroup => r.cgroup.map_or_else(unknown, |c| c.to_string()),
    }
}

fn unknown() -> String {
    "?".to_owned()
}

fn direct_point(r: &Request, device: Option<(i64, i64)>) -> DirectPoint {
    let first = r.first.first();
    let second = r.first.get(1);
    let later = r.ios() - 1;
    let (reads, hits) = reads_and_hits(r).unwrap_or((0, 0));
    DirectPoint {
        open_ns: r.open_ns,
        first_ns: first.map(|io| io.duration_ns),
        second_ns: second.map(|io| io.duration_ns),
        // A read among writes does not speak for them.
        second_hit: second
            .filter(|_| r.class() == RequestClass::In)
            .and_then(|io| io.how.cache_hit()),
        later_ns: first
            .filter(|_| later > 0)
            .map(|io| (r.active_ns - io.duration_ns) / later),
        close_ns: r.close_ns,
        gaps_ns: r.gaps_ns().filter(|_| r.ios() > 0),
        device_ns: device.map(|d| d.0).filter(|_| r.ios() > 0),
        reads,
        hits,
    }
}

fn groups(sums: impl Iterator<Item = (String, GroupSums)>) -> Vec<Group> {
    let mut out: Vec<Group> = sums
        .map(|(key, mut s)| Group {
            name: key,
            total_p50_us: s.totals.quantile_us(0.5),
            sync: s.syncs.finish(),
            gap: s.gap,
        })
        .collect();
    out.sort_by(|a, b| {
        b.gap
            .call_s
            .total_cmp(&a.gap.call_s)
            .then_with(|| a.name.cmp(&b.name))
    });
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rng;
    use super::*;
    use crate::model::{DataIo, How, SyncKind};

    /// A minute of whole-file reads: open 5 us, each 8 KiB 40 us from the device, 3 us between calls.
    fn reads(n: i64) -> Vec<Request> {
        let mut random = Rng::new(1);
        (0..n)
            .map(|i| {
                let bytes = 1 + (random.uniform() * 40_000.0) as i64;
                let ios = (bytes + 8191) / 8192;
                let start = i * 60_000_000_000 / n;
                let io = |k: i64| DataIo {
                    after_ns: 8_000 + 43_000 * k,
                    duration_ns: 40_000,
                    bytes: 8192,
                    how: How::DEVICE,
                };
                let last = 8_000 + 43_000 * ios - 3_000;
                Request {
                    open_ns: Some(5_000),
                    close_ns: Some(1_000),
                    last_after_ns: Some(last),
                    active_ns: 40_000 * ios,
                    ios_in: ios,
                    bytes_in: bytes,
                    device_ios: ios,
                    slept_ios: ios,
                    first: (0..ios.min(4)).map(io).collect(),
                    tgid: Some(7),
                    path: Some(format!("/f{}", i % 50).into()),
                    ..Request::new(start, start + last + 2_000)
                }
            })
            .collect()
    }

    #[test]
    fn a_simulated_server_is_taken_apart() {
        let mut b = FilesReportBuilder::new(Window::new(0, 60_000_000_000), By::Path);
        reads(6000).iter().for_each(|r| b.push(r));
        b.push(&Request {
            sync: Some(SyncKind::Fsync),
            ..Request::new(59_000_000_000, 59_100_000_000)
        });
        let r = b.finish();
        assert_eq!(
            (
                r.requests,
                r.syncs,
                r.groups.len(),
                r.files.len(),
                r.slowest.len()
            ),
            (6000, 1, 51, 20, 20)
        );
        assert_eq!(
            (
                r.slowest[0].class,
                r.slowest_syncs.len(),
                r.slowest_syncs[0].call_us
            ),
            ("in", 1, 100_000.0)
        );
        // Five I/Os of 40 us after an open of 5 us; the gaps of 3 us each are the program's.
        assert_eq!(
            (r.slowest[0].call_us, r.slowest[0].total_us),
            (205.0, 220.0)
        );
        let c = &r.classes[0];
        assert_eq!(
            (c.class, c.steps.map(|s| s.block_bytes)),
            ("in", Some(8192))
        );
        let k = c.all.classical.expect("both sizes");
        assert!(
            (k.io_us - 43.0).abs() < 0.01 && (k.overhead_us - 5.0).abs() < 0.01,
            "{k:?}"
        );
        assert!(
            c.all.classical_verdict.as_ref().is_some_and(|v| v.valid),
            "{:?}",
            c.all.classical_verdict
        );
        assert_eq!(c.all.direct.open_call.map(|p| p.p50_us), Some(5.0));
        assert_eq!(c.all.direct.cache_hit_percent, Some(0.0));
        let a = c.all.atomic.expect("requests");
        assert!(
            (a.low_percent..=a.high_percent).contains(&(100.0 * 8192.0 / 40_000.0)),
            "{a:?}"
        );
        assert!(r.peak_window.is_some() && c.peak.is_some() && c.by_load.is_some());
    }

    #[test]
    fn no_part_has_a_greater_median_than_the_whole_and_what_does_not_apply_is_hidden() {
        let mut b = FilesReportBuilder::new(Window::new(0, 60_000_000_000), By::Path);
        for (i, (bytes, ns)) in [(8192, 11_400), (16_384, 7_566_000)]
            .into_iter()
            .enumerate()
        {
            let io = DataIo {
                after_ns: 0,
                duration_ns: ns,
                bytes,
                how: How::DEVICE,
            };
            b.push(&Request {
                last_after_ns: Some(ns),
                active_ns: ns,
                ios_in: 1,
                bytes_in: bytes,
                first: vec![io],
                ..Request::new(i as i64, 1_000_000_000)
            });
        }
        let all = &b.finish().classes[0].all;
        assert_eq!(
            (all.total_p50_us, all.first_p50_us),
            (Some(11.4), Some(11.4))
        );
        assert_eq!(
            all.direct.first_io.map(|p| p.p50_us),
            Some(11.4),
            "not 3788.7, between the two"
        );
        assert_eq!(all.classical, None);
        assert!(
            all.classical_verdict
                .as_ref()
                .is_some_and(|v| !v.valid && v.why.contains("negative")),
            "{:?}",
            all.classical_verdict
        );
    }

    #[test]
    fn what_was_opened_before_counts_in_sums_only() {
        let mut b = FilesReportBuilder::new(Window::new(0, 2_000_000_000), By::Class);
        let old = Request {
            flags: RequestFlags::UNKNOWN_START,
            ios_in: 5,
            bytes_in: 100,
            last_after_ns: Some(9),
            ..Request::new(10, 1000)
        };
        b.push(&old);
        b.push(&Request::new(10, 3_000_000_000));
        let r = b.finish();
        assert_eq!(
            (
                r.requests,
                r.unknown_start,
                r.groups[0].gap.bytes_in,
                r.slowest.len()
            ),
            (1, 1, 100, 0)
        );
        assert_eq!((r.classes[0].all.total_p50_us, r.peak_window), (None, None));
    }
}
