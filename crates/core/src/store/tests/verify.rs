//! Verification finds every flipped bit, in logged tables and in whole tables.

use std::fs;
use std::path::Path;

use super::support::{disowned, files, io, ios, meta, record, record_all_tables, small_segments};
use crate::model::{
    Actor, ActorSums, BioStages, Class, CpuShares, DevId, Device, IntervalRates, IoSums, Severity,
    StoredFinding,
};
use crate::private::Access;
use crate::rollup::{RollupBuilder, minutes};
use crate::store::{
    RecordingWriter, StoreError, Verification, WriterOptions, put_finding, read_rollups, verify,
    write_missing_actors, write_missing_rollups, write_rates, write_stages,
};

/// Adds all whole tables.
fn add_whole_tables(dir: &Path) {
    let mut builder = RollupBuilder::default();
    builder.push_ios(&ios(0..120));
    let seconds = builder.finish();
    write_missing_rollups(dir, Access::OWNER, [&seconds, &minutes(&seconds), &[]]).expect("writes");
    let sums = IoSums {
        ios: 120,
        bytes: 120 * 4096,
        queue_sum_ns: Some(7),
        device_sum_ns: 8,
    };
    let actor = ActorSums {
        step_s: 10,
        at_ns: 0,
        dev: io(0).dev,
        class: Class::Read,
        actor: Actor::Process(Some(1000)),
        name: Some("fio".to_owned()),
        sums,
    };
    write_missing_actors(dir, Access::OWNER, [&[actor], &[]]).expect("writes");
    let finding = StoredFinding {
        from_ns: 0,
        to_ns: 1000,
        open: false,
        kind: "stall".into(),
        severity: Severity::Critical,
        device: None,
        summary: "a stall".to_owned(),
        evidence: serde_json::Map::new(),
    };
    put_finding(dir, Access::OWNER, &finding).expect("writes");
    let stages = BioStages {
        done_ns: 5,
        dev: io(0).dev,
        q2g_ns: None,
        g2i_ns: None,
        q2m_ns: None,
        i2d_ns: None,
        m2d_ns: None,
        d2c_ns: 3,
        q2c_ns: None,
    };
    write_stages(dir, &[stages], Access::OWNER).expect("writes");
    let rates = [IntervalRates::new(0, 100, io(0).dev)].iter().collect();
    let cpu = CpuShares {
        to_ns: 100,
        ..CpuShares::default()
    };
    write_rates(dir, &rates, &[cpu], Access::OWNER).expect("writes");
    // The table of devices comes with a recording that has one.
    let other = dir.with_file_name("devices.iolens");
    let options = WriterOptions {
        devices_table: true,
        ..WriterOptions::default()
    };
    let mut described = meta();
    described.devices = vec![Device::named("sda", DevId::new(8, 0))];
    let writer = RecordingWriter::create(&other, described, options).expect("creates");
    writer.finish(1, Default::default()).expect("finishes");
    fs::create_dir(dir.join("devices")).expect("makes");
    let name = "devices/000001.parquet";
    fs::copy(other.join(name), dir.join(name)).expect("copies");
}

fn verified(dir: &Path) -> Verification {
    verify(dir).expect("damage is no error")
}

#[test]
fn every_flipped_bit_is_found_in_every_table() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record_all_tables(&dir, true);
    add_whole_tables(&dir);
    let whole = verified(&dir);
    assert_eq!(whole.damage, [""; 0]);
    assert_eq!((whole.is_open, whole.files_without_checksums), (false, 0));
    let all = files(&dir);
    assert_eq!(whole.files as usize, all.len(), "every file is read");
    let tables: std::collections::BTreeSet<_> =
        all.iter().filter_map(|p| p.parent()?.file_name()).collect();
    assert!(tables.len() >= 11, "{tables:?}");
    for path in &all {
        let bytes = fs::read(path).expect("reads");
        let mut bad = bytes.clone();
        // The step is not a divisor of any structure's size; testing all bits would take minutes.
        for at in (0..bytes.len()).step_by(13) {
            let bit = 1 << (at / 13 % 8);
            bad[at] ^= bit;
            fs::write(path, &bad).expect("writes");
            let found = verified(&dir).damage;
            let place = path.display();
            assert!(
                !found.is_empty(),
                "{place}: bit {bit} of byte {at} is not found"
            );
            bad[at] ^= bit;
        }
        fs::write(path, &bytes).expect("writes");
    }
    assert_eq!(verified(&dir), whole);
}

#[test]
fn a_flipped_bit_in_a_whole_table_never_becomes_a_row() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record_all_tables(&dir, true);
    add_whole_tables(&dir);
    let read = || {
        let mut rows = Vec::new();
        let warnings = read_rollups(&dir, 1, 0..i64::MAX, |r| rows.push(r)).expect("readable");
        (rows, warnings.len())
    };
    let (whole, none) = read();
    assert!(!whole.is_empty() && none == 0);
    let path = dir.join("rollup/1s-000002.parquet");
    let bytes = fs::read(&path).expect("reads");
    for at in (0..bytes.len()).step_by(5) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at / 5 % 8);
        fs::write(&path, &bad).expect("writes");
        assert_eq!(read(), (Vec::new(), 1), "byte {at}");
    }
}

#[test]
fn an_unfinished_recording_is_open_and_its_logs_are_checked() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record_all_tables(&dir, false);
    let whole = verified(&dir);
    assert_eq!((whole.damage.as_slice(), whole.is_open), (&[][..], true));
    let logs = files(&dir.join("wal"));
    for path in logs.iter().filter(|p| !p.ends_with("reserve")) {
        let bytes = fs::read(path).expect("reads");
        for at in (0..bytes.len()).step_by(7) {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at / 7 % 8);
            fs::write(path, &bad).expect("writes");
            let found = verified(&dir).damage;
            assert!(!found.is_empty(), "{}: byte {at}", path.display());
        }
        fs::write(path, &bytes).expect("writes");
    }
}

#[test]
fn files_without_checksums_are_decoded() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 300, small_segments(1000));
    add_whole_tables(&dir);
    for name in ["io/000001.parquet", "rollup/1s-000002.parquet"] {
        let path = dir.join(name);
        let bytes = disowned(fs::read(&path).expect("reads"));
        fs::write(&path, &bytes).expect("writes");
        assert_eq!(verified(&dir).damage, [""; 0], "{name}");
        let mut bad = bytes.clone();
        // The header of the first page.
        bad[4..12].fill(0xff);
        fs::write(&path, &bad).expect("writes");
        let found = verified(&dir).damage;
        assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
        fs::write(&path, &bytes).expect("writes");
    }
    assert_eq!(verified(&dir).files_without_checksums, 2);
}

#[test]
fn tables_are_checked_without_a_description() {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("r.iolens");
    record(&dir, 300, small_segments(100));
    for name in ["meta.json", "meta.json.bak"] {
        fs::write(dir.join(name), "{").expect("writes");
    }
    let path = dir.join("io/000002.parquet");
    let mut bytes = fs::read(&path).expect("reads");
    bytes[100] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let found = verified(&dir).damage;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("meta.json") && found[1].contains("io/000002.parquet"));
    let nothing = verify(&tmp.path().join("nothing"));
    assert!(matches!(nothing, Err(StoreError::NotARecording { .. })));
}
