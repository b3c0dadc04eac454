//! Finds the stretch of a long window in which most I/O time was lost, from the stored sums of waits.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::model::{SECOND_NS, WaitSums, WorstWait, floor_to};
use iolens_core::store::{SumTable, read_waits};

use super::error::Result;
use super::part::Part;
use super::window;

/// A stretch of time and the I/O time lost in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossyStretch {
    /// The stretch, in nanoseconds, in the clock of the searched range.
    pub range: Range<i64>,
    lost_ns: i64,
}

/// The sums of waits of one slot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// Lost I/O time in nanoseconds.
    pub lost_ns: i64,
    /// The worst wait, which locates the stretch if a slot is longer than it.
    pub worst: WorstWait,
}

/// Selects the part that contains the stretch of about `max_ios` I/Os in which most I/O time was lost, cut to that
/// stretch. Without sums, the newest stretch is taken.
///
/// # Errors
/// The sums cannot be read.
pub fn of_parts(parts: Vec<Part>, max_ios: f64) -> Result<Vec<Part>> {
    let mut worst: Option<(Part, LossyStretch)> = None;
    for part in parts {
        let length_ns = (max_ios / window::ios_per_ns(&part.recording)) as i64;
        let stretch = of_part(&part, length_ns)?;
        // Of equal stretches the newest is taken.
        let worst_ns = worst.as_ref().map(|(_, found)| found.lost_ns);
        if worst_ns.is_none_or(|ns| stretch.lost_ns >= ns) {
            worst = Some((part, stretch));
        }
    }
    let mut chosen = Vec::new();
    if let Some((mut part, stretch)) = worst {
        part.range = stretch.range;
        chosen.push(part);
    }
    Ok(chosen)
}

/// The worst stretch of a part, at most `length_ns` long.
fn of_part(part: &Part, length_ns: i64) -> Result<LossyStretch> {
    let range = &part.range;
    let newest = LossyStretch {
        range: range.start.max(range.end.saturating_sub(length_ns))..range.end,
        lost_ns: 0,
    };
    let Some(step_s) = SumTable::Waits
        .steps(part.recording.path())?
        .first()
        .copied()
    else {
        return Ok(newest);
    };
    let step_ns = i64::from(step_s) * SECOND_NS;
    let whole = floor_to(range.start, step_ns)..range.end;
    let mut slots: BTreeMap<i64, Slot> = BTreeMap::new();
    read_waits(part.recording.path(), step_s, whole, |row: WaitSums| {
        if !part.filter.devices.has(row.dev) {
            return;
        }
        let slot = slots.entry(row.at_ns).or_default();
        if row.cause.is_loss() {
            slot.lost_ns += row.ns;
        }
        if let Some(worst) = &row.worst {
            slot.worst.keep_worse(worst);
        }
    })?;
    Ok(longest_wait(&slots, step_ns, length_ns, range).unwrap_or(newest))
}

/// The stretch of whole slots, at most `length_ns` long, with the most lost time; `None` if no time was lost. If a
/// slot is longer than `length_ns`, the time around its worst wait.
pub fn longest_wait(
    slots: &BTreeMap<i64, Slot>,
    step_ns: i64,
    length_ns: i64,
    range: &Range<i64>,
) -> Option<LossyStretch> {
    let whole_ns = (length_ns / step_ns).max(1) * step_ns;
    let mut worst: Option<(i64, i64)> = None;
    // A sliding window: each stretch adds the slots that enter at its end, and removes the slot that leaves at its
    // start.
    let mut ahead = slots.iter().peekable();
    let mut lost_ns = 0;
    for (from_ns, first) in slots {
        let end_ns = from_ns.saturating_add(whole_ns);
        while let Some((_, slot)) = ahead.next_if(|(at_ns, _)| **at_ns < end_ns) {
            lost_ns += slot.lost_ns;
        }
        if worst.is_none_or(|(_, most_ns)| lost_ns > most_ns) {
            worst = Some((*from_ns, lost_ns));
        }
        lost_ns -= first.lost_ns;
    }
    let (mut from_ns, lost_ns) = worst.filter(|(_, lost_ns)| *lost_ns > 0)?;
    if length_ns < step_ns {
        let middle_ns = slots[&from_ns].worst.done_ns;
        from_ns = (middle_ns - length_ns / 2).clamp(from_ns, from_ns + step_ns - length_ns);
    }
    let to_ns = from_ns.saturating_add(whole_ns.min(length_ns));
    let range = from_ns.max(range.start)..to_ns.min(range.end);
    (!range.is_empty()).then_some(LossyStretch { range, lost_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND_NS;

    fn slots(lost_s: &[i64]) -> BTreeMap<i64, Slot> {
        let mut slots = BTreeMap::new();
        for (i, lost_s) in lost_s.iter().enumerate() {
            let at_ns = 10 * S * i as i64;
            let worst = WorstWait {
                done_ns: at_ns + 8 * S,
                latency_ns: lost_s * S,
                undisturbed_ns: 0,
            };
            let lost_ns = lost_s * S;
            slots.insert(at_ns, Slot { lost_ns, worst });
        }
        slots
    }

    #[test]
    fn the_stretch_with_most_time_lost_is_found() {
        let slots = slots(&[5, 1, 4, 4, 0, 6]);
        let of = |length_s: i64, range_s: Range<i64>| {
            let range = range_s.start * S..range_s.end * S;
            let found = longest_wait(&slots, 10 * S, length_s * S, &range).expect("lost time");
            (
                found.range.start / S..found.range.end / S,
                found.lost_ns / S,
            )
        };
        assert_eq!(of(25, 0..60), (20..40, 8), "whole slots");
        assert_eq!(of(10, 0..60), (50..60, 6));
        assert_eq!(of(10, 0..57), (50..57, 6), "no more than is asked for");
        assert_eq!(of(2, 0..60), (57..59, 6), "around the worst wait");
        assert_eq!(of(6, 0..60), (54..60, 6), "within the slot");
        assert_eq!(of(600, 0..60), (0..60, 20));
    }

    #[test]
    fn where_nothing_was_lost_there_is_no_such_stretch() {
        assert_eq!(longest_wait(&slots(&[0, 0]), 10 * S, S, &(0..20 * S)), None);
        assert_eq!(longest_wait(&BTreeMap::new(), 10 * S, S, &(0..S)), None);
    }
}
