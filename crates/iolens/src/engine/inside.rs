//! The data embedded in a report file: precomputed answers to the queries of its application, in the same form as a
//! server's.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::Report;
use iolens_core::analysis::heat::{Heat, SparseCells};
use iolens_core::analysis::stream::steps::{LONGEST_STEP_NS, readable_step, steps_in};
use iolens_core::analysis::timeline::{Extended, GroupBy, Row};
use iolens_core::analysis::waits::Grouping;
use iolens_core::model::{Class, DevId, MS_NS};

use super::actors::{self, ActorFlows};
use super::caller::Caller;
use super::error::{QueryError, Result};
use super::part::Part;
use super::query::Query;
use super::rows::device_name;
use super::series::Series;
use super::single::{self, NamedIo};
use super::waits::{self, PartWaitBins, PartWaits};
use super::{Instant, TimeWindow, heat};

/// Minimum width of a heat map column.
const MIN_COLUMN_NS: i64 = MS_NS;
/// Every recording may have this many columns: for one hour they are 100 ms wide.
const FINE_COLUMNS: i64 = 36_000;
/// Width of the columns for a recording of a day.
const DAY_COLUMN_NS: i64 = 100 * MS_NS;
/// Maximum number of columns: those of a day.
const MAX_COLUMNS: i64 = 864_000;
/// Number of columns counted at once. While being counted they take more memory than what is kept of them.
const COLUMNS_AT_ONCE: i64 = 16_384;
/// Maximum number of devices with their own heat map and rows: those with the most I/Os.
const MAX_DEVICES: usize = 8;
/// Maximum number of rows of throughput, over all devices.
const MAX_ROWS: i64 = 100_000;
/// Maximum number of intervals of waits and actors.
const MAX_STEPS: i64 = 60;
/// Maximum number of stories whose worst moment is stored with its single I/Os.
const MAX_MOMENTS: usize = 60;
/// A worst moment includes the I/Os this long before and after it.
const AROUND_MOMENT_NS: i64 = 50 * MS_NS;
/// An I/O that starts in a moment is included if it completes within this time.
const COMPLETES_WITHIN_NS: i64 = 1_000 * MS_NS;
/// Maximum number of I/Os of one moment.
const MAX_IOS_OF_MOMENT: usize = 20_000;
/// Maximum number of I/Os of all moments.
const MAX_IOS_OF_MOMENTS: usize = 200_000;

/// All data that the application can ask for.
#[derive(Default)]
pub struct Inside {
    /// The time that it covers, in Unix time in nanoseconds.
    pub unix_ns: Range<i64>,
    /// Width of a heat map column in nanoseconds.
    pub column_ns: i64,
    /// The heat maps; empty if there are no single I/Os.
    pub heats: Vec<DeviceCells>,
    /// Length of a row in nanoseconds.
    pub row_ns: i64,
    /// Data of the charts below the heat maps: of all devices together, and of each.
    pub rows: Vec<ScopeRows>,
    /// Actors by each of [`Grouping::NAMES`]; empty if there are no single I/Os.
    pub actors: Vec<Stepped<ActorFlows>>,
    /// Waits by each of [`Grouping::NAMES`]; empty if there are no single I/Os.
    pub waits: Vec<SteppedWaits>,
    /// Single I/Os around the worst moments of stories.
    pub moments: Vec<WorstMoment>,
}

/// The latency heat map of a device.
#[derive(Debug)]
pub struct DeviceCells {
    /// `None`: the devices with few I/Os, taken together.
    pub device: Option<String>,
    /// Whether its I/Os count in the sum over all devices.
    pub is_in_sum: bool,
    /// Heat map of reads.
    pub read: SparseCells,
    /// Heat map of writes.
    pub write: SparseCells,
}

/// The device, or group of devices, of one heat map.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeatScope {
    /// `None`: the devices without a map of their own, taken together.
    device: Option<String>,
    is_in_sum: bool,
}

/// Sums the heat maps of reads and writes by scope. Each of `devices` has its own scope; the others share one if they
/// count in the sum over all.
fn by_scope(
    heats: BTreeMap<(DevId, Class), Heat>,
    part: &Part,
    devices: &[String],
) -> BTreeMap<HeatScope, BTreeMap<Class, Heat>> {
    let known = &part.recording.meta().devices;
    let mut scopes: BTreeMap<HeatScope, BTreeMap<Class, Heat>> = BTreeMap::new();
    for ((dev, class), heat) in heats {
        let name = device_name(known, dev);
        let is_in_sum = part.filter.layers.counts(dev);
        let has_own = devices.contains(&name);
        if !(has_own || is_in_sum) || !matches!(class, Class::Read | Class::Write) {
            continue;
        }
        let scope = HeatScope {
            device: has_own.then_some(name),
            is_in_sum,
        };
        let classes = scopes.entry(scope).or_default();
        let sum = match classes.remove(&class) {
            Some(sum) => sum.joined(heat),
            None => heat,
        };
        classes.insert(class, sum);
    }
    scopes
}

/// Appends the first `width` columns of `heat` to `cells`. I/Os that complete exactly at the end are in the next
/// column; they are added to the last one.
fn push_columns(cells: &mut SparseCells, heat: &Heat, width: usize) {
    let (whole, after) = heat.columns.split_at(width);
    for (i, column) in whole.iter().enumerate() {
        let mut column = column.clone();
        if i + 1 == width {
            for later in after {
                column.merge(later);
            }
        }
        cells.push(&column);
    }
}

/// Rows of the charts below the heat map, of one device or of all.
#[derive(Debug)]
pub struct ScopeRows {
    /// `None`: all devices together.
    pub device: Option<String>,
    /// The rows in order of time.
    pub rows: Vec<ChartRow>,
}

/// One interval of the charts below the heat map. Unknown values are `None`.
#[derive(Debug, Clone, Copy)]
pub struct ChartRow {
    /// Start in Unix time, in nanoseconds.
    pub from_unix_ns: i64,
    /// Figures of each class, indexed by `Class as usize`.
    pub classes: [ClassFigures; Class::ALL.len()],
    /// Percentage of the time with any I/O in flight.
    pub busy_percent: Option<f64>,
    /// Mean number of I/Os in flight.
    pub inflight_mean: Option<f64>,
    /// Maximum number of I/Os in flight.
    pub inflight_max: Option<u64>,
    /// Whether I/Os are lost in the interval.
    pub lossy: bool,
}

/// Figures of one class in an interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassFigures {
    /// I/Os completed per second.
    pub ios_per_s: Option<f64>,
    /// KiB moved per second.
    pub kib_per_s: Option<f64>,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// Longest latency in microseconds; only of reads and writes.
    pub max_us: Option<f64>,
    /// Percentage of the time with an I/O of the class in flight.
    pub busy_percent: Option<f64>,
}

/// An answer for the whole time, and one per interval, each with its interval in Unix time.
#[derive(Debug)]
pub struct Stepped<T> {
    /// The answer for the whole time.
    pub whole: T,
    /// The answers for all intervals that are not empty; no intervals if there would be too many.
    pub steps: Vec<(Range<i64>, T)>,
}

/// The waits of the whole time, and per interval.
pub struct SteppedWaits {
    /// The waits of the whole time.
    pub whole: Vec<PartWaits>,
    /// Length of an interval in nanoseconds.
    pub step_ns: i64,
    /// The waits of each interval.
    pub steps: Vec<PartWaitBins>,
}

/// Single I/Os around the worst wait of a story.
#[derive(Debug)]
pub struct WorstMoment {
    /// The time that it covers, in Unix time in nanoseconds.
    pub unix_ns: Range<i64>,
    /// All I/Os in flight in that time, in order of completion.
    pub ios: Vec<NamedIo>,
}

impl Inside {
    /// Reads the data of `part`, whose analysis is `report`. `query` is the query that selected the part.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read(query: &Query<'_>, part: &Part, report: &Report) -> Result<Inside> {
        // Notes were already reported by the analysis.
        let caller = query.caller.silenced();
        let mut inside = Inside {
            unix_ns: part.unix_ns(),
            ..Inside::default()
        };
        let query = Query {
            place: query.place,
            window: query.window,
            devices: &[],
            ios: None,
            caller: &caller,
        };
        let query = between(&query, inside.unix_ns.start, inside.unix_ns.end);
        let devices = busiest(part, report);
        let has_ios = part.recording.ios_stored() > 0;
        let rows = inside.add_rows(&query, &devices, has_ios);
        if !has_ios {
            // Tables without such rows have other columns, which are shown in the details.
            return Ok(inside);
        }
        rows?;
        inside.add_heats(part, &devices, &caller)?;
        let length_ns = inside.unix_ns.end - inside.unix_ns.start;
        let step_ns = step(length_ns, 1, MAX_STEPS);
        for (_, grouping) in Grouping::NAMES {
            let by = grouping.into();
            inside.actors.push(Stepped {
                whole: actors::actors(&query, by)?,
                steps: unless_too_many(actors::in_steps(&query, by, step_ns))?,
            });
        }
        for (_, grouping) in Grouping::NAMES {
            inside.waits.push(SteppedWaits {
                whole: waits::waits(&query, grouping)?,
                step_ns,
                steps: waits::bins(&query, grouping, step_ns)?,
            });
        }
        inside.add_moments(&query, part, report)?;
        Ok(inside)
    }

    fn add_rows(&mut self, query: &Query<'_>, devices: &[String], fine: bool) -> Result<()> {
        let length_ns = self.unix_ns.end - self.unix_ns.start;
        let most = (MAX_ROWS / (devices.len() as i64 + 1)).min(FINE_COLUMNS);
        // Samples and tables have their own step. The default number of rows gives about the same resolution.
        let step_ns = fine.then(|| step(length_ns, 10 * MS_NS, most));
        let mut rows = Vec::new();
        let all = series(query, GroupBy::All, step_ns, |row, _| {
            rows.push(chart_row(row));
        });
        self.row_ns = match all {
            // Few I/Os over a long time are visible in long rows, too.
            Err(QueryError::MostlyEmpty { .. }) => series(query, GroupBy::All, None, |row, _| {
                rows.push(chart_row(row));
            })?,
            other => other?,
        };
        self.rows.push(ScopeRows { device: None, rows });
        if devices.len() > 1 {
            let mut named: BTreeMap<String, Vec<ChartRow>> = BTreeMap::new();
            let query = query.of_devices(devices);
            series(&query, GroupBy::Device, Some(self.row_ns), |row, name| {
                let rows = named.entry(name.to_owned()).or_default();
                rows.push(chart_row(row));
            })?;
            for (name, rows) in named {
                let device = Some(name);
                self.rows.push(ScopeRows { device, rows });
            }
        }
        Ok(())
    }

    fn add_heats(&mut self, part: &Part, devices: &[String], caller: &Caller) -> Result<()> {
        let range = &part.range;
        let length_ns = range.end - range.start;
        self.column_ns = column(length_ns);
        let mut cells: BTreeMap<HeatScope, [SparseCells; 2]> = BTreeMap::new();
        let mut columns = 0;
        let mut begin_ns = range.start;
        while begin_ns < range.end {
            let end_ns = (begin_ns + COLUMNS_AT_ONCE * self.column_ns).min(range.end);
            let width = steps_in(end_ns - begin_ns, self.column_ns) as usize;
            let read = heat::of_devices(part, begin_ns..end_ns, self.column_ns, caller)?;
            for (scope, classes) in by_scope(read, part, devices) {
                let both = cells.entry(scope).or_default();
                for (class, sum) in classes {
                    let own = &mut both[usize::from(class == Class::Write)];
                    // This scope has had no I/O of the class so far.
                    own.fill(columns);
                    push_columns(own, &sum, width);
                }
            }
            columns += width;
            begin_ns = end_ns;
        }
        for (scope, [mut read, mut write]) in cells {
            read.fill(columns);
            write.fill(columns);
            self.heats.push(DeviceCells {
                device: scope.device,
                is_in_sum: scope.is_in_sum,
                read,
                write,
            });
        }
        Ok(())
    }

    fn add_moments(&mut self, query: &Query<'_>, part: &Part, report: &Report) -> Result<()> {
        let start_unix_ns = part.recording.meta().start_unix_ns;
        let mut left = MAX_IOS_OF_MOMENTS;
        for story in report.stories.iter().take(MAX_MOMENTS) {
            // The worst I/O must be included from its start.
            let worst = &story.harm.worst;
            let shown_ns = worst.latency_ns.min(10 * AROUND_MOMENT_NS);
            let done_unix_ns = start_unix_ns + worst.done_ns;
            let from_ns = (done_unix_ns - shown_ns - AROUND_MOMENT_NS).max(self.unix_ns.start);
            let mut to_ns = done_unix_ns + AROUND_MOMENT_NS;
            let completed_ns = (to_ns + COMPLETES_WITHIN_NS).min(self.unix_ns.end);
            let limit = MAX_IOS_OF_MOMENT.min(left);
            let found = match single::ios(&between(query, from_ns, completed_ns), limit)? {
                Ok(ios) => ios,
                // The moment ends before the first I/O beyond the limit.
                Err(too_many) if too_many.to_ns > from_ns => {
                    to_ns = to_ns.min(too_many.to_ns);
                    let fitting = between(query, from_ns, too_many.to_ns);
                    single::ios(&fitting, limit)?.unwrap_or_default()
                }
                Err(_) => continue,
            };
            let in_time = found.into_iter().filter(|n| n.start_unix_ns() <= to_ns);
            let ios: Vec<NamedIo> = in_time.collect();
            left -= ios.len();
            self.moments.push(WorstMoment {
                unix_ns: from_ns..to_ns,
                ios,
            });
        }
        Ok(())
    }
}

/// The same query for another time.
fn between<'a>(query: &Query<'a>, from_ns: i64, to_ns: i64) -> Query<'a> {
    let window = TimeWindow {
        at: None,
        from: Some(Instant::of_unix_ns(from_ns)),
        to: Some(Instant::of_unix_ns(to_ns)),
    };
    Query { window, ..*query }
}

/// Names of the devices with the most I/Os.
fn busiest(part: &Part, report: &Report) -> Vec<String> {
    let mut devices: Vec<(u64, DevId)> = Vec::new();
    for device in &report.devices.devices {
        devices.push((device.ios(), device.dev));
    }
    devices.retain(|(ios, _)| *ios > 0);
    devices.sort_by_key(|(ios, _)| std::cmp::Reverse(*ios));
    devices.truncate(MAX_DEVICES);
    let known = &part.recording.meta().devices;
    let named = devices.iter().map(|(_, dev)| device_name(known, *dev));
    named.collect()
}

/// Passes the rows of `query` to `show`. Returns the step that was used.
fn series(
    query: &Query<'_>,
    by: GroupBy,
    step_ns: Option<i64>,
    mut show: impl FnMut(&Row, &str),
) -> Result<i64> {
    let series = Series {
        query: *query,
        step_ns,
        by,
        extended: true,
    };
    series.each_row(|_, row, name| show(row, name))
}

fn chart_row(row: &Row) -> ChartRow {
    let extended = row.extended.as_ref();
    ChartRow {
        from_unix_ns: row.from_ns,
        classes: Class::ALL.map(|class| ClassFigures {
            ios_per_s: row.ios_per_s(class),
            kib_per_s: row.kib_per_s(class),
            mean_us: row.mean_us(class),
            max_us: match class {
                Class::Read => extended.and_then(|x| x.r_max_us),
                Class::Write => extended.and_then(|x| x.w_max_us),
                Class::Discard | Class::Flush => None,
            },
            busy_percent: extended.and_then(|x| x.busy_percent_of(class)),
        }),
        busy_percent: extended.and_then(Extended::busy_percent),
        inflight_mean: extended.and_then(Extended::inflight_mean),
        inflight_max: extended.and_then(|x| x.inflight_max),
        lossy: row.lossy,
    }
}

/// The shortest round step of at least `least_ns` with at most `most` intervals in `length_ns`; a longer one if no
/// round step is long enough.
fn step(length_ns: i64, least_ns: i64, most: i64) -> i64 {
    readable_step(length_ns, least_ns, most)
        .unwrap_or_else(|| steps_in(length_ns, most).max(LONGEST_STEP_NS))
}

/// Width of the columns of a heat map of `length_ns`, in nanoseconds.
fn column(length_ns: i64) -> i64 {
    let fine_ns = step(length_ns, MIN_COLUMN_NS, FINE_COLUMNS);
    if fine_ns <= DAY_COLUMN_NS {
        return fine_ns;
    }
    step(length_ns, DAY_COLUMN_NS, MAX_COLUMNS)
}

/// Replaces the error for too many intervals by an empty answer.
fn unless_too_many<T>(answer: Result<Vec<T>>) -> Result<Vec<T>> {
    match answer {
        Err(QueryError::TooManyRows(_)) => Ok(Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::{Path, PathBuf};

    use iolens_core::model::{
        Comm, Device, Io, Observation, Op, Origin, RecorderCost, RecordingMeta, SECOND_NS, Source,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};

    use super::super::query::Grain;
    use super::super::report::{self, Limits};
    use super::*;

    const START_UNIX_NS: i64 = 1_795_000_000 * SECOND_NS;
    const READS: i64 = 399;

    #[test]
    fn a_day_has_columns_of_100_ms_and_less_time_has_shorter_ones() {
        assert_eq!(column(86_400 * SECOND_NS), 100 * MS_NS);
        assert_eq!(column(3600 * SECOND_NS), 100 * MS_NS);
        assert_eq!(column(600 * SECOND_NS), 20 * MS_NS);
        assert_eq!(column(SECOND_NS), MS_NS);
        assert_eq!(column(7 * 86_400 * SECOND_NS), SECOND_NS);
        let year_ns = 400 * 86_400 * SECOND_NS;
        assert!(year_ns / column(year_ns) <= MAX_COLUMNS);
        assert_eq!(step(3600 * SECOND_NS, 1, MAX_STEPS), 60 * SECOND_NS);
    }

    /// Ten seconds: a shop reads every 25 ms, and every fourth read waits behind 1 MiB that a backup writes to the same disk. The
    /// layer above the disk sees each I/O, too.
    fn record(dir: &Path) -> PathBuf {
        let sda = DevId::new(8, 0);
        let above = DevId::new(253, 0);
        let path = dir.join("r");
        let mut meta = RecordingMeta::new(Source::Ebpf, START_UNIX_NS);
        let mut dm = Device::named("dm-0", above);
        dm.slaves = vec!["sda".to_owned()];
        meta.devices = vec![Device::named("sda", sda), dm];
        let mut ios = Vec::new();
        for i in 1..=READS {
            let waits = i % 4 == 0;
            let latency_ns = if waits { 20 * MS_NS } else { MS_NS / 10 };
            let done_ns = i * 25 * MS_NS + latency_ns;
            let read = Io {
                comm: Some(Comm::new(b"shop")),
                tgid: Some(77),
                origin: Origin::Direct,
                ..Io::new(done_ns, sda, Op::READ, 4096, Some(0), latency_ns)
            };
            ios.push(read);
            ios.push(Io { dev: above, ..read });
            if waits {
                let written_ns = done_ns - MS_NS / 10;
                ios.push(Io {
                    comm: Some(Comm::new(b"backup")),
                    tgid: Some(12),
                    origin: Origin::Writeback,
                    ..Io::new(written_ns, sda, Op::WRITE, 1 << 20, Some(0), 19 * MS_NS)
                });
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        let mut writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        for io in ios {
            writer.push(&Observation::Io(io)).unwrap();
        }
        let cost = RecorderCost::default();
        writer.finish(10 * SECOND_NS, cost).unwrap();
        path
    }

    fn ios(cells: &SparseCells) -> i64 {
        let columns = (0..cells.len()).flat_map(|i| cells.column(i));
        columns.map(|(_, ios)| i64::from(*ios)).sum()
    }

    #[test]
    fn every_io_is_in_the_maps_the_rows_and_the_steps() {
        let dir = tempfile::tempdir().unwrap();
        let path = record(dir.path());
        let caller = Caller::without_notes();
        let query = Query::new(&path, TimeWindow::default(), &caller);
        let part = query.one(Grain::Analysis).unwrap();
        let report = report::of_part(&part, &Limits::default(), &caller).unwrap();
        let inside = Inside::read(&query, &part, &report).unwrap();
        let writes = READS / 4;

        let mut maps = Vec::new();
        for cells in &inside.heats {
            let name = cells.device.as_deref().unwrap();
            maps.push((name, cells.is_in_sum, ios(&cells.read), ios(&cells.write)));
        }
        assert_eq!(
            maps,
            [("dm-0", false, READS, 0), ("sda", true, READS, writes)],
            "a layer is shown, and does not count"
        );

        let of = |device: Option<&str>| {
            let scope = |r: &&ScopeRows| r.device.as_deref() == device;
            inside.rows.iter().find(scope).unwrap()
        };
        let kib = |rows: &[ChartRow]| {
            let rates = rows
                .iter()
                .filter_map(|r| r.classes[Class::Write as usize].kib_per_s);
            rates.sum::<f64>() * inside.row_ns as f64 / 1e9
        };
        assert!((kib(&of(None).rows) - 1024.0 * writes as f64).abs() < 1.0);
        assert!((kib(&of(Some("sda")).rows) - 1024.0 * writes as f64).abs() < 1.0);
        assert_eq!(kib(&of(Some("dm-0")).rows), 0.0);

        let by_process = &inside.actors[0];
        let mut sum = ActorFlows::default();
        for (_, step) in &by_process.steps {
            for (name, flows) in &step.named {
                let own = sum.named.entry(name.clone()).or_default();
                own.iter_mut().zip(flows).for_each(|(a, b)| a.add(b));
            }
        }
        assert!(by_process.steps.len() > 10);
        assert_eq!(sum.named, by_process.whole.named);

        let by_process = &inside.waits[0];
        assert_eq!(by_process.whole.len(), 1);
        assert!(by_process.steps[0].bins.len() > 10);

        let [moment, ..] = &inside.moments[..] else {
            panic!("no story: {:?}", report.stories)
        };
        let worst = &report.stories[0].harm.worst;
        let shows_it = |n: &NamedIo| n.done_unix_ns == START_UNIX_NS + worst.done_ns;
        assert!(moment.ios.iter().any(shows_it), "{moment:?}");
        let length_ns = moment.unix_ns.end - moment.unix_ns.start;
        assert!(length_ns >= 2 * AROUND_MOMENT_NS, "{length_ns}");
    }
}
