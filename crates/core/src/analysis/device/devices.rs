//! Counts, sizes and latencies by class (A6), busy time (A2) and concurrency (A3) of each device, and busy time by
//! class (A4).

use crate::analysis::device::level::LevelTime;
use crate::analysis::device::summary::{ClassSummary, Concurrency, DeviceSummary, DevicesSummary};
use crate::analysis::math::runs::Runs;
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::latencies::{LOW_N, Latencies};
use crate::analysis::stream::order::{Clipped, End, Span, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId, Io, LossReason, Lost};

/// Number of lost I/Os; `None` once a loss of unknown size is added.
#[derive(Debug, Clone, Copy)]
struct LostCount(Option<u64>);

impl LostCount {
    fn add(&mut self, ios: Option<i64>) {
        self.0 = match (self.0, ios) {
            (Some(a), Some(b)) => Some(a + b.max(0) as u64),
            _ => None,
        };
    }
}

/// Sums of one class while the stream runs.
#[derive(Debug, Default)]
struct ClassSums {
    bytes: u64,
    merges: Option<u64>,
    errors: Option<u64>,
    total: Latencies,
    queued: (u64, i128),
    device_ns: i128,
}

impl ClassSums {
    fn add(&mut self, io: &Io) {
        self.bytes += io.bytes.max(0) as u64;
        if let Some(m) = io.merges {
            *self.merges.get_or_insert(0) += m.max(0) as u64;
        }
        if let Some(e) = io.error {
            *self.errors.get_or_insert(0) += u64::from(e != 0);
        }
        self.total.add(io.total_ns());
        if let Some(q) = io.queue_ns {
            self.queued.0 += 1;
            self.queued.1 += i128::from(q);
        }
        self.device_ns += i128::from(io.device_ns);
    }

    fn finish(&mut self, runs: &Runs) -> ClassSummary {
        let n = self.total.n();
        ClassSummary {
            ios: Some(n),
            bytes: Some(self.bytes),
            merges: self.merges,
            errors: self.errors,
            mean_us: self.total.mean_us(),
            p50_us: self.total.quantile_us(0.5),
            p75_us: self.total.quantile_us(0.75),
            p90_us: self.total.quantile_us(0.9),
            p95_us: self.total.quantile_us(0.95),
            p99_us: self.total.quantile_us(0.99),
            p999_us: self.total.quantile_us(0.999),
            p50_ci_us: self.total.quantile_ci_us(0.5),
            p90_ci_us: self.total.quantile_ci_us(0.9),
            p99_ci_us: self.total.quantile_ci_us(0.99),
            p999_ci_us: self.total.quantile_ci_us(0.999),
            max_us: self.total.max_us(),
            queue_mean_us: mean_us(self.queued.1, self.queued.0),
            device_mean_us: mean_us(self.device_ns, n),
            sequential_percent: runs.percent(),
            low_n: n < LOW_N,
        }
    }
}

/// Mean in microseconds; `None` without I/Os.
fn mean_us(sum_ns: i128, n: u64) -> Option<f64> {
    (n > 0).then(|| sum_ns as f64 / n as f64 / 1e3)
}

/// Number in flight over time (start to completion) of a device or set of devices: all, reads, writes, and both at once.
#[derive(Debug, Clone)]
pub(in crate::analysis) struct DeviceSweep {
    window: Window,
    pub(in crate::analysis) all: LevelTime,
    pub(in crate::analysis) read: LevelTime,
    pub(in crate::analysis) write: LevelTime,
    pub(in crate::analysis) both: LevelTime,
    runs: [Runs; 4],
}

impl DeviceSweep {
    pub(in crate::analysis) fn new(window: Window) -> DeviceSweep {
        DeviceSweep {
            window,
            all: LevelTime::new(window),
            read: LevelTime::new(window),
            write: LevelTime::new(window),
            both: LevelTime::new(window),
            runs: Default::default(),
        }
    }

    #[inline]
    pub(in crate::analysis) fn change(&mut self, at_ns: i64, class: Class, by: i64) {
        self.all.change(at_ns, by);
        let (own, other) = match class {
            Class::Read => (&mut self.read, &self.write),
            Class::Write => (&mut self.write, &self.read),
            Class::Discard | Class::Flush => return,
        };
        let before = own.level() > 0;
        own.change(at_ns, by);
        let after = own.level() > 0;
        if before != after && other.level() > 0 {
            self.both
                .change(at_ns, i64::from(after) - i64::from(before));
        }
    }

    /// Adds the part of a late `span` before `to_ns`, the current position of the sweep.
    pub(in crate::analysis) fn late(&mut self, span: &Span, to_ns: i64) {
        let from_ns = span.start_ns.max(self.window.from_ns);
        let to_ns = to_ns.min(self.window.to_ns);
        if from_ns >= to_ns {
            return;
        }
        self.all.add_late(from_ns, to_ns);
        let (own, other) = match span.class {
            Class::Read => (&mut self.read, &mut self.write),
            Class::Write => (&mut self.write, &mut self.read),
            Class::Discard | Class::Flush => return,
        };
        // The late I/O was in flight all the time, so both classes were whenever the other class was.
        let more = other.busy_in(from_ns, to_ns) - self.both.busy_in(from_ns, to_ns);
        self.both.fill_late(from_ns, to_ns, more);
        own.add_late(from_ns, to_ns);
    }

    /// Closes the window; nothing was recorded in `unrecorded_ns` of it.
    pub(in crate::analysis) fn finish(&mut self, window: Window, unrecorded_ns: i64) {
        for levels in [
            &mut self.all,
            &mut self.read,
            &mut self.write,
            &mut self.both,
        ] {
            levels.finish(window, unrecorded_ns);
        }
    }
}

/// Sweeps of single devices, by device number.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Sweeps(pub Vec<DeviceSweep>);

impl Sweep for Sweeps {
    fn start(&mut self, span: &Span) {
        let sweep = &mut self.0[span.key as usize];
        sweep.change(span.start_ns, span.class, 1);
        if sweep.window.contains(span.done_ns) {
            sweep.runs[span.class as usize].add(span);
        }
    }

    fn done(&mut self, end: &End) {
        self.0[end.key as usize].change(end.at_ns, end.class, -1);
    }

    fn late(&mut self, span: &Span, to_ns: i64) {
        self.0[span.key as usize].late(span, to_ns);
    }
}

/// Number in flight between issue and completion, by device number. Classes are not distinguished.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Issued(pub Vec<LevelTime>);

impl Sweep for Issued {
    fn start(&mut self, span: &Span) {
        self.0[span.key as usize].change(span.start_ns, 1);
    }

    fn done(&mut self, end: &End) {
        self.0[end.key as usize].change(end.at_ns, -1);
    }

    fn late(&mut self, span: &Span, to_ns: i64) {
        self.0[span.key as usize].add_late(span.start_ns, to_ns);
    }
}

#[derive(Debug)]
struct ClassTotals {
    dev: DevId,
    classes: [ClassSums; 4],
    lost: LostCount,
}

/// Sums over completed I/Os. Concurrency is computed separately, by sweeps in order of time.
#[derive(Debug)]
pub(in crate::analysis) struct Counts {
    window: Window,
    index: DeviceIndex,
    sums: Vec<ClassTotals>,
    last_done_ns: Option<i64>,
    lost: LostCount,
    /// The part of `lost` whose device is not known.
    lost_anywhere: LostCount,
    censored: u64,
}

impl Counts {
    /// For `window`, which may be open.
    pub fn new(window: Window) -> Counts {
        Counts {
            window,
            index: DeviceIndex::default(),
            sums: Vec::new(),
            last_done_ns: None,
            lost: LostCount(Some(0)),
            lost_anywhere: LostCount(Some(0)),
            censored: 0,
        }
    }

    #[inline]
    fn number(&mut self, dev: DevId) -> u32 {
        let i = self.index.number(dev);
        if i as usize == self.sums.len() {
            self.sums.push(ClassTotals {
                dev,
                classes: Default::default(),
                lost: LostCount(Some(0)),
            });
        }
        i
    }

    /// Counts `io` if it completes inside the window. Returns the number of its device; `None` if it completes earlier.
    pub fn admit(&mut self, io: &Io) -> Option<u32> {
        if io.done_ns < self.window.from_ns {
            return None;
        }
        let i = self.number(io.dev);
        if self.window.contains(io.done_ns) {
            self.sums[i as usize].classes[io.class() as usize].add(io);
            self.last_done_ns = self.last_done_ns.max(Some(io.done_ns));
        }
        Some(i)
    }

    /// The devices by their numbers.
    pub fn known(&self) -> &[DevId] {
        self.index.devices()
    }

    /// The window as it stands when the recording ends at `end_ns`.
    pub fn closed_window(&self, end_ns: i64) -> Window {
        self.window.closed_at(end_ns, self.last_done_ns)
    }

    /// Latencies (start to done) of all classes of device number `i`.
    pub fn latencies(&self, i: usize) -> Latencies {
        let mut all = Latencies::new();
        self.sums[i]
            .classes
            .iter()
            .for_each(|c| all.merge(&c.total));
        all
    }

    /// Adds a loss, also to its device if that is known.
    pub fn lost(&mut self, lost: &Lost) {
        if lost.to_ns < self.window.from_ns || lost.from_ns >= self.window.to_ns {
            return;
        }
        if lost.reason == LossReason::Censored {
            self.censored += lost.ios.unwrap_or(0).max(0) as u64;
        }
        if !lost.reason.is_loss() {
            return;
        }
        self.lost.add(lost.ios);
        if let Some(dev) = lost.dev {
            let i = self.number(dev);
            self.sums[i as usize].lost.add(lost.ios);
        } else {
            self.lost_anywhere.add(lost.ios);
        }
    }

    /// The summary. `sweeps` and `issued` are in the order of [`Counts::known`]; nothing was recorded in
    /// `unrecorded_ns` of the window.
    pub fn finish(
        self,
        end_ns: i64,
        unrecorded_ns: i64,
        sweeps: Vec<DeviceSweep>,
        issued: Vec<LevelTime>,
        clipped: Clipped,
    ) -> DevicesSummary {
        let window = self.closed_window(end_ns);
        let parts = self.sums.into_iter().zip(sweeps).zip(issued);
        let mut devices: Vec<_> = parts
            .map(|((sums, mut sweep), mut issued)| {
                sweep.finish(window, unrecorded_ns);
                issued.finish(window, unrecorded_ns);
                summary(sums, &sweep, &issued)
            })
            .collect();
        devices.sort_by_key(|d| d.dev);
        DevicesSummary {
            window,
            ios: devices.iter().map(DeviceSummary::ios).sum(),
            bytes: devices.iter().map(DeviceSummary::bytes).sum(),
            devices,
            lost_ios: self.lost.0,
            lost_anywhere: self.lost_anywhere.0,
            censored_ios: self.censored,
            clipped,
        }
    }
}

fn summary(mut sums: ClassTotals, sweep: &DeviceSweep, issued: &LevelTime) -> DeviceSummary {
    let classes = std::array::from_fn(|c| sums.classes[c].finish(&sweep.runs[c]));
    DeviceSummary {
        dev: sums.dev,
        classes,
        busy_percent: sweep.all.busy_percent(),
        busy_read_percent: sweep.read.busy_percent(),
        busy_write_percent: sweep.write.busy_percent(),
        busy_both_percent: sweep.both.busy_percent(),
        busy_device_percent: issued.busy_percent(),
        concurrency: Concurrency::of(&sweep.all),
        lost_ios: sums.lost.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::{ReportBuilder, ReportPlan};
    use crate::model::Op;
    use proptest::prelude::*;

    const A: DevId = DevId(8 << 20);

    fn io(done_ns: i64, op: Op, queue_ns: i64, device_ns: i64) -> Io {
        Io::new(done_ns, A, op, 4096, Some(queue_ns), device_ns)
    }

    /// Of a recording that holds single I/Os, if any happened.
    fn builder(window: Window) -> ReportBuilder {
        ReportBuilder::with_plan(
            window,
            ReportPlan {
                has_ios: true,
                ..ReportPlan::default()
            },
        )
    }

    fn summary_of(ios: &[Io], window: Window, end_ns: i64) -> DevicesSummary {
        let mut builder = builder(window);
        ios.iter().for_each(|io| builder.push(io));
        builder.finish(end_ns).devices
    }

    #[test]
    fn nothing_gives_an_honest_nothing() {
        let s = summary_of(&[], Window::OPEN, 0);
        assert_eq!((s.devices.len(), s.ios, s.lost_ios), (0, 0, Some(0)));
    }

    #[test]
    fn d_d_1_is_busy_by_rate_times_service() {
        // 100 reads/s of 2 ms each: U = 20 %, mean N = 0.2.
        let ios: Vec<_> = (0..1000)
            .map(|i| io(i * 10_000_000 + 2_000_000, Op::READ, 500_000, 1_500_000))
            .collect();
        let s = summary_of(&ios, Window::new(0, 10_000_000_000), 0);
        let d = &s.devices[0];
        assert_eq!(d.busy_percent, Some(20.0));
        assert_eq!(d.busy_device_percent, Some(15.0));
        assert_eq!(
            (
                d.busy_read_percent,
                d.busy_write_percent,
                d.busy_both_percent
            ),
            (Some(20.0), Some(0.0), Some(0.0))
        );
        assert_eq!(d.concurrency.mean, Some(0.2));
        assert_eq!(
            (d.concurrency.p75, d.concurrency.p99, d.concurrency.max),
            (Some(0), Some(1), Some(1))
        );
        let r = d.class(Class::Read);
        assert_eq!(
            (r.ios, r.bytes, r.mean_us, r.p99_us),
            (Some(1000), Some(4_096_000), Some(2000.0), Some(2000.0))
        );
        assert_eq!(
            (r.queue_mean_us, r.device_mean_us),
            (Some(500.0), Some(1500.0))
        );
        let w = d.class(Class::Write);
        assert_eq!(
            (w.ios, w.mean_us, w.p50_us, w.sequential_percent),
            (Some(0), None, None, None)
        );
    }

    #[test]
    fn sequential_is_judged_in_the_order_of_start() {
        // Three reads in a row on disk, completing in reverse.
        let at = |done, start, sector| Io {
            sector: Some(sector),
            ..io(done, Op::READ, 0, done - start)
        };
        let ios = [at(100, 30, 16), at(110, 20, 8), at(120, 10, 0)];
        let s = summary_of(&ios, Window::OPEN, 0);
        assert_eq!(
            s.devices[0].class(Class::Read).sequential_percent,
            Some(100.0)
        );
    }

    #[test]
    fn many_devices_keep_their_numbers() {
        let mut index = DeviceIndex::default();
        for round in 0..2 {
            for d in 0..100 {
                assert_eq!(index.number(DevId(7 * d)), d as u32, "round {round}");
            }
        }
        assert_eq!(index.devices().len(), 100);
    }

    #[test]
    fn an_io_across_the_end_is_busy_but_not_counted() {
        let s = summary_of(&[io(150, Op::WRITE, 0, 100)], Window::new(0, 100), 0);
        assert_eq!(s.ios, 0);
        assert_eq!(s.devices[0].busy_percent, Some(50.0));
    }

    #[test]
    fn losses_are_counted_and_can_be_unknown() {
        let lost = |ios, dev, reason| Lost {
            from_ns: 0,
            to_ns: 9,
            dev,
            class: None,
            reason,
            ios,
            bytes: None,
            merges: None,
        };
        let mut d = builder(Window::OPEN);
        d.lost(&lost(Some(5), Some(A), LossReason::RingFull));
        d.lost(&lost(Some(2), None, LossReason::WriterBusy));
        d.lost(&lost(Some(3), Some(A), LossReason::Censored));
        d.lost(&lost(Some(70), Some(A), LossReason::Retention));
        let s = d.finish(10).devices;
        assert_eq!(
            (s.lost_ios, s.censored_ios, s.devices[0].lost_ios),
            (Some(7), 3, Some(5))
        );
        assert_eq!(
            (
                s.lost_ios_without(|_| false),
                s.lost_ios_without(|dev| dev == A)
            ),
            (Some(7), Some(2)),
            "what is of no known device counts in any case"
        );
        let mut d = builder(Window::OPEN);
        d.lost(&lost(Some(5), Some(A), LossReason::RingFull));
        d.lost(&lost(None, Some(A), LossReason::Corrupt));
        let s = d.finish(10).devices;
        assert_eq!(
            (s.lost_ios, s.lost_ios_without(|dev| dev == A)),
            (None, Some(0))
        );
    }

    proptest! {
        #[test]
        fn utilisations_obey_their_identities(spans in prop::collection::vec((1i64..2000, 0i64..300, 0i64..100, any::<bool>()), 1..80)) {
            let mut ios: Vec<Io> = spans.iter().map(|(done, dev, q, read)| io(*done, if *read { Op::READ } else { Op::WRITE }, *q, *dev)).collect();
            ios.sort_by_key(|i| i.done_ns);
            let s = summary_of(&ios, Window::new(0, 2000), 0);
            let d = &s.devices[0];
            let all = d.busy_percent.expect("window");
            let r = d.busy_read_percent.expect("window");
            let w = d.busy_write_percent.expect("window");
            let both = d.busy_both_percent.expect("window");
            prop_assert!(r.max(w) <= all + 1e-9 && all <= r + w + 1e-9);
            prop_assert!((r + w - all - both).abs() < 1e-9, "A4: U_in + U_out - U_all = U_both");
            prop_assert!(d.busy_device_percent.expect("window") <= all + 1e-9);
            // Little: L T = sum of residence inside the window.
            let residence: i64 = ios.iter().map(|i| i.done_ns - i.start_ns().max(0)).sum();
            prop_assert!((d.concurrency.mean.expect("window") * 2000.0 - residence as f64).abs() < 1e-6);
            prop_assert!((d.concurrency.percent_at[0] - (100.0 - all)).abs() < 1e-9, "P0 = 1 - U");
        }
    }
}
