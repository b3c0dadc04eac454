//! `iolens live --plain --replay DIR`: the rows computed from recorded samples of counters, one per sample.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::timeline::GroupBy;
use iolens_core::model::{CounterSample, Device, Source};
use iolens_observe::counters::{Root, RowKind, Sampler, SystemFiles};
use iolens_recorder::{COUNTERS_LIMIT, SourceChoice};

use super::{DEVICES_ONLY, RowsOutput, Steps};
use crate::cli::LivePlan;
use crate::engine::note::Note;
use crate::iostat::replay::samples;
use crate::present::escape;
use crate::present::query_text::{self, Spelling};

const CENTISECOND_NS: i64 = 10_000_000;

/// Shows the row between each two samples of `dir`, without waiting. Intervals are those of the samples' own uptimes.
///
/// # Errors
/// The samples cannot be read, or contain no selected disk.
pub fn run(plan: &LivePlan, dir: &Path) -> Result<u8> {
    if plan.source == SourceChoice::Ebpf {
        bail!("--source ebpf: recorded counters hold no single I/Os; leave it out");
    }
    if !matches!(GroupBy::from(plan.rows.by), GroupBy::All | GroupBy::Device) {
        bail!(DEVICES_ONLY);
    }
    let samples: Vec<_> = samples(dir)
        .map_err(anyhow::Error::msg)?
        .iter()
        .map(|d| read(d))
        .collect::<Result<_>>()?;
    let devices = chosen(&samples, plan)?;
    for line in [
        COUNTERS_LIMIT,
        "no eBPF: counters are replayed",
        "source: counters",
    ] {
        eprintln!("iolens: {line}");
    }
    let mut output = RowsOutput::new(plan, devices, Source::Counters, None)?;
    let start_cs = samples.first().map_or(0, |s| s.uptime_cs);
    let mut steps = Steps::new(&output);
    for sample in &samples {
        let at_ns = sample
            .uptime_cs
            .saturating_sub(start_cs)
            .saturating_mul(CENTISECOND_NS);
        let counters: Vec<_> = sample
            .disks
            .iter()
            .filter(|(d, _)| output.devices.iter().any(|s| s.id == d.id))
            .map(|(_, c)| CounterSample { at_ns, ..*c })
            .collect();
        steps.take(&counters, plan, &mut output)?;
        if plan.for_ns.is_some_and(|ns| at_ns >= ns) {
            break;
        }
    }
    output.end()?;
    if !steps.shown {
        eprintln!("iolens: no rows: {}", why_no_rows(&samples, dir));
    }
    Ok(0)
}

fn why_no_rows(samples: &[Replayed], dir: &Path) -> String {
    let dir = escape::terminal(&dir.display().to_string()).into_owned();
    match samples {
        [_] => format!("{dir} holds one sample; a row needs two"),
        _ if samples.iter().all(|s| s.disks.is_empty()) => {
            format!("the samples in {dir} show no disk; each needs sys/block beside proc/diskstats")
        }
        _ => format!("no time passes between the samples in {dir}, by their proc/uptime"),
    }
}

struct Replayed {
    uptime_cs: i64,
    disks: Vec<(Device, CounterSample)>,
}

fn read(dir: &Path) -> Result<Replayed> {
    let root = Root::recorded(dir);
    let uptime_cs = SystemFiles::new(&root).uptime_cs().ok().flatten();
    let uptime_cs = uptime_cs
        .with_context(|| format!("Cannot read {}", root.path("/proc/uptime").display()))?;
    let unreadable = format!("{} cannot be read", root.path("/proc/diskstats").display());
    let mut sampler =
        Sampler::new(&root, None, std::time::Duration::from_secs(1)).context(unreadable.clone())?;
    let sample = sampler.now().context(unreadable)?;
    // Disks only, because I/O of a partition is counted for its disk as well.
    let disks = sample.rows.iter().filter(|r| r.kind == RowKind::Disk);
    let disks = disks.map(|r| {
        let name = String::from_utf8_lossy(&r.name).replace('!', "/");
        (
            Device::named(name, r.dev),
            CounterSample {
                at_ns: 0,
                dev: r.dev,
                counters: r.counters,
            },
        )
    });
    Ok(Replayed {
        uptime_cs: uptime_cs as i64,
        disks: disks.collect(),
    })
}

/// The disks to show. Sums leave out dm and md devices, because samples do not list the disks below them.
fn chosen(samples: &[Replayed], plan: &LivePlan) -> Result<Vec<Device>> {
    let mut all: Vec<Device> = Vec::new();
    for (device, _) in samples.iter().flat_map(|s| &s.disks) {
        if !all.iter().any(|d| d.id == device.id) {
            all.push(device.clone());
        }
    }
    if plan.devices.is_empty() {
        // A sum that includes stacked devices and the disks below them would count their I/O twice.
        if GroupBy::from(plan.rows.by) == GroupBy::All
            && all.iter().any(is_stacked)
            && !all.iter().all(is_stacked)
        {
            let names = all.iter().filter(|d| is_stacked(d)).map(|d| d.name.clone());
            let note = Note::Layers(names.collect());
            eprintln!("iolens: {}", query_text::note(&note, Spelling::Flags));
            all.retain(|d| !is_stacked(d));
        }
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for word in &plan.devices {
        let name = word.strip_prefix("/dev/").unwrap_or(word);
        let found = all
            .iter()
            .find(|d| d.name == name || name.parse() == Ok(d.id));
        let Some(device) = found else {
            let names: Vec<String> = all.iter().map(|d| d.name.clone()).collect();
            bail!("{}", query_text::no_such_device(word, &names));
        };
        chosen.push(device.clone());
    }
    Ok(chosen)
}

/// Whether a device is stacked on others, judged by its name: samples contain nothing else about it.
fn is_stacked(device: &Device) -> bool {
    device.name.starts_with("dm-") || device.name.starts_with("md")
}
