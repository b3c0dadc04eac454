//! Runs all analyses of a recording, each on a thread of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use iolens_core::analysis::bursts::links::Link;
use iolens_core::analysis::timeline::{Differences, GroupBy};
use iolens_core::analysis::{Consumer, Report, ReportBuilder, Window};
use iolens_core::model::{DevId, IntervalRates, Names};
use iolens_core::store::{IoColumns, Recording, read_rates, read_stages};

use super::caller::Caller;
use super::decode::{Met, Nameless, Since, each_row};
use super::error::Result;
use super::layers::Layers;
use super::part::Part;
use super::part::Source;
use super::{decode, names, report_tables, waits, window};

/// Limits of devices and links that the user specified.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Limits of single devices, in bytes per second.
    pub of_devices: BTreeMap<DevId, f64>,
    /// Links that several devices share.
    pub links: Vec<Link>,
}

/// The report of a part, including its imported tables.
///
/// # Errors
/// The recording cannot be read.
pub fn of_part(part: &Part, limits: &Limits, caller: &Caller) -> Result<Report> {
    of_part_and(part, limits, caller, &mut [])
}

/// As [`of_part`], and passes the I/Os to `others` as well, so that the recording is read only once.
///
/// # Errors
/// As of [`of_part`].
pub fn of_part_and(
    part: &Part,
    limits: &Limits,
    caller: &Caller,
    others: &mut [&mut dyn Consumer],
) -> Result<Report> {
    let Part {
        recording,
        range,
        names,
        filter,
        ..
    } = part;
    let layers = &filter.layers;
    let mut report = analyse(recording, range, names, layers, limits, caller, others)?;
    let read: Vec<IntervalRates>;
    let rates = match &part.source {
        Source::Tables(rates) => rates,
        _ => {
            read = read_rates(recording.path())?;
            &read
        }
    };
    report_tables::add(
        recording,
        rates,
        range.clone(),
        &limits.of_devices,
        &mut report,
    );
    Ok(report)
}

/// The report of `range`, without limits from the user and without imported tables.
///
/// # Errors
/// The recording cannot be read.
pub fn plain(recording: &Recording, range: &Range<i64>, caller: &Caller) -> Result<Report> {
    let names = names::read(recording, range.end, caller)?;
    let layers = Layers::of(recording, GroupBy::All, caller)?;
    let limits = Limits::default();
    let mut report = analyse(recording, range, &names, &layers, &limits, caller, &mut [])?;
    let rates = read_rates(recording.path())?;
    report_tables::add(
        recording,
        &rates,
        range.clone(),
        &BTreeMap::new(),
        &mut report,
    );
    Ok(report)
}

/// Runs all analyses over the I/Os that completed or were in flight in `range`. `others` get the same I/Os.
///
/// # Errors
/// The recording cannot be read.
fn analyse(
    recording: &Recording,
    range: &Range<i64>,
    names: &Names,
    layers: &Layers,
    limits: &Limits,
    caller: &Caller,
    others: &mut [&mut dyn Consumer],
) -> Result<Report> {
    let mut cgroups = Vec::new();
    each_row(
        recording,
        recording.cgroups(i64::MIN..i64::MAX),
        caller,
        |sample| {
            cgroups.push(sample);
        },
    )?;
    let window = Window::from(range);
    let mut builder = ReportBuilder::for_recording(recording.meta(), window)
        .leaving_out(layers.left_out().keys().copied().collect())
        .limited(limits.of_devices.clone(), limits.links.clone())
        .knowing_cgroups(&cgroups);
    recording
        .lost(range.clone())
        .iter()
        .for_each(|l| builder.lost(l));
    let met = feed_ios(recording, range, &mut builder, others, caller)?;
    met.damage.iter().for_each(|l| builder.lost(l));
    caller.damage(recording.path(), &met.warnings);
    feed_samples(recording, range, &mut builder, caller)?;
    let mut report = builder.finish_naming(range.end, &|file| names.files.get(&file).cloned());
    if recording.hides_names() {
        report.hide_names();
    }
    Ok(report)
}

/// Reads the I/Os that completed or were in flight in `range`, for the analyses and for `others`. The analysis of
/// waits also learns from earlier I/Os: inside a busy stretch, no I/O shows its undisturbed latency.
///
/// # Errors
/// The recording cannot be read.
fn feed_ios(
    recording: &Recording,
    range: &Range<i64>,
    builder: &mut ReportBuilder,
    others: &mut [&mut dyn Consumer],
    caller: &Caller,
) -> Result<Met> {
    let read = waits::around(recording, range);
    let (by_names, rest) = builder.consumers_by_names();
    let mut inside = Vec::new();
    for other in others {
        inside.push(Since::new(range.start, &mut **other));
    }
    inside.extend(rest.map(|consumer| Since::new(range.start, consumer)));
    let mut nameless = Vec::new();
    let mut consumers: Vec<&mut dyn Consumer> = Vec::new();
    let ios = if recording.hides_names() {
        // Programs are identified by name during the analysis; the findings lose the names at the end.
        nameless.extend(inside.iter_mut().map(|consumer| Nameless::new(consumer)));
        consumers.extend(nameless.iter_mut().map(|c| c as &mut dyn Consumer));
        decode::Ios::identified(recording, read, IoColumns::ALL)
    } else {
        consumers.extend(inside.iter_mut().map(|c| c as &mut dyn Consumer));
        decode::Ios::new(recording, read, IoColumns::ALL)
    };
    // The analysis of waits takes longest, so it comes last and runs on this thread.
    consumers.extend(by_names);
    // I/Os that start later were not in flight in the window and teach the analyses nothing.
    let ios = ios.started_before(Window::from(range).learned_until_ns());
    decode::feed_all(ios, caller, &mut consumers)
}

/// Reads what the analyses need besides I/Os: file-level requests, stages, the host's pressure and counters.
///
/// # Errors
/// The recording cannot be read.
fn feed_samples(
    recording: &Recording,
    range: &Range<i64>,
    builder: &mut ReportBuilder,
    caller: &Caller,
) -> Result<()> {
    if recording.requests_stored() > 0 {
        let requests = recording.requests(window::with_last_instant(recording, range));
        each_row(recording, requests, caller, |request| {
            builder.request(&request)
        })?;
    }
    read_stages(recording.path(), |bio| builder.bio(bio))?;
    each_row(
        recording,
        recording.pressure(i64::MIN..i64::MAX),
        caller,
        |sample| {
            builder.pressure(&sample);
        },
    )?;
    let mut differences = Differences::new(&recording.meta().devices);
    let counters = recording.counters(window::with_last_instant(recording, range));
    each_row(recording, counters, caller, |sample| {
        if let Some(difference) = differences.push(&sample) {
            builder.counters(&difference);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use iolens_core::model::{
        Comm, Io, MS_NS, Op, Origin, RecorderCost, RecordingMeta, SECOND_NS, Source,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};

    use super::*;

    /// A disk that serves one after the other. `shop` reads 4 KiB each 30 ms in 0.5 ms; from 5 to 10 s `backup` keeps three reads of
    /// 1 MiB, of 10 ms each, in flight.
    fn shop_and_backup() -> Vec<Io> {
        let disk = DevId::new(8, 0);
        let mut ios = Vec::new();
        let mut next_shop_ns = 0;
        let mut next_backup_ns = [5 * SECOND_NS; 3];
        let mut free_ns = 0;
        while next_shop_ns < 10 * SECOND_NS {
            let backup_ns = next_backup_ns.iter_mut().min().expect("three");
            let is_shop = next_shop_ns <= *backup_ns;
            let (start_ns, bytes, work_ns) = if is_shop {
                (next_shop_ns, 4096, MS_NS / 2)
            } else {
                (*backup_ns, 1 << 20, 10 * MS_NS)
            };
            let done_ns = free_ns.max(start_ns) + work_ns;
            free_ns = done_ns;
            let (tgid, comm) = if is_shop {
                next_shop_ns += 30 * MS_NS;
                (7, Comm::new(b"shop"))
            } else {
                *backup_ns = done_ns;
                (9, Comm::new(b"backup"))
            };
            ios.push(Io {
                tgid: Some(tgid),
                comm: Some(comm),
                origin: Origin::Direct,
                ..Io::new(done_ns, disk, Op::READ, bytes, Some(0), done_ns - start_ns)
            });
        }
        ios
    }

    #[test]
    fn a_part_inside_the_trouble_knows_the_peace_before_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("a recording");
        let ios = shop_and_backup();
        writer.push_ios(&ios).expect("written");
        writer
            .finish(10 * SECOND_NS, RecorderCost::default())
            .expect("finished");
        let recording = Recording::open(&path).expect("readable");
        let range = 7 * SECOND_NS..9 * SECOND_NS;
        let report = plain(&recording, &range, &Caller::without_notes()).expect("analysed");
        let inside = ios.iter().filter(|io| range.contains(&io.done_ns)).count();
        assert_eq!(report.devices.ios, inside as u64, "no others count");
        let victims = &report.waits[0].victims;
        let shop = victims
            .iter()
            .max_by_key(|v| v.time.others_ns)
            .expect("one");
        assert_eq!(shop.time.undisturbed_ns / shop.ios as i64, MS_NS / 2);
        let [story] = &report.stories[..] else {
            panic!("{:?}", report.stories);
        };
        assert!(
            story.culprits.iter().all(|c| c.tgid == Some(9)),
            "{story:?}"
        );
    }
}
