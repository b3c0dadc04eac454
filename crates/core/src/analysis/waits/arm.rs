//! What it costs a program that reads or writes one place after the other when another's I/O comes in between: a disk's arm has to
//! come back. The time is in the I/O that is served after that, and it is the other program's doing.
//!
//! This seek time is learned from I/Os that continue the last one of their group: those served directly after it are
//! compared with those served after another group's I/O.

use super::kept_sample::KeptSample;
use crate::analysis::math::stats::nearest_rank;

/// Number of groups whose last position is remembered, per device.
const HEADS: usize = 8;

/// Minimum number of I/Os of either sort; with fewer the seek time is not known.
const MIN_IOS: usize = 8;

/// The device counts as having an arm if the median of I/Os after a seek is at least this many times that of the
/// others.
const MIN_FACTOR: f64 = 2.0;

/// Maximum seek time charged to one I/O, as a multiple of the usual one.
const MAX_FACTOR: f64 = 2.0;

/// The position of an I/O on its device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub group: u32,
    /// First sector; `None` if it was not recorded.
    pub first: Option<i64>,
    pub sectors: i64,
}

/// Whether an I/O starts where the last one of its group ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Continues {
    /// It does not, or its position is not known.
    #[default]
    No,
    /// It does, and was served directly after that one.
    AtOnce,
    /// It does, but was served after an I/O of this group at another position.
    After(u32),
}

/// Where the last I/O of a group ended.
#[derive(Debug, Clone, Copy)]
struct Head {
    group: u32,
    end: i64,
}

/// Service times, between completions in nanoseconds, of I/Os that continue another one.
#[derive(Debug)]
struct Continued {
    at_once: KeptSample<f64>,
    after_others: KeptSample<f64>,
    coming_back_ns: f64,
}

impl Continued {
    fn new() -> Continued {
        Continued {
            at_once: KeptSample::new(),
            after_others: KeptSample::new(),
            coming_back_ns: 0.0,
        }
    }

    /// The usual seek time back, in nanoseconds; 0 if there is none or too little is known. Recomputed when a sixteenth
    /// of the sample is new.
    fn coming_back_ns(&mut self) -> f64 {
        if self.at_once.is_due() || self.after_others.is_due() {
            self.at_once.was_used();
            self.after_others.was_used();
            self.coming_back_ns = self.find_coming_back_ns();
        }
        self.coming_back_ns
    }

    fn find_coming_back_ns(&self) -> f64 {
        let medians = [&self.at_once, &self.after_others].map(|sample| {
            let mut values = sample.values().to_vec();
            nearest_rank(&mut values, 0.5).filter(|_| values.len() >= MIN_IOS)
        });
        match medians {
            [Some(usual), Some(after)] if after >= MIN_FACTOR * usual => after - usual,
            _ => 0.0,
        }
    }
}

/// The position of the arm of one device, if it has one.
#[derive(Debug, Default)]
pub(super) struct Arm {
    /// In the order in which the groups were served, the latest last.
    heads: Vec<Head>,
    /// By kind of I/O.
    continued: Vec<Option<Box<Continued>>>,
}

impl Arm {
    /// Notes that an I/O is served.
    pub fn serve(&mut self, place: Place) -> Continues {
        let Some(first) = place.first else {
            return Continues::No;
        };
        let before = self.heads.last().copied();
        let known = self.heads.iter().position(|h| h.group == place.group);
        let own = known.map(|known| self.heads.remove(known));
        if self.heads.len() == HEADS {
            self.heads.remove(0);
        }
        self.heads.push(Head {
            group: place.group,
            end: first + place.sectors,
        });
        match (own, before) {
            (Some(own), Some(before)) if own.end == first => {
                if before.group == place.group {
                    Continues::AtOnce
                } else if before.end == first {
                    // The arm was there already.
                    Continues::No
                } else {
                    Continues::After(before.group)
                }
            }
            _ => Continues::No,
        }
    }

    /// Adds the service time of an I/O to the sample.
    pub fn observe(&mut self, kind: usize, continues: Continues, credit_ns: f64) {
        if continues == Continues::No {
            return;
        }
        if self.continued.len() <= kind {
            self.continued.resize_with(kind + 1, || None);
        }
        let continued = self.continued[kind].get_or_insert_with(|| Box::new(Continued::new()));
        match continues {
            Continues::AtOnce => continued.at_once.push(credit_ns),
            _ => continued.after_others.push(credit_ns),
        }
    }

    /// The group whose I/O made the arm move away, and the maximum time to come back, in nanoseconds.
    pub fn came_back(&mut self, kind: usize, continues: Continues) -> Option<(u32, i64)> {
        let Continues::After(group) = continues else {
            return None;
        };
        let continued = self.continued.get_mut(kind)?.as_mut()?;
        let ns = (MAX_FACTOR * continued.coming_back_ns()) as i64;
        (ns > 0).then_some((group, ns))
    }

    /// Visits every group number stored here, so that groups can be renumbered.
    pub fn each_group(&mut self, visit: &mut impl FnMut(&mut u32)) {
        for head in &mut self.heads {
            visit(&mut head.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(group: u32, first: i64) -> Place {
        Place {
            group,
            first: Some(first),
            sectors: 8,
        }
    }

    #[test]
    fn an_io_that_continues_its_group_comes_back_from_another() {
        let mut arm = Arm::default();
        assert_eq!(arm.serve(place(1, 0)), Continues::No);
        assert_eq!(arm.serve(place(1, 8)), Continues::AtOnce);
        assert_eq!(arm.serve(place(2, 500)), Continues::No);
        assert_eq!(arm.serve(place(1, 16)), Continues::After(2));
        // Another one that reads the same just before leaves the arm where it has to be.
        assert_eq!(arm.serve(place(3, 16)), Continues::No);
        assert_eq!(arm.serve(place(1, 24)), Continues::No);
        let elsewhere = Place {
            first: None,
            ..place(2, 0)
        };
        assert_eq!(arm.serve(elsewhere), Continues::No);
    }

    #[test]
    fn coming_back_takes_what_such_ios_take_longer() {
        let mut arm = Arm::default();
        for _ in 0..20 {
            arm.observe(3, Continues::AtOnce, 1e6);
            assert_eq!(arm.came_back(3, Continues::After(2)), None);
        }
        for _ in 0..20 {
            arm.observe(3, Continues::After(2), 9e6);
        }
        assert_eq!(arm.came_back(3, Continues::After(5)), Some((5, 16_000_000)));
        assert_eq!(arm.came_back(3, Continues::AtOnce), None);
        assert_eq!(arm.came_back(4, Continues::After(5)), None);
    }

    #[test]
    fn where_all_take_the_same_nothing_has_to_come_back() {
        let mut arm = Arm::default();
        for continues in [Continues::AtOnce, Continues::After(2)] {
            for i in 0..100 {
                arm.observe(3, continues, 1e6 + 1e3 * f64::from(i));
            }
        }
        assert_eq!(arm.came_back(3, Continues::After(2)), None);
    }
}
