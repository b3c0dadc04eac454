//! The figures that the Go and the Python package must compute as well, to the last digit: `fixtures/signal/figures.json`.
//!
//! `IOLENS_WRITE_FIXTURES=1` writes the file; without it the file must be what this library computes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use iolens_core::analysis::counters::io_ticks::Regime;
use iolens_core::analysis::counters::rates::{ClassRates, Delta};
use iolens_core::analysis::device::utilisation::{Estimator, combine};
use iolens_core::model::{CounterSample, DevId};
use iolens_observe::counters::parse_stat;
use serde_json::{Value, json};

/// One reading of a `stat` file.
#[derive(Debug, Clone)]
struct Reading {
    at_ns: i64,
    stat: String,
}

/// Two readings, and the kernel that counted.
struct Interval {
    what: &'static str,
    release: &'static str,
    hz: Option<u32>,
    iostats: Option<bool>,
    before: Reading,
    after: Reading,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The snapshots that were recorded ten times a second under load: uptime in seconds, then the text of the file.
fn recorded() -> Vec<Reading> {
    let text = fs::read_to_string(fixtures().join("import/stat-snapshots.txt")).unwrap();
    let reading = |line: &str| {
        let (seconds, stat) = line.trim().split_once(' ').unwrap();
        let at_ns = (seconds.parse::<f64>().unwrap() * 1e9).round() as i64;
        Reading {
            at_ns,
            stat: stat.to_owned(),
        }
    };
    text.lines().map(reading).collect()
}

fn interval(what: &'static str, before: (i64, &str), after: (i64, &str)) -> Interval {
    let reading = |(at_ns, stat): (i64, &str)| Reading {
        at_ns,
        stat: stat.to_owned(),
    };
    Interval {
        what,
        release: "6.12.0",
        hz: Some(250),
        iostats: Some(true),
        before: reading(before),
        after: reading(after),
    }
}

const MS: i64 = 1_000_000;

/// What recordings do not show.
fn special() -> Vec<Interval> {
    let idle = "10 0 80 5 7 1 56 9 0 1000 14";
    let mut cases = vec![
        interval("nothing happened", (0, idle), (1000 * MS, idle)),
        interval(
            "discards and flushes",
            (0, "10 0 80 5 7 1 56 9 0 1000 14 3 0 24 1 2 4"),
            (
                1_430 * MS,
                "110 20 4080 95 507 41 9056 909 5 1700 1014 9 0 424 7 12 31",
            ),
        ),
        interval(
            "shorter than a jiffy: rates, and no busy time",
            (0, idle),
            (1_234_567, "13 0 104 6 7 1 56 9 1 1000 15"),
        ),
        interval(
            "no time at all",
            (5, idle),
            (5, "11 0 88 6 7 1 56 9 0 1000 15"),
        ),
        interval(
            "plugged again",
            (0, idle),
            (1000 * MS, "1 0 8 1 0 0 0 0 0 1 1"),
        ),
        interval(
            "a counter fell alone",
            (0, idle),
            (1000 * MS, "9 0 180 5 17 1 156 19 0 1100 24"),
        ),
        interval(
            "milliseconds wrap at 2^32",
            (0, "10 0 80 4294967290 7 1 56 9 0 4294967000 14"),
            (1000 * MS, "30 0 880 10 7 1 56 9 0 104 4294967290"),
        ),
        interval(
            "more than the time that passed",
            (0, idle),
            (487 * MS, "600 0 80800 905 7 1 56 9 32 2000 18014"),
        ),
        interval(
            "four fields of an old partition",
            (0, "10 80 7 56"),
            (1000 * MS, "20 160 9 99"),
        ),
    ];
    cases.push(Interval {
        iostats: Some(false),
        ..interval("not accounted", (0, idle), (1000 * MS, idle))
    });
    cases
}

fn cases() -> Vec<Interval> {
    let readings = recorded();
    let kernels = [
        ("6.18.44-cloud-amd64", Some(250)),
        ("6.8.0", Some(1000)),
        ("6.1.0-30-amd64", Some(250)),
        ("5.4.0", None),
        ("4.18.0-553.el8", Some(1000)),
        ("3.10.0", Some(1000)),
        ("mainline", Some(250)),
    ];
    let mut cases = special();
    for (i, pair) in readings.windows(2).enumerate() {
        let (release, hz) = kernels[i % kernels.len()];
        cases.push(Interval {
            what: "recorded under load",
            release,
            hz,
            iostats: None,
            before: pair[0].clone(),
            after: pair[1].clone(),
        });
    }
    cases.push(Interval {
        what: "recorded under load, all of it",
        release: "6.18.44",
        hz: Some(250),
        iostats: Some(true),
        before: readings.first().unwrap().clone(),
        after: readings.last().unwrap().clone(),
    });
    cases
}

fn class(rates: &ClassRates) -> Value {
    json!({
        "ios": rates.n,
        "per_s": rates.per_s,
        "bytes_per_s": rates.kib_per_s.map(|kib| kib * 1024.0),
        "merges_per_s": rates.merges_per_s,
        "merged_percent": rates.merged_percent,
        "await_ms": rates.await_ms,
        "request_bytes": rates.request_kib.map(|kib| kib * 1024.0),
    })
}

fn figures(case: &Interval) -> Value {
    let sample = |r: &Reading| CounterSample {
        at_ns: r.at_ns,
        dev: DevId::new(8, 0),
        counters: parse_stat(r.stat.as_bytes()).counters,
    };
    let after = sample(&case.after);
    let delta = Delta::between(&sample(&case.before), &after, case.iostats);
    let estimator = Estimator {
        regime: Regime::of_release(case.release),
        hz: case.hz,
    };
    let rates = delta.rates();
    let busy = estimator.busy(&delta);
    json!({
        "state": delta.state,
        "read": class(&rates.read),
        "write": class(&rates.write),
        "discard": class(&rates.discard),
        "flush": class(&rates.flush),
        "await_ms": rates.await_ms,
        "request_bytes": rates.request_kib.map(|kib| kib * 1024.0),
        "in_flight_mean": rates.queue_size,
        "in_flight": after.counters.in_flight,
        "busy": {
            "percent": busy.busy_percent,
            "io_ticks_percent": busy.io_ticks_percent,
            "sigma_percent": busy.sigma_pp,
            "method": busy.method,
        },
    })
}

fn document() -> Value {
    let reading = |r: &Reading| json!({"at_ns": r.at_ns, "stat": r.stat});
    let intervals: Vec<Value> = cases()
        .iter()
        .map(|c| {
            json!({
                "what": c.what,
                "release": c.release,
                "hz": c.hz,
                "iostats": c.iostats,
                "before": reading(&c.before),
                "after": reading(&c.after),
                "figures": figures(c),
            })
        })
        .collect();
    let sets: [&[Option<f64>]; 5] = [
        &[Some(12.5)],
        &[Some(0.1), Some(99.7), Some(33.3)],
        &[Some(80.0), None],
        &[Some(60.0), Some(70.0), Some(80.0), Some(100.0)],
        &[],
    ];
    let combined: Vec<Value> = sets
        .iter()
        .map(|busy| json!({"busy_percent": busy, "combined": combine(busy, None)}))
        .collect();
    json!({"intervals": intervals, "combined": combined})
}

#[test]
fn the_figures_of_other_languages_are_these() {
    let file = fixtures().join("signal/figures.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("IOLENS_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        return fs::write(&file, text).unwrap();
    }
    // Texts, not values: numbers that are read need not be those that were written.
    let known = fs::read_to_string(&file).unwrap();
    let differs = text.lines().zip(known.lines()).find(|(a, b)| a != b);
    assert!(
        text == known,
        "IOLENS_WRITE_FIXTURES=1 writes {}: {differs:?}",
        file.display()
    );
}
