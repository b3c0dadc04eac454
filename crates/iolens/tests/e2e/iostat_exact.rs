//! `iolens iostat --hist --true` on a real device: statistics of single I/Os agree with the counters beside them.

use super::machine::*;
use serde_json::Value;
use std::sync::atomic::AtomicBool;

fn run_under_load(device: &LoopDevice, arguments: &[&str]) -> std::process::Output {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| read_in_sequence(device, 64, &stop));
        let out = {
            let _ends = StopOnDrop(&stop);
            run(&[&["iostat"], arguments, &[device.name()]].concat())
        };
        load.join().unwrap();
        out
    })
}

#[test]
fn percentiles_and_busy_time_stand_beside_the_counters() {
    let Some(()) = ebpf() else { return };
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    let out = run_under_load(
        &device,
        &["-dx", "--true", "--hist", "-o", "NDJSON", "0.5", "4"],
    );
    assert_eq!(out.status.code(), Some(0), "{}", scene(&out));
    let text = String::from_utf8_lossy(&out.stdout);
    let rows: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(rows.len(), 4, "{}", scene(&out));
    assert!(
        rows[0]["exact_source"].is_null() && rows[0]["busy_percent"].is_null(),
        "nothing was seen since boot"
    );
    for row in &rows[1..] {
        let of = |key: &str| {
            row[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {}", scene(&out)))
        };
        assert_eq!(row["exact_source"], "ebpf");
        let p50 = of("r_p50_us");
        let p99 = of("r_p99_us");
        let max = of("r_max_us");
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{}", scene(&out));
        assert!(row["w_p50_us"].is_null(), "there were no writes");
        let busy = of("busy_percent");
        let mean = of("inflight_mean");
        let most = of("inflight_max");
        // One reader at a time: busy time is the time in flight.
        assert!(
            busy > 0.0 && busy <= 100.0 && mean <= most,
            "{}",
            scene(&out)
        );
        if of("lost_ios") == 0.0 && most == 1.0 {
            assert!((busy - 100.0 * mean).abs() < 0.001, "{}", scene(&out));
            // The mean of the counters is between the extremes; they are kept in whole nanoseconds, shown in ms.
            assert!(of("read_await_ms") * 1e3 <= max + 1000.0, "{}", scene(&out));
        }
    }
}

#[test]
fn every_format_has_the_columns() {
    let Some(()) = ebpf() else { return };
    let Some(device) = LoopDevice::new(8) else {
        return;
    };
    let out = run_under_load(&device, &["-dxy", "--true", "--hist", "0.3", "1"]);
    let text = String::from_utf8_lossy(&out.stdout);
    let heading: Vec<&str> = text
        .lines()
        .find(|l| l.starts_with("Device"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        heading[heading.len() - 10..],
        [
            "%util", "%busy", "inflight", "infl-max", "r_p50", "r_p99", "r_max", "w_p50", "w_p99",
            "w_max"
        ]
    );
    let row: Vec<&str> = text
        .lines()
        .find(|l| l.starts_with("loop"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(row.len(), heading.len(), "{}", scene(&out));
    assert!(
        row[row.len() - 1] == "-" && row[row.len() - 6].parse::<f64>().is_ok_and(|v| v > 0.0),
        "{}",
        scene(&out)
    );
    let out = run_under_load(&device, &["-dy", "--true", "-o", "JSON", "0.3", "1"]);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let disk = &json["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    assert!(
        disk["busy_percent"].as_f64().is_some_and(|b| b > 0.0) && disk["tps"].is_number(),
        "{}",
        scene(&out)
    );
    assert!(disk["r_p50_us"].is_null(), "not requested");
    let out = run_under_load(&device, &["-dy", "--hist", "-o", "CSV", "0.3", "1"]);
    let text = String::from_utf8_lossy(&out.stdout);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    let at = lines[0].iter().position(|k| *k == "r_p99_us").unwrap();
    assert!(
        lines[1][at].parse::<f64>().is_ok_and(|v| v > 0.0),
        "{}",
        scene(&out)
    );
}
