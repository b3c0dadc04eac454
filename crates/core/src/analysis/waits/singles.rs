//! What each single I/O waited for.

use super::attribution::{Attribution, WaitMeasure};
use super::device::{Pending, Wait};
use super::groups::{Group, Grouping};
use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::window::Window;
use crate::model::{Io, Lost, OwnedTime};

/// Where the time of one I/O went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoWait {
    /// Its latency divided by owner.
    pub time: OwnedTime,
    /// The other group that it waited behind longest.
    pub behind: Option<Group>,
    /// Time that it waited behind that group.
    pub behind_ns: i64,
}

/// Accumulates [`IoWait`]s. Memory: the attribution, and 72 bytes per selected I/O inside the window.
#[derive(Debug)]
pub struct IoWaitsBuilder<W = fn(&Io) -> bool>(Attribution<Singles<W>>);

/// The number of I/Os that are not selected.
const NOT_WANTED: u32 = u32::MAX;

/// In the order in which they came.
#[derive(Debug)]
struct Singles<W> {
    is_wanted: W,
    waits: Vec<Option<Single>>,
}

#[derive(Debug, Clone, Copy)]
struct Single {
    wait: IoWait,
    behind: Option<u32>,
}

impl<W: Fn(&Io) -> bool> WaitMeasure for Singles<W> {
    fn io(&mut self, pending: &mut Pending, io: &Io) {
        if !(self.is_wanted)(io) {
            pending.number = NOT_WANTED;
            return;
        }
        pending.number = self.waits.len() as u32;
        self.waits.push(None);
    }

    fn wait(&mut self, wait: &Wait) {
        if wait.io.number == NOT_WANTED {
            return;
        }
        let mut single = Single {
            wait: IoWait {
                time: wait.time,
                behind: None,
                behind_ns: 0,
            },
            behind: None,
        };
        for (group, ns) in wait.behind {
            if *group != wait.io.group && *ns > single.wait.behind_ns {
                single.wait.behind_ns = *ns;
                single.behind = Some(*group);
            }
        }
        self.waits[wait.io.number as usize] = Some(single);
    }
}

impl IoWaitsBuilder {
    /// For the I/Os that complete inside `window`. Earlier I/Os must be pushed as well: they show the undisturbed
    /// latencies and what the device was working on.
    pub fn new(window: Window) -> IoWaitsBuilder {
        IoWaitsBuilder::of(window, |_| true)
    }
}

impl<W: Fn(&Io) -> bool> IoWaitsBuilder<W> {
    /// As [`IoWaitsBuilder::new`], for the I/Os that `is_wanted` selects. All I/Os must be pushed, because the selected
    /// ones may have waited for them.
    pub fn of(window: Window, is_wanted: W) -> IoWaitsBuilder<W> {
        let singles = Singles {
            is_wanted,
            waits: Vec::new(),
        };
        IoWaitsBuilder(Attribution::new(window, Grouping::Process, singles))
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.0.push(io);
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        self.0.lost(lost);
    }

    /// One entry per selected I/O that completed inside the window, in the order in which they were pushed.
    pub fn finish(self) -> Vec<IoWait> {
        let attributed = self.0.finish();
        let groups = attributed.groups.named();
        let mut all = Vec::new();
        // At the end every I/O has been attributed.
        for single in attributed.measure.waits.into_iter().flatten() {
            let group = single.behind.map(|number| groups[number as usize]);
            all.push(IoWait {
                behind: group,
                ..single.wait
            });
        }
        all
    }
}

impl<W: Fn(&Io) -> bool + Send> Consumer for IoWaitsBuilder<W> {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.0.consume(ios, later_start_ns);
    }
}
