//! Compares a recording with the kernel's own counts once a second. An I/O that was neither recorded nor counted as
//! lost is reported as [`LossReason::Unaccounted`].
//!
//! A completion passes the tracepoint first and is counted by the kernel afterwards. The counters are read before the
//! time of the sample is taken. Up to that time `/proc/diskstats` therefore never counts more I/Os than were recorded
//! or lost, unless some are missing. The kernel may count I/Os that complete shortly before a device's first sample
//! only after it, so these are counted as recorded, too. Only request-based devices are checked: in `/proc/diskstats`
//! dm, md, zram and brd each count in their own way (docs/tracing.md).

use std::collections::{HashMap, VecDeque};

use anyhow::Result;
use iolens_core::model::{
    Class, CounterSample, DevId, Device, DeviceKind, DiskCounters, Io, LossReason, Lost,
};
use iolens_observe::counters::monotonic_ns;

use crate::feed::{Feed, Taken};

/// Number of consecutive samples after which a difference is reported, because losses may be noticed later than
/// counted.
const SAMPLES: usize = 3;

/// How long after the tracepoint an I/O may still be uncounted, because a CPU of a virtual machine can stop in between.
/// It is not known whether the first sample includes I/Os that completed this shortly before it.
const UNCOUNTED_NS: i64 = 100_000_000;

/// I/Os by class.
type Counts = [i64; Class::ALL.len()];

#[derive(Debug, Default)]
struct Tally {
    /// The kernel's counts at the first sample; `None` before it.
    first: Option<Counts>,
    /// I/Os recorded, lost or censored since the first sample, and shortly before it.
    ours: Counts,
    lately: Lately,
    /// By how much the kernel's counts exceeded ours in each of the last samples.
    excess: VecDeque<Counts>,
    reported: Counts,
}

impl Tally {
    /// Starts the comparison at the sample `counts`, which was read at `at_ns` or later.
    fn begin(&mut self, at_ns: i64, counts: Counts) {
        self.lately.pass(at_ns);
        let lately = std::mem::take(&mut self.lately);
        *self = Tally {
            first: Some(counts),
            ours: lately.all(),
            lately,
            ..Tally::default()
        };
    }

    /// Adds the kernel's counts of a sample. Returns by how much they exceeded ours in all of the last `samples`
    /// samples; `None` while there are fewer, and before the first.
    fn least_excess(&mut self, now: &Counts, samples: usize) -> Option<Counts> {
        let first = self.first?;
        let excess: Counts = std::array::from_fn(|c| now[c] - first[c] - self.ours[c]);
        self.excess.push_back(excess);
        if self.excess.len() < samples {
            return None;
        }
        let least: Counts =
            std::array::from_fn(|c| self.excess.iter().map(|e| e[c]).min().unwrap_or(0));
        self.excess.pop_front();
        Some(least)
    }
}

/// I/Os of the last [`UNCOUNTED_NS`], and of at most the same time before.
#[derive(Debug, Default)]
struct Lately {
    from_ns: i64,
    since: Counts,
    /// I/Os before `from_ns`.
    before: Counts,
}

impl Lately {
    /// Advances to `at_ns` and drops what is too old.
    fn pass(&mut self, at_ns: i64) {
        let passed_ns = at_ns - self.from_ns;
        if passed_ns < UNCOUNTED_NS {
            return;
        }
        let since = std::mem::take(&mut self.since);
        let is_recent = passed_ns < 2 * UNCOUNTED_NS;
        self.before = if is_recent { since } else { Counts::default() };
        self.from_ns = at_ns;
    }

    fn all(&self) -> Counts {
        std::array::from_fn(|c| self.before[c] + self.since[c])
    }
}

/// A sample of the kernel's counters, to be compared when all I/Os that completed before it have been taken.
#[derive(Debug)]
struct Pending {
    at_ns: i64,
    counts: Vec<(DevId, Counts)>,
}

/// Comparison of recorded I/Os with the kernel's counters.
#[derive(Debug, Default)]
pub struct SelfCheck {
    tallies: HashMap<DevId, Tally>,
    pending: VecDeque<Pending>,
    last_sample_ns: i64,
}

impl SelfCheck {
    /// Samples the kernel's counters in addition to the events of `feed`, notes those of `devices`, and returns the
    /// samples.
    pub fn sample(&mut self, feed: &mut Feed, devices: &[Device]) -> Taken {
        let mut sampled = Taken::default();
        feed.sample_counters_beside_events(&mut sampled);
        self.sampled(monotonic_ns() - feed.start_ns(), &sampled.counters, devices);
        sampled
    }

    /// Takes the observations of `feed`, and adds a loss for I/Os that only the kernel counted.
    ///
    /// # Errors
    /// The rings or the counters cannot be read any more.
    pub fn drain(&mut self, feed: &mut Feed, taken: &mut Taken) -> Result<()> {
        feed.drain(taken)?;
        if let Some(complete_to_ns) = taken.complete_to_ns {
            self.taken(&taken.ios, &mut taken.lost, complete_to_ns, |dev, class| {
                feed.outstanding(dev, class)
            });
        }
        Ok(())
    }

    /// Notes the kernel's counters, which were read before `at_ns` (nanoseconds since the recording's start).
    fn sampled(&mut self, at_ns: i64, samples: &[CounterSample], devices: &[Device]) {
        let compared = samples
            .iter()
            .filter(|s| devices.iter().any(|d| d.id == s.dev && is_comparable(d)));
        let mut counts = Vec::new();
        for sample in compared {
            let now = of_kernel(&sample.counters);
            let tally = self.tallies.entry(sample.dev).or_default();
            // If a count has decreased, the number now belongs to another device.
            let goes_on = tally
                .first
                .is_some_and(|first| now.iter().zip(&first).all(|(now, first)| now >= first));
            if !goes_on {
                tally.begin(sample.at_ns, now);
            }
            counts.push((sample.dev, now));
        }
        // If counters are the only source, nothing is compared: there are no events, and no time up to which all I/Os
        // were taken.
        if !counts.is_empty() {
            self.pending.push_back(Pending { at_ns, counts });
        }
    }

    /// Counts the observations taken from the kernel, and appends missing I/Os to `lost`. `complete_to_ns`: every I/O
    /// completed before it has been taken. `outstanding` returns the number of I/Os of a device and class that the
    /// tracer knows but has not seen complete; if they never complete, the tracer reports them as lost later.
    fn taken(
        &mut self,
        ios: &[Io],
        lost: &mut Vec<Lost>,
        complete_to_ns: i64,
        mut outstanding: impl FnMut(DevId, Class) -> i64,
    ) {
        self.count_lost(lost);
        let mut ios = ios.iter().peekable();
        while self
            .pending
            .front()
            .is_some_and(|p| p.at_ns <= complete_to_ns)
        {
            let Some(p) = self.pending.pop_front() else {
                break;
            };
            while let Some(io) = ios.next_if(|io| io.done_ns <= p.at_ns) {
                self.count_io(io);
            }
            self.compare(&p, SAMPLES, &mut outstanding, lost);
        }
        for io in ios {
            self.count_io(io);
        }
    }

    /// Checks the last I/Os of a recording. I/Os that are missing now are lost.
    pub fn finished(&mut self, ios: &[Io], lost: &mut Vec<Lost>) {
        let Some(last) = self.pending.pop_back() else {
            return;
        };
        self.pending.clear();
        self.count_lost(lost);
        for io in ios.iter().take_while(|io| io.done_ns <= last.at_ns) {
            self.count_io(io);
        }
        for tally in self.tallies.values_mut() {
            tally.excess.clear();
        }
        self.compare(&last, 1, &mut |_, _| 0, lost);
    }

    fn count_lost(&mut self, lost: &[Lost]) {
        for l in lost {
            if let (Some(dev), Some(class), Some(n)) = (l.dev, l.class, l.ios) {
                self.count(dev, class, n, l.to_ns);
            }
        }
    }

    fn count_io(&mut self, io: &Io) {
        self.count(io.dev, io.op.class(), 1, io.done_ns);
    }

    /// Counts I/Os that completed no later than `at_ns`.
    fn count(&mut self, dev: DevId, class: Class, ios: i64, at_ns: i64) {
        let tally = self.tallies.entry(dev).or_default();
        tally.lately.pass(at_ns);
        tally.lately.since[class as usize] += ios;
        tally.ours[class as usize] += ios;
    }

    /// Reports I/Os that were missing in each of the last `samples` samples and have not been reported yet.
    fn compare(
        &mut self,
        p: &Pending,
        samples: usize,
        outstanding: &mut impl FnMut(DevId, Class) -> i64,
        lost: &mut Vec<Lost>,
    ) {
        let from_ns = std::mem::replace(&mut self.last_sample_ns, p.at_ns);
        for (dev, now) in &p.counts {
            let Some(tally) = self.tallies.get_mut(dev) else {
                continue;
            };
            let Some(least) = tally.least_excess(now, samples) else {
                continue;
            };
            // I/Os that are missing in one class and in excess in another exist: losses may have been counted under the
            // wrong class.
            let mut missing_of_all = 0;
            for (least, reported) in least.iter().zip(tally.reported) {
                missing_of_all += least - reported;
            }
            for class in Class::ALL {
                let c = class as usize;
                let mut missing = (least[c] - tally.reported[c]).min(missing_of_all);
                // The tracer reports the I/Os that it still waits for, if they never complete.
                if missing > 0 {
                    missing -= outstanding(*dev, class);
                }
                if missing <= 0 {
                    continue;
                }
                tally.reported[c] += missing;
                missing_of_all -= missing;
                lost.push(Lost {
                    dev: Some(*dev),
                    class: Some(class),
                    ios: Some(missing),
                    ..Lost::somewhere(from_ns, p.at_ns, LossReason::Unaccounted)
                });
            }
        }
    }
}

/// Whether the kernel counts this device's I/Os like the tracer. For request-based dm (multipath) both layers are
/// counted.
fn is_comparable(d: &Device) -> bool {
    d.kind == DeviceKind::Request
        && d.iostats == Some(true)
        && !d.name.starts_with("dm-")
        && d.removed_ns.is_none()
}

fn of_kernel(c: &DiskCounters) -> Counts {
    let mut counts = Counts::default();
    for (class, ios) in [
        (Class::Read, Some(c.read.ios)),
        (Class::Write, Some(c.write.ios)),
        (Class::Discard, c.discard.map(|d| d.ios)),
        (Class::Flush, c.flush.map(|f| f.ios)),
    ] {
        counts[class as usize] = ios.and_then(|n| i64::try_from(n).ok()).unwrap_or(0);
    }
    counts
}

#[cfg(test)]
mod tests {
    use iolens_core::model::Op;

    use super::*;

    const DEV: DevId = DevId(8 << 20);

    fn disk() -> Device {
        Device {
            kind: DeviceKind::Request,
            iostats: Some(true),
            ..Device::named("sda", DEV)
        }
    }

    fn reads(ios: u64) -> CounterSample {
        reads_by(0, ios)
    }

    /// The kernel's count at a time.
    fn reads_by(at_ns: i64, ios: u64) -> CounterSample {
        let mut counters = DiskCounters::default();
        counters.read.ios = ios;
        CounterSample {
            at_ns,
            dev: DEV,
            counters,
        }
    }

    fn read_at(done_ns: i64) -> Io {
        Io::new(done_ns, DEV, Op::READ, 4096, None, 1000)
    }

    /// The kernel's count at each second, our I/Os up to then, and what is reported.
    fn run(kernel: &[u64], ours: &[usize], outstanding: i64) -> Vec<i64> {
        let mut check = SelfCheck::default();
        let mut reported = Vec::new();
        for (i, (kernel, ours)) in kernel.iter().zip(ours).enumerate() {
            let at_ns = i as i64 * 1_000_000_000;
            check.sampled(at_ns, &[reads_by(at_ns, *kernel)], &[disk()]);
            let mut lost = Vec::new();
            let ios: Vec<Io> = (0..*ours).map(|_| read_at(at_ns)).collect();
            check.taken(&ios, &mut lost, at_ns + 1, |_, _| outstanding);
            assert!(
                lost.iter()
                    .all(|l| l.reason == LossReason::Unaccounted && l.dev == Some(DEV))
            );
            reported.push(lost.iter().filter_map(|l| l.ios).sum());
        }
        reported
    }

    #[test]
    fn ios_that_only_the_kernel_counts_are_reported_once() {
        assert_eq!(
            run(&[50, 150, 250, 250, 250, 250], &[0, 0, 0, 0, 0, 0], 0),
            [0, 0, 0, 100, 100, 0]
        );
    }

    /// What is reported, of samples from 1 s on, where `before` was taken before the first and `after` after it.
    fn reported_after(before: &[Io], after: &[Io], kernel: &[u64]) -> i64 {
        let second_ns = 1_000_000_000;
        let mut check = SelfCheck::default();
        let mut lost = Vec::new();
        check.taken(before, &mut lost, second_ns - 1, |_, _| 0);
        let mut ios = after;
        for (i, kernel) in kernel.iter().enumerate() {
            let at_ns = (i as i64 + 1) * second_ns;
            check.sampled(at_ns, &[reads_by(at_ns, *kernel)], &[disk()]);
            check.taken(ios, &mut lost, at_ns + 1, |_, _| 0);
            ios = &[];
        }
        lost.iter().filter_map(|l| l.ios).sum()
    }

    #[test]
    fn what_completed_before_the_first_sample_hides_no_loss() {
        let before = vec![read_at(500_000_000); 1000];
        let kernel = [1000, 1010, 1010, 1010];
        assert_eq!(reported_after(&before, &[], &kernel), 10);
    }

    #[test]
    fn what_the_kernel_counts_only_after_the_first_sample_is_not_missing() {
        let mut before = vec![read_at(500_000_000); 1000];
        before.extend([read_at(940_000_000); 8]);
        let after = [read_at(999_999_000)];
        for first in 1000..=1009 {
            let kernel = [first, 1009, 1009, 1009, 1009, 1009];
            assert_eq!(reported_after(&before, &after, &kernel), 0, "{first}");
        }
    }

    #[test]
    fn the_last_tenth_of_a_second_is_known_and_at_most_two() {
        let mut lately = Lately::default();
        for at_ms in 0..1000_i64 {
            lately.pass(at_ms * 1_000_000);
            lately.since[0] += 1;
            let known = lately.all()[0];
            assert!(
                (at_ms.min(100)..=200).contains(&known),
                "{known} at {at_ms}"
            );
        }
        lately.pass(1_090_000_000);
        assert!(lately.all()[0] >= 10);
        lately.pass(1_300_000_000);
        assert_eq!(lately.all()[0], 0);
    }

    #[test]
    fn late_kernel_counts_are_no_difference() {
        assert_eq!(
            run(&[50, 59, 69, 80, 80, 80], &[0, 10, 10, 10, 0, 0], 0),
            [0; 6]
        );
    }

    #[test]
    fn a_transient_difference_is_not_reported() {
        assert_eq!(
            run(&[0, 10, 10, 10, 10, 10], &[0, 9, 1, 0, 0, 0], 0),
            [0; 6]
        );
    }

    #[test]
    fn outstanding_ios_of_the_tracer_are_not_reported_twice() {
        assert_eq!(
            run(&[0, 10, 10, 10, 10, 10], &[0, 7, 0, 0, 0, 0], 3),
            [0; 6]
        );
        assert_eq!(
            run(&[0, 10, 10, 10, 10, 10], &[0, 7, 0, 0, 0, 0], 2),
            [0, 0, 0, 1, 0, 0]
        );
    }

    #[test]
    fn the_last_sample_counts_at_once_less_what_is_found_lost_at_the_end() {
        let mut check = SelfCheck::default();
        check.sampled(0, &[reads(0)], &[disk()]);
        check.taken(&[], &mut Vec::new(), 1, |_, _| 0);
        check.sampled(1_000, &[reads(10)], &[disk()]);
        let class = Some(Class::Read);
        let mut lost = vec![Lost {
            dev: Some(DEV),
            class,
            ios: Some(2),
            ..Lost::somewhere(0, 900, LossReason::Unseen)
        }];
        let ios: Vec<Io> = (0..7).map(|i| read_at(900 + 50 * i)).collect();
        check.finished(&ios, &mut lost);
        assert_eq!(
            lost.last().map(|l| (l.reason, l.ios)),
            Some((LossReason::Unaccounted, Some(5))),
            "3 of 7 in time"
        );
    }

    #[test]
    fn devices_with_their_own_accounting_are_not_compared() {
        let with = |change: fn(&mut Device)| {
            let mut d = disk();
            change(&mut d);
            is_comparable(&d)
        };
        assert!(with(|_| ()));
        assert!(!with(|d| d.kind = DeviceKind::Bio));
        assert!(!with(|d| d.iostats = Some(false)));
        assert!(!with(|d| d.name = "dm-0".to_owned()));
    }

    #[test]
    fn samples_without_counts_are_not_kept() {
        let mut check = SelfCheck::default();
        let bio_based = Device {
            kind: DeviceKind::Bio,
            ..disk()
        };
        for second in 0..10_000 {
            check.sampled(second * 1_000_000_000, &[], &[disk()]);
            check.sampled(
                second * 1_000_000_000,
                &[reads(1)],
                std::slice::from_ref(&bio_based),
            );
        }
        assert!(check.pending.is_empty());
    }

    #[test]
    fn misclassified_ios_are_not_missing() {
        let mut check = SelfCheck::default();
        let mut reported = Vec::new();
        for i in 0..6 {
            check.sampled(i * 1_000, &[reads(if i == 0 { 0 } else { 12 })], &[disk()]);
            let class = Some(Class::Write);
            let unseen = Lost {
                dev: Some(DEV),
                class,
                ios: Some(5),
                ..Lost::somewhere(0, 900, LossReason::Unseen)
            };
            let mut lost = if i == 1 { vec![unseen] } else { Vec::new() };
            let ios = if i == 1 {
                vec![read_at(1); 4]
            } else {
                Vec::new()
            };
            check.taken(&ios, &mut lost, i * 1_000 + 1, |_, _| 0);
            reported.extend(
                lost.iter()
                    .filter(|l| l.reason == LossReason::Unaccounted)
                    .map(|l| (l.class, l.ios)),
            );
        }
        assert_eq!(
            reported,
            [(Some(Class::Read), Some(3))],
            "12 of the kernel, 4 recorded and 5 lost"
        );
    }

    #[test]
    fn a_reused_device_number_starts_anew() {
        assert_eq!(
            run(&[50, 150, 3, 3, 3, 3, 3], &[0, 100, 0, 0, 0, 0, 0], 0),
            [0; 7]
        );
        assert_eq!(
            run(&[50, 150, 3, 13, 13, 13], &[0, 100, 0, 0, 0, 0], 0),
            [0, 0, 0, 0, 0, 10],
            "its own losses are reported"
        );
    }
}
