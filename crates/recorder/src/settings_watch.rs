//! Reads the machine's settings and the limits of control groups with I/O, on its own thread.
//!
//! Reading a file of sysfs or of a control group may block on a kernel lock, so nothing waits for this thread. It
//! sleeps until it gets a question, so it costs nothing while there is no I/O.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use iolens_core::model::{CgroupSample, Device, Io, Observation, Settings};
use iolens_observe::counters::monotonic_ns;
use iolens_observe::topology::{CgroupMember, Cgroups, MountWatch, read_settings};

/// Interval after which groups with I/O are read again.
const READ_AGAIN_NS: i64 = 10_000_000_000;
/// Delay after which a new group is read, together with others.
const READ_NEW_NS: i64 = 1_000_000_000;
/// Maximum number of groups per reading, including their ancestors.
const MAX_GROUPS: usize = 200;
/// How long the end of the recording waits for the last reading.
const MAX_FINISH_WAIT: Duration = Duration::from_millis(500);

enum Question {
    Settings(Vec<Device>),
    Groups(Vec<CgroupMember>),
}

enum WatchAnswer {
    Settings(Box<Settings>),
    Groups(Vec<CgroupSample>),
}

/// Results of the thread.
#[derive(Debug, Default)]
pub struct FoundGroup {
    /// Settings that may be new.
    pub settings: Option<Settings>,
    /// Rows of the table of control groups.
    pub cgroups: Vec<Observation>,
}

/// The loop of the thread. It ends when no more questions can come or no one receives answers.
fn answer_all(
    asked: Receiver<Question>,
    answers: SyncSender<WatchAnswer>,
    mut cgroups: Cgroups,
    start_ns: i64,
) {
    for question in asked {
        let found = match question {
            Question::Settings(devices) => {
                let settings = read_settings(Path::new("/"), &devices);
                WatchAnswer::Settings(Box::new(settings))
            }
            Question::Groups(members) => {
                WatchAnswer::Groups(
                    cgroups.read(&members, MAX_GROUPS, || monotonic_ns() - start_ns),
                )
            }
        };
        if answers.send(found).is_err() {
            return;
        }
    }
}

/// Collects the groups with I/O on the writer's thread, and asks for their limits.
pub struct SettingsWatch {
    questions: Option<SyncSender<Question>>,
    answers: Receiver<WatchAnswer>,
    /// Number of questions without an answer.
    waiting: usize,
    /// Whether the io controller is on cgroup v1, where groups are found by their processes.
    by_process: bool,
    devices: Vec<Device>,
    mounts: Option<MountWatch>,
    last: Option<CgroupMember>,
    /// Groups with I/O since the last question.
    seen: HashSet<CgroupMember>,
    /// Groups of the last question.
    known: HashSet<CgroupMember>,
    /// Under v1, a process of each group with a rate limit, by the group's path. Throttled I/O is submitted by a kernel
    /// worker, so I/Os no longer show that the group is active. It is read again as long as there is any I/O.
    limited: HashMap<String, CgroupMember>,
    has_new: bool,
    asked_ns: Option<i64>,
}

impl SettingsWatch {
    /// Starts the thread and asks for the settings of `devices`. `start_ns`: the recording's start on the monotonic clock.
    pub fn start(devices: Vec<Device>, start_ns: i64) -> SettingsWatch {
        let (ask, asked) = sync_channel::<Question>(4);
        let (answer, answers) = sync_channel(4);
        let cgroups = Cgroups::find(Path::new("/"));
        let by_process = cgroups.io_controller() == Some(1);
        let thread = std::thread::Builder::new()
            .name("iolens-settings".to_owned())
            .spawn(move || answer_all(asked, answer, cgroups, start_ns));
        let mut watch = SettingsWatch {
            questions: thread.is_ok().then_some(ask),
            answers,
            waiting: 0,
            by_process,
            devices,
            mounts: MountWatch::start().ok(),
            last: None,
            seen: HashSet::new(),
            known: HashSet::new(),
            limited: HashMap::new(),
            has_new: false,
            asked_ns: None,
        };
        watch.ask_for_settings();
        watch
    }

    /// Handles added or removed devices, which need not be recorded ones.
    pub fn devices_changed(&mut self, devices: &[Device]) {
        if self.devices == devices {
            return;
        }
        self.devices = devices.to_vec();
        self.ask_for_settings();
    }

    /// Notes the control groups of these I/Os. An I/O like the previous one costs a comparison.
    pub fn note(&mut self, ios: &[Io]) {
        for io in ios {
            let member = if self.by_process {
                io.tgid.map(CgroupMember::Process)
            } else {
                io.cgroup.map(CgroupMember::Group)
            };
            if member == self.last {
                continue;
            }
            self.last = member;
            let Some(member) = member else { continue };
            if self.seen.len() < MAX_GROUPS && self.seen.insert(member) {
                self.has_new |= !self.known.contains(&member);
            }
        }
    }

    /// Requests the lookups that are due, and returns the results since the last call.
    pub fn tick(&mut self, now_ns: i64) -> FoundGroup {
        let rest_ns = if self.has_new {
            READ_NEW_NS
        } else {
            READ_AGAIN_NS
        };
        let is_due = self.asked_ns.is_none_or(|at_ns| now_ns - at_ns >= rest_ns);
        if is_due && self.waiting == 0 && !self.seen.is_empty() {
            self.asked_ns = Some(now_ns);
            if self.mounts.as_ref().is_some_and(MountWatch::changed) {
                self.ask_for_settings();
            }
            self.ask_for_groups();
        }
        let mut found = FoundGroup::default();
        if self.waiting > 0 {
            while let Ok(answer) = self.answers.try_recv() {
                self.take(answer, &mut found);
            }
        }
        found
    }

    /// Reads the groups a last time, so that their waiting times are known up to the end. Does not wait for a reading
    /// that hangs.
    pub fn finish(&mut self) -> FoundGroup {
        let until = Instant::now() + MAX_FINISH_WAIT;
        let mut found = FoundGroup::default();
        self.wait(until, &mut found);
        let known = std::mem::take(&mut self.known);
        self.seen.extend(known);
        if !self.seen.is_empty() {
            self.ask_for_groups();
        }
        self.questions = None;
        self.wait(until, &mut found);
        found
    }

    fn wait(&mut self, until: Instant, found: &mut FoundGroup) {
        while self.waiting > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(answer) => self.take(answer, found),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, answer: WatchAnswer, found: &mut FoundGroup) {
        self.waiting -= 1;
        match answer {
            WatchAnswer::Settings(settings) => found.settings = Some(*settings),
            WatchAnswer::Groups(rows) => {
                self.limited = limited_under_v1(&rows);
                let rows = rows.into_iter().map(Box::new);
                found.cgroups.extend(rows.map(Observation::Cgroup));
            }
        }
    }

    fn ask_for_settings(&mut self) {
        self.ask(Question::Settings(self.devices.clone()));
    }

    fn ask_for_groups(&mut self) {
        self.known = std::mem::take(&mut self.seen);
        self.has_new = false;
        // Sorted, so that the same groups are read again if there are too many.
        let mut members: Vec<CgroupMember> = self.known.iter().copied().collect();
        members.extend(self.limited.values());
        members.sort_unstable();
        members.dedup();
        self.last = None;
        self.ask(Question::Groups(members));
    }

    /// Sends a question. If the queue is full, the thread hangs and the question is dropped.
    fn ask(&mut self, question: Question) {
        if let Some(questions) = &self.questions
            && questions.try_send(question).is_ok()
        {
            self.waiting += 1;
        }
    }
}

/// A process of each group with limits, by the group's path.
fn limited_under_v1(rows: &[CgroupSample]) -> HashMap<String, CgroupMember> {
    let mut limited = HashMap::new();
    for row in rows.iter().filter(|row| row.limits_rate()) {
        if let Some(tgid) = row.tgid {
            let process = CgroupMember::Process(tgid);
            limited.entry(row.path.clone()).or_insert(process);
        }
    }
    limited
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Op};

    fn io(tgid: i32, cgroup: i64) -> Io {
        let mut io = Io::new(1, DevId::new(8, 0), Op::WRITE, 4096, None, 20);
        io.tgid = Some(tgid);
        io.cgroup = Some(cgroup);
        io
    }

    #[test]
    fn settings_are_there_at_the_end_of_the_shortest_recording() {
        let mut watch = SettingsWatch::start(Vec::new(), monotonic_ns());
        let found = watch.finish();
        let settings = found.settings.unwrap();
        assert!(settings.cpus.is_some_and(|n| n > 0), "{settings:?}");
        assert!(settings.writeback.dirty_expire_centisecs.is_some());
        assert!(found.cgroups.is_empty(), "no process did I/O");
    }

    #[test]
    fn groups_are_asked_for_when_they_are_new_and_every_ten_seconds() {
        let mut watch = SettingsWatch::start(Vec::new(), 0);
        watch.by_process = true;
        let settled = |watch: &mut SettingsWatch| {
            let mut found = FoundGroup::default();
            watch.wait(Instant::now() + Duration::from_secs(60), &mut found);
        };
        settled(&mut watch);
        watch.tick(0);
        assert_eq!((watch.asked_ns, watch.waiting), (None, 0), "no I/O");
        let mut asked = Vec::new();
        for second in 0..25 {
            if second != 13 {
                watch.note(&[io(1, 7), io(1, 7)]);
            }
            if second == 3 {
                watch.note(&[io(2, 8)]);
            }
            let before_ns = watch.asked_ns;
            watch.tick(second * 1_000_000_000);
            if watch.asked_ns != before_ns {
                asked.push(second);
            }
            settled(&mut watch);
        }
        assert_eq!(asked, [0, 3, 13, 23]);
    }

    #[test]
    fn a_limited_group_is_known_by_one_process_whose_ios_workers_submit() {
        let row = |tgid, read_ios_per_s, path: &str| CgroupSample {
            tgid: Some(tgid),
            path: path.to_owned(),
            read_ios_per_s,
            ..CgroupSample::default()
        };
        let rows = [
            row(1, None, "/free"),
            row(2, Some(55), "/shop"),
            row(3, Some(55), "/shop"),
        ];
        let mut watch = SettingsWatch::start(Vec::new(), 0);
        watch.by_process = true;
        let mut found = FoundGroup::default();
        watch.wait(Instant::now() + Duration::from_secs(60), &mut found);
        watch.waiting = 1;
        watch.take(WatchAnswer::Groups(rows.to_vec()), &mut found);
        // Tests only the question: no thread answers it.
        let (ask, asked) = sync_channel(4);
        watch.questions = Some(ask);
        watch.note(&[io(9, 7)]);
        watch.tick(READ_AGAIN_NS);
        let Ok(Question::Groups(members)) = asked.try_recv() else {
            panic!("groups are asked for");
        };
        let expected = [CgroupMember::Process(2), CgroupMember::Process(9)];
        assert_eq!(members, expected);
    }

    #[test]
    fn many_groups_are_as_many_as_are_read() {
        let mut watch = SettingsWatch::start(Vec::new(), 0);
        let ios: Vec<Io> = (0..10_000).map(|i| io(i, i.into())).collect();
        watch.note(&ios);
        assert_eq!(watch.seen.len(), MAX_GROUPS);
    }
}
