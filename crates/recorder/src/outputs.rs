//! Routes a session's observations to the current recording and, for a moment after a rotation, to the previous one.
//!
//! A session that continues in another recording keeps its probes and its clock. Times are converted to the new start
//! here, and I/Os that completed before it go to the previous recording. Nothing is lost or counted twice in between.

use std::path::PathBuf;
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use iolens_core::model::{Device, Io, Observation, RecorderCost, Request, WaitSums};
use iolens_core::store::{RecordingSummary, WriterStatus};

use crate::pipeline::Pipeline;

/// One recording.
struct Output {
    pipeline: Pipeline,
    /// Its start in the session's time.
    from_ns: i64,
    path: PathBuf,
}

/// A recording that is finished on its own thread, because closing segments takes longer than the rings can wait.
struct Closing {
    path: PathBuf,
    thread: JoinHandle<Result<RecordingSummary>>,
}

impl Closing {
    /// Waits until it is finished.
    fn join(self) -> Closed {
        let joined = self.thread.join();
        let result = joined.unwrap_or_else(|_| Err(anyhow!("the end of a recording panicked")));
        Closed {
            path: self.path,
            result,
        }
    }
}

/// All recordings of a session that are not closed yet.
pub struct Outputs {
    current: Output,
    previous: Option<(Output, RecorderCost)>,
    closing: Vec<Closing>,
}

/// Results of all recordings of a session.
pub struct Finished {
    /// Directory of the last one.
    pub path: PathBuf,
    /// Summary or error of the last one.
    pub stored: Result<RecordingSummary>,
    /// Previous ones that [`Outputs::closed`] did not return.
    pub closed: Vec<Closed>,
}

/// A recording that ended while the session continued.
#[derive(Debug)]
pub struct Closed {
    /// Its directory.
    pub path: PathBuf,
    /// Its result.
    pub result: Result<RecordingSummary>,
}

impl Outputs {
    /// Starts with one recording, whose times are those of the session.
    pub fn new(pipeline: Pipeline, path: PathBuf) -> Outputs {
        Outputs {
            current: Output {
                pipeline,
                from_ns: 0,
                path,
            },
            previous: None,
            closing: Vec::new(),
        }
    }

    /// Start of the current recording, in the session's time.
    pub fn began_ns(&self) -> i64 {
        self.current.from_ns
    }

    /// Directory of the current recording.
    pub fn path(&self) -> &PathBuf {
        &self.current.path
    }

    /// Continues in another recording with the I/Os that complete from `from_ns` on.
    pub fn rotate(&mut self, pipeline: Pipeline, path: PathBuf, from_ns: i64, cost: RecorderCost) {
        // Two rotations within the time that a late I/O takes: the first recording is closed immediately.
        self.settle(i64::MAX);
        let old = std::mem::replace(
            &mut self.current,
            Output {
                pipeline,
                from_ns,
                path,
            },
        );
        self.previous = Some((old, cost));
    }

    /// Whether the writer of the current recording has ended. From then on I/Os are counted but not stored, until the
    /// next recording begins. [`Outputs::closed`] returns the reason.
    pub fn has_failed(&self) -> bool {
        self.current.pipeline.has_ended()
    }

    /// Declares that all I/Os completed before `complete_to_ns` have been sent. Closes the previous recording when no
    /// more I/Os can belong to it.
    pub fn settle(&mut self, complete_to_ns: i64) {
        if complete_to_ns < self.current.from_ns {
            return;
        }
        if let Some((old, cost)) = self.previous.take() {
            let end_ns = self.current.from_ns - old.from_ns;
            let path = old.path;
            let pipeline = old.pipeline;
            let thread = std::thread::spawn(move || pipeline.finish(end_ns, cost));
            self.closing.push(Closing { path, thread });
        }
    }

    /// Recordings that have been finished; with `wait`, waits for all of them.
    pub fn closed(&mut self, wait: bool) -> Vec<Closed> {
        let done = self
            .closing
            .extract_if(.., |c| wait || c.thread.is_finished());
        done.map(Closing::join).collect()
    }

    /// Whether the previous recording is not closed yet.
    pub fn is_closing(&self) -> bool {
        self.previous.is_some() || !self.closing.is_empty()
    }

    /// An empty batch to be filled.
    pub fn batch(&self) -> Vec<Io> {
        self.current.pipeline.batch()
    }

    /// Passes on I/Os in the session's time.
    pub fn send_ios(&mut self, mut ios: Vec<Io>) {
        let from_ns = self.current.from_ns;
        if from_ns > 0 {
            if let Some((old, _)) = &mut self.previous {
                let mut before: Vec<Io> = ios.extract_if(.., |io| io.done_ns < from_ns).collect();
                before.iter_mut().for_each(|io| io.done_ns -= old.from_ns);
                // If it cannot take them, they are counted, and its result has the reason.
                drop(old.pipeline.send_ios(before));
            }
            // I/Os later than the source promised are moved to the very start.
            ios.iter_mut()
                .for_each(|io| io.done_ns = (io.done_ns - from_ns).max(0));
        }
        // As above; see `has_failed`.
        drop(self.current.pipeline.send_ios(ios));
    }

    /// Passes on any other observations in the session's time.
    pub fn send(&mut self, mut others: Vec<Observation>) {
        let from_ns = self.current.from_ns;
        if from_ns > 0 {
            if let Some((old, _)) = &mut self.previous {
                let before: Vec<Observation> =
                    others.extract_if(.., |o| o.at_ns() < from_ns).collect();
                // If it cannot take them, its result has the reason.
                drop(
                    old.pipeline
                        .send(before.into_iter().map(|o| moved(o, old.from_ns)).collect()),
                );
            }
            others = others.into_iter().map(|o| moved(o, from_ns)).collect();
        }
        drop(self.current.pipeline.send(others));
    }

    /// Sends the current devices, without those removed before the recording began.
    pub fn send_devices(&mut self, devices: &[Device]) {
        let devices = devices_from(devices, self.current.from_ns);
        drop(self.current.pipeline.send_devices(devices));
    }

    /// Sends rows of waits, in the session's time. The last rows of a recording arrive after it has ended; they are
    /// stored at the start of the next.
    pub fn send_waits(&mut self, mut rows: Vec<WaitSums>) {
        let from_ns = self.current.from_ns;
        for row in &mut rows {
            row.at_ns = (row.at_ns - from_ns).max(0);
            if let Some(worst) = &mut row.worst {
                worst.done_ns = (worst.done_ns - from_ns).max(0);
            }
        }
        drop(self.current.pipeline.send_waits(rows));
    }

    /// Sends the open file-level requests with their sums so far.
    pub fn send_open_requests(&mut self, open: Vec<Request>) {
        drop(self.current.pipeline.send_open_requests(open));
    }

    /// Status of the current recording.
    pub fn status(&self) -> WriterStatus {
        self.current.pipeline.status()
    }

    /// Finishes all recordings, the last at `end_ns` of the session's time.
    pub fn finish(mut self, end_ns: i64, cost: RecorderCost) -> Finished {
        self.settle(i64::MAX);
        let stored = self
            .current
            .pipeline
            .finish(end_ns - self.current.from_ns, cost);
        let closed = self.closing.into_iter().map(Closing::join).collect();
        Finished {
            path: self.current.path,
            stored,
            closed,
        }
    }
}

/// `error` of the last recording, extended by the previous recordings that could not be closed either.
pub fn with_others(error: anyhow::Error, closed: Vec<Closed>) -> anyhow::Error {
    let mut error = error;
    for Closed { path, result } in closed {
        if let Err(why) = result {
            error = error.context(format!(
                "{} could not be closed either ({why:#})",
                path.display()
            ));
        }
    }
    error
}

/// `devices` as seen by a recording that begins at `from_ns`.
pub fn devices_from(devices: &[Device], from_ns: i64) -> Vec<Device> {
    let mut there = Vec::with_capacity(devices.len());
    for device in devices {
        if device.removed_ns.is_some_and(|at| at < from_ns) {
            continue;
        }
        there.push(Device {
            added_ns: device.added_ns.and_then(|at| time_since(from_ns, at)),
            removed_ns: device.removed_ns.and_then(|at| time_since(from_ns, at)),
            ..device.clone()
        });
    }
    there
}

/// Time since `from_ns`; `None` if `at_ns` is before it.
fn time_since(from_ns: i64, at_ns: i64) -> Option<i64> {
    Some(at_ns.saturating_sub(from_ns)).filter(|since_ns| *since_ns >= 0)
}

/// Converts an observation to the time of a recording that begins at `from_ns`. Earlier times become its start.
pub fn moved(mut o: Observation, from_ns: i64) -> Observation {
    match &mut o {
        Observation::Io(io) => move_back(&mut io.done_ns, from_ns),
        Observation::Counters(c) => move_back(&mut c.at_ns, from_ns),
        Observation::Lost(l) => {
            move_back(&mut l.from_ns, from_ns);
            move_back(&mut l.to_ns, from_ns);
        }
        Observation::Mark(m) => move_back(&mut m.at_ns, from_ns),
        Observation::Name(n) => move_back(&mut n.at_ns, from_ns),
        Observation::Cgroup(c) => move_back(&mut c.at_ns, from_ns),
        Observation::Pressure(p) => {
            // Its times are sums over the whole interval, which may have started before the recording.
            p.from_ns = p.from_ns.saturating_sub(from_ns);
            move_back(&mut p.to_ns, from_ns);
            // The timer's deadline may be before the recording.
            p.timer_due_ns = p.timer_due_ns.map(|due_ns| due_ns.saturating_sub(from_ns));
        }
        Observation::Request(r) => {
            // It may have started before the recording.
            r.start_ns = r.start_ns.saturating_sub(from_ns);
            move_back(&mut r.end_ns, from_ns);
        }
    }
    o
}

/// Subtracts `from_ns` and clamps at 0. Saturating, because a loss may extend to the end of time.
fn move_back(at_ns: &mut i64, from_ns: i64) {
    *at_ns = at_ns.saturating_sub(from_ns).max(0);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::losses::LossTally;
    use iolens_core::model::{
        DevId, LossReason, Lost, Mark, Op, PressureSample, RecordingMeta, Source,
    };
    use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};
    use iolens_observe::counters::monotonic_ns;
    use std::path::Path;

    #[test]
    fn what_is_moved_does_not_wrap_around() {
        let open_ended = Lost::somewhere(-3, i64::MAX, LossReason::RingFull);
        let Observation::Lost(later) = moved(Observation::Lost(open_ended), -5) else {
            panic!("another observation")
        };
        assert_eq!((later.from_ns, later.to_ns), (2, i64::MAX));
        let device = Device {
            added_ns: Some(i64::MAX),
            ..Device::named("sda", DevId(8))
        };
        let moved = devices_from(&[device], -5);
        assert_eq!(moved[0].added_ns, Some(i64::MAX));
    }

    #[test]
    fn pressure_that_was_measured_from_before_keeps_its_interval() {
        let sample = PressureSample {
            from_ns: 100,
            to_ns: 1000,
            cpu_some_ns: Some(316),
            timer_due_ns: Some(150),
            timer_late_ns: Some(3),
            ..PressureSample::default()
        };
        let Observation::Pressure(later) = moved(Observation::Pressure(sample), 955) else {
            panic!("another observation")
        };
        assert_eq!((later.from_ns, later.to_ns), (-855, 45));
        assert_eq!(later.len_ns(), sample.len_ns());
        assert_eq!(later.cpu_some_ns, Some(316));
        assert_eq!(later.timer_due_ns, Some(-805));
    }

    fn pipeline(path: &Path) -> Pipeline {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let writer = RecordingWriter::create(path, meta, WriterOptions::default()).unwrap();
        Pipeline::start(writer, monotonic_ns(), false, LossTally::default()).unwrap()
    }

    fn ios(done: &[i64]) -> Vec<Io> {
        done.iter()
            .map(|ns| Io::new(*ns, DevId(8), Op::READ, 512, Some(1), 2))
            .collect()
    }

    fn done(path: &Path) -> Vec<i64> {
        let recording = Recording::open(path).unwrap();
        recording
            .ios(0..i64::MAX, IoColumns::ALL)
            .flat_map(|b| b.unwrap())
            .map(|io| io.done_ns)
            .collect()
    }

    #[test]
    fn what_completed_before_goes_to_the_recording_before_and_each_has_its_own_time() {
        let dir = tempfile::tempdir().unwrap();
        let a = dir.path().join("a");
        let b = dir.path().join("b");
        let c = dir.path().join("c");
        let mut outputs = Outputs::new(pipeline(&a), a.clone());
        outputs.send_ios(ios(&[10, 20]));
        outputs.rotate(pipeline(&b), b.clone(), 100, RecorderCost::default());
        outputs.send_ios(ios(&[90, 99, 100, 130]));
        let lost = |ns| {
            Observation::Lost(Lost {
                ios: Some(1),
                ..Lost::somewhere(ns - 5, ns, LossReason::RingFull)
            })
        };
        let mark = |at_ns| {
            Observation::Mark(Mark {
                at_ns,
                kind: "phase".to_owned(),
                text: String::new(),
            })
        };
        outputs.send(vec![lost(98), lost(103), mark(99), mark(150)]);
        outputs.settle(99);
        assert!(
            outputs.is_closing() && outputs.previous.is_some(),
            "something may still come"
        );
        outputs.settle(100);
        let closed = outputs.closed(true);
        assert_eq!(
            (
                closed.len(),
                &closed[0].path,
                closed[0].result.as_ref().unwrap().ios
            ),
            (1, &a, 4)
        );
        outputs.send_ios(ios(&[95, 160]));
        outputs.rotate(pipeline(&c), c.clone(), 200, RecorderCost::default());
        outputs.send_ios(ios(&[199, 201]));
        let finished = outputs.finish(300, RecorderCost::default());
        assert_eq!(
            (finished.path, finished.stored.unwrap().ios),
            (c.clone(), 1)
        );
        let before_last: Vec<&PathBuf> = finished.closed.iter().map(|c| &c.path).collect();
        assert_eq!(before_last, [&b]);
        assert_eq!((done(&a), done(&c)), (vec![10, 20, 90, 99], vec![1]));
        assert_eq!(
            done(&b),
            [0, 0, 30, 60, 99],
            "95 came later than the source promised"
        );
        let of = |path: &Path| {
            let r = Recording::open(path).unwrap();
            let lost: Vec<(i64, i64)> = r
                .lost(0..i64::MAX)
                .iter()
                .map(|l| (l.from_ns, l.to_ns))
                .collect();
            (
                r.end_ns(),
                lost,
                r.marks(0..i64::MAX)
                    .iter()
                    .map(|m| m.at_ns)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&a), (100, vec![(93, 98)], vec![99]));
        assert_eq!(of(&b), (100, vec![(0, 3)], vec![50]));
    }

    /// One whose thread does `end`.
    fn closing(
        path: &str,
        end: impl FnOnce() -> Result<RecordingSummary> + Send + 'static,
    ) -> Closing {
        Closing {
            path: PathBuf::from(path),
            thread: std::thread::spawn(end),
        }
    }

    #[test]
    fn what_fails_while_it_is_closed_comes_out_at_the_end_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let last = dir.path().join("last");
        let mut outputs = Outputs::new(pipeline(&last), last.clone());
        outputs.closing = vec![
            closing("a", || panic!("a panic")),
            closing("b", || Err(anyhow!("the disk is full"))),
        ];
        let finished = outputs.finish(300, RecorderCost::default());
        assert!(finished.stored.is_ok());
        let said: Vec<(String, String)> = finished
            .closed
            .iter()
            .map(|c| {
                let why = c.result.as_ref().unwrap_err();
                (c.path.display().to_string(), why.to_string())
            })
            .collect();
        assert_eq!(said[0].0, "a");
        assert_eq!(said[0].1, "the end of a recording panicked");
        assert_eq!(said[1].0, "b");
        assert_eq!(said[1].1, "the disk is full");
        let both = with_others(anyhow!("the last one failed"), finished.closed);
        assert_eq!(
            format!("{both:#}"),
            "b could not be closed either (the disk is full): \
             a could not be closed either (the end of a recording panicked): the last one failed"
        );
    }

    #[test]
    fn devices_that_went_before_are_not_there() {
        let gone = Device {
            removed_ns: Some(50),
            ..Device::named("sda", DevId(8))
        };
        let new = Device {
            added_ns: Some(150),
            ..Device::named("sdb", DevId(9))
        };
        let old = Device {
            added_ns: Some(20),
            ..Device::named("sdc", DevId(10))
        };
        let there = devices_from(&[gone, new, old], 100);
        let of: Vec<(&str, Option<i64>)> = there
            .iter()
            .map(|d| (d.name.as_str(), d.added_ns))
            .collect();
        assert_eq!(of, [("sdb", Some(50)), ("sdc", None)]);
    }
}
