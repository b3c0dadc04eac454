//! Reads stretches of a recording for the screen on a thread, so that long reads do not block the keys.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use iolens_core::model::floor_to;

use super::analyst::{Matcher, Selection};
use super::history::{History, SelectedColumns};
use super::names::RecentNames;
use super::worker::Worker;
use crate::engine::browse::{BrowsedPlace, BrowsedStretch};
use crate::engine::caller::Caller;
use crate::engine::error::QueryError;
use crate::present::query_text::{self, Spelling};

/// Time read before the view, for the percentiles beside the heat map.
const BEFORE_NS: i64 = 10_000_000_000;
/// I/Os that complete this long after the view were in flight in it.
const AFTER_NS: i64 = 5_000_000_000;

/// A request for a stretch.
#[derive(Debug, Clone, PartialEq)]
pub struct StretchRequest {
    /// The time in view.
    pub view_ns: Range<i64>,
    /// Width of a heat map column in nanoseconds.
    pub step_ns: i64,
    /// The selection, if it is by more than device and class.
    pub selection: Option<Selection>,
    /// Number of checks whether the recording has grown.
    pub look: u64,
}

impl StretchRequest {
    /// Width of the columns to read: each column of the heat map consists of whole ones.
    fn column_ns(&self) -> i64 {
        const MS: i64 = 1_000_000;
        match self.step_ns / MS {
            0..=99 => self.step_ns,
            100..=1000 => 100 * MS,
            1001..=59_999 => 500 * MS,
            _ => self.step_ns / 60,
        }
    }

    /// Whether a stretch read for this request is sufficient for `wanted`, whose time may have moved on.
    fn serves(&self, wanted: &StretchRequest) -> bool {
        let read = self.read_ns();
        let from_ns = wanted.view_ns.start.min(wanted.view_ns.end - BEFORE_NS);
        read.start <= from_ns
            && read.end >= wanted.view_ns.end
            && self.step_ns == wanted.step_ns
            && self.selection == wanted.selection
            && self.look == wanted.look
    }

    /// The range to read: half a screen more on both sides, so that scrolling a little does not read again.
    fn read_ns(&self) -> Range<i64> {
        let half_ns = (self.view_ns.end - self.view_ns.start) / 2;
        self.view_ns.start.min(self.view_ns.end - BEFORE_NS) - half_ns
            ..self.view_ns.end + half_ns.max(AFTER_NS)
    }
}

/// A stretch that was read.
pub struct LoadedStretch {
    /// What was wanted.
    pub request: StretchRequest,
    /// Its columns.
    pub history: History,
    /// The stretch itself, for the analyses.
    pub stretch: Arc<BrowsedStretch>,
}

impl LoadedStretch {
    /// Whether `history`, which was taken from it, is sufficient to show `wanted`.
    pub fn covers(&self, history: &History, wanted: &StretchRequest) -> bool {
        let kept = history.kept_ns();
        let whole = history.range_ns();
        let from_ns = wanted.view_ns.start.min(wanted.view_ns.end - BEFORE_NS);
        let has_begin = kept.start <= from_ns.max(whole.start);
        let has_end = kept.end >= wanted.view_ns.end.min(whole.end);
        has_begin
            && has_end
            && self.request.column_ns() == wanted.column_ns()
            && self.request.selection == wanted.selection
    }
}

/// A request to the thread.
struct StretchQuestion {
    request: StretchRequest,
    is_cancelled: Arc<AtomicBool>,
}

/// The result; `None` if it was cancelled.
type StretchAnswer = Result<Option<LoadedStretch>, String>;

/// The reading thread.
pub struct StretchReader {
    worker: Worker<StretchQuestion, StretchAnswer>,
    /// The current request, and its cancellation flag.
    current: Option<(StretchRequest, Arc<AtomicBool>)>,
    /// The last request that failed; it is not retried.
    failed: Option<StretchRequest>,
}

impl StretchReader {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(mut place: BrowsedPlace) -> Result<StretchReader> {
        let worker = Worker::start("reader", move |asked: StretchQuestion| {
            read(&mut place, asked.request, || {
                asked.is_cancelled.load(Ordering::Relaxed)
            })
            .map_err(|e| query_text::error(&e, Spelling::Flags))
        });
        Ok(StretchReader {
            worker: worker.context("a thread could not be started")?,
            current: None,
            failed: None,
        })
    }

    /// Requests a stretch. A read of another stretch is cancelled first, so call this again until the reader is not
    /// busy.
    pub fn want(&mut self, request: &StretchRequest) {
        match &self.current {
            Some((current, _)) if current.serves(request) => {}
            Some((_, is_cancelled)) => is_cancelled.store(true, Ordering::Relaxed),
            None if self.failed.as_ref() == Some(request) => {}
            None => {
                let is_cancelled: Arc<AtomicBool> = Arc::default();
                self.current = Some((request.clone(), Arc::clone(&is_cancelled)));
                self.worker.ask(StretchQuestion {
                    request: request.clone(),
                    is_cancelled,
                });
            }
        }
    }

    /// The stretch that was read, or an error.
    pub fn result(&mut self) -> Option<Result<LoadedStretch, String>> {
        let answer = self.worker.answer()?;
        let asked = self.current.take();
        let read = answer.result.and_then(|read| read);
        self.failed = asked.map(|a| a.0).filter(|_| read.is_err());
        read.transpose()
    }

    /// Whether it is reading.
    pub fn is_busy(&self) -> bool {
        !self.worker.is_idle()
    }
}

/// Reads a stretch; `None` if it was cancelled.
fn read(
    place: &mut BrowsedPlace,
    request: StretchRequest,
    is_cancelled: impl Fn() -> bool,
) -> Result<Option<LoadedStretch>, QueryError> {
    let caller = Caller::without_notes();
    let whole = place.range_ns(&caller)?;
    let wanted = request.read_ns();
    let column_ns = request.column_ns();
    // Only whole columns of the recorded time are read.
    let start_ns = wanted.start.max(whole.start).min(whole.end - 1);
    let start_ns = floor_to(start_ns, column_ns);
    let end_ns = wanted.end.clamp(start_ns + 1, whole.end.max(start_ns + 1));
    let range = start_ns.max(whole.start)..end_ns;
    let stretch = place.stretch(&range, &caller)?;
    let start_unix_ns = place.start_unix_ns();
    let mut history = History::of_stretch(start_unix_ns, whole, start_ns..end_ns, column_ns);
    history.devices.clone_from(&stretch.meta().devices);
    history.names = RecentNames::of_recording(stretch.names().clone());
    history.lose(&stretch.lost(&range));
    let mut selected = None;
    if let Some(selection) = &request.selection {
        selected = Some(SelectedColumns::new(selection.clone(), column_ns));
    }
    let devices = history.devices.clone();
    let names = Arc::clone(history.names.all());
    let mut matcher = (request.selection.as_ref()).map(|s| Matcher::new(s, &devices, &names));
    let in_flight = range.start..range.end.saturating_add(AFTER_NS);
    let read = stretch.each_batch(&in_flight, &caller, |ios| {
        history.count_all(ios);
        if let Some((selected, matcher)) = selected.as_mut().zip(matcher.as_mut()) {
            for io in ios.iter().filter(|io| matcher.has(io)) {
                selected.count(io);
            }
        }
        !is_cancelled()
    })?;
    let is_whole = read.is_whole && count_counters(&stretch, &range, &mut history, is_cancelled)?;
    if !is_whole {
        return Ok(None);
    }
    history.lose(&read.damage);
    history.selected = selected;
    Ok(Some(LoadedStretch {
        request,
        history,
        stretch: Arc::new(stretch),
    }))
}

/// Adds differences of counters, if there are no single I/Os. Returns `false` if it was cancelled.
fn count_counters(
    stretch: &BrowsedStretch,
    range: &Range<i64>,
    history: &mut History,
    is_cancelled: impl Fn() -> bool,
) -> Result<bool, QueryError> {
    if !stretch.is_of_counters() {
        return Ok(true);
    }
    stretch.each_difference(range, &Caller::without_notes(), |rates| {
        history.count_rates(rates);
        !is_cancelled()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use iolens_core::analysis::heat::TimePart;
    use iolens_core::analysis::timeline::GroupBy;
    use iolens_core::analysis::waits::Grouping;
    use iolens_core::analysis::{Window, timeline::GroupKey};
    use iolens_core::model::{
        Class, ClassCounters, Comm, CounterSample, DevId, Device, DiskCounters, Io, LossReason,
        Lost, Observation, Op, RecorderCost, RecordingMeta, Source,
    };
    use iolens_core::store::{RecordingWriter, Root, WriterOptions};
    use jiff::Timestamp;

    use super::super::analyst::{IoSource, Job, Material, Outcome};
    use super::super::history::Pick;
    use super::*;
    use crate::engine::part::Tier;
    use crate::engine::query::{Grain, Query, Step};
    use crate::engine::view::PlannedRows;
    use crate::engine::{Instant, TimeWindow, actors, waits};

    const MS: i64 = 1_000_000;
    const S: i64 = 1000 * MS;
    /// 2026-11-18T08:53:20Z.
    const EPOCH: i64 = 1_795_000_000 * S;
    const DEV: DevId = DevId(8 << 20);

    /// `seconds` of reads each 2 ms by one program, and a second in which another writes and delays them.
    fn record(path: &Path, start_unix_ns: i64, seconds: i64) {
        let mut meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
        meta.devices = vec![Device::named("sda", DEV)];
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("a recording");
        let io = |done_ns: i64, op, device_ns, queue_ns, who: &[u8], tgid| Io {
            comm: Some(Comm::new(who)),
            tgid: Some(tgid),
            ..Io::new(done_ns, DEV, op, 4096, Some(queue_ns), device_ns)
        };
        let mut ios = Vec::new();
        for n in 1..seconds * 500 {
            let at_ns = n * 2 * MS;
            let is_disturbed = (at_ns / S) % 10 == 5;
            if is_disturbed {
                ios.push(io(at_ns + MS, Op::WRITE, 18 * MS, 0, b"backup", 812));
                ios.push(io(at_ns + 2 * MS, Op::READ, 9 * MS, 2 * MS, b"shop", 77));
            } else {
                ios.push(io(at_ns, Op::READ, MS / 10, n * 100, b"shop", 77));
            }
        }
        ios.retain(|io| io.done_ns < seconds * S);
        ios.sort_by_key(|io| io.done_ns);
        writer.push_ios(&ios).expect("written");
        let lost = Lost {
            from_ns: 7 * S,
            to_ns: 7 * S + 10 * MS,
            dev: Some(DEV),
            class: Some(Class::Read),
            reason: LossReason::RingFull,
            ios: Some(3),
            bytes: None,
            merges: None,
        };
        writer.push(&Observation::Lost(lost)).expect("written");
        writer
            .finish(seconds * S, RecorderCost::default())
            .expect("finished");
    }

    fn open(path: &Path) -> BrowsedPlace {
        let opened =
            BrowsedPlace::open(path.to_owned(), Vec::new(), None, &Caller::without_notes());
        opened.expect("it can be browsed").0
    }

    fn load(place: &mut BrowsedPlace, view_ns: Range<i64>, step_ns: i64) -> LoadedStretch {
        let request = StretchRequest {
            view_ns,
            step_ns,
            selection: None,
            look: 0,
        };
        let read = read(place, request, || false).expect("readable");
        read.expect("it is not cancelled")
    }

    fn selection(text: &str) -> Selection {
        Selection {
            pick: Pick {
                part: TimePart::Total,
                dev: None,
                class: None,
                above: Vec::new(),
            },
            groups: Vec::new(),
            text: text.to_owned(),
        }
    }

    fn window(from_ns: i64, to_ns: i64) -> TimeWindow {
        let at = |ns: i64| {
            let unix_ns = EPOCH + ns;
            Some(Instant::Wall(
                Timestamp::from_nanosecond(unix_ns.into()).expect("in range"),
            ))
        };
        TimeWindow {
            at: None,
            from: at(from_ns),
            to: at(to_ns),
        }
    }

    #[test]
    fn rates_are_those_of_zoom() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        record(&path, EPOCH, 30);
        let loaded = load(&mut open(&path), 5 * S..16 * S, 100 * MS);
        let caller = Caller::without_notes();
        let query = Query::new(&path, window(5 * S, 16 * S), &caller);
        let grain = Grain::Rows {
            step: Step::OfSource(Some(100 * MS)),
            by: GroupBy::Device,
            tier: Tier::Finest,
        };
        let mut rows = 0;
        for part in query.parts(grain).expect("readable").parts {
            let view = PlannedRows::new(part, GroupBy::Device, true, &caller).expect("a view");
            view.show(0, &caller, |row, _| {
                rows += 1;
                for class in [Class::Read, Class::Write] {
                    let own = loaded.history.flow(DEV, class, row.from_ns, row.to_ns);
                    let zoom = &row.flows[class as usize];
                    assert_eq!((own.ios, own.bytes), (zoom.ios, zoom.bytes));
                }
                Ok(())
            })
            .expect("rows");
        }
        assert_eq!(rows, 110);
        assert_eq!(loaded.history.lost_ios, 3);
        assert_eq!(loaded.history.shown_lost_ios(5 * S, 8 * S), 3);
        assert_eq!(loaded.history.shown_lost_ios(8 * S, 16 * S), 0);
        assert!(loaded.history.is_lossy(7 * S, 7 * S + 100 * MS));
        assert!(!loaded.history.is_lossy(8 * S, 9 * S));
    }

    #[test]
    fn waits_and_actors_are_those_of_the_engine_over_the_same_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        record(&path, EPOCH, 30);
        let loaded = load(&mut open(&path), 14 * S..17 * S, 100 * MS);
        let job = Job::Tables {
            material: Material {
                source: IoSource::Recording(Arc::clone(&loaded.stretch)),
                lost: loaded.stretch.lost(&(14 * S..17 * S)),
                window: Window::new(14 * S, 17 * S),
                warm_up_ns: waits::LEARN_NS,
                is_cancelled: Arc::default(),
            },
            selection: selection(""),
            by: GroupBy::Process,
            devices: loaded.history.devices.clone(),
            names: Arc::clone(loaded.history.names.all()),
        };
        let Outcome::Tables(tables) = job.run() else {
            panic!("no tables")
        };
        let caller = Caller::without_notes();
        let query = Query::new(&path, window(14 * S, 17 * S), &caller);
        let engine = waits::waits(&query, Grouping::Process).expect("waits");
        let mut expected = BTreeMap::new();
        for victim in &engine[0].pieces[0].devices[0].victims {
            let key = (
                victim.group.program.and_then(|p| p.tgid),
                victim.group.class,
            );
            let sums: &mut (u64, i64, i64) = expected.entry(key).or_default();
            sums.0 += victim.ios;
            sums.1 += victim.time.total_ns();
            sums.2 += victim.time.undisturbed_ns;
        }
        let mut found = BTreeMap::new();
        for row in &tables.waits {
            let key = (row.who.program.and_then(|p| p.tgid), row.class);
            found.insert(key, (row.ios, row.time.total_ns(), row.time.undisturbed_ns));
        }
        assert_eq!(found, expected);
        let of_shop = found[&(Some(77), Class::Read)];
        assert!(of_shop.1 > 2 * of_shop.2, "it was delayed: {of_shop:?}");
        let engine = actors::actors(&query, GroupBy::Process).expect("actors");
        assert_eq!(tables.actors.len(), engine.named.len());
        for actor in &tables.actors {
            let GroupKey::Process(Some(tgid), Some(comm)) = actor.key else {
                panic!("{actor:?}")
            };
            let flows = &engine.named[&format!("{}[{tgid}]", comm.to_text())];
            let ios: Vec<u64> = flows.iter().map(|f| f.ios).collect();
            assert_eq!(ios, actor.ios);
        }
    }

    /// Ten seconds with a sample every 10 ms, in which four reads of 4 KiB completed.
    fn record_counters(path: &Path, source: Source) {
        let mut meta = RecordingMeta::new(source, EPOCH);
        meta.devices = vec![Device::named("sda", DEV)];
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("a recording");
        for n in 0..=1000 {
            let read = ClassCounters {
                ios: 4 * n,
                sectors: 4 * 8 * n,
                ..ClassCounters::default()
            };
            let counters = DiskCounters {
                read,
                ..DiskCounters::default()
            };
            let sample = CounterSample {
                at_ns: n as i64 * 10 * MS,
                dev: DEV,
                counters,
            };
            writer
                .push(&Observation::Counters(sample))
                .expect("written");
        }
        writer
            .finish(10 * S, RecorderCost::default())
            .expect("finished");
    }

    #[test]
    fn recorded_counters_give_rates_and_an_imported_table_is_known_to_lack_ios() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("counters");
        record_counters(&path, Source::Counters);
        let loaded = load(&mut open(&path), 2 * S..4 * S, 100 * MS);
        let reads = loaded.history.flow(DEV, Class::Read, 3 * S, 4 * S);
        assert_eq!((reads.ios, reads.bytes), (400, 400 * 4096));
        assert!(loaded.stretch.is_of_counters() && loaded.stretch.lacks_ios());
        let path = dir.path().join("table");
        record_counters(&path, Source::Import("iostat".to_owned()));
        let loaded = load(&mut open(&path), 2 * S..4 * S, 100 * MS);
        assert!(!loaded.stretch.is_of_counters() && loaded.stretch.lacks_ios());
        let path = dir.path().join("every-io");
        record(&path, EPOCH, 10);
        let loaded = load(&mut open(&path), 2 * S..4 * S, 100 * MS);
        assert!(!loaded.stretch.is_of_counters() && !loaded.stretch.lacks_ios());
    }

    #[test]
    fn a_filter_counts_in_the_picture_whatever_its_length() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        record(&path, EPOCH, 30);
        let mut place = open(&path);
        for (step_ns, view_ns) in [(MS, 15 * S..15 * S + 100 * MS), (60 * S, 0..600 * S)] {
            let request = StretchRequest {
                view_ns: view_ns.clone(),
                step_ns,
                selection: Some(selection("backup")),
                look: 0,
            };
            let loaded = read(&mut place, request.clone(), || false);
            let loaded = loaded.expect("readable").expect("not cancelled");
            assert!(loaded.covers(&loaded.history, &request));
            let selected = loaded.history.selected.as_ref().expect("selected columns");
            let selected = selected.latencies(view_ns.start, view_ns.end).n();
            let writes = loaded
                .history
                .flow(DEV, Class::Write, view_ns.start, view_ns.end);
            assert!(
                selected > 0 && selected == writes.ios,
                "{selected} {writes:?}"
            );
        }
    }

    #[test]
    fn times_of_a_root_count_from_its_first_recording() {
        let dir = tempfile::tempdir().expect("a directory");
        let host = dir.path().join(Root::host_directory("h"));
        std::fs::create_dir_all(&host).expect("made");
        for start_s in [0, 60] {
            let start = EPOCH + start_s * S;
            record(&host.join(Root::recording_directory(start)), start, 60);
        }
        let mut place = open(dir.path());
        let caller = Caller::without_notes();
        assert_eq!(place.range_ns(&caller).expect("readable"), 0..120 * S);
        let of_second = load(&mut place, 64 * S..67 * S, 100 * MS);
        let writes = |loaded: &LoadedStretch, at_s: i64| {
            let history = &loaded.history;
            history
                .flow(DEV, Class::Write, at_s * S, (at_s + 1) * S)
                .ios
        };
        assert!(writes(&of_second, 65) > 400);
        // It began within both.
        let of_both = load(&mut place, 54 * S..67 * S, 100 * MS);
        assert_eq!(writes(&of_both, 65), writes(&of_second, 65));
        assert_eq!(writes(&of_both, 55), writes(&of_second, 65));
    }

    #[test]
    fn nobody_waits_for_a_stretch_that_is_not_wanted_any_more() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        record(&path, EPOCH, 30);
        let mut reader = StretchReader::start(open(&path)).expect("a thread");
        let request = |at_s: i64| StretchRequest {
            view_ns: at_s * S..(at_s + 1) * S,
            step_ns: 100 * MS,
            selection: None,
            look: 0,
        };
        reader.want(&request(0));
        let loaded = loop {
            reader.want(&request(29));
            match reader.result() {
                Some(Ok(loaded)) if loaded.covers(&loaded.history, &request(29)) => break loaded,
                Some(Err(e)) => panic!("{e}"),
                _ => std::thread::yield_now(),
            }
        };
        assert!(!loaded.covers(&loaded.history, &request(0)));
        std::fs::remove_dir_all(&path).expect("removed");
        let failure = loop {
            reader.want(&request(10));
            match reader.result() {
                Some(Err(failure)) => break failure,
                _ => std::thread::yield_now(),
            }
        };
        assert!(!failure.is_empty());
        reader.want(&request(10));
        assert!(!reader.is_busy(), "it is not tried again");
    }
}
