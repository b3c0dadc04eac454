//! Writes the files `data` and `averages` of a cell, in the layout of the published experiment.

use std::fmt::Write as _;

use crate::statistics::copies::two_means;

use crate::copies::{CopyResult, CopySample};

/// All samples in order of time.
pub fn data_file(r: &CopyResult) -> String {
    let mut out = String::from(
        "time_s seconds rMB/s r/s wMB/s w/s avgrq-sz avgqu-sz %util %user %nice %system %iowait %steal %idle\n",
    );
    for s in &r.samples {
        let _ = write!(
            out,
            "{:.3} {:.3} {:.3} {:.3} {:.3} {:.3} {} {:.3} {:.3}",
            s.at_s,
            s.seconds,
            s.read_mb_per_s,
            s.reads_per_s,
            s.write_mb_per_s,
            s.writes_per_s,
            dash(s.request_sectors),
            s.queue_length,
            s.util_percent
        );
        for c in s.cpu_percent {
            let _ = write!(out, " {c:.2}");
        }
        out.push('\n');
    }
    out
}

/// The value with three decimals, or `-`.
pub fn dash(v: Option<f64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"))
}

/// A metric of a sample; `None` if there was no I/O.
pub type OfSample = fn(&CopySample) -> Option<f64>;

/// Name and value of each metric of a sample.
pub const SAMPLED: [(&str, OfSample); 13] = [
    ("rMB/s", |s| Some(s.read_mb_per_s)),
    ("r/s", |s| Some(s.reads_per_s)),
    ("wMB/s", |s| Some(s.write_mb_per_s)),
    ("w/s", |s| Some(s.writes_per_s)),
    ("avgrq-sz", |s| s.request_sectors),
    ("avgqu-sz", |s| Some(s.queue_length)),
    ("%util", |s| Some(s.util_percent)),
    ("%user", |s| Some(s.cpu_percent[0])),
    ("%nice", |s| Some(s.cpu_percent[1])),
    ("%system", |s| Some(s.cpu_percent[2])),
    ("%iowait", |s| Some(s.cpu_percent[3])),
    ("%steal", |s| Some(s.cpu_percent[4])),
    ("%idle", |s| Some(s.cpu_percent[5])),
];

/// Both means of each metric: weighted by time, and plain over samples, as logs of iostat are usually averaged.
pub fn averages_of(r: &CopyResult) -> Vec<(&'static str, Option<f64>, Option<f64>)> {
    SAMPLED
        .iter()
        .map(|(name, f)| (*name, f(&r.whole), plain_mean(&r.samples, *f)))
        .collect()
}

fn plain_mean(samples: &[CopySample], f: OfSample) -> Option<f64> {
    let values: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|s| Some((f(s)?, s.seconds)))
        .collect();
    two_means(&values).map(|m| m.plain)
}

/// Content of the file `averages`.
pub fn averages_file(r: &CopyResult) -> String {
    let mut out = String::from("metric weighted plain_mean_of_samples\n");
    for (name, weighted, plain) in averages_of(r) {
        let _ = writeln!(out, "{name} {} {}", dash(weighted), dash(plain));
    }
    let _ = writeln!(
        out,
        "elapsed_s {:.3} -\ndurable_s {:.3} -",
        r.elapsed_s, r.durable_s
    );
    out
}
