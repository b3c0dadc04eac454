//! Compares two stretches of time: what each device did in both, and which programs waited.

use std::collections::BTreeMap;
use std::str::FromStr;

use iolens_core::analysis::compare::{self, Change, Measure, Side};
use iolens_core::analysis::stream::losses::Losses;
use iolens_core::analysis::waits::Group;
use iolens_core::analysis::{Consumer, Report, Window};
use iolens_core::model::{Class, Comm, DevId, Io};

use super::error::{QueryError, Result};
use super::part::Part;
use super::query::{Grain, Query};
use super::report::{self, Limits};

/// One of the two stretches: its report, and its I/Os in blocks of time.
pub struct ComparedStretch {
    /// The recording and the time range.
    pub part: Part,
    /// All analyses of it.
    pub report: Report,
    sides: BTreeMap<DevId, Side>,
    /// Intervals in which nothing was recorded, in order, and their total length.
    unrecorded: Vec<(i64, i64)>,
    unrecorded_ns: i64,
}

impl ComparedStretch {
    /// Reads the stretch that `query` selects.
    ///
    /// # Errors
    /// No recording covers the time, it cannot be read, or it holds no single I/Os although there may have been some.
    pub fn read(query: &Query<'_>) -> Result<ComparedStretch> {
        let part = query.one(Grain::Analysis)?;
        let losses = losses_of(&part);
        let unrecorded = losses.unrecorded();
        let mut sides = Sides {
            window: part.window(),
            unrecorded: &unrecorded,
            by_device: BTreeMap::new(),
        };
        let limits = Limits::default();
        let report = report::of_part_and(&part, &limits, query.caller, &mut [&mut sides])?;
        let stretch = ComparedStretch {
            sides: sides.by_device,
            unrecorded_ns: losses.unrecorded_ns(part.window()),
            unrecorded,
            part,
            report,
        };
        if stretch.lacks_ios() {
            let path = stretch.part.recording.path();
            return Err(QueryError::NothingToCompare(path.to_owned()));
        }
        Ok(stretch)
    }

    /// Whether it has no I/Os because they were not recorded, not because there were none.
    fn lacks_ios(&self) -> bool {
        let are_lost = self.report.devices.lost_ios != Some(0);
        self.ios() == 0 && (are_lost || self.part.lacks_ios())
    }

    fn window(&self) -> Window {
        self.part.window()
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.window().len_s()
    }

    /// Recorded time in seconds; rates per minute refer to it.
    pub fn recorded_s(&self) -> f64 {
        let recorded_ns = self.window().len_ns() - self.unrecorded_ns;
        recorded_ns as f64 / 1e9
    }

    /// I/Os that completed in it. I/Os through a stack of devices count once, on the bottom layer.
    pub fn ios(&self) -> u64 {
        let counted = self
            .sides
            .iter()
            .filter(|(dev, _)| self.part.filter.counts(**dev));
        counted.map(|(_, side)| side.ios()).sum()
    }

    /// The name of a device, and its stable identity if it is known.
    fn identity(&self, dev: DevId) -> (String, Option<String>) {
        let devices = &self.part.recording.meta().devices;
        match devices.iter().find(|device| device.id == dev) {
            Some(device) => (device.name.clone(), device.stable_id.clone()),
            None => (dev.to_string(), None),
        }
    }
}

/// The times in which I/Os are missing.
fn losses_of(part: &Part) -> Losses {
    let mut losses = Losses::default();
    for lost in part.recording.lost(part.range.clone()) {
        losses.push(&lost);
    }
    losses
}

/// The I/Os of each device in a stretch, including devices stacked on others.
struct Sides<'a> {
    window: Window,
    unrecorded: &'a [(i64, i64)],
    by_device: BTreeMap<DevId, Side>,
}

impl Consumer for Sides<'_> {
    fn consume(&mut self, ios: &[Io], _later_start_ns: i64) {
        for io in ios {
            // I/Os still in flight at the end are read, too. A device that has only such I/Os has none in this
            // stretch.
            if self.window.contains(io.done_ns) {
                let side = self.by_device.entry(io.dev);
                let side = side.or_insert_with(|| Side::new(self.window, self.unrecorded));
                side.add(io);
            }
        }
    }
}

/// What changed on one device.
#[derive(Debug)]
pub struct DeviceChanges {
    /// Its name; the later one if the two differ.
    pub device: String,
    /// Whether it has I/Os in the stretch before.
    pub is_before: bool,
    /// Whether it has I/Os in the stretch after.
    pub is_after: bool,
    /// The changes of all measures, for each class with I/Os.
    pub changes: Vec<Change>,
}

/// Compares the devices of two stretches. Devices are matched by their stable identity, or by name if one side does
/// not know it.
pub fn devices(before: &ComparedStretch, after: &ComparedStretch) -> Vec<DeviceChanges> {
    let empty_before = Side::new(before.window(), &before.unrecorded);
    let empty_after = Side::new(after.window(), &after.unrecorded);
    let mut unmatched: BTreeMap<DevId, &Side> = before.sides.iter().map(|(d, s)| (*d, s)).collect();
    let mut all = Vec::new();
    for (dev, side) in &after.sides {
        let (name, stable_id) = after.identity(*dev);
        let same = unmatched.keys().copied().find(|other| {
            let (other_name, other_id) = before.identity(*other);
            match (&stable_id, &other_id) {
                (Some(one), Some(other)) => one == other,
                _ => name == other_name,
            }
        });
        // Matched devices are removed, so that those that remain exist only in the stretch before.
        let side_before = same.and_then(|dev| unmatched.remove(&dev));
        all.push(DeviceChanges {
            device: name,
            is_before: side_before.is_some(),
            is_after: true,
            changes: compare::compare(side_before.unwrap_or(&empty_before), side),
        });
    }
    for (dev, side) in unmatched {
        all.push(DeviceChanges {
            device: before.identity(dev).0,
            is_before: true,
            is_after: false,
            changes: compare::compare(side, &empty_after),
        });
    }
    compare::decide(all.iter_mut().flat_map(|device| &mut device.changes));
    all
}

/// The names of all devices that either stretch knows, each once.
pub fn device_names(before: &ComparedStretch, after: &ComparedStretch) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for stretch in [before, after] {
        let listed = &stretch.part.recording.meta().devices;
        let listed = listed.iter().map(|device| device.name.clone());
        // A device with I/Os that the recording does not list is named by its number.
        let seen = stretch.sides.keys().map(|dev| stretch.identity(*dev).0);
        for name in listed.chain(seen) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// What a program waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitCause {
    /// Another program, or I/Os of programs that are not known.
    Behind(Option<Comm>),
    /// Other I/Os of its own.
    Own,
    /// Time held above the driver, by a scheduler or a limit.
    Held,
    /// The device itself.
    Device,
}

/// How long one program waited for one cause on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitChange {
    /// Name of the device.
    pub device: String,
    /// The program that waited; `None`: unknown programs.
    pub victim: Option<Comm>,
    /// Class of its I/Os.
    pub class: Class,
    /// What it waited for.
    pub cause: WaitCause,
    /// Seconds of waiting per minute, in the stretch before.
    pub before_s_per_min: f64,
    /// The same in the stretch after.
    pub after_s_per_min: f64,
}

impl WaitChange {
    /// The increase in seconds per minute.
    pub fn growth_s_per_min(&self) -> f64 {
        self.after_s_per_min - self.before_s_per_min
    }
}

/// Waits that appeared, disappeared, grew or shrank; the largest difference first.
pub fn waits(before: &ComparedStretch, after: &ComparedStretch) -> Vec<WaitChange> {
    let mut all: BTreeMap<WaitKey, WaitChange> = BTreeMap::new();
    for (key, seconds) in waited(before) {
        entry(&mut all, &key).before_s_per_min += seconds / before.recorded_s() * 60.0;
    }
    for (key, seconds) in waited(after) {
        entry(&mut all, &key).after_s_per_min += seconds / after.recorded_s() * 60.0;
    }
    let mut changes: Vec<WaitChange> = all.into_values().collect();
    changes.sort_by(|a, b| {
        let size_a = a.growth_s_per_min().abs();
        let size_b = b.growth_s_per_min().abs();
        size_b.total_cmp(&size_a)
    });
    changes
}

/// The key by which waits of two stretches are matched: device, program, class and cause. Programs are matched by
/// name, because processes end.
type WaitKey = (String, Option<Comm>, Class, WaitCause);

fn entry<'a>(all: &'a mut BTreeMap<WaitKey, WaitChange>, key: &WaitKey) -> &'a mut WaitChange {
    all.entry(key.clone()).or_insert_with(|| WaitChange {
        device: key.0.clone(),
        victim: key.1,
        class: key.2,
        cause: key.3,
        before_s_per_min: 0.0,
        after_s_per_min: 0.0,
    })
}

/// All waits of a stretch in seconds.
fn waited(stretch: &ComparedStretch) -> Vec<(WaitKey, f64)> {
    let mut all = Vec::new();
    for device in &stretch.report.waits {
        let (name, _) = stretch.identity(device.dev);
        for victim in &device.victims {
            let own_program = program_name(&victim.group);
            let mut causes = vec![
                (WaitCause::Own, victim.time.own_ns),
                (WaitCause::Held, victim.time.held_ns),
                (WaitCause::Device, victim.time.device_ns),
            ];
            for behind in &victim.behind {
                let cause = program_name(&behind.group);
                // It waited for another class of its own I/O, or for another process of the same program.
                let is_own = cause.is_some() && cause == own_program;
                let cause = if is_own {
                    WaitCause::Own
                } else {
                    WaitCause::Behind(cause)
                };
                causes.push((cause, behind.ns));
            }
            for (cause, ns) in causes {
                let key = (name.clone(), own_program, victim.group.class, cause);
                all.push((key, ns as f64 / 1e9));
            }
        }
    }
    all
}

fn program_name(group: &Group) -> Option<Comm> {
    group.program.and_then(|program| program.comm)
}

/// A threshold that a change must not exceed: `read.p99 > +10%`, `sda:write.mean > 5%`, `read.ios < -20%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The text of the condition.
    pub text: String,
    /// Restricts it to one device.
    device: Option<String>,
    class: Class,
    measure: Measure,
    is_above: bool,
    percent: f64,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let at = text.find(['>', '<']).ok_or_else(expected_condition)?;
        let (subject, limit) = text.split_at(at);
        let (device, subject) = match subject.trim().rsplit_once(':') {
            Some((device, subject)) => (Some(device.to_owned()), subject),
            None => (None, subject.trim()),
        };
        let (class, measure) = subject.split_once('.').ok_or_else(expected_condition)?;
        let class = Class::ALL.into_iter().find(|c| c.name() == class);
        let measure = Measure::ALL.into_iter().find(|m| short_name(*m) == measure);
        let percent = limit[1..].trim().strip_suffix('%');
        let percent = percent.ok_or_else(expected_condition)?;
        let percent: f64 = percent.trim().parse().map_err(|_| expected_condition())?;
        if !percent.is_finite() {
            return Err(expected_condition());
        }
        Ok(Condition {
            text: text.to_owned(),
            device,
            class: class.ok_or_else(expected_condition)?,
            measure: measure.ok_or_else(expected_condition)?,
            is_above: limit.starts_with('>'),
            percent,
        })
    }
}

/// Explains the syntax of conditions, for one that cannot be parsed.
fn expected_condition() -> String {
    format!(
        "expected CLASS.MEASURE > +N% or < -N%, such as 'read.p99 > +10%'; CLASS is {}, MEASURE is {}; DEVICE: may stand before it",
        Class::ALL.map(Class::name).join(", "),
        Measure::ALL.map(short_name).join(", ")
    )
}

/// The name of a measure in a condition.
fn short_name(measure: Measure) -> &'static str {
    match measure {
        Measure::IosPerS => "ios",
        Measure::BytesPerS => "bytes",
        Measure::MeanUs => "mean",
        Measure::P50Us => "p50",
        Measure::P90Us => "p90",
        Measure::P99Us => "p99",
        Measure::P999Us => "p999",
    }
}

/// The result of checking a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum ConditionResult {
    /// No device exceeds the threshold.
    Held,
    /// These devices exceed it, so the check fails.
    Failed(Vec<String>),
    /// No device has enough I/Os on both sides.
    Unknown,
}

impl Condition {
    /// The device that it names, if no known device has this name.
    pub fn unknown_device(&self, known: &[String]) -> Option<&str> {
        let name = self.device.as_deref()?;
        known.iter().all(|other| other != name).then_some(name)
    }

    /// Whether a device exceeds the threshold: its change does, and its confidence interval excludes zero.
    pub fn judge(&self, devices: &[DeviceChanges]) -> ConditionResult {
        let mut beyond = Vec::new();
        let mut judged = 0;
        for device in devices {
            let is_meant = self
                .device
                .as_ref()
                .is_none_or(|name| *name == device.device);
            let change = device
                .changes
                .iter()
                .find(|change| change.class == self.class && change.measure == self.measure);
            let Some(change) = change.filter(|_| is_meant) else {
                continue;
            };
            let (Some(percent), Some(low), Some(high)) =
                (change.percent, change.percent_low, change.percent_high)
            else {
                continue;
            };
            judged += 1;
            let is_beyond = if self.is_above {
                percent > self.percent && low > 0.0
            } else {
                percent < self.percent && high < 0.0
            };
            if is_beyond {
                beyond.push(device.device.clone());
            }
        }
        match (judged, beyond.is_empty()) {
            (0, _) => ConditionResult::Unknown,
            (_, true) => ConditionResult::Held,
            (_, false) => ConditionResult::Failed(beyond),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use iolens_core::model::{
        CounterSample, Device, DiskCounters, LossReason, Lost, Observation, Op, RecorderCost,
        RecordingMeta, Source,
    };
    use iolens_core::store::{RecordingWriter, WriterOptions};

    use super::super::TimeWindow;
    use super::super::caller::Caller;
    use super::*;

    const DEV: DevId = DevId(8 << 20);
    const LOOP: DevId = DevId(7 << 20);
    const S: i64 = 1_000_000_000;

    /// How many I/Os a recording of `source` with these observations has for a comparison.
    fn compared_ios(source: Source, observations: &[Observation]) -> Result<u64> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let meta = RecordingMeta::new(source, 0);
        let mut writer =
            RecordingWriter::create(&path, meta, WriterOptions::default()).expect("a recording");
        for observation in observations {
            writer.push(observation).expect("written");
        }
        writer
            .finish(10 * S, RecorderCost::default())
            .expect("finished");
        let caller = Caller::without_notes();
        let query = Query::new(&path, TimeWindow::default(), &caller);
        Ok(ComparedStretch::read(&query)?.ios())
    }

    #[test]
    fn what_holds_no_single_ios_is_not_compared_and_an_idle_disk_is() {
        let samples = [S, 9 * S].map(|at_ns| {
            Observation::Counters(CounterSample {
                at_ns,
                dev: DEV,
                counters: DiskCounters::default(),
            })
        });
        let io = Observation::Io(Io::new(S, DEV, Op::READ, 512, Some(5), 10));
        let lost = Observation::Lost(Lost {
            ios: Some(7),
            ..Lost::somewhere(0, 10 * S, LossReason::Corrupt)
        });
        assert_eq!(compared_ios(Source::Ebpf, &samples).expect("idle"), 0);
        let some = [io, lost.clone()];
        assert_eq!(compared_ios(Source::Ebpf, &some).expect("some are left"), 1);
        let table = Source::Import("iostat".to_owned());
        for refused in [
            compared_ios(Source::Counters, &samples),
            compared_ios(table, &[]),
            compared_ios(Source::Ebpf, &[lost]),
        ] {
            let refused = refused.expect_err("nothing can be compared");
            assert!(matches!(refused, QueryError::NothingToCompare(_)));
        }
    }

    /// A recording of a loop device over a disk, and of one I/O on each of `devices`.
    fn loop_over_disk(path: &Path, devices: &[DevId]) -> ComparedStretch {
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.devices = vec![
            Device::named("vda", DEV),
            Device {
                slaves: vec!["vda".to_owned()],
                ..Device::named("loop0", LOOP)
            },
        ];
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("a recording");
        for dev in devices {
            let io = Io::new(S, *dev, Op::READ, 512, Some(5), 10);
            writer.push(&Observation::Io(io)).expect("written");
        }
        writer
            .finish(10 * S, RecorderCost::default())
            .expect("finished");
        let caller = Caller::without_notes();
        ComparedStretch::read(&Query::new(path, TimeWindow::default(), &caller)).expect("readable")
    }

    #[test]
    fn a_layer_is_compared_whatever_lies_under_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let before = loop_over_disk(&dir.path().join("a"), &[LOOP]);
        let after = loop_over_disk(&dir.path().join("b"), &[DEV, LOOP]);
        assert_eq!(
            (before.ios(), after.ios()),
            (1, 1),
            "sums count an I/O once"
        );
        let rows: Vec<(String, bool, bool)> = devices(&before, &after)
            .into_iter()
            .map(|d| (d.device, d.is_before, d.is_after))
            .collect();
        let expected = [
            ("loop0".to_owned(), true, true),
            ("vda".to_owned(), false, true),
        ];
        assert!(
            rows.len() == 2 && expected.iter().all(|row| rows.contains(row)),
            "{rows:?}"
        );
        let known = device_names(&before, &after);
        assert_eq!(known, ["vda", "loop0"]);
        let condition = |text: &str| text.parse::<Condition>().expect("a condition");
        assert_eq!(
            condition("nosuch:read.p50 > +10%").unknown_device(&known),
            Some("nosuch")
        );
        for text in ["loop0:read.p50 > +10%", "read.p50 > +10%"] {
            assert_eq!(condition(text).unknown_device(&known), None);
        }
    }

    fn change(percent: f64, low: f64, high: f64) -> DeviceChanges {
        DeviceChanges {
            device: "sda".to_owned(),
            is_before: true,
            is_after: true,
            changes: vec![Change {
                class: Class::Read,
                measure: Measure::P99Us,
                before: Some(100.0),
                after: Some(100.0 + percent),
                ios_before: 1000,
                ios_after: 1000,
                percent: Some(percent),
                percent_low: Some(low),
                percent_high: Some(high),
                p_value: Some(0.001),
                changed: true,
            }],
        }
    }

    fn judged(condition: &str, device: DeviceChanges) -> ConditionResult {
        let condition: Condition = condition.parse().expect("a condition");
        condition.judge(&[device])
    }

    #[test]
    fn a_limit_is_passed_by_a_change_that_is_no_chance() {
        let failed = ConditionResult::Failed(vec!["sda".to_owned()]);
        let limit = "read.p99 > +10%";
        assert_eq!(judged(limit, change(12.0, 3.0, 20.0)), failed);
        assert_eq!(judged("sda:read.p99>10%", change(12.0, 3.0, 20.0)), failed);
        assert_eq!(
            judged(limit, change(12.0, -1.0, 25.0)),
            ConditionResult::Held
        );
        assert_eq!(judged(limit, change(8.0, 3.0, 20.0)), ConditionResult::Held);
        let below = "read.p99 < -5 %";
        assert_eq!(judged(below, change(-8.0, -12.0, -2.0)), failed);
        assert_eq!(
            judged(below, change(-8.0, -12.0, 1.0)),
            ConditionResult::Held
        );
    }

    #[test]
    fn what_cannot_be_told_is_no_pass() {
        for limit in ["write.p99 > 10%", "read.p50 > 10%", "sdb:read.p99 > 10%"] {
            assert_eq!(
                judged(limit, change(12.0, 3.0, 20.0)),
                ConditionResult::Unknown
            );
        }
    }

    #[test]
    fn a_wrong_condition_is_said_with_what_is_expected() {
        for wrong in [
            "",
            "read.p99",
            "read.p98 > 10%",
            "reads.p99 > 10%",
            "read.p99 > 10",
            "read.p99 > NaN%",
        ] {
            let error = wrong.parse::<Condition>().expect_err(wrong);
            assert!(error.contains("read.p99 > +10%"), "{error}");
        }
    }
}
