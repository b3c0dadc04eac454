//! Cache of recent names of files and control groups. A name that is used again is reported again.

use std::sync::Arc;

use iolens_core::model::{Named, Names};

/// A name is dropped if it was not reported for this long, or for up to twice as long. Names of I/Os in memory are
/// reported every five minutes.
const KEPT_NS: i64 = 600_000_000_000;
/// Older names are dropped earlier if this many new names arrive.
const MAX_NEW: usize = 1 << 15;

/// The names in two generations: names reported since the younger one started are in both.
#[derive(Debug, Default)]
pub struct RecentNames {
    all: Arc<Names>,
    young: Names,
    young_from_ns: i64,
}

impl RecentNames {
    /// The names of a recording, which are complete.
    pub fn of_recording(names: Names) -> RecentNames {
        RecentNames {
            all: Arc::new(names),
            ..RecentNames::default()
        }
    }

    /// All cached names.
    pub fn all(&self) -> &Arc<Names> {
        &self.all
    }

    /// Adds the name of something, reported at `at_ns`.
    pub fn insert(&mut self, at_ns: i64, of: Named, text: String) {
        let new = self.young.files.len() + self.young.cgroups.len() + self.young.pods.len();
        if at_ns - self.young_from_ns > KEPT_NS || new >= MAX_NEW {
            self.all = Arc::new(std::mem::take(&mut self.young));
            self.young_from_ns = at_ns;
        }
        self.young.insert(of, text.clone());
        // An analysis that is running keeps its own copy.
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
