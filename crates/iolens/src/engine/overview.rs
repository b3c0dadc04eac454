//! The overview of the HTML report outside its application: the whole window at several resolutions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iolens_core::analysis::counters::imported::{pieces, without_doubles};
use iolens_core::analysis::overview::{
    CounterOverview, Overview, OverviewData, OverviewPlan, scopes,
};
use iolens_core::analysis::timeline::{CounterRates, Differences};
use iolens_core::analysis::{Report, Window};
use iolens_core::model::{DevId, Histogram, IntervalRates, Source};
use iolens_core::store::{IoColumns, Recording};

use super::caller::Caller;
use super::error::Result;
use super::layers::Layers;
use super::{decode, tables, window};

/// Maximum number of devices with charts of their own in the HTML report.
const MAX_SCOPES: usize = 8;
/// The same for an imported log. The limit is higher, because its page is used to compare devices.
const MAX_SCOPES_OF_TABLES: usize = 24;

/// The whole window at several resolutions.
///
/// # Errors
/// The recording cannot be read.
pub fn overview(
    recording: &Recording,
    range: &Range<i64>,
    report: &Report,
    tables: Option<&[IntervalRates]>,
    layers: &Layers,
    caller: &Caller,
) -> Result<OverviewData> {
    let meta = recording.meta();
    let devices: Vec<(DevId, u64)> = report
        .devices
        .devices
        .iter()
        .map(|d| (d.dev, d.ios()))
        .collect();
    let window = Window::from(range);
    // Counters cover whole devices. Which ones are busy is known only after reading their samples.
    if meta.source == Source::Counters {
        // Notes about damaged samples were already reported by the analysis.
        let caller = caller.silenced();
        let (active, step_ns) = counted(recording, range, &caller)?;
        let scopes = scopes(&active, |dev| !layers.counts(dev), MAX_SCOPES);
        let plan = OverviewPlan::whole_of_counters(window, scopes, step_ns);
        let mut overview = CounterOverview::new(plan);
        for lost in &recording.lost(range.clone()) {
            overview.lost(lost);
        }
        each_difference(recording, range, &caller, |d| overview.push(d))?;
        return Ok(overview.finish());
    }
    if let Some(rates) = tables {
        return Ok(overview_of_tables(recording, window, &devices, rates));
    }
    let scopes = scopes(&devices, |dev| !layers.counts(dev), MAX_SCOPES);
    let plan = OverviewPlan::whole(window, scopes);
    of_ios(recording, range, plan, caller)
}

/// The overview of imported tables, in intervals of the finest table's row length. Longer rows are spread over them.
fn overview_of_tables(
    recording: &Recording,
    window: Window,
    devices: &[(DevId, u64)],
    rates: &[IntervalRates],
) -> OverviewData {
    let single: BTreeSet<(DevId, i64)> = without_doubles(rates, &recording.meta().devices)
        .iter()
        .map(|r| (r.dev, r.to_ns))
        .collect();
    // A device that is the sum of others, or a coarser table of the same device, is left out of the total.
    let double: BTreeSet<DevId> = rates
        .iter()
        .filter(|r| !single.contains(&(r.dev, r.to_ns)))
        .map(|r| r.dev)
        .collect();
    let row_ns = tables::own_step_ns(rates).unwrap_or(1_000_000_000);
    let scopes = scopes(devices, |dev| double.contains(&dev), MAX_SCOPES_OF_TABLES);
    let plan = OverviewPlan::whole_of_tables(window, scopes, row_ns);
    let mut overview = CounterOverview::new(plan);
    recording
        .lost(window.from_ns..window.to_ns)
        .iter()
        .for_each(|l| overview.lost(l));
    for r in rates
        .iter()
        .filter(|r| r.from_ns < window.to_ns && r.to_ns > window.from_ns)
    {
        pieces(r, window.from_ns, row_ns)
            .iter()
            .for_each(|piece| overview.push(piece));
    }
    overview.finish()
}

fn of_ios(
    recording: &Recording,
    range: &Range<i64>,
    plan: OverviewPlan,
    caller: &Caller,
) -> Result<OverviewData> {
    let mut overview = Overview::new(plan);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| overview.lost(l));
    let read = window::with_in_flight(range);
    let met = decode::each_io(recording, read, IoColumns::ALL, caller, |io| {
        overview.push(io)
    })?;
    // Damage to a block is known only after reading it.
    met.damage.iter().for_each(|l| overview.lost(l));
    Ok(overview.finish())
}

/// The activity of each device in `range` according to its counters, and the recorder's sampling interval in
/// nanoseconds.
fn counted(
    recording: &Recording,
    range: &Range<i64>,
    caller: &Caller,
) -> Result<(Vec<(DevId, u64)>, i64)> {
    let mut ios: BTreeMap<DevId, u64> = BTreeMap::new();
    // Idle devices skip samples, and the last sample may come early. The lower quartile of the gaps is the interval.
    let mut gaps = Histogram::new();
    each_difference(recording, range, caller, |d| {
        if d.to_ns <= range.start {
            return;
        }
        *ios.entry(d.dev).or_default() += d.flows.iter().flatten().map(|f| f.ios).sum::<u64>();
        gaps.add(d.to_ns - d.from_ns);
    })?;
    Ok((ios.into_iter().collect(), gaps.quantile(0.25).unwrap_or(0)))
}

/// Differences between counter samples up to the end of `range`.
fn each_difference(
    recording: &Recording,
    range: &Range<i64>,
    caller: &Caller,
    mut consume: impl FnMut(&CounterRates),
) -> Result<()> {
    let mut differences = Differences::new(&recording.meta().devices);
    let to_ns = window::with_last_instant(recording, range).end;
    decode::each_row(recording, recording.counters(0..to_ns), caller, |sample| {
        if let Some(difference) = differences.push(&sample) {
            consume(&difference);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::{
        ClassCounters, CounterSample, Device, DiskCounters, Observation, RecorderCost,
        RecordingMeta,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};

    #[test]
    fn the_counters_of_the_last_instant_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let dev = DevId::new(8, 0);
        let mut meta = RecordingMeta::new(Source::Counters, 0);
        meta.devices = vec![Device::named("sda", dev)];
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("a recording");
        for s in 0..=3 {
            let read = ClassCounters {
                ios: 10 * s,
                sectors: 80 * s,
                ..ClassCounters::default()
            };
            let counters = DiskCounters {
                read,
                ..DiskCounters::default()
            };
            let sample = CounterSample {
                at_ns: s as i64 * 1_000_000_000,
                dev,
                counters,
            };
            writer
                .push(&Observation::Counters(sample))
                .expect("written");
        }
        writer
            .finish(3_000_000_000, RecorderCost::default())
            .expect("finished");
        let recording = Recording::open(&path).expect("readable");
        let (ios, _) =
            counted(&recording, &(0..3_000_000_000), &Caller::without_notes()).expect("readable");
        assert_eq!(ios, [(dev, 30)]);
    }
}
