//! Names of files and control groups that were met lately; what is met again is reported again.

use std::sync::Arc;

use iolens_core::model::{Named, Names};

/// Names are forgotten when they were not reported for this long, or for twice as long: those that I/Os in memory need are
/// reported every five minutes.
const KEPT_NS: i64 = 600_000_000_000;
/// With so many new names those that are older go earlier.
const MAX_NEW: usize = 1 << 15;

/// The names, in two generations: what was reported since the younger began is in both.
#[derive(Debug, Default)]
pub struct RecentNames {
    all: Arc<Names>,
    young: Names,
    young_from_ns: i64,
}

impl RecentNames {
    /// Of a recording, which are all there are.
    pub fn of_recording(names: Names) -> RecentNames {
        RecentNames {
            all: Arc::new(names),
            ..RecentNames::default()
        }
    }

    /// All that are remembered.
    pub fn all(&self) -> &Arc<Names> {
        &self.all
    }

    /// Remembers what something is called at this time.
    pub fn insert(&mut self, at_ns: i64, of: Named, text: String) {
        let new = self.young.files.len() + self.young.cgroups.len() + self.young.pods.len();
        if at_ns - self.young_from_ns > KEPT_NS || new >= MAX_NEW {
            self.all = Arc::new(std::mem::take(&mut self.young));
            self.young_from_ns = at_ns;
        }
        self.young.insert(of, text.clone());
        // An analysis that still runs keeps what it was given.
        Arc::make_mut(&mut self.all).insert(of, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn names_that_are_not_met_again_are_forgotten_and_others_are_not() {
        let mut names = RecentNames::default();
        names.insert(0, Named::Cgroup(1), "/old".to_owned());
        for at_s in (0..3600).step_by(300) {
            names.insert(at_s * S, Named::Cgroup(2), "/used".to_owned());
        }
        let known: Vec<i64> = names.all().cgroups.keys().copied().collect();
        assert_eq!(known, [2]);
    }

    #[test]
    fn many_names_at_once_are_bounded() {
        let mut names = RecentNames::default();
        let held = Arc::clone(names.all());
        for id in 0..200_000 {
            names.insert(id, Named::Cgroup(id), format!("/{id}"));
        }
        assert!(names.all().cgroups.len() <= 2 * MAX_NEW);
        assert!(names.all().cgroups.contains_key(&199_999));
        assert!(held.cgroups.is_empty(), "what was given stays as it was");
    }
}
