//! Combines all logs of an import on one time line, with each I/O and each table row once.

use std::collections::{BTreeSet, HashMap};

use iolens_core::model::{
    ClassRates, DAY_NS, DevId, Device, IntervalRates, Io, LossReason, Lost, Observation, RateRows,
    RecordingMeta, Source, layers_above,
};

use super::damage::Damage;
use super::devices::MAX_DEVICES;
use super::fio_boundaries;
use super::log::{
    Epoch, ImportError, ImportOptions, Imported, Log, NO_DATE, START_NOT_USED, Shared,
};
use super::recognise::LogFormat;

pub(super) fn finish(
    mut logs: Vec<(LogFormat, Log)>,
    shared: Shared,
    notes: Vec<String>,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let Shared { devices, damage } = shared;
    if devices.too_many() {
        let file = logs.last().map(|(_, log)| log.file.clone());
        return Err(ImportError::TooManyDevices(
            file.unwrap_or_default(),
            MAX_DEVICES,
        ));
    }
    if options.strict
        && let Some(first) = damage.places.first()
    {
        return Err(ImportError::Damaged {
            first: first.clone(),
            count: damage.count,
        });
    }
    for (_, log) in &logs {
        if log.first_ns().is_none() {
            return Err(ImportError::Empty {
                file: log.file.clone(),
                why: why_empty(log, &damage),
            });
        }
    }

    // One list of devices and one time line for all logs.
    let (devices, same) = devices.into_list();
    if !same.is_empty() {
        logs.iter_mut().for_each(|(_, log)| rename(log, &same));
    }
    fio_boundaries::unite(&mut logs);
    one_after_the_other(&mut logs);
    let (start_unix_ns, start_monotonic_ns) = align(&mut logs, options);

    let mut kinds: Vec<LogFormat> = logs.iter().map(|(k, _)| *k).collect();
    let mut names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
    names.sort_unstable();
    names.dedup();
    let mut meta = RecordingMeta::new(Source::Import(names.join("+")), start_unix_ns);
    meta.start_monotonic_ns = start_monotonic_ns;
    meta.limits = notes;
    let mut out = Imported {
        meta,
        observations: Vec::new(),
        rates: RateRows::default(),
        cpu: Vec::new(),
        bios: Vec::new(),
        damage,
        kinds: Vec::new(),
    };

    // The content of the logs, in order of time and each row once.
    for (_, log) in logs {
        collect(&mut out, log);
    }
    out.kinds.append(&mut kinds);
    if !out.observations.is_sorted_by_key(Observation::at_ns) {
        out.observations.sort_by_key(Observation::at_ns);
    }
    merge_rows(&mut out, &devices);
    note_uncounted_latencies(&mut out);
    out.cpu.sort_by_key(|c| (c.to_ns, c.from_ns));
    out.cpu.dedup();

    note_layers(&mut out.meta, &devices);
    out.meta.devices = devices;
    // Windows are half-open: the last completion must be before the end.
    let last = out.observations.last().map(|o| o.at_ns().saturating_add(1));
    let last = last
        .max(out.rates.last_ns())
        .max(out.cpu.last().map(|c| c.to_ns));
    out.meta.end_ns = last;
    note_damage(&mut out);
    Ok(out)
}

/// The message for a log with nothing to import: its first damage, unless its format has a better explanation.
fn why_empty(log: &Log, damage: &Damage) -> String {
    if let Some(why) = log.unusable {
        return why.to_owned();
    }
    match damage.places.iter().find(|p| p.file == log.file) {
        Some(place) => format!("nothing in it could be used; {}", place.position()),
        None => "nothing in it could be used".to_owned(),
    }
}

fn rename(log: &mut Log, same: &HashMap<DevId, DevId>) {
    log.rates.replace(0..log.rates.len(), |from, to, dev| {
        (from, to, kept_number(same, dev))
    });
    for o in &mut log.observations {
        if let Observation::Io(io) = o {
            io.dev = kept_number(same, io.dev);
        }
    }
}

fn kept_number(same: &HashMap<DevId, DevId>, dev: DevId) -> DevId {
    same.get(&dev).copied().unwrap_or(dev)
}

/// Rotated logs without time stamps all begin at zero. A log with a device that an earlier log also has is placed after
/// that log, and not before the day of its own banner.
fn one_after_the_other(logs: &mut [(LogFormat, Log)]) {
    const TABLES: [LogFormat; 5] = [
        LogFormat::IostatText,
        LogFormat::IostatJson,
        LogFormat::SolarisIostat,
        LogFormat::FreebsdIostat,
        LogFormat::FioJson,
    ];
    let mut ends: HashMap<DevId, i64> = HashMap::new();
    let first_day = logs.iter().find_map(|(_, l)| l.zero_unix_ns);
    for (kind, log) in logs
        .iter_mut()
        .filter(|(k, l)| TABLES.contains(k) && l.epoch == Epoch::Own)
    {
        let devices = log.rates.devices();
        if let Some(end_ns) = devices.iter().filter_map(|d| ends.get(d)).max().copied() {
            let day_ns = log
                .zero_unix_ns
                .zip(first_day)
                .map_or(0, |(own, first)| own.saturating_sub(first));
            log.shift(end_ns.max(day_ns).saturating_neg());
            log.limit(match kind {
                LogFormat::FioJson => {
                    "several logs of the same jobs have no dates: they were put one after the other, as given"
                }
                _ => {
                    "several logs of the same devices have no time stamps: they were put one after the other, as given"
                }
            });
        }
        let end = log.last_ns().unwrap_or(0);
        ends.extend(devices.into_iter().map(|d| (d, end)));
    }
}

/// Puts all logs on one time line; returns its wall clock and monotonic clock.
fn align(logs: &mut [(LogFormat, Log)], options: ImportOptions) -> (i64, Option<i64>) {
    let unix = first_of(logs, Epoch::Unix);
    let monotonic = first_of(logs, Epoch::Monotonic);
    for (_, log) in logs.iter_mut() {
        match log.epoch {
            Epoch::Unix => log.shift(unix.unwrap_or(0)),
            Epoch::Monotonic => log.shift(monotonic.unwrap_or(0)),
            // A time column that starts below zero would be before the start of the recording.
            Epoch::Own => log.shift(log.first_ns().unwrap_or(0).min(0)),
        }
    }
    let wall = wall_clock(logs, unix, options.start_unix_ns);
    (wall.unwrap_or(0), monotonic)
}

/// The wall-clock time of the recording's start, as far as the logs contain it.
#[derive(Clone, Copy)]
enum LogDate {
    Unknown,
    /// Midnight of the day: the log has no times.
    Day(i64),
    Instant(i64),
}

fn log_date(logs: &[(LogFormat, Log)], unix: Option<i64>) -> LogDate {
    let is_undated = logs.iter().any(|(_, l)| l.is_undated);
    if let Some(first_ns) = unix.filter(|_| !is_undated) {
        return LogDate::Instant(first_ns);
    }
    let dated = logs.iter().find(|(_, l)| l.zero_unix_ns.is_some());
    match dated.map(|(_, l)| (l.epoch, l.zero_unix_ns)) {
        Some((Epoch::Own, Some(midnight_ns))) => LogDate::Day(midnight_ns),
        Some((_, Some(zero_ns))) => LogDate::Instant(zero_ns),
        _ => LogDate::Unknown,
    }
}

/// The wall-clock time of the start. The logs' own date has priority; the user's supplies what is missing.
fn wall_clock(logs: &mut [(LogFormat, Log)], unix: Option<i64>, start: Option<i64>) -> Option<i64> {
    let date = log_date(logs, unix);
    let wall = match date {
        LogDate::Unknown => start.or(unix),
        LogDate::Day(midnight_ns) => {
            let of_that_day = start.filter(|start| is_of_day(*start, midnight_ns));
            of_that_day.or(Some(midnight_ns))
        }
        LogDate::Instant(first_ns) => Some(first_ns),
    };
    let note = match (start, date) {
        (None, LogDate::Unknown) => Some(NO_DATE),
        (Some(_), _) if start != wall => Some(START_NOT_USED),
        _ => None,
    };
    if let (Some(note), Some((_, log))) = (note, logs.first_mut()) {
        log.limit(note);
    }
    wall
}

/// Whether a time may be on a day of unknown time zone: with a day of tolerance on both sides.
fn is_of_day(at_ns: i64, midnight_ns: i64) -> bool {
    let after_ns = at_ns.saturating_sub(midnight_ns);
    (-DAY_NS..2 * DAY_NS).contains(&after_ns)
}

/// The first time of the logs with this epoch.
fn first_of(logs: &[(LogFormat, Log)], epoch: Epoch) -> Option<i64> {
    logs.iter()
        .filter(|(_, l)| l.epoch == epoch)
        .filter_map(|(_, l)| l.first_ns())
        .min()
}

fn collect(out: &mut Imported, log: Log) {
    let from_ns = log.ios().map(Io::start_ns).min();
    let to_ns = log.ios().map(|io| io.done_ns).max();
    for (ios, reason) in [
        (log.censored, LossReason::Censored),
        (log.lost_ios, LossReason::Import),
    ] {
        if let (Some(from_ns), Some(to_ns), 1..) = (from_ns, to_ns, ios) {
            let lost = Lost::somewhere(from_ns, to_ns, reason);
            out.observations.push(Observation::Lost(Lost {
                ios: i64::try_from(ios).ok(),
                ..lost
            }));
        }
    }
    // The shorter list is merged into the longer one, because a trace has millions of entries.
    let mut observations = log.observations;
    if observations.len() > out.observations.len() {
        std::mem::swap(&mut observations, &mut out.observations);
    }
    out.observations.extend(observations);
    out.rates.append(log.rates);
    out.cpu.extend(log.cpu);
    out.bios.extend(log.bios);
    out.meta.host = out.meta.host.take().or(log.host);
    out.meta.kernel = out.meta.kernel.take().or(log.kernel);
    for l in log.limits {
        if !out.meta.limits.contains(&l) {
            out.meta.limits.push(l);
        }
    }
}

/// A device and interval have one row, which combines the values of several logs.
fn merge_rows(out: &mut Imported, devices: &[Device]) {
    let jobs: BTreeSet<DevId> = devices
        .iter()
        .filter(|d| is_fio_job(d))
        .map(|d| d.id)
        .collect();
    let mut equal = 0u64;
    let mut different = 0u64;
    out.rates.sort();
    out.rates.merge(|a: &IntervalRates, b: &IntervalRates| {
        // Logs that overlap contain the same row twice.
        if a == b {
            equal += 1;
            return *a;
        }
        // Both measured the same quantity of a fio job: they are of two of its processes, so their values are added.
        if jobs.contains(&a.dev) && !a.complements(b) {
            return a.plus(b);
        }
        different += u64::from(!a.complements(b));
        a.or(b)
    });
    note_rows(
        &mut out.meta,
        equal,
        ["is", "are"],
        "in the logs more than once, with the same device, time and numbers: each counts once",
    );
    note_rows(
        &mut out.meta,
        different,
        ["says", "say"],
        "something else of a device and time than a row before them: what the first one says counts",
    );
}

/// The numbers of I/Os of fio's averaged latency log are in another log, which may lack some of its rows.
fn note_uncounted_latencies(out: &mut Imported) {
    if !out.kinds.contains(&LogFormat::FioLog) {
        return;
    }
    let mut uncounted = 0;
    for row in out.rates.iter() {
        let has_uncounted = row.classes.iter().any(is_uncounted_mean);
        uncounted += u64::from(has_uncounted);
    }
    note_rows(
        &mut out.meta,
        uncounted,
        ["has", "have"],
        "a mean latency without its number of I/Os, which is in fio's IOPS log: a mean over several intervals leaves such a \
         mean out if others have their number, and weighs by time if none has",
    );
}

fn is_uncounted_mean(class: &ClassRates) -> bool {
    class.mean_us.is_some() && class.ios_per_s.is_none()
}

fn is_fio_job(device: &Device) -> bool {
    let id = device.stable_id.as_deref();
    id.is_some_and(|id| id.starts_with("aggregate:fio:"))
}

/// `verbs` are the forms for one row and for several.
fn note_rows(meta: &mut RecordingMeta, rows: u64, verbs: [&str; 2], what: &str) {
    let [of_one, of_several] = verbs;
    match rows {
        0 => {}
        1 => meta.limits.push(format!("1 row {of_one} {what}")),
        _ => meta.limits.push(format!("{rows} rows {of_several} {what}")),
    }
}

/// Reports what sums over devices exclude, and that these I/Os count on the lowest layer.
fn note_layers(meta: &mut RecordingMeta, devices: &[Device]) {
    let disks = devices.iter().filter(|d| !d.is_sum());
    let layers: Vec<DevId> = layers_above(devices, |_| true)
        .into_iter()
        .map(|(d, _)| d.id)
        .collect();
    let left_out: Vec<&str> = devices
        .iter()
        .filter(|d| d.is_sum() || layers.contains(&d.id))
        .map(|d| &*d.name)
        .collect();
    if disks.count() == 0 || left_out.is_empty() {
        return;
    }
    let more = left_out.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let names = left_out[..left_out.len().min(MAX_NAMED)].join(", ");
    meta.limits.push(format!(
        "sums over devices count an I/O once, on the bottom layer: without {names}{more} (partitions, layers by their names, \
         groups, an application's view); --by device shows all"
    ));
}

/// Maximum number of devices named in one line.
const MAX_NAMED: usize = 8;

/// Damage is loss, so it is also stored in the recording.
fn note_damage(out: &mut Imported) {
    if let (n @ 1.., Some(first)) = (out.damage.other_lines, out.damage.other_places.first()) {
        out.meta.limits.push(format!(
            "{n} lines outside of tables and events were not understood, the first: {first}"
        ));
    }
    if out.damage.count == 0 {
        return;
    }
    out.meta.limits.push(format!(
        "{} damaged lines or records were left out",
        out.damage.count
    ));
    // The number of I/Os of a damaged line is unknown: a row of a table may stand for any number.
    let lost = Lost::somewhere(0, out.meta.end_ns.unwrap_or(0), LossReason::Import);
    out.observations.push(Observation::Lost(lost));
}

#[cfg(test)]
mod tests {
    use super::super::files::parse_bytes;
    use super::*;
    use iolens_core::model::SECOND_NS;
    use std::path::Path;

    const HEADING: &str = "Device r/s w/s\nsda 1.00 2.00\n\n";
    /// 2026-11-21T00:00:00Z.
    const MIDNIGHT_NS: i64 = 1_795_219_200 * SECOND_NS;

    /// A log with `--start`.
    fn dated(kind: LogFormat, text: &str, start_unix_ns: i64) -> Imported {
        let options = ImportOptions {
            start_unix_ns: Some(start_unix_ns),
            ..ImportOptions::default()
        };
        parse_bytes(kind, Path::new("x"), text.as_bytes(), options).expect("imports")
    }

    /// The beginning of the recording, and whether it is said that `--start` was not used.
    fn begin(kind: LogFormat, text: &str, start_unix_ns: i64) -> (i64, bool) {
        let got = dated(kind, text, start_unix_ns);
        let limits = &got.meta.limits;
        assert!(limits.iter().all(|l| l != NO_DATE), "{limits:?}");
        let is_noted = limits.iter().any(|l| l == START_NOT_USED);
        (got.meta.start_unix_ns, is_noted)
    }

    #[test]
    fn a_log_with_dates_keeps_them() {
        let log = "1795521300\n8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n1795521310\n8 0 sda 5 0 8 0 0 0 0 0 0 0 0\n";
        let start_ns = 1_795_521_300 * SECOND_NS;
        let other_ns = MIDNIGHT_NS;
        assert_eq!(begin(LogFormat::Diskstats, log, other_ns), (start_ns, true));
        assert_eq!(
            begin(LogFormat::Diskstats, log, start_ns),
            (start_ns, false)
        );
    }

    #[test]
    fn the_user_dates_a_log_without_a_date() {
        let start_ns = MIDNIGHT_NS + 5 * SECOND_NS;
        let log =
            "23:59:55\n8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n00:00:05\n8 0 sda 5 0 8 0 0 0 0 0 0 0 0\n";
        assert_eq!(
            begin(LogFormat::Diskstats, log, start_ns),
            (start_ns, false)
        );
        let got = dated(LogFormat::Diskstats, log, start_ns);
        let row = got.rates.get(0).expect("a row");
        assert_eq!((row.from_ns, row.to_ns), (0, 10 * SECOND_NS));
        let log = format!("09:20:01\n{HEADING}09:20:02\n{HEADING}");
        assert_eq!(
            begin(LogFormat::IostatText, &log, start_ns),
            (start_ns, false)
        );
    }

    #[test]
    fn the_user_gives_the_time_on_the_day_of_a_banner() {
        let log = format!("Linux 6.1.0 (h) \t2026-11-21 \t_x86_64_\t(2 CPU)\n\n\n{HEADING}");
        let that_day_ns = MIDNIGHT_NS + 20_880 * SECOND_NS;
        let got = begin(LogFormat::IostatText, &log, that_day_ns);
        assert_eq!(got, (that_day_ns, false));
        let next_week_ns = MIDNIGHT_NS + 7 * DAY_NS;
        let got = begin(LogFormat::IostatText, &log, next_week_ns);
        assert_eq!(got, (MIDNIGHT_NS, true));
    }
}
