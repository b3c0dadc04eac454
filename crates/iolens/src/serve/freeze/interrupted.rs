//! Resumes a copy that was interrupted by a kill: it is made again and continued, if its source recordings still
//! exist.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use iolens_core::model::KindName;
use iolens_core::store::{IoColumns, Recording, StoreError, read_findings, remove_recording};

use super::{AROUND_NS, FreezeEvent, Growing, LONGEST_NS, Work};

impl Work {
    /// Resumes the copies that an earlier process did not finish, for findings of these kinds.
    ///
    /// # Errors
    /// The copies cannot be listed, or the new copy cannot be written.
    pub fn resume(&mut self, kinds: &[KindName], now_unix_ns: i64) -> Result<()> {
        for (path, _) in self.target.kept()? {
            let copy = match Recording::open(&path) {
                Ok(copy) => copy,
                Err(StoreError::NotARecording { .. }) => {
                    // The process was killed before anything was written.
                    remove_recording(&path, self.target.access)?;
                    continue;
                }
                // A damaged copy stays in the budget until it is the oldest.
                Err(_) => continue,
            };
            let from_unix_ns = copy.meta().start_unix_ns;
            let is_whole = copy.meta().end_ns.is_some();
            // An unfinished copy ends with its last I/O.
            let to_unix_ns = from_unix_ns
                .saturating_add(copy.end_ns())
                .saturating_add(i64::from(!is_whole));
            let about = if is_whole {
                Vec::new()
            } else {
                self.findings_of(from_unix_ns, now_unix_ns, kinds)?
            };
            if about.is_empty() || self.ios_of(from_unix_ns..to_unix_ns)? < copy.ios_stored() {
                // If the clock was set back, a copy from the future must not block later copies.
                if to_unix_ns <= now_unix_ns {
                    self.kept_to_unix_ns = self.kept_to_unix_ns.max(to_unix_ns);
                }
                continue;
            }
            remove_recording(&path, self.target.access)?;
            self.begin_about(from_unix_ns, now_unix_ns, about)?;
            self.copy(now_unix_ns)?;
        }
        Ok(())
    }

    fn begin_about(
        &mut self,
        from_unix_ns: i64,
        now_unix_ns: i64,
        about: Vec<FreezeEvent>,
    ) -> Result<()> {
        self.end()?;
        let mut stretch = self.stretch(from_unix_ns, now_unix_ns)?;
        for event in &about {
            stretch.mark(&super::remark(&event.summary))?;
        }
        let findings: BTreeMap<_, _> = about
            .into_iter()
            .map(|event| (event.what, event.to_ns))
            .collect();
        self.growing = Some(Growing {
            from_unix_ns: stretch.copied_to_unix_ns(),
            stretch,
            findings,
        });
        Ok(())
    }

    /// The findings that a copy starting at `from_unix_ns` covers, read from the recordings.
    fn findings_of(
        &self,
        from_unix_ns: i64,
        now_unix_ns: i64,
        kinds: &[KindName],
    ) -> Result<Vec<FreezeEvent>> {
        let mut about = Vec::new();
        let until_unix_ns = now_unix_ns.min(from_unix_ns.saturating_add(LONGEST_NS));
        for recording in self
            .target
            .holding(from_unix_ns.saturating_sub(AROUND_NS), until_unix_ns)?
        {
            let start_unix_ns = recording.meta().start_unix_ns;
            for f in read_findings(recording.path())? {
                let from_ns = start_unix_ns.saturating_add(f.from_ns);
                let to_ns = start_unix_ns.saturating_add(f.to_ns);
                if kinds.contains(&f.kind) && from_ns < until_unix_ns && to_ns >= from_unix_ns {
                    let to_ns = (!f.open).then_some(to_ns);
                    about.push(FreezeEvent {
                        what: (f.kind, f.device, from_ns),
                        from_ns,
                        to_ns,
                        summary: f.summary,
                    });
                }
            }
        }
        Ok(about)
    }

    /// Number of I/Os in a time range that the recordings still hold.
    fn ios_of(&self, unix_ns: Range<i64>) -> Result<u64> {
        let mut ios = 0;
        for recording in self.target.holding(unix_ns.start, unix_ns.end)? {
            let start_ns = recording.meta().start_unix_ns;
            for batch in recording.ios(
                unix_ns.start - start_ns..unix_ns.end - start_ns,
                IoColumns::REQUIRED,
            ) {
                ios += batch?.len() as u64;
            }
        }
        Ok(ios)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::event;
    use super::*;
    use crate::serve::stretch::CopyTarget;
    use crate::serve::stretch::tests::{S, lake, record, times};
    use iolens_core::model::{Severity, StoredFinding};
    use iolens_core::store::{Budget, Root, put_finding};
    use serde_json::Map;

    const KIND: &str = "stall";

    fn put(target: &CopyTarget, to_s: i64, open: bool) {
        let finding = StoredFinding {
            from_ns: 700 * S,
            to_ns: (to_s - 1000) * S,
            open,
            kind: KIND.into(),
            severity: Severity::Critical,
            device: Some("sda".to_owned()),
            summary: "nothing completes".to_owned(),
            evidence: Map::new(),
        };
        put_finding(
            &target.host_dir.join(Root::recording_directory(1000 * S)),
            target.access,
            &finding,
        )
        .unwrap();
    }

    /// A copy of which a kill left 1400 s to 1720 s.
    fn killed() -> (tempfile::TempDir, CopyTarget) {
        let (dir, target) = lake();
        record(&target.host_dir, 1000, 1500, 1);
        put(&target, 1720, true);
        let mut work = Work::new(target.clone(), 64 << 20);
        work.event(event(1700, None), 1725 * S).unwrap();
        assert!(work.growing.is_some());
        (dir, target)
    }

    fn resumed(target: &CopyTarget, now_s: i64) -> Work {
        let mut work = Work::new(target.clone(), 64 << 20);
        work.resume(&[KIND.into()], now_s * S).unwrap();
        work
    }

    fn kept(target: &CopyTarget) -> (Vec<i64>, Vec<Option<i64>>) {
        let copies = target.kept().unwrap();
        let ends = copies.iter().map(|(path, _)| {
            Recording::open(path)
                .unwrap()
                .meta()
                .end_ns
                .map(|ns| ns / S)
        });
        (
            times(&target.into).iter().map(|ns| ns / S).collect(),
            ends.collect(),
        )
    }

    #[test]
    fn a_copy_that_was_interrupted_goes_on_with_its_finding() {
        let (_dir, target) = killed();
        assert_eq!(kept(&target).1, [None]);
        let mut work = resumed(&target, 1800);
        assert!(work.growing.is_some(), "its finding goes on");
        drop(work);
        work = resumed(&target, 1805);
        work.event(event(1700, Some(1760)), 1900 * S).unwrap();
        work.copy(2200 * S).unwrap();
        assert_eq!(kept(&target), ((1400..2060).collect(), vec![Some(660)]));
        let (path, _) = &target.kept().unwrap()[0];
        let marks = Recording::open(path).unwrap().marks(0..i64::MAX).to_vec();
        assert_eq!(
            marks
                .iter()
                .filter(|m| m.text == "kept for: nothing completes")
                .count(),
            1
        );
        let mut work = resumed(&target, 2210);
        work.event(event(2200, None), 2210 * S).unwrap();
        work.end().unwrap();
        assert_eq!(
            kept(&target).0,
            (1400..2205).collect::<Vec<_>>(),
            "nothing is kept twice"
        );
    }

    #[test]
    fn a_copy_whose_finding_ended_meanwhile_is_completed_at_once() {
        let (_dir, target) = killed();
        put(&target, 1730, false);
        assert!(resumed(&target, 2400).growing.is_none());
        assert_eq!(kept(&target), ((1400..2030).collect(), vec![Some(630)]));
    }

    #[test]
    fn what_cannot_be_made_anew_stays_as_it_was_cut_off_and_in_the_budget() {
        let (dir, target) = killed();
        let before = kept(&target);
        assert!(before.0.len() > 300);
        let budget = Budget {
            keep_bytes: 1 << 30,
            access: target.access,
        };
        budget.make_room(dir.path(), None, 0, 1800 * S).unwrap();
        std::fs::create_dir(target.into.join(Root::recording_directory(1500 * S))).unwrap();
        assert!(resumed(&target, 1800).growing.is_none());
        assert_eq!(kept(&target), before, "and what holds nothing is gone");
        assert_eq!(resumed(&target, 1800).kept_to_unix_ns / S, 1719);
        assert_eq!(
            resumed(&target, 1600).kept_to_unix_ns,
            i64::MIN,
            "a clock that was set back"
        );
    }
}
