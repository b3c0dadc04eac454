//! `--hist` and `--true`: statistics of single I/Os per interval from the kernel's tracepoints, beside the counters.

use super::list::{DeviceList, EntryKind};
use crate::cli::iostat::Options;
use iolens_core::analysis::device::exact::{Closed, DeviceExact, Intervals};
use iolens_core::model::DevId;
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::Topology;
use iolens_recorder::{Feed, FeedOptions, SourceChoice, Taken};
use std::time::Duration;

/// Interval between reads of the ring.
pub const POLL: Duration = Duration::from_millis(10);
/// Maximum time that a report waits for I/Os in flight at the end of its interval; also limited to a tenth of the
/// interval.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Statistics of the last interval's single I/Os.
#[derive(Debug, Default)]
pub struct Exact {
    /// `None`: nothing is known about the interval.
    closed: Option<Closed>,
}

impl Exact {
    /// Statistics of a whole disk.
    pub fn of(&self, number: Option<(u32, u32)>) -> Option<DeviceExact> {
        let (major, minor) = number?;
        let closed = self.closed.as_ref()?;
        Some(
            closed
                .devices
                .get(&DevId::new(major, minor))
                .unwrap_or(&closed.idle)
                .clone(),
        )
    }
}

/// Attaches the probes, if `--hist` or `--true` needs them. If that fails, one line on stderr says why, and the
/// columns stay empty: the report itself is never prevented.
pub fn watch(options: &Options, recorded: bool, timed: bool) -> Option<Box<Watch>> {
    if !options.exact && !options.percentiles {
        return None;
    }
    let why_not = if recorded {
        "recorded counters hold no single I/Os".to_owned()
    } else if !timed {
        "they are of an interval; give one, as in iolens iostat -x --true 1".to_owned()
    } else {
        match Watch::start() {
            Ok(watch) => return Some(Box::new(watch)),
            Err(e) => format!("single I/Os cannot be seen: {e} (iolens doctor says more)"),
        }
    };
    warn(&format!(
        "--hist, --true: {why_not}; those columns are left empty"
    ));
    None
}

/// One line on standard error.
fn warn(message: &str) {
    let message = crate::present::escape::terminal(message);
    super::output::write_error(format!("iolens iostat: {message}\n").as_bytes());
}

/// An attached tracer and the current interval.
pub struct Watch {
    feed: Feed,
    intervals: Option<Intervals>,
    seen_to_ns: i64,
    broken: bool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("seen_to_ns", &self.seen_to_ns)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Loads and attaches the BPF programs.
    ///
    /// # Errors
    /// A one-line text that says why the probes cannot be attached.
    pub fn start() -> Result<Watch, String> {
        let topology = Topology::read("/".as_ref())
            .map_err(|e| format!("/sys/block cannot be listed: {e}"))?;
        let options = FeedOptions {
            attribution: false,
            ..FeedOptions::new(SourceChoice::Ebpf)
        };
        let feed = Feed::open(&options, None, &topology).map_err(|e| format!("{e:#}"))?;
        Ok(Watch {
            feed,
            intervals: None,
            seen_to_ns: i64::MIN,
            broken: false,
        })
    }

    /// Reads the ring. An error is reported once, and disables the statistics.
    pub fn poll(&mut self) {
        let mut taken = Taken::default();
        if self.broken {
            return;
        }
        if let Err(e) = self.feed.drain(&mut taken) {
            warn(&format!(
                "{e:#}; the columns of --hist and --true are left empty from now on"
            ));
            self.broken = true;
        }
        if let Some(intervals) = &mut self.intervals {
            taken.lost.iter().for_each(|l| intervals.lost(l));
            taken.ios.iter().for_each(|io| intervals.push(io));
        }
        self.seen_to_ns = taken.complete_to_ns.unwrap_or(self.seen_to_ns);
    }

    /// Ends the current interval at `at_ns` of the monotonic clock, when the counters of `list` in `slot` were read,
    /// and starts the next. The first call only starts an interval.
    pub fn close(&mut self, at_ns: i64, period: Duration, list: &DeviceList, slot: usize) -> Exact {
        let at_ns = at_ns - self.feed.start_ns();
        let Some(intervals) = &mut self.intervals else {
            self.poll();
            self.intervals = Some(Intervals::new(at_ns));
            return Exact::default();
        };
        intervals.end_at(at_ns);
        self.poll();
        self.wait_for_stragglers(at_ns, period, list, slot);
        let closed = self
            .intervals
            .as_mut()
            .map(Intervals::close)
            .filter(|_| !self.broken);
        if let Some(lost) = closed.as_ref().map(|c| c.lost_ios).filter(|n| *n > 0) {
            warn(&format!(
                "{lost} I/Os of an interval are missing from what --hist and --true say of it"
            ));
        }
        Exact { closed }
    }

    /// Time since the feed's start, the clock of its I/Os and of the ends of intervals.
    fn now_ns(&self) -> i64 {
        monotonic_ns() - self.feed.start_ns()
    }

    fn wait_for_stragglers(
        &mut self,
        at_ns: i64,
        period: Duration,
        list: &DeviceList,
        slot: usize,
    ) {
        let until_ns = at_ns + i64::try_from(MAX_WAIT.min(period / 10).as_nanos()).unwrap_or(0);
        while !self.broken
            && self.now_ns() < until_ns
            && (self.seen_to_ns <= at_ns || !self.all_completed(list, slot))
        {
            std::thread::sleep(POLL.min(period / 20));
            self.poll();
        }
    }

    /// Whether everything that was in flight at the end of the interval, according to the counters, has completed
    /// since.
    fn all_completed(&self, list: &DeviceList, slot: usize) -> bool {
        let Some(intervals) = &self.intervals else {
            return true;
        };
        let disks = list
            .entries()
            .iter()
            .filter(|e| e.exists && is_disk(e.kind));
        disks
            .filter_map(|e| {
                e.number
                    .map(|(a, b)| (DevId::new(a, b), e.slots[slot].in_flight))
            })
            .all(|(dev, n)| {
                // The kernel has printed negative in-flight counts as wrapped unsigned numbers; these are ignored.
                n == 0 || n > u64::from(u32::MAX) / 2 || intervals.straddling(dev) >= n
            })
    }
}

/// Whether single I/Os are known for this kind of entry: they name whole disks, never partitions.
pub fn is_disk(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Disk | EntryKind::DiskWithPartitions)
}
