//! Joins parts of recordings to a new recording, for `cut` and `merge`.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, bail};
use iolens_core::model::{Device, Observation, RecorderCost, RecordingMeta};
use iolens_core::private::Access;
use iolens_core::store::{
    MIN_GAP_NS, Recording, SumTable, WriterOptions, gap_between, read_cpu, read_rates, read_stages,
    write_rates, write_stages,
};
use iolens_recorder::complete_rollups;

use super::output::Interrupt;
use super::{LateLoss, RecordingCopy, add_findings};

/// A part of a recording.
pub struct CopiedPart {
    /// Where it is.
    pub recording: Recording,
    /// The range in nanoseconds since its start, half-open; `i64::MAX`: to its very end.
    pub range: Range<i64>,
}

/// What was written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CopiedParts {
    /// Number of I/Os; `None` for recordings of counters or imported averages.
    pub ios: Option<u64>,
    /// Length in nanoseconds.
    pub length_ns: i64,
    /// Number of losses left out because they end later, in the copy of the following part.
    pub late_losses: u64,
    /// Number of recordings whose size limit had removed I/Os. Their sums also cover the removed I/Os, so they are
    /// left out.
    pub without_removed_sums: u64,
    /// What could not be read, as text.
    pub damage: Vec<String>,
}

impl CopiedPart {
    /// All of a recording.
    pub fn whole(recording: Recording) -> CopiedPart {
        let range = 0..i64::MAX;
        CopiedPart { recording, range }
    }

    fn meta(&self) -> &RecordingMeta {
        self.recording.meta()
    }

    fn begins_unix_ns(&self) -> i64 {
        self.meta().start_unix_ns.saturating_add(self.range.start)
    }

    fn ends_unix_ns(&self) -> i64 {
        let end_ns = self.range.end.min(self.recording.end_ns());
        self.meta().start_unix_ns.saturating_add(end_ns)
    }

    fn is_whole(&self) -> bool {
        self.range.start <= 0 && self.range.end == i64::MAX
    }

    /// Whether an interval that ends at `to_ns` is of this part. It ends with what came right before `to_ns`.
    fn holds_interval_to(&self, to_ns: i64) -> bool {
        self.range.start < to_ns && to_ns <= self.range.end
    }
}

/// Orders whole recordings by time.
///
/// # Errors
/// They differ in host or source, two of them overlap, or a device number means two devices.
pub fn in_order(mut parts: Vec<CopiedPart>) -> Result<Vec<CopiedPart>> {
    parts.sort_by_key(CopiedPart::begins_unix_ns);
    for pair in parts.windows(2) {
        let [a, b] = pair else { continue };
        let places = [a, b].map(|part| part.recording.path().display().to_string());
        let [place_a, place_b] = &places;
        if let (Some(host_a), Some(host_b)) = (&a.meta().host, &b.meta().host)
            && host_a != host_b
        {
            bail!(
                "{place_a} is of host {host_a} and {place_b} of {host_b}; a recording is of one host"
            );
        }
        if a.meta().source != b.meta().source {
            bail!(
                "{place_a} has source {} and {place_b} {}; a recording has one source",
                a.meta().source,
                b.meta().source
            );
        }
        let overlap_ns = a.ends_unix_ns().saturating_sub(b.begins_unix_ns());
        if overlap_ns > MIN_GAP_NS {
            bail!(
                "{place_b} begins {:.3} s before {place_a} ends, and what both hold would count twice; cut one of them first: \
                 iolens cut",
                overlap_ns as f64 / 1e9
            );
        }
    }
    if let Some((a, b)) = conflicting_devices(&parts) {
        bail!(
            "device {} is {} in one of them and {} in another; one recording could not tell them apart",
            a.id,
            described(a),
            described(b)
        );
    }
    Ok(parts)
}

/// Two different devices with the same number.
fn conflicting_devices(parts: &[CopiedPart]) -> Option<(&Device, &Device)> {
    let devices: Vec<&Device> = parts.iter().flat_map(|part| &part.meta().devices).collect();
    for (i, a) in devices.iter().enumerate() {
        for b in &devices[i + 1..] {
            let stable_ids_differ = a
                .stable_id
                .as_ref()
                .zip(b.stable_id.as_ref())
                .is_some_and(|(a, b)| a != b);
            if a.id == b.id && (a.name != b.name || stable_ids_differ) {
                return Some((a, b));
            }
        }
    }
    None
}

fn described(device: &Device) -> String {
    match &device.stable_id {
        Some(id) => format!("{} ({id})", device.name),
        None => device.name.clone(),
    }
}

/// Writes consecutive parts as one recording at `to`.
///
/// # Errors
/// There is no part, reading or writing fails, or the user has requested to stop.
pub fn write_parts(
    to: &Path,
    parts: &[CopiedPart],
    access: Access,
    interrupt: &Interrupt,
) -> Result<CopiedParts> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        bail!("nothing to write")
    };
    let start_unix_ns = first.begins_unix_ns();
    let length_ns = last.ends_unix_ns().saturating_sub(start_unix_ns);
    let options = WriterOptions {
        access,
        devices_table: has_devices_table(parts),
        ..WriterOptions::default()
    };
    let mut copy = RecordingCopy::create(to, &joint_meta(parts, first), start_unix_ns, options)?;
    // Each part starts with names that were looked up before it; most are in the previous part already.
    if parts.len() > 1 {
        copy.drop_repeated_names();
    }
    copy.add_names_before(&first.recording, first.range.start)?;
    let mut goes_on = |_| interrupt.check().map(|()| true);
    let mut copied_to_ns = 0;
    for part in parts {
        let from_ns = part.begins_unix_ns().saturating_sub(start_unix_ns);
        if let Some(gap) = gap_between(copied_to_ns, from_ns) {
            copy.push(&Observation::Lost(gap))?;
        }
        copy.add(
            &part.recording,
            &part.range,
            LateLoss::LeftOut,
            &mut goes_on,
        )?;
        copied_to_ns = part.ends_unix_ns().saturating_sub(start_unix_ns);
        copy.tick(copied_to_ns, &mut goes_on)?;
    }
    let copied = CopiedParts {
        ios: first.meta().source.known_ios(copy.ios()),
        length_ns,
        late_losses: copy.late_losses(),
        without_removed_sums: 0,
        damage: copy.damage().to_vec(),
    };
    copy.finish(length_ns, joint_cost(parts))?;
    add_tables(to, parts, access, start_unix_ns)?;
    let unix_ns = start_unix_ns..last.ends_unix_ns();
    for part in parts {
        add_findings(to, access, &unix_ns, &part.recording)?;
    }
    interrupt.check()?;
    add_sums(to, parts, access, copied)
}

/// Adds sums, computed from the I/Os of the parts. Sums of removed I/Os cannot be shifted in time: they are aligned
/// to seconds, minutes and hours of their recording.
fn add_sums(
    to: &Path,
    parts: &[CopiedPart],
    access: Access,
    mut copied: CopiedParts,
) -> Result<CopiedParts> {
    let mut have_sums = false;
    for part in parts {
        if SumTable::Rollups.steps(part.recording.path())?.is_empty() {
            continue;
        }
        have_sums = true;
        let lost = part.recording.lost(part.range.clone());
        if lost
            .iter()
            .any(|l| l.reason == iolens_core::model::LossReason::Retention)
        {
            copied.without_removed_sums += 1;
        }
    }
    if have_sums {
        complete_rollups(to, access)?;
    }
    Ok(copied)
}

fn has_devices_table(parts: &[CopiedPart]) -> bool {
    let mut paths = parts.iter().map(|part| part.recording.path());
    paths.any(|path| path.join("devices").is_dir())
}

/// The metadata of the first part with the limits of all. The other parts' devices are added with their I/Os.
fn joint_meta(parts: &[CopiedPart], first: &CopiedPart) -> RecordingMeta {
    let mut meta = first.meta().clone();
    for limit in parts.iter().flat_map(|part| &part.meta().limits) {
        if !meta.limits.contains(limit) {
            meta.limits.push(limit.clone());
        }
    }
    meta
}

/// The cost of recording whole recordings; it is not known for a part.
fn joint_cost(parts: &[CopiedPart]) -> RecorderCost {
    if !parts.iter().all(CopiedPart::is_whole) {
        return RecorderCost::default();
    }
    let costs = parts.iter().map(|part| part.meta().cost);
    costs.reduce(|a, b| a.plus(&b)).unwrap_or_default()
}

/// Imported tables. A row is of the part in which its interval ends, and may begin before that part.
fn add_tables(to: &Path, parts: &[CopiedPart], access: Access, start_unix_ns: i64) -> Result<()> {
    let mut rates = Vec::new();
    let mut cpu = Vec::new();
    let mut stages = Vec::new();
    for part in parts {
        let path = part.recording.path();
        let shift_ns = part.meta().start_unix_ns.saturating_sub(start_unix_ns);
        for mut row in read_rates(path)? {
            if part.holds_interval_to(row.to_ns) {
                row.from_ns = row.from_ns.saturating_add(shift_ns);
                row.to_ns = row.to_ns.saturating_add(shift_ns);
                rates.push(row);
            }
        }
        for mut row in read_cpu(path)? {
            if part.holds_interval_to(row.to_ns) {
                row.from_ns = row.from_ns.saturating_add(shift_ns);
                row.to_ns = row.to_ns.saturating_add(shift_ns);
                cpu.push(row);
            }
        }
        read_stages(path, |row| {
            if part.range.contains(&row.done_ns) {
                let mut row = *row;
                row.done_ns = row.done_ns.saturating_add(shift_ns);
                stages.push(row);
            }
        })?;
    }
    write_rates(to, &rates.iter().collect(), &cpu, access)?;
    Ok(write_stages(to, &stages, access)?)
}
