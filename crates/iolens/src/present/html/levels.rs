//! Converts levels and distributions of the overview to the form that the page reads.

use std::collections::BTreeMap;

use iolens_core::analysis::overview::{Detail, Distributions, Level, SlotQuantiles, Stage};
use iolens_core::model::Class;
use serde::Serialize;

use super::pack::{column, list, log_code};

/// A stretch of time cut into `slots` slots of `step_ns`: slot `i` is `[from_ns + i * step_ns, from_ns + (i + 1) * step_ns)`. An
/// I/O belongs to the slot in which it completes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LevelBlock {
    from_ns: i64,
    step_ns: i64,
    /// End of the last slot, which may be cut short.
    to_ns: i64,
    /// How many slots.
    slot_count: usize,
    /// Packed columns by name, each `slots` items long; one that is missing is unknown, not zero. `ios`: completions, `sec`:
    /// sectors of 512 bytes moved (spread from issue to completion); latencies from the block layer's start to done as log
    /// codes of nanoseconds, absent in slots without I/O. `busy`: thousandths of the slot with at least one I/O in flight.
    /// `q_mean`: time-weighted mean of I/Os in flight as log code of thousandths, `q_max` their maximum.
    cols: BTreeMap<&'static str, String>,
}

impl LevelBlock {
    /// Converts `level`. Time after `end_ns` was not analysed.
    pub(super) fn new(level: &Level, end_ns: i64) -> LevelBlock {
        let to_ns = (level.from_ns + level.counts.len() as i64 * level.step_ns).min(end_ns);
        LevelBlock {
            from_ns: level.from_ns,
            step_ns: level.step_ns,
            to_ns,
            slot_count: level.counts.len(),
            cols: columns(level, to_ns),
        }
    }
}

fn columns(level: &Level, to_ns: i64) -> BTreeMap<&'static str, String> {
    let mut cols = BTreeMap::new();
    for (class, name) in [
        (Class::Read, "r_ios"),
        (Class::Write, "w_ios"),
        (Class::Discard, "d_ios"),
        (Class::Flush, "f_ios"),
    ] {
        let ios = level.counts.iter().map(|c| Some(c.ios[class as usize]));
        cols.insert(name, column(ios));
    }
    // Flushes carry no bytes.
    for (class, name) in [
        (Class::Read, "r_sec"),
        (Class::Write, "w_sec"),
        (Class::Discard, "d_sec"),
    ] {
        let sectors = level.counts.iter().map(|c| Some(c.sectors[class as usize]));
        cols.insert(name, column(sectors));
    }
    if level.detail == Detail::Events {
        let longest = level.counts.iter().map(|c| c.flush_max_ns.map(ns_code));
        cols.insert("f_max", column(longest));
    }
    latency_columns(
        level,
        Class::Read,
        ["r_mean", "r_p50", "r_p90", "r_p99", "r_max"],
        &mut cols,
    );
    latency_columns(
        level,
        Class::Write,
        ["w_mean", "w_p50", "w_p90", "w_p99", "w_max"],
        &mut cols,
    );
    time_columns(level, to_ns, &mut cols);
    cols
}

fn ns_code(ns: i64) -> u64 {
    log_code(ns as f64)
}

/// Gets one quantile of a slot, in nanoseconds.
type QuantileOf = fn(&SlotQuantiles) -> i64;

/// Adds latency columns; `names` are those of mean, p50, p90, p99 and maximum.
fn latency_columns(
    level: &Level,
    class: Class,
    names: [&'static str; 5],
    cols: &mut BTreeMap<&'static str, String>,
) {
    let [mean, p50, p90, p99, max] = names;
    let latencies = level.counts.iter().map(|c| c.latency[class as usize]);
    let means = latencies.clone().map(|l| Some(ns_code(l?.mean_ns)));
    cols.insert(mean, column(means));
    if level.detail != Detail::Events {
        return;
    }
    let quantiles: [(&'static str, QuantileOf); 4] = [
        (p50, |q| q.p50_ns),
        (p90, |q| q.p90_ns),
        (p99, |q| q.p99_ns),
        (max, |q| q.max_ns),
    ];
    for (name, of) in quantiles {
        let codes = latencies.clone().map(|l| Some(ns_code(of(&l?.quantiles?))));
        cols.insert(name, column(codes));
    }
}

fn time_columns(level: &Level, to_ns: i64, cols: &mut BTreeMap<&'static str, String>) {
    if level.detail == Detail::SummedCounters {
        return;
    }
    let mut busy = [const { Vec::new() }; 3];
    let mut mean = Vec::new();
    let mut max = Vec::new();
    for (i, t) in level.time.iter().enumerate() {
        // Shares refer to the actual length of a slot; the last one may be cut.
        let from_ns = level.from_ns + i as i64 * level.step_ns;
        let length_ns = (to_ns - from_ns).clamp(1, level.step_ns) as f64;
        for (column, busy_ns) in busy.iter_mut().zip(t.busy_ns) {
            column.push(Some((1000.0 * busy_ns as f64 / length_ns).round() as u64));
        }
        mean.push(Some(log_code(1000.0 * t.area_ns as f64 / length_ns)));
        max.push(Some(u64::from(t.max)));
    }
    let [all, read, write] = busy.map(column);
    cols.insert("busy", all);
    cols.insert("q_mean", column(mean));
    // Counters do not have the number of I/Os in flight by class, nor its maximum.
    if level.detail == Detail::Events {
        cols.insert("busy_r", read);
        cols.insert("busy_w", write);
        cols.insert("q_max", column(max));
    }
}

/// Over the whole recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DistributionsBlock {
    /// Histograms by class and stage (`total`, `queue`, `device`), 8 buckets per octave of ns: packed lists of pairs: distance
    /// to the last filled bucket (the first: to 0), count.
    latency: BTreeMap<&'static str, BTreeMap<&'static str, String>>,
    /// 50th, 90th and 99th percentile (nearest rank) in microseconds by class and stage: the numbers of the tables.
    percentiles_us: BTreeMap<&'static str, BTreeMap<&'static str, [f64; 3]>>,
    /// Request sizes by class: bucket `k` holds `[2^k, 2^(k+1))` bytes; triples of distance, I/Os, sectors.
    size: BTreeMap<&'static str, String>,
    /// Share of time with `k` I/Os in flight (`all`, `read`, `write`), exactly below 128 and thinned to 1/128 above; pairs of
    /// distance, parts of the time in 1e-9.
    concurrency_shares: BTreeMap<&'static str, String>,
}

/// The parts of the latency, with their keys.
const STAGES: [(Stage, &str); 3] = [
    (Stage::Total, "total"),
    (Stage::Queue, "queue"),
    (Stage::Device, "device"),
];

/// The packed latency histograms of one class, by part of the latency; parts without I/Os are left out.
fn packed_latencies(d: &Distributions, class: Class) -> BTreeMap<&'static str, String> {
    let mut packed = BTreeMap::new();
    for (stage, name) in STAGES {
        let buckets = d.latency_buckets(class, stage);
        if !buckets.is_empty() {
            let entries = buckets.into_iter().map(|(k, n)| (u64::from(k), [n]));
            packed.insert(name, apart(entries));
        }
    }
    packed
}

impl DistributionsBlock {
    pub(super) fn new(d: &Distributions) -> DistributionsBlock {
        let mut block = DistributionsBlock {
            latency: BTreeMap::new(),
            percentiles_us: BTreeMap::new(),
            size: BTreeMap::new(),
            concurrency_shares: BTreeMap::new(),
        };
        for class in Class::ALL {
            let latency = packed_latencies(d, class);
            if !latency.is_empty() {
                block.latency.insert(class.name(), latency);
                let mut percentiles = BTreeMap::new();
                for ((_, name), values) in STAGES.into_iter().zip(d.percentiles_us[class as usize])
                {
                    if let Some(values) = values {
                        percentiles.insert(name, values);
                    }
                }
                block.percentiles_us.insert(class.name(), percentiles);
            }

            let filled = d.size[class as usize]
                .iter()
                .enumerate()
                .filter(|(_, b)| b.ios > 0);
            let sizes = apart(filled.map(|(k, b)| (k as u64, [b.ios, b.sectors])));
            if !sizes.is_empty() {
                block.size.insert(class.name(), sizes);
            }
        }

        for (name, levels) in ["all", "read", "write"].into_iter().zip(&d.concurrency) {
            let total: i64 = levels.iter().sum();
            if total > 0 {
                let shares = shares(levels, total).into_iter();
                let packed = apart(shares.map(|(k, share)| (k, [share])));
                block.concurrency_shares.insert(name, packed);
            }
        }
        block
    }
}

/// Levels with their share of `total` in parts of 1e-9. Levels from 128 on are thinned to 1/128 (the middle stands for
/// its neighbours), so that a deep queue does not fill the page.
fn shares(levels: &[i64], total: i64) -> Vec<(u64, u64)> {
    let mut out: BTreeMap<u64, i64> = BTreeMap::new();
    for (k, ns) in levels.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        let grain = 1u64 << (k as u64 / 128).checked_ilog2().unwrap_or(0);
        *out.entry(k as u64 / grain * grain + grain / 2).or_default() += ns;
    }
    out.into_iter()
        .map(|(k, ns)| (k, (1e9 * ns as f64 / total as f64).round() as u64))
        .collect()
}

/// Encodes ascending buckets as distances to the previous one, each followed by its values.
fn apart<const N: usize>(buckets: impl IntoIterator<Item = (u64, [u64; N])>) -> String {
    let mut out = Vec::new();
    let mut last = 0;
    for (k, numbers) in buckets {
        out.push(k - last);
        out.extend(numbers);
        last = k;
    }
    list(out)
}
