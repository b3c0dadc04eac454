//! `iolens util`: shows how busy the disks under each path are.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use iolens_observe::counters::{Pace, Wake};
use iolens_observe::topology::{Layer, Resolver, wall_clock_ns};
use iolens_recorder::SourceChoice;

use crate::cli::UtilPlan;
use crate::present::util::{self, DiskView, LayerView, PathView, UtilInterval};
use iolens_control::{DiskReading, Meter, Reading, Utilisation};

/// Runs `iolens util`.
///
/// # Errors
/// A path cannot be accessed, or stdout is closed.
pub fn run(plan: &UtilPlan) -> Result<u8> {
    let paths = if plan.paths.is_empty() {
        every_local_path()?
    } else {
        plan.paths.clone()
    };
    let mut meter = Meter::open(&paths)?;
    if plan.source != SourceChoice::Counters {
        meter.add_events(false);
        if let (SourceChoice::Ebpf, Some(why)) = (plan.source, meter.without_events()) {
            bail!("{why}; without --source ebpf the kernel's counters are used");
        }
    }
    let period = Duration::from_nanos(u64::try_from(plan.watch_ns.unwrap_or(plan.interval_ns))?);
    if period < Duration::from_millis(10) {
        bail!(
            "an interval of {period:?} is too short: the kernel counts busy time in steps of up to 10 ms"
        );
    }
    let mut pace = Pace::new(period);
    loop {
        while !matches!(pace.wait(), Wake::Due { .. }) {}
        let view = view(&mut meter, &paths);
        let text = if plan.json {
            util::json(&view)?
        } else {
            crate::streams::layout().sentences(&util::text(&view))
        };
        let mut out = crate::streams::stdout();
        out.write_all(text.as_bytes())?;
        if plan.watch_ns.is_none() {
            return Ok(0);
        }
        if !plan.json {
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
}

fn every_local_path() -> Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = Resolver::read(Path::new("/"))?
        .local()
        .into_iter()
        .map(|p| p.path)
        .collect();
    if paths.is_empty() {
        bail!(
            "no mounted file system has a disk under it here; name a path with --path to see why"
        );
    }
    Ok(paths)
}

fn view(meter: &mut Meter, paths: &[PathBuf]) -> UtilInterval {
    let (readings, window) = meter.measure();
    let mut remarks: Vec<String> = meter
        .without_events()
        .map(|why| format!("no events: {why}"))
        .into_iter()
        .collect();
    if window.as_ref().is_some_and(|w| w.lossy) {
        remarks.push("events were lost: busy time is from io_ticks in this interval".to_owned());
    }
    UtilInterval {
        source: if window.as_ref().is_some_and(|w| !w.lossy) {
            "ebpf"
        } else {
            "counters"
        },
        remarks,
        estimator: meter.signals().first().and_then(|s| s.estimator().regime),
        unix_s: wall_clock_ns() as f64 / 1e9,
        interval_s: readings.iter().map(|r| r.span_ns).max().unwrap_or(0) as f64 / 1e9,
        paths: paths
            .iter()
            .zip(meter.signals())
            .zip(&readings)
            .map(|((p, s), r)| path_view(p, s, r))
            .collect(),
    }
}

fn path_view(path: &Path, signal: &Utilisation, reading: &Reading) -> PathView {
    let stack = signal.stack();
    let mount = stack.mount.as_ref().map(|m| {
        [
            m.point.to_string_lossy().into_owned(),
            m.fs_type.clone(),
            m.source.to_string_lossy().into_owned(),
        ]
    });
    PathView {
        path: path.to_string_lossy().into_owned(),
        mount,
        no_disk: stack.no_disk.clone(),
        layers: stack.layers.iter().map(layer_view).collect(),
        disks: reading.disks.iter().map(disk_view).collect(),
        combined: reading.combined,
    }
}

fn layer_view(l: &Layer) -> LayerView {
    LayerView {
        name: l.name.clone(),
        kind: l.kind.clone(),
        label: l.label.clone(),
        below: l.below.iter().map(layer_view).collect(),
    }
}

fn disk_view(d: &DiskReading) -> DiskView {
    let rates = d.delta.map(|delta| delta.rates());
    DiskView {
        name: d.name.to_string(),
        id: d.id,
        busy: d.busy,
        rates: [
            rates.and_then(|r| r.read.per_s),
            rates.and_then(|r| r.write.per_s),
            rates.and_then(|r| Some(r.read.kib_per_s? * 1024.0)),
            rates.and_then(|r| Some(r.write.kib_per_s? * 1024.0)),
            rates.and_then(|r| r.await_ms),
        ],
        in_flight: d.in_flight,
    }
}
