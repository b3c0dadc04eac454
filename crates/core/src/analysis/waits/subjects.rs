//! Waits by time and subject: the columns of the zoom.

use foldhash::HashMap;

use super::attribution::{Attribution, WaitMeasure};
use super::device::{Pending, Wait};
use super::groups::Grouping;
use crate::analysis::stream::consumer::Consumer;
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::GroupKey;
use crate::model::{Io, Lost, OwnedTime, TimeGrid};

/// The number of I/Os without a subject.
const NO_SUBJECT: u32 = u32::MAX;

/// I/O time by interval and subject.
#[derive(Debug)]
pub struct SubjectWaits {
    grid: TimeGrid,
    subjects: HashMap<GroupKey, u32>,
    times: HashMap<(i64, u32), OwnedTime>,
}

impl SubjectWaits {
    /// The I/O time by owner of a subject's I/Os that completed in the interval starting at `from_ns`.
    pub fn at(&self, from_ns: i64, subject: GroupKey) -> OwnedTime {
        let Some(number) = self.subjects.get(&subject) else {
            return OwnedTime::default();
        };
        let time = self.times.get(&(self.grid.slot(from_ns), *number));
        time.copied().unwrap_or_default()
    }
}

/// Accumulates [`SubjectWaits`]. Memory: the attribution, and 72 bytes per subject and interval with I/Os.
#[derive(Debug)]
pub struct SubjectWaitsBuilder<S>(Attribution<OfSubjects<S>>);

#[derive(Debug)]
struct OfSubjects<S> {
    subject_of: S,
    sums: SubjectWaits,
}

impl<S: Fn(&Io) -> Option<GroupKey>> WaitMeasure for OfSubjects<S> {
    fn io(&mut self, pending: &mut Pending, io: &Io) {
        let Some(subject) = (self.subject_of)(io) else {
            pending.number = NO_SUBJECT;
            return;
        };
        let next = self.sums.subjects.len() as u32;
        pending.number = *self.sums.subjects.entry(subject).or_insert(next);
    }

    fn wait(&mut self, wait: &Wait) {
        if wait.io.number == NO_SUBJECT {
            return;
        }
        let interval = self.sums.grid.slot(wait.io.done_ns);
        let time = self.sums.times.entry((interval, wait.io.number));
        time.or_default().add(&wait.time);
    }
}

impl<S: Fn(&Io) -> Option<GroupKey>> SubjectWaitsBuilder<S> {
    /// For the I/Os that complete inside `window`, in intervals of `step_ns` from its start. I/Os without a subject are
    /// not summed, but others can wait for them. I/Os before the window must be pushed as well, as for
    /// [`IoWaitsBuilder`](super::IoWaitsBuilder).
    pub fn new(window: Window, step_ns: i64, subject_of: S) -> Self {
        let sums = SubjectWaits {
            grid: TimeGrid::new(window.from_ns, step_ns.max(1)),
            subjects: HashMap::default(),
            times: HashMap::default(),
        };
        let measure = OfSubjects { subject_of, sums };
        SubjectWaitsBuilder(Attribution::new(window, Grouping::Process, measure))
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.0.push(io);
    }

    /// Notes I/Os that are lost from the recording.
    pub fn lost(&mut self, lost: &Lost) {
        self.0.lost(lost);
    }

    /// The sums.
    pub fn finish(self) -> SubjectWaits {
        self.0.finish().measure.sums
    }
}

impl<S: Fn(&Io) -> Option<GroupKey> + Send> Consumer for SubjectWaitsBuilder<S> {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        self.0.consume(ios, later_start_ns);
    }
}
