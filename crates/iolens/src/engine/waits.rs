//! Who waited for whom, from single I/Os or from stored sums of waits.

use std::ops::Range;

use iolens_core::analysis::timeline::TimelinePlan;
use iolens_core::analysis::waits::{
    CountsWaits, DeviceVictims, Grouping, SubjectWaits, SubjectWaitsBuilder, Victim, WAIT_STEPS_S,
    WaitBin, WaitBinsBuilder, WaitsBuilder, victims_of_rows,
};
use iolens_core::analysis::{Consumer, Window};
use iolens_core::model::{Io, Lost, SECOND_NS, TimeOwner, WaitSums, floor_to};
use iolens_core::store::{IoColumns, Recording, SumTable, read_waits};

use super::caller::Caller;
use super::error::Result;
use super::filter::{FilterPlan, IoFilter};
use super::note::Note;
use super::part::Part;
use super::query::{Grain, Query};
use super::{decode, window};

/// I/Os that completed this long before a short window are read, too: they show the undisturbed latencies, and what
/// the devices were busy with when the window began.
pub const LEARN_NS: i64 = 30 * SECOND_NS;

/// This many I/Os are enough to learn from, however short the time in which they complete.
const LEARN_IOS: f64 = 50_000.0;

/// If there are sums too, up to this many single I/Os are analysed instead: 1/6 s of CPU time.
const MAX_ANALYSED_IOS: f64 = 250_000.0;

/// Longer windows are answered from the coarser sums.
const MAX_FINER_NS: i64 = 3_600_000_000_000;

/// The waits of a part of a recording.
pub struct PartWaits {
    /// The part, with its names.
    pub part: Part,
    /// The pieces of the part; their times add up.
    pub pieces: Vec<WaitPiece>,
}

/// The waits in one piece of a part.
pub struct WaitPiece {
    /// Waits by device, for the selected devices.
    pub devices: Vec<DeviceVictims>,
    /// Whether they are from sums, which do not say how a device serves I/O.
    pub is_of_sums: bool,
}

/// The waits in the window of `query`, for each recording separately. Devices below others are included. Sums are
/// used if single I/Os were removed or are very many.
///
/// # Errors
/// No recording holds the time, its single I/Os are gone and there are no sums, or it cannot be read.
pub fn waits(query: &Query<'_>, grouping: Grouping) -> Result<Vec<PartWaits>> {
    // Sums contain no files and cannot be restricted to selected I/Os.
    let is_of_all = query.ios.is_none_or(FilterPlan::is_all);
    let grain = match (grouping, is_of_all) {
        (Grouping::Process | Grouping::Cgroup, true) => Grain::Recording,
        _ => Grain::Analysis,
    };
    let parts = query.parts(grain)?.parts;
    let are_many = parts.iter().map(Part::expected_ios).sum::<f64>() > MAX_ANALYSED_IOS;
    let mut all = Vec::new();
    for part in parts {
        all.push(match grain {
            Grain::Recording => of_sums_or_ios(part, are_many, grouping, query.caller)?,
            _ => of_ios(part, grouping, query.caller)?,
        });
    }
    Ok(all)
}

fn of_ios(part: Part, grouping: Grouping, caller: &Caller) -> Result<PartWaits> {
    if part.lacks_ios() {
        caller.note(Note::NoWaits);
    }
    let devices = of_part(&part, grouping, caller)?;
    let piece = shown(&part, devices, false);
    Ok(PartWaits {
        part,
        pieces: vec![piece],
    })
}

/// The waits of the devices that `part` selects, without names if its recording hides them.
fn shown(part: &Part, mut devices: Vec<DeviceVictims>, is_of_sums: bool) -> WaitPiece {
    devices.retain(|d| part.filter.devices.has(d.dev));
    if part.recording.hides_names() {
        devices.iter_mut().for_each(DeviceVictims::hide_names);
    }
    WaitPiece {
        devices,
        is_of_sums,
    }
}

/// Uses the sums as far as they reach, if they exist and single I/Os do not or are too many; single I/Os after that.
fn of_sums_or_ios(
    part: Part,
    are_many: bool,
    grouping: Grouping,
    caller: &Caller,
) -> Result<PartWaits> {
    let range = part.range.clone();
    let length_ns = range.end - range.start;
    let has_all_ios = window::kept_from(&part.recording, &range) == range.start;
    let step_s = wait_step(&part, length_ns)?;
    let Some(step_s) = step_s.filter(|_| !has_all_ios || are_many) else {
        return of_ios(part.for_analysis(caller)?, grouping, caller);
    };
    let until_ns = SumTable::Waits.until(part.recording.path(), step_s)?;
    let step_ns = i64::from(step_s) * 1_000_000_000;
    let slots = floor_to(range.start, step_ns)..range.end.min(until_ns);
    let mut rows = Vec::new();
    let damage = read_waits(part.recording.path(), step_s, slots, |row| rows.push(row))?;
    caller.damage(part.recording.path(), &damage);
    caller.check()?;
    caller.note(Note::WaitsOfSums(step_s));
    if grouping == Grouping::Cgroup {
        rows.iter_mut().for_each(by_cgroup);
    }
    let mut pieces = vec![shown(&part, victims_of_rows(rows), true)];
    let mut part = part.described(caller)?;
    if until_ns < range.end {
        part.range.start = until_ns.max(range.start);
        let newest = of_part(&part, grouping, caller)?;
        pieces.push(shown(&part, newest, false));
        part.range.start = range.start;
    }
    Ok(PartWaits { part, pieces })
}

/// The step in seconds of the sums to use for a window of this length, if there are any.
fn wait_step(part: &Part, length_ns: i64) -> Result<Option<i32>> {
    let steps = SumTable::Waits.steps(part.recording.path())?;
    for step_s in &steps {
        // The finest sums of a long window are too many to read.
        if length_ns <= MAX_FINER_NS || *step_s > WAIT_STEPS_S[0] {
            return Ok(Some(*step_s));
        }
    }
    Ok(steps.last().copied())
}

/// Merges the processes of a control group.
fn by_cgroup(row: &mut WaitSums) {
    let culprit = row.culprit.iter_mut();
    for party in culprit.chain([&mut row.victim]) {
        party.comm = None;
        party.tgid = None;
    }
    // A wait behind another process of the same group is a wait behind the group's own I/O.
    if row.culprit == Some(row.victim) {
        row.cause = TimeOwner::Own;
        row.culprit = None;
    }
}

/// The waits of a part over time.
pub struct PartWaitBins {
    /// The part, with its names.
    pub part: Part,
    /// Waits by interval and device, for the selected devices.
    pub bins: Vec<WaitBin>,
}

/// As [`waits`], per interval of `step_ns`. Intervals start with each recording's part of the window.
///
/// # Errors
/// As [`waits`].
pub fn bins(query: &Query<'_>, grouping: Grouping, step_ns: i64) -> Result<Vec<PartWaitBins>> {
    let mut all = Vec::new();
    for part in query.parts(Grain::Analysis)?.parts {
        let range = &part.range;
        let window = part.window();
        let mut builder = WaitBinsBuilder::new(window, grouping, range.start, step_ns);
        let read = around(&part.recording, range);
        let mut chosen = ChosenWaits::of(&part, &mut builder);
        feed(
            &part,
            read,
            window,
            &mut chosen,
            |c, l| c.builder.lost(l),
            query.caller,
        )?;
        let mut bins = builder.finish();
        bins.retain(|bin| part.filter.devices.has(bin.dev));
        if part.recording.hides_names() {
            let victims = bins.iter_mut().flat_map(|bin| &mut bin.victims);
            victims.for_each(Victim::hide_names);
        }
        all.push(PartWaitBins { part, bins });
    }
    Ok(all)
}

/// The waits in the rows of `plan`. Victim and culprit are always processes: for rows by file, a wait is its own if
/// the same process did the other I/O.
///
/// # Errors
/// The recording cannot be read.
pub fn of_rows(part: &Part, plan: &TimelinePlan, caller: &Caller) -> Result<SubjectWaits> {
    let filter = &part.filter;
    let by = plan.by;
    let mut builder = SubjectWaitsBuilder::new(plan.window, plan.step_ns, |io: &Io| {
        // Rows show subjects with hidden names, so waits use the same.
        let shown = part.shown(io);
        filter.has(&shown).then(|| by.key(&shown))
    });
    let read = around(&part.recording, &(plan.window.from_ns..plan.window.to_ns));
    feed(
        part,
        read,
        plan.window,
        &mut builder,
        SubjectWaitsBuilder::lost,
        caller,
    )?;
    Ok(builder.finish())
}

/// The range to read for the waits of a window. It includes I/Os before the window, and I/Os that were in flight at
/// its end.
pub fn around(recording: &Recording, range: &Range<i64>) -> Range<i64> {
    let in_flight = window::with_in_flight(range);
    let learn_ns = (LEARN_IOS / window::ios_per_ns(recording)).min(LEARN_NS as f64);
    in_flight.start.saturating_sub(learn_ns as i64)..in_flight.end
}

fn of_part(part: &Part, grouping: Grouping, caller: &Caller) -> Result<Vec<DeviceVictims>> {
    let range = &part.range;
    let window = part.window();
    let mut builder = WaitsBuilder::by(grouping, window);
    let read = around(&part.recording, range);
    let mut chosen = ChosenWaits::of(part, &mut builder);
    feed(
        part,
        read,
        window,
        &mut chosen,
        |c, l| c.builder.lost(l),
        caller,
    )?;
    Ok(builder.finish())
}

/// Counts only the waits of a part's selected I/Os.
struct ChosenWaits<'a, B> {
    filter: &'a IoFilter,
    hides_names: bool,
    builder: &'a mut B,
}

impl<'a, B> ChosenWaits<'a, B> {
    fn of(part: &'a Part, builder: &'a mut B) -> ChosenWaits<'a, B> {
        ChosenWaits {
            filter: &part.filter.ios,
            hides_names: part.recording.hides_names(),
            builder,
        }
    }
}

impl<B: CountsWaits> Consumer for ChosenWaits<'_, B> {
    fn consume(&mut self, ios: &[Io], later_start_ns: i64) {
        for io in ios {
            // A caller without access to names may not select by them either. A selection by class reveals no name.
            let is_meant = if self.hides_names {
                self.filter.has(&io.without_name())
            } else {
                self.filter.has(io)
            };
            self.builder.push_counted(io, is_meant);
        }
        self.builder.expect_from(later_start_ns);
    }
}

/// Passes the I/Os that completed in `range`, and the losses, to `builder`. Stops reading when all remaining I/Os
/// start too long after `window` to change its waits.
fn feed<B: Consumer>(
    part: &Part,
    range: Range<i64>,
    window: Window,
    builder: &mut B,
    lose: fn(&mut B, &Lost),
    caller: &Caller,
) -> Result<()> {
    let recording = &part.recording;
    for lost in recording.lost(range.clone()) {
        lose(builder, &lost);
    }
    let mut consumers: [&mut dyn Consumer; 1] = [builder];
    let ios = decode::Ios::identified(recording, range, IoColumns::ALL)
        .started_before(window.learned_until_ns());
    let met = decode::feed_all(ios, caller, &mut consumers)?;
    for lost in &met.damage {
        lose(builder, lost);
    }
    caller.damage(recording.path(), &met.warnings);
    Ok(())
}
