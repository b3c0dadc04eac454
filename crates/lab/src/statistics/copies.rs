//! A19: simultaneous copies, a cell per number of copies and target: derives values from averages, and finds
//! impossible ones.

use serde::Serialize;

/// Averages of one cell, in the units of the published tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CellAverages {
    /// Copies at the same time.
    pub copies: u32,
    /// Written, in MB/s as iostat counts them (MiB).
    pub write_mb_per_s: f64,
    /// Write requests per second.
    pub writes_per_s: f64,
    /// Mean request in sectors of 512 bytes.
    pub request_sectors: f64,
    /// Mean queue length.
    pub queue_length: f64,
    /// `%util`.
    pub util_percent: f64,
}

/// Values derived from the averages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Derived {
    /// Request size calculated from rate and count, in sectors.
    pub request_sectors: f64,
    /// Deviation of the stated size, in percent. If it is not near 0, the stated size is a plain mean of samples.
    pub size_error_percent: f64,
    /// Stated request size in KiB.
    pub request_kib: f64,
    /// Response time by Little's law, in ms.
    pub write_await_ms: f64,
    /// Service time in ms of a server that handles one request at a time (`svctm`).
    pub service_ms: f64,
    /// Rate while the disk was busy, in MB/s.
    pub mb_per_busy_s: f64,
    /// Time that all copies of a file of `file_mb` take, in seconds.
    pub elapsed_s: f64,
    /// Each copy's share, in MB/s.
    pub per_copy_mb_per_s: f64,
    /// Above 100 %: an error of clock or accounting; every value derived from it is suspect.
    pub impossible_util: bool,
}

/// Derives the values; `None` if nothing was written.
pub fn derive(c: &CellAverages, file_mb: f64) -> Option<Derived> {
    if c.writes_per_s <= 0.0 || c.write_mb_per_s <= 0.0 || c.util_percent <= 0.0 {
        return None;
    }
    let request_sectors = c.write_mb_per_s * 2048.0 / c.writes_per_s;
    Some(Derived {
        request_sectors,
        size_error_percent: 100.0 * (request_sectors / c.request_sectors - 1.0),
        request_kib: c.request_sectors / 2.0,
        write_await_ms: 1000.0 * c.queue_length / c.writes_per_s,
        service_ms: 10.0 * c.util_percent / c.writes_per_s,
        mb_per_busy_s: c.write_mb_per_s / (c.util_percent / 100.0),
        elapsed_s: f64::from(c.copies) * file_mb / c.write_mb_per_s,
        per_copy_mb_per_s: c.write_mb_per_s / f64::from(c.copies),
        impossible_util: c.util_percent > 100.0,
    })
}

/// A warning about a cell, as text.
pub fn doubts(c: &CellAverages, measured_elapsed_s: Option<f64>, file_mb: f64) -> Vec<String> {
    let mut out = Vec::new();
    let Some(d) = derive(c, file_mb) else {
        return vec!["nothing was written while the device was watched".to_owned()];
    };
    if d.impossible_util {
        out.push(format!(
            "utilisation of {:.1} % is impossible: a fault of clock or accounting, values suspect",
            c.util_percent
        ));
    }
    if d.size_error_percent.abs() > 1.0 {
        out.push(format!(
            "stated and implied request size differ by {:.1} %: the stated one is a plain mean of samples",
            d.size_error_percent.abs()
        ));
    }
    if let Some(e) = measured_elapsed_s.filter(|e| *e > 0.0 && (d.elapsed_s / e - 1.0).abs() > 0.25)
    {
        out.push(format!(
            "the copies took {e:.1} s, the device's rate implies {:.1} s: the page cache took part, or others wrote",
            d.elapsed_s
        ));
    }
    out
}

/// The plain mean of samples, and the mean weighted by their length. They differ if the lengths differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TwoMeans {
    /// Σ value·length / Σ length.
    pub weighted: f64,
    /// Σ value / count.
    pub plain: f64,
}

/// Both means of (value, seconds); `None` if there are none.
pub fn two_means(samples: &[(f64, f64)]) -> Option<TwoMeans> {
    let seconds: f64 = samples.iter().map(|s| s.1).sum();
    (seconds > 0.0).then(|| TwoMeans {
        weighted: samples.iter().map(|s| s.0 * s.1).sum::<f64>() / seconds,
        plain: samples.iter().map(|s| s.0).sum::<f64>() / samples.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("../../../../fixtures/golden/seed2_table2_wide.csv");
    const DERIVED: &str = include_str!("../../../../fixtures/golden/seed2_derived.csv");

    fn cells() -> Vec<(String, CellAverages)> {
        let rows = TABLE
            .lines()
            .skip(1)
            .map(|l| l.split(',').collect::<Vec<_>>());
        rows.map(|c| {
            let n = |i: usize| c[i].parse::<f64>().expect("number");
            let cell = CellAverages {
                copies: n(1) as u32,
                write_mb_per_s: n(2),
                writes_per_s: n(3),
                request_sectors: n(4),
                queue_length: n(5),
                util_percent: n(6),
            };
            (c[0].to_owned(), cell)
        })
        .collect()
    }

    #[test]
    fn every_derived_value_of_the_published_table() {
        let all = cells();
        let rate_of_one = |fs: &str, f: fn(&CellAverages, &Derived) -> f64| {
            let (_, c) = all
                .iter()
                .find(|(n, c)| n == fs && c.copies == 1)
                .expect("n = 1");
            f(c, &derive(c, 599.8).expect("written"))
        };
        let mut over = 0;
        for (line, (fs, c)) in DERIVED.lines().skip(1).zip(&all) {
            let want: Vec<&str> = line.split(',').collect();
            let d = derive(c, 599.8).expect("written");
            let got = [
                d.request_sectors,
                d.size_error_percent,
                d.request_kib,
                d.write_await_ms,
                d.service_ms,
                d.mb_per_busy_s,
                c.write_mb_per_s / rate_of_one(fs, |c, _| c.write_mb_per_s),
                d.elapsed_s,
                d.per_copy_mb_per_s,
                f64::from(u8::from(d.impossible_util)),
                d.mb_per_busy_s / rate_of_one(fs, |_, d| d.mb_per_busy_s),
            ];
            for (got, want) in got.iter().zip(&want[2..]) {
                let v: f64 = want.parse().expect("number");
                assert!(
                    (got - v).abs() <= 5.1e-5_f64.max(1e-9 * v.abs()),
                    "{fs} {}: {got} is not {want}",
                    c.copies
                );
            }
            over += usize::from(d.impossible_util);
            assert_eq!(
                doubts(c, None, 599.8)
                    .iter()
                    .any(|t| t.contains("impossible")),
                d.impossible_util
            );
        }
        assert_eq!(over, 9, "nine of the fifteen cells say more than 100 %");
    }

    #[test]
    fn plain_means_of_samples_are_noticed() {
        let doubtful: Vec<String> = cells()
            .into_iter()
            .filter(|(_, c)| {
                doubts(c, None, 599.8)
                    .iter()
                    .any(|t| t.contains("plain mean"))
            })
            .map(|(fs, c)| format!("{fs} {}", c.copies))
            .collect();
        assert_eq!(doubtful, ["FAT32 2", "FAT32 3", "FAT32 4", "FAT32 5"]);
        let m = two_means(&[(100.0, 2.0), (10.0, 0.5)]).expect("samples");
        assert_eq!((m.weighted, m.plain), (82.0, 55.0));
        assert_eq!(two_means(&[]), None);
    }
}
