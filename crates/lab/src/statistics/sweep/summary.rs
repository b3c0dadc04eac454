//! Summarises the runs of a sweep: replicates become means with intervals, and models are fitted to series.

use serde::Serialize;

use super::{
    ColdRun, PageCacheFit, Plateau, SeekTransfer, SweepPoint, Weighting, fit_page_cache,
    fit_seek_transfer, plateau,
};
use crate::statistics::anova::{MeanInterval, mean_interval};
use crate::statistics::identities::{IdentityVerdict, RunFacts, identities, verdicts};

/// Result of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPoint {
    /// The settings it shares with other block sizes: pattern, engine, cache, depth.
    pub series: String,
    /// Bytes per I/O.
    pub block_bytes: f64,
    /// Measurements of the application and of the device.
    pub facts: RunFacts,
    /// Whether the file was in the page cache from the start; such runs measure only the cost of calls and copies.
    pub warm: bool,
    /// Whether it read the file sequentially and repeatedly.
    pub sequential_read: bool,
    /// Bytes of the file.
    pub file_bytes: f64,
    /// Bytes that the application's reads transferred from the device, and the seconds from the first of them to the
    /// last.
    pub disk_phase: Option<(f64, f64)>,
}

/// An identity over all replicates of one block size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdentityRow {
    /// Bytes per I/O.
    pub block_bytes: f64,
    /// Its name in the definitions, with the direction.
    pub id: String,
    /// The identity as text.
    pub text: &'static str,
    /// Left side, mean.
    pub left: f64,
    /// Right side, mean.
    pub right: f64,
    /// Left minus right, in percent of the right side; `None` if that is 0.
    pub residual_percent: Option<f64>,
    /// Tolerance of the difference, in the unit of the sides, mean.
    pub tolerance: f64,
    /// Number of replicates in which it holds.
    pub holds: usize,
    /// Number of replicates.
    pub n: usize,
}

/// All replicates of one block size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepRow {
    /// Bytes per I/O.
    pub block_bytes: f64,
    /// The application's I/Os per second, with a 95 % interval over replicates.
    pub ios_per_s: MeanInterval,
    /// The application's bytes per second.
    pub bytes_per_s: f64,
    /// The device's requests per second.
    pub device_ios_per_s: f64,
    /// The device's bytes per second.
    pub device_bytes_per_s: f64,
    /// Mean request in bytes; `None` if the device had no I/O.
    pub request_bytes: Option<f64>,
    /// Mean queue length.
    pub queue_length: f64,
    /// Mean response time of the device in ms; `None` if it had no I/O.
    pub await_ms: Option<f64>,
    /// The kernel's utilisation in percent.
    pub util_percent: f64,
    /// The mechanisms that explain the row, as text; over all replicates, each kind once.
    pub verdicts: Vec<String>,
    /// Identities that failed in any replicate.
    pub failed: Vec<String>,
}

/// A series of block sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepSeries {
    /// Name of the metric.
    pub name: String,
    /// One row per block size.
    pub rows: Vec<SweepRow>,
    /// Where the application's rate stops being flat.
    pub plateau: Option<Plateau>,
    /// Fitted if every run had one direct I/O at a time.
    pub seek_transfer: Option<SeekTransfer>,
    /// Fitted to sequential reads through the page cache, if there are also runs on a cached file.
    pub page_cache: Option<PageCacheFit>,
    /// Every identity, by block size.
    pub identities: Vec<IdentityRow>,
}

/// Groups runs by series and block size.
pub fn summarise(runs: &[RunPoint]) -> Vec<SweepSeries> {
    let mut names: Vec<&str> = runs.iter().map(|r| r.series.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|n| {
            series(
                n,
                &runs.iter().filter(|r| r.series == n).collect::<Vec<_>>(),
            )
        })
        .collect()
}

fn series(name: &str, runs: &[&RunPoint]) -> SweepSeries {
    let (warm, cold): (Vec<&RunPoint>, Vec<&RunPoint>) = runs.iter().copied().partition(|r| r.warm);
    let mut sizes: Vec<f64> = cold.iter().map(|r| r.block_bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    // Replicates of a size become a row, and the identities are checked over all of them.
    let mut rows: Vec<SweepRow> = Vec::new();
    let mut identities = Vec::new();
    for bs in sizes {
        let of_size = cold.iter().filter(|r| r.block_bytes == bs);
        let replicates: Vec<&RunFacts> = of_size.map(|r| &r.facts).collect();
        rows.extend(row(bs, &replicates));
        identities.extend(identity_rows(bs, &replicates));
    }
    let one_at_a_time = !cold.is_empty()
        && cold
            .iter()
            .all(|r| r.facts.direct && r.facts.queue_depth == 1);
    let max = runs
        .iter()
        .find_map(|r| r.facts.max_request_bytes)
        .unwrap_or(f64::INFINITY);
    // With one I/O at a time, the device's requests are parts of the application's I/Os; its counters include others'
    // as well.
    let points: Vec<SweepPoint> = rows
        .iter()
        .map(|r| SweepPoint {
            block_bytes: r.block_bytes,
            device_ios_per_s: r.ios_per_s.mean * (r.block_bytes / max).ceil().max(1.0),
        })
        .collect();
    SweepSeries {
        name: name.to_owned(),
        plateau: plateau(
            &rows
                .iter()
                .map(|r| (r.block_bytes, r.ios_per_s.mean))
                .collect::<Vec<_>>(),
        ),
        seek_transfer: if one_at_a_time {
            fit_seek_transfer(&points, max, Weighting::Relative)
        } else {
            None
        },
        page_cache: two_phases(&warm, &cold),
        identities,
        rows,
    }
}

/// The application's I/Os per second of a run.
fn rate(r: &RunFacts) -> f64 {
    r.app.iter().map(|s| s.ios).sum::<f64>() / r.runtime_s
}

fn two_phases(warm: &[&RunPoint], cold: &[&RunPoint]) -> Option<PageCacheFit> {
    if cold.iter().any(|r| r.facts.direct || !r.sequential_read) {
        return None;
    }
    let cached: Vec<(f64, f64)> = warm
        .iter()
        .map(|r| (r.block_bytes, rate(&r.facts)))
        .collect();
    let file_bytes = cold.first()?.file_bytes;
    let cold: Vec<ColdRun> = cold
        .iter()
        .map(|r| ColdRun {
            block_bytes: r.block_bytes,
            ios_per_s: rate(&r.facts),
            run_s: r.facts.runtime_s,
            disk_phase: r.disk_phase,
        })
        .collect();
    fit_page_cache(&cached, &cold, file_bytes)
}

fn identity_rows(block_bytes: f64, runs: &[&RunFacts]) -> Vec<IdentityRow> {
    let all: Vec<_> = runs.iter().flat_map(|r| identities(r)).collect();
    let mut out: Vec<IdentityRow> = Vec::new();
    for i in &all {
        if out.iter().any(|o| o.id == i.id) {
            continue;
        }
        let same: Vec<_> = all.iter().filter(|x| x.id == i.id).collect();
        let n = same.len() as f64;
        let left = same.iter().map(|x| x.left).sum::<f64>() / n;
        let right = same.iter().map(|x| x.right).sum::<f64>() / n;
        out.push(IdentityRow {
            block_bytes,
            id: i.id.clone(),
            text: i.text,
            left,
            right,
            residual_percent: (right != 0.0).then(|| 100.0 * (left - right) / right),
            tolerance: same.iter().map(|x| x.tolerance).sum::<f64>() / n,
            holds: same.iter().filter(|x| x.holds).count(),
            n: same.len(),
        });
    }
    out.sort_by(|a, b| a.id.cmp(&b.id));
    out
}

fn row(block_bytes: f64, runs: &[&RunFacts]) -> Option<SweepRow> {
    let n = runs.len() as f64;
    let iops: Vec<f64> = runs.iter().map(|r| rate(r)).collect();
    let runtime_s = total(runs, |r| r.runtime_s);
    let ios = total(runs, |r| r.device.iter().map(|d| d.ios).sum());
    let bytes = total(runs, |r| r.device.iter().filter_map(|d| d.bytes).sum());
    let ticks = total(runs, |r| r.device.iter().map(|d| d.ticks_ms).sum());
    let app_bytes_per_s = total(runs, |r| {
        r.app.iter().map(|s| s.bytes).sum::<f64>() / r.runtime_s
    });
    let queue_length = total(runs, |r| r.in_queue_ms.unwrap_or(0.0) / 1000.0 / r.window_s);
    let util_percent = total(runs, |r| r.io_ticks_ms.unwrap_or(0.0) / 10.0 / r.window_s);
    let mut sentences: Vec<(String, String)> = Vec::new();
    let mut all: Vec<IdentityVerdict> = runs.iter().flat_map(|r| verdicts(r)).collect();
    if all.iter().any(|v| *v != IdentityVerdict::Agree) {
        all.retain(|v| *v != IdentityVerdict::Agree); // some replicates agree, but this row does not
    }
    for v in all {
        let text = v.sentence();
        let kind = text.split(':').next().unwrap_or_default().to_owned();
        if !sentences.iter().any(|s| s.0 == kind) {
            sentences.push((kind, text));
        }
    }
    let mut failed: Vec<String> = runs
        .iter()
        .flat_map(|r| identities(r))
        .filter(|i| !i.holds)
        .map(|i| i.id)
        .collect();
    failed.sort_unstable();
    failed.dedup();
    Some(SweepRow {
        block_bytes,
        ios_per_s: mean_interval(&iops, 0.05)?,
        bytes_per_s: app_bytes_per_s / n,
        device_ios_per_s: ios / runtime_s,
        device_bytes_per_s: bytes / runtime_s,
        request_bytes: (ios > 0.0).then(|| bytes / ios),
        queue_length: queue_length / n,
        await_ms: (ios > 0.0).then(|| ticks / ios),
        util_percent: util_percent / n,
        verdicts: sentences.into_iter().map(|s| s.1).collect(),
        failed,
    })
}

/// The sum of a value over all runs.
fn total(runs: &[&RunFacts], value: fn(&RunFacts) -> f64) -> f64 {
    runs.iter().map(|r| value(r)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::identities::{AppSide, DeviceSide, DeviceSource};

    fn run(bs: f64, iops: f64) -> RunPoint {
        let app = AppSide {
            ios: iops,
            bytes: iops * bs,
            block_bytes: Some(bs),
            ..AppSide::default()
        };
        let device = DeviceSide {
            ios: iops,
            bytes: Some(iops * bs),
            merges: 0.0,
            ticks_ms: 990.0,
        };
        let facts = RunFacts {
            app: [app, AppSide::default()],
            device: [device, DeviceSide::default()],
            runtime_s: 1.0,
            window_s: 1.0,
            source: DeviceSource::Bracket,
            in_queue_ms: Some(990.0),
            io_ticks_ms: Some(990.0),
            util_percent: None,
            direct: true,
            queue_depth: 1,
            max_request_bytes: Some(1e9),
            read_ahead_bytes: None,
            others: Vec::new(),
            metadata_bytes: 0.0,
            foreign: Default::default(),
            lost_ios: Some(0),
        };
        RunPoint {
            series: "randread direct".to_owned(),
            block_bytes: bs,
            facts,
            warm: false,
            sequential_read: false,
            file_bytes: 1e9,
            disk_phase: None,
        }
    }

    #[test]
    fn replicates_become_rows_and_a_disk_is_found_in_them() {
        let disk = |bs: f64| 1.0 / (0.005 + bs / 100e6);
        let runs: Vec<RunPoint> = (12..22)
            .flat_map(|i| [0.99, 1.01].map(|f| run(2f64.powi(i), f * disk(2f64.powi(i)))))
            .collect();
        let s = &summarise(&runs)[0];
        assert_eq!((s.rows.len(), s.rows[0].ios_per_s.n), (10, 2));
        let fit = s.seek_transfer.as_ref().expect("one at a time");
        assert!(
            (fit.a_s.value / 0.005 - 1.0).abs() < 0.01
                && (fit.rate_bytes_per_s.value / 100e6 - 1.0).abs() < 0.01
        );
        assert_eq!(s.rows[0].queue_length, 0.99);
        assert!(s.rows[0].failed.is_empty() && s.rows[0].verdicts[0].contains("agree"));
        assert!(s.page_cache.is_none() && s.identities.iter().all(|i| (i.holds, i.n) == (2, 2)));
        assert!(
            s.identities
                .iter()
                .any(|i| i.id == "I4.r" && i.block_bytes == 4096.0)
        );
    }

    #[test]
    fn a_row_agrees_only_if_all_replicates_and_identities_agree() {
        let mut odd = run(4096.0, 1000.0);
        odd.facts.device[0].ios = 940.0; // more bytes per request than the application issued, without a merge
        for runs in [vec![odd.clone()], vec![run(4096.0, 1000.0), odd]] {
            let s = &summarise(&runs)[0];
            let row = &s.rows[0];
            assert!(!row.failed.is_empty(), "{row:?}");
            assert!(
                row.verdicts.iter().all(|v| v.starts_with("unexplained: "))
                    && row.verdicts.len() == 1,
                "{row:?}"
            );
        }
    }

    #[test]
    fn cold_and_cached_runs_make_the_two_phase_model() {
        let truth = super::super::PageCacheModel {
            call_s: 1e-6,
            copy_bytes_per_s: 5e9,
            disk_bytes_per_s: 1e8,
            file_bytes: 4e8,
            run_s: 10.0,
        };
        let point = |bs: f64, warm: bool| {
            let ios_per_s = if warm {
                1.0 / (1e-6 + bs / 5e9)
            } else {
                truth.predict(bs).ios_per_s
            };
            let mut p = run(bs, ios_per_s);
            p.facts.direct = false;
            p.facts.runtime_s = 10.0;
            p.facts.app[0].ios = ios_per_s * 10.0;
            RunPoint {
                series: "read buffered".to_owned(),
                warm,
                sequential_read: true,
                file_bytes: 4e8,
                disk_phase: (!warm).then_some((4e8, 4.0)),
                ..p
            }
        };
        let mut runs: Vec<RunPoint> = (9..18).map(|i| point(2f64.powi(i), false)).collect();
        runs.extend([512.0, 512.0, 131_072.0, 131_072.0].map(|bs| point(bs, true)));
        let s = &summarise(&runs)[0];
        assert_eq!(s.rows.len(), 9, "cached runs are no rows");
        let fit = s.page_cache.as_ref().expect("two phases");
        assert!(
            (fit.call_s.value / 1e-6 - 1.0).abs() < 1e-6
                && (fit.disk_bytes_per_s.value / 1e8 - 1.0).abs() < 1e-6
        );
        assert!(fit.max_abs_error_percent < 1e-6 && fit.points.len() == 9);
    }
}
