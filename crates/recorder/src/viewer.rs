//! What a recorder shows to a viewer beside it, which may be too slow: then the view misses something, never the recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use iolens_core::model::{Device, Io, Lost};

/// Looks at the source that may wait to be seen: half a second of them while there is I/O.
const MAX_WAITING: usize = 64;

/// One look at the source, in the session's time.
#[derive(Debug, Default)]
pub struct Seen {
    /// I/Os, ordered by completion.
    pub ios: Vec<Io>,
    /// What is missing.
    pub lost: Vec<Lost>,
    /// Every I/O completed before this has been seen; `None` if the source has no single I/Os.
    pub complete_to_ns: Option<i64>,
    /// The devices, where they have changed.
    pub devices: Option<Vec<Device>>,
}

/// The recorder's end.
#[derive(Debug)]
pub struct Viewer {
    sender: SyncSender<Seen>,
    missed: Arc<AtomicU64>,
    /// Not delivered yet.
    devices: Option<Vec<Device>>,
}

/// The other end.
#[derive(Debug)]
pub struct View {
    /// What was seen, one look after the other; ends with the session.
    pub seen: Receiver<Seen>,
    /// I/Os that were recorded and not shown, because the view did not keep up.
    pub missed_ios: Arc<AtomicU64>,
}

/// Both ends.
pub fn view() -> (Viewer, View) {
    let (sender, seen) = sync_channel(MAX_WAITING);
    let missed = Arc::new(AtomicU64::new(0));
    (Viewer { sender, missed: Arc::clone(&missed), devices: None }, View { seen, missed_ios: missed })
}

impl Viewer {
    /// The devices are these from now on.
    pub fn devices(&mut self, devices: &[Device]) {
        self.devices = Some(devices.to_vec());
    }

    /// Shows a look at the source; never waits.
    pub fn show(&mut self, ios: &[Io], lost: &[Lost], complete_to_ns: Option<i64>) {
        let devices = self.devices.take();
        let seen = Seen { ios: ios.to_vec(), lost: lost.to_vec(), complete_to_ns, devices };
        if let Err(TrySendError::Full(seen) | TrySendError::Disconnected(seen)) = self.sender.try_send(seen) {
            self.missed.fetch_add(seen.ios.len() as u64, Ordering::Relaxed);
            self.devices = seen.devices;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{DevId, Op};

    #[test]
    fn a_view_that_does_not_keep_up_misses_ios_and_no_device() {
        let (mut viewer, view) = view();
        let io = Io::new(1, DevId(8), Op::READ, 512, None, 5);
        for _ in 0..MAX_WAITING {
            viewer.show(&[io], &[], Some(2));
        }
        viewer.devices(&[Device::named("sda", DevId(8))]);
        viewer.show(&[io, io], &[], Some(3));
        assert_eq!(view.missed_ios.load(Ordering::Relaxed), 2);
        assert_eq!(view.seen.try_iter().filter(|s| s.devices.is_some()).count(), 0);
        viewer.show(&[], &[], Some(4));
        let later = view.seen.recv().expect("there is room again");
        assert_eq!(later.devices.map(|d| d[0].name.clone()).as_deref(), Some("sda"));
    }
}
