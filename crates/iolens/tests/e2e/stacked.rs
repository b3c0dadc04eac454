//! A stack of devices: each layer is recorded, sums count an I/O once.

use std::process::Command;

use serde_json::Value;

use super::machine::{LoopDevice, ebpf, iolens, run, scene};

/// A linear mapping over a whole device; removed when dropped.
struct Mapped {
    name: String,
    kernel_name: String,
}

impl Mapped {
    fn over(device: &LoopDevice, mib: u64) -> Option<Mapped> {
        let name = format!("iolens-e2e-{}", std::process::id());
        let table = format!("0 {} linear {} 0", mib * 2048, device.path.display());
        let made = Command::new("dmsetup")
            .args(["create", &name, "--table", &table])
            .output();
        if !made.as_ref().is_ok_and(|o| o.status.success()) {
            eprintln!(
                "SKIP: no device mapper: {:?}",
                made.map(|o| String::from_utf8_lossy(&o.stderr).into_owned())
            );
            return None;
        }
        let minor = Command::new("dmsetup")
            .args(["info", "-c", "--noheadings", "-o", "minor", &name])
            .output()
            .unwrap();
        let kernel_name = format!("dm-{}", String::from_utf8_lossy(&minor.stdout).trim());
        Some(Mapped { name, kernel_name })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let removed = Command::new("dmsetup")
            .args(["remove", "--retry", &self.name])
            .status();
        if !removed.is_ok_and(|s| s.success()) {
            eprintln!("{} could not be removed", self.name);
        }
    }
}

#[test]
fn sums_count_an_io_through_a_stack_once_and_say_so() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let Some(mapped) = Mapped::over(&device, 16) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.iolens");
    let input = format!("if=/dev/mapper/{}", mapped.name);
    let out = iolens(&[
        "record",
        "-q",
        "-o",
        path.to_str().unwrap(),
        "-d",
        device.name(),
        "-d",
        &mapped.kernel_name,
        "--",
    ])
    .args([
        "dd",
        &input,
        "of=/dev/null",
        "bs=4k",
        "count=500",
        "iflag=direct",
        "status=none",
    ])
    .output()
    .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    let reads = |by: &str| -> (Vec<(Value, f64)>, String) {
        let out = run(&[
            "zoom",
            path.to_str().unwrap(),
            "--by",
            by,
            "--step",
            "1h",
            "--format",
            "json",
        ]);
        let rows: Value = serde_json::from_slice(&out.stdout).unwrap();
        let ios =
            |r: &Value| (r["r_per_s"].as_f64().unwrap() * r["slot_s"].as_f64().unwrap()).round();
        let rows = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|r| (r[by].clone(), ios(r)))
            .collect();
        (rows, String::from_utf8(out.stderr).unwrap())
    };
    let (layers, said) = reads("device");
    let of = |name: &str| {
        layers
            .iter()
            .find(|(d, _)| d == name)
            .map_or(0.0, |(_, n)| *n)
    };
    let upper = of(&mapped.kernel_name);
    let lower = of(device.name());
    assert!(
        upper >= 490.0 && lower >= 490.0,
        "both layers are recorded: {layers:?}"
    );
    assert!(!said.contains("left out"), "{said}");
    for by in ["all", "process"] {
        let (rows, said) = reads(by);
        let sum: f64 = rows.iter().map(|(_, n)| n).sum();
        assert_eq!(sum, lower, "--by {by}: {rows:?}");
        assert!(
            said.contains("left out")
                && said.contains(&mapped.kernel_name)
                && said.contains(device.name()),
            "{said}"
        );
    }
    let text = run(&["report", path.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    let mut head = text.lines().skip(1);
    let ios = head.next().unwrap();
    let layers = head.next().unwrap();
    assert!(ios.starts_with(&format!("{lower} I/Os, ")), "{ios}");
    assert!(
        layers.contains(&format!(
            "not in them: {} ({upper} I/Os)",
            mapped.kernel_name
        )),
        "{layers}"
    );
}

/// A loop device over a file: sysfs lists no disk under it, and the file's disk has the same reads.
#[test]
fn reads_of_a_loop_device_over_a_file_count_on_the_files_disk() {
    let Some(()) = ebpf() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = dir.path().join("disk.img");
    let filled = Command::new("dd")
        .arg(format!("of={}", file.display()))
        .args([
            "if=/dev/urandom",
            "bs=1M",
            "count=8",
            "conv=fsync",
            "status=none",
        ])
        .status();
    assert!(filled.unwrap().success());
    let on = Command::new("findmnt")
        .args(["-n", "-o", "SOURCE", "-T", dir.path().to_str().unwrap()])
        .output();
    if !on.as_ref().is_ok_and(|o| o.stdout.starts_with(b"/dev/")) {
        eprintln!("SKIP: /var/tmp is on no block device: {on:?}");
        return;
    }
    let Some(device) = LoopDevice::over(file, &["--direct-io=on"]) else {
        return;
    };
    let path = dir.path().join("r.iolens");
    let input = format!("if={}", device.path.display());
    let out = iolens(&["record", "-q", "-o", path.to_str().unwrap(), "--"])
        .args([
            "dd",
            &input,
            "of=/dev/null",
            "bs=4k",
            "count=500",
            "iflag=direct",
            "status=none",
        ])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", scene(&out));
    let out = run(&["report", path.to_str().unwrap(), "--json"]);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let layers = &json["recording"]["layers"];
    let left_out = layers["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .find(|l| l["device"] == device.name());
    let upper = left_out.unwrap_or_else(|| panic!("{layers}"))["ios"]
        .as_u64()
        .unwrap();
    assert!(upper >= 490, "{layers}");
    assert!(
        json["recording"]["ios"].as_u64().unwrap() >= layers["ios"].as_u64().unwrap() + upper,
        "{layers}"
    );
    let set = &json["sets"][0];
    assert!(
        !set["device_names"]
            .as_array()
            .unwrap()
            .contains(&device.name().into()),
        "{}",
        set["device_names"]
    );
    let out = run(&["zoom", path.to_str().unwrap(), "--step", "1h"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("once, on the bottom layer")
            && said.contains(&format!("{} (on ", device.name())),
        "{said}"
    );
}
