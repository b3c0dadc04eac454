//! Rows from rollups, for recordings whose single I/Os were removed by the size limit of a root.

use std::ops::Range;

use iolens_core::analysis::stream::steps::steps_in;
use iolens_core::analysis::timeline::{GroupBy, RollupTimeline, Row, TimelinePlan};
use iolens_core::model::{MINUTE_NS, SECOND_NS, Source, ceil_to, floor_to};
use iolens_core::store::{Recording, RollupHistograms, SumTable, read_rollups_with};

use super::caller::Caller;
use super::error::{DevicesOnly, Distinction, QueryError, Result};
use super::filter::Filter;
use super::window::UNSETTLED_NS;

/// The step in seconds of the finest rollups of a recording whose single I/Os were removed; `None` if it still has
/// them or never had any.
///
/// # Errors
/// The recording cannot be read.
pub fn left(recording: &Recording) -> Result<Option<i32>> {
    Ok(all_left(recording)?.first().copied())
}

/// Whether rollups of `step_s` can make up rows of `step_ns` in `range`. The range is extended to whole rollups: by
/// up to a minute, or by up to an hour if the range is a day or longer.
fn make_up(step_s: i32, step_ns: i64, range: &Range<i64>, end_ns: i64) -> bool {
    let own_ns = i64::from(step_s) * SECOND_NS;
    let is_whole = range.start % own_ns == 0 && (range.end % own_ns == 0 || range.end >= end_ns);
    step_ns % own_ns == 0
        && (own_ns <= MINUTE_NS || is_whole || range.end - range.start >= 24 * own_ns)
}

fn all_left(recording: &Recording) -> Result<Vec<i32>> {
    let are_gone = recording.ios_stored() == 0 && recording.meta().source == Source::Ebpf;
    if are_gone {
        Ok(SumTable::Rollups.steps(recording.path())?)
    } else {
        Ok(Vec::new())
    }
}

/// The coarsest rollups (see [`left`]) that make up rows of `step_ns` in `range`; the finest if none do.
///
/// # Errors
/// The recording cannot be read.
pub fn left_for(recording: &Recording, step_ns: i64, range: &Range<i64>) -> Result<Option<i32>> {
    let steps = all_left(recording)?;
    let coarsest = steps
        .iter()
        .rev()
        .find(|s| make_up(**s, step_ns, range, recording.end_ns()));
    Ok(coarsest.or(steps.first()).copied())
}

/// The step in seconds of the coarsest rollups that make up rows of `step_ns`, and the time in `range` up to which
/// they do: a whole number of rows from its start. Moves the start of `range` to that of a rollup. `None` if no
/// rollups fit.
///
/// # Errors
/// The recording cannot be read.
pub fn carrying(
    recording: &Recording,
    step_ns: i64,
    by: GroupBy,
    range: &mut Range<i64>,
) -> Result<Option<(i32, i64)>> {
    if recording.meta().source != Source::Ebpf || !matches!(by, GroupBy::All | GroupBy::Device) {
        return Ok(None);
    }
    for step_s in SumTable::Rollups.steps(recording.path())?.into_iter().rev() {
        let own_ns = i64::from(step_s) * SECOND_NS;
        if !make_up(step_s, step_ns, range, recording.end_ns()) {
            continue;
        }
        let start = floor_to(range.start, own_ns);
        let (end, rows) = match recording.meta().end_ns {
            // The last rollup of a finished recording covers everything up to its end.
            Some(_) => {
                let end = ceil_to(range.end, own_ns);
                let end = end.min(recording.end_ns()).max(range.end);
                (end, steps_in(end - start, step_ns))
            }
            None => {
                let until_ns = SumTable::Rollups
                    .until(recording.path(), step_s)?
                    .saturating_sub(UNSETTLED_NS)
                    .min(range.end);
                (range.end, (until_ns - start).div_euclid(step_ns))
            }
        };
        if rows > 0 {
            *range = start..end;
            return Ok(Some((step_s, start + rows * step_ns)));
        }
    }
    Ok(None)
}

/// `range` extended to the boundaries of rollups of `step_s`.
///
/// # Errors
/// Rollups cannot answer: the step of the rows is not a multiple of theirs, or rows are not by device.
pub fn window(step_s: i32, step_ns: i64, by: GroupBy, range: &Range<i64>) -> Result<Range<i64>> {
    let own_ns = i64::from(step_s) * SECOND_NS;
    if step_ns % own_ns != 0 {
        return Err(QueryError::SumsOfStep(step_s));
    }
    if !matches!(by, GroupBy::All | GroupBy::Device) {
        return Err(QueryError::OnlyDevices {
            wanted: Distinction::Grouping,
            because: DevicesOnly::Sums,
        });
    }
    Ok(floor_to(range.start, own_ns)..ceil_to(range.end, own_ns))
}

/// The rows of `plan`, summed over the devices that count.
///
/// # Errors
/// The recording cannot be read.
pub fn rows(
    recording: &Recording,
    step_s: i32,
    plan: &TimelinePlan,
    filter: &Filter,
    end_ns: i64,
    caller: &Caller,
) -> Result<Vec<Row>> {
    let path = recording.path();
    let mut timeline = RollupTimeline::new(plan.clone())?;
    let range = plan.window.from_ns..plan.window.to_ns;
    for lost in &recording.lost(range.clone()) {
        timeline.lost(lost);
    }
    let histograms = RollupHistograms {
        total: plan.extended,
        device: false,
    };
    let warnings = read_rollups_with(
        path,
        step_s,
        range,
        histograms,
        |dev| filter.counts(dev),
        |sums| timeline.push(&sums),
    )?;
    caller.damage(path, &warnings);
    Ok(timeline.finish(end_ns)?)
}

#[cfg(test)]
mod tests {
    use super::super::filter::DeviceFilter;
    use super::super::rows::each_row_of;
    use super::*;
    use iolens_core::analysis::Window;
    use iolens_core::model::{DevId, HOUR_NS, Io, Op, RecorderCost, RecordingMeta};
    use iolens_core::private::Access;
    use iolens_core::rollup::{RollupBuilder, minutes};
    use iolens_core::store::{Budget, Freed, RecordingWriter, Root, WriterOptions};
    use std::path::{Path, PathBuf};

    /// Two minutes of 100 reads and 100 writes a second, with rollups, in a root: most of it are single I/Os.
    fn record(root: &Path) -> PathBuf {
        let dir = root.join(Root::host_directory("h"));
        std::fs::create_dir_all(&dir).expect("makes");
        let path = dir.join(Root::recording_directory(0));
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("creates");
        let mut builder = RollupBuilder::default();
        for i in 0..24_000 {
            let op = if i % 2 == 0 { Op::READ } else { Op::WRITE };
            let io = Io::new(
                i * SECOND_NS / 200 + 1000,
                DevId::new(8, 0),
                op,
                4096,
                Some(i % 99),
                500_000,
            );
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let sector = ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24) as i64;
            let io = Io {
                sector: Some(sector),
                ..io
            };
            writer.push_ios(&[io]).expect("writes");
            builder.push_ios(&[io]);
        }
        let sums = builder.finish();
        assert!(
            writer.write_rollups(1, &sums).expect("writes")
                && writer.write_rollups(60, &minutes(&sums)).expect("writes")
        );
        writer
            .finish(120 * SECOND_NS, RecorderCost::default())
            .expect("finishes");
        path
    }

    /// Rows of single I/Os.
    fn exact(recording: &Recording, range: &Range<i64>, plan: TimelinePlan) -> Vec<Row> {
        let mut rows = Vec::new();
        let keep = |row| {
            rows.push(row);
            Ok(())
        };
        let filter = Filter::default();
        let caller = Caller::without_notes();
        each_row_of(recording, range.clone(), plan, &filter, &caller, keep).expect("rows");
        rows
    }

    fn summed(
        recording: &Recording,
        step_s: i32,
        plan: &TimelinePlan,
        filter: &Filter,
        end_ns: i64,
    ) -> Vec<Row> {
        rows(
            recording,
            step_s,
            plan,
            filter,
            end_ns,
            &Caller::without_notes(),
        )
        .expect("rows")
    }

    #[test]
    fn when_single_ios_are_gone_the_rows_stay_what_they_were() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = record(tmp.path());
        let whole = Recording::open(&path).expect("opens");
        assert_eq!(left(&whole).expect("readable"), None);
        let plan =
            |range: &Range<i64>, step_s| TimelinePlan::new(Window::from(range), step_s * SECOND_NS);
        let range = 10 * SECOND_NS..70 * SECOND_NS;
        let before = exact(&whole, &range, plan(&range, 2));
        let all = Filter::default();
        let none = Filter {
            devices: DeviceFilter::only(DevId::new(9, 0)),
            ..Filter::default()
        };
        let budget = Budget {
            keep_bytes: 1 << 30,
            access: Access::OWNER,
        };
        let limit = whole.disk_bytes() - (32 << 10);
        let freed = budget.make_room(tmp.path(), None, limit, 0).expect("room");
        assert_eq!(
            freed,
            Freed {
                of_ios: 1,
                ..Freed::default()
            }
        );
        let trimmed = Recording::open(&path).expect("opens");
        assert_eq!(left(&trimmed).expect("readable"), Some(1));
        let of = |step_s: i64| left_for(&trimmed, step_s * SECOND_NS, &range).expect("readable");
        assert_eq!(
            [of(1), of(90), of(60), of(3600)],
            [Some(1), Some(1), Some(60), Some(60)]
        );
        let hours = |range: Range<i64>| make_up(3600, 7200 * SECOND_NS, &range, 100 * HOUR_NS);
        assert!(
            hours(HOUR_NS..3 * HOUR_NS)
                && hours(HOUR_NS..101 * HOUR_NS)
                && hours(1..24 * HOUR_NS + 1)
        );
        assert!(
            !hours(1..3 * HOUR_NS) && !hours(HOUR_NS..3 * HOUR_NS + 1),
            "an hour more would show"
        );
        assert!(
            make_up(60, HOUR_NS, &(1..HOUR_NS), HOUR_NS)
                && !make_up(3600, HOUR_NS / 2, &(0..HOUR_NS), HOUR_NS)
        );
        let asked = window(
            1,
            2 * SECOND_NS,
            GroupBy::All,
            &(10 * SECOND_NS + 5..70 * SECOND_NS - 9),
        )
        .expect("possible");
        assert_eq!(asked, range);
        let after = summed(&trimmed, 1, &plan(&range, 2), &all, asked.end);
        assert_eq!(after, before);
        let minutes = summed(
            &trimmed,
            60,
            &plan(&(0..120 * SECOND_NS), 60),
            &all,
            120 * SECOND_NS,
        );
        assert_eq!(
            minutes.iter().map(|r| r.flows[0].ios).collect::<Vec<_>>(),
            [6000, 6000]
        );
        let other = summed(&trimmed, 1, &plan(&range, 2), &none, asked.end);
        assert!(
            other.len() == after.len() && other.iter().all(|r| r.flows[0].ios == 0),
            "devices that do not count"
        );
    }

    #[test]
    fn the_coarsest_rollups_that_carry_a_step_answer_and_say_the_same() {
        let tmp = tempfile::tempdir().expect("a directory");
        let recording = Recording::open(&record(tmp.path())).expect("opens");
        let of = |step_ns, by, mut range: Range<i64>| {
            carrying(&recording, step_ns, by, &mut range)
                .expect("readable")
                .map(|found| (found, range))
        };
        let s = SECOND_NS;
        assert_eq!(
            of(60 * s, GroupBy::All, 0..120 * s),
            Some(((60, 120 * s), 0..120 * s))
        );
        assert_eq!(
            of(2 * s, GroupBy::Device, 3 * s + 5..10 * s - 7),
            Some(((1, 11 * s), 3 * s..10 * s))
        );
        assert_eq!(of(s / 2, GroupBy::All, 0..120 * s), None);
        assert_eq!(of(60 * s, GroupBy::Process, 0..120 * s), None);
        let plan = TimelinePlan::new(Window::new(3 * s, 10 * s), 2 * s);
        let exact = exact(&recording, &(3 * s..10 * s), plan.clone());
        assert_eq!(
            summed(&recording, 1, &plan, &Filter::default(), 10 * s),
            exact
        );
    }

    #[test]
    fn what_sums_cannot_show_is_refused() {
        let refused = |step_ns, by| window(1, step_ns, by, &(0..1)).expect_err("refused");
        let step = refused(SECOND_NS / 10, GroupBy::All);
        assert!(matches!(step, QueryError::SumsOfStep(1)), "{step}");
        let grouping = refused(SECOND_NS, GroupBy::Process);
        assert!(
            matches!(
                grouping,
                QueryError::OnlyDevices {
                    because: DevicesOnly::Sums,
                    ..
                }
            ),
            "{grouping}"
        );
        assert!(window(60, 90 * SECOND_NS, GroupBy::All, &(0..1)).is_err());
    }
}
