//! Passes observations of a recorder to a viewer. If the viewer is too slow, it misses observations; the recording does
//! not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use iolens_core::model::{Device, Io, LossReason, Lost};

/// Interval at which observations are delivered, so that a viewer of a busy recorder is woken ten times a second.
const GATHER_NS: i64 = 100_000_000;
/// Number of I/Os that are delivered at once before that; less than a MiB.
const MAX_GATHERED_IOS: usize = 4096;
/// Maximum number of deliveries that wait for the viewer.
const MAX_WAITING: usize = 32;
/// The reason of I/Os that the viewer did not take in time. The recording has them, so no `lost` row is stored.
const VIEW_BUSY: LossReason = LossReason::WriterBusy;
/// Number of buffers kept for reuse, because reused memory causes no page faults.
const MAX_SPARE: usize = 4;

/// Recent observations of a recorder, in the session's time.
#[derive(Debug, Default)]
pub struct Seen {
    /// I/Os, ordered by completion.
    pub ios: Vec<Io>,
    /// Losses, including I/Os that were recorded but not passed to the viewer (`VIEW_BUSY`, by name `writer-busy`).
    pub lost: Vec<Lost>,
    /// Every I/O completed before this time has been delivered; `None` if the source has no single I/Os.
    pub complete_to_ns: Option<i64>,
    /// The devices, if they have changed.
    pub devices: Option<Vec<Device>>,
    /// Unix time of the session's start by the current wall clock, after it was set.
    pub start_unix_ns: Option<i64>,
}

/// The recorder's end of the view.
#[derive(Debug)]
pub struct Viewer {
    sender: SyncSender<Seen>,
    spare: Receiver<Vec<Io>>,
    missed: Arc<AtomicU64>,
    /// Not delivered yet.
    gathered: Seen,
    delivered_to_ns: i64,
}

/// The viewer's end of the view.
#[derive(Debug)]
pub struct View {
    /// Observations in order; ends with the session.
    pub seen: Receiver<Seen>,
    /// Number of I/Os that were recorded but not shown, because the viewer was too slow.
    pub missed_ios: Arc<AtomicU64>,
    give_back: SyncSender<Vec<Io>>,
}

/// Creates both ends.
pub fn view() -> (Viewer, View) {
    let (sender, seen) = sync_channel(MAX_WAITING);
    let (give_back, spare) = sync_channel(MAX_SPARE);
    let missed_ios = Arc::new(AtomicU64::new(0));
    let missed = Arc::clone(&missed_ios);
    let viewer = Viewer {
        sender,
        spare,
        missed,
        gathered: Seen::default(),
        delivered_to_ns: i64::MIN,
    };
    (
        viewer,
        View {
            seen,
            missed_ios,
            give_back,
        },
    )
}

impl Viewer {
    /// Replaces the list of devices.
    pub fn devices(&mut self, devices: &[Device]) {
        self.gathered.devices = Some(devices.to_vec());
    }

    /// Sets the session's start to this Unix time in nanoseconds, after the wall clock was set.
    pub fn clock_was_set(&mut self, start_unix_ns: i64) {
        self.gathered.start_unix_ns = Some(start_unix_ns);
    }

    /// Passes the result of one poll to the viewer, with the next delivery. Never waits.
    pub fn show(&mut self, ios: &[Io], lost: &[Lost], complete_to_ns: Option<i64>) {
        self.gathered.ios.extend_from_slice(ios);
        self.gathered.lost.extend_from_slice(lost);
        self.gathered.complete_to_ns = complete_to_ns;
        let is_due =
            complete_to_ns.is_none_or(|ns| ns >= self.delivered_to_ns.saturating_add(GATHER_NS));
        if is_due || self.gathered.ios.len() >= MAX_GATHERED_IOS {
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        self.delivered_to_ns = self.gathered.complete_to_ns.unwrap_or(i64::MIN);
        let next = Seen {
            ios: self.spare.try_recv().unwrap_or_default(),
            ..Seen::default()
        };
        let seen = std::mem::replace(&mut self.gathered, next);
        if let Err(TrySendError::Full(seen)) = self.sender.try_send(seen) {
            self.missed
                .fetch_add(seen.ios.len() as u64, Ordering::Relaxed);
            self.gathered.devices = seen.devices;
            self.gathered.start_unix_ns = seen.start_unix_ns;
            self.gathered.lost = seen.lost;
            note_missed(&mut self.gathered.lost, &seen.ios);
        }
    }
}

/// Adds `ios`, which the viewer misses, to `lost`. While nothing can be delivered, they are one growing loss.
fn note_missed(lost: &mut Vec<Lost>, ios: &[Io]) {
    let Some(first) = ios.first() else {
        return;
    };
    let last = ios.last().unwrap_or(first);
    let missed = Lost {
        ios: Some(ios.len() as i64),
        ..Lost::somewhere(first.done_ns, last.done_ns, VIEW_BUSY)
    };
    // I/Os that the recording's writer does not take are counted later, so losses with this reason are only those of
    // the view.
    match lost.iter().position(|l| l.reason == VIEW_BUSY) {
        Some(at) => lost[at].add(&missed),
        None => lost.push(missed),
    }
}

impl Drop for Viewer {
    /// Delivers what has been collected.
    fn drop(&mut self) {
        self.deliver();
    }
}

impl View {
    /// Returns the memory of a delivery for reuse.
    pub fn give_back(&self, seen: Seen) {
        let mut ios = seen.ios;
        ios.clear();
        // If there are enough spare buffers, it is freed.
        drop(self.give_back.try_send(ios));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{DevId, LossReason, Op};

    fn io() -> Io {
        io_at(1)
    }

    fn io_at(done_ns: i64) -> Io {
        Io::new(done_ns, DevId(8), Op::READ, 512, None, 5)
    }

    #[test]
    fn a_view_that_does_not_keep_up_misses_ios_and_neither_device_nor_clock_nor_loss() {
        let (mut viewer, view) = view();
        let at = |n: usize| Some(n as i64 * GATHER_NS);
        for n in 0..MAX_WAITING {
            viewer.show(&[io()], &[], at(n));
        }
        viewer.devices(&[Device::named("sda", DevId(8))]);
        viewer.clock_was_set(7);
        let lost = Lost::somewhere(0, 1, LossReason::RingFull);
        viewer.show(&[io(), io()], &[lost], at(MAX_WAITING));
        assert_eq!(view.missed_ios.load(Ordering::Relaxed), 2);
        assert_eq!(
            view.seen.try_iter().filter(|s| s.devices.is_some()).count(),
            0
        );
        viewer.show(&[], &[], at(MAX_WAITING + 1));
        let later = view.seen.recv().expect("there is room again");
        assert_eq!(
            later.devices.map(|d| d[0].name.clone()).as_deref(),
            Some("sda")
        );
        assert_eq!(later.start_unix_ns, Some(7));
        let missed = Lost {
            ios: Some(2),
            ..Lost::somewhere(1, 1, VIEW_BUSY)
        };
        assert_eq!(later.lost, [lost, missed]);
    }

    #[test]
    fn what_a_view_misses_in_a_row_is_one_loss_between_two_deliveries() {
        let (mut viewer, view) = view();
        let at = |n: usize| Some(n as i64 * GATHER_NS);
        for n in 0..MAX_WAITING {
            viewer.show(&[], &[], at(n));
        }
        let ring_full = Lost::somewhere(0, 1, LossReason::RingFull);
        viewer.show(&[io_at(10), io_at(15)], &[], at(MAX_WAITING));
        viewer.show(&[io_at(20)], &[ring_full], at(MAX_WAITING + 1));
        viewer.show(&[], &[], at(MAX_WAITING + 2));
        viewer.show(&[io_at(30), io_at(40)], &[], at(MAX_WAITING + 3));
        assert_eq!(view.seen.try_iter().count(), MAX_WAITING);
        viewer.show(&[io_at(50)], &[], at(MAX_WAITING + 4));
        let later = view.seen.recv().expect("there is room again");
        let missed = Lost {
            ios: Some(5),
            ..Lost::somewhere(10, 40, VIEW_BUSY)
        };
        assert_eq!(later.lost, [missed, ring_full]);
        assert_eq!(later.ios.len(), 1);
        assert_eq!(view.missed_ios.load(Ordering::Relaxed), 5);
        viewer.show(&[io_at(60)], &[], at(MAX_WAITING + 5));
        let next = view.seen.recv().expect("there is room");
        assert!(next.lost.is_empty(), "each loss is delivered once");
    }

    #[test]
    fn looks_are_gathered_until_they_are_many_or_old_or_the_end_comes() {
        let (mut viewer, view) = view();
        let counts = |view: &View| {
            view.seen
                .try_iter()
                .map(|s| s.ios.len())
                .collect::<Vec<_>>()
        };
        viewer.show(&[io()], &[], Some(0));
        assert_eq!(counts(&view), [1]);
        viewer.show(&[io(); 2], &[], Some(GATHER_NS / 2));
        viewer.show(&[io()], &[], Some(GATHER_NS - 1));
        assert!(counts(&view).is_empty());
        viewer.show(&[io()], &[], Some(GATHER_NS));
        assert_eq!(counts(&view), [4]);
        viewer.show(&vec![io(); MAX_GATHERED_IOS], &[], Some(GATHER_NS + 1));
        assert_eq!(counts(&view), [MAX_GATHERED_IOS]);
        viewer.show(&[io()], &[], Some(GATHER_NS + 2));
        drop(viewer);
        assert_eq!(counts(&view), [1]);
        assert!(view.seen.recv().is_err());
    }
}
