//! A sweep's runs, put together: replicates become means with intervals, series get their models.

use serde::Serialize;

use super::{Plateau, SeekTransfer, SweepPoint, Weighting, fit_seek_transfer, plateau};
use crate::analysis::anova::{MeanInterval, mean_interval};
use crate::analysis::identities::{RunFacts, identities, verdicts};

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPoint {
    /// What it shares with other block sizes: pattern, engine, cache, depth.
    pub series: String,
    /// Bytes per I/O.
    pub block_bytes: f64,
    /// Both sides.
    pub facts: RunFacts,
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
    /// Mean request in bytes; `None` if the device did nothing.
    pub request_bytes: Option<f64>,
    /// Mean queue length.
    pub queue_length: f64,
    /// Mean response time of the device in ms; `None` if it did nothing.
    pub await_ms: Option<f64>,
    /// The kernel's utilisation in percent.
    pub util_percent: f64,
    /// What explains the row, in words; of all replicates, each sentence's kind once.
    pub verdicts: Vec<String>,
    /// Identities that failed in any replicate.
    pub failed: Vec<String>,
}

/// A series of block sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepSeries {
    /// Its name.
    pub name: String,
    /// By block size.
    pub rows: Vec<SweepRow>,
    /// Where the application's rate stops being flat.
    pub plateau: Option<Plateau>,
    /// Fitted where every run had one direct I/O at a time.
    pub seek_transfer: Option<SeekTransfer>,
}

/// Groups runs by series and block size.
pub fn summarise(runs: &[RunPoint]) -> Vec<SweepSeries> {
    let mut names: Vec<&str> = runs.iter().map(|r| r.series.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|n| series(n, &runs.iter().filter(|r| r.series == n).collect::<Vec<_>>())).collect()
}

fn series(name: &str, runs: &[&RunPoint]) -> SweepSeries {
    let mut sizes: Vec<f64> = runs.iter().map(|r| r.block_bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let of_size =
        |bs: f64| -> Vec<&RunFacts> { runs.iter().filter(|r| r.block_bytes == bs).map(|r| &r.facts).collect() };
    let rows: Vec<SweepRow> = sizes.iter().filter_map(|bs| row(*bs, &of_size(*bs))).collect();
    let one_at_a_time = runs.iter().all(|r| r.facts.direct && r.facts.queue_depth == 1);
    let max = runs.iter().find_map(|r| r.facts.max_request_bytes).unwrap_or(f64::INFINITY);
    let points: Vec<SweepPoint> =
        rows.iter().map(|r| SweepPoint { block_bytes: r.block_bytes, device_ios_per_s: r.device_ios_per_s }).collect();
    SweepSeries {
        name: name.to_owned(),
        plateau: plateau(&rows.iter().map(|r| (r.block_bytes, r.ios_per_s.mean)).collect::<Vec<_>>()),
        seek_transfer: if one_at_a_time { fit_seek_transfer(&points, max, Weighting::Relative) } else { None },
        rows,
    }
}

fn row(block_bytes: f64, runs: &[&RunFacts]) -> Option<SweepRow> {
    let n = runs.len() as f64;
    let mean = |f: &dyn Fn(&RunFacts) -> f64| runs.iter().map(|r| f(r)).sum::<f64>() / n;
    let iops: Vec<f64> = runs.iter().map(|r| r.app.iter().map(|s| s.ios).sum::<f64>() / r.runtime_s).collect();
    let total = |f: &dyn Fn(&RunFacts) -> f64| runs.iter().map(|r| f(r)).sum::<f64>();
    let ios = total(&|r| r.device.iter().map(|d| d.ios).sum());
    let bytes = total(&|r| r.device.iter().filter_map(|d| d.bytes).sum());
    let ticks = total(&|r| r.device.iter().map(|d| d.ticks_ms).sum());
    let mut sentences: Vec<(String, String)> = Vec::new();
    for v in runs.iter().flat_map(|r| verdicts(r)) {
        let text = v.sentence();
        let kind = text.split(':').next().unwrap_or_default().to_owned();
        if !sentences.iter().any(|s| s.0 == kind) {
            sentences.push((kind, text));
        }
    }
    let mut failed: Vec<String> = runs.iter().flat_map(|r| identities(r)).filter(|i| !i.holds).map(|i| i.id).collect();
    failed.sort_unstable();
    failed.dedup();
    Some(SweepRow {
        block_bytes,
        ios_per_s: mean_interval(&iops, 0.05)?,
        bytes_per_s: mean(&|r| r.app.iter().map(|s| s.bytes).sum::<f64>() / r.runtime_s),
        device_ios_per_s: ios / total(&|r| r.runtime_s),
        device_bytes_per_s: bytes / total(&|r| r.runtime_s),
        request_bytes: (ios > 0.0).then(|| bytes / ios),
        queue_length: mean(&|r| r.in_queue_ms.unwrap_or(0.0) / 1000.0 / r.window_s),
        await_ms: (ios > 0.0).then(|| ticks / ios),
        util_percent: mean(&|r| r.io_ticks_ms.unwrap_or(0.0) / 10.0 / r.window_s),
        verdicts: sentences.into_iter().map(|s| s.1).collect(),
        failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::identities::{AppSide, DeviceSide, DeviceSource};

    fn run(bs: f64, iops: f64) -> RunPoint {
        let app = AppSide { ios: iops, bytes: iops * bs, block_bytes: Some(bs), ..AppSide::default() };
        let device = DeviceSide { ios: iops, bytes: Some(iops * bs), merges: 0.0, ticks_ms: 990.0 };
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
        };
        RunPoint { series: "randread direct".to_owned(), block_bytes: bs, facts }
    }

    #[test]
    fn replicates_become_rows_and_a_disk_is_found_in_them() {
        let disk = |bs: f64| 1.0 / (0.005 + bs / 100e6);
        let runs: Vec<RunPoint> =
            (12..22).flat_map(|i| [0.99, 1.01].map(|f| run(2f64.powi(i), f * disk(2f64.powi(i))))).collect();
        let s = &summarise(&runs)[0];
        assert_eq!((s.rows.len(), s.rows[0].ios_per_s.n), (10, 2));
        let fit = s.seek_transfer.as_ref().expect("one at a time");
        assert!((fit.a_s.value / 0.005 - 1.0).abs() < 0.01 && (fit.rate_bytes_per_s.value / 100e6 - 1.0).abs() < 0.01);
        assert_eq!(s.rows[0].queue_length, 0.99);
        assert!(s.rows[0].failed.is_empty() && s.rows[0].verdicts[0].contains("agree"));
    }
}
