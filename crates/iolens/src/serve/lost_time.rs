//! Counts I/Os and lost I/O time per second of the last minutes. On a busy host this determines which time the
//! watcher analyses, and whether it does so soon.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iolens_core::analysis::stories::is_likely_victim;
use iolens_core::analysis::waits::{Program, WaitBin};
use iolens_core::model::{Class, DevId, OwnedTime, SECOND_NS};

use crate::engine::worst_stretch::{Slot, longest_wait};

/// How long seconds are kept.
pub const KEPT_NS: i64 = 900 * SECOND_NS;

/// Sums of one second.
#[derive(Debug, Clone, Copy, Default)]
struct SecondSums {
    ios: u64,
    lost_ns: i64,
}

/// I/O time by owner, for each device, class and program.
type ProgramTimes = BTreeMap<(DevId, Class, Program), OwnedTime>;

/// State since the last look of the watcher.
#[derive(Debug, Default)]
struct SinceLook {
    times: ProgramTimes,
    has_trouble: bool,
}

/// Sums per second over all devices. The last two seconds are not complete yet.
#[derive(Debug)]
pub struct LostTime {
    /// Start of the session in Unix time.
    start_unix_ns: AtomicI64,
    /// By the start of the second, in Unix time in nanoseconds.
    seconds: Mutex<BTreeMap<i64, SecondSums>>,
    since_look: Mutex<SinceLook>,
}

impl LostTime {
    /// For a session that started at this Unix time.
    pub fn new(start_unix_ns: i64) -> LostTime {
        LostTime {
            start_unix_ns: AtomicI64::new(start_unix_ns),
            seconds: Mutex::default(),
            since_look: Mutex::default(),
        }
    }

    /// The wall clock was set, so that the session now started at this Unix time. Older seconds are discarded.
    pub fn clock_was_set(&self, start_unix_ns: i64) {
        self.start_unix_ns.store(start_unix_ns, Ordering::Relaxed);
        self.lock().clear();
    }

    /// Adds waits in intervals of a second.
    pub fn add(&self, bins: &[WaitBin]) {
        self.since_look().add(bins);
        let start_unix_ns = self.start_unix_ns.load(Ordering::Relaxed);
        for bin in bins {
            let mut second = SecondSums::default();
            for victim in &bin.victims {
                second.ios += victim.ios;
                second.lost_ns += victim.time.lost_ns();
            }
            self.add_second(start_unix_ns + bin.from_ns, second);
        }
    }

    /// An I/O failed.
    pub fn failed(&self) {
        self.since_look().has_trouble = true;
    }

    /// Whether, since the last look, a program lost enough time for a possible story, or an I/O failed.
    pub fn has_trouble(&self) -> bool {
        self.since_look().has_trouble
    }

    /// A look begins: resets the state since the last one.
    pub fn look_begins(&self) {
        *self.since_look() = SinceLook::default();
    }

    /// Adds to the second that starts at `at_ns` (Unix time).
    fn add_second(&self, at_ns: i64, new: SecondSums) {
        let mut seconds = self.lock();
        let second = seconds.entry(at_ns).or_default();
        second.ios += new.ios;
        second.lost_ns += new.lost_ns;
        let forgotten = at_ns - KEPT_NS;
        while let Some(oldest) = seconds.first_entry()
            && *oldest.key() < forgotten
        {
            oldest.remove();
        }
    }

    /// For tests.
    #[cfg(test)]
    pub fn of_seconds(seconds: impl IntoIterator<Item = (i64, u64, i64)>) -> LostTime {
        let lost = LostTime::new(0);
        for (at_s, ios, lost_s) in seconds {
            let second = SecondSums {
                ios,
                lost_ns: lost_s * SECOND_NS,
            };
            lost.add_second(at_s * SECOND_NS, second);
        }
        lost
    }

    /// Number of I/Os that completed in a range of Unix time.
    pub fn ios(&self, range: &Range<i64>) -> u64 {
        let mut ios = 0;
        for (_, second) in self.lock().range(range.clone()) {
            ios += second.ios;
        }
        ios
    }

    /// The stretch of `range` (Unix time), at most `length_ns` and at least a second long, in which most I/O time was
    /// lost; `None` if no time was lost.
    pub fn worst_stretch(&self, range: &Range<i64>, length_ns: i64) -> Option<Range<i64>> {
        let mut slots = BTreeMap::new();
        for (at_ns, second) in self.lock().range(range.clone()) {
            let slot = Slot {
                lost_ns: second.lost_ns,
                ..Slot::default()
            };
            slots.insert(*at_ns, slot);
        }
        let length_ns = length_ns.max(SECOND_NS);
        let worst = longest_wait(&slots, SECOND_NS, length_ns, range)?;
        Some(worst.range)
    }

    fn since_look(&self) -> MutexGuard<'_, SinceLook> {
        self.since_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, SecondSums>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SinceLook {
    /// Adds waits in intervals of a second. A single bad second counts even after good hours.
    fn add(&mut self, bins: &[WaitBin]) {
        for bin in bins {
            let mut second = ProgramTimes::new();
            for victim in &bin.victims {
                let group = &victim.group;
                if let Some(program) = group.program {
                    let key = (bin.dev, group.class, program);
                    second.entry(key).or_default().add(&victim.time);
                }
            }
            for (key, time) in second {
                let (_, _, program) = key;
                let all = self.times.entry(key).or_default();
                all.add(&time);
                self.has_trouble |=
                    is_likely_victim(&program, &time) || is_likely_victim(&program, all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::analysis::waits::{Group, Service, Victim, WorstWait};
    use iolens_core::model::{Comm, Origin};

    const S: i64 = SECOND_NS;

    fn s(range_s: Range<i64>) -> Range<i64> {
        range_s.start * S..range_s.end * S
    }

    #[test]
    fn the_stretch_with_most_time_lost_is_found_in_the_time_that_is_asked_for() {
        // What comes late is added to its second.
        let seconds = [
            (10, 100, 3),
            (11, 100, 3),
            (50, 1, 5),
            (11, 10, 1),
            (90, 2, 0),
        ];
        let lost = LostTime::of_seconds(seconds);
        let worst = [
            (0..100, 20, Some(10..30)),
            (0..100, 1, Some(50..51)),
            (20..55, 20, Some(50..55)),
            // No time was lost.
            (60..100, 20, None),
        ];
        for (range_s, length_s, found_s) in worst {
            let found = lost.worst_stretch(&s(range_s), length_s * S);
            assert_eq!(found, found_s.map(s));
        }
        assert_eq!(lost.ios(&s(0..100)), 213);
        assert_eq!(lost.ios(&s(11..50)), 110);
    }

    /// A second of a program's reads.
    fn second(comm: &str, at_s: i64, time_ms: [i64; 4]) -> WaitBin {
        let [undisturbed_ms, own_ms, others_ms, device_ms] = time_ms;
        let ms = S / 1000;
        WaitBin {
            from_ns: at_s * S,
            dev: DevId::new(8, 0),
            service: Service::InTurn,
            victims: vec![Victim {
                group: Group {
                    program: Some(Program {
                        comm: Some(Comm::new(comm.as_bytes())),
                        tgid: Some(7),
                        cgroup: None,
                    }),
                    class: Class::Read,
                    origin: Origin::Direct,
                    file: None,
                },
                ios: 10,
                delayed_ios: 5,
                time: OwnedTime {
                    undisturbed_ns: undisturbed_ms * ms,
                    own_ns: own_ms * ms,
                    others_ns: others_ms * ms,
                    device_ns: device_ms * ms,
                    ..OwnedTime::default()
                },
                behind: Vec::new(),
                worst: WorstWait::default(),
            }],
        }
    }

    #[test]
    fn there_is_trouble_where_a_program_loses_much_behind_others_or_to_the_device() {
        let seconds = [
            ("little of its time", "db", [1000, 0, 100, 0], false),
            ("too little in all", "db", [10, 0, 30, 30], false),
            ("behind others", "db", [100, 0, 100, 0], true),
            ("the device itself", "db", [100, 0, 0, 100], true),
            ("its own queue", "db", [100, 900, 0, 0], false),
            (
                "a thread of the kernel",
                "kworker/u4:1+flush-8:0",
                [100, 0, 900, 0],
                false,
            ),
        ];
        for (what, comm, time_ms, is_trouble) in seconds {
            let lost = LostTime::new(0);
            lost.add(&[second(comm, 0, time_ms)]);
            assert_eq!(lost.has_trouble(), is_trouble, "{what}");
            lost.look_begins();
            assert!(!lost.has_trouble(), "{what}, after a look");
        }
    }

    #[test]
    fn trouble_adds_up_and_good_hours_do_not_hide_it() {
        let lost = LostTime::new(0);
        lost.add(&[second("db", 0, [10, 0, 60, 0])]);
        assert!(!lost.has_trouble());
        lost.add(&[second("db", 1, [10, 0, 60, 0])]);
        assert!(lost.has_trouble(), "120 ms of 140");
        let lost = LostTime::new(0);
        for at_s in 0..100 {
            lost.add(&[second("db", at_s, [1000, 0, 0, 0])]);
        }
        assert!(!lost.has_trouble());
        lost.add(&[second("db", 100, [10, 0, 110, 0])]);
        assert!(lost.has_trouble(), "in one second");
    }

    #[test]
    fn once_the_clock_was_set_seconds_are_those_of_the_new_time() {
        let lost = LostTime::new(1_000 * S);
        lost.add(&[second("db", 5, [10, 0, 0, 0])]);
        assert_eq!(lost.ios(&s(1_005..1_006)), 10);
        lost.clock_was_set(400 * S);
        lost.add(&[second("db", 6, [10, 0, 0, 0])]);
        assert_eq!(lost.ios(&s(406..407)), 10);
        assert_eq!(lost.ios(&(0..i64::MAX)), 10, "without those of then");
    }

    #[test]
    fn old_seconds_are_forgotten() {
        let lost = LostTime::of_seconds((0..3000).map(|at_s| (at_s, 1, 1)));
        assert_eq!(lost.ios(&(0..i64::MAX)), 901);
    }
}
