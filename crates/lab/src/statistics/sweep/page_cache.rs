//! Repeated reads of a file through the page cache: first at the disk's speed, then at memory's.

use serde::Serialize;

/// Parameters of the two-phase model: disk until the file is cached, then memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageCacheModel {
    /// Time of one system call without data, in seconds.
    pub call_s: f64,
    /// Rate of copying from the cache, in bytes per second.
    pub copy_bytes_per_s: f64,
    /// Rate of the disk, in bytes per second.
    pub disk_bytes_per_s: f64,
    /// Size of the file.
    pub file_bytes: f64,
    /// Length of the run, in seconds.
    pub run_s: f64,
}

/// The bottleneck of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// Calls are slower than the disk: readahead is always ahead, and only CPU time matters.
    Cpu,
    /// The disk limits until the file is cached, then memory.
    DiskThenMemory,
    /// The disk limits throughout: the run ends before the file is cached.
    Disk,
}

/// What the model predicts for one block size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// Bytes per call.
    pub block_bytes: f64,
    /// Time of one call served by the cache, in seconds.
    pub call_s: f64,
    /// The bottleneck: CPU, disk, or both in turn.
    pub regime: Regime,
    /// Calls per second over the whole run.
    pub ios_per_s: f64,
}

impl PageCacheModel {
    /// The model with the call and copy times that follow from two fully cached runs (bytes per call, calls
    /// per second).
    ///
    /// `None` if they contradict it: equal sizes, or larger calls that are faster.
    pub fn from_cached_runs(
        one: (f64, f64),
        two: (f64, f64),
        disk_bytes_per_s: f64,
        file_bytes: f64,
        run_s: f64,
    ) -> Option<PageCacheModel> {
        let t1 = 1.0 / one.1;
        let t2 = 1.0 / two.1;
        let per_byte = (t2 - t1) / (two.0 - one.0);
        let call_s = t1 - one.0 * per_byte;
        (per_byte > 0.0 && per_byte.is_finite() && call_s >= 0.0).then(|| PageCacheModel {
            call_s,
            copy_bytes_per_s: 1.0 / per_byte,
            disk_bytes_per_s,
            file_bytes,
            run_s,
        })
    }

    /// Seconds until the whole file is cached.
    pub fn disk_phase_s(&self) -> f64 {
        self.file_bytes / self.disk_bytes_per_s
    }

    /// The model's prediction for calls of `block_bytes`.
    pub fn predict(&self, block_bytes: f64) -> Prediction {
        let call_s = self.call_s + block_bytes / self.copy_bytes_per_s;
        let (regime, ios_per_s) = if block_bytes / call_s < self.disk_bytes_per_s {
            (Regime::Cpu, 1.0 / call_s)
        } else if self.disk_phase_s() >= self.run_s {
            (Regime::Disk, self.disk_bytes_per_s / block_bytes)
        } else {
            let cached = (self.run_s - self.disk_phase_s()) / call_s;
            (
                Regime::DiskThenMemory,
                (self.file_bytes / block_bytes + cached) / self.run_s,
            )
        };
        Prediction {
            block_bytes,
            call_s,
            regime,
            ios_per_s,
        }
    }
}

/// Error of a prediction, in percent of the measured value.
pub fn error_percent(predicted: f64, measured: f64) -> f64 {
    100.0 * (predicted / measured - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1_073_741_824.0;
    const PREDICTIONS: &str =
        include_str!("../../../../../fixtures/golden/seed1_pagecache_model_prediction.csv");
    const ERRORS: &str = include_str!("../../../../../fixtures/golden/seed1_pagecache_errors.csv");
    const WORKED: &str = include_str!("../../../../../fixtures/golden/seed1_pagecache_model.csv");

    /// The published model. Its 22.6 s of disk time are used as printed.
    fn published(copy_bytes_per_s: f64) -> PageCacheModel {
        PageCacheModel {
            call_s: 1.1e-6,
            copy_bytes_per_s,
            disk_bytes_per_s: 3.0 * GIB / 22.6,
            file_bytes: 3.0 * GIB,
            run_s: 60.0,
        }
    }

    fn worked(quantity: &str) -> f64 {
        let row = WORKED
            .lines()
            .map(|l| l.split(',').collect::<Vec<_>>())
            .find(|c| c[0] == quantity)
            .expect("published");
        row[1].parse().expect("number")
    }

    #[test]
    fn every_published_prediction() {
        let model = published(4.6 * GIB);
        for line in PREDICTIONS.lines().skip(1) {
            let c: Vec<&str> = line.split(',').collect();
            let p = model.predict(c[1].parse().expect("bytes"));
            assert_eq!(
                format!("{:.4}", p.call_s * 1e6),
                format!("{:.4}", c[2].parse::<f64>().expect("us")),
                "{line}"
            );
            assert_eq!(p.regime == Regime::Cpu, c[3] == "cpu", "{line}");
            assert_eq!(format!("{:.1}", p.ios_per_s), c[4], "{line}");
            let bytes_per_s = p.ios_per_s * p.block_bytes;
            assert_eq!(
                format!("{:.3}", bytes_per_s / 1e6),
                format!("{:.3}", c[5].parse::<f64>().expect("MB/s")),
                "{line}"
            );
            assert_eq!(
                format!("{:.3}", bytes_per_s * 60.0 / 1e9),
                format!("{:.3}", c[6].parse::<f64>().expect("GB")),
                "{line}"
            );
        }
        assert_eq!(model.predict(128.0).regime, Regime::Cpu);
        assert_eq!(
            model.predict(256.0).regime,
            Regime::DiskThenMemory,
            "the switch that the text sees at 2^8"
        );
    }

    #[test]
    fn the_worked_example_and_its_inconsistencies() {
        let disk_calls = 3.0 * GIB / 512.0;
        assert_eq!(disk_calls, worked("ops_disk_phase"));
        assert_eq!(60.0 - worked("disk_busy"), worked("ram_phase"));
        let ram_calls: f64 = 37.4 / 1.2e-6;
        assert_eq!(format!("{:.4}", ram_calls / 1e6), "31.1667");
        assert_eq!(format!("{:.2}", disk_calls + ram_calls), "37458122.67");
        assert_eq!((disk_calls + ram_calls).trunc(), worked("ops_total"));
        assert_eq!(
            format!("{:.2}", (disk_calls + ram_calls) / 60.0),
            "624302.04"
        );
        assert_eq!(
            format!("{:.3}", error_percent(624_302.04, worked("iops_actual"))),
            "1.059"
        );
        let listed = |copy: f64| error_percent(published(copy).predict(512.0).ios_per_s, 617_759.0);
        assert_eq!(
            format!("{:.3}", listed(4.6 * GIB)),
            "0.803",
            "the list's 0.80 is the model without rounding"
        );
        assert_eq!(
            format!("{:.3} {:.3}", listed(4.8e9), listed(4.8 * GIB)),
            "0.595 1.105"
        );
        // 22.6 s do not follow from 138 MB/s in any unit.
        let seconds = [
            3e9 / 135e6,
            3.0 * GIB / 138e6,
            3e9 / 138e6,
            3.0 * 1024.0 / 138.0,
        ];
        assert!(
            seconds[1..].iter().all(|s| (s - 22.6_f64).abs() > 0.1),
            "{seconds:?}"
        );
        assert_eq!(
            format!("{:.2} {:.1}", 3.0 * 1024.0 / 22.6, 3.0 * GIB / 22.6 / 1e6),
            "135.93 142.5"
        );
        let at = |bs: f64| published(4.6 * GIB).predict(bs);
        assert_eq!(
            format!("{:.2}", at(256.0).ios_per_s * 256.0 * 60.0 / 1e9),
            "11.53"
        );
        assert_eq!(
            format!(
                "{:.3}",
                at(512.0).ios_per_s * 512.0 / (at(256.0).ios_per_s * 256.0)
            ),
            "1.659"
        );
    }

    #[test]
    fn the_sixteen_published_errors() {
        let errors: Vec<f64> = ERRORS
            .lines()
            .skip(1)
            .map(|l| {
                l.split(',')
                    .next_back()
                    .expect("cell")
                    .parse()
                    .expect("number")
            })
            .collect();
        assert_eq!(errors.len(), 16);
        assert_eq!(format!("{:.2}", errors.iter().sum::<f64>() / 16.0), "7.29");
        assert_eq!(errors.iter().copied().fold(0.0, f64::max), 15.65);
    }

    #[test]
    fn two_cached_runs_determine_the_model() {
        let truth = published(4.6 * GIB);
        let run = |bs: f64| (bs, 1.0 / (truth.call_s + bs / truth.copy_bytes_per_s));
        let m = PageCacheModel::from_cached_runs(run(512.0), run(65536.0), 1e8, GIB, 60.0)
            .expect("determined");
        assert!(
            (m.call_s / 1.1e-6 - 1.0).abs() < 1e-9
                && (m.copy_bytes_per_s / (4.6 * GIB) - 1.0).abs() < 1e-9
        );
        assert_eq!(
            PageCacheModel::from_cached_runs((512.0, 1e5), (4096.0, 2e5), 1e8, GIB, 60.0),
            None
        );
        assert_eq!(m.predict(65536.0).regime, Regime::DiskThenMemory);
        assert_eq!(
            PageCacheModel { run_s: 5.0, ..m }.predict(65536.0).regime,
            Regime::Disk
        );
    }
}
