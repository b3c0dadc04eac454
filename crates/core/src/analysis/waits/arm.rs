//! What it costs a program that reads or writes one place after the other when another's I/O comes in between: a disk's arm has to
//! come back. The time is in the I/O that is served after that, and it is the other program's doing.
//!
//! No setting says how long that takes. It is learned: from I/Os that continue the last one of their group, those that were served
//! directly after it, and those that were not.

use super::kept_sample::KeptSample;
use crate::analysis::math::stats::nearest_rank;

/// Of so many groups it is known where their last I/Os ended.
const HEADS: usize = 8;

/// With fewer I/Os of either sort nothing is known.
const MIN_IOS: usize = 8;

/// Coming back takes time if I/Os that had to took so many times as long as others, in the median.
const MIN_FACTOR: f64 = 2.0;

/// No I/O takes more than so many times the usual time to come back.
const MAX_FACTOR: f64 = 2.0;

/// Where an I/O was served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub group: u32,
    /// In sectors; `None` where that is not recorded.
    pub first: Option<i64>,
    pub sectors: i64,
}

/// Whether an I/O continues where the last one of its group ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Continues {
    /// It does not, or that is not known.
    #[default]
    No,
    /// Directly after that one.
    AtOnce,
    /// After one of this group, which was elsewhere.
    After(u32),
}

/// Where the last I/O of a group ended.
#[derive(Debug, Clone, Copy)]
struct Head {
    group: u32,
    end: i64,
}

/// How long I/Os took that continue others, by the time between completions.
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

    /// How long coming back takes, up to a sixteenth of the values late; 0 if it takes no time, or too little is known.
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

/// Where the arm of one device is, if it has one.
#[derive(Debug, Default)]
pub(super) struct Arm {
    /// The last one served is the last one here.
    heads: Vec<Head>,
    /// By kind.
    continued: Vec<Option<Box<Continued>>>,
}

impl Arm {
    /// Takes an I/O as it is served.
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

    /// Takes the credit of an I/O.
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

    /// The group after whose I/O one of this kind had to come back, and how long that takes at most.
    pub fn came_back(&mut self, kind: usize, continues: Continues) -> Option<(u32, i64)> {
        let Continues::After(group) = continues else {
            return None;
        };
        let continued = self.continued.get_mut(kind)?.as_mut()?;
        let ns = (MAX_FACTOR * continued.coming_back_ns()) as i64;
        (ns > 0).then_some((group, ns))
    }

    /// Visits every number of a group that it keeps.
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
