//! The groups that worked on one device of late: the work of each is a sum that grows with time.

use super::curve::Curve;

/// Groups whose work is kept apart at a time. Of more the one that has been idle for longest gives way; where all have I/Os in
/// the device, the work of further ones is that of the others.
const MAX_WORKERS: usize = 32;

// Their places are bits of a word, with one more for the others.
const _: () = assert!(MAX_WORKERS < u64::BITS as usize);

/// Later than all that ended.
const WORKS_NOW: i64 = i64::MAX;

/// The work of one group.
#[derive(Debug, Default)]
struct Work {
    /// If all are served in turn: it stands directly before each completion.
    turn: Curve,
    /// If all are served side by side: spread evenly from issue to completion. Known up to `side_at_ns`, and growing by `side_level`
    /// per nanosecond since.
    side: Curve,
    side_level: f64,
    side_at_ns: i64,
    in_device: u32,
}

impl Work {
    /// The work of another group; the memory stays.
    fn restart(&mut self, at_ns: i64) {
        self.turn.clear();
        self.side.clear();
        self.side_level = 0.0;
        self.side_at_ns = at_ns;
        self.in_device = 0;
    }

    fn advance_side(&mut self, at_ns: i64) {
        let grown = self.side_level * (at_ns - self.side_at_ns) as f64;
        let area = self.side.last() + grown.max(0.0);
        self.side.push(at_ns, area);
        self.side_at_ns = at_ns;
    }

    fn side_at(&self, at_ns: i64) -> f64 {
        if at_ns < self.side_at_ns {
            return self.side.at(at_ns);
        }
        self.side.last() + self.side_level * (at_ns - self.side_at_ns) as f64
    }
}

/// Where the work of an I/O counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Worker {
    /// The group: the others where its own one has no place.
    pub group: u32,
    /// Where that was in the list of groups at the issue.
    place: u32,
}

/// The groups that worked on one device, at places that change only when one gives way.
#[derive(Debug)]
pub(super) struct Workers {
    /// By place: the group, when it worked last ([`WORKS_NOW`] while it has I/Os in the device), and its work. Each I/O looks at all
    /// of the times, so they lie side by side.
    groups: Vec<u32>,
    last_work_ns: Vec<i64>,
    work: Vec<Work>,
    /// By group, where it was last.
    last_places: Vec<u32>,
    /// The group of those for which there was no place.
    others: u32,
    forgotten_ns: i64,
}

impl Workers {
    /// `others` is the group of work for which there is no place of its own.
    pub fn new(others: u32) -> Workers {
        Workers {
            groups: Vec::new(),
            last_work_ns: Vec::new(),
            work: Vec::new(),
            last_places: Vec::new(),
            others,
            forgotten_ns: i64::MIN,
        }
    }

    /// Not all work before this time is known.
    pub fn forgotten_ns(&self) -> i64 {
        self.forgotten_ns
    }

    /// From `at_ns` on an I/O of `group` does so much work per nanosecond beside all others.
    pub fn begin(&mut self, group: u32, at_ns: i64, side_rate: f64) -> Worker {
        let place = self.place_of(group, at_ns);
        let work = &mut self.work[place];
        work.advance_side(at_ns);
        work.side_level += side_rate;
        work.in_device += 1;
        self.last_work_ns[place] = WORKS_NOW;
        Worker {
            group: self.groups[place],
            place: place as u32,
        }
    }

    /// It completes.
    pub fn end(&mut self, worker: Worker, at_ns: i64, side_rate: f64) {
        let place = self.place_of_worker(worker, at_ns);
        let work = &mut self.work[place];
        work.advance_side(at_ns);
        work.in_device = work.in_device.saturating_sub(1);
        work.side_level -= side_rate;
        if work.in_device == 0 {
            // No rounding errors are left behind.
            work.side_level = 0.0;
            self.last_work_ns[place] = at_ns;
        }
    }

    /// Counts the work in turn of an I/O that completed at `done_ns`, before `to_ns`.
    pub fn add_in_turn(&mut self, worker: Worker, done_ns: i64, to_ns: i64, work_ns: f64) {
        let place = self.place_of_worker(worker, done_ns);
        let from_ns = to_ns - work_ns as i64;
        self.work[place].turn.add_between(from_ns, to_ns, work_ns);
    }

    /// The groups that worked after `from_ns`, and where their work is.
    pub fn since(&self, from_ns: i64) -> impl Iterator<Item = (u32, usize)> {
        // One bit for each place: most have not worked since.
        let mut worked = 0u64;
        for (place, last_work_ns) in self.last_work_ns.iter().enumerate() {
            worked |= u64::from(*last_work_ns > from_ns) << place;
        }
        std::iter::from_fn(move || {
            let place = worked.trailing_zeros() as usize;
            worked &= worked.wrapping_sub(1);
            self.groups.get(place).map(|group| (*group, place))
        })
    }

    /// The work of the group at a place between two times: in turn, and side by side.
    pub fn between(&self, place: usize, from_ns: i64, to_ns: i64) -> [f64; 2] {
        let work = &self.work[place];
        let in_turn = work.turn.between(from_ns, to_ns);
        let side_by_side = (work.side_at(to_ns) - work.side_at(from_ns)).max(0.0);
        [in_turn, side_by_side]
    }

    /// Forgets what no question about `oldest_ns` or later needs.
    pub fn forget_before(&mut self, oldest_ns: i64) {
        self.forgotten_ns = self.forgotten_ns.max(oldest_ns);
        let mut kept = 0;
        for place in 0..self.work.len() {
            if self.last_work_ns[place] > oldest_ns {
                self.groups.swap(kept, place);
                self.last_work_ns.swap(kept, place);
                self.work.swap(kept, place);
                kept += 1;
            }
        }
        self.groups.truncate(kept);
        self.last_work_ns.truncate(kept);
        self.work.truncate(kept);
        for work in &mut self.work {
            work.turn.forget_before(oldest_ns);
            work.side.forget_before(oldest_ns);
        }
    }

    /// Visits every number of a group that it keeps.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        visit(&mut self.others);
        self.groups.iter_mut().for_each(visit);
        self.last_places.clear();
    }

    /// The place of the group under which an I/O works: mostly where it was at its issue.
    fn place_of_worker(&mut self, worker: Worker, at_ns: i64) -> usize {
        let place = worker.place as usize;
        if self.groups.get(place) == Some(&worker.group) {
            return place;
        }
        self.place_of(worker.group, at_ns)
    }

    fn place_of(&mut self, group: u32, at_ns: i64) -> usize {
        let number = group as usize;
        let last_place = self.last_places.get(number).map(|place| *place as usize);
        if let Some(place) = last_place
            && self.groups.get(place) == Some(&group)
        {
            return place;
        }
        let place = self.find_place(group, at_ns);
        if self.last_places.len() <= number {
            self.last_places.resize(number + 1, 0);
        }
        self.last_places[number] = place as u32;
        place
    }

    fn find_place(&mut self, group: u32, at_ns: i64) -> usize {
        if let Some(place) = self.known_place(group) {
            return place;
        }
        if self.work.len() < MAX_WORKERS {
            return self.new_place(group, at_ns);
        }
        if let Some(place) = self.longest_idle() {
            // What waited since before its last work has a part that is unknown.
            self.forgotten_ns = self.forgotten_ns.max(self.last_work_ns[place]);
            self.groups[place] = group;
            self.last_work_ns[place] = at_ns;
            self.work[place].restart(at_ns);
            return place;
        }
        let others = self.others;
        match self.known_place(others) {
            Some(place) => place,
            None => self.new_place(others, at_ns),
        }
    }

    fn known_place(&self, group: u32) -> Option<usize> {
        self.groups.iter().position(|known| *known == group)
    }

    /// The group that has been idle for longest.
    fn longest_idle(&self) -> Option<usize> {
        let all = self.last_work_ns.iter().enumerate();
        let (place, last_work_ns) = all.min_by_key(|(_, last_work_ns)| **last_work_ns)?;
        (*last_work_ns != WORKS_NOW).then_some(place)
    }

    fn new_place(&mut self, group: u32, at_ns: i64) -> usize {
        let mut work = Work::default();
        work.restart(at_ns);
        self.groups.push(group);
        self.last_work_ns.push(at_ns);
        self.work.push(work);
        self.work.len() - 1
    }
}
