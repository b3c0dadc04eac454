//! `--freeze-on`: while a finding is active, copies the minutes around it into a recording with a budget of its own.
//!
//! A copy grows while the finding lasts, so that it is complete even if retention removes the original soon after.
//! Only one copy grows at a time, and it serves all findings of that time. It takes at most half of the budget; the
//! finished copies leave that half free when it starts.

mod interrupted;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use iolens_core::model::{KindName, SECOND_NS};
use iolens_core::private::Access;
use iolens_core::store::{Root, remove_recording};
use iolens_observe::topology::{lower_this_thread, wall_clock_ns};

use super::stretch::{CopyTarget, RangeCopy};
use crate::present::{escape, serve_text};

/// Time kept before a finding starts and after it ends.
const AROUND_NS: i64 = 300 * SECOND_NS;
/// Maximum length of a copy, however long the finding lasts.
const LONGEST_NS: i64 = 3600 * SECOND_NS;
/// I/Os that completed at least this long ago are on disk.
const SETTLED_NS: i64 = 5 * SECOND_NS;
/// Interval between copying new data.
const PERIOD: Duration = Duration::from_secs(10);
/// Capacity of the queue of findings. A finding that does not fit is not kept.
const MAX_WAITING: usize = 256;

/// Which findings are kept, and the disk space for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeOptions {
    /// Kinds of findings to keep; empty: none.
    pub kinds: Vec<KindName>,
    /// Hard limit of the size of all copies in bytes.
    pub keep_bytes: u64,
}

/// The start or end of a finding, in Unix time in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeEvent {
    /// Identity of the finding, the same in both events: kind, device and start.
    pub what: (KindName, Option<String>, i64),
    /// Start of the finding.
    pub from_ns: i64,
    /// End of the finding; `None` while it is active.
    pub to_ns: Option<i64>,
    /// A one-line summary.
    pub summary: String,
}

/// Makes copies on a thread of its own.
#[derive(Debug)]
pub struct Freezer {
    feed: FreezerFeed,
    thread: JoinHandle<()>,
}

/// Sends findings to a [`Freezer`].
#[derive(Debug, Clone)]
pub struct FreezerFeed {
    /// `None` ends the thread.
    events: SyncSender<Option<FreezeEvent>>,
    kinds: Vec<KindName>,
}

impl Freezer {
    /// Starts a freezer for the recordings in `host_dir` of `root`; `None` if no kinds are selected.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        options: FreezeOptions,
        root: &Path,
        host_dir: &Path,
        access: Access,
    ) -> Result<Option<Freezer>> {
        if options.kinds.is_empty() {
            return Ok(None);
        }
        let into = root
            .join(Root::FROZEN)
            .join(host_dir.file_name().unwrap_or_default());
        let target = CopyTarget {
            host_dir: host_dir.to_owned(),
            into,
            access,
        };
        let (events, received) = sync_channel(MAX_WAITING);
        let work = Work::new(target, options.keep_bytes);
        let thread = std::thread::Builder::new().name("iolens-freeze".to_owned());
        let kinds = options.kinds.clone();
        let thread = thread
            .spawn(move || work.run(&kinds, &received))
            .context("the thread that keeps could not be started")?;
        Ok(Some(Freezer {
            feed: FreezerFeed {
                events,
                kinds: options.kinds,
            },
            thread,
        }))
    }

    /// A sender for findings.
    pub fn feed(&self) -> FreezerFeed {
        self.feed.clone()
    }

    /// Ends the current copy with the data recorded so far.
    pub fn finish(self) {
        // If the thread is gone there is nothing to end; a panic was reported already.
        drop(self.feed.events.send(None));
        drop(self.thread.join());
    }
}

impl FreezerFeed {
    /// Queues the start or end of a finding. Never blocks.
    pub fn send(&self, event: FreezeEvent) {
        if self.kinds.contains(&event.what.0) && self.events.try_send(Some(event)).is_err() {
            eprintln!("iolens: --freeze-on: too many findings at once; one is not kept");
        }
    }
}

/// State of the thread.
#[derive(Debug)]
struct Work {
    target: CopyTarget,
    keep_bytes: u64,
    growing: Option<Growing>,
    /// End of the last copy; the next copy starts here at the earliest.
    kept_to_unix_ns: i64,
}

/// The copy that is growing.
#[derive(Debug)]
struct Growing {
    stretch: RangeCopy,
    from_unix_ns: i64,
    /// The findings that it covers, each with its end; `None` while it is active.
    findings: BTreeMap<(KindName, Option<String>, i64), Option<i64>>,
}

impl Growing {
    /// When the copy will be complete, in Unix time; `from_unix_ns + LONGEST_NS` while a finding is active.
    fn until_unix_ns(&self) -> i64 {
        let ends = self
            .findings
            .values()
            .map(|to| to.map_or(i64::MAX, |ns| ns.saturating_add(AROUND_NS)));
        ends.max()
            .unwrap_or(i64::MIN)
            .min(self.from_unix_ns.saturating_add(LONGEST_NS))
    }
}

impl Work {
    fn new(target: CopyTarget, keep_bytes: u64) -> Work {
        Work {
            target,
            keep_bytes,
            growing: None,
            kept_to_unix_ns: i64::MIN,
        }
    }

    fn run(mut self, kinds: &[KindName], events: &Receiver<Option<FreezeEvent>>) {
        lower_this_thread();
        let done = self.resume(kinds, wall_clock_ns());
        self.report(done);
        loop {
            let done = match events.recv_timeout(PERIOD) {
                Ok(Some(event)) => self.event(event, wall_clock_ns()),
                Err(RecvTimeoutError::Timeout) => self.copy(wall_clock_ns()),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
            };
            self.report(done);
        }
        let done = self.copy(wall_clock_ns()).and_then(|()| self.end());
        self.report(done);
    }

    /// Reports an error and ends the current copy. Later copies are not affected.
    fn report(&mut self, done: Result<()>) {
        if let Err(e) = done {
            eprintln!(
                "iolens: --freeze-on: {}",
                escape::terminal(&format!("{e:#}"))
            );
            let ended = self.end();
            drop(ended);
        }
    }

    fn event(&mut self, event: FreezeEvent, now_unix_ns: i64) -> Result<()> {
        if let Some(growing) = &mut self.growing {
            let begins = !growing.findings.contains_key(&event.what);
            // The end of a finding that this copy does not cover is ignored.
            if event.to_ns.is_none() || !begins {
                growing.findings.insert(event.what, event.to_ns);
            }
            if event.to_ns.is_none() && begins {
                growing.stretch.mark(&remark(&event.summary))?;
            }
            return self.copy(now_unix_ns);
        }
        if event.to_ns.is_some() {
            return Ok(());
        }
        let from_unix_ns = event
            .from_ns
            .saturating_sub(AROUND_NS)
            .max(self.kept_to_unix_ns);
        let mut stretch = self.stretch(from_unix_ns, now_unix_ns)?;
        stretch.mark(&remark(&event.summary))?;
        let from_unix_ns = stretch.copied_to_unix_ns();
        self.growing = Some(Growing {
            stretch,
            from_unix_ns,
            findings: BTreeMap::from([(event.what, None)]),
        });
        self.copy(now_unix_ns)
    }

    /// Frees space and starts a copy.
    fn stretch(&self, from_unix_ns: i64, now_unix_ns: i64) -> Result<RangeCopy> {
        self.make_room()?;
        RangeCopy::begin(
            &self.target,
            from_unix_ns,
            now_unix_ns,
            Some(self.keep_bytes / 2),
            false,
        )
    }

    /// Copies new data. Ends the copy when it is complete or has used its share of the budget.
    fn copy(&mut self, now_unix_ns: i64) -> Result<()> {
        let share = self.keep_bytes / 8 * 3;
        let Some(growing) = &mut self.growing else {
            return Ok(());
        };
        let until_unix_ns = growing.until_unix_ns();
        let to_unix_ns = until_unix_ns.min(now_unix_ns - SETTLED_NS);
        if to_unix_ns > growing.stretch.copied_to_unix_ns() {
            let goes_on =
                growing
                    .stretch
                    .up_to(to_unix_ns, to_unix_ns == until_unix_ns, |taken| {
                        taken < share
                    })?;
            if goes_on && to_unix_ns < until_unix_ns {
                return Ok(());
            }
            return self.end();
        }
        if until_unix_ns <= growing.stretch.copied_to_unix_ns() {
            self.end()
        } else {
            Ok(())
        }
    }

    fn end(&mut self) -> Result<()> {
        let Some(growing) = self.growing.take() else {
            return Ok(());
        };
        self.kept_to_unix_ns = growing.stretch.copied_to_unix_ns();
        let kept = growing.stretch.finish(i64::MAX)?;
        eprint!("{}", serve_text::frozen(&kept.path, kept.bytes, kept.ios));
        Ok(())
    }

    /// Removes the oldest copies until half of the budget is free.
    fn make_room(&self) -> Result<()> {
        let kept = self.target.kept()?;
        let mut used: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
        for (path, bytes) in kept {
            if used <= self.keep_bytes / 2 {
                break;
            }
            remove_recording(&path, self.target.access)?;
            used -= bytes;
        }
        Ok(())
    }
}

fn remark(summary: &str) -> String {
    format!("kept for: {summary}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::stretch::tests::{S, lake, record, times};
    use super::*;
    use iolens_core::store::{Budget, Recording, stored_bytes};

    pub fn event(from_s: i64, to_s: Option<i64>) -> FreezeEvent {
        let what = ("stall".into(), Some("sda".to_owned()), from_s * S);
        FreezeEvent {
            what,
            from_ns: from_s * S,
            to_ns: to_s.map(|s| s * S),
            summary: "nothing completes".to_owned(),
        }
    }

    #[test]
    fn the_minutes_around_a_finding_outlive_what_they_are_copied_from() {
        let (_dir, target) = lake();
        record(&target.host_dir, 1000, 600, 1);
        record(&target.host_dir, 1600, 900, 1);
        let before = times(&target.host_dir);
        let mut work = Work::new(target.clone(), 64 << 20);
        work.event(event(1700, None), 1720 * S).unwrap();
        assert!(work.growing.is_some());
        let budget = Budget {
            keep_bytes: 1 << 30,
            access: target.access,
        };
        let root = target.host_dir.parent().unwrap();
        let second = target.host_dir.join(format!("start_ns={}", 1600 * S));
        budget.make_room(root, Some(&second), 0, 1720 * S).unwrap();
        work.event(event(1710, None), 1730 * S).unwrap();
        work.event(event(1700, Some(1760)), 1900 * S).unwrap();
        work.event(event(1710, Some(1750)), 1910 * S).unwrap();
        assert!(work.growing.is_some(), "five minutes after the last end");
        work.copy(2200 * S).unwrap();
        assert!(work.growing.is_none());
        let kept = times(&target.into);
        let expected: Vec<i64> = before
            .into_iter()
            .filter(|ns| (1400 * S..2060 * S).contains(ns))
            .collect();
        assert!(kept == expected, "{} of {}", kept.len(), expected.len());
        let [(path, _)] = &target.kept().unwrap()[..] else {
            panic!("one")
        };
        let copy = Recording::open(path).unwrap();
        assert!(copy.warnings().is_empty(), "{:?}", copy.warnings());
        assert_eq!(
            copy.marks(0..i64::MAX)
                .iter()
                .filter(|m| m.text == "kept for: nothing completes")
                .count(),
            2
        );
        assert_eq!(
            (copy.meta().start_unix_ns, copy.meta().end_ns),
            (1400 * S, Some(660 * S))
        );
        work.event(event(2070, None), 2090 * S).unwrap();
        work.event(event(2070, Some(2075)), 2499 * S).unwrap();
        let mut all = times(&target.into);
        all.dedup();
        assert_eq!(
            all.len(),
            times(&target.into).len(),
            "nothing is kept twice"
        );
    }

    #[test]
    fn the_oldest_copies_go_and_their_budget_holds() {
        let (_dir, target) = lake();
        record(&target.host_dir, 0, 9000, 160);
        let keep_bytes = 8 << 20;
        let mut work = Work::new(target.clone(), keep_bytes);
        for n in 1..=6 {
            let from_s = n * 1400;
            let now_s = n * 1400 + 20;
            work.event(event(from_s, None), now_s * S).unwrap();
            work.event(event(from_s, Some(from_s + 10)), (now_s + 330) * S)
                .unwrap();
            work.copy((now_s + 340) * S).unwrap();
            assert!(work.growing.is_none());
            let used: u64 = target
                .kept()
                .unwrap()
                .iter()
                .map(|(path, _)| stored_bytes(path).unwrap())
                .sum();
            assert!(used <= keep_bytes, "{used} after {n}");
        }
        let kept = target.kept().unwrap();
        assert!(kept.len() < 6 && !kept.is_empty(), "{kept:?}");
        let newest = Recording::open(&kept[kept.len() - 1].0).unwrap();
        assert_eq!(newest.meta().start_unix_ns, (6 * 1400 - 300) * S);
    }
}
