#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::path::Path;

use iolens_core::model::{
    CounterSample, CpuShares, DevId, DiskCounters, Inode, IntervalRates, Io, LossReason, Lost, Op,
    PressureSample, Source,
};
use iolens_core::store::{IoColumns, read_cpu, read_rates, verify, write_rates};
use proptest::prelude::*;

use super::output::{Interrupt, write_whole};
use super::parts::{CopiedPart, CopiedParts, in_order, write_parts};
use super::repair::{DamagedRecording, Repaired, repair};
use super::*;

const S: i64 = 1_000_000_000;
const START_UNIX_NS: i64 = 1_795_000_000 * S;

fn meta(start_unix_ns: i64) -> RecordingMeta {
    let mut meta = RecordingMeta::new(Source::Ebpf, start_unix_ns);
    meta.host = Some("h".to_owned());
    meta.devices = vec![Device::named("sda", DevId::new(8, 0))];
    meta
}

fn io(done_ns: i64) -> Io {
    Io {
        sector: Some(done_ns % 4096),
        tgid: Some((done_ns % 3) as i32),
        ..Io::new(done_ns, DevId::new(8, 0), Op::READ, 4096, Some(7), 100)
    }
}

/// A recording of these I/Os and losses with a counter sample, a name and a mark every second.
fn record(path: &Path, done: &[i64], losses: &[(i64, i64)], end_ns: i64) -> Recording {
    let options = WriterOptions {
        segment_rows: 50,
        ..WriterOptions::default()
    };
    let mut writer = RecordingWriter::create(path, meta(START_UNIX_NS), options).unwrap();
    for at_ns in (0..end_ns).step_by(S as usize) {
        let inode = Inode {
            fs_dev: 8,
            ino: at_ns / S % 3,
            generation: None,
        };
        let name = Name {
            at_ns,
            of: Named::File(inode),
            text: format!("/file {}", at_ns / S / 4),
        };
        writer.push(&Observation::Name(name)).unwrap();
        let mark = Mark {
            at_ns,
            kind: "phase".to_owned(),
            text: at_ns.to_string(),
        };
        writer.push(&Observation::Mark(mark)).unwrap();
        let counters = DiskCounters {
            in_flight: (at_ns / S) as u64,
            ..DiskCounters::default()
        };
        let dev = DevId::new(8, 0);
        let sample = CounterSample {
            at_ns,
            dev,
            counters,
        };
        writer.push(&Observation::Counters(sample)).unwrap();
    }
    for (from_ns, to_ns) in losses {
        let lost = Lost {
            ios: Some(3),
            ..Lost::somewhere(*from_ns, *to_ns, LossReason::RingFull)
        };
        writer.push(&Observation::Lost(lost)).unwrap();
    }
    for chunk in done.chunks(20) {
        let ios: Vec<Io> = chunk.iter().map(|ns| io(*ns)).collect();
        writer.push_ios(&ios).unwrap();
        writer.tick(chunk[0]).unwrap();
    }
    writer.finish(end_ns, RecorderCost::default()).unwrap();
    Recording::open(path).unwrap()
}

fn copy(to: &Path, parts: Vec<CopiedPart>) -> (Recording, CopiedParts) {
    let copied = write_whole(to, "testing", |to, interrupt| {
        write_parts(to, &parts, Access::OWNER, interrupt)
    })
    .unwrap();
    assert_eq!(verify(to).unwrap().damage, [""; 0]);
    (Recording::open(to).unwrap(), copied)
}

fn part(recording: &Path, range: Range<i64>) -> CopiedPart {
    CopiedPart {
        recording: Recording::open(recording).unwrap(),
        range,
    }
}

/// What a recording holds, in Unix time. Losses: how many end when, and how many I/Os they are.
#[derive(Debug, PartialEq)]
struct Held {
    span: (i64, i64),
    ios: Vec<Io>,
    counters: Vec<(i64, u64)>,
    marks: Vec<(i64, String)>,
    names: BTreeMap<(i64, String), i64>,
    losses: Vec<(i64, Option<i64>)>,
}

fn held(recording: &Recording) -> Held {
    let start_ns = recording.meta().start_unix_ns;
    let mut held = Held {
        span: (start_ns, start_ns + recording.end_ns()),
        ios: Vec::new(),
        counters: Vec::new(),
        marks: Vec::new(),
        names: BTreeMap::new(),
        losses: Vec::new(),
    };
    for batch in recording.ios(i64::MIN..i64::MAX, IoColumns::ALL) {
        held.ios.extend(batch.unwrap());
    }
    held.ios.iter_mut().for_each(|io| io.done_ns += start_ns);
    for o in recording.observations(i64::MIN..i64::MAX) {
        match o.unwrap() {
            Observation::Counters(c) => held
                .counters
                .push((c.at_ns + start_ns, c.counters.in_flight)),
            Observation::Mark(m) => held.marks.push((m.at_ns + start_ns, m.text)),
            Observation::Name(n) => {
                let Named::File(inode) = n.of else {
                    panic!("no file")
                };
                *held.names.entry((inode.ino, n.text)).or_default() += 1;
            }
            Observation::Lost(l) => held.losses.push((l.to_ns + start_ns, l.ios)),
            _ => {}
        }
    }
    held
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_parts_of_a_recording_merged_are_the_recording(
        mut done in prop::collection::vec(0..20 * S, 0..300),
        losses in prop::collection::vec((0..20 * S, 0..3 * S), 0..6),
        mut cuts in prop::collection::vec(1..20 * S, 1..4),
        at_io: bool,
    ) {
        done.sort_unstable();
        if at_io && let Some(ns) = done.get(done.len() / 2).filter(|ns| **ns > 0) {
            cuts.push(*ns);
        }
        cuts.sort_unstable();
        cuts.dedup();
        let losses: Vec<(i64, i64)> = losses
            .into_iter()
            .map(|(from_ns, length_ns)| (from_ns, (from_ns + length_ns).min(20 * S)))
            .collect();
        let tmp = tempfile::tempdir().unwrap();
        let whole = tmp.path().join("whole");
        let original = held(&record(&whole, &done, &losses, 20 * S));
        let mut parts = Vec::new();
        let mut from_ns = 0;
        for to_ns in cuts.iter().copied().chain([i64::MAX]) {
            let to = tmp.path().join(format!("part-{}", parts.len()));
            let (recording, copied) = copy(&to, vec![part(&whole, from_ns..to_ns)]);
            prop_assert_eq!(Some(recording.ios_stored()), copied.ios);
            prop_assert_eq!(recording.meta().start_unix_ns, START_UNIX_NS + from_ns);
            parts.push(CopiedPart::whole(recording));
            from_ns = to_ns;
        }
        // Each loss counts in one of them.
        let lost: usize = parts.iter().map(|p| held(&p.recording).losses.len()).sum();
        prop_assert_eq!(lost, original.losses.len());
        parts.reverse();
        let parts = in_order(parts).unwrap();
        let (merged, _) = copy(&tmp.path().join("merged"), parts);
        let merged = held(&merged);
        prop_assert_eq!(&merged.ios, &original.ios);
        prop_assert_eq!(merged, original);
    }
}

#[test]
fn a_gap_between_recordings_is_a_loss_of_unknown_size() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S, 2 * S, 8 * S], &[], 10 * S);
    let parts = vec![part(&whole, 0..3 * S), part(&whole, 7 * S..i64::MAX)];
    let (copy, copied) = copy(&tmp.path().join("copy"), parts);
    assert_eq!((copied.ios, copied.length_ns), (Some(3), 10 * S));
    let lost = copy.lost(0..i64::MAX);
    assert_eq!(lost.len(), 1, "{lost:?}");
    let gap = (lost[0].from_ns, lost[0].to_ns, lost[0].ios, lost[0].reason);
    assert_eq!(gap, (3 * S, 7 * S, None, LossReason::NotRecorded));
}

/// Begin and end of each gap, in its own time.
fn gaps(recording: &Recording) -> Vec<(i64, i64)> {
    let mut gaps = Vec::new();
    for lost in recording.lost(i64::MIN..i64::MAX) {
        assert_eq!((lost.ios, lost.reason), (None, LossReason::NotRecorded));
        gaps.push((lost.from_ns, lost.to_ns));
    }
    gaps
}

/// A part of a recording, cut into a recording `name` beside it.
fn cut_of(recording: &Path, name: &str, range: Range<i64>) -> Recording {
    let (cut, copied) = copy(
        &recording.with_file_name(name),
        vec![part(recording, range)],
    );
    assert_eq!(copied.late_losses, 0);
    cut
}

#[test]
fn a_gap_is_missing_in_each_part_that_has_some_of_it() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S, 2 * S, 8 * S], &[], 10 * S);
    let around = vec![part(&whole, 0..3 * S), part(&whole, 7 * S..i64::MAX)];
    let with_gap = tmp.path().join("with-gap");
    copy(&with_gap, around);
    let first = cut_of(&with_gap, "first", 0..5 * S);
    let inside = cut_of(&with_gap, "inside", 5 * S..6 * S);
    let last = cut_of(&with_gap, "last", 6 * S..i64::MAX);
    assert_eq!(gaps(&first), [(3 * S, 5 * S)]);
    assert_eq!(gaps(&inside), [(0, S)]);
    assert_eq!(gaps(&last), [(0, S)]);
    // A part that begins where the gap ends has nothing of it.
    let before = cut_of(&with_gap, "before", 0..7 * S);
    let after = cut_of(&with_gap, "after", 7 * S..i64::MAX);
    assert_eq!(gaps(&before), [(3 * S, 7 * S)]);
    assert!(gaps(&after).is_empty());

    let parts = [first, inside, last].map(CopiedPart::whole);
    let (merged, _) = copy(&tmp.path().join("merged"), Vec::from(parts));
    assert_eq!(
        gaps(&merged),
        [(3 * S, 5 * S), (5 * S, 6 * S), (6 * S, 7 * S)]
    );
    assert_eq!(merged.ios_stored(), 3);
}

/// Begin and end of each row of a recording's imported tables of devices and of processors, in seconds of its own time.
fn table_rows(recording: &Path) -> [Vec<(i64, i64)>; 2] {
    let rates = read_rates(recording).unwrap();
    let cpu = read_cpu(recording).unwrap();
    [
        rates.iter().map(|r| (r.from_ns / S, r.to_ns / S)).collect(),
        cpu.iter().map(|r| (r.from_ns / S, r.to_ns / S)).collect(),
    ]
}

#[test]
fn a_row_of_a_table_is_of_the_part_in_which_its_interval_ends() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    let mut meta = meta(START_UNIX_NS);
    meta.source = Source::Import("iostat".to_owned());
    let writer = RecordingWriter::create(&whole, meta, WriterOptions::default()).unwrap();
    writer.finish(40 * S, RecorderCost::default()).unwrap();
    let mut rates = Vec::new();
    let mut cpu = Vec::new();
    for i in 0..4 {
        let from_ns = 10 * i * S;
        let to_ns = from_ns + 10 * S;
        let mut row = IntervalRates::new(from_ns, to_ns, DevId::new(8, 0));
        row.all.ios_per_s = Some(i as f64);
        rates.push(row);
        cpu.push(CpuShares {
            from_ns,
            to_ns,
            user: Some(1.0),
            ..CpuShares::default()
        });
    }
    write_rates(&whole, &rates.iter().collect(), &cpu, Access::OWNER).unwrap();

    // The second row ends at the cut.
    let first = tmp.path().join("first");
    let second = tmp.path().join("second");
    copy(&first, vec![part(&whole, 0..20 * S)]);
    copy(&second, vec![part(&whole, 20 * S..i64::MAX)]);
    assert_eq!(
        table_rows(&first),
        [vec![(0, 10), (10, 20)], vec![(0, 10), (10, 20)]]
    );
    assert_eq!(
        table_rows(&second),
        [vec![(0, 10), (10, 20)], vec![(0, 10), (10, 20)]]
    );

    // A row that reaches over the cut begins before the part in which it ends.
    let early = tmp.path().join("early");
    let late = tmp.path().join("late");
    copy(&early, vec![part(&whole, 0..25 * S)]);
    copy(&late, vec![part(&whole, 25 * S..i64::MAX)]);
    assert_eq!(table_rows(&early)[0], [(0, 10), (10, 20)]);
    assert_eq!(table_rows(&late)[0], [(-5, 5), (5, 15)]);
    let parts = [late, early].map(|path| CopiedPart::whole(Recording::open(&path).unwrap()));
    let parts = in_order(parts.into_iter().collect()).unwrap();
    let merged = tmp.path().join("merged");
    copy(&merged, parts);
    assert_eq!(read_rates(&merged).unwrap(), rates);
    assert_eq!(read_cpu(&merged).unwrap(), cpu);
}

/// All samples of pressure of a recording.
fn pressure(recording: &Recording) -> Vec<PressureSample> {
    let mut samples = Vec::new();
    for batch in recording.pressure(i64::MIN..i64::MAX) {
        samples.extend(batch.unwrap());
    }
    samples
}

#[test]
fn a_sample_of_pressure_keeps_its_interval_in_a_part_and_is_whole_when_merged() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    let options = WriterOptions::default();
    let mut writer = RecordingWriter::create(&whole, meta(START_UNIX_NS), options).unwrap();
    let mut samples = Vec::new();
    for i in 0..4 {
        samples.push(PressureSample {
            from_ns: i * S,
            to_ns: (i + 1) * S,
            cpus: Some(2),
            cpu_some_ns: Some(S / 3),
            timer_due_ns: Some(i * S + S / 2),
            timer_late_ns: Some(i),
            ..PressureSample::default()
        });
    }
    for sample in &samples {
        writer.push(&Observation::Pressure(*sample)).unwrap();
    }
    writer.finish(4 * S, RecorderCost::default()).unwrap();
    let cut_ns = 2 * S - S / 20;
    let (first, _) = copy(&tmp.path().join("first"), vec![part(&whole, 0..cut_ns)]);
    let rest = vec![part(&whole, cut_ns..i64::MAX)];
    let (second, _) = copy(&tmp.path().join("second"), rest);
    assert_eq!(pressure(&first), samples[..1]);
    let over_the_cut = pressure(&second)[0];
    assert_eq!(
        (over_the_cut.from_ns, over_the_cut.to_ns),
        (S - cut_ns, S / 20)
    );
    assert_eq!(over_the_cut.cpu_some_ns, Some(S / 3));
    let parts = [second, first].into_iter().map(CopiedPart::whole).collect();
    let (merged, _) = copy(&tmp.path().join("merged"), in_order(parts).unwrap());
    assert_eq!(pressure(&merged), samples);
}

/// Adds findings to a recording: from and to in seconds, and whether each is open.
fn put_stalls(recording: &Path, stalls: &[(i64, i64, bool)]) {
    for (from_s, to_s, open) in stalls {
        let finding = StoredFinding {
            from_ns: from_s * S,
            to_ns: to_s * S,
            open: *open,
            kind: "stall".into(),
            ..StoredFinding::default()
        };
        put_finding(recording, Access::OWNER, &finding).unwrap();
    }
}

#[test]
fn findings_end_with_the_copy() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S, 8 * S], &[], 10 * S);
    put_stalls(&whole, &[(0, 3, false), (4, 9, true), (7, 9, true)]);
    let (copy, _) = copy(&tmp.path().join("copy"), vec![part(&whole, 2 * S..6 * S)]);
    let found: Vec<(i64, i64, bool)> = read_findings(copy.path())
        .unwrap()
        .iter()
        .map(|f| (f.from_ns, f.to_ns, f.open))
        .collect();
    assert_eq!(found, [(0, S, false), (2 * S, 4 * S, false)]);
}

#[test]
fn findings_end_with_a_repaired_recording() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S, 8 * S], &[], 10 * S);
    let stalls = [(0, 3, false), (4, 9, true), (7, 12, true), (11, 13, true)];
    put_stalls(&whole, &stalls);
    let to = tmp.path().join("repaired");
    repaired(&whole, &to);
    let found: Vec<(i64, i64, bool)> = read_findings(&to)
        .unwrap()
        .iter()
        .map(|f| (f.from_ns / S, f.to_ns / S, f.open))
        .collect();
    let expected = [
        (0, 3, false),
        (4, 9, false),
        (7, 10, false),
        (11, 11, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_disk_of_a_later_recording_was_added_when_that_began() {
    let tmp = tempfile::tempdir().unwrap();
    let made = |name: &str, start_s: i64, more: Option<Device>| {
        let mut meta = meta(START_UNIX_NS + start_s * S);
        meta.devices.extend(more);
        let path = tmp.path().join(name);
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        writer.finish(10 * S, RecorderCost::default()).unwrap();
        CopiedPart::whole(Recording::open(&path).unwrap())
    };
    let sdb = Device::named("sdb", DevId::new(8, 16));
    let sdc = Device {
        added_ns: Some(3 * S),
        ..Device::named("sdc", DevId::new(8, 32))
    };
    let parts = vec![
        made("first", 0, None),
        made("second", 10, Some(sdb)),
        made("third", 30, Some(sdc)),
    ];
    let (copy, _) = copy(&tmp.path().join("copy"), parts);
    let added: Vec<(&str, Option<i64>)> = copy
        .meta()
        .devices
        .iter()
        .map(|d| (d.name.as_str(), d.added_ns))
        .collect();
    assert_eq!(
        added,
        [("sda", None), ("sdb", Some(10 * S)), ("sdc", Some(33 * S))]
    );
}

#[test]
fn devices_are_described_by_all_recordings() {
    let tmp = tempfile::tempdir().unwrap();
    let made = |name: &str, start_s: i64, sda: Device| {
        let mut meta = meta(START_UNIX_NS + start_s * S);
        meta.devices = vec![sda];
        let path = tmp.path().join(name);
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        writer.finish(10 * S, RecorderCost::default()).unwrap();
        CopiedPart::whole(Recording::open(&path).unwrap())
    };
    let sda = Device::named("sda", DevId::new(8, 0));
    let known = Device {
        size_bytes: Some(1 << 40),
        stable_id: Some("wwn-1".to_owned()),
        removed_ns: Some(4 * S),
        ..sda.clone()
    };
    let parts = vec![made("first", 0, sda), made("second", 10, known.clone())];
    let (copy, _) = copy(&tmp.path().join("copy"), parts);
    let expected = Device {
        removed_ns: Some(14 * S),
        ..known
    };
    assert_eq!(copy.meta().devices, [expected]);
}

#[test]
fn recordings_that_cannot_be_one_are_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let made = |name: &str, start_s: i64, edit: fn(&mut RecordingMeta)| {
        let path = tmp.path().join(name);
        let mut meta = meta(START_UNIX_NS + start_s * S);
        edit(&mut meta);
        let writer = RecordingWriter::create(&path, meta, WriterOptions::default()).unwrap();
        writer.finish(10 * S, RecorderCost::default()).unwrap();
        path
    };
    let first = made("first", 0, |_| {});
    let refused = |path: &Path| {
        let parts = [path, &first].map(|p| CopiedPart::whole(Recording::open(p).unwrap()));
        in_order(parts.into_iter().collect())
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(refused(&made("next", 10, |_| {})), None);
    for (path, why) in [
        (made("overlapping", 8, |_| {}), "2.000 s before"),
        (
            made("of other", 20, |m| m.host = Some("i".to_owned())),
            "of host h and",
        ),
        (
            made("counters", 20, |m| m.source = Source::Counters),
            "has source ebpf and",
        ),
        (
            made("disk", 20, |m| m.devices[0].name = "sdz".to_owned()),
            "device 8:0 is sda in one of them and sdz",
        ),
    ] {
        let e = refused(&path).unwrap();
        assert!(e.contains(why) && !e.contains('\n'), "{e}");
    }
}

#[test]
fn a_copy_appears_whole_or_not_at_all() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S], &[], 2 * S);
    let to = tmp.path().join("copy");
    let failed = write_whole(&to, "testing", |to, interrupt| {
        write_parts(to, &[part(&whole, 0..S)], Access::OWNER, interrupt)?;
        assert!(to.exists());
        bail!("no more")
    });
    let e: Result<()> = failed;
    assert!(format!("{:#}", e.unwrap_err()).contains("copy could not be written: no more"));
    let left: Vec<_> = std::fs::read_dir(tmp.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    std::fs::write(&to, "mine").unwrap();
    let refused = write_whole(&to, "testing", |_, _: &Interrupt| Ok(()));
    assert!(refused.unwrap_err().to_string().contains("exists already"));
    assert_eq!(std::fs::read(&to).unwrap(), b"mine");
}

#[test]
fn a_copy_is_not_written_into_a_recording() {
    let tmp = tempfile::tempdir().unwrap();
    let whole = tmp.path().join("whole");
    record(&whole, &[S], &[], 2 * S);
    let before = files(&whole);
    for to in ["copy", "io/copy"] {
        let refused = write_whole(&whole.join(to), "testing", |_, _: &Interrupt| Ok(()));
        let e = refused.unwrap_err().to_string();
        assert!(e.contains("inside the recording"), "{e}");
    }
    assert_eq!(files(&whole), before);
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn repaired(from: &Path, to: &Path) -> (Held, Repaired) {
    let repaired = write_whole(to, "testing", |to, interrupt| {
        repair(DamagedRecording::open(from)?, to, Access::OWNER, interrupt)
    })
    .unwrap();
    assert_eq!(verify(to).unwrap().damage, [""; 0]);
    let recording = Recording::open(to).unwrap();
    assert_eq!(Some(recording.ios_stored()), repaired.ios);
    (held(&recording), repaired)
}

/// The I/O with what a damaged column leaves unknown taken from the original.
fn completed(io: &Io, original: &Io) -> Io {
    Io {
        queue_ns: io.queue_ns.or(original.queue_ns),
        sector: io.sector.or(original.sector),
        flags: io.flags.or(original.flags),
        error: io.error.or(original.error),
        merges: io.merges.or(original.merges),
        tgid: io.tgid.or(original.tgid),
        comm: io.comm.or(original.comm),
        cgroup: io.cgroup.or(original.cgroup),
        ino: io.ino.or(original.ino),
        generation: io.generation.or(original.generation),
        fs_dev: io.fs_dev.or(original.fs_dev),
        origin: original.origin,
        ..*io
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Bits flipped and files cut: what is saved was recorded, and what is missing is counted.
    #[test]
    fn a_repair_invents_nothing_and_counts_what_is_missing(
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u8, prop::bool::weighted(0.3)),
            1..4,
        ),
    ) {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("r");
        // I/Os at times of their own.
        let done: Vec<i64> = (0..300).map(|i| i * S / 20 + i * 7919 % 10_007).collect();
        let original = held(&record(&path, &done, &[(S, 2 * S)], 20 * S));
        let all = files(&path);
        for (file, at, bit, is_cut) in damage {
            let file = file.get(&all);
            let mut bytes = std::fs::read(file).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            if is_cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << bit;
            }
            std::fs::write(file, bytes).unwrap();
        }
        let is_damaged = !verify(&path).unwrap().damage.is_empty();
        let to = tmp.path().join("repaired");
        let (saved, report) = repaired(&path, &to);
        prop_assert_eq!(!report.damage.is_empty(), is_damaged);
        // Without a description the start is not known: times count from it.
        let start_ns = original.span.0 - saved.span.0;
        let mut last_ns = i64::MIN;
        for io in &saved.ios {
            let same = original.ios.iter().find(|o| o.done_ns == io.done_ns + start_ns).unwrap();
            let moved = Io { done_ns: io.done_ns + start_ns, ..*io };
            prop_assert_eq!(&completed(&moved, same), same);
            prop_assert!(io.done_ns > last_ns, "none twice, in order");
            last_ns = io.done_ns;
        }
        let missing = (original.ios.len() - saved.ios.len()) as u64;
        if missing > 0 {
            prop_assert!(report.damaged_ios.is_none_or(|n| n == missing), "{missing}: {report:?}");
            prop_assert_ne!(report.damaged_ios, Some(0));
        }
        for mark in &saved.marks {
            prop_assert!(original.marks.contains(&(mark.0 + start_ns, mark.1.clone())));
        }
        for counters in &saved.counters {
            prop_assert!(original.counters.contains(&(counters.0 + start_ns, counters.1)));
        }
        let recorded = |recording: &Held| {
            let of_ring = recording.losses.iter().filter(|(_, ios)| *ios == Some(3));
            of_ring.count()
        };
        prop_assert!(recorded(&saved) <= recorded(&original) || missing == 3);
    }
}

#[test]
fn a_damaged_optional_column_costs_its_values_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("r");
    let done: Vec<i64> = (0..50).map(|i| i * S / 100).collect();
    let original = held(&record(&path, &done, &[], S));
    let segment = path.join("io/000001.parquet");
    let bytes = std::fs::read(&segment).unwrap();
    let mut costs = std::collections::BTreeSet::new();
    for at in (4..bytes.len() / 2).step_by(16) {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        std::fs::write(&segment, &bad).unwrap();
        let to = tmp.path().join(format!("to-{at}"));
        let (saved, report) = repaired(&path, &to);
        assert_eq!(report.damage.len(), 1, "{report:?}");
        costs.insert(original.ios.len() - saved.ios.len());
    }
    assert!(
        costs.contains(&0) && costs.contains(&50) && costs.len() == 2,
        "{costs:?}"
    );
}

#[test]
fn a_recording_without_a_description_is_saved_and_anything_else_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("r");
    record(&path, &[S, 2 * S], &[], 3 * S);

    // One of the two descriptions is enough.
    std::fs::remove_file(path.join("meta.json")).unwrap();
    let opened = Recording::open(&path).unwrap();
    let [warning] = opened.warnings() else {
        panic!("{:?}", opened.warnings());
    };
    assert_eq!(
        *warning,
        format!(
            "{}/meta.json: is missing; its copy meta.json.bak is used",
            path.display()
        )
    );

    std::fs::remove_file(path.join("meta.json.bak")).unwrap();
    let refused = Recording::open(&path).unwrap_err().to_string();
    assert!(
        refused.contains("only tables, which iolens repair saves"),
        "{refused}"
    );
    let (saved, report) = repaired(&path, &tmp.path().join("saved"));
    assert_eq!(saved.ios.len(), 2);
    assert_eq!(
        report.damage,
        [format!(
            "{}/meta.json: is missing, and no copy of it can be read",
            path.display()
        )]
    );

    let empty = tmp.path().join("empty");
    std::fs::create_dir_all(empty.join("io")).unwrap();
    for nothing in [empty, tmp.path().join("absent")] {
        let refused = format!("{:#}", DamagedRecording::open(&nothing).unwrap_err());
        assert!(
            refused.contains("not a recording") && !refused.contains('\n'),
            "{refused}"
        );
    }
}
